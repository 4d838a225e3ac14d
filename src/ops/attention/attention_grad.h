// SPDX-License-Identifier: MIT
// The backward pass of attention: shared declarations.
//
// Scores are recomputed. For a block of 64 query rows of one head against a tile of 64 keys
// (W weights after dropout, dS gradient of the scores):
//
//     S = Q K^T, W = exp(S - lse)            dP = dO V^T, dS = W (dP - delta)
//     dQ += dS K           dK += dS^T Q          dV += W^T dO
//
// Keys are divided into KV splits of 512. dK and dV of a split belong to one task, which processes
// the rows in order; each split's share of dQ is summed separately, and the shares are added in the
// order of the splits. So the result does not depend on how many tasks process a head.
#ifndef MH_OPS_ATTENTION_GRAD_H
#define MH_OPS_ATTENTION_GRAD_H

#include "ops/attention/attention_internal.h"

enum { MH_GRAD_ROWS = 64 };

// A tile of keys in the three layouts that the GEMMs need, all B operands.
typedef struct mh_attention_grad_tile {
    size_t begin, count;
    float *rows;      // (64, key_width): the keys as f32
    const void *keys; // (64, key_width), for dQ: the same, or packed
    void *packed;     // memory for `keys`, if packed
    void *keys_t;     // (E, 64), for S
    void *values_t;   // (Ev, 64), for dP
    bool finite;      // all keys are: dead ones may be multiplied by 0
} mh_attention_grad_tile;

// A block of query rows of one head.
typedef struct mh_attention_grad_block {
    size_t count;
    mh_query_row rows[MH_GRAD_ROWS];
    float lse[MH_GRAD_ROWS], delta[MH_GRAD_ROWS];
    bool finite_queries, finite_douts;
    mh_a_operand queries, douts;     // for S and dP
    const void *b_queries, *b_douts; // for dK and dV
} mh_attention_grad_block;

typedef struct mh_attention_grad_scratch {
    mh_attention_grad_block block;
    float *queries;                                  // (64, key_width)
    float *douts;                                    // (64, value_width)
    void *a_queries, *a_douts, *b_queries, *b_douts; // packed
    void *packed_a;    // (64, 64): W, dS or one of them transposed, packed
    void *clean_b;     // (64, widest), packed
    float *sums;       // (row block, widest)
    float *unpacked;   // (max(E, Ev), 64): keys or values before they are packed
    float *weights;    // (64, 64): W
    float *scores;     // (64, 64): dS
    float *transposed; // (64, 64): one of them transposed
    float *slope;      // (row block, 64), of the softcap
    float *bias;       // (row block, 64)
    float *dq;         // (64, key_width): this KV split's share for the block
    float *clean;      // (64, widest): an operand without its dead rows
    float *staging;    // (64, widest)
    float *dk, *dv;    // (KV split, key_width), (KV split, value_width)
    mh_attention_grad_tile tiles[MH_SPLIT_TILES];
    uint64_t live[MH_GRAD_ROWS];
    uint64_t any, all; // OR and AND of `live` over the block's rows
} mh_attention_grad_scratch;

typedef struct mh_attention_grad_job {
    mh_attention_job forward; // desc, kernels, widths; its scratch is unused
    mh_attention_gradients gradients;
    mh_tensor dout;
    const mh_tensor *delta; // (B, H, T), or NULL: computed from out and dout
    size_t key_width;       // E rounded up to whole vectors
    bool short_path;        // see mh_attention_short_backward
    size_t workers;
    mh_attention_grad_scratch *scratch; // (workers)
    float *dq_shares;                   // (shares, rows, key_width)
    size_t shares, rows;                // rows: of all heads that share a key/value head
    // If keys or queries arrive in pieces: which KV splits k and v hold, one after the other, and
    // the running sums of their dk and dv.
    const size_t *held; // (held_count)
    size_t held_count;
    float *dk, *dv; // (B, G, held_count, KV split, key_width), .. value_width
} mh_attention_grad_job;

