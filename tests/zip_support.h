// SPDX-License-Identifier: MIT
// Makes ZIP archives as numpy.savez and others write them, for tests, fuzzers and the command's
// tests.
#ifndef MH_TESTS_ZIP_SUPPORT_H
#define MH_TESTS_ZIP_SUPPORT_H

#include "file_support.h"

#include <zlib.h>

typedef struct zip_entry {
    const char *name;
    blob content;  // stays the caller's
    bool deflated; // as numpy.savez_compressed does
} zip_entry;

typedef enum zip_style {
    ZIP_PLAIN,
    ZIP_NUMPY, // ZIP64 fields in local headers, whatever the sizes
    ZIP_64,    // ZIP64 everywhere
    ZIP_PIPED  // sizes of local headers are 0 and follow the data
} zip_style;

static inline void zip_put(blob *b, const void *bytes, size_t size)
{
    b->bytes = realloc(b->bytes, b->size + size + 1);
    if (b->bytes == NULL)
        abort();
    if (size != 0)
        memcpy(b->bytes + b->size, bytes, size);
    b->size += size;
}

static inline void zip_number(blob *b, uint64_t value, int size)
{
    for (int i = 0; i < size; i++) {
        const unsigned char byte = (unsigned char)(value >> (8 * i));
        zip_put(b, &byte, 1);
    }
}

static inline blob zip_deflate(blob content)
{
    z_stream z = {0};
    if (deflateInit2(&z, 6, Z_DEFLATED, -15, 8, Z_DEFAULT_STRATEGY) != Z_OK)
        abort();
    blob out = {malloc(deflateBound(&z, content.size)), deflateBound(&z, content.size)};
    z.next_in = content.bytes;
    z.avail_in = (unsigned)content.size;
    z.next_out = out.bytes;
    z.avail_out = (unsigned)out.size;
    if (out.bytes == NULL || deflate(&z, Z_FINISH) != Z_STREAM_END)
        abort();
    out.size -= z.avail_out;
    deflateEnd(&z);
    return out;
}

// Version, flags, method, date and checksum: what both headers begin with.
static inline void zip_common(blob *b, const zip_entry *e, zip_style style, uint32_t crc)
{
    zip_number(b, 20, 2);
    zip_number(b, style == ZIP_PIPED ? 8 : 0, 2);
    zip_number(b, e->deflated ? 8 : 0, 2);
    zip_number(b, 0x00210000, 4);
    zip_number(b, crc, 4);
}

static inline void zip_local(blob *b, const zip_entry *e, zip_style style, const blob *data,
                             uint32_t crc)
{
    const bool wide = style == ZIP_NUMPY || style == ZIP_64, piped = style == ZIP_PIPED;
    zip_number(b, 0x04034B50, 4);
    zip_common(b, e, style, piped ? 0 : crc);
    zip_number(b, wide ? 0xFFFFFFFF : piped ? 0 : data->size, 4);
    zip_number(b, wide ? 0xFFFFFFFF : piped ? 0 : e->content.size, 4);
    zip_number(b, strlen(e->name), 2);
    zip_number(b, wide ? 20 : 0, 2);
    zip_put(b, e->name, strlen(e->name));
    if (wide) {
        zip_number(b, 1, 2);
        zip_number(b, 16, 2);
        zip_number(b, e->content.size, 8);
        zip_number(b, data->size, 8);
    }
    zip_put(b, data->bytes, data->size);
    if (piped) {
        zip_number(b, 0x08074B50, 4);
        zip_number(b, crc, 4);
        zip_number(b, data->size, 4);
        zip_number(b, e->content.size, 4);
    }
}

static inline void zip_directory_entry(blob *b, const zip_entry *e, zip_style style, size_t packed,
                                       uint32_t crc, size_t offset)
{
    const bool wide = style == ZIP_64;
    zip_number(b, 0x02014B50, 4);
    zip_number(b, 0x0314, 2);
    zip_common(b, e, style, crc);
    zip_number(b, wide ? 0xFFFFFFFF : packed, 4);
    zip_number(b, wide ? 0xFFFFFFFF : e->content.size, 4);
    zip_number(b, strlen(e->name), 2);
    zip_number(b, wide ? 36 : 0, 2);
    zip_number(b, 0, 2 + 2 + 2); // comment, disk, internal attributes
    zip_number(b, 0, 4);
    zip_number(b, wide ? 0xFFFFFFFF : offset, 4);
    zip_put(b, e->name, strlen(e->name));
    if (wide) {
        zip_number(b, 0x7075, 2); // another field before it
        zip_number(b, 4, 2);
        zip_number(b, 0, 4);
        zip_number(b, 1, 2);
        zip_number(b, 24, 2);
        zip_number(b, e->content.size, 8);
        zip_number(b, packed, 8);
        zip_number(b, offset, 8);
    }
}

static inline void zip_end(blob *b, zip_style style, size_t count, size_t directory)
{
    const size_t at = b->size, size = at - directory;
    const bool wide = style == ZIP_64;
    if (wide) {
        zip_number(b, 0x06064B50, 4);
        zip_number(b, 44, 8);
        zip_number(b, 45 | 45 << 16, 4);
        zip_number(b, 0, 8);
        zip_number(b, count, 8);
        zip_number(b, count, 8);
        zip_number(b, size, 8);
        zip_number(b, directory, 8);
        zip_number(b, 0x07064B50, 4);
        zip_number(b, 0, 4);
        zip_number(b, at, 8);
        zip_number(b, 1, 4);
    }
    zip_number(b, 0x06054B50, 4);
    zip_number(b, 0, 4);
    zip_number(b, wide ? 0xFFFF : count, 2);
    zip_number(b, wide ? 0xFFFF : count, 2);
    zip_number(b, wide ? 0xFFFFFFFF : size, 4);
    zip_number(b, wide ? 0xFFFFFFFF : directory, 4);
    zip_number(b, 0, 2);
}

static inline blob zip_make(const zip_entry *entries, size_t count, zip_style style)
{
    blob archive = {0}, directory = {0};
    for (size_t i = 0; i < count; i++) {
        const zip_entry *e = &entries[i];
        const uint32_t crc = (uint32_t)crc32_z(0, e->content.bytes, e->content.size);
        blob data =
            e->deflated ? zip_deflate(e->content) : blob_copy(e->content.bytes, e->content.size);
        zip_directory_entry(&directory, e, style, data.size, crc, archive.size);
        zip_local(&archive, e, style, &data, crc);
        blob_free(&data);
    }
    const size_t start = archive.size;
    zip_put(&archive, directory.bytes, directory.size);
    zip_end(&archive, style, count, start);
    blob_free(&directory);
    blob exact = blob_copy(archive.bytes, archive.size); // a sanitizer sees reads past the end
    blob_free(&archive);
    return exact;
}

#endif
