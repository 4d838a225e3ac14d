// SPDX-License-Identifier: MIT
// Nodes of a template, and the state of a run.
#ifndef MH_MODEL_JINJA_INTERNAL_H
#define MH_MODEL_JINJA_INTERNAL_H

#include "base/compiler.h"
#include "model/jinja.h"
#include "support/buffer.h"
#include <string.h>

enum {
    MH_JINJA_DEPTH = 64,          // of nodes in each other, and of calls: limits the stack
    MH_JINJA_STEPS = 1 << 20,     // nodes that a run may visit, and for each message
    MH_JINJA_STEPS_MORE = 1 << 12 // so many more
};

typedef enum mh_jinja_node_kind {
    MH_NODE_LITERAL, // value
    MH_NODE_NAME,    // name
    MH_NODE_LIST,    // arguments
    MH_NODE_DICT,    // arguments: key, value, key, ...
    MH_NODE_MEMBER,  // a.name
    MH_NODE_INDEX,   // a[b]
    MH_NODE_SLICE,   // a[b:c:arguments]
    MH_NODE_CALL,    // name(arguments), or a.name(arguments)
    MH_NODE_FILTER,  // a | name(arguments)
    MH_NODE_TEST,    // a is name(arguments)
    MH_NODE_NOT,
    MH_NODE_NEGATE,
    MH_NODE_AND,
    MH_NODE_OR,
    MH_NODE_BINARY,   // a name b
    MH_NODE_CHOICE,   // a if b else c
    MH_NODE_ARGUMENT, // name = a, or a
    MH_NODE_TEXT,     // value
    MH_NODE_OUTPUT,   // {{ a }}
    MH_NODE_IF,       // if a: body, else: otherwise
    MH_NODE_FOR,      // for arguments in a if b: body, else: otherwise
    MH_NODE_SET,      // name = a, or name.value = a; without a: the text of body
    MH_NODE_MACRO,    // name(arguments): body
    MH_NODE_BREAK,
    MH_NODE_CONTINUE,
} mh_jinja_node_kind;

typedef struct mh_jinja_node {
    mh_jinja_node_kind kind;
    size_t at; // in the source
    mh_text name;
    mh_jinja_value value;
    struct mh_jinja_node *a, *b, *c;
    struct mh_jinja_node *arguments, *body, *otherwise; // the first of a list
    struct mh_jinja_node *next;
    size_t depth;
} mh_jinja_node;

struct mh_jinja {
    mh_text source;
    mh_jinja_node *body;
};

static inline bool mh_text_is(mh_text text, const char *string)
{
    return text.size == strlen(string) && memcmp(text.bytes, string, text.size) == 0;
}

static inline bool mh_text_equal(mh_text a, mh_text b)
{
    return a.size == b.size && memcmp(a.bytes, b.bytes, a.size) == 0;
}

// "chat template, line N: ..." for what is at `at`; at most 200 bytes.
mh_status mh_jinja_fail(mh_context *context, mh_text source, size_t at, const char *format, ...)
    MH_PRINTF(4, 5);

// ---- parsing ------------------------------------------------------------------------------------

typedef enum mh_jinja_token_kind {
    MH_TOKEN_END, // of the tag
    MH_TOKEN_NAME,
    MH_TOKEN_STRING,
    MH_TOKEN_INTEGER,
    MH_TOKEN_OPERATOR,
} mh_jinja_token_kind;

typedef struct mh_jinja_token {
    mh_jinja_token_kind kind;
    size_t at;
    mh_text text; // of a string: without quotes and escapes
    int64_t integer;
} mh_jinja_token;

typedef struct mh_jinja_parser {
    mh_context *context;
    mh_result_arena *arena;
    mh_text source;
    size_t at;
    mh_jinja_token token; // the current one
    char tag;             // of the tag that is being read, or was the last: '{', '%', '#'; 0: none
    bool strips_behind;   // it ends with a minus
    bool keeps_newline;   // it ends with a plus
    size_t brackets;      // open ones in the tag
    size_t depth;         // of the parser's recursion
    size_t loops;
} mh_jinja_parser;

// The text up to the next tag, without the whitespace that the tags around it remove.
mh_text mh_jinja_next_text(mh_jinja_parser *p);

// Enters the tag that follows, skipping comments; *tag 0: there is none, the template ends, or text
// follows.
mh_status mh_jinja_enter_tag(mh_jinja_parser *p, char *tag);

mh_status mh_jinja_advance(mh_jinja_parser *p); // to the next token
mh_status mh_jinja_expected(mh_jinja_parser *p, const char *what);
bool mh_jinja_at(const mh_jinja_parser *p, const char *text); // a name or an operator
mh_status mh_jinja_expect(mh_jinja_parser *p, const char *text);

// The next token is the beginning of an expression.
mh_status mh_jinja_parse_expression(mh_jinja_parser *p, mh_jinja_node **node);
mh_status mh_jinja_parse_choiceless(mh_jinja_parser *p, mh_jinja_node **node); // no `if`
mh_status mh_jinja_parse_arguments(mh_jinja_parser *p, mh_jinja_node **first); // behind the (
mh_status mh_jinja_new_node(mh_jinja_parser *p, mh_jinja_node_kind kind, mh_jinja_node **node);
mh_status mh_jinja_check_depth(mh_jinja_parser *p, mh_jinja_node *node); // all children are set

// ---- running ------------------------------------------------------------------------------------

