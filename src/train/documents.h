// SPDX-License-Identifier: MIT
// Text as a language model's examples. Documents are separated by empty lines; their tokens, each
// followed by </s>, are one stream that is cut into sequences without padding:
//
//     stream     </s> a b c </s> d e </s> ...         context 4
//     example 0  source [</s>], target [a b c </s>]   read </s> a b c, expect a b c </s>
//     example 1  source [</s>], target [d e </s> ...]
//
// Of a model whose texts begin with another token than </s>, each document does, and the stream.
#ifndef MH_TRAIN_DOCUMENTS_H
#define MH_TRAIN_DOCUMENTS_H

#include "train/dataset.h"

typedef struct mh_documents {
    mh_buffer text;
    mh_text *list; // (count) in `text`
    size_t count, capacity;
    size_t bad; // skipped
} mh_documents;

// What to read: files, plain or gzip, "-" for standard input. A document ends with its file.
typedef struct mh_documents_files {
    const char *path;
    const char *const *more; // (more_count)
    size_t more_count;
    mh_bad_line_fn bad_line; // or NULL
    void *user;
} mh_documents_files;

// A document that is not UTF-8 is reported, with its line, counted and skipped. Errors:
// MH_ERROR_FILE, MH_ERROR_FORMAT (no text, or damaged gzip), MH_ERROR_ARGUMENT (standard input
// twice), MH_ERROR_MEMORY.
mh_status mh_documents_read(mh_context *context, const mh_documents_files *files,
                            mh_documents *documents);
void mh_documents_free(mh_context *context, mh_documents *documents);

// How many documents at the end are held out: about `part` of the bytes. One that is much larger
// than that is divided in two first. Errors: MH_ERROR_MEMORY.
mh_status mh_documents_hold_out(mh_context *context, mh_documents *documents, double part,
                                size_t *count);

// Examples of the documents `first` to `end` - 1; *bytes is the size of their text. `bos` is the
// token that documents begin with, -1 if there is none.
// Errors: MH_ERROR_FORMAT (not UTF-8), MH_ERROR_MEMORY.
mh_status mh_documents_examples(mh_context *context, const mh_documents *documents, size_t first,
                                size_t end, const mh_tokenizer *tokenizer, int32_t bos, int32_t eos,
                                size_t context_tokens, mh_dataset *examples, uint64_t *bytes);

#endif
