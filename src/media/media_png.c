// SPDX-License-Identifier: MIT
// PNG by libpng: 8-bit gray or RGB, whatever the file has. Limits are set before anything is read:
// no chunk but those of the pixels is stored, so that compressed texts and profiles inflate
// nothing.
#include "media/media_decoders.h"
#include <png.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct png_job {
    png_structp png;
    png_infop info;
    const unsigned char *bytes;
    size_t size, at;
    char *message;
} png_job;

static void png_refuse(png_structp png, png_const_charp text)
{
    png_job *job = png_get_error_ptr(png);
    snprintf(job->message, MH_MEDIA_MESSAGE, "%s", text);
    png_longjmp(png, 1);
}

// Such as a wrong checksum of a chunk that is not needed.
static void png_ignore(png_structp png, png_const_charp text)
{
    (void)png;
    (void)text;
}

static void png_take(png_structp png, png_bytep to, size_t count)
{
    png_job *job = png_get_io_ptr(png);
    if (count > job->size - job->at)
        png_error(png, "the file ends early");
    memcpy(to, job->bytes + job->at, count);
    job->at += count;
}

static bool png_begin(png_job *job)
{
    enum { SIDE_MAX = 65535 };
    job->png = png_create_read_struct(PNG_LIBPNG_VER_STRING, job, png_refuse, png_ignore);
    job->info = job->png ? png_create_info_struct(job->png) : NULL;
    if (!job->info) {
        snprintf(job->message, MH_MEDIA_MESSAGE, "out of memory");
        return false;
    }
    png_set_read_fn(job->png, job, png_take);
    png_set_user_limits(job->png, SIDE_MAX, SIDE_MAX);
    png_set_keep_unknown_chunks(job->png, PNG_HANDLE_CHUNK_NEVER, NULL, -1);
    return true;
}

// Raw bytes are compressed 1032 times at most.
static void png_describe_read(png_job *job, mh_media_picture *picture)
{
    png_read_info(job->png, job->info);
    const png_byte colour = png_get_color_type(job->png, job->info);
    picture->width = png_get_image_width(job->png, job->info);
    picture->height = png_get_image_height(job->png, job->info);
    picture->channels = colour & PNG_COLOR_MASK_COLOR ? 3 : 1;
    picture->least = (png_get_rowbytes(job->png, job->info) * picture->height) / 1032;
}

static void png_decode_rows(png_job *job, const mh_media_picture *picture, png_bytep *rows)
{
    png_read_info(job->png, job->info);
    png_set_expand(job->png);
    png_set_strip_16(job->png);
    png_set_strip_alpha(job->png);
    png_set_interlace_handling(job->png);
    png_read_update_info(job->png, job->info);
    if (png_get_rowbytes(job->png, job->info) != picture->width * picture->channels ||
        png_get_image_height(job->png, job->info) != picture->height)
        png_error(job->png, "the file has changed"); // since it was described, as it is mapped
    png_read_image(job->png, rows);
    png_read_end(job->png, NULL);
}

static bool png_describe(const unsigned char *bytes, size_t size, mh_media_picture *picture,
                         char *message)
{
    png_job job = {.bytes = bytes, .size = size, .message = message};
    volatile bool done = false;
    if (png_begin(&job) && !setjmp(png_jmpbuf(job.png))) {
        png_describe_read(&job, picture);
        done = true;
    }
    png_destroy_read_struct(&job.png, &job.info, NULL);
    return done;
}

static bool png_decode(const unsigned char *bytes, size_t size, const mh_media_picture *picture,
                       unsigned char *pixels, char *message)
{
    png_job job = {.bytes = bytes, .size = size, .message = message};
    volatile bool done = false;
    png_bytep *rows = calloc(picture->height, sizeof *rows);
    for (size_t y = 0; rows && y < picture->height; y++)
        rows[y] = pixels + y * picture->width * picture->channels;
    if (!rows) {
        snprintf(message, MH_MEDIA_MESSAGE, "out of memory");
    } else if (png_begin(&job) && !setjmp(png_jmpbuf(job.png))) {
        png_decode_rows(&job, picture, rows);
        done = true;
    }
    png_destroy_read_struct(&job.png, &job.info, NULL);
    free(rows);
    return done;
}

const mh_media_decoder mh_media_png = {
    .name = "PNG",
    .magic = "\x89PNG\r\n\x1a\n",
    .magic_bytes = 8,
    .describe = png_describe,
    .decode = png_decode,
};
