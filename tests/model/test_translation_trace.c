// SPDX-License-Identifier: MIT
// Traces of translations: against the alignment that the search keeps, names of tokens, heads that
// are switched off, what is refused, and memory that runs out.
#include "translate_support.h"

#include <math.h>

static const mh_text text = {"  le chat est beau, d\xC3\xA9j\xC3\xA0 \n", 28};

static mh_translation_trace *trace_of(mh_context *context, const mh_translator *t,
                                      const bool *disabled, mh_text source, const int32_t *ids,
                                      size_t count)
{
    mh_translation_trace *trace;
    test_ok(context, mh_translation_trace_create(context, t, disabled, source, ids, count, &trace));
    return trace;
}

// ---- weights ------------------------------------------------------------------------------------

// The mean of all cross-attention without </s> is the alignment of mh_translate.
static void check_alignment(const mh_trace *trace, const mh_translation *translation)
{
    const mh_tensor *w = &trace->groups[MH_TRACE_CROSS].weights;
    const size_t S = translation->source->count, T = translation->count;
    assert_int_equal(w->shape[0], FIXTURE_LAYERS);
    assert_int_equal(w->shape[1], FIXTURE_HEADS);
    assert_int_equal(w->shape[2], T + 1);
    assert_int_equal(w->shape[3], S + 1);
    for (size_t t = 0; t < T; t++) {
        double row[FIXTURE_MOST] = {0}, sum = 0;
        for (size_t s = 0; s < S; s++) {
            for (size_t i = 0; i < FIXTURE_LAYERS * FIXTURE_HEADS; i++)
                row[s] += (double)((const float *)w->data)[(i * (T + 1) + t) * (S + 1) + s];
            sum += row[s];
        }
        for (size_t s = 0; s < S; s++)
            assert_true(fabs(row[s] / sum - (double)translation->attention[t * S + s]) < 1e-6);
    }
}

// What was chosen has the probabilities that the search gave it, and is among the likeliest.
static void check_choices(const mh_trace *trace, const mh_translation *translation)
{
    const mh_trace_choices *c = &trace->choices;
    double sum = 0;
    assert_int_equal(c->count, 5);
    for (size_t t = 0; t < trace->target.count; t++) {
        sum += log((double)c->chosen[t]);
        bool listed = false;
        for (size_t k = 0; k < c->count; k++) {
            const size_t at = t * c->count + k;
            assert_true(k == 0 || c->probability[at] <= c->probability[at - 1]);
            if (strcmp(c->text[at], trace->target.text[t]) == 0) {
                listed = true;
                assert_true(fabsf(c->probability[at] - c->chosen[t]) < 1e-7f);
            }
        }
        assert_true(listed || c->chosen[t] <= c->probability[(t + 1) * c->count - 1]);
    }
    assert_true(fabs(sum - translation->log_probability) < 1e-4 * fabs(sum));
}

static void weights_are_the_search(void **state)
{
    (void)state;
    mh_context *context = test_context(test_level(0), 2);
    mh_translator *t = make_translator(context, 3);
    mh_translate_options o = mh_translate_options_default();
    mh_translations *found;
    o.attention = true;
    bool disabled[3 * FIXTURE_LAYERS * FIXTURE_HEADS] = {[1] = true, [17] = true};
    for (int off = 0; off < 2; off++) {
        o.disabled_heads = off ? disabled : NULL;
        test_ok(context, mh_translate(context, t, &o, &text, 1, &found));
        const mh_translation *translation = mh_translations_at(found, 0, 0);
        assert_true(translation->count > 0);
        mh_translation_trace *trace =
            trace_of(context, t, o.disabled_heads, text, translation->ids, translation->count);
        test_ok(context, mh_trace_check(context, mh_translation_trace_view(trace)));
        check_alignment(mh_translation_trace_view(trace), translation);
        check_choices(mh_translation_trace_view(trace), translation);
        mh_translation_trace_free(trace);
        mh_translations_free(found);
    }
    mh_translator_free(t);
    mh_context_free(context);
}

