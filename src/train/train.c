// SPDX-License-Identifier: MIT
// Training: updates, and the saves and validations that are due after some of them.
//
//     update -> (save due?) snapshot -> their mean -> (validation due?) scores -> model, card
//                        -> checkpoint
//
// If a run is interrupted in between, the last checkpoint records the remaining steps.
#include <multihead/train.h>

#include "base/argument_check.h"
#include "base/clock.h"
#include "base/communicator_check.h"
#include "base/compiler.h"
#include "base/fpenv.h"
#include "base/sized_struct.h"
#include "train/model_card.h"
#include "train/run_ranks.h"
#include <inttypes.h>
#include <math.h>

static void train_tell(mh_run *run, mh_train_event_kind kind)
{
    mh_train_event *e = &run->event;
    const mh_progress *p = &run->progress;
    e->kind = kind;
    e->update = p->update;
    e->epoch = p->epoch;
    e->tokens = p->tokens;
    e->updates = run->updates;
    e->warmup = run->warmup;
    e->epoch_part = run->plan.count ? (double)p->batch / (double)run->plan.count : 0;
    e->part = mh_duration_part(run->options->after, p, e->epoch_part);
    e->seconds = mh_clock_seconds() - run->begun;
    if (run->options->event && !run->options->event(run->options->user, e))
        run->stopped = true;
}

mh_status mh_run_plan_epoch(mh_run *run)
{
    const mh_batch_options options = {run->options->seed, run->batch_tokens};
    if (run->plan.count && run->planned == run->progress.epoch)
        return MH_OK;
    run->planned = run->progress.epoch;
    return mh_batches_plan(run->context, &run->examples, &options, run->planned, &run->plan);
}

// The checkpoint is untrusted: its position may not fit the epoch.
static mh_status check_progress(mh_run *run)
{
    const struct {
        const char *name;
        uint64_t found, most;
    } progress[] = {
        {"batch", run->progress.batch, run->plan.count - 1},
        {"pending", run->progress.pending,
         mh_run_validates(run) ? MH_PENDING_VALIDATION : MH_PENDING_SAVE},
    };
    for (size_t i = 0; i < sizeof progress / sizeof *progress; i++)
        if (progress[i].found > progress[i].most)
            return mh_fail(run->context, MH_ERROR_FORMAT,
                           "%.700s/" MH_CHECKPOINT_NAME ": \"%s\": found %" PRIu64
                           ", expected at most %" PRIu64,
                           run->options->directory, progress[i].name, progress[i].found,
                           progress[i].most);
    return MH_OK;
}

// Logs every update up to the 10th, every 10th up to the 100th, then every 100th, and at every
// validation and save: short runs have a curve, too.
static bool log_is_due(const mh_progress *p)
{
    const uint64_t every = p->update <= 10 ? 1 : p->update <= 100 ? 10 : 100;
    return p->pending || p->update % every == 0;
}

static mh_status log_losses(mh_run *run)
{
    mh_progress *p = &run->progress;
    if (!log_is_due(p))
        return MH_OK;
    mh_train_event line = run->event;
    line.loss = p->loss_sum / (double)p->loss_tokens;
    p->loss_sum = 0;
    p->loss_tokens = 0;
    return mh_run_log_updated(&run->log, &line, run->options->label_smoothing);
}

// ---- after an update ----------------------------------------------------------------------------

static bool over(const mh_run *run)
{
    const mh_train_options *o = run->options;
    return mh_duration_over(o->after, &run->progress) ||
           (o->patience && run->progress.stale >= o->patience);
}

static mh_pending what_is_due(const mh_run *run, const mh_progress *before)
{
    const mh_train_options *o = run->options;
    const bool valid = mh_run_validates(run);
    if (over(run) || (valid && mh_duration_due(o->valid_every, before, &run->progress)))
        return valid ? MH_PENDING_VALIDATION : MH_PENDING_SAVE;
    return mh_duration_due(o->save_every, before, &run->progress) ? MH_PENDING_SAVE
                                                                  : MH_PENDING_NOTHING;
}

