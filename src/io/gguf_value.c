// SPDX-License-Identifier: MIT
// Values of GGUF's metadata: extents are checked, then values are read where they are in the file.
#include "io/gguf.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/compiler.h"
#include "base/overflow.h"
#include "support/plain_numbers.h"

static const struct {
    const char *name, *plural;
    size_t size; // 0: varies
} types[MH_GGUF_TYPES] = {
    [MH_GGUF_U8] = {"a u8", "u8", 1},
    [MH_GGUF_I8] = {"an i8", "i8", 1},
    [MH_GGUF_U16] = {"a u16", "u16", 2},
    [MH_GGUF_I16] = {"an i16", "i16", 2},
    [MH_GGUF_U32] = {"a u32", "u32", 4},
    [MH_GGUF_I32] = {"an i32", "i32", 4},
    [MH_GGUF_F32] = {"an f32", "f32", 4},
    [MH_GGUF_BOOL] = {"a boolean", "booleans", 1},
    [MH_GGUF_STRING] = {"a string", "strings", 0},
    [MH_GGUF_ARRAY] = {"an array", "arrays", 0},
    [MH_GGUF_U64] = {"a u64", "u64", 8},
    [MH_GGUF_I64] = {"an i64", "i64", 8},
    [MH_GGUF_F64] = {"an f64", "f64", 8},
};

const char *mh_gguf_type_name(mh_gguf_type type) { return types[type].name; }

// ---- extents ------------------------------------------------------------------------------------

static mh_status take_bytes(mh_gguf_cursor *c, const char *what, uint64_t size,
                            const unsigned char **bytes)
{
    const size_t left = c->source->size - c->at;
    if (size > left)
        return mh_source_fail(c->source, MH_ERROR_FORMAT,
                              "%s: needs %llu bytes at byte %zu, but the file has only %zu more",
                              what, (unsigned long long)size, c->at, left);
    *bytes = c->source->bytes + c->at;
    c->at += (size_t)size;
    return MH_OK;
}

mh_status mh_gguf_take_u32(mh_gguf_cursor *c, const char *what, uint32_t *number)
{
    const unsigned char *bytes = NULL;
    MH_TRY(take_bytes(c, what, sizeof *number, &bytes));
    memcpy(number, bytes, sizeof *number);
    return MH_OK;
}

mh_status mh_gguf_take_u64(mh_gguf_cursor *c, const char *what, uint64_t *number)
{
    const unsigned char *bytes = NULL;
    MH_TRY(take_bytes(c, what, sizeof *number, &bytes));
    memcpy(number, bytes, sizeof *number);
    return MH_OK;
}

mh_status mh_gguf_take_string(mh_gguf_cursor *c, const char *what, mh_text *string)
{
    uint64_t size = 0;
    const unsigned char *bytes = NULL;
    MH_TRY(mh_gguf_take_u64(c, what, &size));
    const size_t begin = c->at;
    MH_TRY(take_bytes(c, what, size, &bytes));
    *string = (mh_text){(const char *)bytes, (size_t)size};
    const size_t valid = mh_utf8_valid(string->bytes, string->size);
    if (valid == string->size)
        return MH_OK;
    return mh_source_fail(c->source, MH_ERROR_FORMAT,
                          "%s: found %s, which is not UTF-8 from byte %zu of the file on", what,
                          mh_quote(string->bytes, string->size).text, begin + valid);
}

static mh_status take_type(mh_gguf_cursor *c, const char *what, mh_gguf_type *type)
{
    uint32_t number = 0;
    MH_TRY(mh_gguf_take_u32(c, what, &number));
    *type = (mh_gguf_type)number;
    if (number < MH_GGUF_TYPES)
        return MH_OK;
    return mh_source_fail(c->source, MH_ERROR_FORMAT, "%s: type %lu, expected 0 to %d", what,
                          (unsigned long)number, MH_GGUF_TYPES - 1);
}

static mh_status take_of_type(mh_gguf_cursor *c, const char *what, mh_gguf_type type, int depth,
                              mh_gguf_value *value);

// Every element takes at least a byte, so that the loop ends with the file.
static mh_status take_elements(mh_gguf_cursor *c, const char *what, mh_gguf_type of, uint64_t count,
                               int depth)
{
    mh_gguf_value element;
    const unsigned char *bytes;
    size_t size = 0;
    if (types[of].size) {
        if (count > SIZE_MAX || !mh_multiply_sizes((size_t)count, types[of].size, &size))
            size = SIZE_MAX;
        return take_bytes(c, what, size, &bytes);
    }
    for (uint64_t i = 0; i < count; i++)
        MH_TRY(take_of_type(c, what, of, depth, &element));
    return MH_OK;
}

static mh_status take_array(mh_gguf_cursor *c, const char *what, int depth, mh_gguf_value *value)
{
    uint64_t count = 0;
    if (depth > MH_GGUF_NESTING_MAX)
        return mh_source_fail(c->source, MH_ERROR_FORMAT, "%s: nesting deeper than %d levels", what,
                              MH_GGUF_NESTING_MAX);
    MH_TRY(take_type(c, what, &value->of));
    MH_TRY(mh_gguf_take_u64(c, what, &count));
    const size_t begin = c->at;
    MH_TRY(take_elements(c, what, value->of, count, depth + 1));
    value->count = (size_t)count;
    value->bytes = c->source->bytes + begin;
    value->size = c->at - begin;
    return MH_OK;
}

