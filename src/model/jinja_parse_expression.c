// SPDX-License-Identifier: MIT
// Expressions, by precedence:
//
//     choice    a if b else c
//     or, and, not
//     compare   == != < <= > >= in, not in      one per expression
//     sum       + -
//     concat    ~
//     product   * // %
//     unary     -a
//     postfix   a.b  a[b]  a(b)  a | filter  a is test
#include "model/jinja_internal.h"

// ---- nodes --------------------------------------------------------------------------------------

mh_status mh_jinja_new_node(mh_jinja_parser *p, mh_jinja_node_kind kind, mh_jinja_node **node)
{
    mh_jinja_node *n = mh_result_take(p->context, p->arena, 1, sizeof *n);
    if (!n)
        return MH_ERROR_MEMORY;
    *n = (mh_jinja_node){.kind = kind, .at = p->token.at, .name = {"", 0}, .depth = 1};
    *node = n;
    return MH_OK;
}

static size_t deeper(const mh_jinja_node *child, size_t depth)
{
    return child && child->depth >= depth ? child->depth + 1 : depth;
}

// Operators in a row make a tree as deep as there are operators.
mh_status mh_jinja_check_depth(mh_jinja_parser *p, mh_jinja_node *node)
{
    node->depth = deeper(node->a, deeper(node->b, deeper(node->c, node->depth)));
    for (const mh_jinja_node *i = node->arguments; i; i = i->next)
        node->depth = deeper(i, node->depth);
    if (node->depth <= MH_JINJA_DEPTH)
        return MH_OK;
    return mh_jinja_fail(p->context, p->source, node->at,
                         "found an expression of more than %d operators in each other",
                         MH_JINJA_DEPTH);
}

static mh_status new_operator(mh_jinja_parser *p, mh_jinja_node_kind kind, mh_text name,
                              mh_jinja_node *a, mh_jinja_node *b, mh_jinja_node **node)
{
    MH_TRY(mh_jinja_new_node(p, kind, node));
    (*node)->name = name;
    (*node)->a = a;
    (*node)->b = b;
    return mh_jinja_check_depth(p, *node);
}

// ---- arguments ----------------------------------------------------------------------------------

// A name before = makes an argument one with a name; an expression cannot be followed by that.
static mh_status parse_argument(mh_jinja_parser *p, mh_jinja_node **argument)
{
    MH_TRY(mh_jinja_new_node(p, MH_NODE_ARGUMENT, argument));
    MH_TRY(mh_jinja_parse_expression(p, &(*argument)->a));
    if (mh_jinja_at(p, "=") && (*argument)->a->kind == MH_NODE_NAME) {
        (*argument)->name = (*argument)->a->name;
        MH_TRY(mh_jinja_advance(p));
        MH_TRY(mh_jinja_parse_expression(p, &(*argument)->a));
    }
    return mh_jinja_check_depth(p, *argument);
}

// Values up to `close`, with commas between them.
static mh_status parse_values(mh_jinja_parser *p, const char *close, mh_jinja_node **first)
{
    for (mh_jinja_node **end = first; !mh_jinja_at(p, close); end = &(*end)->next) {
        MH_TRY(parse_argument(p, end));
        if (!mh_jinja_at(p, close))
            MH_TRY(mh_jinja_expect(p, ","));
    }
    return mh_jinja_advance(p);
}

mh_status mh_jinja_parse_arguments(mh_jinja_parser *p, mh_jinja_node **first)
{
    return parse_values(p, ")", first);
}

// ---- literals and names -------------------------------------------------------------------------

// Strings one after the other are one string.
static mh_status parse_string(mh_jinja_parser *p, mh_jinja_node *n)
{
    n->value = mh_jinja_string(p->token.text);
    MH_TRY(mh_jinja_advance(p));
    while (p->token.kind == MH_TOKEN_STRING) {
        const mh_text a = n->value.string, b = p->token.text;
        char *both = mh_result_take(p->context, p->arena, a.size + b.size + 1, 1);
        if (!both)
            return MH_ERROR_MEMORY;
        memcpy(both, a.bytes, a.size);
        memcpy(both + a.size, b.bytes, b.size);
        n->value.string = (mh_text){both, a.size + b.size};
        MH_TRY(mh_jinja_advance(p));
    }
    return MH_OK;
}

