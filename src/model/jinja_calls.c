// SPDX-License-Identifier: MIT
// Functions, macros, and methods of strings and dicts.
#include "model/jinja_internal.h"
#include <time.h>

// ---- arguments ----------------------------------------------------------------------------------

mh_status mh_jinja_eval_arguments(mh_jinja_run *r, const mh_jinja_node *first,
                                  mh_jinja_arguments *arguments)
{
    size_t count = 0;
    for (const mh_jinja_node *i = first; i; i = i->next)
        count++;
    *arguments = (mh_jinja_arguments){0};
    if (count == 0)
        return MH_OK;
    arguments->values = mh_result_take(r->context, r->arena, count, sizeof *arguments->values);
    arguments->names = mh_result_take(r->context, r->arena, count, sizeof *arguments->names);
    if (!arguments->values || !arguments->names)
        return MH_ERROR_MEMORY;
    for (const mh_jinja_node *i = first; i; i = i->next) {
        if (i->name.size == 0 && arguments->positional < arguments->count)
            return mh_jinja_run_fail(r, i, "an argument without a name is behind one with a name");
        MH_TRY(mh_jinja_eval(r, i->a, &arguments->values[arguments->count]));
        arguments->names[arguments->count++] = i->name;
        arguments->positional += i->name.size == 0;
    }
    return MH_OK;
}

mh_jinja_value mh_jinja_argument(const mh_jinja_arguments *a, size_t i, const char *name)
{
    if (i < a->positional)
        return a->values[i];
    for (size_t j = a->positional; name && j < a->count; j++)
        if (mh_text_is(a->names[j], name))
            return a->values[j];
    return (mh_jinja_value){0};
}

// ---- functions ----------------------------------------------------------------------------------

typedef mh_status (*jinja_function)(mh_jinja_run *r, const mh_jinja_node *node,
                                    const mh_jinja_arguments *arguments, mh_jinja_value *value);

static mh_status call_range(mh_jinja_run *r, const mh_jinja_node *node, const mh_jinja_arguments *a,
                            mh_jinja_value *value)
{
    const mh_jinja_value first = mh_jinja_argument(a, 0, NULL), end = mh_jinja_argument(a, 1, NULL);
    const mh_jinja_value by = mh_jinja_argument(a, 2, NULL);
    const bool both = end.kind == MH_JINJA_INTEGER;
    const int64_t from = both ? first.integer : 0, to = both ? end.integer : first.integer;
    const int64_t step = by.kind == MH_JINJA_INTEGER ? by.integer : 1, most = (int64_t)1 << 31;
    if (first.kind != MH_JINJA_INTEGER || a->positional != a->count || step == 0)
        return mh_jinja_run_fail(r, node, "range: expected one to three numbers");
    if (from < -most || from > most || step < -most || step > most)
        return mh_jinja_run_fail(r, node, "range: a number is too large");
    *value = mh_jinja_new_list(r->context, r->arena);
    if (!value->kind)
        return MH_ERROR_MEMORY;
    for (int64_t i = from; step > 0 ? i < to : i > to; i += step) {
        MH_TRY(mh_jinja_step(r, node));
        MH_TRY(mh_jinja_append(r->context, r->arena, value->list, mh_jinja_integer(i)));
    }
    return MH_OK;
}

static mh_status call_dict(mh_jinja_run *r, const mh_jinja_node *node, const mh_jinja_arguments *a,
                           mh_jinja_value *value)
{
    if (a->positional)
        return mh_jinja_run_fail(r, node, "dict: expected arguments with names");
    *value = mh_jinja_new_dict(r->context, r->arena);
    if (!value->kind)
        return MH_ERROR_MEMORY;
    for (size_t i = 0; i < a->count; i++)
        MH_TRY(mh_jinja_put(r, value->dict, a->names[i], a->values[i]));
    return MH_OK;
}

static mh_status call_namespace(mh_jinja_run *r, const mh_jinja_node *node,
                                const mh_jinja_arguments *a, mh_jinja_value *value)
{
    MH_TRY(call_dict(r, node, a, value));
    value->kind = MH_JINJA_NAMESPACE;
    return MH_OK;
}

