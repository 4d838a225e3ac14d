// SPDX-License-Identifier: MIT
// The chunks of a cache; see kv_chunks.h.
#include "ops/kv_chunks.h"
#include "base/sizes.h"
#include <string.h>

void *mh_kv_allocate(const mh_kv_cache *cache, size_t bytes)
{
    return cache->allocator.alloc(cache->allocator.user, bytes, 64);
}

void mh_kv_release(const mh_kv_cache *cache, void *memory, size_t bytes)
{
    if (memory)
        cache->allocator.release(cache->allocator.user, memory, bytes);
}

static size_t header_bytes(const mh_kv_cache *cache)
{
    size_t bytes = sizeof(mh_kv_chunk) + cache->options.heads * sizeof(bool);
    return (bytes + 63) / 64 * 64;
}

static size_t chunk_bytes(const mh_kv_cache *cache, size_t places)
{
    return header_bytes(cache) + cache->options.heads * mh_kv_form_bytes(&cache->form, places);
}

static mh_kv_chunk **spare_of(mh_kv_cache *cache, size_t places)
{
    return &cache->spare[places == MH_KV_CHUNK ? 2 : places == MH_KV_CHUNK / 2];
}

void *mh_kv_tile_at(const mh_kv_cache *cache, const mh_kv_chunk *chunk, size_t places, size_t head)
{
    return (char *)chunk + header_bytes(cache) + head * mh_kv_form_bytes(&cache->form, places);
}

static void make_spare(mh_kv_cache *cache, mh_kv_chunk *chunk)
{
    mh_kv_chunk **spare = spare_of(cache, chunk->places);
    chunk->next = *spare;
    *spare = chunk;
}

// New spare chunks, to be taken in the order in which they lie; false if there is no memory.
static bool add_slab(mh_kv_cache *cache, size_t places)
{
    enum { HEADER = 64, MOST_BYTES = 4 << 20 };
    const size_t chunk = chunk_bytes(cache, places);
    const size_t wanted = mh_smaller(cache->slab_bytes / 4, MOST_BYTES);
    const size_t count = mh_larger(wanted / chunk, 1), bytes = HEADER + count * chunk;
    mh_kv_slab *slab = mh_kv_allocate(cache, bytes);
    if (!slab)
        return false;
    *slab = (mh_kv_slab){cache->slabs, bytes};
    cache->slabs = slab;
    cache->slab_bytes += bytes;
    for (size_t i = count; i-- > 0;) {
        mh_kv_chunk *spare = (mh_kv_chunk *)((char *)slab + HEADER + i * chunk);
        spare->places = places;
        make_spare(cache, spare);
    }
    return true;
}

static mh_kv_chunk *take_chunk(mh_kv_cache *cache, size_t places)
{
    mh_kv_chunk **spare = spare_of(cache, places), *chunk;
    if (!*spare && !add_slab(cache, places))
        return NULL;
    chunk = *spare;
    *spare = chunk->next;
    return chunk;
}

// One with what another one holds, or an empty one for NULL.
static mh_kv_chunk *make_chunk(mh_kv_cache *cache, size_t places, const mh_kv_chunk *like)
{
    mh_kv_chunk *chunk = take_chunk(cache, places);
    if (!chunk)
        return NULL;
    *chunk = (mh_kv_chunk){.references = 1,
                           .places = places,
                           .used = like ? like->used : 0,
                           .finite = (bool *)(chunk + 1)};
    for (size_t head = 0; head < cache->options.heads; head++) {
        chunk->finite[head] = like ? like->finite[head] : true;
        if (like)
            mh_kv_form_copy(&cache->form, like->used, like->places,
                            mh_kv_tile_at(cache, like, like->places, head), places,
                            mh_kv_tile_at(cache, chunk, places, head));
    }
    cache->held += chunk_bytes(cache, places);
    return chunk;
}

static void leave(mh_kv_cache *cache, mh_kv_chunk *chunk)
{
    if (!chunk || --chunk->references > 0)
        return;
    make_spare(cache, chunk);
    cache->held -= chunk_bytes(cache, chunk->places);
}

