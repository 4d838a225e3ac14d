// SPDX-License-Identifier: MIT
// The KV cache: creation, appending, sharing, forgetting, and reads by attention. kv_blocks.h
// manages its memory, kv_layout.h the layout of a tile.
#include "base/compiler.h"
#include "base/context.h"
#include "base/size_math.h"
#include "base/sized_struct.h"
#include "ops/cache/kv_internal.h"
#include "ops/row_io.h"
#include "ops/tensor_check.h"
#include <string.h>

// ---- creation -----------------------------------------------------------------------------------

enum { MOST_HEADS = 1 << 20 };
static const size_t MOST_SEQUENCES = SIZE_MAX / 128; // their arrays never overflow a size_t

static mh_status kv_cache_check_options(mh_context *context, const mh_kv_cache_options *o)
{
    const size_t value_width = o->value_width ? o->value_width : o->key_width;
    if (o->sequences > MOST_SEQUENCES || o->heads < 1 || o->heads > MOST_HEADS)
        return mh_fail(context, MH_ERROR_ARGUMENT,
                       "kv_cache: found %zu sequences and %zu heads, expected at most %zu "
                       "sequences and 1 to %d heads",
                       o->sequences, o->heads, MOST_SEQUENCES, MOST_HEADS);
    if (o->key_width < 1 || o->key_width > MH_MAX_HEAD_DIM || value_width > MH_MAX_HEAD_DIM)
        return mh_fail(context, MH_ERROR_ARGUMENT,
                       "kv_cache: found widths %zu and %zu, expected 1 to %d", o->key_width,
                       value_width, MH_MAX_HEAD_DIM);
    if (o->window < -1)
        return mh_fail(context, MH_ERROR_ARGUMENT, "window: found %lld, expected -1 or more",
                       (long long)o->window);
    if (!mh_rows_supported(o->dtype))
        return mh_fail(context, MH_ERROR_UNSUPPORTED,
                       "kv_cache: found dtype %s, expected f32, bf16 or f16",
                       mh_dtype_name(o->dtype));
    return MH_OK;
}

mh_status mh_kv_cache_create(mh_context *context, const mh_kv_cache_options *options,
                             mh_kv_cache **cache)
{
    if (mh_need(context, cache, "cache"))
        return MH_ERROR_ARGUMENT;
    *cache = NULL;
    mh_kv_cache_options own = mh_kv_cache_options_default();
    MH_TRY(mh_need(context, options, "options"));
    MH_TRY(MH_READ_STRUCT(context, mh_kv_cache_options, options, &own));
    MH_TRY(kv_cache_check_options(context, &own));
    mh_kv_cache *c = mh_alloc(context, sizeof *c);
    if (!c)
        return MH_ERROR_MEMORY;
    *c = (mh_kv_cache){.options = own, .allocator = context->allocator};
    c->options.sequences = 0;
    if (!c->options.value_width)
        c->options.value_width = own.key_width;
    c->layout = mh_kv_layout_of(context->kernels, own.dtype, own.key_width, c->options.value_width);
    const mh_status status = mh_kv_cache_extend(context, c, own.sequences);
    if (status)
        mh_kv_cache_free(c);
    else
        *cache = c;
    return status;
}

void mh_kv_cache_free(mh_kv_cache *cache)
{
    if (!cache)
        return;
    const mh_allocator allocator = cache->allocator;
    for (size_t b = 0; b < cache->options.sequences; b++)
        mh_kv_empty(cache, &cache->sequences[b]);
    mh_kv_free_slabs(cache);
    mh_kv_release(cache, cache->sequences, cache->capacity * sizeof *cache->sequences);
    mh_kv_release(cache, cache->lengths, cache->capacity * sizeof *cache->lengths);
    allocator.release(allocator.user, cache, sizeof *cache);
}

// Replaces the arrays of sequences and lengths, whose elements have been moved or released.
static void replace_arrays(mh_kv_cache *cache, mh_kv_sequence *sequences, int64_t *lengths,
                           size_t capacity)
{
    mh_kv_release(cache, cache->sequences, cache->capacity * sizeof *sequences);
    mh_kv_release(cache, cache->lengths, cache->capacity * sizeof *lengths);
    cache->sequences = sequences;
    cache->lengths = lengths;
    cache->capacity = capacity;
}

