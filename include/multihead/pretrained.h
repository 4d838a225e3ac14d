// SPDX-License-Identifier: MIT
// multihead/pretrained.h: run models as Hugging Face publishes them: a directory with config.json,
// weights (model.safetensors, sharded or not, or pytorch_model.bin) and a tokenizer; or a GGUF
// file.
//
//     mh_model_load(context, "all-MiniLM-L6-v2", NULL, &model);
//     mh_model_embed_texts(context, model, NULL, texts, count, &embeddings);   // (count, D)
//     mh_model_free(model);
//
// Supported families: bert (MiniLM, BGE, E5, GTE), roberta, xlm-roberta, distilbert; gpt2, llama
// (SmolLM, TinyLlama), mistral, qwen2, qwen3, gemma2, gemma3, gpt_neox (Pythia); and
// encoder-decoders: marian (OPUS-MT), bart, mbart, t5 (Flan-T5; also its encoder alone), mt5; and
// models that read pictures: vit, deit, dinov2, clip (with a second model for texts); and
// whisper, which hears. A
// directory that mh_translator_save has written is a model, too: its texts are normalised as
// mh_translate does.
//
// A model is immutable once loaded: any number of threads and contexts of the same level may use
// it. Batches are packed, never padded, and results of a text do not depend on the others.
//
// Part of libmultihead-model. Stability: experimental.
#ifndef MULTIHEAD_PRETRAINED_H
#define MULTIHEAD_PRETRAINED_H

#include <multihead/image.h>
#include <multihead/nn.h>
#include <multihead/text.h>
#include <multihead/view.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct mh_model mh_model;

typedef struct mh_model_options {
    size_t struct_size;     // sizeof(mh_model_options)
    mh_precision precision; // MH_PRECISION_F32: of all matrix products. With BF16, matrices are
                            // bf16 at every level: half the memory, and twice the speed where
                            // reading them is the limit. AUTO: bf16 for causal language models
                            // whose file has fewer than 32 bits per weight, else f32
    bool trainable;         // false; true: parameters are f32, for gradients
    float dropout;          // 0: of a trainable model in training (mh_model_input): of embeddings,
                            // attention weights, branches and the hidden layers
} mh_model_options;

static inline mh_model_options mh_model_options_default(void)
{
    mh_model_options options;
    memset(&options, 0, sizeof options);
    options.struct_size = sizeof options;
    options.precision = MH_PRECISION_F32;
    return options;
}

// Loads a model's directory. Weights are mapped, converted and packed once; nothing is downloaded.
// Checksums, which files that this library wrote have, must be right.
// Tensors that the model does not need are reported through the context's log. options NULL: the
// defaults. Errors: MH_ERROR_FILE, MH_ERROR_FORMAT (what is missing, or of another shape, by name),
// MH_ERROR_UNSUPPORTED (an unknown family, with the list of known ones; a setting that is not
// supported), MH_ERROR_MEMORY.
//
// `directory` may also be a GGUF file, or a directory with one such file and no config.json: its
// metadata are then configuration and tokenizer. Quantised weights are dequantised and packed; the
// token table stays in the file, whose rows are dequantised when they are needed.
MH_API MH_MUST_CHECK mh_status mh_model_load(mh_context *context, const char *directory,
                                             const mh_model_options *options, mh_model **model);
MH_API void mh_model_free(mh_model *model); // NULL is allowed

// ---- what it is, and what it can do -------------------------------------------------------------

// Abilities, which follow from the tensors that are there.
enum {
    MH_CAN_EMBED = 1,       // vectors of texts or pictures: all models but those that read sound
    MH_CAN_FILL = 2,        // a masked language model's head
    MH_CAN_CLASSIFY = 4,    // a classifier, of texts or pictures
    MH_CAN_GENERATE = 8,    // a causal language model
    MH_CAN_TRANSLATE = 16,  // an encoder-decoder's language model head: text to text
    MH_CAN_TRANSCRIBE = 64, // speech to text: multihead/speech.h
    MH_CAN_MATCH = 32,      // pictures with texts, of mh_model_text_tower: by their embeddings
};

// How token vectors become one vector of a text.
typedef enum mh_pooling {
    MH_POOLING_MEAN = 0,
    MH_POOLING_CLS = 1,  // of the first token
    MH_POOLING_LAST = 2, // of the last token
    MH_POOLING_MAX = 3,
} mh_pooling;

