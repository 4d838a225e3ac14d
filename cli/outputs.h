// SPDX-License-Identifier: MIT
// What a command writes: a list of {option, path}, checked when the command line is read. Where
// they are arrays, each has its tensor and is written when all is computed.
#ifndef CLI_OUTPUTS_H
#define CLI_OUTPUTS_H

#include "command.h"

#include <multihead/io.h>

#define STDOUT_PATH "/dev/stdout" // what "-" stands for

typedef struct output {
    const char *option;
    const char *path; // NULL: not asked for
    mh_tensor tensor;
    size_t size; // of tensor.data, for mh_free
} output;

// The path of an output as it is given on the command line.
const char *output_path(const char *argument);

// Ends the program if the name of an output is that of another format than .npy, such as o.csv. A
// name that says nothing about the format is fine.
void outputs_check_npy(struct argp_state *state, const output *outputs, int count);

// Ends the program if two outputs are one file, or if one is standard output while `talker` (NULL:
// none), such as an option, prints there.
void outputs_check(struct argp_state *state, const output *outputs, int count, const char *talker);

bool outputs_wanted(const output *outputs, int from, int count);

// Writes the outputs that were asked for, outputs[i] as tensors[i]. Returns an exit code after
// saying which of them are complete if not all are.
int outputs_save(mh_context *context, const output *outputs, const mh_tensor *tensors, int count);

void outputs_free(mh_context *context, output *outputs, int count);

// FOLDER/NAME, to be freed; NULL after saying that there is no memory.
char *join_path(const char *folder, const char *name);

#endif
