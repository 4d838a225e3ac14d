// SPDX-License-Identifier: MIT
// Incremental decoding: creation. Each decoder layer has a cache of the keys and values of the
// tokens so far, and one of the memory's, which is filled once at the start. A causal encoder (a
// decoder-only language model) has no memory, and only the first.
#include "nn/decoding.h"
#include "base/compiler.h"
#include "base/context.h"
#include "base/size_math.h"
#include "base/sized_struct.h"
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
    mh_release(&d->allocator, d->lengths, d->capacity * sizeof *d->lengths);
    mh_tape_free(d->tape);
    mh_packed_weights_free(d->own);
    d->allocator.release(d->allocator.user, d, sizeof *d);
}

// A decoding without caches.
static mh_status decoding_make(mh_context *context, const mh_transformer *transformer,
                               const mh_packed_weights *packed, size_t sequences, mh_dtype dtype,
                               mh_decoding **decoding)
{
    mh_decoding *d = mh_alloc(context, sizeof *d);
    if (!d)
        return MH_ERROR_MEMORY;
    *d = (mh_decoding){.allocator = context->allocator,
                       .transformer = transformer,
                       .packed = packed,
                       .sequences = sequences,
                       .dtype = dtype,
                       .cache_count = 2 * mh_decoding_stack(transformer)->count};
    d->caches = mh_alloc(context, d->cache_count * sizeof *d->caches);
    if (d->caches)
        memset(d->caches, 0, d->cache_count * sizeof *d->caches);
    mh_status status = d->caches ? mh_tape_create(context, &d->tape) : MH_ERROR_MEMORY;
    if (!status)
        status = mh_decoding_reserve(context, d, sequences);
    if (status)
        mh_decoding_free(d);
    else
        *decoding = d;
    return status;
}

// ---- the memory ---------------------------------------------------------------------------------

static mh_status make_cache(mh_context *context, const mh_decoding *d,
                            const mh_attention_layer *layer, size_t sequences, mh_kv_cache **cache)
{
    mh_kv_cache_options o = mh_kv_cache_options_default();
    o.sequences = sequences;
    o.dtype = d->dtype;
    o.heads = layer->config.kv_heads;
    o.key_width = layer->E;
    o.value_width = layer->Ev;
    o.window = layer->config.window;
    return mh_kv_cache_create(context, &o, cache);
}

// Sequence b * copies + i has memory b.
static mh_status decoding_spread(mh_context *context, mh_decoding *d, size_t copies,
                                 size_t *parents)
{
    for (size_t i = 0; i < d->sequences; i++)
        parents[i] = i / copies;
    for (size_t i = 0; i < d->transformer->decoder.count && copies > 1; i++)
        MH_TRY(mh_kv_cache_select(context, d->caches[2 * i + 1], parents, d->sequences));
    return MH_OK;
}

typedef struct memory_call {
    mh_tensor memory; // (rows, D)
    mh_batch batch;
    int64_t *counts; // (memories)
    size_t *parents; // (sequences)
    float *copy;
    mh_arena layer; // workspace of one layer's projection, used by all
} memory_call;

// The projection of the memory's keys and values in one block; there are no queries.
static mh_attention_call memory_attention(const mh_pass *pass, const memory_call *m)
{
    mh_attention_call call = {.pass = pass, .cross = true, .keys = m->batch, .queries = m->batch};
    call.queries.sequences = call.queries.length = 0;
    call.inputs[0] = mh_tensor_2d(NULL, MH_F32, 0, m->memory.shape[1]);
    call.inputs[1] = call.inputs[2] = m->memory;
    return call;
}

static void layout_memory(const mh_decoding *d, const mh_pass *pass, const mh_tensor *memory,
                          mh_arena *arena, memory_call *m)
{
    const mh_transformer *t = d->transformer;
    m->counts = mh_arena_take(arena, m->batch.sequences, sizeof *m->counts);
    m->parents = mh_arena_take(arena, d->sequences, sizeof *m->parents);
    m->copy = mh_rows_take(arena, memory);
    m->memory = mh_tensor_2d(NULL, MH_F32, mh_batch_rows(&m->batch), t->config.d_model);
    const mh_attention_call call = memory_attention(pass, m);
    size_t most = 0;
    for (size_t i = 0; i < t->decoder.count; i++) {
        mh_arena one = {0};
        mh_attention_saved ignored;
        mh_attention_layer_layout(&t->decoder.blocks[i].cross, &call, false, &one, &ignored);
        most = mh_larger(most, one.used);
        arena->overflow |= one.overflow;
    }
    m->layer = (mh_arena){.base = mh_arena_take(arena, most, 1), .size = most};
}

// The caches of one block: of its tokens, and of the memory's keys and values, one sequence of each
// memory; decoding_spread makes it as many as there are sequences.
static mh_status make_caches(mh_context *context, mh_decoding *d, const mh_pass *pass, size_t i,
                             const memory_call *m)
{
    const mh_block *block = &d->transformer->decoder.blocks[i];
    MH_TRY(make_cache(context, d, &block->self, d->sequences, &d->caches[2 * i]));
    MH_TRY(make_cache(context, d, &block->cross, m->batch.sequences, &d->caches[2 * i + 1]));
    mh_attention_call call = memory_attention(pass, m);
    mh_attention_saved saved;
    mh_arena arena = m->layer;
    mh_attention_layer_layout(&block->cross, &call, false, &arena, &saved);
    call.cache = d->caches[2 * i + 1];
    return mh_attention_layer_fill_cache(context, &block->cross, &call, m->counts, &saved);
}

