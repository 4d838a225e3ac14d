// SPDX-License-Identifier: MIT
// Sampling against a naive reference in double, written as transformers' logits processors are:
// repetition penalty, temperature, top-k with ties, top-p, min-p; and frequencies of samples.
#include "base/philox.h"
#include "model/sampling.h"
#include "support.h"
#include <math.h>
#include <stdlib.h>

enum { V = 500 };

static float scores[V];
static uint64_t candidates[V], sorted[V];
static double weights[V];
static const mh_sampling_scratch scratch = {scores, candidates, sorted, weights};

static float random_float(uint64_t *state)
{
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (float)(*state >> 40) * 0x1p-24f;
}

// ---- the reference ------------------------------------------------------------------------------

static double z[V];

static int by_score(const void *a, const void *b)
{
    const int32_t i = *(const int32_t *)a, j = *(const int32_t *)b;
    return z[i] != z[j] ? (z[i] < z[j] ? 1 : -1) : (i > j) - (i < j);
}

// p = softmax(z), 0 where z is -infinity.
static void reference_softmax(double *p)
{
    double most = -INFINITY, sum = 0;
    for (int i = 0; i < V; i++)
        most = fmax(most, z[i]);
    for (int i = 0; i < V; i++)
        sum += p[i] = exp(z[i] - most);
    for (int i = 0; i < V; i++)
        p[i] /= sum;
}

static void keep_if(const bool *keep)
{
    for (int i = 0; i < V; i++)
        if (!keep[i])
            z[i] = -INFINITY;
}

static void reference_filter(const mh_sampling *s, const float *logits)
{
    int32_t order[V];
    double p[V];
    bool keep[V];
    for (int i = 0; i < V; i++) {
        z[i] = (double)logits[i] / s->temperature;
        order[i] = i;
    }
    qsort(order, V, sizeof *order, by_score);
    if (s->top_k > 0 && s->top_k < V) {
        const double least = z[order[s->top_k - 1]];
        for (int i = 0; i < V; i++)
            keep[i] = z[i] >= least;
        keep_if(keep);
    }
    reference_softmax(p);
    double tail = 0; // from the least likely one on
    for (int r = V - 1; r >= 0; r--) {
        tail += p[order[r]];
        keep[order[r]] = tail > 1 - s->top_p || r == 0;
    }
    if (s->top_p < 1)
        keep_if(keep);
    reference_softmax(p);
    double most = 0;
    for (int i = 0; i < V; i++)
        most = fmax(most, p[i]);
    for (int i = 0; i < V; i++)
        keep[i] = p[i] >= s->min_p * most;
    keep_if(keep);
}

// ---- filters ------------------------------------------------------------------------------------

static void expect_filtered(const mh_sampling *s, const float *logits)
{
    double p[V], total = 0;
    reference_filter(s, logits);
    reference_softmax(p);
    const size_t count = mh_filter_candidates(s, logits, V, &scratch);
    size_t kept = 0;
    for (int i = 0; i < V; i++)
        kept += z[i] > -INFINITY;
    assert_int_equal(count, kept);
    for (size_t i = 0; i < count; i++)
        total += weights[i];
    for (size_t i = 0; i < count; i++) {
        const int32_t id = mh_candidate_id(sorted[i]);
        assert_true(fabs(weights[i] / total - p[id]) <= 1e-13);
        if (i > 0) {
            const int32_t before = mh_candidate_id(sorted[i - 1]);
            assert_true(logits[before] > logits[id] ||
                        (logits[before] == logits[id] && before < id));
        }
    }
}