static mh_status write_checkpoint(mh_run *run, const char *directory)
{
    MH_TRY(mh_run_log_sync(&run->log));
    return mh_checkpoint_save(run->context, directory, &run->settings, &run->progress,
                              &run->arrays);
}

// All ranks' moments, for the leader.
static mh_status gather_moments(mh_run *run)
{
    MH_TRY(mh_run_all_gather(run, run->arrays.m));
    return mh_run_all_gather(run, run->arrays.v);
}

// The leader's step: it gets the moments that the others have.
static mh_status collect_moments(mh_run *run)
{
    mh_run_step step = MH_STEP_GATHER;
    MH_TRY(mh_run_next(run, &step, MH_OK));
    return gather_moments(run);
}

static mh_status save_checkpoint(mh_run *run)
{
    mh_status status = collect_moments(run);
    if (!status)
        status = mh_run_check_directory(run);
    if (!status)
        status = write_checkpoint(run, run->options->directory);
    if (!status)
        train_tell(run, MH_TRAIN_SAVED);
    return status;
}

// Saves a run whose directory was moved to its new path; keeps the error message about it, which
// the other ranks do not know yet.
static mh_status save_moved(mh_run *run)
{
    char where[MH_PATH_BYTES];
    if (!mh_directory_where(&run->directory, where))
        return mh_run_check_directory(run);
    mh_status status = collect_moments(run);
    if (!status)
        status = write_checkpoint(run, where);
    return status ? status : mh_run_check_directory(run);
}

static mh_status save_model(mh_run *run)
{
    mh_status status = mh_run_check_directory(run);
    if (status)
        return status;
    status = run->task->save(run);
    const mh_model_info *model = run->model ? mh_model_describe(run->model) : NULL;
    return status ? status : mh_card_write(run->context, run->options, model, &run->event);
}

static bool told_part(void *user, double part)
{
    mh_run *run = user;
    mh_train_event *e = &run->event;
    e->kind = MH_TRAIN_VALIDATES;
    e->part = part;
    e->seconds = mh_clock_seconds() - run->begun;
    if (run->options->event && !run->options->event(run->options->user, e))
        run->stopped = true;
    return !run->stopped;
}

// Scores the current model, and keeps it if it is the best. *cut: stopped by the caller.
static mh_status validate(mh_run *run, bool *cut)
{
    mh_progress *p = &run->progress;
    mh_train_event *e = &run->event;
    mh_validation_score score = {0};
    mh_run_step step = MH_STEP_VALIDATE;
    mh_status status = mh_run_next(run, &step, MH_OK);
    if (!status)
        status = mh_run_validate(run, told_part, &score, cut);
    if (status || *cut)
        return status;
    e->valid_loss = score.loss;
    e->bleu = score.bleu;
    e->accuracy = score.accuracy;
    e->bits_per_byte = score.bits_per_byte;
    e->sample = run->sample.size ? (const char *)run->sample.data : NULL;
    e->chrf = score.chrf;
    e->exact = score.exact;
    const mh_validation_score best = {.loss = p->best_loss, .quality = p->best_quality};
    e->best = !p->best_update || mh_validation_beats(&score, &best);
    if (e->best)
        status = save_model(run);
    if (status)
        return status;
    p->stale = e->best ? 0 : p->stale + 1;
    p->best_quality = e->best ? score.quality : p->best_quality;
    p->best_loss = e->best ? score.loss : p->best_loss;
    p->best_update = e->best ? p->update : p->best_update;
    train_tell(run, MH_TRAIN_VALIDATED);
    return mh_run_log_validated(&run->log, e);
}

// Replaces the parameters by the mean of the last snapshots, this one included.
static mh_status put_mean(mh_run *run)
{
    const mh_train_options *o = run->options;
    const mh_run_arrays *a = &run->arrays;
    const uint64_t saves = run->progress.saves;
    mh_status status = mh_run_check_directory(run);
    if (!status)
        status = mh_snapshot_save(run->context, o->directory, saves, o->average, a->floats,
                                  a->parameters);
    memcpy(run->aside, a->parameters, a->floats * sizeof(float));
    return status ? status
                  : mh_snapshots_mean(run->context, o->directory, saves + 1, o->average, a->floats,
                                      a->parameters);
}

