// SPDX-License-Identifier: MIT
// mh_embedding, its backward, sinusoidal positions and mh_rope: random cases against the double
// reference at every instruction-set level; positions to 10^6; equal bits for 1..8 threads;
// refusals.
#include "ref/ref_layers.h"
#include "ref/ref_tensor.h"
#include "support.h"

#include <float.h>
#include <inttypes.h>
#include <math.h>

enum { CASES = 300 };

static const double eps = FLT_EPSILON;

// ---- embedding ----------------------------------------------------------------------------------

typedef struct embedding_case {
    size_t V, D, count, shape[4];
    int rank; // of the ids
    int64_t padding;
    test_tensor table, ids, y, dy, dtable;
} embedding_case;

static void create(embedding_case *c, test_rng *rng)
{
    *c = (embedding_case){.V = test_between(rng, 1, 20),
                          .D = test_between(rng, 1, test_chance(rng, 0.3) ? 600 : 40),
                          .rank = (int)test_between(rng, 0, 3),
                          .count = 1};
    for (int d = 0; d < c->rank; d++) {
        c->shape[d] = test_between(rng, 1, 8);
        c->count *= c->shape[d];
    }
    c->shape[c->rank] = c->D;
    c->padding = test_chance(rng, 0.5) ? -1 : (int64_t)test_between(rng, 0, c->V - 1);
    size_t table[2] = {c->V, c->D};
    c->table = test_tensor_random(rng, test_float_dtype(rng), 2, table, true);
    c->dtable = test_tensor_random(rng, MH_F32, 2, table, false);
    c->ids =
        test_tensor_random(rng, test_chance(rng, 0.5) ? MH_I32 : MH_I64, c->rank, c->shape, true);
    c->y = test_tensor_random(rng, test_float_dtype(rng), c->rank + 1, c->shape, false);
    c->dy = test_tensor_random(rng, test_float_dtype(rng), c->rank + 1, c->shape, true);
    test_fill_normal(rng, &c->table.view, 1);
    test_fill_normal(rng, &c->dy.view, 1);
    test_fill_constant(&c->dtable.view, 2);
    size_t index[MH_MAX_RANK] = {0};
    do
        ref_set(&c->ids.view, index, (double)test_between(rng, 0, c->V - 1));
    while (ref_next(&c->ids.view, index));
}

static void embedding_case_run(mh_context *context, uint64_t seed)
{
    test_rng rng = {seed};
    embedding_case c;
    create(&c, &rng);
    const float scale = test_chance(&rng, 0.5) ? 1 : 22.627f;
    test_ok(context, mh_embedding(context, &c.table.view, &c.ids.view, scale, &c.y.view));
    test_ok(context, mh_embedding_backward(context, &c.ids.view, scale, c.padding, &c.dy.view,
                                           &c.dtable.view));
    double *sum = ref_alloc(c.V * c.D, sizeof *sum), *size = ref_alloc(c.V * c.D, sizeof *size);
    double *ids = ref_load(&c.ids.view), *dy = ref_load(&c.dy.view), *y = ref_load(&c.y.view);
    for (size_t i = 0; i < c.count; i++)
        for (size_t d = 0; d < c.D; d++) {
            size_t id = (size_t)ids[i], at[2] = {id, d};
            double expected = (double)scale * ref_get(&c.table.view, at),
                   g = (double)scale * dy[i * c.D + d];
            if (!(test_error_ratio(y[i * c.D + d], expected, 0.51 * eps * fabs(expected),
                                   c.y.view.dtype) <= 1))
                fail_msg("y: found %.9g, expected %.9g\n  MH_TEST_SEED=%" PRIu64 " MH_TEST_CASES=1",
                         y[i * c.D + d], expected, seed);
            sum[id * c.D + d] += (int64_t)id == c.padding ? 0 : g;
            size[id * c.D + d] += fabs(g) + 2;
        }
    for (size_t i = 0; i < c.V * c.D; i++) {
        size_t at[2] = {i / c.D, i % c.D};
        double found = ref_get(&c.dtable.view, at);
        if (!(fabs(found - (2 + sum[i])) <= 8 * eps * size[i]))
            fail_msg("dtable (%zu, %zu): found %.9g, expected %.9g\n  MH_TEST_SEED=%" PRIu64
                     " MH_TEST_CASES=1",
                     at[0], at[1], found, 2 + sum[i], seed);
    }
    assert_true(test_guards_intact(&c.y) && test_guards_intact(&c.dtable));
    double *all[] = {sum, size, ids, dy, y};
    for (int i = 0; i < 5; i++)
        free(all[i]);
    test_tensor *tensors[] = {&c.table, &c.ids, &c.y, &c.dy, &c.dtable};
    for (int i = 0; i < 5; i++)
        test_tensor_free(tensors[i]);
}

