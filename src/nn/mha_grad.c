// SPDX-License-Identifier: MIT
// The multi-head attention module's backward pass. The forward pass is on the tape; the arguments
// must be those of the forward pass.
#include "nn/mha_call.h"
#include "nn/tape.h"
#include "ops/overlap.h"
#include "ops/tensor_check.h"
#include <string.h>

// Memory for a dense gradient, if it needs one: sums of gradients are computed in f32 and rounded
// at the end.
static float *if_summed(const mh_tensor *t, float *memory)
{
    return t->dtype == MH_F32 ? mh_dense_memory(t, memory) : memory;
}

static mh_status check_gradients(mh_context *context, const mh_tensor *inputs[3],
                                 mh_tensor *const gradients[3])
{
    static const char *const names[3] = {"dquery", "dkey", "dvalue"};
    static const char *const input_names[3] = {"query", "key", "value"};
    for (int i = 0; i < 3; i++) {
        if (!gradients[i])
            continue;
        if (mh_first_like(inputs, i) < i)
            return mh_fail(context, MH_ERROR_ARGUMENT,
                           "%s: found a tensor, expected NULL: its input is the same as %s's, "
                           "where both gradients are summed",
                           names[i], names[mh_first_like(inputs, i)]);
        mh_status status =
            mh_check_like(context, names[i], gradients[i], input_names[i], inputs[i]);
        if (status)
            return status;
    }
    return MH_OK;
}

static bool same_batch(const mh_batch *a, const mh_batch *b)
{
    return a->sequences == b->sequences && a->length == b->length;
}

// Checks the arguments against those of the forward pass, as far as the tape's layout depends on
// them.
static mh_status check_kept(mh_context *context, const mh_mha_saved *saved,
                            const mh_attention_call *call, const mh_tensor *inputs[3])
{
    bool same =
        same_batch(&saved->queries, &call->queries) && same_batch(&saved->keys, &call->keys);
    for (int i = 0; i < 3; i++)
        same = same && saved->first[i] == mh_first_like(inputs, i) &&
               (saved->inputs[i] || mh_rows_flat(inputs[i]));
    if (!same)
        return mh_fail(context, MH_ERROR_ARGUMENT,
                       "query, key, value: expected the shapes and strides of the forward pass");
    if (saved->mask_bytes[0] != mh_mask_bytes(call->padding_mask) ||
        saved->mask_bytes[1] != mh_mask_bytes(call->mask) ||
        saved->has_rule != mh_attention_call_has_rule(call))
        return mh_fail(context, MH_ERROR_ARGUMENT,
                       "key_padding_mask, attn_mask, causal, window: expected those of the forward "
                       "pass");
    return MH_OK;
}

mh_status mh_mha_backward(mh_context *context, const mh_mha *mha, const mh_mha_options *options,
                          const mh_tensor *query, const mh_tensor *key, const mh_tensor *value,
                          const mh_tensor *doutput, float *gradients, mh_tensor *dquery,
                          mh_tensor *dkey, mh_tensor *dvalue)
{
    const mh_tensor *inputs[3] = {query, key, value};
    mh_tensor *wanted[3] = {dquery, dkey, dvalue};
    mh_mha_options own;
    mh_attention_options attention;
    mh_pass pass;
    mh_attention_call call;
    mh_status status = mh_mha_check_options(context, mha, options, &own, &attention);
    if (!status)
        status = mh_mha_check_call(context, mha, &own, inputs, "doutput", doutput, &pass, &call);
    if (!status)
        status = check_gradients(context, inputs, wanted);
    if (!status) {
        const mh_tensor all = mh_tensor_1d(gradients, MH_F32, mha->parameters.floats);
        status = MH_CHECK_OVERLAP(
            context, 4, MH_OPERAND(dquery), MH_OPERAND(dkey), MH_OPERAND(dvalue),
            {.name = "gradients", .tensor = gradients ? &all : NULL}, MH_OPERAND(query),
            MH_OPERAND(key), MH_OPERAND(value), MH_OPERAND(doutput));
    }
    if (status)
        return status;
    if (!own.tape || own.tape->owner != mha->identity)
        return mh_fail(context, MH_ERROR_ARGUMENT,
                       "tape: expected one with a forward pass of this module");
    mh_mha_saved saved;
    memcpy(&saved, own.tape->memory, sizeof saved);
    pass.gradients = gradients;
    status = check_kept(context, &saved, &call, inputs);
    mh_tensor dinputs[3], rows;
    for (int i = 0; i < 3 && !status; i++) {
        status = mh_rows_of(context, inputs[i], saved.inputs[i], false, &call.inputs[i]);
        dinputs[i] = (mh_tensor){.data = NULL};
        if (!status && wanted[i])
            status = mh_rows_of(context, wanted[i], if_summed(wanted[i], saved.dinputs[i]), false,
                                &dinputs[i]);
    }
    if (!status)
        status = mh_rows_of(context, doutput, mh_dense_memory(doutput, saved.output), true, &rows);
    if (!status)
        status = mh_attention_layer_backward(context, &mha->layer, &call, &saved.attention, &rows,
                                             dinputs, false);
    for (int i = 0; i < 3 && !status; i++)
        if (wanted[i])
            status = mh_rows_return(context, if_summed(wanted[i], saved.dinputs[i]), wanted[i]);
    return status;
}
