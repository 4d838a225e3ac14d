// SPDX-License-Identifier: MIT
// A decoder token by token. Each layer has a cache of the keys and values of the tokens so far, and
// one of the memory's, which is filled at the start and never again.
#include "base/context.h"
#include "nn/rows_of.h"
#include "nn/tape.h"
#include "nn/transformer.h"
#include <multihead/ops.h>
#include <string.h>

struct mh_decoding {
    mh_allocator allocator;
    const mh_transformer *transformer;
    const mh_packed_weights *packed;
    mh_packed_weights *own; // the same, or NULL
    size_t sequences;
    mh_kv_cache **caches; // (2 * layers): of the tokens, and of the memory
    mh_tape *tape;        // memory of a step
    bool broken;          // a reorder has failed halfway
    const bool *disabled; // (attentions, H) or NULL
};

static size_t cache_bytes(const mh_transformer *t)
{
    return 2 * t->decoder_count * sizeof(mh_kv_cache *);
}

void mh_decoding_free(mh_decoding *d)
{
    if (!d)
        return;
    for (size_t i = 0; d->caches && i < 2 * d->transformer->decoder_count; i++)
        mh_kv_cache_free(d->caches[i]);
    if (d->caches)
        d->allocator.release(d->allocator.user, d->caches, cache_bytes(d->transformer));
    mh_tape_free(d->tape);
    mh_packed_weights_free(d->own);
    d->allocator.release(d->allocator.user, d, sizeof *d);
}

// ---- the memory ------------------------------------------------------------------------------

