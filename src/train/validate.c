// SPDX-License-Identifier: MIT
// Validation: the loss on the references, and the scores of the model's translations.
#include "train/validate.h"

#include "base/compiler.h"

void mh_validation_free(mh_context *context, mh_validation *data)
{
    mh_batch_rows_free(context, &data->rows);
    mh_batches_free(context, &data->batches);
    mh_dataset_free(context, &data->examples);
    mh_corpus_free(context, &data->corpus);
}

mh_status mh_validation_loss(mh_context *context, const mh_translator *translator,
                             mh_validation *data, mh_loss_memory *memory, size_t batch,
                             double *loss)
{
    const mh_loss_options options = {0};
    const int32_t bos = mh_tokenizer_bos(mh_translator_tokenizer(translator));
    const mh_batches *plan = &data->batches;
    mh_pair_batch rows;
    MH_TRY(mh_batch_rows_fill(context, &data->examples, plan->examples + plan->starts[batch],
                              plan->starts[batch + 1] - plan->starts[batch], bos, &data->rows,
                              &rows));
    return mh_translator_loss(context, translator, &options, &rows, memory, loss);
}

static double count_exact(const mh_text *found, const mh_text *wanted, size_t count)
{
    size_t exact = 0;
    for (size_t i = 0; i < count; i++)
        exact += found[i].size == wanted[i].size &&
                 !memcmp(found[i].bytes, wanted[i].bytes, found[i].size);
    return (double)exact / (double)count;
}

mh_status mh_validation_scores(mh_context *context, const mh_corpus *corpus, const mh_text *found,
                               mh_validation_score *score)
{
    mh_bleu_score bleu = mh_bleu_score_default();
    mh_status status = mh_bleu(context, found, corpus->targets, corpus->count, 1, false, &bleu);
    if (!status)
        status = mh_chrf(context, found, corpus->targets, corpus->count, 1, 0, false, &score->chrf);
    score->bleu = score->quality = status ? 0 : bleu.score;
    score->exact = count_exact(found, corpus->targets, corpus->count);
    return status;
}

bool mh_validation_beats(const mh_validation_score *score, const mh_validation_score *best)
{
    const bool both_chance = score->quality < 1 && best->quality < 1 && best->loss > 0;
    if (both_chance || score->quality == best->quality)
        return score->loss < best->loss;
    return score->quality > best->quality;
}
