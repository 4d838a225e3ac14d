// SPDX-License-Identifier: MIT
// A text buffer that grows by doubling; see appender.h.
#include "support/appender.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/overflow.h"

enum { FIRST_CAPACITY = 4096 };

void mh_bytes_free(mh_context *context, mh_bytes *bytes)
{
    if (bytes == NULL)
        return;
    mh_free(context, bytes->data, bytes->capacity);
    *bytes = (mh_bytes){0};
}

// Reserves room for `size` more bytes and a terminating 0.
static bool appender_reserve(mh_appender *to, size_t size)
{
    mh_bytes *b = &to->bytes;
    size_t needed, capacity;
    if (to->failed)
        return false;
    if (!mh_add_sizes(b->size, size, &needed) || !mh_add_sizes(needed, 1, &needed) ||
        !mh_multiply_sizes(needed, 2, &capacity)) {
        mh_fail(to->context, MH_ERROR_MEMORY, "%zu bytes are too many to append", size);
        to->failed = true;
        return false;
    }
    if (needed <= b->capacity)
        return true;
    if (capacity < FIRST_CAPACITY)
        capacity = FIRST_CAPACITY;
    char *data = mh_alloc(to->context, capacity);
    if (data == NULL) {
        to->failed = true;
        return false;
    }
    if (b->size != 0)
        memcpy(data, b->data, b->size);
    mh_free(to->context, b->data, b->capacity);
    b->data = data;
    b->capacity = capacity;
    return true;
}

void mh_append(mh_appender *to, const void *bytes, size_t size)
{
    if (!appender_reserve(to, size))
        return;
    if (size != 0)
        memcpy(to->bytes.data + to->bytes.size, bytes, size);
    to->bytes.size += size;
    to->bytes.data[to->bytes.size] = 0;
}

void mh_append_string(mh_appender *to, const char *string)
{
    mh_append(to, string, strlen(string));
}

void mh_append_format(mh_appender *to, const char *format, ...)
{
    char text[256];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    mh_append_string(to, text);
}

void mh_append_base64(mh_appender *to, const unsigned char *bytes, size_t size)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    if (!appender_reserve(to,
                          (size / 3 + 1) * 4)) // size < 3/4 SIZE_MAX: the source is in memory too
        return;
    char *at = to->bytes.data + to->bytes.size;
    for (size_t i = 0; i < size; i += 3) {
        size_t left = size - i;
        unsigned group = (unsigned)bytes[i] << 16 | (left > 1 ? (unsigned)bytes[i + 1] << 8 : 0) |
                         (left > 2 ? bytes[i + 2] : 0);
        *at++ = digits[group >> 18];
        *at++ = digits[group >> 12 & 63];
        *at++ = left > 1 ? digits[group >> 6 & 63] : '=';
        *at++ = left > 2 ? digits[group & 63] : '=';
    }
    to->bytes.size = (size_t)(at - to->bytes.data);
    *at = 0;
}

mh_status mh_append_finish(mh_appender *from, mh_status status, mh_bytes *to)
{
    if (status == MH_OK && from->failed)
        status = MH_ERROR_MEMORY;
    if (status == MH_OK)
        *to = from->bytes;
    else
        mh_bytes_free(from->context, &from->bytes);
    return status;
}
