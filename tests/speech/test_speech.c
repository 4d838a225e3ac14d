// SPDX-License-Identifier: MIT
// Transcription without a model: dynamic time warping against all paths, Whisper's special tokens,
// and what is refused.
#include "speech/speech_internal.h"
#include "support.h"
#include <math.h>

enum { ROWS = 5, COLUMNS = 7 };

// The smallest sum from (i, j) on, by trying everything.
static double cheapest(const float *costs, size_t i, size_t j)
{
    const double here = (double)costs[i * COLUMNS + j];
    if (i == ROWS - 1 && j == COLUMNS - 1)
        return here;
    double best = INFINITY;
    if (i + 1 < ROWS)
        best = fmin(best, cheapest(costs, i + 1, j));
    if (j + 1 < COLUMNS)
        best = fmin(best, cheapest(costs, i, j + 1));
    if (i + 1 < ROWS && j + 1 < COLUMNS)
        best = fmin(best, cheapest(costs, i + 1, j + 1));
    return here + best;
}

// The cheapest path whose rows begin at these columns: row i goes on to where row i + 1 begins, or
// to the column before.
static double cost_of(const float *costs, const size_t *first)
{
    double sum = 0;
    for (size_t i = 0; i < ROWS; i++) {
        const size_t next = i + 1 < ROWS ? first[i + 1] : COLUMNS - 1;
        for (size_t j = first[i]; j < next; j++)
            sum += (double)costs[i * COLUMNS + j];
        const double last = (double)costs[i * COLUMNS + next];
        if (i + 1 == ROWS || next == first[i] || last < 0)
            sum += last; // vertical: the column of both
    }
    return sum;
}

static void path_is_the_cheapest(void **state)
{
    (void)state;
    test_rng rng = {test_seed()};
    for (size_t n = 0; n < 200; n++) {
        float costs[ROWS * COLUMNS], sums[2 * (COLUMNS + 1)];
        unsigned char trace[(ROWS + 1) * (COLUMNS + 1)];
        size_t first[ROWS];
        for (size_t i = 0; i < ROWS * COLUMNS; i++)
            costs[i] = (float)test_uniform(&rng, -1, 1);
        mh_warp_path(costs, ROWS, COLUMNS, trace, sums, first);
        assert_int_equal(first[0], 0);
        for (size_t i = 1; i < ROWS; i++)
            assert_true(first[i] >= first[i - 1] && first[i] < COLUMNS);
        assert_true(fabs(cost_of(costs, first) - cheapest(costs, 0, 0)) < 1e-5);
    }
}

static void diagonal_is_followed(void **state)
{
    (void)state;
    float costs[25], sums[12];
    unsigned char trace[36];
    size_t first[5];
    for (size_t i = 0; i < 25; i++)
        costs[i] = i / 5 == i % 5 ? -1 : 1;
    mh_warp_path(costs, 5, 5, trace, sums, first);
    for (size_t i = 0; i < 5; i++)
        assert_int_equal(first[i], i);
}

static void tokens_have_published_numbers(void **state)
{
    (void)state;
    mh_speech_tokens t;
    assert_true(mh_speech_tokens_find(51864, &t));
    assert_false(t.multilingual);
    assert_int_equal(t.end, 50256);
    assert_int_equal(t.time, 50363);
    assert_true(mh_speech_tokens_find(51865, &t));
    assert_int_equal(t.start, 50258);
    assert_int_equal(t.transcribe, 50359);
    assert_int_equal(t.no_times, 50363);
    assert_true(mh_speech_tokens_find(51866, &t));
    assert_int_equal(t.languages, 100);
    assert_int_equal(t.time, 50365);
    assert_false(mh_speech_tokens_find(32000, &t));
    assert_int_equal(mh_speech_language("French"), mh_speech_language("fr"));
    assert_int_equal(mh_speech_language("yue"), 99);
    assert_int_equal(mh_speech_language("klingon"), -1);
}

static void languages_have_other_names(void **state)
{
    static const char *const names[][2] = {
        {"burmese", "my"},       {"valencian", "ca"}, {"flemish", "nl"},   {"haitian", "ht"},
        {"letzeburgesch", "lb"}, {"pushto", "ps"},    {"Panjabi", "pa"},   {"moldavian", "ro"},
        {"moldovan", "ro"},      {"sinhalese", "si"}, {"castilian", "es"}, {"Mandarin", "zh"}};
    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const int found = mh_speech_language(names[i][0]);
        assert_true(found >= 0);
        assert_string_equal(mh_speech_language_code((size_t)found), names[i][1]);
    }
}

