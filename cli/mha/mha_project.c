// SPDX-License-Identifier: MIT
// The first steps of `multihead mha --trace`: from the inputs to heads of q, k and v. Only the
// projections compute something; reshaping and splitting are views.
#include "mha_trace.h"

#include <math.h>
#include <multihead/layers.h>

static mh_tensor as_rows(const mha *m, const mh_tensor *input, size_t length)
{
    return mh_tensor_2d(input->data, MH_F32, m->B * length, input->shape[input->rank - 1]);
}

// The tensor with its dimensions in another order.
static mh_tensor permute(const mh_tensor *t, const int *order)
{
    mh_tensor result = *t;
    for (int d = 0; d < t->rank; d++) {
        result.shape[d] = t->shape[order[d]];
        result.stride[d] = t->stride[order[d]];
    }
    return result;
}

// Self-attention: one matrix computes q, k and v.
static int split_together(trace *t, const mh_tensor *rows)
{
    mha *m = t->m;
    const size_t H = m->config.num_heads, E = m->config.embed_dim / H;
    const size_t G = m->config.kv_heads;
    mh_tensor y = trace_by_batch(m, rows->data, m->T, rows->shape[1]);
    mh_tensor *const heads[3] = {&t->q, &t->k, &t->v};
    static const char *const names[3] = {"q", "k", "v"};
    if (m->config.qkv == MH_QKV_INTERLEAVED) {
        y = mh_tensor_split(y, 2, H);
        show_step(m, "reshape", "qkv", &y, -1, "(B,T,3D) as (B,T,H,3E): every head has 3E columns");
        y = mh_tensor_swap(y, 1, 2);
        show_step(m, "split heads", "qkv", &y, -1, "(B,H,T,3E): one matrix per head");
        for (size_t i = 0; i < 3; i++)
            *heads[i] = mh_tensor_slice(y, 3, i * E, E);
    } else if (G < H) {
        y = mh_tensor_split(y, 2, H + 2 * G);
        show_step(m, "reshape", "qkv", &y, -1, "as (B,T,H+2G,E): H heads of q, G of k, G of v");
        y = mh_tensor_swap(y, 1, 2);
        show_step(m, "split heads", "qkv", &y, -1, "(B,H+2G,T,E): one matrix per head");
        t->q = mh_tensor_slice(y, 1, 0, H);
        t->k = mh_tensor_slice(y, 1, H, G);
        t->v = mh_tensor_slice(y, 1, H + G, G);
    } else {
        y = mh_tensor_split(mh_tensor_split(y, 2, 3), 3, H);
        show_step(m, "reshape", "qkv", &y, -1, "(B,T,3D) as (B,T,3,H,E): q, k, v; heads in each");
        y = permute(&y, (const int[]){2, 0, 3, 1, 4});
        show_step(m, "split heads", "qkv", &y, -1, "(3,B,H,T,E): one matrix per head");
        for (size_t i = 0; i < 3; i++)
            *heads[i] =
                mh_tensor_4d((float *)y.data + (ptrdiff_t)i * y.stride[0], MH_F32, 0, 0, 0, 0);
        for (int i = 0; i < 3; i++)
            for (int d = 0; d < 4; d++) {
                heads[i]->shape[d] = y.shape[d + 1];
                heads[i]->stride[d] = y.stride[d + 1];
            }
    }
    static const char *const roles[3] = {"what each token looks for: E values per head",
                                         "what each token is matched by",
                                         "what each token contributes"};
    for (int i = 0; i < 3; i++)
        show_step(m, "split heads", names[i], heads[i], -1, roles[i]);
    return EXIT_DONE;
}

static int project_together(trace *t)
{
    mha *m = t->m;
    const mh_tensor x = as_rows(m, &m->query, m->T);
    const mh_tensor weight = trace_parameter(m, "in_proj_weight"),
                    bias = trace_parameter(m, "in_proj_bias");
    mh_tensor y, shown = trace_by_batch(m, x.data, m->T, x.shape[1]);
    double seconds = 0;
    show_step(m, "input", "x", &shown, NAN, "B sequences of T tokens, N values each");
    int code = trace_project(t, "qkv", &x, &weight, &bias, &y, &seconds);
    if (code != EXIT_DONE)
        return code;
    shown = trace_by_batch(m, y.data, m->T, y.shape[1]);
    show_step(m, "project", "qkv", &shown, seconds,
              m->config.kv_heads < m->config.num_heads
                  ? "x W^T + b: W (D+2GE,N) computes q, k and v at once"
                  : "x W^T + b: W (3D,N) computes q, k and v at once");
    return split_together(t, &y);
}

// The rows of in_proj_weight that compute q (0), k (1) or v (2), or their separate matrix. All rows
// if they are interleaved: the other results are not used then.
static void projection_of(const mha *m, int which, mh_tensor *weight, mh_tensor *bias)
{
    static const char *const names[3] = {"q_proj_weight", "k_proj_weight", "v_proj_weight"};
    const size_t D = m->config.embed_dim, kv = D / m->config.num_heads * m->config.kv_heads;
    const size_t first[3] = {0, D, D + kv}, rows = which ? kv : D;
    *weight = trace_parameter(m, "in_proj_weight");
    *bias = trace_parameter(m, "in_proj_bias");
    if (m->config.qkv == MH_QKV_INTERLEAVED)
        return;
    if (weight->data)
        *weight = mh_tensor_slice(*weight, 0, first[which], rows);
    else
        *weight = trace_parameter(m, names[which]);
    if (bias->data)
        *bias = mh_tensor_slice(*bias, 0, first[which], rows);
}

