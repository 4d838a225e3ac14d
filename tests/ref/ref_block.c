// SPDX-License-Identifier: MIT
// The formulas of block.h, one after the other; see ref_block.h. Positions are in
// ref_block_positions.c.
#include "ref/ref_block.h"

#include "ref/ref_layers.h"
#include "ref/ref_tensor.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// One block of a stack at work.
typedef struct block {
    ref_stack *stack;
    const mh_block_config *c;
    size_t layer;
} block;

size_t ref_head_dim(const mh_block_config *c)
{
    return c->head_dim ? c->head_dim : c->d_model / c->num_heads;
}

size_t ref_value_dim(const mh_block_config *c)
{
    return c->value_dim ? c->value_dim : ref_head_dim(c);
}

size_t ref_kv_heads(const mh_block_config *c) { return c->kv_heads ? c->kv_heads : c->num_heads; }

// ---- arithmetic and parameters ------------------------------------------------------------------

static double rounded(const ref_stack *s, double x) { return s->single ? (double)(float)x : x; }

static double dot(const ref_stack *s, size_t n, const double *a, const double *b)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum = rounded(s, sum + rounded(s, a[i] * b[i]));
    return sum;
}

static const double *find(const ref_stack *s, const char *name)
{
    char full[128];
    snprintf(full, sizeof full, "%s%s", s->prefix, name);
    const mh_parameter *p = mh_parameters_find(s->list, full);
    return p ? s->values + p->offset : NULL;
}

// "layers.N." + part + name; NULL if there is none.
static const double *parameter(const block *b, const char *part, const char *name)
{
    char full[96];
    snprintf(full, sizeof full, "layers.%zu.%s%s", b->layer, part, name);
    return find(b->stack, full);
}

// A bias that the config asks for exists.
static const double *bias_of(const block *b, bool wanted, const char *part, const char *name)
{
    const double *bias = wanted ? parameter(b, part, name) : NULL;
    if (wanted && !bias) {
        fprintf(stderr, "layers.%zu.%s%s: expected this parameter\n", b->layer, part, name);
        exit(EXIT_FAILURE);
    }
    return bias;
}

// y (rows, N) = x (rows, K) W^T + bias, W (N, K); bias NULL: none.
static void linear(const block *b, const double *W, const double *bias, size_t rows, size_t K,
                   size_t N, const double *x, double *y)
{
    for (size_t r = 0; r < rows; r++)
        for (size_t n = 0; n < N; n++) {
            const double sum = dot(b->stack, K, x + r * K, W + n * K);
            y[r * N + n] = bias ? rounded(b->stack, sum + bias[n]) : sum;
        }
}

// ---- norms --------------------------------------------------------------------------------------

// y = (x - mean) / sqrt(variance + epsilon) weight + bias, RMS norm without mean and bias.
static void norm_row(const ref_stack *s, mh_norm_kind kind, double epsilon, size_t n,
                     const double *x, const double *weight, const double *bias, double *y)
{
    double mean = 0, square = 0;
    for (size_t i = 0; i < n && kind == MH_NORM_LAYER; i++)
        mean = rounded(s, mean + x[i]);
    mean = rounded(s, mean / (double)n);
    for (size_t i = 0; i < n; i++) {
        y[i] = rounded(s, x[i] - mean);
        square = rounded(s, square + rounded(s, y[i] * y[i]));
    }
    const double rstd = rounded(s, 1 / sqrt(rounded(s, square / (double)n) + epsilon));
    for (size_t i = 0; i < n; i++) {
        y[i] = rounded(s, rounded(s, y[i] * rstd) * weight[i]);
        y[i] = bias ? rounded(s, y[i] + bias[i]) : y[i];
    }
}

