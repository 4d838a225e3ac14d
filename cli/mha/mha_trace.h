// SPDX-License-Identifier: MIT
// Shared by the steps of `multihead mha --trace`: the tensors they compute, and views of them.
// mha_project.c goes from the input to heads of q, k and v, mha_trace.c does the rest.
#ifndef CLI_MHA_TRACE_H
#define CLI_MHA_TRACE_H

#include "mha.h"

enum { MOST_BUFFERS = 16 };

typedef struct trace {
    mha *m;
    struct {
        void *data;
        size_t size;
    } buffers[MOST_BUFFERS];
    int buffer_count;
    mh_tensor q, k, v;   // (B, H, T, E), (B, G, S, E) twice; S counts learned keys once appended
    mh_tensor rows;      // (B, H, T, S), with sinks S + 1: scores, then weights
    mh_tensor attention; // (B, H, T, S), a view of rows
    mh_tensor merged;    // rows (T B, D)
    mh_tensor heads;     // (B, H, T, E), a view of merged
    mh_tensor out;       // rows (T B, D)
} trace;

// EXIT_DONE, or the exit code of a status after reporting the step that failed.
int trace_check(const trace *t, mh_status status, const char *step);

// Memory that lives as long as the trace, touched once so that no step pays for page faults.
int trace_take(trace *t, const char *what, int rank, const size_t *shape, mh_tensor *tensor);

// Rows of tokens, in the order of the input's file, as (B, length, width).
mh_tensor trace_by_batch(const mha *m, void *rows, size_t length, size_t width);

// Heads (B, H or G, length, E) of a projection (B, length, H E or G E) for q (which 0), k (1) or v
// (2); of one (B, length, 3D) that is interleaved theirs.
mh_tensor trace_split(const mha *m, mh_tensor y, int which);

// A parameter; data NULL if the module has none of that name.
mh_tensor trace_parameter(const mha *m, const char *name);

// y = x W^T + b in new memory, and the time it takes.
int trace_project(trace *t, const char *what, const mh_tensor *x, const mh_tensor *weight,
                  const mh_tensor *bias, mh_tensor *y, double *seconds);

// From the inputs to t->q, t->k, t->v.
int trace_make_heads(trace *t);

#endif
