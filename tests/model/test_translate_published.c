// SPDX-License-Identifier: MIT
// Translators of published models: what they generate is what transformers generates, with the same
// bits in every batch; scores and traces of the same translations.
#include <multihead/pretrained.h>

#include "translate_support.h"
#include <jansson.h>
#include <math.h>
#include <stdio.h>

enum { MOST_CASES = 16 };
static const char *const names[] = {"marian", "bart", "t5"};
enum { NAMES = sizeof names / sizeof *names };

typedef struct published {
    mh_context *context;
    mh_translator *t;
    json_t *cases;
    mh_text texts[MOST_CASES];
    size_t count;
} published;

static const char *golden_path(const char *name, const char *file)
{
    static char path[512];
    snprintf(path, sizeof path, MH_GOLDENS "/translations/%s%s%s", name, *file ? "/" : "", file);
    return path;
}

static published open_published(const char *name, size_t threads)
{
    published p = {.context = test_context(test_level(0), threads)};
    test_ok(p.context,
            mh_translator_load(p.context, golden_path(name, ""), MH_PRECISION_F32, &p.t));
    p.cases = json_load_file(golden_path(name, "expected.json"), 0, NULL);
    p.count = json_array_size(p.cases);
    assert_in_range(p.count, 2, MOST_CASES);
    for (size_t i = 0; i < p.count; i++) {
        const json_t *text = json_object_get(json_array_get(p.cases, i), "text");
        p.texts[i] = (mh_text){json_string_value(text), json_string_length(text)};
    }
    return p;
}

static void close_published(published *p)
{
    json_decref(p->cases);
    mh_translator_free(p->t);
    mh_context_free(p->context);
}

// As long as the model's rules allow.
static mh_translate_options as_transformers(size_t beam, size_t n_best)
{
    mh_translate_options o = mh_translate_options_default();
    o.beam = beam;
    o.n_best = n_best;
    o.max_length_constant = 1000;
    return o;
}

static void expect_ids(const char *name, size_t i, const mh_translation *r, const json_t *ids)
{
    assert_non_null(r);
    bool same = r->count == json_array_size(ids);
    for (size_t j = 0; j < r->count && same; j++)
        same = r->ids[j] == (int32_t)json_integer_value(json_array_get(ids, j));
    if (!same)
        fail_msg("%s: text %zu: found '%s', expected %s", name, i, r->text.bytes,
                 json_dumps(ids, JSON_COMPACT));
}

static void equal_to_transformers(void **state)
{
    (void)state;
    const mh_translate_options greedy = as_transformers(1, 1), beam = as_transformers(4, 3);
    for (size_t n = 0; n < NAMES; n++) {
        published p = open_published(names[n], 2);
        mh_translations *one = translate(p.context, p.t, &greedy, p.texts, p.count);
        mh_translations *best = translate(p.context, p.t, &beam, p.texts, p.count);
        for (size_t i = 0; i < p.count; i++) {
            const json_t *expected = json_array_get(p.cases, i);
            expect_ids(names[n], i, mh_translations_at(one, i, 0),
                       json_object_get(expected, "greedy"));
            for (size_t rank = 0; rank < 3; rank++) {
                const mh_translation *r = mh_translations_at(best, i, rank);
                const json_t *e = json_array_get(json_object_get(expected, "beam"), rank);
                expect_ids(names[n], i, r, json_object_get(e, "ids"));
                // f32 sums of up to 19 logarithms in transformers
                assert_true(fabs(r->score - json_real_value(json_object_get(e, "score"))) < 2e-5);
            }
        }
        mh_translations_free(one);
        mh_translations_free(best);
        close_published(&p);
    }
}

// Alone or with others, with one thread or three.
static void same_bits_in_every_batch(void **state)
{
    (void)state;
    for (size_t n = 0; n < NAMES; n++) {
        published p = open_published(names[n], 1);
        mh_context *several = test_context(test_level(0), 3);
        mh_translate_options o = as_transformers(3, 2);
        o.attention = true;
        mh_translations *alone = translate(p.context, p.t, &o, p.texts, p.count);
        for (size_t batch = 1; batch <= 16; batch *= 4) {
            o.batch = batch;
            mh_translations *t = translate(several, p.t, &o, p.texts, p.count);
            for (size_t i = 0; i < p.count; i++)
                for (size_t rank = 0; rank < 2; rank++)
                    same_translation(mh_translations_at(t, i, rank),
                                     mh_translations_at(alone, i, rank));
            mh_translations_free(t);
        }
        mh_translations_free(alone);
        mh_context_free(several);
        close_published(&p);
    }
}

