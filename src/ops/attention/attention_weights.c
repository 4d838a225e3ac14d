// SPDX-License-Identifier: MIT
// The weights output: a second pass, which recomputes the scores tile by tile, as they were never
// stored. The first pass left each row's maximum and sum, so a weight costs one exponential and one
// division; the attention output is not touched.
#include "base/size_math.h"
#include "ops/attention/attention_internal.h"
#include "ops/row_io.h"
#include <math.h>
#include <string.h>

// Some rows of the weights output, for one head or for the average of all chosen ones.
typedef struct output_rows {
    mh_sequence sequence;
    size_t slot;         // dimension 1 of the output
    size_t first, count; // rows of dimension 2
} output_rows;

static size_t chosen_head(const mh_attention_desc *p, size_t i)
{
    return p->options.weights_heads ? p->options.weights_heads[i] : i;
}

static size_t chosen_row(const mh_attention_desc *p, size_t i)
{
    return p->options.weights_rows ? p->options.weights_rows[i] : i;
}

// The output where there is no live key: beyond the end of a sequence, and where masked.
static float dead_value(const mh_attention_desc *p)
{
    return p->options.weights_stage == MH_WEIGHTS_BIASED ? -INFINITY : 0;
}

static void write_row(const mh_attention_job *job, const output_rows *part, size_t row, size_t key,
                      size_t count, const float *values)
{
    const mh_tensor *t = job->desc->options.weights;
    const size_t at[4] = {part->sequence.index, part->slot, part->first + row, key};
    mh_row_write(job->kernels, t->dtype, (void *)mh_element(t, 4, at), t->stride[3], count, values);
}

// Converts a row of Q K^T to the requested stage.
static void show_stage(const mh_attention_job *job, const mh_sequence *sequence,
                       const mh_query_row *row, size_t tile, uint64_t live, const float *bias,
                       float *x)
{
    const mh_attention_desc *p = job->desc;
    const mh_weights_stage stage = p->options.weights_stage;
    mh_score_map map = mh_attention_score_map(job, sequence, row, tile, live, bias);
    if (stage == MH_WEIGHTS_SCALED || stage == MH_WEIGHTS_CAPPED)
        map.bias = NULL, map.slope = 0, map.live = ~UINT64_C(0);
    if (stage == MH_WEIGHTS_SCALED)
        map.cap = 0;
    job->kernels->attention.score_row(&map, MH_KEY_TILE, x);
    if (stage != MH_WEIGHTS_SOFTMAX)
        return;

    const mh_row_stats stats = job->stats[(sequence->index * p->H + row->head) * p->T + row->query];
    job->kernels->attention.softmax_weights(MH_KEY_TILE, x, stats.max, stats.sum, x);
    bool keep_nan = stats.empty && p->options.empty_row == MH_EMPTY_ROW_NAN;
    if (p->options.weights_dropped && p->options.dropout > 0 && !keep_nan)
        job->kernels->elementwise.dropout_row(mh_attention_keep(job, sequence, row, tile),
                                              job->keep_scale, MH_KEY_TILE, x, x);
    if (!isfinite(stats.max) || !isfinite(stats.sum))
        for (size_t j = 0; j < MH_KEY_TILE; j++)
            x[j] = live >> j & 1 || keep_nan ? x[j] : 0; // a dead key's weight is 0, never NaN
}

// Q K^T of a row block with `count` keys of a tile, 0 beyond them; all 0 if `keys` is NULL, as none
// would be shown.
static void attention_weights_gemm_row_block(const mh_attention_job *job, size_t first, size_t rows,
                                             size_t tile, size_t count, const mh_panels *keys,
                                             mh_attention_scratch *scratch)
{
    const mh_a_operand queries = mh_a_from_row(job->gemm, scratch->queries, first);
    const size_t columns = mh_round_up(count, job->kernels->lanes);
    memset(scratch->scores, 0, job->mr * MH_KEY_TILE * sizeof(float));
    if (keys)
        mh_attention_gemm_keys(job, tile, rows, columns, queries, keys, scratch->scores);
    for (size_t r = 0; keys && r < rows; r++)
        memset(scratch->scores + r * MH_KEY_TILE + count, 0, (columns - count) * sizeof(float));
}

// The keys of a tile as f32, in `memory` or where they are.
static mh_panels load_keys(const mh_attention_job *job, const mh_sequence *sequence, size_t group,
                           size_t tile, size_t count, mh_kv_reading reading, float *memory,
                           mh_attention_scratch *scratch)
{
    const mh_attention_desc *p = job->desc;
    if (p->cache)
        return mh_kv_cache_tile(p->cache, job->kernels, sequence->index, group, tile, reading,
                                memory, scratch->values_f32)
            .keys;
    mh_attention_load_keys(job, sequence, group, tile, count, memory, scratch);
    return (mh_panels){memory, p->E, MH_KEY_TILE, MH_KEY_TILE};
}

