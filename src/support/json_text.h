// SPDX-License-Identifier: MIT
// Strings of JSON in an mh_appender.
#ifndef MH_SUPPORT_JSON_TEXT_H
#define MH_SUPPORT_JSON_TEXT_H

#include "support/buffer.h"

// The text, UTF-8, in quotes.
static inline void mh_append_json_bytes(mh_appender *to, const char *text, size_t size)
{
    mh_append_string(to, "\"");
    for (size_t i = 0; i < size; i++)
        if ((unsigned char)text[i] < 0x20)
            mh_append_format(to, "\\u%04x", (unsigned)text[i]);
        else if (text[i] == '"' || text[i] == '\\')
            mh_append_format(to, "\\%c", text[i]);
        else
            mh_append(to, text + i, 1);
    mh_append_string(to, "\"");
}

static inline void mh_append_json_string(mh_appender *to, const char *text)
{
    mh_append_json_bytes(to, text, strlen(text));
}

#endif