static bool is_constant(mh_text name, mh_jinja_value *value)
{
    static const struct {
        const char *name;
        mh_jinja_kind kind;
        int64_t integer;
    } names[] = {{"true", MH_JINJA_BOOLEAN, 1},  {"True", MH_JINJA_BOOLEAN, 1},
                 {"false", MH_JINJA_BOOLEAN, 0}, {"False", MH_JINJA_BOOLEAN, 0},
                 {"none", MH_JINJA_NONE, 0},     {"None", MH_JINJA_NONE, 0}};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (mh_text_is(name, names[i].name)) {
            *value = (mh_jinja_value){.kind = names[i].kind, .integer = names[i].integer};
            return true;
        }
    return false;
}

// (a) is a, (a, b) and () are lists.
static mh_status parse_parentheses(mh_jinja_parser *p, mh_jinja_node **node)
{
    if (!mh_jinja_at(p, ")")) {
        MH_TRY(mh_jinja_parse_expression(p, node));
        if (mh_jinja_at(p, ")"))
            return mh_jinja_advance(p);
        MH_TRY(mh_jinja_expect(p, ","));
    }
    mh_jinja_node *first = *node;
    MH_TRY(mh_jinja_new_node(p, MH_NODE_LIST, node));
    mh_jinja_node **rest = &(*node)->arguments;
    if (first) {
        MH_TRY(new_operator(p, MH_NODE_ARGUMENT, (mh_text){"", 0}, first, NULL, rest));
        rest = &(*rest)->next;
    }
    MH_TRY(parse_values(p, ")", rest));
    return mh_jinja_check_depth(p, *node);
}

static mh_status parse_dict(mh_jinja_parser *p, mh_jinja_node *n)
{
    for (mh_jinja_node **end = &n->arguments; !mh_jinja_at(p, "}");) {
        MH_TRY(parse_argument(p, end));
        MH_TRY(mh_jinja_expect(p, ":"));
        end = &(*end)->next;
        MH_TRY(parse_argument(p, end));
        end = &(*end)->next;
        if (!mh_jinja_at(p, "}"))
            MH_TRY(mh_jinja_expect(p, ","));
    }
    MH_TRY(mh_jinja_advance(p));
    return mh_jinja_check_depth(p, n);
}

static mh_status parse_primary(mh_jinja_parser *p, mh_jinja_node **node)
{
    const mh_jinja_token token = p->token;
    *node = NULL;
    if (mh_jinja_at(p, "(")) {
        MH_TRY(mh_jinja_advance(p));
        return parse_parentheses(p, node);
    }
    MH_TRY(mh_jinja_new_node(p, MH_NODE_LITERAL, node));
    if (token.kind == MH_TOKEN_STRING)
        return parse_string(p, *node);
    if (mh_jinja_at(p, "[")) {
        (*node)->kind = MH_NODE_LIST;
        MH_TRY(mh_jinja_advance(p));
        MH_TRY(parse_values(p, "]", &(*node)->arguments));
        return mh_jinja_check_depth(p, *node);
    }
    if (mh_jinja_at(p, "{")) {
        (*node)->kind = MH_NODE_DICT;
        MH_TRY(mh_jinja_advance(p));
        return parse_dict(p, *node);
    }
    if (token.kind == MH_TOKEN_INTEGER) {
        (*node)->value = mh_jinja_integer(token.integer);
    } else if (token.kind != MH_TOKEN_NAME) {
        return mh_jinja_expected(p, "a value");
    } else if (!is_constant(token.text, &(*node)->value)) {
        (*node)->kind = MH_NODE_NAME;
        (*node)->name = token.text;
    }
    return mh_jinja_advance(p);
}

// ---- what follows a value -----------------------------------------------------------------------

static mh_status parse_bound(mh_jinja_parser *p, mh_jinja_node **bound)
{
    return mh_jinja_at(p, ":") || mh_jinja_at(p, "]") ? MH_OK : mh_jinja_parse_expression(p, bound);
}

static mh_status parse_index(mh_jinja_parser *p, mh_jinja_node *of, mh_jinja_node **node)
{
    MH_TRY(new_operator(p, MH_NODE_INDEX, (mh_text){"", 0}, of, NULL, node));
    mh_jinja_node *n = *node;
    MH_TRY(mh_jinja_advance(p));
    MH_TRY(parse_bound(p, &n->b));
    if (mh_jinja_at(p, ":")) {
        n->kind = MH_NODE_SLICE;
        MH_TRY(mh_jinja_advance(p));
        MH_TRY(parse_bound(p, &n->c));
    }
    if (n->kind == MH_NODE_SLICE && mh_jinja_at(p, ":")) {
        MH_TRY(mh_jinja_advance(p));
        MH_TRY(parse_bound(p, &n->arguments));
    }
    if (n->kind == MH_NODE_INDEX && !n->b)
        return mh_jinja_expected(p, "an index");
    MH_TRY(mh_jinja_expect(p, "]"));
    return mh_jinja_check_depth(p, n);
}