// Owned by the model; later versions append members.
typedef struct mh_model_info {
    const char *family;       // "bert"
    const char *architecture; // "BertForMaskedLM", or ""
    unsigned abilities;       // MH_CAN_...
    size_t layers, d_model, heads, kv_heads, head_dim, dim_feedforward;
    size_t vocabulary;
    size_t max_length; // of an input, in tokens, special ones included
    size_t labels;     // of the classifier
    size_t parameters; // numbers
    size_t file_bytes, memory_bytes;
    mh_pooling pooling; // of its embeddings: MEAN, or as 1_Pooling/config.json says
    bool normalize;     // its embeddings have length 1
    bool causal;
    size_t decoder_layers;    // of an encoder-decoder, whose `layers` are the encoder's; else 0
    size_t target_vocabulary; // rows of the language model head: of the decoder's tokens
    size_t window;            // keys that a query of sliding layers sees, with its own; 0: all
    size_t window_layers;     // how many layers are sliding
    double rope_base;         // of rotary positions, in layers without a window; 0: there are none
    const char *rope_scaling; // "linear", "llama3", "yarn", or ""
    size_t memory_bytes_bf16; // memory_bytes of the same model loaded with MH_PRECISION_BF16
    size_t image_size; // of a model that reads pictures: the height and width it was trained for;
                       // 0: it reads tokens
    size_t patch_size; // height and width of a patch, which is what a row is made of
    size_t image_channels;
    size_t embedding_dim; // of mh_model_embed: d_model, or the width that it projects to
    double logit_scale;   // of MH_CAN_MATCH: what cosines are multiplied by before softmax; else 0
} mh_model_info;

MH_API const mh_model_info *mh_model_describe(const mh_model *model);

// The name of label i, borrowed; NULL if there is none.
MH_API const char *mh_model_label(const mh_model *model, size_t i);

// The model's tokenizer, borrowed; NULL if its directory has none.
MH_API const mh_tokenizer *mh_model_tokenizer(const mh_model *model);

// The model for texts that shares its space of embeddings with this model for pictures (CLIP),
// borrowed; NULL if there is none.
MH_API const mh_model *mh_model_text_tower(const mh_model *model);

// The blocks, for taps and parameters.
MH_API const mh_transformer *mh_model_transformer(const mh_model *model);

// ---- tokens in, vectors out ---------------------------------------------------------------------

// Sequences of token ids, back to back: sequence b is ids[starts[b]] to ids[starts[b + 1] - 1]. An
// encoder-decoder reads these with its encoder, and the targets with its decoder.
typedef struct mh_model_input {
    size_t struct_size; // sizeof(mh_model_input)
    size_t sequences;   // 0
    const int64_t *starts;
    const int32_t *ids;
    const int32_t *types; // NULL: all 0; token type ids
    const mh_tap *taps;   // NULL; of the blocks, MH_TAP_ENCODER; with targets, also the others
    size_t tap_count;     // 0
    const bool *disabled_heads; // NULL; (layers, heads); of an encoder-decoder (layers + 2
                                // decoder_layers, heads) as in mh_transformer_options
    mh_tape *tape;              // NULL; needed for backward, of a trainable model

    const int64_t *target_starts; // NULL; (sequences + 1): of an encoder-decoder's targets, which
    const int32_t *target_ids;    // begin with the decoder's start token

    const mh_tensor *pixels; // NULL; (sequences) of f32 (channels, height, width): of a model that
                             // reads pictures, in place of ids. The rows of a picture are those of
                             // its tokens (a class token, DeiT's distillation token), then one per
                             // patch, row by row
    const mh_tensor *features; // NULL; (sequences) of f32 (mels, frames), mh_log_mel: of a model
                               // that hears, in place of ids. A row is made of two frames

    bool training; // false; true: dropout, in forward and backward alike
    uint64_t seed; // 0: of dropout, with step
    uint32_t step; // 0
} mh_model_input;

static inline mh_model_input mh_model_input_default(void)
{
    mh_model_input input;
    memset(&input, 0, sizeof input);
    input.struct_size = sizeof input;
    return input;
}

// hidden (rows, D) f32: the last layer's output for every token; for an encoder-decoder the
// decoder's for every target token, or without targets the encoder's (the memory of
// mh_decoding_create, of mh_model_transformer).
// Errors: MH_ERROR_ARGUMENT (an id outside the vocabulary, a sequence longer than max_length), ...
MH_API MH_MUST_CHECK mh_status mh_model_hidden(mh_context *context, const mh_model *model,
                                               const mh_model_input *input, mh_tensor *hidden);

// logits (n, vocabulary) of a language model's head for n rows of hidden states (n, D).
// Error: MH_ERROR_UNSUPPORTED if the model has no such head.
MH_API MH_MUST_CHECK mh_status mh_model_logits(mh_context *context, const mh_model *model,
                                               const mh_tensor *hidden, mh_tensor *logits);

