// SPDX-License-Identifier: MIT
// A translator's config.json.
#ifndef MH_MODEL_CONFIG_FILE_H
#define MH_MODEL_CONFIG_FILE_H

#include <multihead/translator.h>

// Errors: MH_ERROR_FILE; MH_ERROR_FORMAT for an invalid file, or one of another version.
mh_status mh_config_load(mh_context *context, const char *path, mh_translator_config *config);

// The same for bytes in memory; `name` replaces the path in messages.
mh_status mh_config_parse(mh_context *context, const char *name, const void *bytes, size_t size,
                          mh_translator_config *config);

// The file is written atomically.
mh_status mh_config_save(mh_context *context, const char *path, const mh_translator_config *config);

#endif
