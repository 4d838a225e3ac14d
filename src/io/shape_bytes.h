// SPDX-License-Identifier: MIT
// The size in bytes of a shape, with overflow checks.
#ifndef MH_IO_SHAPE_BYTES_H
#define MH_IO_SHAPE_BYTES_H

#include <multihead/tensor.h>

#include "base/overflow.h"

// False if the bytes do not fit in ptrdiff_t, in which strides and pointer differences are
// counted. Dimensions of 0 are skipped in the product: (0, 2^60, 2^60) is rejected although it is
// empty, because its strides would overflow.
static inline bool mh_shape_bytes(mh_dtype dtype, int rank, const size_t *shape, size_t *bytes)
{
    size_t product = mh_dtype_size(dtype);
    bool empty = false;
    for (int i = 0; i < rank; i++) {
        empty |= shape[i] == 0;
        if (!mh_multiply_sizes(product, shape[i] ? shape[i] : 1, &product))
            return false;
    }
    if (product > PTRDIFF_MAX)
        return false;
    *bytes = empty ? 0 : product;
    return true;
}

#endif
