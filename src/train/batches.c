// SPDX-License-Identifier: MIT
// The plan of an epoch; see batches.h.
//
//     shuffle examples -> sort by length -> cut into batches -> shuffle batches
//
// Counting sort is stable: examples of the same lengths keep their random order, identically on
// every machine. Source lengths ascend; target lengths alternately ascend and descend, so that the
// last of one source length and the first of the next are similar, too:
//
//     source  5 5 5 5   6 6 6 6   7 7 7 7
//     target  3 4 6 9   9 8 6 4   4 5 7 9
#include "train/batches.h"

#include "base/size_math.h"
#include "support/grow.h"
#include "train/shuffle.h"

typedef struct planning {
    const mh_dataset *examples;
    size_t n;
    size_t longest;               // length of a side
    uint32_t *order, *next;       // (n)
    uint32_t *cuts, *batch_order; // (n + 1) where batches begin; (n) their order
    uint32_t *counts;             // (longest + 2)
    size_t batches;
    uint32_t *block; // all of these
    size_t block_size;
} planning;

static size_t length_of(const planning *p, size_t side)
{
    return p->examples->starts[side + 1] - p->examples->starts[side];
}

static mh_status batches_allocate(mh_context *context, planning *p)
{
    size_t n = p->n, words, size;
    for (size_t side = 0; side < 2 * n; side++)
        p->longest = mh_larger(p->longest, length_of(p, side));
    if (!mh_multiply_sizes(n, 4, &words) || !mh_add_sizes(words, p->longest + 3, &words) ||
        !mh_multiply_sizes(words, sizeof *p->block, &size))
        return mh_fail(context, MH_ERROR_MEMORY, "batches: too many examples: %zu", n);
    p->block = mh_alloc(context, size);
    if (!p->block)
        return MH_ERROR_MEMORY;
    p->block_size = size;
    p->order = p->block;
    p->next = p->order + n;
    p->cuts = p->next + n;
    p->batch_order = p->cuts + n + 1;
    p->counts = p->batch_order + n;
    return MH_OK;
}

static size_t source_key(const planning *p, size_t i) { return length_of(p, 2 * i); }

static size_t target_key(const planning *p, size_t i)
{
    size_t target = length_of(p, 2 * i + 1);
    return length_of(p, 2 * i) % 2 ? target : p->longest - target;
}

// Stable sort of the order by a key of 0 .. longest.
static void sort_by(planning *p, size_t (*key)(const planning *p, size_t i))
{
    memset(p->counts, 0, (p->longest + 2) * sizeof *p->counts);
    for (size_t i = 0; i < p->n; i++)
        p->counts[key(p, i) + 1]++;
    for (size_t k = 0; k < p->longest; k++)
        p->counts[k + 1] += p->counts[k]; // now the number before key k + 1
    for (size_t i = 0; i < p->n; i++)
        p->next[p->counts[key(p, p->order[i])]++] = p->order[i];
    uint32_t *sorted = p->next;
    p->next = p->order;
    p->order = sorted;
}

static void cut(planning *p, size_t budget)
{
    size_t used = 0;
    for (size_t i = 0; i < p->n; i++) {
        size_t k = 2 * (size_t)p->order[i], size = length_of(p, k) + length_of(p, k + 1);
        if (i == 0 || used > budget || size > budget - used) {
            p->cuts[p->batches++] = (uint32_t)i;
            used = 0;
        }
        used += size;
    }
    p->cuts[p->batches] = (uint32_t)p->n;
}

static void count_up(uint32_t *numbers, size_t n)
{
    for (size_t i = 0; i < n; i++)
        numbers[i] = (uint32_t)i;
}

// Copies the batches in their random order.
static mh_status hand_out(mh_context *context, const planning *p, mh_batches *out)
{
    if (!mh_grow(context, &out->examples, &out->examples_capacity, p->n, sizeof *out->examples) ||
        !mh_grow(context, &out->starts, &out->starts_capacity, p->batches + 1, sizeof *out->starts))
        return MH_ERROR_MEMORY;
    uint32_t used = 0;
    for (size_t b = 0; b < p->batches; b++) {
        uint32_t begin = p->cuts[p->batch_order[b]], size = p->cuts[p->batch_order[b] + 1] - begin;
        out->starts[b] = used;
        memcpy(out->examples + used, p->order + begin, size * sizeof *p->order);
        used += size;
    }
    out->starts[p->batches] = used;
    out->count = p->batches;
    return MH_OK;
}

mh_status mh_batches_plan(mh_context *context, const mh_dataset *examples,
                          const mh_batch_options *options, uint64_t epoch, mh_batches *batches)
{
    planning p = {.examples = examples, .n = examples->count};
    batches->count = 0;
    if (p.n == 0 || p.n >= UINT32_MAX)
        return mh_fail(context, MH_ERROR_ARGUMENT,
                       "batches: found %zu examples, expected 1 to 4294967294", p.n);
    if (options->tokens == 0)
        return mh_fail(context, MH_ERROR_ARGUMENT, "batches: a batch of 0 tokens, expected more");
    mh_status status = batches_allocate(context, &p);
    if (!status) {
        count_up(p.order, p.n);
        mh_shuffle(options->seed, 2 * epoch, p.order, p.n, p.n);
        sort_by(&p, target_key);
        sort_by(&p, source_key);
        cut(&p, options->tokens);
        count_up(p.batch_order, p.batches);
        mh_shuffle(options->seed, 2 * epoch + 1, p.batch_order, p.batches, p.batches);
        status = hand_out(context, &p, batches);
    }
    mh_free(context, p.block, p.block_size);
    return status;
}

void mh_batches_free(mh_context *context, mh_batches *b)
{
    mh_shrink(context, &b->examples, &b->examples_capacity, sizeof *b->examples);
    mh_shrink(context, &b->starts, &b->starts_capacity, sizeof *b->starts);
    *b = (mh_batches){0};
}
