// SPDX-License-Identifier: MIT
// The picture of a trace: written and read back, refused where it does not fit the tokens, part of
// a page's data, and shown as maps of patches whose rollout equals the product of all layers.
#include "parser_support.h"

#include <multihead/view.h>

#include <math.h>

enum { L = 3, H = 2, ROWS = 2, COLUMNS = 3, PATCHES = ROWS * COLUMNS, T = PATCHES + 1 };
enum { HEIGHT = 4, WIDTH = 9 };

static float weights[L * H * T * T];
static unsigned char pixels[HEIGHT * WIDTH * 3];

static int set_up(void **state)
{
    (void)state;
    return parser_place("p.safetensors", NULL);
}

static mh_trace picture_trace(void)
{
    test_rng rng = {test_seed()};
    mh_trace t = mh_trace_default();
    for (size_t row = 0; row < L * H * T; row++) {
        double sum = 0;
        for (size_t j = 0; j < T; j++)
            sum += (double)(weights[row * T + j] = (float)test_uniform(&rng, 0, 1));
        for (size_t j = 0; j < T; j++)
            weights[row * T + j] /= (float)sum;
    }
    for (size_t i = 0; i < sizeof pixels; i++)
        pixels[i] = (unsigned char)(7 * i);
    t.groups[MH_TRACE_ENCODER].weights = mh_tensor_4d(weights, MH_F32, L, H, T, T);
    t.picture = (mh_trace_picture){pixels, HEIGHT, WIDTH, ROWS, COLUMNS};
    return t;
}

// ---- files --------------------------------------------------------------------------------------

static void check_picture(const mh_trace_picture *p)
{
    assert_int_equal(p->height, HEIGHT);
    assert_int_equal(p->width, WIDTH);
    assert_int_equal(p->rows, ROWS);
    assert_int_equal(p->columns, COLUMNS);
    assert_memory_equal(p->pixels, pixels, sizeof pixels);
}

static void test_round_trip(void **state)
{
    (void)state;
    const mh_trace t = picture_trace();
    mh_trace_file *file;
    mh_buffer json;
    test_ok(context, mh_trace_write(context, path, &t));
    test_ok(context, mh_trace_file_open(context, path, &file));
    check_picture(&mh_trace_file_trace(file)->picture);
    test_ok(context, mh_view_data(context, NULL, mh_trace_file_trace(file), &json));
    assert_non_null(strstr(json.data,
                           "\"picture\":{\"height\":4,\"width\":9,\"rows\":2,\"columns\":3,"
                           "\"chunk\":6}"));
    mh_buffer_free(context, &json);
    mh_trace_file_free(file);
}

static void test_no_memory(void **state)
{
    (void)state;
    const mh_trace t = picture_trace();
    mh_view_options options = mh_view_options_default();
    for (size_t n = 1, failed = 1; failed; n++) {
        mh_buffer text, json;
        const size_t live = memory.live;
        memory.calls = 0;
        memory.fail_at = n;
        mh_status shown = mh_view_text(context, &options, &t, &text);
        mh_status data = mh_view_data(context, NULL, &t, &json);
        memory.fail_at = 0;
        failed = shown || data;
        assert_true(shown == MH_OK || shown == MH_ERROR_MEMORY);
        assert_true(data == MH_OK || data == MH_ERROR_MEMORY);
        mh_buffer_free(context, &text);
        mh_buffer_free(context, &json);
        assert_int_equal(memory.live, live);
    }
}

// ---- refused ------------------------------------------------------------------------------------

static void refused(const mh_trace *t, const char *words)
{
    test_refused(context, mh_trace_check(context, t), MH_ERROR_ARGUMENT, words);
}

static void test_refusals(void **state)
{
    (void)state;
    mh_trace t = picture_trace();
    mh_view_options options = mh_view_options_default();
    mh_buffer text;
    test_ok(context, mh_trace_check(context, &t));
    t.picture.height = 0, refused(&t, "found 9 x 0 pixels, expected 1 to 1024"),
    t = picture_trace();
    t.picture.width = 1025, refused(&t, "found 1025 x 4 pixels"), t = picture_trace();
    t.picture.rows = 0, refused(&t, "found 0 x 3 patches"), t = picture_trace();
    t.picture.columns = 10, refused(&t, "expected 1 x 1 to 4 x 9"), t = picture_trace();
    t.picture.rows = 3, refused(&t, "found 3 x 3 patches, and 7 queries"), t = picture_trace();
    t.groups[MH_TRACE_ENCODER].sequences = true, refused(&t, "layers of encoder.self");
    t = picture_trace();
    t.groups[MH_TRACE_CROSS] = t.groups[MH_TRACE_ENCODER];
    t.groups[MH_TRACE_ENCODER] = (mh_trace_group){0};
    refused(&t, "layers of encoder.self"), t = picture_trace();
    options.query = T;
    test_refused(context, mh_view_text(context, &options, &t, &text), MH_ERROR_ARGUMENT,
                 "query: found 7, expected 0 to 6");
}

#define ENCODER "\"encoder.self\":{\"dtype\":\"U8\",\"shape\":[1,1,2,2],\"data_offsets\":[0,4]}"
#define PICTURE(dtype, shape)                                                                      \
    ",\"picture\":{\"dtype\":\"" dtype "\",\"shape\":[" shape "],\"data_offsets\":[4,16]}"
