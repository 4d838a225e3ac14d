// SPDX-License-Identifier: MIT
// Sound files, resampling and the log-mel spectrogram, against formulas in double.
#include "audio/audio_internal.h"
#include "file_support.h"
#include "support.h"
#include <math.h>
#include <multihead/audio.h>

static const double pi = 3.14159265358979323846;

static scarce memory;
static mh_context *context;
static char warning[200];

static void keep_warning(void *user, mh_log_level level, const char *message)
{
    (void)user;
    if (level == MH_LOG_WARNING)
        snprintf(warning, sizeof warning, "%s", message);
}

static int open_context(void **state)
{
    mh_context_options o = scarce_options(&memory);
    (void)state;
    o.log = keep_warning;
    return mh_context_create(&o, &context, NULL, 0) != MH_OK;
}

static int close_context(void **state)
{
    (void)state;
    mh_context_free(context);
    return 0;
}

// ---- WAV files ----------------------------------------------------------------------------------

typedef struct wav {
    unsigned char bytes[512];
    size_t size;
} wav;

static void put(wav *w, const void *bytes, size_t size)
{
    memcpy(w->bytes + w->size, bytes, size);
    w->size += size;
}

static void put_number(wav *w, uint32_t number, size_t size) { put(w, &number, size); }

// A file of this format; the data's claimed size may be another than it is.
static wav make_wav(uint32_t format, uint32_t channels, uint32_t rate, uint32_t bits,
                    const void *data, size_t size, uint32_t claimed)
{
    wav w = {.size = 0};
    put(&w, "RIFF\0\0\0\0WAVE", 12);
    put(&w, "LIST\3\0\0\0abc\0", 12); // an odd chunk, with its padding
    put(&w, "fmt \x10\0\0\0", 8);
    put_number(&w, format, 2);
    put_number(&w, channels, 2);
    put_number(&w, rate, 4);
    put_number(&w, rate * channels * bits / 8, 4);
    put_number(&w, channels * bits / 8, 2);
    put_number(&w, bits, 2);
    put(&w, "data", 4);
    put_number(&w, claimed, 4);
    put(&w, data, size);
    return w;
}

static void expect_samples(const wav *w, size_t rate, size_t count, const float *expected)
{
    mh_audio audio;
    test_ok(context, mh_audio_parse(context, "sound", w->bytes, w->size, &audio));
    assert_int_equal(audio.rate, rate);
    assert_int_equal(audio.count, count);
    for (size_t i = 0; i < count; i++)
        assert_true(audio.samples[i] == expected[i]);
    mh_audio_free(context, &audio);
    assert_null(audio.samples);
}

static void reads_all_formats(void **state)
{
    (void)state;
    const float expected[] = {-1, 0, 0.5f};
    const unsigned char b8[] = {0, 128, 192};
    const int16_t b16[] = {-32768, 0, 16384};
    const unsigned char b24[] = {0, 0, 0x80, 0, 0, 0, 0, 0, 0x40};
    const int32_t b32[] = {INT32_MIN, 0, 1 << 30};
    const float f32[] = {-1, 0, 0.5f};
    const double f64[] = {-1, 0, 0.5};
    const struct {
        uint32_t format, bits;
        const void *data;
        size_t size;
    } cases[] = {{1, 8, b8, sizeof b8},    {1, 16, b16, sizeof b16}, {1, 24, b24, sizeof b24},
                 {1, 32, b32, sizeof b32}, {3, 32, f32, sizeof f32}, {3, 64, f64, sizeof f64}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const wav w = make_wav(cases[i].format, 1, 8000, cases[i].bits, cases[i].data,
                               cases[i].size, (uint32_t)cases[i].size);
        expect_samples(&w, 8000, 3, expected);
    }
}

static void mixes_channels(void **state)
{
    (void)state;
    const int16_t samples[] = {16384, 0, -16384, -16384};
    const wav w = make_wav(1, 2, 44100, 16, samples, sizeof samples, sizeof samples);
    expect_samples(&w, 44100, 2, (const float[]){0.25f, -0.5f});
}

// A pipe's writer does not know the size; a truncated file has fewer samples than it claims, which
// is worth a warning.
static void takes_what_is_there(void **state)
{
    (void)state;
    const int16_t samples[] = {16384, -16384};
    const uint32_t claims[] = {0, 0x7ffff000, 0x80000000, 0xffffffff, 1000};
    for (size_t i = 0; i < sizeof claims / sizeof *claims; i++) {
        const wav w = make_wav(1, 1, 16000, 16, samples, sizeof samples, claims[i]);
        *warning = 0;
        expect_samples(&w, 16000, 2, (const float[]){0.5f, -0.5f});
        assert_string_equal(
            warning, claims[i] == 1000 ? "sound: the file ends early: found 2 of 500 samples" : "");
    }
}

