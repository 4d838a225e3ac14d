// SPDX-License-Identifier: MIT
// Reads a tokenizer.json, which is untrusted. One with our pattern of words is ours, and this
// reader is strict with it; tokenizer_json.c reads the others. Ours: ids must be 0 .. n - 1, each
// once; a token is special or made of byte-level characters; all 256 bytes are present; a merge
// joins two tokens to a third, and no merge produces a special token, so that no text can.
#include "base/argument_check.h"
#include "support/file.h"
#include "text/byte_level.h"
#include "text/tokenizer_build.h"
#include "text/tokenizer_json.h"
#include "text/tokenizer_rules.h"
#include "text/utf8.h"
#include "text/words.h"

#include <stdio.h>

enum {
    NESTING_MAX = 8,
    VALUES_MAX = 8 * MH_TOKENS_MAX, // a merge as a list takes 4, a token 1
};

typedef struct token_name { // borrowed from the JSON tree
    const char *name;       // NULL: no token has this id
    size_t size;
    mh_token_kind kind;
} token_name;

typedef struct reader {
    mh_context *context;
    const mh_source *source;
    mh_tokenizer *tokenizer;
    json_t *vocab, *added, *merges;
    token_name *names; // by id
    size_t name_count, name_capacity;
    mh_buffer left, right; // of a merge
} reader;

#define FAIL(r, ...) mh_source_fail((r)->source, MH_ERROR_FORMAT, __VA_ARGS__)

// ---- tokens -------------------------------------------------------------------------------------

static mh_status place_name(reader *r, const char *name, size_t size, const json_t *id,
                            mh_token_kind kind)
{
    json_int_t number = json_integer_value(id);
    if (size == 0 || size > MH_TOKEN_BYTES_MAX)
        return FAIL(r, "token %s of %zu bytes, expected 1 to %d", mh_quote(name, size).text, size,
                    MH_TOKEN_BYTES_MAX);
    if (!json_is_integer(id))
        return FAIL(r, "the id of token %s is %s, expected an integer", mh_quote(name, size).text,
                    mh_json_describe(id).text);
    if (number < 0 || (size_t)number >= r->name_capacity)
        return FAIL(r, "token %s has id %lld, expected 0 or more, without gaps",
                    mh_quote(name, size).text, (long long)number);
    token_name *place = &r->names[number];
    if (place->name)
        return FAIL(r, "tokens %s and %s have the same id %lld",
                    mh_quote(place->name, place->size).text, mh_quote(name, size).text,
                    (long long)number);
    *place = (token_name){name, size, kind};
    r->name_count++;
    return MH_OK;
}

static mh_status place_added(reader *r, size_t index, json_t *entry)
{
    char where[48];
    snprintf(where, sizeof where, "added_tokens[%zu].", index);
    mh_status status = mh_tokenizer_check_added(r->source, where, entry);
    if (status != MH_OK)
        return status;
    json_t *content = json_object_get(entry, "content"), *id = json_object_get(entry, "id");
    if (!json_is_string(content))
        return FAIL(r, "%scontent: found %s, expected a string", where,
                    mh_json_describe(content).text);
    json_t *known = json_object_get(r->vocab, json_string_value(content));
    if (!known)
        return place_name(r, json_string_value(content), json_string_length(content), id,
                          MH_TOKEN_SPECIAL);
    if (!json_is_integer(id) || json_integer_value(id) != json_integer_value(known))
        return FAIL(r, "%sid is not that of %s in the vocabulary", where,
                    mh_json_describe(content).text);
    r->names[json_integer_value(id)].kind = MH_TOKEN_SPECIAL;
    return MH_OK;
}

static mh_status place_names(reader *r)
{
    const char *name;
    json_t *value;
    size_t i, room = json_object_size(r->vocab) + json_array_size(r->added);
    if (room > MH_TOKENS_MAX)
        return FAIL(r, "%zu tokens, expected at most %d", room, MH_TOKENS_MAX);
    if (!mh_grow(r->context, &r->names, &r->name_capacity, room, sizeof *r->names))
        return MH_ERROR_MEMORY;
    for (i = 0; i < r->name_capacity; i++) // none, if there is no token
        r->names[i] = (token_name){0};
    json_object_foreach(r->vocab, name, value)
    {
        mh_status status = place_name(r, name, strlen(name), value, MH_TOKEN_TEXT);
        if (status != MH_OK)
            return status;
    }
    json_array_foreach(r->added, i, value)
    {
        mh_status status = place_added(r, i, value);
        if (status != MH_OK)
            return status;
    }
    return MH_OK;
}

// Decodes byte-level characters to bytes.
static mh_status tokenizer_read_decode_name(reader *r, const char *name, size_t size,
                                            mh_buffer *bytes)
{
    bytes->size = 0;
    for (size_t at = 0, length; at < size; at += length) {
        unsigned char byte;
        uint32_t character = mh_utf8_decode(name + at, &length);
        if (!mh_character_byte(character, &byte))
            return FAIL(r, "token %s: U+%04X is not in the byte-level alphabet",
                        mh_quote(name, size).text, character);
        if (!mh_buffer_append(r->context, bytes, (const char *)&byte, 1))
            return MH_ERROR_MEMORY;
    }
    return MH_OK;
}

