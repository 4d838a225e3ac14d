// SPDX-License-Identifier: MIT
// GGUF files: tensors of every type bit for bit as the `gguf` package dequantises them
// (tests/goldens/make_gguf.py), metadata, and files that lie.
#include "gguf_support.h"
#include "parser_support.h"

#define BLOCKS MH_GOLDENS "/gguf/blocks.gguf"

static mh_tensor_file *open_gguf(const char *name)
{
    mh_tensor_file *file;
    test_ok(context, mh_tensor_file_open(context, name, &file));
    return file;
}

// ---- goldens ------------------------------------------------------------------------------------

static void test_blocks(void **state)
{
    (void)state;
    mh_tensor_file *file = open_gguf(BLOCKS);
    mh_tensor_file *golden = open_gguf(MH_GOLDENS "/gguf/blocks_expected.safetensors");
    assert_int_equal(mh_tensor_file_count(file), 28);
    assert_int_equal(mh_tensor_file_count(golden), 28);
    for (size_t i = 0; i < mh_tensor_file_count(file); i++) {
        float values[2048];
        mh_tensor expected, found;
        const char *name = mh_tensor_file_name(file, i);
        assert_true(mh_tensor_file_find(golden, name, &expected));
        assert_true(mh_tensor_file_describe(file, i, &found));
        assert_null(found.data);
        mh_tensor to = mh_tensor_view(values, MH_F32, found.rank, found.shape);
        test_ok(context, mh_tensor_file_read(context, file, i, &to));
        same_elements(&to, &expected);
    }
    mh_tensor_file_free(file);
    mh_tensor_file_free(golden);
}

// Transposed, as bf16, and row by row: the same values.
static void test_reads(void **state)
{
    (void)state;
    static const char *const names[] = {"q4_1", "q6_k", "q8_0", "q3_k", "bf16"};
    mh_tensor_file *file = open_gguf(BLOCKS);
    for (size_t n = 0; n < sizeof names / sizeof *names; n++) {
        float whole[1536], turned[1536], some[1536];
        uint16_t halves[1536], expected_halves[1536];
        size_t i;
        mh_tensor t, view;
        assert_true(mh_tensor_file_index(file, names[n], &i));
        assert_true(mh_tensor_file_describe(file, i, &t));
        const size_t columns = t.shape[1];
        mh_tensor a = mh_tensor_2d(whole, MH_F32, 3, columns);
        mh_tensor b = mh_tensor_swap(mh_tensor_2d(turned, MH_F32, columns, 3), 0, 1);
        mh_tensor h = mh_tensor_2d(halves, MH_BF16, 3, columns);
        mh_tensor e = mh_tensor_2d(expected_halves, MH_BF16, 3, columns);
        test_ok(context, mh_tensor_file_read(context, file, i, &a));
        test_ok(context, mh_tensor_file_read(context, file, i, &b));
        test_ok(context, mh_tensor_file_read(context, file, i, &h));
        test_ok(context, mh_tensor_copy(context, &a, &e));
        same_elements(&b, &a);
        same_elements(&h, &e);
        const int32_t rows[] = {2, 0, 2};
        mh_tensor r = mh_tensor_2d(some, MH_F32, 3, columns);
        test_ok(context, mh_tensor_file_read_rows(context, file, i, rows, 3, &r));
        for (size_t k = 0; k < 3; k++)
            assert_memory_equal(some + k * columns, whole + (size_t)rows[k] * columns,
                                columns * sizeof(float));
        assert_true(mh_tensor_file_at(file, i, &view) == (strcmp(names[n], "bf16") == 0));
    }
    mh_tensor_file_free(file);
}

static void test_read_errors(void **state)
{
    (void)state;
    mh_tensor_file *file = open_gguf(BLOCKS);
    float values[192];
    int32_t integers[192], rows[] = {0, 3};
    size_t i;
    assert_true(mh_tensor_file_index(file, "q4_1", &i));
    mh_tensor whole = mh_tensor_2d(integers, MH_I32, 3, 64);
    test_refused(context, mh_tensor_file_read(context, file, i, &whole), MH_ERROR_UNSUPPORTED,
                 "Q4_1");
    mh_tensor two = mh_tensor_2d(values, MH_F32, 2, 64),
              narrow = mh_tensor_2d(values, MH_F32, 2, 8);
    test_refused(context, mh_tensor_file_read_rows(context, file, i, rows, 2, &two),
                 MH_ERROR_ARGUMENT, "rows[1]: found 3, expected 0 to 2");
    rows[1] = -1;
    test_refused(context, mh_tensor_file_read_rows(context, file, i, rows, 2, &two),
                 MH_ERROR_ARGUMENT, "rows[1]: found -1");
    test_refused(context, mh_tensor_file_read_rows(context, file, i, rows, 2, &narrow),
                 MH_ERROR_ARGUMENT, "to: found");
    test_refused(context, mh_tensor_file_read_rows(context, file, 99, rows, 2, &two),
                 MH_ERROR_ARGUMENT, "i: found 99");
    mh_tensor_file_free(file);
}

