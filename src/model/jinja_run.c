// SPDX-License-Identifier: MIT
// Statements of templates. Variables are a stack of scopes: a loop's body and a macro have one of
// their own, an `if` has not.
//
//     variables | globals | loop | loop ... | macro | loop ... |
//                                           ^ floor            ^ count
//
// A macro sees its own scopes and the globals.
#include "model/jinja_internal.h"
#include "support/grow.h"
#include <stdarg.h>
#include <stdio.h>

mh_status mh_jinja_run_fail(const mh_jinja_run *r, const mh_jinja_node *node, const char *format,
                            ...)
{
    char message[160];
    va_list list;
    va_start(list, format);
    vsnprintf(message, sizeof message, format, list);
    va_end(list);
    return mh_jinja_fail(r->context, r->source, node->at, "%s", message);
}

// Counts a node: templates end, whatever they loop over.
mh_status mh_jinja_step(mh_jinja_run *r, const mh_jinja_node *node)
{
    if (r->steps == 0)
        return mh_jinja_run_fail(r, node, "the template takes too many steps");
    r->steps--;
    if (r->depth > 3 * MH_JINJA_DEPTH / 2)
        return mh_jinja_run_fail(r, node, "the template's calls are nested too deeply");
    return MH_OK;
}

enum { COMPARISONS = 1024 }; // of bytes, in a step

static void take_steps(mh_jinja_run *r, size_t steps)
{
    r->steps = steps < r->steps ? r->steps - steps : 0;
}

void mh_jinja_spend(mh_jinja_run *r, size_t comparisons)
{
    take_steps(r, comparisons / COMPARISONS);
}

mh_status mh_jinja_search(mh_jinja_run *r, const mh_jinja_node *node, mh_text in, mh_text what)
{
    take_steps(r, in.size / COMPARISONS * (what.size + 1) + what.size / COMPARISONS + 1);
    return mh_jinja_step(r, node);
}

// ---- variables ----------------------------------------------------------------------------------

static mh_jinja_value *find_between(mh_jinja_run *r, size_t from, size_t end, mh_text name)
{
    mh_jinja_value *found = NULL;
    size_t comparisons = 0;
    for (size_t i = end; i > from && !found; i--) {
        mh_jinja_entry *variable = &r->variables[i - 1];
        comparisons += sizeof name.size + (variable->name.size == name.size ? name.size : 0);
        if (mh_text_equal(variable->name, name))
            found = &variable->value;
    }
    mh_jinja_spend(r, comparisons);
    return found;
}

mh_jinja_value *mh_jinja_find_variable(mh_jinja_run *r, mh_text name)
{
    mh_jinja_value *found = find_between(r, r->floor, r->count, name);
    return found || r->floor == 0 ? found : find_between(r, 0, r->globals, name);
}

mh_status mh_jinja_set_variable(mh_jinja_run *r, mh_text name, mh_jinja_value value)
{
    mh_jinja_value *found = find_between(r, r->scope, r->count, name);
    if (found) {
        *found = value;
        return MH_OK;
    }
    if (!mh_grow(r->context, &r->variables, &r->capacity, r->count + 1, sizeof *r->variables))
        return MH_ERROR_MEMORY;
    r->variables[r->count++] = (mh_jinja_entry){name, value};
    if (r->scope == 0)
        r->globals = r->count;
    return MH_OK;
}

static mh_status run_set(mh_jinja_run *r, const mh_jinja_node *node)
{
    mh_jinja_value value;
    if (node->a)
        MH_TRY(mh_jinja_eval(r, node->a, &value));
    else
        MH_TRY(mh_jinja_capture(r, node->body, &value));
    if (node->value.kind != MH_JINJA_STRING)
        return mh_jinja_set_variable(r, node->name, value);
    const mh_jinja_value *of = mh_jinja_find_variable(r, node->name);
    if (!of || of->kind != MH_JINJA_NAMESPACE)
        return mh_jinja_run_fail(r, node, "a member of %s is set, expected a namespace",
                                 of ? mh_jinja_kind_name(of->kind) : "an undefined value");
    return mh_jinja_put(r, of->dict, node->value.string, value);
}

// ---- loops --------------------------------------------------------------------------------------

