// SPDX-License-Identifier: MIT
// Translation: texts are split into segments, segments of similar length are batched, and
// translations are joined in the order of the texts. Results do not depend on the other segments of
// a batch, so segments are ordered for speed.
#include "base/argument_check.h"
#include "base/compiler.h"
#include "base/fpenv.h"
#include "base/overflow.h"
#include "base/size_math.h"
#include "base/sized_struct.h"
#include "model/translate_internal.h"
#include "model/translator_internal.h"
#include "support/grow.h"

// ---- options ------------------------------------------------------------------------------------

enum { MOST_BEAM = 1024, MOST_BATCH = 65536, MOST_PENALTY = 10, MOST_TOP_LOGPROBS = 1024 };
static const double MOST_FACTOR = 1e6;
static const size_t MOST_CONSTANT = 1 << 20;

static mh_status translate_check_options(mh_context *context, const mh_translator *t,
                                         const mh_translate_options *o)
{
    const int layers = (int)t->config.num_decoder_layers;
    if (o->beam < 1 || o->beam > MOST_BEAM)
        return mh_fail(context, MH_ERROR_ARGUMENT, "beam: found %zu, expected 1 to %d", o->beam,
                       MOST_BEAM);
    if (o->n_best < 1 || o->n_best > o->beam)
        return mh_fail(context, MH_ERROR_ARGUMENT, "n_best: found %zu, expected 1 to the beam, %zu",
                       o->n_best, o->beam);
    if (o->batch < 1 || o->batch > MOST_BATCH)
        return mh_fail(context, MH_ERROR_ARGUMENT, "batch: found %zu, expected 1 to %d", o->batch,
                       MOST_BATCH);
    if (!(o->length_penalty >= 0 && o->length_penalty <= MOST_PENALTY))
        return mh_fail(context, MH_ERROR_ARGUMENT, "length_penalty: found %g, expected 0 to %d",
                       o->length_penalty, MOST_PENALTY);
    if (!(o->max_length_factor >= 0 && o->max_length_factor <= MOST_FACTOR) ||
        o->max_length_constant > MOST_CONSTANT)
        return mh_fail(context, MH_ERROR_ARGUMENT,
                       "max_length: found %g * tokens + %zu, expected 0 to %g and 0 to %zu",
                       o->max_length_factor, o->max_length_constant, MOST_FACTOR, MOST_CONSTANT);
    if (o->top_logprobs > MOST_TOP_LOGPROBS)
        return mh_fail(context, MH_ERROR_ARGUMENT, "top_logprobs: found %zu, expected 0 to %d",
                       o->top_logprobs, MOST_TOP_LOGPROBS);
    if (o->alignment_layer < -1 || o->alignment_layer >= layers)
        return mh_fail(context, MH_ERROR_ARGUMENT,
                       "alignment_layer: found %d, expected -1 or less than %d", o->alignment_layer,
                       layers);
    return MH_OK;
}

mh_status mh_translate_check(mh_context *context, const mh_translator *t,
                             const mh_translate_options *options, const mh_text *texts,
                             size_t count, mh_translate_options *own)
{
    *own = mh_translate_options_default();
    if (MH_NEED(context, {"translator", t}, {"texts", mh_array(texts, count)}))
        return MH_ERROR_ARGUMENT;
    for (size_t i = 0; i < count; i++)
        if (!texts[i].bytes && texts[i].size > 0)
            return mh_fail(context, MH_ERROR_ARGUMENT, "texts[%zu]: found NULL", i);
    MH_TRY(MH_READ_STRUCT(context, mh_translate_options, options, own));
    return translate_check_options(context, t, own);
}

// ---- results ------------------------------------------------------------------------------------

mh_translations *mh_translations_create(mh_context *context, size_t count, size_t n_best)
{
    mh_translations *t = mh_alloc(context, sizeof *t);
    size_t entries;
    if (!t)
        return NULL;
    *t = (mh_translations){
        .store.allocator = mh_context_allocator(context), .count = count, .n_best = n_best};
    if (!mh_multiply_sizes(count, n_best, &entries))
        entries = SIZE_MAX; // the store then fails with a message
    t->sources = mh_result_take(context, &t->store, count, sizeof *t->sources);
    t->found = mh_result_take(context, &t->store, count, sizeof *t->found);
    t->list = mh_result_take(context, &t->store, entries, sizeof *t->list);
    if (t->sources && t->found && t->list) {
        memset(t->found, 0, count * sizeof *t->found);
        return t;
    }
    mh_translations_free(t);
    return NULL;
}

void mh_translations_free(mh_translations *t)
{
    if (!t)
        return;
    mh_allocator allocator = t->store.allocator;
    mh_result_free(&t->store);
    allocator.release(allocator.user, t, sizeof *t);
}

const mh_translation *mh_translations_at(const mh_translations *t, size_t i, size_t rank)
{
    return i < t->count && rank < t->found[i] ? &t->list[i * t->n_best + rank] : NULL;
}

// ---- all of it ----------------------------------------------------------------------------------

static mh_status translate_texts(mh_context *context, const mh_translator *t,
                                 const mh_translate_options *o, const mh_text *texts,
                                 mh_translations *translations)
{
    mh_segment_list segments = {0};
    mh_segment **order = NULL;
    mh_status status = mh_cut_texts(context, t, texts, translations, &segments);
    if (!status && segments.count) {
        order = mh_alloc(context, segments.count * sizeof *order);
        status = order
                     ? mh_translate_schedule(context, t, o, &segments, order, &translations->store)
                     : MH_ERROR_MEMORY;
    }
    if (!status)
        status = mh_translate_assemble(context, t, &segments, translations);
    mh_free(context, order, segments.count * sizeof *order);
    mh_shrink(context, &segments.items, &segments.capacity, sizeof *segments.items);
    return status;
}

mh_status mh_translate(mh_context *context, const mh_translator *translator,
                       const mh_translate_options *options, const mh_text *texts, size_t count,
                       mh_translations **translations)
{
    mh_translate_options own;
    if (mh_need(context, translations, "translations"))
        return MH_ERROR_ARGUMENT;
    *translations = NULL;
    mh_status status = mh_translate_check(context, translator, options, texts, count, &own);
    mh_translations *t = status ? NULL : mh_translations_create(context, count, own.n_best);
    if (!t)
        return status ? status : MH_ERROR_MEMORY;
    mh_fpenv saved = mh_fpenv_enter();
    status = translate_texts(context, translator, &own, texts, t);
    mh_fpenv_leave(saved);
    if (status) {
        mh_translations_free(t);
        return status;
    }
    *translations = t;
    return MH_OK;
}
