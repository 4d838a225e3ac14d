// SPDX-License-Identifier: MIT
// A growing text. An append that runs out of memory sets `failed` and later ones do nothing, so
// that a writer checks once, at its end; the context then has the message.
#ifndef MH_SUPPORT_APPENDER_H
#define MH_SUPPORT_APPENDER_H

#include <multihead/view.h>

typedef struct mh_appender {
    mh_context *context;
    mh_bytes bytes;
    bool failed;
} mh_appender;

void mh_append(mh_appender *to, const void *bytes, size_t size);
void mh_append_string(mh_appender *to, const char *string);
void mh_append_format(mh_appender *to, const char *format, ...) MH_PRINTF(2, 3); // up to 255 bytes
void mh_append_base64(mh_appender *to, const unsigned char *bytes, size_t size);

// Hands the bytes over if status is MH_OK and nothing failed; frees them otherwise.
mh_status mh_append_finish(mh_appender *from, mh_status status, mh_bytes *to);

#endif
