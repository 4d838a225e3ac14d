// SPDX-License-Identifier: MIT
// The curve of a run: each value of the log is where the axes' own labels say, thinning keeps
// peaks, logs that are cut, empty or hostile are skipped or refused with the line's number, and
// failed allocations are reported.
#include "io/line_reader.h"
#include "parser_support.h"
#include "view/chart_axis.h"
#include "view/curve.h"

#include <multihead/view.h>

#include <locale.h>
#include <math.h>
#include <unistd.h>

static mh_run_history history;

static mh_status parse(const char *text)
{
    blob copy = blob_copy(text, strlen(text)); // of exactly that size, for sanitizers
    mh_status status = mh_run_history_parse(context, "log", copy.bytes, copy.size, &history);
    blob_free(&copy);
    return status;
}

static mh_buffer draw(const char *text)
{
    mh_buffer svg;
    test_ok(context, parse(text));
    test_ok(context, mh_curve_draw_svg(context, &history, &svg));
    mh_run_history_free(context, &history);
    return svg;
}

static const char small_log[] =
    "{\"update\": 100, \"epoch\": 0.25, \"tokens\": 1, \"loss\": 5.5, \"learning_rate\": 1e-4}\n"
    "{\"update\": 200, \"epoch\": 0.5, \"loss\": 4}\n"
    "{\"update\": 400, \"epoch\": 1.0, \"valid_loss\": 3.25, \"bleu\": 2.5, \"best\": true}\n"
    "{\"update\": 600, \"epoch\": 1.5, \"loss\": 3, \"later\": [{}]}\n"
    "{\"update\": 800, \"epoch\": 2.0, \"loss\": 2.75}\n"
    "{\"update\": 800, \"epoch\": 2.0, \"valid_loss\": 3, \"bleu\": 12.5, \"chrf\": 1}\n"
    "{\"update\": 1200, \"epoch\": 3.0, \"valid_loss\": 3.5, \"bleu\": 7}\n";

// ---- places -------------------------------------------------------------------------------------

// What the labels of an axis say: place = from + scale * value.
typedef struct ruler {
    double from, scale;
    int ticks;
} ruler;

static double number_with_commas(const char *text)
{
    char digits[64];
    size_t n = 0;
    for (; *text && *text != '<' && n + 1 < sizeof digits; text++)
        if (*text != ',')
            digits[n++] = *text;
    digits[n] = 0;
    return strtod(digits, NULL);
}

// From the first and the last label of that class; the others must agree. `shift` is from a label
// to its tick.
static ruler read_ruler(const char *svg, const char *class, bool vertical, double shift)
{
    double place[64], value[64];
    int count = 0;
    char begin[80];
    snprintf(begin, sizeof begin, "<text class=\"%s\" x=\"", class);
    for (const char *at = svg; (at = strstr(at, begin)) != NULL && count < 64; count++) {
        char *end;
        double x = strtod(at += strlen(begin), &end);
        double y = strtod(strstr(end, "y=\"") + 3, NULL);
        place[count] = (vertical ? y : x) + shift;
        value[count] = number_with_commas(strchr(at, '>') + 1);
    }
    assert_true(count >= 3 && count <= 12);
    ruler r = {.ticks = count};
    r.scale = (place[count - 1] - place[0]) / (value[count - 1] - value[0]);
    r.from = place[0] - r.scale * value[0];
    for (int i = 0; i < count; i++)
        assert_true(fabs(r.from + r.scale * value[i] - place[i]) < 0.02);
    return r;
}

// The points of a path of that class, in values.
static size_t read_path(const char *svg, const char *class, ruler x, ruler y, double (*points)[2],
                        size_t room)
{
    char begin[80];
    size_t count = 0;
    snprintf(begin, sizeof begin, "<path class=\"%s\" d=\"M", class);
    const char *legend = strstr(svg, begin), *at = legend ? strstr(legend + 1, begin) : NULL;
    assert_non_null(at);
    for (at += strlen(begin); *at != '"' && *at != 'h'; count++) {
        char *end;
        assert_true(count < room);
        points[count][0] = (strtod(at, &end) - x.from) / x.scale;
        assert_int_equal(*end, ',');
        points[count][1] = (strtod(end + 1, &end) - y.from) / y.scale;
        at = end + strspn(end, " \n");
    }
    return count;
}

