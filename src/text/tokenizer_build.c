// SPDX-License-Identifier: MIT
// Puts a tokenizer together; see tokenizer_build.h.
#include "text/tokenizer_build.h"

#include "base/argument_check.h"
#include "text/byte_level.h"
#include "text/tokenizer_models.h"
#include "text/tokenizer_patterns.h"
#include "text/tokenizer_pieces.h"

#include <stdio.h>

#define FAIL(b, ...) mh_source_fail((b)->source, MH_ERROR_FORMAT, __VA_ARGS__)

static mh_context *context_of(const mh_build *b) { return b->source->context; }
static mh_status done(bool succeeded) { return succeeded ? MH_OK : MH_ERROR_MEMORY; }

mh_status mh_build_fail(const mh_build *b, mh_status status)
{
    char message[512];
    if (status != MH_ERROR_FORMAT)
        return status;
    snprintf(message, sizeof message, "%s", mh_error_message(context_of(b)));
    return mh_source_fail(b->source, status, "%s", message);
}

// ---- tokens -------------------------------------------------------------------------------------

// The bytes of a byte-level name, into `bytes`, which has room for them; 0 if it is none.
static size_t tokenizer_build_decode_name(mh_text name, char *bytes)
{
    size_t count = 0;
    for (size_t at = 0, length; at < name.size; at += length) {
        unsigned char byte;
        if (!mh_character_byte(mh_utf8_decode(name.bytes + at, &length), &byte))
            return 0;
        bytes[count++] = (char)byte;
    }
    return count;
}

mh_status mh_build_token(const mh_build *b, int64_t id, mh_text name)
{
    char bytes[MH_TOKEN_BYTES_MAX];
    mh_text key = name;
    if (name.size > MH_TOKEN_BYTES_MAX)
        return FAIL(b, "token %s of %zu bytes, expected at most %d",
                    mh_quote(name.bytes, name.size).text, name.size, MH_TOKEN_BYTES_MAX);
    if (mh_utf8_valid(name.bytes, name.size) != name.size)
        return FAIL(b, "token %s is not UTF-8", mh_quote(name.bytes, name.size).text);
    if (id < 0 || id >= MH_TOKENS_MAX)
        return FAIL(b, "token %s has id %lld, expected 0 to %d",
                    mh_quote(name.bytes, name.size).text, (long long)id, MH_TOKENS_MAX - 1);
    if ((size_t)id < b->t->count && b->t->tokens[id].name_size > 0)
        return FAIL(
            b, "tokens %s and %s have the same id %lld",
            mh_quote(mh_token_name(b->t, (size_t)id).bytes, b->t->tokens[id].name_size).text,
            mh_quote(name.bytes, name.size).text, (long long)id);
    if (b->t->parts.byte_level)
        key = (mh_text){bytes, tokenizer_build_decode_name(name, bytes)};
    return done(mh_tokenizer_place(context_of(b), b->t, (size_t)id, name, key));
}

mh_status mh_build_vocabulary(const mh_build *b)
{
    return done(mh_tokenizer_index_keys(context_of(b), b->t));
}

mh_status mh_build_find(const mh_build *b, const char *what, mh_text name, int32_t *id)
{
    size_t found = mh_tokenizer_find_name(b->t, name.bytes, name.size);
    if (found == SIZE_MAX)
        return FAIL(b, "%s: %s is not in the vocabulary", what,
                    mh_quote(name.bytes, name.size).text);
    *id = (int32_t)found;
    return MH_OK;
}

