// SPDX-License-Identifier: MIT
// Creating and freeing translators; embedding and logits.
#include "base/argument_check.h"
#include "base/compiler.h"
#include "base/sized_struct.h"
#include "model/translator_internal.h"
#include "text/plain_text.h"
#include <math.h>

// ---- create and free ----------------------------------------------------------------------------

enum { MOST_POSITIONS = 1 << 16 };

mh_status mh_translator_check_config(mh_context *context, const mh_translator_config *given,
                                     mh_translator_config *config)
{
    *config = mh_translator_config_default();
    MH_TRY(mh_need(context, given, "config"));
    MH_TRY(MH_READ_STRUCT(context, mh_translator_config, given, config));
    if (!config->num_encoder_layers || !config->num_decoder_layers)
        return mh_fail(context, MH_ERROR_ARGUMENT,
                       "layers: found %zu and %zu, expected at least one each",
                       config->num_encoder_layers, config->num_decoder_layers);
    if (config->max_length < 2 || config->max_length > MOST_POSITIONS)
        return mh_fail(context, MH_ERROR_ARGUMENT, "max_length: found %zu, expected 2 to %d",
                       config->max_length, MOST_POSITIONS);
    if (!(config->dropout >= 0 && config->dropout < 1))
        return mh_fail(context, MH_ERROR_ARGUMENT, "dropout: found %g, expected 0 to less than 1",
                       (double)config->dropout);
    return MH_OK;
}

static mh_status make_transformer(mh_context *context, mh_translator *t)
{
    mh_transformer_config c = mh_transformer_config_default();
    c.d_model = t->config.d_model;
    c.nhead = t->config.nhead;
    c.num_encoder_layers = t->config.num_encoder_layers;
    c.num_decoder_layers = t->config.num_decoder_layers;
    c.dim_feedforward = t->config.dim_feedforward;
    c.dropout = t->config.dropout;
    c.activation = t->config.activation;
    c.norm_first = t->config.norm_first;
    c.batch_first = true;
    c.vocabulary = mh_tokenizer_size(t->tokenizer);
    c.precision = t->precision;
    return mh_transformer_create(context, &c, &t->transformer);
}

static size_t position_bytes(const mh_translator *t)
{
    return t->config.max_length * t->config.d_model * sizeof(float);
}

static mh_status make_positions(mh_context *context, mh_translator *t)
{
    t->positions = mh_alloc(context, position_bytes(t));
    if (!t->positions)
        return MH_ERROR_MEMORY;
    mh_tensor table = mh_tensor_2d(t->positions, MH_F32, t->config.max_length, t->config.d_model);
    return mh_positions_sinusoidal(context, 0, 1, &table);
}

static void set_rules(mh_translator *t)
{
    t->target_tokenizer = t->tokenizer;
    t->head_dim = t->config.d_model / t->config.nhead;
    t->plain_scores = true;
    t->order = t->config.norm_first ? "before" : "after";
    t->vocabulary = mh_tokenizer_size(t->tokenizer);
    t->source_limit = t->target_limit = t->config.max_length;
    mh_search_rules_own(t->tokenizer, &t->rules, &t->source);
}

mh_precision mh_translator_precision(const mh_context *context, mh_precision precision)
{
    if (precision == MH_PRECISION_AUTO) // parameters are f32
        return MH_PRECISION_F32;
    if (precision != MH_PRECISION_NATIVE)
        return precision;
    return mh_context_native_bf16(context) ? MH_PRECISION_BF16 : MH_PRECISION_F32;
}

mh_status mh_translator_create(mh_context *context, const mh_translator_config *config,
                               mh_precision precision, mh_tokenizer *tokenizer,
                               mh_translator **translator)
{
    if (MH_NEED(context, {"tokenizer", tokenizer}, {"translator", translator})) {
        mh_tokenizer_free(tokenizer);
        return MH_ERROR_ARGUMENT;
    }
    *translator = NULL;
    mh_translator_config own;
    mh_status status = mh_translator_check_config(context, config, &own);
    mh_translator *t = status ? NULL : mh_alloc(context, sizeof *t);
    if (!t) {
        mh_tokenizer_free(tokenizer);
        return status ? status : MH_ERROR_MEMORY;
    }
    *t = (mh_translator){.allocator = mh_context_allocator(context),
                         .run = &mh_trained_model,
                         .config = own,
                         .precision = mh_translator_precision(context, precision),
                         .tokenizer = tokenizer,
                         .foreign = mh_plain_foreign(tokenizer)};
    status = make_transformer(context, t);
    if (!status)
        status = make_positions(context, t);
    if (!status)
        set_rules(t);
    if (status) {
        mh_translator_free(t);
        return status;
    }
    *translator = t;
    return MH_OK;
}

void mh_translator_free(mh_translator *t)
{
    if (!t)
        return;
    if (t->positions)
        t->allocator.release(t->allocator.user, t->positions, position_bytes(t));
    if (!t->model) {
        mh_transformer_free(t->transformer);
        mh_tokenizer_free(t->tokenizer);
    }
    mh_model_free(t->own_model);
    t->allocator.release(t->allocator.user, t, sizeof *t);
}

const mh_translator_config *mh_translator_configuration(const mh_translator *translator)
{
    return &translator->config;
}

const mh_tokenizer *mh_translator_tokenizer(const mh_translator *translator)
{
    return translator->tokenizer;
}

const mh_parameters *mh_translator_parameters(const mh_translator *translator)
{
    return mh_transformer_parameters(translator->transformer);
}

// ---- embedding and logits -----------------------------------------------------------------------

mh_tensor mh_translator_embedding(const mh_translator *t, float *values)
{
    return mh_parameter_view(&mh_translator_parameters(t)->list[0], values);
}

mh_status mh_translator_embed(mh_context *context, const mh_translator *t, const int32_t *ids,
                              const int32_t *positions, mh_tensor *x, float *scratch)
{
    const size_t rows = x->shape[0], D = t->config.d_model;
    const mh_tensor table = mh_translator_embedding(t, mh_translator_parameters(t)->values);
    const mh_tensor sinusoids = mh_tensor_2d(t->positions, MH_F32, t->config.max_length, D);
    const mh_tensor id = mh_tensor_1d((int32_t *)ids, MH_I32, rows);
    const mh_tensor at = mh_tensor_1d((int32_t *)positions, MH_I32, rows);
    mh_tensor position = mh_tensor_2d(scratch, MH_F32, rows, D);
    MH_TRY(mh_embedding(context, &table, &id, (float)sqrt((double)D), x));
    MH_TRY(mh_embedding(context, &sinusoids, &at, 1, &position));
    return mh_add(context, x, &position, x);
}

mh_status mh_translator_logits(mh_context *context, const mh_translator *t,
                               const mh_packed_matrix *packed, const mh_tensor *x,
                               mh_tensor *logits)
{
    const mh_tensor table = mh_translator_embedding(t, mh_translator_parameters(t)->values);
    mh_linear_options options = mh_linear_options_default();
    options.precision = t->precision;
    options.packed = packed;
    return mh_linear(context, &options, x, packed ? NULL : &table, logits);
}

mh_status mh_translator_weights_create(mh_context *context, const mh_translator *t,
                                       mh_translator_weights *weights)
{
    *weights = (mh_translator_weights){0};
    return t->run->pack ? t->run->pack(context, t, weights) : MH_OK;
}

void mh_translator_weights_free(mh_translator_weights *weights)
{
    mh_packed_weights_free(weights->layers);
    mh_packed_matrix_free(weights->embedding);
}
