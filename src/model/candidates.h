// SPDX-License-Identifier: MIT
// The candidates for the next tokens of many hypotheses.
#ifndef MH_MODEL_CANDIDATES_H
#define MH_MODEL_CANDIDATES_H

#include "model/beam.h"

// The `width` likeliest tokens of each row of logits (rows, V), without <pad>, <s> and </s>; and
// </s>. Errors as mh_log_softmax_topk.
mh_status mh_candidates_find(mh_context *context, const mh_tokenizer *tokenizer,
                             const mh_tensor *logits, size_t width,
                             const mh_candidates *candidates);

#endif
