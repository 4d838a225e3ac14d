// SPDX-License-Identifier: MIT
// The Transformer, forward and backward:
//
//     memory = norm(layer_N(... layer_1(src)))                      the encoder
//     output = norm(layer_N(... layer_1(tgt, memory), memory))      the decoder
//
// A tape keeps what each layer leaves behind. Without one, or if layers are to be computed again,
// they share one place for it, and only their outputs stay.
#include "nn/transformer.h"
#include "base/context.h"
#include "nn/packed_weights.h"
#include "nn/rows_of.h"
#include "nn/tape.h"
#include "ops/matmul_job.h"
#include "ops/tensor_check.h"
#include <string.h>

// One of the two stacks in a call.
typedef struct pass {
    mh_stack stack;
    mh_layer_call call;    // what all its layers have in common
    mh_tensor x;           // (rows, D): what goes in
    float *copy;           // of the input, if it is not rows of f32 already
    mh_layer_saved *saved; // (count)
    float *mean, *rstd;    // of the norm at the end
    float *result;         // (rows, D): the encoder's output
    float *dx;             // (rows, D), in backward
    mh_layer_scratch scratch;
} pass;

typedef struct run {
    pass encoder, decoder;
    bool recompute;
} run;

// ---- checking --------------------------------------------------------------------------------

static mh_status check_options(mh_context *context, const mh_transformer *t,
                               const mh_transformer_options *options, mh_transformer_options *own)
{
    *own = mh_transformer_options_default();
    if (!context || !t)
        return mh_fail(context, MH_ERROR_ARGUMENT, "transformer: found NULL, expected a module");
    if (options && options->struct_size != sizeof *own)
        return mh_fail(context, MH_ERROR_ARGUMENT, "options.struct_size: found %zu, expected %zu",
                       options->struct_size, sizeof *own);
    if (options)
        *own = *options;
    return MH_OK;
}

static void set_calls(const mh_transformer *t, const mh_transformer_options *o, run *r)
{
    mh_layer_call *e = &r->encoder.call, *d = &r->decoder.call;
    e->mask = o->src_mask;
    e->padding = o->src_key_padding_mask;
    e->causal = o->src_causal;
    d->memory_rows = e->rows;
    d->mask = o->tgt_mask;
    d->padding = o->tgt_key_padding_mask;
    d->memory_mask = o->memory_mask;
    d->memory_padding = o->memory_key_padding_mask;
    d->causal = o->tgt_causal;
    e->training = d->training = o->training;
    e->seed = d->seed = o->seed;
    e->step = d->step = o->step;
    e->fresh = d->fresh = o->fresh_gradients;
    r->encoder.stack = mh_encoder_stack(t);
    r->decoder.stack = mh_decoder_stack(t);
}

static bool has_decoder(const mh_transformer *t)
{
    return t->config.kind != MH_ENCODER && t->config.kind != MH_ENCODER_LAYER;
}

static bool has_encoder(const mh_transformer *t)
{
    return t->config.kind != MH_DECODER && t->config.kind != MH_DECODER_LAYER;
}

static mh_status check(mh_context *context, const mh_transformer *t,
                       const mh_transformer_options *o, bool decodes, const mh_tensor *src,
                       const mh_tensor *tgt, const mh_tensor *output, run *r)
{
    char found[128], expected[128];
    *r = (run){0};
    r->encoder.call.operands = r->decoder.call.operands =
        mh_operand_dtype(context, t->config.precision);
    if (decodes != (tgt != NULL))
        return mh_fail(context, MH_ERROR_ARGUMENT, "tgt: found %s, expected %s",
                       tgt ? "a tensor" : "NULL", tgt ? "NULL for an encoder" : "a tensor");
    mh_status status =
        mh_transformer_batch(context, t, o, "src", src, o->src_starts, &r->encoder.call.rows);
    if (!status && tgt)
        status =
            mh_transformer_batch(context, t, o, "tgt", tgt, o->tgt_starts, &r->decoder.call.rows);
    if (!status)
        status = mh_check_float(context, "output", output, -1);
    if (status)
        return status;
    const mh_tensor *like = tgt ? tgt : src;
    if (output->rank != like->rank || !mh_tensor_same_shape(output, like))
        return mh_fail(context, MH_ERROR_ARGUMENT, "output: found %s, expected %s",
                       mh_tensor_describe(output, found, sizeof found),
                       mh_tensor_describe(like, expected, sizeof expected));
    if (tgt && (tgt->rank != src->rank ||
                r->encoder.call.rows.sequences != r->decoder.call.rows.sequences))
        return mh_fail(context, MH_ERROR_ARGUMENT,
                       "src, tgt: found %s and %s, expected the same number of sequences",
                       mh_tensor_describe(src, found, sizeof found),
                       mh_tensor_describe(tgt, expected, sizeof expected));
    status =
        mh_transformer_check_masks(context, t, o, &r->encoder.call.rows, &r->decoder.call.rows);
    if (!status)
        status = mh_taps_check(context, t, true, o->taps, o->tap_count);
    set_calls(t, o, r);
    return status;
}

