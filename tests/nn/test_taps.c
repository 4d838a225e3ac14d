// SPDX-License-Identifier: MIT
// Taps of a Transformer at every instruction-set level: they change no bit of the output, they are
// what a module of its own gives and what the formula says in double, and those that do not fit are
// refused by name.
#include "nn_support.h"
#include "ref/ref_tensor.h"

#include <math.h>

enum { B = 3, S = 75, T = 41, D = 48, H = 3, F = 70, LAYERS = 2 };

// The weights of the first layer's self-attention, from a module of its own.
static float *weights_of_mha(mh_context *context, const mh_transformer *module,
                             const mh_tensor *src, float *output)
{
    mh_mha_config config = nn_mha_config(D, H);
    config.batch_first = true;
    mh_mha *mha;
    test_ok(context, mh_mha_create(context, &config, &mha));
    const mh_parameters *to = mh_mha_parameters(mha), *from = mh_transformer_parameters(module);
    for (size_t i = 0; i < to->count; i++) {
        char name[96];
        snprintf(name, sizeof name, "encoder.layers.0.self_attn.%s", to->list[i].name);
        const mh_parameter *p = mh_parameters_find(from, name);
        assert_non_null(p);
        assert_int_equal(p->count, to->list[i].count);
        memcpy(to->values + to->list[i].offset, from->values + p->offset, p->count * sizeof(float));
    }
    float *weights = ref_alloc(B * H * S * S, sizeof *weights);
    mh_tensor view = mh_tensor_4d(weights, MH_F32, B, H, S, S);
    mh_tensor out = mh_tensor_3d(output, MH_F32, B, S, D);
    mh_mha_options o = mh_mha_options_default();
    o.per_head_weights = true;
    test_ok(context, mh_mha_forward(context, mha, &o, src, src, src, &out, &view));
    mh_mha_free(mha);
    return weights;
}

static float *tap_memory(size_t count)
{
    float *memory = ref_alloc(count, sizeof *memory);
    for (size_t i = 0; i < count; i++)
        memory[i] = NAN;
    return memory;
}

static void add_further_taps(mh_tap *tap, size_t Q, size_t K)
{
    tap->q = mh_tensor_4d(tap_memory(B * Q * D), MH_F32, B, H, Q, D / H);
    tap->k = mh_tensor_4d(tap_memory(B * K * D), MH_F32, B, H, K, D / H);
    tap->v = mh_tensor_4d(tap_memory(B * K * D), MH_F32, B, H, K, D / H);
    tap->out = mh_tensor_3d(tap_memory(B * Q * D), MH_F32, B, Q, D);
}

static const float *parameter(const mh_transformer *module, const char *layer, size_t i,
                              const char *name)
{
    char full[128];
    snprintf(full, sizeof full, "%s%zu.%s", layer, i, name);
    const mh_parameters *all = mh_transformer_parameters(module);
    const mh_parameter *p = mh_parameters_find(all, full);
    assert_non_null(p);
    return all->values + p->offset;
}

// One query of a tap by hand, in double: softmax(q k / sqrt(E)) gives its weights, and the output
// projection of the weighted values its output.
static void check_query(const mh_tap *tap, const float *matrix, const float *bias, size_t b,
                        size_t t)
{
    enum { E = D / H };
    const size_t Q = tap->q.shape[2], K = tap->k.shape[2];
    const size_t seen = tap->kind == MH_TAP_DECODER ? t + 1 : K;
    const float *q = tap->q.data, *k = tap->k.data, *v = tap->v.data, *w = tap->weights.data;
    double heads[D] = {0};
    for (size_t h = 0; h < H; h++) {
        double weight[S + T], sum = 0;
        for (size_t s = 0; s < seen; s++) {
            double score = 0;
            for (size_t e = 0; e < E; e++)
                score += (double)q[((b * H + h) * Q + t) * E + e] *
                         (double)k[((b * H + h) * K + s) * E + e];
            sum += weight[s] = exp(score / sqrt(E));
        }
        for (size_t s = 0; s < seen; s++) {
            if (tap->weights.shape[1] == H)
                assert_true(fabs(weight[s] / sum - (double)w[((b * H + h) * Q + t) * K + s]) <
                            1e-5);
            for (size_t e = 0; e < E; e++)
                heads[h * E + e] += weight[s] / sum * (double)v[((b * H + h) * K + s) * E + e];
        }
    }
    for (size_t d = 0; d < D; d++) {
        double sum = (double)bias[d];
        for (size_t e = 0; e < D; e++)
            sum += heads[e] * (double)matrix[d * D + e];
        assert_true(fabs(sum - (double)((const float *)tap->out.data)[(b * Q + t) * D + d]) < 1e-4);
    }
}

static void check_further_taps(const mh_transformer *module, const mh_tap *tap)
{
    const char *layer = tap->kind == MH_TAP_ENCODER ? "encoder.layers." : "decoder.layers.";
    const bool cross = tap->kind == MH_TAP_CROSS;
    const float *matrix =
        parameter(module, layer, tap->layer,
                  cross ? "multihead_attn.out_proj.weight" : "self_attn.out_proj.weight");
    const float *bias =
        parameter(module, layer, tap->layer,
                  cross ? "multihead_attn.out_proj.bias" : "self_attn.out_proj.bias");
    for (size_t b = 0; b < B; b++)
        for (size_t t = 0; t < tap->q.shape[2]; t++)
            check_query(tap, matrix, bias, b, t);
    void *all[] = {tap->q.data, tap->k.data, tap->v.data, tap->out.data};
    for (size_t i = 0; i < 4; i++)
        free(all[i]);
}

