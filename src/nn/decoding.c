// SPDX-License-Identifier: MIT
// Incremental decoding: creation, and reordering of sequences. Each decoder layer has a cache of
// the keys and values of the tokens so far, and one of the memory's, which is filled once at the
// start. A causal encoder (a decoder-only language model) has no memory, and only the first.
#include "nn/decoding.h"
#include "base/context.h"
#include "nn/flatten.h"
#include "nn/tape.h"
#include <multihead/ops.h>
#include <string.h>

void mh_decoding_free(mh_decoding *d)
{
    if (!d)
        return;
    for (size_t i = 0; d->caches && i < d->cache_count; i++)
        mh_kv_cache_free(d->caches[i]);
    mh_release(&d->allocator, d->caches, d->cache_count * sizeof *d->caches);
    mh_tape_free(d->tape);
    mh_packed_weights_free(d->own);
    d->allocator.release(d->allocator.user, d, sizeof *d);
}

// A decoding without caches.
static mh_status make(mh_context *context, const mh_transformer *transformer,
                      const mh_packed_weights *packed, size_t sequences, mh_decoding **decoding)
{
    mh_decoding *d = mh_alloc(context, sizeof *d);
    if (!d)
        return MH_ERROR_MEMORY;
    *d = (mh_decoding){.allocator = context->allocator,
                       .transformer = transformer,
                       .packed = packed,
                       .sequences = sequences,
                       .cache_count = 2 * mh_decoding_stack(transformer).count};
    d->caches = mh_alloc(context, d->cache_count * sizeof *d->caches);
    if (d->caches)
        memset(d->caches, 0, d->cache_count * sizeof *d->caches);
    mh_status status = d->caches ? mh_tape_create(context, &d->tape) : MH_ERROR_MEMORY;
    if (status)
        mh_decoding_free(d);
    else
        *decoding = d;
    return status;
}

// ---- the memory ------------------------------------------------------------------------------

// The memory's keys and values of one layer, for the first sequences; the others share them later.
static mh_status fill_cache(mh_context *context, const mh_decoding *d, const mh_layer *layer,
                            const mh_tensor *memory, const mh_batch *batch, const int64_t *counts,
                            float *kv, mh_kv_cache *cache, size_t sequences)
{
    const mh_transformer *t = d->transformer;
    const size_t D = t->config.d_model, H = t->config.nhead, rows = mh_batch_rows(batch);
    const mh_attention_layer *a = &layer->cross;
    mh_linear_options o = mh_linear_options_default();
    mh_tensor y = mh_tensor_2d(kv, MH_F32, rows, 2 * D);
    mh_affine map = {a->k_weight, MH_NO_PARAMETER, t->config.precision};
    if (a->in_bias != MH_NO_PARAMETER)
        map.bias = a->in_bias + (ptrdiff_t)D;
    o.packed = mh_packed_weight(context, d->packed, a->k_weight);
    mh_status status = mh_affine_forward(context, &map, t->parameters.values, &o, memory, &y);
    if (status)
        return status;
    mh_tensor k = mh_tensor_4d(kv, MH_F32, sequences, H, batch->length, D / H);
    k.stride[0] = (ptrdiff_t)(batch->batch_step * 2 * D);
    k.stride[1] = (ptrdiff_t)(D / H);
    k.stride[2] = (ptrdiff_t)(batch->token_step * 2 * D);
    mh_tensor v = k;
    v.data = kv + D;
    return mh_kv_cache_append(context, cache, counts, &k, &v);
}

static mh_status make_cache(mh_context *context, const mh_transformer *t, size_t sequences,
                            mh_kv_cache **cache)
{
    mh_kv_cache_options o = mh_kv_cache_options_default();
    o.sequences = sequences;
    o.heads = t->config.nhead;
    o.key_width = t->config.d_model / t->config.nhead;
    return mh_kv_cache_create(context, &o, cache);
}

