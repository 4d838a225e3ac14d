// SPDX-License-Identifier: MIT
// A tokenizer.json: its model with the vocabulary, its added tokens, and the order in which all is
// read. The pre-tokenizer comes first, because it decides whether tokens are bytes.
#include "text/tokenizer_json.h"

#include "text/tokenizer_rules.h"

#include <math.h>
#include <stdio.h>

#define FAIL(b, ...) mh_source_fail((b)->source, MH_ERROR_FORMAT, __VA_ARGS__)
#define CHECK(status, call)                                                                        \
    do {                                                                                           \
        if ((status) == MH_OK)                                                                     \
            (status) = (call);                                                                     \
    } while (0)

enum { AFFIX_MAX = 64, GAP_MAX = 65536 };

// ---- vocabularies -------------------------------------------------------------------------------

// {"name": id, ...}. Ids may leave some out, but not many more than there are.
static mh_status tokenizer_json_read_vocabulary(const mh_build *b, json_t *vocabulary)
{
    const char *name;
    json_t *id;
    if (!json_is_object(vocabulary))
        return FAIL(b, "model.vocab: found %s, expected an object",
                    mh_json_describe(vocabulary).text);
    size_t most = 2 * json_object_size(vocabulary) + GAP_MAX;
    json_object_foreach(vocabulary, name, id)
    {
        if (!json_is_integer(id))
            return FAIL(b, "the id of token %s is %s, expected an integer",
                        mh_quote_string(name).text, mh_json_describe(id).text);
        if (json_integer_value(id) > (json_int_t)most)
            return FAIL(b, "token %s has id %lld, expected at most %zu", mh_quote_string(name).text,
                        (long long)json_integer_value(id), most);
        mh_status status = mh_build_token(b, json_integer_value(id), (mh_text){name, strlen(name)});
        if (status != MH_OK)
            return status;
    }
    return mh_build_vocabulary(b);
}

// [["name", score], ...], in order of the ids.
static mh_status read_scores(const mh_build *b, json_t *vocabulary)
{
    mh_components *parts = &b->t->parts;
    json_t *entry;
    size_t id, count = json_array_size(vocabulary);
    if (!json_is_array(vocabulary))
        return FAIL(b, "model.vocab: found %s, expected a list", mh_json_describe(vocabulary).text);
    if (!mh_grow(b->source->context, &parts->scores, &parts->score_capacity, count + 1,
                 sizeof *parts->scores))
        return MH_ERROR_MEMORY;
    memset(parts->scores, 0, parts->score_capacity * sizeof *parts->scores);
    json_array_foreach(vocabulary, id, entry)
    {
        const json_t *name = json_array_get(entry, 0), *score = json_array_get(entry, 1);
        if (!json_is_string(name) || !json_is_number(score) || !isfinite(json_number_value(score)))
            return FAIL(b, "model.vocab[%zu]: found %s, expected a list of a string and a number",
                        id, mh_json_describe(entry).text);
        mh_status status = mh_build_token(
            b, (int64_t)id, (mh_text){json_string_value(name), json_string_length(name)});
        if (status != MH_OK)
            return status;
        parts->scores[id] = json_number_value(score);
    }
    return mh_build_vocabulary(b);
}

static mh_status read_unknown(const mh_build *b, json_t *model, bool needed)
{
    mh_text name = {NULL, 0};
    mh_status status = mh_json_string_member(b, "model", model, "unk_token", needed, &name);
    if (status != MH_OK || !name.bytes)
        return status;
    size_t id = mh_tokenizer_find_name(b->t, name.bytes, name.size);
    if (id != SIZE_MAX)
        b->t->parts.unk = (int32_t)id; // else it is an error when it is needed
    return MH_OK;
}

// ---- BPE ----------------------------------------------------------------------------------------

bool mh_json_split_merge(const json_t *merge, mh_text *left, mh_text *right)
{
    const json_t *first = json_array_get(merge, 0), *second = json_array_get(merge, 1);
    if (json_is_array(merge)) {
        *left = (mh_text){json_string_value(first), json_string_length(first)};
        *right = (mh_text){json_string_value(second), json_string_length(second)};
        return json_array_size(merge) == 2 && left->bytes && right->bytes;
    }
    const char *text = json_string_value(merge), *space = text ? strchr(text, ' ') : NULL;
    if (!space || strchr(space + 1, ' '))
        return false;
    *left = (mh_text){text, (size_t)(space - text)};
    *right = (mh_text){space + 1, strlen(space + 1)};
    return true;
}

