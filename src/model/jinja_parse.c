// SPDX-License-Identifier: MIT
// Statements: a template is a list of texts, outputs and blocks.
#include "model/jinja_internal.h"

typedef struct node_list {
    mh_jinja_node *first, **end;
} node_list;

static void add_node(node_list *list, mh_jinja_node *node)
{
    *list->end = node;
    list->end = &node->next;
}

static mh_status parse_body(mh_jinja_parser *p, mh_jinja_node **first);

static mh_status expect_end(mh_jinja_parser *p)
{
    return p->token.kind == MH_TOKEN_END ? MH_OK : mh_jinja_expected(p, "the tag's end");
}

static mh_status take_name(mh_jinja_parser *p, mh_text *name)
{
    if (p->token.kind != MH_TOKEN_NAME)
        return mh_jinja_expected(p, "a name");
    *name = p->token.text;
    return mh_jinja_advance(p);
}

// The body up to one of the tags in `ends`, whose name is then the current token.
static mh_status parse_until(mh_jinja_parser *p, const char *const *ends, mh_jinja_node **first)
{
    const size_t at = p->token.at;
    MH_TRY(expect_end(p));
    if (++p->depth > MH_JINJA_DEPTH / 2)
        return mh_jinja_fail(p->context, p->source, at, "found tags or brackets nested too deeply");
    MH_TRY(parse_body(p, first));
    p->depth--;
    if (p->token.kind != MH_TOKEN_NAME)
        return mh_jinja_fail(p->context, p->source, at, "found a block without its %s", ends[0]);
    for (; *ends; ends++)
        if (mh_jinja_at(p, *ends))
            return MH_OK;
    return mh_jinja_expected(p, "the end of the block before");
}

static mh_status end_block(mh_jinja_parser *p)
{
    MH_TRY(mh_jinja_advance(p));
    return expect_end(p);
}

// ---- blocks -------------------------------------------------------------------------------------

static mh_status parse_if(mh_jinja_parser *p, mh_jinja_node **node)
{
    static const char *const ends[] = {"endif", "elif", "else", NULL};
    static const char *const last[] = {"endif", NULL};
    MH_TRY(mh_jinja_new_node(p, MH_NODE_IF, node));
    mh_jinja_node *at = *node;
    for (;;) {
        MH_TRY(mh_jinja_parse_expression(p, &at->a));
        MH_TRY(parse_until(p, ends, &at->body));
        if (!mh_jinja_at(p, "elif"))
            break;
        MH_TRY(mh_jinja_advance(p));
        MH_TRY(mh_jinja_new_node(p, MH_NODE_IF, &at->otherwise));
        at = at->otherwise;
    }
    if (mh_jinja_at(p, "else")) {
        MH_TRY(mh_jinja_advance(p));
        MH_TRY(parse_until(p, last, &at->otherwise));
    }
    return end_block(p);
}

// Names of the loop's variables, or of a macro's parameters.
static mh_status parse_name(mh_jinja_parser *p, node_list *names)
{
    mh_jinja_node *name;
    MH_TRY(mh_jinja_new_node(p, MH_NODE_ARGUMENT, &name));
    MH_TRY(take_name(p, &name->name));
    add_node(names, name);
    return MH_OK;
}

static mh_status parse_for(mh_jinja_parser *p, mh_jinja_node **node)
{
    static const char *const ends[] = {"endfor", "else", NULL};
    static const char *const last[] = {"endfor", NULL};
    MH_TRY(mh_jinja_new_node(p, MH_NODE_FOR, node));
    mh_jinja_node *n = *node;
    node_list names = {.end = &n->arguments};
    MH_TRY(parse_name(p, &names));
    while (mh_jinja_at(p, ",")) {
        MH_TRY(mh_jinja_advance(p));
        MH_TRY(parse_name(p, &names));
    }
    MH_TRY(mh_jinja_expect(p, "in"));
    MH_TRY(mh_jinja_parse_choiceless(p, &n->a));
    if (mh_jinja_at(p, "if")) {
        MH_TRY(mh_jinja_advance(p));
        MH_TRY(mh_jinja_parse_expression(p, &n->b));
    }
    p->loops++;
    MH_TRY(parse_until(p, ends, &n->body));
    p->loops--;
    if (mh_jinja_at(p, "else")) {
        MH_TRY(mh_jinja_advance(p));
        MH_TRY(parse_until(p, last, &n->otherwise));
    }
    return end_block(p);
}

