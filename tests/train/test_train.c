// SPDX-License-Identifier: MIT
// Training: a run that is stopped anywhere goes on to the same bytes, a complete one is left alone,
// what does not fit is refused, and the loss falls.
#include "io/checksum.h"
#include "support.h"
#include "train_support.h"

#include "support/directory.h"
#include "train/run_progress.h"
#include "train/validate.h"

#include <fcntl.h>
#include <fenv.h>
#include <locale.h>
#include <math.h>
#include <multihead/view.h>
#include <sys/stat.h>
#include <unistd.h>

static train_place place;
static char reference[96]; // a run that was never stopped
static mh_train_result reference_result;

static char *directory_of(const char *name, char directory[96])
{
    snprintf(directory, 96, "%s/%s", place.root, name);
    return directory;
}

static int set_up(void **state)
{
    (void)state;
    if (!train_place_create(&place))
        return -1;
    mh_context *context = test_context(NULL, 1);
    mh_train_options options = train_place_options(&place, directory_of("reference", reference));
    reference_result = mh_train_result_default();
    mh_status status = mh_train(context, &options, &reference_result);
    if (status)
        fprintf(stderr, "%s\n", mh_error_message(context));
    mh_context_free(context);
    return (int)status;
}

static int tear_down(void **state)
{
    (void)state;
    train_place_remove(&place);
    return 0;
}

// ---- durations ----------------------------------------------------------------------------------

static void test_durations(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        uint64_t count;
        mh_unit unit;
    } good[] = {{"20e", 20, MH_EPOCHS},          {"500u", 500, MH_UPDATES},
                {"50Ku", 50000, MH_UPDATES},     {"1.5Kt", 1500, MH_TOKENS},
                {"100Mt", 100000000, MH_TOKENS}, {"0e", 0, MH_EPOCHS},
                {"0.25Mu", 250000, MH_UPDATES}};
    static const char *const bad[] = {
        "",     "e",   "20",  "20x", "-1e",      "1.5e", "1..5Ku",
        "20ee", " 2e", "2e ", "K",   "1.2345Ku", ".e",   "99999999999999999999u"};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        mh_duration d;
        assert_true(mh_duration_parse(good[i].text, &d));
        assert_int_equal(d.count, good[i].count);
        assert_int_equal(d.unit, good[i].unit);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        mh_duration d = {7, MH_TOKENS};
        assert_false(mh_duration_parse(bad[i], &d));
        assert_int_equal(d.count, 7);
    }
}

static void test_due(void **state)
{
    (void)state;
    const mh_progress before = {.update = 9, .epoch = 1, .tokens = 990};
    const mh_progress now = {.update = 10, .epoch = 2, .tokens = 1105};
    assert_true(mh_duration_due((mh_duration){5, MH_UPDATES}, &before, &now));
    assert_false(mh_duration_due((mh_duration){4, MH_UPDATES}, &before, &now));
    assert_true(mh_duration_due((mh_duration){2, MH_EPOCHS}, &before, &now));
    assert_false(mh_duration_due((mh_duration){3, MH_EPOCHS}, &before, &now));
    assert_true(mh_duration_due((mh_duration){100, MH_TOKENS}, &before, &now));
    assert_false(mh_duration_due((mh_duration){0, MH_UPDATES}, &before, &now));
    assert_true(mh_duration_over((mh_duration){10, MH_UPDATES}, &now));
    assert_false(mh_duration_over((mh_duration){3, MH_EPOCHS}, &now));
    assert_true(fabs(mh_duration_part((mh_duration){4, MH_EPOCHS}, &now, 0.5) - 0.625) < 1e-12);
}

// ---- stopping and going on ----------------------------------------------------------------------

typedef struct stopper {
    size_t events, stop_at; // stops at that event, counted from 1; 0: never
    bool each_update;       // stops after one update
} stopper;

static bool count_events(void *user, const mh_train_event *event)
{
    stopper *s = user;
    if (s->each_update && event->kind == MH_TRAIN_UPDATED)
        return false;
    return ++s->events != s->stop_at;
}

