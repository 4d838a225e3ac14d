// SPDX-License-Identifier: MIT
// A training step of a module has the same bits, by memcmp, with 1 to 8 threads at every
// instruction-set level: output, loss, every gradient, updated parameters. And two threads may
// share a module.
//
// The sizes cross tiles of 64 keys, and 64 rows of a norm's sums.
#include "nn_support.h"
#include "ref/ref_tensor.h"

#include <math.h>
#include <pthread.h>

enum { B = 3, S = 75, T = 41, D = 48, H = 3, F = 70, V = 29, LAYERS = 2 };

static mh_transformer_config config_of(mh_transformer_kind kind, bool norm_first)
{
    mh_transformer_config c = nn_transformer_config(kind, D, H, F, LAYERS);
    c.activation = MH_GELU;
    c.norm_first = norm_first;
    return c;
}

// ---- threads ------------------------------------------------------------------------------------

// Everything that two training steps leave behind.
typedef struct trained {
    float *output, *gradients, *dsrc, *dtgt, *values;
    size_t floats;
    double loss, norm;
} trained;

static void trained_free(trained *t)
{
    float *all[] = {t->output, t->gradients, t->dsrc, t->dtgt, t->values};
    for (size_t i = 0; i < 5; i++)
        free(all[i]);
}

static void train_step(mh_context *context, mh_transformer *module, mh_tape *tape, uint32_t step,
                       float *m, float *v, trained *r)
{
    const mh_parameters *p = mh_transformer_parameters(module);
    float *src = nn_floats(step, B * S * D), *tgt = nn_floats(step + 50, B * T * D);
    float *table = nn_floats(9, V * D), *logits = ref_alloc(B * T * V, sizeof *logits);
    float *doutput = ref_alloc(B * T * D, sizeof *doutput);
    int64_t targets[B * T];
    for (int64_t i = 0; i < B * T; i++)
        targets[i] = i % 11 == 3 ? -100 : i * 7 % V;
    const mh_tensor src_view = mh_tensor_3d(src, MH_F32, S, B, D);
    const mh_tensor tgt_view = mh_tensor_3d(tgt, MH_F32, T, B, D);
    mh_tensor output = mh_tensor_3d(r->output, MH_F32, T, B, D);
    const mh_tensor rows = mh_tensor_2d(r->output, MH_F32, B * T, D);
    const mh_tensor table_view = mh_tensor_2d(table, MH_F32, V, D);
    mh_tensor logits_view = mh_tensor_2d(logits, MH_F32, B * T, V);
    const mh_tensor targets_view = mh_tensor_1d(targets, MH_I64, B * T);
    mh_tensor drows = mh_tensor_2d(doutput, MH_F32, B * T, D);
    const mh_tensor dout = mh_tensor_3d(doutput, MH_F32, T, B, D);
    mh_tensor dsrc = mh_tensor_3d(r->dsrc, MH_F32, S, B, D);
    mh_tensor dtgt = mh_tensor_3d(r->dtgt, MH_F32, T, B, D);
    mh_transformer_options o = mh_transformer_options_default();
    o.tgt_causal = o.training = true;
    o.seed = 77;
    o.step = step;
    o.tape = tape;
    test_ok(context, mh_transformer_forward(context, module, &o, &src_view, &tgt_view, &output));
    test_ok(context, mh_linear(context, NULL, &rows, &table_view, &logits_view));
    test_ok(context, mh_cross_entropy(context, NULL, &logits_view, &targets_view, &r->loss, NULL,
                                      &logits_view));
    test_ok(context, mh_linear_backward(context, NULL, &rows, &table_view, &logits_view, &drows,
                                        NULL, NULL));
    memset(r->gradients, 0, p->floats * sizeof(float));
    test_ok(context, mh_transformer_backward(context, module, &o, &src_view, &tgt_view, &dout,
                                             r->gradients, &dsrc, &dtgt));
    test_ok(context, mh_gradient_norm(context, 1, &p->floats, (const float *const[]){r->gradients},
                                      &r->norm));
    mh_adamw_options a = mh_adamw_options_default();
    a.gradient_scale = mh_clip_factor(r->norm, 1);
    test_ok(context, mh_adamw_step(context, &a, step, p->floats, r->gradients, p->values, m, v));
    float *all[] = {src, tgt, table, logits, doutput};
    for (size_t i = 0; i < 5; i++)
        free(all[i]);
}

