// SPDX-License-Identifier: MIT
// .npy: what is written is read back bit for bit and is what NumPy writes; what is wrong is
// refused with the right words. The hostile files are put together here, byte by byte: each is a
// kind of bug that some reader of tensors has had.

#include "parser_support.h"

static int set_up(void **state)
{
    (void)state;
    return parser_place("x.npy", NULL);
}

#define DICT(descr, order, shape)                                                                  \
    "{'descr': " descr ", 'fortran_order': " order ", 'shape': " shape ", }\n"

// ---- round trips --------------------------------------------------------------------------------

static void fill_bits(test_rng *rng, test_tensor *t)
{
    for (size_t i = 0; i < t->size; i++)
        t->bytes[i] = (unsigned char)test_random(rng);
}

static void round_trip(const mh_tensor *tensor)
{
    mh_tensor_file *file;
    mh_tensor found;
    test_ok(context, mh_npy_write(context, path, tensor));
    test_ok(context, mh_tensor_file_open(context, path, &file));
    assert_int_equal(mh_tensor_file_count(file), 1);
    assert_string_equal(mh_tensor_file_name(file, 0), "");
    assert_null(mh_tensor_file_name(file, 1));
    assert_true(mh_tensor_file_find(file, "", &found));
    assert_false(mh_tensor_file_find(file, "x", &found));
    assert_false(mh_tensor_file_at(file, 1, &found));
    assert_null(mh_tensor_file_metadata(file, "format"));
    same_elements(&found, tensor);
    mh_tensor_file_free(file);
}

static void test_round_trips(void **state)
{
    (void)state;
    test_rng rng = {test_seed()};
    for (mh_dtype dtype = MH_F32; dtype <= MH_U64; dtype++) {
        for (int rank = 0; rank <= MH_MAX_RANK && dtype != MH_BF16; rank++) {
            size_t shape[MH_MAX_RANK];
            for (int d = 0; d < rank; d++)
                shape[d] = test_between(&rng, rank > 2 ? 1 : 0, rank > 4 ? 3 : 6);
            for (int dense = 0; dense < 2; dense++) {
                test_tensor t = dense ? test_tensor_dense(dtype, rank, shape)
                                      : test_tensor_random(&rng, dtype, rank, shape, true);
                fill_bits(&rng, &t);
                round_trip(&t.view);
                test_tensor_free(&t);
            }
        }
    }
}

// More than the writer's buffer holds, cut at different dimensions.
static void test_large_strided(void **state)
{
    (void)state;
    static const size_t shapes[][3] = {
        {1, 1, 400001}, {2, 3, 200003}, {300, 7, 211}, {70001, 2, 3}, {5, 65536, 1}};
    test_rng rng = {test_seed()};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        for (int swap = 0; swap < 3; swap++) {
            test_tensor t = test_tensor_dense(swap == 1 ? MH_BOOL : MH_U16, 3, shapes[i]);
            mh_tensor view = swap == 2 ? t.view : mh_tensor_swap(t.view, 0, 2);
            fill_bits(&rng, &t);
            if (swap == 2) // backwards
                for (int d = 0; d < 3; d++) {
                    view.data =
                        (uint16_t *)view.data + (ptrdiff_t)(view.shape[d] - 1) * view.stride[d];
                    view.stride[d] = -view.stride[d];
                }
            round_trip(&view);
            test_tensor_free(&t);
        }
}

static void test_empty(void **state)
{
    (void)state;
    mh_tensor t = mh_tensor_3d(NULL, MH_F64, 3, 0, 2);
    round_trip(&t);
    t = mh_tensor_1d(NULL, MH_BOOL, 0);
    round_trip(&t);
}

// The bytes of numpy.save("x.npy", numpy.arange(6, dtype="<i2").reshape(2, 3)), NumPy 2.
static void test_same_as_numpy(void **state)
{
    (void)state;
    int16_t numbers[] = {0, 1, 2, 3, 4, 5};
    char expected[128 + sizeof numbers];
    memset(expected, ' ', 128);
    memcpy(expected, "\x93NUMPY\x01\x00\x76\x00", 10);
    const char *header = "{'descr': '<i2', 'fortran_order': False, 'shape': (2, 3), }";
    memcpy(expected + 10, header, strlen(header));
    expected[127] = '\n';
    memcpy(expected + 128, numbers, sizeof numbers);

    mh_tensor t = mh_tensor_2d(numbers, MH_I16, 2, 3);
    test_ok(context, mh_npy_write(context, path, &t));
    blob found = blob_read(path);
    assert_int_equal(found.size, sizeof expected);
    assert_memory_equal(found.bytes, expected, sizeof expected);
    blob_free(&found);
}

