// SPDX-License-Identifier: MIT
// multihead/ops.h: single tensor operations besides attention: matrix product, linear layer,
// softmax, and the machine's measured peak. Results are bitwise identical for any number of
// threads.
//
// Stability: stable (base.h).
#ifndef MULTIHEAD_OPS_H
#define MULTIHEAD_OPS_H

#include <multihead/layers.h>

#ifdef __cplusplus
extern "C" {
#endif

// c = a b, with a (M, K), b (K, N), c (M, N); any strides, so a transposed operand is
// mh_tensor_swap(b, 0, 1). f32, bf16 or f16, independently per tensor. Every element is accumulated
// in f32 in one fixed order: k = 0, 1, ... in kc blocks of 1024. `c` must not overlap the inputs.
// Errors: MH_ERROR_ARGUMENT, MH_ERROR_UNSUPPORTED (dtype), MH_ERROR_MEMORY.
MH_API MH_MUST_CHECK mh_status mh_matmul(mh_context *context, const mh_tensor *a,
                                         const mh_tensor *b, mh_tensor *c);

// A B operand packed in the kernels' layout, for repeated use. Immutable: any number of threads and
// contexts of the same level may use it concurrently.
typedef struct mh_packed_matrix mh_packed_matrix;

// Returns a new packed copy of b (K, N), for products in this precision; MH_PRECISION_WEIGHTS or
// _AUTO: bf16 if b is bf16, else f32. A bf16 b takes half the memory of an f32 one, at every level;
// an f32 b packed for bf16 does where the level has native bf16 products. Errors:
// MH_ERROR_ARGUMENT, MH_ERROR_UNSUPPORTED (dtype), MH_ERROR_MEMORY.
MH_API MH_MUST_CHECK mh_status mh_matrix_pack(mh_context *context, mh_precision precision,
                                              const mh_tensor *b, mh_packed_matrix **packed);
MH_API void mh_packed_matrix_free(mh_packed_matrix *packed);
MH_API size_t mh_packed_matrix_bytes(const mh_packed_matrix *packed); // NULL: 0

// What it would take packed from bf16, for products in bf16, at this context's level. NULL: 0.
MH_API size_t mh_packed_matrix_bytes_bf16(const mh_context *context,
                                          const mh_packed_matrix *packed);

// The dtype in which to store values that are only operands of products in this precision: bf16
// where they are rounded to that anyway, so that the bits are the same and the memory is half; else
// f32.
MH_API mh_dtype mh_operand_dtype(const mh_context *context, mh_precision precision);

// c = a b, bitwise identical to mh_matmul or, if b was packed for another precision than
// MH_PRECISION_WEIGHTS would choose, to mh_linear with that precision.
MH_API MH_MUST_CHECK mh_status mh_matmul_packed(mh_context *context, const mh_tensor *a,
                                                const mh_packed_matrix *b, mh_tensor *c);

// A linear layer with a fused epilogue, in one pass over y:
//     y = residual + dropout(f(x W^T + bias)),  f the activation,
// with x (M, K), W (N, K) as PyTorch stores it, and y (M, N). Views are borrowed for the call.
typedef struct mh_linear_options {
    size_t struct_size;     // sizeof(mh_linear_options)
    mh_precision precision; // MH_PRECISION_WEIGHTS: bf16 if W is bf16, whatever x is
    // NULL; else W^T (K, N), packed, with the precision it was packed for; `weight` is then NULL.
    const mh_packed_matrix *packed;
    const mh_tensor *bias;           // NULL; (N) f32, contiguous
    const mh_activation *activation; // NULL: none, f(x) = x
    mh_tensor *preactivation;        // NULL; (M, N) f32: receives x W^T + bias, for backward
    // NULL; else applied to f(..) as mh_dropout does, with indices in C order of y
    const mh_dropout_options *dropout;
    const mh_tensor *residual; // NULL; (M, N) f32, bf16 or f16; may be y itself
    bool accumulate;           // false; true: the result is added to y
} mh_linear_options;

static inline mh_linear_options mh_linear_options_default(void)
{
    mh_linear_options options;
    memset(&options, 0, sizeof options);
    options.struct_size = sizeof options;
    options.precision = MH_PRECISION_WEIGHTS;
    return options;
}

// y (M, N) of any float dtype, from x (M, K) and weight (N, K); options NULL: the defaults. Outputs
// must not overlap other tensors, except that y may be the residual. Accumulates as mh_matmul does:
// a row of y depends on its row of x alone. Errors: MH_ERROR_ARGUMENT, MH_ERROR_UNSUPPORTED
// (dtype), MH_ERROR_MEMORY; nothing is written then. A context belongs to one thread at a time.
MH_API MH_MUST_CHECK mh_status mh_linear(mh_context *context, const mh_linear_options *options,
                                         const mh_tensor *x, const mh_tensor *weight, mh_tensor *y);

// The gradients of x W^T + bias from its gradient dy (M, N), each NULL if not wanted: dx (M, K) =
// dy W, written; dweight (N, K) = dy^T x and dbias (N) = sum over rows of dy, both f32 and written,
// or accumulated if options->accumulate. Only `accumulate` and `precision` are used of the options:
// the activation's gradient is computed before this call, by mh_activate_backward(preactivation).
// Errors and threads as mh_linear.
MH_API MH_MUST_CHECK mh_status mh_linear_backward(mh_context *context,
                                                  const mh_linear_options *options,
                                                  const mh_tensor *x, const mh_tensor *weight,
                                                  const mh_tensor *dy, mh_tensor *dx,
                                                  mh_tensor *dweight, mh_tensor *dbias);

// y = softmax(x), or log(softmax(x)), over dimension `axis` (negative: from the end). Shapes
// equal, f32, bf16 or f16. x and y may be the same memory if dtypes and strides are equal.
// A slice of only -inf becomes all zeros (log: all -inf).
MH_API MH_MUST_CHECK mh_status mh_softmax(mh_context *context, const mh_tensor *x, int axis,
                                          mh_tensor *y);
MH_API MH_MUST_CHECK mh_status mh_log_softmax(mh_context *context, const mh_tensor *x, int axis,
                                              mh_tensor *y);

// This machine's peak performance, measured with the context's threads and level.
typedef struct mh_limits {
    size_t struct_size; // sizeof(mh_limits)
    double fma_gflops;  // f32 FMAs from registers, all threads
    double bf16_gflops; // bf16 FMAs as in the matrix product, all threads
    double read_gbps;   // read bandwidth of a buffer of `footprint` bytes, all threads, by the
                        // fastest of several ways; 0 if footprint is 0
    size_t footprint;
} mh_limits;

static inline mh_limits mh_limits_default(void)
{
    mh_limits limits;
    memset(&limits, 0, sizeof limits);
    limits.struct_size = sizeof limits;
    return limits;
}

// Measures for about `seconds` and fills the fields that limits->struct_size covers; footprint 0
// skips the bandwidth. Errors: MH_ERROR_ARGUMENT (struct_size), MH_ERROR_MEMORY; `limits` is then
// unmodified.
MH_API MH_MUST_CHECK mh_status mh_measure_limits(mh_context *context, double seconds,
                                                 size_t footprint, mh_limits *limits);

#ifdef __cplusplus
}
#endif
#endif
