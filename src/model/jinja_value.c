// SPDX-License-Identifier: MIT
// Values of templates, with the semantics of Python's: strings are sequences of characters.
#include "base/size_math.h"
#include "model/jinja_internal.h"
#include "text/utf8.h"
#include <inttypes.h>
#include <stdio.h>

const char *mh_jinja_kind_name(mh_jinja_kind kind)
{
    static const char *const names[] = {
        [MH_JINJA_UNDEFINED] = "an undefined value",
        [MH_JINJA_NONE] = "none",
        [MH_JINJA_BOOLEAN] = "a boolean",
        [MH_JINJA_INTEGER] = "a number",
        [MH_JINJA_STRING] = "a string",
        [MH_JINJA_LIST] = "a list",
        [MH_JINJA_DICT] = "a dict",
        [MH_JINJA_NAMESPACE] = "a namespace",
        [MH_JINJA_MACRO] = "a macro",
    };
    return names[kind];
}

// ---- memory -------------------------------------------------------------------------------------

mh_jinja_value mh_jinja_new_list(mh_context *context, mh_result_arena *arena)
{
    mh_jinja_list *list = mh_result_take(context, arena, 1, sizeof *list);
    if (!list)
        return (mh_jinja_value){0};
    *list = (mh_jinja_list){0};
    return (mh_jinja_value){.kind = MH_JINJA_LIST, .list = list};
}

mh_jinja_value mh_jinja_new_dict(mh_context *context, mh_result_arena *arena)
{
    mh_jinja_dict *dict = mh_result_take(context, arena, 1, sizeof *dict);
    if (!dict)
        return (mh_jinja_value){0};
    *dict = (mh_jinja_dict){0};
    return (mh_jinja_value){.kind = MH_JINJA_DICT, .dict = dict};
}

// Room for one more element; what there is stays in the arena.
static void *make_room(mh_context *context, mh_result_arena *arena, void *elements, size_t count,
                       size_t *capacity, size_t size)
{
    if (count < *capacity)
        return elements;
    void *more = mh_result_take(context, arena, 2 * *capacity + 4, size);
    if (more && count)
        memcpy(more, elements, count * size);
    *capacity = more ? 2 * *capacity + 4 : *capacity;
    return more;
}

mh_status mh_jinja_append(mh_context *context, mh_result_arena *arena, mh_jinja_list *list,
                          mh_jinja_value value)
{
    mh_jinja_value *items =
        make_room(context, arena, list->items, list->count, &list->capacity, sizeof *items);
    if (!items)
        return MH_ERROR_MEMORY;
    list->items = items;
    items[list->count++] = value;
    return MH_OK;
}

static mh_jinja_value *find_entry(const mh_jinja_dict *dict, mh_text name)
{
    for (size_t i = 0; i < dict->count; i++)
        if (mh_text_equal(dict->entries[i].name, name))
            return &dict->entries[i].value;
    return NULL;
}

mh_status mh_jinja_set(mh_context *context, mh_result_arena *arena, mh_jinja_dict *dict,
                       mh_text name, mh_jinja_value value)
{
    mh_jinja_value *found = find_entry(dict, name);
    if (found) {
        *found = value;
        return MH_OK;
    }
    mh_jinja_entry *entries =
        make_room(context, arena, dict->entries, dict->count, &dict->capacity, sizeof *entries);
    if (!entries)
        return MH_ERROR_MEMORY;
    dict->entries = entries;
    entries[dict->count++] = (mh_jinja_entry){name, value};
    return MH_OK;
}

// A name is compared with all of a dict, byte by byte with those of its size.
static void spend_lookup(mh_jinja_run *r, const mh_jinja_dict *dict, mh_text name)
{
    mh_jinja_spend(r, dict->count * (sizeof name.size + name.size));
}

mh_jinja_value *mh_jinja_get(mh_jinja_run *r, const mh_jinja_dict *dict, mh_text name)
{
    spend_lookup(r, dict, name);
    return find_entry(dict, name);
}

mh_status mh_jinja_put(mh_jinja_run *r, mh_jinja_dict *dict, mh_text name, mh_jinja_value value)
{
    spend_lookup(r, dict, name);
    return mh_jinja_set(r->context, r->arena, dict, name, value);
}

