// SPDX-License-Identifier: MIT
// Checkpoints and snapshots. They are read as untrusted input, like any file.
#include "train/checkpoint.h"
#include "base/compiler.h"
#include "train/format_number.h"

#include <multihead/io.h>

#include "io/checksum.h"
#include "support/plain_numbers.h"
#include "support/source.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define FORMAT_KEY   "format"
#define FORMAT_VALUE "multihead checkpoint 2"

// ---- progress as text ---------------------------------------------------------------------------

typedef struct field {
    const char *name;
    size_t offset;
    bool real; // double; else uint64_t
} field;

#define PLACE(name) #name, offsetof(mh_progress, name)
static const field fields[] = {
    {PLACE(update), false},      {PLACE(epoch), false},
    {PLACE(batch), false},       {PLACE(grains), false},
    {PLACE(tokens), false},      {PLACE(pending), false},
    {PLACE(saves), false},       {PLACE(best_update), false},
    {PLACE(stale), false},       {"best_bleu", offsetof(mh_progress, best_quality), true},
    {PLACE(best_loss), true},    {PLACE(loss_sum), true},
    {PLACE(loss_tokens), false},
};
enum { FIELDS = sizeof fields / sizeof *fields, TEXT = 48 };

static void write_field(const mh_progress *progress, size_t i, char text[TEXT])
{
    const void *value = (const char *)progress + fields[i].offset;
    if (fields[i].real)
        mh_real_text(*(const double *)value, text, TEXT);
    else
        snprintf(text, TEXT, "%" PRIu64, *(const uint64_t *)value);
}

static bool checkpoint_read_field(const char *text, mh_progress *progress, size_t i)
{
    void *value = (char *)progress + fields[i].offset;
    if (!text && !strcmp(fields[i].name, "best_loss")) // the first checkpoints had none
        return true;
    return text && (fields[i].real ? mh_real_parse(text, value) : mh_whole_parse(text, value));
}

// ---- saving -------------------------------------------------------------------------------------

mh_status mh_checkpoint_save(mh_context *context, const char *directory,
                             const mh_settings *settings, const mh_progress *progress,
                             const mh_run_arrays *a)
{
    char path[MH_PATH_BYTES], text[FIELDS][TEXT];
    mh_metadata metadata[1 + FIELDS + MH_SETTINGS_MOST] = {{FORMAT_KEY, FORMAT_VALUE}};
    size_t count = 1;
    for (size_t i = 0; i < FIELDS; i++) {
        write_field(progress, i, text[i]);
        metadata[count++] = (mh_metadata){fields[i].name, text[i]};
    }
    for (size_t i = 0; i < settings->count; i++)
        metadata[count++] = (mh_metadata){settings->list[i].name, settings->list[i].value};
    const mh_named_tensor tensors[] = {
        {"parameters", mh_tensor_1d(a->parameters, MH_F32, a->floats)},
        {"adam.m", mh_tensor_1d(a->m, MH_F32, a->floats)},
        {"adam.v", mh_tensor_1d(a->v, MH_F32, a->floats)},
    };
    MH_TRY(mh_path_join(context, directory, MH_CHECKPOINT_NAME, path));
    return mh_safetensors_write_checked(context, path, tensors, 3, metadata, count);
}

// ---- loading ------------------------------------------------------------------------------------

typedef struct reading {
    mh_source source;
    mh_tensor_file *file;
    mh_verified verified;
} reading;

static mh_status checkpoint_open_file(mh_context *context, const char *directory, const char *name,
                                      char path[MH_PATH_BYTES], reading *r)
{
    r->source = (mh_source){.context = context, .name = path};
    mh_status status = mh_path_join(context, directory, name, path);
    if (!status)
        status = mh_tensor_file_open(context, path, &r->file);
    r->verified =
        (mh_verified){&r->source, r->file,
                      "restore the file, or remove checkpoint.safetensors to begin the run again"};
    return status ? status : mh_verify_header(&r->verified);
}

static mh_status read_array(const reading *r, const char *name, size_t floats, float *values)
{
    mh_tensor tensor, to = mh_tensor_1d(values, MH_F32, floats);
    char found[128];
    size_t i;
    if (!mh_tensor_file_index(r->file, name, &i) || !mh_tensor_file_at(r->file, i, &tensor))
        return mh_source_fail(&r->source, MH_ERROR_FORMAT, "tensor \"%s\" is missing", name);
    if (tensor.dtype != MH_F32 || tensor.rank != 1 || tensor.shape[0] != floats)
        return mh_source_fail(&r->source, MH_ERROR_FORMAT, "\"%s\": found %s, expected f32 (%zu)",
                              name, mh_tensor_describe(&tensor, found, sizeof found), floats);
    return mh_verify_copy(&r->verified, i, &tensor, &to);
}

static mh_status check_format(const reading *r)
{
    const char *format = mh_tensor_file_metadata(r->file, FORMAT_KEY);
    if (format && !strcmp(format, FORMAT_VALUE))
        return MH_OK;
    return mh_source_fail(&r->source, MH_ERROR_FORMAT,
                          "found format %s, expected \"" FORMAT_VALUE "\"",
                          mh_quote_string(format ? format : "").text);
}

// A setting's value, human-readable.
static const char *shown(const mh_setting *setting, const char *value, char text[TEXT])
{
    char *end;
    if (!setting->real && !setting->single)
        return value;
    const mh_plain_numbers saved = mh_plain_numbers_enter();
    const double number = strtod(value, &end);
    mh_plain_numbers_leave(saved);
    if (end == value || *end)
        return value;
    mh_short_text(number, setting->single, text, TEXT);
    return text;
}

