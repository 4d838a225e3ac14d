// SPDX-License-Identifier: MIT
// Views and their shapes.
//
// Views are plain values, so an invalid one (a dimension that does not exist, a slice beyond the
// end) cannot return an error: it gives a view of rank -1, which every function that takes a
// context rejects with a message.
#include <multihead/tensor.h>

#include "base/context.h"
#include "base/overflow.h"

#include <stdio.h>
#include <string.h>

// ---- dtypes -------------------------------------------------------------------------------------

static const struct {
    const char *name;
    size_t size;
} dtypes[] = {
    [MH_F32] = {"f32", 4},   [MH_F64] = {"f64", 8}, [MH_BF16] = {"bf16", 2}, [MH_F16] = {"f16", 2},
    [MH_BOOL] = {"bool", 1}, [MH_I8] = {"i8", 1},   [MH_I16] = {"i16", 2},   [MH_I32] = {"i32", 4},
    [MH_I64] = {"i64", 8},   [MH_U8] = {"u8", 1},   [MH_U16] = {"u16", 2},   [MH_U32] = {"u32", 4},
    [MH_U64] = {"u64", 8},
};

static bool is_dtype(mh_dtype dtype) { return (size_t)dtype < sizeof dtypes / sizeof *dtypes; }

const char *mh_dtype_name(mh_dtype dtype) { return is_dtype(dtype) ? dtypes[dtype].name : "?"; }

size_t mh_dtype_size(mh_dtype dtype) { return is_dtype(dtype) ? dtypes[dtype].size : 0; }

// ---- views --------------------------------------------------------------------------------------

static bool is_rank(int rank) { return rank >= 0 && rank <= MH_MAX_RANK; }

static bool has_dim(const mh_tensor *t, int dim)
{
    return is_rank(t->rank) && dim >= 0 && dim < t->rank;
}

static mh_tensor no_view(mh_tensor t)
{
    t.rank = -1;
    return t;
}

// Wraps around for shapes that do not fit in memory; mh_tensor_count() rejects those.
static ptrdiff_t times(size_t count, ptrdiff_t stride)
{
    return (ptrdiff_t)(count * (size_t)stride);
}

static void *element_at(const mh_tensor *t, ptrdiff_t offset)
{
    return offset ? (char *)t->data + times(mh_dtype_size(t->dtype), offset) : t->data;
}

mh_tensor mh_tensor_view(void *data, mh_dtype dtype, int rank, const size_t *shape)
{
    mh_tensor t = {.data = data, .dtype = dtype, .rank = rank};
    if (!is_rank(rank))
        return no_view(t);
    ptrdiff_t stride = 1;
    for (int i = rank - 1; i >= 0; i--) {
        t.shape[i] = shape[i];
        t.stride[i] = stride;
        stride = times(shape[i] ? shape[i] : 1, stride);
    }
    return t;
}

mh_tensor mh_tensor_1d(void *data, mh_dtype dtype, size_t n0)
{
    return mh_tensor_view(data, dtype, 1, &n0);
}

mh_tensor mh_tensor_2d(void *data, mh_dtype dtype, size_t n0, size_t n1)
{
    return mh_tensor_view(data, dtype, 2, (const size_t[]){n0, n1});
}

mh_tensor mh_tensor_3d(void *data, mh_dtype dtype, size_t n0, size_t n1, size_t n2)
{
    return mh_tensor_view(data, dtype, 3, (const size_t[]){n0, n1, n2});
}

mh_tensor mh_tensor_4d(void *data, mh_dtype dtype, size_t n0, size_t n1, size_t n2, size_t n3)
{
    return mh_tensor_view(data, dtype, 4, (const size_t[]){n0, n1, n2, n3});
}

mh_tensor mh_tensor_swap(mh_tensor t, int a, int b)
{
    if (!has_dim(&t, a) || !has_dim(&t, b))
        return no_view(t);
    mh_tensor swapped = t;
    swapped.shape[a] = t.shape[b];
    swapped.shape[b] = t.shape[a];
    swapped.stride[a] = t.stride[b];
    swapped.stride[b] = t.stride[a];
    return swapped;
}

