// SPDX-License-Identifier: MIT
// What heads attend to, as files, a page and a trace, and as heatmaps.
#ifndef CLI_VIEW_FILES_H
#define CLI_VIEW_FILES_H

#include "outputs.h"

#include <multihead/view.h>

#include <stdio.h>

// Ends the program if the extension of a page is that of another kind of file.
void view_files_check(struct argp_state *state, const output *page);

// Writes those of the two that have a path. Returns an exit code after reporting errors.
int view_files_save(mh_context *context, const mh_view_options *options, const mh_trace *trace,
                    const output *page, const output *trace_out);

// Prints heatmaps, in colour if `to` is a terminal that has any, of the terminal's width if that of
// the options is 0. Returns an exit code after reporting errors.
int view_heatmaps_print(mh_context *context, const mh_view_options *options, const mh_trace *trace,
                        FILE *to);

#endif
