// SPDX-License-Identifier: MIT
// The short-sequence path, backward, as attention_short.c is forward: every query sees all keys,
// and these are one tile. The general path (attention_grad.c) would spend most of its time on
// copies, masks and sums of one term.
//
//     64 rows [ S = Q K^T -> W ]  [ dP = dO V^T -> dS ]      16 keys wide, transposed V, and K
//                                                            unless heads are wide
//     dQ = dS K      dK += dS^T Q      dV += W^T dO          operands in place, if possible
//
// The order of all sums is that of the general path: results are bitwise identical.
#include "base/size_math.h"
#include "ops/attention/attention_grad.h"
#include "ops/row_io.h"
#include <string.h>

// Rows of f32 in whole vectors, which are A and B operands in place.
typedef struct whole_rows {
    const float *data;
    ptrdiff_t stride;
} whole_rows;

// The keys and values of a head: K, and both transposed (E, 16), in wide heads only the values.
typedef struct short_keys {
    const mh_sequence *sequence;
    whole_rows keys;
    float *keys_t, *values_t;
} short_keys;

// `count` rows of n elements of a tensor: in place, or packed into `to` (count, width).
static whole_rows attention_short_backward_load_rows(const mh_attention_grad_job *job,
                                                     const mh_tensor *t, const size_t at[3],
                                                     size_t count, size_t n, size_t width,
                                                     float *staging, float *to)
{
    const mh_kernels *kernels = job->forward.kernels;
    whole_rows rows;
    rows.data =
        mh_rows_as_f32(kernels, t, 2, mh_element(t, 3, at), count, n, staging, &rows.stride);
    if (n == width && rows.stride >= 0 && rows.data != staging)
        return rows;
    kernels->matrix.pack_rows(count, n, rows.data, rows.stride, to, width);
    return (whole_rows){to, (ptrdiff_t)width};
}

static short_keys attention_short_backward_load_keys(const mh_attention_grad_job *job,
                                                     const mh_sequence *sequence, size_t group,
                                                     mh_attention_grad_scratch *scratch)
{
    const mh_attention_desc *p = job->forward.desc;
    const mh_kernels *kernels = job->forward.kernels;
    const size_t at[3] = {sequence->batch, group, sequence->key_begin}, count = sequence->keys;
    mh_attention_grad_tile *tile = &scratch->tiles[0];
    short_keys x = {sequence,
                    attention_short_backward_load_rows(job, &p->k, at, count, p->E, job->key_width,
                                                       scratch->staging, tile->rows),
                    tile->keys_t, tile->values_t};
    ptrdiff_t stride;
    const float *values = mh_rows_as_f32(kernels, &p->v, 2, mh_element(&p->v, 3, at), count, p->Ev,
                                         scratch->staging, &stride);
    if (p->E <= MH_WIDE_HEAD)
        kernels->matrix.transpose(count, p->E, x.keys.data, x.keys.stride, x.keys_t, MH_SHORT_KEYS);
    kernels->matrix.transpose(count, p->Ev, values, stride, x.values_t, MH_SHORT_KEYS);
    return x;
}

// c (rows x columns) = a b, a (rows x inner), b (inner x columns).
static void gemm(const mh_attention_grad_job *job, size_t rows, size_t columns, size_t inner,
                 whole_rows a, const float *b, size_t ldb, float *c, size_t ldc)
{
    const mh_gemm *gemm = job->forward.gemm;
    for (size_t i = 0; i < rows; i += gemm->rows)
        gemm->gemm(&(mh_gemm_args){.m = mh_smaller(rows - i, gemm->rows),
                                   .n = columns,
                                   .k = inner,
                                   .a = a.data + (ptrdiff_t)i * a.stride,
                                   .lda = a.stride,
                                   .b = b,
                                   .ldb = (ptrdiff_t)ldb,
                                   .c = c + i * ldc,
                                   .ldc = (ptrdiff_t)ldc});
}

// c (rows x columns, row stride 16) = a b, a (rows x inner), b (inner x columns, row stride 16).
static void score(const mh_kernels *kernels, size_t rows, size_t columns, size_t inner,
                  whole_rows a, const float *b, float *c)
{
    for (size_t i = 0; i < rows; i += MH_SHORT_ROWS)
        kernels->attention.short_scores(&(mh_gemm_args){.m = mh_smaller(rows - i, MH_SHORT_ROWS),
                                                        .n = columns,
                                                        .k = inner,
                                                        .a = a.data + (ptrdiff_t)i * a.stride,
                                                        .lda = a.stride,
                                                        .b = b,
                                                        .ldb = MH_SHORT_KEYS,
                                                        .c = c + i * MH_SHORT_KEYS,
                                                        .ldc = MH_SHORT_KEYS});
}

// c (keys x width) = or += a^T b, a (rows x keys, row stride 16), b (rows x width).
static void gemm_tn(const mh_attention_grad_job *job, size_t keys, size_t rows, const float *a,
                    whole_rows b, size_t width, float *c, bool accumulate)
{
    const mh_gemm *gemm = job->forward.gemm;
    for (size_t i = 0; i < keys; i += gemm->rows)
        gemm->gemm_tn(&(mh_gemm_args){.m = mh_smaller(keys - i, gemm->rows),
                                      .n = width,
                                      .k = rows,
                                      .a = a + i,
                                      .lda = MH_SHORT_KEYS,
                                      .b = b.data,
                                      .ldb = b.stride,
                                      .c = c + i * width,
                                      .ldc = (ptrdiff_t)width,
                                      .accumulate = accumulate});
}

