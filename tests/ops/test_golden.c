// SPDX-License-Identifier: MIT
// Golden bits: a fixed set of attention, matmul, linear and softmax results at every
// instruction-set level, as FNV-1a hashes, so that a change of bits by a compiler or a commit is
// noticed and becomes a decision. Inputs come from Philox counters: the same everywhere. So are the
// bits of resampled sound and of its spectrogram, at all levels and with any number of threads.
//
// MH_GOLDEN_UPDATE=1 prints the lines for golden_hashes.h instead of comparing.
#include "base/random.h"
#include "golden_hashes.h"
#include "ref/ref_tensor.h"
#include "support.h"

#include <inttypes.h>
#include <multihead/audio.h>

// ---- inputs and hashes --------------------------------------------------------------------------

static test_tensor input(uint64_t stream, mh_dtype dtype, int rank, const size_t *shape)
{
    test_tensor t = test_tensor_dense(dtype, rank, shape);
    size_t count = ref_count(&t.view), index[MH_MAX_RANK] = {0}, n = 0;
    float *values = ref_alloc(count, sizeof *values);
    mh_random_uniform(2017, stream, -2, 2, count, values);
    do
        ref_set(&t.view, index, (double)values[n++]);
    while (ref_next(&t.view, index));
    free(values);
    return t;
}

static uint64_t fnv1a(uint64_t hash, const void *bytes, size_t size)
{
    const unsigned char *p = bytes;
    for (size_t i = 0; i < size; i++)
        hash = (hash ^ p[i]) * 0x100000001B3u;
    return hash;
}

static uint64_t hash_and_free(uint64_t hash, test_tensor *dense)
{
    hash =
        fnv1a(hash, dense->view.data, ref_count(&dense->view) * mh_dtype_size(dense->view.dtype));
    test_tensor_free(dense);
    return hash;
}

// ---- attention ----------------------------------------------------------------------------------

typedef struct attention_shape {
    mh_dtype dtype;
    size_t B, H, G, T, S, E, Ev;
} attention_shape;

static uint64_t attention(mh_context *context, mh_attention_options options, attention_shape s)
{
    test_tensor q = input(1, s.dtype, 4, (size_t[]){s.B, s.H, s.T, s.E});
    test_tensor k = input(2, s.dtype, 4, (size_t[]){s.B, s.G, s.S, s.E});
    test_tensor v = input(3, s.dtype, 4, (size_t[]){s.B, s.G, s.S, s.Ev});
    test_tensor out = test_tensor_dense(s.dtype, 4, (size_t[]){s.B, s.H, s.T, s.Ev});
    test_tensor lse = test_tensor_dense(MH_F32, 3, (size_t[]){s.B, s.H, s.T});
    test_tensor weights = test_tensor_dense(MH_F32, 4, (size_t[]){s.B, s.H, s.T, s.S});
    options.lse = &lse.view;
    options.weights = &weights.view;
    test_ok(context, mh_attention_forward(context, &options, &q.view, &k.view, &v.view, &out.view));
    uint64_t hash = hash_and_free(0xCBF29CE484222325u, &out);
    hash = hash_and_free(hash, &lse);
    hash = hash_and_free(hash, &weights);
    test_tensor_free(&q);
    test_tensor_free(&k);
    test_tensor_free(&v);
    return hash;
}

static uint64_t attention_f32(mh_context *context)
{
    return attention(context, mh_attention_options_default(),
                     (attention_shape){MH_F32, 2, 4, 2, 70, 1100, 40, 24});
}

static uint64_t attention_bf16(mh_context *context)
{
    mh_attention_options options = mh_attention_options_default();
    options.causal = MH_CAUSAL_BOTTOM_RIGHT;
    return attention(context, options, (attention_shape){MH_BF16, 1, 2, 2, 65, 600, 64, 64});
}

static uint64_t attention_f16(mh_context *context)
{
    mh_attention_options options = mh_attention_options_default();
    options.causal = MH_CAUSAL_TOP_LEFT;
    options.window_left = 100;
    return attention(context, options, (attention_shape){MH_F16, 1, 3, 1, 300, 300, 17, 33});
}

static uint64_t attention_wide(mh_context *context)
{
    mh_attention_options options = mh_attention_options_default();
    options.causal = MH_CAUSAL_BOTTOM_RIGHT;
    return attention(context, options, (attention_shape){MH_F32, 1, 4, 2, 30, 90, 136, 40});
}

static uint64_t attention_decode(mh_context *context)
{
    return attention(context, mh_attention_options_default(),
                     (attention_shape){MH_F32, 1, 8, 2, 1, 1500, 128, 128});
}

static uint64_t attention_capped(mh_context *context)
{
    float sinks[2] = {0.5f, -1};
    mh_attention_options options = mh_attention_options_default();
    options.softcap = 3;
    options.sinks = sinks;
    options.weights_stage = MH_WEIGHTS_CAPPED;
    return attention(context, options, (attention_shape){MH_F32, 1, 2, 1, 50, 130, 9, 5});
}

