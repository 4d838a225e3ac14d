// SPDX-License-Identifier: MIT
// Transcription by a small model that writes what a script says (whisper_fixture.h): windows,
// rules, callbacks, options, and traces of cross-attention over time.
#include "speech/speech_internal.h"
#include "support.h"
#include "whisper_fixture.h"
#include <math.h>
#include <stdlib.h>
#include <unistd.h>

enum { RATE = 16000, SECONDS = 40 };

static mh_context *context;
static float samples[SECONDS * RATE];

static mh_model *open_fixture(whisper_script script)
{
    char directory[] = "/tmp/mh-whisper-XXXXXX", command[64];
    mh_model *model;
    assert_non_null(mkdtemp(directory));
    assert_true(fixture_whisper(context, directory, script));
    test_ok(context, mh_model_load(context, directory, NULL, &model));
    snprintf(command, sizeof command, "rm -r %s", directory);
    assert_int_equal(system(command), 0);
    return model;
}

static int open_context(void **state)
{
    (void)state;
    test_rng rng = {test_seed()};
    context = test_context(NULL, 2);
    for (size_t i = 0; i < SECONDS * RATE; i++)
        samples[i] = (float)test_uniform(&rng, -0.1, 0.1);
    return 0;
}

static int close_context(void **state)
{
    (void)state;
    mh_context_free(context);
    return 0;
}

static mh_audio sound(double seconds)
{
    return (mh_audio){(size_t)(seconds * RATE), RATE, samples};
}

static mh_transcription *transcribe(const mh_model *model, const mh_transcribe_options *options,
                                    double seconds)
{
    mh_transcription *result;
    const mh_audio audio = sound(seconds);
    test_ok(context, mh_transcribe(context, model, options, &audio, &result));
    return result;
}

static void expect_segment(const mh_transcription *t, size_t i, double begin, double end,
                           const char *text)
{
    const mh_speech_segment *g = mh_transcription_segment(t, i);
    assert_non_null(g);
    assert_int_equal(g->text.size, strlen(text));
    assert_memory_equal(g->text.bytes, text, g->text.size);
    assert_true(fabs(g->begin - begin) < 1e-9 && fabs(g->end - end) < 1e-9);
}

// ---- windows ------------------------------------------------------------------------------------

static void windows_follow_each_other(void **state)
{
    (void)state;
    mh_model *model = open_fixture(WHISPER_SPEAKS);
    mh_transcribe_options options = mh_transcribe_options_default();
    options.condition_on_previous = false;
    mh_transcription *t = transcribe(model, &options, 40);
    assert_int_equal(mh_transcription_count(t), 4);
    expect_segment(t, 0, 0, 2, " The cat sat on the mat.");
    expect_segment(t, 1, 2, 3, " Then it slept.");
    expect_segment(t, 2, 30, 32, " The cat sat on the mat.");
    expect_segment(t, 3, 32, 33, " Then it slept.");
    assert_null(mh_transcription_segment(t, 4));
    assert_string_equal(mh_transcription_language(t), "en");
    mh_transcription_free(t);
    mh_model_free(model);
}

typedef struct calls {
    size_t count, segments, stop_after;
    double seconds;
} calls;

static bool count_calls(void *user, const mh_speech_segment *segments, size_t count, double seconds)
{
    calls *c = user;
    (void)segments;
    c->segments += count;
    c->seconds = seconds;
    return ++c->count != c->stop_after;
}

static void callbacks_see_windows_and_stop(void **state)
{
    (void)state;
    mh_model *model = open_fixture(WHISPER_SPEAKS);
    calls all = {0}, first = {.stop_after = 1};
    mh_transcribe_options options = mh_transcribe_options_default();
    options.condition_on_previous = false;
    options.on_window = count_calls;
    options.user = &all;
    mh_transcription_free(transcribe(model, &options, 40));
    assert_int_equal(all.count, 2);
    assert_int_equal(all.segments, 4);
    assert_true(all.seconds == 40);
    options.user = &first;
    mh_transcription *t = transcribe(model, &options, 40);
    assert_int_equal(first.count, 1);
    assert_int_equal(mh_transcription_count(t), 2);
    mh_transcription_free(t);
    mh_model_free(model);
}

