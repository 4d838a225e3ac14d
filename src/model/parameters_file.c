// SPDX-License-Identifier: MIT
// Parameters from and to safetensors files. Loading takes two passes over the list of parameters,
// both by mh_match_parameter(), which says what goes where: the first finds everything that is
// wrong, the second copies, so that a refused file changes nothing.
#include "model/parameters_file.h"
#include "model/parameters_match.h"

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
                              "none of the %zu parameters is there, such as %s", all,
                              mh_quote_string(m->parameters->list[0].name).text);
    if (m->missing || m->surplus)
        mh_log(m->source.context, MH_LOG_WARNING,
               "%s: %zu of %zu parameters are not there and stay as they are; %zu other tensors "
               "are not read",
               m->source.name, m->missing, all, m->surplus);
    return MH_OK;
}

static mh_status copy_all(mh_match *m)
{
    mh_status status = MH_OK;
    for (size_t i = 0; i < m->parameters->count; i++) {
        mh_transfer t;
        if (!mh_match_parameter(m, &m->parameters->list[i], &t))
            continue;
        for (int k = 0; k < t.count && !status; k++)
            status = mh_tensor_copy(m->source.context, &t.from[k], &t.to[k]);
    }
    return status;
}

static mh_status check_arguments(mh_context *context, const mh_parameters *parameters,
                                 const char *path, const mh_parameters_options *options)
{
    if (!parameters || !path)
        return mh_fail(context, MH_ERROR_ARGUMENT, "%s is NULL", path ? "parameters" : "path");
    if (!options)
        return MH_OK;
    if (options->struct_size != sizeof *options)
        return mh_fail(context, MH_ERROR_ARGUMENT,
                       "options.struct_size: found %zu, expected %zu as "
                       "mh_parameters_options_default() says",
                       options->struct_size, sizeof *options);
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
    const mh_parameters_options usual = mh_parameters_options_default();
    mh_tensor_file *file = NULL;
    mh_status status = check_arguments(context, parameters, path, options);
    if (!status)
        status = mh_tensor_file_open(context, path, &file);
    if (status)
        return status;
    const size_t tensors = mh_tensor_file_count(file), used_bytes = (tensors + 1) * sizeof(bool);
    mh_match m = {.source = {.context = context, .name = path},
                  .parameters = parameters,
                  .options = options ? options : &usual,
                  .file = file};
    m.used = mh_alloc(context, used_bytes);
    if (!m.used)
        status = MH_ERROR_MEMORY;
    else
        memset(m.used, 0, used_bytes);
    if (!status)
        status = check_file(&m);
    if (!status)
        status = copy_all(&m);
    mh_free(context, m.used, used_bytes);
    mh_tensor_file_free(file);
    return status;
}

// ---- saving -------------------------------------------------------------------------------------

// Views of all parameters in `values`, which are of that type; written.
static mh_status write_all(mh_context *context, const mh_parameters *parameters, void *values,
                           mh_dtype dtype, const char *path)
{
    const size_t bytes = (parameters->count + 1) * sizeof(mh_named_tensor);
    mh_named_tensor *tensors = mh_alloc(context, bytes);
    if (!tensors)
        return MH_ERROR_MEMORY;
    for (size_t i = 0; i < parameters->count; i++) {
        const mh_parameter *p = &parameters->list[i];
        char *first = (char *)values + p->offset * mh_dtype_size(dtype);
        tensors[i] = (mh_named_tensor){p->name, mh_tensor_view(first, dtype, p->rank, p->shape)};
    }
    const mh_metadata metadata = {"format", "pt"}; // by which others know (out, in) matrices
    mh_status status =
        mh_safetensors_write(context, path, tensors, parameters->count, &metadata, 1);
    mh_free(context, tensors, bytes);
    return status;
}

mh_status mh_parameters_save_as(mh_context *context, const mh_parameters *parameters,
                                mh_dtype dtype, const char *path)
{
    if (dtype == MH_F32)
        return write_all(context, parameters, parameters->values, MH_F32, path);
    const size_t bytes = parameters->floats * mh_dtype_size(dtype);
    void *values = mh_alloc(context, bytes);
    if (!values)
        return MH_ERROR_MEMORY;
    const mh_tensor from = mh_tensor_1d(parameters->values, MH_F32, parameters->floats);
    const mh_tensor to = mh_tensor_1d(values, dtype, parameters->floats);
    mh_status status = mh_tensor_copy(context, &from, &to);
    if (!status)
        status = write_all(context, parameters, values, dtype, path);
    mh_free(context, values, bytes);
    return status;
}

mh_status mh_parameters_save(mh_context *context, const mh_parameters *parameters, const char *path)
{
    if (!context)
        return MH_ERROR_ARGUMENT;
    mh_status status = check_arguments(context, parameters, path, NULL);
    return status ? status : mh_parameters_save_as(context, parameters, MH_F32, path);
}