// All threads write their own rows.
static void test_threads(void **state)
{
    (void)state;
    enum { ROWS = 3000, COLUMNS = 64 };
    mh_context *threads = test_context(NULL, 4);
    blob b = gguf_begin(3, 1, 0);
    mh_tensor_file *file;
    gguf_tensor(&b, "w", COLUMNS, ROWS, TENSOR_Q4_1, 0);
    gguf_data(&b, 32, ROWS * COLUMNS / 32 * 20);
    float *one = malloc(ROWS * COLUMNS * sizeof *one),
          *four = malloc(ROWS * COLUMNS * sizeof *four);
    mh_tensor x = mh_tensor_2d(one, MH_F32, ROWS, COLUMNS), y = x;
    y.data = four;
    test_ok(context, mh_tensor_file_parse(context, "x", b.bytes, b.size, &file));
    test_ok(context, mh_tensor_file_read(context, file, 0, &x));
    test_ok(threads, mh_tensor_file_read(threads, file, 0, &y));
    assert_memory_equal(one, four, ROWS * COLUMNS * sizeof *one);
    mh_tensor_file_free(file);
    mh_context_free(threads);
    free(one);
    free(four);
    blob_free(&b);
}

// ---- metadata -----------------------------------------------------------------------------------

static void test_metadata(void **state)
{
    (void)state;
    static const struct {
        const char *key, *value;
    } pairs[] = {
        {"general.architecture", "test"},
        {"t.u8", "255"},
        {"t.i8", "-128"},
        {"t.u16", "65535"},
        {"t.i16", "-32768"},
        {"t.u32", "4294967295"},
        {"t.i32", "-2147483648"},
        {"t.u64", "18446744073709551615"},
        {"t.i64", "-9223372036854775808"},
        {"t.f32", "1e-05"},
        {"t.f64", "0.1"},
        {"t.bool", "true"},
        {"t.string", "caf\xC3\xA9\n"},
        {"t.strings", "3 strings"},
        {"t.numbers", "[1, -2, 3]"},
        {"t.many", "10 i32"},
        {"t.bools", "[true, false]"},
    };
    mh_tensor_file *file = open_gguf(BLOCKS);
    mh_metadata pair;
    size_t count = 0;
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        const char *value = mh_tensor_file_metadata(file, pairs[i].key);
        assert_non_null(value);
        assert_string_equal(value, pairs[i].value);
    }
    for (; mh_tensor_file_metadata_at(file, count, &pair); count++)
        assert_string_equal(mh_tensor_file_metadata(file, pair.key), pair.value);
    assert_int_equal(count, sizeof pairs / sizeof *pairs);
    assert_null(mh_tensor_file_metadata(file, "t.u9"));
    mh_tensor_file_free(file);
}

static void test_stored(void **state)
{
    (void)state;
    mh_tensor_file *file = open_gguf(BLOCKS);
    mh_stored_tensor stored;
    size_t i;
    assert_true(mh_tensor_file_index(file, "q4_k", &i));
    assert_true(mh_tensor_file_stored(file, i, &stored));
    assert_string_equal(stored.type, "Q4_K");
    assert_int_equal(stored.block_values, 256);
    assert_int_equal(stored.block_bytes, 144);
    assert_int_equal(stored.size, 6 * 144);
    assert_true(mh_tensor_file_index(file, "f16", &i));
    assert_true(mh_tensor_file_stored(file, i, &stored));
    assert_string_equal(stored.type, "f16");
    assert_int_equal(stored.size, 60);
    assert_false(mh_tensor_file_stored(file, 28, &stored));
    mh_tensor_file_free(file);
}

static void test_versions(void **state)
{
    (void)state;
    for (uint32_t version = 2; version <= 3; version++) {
        blob b = gguf_sample(version);
        mh_tensor_file *file;
        test_ok(context, mh_tensor_file_parse(context, "x", b.bytes, b.size, &file));
        assert_int_equal(mh_tensor_file_count(file), 2);
        assert_string_equal(mh_tensor_file_metadata(file, "eps"), "0.5");
        touch_file(file);
        mh_tensor_file_free(file);
        blob_free(&b);
    }
}

