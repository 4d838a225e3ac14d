// SPDX-License-Identifier: MIT
// What mh_attention_forward computes, naively and in double: the formula, one query row at a
// time, with every step on the way to the result kept. Read ref_attention.c to learn the exact
// meaning of each option.
//
// Packed batches are only another way to find the rows, so that all results are indexed by
// sequence: N is the batch size, or the number of packed sequences; T and S are the lengths of
// q and k, or of the longest sequence.
#ifndef MH_TESTS_REF_ATTENTION_H
#define MH_TESTS_REF_ATTENTION_H

#include <multihead/attention.h>

enum { REF_STAGES = 4 }; // one for each mh_weights_stage

// One batch element, or one packed sequence.
typedef struct ref_sequence {
    size_t batch;                  // where its rows are in q, k, v and out ...
    size_t query_start, key_start; // ... and from which row on
    size_t T, S;                   // its own rows in memory
    int64_t length;                // keys that exist: S, or what key_lengths says
    int64_t offset;                // query i stands at position i + offset among the keys
} ref_sequence;

size_t ref_sequence_count(const mh_attention_options *options, const mh_tensor *q);
ref_sequence ref_sequence_get(const mh_attention_options *options, const mh_tensor *q,
                              const mh_tensor *k, size_t n);

// What dropout multiplies the weight of sequence n, head h, query i, key j with: 1 without
// dropout, else 0 or 1 / (1 - dropout).
double ref_dropout_factor(const mh_attention_options *options, size_t n, size_t h, size_t i,
                          size_t j);

typedef struct ref_attention {
    size_t N, H, T, S, Ev;
    double *out;                 // (N, H, T, Ev)
    double *lse;                 // (N, H, T)
    double *weights[REF_STAGES]; // (N, H, T, S), NULL if not wanted; before dropout
    double *factor;              // (N, H, T, S), as the weights: ref_dropout_factor
    bool *live;                  // (N, H, T, S), as the weights
    // How large an error rounding to f32 on the way may make, to first order; same shapes.
    double *out_error, *lse_error, *weights_error[REF_STAGES];
    uint64_t live_pairs; // over all heads
} ref_attention;

// a . b. Every rounding error in a sum is a step as long as the sum so far: *walk is the root of
// their sum of squares.
double ref_dot(size_t n, const double *a, const double *b, double *walk);

// Takes what mh_attention_forward takes, valid arguments only. Fills `result`, which the caller
// frees with ref_attention_free.
void ref_attention_forward(const mh_attention_options *options, const mh_tensor *q,
                           const mh_tensor *k, const mh_tensor *v, bool want_weights,
                           ref_attention *result);
void ref_attention_free(ref_attention *result);

// One query row of one head on its way through the formula; arrays of `keys` elements.
typedef struct ref_row {
    size_t keys, E;
    bool *live;
    double *stage[REF_STAGES]; // [MH_WEIGHTS_SCALED][j] is the scaled score of key j, and so on
    double *bias_magnitude;    // sum of |bias| over additive masks and ALiBi
    double *dot_walk;          // |scale| sqrt(sum of squares of the partial sums of q . k_j)
    double *factor;            // of dropout
    double *own_error;         // of p_j, but for the error of the sum that all p share
    double lse;
} ref_row;

// The error estimates for that row: error[stage][j] and *lse_error; then for o = sum_j p_j v_j,
// given sum_j own_error_j |v_j| and the square root of the sum of squares of o's partial sums.
void ref_attention_row_error(ref_row *row, const mh_attention_options *options,
                             double *error[REF_STAGES], double *lse_error);
double ref_attention_out_error(const ref_row *row, double weighted_error, double walk, double o);

// How far, relative to itself, an operand of a product may be rounded: 2^-8 if the call may
// compute in bf16, else 0.
double ref_operand_rounding(const mh_attention_options *options, const mh_tensor *q,
                            const mh_tensor *k, const mh_tensor *v);

// The plain f32 loop for one head: q (T, E), k (S, E), v (S, Ev), out (T, Ev), all dense. Only
// the yardstick for errors: what anybody would write first.
void ref_attention_f32(size_t T, size_t S, size_t E, size_t Ev, float scale, const float *q,
                       const float *k, const float *v, float *out);

#endif