// The keys of a tile as a B operand: one packed panel, or panels of f32.
static mh_panels pack_keys(const mh_attention_job *job, const mh_sequence *sequence, size_t group,
                           size_t tile, size_t count, mh_attention_scratch *scratch)
{
    const bool has_layout = job->gemm->pack_b;
    float *memory = mh_b_source(job->gemm, scratch->keys[0], scratch->keys_f32);
    const mh_panels keys = load_keys(job, sequence, group, tile, count,
                                     has_layout ? MH_KV_ROWS : MH_KV_F32, memory, scratch);
    if (!has_layout)
        return keys;
    const size_t E = job->desc->E;
    const mh_pack_source rows = {.data = keys.data, .stride = (ptrdiff_t)keys.columns};
    job->gemm->pack_b(E, mh_round_up(count, job->kernels->lanes), &rows, scratch->keys[0],
                      MH_KEY_TILE);
    return (mh_panels){scratch->keys[0], E, MH_KEY_TILE, MH_KEY_TILE};
}

// Whether the MMA path left a row of this tile to the FMA path (find_few in attention_mma.c).
static bool took_fma(const mh_attention_job *job, const mh_sequence *sequence,
                     const mh_query_row *row, size_t tile, uint64_t live)
{
    if (!job->mma || live == 0 || live >> MH_SHORT_KEYS)
        return false;
    const size_t begin = tile / MH_KV_SPLIT * MH_KV_SPLIT;
    uint64_t other;
    float bias[MH_KEY_TILE]; // not used: that of this tile is in scratch->bias
    for (size_t at = begin; at < begin + MH_KV_SPLIT; at += MH_KEY_TILE)
        if (at != tile && mh_mask_tile(job->desc, job->kernels, sequence, row, 1, at, &other, bias))
            return false;
    return true;
}

// Replaces Q K^T of the rows of a block that took the FMA path, whose operands were not rounded to
// bf16: with other scores their weights would not sum to 1.
static void recompute_fma_rows(const mh_attention_job *job, const output_rows *part, size_t first,
                               size_t rows, size_t tile, size_t count, const uint64_t *live,
                               mh_attention_scratch *scratch)
{
    const size_t E = job->desc->E, columns = mh_round_up(count, job->kernels->lanes);
    mh_panels keys = {0};
    for (size_t r = 0; r < rows; r++) {
        const mh_query_row *row = &scratch->rows[first + r];
        float *scores = scratch->scores + r * MH_KEY_TILE;
        if (!took_fma(job, &part->sequence, row, tile, live[r]))
            continue;
        if (!keys.data)
            keys = load_keys(job, &part->sequence, row->head / job->desc->heads_per_group, tile,
                             count, MH_KV_F32, scratch->keys_f32, scratch);
        mh_attention_gemm_keys_f32(job, tile, 1, columns,
                                   (mh_a_operand){scratch->staged + (first + r) * E, (ptrdiff_t)E},
                                   &keys, scores);
        memset(scores + count, 0, (columns - count) * sizeof(float));
    }
}

// The number of keys of a tile that are stored: a cache has only the length of a sequence.
static size_t keys_there(const mh_attention_desc *p, const mh_sequence *sequence, size_t tile)
{
    const size_t end = p->cache ? sequence->keys : sequence->S;
    return tile < end ? mh_smaller(end - tile, MH_KEY_TILE) : 0;
}

// The output rows of one head over one tile; with an average, summed in scratch->average.
static void weigh_tile(const mh_attention_job *job, const output_rows *part, size_t head,
                       size_t tile, size_t count, mh_attention_scratch *scratch)
{
    const mh_attention_desc *p = job->desc;
    const mh_weights_stage stage = p->options.weights_stage;
    const bool shows_dead = stage == MH_WEIGHTS_SCALED || stage == MH_WEIGHTS_CAPPED;
    const size_t there = keys_there(p, &part->sequence, tile);
    mh_panels keys = {0}; // packed when a row block first needs them
    for (size_t first = 0; first < part->count; first += job->mr) {
        size_t rows = part->count - first < job->mr ? part->count - first : job->mr;
        uint64_t live[MH_MAX_ROW_BLOCK];
        uint64_t any = mh_mask_tile(p, job->kernels, &part->sequence, scratch->rows + first, rows,
                                    tile, live, scratch->bias);
        const bool needed = there && (any || shows_dead);
        if (needed && !keys.data)
            keys = pack_keys(job, &part->sequence, head / p->heads_per_group, tile, there, scratch);
        attention_weights_gemm_row_block(job, first, rows, tile, there, needed ? &keys : NULL,
                                         scratch);
        if (any)
            recompute_fma_rows(job, part, first, rows, tile, there, live, scratch);
        for (size_t r = 0; r < rows; r++) {
            if (scratch->rows[first + r].query >= part->sequence.T)
                continue; // this sequence of a packed batch has no such row
            float *scores = scratch->scores + r * MH_KEY_TILE;
            show_stage(job, &part->sequence, &scratch->rows[first + r], tile, live[r],
                       scratch->bias + r * MH_KEY_TILE, scores);
            if (!scratch->average)
                write_row(job, part, first + r, tile, count, scores);
            else
                job->kernels->elementwise.add_row(count, scores,
                                                  scratch->average + (first + r) * MH_KEY_TILE);
        }
    }
}

