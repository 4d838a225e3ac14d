// SPDX-License-Identifier: MIT
// State of `multihead attend`, shared by its files: the options and the control flow are in
// cmd_attend.c, reading and checking the input arrays in attend_inputs.c, memory for the outputs
// and writing them in attend_outputs.c, the computation step by step in attend_trace.c.
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
    mh_dtype dtype;    // to compute in
    int64_t random[4]; // B, H, T, E
    int random_rank;   // 0: from files
    ptrdiff_t token;   // whose values --trace shows; -1: not given
    bool explain, trace, json, dropout, seed;
    bool shapes;    // no other output: print the shapes of output and weights
    int query_rank; // as in q's file: 2, 3 or 4
    mh_context *context;
} attend;

// Opens, checks and converts all given inputs, and puts them into a->options. Returns an exit code
// after reporting errors.
int attend_read_inputs(attend *a);

// Memory for all outputs that were requested or that computing them needs.
int attend_allocate_outputs(attend *a);

// The shapes of output and weights, if no other output is requested.
void attend_show_shapes(const attend *a);

// Writes all requested outputs. Returns an exit code after reporting which of them are complete if
// not all are.
int attend_save_outputs(const attend *a);

// Computes everything step by step and shows it; then in one call, which fills the outputs, and
// compares the two.
int attend_trace(attend *a);

#endif
