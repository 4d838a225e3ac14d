// SPDX-License-Identifier: MIT
// Transformers of general blocks against the double reference of tests/ref/ref_block.c, at every
// instruction-set level: outputs and taps of random stacks with every setting of block.h, batched,
// packed and alone.
//
// The error is judged by that of plain loops over floats: the same reference, with every result
// rounded to f32. In one case either may be lucky, so the bound of a single case is wider than that
// of their mean.
#include "block_case.h"
#include "nn_support.h"
#include "ref/ref_tensor.h"

#include <inttypes.h>
#include <math.h>

enum { CASES = 150 };

static const double mean_ratio = 1.2, case_ratio = 8, smallest = 1e-6;

typedef struct totals {
    double found, loops, worst, score;
} totals;

static double rms_error(size_t n, const float *found, const double *loops, const double *expected,
                        double *other)
{
    double sum = 0, sum_loops = 0, square = 0;
    for (size_t i = 0; i < n; i++) {
        const double d = (double)found[i] - expected[i], e = loops[i] - expected[i];
        sum += d * d;
        sum_loops += e * e;
        square += expected[i] * expected[i];
    }
    square += 1e-3 * (double)n;
    *other = sqrt(sum_loops / square);
    return isnan(sum) ? INFINITY : sqrt(sum / square);
}

static void judge(const block_case *c, uint64_t seed, double error, double loops, totals *t)
{
    t->found += error;
    t->loops += loops;
    t->worst = fmax(t->worst, error / (loops + smallest));
    if (error <= case_ratio * loops + smallest)
        return;
    block_case_print(c);
    fail_msg("MH_TEST_SEED=%" PRIu64
             " MH_TEST_CASES=1: the error is %.3g, that of float loops %.3g",
             seed, error, loops);
}

static void check_forward(mh_context *context, uint64_t seed, totals *t)
{
    test_rng rng = {seed};
    block_case c;
    block_case_create(&rng, false, &c);
    mh_transformer *module = block_case_module(context, &c, true);
    const mh_parameters *list = mh_transformer_parameters(module);
    block_case_randomise(&c, list, seed);
    const size_t n[2] = {block_case_rows(&c, 0) * c.D, block_case_rows(&c, 1) * c.D};
    const size_t outputs = n[block_case_output(&c)];
    float *src = nn_floats(seed + 1, n[0]), *tgt = nn_floats(seed + 2, n[1]);
    float *out = ref_alloc(outputs, sizeof *out);
    double *values = block_widen(list->floats, list->values), *x = block_widen(n[0], src);
    double *y = block_widen(n[1], tgt), *expected = ref_alloc(outputs, sizeof *expected);
    double *loops = ref_alloc(outputs, sizeof *loops), score, other;
    const mh_transformer_options o = block_case_options(&c);
    test_ok(context, block_case_forward(context, module, &c, &o, src, tgt, out));
    block_case_reference(&c, list, values, false, x, y, expected, NULL, &score);
    block_case_reference(&c, list, values, true, x, y, loops, NULL, NULL);
    const double error = rms_error(outputs, out, loops, expected, &other);
    t->score += score;
    judge(&c, seed, error, other, t);
    void *all[] = {src, tgt, out, values, x, y, expected, loops};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        free(all[i]);
    mh_transformer_free(module);
}

static void forward(void **state)
{
    (void)state;
    const size_t count = test_cases(CASES);
    for (size_t level = 0; test_level(level); level++) {
        mh_context *context = test_context(test_level(level), 2);
        totals t = {0};
        for (size_t n = 0; n < count; n++)
            check_forward(context, test_seed() + n, &t);
        print_message("%-8s mean error %.2g, float loops %.2g, worst ratio %.2g, mean of the "
                      "largest score %.2g\n",
                      test_level(level), t.found / (double)count, t.loops / (double)count, t.worst,
                      t.score / (double)count);
        assert_true(count < CASES || t.found <= mean_ratio * t.loops);
        mh_context_free(context);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(forward),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
