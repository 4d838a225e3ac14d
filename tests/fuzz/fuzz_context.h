// SPDX-License-Identifier: MIT
// The one context all runs of a fuzz target share: one thread, and no more memory than a small
// file can justify, so that a promise that is believed shows as a refused allocation and a crash.
#ifndef MH_TESTS_FUZZ_CONTEXT_H
#define MH_TESTS_FUZZ_CONTEXT_H

#include "file_support.h"

#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

enum { FUZZ_MEMORY_PER_BYTE = 16, FUZZ_MEMORY_FIXED = 65536 };

static scarce fuzz_memory;

static inline mh_context *fuzz_context(void)
{
    static mh_context *context;
    mh_context_options options = scarce_options(&fuzz_memory);
    if (context == NULL && mh_context_create(&options, &context, NULL, 0) != MH_OK)
        abort();
    return context;
}

// Parses, reads every element of what was accepted, and gives everything back. Whatever is refused
// comes with a message; nothing leaks, and nothing takes more memory than the file justifies.
static inline void fuzz_parse_within(const uint8_t *bytes, size_t size, size_t memory_per_byte)
{
    static volatile uint64_t sink;
    mh_context *context = fuzz_context();
    mh_tensor_file *file;
    size_t before = fuzz_memory.live;
    fuzz_memory.peak = before;
    mh_status status = mh_tensor_file_parse(context, "fuzz", bytes, size, &file);
    if (status == MH_OK)
        sink = sink + touch_file(file);
    else if (status != MH_ERROR_FORMAT || file != NULL || mh_error_message(context)[0] == '\0')
        abort();
    mh_tensor_file_free(file);
    if (fuzz_memory.live != before ||
        fuzz_memory.peak - before > FUZZ_MEMORY_FIXED + size * memory_per_byte)
        abort();
}

static inline void fuzz_parse(const uint8_t *bytes, size_t size)
{
    fuzz_parse_within(bytes, size, FUZZ_MEMORY_PER_BYTE);
}

#endif