// ---- reading ------------------------------------------------------------------------------------

static mh_tensor_file *parse(const blob *b)
{
    mh_tensor_file *file;
    test_ok(context, mh_tensor_file_parse(context, "x.npy", b->bytes, b->size, &file));
    return file;
}

static void test_accepted(void **state)
{
    (void)state;
    static const struct {
        int major;
        const char *header;
        size_t data_size;
        mh_dtype dtype;
        int rank;
    } cases[] = {
        {1, DICT("'<f4'", "False", "(2, 3)"), 24, MH_F32, 2},
        {2, DICT("'<f2'", "False", "(2, 3)"), 12, MH_F16, 2},
        {3, DICT("'=f8'", "False", "(3,)"), 24, MH_F64, 1},
        {1, DICT("'|b1'", "False", "()"), 1, MH_BOOL, 0},
        {1, DICT("'>i1'", "True", "(2,2,)"), 4, MH_I8, 2},
        {1, DICT("'>f8'", "False", "(2,)"), 16, MH_F64, 1},
        {1, DICT("'>u2'", "False", "(0,)"), 0, MH_U16, 1},
        {1, DICT("'<u8'", "False", "(1L, 2L)"), 16, MH_U64, 2},
        {1, DICT("'<u4'", "False", "(0, 7)"), 0, MH_U32, 2},
        {1, "{\"shape\":(1,1,1,1,1,1,1,1),\"fortran_order\":False,\"descr\":\"<i8\"}    \n", 8,
         MH_I64, 8},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        blob b = blob_npy(cases[i].major, cases[i].header, cases[i].data_size);
        mh_tensor_file *file = parse(&b);
        mh_tensor t;
        assert_true(mh_tensor_file_at(file, 0, &t));
        assert_int_equal(t.dtype, cases[i].dtype);
        assert_int_equal(t.rank, cases[i].rank);
        touch_file(file);
        mh_tensor_file_free(file);
        blob_free(&b);
    }
}

static void test_fortran_order(void **state)
{
    (void)state;
    blob b = blob_npy(1, DICT("'|u1'", "True", "(2, 3)"), 6); // columns (1, 2), (3, 4), (5, 6)
    mh_tensor_file *file = parse(&b);
    mh_tensor t;
    assert_true(mh_tensor_file_at(file, 0, &t));
    assert_int_equal(t.stride[0], 1);
    assert_int_equal(t.stride[1], 2);
    assert_int_equal(element_bits(&t, (size_t[]){1, 0}), 2);
    assert_int_equal(element_bits(&t, (size_t[]){0, 2}), 5);
    mh_tensor_file_free(file);
    blob_free(&b);
}

// The same file at eight addresses: the numbers are the same, and aligned.
static void test_misaligned(void **state)
{
    (void)state;
    blob b = blob_npy(1, DICT("'<f8'", "True", "(3, 4)"), 96);
    uint64_t first = 0;
    for (size_t shift = 0; shift < 8; shift++) {
        blob moved = blob_join("\0\0\0\0\0\0\0", shift, "", 0, b.size);
        memcpy(moved.bytes + shift, b.bytes, b.size);
        mh_tensor_file *file;
        mh_tensor t;
        test_ok(context,
                mh_tensor_file_parse(context, "x.npy", moved.bytes + shift, b.size, &file));
        assert_true(mh_tensor_file_at(file, 0, &t));
        assert_int_equal((uintptr_t)t.data % 8, 0);
        uint64_t sum = touch_file(file);
        assert_true(shift == 0 || sum == first);
        first = sum;
        mh_tensor_file_free(file);
        blob_free(&moved);
    }
    blob_free(&b);
}

