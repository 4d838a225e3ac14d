// SPDX-License-Identifier: MIT
// Base64 (RFC 4648, with padding), in which JSON carries the bytes of a picture.
#ifndef CLI_PICTURE_BASE64_H
#define CLI_PICTURE_BASE64_H

#include <stddef.h>

// The bytes of a text, in *bytes, to be freed; *position is where the text is invalid. Returns
// BASE64_DONE, BASE64_INVALID or BASE64_MEMORY.
enum { BASE64_DONE, BASE64_INVALID, BASE64_MEMORY };
int base64_decode(const char *text, size_t size, unsigned char **bytes, size_t *count,
                  size_t *position);

// The text of bytes, malloc()ed; NULL if out of memory.
char *base64_encode(const void *bytes, size_t size);

#endif
