// SPDX-License-Identifier: MIT
// vocab.txt, vocab.json with merges.txt, and tiktoken's ranks; see tokenizer_files.h.
#include "text/tokenizer_files.h"

#include "base/argument_check.h"
#include "text/base64.h"
#include "text/byte_level.h"
#include "text/tokenizer_json.h"
#include "text/tokenizer_patterns.h"
#include "text/tokenizer_sentencepiece.h"
#include "text/utf8.h"

#define FAIL(b, ...) mh_source_fail((b)->source, MH_ERROR_FORMAT, __VA_ARGS__)
#define CHECK(status, call)                                                                        \
    do {                                                                                           \
        if ((status) == MH_OK)                                                                     \
            (status) = (call);                                                                     \
    } while (0)

// The next line of a file without its end; false at the end.
static bool next_line(const mh_source *source, size_t *at, mh_text *line)
{
    const char *text = (const char *)source->bytes;
    if (*at >= source->size)
        return false;
    const char *newline = memchr(text + *at, '\n', source->size - *at);
    size_t end = newline ? (size_t)(newline - text) : source->size;
    *line = (mh_text){text + *at, end - *at};
    *at = end + 1;
    if (line->size > 0 && line->bytes[line->size - 1] == '\r')
        line->size--;
    return true;
}

// ---- WordPiece ----------------------------------------------------------------------------------

mh_status mh_build_bert(const mh_build *b, const mh_tokenizer_settings *s)
{
    mh_components *p = &b->t->parts;
    bool lower = mh_setting(s, "do_lower_case", true);
    mh_component normalizer = {.kind = MH_NORMALIZE_BERT,
                               .clean = true,
                               .lowercase = lower,
                               .accents = mh_setting(s, "strip_accents", lower),
                               .chinese = mh_setting(s, "tokenize_chinese_chars", true)};
    mh_component decoder = {.kind = MH_DECODE_WORDPIECE, .cleanup = true};
    int32_t cls = -1, sep = -1;
    mh_status status = mh_build_text(b, "##", 2, &p->prefix);
    decoder.text = p->prefix;
    CHECK(status, mh_build_find(b, "special token", (mh_text){"[UNK]", 5}, &p->unk));
    CHECK(status, mh_build_find(b, "special token", (mh_text){"[CLS]", 5}, &cls));
    CHECK(status, mh_build_find(b, "special token", (mh_text){"[SEP]", 5}, &sep));
    CHECK(status, mh_build_component(b, &p->normalizers, normalizer));
    CHECK(status, mh_build_component(b, &p->pre_tokenizers, (mh_component){.kind = MH_SPLIT_BERT}));
    CHECK(status, mh_build_component(b, &p->decoders, decoder));
    CHECK(status, mh_build_templates(b, cls, sep, -1, 1));
    CHECK(status, mh_build_special(b, "[PAD]", MH_ROLE_PAD));
    CHECK(status, mh_build_special(b, "[UNK]", MH_ROLE_UNKNOWN));
    CHECK(status, mh_build_special(b, "[CLS]", MH_ROLE_CLS));
    CHECK(status, mh_build_special(b, "[SEP]", MH_ROLE_SEP));
    CHECK(status, mh_build_special(b, "[MASK]", MH_ROLE_MASK));
    return status;
}

mh_status mh_read_vocab_txt(const mh_build *b, const mh_tokenizer_settings *s)
{
    mh_status status = MH_OK;
    size_t at = 0;
    mh_text line;
    b->t->parts.model = MH_MODEL_WORDPIECE;
    b->t->parts.max_chars = 100;
    for (int64_t id = 0; status == MH_OK && next_line(b->source, &at, &line); id++) {
        line.size = mh_white_begin(
            line.bytes, mh_utf8_valid(line.bytes, line.size) == line.size ? line.size : 0);
        status = mh_build_token(b, id, line);
    }
    CHECK(status, mh_build_vocabulary(b));
    CHECK(status, mh_read_added_settings(b, s));
    CHECK(status, mh_build_bert(b, s));
    return status;
}

// ---- byte-level BPE -----------------------------------------------------------------------------