static void floats_are_clipped(void **state)
{
    (void)state;
    const float samples[] = {0.5f, 1e30f, -1.25f};
    const wav w = make_wav(3, 1, 16000, 32, samples, sizeof samples, sizeof samples);
    expect_samples(&w, 16000, 3, (const float[]){0.5f, 1, -1});
}

static void expect_refused(const void *bytes, size_t size, mh_status status, const char *message)
{
    mh_audio audio;
    const size_t before = memory.live;
    const mh_status found = mh_audio_parse(context, "file", bytes, size, &audio);
    if (found != status || !strstr(mh_error_message(context), message))
        fail_msg("found %s \"%s\", expected \"%s\"", mh_status_name(found),
                 found ? mh_error_message(context) : "", message);
    assert_null(audio.samples);
    assert_true(memory.live == before);
}

static void refuses_numbers_that_are_none(void **state)
{
    (void)state;
    const float nan[] = {0.5f, 0.5f, NAN}, infinite[] = {0.5f, -INFINITY, 0.5f};
    wav w = make_wav(3, 1, 16000, 32, nan, sizeof nan, sizeof nan);
    expect_refused(w.bytes, w.size, MH_ERROR_FORMAT, "sample 2 is NaN or infinite");
    w = make_wav(3, 1, 16000, 32, infinite, sizeof infinite, sizeof infinite);
    expect_refused(w.bytes, w.size, MH_ERROR_FORMAT, "sample 1 is NaN or infinite");
}

static void refuses_other_files(void **state)
{
    (void)state;
    const int16_t s[] = {1, 2};
    wav w = make_wav(1, 1, 16000, 16, s, sizeof s, sizeof s);
    const char *advice = "expected a sound file";
    expect_refused("not sound at all", 16, MH_ERROR_UNSUPPORTED, advice);
    expect_refused("RIFF", 4, MH_ERROR_UNSUPPORTED, advice);
    expect_refused("", 0, MH_ERROR_FORMAT, "the file is empty, expected a sound");
    expect_refused(w.bytes, 12, MH_ERROR_FORMAT, "has no 'fmt ' chunk");
    expect_refused(w.bytes, 48, MH_ERROR_FORMAT, "has no 'data' chunk");
    w = make_wav(17, 1, 16000, 4, s, sizeof s, sizeof s);
    expect_refused(w.bytes, w.size, MH_ERROR_UNSUPPORTED,
                   mh_audio_can_decode() ? "expected a sound file" : "format 17 with 4 bits");
    w = make_wav(1, 0, 16000, 16, s, sizeof s, sizeof s);
    expect_refused(w.bytes, w.size, MH_ERROR_FORMAT, "0 channels");
    w = make_wav(1, 1, 3, 16, s, sizeof s, sizeof s);
    expect_refused(w.bytes, w.size, MH_ERROR_FORMAT, "found 3 samples per second");
    w = make_wav(1, 1, 16000, 16, s, sizeof s, sizeof s);
    for (size_t size = 0; size < w.size; size++) { // truncated anywhere: an error or fewer samples
        mh_audio audio;
        if (!mh_audio_parse(context, "file", w.bytes, size, &audio))
            assert_true(audio.count < 2);
        mh_audio_free(context, &audio);
    }
}

// ---- resampling ---------------------------------------------------------------------------------

static float *tones(size_t rate, size_t count, double lowest, double highest)
{
    float *x = calloc(count, sizeof *x);
    for (size_t i = 0; i < count; i++)
        for (size_t k = 0; k < 5; k++) {
            const double f = lowest + (highest - lowest) * (double)k / 4;
            x[i] += (float)(0.1 * sin(2 * pi * f * (double)i / (double)rate + (double)k));
        }
    return x;
}

static void resamples_tones(void **state)
{
    (void)state;
    const size_t rates[] = {8000, 11025, 22050, 44100, 48000, 96000};
    for (size_t r = 0; r < sizeof rates / sizeof *rates; r++) {
        const double top = 0.45 * fmin((double)rates[r], 16000);
        mh_audio audio = {rates[r] / 4, rates[r], tones(rates[r], rates[r] / 4, 100, top)}, y;
        test_ok(context, mh_audio_resample(context, &audio, 16000, &y));
        assert_int_equal(y.count, (audio.count * 16000 + rates[r] - 1) / rates[r]);
        float *expected = tones(16000, y.count, 100, top);
        double worst = 0;
        for (size_t i = 500; i < y.count - 500; i++) // away from the ends, where silence begins
            worst = fmax(worst, fabs((double)y.samples[i] - (double)expected[i]));
        print_message("%zu Hz: worst error %.1e\n", rates[r], worst);
        assert_true(worst < 5e-6);
        free(expected);
        free(audio.samples);
        mh_audio_free(context, &y);
    }
}

