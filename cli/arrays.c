// SPDX-License-Identifier: MIT
// Arrays from files; see arrays.h.
#include "arrays.h"
#include "command.h"
#include "messages.h"
#include "whole_file.h"

#include <float.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static bool prefix_exists(const char *text, size_t length)
{
    char *path = strndup(text, length);
    bool exists = path && access(path, F_OK) == 0;
    free(path);
    return exists;
}

static size_t path_length(const char *spec)
{
    size_t length = strlen(spec);
    if (spec[0] == '-' && (spec[1] == 0 || spec[1] == ':'))
        return 1; // standard input
    if (prefix_exists(spec, length))
        return length;
    for (size_t n = length; n-- > 1;)
        if (spec[n] == ':' && prefix_exists(spec, n))
            return n;
    static const char *const endings[] = {".safetensors:", ".npz:", ".pt:", ".pth:", ".bin:"};
    for (size_t i = 0; i < sizeof endings / sizeof *endings;
         i++) { // no such file, but the intent is clear
        const char *mark = strstr(spec, endings[i]);
        if (mark)
            return (size_t)(mark - spec) + strlen(endings[i]) - 1;
    }
    return length;
}

// "a, b, c ..." - as many names as fit.
static const char *array_list_names(const mh_tensor_file *file, char *text, size_t size)
{
    size_t used = 0, count = mh_tensor_file_count(file);
    text[0] = 0;
    for (size_t i = 0; i < count; i++) {
        const char *name = mh_tensor_file_name(file, i);
        if (used + strlen(name) + 8 > size) {
            snprintf(text + used, size - used, " ...");
            break;
        }
        used += (size_t)snprintf(text + used, size - used, "%s%s", i ? ", " : "", name);
    }
    return text;
}

static int array_find_tensor(array *a, const char *path, const char *name)
{
    char names[400];
    size_t count = mh_tensor_file_count(a->file);
    bool is_npy = count == 1 && *mh_tensor_file_name(a->file, 0) == 0;
    if (!name && count == 1 && mh_tensor_file_at(a->file, 0, &a->tensor))
        return EXIT_DONE;
    if (name && mh_tensor_file_find(a->file, name, &a->tensor))
        return EXIT_DONE;
    array_list_names(a->file, names, sizeof names);
    if (!name)
        complain("%s %s: holds %zu tensors, expected %s:NAME with one of: %s", a->option, path,
                 count, path, names);
    else if (is_npy)
        complain("%s %s: a .npy file holds one array without a name, found ':%s'", a->option, path,
                 name);
    else
        complain("%s %s: has no tensor '%s', expected one of: %s", a->option, path, name, names);
    return EXIT_INPUT;
}

static int array_open_file(mh_context *context, array *a, const char *path)
{
    mh_status status;
    if (is_stream(path)) {
        size_t size;
        int code = whole_file_read(a->option, path, SIZE_MAX, &a->bytes, &size);
        if (code != EXIT_DONE)
            return code;
        status = mh_tensor_file_parse(context, input_name(path), a->bytes, size, &a->file);
    } else {
        status = mh_tensor_file_open(context, path, &a->file);
    }
    return status == MH_OK ? EXIT_DONE : complain_status(context, status, a->option);
}

int array_open(mh_context *context, array *a)
{
    size_t length = path_length(a->spec);
    char *path = strndup(a->spec, length);
    if (!path) {
        complain("%s: out of memory", a->option);
        return EXIT_MEMORY;
    }
    const char *name = a->spec[length] == ':' ? a->spec + length + 1 : NULL;
    int code = array_open_file(context, a, path);
    if (code == EXIT_DONE)
        code = array_find_tensor(a, path, name);
    a->found = a->tensor;
    free(path);
    return code;
}

void array_close(mh_context *context, array *a)
{
    mh_free(context, a->copy, a->copy_size);
    mh_tensor_file_free(a->file);
    free(a->bytes);
    a->bytes = NULL;
    a->copy = NULL;
    a->file = NULL;
}

int array_complain(const array *a, const char *format, ...)
{
    char shape[128], message[512];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    mh_tensor_describe(&a->found, shape, sizeof shape);
    complain("%s %s: %s: %s", a->option, a->spec, shape, message);
    return EXIT_INPUT;
}

bool array_is_float(const array *a)
{
    mh_dtype t = a->tensor.dtype;
    return t == MH_F32 || t == MH_F64 || t == MH_BF16 || t == MH_F16;
}

int array_check_elements(const char *path, const mh_tensor_file *file, double expected,
                         size_t width)
{
    const double little = 1 << 24;
    double found = 0;
    mh_tensor tensor;
    for (size_t i = 0; mh_tensor_file_describe(file, i, &tensor); i++)
        found += (double)mh_tensor_count(&tensor);
    if (found >= expected || expected <= little)
        return EXIT_DONE;
    complain("--model %s: found %.0f elements, expected at least %.0f for a width of %zu", path,
             found, expected, width);
    return EXIT_INPUT;
}