mh_status mh_jinja_take(mh_jinja_run *r, const mh_jinja_node *node, size_t size, char **bytes)
{
    if (size >= r->bytes)
        return mh_jinja_run_fail(r, node, "the template's strings take too much memory");
    r->bytes -= size;
    *bytes = mh_result_take(r->context, r->arena, size + 1, 1);
    return *bytes ? MH_OK : MH_ERROR_MEMORY;
}

mh_status mh_jinja_join(mh_jinja_run *r, const mh_jinja_node *node, mh_text a, mh_text b,
                        mh_jinja_value *value)
{
    char *both = NULL;
    MH_TRY(mh_jinja_take(r, node, a.size + b.size, &both));
    memcpy(both, a.bytes, a.size);
    memcpy(both + a.size, b.bytes, b.size);
    *value = mh_jinja_string((mh_text){both, a.size + b.size});
    return MH_OK;
}

// ---- questions ----------------------------------------------------------------------------------

bool mh_jinja_is_dict(const mh_jinja_value *v)
{
    return v->kind == MH_JINJA_DICT || v->kind == MH_JINJA_NAMESPACE;
}

bool mh_jinja_truth(const mh_jinja_value *v)
{
    switch (v->kind) {
    case MH_JINJA_UNDEFINED:
    case MH_JINJA_NONE:
        return false;
    case MH_JINJA_BOOLEAN:
    case MH_JINJA_INTEGER:
        return v->integer != 0;
    case MH_JINJA_STRING:
        return v->string.size > 0;
    case MH_JINJA_LIST:
        return v->list->count > 0;
    case MH_JINJA_DICT:
        return v->dict->count > 0;
    default:
        return true;
    }
}

static bool is_number(const mh_jinja_value *v)
{
    return v->kind == MH_JINJA_INTEGER || v->kind == MH_JINJA_BOOLEAN;
}

static bool equal_lists(mh_jinja_run *r, const mh_jinja_list *a, const mh_jinja_list *b, int depth);

// Dicts are equal only to themselves: templates compare strings and numbers.
static bool equal_within(mh_jinja_run *r, const mh_jinja_value *a, const mh_jinja_value *b,
                         int depth)
{
    if (is_number(a) && is_number(b))
        return a->integer == b->integer;
    if (a->kind != b->kind)
        return false;
    switch (a->kind) {
    case MH_JINJA_STRING:
        mh_jinja_spend(r, a->string.size == b->string.size ? a->string.size : 0);
        return mh_text_equal(a->string, b->string);
    case MH_JINJA_LIST:
        return equal_lists(r, a->list, b->list, depth);
    case MH_JINJA_DICT:
    case MH_JINJA_NAMESPACE:
        return a->dict == b->dict;
    case MH_JINJA_MACRO:
        return a->macro == b->macro;
    default:
        return true;
    }
}

// Each item is a step: lists may have the same list many times.
static bool equal_lists(mh_jinja_run *r, const mh_jinja_list *a, const mh_jinja_list *b, int depth)
{
    if (a == b)
        return true;
    bool equal = a->count == b->count && depth > 0;
    for (size_t i = 0; i < a->count && equal && r->steps > 0; i++) {
        r->steps--;
        equal = equal_within(r, &a->items[i], &b->items[i], depth - 1);
    }
    return equal;
}

mh_status mh_jinja_equal(mh_jinja_run *r, const mh_jinja_node *node, const mh_jinja_value *a,
                         const mh_jinja_value *b, bool *equal)
{
    enum { LISTS_IN_EACH_OTHER = 8 };
    *equal = equal_within(r, a, b, LISTS_IN_EACH_OTHER);
    return mh_jinja_step(r, node);
}

size_t mh_jinja_characters(mh_text text)
{
    size_t count = 0;
    for (size_t i = 0; i < text.size; i++)
        count += (text.bytes[i] & 0xC0) != 0x80;
    return count;
}

