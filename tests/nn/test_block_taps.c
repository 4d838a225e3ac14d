// SPDX-License-Identifier: MIT
// Taps of general blocks: weights, q, k, v, the output of every attention and the hidden rows of
// every layer against the double reference, with grouped heads, own widths of keys and values,
// disabled heads, batched, packed and alone. The output has the same bits without taps.
#include "block_case.h"
#include "nn_support.h"
#include "ref/ref_tensor.h"

#include <inttypes.h>
#include <math.h>

enum { CASES = 60, TAPS_MOST = 3 * BLOCK_LAYERS_MOST };

// Relative to the largest number; 1e-6 is usual, 2e-5 the worst of thousands of cases.
static const double bound = 5e-5;

static mh_tensor make(int rank, size_t a, size_t b, size_t c, size_t d)
{
    const size_t shape[4] = {a, b, c, d}, three[3] = {a, c, d};
    const mh_tensor t = mh_tensor_view(NULL, MH_F32, rank, rank == 4 ? shape : three);
    float *numbers = ref_alloc(mh_tensor_count(&t), sizeof *numbers);
    for (size_t i = 0; i < mh_tensor_count(&t); i++)
        numbers[i] = NAN;
    return mh_tensor_view(numbers, MH_F32, rank, t.shape);
}

static size_t longest(const block_case *c, int stack)
{
    size_t most = 0;
    for (size_t b = 0; b < c->sequences; b++) {
        const size_t n = (size_t)(c->starts[stack][b + 1] - c->starts[stack][b]);
        most = n > most ? n : most;
    }
    return most;
}

// The tap of a stack's layer, in memory of its own.
static mh_tap tap_of(const block_case *c, int stack, bool cross, size_t layer)
{
    const mh_block_config *b = &c->blocks[stack][layer];
    const int keys = cross ? 0 : stack;
    const bool packed = c->layout == BLOCK_PACKED;
    const size_t B = packed ? 1 : c->sequences, G = ref_kv_heads(b);
    const size_t T = block_case_rows(c, stack) / B, S = block_case_rows(c, keys) / B;
    mh_tap t = {.struct_size = sizeof(mh_tap),
                .kind = cross   ? MH_TAP_CROSS
                        : stack ? MH_TAP_DECODER
                                : MH_TAP_ENCODER,
                .layer = layer};
    t.weights = make(4, c->sequences, c->H, longest(c, stack), longest(c, keys));
    t.q = make(4, B, c->H, T, ref_head_dim(b));
    t.k = make(4, B, G, S, ref_head_dim(b));
    t.v = make(4, B, G, S, ref_value_dim(b));
    t.out = make(3, B, 0, T, c->D);
    t.x = make(3, B, 0, T, c->D);
    t.sum = make(3, B, 0, T, c->D);
    if (!cross)
        t.hidden = make(3, B, 0, T, c->D);
    return t;
}

static void tap_free(mh_tap *t)
{
    mh_tensor *all[] = {&t->weights, &t->q, &t->k, &t->v, &t->out, &t->hidden, &t->x, &t->sum};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        free(all[i]->data);
}

// found (.., heads, .., width) of one sequence against expected (heads, rows, width).
static void compare(const char *what, mh_tensor found, size_t batch, size_t first, size_t heads,
                    size_t rows, size_t width, const double *expected, double *worst)
{
    double distance = 0, largest = 0.1;
    if (found.rank == 3) {
        mh_tensor four = mh_tensor_4d(found.data, MH_F32, found.shape[0], 1, found.shape[1], width);
        found = four;
    }
    for (size_t h = 0; h < heads; h++)
        for (size_t r = 0; r < rows; r++)
            for (size_t i = 0; i < width; i++) {
                const size_t at[4] = {batch, h, first + r, i};
                const double e = expected[(h * rows + r) * width + i];
                distance = fmax(distance, fabs(ref_get(&found, at) - e));
                distance = isnan(ref_get(&found, at)) ? INFINITY : distance;
                largest = fmax(largest, fabs(e));
            }
    *worst = fmax(*worst, distance / largest);
    if (distance > bound * largest)
        fail_msg("%s is off by %.3g of %.3g", what, distance, largest);
}