static mh_train_result run_with(stopper *s, const char *directory, size_t threads)
{
    mh_context *context = test_context(NULL, threads);
    mh_train_options options = train_place_options(&place, directory);
    mh_train_result result = mh_train_result_default();
    options.event = count_events;
    options.user = s;
    test_ok(context, mh_train(context, &options, &result));
    mh_context_free(context);
    return result;
}

static mh_train_result run(const char *directory, size_t threads, size_t stop_at, size_t *events)
{
    stopper s = {.stop_at = stop_at};
    const mh_train_result result = run_with(&s, directory, threads);
    if (events)
        *events = s.events;
    return result;
}

static void test_threads(void **state)
{
    (void)state;
    char directory[96];
    for (size_t threads = 2; threads <= 4; threads++) {
        char name[32];
        snprintf(name, sizeof name, "threads%zu", threads);
        const mh_train_result r = run(directory_of(name, directory), threads, 0, NULL);
        assert_false(r.resumed || r.finished || r.stopped);
        assert_true(train_runs_equal(directory, reference));
    }
}

// Stopped at event n, then gone on with: for every n there is.
// A caller that rounds otherwise gets the same model.
static void test_environment(void **state)
{
    (void)state;
    static const int modes[] = {FE_UPWARD, FE_TOWARDZERO};
    fenv_t usual;
    fegetenv(&usual);
    for (size_t i = 0; i < 2; i++) {
        char directory[96], name[32];
        snprintf(name, sizeof name, "environment%zu", i);
        fesetround(modes[i]);
        run(directory_of(name, directory), 1, 0, NULL);
        const int mode = fegetround();
        fesetenv(&usual);
        assert_int_equal(mode, modes[i]);
        assert_true(train_runs_equal(directory, reference));
    }
}

static void test_stopped_anywhere(void **state)
{
    (void)state;
    char directory[96];
    size_t all;
    run(directory_of("whole", directory), 1, 0, &all);
    assert_true(all > 20);
    for (size_t n = 1; n < all; n++) {
        char name[32];
        snprintf(name, sizeof name, "stop%zu", n);
        const mh_train_result first = run(directory_of(name, directory), 1 + n % 2, n, NULL);
        assert_true(first.stopped || first.update == reference_result.update);
        const mh_train_result second = run(directory, 1 + (n + 1) % 2, 0, NULL);
        assert_true(second.resumed);
        assert_int_equal(second.update, reference_result.update);
        assert_true(train_runs_equal(directory, reference));
    }
}

// Stopped after every update.
static void test_stopped_always(void **state)
{
    (void)state;
    char directory[96];
    directory_of("always", directory);
    size_t calls = 0;
    stopper s = {.each_update = true};
    while (run_with(&s, directory, 1).stopped)
        assert_true(++calls < 100);
    assert_int_equal(calls, 14);
    assert_true(train_runs_equal(directory, reference));
}

// Files have decimal points, and a run goes on, whatever locale the program has chosen.
static void test_locale(void **state)
{
    (void)state;
    char directory[96], log[128];
    mh_buffer text;
    run(directory_of("locale", directory), 1, 9, NULL);
    test_comma_locale();
    run(directory, 1, 0, NULL);
    setlocale(LC_NUMERIC, "C");
    mh_context *context = test_context(NULL, 1);
    assert_true(train_runs_equal(directory, reference));
    snprintf(log, sizeof log, "%s/log.jsonl", directory);
    test_ok(context, mh_view_curve_text(context, log, 80, &text));
    mh_buffer_free(context, &text);
    mh_context_free(context);
}

static void test_finished_is_left_alone(void **state)
{
    (void)state;
    char path[128];
    struct stat before, after;
    snprintf(path, sizeof path, "%s/checkpoint.safetensors", reference);
    assert_int_equal(stat(path, &before), 0);
    const mh_train_result r = run(reference, 1, 0, NULL);
    assert_true(r.resumed && r.finished && !r.stopped);
    assert_int_equal(r.update, 14);
    assert_true(r.best_bleu == reference_result.best_bleu);
    assert_true(r.best_bleu >= 0 && isnan(r.best_accuracy));
    assert_int_equal(stat(path, &after), 0);
    assert_int_equal(before.st_ino, after.st_ino);
    assert_int_equal(before.st_mtim.tv_nsec, after.st_mtim.tv_nsec);
}

