// SPDX-License-Identifier: MIT
// The multi-head attention module: nn.MultiheadAttention and more. Arguments are checked and turned
// into rows here; attention_layer_run.c does the work.
#include "base/context.h"
#include "nn/attention_layer_run.h"
#include "nn/rows_of.h"
#include "nn/tape.h"
#include "ops/tensor_check.h"
#include <string.h>

struct mh_mha {
    mh_allocator allocator;
    mh_attention_layer layer;
    mh_parameters parameters;
};

// What a call keeps on its tape.
typedef struct mha_saved {
    float *inputs[3];  // copies of query, key, value, where their rows are not evenly spaced
    float *output;     // the same for the output, and in backward for its gradient
    float *dinputs[3]; // and for the inputs' gradients
    mh_batch queries, keys;
    int first[3];         // for each input the first one that is the same
    size_t mask_bytes[2]; // of the padding mask and the mask
    bool has_rule;
    mh_attention_saved attention;
} mha_saved;

static int first_like(const mh_tensor *const inputs[3], int i)
{
    int first = 0;
    while (first < i && !mh_same_rows(inputs[first], inputs[i]))
        first++;
    return first;
}

// ---- making and freeing ------------------------------------------------------------------------

static void declare(mh_parameter_list *list, void *module)
{
    mh_attention_layer_declare(list, "", false, module);
}

