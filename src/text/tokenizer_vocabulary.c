// SPDX-License-Identifier: MIT
// A tokenizer from arrays in memory, as GGUF files have them.
#include "base/argument_check.h"
#include "base/sized_struct.h"
#include "text/tokenizer_files.h"
#include "text/tokenizer_patterns.h"
#include "text/tokenizer_sentencepiece.h"
#include <stdio.h>

#define CHECK(status, call)                                                                        \
    do {                                                                                           \
        if ((status) == MH_OK)                                                                     \
            (status) = (call);                                                                     \
    } while (0)

// ---- byte-level BPE -----------------------------------------------------------------------------

static mh_status add_pre_tokenizer(const mh_build *b, const char *name)
{
    static const struct {
        const char *name;
        mh_pattern pattern;
        bool digits; // each by itself first
    } known[] = {
        {"gpt-2", MH_PATTERN_GPT2, false},
        {"default", MH_PATTERN_GPT2, false},
        {"llama-bpe", MH_PATTERN_LLAMA3, false},
        {"llama3", MH_PATTERN_LLAMA3, false},
        {"qwen2", MH_PATTERN_QWEN2, false},
        {"smollm", MH_PATTERN_GPT2, true},
        {"gpt-4o", MH_PATTERN_O200K, false},
        {"llama-v3", MH_PATTERN_LLAMA3, false},
        {"phi-2", MH_PATTERN_GPT2, false},
        {"mpt", MH_PATTERN_GPT2, false},
        {"olmo", MH_PATTERN_GPT2, false},
        {"starcoder", MH_PATTERN_GPT2, true},
        {"refact", MH_PATTERN_GPT2, true},
        {"command-r", MH_PATTERN_GPT2, true},
        {"deepseek-r1-qwen", MH_PATTERN_QWEN2, false},
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        mh_status status = MH_OK;
        if (strcmp(known[i].name, name) != 0)
            continue;
        if (known[i].digits)
            status =
                mh_build_component(b, &b->t->parts.pre_tokenizers,
                                   (mh_component){.kind = MH_SPLIT_DIGITS, .individual = true});
        CHECK(status, mh_build_byte_level(b, (int)known[i].pattern, false));
        return status;
    }
    char names[256] = "";
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        const size_t used = strlen(names);
        snprintf(names + used, sizeof names - used, "%s%s", used ? ", " : "", known[i].name);
    }
    return mh_source_fail(b->source, MH_ERROR_UNSUPPORTED,
                          "pre-tokenizer %s is not known, expected one of: %s",
                          mh_quote_string(name).text, names);
}

static mh_status tokenizer_vocabulary_add_merges(const mh_build *b, const mh_vocabulary *v)
{
    mh_status status = MH_OK;
    for (size_t i = 0; status == MH_OK && i < v->merge_count; i++) {
        mh_text merge = v->merges[i];
        // a token may begin with a space only in its name's first place, so look from the second
        const char *space = merge.size > 1 ? memchr(merge.bytes + 1, ' ', merge.size - 1) : NULL;
        if (!space)
            return mh_source_fail(b->source, MH_ERROR_FORMAT,
                                  "merge %zu: found %s, expected two tokens with a space between",
                                  i, mh_quote(merge.bytes, merge.size).text);
        size_t left = (size_t)(space - merge.bytes);
        status = mh_build_merge(b, i, (mh_text){merge.bytes, left},
                                (mh_text){space + 1, merge.size - left - 1});
    }
    return status;
}

static int type_of(const mh_vocabulary *v, size_t id)
{
    return v->types ? v->types[id] : MH_SP_NORMAL;
}

