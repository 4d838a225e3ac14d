// SPDX-License-Identifier: MIT
// Normalizers, pre-tokenizers and decoders of a tokenizer.json. Each group is a table: the name of
// a component, its kind, the members it may have, and a function that reads them.
#include "text/base64.h"
#include "text/tokenizer_forms.h"
#include "text/tokenizer_json.h"
#include "text/tokenizer_patterns.h"
#include "text/tokenizer_rules.h"

#include <stdio.h>

#define FAIL(b, ...) mh_source_fail((b)->source, MH_ERROR_FORMAT, __VA_ARGS__)

typedef mh_status (*read_members)(const mh_build *b, const char *where, json_t *object,
                                  mh_component *c);

typedef struct entry {
    const char *type;
    uint8_t kind;
    const char *members; // besides "type"
    read_members read;   // NULL: it has no settings
} entry;

static const char *const behaviours[] = {"Isolated",           "Removed",        "Contiguous",
                                         "MergedWithPrevious", "MergedWithNext", NULL};
static const char *const schemes[] = {"never", "first", "always", NULL};

// Runs the next check if all before it have succeeded.
#define CHECK(status, call)                                                                        \
    do {                                                                                           \
        if ((status) == MH_OK)                                                                     \
            (status) = (call);                                                                     \
    } while (0)

// ---- normalizers --------------------------------------------------------------------------------

static mh_status tokenizer_json_parts_read_bert(const mh_build *b, const char *where, json_t *o,
                                                mh_component *c)
{
    mh_status status = mh_json_bool_member(b, where, o, "clean_text", true, &c->clean);
    CHECK(status, mh_json_bool_member(b, where, o, "handle_chinese_chars", true, &c->chinese));
    CHECK(status, mh_json_bool_member(b, where, o, "lowercase", true, &c->lowercase));
    c->accents = c->lowercase; // unless it says otherwise
    CHECK(status, mh_json_bool_member(b, where, o, "strip_accents", false, &c->accents));
    return status;
}

static mh_status read_prepend(const mh_build *b, const char *where, json_t *o, mh_component *c)
{
    return mh_json_keep_member(b, where, o, "prepend", true, &c->text);
}

static mh_status read_replace(const mh_build *b, const char *where, json_t *o, mh_component *c)
{
    mh_status status = mh_json_pattern(b, where, o, c);
    CHECK(status, mh_json_keep_member(b, where, o, "content", true, &c->content));
    return status;
}

static mh_status read_strip(const mh_build *b, const char *where, json_t *o, mh_component *c)
{
    mh_status status = mh_json_bool_member(b, where, o, "strip_left", true, &c->left);
    CHECK(status, mh_json_bool_member(b, where, o, "strip_right", true, &c->right));
    return status;
}

static mh_status read_precompiled(const mh_build *b, const char *where, json_t *o, mh_component *c)
{
    (void)c;
    mh_text text = {"", 0};
    mh_buffer bytes = {0};
    mh_status status = mh_json_string_member(b, where, o, "precompiled_charsmap", false, &text);
    if (status != MH_OK)
        return status;
    status = mh_base64_decode(b->source->context, text.bytes, text.size, &bytes);
    CHECK(status,
          mh_charsmap_read(b->source->context, b->t, (unsigned char *)bytes.data, bytes.size));
    mh_buffer_free(b->source->context, &bytes);
    return mh_build_fail(b, status);
}

static const entry normalizers[] = {
    {"NFC", MH_NORMALIZE_NFC, "", NULL},
    {"NFD", MH_NORMALIZE_NFD, "", NULL},
    {"NFKC", MH_NORMALIZE_NFKC, "", NULL},
    {"NFKD", MH_NORMALIZE_NFKD, "", NULL},
    {"Lowercase", MH_NORMALIZE_LOWERCASE, "", NULL},
    {"StripAccents", MH_NORMALIZE_STRIP_ACCENTS, "", NULL},
    {"BertNormalizer", MH_NORMALIZE_BERT, "clean_text handle_chinese_chars strip_accents lowercase",
     tokenizer_json_parts_read_bert},
    {"Prepend", MH_NORMALIZE_PREPEND, "prepend", read_prepend},
    {"Replace", MH_NORMALIZE_REPLACE, "pattern content", read_replace},
    {"Strip", MH_NORMALIZE_STRIP, "strip_left strip_right", read_strip},
    {"Precompiled", MH_NORMALIZE_PRECOMPILED, "precompiled_charsmap", read_precompiled},
    {"Nmt", MH_NORMALIZE_NMT, "", NULL},
    {NULL, 0, NULL, NULL},
};

// ---- pre-tokenizers -----------------------------------------------------------------------------

static mh_status tokenizer_json_parts_read_byte_level(const mh_build *b, const char *where,
                                                      json_t *o, mh_component *c)
{
    bool trim = true;
    c->use_regex = true;
    mh_status status = mh_json_bool_member(b, where, o, "add_prefix_space", true, &c->prefix_space);
    CHECK(status, mh_json_bool_member(b, where, o, "trim_offsets", false, &trim));
    CHECK(status, mh_json_bool_member(b, where, o, "use_regex", false, &c->use_regex));
    return status;
}

