// SPDX-License-Identifier: MIT
// The labels of a classifier, by probability.
#ifndef CLI_LABELS_H
#define CLI_LABELS_H

#include <multihead/pretrained.h>
#include <multihead/view.h>

enum { LABELS_SHOWN = 5, LABEL_NUMBER = 40 };

// The likeliest labels of one input, best first. One without a name is called "label N".
typedef struct label_list {
    size_t count;
    mh_trace_label labels[LABELS_SHOWN];
    char numbers[LABELS_SHOWN][LABEL_NUMBER];
} label_list;

// Runs a classifier on an input of `rows` tokens or patches. Names are borrowed from model and
// list.
mh_status labels_predict(mh_context *context, const mh_model *model, const mh_model_input *input,
                         size_t rows, label_list *found);

// The `top` likeliest of a classifier's labels, best first, from its logits. The probability of one
// label alone is the sigmoid of its logit.
mh_status labels_rank(mh_context *context, const float *logits, size_t labels, size_t top,
                      int32_t *ids, double *probabilities);

#endif
