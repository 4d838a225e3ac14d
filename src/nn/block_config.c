// SPDX-License-Identifier: MIT
// A block's config and parameters.
#include "base/compiler.h"
#include "nn/block_layer.h"
#include <math.h>
#include <stdio.h>

enum { MOST = 1 << 20, MOST_BUCKETS = 1 << 16 };

// Half of a direction's buckets are single distances, and the others grow from there to
// relative_distance, which is therefore larger.
static mh_status check_relative(mh_context *context, const mh_block_config *c)
{
    const size_t directions = c->relative_bidirectional ? 2 : 1;
    const size_t exact = c->relative_buckets / directions / 2;
    if (!c->relative_buckets)
        return MH_OK;
    if (c->relative_buckets < directions || c->relative_buckets > MOST_BUCKETS)
        return mh_fail(context, MH_ERROR_ARGUMENT,
                       "relative_buckets: found %zu, expected %zu to %d", c->relative_buckets,
                       directions, MOST_BUCKETS);
    if (c->relative_distance <= exact)
        return mh_fail(context, MH_ERROR_ARGUMENT,
                       "relative_distance: found %zu, expected more than %zu with %zu buckets",
                       c->relative_distance, exact, c->relative_buckets);
    return MH_OK;
}

static mh_status block_config_check_config(mh_context *context, const mh_block_config *c)
{
    if (c->d_model < 1 || c->d_model > MOST)
        return mh_fail(context, MH_ERROR_ARGUMENT, "d_model: found %zu, expected 1 to %d",
                       c->d_model, MOST);
    if (c->dim_feedforward < 1 || c->dim_feedforward > MOST)
        return mh_fail(context, MH_ERROR_ARGUMENT, "dim_feedforward: found %zu, expected 1 to %d",
                       c->dim_feedforward, MOST);
    if (c->activation < MH_RELU || c->activation > MH_TANH)
        return mh_fail(context, MH_ERROR_ARGUMENT,
                       "activation: found %d, expected an mh_activation", (int)c->activation);
    if (c->norm < MH_NORM_LAYER || c->norm > MH_NORM_RMS || c->order < MH_NORM_AFTER ||
        c->order > MH_NORM_BOTH)
        return mh_fail(context, MH_ERROR_ARGUMENT,
                       "norm, order: found %d and %d, expected an mh_norm_kind and an "
                       "mh_norm_order",
                       (int)c->norm, (int)c->order);
    if (!(c->norm_eps >= 0))
        return mh_fail(context, MH_ERROR_ARGUMENT, "norm_eps: found %g, expected 0 or more",
                       (double)c->norm_eps);
    if (c->parallel && (c->order != MH_NORM_BEFORE || c->cross_attention))
        return mh_fail(context, MH_ERROR_ARGUMENT,
                       "parallel: expected a block without cross-attention whose norms come "
                       "before");
    return check_relative(context, c);
}

static mh_mha_config attention_config(const mh_block_config *c)
{
    mh_mha_config a = mh_mha_config_default();
    a.embed_dim = c->d_model;
    a.num_heads = c->num_heads;
    a.kv_heads = c->kv_heads;
    a.head_dim = c->head_dim;
    a.value_dim = c->value_dim;
    a.dropout = c->dropout;
    a.bias = c->attention_bias;
    a.missing_bias = c->missing_bias;
    a.precision = c->precision;
    a.qk_norm = c->qk_norm;
    a.qk_norm_eps = c->norm_eps;
    a.scale = c->scale;
    a.softcap = c->softcap;
    a.window = c->window;
    a.sinks = c->sinks;
    a.alibi = c->alibi;
    a.rope = c->rope;
    a.rope_interleaved = c->rope_interleaved;
    a.rope_base = c->rope_base;
    a.rope_width = c->rope_width;
    a.rope_scaling = c->rope_scaling;
    return a;
}

// Cross-attention has no positions: no rotation, window, sinks or relative bias.
static mh_mha_config cross_config(const mh_block_config *c)
{
    mh_mha_config a = attention_config(c);
    a.rope = a.sinks = a.alibi = false;
    a.rope_scaling = NULL;
    a.window = -1;
    return a;
}

static void set_slots(mh_block *block)
{
    const size_t first = (size_t)block->index * MH_BLOCK_SLOTS;
    block->self.in_slot = first + MH_SLOT_SELF_IN;
    block->self.out.slot = first + MH_SLOT_SELF_OUT;
    block->cross.q_slot = first + MH_SLOT_CROSS_Q;
    block->cross.kv_slot = first + MH_SLOT_CROSS_KV;
    block->cross.out.slot = first + MH_SLOT_CROSS_OUT;
    block->up.slot = first + MH_SLOT_UP;
    block->down.slot = first + MH_SLOT_DOWN;
}

mh_status mh_block_create(mh_context *context, const mh_block_config *config, uint32_t index,
                          size_t layer, mh_block *block)
{
    *block = (mh_block){.config = *config, .index = index, .layer = layer};
    block->kinds[block->count++] = MH_SELF;
    if (config->cross_attention)
        block->kinds[block->count++] = MH_CROSS;
    block->kinds[block->count++] = MH_FEED_FORWARD;
    const mh_mha_config self = attention_config(config), cross = cross_config(config);
    MH_TRY(block_config_check_config(context, config));
    MH_TRY(mh_attention_layer_check(context, &self, &block->self));
    MH_TRY(mh_attention_layer_check(context, &cross, &block->cross));
    block->self.out_bias = block->cross.out_bias = config->out_bias;
    set_slots(block);
    return MH_OK;
}

static ptrdiff_t declare_bias(mh_parameter_list *list, const mh_block_config *config,
                              const char *prefix, const char *name, size_t n, double scale)
{
    return config->feed_forward_bias
               ? mh_declare_vector(list, prefix, name, n, MH_INIT_UNIFORM, scale)
               : MH_NO_PARAMETER;
}

// In the order in which PyTorch creates its modules.
void mh_block_declare(mh_parameter_list *list, const char *prefix, bool xavier, mh_block *block)
{
    const mh_block_config *c = &block->config;
    const size_t D = c->d_model, F = c->dim_feedforward, up = c->gated ? 2 * F : F;
    static const char *const norms[] = {"norm1", "norm2", "norm3"};
    static const char *const posts[] = {"norm1_post", "norm2_post", "norm3_post"};
    char name[48];
    block->first = list->floats;
    block->up.precision = block->down.precision = c->precision;
    snprintf(name, sizeof name, "%sself_attn.", prefix);
    mh_attention_layer_declare(list, name, xavier, &block->self);
    if (c->cross_attention) {
        snprintf(name, sizeof name, "%smultihead_attn.", prefix);
        mh_attention_layer_declare(list, name, xavier, &block->cross);
    }
    block->up.weight = mh_declare_matrix(list, prefix, "linear1.weight", up, D, xavier);
    block->up.bias = declare_bias(list, c, prefix, "linear1.bias", up, 1 / sqrt((double)D));
    block->down.weight = mh_declare_matrix(list, prefix, "linear2.weight", D, F, xavier);
    block->down.bias = declare_bias(list, c, prefix, "linear2.bias", D, 1 / sqrt((double)F));
    for (size_t i = 0; i < block->count; i++) {
        block->norms[i] = mh_norm_layer_declare(list, c, prefix, norms[i]);
        if (c->order == MH_NORM_BOTH)
            block->posts[i] = mh_norm_layer_declare(list, c, prefix, posts[i]);
    }
}
