// SPDX-License-Identifier: MIT
// What the commands' options have in common: strict parsing of numbers and choices, and the
// options that every command has (-q, --threads, --isa, --help, --usage).
//
// A number is the whole text or an error: no whitespace, no trailing letters, no overflow. All
// errors end the program through argp_error with exit code 2 and name the option, what was
// found and what was expected. argp_error is our own, see arguments.c.
#ifndef CLI_ARGUMENTS_H
#define CLI_ARGUMENTS_H

#include "command.h"

#include <multihead/attention.h>

// The options of every command; give its address as the input of the argp child.
typedef struct common_options {
    const command *command; // for --help
    size_t threads;         // 0: all
    const char *isa;        // NULL: the best
    bool remarks;           // the library's remarks become notes, as its warnings do
} common_options;

extern const struct argp common_argp; // child of each command's argp

// Parses a command line into `input`. Errors in it end the program; returns EXIT_DONE, or
// EXIT_MEMORY after reporting that.
int parse_arguments(const struct argp *argp, int argc, char **argv, void *input);

// A context with these options; its warnings become notes. Returns an exit code.
int open_context(const common_options *options, mh_context **context);

// Ends the program with exit code 2 after reporting an error in the command line.
_Noreturn void refuse_usage(const char *format, ...) MH_PRINTF(1, 2);

// The same with exit code 4, if there is no memory for the command line.
_Noreturn void refuse_memory(void);

// The values of an option that may be given several times; `names` is to be freed.
typedef struct given_names {
    const char **names; // (count), of the command line
    size_t count;
} given_names;

void given_names_add(given_names *list, const char *name);

// A choice by name: a NULL name ends the list. "f32|float32": messages show the first name, the
// others are aliases.
typedef struct choice {
    const char *name;
    int value;
} choice;

// The spellings of element types, for `choice` lists.
#define F32_NAMES  "f32|float32|fp32|float|single"
#define BF16_NAMES "bf16|bfloat16"
#define F16_NAMES  "f16|float16|fp16|half"

extern const choice dtype_choices[];     // f32, bf16, f16
extern const choice precision_choices[]; // f32, bf16
extern const choice activation_choices[];

int64_t parse_integer(struct argp_state *state, const char *option, const char *text, int64_t low,
                      int64_t high);
double parse_number(struct argp_state *state, const char *option, const char *text);
int parse_choice(struct argp_state *state, const char *option, const char *text,
                 const choice *choices);

// "3,-1" into exactly `count` integers of [low, high]; `form` says what is expected.
void parse_integers(struct argp_state *state, const char *option, const char *text,
                    const char *form, int64_t low, int64_t high, size_t count, int64_t *values);

// "32x10", or as a shape "32,10", into at least `least` and at most `most` sizes; returns how many.
// `form` says what is expected.
int parse_sizes(struct argp_state *state, const char *option, const char *text, const char *form,
                int least, int most, int64_t *sizes);

// --causal, whose alignment may be omitted: MH_CAUSAL then. If it is needed, complain_alignment()
// reports that and returns an exit code.
mh_causal parse_causal(struct argp_state *state, char *argument);
int complain_alignment(size_t queries, size_t keys);

// An index that an option gives, from 0, or -1, must be less than `count`, which the model has of
// `many`. Returns an exit code after reporting one that is not.
int check_index(const char *option, ptrdiff_t found, size_t count, const char *one,
                const char *many);

// Rejects an argument that is not an option; for the ARGP_KEY_ARG of commands without any.
error_t refuse_argument(struct argp_state *state, const char *argument);

// Whether a word is one of the names "a|b|c". Ignores case, - _ / . and spaces.
bool is_name(const char *word, const char *names);

// The name in the list that is closest to `word`, NULL if none is close.
const char *nearest_name(const char *word, const char *const *names);

#endif
