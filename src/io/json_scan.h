// SPDX-License-Identifier: MIT
// How to notice that jansson 2.14 was out of memory, which it seldom says: it may drop bytes of a
// string and go on. Whoever adds up the strings' lengths in the text beforehand and in the tree
// afterwards sees it.
#ifndef MH_IO_JSON_SCAN_H
#define MH_IO_JSON_SCAN_H

#include <jansson.h>
#include <stdbool.h>
#include <string.h>

// The UTF-8 length of \uXXXX; half of it for each half of a surrogate pair.
static inline size_t mh_json_decoded_length(const char *digits, size_t left)
{
    unsigned code = 0;
    for (size_t i = 0; i < 4 && i < left; i++) {
        unsigned c = (unsigned char)digits[i] | 0x20; // to lower case
        code = code * 16 + (c <= '9' ? c - '0' : c - 'a' + 10);
    }
    return code < 0x80 ? 1 : code < 0x800 || (code >= 0xD800 && code < 0xE000) ? 2 : 3;
}

// The first byte after the string that begins at text[i]; `size` if it is not closed. Adds its
// length once it is decoded to *bytes. What is not JSON may be counted anyhow: jansson will
// refuse it.
static inline size_t mh_json_scan_string(const char *text, size_t size, size_t i, size_t *bytes)
{
    for (i++; i < size && text[i] != '"'; i++) {
        if (text[i] != '\\') {
            ++*bytes;
        } else if (++i < size && text[i] == 'u') {
            *bytes += mh_json_decoded_length(text + i + 1, size - i - 1);
            i += 4;
        } else {
            ++*bytes;
        }
    }
    return i < size ? i + 1 : size;
}

// Whether jansson failed for want of memory. Most often it says nothing then. If there is no
// memory for a string, it calls a string that it has just read an invalid token, or says that it
// would rather have one.
static inline bool mh_json_out_of_memory(const json_error_t *error, const char *text, size_t size)
{
    size_t position = (size_t)error->position;
    if (json_error_code(error) == json_error_out_of_memory || error->text[0] == '\0')
        return true;
    return (strncmp(error->text, "string or", 9) == 0 ||
            strncmp(error->text, "invalid token", 13) == 0) &&
           position > 0 && position <= size && text[position - 1] == '"';
}

#endif