// The norm with these names; its bias exists for layer norms with norm_bias only.
static void norm(const ref_stack *s, const mh_block_config *c, const char *name, size_t T,
                 const double *x, double *y)
{
    char weight[96], bias[96];
    snprintf(weight, sizeof weight, "%s.weight", name);
    snprintf(bias, sizeof bias, "%s.bias", name);
    const bool biased = c->norm == MH_NORM_LAYER && c->norm_bias;
    for (size_t t = 0; t < T; t++)
        norm_row(s, c->norm, (double)c->norm_eps, c->d_model, x + t * c->d_model, find(s, weight),
                 biased ? find(s, bias) : NULL, y + t * c->d_model);
}

// norm1 for the first sublayer, norm1_post after its branch.
static void sublayer_norm(const block *b, size_t sublayer, bool post, size_t T, const double *x,
                          double *y)
{
    char name[64];
    snprintf(name, sizeof name, "layers.%zu.norm%zu%s", b->layer, sublayer + 1,
             post ? "_post" : "");
    norm(b->stack, b->c, name, T, x, y);
}

// ---- attention ----------------------------------------------------------------------------------

typedef struct attention {
    const block *b;
    bool cross;
    const char *part; // "self_attn." or "multihead_attn."
    size_t T, S, H, G, E, Ev;
    double *q, *k, *v, *weights; // (H, T, E), (G, S, E), (G, S, Ev), (H, T, S)
    double *heads;               // (T, H Ev)
} attention;

// heads (count, rows, width) of x: rows `first` and following of in_proj; without the bias that
// `missing` says.
static double *project(const attention *a, size_t first, size_t count, size_t width,
                       unsigned missing, size_t rows, const double *x)
{
    const mh_block_config *c = a->b->c;
    const double *W = parameter(a->b, a->part, "in_proj_weight") + first * c->d_model;
    const double *bias = bias_of(a->b, c->attention_bias, a->part, "in_proj_bias");
    const size_t N = count * width;
    double *y = ref_alloc(rows * N, sizeof *y), *heads = ref_alloc(rows * N, sizeof *heads);
    bias = bias && !(c->missing_bias & missing) ? bias + first : NULL;
    linear(a->b, W, bias, rows, c->d_model, N, x, y);
    for (size_t r = 0; r < rows; r++)
        for (size_t h = 0; h < count; h++)
            memcpy(heads + (h * rows + r) * width, y + r * N + h * width, width * sizeof *heads);
    free(y);
    return heads;
}

// The RMS norm of each head's rows, with one weight for all heads.
static void norm_heads(const attention *a, const char *name, size_t rows, double *x)
{
    const double *weight = parameter(a->b, a->part, name);
    double y[1024];
    for (size_t r = 0; r < rows && a->b->c->qk_norm; r++) {
        norm_row(a->b->stack, MH_NORM_RMS, (double)a->b->c->norm_eps, a->E, x + r * a->E, weight,
                 NULL, y);
        memcpy(x + r * a->E, y, a->E * sizeof *y);
    }
}

// Pairs of a head are rotated by position times their frequency; what is beyond rope_width is not.
static void rotate(const attention *a, size_t heads, size_t T, double *x)
{
    const mh_block_config *c = a->b->c;
    const size_t width = c->rope_width ? c->rope_width : a->E;
    double frequencies[512];
    if (!c->rope || a->cross)
        return;
    const double amplitude = ref_rope_frequencies(c, frequencies);
    for (size_t r = 0; r < heads * T; r++)
        for (size_t i = 0; i < width / 2; i++) {
            const double angle = (double)(r % T) * frequencies[i];
            const double cosine = rounded(a->b->stack, amplitude * cos(angle));
            const double sine = rounded(a->b->stack, amplitude * sin(angle));
            double *first = x + r * a->E + (c->rope_interleaved ? 2 * i : i);
            double *second = first + (c->rope_interleaved ? 1 : width / 2);
            const double one = *first, two = *second;
            *first = rounded(a->b->stack, one * cosine - two * sine);
            *second = rounded(a->b->stack, two * cosine + one * sine);
        }
}