mh_status mh_jinja_length(mh_jinja_run *r, const mh_jinja_node *node, const mh_jinja_value *v,
                          int64_t *length)
{
    switch (v->kind) {
    case MH_JINJA_UNDEFINED:
        *length = 0;
        return MH_OK;
    case MH_JINJA_STRING:
        MH_TRY(mh_jinja_search(r, node, v->string, (mh_text){"", 0}));
        *length = (int64_t)mh_jinja_characters(v->string);
        return MH_OK;
    case MH_JINJA_LIST:
        *length = (int64_t)v->list->count;
        return MH_OK;
    case MH_JINJA_DICT:
        *length = (int64_t)v->dict->count;
        return MH_OK;
    default:
        return mh_jinja_run_fail(r, node, "%s has no length", mh_jinja_kind_name(v->kind));
    }
}

static bool contains_text(mh_text in, mh_text what)
{
    for (size_t i = 0; i + what.size <= in.size; i++)
        if (memcmp(in.bytes + i, what.bytes, what.size) == 0)
            return true;
    return false;
}

mh_status mh_jinja_contains(mh_jinja_run *r, const mh_jinja_node *node, const mh_jinja_value *in,
                            const mh_jinja_value *what, bool *found)
{
    *found = false;
    if (in->kind == MH_JINJA_UNDEFINED)
        return MH_OK;
    if (in->kind == MH_JINJA_STRING && what->kind == MH_JINJA_STRING) {
        MH_TRY(mh_jinja_search(r, node, in->string, what->string));
        *found = contains_text(in->string, what->string);
        return MH_OK;
    }
    if (in->kind == MH_JINJA_DICT) {
        *found = what->kind == MH_JINJA_STRING && mh_jinja_get(r, in->dict, what->string);
        return MH_OK;
    }
    if (in->kind != MH_JINJA_LIST)
        return mh_jinja_run_fail(r, node, "%s is looked for in %s", mh_jinja_kind_name(what->kind),
                                 mh_jinja_kind_name(in->kind));
    for (size_t i = 0; i < in->list->count && !*found; i++)
        MH_TRY(mh_jinja_equal(r, node, &in->list->items[i], what, found));
    return MH_OK;
}

// ---- parts --------------------------------------------------------------------------------------

mh_status mh_jinja_items(mh_jinja_run *r, const mh_jinja_node *node, const mh_jinja_value *v,
                         const mh_jinja_list **items)
{
    if (v->kind == MH_JINJA_LIST) {
        *items = v->list;
        return MH_OK;
    }
    if (v->kind != MH_JINJA_UNDEFINED && v->kind != MH_JINJA_STRING && v->kind != MH_JINJA_DICT)
        return mh_jinja_run_fail(r, node, "%s has no items", mh_jinja_kind_name(v->kind));
    const mh_jinja_value made = mh_jinja_new_list(r->context, r->arena);
    if (!made.kind)
        return MH_ERROR_MEMORY;
    for (size_t i = 0; v->kind == MH_JINJA_DICT && i < v->dict->count; i++) {
        MH_TRY(mh_jinja_step(r, node));
        MH_TRY(mh_jinja_append(r->context, r->arena, made.list,
                               mh_jinja_string(v->dict->entries[i].name)));
    }
    for (size_t i = 0, n; v->kind == MH_JINJA_STRING && i < v->string.size; i += n) {
        mh_utf8_decode(v->string.bytes + i, &n);
        MH_TRY(mh_jinja_step(r, node));
        MH_TRY(mh_jinja_append(r->context, r->arena, made.list,
                               mh_jinja_string((mh_text){v->string.bytes + i, n})));
    }
    *items = made.list;
    return MH_OK;
}

// Where the i-th character begins.
static size_t character_at(mh_text text, size_t i)
{
    size_t at = 0, n;
    for (; i > 0 && at < text.size; i--, at += n)
        mh_utf8_decode(text.bytes + at, &n);
    return at;
}

