// SPDX-License-Identifier: MIT
// Sampling; see sampling.h.
#include "model/sampling.h"
#include "base/philox.h"
#include "base/pow.h"
#include <math.h>
#include <string.h>

// ---- arithmetic ---------------------------------------------------------------------------------

enum { GROUP = 16 }; // values at a time, in loops of constant length, which compilers vectorise

// x = e^x for x <= 0, 0 from -708 down: x = n ln 2 + r, |r| <= 0.35, a polynomial of degree 13 and
// 2^n. The series of base/pow.h divides in every term, which is too slow for a vocabulary.
static void exp_group(double x[GROUP])
{
    static const double c[] = {1.0 / 6227020800,
                               1.0 / 479001600,
                               1.0 / 39916800,
                               1.0 / 3628800,
                               1.0 / 362880,
                               1.0 / 40320,
                               1.0 / 5040,
                               1.0 / 720,
                               1.0 / 120,
                               1.0 / 24,
                               1.0 / 6,
                               0.5,
                               1.0,
                               1.0};
    const double magic = 0x1.8p52, least = -708;
    double keep[GROUP], shifted[GROUP], scale[GROUP], sum[GROUP];
    uint64_t bits[GROUP];
    for (size_t k = 0; k < GROUP; k++) {
        keep[k] = x[k] > least ? 1.0 : 0.0;
        x[k] = x[k] > least ? x[k] : least;
        shifted[k] = x[k] * 0x1.71547652b82fep0 + magic; // its lowest bits are those of n
        x[k] = (x[k] - (shifted[k] - magic) * mh_ln2_high) - (shifted[k] - magic) * mh_ln2_low;
        sum[k] = c[0];
    }
    for (size_t i = 1; i < sizeof c / sizeof *c; i++)
        for (size_t k = 0; k < GROUP; k++)
            sum[k] = sum[k] * x[k] + c[i];
    memcpy(bits, shifted, sizeof bits);
    for (size_t k = 0; k < GROUP; k++)
        bits[k] = (bits[k] + 1023) << 52;
    memcpy(scale, bits, sizeof scale);
    for (size_t k = 0; k < GROUP; k++)
        x[k] = sum[k] * scale[k] * keep[k];
}

// The largest of x, -infinity if there is none; NaNs are passed over.
static float find_most(const float *x, size_t n)
{
    float most[GROUP];
    size_t i = 0;
    for (size_t k = 0; k < GROUP; k++)
        most[k] = -INFINITY;
    for (; i + GROUP <= n; i += GROUP)
        for (size_t k = 0; k < GROUP; k++)
            most[k] = x[i + k] > most[k] ? x[i + k] : most[k];
    for (; i < n; i++)
        most[0] = x[i] > most[0] ? x[i] : most[0];
    for (size_t k = 1; k < GROUP; k++)
        most[0] = most[k] > most[0] ? most[k] : most[0];
    return most[0];
}

// Neither infinity nor NaN.
static bool all_below_infinity(const float *x, size_t n)
{
    bool below = true;
    for (size_t i = 0; i < n; i++)
        below &= x[i] < INFINITY;
    return below;
}

double mh_log_sum_exp(const float *logits, size_t V)
{
    const double most = find_most(logits, V);
    if (most == -INFINITY || !all_below_infinity(logits, V))
        return NAN;
    double sum = 0, terms[GROUP];
    for (size_t i = 0; i < V; i += GROUP) {
        const size_t n = V - i < GROUP ? V - i : GROUP;
        for (size_t k = 0; k < GROUP; k++)
            terms[k] = k < n ? (double)logits[i + k] - most : -INFINITY;
        exp_group(terms);
        for (size_t k = 0; k < GROUP; k++) // one after the other: the order is part of the result
            sum += terms[k];
    }
    return most + mh_natural_log(sum);
}

