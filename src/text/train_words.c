// SPDX-License-Identifier: MIT
// Cuts texts into words, and counts them.
#include "text/train_words.h"

#include "text/words.h"

static mh_status count_word(mh_context *context, mh_word_table *w, const char *word, size_t size)
{
    size_t index;
    mh_status status = mh_word_table_index(context, w, word, size, &index);
    if (!status)
        w->words[index].count++;
    return status;
}

mh_status mh_train_words_add(mh_context *context, mh_word_table *w, const char *text, size_t size)
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