mh_status mh_build_merge(const mh_build *b, size_t rank, mh_text left, mh_text right)
{
    char joined[2 * MH_TOKEN_BYTES_MAX], what[48];
    int32_t ids[3];
    const size_t prefix = b->t->parts.prefix.size;
    snprintf(what, sizeof what, "merge %zu", rank);
    mh_status status = mh_build_find(b, what, left, &ids[0]);
    if (status == MH_OK)
        status = mh_build_find(b, what, right, &ids[1]);
    if (status != MH_OK)
        return status;
    if (right.size < prefix)
        return FAIL(b, "%s: %s is shorter than the prefix of %zu bytes", what,
                    mh_quote(right.bytes, right.size).text, prefix);
    memcpy(joined, left.bytes, left.size); // both are tokens: MH_TOKEN_BYTES_MAX at most
    memcpy(joined + left.size, right.bytes + prefix, right.size - prefix);
    status = mh_build_find(b, what, (mh_text){joined, left.size + right.size - prefix}, &ids[2]);
    if (status != MH_OK)
        return status;
    return done(mh_tokenizer_add_merge(
        context_of(b), b->t,
        (mh_merge){(uint32_t)ids[0], (uint32_t)ids[1], (uint32_t)ids[2], (uint32_t)rank}));
}

// ---- added tokens -------------------------------------------------------------------------------

static mh_status make_token(const mh_build *b, int64_t id, mh_text content)
{
    const mh_text none = {"", 0};
    size_t room = 2 * b->t->count + 65536; // a file must not make us reserve millions by one id
    if (id < 0 || id >= MH_TOKENS_MAX || (size_t)id >= room)
        return FAIL(b, "added token %s has id %lld, expected 0 to %zu",
                    mh_quote(content.bytes, content.size).text, (long long)id,
                    room < MH_TOKENS_MAX ? room : (size_t)MH_TOKENS_MAX - 1);
    if ((size_t)id < b->t->count && b->t->tokens[id].name_size > 0)
        return FAIL(
            b, "added token %s has id %lld of token %s", mh_quote(content.bytes, content.size).text,
            (long long)id,
            mh_quote(mh_token_name(b->t, (size_t)id).bytes, b->t->tokens[id].name_size).text);
    return done(mh_tokenizer_place(context_of(b), b->t, (size_t)id, content, none) &&
                mh_tokenizer_index_name(context_of(b), b->t, (size_t)id));
}

mh_status mh_build_added(const mh_build *b, int64_t id, mh_text content, mh_added_token settings)
{
    mh_added_list *list = &b->t->parts.added;
    if (content.size == 0 || content.size > MH_TOKEN_BYTES_MAX)
        return FAIL(b, "an added token of %zu bytes, expected 1 to %d", content.size,
                    MH_TOKEN_BYTES_MAX);
    size_t known = mh_tokenizer_find_name(b->t, content.bytes, content.size);
    if (known != SIZE_MAX && (size_t)id != known)
        return FAIL(b, "added token %s has id %lld, but %zu in the vocabulary",
                    mh_quote(content.bytes, content.size).text, (long long)id, known);
    mh_status status = known == SIZE_MAX ? make_token(b, id, content) : MH_OK;
    if (status != MH_OK)
        return status;
    if (b->t->tokens[id].added)
        return FAIL(b, "token %s is added twice", mh_quote(content.bytes, content.size).text);
    settings.id = (int32_t)id;
    if (!mh_grow(context_of(b), &list->items, &list->capacity, list->count + 1,
                 sizeof *list->items) ||
        !mh_tokenizer_keep(context_of(b), b->t, content.bytes, content.size, &settings.content))
        return MH_ERROR_MEMORY;
    list->items[list->count++] = settings;
    b->t->tokens[id].added = (uint32_t)list->count;
    if (settings.special)
        b->t->tokens[id].kind = MH_TOKEN_SPECIAL;
    return MH_OK;
}

mh_status mh_build_special(const mh_build *b, const char *name, mh_token_role role)
{
    const mh_text text = {name, strlen(name)};
    size_t id = mh_tokenizer_find_name(b->t, text.bytes, text.size);
    if (id == SIZE_MAX)
        return MH_OK;
    if (role < MH_ROLE_COUNT)
        b->t->roles[role] = (int32_t)id;
    if (b->t->tokens[id].added)
        return MH_OK;
    return mh_build_added(b, (int64_t)id, text, (mh_added_token){.special = true});
}

