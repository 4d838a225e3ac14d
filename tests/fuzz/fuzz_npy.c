// SPDX-License-Identifier: MIT
// Fuzzes the .npy reader: each input as it is, and once more with a magic, a version and a header
// length that are right, so that a mutated header is not refused for its length alone.
#include "fuzz_context.h"

enum { PREFIX = 10 };

static void parse_repaired(const uint8_t *bytes, size_t size)
{
    const uint8_t *newline = memchr(bytes + PREFIX, '\n', size - PREFIX);
    size_t length = newline ? (size_t)(newline - bytes) + 1 - PREFIX : size - PREFIX;
    blob copy = blob_copy(bytes, size);
    memcpy(copy.bytes, "\x93NUMPY\x01\x00", 8);
    copy.bytes[8] = (uint8_t)length;
    copy.bytes[9] = (uint8_t)(length >> 8);
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
