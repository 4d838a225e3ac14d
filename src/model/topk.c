// SPDX-License-Identifier: MIT
// Top-k and log-softmax while a row is in the cache. Log-softmax is monotonic, so the largest
// logits are selected first, and only those are converted to log-probabilities.
#include "model/topk.h"
#include "base/context.h"
#include "kernels/kernels.h"
#include <math.h>

enum { BLOCK = 32 }; // values that are skipped together if none is large enough

typedef struct job {
    const mh_kernels *kernels;
    float *logits; // (rows, V)
    size_t V, width;
    int32_t special[3]; // <pad>, <s>, </s>
    mh_next *next;      // (rows)
} job;

// A candidate's log_probability is still its logit. Ids ascend, so ties keep the smaller id.
static void insert(mh_next *next, size_t width, int32_t id, float logit)
{
    size_t place = next->count < width ? next->count++ : width - 1;
    for (; place > 0 && next->candidates[place - 1].log_probability < (double)logit; place--)
        next->candidates[place] = next->candidates[place - 1];
    next->candidates[place] = (mh_candidate){id, (double)logit};
}

static bool any_above(const float *x, float threshold)
{
    unsigned any = 0;
    for (size_t i = 0; i < BLOCK; i++)
        any |= x[i] > threshold;
    return any != 0;
}

static void choose(size_t V, const float *x, size_t width, mh_next *next)
{
    float threshold = -INFINITY;
    next->count = 0;
    for (size_t block = 0; block < V; block += BLOCK) {
        if (V - block >= BLOCK && !any_above(x + block, threshold))
            continue;
        for (size_t i = block; i < V && i < block + BLOCK; i++) {
            if (!(x[i] > threshold))
                continue;
            insert(next, width, (int32_t)i, x[i]);
            if (next->count == width)
                threshold = (float)next->candidates[width - 1].log_probability;
        }
    }
}

static void one_row(void *arg, size_t row, size_t worker)
{
    const job *j = arg;
    float *x = j->logits + row * j->V, special[3];
    mh_next *next = &j->next[row];
    (void)worker;
    for (int i = 0; i < 3; i++) {
        special[i] = x[j->special[i]];
        x[j->special[i]] = -INFINITY;
    }
    choose(j->V, x, j->width, next);
    for (int i = 0; i < 3; i++)
        x[j->special[i]] = special[i];
    const mh_softmax_norm norm = j->kernels->rowwise.softmax_row(j->V, x, NULL);
    const double max = (double)norm.max, log_sum = (double)norm.log_sum;
    next->end = ((double)special[2] - max) - log_sum;
    for (size_t i = 0; i < next->count; i++) {
        double *p = &next->candidates[i].log_probability;
        *p = (*p - max) - log_sum;
    }
}

void mh_topk(mh_context *context, const mh_tokenizer *tokenizer, const mh_tensor *logits,
             size_t width, mh_next *next)
{
    job j = {.kernels = context->kernels,
             .logits = logits->data,
             .V = logits->shape[1],
             .width = width,
             .special = {mh_tokenizer_pad(tokenizer), mh_tokenizer_bos(tokenizer),
                         mh_tokenizer_eos(tokenizer)},
             .next = next};
    mh_parallel_for(context, logits->shape[0], one_row, &j);
}
