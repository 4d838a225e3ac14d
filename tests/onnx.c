// SPDX-License-Identifier: MIT
// ONNX Attention on top of mh_attention_forward; see onnx.h.
//
//     ONNX                                      here
//     3-D inputs                                mh_tensor_split, mh_tensor_swap
//     past_key ++ K                             copied into present_key (or a temporary)
//     is_causal with past                       MH_CAUSAL_OFFSET, the past's length
//     is_causal with nonpad_kv_seqlen           MH_CAUSAL_BOTTOM_RIGHT and key_lengths
//     is_causal                                 MH_CAUSAL_TOP_LEFT
//     attn_mask                                 MH_MASK_KEEP or MH_MASK_ADD, padded if too short
//     a fully masked row is 0                   MH_EMPTY_ROW_ZERO
//     qk_matmul_output_mode 0, 1, 2, 3          weights_stage SCALED, CAPPED, BIASED, SOFTMAX
//     softmax_precision                         nothing: our softmax always runs in f32
#include "onnx.h"

#include "ref/ref_tensor.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

onnx_attention onnx_attention_default(void)
{
    return (onnx_attention){.scale = NAN, .left_window_size = -1, .right_window_size = -1};
}

// ---- attributes -------------------------------------------------------------------------

static bool set_attribute(onnx_attention *node, const char *name, const json_t *value)
{
    json_int_t integer = json_integer_value(value);
    if (strcmp(name, "is_causal") == 0)
        node->is_causal = integer != 0;
    else if (strcmp(name, "q_num_heads") == 0)
        node->q_num_heads = (size_t)integer;
    else if (strcmp(name, "kv_num_heads") == 0)
        node->kv_num_heads = (size_t)integer;
    else if (strcmp(name, "scale") == 0)
        node->scale = (float)json_number_value(value);
    else if (strcmp(name, "softcap") == 0)
        node->softcap = (float)json_number_value(value);
    else if (strcmp(name, "qk_matmul_output_mode") == 0)
        node->qk_matmul_output_mode = (int)integer;
    else if (strcmp(name, "left_window_size") == 0)
        node->left_window_size = integer;
    else if (strcmp(name, "right_window_size") == 0)
        node->right_window_size = integer;
    else
        return strcmp(name, "softmax_precision") == 0;
    return true;
}

mh_status onnx_attention_parse(mh_context *context, const char *json, onnx_attention *node)
{
    json_error_t error;
    json_t *object = json_loads(json, JSON_REJECT_DUPLICATES, &error);
    if (!object)
        return mh_fail(context, MH_ERROR_FORMAT, "attributes: %s", error.text);
    mh_status status = MH_OK;
    const char *name;
    json_t *value;
    json_object_foreach(object, name, value) if (!set_attribute(node, name, value)) status =
        mh_fail(context, MH_ERROR_FORMAT, "attribute %s is unknown", name);
    json_decref(object);
    return status;
}

// ---- views and copies -------------------------------------------------------------------

// (B, T, heads*E) as (B, heads, T, E); 4-D tensors as they are.
static mh_tensor split_heads(const mh_tensor *t, size_t heads)
{
    return t->rank == 3 ? mh_tensor_swap(mh_tensor_split(*t, 2, heads), 1, 2) : *t;
}

// past ++ now along the keys, written to `present`, or to *memory if that is NULL.
static mh_status join(mh_context *context, const mh_tensor *past, mh_tensor now,
                      const mh_tensor *present, void **memory, mh_tensor *joined)
{
    size_t before = past ? past->shape[2] : 0, total = before + now.shape[2];
    *memory = NULL;
    if (!past && !present) {
        *joined = now;
        return MH_OK;
    }
    if (present) {
        *joined = *present;
    } else {
        *memory =
            ref_alloc(now.shape[0] * now.shape[1] * total * now.shape[3], mh_dtype_size(now.dtype));
        *joined = mh_tensor_4d(*memory, now.dtype, now.shape[0], now.shape[1], total, now.shape[3]);
    }
    mh_tensor head = mh_tensor_slice(*joined, 2, 0, before);
    mh_tensor tail = mh_tensor_slice(*joined, 2, before, total - before);
    mh_status status = past ? mh_tensor_copy(context, past, &head) : MH_OK;
    return status == MH_OK ? mh_tensor_copy(context, &now, &tail) : status;
}

// The mask with its last dimension made `keys` long; what is missing is masked. Even a last
// dimension of 1 is padded, not broadcast.
static mh_status pad_mask(mh_context *context, const mh_tensor *mask, size_t keys, void **memory,
                          mh_tensor *padded)
{
    int last = mask->rank - 1;
    *memory = NULL;
    *padded = *mask;
    if (last < 0 || mask->shape[last] >= keys)
        return MH_OK;
    size_t shape[MH_MAX_RANK], index[MH_MAX_RANK] = {0};
    memcpy(shape, mask->shape, sizeof shape);
    shape[last] = keys;
    *padded = mh_tensor_view(NULL, mask->dtype, mask->rank, shape);
    *memory = padded->data = ref_alloc(ref_count(padded), mh_dtype_size(mask->dtype));
    if (ref_count(padded))
        do
            ref_set(padded, index, mask->dtype == MH_BOOL ? 0 : -INFINITY);
        while (ref_next(padded, index));
    mh_tensor given = mh_tensor_slice(*padded, last, 0, mask->shape[last]);
    return mh_tensor_copy(context, mask, &given);
}