static void check_points(const char *svg, const char *class, ruler x, ruler y, size_t count,
                         const double (*expected)[2])
{
    double points[16][2];
    assert_int_equal(read_path(svg, class, x, y, points, 16), count);
    for (size_t i = 0; i < count; i++) { // a hundredth of a pixel
        assert_true(fabs(points[i][0] - expected[i][0]) <= 0.02 / fabs(x.scale));
        assert_true(fabs(points[i][1] - expected[i][1]) <= 0.02 / fabs(y.scale));
    }
}

static void test_slots(void **state)
{
    (void)state;
    mh_buffer svg = draw(small_log);
    ruler x = read_ruler(svg.data, "m update", false, 0);
    ruler epochs = read_ruler(svg.data, "m epoch", false, 0);
    ruler loss = read_ruler(svg.data, "e loss", true, -4.5);
    ruler bleu = read_ruler(svg.data, "right", true, -4.5);
    assert_true(x.scale > 0 && loss.scale < 0 && bleu.scale < 0);
    assert_true(fabs(epochs.scale - 400 * x.scale) < 0.02 && fabs(epochs.from - x.from) < 0.02);
    check_points(svg.data, "train", x, loss, 4,
                 (const double[][2]){{100, 5.5}, {200, 4}, {600, 3}, {800, 2.75}});
    check_points(svg.data, "valid", x, loss, 3,
                 (const double[][2]){{400, 3.25}, {800, 3}, {1200, 3.5}});
    check_points(svg.data, "bleu", x, bleu, 3,
                 (const double[][2]){{400, 2.5}, {800, 12.5}, {1200, 7}});
    assert_non_null(strstr(svg.data, ">best BLEU 12.50 at update 800, epoch 2</text>"));
    assert_non_null(strstr(svg.data, "role=\"img\""));
    assert_non_null(strstr(svg.data, "<title id=\"name\">Training: 1,200 updates, 3.0 epochs<"));
    assert_non_null(strstr(svg.data, "prefers-color-scheme:dark"));
    assert_null(strstr(svg.data, "<script"));
    assert_null(strstr(svg.data, "href"));
    assert_null(strstr(svg.data, "url("));
    mh_buffer_free(context, &svg);
}

// BLEU ends at 100, and the label of a best one up there is within the frame.
static void test_highest_bleu(void **state)
{
    (void)state;
    mh_buffer svg = draw("{\"update\": 10, \"epoch\": 1, \"valid_loss\": 3, \"bleu\": 50}\n"
                         "{\"update\": 20, \"epoch\": 2, \"valid_loss\": 1, \"bleu\": 100}\n");
    ruler bleu = read_ruler(svg.data, "right", true, -4.5);
    assert_int_equal(bleu.ticks, 6);
    assert_null(strstr(svg.data, ">120<"));
    const char *label = strstr(svg.data, "<text class=\"best e right\"");
    assert_non_null(label);
    assert_true(strtod(strstr(label, " y=\"") + 4, NULL) > bleu.from + 100 * bleu.scale);
    mh_buffer_free(context, &svg);
}

// The loss of training is with label smoothing, that of validation without: the legend says so.
static void test_smoothing(void **state)
{
    (void)state;
    static const char log[] =
        "{\"update\": 10, \"epoch\": 1, \"loss\": 0.94, \"label_smoothing\": 0.15}\n"
        "{\"update\": 10, \"epoch\": 1, \"valid_loss\": 0.07, \"bleu\": 90}\n";
    mh_buffer svg = draw(log), text;
    assert_non_null(strstr(svg.data, ">training loss 0.940 (label smoothing 0.15)</text>"));
    assert_non_null(strstr(svg.data, ">validation loss 0.070 (no smoothing)</text>"));
    mh_buffer_free(context, &svg);
    test_ok(context, parse(log));
    test_ok(context, mh_curve_draw_text(context, &history, 40, &text));
    assert_non_null(strstr(text.data, "at update 10 (label smoothing 0.15)\n"));
    assert_non_null(strstr(text.data, "at update 10 (no smoothing)\n"));
    mh_buffer_free(context, &text);
    mh_run_history_free(context, &history);
    test_refused(context,
                 parse("{\"update\": 1, \"epoch\": 1, \"loss\": 1, "
                       "\"label_smoothing\": \"0.1\"}\n"),
                 MH_ERROR_FORMAT, "label_smoothing: not a number");
}

