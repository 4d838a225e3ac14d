// SPDX-License-Identifier: MIT
// PyTorch's masks converted to the engine's: true there means masked, and a module's extra keys are
// columns that the caller's masks do not have.
#include "base/sized_struct.h"
#include "nn/attention_layer_internal.h"
#include <string.h>

static bool is_bool(const mh_tensor *t) { return t->dtype == MH_BOOL || t->dtype == MH_U8; }

// The mask with `extra` more columns, in which nothing is masked.
static mh_status widen(mh_context *context, const mh_tensor *mask, size_t extra, void *memory,
                       mh_tensor *wide)
{
    const int last = mask->rank - 1;
    size_t shape[MH_MAX_RANK];
    memcpy(shape, mask->shape, sizeof shape);
    shape[last] += extra;
    *wide = mh_tensor_view(memory, mask->dtype, mask->rank, shape);
    memset(memory, 0, mh_tensor_count(wide) * mh_dtype_size(mask->dtype));
    mh_tensor part = mh_tensor_slice(*wide, last, 0, mask->shape[last]);
    return mh_tensor_copy(context, mask, &part);
}

// A PyTorch mask as the engine's: (B, S) broadcast to all heads and queries, or the mask as given.
static mh_mask as_mask(const mh_tensor *mask, bool padding, size_t sequences, size_t heads)
{
    mh_mask m = mh_mask_make(is_bool(mask) ? MH_MASK_DROP : MH_MASK_ADD, *mask);
    if (padding) {
        m.tensor.rank = 4;
        m.tensor.shape[3] = mask->shape[mask->rank - 1];
        m.tensor.stride[3] = mask->stride[mask->rank - 1];
        m.tensor.shape[0] = mask->rank == 2 ? mask->shape[0] : 1;
        m.tensor.stride[0] = mask->rank == 2 ? mask->stride[0] : 0;
        m.tensor.shape[1] = m.tensor.shape[2] = 1;
        m.tensor.stride[1] = m.tensor.stride[2] = 0;
    } else if (mask->rank == 3) {
        m.tensor =
            mh_tensor_4d(mask->data, mask->dtype, sequences, heads, mask->shape[1], mask->shape[2]);
        m.tensor.stride[0] = (ptrdiff_t)heads * mask->stride[0];
        for (int d = 0; d < 3; d++)
            m.tensor.stride[d + 1] = mask->stride[d];
    }
    return m;
}

// The engine would count the extra keys as positions: here the causal rule and the window become a
// mask (T, S') of the S given keys, and every query attends to the extra ones.
static mh_mask take_rule(const mh_attention_call *call, size_t extra, uint8_t *memory,
                         mh_attention_options *o)
{
    const int64_t T = (int64_t)call->queries.length, S = (int64_t)call->keys.length;
    const bool causal = o->causal != MH_CAUSAL_NONE;
    const bool own = o->causal == MH_CAUSAL_OFFSET || !causal;
    const int64_t far = (int64_t)1 << 60; // beyond every position, and no difference overflows
    const int64_t given = o->offset > far ? far : o->offset < -far ? -far : o->offset;
    const int64_t offset = o->causal == MH_CAUSAL_BOTTOM_RIGHT ? S - T : own ? given : 0;
    uint8_t *drop = memset(memory, 0, (size_t)T * ((size_t)S + extra));
    for (int64_t i = 0; i < T; i++, drop += extra)
        for (int64_t j = 0; j < S; j++) {
            const int64_t ahead = j - i - offset;
            *drop++ = (causal && ahead > 0) || (o->window_left >= 0 && -ahead > o->window_left) ||
                      (o->window_right >= 0 && ahead > o->window_right);
        }
    o->causal = MH_CAUSAL_NONE;
    o->window_left = o->window_left < 0 ? o->window_left : -1; // less than -1 is rejected later
    o->window_right = o->window_right < 0 ? o->window_right : -1;
    return mh_mask_make(MH_MASK_DROP, mh_tensor_2d(memory, MH_U8, (size_t)T, (size_t)S + extra));
}

mh_status mh_attention_layer_masks(mh_context *context, const mh_attention_layer *layer,
                                   const mh_attention_call *call, const mh_attention_saved *saved,
                                   mh_mask masks[MH_LAYER_MASKS], mh_attention_options *options)
{
    const size_t extra = mh_attention_layer_extra(layer);
    const mh_tensor *given[2] = {call->padding_mask, call->mask};
    void *const memory[2] = {saved->wide_padding, saved->wide_mask};
    size_t count = options->mask_count;
    for (size_t i = 0; i < count; i++) {
        masks[i] = mh_mask_default();
        mh_status status = MH_READ_ELEMENT(context, mh_mask, options->masks, i, &masks[i]);
        if (status)
            return status;
    }
    for (int i = 0; i < 2; i++) {
        if (!given[i])
            continue;
        mh_tensor wide = *given[i];
        mh_status status = extra ? widen(context, given[i], extra, memory[i], &wide) : MH_OK;
        if (status)
            return status;
        masks[count++] = as_mask(&wide, i == 0, call->queries.sequences, layer->config.num_heads);
    }
    if (saved->wide_rule) // then the options have no masks
        masks[count++] = take_rule(call, extra, saved->wide_rule, options);
    if (call->relative)
        masks[count++] = mh_mask_make(MH_MASK_ADD, *call->relative);
    options->masks = masks;
    options->mask_count = count;
    return MH_OK;
}