static void filters_are_those_of_the_reference(void **state)
{
    (void)state;
    static const mh_sampling cases[] = {
        {1, 0, 1, 0, 0},        {0.7, 0, 1, 0, 0},    {1.5, 10, 1, 0, 0},   {1, 1, 1, 0, 0},
        {1, 1000, 1, 0, 0},     {1, 0, 0.9, 0, 0},    {0.5, 0, 0.3, 0, 0},  {2, 0, 0.999, 0, 0},
        {1, 0, 1e-9, 0, 0},     {1, 0, 1, 0.1, 0},    {1, 0, 1, 1, 0},      {0.8, 50, 0.9, 0.02, 0},
        {1.3, 7, 0.95, 0.5, 0}, {0.01, 0, 0.9, 0, 0}, {100, 0, 0.5, 0.9, 0}};
    uint64_t random = 1;
    float logits[V];
    for (int kind = 0; kind < 3; kind++) {
        for (int i = 0; i < V; i++)
            logits[i] = kind == 1 ? (float)(int)(8 * random_float(&random)) - 4 // many ties
                                  : 16 * random_float(&random) - 8;
        for (int i = 0; kind == 2 && i < V; i += 3)
            logits[i] = -INFINITY;
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
            expect_filtered(&cases[i], logits);
    }
}