// The published slopes: 2^(-8/H), 2^(-16/H), ... for a power of two, then those in between.
static double alibi_slope(size_t h, size_t H)
{
    size_t power = 1;
    while (power * 2 <= H)
        power *= 2;
    return h < power ? exp2(-8.0 * (double)(h + 1) / (double)power)
                     : exp2(-8.0 * (double)(2 * (h - power) + 1) / (double)(2 * power));
}

// Cross-attention has no positions: no causal rule, window, ALiBi or relative bias.
static bool is_live(const attention *a, size_t i, size_t j)
{
    const int64_t before = (int64_t)i - (int64_t)j;
    return a->cross || ((!a->b->stack->causal || before >= 0) &&
                        (a->b->c->window < 0 || before <= a->b->c->window));
}

static double score(const attention *a, size_t h, size_t i, size_t j)
{
    const ref_stack *s = a->b->stack;
    const mh_block_config *c = a->b->c, *first = s->config->blocks[0];
    const size_t g = h / (a->H / a->G); // query heads in groups, in order
    const double scale = isnan(c->scale) ? 1 / sqrt((double)a->E) : (double)c->scale;
    double x = dot(s, a->E, a->q + (h * a->T + i) * a->E, a->k + (g * a->S + j) * a->E);
    x = rounded(s, x * rounded(s, scale));
    if (c->softcap > 0)
        x = rounded(s, (double)c->softcap * rounded(s, tanh(rounded(s, x / (double)c->softcap))));
    if (a->cross)
        return x;
    if (first->relative_buckets)
        x = rounded(s, x + find(s, "relative_bias.weight")
                               [ref_relative_bucket(first, (int64_t)j - (int64_t)i) * a->H + h]);
    if (c->alibi)
        x = rounded(s, x - alibi_slope(h, a->H) * fabs((double)i - (double)j));
    return x;
}

// weights = softmax of the live scores; a sink is one more score whose weight is thrown away.
static void weigh(attention *a, size_t h, size_t i)
{
    ref_stack *s = a->b->stack;
    const bool has_sink = a->b->c->sinks && !a->cross;
    const double sink = has_sink ? parameter(a->b, a->part, "sinks")[h] : -INFINITY;
    double *w = a->weights + (h * a->T + i) * a->S, most = sink, sum = 0;
    for (size_t j = 0; j < a->S; j++) {
        w[j] = is_live(a, i, j) ? score(a, h, i, j) : -INFINITY;
        most = fmax(most, w[j]);
        s->score = isinf(w[j]) ? s->score : fmax(s->score, fabs(w[j]));
    }
    for (size_t j = 0; j < a->S; j++) {
        w[j] = isinf(w[j]) ? 0 : rounded(s, exp(rounded(s, w[j] - most)));
        sum = rounded(s, sum + w[j]);
    }
    sum = has_sink ? rounded(s, sum + exp(sink - most)) : sum;
    for (size_t j = 0; j < a->S; j++)
        w[j] = sum > 0 ? rounded(s, w[j] / sum) : 0;
}

static void attend(attention *a)
{
    const ref_stack *s = a->b->stack;
    const bool *disabled = a->cross ? s->cross_disabled : s->disabled;
    for (size_t h = 0; h < a->H; h++)
        for (size_t i = 0; i < a->T; i++) {
            const double *v = a->v + h / (a->H / a->G) * a->S * a->Ev;
            const double *w = a->weights + (h * a->T + i) * a->S;
            double *out = a->heads + (i * a->H + h) * a->Ev;
            weigh(a, h, i);
            for (size_t j = 0; j < a->S; j++)
                for (size_t e = 0; e < a->Ev; e++)
                    out[e] = rounded(s, out[e] + rounded(s, w[j] * v[j * a->Ev + e]));
            if (disabled && disabled[a->b->layer * a->H + h])
                memset(out, 0, a->Ev * sizeof *out);
        }
}

