// SPDX-License-Identifier: MIT
// Sound files that libmultihead-media decodes: tones in each format (tests/goldens/make_sounds.py)
// against their formula, and files that are cut, damaged or lie. Skipped where it is not built with
// libsndfile.
#include "audio/audio_internal.h"
#include "file_support.h"
#include "support.h"
#include <math.h>

enum { COUNT = 4000 };

static scarce memory;
static mh_context *context;
static unsigned char file[1 << 15];

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

static size_t read_golden(const char *name)
{
    char path[512];
    snprintf(path, sizeof path, MH_GOLDENS "/sounds/%s", name);
    FILE *stream = fopen(path, "rb");
    assert_non_null(stream);
    const size_t size = fread(file, 1, sizeof file, stream);
    fclose(stream);
    return size;
}

static double tones(size_t i)
{
    const double t = 2 * 3.14159265358979323846 * (double)i / 16000;
    return 0.25 * sin(440 * t) + 0.125 * sin(700 * t);
}

static void every_format(void **state)
{
    static const struct {
        const char *name;
        double most; // error of a sample
        size_t longer;
    } cases[] = {{"tones.flac", 1.0 / 32768, 0}, {"tones.ogg", 0.03, 0},  {"tones.opus", 0.03, 0},
                 {"tones.mp3", 0.02, 0},         {"adpcm.wav", 0.01, 48}, {"alaw.wav", 0.01, 0}};
    (void)state;
    if (!mh_audio_can_decode())
        skip();
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        mh_audio audio;
        const size_t size = read_golden(cases[c].name);
        test_ok(context, mh_audio_parse(context, cases[c].name, file, size, &audio));
        assert_int_equal(audio.rate, 16000);
        assert_int_equal(audio.count, COUNT + cases[c].longer);
        double worst = 0;
        for (size_t i = 0; i < COUNT; i++)
            worst = fmax(worst, fabs((double)audio.samples[i] - tones(i)));
        print_message("%s: worst error %.1e\n", cases[c].name, worst);
        assert_true(worst < cases[c].most);
        mh_audio_free(context, &audio);
    }
}

// Fewer samples or an error, never more, and no memory lost.
static void truncated_and_damaged(void **state)
{
    static const char *const names[] = {"tones.flac", "tones.ogg", "tones.opus", "tones.mp3",
                                        "adpcm.wav"};
    (void)state;
    if (!mh_audio_can_decode())
        skip();
    for (size_t n = 0; n < sizeof names / sizeof *names; n++) {
        const size_t size = read_golden(names[n]), before = memory.live;
        for (size_t cut = 0; cut < size; cut += 97) {
            mh_audio audio;
            file[cut] ^= 0x55;
            for (int damaged = 0; damaged < 2; damaged++) {
                const mh_status status =
                    mh_audio_parse(context, "file", file, damaged ? size : cut, &audio);
                if (status)
                    assert_true(status == MH_ERROR_FORMAT || status == MH_ERROR_UNSUPPORTED);
                mh_audio_free(context, &audio);
            }
            file[cut] ^= 0x55;
        }
        assert_true(memory.live == before);
    }
}

static void expect_refused(size_t size, mh_status status, const char *message)
{
    mh_audio audio;
    const size_t before = memory.live;
    test_refused(context, mh_audio_parse(context, "file", file, size, &audio), status, message);
    assert_null(audio.samples);
    assert_true(memory.live == before);
}

// STREAMINFO: rate (20 bits), channels - 1 (3), bits - 1 (5), samples (36), at byte 18.
static void lying_headers(void **state)
{
    (void)state;
    if (!mh_audio_can_decode())
        skip();
    size_t size = read_golden("tones.flac");
    assert_memory_equal(file, "fLaC", 4);
    file[21] = (unsigned char)(file[21] | 0x0f); // 64 G samples
    expect_refused(size, MH_ERROR_FORMAT, "samples, expected at most 1073741824 per channel");

    size = read_golden("tones.flac");
    file[22] = 0x3f; // 1 G samples in 5 kB: 4 GB if it were believed
    memory.peak = memory.live;
    const size_t before = memory.live;
    mh_audio audio;
    if (!mh_audio_parse(context, "file", file, size, &audio))
        assert_int_equal(audio.count, COUNT);
    mh_audio_free(context, &audio);
    assert_true(memory.peak < before + (8u << 20));

    size = read_golden("tones.flac");
    memset(file + 18, 0, 2); // rate
    file[20] &= 0x0f;
    expect_refused(size, MH_ERROR_UNSUPPORTED, "expected a sound file");
    size = read_golden("tones.flac");
    memset(file + 200, 0, size - 200); // silence is not what the frames say
    expect_refused(size, MH_ERROR_FORMAT, "not a valid sound file: ");
}

static void memory_may_fail(void **state)
{
    (void)state;
    if (!mh_audio_can_decode())
        skip();
    const size_t size = read_golden("tones.flac");
    mh_audio audio;
    mh_status status = MH_ERROR_MEMORY;
    for (size_t n = 1; status; n++) {
        memory.fail_at = memory.calls + n;
        status = mh_audio_parse(context, "file", file, size, &audio);
        assert_true(!status || status == MH_ERROR_MEMORY);
        assert_true(n < 10);
    }
    memory.fail_at = 0;
    mh_audio_free(context, &audio);
}

// LeakSanitizer asks for this: libsndfile does not free libvorbis' state of a file that it rejects.
const char *__lsan_default_suppressions(void);
const char *__lsan_default_suppressions(void) { return "leak:libvorbis"; }

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_format),
        cmocka_unit_test(truncated_and_damaged),
        cmocka_unit_test(lying_headers),
        cmocka_unit_test(memory_may_fail),
    };
    return cmocka_run_group_tests(tests, open_context, close_context);
}