static mh_status add_byte_level(const mh_build *b, const mh_vocabulary *v)
{
    mh_components *p = &b->t->parts;
    mh_status status = MH_OK;
    p->model = MH_MODEL_BPE;
    p->byte_level = true;
    for (size_t id = 0; status == MH_OK && id < v->count; id++)
        if (v->tokens[id].size > 0)
            status = mh_build_token(b, (int64_t)id, v->tokens[id]);
    CHECK(status, mh_build_vocabulary(b));
    CHECK(status, tokenizer_vocabulary_add_merges(b, v));
    for (size_t id = 0; status == MH_OK && id < v->count; id++) {
        int type = type_of(v, id);
        if ((type == MH_SP_CONTROL || type == MH_SP_USER_DEFINED) && v->tokens[id].size > 0)
            status = mh_build_added(b, (int64_t)id, v->tokens[id],
                                    (mh_added_token){.special = type == MH_SP_CONTROL});
    }
    p->ignore_merges = v->pre_tokenizer && strncmp(v->pre_tokenizer, "llama", 5) == 0;
    CHECK(status, add_pre_tokenizer(b, v->pre_tokenizer ? v->pre_tokenizer : "gpt-2"));
    return status;
}

// ---- SentencePiece's BPE ------------------------------------------------------------------------

static mh_status add_llama(const mh_build *b, const mh_vocabulary *v)
{
    mh_sp_model model = {.bpe = true,
                         .byte_fallback = true,
                         .escape_spaces = true,
                         .dummy_prefix = v->add_space_prefix,
                         .charsmap = {"", 0}};
    if (!v->scores)
        return mh_source_fail(b->source, MH_ERROR_ARGUMENT, "scores: found NULL");
    if (!mh_grow(b->source->context, &model.pieces, &model.capacity, v->count,
                 sizeof *model.pieces))
        return MH_ERROR_MEMORY;
    mh_status status = MH_OK;
    for (size_t id = 0; status == MH_OK && id < v->count; id++) {
        int type = type_of(v, id);
        if (type < MH_SP_NORMAL || type > MH_SP_BYTE || !(v->scores[id] == v->scores[id]))
            status = mh_source_fail(b->source, MH_ERROR_FORMAT,
                                    "token %zu: type %d, expected %d to %d, or no score", id, type,
                                    MH_SP_NORMAL, MH_SP_BYTE);
        else
            model.pieces[model.count++] =
                (mh_sp_piece){v->tokens[id], v->scores[id], (uint8_t)type};
    }
    CHECK(status, mh_sp_build(b, &model));
    // unlike in SentencePiece's own programs, a control token in a text counts
    for (size_t id = 0; status == MH_OK && id < v->count; id++)
        if (type_of(v, id) == MH_SP_CONTROL && v->tokens[id].size > 0)
            status =
                mh_build_added(b, (int64_t)id, v->tokens[id], (mh_added_token){.special = true});
    mh_sp_free(b->source->context, &model);
    return status;
}

// ---- WordPiece ----------------------------------------------------------------------------------

// "\xE2\x96\x81the" is the token "the", and "ing" the token "##ing"; special tokens are as they
// are.
static mh_status add_bert(const mh_build *b, const mh_vocabulary *v)
{
    static const char mark[] = "\xE2\x96\x81";
    enum { MARK = sizeof mark - 1 };
    char name[MH_TOKEN_BYTES_MAX];
    const mh_tokenizer_settings none = {NULL, NULL, NULL};
    mh_status status = MH_OK;
    b->t->parts.model = MH_MODEL_WORDPIECE;
    b->t->parts.max_chars = 100;
    for (size_t id = 0; status == MH_OK && id < v->count; id++) {
        mh_text token = v->tokens[id];
        const bool word = token.size >= MARK && memcmp(token.bytes, mark, MARK) == 0;
        const bool special = type_of(v, id) == MH_SP_CONTROL || type_of(v, id) == MH_SP_UNKNOWN;
        if (word)
            token = (mh_text){token.bytes + MARK, token.size - MARK};
        if (!word && !special && token.size + 2 <= sizeof name) {
            memcpy(name, "##", 2);
            memcpy(name + 2, token.bytes, token.size);
            token = (mh_text){name, token.size + 2};
        }
        status = mh_build_token(b, (int64_t)id, token);
    }
    CHECK(status, mh_build_vocabulary(b));
    CHECK(status, mh_build_bert(b, &none));
    return status;
}

