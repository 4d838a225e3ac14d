// SPDX-License-Identifier: MIT
// Conformance to ONNX of what is not attention: all LayerNormalization, RMSNormalization, Gelu and
// RotaryEmbedding cases of $MH_TEST_DATA/onnx at every instruction-set level, within the suite's
// own tolerance (rtol 1e-3, atol 1e-7).
#include "onnx_support.h"
#include "ref/ref_tensor.h"

#include <multihead/io.h>

#include <jansson.h>
#include <math.h>

typedef struct onnx_case {
    const char *name;
    const mh_tensor_file *file;
    json_t *attributes;
} onnx_case;

static mh_tensor need(const onnx_case *c, const char *name)
{
    mh_tensor t;
    if (!mh_tensor_file_find(c->file, name, &t))
        fail_msg("%s: no tensor %s", c->name, name);
    return t;
}

static double attribute(const onnx_case *c, const char *name, double usual)
{
    const json_t *value = json_object_get(c->attributes, name);
    return value ? json_number_value(value) : usual;
}

static void compare(const onnx_case *c, const mh_tensor *found, const mh_tensor *expected)
{
    size_t index[MH_MAX_RANK] = {0};
    do {
        double f = ref_get(found, index), e = ref_get(expected, index);
        if (!(fabs(f - e) <= 1e-7 + 1e-3 * fabs(e)))
            fail_msg("%s: found %.9g, expected %.9g", c->name, f, e);
    } while (ref_next(expected, index));
}

// ---- norms: dimensions from `axis` on are one row -----------------------------------------------

static void run_norm(mh_context *context, const onnx_case *c)
{
    const bool rms = strncmp(c->name, "rms", 3) == 0;
    mh_tensor x = need(c, "in.X"), w = need(c, "in.W"), expected = need(c, "out.Y"), b, mean, rstd;
    int axis = (int)attribute(c, "axis", -1);
    size_t rows = 1, D = 1;
    for (int d = 0; d < x.rank; d++)
        *(d < (axis < 0 ? axis + x.rank : axis) ? &rows : &D) *= x.shape[d];
    const float epsilon = (float)attribute(c, "epsilon", 1e-5);
    test_tensor y = test_tensor_dense(MH_F32, x.rank, x.shape);
    test_tensor m = test_tensor_dense(MH_F32, 1, &rows), r = test_tensor_dense(MH_F32, 1, &rows);
    mh_tensor flat_x = mh_tensor_2d(x.data, x.dtype, rows, D);
    mh_tensor flat_y = mh_tensor_2d(y.view.data, MH_F32, rows, D);
    mh_tensor flat_w = mh_tensor_1d(w.data, w.dtype, D);
    if (rms) {
        test_ok(context, mh_rms_norm(context, &flat_x, &flat_w, epsilon, &flat_y, NULL));
    } else {
        b = need(c, "in.B"), mean = need(c, "out.Mean"), rstd = need(c, "out.InvStdDev");
        mh_tensor flat_b = mh_tensor_1d(b.data, b.dtype, D);
        test_ok(context, mh_layer_norm(context, &flat_x, &flat_w, &flat_b, epsilon, &flat_y,
                                       &m.view, &r.view));
        mean = mh_tensor_1d(mean.data, mean.dtype, rows);
        rstd = mh_tensor_1d(rstd.data, rstd.dtype, rows);
        compare(c, &m.view, &mean);
        compare(c, &r.view, &rstd);
    }
    compare(c, &y.view, &expected);
    test_tensor_free(&y);
    test_tensor_free(&m);
    test_tensor_free(&r);
}

static void run_gelu(mh_context *context, const onnx_case *c)
{
    mh_tensor x = need(c, "in.x"), expected = need(c, "out.y");
    const char *approximate = json_string_value(json_object_get(c->attributes, "approximate"));
    bool tanh_form = approximate && strcmp(approximate, "tanh") == 0;
    test_tensor y = test_tensor_dense(MH_F32, x.rank, x.shape);
    test_ok(context, mh_activate(context, tanh_form ? MH_GELU_TANH : MH_GELU, &x, &y.view));
    compare(c, &y.view, &expected);
    test_tensor_free(&y);
}

// (B, T, H*E) as (B, H, T, E); 4-D tensors as they are.
static mh_tensor heads(mh_tensor t, size_t count)
{
    return t.rank == 3 ? mh_tensor_swap(mh_tensor_split(t, 2, count), 1, 2) : t;
}

// (B, ...) as (B, 1, ...)
static mh_tensor for_all_heads(mh_tensor t)
{
    for (int d = t.rank++; d > 1; d--) {
        t.shape[d] = t.shape[d - 1];
        t.stride[d] = t.stride[d - 1];
    }
    t.shape[1] = 1;
    return t;
}

static void run_rope(mh_context *context, const onnx_case *c)
{
    mh_tensor x = need(c, "in.input"), expected = need(c, "out.output"), positions;
    mh_tensor cosine = need(c, "in.cos_cache"), sine = need(c, "in.sin_cache");
    mh_rope_options options = mh_rope_options_default();
    options.interleaved = attribute(c, "interleaved", 0) != 0;
    options.width = (size_t)attribute(c, "rotary_embedding_dim", 0);
    if (mh_tensor_file_find(c->file, "in.position_ids", &positions)) {
        positions = for_all_heads(positions);
        options.positions = &positions;
    } else {
        cosine = for_all_heads(cosine);
        sine = for_all_heads(sine);
    }
    options.cosine = &cosine;
    options.sine = &sine;
    test_tensor y = test_tensor_dense(MH_F32, x.rank, x.shape);
    const size_t count = (size_t)attribute(c, "num_heads", 1);
    mh_tensor in = heads(x, count), out = heads(y.view, count);
    test_ok(context, mh_rope(context, &options, &in, &out));
    compare(c, &y.view, &expected);
    test_tensor_free(&y);
}

// ---- the cases in the directory -----------------------------------------------------------------

typedef void (*runner)(mh_context *context, const onnx_case *c);

static void with_attributes(mh_context *context, const char *name, const mh_tensor_file *file,
                            runner run)
{
    const char *attributes = mh_tensor_file_metadata(file, "attributes");
    onnx_case c = {name, file, json_loads(attributes ? attributes : "{}", 0, NULL)};
    assert_non_null(c.attributes);
    run(context, &c);
    json_decref(c.attributes);
}

static void norm_file(mh_context *context, const char *name, const mh_tensor_file *file)
{
    with_attributes(context, name, file, run_norm);
}

static void gelu_file(mh_context *context, const char *name, const mh_tensor_file *file)
{
    with_attributes(context, name, file, run_gelu);
}

static void rope_file(mh_context *context, const char *name, const mh_tensor_file *file)
{
    with_attributes(context, name, file, run_rope);
}

static void layer_norms(void **state)
{
    (void)state;
    onnx_run_cases("layer_normalization_", norm_file, 19);
}

static void rms_norms(void **state)
{
    (void)state;
    onnx_run_cases("rms_normalization_", norm_file, 19);
}

static void gelus(void **state)
{
    (void)state;
    onnx_run_cases("gelu_", gelu_file, 4);
}

static void ropes(void **state)
{
    (void)state;
    onnx_run_cases("rotary_embedding", rope_file, 8);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(layer_norms),
        cmocka_unit_test(rms_norms),
        cmocka_unit_test(gelus),
        cmocka_unit_test(ropes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
