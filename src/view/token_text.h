// SPDX-License-Identifier: MIT
// Tokens as displayable text: valid UTF-8, and for a terminal without control characters.
#ifndef MH_VIEW_TOKEN_TEXT_H
#define MH_VIEW_TOKEN_TEXT_H

#include "support/buffer.h"
#include <multihead/view.h>

#include <jansson.h>

// The bytes of the mark that stands for a space at the beginning of a token, U+2581 or GPT-2's
// U+0120; 0 if there is none.
size_t mh_token_mark(const char *token);

// Appends the text with U+FFFD for every byte that is not UTF-8.
void mh_append_utf8(mh_appender *to, const char *text);

// A JSON string or list of the tokens, repaired likewise; NULL (with a message) if out of memory.
json_t *mh_json_text(mh_context *context, const char *text);
json_t *mh_json_tokens(mh_context *context, mh_trace_tokens tokens);
json_t *mh_json_starts(mh_context *context, mh_trace_tokens tokens);

// JSON as text that must be freed with mh_buffer_free. Not json_dumps: jansson 2.14's may silently
// drop bytes when out of memory.
mh_status mh_json_print(mh_context *context, const json_t *json, mh_buffer *text);

// The next character of *text for a terminal: its bytes (at most 4, and a 0) into `shown`, its
// columns (0 for a combining mark, 1, 2) as the result; -1 at the end. Control characters and
// invalid UTF-8 become U+FFFD, a line break or tab a visible symbol.
int mh_next_shown(const char **text, char shown[5]);

#endif