// y (T, D) = attention of x (T, D) to `keys` (S, D), which are x itself or the memory.
static void run_attention(const block *b, bool cross, size_t T, const double *x, size_t S,
                          const double *keys, double *y, ref_attention_trace *trace)
{
    const mh_block_config *c = b->c;
    attention a = {b,
                   cross,
                   cross ? "multihead_attn." : "self_attn.",
                   T,
                   S,
                   c->num_heads,
                   ref_kv_heads(c),
                   ref_head_dim(c),
                   ref_value_dim(c),
                   NULL,
                   NULL,
                   NULL,
                   NULL,
                   NULL};
    a.q = project(&a, 0, a.H, a.E, MH_BIAS_Q, T, x);
    a.k = project(&a, a.H * a.E, a.G, a.E, MH_BIAS_K, S, keys);
    a.v = project(&a, (a.H + a.G) * a.E, a.G, a.Ev, MH_BIAS_V, S, keys);
    a.weights = ref_alloc(a.H * T * S, sizeof(double));
    a.heads = ref_alloc(T * a.H * a.Ev, sizeof(double));
    norm_heads(&a, "q_norm.weight", a.H * T, a.q);
    norm_heads(&a, "k_norm.weight", a.G * S, a.k);
    rotate(&a, a.H, T, a.q);
    rotate(&a, a.G, S, a.k);
    attend(&a);
    linear(b, parameter(b, a.part, "out_proj.weight"),
           bias_of(b, c->out_bias, a.part, "out_proj.bias"), T, a.H * a.Ev, c->d_model, a.heads, y);
    free(a.heads);
    ref_attention_trace all = {.q = a.q, .k = a.k, .v = a.v, .weights = a.weights};
    if (trace) {
        all.out = ref_alloc(T * c->d_model, sizeof(double));
        memcpy(all.out, y, T * c->d_model * sizeof(double));
        *trace = all;
        return;
    }
    ref_block_trace unused = {.self = all};
    ref_block_trace_free(&unused);
}

// ---- feed-forward -------------------------------------------------------------------------------

// y = W2 activation(W1 x), or gated W2 (activation(gate) * up): linear1 has the gate's rows first.
static void feed_forward(const block *b, size_t T, const double *x, double *y)
{
    const mh_block_config *c = b->c;
    const size_t F = c->dim_feedforward, wide = c->gated ? 2 * F : F;
    double *up = ref_alloc(T * wide, sizeof *up), *hidden = ref_alloc(T * F, sizeof *hidden);
    linear(b, parameter(b, "", "linear1.weight"),
           bias_of(b, c->feed_forward_bias, "", "linear1.bias"), T, c->d_model, wide, x, up);
    for (size_t i = 0; i < T * F; i++) {
        const double *row = up + i / F * wide + i % F;
        const double f = rounded(b->stack, ref_activation(c->activation, *row));
        hidden[i] = c->gated ? rounded(b->stack, f * row[F]) : f;
        if (c->activation == MH_RELU)
            b->stack->nearest = fmin(b->stack->nearest, fabs(*row));
    }
    linear(b, parameter(b, "", "linear2.weight"),
           bias_of(b, c->feed_forward_bias, "", "linear2.bias"), T, F, c->d_model, hidden, y);
    free(up);
    free(hidden);
}

// ---- blocks and stacks --------------------------------------------------------------------------

typedef struct input {
    size_t T, S;
    const double *memory;
    ref_block_trace *trace;
} input;

static double *copy_rows(const double *rows, size_t n)
{
    return memcpy(ref_alloc(n, sizeof *rows), rows, n * sizeof *rows);
}

