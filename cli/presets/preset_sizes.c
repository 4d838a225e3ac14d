// SPDX-License-Identifier: MIT
// What follows from a preset's sizes: parameters, cache, FLOPs and blocks; see presets.h.
#include "presets/presets.h"

size_t preset_kv_heads(const model_preset *p) { return p->kv_heads ? p->kv_heads : p->heads; }

size_t preset_head_dim(const model_preset *p)
{
    return p->head_dim ? p->head_dim : p->d_model / p->heads;
}

size_t preset_source_length(const model_preset *p)
{
    return p->family->source ? p->family->source : p->positions;
}

// ---- parameters ---------------------------------------------------------------------------------

// Matrices of one attention: q and out (D, H E), k and v (D, G E).
static size_t query_matrices(const model_preset *p)
{
    return 2 * p->d_model * p->heads * preset_head_dim(p);
}

static size_t key_matrices(const model_preset *p)
{
    return 2 * p->d_model * preset_kv_heads(p) * preset_head_dim(p);
}

static size_t feed_forward_matrices(const model_preset *p)
{
    return (p->family->gated ? 3 : 2) * p->d_model * p->ffn;
}

size_t preset_block_matrices(const model_preset *p, bool decoder)
{
    return (decoder ? 2 : 1) * query_matrices(p) + key_matrices(p) + feed_forward_matrices(p);
}

static size_t attention_biases(const model_preset *p)
{
    const unsigned missing = p->family->missing_bias;
    const size_t q = p->heads * preset_head_dim(p), kv = preset_kv_heads(p) * preset_head_dim(p);
    if (!p->family->bias)
        return 0;
    return (missing & MH_BIAS_Q ? 0 : q) + (missing & MH_BIAS_K ? 0 : kv) +
           (missing & MH_BIAS_V ? 0 : kv) + p->d_model;
}

static size_t feed_forward_biases(const model_preset *p)
{
    return p->family->bias ? (p->family->gated ? 2 : 1) * p->ffn + p->d_model : 0;
}

// Tables of tokens, positions and token types, the projection of patches with the class token, and
// two convolutions over three frames each. Rotary positions and nn.Transformer's sinusoids are
// computed; Whisper's are stored.
static size_t count_embeddings(const model_preset *p)
{
    const preset_family *f = p->family;
    const size_t D = p->d_model;
    size_t rows = p->vocabulary + f->types + f->source;
    if (f->learned)
        rows += p->positions;
    if (f->patch)
        rows += f->patch + 2; // the bias, the class token
    if (p->mels)
        rows += 3 * (p->mels + D) + 2;
    return rows * D;
}

static size_t count_norms(const model_preset *p)
{
    const preset_family *f = p->family;
    const size_t stacks = p->decoder_layers ? 2 : 1;
    const size_t norms = 2 * p->layers + 3 * p->decoder_layers + (f->final_norm ? stacks : 0) +
                         (f->embedding_norm ? 1 : 0);
    return norms * p->d_model * (f->norm == MH_NORM_LAYER ? 2 : 1);
}

static size_t count_head(const model_preset *p)
{
    const preset_family *f = p->family;
    const size_t D = p->d_model;
    return (f->output && !f->tied ? p->vocabulary * D : 0) + (f->pooler ? D * (D + 1) : 0) +
           f->labels * (D + 1);
}

preset_parameters preset_count(const model_preset *p)
{
    const size_t attentions = p->layers + 2 * p->decoder_layers;
    preset_parameters n = {
        .embeddings = count_embeddings(p),
        .attention = attentions * (query_matrices(p) + key_matrices(p) + attention_biases(p)),
        .feed_forward =
            (p->layers + p->decoder_layers) * (feed_forward_matrices(p) + feed_forward_biases(p)),
        .norms = count_norms(p),
        .head = count_head(p),
    };
    n.total = n.embeddings + n.attention + n.feed_forward + n.norms + n.head;
    return n;
}

size_t preset_cache_size(const model_preset *p)
{
    const size_t layers = p->family->causal ? p->layers : p->decoder_layers;
    return 2 * layers * preset_kv_heads(p) * preset_head_dim(p);
}

// ---- FLOPs --------------------------------------------------------------------------------------

double preset_attention_flops(const model_preset *p, double keys)
{
    return 4 * (double)(p->heads * preset_head_dim(p)) * keys;
}

// Keys of an average token of a causal sequence: (1 + ... + T) / T.
static double causal_keys(size_t T) { return ((double)T + 1) / 2; }

static double output_flops(const model_preset *p)
{
    return p->family->output ? 2 * (double)p->vocabulary * (double)p->d_model : 0;
}

preset_flops preset_source_flops(const model_preset *p)
{
    const preset_family *f = p->family;
    const double D = (double)p->d_model, L = (double)p->layers;
    const size_t T = preset_source_length(p);
    preset_flops flops = {
        .products = 2 * L * (double)preset_block_matrices(p, false),
        .attention = L * preset_attention_flops(p, f->causal ? causal_keys(T) : (double)T),
    };
    flops.products += 2 * (double)p->decoder_layers * (double)key_matrices(p);
    flops.products += 2 * (double)f->patch * D;
    if (p->mels) // two frames of the first convolution per position
        flops.products += 2 * 3 * D * (2 * (double)p->mels + D);
    if (!p->decoder_layers)
        flops.products += output_flops(p);
    return flops;
}

preset_flops preset_target_flops(const model_preset *p)
{
    const double L = (double)p->decoder_layers;
    const double keys = causal_keys(p->positions) + (double)preset_source_length(p);
    return (preset_flops){
        .products = L > 0 ? 2 * L * (double)preset_block_matrices(p, true) + output_flops(p) : 0,
        .attention = L * preset_attention_flops(p, keys),
    };
}

// ---- blocks -------------------------------------------------------------------------------------

mh_block_config preset_block(const model_preset *p, bool decoder, mh_precision precision)
{
    const preset_family *f = p->family;
    mh_block_config block = mh_block_config_default();
    block.d_model = p->d_model;
    block.precision = precision;
    block.norm = f->norm;
    block.order = f->order;
    block.norm_bias = f->norm == MH_NORM_LAYER;
    block.num_heads = p->heads;
    block.kv_heads = p->kv_heads;
    block.head_dim = p->head_dim;
    block.attention_bias = block.out_bias = block.feed_forward_bias = f->bias;
    block.missing_bias = f->missing_bias;
    block.rope = f->rope;
    block.cross_attention = decoder;
    block.dim_feedforward = p->ffn;
    block.gated = f->gated;
    block.activation = f->activation;
    return block;
}
