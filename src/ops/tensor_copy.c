// SPDX-License-Identifier: MIT
// Copies between any dtypes. A copy is exact where the target can represent the value and correctly
// rounded otherwise; no value goes through a type that would round it twice (see narrow_to_odd).
#include <multihead/tensor.h>

#include "base/context.h"
#include "base/fpenv.h"
#include "base/half.h"
#include "base/overflow.h"
#include "ops/overlap.h"
#include "ops/row_io.h"

#include <math.h>
#include <string.h>

// ---- values -------------------------------------------------------------------------------------

// Any value of any dtype, exactly: a double, or an integer of 64 bits and a sign.
typedef struct number {
    bool is_integer;
    bool negative;      // integers only
    uint64_t magnitude; // integers only
    double real;
} number;

static number from_signed(int64_t value)
{
    uint64_t bits = (uint64_t)value;
    return (number){
        .is_integer = true, .negative = value < 0, .magnitude = value < 0 ? 0 - bits : bits};
}

static number from_unsigned(uint64_t value)
{
    return (number){.is_integer = true, .magnitude = value};
}

static number from_real(double value) { return (number){.real = value}; }

// Unaligned data is fine: tensors in files often are unaligned.
#define LOAD(type, name)                                                                           \
    type name;                                                                                     \
    memcpy(&name, at, sizeof name)

static number load_integer(mh_dtype dtype, const void *at)
{
    LOAD(uint8_t, byte);
    if (dtype == MH_BOOL)
        return from_unsigned(byte != 0);
    if (dtype == MH_I8)
        return from_signed((int8_t)byte);
    if (dtype == MH_U8)
        return from_unsigned(byte);
    if (dtype == MH_I16 || dtype == MH_U16) {
        LOAD(uint16_t, value);
        return dtype == MH_I16 ? from_signed((int16_t)value) : from_unsigned(value);
    }
    if (dtype == MH_I32 || dtype == MH_U32) {
        LOAD(uint32_t, value);
        return dtype == MH_I32 ? from_signed((int32_t)value) : from_unsigned(value);
    }
    LOAD(uint64_t, value);
    return dtype == MH_I64 ? from_signed((int64_t)value) : from_unsigned(value);
}

static number tensor_copy_load(mh_dtype dtype, const void *at)
{
    if (dtype == MH_F32) {
        LOAD(float, value);
        return from_real((double)value);
    }
    if (dtype == MH_F64) {
        LOAD(double, value);
        return from_real(value);
    }
    if (dtype == MH_BF16 || dtype == MH_F16) {
        LOAD(uint16_t, half);
        return from_real(
            (double)(dtype == MH_F16 ? mh_f16_to_float(half) : mh_bf16_to_float(half)));
    }
    return load_integer(dtype, at);
}
#undef LOAD

// An integer as a double. For a target narrower than f64 the bits below the 53rd become one
// sticky bit, so that rounding again gives what rounding once would.
static double integer_to_double(number x, bool sticky)
{
    uint64_t m = x.magnitude;
    if (sticky && m >> 53)
        m = (m & ~UINT64_C(0x7FF)) | (m & 0x7FF ? 0x800 : 0);
    return x.negative ? -(double)m : (double)m;
}

// Rounds a double to f32 "to odd": toward zero, the last bit set if anything was lost. Rounding
// that to a type with at least two bits less equals rounding the double itself to nearest.
static float narrow_to_odd(double value)
{
    float nearest = (float)value;
    if (isnan(value) || (double)nearest == value)
        return nearest;
    uint32_t bits = mh_float_to_bits(nearest);
    if (fabs((double)nearest) > fabs(value))
        bits--;
    return mh_bits_to_float(bits | 1u);
}

static void store_real(mh_dtype dtype, number x, void *at)
{
    double value = x.is_integer ? integer_to_double(x, dtype != MH_F64) : x.real;
    float single = (float)value;
    uint16_t half = 0;
    if (dtype == MH_BF16)
        half = mh_float_to_bf16(narrow_to_odd(value));
    else if (dtype == MH_F16)
        half = mh_float_to_f16(narrow_to_odd(value));
    if (dtype == MH_F64)
        memcpy(at, &value, sizeof value);
    else if (dtype == MH_F32)
        memcpy(at, &single, sizeof single);
    else
        memcpy(at, &half, sizeof half);
}

// Rounds toward zero; what does not fit in 64 bits saturates already here, NaN becomes 0.
static number to_integer(number x)
{
    if (x.is_integer)
        return x;
    double magnitude = trunc(fabs(x.real));
    number result = {.is_integer = true, .negative = x.real < 0};
    if (magnitude >= 0x1p64)
        result.magnitude = UINT64_MAX;
    else if (magnitude >= 1)
        result.magnitude = (uint64_t)magnitude;
    return result;
}

static void store_integer(mh_dtype dtype, number x, void *at)
{
    x = to_integer(x);
    size_t size = mh_dtype_size(dtype);
    uint64_t all = UINT64_MAX >> (64 - 8 * size);
    bool is_signed = dtype >= MH_I8 && dtype <= MH_I64;
    uint64_t most = is_signed ? all >> 1 : all, least = is_signed ? most + 1 : 0;
    uint64_t limit = x.negative ? least : most;
    uint64_t bits = x.magnitude < limit ? x.magnitude : limit;
    if (x.negative)
        bits = 0 - bits;
    uint8_t u8 = (uint8_t)bits;
    uint16_t u16 = (uint16_t)bits;
    uint32_t u32 = (uint32_t)bits;
    const void *narrow = size == 1 ? &u8 : size == 2 ? &u16 : size == 4 ? &u32 : (void *)&bits;
    memcpy(at, narrow, size);
}