// ---- components ---------------------------------------------------------------------------------

mh_status mh_build_component(const mh_build *b, mh_component_list *list, mh_component component)
{
    enum { MOST = 64 };
    if (list->count == MOST)
        return FAIL(b, "more than %d components of one kind", MOST);
    if (!mh_grow(context_of(b), &list->items, &list->capacity, list->count + 1,
                 sizeof *list->items))
        return MH_ERROR_MEMORY;
    list->items[list->count++] = component;
    return MH_OK;
}

mh_status mh_build_text(const mh_build *b, const char *bytes, size_t size, mh_span *span)
{
    return done(mh_tokenizer_keep(context_of(b), b->t, bytes, size, span));
}

mh_status mh_build_template(const mh_build *b, mh_template *form, int32_t id, uint8_t type)
{
    if (!mh_grow(context_of(b), &form->items, &form->capacity, form->count + 1,
                 sizeof *form->items))
        return MH_ERROR_MEMORY;
    form->items[form->count++] = (mh_template_item){id, type};
    return MH_OK;
}

mh_status mh_build_templates(const mh_build *b, int32_t first, int32_t last, int32_t between,
                             uint8_t second_type)
{
    mh_template *single = &b->t->parts.single_text, *pair = &b->t->parts.pair;
    const struct {
        mh_template *form;
        int32_t id;
        uint8_t type;
        bool there;
    } items[] = {
        {single, first, 0, first >= 0},
        {single, MH_FIRST_TEXT, 0, true},
        {single, last, 0, last >= 0},
        {pair, first, 0, first >= 0},
        {pair, MH_FIRST_TEXT, 0, true},
        {pair, last, 0, last >= 0},
        {pair, between, second_type, between >= 0},
        {pair, MH_SECOND_TEXT, second_type, true},
        {pair, last, second_type, last >= 0},
    };
    single->count = pair->count = 0;
    for (size_t i = 0; i < sizeof items / sizeof *items; i++) {
        mh_status status = items[i].there
                               ? mh_build_template(b, items[i].form, items[i].id, items[i].type)
                               : MH_OK;
        if (status != MH_OK)
            return status;
    }
    return MH_OK;
}

// ---- the whole ----------------------------------------------------------------------------------

void mh_build_roles(mh_tokenizer *t)
{
    static const struct {
        mh_token_role role;
        const char *name;
    } usual[] = {
        {MH_ROLE_PAD, "[PAD]"},
        {MH_ROLE_PAD, "<pad>"},
        {MH_ROLE_PAD, "<|pad|>"},
        {MH_ROLE_BOS, "<s>"},
        {MH_ROLE_BOS, "<bos>"},
        {MH_ROLE_BOS, "<|begin_of_text|>"},
        {MH_ROLE_EOS, "</s>"},
        {MH_ROLE_EOS, "<eos>"},
        {MH_ROLE_EOS, "<|end_of_text|>"},
        {MH_ROLE_EOS, "<|im_end|>"},
        {MH_ROLE_BOS, "<|endoftext|>"},
        {MH_ROLE_EOS, "<|endoftext|>"},
        {MH_ROLE_UNKNOWN, "[UNK]"},
        {MH_ROLE_UNKNOWN, "<unk>"},
        {MH_ROLE_CLS, "[CLS]"},
        {MH_ROLE_SEP, "[SEP]"},
        {MH_ROLE_MASK, "[MASK]"},
        {MH_ROLE_MASK, "<mask>"},
    };
    for (size_t i = 0; i < sizeof usual / sizeof *usual; i++) {
        size_t id = mh_tokenizer_find_name(t, usual[i].name, strlen(usual[i].name));
        if (t->roles[usual[i].role] < 0 && id != SIZE_MAX && t->tokens[id].kind == MH_TOKEN_SPECIAL)
            t->roles[usual[i].role] = (int32_t)id;
    }
    if (t->roles[MH_ROLE_UNKNOWN] < 0)
        t->roles[MH_ROLE_UNKNOWN] = t->parts.unk;
}