// Numbers that can be checked by hand: probabilities 1/2, 1/4, 1/8, 1/16, 1/16.
static void filters_by_hand(void **state)
{
    (void)state;
    enum { FIVE = 5 };
    float logits[FIVE];
    for (int i = 0; i < FIVE; i++)
        logits[i] = -(float)((i < 4 ? i : 3) * log(2));
    const struct {
        mh_sampling s;
        size_t kept;
    } cases[] = {
        {{1, 2, 1, 0, 0}, 2},      {{1, 4, 1, 0, 0}, 5}, // the fifth is as likely as the fourth
        {{1, 0, 0.49, 0, 0}, 1},   {{1, 0, 0.51, 0, 0}, 2}, {{1, 0, 0.74, 0, 0}, 2},
        {{1, 0, 0.76, 0, 0}, 3},   {{1, 0, 0.93, 0, 0}, 4}, {{1, 0, 0.94, 0, 0}, 5},
        {{1, 0, 1, 0.26, 0}, 2},   {{1, 0, 1, 0.24, 0}, 3}, {{1, 0, 1, 0.1, 0}, 5},
        {{1, 2, 0.66, 0, 0}, 1},   {{1, 2, 0.67, 0, 0}, 2}, // of the two that are left, 2/3 and 1/3
        {{0.5, 0, 1, 0.26, 0}, 1},                          // 1, 1/4, 1/16, ...
        {{2, 0, 1, 0.7, 0}, 2},                             // 1, 0.707, 0.5, ...
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_int_equal(mh_filter_candidates(&cases[i].s, logits, FIVE, &scratch), cases[i].kept);
}

// ---- choice -------------------------------------------------------------------------------------

static void frequencies_are_the_probabilities(void **state)
{
    (void)state;
    enum { TEN = 10, SAMPLES = 50000 };
    float logits[TEN];
    double p[TEN], sum = 0, chi = 0;
    size_t counts[TEN] = {0};
    uint64_t random = 7;
    for (int i = 0; i < TEN; i++)
        logits[i] = 3 * random_float(&random);
    const mh_sampling s = {0.8, 0, 1, 0, 42};
    for (int i = 0; i < TEN; i++)
        sum += p[i] = exp((double)logits[i] / 0.8);
    for (size_t i = 0; i < SAMPLES; i++)
        counts[mh_sample_token(&s, i % 100, i / 100, logits, TEN, &scratch)]++;
    for (int i = 0; i < TEN; i++) {
        const double expected = SAMPLES * p[i] / sum;
        chi += ((double)counts[i] - expected) * ((double)counts[i] - expected) / expected;
    }
    assert_true(chi < 27.9); // 9 degrees of freedom, 1 of 1000 seeds is above
    assert_true(chi > 0.9);  // nor is it too good
}

static void choice_depends_on_seed_sequence_and_position(void **state)
{
    (void)state;
    float logits[V] = {0};
    mh_sampling s = {1, 0, 1, 0, 5};
    const int32_t id = mh_sample_token(&s, 3, 9, logits, V, &scratch);
    assert_int_equal(mh_sample_token(&s, 3, 9, logits, V, &scratch), id);
    size_t same[3] = {0};
    for (uint64_t i = 1; i <= 100; i++) {
        same[0] += mh_sample_token(&s, 3 + i, 9, logits, V, &scratch) == id;
        same[1] += mh_sample_token(&s, 3, 9 + i, logits, V, &scratch) == id;
        const mh_sampling other = {1, 0, 1, 0, 5 + i};
        same[2] += mh_sample_token(&other, 3, 9, logits, V, &scratch) == id;
    }
    for (int i = 0; i < 3; i++)
        assert_true(same[i] < 5);
}

// ---- the choice without sorting all -------------------------------------------------------------

enum { LARGE = 32003 };

static float large[LARGE];
static mh_sampling_scratch large_scratch;

// As mh_sample_token() is described: the whole list in order, summed in that order.
static int32_t choose_from_all(const mh_sampling *s, uint64_t sequence, uint64_t position)
{
    const uint32_t counter[4] = {(uint32_t)position, (uint32_t)(position >> 32), (uint32_t)sequence,
                                 (uint32_t)(sequence >> 32)};
    const uint32_t key[2] = {(uint32_t)s->seed, (uint32_t)(s->seed >> 32)};
    uint32_t out[4];
    mh_philox(counter, key, out);
    const double random = (double)(((uint64_t)out[0] << 32 | out[1]) >> 11) * 0x1p-53;
    const size_t count = mh_filter_candidates(s, large, LARGE, &large_scratch);
    double total = 0, sum = 0;
    for (size_t i = 0; i < count; i++)
        total += large_scratch.weights[i];
    size_t i = 0;
    for (; i + 1 < count; i++)
        if ((sum += large_scratch.weights[i]) > random * total)
            break;
    return mh_candidate_id(large_scratch.sorted[i]);
}

// Kinds: as of a language model, flat, equal but for few, many ties, many that cannot come.
static void fill_large(int kind, uint64_t *random)
{
    for (int i = 0; i < LARGE; i++) {
        float x = 0;
        for (int k = 0; k < 8; k++)
            x += random_float(random) - 0.5f;
        large[i] = kind == 0   ? 4 * x
                   : kind == 1 ? 1e-3f * x
                   : kind == 2 ? (float)(i % 1000 == 7)
                   : kind == 3 ? (float)(int)(4 * x)
                               : (i % 100 ? -INFINITY : 4 * x);
    }
}

static void the_choice_is_that_of_the_whole_list(void **state)
{
    (void)state;
    enum { KINDS = 5, SAMPLES = 40 };
    static const mh_sampling cases[] = {
        {1, 0, 1, 0, 1},         {0.3, 0, 1, 0, 2},   {3, 0, 1, 0, 3},     {1, 50, 1, 0, 4},
        {1, 1, 1, 0, 5},         {1, 20000, 1, 0, 6}, {1, 0, 0.9, 0, 7},   {1, 0, 1e-9, 0, 8},
        {1, 0, 0.9999, 0, 9},    {1, 0, 1, 0.05, 10}, {1, 0, 1, 1e-6, 11}, {0.8, 40, 0.9, 0.02, 12},
        {1.2, 0, 0.95, 0.01, 13}};
    uint64_t random = 5;
    large_scratch.scores = malloc(LARGE * sizeof(float));
    large_scratch.candidates = malloc(LARGE * sizeof(uint64_t));
    large_scratch.sorted = malloc(LARGE * sizeof(uint64_t));
    large_scratch.weights = malloc(LARGE * sizeof(double));
    for (int kind = 0; kind < KINDS; kind++)
        for (size_t c = 0; c < sizeof cases / sizeof *cases; c++)
            for (size_t i = 0; i < SAMPLES; i++) {
                if (i % 10 == 0)
                    fill_large(kind, &random);
                const int32_t expected = choose_from_all(&cases[c], i, c);
                assert_int_equal(mh_sample_token(&cases[c], i, c, large, LARGE, &large_scratch),
                                 expected);
            }
    free(large_scratch.scores);
    free(large_scratch.candidates);
    free(large_scratch.sorted);
    free(large_scratch.weights);
}

static void the_likeliest_has_the_lowest_id(void **state)
{
    (void)state;
    const mh_sampling greedy = {0, 0, 1, 0, 0}, one = {1, 1, 0.01, 0, 0};
    float logits[] = {-INFINITY, 1, 3, -2, 3, 0};
    assert_int_equal(mh_sample_token(&greedy, 0, 0, logits, 6, &scratch), 2);
    assert_int_equal(mh_sample_token(&one, 0, 0, logits, 6, &scratch), 2);
    logits[2] = 0.0f;
    logits[4] = -0.0f; // as good as 0
    logits[1] = -1;
    assert_int_equal(mh_sample_token(&greedy, 0, 0, logits, 6, &scratch), 2);
    assert_int_equal(mh_sample_token(&one, 0, 0, logits, 6, &scratch), 2);
    for (int i = 0; i < 6; i++)
        logits[i] = -INFINITY;
    assert_int_equal(mh_sample_token(&greedy, 0, 0, logits, 6, &scratch), -1);
    assert_int_equal(mh_sample_token(&one, 0, 0, logits, 6, &scratch), -1);
}

// ---- log-probabilities and penalty --------------------------------------------------------------

static void log_sums(void **state)
{
    (void)state;
    uint64_t random = 3;
    float logits[V];
    for (double scale = 1e-3; scale < 1e4; scale *= 10) {
        double most = -INFINITY, sum = 0;
        for (int i = 0; i < V; i++) {
            logits[i] = (float)scale * (random_float(&random) - 0.5f);
            most = fmax(most, logits[i]);
        }
        for (int i = 0; i < V; i++)
            sum += exp((double)logits[i] - most);
        const double expected = most + log(sum);
        assert_true(fabs(mh_log_sum_exp(logits, V) - expected) <= 1e-14 * (1 + fabs(expected)));
    }
    logits[7] = -INFINITY;
    assert_true(isfinite(mh_log_sum_exp(logits, V)));
    logits[7] = NAN;
    assert_true(isnan(mh_log_sum_exp(logits, V)));
    logits[7] = INFINITY;
    assert_true(isnan(mh_log_sum_exp(logits, V)));
    logits[7] = -INFINITY;
    assert_true(isnan(mh_log_sum_exp(logits + 7, 1)));
}

static void top_scores(void **state)
{
    (void)state;
    const float logits[] = {1, 5, 3, 5, -INFINITY, 4};
    mh_token_score top[7];
    mh_top_scores(logits, 6, 2, 7, top);
    static const int32_t ids[] = {1, 3, 5, 2, 0, 4, -1};
    for (int i = 0; i < 7; i++)
        assert_int_equal(top[i].id, ids[i]);
    assert_true(top[0].logprob == 3 && top[2].logprob == 2 && top[6].logprob == -INFINITY);
    mh_top_scores(logits, 6, 0, 2, top);
    assert_true(top[0].id == 1 && top[1].id == 3);
}

static void repetition_counts_once(void **state)
{
    (void)state;
    const float logits[] = {2, -2, 3, 0};
    float found[] = {2, -2, 3, 0};
    const int32_t ids[] = {0, 1, 0, 0, 3};
    mh_penalise_repetition(4, logits, 0, ids, 5, found);
    assert_true(found[0] == 0.5f && found[1] == -8 && found[2] == 3 && found[3] == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(filters_are_those_of_the_reference),
        cmocka_unit_test(filters_by_hand),
        cmocka_unit_test(frequencies_are_the_probabilities),
        cmocka_unit_test(choice_depends_on_seed_sequence_and_position),
        cmocka_unit_test(the_choice_is_that_of_the_whole_list),
        cmocka_unit_test(the_likeliest_has_the_lowest_id),
        cmocka_unit_test(log_sums),
        cmocka_unit_test(top_scores),
        cmocka_unit_test(repetition_counts_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
