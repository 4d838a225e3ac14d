// SPDX-License-Identifier: MIT
// Base64; see picture_base64.h. Four characters are three bytes; padding stands only at the end,
// and bits that are left over are 0.
#include "picture_base64.h"

#include <stdlib.h>
#include <string.h>

// The 6 bits of a character, -1 for anything else.
static int base64_value(char c)
{
    return c >= 'A' && c <= 'Z'   ? c - 'A'
           : c >= 'a' && c <= 'z' ? c - 'a' + 26
           : c >= '0' && c <= '9' ? c - '0' + 52
           : c == '+'             ? 62
           : c == '/'             ? 63
                                  : -1;
}

// Returns how many characters are valid, `size` if all are.
static size_t decode_digits(const char *text, size_t size, unsigned char *to)
{
    unsigned held = 0;
    int bits = 0;
    for (size_t i = 0; i < size; i++) {
        const int value = base64_value(text[i]);
        if (value < 0)
            return i;
        held = held << 6 | (unsigned)value;
        bits += 6;
        if (bits >= 8) {
            bits -= 8;
            *to++ = (unsigned char)(held >> bits & 0xFF);
        }
    }
    return bits && (held & ((1u << bits) - 1)) ? size - 1 : size;
}

int base64_decode(const char *text, size_t size, unsigned char **bytes, size_t *count,
                  size_t *position)
{
    size_t digits = size;
    while (digits > 0 && size - digits < 2 && text[digits - 1] == '=')
        digits--;
    *bytes = NULL;
    *count = digits / 4 * 3 + (digits % 4 ? digits % 4 - 1 : 0);
    *position = size;
    if (size % 4 != 0)
        return BASE64_INVALID;
    *bytes = malloc(*count + 1);
    if (!*bytes)
        return BASE64_MEMORY;
    *position = decode_digits(text, digits, *bytes);
    if (*position == digits)
        return BASE64_DONE;
    free(*bytes);
    *bytes = NULL;
    return BASE64_INVALID;
}

char *base64_encode(const void *bytes, size_t size)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const unsigned char *from = bytes;
    char *text = malloc((size + 2) / 3 * 4 + 1), *to = text;
    for (size_t i = 0; text && i < size; i += 3) {
        const unsigned second = i + 1 < size ? from[i + 1] : 0,
                       third = i + 2 < size ? from[i + 2] : 0;
        const unsigned bits = (unsigned)from[i] << 16 | second << 8 | third;
        *to++ = digits[bits >> 18];
        *to++ = digits[bits >> 12 & 63];
        *to++ = i + 1 < size ? digits[bits >> 6 & 63] : '=';
        *to++ = i + 2 < size ? digits[bits & 63] : '=';
    }
    if (text)
        *to = 0;
    return text;
}
