// SPDX-License-Identifier: MIT
// Internals of a pretrained model:
//
//     ids -> embeddings -> blocks (nn) -> final hidden states -> heads
//
// The parameters before and after the blocks are its ends. In a model for inference, tables are
// views of the mapped file, and matrices are packed.
#ifndef MH_MODEL_MODEL_INTERNAL_H
#define MH_MODEL_MODEL_INTERNAL_H

#include "families/family.h"
#include "model/picture_rules.h"
#include "model/result_arena.h"
#include "model/search_rules.h"
#include "model/token_rules.h"
#include <multihead/io.h>
#include <multihead/ops.h>
#include <multihead/pretrained.h>

typedef enum mh_end {
    MH_END_TOKEN,    // (V, D)
    MH_END_POSITION, // (positions, D)
    MH_END_TYPE,     // (types, D)
    MH_END_NORM,     // (D): of the embeddings
    MH_END_NORM_BIAS,
    MH_END_TARGET_TOKEN,    // (V', D): the decoder's, where they are its own
    MH_END_TARGET_POSITION, // (positions, D)
    MH_END_TARGET_NORM,     // (D)
    MH_END_TARGET_NORM_BIAS,
    MH_END_POOLER, // (D, D)
    MH_END_POOLER_BIAS,
    MH_END_CLASSIFIER, // (labels, D), or (labels, 2 D)
    MH_END_CLASSIFIER_BIAS,
    MH_END_TEACHER, // (labels, D): of the distillation token
    MH_END_TEACHER_BIAS,
    MH_END_TRANSFORM, // (D, D): of the masked language model's head
    MH_END_TRANSFORM_BIAS,
    MH_END_LM_NORM,
    MH_END_LM_NORM_BIAS,
    MH_END_LM_HEAD, // (V, D), (V', D) with a decoder
    MH_END_LM_BIAS, // (V)
    MH_END_PATCH,   // (D, C P P)
    MH_END_PATCH_BIAS,
    MH_END_CLASS,        // (D): the class token
    MH_END_DISTILLATION, // (D): the distillation token
    MH_END_PROJECTION,   // (projection, D): of embeddings
    MH_END_CONV1,        // (D, 3 mels): of sound
    MH_END_CONV1_BIAS,
    MH_END_CONV2, // (D, 3 D)
    MH_END_CONV2_BIAS,
    MH_ENDS,
} mh_end;

struct mh_model {
    mh_allocator allocator;
    const mh_family *family;
    mh_description description;
    mh_model_info info;
    char architecture[64];
    char **labels; // (info.labels), one block of memory
    size_t label_bytes;
    const char *other_head; // a tensor of a head that is not run, or NULL; static
    bool trainable;
    float dropout; // in training
    mh_precision precision;
    mh_tensor_file *file;
    bool gguf;          // all of the model is in `file`
    bool token_in_file; // rows of the token table are read from `file` when they are needed:
    size_t token_index; // from this tensor, as it is quantised
    mh_transformer *transformer;
    const char *stack; // before its parameters' names in the rules' targets: "", or "encoder."
    mh_tokenizer *tokenizer;
    uint64_t foreign; // characters that our own tokenizer has not learnt, for mh_plain_text
    mh_token_rules rules;
    char *chat_template; // as published, terminated; NULL: none
    size_t chat_template_bytes;
    const char *chat_name;             // of a template that is known
    mh_model *text;                    // NULL: none; CLIP's text tower, which shares `file`
    mh_picture_rules pictures;         // of a vision model
    mh_tokenizer *target_tokenizer;    // NULL: the same; of an encoder-decoder
    mh_source_template source;         // what its encoder reads besides a text
    mh_search_rules search;            // of its translations
    mh_tensor ends[MH_ENDS];           // data NULL: the model has none
    mh_packed_matrix *packed[MH_ENDS]; // of those that are multiplied
    float *values;                     // of ends that are not views of the file
    size_t floats;
    float *sinusoids;           // (positions, D), which are no parameters, or NULL
    mh_parameter list[MH_ENDS]; // of a trainable model's ends
    mh_parameters parameters;
};

