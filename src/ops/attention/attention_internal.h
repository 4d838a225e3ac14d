// SPDX-License-Identifier: MIT
// How an attention call is divided into tasks, and the data that its parts share.
//
//     for each sequence, key/value head and block of query rows             one task
//         for each KV split of 512 keys                                     packed: L2
//             for each row group of 24 to 96 query rows                     L1
//                 for each tile of 64 keys, for each row block of 6 to 24   registers
//                     scores, mask, softmax step, weighted values
//                 merge the split's state into that of the rows
//
// The result of a row depends on its keys alone: tiles and KV splits are counted from key 0, and
// rows never mix. How many rows share a block, and which thread runs it, does not change a bit.
#ifndef MH_OPS_ATTENTION_INTERNAL_H
#define MH_OPS_ATTENTION_INTERNAL_H

#include "base/arena.h"
#include "base/context.h"
#include "kernels/kernels.h"
#include "ops/cache/kv_internal.h"
#include "ops/gemm/gemm_kernel.h"
#include <math.h>
#include <multihead/attention.h>

// ---- the call descriptor ------------------------------------------------------------------------

// An attention call after its arguments were checked: sizes, defaults and broadcasts resolved.
// Everything downstream relies on it and checks nothing again.

enum { MH_MAX_MASKS = 8 };

typedef struct mh_attention_desc {
    mh_attention_options options; // complete, whatever the caller's struct_size was
    mh_tensor q, k, v, out;
    const mh_kv_cache *cache;    // source of keys and values instead of k and v, or NULL
    size_t value_stride;         // of the cache's tiles
    size_t B, H, G, T, S, E, Ev; // B sequences; T, S: the longest, if packed
    size_t heads_per_group;      // H / G
    float scale;
    mh_mask given_masks[MH_MAX_MASKS]; // options.masks, complete, each in its own shape
    mh_mask masks[MH_MAX_MASKS];       // each broadcast to (B, H, T, S)
    mh_tensor query_documents;         // (B, T), or packed (1, N); only if options has them
    mh_tensor key_documents;           // (B, S)
    bool bf16;                         // GEMMs may round their operands to bf16
    bool additive;                     // some mask is MH_MASK_ADD
    bool elementwise;                  // live keys depend on more than the row's interval
    size_t weight_heads;               // heads and rows of the weights output
    size_t weight_rows;

    // A part of a larger call (ops/sharded/): q and out hold some of its queries and heads, k and v
    // its keys from first_key on. S and the options are those of the whole call.
    bool resumed;                   // keys arrive in pieces, in order: mh_attention_resume
    const size_t *positions;        // (T), of the queries; NULL: 0, 1, ..
    size_t whole_T, whole_H;        // of the whole call
    size_t first_key;               // position of row 0 of k and v
    size_t first_head, head_stride; // head h here is head first_head + h * head_stride
    void (*poll)(void *user);       // called by worker 0 between tasks, or NULL
    void *poll_user;
} mh_attention_desc;

// Position and head of a query in the whole call, as options count them.
static inline size_t mh_whole_position(const mh_attention_desc *desc, size_t query)
{
    return desc->positions ? desc->positions[query] : query;
}
static inline size_t mh_whole_head(const mh_attention_desc *desc, size_t head)
{
    return desc->first_head + head * desc->head_stride;
}

// One sequence of the batch.
typedef struct mh_sequence {
    size_t index;          // b
    size_t batch;          // b, or 0 if packed
    size_t query_begin, T; // its rows of q and out
    size_t key_begin, S;   // its rows of k and v
    size_t first_key;      // its key in row key_begin: 0 unless k and v hold a part of them
    size_t keys;           // valid ones of these: S, or fewer by key_lengths
    int64_t offset;
    int64_t prefix;
} mh_sequence;

// The keys a query may see by causal rule, prefix, window and length: begin <= j < end.
typedef struct mh_interval {
    size_t begin, end;
} mh_interval;

mh_status mh_attention_check(mh_context *context, const mh_attention_options *options,
                             const mh_tensor *q, const mh_tensor *k, const mh_tensor *v,
                             const mh_tensor *out, mh_attention_desc *desc);

// The same for cached keys and values.
mh_status mh_attention_check_cached(mh_context *context, const mh_attention_options *options,
                                    const mh_tensor *q, const mh_kv_cache *cache,
                                    const mh_tensor *out, mh_attention_desc *desc);

