// SPDX-License-Identifier: MIT
// Translating many texts: equal bits in any company, texts that are cut and joined, ranks, and
// progress that stops.
#include "translate_support.h"

static void ranks_are_sorted(void **state)
{
    (void)state;
    mh_context *context = test_context(test_level(0), 1);
    mh_translator *t = make_translator(context, 3);
    mh_translate_options o = mh_translate_options_default();
    o.beam = 6;
    o.n_best = 5;
    mh_translations *all = translate(context, t, &o, some_texts, TEXTS);
    for (size_t i = 0; i < TEXTS; i++)
        for (size_t rank = 1; rank < o.n_best; rank++) {
            const mh_translation *a = mh_translations_at(all, i, rank - 1),
                                 *b = mh_translations_at(all, i, rank);
            if (a->source->count == 0) {
                assert_null(b);
                break;
            }
            assert_non_null(b);
            assert_true(a->score >= b->score);
            if (i != LONG_TEXT)
                assert_true(a->count != b->count ||
                            memcmp(a->ids, b->ids, a->count * sizeof *a->ids) != 0);
        }
    assert_null(mh_translations_at(all, 0, o.n_best));
    assert_null(mh_translations_at(all, TEXTS, 0));
    mh_translations_free(all);
    mh_translator_free(t);
    mh_context_free(context);
}

// ---- equal bits ---------------------------------------------------------------------------------

static void check_company(mh_context *context, const mh_translator *t, mh_translate_options o,
                          const mh_translations *expected, size_t step)
{
    mh_text texts[TEXTS];
    for (size_t i = 0; i < TEXTS; i++)
        texts[i] = some_texts[i * step % TEXTS];
    mh_translations *found = translate(context, t, &o, texts, TEXTS);
    for (size_t i = 0; i < TEXTS; i++)
        for (size_t rank = 0; rank < o.n_best; rank++) {
            const mh_translation *a = mh_translations_at(expected, i * step % TEXTS, rank);
            const mh_translation *b = mh_translations_at(found, i, rank);
            assert_int_equal(!a, !b);
            if (a)
                same_translation(a, b);
        }
    mh_translations_free(found);
}

static void check_bits(const char *level, mh_precision precision, size_t beam)
{
    mh_translate_options o = mh_translate_options_default();
    o.beam = beam;
    o.n_best = beam > 1 ? 2 : 1;
    o.attention = true;
    mh_context *one = test_context(level, 1);
    mh_translator *t = fixture_translator(one, precision, 3);
    mh_translations *expected = translate(one, t, &o, some_texts, TEXTS);
    static const size_t batches[] = {64, 1, 3, 7};
    for (size_t threads = 1; threads <= 4; threads++) {
        mh_context *context = test_context(level, threads);
        o.batch = batches[threads - 1];
        check_company(context, t, o, expected, threads % 2 ? 1 : 3); // 3: another order
        mh_context_free(context);
    }
    mh_translations_free(expected);
    mh_translator_free(t);
    mh_context_free(one);
}

static void company_changes_nothing(void **state)
{
    (void)state;
    for (size_t i = 0; test_level(i); i++) {
        print_message("%s\n", test_level(i));
        check_bits(test_level(i), MH_PRECISION_F32, 4);
        check_bits(test_level(i), MH_PRECISION_BF16, 3);
        check_bits(test_level(i), MH_PRECISION_F32, 1);
    }
}

// ---- texts --------------------------------------------------------------------------------------