// ---- memory ------------------------------------------------------------------------------------

static float *last_output(const pass *p, size_t i)
{
    return p->saved[i].out[p->stack.layers[i].count - 1];
}

// With `share` all layers have one place for what they leave behind, but outputs of their own.
static void layout_layers(pass *p, bool keep, bool share, size_t D, mh_arena *arena)
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

static bool is_plain(const mh_tensor *t) { return t->dtype == MH_F32 && mh_rows_flat(t); }

static void layout_pass(pass *p, const mh_tensor *input, bool keep, bool share, size_t D,
                        mh_arena *arena)
{
    const size_t rows = mh_batch_rows(&p->call.rows);
    p->copy = is_plain(input) ? NULL : mh_arena_take(arena, rows * D, sizeof(float));
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
                   const mh_tensor *tgt, mh_arena *arena, run *r)
{
    const bool keep = o->tape != NULL, share = !keep || o->recompute;
    const size_t D = t->config.d_model;
    r->recompute = o->recompute;
    mh_arena_take(arena, 1, sizeof *r);
    layout_pass(&r->encoder, src, keep, share, D, arena);
    if (!tgt)
        return;
    // The memory stands in for its rows while sizes are planned; nobody reads it.
    r->decoder.call.memory = mh_tensor_2d(r->encoder.result, r->decoder.call.operands,
                                          mh_batch_rows(&r->encoder.call.rows), D);
    if (!r->decoder.call.memory.data)
        r->decoder.call.memory.data = r;
    layout_pass(&r->decoder, tgt, keep, share, D, arena);
}

// ---- forward -----------------------------------------------------------------------------------

static mh_status load_input(mh_context *context, pass *p, const mh_tensor *input)
{
    return mh_rows_of(context, input, p->copy, true, &p->x);
}

