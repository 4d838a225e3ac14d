// SPDX-License-Identifier: MIT
// Conformance to ONNX: all Attention, Softmax and LogSoftmax cases of $MH_TEST_DATA/onnx at every
// instruction-set level, within the suite's own tolerance (rtol 1e-3, atol 1e-7); and the window
// of opset 25, for which the data have no case, on small ones computed by hand.
#include "onnx.h"
#include "onnx_support.h"
#include "ref/ref_tensor.h"

#include <multihead/io.h>

#include <jansson.h>

static bool close_enough(double found, double expected)
{
    if (isnan(expected) || isinf(expected))
        return isnan(expected) ? isnan(found) : found == expected;
    return fabs(found - expected) <= 1e-7 + 1e-3 * fabs(expected);
}

static void compare(const char *name, const char *output, const mh_tensor *found,
                    const mh_tensor *expected)
{
    size_t index[MH_MAX_RANK] = {0};
    if (ref_count(expected))
        do {
            double f = ref_get(found, index), e = ref_get(expected, index);
            if (!close_enough(f, e))
                fail_msg("%s: %s (%zu, %zu, %zu, %zu): found %.9g, expected %.9g", name, output,
                         index[0], index[1], index[2], index[3], f, e);
        } while (ref_next(expected, index));
}

// ---- the cases in the directory -----------------------------------------------------------------

typedef struct attention_file {
    const char *name;
    mh_tensor in[7], expected[4];
    test_tensor out[4];
} attention_file;

static const char *const input_names[7] = {
    "in.Q", "in.K", "in.V", "in.attn_mask", "in.past_key", "in.past_value", "in.nonpad_kv_seqlen"};
static const char *const output_names[4] = {"out.Y", "out.present_key", "out.present_value",
                                            "out.qk_matmul_output"};

static void run_attention(mh_context *context, const char *name, const mh_tensor_file *file)
{
    attention_file c = {.name = name};
    onnx_attention node = onnx_attention_default();
    const mh_tensor **in[7] = {&node.Q,
                               &node.K,
                               &node.V,
                               &node.attn_mask,
                               &node.past_key,
                               &node.past_value,
                               &node.nonpad_kv_seqlen};
    mh_tensor **out[4] = {&node.Y, &node.present_key, &node.present_value, &node.qk_matmul_output};
    for (int i = 0; i < 7; i++)
        if (mh_tensor_file_find(file, input_names[i], &c.in[i]))
            *in[i] = &c.in[i];
    for (int i = 0; i < 4; i++)
        if (mh_tensor_file_find(file, output_names[i], &c.expected[i])) {
            c.out[i] =
                test_tensor_dense(c.expected[i].dtype, c.expected[i].rank, c.expected[i].shape);
            *out[i] = &c.out[i].view;
        }
    const char *attributes = mh_tensor_file_metadata(file, "attributes");
    test_ok(context, onnx_attention_parse(context, attributes ? attributes : "{}", &node));
    test_ok(context, onnx_attention_run(context, &node));
    for (int i = 0; i < 4; i++) {
        if (*out[i]) {
            compare(name, output_names[i], &c.out[i].view, &c.expected[i]);
            assert_true(test_guards_intact(&c.out[i]));
        }
        test_tensor_free(&c.out[i]);
    }
}

static int axis_of(const mh_tensor_file *file)
{
    const char *attributes = mh_tensor_file_metadata(file, "attributes");
    json_t *object = json_loads(attributes ? attributes : "{}", 0, NULL);
    const json_t *axis = json_object_get(object, "axis");
    int value = axis ? (int)json_integer_value(axis) : -1;
    json_decref(object);
    return value;
}

static void run_softmax(mh_context *context, const char *name, const mh_tensor_file *file)
{
    mh_tensor x, expected;
    assert_true(mh_tensor_file_find(file, "in.x", &x));
    assert_true(mh_tensor_file_find(file, "out.y", &expected));
    test_tensor y = test_tensor_dense(expected.dtype, expected.rank, expected.shape);
    if (strncmp(name, "log", 3) == 0)
        test_ok(context, mh_log_softmax(context, &x, axis_of(file), &y.view));
    else
        test_ok(context, mh_softmax(context, &x, axis_of(file), &y.view));
    compare(name, "out.y", &y.view, &expected);
    assert_true(test_guards_intact(&y));
    test_tensor_free(&y);
}

static void attention_cases(void **state)
{
    (void)state;
    onnx_run_cases("attention_", run_attention, 76);
}

static void softmax_cases(void **state)
{
    (void)state;
    onnx_run_cases("softmax_", run_softmax, 7);
    onnx_run_cases("logsoftmax_", run_softmax, 7);
}

// ---- the window of opset 25 ---------------------------------------------------------------------