// Of chunk number `index`, for `needed` places.
static size_t choose_places(const mh_kv_cache *cache, size_t index, size_t needed)
{
    size_t places = mh_kv_form_least_places(&cache->form);
    while (places < MH_KV_CHUNK && (index || places < needed))
        places *= 2;
    return places;
}

// Room in the list for chunk number `index`.
static bool reserve(mh_kv_cache *cache, mh_kv_sequence *sequence, size_t index)
{
    if (index < sequence->capacity)
        return true;
    size_t capacity = 2 * index + 8;
    mh_kv_chunk **chunks = mh_kv_allocate(cache, capacity * sizeof *chunks);
    if (!chunks)
        return false;
    if (sequence->count)
        memcpy(chunks, sequence->chunks, sequence->count * sizeof *chunks);
    mh_kv_release(cache, sequence->chunks, sequence->capacity * sizeof *chunks);
    sequence->chunks = chunks;
    sequence->capacity = capacity;
    return true;
}

bool mh_kv_make_room(mh_kv_cache *cache, size_t b, size_t count)
{
    mh_kv_sequence *sequence = &cache->sequences[b];
    const size_t length = (size_t)cache->lengths[b];
    for (size_t i = length / MH_KV_CHUNK; count > 0 && i <= (length + count - 1) / MH_KV_CHUNK;
         i++) {
        if (!reserve(cache, sequence, i))
            return false;
        mh_kv_chunk *old = i < sequence->count ? sequence->chunks[i] : NULL;
        const size_t used = mh_larger(old ? old->used : 0,
                                      mh_smaller(MH_KV_CHUNK, length + count - i * MH_KV_CHUNK));
        const bool alone = old && old->references == 1 && used <= old->places;
        mh_kv_chunk *own = alone ? old : make_chunk(cache, choose_places(cache, i, used), old);
        if (!own)
            return false;
        if (!alone)
            leave(cache, old);
        sequence->chunks[i] = own;
        sequence->count = i < sequence->count ? sequence->count : i + 1;
        own->used = used;
    }
    return true;
}

// Keys that are further than the window before the next token are no longer needed.
void mh_kv_forget(mh_kv_cache *cache, size_t b)
{
    mh_kv_sequence *sequence = &cache->sequences[b];
    const int64_t needed = cache->lengths[b] - cache->options.window;
    size_t *i = &sequence->forgotten;
    for (; cache->options.window >= 0 && *i < sequence->count &&
           (int64_t)((*i + 1) * MH_KV_CHUNK) <= needed;
         ++*i) {
        leave(cache, sequence->chunks[*i]);
        sequence->chunks[*i] = NULL;
    }
}

bool mh_kv_share(mh_kv_cache *cache, const mh_kv_sequence *from, mh_kv_sequence *to)
{
    *to = (mh_kv_sequence){0};
    if (from->count == 0)
        return true;
    to->chunks = mh_kv_allocate(cache, from->count * sizeof *to->chunks);
    if (!to->chunks)
        return false;
    to->count = to->capacity = from->count;
    to->forgotten = from->forgotten;
    for (size_t i = 0; i < from->count; i++) {
        to->chunks[i] = from->chunks[i];
        if (to->chunks[i])
            to->chunks[i]->references++;
    }
    return true;
}

void mh_kv_cut(mh_kv_cache *cache, mh_kv_sequence *sequence, size_t kept)
{
    for (size_t i = kept; i < sequence->count; i++)
        leave(cache, sequence->chunks[i]);
    sequence->count = mh_smaller(kept, sequence->count);
    sequence->forgotten = mh_smaller(kept, sequence->forgotten);
}

void mh_kv_empty(mh_kv_cache *cache, mh_kv_sequence *sequence)
{
    mh_kv_cut(cache, sequence, 0);
    mh_kv_release(cache, sequence->chunks, sequence->capacity * sizeof *sequence->chunks);
    *sequence = (mh_kv_sequence){0};
}

void mh_kv_free_slabs(mh_kv_cache *cache)
{
    for (mh_kv_slab *slab = cache->slabs, *next; slab; slab = next) {
        next = slab->next;
        mh_kv_release(cache, slab, slab->bytes);
    }
}
