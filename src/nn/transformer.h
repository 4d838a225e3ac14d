// SPDX-License-Identifier: MIT
// Internals of a Transformer.
#ifndef MH_NN_TRANSFORMER_H
#define MH_NN_TRANSFORMER_H

#include "nn/block_layer.h"

enum { MH_MOST_ROPES = 8 }; // different rotary embeddings of a Transformer

// One of the two stacks.
typedef struct mh_stack {
    mh_block *blocks;
    size_t count;
    mh_norm_layer norm; // weight MH_NO_PARAMETER: none
    ptrdiff_t relative; // (buckets, H) of the relative position bias, or MH_NO_PARAMETER
    bool final_norm;
} mh_stack;

struct mh_transformer {
    mh_allocator allocator;
    uint64_t identity; // as in mh_mha
    mh_transformer_config config;
    mh_parameters parameters;
    mh_stack encoder, decoder;
    mh_packed_weights *packed;                      // matrices, of a Transformer for inference
    const mh_attention_layer *ropes[MH_MOST_ROPES]; // of blocks
    size_t rope_count;
};

static inline bool mh_has_decoder(const mh_transformer *t)
{
    return t->config.kind != MH_ENCODER && t->config.kind != MH_ENCODER_LAYER;
}

static inline bool mh_has_encoder(const mh_transformer *t)
{
    return t->config.kind != MH_DECODER && t->config.kind != MH_DECODER_LAYER;
}

// A Transformer without parameters, whose blocks are not created yet. Error: MH_ERROR_MEMORY.
mh_status mh_transformer_allocate(mh_context *context, const mh_transformer_config *config,
                                  size_t encoder_layers, size_t decoder_layers,
                                  mh_transformer **transformer);

// Creates the parameters, if `status`, that of creating the blocks, is MH_OK; frees `t` on failure.
mh_status mh_transformer_finish(mh_context *context, mh_transformer *t, mh_status status,
                                bool trainable, mh_transformer **transformer);

// Checks that taps name existing layers, at most one per attention; without `encoder`, of the
// decoder only.
mh_status mh_taps_check(mh_context *context, const mh_transformer *transformer, bool encoder,
                        const mh_tap *taps, size_t count);

#endif
