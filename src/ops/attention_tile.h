// SPDX-License-Identifier: MIT
// Attention of some query rows over one KV split. The FMA path goes tile by tile (attention_fma.c),
// the MMA path computes the scores of all tiles of the split before the values (attention_mma.c).
#ifndef MH_OPS_ATTENTION_TILE_H
#define MH_OPS_ATTENTION_TILE_H

#include "ops/attention_job.h"

// A tile of keys and values, and its B operands, which are loaded on first use.
typedef struct mh_key_tile {
    size_t group, begin, count;        // key/value head, first key, number of keys
    void *keys_memory, *values_memory; // for the operands
    mh_panels keys;   // (E, 64, or fewer of a short cache); no data: not packed yet
    mh_panels values; // (64, value_width)
    mh_row_type type; // of both, unless packed; of packed operands only the data is used
    size_t rows;      // of values; further ones, if any, are 0
    bool finite;      // no NaN or inf among the values: 0 * v is 0, no slow path for dead keys
} mh_key_tile;

// Some rows of a block: row `first` and those after it, and their softmax.
typedef struct mh_strip {
    const mh_sequence *sequence;
    size_t first, rows;
    mh_softmax_state state; // of row `first`
} mh_strip;

// The state from row `row` on.
static inline mh_softmax_state mh_state_rows(const mh_attention_job *job,
                                             const mh_softmax_state *state, size_t row)
{
    return (mh_softmax_state){state->max + row, state->sum + row * job->kernels->lanes,
                              state->acc + row * job->value_width};
}

// At most `most` rows of a group, from `row` on.
static inline mh_strip mh_strip_from(const mh_attention_job *job, const mh_strip *group, size_t row,
                                     size_t most)
{
    return (mh_strip){group->sequence, group->first + row, mh_smaller(group->rows - row, most),
                      mh_state_rows(job, &group->state, row)};
}

// The queries of the current block, all rows of one sequence, in place: if they have the given
// dtype, their rows are contiguous, and all belong to one head; else NULL.
mh_a_operand mh_attention_queries_in_place(const mh_attention_job *job, const mh_sequence *sequence,
                                           mh_dtype dtype, const mh_attention_scratch *scratch);

// The same as f32, in place or converted: scratch->plain_queries.
mh_a_operand mh_attention_plain_queries(const mh_attention_job *job, const mh_sequence *sequence,
                                        mh_attention_scratch *scratch);

// Loads keys and values of a tile: in place in the cache, or into the given memory.
void mh_attention_load_tile(const mh_attention_job *job, const mh_sequence *sequence,
                            mh_kv_reading reading, mh_key_tile *tile, float *keys, float *values,
                            mh_attention_scratch *scratch);

// A row group against one tile, whose B operands are f32; live (rows) and bias (rows, 64) are those
// of mh_mask_tile.
void mh_attend_tile(const mh_attention_job *job, const mh_strip *group, const mh_key_tile *tile,
                    const uint64_t *live, const float *bias, mh_attention_scratch *scratch);

// A row group against all tiles of a KV split; max and sum of its state have been reset. The MMA
// path is for levels with job->gemm->softmax_tile.
void mh_attend_fma(const mh_attention_job *job, const mh_strip *group, mh_key_tile *tiles,
                   size_t count, mh_attention_scratch *scratch);
void mh_attend_mma(const mh_attention_job *job, const mh_strip *group, mh_key_tile *tiles,
                   size_t count, mh_attention_scratch *scratch);

#endif
