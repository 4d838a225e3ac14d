// SPDX-License-Identifier: MIT
// Progress of a training run; see train_progress.h. The most important fields come first: 80
// columns show them up to the remaining time, a wider terminal all.
#include "train_progress.h"
#include "messages.h"
#include "progress.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static const double live_seconds = 0.2, plain_seconds = 30, rate_seconds = 2;

// "1:02:03" or "4:05".
static const char *train_time_text(double seconds, char text[32])
{
    const unsigned long s = seconds > 0 && seconds < 1e8 ? (unsigned long)(seconds + 0.5) : 0;
    if (s >= 3600)
        snprintf(text, 32, "%lu:%02lu:%02lu", s / 3600, s / 60 % 60, s % 60);
    else
        snprintf(text, 32, "%lu:%02lu", s / 60, s % 60);
    return text;
}

static void measure_rate(train_progress *p, const mh_train_event *e)
{
    const double seconds = e->seconds - p->rated;
    if (seconds < rate_seconds && p->rate > 0)
        return;
    p->rate = seconds > 0 ? (double)(e->tokens_now - p->rated_tokens) / seconds : 0;
    p->rated = e->seconds;
    p->rated_tokens = e->tokens_now;
}

// Extrapolates from the updates of this process, validations included.
static double seconds_left(const mh_train_event *e)
{
    const double done_now = e->tokens ? e->part * (double)e->tokens_now / (double)e->tokens : 0;
    return done_now > 0 ? e->seconds * (1 - e->part) / done_now : 0;
}

static void show_duration(double seconds, double update)
{
    if (seconds < 5400)
        note("about %.0f minutes to go: an update takes %.2g s", ceil(seconds / 60), update);
    else
        note("about %.1f hours to go: an update takes %.2g s", seconds / 3600, update);
}

// Once, after the second update or a second of them: the first one is slower than others. Of short
// runs the line says it.
static void estimate(train_progress *p, const mh_train_event *e)
{
    enum { SECONDS = 1, WORTH = 90 };
    p->updates++;
    if (p->updates == 1) {
        p->measured = e->seconds;
        p->measured_part = e->part;
    }
    const double seconds = e->seconds - p->measured, part = e->part - p->measured_part;
    if (p->estimated || seconds < SECONDS || part <= 0)
        return;
    p->estimated = true;
    if (seconds * (1 - e->part) / part >= WORTH)
        show_duration(seconds * (1 - e->part) / part, seconds / (double)(p->updates - 1));
}

// 12.3K, 870 or 3.4 per second.
static const char *rate_text(double rate, char text[32])
{
    const bool thousands = rate >= 1000;
    snprintf(text, 32, "%.*f%s", rate >= 10 && !thousands ? 0 : 1, thousands ? rate / 1000 : rate,
             thousands ? "K" : "");
    return text;
}

static void show_update(train_progress *p, const mh_train_event *e)
{
    static const char *const units[] = {"tokens", "pictures", "tokens", "texts"};
    char text[256], rate[32], spent[32], left[32], perplexity[32] = "";
    const bool whole = e->epoch > 0 && e->epoch_part == 0; // the epoch that has just ended
    measure_rate(p, e);
    estimate(p, e);
    const double wait = progress_wanted() ? live_seconds : plain_seconds;
    if (e->seconds - p->shown < wait && e->part < 1)
        return;
    p->shown = e->seconds;
    if (e->task == MH_TASK_TRANSLATION || e->task == MH_TASK_LM)
        snprintf(perplexity, sizeof perplexity, "  ppl %.1f", exp(e->loss));
    snprintf(text, sizeof text,
             "epoch %" PRIu64 " %2.0f%%  loss %.3f  %s %s/s  %s, %s left  update %" PRIu64
             "%s  lr %.2e  norm %.2f",
             whole ? e->epoch : e->epoch + 1, whole ? 100 : 100 * e->epoch_part, e->loss,
             rate_text(p->rate, rate), units[e->task], train_time_text(e->seconds, spent),
             train_time_text(seconds_left(e), left), e->update, perplexity, e->learning_rate,
             e->gradient_norm);
    if (progress_wanted())
        progress_line(e->part, text);
    else
        note("%s", text);
}