// ---- sinusoids ----------------------------------------------------------------------------------

static void sinusoid_case(mh_context *context, uint64_t seed)
{
    test_rng rng = {seed};
    size_t shape[2] = {test_between(&rng, 1, 40), test_between(&rng, 1, 70)};
    int64_t first = test_chance(&rng, 0.3) ? 0 : (int64_t)test_between(&rng, 0, 1000000);
    const float scale = test_chance(&rng, 0.7) ? 1 : 0.1f;
    test_tensor y = test_tensor_random(&rng, test_float_dtype(&rng), 2, shape, false);
    test_ok(context, mh_positions_sinusoidal(context, first, scale, &y.view));
    size_t index[MH_MAX_RANK] = {0};
    do {
        double position = (double)first + (double)index[0];
        double expected = (double)scale * ref_sinusoid(shape[1], index[1], position);
        double found = ref_get(&y.view, index);
        if (!(test_error_ratio(found, expected, eps * fabs(expected) + 2e-9, y.view.dtype) <= 1))
            fail_msg("position %g, column %zu of %zu: found %.9g, expected %.9g", position,
                     index[1], shape[1], found, expected);
    } while (ref_next(&y.view, index));
    assert_true(test_guards_intact(&y));
    test_tensor_free(&y);
}

// ---- rotary positions ---------------------------------------------------------------------------

typedef struct rope_case {
    size_t shape[4];
    mh_rope_options options;
    test_tensor x, y, positions, cosine, sine;
} rope_case;

// Fills cosine and sine (P, width/2) by the formula.
static void fill_caches(rope_case *c, size_t width)
{
    size_t index[2] = {0, 0};
    do {
        double angle =
            (double)index[0] * pow(c->options.base, -2.0 * (double)index[1] / (double)width);
        ref_set(&c->cosine.view, index, cos(angle));
        ref_set(&c->sine.view, index, sin(angle));
    } while (ref_next(&c->cosine.view, index));
}

static void create_rope(rope_case *c, test_rng *rng)
{
    *c = (rope_case){.options = mh_rope_options_default()};
    for (int d = 0; d < 3; d++)
        c->shape[d] = test_between(rng, 1, 6);
    const size_t E = c->shape[3] = 2 * test_between(rng, 1, 40);
    mh_rope_options *o = &c->options;
    o->interleaved = test_chance(rng, 0.5);
    o->width = test_chance(rng, 0.6) ? 0 : 2 * test_between(rng, 1, E / 2);
    o->base = test_chance(rng, 0.5) ? 10000 : 500000;
    c->x = test_tensor_random(rng, test_float_dtype(rng), 4, c->shape, true);
    c->y = test_tensor_random(rng, test_float_dtype(rng), 4, c->shape, false);
    test_fill_normal(rng, &c->x.view, 1);
    const size_t kind = test_between(rng, 0, 3), width = o->width ? o->width : E;
    if (kind == 0)
        o->first = (int64_t)test_between(rng, 0, 1000000);
    if (kind == 1 || kind == 2) { // (B, 1, T), or (T) alone
        size_t shape[3] = {c->shape[0], 1, c->shape[2]}, index[3] = {0};
        bool few = test_chance(rng, 0.5);
        c->positions = test_tensor_random(rng, few ? MH_I32 : MH_I64, few ? 1 : 3,
                                          few ? shape + 2 : shape, true);
        do
            ref_set(&c->positions.view, index,
                    (double)test_between(rng, 0, kind == 1 ? 100000 : 49));
        while (ref_next(&c->positions.view, index));
        o->positions = &c->positions.view;
    }
    if (kind >= 2) { // the caller's tables
        size_t shape[2] = {kind == 2 ? 50 : c->shape[2], width / 2};
        c->cosine = test_tensor_random(rng, MH_F32, 2, shape, false);
        c->sine = test_tensor_random(rng, MH_F32, 2, shape, false);
        fill_caches(c, width);
        o->cosine = &c->cosine.view;
        o->sine = &c->sine.view;
    }
}

static double position_of(const rope_case *c, const size_t *index)
{
    if (!c->options.positions)
        return (double)c->options.first + (double)index[2];
    return ref_get_broadcast(c->options.positions, 3, index);
}

