// SPDX-License-Identifier: MIT
// `multihead view RUN`: the curve of a training run, in the terminal and as an image.
#ifndef CLI_VIEW_RUN_H
#define CLI_VIEW_RUN_H

#include "view_inputs.h"

// Ends the program if there are options that do not apply to a run.
void view_run_check(struct argp_state *state, const view *v);

// Prints the figures of the run, then writes its image. Returns an exit code after reporting
// errors.
int view_run(view *v);

#endif
