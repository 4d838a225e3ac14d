// SPDX-License-Identifier: MIT
// The harness of check_kernels: what each check gets, and what it gives back.
#ifndef MH_TESTS_CHECK_H
#define MH_TESTS_CHECK_H

#include "kernels/kernels.h"

typedef struct check_run {
    const mh_kernels *kernels;
    bool bench;      // measure speed as well
    bool exhaustive; // every float, not a sample
} check_run;

typedef struct check_result {
    bool ok;
    double error;     // the worst, in units of what is allowed: fine up to 1
    double rate;      // if measured
    const char *unit; // of the rate
} check_result;

// ---- the checks: one a kernel, or a family of them ----------------------------------------------

check_result check_gemm_f32(const check_run *run);
check_result check_gemm_bf16(const check_run *run);
check_result check_gemv(const check_run *run);
check_result check_short(const check_run *run);
check_result check_gemm_nt(const check_run *run);
check_result check_epilogue_rows(const check_run *run);
check_result check_reduce_rows(const check_run *run);
check_result check_transpose(const check_run *run);
check_result check_pack_rows(const check_run *run);
check_result check_score_row(const check_run *run);
check_result check_softmax_step(const check_run *run);
check_result check_softmax_tile(const check_run *run);
check_result check_softmax_merge(const check_run *run);
check_result check_softmax_weights(const check_run *run);
check_result check_softmax_row(const check_run *run);
check_result check_scale_row(const check_run *run);
check_result check_dropout_mask(const check_run *run);
check_result check_dropout_row(const check_run *run);
check_result check_softmax_grad(const check_run *run);
check_result check_softcap_slope(const check_run *run);
check_result check_rows(const check_run *run);
check_result check_exp(const check_run *run);
check_result check_log(const check_run *run);
check_result check_tanh(const check_run *run);
check_result check_bf16(const check_run *run);
check_result check_f16(const check_run *run);
check_result check_relu(const check_run *run);
check_result check_gelu(const check_run *run);
check_result check_gelu_tanh(const check_run *run);
check_result check_silu(const check_run *run);
check_result check_relu_grad(const check_run *run);
check_result check_gelu_grad(const check_run *run);
check_result check_gelu_tanh_grad(const check_run *run);
check_result check_silu_grad(const check_run *run);
check_result check_swiglu(const check_run *run);
check_result check_norm(const check_run *run);
check_result check_norm_grad(const check_run *run);
check_result check_sin_cos(const check_run *run);
check_result check_rope_half(const check_run *run);
check_result check_rope_interleaved(const check_run *run);
check_result check_sums(const check_run *run);
check_result check_adamw(const check_run *run);
check_result check_sgd(const check_run *run);
check_result check_predicates(const check_run *run);
check_result check_limits(const check_run *run);

// ---- what they share ----------------------------------------------------------------------------

float check_random(void); // uniform in [-1, 1), from the printed seed

// n elements that end where the next page cannot be read or written. check_release() gives all
// of them back and looks whether the bytes before them are untouched.
float *check_floats(size_t n);
uint16_t *check_u16(size_t n);
uint8_t *check_bytes(size_t n);
void check_release(void);

void check_fill(size_t n, float magnitude, float *x);

// |found - expected| / bound; 0 if both are NaN or the same infinity, infinite if only one is.
double check_error(double found, double expected, double bound);

// The larger of two errors; NaN counts as the largest.
double check_worse(double a, double b);

// Calls `body` again and again for a moment; how often a second.
double check_rate(void (*body)(void *arg), void *arg);

#endif
