// SPDX-License-Identifier: MIT
// Fuzzes the index of a sharded model, whose two files are in a directory made for it.
#include "fuzz_context.h"
#include "io/tensor_file.h"

#include <unistd.h>

static char directory[64];
static const char *const names[] = {"a.safetensors", "b.npy"};

static void remove_directory(void)
{
    char path[128];
    for (size_t i = 0; i < 2; i++) {
        snprintf(path, sizeof path, "%s%s", directory, names[i]);
        unlink(path);
    }
    rmdir(directory);
}

static void write_shard(const char *name, blob b)
{
    char path[128];
    snprintf(path, sizeof path, "%s%s", directory, name);
    FILE *stream = fopen(path, "wb");
    if (stream == NULL || fwrite(b.bytes, 1, b.size, stream) != b.size || fclose(stream) != 0)
        abort();
    blob_free(&b);
}

static void make_directory(void)
{
    strcpy(directory, "/tmp/mh_fuzz_XXXXXX");
    if (mkdtemp(directory) == NULL)
        abort();
    strcat(directory, "/");
    atexit(remove_directory);
    write_shard(names[0],
                blob_safetensors("{\"w\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]},"
                                 "\"b\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[8,9]}}",
                                 9));
    write_shard(names[1],
                blob_npy(1, "{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }\n", 8));
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    static volatile uint64_t sink;
    if (directory[0] == '\0')
        make_directory();
    const mh_source source = {fuzz_context(), "fuzz", bytes, size};
    const size_t before = fuzz_memory.live;
    mh_tensor_file *file = NULL;
    mh_status status = mh_tensor_file_parse_in(&source, directory, (mh_mapping){0}, &file);
    if (status == MH_OK)
        sink = sink + touch_file(file);
    else if ((status != MH_ERROR_FORMAT && status != MH_ERROR_FILE) || file != NULL)
        abort();
    mh_tensor_file_free(file);
    if (fuzz_memory.live != before)
        abort();
    return 0;
}
