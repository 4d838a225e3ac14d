// SPDX-License-Identifier: MIT
// Argument checks shared by all operations; see tensor_check.h.
#include "ops/tensor_check.h"
#include "base/compiler.h"
#include "base/overflow.h"
#include "ops/row_io.h"
#include <string.h>

static mh_status check_data(mh_context *context, const char *name, const mh_tensor *t)
{
    const size_t size = mh_dtype_size(t->dtype), count = mh_tensor_count(t);
    char text[128];
    if (size == 0 || count > PTRDIFF_MAX / size)
        return mh_fail(context, MH_ERROR_ARGUMENT,
                       "%s: found %s, which is not a tensor or has too many elements", name,
                       mh_tensor_describe(t, text, sizeof text));
    if (count == 0)
        return MH_OK;
    if (!t->data)
        return mh_fail(context, MH_ERROR_ARGUMENT, "%s: data is NULL", name);
    if ((uintptr_t)t->data % size != 0)
        return mh_fail(context, MH_ERROR_ARGUMENT,
                       "%s: data is not aligned to %zu bytes, the size of %s", name, size,
                       mh_dtype_name(t->dtype));
    if (!mh_strides_fit(t->rank, t->shape, t->stride, size))
        return mh_fail(context, MH_ERROR_ARGUMENT,
                       "%s: found %s with strides that reach beyond what memory can hold", name,
                       mh_tensor_describe(t, text, sizeof text));
    return MH_OK;
}

static mh_status check_layout(mh_context *context, const char *name, const mh_tensor *t, int rank)
{
    char text[128];
    if (!context)
        return MH_ERROR_ARGUMENT;
    if (!t)
        return mh_fail(context, MH_ERROR_ARGUMENT, "%s: found NULL, expected a tensor", name);
    if (rank >= 0 && t->rank != rank)
        return mh_fail(context, MH_ERROR_ARGUMENT, "%s: found %s, expected rank %d", name,
                       mh_tensor_describe(t, text, sizeof text), rank);
    return MH_OK;
}

static mh_status refuse_dtype(mh_context *context, const char *name, const mh_tensor *t,
                              const char *expected)
{
    return mh_fail(context, MH_ERROR_UNSUPPORTED, "%s: found dtype %s, expected %s", name,
                   mh_dtype_name(t->dtype), expected);
}

mh_status mh_check_tensor(mh_context *context, const char *name, const mh_tensor *t, int rank)
{
    MH_TRY(check_layout(context, name, t, rank));
    return check_data(context, name, t);
}

mh_status mh_check_float(mh_context *context, const char *name, const mh_tensor *t, int rank)
{
    MH_TRY(check_layout(context, name, t, rank));
    if (!mh_rows_supported(t->dtype))
        MH_TRY(refuse_dtype(context, name, t, "f32, bf16 or f16"));
    return check_data(context, name, t);
}

mh_status mh_check_f32(mh_context *context, const char *name, const mh_tensor *t, int rank)
{
    MH_TRY(check_layout(context, name, t, rank));
    if (t->dtype != MH_F32)
        MH_TRY(refuse_dtype(context, name, t, "f32"));
    return check_data(context, name, t);
}

mh_status mh_check_like(mh_context *context, const char *name, const mh_tensor *x,
                        const char *like_name, const mh_tensor *like)
{
    char found[128], expected[128];
    MH_TRY(mh_check_float(context, name, x, -1));
    if (!mh_tensor_same_shape(x, like))
        return mh_fail(context, MH_ERROR_ARGUMENT, "%s: found %s, expected the shape of %s, %s",
                       name, mh_tensor_describe(x, found, sizeof found), like_name,
                       mh_tensor_describe(like, expected, sizeof expected));
    return MH_OK;
}