static void words_are_the_segments(void **state)
{
    (void)state;
    mh_model *model = open_fixture(WHISPER_SPEAKS);
    mh_transcribe_options options = mh_transcribe_options_default();
    options.word_times = true;
    mh_transcription *t = transcribe(model, &options, 10);
    const mh_speech_segment *g = mh_transcription_segment(t, 0);
    assert_int_equal(g->word_count, 6);
    assert_memory_equal(g->words[5].text.bytes, " mat.", 5);
    for (size_t i = 0; i < g->word_count; i++) {
        assert_true(g->words[i].begin <= g->words[i].end && g->words[i].probability > 0.9);
        assert_true(i == 0 || g->words[i].begin >= g->words[i - 1].begin);
    }
    assert_true(g->begin == g->words[0].begin && g->end == g->words[5].end);
    mh_transcription_free(t);
    mh_model_free(model);
}

// ---- rules --------------------------------------------------------------------------------------

static void repetition_is_tried_again(void **state)
{
    (void)state;
    mh_model *model = open_fixture(WHISPER_REPEATS);
    mh_transcribe_options options = mh_transcribe_options_default();
    mh_transcription *t = transcribe(model, &options, 5);
    assert_true(mh_transcription_segment(t, 0)->temperature == 1);
    assert_true(mh_transcription_segment(t, 0)->compression_ratio > 2.4);
    mh_transcription_free(t);
    options.max_compression_ratio = 100;
    options.min_logprob = -100;
    t = transcribe(model, &options, 5);
    assert_true(mh_transcription_segment(t, 0)->temperature == 0);
    mh_transcription_free(t);
    mh_model_free(model);
}

// Silence needs both a likely <|nospeech|> and an unlikely text.
static void silence_is_skipped(void **state)
{
    (void)state;
    mh_model *model = open_fixture(WHISPER_HUMS);
    mh_transcribe_options options = mh_transcribe_options_default();
    options.temperatures = 1;
    mh_transcription *t = transcribe(model, &options, 5);
    assert_int_equal(mh_transcription_count(t), 0);
    mh_transcription_free(t);
    options.min_logprob = -100;
    options.timestamps = false;
    t = transcribe(model, &options, 5);
    assert_int_equal(mh_transcription_count(t), 1);
    assert_true(mh_transcription_segment(t, 0)->no_speech > 0.6);
    mh_transcription_free(t);
    mh_model_free(model);
}

static void samples_follow_the_seed(void **state)
{
    (void)state;
    mh_model *model = open_fixture(WHISPER_GUESSES);
    mh_transcribe_options options = mh_transcribe_options_default();
    char ids[3][4096];
    options.temperatures = 2;
    options.best_of = 2;
    options.timestamps = false;
    for (size_t i = 0; i < 3; i++) {
        options.seed = i / 2; // 0, 0, 1
        mh_transcription *t = transcribe(model, &options, 2);
        const mh_speech_segment *g = mh_transcription_segment(t, 0);
        assert_non_null(g);
        memset(ids[i], 0, sizeof ids[i]);
        memcpy(ids[i], g->ids, g->count * sizeof *g->ids);
        assert_true(g->temperature > 0.1);
        mh_transcription_free(t);
    }
    assert_memory_equal(ids[0], ids[1], sizeof ids[0]);
    assert_memory_not_equal(ids[0], ids[2], sizeof ids[0]);
    mh_model_free(model);
}

// ---- context ------------------------------------------------------------------------------------

// The script is said only from the decoder's first position on: by a window without a context. No
// text is accepted before the last temperature.
static void text_of_high_temperature_is_no_context(void **state)
{
    static const struct {
        size_t temperatures;
        bool context, again;
    } cases[] = {{1, false, true}, {1, true, false}, {3, true, false}, {4, true, true}}; // 0.4, 0.6
    (void)state;
    mh_model *model = open_fixture(WHISPER_SPEAKS);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        mh_transcribe_options options = mh_transcribe_options_default();
        options.max_compression_ratio = 0;
        options.temperatures = cases[i].temperatures;
        options.condition_on_previous = cases[i].context;
        mh_transcription *t = transcribe(model, &options, 40);
        expect_segment(t, 0, 0, 2, " The cat sat on the mat.");
        const mh_speech_segment *g = mh_transcription_segment(t, 2);
        const bool again = g && g->begin == 30 && g->text.size == 24 &&
                           memcmp(g->text.bytes, " The cat sat on the mat.", 24) == 0;
        assert_int_equal(again, cases[i].again);
        mh_transcription_free(t);
    }
    mh_model_free(model);
}

