// SPDX-License-Identifier: MIT
// multihead/speech.h: transcription with Whisper: speech to text, with times of segments and words.
//
//     mh_model_load(context, "whisper-tiny.en", NULL, &model);
//     mh_audio_read(context, "talk.wav", &audio);
//     mh_transcribe(context, model, NULL, &audio, &transcription);
//     for (size_t i = 0; i < mh_transcription_count(transcription); i++)
//         ...mh_transcription_segment(transcription, i)->text
//
// Sound of any length is read in windows of 30 seconds, by the rules of OpenAI's own program: a
// window is decoded greedily or by beam search; if the text repeats itself or is improbable, again
// with a higher temperature; silence is skipped; and the next window begins where the last whole
// segment ended, with the text so far as its context. The same sound, options and seed give the
// same text, bitwise, for any number of threads.
//
// Part of libmultihead-model. Stability: experimental.
#ifndef MULTIHEAD_SPEECH_H
#define MULTIHEAD_SPEECH_H

#include <multihead/audio.h>
#include <multihead/pretrained.h>

#ifdef __cplusplus
extern "C" {
#endif

// A word of a segment, with the space before it and the punctuation around it.
typedef struct mh_speech_word {
    double begin, end;  // in seconds
    double probability; // mean of its tokens'
    mh_text text;
} mh_speech_word;

typedef struct mh_speech_segment {
    double begin, end; // in seconds
    mh_text text;
    const int32_t *ids; // (count): text and timestamp tokens
    size_t count;
    double temperature, logprob, compression_ratio, no_speech; // of its window
    const mh_speech_word *words;                               // (word_count), if asked for
    size_t word_count;
} mh_speech_segment;

// Called by the calling thread after each window, with the segments that it added and the seconds
// of sound read so far; false stops: what has been transcribed so far is the result.
typedef bool (*mh_transcribe_fn)(void *user, const mh_speech_segment *segments, size_t count,
                                 double seconds);

typedef struct mh_transcribe_options {
    size_t struct_size;   // sizeof(mh_transcribe_options)
    const char *language; // NULL: detected in the first window; or "fr", "french"
    bool translate;       // false; true: to English, by multilingual models
    bool timestamps;      // true; false: one segment per window
    bool word_times;      // false
    size_t beam;          // 1: greedy at temperature 0; more: beam search
    size_t best_of;       // 5: samples at higher temperatures, of which the likeliest is taken
    size_t temperatures;  // 6: of 0, 0.2, ... 1, tried in turn; 1: no fallback
    uint64_t seed;        // 0
    double max_compression_ratio; // 2.4: text that zlib compresses better is repetition
    double min_logprob;           // -1: a mean below this is a failure
    double max_no_speech;         // 0.6: above, with a mean below min_logprob: silence
    bool condition_on_previous;   // true: the text so far is the context of the next window
    mh_text prompt;               // "": what came before the sound
    mh_transcribe_fn on_window;   // NULL
    void *user;                   // NULL
} mh_transcribe_options;

static inline mh_transcribe_options mh_transcribe_options_default(void)
{
    mh_transcribe_options options;
    memset(&options, 0, sizeof options);
    options.struct_size = sizeof options;
    options.timestamps = options.condition_on_previous = true;
    options.beam = 1;
    options.best_of = 5;
    options.temperatures = 6;
    options.max_compression_ratio = 2.4;
    options.min_logprob = -1;
    options.max_no_speech = 0.6;
    return options;
}

// Immutable: any thread may read it.
typedef struct mh_transcription mh_transcription;

// Transcribes sound of any rate. options NULL: the defaults. Errors: MH_ERROR_UNSUPPORTED (the
// model is not Whisper, has no tokenizer, or cannot translate), MH_ERROR_ARGUMENT (an option; an
// unknown language; samples that are not finite), MH_ERROR_FORMAT (logits that are not finite:
// damaged weights), MH_ERROR_MEMORY, MH_ERROR_CANCELLED.
MH_API MH_MUST_CHECK mh_status mh_transcribe(mh_context *context, const mh_model *model,
                                             const mh_transcribe_options *options,
                                             const mh_audio *audio,
                                             mh_transcription **transcription);
MH_API void mh_transcription_free(mh_transcription *transcription); // NULL is allowed

MH_API size_t mh_transcription_count(const mh_transcription *transcription);
// NULL if there is none.
MH_API const mh_speech_segment *mh_transcription_segment(const mh_transcription *transcription,
                                                         size_t i);
MH_API const char *mh_transcription_language(const mh_transcription *transcription); // "en"

// ---- what heads attend to -----------------------------------------------------------------------

// Which 30 seconds of a sound, and how they are shown.
typedef struct mh_speech_window {
    size_t struct_size;  // sizeof(mh_speech_window)
    double begin;        // 0; in seconds
    const mh_text *text; // NULL: what the model transcribes; else the text that its decoder reads
    size_t columns;      // 150: keys at most; each is the sum over 20 ms or a multiple
    const char *title;   // NULL: the text
} mh_speech_window;

static inline mh_speech_window mh_speech_window_default(void)
{
    mh_speech_window window;
    memset(&window, 0, sizeof window);
    window.struct_size = sizeof window;
    window.columns = 150;
    return window;
}

// Traces the cross-attention of every layer and head over one window: each token of the text, and
// the end, attends to the sound, whose source tokens are named by the time where they begin,
// "1.24s". The last one, "silence", is what comes after a sound of less than 30 seconds. options
// and window NULL: the defaults; the text is as of mh_transcribe for this window alone. Errors:
// those of mh_transcribe; MH_ERROR_ARGUMENT (no sound from `begin` on, or less than 20 ms; columns;
// a text of no or too many tokens), MH_ERROR_FORMAT (a text that is not UTF-8).
MH_API MH_MUST_CHECK mh_status mh_transcribe_trace(mh_context *context, const mh_model *model,
                                                   const mh_transcribe_options *options,
                                                   const mh_audio *audio,
                                                   const mh_speech_window *window,
                                                   mh_model_trace **trace);

#ifdef __cplusplus
}
#endif
#endif
