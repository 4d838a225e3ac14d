// SPDX-License-Identifier: MIT
// .npz: archives as numpy.savez, numpy.savez_compressed and other programs write them are read, and
// what is damaged, promises too much or is no archive of arrays is refused with the right words.
#include "parser_support.h"
#include "zip_support.h"

static int set_up(void **state)
{
    (void)state;
    return parser_place("x.npz", NULL);
}

#define HEADER(descr, shape)                                                                       \
    "{'descr': '" descr "', 'fortran_order': False, 'shape': " shape ", }\n"

enum { ARRAYS = 3 };

typedef struct fixture {
    zip_entry entries[ARRAYS + 1];
} fixture;

// q and k are arrays, "empty" has no numbers, and there is something else.
static fixture make_entries(bool deflated)
{
    return (fixture){{{"q.npy", blob_npy(1, HEADER("<f4", "(2, 3)"), 24), deflated},
                      {"dir/k.npy", blob_npy(2, HEADER("<f8", "(5,)"), 40), deflated},
                      {"empty.npy", blob_npy(1, HEADER("<i4", "(0, 4)"), 0), deflated},
                      {"notes.txt", blob_copy("text", 4), false}}};
}

static void free_entries(fixture *f)
{
    for (size_t i = 0; i <= ARRAYS; i++)
        blob_free(&f->entries[i].content);
}

static blob make_archive(bool deflated, zip_style style)
{
    fixture f = make_entries(deflated);
    blob archive = zip_make(f.entries, ARRAYS + 1, style);
    free_entries(&f);
    return archive;
}

// ---- what is read -------------------------------------------------------------------------------

static void expect_arrays(blob b, size_t shift)
{
    mh_tensor_file *file;
    mh_tensor t;
    blob moved = blob_join("", 0, "", 0, b.size + shift);
    memcpy(moved.bytes + shift, b.bytes, b.size);
    test_ok(context, mh_tensor_file_parse(context, "x", moved.bytes + shift, b.size, &file));
    assert_int_equal(mh_tensor_file_count(file), ARRAYS);
    touch_file(file);
    assert_true(mh_tensor_file_find(file, "q", &t));
    assert_true(t.dtype == MH_F32 && t.rank == 2 && t.shape[0] == 2 && t.shape[1] == 3);
    for (size_t i = 0; i < 24; i++)
        assert_int_equal(((unsigned char *)t.data)[i], i + 1);
    assert_true(mh_tensor_file_find(file, "dir/k", &t));
    assert_true(t.dtype == MH_F64 && t.rank == 1 && t.shape[0] == 5);
    assert_int_equal(((unsigned char *)t.data)[39], 40);
    assert_true(mh_tensor_file_find(file, "empty", &t));
    assert_int_equal(mh_tensor_count(&t), 0);
    assert_false(mh_tensor_file_find(file, "notes.txt", &t));
    mh_tensor_file_free(file);
    blob_free(&moved);
}

static void test_styles(void **state)
{
    (void)state;
    static const zip_style styles[] = {ZIP_PLAIN, ZIP_NUMPY, ZIP_64, ZIP_PIPED};
    for (size_t i = 0; i < 4; i++)
        for (int deflated = 0; deflated < 2; deflated++) {
            blob b = make_archive(deflated, styles[i]);
            for (size_t shift = 0; shift < 8; shift++)
                expect_arrays(b, shift);
            blob_free(&b);
        }
}

// Zeros are a thousandth when compressed; that much, and no more, a file may justify.
static void test_zeros(void **state)
{
    (void)state;
    zip_entry e = {"z.npy", blob_npy(1, HEADER("<f4", "(1000, 1000)"), 4000000), true};
    memset(e.content.bytes + e.content.size - 4000000, 0, 4000000);
    blob b = zip_make(&e, 1, ZIP_NUMPY);
    mh_tensor_file *file;
    mh_tensor t;
    assert_true(b.size < 5000);
    test_ok(context, mh_tensor_file_parse(context, "x", b.bytes, b.size, &file));
    assert_true(mh_tensor_file_at(file, 0, &t));
    assert_int_equal(touch_tensor(&t), 0);
    mh_tensor_file_free(file);
    blob_free(&b);
    blob_free(&e.content);
}

// ---- what is refused ----------------------------------------------------------------------------

