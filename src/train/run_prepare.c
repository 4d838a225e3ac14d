// SPDX-License-Identifier: MIT
// Preparation of a run: directory, data, tokenizer, model, and the checkpoint if there is one.
#include "base/compiler.h"
#include "train/run_ranks.h"

#include "base/size_math.h"
#include "support/grow.h"
#include "support/list_directory.h"
#include "support/plain_numbers.h"
#include "text/tokenizer.h"
#include "train/format_number.h"
#include "train/model_name.h"
#include "train/model_start.h"
#include "train/task_options.h"

#include <assert.h>
#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>

enum { AVERAGE_BELOW = 1000000 }; // one more snapshot than are averaged is numbered

// ---- options ------------------------------------------------------------------------------------

static mh_status run_prepare_check_numbers(mh_context *context, const mh_train_options *o)
{
    const struct {
        const char *name;
        double found, least, below;
    } numbers[] = {
        {"batch_tokens", (double)o->batch_tokens, 1, INFINITY},
        {"accumulate", (double)o->accumulation_steps, 1, INFINITY},
        {"average", (double)o->average, 1, AVERAGE_BELOW},
        {"after", (double)o->after.count, 1, INFINITY},
        {"learning_rate", o->learning_rate, DBL_MIN, INFINITY},
        {"min_learning_rate", o->min_learning_rate, 0, INFINITY},
        {"held_out", o->held_out < 0 ? 0 : o->held_out, 0, 1},
        {"clip", o->clip, 0, INFINITY},
        {"weight_decay", o->weight_decay, 0, INFINITY},
        {"label_smoothing", o->label_smoothing, 0, 1},
        {"beta1", o->beta1, 0, 1},
        {"beta2", o->beta2, 0, 1},
        {"epsilon", o->epsilon, 0, INFINITY},
    };
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        const bool positive = numbers[i].least > 0;
        char below[32] = "";
        if (numbers[i].found >= numbers[i].least && numbers[i].found < numbers[i].below)
            continue;
        if (!isinf(numbers[i].below))
            snprintf(below, sizeof below, " and less than %.0f", numbers[i].below);
        char found[32];
        mh_short_text(numbers[i].found, false, found, sizeof found);
        return mh_fail(context, MH_ERROR_ARGUMENT, "%s: found %s, expected %s 0%s", numbers[i].name,
                       found, positive ? "more than" : "at least", below);
    }
    return MH_OK;
}

static mh_status check_durations(mh_context *context, const mh_train_options *o)
{
    const struct {
        const char *name;
        mh_unit unit;
    } durations[] = {
        {"after", o->after.unit},
        {"save_every", o->save_every.unit},
        {"valid_every", o->valid_every.unit},
    };
    for (size_t i = 0; i < sizeof durations / sizeof *durations; i++)
        if ((unsigned)durations[i].unit > MH_TOKENS)
            return mh_fail(context, MH_ERROR_ARGUMENT,
                           "%s: found unit %u, expected epochs, updates or tokens",
                           durations[i].name, (unsigned)durations[i].unit);
    return MH_OK;
}

// Checks combinations of options.
static mh_status check_sources(mh_context *context, const mh_train_options *o)
{
    if (!o->directory)
        return mh_fail(context, MH_ERROR_ARGUMENT, "directory: expected the directory of the run");
    if (!o->data == !o->example)
        return mh_fail(context, MH_ERROR_ARGUMENT, "data: expected a file, or an example");
    MH_TRY(mh_task_options_check(context, o));
    if (o->example && strcmp(o->example, "numbers") != 0)
        return mh_fail(context, MH_ERROR_ARGUMENT, "example: found %.40s, expected numbers",
                       o->example);
    if (o->example && (o->data_targets || o->valid))
        return mh_fail(context, MH_ERROR_ARGUMENT, "%s: expected none, an example has its own",
                       o->valid ? "valid" : "data_targets");
    if (o->more_data_count && !o->more_data)
        return mh_fail(context, MH_ERROR_ARGUMENT, "more_data: expected files");
    if (o->held_out > 0 && (o->valid || o->example))
        return mh_fail(context, MH_ERROR_ARGUMENT, "held_out: expected none with %s",
                       o->valid ? "valid" : "example");
    if (o->init && (o->example || o->tokenizer))
        return mh_fail(context, MH_ERROR_ARGUMENT, "%s: expected none, init has its own",
                       o->example ? "example" : "tokenizer");
    if (o->valid_targets && !o->valid)
        return mh_fail(context, MH_ERROR_ARGUMENT, "valid_targets: expected none without valid");
    return MH_OK;
}