mh_status mh_jinja_index(mh_jinja_run *r, const mh_jinja_node *node, const mh_jinja_value *of,
                         const mh_jinja_value *index, mh_jinja_value *value)
{
    *value = (mh_jinja_value){0};
    if (of->kind == MH_JINJA_UNDEFINED)
        return mh_jinja_run_fail(r, node, "a part of an undefined value is asked for");
    if (mh_jinja_is_dict(of)) {
        const mh_jinja_value *found =
            index->kind == MH_JINJA_STRING ? mh_jinja_get(r, of->dict, index->string) : NULL;
        if (found)
            *value = *found;
        return MH_OK;
    }
    int64_t length, i = index->integer;
    if (!is_number(index) || (of->kind != MH_JINJA_LIST && of->kind != MH_JINJA_STRING))
        return MH_OK;
    MH_TRY(mh_jinja_length(r, node, of, &length));
    i += i < 0 ? length : 0;
    if (i < 0 || i >= length)
        return MH_OK;
    if (of->kind == MH_JINJA_LIST) {
        *value = of->list->items[i];
        return MH_OK;
    }
    const size_t from = character_at(of->string, (size_t)i);
    size_t n;
    mh_utf8_decode(of->string.bytes + from, &n);
    *value = mh_jinja_string((mh_text){of->string.bytes + from, n});
    return MH_OK;
}

// A bound of a slice as Python clips it.
static int64_t clip_bound(const mh_jinja_value *bound, int64_t otherwise, int64_t length,
                          int64_t low, int64_t high)
{
    if (!is_number(bound))
        return otherwise;
    const int64_t i = bound->integer + (bound->integer < 0 ? length : 0);
    return i < low ? low : i > high ? high : i;
}

static mh_status check_bounds(const mh_jinja_run *r, const mh_jinja_node *node,
                              const mh_jinja_value bounds[3])
{
    for (int i = 0; i < 3; i++)
        if (!is_number(&bounds[i]) && bounds[i].kind != MH_JINJA_NONE &&
            bounds[i].kind != MH_JINJA_UNDEFINED)
            return mh_jinja_run_fail(r, node, "%s is the bound of a slice",
                                     mh_jinja_kind_name(bounds[i].kind));
    if (is_number(&bounds[2]) && bounds[2].integer == 0)
        return mh_jinja_run_fail(r, node, "the step of a slice is 0");
    return MH_OK;
}

mh_status mh_jinja_slice(mh_jinja_run *r, const mh_jinja_node *node, const mh_jinja_value *of,
                         const mh_jinja_value bounds[3], mh_jinja_value *value)
{
    int64_t length;
    MH_TRY(check_bounds(r, node, bounds));
    if (of->kind != MH_JINJA_LIST && of->kind != MH_JINJA_STRING)
        return mh_jinja_run_fail(r, node, "a slice of %s is asked for",
                                 mh_jinja_kind_name(of->kind));
    MH_TRY(mh_jinja_length(r, node, of, &length));
    const int64_t step = is_number(&bounds[2]) ? bounds[2].integer : 1;
    const int64_t low = step < 0 ? -1 : 0, high = step < 0 ? length - 1 : length;
    const int64_t from = clip_bound(&bounds[0], step < 0 ? high : 0, length, low, high);
    const int64_t to = clip_bound(&bounds[1], step < 0 ? -1 : length, length, low, high);
    if (of->kind == MH_JINJA_STRING && step != 1)
        return mh_jinja_run_fail(r, node, "a slice of a string has a step");
    if (of->kind == MH_JINJA_STRING) {
        const size_t first = character_at(of->string, (size_t)from);
        const size_t end = character_at(of->string, (size_t)to);
        *value =
            mh_jinja_string((mh_text){of->string.bytes + first, end > first ? end - first : 0});
        return MH_OK;
    }
    *value = mh_jinja_new_list(r->context, r->arena);
    if (!value->kind)
        return MH_ERROR_MEMORY;
    for (int64_t i = from; step < 0 ? i > to : i < to; i += step) {
        MH_TRY(mh_jinja_step(r, node));
        MH_TRY(mh_jinja_append(r->context, r->arena, value->list, of->list->items[i]));
        if (step > length || step < -length)
            break;
    }
    return MH_OK;
}

static bool in_set(const char *character, size_t n, const mh_text *set)
{
    if (!set) {
        size_t length;
        return mh_is_space(mh_utf8_decode(character, &length));
    }
    return contains_text(*set, (mh_text){character, n});
}

