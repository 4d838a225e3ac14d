// SPDX-License-Identifier: MIT
// Calls of every public function on tensors; see api_calls.h.
#include "api_calls.h"

enum { W = API_WIDTH, N = API_TOKENS, E = W / API_HEADS };

static mh_status attention(const api_objects *a, const mh_tensor *t)
{
    mh_attention_options o = mh_attention_options_default();
    const mh_mask mask = {MH_MASK_ADD, t[3]};
    o.masks = &mask;
    o.mask_count = 1;
    o.lse = &t[5];
    o.weights = &t[6];
    return mh_attention_forward(a->context, &o, &t[0], &t[1], &t[2], &t[4]);
}

static mh_status cached(const api_objects *a, const mh_tensor *t)
{
    return mh_attention_cached(a->context, NULL, &t[0], a->cache, &t[1]);
}

static mh_status attention_backward(const api_objects *a, const mh_tensor *t)
{
    mh_attention_options o = mh_attention_options_default();
    mh_attention_gradients g = mh_attention_gradients_default();
    o.lse = &t[5];
    g.dq = &t[6], g.dk = &t[7], g.dv = &t[8];
    return mh_attention_backward(a->context, &o, &t[0], &t[1], &t[2], &t[3], &t[4], &g);
}

static mh_status copy(const api_objects *a, const mh_tensor *t)
{
    return mh_tensor_copy(a->context, &t[0], &t[1]);
}

static mh_status matmul(const api_objects *a, const mh_tensor *t)
{
    return mh_matmul(a->context, &t[0], &t[1], &t[2]);
}

static mh_status matmul_packed(const api_objects *a, const mh_tensor *t)
{
    return mh_matmul_packed(a->context, &t[0], a->packed, &t[1]);
}

static mh_status linear(const api_objects *a, const mh_tensor *t)
{
    mh_linear_options o = mh_linear_options_default();
    o.bias = &t[2];
    o.residual = &t[3];
    o.relu_output = &t[4];
    o.preactivation = &t[6];
    return mh_linear(a->context, &o, &t[0], &t[1], &t[5]);
}

static mh_status linear_backward(const api_objects *a, const mh_tensor *t)
{
    return mh_linear_backward(a->context, NULL, &t[0], &t[1], &t[2], &t[3], &t[4], &t[5]);
}

static mh_status softmax(const api_objects *a, const mh_tensor *t)
{
    return mh_softmax(a->context, &t[0], 1, &t[1]);
}

static mh_status log_softmax(const api_objects *a, const mh_tensor *t)
{
    return mh_log_softmax(a->context, &t[0], 1, &t[1]);
}

static mh_status layer_norm(const api_objects *a, const mh_tensor *t)
{
    return mh_layer_norm(a->context, &t[0], &t[1], &t[2], 1e-5f, &t[3], &t[4], &t[5]);
}

static mh_status layer_norm_backward(const api_objects *a, const mh_tensor *t)
{
    return mh_layer_norm_backward(a->context, &t[0], &t[1], &t[2], &t[3], &t[4], &t[5], &t[6],
                                  &t[7], false);
}

static mh_status rms_norm(const api_objects *a, const mh_tensor *t)
{
    return mh_rms_norm(a->context, &t[0], &t[1], 1e-5f, &t[2], &t[3]);
}

static mh_status rms_norm_backward(const api_objects *a, const mh_tensor *t)
{
    return mh_rms_norm_backward(a->context, &t[0], &t[1], &t[2], &t[3], &t[4], &t[5], false);
}

static mh_status activate(const api_objects *a, const mh_tensor *t)
{
    return mh_activate(a->context, MH_GELU, &t[0], &t[1]);
}

static mh_status activate_backward(const api_objects *a, const mh_tensor *t)
{
    return mh_activate_backward(a->context, MH_GELU, &t[0], &t[1], &t[2]);
}

static mh_status swiglu(const api_objects *a, const mh_tensor *t)
{
    return mh_swiglu(a->context, &t[0], &t[1], &t[2]);
}

static mh_status swiglu_backward(const api_objects *a, const mh_tensor *t)
{
    return mh_swiglu_backward(a->context, &t[0], &t[1], &t[2], &t[3], &t[4]);
}