// --after counts from the start: 8 updates and then 14 are 14.
static void test_longer(void **state)
{
    (void)state;
    char directory[96];
    mh_context *context = test_context(NULL, 1);
    mh_train_options options = train_place_options(&place, directory_of("longer", directory));
    mh_train_result result = mh_train_result_default();
    options.after.count = 6; // a multiple of save_every: the end saves, too
    options.valid_every.count = 3;
    test_ok(context, mh_train(context, &options, &result));
    assert_int_equal(result.update, 6);
    options.after.count = 12;
    test_ok(context, mh_train(context, &options, &result));
    assert_int_equal(result.update, 12);
    char straight[96];
    options.directory = directory_of("straight", straight);
    test_ok(context, mh_train(context, &options, &result));
    assert_true(train_runs_equal(directory, straight));
    mh_context_free(context);
}

// As long as no translation has anything right, BLEU is 0: the lowest loss decides then.
static bool tell_loss(void *user, const mh_train_event *event)
{
    double *lowest = user;
    if (event->kind == MH_TRAIN_VALIDATED) {
        assert_true(event->bleu == 0);
        assert_true(event->best == (event->valid_loss < *lowest));
        *lowest = fmin(*lowest, event->valid_loss);
    }
    return true;
}

static void test_equal_scores(void **state)
{
    (void)state;
    char directory[96];
    double lowest = INFINITY;
    mh_context *context = test_context(NULL, 1);
    mh_train_options options = train_place_options(&place, directory_of("equal", directory));
    mh_train_result result = mh_train_result_default();
    options.after.count = 3;
    options.valid_every = (mh_duration){1, MH_UPDATES};
    options.event = tell_loss;
    options.user = &lowest;
    test_ok(context, mh_train(context, &options, &result));
    assert_int_equal(result.best_update, 3);
    options.after.count = 5; // the loss to beat is in the checkpoint
    test_ok(context, mh_train(context, &options, &result));
    assert_int_equal(result.best_update, 5);
    mh_context_free(context);
}

// Below BLEU 1 the loss decides, from there on BLEU.
static void test_better_scores(void **state)
{
    (void)state;
    static const struct {
        double quality, loss, best_quality, best_loss;
        bool better;
    } cases[] = {
        {0.00, 4.19, 0.01, 6.56, true},  {0.01, 6.56, 0.00, 4.19, false},
        {0.99, 4.00, 0.50, 3.00, false}, {1.00, 5.00, 0.99, 3.00, true},
        {0.99, 1.00, 1.00, 3.00, false}, {9.00, 3.00, 9.00, 4.00, true},
        {9.00, 4.00, 9.00, 4.00, false}, {9.01, 9.00, 9.00, 4.00, true},
        {0.02, 9.00, 0.01, 0.00, true}, // of a checkpoint without a loss
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const mh_validation_score score = {.quality = cases[i].quality, .loss = cases[i].loss};
        const mh_validation_score best = {.quality = cases[i].best_quality,
                                          .loss = cases[i].best_loss};
        assert_int_equal(mh_validation_beats(&score, &best), cases[i].better);
    }
}

// ---- warm-up ------------------------------------------------------------------------------------

static void test_length_in_updates(void **state)
{
    (void)state;
    assert_int_equal(mh_duration_updates((mh_duration){84, MH_UPDATES}, 14, 700), 84);
    assert_int_equal(mh_duration_updates((mh_duration){6, MH_EPOCHS}, 14, 700), 84);
    assert_int_equal(mh_duration_updates((mh_duration){1050, MH_TOKENS}, 14, 700), 21);
    assert_int_equal(mh_duration_updates((mh_duration){5, MH_TOKENS}, 14, 0), 0);
    assert_true(mh_duration_updates((mh_duration){UINT64_MAX, MH_EPOCHS}, 1 << 30, 1) > 0);
}