// ---- the call ---------------------------------------------------------------------------

typedef struct call {
    mh_attention_options options;
    mh_tensor q, k, v, y;
    mh_mask mask;
    int64_t *lengths; // (B)
} call;

static void choose_positions(const onnx_attention *node, call *c)
{
    mh_attention_options *o = &c->options;
    o->window_left = node->left_window_size;
    o->window_right = node->right_window_size;
    if (node->past_key)
        o->offset = (int64_t)node->past_key->shape[2];
    if (node->nonpad_kv_seqlen) {
        for (size_t b = 0; b < c->q.shape[0]; b++)
            c->lengths[b] = (int64_t)ref_get(node->nonpad_kv_seqlen, &b);
        o->key_lengths = c->lengths;
    }
    if (node->is_causal)
        o->causal = node->past_key           ? MH_CAUSAL_OFFSET
                    : node->nonpad_kv_seqlen ? MH_CAUSAL_BOTTOM_RIGHT
                                             : MH_CAUSAL_TOP_LEFT;
}

static void choose_outputs(const onnx_attention *node, call *c)
{
    static const mh_weights_stage stages[] = {MH_WEIGHTS_SCALED, MH_WEIGHTS_CAPPED,
                                              MH_WEIGHTS_BIASED, MH_WEIGHTS_SOFTMAX};
    c->options.weights = node->qk_matmul_output;
    c->options.weights_stage = stages[node->qk_matmul_output_mode];
}

static mh_tensor one_batch(const mh_tensor *t, size_t b)
{
    return mh_tensor_slice(*t, 0, t->shape[0] == 1 ? 0 : b, 1);
}

// A window without causal stands at nonpad_kv_seqlen[b] - T, but our explicit offset is one for
// the whole batch: one call for each batch element.
static mh_status run_each_batch(mh_context *context, const call *all)
{
    mh_status status = MH_OK;
    for (size_t b = 0; b < all->q.shape[0] && status == MH_OK; b++) {
        call c = *all;
        c.q = one_batch(&all->q, b);
        c.k = one_batch(&all->k, b);
        c.v = one_batch(&all->v, b);
        c.y = one_batch(&all->y, b);
        c.options.key_lengths = all->lengths + b;
        c.options.offset = all->lengths[b] - (int64_t)all->q.shape[2];
        if (c.options.masks && c.mask.tensor.rank == 4)
            c.mask.tensor = one_batch(&all->mask.tensor, b);
        c.options.masks = all->options.masks ? &c.mask : NULL;
        mh_tensor weights;
        if (c.options.weights) {
            weights = one_batch(all->options.weights, b);
            c.options.weights = &weights;
        }
        status = mh_attention_forward(context, &c.options, &c.q, &c.k, &c.v, &c.y);
    }
    return status;
}

static mh_status run_call(mh_context *context, const onnx_attention *node, call *c)
{
    choose_positions(node, c);
    choose_outputs(node, c);
    if (node->attn_mask) {
        c->mask.kind = node->attn_mask->dtype == MH_BOOL ? MH_MASK_KEEP : MH_MASK_ADD;
        c->options.masks = &c->mask;
        c->options.mask_count = 1;
    }
    bool window = node->left_window_size >= 0 || node->right_window_size >= 0;
    if (window && node->nonpad_kv_seqlen && !node->is_causal)
        return run_each_batch(context, c);
    return mh_attention_forward(context, &c->options, &c->q, &c->k, &c->v, &c->y);
}

mh_status onnx_attention_run(mh_context *context, const onnx_attention *node)
{
    call c = {.options = mh_attention_options_default()};
    void *key_memory = NULL, *value_memory = NULL, *mask_memory = NULL;
    c.options.scale = node->scale;
    c.options.softcap = node->softcap;
    c.q = split_heads(node->Q, node->q_num_heads);
    c.y = split_heads(node->Y, node->q_num_heads);
    c.lengths = ref_alloc(c.q.shape[0], sizeof *c.lengths);

    mh_status status = join(context, node->past_key, split_heads(node->K, node->kv_num_heads),
                            node->present_key, &key_memory, &c.k);
    if (status == MH_OK)
        status = join(context, node->past_value, split_heads(node->V, node->kv_num_heads),
                      node->present_value, &value_memory, &c.v);
    if (status == MH_OK && node->attn_mask)
        status = pad_mask(context, node->attn_mask, c.k.shape[2], &mask_memory, &c.mask.tensor);
    if (status == MH_OK)
        status = run_call(context, node, &c);

    free(c.lengths);
    free(key_memory);
    free(value_memory);
    free(mask_memory);
    return status;
}