static void removes_what_would_alias(void **state)
{
    (void)state;
    mh_audio audio = {12000, 48000, tones(48000, 12000, 8600, 23000)}, y;
    double worst = 0;
    test_ok(context, mh_audio_resample(context, &audio, 16000, &y));
    for (size_t i = 500; i < y.count - 500; i++)
        worst = fmax(worst, fabs((double)y.samples[i]));
    print_message("aliases: %.0f dB\n", 20 * log10(worst));
    assert_true(worst < 1e-5);
    free(audio.samples);
    mh_audio_free(context, &y);
}

// Of 16000 phases only those of the new samples have taps: blocks of memory are small.
static void *allocate_small(void *user, size_t size, size_t alignment)
{
    void *block = NULL;
    (void)user;
    return size <= 1 << 20 && posix_memalign(&block, alignment, size) == 0 ? block : NULL;
}

static void release_small(void *user, void *block, size_t size)
{
    (void)user;
    (void)size;
    free(block);
}

static void short_sounds_have_few_taps(void **state)
{
    (void)state;
    float x[1000] = {0.5f};
    mh_context_options options = mh_context_options_default();
    mh_context *small;
    options.threads = 2;
    options.allocator = (mh_allocator){.alloc = allocate_small, .release = release_small};
    test_ok(NULL, mh_context_create(&options, &small, NULL, 0));
    for (size_t count = 0; count <= 1000; count += 500) {
        const mh_audio audio = {count, 191999, x};
        mh_audio y;
        test_ok(small, mh_audio_resample(small, &audio, 16000, &y));
        assert_int_equal(y.count, (count * 16000 + 191998) / 191999);
        mh_audio_free(small, &y);
    }
    mh_context_free(small);
}

// The beginning of a sound with all phases is that of a shorter one, which has a few, bitwise.
static void few_taps_are_those_of_all(void **state)
{
    (void)state;
    enum { COUNT = 13000, SHORT = 500, SAME = (SHORT - 70) * 4 / 3 };
    mh_audio audio = {COUNT, 12001, tones(12001, COUNT, 100, 5000)}, all, few;
    test_ok(context, mh_audio_resample(context, &audio, 16000, &all));
    assert_true(all.count > 16000);
    audio.count = SHORT;
    test_ok(context, mh_audio_resample(context, &audio, 16000, &few));
    assert_memory_equal(few.samples, all.samples, SAME * sizeof(float));
    free(audio.samples);
    mh_audio_free(context, &all);
    mh_audio_free(context, &few);
}

// What libmultihead-media is needed for looks like sound.
static void advice_is_for_sound(void **state)
{
    static const char *const sounds[] = {"fLaC....",     "OggS....",     "ID3.....", "\377\373..",
                                         "FORM....AIFF", "FORM....AIFC", ".snd....", "caff...."};
    static const char *const others[] = {
        "\x89PNG....",      "GIF8....", "FORM....ILBM", "\377\376..",
        "\xff\xd8\xff\xe0", "a text",   "\xff",         "FORM"};
    (void)state;
    for (size_t i = 0; i < sizeof sounds / sizeof *sounds; i++) {
        const mh_source sound = {context, "file", (const unsigned char *)sounds[i],
                                 strlen(sounds[i])};
        const mh_source other = {context, "file", (const unsigned char *)others[i],
                                 strlen(others[i])};
        test_refused(context, mh_audio_refuse(&sound), MH_ERROR_UNSUPPORTED, "make media");
        test_refused(context, mh_audio_refuse(&other), MH_ERROR_UNSUPPORTED, "unknown kind");
    }
}

static void refuses_odd_rates(void **state)
{
    (void)state;
    float samples[4] = {0};
    mh_audio audio = {4, 16000, samples}, y;
    test_refused(context, mh_audio_resample(context, &audio, 12, &y), MH_ERROR_ARGUMENT,
                 "rate: found 12");
    audio.rate = 0;
    test_refused(context, mh_audio_resample(context, &audio, 16000, &y), MH_ERROR_ARGUMENT,
                 "audio: rate: found 0");
}

// ---- the spectrogram ----------------------------------------------------------------------------

enum { SAMPLES = 4000, FRAMES = SAMPLES / 160, MELS = 80 };

static double hertz(double mel)
{
    return mel < 15 ? mel * 200 / 3 : 1000 * exp((mel - 15) * log(6.4) / 27);
}

static double filter_at(size_t mels, size_t m, double f)
{
    const double step = (15 + 27 * log(8) / log(6.4)) / (double)(mels + 1);
    const double a = hertz(step * (double)m), b = hertz(step * (double)(m + 1));
    const double c = hertz(step * (double)(m + 2));
    return fmax(0, fmin((f - a) / (b - a), (c - f) / (c - b))) * 2 / (c - a);
}

