// SPDX-License-Identifier: MIT
// PyTorch checkpoints as torch.save wrote them (tests/goldens/make_checkpoints.py), in every format
// and protocol: the tensors are bit for bit those that PyTorch had. And sharded files, as one.
#include "parser_support.h"
#include "torch_support.h"

#include <pthread.h>

#define CHECKPOINT(name) MH_GOLDENS "/checkpoints/" name
#define BYTES(text)      text, sizeof text - 1

static mh_tensor_file *open_file(const char *name)
{
    mh_tensor_file *file;
    test_ok(context, mh_tensor_file_open(context, name, &file));
    return file;
}

// ---- goldens ------------------------------------------------------------------------------------

// Legacy files have no uint16, uint32 and uint64, which are newer.
enum { EXPECTED = 28, EXPECTED_LEGACY = EXPECTED - 3 };

// Views of all tensors, and copies of them without views.
static void expect_same(const char *name, size_t count, bool views)
{
    mh_tensor_file *file = open_file(name), *golden = open_file(CHECKPOINT("expected.safetensors"));
    assert_int_equal(mh_tensor_file_count(file), count);
    for (size_t i = 0; i < count; i++) {
        mh_tensor expected, found;
        uint64_t memory_read[64];
        assert_true(mh_tensor_file_find(golden, mh_tensor_file_name(file, i), &expected));
        assert_true(mh_tensor_file_describe(file, i, &found));
        assert_null(found.data);
        found = mh_tensor_view(memory_read, found.dtype, found.rank, found.shape);
        if (views)
            assert_true(mh_tensor_file_at(file, i, &found));
        else
            test_ok(context, mh_tensor_file_read(context, file, i, &found));
        same_elements(&found, &expected);
    }
    mh_tensor_file_free(file);
    mh_tensor_file_free(golden);
}

static void test_goldens(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        size_t count;
    } files[] = {
        {CHECKPOINT("zip.pt"), EXPECTED},
        {CHECKPOINT("zip-protocol-3.pt"), EXPECTED},
        {CHECKPOINT("zip-protocol-4.pt"), EXPECTED},
        {CHECKPOINT("zip-protocol-5.pt"), EXPECTED},
        {CHECKPOINT("deflated.pt"), EXPECTED},
        {CHECKPOINT("unaligned.pt"), EXPECTED},
        {CHECKPOINT("legacy.pt"), EXPECTED_LEGACY},
        {CHECKPOINT("legacy-protocol-4.pt"), EXPECTED_LEGACY},
    };
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        for (int views = 0; views < 2; views++)
            expect_same(files[i].name, files[i].count, views);
}

// At every address in memory.
static void test_addresses(void **state)
{
    (void)state;
    static const char *const names[] = {CHECKPOINT("zip.pt"), CHECKPOINT("legacy.pt")};
    for (size_t i = 0; i < 2; i++)
        for (size_t shift = 0; shift < 8; shift++) {
            mh_tensor_file *file;
            blob b = blob_read(names[i]), moved = blob_join("12345678", shift, "", 0, b.size);
            memcpy(moved.bytes + shift, b.bytes, b.size);
            test_ok(context,
                    mh_tensor_file_parse(context, "x", moved.bytes + shift, b.size, &file));
            touch_file(file);
            mh_tensor_file_free(file);
            blob_free(&b);
            blob_free(&moved);
        }
}

// Tied weights are the same memory, also where it is a copy.
static void test_shared(void **state)
{
    (void)state;
    static const char *const names[] = {CHECKPOINT("zip.pt"), CHECKPOINT("legacy.pt")};
    for (size_t i = 0; i < 2; i++) {
        mh_tensor_file *file = open_file(names[i]);
        mh_tensor weight, tied, alias, rows, transposed;
        assert_true(mh_tensor_file_find(file, "state_dict.weight", &weight));
        assert_true(mh_tensor_file_find(file, "state_dict.tied", &tied));
        assert_true(mh_tensor_file_find(file, "state_dict.alias", &alias));
        assert_true(mh_tensor_file_find(file, "state_dict.rows", &rows));
        assert_true(mh_tensor_file_find(file, "state_dict.transposed", &transposed));
        assert_ptr_equal(weight.data, tied.data);
        assert_ptr_equal(weight.data, alias.data);
        assert_ptr_equal((float *)transposed.data + 6, rows.data);
        assert_true(transposed.stride[0] == 1 && transposed.stride[1] == 6);
        mh_tensor_file_free(file);
    }
}

