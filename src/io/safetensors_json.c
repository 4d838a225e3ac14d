// SPDX-License-Identifier: MIT
// The text of a safetensors header to JSON. jansson does the parsing: it refuses duplicate keys,
// bad UTF-8, \u0000 and integers beyond 64 bits. A scan of the text comes first, for two reasons:
//
// - jansson's tree takes up to 25 times the text and its time. The scan refuses what no header has:
//   more than three levels of nesting, or more values than its number of tensors needs.
// - jansson 2.14 is not honest about memory: when there is none for a longer string, it may drop
//   bytes and go on. The scan adds up the length of all strings, and the tree must have as much.
#include "io/safetensors_json.h"

#include <string.h>

#include "io/safetensors.h"

enum {
    NESTING_MAX = 3, // header, tensor, shape
    // brackets and commas of a tensor: 3 brackets, 2 commas between its members, 7 between eight
    // dimensions, 1 between two offsets, 1 after it
    VALUES_PER_TENSOR = 14,
    MEMBERS_MAX = MH_SAFETENSORS_TENSORS_MAX + 1, // and the metadata
};

// ---- the scan -----------------------------------------------------------------------

typedef struct scan {
    size_t members;      // of the header: commas on the first level
    size_t values;       // brackets and commas
    size_t string_bytes; // of all strings once they are decoded
} scan;

// The UTF-8 length of \uXXXX; half of it for each half of a surrogate pair.
static size_t decoded_length(const char *digits, size_t left)
{
    unsigned code = 0;
    for (size_t i = 0; i < 4 && i < left; i++) {
        unsigned c = (unsigned char)digits[i] | 0x20; // to lower case
        code = code * 16 + (c <= '9' ? c - '0' : c - 'a' + 10);
    }
    return code < 0x80 ? 1 : code < 0x800 || (code >= 0xD800 && code < 0xE000) ? 2 : 3;
}

// The first byte after the string that begins at text[i]; `size` if it is not closed. What is
// not JSON may be counted anyhow: jansson will refuse it.
static size_t scan_string(const char *text, size_t size, size_t i, scan *s)
{
    for (i++; i < size && text[i] != '"'; i++) {
        if (text[i] != '\\') {
            s->string_bytes++;
        } else if (++i < size && text[i] == 'u') {
            s->string_bytes += decoded_length(text + i + 1, size - i - 1);
            i += 4;
        } else {
            s->string_bytes++;
        }
    }
    return i < size ? i + 1 : size;
}

static mh_status scan_text(const mh_source *source, const char *text, size_t size, scan *s)
{
    size_t depth = 0;
    for (size_t i = 0; i < size;) {
        char c = text[i];
        if (c == '"') {
            i = scan_string(text, size, i, s);
            continue;
        }
        if (c == '{' || c == '[')
            depth++;
        else if ((c == '}' || c == ']') && depth > 0)
            depth--;
        if (depth > NESTING_MAX)
            return mh_source_fail(source, MH_ERROR_FORMAT,
                                  "header byte %zu: nesting deeper than %d levels", i, NESTING_MAX);
        s->values += c == '{' || c == '[' || c == ',';
        s->members += c == ',' && depth == 1;
        i++;
    }
    return MH_OK;
}

static mh_status check_limits(const mh_source *source, const scan *s)
{
    size_t members = s->members + 1;
    if (members > MEMBERS_MAX)
        return mh_source_fail(source, MH_ERROR_FORMAT,
                              "header of %zu members, expected at most %d tensors", members,
                              MH_SAFETENSORS_TENSORS_MAX);
    if (s->values > members * VALUES_PER_TENSOR + MH_SAFETENSORS_METADATA_MAX)
        return mh_source_fail(source, MH_ERROR_FORMAT,
                              "header of %zu values, too many for %zu tensors with %d metadata "
                              "pairs",
                              s->values, members, MH_SAFETENSORS_METADATA_MAX);
    return MH_OK;
}

// ---- the tree -----------------------------------------------------------------------

// Recursion is safe: the scan has bounded the nesting.
static size_t string_bytes(json_t *value)
{
    const char *key;
    json_t *member;
    size_t total = json_string_length(value), i;
    json_object_foreach(value, key, member) { total += strlen(key) + string_bytes(member); }
    json_array_foreach(value, i, member) { total += string_bytes(member); }
    return total;
}

// Whether jansson failed for want of memory, which it seldom says. Most often it says nothing. If
// there is no memory for a string, it calls a string that it has just read an invalid token, or
// says that it would rather have one.
static bool is_out_of_memory(const json_error_t *error, const char *text, size_t size)
{
    size_t position = (size_t)error->position;
    if (json_error_code(error) == json_error_out_of_memory || error->text[0] == '\0')
        return true;
    return (strncmp(error->text, "string or", 9) == 0 ||
            strncmp(error->text, "invalid token", 13) == 0) &&
           position > 0 && position <= size && text[position - 1] == '"';
}

mh_status mh_safetensors_load(const mh_source *source, const char *text, size_t size, json_t **root)
{
    json_error_t error = {0};
    scan s = {0};
    mh_status status = scan_text(source, text, size, &s);
    if (status == MH_OK)
        status = check_limits(source, &s);
    if (status != MH_OK)
        return status;
    *root = json_loadb(text, size, JSON_REJECT_DUPLICATES, &error);
    if (*root != NULL && string_bytes(*root) == s.string_bytes)
        return MH_OK;
    bool damaged = *root != NULL;
    json_decref(*root);
    *root = NULL;
    if (damaged || is_out_of_memory(&error, text, size))
        return mh_source_fail(source, MH_ERROR_MEMORY, "no memory for a header of %zu bytes", size);
    return mh_source_fail(source, MH_ERROR_FORMAT, "header is not valid JSON: %s at byte %d",
                          mh_quote_string(error.text).text, error.position);
}
