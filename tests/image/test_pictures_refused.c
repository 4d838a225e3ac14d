// SPDX-License-Identifier: MIT
// Invalid and hostile pictures: refused with a message that says what was found, without taking
// memory that the file does not justify, and without leaks.
#include "file_support.h"
#include "support.h"
#include <multihead/image.h>
#include <zlib.h>

static scarce memory;
static mh_context *context;

static int open_context(void **state)
{
    mh_context_options o = scarce_options(&memory);
    (void)state;
    return mh_context_create(&o, &context, NULL, 0) != MH_OK;
}

static int close_context(void **state)
{
    (void)state;
    mh_context_free(context);
    return 0;
}

// The context itself takes some, once.
static void expect_refused(const void *bytes, size_t size, mh_status status, const char *message)
{
    mh_image image;
    const size_t before = memory.live;
    memory.peak = before;
    const mh_status found = mh_image_parse(context, "file", bytes, size, &image);
    if (found != status || !strstr(mh_error_message(context), message))
        fail_msg("found %s \"%s\", expected \"%s\"", mh_status_name(found),
                 found ? mh_error_message(context) : "", message);
    assert_null(image.pixels);
    assert_true(memory.live == before);
    if (memory.peak - before > 1 << 20)
        fail_msg("%s: took %zu bytes of memory", message, memory.peak - before);
}

// A limit of the caller's, and a picture that just fits.
static void fewer_pixels(void **state)
{
    static const char picture[] = "P5 3 2 255\nabcdef";
    mh_image image;
    (void)state;
    assert_int_equal(mh_image_parse_within(context, "file", picture, sizeof picture - 1, 5, &image),
                     MH_ERROR_FORMAT);
    assert_non_null(strstr(mh_error_message(context), "found a picture of 3 x 2, expected sides "
                                                      "from 1 to 65535 and at most 5 pixels"));
    assert_null(image.pixels);
    test_ok(context,
            mh_image_parse_within(context, "file", picture, sizeof picture - 1, 6, &image));
    assert_true(image.width == 3 && image.height == 2);
    mh_image_free(context, &image);
}

#define REFUSED(bytes, status, message) expect_refused(bytes, sizeof bytes - 1, status, message)

static void portable_maps(void **state)
{
    (void)state;
    REFUSED("", MH_ERROR_FORMAT, "file: the file is empty");
    REFUSED("hello", MH_ERROR_UNSUPPORTED,
            "file: found an unknown kind of file, expected a picture");
    REFUSED("GIF89a....", MH_ERROR_UNSUPPORTED, "found a file of type GIF");
    REFUSED("RIFF....WEBPVP8 ", MH_ERROR_UNSUPPORTED, "found a file of type WebP");
    REFUSED("RIFF....WAVEfmt ", MH_ERROR_UNSUPPORTED, "found a file of type WAV");
    REFUSED("RIFF....AVI ", MH_ERROR_UNSUPPORTED, "found an unknown kind of file");
    REFUSED("\x89PNG\n\x1a\n", MH_ERROR_UNSUPPORTED, "found an unknown kind of file"); // as text
    REFUSED("RIFF....WE", MH_ERROR_UNSUPPORTED, "found an unknown kind of file");
    REFUSED("P1 1 1 1", MH_ERROR_UNSUPPORTED, "found a P1 file, expected P2, P3, P5 or P6");
    REFUSED("P6 ", MH_ERROR_FORMAT, "byte 3: the file ends, expected the width");
    REFUSED("P6 x", MH_ERROR_FORMAT, "byte 3: found no digit, expected the width");
    REFUSED("P6 -1 1 255\n", MH_ERROR_FORMAT, "byte 3: found no digit, expected the width");
    REFUSED("P6 0 7 255\nabc", MH_ERROR_FORMAT, "found a picture of 0 x 7, expected sides from 1");
    REFUSED("P6 99999999999999999999999 1 255\n", MH_ERROR_FORMAT,
            "byte 3: the width: found 99999999999999999999..., expected at most 65535");
    REFUSED("P6 70000 1 255\nabc", MH_ERROR_FORMAT,
            "the width: found 70000, expected at most 65535");
    REFUSED("P5 1 99999999999999999999999 255", MH_ERROR_FORMAT,
            "the height: found 99999999999999999999..., expected at most 65535");
    REFUSED("P6 60000 60000 255\nabc", MH_ERROR_FORMAT, "found a picture of 60000 x 60000");
    REFUSED("P6 2 2 0\nabc", MH_ERROR_FORMAT, "the largest value is 0");
    REFUSED("P6 2 2 65536\nabc", MH_ERROR_FORMAT,
            "the largest value: found 65536, expected at most 65535");
    REFUSED("P6 2 2 255", MH_ERROR_FORMAT, "expected whitespace before the pixels");
    REFUSED("P6 2 2 255\nabc", MH_ERROR_FORMAT, "found 3 bytes of pixels, expected 12");
    REFUSED("P6 10000 10000 255\nabc", MH_ERROR_FORMAT,
            "found 3 bytes of pixels, expected 300000000");
    REFUSED("P5 2 2 256\nabcd", MH_ERROR_FORMAT, "found 4 bytes of pixels, expected 8");
    REFUSED("P2 2 2 9\n1 2 3", MH_ERROR_FORMAT, "expected at least 7");
    REFUSED("P2 2 2 9\n1 2 3 #", MH_ERROR_FORMAT, "the file ends, expected a value");
    REFUSED("P2 2 2 9\n1 2 3 10", MH_ERROR_FORMAT,
            "a value of the picture: found 10, expected at most 9");
    REFUSED("P2 2 2 9\n1 2 x 1", MH_ERROR_FORMAT, "found no digit, expected a value");
}

