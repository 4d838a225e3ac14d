// SPDX-License-Identifier: MIT
// Pictures against Pillow and the image processors of transformers, in their Pillow form
// (tests/goldens/make_pictures.py): decoding, orientation and resizing byte for byte, preprocessing
// to the last bit or nearly so. PNG and JPEG are skipped where libmultihead-media is not built.
#include "model/picture_rules.h"
#include "support.h"
#include "support/media_library.h"
#include <math.h>
#include <multihead/io.h>
#include <stdio.h>
#include <stdlib.h>

static mh_context *context;
static mh_tensor_file *expected;

static int open_goldens(void **state)
{
    (void)state;
    return mh_context_create(NULL, &context, NULL, 0) ||
           mh_tensor_file_open(context, MH_GOLDENS "/pictures/expected.safetensors", &expected);
}

static int close_goldens(void **state)
{
    (void)state;
    mh_tensor_file_free(expected);
    mh_context_free(context);
    return 0;
}

static bool needs_media(const char *name) { return !strstr(name, ".ppm") && !strstr(name, ".pgm"); }

static mh_image read_picture(const char *name, size_t size)
{
    char path[512];
    mh_image image;
    snprintf(path, sizeof path, MH_GOLDENS "/pictures/%.*s", (int)size, name);
    if (mh_image_read(context, path, &image))
        fail_msg("%s", mh_error_message(context));
    return image;
}

static void expect_pixels(const char *name, const mh_image *image, const mh_tensor *t)
{
    const unsigned char *bytes = t->data;
    if (image->height != t->shape[0] || image->width != t->shape[1] ||
        image->channels != t->shape[2])
        fail_msg("%s: found %zu x %zu x %zu", name, image->width, image->height, image->channels);
    for (size_t i = 0; i < mh_tensor_count(t); i++)
        if (image->pixels[i] != bytes[i])
            fail_msg("%s: byte %zu: found %d, expected %d", name, i, image->pixels[i], bytes[i]);
}

// The results whose name has `part` in it, or, if NULL, those of the files themselves. Returns how
// many there were.
static size_t for_each(const char *part, bool media,
                       void (*check)(const char *name, const mh_image *image, const mh_tensor *t))
{
    size_t count = 0;
    for (size_t i = 0; i < mh_tensor_file_count(expected); i++) {
        const char *name = mh_tensor_file_name(expected, i), *slash = strchr(name, '/');
        mh_tensor t;
        if ((part ? !strstr(name, part) : slash != NULL) || needs_media(name) != media)
            continue;
        assert_true(mh_tensor_file_at(expected, i, &t));
        mh_image image = read_picture(name, strcspn(name, "/"));
        check(name, &image, &t);
        mh_image_free(context, &image);
        count++;
    }
    return count;
}

static void files_are_read(void **state)
{
    (void)state;
    assert_int_equal(for_each(NULL, false, expect_pixels), 7);
}

static void media_files_are_read(void **state)
{
    (void)state;
    if (!mh_media_found())
        skip();
    assert_int_equal(for_each(NULL, true, expect_pixels), 18);
}

// Inks are inverted, as Adobe writes them, also where a file does not say that it is Adobe's.
static void inks_without_a_marker(void **state)
{
    static unsigned char file[1 << 14];
    mh_image image, plain;
    size_t marker = 0;
    (void)state;
    if (!mh_media_found())
        skip();
    FILE *stream = fopen(MH_GOLDENS "/pictures/cmyk.jpg", "rb");
    assert_non_null(stream);
    const size_t size = fread(file, 1, sizeof file, stream);
    fclose(stream);
    while (marker + 5 < size && memcmp(file + marker, "Adobe", 5) != 0)
        marker++;
    assert_true(marker + 5 < size && size < sizeof file);
    test_ok(context, mh_image_parse(context, "adobe", file, size, &image));
    file[marker] = 'a';
    test_ok(context, mh_image_parse(context, "plain", file, size, &plain));
    assert_memory_equal(plain.pixels, image.pixels, image.width * image.height * 3);
    mh_image_free(context, &image);
    mh_image_free(context, &plain);
}

