// SPDX-License-Identifier: MIT
// BLEU and chrF: the numbers of sacreBLEU (goldens/make_scores.py).
#include "parser_support.h"
#include "text_support.h"

#include <jansson.h>
#include <math.h>

static void check_number(double found, const json_t *expected, const char *what, size_t number)
{
    double wanted = json_number_value(expected);
    if (!(fabs(found - wanted) <= 1e-11 * (1 + fabs(wanted))))
        fail_msg("case %zu: %s: found %.15g, expected %.15g", number, what, found, wanted);
}

static size_t take_texts(const json_t *list, mh_text *texts)
{
    size_t count = json_array_size(list);
    for (size_t i = 0; i < count; i++) {
        const json_t *text = json_array_get(list, i);
        texts[i] = (mh_text){json_string_value(text), json_string_length(text)};
    }
    return count;
}

static void check_case(const json_t *c, size_t number)
{
    mh_text hypotheses[8], references[32];
    const json_t *lists = json_object_get(c, "references");
    size_t count = take_texts(json_object_get(c, "hypotheses"), hypotheses);
    size_t reference_count = json_array_size(lists);
    bool lowercase = json_is_true(json_object_get(c, "lowercase"));
    mh_bleu_score bleu = mh_bleu_score_default();
    double chrf;
    for (size_t r = 0; r < reference_count; r++)
        assert_int_equal(take_texts(json_array_get(lists, r), references + r * count), count);
    test_ok(context,
            mh_bleu(context, hypotheses, references, count, reference_count, lowercase, &bleu));
    check_number(bleu.score, json_object_get(c, "bleu"), "BLEU", number);
    check_number(bleu.brevity_penalty, json_object_get(c, "bp"), "BP", number);
    for (size_t n = 0; n < MH_BLEU_ORDER; n++)
        check_number(bleu.precisions[n], json_array_get(json_object_get(c, "precisions"), n),
                     "precision", number);
    const json_t *lengths = json_object_get(c, "lengths");
    assert_int_equal(bleu.hypothesis_length, json_integer_value(json_array_get(lengths, 0)));
    assert_int_equal(bleu.reference_length, json_integer_value(json_array_get(lengths, 1)));
    for (size_t order = 0; order <= 2; order += 2) {
        test_ok(context, mh_chrf(context, hypotheses, references, count, reference_count, order,
                                 lowercase, &chrf));
        check_number(chrf, json_object_get(c, order ? "chrf++" : "chrf"), "chrF", number);
    }
}

static void test_goldens(void **state)
{
    (void)state;
    json_t *cases = json_load_file(MH_GOLDENS "/scores.json", 0, NULL), *c;
    size_t i;
    assert_true(json_array_size(cases) > 10);
    json_array_foreach(cases, i, c) { check_case(c, i); }
    json_decref(cases);
}

// A long segment after which short ones come: the tables are emptied, not trusted.
static void test_tables_are_reused(void **state)
{
    (void)state;
    static char long_text[200000];
    mh_text texts[200];
    double alone, together;
    for (size_t i = 0; i < sizeof long_text; i++)
        long_text[i] = (char)('a' + (i * i / 7 + i / 3) % 26);
    texts[0] = (mh_text){long_text, sizeof long_text};
    for (size_t i = 1; i < 200; i++)
        texts[i] = TEXT("a few words, always the same");
    test_ok(context, mh_chrf(context, texts, texts, 200, 1, 2, false, &together));
    assert_true(together == 100);
    const mh_text wrong = TEXT("a few words");
    mh_text references[200];
    memcpy(references, texts, sizeof texts);
    for (size_t i = 1; i < 200; i++)
        references[i] = wrong;
    test_ok(context, mh_chrf(context, texts + 1, references + 1, 199, 1, 2, false, &alone));
    test_ok(context, mh_chrf(context, texts + 1, references + 1, 1, 1, 2, false, &together));
    assert_true(fabs(alone - together) < 1e-9);
}

static void test_refused_arguments(void **state)
{
    (void)state;
    const mh_text good = TEXT("good"), bad = TEXT("ba\xff"), none = {NULL, 2};
    mh_bleu_score bleu = mh_bleu_score_default();
    double chrf;
    test_refused(context, mh_bleu(context, &bad, &good, 1, 1, false, &bleu), MH_ERROR_FORMAT,
                 "hypothesis 0: byte 2 (0xff) is not valid UTF-8");
    test_refused(context, mh_chrf(context, &good, &bad, 1, 1, 0, false, &chrf), MH_ERROR_FORMAT,
                 "reference 0: byte 2");
    test_refused(context, mh_bleu(context, &none, &good, 1, 1, false, &bleu), MH_ERROR_ARGUMENT,
                 "hypothesis 0 is NULL");
    test_refused(context, mh_bleu(context, &good, &good, 1, 0, false, &bleu), MH_ERROR_ARGUMENT,
                 "0 references, expected at least 1");
    test_refused(context, mh_chrf(context, &good, &good, 1, 1, 3, false, &chrf), MH_ERROR_ARGUMENT,
                 "word order 3, expected 0 to 2");
    test_refused(context, mh_chrf(context, &good, NULL, 1, 1, 0, false, &chrf), MH_ERROR_ARGUMENT,
                 "NULL");
    assert_int_equal(mh_bleu(NULL, &good, &good, 1, 1, false, &bleu), MH_ERROR_ARGUMENT);
    test_ok(context, mh_bleu(context, NULL, NULL, 0, 1, false, &bleu));
    assert_true(bleu.score == 0);
}

static mh_status score_once(void)
{
    static const mh_text texts[] = {{"Some words, and then some more of them.", 39},
                                    {"A second one", 12}};
    mh_bleu_score bleu = mh_bleu_score_default();
    double chrf;
    mh_status status = mh_bleu(context, texts, texts, 1, 2, true, &bleu);
    return status ? status : mh_chrf(context, texts, texts, 1, 2, 2, true, &chrf);
}

static void test_no_memory(void **state)
{
    (void)state;
    test_out_of_memory(&memory, 1, score_once);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_goldens),
        cmocka_unit_test(test_tables_are_reused),
        cmocka_unit_test(test_refused_arguments),
        cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests(tests, parser_set_up, parser_tear_down);
}
