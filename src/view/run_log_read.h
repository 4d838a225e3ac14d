// SPDX-License-Identifier: MIT
// The history of a training run, read from its log: one JSON object per line.
//
//     {"update": 100, "epoch": 0.1364, "loss": 5.54348, "label_smoothing": 0.1, ...}   of training
//     {"update": 733, "epoch": 1, "valid_loss": 3.70097, "bleu": 0.03, ...}  of a validation
//
// A validation may have no "bleu", a line of training no "label_smoothing"; other members are
// ignored. Updates and epochs never decrease. The log may be of a run in progress, or of one that
// crashed: an incomplete last line is skipped. Any other line that does not match is rejected, with
// its number.
#ifndef MH_VIEW_RUN_LOG_READ_H
#define MH_VIEW_RUN_LOG_READ_H

#include <multihead/base.h>

enum { MH_RUN_LINES_MAX = 1 << 22 };

typedef struct mh_run_point {
    double update, epoch, value;
} mh_run_point;

typedef struct mh_run_series {
    mh_run_point *points; // by update; several may have the same
    size_t count, capacity;
} mh_run_series;

enum {
    MH_RUN_LOSS,
    MH_RUN_VALID_LOSS,
    MH_RUN_BLEU, // 0 to 100
    MH_RUN_SERIES,
};

typedef struct mh_run_history {
    mh_run_series series[MH_RUN_SERIES]; // at least one loss of either kind
    double last_update, last_epoch;
    double label_smoothing; // of the training loss; 0: none, or unknown
} mh_run_history;

// Reads a log, plain or gzip. Errors: MH_ERROR_FILE, MH_ERROR_FORMAT, MH_ERROR_MEMORY; the history
// is then empty.
mh_status mh_run_history_read(mh_context *context, const char *path, mh_run_history *history);

// The same for bytes in memory; `name` replaces the path in messages.
mh_status mh_run_history_parse(mh_context *context, const char *name, const void *bytes,
                               size_t size, mh_run_history *history);

void mh_run_history_free(mh_context *context, mh_run_history *history); // all zeros is allowed

// The first of the lowest and of the highest points, and the last one; the series is not empty.
const mh_run_point *mh_run_lowest(const mh_run_series *series);
const mh_run_point *mh_run_highest(const mh_run_series *series);
const mh_run_point *mh_run_last(const mh_run_series *series);

// Downsamples the series to at most `most` points: its first and last point, and of each interval
// between them the lowest and the highest, so that no spike is lost. `to` has room for `most`,
// which is at least 4. Returns their number.
size_t mh_run_thin(const mh_run_series *series, size_t most, mh_run_point *to);

#endif
