// SPDX-License-Identifier: MIT
// Distinct words and how often each was counted, in the order in which they came: a hash table of
// indices into one array, the bytes in one buffer.
#ifndef MH_SUPPORT_WORD_TABLE_H
#define MH_SUPPORT_WORD_TABLE_H

#include "support/buffer.h"

typedef struct mh_table_word {
    size_t begin; // in the table's bytes
    uint64_t count;
    uint32_t size;
} mh_table_word;

// {0} is an empty table.
typedef struct mh_word_table {
    mh_table_word *words; // (count)
    size_t count, capacity;
    mh_buffer bytes; // of all words
    uint32_t *slots; // index + 1; 0 is free
    size_t slot_count;
    uint64_t seed; // of the hash: nobody can choose words that collide
} mh_word_table;

// The index of a word, which is added with a count of 0 if it is not there.
mh_status mh_word_table_index(mh_context *context, mh_word_table *table, const char *word,
                              size_t size, size_t *index);

// How often a word was counted; 0 if it is not there.
uint64_t mh_word_table_occurrences(const mh_word_table *table, const char *word, size_t size);

void mh_word_table_free(mh_context *context, mh_word_table *table);

#endif
