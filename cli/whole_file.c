// SPDX-License-Identifier: MIT
// All bytes of a file in memory; see whole_file.h.
#include "whole_file.h"
#include "command.h"
#include "messages.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static bool is_standard(const char *path) { return strcmp(path, "-") == 0; }

bool is_stream(const char *path)
{
    struct stat status;
    return is_standard(path) || (stat(path, &status) == 0 && S_ISFIFO(status.st_mode));
}

const char *input_name(const char *path) { return is_standard(path) ? "standard input" : path; }

// Prints "OPTION: PATH: WHAT: REASON", without missing parts, and returns the exit code.
static int whole_file_refuse(const char *option, const char *path, const char *what, int error)
{
    complain("%s%s%s: %s%s%s", option ? option : "", option ? ": " : "", input_name(path), what,
             error ? ": " : "", error ? strerror(error) : "");
    return error == ENOMEM ? EXIT_MEMORY : EXIT_INPUT;
}

static FILE *open_stream(const char *option, const char *path, int *code)
{
    static bool standard_taken;
    if (!is_standard(path)) {
        FILE *stream = fopen(path, "rb");
        *code = stream ? EXIT_DONE : whole_file_refuse(option, path, "cannot be opened", errno);
        return stream;
    }
    *code =
        standard_taken ? whole_file_refuse(option, path, "can be read only once", 0) : EXIT_DONE;
    if (*code != EXIT_DONE)
        return NULL;
    standard_taken = true;
    return stdin;
}

int whole_file_read(const char *option, const char *path, size_t most, char **bytes, size_t *size)
{
    int code;
    size_t capacity = 0, used = 0;
    *bytes = NULL;
    FILE *stream = open_stream(option, path, &code);
    while (code == EXIT_DONE && !feof(stream) && !ferror(stream)) {
        if (capacity - used < 2) { // room for a byte and the NUL
            capacity = capacity ? 2 * capacity : 1 << 16;
            char *bigger = capacity > used ? realloc(*bytes, capacity) : NULL;
            if (!bigger) {
                code = whole_file_refuse(option, path, "cannot be read", ENOMEM);
                break;
            }
            *bytes = bigger;
        }
        used += fread(*bytes + used, 1, capacity - used - 1, stream);
        if (used > most)
            code = whole_file_refuse(option, path, "is too large", 0);
    }
    if (code == EXIT_DONE && ferror(stream))
        code = whole_file_refuse(option, path, "cannot be read", errno);
    if (stream && stream != stdin)
        fclose(stream);
    if (code == EXIT_DONE)
        (*bytes)[used] = 0;
    *size = used;
    return code;
}
