// SPDX-License-Identifier: MIT
// Views, shapes, broadcasting, and copies between every pair of dtypes and any strides, compared
// with conversions written as the definitions say them.
#include <multihead/tensor.h>

#include "base/half.h"
#include "base/philox.h"

#include <fenv.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h> // wants the headers above

static mh_context *context;

static int make_context(void **state)
{
    (void)state;
    mh_context_options options = mh_context_options_default();
    options.threads = 1;
    options.isa = "scalar";
    return mh_context_create(&options, &context, NULL, 0) != MH_OK;
}

static int free_context(void **state)
{
    (void)state;
    mh_context_free(context);
    return 0;
}

// ---- views --------------------------------------------------------------------------------------

static void check_text(const mh_tensor *t, const char *expected)
{
    char text[256];
    assert_string_equal(mh_tensor_describe(t, text, sizeof text), expected);
}

static void dtypes(void **state)
{
    (void)state;
    static const size_t sizes[] = {4, 8, 2, 2, 1, 1, 2, 4, 8, 1, 2, 4, 8};
    for (int d = MH_F32; d <= MH_U64; d++)
        assert_int_equal(mh_dtype_size((mh_dtype)d), sizes[d]);
    assert_string_equal(mh_dtype_name(MH_BF16), "bf16");
    assert_int_equal(mh_dtype_size((mh_dtype)13), 0);
    assert_int_equal(mh_dtype_size((mh_dtype)-1), 0);
    assert_string_equal(mh_dtype_name((mh_dtype)99), "?");
}

static void views(void **state)
{
    (void)state;
    float data[2 * 3 * 8];
    mh_tensor t = mh_tensor_3d(data, MH_F32, 2, 3, 8);
    check_text(&t, "f32 (2, 3, 8)");
    assert_int_equal(t.stride[0], 24);
    assert_int_equal(mh_tensor_count(&t), 48);
    assert_true(mh_tensor_is_contiguous(&t));

    mh_tensor heads = mh_tensor_swap(mh_tensor_split(t, 2, 4), 1, 2); // (2, 4, 3, 2)
    check_text(&heads, "f32 (2, 4, 3, 2)");
    assert_int_equal(heads.stride[1], 2);
    assert_int_equal(heads.stride[2], 8);
    assert_false(mh_tensor_is_contiguous(&heads));

    mh_tensor part = mh_tensor_slice(t, 1, 1, 2);
    check_text(&part, "f32 (2, 2, 8)");
    assert_ptr_equal(part.data, data + 8);
    mh_tensor empty = mh_tensor_slice(t, 0, 2, 0);
    assert_int_equal(mh_tensor_count(&empty), 0);
    assert_ptr_equal(empty.data, data);
    mh_tensor one = mh_tensor_slice(t, 1, 2, 1); // strides of single elements do not matter
    assert_false(mh_tensor_is_contiguous(&one));
    one = mh_tensor_slice(one, 0, 1, 1);
    assert_true(mh_tensor_is_contiguous(&one));

    mh_tensor number = mh_tensor_view(data, MH_F64, 0, NULL);
    check_text(&number, "f64 ()");
    assert_int_equal(mh_tensor_count(&number), 1);
    char tiny[5];
    assert_string_equal(mh_tensor_describe(&t, tiny, sizeof tiny), "f32 ");
    assert_true(mh_tensor_same_shape(&t, &t));
    assert_false(mh_tensor_same_shape(&t, &part));
    assert_false(mh_tensor_same_shape(&t, &number));
}

