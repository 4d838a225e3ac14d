// SPDX-License-Identifier: MIT
// Parses and validates one member of a safetensors header:
//
//     "name": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}
//
// Every number is an integer that is not negative and fits in size_t, the shape's product times
// the element size is exactly the length of the range, and the range is within the file.
#include "io/safetensors_json.h"

#include <string.h>

#include "io/safetensors.h"
#include "io/shape_bytes.h"

static const char *entry_kind_of(const json_t *value)
{
    switch (json_typeof(value)) {
    case JSON_OBJECT:
        return "an object";
    case JSON_ARRAY:
        return "a list";
    case JSON_STRING:
        return "a string";
    case JSON_INTEGER:
        return "an integer";
    case JSON_REAL:
        return "a fraction";
    default:
        return "true, false or null";
    }
}

// The tensor that an error message names.
typedef struct subject {
    const mh_source *source;
    const char *name;
} subject;

static mh_status wrong_type(const subject *s, const char *field, const json_t *value,
                            const char *wanted)
{
    return mh_source_fail(s->source, MH_ERROR_FORMAT, "tensor %s: %s is %s, expected %s",
                          mh_quote_string(s->name).text, field,
                          value ? entry_kind_of(value) : "missing", wanted);
}

static mh_status entry_read_size(const subject *s, const char *field, const json_t *value,
                                 size_t *size)
{
    if (!json_is_integer(value))
        return wrong_type(s, field, value, "integers");
    json_int_t number = json_integer_value(value);
    *size = (size_t)number;
    if (number < 0 || (json_int_t)*size != number)
        return mh_source_fail(s->source, MH_ERROR_FORMAT,
                              "tensor %s: %s has %" JSON_INTEGER_FORMAT ", expected %s",
                              mh_quote_string(s->name).text, field, number,
                              number < 0 ? "no negative numbers" : "what fits in memory");
    return MH_OK;
}

static mh_status safetensors_entry_read_dtype(const subject *s, const json_t *value,
                                              mh_dtype *dtype)
{
    if (!json_is_string(value))
        return wrong_type(s, "dtype", value, "a string");
    const char *text = json_string_value(value), *known;
    for (int i = 0; (known = mh_safetensors_type((mh_dtype)i)) != NULL; i++)
        if (strcmp(known, text) == 0) {
            *dtype = (mh_dtype)i;
            return MH_OK;
        }
    return mh_source_fail(s->source, MH_ERROR_FORMAT,
                          "tensor %s: dtype %s is not supported, expected F64, F32, F16, BF16, "
                          "BOOL, I8..I64 or U8..U64",
                          mh_quote_string(s->name).text, mh_quote_string(text).text);
}

static mh_status entry_read_shape(const subject *s, const json_t *value, mh_dtype dtype,
                                  mh_tensor *tensor)
{
    size_t shape[MH_MAX_RANK], bytes;
    if (!json_is_array(value))
        return wrong_type(s, "shape", value, "a list");
    size_t rank = json_array_size(value);
    if (rank > MH_MAX_RANK)
        return mh_source_fail(s->source, MH_ERROR_FORMAT,
                              "tensor %s: shape has %zu dimensions, expected at most %d",
                              mh_quote_string(s->name).text, rank, MH_MAX_RANK);
    for (size_t i = 0; i < rank; i++) {
        mh_status status = entry_read_size(s, "shape", json_array_get(value, i), &shape[i]);
        if (status != MH_OK)
            return status;
    }
    if (!mh_shape_bytes(dtype, (int)rank, shape, &bytes))
        return mh_source_fail(s->source, MH_ERROR_FORMAT,
                              "tensor %s: the shape's product overflows: its size does not fit in "
                              "memory",
                              mh_quote_string(s->name).text);
    *tensor = mh_tensor_view(NULL, dtype, (int)rank, shape);
    return MH_OK;
}

static mh_status read_range(const subject *s, const json_t *value, mh_data_range *range)
{
    if (!json_is_array(value) || json_array_size(value) != 2)
        return wrong_type(s, "data_offsets", value, "a list of two integers");
    mh_status status = entry_read_size(s, "data_offsets", json_array_get(value, 0), &range->begin);
    if (status == MH_OK)
        status = entry_read_size(s, "data_offsets", json_array_get(value, 1), &range->end);
    return status;
}

static mh_status check_range(const subject *s, const mh_tensor *tensor, mh_data_range range,
                             size_t data_size)
{
    size_t needed = 0;
    char text[256];
    mh_shape_bytes(tensor->dtype, tensor->rank, tensor->shape, &needed);
    if (range.begin > range.end)
        return mh_source_fail(s->source, MH_ERROR_FORMAT,
                              "tensor %s: data begins at byte %zu and ends before it, at byte %zu",
                              mh_quote_string(s->name).text, range.begin, range.end);
    if (range.end > data_size)
        return mh_source_fail(s->source, MH_ERROR_FORMAT,
                              "tensor %s: data ends at byte %zu, but the file has only %zu data "
                              "bytes",
                              mh_quote_string(s->name).text, range.end, data_size);
    if (range.end - range.begin != needed)
        return mh_source_fail(s->source, MH_ERROR_FORMAT,
                              "tensor %s: %s needs %zu bytes, but data_offsets [%zu, %zu] hold %zu",
                              mh_quote_string(s->name).text,
                              mh_tensor_describe(tensor, text, sizeof text), needed, range.begin,
                              range.end, range.end - range.begin);
    return MH_OK;
}

mh_status mh_safetensors_entry(const mh_source *source, const char *name, const json_t *value,
                               size_t data_size, mh_tensor *tensor, mh_data_range *range)
{
    const subject s = {source, name};
    const json_t *dtype_value = json_object_get(value, "dtype");
    const json_t *shape = json_object_get(value, "shape");
    const json_t *offsets = json_object_get(value, "data_offsets");
    mh_dtype dtype = MH_F32;
    if (strlen(name) > MH_SAFETENSORS_NAME_MAX)
        return mh_source_fail(source, MH_ERROR_FORMAT,
                              "tensor %s: name of %zu bytes, expected at most %d",
                              mh_quote_string(name).text, strlen(name), MH_SAFETENSORS_NAME_MAX);
    if (!json_is_object(value))
        return mh_source_fail(source, MH_ERROR_FORMAT, "tensor %s: found %s, expected an object",
                              mh_quote_string(name).text, entry_kind_of(value));
    mh_status status = safetensors_entry_read_dtype(&s, dtype_value, &dtype);
    if (status == MH_OK)
        status = entry_read_shape(&s, shape, dtype, tensor);
    if (status == MH_OK)
        status = read_range(&s, offsets, range);
    if (status != MH_OK)
        return status;
    if (json_object_size(value) != 3)
        return mh_source_fail(source, MH_ERROR_FORMAT,
                              "tensor %s: %zu members, expected dtype, shape and data_offsets only",
                              mh_quote_string(name).text, json_object_size(value));
    return check_range(&s, tensor, *range, data_size);
}
