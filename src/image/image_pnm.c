// SPDX-License-Identifier: MIT
// PPM and PGM, in text (P2, P3) and binary (P5, P6).
//
//     P6          magic
//     4 2         width, height; "# ..." to the end of a line is a comment
//     255         the largest value, then one byte of whitespace
//     24 bytes    height rows of width pixels; above 255 two bytes per value, big-endian
//
// Values are scaled by 255 / largest and rounded to even, as Pillow does.
#include "base/compiler.h"
#include "base/size_math.h"
#include "image/image_internal.h"
#include <math.h>

typedef struct pnm {
    const mh_source *source;
    size_t at;
    size_t largest;
} pnm;

bool mh_is_pnm(const mh_source *source)
{
    const unsigned char *b = source->bytes;
    return source->size >= 3 && b[0] == 'P' && b[1] >= '1' && b[1] <= '7' &&
           (b[2] <= ' ' || b[2] == '#');
}

static bool is_space(unsigned char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

static void skip_space(pnm *p)
{
    const unsigned char *b = p->source->bytes;
    bool comment = false;
    for (; p->at < p->source->size; p->at++) {
        comment = b[p->at] == '#' || (comment && b[p->at] != '\n' && b[p->at] != '\r');
        if (!comment && !is_space(b[p->at]))
            return;
    }
}

enum { MOST_DIGITS = 20 }; // in a message

// The next number in decimal digits.
static mh_status pnm_number(pnm *p, const char *what, size_t most, size_t *number)
{
    const unsigned char *b = p->source->bytes;
    skip_space(p);
    const size_t begin = p->at;
    size_t value = 0;
    for (; p->at < p->source->size && b[p->at] >= '0' && b[p->at] <= '9'; p->at++)
        value = value > most ? value : value * 10 + (size_t)(b[p->at] - '0');
    if (p->at == begin)
        return mh_source_fail(p->source, MH_ERROR_FORMAT, "byte %zu: %s, expected %s", begin,
                              begin < p->source->size ? "found no digit" : "the file ends", what);
    if (value > most)
        return mh_source_fail(p->source, MH_ERROR_FORMAT,
                              "byte %zu: %s: found %.*s%s, expected at most %zu", begin, what,
                              (int)mh_smaller(p->at - begin, MOST_DIGITS), b + begin,
                              p->at - begin > MOST_DIGITS ? "..." : "", most);
    *number = value;
    return MH_OK;
}

static unsigned char scale_value(const pnm *p, size_t value)
{
    if (p->largest == 255)
        return (unsigned char)value;
    return (unsigned char)fmin(255, rint((double)value / (double)p->largest * 255));
}

static mh_status read_values(pnm *p, mh_image *image)
{
    const size_t count = mh_image_bytes(image);
    for (size_t i = 0; i < count; i++) {
        size_t value;
        MH_TRY(pnm_number(p, "a value of the picture", p->largest, &value));
        image->pixels[i] = scale_value(p, value);
    }
    return MH_OK;
}

static void read_binary(const pnm *p, mh_image *image)
{
    const size_t count = mh_image_bytes(image);
    const unsigned char *b = p->source->bytes + p->at;
    for (size_t i = 0; i < count; i++) {
        const size_t value = p->largest < 256 ? b[i] : (size_t)b[2 * i] << 8 | b[2 * i + 1];
        image->pixels[i] = scale_value(p, value > p->largest ? p->largest : value);
    }
}

// The least bytes of the pixels, so that nothing is allocated that the file cannot fill.
static mh_status check_rest(const pnm *p, bool binary, size_t count)
{
    const size_t left = p->source->size - p->at;
    const size_t needed = !binary ? 2 * count - 1 : p->largest < 256 ? count : 2 * count;
    if (left >= needed)
        return MH_OK;
    return mh_source_fail(p->source, MH_ERROR_FORMAT,
                          "the file ends early: found %zu bytes of pixels, expected %s%zu", left,
                          binary ? "" : "at least ", needed);
}

mh_status mh_pnm_read(const mh_source *source, size_t most_pixels, mh_image *image)
{
    pnm p = {.source = source, .at = 2};
    const char kind = (char)source->bytes[1];
    const bool binary = kind >= '5', colour = kind == '3' || kind == '6';
    size_t width, height;
    if (kind == '1' || kind == '4' || kind == '7')
        return mh_source_fail(source, MH_ERROR_UNSUPPORTED,
                              "found a P%c file, expected P2, P3, P5 or P6 (PGM, PPM)", kind);
    MH_TRY(pnm_number(&p, "the width", MH_IMAGE_SIDE_MAX, &width));
    MH_TRY(pnm_number(&p, "the height", MH_IMAGE_SIDE_MAX, &height));
    MH_TRY(pnm_number(&p, "the largest value", 65535, &p.largest));
    if (p.largest == 0)
        return mh_source_fail(source, MH_ERROR_FORMAT,
                              "the largest value is 0, expected 1 to 65535");
    if (p.at >= source->size || !is_space(source->bytes[p.at]))
        return mh_source_fail(source, MH_ERROR_FORMAT,
                              "byte %zu: expected whitespace before the pixels", p.at);
    p.at++;
    MH_TRY(mh_image_check_size(source, most_pixels, width, height));
    MH_TRY(check_rest(&p, binary, width * height * (colour ? 3 : 1)));
    MH_TRY(mh_image_create(source->context, width, height, colour ? 3 : 1, image));
    if (binary) {
        read_binary(&p, image);
        return MH_OK;
    }
    mh_status status = read_values(&p, image);
    if (status)
        mh_image_free(source->context, image);
    return status;
}
