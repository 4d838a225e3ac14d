// SPDX-License-Identifier: MIT
// Internals of a Transformer.
#ifndef MH_NN_TRANSFORMER_H
#define MH_NN_TRANSFORMER_H

#include "nn/layer.h"

struct mh_transformer {
    mh_allocator allocator;
    uint64_t identity; // as in mh_mha
    mh_transformer_config config;
    mh_parameters parameters;
    size_t encoder_count, decoder_count;
    mh_layer *layers; // (encoder_count + decoder_count)
    ptrdiff_t encoder_norm, encoder_norm_bias, decoder_norm, decoder_norm_bias;
};

// One of the two stacks.
typedef struct mh_stack {
    const mh_layer *layers;
    size_t count;
    ptrdiff_t norm, norm_bias; // MH_NO_PARAMETER: none
} mh_stack;

static inline mh_stack mh_encoder_stack(const mh_transformer *t)
{
    return (mh_stack){t->layers, t->encoder_count, t->encoder_norm, t->encoder_norm_bias};
}

static inline mh_stack mh_decoder_stack(const mh_transformer *t)
{
    return (mh_stack){t->layers + t->encoder_count, t->decoder_count, t->decoder_norm,
                      t->decoder_norm_bias};
}

// Checks that taps name existing layers, at most one per attention; without `encoder`, of the
// decoder only.
mh_status mh_taps_check(mh_context *context, const mh_transformer *transformer, bool encoder,
                        const mh_tap *taps, size_t count);

#endif