#define PATCHES_ARE(text) "\"__metadata__\":{\"picture.patches\":\"" text "\"},"

static const struct {
    const char *header, *words;
} bad_files[] = {
    {"{" ENCODER PICTURE("U8", "2,2,3") "}", "metadata 'picture.patches': found none, expected"},
    {"{" PATCHES_ARE("1,2") ENCODER PICTURE("F32", "1,1,3") "}",
     "tensor 'picture': found f32 (1, 1, 3), expected u8 (height, width, 3)"},
    {"{" PATCHES_ARE("1,2") ENCODER PICTURE("U8", "3,2,2") "}", "expected u8 (height, width, 3)"},
    {"{" PATCHES_ARE("1,2") ENCODER PICTURE("U8", "12") "}", "expected u8 (height, width, 3)"},
    {"{" PATCHES_ARE("2") ENCODER PICTURE("U8", "2,2,3") "}", "found \"2\", expected \"ROWS,COL"},
    {"{" PATCHES_ARE("1,2x") ENCODER PICTURE("U8", "2,2,3") "}", "found \"1,2x\""},
    {"{" PATCHES_ARE("-1,2") ENCODER PICTURE("U8", "2,2,3") "}", "found \"-1,2\""},
    {"{" PATCHES_ARE("1,99999") ENCODER PICTURE("U8", "2,2,3") "}", "found \"1,99999\""},
    {"{" PATCHES_ARE("2,2") ENCODER PICTURE("U8", "2,2,3") "}", "found 2 x 2 patches, and 2 quer"},
};

static void test_bad_files(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof bad_files / sizeof *bad_files; i++) {
        blob b = blob_safetensors(bad_files[i].header, 16);
        mh_trace_file *file;
        test_refused(context, mh_trace_file_parse(context, "bad", b.bytes, b.size, &file),
                     MH_ERROR_FORMAT, bad_files[i].words);
        assert_null(file);
        blob_free(&b);
    }
}

// ---- maps ---------------------------------------------------------------------------------------

// Row `query` of the product of (A_l + I)/2, last layer first, whole matrices.
static void roll_out(size_t query, double row[T])
{
    double product[T][T], next[T][T];
    for (size_t i = 0; i < T; i++)
        for (size_t j = 0; j < T; j++)
            product[i][j] = i == j;
    for (size_t l = 0; l < L; l++) {
        memset(next, 0, sizeof next);
        for (size_t i = 0; i < T; i++)
            for (size_t k = 0; k < T; k++) {
                double a = i == k;
                for (size_t h = 0; h < H; h++)
                    a += (double)weights[((l * H + h) * T + i) * T + k] / H;
                for (size_t j = 0; j < T; j++)
                    next[i][j] += a / 2 * product[k][j];
            }
        memcpy(product, next, sizeof next);
    }
    memcpy(row, product[query], sizeof product[query]);
}

// The shade of a patch, from 0 to 4: blocks of the map that begins at `column`.
static int shade_at(const char *text, size_t row, size_t column)
{
    static const char *const shades[] = {" ", "\xE2\x96\x91", "\xE2\x96\x92", "\xE2\x96\x93",
                                         "\xE2\x96\x88"};
    for (row += 4; row-- > 0;) // a title, an empty line, names and shares
        text = strchr(text, '\n') + 1;
    for (; column-- > 0; text++)
        while (((unsigned char)text[1] & 0xC0) == 0x80)
            text++;
    for (int s = 4; s > 0; s--)
        if (strncmp(text, shades[s], strlen(shades[s])) == 0)
            return s;
    return 0;
}

static void test_maps(void **state)
{
    (void)state;
    const mh_trace t = picture_trace();
    mh_view_options options = mh_view_options_default();
    mh_buffer text;
    double row[T], least = 1, most = 0;
    options.layer = 1;
    options.query = 3;
    test_ok(context, mh_view_text(context, &options, &t, &text));
    assert_int_equal(
        strncmp(text.data, "what 3 attends to in the picture, layer 1 of 3 (from 0)", 55), 0);
    assert_non_null(strstr(text.data, "  head 0      head 1      rollout\n"));
    roll_out(3, row);
    for (size_t j = 1; j < T; j++) {
        least = fmin(least, row[j]);
        most = fmax(most, row[j]);
    }
    for (size_t i = 0; i < PATCHES; i++) {
        // Maps are 10 wide, behind a gap of 2; patches 2 wide.
        const size_t y = i / COLUMNS, x = 2 * (i % COLUMNS);
        const int expected = (int)((row[i + 1] - least) / (most - least) * 5);
        const int found = shade_at(text.data, y, 26 + x);
        const float *head = weights + ((1 * H + 1) * T + 3) * T + 1;
        float largest = 0;
        for (size_t j = 0; j < PATCHES; j++)
            largest = fmaxf(largest, head[j]);
        const int head_expected = (int)(sqrtf(head[i] / largest) * 5);
        assert_int_equal(found, expected < 4 ? expected : 4);
        assert_int_equal(shade_at(text.data, y, 14 + x), head_expected < 4 ? head_expected : 4);
    }
    mh_buffer_free(context, &text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trip), cmocka_unit_test(test_no_memory),
        cmocka_unit_test(test_refusals),   cmocka_unit_test(test_bad_files),
        cmocka_unit_test(test_maps),
    };
    return cmocka_run_group_tests(tests, set_up, parser_tear_down);
}
