// SPDX-License-Identifier: MIT
// The post-processor of a tokenizer.json. Each kind is a template, or asks for trimmed offsets.
#include "text/tokenizer_json.h"
#include "text/tokenizer_rules.h"

#include <stdio.h>

#define FAIL(b, ...) mh_source_fail((b)->source, MH_ERROR_FORMAT, __VA_ARGS__)

static mh_status read_id(const mh_build *b, const char *where, const json_t *value, int32_t *id)
{
    json_int_t number = json_integer_value(value);
    if (!json_is_integer(value) || number < 0 || (size_t)number >= b->t->count)
        return FAIL(b, "%s: found %s, expected the id of a token, less than %zu", where,
                    mh_json_describe(value).text, b->t->count);
    *id = (int32_t)number;
    return MH_OK;
}

// ["[CLS]", 101]
static mh_status tokenizer_json_post_read_pair(const mh_build *b, const char *where, json_t *object,
                                               const char *name, int32_t *id)
{
    json_t *pair = json_object_get(object, name);
    char place[128];
    snprintf(place, sizeof place, "%.90s.%s", where, name);
    if (json_array_size(pair) != 2)
        return FAIL(b, "%s: found %s, expected a list of a name and an id", place,
                    mh_json_describe(pair).text);
    return read_id(b, place, json_array_get(pair, 1), id);
}

static mh_status tokenizer_json_post_read_bert(const mh_build *b, const char *where, json_t *object,
                                               bool roberta)
{
    int32_t cls = -1, sep = -1;
    mh_status status = mh_json_members(
        b, where, object, roberta ? "type sep cls trim_offsets add_prefix_space" : "type sep cls");
    if (status == MH_OK)
        status = tokenizer_json_post_read_pair(b, where, object, "sep", &sep);
    if (status == MH_OK)
        status = tokenizer_json_post_read_pair(b, where, object, "cls", &cls);
    if (status == MH_OK && roberta)
        status = mh_json_bool_member(b, where, object, "trim_offsets", true, &b->t->parts.trim);
    if (status == MH_OK && roberta)
        status = mh_json_bool_member(b, where, object, "add_prefix_space", true,
                                     &b->t->parts.trim_prefix);
    if (status != MH_OK)
        return status;
    return mh_build_templates(b, cls, sep, roberta ? sep : -1, !roberta);
}

static mh_status tokenizer_json_post_read_byte_level(const mh_build *b, const char *where,
                                                     json_t *object)
{
    bool trim = true, prefix = true;
    mh_status status =
        mh_json_members(b, where, object, "type add_prefix_space trim_offsets use_regex");
    if (status == MH_OK)
        status = mh_json_bool_member(b, where, object, "trim_offsets", true, &trim);
    if (status == MH_OK)
        status = mh_json_bool_member(b, where, object, "add_prefix_space", true, &prefix);
    if (status == MH_OK && trim) {
        b->t->parts.trim = true;
        b->t->parts.trim_prefix = prefix;
    }
    return status;
}

// ---- templates ----------------------------------------------------------------------------------

// All ids of a special token of the template.
static mh_status add_special(const mh_build *b, const char *where, json_t *specials, mh_text name,
                             uint8_t type, mh_template *form)
{
    json_t *special = json_object_get(specials, name.bytes), *id;
    json_t *ids = json_object_get(special, "ids");
    size_t i;
    if (!json_is_array(ids))
        return FAIL(b, "%s: special token %s is not among special_tokens", where,
                    mh_quote(name.bytes, name.size).text);
    json_array_foreach(ids, i, id)
    {
        int32_t number;
        mh_status status = read_id(b, where, id, &number);
        if (status == MH_OK)
            status = mh_build_template(b, form, number, type);
        if (status != MH_OK)
            return status;
    }
    return MH_OK;
}