static void test_one_tensor(void **state)
{
    (void)state;
    mh_tensor_file *file = open_file(CHECKPOINT("tensor.pt"));
    mh_tensor t;
    assert_int_equal(mh_tensor_file_count(file), 1);
    assert_string_equal(mh_tensor_file_name(file, 0), "");
    assert_true(mh_tensor_file_at(file, 0, &t));
    assert_true(t.rank == 2 && t.shape[0] == 3 && t.shape[1] == 2 && t.stride[0] == 1);
    mh_tensor_file_free(file);
    test_refused(context, mh_tensor_file_open(context, CHECKPOINT("script.pt"), &file),
                 MH_ERROR_FORMAT, "is a TorchScript archive (torch.jit.save)");
}

static void test_read(void **state)
{
    (void)state;
    mh_tensor_file *file = open_file(CHECKPOINT("legacy.pt"));
    float numbers[24];
    size_t i;
    mh_tensor t = mh_tensor_2d(numbers, MH_F32, 6, 4);
    assert_true(mh_tensor_file_index(file, "state_dict.transposed", &i));
    test_ok(context, mh_tensor_file_read(context, file, i, &t));
    assert_true(numbers[1] == 10.5F); // element (1, 0) of its transpose: 6 * 7 % 61 / 4
    t = mh_tensor_2d(numbers, MH_F32, 4, 6);
    test_refused(context, mh_tensor_file_read(context, file, i, &t), MH_ERROR_ARGUMENT,
                 "to: found f32 (4, 6), expected the shape of f32 (6, 4)");
    test_refused(context, mh_tensor_file_read(context, file, EXPECTED_LEGACY, &t),
                 MH_ERROR_ARGUMENT, "but the file has 25 tensors");
    assert_false(mh_tensor_file_describe(file, EXPECTED_LEGACY, &t));
    assert_false(mh_tensor_file_index(file, "none", &i));
    mh_tensor_file_free(file);
}

// ---- pickles of other programs ------------------------------------------------------------------

static void expect_w(blob b)
{
    mh_tensor_file *file;
    mh_tensor t;
    test_ok(context, mh_tensor_file_parse(context, "x", b.bytes, b.size, &file));
    assert_true(mh_tensor_file_find(file, "w", &t));
    assert_true(t.dtype == MH_F32 && t.rank == 2 && t.shape[0] == 2 && t.shape[1] == 3);
    for (size_t i = 0; i < TORCH_STORAGE; i++)
        assert_int_equal(((unsigned char *)t.data)[i], i + 1);
    mh_tensor_file_free(file);
    blob_free(&b);
}

