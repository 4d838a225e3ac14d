// SPDX-License-Identifier: MIT
// JPEG by libjpeg: with its slow, exact integer transform and smooth upsampling, its defaults, so
// that pixels are those of other programs. What it only warns of, a file that ends early above all,
// is an error, but not surplus bytes between segments, which some cameras write and no pixel
// depends on. More than 100 scans, which let a small file take minutes, are an error, too.
#include "media/media_decoders.h"
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jpeglib.h> // needs stdio.h

#include <jerror.h> // needs jpeglib.h

enum { SCANS_MOST = 100 };

typedef struct jpeg_job {
    struct jpeg_decompress_struct jpeg;
    struct jpeg_error_mgr errors;
    struct jpeg_progress_mgr progress;
    jmp_buf failed;
    char *message;
} jpeg_job;

static void jpeg_refuse(j_common_ptr jpeg)
{
    jpeg_job *job = jpeg->client_data;
    char text[JMSG_LENGTH_MAX];
    jpeg->err->format_message(jpeg, text);
    snprintf(job->message, MH_MEDIA_MESSAGE, "%.*s", MH_MEDIA_MESSAGE - 1, text);
    longjmp(job->failed, 1);
}

// Warnings have level -1, traces 0 and more.
static void jpeg_emit(j_common_ptr jpeg, int level)
{
    if (level < 0 && jpeg->err->msg_code != JWRN_EXTRANEOUS_DATA)
        jpeg_refuse(jpeg);
}

static void jpeg_count_scans(j_common_ptr jpeg)
{
    jpeg_job *job = jpeg->client_data;
    if (job->jpeg.input_scan_number <= SCANS_MOST)
        return;
    snprintf(job->message, MH_MEDIA_MESSAGE, "more than %d scans", SCANS_MOST);
    longjmp(job->failed, 1);
}

static void jpeg_begin(jpeg_job *job, const unsigned char *bytes, size_t size)
{
    jpeg_create_decompress(&job->jpeg);
    job->jpeg.client_data = job;
    job->progress.progress_monitor = jpeg_count_scans;
    job->jpeg.progress = &job->progress;
    jpeg_mem_src(&job->jpeg, bytes, size);
    jpeg_read_header(&job->jpeg, TRUE);
}

static void jpeg_prepare(jpeg_job *job, char *message)
{
    memset(job, 0, sizeof *job);
    job->message = message;
    job->jpeg.err = jpeg_std_error(&job->errors);
    job->errors.error_exit = jpeg_refuse;
    job->errors.emit_message = jpeg_emit;
    job->jpeg.client_data = job;
}

static bool is_cmyk(const jpeg_job *job)
{
    return job->jpeg.jpeg_color_space == JCS_CMYK || job->jpeg.jpeg_color_space == JCS_YCCK;
}

// 255 - C, M, Y and K, as Adobe writes them, to red, green and blue. Files that do not say that
// they are Adobe's are taken for such by Pillow, too.
static void convert_cmyk(const unsigned char *from, size_t count, unsigned char *to)
{
    for (size_t i = 0; i < count; i++, from += 4, to += 3) {
        const unsigned light = from[3];
        for (size_t c = 0; c < 3; c++) {
            const unsigned product = (255u - from[c]) * light + 128;
            to[c] = (unsigned char)(light - ((product >> 8) + product) / 256);
        }
    }
}

static void jpeg_describe_header(const jpeg_job *job, mh_media_picture *picture)
{
    picture->width = job->jpeg.image_width;
    picture->height = job->jpeg.image_height;
    picture->channels = job->jpeg.jpeg_color_space == JCS_GRAYSCALE ? 1 : 3;
    picture->least = 0; // a run of equal blocks takes a bit or less
}

// A file that is mapped may have changed since it was described.
static void jpeg_check_header(jpeg_job *job, const mh_media_picture *picture)
{
    mh_media_picture now;
    jpeg_describe_header(job, &now);
    if (now.width == picture->width && now.height == picture->height &&
        now.channels == picture->channels)
        return;
    snprintf(job->message, MH_MEDIA_MESSAGE, "the file has changed");
    longjmp(job->failed, 1);
}

static void jpeg_decode_rows(jpeg_job *job, const mh_media_picture *picture, unsigned char *pixels,
                             unsigned char *scratch)
{
    struct jpeg_decompress_struct *jpeg = &job->jpeg;
    const size_t row = picture->width * picture->channels;
    jpeg->out_color_space = is_cmyk(job)             ? JCS_CMYK
                            : picture->channels == 1 ? JCS_GRAYSCALE
                                                     : JCS_RGB;
    jpeg_start_decompress(jpeg);
    while (jpeg->output_scanline < jpeg->output_height) {
        unsigned char *to = pixels + jpeg->output_scanline * row;
        JSAMPROW line = is_cmyk(job) ? scratch : to;
        jpeg_read_scanlines(jpeg, &line, 1);
        if (is_cmyk(job))
            convert_cmyk(scratch, picture->width, to);
    }
    jpeg_finish_decompress(jpeg);
}

static bool jpeg_describe(const unsigned char *bytes, size_t size, mh_media_picture *picture,
                          char *message)
{
    jpeg_job job;
    volatile bool done = false;
    jpeg_prepare(&job, message);
    if (!setjmp(job.failed)) {
        jpeg_begin(&job, bytes, size);
        jpeg_describe_header(&job, picture);
        done = true;
    }
    jpeg_destroy_decompress(&job.jpeg);
    return done;
}

static bool jpeg_decode(const unsigned char *bytes, size_t size, const mh_media_picture *picture,
                        unsigned char *pixels, char *message)
{
    jpeg_job job;
    volatile bool done = false;
    unsigned char *scratch = malloc(4 * picture->width);
    jpeg_prepare(&job, message);
    if (!scratch) {
        snprintf(message, MH_MEDIA_MESSAGE, "out of memory");
    } else if (!setjmp(job.failed)) {
        jpeg_begin(&job, bytes, size);
        jpeg_check_header(&job, picture);
        jpeg_decode_rows(&job, picture, pixels, scratch);
        done = true;
    }
    jpeg_destroy_decompress(&job.jpeg);
    free(scratch);
    return done;
}

const mh_media_decoder mh_media_jpeg = {
    .name = "JPEG",
    .magic = "\xff\xd8\xff",
    .magic_bytes = 3,
    .describe = jpeg_describe,
    .decode = jpeg_decode,
};