static void impossible_views(void **state)
{
    (void)state;
    float data[8];
    size_t shape[9] = {1, 1, 1, 1, 1, 1, 1, 1, 1};
    mh_tensor t = mh_tensor_1d(data, MH_F32, 8), full = mh_tensor_view(data, MH_F32, 8, shape);
    mh_tensor bad[] = {
        mh_tensor_view(data, MH_F32, 9, shape),
        mh_tensor_view(data, MH_F32, -1, shape),
        mh_tensor_swap(t, 0, 1),
        mh_tensor_swap(t, -1, 0),
        mh_tensor_slice(t, 1, 0, 0),
        mh_tensor_slice(t, 0, 9, 0),
        mh_tensor_slice(t, 0, 4, 5),
        mh_tensor_slice(t, 0, 2, SIZE_MAX),
        mh_tensor_split(t, 0, 3),
        mh_tensor_split(t, 0, 0),
        mh_tensor_split(full, 0, 1),
        mh_tensor_split(t, 1, 1),
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_equal(bad[i].rank, -1);
        assert_true(mh_tensor_count(&bad[i]) == SIZE_MAX);
        assert_false(mh_tensor_is_contiguous(&bad[i]));
        assert_false(mh_tensor_same_shape(&bad[i], &bad[i]));
        check_text(&bad[i], "f32 (no view)");
        assert_int_equal(mh_tensor_copy(context, &bad[i], &bad[i]), MH_ERROR_ARGUMENT);
        assert_int_equal(mh_tensor_swap(bad[i], 0, 0).rank, -1);
    }
    mh_tensor huge = mh_tensor_2d(data, MH_F32, SIZE_MAX / 2, 3);
    assert_true(mh_tensor_count(&huge) == SIZE_MAX);
    assert_int_equal(mh_tensor_copy(context, &huge, &huge), MH_ERROR_ARGUMENT);
    mh_tensor lying = mh_tensor_3d(data, MH_F32, 0, SIZE_MAX / 2, 4);
    assert_true(mh_tensor_count(&lying) == SIZE_MAX);
}

static void broadcasting(void **state)
{
    (void)state;
    float data[6] = {0, 1, 2, 3, 4, 5};
    mh_tensor t = mh_tensor_2d(data, MH_F32, 3, 1), out;
    size_t shape[] = {4, 3, 5};
    assert_int_equal(mh_tensor_broadcast(context, &t, 3, shape, &out), MH_OK);
    check_text(&out, "f32 (4, 3, 5)");
    assert_int_equal(out.stride[0], 0);
    assert_int_equal(out.stride[1], 1);
    assert_int_equal(out.stride[2], 0);
    float copy[60];
    mh_tensor dense = mh_tensor_view(copy, MH_F32, 3, shape);
    assert_int_equal(mh_tensor_copy(context, &out, &dense), MH_OK);
    for (size_t i = 0; i < 60; i++)
        assert_true(copy[i] == (float)(i / 5 % 3));

    mh_tensor before = out;
    size_t other[] = {4, 2, 5};
    assert_int_equal(mh_tensor_broadcast(context, &t, 3, other, &out), MH_ERROR_ARGUMENT);
    assert_string_equal(mh_error_message(context),
                        "cannot broadcast f32 (3, 1) to f32 (4, 2, 5): aligned on the right, each "
                        "dimension must be 1 or full");
    assert_int_equal(mh_tensor_broadcast(context, &t, 1, shape, &out), MH_ERROR_ARGUMENT);
    assert_int_equal(mh_tensor_broadcast(context, &t, 9, shape, &out), MH_ERROR_ARGUMENT);
    assert_memory_equal(&before, &out, sizeof out);
    size_t none[] = {3, 0}; // 1 stretches to nothing, too
    assert_int_equal(mh_tensor_broadcast(context, &t, 2, none, &out), MH_OK);
    assert_int_equal(mh_tensor_count(&out), 0);
}

// ---- copies -------------------------------------------------------------------------------------

// One number through mh_tensor_copy, at an odd address. Not contiguous, to take the long way.
static void convert(mh_dtype from, const void *value, mh_dtype to, void *result)
{
    char source[64], target[64];
    memset(target, 0x55, sizeof target);
    memcpy(source + 1, value, mh_dtype_size(from));
    mh_tensor a = mh_tensor_1d(source + 1, from, 1), b = mh_tensor_1d(target + 1, to, 1);
    assert_int_equal(mh_tensor_copy(context, &a, &b), MH_OK);
    memcpy(result, target + 1, mh_dtype_size(to));
    for (size_t i = 1 + mh_dtype_size(to); i < sizeof target; i++)
        assert_int_equal(target[i], 0x55);
}

static int64_t real_to_signed(mh_dtype to, double value)
{
    int64_t i64 = 0;
    int32_t i32;
    int16_t i16;
    int8_t i8;
    void *at = to == MH_I64   ? (void *)&i64
               : to == MH_I32 ? (void *)&i32
               : to == MH_I16 ? (void *)&i16
                              : (void *)&i8;
    convert(MH_F64, &value, to, at);
    return to == MH_I64 ? i64 : to == MH_I32 ? i32 : to == MH_I16 ? i16 : i8;
}

