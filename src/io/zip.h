// SPDX-License-Identifier: MIT
// The members of a ZIP archive, as numpy.savez and torch.save write it: stored or deflated, with
// or without ZIP64 fields and data descriptors. The directory at the end is authoritative:
//
//     [local header, name, extra][data] ...  [directory entry, name, extra, comment] ...
//     [ZIP64 end, ZIP64 locator]             only where 16 or 32 bits are too few
//     [end of directory, comment]
//
// Every range is checked to be within the file, and members share no bytes.
#ifndef MH_IO_ZIP_H
#define MH_IO_ZIP_H

#include "support/source.h"

typedef struct mh_zip {
    const mh_source *source;
    size_t at, end;   // the rest of the directory
    size_t left;      // members not read yet
    size_t directory; // where it begins: members are before it
    size_t used;      // bytes of all members so far
} mh_zip;

typedef struct mh_zip_member {
    const char *name; // in the file, not terminated
    size_t name_size;
    bool deflated;
    uint32_t crc;
    const unsigned char *bytes; // (compressed)
    size_t compressed, size;
} mh_zip_member;

// Finds the directory. MH_ERROR_FORMAT, here and below, for damaged or unsupported archives.
mh_status mh_zip_open(const mh_source *source, mh_zip *zip);

// The next of zip->left members. `size` is within deflate's maximum ratio to `compressed`.
mh_status mh_zip_next(mh_zip *zip, mh_zip_member *member);

// The space for an inflated member: a multiple of the alignment, 0 only for stored ones.
size_t mh_zip_room(const mh_zip_member *member);

// Inflates a member to exactly member->size bytes. `source` is for memory and messages.
mh_status mh_zip_inflate(const mh_source *source, const mh_zip_member *member, unsigned char *to);

// Whether the bytes of `source` have this CRC-32.
mh_status mh_zip_check(const mh_source *source, uint32_t expected);

#endif
