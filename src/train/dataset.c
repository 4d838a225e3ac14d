// SPDX-License-Identifier: MIT
// Tokenises a corpus; see dataset.h.
#include "train/dataset.h"
#include "base/compiler.h"

#include "support/grow.h"

#include <stdio.h>

typedef struct tokenising {
    mh_context *context;
    const mh_tokenizer *tokenizer;
    mh_dataset *examples;
    mh_tokens tokens;
    size_t used; // ids, including those of the pair being added
} tokenising;

// Adds the ids of a text and </s>; *length is their number.
static mh_status add_side(tokenising *t, mh_text text, size_t *length)
{
    mh_dataset *e = t->examples;
    mh_status status =
        mh_tokenizer_encode(t->context, t->tokenizer, text.bytes, text.size, &t->tokens);
    if (status)
        return status;
    *length = t->tokens.count + 1;
    if (!mh_grow(t->context, &e->ids, &e->ids_capacity, t->used + *length, sizeof *e->ids))
        return MH_ERROR_MEMORY;
    if (t->tokens.count > 0)
        memcpy(e->ids + t->used, t->tokens.ids, t->tokens.count * sizeof *e->ids);
    e->ids[t->used + t->tokens.count] = mh_tokenizer_eos(t->tokenizer);
    t->used += *length;
    return MH_OK;
}

static mh_status add_pair(tokenising *t, mh_text source, mh_text target, size_t lengths[2])
{
    mh_dataset *e = t->examples;
    t->used = e->starts[2 * e->count];
    MH_TRY(add_side(t, source, &lengths[0]));
    return add_side(t, target, &lengths[1]);
}

// Commits the added ids as an example; without this the next pair overwrites them.
static mh_status keep_pair(tokenising *t, const size_t lengths[2])
{
    mh_dataset *e = t->examples;
    size_t k = 2 * e->count;
    if (!mh_grow(t->context, &e->starts, &e->starts_capacity, k + 3, sizeof *e->starts))
        return MH_ERROR_MEMORY;
    e->starts[k + 1] = e->starts[k] + lengths[0];
    e->starts[k + 2] = e->starts[k + 1] + lengths[1];
    e->count++;
    return MH_OK;
}

static void dataset_tell(const mh_corpus *corpus, size_t i, const size_t lengths[2],
                         size_t max_length, mh_bad_line_fn left_out, void *user)
{
    char why[128];
    if (!left_out)
        return;
    snprintf(why, sizeof why, "source of %zu tokens, target of %zu, expected at most %zu",
             lengths[0], lengths[1], max_length);
    left_out(user, corpus->name, corpus->lines[i], why);
}

static mh_status tokenise(tokenising *t, const mh_corpus *corpus, size_t max_length,
                          mh_bad_line_fn left_out, void *user)
{
    mh_dataset *e = t->examples;
    if (!mh_grow(t->context, &e->starts, &e->starts_capacity, 1, sizeof *e->starts))
        return MH_ERROR_MEMORY;
    e->starts[0] = 0;
    for (size_t i = 0; i < corpus->count; i++) {
        size_t lengths[2];
        mh_status status = add_pair(t, corpus->sources[i], corpus->targets[i], lengths);
        if (!status && lengths[0] <= max_length && lengths[1] <= max_length) {
            status = keep_pair(t, lengths);
        } else if (!status) {
            e->left_out++;
            dataset_tell(corpus, i, lengths, max_length, left_out, user);
        }
        if (status)
            return status;
    }
    if (e->count > 0)
        return MH_OK;
    return mh_fail(t->context, MH_ERROR_FORMAT,
                   "%.300s: all %zu sentence pairs have a side of more than %zu tokens",
                   corpus->name ? corpus->name : "corpus", corpus->count, max_length);
}

mh_status mh_dataset_create(mh_context *context, const mh_corpus *corpus,
                            const mh_tokenizer *tokenizer, size_t max_length,
                            mh_bad_line_fn left_out, void *user, mh_dataset *examples)
{
    tokenising t = {.context = context, .tokenizer = tokenizer, .examples = examples};
    *examples = (mh_dataset){0};
    mh_status status = tokenise(&t, corpus, max_length, left_out, user);
    if (status)
        mh_dataset_free(context, examples);
    mh_tokens_free(context, &t.tokens);
    return status;
}

void mh_dataset_free(mh_context *context, mh_dataset *e)
{
    mh_shrink(context, &e->ids, &e->ids_capacity, sizeof *e->ids);
    mh_shrink(context, &e->starts, &e->starts_capacity, sizeof *e->starts);
    *e = (mh_dataset){0};
}