static mh_status parse_member(mh_jinja_parser *p, mh_jinja_node *of, mh_jinja_node **node)
{
    MH_TRY(mh_jinja_advance(p));
    if (p->token.kind != MH_TOKEN_NAME)
        return mh_jinja_expected(p, "a name");
    MH_TRY(new_operator(p, MH_NODE_MEMBER, p->token.text, of, NULL, node));
    return mh_jinja_advance(p);
}

static mh_status parse_call(mh_jinja_parser *p, mh_jinja_node *of, mh_jinja_node **node)
{
    if (of->kind != MH_NODE_NAME && of->kind != MH_NODE_MEMBER)
        return mh_jinja_expected(p, "an operator");
    MH_TRY(new_operator(p, MH_NODE_CALL, of->name, of->a, NULL, node));
    (*node)->at = of->at;
    MH_TRY(mh_jinja_advance(p));
    MH_TRY(mh_jinja_parse_arguments(p, &(*node)->arguments));
    return mh_jinja_check_depth(p, *node);
}

static mh_status parse_postfix(mh_jinja_parser *p, mh_jinja_node **node)
{
    for (;;) {
        if (mh_jinja_at(p, "."))
            MH_TRY(parse_member(p, *node, node));
        else if (mh_jinja_at(p, "["))
            MH_TRY(parse_index(p, *node, node));
        else if (mh_jinja_at(p, "("))
            MH_TRY(parse_call(p, *node, node));
        else
            return MH_OK;
    }
}

static mh_status parse_filter(mh_jinja_parser *p, mh_jinja_node **node)
{
    MH_TRY(mh_jinja_advance(p));
    if (p->token.kind != MH_TOKEN_NAME)
        return mh_jinja_expected(p, "a filter");
    MH_TRY(new_operator(p, MH_NODE_FILTER, p->token.text, *node, NULL, node));
    MH_TRY(mh_jinja_advance(p));
    if (mh_jinja_at(p, "(")) {
        MH_TRY(mh_jinja_advance(p));
        MH_TRY(mh_jinja_parse_arguments(p, &(*node)->arguments));
    }
    return mh_jinja_check_depth(p, *node);
}

// Whether a value follows a test's name without parentheses, as in: x is divisibleby 3.
static bool argument_follows(const mh_jinja_parser *p)
{
    static const char *const others[] = {"else", "or", "and", "is", "if", "in", "not"};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (mh_jinja_at(p, others[i]))
            return false;
    return p->token.kind == MH_TOKEN_NAME || p->token.kind == MH_TOKEN_STRING ||
           p->token.kind == MH_TOKEN_INTEGER || mh_jinja_at(p, "[") || mh_jinja_at(p, "{");
}

static mh_status parse_test(mh_jinja_parser *p, mh_jinja_node **node)
{
    MH_TRY(mh_jinja_advance(p));
    const bool negated = mh_jinja_at(p, "not");
    if (negated)
        MH_TRY(mh_jinja_advance(p));
    if (p->token.kind != MH_TOKEN_NAME)
        return mh_jinja_expected(p, "a test");
    MH_TRY(new_operator(p, MH_NODE_TEST, p->token.text, *node, NULL, node));
    mh_jinja_node *test = *node;
    MH_TRY(mh_jinja_advance(p));
    if (mh_jinja_at(p, "(")) {
        MH_TRY(mh_jinja_advance(p));
        MH_TRY(mh_jinja_parse_arguments(p, &test->arguments));
    } else if (argument_follows(p)) {
        mh_jinja_node *value;
        MH_TRY(parse_primary(p, &value));
        MH_TRY(parse_postfix(p, &value));
        MH_TRY(new_operator(p, MH_NODE_ARGUMENT, (mh_text){"", 0}, value, NULL, &test->arguments));
    }
    MH_TRY(mh_jinja_check_depth(p, test));
    return negated ? new_operator(p, MH_NODE_NOT, (mh_text){"", 0}, test, NULL, node) : MH_OK;
}

