// SPDX-License-Identifier: MIT
// Encoder and decoder layers, stacks and the whole Transformer, naively and in double, forward and
// backward. Inputs are dense and batch first: src (B, S, D), tgt (B, T, D). Proven by central
// differences in test_transformer_gradcheck.
#ifndef MH_TESTS_REF_TRANSFORMER_H
#define MH_TESTS_REF_TRANSFORMER_H

#include "ref/ref_mha.h"

typedef struct ref_transformer {
    const mh_transformer_config *config;
    const mh_transformer_options *options; // masks, causal, dropout, disabled heads; not packed
    ref_parameters parameters;
    size_t B, S, T;

    // Which hidden units were above 0, in order, as a hash: two calls on the same side of all of
    // ReLU's kinks agree in it.
    uint64_t signs;
    double nearest; // how near to 0 the nearest of them was, before the activation
} ref_transformer;

// Encoders: output (B, S, D), tgt NULL. Decoders: output (B, T, D), src is the memory.
void ref_transformer_forward(ref_transformer *t, const double *src, const double *tgt,
                             double *output);

// Writes dsrc and dtgt, adds to the parameters' gradients.
void ref_transformer_backward(ref_transformer *t, const double *src, const double *tgt,
                              const double *doutput, double *dsrc, double *dtgt);

#endif