static uint64_t real_to_unsigned(mh_dtype to, double value)
{
    uint64_t bits = 0; // little endian, as all machines we have kernels for
    convert(MH_F64, &value, to, &bits);
    return bits;
}

static void reals_to_integers(void **state)
{
    (void)state;
    assert_true(real_to_signed(MH_I32, -2.9) == -2);
    assert_true(real_to_signed(MH_I32, 2.9) == 2);
    assert_true(real_to_signed(MH_I8, 127.5) == 127);
    assert_true(real_to_signed(MH_I8, 1e10) == 127);
    assert_true(real_to_signed(MH_I8, -129) == -128);
    assert_true(real_to_signed(MH_I16, -1e300) == INT16_MIN);
    assert_true(real_to_signed(MH_I32, INFINITY) == INT32_MAX);
    assert_true(real_to_signed(MH_I64, -INFINITY) == INT64_MIN);
    assert_true(real_to_signed(MH_I64, 0x1p63) == INT64_MAX);
    assert_true(real_to_signed(MH_I64, -0x1p63) == INT64_MIN);
    assert_true(real_to_signed(MH_I64, NAN) == 0);
    assert_true(real_to_unsigned(MH_U8, 255.9) == 255);
    assert_true(real_to_unsigned(MH_U8, 256) == 255);
    assert_true(real_to_unsigned(MH_U16, -5) == 0);
    assert_true(real_to_unsigned(MH_U32, 4e9) == 4000000000u);
    assert_true(real_to_unsigned(MH_U64, 0x1p64) == UINT64_MAX);
    assert_true(real_to_unsigned(MH_U64, 0x1p63) == (uint64_t)1 << 63);
    assert_true(real_to_unsigned(MH_U64, NAN) == 0);
    assert_true(real_to_unsigned(MH_BOOL, 0.25) == 1);
    assert_true(real_to_unsigned(MH_BOOL, NAN) == 1);
    assert_true(real_to_unsigned(MH_BOOL, -0.0) == 0);
}

static void integers_saturate(void **state)
{
    (void)state;
    int64_t big = INT64_MIN;
    int8_t i8;
    uint64_t u64 = UINT64_MAX;
    int64_t i64;
    uint16_t u16;
    convert(MH_I64, &big, MH_I8, &i8);
    assert_int_equal(i8, -128);
    convert(MH_I64, &big, MH_U16, &u16);
    assert_int_equal(u16, 0);
    convert(MH_U64, &u64, MH_I64, &i64);
    assert_true(i64 == INT64_MAX);
    int32_t minus = -7;
    convert(MH_I32, &minus, MH_I64, &i64);
    assert_true(i64 == -7);
    uint8_t yes = 2, result;
    convert(MH_U8, &yes, MH_BOOL, &result);
    assert_int_equal(result, 1);
    convert(MH_BOOL, &yes, MH_U8, &result);
    assert_int_equal(result, 1);
}

static uint16_t double_to_half(mh_dtype to, double value)
{
    uint16_t half;
    convert(MH_F64, &value, to, &half);
    return half;
}

// Values where rounding to f32 first lands exactly between two halves.
static void no_double_rounding(void **state)
{
    (void)state;
    assert_int_equal(double_to_half(MH_F16, 1 + 0x1p-11), 0x3C00);
    assert_int_equal(double_to_half(MH_F16, 1 + 0x1p-11 + 0x1p-40), 0x3C01);
    assert_int_equal(double_to_half(MH_F16, 1 + 0x3p-11 - 0x1p-40), 0x3C01);
    assert_int_equal(double_to_half(MH_F16, -(0x1p-25 + 0x1p-70)), 0x8001);
    assert_int_equal(double_to_half(MH_F16, 65520 - 0x1p-30), 0x7BFF);
    assert_int_equal(double_to_half(MH_F16, 1e300), 0x7C00);
    assert_int_equal(double_to_half(MH_BF16, 1 + 0x1p-8), 0x3F80);
    assert_int_equal(double_to_half(MH_BF16, 1 + 0x1p-8 + 0x1p-45), 0x3F81);
    assert_int_equal(double_to_half(MH_BF16, 0x1p-134 + 0x1p-180), 0x0001);
    assert_int_equal(double_to_half(MH_BF16, 1e-300), 0x0000);
    assert_int_equal(double_to_half(MH_BF16, -INFINITY), 0xFF80);
    assert_true(double_to_half(MH_BF16, NAN) > 0x7F80);

    int64_t integer = ((int64_t)1 << 62) + ((int64_t)1 << 54) + 1; // just above a bf16 tie
    uint16_t half;
    convert(MH_I64, &integer, MH_BF16, &half);
    assert_int_equal(half, 0x5E81);
    integer = ((int64_t)1 << 62) + ((int64_t)1 << 38) + 1; // just above an f32 tie
    float single;
    convert(MH_I64, &integer, MH_F32, &single);
    assert_true(single == 0x1p62f + 0x1p39f);
    double real;
    uint64_t most = UINT64_MAX;
    convert(MH_U64, &most, MH_F64, &real);
    assert_true(real == 0x1p64);
}

