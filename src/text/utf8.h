// SPDX-License-Identifier: MIT
// Characters of text that is known to be valid UTF-8, and the message for text that is not.
#ifndef MH_TEXT_UTF8_H
#define MH_TEXT_UTF8_H

#include <multihead/text.h>

// The code point at valid text; *length is 1 to 4.
static inline uint32_t mh_utf8_decode(const char *text, size_t *length)
{
    const unsigned char *b = (const unsigned char *)text;
    if (b[0] < 0x80) {
        *length = 1;
        return b[0];
    }
    if (b[0] < 0xE0) {
        *length = 2;
        return (b[0] & 0x1Fu) << 6 | (b[1] & 0x3Fu);
    }
    if (b[0] < 0xF0) {
        *length = 3;
        return (b[0] & 0x0Fu) << 12 | (b[1] & 0x3Fu) << 6 | (b[2] & 0x3Fu);
    }
    *length = 4;
    return (b[0] & 0x07u) << 18 | (b[1] & 0x3Fu) << 12 | (b[2] & 0x3Fu) << 6 | (b[3] & 0x3Fu);
}

// Writes a code point and returns its length.
static inline size_t mh_utf8_encode(uint32_t c, char *text)
{
    if (c < 0x80) {
        text[0] = (char)c;
        return 1;
    }
    size_t length = c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    for (size_t i = length - 1; i > 0; i--, c >>= 6)
        text[i] = (char)(0x80 | (c & 0x3F));
    text[0] = (char)((0xF00 >> length & 0xFF) | c);
    return length;
}

// MH_OK, or MH_ERROR_FORMAT with "byte N (0xNN) is not valid UTF-8".
mh_status mh_utf8_check(mh_context *context, const char *text, size_t size);

// Whether Python's str.split() splits here: Unicode's white space and the four separators.
bool mh_is_space(uint32_t c);

// Appends the text in lower case, as Python's str.lower().
bool mh_text_lowercase(mh_context *context, const char *text, size_t size, mh_buffer *out);

#endif
