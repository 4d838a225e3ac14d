// SPDX-License-Identifier: MIT
// Messages about a file, safe to print and never truncated at the end: the context keeps 1024
// bytes, of which the file's name may take 300 and a quotation from the file 160.
#include "support/source.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { NAME_SHOWN = 300 };

mh_status mh_source_fail(const mh_source *source, mh_status status, const char *format, ...)
{
    char detail[640];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(detail, sizeof detail, format, arguments);
    va_end(arguments);

    size_t length = strlen(source->name);
    bool cut = length > NAME_SHOWN;
    const char *shown = source->name + (cut ? length - NAME_SHOWN : 0);
    return mh_fail(source->context, status, "%s%s: %s", cut ? "..." : "", shown, detail);
}

mh_quoted mh_quote(const char *bytes, size_t size)
{
    mh_quoted quoted;
    const size_t room = sizeof quoted.text - sizeof "\\xNN...\"";
    size_t used = 0, i = 0;
    quoted.text[used++] = '"';
    for (; i < size && used < room; i++) {
        unsigned char byte = (unsigned char)bytes[i];
        if (byte >= 0x20 && byte < 0x7F)
            quoted.text[used++] = (char)byte;
        else
            used += (size_t)snprintf(quoted.text + used, sizeof "\\xNN", "\\x%02x", byte);
    }
    snprintf(quoted.text + used, sizeof quoted.text - used, "%s\"", i < size ? "..." : "");
    return quoted;
}

mh_quoted mh_quote_string(const char *string) { return mh_quote(string, strlen(string)); }
