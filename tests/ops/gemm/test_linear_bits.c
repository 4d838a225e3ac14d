// SPDX-License-Identifier: MIT
// Linear layers, forward and backward: what must not change a bit (threads, a row alone or in a
// batch, packed weights, the layout of the operands), and numbers that are not finite.
#include "ref/ref_tensor.h"
#include "support.h"

#include <float.h>

typedef struct sizes {
    size_t M, K, N;
} sizes;

// More rows, panels and depth than a task has, a single row, and less than a tile of anything.
static const sizes all_sizes[] = {{150, 70, 800}, {1, 1100, 900}, {135, 1030, 5}, {7, 3, 2}};
static const mh_precision precisions[] = {MH_PRECISION_F32, MH_PRECISION_BF16};

// A layer with everything: GELU, bias, residual.
typedef struct layer {
    test_tensor x, weight, bias, residual, dy; // (M, K), (N, K), (N), (M, N), (M, N)
    mh_precision precision;
} layer;

typedef struct results {
    test_tensor y, before, dx, dweight, dbias;
} results;

static test_tensor filled(test_rng *rng, mh_dtype dtype, int rank, size_t n0, size_t n1)
{
    test_tensor t = test_tensor_dense(dtype, rank, (size_t[]){n0, n1});
    test_fill_normal(rng, &t.view, 1);
    return t;
}

static layer make_layer(sizes s, mh_dtype dtype, mh_precision precision)
{
    test_rng rng = {42};
    return (layer){filled(&rng, dtype, 2, s.M, s.K),  filled(&rng, MH_F32, 2, s.N, s.K),
                   filled(&rng, MH_F32, 1, s.N, 0),   filled(&rng, dtype, 2, s.M, s.N),
                   filled(&rng, MH_F32, 2, s.M, s.N), precision};
}

static void free_layer(layer *l)
{
    test_tensor_free(&l->x);
    test_tensor_free(&l->weight);
    test_tensor_free(&l->bias);
    test_tensor_free(&l->residual);
    test_tensor_free(&l->dy);
}

// Rows first .. first + rows - 1 of the layer.
static results run(mh_context *context, const layer *l, size_t first, size_t rows,
                   const mh_packed_matrix *packed)
{
    const mh_tensor x = mh_tensor_slice(l->x.view, 0, first, rows);
    const mh_tensor dy = mh_tensor_slice(l->dy.view, 0, first, rows);
    const mh_tensor residual = mh_tensor_slice(l->residual.view, 0, first, rows);
    const mh_tensor *weight = &l->weight.view;
    const size_t N = weight->shape[0], K = weight->shape[1];
    results r = {test_tensor_dense(l->x.view.dtype, 2, (size_t[]){rows, N}),
                 test_tensor_dense(MH_F32, 2, (size_t[]){rows, N}),
                 test_tensor_dense(l->x.view.dtype, 2, (size_t[]){rows, K}),
                 test_tensor_dense(MH_F32, 2, (size_t[]){N, K}), test_tensor_dense(MH_F32, 1, &N)};
    const mh_activation gelu = MH_GELU;
    mh_linear_options o = mh_linear_options_default();
    o.precision = l->precision;
    o.bias = &l->bias.view;
    o.activation = &gelu;
    o.residual = &residual;
    o.preactivation = &r.before.view;
    o.packed = packed;
    test_ok(context, mh_linear(context, &o, &x, packed ? NULL : weight, &r.y.view));
    test_ok(context, mh_linear_backward(context, &o, &x, weight, &dy, &r.dx.view, &r.dweight.view,
                                        &r.dbias.view));
    return r;
}

static void free_results(results *r)
{
    test_tensor_free(&r->y);
    test_tensor_free(&r->before);
    test_tensor_free(&r->dx);
    test_tensor_free(&r->dweight);
    test_tensor_free(&r->dbias);
}

// From row `first` of `whole` on, the bits of `part`.
static void same_rows(const char *what, const char *level, const test_tensor *whole, size_t first,
                      const test_tensor *part)
{
    const size_t row = whole->view.rank > 1 ? whole->view.shape[1] : 1;
    const size_t size = mh_dtype_size(whole->view.dtype);
    if (memcmp((char *)whole->view.data + first * row * size, part->view.data,
               ref_count(&part->view) * size) != 0)
        fail_msg("%s at %s: bits differ from row %zu of %zu on", what, level, first,
                 whole->view.shape[0]);
}