static mh_status parse_set(mh_jinja_parser *p, mh_jinja_node **node)
{
    static const char *const ends[] = {"endset", NULL};
    MH_TRY(mh_jinja_new_node(p, MH_NODE_SET, node));
    mh_jinja_node *n = *node;
    MH_TRY(take_name(p, &n->name));
    if (mh_jinja_at(p, ".")) {
        MH_TRY(mh_jinja_advance(p));
        n->value.kind = MH_JINJA_STRING;
        MH_TRY(take_name(p, &n->value.string));
    }
    if (mh_jinja_at(p, "=")) {
        MH_TRY(mh_jinja_advance(p));
        MH_TRY(mh_jinja_parse_expression(p, &n->a));
        return expect_end(p);
    }
    MH_TRY(parse_until(p, ends, &n->body));
    return end_block(p);
}

static mh_status parse_macro(mh_jinja_parser *p, mh_jinja_node **node)
{
    static const char *const ends[] = {"endmacro", NULL};
    MH_TRY(mh_jinja_new_node(p, MH_NODE_MACRO, node));
    mh_jinja_node *n = *node;
    node_list names = {.end = &n->arguments};
    MH_TRY(take_name(p, &n->name));
    MH_TRY(mh_jinja_expect(p, "("));
    while (!mh_jinja_at(p, ")")) {
        mh_jinja_node **parameter = names.end;
        MH_TRY(parse_name(p, &names));
        if (mh_jinja_at(p, "=")) {
            MH_TRY(mh_jinja_advance(p));
            MH_TRY(mh_jinja_parse_expression(p, &(*parameter)->a));
        }
        if (!mh_jinja_at(p, ")"))
            MH_TRY(mh_jinja_expect(p, ","));
    }
    MH_TRY(mh_jinja_advance(p));
    const size_t loops = p->loops;
    p->loops = 0;
    MH_TRY(parse_until(p, ends, &n->body));
    p->loops = loops;
    return end_block(p);
}

// Marks what the assistant says, for training: its body is all that it writes.
static mh_status parse_generation(mh_jinja_parser *p, mh_jinja_node **node)
{
    static const char *const ends[] = {"endgeneration", NULL};
    MH_TRY(mh_jinja_new_node(p, MH_NODE_IF, node));
    MH_TRY(mh_jinja_new_node(p, MH_NODE_LITERAL, &(*node)->a));
    (*node)->a->value = mh_jinja_boolean(true);
    MH_TRY(parse_until(p, ends, &(*node)->body));
    return end_block(p);
}

static mh_status parse_jump(mh_jinja_parser *p, mh_jinja_node_kind kind, mh_jinja_node **node)
{
    if (p->loops == 0)
        return mh_jinja_fail(p->context, p->source, p->token.at, "found a %s outside of loops",
                             kind == MH_NODE_BREAK ? "break" : "continue");
    MH_TRY(mh_jinja_new_node(p, kind, node));
    return expect_end(p);
}

static mh_status parse_block(mh_jinja_parser *p, mh_text name, mh_jinja_node **node)
{
    if (mh_text_is(name, "if"))
        return parse_if(p, node);
    if (mh_text_is(name, "for"))
        return parse_for(p, node);
    if (mh_text_is(name, "set"))
        return parse_set(p, node);
    if (mh_text_is(name, "macro"))
        return parse_macro(p, node);
    if (mh_text_is(name, "generation"))
        return parse_generation(p, node);
    return parse_jump(p, mh_text_is(name, "break") ? MH_NODE_BREAK : MH_NODE_CONTINUE, node);
}