mh_tensor mh_tensor_slice(mh_tensor t, int dim, size_t begin, size_t count)
{
    if (!has_dim(&t, dim) || begin > t.shape[dim] || count > t.shape[dim] - begin)
        return no_view(t);
    if (count > 0) // an empty slice has no elements, and its address could be out of bounds
        t.data = element_at(&t, times(begin, t.stride[dim]));
    t.shape[dim] = count;
    return t;
}

mh_tensor mh_tensor_split(mh_tensor t, int dim, size_t outer)
{
    if (!has_dim(&t, dim) || t.rank == MH_MAX_RANK || outer == 0 || t.shape[dim] % outer != 0)
        return no_view(t);
    for (int i = t.rank; i > dim + 1; i--) {
        t.shape[i] = t.shape[i - 1];
        t.stride[i] = t.stride[i - 1];
    }
    size_t inner = t.shape[dim] / outer;
    t.rank++;
    t.shape[dim + 1] = inner;
    t.stride[dim + 1] = t.stride[dim];
    t.shape[dim] = outer;
    t.stride[dim] = times(inner, t.stride[dim + 1]);
    return t;
}

// ---- shapes -------------------------------------------------------------------------------------

size_t mh_tensor_count(const mh_tensor *t)
{
    size_t count;
    return is_rank(t->rank) && mh_multiply_all((size_t)t->rank, t->shape, &count) ? count
                                                                                  : SIZE_MAX;
}

bool mh_tensor_is_contiguous(const mh_tensor *t)
{
    size_t count = mh_tensor_count(t);
    if (count == SIZE_MAX)
        return false;
    ptrdiff_t expected = 1;
    for (int i = t->rank - 1; i >= 0 && count > 0; i--) {
        if (t->shape[i] != 1 && t->stride[i] != expected)
            return false;
        expected = times(t->shape[i], expected);
    }
    return true;
}

bool mh_tensor_same_shape(const mh_tensor *a, const mh_tensor *b)
{
    return is_rank(a->rank) && a->rank == b->rank &&
           memcmp(a->shape, b->shape, (size_t)a->rank * sizeof *a->shape) == 0;
}

char *mh_tensor_describe(const mh_tensor *t, char *text, size_t text_size)
{
    char whole[256]; // 8 dimensions of at most 20 digits each
    int used = snprintf(whole, sizeof whole, "%s (", mh_dtype_name(t->dtype));
    if (!is_rank(t->rank))
        used += snprintf(whole + used, sizeof whole - (size_t)used, "no view");
    for (int i = 0; is_rank(t->rank) && i < t->rank; i++)
        used +=
            snprintf(whole + used, sizeof whole - (size_t)used, i ? ", %zu" : "%zu", t->shape[i]);
    if (text_size > 0)
        snprintf(text, text_size, "%s)", whole);
    return text;
}

static mh_status refuse_broadcast(mh_context *context, const mh_tensor *t, int rank,
                                  const size_t *shape)
{
    char from[256], to[256];
    mh_tensor target = mh_tensor_view(NULL, t->dtype, rank, shape);
    return mh_fail(
        context, MH_ERROR_ARGUMENT,
        "cannot broadcast %s to %s: aligned on the right, each dimension must be 1 or full",
        mh_tensor_describe(t, from, sizeof from), mh_tensor_describe(&target, to, sizeof to));
}

mh_status mh_tensor_broadcast(mh_context *context, const mh_tensor *t, int rank,
                              const size_t *shape, mh_tensor *out)
{
    if (MH_NEED(context, {"t", t}, {"shape", shape}, {"out", out}))
        return MH_ERROR_ARGUMENT;
    if (!is_rank(rank) || !is_rank(t->rank) || t->rank > rank)
        return refuse_broadcast(context, t, rank, shape);
    mh_tensor wide = mh_tensor_view(t->data, t->dtype, rank, shape);
    int missing = rank - t->rank;
    for (int i = 0; i < rank; i++) {
        size_t n = i < missing ? 1 : t->shape[i - missing];
        if (n != 1 && n != shape[i])
            return refuse_broadcast(context, t, rank, shape);
        wide.stride[i] = n == 1 ? 0 : t->stride[i - missing];
    }
    *out = wide;
    return MH_OK;
}