// What does not fit is refused by name, and nothing else is.
static void refuse_taps(mh_context *context, const mh_transformer *module, mh_tap good,
                        const mh_tensor *src, const mh_tensor *tgt, mh_tensor *out)
{
    static const char *const names[] = {"tap.q", "tap.k", "tap.v", "tap.out"};
    mh_tap tap = good;
    mh_tensor *tensors[] = {&tap.q, &tap.k, &tap.v, &tap.out};
    mh_transformer_options o = mh_transformer_options_default();
    o.taps = &tap;
    o.tap_count = 1;
    for (size_t i = 0; i < 4; i++) {
        tap = good;
        tensors[i]->shape[1]--;
        assert_int_equal(mh_transformer_forward(context, module, &o, src, tgt, out),
                         MH_ERROR_ARGUMENT);
        assert_non_null(strstr(mh_error_message(context), names[i]));
        tap = good;
        tensors[i]->dtype = MH_I32;
        assert_int_equal(mh_transformer_forward(context, module, &o, src, tgt, out),
                         MH_ERROR_UNSUPPORTED);
        assert_non_null(strstr(mh_error_message(context), names[i]));
        for (int j = 0; j < 3; j++) { // what the call still reads or writes
            tap = good;
            tensors[i]->data = (j == 0 ? src : j == 1 ? tgt : out)->data;
            assert_int_equal(mh_transformer_forward(context, module, &o, src, tgt, out),
                             MH_ERROR_ARGUMENT);
            assert_non_null(strstr(mh_error_message(context), names[i]));
        }
    }
    tap = (mh_tap){.struct_size = sizeof(mh_tap),
                   .kind = good.kind,
                   .layer = good.layer,
                   .v = good.v}; // nothing but v
    test_ok(context, mh_transformer_forward(context, module, &o, src, tgt, out));
}

static void taps_at(const char *level)
{
    mh_context *context = test_context(level, 2);
    mh_transformer_config config = nn_transformer_config(MH_TRANSFORMER, D, H, F, LAYERS);
    config.activation = MH_GELU;
    config.batch_first = true;
    mh_transformer *module = nn_transformer(context, &config, 5);
    float *src = nn_floats(1, B * S * D), *tgt = nn_floats(2, B * T * D);
    float *plain = ref_alloc(B * T * D, sizeof *plain), *tapped = ref_alloc(B * T * D, sizeof *src);
    float *output = ref_alloc(B * S * D, sizeof *output);
    const mh_tensor src_view = mh_tensor_3d(src, MH_F32, B, S, D);
    const mh_tensor tgt_view = mh_tensor_3d(tgt, MH_F32, B, T, D);
    mh_tensor plain_view = mh_tensor_3d(plain, MH_F32, B, T, D);
    mh_tensor tapped_view = mh_tensor_3d(tapped, MH_F32, B, T, D);
    const size_t Q[3] = {S, T, T}, K[3] = {S, T, S}, last[1] = {H - 1};
    mh_tap taps[3 * LAYERS];
    for (size_t i = 0; i < 3 * LAYERS; i++) {
        const size_t kind = i / LAYERS, heads = i == 1 ? 1 : H;
        taps[i] =
            (mh_tap){.struct_size = sizeof(mh_tap), .kind = (mh_tap_kind)kind, .layer = i % LAYERS};
        if (heads == 1)
            taps[i].heads = last, taps[i].head_count = 1;
        float *memory = ref_alloc(B * heads * Q[kind] * K[kind], sizeof *memory);
        taps[i].weights = mh_tensor_4d(memory, MH_F32, B, heads, Q[kind], K[kind]);
        add_further_taps(&taps[i], Q[kind], K[kind]);
    }
    mh_transformer_options o = mh_transformer_options_default();
    o.tgt_causal = true;
    test_ok(context,
            mh_transformer_forward(context, module, &o, &src_view, &tgt_view, &plain_view));
    o.taps = taps;
    o.tap_count = 3 * LAYERS;
    test_ok(context,
            mh_transformer_forward(context, module, &o, &src_view, &tgt_view, &tapped_view));
    nn_same_bits("output with taps", B * T * D, plain, tapped);
    float *weights = weights_of_mha(context, module, &src_view, output);
    nn_same_bits("tap", B * H * S * S, taps[0].weights.data, weights);
    nn_same_bits("tap of the output", B * S * D, taps[0].out.data, output);
    refuse_taps(context, module, taps[2 * LAYERS], &src_view, &tgt_view, &plain_view);
    for (size_t i = 0; i < 3 * LAYERS; i++) { // rows of weights add up to 1
        const size_t keys = taps[i].weights.shape[3];
        const float *w = taps[i].weights.data;
        for (size_t row = 0; row < ref_count(&taps[i].weights) / keys; row++) {
            double sum = 0;
            for (size_t j = 0; j < keys; j++)
                sum += (double)w[row * keys + j];
            assert_true(fabs(sum - 1) < 1e-5);
        }
        check_further_taps(module, &taps[i]);
        free(taps[i].weights.data);
    }
    float *all[] = {src, tgt, plain, tapped, output, weights};
    for (size_t i = 0; i < 6; i++)
        free(all[i]);
    mh_transformer_free(module);
    mh_context_free(context);
}

static void taps_change_nothing(void **state)
{
    (void)state;
    test_at_levels(taps_at);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(taps_change_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
