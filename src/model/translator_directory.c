// SPDX-License-Identifier: MIT
// Loads a model directory, one of ours or, if its config.json has a model_type, a published one
// (pretrained.h); and saves ours:
//
//     config.json         the sizes, as mh_translator_config names them; every member is needed
//     tokenizer.json      see mh_tokenizer_load
//     model.safetensors   embedding.weight, and nn.Transformer's parameters under PyTorch's names
#include <multihead/io.h>

#include "base/argument_check.h"
#include "base/compiler.h"
#include "base/sized_struct.h"
#include "io/checksum.h"
#include "model/config_file.h"
#include "model/gguf_config.h"
#include "model/json_file.h"
#include "model/parameters_file.h"
#include "model/translator_internal.h"
#include "support/directory.h"
#include "support/source.h"
#include "text/tokenizer.h"
#include <stdio.h>

// ---- loading ------------------------------------------------------------------------------------

// A config may claim any size; the actual weights must justify the memory. Only matrices are
// counted, and in double: no product overflows.
static mh_status check_size(mh_context *context, const char *path, const mh_translator_config *c,
                            size_t vocabulary, bool verify)
{
    const double D = (double)c->d_model, F = (double)c->dim_feedforward;
    const double encoder = (double)c->num_encoder_layers, decoder = (double)c->num_decoder_layers;
    const double expected = (double)vocabulary * D + (encoder + 2 * decoder) * 4 * D * D +
                            (encoder + decoder) * 2 * D * F;
    double found = 0;
    mh_tensor_file *file;
    mh_tensor tensor;
    mh_status status = mh_tensor_file_open(context, path, &file);
    if (status)
        return status;
    for (size_t i = 0; mh_tensor_file_describe(file, i, &tensor); i++)
        found += (double)mh_tensor_count(&tensor);
    const mh_source source = {.context = context, .name = path};
    const mh_verified verified = {&source, file, MH_MODEL_ADVICE};
    if (verify)
        status = mh_verify_header(&verified);
    mh_tensor_file_free(file);
    if (status || found >= expected)
        return status;
    return mh_fail(context, MH_ERROR_FORMAT,
                   "%.700s: found %.0f elements, expected at least %.0f for the sizes in "
                   "config.json",
                   path, found, expected);
}

// An invalid config is here an error of the file, not of the caller.
static mh_status blame_config(mh_context *context, const char *directory)
{
    char path[MH_PATH_BYTES], message[256];
    snprintf(message, sizeof message, "%s", mh_error_message(context));
    MH_TRY(mh_path_join(context, directory, "config.json", path));
    return mh_fail(context, MH_ERROR_FORMAT, "%.700s: %s", path, message);
}

// Takes ownership of the tokenizer.
static mh_status translator_directory_load_weights(mh_context *context, const char *directory,
                                                   const mh_translator_config *config,
                                                   const mh_translator_load_options *options,
                                                   mh_tokenizer *tokenizer,
                                                   mh_translator **translator)
{
    char path[MH_PATH_BYTES];
    mh_parameters_options reading = mh_parameters_options_default();
    reading.verify = options->verify;
    mh_status status = mh_path_join(context, directory, "model.safetensors", path);
    if (!status)
        status = check_size(context, path, config, mh_tokenizer_size(tokenizer), options->verify);
    if (status) {
        mh_tokenizer_free(tokenizer);
        return status;
    }
    status = mh_translator_create(context, config, options->precision, tokenizer, translator);
    if (status)
        return status == MH_ERROR_ARGUMENT ? blame_config(context, directory) : status;
    status = mh_parameters_load(context, mh_translator_parameters(*translator), path, &reading);
    if (status) {
        mh_translator_free(*translator);
        *translator = NULL;
    }
    return status;
}

// Takes ownership of the model.
static mh_status translator_directory_adopt(mh_context *context, const char *directory,
                                            mh_model *model, mh_translator **translator)
{
    char message[256];
    mh_status status = mh_translator_from_model(context, model, translator);
    if (status == MH_OK) {
        (*translator)->own_model = model;
        return MH_OK;
    }
    mh_model_free(model);
    if (status != MH_ERROR_UNSUPPORTED)
        return status;
    snprintf(message, sizeof message, "%s", mh_error_message(context));
    return mh_fail(context, status, "%.700s: %s", directory, message);
}

