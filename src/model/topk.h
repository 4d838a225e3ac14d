// SPDX-License-Identifier: MIT
// The likeliest next tokens of many hypotheses.
#ifndef MH_MODEL_TOPK_H
#define MH_MODEL_TOPK_H

#include "model/beam.h"

// next[r] = the `width` largest log-softmax values of row r of logits (rows, V) f32, dense, which
// are written to and restored; ties by the smaller id. <pad>, <s> and </s> are excluded, and so are
// NaN and -inf.
void mh_topk(mh_context *context, const mh_tokenizer *tokenizer, const mh_tensor *logits,
             size_t width, mh_next *next);

#endif
