// SPDX-License-Identifier: MIT
// mh_measure_limits: positive figures at every level, a caller's shorter struct filled no further
// than it is long, refusals that leave it untouched.
#include "support.h"

#include <multihead/ops.h>

static void figures(void **state)
{
    (void)state;
    for (size_t level = 0; test_level(level); level++) {
        mh_context *context = test_context(test_level(level), 2);
        mh_limits limits = mh_limits_default();
        test_ok(context, mh_measure_limits(context, 0.003, 0, &limits));
        assert_true(limits.fma_gflops > 0 && limits.bf16_gflops > 0);
        assert_true(limits.read_gbps == 0 && limits.footprint == 0);
        test_ok(context, mh_measure_limits(context, 0.003, 100000, &limits));
        assert_true(limits.fma_gflops > 0 && limits.bf16_gflops > 0 && limits.read_gbps > 0);
        assert_true(limits.footprint == 100000 && limits.struct_size == sizeof limits);
        mh_context_free(context);
    }
}

static void older_caller(void **state)
{
    (void)state;
    mh_context *context = test_context(NULL, 1);
    mh_limits limits = mh_limits_default();
    limits.struct_size = offsetof(mh_limits, bf16_gflops);
    limits.bf16_gflops = -1;
    test_ok(context, mh_measure_limits(context, 0.001, 64, &limits));
    assert_true(limits.fma_gflops > 0);
    assert_true(limits.bf16_gflops == -1 && limits.footprint == 0);
    assert_true(limits.struct_size == offsetof(mh_limits, bf16_gflops));
    mh_context_free(context);
}

static void errors(void **state)
{
    (void)state;
    mh_context *context = test_context(NULL, 1);
    const size_t wrong[] = {0, sizeof(size_t) - 1, sizeof(mh_limits) + 1};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        mh_limits limits = {.struct_size = wrong[i]};
        test_refused(context, mh_measure_limits(context, 0.001, 0, &limits), MH_ERROR_ARGUMENT,
                     "struct_size");
        assert_true(limits.fma_gflops == 0);
    }
    mh_limits limits = mh_limits_default();
    assert_int_equal(mh_measure_limits(context, 0.001, SIZE_MAX / 2, &limits), MH_ERROR_MEMORY);
    assert_true(limits.fma_gflops == 0);
    mh_context_free(context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(figures),
        cmocka_unit_test(older_caller),
        cmocka_unit_test(errors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