// Sequence b * copies + i has memory b.
static mh_status spread(mh_context *context, mh_decoding *d, size_t copies, size_t *parents)
{
    mh_status status = MH_OK;
    for (size_t i = 0; i < d->sequences; i++)
        parents[i] = i / copies;
    for (size_t i = 0; i < d->transformer->decoder_count && copies > 1 && !status; i++)
        status = mh_kv_cache_reorder(context, d->caches[2 * i + 1], parents);
    return status;
}

typedef struct memory_call {
    mh_tensor memory; // (rows, D)
    mh_batch batch;
    int64_t *counts; // (sequences)
    size_t *parents; // (sequences)
    float *kv;       // (rows, 2 D)
    float *copy;
} memory_call;

static void layout_memory(const mh_transformer *t, const mh_tensor *memory, size_t sequences,
                          mh_arena *arena, memory_call *m)
{
    const size_t rows = mh_batch_rows(&m->batch);
    m->counts = mh_arena_take(arena, sequences, sizeof *m->counts);
    m->parents = mh_arena_take(arena, sequences, sizeof *m->parents);
    m->kv = mh_arena_take(arena, 2 * rows * t->config.d_model, sizeof(float));
    m->copy = mh_rows_take(arena, memory);
}

static mh_status load_memory(mh_context *context, mh_decoding *d, const mh_tensor *memory,
                             const int64_t *lengths, size_t copies, memory_call *m)
{
    const mh_transformer *t = d->transformer;
    const mh_stack stack = mh_decoder_stack(t);
    const size_t B = m->batch.sequences;
    for (size_t i = 0; i < d->sequences; i++)
        m->counts[i] = i >= B ? 0 : lengths ? lengths[i] : (int64_t)m->batch.length;
    mh_status status = mh_rows_of(context, memory, m->copy, true, &m->memory);
    for (size_t i = 0; i < stack.count && !status; i++) {
        status = make_cache(context, t, d->sequences, &d->caches[2 * i]);
        if (!status)
            status = make_cache(context, t, d->sequences, &d->caches[2 * i + 1]);
        if (!status)
            status = fill_cache(context, d, &stack.layers[i], &m->memory, &m->batch, m->counts,
                                m->kv, d->caches[2 * i + 1], d->sequences);
    }
    return status ? status : spread(context, d, copies, m->parents);
}

static mh_status check_memory(mh_context *context, const mh_transformer *t, const mh_tensor *memory,
                              const int64_t *lengths, size_t copies, mh_batch *batch)
{
    if (!t->decoder_count)
        return mh_fail(context, MH_ERROR_ARGUMENT,
                       "transformer: expected one with a decoder; for an encoder use "
                       "mh_decoding_create_causal");
    mh_status status =
        mh_batch_of(context, "memory", memory, t->config.d_model, t->config.batch_first, batch);
    if (status)
        return status;
    if (copies < 1 || copies > 1 << 16)
        return mh_fail(context, MH_ERROR_ARGUMENT, "copies: found %zu, expected 1 to %d", copies,
                       1 << 16);
    for (size_t b = 0; b < batch->sequences && lengths; b++)
        if (lengths[b] < 0 || (size_t)lengths[b] > batch->length)
            return mh_fail(context, MH_ERROR_ARGUMENT,
                           "lengths[%zu]: found %lld, expected 0 to %zu", b, (long long)lengths[b],
                           batch->length);
    return MH_OK;
}

