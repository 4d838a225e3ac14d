// SPDX-License-Identifier: MIT
// A batch of sentences and its stages: encoder, beam search, and attention if requested.
#ifndef MH_MODEL_TRANSLATE_SEARCH_H
#define MH_MODEL_TRANSLATE_SEARCH_H

#include "model/beam.h"
#include "model/result_arena.h"
#include "model/translator_internal.h"

// A segment: a text, or a part of one that is too long, with tokens first .. first + count - 1.
typedef struct mh_segment {
    size_t text, first;
    const int32_t *ids; // (count), without those of the template
    size_t count;
    mh_hypothesis *best;     // (found), best first
    const float **attention; // (found) of (best[i].count, count), or NULL
    size_t found;            // 0: not translated yet
    const double *steps;     // NULL, or (best[0].count + 1): log-probabilities, </s> the last
    const int32_t *top_ids;  // NULL, or (best[0].count + 1, top_logprobs): the likeliest tokens
    const double *top_steps; // and their log-probabilities
    size_t top_count;
} mh_segment;

// The encoder's output, which the decoder attends to.
typedef struct mh_memory {
    mh_tensor rows;   // (segments, S, D)
    int64_t *lengths; // (segments), with the template
    void *block;
    size_t size;
} mh_memory;

// The rows of a segment in the encoder.
static inline size_t mh_segment_rows(const mh_translator *t, const mh_segment *segment)
{
    return t->source.before_count + segment->count + t->source.after_count;
}

mh_status mh_memory_create(mh_context *context, const mh_translator *translator,
                           const mh_translator_weights *weights,
                           const mh_translate_options *options, mh_segment *const *segments,
                           size_t count, mh_memory *memory);
void mh_memory_free(mh_context *context, mh_memory *memory); // all zeros is allowed

// Fills in `attention` of segments whose `best` is set. Results are in the store.
mh_status mh_translate_attend(mh_context *context, const mh_translator *translator,
                              const mh_translate_options *options, mh_segment *const *segments,
                              size_t count, const mh_memory *memory, mh_result_arena *store);

// Runs all stages; *stopped: options->progress has stopped it, and segments keep found = 0. Errors:
// MH_ERROR_FORMAT for logits that are not finite; MH_ERROR_MEMORY.
mh_status mh_translate_batch(mh_context *context, const mh_translator *translator,
                             const mh_translator_weights *weights,
                             const mh_translate_options *options, mh_segment *const *segments,
                             size_t count, mh_result_arena *store, bool *stopped);

#endif