// Once the data are known.
static mh_status check_validation(const mh_run *run)
{
    if (!run->options->patience || mh_run_validates(run))
        return MH_OK;
    return mh_fail(run->context, MH_ERROR_ARGUMENT,
                   "patience: found %zu, expected 0 without validation data",
                   run->options->patience);
}

static mh_status check_schedule(mh_context *context, const mh_train_options *o)
{
    if ((unsigned)o->schedule > MH_SCHEDULE_COSINE)
        return mh_fail(context, MH_ERROR_ARGUMENT,
                       "schedule: found %u, expected inverse-sqrt or cosine",
                       (unsigned)o->schedule);
    if (o->min_learning_rate > o->learning_rate)
        return mh_fail(context, MH_ERROR_ARGUMENT,
                       "min_learning_rate: found %g, expected at most the learning rate, %g",
                       o->min_learning_rate, o->learning_rate);
    return MH_OK;
}

static mh_status run_prepare_check_options(mh_context *context, const mh_train_options *o)
{
    if (o->weights != MH_F32 && o->weights != MH_BF16)
        return mh_fail(context, MH_ERROR_ARGUMENT, "weights: found %s, expected f32 or bf16",
                       mh_dtype_name(o->weights));
    MH_TRY(check_sources(context, o));
    MH_TRY(run_prepare_check_numbers(context, o));
    MH_TRY(check_schedule(context, o));
    return check_durations(context, o);
}

static bool ends_in(const char *name, const char *ending)
{
    const size_t size = strlen(name), length = strlen(ending);
    return size >= length && !strcmp(name + size - length, ending);
}

// Whether a file is part of a model, in any of its formats.
static bool is_of_model(const char *name)
{
    return !strcmp(name, "config.json") || strstr(name, ".safetensors") || ends_in(name, ".bin") ||
           ends_in(name, ".gguf") || ends_in(name, ".pt");
}

static mh_status refuse_model(mh_run *run)
{
    mh_listing files;
    const char *directory = run->options->directory;
    mh_status status = mh_list_directory(run->context, directory, &files);
    for (size_t i = 0; i < files.count && !status; i++)
        if (is_of_model(files.names[i]))
            status = mh_fail(run->context, MH_ERROR_FILE,
                             "%.700s: has a model (%.100s) but is not a training run; training "
                             "would replace it",
                             directory, files.names[i]);
    mh_listing_free(run->context, &files);
    return status;
}

static mh_status open_directory(mh_run *run)
{
    const mh_train_options *o = run->options;
    MH_TRY(mh_directory_open(run->context, o->directory, &run->directory));
    if (o->init && mh_directory_is_at(&run->directory, o->init))
        return mh_fail(run->context, MH_ERROR_ARGUMENT,
                       "init: found %.700s, the directory of the run: expected another one",
                       o->init);
    run->resumed = mh_directory_has(&run->directory, MH_CHECKPOINT_NAME);
    // A run that was killed before its first checkpoint has a log.
    return run->resumed || mh_directory_has(&run->directory, MH_LOG_NAME) ? MH_OK
                                                                          : refuse_model(run);
}

