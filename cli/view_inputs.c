// SPDX-License-Identifier: MIT
// Reading what `multihead view` shows; see view_inputs.h.
//
// A file of tokens has one a line. A file of one line is taken as tokens with blanks between
// them, because that is how a sentence is written down.
#include "view_inputs.h"
#include "messages.h"
#include "whole_file.h"

#include <stdlib.h>
#include <string.h>

// ---- tokens ---------------------------------------------------------------------------

enum { TOKENS_BYTES_MAX = 64 << 20 };

static int add_token(token_list *list, const char *token)
{
    if ((list->count & (list->count - 1)) == 0) { // grows at powers of two
        size_t room = list->count ? 2 * list->count : 1;
        const char **more = realloc(list->tokens, room * sizeof *more);
        if (!more) {
            complain("%s %s: out of memory", list->option, list->path);
            return EXIT_MEMORY;
        }
        list->tokens = more;
    }
    list->tokens[list->count++] = token;
    return EXIT_DONE;
}

static int read_tokens(token_list *list)
{
    size_t size;
    if (!list->path)
        return EXIT_DONE;
    int code = whole_file_read(list->option, list->path, TOKENS_BYTES_MAX, &list->text, &size);
    if (code != EXIT_DONE)
        return code;
    if (memchr(list->text, 0, size)) {
        complain("%s %s: a byte 0, expected text, one token a line", list->option, list->path);
        return EXIT_INPUT;
    }
    const char *newline = strchr(list->text, '\n');
    const char *ends = newline && newline[1] ? "\n" : " \t\r\n";
    bool lines = *ends == '\n';
    for (char *at = list->text; *at && code == EXIT_DONE;) {
        size_t length = strcspn(at, ends);
        char *next = at + length + (at[length] != 0);
        at[length] = 0;
        if (lines && length && at[length - 1] == '\r')
            at[length - 1] = 0;
        if (lines || length)
            code = add_token(list, at);
        at = next;
    }
    return code;
}

// ---- weights ----------------------------------------------------------------------------

static int check_tokens(const view *v, const token_list *list, const char *what, size_t expected)
{
    if (!list->path || list->count == expected)
        return EXIT_DONE;
    return array_complain(&v->weights, "has %zu %s, but %s %s has %zu %s", expected, what,
                          list->option, list->path, list->count,
                          plural(list->count, "token", "tokens"));
}

static int read_weights(view *v)
{
    mh_trace_group *group = &v->trace.groups[MH_TRACE_ATTENTION];
    int code = array_open(v->context, &v->weights);
    if (code != EXIT_DONE)
        return code;
    if (v->weights.tensor.rank < 2 || v->weights.tensor.rank > 4)
        return array_complain(&v->weights, "expected (layers, heads, queries, keys), the first one "
                                           "or two of them may be missing");
    if (!array_is_float(&v->weights))
        return array_complain(&v->weights, "expected float numbers");
    array_extend(&v->weights, 4);
    group->weights = v->weights.tensor;
    const size_t *shape = group->weights.shape;
    code = check_tokens(v, &v->tokens, "queries", shape[2]);
    if (code == EXIT_DONE && !v->key_tokens.path && v->tokens.path && shape[2] != shape[3])
        return array_complain(&v->weights,
                              "has %zu queries and %zu keys, expected --key-tokens "
                              "for the keys",
                              shape[2], shape[3]);
    if (code == EXIT_DONE)
        code = check_tokens(v, &v->key_tokens, "keys", shape[3]);
    return code;
}

static int read_trace(view *v)
{
    mh_status status;
    if (is_stream(v->trace_path)) {
        size_t size;
        int code = whole_file_read("--trace", v->trace_path, SIZE_MAX, &v->trace_bytes, &size);
        if (code != EXIT_DONE)
            return code;
        status = mh_trace_file_parse(v->context, input_name(v->trace_path), v->trace_bytes, size,
                                     &v->trace_file);
    } else {
        status = mh_trace_file_open(v->context, v->trace_path, &v->trace_file);
    }
    if (status != MH_OK)
        return complain_status(v->context, status, "--trace");
    v->trace = *mh_trace_file_trace(v->trace_file);
    return EXIT_DONE;
}

static int read_weights_and_tokens(view *v)
{
    int code = read_tokens(&v->tokens);
    if (code == EXIT_DONE)
        code = read_tokens(&v->key_tokens);
    if (code == EXIT_DONE)
        code = read_weights(v);
    if (code != EXIT_DONE)
        return code;
    v->trace.target = (mh_trace_tokens){.count = v->tokens.count, .text = v->tokens.tokens};
    v->trace.source = (mh_trace_tokens){.count = v->key_tokens.count, .text = v->key_tokens.tokens};
    mh_status status = mh_trace_check(v->context, &v->trace);
    if (status == MH_ERROR_ARGUMENT)
        return array_complain(&v->weights, "%s", mh_error_message(v->context));
    return status == MH_OK ? EXIT_DONE : complain_status(v->context, status, NULL);
}

int view_read_inputs(view *v)
{
    v->trace = mh_trace_default();
    int code = v->trace_path ? read_trace(v) : read_weights_and_tokens(v);
    if (v->title)
        v->trace.title = v->title;
    return code;
}

void view_close_inputs(view *v)
{
    token_list *lists[] = {&v->tokens, &v->key_tokens};
    for (size_t i = 0; i < 2; i++) {
        free(lists[i]->text);
        free(lists[i]->tokens);
    }
    mh_trace_file_free(v->trace_file);
    free(v->trace_bytes);
    array_close(v->context, &v->weights);
}