// A run of one kind of lines has no axis for the other, and one point is a dot.
static void test_few(void **state)
{
    (void)state;
    mh_buffer svg = draw("{\"update\": 0, \"epoch\": 0, \"loss\": 1}\n");
    assert_null(strstr(svg.data, "class=\"bleu"));
    assert_null(strstr(svg.data, ">BLEU"));
    assert_null(strstr(svg.data, "epochs</text>\n<text")); // no axis, but in the name
    assert_non_null(strstr(svg.data, "h0\"/>"));
    mh_buffer_free(context, &svg);
    svg = draw("{\"update\": 7, \"epoch\": 1, \"valid_loss\": -1e30}\n"
               "{\"update\": 9007199254740992, \"epoch\": 1e9, \"valid_loss\": 1e30}\n");
    assert_null(strstr(svg.data, "training loss"));
    assert_null(strstr(svg.data, "nan"));
    assert_null(strstr(svg.data, "inf"));
    mh_buffer_free(context, &svg);
}

// Round steps, ends within or at ticks, places that are linear.
static void test_axes(void **state)
{
    (void)state;
    test_rng rng = {test_seed()};
    for (size_t n = 0; n < test_cases(2000); n++) {
        double low = test_uniform(&rng, -1, 1) * pow(10, test_uniform(&rng, -9, 30));
        double high = low + test_uniform(&rng, 0, 1) * pow(10, test_uniform(&rng, -9, 30));
        mh_axis axis = mh_axis_make_round(low, high, 6);
        double digit = axis.step / pow(10, floor(log10(axis.step) + 1e-9));
        assert_true(fabs(digit - 1) < 1e-6 || fabs(digit - 2) < 1e-6 || fabs(digit - 5) < 1e-6);
        assert_true(axis.ticks >= 2 && axis.ticks <= 8);
        double slack = 1e-5 * axis.step;
        assert_true(axis.low <= low + slack && axis.high >= high - slack && axis.low < axis.high);
        assert_true(fabs(mh_axis_tick(&axis, 0) - axis.low) <= slack);
        assert_true(fabs(mh_axis_tick(&axis, axis.ticks - 1) - axis.high) <= slack);
    }
    mh_axis epochs = mh_axis_make(0, 2.5, 10, 1);
    assert_int_equal(epochs.ticks, 3);
    assert_true(epochs.step == 1 && epochs.decimals == 0);
}

// ---- thinning -----------------------------------------------------------------------------------

static mh_buffer long_log(size_t lines, size_t spike)
{
    mh_appender to = {.context = context};
    for (size_t i = 1; i <= lines; i++)
        mh_append_format(&to, "{\"update\": %zu, \"epoch\": %zu, \"loss\": %s}\n", i, i / 100,
                         i == spike ? "9.75"
                         : i % 2    ? "2"
                                    : "3");
    assert_false(to.failed);
    return to.buffer;
}

static void test_thinning(void **state)
{
    (void)state;
    static double points[MH_CURVE_POINTS_MAX][2];
    const size_t lines[] = {999, 1000, 1001, 1002, 54321};
    for (size_t n = 0; n < sizeof lines / sizeof *lines; n++) {
        size_t spike = lines[n] * 2 / 3;
        mh_buffer log = long_log(lines[n], spike), svg = draw(log.data);
        ruler x = read_ruler(svg.data, "m update", false, 0);
        ruler loss = read_ruler(svg.data, "e loss", true, -4.5);
        size_t count = read_path(svg.data, "train", x, loss, points, MH_CURVE_POINTS_MAX);
        assert_true(lines[n] <= 1000 ? count == lines[n] : count > 900);
        double most = 0, where = 0;
        for (size_t i = 0; i < count; i++) {
            assert_true(i == 0 || points[i][0] >= points[i - 1][0]);
            if (points[i][1] > most)
                most = points[i][1], where = points[i][0];
        }
        assert_true(fabs(most - 9.75) < 0.01);
        assert_true(fabs(where - (double)spike) <= 0.02 / x.scale);
        assert_true(fabs(points[0][0] - 1) <= 0.02 / x.scale);
        assert_true(fabs(points[count - 1][0] - (double)lines[n]) <= 0.02 / x.scale);
        mh_buffer_free(context, &svg);
        mh_buffer_free(context, &log);
    }
}

// ---- the text -----------------------------------------------------------------------------------

