// SPDX-License-Identifier: MIT
// State of `multihead attend`, shared by its files: the options and the control flow are in
// cmd_attend.c, reading and checking the input arrays in attend_inputs.c, memory for the outputs
// and writing them in attend_outputs.c.
#ifndef CLI_ATTEND_H
#define CLI_ATTEND_H

#include "arguments.h"
#include "arrays.h"
#include "outputs.h"

#include <multihead/attention.h>

enum {
    INPUT_Q,
    INPUT_K,
    INPUT_V,
    INPUT_MASK,
    INPUT_LENGTHS,
    INPUT_SINKS,
    INPUT_GRAD_OUT,
    INPUT_COUNT,
};

enum {
    OUTPUT_OUT,
    OUTPUT_WEIGHTS,
    OUTPUT_LSE,
    OUTPUT_DQ, // from here on: gradients, for which INPUT_GRAD_OUT is given
    OUTPUT_DK,
    OUTPUT_DV,
    OUTPUT_DMASK,
    OUTPUT_DSINKS,
    OUTPUT_COUNT,
};

typedef struct attend {
    common_options common;
    array inputs[INPUT_COUNT]; // q (B,H,T,E), k (B,G,S,E), v (B,G,S,Ev) once they are read
    output outputs[OUTPUT_COUNT];
    mh_attention_options options; // points into this struct
    mh_mask mask;
    mh_dtype dtype; // to compute in
    bool explain, json, dropout, seed;
    int query_rank; // as in q's file: 2, 3 or 4
    mh_context *context;
} attend;

// Opens, checks and converts all given inputs, and puts them into a->options. Returns an exit code
// after reporting errors.
int attend_read_inputs(attend *a);

// Memory for all outputs that were requested or that computing them needs.
int attend_allocate_outputs(attend *a);

// Writes all requested outputs. Returns an exit code after reporting which of them are complete if
// not all are.
int attend_save_outputs(const attend *a);

#endif