// Of a long prompt the last 223 tokens are read, behind <|startofprev|>; then the text has what is
// left of the 448 positions, and one token after the last of them.
static void long_prompts_leave_half_the_positions(void **state)
{
    (void)state;
    mh_model *model = open_fixture(WHISPER_GUESSES);
    mh_transcribe_options options = mh_transcribe_options_default();
    char prompt[2000];
    options.temperatures = 1;
    options.min_logprob = -100;
    options.timestamps = false;
    for (size_t i = 0; i < 2; i++) {
        memset(prompt, 'a', sizeof prompt); // a token each
        options.prompt = (mh_text){prompt, i == 0 ? 0 : sizeof prompt};
        mh_transcription *t = transcribe(model, &options, 2);
        const mh_speech_segment *g = mh_transcription_segment(t, 0);
        assert_non_null(g);
        assert_int_equal(g->count, i == 0 ? 224 : 448 - (1 + 223 + 2) + 1);
        mh_transcription_free(t);
    }
    mh_model_free(model);
}

// ---- languages ----------------------------------------------------------------------------------

static mh_status copy_begin(void *user, const mh_speech *s, const mh_window_text *text,
                            size_t frames)
{
    (void)text;
    (void)frames;
    assert_int_equal(s->begin_count, 3);
    memcpy(user, s->begin, sizeof s->begin);
    return MH_OK;
}

// The prompt is <|startoftranscript|>, the language that is given or detected, and the task.
static void prompts_name_language_and_task(void **state)
{
    static const struct {
        whisper_script script;
        const char *language;
        bool translate;
        int32_t begin[3];
    } cases[] = {{WHISPER_FRENCH, NULL, false, {50258, 50265, 50359}},
                 {WHISPER_FRENCH, NULL, true, {50258, 50265, 50358}},
                 {WHISPER_FRENCH, "de", false, {50258, 50261, 50359}},
                 {WHISPER_FRENCH, "English", true, {50258, 50259, 50358}},
                 {WHISPER_JAPANESE, NULL, false, {50258, 50266, 50359}}};
    const mh_audio audio = sound(3);
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        mh_model *model = open_fixture(cases[i].script);
        mh_transcribe_options options = mh_transcribe_options_default();
        int32_t begin[3] = {0};
        options.language = cases[i].language;
        options.translate = cases[i].translate;
        test_ok(context,
                mh_speech_first_window(context, model, &options, &audio, false, copy_begin, begin));
        assert_memory_equal(begin, cases[i].begin, sizeof begin);
        mh_model_free(model);
    }
}

// What is detected is the language of all of the transcript. The model reads the task: its first
// timestamp is another one.
static void languages_are_detected(void **state)
{
    (void)state;
    mh_model *model = open_fixture(WHISPER_FRENCH);
    mh_transcribe_options options = mh_transcribe_options_default();
    mh_transcription *t = transcribe(model, &options, 5);
    assert_string_equal(mh_transcription_language(t), "fr");
    expect_segment(t, 0, 0, 2, " Le chat dort.");
    mh_transcription_free(t);
    options.language = "german";
    t = transcribe(model, &options, 5);
    assert_string_equal(mh_transcription_language(t), "de");
    expect_segment(t, 0, 0, 2, " Le chat dort.");
    mh_transcription_free(t);
    options.language = NULL;
    options.translate = true;
    t = transcribe(model, &options, 5);
    assert_string_equal(mh_transcription_language(t), "fr");
    expect_segment(t, 0, 0, 2, " Le chat dort.");
    assert_int_equal(mh_transcription_segment(t, 0)->ids[0], 50364 + 25);
    mh_transcription_free(t);
    options.language = "yue"; // of large-v3 only
    const mh_audio audio = sound(2);
    test_refused(context, mh_transcribe(context, model, &options, &audio, &t), MH_ERROR_ARGUMENT,
                 "language: found \"yue\"");
    mh_model_free(model);
}