static bool note_warmup(void *user, const mh_train_event *event)
{
    *(mh_train_event *)user = *event;
    return true;
}

// A tenth of the run that it begins with; kept when that grows; obeyed when it is given.
static void test_warmup(void **state)
{
    (void)state;
    char directory[96];
    mh_context *context = test_context(NULL, 1);
    mh_train_options o = train_place_options(&place, directory_of("warmup", directory));
    mh_train_result result = mh_train_result_default();
    mh_train_event event = {0};
    o.warmup = mh_train_options_default().warmup;
    o.after.count = 30;
    o.valid = NULL;
    o.event = note_warmup;
    o.user = &event;
    test_ok(context, mh_train(context, &o, &result));
    assert_int_equal(result.warmup, 3);
    assert_int_equal(event.warmup, 3);
    assert_int_equal(event.updates, 30);
    const double expected = o.learning_rate * sqrt(3.0 / 30);
    assert_true(fabs(event.learning_rate - expected) < 1e-12);
    o.after.count = 60;
    test_ok(context, mh_train(context, &o, &result));
    assert_true(result.resumed);
    assert_int_equal(result.warmup, 3);
    o.warmup = 6;
    test_refused(context, mh_train(context, &o, &result), MH_ERROR_FORMAT, "warmup: the run");
    o.directory = directory_of("warmup-given", directory);
    o.warmup = 100;
    o.after.count = 3;
    test_ok(context, mh_train(context, &o, &result));
    assert_int_equal(result.warmup, 100);
    mh_context_free(context);
}

typedef struct rate_list {
    double at[32]; // of each update, counted from 1
} rate_list;

static bool note_rate(void *user, const mh_train_event *event)
{
    if (event->kind == MH_TRAIN_UPDATED)
        ((rate_list *)user)->at[event->update] = event->learning_rate;
    return true;
}

// The cosine falls to the least rate at the length that the run began with, and stays there.
static void test_cosine_schedule(void **state)
{
    (void)state;
    char directory[96];
    mh_context *context = test_context(NULL, 1);
    mh_train_options o = train_place_options(&place, directory_of("cosine", directory));
    mh_train_result result = mh_train_result_default();
    rate_list rates = {{0}};
    o.schedule = MH_SCHEDULE_COSINE;
    o.min_learning_rate = 1e-5;
    o.valid = NULL;
    o.event = note_rate;
    o.user = &rates;
    o.after.count = 15;
    test_ok(context, mh_train(context, &o, &result));
    o.after.count = 17;
    test_ok(context, mh_train(context, &o, &result));
    const double peak = o.learning_rate, least = o.min_learning_rate;
    const double expected[] = {
        [1] = peak / 5, [5] = peak, [10] = (peak + least) / 2, [15] = least, [17] = least};
    for (size_t i = 1; i < sizeof expected / sizeof *expected; i++)
        if (expected[i] > 0)
            assert_true(fabs(rates.at[i] - expected[i]) < 1e-12);
    o.schedule = MH_SCHEDULE_INVERSE_SQRT;
    test_refused(context, mh_train(context, &o, &result), MH_ERROR_FORMAT, "schedule: the run");
    o.min_learning_rate = 2 * peak;
    test_refused(context, mh_train(context, &o, &result), MH_ERROR_ARGUMENT, "min_learning_rate");
    mh_context_free(context);
}

// A run of a few updates has a training curve: a line for each of the first, and for the last.
static void test_short_run_is_logged(void **state)
{
    (void)state;
    char directory[96], path[128];
    size_t lines = 0;
    mh_context *context = test_context(NULL, 1);
    mh_train_options o = train_place_options(&place, directory_of("logged", directory));
    mh_train_result result = mh_train_result_default();
    o.after.count = 14;
    o.valid = NULL;
    o.save_every.count = 100;
    test_ok(context, mh_train(context, &o, &result));
    snprintf(path, sizeof path, "%s/log.jsonl", directory);
    blob log = blob_read(path);
    for (size_t i = 0; i < log.size; i++)
        lines += log.bytes[i] == '\n';
    assert_int_equal(lines, 11);
    blob_free(&log);
    mh_context_free(context);
}

