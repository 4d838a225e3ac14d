// SPDX-License-Identifier: MIT
// Normalises text for a model. Pasted text has typographic apostrophes, quotes, dashes and spaces;
// to a model whose training data had none, each is three unseen bytes, and "L’homme" is
// mistranslated. Characters that the tokenizer has no token for are replaced by their plain
// relatives; those that it has learnt are kept.
#ifndef MH_TEXT_PLAIN_TEXT_H
#define MH_TEXT_PLAIN_TEXT_H

#include <multihead/text.h>

// Which characters of the table of relatives are foreign to a tokenizer, one bit each. Any thread.
uint64_t mh_plain_foreign(const mh_tokenizer *tokenizer);

// Replaces the contents of `out` by the text with plain relatives for foreign characters, and one
// space for every run of spaces, tabs and line breaks. Everything else is copied unchanged. Errors:
// MH_ERROR_FORMAT (not UTF-8), MH_ERROR_MEMORY.
mh_status mh_plain_text(mh_context *context, uint64_t foreign, const char *text, size_t size,
                        mh_buffer *out);

// The same, with the byte of the text that each byte of `out` comes from: from[0] to
// from[out->size], the last one being `size`; room for size + 1, and size below 2^32.
mh_status mh_plain_text_from(mh_context *context, uint64_t foreign, const char *text, size_t size,
                             mh_buffer *out, uint32_t *from);

#endif
