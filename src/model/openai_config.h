// SPDX-License-Identifier: MIT
// Whisper as OpenAI publishes it: a .pt file beside a .tiktoken file, without config.json. All
// sizes follow from the tensors.
#ifndef MH_MODEL_OPENAI_CONFIG_H
#define MH_MODEL_OPENAI_CONFIG_H

#include "support/directory.h"
#include <jansson.h>
#include <multihead/io.h>

// Whether a directory has no config.json but one .pt file, whose path goes to `file`.
mh_status mh_openai_locate(mh_context *context, const char *directory, char file[MH_PATH_BYTES],
                           bool *found);

// The sizes as the keys of Hugging Face's config.json, to be released with json_decref. Errors:
// MH_ERROR_UNSUPPORTED (the file has no Whisper model), MH_ERROR_MEMORY.
mh_status mh_openai_config(mh_context *context, const char *path, const mh_tensor_file *file,
                           json_t **config);

#endif