// y = f(x): sublayer 0 is self-attention, the last one is feed-forward.
static void branch(const block *b, size_t sublayer, const input *in, const double *x, double *y)
{
    const bool cross = b->c->cross_attention && sublayer == 1;
    ref_attention_trace *self = in->trace ? &in->trace->self : NULL;
    ref_attention_trace *other = in->trace ? &in->trace->cross : NULL;
    if (sublayer == 0)
        run_attention(b, false, in->T, x, in->T, x, y, self);
    else if (cross)
        run_attention(b, true, in->T, x, in->S, in->memory, y, other);
    else
        feed_forward(b, in->T, x, y);
}

static void add(const ref_stack *s, size_t n, double *x, const double *y)
{
    for (size_t i = 0; i < n; i++)
        x[i] = rounded(s, x[i] + y[i]);
}

// x becomes x + f(norm(u)), norm(x + f(u)) or x + norm'(f(norm(u))); u is x, or in parallel blocks
// the block's input.
static void sublayer(const block *b, size_t i, const input *in, const double *u, double *x)
{
    const size_t n = in->T * b->c->d_model;
    double *inner = ref_alloc(n, sizeof *inner), *y = ref_alloc(n, sizeof *y);
    if (b->c->order == MH_NORM_AFTER)
        memcpy(inner, u, n * sizeof *inner);
    else
        sublayer_norm(b, i, false, in->T, u, inner);
    const bool attends = i == 0 || (b->c->cross_attention && i == 1);
    ref_attention_trace *trace = !in->trace || !attends ? NULL
                                 : i == 0               ? &in->trace->self
                                                        : &in->trace->cross;
    double *read = trace ? copy_rows(inner, n) : NULL;
    branch(b, i, in, inner, y);
    if (b->c->order == MH_NORM_BOTH) {
        sublayer_norm(b, i, true, in->T, y, inner);
        memcpy(y, inner, n * sizeof *y);
    }
    add(b->stack, n, x, y);
    if (b->c->order == MH_NORM_AFTER) {
        memcpy(inner, x, n * sizeof *inner);
        sublayer_norm(b, i, false, in->T, inner, x);
    }
    if (trace) {
        trace->x = read;
        trace->sum = copy_rows(x, n);
    }
    free(inner);
    free(y);
}

static void run_block(const block *b, const input *in, double *x)
{
    const size_t n = in->T * b->c->d_model, count = b->c->cross_attention ? 3 : 2;
    double *u = ref_alloc(n, sizeof *u);
    memcpy(u, x, n * sizeof *u);
    for (size_t i = 0; i < count; i++)
        sublayer(b, i, in, b->c->parallel ? u : x, x);
    if (in->trace) {
        memcpy(u, x, n * sizeof *u);
        in->trace->hidden = u;
        return;
    }
    free(u);
}

void ref_stack_forward(ref_stack *s, size_t T, const double *x, size_t S, const double *memory,
                       double *out, ref_block_trace *trace)
{
    const mh_stack_config *c = s->config;
    const mh_block_config *last = c->blocks[c->layers - 1];
    const size_t n = T * last->d_model;
    double *stream = ref_alloc(n, sizeof *stream);
    memcpy(stream, x, n * sizeof *stream);
    for (size_t i = 0; i < c->layers; i++) {
        const block b = {s, c->blocks[i], i};
        const input in = {T, S, memory, trace ? &trace[i] : NULL};
        run_block(&b, &in, stream);
    }
    if (c->final_norm)
        norm(s, last, "norm", T, stream, out);
    else
        memcpy(out, stream, n * sizeof *out);
    free(stream);
}

void ref_block_trace_free(ref_block_trace *t)
{
    double *all[] = {t->self.q,  t->self.k,  t->self.v,   t->self.weights,  t->self.out,
                     t->cross.q, t->cross.k, t->cross.v,  t->cross.weights, t->cross.out,
                     t->hidden,  t->self.x,  t->self.sum, t->cross.x,       t->cross.sum};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        free(all[i]);
    *t = (ref_block_trace){.hidden = NULL};
}