static mh_status read_punctuation(const mh_build *b, const char *where, json_t *o, mh_component *c)
{
    if (!json_object_get(o, "behavior"))
        return MH_OK;
    return mh_json_choice(b, where, o, "behavior", behaviours, &c->behaviour);
}

// Files before 2024 have add_prefix_space, later ones prepend_scheme.
static mh_status read_metaspace(const mh_build *b, const char *where, json_t *o, mh_component *c)
{
    bool prefix = true;
    c->split = true;
    c->behaviour = MH_SPLIT_WITH_NEXT;
    c->prepend = MH_PREPEND_ALWAYS;
    mh_status status = mh_json_keep_member(b, where, o, "replacement", true, &c->text);
    CHECK(status, mh_json_bool_member(b, where, o, "add_prefix_space", false, &prefix));
    CHECK(status, mh_json_bool_member(b, where, o, "split", false, &c->split));
    if (!prefix)
        c->prepend = MH_PREPEND_NEVER;
    if (status == MH_OK && json_object_get(o, "prepend_scheme"))
        status = mh_json_choice(b, where, o, "prepend_scheme", schemes, &c->prepend);
    if (status == MH_OK && c->text.size == 0)
        return FAIL(b, "%s.replacement: found \"\", expected a character", where);
    return status;
}

static mh_status read_digits(const mh_build *b, const char *where, json_t *o, mh_component *c)
{
    return mh_json_bool_member(b, where, o, "individual_digits", false, &c->individual);
}

static mh_status read_split(const mh_build *b, const char *where, json_t *o, mh_component *c)
{
    mh_status status = mh_json_pattern(b, where, o, c);
    CHECK(status, mh_json_choice(b, where, o, "behavior", behaviours, &c->behaviour));
    CHECK(status, mh_json_bool_member(b, where, o, "invert", false, &c->invert));
    return status;
}

static const entry pre_tokenizers[] = {
    {"ByteLevel", MH_SPLIT_BYTE_LEVEL, "add_prefix_space trim_offsets use_regex",
     tokenizer_json_parts_read_byte_level},
    {"BertPreTokenizer", MH_SPLIT_BERT, "", NULL},
    {"Whitespace", MH_SPLIT_WHITESPACE, "", NULL},
    {"WhitespaceSplit", MH_SPLIT_WHITESPACE_SPLIT, "", NULL},
    {"Punctuation", MH_SPLIT_PUNCTUATION, "behavior", read_punctuation},
    {"Metaspace", MH_SPLIT_METASPACE, "replacement add_prefix_space prepend_scheme split str_rep",
     read_metaspace},
    {"Digits", MH_SPLIT_DIGITS, "individual_digits", read_digits},
    {"Split", MH_SPLIT_PATTERN, "pattern behavior invert", read_split},
    {NULL, 0, NULL, NULL},
};

// ---- decoders -----------------------------------------------------------------------------------

static mh_status tokenizer_json_parts_read_wordpiece(const mh_build *b, const char *where,
                                                     json_t *o, mh_component *c)
{
    mh_status status = mh_json_keep_member(b, where, o, "prefix", true, &c->text);
    CHECK(status, mh_json_bool_member(b, where, o, "cleanup", true, &c->cleanup));
    return status;
}

static mh_status read_strip_decoder(const mh_build *b, const char *where, json_t *o,
                                    mh_component *c)
{
    mh_status status = mh_json_keep_member(b, where, o, "content", true, &c->text);
    CHECK(status, mh_json_size_member(b, where, o, "start", true, &c->start));
    CHECK(status, mh_json_size_member(b, where, o, "stop", true, &c->stop));
    if (status == MH_OK && c->text.size == 0)
        return FAIL(b, "%s.content: found \"\", expected a character", where);
    return status;
}

static mh_status read_bpe_decoder(const mh_build *b, const char *where, json_t *o, mh_component *c)
{
    return mh_json_keep_member(b, where, o, "suffix", true, &c->text);
}

static mh_status read_ctc(const mh_build *b, const char *where, json_t *o, mh_component *c)
{
    mh_status status = mh_json_keep_member(b, where, o, "pad_token", true, &c->text);
    CHECK(status, mh_json_keep_member(b, where, o, "word_delimiter_token", true, &c->content));
    CHECK(status, mh_json_bool_member(b, where, o, "cleanup", true, &c->cleanup));
    return status;
}

