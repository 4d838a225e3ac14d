// SPDX-License-Identifier: MIT
// A golden transcript: tokens, times of segments and of words by a small model (whisper_fixture.h),
// whose hash is one for all instruction-set levels, numbers of threads and compilers. Noise at 44.1
// kHz goes through the resampler, the spectrogram, the encoder, the decoder and the alignment.
#include "base/random.h"
#include "support.h"
#include "whisper_fixture.h"
#include <inttypes.h>
#include <math.h>
#include <multihead/speech.h>
#include <stdlib.h>
#include <unistd.h>

enum { RATE = 44100, SECONDS = 7 };

static const uint64_t golden = 0xADE4055696101EAF;

static float samples[SECONDS * RATE];

static uint64_t add(uint64_t hash, int64_t value)
{
    for (size_t i = 0; i < 8; i++, value >>= 8)
        hash = (hash ^ (value & 0xff)) * 0x100000001B3u;
    return hash;
}

static uint64_t add_times(uint64_t hash, double begin, double end)
{
    return add(add(hash, lround(begin * 100)), lround(end * 100));
}

static uint64_t hash_segments(const mh_transcription *t)
{
    uint64_t hash = 0xCBF29CE484222325u;
    for (size_t i = 0; i < mh_transcription_count(t); i++) {
        const mh_speech_segment *g = mh_transcription_segment(t, i);
        hash = add_times(hash, g->begin, g->end);
        for (size_t k = 0; k < g->count; k++)
            hash = add(hash, g->ids[k]);
        for (size_t k = 0; k < g->word_count; k++)
            hash = add_times(hash, g->words[k].begin, g->words[k].end);
    }
    return hash;
}

static void check_level(const char *directory, const char *level, size_t threads)
{
    mh_context *context = test_context(level, threads);
    mh_transcribe_options options = mh_transcribe_options_default();
    const mh_audio audio = {SECONDS * RATE, RATE, samples};
    mh_transcription *t;
    mh_model *model;
    options.word_times = true;
    test_ok(context, mh_model_load(context, directory, NULL, &model));
    test_ok(context, mh_transcribe(context, model, &options, &audio, &t));
    assert_int_equal(mh_transcription_count(t), 2);
    assert_int_equal(mh_transcription_segment(t, 0)->word_count, 6);
    const uint64_t hash = hash_segments(t);
    if (hash != golden)
        fail_msg("%s, %zu threads: found 0x%016" PRIX64 ", expected 0x%016" PRIX64, level, threads,
                 hash, golden);
    mh_transcription_free(t);
    mh_model_free(model);
    mh_context_free(context);
}

static void transcript_is_the_same(void **state)
{
    char directory[] = "/tmp/mh-whisper-XXXXXX", command[64];
    mh_context *context = test_context(NULL, 1);
    (void)state;
    mh_random_uniform(2017, 0, -0.3f, 0.3f, SECONDS * RATE, samples);
    assert_non_null(mkdtemp(directory));
    assert_true(fixture_whisper(context, directory, WHISPER_SPEAKS));
    mh_context_free(context);
    for (size_t i = 0; test_level(i); i++)
        check_level(directory, test_level(i), 1 + 2 * (i % 2));
    check_level(directory, test_level(0), 5);
    snprintf(command, sizeof command, "rm -r %s", directory);
    assert_int_equal(system(command), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(transcript_is_the_same)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
