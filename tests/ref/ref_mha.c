// SPDX-License-Identifier: MIT
// Multi-head attention as the paper has it:
//
//     MultiHead(Q, K, V) = concat(head_1, ..., head_H) W_o^T + b_o
//     head_h = Attention(Q W_q,h^T + b_q,h, K W_k,h^T + b_k,h, V W_v,h^T + b_v,h)
//
// All masks become one additive mask of -inf and numbers, which ref_attention understands.
#include "ref/ref_mha.h"

#include "ref/ref_attention.h"
#include "ref/ref_attention_grad.h"
#include "ref/ref_layers.h"
#include "ref/ref_tensor.h"

#include <stdio.h>
#include <stdlib.h>

double *ref_parameter(const ref_parameters *p, const double *numbers, const char *name)
{
    char whole[128];
    snprintf(whole, sizeof whole, "%s%s", p->prefix, name);
    const mh_parameter *found = mh_parameters_find(p->list, whole);
    return found ? (double *)numbers + found->offset : NULL;
}

// ---- linear -------------------------------------------------------------------------------------

static double dot(size_t n, const double *a, const double *b)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += a[i] * b[i];
    return sum;
}

void ref_linear(const ref_parameters *p, const char *weight, const char *bias, size_t rows,
                size_t K, size_t N, const double *x, double *y)
{
    const double *w = ref_parameter(p, p->values, weight), *b = ref_parameter(p, p->values, bias);
    for (size_t r = 0; r < rows; r++)
        for (size_t n = 0; n < N; n++)
            y[r * N + n] = dot(K, x + r * K, w + n * K) + (b ? b[n] : 0);
}

void ref_linear_backward(const ref_parameters *p, const char *weight, const char *bias, size_t rows,
                         size_t K, size_t N, const double *x, const double *dy, double *dx)
{
    const double *w = ref_parameter(p, p->values, weight);
    double *dw = ref_parameter(p, p->gradients, weight), *db = ref_parameter(p, p->gradients, bias);
    for (size_t r = 0; r < rows; r++)
        for (size_t n = 0; n < N; n++) {
            const double d = dy[r * N + n];
            for (size_t k = 0; k < K; k++) {
                dw[n * K + k] += d * x[r * K + k];
                if (dx)
                    dx[r * K + k] += d * w[n * K + k];
            }
            if (db)
                db[n] += d;
        }
}

// ---- sizes and places ---------------------------------------------------------------------------

typedef struct sizes {
    size_t H, G, E, extra, keys; // keys: S and the further ones
    size_t width[3], heads[3], rows[3];
    bool fused;
} sizes;

static sizes sizes_of(const ref_mha *call)
{
    const mh_mha_config *c = &call->config;
    sizes s = {.H = c->num_heads, .G = c->kv_heads ? c->kv_heads : c->num_heads};
    s.E = c->embed_dim / c->num_heads;
    s.extra = (size_t)c->add_bias_kv + (size_t)c->add_zero_attn;
    s.keys = call->S + s.extra;
    s.width[0] = c->input_dim ? c->input_dim : c->embed_dim;
    s.width[1] = c->kdim ? c->kdim : s.width[0];
    s.width[2] = c->vdim ? c->vdim : s.width[0];
    s.fused = s.width[1] == s.width[0] && s.width[2] == s.width[0];
    s.heads[0] = s.H, s.heads[1] = s.heads[2] = s.G;
    s.rows[0] = call->T, s.rows[1] = s.rows[2] = call->S;
    return s;
}

// The row of the one big matrix that makes number e of head h of q, k or v.
static size_t stacked_row(const ref_mha *call, const sizes *s, int which, size_t h, size_t e)
{
    if (call->config.qkv == MH_QKV_INTERLEAVED)
        return (3 * h + (size_t)which) * s->E + e;
    const size_t first[3] = {0, s->H * s->E, (s->H + s->G) * s->E};
    return first[which] + h * s->E + e;
}

static const char *weight_name(const sizes *s, int which)
{
    static const char *const own[3] = {"q_proj_weight", "k_proj_weight", "v_proj_weight"};
    return s->fused ? "in_proj_weight" : own[which];
}

static size_t weight_row(const ref_mha *call, const sizes *s, int which, size_t h, size_t e)
{
    return s->fused ? stacked_row(call, s, which, h, e) : h * s->E + e;
}

static const double *input_of(const ref_mha *call, int which)
{
    return which == 0 ? call->query : which == 1 ? call->key : call->value;
}

static void turn(const ref_mha *call, const sizes *s, int which, double sign, size_t t, double *x)
{
    double *transposed = ref_alloc(s->E, sizeof *transposed);
    const mh_mha_config *c = &call->config;
    if (c->rope && which < 2) {
        ref_rope(c->rope_interleaved, s->E, s->E, sign * (double)(call->first + (int64_t)t),
                 c->rope_base, x, transposed);
        for (size_t e = 0; e < s->E; e++)
            x[e] = transposed[e];
    }
    free(transposed);
}

