// SPDX-License-Identifier: MIT
// A JSON file of a model's directory.
#ifndef MH_MODEL_JSON_FILE_H
#define MH_MODEL_JSON_FILE_H

#include "support/directory.h"
#include "support/file.h"
#include "support/json_load.h"

enum { MH_JSON_FILE_MAX = 1 << 22 };

typedef struct mh_json_file {
    mh_source source;
    mh_mapping mapping;
    json_t *root;
} mh_json_file;

// Opens directory/name, whose full path goes to `path`. Errors: MH_ERROR_FILE, MH_ERROR_FORMAT,
// MH_ERROR_MEMORY.
mh_status mh_json_file_open(mh_context *context, const char *directory, const char *name,
                            char path[MH_PATH_BYTES], mh_json_file *file);

// The same for a file that may be missing: file->root is then NULL.
mh_status mh_json_file_open_optional(mh_context *context, const char *directory, const char *name,
                                     char path[MH_PATH_BYTES], mh_json_file *file);
void mh_json_file_close(mh_json_file *file);

#endif
