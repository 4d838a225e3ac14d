// SPDX-License-Identifier: MIT
// multihead/translator.h: a translation model: an encoder-decoder Transformer and its tokenizer,
// trained by us (train.h) or published (pretrained.h): Marian (OPUS-MT), Bart, T5.
//
//     mh_translator *translator;
//     mh_translator_load(context, "models/fr-en", MH_PRECISION_NATIVE, &translator);
//     const mh_text text = {"Bonjour !", 9};
//     mh_translations *translations;
//     mh_translate(context, translator, NULL, &text, 1, &translations);
//     puts(mh_translations_at(translations, 0, 0)->text.bytes);
//     mh_translations_free(translations);
//     mh_translator_free(translator);
//
// A model of ours is a directory of config.json, tokenizer.json and model.safetensors; a published
// one is as Hugging Face has it. Part of libmultihead-model.
//
// Stability: experimental (base.h).
#ifndef MULTIHEAD_TRANSLATOR_H
#define MULTIHEAD_TRANSLATOR_H

#include <multihead/pretrained.h>

#ifdef __cplusplus
extern "C" {
#endif

// ---- the model ----------------------------------------------------------------------------------

// x = dropout(sqrt(d_model) embedding[token] + sinusoidal position) is the input of a Transformer;
// the logits are its output times the same embedding, transposed: source, target and output
// embeddings are tied.
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
    size_t max_length;         // 256: tokens of a sentence, </s> included
    char source_language[4];   // "": not known; else as mh_language_guess names it, "fr"
    char target_language[4];   // ""
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

// A model with all parameters 0; mh_parameters_init() initialises them. MH_PRECISION_NATIVE is bf16
// where that is native (mh_context_native_bf16), else f32, as MH_PRECISION_AUTO always is:
// parameters are f32. Takes ownership of the tokenizer, also on failure.
// Errors: MH_ERROR_ARGUMENT, MH_ERROR_MEMORY.
MH_API MH_MUST_CHECK mh_status mh_translator_create(mh_context *context,
                                                    const mh_translator_config *config,
                                                    mh_precision precision, mh_tokenizer *tokenizer,
                                                    mh_translator **translator);
MH_API void mh_translator_free(mh_translator *translator); // NULL is allowed

// Reads a model directory, ours or a published encoder-decoder's, as mh_model_load does: the
// translator owns that model. Its parameters cannot be trained or saved. Errors: MH_ERROR_FILE;
// MH_ERROR_FORMAT for a model that is invalid, of another version, or whose files do not match;
// MH_ERROR_UNSUPPORTED for a published model that does not translate; MH_ERROR_MEMORY.
MH_API MH_MUST_CHECK mh_status mh_translator_load(mh_context *context, const char *directory,
                                                  mh_precision precision,
                                                  mh_translator **translator);

typedef struct mh_translator_load_options {
    size_t struct_size;     // sizeof(mh_translator_load_options)
    mh_precision precision; // MH_PRECISION_NATIVE
    bool verify;            // true: checksums, if our model.safetensors has any, must be right
} mh_translator_load_options;

static inline mh_translator_load_options mh_translator_load_options_default(void)
{
    mh_translator_load_options options;
    memset(&options, 0, sizeof options);
    options.struct_size = sizeof options;
    options.precision = MH_PRECISION_NATIVE;
    options.verify = true;
    return options;
}

// The same with options; NULL: the defaults. Errors: also MH_ERROR_ARGUMENT.
MH_API MH_MUST_CHECK mh_status mh_translator_load_with(mh_context *context, const char *directory,
                                                       const mh_translator_load_options *options,
                                                       mh_translator **translator);

// A translator that runs a loaded encoder-decoder (pretrained.h), which is borrowed until the
// translator is freed. Errors: MH_ERROR_ARGUMENT, MH_ERROR_UNSUPPORTED (a model of another kind, or
// without a tokenizer), MH_ERROR_MEMORY.
MH_API MH_MUST_CHECK mh_status mh_translator_from_model(mh_context *context, const mh_model *model,
                                                        mh_translator **translator);

// The published model that a translator runs, borrowed; NULL if its parameters are our own.
MH_API const mh_model *mh_translator_model(const mh_translator *translator);

// Writes config.json, tokenizer.json and model.safetensors (f32 or bf16) to an existing directory,
// each atomically, the weights last. The same model gives the same bytes.
// Errors: MH_ERROR_FILE, MH_ERROR_ARGUMENT (dtype), MH_ERROR_UNSUPPORTED (a published model),
// MH_ERROR_MEMORY.
MH_API MH_MUST_CHECK mh_status mh_translator_save(mh_context *context,
                                                  const mh_translator *translator,
                                                  const char *directory, mh_dtype dtype);

// The sizes, of a published model, too: its max_length is the smaller of the limits of source and
// target. The tokenizer is the source's. Parameters of a published model are those of its blocks.
MH_API const mh_translator_config *mh_translator_configuration(const mh_translator *translator);
MH_API const mh_tokenizer *mh_translator_tokenizer(const mh_translator *translator);
MH_API const mh_parameters *mh_translator_parameters(const mh_translator *translator);

// ---- translating --------------------------------------------------------------------------------

// Called from the translating thread after every few batches or, if all texts are one batch, before
// each step of the search. Returns false to stop.
typedef bool (*mh_translate_progress)(void *user, size_t done, size_t total);

typedef struct mh_translate_options {
    size_t struct_size;         // sizeof(mh_translate_options)
    size_t beam;                // 4: hypotheses per sentence, 1 to 1024; 1: greedy search
    size_t n_best;              // 1: translations to keep, up to beam
    double length_penalty;      // 1, 0 to 10: score = log-probability / tokens^length_penalty
    double max_length_factor;   // 2: a translation has at most factor * source tokens + constant
                                // tokens
    size_t max_length_constant; // 20: tokens, within the model's max_length
    size_t batch;               // 32: sentences at a time, 1 to 65536; affects speed only
    bool attention;             // false; true: return cross-attention weights
    int alignment_layer;        // -1: mean over all decoder layers; else this one
    const bool *disabled_heads; // NULL; as in mh_transformer_options
    mh_translate_progress progress; // NULL
    void *progress_user;            // NULL
    size_t top_logprobs; // 0, up to 1024: the likeliest tokens to report for each token of a
                         // translation that is given (mh_score_translations)
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
    mh_text text;            // valid UTF-8, NUL-terminated
    double log_probability;  // natural logarithm
    double score;            // the same, normalised; for a text in segments, their mean
    const int32_t *ids;      // (T)
    const size_t *ends;      // (T)
    size_t count;            // T
    const mh_tokens *source; // of the normalised text, see mh_translate
    const float *attention;  // NULL, or (T, S), S = source->count: cross-attention when each token
                             // was chosen, averaged over heads, without </s>, rows sum to 1
    const double *token_log_probabilities; // NULL, or (T + 1), </s> the last: of a translation that
                                           // was given (mh_score_translations)
    const int32_t *top_ids;      // NULL, or (T + 1, top_count), with token_log_probabilities: the
    const double *top_log_probs; // likeliest tokens there, best first; id -1 where there are fewer
    size_t top_count;
} mh_translation;

// Owned by the caller; any thread may read it.
typedef struct mh_translations mh_translations;

// Translates `count` texts by beam search; `options` may be NULL. A text for a model of ours is
// normalised first:
// spaces, tabs and line breaks are trimmed at its ends and runs of them become one space,
// typographic quotes, dashes, spaces and so on that the tokenizer has no token for are replaced by
// plain ones, and the result is in normalisation form C. Published models get texts as they are;
// their generation_config.json says with which tokens translations begin and end and which are
// never chosen, and the search ends as that of Hugging Face's transformers. A text with more tokens
// than the model's max_length is split into segments at sentence ends (mh_sentence_length), whose
// translations are joined by spaces; a text of whitespace only has an empty translation.
// Translations and scores are bitwise independent of the batch size, of threads, and of the other
// texts. Errors: MH_ERROR_ARGUMENT; MH_ERROR_FORMAT for a text that is not UTF-8, or a model whose
// logits are not finite; MH_ERROR_MEMORY.
MH_API MH_MUST_CHECK mh_status mh_translate(mh_context *context, const mh_translator *translator,
                                            const mh_translate_options *options,
                                            const mh_text *texts, size_t count,
                                            mh_translations **translations);
MH_API void mh_translations_free(mh_translations *translations); // NULL is allowed

// The same for translations that are given: translation 0 of text i is targets[i], with the
// log-probability of each of its tokens, the score that the search would give it and, if options
// ask for it, attention. Nothing is searched, and a text is not split. Errors: also
// MH_ERROR_ARGUMENT for a text or a target with more tokens than the model's limit.
MH_API MH_MUST_CHECK mh_status mh_score_translations(mh_context *context,
                                                     const mh_translator *translator,
                                                     const mh_translate_options *options,
                                                     const mh_text *texts, const mh_text *targets,
                                                     size_t count, mh_translations **translations);

// Replaces `tokens` by those of a text as mh_translate normalises it, without </s>: one with at
// most max_length - 1 of them is translated as a whole. Errors: MH_ERROR_ARGUMENT; MH_ERROR_FORMAT
// for a text that is not UTF-8; MH_ERROR_MEMORY.
MH_API MH_MUST_CHECK mh_status mh_translator_encode(mh_context *context,
                                                    const mh_translator *translator, mh_text text,
                                                    mh_tokens *tokens);

// Translation `rank` of text i, 0 the best. NULL if there is none: i or rank is too large, or
// progress stopped the call before.
MH_API const mh_translation *mh_translations_at(const mh_translations *translations, size_t i,
                                                size_t rank);

// ---- attention traces ---------------------------------------------------------------------------

// A trace of one translation and the memory it refers to. Immutable: any thread may read it.
typedef struct mh_translation_trace mh_translation_trace;

// Traces every attention of one forward pass over the source, and <s> and the `count` target
// tokens: encoder.self, decoder.self and cross with weights, out and, where weights are
// softmax(q k^T / sqrt(E)), q, k and v. Source tokens are those of the text as mh_translate
// normalises it, and those that the model adds, such as </s>. Row t of the target is labelled with
// the token chosen there, target[t], the last with </s>; in decoder.self with the decoder's input
// token, <s> first. A token that begins with a space begins a word, and is shown with U+2581
// instead. Title: the text; model: its sizes. Choices: the 5 likeliest tokens
// of each row. Disabled heads (`disabled_heads` as in
// mh_transformer_options, or NULL) still have weights. Errors: MH_ERROR_ARGUMENT for an id that
// does not exist, and for more tokens than the model's max_length with <s> or </s>; MH_ERROR_FORMAT
// for a text that is not UTF-8; MH_ERROR_MEMORY.
MH_API MH_MUST_CHECK mh_status mh_translation_trace_create(
    mh_context *context, const mh_translator *translator, const bool *disabled_heads,
    mh_text source, const int32_t *target, size_t count, mh_translation_trace **trace);
MH_API void mh_translation_trace_free(mh_translation_trace *trace); // NULL is allowed

// Borrowed; copy the struct to give it another title or model.
MH_API const mh_trace *mh_translation_trace_view(const mh_translation_trace *trace);

#ifdef __cplusplus
}
#endif
#endif
