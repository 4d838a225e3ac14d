// SPDX-License-Identifier: MIT
// mh_layer_norm and mh_rms_norm, forward and backward: random shapes, strides and dtypes against
// the double reference at every instruction-set level; equal bits for 1..8 threads and for a row
// alone; in place; NaN and infinities; size 0; refusals; no memory.
#include "ref/ref_layers.h"
#include "ref/ref_tensor.h"
#include "support.h"

#include <float.h>
#include <inttypes.h>
#include <math.h>

enum { CASES = 400 };

static const double eps = FLT_EPSILON;

typedef struct norm_case {
    bool rms;
    int rank;
    size_t shape[4], D, rows;
    test_tensor x, weight, bias, y, mean, rstd, dy, dx, dweight, dbias;
    bool has_weight, has_bias, accumulate;
    float epsilon;
} norm_case;

static void create(norm_case *c, test_rng *rng)
{
    *c = (norm_case){.rms = test_chance(rng, 0.5),
                     .rank = (int)test_between(rng, 1, 4),
                     .has_weight = test_chance(rng, 0.7),
                     .has_bias = test_chance(rng, 0.7),
                     .accumulate = test_chance(rng, 0.5),
                     .epsilon = test_chance(rng, 0.5) ? 1e-5f : 0.1f,
                     .rows = 1};
    c->has_bias &= !c->rms;
    for (int d = 0; d < c->rank; d++)
        c->shape[d] = test_between(rng, 1, 9);
    c->D = c->shape[c->rank - 1] = test_between(rng, 1, test_chance(rng, 0.2) ? 700 : 70);
    for (int d = 0; d < c->rank - 1; d++)
        c->rows *= c->shape[d];
    const size_t *s = c->shape;
    c->x = test_tensor_random(rng, test_float_dtype(rng), c->rank, s, true);
    c->dy = test_tensor_random(rng, test_float_dtype(rng), c->rank, s, true);
    c->y = test_tensor_random(rng, test_float_dtype(rng), c->rank, s, false);
    c->dx = test_tensor_random(rng, test_float_dtype(rng), c->rank, s, false);
    c->mean = test_tensor_random(rng, MH_F32, c->rank - 1, s, false);
    c->rstd = test_tensor_random(rng, MH_F32, c->rank - 1, s, false);
    c->weight = test_tensor_random(rng, test_float_dtype(rng), 1, &c->D, true);
    c->bias = test_tensor_random(rng, test_float_dtype(rng), 1, &c->D, true);
    c->dweight = test_tensor_random(rng, MH_F32, 1, &c->D, false);
    c->dbias = test_tensor_random(rng, MH_F32, 1, &c->D, false);
    test_fill_normal(rng, &c->x.view, 2);
    test_fill_normal(rng, &c->dy.view, 1);
    test_fill_normal(rng, &c->weight.view, 1);
    test_fill_normal(rng, &c->bias.view, 1);
    test_fill_constant(&c->dweight.view, 3);
    test_fill_constant(&c->dbias.view, -2);
}

static void destroy(norm_case *c)
{
    test_tensor *all[] = {&c->x,  &c->weight, &c->bias, &c->y,       &c->mean,
                          &c->dy, &c->rstd,   &c->dx,   &c->dweight, &c->dbias};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        test_tensor_free(all[i]);
}

static mh_status forward(mh_context *context, norm_case *c)
{
    const mh_tensor *weight = c->has_weight ? &c->weight.view : NULL;
    return c->rms ? mh_rms_norm(context, &c->x.view, weight, c->epsilon, &c->y.view, &c->rstd.view)
                  : mh_layer_norm(context, &c->x.view, weight, c->has_bias ? &c->bias.view : NULL,
                                  c->epsilon, &c->y.view, &c->mean.view, &c->rstd.view);
}

