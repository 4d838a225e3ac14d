// SPDX-License-Identifier: MIT
// Strings in JSON that is written.
#ifndef MH_SUPPORT_JSON_TEXT_H
#define MH_SUPPORT_JSON_TEXT_H

#include "support/buffer.h"

// The string, UTF-8, in quotes.
static inline void mh_json_text(mh_appender *to, const char *text)
{
    mh_append_string(to, "\"");
    for (; *text; text++)
        if ((unsigned char)*text < 0x20)
            mh_append_format(to, "\\u%04x", (unsigned)*text);
        else if (*text == '"' || *text == '\\')
            mh_append_format(to, "\\%c", *text);
        else
            mh_append(to, text, 1);
    mh_append_string(to, "\"");
}

#endif
