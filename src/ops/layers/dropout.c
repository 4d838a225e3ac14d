// SPDX-License-Identifier: MIT
// Counter-based dropout. Whether element i is kept is a comparison of 16 bits, word i % 8, of
// Philox with
//
//     counter  { i/8 low, i/8 high, step, stream }      key { seed low, seed high ^ "DROP" }
//
// against a threshold; the constant in the key separates it from attention's dropout with the same
// seed. Masks are made for 64 elements at a time, in blocks counted from element 0.
#include "base/compiler.h"
#include "base/context.h"
#include "base/size_math.h"
#include "base/sized_struct.h"
#include "ops/layers/layers_internal.h"
#include "ops/overlap.h"
#include "ops/tensor_check.h"
#include <multihead/layers.h>

static uint64_t dropout_mask_of_block(const mh_kernels *kernels, const mh_dropout_options *o,
                                      uint64_t block)
{
    const uint64_t counter = block * (MH_KEY_TILE / 8);
    const uint32_t key[2] = {(uint32_t)o->seed, (uint32_t)(o->seed >> 32) ^ 0x44524F50u};
    const uint32_t at[4] = {(uint32_t)counter, (uint32_t)(counter >> 32), o->step, o->stream};
    return kernels->elementwise.dropout_mask((uint16_t)(o->probability * 0x1p16f), key, at);
}

uint64_t mh_dropout_mask(const mh_kernels *kernels, const mh_dropout_options *o, uint64_t first,
                         size_t n)
{
    const uint64_t index = o->first_index + first, block = index / MH_KEY_TILE;
    const size_t skip = (size_t)(index % MH_KEY_TILE);
    uint64_t kept = dropout_mask_of_block(kernels, o, block) >> skip;
    if (skip + n > MH_KEY_TILE)
        kept |= dropout_mask_of_block(kernels, o, block + 1) << (MH_KEY_TILE - skip);
    return kept;
}

// y = dropout(x) for the n elements from `first` on, counted from options->first_index.
static void dropout_part(const mh_kernels *kernels, const void *arg, size_t first, size_t n,
                         float *const *t)
{
    const mh_dropout_options *o = arg;
    const float *x = t[0], scale = mh_keep_scale(o);
    float *y = t[1];
    for (size_t j = 0, width; j < n; j += width) {
        const uint64_t index = o->first_index + first + j;
        const size_t skip = (size_t)(index % MH_KEY_TILE);
        width = mh_smaller(MH_KEY_TILE - skip, n - j);
        const uint64_t keep = dropout_mask_of_block(kernels, o, index / MH_KEY_TILE) >> skip;
        kernels->elementwise.dropout_row(keep, scale, width, x + j, y + j);
    }
}

static void copy_part(const mh_kernels *kernels, const void *arg, size_t first, size_t n,
                      float *const *t)
{
    (void)kernels, (void)arg, (void)first;
    memmove(t[1], t[0], n * sizeof **t);
}

mh_status mh_check_dropout(mh_context *context, const mh_dropout_options *options,
                           mh_dropout_options *own)
{
    *own = mh_dropout_options_default();
    MH_TRY(MH_READ_STRUCT(context, mh_dropout_options, options, own));
    if (!(own->probability >= 0 && own->probability < 1))
        return mh_fail(context, MH_ERROR_ARGUMENT,
                       "probability: found %g, expected 0 to less than 1",
                       (double)own->probability);
    return MH_OK;
}

mh_status mh_dropout(mh_context *context, const mh_dropout_options *options, const mh_tensor *x,
                     mh_tensor *y)
{
    mh_dropout_options o;
    MH_TRY(mh_check_float(context, "x", x, -1));
    MH_TRY(mh_check_like(context, "y", y, "x", x));
    MH_TRY(mh_check_dropout(context, options, &o));
    MH_TRY(MH_CHECK_OVERLAP(context, 1, MH_OPERAND(y), MH_OPERAND_IN_PLACE(x)));
    mh_elementwise(context, o.probability > 0 ? dropout_part : copy_part, &o, 1, 1,
                   (const mh_tensor *[]){x, y});
    return MH_OK;
}
