// SPDX-License-Identifier: MIT
// Loading a pretrained model: config.json, then the weights, then the tokenizer.
#include "base/argument_check.h"
#include "base/compiler.h"
#include "base/release.h"
#include "base/sized_struct.h"
#include "io/checksum.h"
#include "io/tensor_file.h"
#include "model/chat_template.h"
#include "model/gguf_config.h"
#include "model/model_config.h"
#include "model/model_internal.h"
#include "model/openai_config.h"
#include "support/directory.h"
#include "support/file.h"
#include "support/find_file.h"
#include "text/plain_text.h"
#include "text/tokenizer.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

// ---- files --------------------------------------------------------------------------------------

static const char *const weight_files[] = {
    "model.safetensors",
    "model.safetensors.index.json",
    "pytorch_model.bin",
    "pytorch_model.bin.index.json",
};

// Files that we wrote have checksums.
static mh_status verify_weights(mh_context *context, const char *path, const mh_tensor_file *file)
{
    const mh_source source = {.context = context, .name = path};
    const mh_verified verified = {&source, file, "restore the file"};
    return mh_verify_all(&verified);
}

static mh_status open_weights(mh_context *context, const char *directory, mh_model *model,
                              char path[MH_PATH_BYTES])
{
    for (size_t i = 0; i < sizeof weight_files / sizeof *weight_files; i++) {
        MH_TRY(mh_path_join(context, directory, weight_files[i], path));
        if (!mh_file_exists(path))
            continue;
        MH_TRY(mh_tensor_file_open(context, path, &model->file));
        return verify_weights(context, path, model->file);
    }
    return mh_fail(context, MH_ERROR_FILE,
                   "%s: expected weights there: model.safetensors, pytorch_model.bin, or one of "
                   "them in shards with an .index.json",
                   directory);
}

// ---- blocks -------------------------------------------------------------------------------------

// A stack of `count` layers: the block, as the family's hook changes it.
static mh_stack_config make_stack(const mh_model *model, const mh_block_config *block, size_t count,
                                  mh_block_config *layers, const mh_block_config **blocks)
{
    const mh_description *d = &model->description;
    mh_stack_config stack = mh_stack_config_default();
    for (size_t i = 0; i < count; i++) {
        layers[i] = *block;
        if (model->family->layer)
            model->family->layer(d, i, &layers[i]);
        blocks[i] = &layers[i];
    }
    stack.layers = count;
    stack.blocks = blocks;
    stack.final_norm = d->final_norm;
    return stack;
}

static mh_status create_stacks(mh_context *context, mh_model *model, mh_block_config *layers,
                               const mh_block_config **blocks)
{
    const mh_description *d = &model->description;
    const size_t count = d->layers;
    const mh_stack_config encoder = make_stack(model, &d->block, count, layers, blocks);
    const mh_stack_config decoder =
        make_stack(model, &d->decoder, d->decoder_layers, layers + count, blocks + count);
    return mh_transformer_create_blocks(context, &encoder, d->decoder_layers ? &decoder : NULL,
                                        model->trainable, &model->transformer);
}

// Sizes and settings that the engine refuses are those of the file `config`.
static mh_status blame_config(mh_context *context, const char *config)
{
    enum { LONGEST = 300 };
    char why[LONGEST];
    snprintf(why, sizeof why, "%s", mh_error_message(context));
    return mh_fail(context, MH_ERROR_FORMAT, "%s: %s", config, why);
}

static mh_status model_load_create_blocks(mh_context *context, const char *config, mh_model *model)
{
    const mh_description *d = &model->description;
    const size_t count = d->layers + d->decoder_layers; // at most MH_MOST_LAYERS each
    mh_block_config *layers = mh_alloc(context, count * sizeof *layers);
    const mh_block_config **blocks = mh_alloc(context, count * sizeof *blocks);
    mh_status status = layers && blocks ? MH_OK : MH_ERROR_MEMORY;
    if (!status)
        status = create_stacks(context, model, layers, blocks);
    if (status == MH_ERROR_ARGUMENT)
        status = blame_config(context, config);
    mh_free(context, blocks, count * sizeof *blocks);
    mh_free(context, layers, count * sizeof *layers);
    return status;
}

// An encoder-decoder family's encoder may be published alone.
static void find_stacks(mh_weight_source *source, mh_model *model)
{
    mh_description *d = &model->description;
    const bool alone =
        d->decoder_layers && !mh_weights_have(source, "decoder.layers.0.norm1.weight");
    if (alone)
        d->decoder_layers = 0;
    source->stack = model->stack = alone ? "encoder." : "";
}

