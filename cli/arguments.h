// SPDX-License-Identifier: MIT
// What the commands' options have in common: strict parsing of numbers and choices, and the
// options that every command has (-q, --threads, --isa, --help, --usage).
//
// A number is the whole text or an error: no blanks, no trailing letters, no overflow. All
// errors end the program through argp_error with exit code 2 and name the option, what was
// found and what was expected.
#ifndef CLI_ARGUMENTS_H
#define CLI_ARGUMENTS_H

#include "command.h"

#include <multihead/tensor.h>

// The options of every command; give its address as the input of the argp child.
typedef struct common_options {
    const command *command; // for --help
    size_t threads;         // 0: all
    const char *isa;        // NULL: the best
} common_options;

extern const struct argp common_argp; // child of each command's argp

// Parses a command line into `input`. Mistakes in it end the program; what returns is EXIT_DONE, or
// EXIT_MEMORY after saying so.
int parse_arguments(const struct argp *argp, int argc, char **argv, void *input);

// A context as these options ask for it; its warnings become notes. Returns an exit code.
int open_context(const common_options *options, mh_context **context);

// A choice by name: the list is ended by a NULL name.
typedef struct choice {
    const char *name;
    int value;
} choice;

extern const choice dtype_choices[];     // f32, bf16, f16
extern const choice precision_choices[]; // f32, bf16

int64_t parse_integer(struct argp_state *state, const char *option, const char *text, int64_t low,
                      int64_t high);
double parse_number(struct argp_state *state, const char *option, const char *text);
int parse_choice(struct argp_state *state, const char *option, const char *text,
                 const choice *choices);

// "3,-1" into exactly `count` integers of [low, high]; `form` says what is expected.
void parse_integers(struct argp_state *state, const char *option, const char *text,
                    const char *form, int64_t low, int64_t high, size_t count, int64_t *values);

// Refuses an argument that is not an option; for the ARGP_KEY_ARG of commands without any.
error_t refuse_argument(struct argp_state *state, const char *argument);

// The name in the list that is most like `word`, NULL if none is near.
const char *nearest_name(const char *word, const char *const *names);

#endif
