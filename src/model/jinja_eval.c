// SPDX-License-Identifier: MIT
// Expressions of templates.
#include "base/overflow.h"
#include "model/jinja_internal.h"

// ---- operators ----------------------------------------------------------------------------------

static mh_status jinja_unfit(const mh_jinja_run *r, const mh_jinja_node *node,
                             const mh_jinja_value *a, const mh_jinja_value *b)
{
    return mh_jinja_run_fail(r, node, "%.*s is used with %s and %s", (int)node->name.size,
                             node->name.bytes, mh_jinja_kind_name(a->kind),
                             mh_jinja_kind_name(b->kind));
}

static bool are_integers(const mh_jinja_value *a, const mh_jinja_value *b)
{
    return (a->kind == MH_JINJA_INTEGER || a->kind == MH_JINJA_BOOLEAN) &&
           (b->kind == MH_JINJA_INTEGER || b->kind == MH_JINJA_BOOLEAN);
}

static mh_status join_lists(mh_jinja_run *r, const mh_jinja_node *node, const mh_jinja_list *a,
                            const mh_jinja_list *b, mh_jinja_value *value)
{
    *value = mh_jinja_new_list(r->context, r->arena);
    if (!value->kind)
        return MH_ERROR_MEMORY;
    for (size_t i = 0; i < a->count + b->count; i++) {
        MH_TRY(mh_jinja_step(r, node));
        MH_TRY(mh_jinja_append(r->context, r->arena, value->list,
                               i < a->count ? a->items[i] : b->items[i - a->count]));
    }
    return MH_OK;
}

// + - * // %, with Python's division, which rounds down.
static mh_status calculate(const mh_jinja_run *r, const mh_jinja_node *node, int64_t a, int64_t b,
                           mh_jinja_value *value)
{
    const int64_t most = (int64_t)1 << 31;
    const char sign = node->name.bytes[0];
    if (a > most || a < -most || b > most || b < -most)
        return mh_jinja_run_fail(r, node, "a number is too large");
    if ((sign == '/' || sign == '%') && b == 0)
        return mh_jinja_run_fail(r, node, "a number is divided by 0");
    const int64_t remainder = sign == '/' || sign == '%' ? (a % b + b) % b : 0;
    *value = mh_jinja_integer(sign == '+'   ? a + b
                              : sign == '-' ? a - b
                              : sign == '*' ? a * b
                              : sign == '%' ? remainder
                                            : (a - remainder) / b);
    return MH_OK;
}

static mh_status compare(mh_jinja_run *r, const mh_jinja_node *node, const mh_jinja_value *a,
                         const mh_jinja_value *b, bool *result)
{
    int order;
    if (are_integers(a, b)) {
        order = (a->integer > b->integer) - (a->integer < b->integer);
    } else if (a->kind == MH_JINJA_STRING && b->kind == MH_JINJA_STRING) {
        const size_t size = a->string.size < b->string.size ? a->string.size : b->string.size;
        mh_jinja_spend(r, size);
        order = memcmp(a->string.bytes, b->string.bytes, size);
        if (order == 0)
            order = (a->string.size > b->string.size) - (a->string.size < b->string.size);
    } else {
        return jinja_unfit(r, node, a, b);
    }
    const bool or_equal = node->name.size == 2 && order == 0;
    *result = or_equal || (node->name.bytes[0] == '<' ? order < 0 : order > 0);
    return MH_OK;
}

static mh_status concatenate(mh_jinja_run *r, const mh_jinja_node *node, const mh_jinja_value *a,
                             const mh_jinja_value *b, mh_jinja_value *value)
{
    mh_text left, right;
    MH_TRY(mh_jinja_text(r, node, a, &left));
    MH_TRY(mh_jinja_text(r, node, b, &right));
    return mh_jinja_join(r, node, left, right, value);
}

