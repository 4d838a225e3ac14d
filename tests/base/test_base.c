// SPDX-License-Identifier: MIT
// The ground everything stands on: status names, checked sizes, arena, bf16 and f16, Philox,
// CPU count, and the life of a context - every way its creation can fail included.
#include "base/arena.h"
#include "base/context.h"
#include "base/cpu.h"
#include "base/env.h"
#include "base/fpenv.h"
#include "base/half.h"
#include "base/overflow.h"
#include "base/philox.h"
#include "base/pool.h"
#include "base/random.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h> // wants the headers above

// ---- status, sizes, arena -----------------------------------------------------------------------

static void status_has_names(void **state)
{
    (void)state;
    for (int s = MH_OK; s <= MH_ERROR_CANCELLED; s++) {
        assert_string_not_equal(mh_status_name((mh_status)s), "unknown status");
        for (int t = MH_OK; t < s; t++)
            assert_string_not_equal(mh_status_name((mh_status)s), mh_status_name((mh_status)t));
    }
    assert_string_equal(mh_status_name((mh_status)99), "unknown status");
    assert_string_equal(mh_version(), MH_VERSION_STRING);
}

static void sizes_do_not_wrap(void **state)
{
    (void)state;
    size_t r = 7;
    assert_false(mh_add_sizes(SIZE_MAX, 1, &r));
    assert_false(mh_multiply_sizes(SIZE_MAX / 2, 3, &r));
    assert_false(mh_round_up_size(SIZE_MAX - 1, 64, &r));
    assert_false(mh_multiply_all(3, (size_t[]){0, SIZE_MAX / 2 + 1, 4}, &r));
    assert_int_equal(r, 7);
    assert_true(mh_multiply_all(0, NULL, &r));
    assert_int_equal(r, 1);
    assert_true(mh_multiply_all(3, (size_t[]){5, 0, 4}, &r));
    assert_int_equal(r, 0);
    assert_true(mh_round_up_size(65, 64, &r));
    assert_int_equal(r, 128);
    assert_true(mh_multiply_sizes(SIZE_MAX, 1, &r));
    assert_true(r == SIZE_MAX);
}

static void arena_passes_agree(void **state)
{
    (void)state;
    mh_arena size = {0};
    assert_null(mh_arena_take(&size, 3, 4));
    assert_null(mh_arena_take(&size, 0, 8));
    assert_null(mh_arena_take(&size, 65, 1));
    assert_int_equal(size.used, 64 + 128);
    assert_false(size.overflow);

    char *memory = aligned_alloc(64, size.used);
    mh_arena work = {.base = memory, .size = size.used};
    assert_ptr_equal(mh_arena_take(&work, 3, 4), memory);
    assert_ptr_equal(mh_arena_take(&work, 0, 8), memory + 64);
    assert_ptr_equal(mh_arena_take(&work, 65, 1), memory + 64);
    assert_int_equal(work.used, size.used);
    assert_null(mh_arena_take(&work, 1, 1));
    assert_true(work.overflow);
    assert_null(mh_arena_take(&work, 0, 1)); // an overflow stays
    free(memory);

    mh_arena huge = {0};
    mh_arena_take(&huge, SIZE_MAX / 2, 3);
    assert_true(huge.overflow);
}

// ---- half floats --------------------------------------------------------------------------------

// The value by definition; infinity's code stands for the first power of two out of range.
static double f16_value(uint32_t code)
{
    int exponent = (int)(code >> 10);
    double mantissa = code & 0x3FF;
    return exponent == 0 ? ldexp(mantissa, -24) : ldexp(mantissa + 1024, exponent - 25);
}

static double bf16_value(uint32_t code)
{
    int exponent = (int)(code >> 7);
    double mantissa = code & 0x7F;
    return exponent == 0 ? ldexp(mantissa, -133) : ldexp(mantissa + 128, exponent - 134);
}

typedef struct half_kind {
    double (*value)(uint32_t code);
    float (*widen)(uint16_t half);
    uint16_t (*narrow)(float value);
    uint32_t infinity;
} half_kind;

