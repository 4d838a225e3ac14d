// SPDX-License-Identifier: MIT
// Overflow-checked arithmetic on sizes: every size that is computed from a file, a shape or an
// option goes through here. Each function returns false if the result does not fit, and then
// leaves *result unchanged.
#ifndef MH_BASE_OVERFLOW_H
#define MH_BASE_OVERFLOW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

static inline bool mh_add_sizes(size_t a, size_t b, size_t *result)
{
    if (a > SIZE_MAX - b)
        return false;
    *result = a + b;
    return true;
}

static inline bool mh_multiply_sizes(size_t a, size_t b, size_t *result)
{
    // Two factors of half the bits always fit: no division needed.
    if ((a | b) >> (4 * sizeof a) != 0 && b != 0 && a > SIZE_MAX / b)
        return false;
    *result = a * b;
    return true;
}

// value rounded up to a multiple of step (step > 0)
static inline bool mh_round_up_size(size_t value, size_t step, size_t *result)
{
    size_t rest = value % step;
    return mh_add_sizes(value, rest ? step - rest : 0, result);
}

// The product of n factors; an empty product is 1. A zero anywhere gives 0 only if the other
// factors' product fits: {0, 2^63, 4} is rejected, as no valid file has such a shape.
static inline bool mh_multiply_all(size_t n, const size_t *factors, size_t *result)
{
    size_t product = 1;
    bool zero = false;
    for (size_t i = 0; i < n; i++) {
        if (factors[i] == 0)
            zero = true;
        else if (!mh_multiply_sizes(product, factors[i], &product))
            return false;
    }
    *result = zero ? 0 : product;
    return true;
}

// Whether a view with elements spans at most PTRDIFF_MAX bytes, first to last, so that no offset
// within it overflows: the sum of |stride| (shape - 1) over all dimensions, and one element.
static inline bool mh_strides_fit(int rank, const size_t *shape, const ptrdiff_t *stride,
                                  size_t element)
{
    size_t span = 1, reach, bits = 0;
    for (int i = 0; i < rank; i++)
        bits |= shape[i] | (size_t)(stride[i] ^ (stride[i] < 0 ? -1 : 0));
    if (bits < (size_t)1 << 3 * sizeof bits) // 8 products of these, of 8 bytes each, always fit
        return true;
    for (int i = 0; i < rank; i++) {
        const size_t step = stride[i] < 0 ? 0 - (size_t)stride[i] : (size_t)stride[i];
        if (shape[i] > 1 &&
            (!mh_multiply_sizes(step, shape[i] - 1, &reach) || !mh_add_sizes(span, reach, &span)))
            return false;
    }
    return span <= PTRDIFF_MAX / element;
}

#endif
