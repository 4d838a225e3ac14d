// SPDX-License-Identifier: MIT
// What a decoder chose from: the likeliest tokens at each position of a trace, and names of tokens.
#ifndef MH_MODEL_TRACE_CHOICES_H
#define MH_MODEL_TRACE_CHOICES_H

#include "model/result_arena.h"
#include <multihead/block.h>
#include <multihead/text.h>
#include <multihead/view.h>

// A token's bytes as a string in `store`, a space before it as U+2581; NULL with a message if out
// of memory. word_start, special: may be NULL.
const char *mh_trace_token_name(mh_context *context, mh_result_arena *store,
                                const mh_tokenizer *tokenizer, int32_t id, bool *word_start,
                                bool *special);

// Where a block's norms are, as mh_trace_stream.order says it.
static inline const char *mh_trace_order(const mh_block_config *block)
{
    return block->parallel                  ? "parallel"
           : block->order == MH_NORM_BEFORE ? "before"
           : block->order == MH_NORM_AFTER  ? "after"
                                            : "both";
}

typedef struct mh_choice_source {
    // logits (rows, V) of the decoder's output y (rows, D), -inf where tokens are excluded
    mh_status (*logits)(mh_context *context, const void *model, const mh_tensor *y,
                        mh_tensor *logits);
    const void *model;
    const mh_tokenizer *tokenizer;
    size_t vocabulary; // V
} mh_choice_source;

// Fills `choices` for the decoder's output y (T, D). chosen (T): the ids that were chosen, -1:
// unknown.
mh_status mh_trace_choices_fill(mh_context *context, mh_result_arena *store,
                                const mh_choice_source *source, const mh_tensor *y,
                                const int32_t *chosen, mh_trace_choices *choices);

#endif
