// SPDX-License-Identifier: MIT
// Messages of a command on stderr, and how it ends when it is interrupted.
//
// Every line starts with the command's name, "multihead attend: ". Errors are always printed; -q
// suppresses notes and warnings.
#ifndef CLI_MESSAGES_H
#define CLI_MESSAGES_H

#include <multihead/base.h>
#include <stdarg.h>

// The name that starts each message; program.c sets it once. The string is borrowed.
void set_message_name(const char *name);
const char *get_message_name(void);
void set_quiet(bool quiet);
bool is_quiet(void);

// Control characters, for instance in file names, are printed as \x1b: they must not reach the
// terminal. Each message is one line.
void complain(const char *format, ...) MH_PRINTF(1, 2); // an error
void complain_list(const char *format, va_list arguments);
void note(const char *format, ...) MH_PRINTF(1, 2); // a warning or a remark

// The first error of this process, without the command's name; "" before there is one.
const char *first_complaint(void);

// One of two words, for messages that count: 1 head, 2 heads.
const char *plural(size_t count, const char *one, const char *many);

// Marks that stderr, a terminal, has a partial line; a message erases it first.
void set_live_line(bool shown);
void erase_live_line(void);

int status_exit_code(mh_status status);

// Prints what failed, "WHERE: the context's message", and returns the exit code for the status.
// `where` may be NULL.
int complain_status(const mh_context *context, mh_status status, const char *where);

// The same for what is read, a model or a sound: what is not supported is bad input.
int complain_input(const mh_context *context, mh_status status);

// The same for writing a file: that is a failure, not a bad input file.
int complain_output(const mh_context *context, mh_status status, const char *where);

// Whether all output has been written: a full disk or a closed pipe is a failure, even if printf
// did not report it. Return an exit code after reporting it, once.
int flush_stdout(void);
int close_stdout(void);

// From now on SIGINT, SIGTERM and SIGHUP end the process with exit code 5: at once, or, between
// begin_saving() and end_saving(), after what is being written is complete. A second SIGINT or
// SIGTERM ends it at once. end_saving() does not return if a signal came meanwhile. SIGBUS, which
// is raised when a mapped file was truncated, ends it with exit code 3.
void catch_signals(void);

// From now on so does a message that nobody reads any more, as in `2>&1 | tee log` after Ctrl-C.
void catch_closed_pipes(void);

void begin_saving(void);
void end_saving(void);

// In place of end_saving(), where Ctrl-C ends what is being written, not the process: whether it
// came. After SIGTERM or SIGHUP this does not return.
bool end_answer(void);

// Whether a signal is pending until end_saving() or end_answer().
bool was_interrupted(void);

#endif
