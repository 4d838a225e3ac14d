// SPDX-License-Identifier: MIT
// Argument checks of the multi-head attention module; see mha_call.h.
#include "base/compiler.h"
#include "base/context.h"
#include "base/sized_struct.h"
#include "nn/mha_call.h"

// Options of the engine that do not support extra keys.
static bool counts_keys(const mh_attention_options *o)
{
    return o->masks || o->alibi || o->prefix_lengths || o->key_lengths || o->query_documents ||
           o->key_documents;
}

mh_status mh_mha_check_options(mh_context *context, const mh_mha *mha,
                               const mh_mha_options *options, mh_mha_options *own,
                               mh_attention_options *attention)
{
    *own = mh_mha_options_default();
    *attention = mh_attention_options_default();
    if (!context || !mha)
        return mh_fail(context, MH_ERROR_ARGUMENT, "mha: found NULL, expected a module");
    MH_TRY(MH_READ_STRUCT(context, mh_mha_options, options, own));
    MH_TRY(MH_READ_STRUCT(context, mh_attention_options, own->attention, attention));
    own->attention = attention;
    if (attention->sequences)
        return mh_fail(context, MH_ERROR_ARGUMENT,
                       "attention.sequences: found %zu, expected 0: a module's batch is not packed",
                       attention->sequences);
    const size_t masks = attention->mask_count;
    if (masks > MH_OWN_MASKS || (masks && !attention->masks))
        return mh_fail(context, MH_ERROR_ARGUMENT,
                       "attention.masks: found %zu%s, expected at most %d", masks,
                       attention->masks ? "" : " at NULL", MH_OWN_MASKS);
    const bool extra = mha->layer.config.add_bias_kv || mha->layer.config.add_zero_attn;
    if (extra && (counts_keys(attention) || mha->layer.config.alibi))
        return mh_fail(
            context, MH_ERROR_UNSUPPORTED,
            "attention: lengths, prefixes, documents, masks and ALiBi are not supported in a "
            "module with add_bias_kv or add_zero_attn; use attn_mask");
    if (own->cache && extra)
        return mh_fail(context, MH_ERROR_ARGUMENT,
                       "cache: not supported in a module with add_bias_kv or add_zero_attn");
    if (own->cache && own->tape)
        return mh_fail(context, MH_ERROR_ARGUMENT,
                       "cache: there is no backward pass through a cache");
    return MH_OK;
}

// Checks query, key and value against the config and each other.
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

// The position of the first token: with a cache it is the cache's length, which the caller may also
// pass.
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
    if (options->first != 0 && options->first != (int64_t)length)
        return mh_fail(context, MH_ERROR_ARGUMENT,
                       "first: found %lld, expected 0 or %zu, the length of the cache, from which "
                       "positions continue",
                       (long long)options->first, length);
    call->first = (int64_t)length;
    return MH_OK;
}

// The number of keys after appending.
static size_t all_keys(const mh_mha_options *options, const mh_attention_call *call)
{
    size_t longest = 0;
    for (size_t b = 0; b < call->queries.sequences && options->cache; b++) {
        const size_t length = mh_kv_cache_length(options->cache, b);
        longest = length > longest ? length : longest;
    }
    return longest + call->keys.length;
}

// With extra keys the rule becomes a mask, which bypasses the engine's own checks.
static mh_status check_rule(mh_context *context, mh_causal causal, size_t T, size_t S)
{
    if ((unsigned)causal > MH_CAUSAL_OFFSET)
        return mh_fail(context, MH_ERROR_ARGUMENT, "causal: found %d, expected an mh_causal",
                       (int)causal);
    if (causal == MH_CAUSAL && T != S)
        return mh_fail(context, MH_ERROR_ARGUMENT,
                       "causal: %zu queries and %zu keys need an alignment: expected "
                       "MH_CAUSAL_TOP_LEFT, MH_CAUSAL_BOTTOM_RIGHT or MH_CAUSAL_OFFSET",
                       T, S);
    return MH_OK;
}

mh_status mh_mha_check_call(mh_context *context, const mh_mha *mha, const mh_mha_options *options,
                            const mh_tensor *inputs[3], const char *output_name,
                            const mh_tensor *output, mh_pass *pass, mh_attention_call *call)
{
    const mh_mha_config *c = &mha->layer.config;
    mh_batch out;
    *pass = (mh_pass){.values = mha->parameters.values, .training = options->training};
    *call = (mh_attention_call){.pass = pass,
                                .padding_mask = options->key_padding_mask,
                                .mask = options->attn_mask,
                                .attention = options->attention,
                                .cache = options->cache,
                                .seed = mh_mix_seed(options->seed, options->step, options->stream),
                                .average = !options->per_head_weights,
                                .dropped = true};
    mh_status status = check_inputs(context, mha, inputs, call);
    if (!status)
        status = mh_batch_of(context, output_name, output, c->embed_dim, c->batch_first, &out);
    if (status)
        return status;
    if (output->rank != inputs[0]->rank || out.sequences != call->queries.sequences ||
        out.length != call->queries.length)
        return mh_fail(context, MH_ERROR_ARGUMENT,
                       "%s: found %zu sequences of %zu, expected %zu of %zu as query has",
                       output_name, out.sequences, out.length, call->queries.sequences,
                       call->queries.length);
    const size_t B = call->queries.sequences, H = c->num_heads;
    const size_t S = all_keys(options, call);
    status = mh_mask_check(context, "key_padding_mask", call->padding_mask, true, B, H, 0, S);
    if (!status)
        status =
            mh_mask_check(context, "attn_mask", call->mask, false, B, H, call->queries.length, S);
    if (!status && mh_attention_layer_extra(&mha->layer))
        status = check_rule(context, options->attention->causal, call->queries.length, S);
    if (!status && c->rope)
        status = find_first(context, options, call);
    return status;
}