// W and dS of a block of rows, (rows, 16) each.
static void weigh(const mh_attention_grad_job *job, const short_keys *x, const size_t at[3],
                  size_t rows, whole_rows queries, whole_rows douts,
                  mh_attention_grad_scratch *scratch)
{
    const mh_attention_desc *p = job->forward.desc;
    const mh_kernels *kernels = job->forward.kernels;
    const size_t keys = x->sequence->keys, columns = mh_round_up(keys, kernels->lanes);
    mh_attention_grad_block *block = &scratch->block;
    ptrdiff_t stride = 0;
    const float *outs = NULL;
    if (!job->delta)
        outs = mh_rows_as_f32(kernels, &p->out, 2, mh_element(&p->out, 3, at), rows, p->Ev,
                              scratch->staging, &stride);
    for (size_t r = 0; r < rows; r++) {
        const size_t row[3] = {at[0], at[1], at[2] + r};
        block->delta[r] =
            job->delta ? *(const float *)mh_element(job->delta, 3, row)
                       : mh_attention_grad_delta(kernels, p->Ev, outs + (ptrdiff_t)r * stride,
                                                 douts.data + (ptrdiff_t)r * douts.stride);
        block->lse[r] = mh_attention_grad_lse(p, row);
        scratch->live[r] = ~UINT64_C(0) >> (MH_KEY_TILE - keys);
    }
    if (p->E <= MH_WIDE_HEAD)
        score(kernels, rows, columns, p->E, queries, x->keys_t, scratch->weights);
    else
        kernels->matrix.gemm_nt(&(mh_gemm_args){.m = rows,
                                                .n = keys,
                                                .k = p->E,
                                                .a = queries.data,
                                                .lda = queries.stride,
                                                .b = x->keys.data,
                                                .ldb = x->keys.stride,
                                                .c = scratch->weights,
                                                .ldc = MH_SHORT_KEYS});
    score(kernels, rows, columns, p->Ev, douts, x->values_t, scratch->scores);
    const mh_grad_map map = {
        .scale = p->scale, .lse = block->lse, .delta = block->delta, .live = scratch->live};
    kernels->attention.softmax_grad(&map, rows, columns, scratch->weights, scratch->scores,
                                    MH_SHORT_KEYS);
}

// A block of queries of a head, from `first` on: dQ, and its share of dK and dV, which is added if
// `more`.
static void grad_block(const mh_attention_grad_job *job, const short_keys *x, size_t head,
                       size_t first, bool more, mh_attention_grad_scratch *scratch)
{
    const mh_attention_desc *p = job->forward.desc;
    const mh_sequence *s = x->sequence;
    const size_t width = job->key_width, value_width = job->forward.value_width;
    const size_t at[3] = {s->batch, head, s->query_begin + first};
    const size_t rows = mh_smaller(s->T - first, MH_GRAD_ROWS);
    const whole_rows queries = attention_short_backward_load_rows(
        job, &p->q, at, rows, p->E, width, scratch->staging, scratch->queries);
    const whole_rows douts = attention_short_backward_load_rows(
        job, &job->dout, at, rows, p->Ev, value_width, scratch->staging, scratch->douts);
    weigh(job, x, at, rows, queries, douts, scratch);
    if (job->gradients.dk)
        gemm_tn(job, s->keys, rows, scratch->scores, queries, width, scratch->dk, more);
    if (job->gradients.dv)
        gemm_tn(job, s->keys, rows, scratch->weights, douts, value_width, scratch->dv, more);
    if (!job->gradients.dq)
        return;
    gemm(job, rows, width, s->keys, (whole_rows){scratch->scores, MH_SHORT_KEYS}, x->keys.data,
         (size_t)x->keys.stride, scratch->dq, width);
    mh_attention_grad_write_rows(job, job->gradients.dq, at, rows, p->E, scratch->dq, width,
                                 p->scale, scratch->staging);
}

static void grad_group(const mh_attention_grad_job *job, const mh_sequence *s, size_t group,
                       mh_attention_grad_scratch *scratch)
{
    const mh_attention_desc *p = job->forward.desc;
    const size_t width = job->key_width, value_width = job->forward.value_width;
    const size_t heads = p->heads_per_group, seen = heads && s->T ? s->keys : 0;
    const short_keys x = attention_short_backward_load_keys(job, s, group, scratch);
    for (size_t h = 0; h < heads; h++)
        for (size_t first = 0; first < s->T; first += MH_GRAD_ROWS)
            grad_block(job, &x, group * heads + h, first, h > 0 || first > 0, scratch);
    if (seen < s->S) { // a memset of no bytes may still take an assist on a page never touched
        memset(scratch->dk + seen * width, 0, (s->S - seen) * width * sizeof(float));
        memset(scratch->dv + seen * value_width, 0, (s->S - seen) * value_width * sizeof(float));
    }
    const size_t at[3] = {s->batch, group, s->key_begin};
    if (job->gradients.dk)
        mh_attention_grad_write_rows(job, job->gradients.dk, at, s->S, p->E, scratch->dk, width,
                                     p->scale, scratch->staging);
    if (job->gradients.dv)
        mh_attention_grad_write_rows(job, job->gradients.dv, at, s->S, p->Ev, scratch->dv,
                                     value_width, 1, scratch->staging);
}

void mh_attention_short_backward(void *arg, size_t task, size_t worker)
{
    const mh_attention_grad_job *job = arg;
    const mh_attention_desc *p = job->forward.desc;
    const size_t share = job->forward.share, begin = task * share;
    for (size_t i = begin; i < mh_smaller(begin + share, p->B * p->G); i++) {
        const mh_sequence sequence = mh_attention_sequence(p, i / p->G);
        grad_group(job, &sequence, i % p->G, &job->scratch[worker]);
    }
}