// ---- PNG ----------------------------------------------------------------------------------------

static size_t put_number(unsigned char *to, uint32_t value)
{
    for (int i = 0; i < 4; i++)
        to[i] = (unsigned char)(value >> (24 - 8 * i));
    return 4;
}

static size_t put_chunk(unsigned char *to, const char *type, const void *data, size_t size)
{
    size_t n = put_number(to, (uint32_t)size);
    memcpy(to + n, type, 4);
    if (size)
        memcpy(to + n + 4, data, size);
    n += 4 + size;
    return n + put_number(to + n, (uint32_t)crc32(0, to + 4, (uInt)size + 4));
}

// A gray picture that claims this size and has these bytes of compressed rows.
static size_t make_png(unsigned char *to, uint32_t width, uint32_t height, const void *idat,
                       size_t size)
{
    unsigned char header[13] = {[8] = 8};
    size_t n = 8;
    memcpy(to, "\x89PNG\r\n\x1a\n", 8);
    put_number(header, width);
    put_number(header + 4, height);
    n += put_chunk(to + n, "IHDR", header, sizeof header);
    n += put_chunk(to + n, "IDAT", idat, size);
    return n + put_chunk(to + n, "IEND", NULL, 0);
}

static void portable_network_graphics(void **state)
{
    unsigned char file[1 << 12], rows[64], packed[128];
    uLongf size = sizeof packed;
    (void)state;
    if (!mh_media_found())
        skip();
    memset(rows, 0, sizeof rows);
    assert_int_equal(compress(packed, &size, rows, 4 * 5), Z_OK);
    size_t n = make_png(file, 4, 4, packed, size);
    mh_image image;
    test_ok(context, mh_image_parse(context, "file", file, n, &image));
    mh_image_free(context, &image);
    for (size_t cut = 8; cut < n - 12; cut++)
        expect_refused(file, cut, MH_ERROR_FORMAT, "file: not a valid PNG file: ");
    n = make_png(file, 4, 9, packed, size);
    expect_refused(file, n, MH_ERROR_FORMAT, "not a valid PNG file: ");
    n = make_png(file, 0, 4, packed, size);
    expect_refused(file, n, MH_ERROR_FORMAT, "not a valid PNG file: ");
    n = make_png(file, 100000, 4, packed, size);
    expect_refused(file, n, MH_ERROR_FORMAT, "not a valid PNG file: ");
    n = make_png(file, 60000, 60000, packed, size);
    expect_refused(file, n, MH_ERROR_FORMAT, "found a picture of 60000 x 60000, expected");
    n = make_png(file, 11000, 11000, packed, size); // 121 MB of pixels in 80 bytes
    expect_refused(file, n, MH_ERROR_FORMAT, "found a picture of 11000 x 11000 in ");
    n = make_png(file, 4, 4, packed, size);
    file[50] ^= 1; // of the compressed rows
    expect_refused(file, n, MH_ERROR_FORMAT, "not a valid PNG file: ");
    REFUSED("\x89PNG\r\n\x1a\n", MH_ERROR_FORMAT, "not a valid PNG file: the file ends early");
}

// ---- JPEG ---------------------------------------------------------------------------------------

static size_t read_golden(const char *name, unsigned char *bytes, size_t room)
{
    char path[512];
    snprintf(path, sizeof path, MH_GOLDENS "/pictures/%s", name);
    FILE *stream = fopen(path, "rb");
    assert_non_null(stream);
    const size_t size = fread(bytes, 1, room, stream);
    fclose(stream);
    return size;
}

// Where the size is in the header: behind the marker of the frame.
static size_t find_frame(const unsigned char *bytes, size_t size)
{
    for (size_t i = 2; i + 9 < size; i += 2 + ((size_t)bytes[i + 2] << 8 | bytes[i + 3]))
        if (bytes[i + 1] == 0xc0 || bytes[i + 1] == 0xc2)
            return i + 5;
    fail_msg("no frame");
    return 0;
}

