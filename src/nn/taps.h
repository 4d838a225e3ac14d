// SPDX-License-Identifier: MIT
// What a tap copies from an attention besides its weights: values that are computed anyway, so that
// no bit of the output changes.
#ifndef MH_NN_TAPS_H
#define MH_NN_TAPS_H

#include "nn/attention_layer.h"

// Rejects tensors whose shapes do not match this call; `saved` has its q, k and v.
mh_status mh_tap_check(mh_context *context, const mh_attention_layer *layer,
                       const mh_attention_call *call, const mh_attention_saved *saved);

// Rejects taps that overlap the output or an input of the whole call, NULL where there is none.
// Tap i of the caller's array, whose stride is struct_size.
static inline const mh_tap *mh_tap_at(const mh_tap *taps, size_t i)
{
    return (const mh_tap *)(const void *)((const char *)taps + i * taps->struct_size);
}

mh_status mh_taps_check_overlap(mh_context *context, const mh_tap *taps, size_t count,
                                const mh_tensor *output, const mh_tensor *src,
                                const mh_tensor *tgt);

// q, k and v as attention reads them: after rotary embedding, with the extra keys.
mh_status mh_tap_heads(mh_context *context, const mh_attention_call *call,
                       const mh_attention_saved *saved);

// Rows (rows, D) of the output projection, without the residual.
mh_status mh_tap_out(mh_context *context, const mh_attention_call *call, const mh_tensor *rows);

// Copies rows (rows, D) of the pass to a tap's tensor `to`, (B, T, D), if there is one.
mh_status mh_tap_rows(mh_context *context, const mh_pass *pass, const char *name,
                      const mh_tensor *rows, const mh_tensor *to);

#endif