static mh_status add(const api_objects *a, const mh_tensor *t)
{
    return mh_add(a->context, &t[0], &t[1], &t[2]);
}

static mh_status dropout(const api_objects *a, const mh_tensor *t)
{
    return mh_dropout(a->context, NULL, &t[0], &t[1]);
}

static mh_status embedding(const api_objects *a, const mh_tensor *t)
{
    return mh_embedding(a->context, &t[0], &t[1], 1, &t[2]);
}

static mh_status embedding_backward(const api_objects *a, const mh_tensor *t)
{
    return mh_embedding_backward(a->context, &t[0], 1, -1, &t[1], &t[2]);
}

static mh_status sinusoidal(const api_objects *a, const mh_tensor *t)
{
    return mh_positions_sinusoidal(a->context, 0, 1, &t[0]);
}

static mh_status rope(const api_objects *a, const mh_tensor *t)
{
    mh_rope_options o = mh_rope_options_default();
    o.cosine = &t[1];
    o.sine = &t[2];
    return mh_rope(a->context, &o, &t[0], &t[3]);
}

static mh_status cross_entropy(const api_objects *a, const mh_tensor *t)
{
    mh_cross_entropy_options o = mh_cross_entropy_options_default();
    double loss;
    o.losses = &t[3];
    return mh_cross_entropy(a->context, &o, &t[0], &t[1], &loss, NULL, &t[2]);
}

static mh_status adamw(const api_objects *a, const mh_tensor *t)
{
    return mh_adamw_step(a->context, NULL, 1, W, t[0].data, t[1].data, t[2].data, t[3].data);
}

static mh_status sgd(const api_objects *a, const mh_tensor *t)
{
    mh_sgd_options o = mh_sgd_options_default();
    o.momentum = 0.9;
    return mh_sgd_step(a->context, &o, W, t[0].data, t[1].data, t[2].data);
}

static mh_status mha(const api_objects *a, const mh_tensor *t)
{
    return mh_mha_forward(a->context, a->mha, NULL, &t[0], &t[1], &t[2], &t[3], &t[4]);
}

static mh_status mha_backward(const api_objects *a, const mh_tensor *t)
{
    float other[N * W];
    mh_tensor out = mh_tensor_3d(other, MH_F32, N, 1, W);
    mh_mha_options o = mh_mha_options_default();
    mh_tape *tape = NULL;
    test_ok(a->context, mh_tape_create(a->context, &tape));
    o.tape = tape;
    mh_status status = mh_mha_forward(a->context, a->mha, &o, &t[0], &t[1], &t[2], &out, NULL);
    if (!status)
        status = mh_mha_backward(a->context, a->mha, &o, &t[0], &t[1], &t[2], &t[3], t[7].data,
                                 &t[4], &t[5], &t[6]);
    mh_tape_free(tape);
    return status;
}

static mh_status transformer(const api_objects *a, const mh_tensor *t)
{
    return mh_transformer_forward(a->context, a->transformer, NULL, &t[0], &t[1], &t[2]);
}

static mh_status encode(const api_objects *a, const mh_tensor *t)
{
    return mh_transformer_encode(a->context, a->transformer, NULL, &t[0], &t[1]);
}

static mh_status transformer_backward(const api_objects *a, const mh_tensor *t)
{
    float other[N * W];
    mh_tensor out = mh_tensor_3d(other, MH_F32, 1, N, W);
    mh_transformer_options o = mh_transformer_options_default();
    o.tape = a->tape;
    mh_status status = mh_transformer_forward(a->context, a->transformer, &o, &t[0], &t[1], &out);
    if (!status)
        status = mh_transformer_backward(a->context, a->transformer, &o, &t[0], &t[1], &t[2], NULL,
                                         &t[3], &t[4]);
    return status;
}

static mh_status decode(const api_objects *a, const mh_tensor *t)
{
    return mh_decoding_step(a->context, a->decoding, NULL, 0, &t[0], &t[1]);
}

#define IN(name, ...)                                                                              \
    {                                                                                              \
        name, false, NULL, MH_F32, __VA_ARGS__                                                     \
    }
#define IN_PLACE(name, may_be, ...)                                                                \
    {                                                                                              \
        name, false, may_be, MH_F32, __VA_ARGS__                                                   \
    }