static mh_status tokenizer_json_read_merges(const mh_build *b, json_t *merges)
{
    json_t *merge;
    size_t rank;
    if (!json_is_array(merges))
        return FAIL(b, "model.merges: found %s, expected a list", mh_json_describe(merges).text);
    json_array_foreach(merges, rank, merge)
    {
        mh_text left, right;
        if (!mh_json_split_merge(merge, &left, &right))
            return FAIL(b, "merge %zu: found %s, expected two tokens with a space between", rank,
                        mh_json_describe(merge).text);
        mh_status status = mh_build_merge(b, rank, left, right);
        if (status != MH_OK)
            return status;
    }
    return MH_OK;
}

static mh_status check_dropout(const mh_build *b, const json_t *dropout)
{
    if (!dropout || json_is_null(dropout) ||
        (json_is_number(dropout) && json_number_value(dropout) == 0))
        return MH_OK;
    return FAIL(b, "model.dropout: found %s, expected null or 0", mh_json_describe(dropout).text);
}

static mh_status read_affix(const mh_build *b, json_t *model, const char *name, mh_span *affix)
{
    mh_status status = mh_json_keep_member(b, "model", model, name, false, affix);
    if (status == MH_OK && affix->size > AFFIX_MAX)
        return FAIL(b, "model.%s: found %zu bytes, expected at most %d", name, affix->size,
                    AFFIX_MAX);
    return status;
}

static mh_status read_bpe(const mh_build *b, json_t *model)
{
    mh_components *p = &b->t->parts;
    mh_status status = mh_json_members(b, "model", model,
                                       "type dropout unk_token continuing_subword_prefix "
                                       "end_of_word_suffix fuse_unk byte_fallback ignore_merges "
                                       "vocab merges");
    CHECK(status, check_dropout(b, json_object_get(model, "dropout")));
    CHECK(status, read_affix(b, model, "continuing_subword_prefix", &p->prefix));
    CHECK(status, read_affix(b, model, "end_of_word_suffix", &p->suffix));
    CHECK(status, mh_json_bool_member(b, "model", model, "fuse_unk", false, &p->fuse_unk));
    CHECK(status,
          mh_json_bool_member(b, "model", model, "byte_fallback", false, &p->byte_fallback));
    CHECK(status,
          mh_json_bool_member(b, "model", model, "ignore_merges", false, &p->ignore_merges));
    if (status == MH_OK && p->byte_level && p->byte_fallback)
        return FAIL(b, "model.byte_fallback: found true, expected false with ByteLevel");
    CHECK(status, tokenizer_json_read_vocabulary(b, json_object_get(model, "vocab")));
    CHECK(status, read_unknown(b, model, false));
    CHECK(status, tokenizer_json_read_merges(b, json_object_get(model, "merges")));
    return status;
}

// ---- the other models ---------------------------------------------------------------------------

static mh_status tokenizer_json_read_wordpiece(const mh_build *b, json_t *model)
{
    mh_components *p = &b->t->parts;
    p->max_chars = 100;
    mh_status status =
        mh_json_members(b, "model", model,
                        "type unk_token continuing_subword_prefix max_input_chars_per_word vocab");
    CHECK(status, mh_build_text(b, "##", 2, &p->prefix));
    CHECK(status, read_affix(b, model, "continuing_subword_prefix", &p->prefix));
    CHECK(status,
          mh_json_size_member(b, "model", model, "max_input_chars_per_word", false, &p->max_chars));
    CHECK(status, tokenizer_json_read_vocabulary(b, json_object_get(model, "vocab")));
    CHECK(status, read_unknown(b, model, true));
    return status;
}

static mh_status read_wordlevel(const mh_build *b, json_t *model)
{
    mh_status status = mh_json_members(b, "model", model, "type unk_token vocab");
    CHECK(status, tokenizer_json_read_vocabulary(b, json_object_get(model, "vocab")));
    CHECK(status, read_unknown(b, model, false));
    return status;
}

static mh_status read_unigram(const mh_build *b, json_t *model)
{
    mh_components *p = &b->t->parts;
    size_t unk = SIZE_MAX;
    mh_status status = mh_json_members(b, "model", model, "type unk_id vocab byte_fallback");
    if (status == MH_OK && p->byte_level)
        return FAIL(b, "model.type: found Unigram with ByteLevel, expected BPE");
    CHECK(status,
          mh_json_bool_member(b, "model", model, "byte_fallback", false, &p->byte_fallback));
    CHECK(status, read_scores(b, json_object_get(model, "vocab")));
    CHECK(status, mh_json_size_member(b, "model", model, "unk_id", false, &unk));
    if (status == MH_OK && unk != SIZE_MAX && unk >= b->t->count)
        return FAIL(b, "model.unk_id: found %zu, expected less than %zu", unk, b->t->count);
    p->unk = unk == SIZE_MAX ? -1 : (int32_t)unk;
    return status;
}