// Our own config.json does not say how many tokens there are.
static void find_vocabulary(const mh_weight_source *source, mh_description *d)
{
    mh_tensor table;
    size_t index;
    if (!d->vocabulary && mh_weights_index(source, "token_embedding.weight", &index) &&
        mh_tensor_file_describe(source->file, index, &table) && table.rank == 2)
        d->vocabulary = table.shape[0];
}

// The width that embeddings are projected to.
static void find_projection(const mh_weight_source *source, mh_description *d)
{
    mh_tensor matrix;
    size_t index;
    if (mh_weights_index(source, "projection.weight", &index) &&
        mh_tensor_file_describe(source->file, index, &matrix) && matrix.rank == 2)
        d->projection = matrix.shape[0];
}

static mh_status load_from(mh_weight_source *source, const char *config, mh_model *model)
{
    find_stacks(source, model);
    find_vocabulary(source, &model->description);
    find_projection(source, &model->description);
    MH_TRY(model_load_create_blocks(source->context, config, model));
    MH_TRY(mh_weights_load_blocks(source, model->transformer));
    MH_TRY(mh_model_load_ends(source->context, source, model));
    mh_weights_report_surplus(source);
    return MH_OK;
}

// `config` is the file that says what the model is, with a GGUF file `path` itself.
static mh_status model_load_load_weights(mh_context *context, const char *config, const char *path,
                                         mh_model *model)
{
    mh_weight_source source = {.context = context,
                               .family = model->family,
                               .file = model->file,
                               .path = path,
                               .root = "",
                               .stack = "",
                               .block = &model->description.block,
                               .matrices = model->precision == MH_PRECISION_BF16 ? MH_BF16 : MH_F32,
                               .norm_plus_one = model->description.norm_plus_one,
                               .layer_scale = model->description.layer_scale,
                               .activation_scale = model->description.activation_scale};
    mh_family names = *model->family;
    if (model->gguf)
        mh_gguf_names(model->file, &names, &source.permuted);
    source.family = &names;
    MH_TRY(mh_weights_begin(&source));
    mh_status status = load_from(&source, config, model);
    mh_weights_end(&source);
    return status;
}

static mh_status load_directory_weights(mh_context *context, const char *directory,
                                        const char *path, mh_model *model)
{
    char config[MH_PATH_BYTES];
    MH_TRY(mh_path_join(context, directory, "config.json", config));
    return model_load_load_weights(context, config, path, model);
}

// ---- create and free ----------------------------------------------------------------------------

static const char *const tokenizer_files[] = {"tokenizer.json", "vocab.txt",  "vocab.json",
                                              "spiece.model",   "source.spm", "tokenizer.model"};

// Language models are published with special tokens that they have no rows for: Gemma 3's for
// pictures in models of texts, padding that was added for training.
static mh_status check_tokenizer(mh_context *context, const char *path, const mh_model *model)
{
    if (model->tokenizer && model->description.causal)
        MH_TRY(mh_tokenizer_drop_from(context, model->tokenizer, model->description.vocabulary));
    const size_t size = model->tokenizer ? mh_tokenizer_size(model->tokenizer) : 0;
    if (size > model->description.vocabulary)
        return mh_fail(context, MH_ERROR_FORMAT,
                       "%s: the tokenizer has %zu tokens, expected at most %zu, the rows of the "
                       "model's embedding",
                       path, size, model->description.vocabulary);
    return MH_OK;
}

// The tokenizer of a translator of ours, whose encoder reads </s> behind a text. Without one the
// translator would not be whole.
static mh_status load_own_tokenizer(mh_context *context, const char *directory, mh_model *model)
{
    char path[MH_PATH_BYTES];
    MH_TRY(mh_path_join(context, directory, "tokenizer.json", path));
    MH_TRY(mh_tokenizer_load_own(context, path, &model->tokenizer));
    const size_t found = mh_tokenizer_size(model->tokenizer);
    if (found != model->description.vocabulary)
        return mh_fail(context, MH_ERROR_FORMAT,
                       "%s: found %zu tokens, expected %zu, the rows of embedding.weight", path,
                       found, model->description.vocabulary);
    model->foreign = mh_plain_foreign(model->tokenizer);
    return mh_tokenizer_end_texts(context, model->tokenizer, mh_tokenizer_eos(model->tokenizer));
}

