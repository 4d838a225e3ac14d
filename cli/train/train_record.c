// SPDX-License-Identifier: MIT
// Reading and writing command.txt; see train_record.h. The file is untrusted: it may have been
// edited.
#include "train_record.h"
#include "messages.h"
#include "outputs.h"
#include "ranks.h"
#include "whole_file.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { RECORD_BYTES_MAX = 1 << 20 };

static const char comment[] =
    "# Options of this run: `multihead train -o DIR` resumes with them.\n";

bool train_record_exists(const char *directory)
{
    char *path = join_path(directory, TRAIN_RECORD_NAME);
    const bool found = path && access(path, F_OK) == 0;
    free(path);
    return found;
}

// ---- reading ------------------------------------------------------------------------------------

// Unescapes a line in place. False if an escape is unknown.
static bool unescape(char *line)
{
    char *to = line;
    for (; *line; line++) {
        if (*line == '\\') {
            line++;
            if (*line != 'n' && *line != '\\')
                return false;
            *to++ = *line == 'n' ? '\n' : '\\';
        } else {
            *to++ = *line;
        }
    }
    *to = 0;
    return true;
}

// Splits the bytes into arguments at t->argv + 1 and counts them. False if the format is wrong.
static bool take_lines(train *t)
{
    char *line = t->record, *end = line + strlen(line);
    if (end > line && end[-1] != '\n')
        return false;
    for (char *next; line < end; line = next) {
        char *stop = strchr(line, '\n');
        *stop = 0;
        next = stop + 1;
        if (*line == '#' && line == t->record)
            continue;
        if (!unescape(line))
            return false;
        t->argv[t->argc++] = line;
    }
    return true;
}

static size_t count_lines(const char *bytes)
{
    size_t count = 0;
    for (; *bytes; bytes++)
        count += *bytes == '\n';
    return count;
}

static int refuse_record(const char *path)
{
    complain("%s: expected one argument per line; remove it and give all options", path);
    return EXIT_INPUT;
}

static int take_record(train *t, const char *path, int argc, char **argv)
{
    t->argv = calloc(count_lines(t->record) + (size_t)argc + 1, sizeof *t->argv);
    if (!t->argv) {
        complain("out of memory for %s", path);
        return EXIT_MEMORY;
    }
    t->argv[0] = argv[0];
    t->argc = 1;
    if (!take_lines(t))
        return refuse_record(path);
    for (int i = 1; i < argc; i++)
        t->argv[t->argc++] = argv[i];
    return EXIT_DONE;
}

int train_record_load(train *t, int argc, char **argv)
{
    size_t size = 0;
    char *path = join_path(t->options.directory, TRAIN_RECORD_NAME);
    char *text = NULL;
    t->argv = NULL; // the caller's until now
    int code = path ? EXIT_DONE : EXIT_MEMORY;
    if (code == EXIT_DONE && t->ranks.rank == 0)
        code = whole_file_read(NULL, path, RECORD_BYTES_MAX, &text, &size);
    if (code == EXIT_DONE && text && memchr(text, 0, size))
        code = refuse_record(path);
    code = ranks_agree(&t->ranks, code);
    if (code == EXIT_DONE)
        t->record = ranks_broadcast_text(&t->ranks, text);
    if (code == EXIT_DONE)
        code = take_record(t, path, argc, argv);
    free(path);
    free(text);
    return code;
}

void train_record_free(train *t)
{
    if (t->record)
        free(t->argv);
    free(t->record);
    t->record = NULL;
}

// ---- writing ------------------------------------------------------------------------------------

// Whether `text` is within the argument.
static bool is_in(const char *argument, const char *text)
{
    return text && text >= argument && text <= argument + strlen(argument);
}

static bool is_relative(const char *path) { return path[0] != '/' && strcmp(path, "-") != 0; }

// The path within the argument, NULL if it has none.
static const char *path_in(const train *t, const char *argument)
{
    const mh_train_options *o = &t->options;
    const char *const paths[] = {o->data,          o->data_targets, o->valid,
                                 o->valid_targets, o->tokenizer,    t->init};
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++)
        if (is_in(argument, paths[i]))
            return paths[i];
    for (size_t i = 0; i < o->more_data_count; i++)
        if (is_in(argument, t->more[i]))
            return t->more[i];
    return NULL;
}

static void record_put_escaped(FILE *to, const char *text, size_t size)
{
    for (size_t i = 0; i < size; i++)
        if (text[i] == '\n' || text[i] == '\\')
            fprintf(to, "\\%c", text[i] == '\n' ? 'n' : '\\');
        else
            putc(text[i], to);
}

static void put_argument(FILE *to, const train *t, const char *argument, const char *directory)
{
    const char *path = path_in(t, argument);
    const size_t before = path ? (size_t)(path - argument) : 0;
    const char *rest = path && path == t->init ? t->options.init : argument + before; // found there
    record_put_escaped(to, argument, before);
    if (path && is_relative(rest)) {
        record_put_escaped(to, directory, strlen(directory));
        putc('/', to);
    }
    record_put_escaped(to, rest, strlen(rest));
    putc('\n', to);
}

// -o DIR in any spelling, which every command line has; -q, which is not part of the run; and --,
// which can only be the last word.
static bool is_left_out(const train *t, int i)
{
    const char *argument = t->argv[i], *directory = t->options.directory;
    const bool name_of_directory = i + 1 < t->argc && directory == t->argv[i + 1];
    return name_of_directory || is_in(argument, directory) || !strcmp(argument, "-q") ||
           !strcmp(argument, "--quiet") || !strcmp(argument, "--");
}

static bool write_record(const train *t, const char *path, const char *directory)
{
    FILE *file = fopen(path, "we");
    if (!file)
        return false;
    fputs(comment, file);
    for (int i = 1; i < t->argc; i++)
        if (!is_left_out(t, i))
            put_argument(file, t, t->argv[i], directory);
    const bool written = fflush(file) == 0 && !ferror(file) && fsync(fileno(file)) == 0;
    const int error = errno;
    const bool closed = fclose(file) == 0;
    if (!written)
        errno = error;
    return written && closed;
}

bool train_record_save(const train *t)
{
    char *path = join_path(t->options.directory, TRAIN_RECORD_NAME);
    char *temporary = join_path(t->options.directory, TRAIN_RECORD_NAME "~");
    char *directory = getcwd(NULL, 0);
    bool saved = path && temporary && directory && write_record(t, temporary, directory);
    if (saved)
        saved = rename(temporary, path) == 0;
    else if (temporary) {
        const int error = errno;
        unlink(temporary);
        errno = error;
    }
    free(path);
    free(temporary);
    free(directory);
    return saved;
}