static void compare_tap(const block_case *c, const mh_tap *t, const block_traces *traces,
                        double *worst)
{
    const int stack = t->kind != MH_TAP_ENCODER, keys = t->kind == MH_TAP_DECODER;
    const mh_block_config *b = &c->blocks[stack][t->layer];
    const size_t G = ref_kv_heads(b), E = ref_head_dim(b), Ev = ref_value_dim(b);
    for (size_t n = 0; n < c->sequences; n++) {
        const ref_block_trace *trace = &traces->of[stack][n][t->layer];
        const ref_attention_trace *a = t->kind == MH_TAP_CROSS ? &trace->cross : &trace->self;
        const bool packed = c->layout == BLOCK_PACKED;
        const size_t batch = packed ? 0 : n;
        const size_t i = packed ? (size_t)c->starts[stack][n] : 0;
        const size_t j = packed ? (size_t)c->starts[keys][n] : 0;
        const size_t T = (size_t)(c->starts[stack][n + 1] - c->starts[stack][n]);
        const size_t S = (size_t)(c->starts[keys][n + 1] - c->starts[keys][n]);
        compare("weights", t->weights, n, 0, c->H, T, S, a->weights, worst);
        compare("q", t->q, batch, i, c->H, T, E, a->q, worst);
        compare("k", t->k, batch, j, G, S, E, a->k, worst);
        compare("v", t->v, batch, j, G, S, Ev, a->v, worst);
        compare("out", t->out, batch, i, 1, T, c->D, a->out, worst);
        compare("x", t->x, batch, i, 1, T, c->D, a->x, worst);
        compare("sum", t->sum, batch, i, 1, T, c->D, a->sum, worst);
        if (t->hidden.data)
            compare("hidden", t->hidden, batch, i, 1, T, c->D, trace->hidden, worst);
    }
}

static size_t make_taps(const block_case *c, mh_tap *taps)
{
    size_t count = 0;
    for (int s = 0; s < 2; s++)
        for (size_t i = 0; i < c->stacks[s].layers && c->has[s]; i++)
            for (int cross = 0; cross <= s; cross++)
                taps[count++] = tap_of(c, s, cross, i);
    return count;
}

// weights of a packed batch: rows and columns of shorter sequences are not compared.
static void check_case(mh_context *context, uint64_t seed)
{
    test_rng rng = {seed};
    block_case c;
    block_case_create(&rng, false, &c);
    c.disables = seed % 2;
    mh_transformer *module = block_case_module(context, &c, true);
    const mh_parameters *list = mh_transformer_parameters(module);
    block_case_randomise(&c, list, seed);
    const size_t n[2] = {block_case_rows(&c, 0) * c.D, block_case_rows(&c, 1) * c.D};
    const size_t outputs = n[block_case_output(&c)];
    float *src = nn_floats(seed + 1, n[0]), *tgt = nn_floats(seed + 2, n[1]);
    float *out = ref_alloc(outputs, sizeof *out), *plain = ref_alloc(outputs, sizeof *plain);
    double *values = block_widen(list->floats, list->values), *x = block_widen(n[0], src);
    double *y = block_widen(n[1], tgt), *expected = ref_alloc(outputs, sizeof *expected), worst = 0;
    mh_tap taps[TAPS_MOST];
    block_traces traces = {0};
    mh_transformer_options o = block_case_options(&c);
    test_ok(context, block_case_forward(context, module, &c, &o, src, tgt, plain));
    o.taps = taps;
    o.tap_count = make_taps(&c, taps);
    test_ok(context, block_case_forward(context, module, &c, &o, src, tgt, out));
    nn_same_bits("the output with taps", outputs, out, plain);
    block_case_reference(&c, list, values, false, x, y, expected, &traces, NULL);
    for (size_t i = 0; i < o.tap_count; i++) {
        compare_tap(&c, &taps[i], &traces, &worst);
        tap_free(&taps[i]);
    }
    block_traces_free(&traces);
    void *all[] = {src, tgt, out, plain, values, x, y, expected};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        free(all[i]);
    mh_transformer_free(module);
}

static void taps(void **state)
{
    (void)state;
    test_run_cases(CASES, check_case);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(taps)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