mh_status mh_build_byte_level(const mh_build *b, int pattern, bool prefix_space)
{
    mh_components *p = &b->t->parts;
    mh_component split = {.kind = MH_SPLIT_PATTERN, .pattern = (uint8_t)pattern};
    mh_component bytes = {.kind = MH_SPLIT_BYTE_LEVEL,
                          .prefix_space = prefix_space,
                          .use_regex = pattern == MH_PATTERN_GPT2};
    mh_status status = MH_OK;
    if (pattern != MH_PATTERN_GPT2)
        status = mh_build_component(b, &p->pre_tokenizers, split);
    CHECK(status, mh_build_component(b, &p->pre_tokenizers, bytes));
    CHECK(status,
          mh_build_component(b, &p->decoders, (mh_component){.kind = MH_DECODE_BYTE_LEVEL}));
    return status;
}

static mh_status tokenizer_files_read_merges(const mh_build *b, const mh_source *merges)
{
    mh_status status = MH_OK;
    size_t at = 0, rank = 0;
    mh_text line;
    while (status == MH_OK && next_line(merges, &at, &line)) {
        const char *space = line.size > 0 ? memchr(line.bytes, ' ', line.size) : NULL;
        if (line.size == 0 || (line.size >= 8 && memcmp(line.bytes, "#version", 8) == 0))
            continue;
        if (!space)
            return mh_source_fail(merges, MH_ERROR_FORMAT,
                                  "line %s: expected two tokens with a space between",
                                  mh_quote(line.bytes, line.size).text);
        size_t left = (size_t)(space - line.bytes);
        status = mh_build_merge(b, rank++, (mh_text){line.bytes, left},
                                (mh_text){space + 1, line.size - left - 1});
    }
    return status;
}

static mh_status tokenizer_files_read_vocabulary(const mh_build *b)
{
    const char *name;
    json_t *id, *root = NULL;
    mh_status status = mh_tokenizer_json_tree(b->source, &root);
    if (status == MH_OK && !json_is_object(root))
        status = FAIL(b, "expected an object of tokens and ids");
    json_object_foreach(root, name, id)
    {
        if (status == MH_OK && !json_is_integer(id))
            status = FAIL(b, "token %s has no integer for its id", mh_quote_string(name).text);
        if (status == MH_OK &&
            json_integer_value(id) > 2 * (json_int_t)json_object_size(root) + 65536)
            status = FAIL(b, "token %s has id %lld, which is too large", mh_quote_string(name).text,
                          (long long)json_integer_value(id));
        CHECK(status, mh_build_token(b, json_integer_value(id), (mh_text){name, strlen(name)}));
    }
    json_decref(root);
    CHECK(status, mh_build_vocabulary(b));
    return status;
}

static mh_status build_clip(const mh_build *b)
{
    mh_components *p = &b->t->parts;
    mh_component space = {.kind = MH_NORMALIZE_REPLACE, .pattern = MH_PATTERN_WHITE};
    mh_component split = {.kind = MH_SPLIT_PATTERN,
                          .pattern = MH_PATTERN_CLIP,
                          .behaviour = MH_SPLIT_REMOVED,
                          .invert = true};
    int32_t bos = -1, eos = -1;
    mh_status status = mh_build_text(b, " ", 1, &space.content);
    CHECK(status, mh_build_component(b, &p->normalizers, (mh_component){.kind = MH_NORMALIZE_NFC}));
    CHECK(status, mh_build_component(b, &p->normalizers, space));
    CHECK(status,
          mh_build_component(b, &p->normalizers, (mh_component){.kind = MH_NORMALIZE_LOWERCASE}));
    CHECK(status, mh_build_component(b, &p->pre_tokenizers, split));
    CHECK(status, mh_build_byte_level(b, MH_PATTERN_GPT2, false));
    CHECK(status, mh_build_special(b, "<|startoftext|>", MH_ROLE_BOS));
    CHECK(status, mh_build_special(b, "<|endoftext|>", MH_ROLE_EOS));
    CHECK(status, mh_build_find(b, "special token", (mh_text){"<|startoftext|>", 15}, &bos));
    CHECK(status, mh_build_find(b, "special token", (mh_text){"<|endoftext|>", 13}, &eos));
    CHECK(status, mh_build_templates(b, bos, eos, eos, 0));
    b->t->parts.unk = eos; // of a character at a word's end that is no token there
    return status;
}

