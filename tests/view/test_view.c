// SPDX-License-Identifier: MIT
// The page and the text: stored weights are within the promised error, nothing of a token becomes
// markup or reaches a terminal, sizes and wrong options are refused, failed allocations reported.
// What the page does in a browser is tested in tests/web/.
#include "parser_support.h"

#include <multihead/view.h>

#include <jansson.h>
#include <math.h>
#include <zlib.h>

enum { L = 2, H = 3, T = 7, S = 9 };

static float weights[L * H * T * S];
static const char *tokens[S] = {
    "</script><script>", "\x1b[31m", "<!--", "\xE6\xBC\xA2\xE5\xAD\x97", "\xC3", "\xE2\x80\xAE", "",
    "a\tb\nc",           "plain"};

static mh_trace random_trace(void)
{
    test_rng rng = {test_seed()};
    mh_trace t = mh_trace_default();
    for (size_t row = 0; row < L * H * T; row++) {
        double sum = 0;
        for (size_t j = 0; j < S; j++)
            sum += (double)(weights[row * S + j] = (float)test_uniform(&rng, 0, 1));
        for (size_t j = 0; j < S; j++)
            weights[row * S + j] /= (float)sum;
    }
    memset(weights, 0, S * sizeof *weights); // a query that sees nothing
    t.title = tokens[0];
    t.source = (mh_trace_tokens){.count = S, .text = tokens};
    t.target = (mh_trace_tokens){.count = T, .text = tokens};
    t.groups[MH_TRACE_CROSS].weights = mh_tensor_4d(weights, MH_F32, L, H, T, S);
    return t;
}

// ---- the data -----------------------------------------------------------------------------------

static size_t decode_base64(const char *text, unsigned char *to)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    size_t count = 0;
    unsigned bits = 0, have = 0;
    for (; *text && *text != '='; text++) {
        const char *digit = strchr(digits, *text);
        assert_non_null(digit);
        bits = bits << 6 | (unsigned)(digit - digits);
        if ((have += 6) >= 8)
            to[count++] = (unsigned char)(bits >> (have -= 8));
    }
    return count;
}

static size_t inflate_raw(const unsigned char *from, size_t size, unsigned char *to, size_t room)
{
    z_stream z = {.next_in = (Bytef *)(uintptr_t)from,
                  .avail_in = (uInt)size,
                  .next_out = to,
                  .avail_out = (uInt)room};
    assert_int_equal(inflateInit2(&z, -15), Z_OK);
    assert_int_equal(inflate(&z, Z_FINISH), Z_STREAM_END);
    inflateEnd(&z);
    return room - z.avail_out;
}

// As the page does it, in double.
static void check_chunk(const char *base64, int bits, const float *expected)
{
    unsigned char packed[4096], raw[4096];
    size_t size = inflate_raw(packed, decode_base64(base64, packed), raw, sizeof raw);
    const unsigned char *high = raw + T * sizeof(float), *low = high + T * S;
    double steps = bits == 16 ? 65535 : 255;
    assert_int_equal(size, T * sizeof(float) + T * S * (size_t)bits / 8);
    for (size_t i = 0; i < T; i++) {
        float most;
        memcpy(&most, raw + i * sizeof most, sizeof most);
        for (size_t j = 0; j < S; j++) {
            size_t at = i * S + j;
            double step = bits == 16 ? high[at] * 256.0 + low[at] : high[at];
            double error = fabs(step / steps * (double)most - (double)expected[at]);
            assert_true(error <= (double)most * (0.5 / steps + 1e-7));
        }
    }
}

static void check_data(int bits)
{
    mh_trace t = random_trace();
    mh_view_options options = mh_view_options_default();
    mh_buffer json;
    options.bits = bits;
    test_ok(context, mh_view_data(context, &options, &t, &json));
    json_t *root = json_loadb(json.data, json.size, JSON_REJECT_DUPLICATES, NULL);
    assert_non_null(root);
    json_t *chunks = json_object_get(root, "chunks"), *trace = json_object_get(root, "trace");
    assert_int_equal(json_integer_value(json_object_get(trace, "bits")), bits);
    assert_string_equal(json_string_value(json_object_get(trace, "title")), tokens[0]);
    assert_int_equal(json_array_size(chunks), L * H);
    for (size_t n = 0; n < L * H; n++)
        check_chunk(json_string_value(json_array_get(chunks, n)), bits, weights + n * T * S);
    json_decref(root);
    mh_buffer_free(context, &json);
}

static void test_data(void **state)
{
    (void)state;
    check_data(8);
    check_data(16);
}

// ---- the page -----------------------------------------------------------------------------------

static size_t occurrences(const char *text, const char *word)
{
    size_t count = 0;
    for (; (text = strstr(text, word)) != NULL; text++)
        count++;
    return count;
}