// ---- q, k, v ------------------------------------------------------------------------------------

// Heads (B, heads, rows + extra, E).
static double *project(const ref_parameters *p, const ref_mha *call, const sizes *s, int which)
{
    const size_t K = s->width[which], extra = which ? s->extra : 0, rows = s->rows[which] + extra;
    const double *w = ref_parameter(p, p->values, weight_name(s, which));
    const double *b = ref_parameter(p, p->values, "in_proj_bias");
    const double *learned = ref_parameter(p, p->values, which == 1 ? "bias_k" : "bias_v");
    double *y = ref_alloc(call->B * s->heads[which] * rows * s->E, sizeof *y);
    for (size_t n = 0; n < call->B; n++)
        for (size_t h = 0; h < s->heads[which]; h++) {
            double *head = y + (n * s->heads[which] + h) * rows * s->E;
            for (size_t t = 0; t < s->rows[which]; t++) {
                const double *x = input_of(call, which) + (n * s->rows[which] + t) * K;
                for (size_t e = 0; e < s->E; e++)
                    head[t * s->E + e] = dot(K, x, w + weight_row(call, s, which, h, e) * K) +
                                         (b ? b[stacked_row(call, s, which, h, e)] : 0);
                turn(call, s, which, 1, t, head + t * s->E);
            }
            for (size_t e = 0; e < s->E && which && learned; e++)
                head[s->rows[which] * s->E + e] = learned[h * s->E + e];
        }
    return y;
}

static void project_backward(const ref_parameters *p, const ref_mha *call, const sizes *s,
                             int which, double *dy, double *dinput)
{
    const size_t K = s->width[which], extra = which ? s->extra : 0, rows = s->rows[which] + extra;
    const double *w = ref_parameter(p, p->values, weight_name(s, which));
    double *dw = ref_parameter(p, p->gradients, weight_name(s, which));
    double *db = ref_parameter(p, p->gradients, "in_proj_bias");
    double *learned = ref_parameter(p, p->gradients, which == 1 ? "bias_k" : "bias_v");
    for (size_t n = 0; n < call->B; n++)
        for (size_t h = 0; h < s->heads[which]; h++) {
            double *head = dy + (n * s->heads[which] + h) * rows * s->E;
            for (size_t t = 0; t < s->rows[which]; t++) {
                const size_t at = (n * s->rows[which] + t) * K;
                turn(call, s, which, -1, t, head + t * s->E);
                for (size_t e = 0; e < s->E; e++) {
                    const double d = head[t * s->E + e];
                    const size_t row = weight_row(call, s, which, h, e) * K;
                    for (size_t k = 0; k < K; k++) {
                        dw[row + k] += d * input_of(call, which)[at + k];
                        dinput[at + k] += d * w[row + k];
                    }
                    if (db)
                        db[stacked_row(call, s, which, h, e)] += d;
                }
            }
            for (size_t e = 0; e < s->E && which && learned; e++)
                learned[h * s->E + e] += head[s->rows[which] * s->E + e];
        }
}

// ---- masks --------------------------------------------------------------------------------------

// What is added for this pair: true is -inf, a number itself.
static double masked(const mh_tensor *mask, const size_t *index)
{
    const double value = ref_get(mask, index);
    if (mask->dtype == MH_BOOL || mask->dtype == MH_U8)
        return value != 0 ? -INFINITY : 0;
    return value;
}

// (B, H, T, keys); nothing is masked of the further keys.
static double *join_masks(const ref_mha *call, const sizes *s)
{
    double *all = ref_alloc(call->B * s->H * call->T * s->keys, sizeof *all);
    const mh_tensor *padding = call->key_padding_mask, *mask = call->attn_mask;
    for (size_t n = 0; n < call->B; n++)
        for (size_t h = 0; h < s->H; h++)
            for (size_t i = 0; i < call->T; i++)
                for (size_t j = 0; j < call->S; j++) {
                    double *sum = all + ((n * s->H + h) * call->T + i) * s->keys + j;
                    if (call->causal && j > i)
                        *sum = -INFINITY;
                    if (padding)
                        *sum += masked(padding,
                                       padding->rank == 2 ? (size_t[]){n, j} : (size_t[]){j, 0});
                    if (mask)
                        *sum += masked(mask, mask->rank == 2 ? (size_t[]){i, j, 0}
                                                             : (size_t[]){n * s->H + h, i, j});
                }
    return all;
}

// ---- attention ----------------------------------------------------------------------------------

typedef struct problem {
    sizes s;
    double *heads[3], *mask;
    float *sinks;
    mh_tensor q, k, v;
    mh_mask one;
    mh_attention_options options;
} problem;

