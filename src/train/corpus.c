// SPDX-License-Identifier: MIT
// A corpus is one text: its name, then source and target of each pair. The text moves while it
// grows, so pairs are offsets until the end, then pointers.
#include "train/corpus.h"

#include "support/buffer.h"
#include "support/grow.h"

mh_status mh_corpus_begin(mh_context *context, const char *name, mh_corpus *corpus)
{
    *corpus = (mh_corpus){0};
    return mh_buffer_append(context, &corpus->text, name, strlen(name) + 1) ? MH_OK
                                                                            : MH_ERROR_MEMORY;
}

mh_status mh_corpus_add(mh_context *context, mh_corpus *corpus, mh_text source, mh_text target,
                        size_t line)
{
    if (!mh_grow(context, &corpus->entries, &corpus->entries_capacity, corpus->count + 1,
                 sizeof *corpus->entries))
        return MH_ERROR_MEMORY;
    mh_corpus_entry entry = {.begin = corpus->text.size, .line = line};
    if (!mh_buffer_append(context, &corpus->text, source.bytes, source.size))
        return MH_ERROR_MEMORY;
    entry.middle = corpus->text.size;
    if (!mh_buffer_append(context, &corpus->text, target.bytes, target.size))
        return MH_ERROR_MEMORY;
    entry.end = corpus->text.size;
    corpus->entries[corpus->count++] = entry;
    return MH_OK;
}

mh_status mh_corpus_end(mh_context *context, mh_corpus *corpus)
{
    size_t count = corpus->count; // of entries, which are larger than the final arrays
    corpus->name = corpus->text.data;
    corpus->capacity = count;
    if (count > 0) {
        corpus->sources = mh_alloc(context, count * sizeof *corpus->sources);
        corpus->targets = mh_alloc(context, count * sizeof *corpus->targets);
        corpus->lines = mh_alloc(context, count * sizeof *corpus->lines);
        if (!corpus->sources || !corpus->targets || !corpus->lines)
            return MH_ERROR_MEMORY;
    }
    for (size_t i = 0; i < count; i++) {
        mh_corpus_entry entry = corpus->entries[i];
        const char *text = corpus->text.data;
        corpus->sources[i] = (mh_text){text + entry.begin, entry.middle - entry.begin};
        corpus->targets[i] = (mh_text){text + entry.middle, entry.end - entry.middle};
        corpus->lines[i] = entry.line;
    }
    mh_shrink(context, &corpus->entries, &corpus->entries_capacity, sizeof *corpus->entries);
    return MH_OK;
}

void mh_corpus_free(mh_context *context, mh_corpus *corpus)
{
    mh_free(context, corpus->sources, corpus->capacity * sizeof *corpus->sources);
    mh_free(context, corpus->targets, corpus->capacity * sizeof *corpus->targets);
    mh_free(context, corpus->lines, corpus->capacity * sizeof *corpus->lines);
    mh_shrink(context, &corpus->entries, &corpus->entries_capacity, sizeof *corpus->entries);
    mh_buffer_free(context, &corpus->text);
    *corpus = (mh_corpus){0};
}
