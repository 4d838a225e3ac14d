// SPDX-License-Identifier: MIT
// What the parts of `multihead classify` share.
#ifndef CLI_CLASSIFY_H
#define CLI_CLASSIFY_H

#include "pretrained/text_arguments.h"

typedef struct classify {
    text_arguments arguments;
    size_t top;              // 0: all labels
    const char *pair;        // the second text of every pair, or NULL
    const char *given;       // --labels, or NULL
    char *label_memory;      // the given labels, each terminated
    const char **names;      // (labels) of them; NULL: the model's
    float *label_embeddings; // (labels, width) of these
    size_t labels;
    float *logits;         // (labels)
    int32_t *ids;          // (top)
    double *probabilities; // (top): logarithms at first
} classify;

// Ranks the logits.
mh_status rank_labels(const classify *c);

// Each returns an exit code after reporting errors. The result of an argument, which a message
// calls `name`, is an error if its logits are not finite.
int print_result(const classify *c, mh_text argument, mh_text name);
int labels_prepare(classify *c);    // the given labels and their embeddings
int classify_pictures(classify *c); // all arguments

#endif
