// SPDX-License-Identifier: MIT
// One update: gradients of the next batches, grain by grain, their norm, and AdamW's step.
#include "train/run_ranks.h"

#include "base/compiler.h"
#include "base/size_math.h"
#include "base/trig.h"
#include "support/grow.h"
#include <inttypes.h>
#include <math.h>
#include <multihead/optimiser.h>

// Half a cosine from the peak, at the end of the warm-up, to the least rate, at update `decay`.
static double cosine_rate(const mh_run *run, double update, double warmup)
{
    const double least = run->options->min_learning_rate, decay = (double)run->decay;
    if (update >= decay)
        return least;
    const double part = (update - warmup) / (decay - warmup);
    return least + (run->options->learning_rate - least) * 0.5 * (1 + mh_cos_turns(part / 2));
}

// The rate grows linearly up to `update` = warmup, then decays by the schedule.
static double learning_rate(const mh_run *run, uint64_t update)
{
    const double u = (double)update, warmup = run->warmup ? (double)run->warmup : 1;
    if (u < warmup)
        return run->options->learning_rate * (u / warmup);
    return run->options->schedule == MH_SCHEDULE_COSINE
               ? cosine_rate(run, u, warmup)
               : run->options->learning_rate * sqrt(warmup / u);
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
    MH_TRY(mh_grains_cut(run->context, &run->examples, plan, first, first + count, run->task->grain,
                         &run->grains));
    return mh_grow(run->context, &run->losses, &run->losses_capacity, run->grains.count,
                   sizeof *run->losses)
               ? MH_OK
               : MH_ERROR_MEMORY;
}

// The loss of one grain, and a node of its gradients. Of the last one, layers are sent as soon as
// they are finished.
static mh_status add_grain(mh_run *run, const mh_loss_options *options, size_t i, bool last,
                           double *loss)
{
    mh_loss_options o = *options;
    o.step = (uint32_t)(run->progress.grains + i);
    o.gradients = mh_run_reduce_scatter_take(run, i);
    if (!o.gradients)
        return MH_ERROR_MEMORY;
    if (last && run->ranks.ranks > 1) {
        o.ready = mh_run_reduce_scatter_ready;
        o.ready_user = run;
    }
    MH_TRY(run->task->loss(run, &run->grains.list[i], &o, loss));
    mh_run_reduce_scatter_add(run, i);
    return MH_OK;
}

// Losses and gradients of this rank's grains, as parts of the mean over all tokens.
static mh_status add_gradients(mh_run *run, size_t tokens)
{
    const mh_loss_options o = {.label_smoothing = (float)run->options->label_smoothing,
                               .fresh = true,
                               .gradient_scale = 1 / (float)tokens,
                               .training = true,
                               .seed = run->options->seed};
    const size_t end = mh_run_first_grain(run, run->ranks.rank + 1);
    for (size_t i = mh_run_first_grain(run, run->ranks.rank); i < end; i++)
        MH_TRY(add_grain(run, &o, i, i + 1 == end, &run->losses[i]));
    return MH_OK;
}

// The sum of all grains' losses, in their order.
static mh_status sum_losses(mh_run *run, double *loss)
{
    for (size_t r = 0; r <= run->ranks.ranks; r++)
        run->starts[r] = mh_run_first_grain(run, r) * sizeof(double);
    MH_TRY(mh_run_gather(run, run->losses));
    *loss = 0;
    for (size_t i = 0; i < run->grains.count; i++)
        *loss += run->losses[i];
    return MH_OK;
}

// The norms of the own segments.
static mh_status measure_segments(mh_run *run, const float *gradients, double *norms)
{
    for (size_t s = 0; s < run->stripes; s++) {
        const size_t count = mh_run_slice(run, s, run->ranks.rank).count;
        const float *slice = gradients + mh_run_slice_offset(run, s);
        for (size_t first = 0; first < count; first += MH_SEGMENT) {
            const size_t n = mh_smaller(MH_SEGMENT, count - first);
            const float *const segment = slice + first;
            MH_TRY(mh_gradient_norm(run->context, 1, &n, &segment, norms++));
        }
    }
    return MH_OK;
}

static size_t segments_of_slice(const mh_run *run, size_t stripe, size_t rank)
{
    return (mh_run_slice(run, stripe, rank).count + MH_SEGMENT - 1) / MH_SEGMENT;
}

