// SPDX-License-Identifier: MIT
// A model on growing sequences: token ids in, hidden states out, with KV caches in between.
#ifndef MH_MODEL_GENERATE_DECODER_H
#define MH_MODEL_GENERATE_DECODER_H

#include <multihead/generate.h>

typedef struct mh_token_decoder mh_token_decoder;

// Starts without sequences. `disabled_heads` (layers, heads) may be NULL and is borrowed.
mh_status mh_token_decoder_create(mh_context *context, const mh_model *model, mh_dtype cache_dtype,
                                  const bool *disabled_heads, mh_token_decoder **decoder);
void mh_token_decoder_free(mh_token_decoder *decoder); // NULL is allowed

// For steps from now on.
void mh_token_decoder_disable_heads(mh_token_decoder *decoder, const bool *disabled_heads);

// Adds empty sequences behind the others.
mh_status mh_token_decoder_extend(mh_context *context, mh_token_decoder *decoder, size_t count);

// Sequence b gets the tokens ids[starts[b]] to ids[starts[b + 1] - 1], possibly none; hidden
// (rows, D): their last hidden states.
mh_status mh_token_decoder_step(mh_context *context, mh_token_decoder *decoder,
                                const int64_t *starts, const int32_t *ids, float *hidden);

// Sequence b forgets all but its first `length` tokens. Errors as mh_decoding_truncate.
mh_status mh_token_decoder_truncate(mh_context *context, mh_token_decoder *decoder, size_t b,
                                    size_t length);

// Sequence i continues from sequence parents[i]; others are dropped.
mh_status mh_token_decoder_select(mh_context *context, mh_token_decoder *decoder,
                                  const size_t *parents, size_t count);

#endif
