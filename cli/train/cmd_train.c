// SPDX-License-Identifier: MIT
// multihead train: trains translators, language models and classifiers of texts or pictures. Its
// options are in train_options.c, its progress output in train_progress.c.
#include "messages.h"
#include "model_path.h"
#include "outputs.h"
#include "progress.h"
#include "ranks.h"
#include "train_options.h"
#include "train_record.h"

#include <errno.h>
#include <math.h>
#include <multihead/view.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void record_options(train *t)
{
    if (train_record_save(t))
        return;
    complain("%s/" TRAIN_RECORD_NAME ": cannot be written: %s", t->options.directory,
             strerror(errno));
    t->unrecorded = true;
}

// For a run that is counted in epochs: who asks for updates knows their number.
static void note_few_updates(const train *t, const mh_train_event *event)
{
    enum { FEW = 30 };
    const unsigned long long updates = event->updates;
    if (t->options.after.unit == MH_EPOCHS && updates < FEW)
        note("the run has about %llu update%s, which teach%s little: try a longer --after, or a "
             "smaller --batch-tokens",
             updates, updates == 1 ? "" : "s", updates == 1 ? "es" : "");
}

// For ranks that wait for those that compute an update.
static void note_idle_ranks(const train *t, const mh_train_event *event)
{
    const size_t ranks = t->ranks.ranks, grains = event->grains;
    if (grains < ranks)
        note("an update has about %zu grain%s, each computed by one rank: %zu of %zu ranks have "
             "nothing to do; a larger --batch-tokens or --accumulate gives more grains",
             grains, grains == 1 ? "" : "s", ranks - grains, ranks);
}

// Unless nobody wants any.
static void note_no_validation(const train *t)
{
    const mh_train_options *o = &t->options;
    const bool unwanted = o->task == MH_TASK_IMAGES || (t->hold_out && o->held_out <= 0);
    if (t->valid_freq)
        note("--valid-freq has no effect: the data are too few to hold any out for validation");
    else if (!unwanted)
        note("no --valid, and the data are too few to hold any out: nothing will tell how "
             "good the model is");
}

static bool on_event(void *user, const mh_train_event *event)
{
    train *t = user;
    if (event->kind == MH_TRAIN_BEGINS) {
        begin_saving();
        record_options(t);
    }
    t->updates += event->kind == MH_TRAIN_UPDATED;
    train_progress_show(&t->progress, event);
    if (event->kind == MH_TRAIN_BEGINS) {
        note_few_updates(t, event);
        note_idle_ranks(t, event);
    }
    if (event->kind == MH_TRAIN_BEGINS && !event->valid_pairs)
        note_no_validation(t);
    return !was_interrupted();
}

// A process that is not rank 0 has nothing to record or show, and ends with rank 0.
static bool on_event_following(void *user, const mh_train_event *event)
{
    (void)user;
    if (event->kind == MH_TRAIN_BEGINS)
        begin_saving();
    return !was_interrupted();
}

// The first few are reported, all are counted.
static void on_bad_line(void *user, const char *file, size_t line, const char *why)
{
    enum { MOST_NAMED = 10 };
    train *t = user;
    if (++t->bad_lines > MOST_NAMED)
        return;
    const char *last = t->bad_lines == MOST_NAMED ? "; further ones are counted only" : "";
    if (line == 0)
        note("%s: skipped: %s%s", file, why, last);
    else
        note("%s:%zu: skipped: %s%s", file, line, why, last);
}

// Of a model that has learnt no more than how frequent labels or tokens are.
static bool say_baseline(const train *t, const mh_train_result *r)
{
    enum { LEARNT = 98 }; // % of the loss
    const char *directory = t->options.directory;
    const mh_task_kind task = t->options.task;
    if (!r->best_update || isnan(r->baseline))
        return false;
    if (task == MH_TASK_LM && 100 * r->best_loss > LEARNT * r->baseline)
        note("done, but %s has hardly learnt anything: its loss is %.3f, and that of the tokens' "
             "frequencies %.3f. In another directory, try a longer --after, another --lr, or more "
             "data",
             directory, r->best_loss, r->baseline);
    else if ((task == MH_TASK_CLASSIFICATION || task == MH_TASK_IMAGES) &&
             r->best_accuracy <= r->baseline)
        note("done, but %s is no better than one answer to everything: accuracy %.2f %%, and %.2f "
             "%% of the validation data have the most frequent label. In another directory, try a "
             "longer --after, another --lr, or more data",
             directory, 100 * r->best_accuracy, 100 * r->baseline);
    else
        return false;
    return true;
}

