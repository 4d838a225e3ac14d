// SPDX-License-Identifier: MIT
// Dropout masks of consecutive elements, for mh_dropout and the epilogue of a linear layer.
#ifndef MH_OPS_DROPOUT_H
#define MH_OPS_DROPOUT_H

#include "kernels/kernels.h"
#include <multihead/layers.h>

// Checks the options and fills `own` from them, with the defaults where the caller's are shorter.
mh_status mh_check_dropout(mh_context *context, const mh_dropout_options *options,
                           mh_dropout_options *own);

// The dropout mask of n <= 64 elements, the first of which has index `first` in C order, counted
// from options->first_index: bit j is set if element j is kept. And the factor of kept elements.
uint64_t mh_kept(const mh_kernels *kernels, const mh_dropout_options *options, uint64_t first,
                 size_t n);
static inline float mh_keep_scale(const mh_dropout_options *options)
{
    return 1 / (1 - options->probability);
}

#endif
