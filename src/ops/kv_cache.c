// SPDX-License-Identifier: MIT
// The cache itself: making, growing, sharing and forgetting chunks; see kv_tiles.h for the layout.
#include "base/context.h"
#include "base/sizes.h"
#include "ops/kv_form.h"
#include "ops/kv_tiles.h"
#include "ops/rows.h"
#include "ops/tensor_check.h"
#include <string.h>

// A chunk is one tile of each head: beams copy a chunk when they part. Sentences have few keys, so
// a sequence's first chunk starts with 16 places and is exchanged for one of 32 and one of 64: 64
// at once took 7 times the memory that was in use, and more time to find it than to read it.
enum { CHUNK = MH_KEY_TILE, SIZES = 3 };

typedef struct kv_chunk {
    size_t references;
    struct kv_chunk *next; // of the spare ones
    size_t places;         // there are
    size_t used;           // that were ever written
    bool *finite;          // (heads)
    char *data;            // (heads, tile)
} kv_chunk;

typedef struct kv_sequence {
    kv_chunk **chunks; // NULL where forgotten
    size_t count, capacity;
} kv_sequence;

struct mh_kv_cache {
    mh_kv_cache_options options;
    mh_allocator allocator;
    mh_kv_form form;
    size_t held;            // bytes of all chunks in use
    kv_chunk *spare[SIZES]; // left by sequences, for the next: beams part and end at every step
    kv_sequence *sequences;
    int64_t *lengths;
};

// ---- chunks --------------------------------------------------------------------------------

static void *allocate(const mh_kv_cache *cache, size_t bytes)
{
    return cache->allocator.alloc(cache->allocator.user, bytes, 64);
}

static void release(const mh_kv_cache *cache, void *memory, size_t bytes)
{
    if (memory)
        cache->allocator.release(cache->allocator.user, memory, bytes);
}

static size_t header_bytes(const mh_kv_cache *cache)
{
    size_t bytes = sizeof(kv_chunk) + cache->options.heads * sizeof(bool);
    return (bytes + 63) / 64 * 64;
}

static size_t chunk_bytes(const mh_kv_cache *cache, size_t places)
{
    return header_bytes(cache) + cache->options.heads * mh_kv_form_bytes(&cache->form, places);
}

static kv_chunk **spare_of(mh_kv_cache *cache, size_t places)
{
    return &cache->spare[places == CHUNK ? 2 : places == CHUNK / 2];
}

static void *tile_at(const mh_kv_cache *cache, const kv_chunk *chunk, size_t head)
{
    return chunk->data + head * mh_kv_form_bytes(&cache->form, chunk->places);
}

static kv_chunk *take_chunk(mh_kv_cache *cache, size_t places)
{
    kv_chunk **spare = spare_of(cache, places), *chunk = *spare;
    if (!chunk)
        return allocate(cache, chunk_bytes(cache, places));
    *spare = chunk->next;
    return chunk;
}

// One with what another one holds, or an empty one for NULL.
static kv_chunk *make_chunk(mh_kv_cache *cache, size_t places, const kv_chunk *like)
{
    kv_chunk *chunk = take_chunk(cache, places);
    if (!chunk)
        return NULL;
    *chunk = (kv_chunk){.references = 1,
                        .places = places,
                        .used = like ? like->used : 0,
                        .finite = (bool *)(chunk + 1),
                        .data = (char *)chunk + header_bytes(cache)};
    for (size_t head = 0; head < cache->options.heads; head++) {
        chunk->finite[head] = like ? like->finite[head] : true;
        if (like)
            mh_kv_form_copy(&cache->form, like->used, like->places, tile_at(cache, like, head),
                            places, tile_at(cache, chunk, head));
    }
    cache->held += chunk_bytes(cache, places);
    return chunk;
}

static void leave_chunk(mh_kv_cache *cache, kv_chunk *chunk)
{
    if (!chunk || --chunk->references > 0)
        return;
    kv_chunk **spare = spare_of(cache, chunk->places);
    chunk->next = *spare;
    *spare = chunk;
    cache->held -= chunk_bytes(cache, chunk->places);
}

// Of chunk number `index`, for `needed` places.
static size_t choose_places(const mh_kv_cache *cache, size_t index, size_t needed)
{
    size_t places = mh_kv_form_least_places(&cache->form);
    while (places < CHUNK && (index || places < needed))
        places *= 2;
    return places;
}

