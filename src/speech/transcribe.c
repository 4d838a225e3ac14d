// SPDX-License-Identifier: MIT
// Sound to text, window by window; see speech.h. The rules of what to accept, skip and read next
// are those of OpenAI's program.
#include "audio/audio_internal.h"
#include "base/argument_check.h"
#include "base/compiler.h"
#include "base/size_math.h"
#include "base/sized_struct.h"
#include "speech/speech_internal.h"
#include "support/buffer.h"
#include "support/grow.h"
#include <math.h>
#include <string.h>
#include <zlib.h>

// Of the decoder, half for a window's text; the beginning, 4 tokens, and the end are beside it.
// Whisper has 448.
enum { FEWEST_POSITIONS = 16 };

struct mh_transcription {
    mh_allocator allocator;
    mh_result_arena store;
    mh_speech_segment *segments;
    size_t count, capacity;
    const char *language;
};

// All of a call.
typedef struct transcription_run {
    mh_speech s;
    mh_transcription *result;
    mh_tensor mel;   // (mels, frames and more): of the sound, and silence after it
    size_t frames;   // of the sound
    size_t seek;     // frames read
    int32_t *prompt; // (most + 8): up to most - 1 tokens of text, 5 special ones
    int32_t *said;   // tokens so far, of which those from said_from on are context
    size_t said_count, said_capacity, said_from;
    mh_window_text text;
    mh_buffer bytes; // a text
    double last_speech;
} transcription_run;

// ---- texts --------------------------------------------------------------------------------------

// The text of ids without special tokens, in run->bytes.
static mh_status decode_ids(transcription_run *run, const int32_t *ids, size_t count)
{
    size_t kept = 0;
    int32_t *text = mh_alloc(run->s.context, (count ? count : 1) * sizeof *text);
    if (!text)
        return MH_ERROR_MEMORY;
    for (size_t i = 0; i < count; i++)
        if (ids[i] < run->s.tokens.end)
            text[kept++] = ids[i];
    const mh_status status = mh_tokenizer_decode_text(run->s.context, run->s.model->tokenizer, true,
                                                      text, kept, &run->bytes);
    mh_free(run->s.context, text, (count ? count : 1) * sizeof *text);
    return status;
}