// Where `magic` is for the n-th time, from 0.
static size_t find(const blob *b, uint32_t magic, size_t n)
{
    for (size_t at = 0; at + 4 <= b->size; at++)
        if (memcmp(b->bytes + at, &magic, 4) == 0 && n-- == 0)
            return at;
    fail();
    return 0;
}

enum { LOCAL = 0x04034B50, ENTRY = 0x02014B50, END = 0x06054B50, END64 = 0x06064B50 };

// `size` bytes of the n-th record become `value`.
static void refuse_changed(zip_style style, bool deflated, uint32_t magic, size_t n, size_t offset,
                           uint64_t value, size_t size, const char *word)
{
    blob b = make_archive(deflated, style);
    memcpy(b.bytes + find(&b, magic, n) + offset, &value, size);
    test_parse_refused("x.npz", b, word);
}

static void test_damaged(void **state)
{
    (void)state;
    refuse_changed(ZIP_PLAIN, false, END, 0, 0, 0, 4, "found no directory at the end");
    refuse_changed(ZIP_PLAIN, false, END, 0, 20, 1, 2, "found no directory at the end");
    refuse_changed(ZIP_PLAIN, false, END, 0, 16, 7, 4, "directory is not where it is said to be");
    refuse_changed(ZIP_PLAIN, false, END, 0, 12, 7, 4, "directory is not where it is said to be");
    refuse_changed(ZIP_PLAIN, false, END, 0, 10, 60000, 2, "too short for its members");
    refuse_changed(ZIP_PLAIN, false, ENTRY, 1, 0, 0, 4, "fewer members than it says");
    refuse_changed(ZIP_PLAIN, false, END, 0, 10, 3, 2, "more members than it says");
    refuse_changed(ZIP_PLAIN, false, END, 0, 10, 0xFFFF, 2, "no ZIP64 locator");
    refuse_changed(ZIP_64, false, END64, 0, 0, 0, 4, "no ZIP64 record");
    refuse_changed(ZIP_64, false, END64, 0, 76 - 12, UINT64_MAX, 8, "no ZIP64 record");
    refuse_changed(ZIP_64, false, END64, 0, 32, UINT64_MAX, 8, "too short for its members");
    refuse_changed(ZIP_64, false, END64, 0, 48, UINT64_MAX, 8, "not where it is said to be");
    refuse_changed(ZIP_64, false, ENTRY, 0, 46 + 5 + 4 + 4 + 2, 8, 2, "ZIP64 field is damaged");
    refuse_changed(ZIP_64, false, ENTRY, 0, 46 + 5 + 8 + 4, UINT64_MAX, 8, "does not fit");
    refuse_changed(ZIP_PLAIN, false, ENTRY, 1, 28, 0xFFFF, 2, "name does not fit");
    refuse_changed(ZIP_PLAIN, false, ENTRY, 0, 8, 1, 2, "member \"q.npy\": is encrypted");
    refuse_changed(ZIP_PLAIN, false, ENTRY, 0, 10, 14, 2, "a method other than deflate");
    refuse_changed(ZIP_PLAIN, false, ENTRY, 0, 24, 1000, 4, "sizes do not fit together");
    refuse_changed(ZIP_PLAIN, true, ENTRY, 0, 24, 4000000000, 4, "sizes do not fit together");
    refuse_changed(ZIP_PLAIN, true, ENTRY, 0, 24, 10, 4, "array \"q\": the compressed data is");
    refuse_changed(ZIP_PLAIN, true, ENTRY, 0, 24, 1000, 4, "not as long as the directory says");
    refuse_changed(ZIP_PLAIN, false, ENTRY, 0, 42, 1, 4, "is not where the directory says");
    refuse_changed(ZIP_PLAIN, false, ENTRY, 0, 42, UINT32_MAX - 1, 4, "is not where the directory");
    refuse_changed(ZIP_PLAIN, false, LOCAL, 0, 28, 0xFFFF, 2, "does not fit into the file");
    refuse_changed(ZIP_PLAIN, false, LOCAL, 0, 30, 'r', 1, "a different name in the directory");
    refuse_changed(ZIP_PLAIN, false, ENTRY, 0, 46, 0, 1, "contains a NUL byte");
    refuse_changed(ZIP_PLAIN, false, ENTRY, 0, 16, 1, 4, "found the checksum");
    refuse_changed(ZIP_PLAIN, true, ENTRY, 0, 16, 1, 4, "array \"q\": the data is damaged");
}