// A model without a tokenizer still takes ids.
static mh_status load_tokenizer(mh_context *context, const char *directory, mh_model *model)
{
    char path[MH_PATH_BYTES], name[MH_NAME_BYTES];
    if (model->family->own)
        return load_own_tokenizer(context, directory, model);
    bool found = mh_find_ending(directory, ".tiktoken", name);
    for (size_t i = 0; i < sizeof tokenizer_files / sizeof *tokenizer_files && !found; i++) {
        MH_TRY(mh_path_join(context, directory, tokenizer_files[i], path));
        found = mh_file_exists(path);
    }
    if (!found)
        return MH_OK;
    MH_TRY(mh_tokenizer_load_directory(context, directory, &model->tokenizer));
    return check_tokenizer(context, directory, model);
}

// Generation reads all weights for every token, so that bf16 is the better choice unless the file
// has f32: bf16 files lose nothing, f16 and quantised ones less than they have lost already.
static bool prefers_bf16(const mh_model *model)
{
    size_t elements = 0;
    for (size_t i = 0; i < mh_tensor_file_count(model->file); i++) {
        mh_tensor t;
        mh_tensor_file_describe(model->file, i, &t);
        elements += mh_tensor_count(&t);
    }
    return model->description.causal && mh_tensor_file_bytes(model->file) < 3 * elements;
}

static void set_precision(mh_model *model)
{
    mh_description *d = &model->description;
    if (model->precision == MH_PRECISION_AUTO)
        model->precision =
            !model->trainable && prefers_bf16(model) ? MH_PRECISION_BF16 : MH_PRECISION_F32;
    d->block.precision = d->decoder.precision = model->precision;
    d->block.dropout = d->decoder.dropout = model->dropout;
}

// Of models that read pictures, those like ViT: one token before the patches, which is classified.
static bool vision_is_trainable(const mh_description *d)
{
    return d->vision.first == 1 && !d->embedding_norm && d->label_input == MH_LABELS_FIRST;
}

// Factors are folded into weights, so that gradients would be those of other parameters.
static mh_status check_loading(mh_context *context, const mh_model *model)
{
    const mh_description *d = &model->description;
    if (!(model->dropout >= 0 && model->dropout < 1))
        return mh_fail(context, MH_ERROR_ARGUMENT, "dropout: found %g, expected 0 to less than 1",
                       (double)model->dropout);
    if (model->trainable && ((d->vision.image && !vision_is_trainable(d)) || d->sound.mels ||
                             d->layer_scale || d->activation_scale != 1))
        return mh_fail(context, MH_ERROR_UNSUPPORTED,
                       "trainable: models of type %s are for inference only",
                       model->family->model_type);
    return MH_OK;
}

// One file has all of it.
static mh_status load_gguf(mh_context *context, const char *path, mh_model *model)
{
    json_t *config = NULL;
    const mh_source source = {.context = context, .name = path};
    model->gguf = true;
    MH_TRY(mh_tensor_file_open(context, path, &model->file));
    MH_TRY(mh_gguf_config(context, path, model->file, &config));
    mh_status status = mh_config_read_description(&source, config, model);
    json_decref(config);
    MH_TRY(status);
    MH_TRY(check_loading(context, model));
    model->description.norm_plus_one = false; // stored as they are
    set_precision(model);
    MH_TRY(mh_model_read_settings(context, path, model));
    mh_gguf_pooling(model->file, &model->info.pooling);
    MH_TRY(model_load_load_weights(context, path, path, model));
    mh_model_set_info(context, model);
    MH_TRY(mh_gguf_tokenizer(context, path, model->file, &model->tokenizer));
    MH_TRY(check_tokenizer(context, path, model));
    // no other file belongs to it: the end is that of the tokenizer
    MH_TRY(mh_token_rules_load(context, path, model->tokenizer, model->description.vocabulary,
                               &model->rules));
    MH_TRY(mh_gguf_ends(context, path, model->file, model->tokenizer, &model->rules.eos));
    const char *chat = mh_tensor_file_metadata(model->file, "tokenizer.chat_template");
    return chat ? mh_model_set_chat_template(context, model, chat, strlen(chat)) : MH_OK;
}

// What an encoder-decoder needs to translate.
static mh_status load_search(mh_context *context, const char *directory, mh_model *model)
{
    if (!(model->info.abilities & MH_CAN_TRANSLATE))
        return MH_OK;
    if (model->family->own) {
        mh_search_rules_own(model->tokenizer, &model->search, &model->source);
        return MH_OK;
    }
    const size_t V = model->info.target_vocabulary;
    MH_TRY(mh_search_rules_set(context, &model->rules, &model->search));
    if (!model->tokenizer)
        return MH_OK;
    MH_TRY(mh_source_template_find(context, model->tokenizer, &model->source));
    MH_TRY(mh_tokenizer_load_target(context, directory, &model->target_tokenizer));
    const size_t size =
        mh_tokenizer_size(model->target_tokenizer ? model->target_tokenizer : model->tokenizer);
    return size <= V ? MH_OK
                     : mh_fail(context, MH_ERROR_FORMAT,
                               "%s: the tokenizer has %zu target tokens, expected at most %zu, the "
                               "rows of the model's head",
                               directory, size, V);
}

