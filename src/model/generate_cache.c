// SPDX-License-Identifier: MIT
// See generate_cache.h. Whatever would make cached keys and values differ from those of a new
// sequence, such as other disabled heads, empties the cache.
#include "model/generate_cache.h"
#include "base/argument_check.h"
#include "base/compiler.h"
#include "base/release.h"
#include "base/size_math.h"
#include "model/generate_internal.h"
#include "support/grow.h"
#include <string.h>

struct mh_prompt_cache {
    mh_allocator allocator;
    const mh_model *model;
    mh_token_decoder *decoder; // NULL: nothing is held
    mh_dtype dtype;
    bool *disabled; // (heads): those that the decoder was run without
    size_t heads;   // of all layers
    int32_t *ids;   // (count)
    size_t count, capacity, reused;
};

mh_status mh_prompt_cache_create(mh_context *context, const mh_model *model,
                                 mh_prompt_cache **cache)
{
    MH_TRY(MH_NEED(context, {"cache", cache}));
    *cache = NULL;
    MH_TRY(MH_NEED(context, {"model", model}));
    MH_TRY(mh_generate_check_model(context, model));
    const size_t heads = model->info.layers * model->info.heads;
    mh_prompt_cache *made = mh_alloc(context, sizeof *made);
    bool *disabled = made ? mh_alloc(context, heads * sizeof *disabled) : NULL;
    if (!disabled) {
        mh_free(context, made, sizeof *made);
        return MH_ERROR_MEMORY;
    }
    *made = (mh_prompt_cache){.allocator = mh_context_allocator(context),
                              .model = model,
                              .disabled = disabled,
                              .heads = heads};
    *cache = made;
    return MH_OK;
}

void mh_prompt_cache_clear(mh_prompt_cache *cache)
{
    mh_token_decoder_free(cache->decoder);
    cache->decoder = NULL;
    cache->count = 0;
}

void mh_prompt_cache_free(mh_prompt_cache *cache)
{
    if (!cache)
        return;
    const mh_allocator allocator = cache->allocator;
    mh_prompt_cache_clear(cache);
    mh_release(&allocator, cache->disabled, cache->heads * sizeof *cache->disabled);
    mh_release(&allocator, cache->ids, cache->capacity * sizeof *cache->ids);
    mh_release(&allocator, cache, sizeof *cache);
}

size_t mh_prompt_cache_length(const mh_prompt_cache *cache) { return cache->count; }
size_t mh_prompt_cache_reused(const mh_prompt_cache *cache) { return cache->reused; }

mh_status mh_prompt_cache_check(mh_context *context, const mh_prompt_cache *cache,
                                const mh_model *model)
{
    if (cache->model == model)
        return MH_OK;
    return mh_fail(context, MH_ERROR_ARGUMENT,
                   "prompt_cache: found one of another model, expected one of this model");
}

// ---- a prompt -----------------------------------------------------------------------------------

static bool is_disabled(const bool *disabled_heads, size_t i)
{
    return disabled_heads && disabled_heads[i];
}

static bool has_other_options(const mh_prompt_cache *cache, const mh_generate_options *o)
{
    bool other = cache->dtype != o->cache_dtype;
    for (size_t i = 0; i < cache->heads; i++)
        other = other || cache->disabled[i] != is_disabled(o->disabled_heads, i);
    return other;
}

static mh_status make_decoder(mh_context *context, mh_prompt_cache *cache,
                              const mh_generate_options *o)
{
    cache->count = 0;
    cache->dtype = o->cache_dtype;
    for (size_t i = 0; i < cache->heads; i++)
        cache->disabled[i] = is_disabled(o->disabled_heads, i);
    MH_TRY(mh_token_decoder_create(context, cache->model, o->cache_dtype, NULL, &cache->decoder));
    return mh_token_decoder_extend(context, cache->decoder, 1);
}

static size_t count_common(const mh_prompt_cache *cache, const int32_t *prompt, size_t count)
{
    size_t common = 0;
    while (common < cache->count && common + 1 < count && cache->ids[common] == prompt[common])
        common++;
    return common;
}

mh_status mh_prompt_cache_begin(mh_context *context, mh_prompt_cache *cache,
                                const mh_generate_options *o, const int32_t *prompt, size_t count,
                                mh_token_decoder **decoder, size_t *known)
{
    *known = count_common(cache, prompt, count);
    // A window may have released keys that are needed: then all is read again.
    if (!cache->decoder || has_other_options(cache, o) ||
        mh_token_decoder_truncate(context, cache->decoder, 0, *known)) {
        mh_prompt_cache_clear(cache);
        *known = 0;
        MH_TRY(make_decoder(context, cache, o));
    }
    mh_token_decoder_disable_heads(cache->decoder, o->disabled_heads);
    cache->count = cache->reused = *known;
    *decoder = cache->decoder;
    return MH_OK;
}

mh_status mh_prompt_cache_keep(mh_context *context, mh_prompt_cache *cache, const int32_t *ids,
                               size_t count)
{
    if (!mh_grow(context, &cache->ids, &cache->capacity, count, sizeof *cache->ids))
        return MH_ERROR_MEMORY;
    memcpy(cache->ids, ids, count * sizeof *ids);
    cache->count = count;
    mh_token_decoder_disable_heads(cache->decoder, NULL); // those of the call may go away
    return MH_OK;
}
