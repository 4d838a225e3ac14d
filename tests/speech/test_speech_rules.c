// SPDX-License-Identifier: MIT
// Which tokens may follow which: every rule of mh_speech_filter by itself, and the tokens that are
// no speech.
#include "speech/speech_internal.h"
#include "support.h"
#include "whisper_fixture.h"
#include <math.h>
#include <stdlib.h>
#include <unistd.h>

enum { V = 51864, TEXT = 500, OTHER = 600 };

static bool suppressed[V];
static float scores[V];

static mh_speech speech_of(bool timestamps)
{
    static int32_t not_first[] = {220, 50256};
    mh_speech s = {.vocabulary = V, .suppressed = suppressed};
    s.options = mh_transcribe_options_default();
    s.options.timestamps = timestamps;
    s.not_first = (mh_token_list){.ids = not_first, .count = 2};
    assert_true(mh_speech_tokens_find(V, &s.tokens));
    return s;
}

// All scores are equal, but those of two tokens of text and the end, over which timestamps do not
// take precedence.
static void filter(const mh_speech *s, const int32_t *ids, size_t count)
{
    for (size_t i = 0; i < V; i++)
        scores[i] = 0;
    scores[TEXT] = scores[OTHER] = scores[s->tokens.end] = 20;
    mh_speech_filter(s, ids, count, scores);
}

static bool allowed(int32_t id) { return scores[id] > -INFINITY; }

// That exactly the timestamps first ... last are allowed; none if first > last.
static void expect_times(const mh_speech *s, int32_t first, int32_t last)
{
    for (int32_t i = 0; i < MH_TIME_TOKENS; i++)
        if (allowed(s->tokens.time + i) != (i >= first && i <= last))
            fail_msg("timestamp %d is %s", i, first <= i && i <= last ? "forbidden" : "allowed");
}

// ---- without timestamps -------------------------------------------------------------------------

static void suppressed_tokens_never_come(void **state)
{
    (void)state;
    const mh_speech s = speech_of(false);
    suppressed[TEXT] = true;
    filter(&s, (const int32_t[]){OTHER}, 1);
    assert_false(allowed(TEXT));
    assert_true(allowed(OTHER) && allowed(TEXT + 1));
    suppressed[TEXT] = false;
}

// Neither a space nor the end begins a text; both may come later.
static void texts_do_not_begin_blank(void **state)
{
    (void)state;
    const mh_speech s = speech_of(false);
    filter(&s, NULL, 0);
    assert_true(!allowed(220) && !allowed(s.tokens.end) && allowed(221));
    filter(&s, (const int32_t[]){TEXT}, 1);
    assert_true(allowed(220) && allowed(s.tokens.end));
}

// ---- timestamps ---------------------------------------------------------------------------------

static void first_token_is_a_time_within_a_second(void **state)
{
    (void)state;
    const mh_speech s = speech_of(true);
    filter(&s, NULL, 0);
    assert_false(allowed(TEXT));
    expect_times(&s, 0, 50);
}

static void times_come_in_pairs(void **state)
{
    (void)state;
    const mh_speech s = speech_of(true);
    const int32_t T = s.tokens.time;
    filter(&s, (const int32_t[]){T + 5}, 1); // a segment has begun: text
    assert_true(allowed(TEXT) && allowed(s.tokens.end));
    expect_times(&s, 1, 0);
    filter(&s, (const int32_t[]){T + 5, TEXT, T + 80}, 3); // it has ended: the next, or the end
    assert_true(!allowed(TEXT) && allowed(s.tokens.end));
    expect_times(&s, 80, 1500);
    filter(&s, (const int32_t[]){T + 5, TEXT, T + 80, T + 80}, 4);
    assert_true(allowed(TEXT));
    expect_times(&s, 1, 0);
}

