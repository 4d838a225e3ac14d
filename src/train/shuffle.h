// SPDX-License-Identifier: MIT
// An order that chance decides, and (seed, stream) decide chance: the same on every machine.
#ifndef MH_TRAIN_SHUFFLE_H
#define MH_TRAIN_SHUFFLE_H

#include <multihead/base.h>

// Moves `picked` random elements of the n to the front, in random order; the rest stays in some
// order behind them. With picked = n it is a shuffle of all.
void mh_shuffle(uint64_t seed, uint64_t stream, uint32_t *elements, size_t n, size_t picked);

#endif
