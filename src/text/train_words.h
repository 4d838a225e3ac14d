// SPDX-License-Identifier: MIT
// The words of a corpus, counted: the only input of training.
#ifndef MH_TEXT_TRAIN_WORDS_H
#define MH_TEXT_TRAIN_WORDS_H

#include "support/word_table.h"

// Longer words are split, so that no merge has to scan a megabyte.
enum { MH_TRAIN_WORD_MAX = 1024 };

// Counts the words of one text, already in normal form.
mh_status mh_train_words_add(mh_context *context, mh_word_table *words, const char *text,
                             size_t size);

#endif