static mh_status add_item(const mh_build *b, const char *where, json_t *specials, json_t *item,
                          bool pair, mh_template *form)
{
    json_t *sequence = json_object_get(item, "Sequence");
    json_t *inner = sequence ? sequence : json_object_get(item, "SpecialToken");
    mh_text name = {NULL, 0};
    size_t type = 0;
    mh_status status = mh_json_members(b, where, item, "Sequence SpecialToken");
    if (status == MH_OK)
        status = mh_json_members(b, where, inner, "id type_id");
    if (status == MH_OK)
        status = mh_json_string_member(b, where, inner, "id", true, &name);
    if (status == MH_OK)
        status = mh_json_size_member(b, where, inner, "type_id", true, &type);
    if (status != MH_OK)
        return status;
    if (type > UINT8_MAX)
        return FAIL(b, "%s.type_id: found %zu, expected at most %d", where, type, UINT8_MAX);
    if (!sequence)
        return add_special(b, where, specials, name, (uint8_t)type, form);
    bool first = name.size == 1 && name.bytes[0] == 'A';
    if (!first && !(pair && name.size == 1 && name.bytes[0] == 'B'))
        return FAIL(b, "%s.Sequence: found %s, expected A%s", where,
                    mh_quote(name.bytes, name.size).text, pair ? " or B" : "");
    return mh_build_template(b, form, first ? MH_FIRST_TEXT : MH_SECOND_TEXT, (uint8_t)type);
}

static mh_status read_items(const mh_build *b, const char *where, json_t *object, const char *name,
                            mh_template *form)
{
    json_t *items = json_object_get(object, name), *item;
    json_t *specials = json_object_get(object, "special_tokens");
    enum { MOST = 64 }; // each may repeat a whole text
    size_t i;
    if (!json_is_array(items) || json_array_size(items) > MOST)
        return FAIL(b, "%s.%s: found %s, expected a list of at most %d", where, name,
                    mh_json_describe(items).text, MOST);
    json_array_foreach(items, i, item)
    {
        char place[128];
        snprintf(place, sizeof place, "%.80s.%s[%zu]", where, name, i);
        mh_status status = add_item(b, place, specials, item, form == &b->t->parts.pair, form);
        if (status != MH_OK)
            return status;
    }
    return MH_OK;
}

static mh_status read_template(const mh_build *b, const char *where, json_t *object)
{
    mh_status status = mh_json_members(b, where, object, "type single pair special_tokens");
    if (status == MH_OK)
        status = read_items(b, where, object, "single", &b->t->parts.single_text);
    if (status == MH_OK)
        status = read_items(b, where, object, "pair", &b->t->parts.pair);
    if (status == MH_OK && b->t->parts.single_text.count == 0)
        return FAIL(b, "%s.single: found an empty list", where);
    return status;
}

// ---- all ----------------------------------------------------------------------------------------

static mh_status read_sequence(const mh_build *b, const char *where, json_t *object)
{
    json_t *items = json_object_get(object, "processors"), *item;
    size_t i;
    if (!json_is_array(items))
        return FAIL(b, "%s.processors: found %s, expected a list", where,
                    mh_json_describe(items).text);
    json_array_foreach(items, i, item)
    {
        char place[128];
        snprintf(place, sizeof place, "%.100s[%zu]", where, i);
        mh_status status = mh_json_post_processor(b, place, item);
        if (status != MH_OK)
            return status;
    }
    return MH_OK;
}

mh_status mh_json_post_processor(const mh_build *b, const char *where, json_t *value)
{
    const char *type = json_string_value(json_object_get(value, "type"));
    if (!value || json_is_null(value))
        return MH_OK;
    if (!type)
        return FAIL(b, "%s.type: found %s, expected a string", where,
                    mh_json_describe(json_object_get(value, "type")).text);
    if (strcmp(type, "Sequence") == 0)
        return read_sequence(b, where, value);
    if (strcmp(type, "ByteLevel") == 0)
        return tokenizer_json_post_read_byte_level(b, where, value);
    bool bert = strcmp(type, "BertProcessing") == 0,
         roberta = strcmp(type, "RobertaProcessing") == 0;
    bool template = strcmp(type, "TemplateProcessing") == 0;
    if ((bert || roberta || template) && b->t->parts.single_text.count > 0)
        return FAIL(b, "%s: a second post-processor that adds tokens", where);
    if (bert || roberta)
        return tokenizer_json_post_read_bert(b, where, value, roberta);
    if (template)
        return read_template(b, where, value);
    return FAIL(b, "%s.type: %s is not known", where, mh_quote_string(type).text);
}
