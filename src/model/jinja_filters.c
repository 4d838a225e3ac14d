// SPDX-License-Identifier: MIT
// Filters and tests of templates.
#include "model/jinja_internal.h"
#include <stdlib.h>

typedef struct filter_call {
    mh_jinja_run *run;
    const mh_jinja_node *node;
    mh_text name;
    const mh_jinja_value *in;
    const mh_jinja_arguments *arguments;
} filter_call;

typedef mh_status (*jinja_filter)(const filter_call *c, mh_jinja_value *out);

// ---- strings ------------------------------------------------------------------------------------

static mh_status filter_trim(const filter_call *c, mh_jinja_value *out)
{
    const mh_jinja_value set = mh_jinja_argument(c->arguments, 0, "chars");
    mh_text text;
    MH_TRY(mh_jinja_text(c->run, c->node, c->in, &text));
    MH_TRY(mh_jinja_search(c->run, c->node, text,
                           set.kind == MH_JINJA_STRING ? set.string : (mh_text){"", 0}));
    *out = mh_jinja_string(
        mh_jinja_strip(text, set.kind == MH_JINJA_STRING ? &set.string : NULL, true, true));
    return MH_OK;
}

static mh_status filter_string(const filter_call *c, mh_jinja_value *out)
{
    mh_text text;
    MH_TRY(mh_jinja_text(c->run, c->node, c->in, &text));
    *out = mh_jinja_string(text);
    return MH_OK;
}

static bool is_upper(char c) { return c >= 'A' && c <= 'Z'; }
static bool is_lower(char c) { return c >= 'a' && c <= 'z'; }

// upper, lower, capitalize, title: of ASCII, title of letters and spaces
static mh_status filter_case(const filter_call *c, mh_jinja_value *out)
{
    mh_text text;
    char *to;
    MH_TRY(mh_jinja_text(c->run, c->node, c->in, &text));
    MH_TRY(mh_jinja_take(c->run, c->node, text.size, &to));
    for (size_t i = 0; i < text.size; i++) {
        const char from = text.bytes[i];
        const char rule = c->name.bytes[0];
        const bool title = rule == 't', begins = i == 0 || (title && text.bytes[i - 1] == ' ');
        const bool upper = rule == 'u' || ((rule == 'c' || title) && begins);
        if ((unsigned char)from >= 0x80 ||
            (title && !is_upper(from) && !is_lower(from) && from != ' '))
            return mh_jinja_run_fail(c->run, c->node, "%.*s: expected ASCII%s", (int)c->name.size,
                                     c->name.bytes, title ? " letters" : "");
        to[i] = upper && is_lower(from)    ? (char)(from - 'a' + 'A')
                : !upper && is_upper(from) ? (char)(from - 'A' + 'a')
                                           : from;
    }
    *out = mh_jinja_string((mh_text){to, text.size});
    return MH_OK;
}

static mh_status filter_replace(const filter_call *c, mh_jinja_value *out)
{
    const mh_jinja_value old = mh_jinja_argument(c->arguments, 0, "old");
    const mh_jinja_value new = mh_jinja_argument(c->arguments, 1, "new");
    mh_text text;
    MH_TRY(mh_jinja_text(c->run, c->node, c->in, &text));
    if (old.kind != MH_JINJA_STRING || new.kind != MH_JINJA_STRING || old.string.size == 0 ||
        c->arguments->count > 2)
        return mh_jinja_run_fail(c->run, c->node, "replace: expected two strings");
    MH_TRY(mh_jinja_search(c->run, c->node, text, old.string));
    if (text.size / old.string.size * new.string.size > c->run->bytes)
        return mh_jinja_run_fail(c->run, c->node, "the template's strings take too much memory");
    mh_appender to = {.context = c->run->context};
    for (size_t i = 0; i < text.size;) {
        const bool here = text.size - i >= old.string.size &&
                          memcmp(text.bytes + i, old.string.bytes, old.string.size) == 0;
        if (here)
            mh_append(&to, new.string.bytes, new.string.size);
        else
            mh_append(&to, text.bytes + i, 1);
        i += here ? old.string.size : 1;
    }
    const mh_text made = {to.buffer.data ? to.buffer.data : "", to.buffer.size};
    mh_status status =
        to.failed ? MH_ERROR_MEMORY : mh_jinja_join(c->run, c->node, made, (mh_text){"", 0}, out);
    mh_buffer_free(c->run->context, &to.buffer);
    return status;
}