static mh_status do_pending(mh_run *run)
{
    const mh_run_arrays *a = &run->arrays;
    const bool mean = run->options->average > 1;
    bool cut = false;
    mh_status status = mean ? put_mean(run) : MH_OK;
    if (!status && run->progress.pending == MH_PENDING_VALIDATION)
        status = validate(run, &cut);
    else if (!status && !mh_run_validates(run))
        status = save_model(run);
    if (mean)
        memcpy(a->parameters, run->aside, a->floats * sizeof(float));
    if (status || cut)
        return status;
    run->progress.saves++;
    run->progress.pending = MH_PENDING_NOTHING;
    return save_checkpoint(run);
}

// One update of all ranks.
static mh_status update(mh_run *run)
{
    mh_run_step step = MH_STEP_UPDATE;
    MH_TRY(mh_run_next(run, &step, MH_OK));
    return mh_run_update(run);
}

static mh_status lead(mh_run *run)
{
    mh_status status = MH_OK;
    train_tell(run, MH_TRAIN_BEGINS);
    while (!status && !run->stopped) {
        if (run->progress.pending)
            status = do_pending(run);
        if (status || run->stopped || over(run))
            break;
        const mh_progress before = run->progress;
        status = update(run);
        if (status)
            break;
        run->progress.pending = what_is_due(run, &before);
        train_tell(run, MH_TRAIN_UPDATED);
        status = log_losses(run);
    }
    if (run->stopped && !status)
        status = save_checkpoint(run);
    return run->moved ? save_moved(run) : status;
}

static bool ignore_part(void *user, double part)
{
    (void)user, (void)part;
    return true;
}

// What the leader says, until it ends.
static mh_status follow(mh_run *run)
{
    mh_validation_score score;
    mh_run_step step;
    bool cut;
    train_tell(run, MH_TRAIN_BEGINS);
    for (;;) {
        MH_TRY(mh_run_next(run, &step, MH_OK));
        switch (step) {
        case MH_STEP_END:
            return MH_OK;
        case MH_STEP_UPDATE:
            MH_TRY(mh_run_update(run));
            train_tell(run, MH_TRAIN_UPDATED);
            break;
        case MH_STEP_GATHER:
            MH_TRY(gather_moments(run));
            break;
        case MH_STEP_VALIDATE:
            MH_TRY(mh_run_validate(run, ignore_part, &score, &cut));
            break;
        }
    }
}

// Of a run that is extended: after the end of its cosine the weights stay as they are.
static void warn_of_rate(const mh_run *run)
{
    const mh_train_options *o = run->options;
    if (o->schedule == MH_SCHEDULE_COSINE && o->min_learning_rate <= 0 && run->updates > run->decay)
        mh_log(run->context, MH_LOG_WARNING,
               "the learning rate is 0 from update %" PRIu64
               " on, where the cosine of the run ends: nothing more is learnt; a new run with "
               "--init can start from this model",
               run->decay);
}

// Up to the first update, or to the end of a run that is complete.
static mh_status prepare(mh_run *run, mh_train_result *result)
{
    MH_TRY(mh_run_prepare(run));
    result->resumed = run->resumed;
    result->finished = over(run) && !run->progress.pending;
    if (!result->finished)
        warn_of_rate(run);
    MH_TRY(mh_run_plan_epoch(run));
    MH_TRY(check_progress(run));
    return result->finished || !run->resumed // a new run has opened its log
               ? MH_OK
               : mh_run_log_open(run->context, run->options->directory, run->progress.update,
                                 &run->log);
}

// The leader ends the run on all ranks, with its own error unless that is theirs, too.
static mh_status prepare_and_lead(mh_run *run, mh_train_result *result)
{
    mh_run_step step = MH_STEP_END;
    MH_TRY(mh_run_share(run, prepare(run, result)));
    run->begun = mh_clock_seconds();
    const mh_status status = result->finished ? MH_OK : lead(run);
    return run->agreed ? status : mh_run_next(run, &step, status);
}