static uint64_t attention_alibi(mh_context *context)
{
    mh_attention_options options = mh_attention_options_default();
    options.alibi = true;
    options.causal = MH_CAUSAL;
    options.weights_stage = MH_WEIGHTS_BIASED;
    return attention(context, options, (attention_shape){MH_F32, 1, 6, 6, 80, 80, 16, 16});
}

static uint64_t attention_masked(mh_context *context)
{
    uint8_t keep[200];
    for (size_t j = 0; j < 200; j++)
        keep[j] = j > 70 && j % 3 != 0;
    test_tensor bias = input(4, MH_F32, 2, (size_t[]){40, 200});
    mh_mask masks[2] = {mh_mask_make(MH_MASK_KEEP, mh_tensor_1d(keep, MH_BOOL, 200)),
                        mh_mask_make(MH_MASK_ADD, bias.view)};
    mh_attention_options options = mh_attention_options_default();
    options.masks = masks;
    options.mask_count = 2;
    uint64_t hash =
        attention(context, options, (attention_shape){MH_F32, 2, 2, 1, 40, 200, 31, 31});
    test_tensor_free(&bias);
    return hash;
}

// ---- matmul, linear and softmax -----------------------------------------------------------------

static uint64_t matmul(mh_context *context, mh_dtype dtype, size_t M, size_t K, size_t N)
{
    test_tensor a = input(5, dtype, 2, (size_t[]){M, K}), b = input(6, dtype, 2, (size_t[]){K, N});
    test_tensor c = test_tensor_dense(dtype, 2, (size_t[]){M, N});
    test_ok(context, mh_matmul(context, &a.view, &b.view, &c.view));
    test_tensor_free(&a);
    test_tensor_free(&b);
    return hash_and_free(0xCBF29CE484222325u, &c);
}

static uint64_t matmul_f32(mh_context *context) { return matmul(context, MH_F32, 130, 700, 77); }
static uint64_t matmul_bf16(mh_context *context) { return matmul(context, MH_BF16, 33, 257, 129); }
static uint64_t matmul_row(mh_context *context) { return matmul(context, MH_F32, 1, 1000, 500); }

// Everything that a layer writes, forward and backward.
static uint64_t linear(mh_context *context, mh_dtype dtype, mh_precision precision,
                       mh_activation activation)
{
    enum { M = 70, K = 1100, N = 90 };
    test_tensor x = input(8, dtype, 2, (size_t[]){M, K});
    test_tensor weight = input(9, dtype, 2, (size_t[]){N, K});
    test_tensor bias = input(10, MH_F32, 1, (size_t[]){N});
    test_tensor residual = input(11, dtype, 2, (size_t[]){M, N});
    test_tensor before = test_tensor_dense(MH_F32, 2, (size_t[]){M, N});
    test_tensor outputs[5] = {test_tensor_dense(dtype, 2, (size_t[]){M, N}), before,
                              test_tensor_dense(dtype, 2, (size_t[]){M, K}),
                              test_tensor_dense(MH_F32, 2, (size_t[]){N, K}),
                              test_tensor_dense(MH_F32, 1, (size_t[]){N})};
    mh_linear_options o = mh_linear_options_default();
    o.precision = precision;
    o.bias = &bias.view;
    o.activation = &activation;
    o.residual = &residual.view;
    o.preactivation = &before.view;
    test_ok(context, mh_linear(context, &o, &x.view, &weight.view, &outputs[0].view));
    test_ok(context, mh_linear_backward(context, &o, &x.view, &weight.view, &residual.view,
                                        &outputs[2].view, &outputs[3].view, &outputs[4].view));
    test_tensor_free(&x);
    test_tensor_free(&weight);
    test_tensor_free(&bias);
    test_tensor_free(&residual);
    uint64_t hash = 0xCBF29CE484222325u;
    for (size_t i = 0; i < 5; i++)
        hash = hash_and_free(hash, &outputs[i]);
    return hash;
}

static uint64_t linear_f32(mh_context *context)
{
    return linear(context, MH_F32, MH_PRECISION_WEIGHTS, MH_GELU);
}
static uint64_t linear_bf16(mh_context *context)
{
    return linear(context, MH_BF16, MH_PRECISION_WEIGHTS, MH_SILU);
}
static uint64_t linear_f32_as_bf16(mh_context *context)
{
    return linear(context, MH_F32, MH_PRECISION_BF16, MH_RELU);
}

static uint64_t softmax(mh_context *context, bool logarithm, int axis)
{
    test_tensor x = input(7, MH_F32, 3, (size_t[]){9, 70, 33});
    test_tensor y = test_tensor_dense(MH_F32, 3, x.view.shape);
    test_ok(context, logarithm ? mh_log_softmax(context, &x.view, axis, &y.view)
                               : mh_softmax(context, &x.view, axis, &y.view));
    test_tensor_free(&x);
    return hash_and_free(0xCBF29CE484222325u, &y);
}