// What a layer gets that the others do not: its taps and disabled heads.
static mh_layer_call call_of(const mh_transformer *t, const mh_transformer_options *o,
                             const pass *p, size_t i, bool decoder)
{
    mh_layer_call call = p->call;
    for (size_t n = 0; n < o->tap_count; n++) {
        const mh_tap *tap = &o->taps[n];
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

static mh_tensor input_of(const pass *p, size_t i, size_t D)
{
    return i ? mh_tensor_2d(last_output(p, i - 1), MH_F32, p->x.shape[0], D) : p->x;
}

// All layers and the norm at the end, into `output` (rows, D).
static mh_status run_stack(mh_context *context, const mh_transformer *t,
                           const mh_transformer_options *o, pass *p, bool decoder,
                           const mh_tensor *output)
{
    const size_t D = t->config.d_model, count = p->stack.count;
    mh_status status = MH_OK;
    for (size_t i = 0; i < count && !status; i++) {
        const mh_layer_call call = call_of(t, o, p, i, decoder);
        const mh_tensor x = input_of(p, i, D);
        status = mh_layer_forward(context, &p->stack.layers[i], t->parameters.values, &call, &x,
                                  &p->saved[i]);
    }
    if (status)
        return status;
    const mh_tensor last = input_of(p, count, D);
    if (p->stack.norm == MH_NO_PARAMETER)
        return mh_tensor_copy(context, &last, output);
    return mh_norm_forward(context, &t->config, t->parameters.values, p->stack.norm,
                           p->stack.norm_bias, &last, output, p->mean, p->rstd);
}

// The rows of a tensor that is written, or of the memory that stands in for it.
static mh_status run_into(mh_context *context, const mh_transformer *t,
                          const mh_transformer_options *o, pass *p, bool decoder,
                          const mh_tensor *output)
{
    mh_tensor rows;
    float *memory = mh_rows_flat(output) ? NULL : p->result;
    mh_status status = mh_rows_of(context, output, memory, false, &rows);
    if (!status)
        status = run_stack(context, t, o, p, decoder, &rows);
    return status ? status : mh_rows_return(context, memory, output);
}

static mh_status forward(mh_context *context, const mh_transformer *t,
                         const mh_transformer_options *o, run *r, const mh_tensor *src,
                         const mh_tensor *tgt, const mh_tensor *output)
{
    const size_t D = t->config.d_model;
    mh_status status = load_input(context, &r->encoder, src);
    if (status || !tgt)
        return status ? status : run_into(context, t, o, &r->encoder, false, output);
    mh_tensor *memory = &r->decoder.call.memory;
    *memory = r->encoder.x;
    if (has_encoder(t)) {
        *memory =
            mh_tensor_2d(r->encoder.result, r->decoder.call.operands, r->encoder.x.shape[0], D);
        status = run_stack(context, t, o, &r->encoder, false, memory);
    }
    if (!status)
        status = load_input(context, &r->decoder, tgt);
    return status ? status : run_into(context, t, o, &r->decoder, true, output);
}

// With the options checked; `decodes`: all of it, else the encoder alone.
static mh_status run_forward(mh_context *context, const mh_transformer *t,
                             const mh_packed_weights *packed, const mh_transformer_options *o,
                             bool decodes, const mh_tensor *src, const mh_tensor *tgt,
                             const mh_tensor *output)
{
    run r;
    mh_status status = check(context, t, o, decodes, src, tgt, output, &r);
    r.encoder.call.packed = packed;
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
        o->tape->owner = t;
    }
    return status;
}

mh_status mh_transformer_forward(mh_context *context, const mh_transformer *transformer,
                                 const mh_transformer_options *options, const mh_tensor *src,
                                 const mh_tensor *tgt, const mh_tensor *output)
{
    mh_transformer_options own;
    mh_status status = check_options(context, transformer, options, &own);
    return status ? status
                  : run_forward(context, transformer, NULL, &own, has_decoder(transformer), src,
                                tgt, output);
}

mh_status mh_transformer_encode_packed(mh_context *context, const mh_transformer *transformer,
                                       const mh_packed_weights *packed,
                                       const mh_transformer_options *options, const mh_tensor *src,
                                       const mh_tensor *memory)
{
    mh_transformer_options own;
    mh_status status = check_options(context, transformer, options, &own);
    if (!status && !has_encoder(transformer))
        status = mh_fail(context, MH_ERROR_ARGUMENT, "transformer: expected one with an encoder");
    if (!status && own.tape)
        status = mh_fail(context, MH_ERROR_ARGUMENT,
                         "tape: found one, expected NULL, as there is no way back from here");
    return status ? status
                  : run_forward(context, transformer, packed, &own, false, src, NULL, memory);
}

mh_status mh_transformer_encode(mh_context *context, const mh_transformer *transformer,
                                const mh_transformer_options *options, const mh_tensor *src,
                                const mh_tensor *memory)
{
    return mh_transformer_encode_packed(context, transformer, NULL, options, src, memory);
}

// ---- backward ----------------------------------------------------------------------------------

// From dx, the gradient of the stack's output, to that of its input, in place.
static mh_status stack_backward(mh_context *context, const mh_transformer *t,
                                const mh_transformer_options *o, pass *p, bool decoder,
                                float *gradients, float *dmemory)
{
    const size_t D = t->config.d_model;
    const float *values = t->parameters.values;
    const mh_tensor dx = mh_tensor_2d(p->dx, MH_F32, p->x.shape[0], D);
    const mh_tensor last = input_of(p, p->stack.count, D);
    mh_status status = MH_OK;
    if (p->stack.norm != MH_NO_PARAMETER)
        status = mh_norm_backward(context, &t->config, values, p->stack.norm, p->stack.norm_bias,
                                  &last, p->mean, p->rstd, &dx, gradients, o->fresh_gradients, &dx);
    for (size_t i = p->stack.count; i-- > 0 && !status;) {
        const mh_layer *layer = &p->stack.layers[i];
        const mh_tensor x = input_of(p, i, D);
        mh_layer_call call = call_of(t, o, p, i, decoder);
        call.tap = call.cross_tap = NULL; // they have got what they wanted
        if (o->recompute)
            status = mh_layer_forward(context, layer, values, &call, &x, &p->saved[i]);
        if (!status)
            status = mh_layer_backward(context, layer, values, &call, &x, &p->saved[i], &p->scratch,
                                       gradients, p->dx, dmemory);
    }
    return status;
}

static mh_status load_gradient(mh_context *context, const mh_tensor *doutput, pass *p)
{
    const mh_tensor dense = mh_tensor_view(p->dx, MH_F32, doutput->rank, doutput->shape);
    return mh_tensor_copy(context, doutput, &dense);
}

static mh_status return_gradient(mh_context *context, const pass *p, const mh_tensor *to)
{
    return to ? mh_rows_return(context, p->dx, to) : MH_OK;
}

static mh_status backward(mh_context *context, const mh_transformer *t,
                          const mh_transformer_options *o, run *r, const mh_tensor *doutput,
                          float *gradients, const mh_tensor *dsrc, const mh_tensor *dtgt)
{
    if (!has_decoder(t)) {
        mh_status status = load_gradient(context, doutput, &r->encoder);
        if (!status)
            status = stack_backward(context, t, o, &r->encoder, false, gradients, NULL);
        return status ? status : return_gradient(context, &r->encoder, dsrc);
    }
    const size_t numbers = mh_batch_rows(&r->encoder.call.rows) * t->config.d_model;
    memset(r->encoder.dx, 0, numbers * sizeof(float));
    mh_status status = load_gradient(context, doutput, &r->decoder);
    if (!status)
        status = stack_backward(context, t, o, &r->decoder, true, gradients, r->encoder.dx);
    if (!status)
        status = return_gradient(context, &r->decoder, dtgt);
    if (!status && has_encoder(t))
        status = stack_backward(context, t, o, &r->encoder, false, gradients, NULL);
    return status ? status : return_gradient(context, &r->encoder, dsrc);
}

static mh_status check_gradient(mh_context *context, const char *name, const mh_tensor *gradient,
                                const mh_tensor *like)
{
    char found[128], expected[128];
    if (!gradient)
        return MH_OK;
    mh_status status = mh_check_float(context, name, gradient, -1);
    if (!status && (!like || gradient->rank != like->rank || !mh_tensor_same_shape(gradient, like)))
        status = mh_fail(context, MH_ERROR_ARGUMENT, "%s: found %s, expected %s", name,
                         mh_tensor_describe(gradient, found, sizeof found),
                         like ? mh_tensor_describe(like, expected, sizeof expected) : "NULL");
    return status;
}

// A pass as the tape has kept it, with the arguments of now.
static mh_status take_up(mh_context *context, const char *name, const mh_tensor *input,
                         const pass *now, pass *kept)
{
    const mh_batch *was = &kept->call.rows, *is = &now->call.rows;
    if (was->sequences != is->sequences || was->length != is->length ||
        !was->starts != !is->starts || (!kept->copy && !is_plain(input)))
        return mh_fail(context, MH_ERROR_ARGUMENT,
                       "%s: expected the shape and strides of the forward pass", name);
    const mh_dtype operands = kept->call.operands;
    kept->call = now->call;
    kept->call.operands = operands;
    return mh_rows_of(context, input, kept->copy, false, &kept->x);
}

mh_status mh_transformer_backward(mh_context *context, const mh_transformer *transformer,
                                  const mh_transformer_options *options, const mh_tensor *src,
                                  const mh_tensor *tgt, const mh_tensor *doutput, float *gradients,
                                  const mh_tensor *dsrc, const mh_tensor *dtgt)
{
    mh_transformer_options own;
    run r, kept;
    mh_status status = check_options(context, transformer, options, &own);
    if (!status)
        status = check(context, transformer, &own, has_decoder(transformer), src, tgt, doutput, &r);
    if (!status)
        status = check_gradient(context, "dsrc", dsrc, src);
    if (!status)
        status = check_gradient(context, "dtgt", dtgt, tgt);
    if (status)
        return status;
    if (!own.tape || own.tape->owner != transformer)
        return mh_fail(context, MH_ERROR_ARGUMENT,
                       "tape: expected one with a forward pass of this module");
    memcpy(&kept, own.tape->memory, sizeof kept);
    own.recompute = kept.recompute;
    // Masks and starts are the caller's of now.
    r.decoder.call.memory = kept.decoder.call.memory;
    status = take_up(context, "src", src, &r.encoder, &kept.encoder);
    if (!status && tgt)
        status = take_up(context, "tgt", tgt, &r.decoder, &kept.decoder);
    if (status)
        return status;
    if (tgt && !has_encoder(transformer))
        kept.decoder.call.memory = kept.encoder.x;
    return backward(context, transformer, &own, &kept, doutput, gradients, dsrc, dtgt);
}