// Another machine's order of bytes: the same numbers, wherever the file lies in memory.
static void test_big_endian(void **state)
{
    (void)state;
    static const struct {
        const char *header;
        mh_dtype dtype;
        uint64_t bits[2];
    } cases[] = {
        {DICT("'>u2'", "False", "(1, 2)"), MH_U16, {0x0102, 0x0304}},
        {DICT("'>f4'", "False", "(1, 2)"), MH_F32, {0x01020304, 0x05060708}},
        {DICT("'>i8'", "True", "(1, 2)"), MH_I64, {0x0102030405060708, 0x090a0b0c0d0e0f10}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (size_t shift = 0; shift < 2; shift++) {
            blob b = blob_npy(1, cases[i].header, 2 * mh_dtype_size(cases[i].dtype));
            blob moved = blob_join("\0", shift, "", 0, b.size);
            memcpy(moved.bytes + shift, b.bytes, b.size);
            mh_tensor_file *file;
            mh_tensor t;
            test_ok(context,
                    mh_tensor_file_parse(context, "x.npy", moved.bytes + shift, b.size, &file));
            assert_true(mh_tensor_file_at(file, 0, &t));
            assert_int_equal(t.dtype, cases[i].dtype);
            for (size_t j = 0; j < 2; j++)
                assert_true(element_bits(&t, (size_t[]){0, j}) == cases[i].bits[j]);
            mh_tensor_file_free(file);
            blob_free(&moved);
            blob_free(&b);
        }
}

// ---- refusals -----------------------------------------------------------------------------------

static void test_headers_refused(void **state)
{
    (void)state;
    static const struct {
        const char *header;
        size_t data_size;
        const char *word;
    } cases[] = {
        // promises: 32 GiB in 80 bytes; products that overflow, also behind a zero
        {DICT("'<f4'", "False", "(8589934592,)"), 8, "needs 34359738368 bytes"},
        {DICT("'<f4'", "False", "(4294967296, 4294967296)"), 0, "overflows"},
        {DICT("'<f4'", "False", "(4611686018427387905, 4)"), 16, "overflows"},
        {DICT("'<f8'", "False", "(1152921504606846977,)"), 8, "overflows"},
        {DICT("'<f4'", "False", "(0, 4294967296, 4294967296)"), 0, "overflows"},
        {DICT("'|u1'", "False", "(0, 9223372036854775808)"), 0, "overflows"},
        {DICT("'<f4'", "False", "(18446744073709551616,)"), 8, "fits in memory"},
        {DICT("'<f4'", "False", "(99999999999999999999999999,)"), 8, "fits in memory"},
        {DICT("'<f4'", "False", "(-1,)"), 8, "an integer >= 0"},
        {DICT("'<f4'", "False", "(2.5,)"), 8, "',' or ')'"},
        {DICT("'<f4'", "False", "(2, 3)"), 23, "needs 24 bytes of data, but the file has 23"},
        {DICT("'<f4'", "False", "(2, 3)"), 25, "needs 24 bytes of data, but the file has 25"},
        {DICT("'<f4'", "False", "()"), 0, "needs 4 bytes"},
        {DICT("'<f4'", "False", "(1,1,1,1,1,1,1,1,1)"), 4, "more than 8 dimensions"},
        {DICT("'<f4'", "False", "(4)"), 16, "not a tuple"},
        {DICT("'<f4'", "False", "(,)"), 4, "an integer"},
        {DICT("'<f4'", "False", "((2,),)"), 8, "an integer"},
        {DICT("'<f4'", "False", "[2]"), 8, "a shape such as"},
        // types
        {DICT("'|O'", "False", "(1,)"), 8, "pickled"},
        {DICT("'|f4'", "False", "(1,)"), 4, "astype('<f4')"},
        {DICT("'<c8'", "False", "(1,)"), 8, "complex"},
        {DICT("'<U3'", "False", "(1,)"), 12, "strings"},
        {DICT("'|S3'", "False", "(1,)"), 3, "strings"},
        {DICT("'<M8[ns]'", "False", "(1,)"), 8, "astype('<i8')"},
        {DICT("'|V2'", "False", "(1,)"), 2, "bfloat16"},
        {DICT("'<f16'", "False", "(1,)"), 16, "astype('<f4')"},
        {DICT("'<f3'", "False", "(1,)"), 3, "expected f2, f4, f8"},
        {DICT("''", "False", "(1,)"), 4, "dtype \"\""},
        {DICT("[('a', '<f4')]", "False", "(1,)"), 4, "structured"},
        {DICT("4", "False", "(1,)"), 4, "a dtype such as"},
        {DICT("'\x1b[2J'", "False", "(1,)"), 4, "\\x1b[2J"},
        // grammar
        {DICT("'<f4'", "0", "(1,)"), 4, "True or False"},
        {"", 4, "expected '{'"},
        {"{", 4, "a key in quotes"},
        {"{'descr", 4, "closed"},
        {"{}\n", 4, "no key \"descr\""},
        {"{'descr': '<f4', 'shape': (1,)}\n", 4, "no key \"fortran_order\""},
        {"{'descr' '<f4'}\n", 4, "expected ':'"},
        {"{'descr': '<f4' 'shape': (1,)}\n", 4, "',' or '}'"},
        {"{'descr': '<f4', 'descr': '<f4'}\n", 4, "second key \"descr\""},
        {"{'descr': '<f4', 'extra': 1}\n", 4, "unknown key \"extra\""},
        {"{'shape': (1,", 4, "header ends"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (1,)}", 4, "newline"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (1,)}\n\n", 4, "newline"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (1,)} x\n", 4, "newline"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int major = 1; major <= 3; major++)
            test_parse_refused("x.npy", blob_npy(major, cases[i].header, cases[i].data_size),
                               cases[i].word);
}

static void test_prefix_refused(void **state)
{
    (void)state;
    const char *good = DICT("'<f4'", "False", "(1,)");
    test_parse_refused("x.npy", blob_npy(0, good, 4), "version 0.0");
    test_parse_refused("x.npy", blob_npy(4, good, 4), "version 4.0");
    test_parse_refused("x.npy", blob_npy_claiming(1, 65535, good, 4),
                       "header of 65535 bytes, but the file has");
    test_parse_refused("x.npy", blob_npy_claiming(2, 0xFFFFFFFF, good, 4),
                       "header of 4294967295 bytes");
    test_parse_refused("x.npy", blob_npy_claiming(2, strlen(good) + 5, good, 4), "only");
    test_parse_refused("x.npy", blob_copy("\x93NUMPY", 6), "at least 10");
    test_parse_refused("x.npy", blob_copy("\x93NUMPY\2\0\1\0\0", 11), "at least 12");
    test_parse_refused("x.npy", blob_copy("", 0), "empty");
    test_parse_refused("x.npy", blob_copy("PK\3\4 an .npz file", 17), "the ZIP archive is damaged");
}

// ---- every cut, every bit, every allocation -----------------------------------------------------

static void test_truncated(void **state)
{
    (void)state;
    test_cuts_refused(blob_npy(1, DICT("'<f4'", "False", "(2, 3)"), 24));
}

static void test_bits_flipped(void **state)
{
    (void)state;
    test_flips_survived(blob_npy(1, DICT("'<f4'", "True", "(2, 3)"), 24));
}

static mh_status read_misaligned(void)
{
    blob b = blob_npy(1, DICT("'<f4'", "False", "(2, 3)"), 24);
    blob moved = blob_join("\0\0\0", 3, "", 0, b.size);
    mh_tensor_file *file;
    memcpy(moved.bytes + 3, b.bytes, b.size);
    mh_status status = mh_tensor_file_parse(context, "x", moved.bytes + 3, b.size, &file);
    mh_tensor_file_free(file);
    blob_free(&moved);
    blob_free(&b);
    return status;
}

static mh_status write_and_open(void)
{
    float numbers[6] = {1, 2, 3, 4, 5, 6};
    mh_tensor t = mh_tensor_swap(mh_tensor_2d(numbers, MH_F32, 2, 3), 0, 1);
    mh_tensor_file *file = NULL;
    mh_status status = mh_npy_write(context, path, &t);
    if (status == MH_OK)
        status = mh_tensor_file_open(context, path, &file);
    mh_tensor_file_free(file);
    return status;
}

static void test_no_memory(void **state)
{
    (void)state;
    test_out_of_memory(&memory, 1, read_misaligned);
    test_out_of_memory(&memory, 1, write_and_open);
}

// ---- the operating system says no ---------------------------------------------------------------

static void test_files(void **state)
{
    (void)state;
    mh_tensor_file *file;
    float number = 1;
    mh_tensor t = mh_tensor_1d(&number, MH_F32, 1);
    char missing[96];
    snprintf(missing, sizeof missing, "%s/missing/x.npy", directory);
    test_refused(context, mh_tensor_file_open(context, missing, &file), MH_ERROR_FILE, "missing");
    assert_null(file);
    assert_int_equal(mh_tensor_file_open(context, directory, &file), MH_ERROR_FILE);
    test_refused(context, mh_npy_write(context, missing, &t), MH_ERROR_FILE, "missing");
}

static mh_status write_large(void)
{
    static float numbers[200000];
    mh_tensor t = mh_tensor_swap(mh_tensor_2d(numbers, MH_F32, 400, 500), 0, 1);
    return mh_npy_write(context, path, &t);
}

static void test_disk_full(void **state)
{
    (void)state;
    test_ok(context, write_and_open());
    test_no_room(write_large);
}

static void test_arguments(void **state)
{
    (void)state;
    mh_tensor_file *file;
    float number = 1;
    mh_tensor t = mh_tensor_1d(&number, MH_F32, 1), bad = t;
    assert_int_equal(mh_tensor_file_open(NULL, path, &file), MH_ERROR_ARGUMENT);
    assert_int_equal(mh_tensor_file_open(context, NULL, &file), MH_ERROR_ARGUMENT);
    assert_int_equal(mh_tensor_file_parse(context, "x", NULL, 1, &file), MH_ERROR_ARGUMENT);
    assert_int_equal(mh_npy_write(context, NULL, &t), MH_ERROR_ARGUMENT);
    assert_int_equal(mh_npy_write(context, path, NULL), MH_ERROR_ARGUMENT);
    bad.dtype = MH_BF16;
    test_refused(context, mh_npy_write(context, path, &bad), MH_ERROR_UNSUPPORTED, "bf16");
    char far[2000]; // the message keeps its end
    memset(far, 'x', sizeof far);
    strcpy(far + sizeof far - 5, ".npy");
    test_refused(context, mh_npy_write(context, far, &bad), MH_ERROR_UNSUPPORTED,
                 "xx.npy: .npy has no type for bf16");
    bad.dtype = (mh_dtype)99;
    test_refused(context, mh_npy_write(context, path, &bad), MH_ERROR_ARGUMENT, "dtype");
    bad = t;
    bad.rank = 9;
    test_refused(context, mh_npy_write(context, path, &bad), MH_ERROR_ARGUMENT, "rank 9");
    bad.rank = -1;
    test_refused(context, mh_npy_write(context, path, &bad), MH_ERROR_ARGUMENT, "rank -1");
    bad = t;
    bad.data = NULL;
    test_refused(context, mh_npy_write(context, path, &bad), MH_ERROR_ARGUMENT, "NULL");
    bad.shape[0] = SIZE_MAX / 2;
    test_refused(context, mh_npy_write(context, path, &bad), MH_ERROR_ARGUMENT, "overflows");
    assert_int_equal(mh_tensor_file_count(NULL), 0);
    assert_false(mh_tensor_file_at(NULL, 0, &t));
    assert_false(mh_tensor_file_find(NULL, "", &t));
    assert_null(mh_tensor_file_metadata(NULL, ""));
    mh_tensor_file_free(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trips),    cmocka_unit_test(test_large_strided),
        cmocka_unit_test(test_empty),          cmocka_unit_test(test_same_as_numpy),
        cmocka_unit_test(test_accepted),       cmocka_unit_test(test_fortran_order),
        cmocka_unit_test(test_misaligned),     cmocka_unit_test(test_headers_refused),
        cmocka_unit_test(test_prefix_refused), cmocka_unit_test(test_truncated),
        cmocka_unit_test(test_bits_flipped),   cmocka_unit_test(test_no_memory),
        cmocka_unit_test(test_files),          cmocka_unit_test(test_disk_full),
        cmocka_unit_test(test_arguments),      cmocka_unit_test(test_big_endian),
    };
    return cmocka_run_group_tests(tests, set_up, parser_tear_down);
}
