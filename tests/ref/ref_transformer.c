// SPDX-License-Identifier: MIT
// The Transformer as the paper has it, and with the norm in front:
//
//     x = norm(x + f(x))       or, norm_first,       x = x + f(norm(x))
//
// for f = self-attention, in decoders cross-attention, and the feed-forward network. A stack keeps
// the input of each sublayer; backward recomputes everything else.
#include "ref/ref_transformer.h"

#include "base/philox.h"
#include "ref/ref_layers.h"
#include "ref/ref_tensor.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef enum sublayer { SELF, CROSS, FEED_FORWARD } sublayer;

// One of the two stacks on its way.
typedef struct stack {
    ref_transformer *t;
    bool decoder;
    char prefix[16];      // "encoder."
    size_t layers, first; // and the number of layers before these
    size_t rows, length;  // B T, T
    const double *memory; // (B, S, D), for decoders
    double *dmemory;
} stack;

typedef struct place {
    stack *stack;
    size_t layer;
    sublayer kind;
    ref_parameters parameters;
    const char *norm, *norm_bias;
} place;

// ---- dropout ------------------------------------------------------------------------------------

// Seeds and places as the modules promise them: philox of (step, 16 * layer + place) under the
// seed.
enum { AT_SELF, AT_CROSS, AT_SELF_OUTPUT, AT_CROSS_OUTPUT, AT_HIDDEN, AT_FEED_FORWARD_OUTPUT };

static uint64_t seed_of(const place *at, uint32_t where)
{
    const mh_transformer_options *o = at->stack->t->options;
    const uint32_t stream = (uint32_t)(at->stack->first + at->layer) * 16 + where;
    const uint32_t counter[4] = {o->step, stream, 0, 0x5EED};
    const uint32_t key[2] = {(uint32_t)o->seed, (uint32_t)(o->seed >> 32)};
    uint32_t words[4];
    mh_philox(counter, key, words);
    return (uint64_t)words[1] << 32 | words[0];
}

// Numbers are counted in the order in which the library's rows are.
static size_t library_row(const stack *s, size_t row)
{
    const size_t b = row / s->length, t = row % s->length;
    return s->t->config->batch_first ? row : t * s->t->B + b;
}

static void drop(const place *at, uint32_t where, size_t width, double *x)
{
    const stack *s = at->stack;
    const double probability = (double)s->t->config->dropout;
    if (!s->t->options->training || probability == 0)
        return;
    const uint64_t seed = seed_of(at, where);
    const uint32_t key[2] = {(uint32_t)seed, (uint32_t)(seed >> 32) ^ 0x44524F50u};
    for (size_t row = 0; row < s->rows; row++)
        for (size_t i = 0; i < width; i++) {
            const uint64_t index = library_row(s, row) * width + i;
            const uint32_t counter[4] = {(uint32_t)(index / 8), (uint32_t)(index / 8 >> 32), 0, 0};
            uint32_t words[4];
            mh_philox(counter, key, words);
            const bool dropped = (uint16_t)(words[index % 8 / 2] >> 16 * (index % 2)) <
                                 (uint16_t)(probability * 0x1p16);
            x[row * width + i] *= dropped ? 0 : (double)(float)(1 / (1 - probability));
        }
}

// ---- sublayers ----------------------------------------------------------------------------------

static ref_mha attention_of(const place *at, const double *u)
{
    const stack *s = at->stack;
    const mh_transformer_config *c = s->t->config;
    const mh_transformer_options *o = s->t->options;
    const bool cross = at->kind == CROSS;
    ref_mha a = {.config = mh_mha_config_default(), .B = s->t->B, .T = s->length};
    a.config.embed_dim = c->d_model;
    a.config.num_heads = c->nhead;
    a.config.dropout = c->dropout;
    a.S = cross ? s->t->S : s->length;
    a.query = u;
    a.key = a.value = cross ? s->memory : u;
    a.training = o->training;
    a.seed = seed_of(at, cross ? AT_CROSS : AT_SELF);
    if (cross) {
        a.attn_mask = o->memory_mask;
        a.key_padding_mask = o->memory_key_padding_mask;
    } else {
        a.attn_mask = s->decoder ? o->tgt_mask : o->src_mask;
        a.key_padding_mask = s->decoder ? o->tgt_key_padding_mask : o->src_key_padding_mask;
        a.causal = s->decoder ? o->tgt_causal : o->src_causal;
    }
    if (o->disabled_heads)
        a.disabled =
            o->disabled_heads + (s->first + (cross ? s->layers : 0) + at->layer) * c->nhead;
    return a;
}

