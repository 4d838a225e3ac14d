// SPDX-License-Identifier: MIT
// What differs between the layers of a model.
#include "families/family.h"

void mh_family_rotary_layer(const mh_description *d, size_t layer, mh_block_config *block)
{
    const mh_layer_kind kind =
        d->sliding[layer / 64] >> layer % 64 & 1 ? MH_LAYER_SLIDING : MH_LAYER_FULL;
    const mh_rotary *rotary = &d->rotary[kind];
    const size_t E = block->head_dim ? block->head_dim : block->d_model / block->num_heads;
    block->rope_base = rotary->base;
    block->rope_width = (size_t)((double)E * rotary->part); // rounded down, as published
    block->rope_scaling = rotary->scaled ? &rotary->scaling : NULL;
    block->window = kind == MH_LAYER_SLIDING ? (int64_t)d->window - 1 : -1;
}