static mh_status call_raise(mh_jinja_run *r, const mh_jinja_node *node, const mh_jinja_arguments *a,
                            mh_jinja_value *value)
{
    const mh_jinja_value message = mh_jinja_argument(a, 0, "message");
    mh_text text;
    (void)value;
    MH_TRY(mh_jinja_text(r, node, &message, &text));
    const size_t size = text.size < 200 ? text.size : 200;
    return mh_fail(r->context, MH_ERROR_ARGUMENT, "the chat template refuses these messages: %.*s",
                   (int)mh_utf8_valid(text.bytes, size), text.bytes);
}

// The date, as the template wants it written.
static mh_status call_strftime(mh_jinja_run *r, const mh_jinja_node *node,
                               const mh_jinja_arguments *a, mh_jinja_value *value)
{
    enum { LONGEST = 64, SIZE = 1024 };
    const mh_jinja_value format = mh_jinja_argument(a, 0, "format");
    const time_t now = time(NULL);
    char pattern[LONGEST + 1], *text;
    struct tm date;
    if (format.kind != MH_JINJA_STRING || format.string.size > LONGEST || !localtime_r(&now, &date))
        return mh_jinja_run_fail(r, node, "strftime_now: expected a format of up to %d bytes",
                                 LONGEST);
    memcpy(pattern, format.string.bytes, format.string.size);
    pattern[format.string.size] = 0;
    MH_TRY(mh_jinja_take(r, node, SIZE, &text));
    const size_t size = strftime(text, SIZE, pattern, &date);
    *value = mh_jinja_string((mh_text){text, mh_utf8_valid(text, size)});
    return MH_OK;
}

static jinja_function find_function(mh_text name)
{
    static const struct {
        const char *name;
        jinja_function call;
    } functions[] = {{"range", call_range},
                     {"dict", call_dict},
                     {"namespace", call_namespace},
                     {"raise_exception", call_raise},
                     {"strftime_now", call_strftime}};
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++)
        if (mh_text_is(name, functions[i].name))
            return functions[i].call;
    return NULL;
}

bool mh_jinja_is_function(mh_text name) { return find_function(name) != NULL; }

// ---- macros -------------------------------------------------------------------------------------

static mh_status set_parameters(mh_jinja_run *r, const mh_jinja_node *macro,
                                const mh_jinja_arguments *arguments)
{
    size_t i = 0;
    for (const mh_jinja_node *p = macro->arguments; p; p = p->next, i++) {
        mh_jinja_value value = {0};
        bool given = i < arguments->positional;
        if (given)
            value = arguments->values[i];
        mh_jinja_spend(r, (arguments->count - arguments->positional) * (8 + p->name.size));
        for (size_t j = arguments->positional; j < arguments->count && !given; j++) {
            given = mh_text_equal(arguments->names[j], p->name);
            value = given ? arguments->values[j] : value;
        }
        if (!given && p->a)
            MH_TRY(mh_jinja_eval(r, p->a, &value));
        MH_TRY(mh_jinja_set_variable(r, p->name, value));
    }
    return i < arguments->positional ? mh_jinja_run_fail(r, macro, "too many arguments") : MH_OK;
}

static mh_status call_macro(mh_jinja_run *r, const mh_jinja_node *macro,
                            const mh_jinja_arguments *arguments, mh_jinja_value *value)
{
    const size_t scope = r->scope, count = r->count, floor = r->floor;
    r->scope = r->floor = count;
    MH_TRY(set_parameters(r, macro, arguments));
    MH_TRY(mh_jinja_capture(r, macro->body, value));
    r->scope = scope;
    r->floor = floor;
    r->count = count;
    return MH_OK;
}

// ---- methods ------------------------------------------------------------------------------------

