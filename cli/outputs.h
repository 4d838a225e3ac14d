// SPDX-License-Identifier: MIT
// The outputs of a command: a list of {option, path}, checked when the command line is parsed.
// Arrays have a tensor each and are written when all is computed.
#ifndef CLI_OUTPUTS_H
#define CLI_OUTPUTS_H

#include "command.h"

#include <multihead/io.h>

#define STDOUT_PATH "/dev/stdout" // what "-" stands for

typedef struct output {
    const char *option;
    const char *path; // NULL: not requested
    mh_tensor tensor;
    size_t size; // of tensor.data, for mh_free
} output;

// The path of an output as it is given on the command line.
const char *output_path(const char *argument);

// Ends the program if the extension of an output is that of another format than .npy, such as
// o.csv. Unknown extensions are accepted.
void outputs_check_npy(struct argp_state *state, const output *outputs, int count);

// Ends the program if two outputs are one file, or if one is standard output while `talker` (NULL:
// none), such as an option, prints there.
void outputs_check(struct argp_state *state, const output *outputs, int count, const char *talker);

// Whether they could be written, before a long computation: a directory that is missing, or may not
// be written to. Returns an exit code after reporting the first that could not.
int outputs_writable(const output *outputs, int count);

bool outputs_wanted(const output *outputs, int from, int count);

// Writes the requested outputs, outputs[i] as tensors[i]. Returns an exit code after reporting
// which of them are complete if not all are.
int outputs_save(mh_context *context, const output *outputs, const mh_tensor *tensors, int count);

void outputs_free(mh_context *context, output *outputs, int count);

// DIRECTORY/NAME, to be freed; NULL after reporting lack of memory.
char *join_path(const char *directory, const char *name);

#endif
