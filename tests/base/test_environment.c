// SPDX-License-Identifier: MIT
// A caller that rounds otherwise gets the same bits, also of what is no parallel loop: factors of
// losses and steps, norms, slopes, initial values. test_bits has attention, test_train a whole run.
#include "base/random.h"
#include "support.h"

#include <multihead/attention.h>
#include <multihead/layers.h>
#include <multihead/nn.h>
#include <multihead/optimiser.h>

#include <fenv.h>
#include <string.h>

enum { MOST = 1 << 15, N = 1000 };

typedef struct results {
    double numbers[MOST];
    size_t count;
} results;

typedef void (*check)(mh_context *context, results *r);

static void note(results *r, double x)
{
    assert_true(r->count < MOST);
    r->numbers[r->count++] = x;
}

static void note_all(results *r, size_t n, const float *x)
{
    for (size_t i = 0; i < n; i++)
        note(r, (double)x[i]);
}

static void random_numbers(float x[N], uint64_t seed) { mh_random_uniform(seed, 0, -1, 1, N, x); }

// ---- what is checked ----------------------------------------------------------------------------

static void norms(mh_context *context, results *r)
{
    float x[N];
    const float *gradients = x;
    const size_t n = N;
    for (uint64_t seed = 0; seed < 20; seed++) {
        double norm;
        random_numbers(x, seed);
        test_ok(context, mh_gradient_norm(context, 1, &n, &gradients, &norm));
        note(r, norm);
        note(r, mh_clip_factor(norm, 1));
    }
}

static void steps(mh_context *context, results *r)
{
    float gradient[N], parameter[N], m[N] = {0}, v[N] = {0};
    random_numbers(gradient, 1);
    random_numbers(parameter, 2);
    mh_sgd_options sgd = mh_sgd_options_default();
    sgd.learning_rate = 0.1;
    sgd.momentum = 0.9;
    sgd.weight_decay = 0.01;
    test_ok(context, mh_sgd_step(context, &sgd, N, gradient, parameter, m));
    note_all(r, N, parameter);
    mh_adamw_options adamw = mh_adamw_options_default();
    test_ok(context, mh_adamw_step(context, &adamw, 3, N, gradient, parameter, m, v));
    note_all(r, N, parameter);
    test_ok(context, mh_scale_gradients(context, 0.1, N, gradient));
    note_all(r, N, gradient);
}

static void losses(mh_context *context, results *r)
{
    enum { ROWS = 7, CLASSES = 11 };
    float numbers[N], gradients[ROWS * CLASSES];
    int32_t ids[ROWS] = {0, 1, 2, 3, 4, 5, 6};
    random_numbers(numbers, 3);
    const mh_tensor logits = mh_tensor_2d(numbers, MH_F32, ROWS, CLASSES);
    const mh_tensor targets = mh_tensor_1d(ids, MH_I32, ROWS);
    mh_tensor dlogits = mh_tensor_2d(gradients, MH_F32, ROWS, CLASSES);
    mh_cross_entropy_options options = mh_cross_entropy_options_default();
    double loss;
    options.label_smoothing = 0.1f;
    test_ok(context, mh_cross_entropy(context, &options, &logits, &targets, &loss, NULL, &dlogits));
    note(r, loss);
    note_all(r, ROWS * CLASSES, gradients);
}

static void slopes(mh_context *context, results *r)
{
    (void)context;
    for (size_t heads = 1; heads < 40; heads++)
        for (size_t head = 0; head < heads; head++)
            note(r, (double)mh_alibi_slope(head, heads));
}

static void initial_values(mh_context *context, results *r)
{
    mh_mha_config config = mh_mha_config_default();
    mh_mha *mha;
    config.embed_dim = 30;
    config.num_heads = 3;
    config.add_bias_kv = true; // those are normal numbers
    test_ok(context, mh_mha_create(context, &config, &mha));
    const mh_parameters *p = mh_mha_parameters(mha);
    mh_parameters_init(p, 7);
    note_all(r, p->floats, p->values);
    mh_mha_free(mha);
}

// ---- in every mode ------------------------------------------------------------------------------

static void run_check(void **state)
{
    static const int modes[] = {FE_DOWNWARD, FE_UPWARD, FE_TOWARDZERO};
    static results expected, found;
    const check body = *(check *)*state;
    mh_context *context = test_context(NULL, 2);
    fenv_t usual;
    fegetenv(&usual);
    expected.count = 0;
    body(context, &expected);
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) {
        found.count = 0;
        fesetround(modes[i]);
        body(context, &found);
        const int mode = fegetround(); // the caller gets its own back
        fesetenv(&usual);
        assert_int_equal(mode, modes[i]);
        assert_int_equal(found.count, expected.count);
        assert_memory_equal(found.numbers, expected.numbers,
                            expected.count * sizeof *expected.numbers);
    }
    mh_context_free(context);
}

int main(void)
{
    static check checks[] = {norms, steps, losses, slopes, initial_values};
    const struct CMUnitTest tests[] = {
        {"norms", run_check, NULL, NULL, &checks[0]},
        {"steps", run_check, NULL, NULL, &checks[1]},
        {"losses", run_check, NULL, NULL, &checks[2]},
        {"slopes", run_check, NULL, NULL, &checks[3]},
        {"initial_values", run_check, NULL, NULL, &checks[4]},
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