// ---- refusals -----------------------------------------------------------------------------------

static void test_other_settings(void **state)
{
    (void)state;
    mh_context *context = test_context(NULL, 1);
    mh_train_options options = train_place_options(&place, reference);
    mh_train_result result = mh_train_result_default();
    options.seed = 2;
    test_refused(context, mh_train(context, &options, &result), MH_ERROR_FORMAT, "seed: the run");
    options = train_place_options(&place, reference);
    options.data = place.valid;
    test_refused(context, mh_train(context, &options, &result), MH_ERROR_FORMAT,
                 "data: the run was started with other sentences");
    options = train_place_options(&place, reference);
    mh_translator_config model = *options.model;
    model.d_model = 32;
    options.model = &model;
    test_refused(context, mh_train(context, &options, &result), MH_ERROR_FORMAT, "model: the run");
    mh_context_free(context);
}

static void test_arguments(void **state)
{
    (void)state;
    char directory[96];
    mh_context *context = test_context(NULL, 1);
    mh_train_result result = mh_train_result_default();
    mh_train_options o = train_place_options(&place, NULL);
    test_refused(context, mh_train(context, &o, &result), MH_ERROR_ARGUMENT, "directory");
    o = train_place_options(&place, directory_of("arguments", directory));
    o.example = "numbers";
    test_refused(context, mh_train(context, &o, &result), MH_ERROR_ARGUMENT, "data");
    o.data = NULL;
    o.example = "letters";
    test_refused(context, mh_train(context, &o, &result), MH_ERROR_ARGUMENT, "letters");
    o = train_place_options(&place, directory);
    o.learning_rate = -1;
    test_refused(context, mh_train(context, &o, &result), MH_ERROR_ARGUMENT, "learning_rate");
    o = train_place_options(&place, directory);
    o.average = SIZE_MAX; // and one more snapshot than that is kept
    test_refused(context, mh_train(context, &o, &result), MH_ERROR_ARGUMENT, "average");
    o = train_place_options(&place, directory);
    o.save_every.unit = (mh_unit)77;
    test_refused(context, mh_train(context, &o, &result), MH_ERROR_ARGUMENT, "save_every");
    o = train_place_options(&place, directory);
    o.valid = NULL;
    o.valid_targets = place.valid;
    test_refused(context, mh_train(context, &o, &result), MH_ERROR_ARGUMENT, "valid_targets");
    o.valid_targets = NULL;
    o.patience = 2;
    test_refused(context, mh_train(context, &o, &result), MH_ERROR_ARGUMENT, "patience: found 2");
    o.example = "numbers";
    o.data = NULL;
    o.data_targets = place.data;
    test_refused(context, mh_train(context, &o, &result), MH_ERROR_ARGUMENT, "data_targets");
    o = train_place_options(&place, directory);
    o.data = "/nowhere/train.tsv";
    test_refused(context, mh_train(context, &o, &result), MH_ERROR_FILE, "/nowhere/train.tsv");
    o = train_place_options(&place, "/nowhere/run");
    test_refused(context, mh_train(context, &o, &result), MH_ERROR_FILE, "/nowhere/run");
    test_refused(context, mh_train(context, NULL, &result), MH_ERROR_ARGUMENT, "options");
    mh_communicator c = mh_communicator_default();
    o = train_place_options(&place, directory);
    o.communicator = &c;
    c.ranks = 2; // without functions
    test_refused(context, mh_train(context, &o, &result), MH_ERROR_ARGUMENT, "expected functions");
    c.rank = 2;
    test_refused(context, mh_train(context, &o, &result), MH_ERROR_ARGUMENT, "rank 2 of 2");
    mh_context_free(context);
}

