// SPDX-License-Identifier: MIT
// Counting words: a hash table of indices into one array, the bytes in one buffer.
#include "text/train_words.h"
#include "support/buffer.h"

#include "text/words.h"

static size_t word_find_slot(const mh_train_words *w, const char *word, size_t size)
{
    size_t mask = w->slot_count - 1, slot = (size_t)mh_hash_bytes(0, word, size) & mask;
    for (; w->slots[slot] != 0; slot = (slot + 1) & mask) {
        const mh_train_word *found = &w->words[w->slots[slot] - 1];
        if (found->size == size && memcmp(w->bytes.data + found->begin, word, size) == 0)
            break;
    }
    return slot;
}

static bool word_widen(mh_context *context, mh_train_words *w)
{
    if (2 * (w->count + 1) <= w->slot_count)
        return true;
    uint32_t *slots = NULL;
    size_t size = 0;
    if (!mh_grow(context, &slots, &size, 2 * w->slot_count + 1, sizeof *slots))
        return false;
    memset(slots, 0, size * sizeof *slots);
    mh_shrink(context, &w->slots, &w->slot_count, sizeof *w->slots);
    w->slots = slots;
    w->slot_count = size;
    for (size_t i = 0; i < w->count; i++)
        slots[word_find_slot(w, w->bytes.data + w->words[i].begin, w->words[i].size)] =
            (uint32_t)i + 1;
    return true;
}

static mh_status count_word(mh_context *context, mh_train_words *w, const char *word, size_t size)
{
    if (!word_widen(context, w))
        return MH_ERROR_MEMORY;
    size_t slot = word_find_slot(w, word, size), begin = w->bytes.size;
    if (w->slots[slot] != 0) {
        w->words[w->slots[slot] - 1].count++;
        return MH_OK;
    }
    if (w->count >= UINT32_MAX - 1)
        return mh_fail(context, MH_ERROR_UNSUPPORTED, "train: more than %zu different words",
                       w->count);
    if (!mh_grow(context, &w->words, &w->capacity, w->count + 1, sizeof *w->words) ||
        !mh_buffer_append(context, &w->bytes, word, size))
        return MH_ERROR_MEMORY;
    w->words[w->count++] = (mh_train_word){begin, 1, (uint32_t)size};
    w->slots[slot] = (uint32_t)w->count;
    return MH_OK;
}

mh_status mh_train_words_add(mh_context *context, mh_train_words *w, const char *text, size_t size)
{
    mh_status status = MH_OK;
    while (size > 0 && status == MH_OK) {
        size_t length = mh_word_length(text, size);
        if (length > MH_TRAIN_WORD_MAX) {
            length = MH_TRAIN_WORD_MAX;
            while (((unsigned char)text[length] & 0xC0) == 0x80) // not within a character
                length--;
        }
        if (length > 1) // one byte has no neighbours
            status = count_word(context, w, text, length);
        text += length;
        size -= length;
    }
    return status;
}

void mh_train_words_free(mh_context *context, mh_train_words *w)
{
    mh_shrink(context, &w->words, &w->capacity, sizeof *w->words);
    mh_shrink(context, &w->slots, &w->slot_count, sizeof *w->slots);
    mh_buffer_free(context, &w->bytes);
}
