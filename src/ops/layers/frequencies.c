// SPDX-License-Identifier: MIT
#include "base/pow.h"
#include "ops/layers/layers_internal.h"

void mh_frequencies(double base, size_t width, size_t n, double *frequency)
{
    const double log_base = mh_log_above_1(base);
    for (size_t i = 0; i < n; i++)
        frequency[i] = mh_exp_below_0(-2.0 * (double)i / (double)width * log_base);
}
