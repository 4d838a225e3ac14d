// SPDX-License-Identifier: MIT
// What the parts of `multihead embed` share: its options, and the vectors that are printed.
#ifndef CLI_EMBED_H
#define CLI_EMBED_H

#include "outputs.h"
#include "pretrained/text_arguments.h"

typedef struct embed {
    text_arguments texts;
    int pooling;   // mh_pooling; POOLING_MODEL: the model's; POOLING_NONE: vectors of tokens
    int normalize; // NORMALIZE_MODEL: as the model does; else whether
    size_t batch;  // tokens; 0: the default
    bool similarity;
    output out;              // --out; its tensor is the vectors: (texts or tokens, width)
    mh_model_texts *encoded; // of POOLING_NONE
} embed;

enum { POOLING_MODEL = -1, POOLING_NONE = -2, NORMALIZE_MODEL = -1 };

extern const struct argp embed_argp;

// A row's vector, and its label: the text, or a token's name.
const float *embed_vector(const embed *e, size_t row);
mh_text embed_label(const embed *e, size_t row);

void print_embeddings(const embed *e); // as lines for people, or as JSON
void print_similarity(const embed *e);

#endif