// ---- pictures and texts -------------------------------------------------------------------------

// exp of the one number that CLIP multiplies cosines by, at most 100, which it never exceeds.
static mh_status read_logit_scale(mh_context *context, const char *path, mh_model *model)
{
    size_t index;
    float value = 0;
    mh_tensor to, stored;
    if (!mh_tensor_file_index(model->file, "logit_scale", &index) ||
        !mh_tensor_file_describe(model->file, index, &stored) || mh_tensor_count(&stored) != 1)
        return mh_fail(context, MH_ERROR_FORMAT, "%s: tensor \"logit_scale\": expected one number",
                       path);
    to = mh_tensor_view(&value, MH_F32, stored.rank, stored.shape);
    MH_TRY(mh_tensor_file_read(context, model->file, index, &to));
    model->info.logit_scale = exp(fmin((double)value, 100));
    return MH_OK;
}

// The second model of the directory, whose weights are in the same file.
static mh_status load_text_tower(mh_context *context, const char *directory, const char *path,
                                 mh_model *model)
{
    mh_model *text = mh_alloc(context, sizeof *text);
    if (!text)
        return MH_ERROR_MEMORY;
    *text = (mh_model){.allocator = mh_context_allocator(context),
                       .family = model->family->text,
                       .rules = mh_token_rules_none(),
                       .precision = model->precision,
                       .file = model->file};
    model->text = text;
    MH_TRY(mh_model_read_config(context, directory, text));
    MH_TRY(mh_model_read_settings(context, directory, text));
    set_precision(text);
    MH_TRY(load_directory_weights(context, directory, path, text));
    mh_model_set_info(context, text);
    MH_TRY(load_tokenizer(context, directory, text));
    if (text->info.embedding_dim != model->info.embedding_dim)
        return mh_fail(context, MH_ERROR_FORMAT,
                       "%s: embeddings of pictures have width %zu, and those of texts %zu", path,
                       model->info.embedding_dim, text->info.embedding_dim);
    model->info.abilities |= MH_CAN_MATCH;
    model->info.parameters += text->info.parameters + 1;
    model->info.memory_bytes += text->info.memory_bytes;
    model->info.memory_bytes_bf16 += text->info.memory_bytes_bf16;
    return read_logit_scale(context, path, model);
}

// What a model that reads pictures has in place of a tokenizer.
static mh_status load_pictures(mh_context *context, const char *directory, const char *path,
                               mh_model *model)
{
    MH_TRY(mh_picture_rules_load(context, directory, model->family->model_type,
                                 &model->description.vision, &model->pictures));
    return model->family->text ? load_text_tower(context, directory, path, model) : MH_OK;
}

// Whisper in OpenAI's files. Its vocabulary is a .tiktoken file.
static mh_status read_openai(mh_context *context, const char *directory, const char *path,
                             mh_model *model)
{
    json_t *config = NULL;
    const mh_source source = {.context = context, .name = path};
    model->family = &mh_family_whisper_openai;
    MH_TRY(mh_tensor_file_open(context, path, &model->file));
    MH_TRY(mh_openai_config(context, path, model->file, &config));
    const mh_status status = mh_config_read_description(&source, config, model);
    json_decref(config);
    MH_TRY(status);
    MH_TRY(check_loading(context, model));
    MH_TRY(mh_model_read_settings(context, directory, model));
    set_precision(model);
    MH_TRY(model_load_load_weights(context, path, path, model));
    mh_model_set_info(context, model);
    MH_TRY(mh_tokenizer_load_directory(context, directory, &model->tokenizer));
    return check_tokenizer(context, directory, model);
}

// Only of models that generate text: other directories may have the file, too.
static void warn_unsupported(mh_context *context, const char *directory, const mh_model *model)
{
    const char *names = model->rules.defaults.unsupported;
    if (*names && model->info.abilities & (MH_CAN_GENERATE | MH_CAN_TRANSLATE))
        mh_log(context, MH_LOG_WARNING,
               "%s: settings for generation that are not supported have no effect: %s", directory,
               names);
}

