// SPDX-License-Identifier: MIT
// f32 products of special form on unpacked rows, the epilogue of a product, and operations on whole
// matrices.
#ifndef MH_MATRIX_KERNELS_H
#define MH_MATRIX_KERNELS_H

#include "kernels/gemm_kernels.h"

// How the sums x of a matrix product become its results y:
//     y = x + bias;  y = max(y, 0) if relu;  y = y * keep_scale where keep has a 1, else 0;
//     y += residual.
typedef struct mh_epilogue {
    const float *bias; // (n), or NULL
    bool relu;
    const uint64_t *keep; // (m), one word per row, or NULL: no dropout
    float keep_scale;
    const float *residual; // (m x n, row stride ldr), or NULL
    ptrdiff_t ldr;
} mh_epilogue;

typedef struct mh_matrix_kernels {
    // f32.gemm, m <= f32.rows, for a B operand that is read once, such as keys by one query: rows
    // of any type. As many bytes of `next` as are read of b are prefetched into the L2. `next` may
    // be NULL if rows are f32: no prefetch.
    void (*gemm_stream)(const mh_gemm_args *args, const void *next);

    // Interleaved partial sums: `lanes` of them, sum l over every lanes-th k from l on, reduced
    // from first to last; no accumulation. gemm_interleaved takes the operands of f32.gemm,
    // m <= f32.rows. gemm_nt takes any number of rows of a (m x k) and of b (n x k) and is bitwise
    // identical; it writes n rounded up to whole vectors, with unspecified values in the excess.
    void (*gemm_interleaved)(const mh_gemm_args *args);
    void (*gemm_nt)(const mh_gemm_args *args);

    // Results y (m x n, row stride ldy) from sums x (m x n, row stride ldx), n <= 64; see
    // mh_epilogue. y may be x or the residual.
    void (*epilogue_rows)(const mh_epilogue *map, size_t m, size_t n, const float *x, size_t ldx,
                          float *y, ptrdiff_t ldy);

    // dst (columns x rows, row stride ldd) = src (rows x columns, row stride lds) transposed;
    // rows is rounded up to whole vectors, padded with 0.
    void (*transpose)(size_t rows, size_t columns, const float *src, ptrdiff_t lds, float *dst,
                      size_t ldd);

    // dst (rows x columns rounded up to whole vectors, row stride ldd) = src (rows x columns, row
    // stride lds), padded with 0. Returns whether all elements are finite.
    bool (*pack_rows)(size_t rows, size_t columns, const float *src, ptrdiff_t lds, float *dst,
                      size_t ldd);

    // y (n) += the rows of x (m x n, row stride ldx) of f32 or bf16, one after the other.
    void (*reduce_rows)(size_t m, size_t n, const float *x, ptrdiff_t ldx, float *y);
    void (*reduce_rows_bf16)(size_t m, size_t n, const uint16_t *x, ptrdiff_t ldx, float *y);
} mh_matrix_kernels;

#endif
