// SPDX-License-Identifier: MIT
// The text of a sequence while it is generated: whole characters, cut before the first stop string.
//
//     text   | shown                     | held |
//                                        ^ what may be the beginning of a stop string
#ifndef MH_MODEL_GENERATE_TEXT_H
#define MH_MODEL_GENERATE_TEXT_H

#include <multihead/generate.h>

typedef struct mh_growing_text {
    mh_text_stream stream;
    mh_buffer text, added; // added: what the last token adds
    size_t shown;          // bytes of text
    bool stopped;          // a stop string was found, and the text ends before it
} mh_growing_text;

// The text begins behind these tokens, which decide about a space between the two. A NULL tokenizer
// is allowed, in all functions: no text.
mh_status mh_growing_text_begin(mh_context *context, const mh_tokenizer *tokenizer,
                                const int32_t *prompt, size_t count, mh_growing_text *text);
void mh_growing_text_free(mh_context *context, mh_growing_text *text);

// Appends a token; id -1: the end, nothing is held back any more. *shown is what is new: nothing of
// an id that the tokenizer does not have.
mh_status mh_growing_text_add(mh_context *context, const mh_tokenizer *tokenizer,
                              const mh_text *stop, size_t stop_count, int32_t id,
                              mh_growing_text *text, mh_text *shown);

#endif
