// SPDX-License-Identifier: MIT
// Normalizers: each reads one aligned text and writes another. A character that is written replaces
// the next one read, or is put in after it, and gets that one's range of the original text.
#ifndef MH_TEXT_TOKENIZER_FORMS_H
#define MH_TEXT_TOKENIZER_FORMS_H

#include "text/tokenizer.h"
#include "text/tokenizer_aligned.h"

// A character of a decomposition. change: 1, put in after the last one; 0, replaces the next one;
// -n, replaces the next one and removes n more.
typedef struct mh_form_point {
    int32_t point;
    int32_t change;
} mh_form_point;

typedef struct mh_form_scratch {
    mh_form_point *points, *sorted;
    size_t count, capacity, sorted_capacity;
} mh_form_scratch;

void mh_form_scratch_free(mh_context *context, mh_form_scratch *scratch);

// NFC, NFD, NFKC or NFKD of `in`, appended to `out`.
bool mh_unicode_form(mh_context *context, mh_normalizer_kind form, const mh_aligned *in,
                     mh_form_scratch *scratch, mh_aligned *out);

// SentencePiece's rules; `longest`: as SentencePiece applies them, else as tokenizers does.
bool mh_charsmap_apply(mh_context *context, const mh_tokenizer *t, bool longest,
                       const mh_aligned *in, mh_aligned *out);

// Reads the rules of a file: the size of the trie in bytes, the trie, the texts.
mh_status mh_charsmap_read(mh_context *context, mh_tokenizer *t, const unsigned char *bytes,
                           size_t size);

// All normalizers of a tokenizer: `text` is replaced, `spare` is overwritten. `first`: nothing of
// the original text is before it.
bool mh_normalize(mh_context *context, const mh_tokenizer *t, bool first, mh_form_scratch *scratch,
                  mh_aligned *text, mh_aligned *spare);

#endif
