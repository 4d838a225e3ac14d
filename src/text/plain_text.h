// SPDX-License-Identifier: MIT
// Text as a model can read it. What people paste has typographic apostrophes, quotes, dashes and
// blanks; a model whose training data had none takes each for three bytes that it has never seen,
// and "L’homme" becomes anything but a man. Characters that its tokenizer has no token for are
// written as their plain relatives; those that it has learnt stay.
#ifndef MH_TEXT_PLAIN_TEXT_H
#define MH_TEXT_PLAIN_TEXT_H

#include <multihead/text.h>

// Which characters of the table of relatives are foreign to a tokenizer, a bit each. Any thread.
uint64_t mh_plain_foreign(const mh_tokenizer *tokenizer);

// Replaces the contents of `out` by the text with plain relatives for foreign characters, and one
// blank for every tab or run of blanks. What is plain already stays as it is, to the byte; line
// ends do, too. Errors: MH_ERROR_FORMAT (not UTF-8), MH_ERROR_MEMORY.
mh_status mh_plain_text(mh_context *context, uint64_t foreign, const char *text, size_t size,
                        mh_text_buffer *out);

#endif