// ---- names --------------------------------------------------------------------------------------

static void tokens_have_names(void **state)
{
    (void)state;
    mh_context *context = test_context(test_level(0), 1);
    mh_translator *t = make_translator(context, 3);
    mh_tokens target = {0};
    test_ok(context,
            mh_tokenizer_encode(context, mh_translator_tokenizer(t), "the cat", 7, &target));
    mh_translation_trace *made = trace_of(context, t, NULL, text, target.ids, target.count);
    const mh_trace *trace = mh_translation_trace_view(made);
    assert_string_equal(trace->title, "le chat est beau, d\xC3\xA9j\xC3\xA0");
    assert_string_equal(trace->model, "32 wide, 4 heads, 2+2 layers");
    const mh_trace_tokens *sides[] = {&trace->source, &trace->target, &trace->given};
    static const char *const expected[] = {"le\xE2\x96\x81"
                                           "chat\xE2\x96\x81"
                                           "est\xE2\x96\x81"
                                           "beau,\xE2\x96\x81"
                                           "d\xC3\xA9j\xC3\xA0</s>",
                                           "the\xE2\x96\x81"
                                           "cat</s>",
                                           "<s>the\xE2\x96\x81"
                                           "cat"};
    static const size_t words[] = {6, 3, 3};
    for (size_t side = 0; side < 3; side++) {
        char joined[256] = "";
        size_t starts = 0;
        for (size_t i = 0; i < sides[side]->count; i++) {
            const char *token = sides[side]->text[i];
            const bool marked = strncmp(token, "\xE2\x96\x81", 3) == 0;
            strcat(joined, token);
            starts += sides[side]->word_start[i];
            const bool special = token[0] == '<' || (i > 0 && sides[side]->text[i - 1][0] == '<');
            assert_int_equal(sides[side]->word_start[i], marked || i == 0 || special);
        }
        assert_string_equal(joined, expected[side]);
        assert_int_equal(starts, words[side]);
    }
    const mh_tensor *mask = &trace->groups[MH_TRACE_DECODER].mask;
    assert_int_equal(mask->shape[0], target.count + 1);
    assert_true(((const bool *)mask->data)[0]);
    assert_false(((const bool *)mask->data)[1]);
    mh_translation_trace_free(made);
    mh_tokens_free(context, &target);
    mh_translator_free(t);
    mh_context_free(context);
}

static void nothing_is_fine(void **state)
{
    (void)state;
    mh_context *context = test_context(test_level(0), 1);
    mh_translator *t = make_translator(context, 3);
    const mh_text nothing = {NULL, 0};
    mh_translations *found; // one text, of no pieces
    test_ok(context, mh_translate(context, t, NULL, &nothing, 1, &found));
    const mh_translation *empty = mh_translations_at(found, 0, 0);
    mh_translation_trace *made = trace_of(context, t, NULL, nothing, empty->ids, empty->count);
    const mh_trace *trace = mh_translation_trace_view(made);
    assert_int_equal(trace->source.count, 1);
    assert_string_equal(trace->target.text[0], "</s>");
    test_ok(context, mh_trace_check(context, trace));
    mh_translation_trace_free(made);
    mh_translation_trace_free(NULL);
    mh_translations_free(found);
    mh_translator_free(t);
    mh_context_free(context);
}

// ---- heads that are switched off ----------------------------------------------------------------