mh_status mh_run_check_directory(mh_run *run)
{
    char where[MH_PATH_BYTES];
    const char *directory = run->options->directory;
    if (mh_directory_is_at(&run->directory, directory))
        return MH_OK;
    run->moved = true;
    if (!mh_directory_where(&run->directory, where))
        return mh_fail(run->context, MH_ERROR_FILE, "%.700s: was removed during training",
                       directory);
    return mh_fail(
        run->context, MH_ERROR_FILE,
        "%.300s: was moved to %.300s during training; the same command with that directory "
        "resumes the run",
        directory, where);
}

mh_status mh_run_check_size(mh_run *run, const char *name, size_t given, size_t found)
{
    return !given || given == found
               ? MH_OK
               : mh_fail(run->context, MH_ERROR_ARGUMENT,
                         "%s: found %zu, expected %zu, which the model in %.300s has", name, given,
                         found, mh_run_origin(run));
}

// ---- tokenizer ----------------------------------------------------------------------------------

mh_status mh_run_load_tokenizer(mh_run *run, mh_tokenizer **tokenizer)
{
    char path[MH_PATH_BYTES];
    if (!run->resumed && !run->options->init)
        return mh_tokenizer_load_own(run->context, run->options->tokenizer, tokenizer);
    const char *directory = run->resumed ? run->options->directory : run->options->init;
    MH_TRY(mh_path_join(run->context, directory, "tokenizer.json", path));
    return mh_tokenizer_load_own(run->context, path, tokenizer);
}

// ---- settings -----------------------------------------------------------------------------------

void mh_run_set(mh_run *run, const char *name, const char *format, ...)
{
    assert(run->settings.count < MH_SETTINGS_MOST);
    mh_setting *s = &run->settings.list[run->settings.count++];
    va_list list;
    va_start(list, format);
    s->name = name;
    const mh_plain_numbers saved = mh_plain_numbers_enter();
    vsnprintf(s->value, sizeof s->value, format, list);
    mh_plain_numbers_leave(saved);
    va_end(list);
}

static void set_duration(mh_run *run, const char *name, mh_duration d)
{
    mh_run_set(run, name, "%" PRIu64 "%c", d.count, "eut"[d.unit]);
}

static void set_real(mh_run *run, const char *name, double value)
{
    mh_run_set(run, name, "%.17g", value);
    run->settings.list[run->settings.count - 1].real = true;
}

static uint64_t fingerprint(const mh_dataset *e)
{
    const size_t ids = e->starts[2 * e->count];
    return mh_hash_bytes(0, (const char *)e->ids, ids * sizeof *e->ids) ^
           mh_mix(
               mh_hash_bytes(0, (const char *)e->starts, (2 * e->count + 1) * sizeof *e->starts));
}

static void set_sentences(mh_run *run, const char *name, size_t count, const mh_dataset *e)
{
    mh_run_set(run, name, "%016" PRIx64, count ? fingerprint(e) : UINT64_C(0));
    run->settings.list[run->settings.count - 1].checksum = true;
}

// The name without the directories before it: the model may have moved with them.
static void set_init(mh_run *run)
{
    enum { MOST = 40 };
    const mh_text name = mh_model_name_of(run->options->init ? run->options->init : "").name;
    mh_run_set(run, "init", "%.*s", (int)mh_smaller(name.size, MOST), name.bytes);
    run->settings.list[run->settings.count - 1].absent = "";
}

