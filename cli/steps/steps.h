// SPDX-License-Identifier: MIT
// What the commands share that show a computation step by step (`mha`, `attend`, `encoder` and
// `decoder` with --trace): attention on materialised scores, a table with a line per step, and rows
// of values. The library's own, fused result is computed as well, and both must agree.
#ifndef CLI_STEPS_H
#define CLI_STEPS_H

#include <multihead/attention.h>
#include <stdbool.h>
#include <stddef.h>

double steps_now(void); // seconds

// ---- computing ----------------------------------------------------------------------------------

// scores = q k^T for each sequence and head: q (B, H, T, E), k (B, G, S, E), scores (B, H, T, S).
mh_status steps_scores(mh_context *context, const mh_tensor *q, const mh_tensor *k,
                       const mh_tensor *scores);

// out = weights v: weights (B, H, T, S), v (B, G, S, Ev), out (B, H, T, Ev).
mh_status steps_weigh(mh_context *context, const mh_tensor *weights, const mh_tensor *v,
                      const mh_tensor *out);

// Which query's values are shown: `given`, or if it is negative, the last one, but a middle one if
// there is a mask: of a causal mask the last query sees every key. An exit code.
int steps_token(ptrdiff_t given, size_t queries, bool masked, size_t *token);

// Standard normal values, a function of the seed; t is contiguous f32.
void steps_draw(const mh_tensor *t, uint64_t seed);

// Whether two f32 tensors of a shape are equal up to rounding; *difference, the largest so far,
// grows. Values that are not finite in `steps` are skipped: for a masked key, 0 x NaN is NaN in a
// plain product, but never in the fused result.
bool steps_agree(const mh_tensor *steps, const mh_tensor *fused, double *difference);

// Reports that they do not; returns an exit code.
int steps_complain(const char *of, double difference);

// ---- a line per step ----------------------------------------------------------------------------

typedef struct step_table {
    bool json, no_times;
    int step_width, tensor_width, shape_width, line_width; // columns; of the longest line
    const char *shown_step;                                // the last one, NULL: none yet
    size_t width;                                          // of the terminal, 0: not known
} step_table;

// "(30, 5, 1024)", in JSON "[30, 5, 1024]".
const char *steps_shape_text(const mh_tensor *t, bool json, char *text, size_t size);
const char *steps_time_text(double seconds, char *text, size_t size);

// The names of the columns. Times are left out if the longest line would be wider than the
// terminal.
void steps_head(step_table *table);

// seconds < 0: a view of the same memory, nothing was computed; NAN: nothing happened. The name of
// a step that shows several tensors is printed once. A formula that is wider than the terminal has
// room for is wrapped or, if there is next to none, put on a line of its own.
void steps_line(step_table *table, const char *step, const char *name, const mh_tensor *tensor,
                double seconds, const char *formula);

enum { STEPS_VALUES = 6 }; // of a row that are shown

// The first values of a row of `count`, in JSON as a list.
void steps_row(bool json, const float *row, ptrdiff_t stride, size_t count);

#endif