static mh_status eval_compared(mh_jinja_run *r, const mh_jinja_node *node, const mh_jinja_value *a,
                               const mh_jinja_value *b, mh_jinja_value *value)
{
    bool result;
    const bool negated = node->name.bytes[0] == '!' || node->name.bytes[0] == 'n';
    if (mh_text_is(node->name, "==") || mh_text_is(node->name, "!="))
        MH_TRY(mh_jinja_equal(r, node, a, b, &result));
    else if (mh_text_is(node->name, "in") || mh_text_is(node->name, "not in"))
        MH_TRY(mh_jinja_contains(r, node, b, a, &result));
    else
        MH_TRY(compare(r, node, a, b, &result));
    *value = mh_jinja_boolean(result != negated);
    return MH_OK;
}

static mh_status eval_binary(mh_jinja_run *r, const mh_jinja_node *node, mh_jinja_value *value)
{
    mh_jinja_value a, b;
    const char sign = node->name.bytes[0];
    MH_TRY(mh_jinja_eval(r, node->a, &a));
    MH_TRY(mh_jinja_eval(r, node->b, &b));
    if (strchr("=!<>in", sign))
        return eval_compared(r, node, &a, &b, value);
    if (sign == '~')
        return concatenate(r, node, &a, &b, value);
    if (are_integers(&a, &b))
        return calculate(r, node, a.integer, b.integer, value);
    if (sign == '+' && a.kind == MH_JINJA_STRING && b.kind == MH_JINJA_STRING)
        return mh_jinja_join(r, node, a.string, b.string, value);
    if (sign == '+' && a.kind == MH_JINJA_LIST && b.kind == MH_JINJA_LIST)
        return join_lists(r, node, a.list, b.list, value);
    return jinja_unfit(r, node, &a, &b);
}

// a and b, a or b: the value that decides.
static mh_status eval_logical(mh_jinja_run *r, const mh_jinja_node *node, mh_jinja_value *value)
{
    MH_TRY(mh_jinja_eval(r, node->a, value));
    const bool decided = mh_jinja_truth(value) == (node->kind == MH_NODE_OR);
    return decided ? MH_OK : mh_jinja_eval(r, node->b, value);
}

static mh_status eval_unary(mh_jinja_run *r, const mh_jinja_node *node, mh_jinja_value *value)
{
    MH_TRY(mh_jinja_eval(r, node->a, value));
    if (node->kind == MH_NODE_NOT)
        *value = mh_jinja_boolean(!mh_jinja_truth(value));
    else if (are_integers(value, value))
        *value = mh_jinja_integer(-value->integer);
    else
        return mh_jinja_run_fail(r, node, "- is used with %s", mh_jinja_kind_name(value->kind));
    return MH_OK;
}

static mh_status eval_choice(mh_jinja_run *r, const mh_jinja_node *node, mh_jinja_value *value)
{
    mh_jinja_value condition;
    MH_TRY(mh_jinja_eval(r, node->b, &condition));
    *value = (mh_jinja_value){0};
    if (mh_jinja_truth(&condition))
        return mh_jinja_eval(r, node->a, value);
    return node->c ? mh_jinja_eval(r, node->c, value) : MH_OK;
}

// ---- parts and collections ----------------------------------------------------------------------

static mh_status eval_part(mh_jinja_run *r, const mh_jinja_node *node, mh_jinja_value *value)
{
    mh_jinja_value of, index = mh_jinja_string(node->name);
    MH_TRY(mh_jinja_eval(r, node->a, &of));
    if (node->kind == MH_NODE_INDEX)
        MH_TRY(mh_jinja_eval(r, node->b, &index));
    return mh_jinja_index(r, node, &of, &index, value);
}

static mh_status eval_slice(mh_jinja_run *r, const mh_jinja_node *node, mh_jinja_value *value)
{
    mh_jinja_value of, bounds[3] = {{0}};
    MH_TRY(mh_jinja_eval(r, node->a, &of));
    if (node->b)
        MH_TRY(mh_jinja_eval(r, node->b, &bounds[0]));
    if (node->c)
        MH_TRY(mh_jinja_eval(r, node->c, &bounds[1]));
    if (node->arguments)
        MH_TRY(mh_jinja_eval(r, node->arguments, &bounds[2]));
    return mh_jinja_slice(r, node, &of, bounds, value);
}

