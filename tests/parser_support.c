// SPDX-License-Identifier: MIT
#include "parser_support.h"

void test_parse_refused(mh_context *context, scarce *memory, const char *name, blob b,
                        const char *word)
{
    char prefix[64];
    mh_tensor_file *file = (mh_tensor_file *)&b;
    const size_t before = memory->live;
    memory->peak = memory->live;
    mh_status status = mh_tensor_file_parse(context, name, b.bytes, b.size, &file);
    snprintf(prefix, sizeof prefix, "%s: ", name);
    test_refused(context, status, MH_ERROR_FORMAT, word);
    test_refused(context, status, MH_ERROR_FORMAT, prefix);
    assert_null(file);
    assert_int_equal(memory->live, before);
    assert_true(memory->peak - before < 65536);
    blob_free(&b);
}

void test_out_of_memory(mh_context *context, const scarce *memory, scarce *source, size_t step,
                        mh_status (*work)(void))
{
    for (int always = 0; always < 2; always++)
        for (size_t n = 1;; n += step) {
            const size_t before = memory->live;
            source->calls = 0;
            source->fail_at = n;
            source->always = always;
            mh_status status = work();
            source->fail_at = 0;
            assert_int_equal(memory->live, before);
            if (source->calls < n) {
                test_ok(context, status);
                break;
            }
            test_refused(context, status, MH_ERROR_MEMORY, "memory");
        }
}