// hidden (rows, F) = dropout(activation(before)), before = linear1(u)
static double *hidden_of(const place *at, const double *u, double **before)
{
    ref_transformer *t = at->stack->t;
    const size_t rows = at->stack->rows, F = t->config->dim_feedforward;
    double *hidden = ref_alloc(rows * F, sizeof *hidden);
    *before = ref_alloc(rows * F, sizeof **before);
    ref_linear(&at->parameters, "linear1.weight", "linear1.bias", rows, t->config->d_model, F, u,
               *before);
    for (size_t i = 0; i < rows * F; i++) {
        hidden[i] = ref_activation(t->config->activation, (*before)[i]);
        t->nearest = fmin(t->nearest, fabs((*before)[i]));
        t->signs = (t->signs * 31 + ((*before)[i] > 0)) * 0x9E3779B97F4A7C15u;
    }
    drop(at, AT_HIDDEN, F, hidden);
    return hidden;
}

static uint32_t output_place(sublayer kind)
{
    return kind == SELF ? AT_SELF_OUTPUT : kind == CROSS ? AT_CROSS_OUTPUT : AT_FEED_FORWARD_OUTPUT;
}

static ref_parameters within(const ref_parameters *p, const char *name, char *memory, size_t size)
{
    ref_parameters inner = *p;
    snprintf(memory, size, "%s%s", p->prefix, name);
    inner.prefix = memory;
    return inner;
}

// y = dropout(f(u))
static void branch(const place *at, const double *u, double *y)
{
    const mh_transformer_config *c = at->stack->t->config;
    if (at->kind == FEED_FORWARD) {
        double *before, *hidden = hidden_of(at, u, &before);
        ref_linear(&at->parameters, "linear2.weight", "linear2.bias", at->stack->rows,
                   c->dim_feedforward, c->d_model, hidden, y);
        free(before);
        free(hidden);
    } else {
        char name[96];
        const ref_mha a = attention_of(at, u);
        const ref_parameters p =
            within(&at->parameters, at->kind == CROSS ? "multihead_attn." : "self_attn.", name,
                   sizeof name);
        ref_mha_forward(&p, &a, y, NULL);
    }
    drop(at, output_place(at->kind), c->d_model, y);
}

// du += f'(dy); dy is spoilt.
static void branch_backward(const place *at, const double *u, double *dy, double *du)
{
    const mh_transformer_config *c = at->stack->t->config;
    const size_t rows = at->stack->rows, D = c->d_model, F = c->dim_feedforward;
    drop(at, output_place(at->kind), D, dy);
    if (at->kind == FEED_FORWARD) {
        double *before, *hidden = hidden_of(at, u, &before);
        double *dhidden = ref_alloc(rows * F, sizeof *dhidden);
        ref_linear_backward(&at->parameters, "linear2.weight", "linear2.bias", rows, F, D, hidden,
                            dy, dhidden);
        drop(at, AT_HIDDEN, F, dhidden);
        for (size_t i = 0; i < rows * F; i++)
            dhidden[i] *= ref_activation_slope(c->activation, before[i]);
        ref_linear_backward(&at->parameters, "linear1.weight", "linear1.bias", rows, D, F, u,
                            dhidden, du);
        free(before);
        free(hidden);
        free(dhidden);
    } else {
        char name[96];
        const bool cross = at->kind == CROSS;
        const ref_mha a = attention_of(at, u);
        const ref_parameters p =
            within(&at->parameters, cross ? "multihead_attn." : "self_attn.", name, sizeof name);
        double *dkeys = cross ? at->stack->dmemory : du;
        ref_mha_backward(&p, &a, dy, du, dkeys, dkeys);
    }
}

// ---- norm and residual --------------------------------------------------------------------------

static void norm(const place *at, const double *x, double *y)
{
    const mh_transformer_config *c = at->stack->t->config;
    const ref_parameters *p = &at->parameters;
    double mean, rstd;
    for (size_t r = 0; r < at->stack->rows; r++)
        ref_norm(false, c->d_model, x + r * c->d_model, ref_parameter(p, p->values, at->norm),
                 ref_parameter(p, p->values, at->norm_bias), (double)c->layer_norm_eps,
                 y + r * c->d_model, &mean, &rstd);
}