// Where the norms of each rank's segments are: run->starts.
static void place_norms(mh_run *run)
{
    run->starts[0] = 0;
    for (size_t r = 0; r < run->ranks.ranks; r++) {
        run->starts[r + 1] = run->starts[r];
        for (size_t s = 0; s < run->stripes; s++)
            run->starts[r + 1] += segments_of_slice(run, s, r) * sizeof *run->norms;
    }
}

// The own slices of the sum of all gradients, and the norms of their segments.
static mh_status measure_gradients(mh_run *run, const float **gradients)
{
    mh_run_reduce_scatter_end(run, gradients);
    place_norms(run);
    return measure_segments(run, *gradients,
                            run->norms + run->starts[run->ranks.rank] / sizeof *run->norms);
}

// The square root of the sum, in order, of the squared norms of segments, of which every rank has
// measured its own.
static mh_status sum_norms(mh_run *run, double *norm)
{
    const size_t R = run->ranks.ranks;
    double sum = 0;
    place_norms(run);
    MH_TRY(mh_run_gather(run, run->norms));
    for (size_t s = 0; s < run->stripes; s++)
        for (size_t r = 0; r < R; r++)
            for (size_t n = segments_of_slice(run, s, r); n > 0; n--) {
                const double next = run->norms[run->starts[r] / sizeof next];
                run->starts[r] += sizeof next;
                sum += next * next;
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
    const mh_run_arrays *a = &run->arrays;
    MH_TRY(mh_run_all_gather_begin(run, a->parameters));
    for (size_t s = 0; s < run->stripes; s++) {
        const mh_slice slice = mh_run_slice(run, s, run->ranks.rank);
        MH_TRY(mh_adamw_step(run->context, &adam, run->progress.update + 1, slice.count,
                             gradients + mh_run_slice_offset(run, s), a->parameters + slice.first,
                             a->m + slice.first, a->v + slice.first));
        MH_TRY(mh_run_all_gather_send(run, a->parameters, s));
    }
    return mh_run_all_gather_end(run);
}

// What an update needs before the ranks compute and exchange messages.
static mh_status prepare_update(mh_run *run, size_t *tokens)
{
    MH_TRY(mh_run_plan_epoch(run));
    MH_TRY(take_grains(run, tokens));
    return mh_run_reduce_scatter_prepare(run);
}

// All ranks have the same loss and norm, and return the same.
static mh_status check_finite(mh_run *run, double loss, double norm, size_t tokens)
{
    run->agreed = !isfinite(loss) || !isfinite(norm);
    return run->agreed
               ? mh_fail(run->context, MH_ERROR_DIVERGED,
                         "update %" PRIu64 ": the loss is %g and the gradients' norm %g; the last "
                         "checkpoint is kept. Try a lower learning rate or a longer warm-up",
                         run->progress.update + 1, fabs(loss) / (double)tokens,
                         fabs(norm)) // no "-nan"
               : MH_OK;
}

static void count_update(mh_run *run, double loss, double norm, size_t tokens)
{
    mh_progress *p = &run->progress;
    mh_train_event *e = &run->event;
    p->update++;
    p->tokens += tokens;
    p->loss_sum += loss;
    p->loss_tokens += tokens;
    if (p->batch == run->plan.count) {
        p->epoch++;
        p->batch = 0;
    }
    const double now = loss / (double)tokens;
    e->loss = e->loss > 0 ? e->loss + 0.02 * (now - e->loss) : now;
    e->gradient_norm = norm;
    e->tokens_now += tokens;
}

static mh_status run_update(mh_run *run)
{
    double loss, norm;
    size_t tokens = 0;
    const float *gradients;
    MH_TRY(mh_run_agree(run, prepare_update(run, &tokens)));
    MH_TRY(mh_run_reduce_scatter_begin(run));
    mh_status status = add_gradients(run, tokens);
    MH_TRY(mh_run_reduce_scatter_exchange(run, status));
    if (!status)
        status = measure_gradients(run, &gradients);
    MH_TRY(mh_run_agree(run, status));
    MH_TRY(sum_losses(run, &loss));
    MH_TRY(sum_norms(run, &norm));
    run->progress.grains += run->grains.count;
    MH_TRY(check_finite(run, loss, norm, tokens));
    MH_TRY(train_step(run, gradients, norm));
    count_update(run, loss, norm, tokens);
    return MH_OK;
}

mh_status mh_run_update(mh_run *run)
{
    if (run->ranks.ranks == 1)
        return run_update(run);
    mh_context_set_poll(run->context, mh_run_poll, run);
    const mh_status status = run_update(run);
    mh_context_set_poll(run->context, NULL, NULL);
    return status;
}
