// SPDX-License-Identifier: MIT
// Attention, backward: dq, dk and dv; attention_grad.h draws how. With enough key/value heads, each
// is one task, which accumulates dQ over its KV splits. With fewer heads than threads, KV splits
// are distributed over the threads in waves, each with a partial dQ, which are then reduced.
#include "ops/attention/attention_grad.h"
#include "base/size_math.h"
#include "ops/row_io.h"
#include <string.h>

// ---- GEMMs --------------------------------------------------------------------------------------

// c (rows x width) += A B. A GEMM may write up to the next multiple of gemm->micro_panel rows,
// where c may hold other data: then the sums go through `sums`.
static void add_row_block(const mh_gemm *gemm, size_t rows, size_t inner, mh_a_operand packed,
                          const void *operand, size_t width, float *c, float *sums)
{
    const bool apart = rows % gemm->micro_panel != 0;
    if (apart)
        memcpy(sums, c, rows * width * sizeof(float));
    gemm->gemm(&(mh_gemm_args){.m = rows,
                               .n = width,
                               .k = inner,
                               .a = packed.data,
                               .lda = packed.stride,
                               .b = operand,
                               .ldb = (ptrdiff_t)width,
                               .c = apart ? sums : c,
                               .ldc = (ptrdiff_t)width,
                               .accumulate = true});
    if (apart)
        memcpy(c, sums, rows * width * sizeof(float));
}

// c += a b as below, where b has NaN or inf in rows that are dead for some row of a: `live` has one
// word per row (or, if `transposed`, per column) of a.
static void add_product_nonfinite(const mh_attention_grad_job *job, size_t rows, size_t inner,
                                  const float *a, const float *b, size_t width, float *c,
                                  const uint64_t *live, bool transposed,
                                  mh_attention_grad_scratch *scratch)
{
    const mh_gemm *gemm = job->forward.gemm;
    float *clean = scratch->clean;
    for (size_t r = 0; r < rows; r++) {
        memcpy(clean, b, inner * width * sizeof(float));
        for (size_t j = 0; j < inner; j++)
            if (!((transposed ? live[j] >> r : live[r] >> j) & 1))
                memset(clean + j * width, 0, width * sizeof(float));
        const void *operand = mh_b_pack(gemm, inner, width, clean, width, scratch->clean_b);
        const mh_a_operand packed =
            mh_a_pack(gemm, 1, inner, a + r * MH_KEY_TILE, MH_KEY_TILE, scratch->packed_a);
        add_row_block(gemm, 1, inner, packed, operand, width, c + r * width, scratch->sums);
    }
}

// c (rows x width) += a (rows x inner, row stride 64) b (inner x width, a B operand).
static void add_product(const mh_attention_grad_job *job, size_t rows, size_t inner, const float *a,
                        const void *b, size_t width, float *c, mh_attention_grad_scratch *scratch)
{
    const mh_gemm *gemm = job->forward.gemm;
    const mh_a_operand packed = mh_a_pack(gemm, rows, inner, a, MH_KEY_TILE, scratch->packed_a);
    for (size_t first = 0; first < rows; first += gemm->rows)
        add_row_block(gemm, mh_smaller(rows - first, gemm->rows), inner,
                      mh_a_from_row(gemm, packed, first), b, width, c + first * width,
                      scratch->sums);
}

static const float *transpose_tile(const mh_attention_grad_job *job, size_t rows, size_t columns,
                                   const float *a, mh_attention_grad_scratch *scratch)
{
    job->forward.kernels->matrix.transpose(rows, columns, a, MH_KEY_TILE, scratch->transposed,
                                           MH_KEY_TILE);
    return scratch->transposed;
}

// c (columns x width) += a^T b, a (inner x columns, row stride 64), b (inner x width, a B operand).
static void add_product_tn(const mh_attention_grad_job *job, size_t columns, size_t inner,
                           const float *a, const void *b, size_t width, float *c,
                           mh_attention_grad_scratch *scratch)
{
    const mh_gemm *gemm = job->forward.gemm;
    mh_a_operand packed = {scratch->packed_a, (ptrdiff_t)mh_round_up(inner, gemm->step)};
    if (gemm->pack_a)
        gemm->pack_a(columns, inner,
                     &(mh_pack_source){.data = a, .stride = MH_KEY_TILE, .transposed = true},
                     scratch->packed_a);
    for (size_t first = 0, rows; first < columns; first += rows) {
        rows = mh_smaller(columns - first, gemm->rows);
        if (gemm->pack_a)
            add_row_block(gemm, rows, inner, mh_a_from_row(gemm, packed, first), b, width,
                          c + first * width, scratch->sums);
        else
            gemm->gemm_tn(&(mh_gemm_args){.m = rows,
                                          .n = width,
                                          .k = inner,
                                          .a = a + first,
                                          .lda = MH_KEY_TILE,
                                          .b = b,
                                          .ldb = (ptrdiff_t)width,
                                          .c = c + first * width,
                                          .ldc = (ptrdiff_t)width,
                                          .accumulate = true});
    }
}

