// SPDX-License-Identifier: MIT
// The models: each turns one piece of text into tokens.
#ifndef MH_TEXT_TOKENIZER_MODELS_H
#define MH_TEXT_TOKENIZER_MODELS_H

#include "text/tokenizer.h"

typedef struct mh_model_token {
    int32_t id;
    uint32_t begin, end; // bytes of the text that the model was given
} mh_model_token;

// Tokens, and memory that models work in; all zeros is empty.
typedef struct mh_model_output {
    mh_model_token *tokens;
    size_t count, capacity;
    char *scratch;
    size_t scratch_capacity;
} mh_model_output;

void mh_model_output_free(mh_context *context, mh_model_output *out);
bool mh_model_add(mh_context *context, mh_model_output *out, int32_t id, size_t begin, size_t end);

// Appends the tokens of a piece that begins at `origin`: their offsets are counted from there.
// Errors: MH_ERROR_MEMORY, MH_ERROR_UNSUPPORTED (an unknown character, and no unknown token).
mh_status mh_bpe_encode(mh_context *context, const mh_tokenizer *t, const char *text, size_t size,
                        size_t origin, mh_model_output *out);
mh_status mh_wordpiece_encode(mh_context *context, const mh_tokenizer *t, const char *text,
                              size_t size, size_t origin, mh_model_output *out);
mh_status mh_unigram_encode(mh_context *context, const mh_tokenizer *t, const char *text,
                            size_t size, size_t origin, mh_model_output *out);
mh_status mh_wordlevel_encode(mh_context *context, const mh_tokenizer *t, const char *text,
                              size_t size, size_t origin, mh_model_output *out);

// The tokens of byte fallback for a character; false if one is missing.
bool mh_fallback_ids(const mh_tokenizer *t, const char *text, size_t size, int32_t *ids);

// After the vocabulary is complete: the tries and tables that a model needs.
mh_status mh_model_index(mh_context *context, mh_tokenizer *t);

#endif