// Two members that are the same bytes, as archives have that expand to petabytes.
static void test_overlap(void **state)
{
    (void)state;
    enum { COUNT = 40 };
    blob array = blob_npy(1, HEADER("<f4", "(100,)"), 400);
    zip_entry entries[COUNT];
    for (size_t i = 0; i < COUNT; i++)
        entries[i] = (zip_entry){"a.npy", array, true};
    blob b = zip_make(entries, COUNT, ZIP_PLAIN);
    const uint32_t long_one = 500; // of which the others are a part
    memcpy(b.bytes + find(&b, ENTRY, 0) + 20, &long_one, 4);
    for (size_t i = 0; i < COUNT; i++)
        memset(b.bytes + find(&b, ENTRY, i) + 42, 0, 4);
    for (size_t i = 1; i < COUNT; i++)
        memcpy(b.bytes + find(&b, ENTRY, i) + 20, &long_one, 4);
    test_parse_refused("x.npz", b, "overlaps another member");
    blob_free(&array);
}

static void test_contents(void **state)
{
    (void)state;
    blob array = blob_npy(1, HEADER("<f4", "(2, 3)"), 24);
    blob promise = blob_npy(1, HEADER("<f4", "(2000000000, 3)"), 24);
    blob object = blob_npy(1, HEADER("|O", "(1,)"), 8), text = blob_copy("hello, world", 12);
    const zip_entry twice[] = {{"a.npy", array, false}, {"a.npy", array, true}};
    const zip_entry promises = {"a.npy", promise, true}, pickled = {"a.npy", object, false};
    const zip_entry none = {"a.txt", text, false}, torch = {"m/data.pkl", text, false};
    const zip_entry nothing = {"a.npy", {text.bytes, 0}, true};
    const zip_entry other = {"\033[2J.npy", text, true};
    test_parse_refused("x.npz", zip_make(twice, 2, ZIP_PLAIN), "two tensors are called \"a\"");
    test_parse_refused("x.npz", zip_make(&promises, 1, ZIP_PLAIN),
                       "array \"a\": f32 (2000000000, 3) needs 24000000000 bytes of data");
    test_parse_refused("x.npz", zip_make(&pickled, 1, ZIP_PLAIN), "pickled");
    test_parse_refused("x.npz", zip_make(&none, 1, ZIP_PLAIN), "is a ZIP archive without arrays");
    test_parse_refused("x.npz", zip_make(NULL, 0, ZIP_PLAIN), "is a ZIP archive without arrays");
    test_parse_refused("x.npz", zip_make(&torch, 1, ZIP_PLAIN), "data.pkl, byte 0, opcode BINGET");
    test_parse_refused("x.npz", zip_make(&nothing, 1, ZIP_PLAIN), "array \"a\": does not start");
    test_parse_refused("x.npz", zip_make(&other, 1, ZIP_PLAIN),
                       "array \"\\x1b[2J\": does not start with the .npy signature");
    blob_free(&array);
    blob_free(&promise);
    blob_free(&object);
    blob_free(&text);
}

// ---- every cut, every bit, every allocation -----------------------------------------------------

static void test_cuts_and_flips(void **state)
{
    (void)state;
    for (int deflated = 0; deflated < 2; deflated++) {
        test_cuts_refused(make_archive(deflated, ZIP_NUMPY));
        test_flips_survived(make_archive(deflated, ZIP_NUMPY));
        test_flips_survived(make_archive(deflated, ZIP_64));
    }
}

static mh_status parse_archive(void)
{
    blob b = make_archive(true, ZIP_NUMPY);
    mh_tensor_file *file;
    mh_status status = mh_tensor_file_parse(context, "x", b.bytes, b.size, &file);
    mh_tensor_file_free(file);
    blob_free(&b);
    return status;
}

static void test_no_memory(void **state)
{
    (void)state;
    test_out_of_memory(&memory, 1, parse_archive);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_styles),    cmocka_unit_test(test_zeros),
        cmocka_unit_test(test_damaged),   cmocka_unit_test(test_overlap),
        cmocka_unit_test(test_contents),  cmocka_unit_test(test_cuts_and_flips),
        cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests(tests, set_up, parser_tear_down);
}
