// SPDX-License-Identifier: MIT
// Buffers that grow by doubling; see buffer.h.
#include "support/buffer.h"
#include "support/grow.h"
#include "support/plain_numbers.h"
#include <stdarg.h>
#include <stdio.h>

bool mh_buffer_reserve(mh_context *context, mh_buffer *buffer, size_t size)
{
    size_t needed;
    if (!mh_add_sizes(size, 1, &needed))
        needed = SIZE_MAX; // mh_grow then fails with a message
    return mh_grow(context, &buffer->data, &buffer->capacity, needed, 1);
}

bool mh_buffer_append(mh_context *context, mh_buffer *buffer, const void *bytes, size_t size)
{
    size_t total;
    if (!mh_add_sizes(buffer->size, size, &total))
        total = SIZE_MAX;
    if (!mh_buffer_reserve(context, buffer, total))
        return false;
    if (size > 0)
        memcpy(buffer->data + buffer->size, bytes, size);
    buffer->size = total;
    buffer->data[total] = 0;
    return true;
}

void mh_append(mh_appender *to, const void *bytes, size_t size)
{
    if (!to->failed)
        to->failed = !mh_buffer_append(to->context, &to->buffer, bytes, size);
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
    const mh_plain_numbers saved = mh_plain_numbers_enter();
    vsnprintf(text, sizeof text, format, arguments);
    mh_plain_numbers_leave(saved);
    va_end(arguments);
    mh_append_string(to, text);
}

void mh_append_base64(mh_appender *to, const unsigned char *bytes, size_t size)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    // No overflow: both are in memory, in at most SIZE_MAX / 2 bytes each, and a third is added.
    const size_t total = to->buffer.size + (size / 3 + 1) * 4;
    if (to->failed || !mh_buffer_reserve(to->context, &to->buffer, total)) {
        to->failed = true;
        return;
    }
    char *at = to->buffer.data + to->buffer.size;
    for (size_t i = 0; i < size; i += 3) {
        size_t left = size - i;
        unsigned group = (unsigned)bytes[i] << 16 | (left > 1 ? (unsigned)bytes[i + 1] << 8 : 0) |
                         (left > 2 ? bytes[i + 2] : 0);
        *at++ = digits[group >> 18];
        *at++ = digits[group >> 12 & 63];
        *at++ = left > 1 ? digits[group >> 6 & 63] : '=';
        *at++ = left > 2 ? digits[group & 63] : '=';
    }
    to->buffer.size = (size_t)(at - to->buffer.data);
    *at = 0;
}

mh_status mh_append_finish(mh_appender *from, mh_status status, mh_buffer *to)
{
    if (status == MH_OK && from->failed)
        status = MH_ERROR_MEMORY;
    if (status == MH_OK)
        *to = from->buffer;
    else
        mh_buffer_free(from->context, &from->buffer);
    return status;
}
