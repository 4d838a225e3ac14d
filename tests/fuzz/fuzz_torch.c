// SPDX-License-Identifier: MIT
// Fuzzes the readers of PyTorch checkpoints: each input as it is, and as the pickle of an archive
// and of a legacy file that are right otherwise, so that the pickle machine is reached.
#include "fuzz_context.h"
#include "torch_support.h"

// Values, nodes and containers of a pickle, each in an array that doubles.
enum { MEMORY_PER_BYTE = 128, INFLATED_PER_BYTE = 2 * 1040 };

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    fuzz_parse_within(bytes, size, INFLATED_PER_BYTE);
    blob archive = torch_zip(bytes, size, (torch_zip_options){.style = ZIP_PLAIN});
    fuzz_parse_within(archive.bytes, archive.size, MEMORY_PER_BYTE);
    blob_free(&archive);
    blob legacy = torch_legacy(bytes, size, (torch_legacy_options){0});
    fuzz_parse_within(legacy.bytes, legacy.size, MEMORY_PER_BYTE);
    blob_free(&legacy);
    return 0;
}