// Room in the list for chunk number `index`.
static bool reserve(mh_kv_cache *cache, kv_sequence *sequence, size_t index)
{
    if (index < sequence->capacity)
        return true;
    size_t capacity = 2 * index + 8;
    kv_chunk **chunks = allocate(cache, capacity * sizeof *chunks);
    if (!chunks)
        return false;
    if (sequence->count)
        memcpy(chunks, sequence->chunks, sequence->count * sizeof *chunks);
    release(cache, sequence->chunks, sequence->capacity * sizeof *chunks);
    sequence->chunks = chunks;
    sequence->capacity = capacity;
    return true;
}

// Chunks of its own for the places length .. length + count - 1.
static bool make_room(mh_kv_cache *cache, size_t b, size_t count)
{
    kv_sequence *sequence = &cache->sequences[b];
    const size_t length = (size_t)cache->lengths[b];
    for (size_t i = length / CHUNK; count > 0 && i <= (length + count - 1) / CHUNK; i++) {
        if (!reserve(cache, sequence, i))
            return false;
        kv_chunk *old = i < sequence->count ? sequence->chunks[i] : NULL;
        const size_t used =
            mh_larger(old ? old->used : 0, mh_smaller(CHUNK, length + count - i * CHUNK));
        const bool alone = old && old->references == 1 && used <= old->places;
        kv_chunk *own = alone ? old : make_chunk(cache, choose_places(cache, i, used), old);
        if (!own)
            return false;
        if (!alone)
            leave_chunk(cache, old);
        sequence->chunks[i] = own;
        sequence->count = i < sequence->count ? sequence->count : i + 1;
        own->used = used;
    }
    return true;
}

// Keys that are further than the window before the next token are no longer needed.
static void forget(mh_kv_cache *cache, size_t b)
{
    kv_sequence *sequence = &cache->sequences[b];
    const int64_t needed = cache->lengths[b] - cache->options.window;
    for (size_t i = 0;
         cache->options.window >= 0 && i < sequence->count && (int64_t)((i + 1) * CHUNK) <= needed;
         i++) {
        leave_chunk(cache, sequence->chunks[i]);
        sequence->chunks[i] = NULL;
    }
}

// ---- making and freeing ----------------------------------------------------------------------

static mh_status check_options(mh_context *context, const mh_kv_cache_options *o)
{
    if (!o || o->struct_size != sizeof *o)
        return mh_fail(context, MH_ERROR_ARGUMENT,
                       "kv_cache: expected options from mh_kv_cache_options_default()");
    const size_t value_width = o->value_width ? o->value_width : o->key_width;
    if (o->sequences < 1 || o->heads < 1 || o->sequences > SIZE_MAX / 64 || o->heads > 1u << 20)
        return mh_fail(context, MH_ERROR_ARGUMENT,
                       "kv_cache: found %zu sequences and %zu heads, expected at least 1",
                       o->sequences, o->heads);
    if (o->key_width < 1 || o->key_width > 1024 || value_width > 1024)
        return mh_fail(context, MH_ERROR_ARGUMENT,
                       "kv_cache: found widths %zu and %zu, expected 1 to 1024", o->key_width,
                       value_width);
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
    *cache = NULL;
    mh_status status = check_options(context, options);
    if (status)
        return status;
    mh_kv_cache *c = mh_alloc(context, sizeof *c);
    if (!c)
        return MH_ERROR_MEMORY;
    *c = (mh_kv_cache){.options = *options, .allocator = context->allocator};
    const size_t sequences = options->sequences;
    if (!c->options.value_width)
        c->options.value_width = options->key_width;
    c->form =
        mh_kv_form_of(context->kernels, options->dtype, options->key_width, c->options.value_width);
    c->sequences = mh_alloc(context, sequences * sizeof *c->sequences);
    if (c->sequences)
        memset(c->sequences, 0, sequences * sizeof *c->sequences);
    c->lengths = mh_alloc(context, sequences * sizeof *c->lengths);
    if (!c->sequences || !c->lengths) {
        mh_kv_cache_free(c);
        return MH_ERROR_MEMORY;
    }
    memset(c->lengths, 0, sequences * sizeof *c->lengths);
    *cache = c;
    return MH_OK;
}

static void empty_sequence(mh_kv_cache *cache, kv_sequence *sequence)
{
    for (size_t i = 0; i < sequence->count; i++)
        leave_chunk(cache, sequence->chunks[i]);
    release(cache, sequence->chunks, sequence->capacity * sizeof *sequence->chunks);
    *sequence = (kv_sequence){0};
}