void mh_run_collect_settings(mh_run *run)
{
    const mh_train_options *o = run->options;
    set_sentences(run, "data", run->examples.count, &run->examples);
    set_sentences(run, "valid", run->valid.examples.count, &run->valid.examples);
    set_init(run);
    mh_run_set(run, "seed", "%" PRIu64, o->seed);
    mh_run_set(run, "precision", "%s", run->precision == MH_PRECISION_BF16 ? "bf16" : "f32");
    run->task->settings(run);
    mh_run_set(run, "weights", "%s", mh_dtype_name(o->weights));
    mh_run_set(run, "batch_tokens", "%zu", run->batch_tokens);
    mh_run_set(run, "accumulate", "%zu", o->accumulation_steps);
    set_real(run, "learning_rate", o->learning_rate);
    mh_run_set(run, "warmup", "%" PRIu64, run->warmup);
    mh_run_set(run, "schedule", "%s",
               o->schedule == MH_SCHEDULE_COSINE ? "cosine" : "inverse-sqrt");
    mh_run_set(run, "decay", "%" PRIu64, run->decay);
    set_real(run, "min_learning_rate", o->min_learning_rate);
    set_real(run, "beta1", o->beta1);
    set_real(run, "beta2", o->beta2);
    set_real(run, "epsilon", o->epsilon);
    set_real(run, "weight_decay", o->weight_decay);
    set_real(run, "clip", o->clip);
    set_real(run, "label_smoothing", o->label_smoothing);
    mh_run_set(run, "average", "%zu", o->average);
    set_duration(run, "save_every", o->save_every);
    set_duration(run, "valid_every", o->valid_every);
}

// The caller's precision, or the run's if it is resumed, or the level's default.
static mh_status choose_precision(mh_run *run)
{
    char was[8];
    const mh_precision wanted = run->options->precision;
    run->precision = mh_translator_precision(run->context, wanted);
    if (wanted != MH_PRECISION_NATIVE || !run->resumed)
        return MH_OK;
    mh_status status =
        mh_checkpoint_setting(run->context, run->options->directory, "precision", was, sizeof was);
    if (!status)
        run->precision = !strcmp(was, "bf16") ? MH_PRECISION_BF16 : MH_PRECISION_F32;
    return status;
}

// A whole number among the settings of the run that is resumed.
static mh_status recorded_whole(mh_run *run, const char *name, uint64_t *value)
{
    char was[24];
    MH_TRY(mh_checkpoint_setting(run->context, run->options->directory, name, was, sizeof was));
    return mh_whole_parse(was, value)
               ? MH_OK
               : mh_fail(run->context, MH_ERROR_FORMAT,
                         "%.700s/" MH_CHECKPOINT_NAME ": \"%s\": expected a number",
                         run->options->directory, name);
}

// Batches of the task's size, halved while the run has few updates and a batch several examples.
static size_t suitable_batch_tokens(const mh_run *run)
{
    enum { UPDATES_LEAST = 200, EXAMPLES_LEAST = 4 };
    const mh_duration after = run->options->after;
    const mh_dataset *e = &run->examples;
    size_t targets = 0, tokens = run->task->batch_tokens;
    for (size_t i = 0; i < e->count; i++)
        targets += mh_dataset_target(e, i).count;
    const double all = (double)e->starts[2 * e->count]; // sources, too
    const double least = EXAMPLES_LEAST * all / (double)e->count;
    const double epochs = after.unit == MH_EPOCHS   ? (double)after.count
                          : after.unit == MH_TOKENS ? (double)after.count / (double)targets
                                                    : INFINITY;
    const double most = epochs * all / UPDATES_LEAST / (double)run->options->accumulation_steps;
    while ((double)tokens > most && (double)(tokens / 2) >= least)
        tokens /= 2;
    return tokens;
}

// The caller's, or the run's if it is resumed, or what suits the data.
static mh_status choose_batch_tokens(mh_run *run)
{
    const mh_train_options *o = run->options;
    uint64_t recorded = 0;
    run->batch_tokens = o->batch_tokens;
    if (o->batch_tokens != MH_BATCH_TOKENS_AUTO)
        return MH_OK;
    if (run->resumed) {
        MH_TRY(recorded_whole(run, "batch_tokens", &recorded));
        run->batch_tokens = (size_t)(recorded ? recorded : 1);
        return MH_OK;
    }
    run->batch_tokens = suitable_batch_tokens(run);
    return MH_OK;
}

static mh_status plan_validation(mh_run *run)
{
    MH_TRY(choose_batch_tokens(run));
    const mh_batch_options all = {.tokens = run->batch_tokens};
    return run->valid.examples.count
               ? mh_batches_plan(run->context, &run->valid.examples, &all, 0, &run->valid.batches)
               : MH_OK;
}

