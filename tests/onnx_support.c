// SPDX-License-Identifier: MIT
// Finding and opening the cases; see onnx_support.h.
#include "onnx_support.h"

#include <dirent.h>

static void run_file(const char *folder, const char *name, onnx_runner run)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    for (size_t level = 0; test_level(level); level++) {
        mh_context *context = test_context(test_level(level), 2);
        mh_tensor_file *file;
        test_ok(context, mh_tensor_file_open(context, path, &file));
        run(context, name, file);
        mh_tensor_file_free(file);
        mh_context_free(context);
    }
}

void onnx_run_cases(const char *prefix, onnx_runner run, size_t expected)
{
    const char *data = getenv("MH_TEST_DATA");
    if (!data || !*data) {
        print_message("MH_TEST_DATA is not set: the ONNX cases are skipped\n");
        skip();
        return;
    }
    char folder[3072];
    snprintf(folder, sizeof folder, "%s/onnx", data);
    DIR *directory = opendir(folder);
    if (!directory)
        fail_msg("cannot read %s", folder);
    size_t count = 0;
    for (struct dirent *entry; (entry = readdir(directory));)
        if (strncmp(entry->d_name, prefix, strlen(prefix)) == 0 &&
            strstr(entry->d_name, ".safetensors")) {
            run_file(folder, entry->d_name, run);
            count++;
        }
    closedir(directory);
    print_message("%zu cases named %s*\n", count, prefix);
    assert_int_equal(count, expected);
}
