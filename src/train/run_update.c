// SPDX-License-Identifier: MIT
// One update: gradients of the next batches, grain by grain, their norm, and AdamW's step.
#include "train/run_internal.h"

#include "base/compiler.h"
#include "base/size_math.h"
#include <inttypes.h>
#include <math.h>
#include <multihead/optimiser.h>

enum { SEGMENT = 131072 }; // of the norm; changes the bits of training

// The rate grows linearly up to `update` = warmup, then decays as 1 / sqrt(update).
static double learning_rate(const mh_run *run, uint64_t update)
{
    const double u = (double)update, warmup = run->warmup ? (double)run->warmup : 1;
    return run->options->learning_rate * (u < warmup ? u / warmup : sqrt(warmup / u));
}

// The grains of the next batches, at most `accumulate` of them within the epoch; *tokens: their
// target tokens.
static mh_status take_grains(mh_run *run, size_t *tokens)
{
    mh_progress *p = &run->progress;
    const mh_batches *plan = &run->plan;
    const size_t first = (size_t)p->batch;
    const size_t count = mh_smaller(plan->count - first, run->options->accumulation_steps);
    const uint32_t begin = plan->starts[first];
    *tokens = mh_target_tokens(&run->examples, plan->examples + begin,
                               plan->starts[first + count] - begin);
    p->batch += count;
    return mh_grains_cut(run->context, &run->examples, plan, first, first + count, &run->grains);
}

// The loss of one grain, and a node of its gradients.
static mh_status add_grain(mh_run *run, const mh_loss_options *options, size_t i, double *loss)
{
    const mh_grain *grain = &run->grains.list[i];
    mh_loss_options o = *options;
    mh_pair_batch batch;
    o.step = (uint32_t)(run->progress.grains + i);
    o.gradients = mh_gradient_tree_take(&run->gradients);
    if (!o.gradients)
        return MH_ERROR_MEMORY;
    mh_status status = mh_batch_rows_fill(
        run->context, &run->examples, grain->examples, grain->count,
        mh_tokenizer_bos(mh_translator_tokenizer(run->translator)), &run->rows, &batch);
    if (!status)
        status = mh_translator_loss(run->context, run->translator, &o, &batch, run->memory, loss);
    if (status)
        mh_gradient_tree_give(&run->gradients, o.gradients);
    else
        mh_gradient_tree_add(&run->gradients, (mh_tree_node){0, i, o.gradients});
    return status;
}

// Gradients of the next batches, as a mean over all their tokens.
static mh_status add_gradients(mh_run *run, double *loss, size_t *tokens)
{
    MH_TRY(take_grains(run, tokens));
    const mh_loss_options o = {.label_smoothing = (float)run->options->label_smoothing,
                               .fresh = true,
                               .gradient_scale = 1 / (float)*tokens,
                               .training = true,
                               .seed = run->options->seed};
    mh_gradient_tree_clear(&run->gradients);
    *loss = 0;
    for (size_t i = 0; i < run->grains.count; i++) {
        double part;
        MH_TRY(add_grain(run, &o, i, &part));
        *loss += part;
    }
    run->progress.grains += run->grains.count;
    mh_gradient_tree_sum(&run->gradients);
    return MH_OK;
}

// The square root of the sum, in order, of the squared norms of segments.
static mh_status measure_norm(mh_run *run, const float *gradients, double *norm)
{
    const size_t floats = run->arrays.floats;
    double sum = 0;
    for (size_t first = 0; first < floats; first += SEGMENT) {
        const size_t n = mh_smaller(SEGMENT, floats - first);
        const float *const segment = gradients + first;
        double part;
        MH_TRY(mh_gradient_norm(run->context, 1, &n, &segment, &part));
        sum += part * part;
    }
    *norm = sqrt(sum);
    return MH_OK;
}

static mh_status train_step(mh_run *run, const float *gradients, double norm)
{
    const mh_train_options *o = run->options;
    mh_adamw_options adam = mh_adamw_options_default();
    adam.learning_rate = run->event.learning_rate = learning_rate(run, run->progress.update + 1);
    adam.beta1 = o->beta1;
    adam.beta2 = o->beta2;
    adam.epsilon = o->epsilon;
    adam.weight_decay = o->weight_decay;
    adam.gradient_scale = o->clip > 0 ? mh_clip_factor(norm, o->clip) : 1;
    return mh_adamw_step(run->context, &adam, run->progress.update + 1, run->arrays.floats,
                         gradients, run->arrays.parameters, run->arrays.m, run->arrays.v);
}

mh_status mh_run_update(mh_run *run)
{
    mh_progress *p = &run->progress;
    double loss, norm;
    size_t tokens;
    MH_TRY(mh_run_plan_epoch(run));
    MH_TRY(add_gradients(run, &loss, &tokens));
    const float *gradients = run->gradients.nodes[0].sum;
    MH_TRY(measure_norm(run, gradients, &norm));
    if (!isfinite(loss) || !isfinite(norm))
        return mh_fail(run->context, MH_ERROR_DIVERGED,
                       "update %" PRIu64 ": the loss is %g and the gradients' norm %g; the last "
                       "checkpoint is kept. Try a lower learning rate or a longer warm-up",
                       p->update + 1, fabs(loss) / (double)tokens, fabs(norm)); // no "-nan"
    MH_TRY(train_step(run, gradients, norm));
    p->update++;
    p->tokens += tokens;
    p->loss_sum += loss;
    p->loss_tokens += tokens;
    if (p->batch == run->plan.count) {
        p->epoch++;
        p->batch = 0;
    }
    const double now = loss / (double)tokens, before = run->event.loss;
    run->event.loss = before > 0 ? before + 0.02 * (now - before) : now;
    run->event.gradient_norm = norm;
    run->event.tokens_now += tokens;
    return MH_OK;
}
