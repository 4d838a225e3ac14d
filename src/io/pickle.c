// SPDX-License-Identifier: MIT
// The pickle machine: its memory, its loop and the values it makes; see pickle.h.
#include "io/pickle.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "support/grow.h"

// ---- messages -----------------------------------------------------------------------------------

mh_status mh_pickle_fail(const mh_pickle *p, const char *format, ...)
{
    char detail[480], code[16];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(detail, sizeof detail, format, arguments);
    va_end(arguments);
    const unsigned char byte = p->opcode_at < p->end ? p->bytes[p->opcode_at] : 0;
    const char *name = mh_pickle_opcodes[byte].name;
    snprintf(code, sizeof code, "0x%02x", byte);
    return mh_source_fail(p->source, MH_ERROR_FORMAT, "%s, byte %zu, opcode %s: %s", p->label,
                          p->opcode_at, name ? name : code, detail);
}

const char *mh_pickle_kind_name(mh_pickle_kind kind)
{
    static const char *const names[] = {
        [MH_PICKLE_NONE] = "None",          [MH_PICKLE_BOOL] = "True or False",
        [MH_PICKLE_INT] = "an integer",     [MH_PICKLE_LONG] = "a long integer",
        [MH_PICKLE_FLOAT] = "a float",      [MH_PICKLE_TEXT] = "text",
        [MH_PICKLE_BYTES] = "bytes",        [MH_PICKLE_TUPLE] = "a tuple",
        [MH_PICKLE_LIST] = "a list",        [MH_PICKLE_DICT] = "a dictionary",
        [MH_PICKLE_PAIRS] = "a dictionary", [MH_PICKLE_GLOBAL] = "a global",
        [MH_PICKLE_STORAGE] = "a storage",  [MH_PICKLE_TENSOR] = "a tensor",
        [MH_PICKLE_MARK] = "a mark",
    };
    return names[kind];
}

// ---- the stack ----------------------------------------------------------------------------------

mh_status mh_pickle_push(mh_pickle *p, mh_pickle_value value)
{
    if (p->stack_count >= MH_PICKLE_STACK_MAX)
        return mh_pickle_fail(p, "the stack has more than %d values", MH_PICKLE_STACK_MAX);
    if (!mh_grow(p->source->context, &p->stack, &p->stack_capacity, p->stack_count + 1,
                 sizeof *p->stack))
        return MH_ERROR_MEMORY;
    p->stack[p->stack_count++] = value;
    return MH_OK;
}

mh_status mh_pickle_pop(mh_pickle *p, mh_pickle_value *value)
{
    if (p->stack_count == 0)
        return mh_pickle_fail(p, "the stack is empty");
    if (p->stack[p->stack_count - 1].kind == MH_PICKLE_MARK)
        return mh_pickle_fail(p, "found a mark on the stack, expected a value");
    *value = p->stack[--p->stack_count];
    return MH_OK;
}

// ---- containers ---------------------------------------------------------------------------------

const mh_pickle_container *mh_pickle_of(const mh_pickle *p, const mh_pickle_value *value)
{
    return &p->containers[value->as.container];
}

size_t mh_pickle_items(const mh_pickle *p, const mh_pickle_value *value, size_t most,
                       mh_pickle_value *items)
{
    const mh_pickle_container *c = mh_pickle_of(p, value);
    uint32_t node = c->first;
    for (size_t i = 0; i < most && node != 0; i++, node = p->nodes[node].next)
        items[i] = p->nodes[node].value;
    return c->count;
}

mh_status mh_pickle_append(mh_pickle *p, const mh_pickle_value *to, mh_pickle_value value)
{
    const size_t node = p->node_count ? p->node_count : 1; // 0 is the end
    if (!mh_grow(p->source->context, &p->nodes, &p->node_capacity, node + 1, sizeof *p->nodes))
        return MH_ERROR_MEMORY;
    p->node_count = node + 1;
    p->nodes[node] = (mh_pickle_node){.value = value};
    mh_pickle_container *c = &p->containers[to->as.container];
    if (c->last)
        p->nodes[c->last].next = (uint32_t)node;
    else
        c->first = (uint32_t)node;
    c->last = (uint32_t)node;
    c->count++;
    return MH_OK;
}

mh_status mh_pickle_collect(mh_pickle *p, mh_pickle_kind kind, size_t from)
{
    const mh_pickle_value made = {.kind = kind, .as = {.container = (uint32_t)p->container_count}};
    if (!mh_grow(p->source->context, &p->containers, &p->container_capacity, p->container_count + 1,
                 sizeof *p->containers))
        return MH_ERROR_MEMORY;
    p->containers[p->container_count++] = (mh_pickle_container){0};
    mh_status status = MH_OK;
    for (size_t i = from; i < p->stack_count && !status; i++)
        status = mh_pickle_append(p, &made, p->stack[i]);
    p->stack_count = from;
    return status ? status : mh_pickle_push(p, made);
}

bool mh_pickle_is_text(const mh_pickle_value *value, const char *text)
{
    return value->kind == MH_PICKLE_TEXT && value->size == strlen(text) &&
           memcmp(value->as.bytes, text, value->size) == 0;
}

// ---- running ------------------------------------------------------------------------------------

static mh_status execute_next(mh_pickle *p)
{
    if (p->at >= p->end)
        return mh_source_fail(p->source, MH_ERROR_FORMAT,
                              "%s: the pickle ends at byte %zu without STOP: the file may be cut "
                              "off",
                              p->label, p->at);
    p->opcode_at = p->at;
    const mh_pickle_opcode *opcode = &mh_pickle_opcodes[p->bytes[p->at++]];
    if (!opcode->name)
        return mh_pickle_fail(p, "there is no such opcode");
    if (!opcode->execute)
        return mh_pickle_fail(p, "is not needed for tensors and is rejected; nothing is executed");
    if (p->opcode_at == 0 && p->bytes[0] != 0x80)
        return mh_pickle_fail(p, "expected PROTO first (protocol 2 to 5)");
    return opcode->execute(p);
}

mh_status mh_pickle_run(mh_pickle *p, const unsigned char *bytes, size_t size,
                        mh_pickle_value *result, size_t *used)
{
    mh_status status = MH_OK;
    p->bytes = bytes;
    p->at = p->opcode_at = 0;
    p->end = size < MH_HEADER_BYTES_MAX ? size : MH_HEADER_BYTES_MAX;
    p->stopped = false;
    p->stack_count = p->memo_count = 0;
    while (!status && !p->stopped)
        status = execute_next(p);
    if (status)
        return status;
    if (p->stack_count != 1)
        return mh_pickle_fail(p, "found %zu values on the stack, expected one", p->stack_count);
    *used = p->at;
    return mh_pickle_pop(p, result);
}

void mh_pickle_free(mh_pickle *p)
{
    mh_context *context = p->source->context;
    mh_shrink(context, &p->stack, &p->stack_capacity, sizeof *p->stack);
    mh_shrink(context, &p->memo, &p->memo_capacity, sizeof *p->memo);
    mh_shrink(context, &p->nodes, &p->node_capacity, sizeof *p->nodes);
    mh_shrink(context, &p->containers, &p->container_capacity, sizeof *p->containers);
}
