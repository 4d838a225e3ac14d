// SPDX-License-Identifier: MIT
// safetensors: what is written is read back bit for bit, aligned and always as the same bytes; when
// memory or room runs out, or an argument is wrong, that is said and nothing is left behind. Files
// that are wrong: test_safetensors_refused.
#include "safetensors_support.h"

static int set_up(void **state)
{
    (void)state;
    return parser_place("x.safetensors", NULL);
}

// ---- round trips --------------------------------------------------------------------------------

static void check_read_back(const mh_named_tensor *tensors, size_t count)
{
    mh_tensor_file *file;
    mh_tensor found;
    test_ok(context, mh_tensor_file_open(context, path, &file));
    assert_int_equal(mh_tensor_file_count(file), count);
    for (size_t i = 0; i < count; i++) {
        assert_true(mh_tensor_file_find(file, tensors[i].name, &found));
        assert_int_equal((uintptr_t)found.data % mh_dtype_size(found.dtype), 0);
        same_elements(&found, &tensors[i].tensor);
    }
    assert_string_equal(mh_tensor_file_metadata(file, "maker"), "mult\"\\ihead");
    assert_string_equal(mh_tensor_file_metadata(file, ""), "");
    assert_null(mh_tensor_file_metadata(file, "format"));
    assert_false(mh_tensor_file_find(file, "nobody", &found));
    mh_tensor_file_free(file);
}

// Every dtype and rank, dense and strided, in one file.
static void test_round_trip(void **state)
{
    (void)state;
    enum { COUNT = (MH_U64 + 1) * (MH_MAX_RANK + 1) * 2 };
    static const mh_metadata metadata[] = {{"maker", "mult\"\\ihead"}, {"", ""}, {"z", "\xC3\xA9"}};
    static test_tensor owned[COUNT];
    static mh_named_tensor tensors[COUNT];
    static char names[COUNT][32];
    test_rng rng = {test_seed()};
    for (size_t i = 0; i < COUNT; i++) {
        size_t shape[MH_MAX_RANK];
        int rank = (int)(i / 2 % (MH_MAX_RANK + 1));
        mh_dtype dtype = (mh_dtype)(i / 2 / (MH_MAX_RANK + 1));
        for (int d = 0; d < rank; d++)
            shape[d] = test_between(&rng, rank > 2 ? 1 : 0, rank > 4 ? 3 : 6);
        owned[i] = i % 2 ? test_tensor_dense(dtype, rank, shape)
                         : test_tensor_random(&rng, dtype, rank, shape, true);
        for (size_t k = 0; k < owned[i].size; k++)
            owned[i].bytes[k] = (unsigned char)test_random(&rng);
        snprintf(names[i], sizeof names[i], "\xE2\x82\xAC \"\\%zu\x01", i * 7919 % COUNT);
        tensors[i] = (mh_named_tensor){names[i], owned[i].view};
    }
    test_ok(context, mh_safetensors_write(context, path, tensors, COUNT, metadata, 3));
    check_read_back(tensors, COUNT);

    blob first = blob_read(path);
    test_ok(context, mh_safetensors_write(context, path, tensors, COUNT, metadata, 3));
    blob second = blob_read(path);
    assert_int_equal(first.size, second.size);
    assert_memory_equal(first.bytes, second.bytes, first.size);
    blob_free(&first);
    blob_free(&second);
    for (size_t i = 0; i < COUNT; i++)
        test_tensor_free(&owned[i]);
}

