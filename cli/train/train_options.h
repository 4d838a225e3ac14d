// SPDX-License-Identifier: MIT
// State of `multihead train`, and its options: one table for parsing, help and the man page.
#ifndef CLI_TRAIN_OPTIONS_H
#define CLI_TRAIN_OPTIONS_H

#include "arguments.h"
#include "train_progress.h"

enum { PRESET_NONE, PRESET_NANO, PRESET_TINY, PRESET_SMALL, PRESET_BASE };

typedef struct train {
    common_options common;
    mh_context *context;
    mh_train_options options;
    mh_translator_config model; // options.model
    int preset;
    bool merges, valid_freq; // given
    const char *more[999];   // --data, after the first
    const char *only[4];     // by task: an option that is for it alone, or NULL
    bool layers, max_length; // given
    bool hold_out;           // given
    const char *init;        // the model's name
    char *init_directory;    // where it is
    const char *kind;        // an option for a new model's activation or norms, or NULL
    const char *text_only;   // the same for tasks with text
    bool resumes;            // with the options that the run has recorded: --data is not given
    bool unrecorded;         // they could not be written
    int argc;                // the command line, with recorded options
    char **argv;             //
    char *record;            // memory of the recorded options
    mh_communicator ranks;
    size_t updates; // of this process
    train_progress progress;
    size_t bad_lines;
} train;

extern const struct argp train_argp;
extern const choice train_task_choices[];

// Reads the command line into t->options, which have their defaults; all ranks call this, and only
// rank 0 reads files. Mistakes end the program; returns an exit code.
int train_parse(int argc, char **argv, train *t);

// Sets what the task, --init, --example and --preset stand for, once they are known.
void train_set_defaults(train *t);

// Refuses options that contradict each other, as argp_error() does. Sets t->resumes.
void train_check_options(struct argp_state *state, train *t);

#endif
