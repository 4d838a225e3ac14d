// SPDX-License-Identifier: MIT
// Text processing shared by both scores: whitespace splitting, 13a tokenisation, checks.
#ifndef MH_TEXT_SCORE_TEXT_H
#define MH_TEXT_SCORE_TEXT_H

#include "support/buffer.h"
#include "support/grow.h"
#include <multihead/text.h>

// The next word at or after *at, between characters for which mh_is_space(); false at the end.
bool mh_next_word(const char *text, size_t size, size_t *at, mh_text *word);

// Replaces `text` by its tokens, separated by spaces; `spare` is scratch.
bool mh_tokenize_13a(mh_context *context, mh_buffer *text, mh_buffer *spare);

// The arguments of mh_bleu and mh_chrf; every text must be valid UTF-8.
mh_status mh_score_check(mh_context *context, const mh_text *hypotheses, const mh_text *references,
                         size_t count, size_t reference_count, const void *score);

#endif
