// SPDX-License-Identifier: MIT
// DIR/command.txt: the options that a run was started with, so that `multihead train -o DIR` alone
// resumes it. A comment, then one argument per line, "\n" and "\\" for line breaks and backslashes:
//
//     # Options of this run: `multihead train -o DIR` resumes with them.
//     --data
//     /data/train.tsv
//
// Paths are absolute, so that the run can be resumed from any directory; -o and -q are left out.
#ifndef CLI_TRAIN_RECORD_H
#define CLI_TRAIN_RECORD_H

#include "train_options.h"

#define TRAIN_RECORD_NAME "command.txt"

bool train_record_exists(const char *directory);

// Inserts the recorded arguments between argv[0] and the others, which take precedence: into
// t->argc and t->argv, freed by train_record_free(). All ranks call this, rank 0 reads the file.
// Returns an exit code after reporting an error.
int train_record_load(train *t, int argc, char **argv);
void train_record_free(train *t); // all zeros is fine

// Writes t->argv atomically. False with errno.
bool train_record_save(const train *t);

#endif
