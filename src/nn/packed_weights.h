// SPDX-License-Identifier: MIT
// A Transformer's weights in the layout of the products' B operand. Few rows are multiplied at
// a time when decoding: laying the weights out anew for each step takes longer than the product.
// Packed or not, the bits of a product are the same.
#ifndef MH_NN_PACKED_WEIGHTS_H
#define MH_NN_PACKED_WEIGHTS_H

#include <multihead/nn.h>
#include <multihead/ops.h>

// Immutable: any thread may read it.
typedef struct mh_packed_weights mh_packed_weights;

// A copy of what a step of the decoder, or of an encoder alone, multiplies with; with `whole`, also
// of what the encoder and the memory are multiplied with. Error: MH_ERROR_MEMORY.
MH_API mh_status mh_packed_weights_create(mh_context *context, const mh_transformer *transformer,
                                          bool whole, mh_packed_weights **packed);
MH_API void mh_packed_weights_free(mh_packed_weights *packed); // NULL is fine

// The matrix of the parameter at `weight`, or NULL: there is none, or it is of another level than
// the context. `packed` may be NULL.
const mh_packed_matrix *mh_packed_weight(const mh_context *context, const mh_packed_weights *packed,
                                         ptrdiff_t weight);

// mh_transformer_encode, and mh_decoding_create, with weights that are packed already, of the same
// Transformer, and outlive the decoding; `packed` may be NULL.
MH_API mh_status mh_transformer_encode_packed(mh_context *context,
                                              const mh_transformer *transformer,
                                              const mh_packed_weights *packed,
                                              const mh_transformer_options *options,
                                              const mh_tensor *src, const mh_tensor *memory);
MH_API mh_status mh_decoding_create_packed(mh_context *context, const mh_transformer *transformer,
                                           const mh_packed_weights *packed, const mh_tensor *memory,
                                           const int64_t *lengths, size_t copies,
                                           mh_decoding **decoding);

#endif