// A segment ends after it began, and after all that were before.
static void times_increase(void **state)
{
    (void)state;
    const mh_speech s = speech_of(true);
    const int32_t T = s.tokens.time;
    filter(&s, (const int32_t[]){T + 5, TEXT}, 2);
    expect_times(&s, 6, 1500);
    filter(&s, (const int32_t[]){T, TEXT, T + 70, T + 75, TEXT, TEXT}, 6);
    expect_times(&s, 76, 1500);
    filter(&s, (const int32_t[]){T, TEXT, T + 1500, T + 1500, TEXT}, 5);
    expect_times(&s, 1, 0);
    assert_true(allowed(TEXT));
}

// 1500 timestamps of score x have x + ln 1500 = x + 7.3 together.
static void likelier_times_exclude_text(void **state)
{
    (void)state;
    mh_speech s = speech_of(true);
    const int32_t T = s.tokens.time, ids[] = {T, TEXT};
    for (size_t i = 0; i < V; i++)
        scores[i] = i >= (size_t)T ? 0 : -30;
    scores[TEXT] = 7.2f;
    mh_speech_filter(&s, ids, 2, scores);
    assert_false(allowed(TEXT));
    expect_times(&s, 1, 1500);
    for (size_t i = 0; i < V; i++)
        scores[i] = i >= (size_t)T ? 0 : -30;
    scores[TEXT] = scores[OTHER] = 7.4f; // the likeliest text, not all of it
    mh_speech_filter(&s, ids, 2, scores);
    assert_true(allowed(TEXT));
    expect_times(&s, 1, 1500);
}

// ---- what is not spoken -------------------------------------------------------------------------

static mh_status check_suppressed(void *user, const mh_speech *s, const mh_window_text *text,
                                  size_t frames)
{
    const bool timestamps = *(const bool *)user;
    const mh_speech_tokens *t = &s->tokens;
    const int32_t never[] = {t->start,    t->translate, t->transcribe, t->transcribe + 1,
                             t->previous, t->no_speech, '(',           '"',
                             '[',         '#',          0xe2,          ' '};
    const int32_t spoken[] = {t->end, t->time, 'a', '.', ',', '!', '?', '\'', '-', '5', 0xe3};
    (void)text, (void)frames;
    for (size_t i = 0; i < sizeof never / sizeof *never; i++)
        if (!s->suppressed[never[i]])
            fail_msg("%d is not suppressed", never[i]);
    for (size_t i = 0; i < sizeof spoken / sizeof *spoken; i++)
        if (s->suppressed[spoken[i]])
            fail_msg("%d is suppressed", spoken[i]);
    assert_int_equal(s->suppressed[t->no_times], timestamps);
    assert_int_equal(s->not_first.count, 2);
    assert_int_equal(s->not_first.ids[0], ' ');
    assert_int_equal(s->not_first.ids[1], t->end);
    return MH_OK;
}

// In a vocabulary whose tokens are bytes: of notes, as ♪, the first byte; of " -", the space.
static void symbols_are_suppressed(void **state)
{
    (void)state;
    char directory[] = "/tmp/mh-whisper-XXXXXX", command[64];
    float samples[1600] = {0};
    const mh_audio audio = {1600, 16000, samples};
    mh_context *context = test_context(NULL, 1);
    mh_model *model;
    assert_non_null(mkdtemp(directory));
    assert_true(fixture_whisper(context, directory, WHISPER_SPEAKS));
    test_ok(context, mh_model_load(context, directory, NULL, &model));
    for (int i = 0; i < 2; i++) {
        mh_transcribe_options options = mh_transcribe_options_default();
        bool timestamps = options.timestamps = i == 0;
        test_ok(context, mh_speech_first_window(context, model, &options, &audio, false,
                                                check_suppressed, &timestamps));
    }
    mh_model_free(model);
    mh_context_free(context);
    snprintf(command, sizeof command, "rm -r %s", directory);
    assert_int_equal(system(command), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(suppressed_tokens_never_come),
        cmocka_unit_test(texts_do_not_begin_blank),
        cmocka_unit_test(first_token_is_a_time_within_a_second),
        cmocka_unit_test(times_come_in_pairs),
        cmocka_unit_test(times_increase),
        cmocka_unit_test(likelier_times_exclude_text),
        cmocka_unit_test(symbols_are_suppressed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
