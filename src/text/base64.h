// SPDX-License-Identifier: MIT
// Base64 text to bytes.
#ifndef MH_TEXT_BASE64_H
#define MH_TEXT_BASE64_H

#include <multihead/text.h>

// Replaces `out` by the bytes. MH_ERROR_FORMAT if the text is not base64 with padding.
mh_status mh_base64_decode(mh_context *context, const char *text, size_t size, mh_buffer *out);

#endif