// The DFT by its definition.
static void powers_of_frame(const float *x, size_t frame, double power[201])
{
    for (int k = 0; k <= 200; k++) {
        double re = 0, im = 0;
        for (int n = 0; n < 400; n++) {
            long at = labs((long)frame * 160 - 200 + n);
            at = at >= SAMPLES ? 2 * (SAMPLES - 1) - at : at;
            const double w = (0.5 - 0.5 * cos(2 * pi * n / 400)) * (double)x[at];
            re += w * cos(2 * pi * k * n / 400);
            im -= w * sin(2 * pi * k * n / 400);
        }
        power[k] = re * re + im * im;
    }
}

static void log_mel_by_definition(const float *x, double *features)
{
    double power[201], largest = -INFINITY;
    for (size_t t = 0; t < FRAMES; t++) {
        powers_of_frame(x, t, power);
        for (size_t m = 0; m < MELS; m++) {
            double sum = 0;
            for (size_t k = 0; k <= 200; k++)
                sum += filter_at(MELS, m, (double)k * 40) * power[k];
            features[m * FRAMES + t] = log10(fmax(sum, 1e-10));
            largest = fmax(largest, features[m * FRAMES + t]);
        }
    }
    for (size_t i = 0; i < MELS * FRAMES; i++)
        features[i] = (fmax(features[i], largest - 8) + 4) / 4;
}

static void spectrogram_is_by_definition(void **state)
{
    (void)state;
    static float features[MELS * FRAMES];
    static double expected[MELS * FRAMES];
    float *x = tones(16000, SAMPLES, 150, 6000);
    mh_tensor t = mh_tensor_2d(features, MH_F32, MELS, FRAMES);
    double worst = 0;
    for (size_t i = 0; i < SAMPLES; i++)
        x[i] *= (float)i / SAMPLES; // quiet to loud
    test_ok(context, mh_log_mel(context, x, SAMPLES, &t));
    log_mel_by_definition(x, expected);
    for (size_t i = 0; i < MELS * FRAMES; i++)
        worst = fmax(worst, fabs((double)features[i] - expected[i]));
    print_message("log-mel: worst error %.1e\n", worst);
    assert_true(worst < 1e-4); // where there is nothing but rounding errors 80 dB down
    free(x);
}

static void spectrogram_of_silence(void **state)
{
    (void)state;
    static float x[SAMPLES], features[MELS * FRAMES];
    mh_tensor t = mh_tensor_2d(features, MH_F32, MELS, FRAMES);
    test_ok(context, mh_log_mel(context, x, SAMPLES, &t));
    for (size_t i = 0; i < MELS * FRAMES; i++)
        assert_true(features[i] == -1.5f);
    test_refused(context, mh_log_mel(context, x, 200, &t), MH_ERROR_ARGUMENT, "found 200 samples");
    t.shape[1]++;
    test_refused(context, mh_log_mel(context, x, SAMPLES, &t), MH_ERROR_ARGUMENT,
                 "features: found");
}

// They would be heard as silence.
static void refuses_sound_that_is_not_finite(void **state)
{
    static const float values[] = {NAN, INFINITY, -INFINITY};
    static float x[SAMPLES], features[MELS * FRAMES];
    mh_tensor t = mh_tensor_2d(features, MH_F32, MELS, FRAMES);
    const mh_audio audio = {SAMPLES, 8000, x};
    mh_audio y;
    (void)state;
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
        x[SAMPLES - 1] = values[i];
        test_refused(context, mh_log_mel(context, x, SAMPLES, &t), MH_ERROR_ARGUMENT,
                     "samples: sample 3999 is NaN or infinite");
        test_refused(context, mh_audio_resample(context, &audio, 16000, &y), MH_ERROR_ARGUMENT,
                     "audio: sample 3999 is NaN or infinite");
        assert_null(y.samples);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_all_formats),
        cmocka_unit_test(mixes_channels),
        cmocka_unit_test(takes_what_is_there),
        cmocka_unit_test(floats_are_clipped),
        cmocka_unit_test(refuses_numbers_that_are_none),
        cmocka_unit_test(refuses_other_files),
        cmocka_unit_test(advice_is_for_sound),
        cmocka_unit_test(resamples_tones),
        cmocka_unit_test(short_sounds_have_few_taps),
        cmocka_unit_test(few_taps_are_those_of_all),
        cmocka_unit_test(removes_what_would_alias),
        cmocka_unit_test(refuses_odd_rates),
        cmocka_unit_test(spectrogram_is_by_definition),
        cmocka_unit_test(spectrogram_of_silence),
        cmocka_unit_test(refuses_sound_that_is_not_finite),
    };
    return cmocka_run_group_tests(tests, open_context, close_context);
}