// Reports a model that is not usable, and what to try; returns false if it may be usable.
static bool say_useless(const train *t, const mh_train_result *r)
{
    const char *directory = t->options.directory;
    if (r->update < r->warmup)
        note("done, but %s has hardly learnt anything: it ended at update %llu of its warm-up of "
             "%llu. Try a longer --after, or --warmup %llu in another directory",
             directory, (unsigned long long)r->update, (unsigned long long)r->warmup,
             (unsigned long long)(r->update / 10 + 1));
    else if (t->options.task == MH_TASK_TRANSLATION && r->best_update && r->best_bleu < 1)
        note("done, but %s is not usable yet: BLEU %.2f (update %llu). Try a longer --after, or in "
             "another directory a smaller --batch-tokens for more updates, or more data",
             directory, r->best_bleu, (unsigned long long)r->best_update);
    else
        return say_baseline(t, r);
    return true;
}

// The model, with the score by which validation chose it.
static void say_best(const train *t, const mh_train_result *r)
{
    char score[40] = "";
    switch (t->options.task) {
    case MH_TASK_TRANSLATION:
        snprintf(score, sizeof score, "BLEU %.2f", r->best_bleu);
        break;
    case MH_TASK_LM:
        snprintf(score, sizeof score, "loss %.3f", r->best_loss);
        break;
    case MH_TASK_IMAGES:
    case MH_TASK_CLASSIFICATION:
        snprintf(score, sizeof score, "accuracy %.2f %%", 100 * r->best_accuracy);
        break;
    }
    note("done%s: %s is a model with %s (update %llu)", r->impatient ? ", no more improvement" : "",
         t->options.directory, score, (unsigned long long)r->best_update);
}

static void say_result(const train *t, const mh_train_result *r)
{
    const char *directory = t->options.directory;
    if (r->bytes_sent && t->updates)
        note("%zu ranks; each sent about %.1f MB per update, %.0f %% of it while gradients were "
             "computed",
             t->ranks.ranks, (double)r->bytes_sent / (double)t->updates / 1e6,
             100 * (double)r->bytes_early / (double)r->bytes_sent);
    if (r->finished)
        note("the run in %s is complete: %llu update%s; nothing to do", directory,
             (unsigned long long)r->update, r->update == 1 ? "" : "s");
    else if (r->stopped)
        note("saved after update %llu; 'multihead train -o %s' resumes there",
             (unsigned long long)r->update, directory);
    else if (say_useless(t, r))
        return;
    else if (r->best_update)
        say_best(t, r);
    else
        note("done: %s is a model", directory);
}

// Whether the plot exists and is not older than the log: writing it may have failed.
static bool curve_is_drawn(const train *t)
{
    char *log = join_path(t->options.directory, "log.jsonl");
    char *picture = join_path(t->options.directory, "loss.svg");
    struct stat logged, drawn;
    const bool up_to_date = log && picture && stat(picture, &drawn) == 0 &&
                            stat(log, &logged) == 0 &&
                            (drawn.st_mtim.tv_sec > logged.st_mtim.tv_sec ||
                             (drawn.st_mtim.tv_sec == logged.st_mtim.tv_sec &&
                              drawn.st_mtim.tv_nsec >= logged.st_mtim.tv_nsec));
    free(log);
    free(picture);
    return up_to_date;
}

// Plots the run's losses and scores next to its log.
static int draw_curve(const train *t)
{
    char *log = join_path(t->options.directory, "log.jsonl");
    char *picture = join_path(t->options.directory, "loss.svg");
    int code = EXIT_MEMORY;
    if (log && picture) {
        mh_status status = mh_view_curve_write(t->context, log, picture);
        code = status ? complain_output(t->context, status, NULL) : EXIT_DONE;
    }
    free(log);
    free(picture);
    return code;
}