// ---- all ----------------------------------------------------------------------------------------

static mh_status tokenizer_vocabulary_check(const mh_build *b, const mh_vocabulary *v)
{
    const struct {
        const char *name;
        int32_t id;
    } roles[] = {{"bos", v->bos}, {"eos", v->eos}, {"unknown", v->unknown}, {"pad", v->pad}};
    for (size_t i = 0; i < v->count; i++)
        if (!v->tokens[i].bytes && v->tokens[i].size > 0)
            return mh_source_fail(b->source, MH_ERROR_ARGUMENT, "token %zu: found NULL", i);
    for (size_t i = 0; i < v->merge_count; i++)
        if (!v->merges[i].bytes)
            return mh_source_fail(b->source, MH_ERROR_ARGUMENT, "merge %zu: found NULL", i);
    for (size_t i = 0; i < sizeof roles / sizeof *roles; i++)
        if (roles[i].id < -1 || (roles[i].id >= 0 && (size_t)roles[i].id >= v->count))
            return mh_source_fail(b->source, MH_ERROR_FORMAT, "%s: found %d, expected -1 to %zu",
                                  roles[i].name, roles[i].id, v->count - 1);
    return MH_OK;
}

static mh_status tokenizer_vocabulary_build(const mh_build *b, const mh_vocabulary *v)
{
    mh_tokenizer *t = b->t;
    mh_status status = tokenizer_vocabulary_check(b, v);
    if (v->model == MH_VOCABULARY_BERT) {
        CHECK(status, add_bert(b, v)); // with its own template and special tokens
        CHECK(status, mh_build_finish(b));
        if (status == MH_OK)
            mh_build_roles(t);
        return status;
    }
    CHECK(status, v->model == MH_VOCABULARY_LLAMA ? add_llama(b, v) : add_byte_level(b, v));
    CHECK(status, mh_build_templates(b, v->add_bos ? v->bos : -1, v->add_eos ? v->eos : -1,
                                     v->add_bos ? v->bos : -1, 1));
    if (status == MH_OK && v->unknown >= 0)
        t->parts.unk = v->unknown;
    CHECK(status, mh_build_finish(b));
    if (status != MH_OK)
        return status;
    t->roles[MH_ROLE_BOS] = v->bos;
    t->roles[MH_ROLE_EOS] = v->eos;
    t->roles[MH_ROLE_UNKNOWN] = v->unknown;
    t->roles[MH_ROLE_PAD] = v->pad;
    mh_build_roles(t);
    return MH_OK;
}

mh_status mh_tokenizer_from_vocabulary(mh_context *context, const char *name,
                                       const mh_vocabulary *vocabulary, mh_tokenizer **tokenizer)
{
    if (tokenizer)
        *tokenizer = NULL;
    if (MH_NEED(context, {"name", name}, {"vocabulary", vocabulary}, {"tokenizer", tokenizer}))
        return MH_ERROR_ARGUMENT;
    mh_vocabulary own = mh_vocabulary_default();
    const mh_vocabulary *v = &own;
    mh_status status = MH_READ_STRUCT(context, mh_vocabulary, vocabulary, &own);
    if (status != MH_OK)
        return status;
    if (!v->tokens || v->count == 0 || v->count > MH_TOKENS_MAX || (!v->merges && v->merge_count))
        return mh_fail(
            context, MH_ERROR_ARGUMENT,
            "vocabulary: found %zu tokens, expected 1 to %d, and merges that are not NULL",
            v->tokens ? v->count : 0, MH_TOKENS_MAX);
    const mh_source source = {.context = context, .name = name};
    const mh_build b = {&source, mh_tokenizer_create(context)};
    status = b.t ? tokenizer_vocabulary_build(&b, v) : MH_ERROR_MEMORY;
    if (status == MH_OK)
        *tokenizer = b.t;
    else
        mh_tokenizer_free(b.t);
    return status;
}