typedef struct mh_jinja_run {
    mh_context *context;
    mh_result_arena *arena;
    mh_text source;
    mh_appender out;
    mh_jinja_entry *variables; // a stack of scopes
    size_t count, capacity;
    size_t scope;   // the first of the innermost scope
    size_t floor;   // in a macro, the first of its scopes
    size_t globals; // how many of the outermost scope there are
    size_t steps, depth;
    size_t bytes; // that strings may still take
    enum { MH_FLOW_ON, MH_FLOW_BREAK, MH_FLOW_CONTINUE } flow;
} mh_jinja_run;

mh_status mh_jinja_run_fail(const mh_jinja_run *r, const mh_jinja_node *node, const char *format,
                            ...) MH_PRINTF(3, 4);

mh_status mh_jinja_step(mh_jinja_run *r, const mh_jinja_node *node);
// Counts comparisons of bytes; the next step fails if they were too many.
void mh_jinja_spend(mh_jinja_run *r, size_t comparisons);
// Counts the steps of looking for `what` in a text, or of going through that.
mh_status mh_jinja_search(mh_jinja_run *r, const mh_jinja_node *node, mh_text in, mh_text what);
mh_status mh_jinja_eval(mh_jinja_run *r, const mh_jinja_node *node, mh_jinja_value *value);
mh_status mh_jinja_execute(mh_jinja_run *r, const mh_jinja_node *first);

// The body's output as a string.
mh_status mh_jinja_capture(mh_jinja_run *r, const mh_jinja_node *first, mh_jinja_value *value);

mh_jinja_value *mh_jinja_find_variable(mh_jinja_run *r, mh_text name); // NULL: undefined
mh_status mh_jinja_set_variable(mh_jinja_run *r, mh_text name, mh_jinja_value value);

// Evaluated arguments: those without a name first.
typedef struct mh_jinja_arguments {
    mh_jinja_value *values; // (count)
    mh_text *names;         // (count), "" without
    size_t count, positional;
} mh_jinja_arguments;

mh_status mh_jinja_eval_arguments(mh_jinja_run *r, const mh_jinja_node *first,
                                  mh_jinja_arguments *arguments);
// The one of this place or name; undefined if there is none. `name` may be NULL.
mh_jinja_value mh_jinja_argument(const mh_jinja_arguments *arguments, size_t i, const char *name);

bool mh_jinja_is_function(mh_text name);
mh_status mh_jinja_call(mh_jinja_run *r, const mh_jinja_node *node, mh_jinja_value *value);
mh_status mh_jinja_apply_filter(mh_jinja_run *r, const mh_jinja_node *node, mh_text name,
                                const mh_jinja_value *in, const mh_jinja_arguments *arguments,
                                mh_jinja_value *out);
mh_status mh_jinja_apply_test(mh_jinja_run *r, const mh_jinja_node *node, mh_text name,
                              const mh_jinja_value *in, const mh_jinja_arguments *arguments,
                              bool *result);

// ---- values -------------------------------------------------------------------------------------

const char *mh_jinja_kind_name(mh_jinja_kind kind);
bool mh_jinja_truth(const mh_jinja_value *value);
mh_jinja_value *mh_jinja_get(mh_jinja_run *r, const mh_jinja_dict *dict,
                             mh_text name); // NULL: none
mh_status mh_jinja_put(mh_jinja_run *r, mh_jinja_dict *dict, mh_text name, mh_jinja_value value);
bool mh_jinja_is_dict(const mh_jinja_value *value);
size_t mh_jinja_characters(mh_text text);

mh_status mh_jinja_equal(mh_jinja_run *r, const mh_jinja_node *node, const mh_jinja_value *a,
                         const mh_jinja_value *b, bool *equal);

// All of these may refuse the kinds of their values.
mh_status mh_jinja_text(mh_jinja_run *r, const mh_jinja_node *node, const mh_jinja_value *value,
                        mh_text *text); // as {{ }} writes it
mh_status mh_jinja_json(mh_jinja_run *r, const mh_jinja_node *node, const mh_jinja_value *value,
                        mh_appender *to);
mh_status mh_jinja_items(mh_jinja_run *r, const mh_jinja_node *node, const mh_jinja_value *value,
                         const mh_jinja_list **items); // what `for` goes through
mh_status mh_jinja_length(mh_jinja_run *r, const mh_jinja_node *node, const mh_jinja_value *value,
                          int64_t *length);
mh_status mh_jinja_contains(mh_jinja_run *r, const mh_jinja_node *node, const mh_jinja_value *in,
                            const mh_jinja_value *what, bool *found);
mh_status mh_jinja_index(mh_jinja_run *r, const mh_jinja_node *node, const mh_jinja_value *of,
                         const mh_jinja_value *index, mh_jinja_value *value);
// bounds: from, to and step, undefined or none where not given
mh_status mh_jinja_slice(mh_jinja_run *r, const mh_jinja_node *node, const mh_jinja_value *of,
                         const mh_jinja_value bounds[3], mh_jinja_value *value);
// Memory for a string of `size` bytes, counted.
mh_status mh_jinja_take(mh_jinja_run *r, const mh_jinja_node *node, size_t size, char **bytes);
mh_status mh_jinja_join(mh_jinja_run *r, const mh_jinja_node *node, mh_text a, mh_text b,
                        mh_jinja_value *value);
// Without characters of `set` at its ends; set NULL: without whitespace, as Python's str.strip().
mh_text mh_jinja_strip(mh_text text, const mh_text *set, bool left, bool right);

#endif