static void texts_are_cut_and_joined(void **state)
{
    (void)state;
    mh_context *context = test_context(test_level(0), 1);
    mh_translator *t = make_translator(context, 3);
    mh_translate_options o = mh_translate_options_default();
    o.attention = true;
    static const mh_text sentences[] = {{"Il dort.", 8}, {"Il fait beau.", 13}};
    mh_translations *all = translate(context, t, &o, some_texts, TEXTS);
    mh_translations *parts = translate(context, t, &o, sentences, 2);
    const mh_translation *whole = mh_translations_at(all, LONG_TEXT, 0);
    assert_true(whole->source->count >= FIXTURE_MOST);
    assert_int_equal(whole->source->text.size, some_texts[LONG_TEXT].size);
    assert_memory_equal(whole->source->text.data, some_texts[LONG_TEXT].bytes,
                        whole->source->text.size);
    size_t place = 0, tokens = 0, source = 0;
    for (size_t i = 0; i < 2; i++) { // its beginning is what they are on their own
        const mh_translation *p = mh_translations_at(parts, i, 0);
        assert_memory_equal(whole->ids + tokens, p->ids, p->count * sizeof *p->ids);
        assert_memory_equal(whole->text.bytes + place, p->text.bytes, p->text.size);
        for (size_t n = 0; n < p->count; n++) {
            const float *row = whole->attention + (tokens + n) * whole->source->count;
            assert_int_equal(whole->ends[tokens + n], place + p->ends[n]);
            assert_memory_equal(row + source, p->attention + n * p->source->count,
                                p->source->count * sizeof *row);
        }
        place += p->text.size;
        if (p->text.size)
            assert_int_equal(whole->text.bytes[place++], ' ');
        tokens += p->count;
        source += p->source->count;
    }
    for (size_t i = 0; i < TEXTS; i++) {
        const mh_translation *r = mh_translations_at(all, i, 0);
        assert_int_equal(mh_utf8_valid(r->text.bytes, r->text.size), r->text.size);
        assert_int_equal(r->text.bytes[r->text.size], 0);
        if (r->count)
            assert_int_equal(r->ends[r->count - 1], r->text.size);
    }
    assert_int_equal(mh_translations_at(all, 2, 0)->text.size, 0);
    assert_int_equal(mh_translations_at(all, 8, 0)->text.size, 0);
    assert_int_equal(mh_translations_at(all, 4, 0)->source->text.size, 11); // "the weather"
    mh_translations_free(all);
    mh_translations_free(parts);
    mh_translator_free(t);
    mh_context_free(context);
}

// Typographic characters that the model has not learnt are read as plain ones; the trace is of what
// was read.
static void foreign_characters(void **state)
{
    (void)state;
    mh_context *context = test_context(test_level(0), 1);
    mh_translator *t = make_translator(context, 3);
    mh_translate_options o = mh_translate_options_default();
    o.attention = true;
    static const char typeset[] = u8"\u00A0\u201Cl\u2019ami\u201D\u202F\t est\u00A0beau\u2026 ",
                      plain[] = "\"l'ami\" est beau...";
    const mh_text texts[] = {{typeset, sizeof typeset - 1}, {plain, sizeof plain - 1}};
    mh_translations *both = translate(context, t, &o, texts, 2);
    const mh_translation *found = mh_translations_at(both, 0, 0);
    same_translation(found, mh_translations_at(both, 1, 0));
    assert_int_equal(found->source->text.size, texts[1].size);
    assert_memory_equal(found->source->text.data, plain, texts[1].size);
    mh_translation_trace *trace;
    test_ok(context, mh_translation_trace_create(context, t, NULL, texts[0], found->ids,
                                                 found->count, &trace));
    assert_string_equal(mh_translation_trace_view(trace)->title, plain);
    mh_translation_trace_free(trace);
    mh_translations_free(both);
    mh_translator_free(t);
    mh_context_free(context);
}

// ---- tokens -------------------------------------------------------------------------------------

static void tokens_are_those_of_a_translation(void **state)
{
    (void)state;
    mh_context *context = test_context(test_level(0), 1);
    mh_translator *t = make_translator(context, 3);
    static const char padded[] = " \n\t  le  chat\t ";
    const mh_text text = {padded, strlen(padded)};
    mh_tokens tokens = {0};
    mh_translations *all = translate(context, t, NULL, &text, 1);
    const mh_tokens *source = mh_translations_at(all, 0, 0)->source;
    assert_int_equal(mh_translator_encode(context, t, text, &tokens), MH_OK);
    assert_int_equal(tokens.count, source->count);
    assert_memory_equal(tokens.ids, source->ids, source->count * sizeof *tokens.ids);
    assert_int_equal(mh_translator_encode(context, t, (mh_text){padded, 5}, &tokens), MH_OK);
    assert_int_equal(tokens.count, 0);
    test_refused(context, mh_translator_encode(context, t, (mh_text){"\xFF", 1}, &tokens),
                 MH_ERROR_FORMAT, "UTF-8");
    mh_tokens_free(context, &tokens);
    mh_translations_free(all);
    mh_translator_free(t);
    mh_context_free(context);
}

