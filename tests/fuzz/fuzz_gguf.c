// SPDX-License-Identifier: MIT
// Fuzzes the GGUF reader: each input as it is, and behind a correct header with the counts that its
// first bytes give, so that metadata and tensors are reached. What is accepted is dequantised.
#include "fuzz_context.h"
#include "gguf_support.h"

// Entries are 250 bytes, of 24 in the file.
enum { GGUF_MEMORY_PER_BYTE = 32, MOST_VALUES = 1 << 16 };

static void dequantize_all(const uint8_t *bytes, size_t size)
{
    static float values[MOST_VALUES];
    mh_tensor_file *file;
    if (mh_tensor_file_parse(fuzz_context(), "fuzz", bytes, size, &file) != MH_OK)
        return;
    for (size_t i = 0; i < mh_tensor_file_count(file); i++) {
        mh_tensor t;
        if (!mh_tensor_file_describe(file, i, &t) || mh_tensor_count(&t) > MOST_VALUES)
            continue;
        t = mh_tensor_view(values, MH_F32, t.rank, t.shape);
        if (mh_tensor_file_read(fuzz_context(), file, i, &t) != MH_OK)
            abort();
    }
    mh_tensor_file_free(file);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    fuzz_parse_within(bytes, size, GGUF_MEMORY_PER_BYTE);
    dequantize_all(bytes, size);
    if (size < 2)
        return 0;
    blob b = gguf_begin(3, bytes[0] % 4, bytes[1] % 4);
    gguf_put(&b, bytes + 2, size - 2);
    b = gguf_end(b);
    fuzz_parse_within(b.bytes, b.size, GGUF_MEMORY_PER_BYTE);
    dequantize_all(b.bytes, b.size);
    blob_free(&b);
    return 0;
}
