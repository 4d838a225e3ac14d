// SPDX-License-Identifier: MIT
// Picture files: the format by content, the size checked before memory is allocated, and the
// orientation.
#include "base/argument_check.h"
#include "base/compiler.h"
#include "image/image_internal.h"
#include "support/file.h"
#include "support/media_library.h"

// ---- libmultihead-media -------------------------------------------------------------------------

bool mh_media_found(void)
{
    const mh_media *media = mh_media_load();
    return media && media->pictures[0];
}

static bool begins_with(const mh_source *source, const char *magic, size_t size)
{
    return source->size >= size && memcmp(source->bytes, magic, size) == 0;
}

static const mh_media_decoder *find_decoder(const mh_media *media, const mh_source *source)
{
    for (const mh_media_decoder *const *d = media->pictures; *d; d++)
        if (begins_with(source, (*d)->magic, (*d)->magic_bytes))
            return *d;
    return NULL;
}

static mh_status bad_picture(const mh_source *source, const mh_media_decoder *decoder,
                             const char *message)
{
    return mh_source_fail(source, MH_ERROR_FORMAT, "not a valid %s file: %s", decoder->name,
                          message);
}

static mh_status decode_picture(const mh_source *source, const mh_media_decoder *decoder,
                                size_t most_pixels, mh_image *image)
{
    char message[MH_MEDIA_MESSAGE] = "";
    mh_media_picture picture = {0};
    if (!decoder->describe(source->bytes, source->size, &picture, message))
        return bad_picture(source, decoder, message);
    MH_TRY(mh_image_check_size(source, most_pixels, picture.width, picture.height));
    if (picture.least > source->size)
        return mh_source_fail(source, MH_ERROR_FORMAT,
                              "found a picture of %zu x %zu in %zu bytes, expected at least %zu",
                              picture.width, picture.height, source->size, picture.least);
    MH_TRY(
        mh_image_create(source->context, picture.width, picture.height, picture.channels, image));
    mh_status status =
        decoder->decode(source->bytes, source->size, &picture, image->pixels, message)
            ? mh_image_orient(source->context, mh_exif_orientation(source->bytes, source->size),
                              image)
            : bad_picture(source, decoder, message);
    if (status)
        mh_image_free(source->context, image);
    return status;
}

// ---- by content ---------------------------------------------------------------------------------

// The name of a format that we know by its first bytes, of RIFF files also by those from 8 on; or
// NULL.
static const char *name_format(const mh_source *source)
{
    static const struct {
        const char *magic, *form, *name;
    } formats[] = {{"\x89PNG\r\n\x1a\n", "", "PNG"},
                   {"\xff\xd8\xff", "", "JPEG"},
                   {"GIF8", "", "GIF"},
                   {"BM", "", "BMP"},
                   {"II*", "", "TIFF"},
                   {"MM", "", "TIFF"},
                   {"RIFF", "WEBP", "WebP"},
                   {"RIFF", "WAVE", "WAV"}};
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++) {
        const size_t size = strlen(formats[i].form);
        if (begins_with(source, formats[i].magic, strlen(formats[i].magic)) &&
            (size == 0 ||
             (source->size >= 8 + size && memcmp(source->bytes + 8, formats[i].form, size) == 0)))
            return formats[i].name;
    }
    return NULL;
}

static mh_status refuse_format(const mh_source *source, bool media)
{
    static const char advice[] =
        "which needs " MH_MEDIA_LIBRARY " ('make media' builds it); PPM and PGM files do not";
    const char *name = name_format(source);
    if (name && !media && (strcmp(name, "PNG") == 0 || strcmp(name, "JPEG") == 0))
        return mh_source_fail(source, MH_ERROR_UNSUPPORTED, "found a %s file, %s", name, advice);
    return mh_source_fail(source, MH_ERROR_UNSUPPORTED,
                          "found %s%s, expected a picture: PNG, JPEG, PPM or PGM",
                          name ? "a file of type " : "an unknown kind of file", name ? name : "");
}

static mh_status read_source(const mh_source *source, size_t most_pixels, mh_image *image)
{
    if (source->size == 0)
        return mh_source_fail(source, MH_ERROR_FORMAT, "the file is empty, expected a picture");
    if (mh_is_pnm(source))
        return mh_pnm_read(source, most_pixels, image);
    const mh_media *media = mh_media_load();
    const mh_media_decoder *decoder = media ? find_decoder(media, source) : NULL;
    return decoder ? decode_picture(source, decoder, most_pixels, image)
                   : refuse_format(source, mh_media_found());
}

mh_status mh_image_parse(mh_context *context, const char *name, const void *bytes, size_t size,
                         mh_image *image)
{
    return mh_image_parse_within(context, name, bytes, size, MH_IMAGE_PIXELS_MAX, image);
}

mh_status mh_image_parse_within(mh_context *context, const char *name, const void *bytes,
                                size_t size, size_t most_pixels, mh_image *image)
{
    MH_TRY(MH_NEED(context, {"image", image}));
    *image = (mh_image){0};
    MH_TRY(MH_NEED(context, {"bytes", mh_array(bytes, size)}));
    const mh_source source = {context, name ? name : "picture", bytes, size};
    return read_source(
        &source, most_pixels < MH_IMAGE_PIXELS_MAX ? most_pixels : MH_IMAGE_PIXELS_MAX, image);
}

mh_status mh_image_read(mh_context *context, const char *path, mh_image *image)
{
    mh_mapping mapping;
    MH_TRY(MH_NEED(context, {"image", image}));
    *image = (mh_image){0};
    MH_TRY(MH_NEED(context, {"path", path}));
    MH_TRY(mh_file_map(context, path, &mapping));
    const mh_source source = {context, path, mapping.data, mapping.size};
    mh_status status = read_source(&source, MH_IMAGE_PIXELS_MAX, image);
    mh_file_unmap(&mapping);
    return status;
}
