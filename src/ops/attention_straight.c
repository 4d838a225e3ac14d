// SPDX-License-Identifier: MIT
// The straight way for short sequences: where every query sees all keys and these are few, as in
// most tutorials, there is one tile, nothing to mask and nothing to merge. The general way
// (attention.c) would spend a third of its time on finding that out, head by head.
//
//     keys turned (E, 16)     6 rows [ scores ] -> softmax step -> x values, in place -> out
//
// The kernels and their order are the general way's, and so are the bits.
#include "base/sizes.h"
#include "ops/attention_job.h"
#include "ops/rows.h"
#include <math.h>
#include <string.h>

enum { MOST_WIDTH = 512, MOST_STRIP = 8, MOST_LANES = 16 };

// What a worker has on its stack: f32 operands, and rows of tensors that are not f32 already.
typedef struct operands {
    const mh_sequence *sequence;
    const float *values; // (keys, width): the tensor's or those packed
    size_t value_stride;
    _Alignas(64) float keys[MOST_WIDTH * MH_FEW_KEYS]; // (E, 16)
    _Alignas(64) float packed_values[MH_FEW_KEYS * MOST_WIDTH];
    _Alignas(64) float staging[MH_FEW_KEYS * MOST_WIDTH]; // of keys, values, then queries
    _Alignas(64) float out[MOST_STRIP * MOST_WIDTH];
    _Alignas(64) float scores[MOST_STRIP * MH_KEY_TILE];
    _Alignas(64) float sums[MOST_STRIP * MOST_LANES];
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

bool mh_attention_is_straight(const mh_kernels *kernels, const mh_attention_problem *p)
{
    return p->S <= MH_FEW_KEYS && p->E <= MOST_WIDTH && p->Ev <= MOST_WIDTH &&
           kernels->f32.rows <= MOST_STRIP && kernels->lanes <= MOST_LANES && sees_all(p);
}

// Keys turned, and values as rows of whole vectors.
static void load_keys(const mh_attention_job *job, size_t group, operands *x)
{
    const mh_attention_problem *p = job->problem;
    const mh_kernels *kernels = job->kernels;
    const mh_sequence *s = x->sequence;
    const size_t at[3] = {s->batch, group, s->key_begin};
    ptrdiff_t stride;
    const float *rows = mh_rows_as_f32(kernels, &p->k, 2, mh_element(&p->k, 3, at), s->keys, p->E,
                                       x->staging, &stride);
    kernels->transpose(s->keys, p->E, rows, stride, x->keys, MH_FEW_KEYS);
    rows = mh_rows_as_f32(kernels, &p->v, 2, mh_element(&p->v, 3, at), s->keys, p->Ev, x->staging,
                          &stride);
    x->values = rows;
    x->value_stride = (size_t)stride;
    if (p->Ev == job->value_width && stride >= 0 && rows != x->staging)
        return;
    x->values = x->packed_values;
    x->value_stride = job->value_width;
    kernels->pack_rows(s->keys, p->Ev, rows, stride, x->packed_values, job->value_width);
}

static void finish_row(const mh_attention_job *job, const size_t at[3], float max, float sum,
                       float log_sum, float *out)
{
    const mh_attention_problem *p = job->problem;
    const mh_tensor *t = &p->out;
    float *to = (float *)mh_element(t, 3, at);
    const bool plain = t->dtype == MH_F32 && t->stride[3] == 1;
    if (p->options.lse)
        *(float *)mh_element(p->options.lse, 3, at) = mh_attention_lse(max, sum, log_sum);
    job->kernels->scale_row(p->Ev, out, 1 / (sum == 0 ? NAN : sum), plain ? to : out);
    if (!plain)
        mh_row_write(job->kernels, t->dtype, to, t->stride[3], p->Ev, out);
}

// `count` queries from `first` on.
static void attend_rows(const mh_attention_job *job, size_t head, size_t first, size_t count,
                        operands *x)
{
    const mh_attention_problem *p = job->problem;
    const mh_kernels *kernels = job->kernels;
    const size_t n = x->sequence->keys, lanes = kernels->lanes, width = job->value_width;
    size_t at[3] = {x->sequence->batch, head, x->sequence->query_begin + first};
    float max[MOST_STRIP];
    for (size_t r = 0; r < count; r++)
        max[r] = -INFINITY;
    memset(x->sums, 0, count * lanes * sizeof(float));
    ptrdiff_t stride;
    const float *queries = mh_rows_as_f32(kernels, &p->q, 2, mh_element(&p->q, 3, at), count, p->E,
                                          x->staging, &stride);
    kernels->f32.multiply(count, mh_round_up(n, lanes), p->E, queries, stride, x->keys, MH_FEW_KEYS,
                          x->scores, MH_KEY_TILE, false);
    kernels->softmax_step(count, n, p->scale, x->scores, 0, max, x->sums, x->out, 0);
    kernels->f32.multiply(count, width, n, x->scores, MH_KEY_TILE, x->values, x->value_stride,
                          x->out, width, false);
    float sums[MOST_STRIP], logs[MOST_STRIP] = {0};
    mh_attention_sums(job, count, x->sums, sums, logs);
    for (size_t r = 0; r < count; r++, at[2]++)
        finish_row(job, at, max[r], sums[r], logs[r], x->out + r * width);
}

void mh_attention_straight(void *arg, size_t task, size_t worker)
{
    const mh_attention_job *job = arg;
    const mh_attention_problem *p = job->problem;
    const size_t begin = task * job->share, end = mh_smaller(begin + job->share, p->B * p->G);
    const size_t heads = p->heads_per_group, rows = job->kernels->f32.rows;
    operands x;
    (void)worker;
    for (size_t i = begin; i < end; i++) {
        const mh_sequence sequence = mh_attention_sequence(p, i / p->G);
        x.sequence = &sequence;
        load_keys(job, i % p->G, &x);
        for (size_t h = 0; h < heads; h++)
            for (size_t first = 0; first < sequence.T; first += rows)
                attend_rows(job, i % p->G * heads + h, first, mh_smaller(sequence.T - first, rows),
                            &x);
    }
}