// Widest first, in the given order within a width, padded to 8 bytes.
static void test_layout(void **state)
{
    (void)state;
    uint8_t byte = 0xB1;
    uint16_t half = 0x2221;
    uint32_t word[2] = {0x44434241, 0x48474645};
    const mh_named_tensor tensors[] = {
        {"c", mh_tensor_1d(&byte, MH_U8, 1)},
        {"b", mh_tensor_view(&half, MH_BF16, 0, NULL)},
        {"z", mh_tensor_1d(&word[0], MH_F32, 1)},
        {"a", mh_tensor_1d(&word[1], MH_I32, 1)},
    };
    const char *header = "{\"z\":" TENSOR("F32", "[1]", "0", "4") ",\"a\":"                //
        TENSOR("I32", "[1]", "4", "8") ",\"b\":" TENSOR("BF16", "[]", "8", "10") ",\"c\":" //
        TENSOR("U8", "[1]", "10", "11") "}";
    size_t padded = (strlen(header) + 7) / 8 * 8;
    test_ok(context, mh_safetensors_write(context, path, tensors, 4, NULL, 0));
    blob found = blob_read(path);
    assert_int_equal(found.size, 8 + padded + 11);
    assert_int_equal(found.bytes[0] + 256 * found.bytes[1], padded);
    assert_memory_equal(found.bytes + 8, header, strlen(header));
    for (size_t i = 8 + strlen(header); i < 8 + padded; i++)
        assert_int_equal(found.bytes[i], ' ');
    assert_memory_equal(found.bytes + 8 + padded, "ABCDEFGH!\"\xB1", 11);
    blob_free(&found);
}

static void test_no_tensors(void **state)
{
    (void)state;
    mh_tensor_file *file;
    test_ok(context, mh_safetensors_write(context, path, NULL, 0, NULL, 0));
    test_ok(context, mh_tensor_file_open(context, path, &file));
    assert_int_equal(mh_tensor_file_count(file), 0);
    assert_null(mh_tensor_file_name(file, 0));
    mh_tensor_file_free(file);
}

static void test_many_tensors(void **state)
{
    (void)state;
    enum { COUNT = 50000 };
    static char names[COUNT][16];
    static int32_t numbers[COUNT];
    static mh_named_tensor tensors[COUNT];
    for (size_t i = 0; i < COUNT; i++) {
        numbers[i] = (int32_t)i;
        snprintf(names[i], sizeof names[i], "t%zu", i * 7919 % COUNT);
        tensors[i] = (mh_named_tensor){names[i], mh_tensor_1d(&numbers[i], MH_I32, 1)};
    }
    mh_tensor_file *file;
    mh_tensor found;
    test_ok(context, mh_safetensors_write(context, path, tensors, COUNT, NULL, 0));
    test_ok(context, mh_tensor_file_open(context, path, &file));
    for (size_t i = 0; i < COUNT; i++) {
        assert_string_equal(mh_tensor_file_name(file, i), names[i]);
        assert_true(mh_tensor_file_find(file, names[i], &found));
        assert_int_equal(*(int32_t *)found.data, i);
    }
    mh_tensor_file_free(file);
}

// ---- reading ------------------------------------------------------------------------------------

// Tensors come in the order of the data, whatever the header's.
static void test_data_order(void **state)
{
    (void)state;
    blob b = blob_safetensors("{\"late\":" TENSOR("U8", "[2]", "1", "3") //
                              ",\"empty\":" TENSOR("F64", "[0,5]", "1", "1") ",\"early\":" TENSOR(
                                  "BOOL", "[]", "0", "1") "}",
                              3);
    mh_tensor_file *file;
    mh_tensor t;
    test_ok(context, mh_tensor_file_parse(context, "x", b.bytes, b.size, &file));
    assert_string_equal(mh_tensor_file_name(file, 0), "early");
    assert_string_equal(mh_tensor_file_name(file, 1), "empty");
    assert_string_equal(mh_tensor_file_name(file, 2), "late");
    assert_true(mh_tensor_file_find(file, "empty", &t));
    assert_non_null(t.data);
    assert_int_equal((uintptr_t)t.data % 8, 0);
    touch_file(file);
    mh_tensor_file_free(file);
    blob_free(&b);
}

