// SPDX-License-Identifier: MIT
// Valid UTF-8 as Unicode defines it (table 3-7 of the standard): for each first byte the number of
// bytes that follow and the range of the first of these.
#include "text/utf8.h"

#include "base/argument_check.h"
#include "support/buffer.h"
#include "support/grow.h"

typedef struct sequence {
    size_t length; // 0: not a first byte
    unsigned char low, high;
} sequence;

static sequence sequence_of(unsigned char first)
{
    if (first < 0x80)
        return (sequence){1, 0, 0};
    if (first < 0xC2 || first > 0xF4)
        return (sequence){0, 0, 0};
    if (first < 0xE0)
        return (sequence){2, 0x80, 0xBF};
    if (first < 0xF0)
        return (sequence){3, first == 0xE0 ? 0xA0 : 0x80, first == 0xED ? 0x9F : 0xBF};
    return (sequence){4, first == 0xF0 ? 0x90 : 0x80, first == 0xF4 ? 0x8F : 0xBF};
}

// The bytes at `b` that belong to one character; *whole: whether it is complete. At least 1 if
// there is a byte.
static size_t take_character(const unsigned char *b, size_t size, bool *whole)
{
    sequence s = sequence_of(b[0]);
    *whole = s.length == 1;
    if (s.length <= 1 || size < 2 || b[1] < s.low || b[1] > s.high)
        return 1;
    size_t length = 2;
    while (length < s.length && length < size && (b[length] & 0xC0) == 0x80)
        length++;
    *whole = length == s.length;
    return length;
}

size_t mh_utf8_valid(const char *bytes, size_t size)
{
    const unsigned char *b = (const unsigned char *)bytes;
    size_t at = 0;
    while (at < size) {
        uint64_t eight;
        if (size - at >= sizeof eight) {
            memcpy(&eight, b + at, sizeof eight);
            if ((eight & UINT64_C(0x8080808080808080)) == 0) {
                at += sizeof eight;
                continue;
            }
        }
        bool whole;
        size_t length = take_character(b + at, size - at, &whole);
        if (!whole)
            return at;
        at += length;
    }
    return size;
}

mh_status mh_utf8_check(mh_context *context, const char *text, size_t size)
{
    size_t valid = mh_utf8_valid(text, size);
    if (valid == size)
        return MH_OK;
    return mh_fail(context, MH_ERROR_FORMAT, "byte %zu (0x%02x) is not valid UTF-8", valid,
                   (unsigned char)text[valid]);
}

mh_status mh_utf8_repair(mh_context *context, const char *bytes, size_t size, mh_buffer *out)
{
    if (MH_NEED(context, {"out", out}, {"bytes", mh_array(bytes, size)}))
        return MH_ERROR_ARGUMENT;
    out->size = 0;
    for (;;) {
        size_t valid = mh_utf8_valid(bytes, size);
        if (!mh_buffer_append(context, out, bytes, valid))
            return MH_ERROR_MEMORY;
        if (valid == size)
            return MH_OK;
        bool whole;
        bytes += valid;
        size -= valid;
        size_t broken = take_character((const unsigned char *)bytes, size, &whole);
        if (!mh_buffer_append(context, out, "\xEF\xBF\xBD", 3))
            return MH_ERROR_MEMORY;
        bytes += broken;
        size -= broken;
    }
}

bool mh_is_space(uint32_t c)
{
    if (c < 0x80)
        return (c >= 0x09 && c <= 0x0D) || (c >= 0x1C && c <= 0x20);
    return c == 0x85 || c == 0xA0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200A) || c == 0x2028 ||
           c == 0x2029 || c == 0x202F || c == 0x205F || c == 0x3000;
}