// Of any format, as only the run that wrote a model may replace it.
static void test_model_is_not_replaced(void **state)
{
    (void)state;
    static const char *const files[] = {"model.safetensors", "model-00001-of-00002.safetensors",
                                        "config.json",       "pytorch_model.bin",
                                        "small.gguf",        "tiny.pt"};
    char directory[96], path[128], message[128];
    mh_context *context = test_context(NULL, 1);
    mh_train_options o = train_place_options(&place, directory_of("model", directory));
    mh_train_result result = mh_train_result_default();
    assert_int_equal(mkdir(directory, 0777), 0);
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        snprintf(path, sizeof path, "%s/%s", directory, files[i]);
        FILE *file = fopen(path, "w");
        assert_non_null(file);
        fclose(file);
        snprintf(message, sizeof message, "has a model (%s) but is not a training run", files[i]);
        test_refused(context, mh_train(context, &o, &result), MH_ERROR_FILE, message);
        assert_int_equal(remove(path), 0);
    }
    mh_context_free(context);
}

static void test_run_does_not_start_from_itself(void **state)
{
    (void)state;
    char link[128];
    mh_context *context = test_context(NULL, 1);
    mh_train_options o = train_place_options(&place, reference);
    mh_train_result result = mh_train_result_default();
    snprintf(link, sizeof link, "%s-link", reference);
    assert_int_equal(symlink(reference, link), 0);
    o.model = NULL;
    o.init = link;
    test_refused(context, mh_train(context, &o, &result), MH_ERROR_ARGUMENT,
                 "the directory of the run: expected another one");
    assert_int_equal(remove(link), 0);
    mh_context_free(context);
}

static void test_directory_is_locked(void **state)
{
    (void)state;
    mh_context *context = test_context(NULL, 1);
    mh_train_options o = train_place_options(&place, reference);
    mh_train_result result = mh_train_result_default();
    mh_directory directory;
    test_ok(context, mh_directory_open(context, reference, &directory));
    test_refused(context, mh_train(context, &o, &result), MH_ERROR_FILE, "another process");
    mh_directory_close(&directory);
    test_ok(context, mh_train(context, &o, &result));
    mh_context_free(context);
}

// Descriptors that a program started meanwhile would inherit.
static size_t inherited(void)
{
    size_t count = 0;
    for (int fd = 3; fd < 256; fd++) {
        const int flags = fcntl(fd, F_GETFD);
        count += flags >= 0 && !(flags & FD_CLOEXEC);
    }
    return count;
}

static bool compare_inherited(void *user, const mh_train_event *event)
{
    (void)event;
    return inherited() == *(const size_t *)user;
}

static void test_nothing_is_inherited(void **state)
{
    (void)state;
    char directory[96];
    mh_context *context = test_context(NULL, 2);
    mh_train_options o = train_place_options(&place, directory_of("inherited", directory));
    size_t before = inherited();
    mh_train_result result = mh_train_result_default();
    o.event = compare_inherited;
    o.user = &before;
    test_ok(context, mh_train(context, &o, &result));
    assert_false(result.stopped);
    mh_context_free(context);
}

// A rate that no training survives: the previous checkpoint is kept.
static void test_diverged(void **state)
{
    (void)state;
    char directory[96];
    mh_context *context = test_context(NULL, 1);
    mh_train_options o = train_place_options(&place, directory_of("diverged", directory));
    mh_train_result result = mh_train_result_default();
    mh_directory opened;
    o.learning_rate = 1e30;
    o.clip = 0;
    o.save_every.count = 1;
    o.valid = NULL;
    test_refused(context, mh_train(context, &o, &result), MH_ERROR_DIVERGED, "checkpoint is kept");
    test_ok(context, mh_directory_open(context, directory, &opened));
    assert_true(mh_directory_has(&opened, "checkpoint.safetensors"));
    assert_true(mh_directory_has(&opened, "model.safetensors"));
    mh_directory_close(&opened);
    mh_context_free(context);
}

