// SPDX-License-Identifier: MIT
// Rows with unit stride go through the conversion kernels, others element by element with the same
// arithmetic, so that strides never change a bit.
#include "ops/row_io.h"
#include "base/size_math.h"
#include <string.h>

bool mh_rows_supported(mh_dtype dtype)
{
    return dtype == MH_F32 || dtype == MH_BF16 || dtype == MH_F16;
}

static void read_contiguous(const mh_kernels *kernels, mh_dtype dtype, const void *row, size_t n,
                            float *dst)
{
    if (dtype == MH_F32)
        memcpy(dst, row, n * sizeof *dst);
    else if (dtype == MH_BF16)
        kernels->elementwise.widen_bf16(n, row, dst);
    else
        kernels->elementwise.widen_f16(n, row, dst);
}

void mh_row_read(const mh_kernels *kernels, mh_dtype dtype, const void *row, ptrdiff_t stride,
                 size_t n, float *dst)
{
    if (stride == 1 || n == 1) {
        read_contiguous(kernels, dtype, row, n, dst);
        return;
    }
    ptrdiff_t bytes = stride * (ptrdiff_t)mh_dtype_size(dtype);
    for (size_t i = 0; i < n; i++)
        read_contiguous(kernels, dtype, (const char *)row + (ptrdiff_t)i * bytes, 1, dst + i);
}

static void write_contiguous(const mh_kernels *kernels, mh_dtype dtype, void *row, size_t n,
                             const float *src)
{
    if (dtype == MH_F32)
        memcpy(row, src, n * sizeof *src);
    else if (dtype == MH_BF16)
        kernels->elementwise.narrow_bf16(n, src, row);
    else
        kernels->elementwise.narrow_f16(n, src, row);
}

void mh_row_write(const mh_kernels *kernels, mh_dtype dtype, void *row, ptrdiff_t stride, size_t n,
                  const float *src)
{
    if (stride == 1 || n == 1) {
        write_contiguous(kernels, dtype, row, n, src);
        return;
    }
    ptrdiff_t bytes = stride * (ptrdiff_t)mh_dtype_size(dtype);
    for (size_t i = 0; i < n; i++)
        write_contiguous(kernels, dtype, (char *)row + (ptrdiff_t)i * bytes, 1, src + i);
}

void mh_rows_read(const mh_kernels *kernels, const mh_tensor *t, int d, const void *first,
                  size_t rows, size_t n, float *dst)
{
    const ptrdiff_t step = t->stride[t->rank - 1];
    if (step == 1 && t->stride[d] == (ptrdiff_t)n) { // contiguous rows: read as one
        read_contiguous(kernels, t->dtype, first, rows * n, dst);
        return;
    }
    for (size_t i = 0; i < rows; i++)
        mh_row_read(kernels, t->dtype, mh_row_offset(t, first, (ptrdiff_t)i * t->stride[d]), step,
                    n, dst + i * n);
}

const float *mh_rows_as_f32(const mh_kernels *kernels, const mh_tensor *t, int d, const void *first,
                            size_t rows, size_t n, float *staging, ptrdiff_t *stride)
{
    if (t->dtype == MH_F32 && (t->stride[t->rank - 1] == 1 || n == 1)) {
        *stride = t->stride[d];
        return first;
    }
    mh_rows_read(kernels, t, d, first, rows, n, staging);
    *stride = (ptrdiff_t)n;
    return staging;
}

void mh_rows_reduce(const mh_kernels *kernels, const mh_tensor *t, size_t first, size_t rows,
                    size_t column, size_t n, float *sums)
{
    const void *from = mh_element(t, 2, (size_t[]){first, column});
    if (t->dtype == MH_F32 && t->stride[1] == 1) {
        kernels->matrix.reduce_rows(rows, n, from, t->stride[0], sums);
        return;
    }
    if (t->dtype == MH_BF16 && t->stride[1] == 1) {
        kernels->matrix.reduce_rows_bf16(rows, n, from, t->stride[0], sums);
        return;
    }
    float part[MH_PANEL];
    for (size_t i = 0; i < rows; i++)
        for (size_t j = 0, width; j < n; j += width) {
            width = mh_smaller(n - j, MH_PANEL);
            mh_row_read(kernels, t->dtype, mh_element(t, 2, (size_t[]){first + i, column + j}),
                        t->stride[1], width, part);
            kernels->elementwise.add_row(width, part, sums + j);
        }
}
