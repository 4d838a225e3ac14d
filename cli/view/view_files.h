// SPDX-License-Identifier: MIT
// What heads attend to, as files: a page, a trace.
#ifndef CLI_VIEW_FILES_H
#define CLI_VIEW_FILES_H

#include "outputs.h"

#include <multihead/view.h>

// Ends the program if the extension of a page is that of another kind of file.
void view_files_check(struct argp_state *state, const output *page);

// Writes those of the two that have a path. Returns an exit code after reporting errors.
int view_files_save(mh_context *context, const mh_view_options *options, const mh_trace *trace,
                    const output *page, const output *trace_out);

#endif
