// SPDX-License-Identifier: MIT
// A random order as a function of (seed, stream): the same on every machine.
#ifndef MH_TRAIN_SHUFFLE_H
#define MH_TRAIN_SHUFFLE_H

#include <multihead/base.h>

// Moves `picked` random elements of the n to the front, in random order; the rest follows in some
// order. With picked = n it is a shuffle of all.
void mh_shuffle(uint64_t seed, uint64_t stream, uint32_t *elements, size_t n, size_t picked);

#endif
