// SPDX-License-Identifier: MIT
// Integers are read one by one and checked before anything is computed: token ids are untrusted
// input.
#include "ops/indices.h"
#include "base/compiler.h"
#include "ops/tensor_check.h"

mh_status mh_check_indices(mh_context *context, const char *name, const mh_tensor *t, int rank)
{
    MH_TRY(mh_check_tensor(context, name, t, rank));
    if (t->dtype != MH_I32 && t->dtype != MH_I64)
        return mh_fail(context, MH_ERROR_UNSUPPORTED, "%s: found dtype %s, expected i32 or i64",
                       name, mh_dtype_name(t->dtype));
    return MH_OK;
}

int64_t mh_index_get(const mh_tensor *t, size_t i)
{
    ptrdiff_t steps = 0;
    for (int d = t->rank - 1; d > 0; d--) {
        steps += (ptrdiff_t)(i % t->shape[d]) * t->stride[d];
        i /= t->shape[d];
    }
    if (t->rank > 0)
        steps += (ptrdiff_t)i * t->stride[0];
    return t->dtype == MH_I32 ? ((const int32_t *)t->data)[steps]
                              : ((const int64_t *)t->data)[steps];
}

mh_status mh_check_index_range(mh_context *context, const char *name, const mh_tensor *t,
                               int64_t low, int64_t high, const int64_t *except)
{
    const size_t count = mh_tensor_count(t);
    for (size_t i = 0; i < count; i++) {
        const int64_t index = mh_index_get(t, i);
        if ((index < low || index >= high) && !(except && index == *except))
            return mh_fail(context, MH_ERROR_ARGUMENT,
                           "%s: element %zu is %lld, expected %lld to %lld", name, i,
                           (long long)index, (long long)low, (long long)high - 1);
    }
    return MH_OK;
}
