// SPDX-License-Identifier: MIT
// Fuzzes the .npz reader: each input as it is, and as the content of a member, deflated or stored,
// of an archive that is right, so that what is behind the checksum is reached, too.
#include "fuzz_context.h"
#include "zip_support.h"

// Deflate makes up to 1032 bytes of one, and unaligned arrays are copied once more.
enum { INFLATED_PER_BYTE = 2 * 1040 };

static void parse_member(const uint8_t *bytes, size_t size, bool deflated)
{
    const zip_entry entry = {"x.npy", blob_copy(bytes, size), deflated};
    blob archive = zip_make(&entry, 1, deflated ? ZIP_NUMPY : ZIP_64);
    fuzz_parse_within(archive.bytes, archive.size, INFLATED_PER_BYTE);
    blob_free(&archive);
    blob content = entry.content;
    blob_free(&content);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    fuzz_parse_within(bytes, size, INFLATED_PER_BYTE);
    parse_member(bytes, size, false);
    parse_member(bytes, size, true);
    return 0;
}