// ---- files that lie -----------------------------------------------------------------------------

static void refuse(blob b, const char *word) { test_parse_refused("x.gguf", gguf_end(b), word); }

static void test_headers_refused(void **state)
{
    (void)state;
    refuse(gguf_begin(1, 0, 0), "GGUF version 1 is not supported");
    refuse(gguf_begin(4, 0, 0), "GGUF version 4, expected 2 or 3");
    refuse(gguf_begin(0x03000000, 0, 0), "big-endian");
    refuse(gguf_begin(3, 1, 0), "number of tensors: found 1, expected at most 0");
    refuse(gguf_begin(3, UINT64_MAX, 0), "number of tensors: found 18446744073709551615");
    refuse(gguf_begin(3, 0, (uint64_t)1 << 60), "number of metadata: found 1152921504606846976");
}

// A file with one value of this type, whose bytes are `bytes`.
static blob with_value(uint32_t type, const void *bytes, size_t size)
{
    blob b = gguf_begin(3, 0, 1);
    gguf_key(&b, "k", type);
    gguf_put(&b, bytes, size);
    return b;
}

static blob with_array(uint32_t of, uint64_t count)
{
    blob b = with_value(GGUF_ARRAY, "", 0);
    gguf_u32(&b, of);
    gguf_u64(&b, count);
    gguf_data(&b, 1, 64);
    return b;
}

static void test_metadata_refused(void **state)
{
    (void)state;
    refuse(with_value(13, "\0\0\0\0\0\0\0", 8), "metadata \"k\": type 13, expected 0 to 12");
    refuse(with_value(GGUF_STRING, "\xff\xff\xff\xff\xff\xff\xff\xff", 8),
           "needs 18446744073709551615");
    refuse(with_value(GGUF_STRING, "\2\0\0\0\0\0\0\0a\xff", 10), "not UTF-8");
    refuse(with_value(GGUF_STRING, "\2\0\0\0\0\0\0\0a\0", 10), "a 0 in a string");
    refuse(with_array(GGUF_U64, (uint64_t)1 << 61), "needs 18446744073709551615 bytes");
    refuse(with_array(GGUF_U8, 65), "needs 65 bytes");
    refuse(with_array(GGUF_STRING, 2), "metadata \"k\": needs");
    refuse(with_array(77, 1), "type 77");
    blob nested = with_value(GGUF_ARRAY, "", 0);
    for (int i = 0; i < 5; i++) {
        gguf_u32(&nested, GGUF_ARRAY);
        gguf_u64(&nested, 1);
    }
    gguf_data(&nested, 1, 64);
    refuse(nested, "nesting deeper than 4 levels");
    blob twice = gguf_begin(3, 0, 2);
    gguf_pair_u32(&twice, "k", 1);
    gguf_pair_u32(&twice, "k", 1);
    refuse(twice, "metadata \"k\" is there twice");
    blob bad = gguf_begin(3, 0, 1);
    gguf_bytes(&bad, "\xC3(", 2);
    gguf_data(&bad, 1, 64);
    refuse(bad, "a key of the metadata: found \"\\xc3(\", which is not UTF-8");
    blob zero = gguf_begin(3, 0, 1);
    gguf_bytes(&zero, "k\0", 2);
    gguf_data(&zero, 1, 64);
    refuse(zero, "key \"k\\x00\": found 2 bytes");
}

static void test_alignment_refused(void **state)
{
    (void)state;
    static const uint32_t wrong[] = {0, 3, 33, 131072, UINT32_MAX};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        blob b = gguf_begin(3, 0, 1);
        gguf_pair_u32(&b, "general.alignment", wrong[i]);
        refuse(b, "\"general.alignment\": found a u32");
    }
    blob text = gguf_begin(3, 0, 1);
    gguf_pair_string(&text, "general.alignment", "32");
    refuse(text, "\"general.alignment\": found a string");
}

static blob with_tensor(uint64_t columns, uint64_t rows, uint32_t type, uint64_t offset)
{
    blob b = gguf_begin(3, 1, 0);
    gguf_tensor(&b, "w", columns, rows, type, offset);
    gguf_data(&b, 32, 64);
    return b;
}