// The same file with headers of eight lengths: the numbers are the same, and aligned.
static void test_misaligned(void **state)
{
    (void)state;
    uint64_t first = 0;
    char header[512];
    for (int spaces = 0; spaces < 8; spaces++) {
        snprintf(header, sizeof header, "{\"a\":%s,\"b\":%s,\"c\":%s}%*s",
                 TENSOR("U8", "[3]", "0", "3"), TENSOR("F64", "[2]", "3", "19"),
                 TENSOR("I16", "[2,2]", "19", "27"), spaces, "");
        blob b = blob_safetensors(header, 27);
        mh_tensor_file *file;
        mh_tensor t;
        test_ok(context, mh_tensor_file_parse(context, "x", b.bytes, b.size, &file));
        for (size_t i = 0; i < 3; i++) {
            assert_true(mh_tensor_file_at(file, i, &t));
            assert_int_equal((uintptr_t)t.data % mh_dtype_size(t.dtype), 0);
        }
        uint64_t sum = touch_file(file);
        assert_true(spaces == 0 || sum == first);
        first = sum;
        mh_tensor_file_free(file);
        blob_free(&b);
    }
}

// ---- no memory, no room -------------------------------------------------------------------------

// jansson 2.14 may lose bytes of a long string when memory runs out: that must not go unnoticed.
static mh_status read_misaligned(void)
{
    blob b = blob_safetensors(
        "{\"__metadata__\":{\"\\u20AC and more than sixteen bytes\":\"also long \\uD83D\\ude00\"},"
        "\"encoder.layers.11.self_attn.\\u00e9\\n\":" TENSOR(
            "F64", "[]", "1", "9") ","
                                   "\"early\":" TENSOR("U8", "[1]", "0", "1") "}",
        9);
    mh_tensor_file *file;
    mh_tensor t;
    mh_status status = mh_tensor_file_parse(context, "x", b.bytes, b.size, &file);
    if (status == MH_OK) {
        assert_true(mh_tensor_file_find(file, "encoder.layers.11.self_attn.\xC3\xA9\n", &t));
        assert_string_equal(
            mh_tensor_file_metadata(file, "\xE2\x82\xAC and more than sixteen bytes"),
            "also long \xF0\x9F\x98\x80");
    }
    mh_tensor_file_free(file);
    blob_free(&b);
    return status;
}

static mh_status write_and_open(void)
{
    float numbers[6] = {1, 2, 3, 4, 5, 6};
    const mh_named_tensor tensors[] = {
        {"a", mh_tensor_swap(mh_tensor_2d(numbers, MH_F32, 2, 3), 0, 1)},
        {"b", mh_tensor_1d(numbers, MH_F64, 3)}};
    const mh_metadata metadata = {"key", "value"};
    mh_tensor_file *file = NULL;
    mh_status status = mh_safetensors_write(context, path, tensors, 2, &metadata, 1);
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
    test_out_of_memory(&json_memory, 1, read_misaligned);
    test_out_of_memory(&json_memory, 1, write_and_open);
}

static mh_status write_large(void)
{
    static float numbers[200000];
    const mh_named_tensor large = {"x",
                                   mh_tensor_swap(mh_tensor_2d(numbers, MH_F32, 400, 500), 0, 1)};
    return mh_safetensors_write(context, path, &large, 1, NULL, 0);
}

static void test_disk_full(void **state)
{
    (void)state;
    test_ok(context, write_and_open());
    test_no_room(write_large);
}

// ---- arguments of the writer --------------------------------------------------------------------

static void check_write_refused(const char *first, const char *second, const char *word)
{
    float number = 1;
    const mh_tensor t = mh_tensor_1d(&number, MH_F32, 1);
    const mh_named_tensor tensors[] = {{first, t}, {second, t}};
    mh_status status = mh_safetensors_write(context, path, tensors, 2, NULL, 0);
    test_refused(context, status, MH_ERROR_ARGUMENT, word);
    test_refused(context, status, MH_ERROR_ARGUMENT, "x.safetensors: ");
}

