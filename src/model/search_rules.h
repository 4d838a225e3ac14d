// SPDX-License-Identifier: MIT
// How a translation begins, goes on and ends: token ids that a model's files name.
#ifndef MH_MODEL_SEARCH_RULES_H
#define MH_MODEL_SEARCH_RULES_H

#include "model/token_rules.h"

enum { MH_EXCLUDED_MAX = 64, MH_TEMPLATE_MAX = 4 };

typedef struct mh_search_rules {
    int32_t start;     // the decoder's first input
    int32_t end;       // ends a translation
    int32_t pad;       // the decoder's input in rows that nobody reads
    int32_t first;     // -1; else every translation begins with this token, which is certain
    bool certain_end;  // at the maximum length the end is certain; else it is charged for
    bool renormalize;  // excluded tokens have no part in the probabilities
    bool transformers; // the search ends as that of Hugging Face's transformers (beam.h)
    size_t longest;    // tokens of a translation, the end included; 0: no limit
    int32_t excluded[MH_EXCLUDED_MAX]; // never chosen; the last is `end`, which is treated apart
    size_t excluded_count;
} mh_search_rules;

// Tokens that the encoder reads before and after those of a text.
typedef struct mh_source_template {
    int32_t before[MH_TEMPLATE_MAX], after[MH_TEMPLATE_MAX];
    size_t before_count, after_count;
} mh_source_template;

// The rules of a published encoder-decoder's translations. Errors: MH_ERROR_FORMAT (no start or no
// end), MH_ERROR_UNSUPPORTED (several ends, bad words of several tokens, too many tokens).
mh_status mh_search_rules_set(mh_context *context, const mh_token_rules *from,
                              mh_search_rules *rules);

// The rules of our own translators: sequences begin with <s> and end with </s>, which the encoder
// reads, too.
void mh_search_rules_own(const mh_tokenizer *tokenizer, mh_search_rules *rules,
                         mh_source_template *source);

// What a tokenizer adds to a text. Errors: MH_ERROR_UNSUPPORTED (more than MH_TEMPLATE_MAX tokens
// on a side), those of mh_tokenizer_encode_text.
mh_status mh_source_template_find(mh_context *context, const mh_tokenizer *tokenizer,
                                  mh_source_template *source);

#endif
