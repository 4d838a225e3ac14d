// SPDX-License-Identifier: MIT
// Example 16: speech to text. Loads a Whisper model and a sound file, and prints what was said and
// when each word was.
//
// usage: 16_transcribe [MODEL SOUND]
// Without arguments it makes two tones of its own and prints their spectrogram, which is what the
// model hears: frequency upwards, time to the right.
#include <math.h>
#include <multihead/speech.h>
#include <stdio.h>
#include <stdlib.h>

static mh_context *context;

static void must(mh_status status)
{
    if (status == MH_OK)
        return;
    fprintf(stderr, "16_transcribe: %s\n", mh_error_message(context));
    exit(EXIT_FAILURE);
}

// ---- what the model hears -----------------------------------------------------------------------

enum { SAMPLES = 16000, FRAMES = SAMPLES / MH_SPEECH_HOP, MELS = 80 };

static void print_spectrogram(void)
{
    static float samples[SAMPLES], features[MELS * FRAMES]; // (mels, frames)
    mh_tensor t = mh_tensor_2d(features, MH_F32, MELS, FRAMES);
    for (size_t i = 0; i < SAMPLES; i++) { // one tone rises, the other falls
        const double s = (double)i / SAMPLES;
        samples[i] = (float)(0.3 * sin(2 * 3.14159265 * (300 + 900 * s) * s) +
                             0.3 * sin(2 * 3.14159265 * (3500 - 900 * s) * s));
    }
    must(mh_log_mel(context, samples, SAMPLES, &t));
    for (size_t m = MELS; m > 0; m -= 4) {
        for (size_t f = 0; f < FRAMES; f += 2) {
            const float level = features[(m - 2) * FRAMES + f];
            putchar(level > 1.1f ? '#' : level > 0.7f ? '+' : level > 0.3f ? '.' : ' ');
        }
        putchar('\n');
    }
}

// ---- what it says -------------------------------------------------------------------------------

static void transcribe(const char *directory, const char *path)
{
    mh_model *model;
    mh_audio audio;
    mh_transcription *transcription;
    mh_transcribe_options options = mh_transcribe_options_default();
    options.word_times = true;
    must(mh_model_load(context, directory, NULL, &model));
    must(mh_audio_read(context, path, &audio)); // of any rate
    must(mh_transcribe(context, model, &options, &audio, &transcription));
    for (size_t i = 0; i < mh_transcription_count(transcription); i++) {
        const mh_speech_segment *s = mh_transcription_segment(transcription, i);
        printf("%6.2f to %6.2f s:%.*s\n", s->begin, s->end, (int)s->text.size, s->text.bytes);
        for (size_t k = 0; k < s->word_count; k++)
            printf("    %6.2f %.*s\n", s->words[k].begin, (int)s->words[k].text.size,
                   s->words[k].text.bytes);
    }
    mh_transcription_free(transcription);
    mh_audio_free(context, &audio);
    mh_model_free(model);
}

int main(int argc, char **argv)
{
    if (mh_context_create(NULL, &context, NULL, 0) != MH_OK)
        return EXIT_FAILURE;
    if (argc == 3)
        transcribe(argv[1], argv[2]);
    else
        print_spectrogram();
    mh_context_free(context);
    return EXIT_SUCCESS;
}
