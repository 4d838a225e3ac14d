// SPDX-License-Identifier: MIT
// The multi-head attention module, a superset of nn.MultiheadAttention. Its inputs become rows
// here; attention_layer_run.c computes.
#include "base/compiler.h"
#include "base/context.h"
#include "base/sized_struct.h"
#include "nn/mha_call.h"
#include "nn/tape.h"
#include "ops/overlap.h"
#include "ops/tensor_check.h"
#include <string.h>

// ---- creating and freeing -----------------------------------------------------------------------

static void mha_declare(mh_parameter_list *list, void *module)
{
    mh_attention_layer_declare(list, "", false, module);
}

mh_status mh_mha_create(mh_context *context, const mh_mha_config *config, mh_mha **mha)
{
    if (mh_need(context, mha, "mha"))
        return MH_ERROR_ARGUMENT;
    *mha = NULL;
    mh_mha_config own = mh_mha_config_default();
    mh_attention_layer layer;
    mh_status status = mh_need(context, config, "config");
    if (!status)
        status = MH_READ_STRUCT(context, mh_mha_config, config, &own);
    if (!status)
        status = mh_attention_layer_check(context, &own, &layer);
    if (status)
        return status;
    mh_mha *m = mh_alloc(context, sizeof *m);
    if (!m)
        return MH_ERROR_MEMORY;
    *m = (mh_mha){.allocator = context->allocator, .identity = mh_new_identity(), .layer = layer};
    status = mh_parameters_create(context, mha_declare, &m->layer, false, &m->parameters);
    if (status) {
        mh_mha_free(m);
        return status;
    }
    *mha = m;
    return MH_OK;
}

void mh_mha_free(mh_mha *mha)
{
    if (!mha)
        return;
    mh_parameters_free(&mha->allocator, &mha->parameters);
    mha->allocator.release(mha->allocator.user, mha, sizeof *mha);
}

const mh_parameters *mh_mha_parameters(const mh_mha *mha) { return &mha->parameters; }

// ---- forward ------------------------------------------------------------------------------------

static void mha_layout(const mh_mha *mha, const mh_attention_call *call, const mh_tensor *inputs[3],
                       const mh_tensor *output, bool backward, mh_arena *arena, mh_mha_saved *saved)
{
    mh_arena_take(arena, 1, sizeof *saved); // the header of the tape, written last
    saved->queries = call->queries;
    saved->keys = call->keys;
    saved->mask_bytes[0] = mh_mask_bytes(call->padding_mask);
    saved->mask_bytes[1] = mh_mask_bytes(call->mask);
    saved->has_rule = mh_attention_call_has_rule(call);
    for (int i = 0; i < 3; i++) {
        const int first = saved->first[i] = mh_first_like(inputs, i);
        saved->inputs[i] = first < i ? saved->inputs[first] : mh_rows_take(arena, inputs[i]);
        saved->dinputs[i] = NULL;
        if (backward)
            saved->dinputs[i] = mh_arena_take(arena, mh_tensor_count(inputs[i]), sizeof(float));
    }
    saved->output = mh_arena_take(arena, mh_tensor_count(output), sizeof(float));
    mh_attention_layer_layout(&mha->layer, call, backward, arena, &saved->attention);
    if (backward)
        mh_attention_layer_layout_backward(&mha->layer, call, arena, &saved->attention);
}

// The weights output in the engine's shape: (B, H or 1, T, S).
static mh_status shape_weights(mh_context *context, const mh_mha_options *options,
                               const mh_tensor *weights, bool batched, mh_tensor *shaped)
{
    const int rank = 2 + batched + options->per_head_weights;
    MH_TRY(mh_check_float(context, "weights", weights, rank));
    *shaped = *weights;
    shaped->rank = 4;
    for (int d = 3, from = rank - 1; d >= 0; d--) {
        const bool missing = (d == 1 && !options->per_head_weights) || (d == 0 && !batched);
        shaped->shape[d] = missing ? 1 : weights->shape[from];
        shaped->stride[d] = missing ? 0 : weights->stride[from];
        from -= !missing;
    }
    return MH_OK;
}

static mh_status mha_run(mh_context *context, const mh_mha *mha, mh_attention_call *call,
                         mh_mha_saved *saved, const mh_tensor *inputs[3], mh_tensor *output)
{
    mh_status status = MH_OK;
    for (int i = 0; i < 3 && !status; i++)
        status = mh_rows_of(context, inputs[i], saved->inputs[i], saved->first[i] == i,
                            &call->inputs[i]);
    mh_tensor rows;
    if (!status)
        status = mh_rows_of(context, output, mh_dense_memory(output, saved->output), false, &rows);
    if (!status)
        status = mh_attention_layer_forward(context, &mha->layer, call, &saved->attention, &rows);
    return status ? status
                  : mh_rows_return(context, mh_dense_memory(output, saved->output), output);
}

// After a failure: removes what the call has appended.
static void restore_cache(mh_context *context, mh_kv_cache *cache, size_t length,
                          const mh_attention_call *call)
{
    const bool appended = mh_kv_cache_length(cache, 0) > length;
    mh_status status = MH_OK;
    for (size_t b = 0; b < call->queries.sequences && appended && !status; b++)
        status = mh_kv_cache_truncate(context, cache, b,
                                      mh_kv_cache_length(cache, b) - call->keys.length);
}

mh_status mh_mha_forward(mh_context *context, const mh_mha *mha, const mh_mha_options *options,
                         const mh_tensor *query, const mh_tensor *key, const mh_tensor *value,
                         mh_tensor *output, mh_tensor *weights)
{
    const mh_tensor *inputs[3] = {query, key, value};
    mh_mha_options own;
    mh_attention_options attention;
    mh_pass pass;
    mh_attention_call call;
    mh_tensor shaped;
    mh_status status = mh_mha_check_options(context, mha, options, &own, &attention);
    if (!status)
        status = mh_mha_check_call(context, mha, &own, inputs, "output", output, &pass, &call);
    if (!status && weights) {
        status = shape_weights(context, &own, weights, query->rank == 3, &shaped);
        call.weights = &shaped;
    }
    if (!status && attention.lse)
        status = mh_check_f32(context, "lse", attention.lse, 3);
    const mh_tensor *written = weights ? weights : attention.weights;
    if (!status && written)
        status = mh_check_float(context, "weights", written, -1);
    if (!status)
        status = MH_CHECK_OVERLAP(
            context, 3, MH_OPERAND(output), {.name = "weights", .tensor = written},
            {.name = "lse", .tensor = attention.lse}, MH_OPERAND(query), MH_OPERAND(key),
            MH_OPERAND(value), {.name = "key_padding_mask", .tensor = own.key_padding_mask},
            {.name = "attn_mask", .tensor = own.attn_mask});
    if (status)
        return status;

    for (int i = 0; i < 3; i++)
        call.inputs[i] = *inputs[i]; // enough to tell which are the same
    mh_mha_saved saved;
    mh_arena arena = {0};
    mha_layout(mha, &call, inputs, output, own.tape != NULL, &arena, &saved);
    status = mh_tape_begin(context, own.tape, &arena);
    if (!status) {
        mha_layout(mha, &call, inputs, output, own.tape != NULL, &arena, &saved);
        const size_t length = own.cache ? mh_kv_cache_length(own.cache, 0) : 0;
        status = mha_run(context, mha, &call, &saved, inputs, output);
        if (status && own.cache)
            restore_cache(context, own.cache, length, &call);
    }
    if (!status && own.tape) {
        memcpy(own.tape->memory, &saved, sizeof saved);
        own.tape->owner = mha->identity;
    }
    return status;
}
