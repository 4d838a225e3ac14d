// SPDX-License-Identifier: MIT
// The helpers for tests of readers; see parser_support.h.
#include "parser_support.h"

#include <jansson.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

mh_context *context;
scarce memory, json_memory;
char folder[64], path[96];

static void *json_alloc(size_t size) { return scarce_fails(&json_memory) ? NULL : malloc(size); }

static int open_context(mh_log_fn log)
{
    mh_context_options options = scarce_options(&memory);
    options.log = log;
    json_set_alloc_funcs(json_alloc, free); // for the tests only: it is global
    return mh_context_create(&options, &context, NULL, 0) == MH_OK ? 0 : -1;
}

int parser_set_up(void **state)
{
    (void)state;
    return open_context(NULL);
}

int parser_place(const char *name, mh_log_fn log)
{
    strcpy(folder, "/tmp/mh_test_XXXXXX");
    if (mkdtemp(folder) == NULL)
        return -1;
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return open_context(log);
}

int parser_tear_down(void **state)
{
    (void)state;
    mh_context_free(context);
    unlink(path);
    if (folder[0] && rmdir(folder) != 0)
        return -1;
    return memory.live == 0 ? 0 : -1;
}

void same_elements(const mh_tensor *found, const mh_tensor *expected)
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

void test_parse_refused(const char *name, blob b, const char *word)
{
    char prefix[64];
    mh_tensor_file *file = (mh_tensor_file *)&b;
    const size_t before = memory.live;
    memory.peak = memory.live;
    mh_status status = mh_tensor_file_parse(context, name, b.bytes, b.size, &file);
    snprintf(prefix, sizeof prefix, "%s: ", name);
    test_refused(context, status, MH_ERROR_FORMAT, word);
    test_refused(context, status, MH_ERROR_FORMAT, prefix);
    assert_null(file);
    assert_int_equal(memory.live, before);
    assert_true(memory.peak - before < 65536);
    blob_free(&b);
}

void test_cuts_refused(blob b)
{
    for (size_t size = 0; size < b.size; size++) {
        blob cut = blob_copy(b.bytes, size);
        mh_tensor_file *file;
        assert_int_equal(mh_tensor_file_parse(context, "x", cut.bytes, size, &file),
                         MH_ERROR_FORMAT);
        blob_free(&cut);
    }
    blob_free(&b);
}

void test_flips_survived(blob b)
{
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

void test_out_of_memory(scarce *source, size_t step, mh_status (*work)(void))
{
    for (int always = 0; always < 2; always++)
        for (size_t n = 1;; n += step) {
            const size_t before = memory.live;
            source->calls = 0;
            source->fail_at = n;
            source->always = always;
            mh_status status = work();
            source->fail_at = 0;
            assert_int_equal(memory.live, before);
            if (source->calls < n) {
                test_ok(context, status);
                break;
            }
            test_refused(context, status, MH_ERROR_MEMORY, "memory");
        }
}

void test_no_room(mh_status (*write)(void))
{
    struct rlimit old, small;
    blob before = blob_read(path);
    assert_true(before.size > 0);
    void (*handler)(int) = signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &old);
    small = (struct rlimit){100000, old.rlim_max};
    setrlimit(RLIMIT_FSIZE, &small);
    mh_status status = write();
    setrlimit(RLIMIT_FSIZE, &old);
    signal(SIGXFSZ, handler);

    test_refused(context, status, MH_ERROR_FILE, path);
    blob after = blob_read(path);
    assert_int_equal(after.size, before.size);
    assert_memory_equal(after.bytes, before.bytes, before.size);
    blob_free(&before);
    blob_free(&after);
}