static void joint_photographic_experts(void **state)
{
    static unsigned char file[1 << 14];
    static const char *const names[] = {"rgb.jpg", "progressive.jpg"};
    (void)state;
    if (!mh_media_found())
        skip();
    for (int i = 0; i < 2; i++) {
        const size_t n = read_golden(names[i], file, sizeof file), at = find_frame(file, n);
        for (size_t cut = 3; cut < n - 2; cut += 7)
            expect_refused(file, cut, MH_ERROR_FORMAT, "file: not a valid JPEG file: ");
        memset(file + at, 0, 2); // a height of 0
        expect_refused(file, n, MH_ERROR_FORMAT, "not a valid JPEG file: ");
        memset(file + at, 0xea, 4); // 60138 x 60138
        expect_refused(file, n, MH_ERROR_FORMAT, "found a picture of 60138 x 60138, expected");
    }
    REFUSED("\xff\xd8\xff", MH_ERROR_FORMAT, "not a valid JPEG file: ");
    REFUSED("\xff\xd8\xff\xd9", MH_ERROR_FORMAT, "not a valid JPEG file: ");
}

// Some cameras write them before the marker of the end.
static void surplus_bytes(void **state)
{
    static unsigned char file[1 << 14];
    mh_image plain, image;
    (void)state;
    if (!mh_media_found())
        skip();
    const size_t n = read_golden("rgb.jpg", file, sizeof file - 9);
    test_ok(context, mh_image_parse(context, "file", file, n, &plain));
    memset(file + n - 2, 0, 9);
    memcpy(file + n + 7, "\xff\xd9", 2);
    test_ok(context, mh_image_parse(context, "file", file, n + 9, &image));
    assert_memory_equal(image.pixels, plain.pixels, plain.width * plain.height * 3);
    expect_refused(file, n + 7, MH_ERROR_FORMAT, "not a valid JPEG file: ");
    mh_image_free(context, &image);
    mh_image_free(context, &plain);
}

// A progressive file with its last scan again and again.
static void many_scans(void **state)
{
    static unsigned char file[1 << 14], bomb[1 << 20];
    (void)state;
    if (!mh_media_found())
        skip();
    const size_t n = read_golden("progressive.jpg", file, sizeof file);
    size_t last = 0, used = n - 2;
    for (size_t i = 2; i + 1 < n; i++)
        if (file[i] == 0xff && file[i + 1] == 0xda)
            last = i;
    assert_true(last > 0);
    memcpy(bomb, file, used);
    while (used + n < sizeof bomb) {
        memcpy(bomb + used, file + last, n - 2 - last);
        used += n - 2 - last;
    }
    memcpy(bomb + used, "\xff\xd9", 2);
    expect_refused(bomb, used + 2, MH_ERROR_FORMAT, "not a valid JPEG file: ");
}

// EXIF data that point anywhere are ignored.
static void broken_exif(void **state)
{
    static unsigned char file[1 << 14], other[1 << 14];
    (void)state;
    if (!mh_media_found())
        skip();
    const size_t n = read_golden("turned-6.jpg", file, sizeof file);
    size_t exif = 0;
    for (size_t i = 0; i + 6 < n && !exif; i++)
        if (memcmp(file + i, "Exif\0", 6) == 0)
            exif = i + 6;
    assert_true(exif > 0);
    for (size_t i = exif; i < exif + 24; i++)
        for (int value = 0; value < 256; value += 15) {
            mh_image image;
            memcpy(other, file, n);
            other[i] = (unsigned char)value;
            test_ok(context, mh_image_parse(context, "file", other, n, &image));
            mh_image_free(context, &image);
        }
}

// Every allocation of ours fails once.
static void out_of_memory(void **state)
{
    static const char picture[] = "P6 2 1 255\nabcdef";
    mh_image image = {0}, resized;
    (void)state;
    test_ok(context, mh_image_parse(context, "file", picture, sizeof picture - 1, &image));
    for (size_t n = 0; n < 20; n++) {
        const size_t before = memory.live;
        memory.fail_at = memory.calls + n + 1;
        const mh_status status =
            mh_image_resize(context, &image, MH_RESAMPLE_BICUBIC, 5, 5, &resized);
        memory.fail_at = 0;
        if (!status) {
            mh_image_free(context, &resized);
            assert_true(n > 2);
            mh_image_free(context, &image);
            return;
        }
        assert_int_equal(status, MH_ERROR_MEMORY);
        assert_true(memory.live == before);
    }
    fail_msg("still out of memory");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(portable_maps),
        cmocka_unit_test(fewer_pixels),
        cmocka_unit_test(portable_network_graphics),
        cmocka_unit_test(joint_photographic_experts),
        cmocka_unit_test(surplus_bytes),
        cmocka_unit_test(many_scans),
        cmocka_unit_test(broken_exif),
        cmocka_unit_test(out_of_memory),
    };
    return cmocka_run_group_tests(tests, open_context, close_context);
}