static mh_status parse_unary(mh_jinja_parser *p, mh_jinja_node **node)
{
    size_t signs = 0;
    for (; mh_jinja_at(p, "-"); signs++)
        MH_TRY(mh_jinja_advance(p));
    MH_TRY(parse_primary(p, node));
    MH_TRY(parse_postfix(p, node));
    for (; signs > 0; signs--)
        MH_TRY(new_operator(p, MH_NODE_NEGATE, (mh_text){"", 0}, *node, NULL, node));
    for (;;) {
        if (mh_jinja_at(p, "|"))
            MH_TRY(parse_filter(p, node));
        else if (mh_jinja_at(p, "is"))
            MH_TRY(parse_test(p, node));
        else
            return MH_OK;
    }
}

// ---- operators ----------------------------------------------------------------------------------

enum { LEVEL_OR, LEVEL_AND, LEVEL_COMPARE, LEVEL_SUM, LEVEL_CONCAT, LEVEL_PRODUCT, LEVEL_UNARY };

static bool at_operator(const mh_jinja_parser *p, int level)
{
    static const char *const names[][9] = {
        {"or"},     {"and"}, {"==", "!=", "<", "<=", ">", ">=", "in", "not"},
        {"+", "-"}, {"~"},   {"*", "//", "%"}};
    for (const char *const *name = names[level]; *name; name++)
        if (mh_jinja_at(p, *name))
            return true;
    return false;
}

static mh_status take_operator(mh_jinja_parser *p, mh_text *name)
{
    static const mh_text not_in = {"not in", 6};
    const bool negated = mh_jinja_at(p, "not");
    *name = negated ? not_in : p->token.text;
    MH_TRY(mh_jinja_advance(p));
    return negated ? mh_jinja_expect(p, "in") : MH_OK;
}

static mh_status parse_level(mh_jinja_parser *p, int level, mh_jinja_node **node)
{
    if (level == LEVEL_UNARY)
        return parse_unary(p, node);
    size_t nots = 0;
    for (; level == LEVEL_COMPARE && mh_jinja_at(p, "not"); nots++)
        MH_TRY(mh_jinja_advance(p));
    MH_TRY(parse_level(p, level + 1, node));
    while (at_operator(p, level)) {
        mh_jinja_node *b;
        mh_text name;
        MH_TRY(take_operator(p, &name));
        MH_TRY(parse_level(p, level + 1, &b));
        const mh_jinja_node_kind kind = level == LEVEL_OR    ? MH_NODE_OR
                                        : level == LEVEL_AND ? MH_NODE_AND
                                                             : MH_NODE_BINARY;
        MH_TRY(new_operator(p, kind, name, *node, b, node));
        if (level == LEVEL_COMPARE && at_operator(p, level))
            return mh_jinja_expected(p, "one comparison");
    }
    for (; nots > 0; nots--)
        MH_TRY(new_operator(p, MH_NODE_NOT, (mh_text){"", 0}, *node, NULL, node));
    return MH_OK;
}

mh_status mh_jinja_parse_choiceless(mh_jinja_parser *p, mh_jinja_node **node)
{
    if (++p->depth > MH_JINJA_DEPTH / 2)
        return mh_jinja_fail(p->context, p->source, p->token.at,
                             "found tags or brackets nested too deeply");
    MH_TRY(parse_level(p, LEVEL_OR, node));
    p->depth--;
    return MH_OK;
}

mh_status mh_jinja_parse_expression(mh_jinja_parser *p, mh_jinja_node **node)
{
    MH_TRY(mh_jinja_parse_choiceless(p, node));
    while (mh_jinja_at(p, "if")) {
        MH_TRY(new_operator(p, MH_NODE_CHOICE, (mh_text){"", 0}, *node, NULL, node));
        mh_jinja_node *choice = *node;
        MH_TRY(mh_jinja_advance(p));
        MH_TRY(mh_jinja_parse_choiceless(p, &choice->b));
        if (mh_jinja_at(p, "else")) {
            MH_TRY(mh_jinja_advance(p));
            if (++p->depth > MH_JINJA_DEPTH / 2)
                return mh_jinja_expected(p, "fewer choices in each other");
            MH_TRY(mh_jinja_parse_expression(p, &choice->c));
            p->depth--;
        }
        MH_TRY(mh_jinja_check_depth(p, choice));
    }
    return MH_OK;
}
