// SPDX-License-Identifier: MIT
// Loads and saves parameters as safetensors. Loading takes two passes over the list of parameters,
// both by mh_match_parameter(), which maps tensors to parameters: the first collects all problems,
// the second copies, so that a rejected file changes nothing. Only checksums of the data are
// verified during the copy: the file is read once.
#include "model/parameters_file.h"
#include "base/compiler.h"
#include "model/parameters_match.h"

#include "base/overflow.h"
#include "base/sized_struct.h"
#include "io/checksum.h"
#include <stdio.h>

enum { PREFIX_MAX_BYTES = 256 };

// ---- loading ------------------------------------------------------------------------------------

static void note_surplus(mh_match *m)
{
    const char *prefix = m->options->prefix ? m->options->prefix : "";
    for (size_t i = 0; i < mh_tensor_file_count(m->file); i++) {
        const char *name = mh_tensor_file_name(m->file, i);
        if (m->used[i] || strncmp(name, prefix, strlen(prefix)))
            continue;
        m->surplus++;
        if (m->options->strict)
            mh_match_problem(m, "surplus %s", mh_quote_string(name).text);
    }
}

static mh_status check_file(mh_match *m)
{
    mh_transfer t;
    for (size_t i = 0; i < m->parameters->count; i++)
        m->found += mh_match_parameter(m, &m->parameters->list[i], &t);
    note_surplus(m);
    const size_t all = m->parameters->count;
    if (m->problems > m->shown)
        return mh_source_fail(&m->source, MH_ERROR_FORMAT, "%s; and %zu more", m->text,
                              m->problems - m->shown);
    if (m->problems)
        return mh_source_fail(&m->source, MH_ERROR_FORMAT, "%s", m->text);
    if (all && !m->found)
        return mh_source_fail(&m->source, MH_ERROR_FORMAT,
                              "has none of the %zu parameters, such as %s", all,
                              mh_quote_string(m->parameters->list[0].name).text);
    if (m->missing || m->surplus)
        mh_log(m->source.context, MH_LOG_WARNING,
               "%s: %zu of %zu parameters are missing and left unchanged; %zu other tensors "
               "are ignored",
               m->source.name, m->missing, all, m->surplus);
    return MH_OK;
}

static mh_status copy_all(mh_match *m, const mh_verified *v)
{
    mh_status status = MH_OK;
    for (size_t i = 0; i < m->parameters->count && !status; i++) {
        mh_transfer t;
        if (!mh_match_parameter(m, &m->parameters->list[i], &t))
            continue;
        for (int k = 0; k < t.count && !status; k++)
            status = m->options->verify ? mh_verify_copy(v, t.index[k], &t.from[k], &t.to[k])
                                        : mh_tensor_copy(m->source.context, &t.from[k], &t.to[k]);
    }
    return status;
}

static mh_status check_arguments(mh_context *context, const mh_parameters *parameters,
                                 const char *path, const mh_parameters_options *given,
                                 mh_parameters_options *options)
{
    *options = mh_parameters_options_default();
    if (!parameters || !path)
        return mh_fail(context, MH_ERROR_ARGUMENT, "%s is NULL", path ? "parameters" : "path");
    MH_TRY(MH_READ_STRUCT(context, mh_parameters_options, given, options));
    if (options->prefix && strlen(options->prefix) > PREFIX_MAX_BYTES)
        return mh_fail(context, MH_ERROR_ARGUMENT,
                       "options.prefix: found %zu bytes, expected at most %d",
                       strlen(options->prefix), PREFIX_MAX_BYTES);
    if (options->qkv != MH_QKV_STACKED && options->qkv != MH_QKV_INTERLEAVED)
        return mh_fail(context, MH_ERROR_ARGUMENT,
                       "options.qkv: found %d, expected an mh_qkv_order", (int)options->qkv);
    return MH_OK;
}

mh_status mh_parameters_load(mh_context *context, const mh_parameters *parameters, const char *path,
                             const mh_parameters_options *options)
{
    if (!context)
        return MH_ERROR_ARGUMENT;
    mh_parameters_options own;
    mh_tensor_file *file = NULL;
    mh_status status = check_arguments(context, parameters, path, options, &own);
    if (!status)
        status = mh_tensor_file_open(context, path, &file);
    if (status)
        return status;
    const size_t tensors = mh_tensor_file_count(file), used_bytes = (tensors + 1) * sizeof(bool);
    mh_match m = {.source = {.context = context, .name = path},
                  .parameters = parameters,
                  .options = &own,
                  .file = file};
    m.used = mh_alloc(context, used_bytes);
    if (!m.used)
        status = MH_ERROR_MEMORY;
    else
        memset(m.used, 0, used_bytes);
    const mh_verified v = {&m.source, file, MH_MODEL_ADVICE};
    if (!status && m.options->verify)
        status = mh_verify_header(&v);
    if (!status)
        status = check_file(&m);
    if (!status)
        status = copy_all(&m, &v);
    mh_free(context, m.used, used_bytes);
    mh_tensor_file_free(file);
    return status;
}

// ---- saving -------------------------------------------------------------------------------------

// The tensors of a file and their names; a single part may be saved from a copy in another dtype.
typedef struct saving {
    mh_dtype dtype;
    void *copy; // NULL: the parameters' own values
    size_t count, text_size, metadata_count;
    mh_named_tensor *tensors; // (count)
    char *text;               // (text_size)
    mh_metadata *metadata;    // (metadata_count)
} saving;