enum { MH_MOST_TOKENS = 1 << 24 };

// The longest input that the description allows.
static inline size_t mh_model_longest(const mh_description *d)
{
    return d->positions ? d->positions - d->position_offset
           : d->longest ? d->longest
                        : MH_MOST_TOKENS;
}

// mh_model_load with a description that `change` (NULL: nobody) alters once config.json is read:
// for tests that a wrong setting is noticed.
mh_status mh_model_load_changed(mh_context *context, const char *directory,
                                const mh_model_options *options, void (*change)(mh_description *),
                                mh_model **model);

// A trainable model of the family and sizes that a config.json (`size` bytes of text) has, with all
// parameters 0: mh_parameters_init() of both lists gives them their initial values. Heads are those
// of its architecture. Errors: MH_ERROR_FORMAT, MH_ERROR_UNSUPPORTED, MH_ERROR_MEMORY.
mh_status mh_model_create(mh_context *context, const char *config, size_t size,
                          mh_precision precision, float dropout, mh_model **model);

// model.safetensors of a trainable model, with the family's names and shapes; dtype f32 or bf16.
// Errors: MH_ERROR_FILE, MH_ERROR_UNSUPPORTED, MH_ERROR_MEMORY.
mh_status mh_model_save_weights(mh_context *context, const mh_model *model, const char *directory,
                                mh_dtype dtype);

// config.json: the family, description, labels and architecture.
mh_status mh_model_read_config(mh_context *context, const char *directory, mh_model *model);

// 1_Pooling/config.json, modules.json, sentence_bert_config.json, tokenizer_config.json.
mh_status mh_model_read_settings(mh_context *context, const char *directory, mh_model *model);

// ---- weights ------------------------------------------------------------------------------------

typedef struct mh_weight_source {
    mh_context *context;
    const mh_family *family;
    const mh_tensor_file *file;
    const char *path;   // for messages
    const char *root;   // before all names of this file, "" as a rule
    const char *prefix; // and before those that are not absolute
    const char *stack;  // before the names of the Transformer's parameters in rules' targets
    const mh_block_config *block;
    bool norm_plus_one; // as in mh_description
    bool layer_scale;   // as in mh_description
    float activation_scale;
    bool permuted;     // rows of q and k are in the order of interleaved pairs
    mh_dtype matrices; // MH_F32, or MH_BF16: weights are rounded to it, at every level
    float *staging;    // for matrices that several tensors make up, or that are quantised
    size_t staging_floats;
} mh_weight_source;

// Chooses the prefix. Error: MH_ERROR_FORMAT if none fits.
mh_status mh_weights_begin(mh_weight_source *source);
void mh_weights_end(mh_weight_source *source);

// Whether the file has the tensors of this parameter.
bool mh_weights_have(const mh_weight_source *source, const char *name);

// The number of the one tensor that is this parameter, as it is in the file. False as below.
bool mh_weights_index(const mh_weight_source *source, const char *name, size_t *index);

// A view of the one tensor that is this parameter, oriented as the parameter. False if there is
// none, if several make it up, if its elements are quantised, or if the file would have to make a
// copy of it.
bool mh_weights_view(const mh_weight_source *source, const char *name, mh_tensor *view);

// Copies a parameter of this shape to `to`, converting it. Errors: MH_ERROR_FORMAT, naming the
// tensor that is missing or has another shape or type.
mh_status mh_weights_copy(const mh_weight_source *source, const char *name, mh_tensor *to);

// A matrix of this shape in the type that it is multiplied in: a view of the file where that has it
// so, else a copy in memory that the next call uses again.
mh_status mh_weights_matrix(mh_weight_source *source, const char *name, const size_t shape[2],
                            mh_tensor *matrix);