static void test_damaged_checkpoint(void **state)
{
    (void)state;
    char directory[96], path[128];
    mh_context *context = test_context(NULL, 1);
    mh_train_options o = train_place_options(&place, directory_of("damaged", directory));
    mh_train_result result = mh_train_result_default();
    o.after.count = 3;
    test_ok(context, mh_train(context, &o, &result));
    snprintf(path, sizeof path, "%s/checkpoint.safetensors", directory);
    assert_int_equal(truncate(path, 5000), 0);
    o.after.count = 6;
    test_refused(context, mh_train(context, &o, &result), MH_ERROR_FORMAT, path);
    mh_context_free(context);
}

// Puts another digit into the progress that a checkpoint's header tells, and the header's checksum
// right.
static void forge(const char *path, const char *name, char was, char digit)
{
    enum { SIZE = 8 }; // of the header, in front of it
    char header[4096], pattern[32];
    FILE *file = fopen(path, "r+b");
    assert_non_null(file);
    const size_t bytes = fread(header, 1, sizeof header - 1, file);
    header[bytes] = '\0';
    const int length = snprintf(pattern, sizeof pattern, "\"%s\":\"%c\"", name, was);
    const char *found = strstr(header + SIZE, pattern);
    assert_non_null(found);
    header[found - header + length - 2] = digit;
    const size_t size = SIZE + ((size_t)(unsigned char)header[1] << 8 | (unsigned char)header[0]);
    assert_true(size < bytes);
    char *digits = mh_checksum_find(header, size);
    assert_non_null(digits);
    mh_checksum_print(mh_checksum_of_header(header, size, digits), digits);
    rewind(file);
    assert_int_equal(fwrite(header, 1, bytes, file), bytes);
    assert_int_equal(fclose(file), 0);
}

// A checkpoint that is a good file, but was at a batch that the epoch has not, or waits for what
// there is not.
static void test_impossible_progress(void **state)
{
    (void)state;
    char directory[96], path[128];
    mh_context *context = test_context(NULL, 1);
    mh_train_options o = train_place_options(&place, directory_of("impossible", directory));
    mh_train_result result = mh_train_result_default();
    o.batch_tokens = 1 << 20; // an epoch is one batch
    o.after = (mh_duration){3, MH_UPDATES};
    o.valid = NULL;
    test_ok(context, mh_train(context, &o, &result));
    snprintf(path, sizeof path, "%s/checkpoint.safetensors", directory);
    o.after.count = 6;
    forge(path, "batch", '0', '9');
    test_refused(context, mh_train(context, &o, &result), MH_ERROR_FORMAT,
                 "checkpoint.safetensors: \"batch\": found 9, expected at most 0");
    forge(path, "batch", '9', '0');
    forge(path, "pending", '0', '2');
    test_refused(context, mh_train(context, &o, &result), MH_ERROR_FORMAT,
                 "checkpoint.safetensors: \"pending\": found 2, expected at most 1");
    mh_context_free(context);
}

// ---- learning -----------------------------------------------------------------------------------

typedef struct losses {
    double first, last;
} losses;

static bool note_losses(void *user, const mh_train_event *event)
{
    losses *l = user;
    if (event->kind == MH_TRAIN_UPDATED && event->update == 1)
        l->first = event->loss;
    if (event->kind == MH_TRAIN_UPDATED)
        l->last = event->loss;
    return true;
}

static void test_loss_falls(void **state)
{
    (void)state;
    char directory[96];
    mh_context *context = test_context(NULL, 2);
    mh_train_options o = train_place_options(&place, directory_of("falls", directory));
    mh_train_result result = mh_train_result_default();
    losses l = {0};
    o.after.count = 120;
    o.save_every.count = o.valid_every.count = 120;
    o.learning_rate = 1e-2;
    o.event = note_losses;
    o.user = &l;
    test_ok(context, mh_train(context, &o, &result));
    print_message("loss %.2f -> %.2f\n", l.first, l.last);
    assert_true(l.first > 4 && l.last < 0.6 * l.first);
    mh_context_free(context);
}

