// SPDX-License-Identifier: MIT
// Which token comes next: logits (V) of one sequence to one id.
//
// Candidates are sorted by score, the best first, ties by id; top_k, top_p and min_p each keep a
// prefix of that list. All arithmetic is in double with functions of our own and in a fixed order,
// and random numbers are a function of (seed, sequence, position), so that the same logits always
// give the same token.
#ifndef MH_MODEL_SAMPLING_H
#define MH_MODEL_SAMPLING_H

#include <multihead/generate.h>

typedef struct mh_sampling {
    double temperature; // 0: the likeliest
    size_t top_k;       // 0: all
    double top_p;       // 1: all
    double min_p;       // 0: all
    uint64_t seed;
} mh_sampling;

// For one call at a time: (V) each.
typedef struct mh_sampling_scratch {
    float *scores;
    uint64_t *candidates, *sorted;
    double *weights;
} mh_sampling_scratch;

// log sum exp of the logits; NaN if one is NaN or +infinity, or none is finite.
double mh_log_sum_exp(const float *logits, size_t V);

// The `count` largest logits, best first, as log-probabilities; id -1 behind the last.
void mh_top_scores(const float *logits, size_t V, double lse, size_t count, mh_token_score *top);

// With x = logits[id] - normaliser, scores[id] = normaliser + x / penalty if x is positive, else
// + x * penalty; each id once.
void mh_penalise_repetition(double penalty, const float *logits, double normaliser,
                            const int32_t *ids, size_t count, float *scores);

// The next token of sequence `sequence` at `position`; -1 if all scores are -infinity.
int32_t mh_sample_token(const mh_sampling *sampling, uint64_t sequence, uint64_t position,
                        const float *scores, size_t V, const mh_sampling_scratch *scratch);

// The tokens that the filters leave, best first, as ids, and their weights exp(score - best).
// Returns their number.
size_t mh_filter_candidates(const mh_sampling *sampling, const float *scores, size_t V,
                            const mh_sampling_scratch *scratch);

static inline int32_t mh_candidate_id(uint64_t candidate) { return (int32_t)(uint32_t)candidate; }

#endif