// Whether the parameter of a block is multiplied by a factor, and that: of a matrix or vector in
// f32, in place.
bool mh_weights_are_scaled(const mh_weight_source *source, const char *name);
mh_status mh_weights_scale(const mh_weight_source *source, const char *name, const mh_tensor *t);

// All parameters of the Transformer: copied, or packed one by one.
mh_status mh_weights_load_blocks(mh_weight_source *source, mh_transformer *transformer);

// The tensors that a parameter is written as.
enum { MH_WEIGHT_NAME_BYTES = 512, MH_WEIGHT_PARTS = 3 };
typedef struct mh_weight_part {
    char name[MH_WEIGHT_NAME_BYTES];
    size_t first, rows; // of the parameter
    bool transposed;
    bool by_head; // rows (3, H, E) that files have as (H, 3, E)
} mh_weight_part;

// Their number; 0 if no rule names the parameter.
size_t mh_weights_name_parts(const mh_family *family, const mh_block_config *block,
                             const char *name, size_t rows, mh_weight_part parts[MH_WEIGHT_PARTS]);

// Whether a parameter of the blocks is a norm's weight, which some families store as w - 1.
bool mh_weights_is_norm(const char *name);

// Reports tensors of the file that no rule names through the log.
void mh_weights_report_surplus(const mh_weight_source *source);

// The ends that the file has.
mh_status mh_model_load_ends(mh_context *context, mh_weight_source *source, mh_model *model);

// The ends of a model that is created: the required ones, and a classifier if it is one.
mh_status mh_model_create_ends(mh_context *context, mh_model *model, bool classifier);

// Once all of it is there: what mh_model_describe() returns.
void mh_model_set_info(mh_context *context, mh_model *model);
void mh_model_free_ends(mh_model *model);

// Reads the input into `own`, checks it, and that the model can be trained if there is a tape.
mh_status mh_model_read_input(mh_context *context, const mh_model *model,
                              const mh_model_input *input, mh_model_input *own);

// Error: MH_ERROR_UNSUPPORTED if the model has no tokenizer.
mh_status mh_model_need_tokenizer(mh_context *context, const mh_model *model);

// mh_tokenizer_encode_text with the model's tokenizer; a translator of ours reads the text as
// mh_translate does, and `begins` and `ends` are of the text that was given.
mh_status mh_model_encode_text(mh_context *context, const mh_model *model,
                               const mh_encode_options *options, mh_text text, const mh_text *pair,
                               mh_encoding *encoding);

// ---- embeddings ---------------------------------------------------------------------------------

// The tokens that a stack reads, and the tables that embed them.
typedef struct mh_model_tokens {
    size_t sequences;
    const int64_t *starts;
    const int32_t *ids, *types; // types may be NULL
    mh_end token, position, norm, norm_bias;
} mh_model_tokens;

mh_model_tokens mh_model_source_tokens(const mh_model_input *input);
mh_model_tokens mh_model_target_tokens(const mh_model *model, const mh_model_input *input);

static inline size_t mh_model_token_rows(const mh_model_tokens *tokens)
{
    return (size_t)tokens->starts[tokens->sequences];
}

// The rows of an input's hidden states.
static inline size_t mh_model_rows(const mh_model_input *input)
{
    return (size_t)(input->target_starts ? input->target_starts : input->starts)[input->sequences];
}

// What embeddings are made of besides ids: token type ids and positions (rows).
void mh_model_indices(const mh_model *model, const mh_model_tokens *tokens, int32_t *types,
                      int32_t *positions);

// x (rows, D) f32 = the sum of the tables' rows, before the norm; `scratch` is as large.
mh_status mh_model_sum_tables(mh_context *context, const mh_model *model,
                              const mh_model_tokens *tokens, const int32_t *types,
                              const int32_t *positions, float *scratch, mh_tensor *x);

