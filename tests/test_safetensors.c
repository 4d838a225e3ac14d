// SPDX-License-Identifier: MIT
// safetensors: what is written is read back bit for bit, aligned and always as the same bytes; what
// is wrong is refused with the right words. The hostile files are put together here: each is a
// kind of bug that some reader of model files has had.

#include "parser_support.h"

#include <jansson.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

static mh_context *context;
static scarce memory;      // the context's
static scarce json_memory; // jansson's
static char folder[] = "/tmp/mh_test_safetensors_XXXXXX";
static char path[64];

static void *json_alloc(size_t size) { return scarce_fails(&json_memory) ? NULL : malloc(size); }

static int set_up(void **state)
{
    (void)state;
    mh_context_options options = scarce_options(&memory);
    json_set_alloc_funcs(json_alloc, free); // for the tests only: it is global
    if (mkdtemp(folder) == NULL || mh_context_create(&options, &context, NULL, 0) != MH_OK)
        return -1;
    snprintf(path, sizeof path, "%s/x.safetensors", folder);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    mh_context_free(context);
    unlink(path);
    return rmdir(folder); // fails if a temporary file was left behind
}

#define TENSOR(dtype, shape, begin, end)                                                           \
    "{\"dtype\":\"" dtype "\",\"shape\":" shape ",\"data_offsets\":[" begin "," end "]}"

static const char *const good =
    "{\"__metadata__\":{\"format\":\"pt\"},"
    "\"b\":" TENSOR("F32", "[2,3]", "0", "24") ","
                                               "\"a\":" TENSOR("I16", "[3]", "24", "30") "}";

// ---- round trips ------------------------------------------------------------------------

static void check_same(const mh_tensor *found, const mh_tensor *expected)
{
    size_t index[MH_MAX_RANK] = {0};
    assert_int_equal(found->dtype, expected->dtype);
    assert_true(mh_tensor_same_shape(found, expected));
    if (mh_tensor_count(expected) != 0)
        do {
            uint64_t a = element_bits(found, index), b = element_bits(expected, index);
            if (expected->dtype == MH_BOOL)
                b = b != 0;
            assert_int_equal(a, b);
        } while (next_index(expected, index));
}