// The mean over the first epoch's updates, rounded.
static size_t grains_of_update(const mh_run *run, size_t updates)
{
    const size_t grains =
        mh_grains_count(&run->examples, &run->plan, 0, run->plan.count, run->task->grain);
    return updates ? mh_larger(1, grains / updates + (grains % updates > updates / 2)) : 1;
}

// The approximate number of updates of `after`. Every epoch has as many batches as the first.
static mh_status measure_run(mh_run *run)
{
    const size_t accumulate = run->options->accumulation_steps;
    MH_TRY(mh_run_plan_epoch(run));
    const mh_batches *plan = &run->plan;
    const size_t updates = plan->count / accumulate + (plan->count % accumulate != 0);
    run->event.epoch_tokens =
        mh_target_tokens(&run->examples, plan->examples, plan->starts[plan->count]);
    run->updates = mh_duration_updates(run->options->after, updates, run->event.epoch_tokens);
    run->event.grains = grains_of_update(run, updates);
    return MH_OK;
}

// The caller's warm-up, or the run's if it is resumed, or one that suits the run's length.
static mh_status choose_warmup(mh_run *run)
{
    enum { WARMUP_MOST = 1000, WARMUP_PART = 10 };
    run->warmup = run->options->warmup;
    if (run->warmup != MH_WARMUP_AUTO)
        return MH_OK;
    if (run->resumed)
        return recorded_whole(run, "warmup", &run->warmup);
    const uint64_t part = run->updates / WARMUP_PART;
    run->warmup = part < 1 ? 1 : part < WARMUP_MOST ? part : WARMUP_MOST;
    return MH_OK;
}

// The length of a cosine is the run's when it began, however far it is extended later.
static mh_status choose_decay(mh_run *run)
{
    if (run->options->schedule != MH_SCHEDULE_COSINE)
        return MH_OK;
    if (run->resumed)
        return recorded_whole(run, "decay", &run->decay);
    run->decay = run->updates;
    return MH_OK;
}

// ---- model --------------------------------------------------------------------------------------

mh_status mh_run_allocate(mh_run *run)
{
    size_t floats;
    float *values;
    MH_TRY(run->task->parameters(run, &floats, &values));
    float *memory = mh_alloc(run->context, 3 * floats * sizeof *memory);
    if (!memory)
        return MH_ERROR_MEMORY;
    memset(memory, 0, 3 * floats * sizeof *memory);
    run->arrays = (mh_run_arrays){floats, values, memory, memory + floats};
    run->aside = memory + 2 * floats;
    run->gradients = (mh_gradient_tree){.context = run->context, .floats = floats};
    MH_TRY(mh_run_divide(run));
    return mh_loss_memory_create(run->context, &run->memory);
}

// The mean loss of the validation data's targets by their frequencies in the training data, or how
// often these are the most frequent one. Each of the `kinds` has one occurrence more.
static double measure_baseline(const mh_run *run, size_t kinds, double *counts)
{
    const mh_dataset *e = &run->examples, *valid = &run->valid.examples;
    const bool text = run->task->kind == MH_TASK_LM;
    double all = (double)kinds, loss = 0, targets = 0, hits = 0;
    size_t best = 0;
    for (size_t k = 0; k < kinds; k++)
        counts[k] = 1;
    for (size_t i = 0; i < e->count; i++) {
        const mh_ids ids = mh_dataset_target(e, i);
        for (size_t k = 0; k < ids.count; k++)
            counts[ids.ids[k]]++;
        all += (double)ids.count;
    }
    for (size_t k = 0; k < kinds; k++)
        best = counts[k] > counts[best] ? k : best;
    for (size_t i = 0; i < valid->count; i++) {
        const mh_ids ids = mh_dataset_target(valid, i);
        for (size_t k = 0; k < ids.count; k++) {
            loss -= log(counts[ids.ids[k]] / all);
            hits += (size_t)ids.ids[k] == best;
        }
        targets += (double)ids.count;
    }
    return text ? loss / targets : hits / targets;
}