// Rejects out, lse and weights of a checked desc that overlap each other or an input.
mh_status mh_attention_check_outputs(mh_context *context, const mh_attention_desc *desc);

mh_sequence mh_attention_sequence(const mh_attention_desc *desc, size_t b);

// The row of k and v in which a sequence's key is.
static inline size_t mh_key_row(const mh_sequence *sequence, size_t key)
{
    return sequence->key_begin + key - sequence->first_key;
}

void mh_attention_interval(const mh_attention_desc *desc, const mh_sequence *sequence, size_t query,
                           mh_interval *interval);

// ---- masks --------------------------------------------------------------------------------------

// Which keys of a tile are live for which queries, as bit masks, and the additive bias.

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
// live for row r; returns the OR of all rows, so 0 means a dead tile. If the desc is additive,
// bias (count, 64) gets the sum of its masks where live[r] is not 0; otherwise it may be NULL.
uint64_t mh_mask_tile(const mh_attention_desc *desc, const mh_kernels *kernels,
                      const mh_sequence *sequence, const mh_query_row *rows, size_t count,
                      size_t tile, uint64_t *live, float *bias);

// ---- the plan and its scratch memory ------------------------------------------------------------

enum { MH_MAX_ROW_BLOCK = 32 };

// Softmax rows between two calls of mh_gemm.keep_warm.
enum { MH_KEEP_WARM_ROWS = 16 };

// Keys of a short sequence, at most. A row whose live keys are all among the first MH_SHORT_KEYS of
// one tile counts as short, too. Results depend on it bitwise.
enum { MH_SHORT_KEYS = 16 };

// In heads wider than this the scores of a sequence's first MH_SHORT_KEYS keys are summed in
// interleaved partial sums (mh_matrix_kernels.gemm_nt), so that short sequences need not transpose
// their keys; results depend on it bitwise, too.
enum { MH_WIDE_HEAD = 128 };

// The online softmax of some rows: o = acc / sum, both relative to exp(max).
typedef struct mh_softmax_state {
    float *max; // (rows)
    float *sum; // (rows, lanes)
    float *acc; // (rows, value_width)
} mh_softmax_state;

// Scratch memory of one worker.
typedef struct mh_attention_scratch {
    void *keys[MH_SPLIT_TILES];   // (E, 64) each: B operands, columns run over keys
    void *values[MH_SPLIT_TILES]; // (64, value_width) each: B operands
    float *keys_f32, *values_f32; // one tile of each before it is packed
    float *clean;                 // (64, value_width): non-finite values with dead rows set to 0
    void *clean_b;                // the same as a B operand
    float *sums;                  // (micro_panel, value_width)
    float *staging;               // (64, max(E, Ev)): rows converted from or to another dtype
    float *scores;                // (2, mr, 64)
    void *weights;                // (mr, split_tiles * 64): softmax of the scores as an A operand
    float *bias;                  // (split_tiles, mr, 64)
    float *staged;                // (block_rows, E): queries that need converting or gathering
    void *packed_queries;         // (block_rows, E)
    size_t count;                 // rows of the current block
    bool packed;                  // whether its queries are packed
    mh_a_operand plain_queries;   // (block_rows, E): staged or the tensor itself, set on first use
    mh_a_operand queries;         // (block_rows, E): the same as an A operand of job->gemm
    float *average;               // (block_rows, 64), for weights averaged over heads, or NULL
    mh_query_row *rows;           // (block_rows)
    bool *seen;                   // (block_rows): whether the row had a live key
    mh_softmax_state total;       // (block_rows)
    mh_softmax_state partial;     // (group_rows): the current KV split, if not the first
} mh_attention_scratch;

// A row's softmax, kept for the weights pass: p = exp(s - max) / sum.
typedef struct mh_row_stats {
    float max, sum;
    bool empty; // no live key
} mh_row_stats;

