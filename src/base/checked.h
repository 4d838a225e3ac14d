// SPDX-License-Identifier: MIT
// Arithmetic on sizes that cannot wrap around: every size that is computed from a file, a
// shape or an option goes through here. Each function returns false if the result does not
// fit, and then leaves *result alone.
#ifndef MH_BASE_CHECKED_H
#define MH_BASE_CHECKED_H

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
    if (b != 0 && a > SIZE_MAX / b)
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
// factors' product fits: {0, 2^63, 4} is refused, as a file that says so is lying.
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

#endif
