// SPDX-License-Identifier: MIT
// Memory that encoding a text works in, kept from one text to the next.
#ifndef MH_TEXT_TOKENIZER_SCRATCH_H
#define MH_TEXT_TOKENIZER_SCRATCH_H

#include "text/tokenizer_models.h"
#include "text/tokenizer_pieces.h"

typedef struct mh_sequence_token {
    int32_t id;
    uint32_t begin, end; // in the original text
    int32_t word;        // the number of its piece
} mh_sequence_token;

typedef struct mh_sequence {
    mh_sequence_token *tokens;
    size_t count, capacity;
} mh_sequence;

typedef struct mh_encode_scratch {
    mh_aligned text, piece, spare;
    mh_form_scratch form;
    mh_chunk_list raw, pieces, spare_pieces;
    mh_model_output model;
    mh_sequence sequences[2];
} mh_encode_scratch;

mh_encode_scratch *mh_encode_scratch_create(mh_context *context);
void mh_encode_scratch_free(mh_context *context, mh_encode_scratch *scratch);

// All components up to the model: the tokens of a text, in scratch->sequences[which].
mh_status mh_encode_sequence(mh_context *context, const mh_tokenizer *t,
                             const mh_encode_options *options, mh_text text, size_t which,
                             mh_encode_scratch *scratch);

// The post-processor: truncation, and the template of one text or two, into `encoding`.
mh_status mh_post_process(mh_context *context, const mh_tokenizer *t,
                          const mh_encode_options *options, size_t texts,
                          mh_encode_scratch *scratch, mh_encoding *encoding);

#endif