static trained train(mh_context *context, bool norm_first)
{
    mh_transformer_config config = config_of(MH_TRANSFORMER, norm_first);
    mh_transformer *module = nn_transformer(context, &config, 5);
    const mh_parameters *p = mh_transformer_parameters(module);
    trained r = {.floats = p->floats};
    r.output = ref_alloc(B * T * D, sizeof(float));
    r.dsrc = ref_alloc(B * S * D, sizeof(float));
    r.dtgt = ref_alloc(B * T * D, sizeof(float));
    r.gradients = ref_alloc(p->floats, sizeof(float));
    r.values = ref_alloc(p->floats, sizeof(float));
    float *m = ref_alloc(p->floats, sizeof *m), *v = ref_alloc(p->floats, sizeof *v);
    mh_tape *tape;
    test_ok(context, mh_tape_create(context, &tape));
    for (uint32_t step = 1; step <= 2; step++)
        train_step(context, module, tape, step, m, v, &r);
    memcpy(r.values, p->values, p->floats * sizeof(float));
    free(m);
    free(v);
    mh_tape_free(tape);
    mh_transformer_free(module);
    return r;
}

static void same_training(const trained *a, const trained *b)
{
    nn_same_bits("output", B * T * D, a->output, b->output);
    nn_same_bits("dsrc", B * S * D, a->dsrc, b->dsrc);
    nn_same_bits("dtgt", B * T * D, a->dtgt, b->dtgt);
    nn_same_bits("gradients", a->floats, a->gradients, b->gradients);
    nn_same_bits("parameters", a->floats, a->values, b->values);
    assert_memory_equal(&a->loss, &b->loss, sizeof a->loss);
    assert_memory_equal(&a->norm, &b->norm, sizeof a->norm);
    assert_true(isfinite(a->loss) && a->norm > 0);
}

static void threads_at(const char *level)
{
    for (int norm_first = 0; norm_first < 2; norm_first++) {
        trained first = {0};
        for (size_t threads = 1; threads <= 8; threads++) {
            mh_context *context = test_context(level, threads);
            trained r = train(context, norm_first);
            if (threads > 1)
                same_training(&first, &r);
            else
                first = r;
            if (threads > 1)
                trained_free(&r);
            mh_context_free(context);
        }
        trained_free(&first);
    }
}

static void training_with_any_threads(void **state)
{
    (void)state;
    test_at_levels(threads_at);
}

// ---- two threads, one module --------------------------------------------------------------------

typedef struct user {
    const mh_transformer *module;
    const float *src;
    float *output, *dsrc, *gradients;
    bool fine;
} user;

static void *use(void *arg)
{
    user *u = arg;
    mh_context_options options = mh_context_options_default();
    options.threads = 2;
    mh_context *context;
    mh_tape *tape = NULL;
    if (mh_context_create(&options, &context, NULL, 0))
        return NULL;
    u->fine = !mh_tape_create(context, &tape);
    mh_transformer_options o = mh_transformer_options_default();
    o.tape = tape;
    const size_t floats = mh_transformer_parameters(u->module)->floats;
    const mh_tensor src = mh_tensor_3d((float *)u->src, MH_F32, S, B, D);
    mh_tensor out = mh_tensor_3d(u->output, MH_F32, S, B, D);
    mh_tensor dsrc = mh_tensor_3d(u->dsrc, MH_F32, S, B, D);
    for (int n = 0; n < 10 && u->fine; n++) {
        memset(u->gradients, 0, floats * sizeof(float));
        u->fine = !mh_transformer_forward(context, u->module, &o, &src, NULL, &out) &&
                  !mh_transformer_backward(context, u->module, &o, &src, NULL, &src, u->gradients,
                                           &dsrc, NULL);
    }
    mh_tape_free(tape);
    mh_context_free(context);
    return NULL;
}

static void two_threads_share_a_module(void **state)
{
    (void)state;
    mh_context *context = test_context(NULL, 1);
    mh_transformer_config config = config_of(MH_ENCODER, false);
    mh_transformer *module = nn_transformer(context, &config, 5);
    const size_t floats = mh_transformer_parameters(module)->floats;
    float *src = nn_floats(1, B * S * D);
    user users[3];
    pthread_t threads[2];
    for (int i = 0; i < 3; i++)
        users[i] = (user){module,
                          src,
                          ref_alloc(B * S * D, sizeof(float)),
                          ref_alloc(B * S * D, sizeof(float)),
                          ref_alloc(floats, sizeof(float)),
                          false};
    use(&users[2]);
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, use, &users[i]), 0);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    for (int i = 0; i < 3; i++) {
        assert_true(users[i].fine);
        nn_same_bits("output", B * S * D, users[i].output, users[2].output);
        nn_same_bits("dsrc", B * S * D, users[i].dsrc, users[2].dsrc);
        nn_same_bits("gradients", floats, users[i].gradients, users[2].gradients);
    }
    for (int i = 0; i < 3; i++) {
        free(users[i].output);
        free(users[i].dsrc);
        free(users[i].gradients);
    }
    free(src);
    mh_transformer_free(module);
    mh_context_free(context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(training_with_any_threads),
        cmocka_unit_test(two_threads_share_a_module),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