static mh_status find_baseline(mh_run *run)
{
    if (run->translator || !run->valid.examples.count)
        return MH_OK;
    const mh_description *d = &run->model->description;
    const size_t kinds = run->task->kind == MH_TASK_LM ? d->vocabulary : d->labels;
    double *counts = mh_alloc(run->context, kinds * sizeof *counts);
    if (!counts)
        return MH_ERROR_MEMORY;
    run->baseline = measure_baseline(run, kinds, counts);
    mh_free(run->context, counts, kinds * sizeof *counts);
    return MH_OK;
}

// The log comes first: by it, the model of a run that is killed here is known to be a run's.
static mh_status begin(mh_run *run)
{
    MH_TRY(mh_run_check_directory(run));
    MH_TRY(mh_run_log_open(run->context, run->options->directory, 0, &run->log));
    const mh_status status = run->task->begin(run);
    if (status && run->directory.made && !mh_directory_has(&run->directory, "config.json"))
        remove(run->log.path);
    return status;
}

static mh_status begin_or_load(mh_run *run)
{
    return run->resumed ? mh_checkpoint_load(run->context, run->options->directory, &run->settings,
                                             &run->progress, &run->arrays)
                        : begin(run);
}

static void run_prepare_describe(mh_run *run, size_t bad_lines)
{
    mh_train_event *e = &run->event;
    e->pairs = run->examples.count;
    if (run->task->kind == MH_TASK_LM && !run->options->valid)
        e->held_out = run->valid.examples.count;
    e->valid_pairs = run->valid.corpus.count ? run->valid.corpus.count : run->valid.examples.count;
    e->task = run->task->kind;
    e->starts_from_model = run->options->init != NULL;
    e->left_out = bad_lines + run->examples.left_out + run->valid.corpus.bad_lines;
    e->parameters = run->arrays.floats;
    e->vocabulary = run->task->vocabulary(run);
    e->precision = run->precision == MH_PRECISION_BF16 ? "bf16" : "f32";
}

mh_status mh_run_prepare(mh_run *run)
{
    size_t bad_lines = 0;
    mh_status status = run_prepare_check_options(run->context, run->options);
    if (!status)
        status = open_directory(run);
    if (!status)
        status = choose_precision(run);
    if (!status && run->options->init)
        status = mh_model_start_check(run);
    if (!status)
        status = run->task->prepare(run, &bad_lines);
    if (!status)
        status = plan_validation(run);
    if (!status)
        status = check_validation(run);
    if (!status)
        status = mh_run_allocate(run);
    if (!status)
        status = measure_run(run);
    if (!status)
        status = find_baseline(run);
    if (!status)
        status = choose_warmup(run);
    if (!status)
        status = choose_decay(run);
    if (status)
        return status;
    mh_run_collect_settings(run);
    run_prepare_describe(run, bad_lines);
    return begin_or_load(run);
}

void mh_run_free(mh_run *run)
{
    if (run->directory.descriptor >= 0)
        mh_directory_discard(&run->directory, run->options->directory);
    mh_run_log_close(&run->log);
    mh_loss_memory_free(run->memory);
    mh_gradient_tree_free(&run->gradients);
    mh_run_exchange_free(run);
    mh_gradient_tree_free(&run->slice);
    mh_grains_free(run->context, &run->grains);
    mh_shrink(run->context, &run->losses, &run->losses_capacity, sizeof *run->losses);
    mh_run_tables_free(run);
    mh_free(run->context, run->arrays.m, 3 * run->arrays.floats * sizeof(float));
    run->task->free(run);
    mh_batch_rows_free(run->context, &run->rows);
    mh_batches_free(run->context, &run->plan);
    mh_dataset_free(run->context, &run->examples);
    mh_validation_free(run->context, &run->valid);
    mh_directory_close(&run->directory);
}
