// SPDX-License-Identifier: MIT
// One random call of mh_attention_forward, and of mh_attention_backward if that is wanted: shapes,
// layouts, dtypes, options and data, all from one seed, so that a failing case can be run again
// from the number that was printed.
//
// Sizes are chosen to cross what an implementation is likely to block by: tiles of 64 keys,
// chunks of 512, vectors of 4..16 numbers; and to be cheap enough for thousands of cases.
#ifndef MH_TESTS_ATTENTION_CASE_H
#define MH_TESTS_ATTENTION_CASE_H

#include "support.h"

enum { CASE_SEQUENCES = 6, CASE_HEADS = 32, CASE_MASKS = 3, CASE_ROWS = 8 };

typedef struct attention_case {
    uint64_t seed;
    test_rng rng;
    size_t B, H, G, T, S, E, Ev; // T, S: of q and k, all packed sequences together
    size_t N, T_max, S_max;      // sequences or batch elements, and the longest of them
    mh_attention_options options;

    test_tensor q, k, v, query_documents, key_documents, mask[CASE_MASKS]; // inputs
    test_tensor out, lse, weights;                                         // outputs
    mh_mask masks[CASE_MASKS];
    int64_t query_starts[CASE_SEQUENCES + 1], key_starts[CASE_SEQUENCES + 1];
    int64_t prefix_lengths[CASE_SEQUENCES], key_lengths[CASE_SEQUENCES];
    float slopes[CASE_HEADS], sinks[CASE_HEADS];
    size_t weights_heads[CASE_HEADS], weights_rows[CASE_ROWS];

    test_tensor dout;                                  // input of backward
    test_tensor dq, dk, dv, dsinks, dmask[CASE_MASKS]; // its outputs; no bytes: not wanted
    const mh_tensor *dmasks[CASE_MASKS];
    mh_attention_gradients gradients;
} attention_case;

// Makes the case of this seed in place: options point into the struct, don't move it.
void attention_case_create(attention_case *c, uint64_t seed);

// The same with lse and with gradients to compute, any of which may be missing; no more than
// `work` multiplications in forward.
void attention_case_create_backward(attention_case *c, uint64_t seed, size_t work);
void attention_case_free(attention_case *c);

// One line: seed, shapes, options. Returns text.
char *attention_case_describe(const attention_case *c, char *text, size_t size);

#endif