static void test_page(void **state)
{
    (void)state;
    mh_trace t = random_trace();
    mh_view_options options = mh_view_options_default();
    mh_buffer page, empty, served;
    test_ok(context, mh_view_page(context, NULL, NULL, &empty));
    test_ok(context, mh_view_page(context, &options, &t, &page));
    options.served = true;
    test_ok(context, mh_view_page(context, &options, NULL, &served));
    assert_true(empty.size < 300 * 1024); // without data
    assert_int_equal(strlen(page.data), page.size);
    // the page's own script, the description and a chunk a head; nothing of a token
    assert_int_equal(occurrences(page.data, "<script"), 2 + L * H);
    assert_int_equal(occurrences(page.data, "</script"), 2 + L * H);
    assert_non_null(strstr(page.data, "\\u003c/script>\\u003cscript>"));
    assert_int_equal(occurrences(page.data, "{{"), occurrences(empty.data, "{{"));
    assert_null(strstr(empty.data, "{{data}}"));
    assert_non_null(strstr(page.data, "connect-src 'none'"));
    assert_non_null(strstr(served.data, "connect-src 'self'"));
    assert_null(strstr(page.data, "unsafe"));
    mh_buffer_free(context, &page);
    mh_buffer_free(context, &empty);
    mh_buffer_free(context, &served);
}

// ---- the text -----------------------------------------------------------------------------------

static size_t columns_of(const char *line, size_t length)
{
    size_t columns = 0;
    for (size_t i = 0; i < length; i++)
        columns += ((unsigned char)line[i] & 0xC0) != 0x80; // wide characters: at most two
    return columns;
}

static void check_text(size_t width, bool colour)
{
    mh_trace t = random_trace();
    mh_view_options options = mh_view_options_default();
    mh_buffer text;
    options.width = width;
    options.colour = colour;
    test_ok(context, mh_view_text(context, &options, &t, &text));
    assert_non_null(strstr(text.data, "cross, layer 1 of 2 (from 0)"));
    assert_non_null(strstr(text.data, "head 2"));
    assert_null(strstr(text.data, "\xE2\x80\xAE"));
    assert_null(strchr(text.data, '\t'));
    if (!colour)
        assert_null(strchr(text.data, '\033'));
    else
        assert_int_equal(occurrences(text.data, "\033[31m"), 0);
    for (const char *line = text.data; !colour && *line;) {
        size_t length = strcspn(line, "\n");
        if (strncmp(line, "cross", 5) != 0 && !strstr(line, "largest"))
            assert_true(columns_of(line, length) <= width);
        line += length + 1;
    }
    mh_buffer_free(context, &text);
}

static void test_text(void **state)
{
    (void)state;
    for (size_t width = 20; width <= 120; width += 5) {
        check_text(width, false);
        check_text(width, true);
    }
}

// ---- refusals and faults ------------------------------------------------------------------------

static void test_options(void **state)
{
    (void)state;
    mh_trace t = random_trace();
    mh_view_options options = mh_view_options_default();
    mh_buffer bytes;
    options.layer = L;
    test_refused(context, mh_view_page(context, &options, &t, &bytes), MH_ERROR_ARGUMENT,
                 "layer: found 2, expected 0 to 1");
    assert_null(bytes.data);
    options = mh_view_options_default(), options.head = -2;
    test_refused(context, mh_view_text(context, &options, &t, &bytes), MH_ERROR_ARGUMENT, "head");
    options = mh_view_options_default(), options.kind = MH_TRACE_ENCODER;
    test_refused(context, mh_view_text(context, &options, &t, &bytes), MH_ERROR_ARGUMENT,
                 "no 'encoder.self'");
    options = mh_view_options_default(), options.width = 19;
    test_refused(context, mh_view_text(context, &options, &t, &bytes), MH_ERROR_ARGUMENT, "width");
    options = mh_view_options_default(), options.bits = 12;
    test_refused(context, mh_view_page(context, &options, &t, &bytes), MH_ERROR_ARGUMENT, "bits");
    test_refused(context, mh_view_data(context, NULL, NULL, &bytes), MH_ERROR_ARGUMENT, "NULL");
    test_refused(context, mh_view_page(context, NULL, &t, NULL), MH_ERROR_ARGUMENT, "NULL");
    test_refused(context, mh_view_page_write(context, NULL, &t, NULL), MH_ERROR_ARGUMENT, "NULL");
    assert_int_equal(mh_view_page(NULL, NULL, &t, &bytes), MH_ERROR_ARGUMENT);
    assert_int_equal(mh_view_text(NULL, NULL, &t, &bytes), MH_ERROR_ARGUMENT);
}

static mh_status view_every_way(void)
{
    mh_status (*const views[])(mh_context *, const mh_view_options *, const mh_trace *,
                               mh_buffer *) = {mh_view_page, mh_view_data, mh_view_text};
    const mh_trace t = random_trace();
    mh_status status = MH_OK;
    for (size_t i = 0; i < 3 && status == MH_OK; i++) {
        mh_buffer bytes;
        status = views[i](context, NULL, &t, &bytes);
        mh_buffer_free(context, &bytes);
    }
    return status;
}

static void test_no_memory(void **state)
{
    (void)state;
    test_out_of_memory(&memory, 1, view_every_way);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_data),      cmocka_unit_test(test_page),
        cmocka_unit_test(test_text),      cmocka_unit_test(test_options),
        cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests(tests, parser_set_up, parser_tear_down);
}