static mh_status filter_json(const filter_call *c, mh_jinja_value *out)
{
    mh_appender to = {.context = c->run->context};
    if (c->arguments->count)
        return mh_jinja_run_fail(c->run, c->node, "tojson: expected no arguments");
    mh_status status = mh_jinja_json(c->run, c->node, c->in, &to);
    if (!status && to.failed)
        status = MH_ERROR_MEMORY;
    if (!status)
        status = mh_jinja_join(c->run, c->node, (mh_text){to.buffer.data, to.buffer.size},
                               (mh_text){"", 0}, out);
    mh_buffer_free(c->run->context, &to.buffer);
    return status;
}

// ---- collections --------------------------------------------------------------------------------

static mh_status filter_length(const filter_call *c, mh_jinja_value *out)
{
    int64_t length;
    MH_TRY(mh_jinja_length(c->run, c->node, c->in, &length));
    *out = mh_jinja_integer(length);
    return MH_OK;
}

static mh_status filter_list(const filter_call *c, mh_jinja_value *out)
{
    const mh_jinja_list *items;
    MH_TRY(mh_jinja_items(c->run, c->node, c->in, &items));
    *out = (mh_jinja_value){.kind = MH_JINJA_LIST, .list = (mh_jinja_list *)items};
    return MH_OK;
}

static mh_status filter_first(const filter_call *c, mh_jinja_value *out)
{
    const mh_jinja_list *items;
    MH_TRY(mh_jinja_items(c->run, c->node, c->in, &items));
    *out = (mh_jinja_value){0};
    if (items->count)
        *out = items->items[c->name.bytes[0] == 'f' ? 0 : items->count - 1];
    return MH_OK;
}

static mh_status filter_reverse(const filter_call *c, mh_jinja_value *out)
{
    const mh_jinja_value bounds[3] = {{0}, {0}, mh_jinja_integer(-1)};
    return mh_jinja_slice(c->run, c->node, c->in, bounds, out);
}

static mh_status filter_items(const filter_call *c, mh_jinja_value *out)
{
    if (!mh_jinja_is_dict(c->in))
        return mh_jinja_run_fail(c->run, c->node, "items: expected a dict");
    *out = mh_jinja_new_list(c->run->context, c->run->arena);
    if (!out->kind)
        return MH_ERROR_MEMORY;
    for (size_t i = 0; i < c->in->dict->count; i++) {
        const mh_jinja_entry *entry = &c->in->dict->entries[i];
        MH_TRY(mh_jinja_step(c->run, c->node));
        const mh_jinja_value pair = mh_jinja_new_list(c->run->context, c->run->arena);
        if (!pair.kind)
            return MH_ERROR_MEMORY;
        MH_TRY(mh_jinja_append(c->run->context, c->run->arena, pair.list,
                               mh_jinja_string(entry->name)));
        MH_TRY(mh_jinja_append(c->run->context, c->run->arena, pair.list, entry->value));
        MH_TRY(mh_jinja_append(c->run->context, c->run->arena, out->list, pair));
    }
    return MH_OK;
}

static mh_status filter_join(const filter_call *c, mh_jinja_value *out)
{
    const mh_jinja_value between = mh_jinja_argument(c->arguments, 0, "d");
    const mh_jinja_list *items;
    mh_text text, gap;
    MH_TRY(mh_jinja_items(c->run, c->node, c->in, &items));
    MH_TRY(mh_jinja_text(c->run, c->node, &between, &gap));
    *out = mh_jinja_string((mh_text){"", 0});
    for (size_t i = 0; i < items->count; i++) {
        MH_TRY(mh_jinja_step(c->run, c->node));
        MH_TRY(mh_jinja_text(c->run, c->node, &items->items[i], &text));
        if (i)
            MH_TRY(mh_jinja_join(c->run, c->node, out->string, gap, out));
        MH_TRY(mh_jinja_join(c->run, c->node, out->string, text, out));
    }
    return MH_OK;
}

// The arguments behind the first `n`.
static mh_jinja_arguments arguments_behind(const mh_jinja_arguments *a, size_t n)
{
    if (n == 0) // there may be none at all
        return *a;
    return (mh_jinja_arguments){a->values + n, a->names + n, a->count - n, a->positional - n};
}

// Filters of items go through those of any value that is not false.
static mh_status items_or_none(const filter_call *c, const mh_jinja_list **items)
{
    static const mh_jinja_list none = {0};
    *items = &none;
    return mh_jinja_truth(c->in) ? mh_jinja_items(c->run, c->node, c->in, items) : MH_OK;
}

