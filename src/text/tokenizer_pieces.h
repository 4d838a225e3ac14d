// SPDX-License-Identifier: MIT
// Pieces of a text on its way to the model: added tokens, which have their ids already, and what is
// between them, which pre-tokenizers split further.
#ifndef MH_TEXT_TOKENIZER_PIECES_H
#define MH_TEXT_TOKENIZER_PIECES_H

#include "text/tokenizer_forms.h"

typedef struct mh_chunk {
    size_t begin, size; // in the text
    int32_t id;         // of an added token, -1: a piece of text
} mh_chunk;

typedef struct mh_chunk_list {
    mh_chunk *items;
    size_t count, capacity;
} mh_chunk_list;

bool mh_chunk_add(mh_context *context, mh_chunk_list *list, size_t begin, size_t size, int32_t id);

// Splits bytes [begin, begin + size) of a text at added tokens, those of the text as written or
// those of the normalised text, and appends the pieces. `special` false: special tokens are text.
bool mh_added_split(mh_context *context, const mh_tokenizer *t, bool normalized, bool special,
                    const char *text, size_t begin, size_t size, mh_chunk_list *pieces);

// Builds the tries of the added tokens, after the normalizers and the last added token.
mh_status mh_added_index(mh_context *context, mh_tokenizer *t);

// All pre-tokenizers: `pieces` and `text` are replaced, the others are overwritten.
bool mh_pre_tokenize(mh_context *context, const mh_tokenizer *t, mh_aligned *text,
                     mh_aligned *spare_text, mh_chunk_list *pieces, mh_chunk_list *spare);

#endif