// dQ, dK and dV of the worker's block and one tile, number `index` of its KV split.
static void add_tile(const mh_attention_grad_job *job, const mh_attention_grad_tile *tile,
                     size_t index, mh_attention_grad_scratch *scratch)
{
    const mh_attention_grad_block *block = &scratch->block;
    const size_t rows = block->count, used = mh_tile_used(scratch->any);
    const size_t width = job->key_width, value_width = job->forward.value_width;
    const bool full = mh_tile_full(scratch->all, scratch->any);
    float *dk = scratch->dk + index * MH_KEY_TILE * width;
    float *dv = scratch->dv + index * MH_KEY_TILE * value_width;

    const bool exact = mh_gemm_exact(job->forward.gemm, used, tile->count);
    if (job->gradients.dq && ((full && exact) || tile->finite))
        add_product(job, rows, used, scratch->scores, tile->keys, width, scratch->dq, scratch);
    else if (job->gradients.dq)
        add_product_nonfinite(job, rows, used, scratch->scores, tile->rows, width, scratch->dq,
                              scratch->live, false, scratch);
    if (job->gradients.dk && (full || block->finite_queries))
        add_product_tn(job, used, rows, scratch->scores, block->b_queries, width, dk, scratch);
    else if (job->gradients.dk)
        add_product_nonfinite(job, used, rows,
                              transpose_tile(job, rows, used, scratch->scores, scratch),
                              scratch->queries, width, dk, scratch->live, true, scratch);
    if (job->gradients.dv && (full || block->finite_douts))
        add_product_tn(job, used, rows, scratch->weights, block->b_douts, value_width, dv, scratch);
    else if (job->gradients.dv)
        add_product_nonfinite(job, used, rows,
                              transpose_tile(job, rows, used, scratch->weights, scratch),
                              scratch->douts, value_width, dv, scratch->live, true, scratch);
}

// ---- one KV split -------------------------------------------------------------------------------

void mh_attention_grad_write_rows(const mh_attention_grad_job *job, const mh_tensor *t,
                                  const size_t at[3], size_t rows, size_t n, const float *from,
                                  size_t width, float factor, float *staging)
{
    const bool plain = t->dtype == MH_F32 && t->stride[3] == 1;
    for (size_t r = 0; r < rows; r++) {
        void *to = (void *)mh_element(t, 3, (size_t[]){at[0], at[1], at[2] + r});
        job->forward.kernels->elementwise.scale_row(n, from + r * width, factor,
                                                    plain ? to : staging);
        if (!plain)
            mh_row_write(job->forward.kernels, t->dtype, to, t->stride[3], n, staging);
    }
}

// Whether some of the block's queries may see some of the keys begin .. end - 1.
static bool block_sees(const mh_attention_grad_job *job, const mh_sequence *sequence, size_t first,
                       size_t begin, size_t end)
{
    const size_t last = mh_smaller(sequence->T, first + MH_GRAD_ROWS);
    for (size_t query = first; query < last; query++) {
        mh_interval keys;
        mh_attention_interval(job->forward.desc, sequence, query, &keys);
        if (keys.begin < end && keys.end > begin)
            return true;
    }
    return false;
}

// Packs the tiles of a KV split; returns their number.
static size_t pack_split(const mh_attention_grad_job *job, const mh_sequence *sequence,
                         size_t group, size_t kv_split, mh_attention_grad_scratch *scratch)
{
    const size_t begin = kv_split * MH_KV_SPLIT,
                 end = mh_smaller(begin + MH_KV_SPLIT, sequence->keys);
    size_t tiles = 0;
    for (size_t key = begin; key < end; key += MH_KEY_TILE)
        mh_attention_grad_pack_tile(job, sequence, group, key, &scratch->tiles[tiles++], scratch);
    return tiles;
}