void mh_top_scores(const float *logits, size_t V, double lse, size_t count, mh_token_score *top)
{
    size_t found = 0;
    for (size_t i = 0; i < V && count > 0; i++) {
        const double score = logits[i];
        if (found == count && score <= top[count - 1].logprob)
            continue;
        size_t place = found < count ? found++ : count - 1;
        for (; place > 0 && top[place - 1].logprob < score; place--)
            top[place] = top[place - 1];
        top[place] = (mh_token_score){(int32_t)i, score};
    }
    for (size_t i = 0; i < count; i++)
        top[i] = i < found ? (mh_token_score){top[i].id, top[i].logprob - lse}
                           : (mh_token_score){-1, -INFINITY};
}

void mh_penalise_repetition(double penalty, const float *logits, double normaliser,
                            const int32_t *ids, size_t count, float *scores)
{
    if (penalty == 1)
        return;
    const float p = (float)penalty, n = (float)normaliser;
    for (size_t i = 0; i < count; i++) {
        const float x = logits[ids[i]] - n;
        scores[ids[i]] = (x < 0 ? x * p : x / p) + n;
    }
}

// ---- sorted candidates --------------------------------------------------------------------------

// A candidate is (key, id), whose key ascends as the score descends.
static uint64_t make_candidate(float score, size_t id)
{
    uint32_t bits;
    score += 0.0f; // -0 is 0
    memcpy(&bits, &score, sizeof bits);
    bits = bits & 0x80000000u ? bits : ~bits & 0x7FFFFFFFu;
    return (uint64_t)bits << 32 | id;
}

static float candidate_score(uint64_t candidate)
{
    uint32_t bits = (uint32_t)(candidate >> 32);
    bits = bits & 0x80000000u ? bits : ~bits & 0x7FFFFFFFu;
    float score;
    memcpy(&score, &bits, sizeof score);
    return score;
}

// A stable radix sort of the keys, 11 bits at a time; candidates come in the order of their ids.
static void sort_candidates(size_t count, uint64_t *candidates, uint64_t *other)
{
    enum { BITS = 11, BUCKETS = 1 << BITS };
    for (int shift = 32; shift < 64; shift += BITS) {
        size_t offsets[BUCKETS + 1] = {0};
        for (size_t i = 0; i < count; i++)
            offsets[(candidates[i] >> shift & (BUCKETS - 1)) + 1]++;
        for (size_t i = 0; i < BUCKETS; i++)
            offsets[i + 1] += offsets[i];
        for (size_t i = 0; i < count; i++)
            other[offsets[candidates[i] >> shift & (BUCKETS - 1)]++] = candidates[i];
        uint64_t *from = candidates;
        candidates = other;
        other = from;
    }
}

// Scores above -infinity, in the order of their ids.
static size_t list_candidates(const float *scores, size_t V, const mh_sampling_scratch *scratch)
{
    size_t count = 0;
    for (size_t i = 0; i < V; i++)
        if (scores[i] > -INFINITY)
            scratch->candidates[count++] = make_candidate(scores[i], i);
    return count;
}

// The last value of the keys' 11 highest bits that the `wanted` best candidates have.
static uint64_t find_limit(const uint64_t *candidates, size_t count, size_t wanted)
{
    enum { SHIFT = 53, BUCKETS = 1 << 11 };
    uint32_t counts[BUCKETS] = {0};
    for (size_t i = 0; i < count; i++)
        counts[candidates[i] >> SHIFT]++;
    size_t bucket = 0;
    for (size_t sum = counts[0]; sum < wanted && bucket + 1 < BUCKETS; sum += counts[bucket])
        bucket++;
    return ((uint64_t)bucket + 1) << SHIFT; // 0 if it is the last
}

// At least the `wanted` best of the listed candidates and those as good as the last of them,
// sorted, in scratch->sorted, whose second half is needed, too. Returns their number; 0 if that is
// too small.
static size_t sort_head(size_t count, size_t wanted, size_t V, const mh_sampling_scratch *scratch)
{
    const uint64_t limit = find_limit(scratch->candidates, count, wanted);
    size_t kept = 0;
    for (size_t i = 0; i < count; i++)
        kept += !limit || scratch->candidates[i] < limit;
    if (2 * kept > V)
        return 0;
    kept = 0;
    for (size_t i = 0; i < count; i++)
        if (!limit || scratch->candidates[i] < limit)
            scratch->sorted[kept++] = scratch->candidates[i];
    sort_candidates(kept, scratch->sorted, scratch->sorted + kept);
    memcpy(scratch->sorted, scratch->sorted + kept, kept * sizeof *scratch->sorted);
    return kept;
}