static void convert(mh_dtype from_dtype, const void *from, mh_dtype to_dtype, void *to)
{
    number x = tensor_copy_load(from_dtype, from);
    if (to_dtype <= MH_F16) {
        store_real(to_dtype, x, to);
    } else if (to_dtype == MH_BOOL) {
        // Not via an integer: 0.5 and NaN are not 0.
        *(uint8_t *)to = x.is_integer ? x.magnitude != 0 : !(x.real == 0);
    } else {
        store_integer(to_dtype, x, to);
    }
}

// ---- rows ---------------------------------------------------------------------------------------

// One innermost row of n elements.
static void copy_row(const mh_tensor *from, const char *source, ptrdiff_t source_stride,
                     const mh_tensor *to, char *target, ptrdiff_t target_stride, size_t n)
{
    size_t from_size = mh_dtype_size(from->dtype), to_size = mh_dtype_size(to->dtype);
    bool same = from->dtype == to->dtype;
    if (same && source_stride == 1 && target_stride == 1) {
        memmove(target, source, n * to_size); // the views may be the same
        return;
    }
    for (size_t i = 0; i < n; i++) {
        const char *s = source + (ptrdiff_t)(i * from_size) * source_stride;
        char *t = target + (ptrdiff_t)(i * to_size) * target_stride;
        if (same)
            memmove(t, s, to_size);
        else
            convert(from->dtype, s, to->dtype, t);
    }
}

// Advances `index` over all dimensions but the last; false after the last row.
static bool next_row(const mh_tensor *t, size_t index[MH_MAX_RANK])
{
    for (int i = t->rank - 2; i >= 0; i--) {
        if (++index[i] < t->shape[i])
            return true;
        index[i] = 0;
    }
    return false;
}

static char *row_at(const mh_tensor *t, const size_t index[MH_MAX_RANK])
{
    ptrdiff_t offset = 0;
    for (int i = 0; i < t->rank - 1; i++)
        offset += (ptrdiff_t)index[i] * t->stride[i];
    return (char *)t->data + offset * (ptrdiff_t)mh_dtype_size(t->dtype);
}

static void copy_rows(const mh_kernels *kernels, const mh_tensor *from, const mh_tensor *to)
{
    size_t index[MH_MAX_RANK] = {0};
    int last = from->rank - 1;
    size_t n = last < 0 ? 1 : from->shape[last];
    ptrdiff_t source_stride = last < 0 ? 1 : from->stride[last];
    ptrdiff_t target_stride = last < 0 ? 1 : to->stride[last];
    // 16-bit floats to f32, as in model loading, by the kernels, unless unaligned.
    const bool half = from->dtype == MH_BF16 || from->dtype == MH_F16;
    const bool aligned =
        (uintptr_t)from->data % sizeof(uint16_t) == 0 && (uintptr_t)to->data % sizeof(float) == 0;
    const bool widen = half && aligned && to->dtype == MH_F32 && target_stride == 1;
    do {
        const char *source = row_at(from, index);
        char *target = row_at(to, index);
        if (widen)
            mh_row_read(kernels, from->dtype, source, source_stride, n, (float *)(void *)target);
        else
            copy_row(from, source, source_stride, to, target, target_stride, n);
    } while (next_row(from, index));
}

static bool spans_memory(const mh_tensor *t)
{
    return mh_strides_fit(t->rank, t->shape, t->stride, mh_dtype_size(t->dtype));
}

static mh_status check_copy(mh_context *context, const mh_tensor *from, const mh_tensor *to)
{
    char a[256], b[256];
    size_t count = mh_tensor_count(from);
    if (!mh_dtype_size(from->dtype) || !mh_dtype_size(to->dtype))
        return mh_fail(context, MH_ERROR_ARGUMENT, "copy: found dtypes %d and %d, one is unknown",
                       (int)from->dtype, (int)to->dtype);
    if (!mh_tensor_same_shape(from, to) || count == SIZE_MAX)
        return mh_fail(context, MH_ERROR_ARGUMENT, "copy: found %s to %s, expected equal shapes",
                       mh_tensor_describe(from, a, sizeof a), mh_tensor_describe(to, b, sizeof b));
    if (count > 0 && (!from->data || !to->data))
        return mh_fail(context, MH_ERROR_ARGUMENT, "copy: the data of %s is NULL",
                       mh_tensor_describe(from->data ? to : from, a, sizeof a));
    if (count > 0 && (!spans_memory(from) || !spans_memory(to)))
        return mh_fail(context, MH_ERROR_ARGUMENT,
                       "copy: the strides of `%s` reach beyond what memory can hold",
                       spans_memory(from) ? "to" : "from");
    // Conversion in place is allowed between dtypes of the same size.
    mh_tensor same = *from;
    if (mh_dtype_size(from->dtype) == mh_dtype_size(to->dtype))
        same.dtype = to->dtype;
    return MH_CHECK_OVERLAP(context, 1, MH_OPERAND(to),
                            {.name = "from", .tensor = &same, .may_be = 1});
}

mh_status mh_tensor_copy(mh_context *context, const mh_tensor *from, mh_tensor *to)
{
    if (MH_NEED(context, {"from", from}, {"to", to}))
        return MH_ERROR_ARGUMENT;
    mh_status status = check_copy(context, from, to);
    size_t count = mh_tensor_count(from);
    if (status || count == 0)
        return status;
    if (from->dtype == to->dtype && mh_tensor_is_contiguous(from) && mh_tensor_is_contiguous(to)) {
        memmove(to->data, from->data, count * mh_dtype_size(to->dtype));
        return MH_OK;
    }
    mh_fpenv saved = mh_fpenv_enter();
    copy_rows(context->kernels, from, to);
    mh_fpenv_leave(saved);
    return MH_OK;
}