// Decoders fill the memory that was taken for what they described, also of a file that has changed.
static void expect_changes_noticed(const mh_media_decoder *decoder, const char *name)
{
    static unsigned char file[1 << 16], pixels[1 << 16];
    char path[512], message[MH_MEDIA_MESSAGE] = "";
    mh_media_picture was;
    snprintf(path, sizeof path, MH_GOLDENS "/pictures/%s", name);
    FILE *stream = fopen(path, "rb");
    assert_non_null(stream);
    const size_t size = fread(file, 1, sizeof file, stream);
    fclose(stream);
    assert_true(decoder->describe(file, size, &was, message));
    assert_true(was.width * was.height * was.channels <= sizeof pixels);
    assert_true(decoder->decode(file, size, &was, pixels, message));
    for (int change = 0; change < 3; change++) {
        mh_media_picture now = was;
        now.width -= change == 0;
        now.height -= change == 1;
        now.channels = change == 2 ? 4 - was.channels : was.channels;
        assert_false(decoder->decode(file, size, &now, pixels, message));
        assert_string_equal(message, "the file has changed");
    }
}

static void pictures_that_change(void **state)
{
    (void)state;
    if (!mh_media_found())
        skip();
    expect_changes_noticed(mh_media_load()->pictures[0], "rgb.png");
    expect_changes_noticed(mh_media_load()->pictures[1], "gray.jpg");
    expect_changes_noticed(mh_media_load()->pictures[1], "cmyk.jpg");
}

static void expect_resized(const char *name, const mh_image *image, const mh_tensor *t)
{
    mh_image resized;
    const int filter = atoi(strstr(name, "filter-") + 7);
    test_ok(context, mh_image_resize(context, image, (mh_resample)filter, t->shape[1], t->shape[0],
                                     &resized));
    expect_pixels(name, &resized, t);
    mh_image_free(context, &resized);
}

static void pictures_are_resized(void **state)
{
    (void)state;
    assert_int_equal(for_each("/filter-", false, expect_resized), 3 * 3 * 6);
}

// Within two units in the last place, as means are rounded to f32 elsewhere.
static void expect_prepared(const char *name, const mh_image *image, const mh_tensor *t)
{
    const mh_vision vision = {.image = 224, .patch = 16, .channels = 3};
    mh_picture_rules rules;
    char path[512];
    size_t height, width;
    snprintf(path, sizeof path, MH_GOLDENS "/pictures/%s", strchr(name, '/') + 1);
    test_ok(context, mh_picture_rules_load(context, path, "vit", &vision, &rules));
    test_ok(context, mh_picture_size(context, &rules, image, &height, &width));
    assert_int_equal(height, t->shape[1]);
    assert_int_equal(width, t->shape[2]);
    float *values = calloc(3 * height * width, sizeof *values);
    test_ok(context, mh_picture_prepare(context, &rules, image, 3, values));
    for (size_t i = 0; i < mh_tensor_count(t); i++) {
        const double wanted = (double)((const float *)t->data)[i];
        if (!(fabs((double)values[i] - wanted) <= 3e-7 * fmax(1, fabs(wanted))))
            fail_msg("%s[%zu]: found %.9g, expected %.9g", name, i, (double)values[i], wanted);
    }
    free(values);
}

static void processors_agree(void **state)
{
    static const char *const names[] = {"/vit",  "/vit-int",    "/deit",
                                        "/clip", "/bit-padded", "/plain"};
    size_t count = 0;
    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        count += for_each(names[i], false, expect_prepared);
        if (mh_media_found())
            count += for_each(names[i], true, expect_prepared);
    }
    assert_true(count >= 7 * 6);
}

// A picture of 1 x n, and sizes that are not allowed.
static void extremes(void **state)
{
    unsigned char line[3 * 500] = {0}, *pixels = line;
    mh_image image = {500, 1, 3, pixels}, resized;
    (void)state;
    test_ok(context, mh_image_resize(context, &image, MH_RESAMPLE_BICUBIC, 1, 40, &resized));
    mh_image_free(context, &resized);
    assert_int_equal(mh_image_resize(context, &image, MH_RESAMPLE_BICUBIC, 0, 4, &resized),
                     MH_ERROR_ARGUMENT);
    assert_null(resized.pixels);
    assert_int_equal(mh_image_resize(context, &image, MH_RESAMPLE_BOX, 65535, 65535, &resized),
                     MH_ERROR_ARGUMENT);
    image.channels = 4;
    assert_int_equal(mh_image_resize(context, &image, MH_RESAMPLE_BOX, 5, 5, &resized),
                     MH_ERROR_ARGUMENT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(files_are_read),
        cmocka_unit_test(media_files_are_read),
        cmocka_unit_test(inks_without_a_marker),
        cmocka_unit_test(pictures_that_change),
        cmocka_unit_test(pictures_are_resized),
        cmocka_unit_test(processors_agree),
        cmocka_unit_test(extremes),
    };
    return cmocka_run_group_tests(tests, open_goldens, close_goldens);
}
