// SPDX-License-Identifier: MIT
// A Transformer's weights packed as B operands. Decoding multiplies few rows at a time: packing the
// weights in each step would take longer than the product. Packed or not, products are bitwise
// identical.
#ifndef MH_NN_PACKED_WEIGHTS_H
#define MH_NN_PACKED_WEIGHTS_H

#include <multihead/nn.h>
#include <multihead/ops.h>

// Immutable: any thread may read it.
typedef struct mh_packed_weights mh_packed_weights;

// A packed copy of the weights of a decoding step, of the decoder or of an encoder alone; with
// `whole`, also of the weights that encode and project the memory. Error: MH_ERROR_MEMORY.
MH_API mh_status mh_packed_weights_create(mh_context *context, const mh_transformer *transformer,
                                          bool whole, mh_packed_weights **packed);
MH_API void mh_packed_weights_free(mh_packed_weights *packed); // NULL is fine

// The packed parameter at `weight`, or NULL if there is none or it was packed for another level
// than the context's. `packed` may be NULL.
const mh_packed_matrix *mh_packed_weight(const mh_context *context, const mh_packed_weights *packed,
                                         ptrdiff_t weight);

// mh_transformer_encode and mh_decoding_create with prepacked weights of the same Transformer,
// which must outlive the decoding; `packed` may be NULL.
MH_API mh_status mh_transformer_encode_packed(mh_context *context,
                                              const mh_transformer *transformer,
                                              const mh_packed_weights *packed,
                                              const mh_transformer_options *options,
                                              const mh_tensor *src, mh_tensor *memory);
MH_API mh_status mh_decoding_create_packed(mh_context *context, const mh_transformer *transformer,
                                           const mh_packed_weights *packed, const mh_tensor *memory,
                                           const int64_t *lengths, size_t copies,
                                           mh_decoding **decoding);

#endif