// The block of queries of a head from `first` on against the packed tiles of a KV split: its share
// of scratch->dk and dv, and of dQ, which is added to dq (rows of the block, key_width).
static void grad_block(const mh_attention_grad_job *job, const mh_sequence *sequence, size_t head,
                       size_t first, size_t kv_split, size_t tiles,
                       mh_attention_grad_scratch *scratch, float *dq)
{
    const size_t begin = kv_split * MH_KV_SPLIT, width = job->key_width;
    if (!block_sees(job, sequence, first, begin, mh_smaller(begin + MH_KV_SPLIT, sequence->S)))
        return;
    mh_attention_grad_load_block(job, sequence, head, first, scratch);
    const size_t rows = scratch->block.count;
    memset(scratch->dq, 0, rows * width * sizeof(float));
    for (size_t i = 0; i < tiles; i++)
        if (mh_attention_grad_block_tile(job, sequence, &scratch->tiles[i], false, scratch))
            add_tile(job, &scratch->tiles[i], i, scratch);
    if (dq)
        job->forward.kernels->elementwise.add_row(rows * width, scratch->dq, dq);
}

// The gradients of a KV split's keys and values; k and v hold the first one in row `row`.
static void write_split(const mh_attention_grad_job *job, const mh_sequence *sequence, size_t group,
                        size_t row, size_t count, const float *dk, const float *dv, float *staging)
{
    const mh_attention_desc *p = job->forward.desc;
    const size_t at[3] = {sequence->batch, group, row};
    if (job->gradients.dk)
        mh_attention_grad_write_rows(job, job->gradients.dk, at, count, p->E, dk, job->key_width,
                                     p->scale, staging);
    if (job->gradients.dv)
        mh_attention_grad_write_rows(job, job->gradients.dv, at, count, p->Ev, dv,
                                     job->forward.value_width, 1, staging);
}

// All rows of the heads that share key/value head `group`, against one KV split. Adds the split's
// share of dQ to dq (rows, key_width) and writes dk and dv.
static void grad_split(const mh_attention_grad_job *job, const mh_sequence *sequence, size_t group,
                       size_t kv_split, mh_attention_grad_scratch *scratch, float *dq)
{
    const size_t width = job->key_width, heads = job->forward.desc->heads_per_group;
    const size_t begin = kv_split * MH_KV_SPLIT,
                 stored = mh_smaller(sequence->S - begin, MH_KV_SPLIT);
    const size_t tiles = pack_split(job, sequence, group, kv_split, scratch);
    memset(scratch->dk, 0, stored * width * sizeof(float));
    memset(scratch->dv, 0, stored * job->forward.value_width * sizeof(float));
    for (size_t head = 0; head < heads && tiles; head++)
        for (size_t first = 0; first < sequence->T; first += MH_GRAD_ROWS)
            grad_block(job, sequence, group * heads + head, first, kv_split, tiles, scratch,
                       dq + (head * sequence->T + first) * width);
    write_split(job, sequence, group, mh_key_row(sequence, begin), stored, scratch->dk, scratch->dv,
                scratch->staging);
}

static void write_dq(const mh_attention_grad_job *job, const mh_sequence *sequence, size_t group,
                     const float *dq, float *staging)
{
    const mh_attention_desc *p = job->forward.desc;
    const size_t heads = p->heads_per_group;
    for (size_t head = 0; head < heads && job->gradients.dq; head++) {
        const size_t at[3] = {sequence->batch, group * heads + head, sequence->query_begin};
        mh_attention_grad_write_rows(job, job->gradients.dq, at, sequence->T, p->E,
                                     dq + head * sequence->T * job->key_width, job->key_width,
                                     p->scale, staging);
    }
}

static size_t splits_of(const mh_sequence *sequence)
{
    return (sequence->S + MH_KV_SPLIT - 1) / MH_KV_SPLIT;
}

// ---- one task per key/value head ----------------------------------------------------------------

static void grad_head(void *arg, size_t index, size_t worker)
{
    const mh_attention_grad_job *job = arg;
    const size_t G = job->forward.desc->G;
    const mh_sequence sequence = mh_attention_sequence(job->forward.desc, index / G);
    mh_attention_grad_scratch *scratch = &job->scratch[worker];
    float *dq = job->dq_shares + worker * job->rows * job->key_width;
    memset(dq, 0, job->rows * job->key_width * sizeof(float));
    mh_gemm_enter(job->forward.gemm);
    for (size_t kv_split = 0; kv_split < splits_of(&sequence); kv_split++)
        grad_split(job, &sequence, index % G, kv_split, scratch, dq);
    mh_gemm_leave(job->forward.gemm);
    mh_attention_poll(&job->forward, worker);
    write_dq(job, &sequence, index % G, dq, scratch->staging);
}