static const half_kind f16 = {f16_value, mh_f16_to_float, mh_float_to_f16, 0x7C00};
static const half_kind bf16 = {bf16_value, mh_bf16_to_float, mh_float_to_bf16, 0x7F80};

// Nearest code of a magnitude, ties to the even code, found by bisection.
static uint32_t nearest(const half_kind *kind, double magnitude)
{
    uint32_t low = 0, high = kind->infinity;
    if (magnitude >= kind->value(high))
        return high;
    while (high - low > 1) {
        uint32_t middle = (low + high) / 2;
        if (kind->value(middle) <= magnitude)
            low = middle;
        else
            high = middle;
    }
    double below = magnitude - kind->value(low), above = kind->value(high) - magnitude;
    return below < above || (below == above && low % 2 == 0) ? low : high;
}

static void check_narrow(const half_kind *kind, float value)
{
    uint32_t sign = signbit(value) ? 0x8000 : 0, found = kind->narrow(value);
    if (isnan(value)) {
        assert_true((found & 0x7FFF) > kind->infinity);
        return;
    }
    uint32_t expected = sign | nearest(kind, fabs((double)value));
    if (found != expected)
        fail_msg("%a: found %04x, expected %04x", (double)value, found, expected);
}

static void check_all_codes(const half_kind *kind)
{
    for (uint32_t code = 0; code <= 0xFFFF; code++) {
        uint32_t magnitude = code & 0x7FFF;
        float value = kind->widen((uint16_t)code);
        if (magnitude > kind->infinity) {
            assert_true(isnan(value));
        } else if (magnitude == kind->infinity) {
            assert_true(isinf(value));
        } else {
            assert_true(fabs((double)value) == kind->value(magnitude));
            float edge = (float)((kind->value(magnitude) + kind->value(magnitude + 1)) / 2);
            check_narrow(kind, edge);
            check_narrow(kind, nextafterf(edge, 0));
            check_narrow(kind, nextafterf(edge, INFINITY));
        }
        assert_int_equal(!!signbit(value), code >> 15);
        if (!isnan(value))
            assert_int_equal(kind->narrow(value), code);
    }
}

static void half_is_exact(void **state)
{
    (void)state;
    check_all_codes(&f16);
    check_all_codes(&bf16);
    assert_int_equal(mh_float_to_f16(65520), 0x7C00);
    assert_int_equal(mh_float_to_f16(65519), 0x7BFF);
    assert_int_equal(mh_float_to_f16(-INFINITY), 0xFC00);
    assert_int_equal(mh_float_to_bf16(3.4e38f), 0x7F80);
}

static void half_rounds_random_floats(void **state)
{
    (void)state;
    uint32_t counter[4] = {0}, key[2] = {1, 2}, words[4];
    for (counter[0] = 0; counter[0] < 100000; counter[0]++) {
        mh_philox(counter, key, words);
        for (int i = 0; i < 4; i++) {
            check_narrow(&bf16, mh_bits_to_float(words[i]));
            check_narrow(&f16, mh_bits_to_float(words[i]));
            // most floats are out of f16's range: once more with an exponent within it
            uint32_t exponent = 100 + words[i] % 46;
            check_narrow(&f16, mh_bits_to_float((words[i] & 0x807FFFFF) | exponent << 23));
        }
    }
}

// ---- random numbers -----------------------------------------------------------------------------