int array_allocate(mh_context *context, const char *what, mh_dtype dtype, int rank,
                   const size_t *shape, mh_tensor *tensor, size_t *size)
{
    char text[128];
    *tensor = mh_tensor_view(NULL, dtype, rank, shape);
    size_t count = mh_tensor_count(tensor), width = mh_dtype_size(dtype);
    *size = count == 0 ? 1 : count * width;
    if (count <= SIZE_MAX / 2 / width)
        tensor->data = mh_alloc(context, *size);
    if (tensor->data)
        return EXIT_DONE;
    complain("%s: out of memory for %s", what, mh_tensor_describe(tensor, text, sizeof text));
    return EXIT_MEMORY;
}

static bool is_infinite(const mh_tensor *t, size_t i)
{
    switch (t->dtype) {
    case MH_F64:
        return isinf(((const double *)t->data)[i]);
    case MH_F32:
        return isinf(((const float *)t->data)[i]);
    case MH_BF16:
        return (((const uint16_t *)t->data)[i] & 0x7fff) == 0x7f80;
    case MH_F16:
        return (((const uint16_t *)t->data)[i] & 0x7fff) == 0x7c00;
    default:
        return false;
    }
}

static size_t count_infinite(const mh_tensor *t)
{
    const size_t size = mh_tensor_count(t);
    size_t count = 0;
    for (size_t i = 0; i < size; i++)
        count += is_infinite(t, i);
    return count;
}

// Rounding to a narrower type is expected; overflow to infinity is reported. Both arrays are dense,
// though not necessarily in the same order.
static void note_overflow(const array *a, const mh_tensor *from, const mh_tensor *to)
{
    if (is_quiet() || mh_dtype_size(to->dtype) >= mh_dtype_size(from->dtype))
        return;
    const size_t now = count_infinite(to), before = now ? count_infinite(from) : 0;
    if (now > before)
        note("%s %s: %zu of %zu elements are beyond the range of %s and became infinite", a->option,
             a->spec, now - before, mh_tensor_count(to), mh_dtype_name(to->dtype));
}

// Copies the array into its own memory, converted and in C order.
static int copy(mh_context *context, array *a, mh_dtype dtype)
{
    mh_tensor to;
    size_t size;
    int code =
        array_allocate(context, a->option, dtype, a->tensor.rank, a->tensor.shape, &to, &size);
    if (code != EXIT_DONE)
        return code;
    mh_status status = mh_tensor_copy(context, &a->tensor, &to);
    if (status != MH_OK) {
        mh_free(context, to.data, size);
        return complain_status(context, status, a->option);
    }
    note_overflow(a, &a->tensor, &to);
    mh_free(context, a->copy, a->copy_size);
    a->copy = to.data;
    a->copy_size = size;
    a->tensor = to;
    return EXIT_DONE;
}

int array_convert(mh_context *context, array *a, mh_dtype dtype, bool contiguous)
{
    bool in_order = !contiguous || mh_tensor_is_contiguous(&a->tensor);
    bool good = a->tensor.dtype == dtype && in_order;
    return good ? EXIT_DONE : copy(context, a, dtype);
}

void array_extend(array *a, int rank)
{
    mh_tensor *t = &a->tensor;
    int missing = rank - t->rank;
    if (missing <= 0)
        return;
    for (int d = rank - 1; d >= 0; d--) {
        t->shape[d] = d < missing ? 1 : t->shape[d - missing];
        t->stride[d] = d < missing ? 0 : t->stride[d - missing];
    }
    t->rank = rank;
}

// Finite values beyond f32's range stay finite: -1e300 must not become -inf, which masks.
static void clamp_to_f32(const mh_tensor *t)
{
    double *x = t->data;
    size_t count = mh_tensor_count(t);
    for (size_t i = 0; i < count; i++)
        if (isfinite(x[i]))
            x[i] = fmin(fmax(x[i], -(double)FLT_MAX), (double)FLT_MAX);
}

static bool is_only_zero_and_one(const mh_tensor *t)
{
    const float *x = t->data;
    size_t count = mh_tensor_count(t), ones = 0;
    for (size_t i = 0; i < count; i++) {
        if (x[i] != 0.0f && x[i] != 1.0f)
            return false;
        ones += x[i] == 1.0f;
    }
    return ones > 0; // all zeros is a mask without effect
}

int array_to_added_mask(mh_context *context, array *in, const char *instead)
{
    if (in->tensor.dtype == MH_F64) {
        int code = copy(context, in, MH_F64); // the file's memory is read-only
        if (code != EXIT_DONE)
            return code;
        clamp_to_f32(&in->tensor);
    }
    int code = array_convert(context, in, MH_F32, true);
    if (code == EXIT_DONE && is_only_zero_and_one(&in->tensor))
        note("warning: %s %s: a float mask is added to the scores, but this one holds only 0 and "
             "1; a mask that says which keys %s",
             in->option, in->spec, instead);
    return code;
}