// Query, key and value are not the same: three projections.
static int project_apart(trace *t)
{
    mha *m = t->m;
    static const char *const inputs[3] = {"query", "key", "value"};
    static const char *const names[3] = {"q", "k", "v"};
    static const char *const offers[3] = {"B sequences of T tokens that attend",
                                          "B sequences of S tokens that are attended to",
                                          "what these S tokens contribute"};
    static const char *const formulas[3] = {"query Wq^T + bq", "key Wk^T + bk", "value Wv^T + bv"};
    const bool whole = m->config.qkv == MH_QKV_INTERLEAVED; // E of 3E columns are used
    const bool grouped = m->config.kv_heads < m->config.num_heads;
    const char *const reshapes[3] = {whole ? "(B,T,3D) as (B,T,H,3E): every head has 3E columns"
                                           : "(B,T,D) as (B,T,H,E): every head has E columns",
                                     grouped ? "the same with G heads" : "the same", "the same"};
    const char *const splits[3] = {whole ? "(B,H,T,E): of each head the E columns of q"
                                         : "(B,H,T,E): one matrix per head",
                                   "the same", "the same"};
    const mh_tensor *x[3] = {&m->query, &m->key, &m->value};
    const size_t lengths[3] = {m->T, m->S, m->S};
    mh_tensor *const heads[3] = {&t->q, &t->k, &t->v};
    mh_tensor y[3], shown;
    for (int i = 0; i < 3; i++) {
        shown = trace_by_batch(m, x[i]->data, lengths[i], x[i]->shape[x[i]->rank - 1]);
        show_step(m, "input", inputs[i], &shown, NAN, offers[i]);
    }
    for (int i = 0; i < 3; i++) {
        const mh_tensor rows = as_rows(m, x[i], lengths[i]);
        mh_tensor weight, bias, result;
        double seconds = 0;
        projection_of(m, i, &weight, &bias);
        int code = trace_project(t, names[i], &rows, &weight, &bias, &result, &seconds);
        if (code != EXIT_DONE)
            return code;
        y[i] = trace_by_batch(m, result.data, lengths[i], result.shape[1]);
        show_step(m, "project", names[i], &y[i], seconds, formulas[i]);
    }
    for (int i = 0; i < 3; i++) {
        shown = mh_tensor_split(y[i], 2, i ? m->config.kv_heads : m->config.num_heads);
        show_step(m, "reshape", names[i], &shown, -1, reshapes[i]);
    }
    for (int i = 0; i < 3; i++) {
        *heads[i] = trace_split(m, y[i], i);
        show_step(m, "split heads", names[i], heads[i], -1, splits[i]);
    }
    return EXIT_DONE;
}

// One additional learned key and value (nn.MultiheadAttention's add_bias_kv).
static int append(trace *t, const char *name, const char *bias_name, mh_tensor *heads)
{
    mha *m = t->m;
    const size_t G = m->config.kv_heads, E = m->config.embed_dim / m->config.num_heads;
    const size_t one[4] = {m->B, G, 1, E}, all[4] = {m->B, G, m->S + 1, E};
    mh_tensor bias = trace_parameter(m, bias_name), longer, wide;
    int code = trace_take(t, name, 4, all, &longer);
    if (code != EXIT_DONE)
        return code;
    const double start = steps_now();
    bias = mh_tensor_4d(bias.data, MH_F32, 1, G, 1, E);
    mh_tensor first = mh_tensor_slice(longer, 2, 0, m->S);
    mh_tensor last = mh_tensor_slice(longer, 2, m->S, 1);
    mh_status status = mh_tensor_copy(m->context, heads, &first);
    if (status == MH_OK)
        status = mh_tensor_broadcast(m->context, &bias, 4, one, &wide);
    if (status == MH_OK)
        status = mh_tensor_copy(m->context, &wide, &last);
    if (status != MH_OK)
        return trace_check(t, status, name);
    *heads = longer;
    show_step(m, "append", name, heads, steps_now() - start,
              "and a learned one that all queries see");
    return EXIT_DONE;
}

// RoPE, in place.
static int mha_rotate(trace *t)
{
    mha *m = t->m;
    mh_rope_options o = mh_rope_options_default();
    o.interleaved = m->config.rope_interleaved;
    o.base = m->config.rope_base;
    mh_tensor *const heads[2] = {&t->q, &t->k};
    for (int i = 0; i < 2; i++) {
        const double start = steps_now();
        mh_status status = mh_rope(m->context, &o, heads[i], heads[i]);
        if (status != MH_OK)
            return trace_check(t, status, "rotate");
        show_step(m, "rotate", i ? "k" : "q", heads[i], steps_now() - start,
                  i ? "the same" : "RoPE: each pair is rotated by the token's position");
    }
    return EXIT_DONE;
}

int trace_make_heads(trace *t)
{
    mha *m = t->m;
    const bool same = m->query.data == m->key.data && m->key.data == m->value.data;
    int code = same ? project_together(t) : project_apart(t);
    if (code == EXIT_DONE && m->config.rope)
        code = mha_rotate(t);
    if (code == EXIT_DONE && m->extra)
        code = append(t, "k", "bias_k", &t->k);
    if (code == EXIT_DONE && m->extra)
        code = append(t, "v", "bias_v", &t->v);
    return code;
}