// The known answers of Random123's kat_vectors.
static void philox_known_answers(void **state)
{
    (void)state;
    static const struct {
        uint32_t counter[4], key[2], expected[4];
    } cases[] = {
        {{0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
        {{~0u, ~0u, ~0u, ~0u}, {~0u, ~0u}, {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
        {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
         {0xa4093822, 0x299f31d0},
         {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        uint32_t out[4];
        mh_philox(cases[i].counter, cases[i].key, out);
        assert_memory_equal(out, cases[i].expected, sizeof out);
    }
}

static void uniform_is_uniform(void **state)
{
    (void)state;
    enum { N = 100001 };
    float *x = malloc(N * sizeof *x), *y = malloc(N * sizeof *y);
    mh_random_uniform(5, 6, -2, 3, N, x);
    double mean = 0;
    for (size_t i = 0; i < N; i++) {
        assert_true(x[i] >= -2 && x[i] < 3);
        mean += (double)x[i] / N;
    }
    assert_true(fabs(mean - 0.5) < 0.02); // 4 standard errors
    for (size_t n = 0; n < 9; n++) {      // a shorter request gives the same beginning
        mh_random_uniform(5, 6, -2, 3, n, y);
        assert_memory_equal(x, y, n * sizeof *x);
    }
    mh_random_uniform(5, 7, -2, 3, N, y);
    assert_memory_not_equal(x, y, N * sizeof *x);
    mh_random_uniform(6, 6, -2, 3, N, y);
    assert_memory_not_equal(x, y, N * sizeof *x);
    mh_random_uniform(1, 1, 1, nextafterf(1, 2), N, y); // only one value is inside
    for (size_t i = 0; i < N; i++)
        assert_true(y[i] == 1);
    mh_random_uniform(1, 1, -3e38f, 3e38f, N, y);
    for (size_t i = 0; i < N; i++)
        assert_true(isfinite(y[i]) && y[i] < 3e38f);
    free(x);
    free(y);
}

// ---- CPUs ---------------------------------------------------------------------------------------

static char root[] = "/tmp/mh-test-base-XXXXXX";

static void put(const char *name, const char *text)
{
    char path[512];
    snprintf(path, sizeof path, "%s/%s", root, name);
    for (char *slash = strchr(path + strlen(root) + 1, '/'); slash;
         slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        mkdir(path, 0755);
        *slash = '/';
    }
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

static size_t quota(const char *membership)
{
    char path[512];
    put("membership", membership);
    snprintf(path, sizeof path, "%s/membership", root);
    return mh_cgroup_cpus(path, root);
}

static void cgroup_quotas(void **state)
{
    (void)state;
    assert_non_null(mkdtemp(root));
    put("a/b/cpu.max", "max 100000\n");
    put("a/cpu.max", "250000 100000\n");
    put("c/cpu.max", "50000 100000\n");
    put("cpu/x/cpu.cfs_quota_us", "-1\n");
    put("cpu/x/cpu.cfs_period_us", "100000\n");
    put("cpu/x/y/cpu.cfs_quota_us", "400000\n");
    put("cpu/x/y/cpu.cfs_period_us", "100000\n");
    assert_true(quota("0::/\n") == SIZE_MAX);
    assert_int_equal(quota("0::/a/b\n"), 3); // the parent's 2.5
    assert_int_equal(quota("0::/c\n"), 1);
    assert_true(quota("4:cpu,cpuacct:/x\n0::/\n") == SIZE_MAX);
    assert_int_equal(quota("4:cpuacct,cpu:/x/y\n0::/\n"), 4);
    assert_int_equal(quota("4:cpu,cpuacct:/x/y\n0::/a/b"), 3);
    assert_true(quota("4:cpuset:/x/y\n") == SIZE_MAX);
    put("cpu.max", "700000 100000\n"); // the container's own view: its host path is not here
    assert_int_equal(quota("0::/docker/0123\n"), 7);
    assert_int_equal(quota("0::/../../elsewhere\n"), 7);
    assert_int_equal(quota("garbage\n:\n::\n3:cpu\n0::a\n0::/\n"), 7);
    put("cpu.max", "nonsense");
    assert_true(quota("0::/\n") == SIZE_MAX);
    assert_true(mh_cgroup_cpus("/nonexistent", root) == SIZE_MAX);
    char command[64];
    snprintf(command, sizeof command, "rm -r %s", root);
    assert_int_equal(system(command), 0);
}

static void cpus_and_features(void **state)
{
    (void)state;
    size_t cpus = mh_usable_cpus();
    assert_true(cpus >= 1 && (long)cpus <= sysconf(_SC_NPROCESSORS_CONF));
    const mh_cpu *cpu = mh_cpu_get();
    assert_int_equal(cpu->avx2, strstr(mh_cpu_features(), "avx2") != NULL);
    assert_int_equal(cpu->amx_permitted, strstr(mh_cpu_features(), "amx_permitted") != NULL);
#if defined(__x86_64__)
    __builtin_cpu_init();
    assert_int_equal(cpu->avx2, !!__builtin_cpu_supports("avx2"));
    assert_int_equal(cpu->avx512bw, !!__builtin_cpu_supports("avx512bw"));
    assert_int_equal(cpu->avx512bf16, !!__builtin_cpu_supports("avx512bf16"));
#endif
}

// ---- contexts -----------------------------------------------------------------------------------

// An allocator that fails from the n-th call on, and counts what is alive.
typedef struct meter {
    size_t calls, fail_at; // fail_at 0: never
    size_t blocks, bytes;
} meter;

static void *metered_alloc(void *user, size_t size, size_t alignment)
{
    meter *m = user;
    if (++m->calls >= m->fail_at && m->fail_at)
        return NULL;
    void *memory = NULL;
    assert_int_equal(posix_memalign(&memory, alignment, size), 0);
    memset(memory, 0xA5, size);
    m->blocks++;
    m->bytes += size;
    return memory;
}

static void metered_release(void *user, void *memory, size_t size)
{
    meter *m = user;
    m->blocks--;
    m->bytes -= size;
    free(memory);
}

static mh_context_options metered_options(meter *m, size_t threads)
{
    mh_context_options options = mh_context_options_default();
    options.threads = threads;
    options.allocator = (mh_allocator){metered_alloc, metered_release, m, false};
    return options;
}

static void creation_survives_lack_of_memory(void **state)
{
    (void)state;
    for (size_t fail_at = 1;; fail_at++) {
        meter m = {.fail_at = fail_at};
        mh_context_options options = metered_options(&m, 3);
        mh_context *context = (mh_context *)&m;
        char error[200] = "";
        mh_status status = mh_context_create(&options, &context, error, sizeof error);
        if (status == MH_OK) {
            assert_true(fail_at > 2);
            mh_context_free(context);
            assert_int_equal(m.blocks, 0);
            assert_int_equal(m.bytes, 0);
            return;
        }
        assert_int_equal(status, MH_ERROR_MEMORY);
        assert_null(context);
        assert_int_equal(m.blocks, 0);
        assert_non_null(strstr(error, "bytes"));
    }
}

// It needs nothing of the context it was made from but the allocator.
static void serial_contexts(void **state)
{
    (void)state;
    meter m = {0};
    mh_context_options options = metered_options(&m, 3);
    mh_context *context, *serial = NULL;
    options.isa = "scalar";
    options.allocator.thread_safe = true;
    assert_int_equal(mh_context_create(&options, &context, NULL, 0), MH_OK);
    m.fail_at = m.calls + 1;
    assert_int_equal(mh_context_create_serial(context, &serial), MH_ERROR_MEMORY);
    assert_null(serial);
    assert_non_null(strstr(mh_error_message(context), "bytes"));
    m.fail_at = 0;
    assert_int_equal(mh_context_create_serial(context, &serial), MH_OK);
    mh_context_free(context);
    assert_int_equal(mh_context_threads(serial), 1);
    assert_string_equal(mh_context_isa(serial), "scalar");
    assert_string_equal(mh_error_message(serial), "");
    const mh_allocator allocator = mh_context_allocator(serial);
    assert_ptr_equal(allocator.user, &m);
    assert_true(allocator.thread_safe);
    mh_free(serial, mh_alloc(serial, 100), 100);
    mh_context_free(serial);
    assert_int_equal(m.blocks, 0);
    assert_int_equal(mh_context_create(NULL, &context, NULL, 0), MH_OK);
    assert_true(mh_context_allocator(context).thread_safe); // the C library's
    mh_context_free(context);
}

static void expect_refusal(const mh_context_options *options, mh_status expected, const char *word)
{
    mh_context *context = NULL;
    char error[300] = "";
    assert_int_equal(mh_context_create(options, &context, error, sizeof error), expected);
    assert_null(context);
    if (!strstr(error, word))
        fail_msg("found \"%s\", expected \"%s\" in it", error, word);
}

static void bad_options_are_refused(void **state)
{
    (void)state;
    mh_context_options options = mh_context_options_default();
    options.struct_size = 0;
    expect_refusal(&options, MH_ERROR_ARGUMENT, "struct_size");
    options.struct_size = sizeof options + 1;
    expect_refusal(&options, MH_ERROR_ARGUMENT, "struct_size");
    options = mh_context_options_default();
    options.threads = SIZE_MAX;
    expect_refusal(&options, MH_ERROR_ARGUMENT, "threads");
    options = mh_context_options_default();
    options.allocator.alloc = metered_alloc;
    expect_refusal(&options, MH_ERROR_ARGUMENT, "release");
    options = mh_context_options_default();
    options.isa = "pentium";
    expect_refusal(&options, MH_ERROR_UNSUPPORTED, "scalar");
    options.isa = "";
    expect_refusal(&options, MH_ERROR_UNSUPPORTED, "isa");
    assert_int_equal(mh_context_create(NULL, NULL, NULL, 0), MH_ERROR_ARGUMENT);
    char tiny[4];
    mh_context *context;
    assert_int_equal(mh_context_create(&options, &context, tiny, sizeof tiny),
                     MH_ERROR_UNSUPPORTED);
    assert_string_equal(tiny, "isa");
}

static void old_callers_are_understood(void **state)
{
    (void)state;
    mh_context_options options = mh_context_options_default();
    options.threads = 1;
    options.isa = "pentium"; // beyond what this old caller's struct had
    options.struct_size = offsetof(mh_context_options, isa);
    mh_context *context;
    assert_int_equal(mh_context_create(&options, &context, NULL, 0), MH_OK);
    assert_int_equal(mh_context_threads(context), 1);
    assert_null(context->pool);
    mh_context_free(context);
}

static void levels_by_name(void **state)
{
    (void)state;
    const char *const *levels = mh_isa_levels();
    assert_string_equal(levels[0], "scalar");
    const char *best = NULL;
    mh_context_options options = mh_context_options_default();
    options.threads = 1;
    mh_context *context;
    for (size_t i = 0; levels[i]; i++) {
        options.isa = levels[i];
        if (!mh_isa_supported(levels[i])) {
            expect_refusal(&options, MH_ERROR_UNSUPPORTED, "lacks");
            continue;
        }
        best = levels[i];
        assert_int_equal(mh_context_create(&options, &context, NULL, 0), MH_OK);
        assert_string_equal(mh_context_isa(context), levels[i]);
        assert_non_null(context->kernels);
        mh_context_free(context);
    }
    assert_false(mh_isa_supported("pentium"));
    assert_false(mh_isa_supported(NULL));

    unsetenv("MH_ISA");
    assert_null(mh_env_isa());
    assert_int_equal(mh_context_create(NULL, &context, NULL, 0), MH_OK);
    assert_string_equal(mh_context_isa(context), best);
    assert_int_equal(mh_context_threads(context), mh_usable_cpus());
    mh_context_free(context);
}

static void environment_forces_a_level(void **state)
{
    (void)state;
    mh_context *context;
    setenv("MH_ISA", "scalar", 1);
    assert_int_equal(mh_context_create(NULL, &context, NULL, 0), MH_OK);
    assert_string_equal(mh_context_isa(context), "scalar");
    mh_context_free(context);
    setenv("MH_ISA", "pentium", 1);
    expect_refusal(NULL, MH_ERROR_UNSUPPORTED, "$MH_ISA");
    mh_context_options options = mh_context_options_default();
    options.isa = "scalar"; // the option wins
    assert_int_equal(mh_context_create(&options, &context, NULL, 0), MH_OK);
    mh_context_free(context);
    setenv("MH_ISA", "", 1); // as good as unset
    assert_null(mh_env_isa());
    unsetenv("MH_ISA");
}

static void keep_line(void *user, mh_log_level level, const char *message)
{
    snprintf(user, 100, "%d %s", (int)level, message);
}

static void messages(void **state)
{
    (void)state;
    char line[100] = "";
    mh_context_options options = mh_context_options_default();
    options.threads = 1;
    options.log = keep_line;
    options.log_user = line;
    mh_context *context;
    assert_int_equal(mh_context_create(&options, &context, NULL, 0), MH_OK);
    assert_string_equal(mh_error_message(context), "");
    assert_int_equal(mh_fail(context, MH_ERROR_FORMAT, "%s: %d", "rank", 4), MH_ERROR_FORMAT);
    mh_fail(context, MH_ERROR_FORMAT, "file: %s", mh_error_message(context)); // its own argument
    assert_string_equal(mh_error_message(context), "file: rank: 4");
    mh_fail(context, MH_ERROR_FORMAT, "%*d", 5000, 1);
    assert_int_equal(strlen(mh_error_message(context)), sizeof context->error - 1);
    mh_log(context, MH_LOG_WARNING, "%s", "careful");
    assert_string_equal(line, "2 careful");
    mh_context_free(context);
    mh_context_free(NULL);
    assert_int_equal(mh_fail(NULL, MH_ERROR_FILE, "nobody hears"), MH_ERROR_FILE);
}

static void memory_and_scratch(void **state)
{
    (void)state;
    meter m = {0};
    mh_context_options options = metered_options(&m, 1);
    mh_context *context;
    assert_int_equal(mh_context_create(&options, &context, NULL, 0), MH_OK);
    void *nothing = mh_alloc(context, 0), *block = mh_alloc(context, 100);
    assert_non_null(nothing);
    assert_int_equal((uintptr_t)block % 64, 0);
    mh_free(context, nothing, 0);
    mh_free(context, block, 100);
    mh_free(context, NULL, 100);

    char *first = mh_context_scratch(context, 1000);
    assert_int_equal((uintptr_t)first % 64, 0);
    assert_ptr_equal(mh_context_scratch(context, 10), first);
    m.fail_at = m.calls + 1;
    assert_null(mh_context_scratch(context, 123456));
    assert_non_null(strstr(mh_error_message(context), "123456 bytes"));
    assert_null(mh_context_scratch(context, 1001));
    assert_ptr_equal(mh_context_scratch(context, 1000), first); // the old one is still there
    m.fail_at = 0;
    size_t calls = m.calls;
    for (size_t size = 1000; size < 100000; size++)
        memset(mh_context_scratch(context, size), 1, size);
    assert_true(m.calls - calls < 40);
    mh_context_free(context);
    assert_int_equal(m.blocks, 0);
    assert_int_equal(m.bytes, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(status_has_names),
        cmocka_unit_test(sizes_do_not_wrap),
        cmocka_unit_test(arena_passes_agree),
        cmocka_unit_test(half_is_exact),
        cmocka_unit_test(half_rounds_random_floats),
        cmocka_unit_test(philox_known_answers),
        cmocka_unit_test(uniform_is_uniform),
        cmocka_unit_test(cgroup_quotas),
        cmocka_unit_test(cpus_and_features),
        cmocka_unit_test(creation_survives_lack_of_memory),
        cmocka_unit_test(bad_options_are_refused),
        cmocka_unit_test(old_callers_are_understood),
        cmocka_unit_test(serial_contexts),
        cmocka_unit_test(levels_by_name),
        cmocka_unit_test(environment_forces_a_level),
        cmocka_unit_test(messages),
        cmocka_unit_test(memory_and_scratch),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