// ---- from a model -------------------------------------------------------------------------------

static bool keep_first_loss(void *user, const mh_train_event *event)
{
    double *first = user;
    if (event->kind == MH_TRAIN_UPDATED && event->update == 1)
        *first = event->loss;
    return true;
}

static mh_train_result start_from(const char *init, const char *name, stopper *s, double *first)
{
    char directory[96];
    mh_context *context = test_context(NULL, s ? 2 : 1);
    mh_train_options options = train_place_options(&place, directory_of(name, directory));
    mh_train_result result = mh_train_result_default();
    options.model = init ? NULL : options.model;
    options.init = init;
    options.label_smoothing = 0;
    options.event = s ? count_events : keep_first_loss;
    options.user = s ? (void *)s : (void *)first;
    test_ok(context, mh_train(context, &options, &result));
    mh_context_free(context);
    return result;
}

static void test_from_a_model(void **state)
{
    (void)state;
    char directory[96], cut[96];
    double first = 0, anew = 0;
    const mh_train_result r = start_from(reference, "tuned", NULL, &first);
    start_from(NULL, "anew", NULL, &anew);
    print_message("loss at first %.3f, anew %.3f\n", first, anew);
    assert_true(first < anew - 0.01);
    assert_true(r.best_loss < reference_result.best_loss);
    stopper each = {.each_update = true};
    for (int i = 0; i < 14; i++)
        start_from(reference, "tuned-cut", &each, NULL);
    stopper rest = {0};
    start_from(reference, "tuned-cut", &rest, NULL);
    assert_true(train_runs_equal(directory_of("tuned", directory), directory_of("tuned-cut", cut)));
}

static void test_other_model(void **state)
{
    (void)state;
    char directory[96];
    mh_context *context = test_context(NULL, 1);
    mh_train_options o = train_place_options(&place, directory_of("tuned", directory));
    mh_train_result result = mh_train_result_default();
    mh_translator_config model = *o.model;
    o.init = "/nowhere";
    o.label_smoothing = 0;
    test_refused(context, mh_train(context, &o, &result), MH_ERROR_FORMAT, "init: the run was");
    o.directory = directory_of("refused", directory);
    test_refused(context, mh_train(context, &o, &result), MH_ERROR_FILE, "/nowhere");
    o.init = reference;
    model.dim_feedforward++;
    o.model = &model;
    test_refused(context, mh_train(context, &o, &result), MH_ERROR_ARGUMENT,
                 "dim_feedforward: found 33, expected 32");
    o.tokenizer = "tokenizer.json";
    test_refused(context, mh_train(context, &o, &result), MH_ERROR_ARGUMENT, "tokenizer");
    mh_context_free(context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_durations),
        cmocka_unit_test(test_due),
        cmocka_unit_test(test_threads),
        cmocka_unit_test(test_environment),
        cmocka_unit_test(test_stopped_anywhere),
        cmocka_unit_test(test_stopped_always),
        cmocka_unit_test(test_locale),
        cmocka_unit_test(test_finished_is_left_alone),
        cmocka_unit_test(test_longer),
        cmocka_unit_test(test_equal_scores),
        cmocka_unit_test(test_better_scores),
        cmocka_unit_test(test_length_in_updates),
        cmocka_unit_test(test_warmup),
        cmocka_unit_test(test_cosine_schedule),
        cmocka_unit_test(test_short_run_is_logged),
        cmocka_unit_test(test_other_settings),
        cmocka_unit_test(test_arguments),
        cmocka_unit_test(test_model_is_not_replaced),
        cmocka_unit_test(test_run_does_not_start_from_itself),
        cmocka_unit_test(test_directory_is_locked),
        cmocka_unit_test(test_nothing_is_inherited),
        cmocka_unit_test(test_diverged),
        cmocka_unit_test(test_damaged_checkpoint),
        cmocka_unit_test(test_impossible_progress),
        cmocka_unit_test(test_loss_falls),
        cmocka_unit_test(test_from_a_model),
        cmocka_unit_test(test_other_model),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