static void test_names_refused(void **state)
{
    (void)state;
    static const char *const bad_utf8[] = {
        "\xff",         "\x80",     "\xC0\x80",         "\xC3",
        "\xE0\x80\x80", "\xE2\x82", "\xED\xA0\x80",     "\xF0\x80\x80\x80",
        "\xF0\x9F\x98", "a\xC3z",   "\xF4\x90\x80\x80", "\xF5\x80\x80\x80"};
    char name[4098];
    for (size_t i = 0; i < sizeof bad_utf8 / sizeof *bad_utf8; i++)
        check_write_refused("a", bad_utf8[i], "not valid UTF-8");
    check_write_refused("a", "a", "two tensors are called \"a\"");
    check_write_refused("a", NULL, "tensor name is NULL");
    check_write_refused("__metadata__", "a", "__metadata__");
    memset(name, 'n', sizeof name);
    name[4097] = '\0';
    check_write_refused(name, "a", "name of 4097 bytes");
}

static void test_arguments(void **state)
{
    (void)state;
    float number = 1;
    mh_named_tensor t = {"t", mh_tensor_1d(&number, MH_F32, 1)}, bad = t;
    const mh_metadata twice[] = {{"k", "1"}, {"k", "2"}}, broken = {"k", "\xff"},
                      none = {"k", NULL};
    assert_int_equal(mh_safetensors_write(NULL, path, &t, 1, NULL, 0), MH_ERROR_ARGUMENT);
    assert_int_equal(mh_safetensors_write(context, NULL, &t, 1, NULL, 0), MH_ERROR_ARGUMENT);
    test_refused(context, mh_safetensors_write(context, path, NULL, 1, NULL, 0), MH_ERROR_ARGUMENT,
                 "tensors is NULL");
    test_refused(context, mh_safetensors_write(context, path, &t, 1, NULL, 1), MH_ERROR_ARGUMENT,
                 "metadata is NULL");
    test_refused(context, mh_safetensors_write(context, path, NULL, 0, NULL, 1), MH_ERROR_ARGUMENT,
                 "metadata is NULL");
    test_refused(context, mh_safetensors_write(context, path, &t, 1, twice, 2), MH_ERROR_ARGUMENT,
                 "duplicate metadata key \"k\"");
    test_refused(context, mh_safetensors_write(context, path, &t, 1, &broken, 1), MH_ERROR_ARGUMENT,
                 "metadata value \"\\xff\" is not valid UTF-8");
    test_refused(context, mh_safetensors_write(context, path, &t, 1, &none, 1), MH_ERROR_ARGUMENT,
                 "metadata value is NULL");
    bad.tensor.dtype = (mh_dtype)99;
    test_refused(context, mh_safetensors_write(context, path, &bad, 1, NULL, 0), MH_ERROR_ARGUMENT,
                 "dtype");
    bad = t;
    bad.tensor.rank = -1;
    test_refused(context, mh_safetensors_write(context, path, &bad, 1, NULL, 0), MH_ERROR_ARGUMENT,
                 "rank -1");
    bad = t;
    bad.tensor.data = NULL;
    test_refused(context, mh_safetensors_write(context, path, &bad, 1, NULL, 0), MH_ERROR_ARGUMENT,
                 "NULL");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trip),    cmocka_unit_test(test_layout),
        cmocka_unit_test(test_no_tensors),    cmocka_unit_test(test_many_tensors),
        cmocka_unit_test(test_data_order),    cmocka_unit_test(test_misaligned),

        cmocka_unit_test(test_no_memory),     cmocka_unit_test(test_disk_full),
        cmocka_unit_test(test_names_refused), cmocka_unit_test(test_arguments),
    };
    return cmocka_run_group_tests(tests, set_up, parser_tear_down);
}