mh_status mh_kv_cache_reserve(mh_context *context, mh_kv_cache *cache, size_t sequences)
{
    const size_t count = cache->options.sequences;
    if (sequences <= cache->capacity)
        return MH_OK;
    const size_t capacity = mh_larger(sequences, cache->capacity + cache->capacity / 2);
    mh_kv_sequence *lists = mh_kv_allocate(cache, capacity * sizeof *lists);
    int64_t *lengths = mh_kv_allocate(cache, capacity * sizeof *lengths);
    if (!lists || !lengths) {
        mh_kv_release(cache, lists, capacity * sizeof *lists);
        mh_kv_release(cache, lengths, capacity * sizeof *lengths);
        return mh_fail(context, MH_ERROR_MEMORY, "kv_cache: out of memory for %zu sequences",
                       sequences);
    }
    if (count > 0) {
        memcpy(lists, cache->sequences, count * sizeof *lists);
        memcpy(lengths, cache->lengths, count * sizeof *lengths);
    }
    replace_arrays(cache, lists, lengths, capacity);
    return MH_OK;
}

mh_status mh_kv_cache_extend(mh_context *context, mh_kv_cache *cache, size_t count)
{
    MH_TRY(mh_need(context, cache, "cache"));
    const size_t before = cache->options.sequences;
    if (count > MOST_SEQUENCES - before)
        return mh_fail(context, MH_ERROR_ARGUMENT,
                       "count: found %zu more than %zu sequences, expected at most %zu", count,
                       before, MOST_SEQUENCES);
    MH_TRY(mh_kv_cache_reserve(context, cache, before + count));
    for (size_t b = before; b < before + count; b++) {
        cache->sequences[b] = (mh_kv_sequence){0};
        cache->lengths[b] = 0;
    }
    cache->options.sequences = before + count;
    return MH_OK;
}

// ---- appending ----------------------------------------------------------------------------------

typedef struct append_job {
    mh_kv_cache *cache;
    const mh_kernels *kernels;
    const int64_t *counts; // or NULL: T each
    const int64_t *starts; // or NULL: not packed
    const mh_tensor *k, *v;
} append_job;

static size_t kv_cache_count_of(const append_job *job, size_t b)
{
    if (job->starts)
        return (size_t)(job->starts[b + 1] - job->starts[b]);
    return job->counts ? (size_t)job->counts[b] : job->k->shape[2];
}

static void append_head(void *arg, size_t index, size_t worker)
{
    const append_job *job = arg;
    mh_kv_cache *cache = job->cache;
    const size_t b = index / cache->options.heads, head = index % cache->options.heads;
    const size_t length = (size_t)cache->lengths[b], count = kv_cache_count_of(job, b);
    const size_t batch = job->starts ? 0 : b, first = job->starts ? (size_t)job->starts[b] : 0;
    (void)worker;
    for (size_t t = 0, run; t < count; t += run) {
        const size_t position = length + t, at[3] = {batch, head, first + t};
        mh_kv_block *block = cache->sequences[b].blocks[position / MH_KV_BLOCK];
        run = mh_smaller(MH_KV_BLOCK - position % MH_KV_BLOCK, count - t);
        block->finite[head] &=
            mh_kv_layout_write(&cache->layout, job->kernels, position % MH_KV_BLOCK, run, job->k,
                               mh_element(job->k, 3, at), job->v, mh_element(job->v, 3, at),
                               block->slots, mh_kv_tile_at(cache, block, block->slots, head));
    }
}

// k (batch, G, tokens, E) and v alike.
static mh_status check_append(mh_context *context, const mh_kv_cache *cache, size_t batch,
                              const mh_tensor *k, const mh_tensor *v)
{
    const mh_kv_cache_options *o = &cache->options;
    const struct {
        const char *name;
        const mh_tensor *t;
        size_t width;
    } both[2] = {{"k", k, o->key_width}, {"v", v, o->value_width}};
    for (int i = 0; i < 2; i++) {
        const mh_tensor *t = both[i].t;
        char text[128];
        mh_status status = mh_check_float(context, both[i].name, t, 4);
        if (status)
            return status;
        if (t->shape[0] != batch || t->shape[1] != o->heads || t->shape[2] != k->shape[2] ||
            t->shape[3] != both[i].width)
            return mh_fail(
                context, MH_ERROR_ARGUMENT,
                "%s: found %s, expected (%zu, %zu, tokens, %zu) as the cache was created",
                both[i].name, mh_tensor_describe(t, text, sizeof text), batch, o->heads,
                both[i].width);
    }
    return MH_OK;
}

static mh_status append_tokens(mh_context *context, const append_job *job)
{
    mh_kv_cache *cache = job->cache;
    const size_t sequences = cache->options.sequences;
    for (size_t b = 0; b < sequences; b++) {
        if (mh_kv_make_room(cache, b, kv_cache_count_of(job, b)))
            continue;
        const size_t missing = kv_cache_count_of(job, b);
        for (size_t made = 0; made <= b; made++) // release the room made so far
            mh_kv_cut(cache, &cache->sequences[made],
                      mh_round_up((size_t)cache->lengths[made], MH_KV_BLOCK) / MH_KV_BLOCK);
        return mh_fail(context, MH_ERROR_MEMORY, "kv_cache: out of memory for %zu more tokens",
                       missing);
    }
    for (size_t b = 0; b < sequences; b++)
        mh_kv_forget(cache, b);
    mh_parallel_for(context, sequences * cache->options.heads, append_head, (void *)job);
    for (size_t b = 0; b < sequences; b++)
        cache->lengths[b] += (int64_t)kv_cache_count_of(job, b);
    return MH_OK;
}