// ---- progress -----------------------------------------------------------------------------------

static bool stop_soon(void *user, size_t done, size_t total)
{
    size_t *calls = user;
    assert_true(done <= total);
    return ++*calls < 2;
}

static void progress_may_stop(void **state)
{
    (void)state;
    mh_context *context = test_context(test_level(0), 1);
    mh_translator *t = make_translator(context, 3);
    mh_translate_options o = mh_translate_options_default();
    size_t calls = 0, done = 0;
    o.batch = 1;
    o.progress = stop_soon;
    o.progress_user = &calls;
    mh_translations *all = translate(context, t, &o, some_texts, LONG_TEXT);
    for (size_t i = 0; i < LONG_TEXT; i++)
        done += mh_translations_at(all, i, 0) != NULL;
    assert_int_equal(calls, 2);
    assert_int_equal(done, 3);                      // two, and the empty one
    assert_non_null(mh_translations_at(all, 1, 0)); // the longest
    mh_translations_free(all);
    mh_translator_free(t);
    mh_context_free(context);
}

// One batch stops between two steps of its search, and has no translations then, attention neither.
static void progress_may_stop_a_search(void **state)
{
    (void)state;
    mh_context *context = test_context(test_level(0), 2);
    mh_translator *t = make_translator(context, 3);
    mh_translate_options o = mh_translate_options_default();
    size_t calls = 0;
    o.attention = true;
    o.progress = stop_soon;
    o.progress_user = &calls;
    mh_translations *none = translate(context, t, &o, some_texts, 2);
    assert_int_equal(calls, 2);
    for (size_t i = 0; i < 2; i++)
        assert_null(mh_translations_at(none, i, 0));
    mh_translations_free(none);
    o.progress = NULL;
    mh_translations *all = translate(context, t, &o, some_texts, 2);
    assert_non_null(mh_translations_at(all, 1, 0));
    mh_translations_free(all);
    mh_translator_free(t);
    mh_context_free(context);
}

// With a batch for each thread, batches go side by side: they stop, and fail, as one by one.
static void batches_side_by_side(void **state)
{
    (void)state;
    mh_context *context = test_context(test_level(0), 3);
    mh_translator *t = make_translator(context, 3);
    mh_translate_options o = mh_translate_options_default();
    mh_text texts[100];
    size_t calls = 0, done = 0;
    for (size_t i = 0; i < 100; i++)
        texts[i] = some_texts[i % LONG_TEXT];
    o.batch = 1;
    o.beam = 1;
    o.progress = stop_soon;
    o.progress_user = &calls;
    mh_translations *some = translate(context, t, &o, texts, 100);
    for (size_t i = 0; i < 100; i++)
        done += texts[i].size > 1 && mh_translations_at(some, i, 0);
    assert_int_equal(calls, 2);
    assert_true(done > 6 && done < 50);
    mh_translations_free(some);

    spoil_translator(t);
    o.progress = NULL;
    test_refused(context, mh_translate(context, t, &o, texts, 100, &some), MH_ERROR_FORMAT,
                 "NaN or infinite");
    assert_null(some);
    mh_translator_free(t);
    mh_context_free(context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranks_are_sorted),
        cmocka_unit_test(company_changes_nothing),
        cmocka_unit_test(texts_are_cut_and_joined),
        cmocka_unit_test(foreign_characters),
        cmocka_unit_test(tokens_are_those_of_a_translation),
        cmocka_unit_test(progress_may_stop_a_search),
        cmocka_unit_test(progress_may_stop),
        cmocka_unit_test(batches_side_by_side),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
