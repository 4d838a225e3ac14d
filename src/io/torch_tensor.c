// SPDX-License-Identifier: MIT
// A tensor of a PyTorch checkpoint: the arguments of _rebuild_tensor and its successors, checked
// against the storage that they refer to.
//
//     (storage, offset, (3, 2), (1, 3), requires_grad, hooks)      offset and strides in elements
//
// Strides may be those of any view of the storage that lies in it. A tensor with more elements than
// its storage (expanded by strides of 0) is rejected: reading it would cost more than the file's
// size justifies.
#include "base/compiler.h"
#include "io/torch.h"

#include <string.h>

#include "io/pickle_globals.h"
#include "io/shape_bytes.h"

enum { ARGUMENTS_MAX = 8 };

static mh_status fail_tensor(const mh_torch *t, const char *name, const char *what)
{
    return mh_source_fail(t->source, MH_ERROR_FORMAT, "tensor %s: %s", mh_quote_string(name).text,
                          what);
}

// ---- storages -----------------------------------------------------------------------------------

bool mh_torch_storage_bytes(const mh_torch_storage *s, size_t *bytes)
{
    const size_t width = s->untyped ? 1 : mh_dtype_size(s->dtype);
    return mh_multiply_sizes(s->count, width, bytes) && *bytes <= PTRDIFF_MAX;
}

mh_status mh_torch_use(mh_torch *t, const char *name, const mh_pickle_value *storage,
                       mh_torch_storage **result)
{
    mh_pickle_value id[5]; // checked when it was made
    mh_pickle_items(&t->pickle, storage, 5, id);
    const mh_pickle_global_entry *g = &mh_pickle_globals[id[1].as.number];
    const char *key = (const char *)id[2].as.bytes;
    mh_torch_storage *s = mh_torch_find(t, key, id[2].size);
    if (!s)
        return mh_source_fail(t->source, MH_ERROR_FORMAT,
                              "tensor %s: its storage %s is not in the file",
                              mh_quote_string(name).text, mh_quote(key, id[2].size).text);
    if (id[4].as.number < 0 || (uint64_t)id[4].as.number > PTRDIFF_MAX)
        return mh_source_fail(t->source, MH_ERROR_FORMAT,
                              "tensor %s: its storage has %lld elements, expected what fits in "
                              "memory",
                              mh_quote_string(name).text, (long long)id[4].as.number);
    const bool untyped = g->kind == MH_GLOBAL_UNTYPED_STORAGE;
    const size_t count = (size_t)id[4].as.number;
    if (s->used && (s->dtype != g->dtype || s->untyped != untyped || s->count != count))
        return mh_source_fail(t->source, MH_ERROR_FORMAT,
                              "tensor %s: its storage %s is %zu elements of torch.%s here, and "
                              "something else in another tensor",
                              mh_quote_string(name).text, mh_quote(key, id[2].size).text, count,
                              g->name);
    s->used = true;
    s->dtype = g->dtype;
    s->untyped = untyped;
    s->count = count;
    *result = s;
    return MH_OK;
}

// ---- arguments ----------------------------------------------------------------------------------

// Up to MH_MAX_RANK integers that are not negative; *rank is how many there are.
static mh_status read_sizes(mh_torch *t, const char *name, const char *what,
                            const mh_pickle_value *value, size_t *sizes, size_t *rank)
{
    mh_pickle_value items[MH_MAX_RANK];
    if (value->kind != MH_PICKLE_TUPLE)
        return fail_tensor(t, name, "its shape and strides are not tuples");
    *rank = mh_pickle_items(&t->pickle, value, MH_MAX_RANK, items);
    if (*rank > MH_MAX_RANK)
        return mh_source_fail(t->source, MH_ERROR_FORMAT,
                              "tensor %s: its %s has %zu dimensions, expected at most %d",
                              mh_quote_string(name).text, what, *rank, MH_MAX_RANK);
    for (size_t i = 0; i < *rank; i++) {
        if (items[i].kind != MH_PICKLE_INT || items[i].as.number < 0)
            return mh_source_fail(t->source, MH_ERROR_FORMAT,
                                  "tensor %s: its %s has %s, expected integers that are not "
                                  "negative",
                                  mh_quote_string(name).text, what,
                                  items[i].kind == MH_PICKLE_INT
                                      ? "a negative number"
                                      : mh_pickle_kind_name(items[i].kind));
        sizes[i] = (size_t)items[i].as.number;
    }
    return MH_OK;
}