// On one line.
static void show_sample(const char *sample)
{
    char text[1024];
    snprintf(text, sizeof text, "%s", sample);
    for (char *at = text; (at = strchr(at, '\n'));)
        *at = ' ';
    note("sample: %s", text);
}

// Of pictures and text.
static void show_other_validation(const mh_train_event *e)
{
    char spent[32], score[64];
    if (e->task == MH_TASK_IMAGES || e->task == MH_TASK_CLASSIFICATION)
        snprintf(score, sizeof score, "accuracy %.2f %%", 100 * e->accuracy);
    else
        snprintf(score, sizeof score, "perplexity %.2f  bits per byte %.3f", exp(e->valid_loss),
                 e->bits_per_byte);
    note("validation at update %" PRIu64 " (epoch %.2f, %s): loss %.3f  %s%s", e->update,
         (double)e->epoch + e->epoch_part, train_time_text(e->seconds, spent), e->valid_loss, score,
         e->best ? "  best" : "");
    if (e->sample)
        show_sample(e->sample);
}

static void show_validation(const mh_train_event *e)
{
    char spent[32];
    progress_clear();
    if (e->task != MH_TASK_TRANSLATION) {
        show_other_validation(e);
        return;
    }
    note("validation at update %" PRIu64
         " (epoch %.2f, %s): loss %.3f  BLEU %.2f  chrF2 %.2f  exact "
         "%.1f %%%s",
         e->update, (double)e->epoch + e->epoch_part, train_time_text(e->seconds, spent),
         e->valid_loss, e->bleu, e->chrf, 100 * e->exact, e->best ? "  best" : "");
}

// Whether most tokens of the vocabulary are rare in the data. A model to start from knows them.
static bool data_are_few(const mh_train_event *e)
{
    enum { OF_EACH = 10, ALWAYS = 259 }; // bytes and special tokens are there in any case
    const bool text = e->task == MH_TASK_TRANSLATION || e->task == MH_TASK_LM;
    return text && !e->starts_from_model && e->vocabulary > ALWAYS &&
           e->epoch_tokens < OF_EACH * (uint64_t)(e->vocabulary - ALWAYS);
}

static void show_begin(const mh_train_event *e)
{
    static const char *const examples[] = {"pair", "picture", "sequence", "text"};
    static const char *const kinds[] = {"tokens in the vocabulary", "labels",
                                        "tokens in the vocabulary", "labels"};
    const bool small = e->parameters < 1000000;
    note("%zu %s%s, %zu for validation, %zu skipped; %zu %s, %.*f %s parameters, %s", e->pairs,
         examples[e->task], e->pairs == 1 ? "" : "s", e->valid_pairs, e->left_out, e->vocabulary,
         kinds[e->task], small ? 1 : 2, (double)e->parameters / (small ? 1e3 : 1e6),
         small ? "thousand" : "M", e->precision);
    if (e->held_out)
        note("no --valid: %zu %s%s of the data %s held out for validation (--hold-out)",
             e->held_out, examples[e->task], e->held_out == 1 ? "" : "s",
             e->held_out == 1 ? "is" : "are");
    if (data_are_few(e))
        note("the data have about %" PRIu64 " tokens, few for a vocabulary of %zu: little will be "
             "learnt; more data help, or fewer --merges",
             e->epoch_tokens, e->vocabulary);
    if (e->update)
        note("resuming after update %" PRIu64, e->update);
    if (e->updates <= e->warmup && e->warmup > 1)
        note("the run of about %" PRIu64 " updates ends within its warm-up of %" PRIu64
             ": little will be learnt; try --warmup %" PRIu64 ", or a longer --after",
             e->updates, e->warmup, e->updates / 10 + 1);
}

void train_progress_show(train_progress *p, const mh_train_event *e)
{
    switch (e->kind) {
    case MH_TRAIN_BEGINS:
        show_begin(e);
        break;
    case MH_TRAIN_UPDATED:
        show_update(p, e);
        break;
    case MH_TRAIN_VALIDATES:
        progress_line(e->part, "validating");
        break;
    case MH_TRAIN_VALIDATED:
        show_validation(e);
        break;
    case MH_TRAIN_SAVED:
        break;
    }
}
