// SPDX-License-Identifier: MIT
// All bytes of a file in memory: text, and input from pipes, which cannot be mapped.
#ifndef CLI_WHOLE_FILE_H
#define CLI_WHOLE_FILE_H

#include <stdbool.h>
#include <stddef.h>

// Whether a path is "-", which stands for standard input, or a pipe such as the shell's <(...).
bool is_stream(const char *path);

// The name of a path in messages: "standard input" if it is "-".
const char *input_name(const char *path);

// Reads a file of at most `most` bytes and appends a NUL; free() *bytes, also after an error.
// Standard input can be read only once. Returns an exit code after reporting errors, with the
// option's name if that is not NULL.
int whole_file_read(const char *option, const char *path, size_t most, char **bytes, size_t *size);

#endif