void mh_kv_cache_free(mh_kv_cache *cache)
{
    if (!cache)
        return;
    for (size_t b = 0; cache->sequences && b < cache->options.sequences; b++)
        empty_sequence(cache, &cache->sequences[b]);
    for (size_t i = 0; i < SIZES; i++)
        for (kv_chunk *chunk = cache->spare[i], *next; chunk; chunk = next) {
            next = chunk->next;
            release(cache, chunk, chunk_bytes(cache, chunk->places));
        }
    release(cache, cache->sequences, cache->options.sequences * sizeof *cache->sequences);
    release(cache, cache->lengths, cache->options.sequences * sizeof *cache->lengths);
    mh_allocator allocator = cache->allocator;
    allocator.release(allocator.user, cache, sizeof *cache);
}

// ---- appending -------------------------------------------------------------------------------

typedef struct append_job {
    mh_kv_cache *cache;
    const mh_kernels *kernels;
    const int64_t *counts; // or NULL: T each
    const mh_tensor *k, *v;
} append_job;

static size_t count_of(const append_job *job, size_t b)
{
    return job->counts ? (size_t)job->counts[b] : job->k->shape[2];
}

static void append_head(void *arg, size_t index, size_t worker)
{
    const append_job *job = arg;
    mh_kv_cache *cache = job->cache;
    const size_t b = index / cache->options.heads, head = index % cache->options.heads;
    const size_t length = (size_t)cache->lengths[b], count = count_of(job, b);
    (void)worker;
    for (size_t t = 0, run; t < count; t += run) {
        const size_t place = length + t, at[3] = {b, head, t};
        kv_chunk *chunk = cache->sequences[b].chunks[place / CHUNK];
        run = mh_smaller(CHUNK - place % CHUNK, count - t);
        chunk->finite[head] &= mh_kv_form_write(
            &cache->form, job->kernels, place % CHUNK, run, job->k, mh_element(job->k, 3, at),
            job->v, mh_element(job->v, 3, at), chunk->places, tile_at(cache, chunk, head));
    }
}

static mh_status check_append(mh_context *context, const mh_kv_cache *cache, const int64_t *counts,
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
        if (t->shape[0] != o->sequences || t->shape[1] != o->heads || t->shape[2] != k->shape[2] ||
            t->shape[3] != both[i].width)
            return mh_fail(context, MH_ERROR_ARGUMENT,
                           "%s: found %s, expected (%zu, %zu, tokens, %zu) as the cache was made",
                           both[i].name, mh_tensor_describe(t, text, sizeof text), o->sequences,
                           o->heads, both[i].width);
    }
    for (size_t b = 0; counts && b < o->sequences; b++)
        if (counts[b] < 0 || (uint64_t)counts[b] > k->shape[2])
            return mh_fail(context, MH_ERROR_ARGUMENT, "counts[%zu]: found %lld, expected 0 to %zu",
                           b, (long long)counts[b], k->shape[2]);
    return MH_OK;
}

mh_status mh_kv_cache_append(mh_context *context, mh_kv_cache *cache, const int64_t *counts,
                             const mh_tensor *k, const mh_tensor *v)
{
    mh_status status = check_append(context, cache, counts, k, v);
    if (status)
        return status;
    append_job job = {cache, context->kernels, counts, k, v};
    const size_t sequences = cache->options.sequences;
    for (size_t b = 0; b < sequences; b++)
        if (!make_room(cache, b, count_of(&job, b)))
            return mh_fail(context, MH_ERROR_MEMORY, "kv_cache: no memory for %zu more tokens",
                           count_of(&job, b));
    for (size_t b = 0; b < sequences; b++)
        forget(cache, b);
    mh_parallel_for(context, sequences * cache->options.heads, append_head, &job);
    for (size_t b = 0; b < sequences; b++)
        cache->lengths[b] += (int64_t)count_of(&job, b);
    return MH_OK;
}

// ---- sharing and forgetting ------------------------------------------------------------------

// A list of the same chunks, each counted once more.
static bool share(mh_kv_cache *cache, const kv_sequence *from, kv_sequence *to)
{
    *to = (kv_sequence){0};
    if (from->count == 0)
        return true;
    to->chunks = allocate(cache, from->count * sizeof *to->chunks);
    if (!to->chunks)
        return false;
    to->count = to->capacity = from->count;
    for (size_t i = 0; i < from->count; i++) {
        to->chunks[i] = from->chunks[i];
        if (to->chunks[i])
            to->chunks[i]->references++;
    }
    return true;
}

static mh_status check_parents(mh_context *context, const mh_kv_cache *cache, const size_t *parents,
                               size_t count)
{
    const size_t sequences = cache->options.sequences;
    if (count < 1 || count > SIZE_MAX / 64)
        return mh_fail(context, MH_ERROR_ARGUMENT, "count: found %zu, expected at least 1", count);
    for (size_t b = 0; b < count; b++)
        if (parents[b] >= sequences)
            return mh_fail(context, MH_ERROR_ARGUMENT,
                           "parents[%zu]: found %zu, expected less than %zu", b, parents[b],
                           sequences);
    return MH_OK;
}