// The option of a member of mh_train_options or mh_translator_config, NULL for other words. Those
// without an underscore are known only at the beginning of a message.
static const char *option_of(const train *t, const char *name, size_t size, bool first)
{
    static const char *const options[][2] = {{"accumulate", "--accumulate"},
                                             {"after", "--after"},
                                             {"average", "--average"},
                                             {"batch_tokens", "--batch-tokens"},
                                             {"beta1", "--beta1"},
                                             {"beta2", "--beta2"},
                                             {"clip", "--clip"},
                                             {"crop_padding", "--crop-padding"},
                                             {"d_model", "--d-model"},
                                             {"data_targets", "--targets"},
                                             {"dim_feedforward", "--ff"},
                                             {"dropout", "--dropout"},
                                             {"held_out", "--hold-out"},
                                             {"image_size", "--image-size"},
                                             {"label_names", "--label-names"},
                                             {"label_smoothing", "--label-smoothing"},
                                             {"layers", "--layers"},
                                             {"learning_rate", "--lr"},
                                             {"max_length", "--max-length"},
                                             {"min_learning_rate", "--min-lr"},
                                             {"nhead", "--heads"},
                                             {"num_decoder_layers", "--decoder-layers"},
                                             {"num_encoder_layers", "--encoder-layers"},
                                             {"patch_size", "--patch-size"},
                                             {"patience", "--patience"},
                                             {"save_every", "--save-freq"},
                                             {"valid_every", "--valid-freq"},
                                             {"valid_targets", "--valid-targets"},
                                             {"weight_decay", "--weight-decay"}};
    for (size_t i = 0; i < sizeof options / sizeof *options; i++)
        if (strlen(options[i][0]) == size && !memcmp(options[i][0], name, size) &&
            (first || memchr(name, '_', size) || !strncmp(name, "nhead", size)))
            return t->options.task == MH_TASK_LM && !strncmp(name, "max_length", size)
                       ? "--context"
                       : options[i][1];
    return NULL;
}

// The library's message, with the names of options.
static void put_message(const train *t, const char *message, FILE *to)
{
    for (const char *at = message; *at;) {
        const size_t blanks = strspn(at, " "), size = strcspn(at + blanks, " :");
        const char *option = option_of(t, at + blanks, size, at == message);
        fprintf(to, "%.*s%.*s", (int)blanks, at, option ? (int)strlen(option) : (int)size,
                option ? option : at + blanks);
        at += blanks + size;
        if (*at == ':')
            fputc(*at++, to);
    }
}

static int complain_option(const train *t, mh_status status)
{
    if (!*mh_error_message(t->context))
        return complain_status(t->context, status, NULL);
    char *text = NULL;
    size_t size;
    FILE *to = open_memstream(&text, &size);
    if (to)
        put_message(t, mh_error_message(t->context), to);
    if (to && fclose(to) == 0)
        complain("%s", text);
    free(text);
    return status_exit_code(status);
}

// Files of the run directory are outputs.
static int complain_training(const train *t, mh_status status)
{
    if (status == MH_ERROR_ARGUMENT && t->ranks.ranks > 1) { // options of another rank
        complain_status(t->context, status, NULL);
        return EXIT_FAILED;
    }
    const char *directory = t->options.directory, *message = mh_error_message(t->context);
    const size_t length = strlen(directory);
    const bool own = strncmp(message, directory, length) == 0 && message[length] != '\0' &&
                     (strchr("/:", message[length]) || (length && directory[length - 1] == '/'));
    const int code = complain_option(t, status);
    return own && status == MH_ERROR_FILE ? EXIT_FAILED : code;
}

// An error that the other ranks do not know: they may wait for this one.
static void end_all(const train *t, mh_status status)
{
    ranks_speak();
    complain_status(t->context, status, NULL);
    ranks_abort(&t->ranks, EXIT_FAILED);
}

static int follow_training(train *t)
{
    mh_train_result result = mh_train_result_default();
    t->options.event = on_event_following;
    const mh_status status = mh_train(t->context, &t->options, &result);
    if (status && !result.agreed)
        end_all(t, status);
    const int code = status ? complain_training(t, status) : EXIT_DONE;
    ranks_close(&t->ranks);
    end_saving();
    return result.stopped ? EXIT_INTERRUPTED : code;
}

