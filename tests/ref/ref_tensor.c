// SPDX-License-Identifier: MIT
// The accessors behind every reference; see ref_tensor.h.
#include "ref/ref_tensor.h"

#include "base/half.h"

#include <stdio.h>
#include <stdlib.h>

static void *address(const mh_tensor *t, const size_t *index)
{
    ptrdiff_t offset = 0;
    for (int d = 0; d < t->rank; d++)
        offset += (ptrdiff_t)index[d] * t->stride[d];
    return (char *)t->data + offset * (ptrdiff_t)mh_dtype_size(t->dtype);
}

double ref_get(const mh_tensor *t, const size_t *index)
{
    const void *p = address(t, index);
    switch (t->dtype) {
    case MH_F32:
        return (double)*(const float *)p;
    case MH_F64:
        return *(const double *)p;
    case MH_BF16:
        return (double)mh_bf16_to_float(*(const uint16_t *)p);
    case MH_F16:
        return (double)mh_f16_to_float(*(const uint16_t *)p);
    case MH_BOOL:
    case MH_U8:
        return *(const uint8_t *)p;
    case MH_I8:
        return *(const int8_t *)p;
    case MH_I16:
        return *(const int16_t *)p;
    case MH_U16:
        return *(const uint16_t *)p;
    case MH_I32:
        return *(const int32_t *)p;
    case MH_U32:
        return *(const uint32_t *)p;
    case MH_I64:
        return (double)*(const int64_t *)p;
    case MH_U64:
        return (double)*(const uint64_t *)p;
    }
    abort();
}

void ref_set(const mh_tensor *t, const size_t *index, double value)
{
    void *p = address(t, index);
    switch (t->dtype) {
    case MH_F32:
        *(float *)p = (float)value;
        return;
    case MH_F64:
        *(double *)p = value;
        return;
    case MH_BF16:
        *(uint16_t *)p = mh_float_to_bf16((float)value);
        return;
    case MH_F16:
        *(uint16_t *)p = mh_float_to_f16((float)value);
        return;
    case MH_BOOL:
    case MH_U8:
        *(uint8_t *)p = (uint8_t)value;
        return;
    case MH_I8:
        *(int8_t *)p = (int8_t)value;
        return;
    case MH_I16:
        *(int16_t *)p = (int16_t)value;
        return;
    case MH_U16:
        *(uint16_t *)p = (uint16_t)value;
        return;
    case MH_I32:
        *(int32_t *)p = (int32_t)value;
        return;
    case MH_U32:
        *(uint32_t *)p = (uint32_t)value;
        return;
    case MH_I64:
        *(int64_t *)p = (int64_t)value;
        return;
    case MH_U64:
        *(uint64_t *)p = (uint64_t)value;
        return;
    }
    abort();
}

double ref_get_broadcast(const mh_tensor *t, int rank, const size_t *index)
{
    size_t own[MH_MAX_RANK] = {0};
    for (int d = 0; d < t->rank; d++)
        own[d] = t->shape[d] == 1 ? 0 : index[rank - t->rank + d];
    return ref_get(t, own);
}

bool ref_next(const mh_tensor *t, size_t *index)
{
    for (int d = t->rank - 1; d >= 0; d--) {
        if (++index[d] < t->shape[d])
            return true;
        index[d] = 0;
    }
    return false;
}

size_t ref_count(const mh_tensor *t)
{
    size_t count = 1;
    for (int d = 0; d < t->rank; d++)
        count *= t->shape[d];
    return count;
}

double *ref_load(const mh_tensor *t)
{
    size_t count = ref_count(t), index[MH_MAX_RANK] = {0}, n = 0;
    double *values = ref_alloc(count, sizeof *values);
    if (count)
        do
            values[n++] = ref_get(t, index);
        while (ref_next(t, index));
    return values;
}

void *ref_alloc(size_t count, size_t size)
{
    void *memory = calloc(count ? count : 1, size);
    if (!memory) {
        fprintf(stderr, "out of memory in a test: %zu x %zu bytes\n", count, size);
        exit(1);
    }
    return memory;
}
