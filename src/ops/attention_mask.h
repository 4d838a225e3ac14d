// SPDX-License-Identifier: MIT
// Which keys of a tile are live for which queries, as bit masks, and the additive bias.
#ifndef MH_OPS_ATTENTION_MASK_H
#define MH_OPS_ATTENTION_MASK_H

#include "kernels/kernels.h"
#include "ops/attention_problem.h"

// One query of one head: a row of the score matrix.
typedef struct mh_query_row {
    size_t head, query;
    mh_interval interval;
} mh_query_row;

// The number of keys of a tile up to the last one that is live for some row; `any` is not 0.
static inline size_t mh_tile_used(uint64_t any) { return (size_t)(64 - __builtin_clzll(any)); }

// Whether every row of a row block sees all of these keys, so that nothing has to be masked; `all`
// and `any` are the AND and OR of the rows' bits.
static inline bool mh_tile_full(uint64_t all, uint64_t any)
{
    return all == ~UINT64_C(0) >> (64 - mh_tile_used(any));
}

// For `count` rows and the keys tile .. tile + 63: bit j of live[r] is set if key tile + j is
// live for row r; returns the OR of all rows, so 0 means a dead tile. If the problem is additive,
// bias (count, 64) gets the sum of its masks where live[r] is not 0; otherwise it may be NULL.
uint64_t mh_mask_tile(const mh_attention_problem *problem, const mh_kernels *kernels,
                      const mh_sequence *sequence, const mh_query_row *rows, size_t count,
                      size_t tile, uint64_t *live, float *bias);

#endif
