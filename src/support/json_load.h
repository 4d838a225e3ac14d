// SPDX-License-Identifier: MIT
// JSON text to jansson's tree. jansson does the parsing: it rejects duplicate keys, bad UTF-8,
// \u0000 and integers beyond 64 bits. A scan of the text comes first, for two reasons:
//
// - jansson's tree takes up to 25 times the memory of the text, and time to build. The scan bounds
//   the nesting, and its counts let a reader reject what no valid file of its format has.
// - jansson 2.14 may ignore a failed allocation: when a string cannot grow, it may drop bytes and
//   continue. The scan sums the lengths of all strings, and the tree must have the same total.
//
// Inline, because jansson belongs to libmultihead-model and this directory to the engine.
#ifndef MH_SUPPORT_JSON_LOAD_H
#define MH_SUPPORT_JSON_LOAD_H

#include "support/source.h"

#include <jansson.h>
#include <string.h>

// ---- the scan -----------------------------------------------------------------------------------

typedef struct mh_json_scan {
    size_t members;      // of the outermost value: commas on the first level
    size_t values;       // brackets and commas
    size_t string_bytes; // of all strings once they are decoded
    bool real_if_large;  // set by the reader: with an integer beyond 64 bits, all become real
} mh_json_scan;

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

// The first byte after the string that begins at text[i]; `size` if it is not closed. Counts are
// undefined for invalid JSON: jansson will reject it.
static inline size_t mh_json_scan_string(const char *text, size_t size, size_t i, mh_json_scan *s)
{
    for (i++; i < size && text[i] != '"'; i++) {
        if (text[i] != '\\') {
            s->string_bytes++;
        } else if (++i < size && text[i] == 'u') {
            s->string_bytes += mh_json_decoded_length(text + i + 1, size - i - 1);
            i += 4;
        } else {
            s->string_bytes++;
        }
    }
    return i < size ? i + 1 : size;
}

// `what` begins a message and names the text, for example "header "; it may be empty.
static inline mh_status mh_json_scan_text(const mh_source *source, const char *what,
                                          const char *text, size_t size, size_t nesting,
                                          mh_json_scan *s)
{
    size_t depth = 0;
    for (size_t i = 0; i < size;) {
        char c = text[i];
        if (c == '"') {
            i = mh_json_scan_string(text, size, i, s);
            continue;
        }
        if (c == '{' || c == '[')
            depth++;
        else if ((c == '}' || c == ']') && depth > 0)
            depth--;
        if (depth > nesting)
            return mh_source_fail(source, MH_ERROR_FORMAT,
                                  "%sbyte %zu: nesting deeper than %zu level%s", what, i, nesting,
                                  nesting == 1 ? "" : "s");
        s->values += c == '{' || c == '[' || c == ',';
        s->members += c == ',' && depth == 1;
        i++;
    }
    return MH_OK;
}

// ---- the tree -----------------------------------------------------------------------------------

// Recursion is safe: the scan has bounded the nesting.
static inline size_t mh_json_string_bytes(json_t *value)
{
    const char *key;
    json_t *member;
    size_t total = json_string_length(value), i;
    json_object_foreach(value, key, member) { total += strlen(key) + mh_json_string_bytes(member); }
    json_array_foreach(value, i, member) { total += mh_json_string_bytes(member); }
    return total;
}

// Whether jansson ran out of memory, which it rarely reports as such. Most often the message is
// empty. If memory for a string fails, the message is "invalid token" at a string that was just
// read, or "string or ... expected".
static inline bool mh_json_out_of_memory(const json_error_t *error, const char *text, size_t size)
{
    size_t position = (size_t)error->position;
    if (json_error_code(error) == json_error_out_of_memory || error->text[0] == '\0')
        return true;
    return (strncmp(error->text, "string or", 9) == 0 ||
            strncmp(error->text, "invalid token", 13) == 0) &&
           position > 0 && position <= size && text[position - 1] == '"';
}

// The tree of a text that was scanned; release *root with json_decref.
static inline mh_status mh_json_load(const mh_source *source, const char *what, const char *text,
                                     size_t size, const mh_json_scan *s, json_t **root)
{
    json_error_t error = {0};
    *root = NULL;
    if (size == 0) // of which jansson says "wrong arguments"
        return mh_source_fail(source, MH_ERROR_FORMAT, "%sis empty, expected JSON", what);
    *root = json_loadb(text, size, JSON_REJECT_DUPLICATES, &error);
    if (*root == NULL && s->real_if_large && json_error_code(&error) == json_error_numeric_overflow)
        *root = json_loadb(text, size, JSON_REJECT_DUPLICATES | JSON_DECODE_INT_AS_REAL, &error);
    if (*root != NULL && mh_json_string_bytes(*root) == s->string_bytes)
        return MH_OK;
    bool damaged = *root != NULL;
    json_decref(*root);
    *root = NULL;
    if (damaged || mh_json_out_of_memory(&error, text, size))
        return mh_source_fail(source, MH_ERROR_MEMORY, "out of memory for JSON of %zu bytes", size);
    return mh_source_fail(source, MH_ERROR_FORMAT, "%sis not valid JSON: %s at byte %d", what,
                          mh_quote_string(error.text).text, error.position);
}

#endif
