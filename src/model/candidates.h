// SPDX-License-Identifier: MIT
// The candidates for the next tokens of many hypotheses.
#ifndef MH_MODEL_CANDIDATES_H
#define MH_MODEL_CANDIDATES_H

#include "model/beam.h"

// The `width` likeliest tokens of each row of logits (rows, V) that are not excluded, and the end,
// for the token at `position` of a translation. Logits of excluded tokens may be overwritten.
// Errors as mh_log_softmax_topk.
mh_status mh_candidates_find(mh_context *context, const mh_search_rules *rules, size_t position,
                             const mh_tensor *logits, size_t width,
                             const mh_candidates *candidates);

// logits (rows, V) of excluded tokens become -inf, but not that of the end, if the rules say that
// probabilities are without them.
void mh_candidates_exclude(const mh_search_rules *rules, const mh_tensor *logits);

#endif