// Files before 2021 have no type.
static const char *type_of(const json_t *model)
{
    const char *type = json_string_value(json_object_get(model, "type"));
    if (type || json_object_get(model, "type"))
        return type;
    return json_object_get(model, "merges")                     ? "BPE"
           : json_is_array(json_object_get(model, "vocab"))     ? "Unigram"
           : json_object_get(model, "max_input_chars_per_word") ? "WordPiece"
                                                                : "WordLevel";
}

static mh_status read_model(const mh_build *b, json_t *model)
{
    static const struct {
        const char *type;
        mh_model_kind kind;
        mh_status (*read)(const mh_build *b, json_t *model);
    } models[] = {
        {"BPE", MH_MODEL_BPE, read_bpe},
        {"WordPiece", MH_MODEL_WORDPIECE, tokenizer_json_read_wordpiece},
        {"Unigram", MH_MODEL_UNIGRAM, read_unigram},
        {"WordLevel", MH_MODEL_WORDLEVEL, read_wordlevel},
    };
    if (!json_is_object(model))
        return FAIL(b, "model: found %s, expected an object", mh_json_describe(model).text);
    const char *type = type_of(model);
    for (size_t i = 0; type && i < sizeof models / sizeof *models; i++)
        if (strcmp(type, models[i].type) == 0) {
            b->t->parts.model = models[i].kind;
            return models[i].read(b, model);
        }
    return FAIL(b, "model.type: %s is not known",
                mh_json_describe(json_object_get(model, "type")).text);
}

// ---- added tokens -------------------------------------------------------------------------------

static mh_status read_added(const mh_build *b, const char *where, json_t *entry)
{
    mh_added_token a = {.normalized = true};
    mh_text content = {NULL, 0};
    const json_t *id = json_object_get(entry, "id");
    mh_status status =
        mh_json_members(b, where, entry, "id content single_word lstrip rstrip normalized special");
    CHECK(status, mh_json_string_member(b, where, entry, "content", true, &content));
    CHECK(status, mh_json_bool_member(b, where, entry, "single_word", false, &a.single_word));
    CHECK(status, mh_json_bool_member(b, where, entry, "lstrip", false, &a.left));
    CHECK(status, mh_json_bool_member(b, where, entry, "rstrip", false, &a.right));
    CHECK(status, mh_json_bool_member(b, where, entry, "normalized", false, &a.normalized));
    CHECK(status, mh_json_bool_member(b, where, entry, "special", false, &a.special));
    if (status == MH_OK && !json_is_integer(id))
        return FAIL(b, "%s.id: found %s, expected an integer", where, mh_json_describe(id).text);
    if (status == MH_OK && content.size == 0)
        return MH_OK; // tokenizers ignores it, too
    return status == MH_OK ? mh_build_added(b, json_integer_value(id), content, a) : status;
}

static mh_status read_all_added(const mh_build *b, json_t *list)
{
    json_t *entry;
    size_t i;
    if (list && !json_is_null(list) && !json_is_array(list))
        return FAIL(b, "added_tokens: found %s, expected a list", mh_json_describe(list).text);
    json_array_foreach(list, i, entry)
    {
        char where[48];
        snprintf(where, sizeof where, "added_tokens[%zu]", i);
        mh_status status = read_added(b, where, entry);
        if (status != MH_OK)
            return status;
    }
    return MH_OK;
}

// ---- the whole ----------------------------------------------------------------------------------

static mh_status read_root(const mh_build *b, json_t *root)
{
    mh_status status = mh_json_members(b, "", root,
                                       "version truncation padding added_tokens normalizer "
                                       "pre_tokenizer post_processor decoder model");
    CHECK(status,
          mh_json_pre_tokenizer(b, "pre_tokenizer", json_object_get(root, "pre_tokenizer")));
    CHECK(status, read_model(b, json_object_get(root, "model")));
    CHECK(status, read_all_added(b, json_object_get(root, "added_tokens")));
    CHECK(status, mh_json_normalizer(b, "normalizer", json_object_get(root, "normalizer")));
    CHECK(status,
          mh_json_post_processor(b, "post_processor", json_object_get(root, "post_processor")));
    CHECK(status, mh_json_decoder(b, "decoder", json_object_get(root, "decoder")));
    CHECK(status, mh_build_finish(b));
    return status;
}

mh_status mh_tokenizer_json_read(const mh_source *source, json_t *root, mh_tokenizer **tokenizer)
{
    mh_build b = {source, mh_tokenizer_create(source->context)};
    *tokenizer = NULL;
    if (!b.t)
        return MH_ERROR_MEMORY;
    mh_status status = read_root(&b, root);
    if (status == MH_OK) {
        mh_build_roles(b.t);
        *tokenizer = b.t;
    } else {
        mh_tokenizer_free(b.t);
    }
    return status;
}
