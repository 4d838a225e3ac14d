// SPDX-License-Identifier: MIT
// The orientation of a picture, tag 0x0112 of the first directory of its EXIF data, which are a
// small TIFF file: in a segment APP1 of a JPEG file, in a chunk eXIf of a PNG file.
//
//     JPEG    FF D8, then segments FF marker, size (2 bytes, its own included), data ... FF DA
//     PNG     8 bytes, then chunks: size (4 bytes), type, data, checksum
//     TIFF    "II*\0" or "MM\0*", where the directory is; it has a number of entries (2 bytes) and
//             entries of 12 bytes: tag, type, count, value
#include "image/image_internal.h"

typedef struct bytes {
    const unsigned char *at;
    size_t size;
    bool little; // endian
} bytes;

// `count` bytes at `offset` as a number; 0 beyond the end.
static size_t number_at(const bytes *b, size_t offset, size_t count)
{
    size_t value = 0;
    if (offset > b->size || b->size - offset < count)
        return 0;
    for (size_t i = 0; i < count; i++)
        value = value << 8 | b->at[offset + (b->little ? count - 1 - i : i)];
    return value;
}

static int tiff_orientation(bytes tiff)
{
    enum { ORIENTATION = 0x0112, SHORT = 3, ENTRY = 12 };
    if (tiff.size < 8 || (memcmp(tiff.at, "II*\0", 4) != 0 && memcmp(tiff.at, "MM\0*", 4) != 0))
        return 1;
    tiff.little = tiff.at[0] == 'I';
    const size_t directory = number_at(&tiff, 4, 4), entries = number_at(&tiff, directory, 2);
    for (size_t i = 0; i < entries; i++) {
        const size_t entry = directory + 2 + i * ENTRY;
        if (number_at(&tiff, entry, 2) != ORIENTATION || number_at(&tiff, entry + 2, 2) != SHORT)
            continue;
        const size_t value = number_at(&tiff, entry + 8, 2);
        return value >= 1 && value <= 8 ? (int)value : 1;
    }
    return 1;
}

static int jpeg_orientation(const bytes *file)
{
    enum { APP1 = 0xe1, START_OF_SCAN = 0xda, HEADER = 6 };
    for (size_t at = 2; at + 4 <= file->size && file->at[at] == 0xff;) {
        const size_t size = number_at(file, at + 2, 2);
        if (file->at[at + 1] == 0xff) { // fill bytes
            at++;
            continue;
        }
        if (file->at[at + 1] == START_OF_SCAN || size < 2 || size > file->size - at - 2)
            return 1;
        if (file->at[at + 1] == APP1 && size >= 2 + HEADER &&
            memcmp(file->at + at + 4, "Exif\0", HEADER) == 0)
            return tiff_orientation((bytes){file->at + at + 4 + HEADER, size - 2 - HEADER, false});
        at += 2 + size;
    }
    return 1;
}

static int png_orientation(const bytes *file)
{
    enum { AROUND = 12 }; // bytes of a chunk besides its data
    for (size_t at = 8; at + AROUND <= file->size;) {
        const size_t size = number_at(file, at, 4);
        if (size > file->size - at - AROUND)
            return 1;
        if (memcmp(file->at + at + 4, "eXIf", 4) == 0)
            return tiff_orientation((bytes){file->at + at + 8, size, false});
        at += AROUND + size;
    }
    return 1;
}

int mh_exif_orientation(const unsigned char *data, size_t size)
{
    const bytes file = {data, size, false};
    return size >= 2 && data[0] == 0xff ? jpeg_orientation(&file) : png_orientation(&file);
}
