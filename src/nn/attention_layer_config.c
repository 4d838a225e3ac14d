// SPDX-License-Identifier: MIT
// Multi-head attention: its config, parameters and rotary frequencies.
#include "base/compiler.h"
#include "base/pow.h"
#include "base/sized_struct.h"
#include "nn/attention_layer.h"
#include "ops/layers/layers_internal.h"
#include <math.h>

// The limit of any width, so that products of three fit in a size_t.
enum { MOST = 1 << 20 };

static size_t or_default(size_t value, size_t otherwise) { return value ? value : otherwise; }

static mh_status check_sizes(mh_context *context, const mh_mha_config *c)
{
    const size_t sizes[] = {c->embed_dim, c->num_heads, c->kv_heads,
                            c->input_dim, c->kdim,      c->vdim};
    static const char *const names[] = {"embed_dim", "num_heads", "kv_heads",
                                        "input_dim", "kdim",      "vdim"};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        if (sizes[i] < 1 || sizes[i] > MOST)
            return mh_fail(context, MH_ERROR_ARGUMENT, "%s: found %zu, expected 1 to %d", names[i],
                           sizes[i], MOST);
    if (!c->head_dim && c->embed_dim % c->num_heads)
        return mh_fail(context, MH_ERROR_ARGUMENT,
                       "num_heads: found %zu, expected a divisor of embed_dim %zu", c->num_heads,
                       c->embed_dim);
    if (or_default(c->head_dim, c->embed_dim / c->num_heads) > MH_MAX_HEAD_DIM ||
        c->value_dim > MH_MAX_HEAD_DIM)
        return mh_fail(context, MH_ERROR_ARGUMENT,
                       "num_heads: found %zu for embed_dim %zu, expected heads of at most %d",
                       c->num_heads, c->embed_dim, MH_MAX_HEAD_DIM);
    if (c->num_heads % c->kv_heads)
        return mh_fail(context, MH_ERROR_ARGUMENT,
                       "kv_heads: found %zu, expected a divisor of num_heads %zu", c->kv_heads,
                       c->num_heads);
    return MH_OK;
}

static mh_status check_rope(mh_context *context, const mh_attention_layer *layer)
{
    const mh_mha_config *c = &layer->config;
    const mh_rope_scaling *s = &layer->scaling;
    if (!c->rope)
        return MH_OK;
    if (c->rope_width % 2 || c->rope_width > layer->E || !(c->rope_base >= 1))
        return mh_fail(context, MH_ERROR_ARGUMENT,
                       "rope: found heads of width %zu and base %g, expected an even width and a "
                       "base of at least 1",
                       c->rope_width, c->rope_base);
    if (c->rope_scaling &&
        (s->rule < MH_ROPE_LINEAR || s->rule > MH_ROPE_YARN || !(s->factor >= 1) ||
         !(s->original_length >= 1) || !(s->high_frequency > s->low_frequency) ||
         !(s->low_frequency > 0) || !(s->beta_fast > s->beta_slow) || !(s->beta_slow > 0) ||
         !(s->attention_factor >= 0) || (s->rule == MH_ROPE_YARN && c->rope_base == 1)))
        return mh_fail(context, MH_ERROR_ARGUMENT,
                       "rope_scaling: found rule %d with factor %g, expected an mh_rope_rule, a "
                       "factor of at least 1 and growing limits",
                       (int)s->rule, s->factor);
    return MH_OK;
}