static void check_read_back(const mh_named_tensor *tensors, size_t count)
{
    mh_tensor_file *file;
    mh_tensor found;
    test_ok(context, mh_tensor_file_open(context, path, &file));
    assert_int_equal(mh_tensor_file_count(file), count);
    for (size_t i = 0; i < count; i++) {
        assert_true(mh_tensor_file_find(file, tensors[i].name, &found));
        assert_int_equal((uintptr_t)found.data % mh_dtype_size(found.dtype), 0);
        check_same(&found, &tensors[i].tensor);
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

// ---- reading ----------------------------------------------------------------------------

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

// ---- refusals ---------------------------------------------------------------------------

#define ONE(dtype, shape, begin, end) "{\"w\":" TENSOR(dtype, shape, begin, end) "}"
#define TWO(begin1, end1, begin2, end2)                                                            \
    "{\"v\":" TENSOR("U8", "[4]", begin1, end1) ",\"w\":" TENSOR("U8", "[4]", begin2, end2) "}"

static void test_headers_refused(void **state)
{
    (void)state;
    static const struct {
        const char *header;
        size_t data_size;
        const char *word;
    } cases[] = {
        // promises: more than the file has, products that overflow, also behind a zero
        {ONE("F32", "[1024]", "0", "4096"), 1024,
         "tensor \"w\": data ends at byte 4096, but the file has only 1024 data bytes"},
        {ONE("F32", "[4]", "0", "9223372036854775807"), 16,
         "data ends at byte 9223372036854775807"},
        {ONE("F32", "[4294967296,4294967296]", "0", "0"), 0, "overflows"},
        {ONE("F32", "[4611686018427387905,4]", "0", "16"), 16, "overflows"},
        {ONE("F32", "[0,4294967296,4294967296]", "0", "0"), 0, "overflows"},
        {ONE("F64", "[9223372036854775807]", "0", "8"), 8, "overflows"},
        {ONE("F32", "[8589934592]", "0", "8"), 8, "needs 34359738368 bytes"},
        {ONE("F32", "[18446744073709551616]", "0", "8"), 8, "too big integer"},
        {ONE("F32", "[2,3]", "0", "20"), 20, "f32 (2, 3) needs 24 bytes, but data_offsets [0, 20]"},
        {ONE("F32", "[4294967298]", "0", "8"), 8, "needs"}, // 2 when cut to 32 bits
        // negative and broken numbers
        {ONE("F32", "[-1]", "0", "4"), 4, "shape has -1, expected no negative numbers"},
        {ONE("F32", "[-2,-2]", "0", "16"), 16, "negative"},
        {ONE("F32", "[1]", "-4", "0"), 4, "data_offsets has -4"},
        {ONE("F32", "[1.0]", "0", "4"), 4, "shape is a fraction, expected integers"},
        {ONE("F32", "[1e0]", "0", "4"), 4, "a fraction"},
        {ONE("F32", "[\"1\"]", "0", "4"), 4, "a string, expected integers"},
        {ONE("F32", "[1]", "0", "4.0"), 4, "a fraction"},
        {ONE("F32", "[1]", "4", "0"), 4, "begins at byte 4 and ends before it, at byte 0"},
        // shapes
        {ONE("F32", "[1,1,1,1,1,1,1,1,1]", "0", "4"), 4, "9 dimensions, expected at most 8"},
        {ONE("F32", "4", "0", "4"), 4, "shape is an integer, expected a list"},
        {ONE("F32", "null", "0", "4"), 4, "null"},
        {ONE("F32", "[[1]]", "0", "4"), 4, "nesting"},
        {ONE("F32", "[1]", "0,4", "4"), 4, "a list of two integers"},
        // types
        {ONE("F8_E4M3", "[4]", "0", "4"), 4, "dtype \"F8_E4M3\" is not supported"},
        {ONE("C64", "[1]", "0", "8"), 8, "dtype \"C64\" is not supported"},
        {ONE("f32", "[1]", "0", "4"), 4, "dtype \"f32\""},
        {ONE("", "[1]", "0", "4"), 4, "dtype \"\""},
        {ONE("\\u001b[2J", "[1]", "0", "4"), 4, "dtype \"\\x1b[2J\""},
        {"{\"w\":{\"dtype\":4,\"shape\":[1],\"data_offsets\":[0,4]}}", 4, "dtype is an integer"},
        // members
        {"{\"w\":{\"shape\":[1],\"data_offsets\":[0,4]}}", 4, "dtype is missing"},
        {"{\"w\":{\"dtype\":\"F32\",\"data_offsets\":[0,4]}}", 4, "shape is missing"},
        {"{\"w\":{\"dtype\":\"F32\",\"shape\":[1]}}", 4, "data_offsets is missing"},
        {"{\"w\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4],\"x\":1}}", 4,
         "4 members"},
        {"{\"w\":[]}", 0, "tensor \"w\": found a list, expected an object"},
        {"{\"w\":null}", 0, "expected an object"},
        {"{\"w\":{}}", 0, "dtype is missing"},
        // holes, overlaps, rests
        {TWO("0", "4", "5", "9"), 9,
         "data begins at byte 5, but the data before it ends at byte 4: a hole"},
        {TWO("0", "4", "3", "7"), 7, "an overlap"},
        {TWO("0", "4", "0", "4"), 4, "an overlap"},
        {TWO("1", "5", "5", "9"), 9, "begins at byte 1"},
        {TWO("0", "4", "4", "8"), 9, "the tensors end at byte 8, but the file has 9 data bytes"},
        {"{}", 1, "end at byte 0"},
        {"{\"v\":" TENSOR("U8", "[4]", "0", "4") ",\"w\":" TENSOR("U8", "[0]", "2", "2") "}", 4,
         "an overlap"},
        // duplicates and names
        {"{\"w\":" TENSOR("U8", "[1]", "0", "1") ",\"w\":" TENSOR("U8", "[1]", "1", "2") "}", 2,
         "duplicate"},
        {"{\"w\":" TENSOR("U8", "[1]", "0", "1") ",\"\\u0077\":" TENSOR("U8", "[1]", "1", "2") "}",
         2, "duplicate"},
        {"{\"w\":{\"dtype\":\"U8\",\"dtype\":\"U8\",\"shape\":[],\"data_offsets\":[0,1]}}", 1,
         "duplicate"},
        {"{\"w\\u0000x\":" TENSOR("U8", "[1]", "0", "1") "}", 1, "u0000"},
        {"{\"\xff\":" TENSOR("U8", "[1]", "0", "1") "}", 1, "not valid JSON"},
        {"{\"\\ud800\":" TENSOR("U8", "[1]", "0", "1") "}", 1, "not valid JSON"},
        // metadata
        {"{\"__metadata__\":[]}", 0, "__metadata__ is not an object"},
        {"{\"__metadata__\":null}", 0, "__metadata__ is not an object"},
        {"{\"__metadata__\":{\"a\":1}}", 0, "__metadata__: the value of \"a\" is not a string"},
        {"{\"__metadata__\":{\"a\":{}}}", 0, "not a string"},
        {"{\"__metadata__\":{\"a\":\"\",\"a\":\"\"}}", 0, "duplicate"},
        // JSON
        {"", 0, "does not start with '{'"},
        {" {}", 0, "does not start with '{'"},
        {"[]", 0, "does not start with '{'"},
        {"{", 0, "not valid JSON"},
        {"{}{}", 0, "not valid JSON"},
        {"{\"w", 0, "not valid JSON"},
        {"{\"w\\", 0, "not valid JSON"},
        {"{} \x01", 0, "not valid JSON"},
        {"{'w':1}", 0, "not valid JSON"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        test_parse_refused(context, &memory, "w.safetensors",
                           blob_safetensors(cases[i].header, cases[i].data_size), cases[i].word);
}

static void test_prefix_refused(void **state)
{
    (void)state;
    test_parse_refused(context, &memory, "w.safetensors",
                       blob_safetensors_claiming(UINT64_MAX, good, 30),
                       "header of 18446744073709551615 bytes, expected at most 100000000");
    test_parse_refused(context, &memory, "w.safetensors",
                       blob_safetensors_claiming(100000001, good, 30), "at most 100000000");
    test_parse_refused(context, &memory, "w.safetensors",
                       blob_safetensors_claiming(100000000, good, 30), "but the file has only");
    test_parse_refused(context, &memory, "w.safetensors",
                       blob_safetensors_claiming(UINT64_C(1) << 32 | strlen(good), good, 30),
                       "at most");
    test_parse_refused(context, &memory, "w.safetensors",
                       blob_safetensors_claiming(strlen(good) + 31, good, 30),
                       "but the file has only");
    test_parse_refused(context, &memory, "w.safetensors", blob_safetensors_claiming(0, "{}", 0),
                       "does not start with '{'");
    test_parse_refused(context, &memory, "w.safetensors", blob_copy("1234567", 7),
                       "neither .npy nor .safetensors");
}

// A header made of `count` times `piece` between a beginning and an end.
static blob repeated(const char *begin, const char *piece, size_t count, const char *end)
{
    size_t length = strlen(piece), used = strlen(begin);
    char *header = malloc(used + length * count + strlen(end) + 1);
    assert_non_null(header);
    memcpy(header, begin, used);
    for (size_t i = 0; i < count; i++, used += length)
        memcpy(header + used, piece, length);
    strcpy(header + used, end);
    blob b = blob_safetensors(header, 1);
    free(header);
    return b;
}

static void test_limits(void **state)
{
    (void)state;
    test_parse_refused(context, &memory, "w.safetensors", repeated("{\"w\":", "[", 1000000, "}"),
                       "nesting deeper than 3");
    test_parse_refused(context, &memory, "w.safetensors",
                       repeated("{\"w\":", "{\"w\":", 1000000, ""), "nesting deeper than 3");
    test_parse_refused(context, &memory, "w.safetensors",
                       repeated("{\"w\":[0", ",0", 1000013, "]}"), "header of 1000015 values");
    test_parse_refused(context, &memory, "w.safetensors",
                       repeated("{\"__metadata__\":{", "\"\":[],", 600000, "}}"), "values");
    test_parse_refused(context, &memory, "w.safetensors",
                       repeated("{\"", "n", 4097, "\":" TENSOR("U8", "[1]", "0", "1") "}"),
                       "name of 4097 bytes, expected at most 4096");
    // brackets in strings do not count
    blob b = repeated("{\"w", "[{,\\\"\\\\", 500, "\":" TENSOR("U8", "[1]", "0", "1") "}");
    mh_tensor_file *file;
    test_ok(context, mh_tensor_file_parse(context, "x", b.bytes, b.size, &file));
    mh_tensor_file_free(file);
    blob_free(&b);
}

static void test_too_many_tensors(void **state)
{
    (void)state;
    const size_t count = 1000002, piece = strlen("\"1234567\":{},");
    char *header = malloc(1 + count * piece + 1);
    assert_non_null(header);
    header[0] = '{';
    for (size_t i = 0; i < count; i++)
        sprintf(header + 1 + i * piece, "\"%07zu\":{},", i);
    header[count * piece] = '}';
    test_parse_refused(context, &memory, "w.safetensors", blob_safetensors(header, 0),
                       "expected at most 1000000 tensors");
    free(header);
}

// A message is never cut before its point, however long the names are.
static void test_long_names(void **state)
{
    (void)state;
    char name[3000];
    memset(name, 'p', sizeof name);
    name[sizeof name - 1] = '\0';
    blob b = repeated("{\"", "\\u001f", 600, "\":" TENSOR("F32", "[9]", "0", "36") "}");
    mh_tensor_file *file;
    mh_status status = mh_tensor_file_parse(context, name, b.bytes, b.size, &file);
    test_refused(context, status, MH_ERROR_FORMAT, "\\x1f...\": data ends at byte 36");
    assert_null(strchr(mh_error_message(context), '\x1f'));
    blob_free(&b);
}

// ---- every cut, every bit, every allocation ----------------------------------------------

static void test_truncated(void **state)
{
    (void)state;
    blob b = blob_safetensors(good, 30);
    for (size_t size = 0; size < b.size; size++) {
        blob cut = blob_copy(b.bytes, size);
        mh_tensor_file *file;
        assert_int_equal(mh_tensor_file_parse(context, "x", cut.bytes, size, &file),
                         MH_ERROR_FORMAT);
        blob_free(&cut);
    }
    blob_free(&b);
}

static void test_bits_flipped(void **state)
{
    (void)state;
    blob b = blob_safetensors(good, 30);
    for (size_t bit = 0; bit < 8 * b.size; bit++) {
        mh_tensor_file *file;
        b.bytes[bit / 8] ^= (unsigned char)(1 << bit % 8);
        if (mh_tensor_file_parse(context, "x", b.bytes, b.size, &file) == MH_OK)
            touch_file(file);
        mh_tensor_file_free(file);
        b.bytes[bit / 8] ^= (unsigned char)(1 << bit % 8);
    }
    blob_free(&b);
}

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
    test_out_of_memory(context, &memory, &memory, 1, read_misaligned);
    test_out_of_memory(context, &memory, &memory, 1, write_and_open);
    test_out_of_memory(context, &memory, &json_memory, 1, read_misaligned);
    test_out_of_memory(context, &memory, &json_memory, 1, write_and_open);
}

// ---- the operating system says no --------------------------------------------------------

// A write that fails half-way leaves the old file, and only that.
static void test_disk_full(void **state)
{
    (void)state;
    static float numbers[200000];
    struct rlimit old, small;
    test_ok(context, write_and_open());
    blob before = blob_read(path);

    mh_named_tensor large = {"x", mh_tensor_swap(mh_tensor_2d(numbers, MH_F32, 400, 500), 0, 1)};
    void (*handler)(int) = signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &old);
    small = (struct rlimit){100000, old.rlim_max};
    setrlimit(RLIMIT_FSIZE, &small);
    mh_status status = mh_safetensors_write(context, path, &large, 1, NULL, 0);
    setrlimit(RLIMIT_FSIZE, &old);
    signal(SIGXFSZ, handler);

    test_refused(context, status, MH_ERROR_FILE, "x.safetensors");
    blob after = blob_read(path);
    assert_int_equal(after.size, before.size);
    assert_memory_equal(after.bytes, before.bytes, before.size);
    blob_free(&before);
    blob_free(&after);
}

// ---- arguments of the writer -------------------------------------------------------------

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
    assert_int_equal(mh_safetensors_write(context, path, NULL, 1, NULL, 0), MH_ERROR_ARGUMENT);
    assert_int_equal(mh_safetensors_write(context, path, &t, 1, NULL, 1), MH_ERROR_ARGUMENT);
    test_refused(context, mh_safetensors_write(context, path, &t, 1, twice, 2), MH_ERROR_ARGUMENT,
                 "two metadata keys \"k\"");
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
        cmocka_unit_test(test_round_trip),      cmocka_unit_test(test_layout),
        cmocka_unit_test(test_no_tensors),      cmocka_unit_test(test_many_tensors),
        cmocka_unit_test(test_data_order),      cmocka_unit_test(test_misaligned),
        cmocka_unit_test(test_headers_refused), cmocka_unit_test(test_prefix_refused),
        cmocka_unit_test(test_limits),          cmocka_unit_test(test_too_many_tensors),
        cmocka_unit_test(test_long_names),      cmocka_unit_test(test_truncated),
        cmocka_unit_test(test_bits_flipped),    cmocka_unit_test(test_no_memory),
        cmocka_unit_test(test_disk_full),       cmocka_unit_test(test_names_refused),
        cmocka_unit_test(test_arguments),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