static int run_training(train *t)
{
    mh_train_result result = mh_train_result_default();
    if (t->ranks.rank > 0)
        return follow_training(t);
    mh_status status = mh_train(t->context, &t->options, &result);
    progress_clear();
    if (status && t->ranks.ranks > 1 && !result.agreed)
        end_all(t, status);
    int code = EXIT_DONE;
    if (status)
        code = complain_training(t, status);
    if (status == MH_ERROR_FILE && t->resumes)
        note(
            "the run in %s reads the files that it was started with; if they have moved, put their "
            "new paths into %s/" TRAIN_RECORD_NAME,
            t->options.directory, t->options.directory);
    if (!status)
        say_result(t, &result);
    if (!status && result.update && !(result.finished && curve_is_drawn(t)))
        code = draw_curve(t);
    if (code == EXIT_DONE && t->unrecorded)
        code = EXIT_FAILED;
    ranks_close(&t->ranks);
    end_saving();
    if (result.stopped && code == EXIT_DONE) { // by the signal of another rank
        complain("interrupted");
        code = EXIT_INTERRUPTED;
    }
    return code;
}

// An argument quoted for a shell unless it is plain. Returns where it ends.
static char *put_quoted(char *to, const char *argument)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                "%+,-./:=@_";
    if (*argument && argument[strspn(argument, plain)] == 0)
        return to + sprintf(to, "%s", argument);
    *to++ = '\'';
    for (; *argument; argument++)
        if (*argument == '\'')
            to += sprintf(to, "'\\''");
        else
            *to++ = *argument;
    *to++ = '\'';
    return to;
}

// The command line, for the model's README; free() it, NULL if there is no memory.
static char *join_arguments(int argc, char **argv)
{
    size_t size = strlen(argv[0]) + 1;
    for (int i = 1; i < argc; i++)
        size += 4 * strlen(argv[i]) + 3; // a quote takes four; quotes and a space around
    char *text = malloc(size);
    char *end = text ? text + sprintf(text, "%s", argv[0]) : NULL;
    for (int i = 1; text && i < argc; i++) {
        *end++ = ' ';
        end = put_quoted(end, argv[i]);
    }
    if (text)
        *end = 0;
    return text;
}

// The directory of --init, which rank 0 finds; a run that is resumed does not read it: the name is
// enough.
static int find_init(train *t)
{
    if (!t->init || t->ranks.rank > 0)
        return EXIT_DONE;
    char *checkpoint = join_path(t->options.directory, "checkpoint.safetensors");
    const bool begun = checkpoint && access(checkpoint, F_OK) == 0;
    free(checkpoint);
    if (begun || !checkpoint)
        return checkpoint ? EXIT_DONE : EXIT_MEMORY;
    const int code = model_path_find_for("--init ", t->init, &t->init_directory);
    t->options.init = t->init_directory;
    return code;
}

// The others have rank 0's.
static int share_init(train *t)
{
    const char *name = t->init ? t->init : "";
    if (t->ranks.ranks == 1)
        return EXIT_DONE;
    const int code = ranks_compare(&t->ranks, ranks_hash(0, name, strlen(name)), "another --init");
    if (code != EXIT_DONE)
        return code;
    char *directory = ranks_broadcast_text(&t->ranks, t->options.init);
    free(t->init_directory);
    t->options.init = t->init_directory = directory;
    return EXIT_DONE;
}

static int run_train(int argc, char **argv)
{
    train t = {.common = {.command = &train_command},
               .options = mh_train_options_default(),
               .model = mh_translator_config_default()};
    t.options.model = &t.model;
    t.options.event = on_event;
    t.options.bad_line = on_bad_line;
    t.options.user = &t;
    t.options.communicator = &t.ranks;
    ranks_silence();
    int code = ranks_open(&t.ranks);
    if (code != EXIT_DONE)
        return code;
    code = train_parse(argc, argv, &t);
    if (code == EXIT_DONE)
        code = find_init(&t);
    char *command_line = code == EXIT_DONE ? join_arguments(t.argc, t.argv) : NULL;
    t.options.command = command_line;
    if (code == EXIT_DONE)
        code = open_context(&t.common, &t.context);
    code = ranks_agree(&t.ranks, code);
    if (code == EXIT_DONE)
        code = ranks_compare_levels(&t.ranks, t.context);
    if (code == EXIT_DONE)
        code = share_init(&t);
    if (t.ranks.ranks == 1) // MPI has pipes of its own
        catch_closed_pipes();
    if (code == EXIT_DONE)
        code = run_training(&t);
    ranks_close(&t.ranks);
    mh_context_free(t.context);
    free(command_line);
    free(t.init_directory);
    train_record_free(&t);
    return code;
}

const command train_command = {
    .name = "train",
    .summary = "train a translator, a language model or a classifier of texts or pictures",
    .argp = &train_argp,
    .run = run_train,
};
