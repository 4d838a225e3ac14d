// SPDX-License-Identifier: MIT
// What the decoder attends to in a window of sound: the cross-attention of every layer and head
// over the window's text. Row t of a head has the weights of the query that predicts token t of the
// text or, in the last row, its end. 1500 keys are too many to be read, so that a column is the sum
// of several; the silence behind a short sound is one column.
#include "base/argument_check.h"
#include "base/compiler.h"
#include "base/overflow.h"
#include "base/size_math.h"
#include "base/sized_struct.h"
#include "speech/speech_internal.h"
#include <stdio.h>
#include <string.h>

enum {
    COLUMNS_MAX = 1501,
    STAGING_BYTES = 1 << 28, // of weights before their columns are summed, if a layer needs less
};

typedef struct speech_trace {
    mh_context *context;
    const mh_speech_window *window;
    mh_model_trace *made;
    int32_t *ids;   // (count): beginning, <|notimestamps|>, text, end
    size_t count;   //
    size_t first;   // row of the first token of text
    size_t rows;    // tokens of text, and the end
    size_t sound;   // keys that are sound
    size_t step;    // keys per column
    size_t columns; // with that of silence
} speech_trace;

// ---- tokens -------------------------------------------------------------------------------------

// The window's text, without timestamps, or the one that is given.
static mh_status take_ids(speech_trace *t, const mh_speech *s, const int32_t *text, size_t count)
{
    t->ids =
        mh_result_take(t->context, &t->made->store, s->begin_count + 2 + count, sizeof *t->ids);
    if (!t->ids)
        return MH_ERROR_MEMORY;
    memcpy(t->ids, s->begin, s->begin_count * sizeof *t->ids);
    t->count = s->begin_count;
    t->ids[t->count++] = s->tokens.no_times;
    t->first = t->count;
    for (size_t i = 0; i < count; i++)
        if (text[i] < s->tokens.end)
            t->ids[t->count++] = text[i];
    t->ids[t->count++] = s->tokens.end;
    t->rows = t->count - t->first;
    if (t->rows < 2 || t->rows > s->most)
        return mh_fail(t->context, MH_ERROR_ARGUMENT,
                       "the text of this window has %zu tokens, expected 1 to %zu", t->rows - 1,
                       s->most - 1);
    return MH_OK;
}

// A text that was given begins with a space, as all that Whisper writes.
static mh_status encode_given(speech_trace *t, const mh_speech *s)
{
    const mh_text given = *t->window->text;
    mh_encoding e = {0};
    mh_encode_options options = mh_encode_options_default();
    options.add_special_tokens = options.special_from_text = false;
    const bool spaced = given.size == 0 || given.bytes[0] == ' ';
    char *bytes = mh_result_take(t->context, &t->made->store, given.size + 1, 1);
    if (!bytes)
        return MH_ERROR_MEMORY;
    bytes[0] = ' ';
    if (given.size > 0)
        memcpy(bytes + !spaced, given.bytes, given.size);
    mh_status status = mh_tokenizer_encode_text(t->context, s->model->tokenizer, &options,
                                                (mh_text){bytes, given.size + !spaced}, NULL, &e);
    if (!status)
        status = take_ids(t, s, e.ids, e.count);
    mh_encoding_free(t->context, &e);
    return status;
}

static const char *keep_bytes(const speech_trace *t, const char *bytes, size_t size)
{
    char *string = mh_result_take(t->context, &t->made->store, size + 1, 1);
    if (!string)
        return NULL;
    if (size > 0)
        memcpy(string, bytes, size);
    string[size] = 0;
    return string;
}