static void load_head(const mh_attention_job *job, const output_rows *part, size_t head,
                      mh_attention_scratch *scratch)
{
    const mh_attention_desc *p = job->desc;
    for (size_t r = 0; r < part->count; r++) {
        size_t query = chosen_row(p, part->first + r);
        mh_query_row *row = &scratch->rows[r];
        *row = (mh_query_row){.head = head, .query = query};
        memset(scratch->staged + r * p->E, 0, p->E * sizeof(float));
        if (query >= part->sequence.T)
            continue;
        mh_attention_interval(p, &part->sequence, query, &row->interval);
        mh_attention_load_queries(job, &part->sequence, head, query, 1, scratch->staged + r * p->E);
    }
    scratch->queries = mh_a_pack(job->gemm, part->count, p->E, scratch->staged, (ptrdiff_t)p->E,
                                 scratch->packed_queries);
}

static void average_tile(const mh_attention_job *job, const output_rows *part, size_t tile,
                         size_t count, mh_attention_scratch *scratch)
{
    const size_t heads = job->desc->weight_heads;
    memset(scratch->average, 0, part->count * MH_KEY_TILE * sizeof(float));
    for (size_t i = 0; i < heads; i++) {
        size_t head = chosen_head(job->desc, i);
        load_head(job, part, head, scratch);
        weigh_tile(job, part, head, tile, count, scratch);
    }
    for (size_t r = 0; r < part->count; r++) {
        float *row = scratch->average + r * MH_KEY_TILE;
        for (size_t j = 0; j < count; j++)
            row[j] /= (float)heads;
        write_row(job, part, r, tile, count, row);
    }
}

// Fills rows and keys of the output that a short sequence of a packed batch lacks.
static void write_dead(const mh_attention_job *job, const output_rows *part)
{
    const mh_attention_desc *p = job->desc;
    float values[MH_KEY_TILE];
    for (size_t j = 0; j < MH_KEY_TILE; j++)
        values[j] = dead_value(p);
    for (size_t r = 0; r < part->count; r++) {
        bool exists = chosen_row(p, part->first + r) < part->sequence.T;
        for (size_t key = exists ? part->sequence.S : 0; key < p->S; key += MH_KEY_TILE)
            write_row(job, part, r, key, p->S - key < MH_KEY_TILE ? p->S - key : MH_KEY_TILE,
                      values);
    }
}

static void weigh_piece(void *arg, size_t index, size_t worker)
{
    const mh_attention_job *job = arg;
    const mh_attention_desc *p = job->desc;
    mh_attention_scratch *scratch = &job->scratch[worker];
    const size_t blocks = (p->weight_rows + job->block_rows - 1) / job->block_rows;
    const size_t slots = p->options.weights->shape[1];
    output_rows part = {.sequence = mh_attention_sequence(p, index / blocks / slots),
                        .slot = index / blocks % slots,
                        .first = index % blocks * job->block_rows};
    size_t left = p->weight_rows - part.first;
    part.count = left < job->block_rows ? left : job->block_rows;

    mh_gemm_enter(job->gemm);
    if (!scratch->average)
        load_head(job, &part, chosen_head(p, part.slot), scratch);
    for (size_t tile = 0; tile < part.sequence.S; tile += MH_KEY_TILE) {
        size_t keys = part.sequence.S - tile, count = keys < MH_KEY_TILE ? keys : MH_KEY_TILE;
        if (scratch->average)
            average_tile(job, &part, tile, count, scratch);
        else
            weigh_tile(job, &part, chosen_head(p, part.slot), tile, count, scratch);
    }
    mh_gemm_leave(job->gemm);
    write_dead(job, &part);
}

void mh_attention_write_weights(mh_context *context, const mh_attention_job *job)
{
    const mh_attention_desc *p = job->desc;
    const size_t blocks = (p->weight_rows + job->block_rows - 1) / job->block_rows;
    const size_t pieces = p->B * p->options.weights->shape[1] * blocks;
    mh_attention_run(context, job->workers, pieces, weigh_piece, (void *)job);
}