static mh_status add_token(reader *r, size_t id)
{
    const token_name *n = &r->names[id];
    if (!n->name)
        return FAIL(r, "no token has id %zu, although there are %zu tokens", id, r->name_count);
    if (n->kind == MH_TOKEN_SPECIAL)
        return mh_tokenizer_add(r->context, r->tokenizer, n->kind, n->name, n->size)
                   ? MH_OK
                   : MH_ERROR_MEMORY;
    mh_status status = tokenizer_read_decode_name(r, n->name, n->size, &r->left);
    if (status != MH_OK)
        return status;
    return mh_tokenizer_add(r->context, r->tokenizer, n->kind, r->left.data, r->left.size)
               ? MH_OK
               : MH_ERROR_MEMORY;
}

static mh_status tokenizer_read_add_tokens(reader *r)
{
    for (size_t id = 0; id < r->name_count; id++) {
        mh_status status = add_token(r, id);
        if (status != MH_OK)
            return status;
    }
    for (unsigned byte = 0; byte < 256; byte++) {
        char one = (char)byte;
        if (mh_tokenizer_find(r->tokenizer, &one, 1) == SIZE_MAX)
            return FAIL(r, "no token for byte 0x%02x: expected all 256", byte);
    }
    return MH_OK;
}

static mh_status find_specials(reader *r)
{
    int32_t *const roles = r->tokenizer->roles;
    int32_t *const ids[MH_SPECIAL_COUNT] = {&roles[MH_ROLE_PAD], &roles[MH_ROLE_BOS],
                                            &roles[MH_ROLE_EOS]};
    for (size_t i = 0; i < MH_SPECIAL_COUNT; i++) {
        size_t size = strlen(mh_special_names[i]);
        for (size_t id = 0; id < r->name_count && *ids[i] < 0; id++)
            if (r->names[id].kind == MH_TOKEN_SPECIAL && r->names[id].size == size &&
                memcmp(r->names[id].name, mh_special_names[i], size) == 0)
                *ids[i] = (int32_t)id;
        if (*ids[i] < 0)
            return FAIL(r, "added_tokens: %s is missing", mh_special_names[i]);
    }
    return MH_OK;
}

// ---- merges -------------------------------------------------------------------------------------

static mh_status find_part(reader *r, size_t rank, mh_text name, mh_buffer *bytes, uint32_t *id)
{
    mh_status status = tokenizer_read_decode_name(r, name.bytes, name.size, bytes);
    size_t found = status == MH_OK ? mh_tokenizer_find(r->tokenizer, bytes->data, bytes->size) : 0;
    if (found == SIZE_MAX)
        return FAIL(r, "merge %zu: %s is not a token of text", rank,
                    mh_quote(name.bytes, name.size).text);
    *id = (uint32_t)found;
    return status;
}

static mh_status add_merge(reader *r, size_t rank, const json_t *merge)
{
    mh_text left, right;
    mh_merge m;
    if (!mh_json_split_merge(merge, &left, &right))
        return FAIL(r, "merge %zu: found %s, expected two tokens with a space between", rank,
                    mh_json_describe(merge).text);
    mh_status status = find_part(r, rank, left, &r->left, &m.left);
    if (status == MH_OK)
        status = find_part(r, rank, right, &r->right, &m.right);
    if (status != MH_OK)
        return status;
    if (!mh_buffer_append(r->context, &r->left, r->right.data, r->right.size))
        return MH_ERROR_MEMORY;
    size_t result = mh_tokenizer_find(r->tokenizer, r->left.data, r->left.size);
    if (result == SIZE_MAX)
        return FAIL(r, "merge %zu: %s is not a token of text", rank,
                    mh_quote(r->left.data, r->left.size).text);
    m.result = (uint32_t)result;
    return mh_tokenizer_add_merge(r->context, r->tokenizer, m) ? MH_OK : MH_ERROR_MEMORY;
}

static mh_status tokenizer_read_add_merges(reader *r)
{
    size_t rank;
    json_t *merge;
    if (json_array_size(r->merges) > MH_TOKENS_MAX)
        return FAIL(r, "%zu merges, expected at most %d", json_array_size(r->merges),
                    MH_TOKENS_MAX);
    json_array_foreach(r->merges, rank, merge)
    {
        mh_status status = add_merge(r, rank, merge);
        if (status != MH_OK)
            return status;
    }
    return MH_OK;
}

// ---- the whole ----------------------------------------------------------------------------------

static mh_status tokenizer_read_finish(reader *r)
{
    mh_status status = mh_build_own(r->context, r->tokenizer);
    if (status != MH_ERROR_FORMAT)
        return status;
    char message[256];
    snprintf(message, sizeof message, "%s", mh_error_message(r->context));
    return FAIL(r, "%s", message);
}