static void same_results(const char *what, const char *level, const results *a, const results *b)
{
    same_rows(what, level, &a->y, 0, &b->y);
    same_rows(what, level, &a->before, 0, &b->before);
    same_rows(what, level, &a->dx, 0, &b->dx);
    same_rows(what, level, &a->dweight, 0, &b->dweight);
    same_rows(what, level, &a->dbias, 0, &b->dbias);
}

// Calls check for every level, size, precision, with x of f32 and bf16.
static void everywhere(void (*check)(const char *level, const layer *l, const results *expected))
{
    for (size_t i = 0; test_level(i); i++)
        for (size_t n = 0; n < 4 * sizeof all_sizes / sizeof *all_sizes; n++) {
            layer l = make_layer(all_sizes[n / 4], n % 2 ? MH_BF16 : MH_F32, precisions[n / 2 % 2]);
            mh_context *context = test_context(test_level(i), 1);
            results expected = run(context, &l, 0, l.x.view.shape[0], NULL);
            mh_context_free(context);
            check(test_level(i), &l, &expected);
            free_results(&expected);
            free_layer(&l);
        }
}

static void check_threads(const char *level, const layer *l, const results *expected)
{
    for (size_t threads = 2; threads <= 8; threads++) {
        mh_context *context = test_context(level, threads);
        results found = run(context, l, 0, l->x.view.shape[0], NULL);
        same_results("threads", level, expected, &found);
        free_results(&found);
        mh_context_free(context);
    }
}

static void threads_change_nothing(void **state)
{
    (void)state;
    everywhere(check_threads);
}

static void check_rows(const char *level, const layer *l, const results *expected)
{
    const size_t M = l->x.view.shape[0];
    const size_t parts[][2] = {{0, 1}, {M / 2, 1}, {M - 1, 1}, {M / 3, M - M / 3}};
    mh_context *context = test_context(level, 3);
    for (size_t i = 0; i < 4; i++) {
        results part = run(context, l, parts[i][0], parts[i][1], NULL);
        same_rows("y of some rows", level, &expected->y, parts[i][0], &part.y);
        same_rows("preactivation of some rows", level, &expected->before, parts[i][0],
                  &part.before);
        same_rows("dx of some rows", level, &expected->dx, parts[i][0], &part.dx);
        free_results(&part);
    }
    mh_context_free(context);
}

static void rows_stand_alone(void **state)
{
    (void)state;
    everywhere(check_rows);
}

static void check_packed(const char *level, const layer *l, const results *expected)
{
    mh_context *context = test_context(level, 2);
    mh_packed_matrix *packed = NULL;
    const mh_tensor transposed = mh_tensor_swap(l->weight.view, 0, 1);
    test_ok(context, mh_matrix_pack(context, l->precision, &transposed, &packed));
    results found = run(context, l, 0, l->x.view.shape[0], packed);
    same_results("packed", level, expected, &found);
    free_results(&found);
    mh_packed_matrix_free(packed);
    mh_context_free(context);
}

static void packing_changes_nothing(void **state)
{
    (void)state;
    everywhere(check_packed);
}

// Column by column in memory, or every other element of a larger matrix: the same numbers.
static test_tensor rearranged(mh_context *context, const mh_tensor *t, bool turn)
{
    const size_t rows = t->shape[0], columns = t->shape[1];
    test_tensor other = turn ? test_tensor_dense(t->dtype, 2, (size_t[]){columns, rows})
                             : test_tensor_dense(t->dtype, 2, (size_t[]){rows, 2 * columns + 1});
    if (turn) {
        other.view = mh_tensor_swap(other.view, 0, 1);
    } else {
        other.view.shape[1] = columns;
        other.view.stride[1] = 2;
    }
    test_ok(context, mh_tensor_copy(context, t, &other.view));
    return other;
}

static void check_layout(const char *level, const layer *l, const results *expected)
{
    mh_context *context = test_context(level, 2);
    for (int turn = 0; turn < 2; turn++) {
        layer other = {rearranged(context, &l->x.view, turn),
                       rearranged(context, &l->weight.view, turn),
                       l->bias,
                       rearranged(context, &l->residual.view, turn),
                       rearranged(context, &l->dy.view, turn),
                       l->precision};
        results found = run(context, &other, 0, l->x.view.shape[0], NULL);
        same_results(turn ? "transposed" : "with gaps", level, expected, &found);
        free_results(&found);
        other.bias = (test_tensor){0}; // l's
        free_layer(&other);
    }
    mh_context_free(context);
}

static void layout_changes_nothing(void **state)
{
    (void)state;
    everywhere(check_layout);
}

// ---- numbers that are not finite ----------------------------------------------------------------

