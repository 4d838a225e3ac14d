// SPDX-License-Identifier: MIT
// A training that waits for its turn: one update for every line on standard input. So
// compare_training.py lets others train in between, and measures all of them at the same time.
//
//     train_turns DATA FOLDER TOKENIZER|- auto|f32|bf16 THREADS BATCH_TOKENS
//
//     ready amx bf16 11234      level, precision, tokens of the vocabulary
//     ?                         one update, please
//     0.731 2012 9.32           its seconds, its target tokens, the mean loss of late
//
// It ends with its input. Options are those of `multihead train`, its preset small, but for a
// shorter warm-up; nothing is saved or validated before the end.
#include "base/clock.h"
#include <inttypes.h>
#include <multihead/multihead.h>
#include <multihead/train.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct turns {
    mh_context *context;
    double begun;
    uint64_t tokens;
} turns;

static bool wait_for_turn(turns *t)
{
    char line[64];
    fflush(stdout);
    const bool go_on = fgets(line, sizeof line, stdin) != NULL;
    t->begun = mh_clock_seconds();
    return go_on;
}

static bool on_event(void *user, const mh_train_event *e)
{
    turns *t = user;
    const double seconds = mh_clock_seconds() - t->begun;
    if (e->kind == MH_TRAIN_BEGINS) {
        printf("ready %s %s %zu\n", mh_context_isa(t->context), e->precision, e->vocabulary);
    } else if (e->kind == MH_TRAIN_UPDATED) {
        printf("%.6f %" PRIu64 " %.6f\n", seconds, e->tokens - t->tokens, e->loss);
        t->tokens = e->tokens;
    } else {
        return true;
    }
    return wait_for_turn(t);
}

static bool parse_precision(const char *name, mh_precision *precision)
{
    static const char *const names[] = {
        [MH_PRECISION_NATIVE] = "auto", [MH_PRECISION_F32] = "f32", [MH_PRECISION_BF16] = "bf16"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (names[i] && !strcmp(name, names[i])) {
            *precision = (mh_precision)i;
            return true;
        }
    return false;
}

int main(int argc, char **argv)
{
    mh_train_options o = mh_train_options_default();
    if (argc != 7 || !parse_precision(argv[4], &o.precision)) {
        fputs("usage: train_turns DATA FOLDER TOKENIZER|- auto|f32|bf16 THREADS BATCH_TOKENS\n",
              stderr);
        return 2;
    }
    turns t = {0};
    char error[256];
    mh_context_options context = mh_context_options_default();
    context.threads = strtoul(argv[5], NULL, 10);
    if (mh_context_create(&context, &t.context, error, sizeof error)) {
        fprintf(stderr, "train_turns: %s\n", error);
        return 1;
    }
    o.data = argv[1];
    o.directory = argv[2];
    o.tokenizer = strcmp(argv[3], "-") ? argv[3] : NULL;
    o.batch_tokens = strtoul(argv[6], NULL, 10);
    o.warmup = 100; // so that a few dozens of updates show whether it learns
    o.save_every.count = 0;
    o.after = (mh_duration){1000000, MH_UPDATES};
    o.event = on_event;
    o.user = &t;
    mh_train_result result = mh_train_result_default();
    const mh_status status = mh_train(t.context, &o, &result);
    if (status)
        fprintf(stderr, "train_turns: %s\n", mh_error_message(t.context));
    mh_context_free(t.context);
    return status != MH_OK;
}
