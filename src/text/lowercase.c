// SPDX-License-Identifier: MIT
// Lower case as Python's str.lower(): one character each, except for Unicode's two
// language-independent special cases: I with a dot, and a sigma at a word's end.
#include "support/buffer.h"
#include "support/grow.h"
#include "text/utf8.h"

#include <utf8proc.h>

enum { SIGMA = 0x3A3, FINAL_SIGMA = 0x3C2, I_WITH_DOT = 0x130 };

static bool is_cased(uint32_t c)
{
    utf8proc_category_t category = utf8proc_category((int32_t)c);
    return category == UTF8PROC_CATEGORY_LU || category == UTF8PROC_CATEGORY_LL ||
           category == UTF8PROC_CATEGORY_LT;
}

// Marks, and word-internal punctuation.
static bool is_ignorable(uint32_t c)
{
    static const uint32_t points[] = {'\'',   '.',    ':',    0xB7,   0x387,  0x55F,
                                      0x5F4,  0x2018, 0x2019, 0x2024, 0x2027, 0xFE13,
                                      0xFE52, 0xFE55, 0xFF07, 0xFF0E, 0xFF1A};
    for (size_t i = 0; i < sizeof points / sizeof *points; i++)
        if (c == points[i])
            return true;
    utf8proc_category_t category = utf8proc_category((int32_t)c);
    return category == UTF8PROC_CATEGORY_MN || category == UTF8PROC_CATEGORY_ME ||
           category == UTF8PROC_CATEGORY_CF || category == UTF8PROC_CATEGORY_LM ||
           category == UTF8PROC_CATEGORY_SK;
}

static bool cased_before(const char *text, size_t at)
{
    while (at > 0) {
        size_t length;
        do
            at--;
        while (((unsigned char)text[at] & 0xC0) == 0x80);
        uint32_t c = mh_utf8_decode(text + at, &length);
        if (!is_ignorable(c))
            return is_cased(c);
    }
    return false;
}

static bool cased_after(const char *text, size_t size, size_t at)
{
    for (size_t length; at < size; at += length) {
        uint32_t c = mh_utf8_decode(text + at, &length);
        if (!is_ignorable(c))
            return is_cased(c);
    }
    return false;
}

bool mh_text_lowercase(mh_context *context, const char *text, size_t size, mh_buffer *out)
{
    for (size_t at = 0, length; at < size; at += length) {
        char bytes[8];
        uint32_t c = mh_utf8_decode(text + at, &length);
        size_t made;
        if (c == I_WITH_DOT) {
            memcpy(bytes, "i\xCC\x87", 3);
            made = 3;
        } else if (c == SIGMA && cased_before(text, at) && !cased_after(text, size, at + length)) {
            made = mh_utf8_encode(FINAL_SIGMA, bytes);
        } else {
            made = mh_utf8_encode((uint32_t)utf8proc_tolower((int32_t)c), bytes);
        }
        if (!mh_buffer_append(context, out, bytes, made))
            return false;
    }
    return true;
}