// The context is half of the positions less one: of a decoder with one position that would be all
// of the prompt. With 16, the fewest, everything fits.
static void few_positions(void **state)
{
    (void)state;
    mh_model *model = open_fixture(WHISPER_FRENCH);
    const size_t positions = model->description.positions;
    const mh_audio audio = sound(2);
    mh_transcribe_options options = mh_transcribe_options_default();
    mh_transcription *t;
    options.prompt = (mh_text){"Le chat dort. Le chat dort.", 27};
    for (model->description.positions = 0; model->description.positions < 16;
         model->description.positions++)
        test_refused(context, mh_transcribe(context, model, &options, &audio, &t),
                     MH_ERROR_UNSUPPORTED, "positions, expected at least 16");
    options.timestamps = false;
    options.word_times = true;
    t = transcribe(model, &options, 2);
    assert_int_equal(mh_transcription_segment(t, 0)->count, 16 - (1 + 7 + 3 + 1) + 1);
    mh_transcription_free(t);
    model->description.positions = positions;
    mh_model_free(model);
}

static void expect_words(const mh_transcription *t, size_t count, const char *const *words)
{
    const mh_speech_segment *g = mh_transcription_segment(t, 0);
    assert_int_equal(g->word_count, count);
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(g->words[i].text.size, strlen(words[i]));
        assert_memory_equal(g->words[i].text.bytes, words[i], strlen(words[i]));
        assert_true(g->words[i].begin <= g->words[i].end);
        assert_true(i == 0 || g->words[i].begin >= g->words[i - 1].end);
    }
}

// Where words have no spaces a word is a character, of one token or several, with the full stop
// behind it. Read as a language with spaces, all is one word.
static void characters_are_words_without_spaces(void **state)
{
    static const char *const spaced[] = {"\u732b\u304c\u5bdd\u308b\u3002"};
    static const char *const characters[] = {"\u732b", "\u304c", "\u5bdd", "\u308b\u3002"};
    static const char *const unspaced[] = {NULL, "zh", "Japanese", "th", "lo", "my"};
    (void)state;
    mh_model *model = open_fixture(WHISPER_JAPANESE);
    mh_transcribe_options options = mh_transcribe_options_default();
    options.word_times = true;
    for (size_t i = 0; i < sizeof unspaced / sizeof *unspaced; i++) {
        options.language = unspaced[i];
        mh_transcription *t = transcribe(model, &options, 5);
        expect_words(t, 4, characters);
        mh_transcription_free(t);
    }
    options.language = "ko";
    mh_transcription *t = transcribe(model, &options, 5);
    expect_words(t, 1, spaced);
    mh_transcription_free(t);
    mh_model_free(model);
}

// ---- traces -------------------------------------------------------------------------------------

// Every row sums to 1, and columns are sums of those of a finer trace.
static void traces_are_sums_over_time(void **state)
{
    (void)state;
    mh_model *model = open_fixture(WHISPER_SPEAKS);
    const mh_audio audio = sound(10);
    mh_speech_window window = mh_speech_window_default();
    mh_model_trace *fine, *coarse;
    window.columns = 1501;
    test_ok(context, mh_transcribe_trace(context, model, NULL, &audio, &window, &fine));
    window.columns = 101;
    window.begin = 0;
    test_ok(context, mh_transcribe_trace(context, model, NULL, &audio, &window, &coarse));
    const mh_trace *a = mh_model_trace_view(fine), *b = mh_model_trace_view(coarse);
    const mh_tensor *x = &a->groups[MH_TRACE_CROSS].weights,
                    *y = &b->groups[MH_TRACE_CROSS].weights;
    assert_int_equal(x->shape[0], 2);
    assert_int_equal(x->shape[1], 2);
    assert_int_equal(x->shape[2], 12); // 11 tokens of text, and the end
    assert_int_equal(x->shape[3], 501);
    assert_int_equal(y->shape[3], 101);
    assert_string_equal(a->title, "The cat sat on the mat. Then it slept.");
    assert_string_equal(a->target.text[1], "cat");
    assert_string_equal(a->target.text[11], "<|endoftext|>");
    assert_string_equal(a->source.text[62], "1.24s");
    assert_string_equal(b->source.text[12], "1.20s");
    assert_string_equal(b->source.text[100], "silence");
    const float *from = x->data, *to = y->data;
    for (size_t i = 0; i < 2 * 2 * 12; i++, from += 501, to += 101) {
        double all = 0, some = 0;
        for (size_t j = 0; j < 501; j++)
            all += (double)from[j];
        for (size_t j = 10; j < 15; j++)
            some += (double)from[j];
        assert_true(fabs(all - 1) < 1e-5 && fabs(some - (double)to[2]) < 1e-6);
        assert_true(from[500] == to[100]);
    }
    mh_model_trace_free(fine);
    mh_model_trace_free(coarse);
    mh_model_free(model);
}

