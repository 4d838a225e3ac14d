// SPDX-License-Identifier: MIT
// multihead/image.h: pictures: reading files, and resizing as Pillow does.
//
// Files are untrusted input: sizes are checked before memory is allocated, and every error names
// the file, what was found and what was expected. PPM and PGM are read by libmultihead-model
// itself, PNG and JPEG through libmultihead-media, which is loaded when it is first needed: it
// links libpng and libjpeg, and may be missing.
//
// Part of libmultihead-model. Stability: experimental.
#ifndef MULTIHEAD_IMAGE_H
#define MULTIHEAD_IMAGE_H

#include <multihead/base.h>

#ifdef __cplusplus
extern "C" {
#endif

// Limits of every picture, read or made: of each side, and of the product of both.
enum { MH_IMAGE_SIDE_MAX = 65535, MH_IMAGE_PIXELS_MAX = 1 << 27 };

// A picture of 8 bits per channel. A caller may fill it in to describe pixels of its own.
typedef struct mh_image {
    size_t width, height;
    size_t channels;       // 1: gray, 3: red, green, blue
    unsigned char *pixels; // (height, width, channels)
} mh_image;

// Reads a picture file; the format is detected from the content:
//
//     .ppm, .pgm     P2, P3, P5, P6; more or fewer than 8 bits are scaled to 8
//     .png, .jpeg    by libmultihead-media. Palettes become colours, 16 bits 8 bits, CMYK RGB;
//                    alpha is dropped, as by Pillow's convert("RGB")
//
// A picture is rotated as the orientation of its EXIF data says. *image is new, to be freed with
// mh_image_free, and all zeros after an error. Errors: MH_ERROR_FILE, MH_ERROR_FORMAT (invalid, or
// larger than the limits), MH_ERROR_UNSUPPORTED (a format that is not known, or libmultihead-media
// is not there), MH_ERROR_MEMORY.
MH_API MH_MUST_CHECK mh_status mh_image_read(mh_context *context, const char *path,
                                             mh_image *image);

// The same for bytes in memory; `name` (or NULL) replaces the path in messages.
MH_API MH_MUST_CHECK mh_status mh_image_parse(mh_context *context, const char *name,
                                              const void *bytes, size_t size, mh_image *image);

// The same with a lower limit of pixels, which is checked before memory is allocated: a small file
// may describe a large picture.
MH_API MH_MUST_CHECK mh_status mh_image_parse_within(mh_context *context, const char *name,
                                                     const void *bytes, size_t size,
                                                     size_t most_pixels, mh_image *image);

// Frees the pixels of a picture that was read or made with this context, or with one of the same
// allocator. All zeros and NULL are allowed.
MH_API void mh_image_free(mh_context *context, mh_image *image);

// Whether libmultihead-media is there and decodes PNG and JPEG. Any thread.
MH_API bool mh_media_found(void);

// Filters, numbered as Pillow's Image.Resampling. All but the first blur before they shrink
// (antialias).
typedef enum mh_resample {
    MH_RESAMPLE_NEAREST = 0,
    MH_RESAMPLE_LANCZOS = 1,
    MH_RESAMPLE_BILINEAR = 2,
    MH_RESAMPLE_BICUBIC = 3,
    MH_RESAMPLE_BOX = 4,
    MH_RESAMPLE_HAMMING = 5,
} mh_resample;

// *resized = the picture in another size, a new one: the same bytes as Pillow's resize().
// Errors: MH_ERROR_ARGUMENT, MH_ERROR_MEMORY.
MH_API MH_MUST_CHECK mh_status mh_image_resize(mh_context *context, const mh_image *image,
                                               mh_resample filter, size_t width, size_t height,
                                               mh_image *resized);

#ifdef __cplusplus
}
#endif
#endif
