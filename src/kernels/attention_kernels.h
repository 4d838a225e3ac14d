// SPDX-License-Identifier: MIT
// Attention over tiles of keys: scores, the online softmax, its backward, and short sequences.
#ifndef MH_ATTENTION_KERNELS_H
#define MH_ATTENTION_KERNELS_H

#include "kernels/gemm_kernels.h"

// Query rows of a call on the short-sequence path; and mh_attention_kernels.panel where it is all
// columns.
enum { MH_SHORT_ROWS = 12, MH_WHOLE_ROWS = 1 << 16 };

// How raw products x become the scores y of one query over the keys of one tile:
//     y = scale * x;  y = cap * tanh(y / cap) if cap > 0;  y += bias_j if bias;
//     y -= slope * |distance - j| if slope != 0;  y = -inf where live has a 0.
typedef struct mh_score_map {
    float scale;
    float cap;
    const float *bias;     // (64) or NULL
    float slope, distance; // distance: the query's position minus that of the tile's first key
    uint64_t live;
} mh_score_map;

// One step of the online softmax. For each of m rows, with t = scale * s over n keys (rounded up to
// whole vectors; the excess counts as masked, whatever it holds):
//     if some t > max + 8: sum and acc are multiplied by exp(max - new), max = new = max t;
//     s = exp(t - max);  sum += s, lane by lane.
// max is thus not always the largest score, but exp(t - max) < 3000. After the first tile it rarely
// changes, which avoids most rescaling. Initially max = -inf, sum = 0, acc = 0. A NaN score makes
// sum NaN.
typedef struct mh_softmax_step {
    size_t m, n;
    float scale;
    float *s;         // (m, 64): scores, then weights
    float *max, *sum; // (m), (m, lanes)
    float *acc;       // (m, width), row stride ldacc
    size_t width;     // in whole vectors
    size_t ldacc;
} mh_softmax_step;

// One online softmax step of the MMA path over a tile of keys: as softmax_step, for scale > 0, but
//   - the weights become the next 64 columns of an A operand, 0 from n on;
//   - if max grows, the weights in the preceding columns are rescaled instead of acc, as they are
//     not multiplied with the values yet;
//   - with dropout, sum takes the weights before they are dropped or multiplied by keep_scale.
typedef struct mh_softmax_tile {
    size_t m, n;
    float scale;
    const float *scores; // (m, 64)
    float *max, *sum;    // (m), (m, lanes)
    void *weights;       // (m, 64) of an A operand with `columns` columns
    size_t columns;
    size_t before;        // preceding columns, rescaled if max grows
    const uint64_t *keep; // (m), or NULL: no dropout
    float keep_scale;
} mh_softmax_tile;

// Softmax backward for m rows of a tile, with t = scale * s and g the gradient of a weight after
// dropout:
//     p = exp(t - lse);  w = p * keep_scale, g = g * keep_scale where keep has a 1, else 0;
//     s = w;  g = p * (g - delta);  both 0 where live has a 0.
typedef struct mh_grad_map {
    float scale;
    const float *lse, *delta; // (m), (m): delta = sum_j w_j g_j of a row
    const uint64_t *live;     // (m)
    const uint64_t *keep;     // (m), or NULL: no dropout
    float keep_scale;
} mh_grad_map;

typedef struct mh_attention_kernels {
    // FMA path of attention: query rows that go through the scores, softmax and values of a key
    // tile together, so that each of these stays in the L1 meanwhile; and query rows that are
    // processed per tile before the next tile.
    size_t query_rows, row_group;

    // Columns of a B operand to store contiguously where it is read from memory once (KV cache), a
    // multiple of 16: those of a register tile, or all (MH_WHOLE_ROWS).
    size_t panel;

    // Raw products to scores, in place, for the n keys of a tile, rounded up to whole vectors; see
    // mh_score_map.
    void (*score_row)(const mh_score_map *map, size_t n, float *x);

    // One step of the online softmax; see mh_softmax_step.
    void (*softmax_step)(const mh_softmax_step *step);

    // Merges the state of later keys (max_b, sum_b, acc_b) into a row's state.
    void (*softmax_merge)(size_t width, float *max, float *sum, float *acc, float max_b,
                          const float *sum_b, const float *acc_b);

    // Reduces the lanes of a sum, in one fixed order.
    float (*sum_lanes)(const float *sum);

    // Scores to weights, y = exp(x - max) / sum for n entries. y may be x.
    void (*softmax_weights)(size_t n, const float *x, float max, float sum, float *y);

    // Attention weights written as A operands of the bf16 product; NULL: use softmax_step.
    void (*softmax_tile)(const mh_softmax_tile *step);

    // bf16.gemm interleaved with a softmax_tile of other scores. Neither depends on the other, so
    // that the matrix engine and the vector units work at the same time. No accumulation.
    void (*gemm_softmax)(const mh_gemm_args *args, const mh_softmax_tile *step);

    // Softmax backward over n keys of a tile, rounded up to whole vectors, for m rows of stride ld;
    // see mh_grad_map.
    void (*softmax_grad)(const mh_grad_map *map, size_t m, size_t n, float *s, float *g, size_t ld);

    // y = 1 - tanh(scale * x / cap)^2, the derivative of the softcap, over n keys of a tile,
    // rounded up to whole vectors; 0 where bit j of `live` is not set, whatever x holds there.
    void (*softcap_slope)(size_t n, float scale, float cap, uint64_t live, const float *x,
                          float *y);

    // Products of the short-sequence path, m <= MH_SHORT_ROWS, bitwise identical to f32.gemm; no
    // accumulation. short_outputs also multiplies each row by its factor, as scale_row does.
    void (*short_scores)(const mh_gemm_args *args);
    void (*short_outputs)(const mh_gemm_args *args, const float *factors);

    // softmax_step for m <= MH_SHORT_ROWS, n <= 16, from max = -inf and sum = 0, followed by
    // sum_lanes; bitwise identical to these. s (m x 64), max (m), sum (m).
    void (*short_softmax)(size_t m, size_t n, float scale, float *s, float *max, float *sum);
} mh_attention_kernels;

#endif