mh_status mh_kv_cache_select(mh_context *context, mh_kv_cache *cache, const size_t *parents,
                             size_t count)
{
    const size_t before = cache->options.sequences;
    mh_status status = check_parents(context, cache, parents, count);
    if (status)
        return status;
    kv_sequence *lists = mh_alloc(context, count * sizeof *lists);
    int64_t *lengths = lists ? mh_alloc(context, count * sizeof *lengths) : NULL;
    size_t made = 0;
    while (lengths && made < count &&
           share(cache, &cache->sequences[parents[made]], &lists[made])) {
        lengths[made] = cache->lengths[parents[made]];
        made++;
    }
    const bool done = lengths && made == count;
    kv_sequence *unwanted = done ? cache->sequences : lists;
    const size_t unwanted_count = done ? before : made;
    for (size_t b = 0; b < unwanted_count; b++)
        empty_sequence(cache, &unwanted[b]);
    mh_free(context, unwanted, (done ? before : count) * sizeof *unwanted);
    if (!done) {
        mh_free(context, lengths, count * sizeof *lengths);
        return mh_fail(context, MH_ERROR_MEMORY, "kv_cache: no memory to reorder %zu sequences",
                       count);
    }
    mh_free(context, cache->lengths, before * sizeof *lengths);
    cache->sequences = lists;
    cache->lengths = lengths;
    cache->options.sequences = count;
    return MH_OK;
}

mh_status mh_kv_cache_reorder(mh_context *context, mh_kv_cache *cache, const size_t *parents)
{
    return mh_kv_cache_select(context, cache, parents, cache->options.sequences);
}

mh_status mh_kv_cache_truncate(mh_context *context, mh_kv_cache *cache, size_t b, size_t length)
{
    if (b >= cache->options.sequences || length > (size_t)cache->lengths[b])
        return mh_fail(
            context, MH_ERROR_ARGUMENT,
            "truncate: found sequence %zu, length %zu, expected one of %zu sequences and "
            "no more than it has",
            b, length, cache->options.sequences);
    kv_sequence *sequence = &cache->sequences[b];
    const size_t last = length / CHUNK;
    if (length % CHUNK && !sequence->chunks[last])
        return mh_fail(context, MH_ERROR_ARGUMENT,
                       "truncate: key %zu of sequence %zu is already forgotten", length - 1, b);
    const size_t kept = (length + CHUNK - 1) / CHUNK;
    for (size_t i = kept; i < sequence->count; i++)
        leave_chunk(cache, sequence->chunks[i]);
    sequence->count = kept < sequence->count ? kept : sequence->count;
    cache->lengths[b] = (int64_t)length;
    return MH_OK;
}

// ---- looking ---------------------------------------------------------------------------------

size_t mh_kv_cache_length(const mh_kv_cache *cache, size_t b)
{
    return b < cache->options.sequences ? (size_t)cache->lengths[b] : 0;
}

size_t mh_kv_cache_bytes(const mh_kv_cache *cache) { return cache->held; }

mh_kv_shape mh_kv_cache_shape(const mh_kv_cache *cache)
{
    const mh_kv_cache_options *o = &cache->options;
    mh_kv_shape shape = {
        o->sequences,   o->heads, o->key_width, o->value_width, cache->form.value_stride, 0,
        cache->lengths, o->dtype, o->window};
    for (size_t b = 0; b < o->sequences; b++)
        if ((size_t)cache->lengths[b] > shape.longest)
            shape.longest = (size_t)cache->lengths[b];
    return shape;
}

mh_kv_tile mh_kv_cache_tile(const mh_kv_cache *cache, const mh_kernels *kernels, size_t b,
                            size_t head, size_t begin, float *keys, float *values)
{
    const kv_chunk *chunk = cache->sequences[b].chunks[begin / CHUNK];
    return mh_kv_form_read(&cache->form, kernels, chunk->used, chunk->places,
                           tile_at(cache, chunk, head), chunk->finite[head], keys, values);
}

mh_kv_operands mh_kv_cache_operands(const mh_kv_cache *cache, const mh_product *product, size_t b,
                                    size_t head, size_t begin)
{
    const kv_chunk *chunk = cache->sequences[b].chunks[begin / CHUNK];
    return mh_kv_form_operands(&cache->form, product, tile_at(cache, chunk, head),
                               chunk->finite[head]);
}