static mh_status check_settings(const reading *r, const mh_settings *settings)
{
    char texts[2][TEXT];
    for (size_t i = 0; i < settings->count; i++) {
        const mh_setting *now = &settings->list[i];
        const char *was = mh_tensor_file_metadata(r->file, now->name);
        was = was ? was : now->absent;
        if (was && strcmp(was, now->value) == 0)
            continue;
        if (now->checksum)
            return mh_source_fail(
                &r->source, MH_ERROR_FORMAT,
                "%s: the run was started with other sentences; use another directory "
                "for a new run",
                now->name);
        return mh_source_fail(
            &r->source, MH_ERROR_FORMAT,
            "%s: the run was started with %s, now it is %s; use another directory "
            "for a new run",
            now->name, mh_quote_string(shown(now, was ? was : "", texts[0])).text,
            mh_quote_string(shown(now, now->value, texts[1])).text);
    }
    return MH_OK;
}

static mh_status read_progress(const reading *r, mh_progress *progress)
{
    for (size_t i = 0; i < FIELDS; i++)
        if (!checkpoint_read_field(mh_tensor_file_metadata(r->file, fields[i].name), progress, i))
            return mh_source_fail(&r->source, MH_ERROR_FORMAT, "\"%s\": expected a number",
                                  fields[i].name);
    return MH_OK;
}

mh_status mh_checkpoint_load(mh_context *context, const char *directory,
                             const mh_settings *settings, mh_progress *progress,
                             const mh_run_arrays *a)
{
    char path[MH_PATH_BYTES];
    reading r = {.file = NULL};
    mh_status status = checkpoint_open_file(context, directory, MH_CHECKPOINT_NAME, path, &r);
    if (!status)
        status = check_format(&r);
    if (!status)
        status = check_settings(&r, settings);
    if (!status)
        status = read_progress(&r, progress);
    if (!status)
        status = read_array(&r, "parameters", a->floats, a->parameters);
    if (!status)
        status = read_array(&r, "adam.m", a->floats, a->m);
    if (!status)
        status = read_array(&r, "adam.v", a->floats, a->v);
    mh_tensor_file_free(r.file);
    return status;
}

mh_status mh_checkpoint_setting(mh_context *context, const char *directory, const char *name,
                                char *value, size_t size)
{
    char path[MH_PATH_BYTES];
    reading r = {.file = NULL};
    mh_status status = checkpoint_open_file(context, directory, MH_CHECKPOINT_NAME, path, &r);
    if (!status)
        status = check_format(&r);
    const char *text = status ? NULL : mh_tensor_file_metadata(r.file, name);
    if (!status && (!text || strlen(text) >= size))
        status = mh_source_fail(&r.source, MH_ERROR_FORMAT, "\"%s\": expected a setting", name);
    if (!status)
        strcpy(value, text);
    mh_tensor_file_free(r.file);
    return status;
}

// ---- snapshots ----------------------------------------------------------------------------------

static void name_snapshot(uint64_t number, size_t average, char name[TEXT])
{
    snprintf(name, TEXT, "snapshot-%" PRIu64 ".safetensors", number % (average + 1));
}

mh_status mh_snapshot_save(mh_context *context, const char *directory, uint64_t number,
                           size_t average, size_t floats, const float *parameters)
{
    char path[MH_PATH_BYTES], name[TEXT], text[TEXT];
    name_snapshot(number, average, name);
    snprintf(text, sizeof text, "%" PRIu64, number);
    const mh_metadata metadata = {"number", text};
    const mh_named_tensor tensor = {"parameters",
                                    mh_tensor_1d((float *)parameters, MH_F32, floats)};
    MH_TRY(mh_path_join(context, directory, name, path));
    return mh_safetensors_write_checked(context, path, &tensor, 1, &metadata, 1);
}

static mh_status add_snapshot(mh_context *context, const char *directory, uint64_t number,
                              size_t average, size_t floats, float *scratch, float *sum)
{
    char path[MH_PATH_BYTES], name[TEXT];
    uint64_t found = 0;
    reading r = {.file = NULL};
    name_snapshot(number, average, name);
    mh_status status = checkpoint_open_file(context, directory, name, path, &r);
    const char *text = status ? NULL : mh_tensor_file_metadata(r.file, "number");
    if (!status && (!text || !mh_whole_parse(text, &found) || found != number))
        status = mh_source_fail(&r.source, MH_ERROR_FORMAT,
                                "found snapshot %s, expected number %" PRIu64,
                                mh_quote_string(text ? text : "").text, number);
    if (!status)
        status = read_array(&r, "parameters", floats, scratch);
    for (size_t i = 0; i < floats && !status; i++)
        sum[i] += scratch[i];
    mh_tensor_file_free(r.file);
    return status;
}

mh_status mh_snapshots_mean(mh_context *context, const char *directory, uint64_t saves,
                            size_t average, size_t floats, float *mean)
{
    const uint64_t count = saves < average ? saves : average;
    float *scratch = mh_alloc(context, floats * sizeof *scratch);
    mh_status status = scratch ? MH_OK : MH_ERROR_MEMORY;
    memset(mean, 0, floats * sizeof *mean);
    for (uint64_t i = saves - count; i < saves && !status; i++)
        status = add_snapshot(context, directory, i, average, floats, scratch, mean);
    for (size_t i = 0; i < floats && !status; i++)
        mean[i] /= (float)count;
    mh_free(context, scratch, floats * sizeof *scratch);
    return status;
}
