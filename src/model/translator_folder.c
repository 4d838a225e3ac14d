// SPDX-License-Identifier: MIT
// A translator from and to a folder:
//
//     config.json         the sizes, as mh_translator_config names them; every member is needed
//     tokenizer.json      see mh_tokenizer_load
//     model.safetensors   embedding.weight, and nn.Transformer's parameters under PyTorch's names
#include <multihead/io.h>
#include <multihead/model.h>

#include "base/context.h"
#include "base/folder.h"
#include "model/config_file.h"
#include "model/translator_inside.h"

// ---- loading ------------------------------------------------------------------------------------

mh_status mh_translator_load(mh_context *context, const char *folder, mh_precision precision,
                             mh_translator **translator)
{
    char path[MH_PATH_BYTES];
    mh_translator_config config;
    mh_tokenizer *tokenizer = NULL;
    *translator = NULL;
    mh_status status = mh_path_join(context, folder, "config.json", path);
    if (!status)
        status = mh_config_load(context, path, &config);
    if (!status)
        status = mh_path_join(context, folder, "tokenizer.json", path);
    if (!status)
        status = mh_tokenizer_load(context, path, &tokenizer);
    if (!status)
        status = mh_translator_create(context, &config, precision, tokenizer, translator);
    if (!status)
        status = mh_path_join(context, folder, "model.safetensors", path);
    if (!status)
        status = mh_parameters_load(context, mh_translator_parameters(*translator), path, NULL);
    if (status) {
        mh_translator_free(*translator);
        *translator = NULL;
    }
    return status;
}

// ---- saving -------------------------------------------------------------------------------------

// All parameters in one array of bf16; the caller frees it.
static mh_status round_values(mh_context *context, const mh_parameters *parameters, void **values)
{
    *values = mh_alloc(context, parameters->floats * sizeof(uint16_t));
    if (!*values)
        return MH_ERROR_MEMORY;
    const mh_tensor from = mh_tensor_1d(parameters->values, MH_F32, parameters->floats);
    const mh_tensor to = mh_tensor_1d(*values, MH_BF16, parameters->floats);
    return mh_tensor_copy(context, &from, &to);
}

static mh_status save_rounded(mh_context *context, const mh_parameters *parameters,
                              const char *path)
{
    const size_t bytes = parameters->count * sizeof(mh_named_tensor);
    mh_named_tensor *tensors = mh_alloc(context, bytes);
    void *values = NULL;
    mh_status status = tensors ? round_values(context, parameters, &values) : MH_ERROR_MEMORY;
    for (size_t i = 0; i < parameters->count && !status; i++) {
        const mh_parameter *p = &parameters->list[i];
        uint16_t *first = (uint16_t *)values + p->offset;
        tensors[i] = (mh_named_tensor){p->name, mh_tensor_view(first, MH_BF16, p->rank, p->shape)};
    }
    const mh_metadata metadata = {"format", "pt"};
    if (!status)
        status = mh_safetensors_write(context, path, tensors, parameters->count, &metadata, 1);
    mh_free(context, values, parameters->floats * sizeof(uint16_t));
    mh_free(context, tensors, bytes);
    return status;
}

mh_status mh_translator_save_settings(mh_context *context, const mh_translator *t,
                                      const char *folder)
{
    char path[MH_PATH_BYTES];
    mh_status status = mh_path_join(context, folder, "config.json", path);
    if (!status)
        status = mh_config_save(context, path, &t->config);
    if (!status)
        status = mh_path_join(context, folder, "tokenizer.json", path);
    return status ? status : mh_tokenizer_save(context, t->tokenizer, path);
}

mh_status mh_translator_save_weights(mh_context *context, const mh_translator *t,
                                     const char *folder, mh_dtype dtype)
{
    char path[MH_PATH_BYTES];
    if (dtype != MH_F32 && dtype != MH_BF16)
        return mh_fail(context, MH_ERROR_ARGUMENT, "dtype: found %s, expected f32 or bf16",
                       mh_dtype_name(dtype));
    mh_status status = mh_path_join(context, folder, "model.safetensors", path);
    if (status)
        return status;
    return dtype == MH_F32 ? mh_parameters_save(context, mh_translator_parameters(t), path)
                           : save_rounded(context, mh_translator_parameters(t), path);
}

mh_status mh_translator_save(mh_context *context, const mh_translator *t, const char *folder,
                             mh_dtype dtype)
{
    mh_status status = mh_translator_save_settings(context, t, folder);
    return status ? status : mh_translator_save_weights(context, t, folder, dtype);
}