static mh_status backward(mh_context *context, norm_case *c)
{
    const mh_tensor *weight = c->has_weight ? &c->weight.view : NULL;
    return c->rms ? mh_rms_norm_backward(context, &c->x.view, weight, &c->rstd.view, &c->dy.view,
                                         &c->dx.view, &c->dweight.view, c->accumulate)
                  : mh_layer_norm_backward(context, &c->x.view, weight, &c->mean.view,
                                           &c->rstd.view, &c->dy.view, &c->dx.view,
                                           &c->dweight.view, &c->dbias.view, c->accumulate);
}

static double worst(const mh_tensor *t, const double *expected, const double *bound, size_t bounds)
{
    double most = 0;
    size_t index[MH_MAX_RANK] = {0}, n = 0;
    do {
        most = fmax(most,
                    test_error_ratio(ref_get(t, index), expected[n], bound[n % bounds], t->dtype));
        n++;
    } while (ref_next(t, index));
    return most;
}

// Rounding of the mean is a shift of all of the row, hence the bound by its size.
static double compare(norm_case *c)
{
    const size_t D = c->D, count = c->rows * D;
    double *x = ref_load(&c->x.view), *dy = ref_load(&c->dy.view);
    double *w = ref_load(&c->weight.view), *b = ref_load(&c->bias.view);
    double *y = ref_alloc(count, sizeof *y), *dx = ref_alloc(count, sizeof *dx);
    double *by = ref_alloc(count, sizeof *by), *bx = ref_alloc(count, sizeof *bx);
    double *dw = ref_alloc(D, sizeof *dw), *db = ref_alloc(D, sizeof *db);
    double *bw = ref_alloc(D, sizeof *bw), *bb = ref_alloc(D, sizeof *bb);
    for (size_t i = 0; i < D; i++) {
        dw[i] = c->accumulate ? 3 : 0;
        db[i] = c->accumulate ? -2 : 0;
    }
    for (size_t r = 0; r < c->rows; r++) {
        double mean, rstd, top = 0, slope = 0;
        const double *row = x + r * D, *g = dy + r * D;
        ref_norm(c->rms, D, row, c->has_weight ? w : NULL, c->has_bias ? b : NULL,
                 (double)c->epsilon, y + r * D, &mean, &rstd);
        ref_norm_backward(c->rms, D, row, c->has_weight ? w : NULL, (double)c->epsilon, g,
                          dx + r * D, dw, db);
        for (size_t i = 0; i < D; i++) {
            top = fmax(top, fabs(row[i]));
            slope = fmax(slope, fabs(g[i]) * (c->has_weight ? fabs(w[i]) : 1));
        }
        // how far a normalised number may be off, and how large it is
        double off = 4 * eps * (top * rstd + 1), large = fmin(2 * top * rstd, sqrt((double)D));
        for (size_t i = 0; i < D; i++) {
            double weight = c->has_weight ? fabs(w[i]) : 1;
            by[r * D + i] =
                off * weight + 2 * eps * fabs(y[r * D + i]) + (c->has_bias ? eps * fabs(b[i]) : 0);
            bx[r * D + i] = rstd * slope * (2 * eps + 2 * off) * (1 + large) * (1 + large);
            bw[i] += fabs(g[i]) * (off + 2 * eps * large) + eps;
            bb[i] += eps * (fabs(g[i]) + 1);
        }
    }
    double ratio = fmax(worst(&c->y.view, y, by, count), worst(&c->dx.view, dx, bx, count));
    ratio = fmax(ratio, worst(&c->dweight.view, dw, bw, D));
    if (!c->rms)
        ratio = fmax(ratio, worst(&c->dbias.view, db, bb, D));
    double *all[] = {x, dy, w, b, y, dx, by, bx, dw, db, bw, bb};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        free(all[i]);
    return ratio;
}

