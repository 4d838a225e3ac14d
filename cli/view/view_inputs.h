// SPDX-License-Identifier: MIT
// State of `multihead view`, shared by its files: options and outputs are in cmd_view.c, reading
// weights, tokens and traces in view_inputs.c.
#ifndef CLI_VIEW_INPUTS_H
#define CLI_VIEW_INPUTS_H

#include "arguments.h"
#include "arrays.h"
#include "view_files.h"

// Tokens from a file or, if there is none of that name, the words of the argument itself. The text
// must outlive them.
typedef struct token_list {
    const char *option, *path;
    bool words; // the argument's own
    char *text;
    const char **tokens;
    size_t count;
} token_list;

enum { AXES_NONE, AXES_BATCH, AXES_LAYERS };
enum { FILE_PAGE, FILE_TRACE, FILE_COUNT };
enum { COLOUR_AUTO, COLOUR_ALWAYS, COLOUR_NEVER };

typedef struct view {
    common_options common;
    array weights;
    int axes;           // of weights with 4 dimensions: AXES_NONE ...
    ptrdiff_t sequence; // -1: not given
    token_list tokens, key_tokens;
    const char *trace_path, *title;
    const char *run_directory; // NULL: attention is shown
    output files[FILE_COUNT];
    bool text;
    int colour; // COLOUR_AUTO ...
    mh_view_options options;
    mh_trace_file *trace_file;
    char *trace_bytes; // of a trace that is not mapped
    mh_trace trace;
    mh_context *context;
} view;

// Fills v->trace from --trace, or from --weights and the tokens. Returns an exit code after
// reporting errors.
int view_read_inputs(view *v);
void view_close_inputs(view *v); // may never have been read

#endif
