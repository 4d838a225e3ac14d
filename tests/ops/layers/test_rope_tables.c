// SPDX-License-Identifier: MIT
// mh_rope_tables, frequencies and amplitude: rotating with the tables has the bits of mh_rope
// without them, at every level and for any number of threads; and mh_rope with the caller's
// frequencies and amplitude against the formula.
#include "ref/ref_tensor.h"
#include "support.h"

#include <inttypes.h>
#include <math.h>

enum { CASES = 150, POSITIONS_MOST = 70, WIDTH_MOST = 24, HEADS = 3 };

typedef struct tables_case {
    mh_rope_options options;
    size_t P, E;
    int32_t numbers[POSITIONS_MOST];
    mh_tensor positions;
    double frequencies[WIDTH_MOST / 2];
    float cosine[POSITIONS_MOST * WIDTH_MOST / 2], sine[POSITIONS_MOST * WIDTH_MOST / 2];
    float x[HEADS * POSITIONS_MOST * WIDTH_MOST], y[HEADS * POSITIONS_MOST * WIDTH_MOST];
    float other[HEADS * POSITIONS_MOST * WIDTH_MOST];
} tables_case;

static void create(test_rng *rng, tables_case *c)
{
    mh_rope_options *o = &c->options;
    *o = mh_rope_options_default();
    c->P = test_between(rng, 1, POSITIONS_MOST);
    o->width = 2 * test_between(rng, 1, WIDTH_MOST / 2);
    c->E = test_between(rng, o->width, WIDTH_MOST);
    o->interleaved = test_chance(rng, 0.5);
    o->inverse = test_chance(rng, 0.5);
    o->base = test_chance(rng, 0.5) ? 10000 : 500000;
    o->amplitude = test_chance(rng, 0.5) ? 1 : (float)test_uniform(rng, 0.5, 2);
    for (size_t i = 0; i < o->width / 2; i++)
        c->frequencies[i] = test_uniform(rng, 0, 1);
    o->frequencies = test_chance(rng, 0.5) ? c->frequencies : NULL;
    for (size_t i = 0; i < c->P; i++)
        c->numbers[i] = (int32_t)test_between(rng, 0, 100000);
    c->positions = mh_tensor_1d(c->numbers, MH_I32, c->P);
    if (test_chance(rng, 0.5))
        o->positions = &c->positions;
    else
        o->first = (int64_t)test_between(rng, 0, 1000000);
    for (size_t i = 0; i < HEADS * c->P * c->E; i++)
        c->x[i] = (float)test_normal(rng);
}

static void expect_formula(const tables_case *c, uint64_t seed)
{
    const mh_rope_options *o = &c->options;
    for (size_t r = 0; r < HEADS * c->P; r++)
        for (size_t i = 0; i < o->width / 2; i++) {
            const size_t p = r % c->P, half = o->width / 2;
            const double position =
                o->positions ? (double)c->numbers[p] : (double)o->first + (double)p;
            const double turn =
                position * (o->frequencies ? c->frequencies[i]
                                           : pow(o->base, -2.0 * (double)i / (double)o->width));
            const double angle = o->inverse ? -turn : turn, factor = (double)o->amplitude;
            const size_t at = r * c->E + (o->interleaved ? 2 * i : i);
            const size_t next = at + (o->interleaved ? 1 : half);
            const double a = (double)c->x[at], b = (double)c->x[next];
            const double size = factor * (fabs(a) + fabs(b)) * 4e-7;
            const double one = factor * (a * cos(angle) - b * sin(angle));
            const double two = factor * (b * cos(angle) + a * sin(angle));
            if (!(fabs((double)c->y[at] - one) <= size && fabs((double)c->y[next] - two) <= size))
                fail_msg("MH_TEST_SEED=%" PRIu64 ": position %g, pair %zu: found %.9g, %.9g, "
                         "expected %.9g, %.9g",
                         seed, position, i, (double)c->y[at], (double)c->y[next], one, two);
        }
}

