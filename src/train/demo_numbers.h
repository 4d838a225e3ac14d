// SPDX-License-Identifier: MIT
// A built-in corpus: numbers in French and in English words, 0 .. 999,999. A small model learns it
// in minutes, and held-out numbers show whether it generalises.
//
//     271080   deux cent soixante et onze mille quatre-vingts
//              two hundred seventy-one thousand eighty
#ifndef MH_TRAIN_DEMO_NUMBERS_H
#define MH_TRAIN_DEMO_NUMBERS_H

#include "train/corpus.h"

enum {
    MH_NUMBERS = 1000000,  // 0 .. MH_NUMBERS - 1
    MH_NUMBERS_ALL = 1000, // those below are always in the training corpus
    MH_NUMBER_TEXT = 96,   // bytes that hold the longest, and a NUL
};

// Writes a number (< MH_NUMBERS) in words, in lower case: French with the hyphens of the spelling
// before 1990, English without "and". Any thread.
void mh_numbers_pair(uint32_t n, char french[MH_NUMBER_TEXT], char english[MH_NUMBER_TEXT]);

typedef struct mh_numbers_options {
    uint64_t seed;
    size_t training; // pairs to learn from: at least MH_NUMBERS_ALL
    size_t held_out; // pairs to test with, disjoint from training: at least 1
} mh_numbers_options;

// Builds both corpora, deterministically. One in eight of the numbers from 1,000 has four digits,
// two have five, the rest six, as long as there are any, so that all patterns are seen often
// enough. A pair's `line` is its number + 1. Errors, after which both are empty: MH_ERROR_ARGUMENT
// (sizes), MH_ERROR_MEMORY.
mh_status mh_numbers_corpora(mh_context *context, const mh_numbers_options *options,
                             mh_corpus *training, mh_corpus *held_out);

#endif
