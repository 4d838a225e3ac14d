// SPDX-License-Identifier: MIT
// Pairs of neighbouring symbols: their counts, the words they occur in, and the most frequent one.
//
//     slots -> pairs        (left, right), count, first occurrence
//     occurrences           word, next occurrence of the pair
//     heap  -> pairs        (count, pair), most frequent first, ties by the smaller (left, right)
//
// Counts change all the time, the heap only when a count has grown; an entry whose count is too
// high is pushed back with the right count when it reaches the top. Nothing depends on the order of
// the hash table or of the occurrences.
#ifndef MH_TEXT_TRAIN_PAIRS_H
#define MH_TEXT_TRAIN_PAIRS_H

#include "support/buffer.h"
#include "support/grow.h"

enum { MH_NO_OCCURRENCE = 0 }; // occurrences count from 1

typedef struct mh_train_pair {
    uint64_t key; // left << 32 | right
    uint64_t count;
    size_t first;  // occurrence
    bool grown;    // is in `touched`
    bool finished; // has been merged before, or must not be
} mh_train_pair;

typedef struct mh_train_occurrence {
    uint32_t word;
    size_t next;
} mh_train_occurrence;

typedef struct mh_train_entry {
    uint64_t count;
    size_t pair;
} mh_train_entry;

typedef struct mh_train_pairs {
    mh_train_pair *pairs;
    size_t count, capacity;
    size_t *slots; // index + 1; 0 is free
    size_t slot_count;
    mh_train_occurrence *occurrences; // [0] is not used
    size_t occurrence_count, occurrence_capacity;
    size_t unused; // free list of occurrences
    mh_train_entry *heap;
    size_t heap_count, heap_capacity;
    size_t *touched; // pairs that have grown since the last settle
    size_t touched_count, touched_capacity;
} mh_train_pairs;

// Adds `count` to the pair, in `word`; or subtracts it, from a known pair. False if out of memory.
bool mh_train_pairs_grow(mh_context *context, mh_train_pairs *p, uint64_t key, uint64_t count,
                         uint32_t word);
void mh_train_pairs_lessen(mh_train_pairs *p, uint64_t key, uint64_t count);

// Pushes the pairs that have grown onto the heap.
bool mh_train_pairs_settle(mh_context *context, mh_train_pairs *p);

// The most frequent pair, taken off the heap, or SIZE_MAX.
size_t mh_train_pairs_next(mh_train_pairs *p);

// Removes a pair that was merged everywhere.
void mh_train_pairs_finish(mh_train_pairs *p, size_t pair);

void mh_train_pairs_free(mh_context *context, mh_train_pairs *p);

#endif
