// SPDX-License-Identifier: MIT
// The Transformer's backward pass: the layers of transformer.c in reverse order, each from the
// gradient of its output to that of its input. The forward pass is on the tape; masks and starts
// are passed again and must be those of the forward pass.
#include "nn/tape.h"
#include "nn/transformer_call.h"
#include "ops/overlap.h"
#include "ops/tensor_check.h"
#include <string.h>

// From dx, the gradient of the stack's output, to that of its input, in place.
static mh_status stack_backward(mh_context *context, const mh_transformer *t,
                                const mh_transformer_options *o, mh_stack_pass *p, bool decoder,
                                float *gradients, float *dmemory)
{
    const size_t D = t->config.d_model;
    const float *values = t->parameters.values;
    mh_tensor dx = mh_tensor_2d(p->dx, MH_F32, p->x.shape[0], D);
    const mh_tensor last = mh_pass_input(p, p->stack.count, D);
    mh_status status = MH_OK;
    if (p->stack.norm != MH_NO_PARAMETER)
        status = mh_norm_backward(context, &t->config, values, p->stack.norm, p->stack.norm_bias,
                                  &last, p->mean, p->rstd, &dx, gradients, o->fresh_gradients, &dx);
    for (size_t i = p->stack.count; i-- > 0 && !status;) {
        const mh_layer *layer = &p->stack.layers[i];
        const mh_tensor x = mh_pass_input(p, i, D);
        mh_layer_call call = mh_pass_call(t, o, p, i, decoder);
        call.tap = call.cross_tap = NULL; // filled by the forward pass
        if (o->recompute)
            status = mh_layer_forward(context, layer, values, &call, &x, &p->saved[i]);
        if (!status)
            status = mh_layer_backward(context, layer, values, &call, &x, &p->saved[i], &p->scratch,
                                       gradients, p->dx, dmemory);
    }
    return status;
}

static mh_status load_gradient(mh_context *context, const mh_tensor *doutput, mh_stack_pass *p)
{
    mh_tensor dense = mh_tensor_view(p->dx, MH_F32, doutput->rank, doutput->shape);
    return mh_tensor_copy(context, doutput, &dense);
}

static mh_status return_gradient(mh_context *context, const mh_stack_pass *p, mh_tensor *to)
{
    return to ? mh_rows_return(context, p->dx, to) : MH_OK;
}

static mh_status backward(mh_context *context, const mh_transformer *t,
                          const mh_transformer_options *o, mh_transformer_run *r,
                          const mh_tensor *doutput, float *gradients, mh_tensor *dsrc,
                          mh_tensor *dtgt)
{
    if (!mh_has_decoder(t)) {
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
    if (!status && mh_has_encoder(t))
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

// Restores a pass from the tape, with the current arguments.
static mh_status take_up(mh_context *context, const char *name, const mh_tensor *input,
                         const mh_stack_pass *now, mh_stack_pass *kept)
{
    const mh_batch *was = &kept->call.rows, *is = &now->call.rows;
    if (was->sequences != is->sequences || was->length != is->length ||
        !was->starts != !is->starts || (!kept->copy && !mh_is_plain(input)))
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
                                  mh_tensor *dsrc, mh_tensor *dtgt)
{
    mh_transformer_options own;
    mh_transformer_run r, kept;
    mh_status status = mh_transformer_check_options(context, transformer, options, &own);
    if (!status)
        status = mh_transformer_check_call(context, transformer, &own, mh_has_decoder(transformer),
                                           src, tgt, "doutput", doutput, &r);
    if (!status)
        status = check_gradient(context, "dsrc", dsrc, src);
    if (!status)
        status = check_gradient(context, "dtgt", dtgt, tgt);
    if (!status) {
        const mh_tensor all = mh_tensor_1d(gradients, MH_F32, transformer->parameters.floats);
        status = MH_CHECK_OVERLAP(context, 3, MH_OPERAND(dsrc), MH_OPERAND(dtgt),
                                  {.name = "gradients", .tensor = gradients ? &all : NULL},
                                  MH_OPERAND(src), MH_OPERAND(tgt), MH_OPERAND(doutput));
    }
    if (status)
        return status;
    if (!own.tape || own.tape->owner != transformer->identity)
        return mh_fail(context, MH_ERROR_ARGUMENT,
                       "tape: expected one with a forward pass of this module");
    memcpy(&kept, own.tape->memory, sizeof kept);
    own.recompute = kept.recompute;
    // Masks and starts are those of the current call.
    r.decoder.call.memory = kept.decoder.call.memory;
    status = take_up(context, "src", src, &r.encoder, &kept.encoder);
    if (!status && tgt)
        status = take_up(context, "tgt", tgt, &r.decoder, &kept.decoder);
    if (status)
        return status;
    if (tgt && !mh_has_encoder(transformer))
        kept.decoder.call.memory = kept.encoder.x;
    return backward(context, transformer, &own, &kept, doutput, gradients, dsrc, dtgt);
}