static mh_status model_load_load(mh_context *context, const char *directory,
                                 void (*change)(mh_description *), mh_model *model)
{
    char path[MH_PATH_BYTES];
    bool gguf = false, openai = false;
    MH_TRY(mh_gguf_locate(context, directory, path, &gguf));
    if (gguf)
        return load_gguf(context, path, model);
    MH_TRY(mh_openai_locate(context, directory, path, &openai));
    if (openai)
        return read_openai(context, directory, path, model);
    MH_TRY(mh_model_read_config(context, directory, model));
    if (change)
        change(&model->description);
    MH_TRY(check_loading(context, model));
    MH_TRY(mh_model_read_settings(context, directory, model));
    MH_TRY(open_weights(context, directory, model, path));
    set_precision(model);
    MH_TRY(load_directory_weights(context, directory, path, model));
    mh_model_set_info(context, model);
    if (model->description.vision.image)
        return load_pictures(context, directory, path, model);
    MH_TRY(load_tokenizer(context, directory, model));
    MH_TRY(mh_token_rules_load(context, directory, model->tokenizer, model->info.target_vocabulary,
                               &model->rules));
    warn_unsupported(context, directory, model);
    MH_TRY(load_search(context, directory, model));
    return mh_model_read_chat_template(context, directory, model);
}

mh_status mh_model_load_changed(mh_context *context, const char *directory,
                                const mh_model_options *options, void (*change)(mh_description *),
                                mh_model **model)
{
    mh_model_options own = mh_model_options_default();
    MH_TRY(MH_NEED(context, {"directory", directory}, {"model", model}));
    *model = NULL;
    MH_TRY(MH_READ_STRUCT(context, mh_model_options, options, &own));
    mh_model *m = mh_alloc(context, sizeof *m);
    if (!m)
        return MH_ERROR_MEMORY;
    *m = (mh_model){.allocator = mh_context_allocator(context),
                    .rules = mh_token_rules_none(),
                    .trainable = own.trainable,
                    .dropout = own.trainable ? own.dropout : 0,
                    .precision = own.precision};
    mh_status status = model_load_load(context, directory, change, m);
    if (status)
        mh_model_free(m);
    else
        *model = m;
    return status;
}

// ---- a new model --------------------------------------------------------------------------------

static mh_status read_config_text(mh_context *context, const char *config, size_t size,
                                  mh_model *model)
{
    const mh_source source = {.context = context, .name = "config.json"};
    json_error_t error;
    json_t *root = json_loadb(config, size, 0, &error);
    if (!json_is_object(root)) {
        json_decref(root);
        return mh_source_fail(&source, MH_ERROR_FORMAT, "expected a JSON object");
    }
    const mh_status status = mh_config_read_description(&source, root, model);
    json_decref(root);
    return status;
}

static mh_status create_model(mh_context *context, const char *config, size_t size, mh_model *model)
{
    MH_TRY(read_config_text(context, config, size, model));
    MH_TRY(check_loading(context, model));
    model->stack = "";
    set_precision(model);
    MH_TRY(model_load_create_blocks(context, "config.json", model));
    MH_TRY(mh_model_create_ends(context, model,
                                strstr(model->architecture, "Classification") != NULL));
    mh_model_set_info(context, model);
    model->info.max_length = mh_model_longest(&model->description);
    return MH_OK;
}

mh_status mh_model_create(mh_context *context, const char *config, size_t size,
                          mh_precision precision, float dropout, mh_model **model)
{
    *model = NULL;
    mh_model *m = mh_alloc(context, sizeof *m);
    if (!m)
        return MH_ERROR_MEMORY;
    *m = (mh_model){.allocator = mh_context_allocator(context),
                    .rules = mh_token_rules_none(),
                    .trainable = true,
                    .dropout = dropout,
                    .precision = precision};
    const mh_status status = create_model(context, config, size, m);
    if (status)
        mh_model_free(m);
    else
        *model = m;
    return status;
}

mh_status mh_model_load(mh_context *context, const char *directory, const mh_model_options *options,
                        mh_model **model)
{
    return mh_model_load_changed(context, directory, options, NULL, model);
}

void mh_model_free(mh_model *model)
{
    if (!model)
        return;
    const mh_allocator allocator = model->allocator;
    if (model->text)
        model->text->file = NULL; // it is ours
    mh_model_free(model->text);
    mh_model_free_ends(model);
    mh_transformer_free(model->transformer);
    mh_tokenizer_free(model->tokenizer);
    mh_token_rules_free(&allocator, &model->rules);
    mh_release(&allocator, model->chat_template, model->chat_template_bytes);
    mh_tokenizer_free(model->target_tokenizer);
    mh_tensor_file_free(model->file);
    mh_release(&allocator, model->labels, model->label_bytes);
    allocator.release(allocator.user, model, sizeof *model);
}
