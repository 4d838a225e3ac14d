// SPDX-License-Identifier: MIT
// The internals of a tokenizer: its vocabulary, here, and its components, in
// tokenizer_components.h. tokenizer_train.c and the readers add tokens and merges,
// tokenizer_tables.c indexes them, tokenizer_encode.c and tokenizer_encode_text.c use them.
//
//     tokens   id -> key, name, kind, whether it is whole   "whole": its key, as a word, encodes
//     merges   left, right -> result, rank                  to itself; most words of a text are
//     by_bytes hash of a key -> id (the model's tokens)     found here at once
//     by_pair  hash of (left, right) -> merge
//
// A token's name is what files call it; its key is what the model compares with text. They differ
// in byte-level vocabularies: the name is "Ġthe", the key " the". A special token has a name
// only, unless it is among the model's tokens, too.
#ifndef MH_TEXT_TOKENIZER_H
#define MH_TEXT_TOKENIZER_H

#include "support/buffer.h"
#include "support/grow.h"
#include "text/tokenizer_components.h"

enum {
    MH_TOKENS_MAX = 1000 * 1000,
    MH_TOKEN_BYTES_MAX = 4096,
    MH_SPECIAL_COUNT = 3, // the first ids of a vocabulary that we train
};

extern const char *const mh_special_names[MH_SPECIAL_COUNT]; // <pad>, <s>, </s>

typedef struct mh_token_entry {
    size_t begin;             // of the key, in `bytes`
    size_t name;              // of the name, in `bytes`
    uint32_t size, name_size; // name_size 0: no token has this id
    uint32_t added;           // its place among the added tokens + 1; 0: none of them
    uint8_t kind;
    bool whole;
} mh_token_entry;

typedef struct mh_merge {
    uint32_t left, right, result;
    uint32_t rank; // the lowest first; equal ones, the leftmost first
} mh_merge;

struct mh_tokenizer {
    mh_allocator allocator; // of all its memory
    uint64_t seed;          // of the hashes
    mh_token_entry *tokens;
    size_t count, capacity;
    mh_buffer bytes; // of all tokens and components, concatenated
    mh_merge *merges;
    size_t merge_count, merge_capacity;
    uint32_t *by_bytes; // id + 1; 0 is free
    size_t by_bytes_size, by_bytes_used;
    uint32_t *by_name; // id + 1; 0 is free
    size_t by_name_size, by_name_used;
    uint32_t *by_pair; // merge + 1; 0 is free
    size_t by_pair_size;
    uint32_t byte_ids[256];
    int32_t roles[MH_ROLE_COUNT]; // ids, -1: none
    bool own;                     // with the components that mh_tokenizer_save writes
    mh_components parts;
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

// mh_tokenizer_load, for a translator: MH_ERROR_FORMAT unless it has our components.
mh_status mh_tokenizer_load_own(mh_context *context, const char *path, mh_tokenizer **tokenizer);

// What mh_tokenizer_save writes. Errors: MH_ERROR_UNSUPPORTED, MH_ERROR_MEMORY.
mh_status mh_tokenizer_write(mh_context *context, const mh_tokenizer *t, mh_buffer *to);

// Our own tokenizer has no template: from now on mh_tokenizer_encode_text puts this token behind a
// text. Files do not have it. Error: MH_ERROR_MEMORY.
mh_status mh_tokenizer_end_texts(mh_context *context, mh_tokenizer *tokenizer, int32_t id);

// Drops the tokens whose ids are `limit` or above, if all of them are special, added, and used by
// nothing else, such as a template: the text of one is then text like any other. Else nothing
// changes. Error: MH_ERROR_MEMORY.
mh_status mh_tokenizer_drop_from(mh_context *context, mh_tokenizer *tokenizer, size_t limit);

// The tokenizer of Marian's translations: target.spm with target_vocab.json, or vocab.json.
// *tokenizer is NULL if the directory has another format, whose source and target have the same.
// Errors as mh_tokenizer_load_directory.
mh_status mh_tokenizer_load_target(mh_context *context, const char *directory,
                                   mh_tokenizer **tokenizer);

// The merge of two neighbours, or NULL if they do not merge.
const mh_merge *mh_tokenizer_merge(const mh_tokenizer *t, uint32_t left, uint32_t right);

// Makes a token of the model with this id, which may be any up to MH_TOKENS_MAX; ids that are left
// out have no token. An empty key is never compared with text. mh_tokenizer_index_keys comes after
// the last one. False with a message if out of memory.
bool mh_tokenizer_place(mh_context *context, mh_tokenizer *t, size_t id, mh_text name, mh_text key);
bool mh_tokenizer_index_keys(mh_context *context, mh_tokenizer *t);

// The id of the token of this name, or SIZE_MAX, after mh_tokenizer_index_keys.
size_t mh_tokenizer_find_name(const mh_tokenizer *t, const char *name, size_t size);

// Adds a token to the index of names, growing it.
bool mh_tokenizer_index_name(mh_context *context, mh_tokenizer *t, size_t id);

// A copy of these bytes in t->bytes. False with a message if out of memory.
bool mh_tokenizer_keep(mh_context *context, mh_tokenizer *t, const char *bytes, size_t size,
                       mh_span *span);

static inline mh_text mh_span_text(const mh_tokenizer *t, mh_span span)
{
    return span.size > 0 ? (mh_text){t->bytes.data + span.begin, span.size} : (mh_text){"", 0};
}

static inline mh_text mh_token_name(const mh_tokenizer *t, size_t id)
{
    return mh_span_text(t, (mh_span){t->tokens[id].name, t->tokens[id].name_size});
}

static inline const char *mh_token_bytes(const mh_tokenizer *t, size_t id)
{
    return t->tokens[id].size > 0 ? t->bytes.data + t->tokens[id].begin : "";
}

// Room for more ids and ends. False with a message if out of memory.
bool mh_tokens_reserve(mh_context *context, mh_tokens *tokens, size_t more);

// Applies the merges to one word of bytes: tokenizer_bpe.h. `scratch` holds mh_word_scratch(size)
// bytes. Returns the number of ids, written to `ids` (room for size).
size_t mh_word_scratch(size_t size);
size_t mh_word_encode(const mh_tokenizer *t, const char *word, size_t size, void *scratch,
                      int32_t *ids);

#endif