mh_status mh_kv_cache_append(mh_context *context, mh_kv_cache *cache, const int64_t *counts,
                             const mh_tensor *k, const mh_tensor *v)
{
    MH_TRY(MH_NEED(context, {"cache", cache}, {"k", k}, {"v", v}));
    MH_TRY(check_append(context, cache, cache->options.sequences, k, v));
    for (size_t b = 0; counts && b < cache->options.sequences; b++)
        if (counts[b] < 0 || (uint64_t)counts[b] > k->shape[2])
            return mh_fail(context, MH_ERROR_ARGUMENT, "counts[%zu]: found %lld, expected 0 to %zu",
                           b, (long long)counts[b], k->shape[2]);
    const append_job job = {cache, context->kernels, counts, NULL, k, v};
    return append_tokens(context, &job);
}

mh_status mh_kv_cache_append_packed(mh_context *context, mh_kv_cache *cache, const int64_t *starts,
                                    const mh_tensor *k, const mh_tensor *v)
{
    MH_TRY(MH_NEED(context, {"cache", cache}, {"starts", starts}, {"k", k}, {"v", v}));
    MH_TRY(check_append(context, cache, 1, k, v));
    for (size_t b = 0; b < cache->options.sequences; b++)
        if (starts[b] < 0 || starts[b + 1] < starts[b] || (uint64_t)starts[b + 1] > k->shape[2])
            return mh_fail(context, MH_ERROR_ARGUMENT,
                           "starts[%zu]: found %lld after %lld, expected no less and at most %zu",
                           b + 1, (long long)starts[b + 1], (long long)starts[b], k->shape[2]);
    const append_job job = {cache, context->kernels, NULL, starts, k, v};
    return append_tokens(context, &job);
}

// ---- sharing and forgetting ---------------------------------------------------------------------

static mh_status check_parents(mh_context *context, const mh_kv_cache *cache, const size_t *parents,
                               size_t count)
{
    const size_t sequences = cache->options.sequences;
    if (count > MOST_SEQUENCES)
        return mh_fail(context, MH_ERROR_ARGUMENT, "count: found %zu, expected at most %zu", count,
                       MOST_SEQUENCES);
    for (size_t b = 0; b < count; b++)
        if (parents[b] >= sequences)
            return mh_fail(context, MH_ERROR_ARGUMENT,
                           "parents[%zu]: found %zu, expected less than %zu", b, parents[b],
                           sequences);
    return MH_OK;
}

static bool is_ascending(const size_t *parents, size_t count)
{
    for (size_t b = 1; b < count; b++)
        if (parents[b] <= parents[b - 1])
            return false;
    return true;
}

// Drops the sequences that are not among the parents, which are in ascending order: in place, so
// that it cannot fail.
static void keep_in_order(mh_kv_cache *cache, const size_t *parents, size_t count)
{
    size_t kept = 0;
    for (size_t b = 0; b < cache->options.sequences; b++) {
        if (kept == count || parents[kept] != b) {
            mh_kv_empty(cache, &cache->sequences[b]);
            continue;
        }
        cache->sequences[kept] = cache->sequences[b];
        cache->lengths[kept++] = cache->lengths[b];
    }
    cache->options.sequences = count;
}

// New lists of the parents' blocks, then the old ones are released.
static bool select_copies(mh_kv_cache *cache, const size_t *parents, size_t count)
{
    mh_kv_sequence *lists = mh_kv_allocate(cache, count * sizeof *lists);
    int64_t *lengths = lists ? mh_kv_allocate(cache, count * sizeof *lengths) : NULL;
    size_t made = 0;
    while (lengths && made < count &&
           mh_kv_share(cache, &cache->sequences[parents[made]], &lists[made])) {
        lengths[made] = cache->lengths[parents[made]];
        made++;
    }
    const bool done = lengths && made == count;
    mh_kv_sequence *unwanted = done ? cache->sequences : lists;
    const size_t unwanted_count = done ? cache->options.sequences : made;
    for (size_t b = 0; b < unwanted_count; b++)
        mh_kv_empty(cache, &unwanted[b]);
    if (done) {
        replace_arrays(cache, lists, lengths, count);
        cache->options.sequences = count;
    } else {
        mh_kv_release(cache, lists, count * sizeof *lists);
        mh_kv_release(cache, lengths, count * sizeof *lengths);
    }
    return done;
}

