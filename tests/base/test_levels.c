// SPDX-License-Identifier: MIT
// Which instruction-set level is chosen: for CPUs that have and lack things, for a system that
// refuses AMX's tiles to the process, and by name through mh_context_options.isa and $MH_ISA.
#include "base/cpu.h"
#include "kernels/kernels.h"
#include "support.h"

#include <stddef.h>
#include <sys/wait.h>
#include <unistd.h>

#if defined(__x86_64__) && defined(__linux__)
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

// ---- a system that refuses ----------------------------------------------------------------------

enum { CANNOT_TRY = 77 };

// From here on arch_prctl(2), by which tiles are asked for, fails, as it does in some sandboxes.
static bool refuse_tiles(void)
{
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_arch_prctl, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof filter / sizeof *filter, filter};
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
           prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

// In a process of its own: 0 if all is well, otherwise the number of what is not.
static int look_without_tiles(void)
{
    if (!refuse_tiles())
        return CANNOT_TRY;
    if (mh_cpu_get()->amx_permitted)
        return 1;
    mh_context *context;
    if (mh_context_create(NULL, &context, NULL, 0) != MH_OK)
        return 2;
    if (mh_context_native_bf16(context) != mh_isa_supported("avx512bf16"))
        return 3;
    if (mh_cpu_get()->amx_bf16 && strcmp(mh_context_isa(context), "avx512bf16"))
        return 4;
    float one = 1, y = 0; // and what was chosen works
    mh_tensor x = mh_tensor_2d(&one, MH_F32, 1, 1), out = mh_tensor_2d(&y, MH_F32, 1, 1);
    if (mh_matmul(context, &x, &x, &out) != MH_OK || y != 1)
        return 5;
    mh_context_free(context);
    mh_context_options options = mh_context_options_default();
    char error[200] = "";
    options.isa = "amx";
    if (mh_context_create(&options, &context, error, sizeof error) != MH_ERROR_UNSUPPORTED)
        return 6;
    return strstr(error, "isa: \"amx\" is a level this CPU or its system lacks; these levels work: "
                         "scalar")
               ? 0
               : 7;
}

// First of all tests: features are looked for once, and a child inherits what was found.
static void tiles_may_be_refused(void **state)
{
    (void)state;
    unsetenv("MH_ISA");
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0)
        _exit(look_without_tiles());
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    if (WEXITSTATUS(status) == CANNOT_TRY) {
        print_message("no seccomp here: not tried\n");
        skip();
    }
    assert_int_equal(WEXITSTATUS(status), 0);
}

// ---- CPUs ---------------------------------------------------------------------------------------

static const mh_cpu everything = {
    .avx2 = true,
    .fma = true,
    .f16c = true,
    .avx512f = true,
    .avx512bw = true,
    .avx512dq = true,
    .avx512vl = true,
    .avx512bf16 = true,
    .amx_tile = true,
    .amx_bf16 = true,
    .amx_permitted = true,
};

static void one_feature_less(void **state)
{
    (void)state;
    static const struct {
        size_t feature;
        const char *level;
    } lacking[] = {
        {offsetof(mh_cpu, amx_permitted), "avx512bf16"},
        {offsetof(mh_cpu, amx_bf16), "avx512bf16"},
        {offsetof(mh_cpu, amx_tile), "avx512bf16"},
        {offsetof(mh_cpu, avx512bf16), "avx512"},
        {offsetof(mh_cpu, avx512vl), "avx2"},
        {offsetof(mh_cpu, avx512dq), "avx2"},
        {offsetof(mh_cpu, avx512bw), "avx2"},
        {offsetof(mh_cpu, avx512f), "avx2"},
        {offsetof(mh_cpu, f16c), "scalar"},
        {offsetof(mh_cpu, fma), "scalar"},
        {offsetof(mh_cpu, avx2), "scalar"},
    };
    assert_string_equal(mh_isa_choose(&everything, NULL), "amx");
    for (size_t i = 0; i < sizeof lacking / sizeof *lacking; i++) {
        mh_cpu cpu = everything;
        memset((char *)&cpu + lacking[i].feature, 0, sizeof(bool));
        assert_string_equal(mh_isa_choose(&cpu, NULL), lacking[i].level);
        assert_string_equal(mh_isa_choose(&cpu, "amx"), lacking[i].level);
        assert_string_equal(mh_isa_choose(&cpu, "scalar"), "scalar");
    }
    assert_string_equal(mh_isa_choose(&everything, "avx2"), "avx2");
    assert_null(mh_isa_choose(&everything, "avx1024"));
    assert_string_equal(mh_isa_choose(&(mh_cpu){0}, NULL), "scalar");
}

