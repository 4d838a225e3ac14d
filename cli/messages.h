// SPDX-License-Identifier: MIT
// What a command says on stderr, and how it ends when it is interrupted.
//
// Every line starts with the command's name, "multihead attend: ". Errors are always said;
// notes and warnings are not with -q.
#ifndef CLI_MESSAGES_H
#define CLI_MESSAGES_H

#include <multihead/base.h>
#include <stdarg.h>

// The name that starts each message; main.c sets it once. The string is borrowed.
void set_message_name(const char *name);
const char *get_message_name(void);
void set_quiet(bool quiet);
bool is_quiet(void);

// Control characters, such as a file's name may hold, are printed as \x1b: a name cannot steer the
// terminal. Each message is one line.
void complain(const char *format, ...) MH_PRINTF(1, 2); // an error
void complain_list(const char *format, va_list arguments);
void note(const char *format, ...) MH_PRINTF(1, 2); // a warning or a remark

// One of two words, for messages that count: 1 head, 2 heads.
const char *plural(size_t count, const char *one, const char *many);

// Tells that a line without its end stands on stderr, a terminal; a message erases it first.
void set_live_line(bool shown);
void erase_live_line(void);

int status_exit_code(mh_status status);

// Says what failed, "WHERE: the context's message", and returns the exit code that fits the
// status. `where` may be NULL.
int complain_status(const mh_context *context, mh_status status, const char *where);

// The same where a file was to be written: that it cannot be is a failure, not a bad input file.
int complain_output(const mh_context *context, mh_status status, const char *where);

// Whether all that was printed has arrived: a full disk or a closed pipe is a failure, although
// printf said nothing. Return an exit code after saying so, once.
int flush_stdout(void);
int close_stdout(void);

// From now on SIGINT, SIGTERM and SIGHUP end the process with exit code 5: at once, or, between
// begin_saving() and end_saving(), after what is being written is complete. A second SIGINT or
// SIGTERM ends it at once. end_saving() does not return if a signal came meanwhile. SIGBUS, which
// is how a mapped file says that it was cut off, ends it with exit code 3.
void catch_signals(void);
void begin_saving(void);
void end_saving(void);

// Whether a signal waits for end_saving().
bool was_interrupted(void);

#endif
