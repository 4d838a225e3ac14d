// SPDX-License-Identifier: MIT
// Option names, checked before argp parses the command line: an unknown option is rejected with a
// suggestion, and PyTorch's spelling with underscores is accepted.
#ifndef CLI_OPTION_NAMES_H
#define CLI_OPTION_NAMES_H

#include "command.h"

// Ends the program if an option is unknown or ambiguous, lacks its value, or has one that it does
// not take. Underscores in the names of options become hyphens.
void check_option_names(const struct argp *argp, int argc, char **argv);

#endif
