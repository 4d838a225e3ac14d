// SPDX-License-Identifier: MIT
// Counts of n-grams as a tree: a node is a sequence of symbols, its child one symbol longer.
//
//     root --t--> t --h--> th --e--> the        node number = the sequence, exactly
//
// The same tree assigns word ids (symbols are characters) and counts n-grams of words (symbols are
// those ids) or of characters.
#ifndef MH_TEXT_NGRAMS_H
#define MH_TEXT_NGRAMS_H

#include "support/buffer.h"
#include "support/grow.h"

typedef struct mh_ngram {
    uint64_t key; // parent << 32 | symbol
    uint32_t order;
    uint32_t hypothesis; // count in the hypothesis
    uint32_t reference;  // in the reference that is being counted
    uint32_t most;       // in any one reference
} mh_ngram;

typedef struct mh_ngrams {
    mh_context *context;
    mh_ngram *nodes; // [0] is the root
    size_t count, capacity;
    uint32_t *slots; // node; 0 is free
    size_t slot_count;
} mh_ngrams;

// Empties it, keeping the memory. Also initialises one that is all zeros except its context. False
// if out of memory, as below.
bool mh_ngrams_reset(mh_ngrams *g);
void mh_ngrams_free(mh_ngrams *g);

// Counts the n-grams of 1 .. order of a sequence, as the hypothesis's or the reference's.
bool mh_ngrams_count(mh_ngrams *g, const uint32_t *symbols, size_t count, uint32_t order,
                     bool is_hypothesis);

// The symbols of one text.
typedef struct mh_symbols {
    uint32_t *items;
    size_t count, capacity;
} mh_symbols;

bool mh_symbols_add(mh_context *context, mh_symbols *s, uint32_t symbol);

// Appends the id of the word `bytes` in the tree `words`.
bool mh_symbols_add_word(mh_ngrams *words, const char *bytes, size_t size, mh_symbols *s);

#endif
