// SPDX-License-Identifier: MIT
// Fuzzes picture files: each input as it is, and once more with what is only in a decoder's way:
// the checksums of a PNG file are made right. Sides of PNG and JPEG pictures are kept below 4096
// and 256, as a picture of the largest size takes seconds. What was read is resized.
#include "fuzz_context.h"
#include "image/image_internal.h"

#include <zlib.h>

static const uint8_t png_magic[8] = {0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n'};

static void resize_and_free(mh_context *context, mh_image *image, size_t seed)
{
    mh_image resized;
    const mh_resample filter = (mh_resample)(seed % 6);
    if (mh_image_resize(context, image, filter, 1 + seed % 9, 1 + seed % 11, &resized) != MH_OK)
        abort();
    mh_image_free(context, &resized);
    mh_image_free(context, image);
}

static void read_picture(const uint8_t *bytes, size_t size)
{
    mh_context *context = fuzz_context();
    const size_t before = fuzz_memory.live;
    mh_image image;
    const mh_status status = mh_image_parse(context, "fuzz", bytes, size, &image);
    if (status == MH_OK)
        resize_and_free(context, &image, size);
    else if ((status != MH_ERROR_FORMAT && status != MH_ERROR_UNSUPPORTED) || image.pixels ||
             mh_error_message(context)[0] == '\0')
        abort();
    if (fuzz_memory.live != before)
        abort();
    const int orientation = mh_exif_orientation(bytes, size);
    if (orientation < 1 || orientation > 8)
        abort();
}

static uint32_t number_at(const uint8_t *bytes)
{
    return (uint32_t)bytes[0] << 24 | (uint32_t)bytes[1] << 16 | (uint32_t)bytes[2] << 8 | bytes[3];
}

static void repair_png(uint8_t *bytes, size_t size)
{
    if (size > 24) // width and height
        bytes[16] = bytes[17] = bytes[20] = bytes[21] = 0, bytes[18] &= 15, bytes[22] &= 15;
    for (size_t at = 8; at + 12 <= size;) {
        const size_t data = number_at(bytes + at);
        if (data > size - at - 12)
            return;
        const uint32_t sum = (uint32_t)crc32(0, bytes + at + 4, (uInt)data + 4);
        for (int i = 0; i < 4; i++)
            bytes[at + 8 + data + (size_t)i] = (uint8_t)(sum >> (24 - 8 * i));
        at += 12 + data;
    }
}

// Every frame's height and width, of which the decoder takes one.
static void repair_jpeg(uint8_t *bytes, size_t size)
{
    for (size_t i = 0; i + 9 < size; i++)
        if (bytes[i] == 0xff && bytes[i + 1] >= 0xc0 && bytes[i + 1] <= 0xcf)
            bytes[i + 5] = bytes[i + 7] = 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    const bool png = size >= 8 && memcmp(bytes, png_magic, 8) == 0;
    const bool jpeg = size >= 3 && bytes[0] == 0xff && bytes[1] == 0xd8;
    blob copy = blob_copy(bytes, size);
    if (!jpeg)
        read_picture(bytes, size);
    if (png)
        repair_png(copy.bytes, copy.size);
    else if (jpeg)
        repair_jpeg(copy.bytes, copy.size);
    if (png || jpeg)
        read_picture(copy.bytes, copy.size);
    blob_free(&copy);
    return 0;
}
