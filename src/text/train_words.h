// SPDX-License-Identifier: MIT
// The distinct words of a corpus and their counts: the only input of training.
#ifndef MH_TEXT_TRAIN_WORDS_H
#define MH_TEXT_TRAIN_WORDS_H

#include "support/buffer.h"
#include "support/grow.h"

// Longer words are split, so that no merge has to scan a megabyte.
enum { MH_TRAIN_WORD_MAX = 1024 };

typedef struct mh_train_word {
    size_t begin; // in `bytes`
    uint64_t count;
    uint32_t size;
} mh_train_word;

typedef struct mh_train_words {
    mh_train_word *words;
    size_t count, capacity;
    mh_buffer bytes;
    uint32_t *slots; // index + 1; 0 is free
    size_t slot_count;
} mh_train_words;

// Counts the words of one text, already in normal form.
mh_status mh_train_words_add(mh_context *context, mh_train_words *words, const char *text,
                             size_t size);
void mh_train_words_free(mh_context *context, mh_train_words *words);

#endif
