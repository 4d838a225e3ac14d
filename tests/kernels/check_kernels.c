// SPDX-License-Identifier: MIT
// Every kernel of every level against a double-precision reference, on odd sizes, between
// guard pages; --bench times the same calls. Prints one line per kernel and level.
//
//     check_kernels [--bench] [--exhaustive] [--isa=LEVEL] [--kernel=NAME] [--seed=N]
#include "kernels/check.h"
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

static const struct {
    const char *name;
    check_result (*check)(const check_run *run);
} checks[] = {
    {"gemm_f32", check_gemm_f32},
    {"gemm_bf16", check_gemm_bf16},
    {"gemv", check_gemv},
    {"short", check_short},
    {"gemm_nt", check_gemm_nt},
    {"epilogue_rows", check_epilogue_rows},
    {"transpose", check_transpose},
    {"pack_rows", check_pack_rows},
    {"score_row", check_score_row},
    {"softmax_step", check_softmax_step},
    {"softmax_tile", check_softmax_tile},
    {"softmax_merge", check_softmax_merge},
    {"softmax_weights", check_softmax_weights},
    {"softmax_row", check_softmax_row},
    {"scale_row", check_scale_row},
    {"dropout_mask", check_dropout_mask},
    {"dropout_row", check_dropout_row},
    {"reduce_rows", check_reduce_rows},
    {"softmax_grad", check_softmax_grad},
    {"softcap_slope", check_softcap_slope},
    {"rows", check_rows},
    {"exp", check_exp},
    {"log", check_log},
    {"tanh", check_tanh},
    {"bf16", check_bf16},
    {"f16", check_f16},
    {"relu", check_relu},
    {"gelu", check_gelu},
    {"gelu_tanh", check_gelu_tanh},
    {"silu", check_silu},
    {"relu_grad", check_relu_grad},
    {"gelu_grad", check_gelu_grad},
    {"gelu_tanh_grad", check_gelu_tanh_grad},
    {"silu_grad", check_silu_grad},
    {"swiglu", check_swiglu},
    {"norm", check_norm},
    {"norm_grad", check_norm_grad},
    {"sin_cos", check_sin_cos},
    {"rope_half", check_rope_half},
    {"rope_interleaved", check_rope_interleaved},
    {"sums", check_sums},
    {"adamw", check_adamw},
    {"sgd", check_sgd},
    {"predicates", check_predicates},
    {"limits", check_limits},
};

// ---- random numbers -----------------------------------------------------------------------------

static uint64_t random_state;

float check_random(void)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return (float)((double)(random_state >> 40) / 8388608.0 - 1.0);
}

void check_fill(size_t n, float magnitude, float *x)
{
    for (size_t i = 0; i < n; i++)
        x[i] = magnitude * check_random();
}

// ---- guarded memory -----------------------------------------------------------------------------

//     | 0xA5 ... 0xA5 | the elements | page without access |
enum { MOST_BLOCKS = 16, PAINT = 0xA5 };
static struct {
    unsigned char *pages;
    size_t mapped, painted;
} blocks[MOST_BLOCKS];
static size_t block_count;

static void *guarded(size_t bytes)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    size_t used = (bytes + 64 + page - 1) / page * page;
    unsigned char *pages =
        mmap(NULL, used + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (pages == MAP_FAILED || block_count == MOST_BLOCKS ||
        mprotect(pages + used, page, PROT_NONE)) {
        fprintf(stderr, "check_kernels: no guarded memory\n");
        exit(1);
    }
    memset(pages, PAINT, used);
    blocks[block_count].pages = pages;
    blocks[block_count].mapped = used + page;
    blocks[block_count++].painted = used - bytes;
    return pages + used - bytes;
}

float *check_floats(size_t n) { return guarded(n * sizeof(float)); }
uint16_t *check_u16(size_t n) { return guarded(n * sizeof(uint16_t)); }
uint8_t *check_bytes(size_t n) { return guarded(n); }

static bool intact; // no write outside a block so far

void check_release(void)
{
    while (block_count > 0) {
        block_count--;
        for (size_t i = 0; i < blocks[block_count].painted; i++)
            intact &= blocks[block_count].pages[i] == PAINT;
        munmap(blocks[block_count].pages, blocks[block_count].mapped);
    }
}

// ---- comparing and timing -----------------------------------------------------------------------

double check_error(double found, double expected, double bound)
{
    if (isnan(found) && isnan(expected))
        return 0;
    if (found == expected)
        return 0;
    double error = fabs(found - expected) / bound;
    return isnan(error) ? INFINITY : error;
}

double check_worse(double a, double b) { return b <= a ? a : b; }

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

double check_rate(void (*body)(void *arg), void *arg)
{
    double best = 0;
    for (int round = 0; round < 5; round++) {
        long calls = 0;
        double start = now(), time;
        do {
            for (int i = 0; i < 64; i++)
                body(arg);
            calls += 64;
            time = now() - start;
        } while (time < 0.03);
        best = (double)calls / time > best ? (double)calls / time : best;
    }
    return best;
}

// ---- the loop over levels and kernels -----------------------------------------------------------

static bool run_check(size_t i, const char *isa, const check_run *run)
{
    intact = true;
    check_result result = checks[i].check(run);
    check_release();
    bool ok = result.ok && result.error <= 1 && intact;
    printf("%-16s %-7s error %4.2f of the bound", checks[i].name, isa, result.error);
    if (result.rate > 0)
        printf("  %9.2f %s", result.rate, result.unit);
    printf("  %s%s\n", ok ? "ok" : "FAIL", intact ? "" : " (wrote outside)");
    fflush(stdout);
    return ok;
}

int main(int argc, char **argv)
{
    const char *only_isa = NULL, *only_kernel = NULL;
    uint64_t seed = 20170612;
    check_run run = {0};
    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "--bench"))
            run.bench = true;
        else if (!strcmp(argv[i], "--exhaustive"))
            run.exhaustive = true;
        else if (!strncmp(argv[i], "--isa=", 6))
            only_isa = argv[i] + 6;
        else if (!strncmp(argv[i], "--kernel=", 9))
            only_kernel = argv[i] + 9;
        else if (!strncmp(argv[i], "--seed=", 7))
            seed = strtoull(argv[i] + 7, NULL, 0);
        else {
            fprintf(stderr, "check_kernels: unknown option '%s'\n", argv[i]);
            return 2;
        }
    }
    printf("seed %" PRIu64 "\n", seed);

    int passed = 0, failed = 0;
    for (int level = 0; mh_isa_names[level]; level++) {
        const char *isa = mh_isa_names[level];
        mh_kernels table;
        if ((only_isa && strcmp(only_isa, isa)) || !mh_isa_available(isa))
            continue;
        mh_kernels_init(&table, isa);
        run.kernels = &table;
        for (size_t i = 0; i < sizeof checks / sizeof *checks; i++) {
            if (only_kernel && strcmp(only_kernel, checks[i].name))
                continue;
            random_state = seed | 1; // the same inputs whichever checks run before
            if (run_check(i, isa, &run))
                passed++;
            else
                failed++;
        }
    }
    printf("%d passed, %d failed\n", passed, failed);
    return failed > 0 || passed == 0;
}
