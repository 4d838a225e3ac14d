// SPDX-License-Identifier: MIT
// Which keys masks, causal rule, window and lengths leave to a query; queries without any are
// usually the sign of an inverted mask.
#ifndef CLI_MASKED_QUERIES_H
#define CLI_MASKED_QUERIES_H

#include <multihead/attention.h>

// A note "WHERE: 1 of 10 queries sees no keyHINT" if there are any. Reads masks (bool or
// f32), causal, windows and key_lengths of the options; shape is (B, H, T, S). Sequences and heads
// with the same masks are counted once.
void note_masked_queries(mh_context *context, const mh_attention_options *options,
                         const size_t shape[4], const char *where, const char *hint);

// scores + M: what the masks add, and -inf for masked keys. scores (B, H, T, S) f32, contiguous.
mh_status mask_scores_of(mh_context *context, const mh_attention_options *options,
                         mh_tensor *scores);

#endif