static mh_status eval_list(mh_jinja_run *r, const mh_jinja_node *node, mh_jinja_value *value)
{
    mh_jinja_value item;
    *value = mh_jinja_new_list(r->context, r->arena);
    if (!value->kind)
        return MH_ERROR_MEMORY;
    for (const mh_jinja_node *i = node->arguments; i; i = i->next) {
        MH_TRY(mh_jinja_eval(r, i->a, &item));
        MH_TRY(mh_jinja_append(r->context, r->arena, value->list, item));
    }
    return MH_OK;
}

static mh_status eval_dict(mh_jinja_run *r, const mh_jinja_node *node, mh_jinja_value *value)
{
    mh_jinja_value key, item;
    *value = mh_jinja_new_dict(r->context, r->arena);
    if (!value->kind)
        return MH_ERROR_MEMORY;
    for (const mh_jinja_node *i = node->arguments; i; i = i->next->next) {
        MH_TRY(mh_jinja_eval(r, i->a, &key));
        MH_TRY(mh_jinja_eval(r, i->next->a, &item));
        if (key.kind != MH_JINJA_STRING)
            return mh_jinja_run_fail(r, node, "%s is a key, expected strings",
                                     mh_jinja_kind_name(key.kind));
        MH_TRY(mh_jinja_put(r, value->dict, key.string, item));
    }
    return MH_OK;
}

// ---- filters and tests --------------------------------------------------------------------------

static mh_status eval_filter(mh_jinja_run *r, const mh_jinja_node *node, mh_jinja_value *value)
{
    mh_jinja_value in;
    mh_jinja_arguments arguments;
    MH_TRY(mh_jinja_eval(r, node->a, &in));
    MH_TRY(mh_jinja_eval_arguments(r, node->arguments, &arguments));
    return mh_jinja_apply_filter(r, node, node->name, &in, &arguments, value);
}

static mh_status eval_test(mh_jinja_run *r, const mh_jinja_node *node, mh_jinja_value *value)
{
    mh_jinja_value in;
    mh_jinja_arguments arguments;
    bool result;
    MH_TRY(mh_jinja_eval(r, node->a, &in));
    MH_TRY(mh_jinja_eval_arguments(r, node->arguments, &arguments));
    MH_TRY(mh_jinja_apply_test(r, node, node->name, &in, &arguments, &result));
    *value = mh_jinja_boolean(result);
    return MH_OK;
}

static mh_status eval_name(mh_jinja_run *r, const mh_jinja_node *node, mh_jinja_value *value)
{
    const mh_jinja_value *found = mh_jinja_find_variable(r, node->name);
    *value = (mh_jinja_value){0};
    if (found)
        *value = *found;
    else if (mh_jinja_is_function(node->name))
        value->kind = MH_JINJA_MACRO;
    return MH_OK;
}

static mh_status eval_kind(mh_jinja_run *r, const mh_jinja_node *node, mh_jinja_value *value)
{
    switch (node->kind) {
    case MH_NODE_LITERAL:
        *value = node->value;
        return MH_OK;
    case MH_NODE_NAME:
        return eval_name(r, node, value);
    case MH_NODE_LIST:
        return eval_list(r, node, value);
    case MH_NODE_DICT:
        return eval_dict(r, node, value);
    case MH_NODE_MEMBER:
    case MH_NODE_INDEX:
        return eval_part(r, node, value);
    case MH_NODE_SLICE:
        return eval_slice(r, node, value);
    case MH_NODE_CALL:
        return mh_jinja_call(r, node, value);
    case MH_NODE_FILTER:
        return eval_filter(r, node, value);
    case MH_NODE_TEST:
        return eval_test(r, node, value);
    case MH_NODE_NOT:
    case MH_NODE_NEGATE:
        return eval_unary(r, node, value);
    case MH_NODE_AND:
    case MH_NODE_OR:
        return eval_logical(r, node, value);
    case MH_NODE_CHOICE:
        return eval_choice(r, node, value);
    default:
        return eval_binary(r, node, value);
    }
}

mh_status mh_jinja_eval(mh_jinja_run *r, const mh_jinja_node *node, mh_jinja_value *value)
{
    MH_TRY(mh_jinja_step(r, node));
    r->depth++;
    MH_TRY(eval_kind(r, node, value));
    r->depth--;
    return MH_OK;
}
