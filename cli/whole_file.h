// SPDX-License-Identifier: MIT
// All bytes of a file in memory: text, and whatever comes through a pipe and so cannot be mapped.
#ifndef CLI_WHOLE_FILE_H
#define CLI_WHOLE_FILE_H

#include <stdbool.h>
#include <stddef.h>

// Whether a path is "-", which stands for standard input, or a pipe such as the shell's <(...).
bool is_stream(const char *path);

// What messages call a path: "standard input" if it is "-".
const char *input_name(const char *path);

// Reads a file of at most `most` bytes to its end and puts a 0 behind them; *bytes is for free(),
// also after an error. Standard input can be read once only. Returns an exit code after saying what
// is wrong, behind the option's name if that is not NULL.
int whole_file_read(const char *option, const char *path, size_t most, char **bytes, size_t *size);

#endif
