// SPDX-License-Identifier: MIT
// Stacks of general Transformer blocks, naively and in double, one sequence at a time: what every
// setting of multihead/block.h means. Parameters are found by name. Batches are one call per
// sequence; gradients are central differences in test_block_gradcheck.
#ifndef MH_TESTS_REF_BLOCK_H
#define MH_TESTS_REF_BLOCK_H

#include <multihead/block.h>

typedef struct ref_stack {
    const mh_stack_config *config;
    const mh_parameters *list; // names and places; its values are not read
    const double *values;      // (floats)
    const char *prefix;        // of names: "", "encoder." or "decoder."
    bool causal;
    const bool *disabled, *cross_disabled; // (layers, H): heads whose result is 0, or NULL
    bool single; // true: every result is rounded to f32, as in plain loops over floats

    double nearest; // set: how near to 0 the nearest argument of a ReLU was
    double score;   // set: the largest |score| of a live key
} ref_stack;

// What a tap shows of one attention: q (H, T, E), k (G, S, E), v (G, S, Ev), weights (H, T, S),
// out, x, sum (T, D).
typedef struct ref_attention_trace {
    double *q, *k, *v, *weights, *out, *x, *sum;
} ref_attention_trace;

typedef struct ref_block_trace {
    ref_attention_trace self, cross;
    double *hidden; // (T, D)
} ref_block_trace;

// out (T, D) = the stack of x (T, D), with memory (S, D) for cross-attention. trace (layers) or
// NULL: its arrays are new.
void ref_stack_forward(ref_stack *stack, size_t T, const double *x, size_t S, const double *memory,
                       double *out, ref_block_trace *trace);
void ref_block_trace_free(ref_block_trace *trace);

// The angle per position of each pair (rope_width/2), and the factor of cosines and sines.
double ref_rope_frequencies(const mh_block_config *config, double *frequencies);

// T5's bucket of a key this far behind (positive) or before the query.
size_t ref_relative_bucket(const mh_block_config *config, int64_t key_minus_query);

// A block's sizes with defaults filled in.
size_t ref_head_dim(const mh_block_config *config);  // E
size_t ref_value_dim(const mh_block_config *config); // Ev
size_t ref_kv_heads(const mh_block_config *config);  // G

#endif