#define IDS(name, ...)                                                                             \
    {                                                                                              \
        name, false, NULL, MH_I32, __VA_ARGS__                                                     \
    }
#define OUT(name, ...)                                                                             \
    {                                                                                              \
        name, true, NULL, MH_F32, __VA_ARGS__                                                      \
    }
#define HEADS                                                                                      \
    4, { 1, API_HEADS, N, E }
#define ROWS                                                                                       \
    2, { N, W }
#define SQUARE                                                                                     \
    2, { W, W }
#define VECTOR                                                                                     \
    1, { W }
#define EACH_ROW                                                                                   \
    1, { N }
#define BATCH                                                                                      \
    3, { 1, N, W }
#define TIME_FIRST                                                                                 \
    3, { N, 1, W }

const api_call api_calls[] = {
    {"mh_attention_forward",
     attention,
     {IN("q", HEADS), IN("k", HEADS), IN("v", HEADS), IN("masks", 2, {N, N}), OUT("out", HEADS),
      OUT("lse", 3, {1, API_HEADS, N}), OUT("weights", 4, {1, API_HEADS, N, N})},
     false},
    {"mh_attention_cached", cached, {IN("q", HEADS), OUT("out", HEADS)}, false},
    {"mh_attention_backward",
     attention_backward,
     {IN("q", HEADS), IN("k", HEADS), IN("v", HEADS), IN("out", HEADS), IN("dout", HEADS),
      IN("lse", 3, {1, API_HEADS, N}), OUT("dq", HEADS), OUT("dk", HEADS), OUT("dv", HEADS)},
     false},
    {"mh_tensor_copy", copy, {IN_PLACE("from", "to,", ROWS), OUT("to", ROWS)}, false},
    {"mh_matmul", matmul, {IN("a", ROWS), IN("b", SQUARE), OUT("c", ROWS)}, false},
    {"mh_matmul_packed", matmul_packed, {IN("a", ROWS), OUT("c", ROWS)}, false},
    {"mh_linear",
     linear,
     {IN("x", ROWS), IN("weight", SQUARE), IN("bias", VECTOR), IN_PLACE("residual", "y,", ROWS),
      IN("relu_output", ROWS), OUT("y", ROWS), OUT("preactivation", ROWS)},
     false},
    {"mh_linear_backward",
     linear_backward,
     {IN("x", ROWS), IN("weight", SQUARE), IN("dy", ROWS), OUT("dx", ROWS), OUT("dweight", SQUARE),
      OUT("dbias", VECTOR)},
     false},
    {"mh_softmax", softmax, {IN_PLACE("x", "y,", ROWS), OUT("y", ROWS)}, false},
    {"mh_log_softmax", log_softmax, {IN_PLACE("x", "y,", ROWS), OUT("y", ROWS)}, false},
    {"mh_layer_norm",
     layer_norm,
     {IN_PLACE("x", "y,", ROWS), IN("weight", VECTOR), IN("bias", VECTOR), OUT("y", ROWS),
      OUT("mean", EACH_ROW), OUT("rstd", EACH_ROW)},
     false},
    {"mh_layer_norm_backward",
     layer_norm_backward,
     {IN("x", ROWS), IN("weight", VECTOR), IN("mean", EACH_ROW), IN("rstd", EACH_ROW),
      IN_PLACE("dy", "dx,", ROWS), OUT("dx", ROWS), OUT("dweight", VECTOR), OUT("dbias", VECTOR)},
     false},
    {"mh_rms_norm",
     rms_norm,
     {IN_PLACE("x", "y,", ROWS), IN("weight", VECTOR), OUT("y", ROWS), OUT("rstd", EACH_ROW)},
     false},
    {"mh_rms_norm_backward",
     rms_norm_backward,
     {IN("x", ROWS), IN("weight", VECTOR), IN("rstd", EACH_ROW), IN_PLACE("dy", "dx,", ROWS),
      OUT("dx", ROWS), OUT("dweight", VECTOR)},
     false},
    {"mh_activate", activate, {IN_PLACE("x", "y,", ROWS), OUT("y", ROWS)}, false},
    {"mh_activate_backward",
     activate_backward,
     {IN_PLACE("x", "dx,", ROWS), IN_PLACE("dy", "dx,", ROWS), OUT("dx", ROWS)},
     false},
    {"mh_swiglu",
     swiglu,
     {IN_PLACE("gate", "y,", ROWS), IN_PLACE("up", "y,", ROWS), OUT("y", ROWS)},
     false},
    {"mh_swiglu_backward",
     swiglu_backward,
     {IN_PLACE("gate", "dgate,dup,", ROWS), IN_PLACE("up", "dgate,dup,", ROWS), IN("dy", ROWS),
      OUT("dgate", ROWS), OUT("dup", ROWS)},
     false},
    {"mh_add", add, {IN_PLACE("a", "y,", ROWS), IN_PLACE("b", "y,", ROWS), OUT("y", ROWS)}, false},
    {"mh_dropout", dropout, {IN_PLACE("x", "y,", ROWS), OUT("y", ROWS)}, false},
    {"mh_embedding", embedding, {IN("table", SQUARE), IDS("ids", EACH_ROW), OUT("y", ROWS)}, false},
    {"mh_embedding_backward",
     embedding_backward,
     {IDS("ids", EACH_ROW), IN("dy", ROWS), OUT("dtable", SQUARE)},
     false},
    {"mh_positions_sinusoidal", sinusoidal, {OUT("y", ROWS)}, false},
    {"mh_rope",
     rope,
     {IN_PLACE("x", "y,", ROWS), IN("cosine", 2, {N, W / 2}), IN("sine", 2, {N, W / 2}),
      OUT("y", ROWS)},
     false},
    {"mh_cross_entropy",
     cross_entropy,
     {IN_PLACE("logits", "dlogits,", ROWS), IDS("targets", EACH_ROW), OUT("dlogits", ROWS),
      OUT("losses", EACH_ROW)},
     false},
    {"mh_adamw_step",
     adamw,
     {IN("gradient", VECTOR), OUT("parameter", VECTOR), OUT("m", VECTOR), OUT("v", VECTOR)},
     true},
    {"mh_sgd_step",
     sgd,
     {IN("gradient", VECTOR), OUT("parameter", VECTOR), OUT("velocity", VECTOR)},
     true},
    {"mh_mha_forward",
     mha,
     {IN("query", TIME_FIRST), IN("key", TIME_FIRST), IN("value", TIME_FIRST),
      OUT("output", TIME_FIRST), OUT("weights", 3, {1, N, N})},
     false},
    {"mh_mha_backward",
     mha_backward,
     {IN("query", TIME_FIRST), IN("key", TIME_FIRST), IN("value", TIME_FIRST),
      IN("doutput", TIME_FIRST), OUT("dquery", TIME_FIRST), OUT("dkey", TIME_FIRST),
      OUT("dvalue", TIME_FIRST), OUT("gradients", VECTOR)},
     true},
    {"mh_transformer_forward",
     transformer,
     {IN("src", BATCH), IN("tgt", BATCH), OUT("output", BATCH)},
     false},
    {"mh_transformer_encode", encode, {IN("src", BATCH), OUT("memory", BATCH)}, false},
    {"mh_transformer_backward",
     transformer_backward,
     {IN("src", BATCH), IN("tgt", BATCH), IN("doutput", BATCH), OUT("dsrc", BATCH),
      OUT("dtgt", BATCH)},
     false},
    {"mh_decoding_step", decode, {IN_PLACE("tgt", "output,", BATCH), OUT("output", BATCH)}, false},
};
const size_t api_call_count = sizeof api_calls / sizeof *api_calls;

size_t api_operand_count(const api_call *call)
{
    size_t count = 0;
    while (count < API_OPERANDS_MOST && call->operands[count].name)
        count++;
    return count;
}

void api_call_tensors(const api_call *call, mh_tensor t[API_OPERANDS_MOST])
{
    static float memory[API_OPERANDS_MOST][API_ROOM];
    for (size_t i = 0; i < api_operand_count(call); i++) {
        const api_operand *o = &call->operands[i];
        for (size_t k = 0; k < API_ROOM; k++)
            memory[i][k] = o->dtype == MH_I32 ? 0 : (float)(k % 7) / 8;
        t[i] = mh_tensor_view(memory[i] + 64, o->dtype, o->rank, o->shape);
    }
}