// Tokens of text are named by their bytes without the space before them.
static mh_status name_targets(const speech_trace *t, const mh_speech *s)
{
    const mh_tokenizer *tokenizer = s->model->tokenizer;
    const char **names = mh_result_take(t->context, &t->made->store, t->rows, sizeof *names);
    bool *starts = mh_result_take(t->context, &t->made->store, t->rows, sizeof *starts);
    if (!names || !starts)
        return MH_ERROR_MEMORY;
    for (size_t i = 0; i < t->rows; i++) {
        mh_text text = {"", 0};
        const bool end = i + 1 == t->rows;
        if (end)
            text = (mh_text){"<|endoftext|>", strlen("<|endoftext|>")};
        else
            (void)mh_tokenizer_token(tokenizer, t->ids[t->first + i], &text, NULL);
        const bool space = text.size > 1 && text.bytes[0] == ' ';
        starts[i] = i == 0 || end || (text.size > 0 && text.bytes[0] == ' ');
        names[i] = keep_bytes(t, text.bytes + space, text.size - space);
        if (!names[i])
            return MH_ERROR_MEMORY;
    }
    t->made->trace.target =
        (mh_trace_tokens){.count = t->rows, .text = names, .word_start = starts};
    return MH_OK;
}

static mh_status name_times(const speech_trace *t)
{
    const char **names = mh_result_take(t->context, &t->made->store, t->columns, sizeof *names);
    bool *starts = mh_result_take(t->context, &t->made->store, t->columns, sizeof *starts);
    if (!names || !starts)
        return MH_ERROR_MEMORY;
    for (size_t i = 0; i < t->columns; i++) {
        char name[40];
        const bool silence = i * t->step >= t->sound;
        snprintf(name, sizeof name, "%.2fs",
                 t->window->begin + (double)(i * t->step) / MH_TIMES_PER_SECOND);
        names[i] = silence ? "silence" : keep_bytes(t, name, strlen(name));
        starts[i] = true;
        if (!names[i])
            return MH_ERROR_MEMORY;
    }
    t->made->trace.source =
        (mh_trace_tokens){.count = t->columns, .text = names, .word_start = starts};
    return MH_OK;
}

static mh_status title_window(const speech_trace *t, const mh_speech *s)
{
    mh_buffer text = {0};
    const char *title = t->window->title;
    if (!title) {
        MH_TRY(mh_tokenizer_decode_text(t->context, s->model->tokenizer, true, t->ids + t->first,
                                        t->rows - 1, &text));
        const bool space = text.size > 0 && text.data[0] == ' ';
        title = keep_bytes(t, text.data + space, text.size - space);
        mh_buffer_free(t->context, &text);
    } else {
        title = keep_bytes(t, title, strlen(title));
    }
    t->made->trace.title = title;
    return title ? MH_OK : MH_ERROR_MEMORY;
}

// ---- weights ------------------------------------------------------------------------------------

static void lay_out_columns(speech_trace *t, const mh_speech *s, size_t frames)
{
    t->sound = mh_smaller((frames + 1) / 2, s->memory_rows);
    const bool silence = t->sound < s->memory_rows;
    const size_t most = t->window->columns - silence;
    t->step = (t->sound + most - 1) / most;
    t->columns = (t->sound + t->step - 1) / t->step + silence;
}

// One head's rows of the text, (rows, columns), from weights (count, memory rows).
static void sum_columns(const speech_trace *t, size_t keys, const float *weights, float *to)
{
    memset(to, 0, t->rows * t->columns * sizeof *to);
    for (size_t i = 0; i < t->rows; i++) {
        const float *row = weights + (t->first - 1 + i) * keys;
        for (size_t j = 0; j < keys; j++)
            to[i * t->columns + (j < t->sound ? j / t->step : t->columns - 1)] += row[j];
    }
}

// Layers [first, end), whose weights are in `staging` before their columns are summed.
static mh_status trace_layers(const speech_trace *t, const mh_speech *s, size_t first, size_t end,
                              float *hidden, float *staging, bool *heads)
{
    const size_t L = s->model->info.decoder_layers, H = s->model->info.heads;
    float *to = (float *)t->made->trace.groups[MH_TRACE_CROSS].weights.data;
    for (size_t i = 0; i < L * H; i++)
        heads[i] = i >= first * H && i < end * H;
    MH_TRY(mh_speech_run_decoder(s, t->ids, t->count, hidden, heads, staging));
    for (size_t i = first * H; i < end * H; i++)
        sum_columns(t, s->memory_rows, staging + (i - first * H) * t->count * s->memory_rows,
                    to + i * t->rows * t->columns);
    return MH_OK;
}