// The memory's keys and values of one layer, for the first sequences; the others follow by sharing.
static mh_status fill_cache(mh_context *context, const mh_decoding *d, const mh_layer *layer,
                            const mh_tensor *memory, const mh_batch *batch, const int64_t *counts,
                            float *kv, mh_kv_cache *cache, size_t sequences)
{
    const mh_transformer *t = d->transformer;
    const size_t D = t->config.d_model, H = t->config.nhead, rows = mh_batch_rows(batch);
    const mh_attention_layer *a = &layer->cross;
    mh_linear_options o = mh_linear_options_default();
    const mh_tensor y = mh_tensor_2d(kv, MH_F32, rows, 2 * D);
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
        return mh_fail(context, MH_ERROR_ARGUMENT, "transformer: expected one with a decoder");
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
    *decoding = NULL;
    memory_call m = {0};
    mh_status status = check_memory(context, transformer, memory, lengths, copies, &m.batch);
    mh_decoding *d = status ? NULL : mh_alloc(context, sizeof *d);
    if (!d)
        return status ? status : MH_ERROR_MEMORY;
    *d = (mh_decoding){.allocator = context->allocator,
                       .transformer = transformer,
                       .packed = packed,
                       .sequences = m.batch.sequences * copies};
    d->caches = mh_alloc(context, cache_bytes(transformer));
    if (d->caches)
        memset(d->caches, 0, cache_bytes(transformer));
    status = d->caches ? mh_tape_create(context, &d->tape) : MH_ERROR_MEMORY;
    mh_arena arena = {0};
    layout_memory(transformer, memory, d->sequences, &arena, &m);
    if (!status)
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

mh_status mh_decoding_create(mh_context *context, const mh_transformer *transformer,
                             const mh_tensor *memory, const int64_t *lengths, size_t copies,
                             mh_decoding **decoding)
{
    mh_packed_weights *packed = NULL;
    if (mh_need(context, transformer && decoding, "transformer and decoding"))
        return MH_ERROR_ARGUMENT;
    mh_status status =
        mh_decoding_create_packed(context, transformer, NULL, memory, lengths, copies, decoding);
    if (!status)
        status = mh_packed_weights_create(context, transformer, false, &packed);
    if (status) {
        mh_decoding_free(*decoding);
        *decoding = NULL;
        return status;
    }
    (*decoding)->packed = (*decoding)->own = packed;
    return MH_OK;
}

// After a reorder that ran out of memory, layers disagree about which sequence is which.
static mh_status check_whole(mh_context *context, const mh_decoding *d)
{
    return d->broken ? mh_fail(context, MH_ERROR_MEMORY,
                               "decoding: a reorder ran out of memory, it cannot go on")
                     : MH_OK;
}

mh_status mh_decoding_select(mh_context *context, mh_decoding *decoding, const size_t *parents,
                             size_t count)
{
    mh_status status = mh_need(context, decoding && parents, "decoding and parents");
    if (!status)
        status = check_whole(context, decoding);
    if (status)
        return status;
    for (size_t i = 0; i < 2 * decoding->transformer->decoder_count && !status; i++) {
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

// ---- one step ----------------------------------------------------------------------------------

typedef struct step {
    mh_tensor x, output; // (rows, D)
    float *copy, *result;
    mh_arena layer;    // memory of one layer, used by all
    float *streams[2]; // (rows, D): a layer's output is the next one's input
    float *mean, *rstd;
} step;

static void layout_step(const mh_decoding *d, const mh_layer_call *call, const mh_tensor *tgt,
                        const mh_tensor *output, mh_arena *arena, step *s)
{
    const mh_transformer *t = d->transformer;
    const size_t rows = mh_batch_rows(&call->rows), D = t->config.d_model;
    s->copy = tgt->dtype == MH_F32 ? mh_rows_take(arena, tgt)
                                   : mh_arena_take(arena, rows * D, sizeof(float));
    s->result = mh_rows_take(arena, output);
    mh_arena size = {0};
    mh_layer_saved ignored;
    mh_layer_layout(mh_decoder_stack(t).layers, call, false, &size, &ignored);
    arena->overflow |= size.overflow;
    s->layer = (mh_arena){.base = mh_arena_take(arena, size.used, 1), .size = size.used};
    s->streams[0] = mh_arena_take(arena, rows * D, sizeof(float));
    s->streams[1] = mh_arena_take(arena, rows * D, sizeof(float));
    s->mean = mh_arena_take(arena, rows, sizeof(float));
    s->rstd = mh_arena_take(arena, rows, sizeof(float));
}

static const mh_tap *find_tap(const mh_tap *taps, size_t count, mh_tap_kind kind, size_t layer)
{
    for (size_t i = 0; i < count; i++)
        if (taps[i].kind == kind && taps[i].layer == layer)
            return &taps[i];
    return NULL;
}

static mh_status run_step(mh_context *context, mh_decoding *d, const mh_tap *taps, size_t tap_count,
                          mh_layer_call *call, step *s)
{
    const mh_transformer *t = d->transformer;
    const mh_stack stack = mh_decoder_stack(t);
    const float *values = t->parameters.values;
    mh_tensor x = s->x;
    mh_status status = MH_OK;
    for (size_t i = 0; i < stack.count && !status; i++) {
        const mh_layer *layer = &stack.layers[i];
        call->cache = d->caches[2 * i];
        call->memory_cache = d->caches[2 * i + 1];
        call->tap = find_tap(taps, tap_count, MH_TAP_DECODER, i);
        call->cross_tap = find_tap(taps, tap_count, MH_TAP_CROSS, i);
        if (d->disabled) {
            const size_t H = t->config.nhead;
            call->disabled = d->disabled + (t->encoder_count + i) * H;
            call->cross_disabled = call->disabled + t->decoder_count * H;
        }
        mh_arena place = s->layer;
        mh_layer_saved saved;
        mh_layer_layout(layer, call, false, &place, &saved);
        saved.out[layer->count - 1] = s->streams[i % 2];
        status = mh_layer_forward(context, layer, values, call, &x, &saved);
        x = mh_tensor_2d(s->streams[i % 2], MH_F32, x.shape[0], t->config.d_model);
    }
    if (status)
        return status;
    if (stack.norm == MH_NO_PARAMETER)
        return mh_tensor_copy(context, &x, &s->output);
    return mh_norm_forward(context, &t->config, values, stack.norm, stack.norm_bias, &x, &s->output,
                           s->mean, s->rstd);
}

// After a failure: layers forget the tokens that others have not seen.
static void forget_step(mh_context *context, mh_decoding *d, size_t length)
{
    for (size_t i = 0; i < d->transformer->decoder_count; i++)
        for (size_t b = 0; b < d->sequences; b++)
            mh_kv_cache_truncate(context, d->caches[2 * i], b, length);
}

mh_status mh_decoding_step(mh_context *context, mh_decoding *decoding, const mh_tap *taps,
                           size_t tap_count, const mh_tensor *tgt, const mh_tensor *output)
{
    mh_decoding *d = decoding;
    if (mh_need(context, d, "decoding"))
        return MH_ERROR_ARGUMENT;
    const mh_transformer_config *c = &d->transformer->config;
    mh_layer_call call = {.causal = true, .packed = d->packed};
    mh_batch out;
    mh_status status = check_whole(context, d);
    if (!status)
        status = mh_taps_check(context, d->transformer, false, taps, tap_count);
    if (!status)
        status = mh_batch_of(context, "tgt", tgt, c->d_model, c->batch_first, &call.rows);
    if (!status)
        status = mh_batch_of(context, "output", output, c->d_model, c->batch_first, &out);
    if (status)
        return status;
    if (call.rows.sequences != d->sequences || out.sequences != d->sequences ||
        out.length != call.rows.length)
        return mh_fail(
            context, MH_ERROR_ARGUMENT,
            "tgt, output: found %zu sequences of %zu and %zu of %zu, expected %zu of the "
            "same length",
            call.rows.sequences, call.rows.length, out.sequences, out.length, d->sequences);
    step s;
    mh_arena arena = {0};
    const size_t length = mh_kv_cache_length(d->caches[0], 0);
    call.memory_cache = d->caches[1]; // so that no memory is projected
    layout_step(d, &call, tgt, output, &arena, &s);
    status = mh_tape_begin(context, d->tape, &arena);
    if (status)
        return status;
    layout_step(d, &call, tgt, output, &arena, &s);
    status = mh_rows_of(context, tgt, s.copy, true, &s.x);
    if (!status)
        status = mh_rows_of(context, output, s.result, false, &s.output);
    if (!status)
        status = run_step(context, d, taps, tap_count, &call, &s);
    if (status)
        forget_step(context, d, length);
    return status ? status : mh_rows_return(context, s.result, output);
}