static mh_status load_published(mh_context *context, const char *directory, mh_precision precision,
                                mh_translator **translator)
{
    mh_model_options options = mh_model_options_default();
    mh_model *model;
    options.precision = mh_translator_precision(context, precision);
    MH_TRY(mh_model_load(context, directory, &options, &model));
    return translator_directory_adopt(context, directory, model, translator);
}

// Whether config.json is that of a published model, or there is a GGUF file, which is refused by
// what it has. An invalid config.json is left to the reader of ours.
static bool is_published(mh_context *context, const char *directory)
{
    char path[MH_PATH_BYTES];
    mh_json_file file;
    bool gguf = false;
    if (mh_gguf_locate(context, directory, path, &gguf) == MH_OK && gguf)
        return true;
    if (mh_json_file_open_optional(context, directory, "config.json", path, &file))
        return false;
    const bool published = json_is_string(json_object_get(file.root, "model_type")) &&
                           !json_object_get(file.root, "format");
    mh_json_file_close(&file);
    return published;
}

mh_status mh_translator_load(mh_context *context, const char *directory, mh_precision precision,
                             mh_translator **translator)
{
    mh_translator_load_options options = mh_translator_load_options_default();
    options.precision = precision;
    return mh_translator_load_with(context, directory, &options, translator);
}

mh_status mh_translator_load_with(mh_context *context, const char *directory,
                                  const mh_translator_load_options *options,
                                  mh_translator **translator)
{
    char path[MH_PATH_BYTES];
    mh_translator_config config;
    mh_tokenizer *tokenizer = NULL;
    mh_translator_load_options own = mh_translator_load_options_default();
    if (MH_NEED(context, {"directory", directory}, {"translator", translator}))
        return MH_ERROR_ARGUMENT;
    *translator = NULL;
    memset(&config, 0, sizeof config); // padding, too: configurations are compared as bytes
    MH_TRY(MH_READ_STRUCT(context, mh_translator_load_options, options, &own));
    if (is_published(context, directory))
        return load_published(context, directory, own.precision, translator);
    MH_TRY(mh_path_join(context, directory, "config.json", path));
    MH_TRY(mh_config_load(context, path, &config));
    MH_TRY(mh_path_join(context, directory, "tokenizer.json", path));
    MH_TRY(mh_tokenizer_load_own(context, path, &tokenizer));
    return translator_directory_load_weights(context, directory, &config, &own, tokenizer,
                                             translator);
}

// ---- saving -------------------------------------------------------------------------------------

mh_status mh_translator_save_settings(mh_context *context, const mh_translator *t,
                                      const char *directory)
{
    char path[MH_PATH_BYTES];
    MH_TRY(mh_path_join(context, directory, "config.json", path));
    MH_TRY(mh_config_save(context, path, &t->config));
    MH_TRY(mh_path_join(context, directory, "tokenizer.json", path));
    return mh_tokenizer_save(context, t->tokenizer, path);
}

mh_status mh_translator_save_weights(mh_context *context, const mh_translator *t,
                                     const char *directory, mh_dtype dtype)
{
    char path[MH_PATH_BYTES];
    MH_TRY(mh_path_join(context, directory, "model.safetensors", path));
    return mh_parameters_save_as(context, mh_translator_parameters(t), dtype, path);
}

mh_status mh_translator_save(mh_context *context, const mh_translator *t, const char *directory,
                             mh_dtype dtype)
{
    MH_TRY(MH_NEED(context, {"translator", t}, {"directory", directory}));
    MH_TRY(mh_translator_need_own(context, t, "saved"));
    if (dtype != MH_F32 && dtype != MH_BF16)
        return mh_fail(context, MH_ERROR_ARGUMENT, "dtype: found %s, expected f32 or bf16",
                       mh_dtype_name(dtype));
    MH_TRY(mh_translator_save_settings(context, t, directory));
    return mh_translator_save_weights(context, t, directory, dtype);
}
