// SPDX-License-Identifier: MIT
// Pictures with labels, all of one size, from directories or idx files:
//
//     data/cat/1.ppm data/cat/2.png data/dog/1.jpeg      labels "cat", "dog"
//     train-images-idx3-ubyte[.gz]                       and train-labels-idx1-ubyte[.gz]: "0", ...
#ifndef MH_TRAIN_PICTURE_DATA_H
#define MH_TRAIN_PICTURE_DATA_H

#include "train/run_internal.h"

// Reads `path`. Labels that run->labels does not have are added, unless it has some: then they are
// an error. pictures->side and channels are given, or 0: the data's, in colour if one picture is.
// Files that are no pictures are reported to the run's bad_line, and counted. Errors:
// MH_ERROR_FILE, MH_ERROR_FORMAT, MH_ERROR_MEMORY.
mh_status mh_picture_data_read(mh_run *run, const char *path, mh_pictures *pictures,
                               mh_dataset *examples);

// The names of idx labels 0, 1, ..., separated by commas, replace these in run->labels.
// Errors: MH_ERROR_ARGUMENT, MH_ERROR_MEMORY.
mh_status mh_picture_data_name_labels(mh_run *run, const char *names);

// Picture i as values (channels, side, side) from -1 to 1, moved by (dy, dx) with zeros around, and
// mirrored.
void mh_picture_values(const mh_pictures *pictures, size_t i, ptrdiff_t dy, ptrdiff_t dx,
                       bool mirrored, float *values);

#endif
