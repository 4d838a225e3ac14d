// SPDX-License-Identifier: MIT
// Transcription:
//
//     sound -> log-mel frames -> a window of 3000 -> encoder -> memory (1500, D)
//                  ^                                               |
//                  +-- the next window: where the last          decoder, with rules for tokens
//                      whole segment ended                         |
//                                   segments <- timestamps <- tokens, the likeliest of several
//                                   words    <- cross-attention of a second pass over them
#ifndef MH_SPEECH_SPEECH_INTERNAL_H
#define MH_SPEECH_SPEECH_INTERNAL_H

#include "model/model_internal.h"
#include "model/result_arena.h"
#include <multihead/speech.h>

enum {
    MH_WINDOW_FRAMES = 3000, // of the spectrogram: 30 s
    MH_WINDOW_SAMPLES = MH_WINDOW_FRAMES * MH_SPEECH_HOP,
    MH_FRAMES_PER_SECOND = MH_SPEECH_RATE / MH_SPEECH_HOP,
    MH_TIME_TOKENS = 1501,      // 0 to 30 s
    MH_TIMES_PER_SECOND = 50,   // of timestamp tokens, and of rows of the memory
    MH_INITIAL_TIME_TOKENS = 50 // a window's first segment begins within a second
};

// ---- tokens -------------------------------------------------------------------------------------

// Special tokens, which follow those of the text in a fixed order.
typedef struct mh_speech_tokens {
    int32_t end;                   // <|endoftext|>: tokens below are text
    int32_t start;                 // <|startoftranscript|>
    int32_t language;              // of the first language
    size_t languages;              //
    bool multilingual;             // else the model has no use for language and task
    int32_t translate, transcribe; //
    int32_t previous;              // <|startofprev|>
    int32_t no_speech, no_times;   //
    int32_t time;                  // <|0.00|>; the last is <|30.00|>
} mh_speech_tokens;

// False if this is no vocabulary of Whisper's.
bool mh_speech_tokens_find(size_t vocabulary, mh_speech_tokens *tokens);

// The index of a language by its code or name; -1: unknown. And its code.
int mh_speech_language(const char *name);
const char *mh_speech_language_code(size_t index);
// Whether words are not separated by spaces.
bool mh_speech_unspaced(size_t language);

// ---- one call -----------------------------------------------------------------------------------

typedef struct mh_speech {
    mh_context *context;
    const mh_model *model;
    mh_transcribe_options options;
    mh_speech_tokens tokens;
    size_t vocabulary, width; // V, D
    size_t most;              // tokens of a window's text
    bool *suppressed;         // (V): tokens that are no speech
    mh_token_list not_first;  // tokens that do not begin a text: " ", and the end
    int32_t own_not_first[2]; // unless the model has others
    size_t language;          // index
    int32_t begin[3];         // <|startoftranscript|>, and for multilingual models language, task
    size_t begin_count;
    float *features; // (mels, 3000): a window
    float *memory;   // (1500, D)
    size_t memory_rows;
} mh_speech;

// Sets scores (V) of tokens that must not come next to -infinity: symbols that are not spoken, and
// what would break the order of timestamps. `ids`: the window's text so far.
void mh_speech_filter(const mh_speech *s, const int32_t *ids, size_t count, float *scores);

// Finds the tokens that mh_speech_filter suppresses.
mh_status mh_speech_find_suppressed(mh_speech *s);

// ---- one window ---------------------------------------------------------------------------------

typedef struct mh_window_text {
    int32_t *ids; // (count), without the end; memory for mh_speech.most
    size_t count;
    double logprob;   // mean
    double no_speech; // probability
    double temperature, compression_ratio;
} mh_window_text;

// The text of the memory, behind a prompt of tokens that ends with those of the beginning. One
// attempt at a temperature.
mh_status mh_speech_decode(const mh_speech *s, const int32_t *prompt, size_t prompt_count,
                           double temperature, uint64_t window, mh_window_text *text);

// The language of the memory: the likeliest first token.
mh_status mh_speech_detect_language(const mh_speech *s, size_t *language);

// hidden (count, D) = the decoder's for these tokens; weights (chosen, count, memory rows) of
// cross-attention in the chosen heads (layers, heads), or NULL.
mh_status mh_speech_run_decoder(const mh_speech *s, const int32_t *ids, size_t count, float *hidden,
                                const bool *heads, float *weights);

// Called with the memory and text of a window, of which `frames` are sound.
typedef mh_status (*mh_window_fn)(void *user, const mh_speech *s, const mh_window_text *text,
                                  size_t frames);

// The first window of a sound, as mh_transcribe reads it; without a text if `decode` is false.
mh_status mh_speech_first_window(mh_context *context, const mh_model *model,
                                 const mh_transcribe_options *options, const mh_audio *audio,
                                 bool decode, mh_window_fn use, void *user);

// ---- words --------------------------------------------------------------------------------------

// Times of the words of a window's segments, whose texts are there, added to the store. `frames`:
// of the window that are sound; `offset`: seconds before it; `last`: where the speech before ended.
mh_status mh_speech_find_words(const mh_speech *s, mh_result_arena *store,
                               mh_speech_segment *segments, size_t count, size_t frames,
                               double offset, double last);

// Which heads (layers, heads) follow the sound; returns their number.
size_t mh_alignment_heads_find(const mh_model *model, bool *heads);

// Error: MH_ERROR_FORMAT if generation_config.json names a head that the model does not have.
mh_status mh_alignment_heads_check(mh_context *context, const mh_model *model);

// ids (count): the beginning, <|notimestamps|>, tokens of text, the end. times (texts + 1): when
// each token of text begins, and when the last ends, in seconds of the window; probabilities
// (texts). `frames`: of the window that are sound, at least 2.
mh_status mh_speech_align(const mh_speech *s, const int32_t *ids, size_t count, size_t frames,
                          double *times, double *probabilities);

// The path through costs (rows, columns) from the first corner to the last with the smallest sum,
// of steps down, right and diagonal: first[i] is the first column of row i. `trace` has memory for
// (rows + 1) (columns + 1) bytes, `sums` for 2 (columns + 1).
void mh_warp_path(const float *costs, size_t rows, size_t columns, unsigned char *trace,
                  float *sums, size_t *first);

#endif