static void test_text(void **state)
{
    (void)state;
    for (size_t width = MH_CURVE_WIDTH_MIN; width < 200; width += 3) {
        mh_buffer text;
        test_ok(context, parse(small_log));
        test_ok(context, mh_curve_draw_text(context, &history, width, &text));
        mh_run_history_free(context, &history);
        assert_non_null(strstr(text.data, "BLEU             7.00, best 12.50 at update 800\n"));
        assert_non_null(strstr(text.data, "validation loss  3.500, best 3.000 at update 800\n"));
        assert_null(strstr(text.data, " \n"));
        size_t widest = 0;
        for (const char *line = strstr(text.data, "\n\n"); *line;) {
            size_t length = strcspn(line, "\n"), columns = 0;
            for (size_t i = 0; i < length; i++)
                columns += ((unsigned char)line[i] & 0xC0) != 0x80;
            widest = columns > widest ? columns : widest;
            line += length + 1;
        }
        assert_int_equal(widest, width);
        mh_buffer_free(context, &text);
    }
}

// ---- logs that are not whole --------------------------------------------------------------------

#define GOOD "{\"update\": 5, \"epoch\": 1, \"loss\": 2}\n"

static void test_cut(void **state)
{
    (void)state;
    const size_t size = strlen(small_log);
    size_t lines = 0, points = 0;
    for (size_t cut = 1; cut <= size; cut++) { // a crash after every byte
        blob copy = blob_copy(small_log, cut);
        mh_status status = mh_run_history_parse(context, "log", copy.bytes, cut, &history);
        blob_free(&copy);
        lines += small_log[cut - 1] == '\n';
        assert_int_equal(status, lines ? MH_OK : MH_ERROR_FORMAT);
        points = history.series[MH_RUN_LOSS].count + history.series[MH_RUN_VALID_LOSS].count;
        assert_int_equal(points, lines);
        mh_run_history_free(context, &history);
    }
    assert_int_equal(points, 7);
}