// for a in items, for a, b in pairs
static mh_status set_targets(mh_jinja_run *r, const mh_jinja_node *node, mh_jinja_value item)
{
    const mh_jinja_node *name = node->arguments;
    if (!name->next)
        return mh_jinja_set_variable(r, name->name, item);
    const mh_jinja_list *parts;
    MH_TRY(mh_jinja_items(r, node, &item, &parts));
    size_t i = 0;
    for (; name && i < parts->count; name = name->next, i++)
        MH_TRY(mh_jinja_set_variable(r, name->name, parts->items[i]));
    return name || i < parts->count
               ? mh_jinja_run_fail(r, node, "an item has not as many parts as the loop has names")
               : MH_OK;
}

// Those for which the loop's condition holds.
static mh_status filter_items(mh_jinja_run *r, const mh_jinja_node *node,
                              const mh_jinja_list **items)
{
    const mh_jinja_list *from = *items;
    const mh_jinja_value to = mh_jinja_new_list(r->context, r->arena);
    const size_t scope = r->scope, count = r->count;
    if (!to.kind)
        return MH_ERROR_MEMORY;
    for (size_t i = 0; i < from->count; i++) {
        mh_jinja_value holds;
        r->scope = r->count = count;
        MH_TRY(set_targets(r, node, from->items[i]));
        MH_TRY(mh_jinja_eval(r, node->b, &holds));
        if (mh_jinja_truth(&holds))
            MH_TRY(mh_jinja_append(r->context, r->arena, to.list, from->items[i]));
    }
    r->scope = scope;
    r->count = count;
    *items = to.list;
    return MH_OK;
}

static mh_status set_loop(mh_jinja_run *r, mh_jinja_dict *loop, const mh_jinja_list *items,
                          size_t i)
{
    const size_t n = items->count;
    const mh_jinja_value none = {0};
    const struct {
        const char *name;
        mh_jinja_value value;
    } members[] = {{"index", mh_jinja_integer((int64_t)i + 1)},
                   {"index0", mh_jinja_integer((int64_t)i)},
                   {"revindex", mh_jinja_integer((int64_t)(n - i))},
                   {"revindex0", mh_jinja_integer((int64_t)(n - i - 1))},
                   {"first", mh_jinja_boolean(i == 0)},
                   {"last", mh_jinja_boolean(i + 1 == n)},
                   {"length", mh_jinja_integer((int64_t)n)},
                   {"previtem", i ? items->items[i - 1] : none},
                   {"nextitem", i + 1 < n ? items->items[i + 1] : none}};
    for (size_t j = 0; j < sizeof members / sizeof *members; j++)
        MH_TRY(mh_jinja_set(r->context, r->arena, loop,
                            (mh_text){members[j].name, strlen(members[j].name)}, members[j].value));
    return MH_OK;
}

static mh_status run_loop(mh_jinja_run *r, const mh_jinja_node *node, const mh_jinja_list *items)
{
    const size_t scope = r->scope, count = r->count;
    const mh_jinja_value loop = mh_jinja_new_dict(r->context, r->arena);
    if (!loop.kind)
        return MH_ERROR_MEMORY;
    for (size_t i = 0; i < items->count && r->flow != MH_FLOW_BREAK; i++) {
        r->flow = MH_FLOW_ON;
        r->scope = r->count = count;
        MH_TRY(mh_jinja_step(r, node));
        MH_TRY(set_loop(r, loop.dict, items, i));
        MH_TRY(mh_jinja_set_variable(r, (mh_text){"loop", 4}, loop));
        MH_TRY(set_targets(r, node, items->items[i]));
        MH_TRY(mh_jinja_execute(r, node->body));
    }
    r->flow = MH_FLOW_ON;
    r->scope = scope;
    r->count = count;
    return MH_OK;
}

static mh_status run_for(mh_jinja_run *r, const mh_jinja_node *node)
{
    mh_jinja_value in;
    const mh_jinja_list *items;
    MH_TRY(mh_jinja_eval(r, node->a, &in));
    MH_TRY(mh_jinja_items(r, node, &in, &items));
    if (node->b)
        MH_TRY(filter_items(r, node, &items));
    return items->count ? run_loop(r, node, items) : mh_jinja_execute(r, node->otherwise);
}

// ---- the others ---------------------------------------------------------------------------------

static mh_status run_if(mh_jinja_run *r, const mh_jinja_node *node)
{
    mh_jinja_value condition;
    MH_TRY(mh_jinja_eval(r, node->a, &condition));
    return mh_jinja_execute(r, mh_jinja_truth(&condition) ? node->body : node->otherwise);
}

