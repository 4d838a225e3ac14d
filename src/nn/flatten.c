// SPDX-License-Identifier: MIT
// Views and checks of users' tensors; see flatten.h.
#include "nn/flatten.h"
#include "base/compiler.h"
#include "ops/tensor_check.h"

enum { MOST_ROWS = 1 << 30 }; // times any width, far from overflowing a size_t

mh_status mh_batch_of(mh_context *context, const char *name, const mh_tensor *t, size_t width,
                      bool batch_first, mh_batch *batch)
{
    char text[128];
    MH_TRY(mh_check_float(context, name, t, -1));
    if ((t->rank != 2 && t->rank != 3) || t->shape[t->rank - 1] != width)
        return mh_fail(context, MH_ERROR_ARGUMENT, "%s: found %s, expected (%s, %zu) or (%s, %zu)",
                       name, mh_tensor_describe(t, text, sizeof text),
                       batch_first ? "batch, length" : "length, batch", width, "length", width);
    if (mh_tensor_count(t) / width > MOST_ROWS)
        return mh_fail(context, MH_ERROR_ARGUMENT, "%s: found %s, which has too many rows", name,
                       mh_tensor_describe(t, text, sizeof text));
    if (t->rank == 2)
        *batch = (mh_batch){1, t->shape[0], t->shape[0], 1, NULL};
    else if (batch_first)
        *batch = (mh_batch){t->shape[0], t->shape[1], t->shape[1], 1, NULL};
    else
        *batch = (mh_batch){t->shape[1], t->shape[0], 1, t->shape[1], NULL};
    return MH_OK;
}

bool mh_rows_flat(const mh_tensor *t)
{
    return t->rank == 2 || t->shape[0] <= 1 || t->shape[1] <= 1 ||
           t->stride[0] == (ptrdiff_t)t->shape[1] * t->stride[1];
}

float *mh_rows_take(mh_arena *arena, const mh_tensor *t)
{
    return mh_rows_flat(t) ? NULL : mh_arena_take(arena, mh_tensor_count(t), sizeof(float));
}

mh_status mh_rows_of(mh_context *context, const mh_tensor *t, float *memory, bool copy,
                     mh_tensor *rows)
{
    const int last = t->rank - 1;
    const size_t count = t->rank == 2 ? t->shape[0] : t->shape[0] * t->shape[1];
    *rows =
        mh_tensor_2d(memory ? memory : t->data, memory ? MH_F32 : t->dtype, count, t->shape[last]);
    if (!memory) {
        const bool single = t->rank == 3 && t->shape[1] <= 1;
        rows->stride[0] = t->rank == 2 || single ? t->stride[0] : t->stride[1];
        rows->stride[1] = t->stride[last];
        return MH_OK;
    }
    mh_tensor dense = mh_tensor_view(memory, MH_F32, t->rank, t->shape);
    return copy ? mh_tensor_copy(context, t, &dense) : MH_OK;
}

mh_status mh_rows_return(mh_context *context, float *memory, mh_tensor *t)
{
    const mh_tensor dense = mh_tensor_view(memory, MH_F32, t->rank, t->shape);
    return memory ? mh_tensor_copy(context, &dense, t) : MH_OK;
}

mh_status mh_mask_check(mh_context *context, const char *name, const mh_tensor *mask, bool padding,
                        size_t B, size_t H, size_t rows, size_t columns)
{
    char text[128];
    if (!mask)
        return MH_OK;
    MH_TRY(mask->dtype == MH_BOOL || mask->dtype == MH_U8
               ? mh_check_tensor(context, name, mask, -1)
               : mh_check_float(context, name, mask, -1));
    const size_t *s = mask->shape;
    mh_tensor_describe(mask, text, sizeof text);
    if (padding && !(mask->rank == 2 && s[0] == B && s[1] == columns) &&
        !(mask->rank == 1 && B == 1 && s[0] == columns))
        return mh_fail(context, MH_ERROR_ARGUMENT, "%s: found %s, expected (%zu, %zu)", name, text,
                       B, columns);
    if (!padding && !(mask->rank == 2 && s[0] == rows && s[1] == columns) &&
        !(mask->rank == 3 && s[0] == B * H && s[1] == rows && s[2] == columns))
        return mh_fail(context, MH_ERROR_ARGUMENT,
                       "%s: found %s, expected (%zu, %zu) or (%zu, %zu, %zu)", name, text, rows,
                       columns, B * H, rows, columns);
    return MH_OK;
}
