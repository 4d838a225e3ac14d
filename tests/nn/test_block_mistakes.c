// SPDX-License-Identifier: MIT
// The tests of general blocks would notice: for each setting, a module that computes it differently
// than its config says is far away from the reference, a hundred times the error of the right one.
// The mistake is in the reference's config or values; the module is right. Also here: the
// reference's positions against published numbers.
#include "block_case.h"
#include "nn_support.h"
#include "ref/ref_tensor.h"

#include <math.h>

enum { D = 16, H = 4, G = 2, E = 6, EV = 5, F = 12, LENGTH = 9, ROWS = 2 * LENGTH };

static const double right = 5e-6, noticed = 5e-4;

static mh_rope_scaling scaling;

// All settings that can be combined.
static mh_block_config everything(void)
{
    mh_block_config b = mh_block_config_default();
    b.d_model = D;
    b.norm = MH_NORM_RMS;
    b.order = MH_NORM_BEFORE;
    b.num_heads = H;
    b.kv_heads = G;
    b.head_dim = E;
    b.value_dim = EV;
    b.qk_norm = true;
    b.scale = 0.9f;
    b.softcap = 6;
    b.window = 4;
    b.sinks = true;
    b.rope = true;
    b.rope_width = 4;
    scaling = mh_rope_scaling_default();
    scaling.rule = MH_ROPE_YARN;
    scaling.factor = 4;
    scaling.original_length = 16;
    b.rope_scaling = &scaling;
    b.relative_buckets = 4;
    b.relative_distance = 5;
    b.dim_feedforward = F;
    b.gated = true;
    b.activation = MH_SILU;
    return b;
}

// ---- mistakes -----------------------------------------------------------------------------------

typedef struct mistake_side {
    mh_block_config *block;
    double *values;
    const mh_parameters *list;
} mistake_side;

static double *values_of(const mistake_side *m, const char *name)
{
    char full[64];
    snprintf(full, sizeof full, "layers.0.%s", name);
    const mh_parameter *p = mh_parameters_find(m->list, full);
    assert_non_null(p);
    return m->values + p->offset;
}

static void swap(size_t n, double *a, double *b)
{
    for (size_t i = 0; i < n; i++) {
        const double x = a[i];
        a[i] = b[i];
        b[i] = x;
    }
}

// Query heads use the other group's keys and values.
static void other_groups(mistake_side *m)
{
    double *k = values_of(m, "self_attn.in_proj_weight") + H * E * D, *v = k + G * E * D;
    double *bias = values_of(m, "self_attn.in_proj_bias") + H * E;
    swap(E * D, k, k + E * D);
    swap(EV * D, v, v + EV * D);
    swap(E, bias, bias + E);
    swap(EV, bias + G * E, bias + G * E + EV);
}

static void gate_and_up(mistake_side *m)
{
    double *w = values_of(m, "linear1.weight"), *b = values_of(m, "linear1.bias");
    swap(F * D, w, w + F * D);
    swap(F, b, b + F);
}

#define MISTAKE(name, ...)                                                                         \
    static void name(mistake_side *m) { __VA_ARGS__; }
MISTAKE(default_scale, m->block->scale = MH_SCALE_DEFAULT)
MISTAKE(no_softcap, m->block->softcap = 0)
MISTAKE(no_window, m->block->window = -1)
MISTAKE(window_less_one, m->block->window--)
MISTAKE(no_q_bias, m->block->missing_bias = MH_BIAS_Q)
MISTAKE(no_k_bias, m->block->missing_bias = MH_BIAS_K)
MISTAKE(no_v_bias, m->block->missing_bias = MH_BIAS_V)
MISTAKE(no_out_bias, m->block->out_bias = false)
MISTAKE(no_feed_forward_bias, m->block->feed_forward_bias = false)
MISTAKE(norm_after, m->block->order = MH_NORM_AFTER)
MISTAKE(layer_norm, m->block->norm = MH_NORM_LAYER; m->block->norm_bias = false)
MISTAKE(parallel, m->block->parallel = true)
MISTAKE(no_qk_norm, m->block->qk_norm = false)
MISTAKE(no_sinks, m->block->sinks = false)
MISTAKE(alibi, m->block->alibi = true)
MISTAKE(no_rope, m->block->rope = false)
MISTAKE(interleaved, m->block->rope_interleaved = true)
MISTAKE(full_width, m->block->rope_width = 0)
MISTAKE(other_base, m->block->rope_base = 500)
MISTAKE(no_scaling, m->block->rope_scaling = NULL)
MISTAKE(linear_scaling, (void)m; scaling.rule = MH_ROPE_LINEAR)
MISTAKE(no_amplitude, (void)m; scaling.attention_factor = 1)
MISTAKE(no_relative_bias, m->block->relative_buckets = 0)
MISTAKE(bidirectional, m->block->relative_bidirectional = true)
MISTAKE(other_distance, m->block->relative_distance = 100)
MISTAKE(gelu, m->block->activation = MH_GELU)

// ---- the check ----------------------------------------------------------------------------------