// Every number that both types hold survives the way there and back.
static void all_pairs_round_trip(void **state)
{
    (void)state;
    for (int from = MH_F32; from <= MH_U64; from++) {
        for (int to = MH_F32; to <= MH_U64; to++) {
            bool is_bool = from == MH_BOOL || to == MH_BOOL;
            for (int64_t i = 0; i <= (is_bool ? 1 : 100); i++) {
                uint64_t there = 0, back = 0, value = 0, integer = 0;
                convert(MH_I64, &i, (mh_dtype)from, &value);
                convert((mh_dtype)from, &value, (mh_dtype)to, &there);
                convert((mh_dtype)to, &there, (mh_dtype)from, &back);
                assert_true(value == back);
                convert((mh_dtype)to, &there, MH_I64, &integer);
                assert_true(integer == (uint64_t)i);
            }
        }
    }
}

static void half_matches_base(void **state)
{
    (void)state;
    enum { N = 65536 };
    uint16_t *half = malloc(N * sizeof *half), *back = malloc(N * sizeof *back);
    float *wide = malloc(N * sizeof *wide);
    for (size_t i = 0; i < N; i++)
        half[i] = (uint16_t)i;
    static const mh_dtype kinds[] = {MH_F16, MH_BF16};
    for (size_t k = 0; k < 2; k++) {
        mh_tensor a = mh_tensor_1d(half, kinds[k], N), b = mh_tensor_1d(wide, MH_F32, N);
        mh_tensor c = mh_tensor_1d(back, kinds[k], N);
        assert_int_equal(mh_tensor_copy(context, &a, &b), MH_OK);
        assert_int_equal(mh_tensor_copy(context, &b, &c), MH_OK);
        for (size_t i = 0; i < N; i++) {
            float expected = k ? mh_bf16_to_float(half[i]) : mh_f16_to_float(half[i]);
            assert_true(isnan(expected) ? isnan(wide[i]) : wide[i] == expected);
            assert_true(isnan(expected) || back[i] == half[i]);
        }
    }
    free(half);
    free(back);
    free(wide);
}

// A caller's rounding mode must not show, nor be changed.
static void rounding_mode_is_ours(void **state)
{
    (void)state;
    double value = 0.1, expected = (double)0.1f;
    static const int modes[] = {FE_UPWARD, FE_DOWNWARD, FE_TOWARDZERO, FE_TONEAREST};
    for (size_t i = 0; i < 4; i++) {
        float single;
        fesetround(modes[i]);
        convert(MH_F64, &value, MH_F32, &single);
        int after = fegetround();
        fesetround(FE_TONEAREST);
        assert_int_equal(after, modes[i]);
        assert_true((double)single == expected);
    }
}

static uint32_t pick(uint32_t *counter, uint32_t n)
{
    uint32_t words[4];
    mh_philox((uint32_t[]){(*counter)++, 0, 0, 0}, (uint32_t[]){1, 1}, words);
    return words[0] % n;
}

// A view of `shape` in random order of dimensions, with gaps and some dimensions backwards.
static mh_tensor random_view(uint32_t *counter, void *data, mh_dtype dtype, int rank,
                             const size_t *shape)
{
    mh_tensor t = mh_tensor_view(data, dtype, rank, shape);
    int order[MH_MAX_RANK];
    for (int i = 0; i < rank; i++) {
        int j = (int)pick(counter, (uint32_t)i + 1);
        order[i] = order[j];
        order[j] = i;
    }
    size_t stride = 1, origin = 0;
    for (int i = 0; i < rank; i++) {
        int d = order[i];
        bool backwards = pick(counter, 3) == 0;
        t.stride[d] = backwards ? -(ptrdiff_t)stride : (ptrdiff_t)stride;
        origin += backwards ? (shape[d] - 1) * stride : 0;
        stride *= shape[d] + pick(counter, 2);
    }
    t.data = (char *)data + origin * mh_dtype_size(dtype);
    return t;
}