static mh_status trace_cross(const speech_trace *t, const mh_speech *s)
{
    const size_t L = s->model->info.decoder_layers, H = s->model->info.heads;
    const size_t layer = H * t->count * s->memory_rows;
    const size_t together = mh_larger(1, mh_smaller(L, STAGING_BYTES / (layer * sizeof(float))));
    const size_t floats = together * layer + t->count * s->width;
    float *data =
        mh_result_take(t->context, &t->made->store, L * H * t->rows, t->columns * sizeof *data);
    float *staging = mh_alloc(t->context, floats * sizeof *staging);
    bool *heads = mh_alloc(t->context, L * H);
    mh_status status = data && staging && heads ? MH_OK : MH_ERROR_MEMORY;
    t->made->trace.groups[MH_TRACE_CROSS].weights =
        mh_tensor_4d(data, MH_F32, L, H, t->rows, t->columns);
    for (size_t i = 0; i < L && !status; i += together)
        status = trace_layers(t, s, i, mh_smaller(i + together, L), staging + together * layer,
                              staging, heads);
    mh_free(t->context, staging, floats * sizeof *staging);
    mh_free(t->context, heads, L * H);
    return status;
}

static mh_status trace_window(void *user, const mh_speech *s, const mh_window_text *text,
                              size_t frames)
{
    speech_trace *t = user;
    lay_out_columns(t, s, frames);
    MH_TRY(t->window->text ? encode_given(t, s) : take_ids(t, s, text->ids, text->count));
    MH_TRY(name_targets(t, s));
    MH_TRY(name_times(t));
    MH_TRY(title_window(t, s));
    MH_TRY(mh_model_trace_describe(t->context, s->model, t->made));
    return trace_cross(t, s);
}

// ---- the call -----------------------------------------------------------------------------------

// The samples of the window, borrowed.
static mh_status cut_window(mh_context *context, const mh_audio *audio,
                            const mh_speech_window *window, mh_audio *cut)
{
    const double seconds = audio->rate ? (double)audio->count / (double)audio->rate : 0;
    if (window->columns < 2 || window->columns > COLUMNS_MAX)
        return mh_fail(context, MH_ERROR_ARGUMENT, "columns: found %zu, expected 2 to %d",
                       window->columns, COLUMNS_MAX);
    if (seconds < 0.02)
        return mh_fail(context, MH_ERROR_ARGUMENT, "the sound lasts %.4f s, expected at least 0.02",
                       seconds);
    if (!(window->begin >= 0 && window->begin + 0.02 <= seconds))
        return mh_fail(context, MH_ERROR_ARGUMENT,
                       "begin: found %.2f s, expected at least 0.02 s before the end of the sound, "
                       "%.2f s",
                       window->begin, seconds);
    const size_t first = (size_t)(window->begin * (double)audio->rate);
    const size_t most = audio->rate * MH_WINDOW_FRAMES / MH_FRAMES_PER_SECOND;
    *cut = (mh_audio){.count = mh_smaller(audio->count - first, most),
                      .rate = audio->rate,
                      .samples = audio->samples + first};
    return MH_OK;
}

mh_status mh_transcribe_trace(mh_context *context, const mh_model *model,
                              const mh_transcribe_options *options, const mh_audio *audio,
                              const mh_speech_window *window, mh_model_trace **trace)
{
    mh_speech_window own = mh_speech_window_default();
    mh_model_trace *made;
    mh_audio cut;
    MH_TRY(MH_NEED(context, {"model", model}, {"audio", audio}, {"trace", trace}));
    *trace = NULL;
    MH_TRY(MH_READ_STRUCT(context, mh_speech_window, window, &own));
    MH_TRY(cut_window(context, audio, &own, &cut));
    MH_TRY(mh_model_trace_new(context, &made));
    speech_trace t = {.context = context, .window = &own, .made = made};
    const mh_status status =
        mh_speech_first_window(context, model, options, &cut, !own.text, trace_window, &t);
    if (status)
        mh_model_trace_free(made);
    else
        *trace = made;
    return status;
}
