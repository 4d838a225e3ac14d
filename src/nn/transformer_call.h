// SPDX-License-Identifier: MIT
// One call of the Transformer: transformer_check.c fills it from the arguments, transformer.c runs
// it and saves it on the tape, and transformer_grad.c restores it.
#ifndef MH_NN_TRANSFORMER_CALL_H
#define MH_NN_TRANSFORMER_CALL_H

#include "nn/flatten.h"
#include "nn/positions.h"
#include "nn/transformer.h"

// One of the two stacks in a call.
typedef struct mh_stack_run {
    const mh_stack *stack;
    mh_pass pass;
    mh_positions positions;
    mh_tensor x;           // (rows, D): the input
    float *copy;           // of the input, if it is not rows of f32 already
    mh_block_saved *saved; // (count)
    float *mean, *rstd;    // of the final norm
    float *result;         // (rows, D): the encoder's output
    float *dx;             // (rows, D), in backward
    mh_arena backward;     // workspace of a block's backward, shared by all
} mh_stack_run;

typedef struct mh_transformer_run {
    mh_stack_run encoder, decoder;
    bool recompute;
    mh_gradients_ready_fn ready; // of the backward call
    void *ready_user;
} mh_transformer_run;

// Whether a tensor is rows of f32 already.
static inline bool mh_is_plain(const mh_tensor *t) { return t->dtype == MH_F32 && mh_rows_flat(t); }

// A copy of the options, or of the defaults for NULL.
mh_status mh_transformer_check_options(mh_context *context, const mh_transformer *transformer,
                                       const mh_transformer_options *options,
                                       mh_transformer_options *own);

// Checks all arguments against the module and each other; fills in the stacks' passes. `decodes`:
// all of it runs, else the encoder alone. `output` may be the output's gradient.
mh_status mh_transformer_check_call(mh_context *context, const mh_transformer *transformer,
                                    const mh_transformer_options *options, bool decodes,
                                    const mh_tensor *src, const mh_tensor *tgt,
                                    const char *output_name, const mh_tensor *output,
                                    mh_transformer_run *r);

// The input of block i, which is the output of the previous one; the final norm's is input `count`.
mh_tensor mh_stack_input(const mh_stack_run *run, size_t i, size_t D);

#endif
