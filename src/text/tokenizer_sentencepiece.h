// SPDX-License-Identifier: MIT
// Tokenizers as SentencePiece has them: pieces with scores, cut by a unigram model or by BPE whose
// merges are ordered by the score of what they make. Files (.spm, .model), Marian's pairs of files
// and GGUF's arrays are read into this description.
#ifndef MH_TEXT_TOKENIZER_SENTENCEPIECE_H
#define MH_TEXT_TOKENIZER_SENTENCEPIECE_H

#include "text/tokenizer_build.h"

typedef enum mh_sp_type {
    MH_SP_NORMAL = 1,
    MH_SP_UNKNOWN,
    MH_SP_CONTROL,
    MH_SP_USER_DEFINED,
    MH_SP_UNUSED,
    MH_SP_BYTE,
} mh_sp_type;

typedef struct mh_sp_piece {
    mh_text name;
    float score;
    uint8_t type; // mh_sp_type
} mh_sp_piece;

typedef struct mh_sp_model {
    mh_sp_piece *pieces; // in order of their ids
    size_t count, capacity;
    bool bpe, byte_fallback;
    bool dummy_prefix, single_spaces, escape_spaces;
    mh_text charsmap;
} mh_sp_model;

// Reads a file into `model`, whose texts are borrowed from it.
mh_status mh_sp_read(const mh_source *source, mh_sp_model *model);
void mh_sp_free(mh_context *context, mh_sp_model *model);

// All of it: tokens with the pieces' ids, components, special tokens.
mh_status mh_sp_build(const mh_build *b, const mh_sp_model *model);

// Only what cuts text, for pieces whose ids come from another vocabulary, which is already built.
mh_status mh_sp_build_pieces(const mh_build *b, const mh_sp_model *model);

// Normalizers and decoders.
mh_status mh_sp_build_components(const mh_build *b, const mh_sp_model *model);

// Merges of all tokens into which two others can be joined; ranks[id] orders them, UINT32_MAX is no
// token that a merge makes. Tokens are split between characters, byte-level ones between bytes.
mh_status mh_build_all_merges(const mh_build *b, const uint32_t *ranks);

#endif