// The elements that the view reaches, from its first to its last; false on overflow.
static bool span_of(const mh_tensor *tensor, size_t *span)
{
    size_t reach;
    *span = mh_tensor_count(tensor) == 0 ? 0 : 1;
    for (int i = 0; *span > 0 && i < tensor->rank; i++)
        if (!mh_multiply_sizes(tensor->shape[i] - 1, (size_t)tensor->stride[i], &reach) ||
            !mh_add_sizes(*span, reach, span))
            return false;
    return true;
}

static mh_status check_span(mh_torch *t, const char *name, const mh_torch_storage *s, size_t offset,
                            const mh_tensor *tensor)
{
    char text[256];
    size_t span, bytes, end;
    const size_t width = mh_dtype_size(tensor->dtype);
    const size_t there = s->untyped ? s->count / width : s->count;
    if (!mh_shape_bytes(tensor->dtype, tensor->rank, tensor->shape, &bytes))
        return fail_tensor(t, name,
                           "the shape's product overflows: its size does not fit in memory");
    if (!span_of(tensor, &span) || !mh_add_sizes(offset, span, &end) || end > there)
        return mh_source_fail(t->source, MH_ERROR_FORMAT,
                              "tensor %s: %s from element %zu on does not lie in its storage of "
                              "%zu elements",
                              mh_quote_string(name).text,
                              mh_tensor_describe(tensor, text, sizeof text), offset, there);
    if (bytes / width > there)
        return mh_source_fail(t->source, MH_ERROR_FORMAT,
                              "tensor %s: %s has more elements than its storage, which has %zu; "
                              "save a copy: .clone()",
                              mh_quote_string(name).text,
                              mh_tensor_describe(tensor, text, sizeof text), there);
    return MH_OK;
}

// The type of the elements: the storage's, or for an untyped storage that of the last argument.
static mh_status torch_tensor_read_dtype(mh_torch *t, const char *name, const mh_torch_storage *s,
                                         mh_global_kind function, const mh_pickle_value *arguments,
                                         mh_dtype *dtype)
{
    *dtype = s->dtype;
    if (function != MH_GLOBAL_REBUILD_TENSOR_V3)
        return s->untyped ? fail_tensor(t, name, "its storage has no dtype") : MH_OK;
    const mh_pickle_value *given = &arguments[6];
    if (given->kind != MH_PICKLE_GLOBAL ||
        mh_pickle_globals[given->as.number].kind != MH_GLOBAL_DTYPE)
        return fail_tensor(t, name, "its dtype is not one of torch");
    *dtype = mh_pickle_globals[given->as.number].dtype;
    return s->untyped || *dtype == s->dtype
               ? MH_OK
               : fail_tensor(t, name, "its dtype is not that of its storage");
}

mh_status mh_torch_tensor(mh_torch *t, const char *name, const mh_pickle_value *value,
                          mh_torch_storage **storage, size_t *offset, mh_tensor *tensor)
{
    static const size_t least[] = {[MH_GLOBAL_REBUILD_TENSOR] = 4,
                                   [MH_GLOBAL_REBUILD_TENSOR_V2] = 6,
                                   [MH_GLOBAL_REBUILD_TENSOR_V3] = 7};
    mh_pickle_value call[2], a[ARGUMENTS_MAX];
    size_t shape[MH_MAX_RANK], stride[MH_MAX_RANK], rank = 0, strides = 0;
    mh_dtype dtype = MH_F32;
    mh_pickle_items(&t->pickle, value, 2, call);
    const mh_global_kind function = mh_pickle_globals[call[0].as.number].kind;
    const size_t count = mh_pickle_items(&t->pickle, &call[1], ARGUMENTS_MAX, a);
    if (count < least[function] || count > ARGUMENTS_MAX || a[0].kind != MH_PICKLE_STORAGE ||
        a[1].kind != MH_PICKLE_INT || a[1].as.number < 0)
        return fail_tensor(t, name, "found other arguments than (storage, offset, shape, strides)");
    *offset = (size_t)a[1].as.number;
    MH_TRY(mh_torch_use(t, name, &a[0], storage));
    MH_TRY(read_sizes(t, name, "shape", &a[2], shape, &rank));
    MH_TRY(read_sizes(t, name, "strides", &a[3], stride, &strides));
    if (rank != strides)
        MH_TRY(fail_tensor(t, name, "it has another number of strides than dimensions"));
    MH_TRY(torch_tensor_read_dtype(t, name, *storage, function, a, &dtype));
    *tensor = (mh_tensor){.dtype = dtype, .rank = (int)rank};
    memcpy(tensor->shape, shape, rank * sizeof *shape);
    for (size_t i = 0; i < rank; i++)
        tensor->stride[i] = (ptrdiff_t)stride[i];
    return check_span(t, name, *storage, *offset, tensor);
}
