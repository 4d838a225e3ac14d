// SPDX-License-Identifier: MIT
// Building bytes and text in an mh_buffer; what is appended is followed by a 0.
#ifndef MH_SUPPORT_BUFFER_H
#define MH_SUPPORT_BUFFER_H

#include <multihead/base.h>

// Makes room for `size` bytes in all, and the 0 behind them; the contents are kept. False with a
// message, and nothing changed, if out of memory.
bool mh_buffer_reserve(mh_context *context, mh_buffer *buffer, size_t size);

// False as above.
bool mh_buffer_append(mh_context *context, mh_buffer *buffer, const void *bytes, size_t size);

// A writer that checks once, at its end: an append that runs out of memory sets `failed` and later
// ones do nothing; the context then has the message.
typedef struct mh_appender {
    mh_context *context;
    mh_buffer buffer;
    bool failed;
} mh_appender;

void mh_append(mh_appender *to, const void *bytes, size_t size);
void mh_append_string(mh_appender *to, const char *string);
void mh_append_format(mh_appender *to, const char *format, ...) MH_PRINTF(2, 3); // up to 255 bytes
void mh_append_base64(mh_appender *to, const unsigned char *bytes, size_t size);

// Hands the bytes over if status is MH_OK and nothing failed; frees them otherwise.
mh_status mh_append_finish(mh_appender *from, mh_status status, mh_buffer *to);

#endif
