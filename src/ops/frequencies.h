// SPDX-License-Identifier: MIT
// The frequencies of sinusoidal and rotary position embeddings.
#ifndef MH_OPS_FREQUENCIES_H
#define MH_OPS_FREQUENCIES_H

#include <stddef.h>

// frequency[i] = base^(-2i/width) for i < n, base >= 1; relative error below 1e-14.
void mh_frequencies(double base, size_t width, size_t n, double *frequency);

#endif
