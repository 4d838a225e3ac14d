// SPDX-License-Identifier: MIT
// One decoding step: the next tokens go through all layers, each of which appends their keys and
// values to its cache.
#include "base/context.h"
#include "nn/decoding.h"
#include "nn/flatten.h"
#include "nn/tape.h"
#include "nn/taps.h"
#include "ops/overlap.h"

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
    mh_layer_layout(mh_decoding_stack(t).layers, call, false, &size, &ignored);
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
        if (mh_tap_at(taps, i)->kind == kind && mh_tap_at(taps, i)->layer == layer)
            return mh_tap_at(taps, i);
    return NULL;
}

static mh_status run_step(mh_context *context, mh_decoding *d, const mh_tap *taps, size_t tap_count,
                          mh_layer_call *call, step *s)
{
    const mh_transformer *t = d->transformer;
    const mh_stack stack = mh_decoding_stack(t);
    const bool decoder = t->decoder_count > 0;
    const float *values = t->parameters.values;
    mh_tensor x = s->x;
    mh_status status = MH_OK;
    for (size_t i = 0; i < stack.count && !status; i++) {
        const mh_layer *layer = &stack.layers[i];
        call->cache = d->caches[2 * i];
        call->memory_cache = d->caches[2 * i + 1];
        call->tap = find_tap(taps, tap_count, decoder ? MH_TAP_DECODER : MH_TAP_ENCODER, i);
        call->cross_tap = find_tap(taps, tap_count, MH_TAP_CROSS, i);
        if (d->disabled) {
            const size_t H = t->config.nhead;
            call->disabled = d->disabled + ((decoder ? t->encoder_count : 0) + i) * H;
            call->cross_disabled = decoder ? call->disabled + t->decoder_count * H : NULL;
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

// After a failure: truncates the caches to the tokens that all layers have. If a cache cannot, the
// layers stay inconsistent, and the next step reports it.
static void forget_step(mh_context *context, mh_decoding *d, size_t length)
{
    for (size_t i = 0; i < mh_decoding_stack(d->transformer).count; i++)
        for (size_t b = 0; b < d->sequences; b++)
            if (mh_kv_cache_truncate(context, d->caches[2 * i], b, length))
                return;
}

mh_status mh_decoding_step(mh_context *context, mh_decoding *decoding, const mh_tap *taps,
                           size_t tap_count, const mh_tensor *tgt, mh_tensor *output)
{
    mh_decoding *d = decoding;
    if (mh_need(context, d, "decoding"))
        return MH_ERROR_ARGUMENT;
    const mh_transformer_config *c = &d->transformer->config;
    mh_layer_call call = {.causal = true, .packed = d->packed};
    mh_batch out;
    mh_status status = mh_decoding_check_whole(context, d);
    if (!status)
        status =
            mh_taps_check(context, d->transformer, !d->transformer->decoder_count, taps, tap_count);
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
    status = MH_CHECK_OVERLAP(context, 1, MH_OPERAND(output), MH_OPERAND_IN_PLACE(tgt));
    if (!status)
        status = mh_taps_check_overlap(context, taps, tap_count, output, NULL, tgt);
    if (status)
        return status;
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
