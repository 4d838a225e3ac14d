// SPDX-License-Identifier: MIT
// Safetensors files that are refused, with the right words and without memory being taken for what
// they promise. Each is a kind of bug that some reader of model files has had.
#include "safetensors_support.h"

static const char *const good =
    "{\"__metadata__\":{\"format\":\"pt\"},"
    "\"b\":" TENSOR("F32", "[2,3]", "0", "24") ","
                                               "\"a\":" TENSOR("I16", "[3]", "24", "30") "}";

// ---- refusals -----------------------------------------------------------------------------------

#define ONE(dtype, shape, begin, end) "{\"w\":" TENSOR(dtype, shape, begin, end) "}"
#define TWO(begin1, end1, begin2, end2)                                                            \
    "{\"v\":" TENSOR("U8", "[4]", begin1, end1) ",\"w\":" TENSOR("U8", "[4]", begin2, end2) "}"

static void refuse(blob b, const char *word) { test_parse_refused("w.safetensors", b, word); }

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
        refuse(blob_safetensors(cases[i].header, cases[i].data_size), cases[i].word);
}

static void test_prefix_refused(void **state)
{
    (void)state;
    refuse(blob_safetensors_claiming(UINT64_MAX, good, 30),
           "header of 18446744073709551615 bytes, expected at most 100000000");
    refuse(blob_safetensors_claiming(100000001, good, 30), "at most 100000000");
    refuse(blob_safetensors_claiming(100000000, good, 30), "but the file has only");
    refuse(blob_safetensors_claiming(UINT64_C(1) << 32 | strlen(good), good, 30), "at most");
    refuse(blob_safetensors_claiming(strlen(good) + 31, good, 30), "but the file has only");
    refuse(blob_safetensors_claiming(0, "{}", 0), "does not start with '{'");
    refuse(blob_copy("123456\1", 7), "neither .npy nor .npz nor .safetensors");
    refuse(blob_copy("PK\3\4-\0\0\0\0\0", 10), "the ZIP archive is damaged");
}

// What other files are, by their first bytes. Pickles are as Python writes them in each protocol,
// of arrays, lists and dictionaries, and cut short in their middle.
static void test_kinds_refused(void **state)
{
    (void)state;
#define BYTES(text) text, sizeof text - 1
    static const struct {
        const char *bytes;
        size_t size;
        const char *word;
    } cases[] = {
        {BYTES("0.5,1.5\n2.5,3.5\n"), "is text (CSV?), expected .npy (numpy.save), .npz"},
        {BYTES("1;2\n"), "is text (CSV?)"},
        {BYTES("q\tk\tv\r\n1\t2\t3\r\n"), "is text (CSV?)"},
        {BYTES("1 2\n3 4\n5 6\n"), "is text, expected"},
        {BYTES("gr\xc3\xb6\xc3\x9f"
               "e\n\xe2\x82\xac 1\n"),
         "is text, expected"},
        {BYTES("{\"q\": [1, 2, 3]}"), "is text (JSON?)"},
        {BYTES("cnumpy._core.multiarray\n_reconstruct\np0\n(cnumpy\nndarray\np1\n."), "protocol 0"},
        {BYTES("(lp0\nF1.0\naF2.0\na."),
         "is a Python pickle (protocol 0), which is never executed"},
        {BYTES("(dp0\nVa\np1\nF1.0\ns."), "protocol 0"},
        {BYTES("(cnumpy.core.multiarray\n_reconstruct\np0\n."), "protocol 0"},
        {BYTES("cnumpy.core.multiarray\n_reconstruct\nq\0(cnumpy\nndarray\nq\1."), "protocol 1"},
        {BYTES("]q\0(G?\xf0\0\0\0\0\0\0G@\0\0\0\0\0\0\0e."), "protocol 1"},
        {BYTES("}q\0X\1\0\0\0aq\1G?\xf0\0\0\0\0\0\0s."), "protocol 1"},
        {BYTES("\x80\2]q\0(G?\xf0\0\0\0\0\0\0e."), "protocol 2"},
        {BYTES("\x80\3cnumpy.core.multiarray\n_reconstruct\nq\0."), "protocol 3"},
        {BYTES("\x80\4\x95\x17\0\0\0\0\0\0\0]\x94(G?\xf0\0\0\0\0\0\0e."), "protocol 4"},
        {BYTES("\x80\5\x95\1\0\0\0\0\0\0\0N."),
         "(protocol 5), which is never executed; save the array"},
        {BYTES("\x80\2\x8a\nl\xfc\x9c\x46\xf9 j\xa8P\x19.\x80\2M"),
         "pickle 2, byte 2, opcode BININT2: needs"},
        {BYTES("GGUF\3\0\0\0"), "number of tensors: needs 8 bytes"},
        {BYTES("\x89HDF\r\n\x1a\n"), "is HDF5"},
        {BYTES("\x1f\x8b\x08\0\0\0\0\1"), "is gzip"},
        {BYTES("\x08\x07\x12\x07pytorch\x1a\x05"), "is ONNX"},
        {BYTES("\x89PNG\r\n\x1a\n"), "is a PNG image"},
        {BYTES("\xff\xd8\xff\xe0\0\x10JFIF"), "is a JPEG image"},
        {BYTES("(\xb5/\xfd\x04\x58\1\1"), "is zstd"},
        {BYTES("AB\1DEFGH"), "bytes, expected at most 100000000"}, // none of them
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        refuse(blob_copy(cases[i].bytes, cases[i].size), cases[i].word);
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
    refuse(repeated("{\"w\":", "[", 1000000, "}"), "nesting deeper than 3");
    refuse(repeated("{\"w\":", "{\"w\":", 1000000, ""), "nesting deeper than 3");
    refuse(repeated("{\"w\":[0", ",0", 1000013, "]}"), "header of 1000015 values");
    refuse(repeated("{\"__metadata__\":{", "\"\":[],", 600000, "}}"), "values");
    refuse(repeated("{\"", "n", 4097, "\":" TENSOR("U8", "[1]", "0", "1") "}"),
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
    refuse(blob_safetensors(header, 0), "expected at most 1000000 tensors");
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

// ---- every cut, every bit -----------------------------------------------------------------------

static void test_truncated(void **state)
{
    (void)state;
    test_cuts_refused(blob_safetensors(good, 30));
}

static void test_bits_flipped(void **state)
{
    (void)state;
    test_flips_survived(blob_safetensors(good, 30));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_headers_refused),  cmocka_unit_test(test_prefix_refused),
        cmocka_unit_test(test_kinds_refused),    cmocka_unit_test(test_limits),
        cmocka_unit_test(test_too_many_tensors), cmocka_unit_test(test_long_names),
        cmocka_unit_test(test_truncated),        cmocka_unit_test(test_bits_flipped),
    };
    return cmocka_run_group_tests(tests, parser_set_up, parser_tear_down);
}
