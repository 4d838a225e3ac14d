// SPDX-License-Identifier: MIT
// The short-sequence path: every query sees all keys, and these are at most 16, as in most
// tutorials. So there is one tile, nothing to mask and nothing to merge; the general path
// (attention.c) would spend a third of its time finding that out, head by head.
//
//     12 rows [ x keys, transposed to (E, 16) or, in wide heads, in place ] -> softmax step
//             [ x values, in place -> x 1 / sum -> out ]
//
// The order of all sums is that of the general path: results are bitwise identical.
#include "base/size_math.h"
#include "ops/attention/attention_internal.h"
#include "ops/row_io.h"
#include <math.h>

enum { MOST_WIDTH = 512 };

// Scratch memory of a worker: f32 operands, and rows converted to f32. It is in the workspace, as
// a caller's thread may have a small stack.
typedef struct operands {
    const mh_sequence *sequence;
    size_t group;
    const float *keys; // (keys, E): the tensor's or in staging
    ptrdiff_t key_stride;
    const float *values; // (keys, width): the tensor's or packed
    size_t value_stride;
    float *transposed_keys; // (E, 16), unless heads are wide
    float *packed_values;   // (16, value_width)
    float *staging;         // (16, max(E, value_width)): for values, then for keys
    float *queries;         // (MH_SHORT_ROWS, E)
    float *out;             // (MH_SHORT_ROWS, value_width)
    float *scores;          // (MH_SHORT_ROWS, MH_KEY_TILE)
} operands;

// Lays out the operands from `at` on, each at a multiple of 64 bytes; returns the floats they take.
static size_t place_operands(const mh_attention_job *job, float *at, operands *x)
{
    const size_t E = mh_round_up(job->desc->E, MH_MAX_LANES);
    const size_t width = mh_round_up(job->value_width, MH_MAX_LANES);
    const size_t transposed = 0, values = transposed + (E <= MH_WIDE_HEAD ? E * MH_SHORT_KEYS : 0);
    const size_t staging = values + MH_SHORT_KEYS * width;
    const size_t queries = staging + MH_SHORT_KEYS * mh_larger(E, width);
    const size_t out = queries + MH_SHORT_ROWS * E, scores = out + MH_SHORT_ROWS * width;
    if (x) {
        x->transposed_keys = at + transposed, x->packed_values = at + values,
        x->staging = at + staging;
        x->queries = at + queries, x->out = at + out, x->scores = at + scores;
    }
    return scores + MH_SHORT_ROWS * MH_KEY_TILE;
}

size_t mh_attention_short_floats(const mh_attention_job *job)
{
    return place_operands(job, NULL, NULL);
}

// Whether the options leave all keys of a sequence live and the scores unmodified.
static bool sees_all(const mh_attention_desc *p)
{
    const mh_attention_options *o = &p->options;
    if (p->resumed || p->cache || p->elementwise || o->causal != MH_CAUSAL_NONE ||
        o->window_left >= 0 || o->window_right >= 0 || o->softcap > 0 || o->alibi || o->sinks ||
        o->dropout > 0 || o->weights)
        return false;
    for (size_t b = 0; b < p->B; b++)
        if (mh_attention_sequence(p, b).keys == 0)
            return false;
    return true;
}

bool mh_attention_is_short(const mh_attention_desc *p)
{
    return p->S <= MH_SHORT_KEYS && p->E <= MOST_WIDTH && p->Ev <= MOST_WIDTH && sees_all(p);
}

static void attention_short_load_keys(const mh_attention_job *job, operands *x)
{
    const mh_tensor *k = &job->desc->k;
    const mh_sequence *s = x->sequence;
    const size_t E = job->desc->E, at[3] = {s->batch, x->group, s->key_begin};
    x->keys = mh_rows_as_f32(job->kernels, k, 2, mh_element(k, 3, at), s->keys, E, x->staging,
                             &x->key_stride);
    if (E <= MH_WIDE_HEAD)
        job->kernels->matrix.transpose(s->keys, E, x->keys, x->key_stride, x->transposed_keys,
                                       MH_SHORT_KEYS);
}

// Values as rows of whole vectors: in place, or as contiguous f32, or packed.
static void load_values(const mh_attention_job *job, operands *x)
{
    const mh_attention_desc *p = job->desc;
    const mh_kernels *kernels = job->kernels;
    const mh_sequence *s = x->sequence;
    const size_t at[3] = {s->batch, x->group, s->key_begin};
    const bool whole = p->Ev == job->value_width;
    ptrdiff_t stride;
    x->values = mh_rows_as_f32(kernels, &p->v, 2, mh_element(&p->v, 3, at), s->keys, p->Ev,
                               whole ? x->packed_values : x->staging, &stride);
    x->value_stride = (size_t)stride;
    if (whole && stride >= 0)
        return;
    kernels->matrix.pack_rows(s->keys, p->Ev, x->values, stride, x->packed_values,
                              job->value_width);
    x->values = x->packed_values;
    x->value_stride = job->value_width;
}