static const entry decoders[] = {
    {"ByteLevel", MH_DECODE_BYTE_LEVEL, "add_prefix_space trim_offsets use_regex", NULL},
    {"WordPiece", MH_DECODE_WORDPIECE, "prefix cleanup", tokenizer_json_parts_read_wordpiece},
    {"Metaspace", MH_DECODE_METASPACE, "replacement add_prefix_space prepend_scheme split str_rep",
     read_metaspace},
    {"ByteFallback", MH_DECODE_BYTE_FALLBACK, "", NULL},
    {"Fuse", MH_DECODE_FUSE, "", NULL},
    {"Strip", MH_DECODE_STRIP, "content start stop", read_strip_decoder},
    {"Replace", MH_DECODE_REPLACE, "pattern content", read_replace},
    {"BPEDecoder", MH_DECODE_BPE, "suffix", read_bpe_decoder},
    {"CTC", MH_DECODE_CTC, "pad_token word_delimiter_token cleanup", read_ctc},
    {NULL, 0, NULL, NULL},
};

// ---- one component, or a sequence of them -------------------------------------------------------

static mh_status read_entry(const mh_build *b, const char *where, json_t *value,
                            const entry *entries, mh_component_list *list)
{
    char members[160];
    const char *type = json_string_value(json_object_get(value, "type"));
    for (const entry *e = entries; e->type; e++) {
        mh_component c = {.kind = e->kind};
        if (!type || strcmp(type, e->type) != 0)
            continue;
        snprintf(members, sizeof members, "type %s", e->members);
        mh_status status = mh_json_members(b, where, value, members);
        if (status == MH_OK && e->read)
            status = e->read(b, where, value, &c);
        return status == MH_OK ? mh_build_component(b, list, c) : status;
    }
    if (!json_is_object(value))
        return FAIL(b, "%s: found %s, expected an object", where, mh_json_describe(value).text);
    return FAIL(b, "%s.type: %s is not known", where,
                mh_json_describe(json_object_get(value, "type")).text);
}

// Recursion is safe: the nesting of the file is bounded.
static mh_status read_part(const mh_build *b, const char *where, json_t *value,
                           const char *sequence, const entry *entries, mh_component_list *list)
{
    const char *type = json_string_value(json_object_get(value, "type"));
    json_t *items = json_object_get(value, sequence), *item;
    size_t i;
    if (!value || json_is_null(value))
        return MH_OK;
    if (!type || strcmp(type, "Sequence") != 0)
        return read_entry(b, where, value, entries, list);
    if (!json_is_array(items))
        return FAIL(b, "%s.%s: found %s, expected a list", where, sequence,
                    mh_json_describe(items).text);
    json_array_foreach(items, i, item)
    {
        char place[128];
        snprintf(place, sizeof place, "%.100s[%zu]", where, i);
        mh_status status = read_part(b, place, item, sequence, entries, list);
        if (status != MH_OK)
            return status;
    }
    return MH_OK;
}

// How many times as long a replacement makes what it replaces.
static size_t growth_of(const mh_component *c)
{
    const size_t size = c->pattern == MH_PATTERN_LITERAL && c->text.size ? c->text.size : 1;
    return c->content.size > size ? (c->content.size + size - 1) / size : 1;
}

static mh_status check_growth(const mh_build *b, const char *where, size_t growth)
{
    if (growth <= MH_GROWTH_MAX)
        return MH_OK;
    return FAIL(b, "%s: makes texts up to %zu times as long, expected at most %d times", where,
                growth, MH_GROWTH_MAX);
}

mh_status mh_json_normalizer(const mh_build *b, const char *where, json_t *value)
{
    mh_component_list *list = &b->t->parts.normalizers;
    size_t growth = 1;
    mh_status status = read_part(b, where, value, "normalizers", normalizers, list);
    const size_t mapped = b->t->parts.charsmap.longest;
    for (size_t i = 0; i < list->count && status == MH_OK; i++) {
        const mh_component *c = &list->items[i];
        if (c->kind == MH_NORMALIZE_REPLACE)
            growth *= growth_of(c);
        else if (c->kind == MH_NORMALIZE_PRECOMPILED && mapped)
            growth *= mapped;
        status = check_growth(b, where, growth);
    }
    return status;
}

mh_status mh_json_pre_tokenizer(const mh_build *b, const char *where, json_t *value)
{
    mh_component_list *list = &b->t->parts.pre_tokenizers;
    mh_status status = read_part(b, where, value, "pretokenizers", pre_tokenizers, list);
    for (size_t i = 0; status == MH_OK && i < list->count; i++) {
        if (list->items[i].kind == MH_SPLIT_BYTE_LEVEL && i + 1 < list->count)
            return FAIL(b, "%s: ByteLevel is number %zu of %zu, expected to be the last", where,
                        i + 1, list->count);
        b->t->parts.byte_level |= list->items[i].kind == MH_SPLIT_BYTE_LEVEL;
    }
    return status;
}

mh_status mh_json_decoder(const mh_build *b, const char *where, json_t *value)
{
    mh_component_list *list = &b->t->parts.decoders;
    size_t growth = 1;
    b->t->parts.joined_by_space = !value || json_is_null(value);
    mh_status status = read_part(b, where, value, "decoders", decoders, list);
    for (size_t i = 0; i < list->count && status == MH_OK; i++) {
        growth *= list->items[i].kind == MH_DECODE_REPLACE ? growth_of(&list->items[i]) : 1;
        status = check_growth(b, where, growth);
    }
    return status;
}
