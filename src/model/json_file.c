// SPDX-License-Identifier: MIT
// JSON files; see json_file.h.
#include "model/json_file.h"
#include "base/compiler.h"

enum { JSON_FILE_NESTING = 32 };

static mh_status json_file_parse(mh_json_file *file, mh_json_scan *scan)
{
    const mh_source *source = &file->source;
    const char *text = file->mapping.data ? file->mapping.data : "";
    if (file->mapping.size > MH_JSON_FILE_MAX)
        return mh_source_fail(source, MH_ERROR_FORMAT, "found %zu bytes, expected at most %d",
                              file->mapping.size, MH_JSON_FILE_MAX);
    // transformers writes 1e30, as an integer, for a model_max_length that is not known.
    scan->real_if_large = true;
    MH_TRY(mh_json_scan_text(source, "", text, file->mapping.size, JSON_FILE_NESTING, scan));
    return mh_json_load(source, "", text, file->mapping.size, scan, &file->root);
}

void mh_json_file_close(mh_json_file *file)
{
    json_decref(file->root);
    mh_file_unmap(&file->mapping);
    *file = (mh_json_file){0};
}

mh_status mh_json_file_open(mh_context *context, const char *directory, const char *name,
                            char path[MH_PATH_BYTES], mh_json_file *file)
{
    mh_json_scan scan = {0};
    *file = (mh_json_file){0};
    MH_TRY(mh_path_join(context, directory, name, path));
    MH_TRY(mh_file_map(context, path, &file->mapping));
    file->source = (mh_source){context, path, file->mapping.data, file->mapping.size};
    mh_status status = json_file_parse(file, &scan);
    if (status)
        mh_json_file_close(file);
    return status;
}

mh_status mh_json_file_open_optional(mh_context *context, const char *directory, const char *name,
                                     char path[MH_PATH_BYTES], mh_json_file *file)
{
    *file = (mh_json_file){0};
    MH_TRY(mh_path_join(context, directory, name, path));
    if (!mh_file_exists(path))
        return MH_OK;
    return mh_json_file_open(context, directory, name, path, file);
}
