// SPDX-License-Identifier: MIT
// See classifier.h.
#include "train/classifier.h"
#include "base/compiler.h"

static mh_status classifier_forward(mh_run *run, mh_classifier_batch *b)
{
    MH_TRY(mh_model_hidden(run->context, run->model, &b->input, &b->hidden));
    return mh_model_classify(run->context, run->model, &b->input, &b->hidden, &b->logits);
}

// `gradients`: NULL, or those of the logits, which may overwrite them.
static mh_status classifier_cross_entropy(mh_run *run, const mh_classifier_batch *b,
                                          float smoothing, float scale, mh_tensor *gradients,
                                          double *loss)
{
    const mh_tensor labels = mh_tensor_1d(b->labels, MH_I32, b->logits.shape[0]);
    mh_cross_entropy_options o = mh_cross_entropy_options_default();
    o.reduction = MH_REDUCTION_SUM;
    o.label_smoothing = smoothing;
    o.gradient_scale = scale;
    return mh_cross_entropy(run->context, &o, &b->logits, &labels, loss, NULL, gradients);
}

mh_status mh_classifier_loss(mh_run *run, mh_classifier_batch *b, const mh_loss_options *options,
                             double *loss)
{
    mh_tape *tape = mh_model_task_tape(run);
    if (!tape)
        return MH_ERROR_MEMORY;
    mh_model_task_put(run);
    mh_model_task_train(options, tape, &b->input);
    MH_TRY(classifier_forward(run, b));
    MH_TRY(classifier_cross_entropy(run, b, options->label_smoothing, options->gradient_scale,
                                    &b->logits, loss));
    const mh_model_gradients g = mh_model_task_gradients(run, options);
    memset(b->dhidden.data, 0, mh_tensor_count(&b->dhidden) * sizeof(float));
    MH_TRY(mh_model_classify_backward(run->context, run->model, &b->input, &b->hidden, &b->logits,
                                      &b->dhidden, &g));
    return mh_model_hidden_backward(run->context, run->model, &b->input, &b->dhidden, &g);
}

// How many rows of logits are largest at their label.
static double count_correct(const mh_classifier_batch *b)
{
    const size_t L = b->logits.shape[1];
    double correct = 0;
    for (size_t i = 0; i < b->logits.shape[0]; i++) {
        const float *row = (const float *)b->logits.data + i * L;
        size_t best = 0;
        for (size_t k = 1; k < L; k++)
            best = row[k] > row[best] ? k : best;
        correct += (int32_t)best == b->labels[i];
    }
    return correct;
}

mh_status mh_classifier_score(mh_run *run, mh_classifier_batch *b, mh_batch_score *score)
{
    MH_TRY(classifier_forward(run, b));
    score->correct = count_correct(b);
    return classifier_cross_entropy(run, b, 0, 1, NULL, &score->loss);
}

mh_status mh_classifier_validate(mh_run *run, mh_batch_score_fn score_batch, mh_validation_fn told,
                                 mh_validation_score *score, bool *stopped)
{
    mh_batch_score sum;
    MH_TRY(mh_model_task_validate(run, score_batch, told, &sum, stopped));
    const double count = (double)run->valid.examples.count;
    score->loss = sum.loss / count;
    score->accuracy = sum.correct / count;
    score->quality = 100 * score->accuracy;
    return MH_OK;
}