static double distance(const block_case *c, const mh_parameters *list, const double *values,
                       const double *x, const float *out)
{
    double expected[ROWS * D];
    block_case_reference(c, list, values, false, x, NULL, expected, NULL, NULL);
    return nn_distance_floats(ROWS * D, out, expected);
}

static double try_mistake(mh_context *context, const mh_block_config *block, bool final_norm,
                          void (*mistake)(mistake_side *))
{
    block_case c;
    block_case_fixed(block, 1, LENGTH, &c);
    c.stacks[0].final_norm = final_norm;
    mh_transformer *t = block_case_module(context, &c, true);
    const mh_parameters *list = mh_transformer_parameters(t);
    block_case_randomise(&c, list, 3);
    float *src = nn_floats(4, ROWS * D), out[ROWS * D];
    double *x = block_widen(ROWS * D, src), *values = block_widen(list->floats, list->values);
    const mh_transformer_options o = block_case_options(&c);
    test_ok(context, block_case_forward(context, t, &c, &o, src, NULL, out));
    assert_true(distance(&c, list, values, x, out) <= right);
    if (c.blocks[0][0].rope_scaling)
        c.blocks[0][0].rope_scaling = &scaling;
    mistake_side side = {&c.blocks[0][0], values, list};
    mistake(&side);
    const double off = distance(&c, list, values, x, out);
    mh_transformer_free(t);
    free(src);
    free(x);
    free(values);
    return off;
}

static void mistakes(void **state)
{
    mh_context *context = *state;
#define ROW(name)                                                                                  \
    {                                                                                              \
#name, name                                                                                \
    }
    static const struct {
        const char *name;
        void (*make)(mistake_side *);
    } all[] = {ROW(other_groups),
               ROW(gate_and_up),
               ROW(default_scale),
               ROW(no_softcap),
               ROW(no_window),
               ROW(window_less_one),
               ROW(no_q_bias),
               ROW(no_k_bias),
               ROW(no_v_bias),
               ROW(no_out_bias),
               ROW(no_feed_forward_bias),
               ROW(norm_after),
               ROW(layer_norm),
               ROW(parallel),
               ROW(no_qk_norm),
               ROW(no_sinks),
               ROW(alibi),
               ROW(no_rope),
               ROW(interleaved),
               ROW(full_width),
               ROW(other_base),
               ROW(no_scaling),
               ROW(linear_scaling),
               ROW(no_amplitude),
               ROW(no_relative_bias),
               ROW(bidirectional),
               ROW(other_distance),
               ROW(gelu)};
#undef ROW
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        const mh_block_config b = everything();
        const double off = try_mistake(context, &b, true, all[i].make);
        if (!(off >= noticed))
            fail_msg("%s: off by only %.3g, expected %.3g", all[i].name, off, noticed);
    }
}

MISTAKE(norm_before, m->block->order = MH_NORM_BEFORE)
MISTAKE(smaller_epsilon, m->block->norm_eps = 1e-3f)
MISTAKE(no_norm_bias, m->block->norm_bias = false)
MISTAKE(rms_norm, m->block->norm = MH_NORM_RMS)

// Those of layer norms before and after.
static void mistakes_of_norms(void **state)
{
    static void (*const all[])(mistake_side *) = {norm_before, smaller_epsilon, no_norm_bias,
                                                  rms_norm};
    for (mh_norm_order order = MH_NORM_AFTER; order <= MH_NORM_BOTH; order++)
        for (size_t i = order == MH_NORM_BEFORE; i < sizeof all / sizeof *all; i++) {
            mh_block_config b = everything();
            b.norm = MH_NORM_LAYER;
            b.order = order;
            b.norm_eps = 0.1f;
            b.qk_norm = false; // its epsilon is the same
            assert_true(try_mistake(*state, &b, i % 2, all[i]) >= noticed);
        }
}

// ---- positions ----------------------------------------------------------------------------------

// T5's 32 buckets up to 128, as its authors' code gives them for distances 0, 1, ...
static void published_buckets(void **state)
{
    (void)state;
    static const int64_t first[16] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 23, 32, 46, 64, 91};
    mh_block_config b = mh_block_config_default();
    b.relative_buckets = 32;
    b.relative_bidirectional = true;
    for (size_t bucket = 0; bucket < 16; bucket++) {
        const int64_t last = bucket < 15 ? first[bucket + 1] - 1 : 100000;
        assert_int_equal(ref_relative_bucket(&b, -first[bucket]), bucket);
        assert_int_equal(ref_relative_bucket(&b, -last), bucket);
        if (bucket)
            assert_int_equal(ref_relative_bucket(&b, first[bucket]), 16 + bucket);
        assert_int_equal(ref_relative_bucket(&b, last), last ? 16 + bucket : 0);
    }
    b.relative_bidirectional = false;
    assert_int_equal(ref_relative_bucket(&b, 5), 0);
    assert_int_equal(ref_relative_bucket(&b, -15), 15);
    assert_int_equal(ref_relative_bucket(&b, -16), 16);
    assert_int_equal(ref_relative_bucket(&b, -128), 31);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(mistakes, test_open_context, test_close_context),
        cmocka_unit_test_setup_teardown(mistakes_of_norms, test_open_context, test_close_context),
        cmocka_unit_test(published_buckets),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