// (count, 16) scores of queries, then their unnormalised weights; row maxima and sums.
static void weigh_rows(const mh_attention_job *job, const size_t at[3], size_t count, float *max,
                       float *sums, operands *x)
{
    const mh_attention_desc *p = job->desc;
    const mh_kernels *kernels = job->kernels;
    const size_t keys = x->sequence->keys, columns = mh_round_up(keys, kernels->lanes);
    ptrdiff_t stride;
    const float *queries = mh_rows_as_f32(kernels, &p->q, 2, mh_element(&p->q, 3, at), count, p->E,
                                          x->queries, &stride);
    mh_gemm_args args = {.m = count,
                         .n = columns,
                         .k = p->E,
                         .a = queries,
                         .lda = stride,
                         .b = x->transposed_keys,
                         .ldb = MH_SHORT_KEYS,
                         .c = x->scores,
                         .ldc = MH_KEY_TILE};
    if (p->E <= MH_WIDE_HEAD) {
        kernels->attention.short_scores(&args);
    } else {
        args.n = keys, args.b = x->keys, args.ldb = x->key_stride;
        kernels->matrix.gemm_nt(&args);
    }
    kernels->attention.short_softmax(count, keys, p->scale, x->scores, max, sums);
}

// The factors of the outputs, 1 / sum, and the lse if requested.
static void find_factors(const mh_attention_job *job, const size_t at[3], size_t count,
                         const float *max, const float *sums, float *factors)
{
    const mh_tensor *lse = job->desc->options.lse;
    for (size_t r = 0; r < count; r++)
        factors[r] = 1 / (sums[r] == 0 ? NAN : sums[r]);
    if (!lse)
        return;
    float logs[MH_SHORT_ROWS];
    job->kernels->elementwise.log(count, sums, logs);
    for (size_t r = 0; r < count; r++)
        *(float *)mh_element(lse, 3, (size_t[]){at[0], at[1], at[2] + r}) =
            mh_attention_lse(max[r], sums[r], logs[r]);
}

// `count` queries of a head from `first` on.
static void attention_short_attend_rows(const mh_attention_job *job, size_t head, size_t first,
                                        size_t count, operands *x)
{
    const mh_kernels *kernels = job->kernels;
    const mh_tensor *t = &job->desc->out;
    const size_t Ev = job->desc->Ev, width = job->value_width;
    size_t at[3] = {x->sequence->batch, head, x->sequence->query_begin + first};
    float max[MH_SHORT_ROWS], sums[MH_SHORT_ROWS], factors[MH_SHORT_ROWS];
    weigh_rows(job, at, count, max, sums, x);
    find_factors(job, at, count, max, sums, factors);
    const bool plain = t->dtype == MH_F32 && t->stride[3] == 1 && Ev == width;
    float *out = plain ? (float *)mh_element(t, 3, at) : x->out;
    kernels->attention.short_outputs(
        &(mh_gemm_args){.m = count,
                        .n = width,
                        .k = x->sequence->keys,
                        .a = x->scores,
                        .lda = MH_KEY_TILE,
                        .b = x->values,
                        .ldb = (ptrdiff_t)x->value_stride,
                        .c = out,
                        .ldc = plain ? t->stride[2] : (ptrdiff_t)width},
        factors);
    for (size_t r = 0; r < count && !plain; r++, at[2]++)
        mh_row_write(kernels, t->dtype, (void *)mh_element(t, 3, at), t->stride[3], Ev,
                     out + r * width);
}

void mh_attention_short(void *arg, size_t task, size_t worker)
{
    const mh_attention_job *job = arg;
    const mh_attention_desc *p = job->desc;
    const size_t begin = task * job->share, end = mh_smaller(begin + job->share, p->B * p->G);
    const size_t heads = p->heads_per_group;
    operands x;
    place_operands(job, job->short_scratch + worker * mh_attention_short_floats(job), &x);
    for (size_t i = begin; i < end; i++) {
        const mh_sequence sequence = mh_attention_sequence(p, i / p->G);
        const size_t blocks = mh_attention_short_tiles(sequence.T);
        x.sequence = &sequence;
        x.group = i % p->G;
        load_values(job, &x);
        attention_short_load_keys(job, &x); // last: they stay in staging
        for (size_t h = 0; h < heads; h++)
            for (size_t block = 0; block < blocks; block++) {
                const size_t first = block * sequence.T / blocks;
                const size_t behind = (block + 1) * sequence.T / blocks;
                attention_short_attend_rows(job, x.group * heads + h, first, behind - first, &x);
            }
    }
}