static void test_pickles(void **state)
{
    (void)state;
    static const struct {
        const char *pickle;
        size_t size;
    } cases[] = {
        {BYTES(STATE(TENSOR))},
        {BYTES(STATE("ctorch._utils\n_rebuild_tensor\n(" STORAGE "K\0K\2K\3\x86K\3K\1\x86tR"))},
        {BYTES(STATE("ctorch._utils\n_rebuild_parameter\n" TENSOR "\x88)\x87R"))},
        // Python 2: strings of bytes, an OrderedDict with its items, long integers as text
        {BYTES(PROTO "ccollections\nOrderedDict\n]](U\1w" TENSOR "ea\x85R.")},
        {BYTES(PROTO "ccollections\nOrderedDict\n]](T\1\0\0\0w" TENSOR "ea\x85R}X\11\0\0\0_metadata"
                     "}sb.")},
        {BYTES(PROTO "}(" TEXT1("w")
                   TENSOR TEXT1("i") "I-12345678901\n" TEXT1("f") "G?\xf0\0\0\0\0\0\0" TEXT1(
                       "b") "C\2ab" TEXT1("c") "B\1\0\0\0a" TEXT1("l") "\x8a\3\1\2\xffu.")},
        // keys that are no names, and containers, without tensors
        {BYTES(PROTO "}(N}" TEXT1("\xff") "K\1G?\xf0\0\0\0\0\0\0K\2" TEXT1("w") TENSOR ")]u.")},
        {BYTES("\x80\5\x95\0\0\0\0\0\0\0\0}\x94\x8c\1w" TENSOR "s.")},
        // a storage of bytes, with the type in the call
        {BYTES(STATE("ctorch._utils\n_rebuild_tensor_v3\n(" STORAGE_OF(
            "ctorch.storage\nUntypedStorage\n", TEXT1("0"), "K\x18") "K\0K\2K\3\x86K\3K\1\x86\x89)"
                                                                     "ctorch\nfloat32\ntR"))},
    };
    static char untyped[] =
        "\30\0\0\0\0\0\0\0\1\2\3\4\5\6\7\10\11\12\13\14\15\16\17\20\21\22\23\24\25\26\27\30";
    static const zip_style styles[] = {ZIP_PLAIN, ZIP_NUMPY, ZIP_64, ZIP_PIPED};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *pickle = cases[i].pickle;
        const size_t size = cases[i].size;
        for (size_t style = 0; style < 4; style++)
            for (int deflated = 0; deflated < 2; deflated++)
                expect_w(torch_zip(pickle, size,
                                   (torch_zip_options){.deflated = deflated,
                                                       .style = styles[style],
                                                       .byteorder = deflated ? "little" : NULL}));
        const blob bytes = {(unsigned char *)untyped, sizeof untyped - 1};
        const bool last = i + 1 == sizeof cases / sizeof *cases; // counts bytes, not floats
        expect_w(
            torch_legacy(pickle, size, (torch_legacy_options){.tail = last ? bytes : (blob){0}}));
    }
}

// ---- shards -------------------------------------------------------------------------------------

static void test_shards(void **state)
{
    (void)state;
    mh_tensor_file *file = open_file(CHECKPOINT("pytorch_model.bin.index.json"));
    mh_tensor a, c;
    size_t i;
    assert_int_equal(mh_tensor_file_count(file), 2);
    assert_true(mh_tensor_file_find(file, "a", &a));
    assert_true(mh_tensor_file_find(file, "b.c", &c));
    assert_false(mh_tensor_file_index(file, "surplus", &i));
    assert_true(a.dtype == MH_F32 && a.shape[0] == 2 && a.shape[1] == 3);
    assert_true(c.dtype == MH_BF16 && c.rank == 1 && c.shape[0] == 4);
    assert_true(((float *)a.data)[1] == 1.75F);
    assert_int_equal(((uint16_t *)c.data)[1], 0x3FE0);
    touch_file(file);
    mh_tensor_file_free(file);
}

static void refuse_index(const char *text, const char *word)
{
    mh_tensor_file *file;
    const size_t before = memory.live;
    FILE *stream = fopen(path, "w");
    assert_non_null(stream);
    fputs(text, stream);
    fclose(stream);
    mh_status status = mh_tensor_file_open(context, path, &file);
    assert_true(status == MH_ERROR_FORMAT || status == MH_ERROR_FILE);
    test_refused(context, status, status, word);
    assert_null(file);
    assert_int_equal(memory.live, before);
}

