// SPDX-License-Identifier: MIT
// A published encoder-decoder (pretrained.h) as a translator.
#include "base/argument_check.h"
#include "base/compiler.h"
#include "base/size_math.h"
#include "model/model_internal.h"
#include "model/trace_choices.h"
#include "model/translator_internal.h"
#include "text/plain_text.h"

// ---- running it ---------------------------------------------------------------------------------

static mh_status published_encode(mh_context *context, const mh_translator *t,
                                  const mh_translator_weights *weights,
                                  const mh_source_batch *batch, mh_tensor *memory)
{
    (void)weights; // the model's are packed
    mh_model_input input = mh_model_input_default();
    input.sequences = batch->sequences;
    input.starts = batch->starts;
    input.ids = batch->ids;
    input.disabled_heads = batch->disabled_heads;
    return mh_model_hidden(context, t->model, &input, memory);
}

static mh_status published_embed(mh_context *context, const mh_translator *t, const int32_t *ids,
                                 const int32_t *positions, mh_tensor *x, float *scratch)
{
    int64_t *wide = (int64_t *)(void *)scratch; // D is at least 2
    for (size_t i = 0; i < x->shape[0]; i++)
        wide[i] = positions[i];
    return mh_model_embed_targets(context, t->model, ids, wide, x);
}

static mh_status published_logits(mh_context *context, const mh_translator *t,
                                  const mh_packed_matrix *packed, const mh_tensor *x,
                                  mh_tensor *logits)
{
    (void)packed;
    return mh_model_logits(context, t->model, x, logits);
}

static mh_status published_tap(mh_context *context, const mh_translator *t, const mh_tapped_pass *p)
{
    const int64_t source_starts[] = {0, (int64_t)p->S}, target_starts[] = {0, (int64_t)p->T};
    mh_tensor hidden = mh_tensor_2d(p->output, MH_F32, p->T, t->config.d_model);
    mh_model_input input = mh_model_input_default();
    input.sequences = 1;
    input.starts = source_starts;
    input.ids = p->source;
    input.target_starts = target_starts;
    input.target_ids = p->target;
    input.taps = p->taps;
    input.tap_count = p->tap_count;
    input.disabled_heads = p->disabled_heads;
    return mh_model_hidden(context, t->model, &input, &hidden);
}

const mh_sequence_model mh_published_model = {.encode = published_encode,
                                              .embed = published_embed,
                                              .logits = published_logits,
                                              .tap = published_tap};

// ---- what it is ---------------------------------------------------------------------------------

// A model without positions has no limit of its own.
enum { LONGEST_SOURCE = 512 };

static void set_sizes(mh_translator *t)
{
    const mh_description *d = &t->model->description;
    const mh_model_info *info = &t->model->info;
    const size_t positions = d->positions ? d->positions - d->position_offset : SIZE_MAX;
    const size_t longest = t->model->search.longest;
    t->source_limit = info->max_length > 1 << 20 ? LONGEST_SOURCE : info->max_length;
    t->target_limit = mh_smaller(positions, longest ? longest : t->source_limit);
    mh_translator_config *c = &t->config;
    *c = mh_translator_config_default();
    c->d_model = info->d_model;
    c->nhead = info->heads;
    c->num_encoder_layers = info->layers;
    c->num_decoder_layers = info->decoder_layers;
    c->dim_feedforward = info->dim_feedforward;
    c->dropout = 0;
    c->activation = d->block.activation;
    c->norm_first = d->block.order == MH_NORM_BEFORE;
    c->max_length = mh_smaller(t->source_limit, t->target_limit);
    t->head_dim = info->head_dim;
    t->order = mh_trace_order(&d->block);
    t->plain_scores = !d->block.relative_buckets && !(d->block.scale > 0);
    t->vocabulary = info->target_vocabulary;
}

static mh_status check_translates(mh_context *context, const mh_model *model)
{
    if (model->info.abilities & MH_CAN_TRANSCRIBE)
        return mh_fail(context, MH_ERROR_UNSUPPORTED,
                       "this model (%s) reads sound, not texts: 'multihead transcribe --task "
                       "translate' translates speech to English",
                       model->info.family);
    if (!(model->info.abilities & MH_CAN_TRANSLATE))
        return mh_fail(context, MH_ERROR_UNSUPPORTED,
                       "this model (%s%s%s) does not translate: expected an encoder-decoder with "
                       "a language model head",
                       model->info.family, *model->architecture ? ", " : "", model->architecture);
    MH_TRY(mh_model_need_tokenizer(context, model));
    if (model->description.decoder.num_heads == model->description.block.num_heads)
        return MH_OK;
    return mh_fail(context, MH_ERROR_UNSUPPORTED,
                   "this model's decoder has %zu heads, expected %zu, as many as its encoder",
                   model->description.decoder.num_heads, model->description.block.num_heads);
}

mh_status mh_translator_from_model(mh_context *context, const mh_model *model,
                                   mh_translator **translator)
{
    MH_TRY(MH_NEED(context, {"model", model}, {"translator", translator}));
    *translator = NULL;
    MH_TRY(check_translates(context, model));
    mh_translator *t = mh_alloc(context, sizeof *t);
    if (!t)
        return MH_ERROR_MEMORY;
    *t = (mh_translator){.allocator = mh_context_allocator(context),
                         .run = &mh_published_model,
                         .precision = model->precision,
                         .source = model->source,
                         .rules = model->search,
                         .tokenizer = model->tokenizer,
                         .target_tokenizer =
                             model->target_tokenizer ? model->target_tokenizer : model->tokenizer,
                         .transformer = model->transformer,
                         .model = model};
    set_sizes(t);
    if (mh_translator_has_own_text(t))
        t->foreign = mh_plain_foreign(t->tokenizer);
    *translator = t;
    return MH_OK;
}

const mh_model *mh_translator_model(const mh_translator *translator) { return translator->model; }

mh_status mh_translator_need_own(mh_context *context, const mh_translator *t, const char *what)
{
    return !t->model ? MH_OK
                     : mh_fail(context, MH_ERROR_UNSUPPORTED,
                               "translator: a published model cannot be %s", what);
}
