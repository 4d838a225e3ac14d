// SPDX-License-Identifier: MIT
// Pictures in memory, shared by their readers.
#ifndef MH_IMAGE_IMAGE_INTERNAL_H
#define MH_IMAGE_IMAGE_INTERNAL_H

#include "support/source.h"

#include <multihead/image.h>

// Bytes of the pixels; sizes are within the limits.
static inline size_t mh_image_bytes(const mh_image *image)
{
    return image->width * image->height * image->channels;
}

// Whether both sides, at least 1, are within the limits.
bool mh_image_size_fits(size_t width, size_t height);

// MH_ERROR_FORMAT unless that is so, and there are at most so many pixels.
mh_status mh_image_check_size(const mh_source *source, size_t most_pixels, size_t width,
                              size_t height);

// Allocates pixels for sizes that fit. Error: MH_ERROR_MEMORY.
mh_status mh_image_create(mh_context *context, size_t width, size_t height, size_t channels,
                          mh_image *image);

// MH_ERROR_ARGUMENT unless the picture of a caller is valid.
mh_status mh_image_check(mh_context *context, const char *name, const mh_image *image);

// *converted = the picture with so many channels, a new one: gray is repeated, and colours are
// weighted as ITU-R 601-2 does, with Pillow's rounding.
mh_status mh_image_convert(mh_context *context, const mh_image *image, size_t channels,
                           mh_image *converted);

// Turns the picture as an EXIF orientation from 1 to 8 says; others leave it.
mh_status mh_image_orient(mh_context *context, int orientation, mh_image *image);

// ---- readers, by content ------------------------------------------------------------------------

bool mh_is_pnm(const mh_source *source);
mh_status mh_pnm_read(const mh_source *source, size_t most_pixels, mh_image *image);

// The orientation in the EXIF data of a PNG or JPEG file, 1 if there is none. Whatever is wrong
// with the data, they are ignored, as by all viewers.
int mh_exif_orientation(const unsigned char *bytes, size_t size);

#endif