static mh_status run_output(mh_jinja_run *r, const mh_jinja_node *node)
{
    mh_jinja_value value = node->value;
    mh_text text;
    if (node->a)
        MH_TRY(mh_jinja_eval(r, node->a, &value));
    MH_TRY(mh_jinja_text(r, node, &value, &text));
    if (r->out.buffer.size + text.size > r->bytes)
        return mh_jinja_run_fail(r, node, "the template writes too much");
    mh_append(&r->out, text.bytes, text.size);
    return MH_OK;
}

static mh_status run_statement(mh_jinja_run *r, const mh_jinja_node *node)
{
    switch (node->kind) {
    case MH_NODE_TEXT:
    case MH_NODE_OUTPUT:
        return run_output(r, node);
    case MH_NODE_IF:
        return run_if(r, node);
    case MH_NODE_FOR:
        return run_for(r, node);
    case MH_NODE_SET:
        return run_set(r, node);
    case MH_NODE_MACRO:
        return mh_jinja_set_variable(r, node->name,
                                     (mh_jinja_value){.kind = MH_JINJA_MACRO, .macro = node});
    default:
        r->flow = node->kind == MH_NODE_BREAK ? MH_FLOW_BREAK : MH_FLOW_CONTINUE;
        return MH_OK;
    }
}

mh_status mh_jinja_execute(mh_jinja_run *r, const mh_jinja_node *first)
{
    r->depth++;
    for (const mh_jinja_node *node = first; node && r->flow == MH_FLOW_ON; node = node->next) {
        MH_TRY(mh_jinja_step(r, node));
        MH_TRY(run_statement(r, node));
    }
    r->depth--;
    return MH_OK;
}

mh_status mh_jinja_capture(mh_jinja_run *r, const mh_jinja_node *first, mh_jinja_value *value)
{
    const size_t from = r->out.buffer.size;
    char *bytes;
    MH_TRY(mh_jinja_execute(r, first));
    if (r->out.failed)
        return MH_ERROR_MEMORY;
    const size_t size = r->out.buffer.size - from;
    if (size == 0) {
        *value = mh_jinja_string((mh_text){"", 0});
        return MH_OK;
    }
    MH_TRY(mh_jinja_take(r, first, size, &bytes));
    memcpy(bytes, r->out.buffer.data + from, size);
    r->out.buffer.size = from;
    *value = mh_jinja_string((mh_text){bytes, size});
    return MH_OK;
}

// ---- all of it ----------------------------------------------------------------------------------

// What a run may take grows with the conversation.
static void set_limits(mh_jinja_run *r, const mh_jinja_dict *variables)
{
    const size_t fixed = (size_t)1 << 24, times = 256;
    size_t count = 0, bytes = r->source.size;
    for (size_t i = 0; i < variables->count; i++) {
        const mh_jinja_value *v = &variables->entries[i].value;
        for (size_t j = 0; v->kind == MH_JINJA_LIST && j < v->list->count; j++, count++) {
            const mh_jinja_value *item = &v->list->items[j];
            for (size_t k = 0; item->kind == MH_JINJA_DICT && k < item->dict->count; k++)
                if (item->dict->entries[k].value.kind == MH_JINJA_STRING)
                    bytes += item->dict->entries[k].value.string.size;
        }
    }
    r->steps = MH_JINJA_STEPS + count * MH_JINJA_STEPS_MORE + bytes;
    r->bytes = fixed + times * bytes;
}

mh_status mh_jinja_render(mh_context *context, mh_result_arena *arena, const mh_jinja *parsed,
                          const mh_jinja_dict *variables, mh_buffer *text)
{
    mh_jinja_run r = {.context = context, .arena = arena, .source = parsed->source};
    mh_buffer made = {0};
    mh_status status = MH_OK;
    r.out.context = context;
    set_limits(&r, variables);
    for (size_t i = 0; i < variables->count && !status; i++)
        status = mh_jinja_set_variable(&r, variables->entries[i].name, variables->entries[i].value);
    if (!status)
        status = mh_jinja_execute(&r, parsed->body);
    status = mh_append_finish(&r.out, status, &made);
    mh_shrink(context, &r.variables, &r.capacity, sizeof *r.variables);
    MH_TRY(status);
    mh_buffer_free(context, text);
    *text = made;
    return MH_OK;
}