static uint64_t softmax_rows(mh_context *context) { return softmax(context, false, -1); }
static uint64_t softmax_columns(mh_context *context) { return softmax(context, false, 1); }
static uint64_t log_softmax_rows(mh_context *context) { return softmax(context, true, -1); }

// ---- sound --------------------------------------------------------------------------------------

static mh_audio noise(size_t rate, size_t count)
{
    mh_audio audio = {count, rate, ref_alloc(count, sizeof(float))};
    mh_random_uniform(2017, 12, -0.5f, 0.5f, count, audio.samples);
    return audio;
}

// By contexts of 1, 3 and 5 threads, which must agree.
static uint64_t by_all_threads(mh_context *context, uint64_t (*compute)(mh_context *context))
{
    const char *isa = mh_context_isa(context);
    uint64_t hash = 0;
    for (size_t threads = 1; threads <= 5; threads += 2) {
        mh_context *own = test_context(isa, threads);
        const uint64_t found = compute(own);
        assert_true(threads == 1 || found == hash);
        hash = found;
        mh_context_free(own);
    }
    return hash;
}

// With fewer new samples than phases, and with more.
static uint64_t resample_all(mh_context *context)
{
    static const size_t rates[] = {8000, 22050, 44100, 48000, 191999};
    uint64_t hash = 0xCBF29CE484222325u;
    for (size_t i = 0; i < sizeof rates / sizeof *rates; i++) {
        mh_audio audio = noise(rates[i], 3000), y;
        test_ok(context, mh_audio_resample(context, &audio, 16000, &y));
        hash = fnv1a(hash, y.samples, y.count * sizeof *y.samples);
        free(audio.samples);
        mh_audio_free(context, &y);
    }
    return hash;
}

static uint64_t log_mel_all(mh_context *context)
{
    mh_audio audio = noise(16000, 160 * 50 + 33);
    uint64_t hash = 0xCBF29CE484222325u;
    for (size_t mels = 80; mels <= 128; mels += 48) {
        test_tensor y =
            test_tensor_dense(MH_F32, 2, (size_t[]){mels, mh_log_mel_frames(audio.count)});
        test_ok(context, mh_log_mel(context, audio.samples, audio.count, &y.view));
        hash = hash_and_free(hash, &y);
    }
    free(audio.samples);
    return hash;
}

static uint64_t resample(mh_context *context) { return by_all_threads(context, resample_all); }
static uint64_t log_mel(mh_context *context) { return by_all_threads(context, log_mel_all); }

// ---- the table ----------------------------------------------------------------------------------

static const struct {
    const char *name;
    uint64_t (*compute)(mh_context *context);
} results[] = {
    {"attention_f32", attention_f32},
    {"attention_bf16", attention_bf16},
    {"attention_f16", attention_f16},
    {"attention_wide", attention_wide},
    {"attention_decode", attention_decode},
    {"attention_capped", attention_capped},
    {"attention_alibi", attention_alibi},
    {"attention_masked", attention_masked},
    {"matmul_f32", matmul_f32},
    {"matmul_bf16", matmul_bf16},
    {"matmul_row", matmul_row},
    {"softmax_rows", softmax_rows},
    {"softmax_columns", softmax_columns},
    {"log_softmax_rows", log_softmax_rows},
    {"linear_f32", linear_f32},
    {"linear_bf16", linear_bf16},
    {"linear_f32_as_bf16", linear_f32_as_bf16},
    {"resample", resample},
    {"log_mel", log_mel},
};

static const golden_hash *find(const char *level, const char *name)
{
    for (size_t i = 0; i < sizeof golden_hashes / sizeof *golden_hashes; i++)
        if (strcmp(golden_hashes[i].level, level) == 0 && strcmp(golden_hashes[i].name, name) == 0)
            return &golden_hashes[i];
    return NULL;
}

static void golden(void **state)
{
    (void)state;
    const char *update = getenv("MH_GOLDEN_UPDATE");
    bool print = update && *update && strcmp(update, "0") != 0;
    size_t wrong = 0;
    for (size_t level = 0; test_level(level); level++) {
        const char *isa = test_level(level);
        mh_context *context = test_context(isa, 2);
        for (size_t i = 0; i < sizeof results / sizeof *results; i++) {
            uint64_t hash = results[i].compute(context);
            const golden_hash *expected = find(isa, results[i].name);
            if (print)
                printf("    {\"%s\", \"%s\", 0x%016" PRIX64 "},\n", isa, results[i].name, hash);
            else if (!expected || expected->hash != hash) {
                print_error("%s at %s: %s\n", results[i].name, isa,
                            expected ? "its bits have changed" : "not in golden_hashes.h");
                wrong++;
            }
        }
        mh_context_free(context);
    }
    if (wrong)
        fail_msg("%zu golden results differ. If that is meant, run this test with "
                 "MH_GOLDEN_UPDATE=1, put the lines it prints into tests/fixtures/golden_hashes.h "
                 "and say "
                 "in the commit why the bits changed",
                 wrong);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(golden)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