// Without bf16 instructions both products are the plain one; with them, f32 and bf16 have
// kernels of their own, and the table is otherwise that of the level below.
static void levels_build_on_each_other(void **state)
{
    (void)state;
    mh_kernels best, avx512;
    if (!mh_isa_supported("avx512bf16"))
        skip();
    assert_string_equal(mh_kernels_init(&avx512, "avx512"), "avx512");
    assert_true(!avx512.native_bf16 && avx512.bf16.gemm == avx512.f32.gemm);
    assert_null(avx512.f32.enter);
    static const char *const native[] = {"avx512bf16", "amx"};
    for (size_t i = 0; i < 2 && mh_isa_supported(native[i]); i++) {
        assert_string_equal(mh_kernels_init(&best, native[i]), native[i]);
        assert_true(best.native_bf16 && best.f32.gemm != best.bf16.gemm);
        assert_true(best.f32.gemm == avx512.f32.gemm);
        assert_true(best.activation.gelu == avx512.activation.gelu);
        assert_true(!best.bf16.enter == (i == 0)); // tiles have a configuration
    }
}
#else
static void tiles_may_be_refused(void **state) { (void)state, skip(); }
static void one_feature_less(void **state) { (void)state, skip(); }
static void levels_build_on_each_other(void **state) { (void)state, skip(); }
#endif

// ---- by name ------------------------------------------------------------------------------------

// options.isa, or $MH_ISA if `variable`.
static mh_status create(const char *level, bool variable, mh_context **context, char error[200])
{
    mh_context_options options = mh_context_options_default();
    options.threads = 1;
    if (variable)
        setenv("MH_ISA", level, 1);
    else
        options.isa = level;
    mh_status status = mh_context_create(&options, context, error, 200);
    unsetenv("MH_ISA");
    return status;
}

static void levels_by_name(void **state)
{
    (void)state;
    for (int variable = 0; variable < 2; variable++)
        for (const char *const *level = mh_isa_levels(); *level; level++) {
            mh_context *context = NULL;
            char error[200] = "";
            mh_status status = create(*level, variable, &context, error);
            if (mh_isa_supported(*level)) {
                assert_int_equal(status, MH_OK);
                assert_string_equal(mh_context_isa(context), *level);
            } else {
                assert_int_equal(status, MH_ERROR_UNSUPPORTED);
                assert_null(context);
                assert_non_null(strstr(error, variable ? "$MH_ISA: \"" : "isa: \""));
                assert_non_null(strstr(error, "lacks; these levels work: scalar"));
            }
            mh_context_free(context);
        }
}

static void unknown_names(void **state)
{
    (void)state;
    static const char *const names[] = {"AMX", "amx ", "avx1024", "scalar,avx2"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        for (int variable = 0; variable < 2; variable++) {
            mh_context *context = NULL;
            char error[200] = "", expected[100];
            assert_int_equal(create(names[i], variable, &context, error), MH_ERROR_UNSUPPORTED);
            assert_null(context);
            snprintf(expected, sizeof expected,
                     "%s: \"%s\" is not a level; these levels work: scalar",
                     variable ? "$MH_ISA" : "isa", names[i]);
            assert_memory_equal(error, expected, strlen(expected));
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tiles_may_be_refused),
        cmocka_unit_test(one_feature_less),
        cmocka_unit_test(levels_build_on_each_other),
        cmocka_unit_test(levels_by_name),
        cmocka_unit_test(unknown_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
