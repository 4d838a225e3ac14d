// SPDX-License-Identifier: MIT
// The Transformer:
//
//     memory = norm(layer_N(... layer_1(src)))                      the encoder
//     output = norm(layer_N(... layer_1(tgt, memory), memory))      the decoder
//
// A tape keeps the activations that each layer saves, for transformer_grad.c. Without one, or with
// recompute, layers share the memory for them, and only their outputs are kept.
#include "base/context.h"
#include "nn/packed_weights.h"
#include "nn/tape.h"
#include "nn/taps.h"
#include "nn/transformer_call.h"
#include "ops/overlap.h"
#include <string.h>

// ---- memory ------------------------------------------------------------------------------------

// With `share` all layers share the memory of their saved activations, except the outputs.
static void layout_layers(mh_stack_pass *p, bool keep, bool share, size_t D, mh_arena *arena)
{
    const size_t rows = mh_batch_rows(&p->call.rows);
    p->saved = mh_arena_take(arena, p->stack.count, sizeof *p->saved);
    mh_arena size = {0};
    mh_layer_saved ignored;
    if (share && p->stack.count)
        mh_layer_layout(&p->stack.layers[0], &p->call, keep, &size, &ignored);
    arena->overflow |= size.overflow;
    char *shared = share ? mh_arena_take(arena, size.used, 1) : NULL;
    for (size_t i = 0; i < p->stack.count; i++) {
        mh_layer_saved *saved = p->saved ? &p->saved[i] : &ignored;
        mh_arena place = {.base = shared, .size = size.used};
        mh_layer_layout(&p->stack.layers[i], &p->call, keep, share ? &place : arena, saved);
        if (share)
            saved->out[p->stack.layers[i].count - 1] =
                mh_arena_take(arena, rows * D, sizeof(float));
    }
}

static void layout_pass(mh_stack_pass *p, const mh_tensor *input, bool keep, bool share, size_t D,
                        mh_arena *arena)
{
    const size_t rows = mh_batch_rows(&p->call.rows);
    p->copy = mh_is_plain(input) ? NULL : mh_arena_take(arena, rows * D, sizeof(float));
    layout_layers(p, keep, share, D, arena);
    p->mean = mh_arena_take(arena, rows, sizeof(float));
    p->rstd = mh_arena_take(arena, rows, sizeof(float));
    p->result = mh_arena_take(arena, rows * D, sizeof(float));
    if (!keep)
        return;
    p->dx = mh_arena_take(arena, rows * D, sizeof(float));
    if (p->stack.count)
        mh_layer_layout_backward(&p->stack.layers[0], &p->call, arena, &p->scratch);
}

static void layout(const mh_transformer *t, const mh_transformer_options *o, const mh_tensor *src,
                   const mh_tensor *tgt, mh_arena *arena, mh_transformer_run *r)
{
    const bool keep = o->tape != NULL, share = !keep || o->recompute;
    const size_t D = t->config.d_model;
    r->recompute = o->recompute;
    mh_arena_take(arena, 1, sizeof *r);
    layout_pass(&r->encoder, src, keep, share, D, arena);
    if (!tgt)
        return;
    // A placeholder for the memory's rows while sizes are planned; it is not read.
    r->decoder.call.memory = mh_tensor_2d(r->encoder.result, r->decoder.call.operands,
                                          mh_batch_rows(&r->encoder.call.rows), D);
    if (!r->decoder.call.memory.data)
        r->decoder.call.memory.data = r;
    layout_pass(&r->decoder, tgt, keep, share, D, arena);
}

// ---- forward -----------------------------------------------------------------------------------

static mh_status load_input(mh_context *context, mh_stack_pass *p, const mh_tensor *input)
{
    return mh_rows_of(context, input, p->copy, true, &p->x);
}

mh_layer_call mh_pass_call(const mh_transformer *t, const mh_transformer_options *o,
                           const mh_stack_pass *p, size_t i, bool decoder)
{
    mh_layer_call call = p->call;
    for (size_t n = 0; n < o->tap_count; n++) {
        const mh_tap *tap = mh_tap_at(o->taps, n);
        if (tap->layer != i)
            continue;
        if (tap->kind == (decoder ? MH_TAP_DECODER : MH_TAP_ENCODER))
            call.tap = tap;
        else if (decoder && tap->kind == MH_TAP_CROSS)
            call.cross_tap = tap;
    }
    if (o->disabled_heads) {
        const size_t H = t->config.nhead, first = decoder ? t->encoder_count : 0;
        call.disabled = o->disabled_heads + (first + i) * H;
        call.cross_disabled = o->disabled_heads + (first + t->decoder_count + i) * H;
    }
    return call;
}

mh_tensor mh_pass_input(const mh_stack_pass *p, size_t i, size_t D)
{
    if (i == 0)
        return p->x;
    const size_t last = p->stack.layers[i - 1].count - 1;
    return mh_tensor_2d(p->saved[i - 1].out[last], MH_F32, p->x.shape[0], D);
}