// pooled (sequences, D): the pooler's output, of BERT's or ViT's first token.
// Error: MH_ERROR_UNSUPPORTED if the model has no pooler.
MH_API MH_MUST_CHECK mh_status mh_model_pool(mh_context *context, const mh_model *model,
                                             const mh_model_input *input, const mh_tensor *hidden,
                                             mh_tensor *pooled);

// logits (sequences, labels) of the classifier.
// Error: MH_ERROR_UNSUPPORTED if the model has none.
MH_API MH_MUST_CHECK mh_status mh_model_classify(mh_context *context, const mh_model *model,
                                                 const mh_model_input *input,
                                                 const mh_tensor *hidden, mh_tensor *logits);

// embeddings (sequences, embedding_dim): token vectors pooled per sequence, projected if the model
// does that, and scaled to length 1 if asked for.
MH_API MH_MUST_CHECK mh_status mh_model_embed(mh_context *context, const mh_model *model,
                                              mh_pooling pooling, bool normalize,
                                              const mh_model_input *input, mh_tensor *embeddings);

// ---- texts --------------------------------------------------------------------------------------

// Texts as tokens, packed into one input.
typedef struct mh_model_texts mh_model_texts;

// Encodes texts with the model's tokenizer and its special tokens. Texts longer than the model's
// max_length are truncated; `truncate` false: they are MH_ERROR_ARGUMENT, which names the text.
// Errors: MH_ERROR_UNSUPPORTED (no tokenizer; a model that reads sound), MH_ERROR_FORMAT (not
// UTF-8), MH_ERROR_MEMORY.
MH_API MH_MUST_CHECK mh_status mh_model_encode(mh_context *context, const mh_model *model,
                                               bool truncate, const mh_text *texts, size_t count,
                                               mh_model_texts **encoded);
// NULL is allowed; any context with the same allocator.
MH_API void mh_model_texts_free(mh_context *context, mh_model_texts *texts);

// The input of all texts, and the encoding of text i: ids, offsets into the text, special tokens.
// Borrowed.
MH_API const mh_model_input *mh_model_texts_input(const mh_model_texts *texts);
MH_API const mh_encoding *mh_model_texts_encoding(const mh_model_texts *texts, size_t i);

// embeddings (count, D) of texts, in batches of about `batch_tokens` tokens (0: the default); a
// text's embedding does not depend on the others. `progress` (or NULL) is called after each batch.
// Truncated texts are counted in a remark to the context's log.
typedef void (*mh_model_progress_fn)(void *user, size_t done, size_t total);
MH_API MH_MUST_CHECK mh_status mh_model_embed_texts(mh_context *context, const mh_model *model,
                                                    mh_pooling pooling, bool normalize,
                                                    bool truncate, size_t batch_tokens,
                                                    const mh_text *texts, size_t count,
                                                    mh_model_progress_fn progress, void *user,
                                                    mh_tensor *embeddings);

// ---- pictures -----------------------------------------------------------------------------------

// Pictures as the numbers that a model reads.
typedef struct mh_model_pictures mh_model_pictures;

// Resizes, crops and normalises pictures as the model's preprocessor_config.json says, with the
// results of Hugging Face's image processors. Gray and colours are converted to what the model
// reads. The pictures are not needed afterwards. Errors: MH_ERROR_UNSUPPORTED (the model reads
// texts), MH_ERROR_ARGUMENT (which names the picture), MH_ERROR_MEMORY.
MH_API MH_MUST_CHECK mh_status mh_model_encode_pictures(mh_context *context, const mh_model *model,
                                                        const mh_image *images, size_t count,
                                                        mh_model_pictures **encoded);
MH_API void mh_model_pictures_free(mh_model_pictures *pictures); // NULL is allowed

// The input of all pictures, for mh_model_hidden, _classify, _pool and _embed. Borrowed.
MH_API const mh_model_input *mh_model_pictures_input(const mh_model_pictures *pictures);

// logits (count, labels) of pictures by the model's classifier: all of the steps above.
MH_API MH_MUST_CHECK mh_status mh_model_classify_pictures(mh_context *context,
                                                          const mh_model *model,
                                                          const mh_image *images, size_t count,
                                                          mh_tensor *logits);

// embeddings (count, embedding_dim) of pictures, as mh_model_embed makes them.
MH_API MH_MUST_CHECK mh_status mh_model_embed_pictures(mh_context *context, const mh_model *model,
                                                       mh_pooling pooling, bool normalize,
                                                       const mh_image *images, size_t count,
                                                       mh_tensor *embeddings);

