// SPDX-License-Identifier: MIT
// Tokens as text that may be shown: valid UTF-8, and on a terminal without what steers it.
#ifndef MH_VIEW_TOKEN_TEXT_H
#define MH_VIEW_TOKEN_TEXT_H

#include "view/bytes.h"

#include <jansson.h>

// Appends the text with U+FFFD for every byte that is not UTF-8.
void mh_append_utf8(mh_appender *to, const char *text);

// A JSON string or list of the tokens, repaired likewise; NULL (with a message) without memory.
json_t *mh_json_text(mh_context *context, const char *text);
json_t *mh_json_tokens(mh_context *context, mh_trace_tokens tokens);
json_t *mh_json_starts(mh_context *context, mh_trace_tokens tokens);

// JSON as text that must be freed with mh_bytes_free. Not json_dumps: jansson 2.14's may drop bytes
// when there is no memory, and go on.
mh_status mh_json_print(mh_context *context, const json_t *json, mh_bytes *text);

// The next character of *text for a terminal: its bytes (at most 4, and a 0) into `shown`, its
// columns (0 for a combining mark, 1, 2) as the result; -1 at the end. Controls and what is not
// UTF-8 become U+FFFD, a line break or tab a visible sign.
int mh_next_shown(const char **text, char shown[5]);

#endif
