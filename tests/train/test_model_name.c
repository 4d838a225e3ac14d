// SPDX-License-Identifier: MIT
// Names of models by their paths, as cards and settings of runs have them.
#include "support.h"

#include "train/model_name.h"

static void check_name(const char *path, const char *organisation, const char *name)
{
    const mh_model_name found = mh_model_name_of(path);
    assert_int_equal(found.organisation.size, strlen(organisation));
    assert_int_equal(found.name.size, strlen(name));
    assert_memory_equal(found.organisation.bytes, organisation, strlen(organisation));
    assert_memory_equal(found.name.bytes, name, strlen(name));
}

static void test_directories(void **state)
{
    (void)state;
    check_name("", "", "");
    check_name("llama", "", "llama");
    check_name("models/llama//", "", "llama");
    check_name("/models--a--b/llama", "", "llama");
    check_name("/snapshots/llama", "", "llama");
    check_name("/", "", "");
}

// .../models--ORG--NAME/snapshots/HASH
static void test_cache(void **state)
{
    (void)state;
    check_name("/cache/hub/models--sentence-transformers--all-MiniLM-L6-v2/snapshots/c9745ed",
               "sentence-transformers", "all-MiniLM-L6-v2");
    check_name("models--org--name/snapshots/0123/", "org", "name");
    check_name("hub/models--gpt2/snapshots/607a30d", "", "gpt2");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_directories),
        cmocka_unit_test(test_cache),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
