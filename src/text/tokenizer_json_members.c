// SPDX-License-Identifier: MIT
// Members of JSON objects, checked; see tokenizer_json.h.
#include "text/tokenizer_json.h"
#include "text/tokenizer_patterns.h"
#include "text/tokenizer_rules.h"

#define FAIL(b, ...) mh_source_fail((b)->source, MH_ERROR_FORMAT, __VA_ARGS__)

static bool is_among(const char *name, const char *names)
{
    const size_t size = strlen(name);
    for (const char *at = names; size > 0 && (at = strstr(at, name)) != NULL; at += size)
        if ((at == names || at[-1] == ' ') && (at[size] == ' ' || at[size] == '\0'))
            return true;
    return false;
}

mh_status mh_json_members(const mh_build *b, const char *where, json_t *object, const char *names)
{
    const char *name;
    json_t *value;
    if (!json_is_object(object))
        return FAIL(b, "%s%sfound %s, expected an object", where, *where ? ": " : "",
                    mh_json_describe(object).text);
    json_object_foreach(object, name, value)
    {
        if (!is_among(name, names))
            return FAIL(b, "%s%s%s is not known", where, *where ? "." : "",
                        mh_quote_string(name).text);
    }
    return MH_OK;
}

static mh_status wrong(const mh_build *b, const char *where, const char *name, const json_t *found,
                       const char *expected)
{
    return FAIL(b, "%s%s%s: found %s, expected %s", where, *where ? "." : "", name,
                mh_json_describe(found).text, expected);
}

static bool is_missing(const json_t *value, bool needed)
{
    return !needed && (!value || json_is_null(value));
}

mh_status mh_json_bool_member(const mh_build *b, const char *where, json_t *object,
                              const char *name, bool needed, bool *value)
{
    const json_t *member = json_object_get(object, name);
    if (is_missing(member, needed))
        return MH_OK;
    if (!json_is_boolean(member))
        return wrong(b, where, name, member, "true or false");
    *value = json_is_true(member);
    return MH_OK;
}

mh_status mh_json_size_member(const mh_build *b, const char *where, json_t *object,
                              const char *name, bool needed, size_t *value)
{
    const json_t *member = json_object_get(object, name);
    if (is_missing(member, needed))
        return MH_OK;
    if (!json_is_integer(member) || json_integer_value(member) < 0)
        return wrong(b, where, name, member, "an integer, 0 or more");
    *value = (size_t)json_integer_value(member);
    return MH_OK;
}

mh_status mh_json_string_member(const mh_build *b, const char *where, json_t *object,
                                const char *name, bool needed, mh_text *value)
{
    const json_t *member = json_object_get(object, name);
    if (is_missing(member, needed))
        return MH_OK;
    if (!json_is_string(member))
        return wrong(b, where, name, member, "a string");
    *value = (mh_text){json_string_value(member), json_string_length(member)};
    return MH_OK;
}

mh_status mh_json_keep_member(const mh_build *b, const char *where, json_t *object,
                              const char *name, bool needed, mh_span *value)
{
    mh_text text = {NULL, 0};
    mh_status status = mh_json_string_member(b, where, object, name, needed, &text);
    return status == MH_OK && text.bytes ? mh_build_text(b, text.bytes, text.size, value) : status;
}

mh_status mh_json_pattern(const mh_build *b, const char *where, json_t *object,
                          mh_component *component)
{
    json_t *pattern = json_object_get(object, "pattern");
    mh_text text = {NULL, 0};
    mh_status status = mh_json_members(b, where, pattern, "String Regex");
    if (status == MH_OK && json_object_size(pattern) != 1)
        return FAIL(b, "%s.pattern: found %zu members, expected String or Regex", where,
                    json_object_size(pattern));
    if (status == MH_OK && json_object_get(pattern, "String"))
        return mh_json_keep_member(b, where, pattern, "String", true, &component->text);
    if (status == MH_OK)
        status = mh_json_string_member(b, where, pattern, "Regex", true, &text);
    if (status != MH_OK)
        return status;
    component->pattern = (uint8_t)mh_pattern_of(text.bytes, text.size);
    if (component->pattern == MH_PATTERN_COUNT)
        return FAIL(b, "%s.pattern.Regex: %s is not among the patterns that we have", where,
                    mh_quote(text.bytes, text.size).text);
    return MH_OK;
}

mh_status mh_json_choice(const mh_build *b, const char *where, json_t *object, const char *name,
                         const char *const *choices, uint8_t *value)
{
    const json_t *member = json_object_get(object, name);
    const char *found = json_string_value(member);
    for (uint8_t i = 0; found && choices[i]; i++)
        if (strcmp(choices[i], found) == 0) {
            *value = i;
            return MH_OK;
        }
    return FAIL(b, "%s%s%s: %s is not known", where, *where ? "." : "", name,
                mh_json_describe(member).text);
}
