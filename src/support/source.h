// SPDX-License-Identifier: MIT
// The bytes that a reader parses, and its error messages.
//
// Every message begins with the file's name. Content of the file goes into a message through
// mh_quote(): it may be megabytes long, or contain terminal control sequences.
#ifndef MH_SUPPORT_SOURCE_H
#define MH_SUPPORT_SOURCE_H

#include <multihead/base.h>

#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "tensors are read where they lie in the file, and the files are little-endian"
#endif

// Limits that hold for every format.
#define MH_HEADER_BYTES_MAX ((size_t)100 * 1000 * 1000)

typedef struct mh_source {
    mh_context *context;
    const char *name; // the path or a substitute
    const unsigned char *bytes;
    size_t size;
} mh_source;

// mh_fail() with "name: " in front. A long name is truncated at its beginning, so that the message
// is complete.
mh_status mh_source_fail(const mh_source *source, mh_status status, const char *format, ...)
    MH_PRINTF(3, 4);

typedef struct mh_quoted {
    char text[160];
} mh_quoted;

// The bytes in double quotes, truncated to fit, everything but printable ASCII as \xNN.
mh_quoted mh_quote(const char *bytes, size_t size);
mh_quoted mh_quote_string(const char *string);

#endif
