// SPDX-License-Identifier: MIT
// Validation: the loss on the references, and the scores of the model's translations.
#include "train/validate.h"

void mh_validation_free(mh_context *context, mh_validation *data)
{
    mh_batch_rows_free(context, &data->rows);
    mh_batches_free(context, &data->batches);
    mh_dataset_free(context, &data->examples);
    mh_corpus_free(context, &data->corpus);
}

static mh_status measure_loss(mh_context *context, const mh_translator *translator,
                              mh_validation *data, mh_loss_memory *memory, double *loss)
{
    const mh_loss_options options = {0};
    const int32_t bos = mh_tokenizer_bos(mh_translator_tokenizer(translator));
    const mh_batches *plan = &data->batches;
    size_t tokens = 0;
    mh_status status = MH_OK;
    *loss = 0;
    for (size_t b = 0; b < plan->count && !status; b++) {
        const uint32_t *which = plan->examples + plan->starts[b];
        const size_t count = plan->starts[b + 1] - plan->starts[b];
        mh_pair_batch batch;
        double part = 0;
        status =
            mh_batch_rows_fill(context, &data->examples, which, count, bos, &data->rows, &batch);
        if (!status)
            status = mh_translator_loss(context, translator, &options, &batch, memory, &part);
        *loss += part;
        tokens += mh_target_tokens(&data->examples, which, count);
    }
    *loss /= (double)tokens;
    return status;
}

// ---- translations -------------------------------------------------------------------------------

static double count_exact(const mh_text *found, const mh_text *wanted, size_t count)
{
    size_t exact = 0;
    for (size_t i = 0; i < count; i++)
        exact += found[i].size == wanted[i].size &&
                 !memcmp(found[i].bytes, wanted[i].bytes, found[i].size);
    return (double)exact / (double)count;
}

static mh_status score_texts(mh_context *context, const mh_corpus *corpus, const mh_text *found,
                             mh_validation_score *score)
{
    mh_bleu_score bleu = mh_bleu_score_default();
    mh_status status = mh_bleu(context, found, corpus->targets, corpus->count, 1, false, &bleu);
    if (!status)
        status = mh_chrf(context, found, corpus->targets, corpus->count, 1, 0, false, &score->chrf);
    score->bleu = status ? 0 : bleu.score;
    score->exact = count_exact(found, corpus->targets, corpus->count);
    return status;
}

bool mh_validation_beats(const mh_validation_score *score, const mh_validation_score *best)
{
    const bool both_chance = score->bleu < 1 && best->bleu < 1 && best->loss > 0;
    if (both_chance || score->bleu == best->bleu)
        return score->loss < best->loss;
    return score->bleu > best->bleu;
}

// A model whose parameters have diverged may find no translation.
static mh_text validate_text_of(const mh_translation *translation)
{
    return translation ? (mh_text){translation->text.bytes, translation->text.size}
                       : (mh_text){"", 0};
}

typedef struct listener {
    mh_validation_fn told;
    void *user;
    bool stopped;
} listener;

static bool pass_on(void *user, size_t done, size_t total)
{
    listener *l = user;
    l->stopped |= !l->told(l->user, (double)done / (double)total);
    return !l->stopped;
}

mh_status mh_validate(mh_context *context, const mh_translator *translator, mh_validation *data,
                      mh_loss_memory *memory, mh_validation_fn told, void *user,
                      mh_validation_score *score, bool *stopped)
{
    listener l = {told, user, false};
    mh_translate_options options = mh_translate_options_default();
    options.beam = 1;
    options.progress = pass_on;
    options.progress_user = &l;
    mh_translations *translations = NULL;
    const size_t count = data->corpus.count;
    mh_text *found = mh_alloc(context, count * sizeof *found);
    mh_status status =
        found ? measure_loss(context, translator, data, memory, &score->loss) : MH_ERROR_MEMORY;
    if (!status)
        status =
            mh_translate(context, translator, &options, data->corpus.sources, count, &translations);
    *stopped = l.stopped;
    for (size_t i = 0; i < count && !status && !l.stopped; i++)
        found[i] = validate_text_of(mh_translations_at(translations, i, 0));
    if (!status && !l.stopped)
        status = score_texts(context, &data->corpus, found, score);
    mh_translations_free(translations);
    mh_free(context, found, count * sizeof *found);
    return status;
}