// ---- one task per KV split ----------------------------------------------------------------------

// KV splits first .. first + count - 1 of one head, each with its share of dQ; share 0 is the sum.
typedef struct split_wave {
    const mh_attention_grad_job *job;
    const mh_sequence *sequence;
    size_t group, first, count;
} split_wave;

static float *wave_share(const split_wave *wave, size_t i)
{
    return wave->job->dq_shares + i * wave->job->rows * wave->job->key_width;
}

static void grad_wave_split(void *arg, size_t index, size_t worker)
{
    const split_wave *wave = arg;
    float *share = wave_share(wave, 1 + index);
    memset(share, 0, wave->job->rows * wave->job->key_width * sizeof(float));
    mh_gemm_enter(wave->job->forward.gemm);
    grad_split(wave->job, wave->sequence, wave->group, wave->first + index,
               &wave->job->scratch[worker], share);
    mh_gemm_leave(wave->job->forward.gemm);
    mh_attention_poll(&wave->job->forward, worker);
}

static void add_wave_rows(void *arg, size_t index, size_t worker)
{
    const split_wave *wave = arg;
    const mh_attention_grad_job *job = wave->job;
    const size_t first = index * MH_GRAD_ROWS, rows = mh_smaller(job->rows - first, MH_GRAD_ROWS);
    (void)worker;
    for (size_t i = 0; i < wave->count; i++)
        job->forward.kernels->elementwise.add_row(rows * job->key_width,
                                                  wave_share(wave, 1 + i) + first * job->key_width,
                                                  wave_share(wave, 0) + first * job->key_width);
}

static void grad_head_in_waves(mh_context *context, const mh_attention_grad_job *job, size_t b,
                               size_t group)
{
    const mh_sequence sequence = mh_attention_sequence(job->forward.desc, b);
    const size_t kv_splits = splits_of(&sequence);
    split_wave wave = {job, &sequence, group, 0, 0};
    memset(wave_share(&wave, 0), 0, job->rows * job->key_width * sizeof(float));
    for (; wave.first < kv_splits; wave.first += wave.count) {
        wave.count = mh_smaller(kv_splits - wave.first, job->shares - 1);
        mh_parallel_for_or_cancel(context, wave.count, grad_wave_split, &wave);
        mh_parallel_for_or_cancel(context, (job->rows + MH_GRAD_ROWS - 1) / MH_GRAD_ROWS,
                                  add_wave_rows, &wave);
    }
    write_dq(job, &sequence, group, wave_share(&wave, 0), job->scratch[0].staging);
}

// ---- keys or queries that arrive in pieces ------------------------------------------------------

enum { RUN_ROWS = 512 }; // of a task, which packs each KV split for itself

static size_t runs_of(const mh_attention_desc *p) { return (p->T + RUN_ROWS - 1) / RUN_ROWS; }

// A run of queries of one head against the KV splits of a piece: dq.
static void grad_run(void *arg, size_t index, size_t worker)
{
    const mh_attention_grad_job *job = arg;
    const mh_attention_desc *p = job->forward.desc;
    const size_t head = index / runs_of(p) % p->H, b = index / runs_of(p) / p->H;
    const size_t group = head / p->heads_per_group, begin = index % runs_of(p) * RUN_ROWS;
    const mh_sequence sequence = mh_attention_sequence(p, b);
    mh_attention_grad_scratch *scratch = &job->scratch[worker];
    float *dq =
        job->dq_shares +
        ((b * p->G + group) * job->rows + head % p->heads_per_group * p->T) * job->key_width;
    const mh_interval piece = job->forward.piece;
    mh_gemm_enter(job->forward.gemm);
    for (size_t kv_split = piece.begin / MH_KV_SPLIT; kv_split * MH_KV_SPLIT < piece.end;
         kv_split++) {
        const size_t tiles = pack_split(job, &sequence, group, kv_split, scratch);
        for (size_t first = begin; first < mh_smaller(begin + RUN_ROWS, p->T) && tiles;
             first += MH_GRAD_ROWS)
            grad_block(job, &sequence, head, first, kv_split, tiles, scratch,
                       dq + first * job->key_width);
    }
    mh_gemm_leave(job->forward.gemm);
    mh_attention_poll(&job->forward, worker);
}

