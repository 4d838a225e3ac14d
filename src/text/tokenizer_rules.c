// SPDX-License-Identifier: MIT
// The rules of tokenizer_rules.h, a table for each object of the file.
#include "text/tokenizer_rules.h"

#include "text/words.h"

#include <stdio.h>

// A member and its allowed values; null also allows it to be absent. Without values it is checked
// elsewhere.
typedef struct rule {
    const char *member;
    const char *allowed[2];
} rule;

#define NULL_TEXT  "null"
#define FALSE_TEXT "false"
#define TRUE_TEXT  "true"

static const rule root_rules[] = {
    {"version", {"1.0", NULL_TEXT}},
    {"truncation", {NULL_TEXT}},
    {"padding", {NULL_TEXT}},
    {"added_tokens", {NULL}},
    {"normalizer", {NULL}},
    {"pre_tokenizer", {NULL}},
    {"post_processor", {NULL_TEXT}},
    {"decoder", {NULL}},
    {"model", {NULL}},
    {NULL, {NULL}},
};
static const rule normalizer_rules[] = {{"type", {"NFC"}}, {NULL, {NULL}}};
static const rule sequence_rules[] = {
    {"type", {"Sequence"}}, {"pretokenizers", {NULL}}, {NULL, {NULL}}};
static const rule split_rules[] = {
    {"type", {"Split"}},      {"pattern", {NULL}}, {"behavior", {"Isolated"}},
    {"invert", {FALSE_TEXT}}, {NULL, {NULL}},
};
static const rule pattern_rules[] = {{"Regex", {MH_WORD_PATTERN}}, {NULL, {NULL}}};
static const rule byte_level_rules[] = {
    {"type", {"ByteLevel"}},
    {"add_prefix_space", {FALSE_TEXT}},
    {"trim_offsets", {TRUE_TEXT, FALSE_TEXT}},
    {"use_regex", {FALSE_TEXT}},
    {NULL, {NULL}},
};
static const rule decoder_rules[] = {
    // which has these settings but ignores them
    {"type", {"ByteLevel"}},
    {"add_prefix_space", {TRUE_TEXT, FALSE_TEXT}},
    {"trim_offsets", {TRUE_TEXT, FALSE_TEXT}},
    {"use_regex", {TRUE_TEXT, FALSE_TEXT}},
    {NULL, {NULL}},
};
static const rule model_rules[] = {
    {"type", {"BPE"}},
    {"dropout", {NULL_TEXT}},
    {"unk_token", {NULL_TEXT}},
    {"continuing_subword_prefix", {NULL_TEXT, ""}},
    {"end_of_word_suffix", {NULL_TEXT, ""}},
    {"fuse_unk", {TRUE_TEXT, FALSE_TEXT}},
    {"byte_fallback", {FALSE_TEXT, NULL_TEXT}},
    {"ignore_merges", {FALSE_TEXT, NULL_TEXT}},
    {"vocab", {NULL}},
    {"merges", {NULL}},
    {NULL, {NULL}},
};
static const rule added_rules[] = {
    {"id", {NULL}},           {"content", {NULL}},      {"single_word", {FALSE_TEXT}},
    {"lstrip", {FALSE_TEXT}}, {"rstrip", {FALSE_TEXT}}, {"normalized", {TRUE_TEXT, FALSE_TEXT}},
    {"special", {TRUE_TEXT}}, {NULL, {NULL}},
};

mh_quoted mh_json_describe(const json_t *value)
{
    mh_quoted plain = {""};
    const char *name = json_is_object(value)    ? "an object"
                       : json_is_array(value)   ? "a list"
                       : json_is_integer(value) ? "an integer"
                       : json_is_real(value)    ? "a fraction"
                       : json_is_true(value)    ? TRUE_TEXT
                       : json_is_false(value)   ? FALSE_TEXT
                                                : NULL_TEXT;
    if (json_is_string(value))
        return mh_quote(json_string_value(value), json_string_length(value));
    snprintf(plain.text, sizeof plain.text, "%s", name);
    return plain;
}

