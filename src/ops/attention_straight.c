// SPDX-License-Identifier: MIT
// The straight way for short sequences: where every query sees all keys and these are few, as in
// most tutorials, there is one tile, nothing to mask and nothing to merge. The general way
// (attention.c) would spend a third of its time on finding that out, head by head.
//
//     12 rows [ 128 columns of keys turned (128, 16) -> scores, going on ] -> softmax step
//             [ x values, where they are -> x 1 / sum -> out ]
//
// The order of all sums is the general way's, and so are the bits.
#include "base/sizes.h"
#include "ops/attention_job.h"
#include "ops/rows.h"
#include <math.h>
#include <string.h>

// Keys are turned by parts, which stay in the first-level cache.
enum { MOST_WIDTH = 512, PART = 128 };

// What a worker has on its stack: f32 operands, and rows of tensors that are not f32 already.
typedef struct operands {
    const mh_sequence *sequence;
    size_t group;
    size_t turned;       // the first column of the keys that are turned, SIZE_MAX if none are
    const float *values; // (keys, width): the tensor's or those packed
    size_t value_stride;
    _Alignas(64) float keys[PART * MH_FEW_KEYS]; // (columns, 16)
    _Alignas(64) float packed_values[MH_FEW_KEYS * MOST_WIDTH];
    _Alignas(64) float staging[MH_FEW_KEYS * MOST_WIDTH]; // of keys and values
    _Alignas(64) float queries[MH_SHORT_ROWS * MOST_WIDTH];
    _Alignas(64) float out[MH_SHORT_ROWS * MOST_WIDTH];
    _Alignas(64) float scores[MH_SHORT_ROWS * MH_KEY_TILE];
    _Alignas(64) float sums[MH_SHORT_ROWS * MH_MAX_LANES];
} operands;

// Whether options leave all keys of a sequence alive, and the scores as they are.
static bool sees_all(const mh_attention_problem *p)
{
    const mh_attention_options *o = &p->options;
    if (p->cache || p->elementwise || o->causal != MH_CAUSAL_NONE || o->window_left >= 0 ||
        o->window_right >= 0 || o->softcap > 0 || o->alibi || o->sinks || o->dropout > 0 ||
        o->weights)
        return false;
    for (size_t b = 0; b < p->B; b++)
        if (mh_attention_sequence(p, b).keys == 0)
            return false;
    return true;
}

bool mh_attention_is_straight(const mh_attention_problem *p)
{
    return p->S <= MH_FEW_KEYS && p->E <= MOST_WIDTH && p->Ev <= MOST_WIDTH && sees_all(p);
}

// Some columns of the keys turned, unless they are already.
static void turn_keys(const mh_attention_job *job, size_t column, size_t columns, operands *x)
{
    const mh_tensor *k = &job->problem->k;
    const mh_sequence *s = x->sequence;
    if (x->turned == column)
        return;
    x->turned = column;
    const size_t at[4] = {s->batch, x->group, s->key_begin, column};
    ptrdiff_t stride;
    const float *rows = mh_rows_as_f32(job->kernels, k, 2, mh_element(k, 4, at), s->keys, columns,
                                       x->staging, &stride);
    job->kernels->transpose(s->keys, columns, rows, stride, x->keys, MH_FEW_KEYS);
}

// Values as rows of whole vectors: where they are, or as f32 without gaps, or packed.
static void load_values(const mh_attention_job *job, operands *x)
{
    const mh_attention_problem *p = job->problem;
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
    kernels->pack_rows(s->keys, p->Ev, x->values, stride, x->packed_values, job->value_width);
    x->values = x->packed_values;
    x->value_stride = job->value_width;
}