mh_text mh_jinja_strip(mh_text text, const mh_text *set, bool left, bool right)
{
    size_t n;
    for (; left && text.size > 0; text.bytes += n, text.size -= n) {
        mh_utf8_decode(text.bytes, &n);
        if (!in_set(text.bytes, n, set))
            break;
    }
    while (right && text.size > 0) {
        size_t at = text.size - 1;
        while (at > 0 && (text.bytes[at] & 0xC0) == 0x80)
            at--;
        if (!in_set(text.bytes + at, text.size - at, set))
            break;
        text.size = at;
    }
    return text;
}

// ---- as text ------------------------------------------------------------------------------------

mh_status mh_jinja_text(mh_jinja_run *r, const mh_jinja_node *node, const mh_jinja_value *v,
                        mh_text *text)
{
    enum { DIGITS = 24 };
    char *digits = NULL;
    switch (v->kind) {
    case MH_JINJA_UNDEFINED:
        *text = (mh_text){"", 0};
        return MH_OK;
    case MH_JINJA_NONE:
        *text = (mh_text){"None", 4};
        return MH_OK;
    case MH_JINJA_BOOLEAN:
        *text = v->integer ? (mh_text){"True", 4} : (mh_text){"False", 5};
        return MH_OK;
    case MH_JINJA_STRING:
        *text = v->string;
        return MH_OK;
    case MH_JINJA_INTEGER:
        MH_TRY(mh_jinja_take(r, node, DIGITS, &digits));
        snprintf(digits, DIGITS, "%" PRId64, v->integer);
        *text = (mh_text){digits, strlen(digits)};
        return MH_OK;
    default:
        return mh_jinja_run_fail(r, node, "%s is written as it is, which is not supported",
                                 mh_jinja_kind_name(v->kind));
    }
}

static void put_json_text(mh_appender *to, mh_text text)
{
    static const char names[] = "\"\\\n\r\t\b\f", letters[] = "\"\\nrtbf";
    mh_append(to, "\"", 1);
    for (size_t i = 0; i < text.size; i++) {
        const char c = text.bytes[i];
        const char *name = c ? strchr(names, c) : NULL;
        if (name)
            mh_append_format(to, "\\%c", letters[name - names]);
        else if ((unsigned char)c < 0x20)
            mh_append_format(to, "\\u%04x", (unsigned)c);
        else
            mh_append(to, &c, 1);
    }
    mh_append(to, "\"", 1);
}

// As Python's json.dumps(ensure_ascii=False).
mh_status mh_jinja_json(mh_jinja_run *r, const mh_jinja_node *node, const mh_jinja_value *v,
                        mh_appender *to)
{
    mh_text text;
    MH_TRY(mh_jinja_step(r, node));
    if (to->buffer.size > r->bytes)
        return mh_jinja_run_fail(r, node, "the template's strings take too much memory");
    r->depth++;
    if (v->kind == MH_JINJA_STRING) {
        put_json_text(to, v->string);
    } else if (v->kind == MH_JINJA_LIST) {
        mh_append(to, "[", 1);
        for (size_t i = 0; i < v->list->count; i++) {
            mh_append_string(to, i ? ", " : "");
            MH_TRY(mh_jinja_json(r, node, &v->list->items[i], to));
        }
        mh_append(to, "]", 1);
    } else if (v->kind == MH_JINJA_DICT) {
        mh_append(to, "{", 1);
        for (size_t i = 0; i < v->dict->count; i++) {
            mh_append_string(to, i ? ", " : "");
            put_json_text(to, v->dict->entries[i].name);
            mh_append_string(to, ": ");
            MH_TRY(mh_jinja_json(r, node, &v->dict->entries[i].value, to));
        }
        mh_append(to, "}", 1);
    } else if (v->kind == MH_JINJA_BOOLEAN) {
        mh_append_string(to, v->integer ? "true" : "false");
    } else if (v->kind == MH_JINJA_NONE) {
        mh_append_string(to, "null");
    } else if (v->kind == MH_JINJA_INTEGER) {
        MH_TRY(mh_jinja_text(r, node, v, &text));
        mh_append(to, text.bytes, text.size);
    } else {
        return mh_jinja_run_fail(r, node, "%s has no JSON", mh_jinja_kind_name(v->kind));
    }
    r->depth--;
    return MH_OK;
}