static void random_cases(void **state)
{
    (void)state;
    double most = 0;
    for (size_t level = 0; test_level(level); level++) {
        mh_context *context = test_context(test_level(level), 2);
        for (size_t n = 0; n < test_cases(CASES); n++) {
            test_rng rng = {test_seed() + n};
            norm_case c;
            create(&c, &rng);
            test_ok(context, forward(context, &c));
            test_ok(context, backward(context, &c));
            double ratio = compare(&c);
            bool intact = test_guards_intact(&c.y) && test_guards_intact(&c.dx) &&
                          test_guards_intact(&c.dweight) && test_guards_intact(&c.mean);
            if (ratio > 1 || !intact)
                fail_msg("%s, rows %zu, D %zu, rms %d, weight %d: %.3g x the bound, guards %d\n"
                         "  MH_TEST_SEED=%" PRIu64 " MH_TEST_CASES=1",
                         test_level(level), c.rows, c.D, c.rms, c.has_weight, ratio, intact,
                         test_seed() + n);
            most = fmax(most, ratio);
            destroy(&c);
        }
        mh_context_free(context);
    }
    print_message("largest error / bound: %.2f\n", most);
}

// ---- bits ---------------------------------------------------------------------------------------

enum { ROWS = 333, WIDTH = 131 };

typedef struct results {
    float y[ROWS][WIDTH], mean[ROWS], rstd[ROWS], dx[ROWS][WIDTH], dweight[WIDTH], dbias[WIDTH];
} results;

static float bits_x[ROWS][WIDTH], bits_dy[ROWS][WIDTH], bits_weight[WIDTH];

// Rows first..first+rows-1 alone, with the weight's gradients only if all are there.
static void compute(mh_context *context, bool rms, size_t first, size_t rows, results *r)
{
    mh_tensor x = mh_tensor_2d(bits_x[first], MH_F32, rows, WIDTH);
    mh_tensor dy = mh_tensor_2d(bits_dy[first], MH_F32, rows, WIDTH);
    mh_tensor y = mh_tensor_2d(r->y[first], MH_F32, rows, WIDTH);
    mh_tensor dx = mh_tensor_2d(r->dx[first], MH_F32, rows, WIDTH);
    mh_tensor mean = mh_tensor_1d(r->mean + first, MH_F32, rows);
    mh_tensor rstd = mh_tensor_1d(r->rstd + first, MH_F32, rows);
    mh_tensor w = mh_tensor_1d(bits_weight, MH_F32, WIDTH);
    mh_tensor dw = mh_tensor_1d(r->dweight, MH_F32, WIDTH);
    mh_tensor db = mh_tensor_1d(r->dbias, MH_F32, WIDTH);
    mh_tensor *dweight = rows == ROWS ? &dw : NULL, *dbias = rows == ROWS ? &db : NULL;
    if (rms) {
        test_ok(context, mh_rms_norm(context, &x, &w, 1e-5f, &y, &rstd));
        test_ok(context, mh_rms_norm_backward(context, &x, &w, &rstd, &dy, &dx, dweight, false));
    } else {
        test_ok(context, mh_layer_norm(context, &x, &w, &w, 1e-5f, &y, &mean, &rstd));
        test_ok(context, mh_layer_norm_backward(context, &x, &w, &mean, &rstd, &dy, &dx, dweight,
                                                dbias, false));
    }
}

static void check_bits(const char *level, bool rms)
{
    static results first, r;
    memset(&first, 0, sizeof first);
    memset(&r, 0, sizeof r);
    for (size_t threads = 1; threads <= 8; threads++) {
        mh_context *context = test_context(level, threads);
        compute(context, rms, 0, ROWS, threads == 1 ? &first : &r);
        if (threads > 1)
            assert_memory_equal(&first, &r, sizeof r);
        for (size_t row = threads; row < ROWS; row += 71) { // in other company
            compute(context, rms, row, ROWS - row < 5 ? ROWS - row : 5, &r);
            if (threads > 1)
                assert_memory_equal(&first, &r, sizeof r);
        }
        mh_context_free(context);
    }
    mh_context *context = test_context(level, 2);
    mh_tensor y = mh_tensor_2d(r.y, MH_F32, ROWS, WIDTH),
              w = mh_tensor_1d(bits_weight, MH_F32, WIDTH);
    memcpy(r.y, bits_x, sizeof r.y);
    test_ok(context, rms ? mh_rms_norm(context, &y, &w, 1e-5f, &y, NULL)
                         : mh_layer_norm(context, &y, &w, &w, 1e-5f, &y, NULL, NULL));
    assert_memory_equal(first.y, r.y, sizeof r.y);
    mh_context_free(context);
}

