// SPDX-License-Identifier: MIT
// Messages on stderr and termination by signals; see messages.h.
#include "messages.h"
#include "command.h"

#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { LONGEST_MESSAGE = 8192, LONGEST_NAME = 64 }; // a path has up to 4096

static const char *message_name = "multihead";
static char complaint[LONGEST_MESSAGE]; // the first
static bool quiet_messages;
static volatile sig_atomic_t saving, interrupted, live_line;
static const char erasing[] = "\r\033[K";

void set_message_name(const char *name) { message_name = name; }
const char *get_message_name(void) { return message_name; }
void set_quiet(bool quiet) { quiet_messages = quiet; }
bool is_quiet(void) { return quiet_messages; }

void set_live_line(bool shown) { live_line = shown; }

void erase_live_line(void)
{
    if (!live_line)
        return;
    fputs(erasing, stderr);
    fflush(stderr);
    live_line = 0;
}

// The length of the UTF-8 character at `text`; 0 if it is a control character or not UTF-8.
static size_t printable_length(const char *text)
{
    const unsigned char *c = (const unsigned char *)text;
    if (c[0] < 0x80)
        return c[0] >= ' ' && c[0] != 0x7f;
    const size_t length = c[0] >= 0xf8   ? 0
                          : c[0] >= 0xf0 ? 4
                          : c[0] >= 0xe0 ? 3
                          : c[0] >= 0xc2 ? 2
                                         : 0;
    for (size_t i = 1; i < length; i++)
        if ((c[i] & 0xc0) != 0x80)
            return 0;
    return c[0] == 0xc2 && c[1] < 0xa0 ? 0 : length; // U+0080 to U+009F are controls as well
}

// Returns where it ends: at most 4 bytes per byte of `text` are put.
static char *put_printable(char *to, const char *text)
{
    while (*text) {
        const size_t length = printable_length(text);
        if (length)
            memcpy(to, text, length);
        else
            sprintf(to, "\\x%02x", (unsigned char)*text);
        to += length ? length : 4;
        text += length ? length : 1;
    }
    return to;
}

// In one write, so that a launcher of several processes does not mix their lines, or cut one off.
static void say(const char *format, va_list arguments)
{
    char text[LONGEST_MESSAGE], line[LONGEST_NAME + 4 * LONGEST_MESSAGE + 8];
    const int length = vsnprintf(text, sizeof text, format, arguments);
    fflush(stdout); // keep the order if both are the same terminal
    erase_live_line();
    char *end = line + sprintf(line, "%.*s: ", LONGEST_NAME, message_name);
    end = put_printable(end, text);
    end += sprintf(end, "%s", length >= LONGEST_MESSAGE ? " ...\n" : "\n");
    fwrite(line, 1, (size_t)(end - line), stderr);
}

void complain_list(const char *format, va_list arguments)
{
    va_list again;
    va_copy(again, arguments);
    if (!*complaint)
        vsnprintf(complaint, sizeof complaint, format, again);
    va_end(again);
    say(format, arguments);
}

void complain(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    complain_list(format, arguments);
    va_end(arguments);
}

const char *first_complaint(void) { return complaint; }

void note(const char *format, ...)
{
    if (quiet_messages)
        return;
    va_list arguments;
    va_start(arguments, format);
    say(format, arguments);
    va_end(arguments);
}

const char *plural(size_t count, const char *one, const char *many)
{
    return count == 1 ? one : many;
}

int status_exit_code(mh_status status)
{
    switch (status) {
    case MH_OK:
        return EXIT_DONE;
    case MH_ERROR_ARGUMENT:
        return EXIT_USAGE;
    case MH_ERROR_FILE:
    case MH_ERROR_FORMAT:
        return EXIT_INPUT;
    case MH_ERROR_MEMORY:
        return EXIT_MEMORY;
    case MH_ERROR_UNSUPPORTED:
    case MH_ERROR_THREAD:
    case MH_ERROR_CANCELLED:
    case MH_ERROR_DIVERGED:
        break;
    }
    return EXIT_FAILED;
}

