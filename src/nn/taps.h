// SPDX-License-Identifier: MIT
// What a tap takes from an attention besides its weights: copies of what is computed anyway, so
// that no bit of the output can change.
#ifndef MH_NN_TAPS_H
#define MH_NN_TAPS_H

#include "nn/attention_layer.h"

// Refuses tensors that do not fit what this call computes; `saved` has its q, k and v.
mh_status mh_tap_check(mh_context *context, const mh_attention_layer *layer,
                       const mh_attention_call *call, const mh_attention_saved *saved);

// q, k and v as they meet each other: after rotary embedding, with the further keys.
mh_status mh_tap_heads(mh_context *context, const mh_attention_call *call,
                       const mh_attention_saved *saved);

// Rows (rows, D) of the output projection, without the residual.
mh_status mh_tap_out(mh_context *context, const mh_attention_call *call, const mh_tensor *rows);

#endif
