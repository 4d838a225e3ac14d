// SPDX-License-Identifier: MIT
// A translator's internals: what a sequence-to-sequence model is to the search, to traces and to
// scores.
//
//     text -> source ids -> embed -> encoder --------+
//             target ids -> embed ------------- decoder (nn) -> logits
//
// Two kinds of models are behind it: parameters of our own, which can be trained, and a published
// model (pretrained.h) of an encoder-decoder family. They differ in a table of functions and in the
// rules of the search; the Transformer between embedding and logits is nn's.
#ifndef MH_MODEL_TRANSLATOR_INTERNAL_H
#define MH_MODEL_TRANSLATOR_INTERNAL_H

#include "model/search_rules.h"
#include <multihead/ops.h>
#include <multihead/pretrained.h>
#include <multihead/translator.h>

typedef enum mh_side { MH_SIDE_SOURCE, MH_SIDE_TARGET } mh_side;

// All weights used in translation, packed; NULL where the model itself is.
typedef struct mh_translator_weights {
    mh_packed_weights *layers;
    mh_packed_matrix *embedding;
} mh_translator_weights;

// Packed sequences of source ids: sequence b is ids[starts[b]] to ids[starts[b + 1] - 1].
typedef struct mh_source_batch {
    size_t sequences;
    const int64_t *starts;      // (sequences + 1)
    const int32_t *ids;         // (rows)
    const bool *disabled_heads; // or NULL
} mh_source_batch;

// One source and one target, which begins with the start token, in a single pass with taps.
typedef struct mh_tapped_pass {
    const int32_t *source, *target; // (S), (T)
    size_t S, T;
    const mh_tap *taps;
    size_t tap_count;
    const bool *disabled_heads; // or NULL
    float *output;              // (T, D), of the decoder
} mh_tapped_pass;

// What differs between models.
typedef struct mh_sequence_model {
    // memory (rows, D) f32 = the encoder's output.
    mh_status (*encode)(mh_context *context, const mh_translator *t,
                        const mh_translator_weights *weights, const mh_source_batch *batch,
                        mh_tensor *memory);
    // x (rows, D) f32 of target ids and positions (rows); `scratch` has as many floats as x.
    mh_status (*embed)(mh_context *context, const mh_translator *t, const int32_t *ids,
                       const int32_t *positions, mh_tensor *x, float *scratch);
    // logits (rows, V) of the decoder's output x (rows, D); `packed` NULL: not packed.
    mh_status (*logits)(mh_context *context, const mh_translator *t, const mh_packed_matrix *packed,
                        const mh_tensor *x, mh_tensor *logits);
    mh_status (*tap)(mh_context *context, const mh_translator *t, const mh_tapped_pass *pass);
    // NULL: the model is packed
    mh_status (*pack)(mh_context *context, const mh_translator *t, mh_translator_weights *weights);
} mh_sequence_model;

extern const mh_sequence_model mh_trained_model, mh_published_model;

struct mh_translator {
    mh_allocator allocator;
    const mh_sequence_model *run;
    mh_translator_config config; // sizes; of a published model, too
    mh_precision precision;
    size_t head_dim;                   // E
    bool plain_scores;                 // weights are softmax(q k^T / sqrt(E))
    const char *order;                 // of norms, as in mh_trace_stream
    size_t vocabulary;                 // V: columns of the logits
    size_t source_limit, target_limit; // tokens, those of the template and </s> included
    mh_source_template source;
    mh_search_rules rules;
    mh_tokenizer *tokenizer;
    const mh_tokenizer *target_tokenizer; // as a rule the same
    mh_transformer *transformer;          // batch first
    uint64_t foreign;      // characters that our own tokenizer has not learnt, for mh_plain_text
    float *positions;      // (max_length, D): of our own model
    const mh_model *model; // NULL: our own; else tokenizer and transformer are the model's
    mh_model *own_model;   // the same, or NULL: it is borrowed
};

// What AUTO means for a translator: bf16 where that is much faster, at levels with native bf16
// products, else f32. Never decided by timing.
mh_precision mh_translator_precision(const mh_context *context, mh_precision precision);

// Reads a caller's configuration, and checks what mh_transformer_create does not.
// Error: MH_ERROR_ARGUMENT.
mh_status mh_translator_check_config(mh_context *context, const mh_translator_config *given,
                                     mh_translator_config *config);

// mh_translator_save in two steps: config.json and tokenizer.json; model.safetensors.
mh_status mh_translator_save_settings(mh_context *context, const mh_translator *translator,
                                      const char *directory);
mh_status mh_translator_save_weights(mh_context *context, const mh_translator *translator,
                                     const char *directory, mh_dtype dtype);

// Error: MH_ERROR_UNSUPPORTED for a published model, whose parameters are not ours to train or
// save.
mh_status mh_translator_need_own(mh_context *context, const mh_translator *translator,
                                 const char *what);

// Our own model: x = sqrt(D) embedding[ids] + position.
mh_status mh_translator_embed(mh_context *context, const mh_translator *translator,
                              const int32_t *ids, const int32_t *positions, mh_tensor *x,
                              float *scratch);

// (vocabulary, D): in the parameters, or in gradients laid out like them.
mh_tensor mh_translator_embedding(const mh_translator *translator, float *values);

// Our own model: `packed` is the embedding, packed, or NULL.
mh_status mh_translator_logits(mh_context *context, const mh_translator *translator,
                               const mh_packed_matrix *packed, const mh_tensor *x,
                               mh_tensor *logits);

// Error: MH_ERROR_MEMORY.
mh_status mh_translator_weights_create(mh_context *context, const mh_translator *translator,
                                       mh_translator_weights *weights);
void mh_translator_weights_free(mh_translator_weights *weights); // all NULL is allowed

// The most tokens of a text that is translated as a whole, without the template's.
static inline size_t mh_translator_source_limit(const mh_translator *t)
{
    return t->source_limit - t->source.before_count - t->source.after_count;
}

// ---- text ---------------------------------------------------------------------------------------

// Whether texts are normalised and tokenised as our own translators are trained.
bool mh_translator_has_own_text(const mh_translator *translator);

// Memory for tokenising, from text to text.
typedef struct mh_text_memory {
    mh_buffer plain;
    mh_encoding encoding;
} mh_text_memory;

void mh_text_memory_free(mh_context *context, mh_text_memory *memory);

// The text as the model reads it: in `memory`, or `text` itself.
// Errors: MH_ERROR_FORMAT (not UTF-8), MH_ERROR_MEMORY.
mh_status mh_translator_normalize(mh_context *context, const mh_translator *translator,
                                  mh_text text, mh_text_memory *memory, mh_text *normal);

// Replaces `tokens` by those of a normalised text, without the template's. Of a target, also those
// that a translation begins with.
mh_status mh_translator_tokenize(mh_context *context, const mh_translator *translator, mh_side side,
                                 mh_text normal, mh_text_memory *memory, mh_tokens *tokens);

// Replaces `text` by that of target tokens, valid UTF-8, and sets ends[i], where token i ends in
// it.
mh_status mh_translator_detokenize(mh_context *context, const mh_translator *translator,
                                   const int32_t *ids, size_t count, mh_buffer *text, size_t *ends);

#endif
