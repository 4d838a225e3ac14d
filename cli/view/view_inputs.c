// SPDX-License-Identifier: MIT
// Reading what `multihead view` shows; see view_inputs.h.
//
// A file of tokens has one per line. A file of one line, and an argument that is not a file, is
// split at whitespace, as a sentence is written.
#include "view_inputs.h"
#include "messages.h"
#include "whole_file.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

// ---- tokens -------------------------------------------------------------------------------------

enum { TOKENS_BYTES_MAX = 64 << 20 };

static int view_add_token(token_list *list, const char *token)
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

static bool view_is_file(const char *path)
{
    struct stat status;
    return strcmp(path, "-") == 0 || stat(path, &status) == 0 ||
           (errno != ENOENT && errno != ENOTDIR && errno != ENAMETOOLONG);
}

static int view_read_text(token_list *list, size_t *size)
{
    list->words = !view_is_file(list->path);
    if (!list->words)
        return whole_file_read(list->option, list->path, TOKENS_BYTES_MAX, &list->text, size);
    list->text = strdup(list->path);
    *size = strlen(list->path);
    if (list->text)
        return EXIT_DONE;
    complain("%s: out of memory", list->option);
    return EXIT_MEMORY;
}

static int view_read_tokens(token_list *list)
{
    size_t size;
    if (!list->path)
        return EXIT_DONE;
    int code = view_read_text(list, &size);
    if (code != EXIT_DONE)
        return code;
    if (memchr(list->text, 0, size)) {
        complain("%s %s: contains a NUL byte, expected text, one token per line", list->option,
                 list->path);
        return EXIT_INPUT;
    }
    const char *newline = strchr(list->text, '\n');
    const char *ends = newline && newline[1] && !list->words ? "\n" : " \t\r\n";
    bool lines = *ends == '\n';
    for (char *at = list->text; *at && code == EXIT_DONE;) {
        size_t length = strcspn(at, ends);
        char *next = at + length + (at[length] != 0);
        at[length] = 0;
        if (lines && length && at[length - 1] == '\r')
            at[length - 1] = 0;
        if (lines || length)
            code = view_add_token(list, at);
        at = next;
    }
    return code;
}

// ---- weights ------------------------------------------------------------------------------------

static int check_tokens(const view *v, const token_list *list, const char *what, size_t expected)
{
    if (!list->path || list->count == expected)
        return EXIT_DONE;
    if (list->words)
        return array_complain(&v->weights, "has %zu %s, but %s '%s' is no file and has %zu %s",
                              expected, what, list->option, list->path, list->count,
                              plural(list->count, "word", "words"));
    return array_complain(&v->weights, "has %zu %s, but %s %s has %zu %s", expected, what,
                          list->option, list->path, list->count,
                          plural(list->count, "token", "tokens"));
}

// One sequence of (layers, batch, heads, queries, keys).
static int take_sequence(view *v)
{
    mh_tensor *t = &v->weights.tensor;
    const size_t batch = t->shape[1];
    if (batch == 0)
        return array_complain(&v->weights, "expected no dimension of size 0");
    if (v->sequence < 0 && batch > 1)
        return array_complain(&v->weights,
                              "(layers, batch, heads, queries, keys) of %zu sequences, "
                              "expected --sequence N, the one to show",
                              batch);
    if (v->sequence >= (ptrdiff_t)batch)
        return array_complain(&v->weights, "--sequence: found %td, expected 0 to %zu", v->sequence,
                              batch - 1);
    *t = mh_tensor_slice(*t, 1, v->sequence < 0 ? 0 : (size_t)v->sequence, 1);
    for (int d = 1; d < 4; d++) {
        t->shape[d] = t->shape[d + 1];
        t->stride[d] = t->stride[d + 1];
    }
    t->rank = 4;
    v->sequence = -1;
    return EXIT_DONE;
}

// Makes the weights (layers or batch, heads, queries, keys).
static int arrange_weights(view *v)
{
    const int rank = v->weights.tensor.rank;
    if (rank < 2 || rank > 5)
        return array_complain(&v->weights,
                              "expected (batch, heads, queries, keys), of which the first one or "
                              "two may be missing, or (layers, batch, heads, queries, keys)");
    if (!array_is_float(&v->weights))
        return array_complain(&v->weights, "expected a float array");
    if (v->axes != AXES_NONE && rank != 4)
        return array_complain(&v->weights, "--axes is for 4 dimensions");
    if (rank == 5)
        return take_sequence(v);
    array_extend(&v->weights, 4);
    v->trace.groups[MH_TRACE_ATTENTION].sequences = rank == 4 && v->axes != AXES_LAYERS;
    return EXIT_DONE;
}

static int read_weights(view *v)
{
    mh_trace_group *group = &v->trace.groups[MH_TRACE_ATTENTION];
    int code = array_open(v->context, &v->weights);
    if (code == EXIT_DONE)
        code = arrange_weights(v);
    if (code != EXIT_DONE)
        return code;
    group->weights = v->weights.tensor;
    const size_t *shape = group->weights.shape;
    code = check_tokens(v, &v->tokens, shape[2] == 1 ? "query" : "queries", shape[2]);
    if (code == EXIT_DONE && !v->key_tokens.path && v->tokens.path && shape[2] != shape[3])
        return array_complain(&v->weights,
                              "has %zu queries and %zu keys, expected --key-tokens "
                              "for the keys",
                              shape[2], shape[3]);
    if (code == EXIT_DONE)
        code = check_tokens(v, &v->key_tokens, shape[3] == 1 ? "key" : "keys", shape[3]);
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
    int code = view_read_tokens(&v->tokens);
    if (code == EXIT_DONE)
        code = view_read_tokens(&v->key_tokens);
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

// --sequence and --layer both choose along the first dimension, whichever it is.
static int check_first(view *v)
{
    const bool sequences = v->trace.groups[MH_TRACE_ATTENTION].sequences;
    if (v->sequence >= 0 && !sequences) {
        complain("--sequence: there is no batch, expected weights (batch, heads, queries, keys) or "
                 "(layers, batch, heads, queries, keys)");
        return EXIT_USAGE;
    }
    if (v->options.layer >= 0 && sequences) {
        complain("--layer: the first dimension is the batch, expected --sequence, or --axes "
                 "layers,heads if it is the layers");
        return EXIT_USAGE;
    }
    if (sequences)
        v->options.layer = v->sequence;
    return EXIT_DONE;
}

int view_read_inputs(view *v)
{
    v->trace = mh_trace_default();
    int code = v->trace_path ? read_trace(v) : read_weights_and_tokens(v);
    if (code == EXIT_DONE)
        code = check_first(v);
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