typedef struct mh_attention_job {
    const mh_attention_desc *desc;
    const mh_kernels *kernels;
    const mh_gemm *gemm;
    bool mma;           // the MMA path: gemm is bf16, and the level has softmax_tile
    size_t mr;          // rows of a row block: gemm->rows
    size_t value_width; // Ev rounded up to whole vectors
    size_t split_tiles; // key tiles of a KV split, or fewer if there are fewer keys
    size_t query_rows;  // rows of a query tile, processed together against a key tile
    size_t group_rows;  // rows of a row group, which stays in L1
    size_t block_rows;  // of a task, at most; a multiple of mr
    size_t blocks;      // per sequence and key/value head, at most
    size_t tasks;
    size_t workers;
    float keep_scale; // 1 / (1 - dropout)
    bool modified;    // softcap, bias or ALiBi: the scores of every tile pass through score_row
    mh_attention_scratch *scratch; // (workers)
    mh_row_stats *stats;           // (B, H, T), or NULL
    mh_softmax_state totals;       // (tasks, block_rows), if keys arrive in pieces
    bool *totals_seen;             // (tasks, block_rows)
    mh_interval piece;             // the keys that desc->k and v hold
    mh_softmax_state parts;        // (tasks, kv_splits, block_rows), if split
    bool *parts_seen;              // (tasks, kv_splits, block_rows)
    size_t kv_splits;              // KV splits of the longest sequence
    bool split_kv;                 // split-KV: each KV split of a block is a task
    bool short_path;               // short-sequence path, see attention_short.c; then:
    size_t share;                  // (sequence, key/value head) pairs per task
    float *short_scratch;          // (workers, mh_attention_short_floats)
} mh_attention_job;

// The query rows of a task: rows first .. first + count - 1 of a sequence and key/value head.
typedef struct mh_attention_block {
    mh_sequence sequence;
    size_t group, first, count;
    mh_interval span; // the keys that they may see, set by mh_attention_number_rows
} mh_attention_block;

// Plans the call for a context. Sets everything but the memory.
void mh_attention_job_plan(const mh_context *context, const mh_attention_desc *desc,
                           mh_attention_job *job);

// The rows of a task, except on the short-sequence path. A short sequence of a packed batch has
// fewer blocks than the longest: count is 0 for those it lacks.
mh_attention_block mh_attention_block_at(const mh_attention_job *job, size_t task);

// Fills in rows (count) from row `first` on. Rows are numbered across the heads that share
// a key/value head: row = head * T + query. Returns the union of the keys that they may see.
mh_interval mh_attention_number_rows(const mh_attention_job *job, const mh_sequence *sequence,
                                     size_t group, size_t first, size_t count, mh_query_row *rows);

// Lays out the memory; see arena.h for the two passes.
void mh_attention_job_layout(mh_attention_job *job, mh_arena *arena);

// task(arg, i, worker) for i in 0..count-1: on the context's threads, or on the calling thread if
// only one worker was planned, as for small jobs.
void mh_attention_run(mh_context *context, size_t workers, size_t count, mh_task_fn task,
                      void *arg);

// After the sizing pass over `arena`: the bytes that a caller has to provide, and the memory itself
// (the caller's or the context's) for the second pass.
mh_status mh_attention_workspace_bytes(mh_context *context, const mh_arena *arena, size_t *bytes);
mh_status mh_attention_take_workspace(mh_context *context, const mh_attention_options *options,
                                      mh_arena *arena);

// Lets a caller of desc->poll advance what it does beside the computation.
static inline void mh_attention_poll(const mh_attention_job *job, size_t worker)
{
    if (worker == 0 && job->desc->poll)
        job->desc->poll(job->desc->poll_user);
}

// Forward of a checked desc, and the sizing pass over its memory.
mh_status mh_attention_forward_desc(mh_context *context, const mh_attention_desc *desc);
void mh_attention_forward_measure(const mh_context *context, const mh_attention_desc *desc,
                                  mh_arena *arena);

// The same with keys that arrive in pieces of whole KV splits, in key order (desc->resumed): begin,
// then resume with each piece, keys job->piece of the sequences, and finish, which writes out and
// lse. The bits are those of one call with all keys, as KV splits are merged in the same order.
void mh_attention_begin(const mh_attention_job *job);
void mh_attention_resume(mh_context *context, const mh_attention_job *job);
void mh_attention_finish(mh_context *context, const mh_attention_job *job);

// Whether a desc can take the short-sequence path, and a task of it. The T queries of a head are
// divided into as few tiles of at most MH_SHORT_ROWS as possible.
bool mh_attention_is_short(const mh_attention_desc *desc);
static inline size_t mh_attention_short_tiles(size_t T)
{
    return (T + MH_SHORT_ROWS - 1) / MH_SHORT_ROWS;
}
size_t mh_attention_short_floats(const mh_attention_job *job); // of scratch per worker
void mh_attention_short(void *job, size_t task, size_t worker);

