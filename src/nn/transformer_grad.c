// SPDX-License-Identifier: MIT
// The Transformer's backward pass: the layers of transformer.c in reverse order, each from the
// gradient of its output to that of its input. The forward pass is on the tape; masks and starts
// are passed again and must be those of the forward pass.
#include "base/compiler.h"
#include "nn/tape.h"
#include "nn/transformer_call.h"
#include "ops/overlap.h"
#include "ops/tensor_check.h"
#include <string.h>

static void tell_ready(const mh_transformer_run *r, size_t first)
{
    if (r->ready)
        r->ready(r->ready_user, first);
}

// From run->dx, the gradient of the stack's output, to that of its input, in place.
static mh_status stack_backward(mh_context *context, const mh_transformer *t,
                                const mh_transformer_run *r, mh_stack_run *run, float *dmemory)
{
    const mh_stack *stack = run->stack;
    const size_t D = t->config.d_model;
    mh_tensor dx = mh_tensor_2d(run->dx, MH_F32, run->x.shape[0], D);
    const mh_tensor last = mh_stack_input(run, stack->count, D);
    mh_positions_begin_backward(&run->positions);
    if (stack->norm.weight != MH_NO_PARAMETER)
        MH_TRY(mh_norm_layer_backward(context, &stack->norm, &run->pass, &last, run->mean,
                                      run->rstd, &dx, &dx));
    for (size_t i = stack->count; i-- > 0;) {
        const mh_block *block = &stack->blocks[i];
        const mh_tensor x = mh_stack_input(run, i, D);
        mh_arena arena = run->backward;
        mh_block_scratch scratch = {0};
        mh_block_layout_backward(block, &run->pass, &arena, &scratch);
        if (r->recompute)
            MH_TRY(mh_block_forward(context, block, &run->pass, &x, &run->saved[i]));
        MH_TRY(mh_block_backward(context, block, &run->pass, &x, &run->saved[i], &scratch, run->dx,
                                 dmemory));
        tell_ready(r, block->first);
    }
    mh_positions_backward(stack, &run->pass, &run->positions);
    if (stack->relative != MH_NO_PARAMETER)
        tell_ready(r, (size_t)stack->relative);
    return MH_OK;
}

static mh_status load_gradient(mh_context *context, const mh_tensor *doutput, mh_stack_run *run)
{
    mh_tensor dense = mh_tensor_view(run->dx, MH_F32, doutput->rank, doutput->shape);
    return mh_tensor_copy(context, doutput, &dense);
}

static mh_status return_gradient(mh_context *context, const mh_stack_run *run, mh_tensor *to)
{
    return to ? mh_rows_return(context, run->dx, to) : MH_OK;
}

static mh_status transformer_grad_backward(mh_context *context, const mh_transformer *t,
                                           mh_transformer_run *r, const mh_tensor *doutput,
                                           mh_tensor *dsrc, mh_tensor *dtgt)
{
    if (!mh_has_decoder(t)) {
        MH_TRY(load_gradient(context, doutput, &r->encoder));
        MH_TRY(stack_backward(context, t, r, &r->encoder, NULL));
        return return_gradient(context, &r->encoder, dsrc);
    }
    const size_t elements = mh_batch_rows(&r->encoder.pass.rows) * t->config.d_model;
    memset(r->encoder.dx, 0, elements * sizeof(float));
    MH_TRY(load_gradient(context, doutput, &r->decoder));
    MH_TRY(stack_backward(context, t, r, &r->decoder, r->encoder.dx));
    MH_TRY(return_gradient(context, &r->decoder, dtgt));
    if (mh_has_encoder(t))
        MH_TRY(stack_backward(context, t, r, &r->encoder, NULL));
    return return_gradient(context, &r->encoder, dsrc);
}

static mh_status check_gradient(mh_context *context, const char *name, const mh_tensor *gradient,
                                const mh_tensor *like)
{
    char found[128], expected[128];
    if (!gradient)
        return MH_OK;
    MH_TRY(mh_check_float(context, name, gradient, -1));
    if (!like || gradient->rank != like->rank || !mh_tensor_same_shape(gradient, like))
        return mh_fail(context, MH_ERROR_ARGUMENT, "%s: found %s, expected %s", name,
                       mh_tensor_describe(gradient, found, sizeof found),
                       like ? mh_tensor_describe(like, expected, sizeof expected) : "NULL");
    return MH_OK;
}

// Restores a stack's run from the tape, with the arguments of the current call: masks and starts.
static mh_status restore_run(mh_context *context, const char *name, const mh_tensor *input,
                             const mh_stack_run *now, float *gradients, mh_stack_run *saved)
{
    const mh_batch *was = &saved->pass.rows, *is = &now->pass.rows;
    if (was->sequences != is->sequences || was->length != is->length ||
        !was->starts != !is->starts || (!saved->copy && !mh_is_plain(input)))
        return mh_fail(context, MH_ERROR_ARGUMENT,
                       "%s: expected the shape and strides of the forward pass", name);
    const mh_dtype operands = saved->pass.operands;
    const mh_tensor memory = saved->pass.memory;
    saved->pass = now->pass;
    saved->pass.operands = operands;
    saved->pass.memory = memory;
    saved->pass.gradients = gradients;
    saved->pass.taps = NULL; // filled by the forward pass
    saved->pass.tap_count = 0;
    saved->pass.ropes = saved->positions.ropes;
    if (saved->positions.relative.data) {
        saved->pass.relative = &saved->positions.relative;
        saved->pass.drelative = saved->positions.drelative;
    }
    return mh_rows_of(context, input, saved->copy, false, &saved->x);
}

mh_status mh_transformer_backward(mh_context *context, const mh_transformer *transformer,
                                  const mh_transformer_options *options, const mh_tensor *src,
                                  const mh_tensor *tgt, const mh_tensor *doutput, float *gradients,
                                  mh_tensor *dsrc, mh_tensor *dtgt)
{
    mh_transformer_options own;
    mh_transformer_run r, saved;
    MH_TRY(mh_transformer_check_options(context, transformer, options, &own));
    MH_TRY(mh_transformer_check_call(context, transformer, &own, mh_has_decoder(transformer), src,
                                     tgt, "doutput", doutput, &r));
    MH_TRY(check_gradient(context, "dsrc", dsrc, src));
    MH_TRY(check_gradient(context, "dtgt", dtgt, tgt));
    const mh_tensor all = mh_tensor_1d(gradients, MH_F32, transformer->parameters.floats);
    MH_TRY(MH_CHECK_OVERLAP(context, 3, MH_OPERAND(dsrc), MH_OPERAND(dtgt),
                            {.name = "gradients", .tensor = gradients ? &all : NULL},
                            MH_OPERAND(src), MH_OPERAND(tgt), MH_OPERAND(doutput)));
    if (!own.tape || own.tape->owner != transformer->identity)
        return mh_fail(context, MH_ERROR_ARGUMENT,
                       "tape: expected one with a forward pass of this module");
    memcpy(&saved, own.tape->memory, sizeof saved);
    saved.ready = own.gradients_ready;
    saved.ready_user = own.gradients_ready_user;
    MH_TRY(restore_run(context, "src", src, &r.encoder, gradients, &saved.encoder));
    if (tgt)
        MH_TRY(restore_run(context, "tgt", tgt, &r.decoder, gradients, &saved.decoder));
    if (tgt && !mh_has_encoder(transformer))
        saved.decoder.pass.memory = saved.encoder.x;
    return transformer_grad_backward(context, transformer, &saved, doutput, dsrc, dtgt);
}
