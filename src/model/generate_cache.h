// SPDX-License-Identifier: MIT
// The keys and values of a prompt that the next one may share.
#ifndef MH_MODEL_GENERATE_CACHE_H
#define MH_MODEL_GENERATE_CACHE_H

#include "model/generate_decoder.h"

// A decoder with one sequence, the first *known tokens of the prompt: fewer than `count`, as those
// that follow the prompt depend on its last one.
mh_status mh_prompt_cache_begin(mh_context *context, mh_prompt_cache *cache,
                                const mh_generate_options *options, const int32_t *prompt,
                                size_t count, mh_token_decoder **decoder, size_t *known);

// The sequence has become these tokens.
mh_status mh_prompt_cache_keep(mh_context *context, mh_prompt_cache *cache, const int32_t *ids,
                               size_t count);

void mh_prompt_cache_clear(mh_prompt_cache *cache);

// MH_ERROR_ARGUMENT unless it is of this model.
mh_status mh_prompt_cache_check(mh_context *context, const mh_prompt_cache *cache,
                                const mh_model *model);

#endif