static mh_status list_entries(mh_jinja_run *r, const mh_jinja_node *node, const mh_jinja_dict *dict,
                              bool names, bool values, mh_jinja_value *value)
{
    *value = mh_jinja_new_list(r->context, r->arena);
    if (!value->kind)
        return MH_ERROR_MEMORY;
    for (size_t i = 0; i < dict->count; i++) {
        MH_TRY(mh_jinja_step(r, node));
        const mh_jinja_value name = mh_jinja_string(dict->entries[i].name);
        mh_jinja_value item = names ? name : dict->entries[i].value;
        if (names && values) {
            item = mh_jinja_new_list(r->context, r->arena);
            if (!item.kind)
                return MH_ERROR_MEMORY;
            MH_TRY(mh_jinja_append(r->context, r->arena, item.list, name));
            MH_TRY(mh_jinja_append(r->context, r->arena, item.list, dict->entries[i].value));
        }
        MH_TRY(mh_jinja_append(r->context, r->arena, value->list, item));
    }
    return MH_OK;
}

static mh_status call_of_dict(mh_jinja_run *r, const mh_jinja_node *node, const mh_jinja_value *of,
                              const mh_jinja_arguments *a, mh_jinja_value *value)
{
    const bool items = mh_text_is(node->name, "items");
    if (items || mh_text_is(node->name, "keys") || mh_text_is(node->name, "values"))
        return list_entries(r, node, of->dict, !mh_text_is(node->name, "values"),
                            !mh_text_is(node->name, "keys"), value);
    const mh_jinja_value name = mh_jinja_argument(a, 0, NULL);
    if (!mh_text_is(node->name, "get") || name.kind != MH_JINJA_STRING)
        return mh_jinja_run_fail(r, node, "found the method %.*s of a dict, which is not supported",
                                 (int)node->name.size, node->name.bytes);
    const mh_jinja_value *found = mh_jinja_get(r, of->dict, name.string);
    *value = found ? *found : a->positional > 1 ? a->values[1] : mh_jinja_none();
    return MH_OK;
}

static size_t find_text(mh_text in, mh_text what)
{
    for (size_t i = 0; i + what.size <= in.size; i++)
        if (memcmp(in.bytes + i, what.bytes, what.size) == 0)
            return i;
    return in.size;
}

// Parts between occurrences of `by`, of which at most `most` are cuts.
static mh_status split_text(mh_jinja_run *r, const mh_jinja_node *node, mh_text text, mh_text by,
                            int64_t most, mh_jinja_value *value)
{
    *value = mh_jinja_new_list(r->context, r->arena);
    if (!value->kind)
        return MH_ERROR_MEMORY;
    MH_TRY(mh_jinja_search(r, node, text, by));
    for (size_t at; most != 0 && (at = find_text(text, by)) < text.size; most--) {
        MH_TRY(mh_jinja_step(r, node));
        MH_TRY(mh_jinja_append(r->context, r->arena, value->list,
                               mh_jinja_string((mh_text){text.bytes, at})));
        text = (mh_text){text.bytes + at + by.size, text.size - at - by.size};
    }
    return mh_jinja_append(r->context, r->arena, value->list, mh_jinja_string(text));
}

static mh_status call_split(mh_jinja_run *r, const mh_jinja_node *node, mh_text text,
                            const mh_jinja_arguments *a, mh_jinja_value *value)
{
    const mh_jinja_value by = mh_jinja_argument(a, 0, "sep"),
                         most = mh_jinja_argument(a, 1, "maxsplit");
    if (by.kind != MH_JINJA_STRING || by.string.size == 0)
        return mh_jinja_run_fail(r, node, "split: expected text between the parts");
    return split_text(r, node, text, by.string, most.kind == MH_JINJA_INTEGER ? most.integer : -1,
                      value);
}

static bool has_affix(mh_text text, mh_text affix, bool end)
{
    return affix.size <= text.size && memcmp(end ? text.bytes + text.size - affix.size : text.bytes,
                                             affix.bytes, affix.size) == 0;
}