static const char *prefix_of(const mh_parameters_part *part)
{
    return part->prefix ? part->prefix : "";
}

static mh_status check_parts(mh_context *context, const mh_parameters_part *parts, size_t count,
                             saving *s)
{
    for (size_t i = 0; i < count; i++) {
        const mh_parameters *p = parts[i].parameters;
        if (!p)
            return mh_fail(context, MH_ERROR_ARGUMENT, "parts[%zu]: parameters is NULL", i);
        const size_t prefix = strlen(prefix_of(&parts[i]));
        if (prefix > PREFIX_MAX_BYTES)
            return mh_fail(context, MH_ERROR_ARGUMENT,
                           "parts[%zu].prefix: found %zu bytes, expected at most %d", i, prefix,
                           PREFIX_MAX_BYTES);
        s->count += p->count;
        s->text_size += p->count * (prefix + sizeof p->list->name); // both are small
    }
    return MH_OK;
}

static void parameters_file_fill(const mh_parameters_part *parts, size_t count, saving *s)
{
    char *text = s->text;
    mh_named_tensor *t = s->tensors;
    for (size_t i = 0; i < count; i++)
        for (size_t j = 0; j < parts[i].parameters->count; j++) {
            const mh_parameter *p = &parts[i].parameters->list[j];
            char *values = s->copy ? s->copy : (char *)parts[i].parameters->values;
            char *first = values + p->offset * mh_dtype_size(s->dtype);
            *t++ = (mh_named_tensor){text, mh_tensor_view(first, s->dtype, p->rank, p->shape)};
            text += sprintf(text, "%s%s", prefix_of(&parts[i]), p->name) + 1;
        }
}

// The caller's metadata, and the entry by which others recognise (out, in) matrices.
static void fill_metadata(const mh_metadata *metadata, size_t count, saving *s)
{
    bool named = false;
    for (size_t i = 0; i < count; i++) {
        s->metadata[i] = metadata[i];
        named |= metadata[i].key && strcmp(metadata[i].key, "format") == 0;
    }
    s->metadata_count = count + !named;
    if (!named)
        s->metadata[count] = (mh_metadata){"format", "pt"};
}

static mh_status save(mh_context *context, const mh_parameters_part *parts, size_t part_count,
                      const mh_metadata *metadata, size_t metadata_count, mh_dtype dtype,
                      void *copy, const char *path)
{
    saving s = {.dtype = dtype, .copy = copy};
    size_t metadata_bytes;
    if (!mh_multiply_sizes(metadata_count, sizeof *s.metadata, &metadata_bytes) ||
        !mh_add_sizes(metadata_bytes, sizeof *s.metadata, &metadata_bytes)) // plus our own
        return mh_fail(context, MH_ERROR_ARGUMENT, "metadata: found %zu pairs", metadata_count);
    mh_status status = check_parts(context, parts, part_count, &s);
    if (status)
        return status;
    const size_t tensor_bytes = (s.count + 1) * sizeof *s.tensors;
    s.tensors = mh_alloc(context, tensor_bytes);
    s.text = mh_alloc(context, s.text_size);
    s.metadata = mh_alloc(context, metadata_bytes);
    if (!s.tensors || !s.text || !s.metadata) {
        status = MH_ERROR_MEMORY;
    } else {
        parameters_file_fill(parts, part_count, &s);
        fill_metadata(metadata, metadata_count, &s);
        status = mh_safetensors_write_checked(context, path, s.tensors, s.count, s.metadata,
                                              s.metadata_count);
    }
    mh_free(context, s.metadata, metadata_bytes);
    mh_free(context, s.text, s.text_size);
    mh_free(context, s.tensors, tensor_bytes);
    return status;
}

mh_status mh_parameters_save_parts(mh_context *context, const mh_parameters_part *parts,
                                   size_t part_count, const mh_metadata *metadata,
                                   size_t metadata_count, const char *path)
{
    if (!context)
        return MH_ERROR_ARGUMENT;
    if (!path || (!parts && part_count) || (!metadata && metadata_count))
        return mh_fail(context, MH_ERROR_ARGUMENT, "%s is NULL",
                       !path                  ? "path"
                       : !parts && part_count ? "parts"
                                              : "metadata");
    return save(context, parts, part_count, metadata, metadata_count, MH_F32, NULL, path);
}

mh_status mh_parameters_save_as(mh_context *context, const mh_parameters *parameters,
                                mh_dtype dtype, const char *path)
{
    const mh_parameters_part whole = {NULL, parameters};
    if (dtype == MH_F32)
        return save(context, &whole, 1, NULL, 0, MH_F32, NULL, path);
    const size_t bytes = parameters->floats * mh_dtype_size(dtype);
    void *copy = mh_alloc(context, bytes);
    if (!copy)
        return MH_ERROR_MEMORY;
    const mh_tensor from = mh_tensor_1d(parameters->values, MH_F32, parameters->floats);
    mh_tensor to = mh_tensor_1d(copy, dtype, parameters->floats);
    mh_status status = mh_tensor_copy(context, &from, &to);
    if (!status)
        status = save(context, &whole, 1, NULL, 0, dtype, copy, path);
    mh_free(context, copy, bytes);
    return status;
}

mh_status mh_parameters_save(mh_context *context, const mh_parameters *parameters, const char *path)
{
    if (!context)
        return MH_ERROR_ARGUMENT;
    mh_parameters_options unused;
    MH_TRY(check_arguments(context, parameters, path, NULL, &unused));
    return mh_parameters_save_as(context, parameters, MH_F32, path);
}
