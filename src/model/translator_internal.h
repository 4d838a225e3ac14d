// SPDX-License-Identifier: MIT
// A translator's internals: embedding and logits. Between them is nn's Transformer.
#ifndef MH_MODEL_TRANSLATOR_INTERNAL_H
#define MH_MODEL_TRANSLATOR_INTERNAL_H

#include <multihead/ops.h>
#include <multihead/translator.h>

struct mh_translator {
    mh_allocator allocator;
    mh_translator_config config;
    mh_precision precision;
    mh_tokenizer *tokenizer;
    mh_transformer *transformer;
    float *positions; // (max_length, D)
    uint64_t foreign; // characters that the tokenizer has not learnt, for mh_plain_text
};

// What AUTO means for a translator: bf16 where that is much faster, at level amx, else f32. Never
// decided by timing.
mh_precision mh_translator_precision(const mh_context *context, mh_precision precision);

// mh_translator_save in two steps: config.json and tokenizer.json; model.safetensors.
mh_status mh_translator_save_settings(mh_context *context, const mh_translator *translator,
                                      const char *directory);
mh_status mh_translator_save_weights(mh_context *context, const mh_translator *translator,
                                     const char *directory, mh_dtype dtype);

// x (rows, D) f32 = sqrt(D) embedding[ids] + position; ids and positions (rows). `scratch` has as
// many floats as x.
mh_status mh_translator_embed(mh_context *context, const mh_translator *translator,
                              const int32_t *ids, const int32_t *positions, mh_tensor *x,
                              float *scratch);

// (vocabulary, D): in the parameters, or in gradients laid out like them.
mh_tensor mh_translator_embedding(const mh_translator *translator, float *values);

// logits (rows, vocabulary) of the Transformer's output x (rows, D); `packed` is the embedding,
// packed, or NULL.
mh_status mh_translator_logits(mh_context *context, const mh_translator *translator,
                               const mh_packed_matrix *packed, const mh_tensor *x,
                               mh_tensor *logits);

// All weights used in translation, packed. Error: MH_ERROR_MEMORY.
typedef struct mh_translator_weights {
    mh_packed_weights *layers;
    mh_packed_matrix *embedding;
} mh_translator_weights;

mh_status mh_translator_weights_create(mh_context *context, const mh_translator *translator,
                                       mh_translator_weights *weights);
void mh_translator_weights_free(mh_translator_weights *weights); // all NULL is allowed

#endif
