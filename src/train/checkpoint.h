// SPDX-License-Identifier: MIT
// The state needed to resume a run, in files written atomically:
//
//     checkpoint.safetensors    parameters, Adam's moments; progress and settings as metadata
//     snapshot-N.safetensors    parameters of the last saves, one more than are averaged, rotating:
//                               while one is replaced, the current checkpoint does not need it
#ifndef MH_TRAIN_CHECKPOINT_H
#define MH_TRAIN_CHECKPOINT_H

#include "support/directory.h"
#include "train/run_progress.h"

#define MH_CHECKPOINT_NAME "checkpoint.safetensors"

enum { MH_SETTINGS_MOST = 48 };

// A setting that affects a run's bits and must not change during the run, as text.
typedef struct mh_setting {
    const char *name;
    char value[48];
    bool checksum;      // of sentences: the value is not human-readable
    const char *absent; // the value of checkpoints without this setting; NULL: an error
    bool real, single;  // a double, or a float: shown as the shortest decimal
} mh_setting;

typedef struct mh_settings {
    mh_setting list[MH_SETTINGS_MOST];
    size_t count;
} mh_settings;

// Arrays of `floats` elements.
typedef struct mh_run_arrays {
    size_t floats;
    float *parameters, *m, *v;
} mh_run_arrays;

mh_status mh_checkpoint_save(mh_context *context, const char *directory,
                             const mh_settings *settings, const mh_progress *progress,
                             const mh_run_arrays *arrays);

// Errors: MH_ERROR_FILE; MH_ERROR_FORMAT, also if settings differ, which are named.
mh_status mh_checkpoint_load(mh_context *context, const char *directory,
                             const mh_settings *settings, mh_progress *progress,
                             const mh_run_arrays *arrays);

// Reads one setting of the run in the directory, for options that may be left unset, into `value`.
mh_status mh_checkpoint_setting(mh_context *context, const char *directory, const char *name,
                                char *value, size_t size);

// Writes snapshot number `number` (from 0) of runs that average `average` of them.
mh_status mh_snapshot_save(mh_context *context, const char *directory, uint64_t number,
                           size_t average, size_t floats, const float *parameters);

// mean (floats) of the last `average` snapshots of `saves`, or of all if there are fewer, in order.
mh_status mh_snapshots_mean(mh_context *context, const char *directory, uint64_t saves,
                            size_t average, size_t floats, float *mean);

#endif
