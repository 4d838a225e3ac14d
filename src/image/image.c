// SPDX-License-Identifier: MIT
// Pictures in memory: limits, memory, channels and orientation.
#include "base/argument_check.h"
#include "base/compiler.h"
#include "image/image_internal.h"

bool mh_image_size_fits(size_t width, size_t height)
{
    return width >= 1 && height >= 1 && width <= MH_IMAGE_SIDE_MAX && height <= MH_IMAGE_SIDE_MAX &&
           width * height <= MH_IMAGE_PIXELS_MAX;
}

mh_status mh_image_check_size(const mh_source *source, size_t most_pixels, size_t width,
                              size_t height)
{
    if (mh_image_size_fits(width, height) && width * height <= most_pixels)
        return MH_OK;
    return mh_source_fail(source, MH_ERROR_FORMAT,
                          "found a picture of %zu x %zu, expected sides from 1 to %d and at most "
                          "%zu pixels",
                          width, height, MH_IMAGE_SIDE_MAX, most_pixels);
}

mh_status mh_image_create(mh_context *context, size_t width, size_t height, size_t channels,
                          mh_image *image)
{
    *image = (mh_image){.width = width, .height = height, .channels = channels};
    image->pixels = mh_alloc(context, mh_image_bytes(image));
    if (image->pixels)
        return MH_OK;
    *image = (mh_image){0};
    return MH_ERROR_MEMORY;
}

void mh_image_free(mh_context *context, mh_image *image)
{
    if (!image)
        return;
    mh_free(context, image->pixels, mh_image_bytes(image));
    *image = (mh_image){0};
}

mh_status mh_image_check(mh_context *context, const char *name, const mh_image *image)
{
    MH_TRY(MH_NEED(context, {name, image}, {"pixels", image ? image->pixels : NULL}));
    if (image->channels != 1 && image->channels != 3)
        return mh_fail(context, MH_ERROR_ARGUMENT, "%s: found %zu channels, expected 1 or 3", name,
                       image->channels);
    if (!mh_image_size_fits(image->width, image->height))
        return mh_fail(context, MH_ERROR_ARGUMENT,
                       "%s: found %zu x %zu, expected sides from 1 to %d and at most %d pixels",
                       name, image->width, image->height, MH_IMAGE_SIDE_MAX, MH_IMAGE_PIXELS_MAX);
    return MH_OK;
}

// ---- channels -----------------------------------------------------------------------------------

static unsigned char luma(const unsigned char *rgb)
{
    return (unsigned char)((rgb[0] * 19595u + rgb[1] * 38470u + rgb[2] * 7471u + 0x8000u) >> 16);
}

mh_status mh_image_convert(mh_context *context, const mh_image *image, size_t channels,
                           mh_image *converted)
{
    const size_t count = image->width * image->height;
    const unsigned char *from = image->pixels;
    MH_TRY(mh_image_create(context, image->width, image->height, channels, converted));
    unsigned char *to = converted->pixels;
    if (image->channels == channels)
        memcpy(to, from, mh_image_bytes(image));
    else if (channels == 1)
        for (size_t i = 0; i < count; i++)
            to[i] = luma(from + 3 * i);
    else
        for (size_t i = 0; i < count; i++)
            memset(to + 3 * i, from[i], 3);
    return MH_OK;
}

// ---- orientation --------------------------------------------------------------------------------

// Where pixel (x, y) of the rotated picture comes from:
//
//     1 upright           2 mirrored          3 by 180 degrees    4 upside down
//     5 transposed        6 a quarter left    7 transversed       8 a quarter right
static size_t oriented_pixel(const mh_image *from, int orientation, size_t x, size_t y)
{
    const size_t w = from->width, h = from->height;
    const size_t across = orientation >= 5 ? y : x, down = orientation >= 5 ? x : y;
    const bool mirrored =
        orientation == 2 || orientation == 3 || orientation == 7 || orientation == 8;
    const bool flipped =
        orientation == 3 || orientation == 4 || orientation == 6 || orientation == 7;
    return (flipped ? h - 1 - down : down) * w + (mirrored ? w - 1 - across : across);
}

mh_status mh_image_orient(mh_context *context, int orientation, mh_image *image)
{
    mh_image rotated;
    if (orientation < 2 || orientation > 8)
        return MH_OK;
    const bool sideways = orientation >= 5;
    const size_t C = image->channels;
    MH_TRY(mh_image_create(context, sideways ? image->height : image->width,
                           sideways ? image->width : image->height, C, &rotated));
    for (size_t y = 0; y < rotated.height; y++)
        for (size_t x = 0; x < rotated.width; x++)
            memcpy(rotated.pixels + (y * rotated.width + x) * C,
                   image->pixels + oriented_pixel(image, orientation, x, y) * C, C);
    mh_image_free(context, image);
    *image = rotated;
    return MH_OK;
}
