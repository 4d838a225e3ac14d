// SPDX-License-Identifier: MIT
// Beam search for one sentence: which hypotheses continue, which are finished, and when to stop.
//
// A step takes the likeliest next tokens of every live hypothesis. All continuations, </s>
// included, are sorted by log-probability, then by the hypothesis they continue, then by token id,
// so that ties are deterministic. A </s> among the first `width` finishes its hypothesis; the first
// `width` others are the next live ones. Hypotheses that reach the maximum length are closed with
// </s> and charged its log-probability.
//
// score = log-probability / tokens^penalty, </s> counted. Further tokens only lower the
// log-probability, so that a live hypothesis that ends with n tokens scores at most
// log-probability / n^penalty. The search is done when the best live one cannot get among the
// `keep` best
//
//     with n = most, the longest translation allowed: no other result is possible;
//     with n = length + 2, one more token and </s>, once `width` hypotheses are finished;
//
// and, with a width of 1, at the first </s>. For published models the search ends as that of
// Hugging Face's transformers does (early_stopping false): once `width` hypotheses are finished and
// the best live one, at its present length, scores no better than the worst of them. They also may
// say that
// </s> is certain at the maximum length; its log-probability is then 0.
#ifndef MH_MODEL_BEAM_H
#define MH_MODEL_BEAM_H

#include "model/translator_internal.h"

// Candidates for the next token of each live hypothesis: the likeliest text tokens, best first, and
// </s>.
typedef struct mh_candidates {
    int32_t *ids;              // (live, width); -1 behind the last
    double *log_probabilities; // (live, width)
    double *end;               // (live): the log-probability of </s>
} mh_candidates;

typedef struct mh_hypothesis {
    int32_t *ids; // (count), without </s>
    size_t count;
    double log_probability, score;
} mh_hypothesis;

typedef struct mh_beam_option mh_beam_option; // one of the continuations of a step

typedef struct mh_beam {
    size_t width, keep;
    size_t most; // tokens, </s> included
    double penalty;
    const mh_search_rules *rules;
    size_t length;                    // of all live hypotheses
    size_t live;                      // 0: done
    mh_hypothesis *hypotheses, *next; // (width): live ones, before and after the step
    size_t finished;
    mh_hypothesis *best;     // (width): finished ones, best first
    mh_beam_option *options; // (width * (width + 1))
    void *memory;
    size_t size;
} mh_beam;

// Starts with one empty hypothesis; the rules are borrowed. False with a message if out of memory.
bool mh_beam_create(mh_context *context, size_t width, size_t keep, size_t most, double penalty,
                    const mh_search_rules *rules, mh_beam *beam);
void mh_beam_free(mh_context *context, mh_beam *beam); // all zeros is allowed

// log-probability / tokens^penalty; the usual power, 1, exactly.
double mh_beam_score(double log_probability, size_t tokens, double penalty);

// One step with the candidates of the live hypotheses. Afterwards live hypothesis i continues the
// former parents[i], and its last token is hypotheses[i].ids[length - 1].
void mh_beam_advance(mh_beam *beam, const mh_candidates *candidates, size_t *parents);

#endif