// ---- alignment heads ----------------------------------------------------------------------------

static void expect_heads(const mh_model *model, size_t count, const size_t (*expected)[2])
{
    bool heads[64] = {0};
    assert_int_equal(mh_alignment_heads_find(model, heads), count);
    for (size_t i = 0; i < count; i++)
        assert_true(heads[expected[i][0] * model->info.heads + expected[i][1]]);
}

static mh_status parse_rules(mh_context *context, mh_model *model, const char *text)
{
    return mh_token_rules_parse(context, "rules", text, strlen(text), 99, &model->rules);
}

// Those of generation_config.json, else of a published size, else half of the layers.
static void alignment_heads_are_found(void **state)
{
    (void)state;
    mh_context *context = test_context(NULL, 1);
    mh_model *model, tiny_en = {.info = {.decoder_layers = 4, .heads = 6}};
    test_ok(context, mh_model_load(context, MH_GOLDENS "/models/whisper", NULL, &model));
    expect_heads(model, 4, (const size_t[][2]){{1, 0}, {1, 1}, {1, 2}, {1, 3}});
    test_ok(context, mh_alignment_heads_check(context, model));
    test_ok(context, parse_rules(context, model, "{\"alignment_heads\": [[0, 1], [1, 3]]}"));
    expect_heads(model, 2, (const size_t[][2]){{0, 1}, {1, 3}});
    test_ok(context, mh_alignment_heads_check(context, model));
    test_ok(context, parse_rules(context, model, "{\"alignment_heads\": [[1, 4]]}"));
    test_refused(context, mh_alignment_heads_check(context, model), MH_ERROR_FORMAT,
                 "found [1, 4], but the decoder has 2 layers of 4 heads");
    test_refused(context, parse_rules(context, model, "{\"alignment_heads\": [[1]]}"),
                 MH_ERROR_FORMAT, "\"alignment_heads\"");
    test_refused(context, parse_rules(context, model, "{\"alignment_heads\": [[1, -1]]}"),
                 MH_ERROR_FORMAT, "\"alignment_heads\"");
    test_refused(context, parse_rules(context, model, "{\"alignment_heads\": 3}"), MH_ERROR_FORMAT,
                 "\"alignment_heads\"");
    tiny_en.info.target_vocabulary = 51864;
    expect_heads(
        &tiny_en, 8,
        (const size_t[][2]){{1, 0}, {2, 0}, {2, 5}, {3, 0}, {3, 1}, {3, 2}, {3, 3}, {3, 4}});
    mh_model_free(model);
    mh_context_free(context);
}

// ---- errors -------------------------------------------------------------------------------------

static void refuses_what_it_cannot_do(void **state)
{
    (void)state;
    mh_context *context = test_context(NULL, 1);
    mh_model *model;
    mh_transcription *result;
    float samples[400] = {0};
    const mh_audio audio = {400, 16000, samples};
    const mh_text text = {"a text", 6};
    mh_model_texts *texts;
    test_ok(context, mh_model_load(context, MH_GOLDENS "/models/whisper", NULL, &model));
    assert_int_equal(mh_model_describe(model)->abilities, MH_CAN_TRANSCRIBE);
    test_refused(context, mh_model_encode(context, model, true, &text, 1, &texts),
                 MH_ERROR_UNSUPPORTED, "reads sound, not texts");
    mh_model_free(model);
    test_ok(context, mh_model_load(context, MH_GOLDENS "/models/bert-mlm", NULL, &model));
    test_refused(context, mh_transcribe(context, model, NULL, &audio, &result),
                 MH_ERROR_UNSUPPORTED, "does not transcribe");
    assert_null(result);
    test_refused(context, mh_transcribe(context, NULL, NULL, &audio, &result), MH_ERROR_ARGUMENT,
                 "model: found NULL");
    test_refused(context, mh_transcribe(context, model, NULL, NULL, &result), MH_ERROR_ARGUMENT,
                 "audio: found NULL");
    test_refused(context, mh_transcribe(context, model, NULL, &audio, NULL), MH_ERROR_ARGUMENT,
                 "transcription: found NULL");
    mh_transcription_free(NULL);
    mh_model_free(model);
    mh_context_free(context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(path_is_the_cheapest),
        cmocka_unit_test(diagonal_is_followed),
        cmocka_unit_test(tokens_have_published_numbers),
        cmocka_unit_test(languages_have_other_names),
        cmocka_unit_test(alignment_heads_are_found),
        cmocka_unit_test(refuses_what_it_cannot_do),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