static void norm_backward(const place *at, const double *x, const double *dy, double *dx)
{
    const mh_transformer_config *c = at->stack->t->config;
    const ref_parameters *p = &at->parameters;
    for (size_t r = 0; r < at->stack->rows; r++)
        ref_norm_backward(false, c->d_model, x + r * c->d_model,
                          ref_parameter(p, p->values, at->norm), (double)c->layer_norm_eps,
                          dy + r * c->d_model, dx + r * c->d_model,
                          ref_parameter(p, p->gradients, at->norm),
                          ref_parameter(p, p->gradients, at->norm_bias));
}

static void step_forward(const place *at, const double *x, double *y)
{
    const size_t count = at->stack->rows * at->stack->t->config->d_model;
    const bool first = at->stack->t->config->norm_first;
    double *u = ref_alloc(count, sizeof *u), *f = ref_alloc(count, sizeof *f);
    if (first)
        norm(at, x, u);
    branch(at, first ? u : x, f);
    for (size_t i = 0; i < count; i++)
        f[i] += x[i];
    if (first)
        memcpy(y, f, count * sizeof *y);
    else
        norm(at, f, y);
    free(u);
    free(f);
}

// d: the gradient of the sublayer's output becomes that of its input.
static void step_backward(const place *at, const double *x, double *d)
{
    const size_t count = at->stack->rows * at->stack->t->config->d_model;
    const bool first = at->stack->t->config->norm_first;
    double *u = ref_alloc(count, sizeof *u), *f = ref_alloc(count, sizeof *f);
    double *dsum = ref_alloc(count, sizeof *dsum), *du = ref_alloc(count, sizeof *du);
    if (first) {
        norm(at, x, u);
        memcpy(dsum, d, count * sizeof *d);
        branch_backward(at, u, dsum, du);
        norm_backward(at, x, du, f);
        for (size_t i = 0; i < count; i++)
            d[i] += f[i];
    } else {
        branch(at, x, f);
        for (size_t i = 0; i < count; i++)
            f[i] += x[i];
        norm_backward(at, f, d, dsum);
        memcpy(d, dsum, count * sizeof *d);
        branch_backward(at, x, dsum, du);
        for (size_t i = 0; i < count; i++)
            d[i] += du[i];
    }
    double *all[] = {u, f, dsum, du};
    for (size_t i = 0; i < 4; i++)
        free(all[i]);
}

// ---- stacks -------------------------------------------------------------------------------------

static bool is_single(const ref_transformer *t)
{
    return t->config->kind == MH_ENCODER_LAYER || t->config->kind == MH_DECODER_LAYER;
}

static stack stack_of(ref_transformer *t, bool decoder, const double *memory, double *dmemory)
{
    const mh_transformer_config *c = t->config;
    const bool whole = c->kind == MH_TRANSFORMER;
    stack s = {.t = t, .decoder = decoder, .memory = memory, .dmemory = dmemory};
    snprintf(s.prefix, sizeof s.prefix, "%s", !whole ? "" : decoder ? "decoder." : "encoder.");
    s.layers = is_single(t) ? 1 : decoder ? c->num_decoder_layers : c->num_encoder_layers;
    s.first = whole && decoder ? c->num_encoder_layers : 0;
    s.length = decoder ? t->T : t->S;
    s.rows = t->B * s.length;
    return s;
}

// Sublayer n of all, or the norm at the end; `memory` is for its prefix.
static place place_of(stack *s, size_t n, char *memory, size_t size)
{
    static const char *const norms[3] = {"norm1.weight", "norm2.weight", "norm3.weight"};
    static const char *const biases[3] = {"norm1.bias", "norm2.bias", "norm3.bias"};
    static const sublayer kinds[2][3] = {{SELF, FEED_FORWARD}, {SELF, CROSS, FEED_FORWARD}};
    const size_t each = s->decoder ? 3 : 2;
    place at = {.stack = s, .layer = n / each, .kind = kinds[s->decoder][n % each]};
    at.parameters = s->t->parameters;
    at.parameters.prefix = memory;
    at.norm = norms[n % each];
    at.norm_bias = biases[n % each];
    if (is_single(s->t))
        snprintf(memory, size, "%s", "");
    else if (at.layer < s->layers)
        snprintf(memory, size, "%slayers.%zu.", s->prefix, at.layer);
    else {
        snprintf(memory, size, "%snorm.", s->prefix);
        at.norm = "weight";
        at.norm_bias = "bias";
    }
    return at;
}