mh_status mh_mha_create(mh_context *context, const mh_mha_config *config, mh_mha **mha)
{
    *mha = NULL;
    if (!context)
        return MH_ERROR_ARGUMENT;
    if (!config || config->struct_size != sizeof *config)
        return mh_fail(context, MH_ERROR_ARGUMENT, "config: expected mh_mha_config_default()");
    mh_attention_layer layer;
    mh_status status = mh_attention_layer_check(context, config, &layer);
    if (status)
        return status;
    mh_mha *m = mh_alloc(context, sizeof *m);
    if (!m)
        return MH_ERROR_MEMORY;
    *m = (mh_mha){.allocator = context->allocator, .layer = layer};
    status = mh_parameters_create(context, declare, &m->layer, &m->parameters);
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

// ---- one call ----------------------------------------------------------------------------------

// The engine's rules that know nothing of keys that the module adds.
static bool counts_keys(const mh_attention_options *o)
{
    return o->masks || o->alibi || o->prefix_lengths || o->key_lengths || o->query_documents ||
           o->key_documents;
}

static mh_status check_options(mh_context *context, const mh_mha *mha,
                               const mh_mha_options *options, mh_mha_options *own)
{
    *own = mh_mha_options_default();
    if (!context || !mha)
        return mh_fail(context, MH_ERROR_ARGUMENT, "mha: found NULL, expected a module");
    if (options && options->struct_size != sizeof *own)
        return mh_fail(context, MH_ERROR_ARGUMENT, "options.struct_size: found %zu, expected %zu",
                       options->struct_size, sizeof *own);
    if (options)
        *own = *options;
    if (own->attention.sequences)
        return mh_fail(context, MH_ERROR_ARGUMENT,
                       "attention.sequences: found %zu, expected 0: a module's batch is not packed",
                       own->attention.sequences);
    const bool extra = mha->layer.config.add_bias_kv || mha->layer.config.add_zero_attn;
    if (extra && (counts_keys(&own->attention) || mha->layer.config.alibi))
        return mh_fail(context, MH_ERROR_UNSUPPORTED,
                       "attention: lengths, prefixes, documents, masks and ALiBi are not for a "
                       "module with add_bias_kv or add_zero_attn; use attn_mask");
    if (own->cache && extra)
        return mh_fail(context, MH_ERROR_ARGUMENT,
                       "cache: not for a module with add_bias_kv or add_zero_attn");
    if (own->cache && own->tape)
        return mh_fail(context, MH_ERROR_ARGUMENT, "cache: there is no backward through a cache");
    return MH_OK;
}

// Query, key and value against the config and each other.
static mh_status check_inputs(mh_context *context, const mh_mha *mha, const mh_tensor *inputs[3],
                              mh_attention_call *call)
{
    static const char *const names[3] = {"query", "key", "value"};
    const mh_mha_config *c = &mha->layer.config;
    const size_t widths[3] = {c->input_dim, c->kdim, c->vdim};
    mh_batch batches[3];
    for (int i = 0; i < 3; i++) {
        mh_status status =
            mh_batch_of(context, names[i], inputs[i], widths[i], c->batch_first, &batches[i]);
        if (status)
            return status;
    }
    char found[3][128];
    if (inputs[0]->rank != inputs[1]->rank || inputs[1]->rank != inputs[2]->rank ||
        batches[0].sequences != batches[1].sequences ||
        batches[1].sequences != batches[2].sequences || batches[1].length != batches[2].length)
        return mh_fail(context, MH_ERROR_ARGUMENT,
                       "query, key, value: found %s, %s, %s, expected one batch, and key and value "
                       "of one length",
                       mh_tensor_describe(inputs[0], found[0], sizeof found[0]),
                       mh_tensor_describe(inputs[1], found[1], sizeof found[1]),
                       mh_tensor_describe(inputs[2], found[2], sizeof found[2]));
    call->queries = batches[0];
    call->keys = batches[1];
    return MH_OK;
}

// The position that the cache goes on from.
static mh_status find_first(mh_context *context, const mh_mha_options *options,
                            mh_attention_call *call)
{
    call->first = options->first;
    if (!options->cache)
        return MH_OK;
    const size_t length = mh_kv_cache_length(options->cache, 0);
    for (size_t b = 1; b < call->queries.sequences; b++)
        if (mh_kv_cache_length(options->cache, b) != length)
            return mh_fail(context, MH_ERROR_ARGUMENT,
                           "cache: found sequences of %zu and %zu tokens, expected equal ones for "
                           "RoPE",
                           length, mh_kv_cache_length(options->cache, b));
    call->first += (int64_t)length;
    return MH_OK;
}

// Keys that there will be.
static size_t all_keys(const mh_mha_options *options, const mh_attention_call *call)
{
    size_t longest = 0;
    for (size_t b = 0; b < call->queries.sequences && options->cache; b++) {
        const size_t length = mh_kv_cache_length(options->cache, b);
        longest = length > longest ? length : longest;
    }
    return longest + call->keys.length;
}

// A rule that becomes a mask, as the module adds keys, is never seen by the engine's own checks.
static mh_status check_rule(mh_context *context, mh_causal causal, size_t T, size_t S)
{
    if ((unsigned)causal > MH_CAUSAL_OFFSET)
        return mh_fail(context, MH_ERROR_ARGUMENT, "causal: found %d, which is none of its values",
                       (int)causal);
    if (causal == MH_CAUSAL && T != S)
        return mh_fail(context, MH_ERROR_ARGUMENT,
                       "causal: %zu queries and %zu keys need an alignment: expected "
                       "MH_CAUSAL_TOP_LEFT, MH_CAUSAL_BOTTOM_RIGHT or MH_CAUSAL_OFFSET",
                       T, S);
    return MH_OK;
}

static mh_status check_call(mh_context *context, const mh_mha *mha, const mh_mha_options *options,
                            const mh_tensor *inputs[3], const mh_tensor *output,
                            mh_attention_call *call)
{
    const mh_mha_config *c = &mha->layer.config;
    mh_batch out;
    *call = (mh_attention_call){.padding_mask = options->key_padding_mask,
                                .mask = options->attn_mask,
                                .attention = &options->attention,
                                .cache = options->cache,
                                .training = options->training,
                                .seed = mh_mix_seed(options->seed, options->step, options->stream),
                                .average = !options->per_head_weights,
                                .dropped = true};
    mh_status status = check_inputs(context, mha, inputs, call);
    if (!status)
        status = mh_batch_of(context, "output", output, c->embed_dim, c->batch_first, &out);
    if (status)
        return status;
    if (output->rank != inputs[0]->rank || out.sequences != call->queries.sequences ||
        out.length != call->queries.length)
        return mh_fail(context, MH_ERROR_ARGUMENT,
                       "output: found %zu sequences of %zu, expected %zu of %zu as query has",
                       out.sequences, out.length, call->queries.sequences, call->queries.length);
    const size_t B = call->queries.sequences, H = c->num_heads;
    const size_t S = all_keys(options, call);
    status = mh_mask_check(context, "key_padding_mask", call->padding_mask, true, B, H, 0, S);
    if (!status)
        status =
            mh_mask_check(context, "attn_mask", call->mask, false, B, H, call->queries.length, S);
    if (!status && mh_attention_layer_extra(&mha->layer))
        status = check_rule(context, options->attention.causal, call->queries.length, S);
    if (!status && c->rope)
        status = find_first(context, options, call);
    return status;
}

static size_t bytes_of(const mh_tensor *mask)
{
    return mask ? mh_tensor_count(mask) * mh_dtype_size(mask->dtype) + 1 : 0;
}

static void layout(const mh_mha *mha, const mh_attention_call *call, const mh_tensor *inputs[3],
                   const mh_tensor *output, bool backward, mh_arena *arena, mha_saved *saved)
{
    mha_saved *own = mh_arena_take(arena, 1, sizeof *own);
    (void)own;
    saved->queries = call->queries;
    saved->keys = call->keys;
    saved->mask_bytes[0] = bytes_of(call->padding_mask);
    saved->mask_bytes[1] = bytes_of(call->mask);
    saved->has_rule = mh_attention_call_has_rule(call);
    for (int i = 0; i < 3; i++) {
        const int first = saved->first[i] = first_like(inputs, i);
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

// The memory for a dense copy, if t needs one.
static float *if_needed(const mh_tensor *t, float *memory)
{
    return mh_rows_flat(t) ? NULL : memory;
}

// The weights output as the engine wants it: (B, H or 1, T, S).
static mh_status shape_weights(mh_context *context, const mh_mha_options *options,
                               const mh_tensor *weights, bool batched, mh_tensor *shaped)
{
    const int rank = 2 + batched + options->per_head_weights;
    mh_status status = mh_check_float(context, "weights", weights, rank);
    if (status)
        return status;
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

// The same for a gradient: sums of two are made in f32, however they are rounded in the end.
static float *if_summed(const mh_tensor *t, float *memory)
{
    return t->dtype == MH_F32 ? if_needed(t, memory) : memory;
}

static mh_status run(mh_context *context, const mh_mha *mha, mh_attention_call *call,
                     mha_saved *saved, const mh_tensor *inputs[3], const mh_tensor *output)
{
    mh_status status = MH_OK;
    for (int i = 0; i < 3 && !status; i++)
        status = mh_rows_of(context, inputs[i], saved->inputs[i], saved->first[i] == i,
                            &call->inputs[i]);
    mh_tensor rows;
    if (!status)
        status = mh_rows_of(context, output, if_needed(output, saved->output), false, &rows);
    if (!status)
        status = mh_attention_layer_forward(context, &mha->layer, mha->parameters.values, call,
                                            &saved->attention, &rows);
    return status ? status : mh_rows_return(context, if_needed(output, saved->output), output);
}

// After a failure: what the call has appended is forgotten.
static void restore_cache(mh_context *context, mh_kv_cache *cache, size_t length,
                          const mh_attention_call *call)
{
    const bool appended = mh_kv_cache_length(cache, 0) > length;
    for (size_t b = 0; b < call->queries.sequences && appended; b++)
        mh_kv_cache_truncate(context, cache, b, mh_kv_cache_length(cache, b) - call->keys.length);
}

mh_status mh_mha_forward(mh_context *context, const mh_mha *mha, const mh_mha_options *options,
                         const mh_tensor *query, const mh_tensor *key, const mh_tensor *value,
                         const mh_tensor *output, const mh_tensor *weights)
{
    const mh_tensor *inputs[3] = {query, key, value};
    mh_mha_options own;
    mh_attention_call call;
    mh_tensor shaped;
    mh_status status = check_options(context, mha, options, &own);
    if (!status)
        status = check_call(context, mha, &own, inputs, output, &call);
    if (!status && weights) {
        status = shape_weights(context, &own, weights, query->rank == 3, &shaped);
        call.weights = &shaped;
    }
    if (status)
        return status;

    for (int i = 0; i < 3; i++)
        call.inputs[i] = *inputs[i]; // enough to tell which are the same
    mha_saved saved;
    mh_arena arena = {0};
    layout(mha, &call, inputs, output, own.tape != NULL, &arena, &saved);
    status = mh_tape_begin(context, own.tape, &arena);
    if (!status) {
        layout(mha, &call, inputs, output, own.tape != NULL, &arena, &saved);
        const size_t length = own.cache ? mh_kv_cache_length(own.cache, 0) : 0;
        status = run(context, mha, &call, &saved, inputs, output);
        if (status && own.cache)
            restore_cache(context, own.cache, length, &call);
    }
    if (!status && own.tape) {
        memcpy(own.tape->memory, &saved, sizeof saved);
        own.tape->owner = mha;
    }
    return status;
}

// ---- backward ----------------------------------------------------------------------------------

static mh_status check_gradients(mh_context *context, const mh_tensor *inputs[3],
                                 const mh_tensor *gradients[3])
{
    static const char *const names[3] = {"dquery", "dkey", "dvalue"};
    char found[128], expected[128];
    for (int i = 0; i < 3; i++) {
        if (!gradients[i])
            continue;
        if (first_like(inputs, i) < i)
            return mh_fail(context, MH_ERROR_ARGUMENT,
                           "%s: found a tensor, expected NULL: its input is the same as %s's, "
                           "where both gradients are added up",
                           names[i], names[first_like(inputs, i)]);
        mh_status status = mh_check_float(context, names[i], gradients[i], inputs[i]->rank);
        if (status)
            return status;
        if (!mh_tensor_same_shape(gradients[i], inputs[i]))
            return mh_fail(context, MH_ERROR_ARGUMENT, "%s: found %s, expected the shape of %s",
                           names[i], mh_tensor_describe(gradients[i], found, sizeof found),
                           mh_tensor_describe(inputs[i], expected, sizeof expected));
    }
    return MH_OK;
}

static bool same_batch(const mh_batch *a, const mh_batch *b)
{
    return a->sequences == b->sequences && a->length == b->length;
}

// The arguments of now beside those of the forward pass, as far as its memory depends on them.
static mh_status check_kept(mh_context *context, const mha_saved *saved,
                            const mh_attention_call *call, const mh_tensor *inputs[3])
{
    bool same =
        same_batch(&saved->queries, &call->queries) && same_batch(&saved->keys, &call->keys);
    for (int i = 0; i < 3; i++)
        same = same && saved->first[i] == first_like(inputs, i) &&
               (saved->inputs[i] || mh_rows_flat(inputs[i]));
    if (!same)
        return mh_fail(context, MH_ERROR_ARGUMENT,
                       "query, key, value: expected the shapes and strides of the forward pass");
    if (saved->mask_bytes[0] != bytes_of(call->padding_mask) ||
        saved->mask_bytes[1] != bytes_of(call->mask) ||
        saved->has_rule != mh_attention_call_has_rule(call))
        return mh_fail(context, MH_ERROR_ARGUMENT,
                       "key_padding_mask, attn_mask, causal, window: expected those of the forward "
                       "pass");
    return MH_OK;
}

mh_status mh_mha_backward(mh_context *context, const mh_mha *mha, const mh_mha_options *options,
                          const mh_tensor *query, const mh_tensor *key, const mh_tensor *value,
                          const mh_tensor *doutput, float *gradients, const mh_tensor *dquery,
                          const mh_tensor *dkey, const mh_tensor *dvalue)
{
    const mh_tensor *inputs[3] = {query, key, value}, *wanted[3] = {dquery, dkey, dvalue};
    mh_mha_options own;
    mh_attention_call call;
    mh_status status = check_options(context, mha, options, &own);
    if (!status)
        status = check_call(context, mha, &own, inputs, doutput, &call);
    if (!status)
        status = check_gradients(context, inputs, wanted);
    if (status)
        return status;
    if (!own.tape || own.tape->owner != mha)
        return mh_fail(context, MH_ERROR_ARGUMENT,
                       "tape: expected one with a forward pass of this module");
    mha_saved saved;
    memcpy(&saved, own.tape->memory, sizeof saved);
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
        status = mh_rows_of(context, doutput, if_needed(doutput, saved.output), true, &rows);
    if (!status)
        status = mh_attention_layer_backward(context, &mha->layer, mha->parameters.values, &call,
                                             &saved.attention, &rows, gradients, dinputs, false);
    for (int i = 0; i < 3 && !status; i++)
        if (wanted[i])
            status = mh_rows_return(context, if_summed(wanted[i], saved.dinputs[i]), wanted[i]);
    return status;
}
