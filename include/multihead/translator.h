// SPDX-License-Identifier: MIT
// multihead/translator.h: a model that translates: an encoder-decoder Transformer over tokens, and
// the tokenizer that makes them.
//
//     mh_translator *translator;
//     mh_translator_load(context, "models/fr-en", MH_PRECISION_AUTO, &translator);
//     const mh_text text = {"Bonjour !", 9};
//     mh_translations *translations;
//     mh_translate(context, translator, NULL, &text, 1, &translations);
//     puts(mh_translations_at(translations, 0, 0)->text.bytes);
//     mh_translations_free(translations);
//     mh_translator_free(translator);
//
// A model is a folder: config.json, tokenizer.json and model.safetensors. Part of
// libmultihead-model.
#ifndef MULTIHEAD_TRANSLATOR_H
#define MULTIHEAD_TRANSLATOR_H

#include <multihead/nn.h>
#include <multihead/text.h>
#include <multihead/view.h>

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

// A model with all parameters 0; mh_parameters_init() draws them. MH_PRECISION_AUTO is bf16 at
// level amx and f32 at others. Takes the tokenizer over, also if it fails.
// Errors: MH_ERROR_ARGUMENT, MH_ERROR_MEMORY.
MH_API mh_status mh_translator_create(mh_context *context, const mh_translator_config *config,
                                      mh_precision precision, mh_tokenizer *tokenizer,
                                      mh_translator **translator);
MH_API void mh_translator_free(mh_translator *translator); // NULL is fine

// Reads a model folder. Errors: MH_ERROR_FILE; MH_ERROR_FORMAT for what is not a model, one of
// another version, or whose parts do not fit together; MH_ERROR_MEMORY.
MH_API mh_status mh_translator_load(mh_context *context, const char *folder, mh_precision precision,
                                    mh_translator **translator);

typedef struct mh_translator_load_options {
    size_t struct_size;     // sizeof(mh_translator_load_options)
    mh_precision precision; // MH_PRECISION_AUTO
    bool verify;            // true: checksums, if model.safetensors has any, must be right
} mh_translator_load_options;

static inline mh_translator_load_options mh_translator_load_options_default(void)
{
    mh_translator_load_options options;
    memset(&options, 0, sizeof options);
    options.struct_size = sizeof options;
    options.precision = MH_PRECISION_AUTO;
    options.verify = true;
    return options;
}

// The same with options; NULL: the defaults. Errors: also MH_ERROR_ARGUMENT.
MH_API mh_status mh_translator_load_with(mh_context *context, const char *folder,
                                         const mh_translator_load_options *options,
                                         mh_translator **translator);

// Writes config.json, tokenizer.json and model.safetensors (f32 or bf16) to a folder that exists,
// each whole or not at all, the weights last. The same model gives the same bytes.
// Errors: MH_ERROR_FILE, MH_ERROR_ARGUMENT (dtype), MH_ERROR_MEMORY.
MH_API mh_status mh_translator_save(mh_context *context, const mh_translator *translator,
                                    const char *folder, mh_dtype dtype);

MH_API const mh_translator_config *mh_translator_configuration(const mh_translator *translator);
MH_API const mh_tokenizer *mh_translator_tokenizer(const mh_translator *translator);
MH_API const mh_parameters *mh_translator_parameters(const mh_translator *translator);

// ---- translating --------------------------------------------------------------------------------

// Called from the thread that translates after every few batches, or, where all texts are one
// batch, before each step of the search; false: stop here.
typedef bool (*mh_translate_progress)(void *user, size_t done, size_t total);

typedef struct mh_translate_options {
    size_t struct_size;         // sizeof(mh_translate_options)
    size_t beam;                // 4: hypotheses a sentence, 1 to 1024; 1: the likeliest next token
    size_t n_best;              // 1: translations to keep, up to beam
    double length_penalty;      // 1, 0 to 10: score = log-probability / tokens^length_penalty
    double max_length_factor;   // 2: a translation has at most factor * source tokens + constant
    size_t max_length_constant; // 20: tokens, within the model's max_length
    size_t batch;               // 32: sentences at a time, 1 to 65536; changes the speed only
    bool attention;             // false; true: keep which source tokens were looked at
    int alignment_layer;        // -1: of all decoder layers, on average; else of this one
    const bool *disabled_heads; // NULL; as in mh_transformer_options
    mh_translate_progress progress; // NULL
    void *progress_user;            // NULL
} mh_translate_options;

