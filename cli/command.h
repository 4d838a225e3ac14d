// SPDX-License-Identifier: MIT
// What a sub-command is, and the one list of them, COMMANDS; each cmd_<name>.c in a directory below
// defines one.
//
// A command's options are one `struct argp`: it parses them, and help.c and manpage.c print
// them, so the three cannot disagree.
#ifndef CLI_COMMAND_H
#define CLI_COMMAND_H

#include <argp.h>
#include <stdio.h>

// Exit codes, the same for every command.
enum {
    EXIT_DONE = 0,
    EXIT_FAILED = 1,
    EXIT_USAGE = 2,       // the command line is invalid
    EXIT_INPUT = 3,       // an input file is missing, damaged, or does not match the others
    EXIT_MEMORY = 4,      // out of memory
    EXIT_INTERRUPTED = 5, // Ctrl-C; what was being written was finished first
};

typedef struct command {
    const char *name;
    const char *summary;               // one line for the list of commands, no full stop
    const struct argp *argp;           // options; args_doc is the usage line, doc "before\vafter"
    int (*run)(int argc, char **argv); // argv[0] is "multihead NAME"; returns an exit code
} command;

// The commands a user sees, in the order of `multihead --help`. Command(name) is expanded for each.
#define COMMANDS(Command)                                                                          \
    Command(attend) Command(bench) Command(classify) Command(decoder) Command(embed)               \
        Command(encoder) Command(fill) Command(generate) Command(heads) Command(info)              \
            Command(look) Command(mha) Command(score) Command(serve) Command(train)                \
                Command(transcribe) Command(translate) Command(view)

#define DECLARE_COMMAND(name) extern const command name##_command;
COMMANDS(DECLARE_COMMAND)
#undef DECLARE_COMMAND

// An alias of the option above it in a table, hidden from help: the name that PyTorch or Hugging
// Face uses.
#define ALIAS(name)                                                                                \
    {                                                                                              \
        name, 0, NULL, OPTION_ALIAS | OPTION_HIDDEN, NULL, 0                                       \
    }

extern const command *const commands[]; // the same, ended by NULL

extern const char program_summary[]; // what multihead is, one line

// program.c: all of the program, once per process, as stdout is closed when that exits. Returns the
// exit code, unless an invalid command line has ended the process with it.
int run_program(int argc, char **argv);

// help.c: `multihead --help`, `multihead NAME --help` and `--usage`.
void print_program_help(FILE *to);
void print_command_help(FILE *to, const command *c);
void print_command_usage(FILE *to, const command *c);

// help.c: a command's options in the order of its table, its children's after them, as `style`
// prints an option and the title of a group.
typedef struct option_style {
    void (*option)(FILE *to, const struct argp_option *option);
    void (*group)(FILE *to, const char *title);
} option_style;
void put_options(FILE *to, const struct argp *argp, const option_style *style);

// manpage.c: the man page of the whole program, as troff.
void print_man_page(FILE *to);

#endif
