// SPDX-License-Identifier: MIT
// Rows of tensors as contiguous f32, as the kernels take them. A row is the last dimension.
#ifndef MH_OPS_ROW_IO_H
#define MH_OPS_ROW_IO_H

#include "kernels/kernels.h"
#include <multihead/tensor.h>

// Whether rows of this dtype can be read and written: f32, bf16, f16; and the kernels' type for it.
bool mh_rows_supported(mh_dtype dtype);
static inline mh_row_type mh_row_type_of(mh_dtype dtype)
{
    return dtype == MH_F32 ? MH_ROW_F32 : dtype == MH_BF16 ? MH_ROW_BF16 : MH_ROW_F16;
}

// The address `steps` elements of t away from `row`. Inline, as it is called once per row.
static inline const void *mh_row_offset(const mh_tensor *t, const void *row, ptrdiff_t steps)
{
    size_t size = t->dtype == MH_F32                          ? 4
                  : t->dtype == MH_BF16 || t->dtype == MH_F16 ? 2
                                                              : mh_dtype_size(t->dtype);
    return (const char *)row + steps * (ptrdiff_t)size;
}

// The address of the element at the given indices of the leading `count` dimensions.
static inline const void *mh_element(const mh_tensor *t, int count, const size_t *index)
{
    ptrdiff_t steps = 0;
    for (int d = 0; d < count; d++)
        steps += (ptrdiff_t)index[d] * t->stride[d];
    return mh_row_offset(t, t->data, steps);
}

// The address of row number `row` in C order: the indices of all dimensions but the last.
static inline const void *mh_row_address(const mh_tensor *t, size_t row)
{
    ptrdiff_t steps = 0;
    for (int d = t->rank - 2; d >= 0 && row > 0; d--) {
        steps += (ptrdiff_t)(row % t->shape[d]) * t->stride[d];
        row /= t->shape[d];
    }
    return mh_row_offset(t, t->data, steps);
}

// Reads n elements, `stride` apart, from `row` to dst as f32.
void mh_row_read(const mh_kernels *kernels, mh_dtype dtype, const void *row, ptrdiff_t stride,
                 size_t n, float *dst);

// Writes n floats from src to `row`, `stride` apart, rounded to its dtype.
void mh_row_write(const mh_kernels *kernels, mh_dtype dtype, void *row, ptrdiff_t stride, size_t n,
                  const float *src);

// Reads `rows` rows of n elements of t, from `first` on and t->stride[d] apart, to dst (rows x n).
void mh_rows_read(const mh_kernels *kernels, const mh_tensor *t, int d, const void *first,
                  size_t rows, size_t n, float *dst);

// The same rows in place if they are contiguous f32 already, otherwise read into staging. *stride
// gets the row stride of the result.
const float *mh_rows_as_f32(const mh_kernels *kernels, const mh_tensor *t, int d, const void *first,
                            size_t rows, size_t n, float *staging, ptrdiff_t *stride);

// sums (n) += rows first .. first + rows - 1 of t, from `column` on, in order.
void mh_rows_reduce(const mh_kernels *kernels, const mh_tensor *t, size_t first, size_t rows,
                    size_t column, size_t n, float *sums);

// Row number `row` of t as contiguous f32: in place, or read into staging.
static inline const float *mh_row_input(const mh_kernels *kernels, const mh_tensor *t, size_t row,
                                        float *staging)
{
    const int last = t->rank - 1;
    const void *address = mh_row_address(t, row);
    if (t->dtype == MH_F32 && (t->stride[last] == 1 || t->shape[last] == 1))
        return address;
    mh_row_read(kernels, t->dtype, address, t->stride[last], t->shape[last], staging);
    return staging;
}

// Where to write a row of t as contiguous f32: in place, or staging, for mh_row_written to store.
static inline float *mh_row_output(const mh_tensor *t, size_t row, float *staging)
{
    const int last = t->rank - 1;
    bool direct = t->dtype == MH_F32 && (t->stride[last] == 1 || t->shape[last] == 1);
    return direct ? (float *)mh_row_address(t, row) : staging;
}

static inline void mh_row_written(const mh_kernels *kernels, const mh_tensor *t, size_t row,
                                  const float *from, const float *staging)
{
    const int last = t->rank - 1;
    if (from == staging)
        mh_row_write(kernels, t->dtype, (void *)mh_row_address(t, row), t->stride[last],
                     t->shape[last], from);
}

#endif
