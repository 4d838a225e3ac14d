// SPDX-License-Identifier: MIT
// Fuzzes the safetensors reader: each input as it is, and once more with a header length that
// points behind its last brace, so that a mutated header is not refused for its length alone.
#include "fuzz_context.h"

enum { PREFIX = 8 };

static void parse_repaired(const uint8_t *bytes, size_t size)
{
    const uint8_t *brace = memrchr(bytes + PREFIX, '}', size - PREFIX);
    uint64_t length = brace ? (uint64_t)(brace - bytes) + 1 - PREFIX : size - PREFIX;
    blob copy = blob_copy(bytes, size);
    for (int i = 0; i < PREFIX; i++)
        copy.bytes[i] = (uint8_t)(length >> (8 * i));
    fuzz_parse(copy.bytes, copy.size);
    blob_free(&copy);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    fuzz_parse(bytes, size);
    if (size > PREFIX)
        parse_repaired(bytes, size);
    return 0;
}