static void bits(void **state)
{
    (void)state;
    test_rng rng = {7};
    for (size_t i = 0; i < ROWS * WIDTH; i++) {
        bits_x[i / WIDTH][i % WIDTH] = (float)test_normal(&rng);
        bits_dy[i / WIDTH][i % WIDTH] = (float)test_normal(&rng);
        bits_weight[i % WIDTH] = (float)test_normal(&rng);
    }
    for (size_t level = 0; test_level(level); level++)
        for (int rms = 0; rms < 2; rms++)
            check_bits(test_level(level), rms);
}

// ---- special values, refusals, memory -----------------------------------------------------------

static void special_values(void **state)
{
    (void)state;
    for (size_t level = 0; test_level(level); level++) {
        mh_context *context = test_context(test_level(level), 1);
        float x[4][3] = {{5, 5, 5}, {NAN, 1, 2}, {INFINITY, 1, 2}, {0, 0, 0}}, y[4][3];
        mh_tensor in = mh_tensor_2d(x, MH_F32, 4, 3), out = mh_tensor_2d(y, MH_F32, 4, 3);
        test_ok(context, mh_layer_norm(context, &in, NULL, NULL, 1e-5f, &out, NULL, NULL));
        for (int j = 0; j < 3; j++)
            assert_true(y[0][j] == 0 && isnan(y[1][j]) && isnan(y[2][j]) && y[3][j] == 0);
        test_ok(context, mh_rms_norm(context, &in, NULL, 1e-5f, &out, NULL));
        for (int j = 0; j < 3; j++)
            assert_true(fabsf(y[0][j] - 1) < 1e-6f && isnan(y[1][j]) && y[3][j] == 0);
        mh_context_free(context);
    }
}

// No rows: gradients of nothing are 0, or what was there.
static void empty(void **state)
{
    (void)state;
    mh_context *context = test_context(NULL, 2);
    float dw[3] = {1, 2, 3}, none[1];
    mh_tensor x = mh_tensor_2d(none, MH_F32, 0, 3), s = mh_tensor_1d(none, MH_F32, 0);
    mh_tensor t = mh_tensor_1d(dw, MH_F32, 3), narrow = mh_tensor_2d(none, MH_F32, 3, 0);
    test_ok(context, mh_layer_norm(context, &x, NULL, NULL, 1e-5f, &x, &s, &s));
    test_ok(context, mh_rms_norm_backward(context, &x, NULL, &s, &x, &x, &t, true));
    assert_true(dw[0] == 1 && dw[2] == 3);
    test_ok(context, mh_rms_norm_backward(context, &x, NULL, &s, &x, &x, &t, false));
    assert_true(dw[0] == 0 && dw[2] == 0);
    test_ok(context, mh_rms_norm(context, &narrow, NULL, 1e-5f, &narrow, NULL));
    mh_context_free(context);
}

