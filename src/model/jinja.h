// SPDX-License-Identifier: MIT
// Chat templates are programs in Jinja. This runs the part of the language that they are written
// in, with the text that jinja2 gives in the settings of Hugging Face's apply_chat_template:
//
//     text -> jinja_lex.c -> tokens -> jinja_parse*.c -> nodes -> jinja_run.c, jinja_eval.c -> text
//
// Statements: if, for, set, macro, break, continue, generation. Expressions: all operators but /
// and **, without floating-point numbers. Filters, tests, methods and functions are tables
// (jinja_filters.c, jinja_calls.c). Whatever else a template has is refused when it is reached, so
// that branches for tools, which no conversation of ours enters, may contain anything that parses.
//
// Templates are untrusted: nesting, steps and memory are limited.
#ifndef MH_MODEL_JINJA_H
#define MH_MODEL_JINJA_H

#include "model/result_arena.h"
#include <multihead/text.h>

typedef enum mh_jinja_kind {
    MH_JINJA_UNDEFINED,
    MH_JINJA_NONE,
    MH_JINJA_BOOLEAN,
    MH_JINJA_INTEGER,
    MH_JINJA_STRING,
    MH_JINJA_LIST, // tuples are lists
    MH_JINJA_DICT,
    MH_JINJA_NAMESPACE, // a dict that {% set n.x = ... %} writes to
    MH_JINJA_MACRO,     // or a function of ours: NULL
} mh_jinja_kind;

typedef struct mh_jinja_value {
    mh_jinja_kind kind;
    union {
        int64_t integer; // of booleans 0 or 1
        mh_text string;  // valid UTF-8
        struct mh_jinja_list *list;
        struct mh_jinja_dict *dict;
        const struct mh_jinja_node *macro;
    };
} mh_jinja_value;

typedef struct mh_jinja_list {
    mh_jinja_value *items; // (count)
    size_t count, capacity;
} mh_jinja_list;

typedef struct mh_jinja_entry {
    mh_text name;
    mh_jinja_value value;
} mh_jinja_entry;

// In the order of insertion. Keys are strings.
typedef struct mh_jinja_dict {
    mh_jinja_entry *entries; // (count)
    size_t count, capacity;
} mh_jinja_dict;

static inline mh_jinja_value mh_jinja_none(void) { return (mh_jinja_value){.kind = MH_JINJA_NONE}; }

static inline mh_jinja_value mh_jinja_boolean(bool truth)
{
    return (mh_jinja_value){.kind = MH_JINJA_BOOLEAN, .integer = truth};
}

static inline mh_jinja_value mh_jinja_integer(int64_t integer)
{
    return (mh_jinja_value){.kind = MH_JINJA_INTEGER, .integer = integer};
}

static inline mh_jinja_value mh_jinja_string(mh_text string)
{
    return (mh_jinja_value){.kind = MH_JINJA_STRING, .string = string};
}

// Empty ones, in the arena; kind MH_JINJA_UNDEFINED with a message if out of memory.
mh_jinja_value mh_jinja_new_list(mh_context *context, mh_result_arena *arena);
mh_jinja_value mh_jinja_new_dict(mh_context *context, mh_result_arena *arena);
mh_status mh_jinja_append(mh_context *context, mh_result_arena *arena, mh_jinja_list *list,
                          mh_jinja_value value);
mh_status mh_jinja_set(mh_context *context, mh_result_arena *arena, mh_jinja_dict *dict,
                       mh_text name, mh_jinja_value value);

// A parsed template, in the arena, which may also hold the variables.
typedef struct mh_jinja mh_jinja;

// `source` is copied. Errors: MH_ERROR_UNSUPPORTED (no Jinja, or a part of it that we do not know;
// the message has the line), MH_ERROR_MEMORY.
mh_status mh_jinja_parse(mh_context *context, mh_result_arena *arena, mh_text source,
                         const mh_jinja **parsed);

// Replaces `text` by what the template writes. Errors: MH_ERROR_ARGUMENT (the template calls
// raise_exception), MH_ERROR_UNSUPPORTED (what it does is an error in Jinja, too, or not supported,
// or takes too many steps), MH_ERROR_MEMORY.
mh_status mh_jinja_render(mh_context *context, mh_result_arena *arena, const mh_jinja *parsed,
                          const mh_jinja_dict *variables, mh_buffer *text);

#endif