// The search's own translations, given again, have its tokens, log-probabilities and attention.
// With rules that make a token certain the search charges less, as it does at the maximum length.
static void scores_are_those_of_the_search(void **state)
{
    (void)state;
    size_t compared = 0;
    for (size_t n = 0; n < NAMES; n++) {
        published p = open_published(names[n], 1);
        mh_translate_options o = as_transformers(4, 1);
        o.attention = true;
        mh_translations *found = translate(p.context, p.t, &o, p.texts, p.count), *again;
        const size_t longest = 18;
        for (size_t i = 0; i < p.count; i++) {
            const mh_translation *a = mh_translations_at(found, i, 0);
            if (a->count == longest || strcmp(names[n], "bart") == 0)
                continue;
            test_ok(p.context,
                    mh_score_translations(p.context, p.t, &o, &p.texts[i], &a->text, 1, &again));
            const mh_translation *b = mh_translations_at(again, 0, 0);
            same_translation(a, b);
            double sum = 0;
            for (size_t j = 0; j <= b->count; j++)
                sum += b->token_log_probabilities[j];
            assert_true(fabs(sum - a->log_probability) < 1e-12);
            mh_translations_free(again);
            compared++;
        }
        mh_translations_free(found);
        close_published(&p);
    }
    assert_true(compared >= 8);
}

// Every attention of a translation; cross-attention as the search averages it.
static void traces(void **state)
{
    (void)state;
    for (size_t n = 0; n < NAMES; n++) {
        published p = open_published(names[n], 1);
        mh_translate_options o = as_transformers(1, 1);
        o.attention = true;
        mh_translations *found = translate(p.context, p.t, &o, &p.texts[3], 1);
        const mh_translation *r = mh_translations_at(found, 0, 0);
        mh_translation_trace *made;
        test_ok(p.context, mh_translation_trace_create(p.context, p.t, NULL, p.texts[3], r->ids,
                                                       r->count, &made));
        const mh_trace *trace = mh_translation_trace_view(made);
        test_ok(p.context, mh_trace_check(p.context, trace));
        const bool begins = strcmp(names[n], "bart") == 0, plain = strcmp(names[n], "t5") != 0;
        assert_int_equal(trace->source.count, r->source->count + 1 + begins);
        assert_int_equal(trace->target.count, r->count + 1);
        assert_int_equal(trace->groups[MH_TRACE_CROSS].q.data != NULL, plain);
        const mh_tensor *w = &trace->groups[MH_TRACE_CROSS].weights; // (L, H, T, S)
        const size_t L = w->shape[0], H = w->shape[1], T = w->shape[2], S = w->shape[3];
        for (size_t s = 0; s < r->source->count; s++) {
            double mean = 0, sum = 0;
            for (size_t i = 0; i < L * H; i++)
                for (size_t k = 0; k < r->source->count; k++) {
                    const double weight = (double)((float *)w->data)[i * T * S + begins + k];
                    mean += k == s ? weight : 0;
                    sum += weight;
                }
            assert_true(fabs(mean / sum - (double)r->attention[s]) < 1e-6);
        }
        mh_translation_trace_free(made);
        mh_translations_free(found);
        close_published(&p);
    }
}

static void rejects(void **state)
{
    (void)state;
    mh_context *context = test_context(test_level(0), 1);
    mh_translator *t;
    assert_int_equal(
        mh_translator_load(context, MH_GOLDENS "/models/bert-mlm", MH_PRECISION_F32, &t),
        MH_ERROR_UNSUPPORTED);
    assert_non_null(strstr(mh_error_message(context), "does not translate"));
    assert_int_equal(mh_translator_load(context, MH_GOLDENS "/models/marian", MH_PRECISION_F32, &t),
                     MH_ERROR_UNSUPPORTED);
    assert_non_null(strstr(mh_error_message(context), "tokenizer"));
    mh_context_free(context);

    published p = open_published("marian", 1);
    assert_non_null(mh_translator_model(p.t));
    assert_int_equal(mh_translator_save(p.context, p.t, "nowhere", MH_F32), MH_ERROR_UNSUPPORTED);
    mh_translations *found;
    static char words[3 * 60];
    for (size_t i = 0; i < sizeof words; i++)
        words[i] = "w5 "[i % 3];
    const mh_text text = {words, sizeof words};
    assert_int_equal(mh_score_translations(p.context, p.t, NULL, p.texts, &text, 1, &found),
                     MH_ERROR_ARGUMENT);
    assert_non_null(strstr(mh_error_message(p.context), "targets[0]: found 60 tokens"));
    // too long for one segment, but not for the search
    found = translate(p.context, p.t, NULL, &text, 1);
    assert_int_equal(mh_translations_at(found, 0, 0)->source->count, 60);
    mh_translations_free(found);
    close_published(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equal_to_transformers),
        cmocka_unit_test(same_bits_in_every_batch),
        cmocka_unit_test(scores_are_those_of_the_search),
        cmocka_unit_test(traces),
        cmocka_unit_test(rejects),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