static mh_status check_rest(mh_context *context, const mh_attention_layer *layer)
{
    const mh_mha_config *c = &layer->config;
    if (!(c->dropout >= 0 && c->dropout < 1))
        return mh_fail(context, MH_ERROR_ARGUMENT, "dropout: found %g, expected 0 to less than 1",
                       (double)c->dropout);
    if (c->qkv == MH_QKV_INTERLEAVED &&
        (!layer->fused || c->kv_heads != c->num_heads || layer->Ev != layer->E))
        return mh_fail(context, MH_ERROR_ARGUMENT,
                       "qkv: interleaved rows need kdim and vdim equal to input_dim, and kv_heads "
                       "equal to num_heads");
    if (c->precision < MH_PRECISION_AUTO || c->precision > MH_PRECISION_BF16)
        return mh_fail(context, MH_ERROR_ARGUMENT, "precision: found %d, expected an mh_precision",
                       (int)c->precision);
    if (c->window < -1 || !(c->softcap >= 0) || !(c->qk_norm_eps >= 0))
        return mh_fail(context, MH_ERROR_ARGUMENT,
                       "window, softcap, qk_norm_eps: found %lld, %g and %g, expected -1 or more, "
                       "and 0 or more",
                       (long long)c->window, (double)c->softcap, (double)c->qk_norm_eps);
    return check_rope(context, layer);
}

mh_status mh_attention_layer_check(mh_context *context, const mh_mha_config *config,
                                   mh_attention_layer *layer)
{
    *layer = (mh_attention_layer){.config = *config,
                                  .in_slot = MH_NO_SLOT,
                                  .q_slot = MH_NO_SLOT,
                                  .kv_slot = MH_NO_SLOT,
                                  .out.slot = MH_NO_SLOT};
    mh_mha_config *c = &layer->config;
    c->kv_heads = or_default(c->kv_heads, c->num_heads);
    c->input_dim = or_default(c->input_dim, c->embed_dim);
    c->kdim = or_default(c->kdim, c->input_dim);
    c->vdim = or_default(c->vdim, c->input_dim);
    MH_TRY(check_sizes(context, c));
    layer->E = c->head_dim = or_default(c->head_dim, c->embed_dim / c->num_heads);
    layer->Ev = c->value_dim = or_default(c->value_dim, layer->E);
    layer->q = c->num_heads * layer->E;
    layer->k = c->kv_heads * layer->E;
    layer->v = c->kv_heads * layer->Ev;
    c->rope_width = or_default(c->rope_width, layer->E);
    layer->fused = c->kdim == c->input_dim && c->vdim == c->input_dim;
    layer->scaling = mh_rope_scaling_default();
    MH_TRY(MH_READ_STRUCT(context, mh_rope_scaling, c->rope_scaling, &layer->scaling));
    layer->out_bias = c->bias && !c->no_out_bias;
    return check_rest(context, layer);
}

static void declare_weights(mh_parameter_list *list, const char *prefix, mh_attention_layer *layer)
{
    const mh_mha_config *c = &layer->config;
    if (layer->fused) {
        layer->in_weight = mh_declare_matrix(list, prefix, "in_proj_weight",
                                             layer->q + layer->k + layer->v, c->input_dim, true);
        layer->k_weight = layer->in_weight + (ptrdiff_t)(layer->q * c->input_dim);
        layer->v_weight = layer->k_weight + (ptrdiff_t)(layer->k * c->input_dim);
        return;
    }
    layer->in_weight =
        mh_declare_matrix(list, prefix, "q_proj_weight", layer->q, c->input_dim, true);
    layer->k_weight = mh_declare_matrix(list, prefix, "k_proj_weight", layer->k, c->kdim, true);
    layer->v_weight = mh_declare_matrix(list, prefix, "v_proj_weight", layer->v, c->vdim, true);
}