static void check_case(mh_context *context, uint64_t seed)
{
    static tables_case c;
    test_rng rng = {seed};
    create(&rng, &c);
    const size_t half = c.options.width / 2;
    const mh_tensor x = mh_tensor_3d(c.x, MH_F32, HEADS, c.P, c.E);
    mh_tensor y = mh_tensor_3d(c.y, MH_F32, HEADS, c.P, c.E);
    mh_tensor z = mh_tensor_3d(c.other, MH_F32, HEADS, c.P, c.E);
    mh_tensor cosine = mh_tensor_2d(c.cosine, MH_F32, c.P, half);
    mh_tensor sine = mh_tensor_2d(c.sine, MH_F32, c.P, half);
    test_ok(context, mh_rope(context, &c.options, &x, &y));
    expect_formula(&c, seed);
    test_ok(context, mh_rope_tables(context, &c.options, &cosine, &sine));
    mh_rope_options given = mh_rope_options_default();
    given.interleaved = c.options.interleaved;
    given.inverse = c.options.inverse;
    given.width = c.options.width;
    given.amplitude = 3; // of no effect, as the tables have theirs
    given.cosine = &cosine;
    given.sine = &sine;
    test_ok(context, mh_rope(context, &given, &x, &z));
    assert_memory_equal(c.y, c.other, HEADS * c.P * c.E * sizeof(float));
}

static void tables(void **state)
{
    (void)state;
    test_run_cases(CASES, check_case);
}

static void threads(void **state)
{
    (void)state;
    enum { P = 300, PAIRS = 16 };
    static float one[2][P * PAIRS], other[2][P * PAIRS];
    mh_rope_options o = mh_rope_options_default();
    o.width = 2 * PAIRS;
    o.first = 12345;
    for (size_t level = 0; test_level(level); level++)
        for (size_t n = 1; n <= 4; n++) {
            mh_context *context = test_context(test_level(level), n);
            float(*to)[P * PAIRS] = level || n > 1 ? other : one;
            mh_tensor cosine = mh_tensor_2d(to[0], MH_F32, P, PAIRS);
            mh_tensor sine = mh_tensor_2d(to[1], MH_F32, P, PAIRS);
            test_ok(context, mh_rope_tables(context, &o, &cosine, &sine));
            if (n > 1)
                assert_memory_equal(one, other, sizeof one);
            else
                memcpy(one, to, sizeof one);
            mh_context_free(context);
        }
}

static void errors(void **state)
{
    mh_context *context = *state;
    float a[8], b[8];
    int32_t numbers[3] = {0};
    mh_tensor cosine = mh_tensor_2d(a, MH_F32, 2, 4), sine = mh_tensor_2d(b, MH_F32, 2, 4);
    mh_tensor longer = mh_tensor_2d(b, MH_F32, 4, 2), row = mh_tensor_1d(b, MH_F32, 8);
    mh_tensor turned = mh_tensor_swap(longer, 0, 1);
    mh_tensor bf16 = mh_tensor_2d(b, MH_BF16, 2, 4);
    const mh_tensor positions = mh_tensor_1d(numbers, MH_I32, 3);
    mh_rope_options o = mh_rope_options_default();
#define REFUSED(status, word, x, y)                                                                \
    test_refused(context, mh_rope_tables(context, &o, x, y), status, word)
    REFUSED(MH_ERROR_ARGUMENT, "width", &cosine, &sine);
    o.width = 6;
    REFUSED(MH_ERROR_ARGUMENT, "width", &cosine, &sine);
    o.width = 8;
    REFUSED(MH_ERROR_ARGUMENT, "sine", &cosine, &longer);
    REFUSED(MH_ERROR_ARGUMENT, "sine", &cosine, &row);
    REFUSED(MH_ERROR_ARGUMENT, "contiguous", &turned, &sine);
    REFUSED(MH_ERROR_UNSUPPORTED, "sine", &cosine, &bf16);
    REFUSED(MH_ERROR_ARGUMENT, "sine", &cosine, &cosine);
    o.base = 0.5;
    REFUSED(MH_ERROR_ARGUMENT, "base", &cosine, &sine);
    o.base = 10000;
    o.first = INT64_C(1) << 31;
    REFUSED(MH_ERROR_ARGUMENT, "first", &cosine, &sine);
    o.first = 0;
    o.positions = &positions;
    REFUSED(MH_ERROR_ARGUMENT, "positions", &cosine, &sine);
    o.positions = NULL;
    o.cosine = &cosine;
    REFUSED(MH_ERROR_ARGUMENT, "cosine", &cosine, &sine);
    o.cosine = NULL;
    o.struct_size = 1;
    REFUSED(MH_ERROR_ARGUMENT, "struct_size", &cosine, &sine);
    o = mh_rope_options_default();
    o.width = 8;
    mh_tensor none = mh_tensor_2d(NULL, MH_F32, 0, 4);
    test_ok(context, mh_rope_tables(context, &o, &none, &none));
    test_ok(context, mh_rope_tables(context, &o, &cosine, &sine));
#undef REFUSED
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tables),
        cmocka_unit_test(threads),
        cmocka_unit_test_setup_teardown(errors, test_open_context, test_close_context),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