mh_status mh_build_finish(const mh_build *b)
{
    mh_status status = MH_OK;
    if (b->t->parts.single_text.count == 0)
        status = mh_build_templates(b, -1, -1, -1, 1);
    if (status == MH_OK)
        status = mh_model_index(context_of(b), b->t);
    if (status == MH_OK)
        status = mh_added_index(context_of(b), b->t);
    return mh_build_fail(b, status);
}

// Names in byte-level characters, and special tokens that text may contain.
static mh_status name_own(const mh_build *b)
{
    mh_tokenizer *t = b->t;
    for (size_t id = 0; id < t->count; id++) {
        char name[2 * MH_TOKEN_BYTES_MAX];
        mh_span span;
        size_t size = 0;
        if (t->tokens[id].kind == MH_TOKEN_SPECIAL || t->tokens[id].size > MH_TOKEN_BYTES_MAX)
            continue;
        for (size_t i = 0; i < t->tokens[id].size; i++)
            size += mh_utf8_encode(mh_byte_character((unsigned char)mh_token_bytes(t, id)[i]),
                                   name + size);
        if (!mh_tokenizer_keep(context_of(b), t, name, size, &span))
            return MH_ERROR_MEMORY;
        t->tokens[id].name = span.begin;
        t->tokens[id].name_size = (uint32_t)span.size;
    }
    return MH_OK;
}

static mh_status add_own_specials(const mh_build *b)
{
    mh_tokenizer *t = b->t;
    mh_status status = MH_OK;
    for (size_t id = 0; status == MH_OK && id < t->count; id++) {
        char name[MH_TOKEN_BYTES_MAX]; // mh_build_added moves t->bytes
        mh_text content = mh_token_name(t, id);
        if (t->tokens[id].kind != MH_TOKEN_SPECIAL)
            continue;
        memcpy(name, content.bytes, content.size);
        status = mh_build_added(b, (int64_t)id, (mh_text){name, content.size},
                                (mh_added_token){.special = true});
    }
    return status;
}

mh_status mh_build_own(mh_context *context, mh_tokenizer *t)
{
    const mh_source source = {.context = context, .name = "tokenizer"};
    const mh_build b = {&source, t};
    mh_components *parts = &t->parts;
    t->own = parts->byte_level = true;
    mh_status status = name_own(&b);
    if (status == MH_OK && !mh_tokenizer_index_name(context, t, 0))
        status = MH_ERROR_MEMORY;
    if (status == MH_OK)
        status = add_own_specials(&b);
    if (status == MH_OK)
        status =
            mh_build_component(&b, &parts->normalizers, (mh_component){.kind = MH_NORMALIZE_NFC});
    if (status == MH_OK)
        status =
            mh_build_component(&b, &parts->pre_tokenizers,
                               (mh_component){.kind = MH_SPLIT_PATTERN, .pattern = MH_PATTERN_OWN});
    if (status == MH_OK)
        status =
            mh_build_component(&b, &parts->decoders, (mh_component){.kind = MH_DECODE_BYTE_LEVEL});
    if (status == MH_OK)
        status = mh_build_templates(&b, -1, -1, -1, 1);
    if (status == MH_OK)
        status = mh_tokenizer_finish(context, t);
    return status == MH_OK ? mh_added_index(context, t) : status;
}

mh_status mh_tokenizer_end_texts(mh_context *context, mh_tokenizer *t, int32_t id)
{
    const mh_source source = {.context = context, .name = "tokenizer"};
    const mh_build b = {&source, t};
    return mh_build_templates(&b, -1, id, -1, 0);
}