static mh_status build_roberta(const mh_build *b, const mh_tokenizer_settings *s)
{
    const mh_text mask = {"<mask>", 6};
    int32_t cls = -1, sep = -1;
    bool prefix = mh_setting(s, "add_prefix_space", false);
    size_t id = mh_tokenizer_find_name(b->t, mask.bytes, mask.size);
    mh_status status = mh_build_byte_level(b, MH_PATTERN_GPT2, prefix);
    CHECK(status, mh_build_special(b, "<s>", MH_ROLE_BOS));
    CHECK(status, mh_build_special(b, "<pad>", MH_ROLE_PAD));
    CHECK(status, mh_build_special(b, "</s>", MH_ROLE_EOS));
    CHECK(status, mh_build_special(b, "<unk>", MH_ROLE_UNKNOWN));
    if (status == MH_OK && id != SIZE_MAX)
        status =
            mh_build_added(b, (int64_t)id, mask, (mh_added_token){.special = true, .left = true});
    CHECK(status, mh_build_special(b, "<mask>", MH_ROLE_MASK));
    CHECK(status, mh_build_find(b, "special token", (mh_text){"<s>", 3}, &cls));
    CHECK(status, mh_build_find(b, "special token", (mh_text){"</s>", 4}, &sep));
    CHECK(status, mh_build_templates(b, cls, sep, sep, 0));
    b->t->parts.trim = true;
    b->t->parts.trim_prefix = prefix;
    b->t->roles[MH_ROLE_CLS] = cls;
    b->t->roles[MH_ROLE_SEP] = sep;
    return status;
}

mh_status mh_read_vocab_merges(const mh_build *b, const mh_source *merges,
                               const mh_tokenizer_settings *s)
{
    mh_components *p = &b->t->parts;
    const bool clip = mh_setting_is(s, "clip"), roberta = mh_setting_is(s, "roberta");
    p->model = MH_MODEL_BPE;
    p->byte_level = true;
    mh_status status = MH_OK;
    if (clip)
        status = mh_build_text(b, "</w>", 4, &p->suffix);
    CHECK(status, tokenizer_files_read_vocabulary(b));
    CHECK(status, tokenizer_files_read_merges(b, merges));
    CHECK(status, mh_read_added_settings(b, s));
    if (clip || roberta) {
        CHECK(status, clip ? build_clip(b) : build_roberta(b, s));
        return status;
    }
    int pattern = mh_setting_is(s, "qwen2") ? MH_PATTERN_QWEN2 : MH_PATTERN_GPT2;
    if (pattern == MH_PATTERN_QWEN2)
        CHECK(status,
              mh_build_component(b, &p->normalizers, (mh_component){.kind = MH_NORMALIZE_NFC}));
    CHECK(status, mh_build_byte_level(b, pattern, mh_setting(s, "add_prefix_space", false)));
    CHECK(status, mh_build_special(b, "<|endoftext|>", MH_ROLE_EOS));
    return status;
}

// ---- tiktoken -----------------------------------------------------------------------------------

static mh_status read_rank(const mh_build *b, mh_text line, mh_buffer *bytes, int64_t *rank)
{
    const char *space = memchr(line.bytes, ' ', line.size);
    size_t size = space ? (size_t)(space - line.bytes) : line.size;
    *rank = 0;
    bool number = space && size + 1 < line.size && line.size - size < 12;
    for (size_t i = size + 1; number && i < line.size; i++) {
        number = line.bytes[i] >= '0' && line.bytes[i] <= '9';
        *rank = 10 * *rank + (line.bytes[i] - '0');
    }
    if (!number || *rank >= MH_TOKENS_MAX)
        return FAIL(b, "line %s: expected base64, a space and a rank below %d",
                    mh_quote(line.bytes, line.size).text, MH_TOKENS_MAX);
    return mh_build_fail(b, mh_base64_decode(b->source->context, line.bytes, size, bytes));
}

static mh_status place_rank(const mh_build *b, int64_t rank, const mh_buffer *bytes)
{
    char name[2 * MH_TOKEN_BYTES_MAX];
    size_t size = 0;
    if (bytes->size == 0 || bytes->size > MH_TOKEN_BYTES_MAX / 2)
        return FAIL(b, "rank %lld: a token of %zu bytes, expected 1 to %d", (long long)rank,
                    bytes->size, MH_TOKEN_BYTES_MAX / 2);
    for (size_t i = 0; i < bytes->size; i++)
        size += mh_utf8_encode(mh_byte_character((unsigned char)bytes->data[i]), name + size);
    return mh_build_token(b, rank, (mh_text){name, size});
}