// startswith, endswith: of a string, or of any in a list
static mh_status call_affix(mh_jinja_run *r, const mh_jinja_node *node, mh_text text,
                            const mh_jinja_arguments *a, mh_jinja_value *value)
{
    const mh_jinja_value affix = mh_jinja_argument(a, 0, NULL);
    const mh_jinja_list one = {(mh_jinja_value *)&affix, 1, 1};
    const mh_jinja_list *list = affix.kind == MH_JINJA_LIST ? affix.list : &one;
    const bool end = mh_text_is(node->name, "endswith");
    bool found = false;
    for (size_t i = 0; i < list->count; i++) {
        if (list->items[i].kind != MH_JINJA_STRING)
            return mh_jinja_run_fail(r, node, "%.*s: expected a string", (int)node->name.size,
                                     node->name.bytes);
        MH_TRY(mh_jinja_step(r, node));
        mh_jinja_spend(r, list->items[i].string.size);
        found = found || has_affix(text, list->items[i].string, end);
    }
    *value = mh_jinja_boolean(found);
    return MH_OK;
}

static mh_status call_strip(mh_jinja_run *r, const mh_jinja_node *node, mh_text text,
                            const mh_jinja_arguments *a, mh_jinja_value *value)
{
    const mh_jinja_value set = mh_jinja_argument(a, 0, NULL);
    if (a->count && set.kind != MH_JINJA_STRING && set.kind != MH_JINJA_NONE)
        return mh_jinja_run_fail(r, node, "strip: expected a string");
    MH_TRY(mh_jinja_search(r, node, text,
                           set.kind == MH_JINJA_STRING ? set.string : (mh_text){"", 0}));
    *value = mh_jinja_string(mh_jinja_strip(text, set.kind == MH_JINJA_STRING ? &set.string : NULL,
                                            !mh_text_is(node->name, "rstrip"),
                                            !mh_text_is(node->name, "lstrip")));
    return MH_OK;
}

static mh_status call_of_string(mh_jinja_run *r, const mh_jinja_node *node,
                                const mh_jinja_value *of, const mh_jinja_arguments *a,
                                mh_jinja_value *value)
{
    static const char *const filters[] = {"upper", "lower", "capitalize", "title", "replace"};
    const mh_text name = node->name;
    if (mh_text_is(name, "strip") || mh_text_is(name, "lstrip") || mh_text_is(name, "rstrip"))
        return call_strip(r, node, of->string, a, value);
    if (mh_text_is(name, "startswith") || mh_text_is(name, "endswith"))
        return call_affix(r, node, of->string, a, value);
    if (mh_text_is(name, "split"))
        return call_split(r, node, of->string, a, value);
    for (size_t i = 0; i < sizeof filters / sizeof *filters; i++)
        if (mh_text_is(name, filters[i]))
            return mh_jinja_apply_filter(r, node, name, of, a, value);
    return mh_jinja_run_fail(r, node, "found the method %.*s of a string, which is not supported",
                             (int)name.size, name.bytes);
}

static mh_status call_method(mh_jinja_run *r, const mh_jinja_node *node,
                             const mh_jinja_arguments *arguments, mh_jinja_value *value)
{
    mh_jinja_value of;
    MH_TRY(mh_jinja_eval(r, node->a, &of));
    if (of.kind == MH_JINJA_STRING)
        return call_of_string(r, node, &of, arguments, value);
    if (of.kind == MH_JINJA_DICT)
        return call_of_dict(r, node, &of, arguments, value);
    return mh_jinja_run_fail(r, node, "found the method %.*s of %s, which is not supported",
                             (int)node->name.size, node->name.bytes, mh_jinja_kind_name(of.kind));
}

// ---- calls --------------------------------------------------------------------------------------

mh_status mh_jinja_call(mh_jinja_run *r, const mh_jinja_node *node, mh_jinja_value *value)
{
    mh_jinja_arguments arguments;
    MH_TRY(mh_jinja_eval_arguments(r, node->arguments, &arguments));
    if (node->a)
        return call_method(r, node, &arguments, value);
    const mh_jinja_value *found = mh_jinja_find_variable(r, node->name);
    if (found && found->kind == MH_JINJA_MACRO && found->macro)
        return call_macro(r, found->macro, &arguments, value);
    const jinja_function function = found ? NULL : find_function(node->name);
    if (!function)
        return mh_jinja_run_fail(r, node, "found a call of %.*s, which is not supported",
                                 (int)node->name.size, node->name.bytes);
    return function(r, node, &arguments, value);
}