static void errors(void **state)
{
    (void)state;
    mh_context *context = test_context(NULL, 1);
    float data[12] = {0};
    test_tensor y = test_tensor_dense(MH_F32, 2, (size_t[]){3, 4});
    mh_tensor x = mh_tensor_2d(data, MH_F32, 3, 4), w = mh_tensor_1d(data, MH_F32, 4);
    mh_tensor three = mh_tensor_1d(data, MH_F32, 3), integers = mh_tensor_2d(data, MH_I32, 3, 4);
    mh_tensor scalar = mh_tensor_view(data, MH_F32, 0, NULL);
    mh_tensor halves = mh_tensor_1d(data, MH_BF16, 3);
    test_refused(context, mh_layer_norm(context, &x, &three, NULL, 1, &y.view, NULL, NULL),
                 MH_ERROR_ARGUMENT, "weight");
    test_refused(context, mh_layer_norm(context, &x, &w, &three, 1, &y.view, NULL, NULL),
                 MH_ERROR_ARGUMENT, "bias");
    test_refused(context, mh_layer_norm(context, &x, &w, &w, -1, &y.view, NULL, NULL),
                 MH_ERROR_ARGUMENT, "epsilon");
    test_refused(context, mh_layer_norm(context, &x, &w, &w, 1, &y.view, &w, NULL),
                 MH_ERROR_ARGUMENT, "mean");
    test_refused(context, mh_rms_norm(context, &x, &w, 1, &y.view, &halves), MH_ERROR_UNSUPPORTED,
                 "rstd");
    test_refused(context, mh_rms_norm(context, &integers, &w, 1, &y.view, NULL),
                 MH_ERROR_UNSUPPORTED, "x");
    test_refused(context, mh_rms_norm(context, &scalar, NULL, 1, &scalar, NULL), MH_ERROR_ARGUMENT,
                 "rank");
    test_refused(context, mh_rms_norm(context, &x, &w, NAN, &y.view, NULL), MH_ERROR_ARGUMENT,
                 "epsilon");
    test_refused(context, mh_rms_norm(context, &x, &w, 1, &w, NULL), MH_ERROR_ARGUMENT, "y");
    test_refused(context, mh_rms_norm_backward(context, &x, &w, NULL, &x, &y.view, NULL, false),
                 MH_ERROR_ARGUMENT, "rstd");
    test_refused(
        context,
        mh_layer_norm_backward(context, &x, &w, NULL, &three, &x, &y.view, NULL, NULL, false),
        MH_ERROR_ARGUMENT, "mean");
    test_refused(
        context,
        mh_layer_norm_backward(context, &x, &w, &three, &three, &x, &y.view, &three, NULL, false),
        MH_ERROR_ARGUMENT, "dweight");
    test_refused(context, mh_rms_norm(context, NULL, NULL, 1, &y.view, NULL), MH_ERROR_ARGUMENT,
                 "x");
    assert_int_equal(mh_rms_norm(NULL, &x, &w, 1, &y.view, NULL), MH_ERROR_ARGUMENT);
    assert_true(test_untouched(&y));
    test_tensor_free(&y);
    mh_context_free(context);
}

// Every allocation of a backward pass fails once: an error, nothing lost, then it works.
static void no_memory(void **state)
{
    (void)state;
    test_memory memory = {0};
    mh_context_options options = mh_context_options_default();
    options.allocator = test_allocator(&memory);
    options.threads = 1;
    mh_context *context;
    assert_int_equal(mh_context_create(&options, &context, NULL, 0), MH_OK);
    float x[8] = {1, 2, 3, 4, 5, 6, 7, 8}, dx[8], dw[4], rstd[2] = {1, 1};
    mh_tensor in = mh_tensor_2d(x, MH_F32, 2, 4), out = mh_tensor_2d(dx, MH_F32, 2, 4);
    mh_tensor w = mh_tensor_1d(dw, MH_F32, 4), r = mh_tensor_1d(rstd, MH_F32, 2);
    memory.fail_at = memory.calls + 1;
    test_refused(context, mh_rms_norm_backward(context, &in, NULL, &r, &in, &out, &w, false),
                 MH_ERROR_MEMORY, "memory");
    memory.fail_at = 0;
    test_ok(context, mh_rms_norm_backward(context, &in, NULL, &r, &in, &out, &w, false));
    mh_context_free(context);
    assert_int_equal(memory.live, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_cases), cmocka_unit_test(bits),   cmocka_unit_test(special_values),
        cmocka_unit_test(empty),        cmocka_unit_test(errors), cmocka_unit_test(no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