static mh_status load_memory(mh_context *context, mh_decoding *d, const mh_pass *pass,
                             const mh_tensor *memory, const int64_t *lengths, size_t copies,
                             memory_call *m)
{
    for (size_t i = 0; i < m->batch.sequences; i++)
        m->counts[i] = lengths ? lengths[i] : (int64_t)m->batch.length;
    MH_TRY(mh_rows_of(context, memory, m->copy, true, &m->memory));
    for (size_t i = 0; i < d->transformer->decoder.count; i++)
        MH_TRY(make_caches(context, d, pass, i, m));
    return decoding_spread(context, d, copies, m->parents);
}

static mh_status check_memory(mh_context *context, const mh_transformer *t, const mh_tensor *memory,
                              const int64_t *lengths, size_t copies, mh_batch *batch)
{
    if (!t->decoder.count)
        return mh_fail(context, MH_ERROR_ARGUMENT,
                       "transformer: expected one with a decoder; for an encoder alone there is "
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
    MH_TRY(MH_NEED(context, {"transformer", transformer}, {"decoding", decoding}));
    *decoding = NULL;
    memory_call m = {0};
    mh_decoding *d = NULL;
    MH_TRY(mh_check_packed_weights(context, transformer, packed));
    if (!packed)
        packed = transformer->packed;
    MH_TRY(check_memory(context, transformer, memory, lengths, copies, &m.batch));
    MH_TRY(decoding_make(context, transformer, packed, m.batch.sequences * copies, MH_F32, &d));
    const mh_pass pass = {
        .values = transformer->parameters.values, .packed = packed, .operands = MH_F32};
    mh_arena arena = {0};
    layout_memory(d, &pass, memory, &arena, &m);
    mh_status status = mh_tape_begin(context, d->tape, &arena);
    if (!status) {
        layout_memory(d, &pass, memory, &arena, &m);
        status = load_memory(context, d, &pass, memory, lengths, copies, &m);
    }
    if (status)
        mh_decoding_free(d);
    else
        *decoding = d;
    return status;
}

// Packs the weights of the steps; takes ownership of the decoding, and frees it on failure.
static mh_status decoding_pack(mh_context *context, mh_decoding *d, mh_decoding **decoding)
{
    mh_status status = MH_OK;
    if (!d->packed) {
        status = mh_packed_weights_create(context, d->transformer, false, &d->own);
        d->packed = d->own;
    }
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
    return status ? status : decoding_pack(context, d, decoding);
}

// ---- without memory -----------------------------------------------------------------------------

static mh_status decoding_check_options(mh_context *context, const mh_transformer *transformer,
                                        const mh_decoding_options *o)
{
    if (transformer->decoder.count || !transformer->encoder.count)
        return mh_fail(context, MH_ERROR_ARGUMENT,
                       "transformer: expected an encoder with layers; a decoder has a memory, and "
                       "mh_decoding_create");
    if (o->cache_dtype != MH_F32 && o->cache_dtype != MH_BF16 && o->cache_dtype != MH_F16)
        return mh_fail(context, MH_ERROR_UNSUPPORTED,
                       "cache_dtype: found %s, expected f32, bf16 or f16",
                       mh_dtype_name(o->cache_dtype));
    if (o->sequences > MH_DECODING_SEQUENCES)
        return mh_fail(context, MH_ERROR_ARGUMENT, "sequences: found %zu, expected at most %d",
                       o->sequences, MH_DECODING_SEQUENCES);
    return MH_OK;
}

mh_status mh_decoding_create_empty(mh_context *context, const mh_transformer *transformer,
                                   const mh_decoding_options *options, mh_decoding **decoding)
{
    MH_TRY(MH_NEED(context, {"transformer", transformer}, {"decoding", decoding}));
    *decoding = NULL;
    mh_decoding *d = NULL;
    mh_decoding_options own = mh_decoding_options_default();
    MH_TRY(MH_READ_STRUCT(context, mh_decoding_options, options, &own));
    MH_TRY(decoding_check_options(context, transformer, &own));
    MH_TRY(decoding_make(context, transformer, transformer->packed, own.sequences, own.cache_dtype,
                         &d));
    const mh_stack *stack = &transformer->encoder;
    mh_status status = MH_OK;
    for (size_t i = 0; i < stack->count && !status; i++)
        status = make_cache(context, d, &stack->blocks[i].self, d->sequences, &d->caches[2 * i]);
    if (status) {
        mh_decoding_free(d);
        return status;
    }
    return decoding_pack(context, d, decoding);
}

mh_status mh_decoding_create_causal(mh_context *context, const mh_transformer *transformer,
                                    size_t sequences, mh_decoding **decoding)
{
    mh_decoding_options options = mh_decoding_options_default();
    MH_TRY(MH_NEED(context, {"transformer", transformer}, {"decoding", decoding}));
    *decoding = NULL;
    if (sequences < 1)
        return mh_fail(context, MH_ERROR_ARGUMENT, "sequences: found 0, expected at least 1");
    options.sequences = sequences;
    return mh_decoding_create_empty(context, transformer, &options, decoding);
}
