// SPDX-License-Identifier: MIT
// multihead/translator.h: a model that translates: an encoder-decoder Transformer over tokens, and
// the tokenizer that makes them.
//
//     mh_translator *translator;
//     mh_translator_load(context, "models/fr-en", MH_PRECISION_F32, &translator);
//     const mh_text text = {"Bonjour !", 9};
//     mh_translations *translations;
//     mh_translate(context, translator, NULL, &text, 1, &translations);
//     puts(mh_translation(translations, 0, 0)->text.bytes);
//     mh_translations_free(translations);
//     mh_translator_free(translator);
//
// A model is a folder: config.json, tokenizer.json and model.safetensors. Part of
// libmultihead-model.
#ifndef MULTIHEAD_TRANSLATOR_H
#define MULTIHEAD_TRANSLATOR_H

#include <multihead/nn.h>
#include <multihead/text.h>

#ifdef __cplusplus
extern "C" {
#endif

// ---- the model ----------------------------------------------------------------------------------

// x = dropout(sqrt(d_model) embedding[token] + sinusoidal position) goes into a Transformer; the
// logits are its output times the same embedding, transposed: one table for all three.
typedef struct mh_translator_config {
    size_t struct_size;        // sizeof(mh_translator_config)
    size_t d_model;            // 256
    size_t nhead;              // 4
    size_t num_encoder_layers; // 3
    size_t num_decoder_layers; // 3
    size_t dim_feedforward;    // 1024
    float dropout;             // 0.1
    mh_activation activation;  // MH_RELU
    bool norm_first;           // true
    size_t max_length;         // 256: tokens of a sentence, the end of it included
} mh_translator_config;

static inline mh_translator_config mh_translator_config_default(void)
{
    mh_translator_config config;
    memset(&config, 0, sizeof config);
    config.struct_size = sizeof config;
    config.d_model = 256;
    config.nhead = 4;
    config.num_encoder_layers = config.num_decoder_layers = 3;
    config.dim_feedforward = 1024;
    config.dropout = 0.1f;
    config.norm_first = true;
    config.max_length = 256;
    return config;
}

// Immutable once it is loaded or trained: any number of threads may share it.
typedef struct mh_translator mh_translator;

// A model with all parameters 0; mh_parameters_init() draws them. Takes the tokenizer over, also if
// it fails. The context's allocator must outlive the model. Errors: MH_ERROR_ARGUMENT,
// MH_ERROR_MEMORY.
MH_API mh_status mh_translator_create(mh_context *context, const mh_translator_config *config,
                                      mh_precision precision, mh_tokenizer *tokenizer,
                                      mh_translator **translator);
MH_API void mh_translator_free(mh_translator *translator); // NULL is fine

// Reads a model folder. Errors: MH_ERROR_FILE; MH_ERROR_FORMAT for what is not a model, one of
// another version, or whose parts do not fit together; MH_ERROR_MEMORY.
MH_API mh_status mh_translator_load(mh_context *context, const char *folder, mh_precision precision,
                                    mh_translator **translator);

// Writes config.json, tokenizer.json and model.safetensors (f32 or bf16) to a folder that exists,
// each whole or not at all, the weights last. The same model gives the same bytes.
// Errors: MH_ERROR_FILE, MH_ERROR_ARGUMENT (dtype), MH_ERROR_MEMORY.
MH_API mh_status mh_translator_save(mh_context *context, const mh_translator *translator,
                                    const char *folder, mh_dtype dtype);

MH_API const mh_translator_config *mh_translator_configuration(const mh_translator *translator);
MH_API const mh_tokenizer *mh_translator_tokenizer(const mh_translator *translator);
MH_API const mh_parameters *mh_translator_parameters(const mh_translator *translator);

#ifdef __cplusplus
}
#endif
#endif