static void test_refusals(void **state)
{
    (void)state;
    static const struct {
        const char *text, *word;
    } bad[] = {
        {"", "log: has no complete line"},
        {"{\"update\": 5, \"epoch\": 1, \"loss\": 2}", "has no complete line"},
        {"\n", "line 1: is empty, expected JSON"},
        {GOOD "{\"update\": 6, \"epo\n" GOOD, "line 2: is not valid JSON"},
        {GOOD GOOD "[1]\n", "line 3: not a JSON object"},
        {GOOD "{\"epoch\": 1, \"loss\": 2}\n", "line 2: update: missing"},
        {GOOD "{\"update\": 6, \"loss\": 2}\n", "line 2: epoch: missing"},
        {GOOD "{\"update\": 6, \"epoch\": 1}\n", "line 2: loss: missing"},
        {GOOD "{\"update\": \"6\", \"epoch\": 1}\n", "line 2: update: not a number"},
        {GOOD "{\"update\": 6, \"epoch\": 1, \"loss\": null}\n", "line 2: loss: not a number"},
        {GOOD "{\"update\": 6, \"epoch\": 1, \"loss\": nan}\n", "line 2: is not valid JSON"},
        {GOOD "{\"update\": 6, \"epoch\": 1, \"loss\": 1e999}\n", "line 2: is not valid JSON"},
        {GOOD "{\"update\": 6, \"epoch\": 1, \"loss\": 1e31}\n", "line 2: loss: found 1"},
        {GOOD "{\"update\": 4, \"epoch\": 1, \"loss\": 2}\n",
         "line 2: update: found 4, expected a number from 5 to"},
        {GOOD "{\"update\": 6, \"epoch\": 0.5, \"loss\": 2}\n", "line 2: epoch: found 0.5"},
        {"{\"update\": -1, \"epoch\": 1, \"loss\": 2}\n", "update: found -1"},
        {"{\"update\": 1, \"epoch\": 1, \"valid_loss\": 2, \"bleu\": 101}\n", "bleu: found 101"},
        {"{\"update\": 1, \"epoch\": 1, \"valid_loss\": 2, \"bleu\": \"\"}\n", "bleu: not a"},
        {"{\"update\": 1, \"update\": 1, \"epoch\": 1, \"loss\": 2}\n", "line 1: is not valid"},
        {"{\"update\": 18446744073709551616, \"epoch\": 1, \"loss\": 2}\n", "line 1: is not valid"},
        {"{\"a\": [[[[[[[[[[]]]]]]]]]]}\n", "line 1: byte 13: nesting deeper than 8"},
        {"\xFF\n", "line 1: is not valid JSON"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        test_refused(context, parse(bad[i].text), MH_ERROR_FORMAT, bad[i].word);
        assert_null(history.series[MH_RUN_LOSS].points);
    }
    static char wide[MH_LINE_MAX + 16] = GOOD;
    memset(wide + strlen(GOOD), ' ', sizeof wide - strlen(GOOD) - 1);
    wide[sizeof wide - 2] = '\n';
    test_ok(context, parse(GOOD));
    mh_run_history_free(context, &history);
    test_refused(context, parse(wide), MH_ERROR_FORMAT, "line 2: is not valid JSON");
    static char wider[2 * MH_LINE_MAX] = GOOD;
    memset(wider + strlen(GOOD), ' ', sizeof wider - strlen(GOOD) - 1);
    wider[sizeof wider - 2] = '\n';
    test_refused(context, parse(wider), MH_ERROR_FORMAT, "line 2: more than 65536 bytes");
}

// ---- files, arguments, memory -------------------------------------------------------------------

static void test_files(void **state)
{
    (void)state;
    char log[] = "/tmp/test_curve_XXXXXX", image[64];
    int fd = mkstemp(log);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, small_log, strlen(small_log)), strlen(small_log));
    close(fd);
    snprintf(image, sizeof image, "%s.svg", log);
    mh_buffer svg, text;
    test_ok(context, mh_view_curve(context, log, &svg));
    test_ok(context, mh_view_curve_text(context, log, 80, &text));
    test_ok(context, mh_view_curve_write(context, log, image));
    blob written = blob_read(image);
    assert_int_equal(written.size, svg.size);
    assert_memory_equal(written.bytes, svg.data, svg.size);
    blob_free(&written);
    mh_buffer_free(context, &svg);
    mh_buffer_free(context, &text);
    test_refused(context, mh_view_curve_text(context, log, 19, &text), MH_ERROR_ARGUMENT,
                 "width: found 19, expected 20 to 10000");
    unlink(log);
    unlink(image);
    test_refused(context, mh_view_curve_write(context, log, image), MH_ERROR_FILE, log);
    assert_int_equal(access(image, F_OK), -1);
    test_refused(context, mh_view_curve(context, NULL, &svg), MH_ERROR_ARGUMENT, "NULL");
    test_refused(context, mh_view_curve(context, log, NULL), MH_ERROR_ARGUMENT, "NULL");
    test_refused(context, mh_view_curve_write(context, log, NULL), MH_ERROR_ARGUMENT, "NULL");
    assert_int_equal(mh_view_curve(NULL, log, &svg), MH_ERROR_ARGUMENT);
    assert_int_equal(mh_view_curve_write(NULL, log, image), MH_ERROR_ARGUMENT);
}

// Numbers have a point in every locale; skipped where there is none with a comma.
static void test_locale(void **state)
{
    (void)state;
    test_comma_locale();
    mh_buffer other = draw(small_log);
    setlocale(LC_NUMERIC, "C");
    mh_buffer plain = draw(small_log);
    assert_string_equal(plain.data, other.data);
    mh_buffer_free(context, &plain);
    mh_buffer_free(context, &other);
}

static mh_status read_and_draw(void)
{
    mh_buffer svg = {0}, text = {0};
    mh_status status = parse(small_log);
    if (status == MH_OK)
        status = mh_curve_draw_svg(context, &history, &svg);
    if (status == MH_OK)
        status = mh_curve_draw_text(context, &history, 40, &text);
    mh_run_history_free(context, &history);
    mh_buffer_free(context, &svg);
    mh_buffer_free(context, &text);
    return status;
}

static void test_no_memory(void **state)
{
    (void)state;
    test_out_of_memory(&memory, 1, read_and_draw);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_slots),     cmocka_unit_test(test_highest_bleu),
        cmocka_unit_test(test_smoothing), cmocka_unit_test(test_few),
        cmocka_unit_test(test_axes),      cmocka_unit_test(test_thinning),
        cmocka_unit_test(test_text),      cmocka_unit_test(test_cut),
        cmocka_unit_test(test_refusals),  cmocka_unit_test(test_files),
        cmocka_unit_test(test_locale),    cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests(tests, parser_set_up, parser_tear_down);
}
