// SPDX-License-Identifier: MIT
// The internals of a tokenizer. tokenizer_train.c and tokenizer_read.c add tokens and merges,
// tokenizer_tables.c indexes them, tokenizer_encode.c uses them.
//
//     tokens   id -> bytes, kind, whether it is whole       "whole": its bytes, as a word, encode
//     merges   rank -> left, right, result                  to itself; most words of a text are
//     by_bytes hash of bytes -> id (text tokens only)       found here at once
//     by_pair  hash of (left, right) -> rank
#ifndef MH_TEXT_TOKENIZER_H
#define MH_TEXT_TOKENIZER_H

#include "support/grow.h"

#include <multihead/text.h>

enum {
    MH_TOKENS_MAX = 1000 * 1000,
    MH_TOKEN_BYTES_MAX = 4096,
    MH_SPECIAL_COUNT = 3, // the first ids of a vocabulary that we train
};

extern const char *const mh_special_names[MH_SPECIAL_COUNT]; // <pad>, <s>, </s>

typedef struct mh_token_entry {
    size_t begin; // in `bytes`
    uint32_t size;
    uint8_t kind;
    bool whole;
} mh_token_entry;

typedef struct mh_merge {
    uint32_t left, right, result;
} mh_merge;

struct mh_tokenizer {
    mh_allocator allocator; // of all its memory
    uint64_t seed;          // of the hashes
    mh_token_entry *tokens;
    size_t count, capacity;
    mh_buffer bytes; // of all tokens, concatenated
    mh_merge *merges;
    size_t merge_count, merge_capacity;
    uint32_t *by_bytes; // id + 1; 0 is free
    size_t by_bytes_size, by_bytes_used;
    uint32_t *by_pair; // rank + 1; 0 is free
    size_t by_pair_size;
    uint32_t byte_ids[256];
    int32_t pad, bos, eos;
};

// An empty one, to be filled with this context or one that has its allocator. NULL with a message
// if out of memory.
mh_tokenizer *mh_tokenizer_create(mh_context *context);

// Adds a token with the next id. False with a message if out of memory.
bool mh_tokenizer_add(mh_context *context, mh_tokenizer *t, mh_token_kind kind, const char *bytes,
                      size_t size);

// The id of the text token of these bytes, or SIZE_MAX.
size_t mh_tokenizer_find(const mh_tokenizer *t, const char *bytes, size_t size);

bool mh_tokenizer_add_merge(mh_context *context, mh_tokenizer *t, mh_merge merge);

// After the last token and merge: builds the tables. All 256 bytes must be among the tokens.
mh_status mh_tokenizer_finish(mh_context *context, mh_tokenizer *t);

// The rank of the merge of two neighbours, or UINT32_MAX if they do not merge.
uint32_t mh_tokenizer_rank(const mh_tokenizer *t, uint32_t left, uint32_t right);

static inline const char *mh_token_bytes(const mh_tokenizer *t, size_t id)
{
    return t->bytes.data + t->tokens[id].begin;
}

// Applies the merges to one word, with a linked list and a heap of ranks: O(n log n). `scratch`
// holds mh_word_scratch(size) bytes. Returns the number of ids, written to `ids` (room for size).
size_t mh_word_scratch(size_t size);
size_t mh_word_encode(const mh_tokenizer *t, const char *word, size_t size, void *scratch,
                      int32_t *ids);

#endif
