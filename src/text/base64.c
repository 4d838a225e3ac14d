// SPDX-License-Identifier: MIT
// Base64: four characters are three bytes; "=" pads the last group.
#include "text/base64.h"

#include "support/buffer.h"
#include "support/grow.h"

static int value_of(char c)
{
    if (c >= 'A' && c <= 'Z')
        return c - 'A';
    if (c >= 'a' && c <= 'z')
        return c - 'a' + 26;
    if (c >= '0' && c <= '9')
        return c - '0' + 52;
    return c == '+' ? 62 : c == '/' ? 63 : -1;
}

mh_status mh_base64_decode(mh_context *context, const char *text, size_t size, mh_buffer *out)
{
    size_t padding = 0;
    out->size = 0;
    if (size % 4 != 0)
        return mh_fail(context, MH_ERROR_FORMAT, "base64 of %zu characters, expected groups of 4",
                       size);
    while (padding < 2 && padding < size && text[size - 1 - padding] == '=')
        padding++;
    if (!mh_grow(context, &out->data, &out->capacity, size / 4 * 3 + 1, 1))
        return MH_ERROR_MEMORY;
    for (size_t at = 0; at < size; at += 4) {
        uint32_t group = 0;
        for (size_t i = at; i < at + 4; i++) {
            int value = i >= size - padding ? 0 : value_of(text[i]);
            if (value < 0) {
                out->size = 0;
                return mh_fail(context, MH_ERROR_FORMAT, "base64: character %zu is 0x%02x", i,
                               (unsigned char)text[i]);
            }
            group = group << 6 | (uint32_t)value;
        }
        for (int shift = 16; shift >= 0; shift -= 8)
            out->data[out->size++] = (char)(group >> shift & 0xFF);
    }
    out->size -= padding;
    return MH_OK;
}