static void switched_off(void **state)
{
    (void)state;
    mh_context *context = test_context(test_level(0), 1);
    mh_translator *t = make_translator(context, 3);
    bool disabled[3 * FIXTURE_LAYERS * FIXTURE_HEADS] = {false};
    for (size_t h = 0; h < FIXTURE_HEADS; h++) // all of the decoder's last cross-attention
        disabled[(3 * FIXTURE_LAYERS - 1) * FIXTURE_HEADS + h] = true;
    const mh_parameters *p = mh_translator_parameters(t);
    const mh_parameter *bias =
        mh_parameters_find(p, "decoder.layers.1.multihead_attn.out_proj.bias");
    const int32_t ids[] = {70, 80, 90};
    mh_translation_trace *made = trace_of(context, t, disabled, text, ids, 3);
    const mh_tensor *out = &mh_translation_trace_view(made)->groups[MH_TRACE_CROSS].out;
    for (size_t i = 0; i < 4; i++) // what is left is the bias; in the layer before, more
        assert_memory_equal((const float *)out->data + (4 + i) * FIXTURE_D,
                            p->values + bias->offset, FIXTURE_D * sizeof(float));
    bias = mh_parameters_find(p, "decoder.layers.0.multihead_attn.out_proj.bias");
    assert_memory_not_equal(out->data, p->values + bias->offset, FIXTURE_D * sizeof(float));
    mh_translation_trace_free(made);
    mh_translator_free(t);
    mh_context_free(context);
}

// ---- what is refused ----------------------------------------------------------------------------

static void refuse(mh_context *context, const mh_translator *t, mh_text source, const int32_t *ids,
                   size_t count, mh_status expected, const char *message)
{
    mh_translation_trace *trace = (mh_translation_trace *)&trace;
    test_refused(context, mh_translation_trace_create(context, t, NULL, source, ids, count, &trace),
                 expected, message);
    assert_null(trace);
}

static void refused(void **state)
{
    (void)state;
    mh_context *context = test_context(test_level(0), 1);
    mh_translator *t = make_translator(context, 3);
    int32_t ids[FIXTURE_MOST];
    char many[FIXTURE_MOST];
    memset(many, 'q', sizeof many);
    for (size_t i = 0; i < FIXTURE_MOST; i++)
        ids[i] = 70;
    mh_translation_trace_free(
        trace_of(context, t, NULL, (mh_text){many, FIXTURE_MOST - 1}, ids, FIXTURE_MOST - 1));
    refuse(context, t, (mh_text){many, FIXTURE_MOST}, ids, 1, MH_ERROR_ARGUMENT,
           "source: found 40 tokens, expected at most 39");
    refuse(context, t, text, ids, FIXTURE_MOST, MH_ERROR_ARGUMENT,
           "target: found 40 tokens, expected at most 39");
    ids[1] = -1;
    refuse(context, t, text, ids, 2, MH_ERROR_ARGUMENT, "target[1]: found -1, expected 0 to 282");
    ids[1] = 1 << 30;
    refuse(context, t, text, ids, 2, MH_ERROR_ARGUMENT, "target[1]: found 1073741824");
    refuse(context, t, (mh_text){"a\xFF", 2}, ids, 1, MH_ERROR_FORMAT, "UTF-8");
    refuse(context, t, text, NULL, 1, MH_ERROR_ARGUMENT, "NULL");
    refuse(context, NULL, text, ids, 1, MH_ERROR_ARGUMENT, "NULL");
    mh_translator_free(t);
    mh_context_free(context);
}

static mh_status trace_a_translation(mh_context *context, void *translator)
{
    static const int32_t ids[] = {70, 80, 90};
    mh_translation_trace *trace;
    const mh_status status =
        mh_translation_trace_create(context, translator, NULL, text, ids, 3, &trace);
    mh_translation_trace_free(trace);
    return status;
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    mh_context *context = test_context(test_level(0), 1);
    mh_translator *t = make_translator(context, 3);
    assert_true(test_failing_allocations(test_level(0), 1, trace_a_translation, t) > 10);
    mh_translator_free(t);
    mh_context_free(context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(weights_are_the_search),
        cmocka_unit_test(tokens_have_names),
        cmocka_unit_test(nothing_is_fine),
        cmocka_unit_test(switched_off),
        cmocka_unit_test(refused),
        cmocka_unit_test(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