static bool begins_block(const mh_jinja_parser *p)
{
    static const char *const names[] = {"if",         "for",   "set",     "macro",
                                        "generation", "break", "continue"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (mh_jinja_at(p, names[i]))
            return true;
    return false;
}

static bool ends_block(const mh_jinja_parser *p)
{
    return mh_jinja_at(p, "elif") || mh_jinja_at(p, "else") ||
           (p->token.kind == MH_TOKEN_NAME && p->token.text.size > 3 &&
            memcmp(p->token.text.bytes, "end", 3) == 0);
}

// ---- bodies -------------------------------------------------------------------------------------

static mh_status add_text(mh_jinja_parser *p, mh_text text, node_list *list)
{
    mh_jinja_node *node;
    if (text.size == 0)
        return MH_OK;
    MH_TRY(mh_jinja_new_node(p, MH_NODE_TEXT, &node));
    node->value = mh_jinja_string(text);
    add_node(list, node);
    return MH_OK;
}

static mh_status add_tag(mh_jinja_parser *p, char tag, node_list *list)
{
    mh_jinja_node *node;
    if (tag == '{') {
        MH_TRY(mh_jinja_new_node(p, MH_NODE_OUTPUT, &node));
        MH_TRY(mh_jinja_parse_expression(p, &node->a));
        MH_TRY(expect_end(p));
    } else {
        const mh_text name = p->token.text;
        if (!begins_block(p))
            return mh_jinja_expected(p, "if, for, set, macro, break, continue or generation");
        MH_TRY(mh_jinja_advance(p));
        MH_TRY(parse_block(p, name, &node));
    }
    add_node(list, node);
    return MH_OK;
}

// Up to the template's end, or a tag that ends the block, whose name is then the current token.
static mh_status parse_body(mh_jinja_parser *p, mh_jinja_node **first)
{
    node_list list = {.end = first};
    char tag = 0;
    while (p->at < p->source.size) {
        MH_TRY(add_text(p, mh_jinja_next_text(p), &list));
        MH_TRY(mh_jinja_enter_tag(p, &tag));
        if (tag == '%' && ends_block(p))
            return MH_OK;
        if (tag)
            MH_TRY(add_tag(p, tag, &list));
    }
    p->token = (mh_jinja_token){.at = p->at, .text = {"", 0}};
    return MH_OK;
}

// Line ends are newlines, and the last one does not count.
static mh_status copy_source(mh_jinja_parser *p, mh_text from)
{
    char *to = mh_result_take(p->context, p->arena, from.size + 1, 1);
    size_t size = 0;
    if (!to)
        return MH_ERROR_MEMORY;
    for (size_t i = 0; i < from.size; i++) {
        const bool cr = from.bytes[i] == '\r';
        to[size++] = cr ? '\n' : from.bytes[i];
        i += cr && i + 1 < from.size && from.bytes[i + 1] == '\n';
    }
    size -= size > 0 && to[size - 1] == '\n';
    p->source = (mh_text){to, size};
    return MH_OK;
}

mh_status mh_jinja_parse(mh_context *context, mh_result_arena *arena, mh_text source,
                         const mh_jinja **parsed)
{
    mh_jinja_parser p = {.context = context, .arena = arena};
    const size_t valid = mh_utf8_valid(source.bytes, source.size);
    if (valid < source.size)
        return mh_fail(context, MH_ERROR_UNSUPPORTED, "chat template: byte %zu is not valid UTF-8",
                       valid);
    mh_jinja *t = mh_result_take(context, arena, 1, sizeof *t);
    if (!t)
        return MH_ERROR_MEMORY;
    MH_TRY(copy_source(&p, source));
    *t = (mh_jinja){.source = p.source};
    MH_TRY(parse_body(&p, &t->body));
    if (p.token.kind == MH_TOKEN_NAME)
        return mh_jinja_expected(&p, "a block that it ends");
    *parsed = t;
    return MH_OK;
}