mh_status mh_decoding_create_packed(mh_context *context, const mh_transformer *transformer,
                                    const mh_packed_weights *packed, const mh_tensor *memory,
                                    const int64_t *lengths, size_t copies, mh_decoding **decoding)
{
    if (MH_NEED(context, {"transformer", transformer}, {"decoding", decoding}))
        return MH_ERROR_ARGUMENT;
    *decoding = NULL;
    memory_call m = {0};
    mh_decoding *d = NULL;
    mh_status status = mh_check_packed_weights(context, transformer, packed);
    if (!status)
        status = check_memory(context, transformer, memory, lengths, copies, &m.batch);
    if (!status)
        status = make(context, transformer, packed, m.batch.sequences * copies, &d);
    if (status)
        return status;
    mh_arena arena = {0};
    layout_memory(transformer, memory, d->sequences, &arena, &m);
    status = mh_tape_begin(context, d->tape, &arena);
    if (!status) {
        layout_memory(transformer, memory, d->sequences, &arena, &m);
        status = load_memory(context, d, memory, lengths, copies, &m);
    }
    if (status) {
        mh_decoding_free(d);
        return status;
    }
    *decoding = d;
    return MH_OK;
}

// Packs the weights of the steps; takes ownership of the decoding, and frees it on failure.
static mh_status pack(mh_context *context, mh_decoding *d, mh_decoding **decoding)
{
    mh_status status = mh_packed_weights_create(context, d->transformer, false, &d->own);
    d->packed = d->own;
    *decoding = status ? NULL : d;
    if (status)
        mh_decoding_free(d);
    return status;
}

mh_status mh_decoding_create(mh_context *context, const mh_transformer *transformer,
                             const mh_tensor *memory, const int64_t *lengths, size_t copies,
                             mh_decoding **decoding)
{
    mh_decoding *d;
    if (MH_NEED(context, {"transformer", transformer}, {"decoding", decoding}))
        return MH_ERROR_ARGUMENT;
    *decoding = NULL;
    mh_status status =
        mh_decoding_create_packed(context, transformer, NULL, memory, lengths, copies, &d);
    return status ? status : pack(context, d, decoding);
}

mh_status mh_decoding_create_causal(mh_context *context, const mh_transformer *transformer,
                                    size_t sequences, mh_decoding **decoding)
{
    mh_decoding *d = NULL;
    if (MH_NEED(context, {"transformer", transformer}, {"decoding", decoding}))
        return MH_ERROR_ARGUMENT;
    *decoding = NULL;
    if (transformer->decoder_count || !transformer->encoder_count)
        return mh_fail(
            context, MH_ERROR_ARGUMENT,
            "transformer: expected an encoder with layers; for a model with a decoder use "
            "mh_decoding_create");
    if (sequences < 1)
        return mh_fail(context, MH_ERROR_ARGUMENT, "sequences: found 0, expected at least 1");
    mh_status status = make(context, transformer, NULL, sequences, &d);
    if (status)
        return status;
    for (size_t i = 0; i < transformer->encoder_count && !status; i++)
        status = make_cache(context, transformer, sequences, &d->caches[2 * i]);
    if (status) {
        mh_decoding_free(d);
        return status;
    }
    return pack(context, d, decoding);
}

mh_status mh_decoding_check_whole(mh_context *context, const mh_decoding *d)
{
    return d->broken ? mh_fail(context, MH_ERROR_MEMORY,
                               "decoding: a reorder ran out of memory, it cannot continue")
                     : MH_OK;
}

mh_status mh_decoding_select(mh_context *context, mh_decoding *decoding, const size_t *parents,
                             size_t count)
{
    mh_status status = MH_NEED(context, {"decoding", decoding}, {"parents", parents});
    if (!status)
        status = mh_decoding_check_whole(context, decoding);
    if (status)
        return status;
    for (size_t i = 0; i < 2 * mh_decoding_stack(decoding->transformer).count && !status; i++) {
        if (!decoding->caches[i])
            continue;
        status = mh_kv_cache_select(context, decoding->caches[i], parents, count);
        decoding->broken = status && i > 0;
    }
    if (!status)
        decoding->sequences = count;
    return status;
}

mh_status mh_decoding_reorder(mh_context *context, mh_decoding *decoding, const size_t *parents)
{
    return mh_decoding_select(context, decoding, parents, decoding ? decoding->sequences : 0);
}

void mh_decoding_disable_heads(mh_decoding *decoding, const bool *disabled_heads)
{
    decoding->disabled = disabled_heads;
}