// inf, NaN and the largest number in one place of x or W show up where IEEE arithmetic has them,
// that is in this row or column, and nowhere else.
static void check_odd_number(mh_context *context, mh_precision precision, bool in_weight, float odd)
{
    enum { M = 20, K = 70, N = 70, ROW = 18, DEEP = 40 };
    layer l = make_layer((sizes){M, K, N}, MH_F32, precision);
    test_tensor y = test_tensor_dense(MH_F32, 2, (size_t[]){M, N});
    ref_set(in_weight ? &l.weight.view : &l.x.view, (size_t[]){ROW, DEEP}, (double)odd);
    mh_linear_options o = mh_linear_options_default();
    o.precision = precision;
    o.bias = &l.bias.view;
    test_ok(context, mh_linear(context, &o, &l.x.view, &l.weight.view, &y.view));
    for (size_t i = 0; i < M; i++)
        for (size_t j = 0; j < N; j++) {
            double sum = ref_get(&l.bias.view, &j);
            for (size_t k = 0; k < K; k++)
                sum += ref_get(&l.x.view, (size_t[]){i, k}) *
                       ref_get(&l.weight.view, (size_t[]){j, k});
            if (fabs(sum) > FLT_MAX) // also where only f32 has no room
                sum = sum > 0 ? INFINITY : -INFINITY;
            const double found = ref_get(&y.view, (size_t[]){i, j});
            const double room = precision == MH_PRECISION_BF16 ? 0.3 : 1e-4;
            if (isfinite(sum) ? !(fabs(found - sum) <= room * (1 + 0.05 * fabs(sum)))
                              : !(found == sum || (isnan(found) && isnan(sum))))
                fail_msg("%g in %s at %s, precision %d: found %g at (%zu, %zu), expected %g",
                         (double)odd, in_weight ? "W" : "x", mh_context_isa(context),
                         (int)precision, found, i, j, sum);
        }
    test_tensor_free(&y);
    free_layer(&l);
}

static void odd_numbers(void **state)
{
    (void)state;
    static const float odd[] = {INFINITY, -INFINITY, NAN, FLT_MAX, -FLT_MAX, 0x1p127f};
    for (size_t level = 0; test_level(level); level++) {
        mh_context *context = test_context(test_level(level), 1);
        for (size_t i = 0; i < sizeof odd / sizeof *odd; i++)
            for (int p = 0; p < 2; p++)
                for (int in_weight = 0; in_weight < 2; in_weight++)
                    if (p == 0 || fabsf(odd[i]) != FLT_MAX) // as bf16 that is inf
                        check_odd_number(context, precisions[p], in_weight, odd[i]);
        mh_context_free(context);
    }
}

// Dropped on the way out, or in passes of their own: f32 results, so that nothing is rounded twice.
static void check_dropout(const char *level, const layer *l, const results *expected)
{
    (void)expected;
    const size_t shape[2] = {l->dy.view.shape[0], l->dy.view.shape[1]};
    test_tensor once = test_tensor_dense(MH_F32, 2, shape),
                steps = test_tensor_dense(MH_F32, 2, shape);
    const mh_activation gelu = MH_GELU;
    mh_dropout_options dropout = mh_dropout_options_default();
    dropout.probability = 0.3f;
    dropout.seed = 5, dropout.step = 6, dropout.stream = 7, dropout.first_index = 1001;
    mh_linear_options o = mh_linear_options_default();
    o.precision = l->precision;
    o.bias = &l->bias.view;
    o.activation = &gelu;
    mh_context *context = test_context(level, 3);
    test_ok(context, mh_linear(context, &o, &l->x.view, &l->weight.view, &steps.view));
    test_ok(context, mh_dropout(context, &dropout, &steps.view, &steps.view));
    test_ok(context, mh_add(context, &l->residual.view, &steps.view, &steps.view));
    o.dropout = &dropout;
    o.residual = &l->residual.view;
    test_ok(context, mh_linear(context, &o, &l->x.view, &l->weight.view, &once.view));
    same_rows("dropout", level, &steps, 0, &once);
    mh_context_free(context);
    test_tensor_free(&once);
    test_tensor_free(&steps);
}

static void dropout_in_the_pass(void **state)
{
    (void)state;
    everywhere(check_dropout);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(threads_change_nothing),  cmocka_unit_test(rows_stand_alone),
        cmocka_unit_test(packing_changes_nothing), cmocka_unit_test(layout_changes_nothing),
        cmocka_unit_test(dropout_in_the_pass),     cmocka_unit_test(odd_numbers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
