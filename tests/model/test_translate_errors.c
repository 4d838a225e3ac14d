// SPDX-License-Identifier: MIT
// What mh_translate refuses, with a message that names it, and memory that runs out.
#include "translate_support.h"

#include <math.h>

static void nonsense_is_refused(void **state)
{
    (void)state;
    mh_context *context = test_context(test_level(0), 1);
    mh_translator *t = make_translator(context, 3);
    mh_translations *r = (mh_translations *)&r;
    mh_translate_options o;
#define REFUSE(change, word)                                                                       \
    o = mh_translate_options_default();                                                            \
    change;                                                                                        \
    test_refused(context, mh_translate(context, t, &o, some_texts, 1, &r), MH_ERROR_ARGUMENT,      \
                 word);                                                                            \
    assert_null(r)
    REFUSE(o.struct_size--, "struct_size");
    REFUSE(o.beam = 0, "beam: found 0, expected 1 to 1024");
    REFUSE(o.beam = 1025, "beam");
    REFUSE(o.n_best = 5, "n_best: found 5, expected 1 to the beam, 4");
    REFUSE(o.n_best = 0, "n_best");
    REFUSE(o.batch = 0, "batch");
    REFUSE(o.batch = SIZE_MAX, "batch");
    REFUSE(o.length_penalty = -1, "length_penalty");
    REFUSE(o.length_penalty = (double)NAN, "length_penalty");
    REFUSE(o.max_length_factor = (double)INFINITY, "max_length");
    REFUSE(o.max_length_constant = SIZE_MAX, "max_length");
    REFUSE(o.alignment_layer = FIXTURE_LAYERS, "alignment_layer: found 2");
    REFUSE(o.alignment_layer = -2, "alignment_layer");
#undef REFUSE
    const mh_text bad[] = {TEXT("good"), TEXT("b\xC3(d")}, none = {NULL, 1};
    test_refused(context, mh_translate(context, t, NULL, bad, 2, &r), MH_ERROR_FORMAT,
                 "texts[1]: byte 1 is not UTF-8");
    test_refused(context, mh_translate(context, t, NULL, &none, 1, &r), MH_ERROR_ARGUMENT,
                 "texts[0]");
    test_refused(context, mh_translate(context, NULL, NULL, bad, 1, &r), MH_ERROR_ARGUMENT, "NULL");
    test_refused(context, mh_translate(context, t, NULL, NULL, 1, &r), MH_ERROR_ARGUMENT, "NULL");
    test_ok(context, mh_translate(context, t, NULL, NULL, 0, &r));
    assert_null(mh_translations_at(r, 0, 0));
    mh_translations_free(r);
    mh_translations_free(NULL);
    spoil_translator(t);
    test_refused(context, mh_translate(context, t, NULL, some_texts, 1, &r), MH_ERROR_FORMAT,
                 "NaN or infinite");
    mh_translator_free(t);
    mh_context_free(context);
}

typedef struct work {
    const mh_translator *translator;
    mh_translate_options options;
    const mh_translations *expected;
} work;

static mh_status translate_two(mh_context *context, void *user)
{
    const work *w = user;
    mh_translations *r;
    const mh_status status =
        mh_translate(context, w->translator, &w->options, some_texts + 5, 2, &r);
    if (!status)
        same_translation(mh_translations_at(r, 1, 1), mh_translations_at(w->expected, 1, 1));
    mh_translations_free(r);
    return status;
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    mh_context *context = test_context(NULL, 1);
    mh_translator *t = make_translator(context, 3);
    work w = {t, mh_translate_options_default(), NULL};
    w.options.attention = true;
    w.options.beam = w.options.n_best = 2;
    w.options.max_length_factor = 0;
    w.options.max_length_constant = 3;
    mh_translations *expected = translate(context, t, &w.options, some_texts + 5, 2);
    w.expected = expected;
    assert_true(test_failing_allocations(NULL, 1, translate_two, &w) > 100);
    w.options.batch = 1; // a batch per thread, each with a context of its own
    assert_true(test_failing_allocations(NULL, 2, translate_two, &w) > 100);
    mh_translations_free(expected);
    mh_translator_free(t);
    mh_context_free(context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nonsense_is_refused),
        cmocka_unit_test(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