// Reduces the per-lane sums of some rows (rows, lanes) and, if the caller wants lse, takes their
// logarithms: many at a time, as one costs as much as a vector of them.
void mh_attention_sums(const mh_attention_job *job, size_t rows, const float *lanes, float *sums,
                       float *logs);

// log(sum exp(s)) of a row.
static inline float mh_attention_lse(float max, float sum, float log_sum)
{
    return sum == 0 ? -INFINITY : max + log_sum;
}

// `count` queries of a sequence and head, as f32, into to (count, E).
void mh_attention_load_queries(const mh_attention_job *job, const mh_sequence *sequence,
                               size_t head, size_t query, size_t count, float *to);

// The keys of a tile of `count` keys of a sequence and key/value head, as f32 (E, 64).
void mh_attention_load_keys(const mh_attention_job *job, const mh_sequence *sequence, size_t group,
                            size_t tile, size_t count, float *to, mh_attention_scratch *scratch);

// Whether scores in the tile at `begin` are summed in interleaved partial sums.
static inline bool mh_attention_is_interleaved(const mh_attention_desc *desc, size_t begin)
{
    return desc->E > MH_WIDE_HEAD && begin == 0;
}

// Scores (m, 64) of m queries with those keys of the tile at `begin` that use interleaved partial
// sums: the first MH_SHORT_KEYS of its n columns, or none. Returns how many. Keys are panels of
// f32.
size_t mh_attention_gemm_interleaved(const mh_attention_job *job, size_t begin, size_t m, size_t n,
                                     mh_a_operand queries, const mh_panels *keys, float *scores);

// Q K^T for all n keys in f32, with forward's summation order. Keys are panels of f32.
void mh_attention_gemm_keys_f32(const mh_attention_job *job, size_t begin, size_t m, size_t n,
                                mh_a_operand queries, const mh_panels *keys, float *scores);

// The same with operands of job->gemm: keys are one packed panel, or panels of f32.
void mh_attention_gemm_keys(const mh_attention_job *job, size_t begin, size_t m, size_t n,
                            mh_a_operand queries, const mh_panels *keys, float *scores);

// The map from Q K^T to scores for one row of a tile.
mh_score_map mh_attention_score_map(const mh_attention_job *job, const mh_sequence *sequence,
                                    const mh_query_row *row, size_t tile, uint64_t live,
                                    const float *bias);

// The dropout mask of a row's weights for the 64 keys from `tile` on.
uint64_t mh_attention_keep(const mh_attention_job *job, const mh_sequence *sequence,
                           const mh_query_row *row, size_t tile);

// The second pass: writes the weights output from the rows' statistics.
void mh_attention_write_weights(mh_context *context, const mh_attention_job *job);

// ---- row blocks and key tiles -------------------------------------------------------------------

// Attention of some query rows over one KV split. The FMA path goes tile by tile (attention_fma.c),
// the MMA path computes the scores of all tiles of the split before the values (attention_mma.c).

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
typedef struct mh_row_block {
    const mh_sequence *sequence;
    size_t first, rows;
    mh_softmax_state state; // of row `first`
} mh_row_block;

// The state from row `row` on.
static inline mh_softmax_state mh_state_rows(const mh_attention_job *job,
                                             const mh_softmax_state *state, size_t row)
{
    return (mh_softmax_state){state->max + row, state->sum + row * job->kernels->lanes,
                              state->acc + row * job->value_width};
}

// At most `most` rows of a group, from `row` on.
static inline mh_row_block mh_row_block_from(const mh_attention_job *job,
                                             const mh_row_block *row_group, size_t row, size_t most)
{
    return (mh_row_block){row_group->sequence, row_group->first + row,
                          mh_smaller(row_group->rows - row, most),
                          mh_state_rows(job, &row_group->state, row)};
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
void mh_attend_tile(const mh_attention_job *job, const mh_row_block *row_group,
                    const mh_key_tile *tile, const uint64_t *live, const float *bias,
                    mh_attention_scratch *scratch);

// A row group against all tiles of a KV split; max and sum of its state have been reset. The MMA
// path is for jobs with `mma`.
void mh_attend_fma(const mh_attention_job *job, const mh_row_block *row_group, mh_key_tile *tiles,
                   size_t count, mh_attention_scratch *scratch);
void mh_attend_mma(const mh_attention_job *job, const mh_row_block *row_group, mh_key_tile *tiles,
                   size_t count, mh_attention_scratch *scratch);

#endif
