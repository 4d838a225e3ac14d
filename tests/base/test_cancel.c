// SPDX-License-Identifier: MIT
// A running call is stopped from another thread and from a signal handler, a pending cancellation
// stops the next call, and one cancellation stops one call. What a call keeps is consistent.
#include "support.h"
#include <pthread.h>
#include <signal.h>
#include <sys/time.h>
#include <time.h>

enum { T = 4096, E = 64, H = 8 };

static mh_context *context;
static float *data; // q, k, v and out

static int set_up(void **state)
{
    mh_context_options o = mh_context_options_default();
    o.threads = 2;
    (void)state;
    data = calloc((size_t)4 * H * T * E, sizeof *data);
    return !data || mh_context_create(&o, &context, NULL, 0) != MH_OK;
}

static int tear_down(void **state)
{
    (void)state;
    free(data);
    mh_context_free(context);
    return 0;
}

static mh_tensor part(size_t i, size_t length)
{
    return mh_tensor_4d(data + i * H * T * E, MH_F32, 1, H, length, E);
}

static mh_status attend(mh_context *c, size_t length)
{
    const mh_tensor q = part(0, length), k = part(1, length), v = part(2, length);
    mh_tensor out = part(3, length);
    return mh_attention_forward(c, NULL, &q, &k, &v, &out);
}

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void *cancel_soon(void *arg)
{
    struct timespec pause = {.tv_nsec = 5000000};
    nanosleep(&pause, NULL);
    mh_context_cancel(arg);
    return NULL;
}

// Calls until one is cancelled; the others must succeed.
static void expect_cancelled(mh_context *c)
{
    const double begun = seconds();
    mh_status status = MH_OK;
    while (status == MH_OK && seconds() - begun < 60)
        status = attend(c, T);
    assert_int_equal(status, MH_ERROR_CANCELLED);
    assert_string_equal(mh_error_message(c), "the call was cancelled");
    assert_int_equal(attend(c, 64), MH_OK);
}

static void from_another_thread(void **state)
{
    pthread_t thread;
    (void)state;
    assert_int_equal(pthread_create(&thread, NULL, cancel_soon, context), 0);
    expect_cancelled(context);
    pthread_join(thread, NULL);
}

static void on_alarm(int signal)
{
    (void)signal;
    mh_context_cancel(context);
}

static void from_a_signal_handler(void **state)
{
    const struct itimerval soon = {.it_value = {.tv_usec = 5000}};
    (void)state;
    signal(SIGALRM, on_alarm);
    setitimer(ITIMER_REAL, &soon, NULL);
    expect_cancelled(context);
    signal(SIGALRM, SIG_DFL);
}

static void pending(void **state)
{
    float x[4] = {1, 2, 3, 4}, y[4] = {0};
    const mh_tensor a = mh_tensor_2d(x, MH_F32, 2, 2);
    mh_tensor b = mh_tensor_2d(y, MH_F32, 2, 2);
    (void)state;
    mh_context_cancel(context);
    mh_context_cancel(context);
    assert_int_equal(mh_matmul(context, &a, &a, &b), MH_ERROR_CANCELLED);
    assert_int_equal(mh_matmul(context, &a, &a, &b), MH_OK);
    assert_true(y[0] == 7);
    mh_context_cancel(NULL);
}

static void in_serial_contexts(void **state)
{
    mh_context *serial;
    (void)state;
    test_ok(context, mh_context_create_serial(context, &serial));
    mh_context_cancel(context);
    assert_int_equal(attend(serial, 64), MH_ERROR_CANCELLED);
    assert_int_equal(attend(serial, 64), MH_ERROR_CANCELLED); // until the parent has reported it
    assert_int_equal(attend(context, 64), MH_ERROR_CANCELLED);
    assert_int_equal(attend(serial, 64), MH_OK);
    mh_context_free(serial);
}

// A cancelled step leaves a decoding as it was: the same step then gives the same bits.
static void decoding_is_consistent(void **state)
{
    enum { D = 16, STEPS = 4 };
    mh_transformer_config c = mh_transformer_config_default();
    mh_transformer *model;
    mh_decoding *cancelled, *straight;
    float token[D], out[2][D];
    (void)state;
    c.kind = MH_ENCODER;
    c.d_model = D;
    c.nhead = 2;
    c.num_encoder_layers = 2;
    c.dim_feedforward = 32;
    c.batch_first = true;
    test_ok(context, mh_transformer_create(context, &c, &model));
    mh_parameters_init(mh_transformer_parameters(model), 3);
    test_ok(context, mh_decoding_create_causal(context, model, 1, &cancelled));
    test_ok(context, mh_decoding_create_causal(context, model, 1, &straight));
    const mh_tensor x = mh_tensor_3d(token, MH_F32, 1, 1, D);
    mh_tensor y[2] = {mh_tensor_3d(out[0], MH_F32, 1, 1, D), mh_tensor_3d(out[1], MH_F32, 1, 1, D)};
    for (int s = 0; s < STEPS; s++) {
        for (int i = 0; i < D; i++)
            token[i] = (float)((s * 7 + i) % 5) - 2;
        mh_context_cancel(context);
        assert_int_equal(mh_decoding_step(context, cancelled, NULL, 0, &x, &y[0]),
                         MH_ERROR_CANCELLED);
        test_ok(context, mh_decoding_step(context, cancelled, NULL, 0, &x, &y[0]));
        test_ok(context, mh_decoding_step(context, straight, NULL, 0, &x, &y[1]));
        assert_memory_equal(out[0], out[1], sizeof out[0]);
    }
    mh_decoding_free(cancelled);
    mh_decoding_free(straight);
    mh_transformer_free(model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(from_another_thread),
        cmocka_unit_test(from_a_signal_handler),
        cmocka_unit_test(pending),
        cmocka_unit_test(in_serial_contexts),
        cmocka_unit_test(decoding_is_consistent),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
