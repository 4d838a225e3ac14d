// SPDX-License-Identifier: MIT
// One pass of a module: the parameters it reads, the rows it works on, and what the caller asked
// for. Stacks, blocks and attention all read this one descriptor; nothing is copied from layer to
// layer.
#ifndef MH_NN_PASS_H
#define MH_NN_PASS_H

#include "nn/packed_weights.h"
#include "nn/parameter_list.h"

// Which rows of a matrix are token t of sequence b: row b * batch_step + t * token_step; or, if
// starts is not NULL, row starts[b] + t.
typedef struct mh_batch {
    size_t sequences, length; // B, T; packed: sequences, rows in all
    size_t batch_step, token_step;
    const int64_t *starts;
} mh_batch;

static inline size_t mh_batch_rows(const mh_batch *batch)
{
    return batch->starts ? batch->length : batch->sequences * batch->length;
}

// Cosines and sines of the rows' positions, (T, width/2), or (B, 1, T, width/2) if sequences are at
// different positions; packed: (rows, width/2). Computed once per pass, as all layers share them.
typedef struct mh_rope_table {
    mh_tensor cosine, sine;
} mh_rope_table;

typedef struct mh_pass {
    const float *values;             // of the parameters
    const mh_packed_weights *packed; // of their matrices, or NULL
    float *gradients;                // in backward, or NULL: not wanted
    bool overwrite;                  // gradients are written, not added to
    mh_dtype operands; // of values that are only operands of products; backward has its forward's
    bool training;
    uint64_t seed;
    uint32_t step;

    // Stacks only.
    bool decoder;               // this is the decoder's pass
    mh_batch rows, memory_rows; // of x, and of the memory
    mh_tensor memory;           // (rows, D), for cross-attention
    const mh_tensor *mask, *padding, *memory_mask, *memory_padding;
    bool causal;
    mh_kv_cache *const *caches; // NULL, or (layers, 2): of the tokens, and of the memory
    const mh_rope_table *ropes; // of the stack's rotary embeddings
    const mh_tensor *relative;  // (1, H, T, S) relative position bias, or NULL
    float *drelative;           // its gradient, summed over layers, or NULL
    const mh_tap *taps;
    size_t tap_count;
    const bool *disabled, *cross_disabled; // (layers, H), or NULL
} mh_pass;

#endif