// map(attribute='x'), map('filter')
static mh_status filter_map(const filter_call *c, mh_jinja_value *out)
{
    const mh_jinja_value member = mh_jinja_argument(c->arguments, SIZE_MAX, "attribute");
    const mh_jinja_value filter = mh_jinja_argument(c->arguments, 0, NULL);
    const mh_jinja_value *name = member.kind ? &member : &filter;
    const mh_jinja_list *items;
    MH_TRY(items_or_none(c, &items));
    *out = mh_jinja_new_list(c->run->context, c->run->arena);
    if (!out->kind)
        return MH_ERROR_MEMORY;
    if (name->kind != MH_JINJA_STRING)
        return mh_jinja_run_fail(c->run, c->node, "map: expected an attribute or a filter");
    for (size_t i = 0; i < items->count; i++) {
        mh_jinja_value item;
        MH_TRY(mh_jinja_step(c->run, c->node));
        if (member.kind) {
            MH_TRY(mh_jinja_index(c->run, c->node, &items->items[i], name, &item));
        } else {
            const mh_jinja_arguments rest = arguments_behind(c->arguments, 1);
            MH_TRY(mh_jinja_apply_filter(c->run, c->node, name->string, &items->items[i], &rest,
                                         &item));
        }
        MH_TRY(mh_jinja_append(c->run->context, c->run->arena, out->list, item));
    }
    return MH_OK;
}

// select, reject, selectattr, rejectattr: items that pass a test, or whose member does
static mh_status filter_select(const filter_call *c, mh_jinja_value *out)
{
    const bool member = c->name.size > 6, select = c->name.bytes[0] == 's';
    const mh_jinja_value of = mh_jinja_argument(c->arguments, 0, NULL);
    const mh_jinja_value test = mh_jinja_argument(c->arguments, member, NULL);
    const size_t known = test.kind ? member + 1u : member;
    const mh_jinja_list *items;
    if ((member && of.kind != MH_JINJA_STRING) || (test.kind && test.kind != MH_JINJA_STRING))
        return mh_jinja_run_fail(c->run, c->node, "%.*s: expected names", (int)c->name.size,
                                 c->name.bytes);
    const mh_jinja_arguments rest = arguments_behind(c->arguments, known);
    MH_TRY(items_or_none(c, &items));
    *out = mh_jinja_new_list(c->run->context, c->run->arena);
    if (!out->kind)
        return MH_ERROR_MEMORY;
    for (size_t i = 0; i < items->count; i++) {
        mh_jinja_value value = items->items[i];
        MH_TRY(mh_jinja_step(c->run, c->node));
        if (member)
            MH_TRY(mh_jinja_index(c->run, c->node, &items->items[i], &of, &value));
        bool passes = mh_jinja_truth(&value);
        if (test.kind)
            MH_TRY(mh_jinja_apply_test(c->run, c->node, test.string, &value, &rest, &passes));
        if (passes == select)
            MH_TRY(mh_jinja_append(c->run->context, c->run->arena, out->list, items->items[i]));
    }
    return MH_OK;
}

// ---- others -------------------------------------------------------------------------------------

static mh_status filter_default(const filter_call *c, mh_jinja_value *out)
{
    const mh_jinja_value value = mh_jinja_argument(c->arguments, 0, "default_value");
    const mh_jinja_value falsy = mh_jinja_argument(c->arguments, 1, "boolean");
    const bool missing =
        c->in->kind == MH_JINJA_UNDEFINED || (mh_jinja_truth(&falsy) && !mh_jinja_truth(c->in));
    *out = !missing                           ? *c->in
           : value.kind != MH_JINJA_UNDEFINED ? value
                                              : mh_jinja_string((mh_text){"", 0});
    return MH_OK;
}

static mh_status filter_int(const filter_call *c, mh_jinja_value *out)
{
    if (c->in->kind == MH_JINJA_INTEGER || c->in->kind == MH_JINJA_BOOLEAN) {
        *out = mh_jinja_integer(c->in->integer);
        return MH_OK;
    }
    return mh_jinja_run_fail(c->run, c->node, "int: found %s, expected a number",
                             mh_jinja_kind_name(c->in->kind));
}

static mh_status filter_same(const filter_call *c, mh_jinja_value *out)
{
    *out = *c->in;
    return MH_OK;
}