static inline mh_translate_options mh_translate_options_default(void)
{
    mh_translate_options options;
    memset(&options, 0, sizeof options);
    options.struct_size = sizeof options;
    options.beam = 4;
    options.n_best = 1;
    options.length_penalty = 1;
    options.max_length_factor = 2;
    options.max_length_constant = 20;
    options.batch = 32;
    options.alignment_layer = -1;
    return options;
}

// One translation of one text. Token i is text.bytes[ends[i - 1] .. ends[i]), from 0 for the first;
// </s> is not among the tokens, but counts in the score.
typedef struct mh_translation {
    mh_text text;            // valid UTF-8 and NUL behind it
    double log_probability;  // natural logarithm
    double score;            // the same, normalised; of a text in pieces, the pieces' mean
    const int32_t *ids;      // (T)
    const size_t *ends;      // (T)
    size_t count;            // T
    const mh_tokens *source; // of the text as the model reads it, see mh_translate
    const float *attention;  // NULL, or (T, S), S = source->count: cross-attention when each token
                             // was chosen, averaged over heads, </s> left out, rows of sum 1
} mh_translation;

// Belongs to whoever asked for it; reading it is for any thread.
typedef struct mh_translations mh_translations;

// Translates `count` texts by beam search; `options` may be NULL. A text is read without blanks at
// its ends, with one blank for a tab or for several, in normalisation form C, and with plain
// quotes, dashes, blanks and so on for typographic ones that the tokenizer has no token for. One
// with more tokens than the model's max_length is translated sentence by sentence
// (mh_sentence_length) and put together with blanks between; one of blanks only has an empty
// translation. What comes out, scores to the bit, does not depend on the batch size, on threads, or
// on the other texts. Errors: MH_ERROR_ARGUMENT; MH_ERROR_FORMAT for a text that is not UTF-8, or a
// model with numbers that are none; MH_ERROR_MEMORY.
MH_API mh_status mh_translate(mh_context *context, const mh_translator *translator,
                              const mh_translate_options *options, const mh_text *texts,
                              size_t count, mh_translations **translations);
MH_API void mh_translations_free(mh_translations *translations); // NULL is fine

// Replaces `tokens` by those of a text as mh_translate reads it, without </s>: one with at most
// max_length - 1 of them is translated as a whole. Errors: MH_ERROR_ARGUMENT; MH_ERROR_FORMAT for a
// text that is not UTF-8; MH_ERROR_MEMORY.
MH_API mh_status mh_translator_encode(mh_context *context, const mh_translator *translator,
                                      mh_text text, mh_tokens *tokens);

// Translation `rank` of text i, 0 the best. NULL if there is none: i or rank is too large, or
// progress has stopped the work before.
MH_API const mh_translation *mh_translations_at(const mh_translations *translations, size_t i,
                                                size_t rank);

// ---- what attention does ------------------------------------------------------------------------

// A trace of one translation and the memory behind it. Immutable: any thread may read it.
typedef struct mh_translation_trace mh_translation_trace;

// One forward pass, the source and <s> with the target's `count` tokens given, and what every
// attention in it did: encoder.self, decoder.self and cross with weights, q, k, v and out. Source
// tokens are those of the text as mh_translate reads it, and </s>. Row t of the target is named
// by the token that is chosen there, target[t], the last by </s>; in decoder.self by the token that
// is given there, <s> first. A token that begins with a blank begins a word, and has U+2581 in its
// place. Title: the text; model: its sizes. Heads that are switched off (`disabled_heads` as in
// mh_transformer_options, or NULL) have weights all the same. Errors: MH_ERROR_ARGUMENT for an id
// that does not exist, and for more tokens than the model's max_length with <s> or </s>;
// MH_ERROR_FORMAT for a text that is not UTF-8; MH_ERROR_MEMORY.
MH_API mh_status mh_translation_trace_create(mh_context *context, const mh_translator *translator,
                                             const bool *disabled_heads, mh_text source,
                                             const int32_t *target, size_t count,
                                             mh_translation_trace **trace);
MH_API void mh_translation_trace_free(mh_translation_trace *trace); // NULL is fine

// Borrowed; copy the struct to give it another title or model.
MH_API const mh_trace *mh_translation_trace_view(const mh_translation_trace *trace);

#ifdef __cplusplus
}
#endif
#endif