static mh_status prepare_and_follow(mh_run *run)
{
    MH_TRY(mh_run_share(run, MH_OK));
    return follow(run);
}

static void report_run(const mh_run *run, mh_train_result *result)
{
    const mh_progress *p = &run->progress;
    result->bytes_sent = run->bytes_sent;
    result->bytes_early = run->bytes_early;
    result->agreed = run->agreed;
    result->stopped = run->stopped;
    result->impatient = run->options->patience && p->stale >= run->options->patience;
    result->update = p->update;
    result->epoch = p->epoch;
    result->tokens = p->tokens;
    result->warmup = run->warmup;
    const mh_task_kind task = run->task->kind;
    const bool classifies = task == MH_TASK_IMAGES || task == MH_TASK_CLASSIFICATION;
    const double best = p->best_update ? p->best_quality : NAN;
    result->best_bleu = task == MH_TASK_TRANSLATION ? best : NAN;
    result->best_accuracy = classifies ? best / 100 : NAN;
    result->best_loss = p->best_update ? p->best_loss : NAN;
    result->best_update = p->best_update;
    result->baseline = run->baseline;
}

static mh_status check_kinds(mh_context *context, const mh_train_options *o)
{
    if ((unsigned)o->task > MH_TASK_CLASSIFICATION)
        return mh_fail(context, MH_ERROR_ARGUMENT, "task: found %u, expected one of mh_task_kind",
                       (unsigned)o->task);
    if ((unsigned)o->arch > MH_LM_LLAMA)
        return mh_fail(context, MH_ERROR_ARGUMENT, "arch: found %u, expected one of mh_lm_arch",
                       (unsigned)o->arch);
    return MH_OK;
}

// The run is on the heap: it takes 17 KB, which a caller's thread may not have.
static mh_status prepare_and_train(mh_context *context, const mh_train_options *options,
                                   const mh_communicator *ranks, mh_translator_config *sizes,
                                   mh_train_result *result)
{
    static const mh_task *const tasks[] = {&mh_task_translation, &mh_task_images, &mh_task_lm,
                                           &mh_task_classification};
    MH_TRY(check_kinds(context, options));
    mh_run *run = mh_alloc(context, sizeof *run);
    if (!run)
        return MH_ERROR_MEMORY;
    memset(run, 0, sizeof *run);
    run->context = context;
    run->task = tasks[options->task];
    run->options = options;
    run->sizes = sizes;
    run->directory = (mh_directory){-1, false};
    run->baseline = NAN;
    run->ranks = *ranks;
    mh_status status = mh_run_tables_create(run);
    if (!status)
        status = mh_run_leads(run) ? prepare_and_lead(run, result) : prepare_and_follow(run);
    report_run(run, result);
    mh_run_free(run);
    mh_free(context, run, sizeof *run);
    return status;
}

mh_status mh_train(mh_context *context, const mh_train_options *options, mh_train_result *result)
{
    if (mh_need(context, result, "result"))
        return MH_ERROR_ARGUMENT;
    mh_status status = MH_CHECK_OUTPUT(context, mh_train_result, result);
    if (status)
        return status;
    mh_fpenv saved = mh_fpenv_enter(); // for the sums, and for number-to-text conversions
    mh_train_options own = mh_train_options_default();
    mh_translator_config model = mh_translator_config_default();
    mh_train_result found = mh_train_result_default();
    mh_communicator ranks = mh_communicator_default();
    status = mh_need(context, options, "options");
    if (!status)
        status = MH_READ_STRUCT(context, mh_train_options, options, &own);
    if (!status)
        status = MH_READ_STRUCT(context, mh_translator_config, own.model, &model);
    if (own.init && !own.model)
        model = (mh_translator_config){.struct_size = sizeof model, .dropout = -1};
    own.model = &model;
    if (!status)
        status = mh_read_communicator(context, own.communicator, false, &ranks);
    if (!status)
        status = prepare_and_train(context, &own, &ranks, &model, &found);
    mh_write_struct(&found, sizeof found, result);
    mh_fpenv_leave(saved);
    return status;
}