// x (rows, D) = the embeddings; memory for as many floats and two indices per row.
mh_status mh_model_embed_tokens(mh_context *context, const mh_model *model,
                                const mh_model_tokens *tokens, float *scratch, int32_t *indices,
                                mh_tensor *x);

// x (rows, D) = embeddings of an encoder-decoder's target tokens at these positions: the input of
// mh_decoding_step, whose output mh_model_logits takes. The memory of mh_decoding_create is
// mh_model_hidden of the sources alone.
mh_status mh_model_embed_targets(mh_context *context, const mh_model *model, const int32_t *ids,
                                 const int64_t *positions, mh_tensor *x);

// The same at any positions; types may be NULL if the model has none.
mh_status mh_model_embed_at(mh_context *context, const mh_model *model,
                            const mh_model_tokens *tokens, const int32_t *types,
                            const int32_t *positions, float *scratch, mh_tensor *x);

// The rows of a picture's pixels (channels, height, width).
size_t mh_model_picture_rows(const mh_vision *vision, const mh_tensor *pixels);

// MH_ERROR_ARGUMENT unless the pixels, and the rows that `starts` counts, fit the model.
mh_status mh_model_check_pixels(mh_context *context, const mh_model *model,
                                const mh_model_input *input);

// x (rows, D) = the embeddings of a vision model's pictures.
mh_status mh_model_embed_patches(mh_context *context, const mh_model *model,
                                 const mh_model_input *input, mh_tensor *x);

// From dx (rows, D) to the gradients of the patches' projection, the class token and positions.
mh_status mh_model_patches_backward(mh_context *context, const mh_model *model,
                                    const mh_model_input *input, const mh_tensor *dx,
                                    const mh_model_gradients *gradients);

// Sound: the features of all sequences, and x (rows, D) = their embeddings.
mh_status mh_model_check_features(mh_context *context, const mh_model *model,
                                  const mh_model_input *input);
mh_status mh_model_embed_sound(mh_context *context, const mh_model *model,
                               const mh_model_input *input, mh_tensor *x);

// The gradient of an end, without data if it is not wanted or does not exist.
mh_tensor mh_model_end_gradient(const mh_model *model, const mh_model_gradients *gradients,
                                mh_end end);

// Dropout of embeddings x in training, and of their gradients.
mh_status mh_model_drop(mh_context *context, const mh_model *model, const mh_model_input *input,
                        bool target, mh_tensor *x);

// The options of the blocks' forward and backward pass.
mh_transformer_options mh_model_block_options(const mh_model *model, const mh_model_input *input);

// y = activation(x W^T + b); activation NULL: none. The bias may be missing.
mh_status mh_model_apply(mh_context *context, const mh_model *model, mh_end weight, mh_end bias,
                         const mh_activation *activation, const mh_tensor *x, mh_tensor *y);

// y (n, D) = lm_scale * hidden, what the language model head multiplies.
mh_status mh_model_scale_hidden(mh_context *context, const mh_model *model, const mh_tensor *hidden,
                                mh_tensor *y);

// logits (n, V) = cap tanh(logits / cap); and from the gradient of the capped ones to that of the
// others, in place.
mh_status mh_model_cap_logits(mh_context *context, float cap, mh_tensor *logits);
void mh_model_cap_logits_backward(mh_context *context, float cap, const mh_tensor *capped,
                                  mh_tensor *dlogits);

// A trace and what it refers to, in the store; mh_model_trace_free frees it.
struct mh_model_trace {
    mh_result_arena store;
    mh_trace trace;
};
mh_status mh_model_trace_new(mh_context *context, mh_model_trace **trace);

// "whisper, 384 wide, 6 heads, 4 layers" as the trace's model.
mh_status mh_model_trace_describe(mh_context *context, const mh_model *model,
                                  mh_model_trace *trace);

// The first tokens' rows of all sequences into `first` (sequences, D).
mh_status mh_model_first_tokens(mh_context *context, const mh_model_input *input,
                                const mh_tensor *hidden, mh_tensor *first);

#endif