void mh_attention_layer_declare(mh_parameter_list *list, const char *prefix, bool xavier,
                                mh_attention_layer *layer)
{
    const mh_mha_config *c = &layer->config;
    declare_weights(list, prefix, layer);
    layer->in_bias = layer->bias_k = layer->bias_v = layer->sinks = MH_NO_PARAMETER;
    layer->q_norm = layer->k_norm = MH_NO_PARAMETER;
    if (c->bias)
        layer->in_bias = mh_declare_vector(list, prefix, "in_proj_bias",
                                           layer->q + layer->k + layer->v, MH_INIT_ZERO, 0);
    if (c->add_bias_kv) {
        const size_t key[3] = {1, 1, layer->k}, value[3] = {1, 1, layer->v};
        layer->bias_k =
            mh_declare(list, prefix, "bias_k", 3, key, MH_INIT_NORMAL, 1 / sqrt((double)layer->k));
        layer->bias_v = mh_declare(list, prefix, "bias_v", 3, value, MH_INIT_NORMAL,
                                   1 / sqrt((double)layer->v));
    }
    if (c->sinks)
        layer->sinks = mh_declare_vector(list, prefix, "sinks", c->num_heads, MH_INIT_ZERO, 0);
    if (c->qk_norm) {
        layer->q_norm = mh_declare_vector(list, prefix, "q_norm.weight", layer->E, MH_INIT_ONE, 0);
        layer->k_norm = mh_declare_vector(list, prefix, "k_norm.weight", layer->E, MH_INIT_ONE, 0);
    }
    layer->out.precision = c->precision;
    layer->out.weight = mh_declare_matrix(list, prefix, "out_proj.weight", c->embed_dim,
                                          c->num_heads * layer->Ev, xavier);
    layer->out.bias = MH_NO_PARAMETER;
    if (layer->out_bias)
        layer->out.bias =
            mh_declare_vector(list, prefix, "out_proj.bias", c->embed_dim, MH_INIT_ZERO, 0);
}

// ---- rotary frequencies -------------------------------------------------------------------------

static double clamp(double x) { return x < 0 ? 0 : x > 1 ? 1 : x; }

static const double two_pi = 6.283185307179586476925;

// Wavelengths below original_length / high_frequency are kept, those above original_length /
// low_frequency are stretched by the factor, and the others interpolated.
static void scale_llama3(const mh_rope_scaling *s, size_t n, double *frequencies)
{
    for (size_t i = 0; i < n; i++) {
        const double turns = s->original_length * frequencies[i] / two_pi;
        const double kept =
            clamp((turns - s->low_frequency) / (s->high_frequency - s->low_frequency));
        frequencies[i] = (1 - kept) * frequencies[i] / s->factor + kept * frequencies[i];
    }
}

// The pair (counted from 0, not rounded) that turns `beta` times over the original length.
static double pair_of(const mh_attention_layer *layer, double beta)
{
    const mh_rope_scaling *s = &layer->scaling;
    return (double)layer->config.rope_width * mh_natural_log(s->original_length / (beta * two_pi)) /
           (2 * mh_natural_log(layer->config.rope_base));
}

static void scale_yarn(const mh_attention_layer *layer, size_t n, double *frequencies)
{
    const mh_rope_scaling *s = &layer->scaling;
    double low = floor(pair_of(layer, s->beta_fast)), high = ceil(pair_of(layer, s->beta_slow));
    low = low < 0 ? 0 : low;
    high = high > (double)(2 * n - 1) ? (double)(2 * n - 1) : high;
    if (high == low)
        high += 0.001; // as published
    for (size_t i = 0; i < n; i++) {
        const double stretched = clamp(((double)i - low) / (high - low));
        frequencies[i] = frequencies[i] / s->factor * stretched + frequencies[i] * (1 - stretched);
    }
}

float mh_rope_frequencies(const mh_attention_layer *layer, double *frequencies)
{
    const mh_mha_config *c = &layer->config;
    const mh_rope_scaling *s = &layer->scaling;
    const size_t n = c->rope_width / 2;
    mh_frequencies(c->rope_base, c->rope_width, n, frequencies);
    if (!c->rope_scaling)
        return 1;
    if (s->rule == MH_ROPE_LINEAR)
        for (size_t i = 0; i < n; i++)
            frequencies[i] /= s->factor;
    else if (s->rule == MH_ROPE_LLAMA3)
        scale_llama3(s, n, frequencies);
    else
        scale_yarn(layer, n, frequencies);
    if (s->rule == MH_ROPE_YARN)
        return (float)(s->attention_factor > 0 ? s->attention_factor
                                               : 0.1 * mh_natural_log(s->factor) + 1);
    return 1;
}