static bool is_keyword(const char *allowed)
{
    return allowed == NULL || strcmp(allowed, NULL_TEXT) == 0 || strcmp(allowed, FALSE_TEXT) == 0 ||
           strcmp(allowed, TRUE_TEXT) == 0;
}

static bool tokenizer_rules_matches(const json_t *value, const char *allowed)
{
    if (allowed == NULL)
        return false;
    if (json_is_string(value))
        return !is_keyword(allowed) && strcmp(json_string_value(value), allowed) == 0;
    return is_keyword(allowed) && strcmp(mh_json_describe(value).text, allowed) == 0;
}

static mh_status check_value(const mh_source *source, const char *where, const rule *r,
                             const json_t *value)
{
    if (!r->allowed[0] || tokenizer_rules_matches(value, r->allowed[0]) ||
        tokenizer_rules_matches(value, r->allowed[1]))
        return MH_OK;
    mh_quoted expected = mh_quote_string(r->allowed[0]);
    return mh_source_fail(source, MH_ERROR_FORMAT, "%s%s: found %s, expected %s", where, r->member,
                          mh_json_describe(value).text,
                          is_keyword(r->allowed[0]) ? r->allowed[0] : expected.text);
}

// `where` is "" for the file itself, else the object's name with a full stop.
static mh_status check_object(const mh_source *source, const char *where, json_t *object,
                              const rule *rules)
{
    const char *key;
    json_t *value;
    if (!json_is_object(object))
        return mh_source_fail(source, MH_ERROR_FORMAT, "%.*s%sfound %s, expected an object",
                              (int)strcspn(where, "."), where, *where ? ": " : "",
                              mh_json_describe(object).text);
    // The type first: for an unknown component, its name says more than its settings.
    for (const rule *r = rules; r->member; r++) {
        mh_status status = check_value(source, where, r, json_object_get(object, r->member));
        if (status != MH_OK)
            return status;
    }
    json_object_foreach(object, key, value)
    {
        const rule *r = rules;
        while (r->member && strcmp(r->member, key) != 0)
            r++;
        if (!r->member)
            return mh_source_fail(source, MH_ERROR_FORMAT, "%s%s is unknown", where,
                                  mh_quote_string(key).text);
    }
    return MH_OK;
}

static mh_status check_pre_tokenizer(const mh_source *source, json_t *sequence)
{
    mh_status status = check_object(source, "pre_tokenizer.", sequence, sequence_rules);
    if (status != MH_OK)
        return status;
    json_t *list = json_object_get(sequence, "pretokenizers");
    if (json_array_size(list) != 2)
        return mh_source_fail(source, MH_ERROR_FORMAT,
                              "pre_tokenizer.pretokenizers: found %s of %zu, expected a list of 2: "
                              "Split and ByteLevel",
                              mh_json_describe(list).text, json_array_size(list));
    json_t *split = json_array_get(list, 0);
    status = check_object(source, "pretokenizers[0].", split, split_rules);
    if (status == MH_OK)
        status = check_object(source, "pattern.", json_object_get(split, "pattern"), pattern_rules);
    if (status == MH_OK)
        status =
            check_object(source, "pretokenizers[1].", json_array_get(list, 1), byte_level_rules);
    return status;
}

mh_status mh_tokenizer_check_rules(const mh_source *source, json_t *root)
{
    mh_status status = check_object(source, "", root, root_rules);
    if (status == MH_OK)
        status = check_object(source, "model.", json_object_get(root, "model"), model_rules);
    if (status == MH_OK)
        status = check_object(source, "normalizer.", json_object_get(root, "normalizer"),
                              normalizer_rules);
    if (status == MH_OK)
        status = check_pre_tokenizer(source, json_object_get(root, "pre_tokenizer"));
    if (status == MH_OK)
        status = check_object(source, "decoder.", json_object_get(root, "decoder"), decoder_rules);
    return status;
}

mh_status mh_tokenizer_check_added(const mh_source *source, const char *where, json_t *entry)
{
    return check_object(source, where, entry, added_rules);
}
