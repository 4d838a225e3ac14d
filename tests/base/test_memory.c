// SPDX-License-Identifier: MIT
// What attention takes from the allocator: O(T + S) bytes, nothing at all after the first call,
// nothing if the caller brings a workspace; and when the allocator fails, an error, no leak, and a
// context that still works.
#include "support.h"

static mh_status create(test_memory *c, size_t threads, mh_context **context)
{
    mh_context_options options = mh_context_options_default();
    options.threads = threads;
    options.allocator = test_allocator(c);
    return mh_context_create(&options, context, NULL, 0);
}

enum { T = 40, E = 24 };
static float numbers[4][2 * 3 * T * E];

static mh_status attend(mh_context *context, mh_attention_options *options)
{
    mh_tensor t[4];
    for (int i = 0; i < 4; i++)
        t[i] = mh_tensor_4d(numbers[i], MH_F32, 2, 3, T, E);
    return mh_attention_forward(context, options, &t[0], &t[1], &t[2], &t[3]);
}

static void nothing_after_the_first_call(void **state)
{
    (void)state;
    test_memory c = {0};
    mh_context *context;
    test_ok(NULL, create(&c, 2, &context));
    test_ok(context, attend(context, NULL));
    size_t calls = c.calls;
    for (int i = 0; i < 10; i++)
        test_ok(context, attend(context, NULL));
    assert_int_equal(c.calls, calls);
    mh_context_free(context);
    assert_int_equal(c.live, 0);
}

static void nothing_with_a_workspace(void **state)
{
    (void)state;
    test_memory c = {0};
    mh_context *context;
    test_ok(NULL, create(&c, 1, &context));
    size_t calls = c.calls;
    static char workspace[1 << 20];
    mh_attention_options options = mh_attention_options_default();
    options.workspace = workspace + 1;
    options.workspace_size = sizeof workspace - 1;
    test_ok(context, attend(context, &options));
    assert_int_equal(c.calls, calls);
    mh_context_free(context);
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    bool failed = true;
    for (size_t n = 1; failed; n++) {
        assert_true(n < 100);
        test_memory c = {.fail_at = n};
        mh_context *context = NULL;
        mh_status status = create(&c, 3, &context);
        if (status == MH_OK)
            status = attend(context, NULL);
        failed = c.calls >= n;
        assert_int_equal(status, failed ? MH_ERROR_MEMORY : MH_OK);
        if (context && failed) {
            assert_true(strlen(mh_error_message(context)) > 0);
            test_ok(context, attend(context, NULL)); // it was only that once
        }
        mh_context_free(context);
        assert_int_equal(c.live, 0);
    }
}

// 32k x 32k scores would take 4 GB.
static void long_sequences_take_little(void **state)
{
    (void)state;
    float number = 0;
    mh_tensor t = mh_tensor_4d(&number, MH_F32, 1, 1, 1, 1);
    t.shape[2] = 32768, t.shape[3] = 128;
    t.stride[2] = t.stride[3] = 0; // never computed, so one number stands for all
    for (size_t threads = 1; threads <= 8; threads *= 2) {
        mh_context *context = test_context(test_level(0), threads);
        size_t bytes = 0;
        test_ok(context, mh_attention_workspace(context, NULL, &t, &t, &t, &t, &bytes));
        assert_true(bytes < 64u << 20);
        mh_context_free(context);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_after_the_first_call),
        cmocka_unit_test(nothing_with_a_workspace),
        cmocka_unit_test(every_allocation_may_fail),
        cmocka_unit_test(long_sequences_take_little),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
