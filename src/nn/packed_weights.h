// SPDX-License-Identifier: MIT
// What modules need of packed weights; nn.h creates them.
#ifndef MH_NN_PACKED_WEIGHTS_H
#define MH_NN_PACKED_WEIGHTS_H

#include <multihead/nn.h>
#include <multihead/ops.h>

// The packed parameter at `weight`, or NULL if there is none or it was packed for another level
// than the context's. `packed` may be NULL.
const mh_packed_matrix *mh_packed_weight(const mh_context *context, const mh_packed_weights *packed,
                                         ptrdiff_t weight);

// That `packed` is NULL or of this Transformer. Error: MH_ERROR_ARGUMENT.
mh_status mh_check_packed_weights(mh_context *context, const mh_transformer *transformer,
                                  const mh_packed_weights *packed);

#endif