// ---- what heads attend to -----------------------------------------------------------------------

// A trace of one text and the memory it refers to. Immutable: any thread may read it.
typedef struct mh_model_trace mh_model_trace;

// Traces the attention of every layer in one forward pass over a text with the tokenizer's special
// tokens, or over a pair of texts if `pair` is not NULL: weights, out, and, where weights are
// softmax(scale q k^T), q, k and v. Encoders have a group encoder.self and source tokens, causal
// models decoder.self and target tokens. A token is named by the part of the text that it covers.
// Title: the text; model: its family and sizes. Choices: what a language model with a tokenizer
// expects after each token, the 5 likeliest. Disabled heads (`disabled_heads` as in
// mh_model_input, or NULL) still have weights. Errors: MH_ERROR_UNSUPPORTED (no tokenizer),
// MH_ERROR_ARGUMENT (no tokens, or more than max_length), MH_ERROR_FORMAT (not UTF-8),
// MH_ERROR_MEMORY.
MH_API MH_MUST_CHECK mh_status mh_model_trace_create(mh_context *context, const mh_model *model,
                                                     const bool *disabled_heads, mh_text text,
                                                     const mh_text *pair, mh_model_trace **trace);

// The same for token ids; tokens are numbered, and there is no title.
MH_API MH_MUST_CHECK mh_status mh_model_trace_ids(mh_context *context, const mh_model *model,
                                                  const bool *disabled_heads, const int32_t *ids,
                                                  size_t count, mh_model_trace **trace);

// The same for a picture. Tokens are "[CLS]", "[DIST]" of DeiT, and "row,column" of a patch, both
// from 0. Title: `name`, or none if that is NULL.
MH_API MH_MUST_CHECK mh_status mh_model_trace_picture(mh_context *context, const mh_model *model,
                                                      const bool *disabled_heads, const char *name,
                                                      const mh_image *image,
                                                      mh_model_trace **trace);
MH_API void mh_model_trace_free(mh_model_trace *trace); // NULL is allowed

// Borrowed; copy the struct to give it another title or model.
MH_API const mh_trace *mh_model_trace_view(const mh_model_trace *trace);

// ---- gradients of a trainable model -------------------------------------------------------------

// The parameters of embeddings and heads: token_embedding.weight, ... A tied head has none of its
// own. Those of the blocks are mh_transformer_parameters(mh_model_transformer(model)). A model for
// inference has none here.
MH_API const mh_parameters *mh_model_parameters(const mh_model *model);

// Gradients are laid out as the parameters, and added to; NULL if not wanted.
typedef struct mh_model_gradients {
    size_t struct_size; // sizeof(mh_model_gradients)
    float *blocks;      // NULL
    float *ends;        // NULL; of mh_model_parameters

    mh_gradients_ready_fn ready; // NULL; of `blocks`, as mh_transformer_options.gradients_ready;
                                 // those of `ends` are final when mh_model_hidden_backward returns
    void *ready_user;            // NULL
} mh_model_gradients;

static inline mh_model_gradients mh_model_gradients_default(void)
{
    mh_model_gradients gradients;
    memset(&gradients, 0, sizeof gradients);
    gradients.struct_size = sizeof gradients;
    return gradients;
}

// After mh_model_hidden with a tape and the same input: from dhidden (rows, D).
MH_API MH_MUST_CHECK mh_status mh_model_hidden_backward(mh_context *context, const mh_model *model,
                                                        const mh_model_input *input,
                                                        const mh_tensor *dhidden,
                                                        const mh_model_gradients *gradients);

// The backward passes of the heads: from the gradient of their output to dhidden, which is added
// to. hidden as in forward.
MH_API MH_MUST_CHECK mh_status mh_model_logits_backward(mh_context *context, const mh_model *model,
                                                        const mh_tensor *hidden,
                                                        const mh_tensor *dlogits,
                                                        mh_tensor *dhidden,
                                                        const mh_model_gradients *gradients);
MH_API MH_MUST_CHECK mh_status mh_model_pool_backward(mh_context *context, const mh_model *model,
                                                      const mh_model_input *input,
                                                      const mh_tensor *hidden,
                                                      const mh_tensor *dpooled, mh_tensor *dhidden,
                                                      const mh_model_gradients *gradients);
MH_API MH_MUST_CHECK mh_status
mh_model_classify_backward(mh_context *context, const mh_model *model, const mh_model_input *input,
                           const mh_tensor *hidden, const mh_tensor *dlogits, mh_tensor *dhidden,
                           const mh_model_gradients *gradients);

#ifdef __cplusplus
}
#endif
#endif
