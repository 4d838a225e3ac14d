// SPDX-License-Identifier: MIT
// Dropout of a stretch of numbers, for what has them at hand: mh_dropout, and a linear layer on the
// way out.
#ifndef MH_OPS_DROPOUT_H
#define MH_OPS_DROPOUT_H

#include "kernels/kernels.h"
#include <multihead/layers.h>

// Checks the options and fills `own` from them, with the defaults where the caller's are shorter.
mh_status mh_check_dropout(mh_context *context, const mh_dropout_options *options,
                           mh_dropout_options *own);

// Which of n <= 64 numbers are kept, the first of which has place `first` in C order, counted from
// options->first_index: bit j is set if number j is. And what a kept one is multiplied by.
uint64_t mh_kept(const mh_kernels *kernels, const mh_dropout_options *options, uint64_t first,
                 size_t n);
static inline float mh_keep_scale(const mh_dropout_options *options)
{
    return 1 / (1 - options->probability);
}

#endif
