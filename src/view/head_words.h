// SPDX-License-Identifier: MIT
// Words of a file with their counts, and what the tokens of a trace are: special, punctuation, part
// of a word.
#ifndef MH_VIEW_HEAD_WORDS_H
#define MH_VIEW_HEAD_WORDS_H

#include "support/word_table.h"
#include <multihead/text.h>
#include <multihead/view.h>

typedef struct mh_head_words {
    mh_word_table table; // in lower case
    mh_buffer scratch;   // a text in lower case
} mh_head_words;

// Counts the words of a text.
mh_status mh_head_words_count(mh_context *context, mh_head_words *words, mh_text text);

// The largest count of a rare word: words up to it make up at most a quarter of all, or are those
// that occur once. 0 if there are no words.
uint64_t mh_head_words_rare(const mh_head_words *words);

void mh_head_words_free(mh_context *context, mh_head_words *words);

// A token of a trace.
typedef struct mh_head_token {
    bool special, punctuation, rare;
    int32_t position;    // of its word in the text, -1 if it is part of none
    int32_t word;        // equal for equal words of a list
    int32_t name;        // equal for equal tokens of a list
    int32_t row, column; // of a patch; -1, -1
} mh_head_token;

// What the tokens are, in `found` (the count of both lists together): first the `keys`, then the
// `queries`, which are numbered together. `rare` as mh_head_words_rare() returned it.
// *picture: all that are not special are patches.
mh_status mh_head_tokens_find(mh_context *context, mh_head_words *words, uint64_t rare,
                              const mh_trace_tokens *keys, const mh_trace_tokens *queries,
                              mh_head_token *found, bool *picture);

#endif
