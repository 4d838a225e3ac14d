// SPDX-License-Identifier: MIT
// Open addressing with linear probing, at most half full; see word_table.h.
#include "support/word_table.h"

#include <string.h>

#include "support/entropy.h"
#include "support/grow.h"

static size_t word_table_slot(const mh_word_table *t, const char *word, size_t size)
{
    const size_t mask = t->slot_count - 1;
    size_t slot = (size_t)mh_hash_bytes(t->seed, word, size) & mask;
    for (; t->slots[slot] != 0; slot = (slot + 1) & mask) {
        const mh_table_word *found = &t->words[t->slots[slot] - 1];
        if (found->size == size && memcmp(t->bytes.data + found->begin, word, size) == 0)
            break;
    }
    return slot;
}

// Makes room for one more word.
static bool word_table_widen(mh_context *context, mh_word_table *t)
{
    uint32_t *slots = NULL;
    size_t size = 0;
    if (2 * (t->count + 1) <= t->slot_count)
        return true;
    if (t->slot_count == 0)
        t->seed = mh_entropy();
    if (!mh_grow(context, &slots, &size, 2 * t->slot_count + 1, sizeof *slots))
        return false;
    memset(slots, 0, size * sizeof *slots);
    mh_shrink(context, &t->slots, &t->slot_count, sizeof *t->slots);
    t->slots = slots;
    t->slot_count = size;
    for (size_t i = 0; i < t->count; i++) {
        const mh_table_word *word = &t->words[i];
        slots[word_table_slot(t, t->bytes.data + word->begin, word->size)] = (uint32_t)i + 1;
    }
    return true;
}

mh_status mh_word_table_index(mh_context *context, mh_word_table *t, const char *word, size_t size,
                              size_t *index)
{
    if (!word_table_widen(context, t))
        return MH_ERROR_MEMORY;
    const size_t slot = word_table_slot(t, word, size), begin = t->bytes.size;
    if (t->slots[slot] == 0) {
        if (t->count >= UINT32_MAX - 1)
            return mh_fail(context, MH_ERROR_UNSUPPORTED, "more than %zu different words",
                           t->count);
        if (!mh_grow(context, &t->words, &t->capacity, t->count + 1, sizeof *t->words) ||
            !mh_buffer_append(context, &t->bytes, word, size))
            return MH_ERROR_MEMORY;
        t->words[t->count++] = (mh_table_word){begin, 0, (uint32_t)size};
        t->slots[slot] = (uint32_t)t->count;
    }
    *index = t->slots[slot] - 1;
    return MH_OK;
}

uint64_t mh_word_table_occurrences(const mh_word_table *t, const char *word, size_t size)
{
    if (t->slot_count == 0)
        return 0;
    const uint32_t found = t->slots[word_table_slot(t, word, size)];
    return found ? t->words[found - 1].count : 0;
}

void mh_word_table_free(mh_context *context, mh_word_table *t)
{
    mh_shrink(context, &t->words, &t->capacity, sizeof *t->words);
    mh_shrink(context, &t->slots, &t->slot_count, sizeof *t->slots);
    mh_buffer_free(context, &t->bytes);
}