static size_t steps_of(const stack *s) { return s->layers * (s->decoder ? 3 : 2); }

// x[n] is what goes into sublayer n, the last one what goes into the norm at the end.
static double **stack_forward(stack *s, const double *input, double *output)
{
    const size_t steps = steps_of(s), count = s->rows * s->t->config->d_model;
    double **x = ref_alloc(steps + 1, sizeof *x);
    char prefix[64];
    for (size_t n = 0; n <= steps; n++)
        x[n] = ref_alloc(count, sizeof **x);
    memcpy(x[0], input, count * sizeof **x);
    for (size_t n = 0; n < steps; n++) {
        const place at = place_of(s, n, prefix, sizeof prefix);
        step_forward(&at, x[n], x[n + 1]);
    }
    const place end = place_of(s, steps, prefix, sizeof prefix);
    if (!is_single(s->t) && s->t->config->final_norm)
        norm(&end, x[steps], output);
    else
        memcpy(output, x[steps], count * sizeof *output);
    return x;
}

// d: the gradient of the output becomes that of the input.
static void stack_backward(stack *s, double **x, double *d)
{
    const size_t steps = steps_of(s), count = s->rows * s->t->config->d_model;
    char prefix[64];
    const place end = place_of(s, steps, prefix, sizeof prefix);
    if (!is_single(s->t) && s->t->config->final_norm) {
        double *dx = ref_alloc(count, sizeof *dx);
        norm_backward(&end, x[steps], d, dx);
        memcpy(d, dx, count * sizeof *d);
        free(dx);
    }
    for (size_t n = steps; n-- > 0;) {
        const place at = place_of(s, n, prefix, sizeof prefix);
        step_backward(&at, x[n], d);
    }
}

static void stack_free(const stack *s, double **x)
{
    for (size_t n = 0; n <= steps_of(s); n++)
        free(x[n]);
    free(x);
}

// ---- all of it ----------------------------------------------------------------------------------

static bool has_encoder(const ref_transformer *t)
{
    return t->config->kind != MH_DECODER && t->config->kind != MH_DECODER_LAYER;
}

void ref_transformer_forward(ref_transformer *t, const double *src, const double *tgt,
                             double *output)
{
    const size_t numbers = t->B * t->S * t->config->d_model;
    double *memory = ref_alloc(numbers, sizeof *memory);
    t->signs = 1;
    t->nearest = INFINITY;
    if (has_encoder(t)) {
        stack encoder = stack_of(t, false, NULL, NULL);
        stack_free(&encoder, stack_forward(&encoder, src, tgt ? memory : output));
    } else {
        memcpy(memory, src, numbers * sizeof *memory);
    }
    if (tgt) {
        stack decoder = stack_of(t, true, memory, NULL);
        stack_free(&decoder, stack_forward(&decoder, tgt, output));
    }
    free(memory);
}

void ref_transformer_backward(ref_transformer *t, const double *src, const double *tgt,
                              const double *doutput, double *dsrc, double *dtgt)
{
    const size_t D = t->config->d_model, numbers = t->B * t->S * D, targets = t->B * t->T * D;
    double *memory = ref_alloc(numbers, sizeof *memory);
    double *output = ref_alloc(targets, sizeof *output);
    stack encoder = stack_of(t, false, NULL, NULL);
    double **kept = has_encoder(t) ? stack_forward(&encoder, src, memory) : NULL;
    if (!kept)
        memcpy(memory, src, numbers * sizeof *memory);
    memset(dsrc, 0, numbers * sizeof *dsrc);
    if (tgt) {
        stack decoder = stack_of(t, true, memory, dsrc);
        double **inputs = stack_forward(&decoder, tgt, output);
        memcpy(dtgt, doutput, targets * sizeof *dtgt);
        stack_backward(&decoder, inputs, dtgt);
        stack_free(&decoder, inputs);
    } else {
        memcpy(dsrc, doutput, numbers * sizeof *dsrc);
    }
    if (kept) {
        stack_backward(&encoder, kept, dsrc);
        stack_free(&encoder, kept);
    }
    free(memory);
    free(output);
}
