// SPDX-License-Identifier: MIT
// A small training run for tests: data in a temporary folder, and options that make everything
// happen within some twenty updates.
#ifndef MH_TESTS_TRAIN_SUPPORT_H
#define MH_TESTS_TRAIN_SUPPORT_H

#include "file_support.h"
#include <multihead/train.h>

typedef struct train_place {
    char root[64]; // a temporary folder
    char data[96], valid[96];
} train_place;

// Makes the folder and the data; false if that fails.
bool train_place_create(train_place *place);
void train_place_remove(train_place *place); // the folder with all that is in it

// Options for a run in `folder`.
mh_train_options train_place_options(const train_place *place, const char *folder);

// What must be equal in two runs; both files must be there.
bool train_runs_equal(const char *folder, const char *other);

#endif