static float *element(const mh_tensor *t, const size_t *index)
{
    float *at = t->data;
    for (int i = 0; i < t->rank; i++)
        at += (ptrdiff_t)index[i] * t->stride[i];
    return at;
}

static void any_strides(void **state)
{
    (void)state;
    static float source[4096], target[4096];
    for (size_t i = 0; i < 4096; i++)
        source[i] = (float)i;
    uint32_t counter = 0;
    for (int repeat = 0; repeat < 2000; repeat++) {
        size_t shape[5];
        int rank = (int)pick(&counter, 6);
        for (int i = 0; i < rank; i++)
            shape[i] = 1 + pick(&counter, 4);
        mh_tensor a = random_view(&counter, source, MH_F32, rank, shape);
        mh_tensor b = random_view(&counter, target, MH_F32, rank, shape);
        for (size_t i = 0; i < 4096; i++)
            target[i] = -1;
        assert_int_equal(mh_tensor_copy(context, &a, &b), MH_OK);
        size_t index[5] = {0}, count = mh_tensor_count(&a), written = 0;
        for (size_t n = 0; n < count; n++) {
            size_t rest = n;
            for (int i = rank - 1; i >= 0; rest /= shape[i], i--)
                index[i] = rest % shape[i];
            assert_true(*element(&b, index) == *element(&a, index));
        }
        for (size_t i = 0; i < 4096; i++)
            written += target[i] >= 0;
        assert_int_equal(written, count); // and nothing else
    }
}

static void copies_in_place(void **state)
{
    (void)state;
    float data[6] = {0, 1, 2, 3, 4, 5};
    mh_tensor t = mh_tensor_2d(data, MH_F32, 2, 3), transposed = mh_tensor_swap(t, 0, 1);
    assert_int_equal(mh_tensor_copy(context, &t, &t), MH_OK);
    assert_int_equal(mh_tensor_copy(context, &transposed, &transposed), MH_OK);
    for (size_t i = 0; i < 6; i++)
        assert_true(data[i] == (float)i);
    mh_tensor as_integers = t;
    as_integers.dtype = MH_I32;
    assert_int_equal(mh_tensor_copy(context, &t, &as_integers), MH_OK);
    int32_t integers[6];
    memcpy(integers, data, sizeof integers);
    for (int i = 0; i < 6; i++)
        assert_int_equal(integers[i], i);
}

static void bad_copies(void **state)
{
    (void)state;
    float data[6];
    mh_tensor t = mh_tensor_2d(data, MH_F32, 2, 3), other = mh_tensor_2d(data, MH_F32, 3, 2);
    assert_int_equal(mh_tensor_copy(context, &t, &other), MH_ERROR_ARGUMENT);
    assert_string_equal(mh_error_message(context),
                        "copy: found f32 (2, 3) to f32 (3, 2), expected equal shapes");
    other = mh_tensor_2d(NULL, MH_F32, 2, 3);
    assert_int_equal(mh_tensor_copy(context, &t, &other), MH_ERROR_ARGUMENT);
    other = mh_tensor_2d(data, (mh_dtype)40, 2, 3);
    assert_int_equal(mh_tensor_copy(context, &t, &other), MH_ERROR_ARGUMENT);
    mh_tensor none = mh_tensor_2d(NULL, MH_F32, 0, 3), nothing = mh_tensor_2d(NULL, MH_I8, 0, 3);
    assert_int_equal(mh_tensor_copy(context, &none, &nothing), MH_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(dtypes),
        cmocka_unit_test(views),
        cmocka_unit_test(impossible_views),
        cmocka_unit_test(broadcasting),
        cmocka_unit_test(reals_to_integers),
        cmocka_unit_test(integers_saturate),
        cmocka_unit_test(no_double_rounding),
        cmocka_unit_test(all_pairs_round_trip),
        cmocka_unit_test(half_matches_base),
        cmocka_unit_test(rounding_mode_is_ours),
        cmocka_unit_test(any_strides),
        cmocka_unit_test(copies_in_place),
        cmocka_unit_test(bad_copies),
    };
    return cmocka_run_group_tests(tests, make_context, free_context);
}