// ---- filters ------------------------------------------------------------------------------------

// The k best and those that are as good as the k-th.
static size_t keep_top_k(const uint64_t *sorted, size_t count, size_t k)
{
    if (k == 0 || k >= count)
        return count;
    while (k < count && sorted[k] >> 32 == sorted[k - 1] >> 32)
        k++;
    return k;
}

// Those before which the probabilities of better ones sum to less than p.
static size_t keep_top_p(const double *weights, size_t count, double p)
{
    double total = 0, before = 0;
    for (size_t i = 0; i < count; i++)
        total += weights[i];
    size_t kept = 0;
    while (kept < count && (kept == 0 || before < p * total))
        before += weights[kept++];
    return kept;
}

// Those whose weight, relative to the best of 1, is at least min_p.
static size_t keep_min_p(const double *weights, size_t count, double min_p)
{
    size_t kept = 1;
    while (kept < count && weights[kept] >= min_p)
        kept++;
    return kept;
}

// exp((score - best) / temperature) of the first `count` sorted candidates.
static void set_weights(const mh_sampling *s, size_t count, const mh_sampling_scratch *scratch)
{
    const double best = candidate_score(scratch->sorted[0]);
    for (size_t i = 0; i < count; i += GROUP) {
        const size_t n = count - i < GROUP ? count - i : GROUP;
        double weights[GROUP] = {0};
        for (size_t k = 0; k < n; k++)
            weights[k] = ((double)candidate_score(scratch->sorted[i + k]) - best) / s->temperature;
        exp_group(weights);
        memcpy(scratch->weights + i, weights, n * sizeof *weights);
    }
}

static size_t filter_listed(const mh_sampling *s, size_t count, size_t V,
                            const mh_sampling_scratch *scratch)
{
    if (count == 0)
        return 0;
    const size_t head =
        s->top_k > 0 && s->top_k < count ? sort_head(count, s->top_k, V, scratch) : 0;
    if (head)
        count = head;
    else
        sort_candidates(count, scratch->candidates, scratch->sorted);
    count = keep_top_k(scratch->sorted, count, s->top_k);
    set_weights(s, count, scratch);
    if (s->top_p < 1)
        count = keep_top_p(scratch->weights, count, s->top_p);
    if (s->min_p > 0)
        count = keep_min_p(scratch->weights, count, s->min_p);
    return count;
}

size_t mh_filter_candidates(const mh_sampling *s, const float *scores, size_t V,
                            const mh_sampling_scratch *scratch)
{
    return filter_listed(s, list_candidates(scores, V, scratch), V, scratch);
}

// ---- the choice ---------------------------------------------------------------------------------

static int32_t find_likeliest(const float *scores, size_t V)
{
    const float most = find_most(scores, V);
    size_t i = 0;
    while (i < V && scores[i] != most)
        i++;
    return most > -INFINITY ? (int32_t)i : -1;
}

// Uniform in [0, 1), 53 bits.
static double random_number(uint64_t seed, uint64_t sequence, uint64_t position)
{
    const uint32_t counter[4] = {(uint32_t)position, (uint32_t)(position >> 32), (uint32_t)sequence,
                                 (uint32_t)(sequence >> 32)};
    const uint32_t key[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)};
    uint32_t out[4];
    mh_philox(counter, key, out);
    return (double)(((uint64_t)out[0] << 32 | out[1]) >> 11) * 0x1p-53;
}

// Of the first `count` candidates, the one that the random number falls on.
static int32_t choose_candidate(size_t count, double random, const mh_sampling_scratch *scratch)
{
    double total = 0, sum = 0;
    for (size_t i = 0; i < count; i++)
        total += scratch->weights[i];
    const double wanted = random * total;
    size_t i = 0;
    for (; i + 1 < count; i++) {
        sum += scratch->weights[i];
        if (sum > wanted)
            break;
    }
    return mh_candidate_id(scratch->sorted[i]);
}

