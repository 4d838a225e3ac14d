// SPDX-License-Identifier: MIT
// The ONNX operator Attention (opsets 23 and 24, and the window of 25) expressed with
// mh_attention_forward: how far our options reach is shown by how little is left to do here -
// join the past and the new keys, split 3-D inputs into heads, pad a short mask.
#ifndef MH_TESTS_ONNX_H
#define MH_TESTS_ONNX_H

#include <multihead/attention.h>

// A node: its attributes with ONNX's names and defaults, its inputs and outputs. Optional
// tensors are NULL. Outputs are views of the right shape, which are written.
typedef struct onnx_attention {
    bool is_causal;
    size_t q_num_heads, kv_num_heads; // for 3-D inputs
    float scale;                      // NAN: 1/sqrt(E)
    float softcap;
    int qk_matmul_output_mode;
    int64_t left_window_size, right_window_size; // opset 25, -1: open

    const mh_tensor *Q;                     // (B, H, T, E) or (B, T, H*E)
    const mh_tensor *K;                     // (B, G, S, E) or (B, S, G*E)
    const mh_tensor *V;                     // (B, G, S, Ev) or (B, S, G*Ev)
    const mh_tensor *attn_mask;             // bool or float, broadcast to (B, H, T, P + S)
    const mh_tensor *past_key, *past_value; // (B, G, P, E), (B, G, P, Ev)
    const mh_tensor *nonpad_kv_seqlen;      // (B) i64

    const mh_tensor *Y;                           // as Q, with Ev
    const mh_tensor *present_key, *present_value; // (B, G, P + S, E), (B, G, P + S, Ev)
    const mh_tensor *qk_matmul_output;            // (B, H, T, P + S)
} onnx_attention;

onnx_attention onnx_attention_default(void);

// Reads the attributes from a JSON object; MH_ERROR_FORMAT for anything unknown, because an
// attribute that is not looked at would be a wrong result.
mh_status onnx_attention_parse(mh_context *context, const char *json, onnx_attention *node);

mh_status onnx_attention_run(mh_context *context, const onnx_attention *node);

#endif