static void test_shards_refused(void **state)
{
    (void)state;
#define MAP(members) "{\"weight_map\": {" members "}}"
    refuse_index(MAP(""), "expected an object \"weight_map\" with 1 to 1000000 names");
    refuse_index("{\"weight_map\": [1]}", "expected an object \"weight_map\"");
    refuse_index("{\"a\": {\"weight_map\": {\"a\": \"b\"}}}", "expected an object \"weight_map\"");
    refuse_index(MAP("\"a\": 1"), "weight_map, \"a\": found no text, expected the name of a file");
    refuse_index(MAP("\"a\": \"\""), "found \"\", expected the name of a file next to the index");
    refuse_index(MAP("\"a\": \"../b\""), "found \"../b\", expected the name of a file");
    refuse_index(MAP("\"a\": \"/etc/passwd\""), "expected the name of a file next to the index");
    refuse_index(MAP("\"a\": \"c/d\""), "expected the name of a file next to the index");
    refuse_index(MAP("\"a\": \"..\""), "expected the name of a file next to the index");
    refuse_index(MAP("\"a\": \"c\\\\d\""), "expected the name of a file next to the index");
    refuse_index(MAP("\"a\": \"none\", \"a\": \"other\""), "duplicate object key");
    refuse_index(MAP("\"a\": \"none\""), "none: cannot be opened");
    refuse_index(MAP("\"a\": \"x.index.json\""), "and not from another index");
    refuse_index("{\"weight_map\": {\"a\": \"b\"}", "index is not valid JSON");
    refuse_index("{\"weight_map\": [[[[[[[[[]]]]]]]]]}", "nesting deeper than 8 levels");
    mh_tensor_file *file;
    blob b = blob_copy(MAP("\"a\": \"b\""), strlen(MAP("\"a\": \"b\"")));
    test_parse_refused("i.json", blob_copy(b.bytes, b.size), "only if it is opened by its path");
    blob_free(&b);
    // a tensor that its file does not have
    char text[512];
    snprintf(text, sizeof text, MAP("\"a\": \"part-1.bin\", \"z\": \"part-1.bin\""));
    blob part = blob_read(CHECKPOINT("part-1.bin"));
    char shard[128];
    snprintf(shard, sizeof shard, "%s/part-1.bin", directory);
    test_ok(context, mh_bytes_write(context, shard, part.bytes, part.size));
    refuse_index(text, "weight_map, \"z\": there is no such tensor in \"part-1.bin\"");
    blob_free(&part);
    remove(shard);
    assert_int_equal(mh_tensor_file_open(context, directory, &file), MH_ERROR_FILE);
}

// ---- cuts, bits, allocations, threads -----------------------------------------------------------

static void test_cuts_and_flips(void **state)
{
    (void)state;
    for (int deflated = 0; deflated < 2; deflated++) {
        const torch_zip_options options = {.deflated = deflated, .byteorder = "little"};
        test_cuts_refused(torch_zip(BYTES(STATE(TENSOR)), options));
        test_flips_survived(torch_zip(BYTES(STATE(TENSOR)), options));
    }
    test_cuts_refused(torch_legacy(BYTES(STATE(TENSOR)), (torch_legacy_options){0}));
    test_flips_survived(torch_legacy(BYTES(STATE(TENSOR)), (torch_legacy_options){0}));
    test_cuts_refused(blob_read(CHECKPOINT("legacy.pt")));
    test_cuts_refused(blob_read(CHECKPOINT("zip.pt")));
    test_flips_survived(blob_read(CHECKPOINT("legacy-protocol-4.pt")));
    test_flips_survived(blob_read(CHECKPOINT("zip-protocol-4.pt")));
}

static const char *opened;

static mh_status open_and_touch(void)
{
    mh_tensor_file *file;
    mh_status status = mh_tensor_file_open(context, opened, &file);
    if (!status)
        touch_file(file);
    mh_tensor_file_free(file);
    return status;
}

static void test_no_memory(void **state)
{
    (void)state;
    static const char *const names[] = {CHECKPOINT("zip.pt"), CHECKPOINT("deflated.pt"),
                                        CHECKPOINT("legacy.pt"),
                                        CHECKPOINT("pytorch_model.bin.index.json")};
    for (size_t i = 0; i < 4; i++) {
        opened = names[i];
        test_out_of_memory(&memory, 1, open_and_touch);
    }
    opened = names[3];
    test_out_of_memory(&json_memory, 1, open_and_touch);
}

static void *touch_in_thread(void *file)
{
    touch_file(file);
    return NULL;
}

// Copies of what is not aligned are made by the first thread that asks.
static void test_threads(void **state)
{
    (void)state;
    enum { THREADS = 4 };
    pthread_t threads[THREADS];
    mh_tensor_file *file = open_file(CHECKPOINT("legacy.pt"));
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, touch_in_thread, file), 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    mh_tensor_file_free(file);
}

static int set_up(void **state)
{
    (void)state;
    return parser_place("x.index.json", NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_goldens),        cmocka_unit_test(test_addresses),
        cmocka_unit_test(test_shared),         cmocka_unit_test(test_one_tensor),
        cmocka_unit_test(test_read),           cmocka_unit_test(test_pickles),
        cmocka_unit_test(test_shards),         cmocka_unit_test(test_shards_refused),
        cmocka_unit_test(test_cuts_and_flips), cmocka_unit_test(test_no_memory),
        cmocka_unit_test(test_threads),
    };
    return cmocka_run_group_tests(tests, set_up, parser_tear_down);
}