static void rope_case_run(mh_context *context, uint64_t seed)
{
    test_rng rng = {seed};
    rope_case c;
    create_rope(&c, &rng);
    const size_t E = c.shape[3], width = c.options.width ? c.options.width : E;
    double x[80], y[80], back[80];
    test_ok(context, mh_rope(context, &c.options, &c.x.view, &c.y.view));
    size_t index[4] = {0};
    do {
        if (index[3])
            continue;
        double position = position_of(&c, index), top = 0;
        for (size_t e = 0; e < E; e++) {
            size_t at[4] = {index[0], index[1], index[2], e};
            x[e] = ref_get(&c.x.view, at);
            back[e] = ref_get(&c.y.view, at);
            top = fmax(top, fabs(x[e]));
        }
        ref_rope(c.options.interleaved, E, width, position, c.options.base, x, y);
        for (size_t e = 0; e < E; e++)
            if (!(test_error_ratio(back[e], y[e], 2 * eps * top + 1e-8 * top, c.y.view.dtype) <= 1))
                fail_msg("position %g, element %zu of %zu (width %zu): found %.9g, expected "
                         "%.9g\n  MH_TEST_SEED=%" PRIu64 " MH_TEST_CASES=1",
                         position, e, E, width, back[e], y[e], seed);
    } while (ref_next(&c.x.view, index));
    assert_true(test_guards_intact(&c.y));
    if (c.y.view.dtype == MH_F32) { // there and back, in place
        c.options.inverse = true;
        test_ok(context, mh_rope(context, &c.options, &c.y.view, &c.y.view));
        memset(index, 0, sizeof index);
        do
            assert_true(fabs(ref_get(&c.y.view, index) - ref_get(&c.x.view, index)) < 1e-5);
        while (ref_next(&c.x.view, index));
    }
    test_tensor *all[] = {&c.x, &c.y, &c.positions, &c.cosine, &c.sine};
    for (int i = 0; i < 5; i++)
        test_tensor_free(all[i]);
}

static void embeddings(void **state)
{
    (void)state;
    test_run_cases(CASES, embedding_case_run);
}

static void sinusoids(void **state)
{
    (void)state;
    test_run_cases(CASES, sinusoid_case);
}

static void ropes(void **state)
{
    (void)state;
    test_run_cases(CASES, rope_case_run);
}

// ---- bits ---------------------------------------------------------------------------------------

enum { IDS = 500, VOCABULARY = 37, WIDTH = 330 };

typedef struct results {
    float y[IDS][WIDTH], dtable[VOCABULARY][WIDTH], sinusoids[IDS][WIDTH], rope[2][IDS][WIDTH];
} results;

static void compute(mh_context *context, results *r)
{
    static float table[VOCABULARY][WIDTH];
    static int32_t ids[IDS];
    test_rng rng = {9};
    for (size_t i = 0; i < VOCABULARY * WIDTH; i++)
        table[i / WIDTH][i % WIDTH] = (float)test_normal(&rng);
    for (size_t i = 0; i < IDS; i++)
        ids[i] = (int32_t)test_between(&rng, 0, VOCABULARY - 1);
    mh_tensor t = mh_tensor_2d(table, MH_F32, VOCABULARY, WIDTH),
              i = mh_tensor_1d(ids, MH_I32, IDS);
    mh_tensor y = mh_tensor_2d(r->y, MH_F32, IDS, WIDTH);
    mh_tensor d = mh_tensor_2d(r->dtable, MH_F32, VOCABULARY, WIDTH);
    mh_tensor s = mh_tensor_2d(r->sinusoids, MH_F32, IDS, WIDTH);
    memset(r->dtable, 0, sizeof r->dtable);
    test_ok(context, mh_embedding(context, &t, &i, 3, &y));
    test_ok(context, mh_embedding_backward(context, &i, 3, 0, &y, &d));
    test_ok(context, mh_positions_sinusoidal(context, 5, 1, &s));
    mh_rope_options options = mh_rope_options_default();
    for (int interleaved = 0; interleaved < 2; interleaved++) {
        mh_tensor to = mh_tensor_2d(r->rope[interleaved], MH_F32, IDS, WIDTH);
        options.interleaved = interleaved;
        test_ok(context, mh_rope(context, &options, &y, &to));
    }
}