static void problem_create(const ref_parameters *p, const ref_mha *call, problem *a)
{
    const sizes s = a->s = sizes_of(call);
    for (int which = 0; which < 3; which++)
        a->heads[which] = project(p, call, &s, which);
    a->q = mh_tensor_4d(a->heads[0], MH_F64, call->B, s.H, call->T, s.E);
    a->k = mh_tensor_4d(a->heads[1], MH_F64, call->B, s.G, s.keys, s.E);
    a->v = mh_tensor_4d(a->heads[2], MH_F64, call->B, s.G, s.keys, s.E);
    a->mask = join_masks(call, &s);
    a->one =
        mh_mask_make(MH_MASK_ADD, mh_tensor_4d(a->mask, MH_F64, call->B, s.H, call->T, s.keys));
    a->options = mh_attention_options_default();
    a->options.masks = &a->one;
    a->options.mask_count = 1;
    a->options.alibi = call->config.alibi;
    a->options.dropout = call->training ? call->config.dropout : 0;
    a->options.dropout_seed = call->seed;
    a->sinks = ref_alloc(s.H, sizeof *a->sinks);
    const double *sinks = ref_parameter(p, p->values, "sinks");
    for (size_t h = 0; h < s.H && sinks; h++)
        a->sinks[h] = (float)sinks[h];
    a->options.sinks = sinks ? a->sinks : NULL;
}

static void problem_free(problem *a)
{
    for (int which = 0; which < 3; which++)
        free(a->heads[which]);
    free(a->mask);
    free(a->sinks);
}

// Between (B, H, T, E) of the heads and (B, T, H E) beside each other.
static size_t beside(const ref_mha *call, const sizes *s, size_t n, size_t h, size_t t, size_t e)
{
    return ((n * call->T + t) * s->H + h) * s->E + e;
}

static double *concatenate(const ref_mha *call, const sizes *s, const double *heads)
{
    double *joined = ref_alloc(call->B * call->T * s->H * s->E, sizeof *joined);
    for (size_t n = 0; n < call->B; n++)
        for (size_t h = 0; h < s->H; h++)
            for (size_t t = 0; t < call->T; t++)
                for (size_t e = 0; e < s->E; e++)
                    if (!call->disabled || !call->disabled[h])
                        joined[beside(call, s, n, h, t, e)] =
                            heads[((n * s->H + h) * call->T + t) * s->E + e];
    return joined;
}

static double *separate(const ref_mha *call, const sizes *s, const double *joined)
{
    double *heads = ref_alloc(call->B * call->T * s->H * s->E, sizeof *heads);
    for (size_t n = 0; n < call->B; n++)
        for (size_t h = 0; h < s->H; h++)
            for (size_t t = 0; t < call->T; t++)
                for (size_t e = 0; e < s->E; e++)
                    if (!call->disabled || !call->disabled[h])
                        heads[((n * s->H + h) * call->T + t) * s->E + e] =
                            joined[beside(call, s, n, h, t, e)];
    return heads;
}

void ref_mha_forward(const ref_parameters *p, const ref_mha *call, double *out, double *weights)
{
    problem a;
    ref_attention r;
    problem_create(p, call, &a);
    ref_attention_forward(&a.options, &a.q, &a.k, &a.v, weights != NULL, &r);
    double *joined = concatenate(call, &a.s, r.out);
    ref_linear(p, "out_proj.weight", "out_proj.bias", call->B * call->T, a.s.H * a.s.E,
               call->config.embed_dim, joined, out);
    for (size_t i = 0; weights && i < call->B * a.s.H * call->T * a.s.keys; i++)
        weights[i] = r.weights[MH_WEIGHTS_SOFTMAX][i] * r.factor[i];
    ref_attention_free(&r);
    free(joined);
    problem_free(&a);
}

void ref_mha_backward(const ref_parameters *p, const ref_mha *call, const double *dout,
                      double *dquery, double *dkey, double *dvalue)
{
    problem a;
    ref_attention r;
    ref_attention_grad g;
    problem_create(p, call, &a);
    ref_attention_forward(&a.options, &a.q, &a.k, &a.v, false, &r);
    double *joined = concatenate(call, &a.s, r.out);
    double *djoined = ref_alloc(call->B * call->T * a.s.H * a.s.E, sizeof *djoined);
    ref_linear_backward(p, "out_proj.weight", "out_proj.bias", call->B * call->T, a.s.H * a.s.E,
                        call->config.embed_dim, joined, dout, djoined);
    double *dheads = separate(call, &a.s, djoined);
    const mh_tensor d = mh_tensor_4d(dheads, MH_F64, call->B, a.s.H, call->T, a.s.E);
    ref_attention_backward(&a.options, &a.q, &a.k, &a.v, MH_F32, &d, &g);
    project_backward(p, call, &a.s, 0, g.dq.value, dquery);
    project_backward(p, call, &a.s, 1, g.dk.value, dkey);
    project_backward(p, call, &a.s, 2, g.dv.value, dvalue);
    double *dsinks = ref_parameter(p, p->gradients, "sinks");
    for (size_t h = 0; h < a.s.H && dsinks; h++)
        dsinks[h] += g.dsinks.value[h];
    ref_attention_grad_free(&g);
    ref_attention_free(&r);
    free(joined);
    free(djoined);
    free(dheads);
    problem_free(&a);
}