// sum_j w_j g_j of a row, which is its out . dout; 0 without live keys, for any dout.
float mh_attention_grad_delta(const mh_kernels *kernels, size_t n, const float *out,
                              const float *dout);

// The log-sum-exp of a query; inf without live keys, so that all weights are 0.
float mh_attention_grad_lse(const mh_attention_desc *desc, const size_t at[3]);

// rows x n elements, row stride `width`, times `factor`, into rows of a gradient from `at` on;
// staging (n).
void mh_attention_grad_write_rows(const mh_attention_grad_job *job, const mh_tensor *t,
                                  const size_t at[3], size_t rows, size_t n, const float *from,
                                  size_t width, float factor, float *staging);

// A task of the short-sequence path, backward; see attention_short.c.
void mh_attention_short_backward(void *job, size_t task, size_t worker);

// dq, dk and dv by the general path.
void mh_attention_grad_splits(mh_context *context, const mh_attention_grad_job *job);

// Rejects gradients of a checked desc that overlap each other or an input.
mh_status mh_attention_grad_check_overlap(mh_context *context, const mh_attention_desc *desc,
                                          const mh_tensor *dout,
                                          const mh_attention_gradients *gradients);

// Plans a backward call and lays out its memory, as mh_attention_job_plan and _layout.
void mh_attention_grad_plan(const mh_context *context, const mh_attention_desc *desc,
                            const mh_tensor *dout, const mh_attention_gradients *gradients,
                            mh_attention_grad_job *job);
void mh_attention_grad_layout(mh_attention_grad_job *job, mh_arena *arena);

// Backward of a checked desc, and the sizing pass over its memory. delta (B, H, T), or NULL if it
// is to be computed from desc->out, which is not used otherwise.
mh_status mh_attention_backward_desc(mh_context *context, const mh_attention_desc *desc,
                                     const mh_tensor *dout, const mh_tensor *delta,
                                     const mh_attention_gradients *gradients);
void mh_attention_backward_measure(const mh_context *context, const mh_attention_desc *desc,
                                   const mh_tensor *dout, const mh_attention_gradients *gradients,
                                   mh_arena *arena);

// Backward with pieces (desc->resumed), in two passes with a job each. dq: keys arrive in key
// order, keys forward.piece. dk and dv: queries arrive in the order of the heads of a key/value
// head, and of their positions, in pieces of whole blocks of 64. Between begin and finish, which
// writes the gradients, resume takes a piece. The bits are those of one call.
void mh_attention_grad_begin(const mh_attention_grad_job *job);
void mh_attention_grad_resume_keys(mh_context *context, const mh_attention_grad_job *job);
void mh_attention_grad_resume_queries(mh_context *context, const mh_attention_grad_job *job);
void mh_attention_grad_finish(mh_context *context, const mh_attention_grad_job *job);

// Loads rows first .. of a sequence and head into the worker's block.
void mh_attention_grad_load_block(const mh_attention_grad_job *job, const mh_sequence *sequence,
                                  size_t head, size_t first, mh_attention_grad_scratch *scratch);

// Packs the keys and values from `begin` on into one of the worker's tiles.
void mh_attention_grad_pack_tile(const mh_attention_grad_job *job, const mh_sequence *sequence,
                                 size_t group, size_t begin, mh_attention_grad_tile *tile,
                                 mh_attention_grad_scratch *scratch);

// W and dS of the block against a tile, before the softcap's slope if `of_bias`, after it
// otherwise. False if the tile is dead.
bool mh_attention_grad_block_tile(const mh_attention_grad_job *job, const mh_sequence *sequence,
                                  const mh_attention_grad_tile *tile, bool of_bias,
                                  mh_attention_grad_scratch *scratch);

// The gradients of additive masks and sinks, which are sums over whole batches.
void mh_attention_grad_masks(mh_context *context, const mh_attention_grad_job *job);
void mh_attention_grad_sinks(mh_context *context, const mh_attention_grad_job *job);

#endif