static void test_tensors_refused(void **state)
{
    (void)state;
    refuse(with_tensor(8, 2, TENSOR_F32, 32), "tensor \"w\": data at offset 32, expected 0");
    refuse(with_tensor(8, 3, TENSOR_F32, 0), "96 bytes at offset 0, but the file has only 64");
    refuse(with_tensor(8, (uint64_t)1 << 61, TENSOR_F32, 0), "the shape's product overflows");
    refuse(with_tensor(0, UINT64_MAX, TENSOR_F32, 0), "the shape's product overflows");
    refuse(with_tensor(32, (uint64_t)1 << 54, TENSOR_Q8_0, 0), "the file has only 64");
    refuse(with_tensor(33, 1, TENSOR_Q8_0, 0), "33 values in a row, expected a multiple of 32");
    refuse(with_tensor(32, 1, TENSOR_Q6_K, 0),
           "a multiple of 256, the values of a block of type Q6_K");
    refuse(with_tensor(256, 1, 16, 0), "tensor \"w\": type IQ2_XXS (16) is not supported");
    refuse(with_tensor(256, 1, 39, 0), "type MXFP4 (39)");
    refuse(with_tensor(256, 1, 4294967295u, 0), "type unknown (4294967295)");
    blob rank = gguf_begin(3, 1, 0);
    gguf_string(&rank, "w");
    gguf_u32(&rank, 5);
    gguf_data(&rank, 1, 80);
    refuse(rank, "tensor \"w\": 5 dimensions, expected at most 4");
    blob twice = gguf_begin(3, 2, 0);
    gguf_tensor(&twice, "w", 8, 0, TENSOR_F32, 0);
    gguf_tensor(&twice, "w", 8, 0, TENSOR_F32, 32);
    gguf_data(&twice, 32, 64);
    refuse(twice, "two tensors are called \"w\"");
    blob overlap = gguf_begin(3, 2, 0);
    gguf_tensor(&overlap, "v", 8, 0, TENSOR_F32, 0);
    gguf_tensor(&overlap, "w", 8, 0, TENSOR_F32, 0);
    gguf_data(&overlap, 32, 64);
    refuse(overlap, "tensor \"w\": data at offset 0, expected 32");
    blob name = gguf_begin(3, 1, 0);
    gguf_bytes(&name, "\xE2\x82", 2);
    gguf_data(&name, 1, 64);
    refuse(name, "the name of a tensor: found");
}

static void test_cuts(void **state)
{
    (void)state;
    test_cuts_refused(gguf_sample(3));
}

static void test_flips(void **state)
{
    (void)state;
    test_flips_survived(gguf_sample(3));
}

static mh_status parse_sample(void)
{
    blob b = gguf_sample(3);
    mh_tensor_file *file;
    mh_status status = mh_tensor_file_parse(context, "x", b.bytes, b.size, &file);
    mh_tensor_file_free(file);
    blob_free(&b);
    return status;
}

static void test_gguf_memory(void **state)
{
    (void)state;
    test_out_of_memory(&memory, 1, parse_sample);
}

// At every address: blocks and vectors that are not aligned.
static void test_gguf_addresses(void **state)
{
    (void)state;
    blob b = gguf_sample(3);
    for (size_t shift = 0; shift < 8; shift++) {
        mh_tensor_file *file;
        float values[96], expected[96];
        mh_tensor t = mh_tensor_2d(values, MH_F32, 3, 32);
        unsigned char *moved = malloc(b.size + 8);
        memcpy(moved + shift, b.bytes, b.size);
        test_ok(context, mh_tensor_file_parse(context, "x", moved + shift, b.size, &file));
        touch_file(file);
        test_ok(context, mh_tensor_file_read(context, file, 0, &t));
        if (shift == 0)
            memcpy(expected, values, sizeof values);
        assert_memory_equal(values, expected, sizeof values);
        mh_tensor_file_free(file);
        free(moved);
    }
    blob_free(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_blocks),
        cmocka_unit_test(test_reads),
        cmocka_unit_test(test_read_errors),
        cmocka_unit_test(test_threads),
        cmocka_unit_test(test_metadata),
        cmocka_unit_test(test_stored),
        cmocka_unit_test(test_versions),
        cmocka_unit_test(test_headers_refused),
        cmocka_unit_test(test_metadata_refused),
        cmocka_unit_test(test_alignment_refused),
        cmocka_unit_test(test_tensors_refused),
        cmocka_unit_test(test_cuts),
        cmocka_unit_test(test_flips),
        cmocka_unit_test(test_gguf_memory),
        cmocka_unit_test(test_gguf_addresses),
    };
    return cmocka_run_group_tests(tests, parser_set_up, parser_tear_down);
}