mh_status mh_jinja_apply_filter(mh_jinja_run *r, const mh_jinja_node *node, mh_text name,
                                const mh_jinja_value *in, const mh_jinja_arguments *arguments,
                                mh_jinja_value *out)
{
    static const struct {
        const char *name;
        jinja_filter apply;
    } filters[] = {
        {"trim", filter_trim},       {"string", filter_string},     {"upper", filter_case},
        {"lower", filter_case},      {"capitalize", filter_case},   {"title", filter_case},
        {"replace", filter_replace}, {"tojson", filter_json},       {"length", filter_length},
        {"count", filter_length},    {"list", filter_list},         {"first", filter_first},
        {"last", filter_first},      {"reverse", filter_reverse},   {"items", filter_items},
        {"join", filter_join},       {"map", filter_map},           {"select", filter_select},
        {"reject", filter_select},   {"selectattr", filter_select}, {"rejectattr", filter_select},
        {"default", filter_default}, {"d", filter_default},         {"int", filter_int},
        {"safe", filter_same}};
    MH_TRY(mh_jinja_step(r, node));
    const filter_call call = {r, node, name, in, arguments};
    for (size_t i = 0; i < sizeof filters / sizeof *filters; i++)
        if (mh_text_is(name, filters[i].name))
            return filters[i].apply(&call, out);
    return mh_jinja_run_fail(r, node, "found the filter %.*s, which is not supported",
                             (int)(name.size < 40 ? name.size : 40), name.bytes);
}

// ---- tests --------------------------------------------------------------------------------------

// Of the value's kind alone.
static bool test_kind(mh_text name, const mh_jinja_value *v, bool *result)
{
    const mh_jinja_kind kind = v->kind;
    const struct {
        const char *name;
        bool result;
    } tests[] = {{"defined", kind != MH_JINJA_UNDEFINED},
                 {"undefined", kind == MH_JINJA_UNDEFINED},
                 {"none", kind == MH_JINJA_NONE},
                 {"boolean", kind == MH_JINJA_BOOLEAN},
                 {"true", kind == MH_JINJA_BOOLEAN && v->integer},
                 {"false", kind == MH_JINJA_BOOLEAN && !v->integer},
                 {"integer", kind == MH_JINJA_INTEGER},
                 {"number", kind == MH_JINJA_INTEGER || kind == MH_JINJA_BOOLEAN},
                 {"string", kind == MH_JINJA_STRING},
                 {"mapping", kind == MH_JINJA_DICT},
                 {"sequence", kind == MH_JINJA_STRING || kind == MH_JINJA_LIST ||
                                  kind == MH_JINJA_DICT || kind == MH_JINJA_UNDEFINED},
                 {"iterable", kind == MH_JINJA_STRING || kind == MH_JINJA_LIST ||
                                  kind == MH_JINJA_DICT || kind == MH_JINJA_UNDEFINED},
                 {"callable", kind == MH_JINJA_MACRO}};
    for (size_t i = 0; i < sizeof tests / sizeof *tests; i++)
        if (mh_text_is(name, tests[i].name)) {
            *result = tests[i].result;
            return true;
        }
    return false;
}

mh_status mh_jinja_apply_test(mh_jinja_run *r, const mh_jinja_node *node, mh_text name,
                              const mh_jinja_value *in, const mh_jinja_arguments *arguments,
                              bool *result)
{
    const mh_jinja_value other = mh_jinja_argument(arguments, 0, NULL);
    const bool even = mh_text_is(name, "even"), odd = mh_text_is(name, "odd");
    MH_TRY(mh_jinja_step(r, node));
    if (test_kind(name, in, result))
        return MH_OK;
    const bool unequal = mh_text_is(name, "ne") || mh_text_is(name, "!=");
    if (unequal || mh_text_is(name, "equalto") || mh_text_is(name, "eq") ||
        mh_text_is(name, "==") || mh_text_is(name, "sameas")) {
        MH_TRY(mh_jinja_equal(r, node, in, &other, result));
        *result = *result != unequal;
        return MH_OK;
    }
    if (mh_text_is(name, "in"))
        return mh_jinja_contains(r, node, &other, in, result);
    if ((even || odd) && in->kind == MH_JINJA_INTEGER) {
        *result = (in->integer % 2 != 0) == odd;
        return MH_OK;
    }
    if (mh_text_is(name, "divisibleby") && in->kind == MH_JINJA_INTEGER &&
        other.kind == MH_JINJA_INTEGER && other.integer != 0 && other.integer != -1) {
        *result = in->integer % other.integer == 0;
        return MH_OK;
    }
    return mh_jinja_run_fail(r, node, "found the test %.*s of %s, which is not supported",
                             (int)(name.size < 40 ? name.size : 40), name.bytes,
                             mh_jinja_kind_name(in->kind));
}