int complain_status(const mh_context *context, mh_status status, const char *where)
{
    const char *message = mh_error_message(context);
    if (!*message)
        message = mh_status_name(status);
    if (where)
        complain("%s: %s", where, message);
    else
        complain("%s", message);
    return status_exit_code(status);
}

int complain_input(const mh_context *context, mh_status status)
{
    const int code = complain_status(context, status, NULL);
    return status == MH_ERROR_UNSUPPORTED ? EXIT_INPUT : code; // an unknown family, for instance
}

int complain_output(const mh_context *context, mh_status status, const char *where)
{
    const int code = complain_status(context, status, where);
    return status == MH_ERROR_FILE ? EXIT_FAILED : code;
}

static int refuse_stdout(int error)
{
    static bool said; // report it once only
    if (!said)
        complain("standard output: cannot be written%s%s", error ? ": " : "",
                 error ? strerror(error) : "");
    said = true;
    return EXIT_FAILED;
}

int flush_stdout(void)
{
    errno = 0;
    const bool failed = fflush(stdout) != 0;
    return failed || ferror(stdout) ? refuse_stdout(errno) : EXIT_DONE;
}

int close_stdout(void)
{
    const int code = flush_stdout();
    errno = 0;
    return fclose(stdout) == 0 ? code : refuse_stdout(errno);
}

// Only async-signal-safe calls from here to on_bus_error's end.
static void die(const char *text, int code)
{
    ssize_t ignored = live_line ? write(STDERR_FILENO, erasing, sizeof erasing - 1) : 0;
    ignored = write(STDERR_FILENO, message_name, strlen(message_name));
    ignored = write(STDERR_FILENO, text, strlen(text));
    (void)ignored;
    _exit(code);
}

static void die_interrupted(void) { die(": interrupted\n", EXIT_INTERRUPTED); }

// A closed terminal sends SIGHUP more than once, from the kernel and from the shell, and every
// message to a closed pipe raises SIGPIPE: that is not a second request.
static void on_signal(int number)
{
    const bool again = interrupted && number != SIGHUP && number != SIGPIPE;
    if (!saving || again)
        die_interrupted();
    interrupted = number;
}

// Input files are mapped: reading a truncated one raises SIGBUS.
static void on_bus_error(int number, siginfo_t *info, void *ignored)
{
    (void)ignored;
    if (info->si_code == BUS_ADRERR)
        die(": an input file became shorter while it was read, or cannot be read\n", EXIT_INPUT);
    signal(number, SIG_DFL); // raised again, it ends the process
}

static void catch_bus_errors(void)
{
    struct sigaction action = {.sa_sigaction = on_bus_error, .sa_flags = SA_SIGINFO};
    sigaction(SIGBUS, &action, NULL);
}

static void catch_signal(int number)
{
    struct sigaction action;
    if (sigaction(number, NULL, &action) != 0 || action.sa_handler == SIG_IGN)
        return; // nohup, or a background job: the parent wants it ignored
    memset(&action, 0, sizeof action);
    action.sa_handler = on_signal;
    action.sa_flags = SA_RESTART; // restart interrupted writes
    sigaction(number, &action, NULL);
}

void catch_signals(void)
{
    catch_signal(SIGINT);
    catch_signal(SIGTERM);
    catch_signal(SIGHUP);
    catch_bus_errors();
}

void catch_closed_pipes(void) { catch_signal(SIGPIPE); }

void begin_saving(void) { saving = 1; }

void end_saving(void)
{
    saving = 0;
    if (interrupted)
        die_interrupted();
}

bool end_answer(void)
{
    saving = 0;
    const int number = interrupted;
    if (number && number != SIGINT)
        die_interrupted();
    interrupted = 0;
    return number != 0;
}

bool was_interrupted(void) { return interrupted; }
