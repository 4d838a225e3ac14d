// SPDX-License-Identifier: MIT
// A stack's matrices packed as B operands. Decoding multiplies few rows at a time: packing the
// weights in each step would take longer than the product. Packed or not, products are bitwise
// identical.
//
// A matrix has a slot: MH_BLOCK_SLOTS per block, counted over the encoder's blocks and then the
// decoder's.
#ifndef MH_NN_PACKED_WEIGHTS_H
#define MH_NN_PACKED_WEIGHTS_H

#include <multihead/nn.h>
#include <multihead/ops.h>

#define MH_NO_SLOT SIZE_MAX

typedef enum mh_block_slot {
    MH_SLOT_SELF_IN,  // q, k and v
    MH_SLOT_SELF_OUT, //
    MH_SLOT_CROSS_Q,
    MH_SLOT_CROSS_KV,
    MH_SLOT_CROSS_OUT,
    MH_SLOT_UP, // gate and up, if gated
    MH_SLOT_DOWN,
    MH_BLOCK_SLOTS,
} mh_block_slot;

// An empty set of a Transformer's slots, `only` if its parameters have no matrices; and puts W^T of
// W (N, K), of any float dtype, into one of them, for products in this precision. Errors:
// MH_ERROR_MEMORY, and as mh_matrix_pack.
mh_status mh_packed_weights_allocate(mh_context *context, const mh_transformer *transformer,
                                     bool only, mh_packed_weights **packed);
mh_status mh_packed_weights_set(mh_context *context, mh_packed_weights *packed, size_t slot,
                                mh_precision precision, const mh_tensor *weight);

// The bytes of all packed matrices.
size_t mh_packed_weights_bytes(const mh_packed_weights *packed);
size_t mh_packed_weights_bytes_bf16(const mh_context *context, const mh_packed_weights *packed);

// The matrix in a slot; NULL if there is none, or it was packed for another level than the
// context's and the parameters have it, too. `packed` may be NULL. Error: MH_ERROR_ARGUMENT if the
// matrix exists in that other level's layout only.
mh_status mh_packed_weight(mh_context *context, const mh_packed_weights *packed, size_t slot,
                           const mh_packed_matrix **matrix);

// That `packed` is NULL or of this Transformer. Error: MH_ERROR_ARGUMENT.
mh_status mh_check_packed_weights(mh_context *context, const mh_transformer *transformer,
                                  const mh_packed_weights *packed);

#endif