// With Q = 0 all live keys weigh the same, and with v_j = j the output is their mean index.
typedef struct window_case {
    const char *name;
    bool is_causal;
    int64_t left, right;
    size_t T, past, S; // S: new keys
    int64_t nonpad;    // -1: not given
    double mean[4];    // for each query, by hand
} window_case;

static const window_case window_cases[] = {
    // position p = i; keys p-1 .. p+1 of 0..3
    {"both sides", false, 1, 1, 4, 0, 4, -1, {0.5, 1, 2, 2.5}},
    {"left only", false, 1, -1, 4, 0, 4, -1, {1.5, 1.5, 2, 2.5}},
    {"right only", false, -1, 0, 4, 0, 4, -1, {0, 0.5, 1, 1.5}},
    {"itself only", false, 0, 0, 4, 0, 4, -1, {0, 1, 2, 3}},
    {"causal, left 2", true, 2, -1, 4, 0, 4, -1, {0, 0.5, 1, 2}},
    {"causal cuts the right", true, 1, 1, 4, 0, 4, -1, {0, 0.5, 1.5, 2.5}},
    // past of 3: p = 3 + i
    {"past", false, 1, 0, 2, 3, 2, -1, {2.5, 3.5}},
    {"past, causal", true, 2, -1, 2, 3, 2, -1, {2, 3}},
    // 5 of 8 keys exist, 2 queries: p = 3 + i
    {"lengths", false, 1, 1, 2, 0, 8, 5, {3, 3.5}},
    {"lengths, causal", true, 1, -1, 2, 0, 8, 5, {2.5, 3.5}},
    // 1 of 4 keys exists, 3 queries: p = i - 2; the first two see nothing
    {"negative offset", true, 0, -1, 3, 0, 4, 1, {0, 0, 0}},
    {"negative offset, right 1", false, 0, 1, 3, 0, 4, 1, {0, 0, 0}},
};

static void run_window(mh_context *context, const window_case *w)
{
    float q[4] = {0}, k[8] = {0}, v[8], past_k[4] = {0}, past_v[4], y[4] = {9, 9, 9, 9};
    for (size_t j = 0; j < w->past; j++)
        past_v[j] = (float)j;
    for (size_t j = 0; j < w->S; j++)
        v[j] = (float)(w->past + j);
    int64_t nonpad = w->nonpad;
    mh_tensor Q = mh_tensor_4d(q, MH_F32, 1, 1, w->T, 1),
              Y = mh_tensor_4d(y, MH_F32, 1, 1, w->T, 1);
    mh_tensor K = mh_tensor_4d(k, MH_F32, 1, 1, w->S, 1),
              V = mh_tensor_4d(v, MH_F32, 1, 1, w->S, 1);
    mh_tensor PK = mh_tensor_4d(past_k, MH_F32, 1, 1, w->past, 1);
    mh_tensor PV = mh_tensor_4d(past_v, MH_F32, 1, 1, w->past, 1);
    mh_tensor lengths = mh_tensor_1d(&nonpad, MH_I64, 1);

    onnx_attention node = onnx_attention_default();
    node.is_causal = w->is_causal;
    node.left_window_size = w->left;
    node.right_window_size = w->right;
    node.Q = &Q;
    node.K = &K;
    node.V = &V;
    node.Y = &Y;
    node.past_key = w->past ? &PK : NULL;
    node.past_value = w->past ? &PV : NULL;
    node.nonpad_kv_seqlen = w->nonpad >= 0 ? &lengths : NULL;
    test_ok(context, onnx_attention_run(context, &node));
    for (size_t i = 0; i < w->T; i++)
        if (fabs((double)y[i] - w->mean[i]) > 1e-6)
            fail_msg("%s: query %zu: found %g, expected %g", w->name, i, (double)y[i], w->mean[i]);
}

static void windows(void **state)
{
    (void)state;
    for (size_t level = 0; test_level(level); level++) {
        mh_context *context = test_context(test_level(level), 1);
        for (size_t n = 0; n < sizeof window_cases / sizeof *window_cases; n++)
            run_window(context, &window_cases[n]);
        mh_context_free(context);
    }
}

// The attributes' names are those of the standard, and unknown ones are refused.
static void attributes(void **state)
{
    (void)state;
    mh_context *context = test_context(NULL, 1);
    onnx_attention node = onnx_attention_default();
    test_ok(context, onnx_attention_parse(context,
                                          "{\"left_window_size\": 3, \"right_window_size\": 0,"
                                          " \"is_causal\": 1, \"scale\": 0.5}",
                                          &node));
    assert_int_equal(node.left_window_size, 3);
    assert_int_equal(node.right_window_size, 0);
    assert_true(node.is_causal);
    assert_true(node.scale == 0.5f);
    test_refused(context, onnx_attention_parse(context, "{\"sclae\": 1}", &node), MH_ERROR_FORMAT,
                 "sclae");
    mh_context_free(context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(attention_cases),
        cmocka_unit_test(softmax_cases),
        cmocka_unit_test(windows),
        cmocka_unit_test(attributes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