static bool is_space(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

static mh_text trim(mh_text text)
{
    while (text.size > 0 && is_space(text.bytes[0]))
        text.bytes++, text.size--;
    while (text.size > 0 && is_space(text.bytes[text.size - 1]))
        text.size--;
    return text;
}

// How many times shorter zlib makes a text.
static mh_status find_compression(mh_context *context, mh_text text, double *ratio)
{
    uLongf size = compressBound((uLong)text.size);
    Bytef *bytes = mh_alloc(context, size);
    if (!bytes)
        return MH_ERROR_MEMORY;
    const size_t bound = size;
    const int code =
        compress2(bytes, &size, (const Bytef *)text.bytes, (uLong)text.size, Z_DEFAULT_COMPRESSION);
    *ratio = code == Z_OK ? (double)text.size / (double)size : 0;
    mh_free(context, bytes, bound);
    return MH_OK;
}

// ---- a window -----------------------------------------------------------------------------------

// Frames of the window that are sound.
static size_t window_size(const transcription_run *run)
{
    return mh_smaller(run->frames - run->seek, MH_WINDOW_FRAMES);
}

// Encodes the next `size` frames, and zeros after them.
static mh_status encode_frames(transcription_run *run, size_t size)
{
    mh_speech *s = &run->s;
    const size_t mels = run->mel.shape[0], total = run->mel.shape[1];
    memset(s->features, 0, mels * MH_WINDOW_FRAMES * sizeof(float));
    for (size_t m = 0; m < mels; m++)
        memcpy(s->features + m * MH_WINDOW_FRAMES,
               (const float *)run->mel.data + m * total + run->seek, size * sizeof(float));
    const mh_tensor features = mh_tensor_2d(s->features, MH_F32, mels, MH_WINDOW_FRAMES);
    const int64_t starts[] = {0, (int64_t)s->memory_rows};
    mh_model_input input = mh_model_input_default();
    input.sequences = 1;
    input.starts = starts;
    input.features = &features;
    mh_tensor memory = mh_tensor_2d(s->memory, MH_F32, s->memory_rows, s->width);
    return mh_model_hidden(s->context, s->model, &input, &memory);
}

static mh_status encode_window(transcription_run *run)
{
    return encode_frames(run, window_size(run));
}

// [<|startofprev|> text so far] <|startoftranscript|> language task [<|notimestamps|>]
static size_t make_prompt(transcription_run *run)
{
    const mh_speech *s = &run->s;
    const size_t most = s->most - 1, there = run->said_count - run->said_from;
    const size_t kept = there < most ? there : most;
    size_t count = 0;
    if (kept > 0) {
        run->prompt[count++] = s->tokens.previous;
        memcpy(run->prompt + count, run->said + run->said_count - kept, kept * sizeof *run->said);
        count += kept;
    }
    memcpy(run->prompt + count, s->begin, s->begin_count * sizeof *s->begin);
    count += s->begin_count;
    if (!s->options.timestamps)
        run->prompt[count++] = s->tokens.no_times;
    return count;
}

static bool is_silence(const mh_transcribe_options *o, const mh_window_text *t)
{
    return t->no_speech > o->max_no_speech && t->logprob < o->min_logprob;
}

// Tries one temperature after the other, until the text is neither repetitive nor improbable.
static mh_status decode_window(transcription_run *run)
{
    mh_speech *s = &run->s;
    const mh_transcribe_options *o = &s->options;
    const size_t count = make_prompt(run);
    for (size_t i = 0; i < o->temperatures; i++) {
        mh_window_text *t = &run->text;
        MH_TRY(mh_speech_decode(s, run->prompt, count, 0.2 * (double)i, run->seek, t));
        MH_TRY(decode_ids(run, t->ids, t->count));
        const mh_text text = trim((mh_text){run->bytes.data, run->bytes.size});
        MH_TRY(find_compression(s->context, text, &t->compression_ratio));
        const bool failed =
            t->compression_ratio > o->max_compression_ratio || t->logprob < o->min_logprob;
        if (!failed || is_silence(o, t))
            break;
    }
    return MH_OK;
}

// ---- segments -----------------------------------------------------------------------------------

// Adds ids[begin, end) as a segment.
static mh_status add_segment(transcription_run *run, size_t begin, size_t end, double from,
                             double to)
{
    mh_context *context = run->s.context;
    mh_transcription *r = run->result;
    const mh_window_text *t = &run->text;
    if (!mh_grow(context, &r->segments, &r->capacity, r->count + 1, sizeof *r->segments))
        return MH_ERROR_MEMORY;
    MH_TRY(decode_ids(run, t->ids + begin, end - begin));
    const mh_text text = {run->bytes.data, run->bytes.size};
    mh_speech_segment g = {.begin = from,
                           .end = to,
                           .count = end - begin,
                           .temperature = t->temperature,
                           .logprob = t->logprob,
                           .compression_ratio = t->compression_ratio,
                           .no_speech = t->no_speech};
    g.ids = mh_result_copy(context, &r->store, t->ids + begin, g.count, sizeof *g.ids);
    g.text.bytes = mh_result_copy(context, &r->store, text.bytes, text.size, 1);
    g.text.size = text.size;
    if (!g.ids || !g.text.bytes)
        return MH_ERROR_MEMORY;
    r->segments[r->count++] = g;
    return MH_OK;
}

static double seconds_of(const transcription_run *run, int32_t id)
{
    return (double)run->seek / MH_FRAMES_PER_SECOND +
           (double)(id - run->s.tokens.time) / MH_TIMES_PER_SECOND;
}

// Pairs of timestamps divide the text. What comes after the last pair is read again by the next
// window, which begins there, unless the text ends with a timestamp that closes it.
static mh_status divide_by_times(transcription_run *run, size_t size, bool closed, bool *divided)
{
    const mh_window_text *t = &run->text;
    const int32_t time = run->s.tokens.time;
    size_t last = 0;
    for (size_t i = 1; i <= t->count; i++) {
        const bool cut =
            i < t->count ? t->ids[i] >= time && t->ids[i - 1] >= time : closed && last > 0;
        if (!cut)
            continue;
        MH_TRY(add_segment(run, last, i, seconds_of(run, t->ids[last]),
                           seconds_of(run, t->ids[i - 1])));
        last = i;
    }
    *divided = last > 0;
    if (last > 0)
        run->seek += closed ? size : (size_t)(t->ids[last - 1] - time) * 2;
    return MH_OK;
}

// A text without such pairs is one segment, until its last timestamp.
static mh_status add_whole(transcription_run *run, size_t size)
{
    const mh_window_text *t = &run->text;
    const double from = (double)run->seek / MH_FRAMES_PER_SECOND;
    double to = from + (double)size / MH_FRAMES_PER_SECOND;
    for (size_t i = t->count; i-- > 0;)
        if (t->ids[i] >= run->s.tokens.time) {
            if (t->ids[i] != run->s.tokens.time)
                to = seconds_of(run, t->ids[i]);
            break;
        }
    MH_TRY(add_segment(run, 0, t->count, from, to));
    run->seek += size;
    return MH_OK;
}

static mh_status remember(transcription_run *run, size_t first_segment)
{
    const mh_transcription *r = run->result;
    for (size_t i = first_segment; i < r->count; i++) {
        const mh_speech_segment *g = &r->segments[i];
        if (!mh_grow(run->s.context, &run->said, &run->said_capacity, run->said_count + g->count,
                     sizeof *run->said))
            return MH_ERROR_MEMORY;
        memcpy(run->said + run->said_count, g->ids, g->count * sizeof *run->said);
        run->said_count += g->count;
    }
    if (!run->s.options.condition_on_previous || run->text.temperature > 0.5)
        run->said_from = run->said_count;
    return MH_OK;
}

// Where the last word ends; without words, where the last segment does.
static double end_of_words(const mh_transcription *r, size_t first)
{
    for (size_t i = r->count; i-- > first;) {
        const mh_speech_segment *g = &r->segments[i];
        if (g->word_count)
            return g->words[g->word_count - 1].end;
    }
    return r->segments[r->count - 1].end;
}

// Words' times replace those of their segments; the next window begins after the last word.
static mh_status time_words(transcription_run *run, size_t first, size_t begin, size_t size,
                            bool closed)
{
    mh_transcription *r = run->result;
    const double offset = (double)begin / MH_FRAMES_PER_SECOND;
    MH_TRY(mh_speech_find_words(&run->s, &r->store, r->segments + first, r->count - first, size,
                                offset, run->last_speech));
    run->last_speech = end_of_words(r, first);
    if (!closed && run->last_speech > offset)
        run->seek = (size_t)(run->last_speech * MH_FRAMES_PER_SECOND + 0.5);
    if (run->seek <= begin)
        run->seek = begin + size;
    return MH_OK;
}

// Segments without a text or a duration are left out, also of the next window's context.
static void drop_empty(mh_transcription *r, size_t first)
{
    size_t kept = first;
    for (size_t i = first; i < r->count; i++)
        if (r->segments[i].begin != r->segments[i].end && trim(r->segments[i].text).size > 0)
            r->segments[kept++] = r->segments[i];
    r->count = kept;
}

static mh_status split_window(transcription_run *run, size_t size)
{
    const mh_window_text *t = &run->text;
    const int32_t time = run->s.tokens.time;
    const size_t first = run->result->count, begin = run->seek;
    const bool closed =
        t->count >= 2 && t->ids[t->count - 1] >= time && t->ids[t->count - 2] < time;
    bool divided;
    MH_TRY(divide_by_times(run, size, closed, &divided));
    if (!divided)
        MH_TRY(add_whole(run, size));
    if (run->seek == begin) // timestamps of 0
        run->seek += size;
    if (run->s.options.word_times)
        MH_TRY(time_words(run, first, begin, size, closed));
    drop_empty(run->result, first);
    return remember(run, first);
}

static mh_status transcribe_window(transcription_run *run)
{
    const size_t size = window_size(run);
    MH_TRY(decode_window(run));
    if (is_silence(&run->s.options, &run->text)) {
        run->seek += size;
        return MH_OK;
    }
    return split_window(run, size);
}

// ---- all windows --------------------------------------------------------------------------------

// That of the first 30 seconds, in which silence follows a shorter sound, where windows have zeros.
static mh_status detect_language(transcription_run *run)
{
    MH_TRY(encode_frames(run, MH_WINDOW_FRAMES));
    return mh_speech_detect_language(&run->s, &run->s.language);
}

// <|startoftranscript|>, and of multilingual models the language and the task.
static mh_status set_beginning(transcription_run *run)
{
    mh_speech *s = &run->s;
    const mh_speech_tokens *t = &s->tokens;
    if (t->multilingual && !s->options.language)
        MH_TRY(detect_language(run));
    s->begin[0] = t->start;
    s->begin[1] = t->language + (int32_t)s->language;
    s->begin[2] = s->options.translate ? t->translate : t->transcribe;
    s->begin_count = t->multilingual ? 3 : 1;
    return MH_OK;
}

static mh_status run_windows(transcription_run *run)
{
    const mh_transcribe_options *o = &run->s.options;
    mh_transcription *r = run->result;
    while (run->seek < run->frames) {
        const size_t first = r->count;
        if (!run->s.begin_count)
            MH_TRY(set_beginning(run));
        MH_TRY(encode_window(run));
        MH_TRY(transcribe_window(run));
        const double seconds =
            (double)(run->seek < run->frames ? run->seek : run->frames) / MH_FRAMES_PER_SECOND;
        const mh_speech_segment *said = r->count > first ? r->segments + first : NULL;
        if (o->on_window && !o->on_window(o->user, said, r->count - first, seconds))
            break;
    }
    r->language = mh_speech_language_code(run->s.language);
    return MH_OK;
}

static mh_status read_initial_prompt(transcription_run *run)
{
    mh_speech *s = &run->s;
    mh_encoding e = {0};
    mh_encode_options options = mh_encode_options_default();
    options.add_special_tokens = options.special_from_text = false;
    const mh_text text = trim(s->options.prompt);
    if (text.size == 0)
        return MH_OK;
    mh_buffer spaced = {0};
    mh_status status = mh_buffer_append(s->context, &spaced, " ", 1) &&
                               mh_buffer_append(s->context, &spaced, text.bytes, text.size)
                           ? MH_OK
                           : MH_ERROR_MEMORY;
    if (!status)
        status = mh_tokenizer_encode_text(s->context, s->model->tokenizer, &options,
                                          (mh_text){spaced.data, spaced.size}, NULL, &e);
    if (!status &&
        !mh_grow(s->context, &run->said, &run->said_capacity, e.count, sizeof *run->said))
        status = MH_ERROR_MEMORY;
    if (!status) {
        memcpy(run->said, e.ids, e.count * sizeof *run->said);
        run->said_count = e.count;
    }
    mh_encoding_free(s->context, &e);
    mh_buffer_free(s->context, &spaced);
    return status;
}

// The spectrogram of the sound and 30 s of silence, whose frames are dropped: the last ones of the
// sound reach into it.
static mh_status make_spectrogram(transcription_run *run, const mh_audio *audio)
{
    mh_context *context = run->s.context;
    mh_audio speech = {0}, padded = {0};
    MH_TRY(mh_audio_resample(context, audio, MH_SPEECH_RATE, &speech));
    mh_status status =
        mh_audio_create(context, speech.count + MH_WINDOW_SAMPLES, MH_SPEECH_RATE, &padded);
    if (!status) {
        memcpy(padded.samples, speech.samples, speech.count * sizeof(float));
        memset(padded.samples + speech.count, 0, MH_WINDOW_SAMPLES * sizeof(float));
        const size_t frames = mh_log_mel_frames(padded.count);
        const size_t mels = run->s.model->description.sound.mels;
        float *data = mh_alloc(context, mels * frames * sizeof *data);
        run->mel = mh_tensor_2d(data, MH_F32, mels, frames);
        run->frames = frames - MH_WINDOW_FRAMES;
        status =
            data ? mh_log_mel(context, padded.samples, padded.count, &run->mel) : MH_ERROR_MEMORY;
    }
    mh_audio_free(context, &speech);
    mh_audio_free(context, &padded);
    return status;
}

// ---- the call -----------------------------------------------------------------------------------

static mh_status check_options(mh_speech *s)
{
    const mh_transcribe_options *o = &s->options;
    if (o->beam < 1 || o->beam > 64 || o->best_of < 1 || o->best_of > 64)
        return mh_fail(s->context, MH_ERROR_ARGUMENT,
                       "beam and best_of: found %zu and %zu, expected 1 to 64", o->beam,
                       o->best_of);
    if (o->temperatures < 1 || o->temperatures > 6)
        return mh_fail(s->context, MH_ERROR_ARGUMENT, "temperatures: found %zu, expected 1 to 6",
                       o->temperatures);
    const int language = o->language ? mh_speech_language(o->language) : 0;
    if (language < 0 || (size_t)language >= s->tokens.languages)
        return mh_fail(s->context, MH_ERROR_ARGUMENT,
                       "language: found \"%.40s\", expected a code such as \"fr\" or a name such "
                       "as \"french\"",
                       o->language);
    if (!s->tokens.multilingual && (o->translate || language != 0))
        return mh_fail(s->context, MH_ERROR_UNSUPPORTED,
                       "this model knows English only; other languages and translation need a "
                       "multilingual one");
    s->language = (size_t)language;
    return MH_OK;
}

static mh_status check_model(mh_speech *s)
{
    const mh_model *m = s->model;
    if (!(m->info.abilities & MH_CAN_TRANSCRIBE))
        return mh_fail(s->context, MH_ERROR_UNSUPPORTED,
                       "this model (%s) does not transcribe, expected whisper", m->info.family);
    if (!m->tokenizer)
        return mh_fail(s->context, MH_ERROR_UNSUPPORTED,
                       "the model's directory has no tokenizer, expected tokenizer.json, "
                       "vocab.json with merges.txt, or a .tiktoken file");
    if (!mh_speech_tokens_find(s->vocabulary, &s->tokens) ||
        m->description.sound.frames != MH_WINDOW_FRAMES)
        return mh_fail(s->context, MH_ERROR_UNSUPPORTED,
                       "the model has %zu tokens and windows of %zu frames, expected Whisper's "
                       "51864, 51865 or 51866 and 3000",
                       s->vocabulary, m->description.sound.frames);
    if (m->description.positions < FEWEST_POSITIONS)
        return mh_fail(s->context, MH_ERROR_UNSUPPORTED,
                       "the model's decoder has %zu positions, expected at least %d",
                       m->description.positions, FEWEST_POSITIONS);
    return mh_alignment_heads_check(s->context, m);
}

static mh_status prepare(transcription_run *run, const mh_audio *audio)
{
    mh_speech *s = &run->s;
    MH_TRY(check_model(s));
    MH_TRY(check_options(s));
    s->memory_rows = MH_WINDOW_FRAMES / 2;
    s->most = s->model->description.positions / 2;
    const size_t mels = s->model->description.sound.mels;
    s->suppressed = mh_alloc(s->context, s->vocabulary * sizeof *s->suppressed);
    s->features = mh_alloc(s->context, mels * MH_WINDOW_FRAMES * sizeof(float));
    s->memory = mh_alloc(s->context, s->memory_rows * s->width * sizeof(float));
    run->prompt = mh_alloc(s->context, (s->most + 8) * sizeof *run->prompt);
    run->text.ids = mh_alloc(s->context, s->most * sizeof *run->text.ids);
    if (!s->suppressed || !s->features || !s->memory || !run->prompt || !run->text.ids)
        return MH_ERROR_MEMORY;
    MH_TRY(mh_speech_find_suppressed(s));
    MH_TRY(read_initial_prompt(run));
    return make_spectrogram(run, audio);
}

static void release(transcription_run *run)
{
    mh_speech *s = &run->s;
    mh_context *context = s->context;
    const size_t mels = s->model->description.sound.mels;
    mh_free(context, s->suppressed, s->vocabulary * sizeof *s->suppressed);
    mh_free(context, s->features, mels * MH_WINDOW_FRAMES * sizeof(float));
    mh_free(context, s->memory, s->memory_rows * s->width * sizeof(float));
    mh_free(context, run->prompt, (s->most + 8) * sizeof *run->prompt);
    mh_free(context, run->text.ids, s->most * sizeof *run->text.ids);
    mh_free(context, run->mel.data, run->mel.data ? mels * run->mel.shape[1] * sizeof(float) : 0);
    mh_shrink(context, &run->said, &run->said_capacity, sizeof *run->said);
    mh_buffer_free(context, &run->bytes);
}

static mh_status begin_run(mh_context *context, const mh_model *model,
                           const mh_transcribe_options *options, transcription_run *run)
{
    *run = (transcription_run){.s = {.context = context,
                                     .model = model,
                                     .options = mh_transcribe_options_default(),
                                     .vocabulary = model->info.target_vocabulary,
                                     .width = model->info.d_model}};
    return MH_READ_STRUCT(context, mh_transcribe_options, options, &run->s.options);
}

mh_status mh_transcribe(mh_context *context, const mh_model *model,
                        const mh_transcribe_options *options, const mh_audio *audio,
                        mh_transcription **transcription)
{
    transcription_run run;
    MH_TRY(MH_NEED(context, {"model", model}, {"audio", audio}, {"transcription", transcription}));
    *transcription = NULL;
    MH_TRY(begin_run(context, model, options, &run));
    mh_transcription *r = mh_alloc(context, sizeof *r);
    if (!r)
        return MH_ERROR_MEMORY;
    *r = (mh_transcription){.allocator = mh_context_allocator(context),
                            .store = {.allocator = mh_context_allocator(context)}};
    run.result = r;
    mh_status status = prepare(&run, audio);
    if (!status)
        status = run_windows(&run);
    release(&run);
    if (status)
        mh_transcription_free(r);
    else
        *transcription = r;
    return status;
}

mh_status mh_speech_first_window(mh_context *context, const mh_model *model,
                                 const mh_transcribe_options *options, const mh_audio *audio,
                                 bool decode, mh_window_fn use, void *user)
{
    transcription_run run;
    MH_TRY(begin_run(context, model, options, &run));
    mh_status status = prepare(&run, audio);
    if (!status)
        status = set_beginning(&run);
    if (!status)
        status = encode_window(&run);
    if (!status && decode)
        status = decode_window(&run);
    if (!status)
        status = use(user, &run.s, &run.text, window_size(&run));
    release(&run);
    return status;
}

void mh_transcription_free(mh_transcription *r)
{
    if (!r)
        return;
    const mh_allocator allocator = r->allocator;
    if (r->segments)
        allocator.release(allocator.user, r->segments, r->capacity * sizeof *r->segments);
    mh_result_free(&r->store);
    allocator.release(allocator.user, r, sizeof *r);
}

size_t mh_transcription_count(const mh_transcription *r) { return r->count; }

const mh_speech_segment *mh_transcription_segment(const mh_transcription *r, size_t i)
{
    return i < r->count ? &r->segments[i] : NULL;
}

const char *mh_transcription_language(const mh_transcription *r) { return r->language; }