// A window of 30 seconds from 5 s on, without silence, and the text that is given.
static void traces_begin_anywhere(void **state)
{
    (void)state;
    mh_model *model = open_fixture(WHISPER_SPEAKS);
    const mh_audio audio = sound(40);
    const mh_text text = {"The mat", 7};
    mh_speech_window window = mh_speech_window_default();
    mh_model_trace *trace;
    window.begin = 5;
    window.text = &text;
    window.title = "mine";
    test_ok(context, mh_transcribe_trace(context, model, NULL, &audio, &window, &trace));
    const mh_trace *t = mh_model_trace_view(trace);
    assert_string_equal(t->title, "mine");
    assert_int_equal(t->source.count, 150);
    assert_string_equal(t->source.text[0], "5.00s");
    assert_string_equal(t->source.text[149], "34.80s");
    assert_string_equal(t->target.text[0], "The");
    test_ok(context, mh_trace_check(context, t));
    mh_model_trace_free(trace);
    mh_model_free(model);
}

static void refuses_traces(void **state)
{
    (void)state;
    mh_model *model = open_fixture(WHISPER_SPEAKS);
    const mh_audio audio = sound(2);
    const mh_text empty = {"", 0}, wrong = {"\xff", 1};
    mh_speech_window window = mh_speech_window_default();
    mh_model_trace *trace;
    window.begin = 2;
    test_refused(context, mh_transcribe_trace(context, model, NULL, &audio, &window, &trace),
                 MH_ERROR_ARGUMENT, "begin: found 2.00 s");
    window.begin = NAN;
    test_refused(context, mh_transcribe_trace(context, model, NULL, &audio, &window, &trace),
                 MH_ERROR_ARGUMENT, "begin: found");
    window = mh_speech_window_default();
    window.columns = 1;
    test_refused(context, mh_transcribe_trace(context, model, NULL, &audio, &window, &trace),
                 MH_ERROR_ARGUMENT, "columns: found 1");
    window = mh_speech_window_default();
    window.text = &empty;
    test_refused(context, mh_transcribe_trace(context, model, NULL, &audio, &window, &trace),
                 MH_ERROR_ARGUMENT, "has 0 tokens");
    window.text = &wrong;
    test_refused(context, mh_transcribe_trace(context, model, NULL, &audio, &window, &trace),
                 MH_ERROR_FORMAT, "UTF-8");
    test_refused(context, mh_transcribe_trace(context, model, NULL, NULL, NULL, &trace),
                 MH_ERROR_ARGUMENT, "audio: found NULL");
    test_refused(context, mh_transcribe_trace(context, NULL, NULL, &audio, NULL, &trace),
                 MH_ERROR_ARGUMENT, "model: found NULL");
    test_refused(context, mh_transcribe_trace(context, model, NULL, &audio, NULL, NULL),
                 MH_ERROR_ARGUMENT, "trace: found NULL");
    mh_model_free(model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(windows_follow_each_other),
        cmocka_unit_test(callbacks_see_windows_and_stop),
        cmocka_unit_test(words_are_the_segments),
        cmocka_unit_test(repetition_is_tried_again),
        cmocka_unit_test(silence_is_skipped),
        cmocka_unit_test(samples_follow_the_seed),
        cmocka_unit_test(text_of_high_temperature_is_no_context),
        cmocka_unit_test(long_prompts_leave_half_the_positions),
        cmocka_unit_test(prompts_name_language_and_task),
        cmocka_unit_test(languages_are_detected),
        cmocka_unit_test(few_positions),
        cmocka_unit_test(characters_are_words_without_spaces),
        cmocka_unit_test(traces_are_sums_over_time),
        cmocka_unit_test(traces_begin_anywhere),
        cmocka_unit_test(refuses_traces),
    };
    return cmocka_run_group_tests(tests, open_context, close_context);
}