// (count, 16) scores of queries, then their weights before division; the maxima and the sums, lane
// by lane.
static void weigh_rows(const mh_attention_job *job, const size_t at[3], size_t count, float *max,
                       operands *x)
{
    const mh_attention_problem *p = job->problem;
    const mh_kernels *kernels = job->kernels;
    const size_t keys = x->sequence->keys, columns = mh_round_up(keys, kernels->lanes);
    ptrdiff_t stride;
    const float *queries = mh_rows_as_f32(kernels, &p->q, 2, mh_element(&p->q, 3, at), count, p->E,
                                          x->queries, &stride);
    for (size_t c = 0; c < p->E || c == 0; c += PART) {
        const size_t part = mh_smaller(p->E - c, PART);
        turn_keys(job, c, part, x);
        kernels->short_scores(count, columns, part, queries + c, stride, x->keys, MH_FEW_KEYS,
                              c > 0, x->scores, MH_KEY_TILE);
    }
    for (size_t r = 0; r < count; r++)
        max[r] = -INFINITY;
    memset(x->sums, 0, count * kernels->lanes * sizeof(float));
    kernels->softmax_step(count, keys, p->scale, x->scores, 0, max, x->sums, x->out, 0);
}

// What outputs are multiplied by: 1 / sum.
static void find_factors(const mh_attention_job *job, const size_t at[3], size_t count,
                         const float *max, const operands *x, float *factors)
{
    const mh_tensor *lse = job->problem->options.lse;
    float sums[MH_SHORT_ROWS], logs[MH_SHORT_ROWS] = {0};
    mh_attention_sums(job, count, x->sums, sums, logs);
    for (size_t r = 0; r < count; r++) {
        factors[r] = 1 / (sums[r] == 0 ? NAN : sums[r]);
        if (lse)
            *(float *)mh_element(lse, 3, (size_t[]){at[0], at[1], at[2] + r}) =
                mh_attention_lse(max[r], sums[r], logs[r]);
    }
}

// `count` queries of a head from `first` on.
static void attend_rows(const mh_attention_job *job, size_t head, size_t first, size_t count,
                        operands *x)
{
    const mh_kernels *kernels = job->kernels;
    const mh_tensor *t = &job->problem->out;
    const size_t Ev = job->problem->Ev, width = job->value_width;
    size_t at[3] = {x->sequence->batch, head, x->sequence->query_begin + first};
    float max[MH_SHORT_ROWS], factors[MH_SHORT_ROWS];
    weigh_rows(job, at, count, max, x);
    find_factors(job, at, count, max, x, factors);
    const bool plain = t->dtype == MH_F32 && t->stride[3] == 1 && Ev == width;
    float *out = plain ? (float *)mh_element(t, 3, at) : x->out;
    kernels->short_outputs(count, width, x->sequence->keys, x->scores, MH_KEY_TILE, x->values,
                           x->value_stride, factors, out, plain ? t->stride[2] : (ptrdiff_t)width);
    for (size_t r = 0; r < count && !plain; r++, at[2]++)
        mh_row_write(kernels, t->dtype, (void *)mh_element(t, 3, at), t->stride[3], Ev,
                     out + r * width);
}

void mh_attention_straight(void *arg, size_t task, size_t worker)
{
    const mh_attention_job *job = arg;
    const mh_attention_problem *p = job->problem;
    const size_t begin = task * job->share, end = mh_smaller(begin + job->share, p->B * p->G);
    const size_t heads = p->heads_per_group;
    operands x;
    (void)worker;
    for (size_t i = begin; i < end; i++) {
        const mh_sequence sequence = mh_attention_sequence(p, i / p->G);
        const size_t blocks = (sequence.T + MH_SHORT_ROWS - 1) / MH_SHORT_ROWS;
        x.sequence = &sequence;
        x.group = i % p->G;
        x.turned = SIZE_MAX;
        load_values(job, &x);
        for (size_t h = 0; h < heads; h++)
            for (size_t block = 0; block < blocks; block++) {
                const size_t first = block * sequence.T / blocks;
                const size_t behind = (block + 1) * sequence.T / blocks;
                attend_rows(job, x.group * heads + h, first, behind - first, &x);
            }
    }
}
