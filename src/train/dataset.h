// SPDX-License-Identifier: MIT
// Sentence pairs as token ids, the training data. All ids are in one array:
//
//     ids     [ source 0 </s> | target 0 </s> | source 1 </s> | target 1 </s> | ... ]
//     starts    0               1               2               3                2 count
//
// A decoder's input is <s> and the target without its last id; its expected output is the target.
// So lengths, with </s>, are those the model sees.
#ifndef MH_TRAIN_DATASET_H
#define MH_TRAIN_DATASET_H

#include "train/corpus.h"

typedef struct mh_dataset {
    size_t count;
    int32_t *ids;    // (starts[2 count])
    size_t *starts;  // (2 count + 1)
    size_t left_out; // pairs that are too long
    size_t ids_capacity, starts_capacity;
} mh_dataset;

typedef struct mh_ids {
    const int32_t *ids; // (count), the last one is </s>
    size_t count;       // at least 1
} mh_ids;

static inline mh_ids mh_dataset_side(const mh_dataset *e, size_t k)
{
    return (mh_ids){e->ids + e->starts[k], e->starts[k + 1] - e->starts[k]};
}
static inline mh_ids mh_dataset_source(const mh_dataset *e, size_t i)
{
    return mh_dataset_side(e, 2 * i);
}
static inline mh_ids mh_dataset_target(const mh_dataset *e, size_t i)
{
    return mh_dataset_side(e, 2 * i + 1);
}

// Tokenises a corpus. A pair with a side of more than max_length ids, </s> included, is skipped,
// reported to `left_out` (which may be NULL) with the corpus's name and line, and counted. Errors,
// after which there are no examples: MH_ERROR_MEMORY, MH_ERROR_FORMAT (every pair is too long, or
// one is not UTF-8).
mh_status mh_dataset_create(mh_context *context, const mh_corpus *corpus,
                            const mh_tokenizer *tokenizer, size_t max_length,
                            mh_bad_line_fn left_out, void *user, mh_dataset *examples);

// Frees all and makes it empty; all zeros is allowed.
void mh_dataset_free(mh_context *context, mh_dataset *examples);

#endif