mh_status mh_kv_cache_select(mh_context *context, mh_kv_cache *cache, const size_t *parents,
                             size_t count)
{
    MH_TRY(mh_need(context, cache, "cache"));
    if (count > 0)
        MH_TRY(mh_need(context, parents, "parents"));
    MH_TRY(check_parents(context, cache, parents, count));
    if (is_ascending(parents, count))
        keep_in_order(cache, parents, count);
    else if (!select_copies(cache, parents, count))
        return mh_fail(context, MH_ERROR_MEMORY,
                       "kv_cache: out of memory while reordering %zu sequences", count);
    return MH_OK;
}

mh_status mh_kv_cache_reorder(mh_context *context, mh_kv_cache *cache, const size_t *parents)
{
    return mh_kv_cache_select(context, cache, parents, cache ? cache->options.sequences : 0);
}

mh_status mh_kv_cache_check_truncate(mh_context *context, const mh_kv_cache *cache, size_t b,
                                     size_t length)
{
    if (b >= cache->options.sequences || length > (size_t)cache->lengths[b])
        return mh_fail(
            context, MH_ERROR_ARGUMENT,
            "truncate: found sequence %zu, length %zu, expected one of %zu sequences and "
            "no more than it has",
            b, length, cache->options.sequences);
    // The next token sees the keys of the window before it.
    const int64_t window = cache->options.window;
    const size_t seen = window < 0 || (uint64_t)window > length ? 0 : length - (size_t)window;
    if (length > 0 && seen < mh_kv_cache_first(cache, b))
        return mh_fail(context, MH_ERROR_ARGUMENT,
                       "truncate: key %zu of sequence %zu has already been released", seen, b);
    return MH_OK;
}

mh_status mh_kv_cache_truncate(mh_context *context, mh_kv_cache *cache, size_t b, size_t length)
{
    MH_TRY(mh_need(context, cache, "cache"));
    MH_TRY(mh_kv_cache_check_truncate(context, cache, b, length));
    const size_t kept = (length + MH_KV_BLOCK - 1) / MH_KV_BLOCK;
    mh_kv_cut(cache, &cache->sequences[b], kept);
    cache->lengths[b] = (int64_t)length;
    return MH_OK;
}

// ---- reading ------------------------------------------------------------------------------------

size_t mh_kv_cache_length(const mh_kv_cache *cache, size_t b)
{
    return b < cache->options.sequences ? (size_t)cache->lengths[b] : 0;
}

size_t mh_kv_cache_bytes(const mh_kv_cache *cache) { return cache->held; }

mh_kv_shape mh_kv_cache_shape(const mh_kv_cache *cache)
{
    const mh_kv_cache_options *o = &cache->options;
    mh_kv_shape shape = {
        o->sequences,   o->heads, o->key_width, o->value_width, cache->layout.value_stride, 0,
        cache->lengths, o->dtype, o->window};
    for (size_t b = 0; b < o->sequences; b++)
        if ((size_t)cache->lengths[b] > shape.longest)
            shape.longest = (size_t)cache->lengths[b];
    return shape;
}

size_t mh_kv_cache_first(const mh_kv_cache *cache, size_t b)
{
    return cache->sequences[b].forgotten * MH_KV_BLOCK;
}

mh_kv_tile mh_kv_cache_tile(const mh_kv_cache *cache, const mh_kernels *kernels, size_t b,
                            size_t head, size_t begin, mh_kv_reading reading, float *keys,
                            float *values)
{
    const mh_kv_block *block = cache->sequences[b].blocks[begin / MH_KV_BLOCK];
    return mh_kv_layout_read(&cache->layout, kernels, block->used, block->slots,
                             mh_kv_tile_at(cache, block, block->slots, head), block->finite[head],
                             reading, keys, values);
}

const void *mh_kv_cache_at(const mh_kv_cache *cache, size_t b, size_t head, size_t begin)
{
    const mh_kv_block *block = cache->sequences[b].blocks[begin / MH_KV_BLOCK];
    MH_PREFETCH_FAR(block);
    return mh_kv_tile_at(cache, block, MH_KV_BLOCK, head);
}

mh_kv_operands mh_kv_cache_operands(const mh_kv_cache *cache, const mh_gemm *gemm, size_t b,
                                    size_t head, size_t begin)
{
    const mh_kv_block *block = cache->sequences[b].blocks[begin / MH_KV_BLOCK];
    return mh_kv_layout_operands(
        &cache->layout, gemm, mh_kv_tile_at(cache, block, block->slots, head), block->finite[head]);
}