// All layers and the final norm, into `output` (rows, D).
static mh_status run_stack(mh_context *context, const mh_transformer *t,
                           const mh_transformer_options *o, mh_stack_pass *p, bool decoder,
                           mh_tensor *output)
{
    const size_t D = t->config.d_model, count = p->stack.count;
    mh_status status = MH_OK;
    for (size_t i = 0; i < count && !status; i++) {
        const mh_layer_call call = mh_pass_call(t, o, p, i, decoder);
        const mh_tensor x = mh_pass_input(p, i, D);
        status = mh_layer_forward(context, &p->stack.layers[i], t->parameters.values, &call, &x,
                                  &p->saved[i]);
    }
    if (status)
        return status;
    const mh_tensor last = mh_pass_input(p, count, D);
    if (p->stack.norm == MH_NO_PARAMETER)
        return mh_tensor_copy(context, &last, output);
    return mh_norm_forward(context, &t->config, t->parameters.values, p->stack.norm,
                           p->stack.norm_bias, &last, output, p->mean, p->rstd);
}

// Runs the stack into the output's rows, or into a dense buffer that is copied back.
static mh_status run_into(mh_context *context, const mh_transformer *t,
                          const mh_transformer_options *o, mh_stack_pass *p, bool decoder,
                          mh_tensor *output)
{
    mh_tensor rows;
    float *memory = mh_rows_flat(output) ? NULL : p->result;
    mh_status status = mh_rows_of(context, output, memory, false, &rows);
    if (!status)
        status = run_stack(context, t, o, p, decoder, &rows);
    return status ? status : mh_rows_return(context, memory, output);
}

static mh_status forward(mh_context *context, const mh_transformer *t,
                         const mh_transformer_options *o, mh_transformer_run *r,
                         const mh_tensor *src, const mh_tensor *tgt, mh_tensor *output)
{
    const size_t D = t->config.d_model;
    mh_status status = load_input(context, &r->encoder, src);
    if (status || !tgt)
        return status ? status : run_into(context, t, o, &r->encoder, false, output);
    mh_tensor *memory = &r->decoder.call.memory;
    *memory = r->encoder.x;
    if (mh_has_encoder(t)) {
        *memory =
            mh_tensor_2d(r->encoder.result, r->decoder.call.operands, r->encoder.x.shape[0], D);
        status = run_stack(context, t, o, &r->encoder, false, memory);
    }
    if (!status)
        status = load_input(context, &r->decoder, tgt);
    return status ? status : run_into(context, t, o, &r->decoder, true, output);
}

// Options are checked; `decodes`: runs all of it, else the encoder alone.
static mh_status run_forward(mh_context *context, const mh_transformer *t,
                             const mh_packed_weights *packed, const mh_transformer_options *o,
                             bool decodes, const mh_tensor *src, const mh_tensor *tgt,
                             const char *output_name, mh_tensor *output)
{
    mh_transformer_run r;
    mh_status status =
        mh_transformer_check_call(context, t, o, decodes, src, tgt, output_name, output, &r);
    r.encoder.call.packed = packed;
    if (!status)
        status =
            MH_CHECK_OVERLAP(context, 1, {.name = output_name, .tensor = output}, MH_OPERAND(src),
                             MH_OPERAND(tgt), {.name = "src_mask", .tensor = o->src_mask},
                             {.name = "tgt_mask", .tensor = o->tgt_mask},
                             {.name = "memory_mask", .tensor = o->memory_mask});
    if (!status)
        status = mh_taps_check_overlap(context, o->taps, o->tap_count, output, src, tgt);
    if (status)
        return status;
    mh_arena arena = {0};
    layout(t, o, src, tgt, &arena, &r);
    status = mh_tape_begin(context, o->tape, &arena);
    if (!status) {
        layout(t, o, src, tgt, &arena, &r);
        status = forward(context, t, o, &r, src, tgt, output);
    }
    if (!status && o->tape) {
        memcpy(o->tape->memory, &r, sizeof r);
        o->tape->owner = t->identity;
    }
    return status;
}

mh_status mh_transformer_forward(mh_context *context, const mh_transformer *transformer,
                                 const mh_transformer_options *options, const mh_tensor *src,
                                 const mh_tensor *tgt, mh_tensor *output)
{
    mh_transformer_options own;
    mh_status status = mh_transformer_check_options(context, transformer, options, &own);
    return status ? status
                  : run_forward(context, transformer, NULL, &own, mh_has_decoder(transformer), src,
                                tgt, "output", output);
}

mh_status mh_transformer_encode_packed(mh_context *context, const mh_transformer *transformer,
                                       const mh_packed_weights *packed,
                                       const mh_transformer_options *options, const mh_tensor *src,
                                       mh_tensor *memory)
{
    mh_transformer_options own;
    mh_status status = mh_transformer_check_options(context, transformer, options, &own);
    if (!status)
        status = mh_check_packed_weights(context, transformer, packed);
    if (!status && !mh_has_encoder(transformer))
        status = mh_fail(context, MH_ERROR_ARGUMENT, "transformer: expected one with an encoder");
    if (!status && own.tape)
        status = mh_fail(context, MH_ERROR_ARGUMENT,
                         "tape: found one, expected NULL, as there is no backward pass from here");
    return status ? status
                  : run_forward(context, transformer, packed, &own, false, src, NULL, "memory",
                                memory);
}

mh_status mh_transformer_encode(mh_context *context, const mh_transformer *transformer,
                                const mh_transformer_options *options, const mh_tensor *src,
                                mh_tensor *memory)
{
    return mh_transformer_encode_packed(context, transformer, NULL, options, src, memory);
}
