// SPDX-License-Identifier: MIT
// The labels of a classifier, by probability.
#ifndef CLI_LABELS_H
#define CLI_LABELS_H

#include <multihead/base.h>

// The `top` likeliest of a classifier's labels, best first, from its logits. The probability of one
// label alone is the sigmoid of its logit.
mh_status labels_rank(mh_context *context, const float *logits, size_t labels, size_t top,
                      int32_t *ids, double *probabilities);

#endif