// ---- the choice without sorting all -------------------------------------------------------------
//
// The order of the candidates is part of the result, as sums in double depend on it: but for the
// few best ones, whose sums are the same in a shorter list, only the sum of all weights does, which
// is known within bounds from the sum in any order. Where both bounds lead to the same token, it is
// the token.

typedef struct sum_bounds {
    double low, high;
} sum_bounds;

// Of the sum of all weights, in any order.
static sum_bounds bound_total(const mh_sampling *s, const float *scores, size_t V)
{
    const double best = find_most(scores, V), factor = 1 / s->temperature;
    double sums[GROUP] = {0}, terms[GROUP], total = 0;
    for (size_t i = 0; i < V; i += GROUP) {
        const size_t n = V - i < GROUP ? V - i : GROUP;
        for (size_t k = 0; k < GROUP; k++)
            terms[k] = k < n ? ((double)scores[i + k] - best) * factor : -INFINITY;
        exp_group(terms);
        for (size_t k = 0; k < GROUP; k++)
            sums[k] += terms[k];
    }
    for (size_t k = 0; k < GROUP; k++)
        total += sums[k];
    // rounding of V sums, and of the factor where the exponent is -708
    const double error = 1e-12 + (double)V * 0x1p-51;
    return (sum_bounds){total * (1 - error), total * (1 + error)};
}

// The first candidates whose weights reach `limit`; `count` if they do not.
static size_t reach(const double *weights, size_t count, double limit)
{
    double sum = 0;
    size_t i = 0;
    while (i < count && (sum += weights[i]) <= limit)
        i++;
    return i;
}

// keep_top_p() of a list that goes on.
static size_t keep_below(const double *weights, size_t count, double limit)
{
    double before = 0;
    size_t kept = 0;
    while (kept < count && (kept == 0 || before < limit))
        before += weights[kept++];
    return kept;
}

// Whether the first `head` of more candidates decide; *id is the token then.
static bool decide(const mh_sampling *s, size_t head, sum_bounds total, double random,
                   const mh_sampling_scratch *scratch, int32_t *id)
{
    const double *weights = scratch->weights;
    size_t kept = head;
    if (s->top_p == 1 && s->min_p == 0) {
        const size_t i = reach(weights, head, random * total.low);
        *id = i < head ? mh_candidate_id(scratch->sorted[i]) : -1;
        return i < head && i == reach(weights, head, random * total.high);
    }
    if (s->top_p < 1) {
        kept = keep_below(weights, head, s->top_p * total.low);
        if (kept == head || kept != keep_below(weights, head, s->top_p * total.high))
            return false;
    }
    if (s->min_p > 0)
        kept = keep_min_p(weights, kept, s->min_p);
    if (kept == head)
        return false;
    *id = choose_candidate(kept, random, scratch);
    return true;
}

// -1 if all candidates are needed.
static int32_t choose_early(const mh_sampling *s, size_t count, const float *scores, size_t V,
                            double random, const mh_sampling_scratch *scratch)
{
    enum { FIRST = 256, GROWTH = 8 };
    sum_bounds total = {0, 0};
    int32_t id = -1;
    if ((s->top_k > 0 && s->top_k < count) || s->temperature < 1e-300)
        return -1;
    if (s->top_p < 1 || s->min_p == 0)
        total = bound_total(s, scores, V);
    for (size_t wanted = FIRST; wanted < count; wanted *= GROWTH) {
        const size_t head = sort_head(count, wanted, V, scratch);
        if (!head)
            return -1;
        set_weights(s, head, scratch);
        if (decide(s, head, total, random, scratch, &id))
            return id;
    }
    return -1;
}

int32_t mh_sample_token(const mh_sampling *s, uint64_t sequence, uint64_t position,
                        const float *scores, size_t V, const mh_sampling_scratch *scratch)
{
    if (s->temperature == 0)
        return find_likeliest(scores, V);
    const double random = random_number(s->seed, sequence, position);
    const size_t listed = list_candidates(scores, V, scratch);
    const int32_t early = choose_early(s, listed, scores, V, random, scratch);
    if (early >= 0)
        return early;
    const size_t count = filter_listed(s, listed, V, scratch);
    return count ? choose_candidate(count, random, scratch) : -1;
}