static mh_status read_tree(reader *r, json_t *root)
{
    json_t *model = json_object_get(root, "model");
    mh_status status = mh_tokenizer_check_rules(r->source, root);
    if (status != MH_OK)
        return status;
    r->vocab = json_object_get(model, "vocab");
    r->merges = json_object_get(model, "merges");
    r->added = json_object_get(root, "added_tokens");
    if (!json_is_object(r->vocab) || !json_is_array(r->merges) || !json_is_array(r->added))
        return FAIL(r,
                    "model.vocab, model.merges, added_tokens: found %s, %s, %s, expected an "
                    "object and two lists",
                    mh_json_describe(r->vocab).text, mh_json_describe(r->merges).text,
                    mh_json_describe(r->added).text);
    r->tokenizer = mh_tokenizer_create(r->context);
    status = r->tokenizer ? place_names(r) : MH_ERROR_MEMORY;
    if (status == MH_OK)
        status = tokenizer_read_add_tokens(r);
    if (status == MH_OK)
        status = find_specials(r);
    if (status == MH_OK)
        status = tokenizer_read_add_merges(r);
    return status == MH_OK ? tokenizer_read_finish(r) : status;
}

mh_status mh_tokenizer_json_tree(const mh_source *source, json_t **root)
{
    mh_json_scan scan = {.real_if_large = true}; // as in tokenizer_config.json
    const char *text = (const char *)source->bytes;
    if (source->size > MH_HEADER_BYTES_MAX)
        return mh_source_fail(source, MH_ERROR_FORMAT, "%zu bytes, expected at most %zu",
                              source->size, MH_HEADER_BYTES_MAX);
    mh_status status = mh_json_scan_text(source, "", text, source->size, NESTING_MAX, &scan);
    if (status == MH_OK && scan.values > VALUES_MAX)
        status = mh_source_fail(source, MH_ERROR_FORMAT, "%zu values, expected at most %d",
                                scan.values, VALUES_MAX);
    return status == MH_OK ? mh_json_load(source, "", text, source->size, &scan, root) : status;
}

static bool is_own(const json_t *root)
{
    const json_t *list = json_object_get(json_object_get(root, "pre_tokenizer"), "pretokenizers");
    const json_t *pattern = json_object_get(json_array_get(list, 0), "pattern");
    const char *regex = json_string_value(json_object_get(pattern, "Regex"));
    const json_t *post = json_object_get(root, "post_processor");
    return regex && strcmp(regex, MH_WORD_PATTERN) == 0 && (!post || json_is_null(post));
}

mh_status mh_tokenizer_parse(mh_context *context, const char *name, const void *bytes, size_t size,
                             mh_tokenizer **tokenizer)
{
    if (tokenizer)
        *tokenizer = NULL;
    if (MH_NEED(context, {"name", name}, {"tokenizer", tokenizer},
                {"bytes", mh_array(bytes, size)}))
        return MH_ERROR_ARGUMENT;
    mh_source source = {context, name, bytes, size};
    reader r = {.context = context, .source = &source};
    json_t *root = NULL;
    mh_status status = mh_tokenizer_json_tree(&source, &root);
    if (status == MH_OK && is_own(root))
        status = read_tree(&r, root);
    else if (status == MH_OK)
        status = mh_tokenizer_json_read(&source, root, &r.tokenizer);
    mh_shrink(context, &r.names, &r.name_capacity, sizeof *r.names);
    mh_buffer_free(context, &r.left);
    mh_buffer_free(context, &r.right);
    json_decref(root);
    if (status == MH_OK)
        *tokenizer = r.tokenizer;
    else
        mh_tokenizer_free(r.tokenizer);
    return status;
}

mh_status mh_tokenizer_load(mh_context *context, const char *path, mh_tokenizer **tokenizer)
{
    if (tokenizer)
        *tokenizer = NULL;
    if (MH_NEED(context, {"path", path}, {"tokenizer", tokenizer}))
        return MH_ERROR_ARGUMENT;
    mh_mapping mapping;
    mh_status status = mh_file_map(context, path, &mapping);
    if (status == MH_OK)
        status = mh_tokenizer_parse(context, path, mapping.data, mapping.size, tokenizer);
    mh_file_unmap(&mapping);
    return status;
}

mh_status mh_tokenizer_load_own(mh_context *context, const char *path, mh_tokenizer **tokenizer)
{
    mh_status status = mh_tokenizer_load(context, path, tokenizer);
    if (status != MH_OK || (*tokenizer)->own)
        return status;
    const mh_source source = {.context = context, .name = path};
    mh_tokenizer_free(*tokenizer);
    *tokenizer = NULL;
    return mh_source_fail(&source, MH_ERROR_FORMAT,
                          "a tokenizer with other components than those that 'multihead train' "
                          "learns, which translators and new language models need");
}