static mh_status merge_ranks(const mh_build *b)
{
    size_t bytes = b->t->count * sizeof(uint32_t);
    uint32_t *ranks = mh_alloc(b->source->context, bytes);
    if (!ranks)
        return MH_ERROR_MEMORY;
    for (size_t id = 0; id < b->t->count; id++)
        ranks[id] = b->t->tokens[id].size > 1 ? (uint32_t)id : UINT32_MAX;
    mh_status status = mh_build_all_merges(b, ranks);
    mh_free(b->source->context, ranks, bytes);
    return status;
}

mh_status mh_read_tiktoken(const mh_build *b)
{
    static const char end[] = "<|endoftext|>";
    mh_components *p = &b->t->parts;
    mh_buffer bytes = {0};
    mh_text line;
    mh_status status = MH_OK;
    size_t at = 0, lines = 0;
    p->model = MH_MODEL_BPE;
    p->byte_level = p->ignore_merges = true;
    while (status == MH_OK && next_line(b->source, &at, &line)) {
        int64_t rank;
        if (line.size == 0)
            continue;
        lines++;
        status = read_rank(b, line, &bytes, &rank);
        if (status == MH_OK && (size_t)rank > 2 * lines + 65536)
            status = FAIL(b, "rank %lld on line %zu", (long long)rank, lines);
        CHECK(status, place_rank(b, rank, &bytes));
    }
    mh_buffer_free(b->source->context, &bytes);
    CHECK(status, mh_build_vocabulary(b));
    CHECK(status, merge_ranks(b));
    CHECK(status, mh_build_byte_level(b, MH_PATTERN_GPT2, false));
    CHECK(status, mh_build_added(b, (int64_t)b->t->count, (mh_text){end, sizeof end - 1},
                                 (mh_added_token){.special = true}));
    CHECK(status, mh_build_special(b, end, MH_ROLE_EOS));
    return status;
}

// ---- Marian -------------------------------------------------------------------------------------

// ">>fra<<" in front of a text is a token of vocab.json.
static mh_status add_languages(const mh_build *b)
{
    mh_status status = MH_OK;
    for (size_t id = 0; status == MH_OK && id < b->t->count; id++) {
        char copy[MH_TOKEN_BYTES_MAX];
        mh_text name = mh_token_name(b->t, id);
        if (name.size < 5 || memcmp(name.bytes, ">>", 2) != 0 ||
            memcmp(name.bytes + name.size - 2, "<<", 2) != 0)
            continue;
        memcpy(copy, name.bytes, name.size);
        status = mh_build_added(b, (int64_t)id, (mh_text){copy, name.size},
                                (mh_added_token){.special = true, .right = true});
    }
    return status;
}

mh_status mh_read_marian(const mh_build *b, const mh_source *spm)
{
    mh_template *single = &b->t->parts.single_text, *pair = &b->t->parts.pair;
    mh_sp_model model = {0};
    int32_t eos = -1;
    mh_status status = tokenizer_files_read_vocabulary(b);
    CHECK(status, mh_build_find(b, "special token", (mh_text){"<unk>", 5}, &b->t->parts.unk));
    CHECK(status, mh_build_find(b, "special token", (mh_text){"</s>", 4}, &eos));
    CHECK(status, mh_sp_read(spm, &model));
    CHECK(status, mh_sp_build_pieces(&(mh_build){spm, b->t}, &model));
    CHECK(status, mh_sp_build_components(&(mh_build){spm, b->t}, &model));
    mh_sp_free(spm->context, &model);
    for (size_t i = 0; i < b->t->parts.normalizers.count; i++)
        b->t->parts.normalizers.items[i].first = false; // a text begins behind its language, too
    CHECK(status, add_languages(b));
    CHECK(status, mh_build_special(b, "</s>", MH_ROLE_EOS));
    CHECK(status, mh_build_special(b, "<pad>", MH_ROLE_PAD));
    CHECK(status, mh_build_special(b, "<unk>", MH_ROLE_UNKNOWN));
    CHECK(status, mh_build_template(b, single, MH_FIRST_TEXT, 0));
    CHECK(status, mh_build_template(b, single, eos, 0));
    CHECK(status, mh_build_template(b, pair, MH_FIRST_TEXT, 0));
    CHECK(status, mh_build_template(b, pair, MH_SECOND_TEXT, 0));
    CHECK(status, mh_build_template(b, pair, eos, 0));
    return status;
}
