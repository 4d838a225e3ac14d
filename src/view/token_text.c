// SPDX-License-Identifier: MIT
// Tokens as text; see token_text.h. A byte-level tokenizer may split characters, so invalid UTF-8
// is common; and tokens are untrusted, so they may hold escape sequences.
#include "view/token_text.h"

#include <string.h>
#include <utf8proc.h>

static const char replacement[] = "\xEF\xBF\xBD"; // U+FFFD

// The length of the valid UTF-8 sequence at text, 0 if there is none; its code point.
static size_t token_decode(const char *text, utf8proc_int32_t *code)
{
    utf8proc_ssize_t length =
        utf8proc_iterate((const utf8proc_uint8_t *)text, (utf8proc_ssize_t)strnlen(text, 4), code);
    return length > 0 ? (size_t)length : 0;
}

size_t mh_token_mark(const char *token)
{
    static const char *const marks[] = {"\xE2\x96\x81", "\xC4\xA0"};
    for (size_t i = 0; i < sizeof marks / sizeof *marks; i++)
        if (strncmp(token, marks[i], strlen(marks[i])) == 0)
            return strlen(marks[i]);
    return 0;
}

void mh_append_utf8(mh_appender *to, const char *text)
{
    utf8proc_int32_t code;
    while (*text) {
        size_t length = token_decode(text, &code);
        if (length != 0)
            mh_append(to, text, length);
        else
            mh_append_string(to, replacement);
        text += length ? length : 1;
    }
}

json_t *mh_json_text(mh_context *context, const char *text)
{
    mh_appender buffer = {.context = context};
    mh_append_utf8(&buffer, text);
    json_t *string =
        buffer.failed ? NULL : json_string(buffer.buffer.data ? buffer.buffer.data : "");
    if (string == NULL)
        mh_fail(context, MH_ERROR_MEMORY, "out of memory for a text of %zu bytes", strlen(text));
    mh_buffer_free(context, &buffer.buffer);
    return string;
}

json_t *mh_json_tokens(mh_context *context, mh_trace_tokens tokens)
{
    json_t *list = json_array();
    for (size_t i = 0; list != NULL && i < tokens.count; i++)
        if (json_array_append_new(list, mh_json_text(context, tokens.text[i])) != 0) {
            json_decref(list);
            list = NULL;
        }
    if (list == NULL)
        mh_fail(context, MH_ERROR_MEMORY, "out of memory for %zu tokens", tokens.count);
    return list;
}

json_t *mh_json_starts(mh_context *context, mh_trace_tokens tokens)
{
    json_t *list = json_array();
    for (size_t i = 0; list != NULL && i < tokens.count; i++)
        if (json_array_append_new(list, json_boolean(tokens.word_start[i])) != 0) {
            json_decref(list);
            list = NULL;
        }
    if (list == NULL)
        mh_fail(context, MH_ERROR_MEMORY, "out of memory for %zu tokens", tokens.count);
    return list;
}

mh_status mh_json_print(mh_context *context, const json_t *json, mh_buffer *text)
{
    const size_t flags = JSON_COMPACT | JSON_ENSURE_ASCII;
    size_t size = json_dumpb(json, NULL, 0, flags);
    *text = (mh_buffer){.size = size, .capacity = size + 1};
    if (size != 0 && (text->data = mh_alloc(context, text->capacity)) == NULL)
        return MH_ERROR_MEMORY;
    if (size != 0 && json_dumpb(json, text->data, size, flags) == size) {
        text->data[size] = 0;
        return MH_OK;
    }
    mh_buffer_free(context, text);
    return mh_fail(context, MH_ERROR_MEMORY, "out of memory for JSON of %zu bytes", size);
}

// The replacement of a character that must not reach a terminal; NULL if it may.
static const char *stand_in(utf8proc_int32_t code)
{
    if (code == '\n')
        return "\xE2\x86\xB5"; // a return arrow
    if (code == '\t')
        return "\xE2\x86\x92"; // an arrow to the right
    switch (utf8proc_category(code)) {
    case UTF8PROC_CATEGORY_CC: // controls
    case UTF8PROC_CATEGORY_CF: // formats, including bidirectional overrides
    case UTF8PROC_CATEGORY_CN: // not assigned
    case UTF8PROC_CATEGORY_CS:
    case UTF8PROC_CATEGORY_CO:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
        return replacement;
    default:
        return NULL;
    }
}

int mh_next_shown(const char **text, char shown[5])
{
    utf8proc_int32_t code = 0;
    if (!**text)
        return -1;
    size_t length = token_decode(*text, &code);
    const char *instead = length == 0 ? replacement : stand_in(code);
    if (instead != NULL)
        memcpy(shown, instead, 4);
    else
        memcpy(shown, *text, length);
    if (instead == NULL)
        shown[length] = 0;
    *text += length ? length : 1;
    return instead != NULL ? 1 : utf8proc_charwidth(code);
}