static void bits(void **state)
{
    (void)state;
    static results first, r;
    for (size_t level = 0; test_level(level); level++)
        for (size_t threads = 1; threads <= 8; threads++) {
            mh_context *context = test_context(test_level(level), threads);
            compute(context, threads == 1 ? &first : &r);
            if (threads > 1)
                assert_memory_equal(&first, &r, sizeof r);
            mh_context_free(context);
        }
}

// ---- refusals -----------------------------------------------------------------------------------

static void errors(void **state)
{
    (void)state;
    mh_context *context = test_context(NULL, 1);
    float data[40] = {0};
    int64_t numbers[3] = {0, 7, 2};
    int32_t negative[3] = {0, 1, -1};
    test_tensor y = test_tensor_dense(MH_F32, 2, (size_t[]){3, 4});
    mh_tensor table = mh_tensor_2d(data, MH_F32, 5, 4), none = mh_tensor_2d(data, MH_F32, 0, 4);
    mh_tensor ids = mh_tensor_1d(numbers, MH_I64, 3), below = mh_tensor_1d(negative, MH_I32, 3);
    mh_tensor x = mh_tensor_2d(data, MH_F32, 3, 4), odd = mh_tensor_2d(data, MH_F32, 3, 3);
    mh_tensor cache = mh_tensor_2d(data, MH_F32, 7, 2);
    test_refused(context, mh_embedding(context, &table, &ids, 1, &y.view), MH_ERROR_ARGUMENT,
                 "element 1 is 7, expected 0 to 4");
    test_refused(context, mh_embedding(context, &table, &below, 1, &y.view), MH_ERROR_ARGUMENT,
                 "element 2 is -1");
    test_refused(context, mh_embedding(context, &none, &below, 1, &y.view), MH_ERROR_ARGUMENT,
                 "element 0 is 0");
    test_refused(context, mh_embedding(context, &table, &x, 1, &y.view), MH_ERROR_UNSUPPORTED,
                 "ids");
    test_refused(context, mh_embedding(context, &table, &ids, 1, &table), MH_ERROR_ARGUMENT, "y");
    test_refused(context, mh_embedding_backward(context, &below, 1, -1, &x, &y.view),
                 MH_ERROR_ARGUMENT, "element 2 is -1");
    table.dtype = MH_BF16;
    test_refused(context, mh_embedding_backward(context, &ids, 1, -1, &x, &table),
                 MH_ERROR_UNSUPPORTED, "dtable");
    test_refused(context, mh_positions_sinusoidal(context, INT64_MAX, 1, &y.view),
                 MH_ERROR_ARGUMENT, "first");
    mh_rope_options o = mh_rope_options_default();
    test_refused(context, mh_rope(context, &o, &odd, &odd), MH_ERROR_ARGUMENT, "width");
    o.width = 6;
    test_refused(context, mh_rope(context, &o, &x, &y.view), MH_ERROR_ARGUMENT, "width");
    o = mh_rope_options_default();
    o.base = 0.5;
    test_refused(context, mh_rope(context, &o, &x, &y.view), MH_ERROR_ARGUMENT, "base");
    o = mh_rope_options_default();
    o.cosine = &cache;
    test_refused(context, mh_rope(context, &o, &x, &y.view), MH_ERROR_ARGUMENT, "sine");
    o.sine = &x;
    test_refused(context, mh_rope(context, &o, &x, &y.view), MH_ERROR_ARGUMENT, "cosine");
    o.sine = &cache;
    test_refused(context, mh_rope(context, &o, &x, &y.view), MH_ERROR_ARGUMENT, "cosine");
    o.positions = &ids;
    test_refused(context, mh_rope(context, &o, &x, &y.view), MH_ERROR_ARGUMENT,
                 "element 1 is 7, expected 0 to 6");
    o = mh_rope_options_default();
    o.positions = &ids;
    o.first = 1;
    test_refused(context, mh_rope(context, &o, &x, &y.view), MH_ERROR_ARGUMENT, "first");
    o.positions = NULL;
    o.first = INT64_C(1) << 31;
    test_refused(context, mh_rope(context, &o, &x, &y.view), MH_ERROR_ARGUMENT, "first");
    o.first = 0;
    o.positions = &ids;
    numbers[2] = INT64_MIN;
    test_refused(context, mh_rope(context, &o, &x, &y.view), MH_ERROR_ARGUMENT, "element 2");
    assert_true(test_untouched(&y));
    test_tensor_free(&y);
    mh_context_free(context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(embeddings), cmocka_unit_test(sinusoids), cmocka_unit_test(ropes),
        cmocka_unit_test(bits),       cmocka_unit_test(errors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
