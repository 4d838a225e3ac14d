// SPDX-License-Identifier: MIT
// Users' tensors, (T, B, D), (B, T, D) or (T, D), as matrices of rows.
#ifndef MH_NN_FLATTEN_H
#define MH_NN_FLATTEN_H

#include "base/arena.h"
#include "nn/pass.h"

// Checks the rank (2 or 3) and the last dimension of t, and maps its rows to sequences.
mh_status mh_batch_of(mh_context *context, const char *name, const mh_tensor *t, size_t width,
                      bool batch_first, mh_batch *batch);

// Whether the rows of t are evenly spaced, so that (rows, width) is another view of them.
bool mh_rows_flat(const mh_tensor *t);

// That view; for a tensor whose rows are not evenly spaced, a view of `memory`, which with `copy`
// is filled with a dense f32 copy. mh_rows_take is the memory for it, NULL if none is needed.
float *mh_rows_take(mh_arena *arena, const mh_tensor *t);
mh_status mh_rows_of(mh_context *context, const mh_tensor *t, float *memory, bool copy,
                     mh_tensor *rows);

// After the rows of `memory` were written: copies them back to t.
mh_status mh_rows_return(mh_context *context, float *memory, mh_tensor *t);

// A mask (rows, columns) or (B * H, rows, columns), or, if padding, (B, columns) or (columns).
mh_status mh_mask_check(mh_context *context, const char *name, const mh_tensor *mask, bool padding,
                        size_t B, size_t H, size_t rows, size_t columns);

#endif
