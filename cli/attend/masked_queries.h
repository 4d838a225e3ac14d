// SPDX-License-Identifier: MIT
// Queries for which masks, causal rule, window and lengths leave no key: usually the sign of an
// inverted mask.
#ifndef CLI_MASKED_QUERIES_H
#define CLI_MASKED_QUERIES_H

#include <multihead/attention.h>

// A note "WHERE: 1 of 10 queries sees no keyHINT" if there are any. Reads masks (bool or
// f32), causal, windows and key_lengths of the options; shape is (B, H, T, S). Sequences and heads
// with the same masks are counted once.
void note_masked_queries(mh_context *context, const mh_attention_options *options,
                         const size_t shape[4], const char *where, const char *hint);

#endif