// Task `index` of those with one KV split held each: its sequence, split and key/value head.
typedef struct held_split {
    mh_sequence sequence;
    size_t group, kv_split, row; // its first key in k and v
    float *dk, *dv;
} held_split;

static held_split held_at(const mh_attention_grad_job *job, size_t index)
{
    const mh_attention_desc *p = job->forward.desc;
    const size_t i = index % job->held_count, head = index / job->held_count;
    held_split held = {mh_attention_sequence(p, head / p->G),
                       head % p->G,
                       job->held[i],
                       i * MH_KV_SPLIT,
                       job->dk + index * MH_KV_SPLIT * job->key_width,
                       job->dv + index * MH_KV_SPLIT * job->forward.value_width};
    held.sequence.first_key = held.kv_split * MH_KV_SPLIT - held.row;
    return held;
}

// The queries of a piece against one KV split: dk and dv.
static void grad_held(void *arg, size_t index, size_t worker)
{
    const mh_attention_grad_job *job = arg;
    const held_split held = held_at(job, index);
    const mh_sequence *sequence = &held.sequence;
    mh_attention_grad_scratch scratch = job->scratch[worker];
    const size_t heads = job->forward.desc->heads_per_group;
    scratch.dk = held.dk, scratch.dv = held.dv;
    mh_gemm_enter(job->forward.gemm);
    const size_t tiles = pack_split(job, sequence, held.group, held.kv_split, &scratch);
    for (size_t head = 0; head < heads && tiles; head++)
        for (size_t first = 0; first < sequence->T; first += MH_GRAD_ROWS)
            grad_block(job, sequence, held.group * heads + head, first, held.kv_split, tiles,
                       &scratch, NULL);
    mh_gemm_leave(job->forward.gemm);
    mh_attention_poll(&job->forward, worker);
}

static void write_held(void *arg, size_t index, size_t worker)
{
    const mh_attention_grad_job *job = arg;
    const held_split held = held_at(job, index);
    const size_t begin = held.kv_split * MH_KV_SPLIT;
    write_split(job, &held.sequence, held.group, held.row,
                mh_smaller(held.sequence.S - begin, MH_KV_SPLIT), held.dk, held.dv,
                job->scratch[worker].staging);
}

static void write_share(void *arg, size_t index, size_t worker)
{
    const mh_attention_grad_job *job = arg;
    const mh_attention_desc *p = job->forward.desc;
    const mh_sequence sequence = mh_attention_sequence(p, index / p->G);
    write_dq(job, &sequence, index % p->G, job->dq_shares + index * job->rows * job->key_width,
             job->scratch[worker].staging);
}

static size_t held_tasks(const mh_attention_grad_job *job)
{
    return job->forward.desc->B * job->forward.desc->G * job->held_count;
}

void mh_attention_grad_begin(const mh_attention_grad_job *job)
{
    const size_t keys = held_tasks(job) * MH_KV_SPLIT;
    memset(job->dq_shares, 0, job->shares * job->rows * job->key_width * sizeof(float));
    memset(job->dk, 0, keys * job->key_width * sizeof(float));
    memset(job->dv, 0, keys * job->forward.value_width * sizeof(float));
}

void mh_attention_grad_resume_keys(mh_context *context, const mh_attention_grad_job *job)
{
    const mh_attention_desc *p = job->forward.desc;
    mh_attention_run(context, job->workers, p->B * p->H * runs_of(p), grad_run, (void *)job);
}

void mh_attention_grad_resume_queries(mh_context *context, const mh_attention_grad_job *job)
{
    mh_attention_run(context, job->workers, held_tasks(job), grad_held, (void *)job);
}

void mh_attention_grad_finish(mh_context *context, const mh_attention_grad_job *job)
{
    mh_attention_run(context, job->workers, job->shares, write_share, (void *)job);
    mh_attention_run(context, job->workers, held_tasks(job), write_held, (void *)job);
}

// ---- all heads ----------------------------------------------------------------------------------

void mh_attention_grad_splits(mh_context *context, const mh_attention_grad_job *job)
{
    const mh_attention_desc *p = job->forward.desc;
    if (job->shares <= job->workers)
        mh_attention_run(context, job->workers, p->B * p->G, grad_head, (void *)job);
    else
        for (size_t i = 0; i < p->B * p->G; i++)
            grad_head_in_waves(context, job, i / p->G, i % p->G);
}
