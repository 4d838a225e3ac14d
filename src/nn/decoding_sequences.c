// SPDX-License-Identifier: MIT
// The sequences of a decoding: adding, dropping, branching and measuring them. Only lists of KV
// blocks change; the blocks of a sequence stay where they are.
#include "base/compiler.h"
#include "base/context.h"
#include "base/release.h"
#include "nn/decoding.h"
#include "nn/tape.h"
#include "ops/cache/kv_internal.h"

mh_status mh_decoding_reserve(mh_context *context, mh_decoding *d, size_t sequences)
{
    if (sequences <= d->capacity)
        return MH_OK;
    const size_t capacity = mh_larger(sequences, 2 * d->capacity);
    size_t *lengths =
        d->allocator.alloc(d->allocator.user, capacity * sizeof *lengths, MH_ARENA_ALIGNMENT);
    if (!lengths)
        return mh_fail(context, MH_ERROR_MEMORY, "decoding: no memory for %zu sequences",
                       sequences);
    mh_release(&d->allocator, d->lengths, d->capacity * sizeof *d->lengths);
    d->lengths = lengths;
    d->capacity = capacity;
    return MH_OK;
}

mh_status mh_decoding_check_whole(mh_context *context, const mh_decoding *d)
{
    return d->broken ? mh_fail(context, MH_ERROR_MEMORY,
                               "decoding: a reorder ran out of memory, it cannot go on")
                     : MH_OK;
}

mh_status mh_decoding_extend(mh_context *context, mh_decoding *decoding, size_t count)
{
    mh_decoding *d = decoding;
    MH_TRY(mh_need(context, d, "decoding"));
    MH_TRY(mh_decoding_check_whole(context, d));
    if (d->transformer->decoder.count)
        return mh_fail(context, MH_ERROR_ARGUMENT,
                       "decoding: found one with a memory, which new sequences would lack; "
                       "expected one of mh_decoding_create_empty");
    if (count > MH_DECODING_SEQUENCES - d->sequences)
        return mh_fail(context, MH_ERROR_ARGUMENT,
                       "count: found %zu more than %zu sequences, expected at most %d in all",
                       count, d->sequences, MH_DECODING_SEQUENCES);
    MH_TRY(mh_decoding_reserve(context, d, d->sequences + count));
    // All memory first: then no cache can fail, and none is ahead of the others.
    for (size_t i = 0; i < d->cache_count; i += 2)
        MH_TRY(mh_kv_cache_reserve(context, d->caches[i], d->sequences + count));
    for (size_t i = 0; i < d->cache_count; i += 2)
        MH_TRY(mh_kv_cache_extend(context, d->caches[i], count));
    d->sequences += count;
    return MH_OK;
}

mh_status mh_decoding_truncate(mh_context *context, mh_decoding *decoding, size_t b, size_t length)
{
    mh_decoding *d = decoding;
    MH_TRY(mh_need(context, d, "decoding"));
    MH_TRY(mh_decoding_check_whole(context, d));
    for (size_t i = 0; i < d->cache_count; i += 2)
        MH_TRY(mh_kv_cache_check_truncate(context, d->caches[i], b, length));
    for (size_t i = 0; i < d->cache_count; i += 2)
        MH_TRY(mh_kv_cache_truncate(context, d->caches[i], b, length));
    return MH_OK;
}

mh_status mh_decoding_select(mh_context *context, mh_decoding *decoding, const size_t *parents,
                             size_t count)
{
    mh_decoding *d = decoding;
    MH_TRY(mh_need(context, d, "decoding"));
    MH_TRY(mh_decoding_check_whole(context, d));
    if (count > 0)
        MH_TRY(mh_need(context, parents, "parents"));
    if (count > MH_DECODING_SEQUENCES)
        return mh_fail(context, MH_ERROR_ARGUMENT, "count: found %zu, expected at most %d", count,
                       MH_DECODING_SEQUENCES);
    MH_TRY(mh_decoding_reserve(context, d, count));
    for (size_t i = 0; i < d->cache_count; i++) {
        if (!d->caches[i])
            continue;
        const mh_status status = mh_kv_cache_select(context, d->caches[i], parents, count);
        d->broken = status && i > 0;
        if (status)
            return status;
    }
    d->sequences = count;
    return MH_OK;
}

mh_status mh_decoding_reorder(mh_context *context, mh_decoding *decoding, const size_t *parents)
{
    MH_TRY(MH_NEED(context, {"decoding", decoding}, {"parents", parents}));
    return mh_decoding_select(context, decoding, parents, decoding->sequences);
}

size_t mh_decoding_sequences(const mh_decoding *decoding) { return decoding->sequences; }

size_t mh_decoding_length(const mh_decoding *decoding, size_t b)
{
    return mh_kv_cache_length(decoding->caches[0], b);
}

size_t mh_decoding_bytes(const mh_decoding *decoding)
{
    size_t bytes = mh_tape_bytes(decoding->tape);
    for (size_t i = 0; i < decoding->cache_count; i++)
        bytes += decoding->caches[i] ? mh_kv_cache_bytes(decoding->caches[i]) : 0;
    return bytes;
}

void mh_decoding_disable_heads(mh_decoding *decoding, const bool *disabled_heads)
{
    decoding->disabled = disabled_heads;
}