static mh_status take_of_type(mh_gguf_cursor *c, const char *what, mh_gguf_type type, int depth,
                              mh_gguf_value *value)
{
    mh_text string = {0};
    *value = (mh_gguf_value){.type = type};
    if (type == MH_GGUF_ARRAY)
        return take_array(c, what, depth, value);
    if (type != MH_GGUF_STRING) {
        value->size = types[type].size;
        return take_bytes(c, what, value->size, &value->bytes);
    }
    MH_TRY(mh_gguf_take_string(c, what, &string));
    value->bytes = (const unsigned char *)string.bytes;
    value->size = value->count = string.size;
    return MH_OK;
}

mh_status mh_gguf_take_value(mh_gguf_cursor *c, const char *what, mh_gguf_value *value)
{
    mh_gguf_type type = MH_GGUF_U8;
    MH_TRY(take_type(c, what, &type));
    return take_of_type(c, what, type, 1, value);
}

// ---- contents -----------------------------------------------------------------------------------

static uint64_t unsigned_at(const unsigned char *bytes, size_t size)
{
    uint64_t number = 0;
    for (size_t i = 0; i < size; i++)
        number |= (uint64_t)bytes[i] << 8 * i;
    return number;
}

bool mh_gguf_integer(const mh_gguf_value *value, int64_t *number)
{
    const uint64_t bits = unsigned_at(value->bytes, types[value->type].size);
    switch (value->type) {
    case MH_GGUF_U8:
    case MH_GGUF_U16:
    case MH_GGUF_U32:
    case MH_GGUF_U64:
        *number = (int64_t)bits;
        return bits <= INT64_MAX;
    case MH_GGUF_I8:
        *number = (int8_t)bits;
        return true;
    case MH_GGUF_I16:
        *number = (int16_t)bits;
        return true;
    case MH_GGUF_I32:
        *number = (int32_t)bits;
        return true;
    case MH_GGUF_I64:
        *number = (int64_t)bits;
        return true;
    default:
        return false;
    }
}

bool mh_gguf_number(const mh_gguf_value *value, double *number)
{
    int64_t integer = 0;
    float single;
    if (value->type == MH_GGUF_F32) {
        memcpy(&single, value->bytes, sizeof single);
        *number = (double)single;
        return true;
    }
    if (value->type == MH_GGUF_F64) {
        memcpy(number, value->bytes, sizeof *number);
        return true;
    }
    const bool whole = mh_gguf_integer(value, &integer);
    *number = (double)integer;
    return whole;
}

bool mh_gguf_string(const mh_gguf_value *value, mh_text *text)
{
    *text = (mh_text){(const char *)value->bytes, value->size};
    return value->type == MH_GGUF_STRING;
}

mh_gguf_value mh_gguf_element(const mh_gguf_value *array, size_t i)
{
    const size_t size = types[array->of].size;
    return (mh_gguf_value){.type = array->of, .bytes = array->bytes + i * size, .size = size};
}

mh_text mh_gguf_next_string(const mh_gguf_value *array, size_t *at)
{
    const size_t size = (size_t)unsigned_at(array->bytes + *at, 8);
    const mh_text text = {(const char *)array->bytes + *at + 8, size};
    *at += 8 + size;
    return text;
}

// ---- as text ------------------------------------------------------------------------------------

// A scalar that is not a string, in at most 32 bytes.
static void format_scalar(const mh_gguf_value *value, char text[32])
{
    int64_t integer;
    double number = 0;
    if (value->type == MH_GGUF_BOOL)
        snprintf(text, 32, "%s", value->bytes[0] ? "true" : "false");
    else if (mh_gguf_integer(value, &integer))
        snprintf(text, 32, "%lld", (long long)integer);
    else if (value->type == MH_GGUF_U64)
        snprintf(text, 32, "%llu", (unsigned long long)unsigned_at(value->bytes, 8));
    else if (mh_gguf_number(value, &number))
        snprintf(text, 32, "%.*g", value->type == MH_GGUF_F32 ? 7 : 15, number);
}

static void format_array(const mh_gguf_value *value, char text[MH_GGUF_TEXT_MAX])
{
    enum { SHOWN = 3 };
    char part[32];
    size_t used = 0;
    if (!types[value->of].size || value->count > SHOWN) {
        snprintf(text, MH_GGUF_TEXT_MAX, "%zu %s", value->count, types[value->of].plural);
        return;
    }
    for (size_t i = 0; i < value->count; i++) {
        const mh_gguf_value element = mh_gguf_element(value, i);
        format_scalar(&element, part);
        used +=
            (size_t)snprintf(text + used, MH_GGUF_TEXT_MAX - used, "%s%s", i ? ", " : "[", part);
    }
    snprintf(text + used, MH_GGUF_TEXT_MAX - used, value->count ? "]" : "[]");
}

size_t mh_gguf_format(const mh_gguf_value *value, char *text, size_t size)
{
    char own[MH_GGUF_TEXT_MAX] = "";
    const mh_plain_numbers saved = mh_plain_numbers_enter();
    if (value->type == MH_GGUF_ARRAY)
        format_array(value, own);
    else if (value->type != MH_GGUF_STRING)
        format_scalar(value, own);
    mh_plain_numbers_leave(saved);
    const bool string = value->type == MH_GGUF_STRING;
    const char *bytes = string ? (const char *)value->bytes : own;
    const size_t length = string ? value->size : strlen(own);
    if (size)
        memcpy(text, bytes, length < size ? length : size);
    if (length < size)
        text[length] = '\0';
    return length;
}
