// SPDX-License-Identifier: MIT
// Translating by search: greedy against the argmax of a whole forward pass, with and without some
// heads, beams against all translations that there are, when a beam stops, and the attention that
// comes with translations.
#include "model/beam.h"
#include "model/translator_internal.h"
#include "translate_support.h"

#include <math.h>

// ---- the long way -------------------------------------------------------------------------------

// Log-probabilities (V) of the token behind ids, by a forward pass over everything.
typedef struct forward {
    mh_context *context;
    const mh_translator *t;
    const bool *disabled;
    int32_t source[FIXTURE_MOST];
    size_t source_count; // with </s>
    float logits[512];
    float weights[FIXTURE_LAYERS][FIXTURE_HEADS * FIXTURE_MOST * FIXTURE_MOST];
} forward;

static void set_source(forward *f, mh_text text)
{
    mh_tokens tokens = {0};
    test_ok(f->context,
            mh_tokenizer_encode(f->context, f->t->tokenizer, text.bytes, text.size, &tokens));
    assert_true(tokens.count < FIXTURE_MOST);
    memcpy(f->source, tokens.ids, tokens.count * sizeof *f->source);
    f->source[tokens.count] = mh_tokenizer_eos(f->t->tokenizer);
    f->source_count = tokens.count + 1;
    mh_tokens_free(f->context, &tokens);
}

static mh_tensor embed(const forward *f, const int32_t *ids, size_t count, float *memory)
{
    static float scratch[FIXTURE_MOST * FIXTURE_D];
    int32_t positions[FIXTURE_MOST];
    for (size_t i = 0; i < count; i++)
        positions[i] = (int32_t)i;
    mh_tensor x = mh_tensor_2d(memory, MH_F32, count, FIXTURE_D);
    test_ok(f->context, mh_translator_embed(f->context, f->t, ids, positions, &x, scratch));
    return mh_tensor_3d(memory, MH_F32, 1, count, FIXTURE_D);
}

static void score_next_tokens(forward *f, const int32_t *ids, size_t count)
{
    static float source[FIXTURE_MOST * FIXTURE_D], target[FIXTURE_MOST * FIXTURE_D],
        out[FIXTURE_MOST * FIXTURE_D];
    int32_t given[FIXTURE_MOST] = {mh_tokenizer_bos(f->t->tokenizer)};
    memcpy(given + 1, ids, count * sizeof *ids);
    const mh_tensor src = embed(f, f->source, f->source_count, source);
    const mh_tensor tgt = embed(f, given, count + 1, target);
    mh_tensor output = mh_tensor_3d(out, MH_F32, 1, count + 1, FIXTURE_D);
    mh_tap taps[FIXTURE_LAYERS];
    for (size_t i = 0; i < FIXTURE_LAYERS; i++)
        taps[i] = (mh_tap){.struct_size = sizeof(mh_tap),
                           .kind = MH_TAP_CROSS,
                           .layer = i,
                           .weights = mh_tensor_4d(f->weights[i], MH_F32, 1, FIXTURE_HEADS,
                                                   count + 1, f->source_count)};
    mh_transformer_options o = mh_transformer_options_default();
    o.tgt_causal = true;
    o.disabled_heads = f->disabled;
    o.taps = taps;
    o.tap_count = FIXTURE_LAYERS;
    test_ok(f->context,
            mh_transformer_forward(f->context, f->t->transformer, &o, &src, &tgt, &output));
    const size_t V = mh_tokenizer_size(f->t->tokenizer);
    assert_true(V <= 512);
    const mh_tensor last = mh_tensor_2d(out + count * FIXTURE_D, MH_F32, 1, FIXTURE_D);
    mh_tensor logits = mh_tensor_2d(f->logits, MH_F32, 1, V);
    test_ok(f->context, mh_translator_logits(f->context, f->t, NULL, &last, &logits));
    test_ok(f->context, mh_log_softmax(f->context, &logits, 1, &logits));
}

// ---- greedy -------------------------------------------------------------------------------------

static size_t greedy(forward *f, size_t most, int32_t *ids, double *log_probability)
{
    const mh_tokenizer *tokenizer = f->t->tokenizer;
    const int32_t end = mh_tokenizer_eos(tokenizer);
    *log_probability = 0;
    for (size_t count = 0;; count++) {
        score_next_tokens(f, ids, count);
        int32_t best = end;
        for (size_t v = 0; v < mh_tokenizer_size(tokenizer) && count + 1 < most; v++)
            if ((int32_t)v != mh_tokenizer_pad(tokenizer) &&
                (int32_t)v != mh_tokenizer_bos(tokenizer) && f->logits[v] > f->logits[best])
                best = (int32_t)v;
        *log_probability += (double)f->logits[best];
        if (best == end)
            return count;
        ids[count] = best;
    }
}

static void check_greedy(forward *f, const mh_translate_options *o, mh_text text)
{
    mh_translations *found = translate(f->context, f->t, o, &text, 1);
    const mh_translation *t = mh_translations_at(found, 0, 0);
    int32_t ids[FIXTURE_MOST];
    double log_probability;
    set_source(f, text);
    const size_t most = 2 * (f->source_count - 1) + 21;
    const size_t count =
        greedy(f, most < FIXTURE_MOST ? most : FIXTURE_MOST, ids, &log_probability);
    assert_int_equal(t->count, count);
    assert_memory_equal(t->ids, ids, count * sizeof *ids);
    assert_true(fabs(t->log_probability - log_probability) < 1e-4);
    assert_true(fabs(t->score - log_probability / (double)(count + 1)) < 1e-4);
    assert_int_equal(t->source->count, f->source_count - 1);
    mh_translations_free(found);
}

static void greedy_is_argmax(void **state)
{
    (void)state;
    mh_context *context = test_context(test_level(0), 1);
    size_t different = 0;
    for (uint64_t seed = 1; seed <= 6; seed++) {
        mh_translator *t = make_translator(context, seed);
        mh_translate_options o = mh_translate_options_default();
        o.beam = 1;
        forward f = {.context = context, .t = t};
        check_greedy(&f, &o, some_texts[0]);
        check_greedy(&f, &o, some_texts[1]);
        check_greedy(&f, &o, some_texts[5]);
        // The same without some heads of each kind, in each layer.
        bool disabled[3 * FIXTURE_LAYERS * FIXTURE_HEADS] = {false};
        float before[8];
        memcpy(before, f.logits, sizeof before);
        for (size_t i = 0; i < sizeof disabled / sizeof *disabled; i++)
            disabled[i] = i % 3 == 1;
        f.disabled = o.disabled_heads = disabled;
        check_greedy(&f, &o, some_texts[1]);
        check_greedy(&f, &o, some_texts[5]);
        different += memcmp(before, f.logits, sizeof before) != 0;
        mh_translator_free(t);
    }
    assert_int_equal(different, 6);
    mh_context_free(context);
}

// ---- beams --------------------------------------------------------------------------------------

enum { FEW = 3, SHORT = 4, PREFIXES = 1 + 3 + 9 + 27 + 81 };

// All tokens but </s> and FEW others are impossible: the first number of the decoder's output is
// always 1, and that of their embeddings -inf. The source may have none of them.
static void forbid(const mh_translator *t, const int32_t *allowed)
{
    const mh_parameters *p = mh_translator_parameters(t);
    float *table = p->values + mh_parameters_find(p, "embedding.weight")->offset;
    p->values[mh_parameters_find(p, "decoder.norm.weight")->offset] = 0;
    p->values[mh_parameters_find(p, "decoder.norm.bias")->offset] = 1;
    for (size_t v = 0; v < mh_tokenizer_size(t->tokenizer); v++) {
        bool keep = (int32_t)v == mh_tokenizer_eos(t->tokenizer) ||
                    (int32_t)v == mh_tokenizer_bos(t->tokenizer);
        for (size_t i = 0; i < FEW; i++)
            keep |= (int32_t)v == allowed[i];
        if (!keep)
            table[v * FIXTURE_D] = -INFINITY;
    }
}

typedef struct best {
    int32_t ids[SHORT];
    size_t count;
    double score;
} best;

// Every translation of up to SHORT tokens.
static void enumerate(forward *f, const int32_t *allowed, double penalty, int32_t *ids,
                      size_t count, double log_probability, best *b)
{
    score_next_tokens(f, ids, count);
    float next[FEW];
    for (size_t i = 0; i < FEW; i++)
        next[i] = f->logits[allowed[i]];
    const double whole = log_probability + (double)f->logits[mh_tokenizer_eos(f->t->tokenizer)];
    const double score = whole / pow((double)(count + 1), penalty);
    if (score > b->score) {
        b->score = score;
        b->count = count;
        memcpy(b->ids, ids, count * sizeof *ids);
    }
    for (size_t i = 0; i < FEW && count < SHORT; i++) {
        ids[count] = allowed[i];
        enumerate(f, allowed, penalty, ids, count + 1, log_probability + (double)next[i], b);
    }
}

static void wide_beam_finds_the_best(void **state)
{
    (void)state;
    static const mh_text text = {"kaqqaka", 7};
    static const double penalties[] = {0, 1, 2};
    mh_context *context = test_context(test_level(0), 1);
    size_t missed = 0, lengths = 0;
    for (uint64_t seed = 1; seed <= 12; seed++) {
        mh_translator *t = make_translator(context, seed);
        forward f = {.context = context, .t = t};
        int32_t allowed[FEW];
        set_source(&f, TEXT("akq"));
        memcpy(allowed, f.source, sizeof allowed);
        forbid(t, allowed);
        mh_translate_options o = mh_translate_options_default();
        o.max_length_factor = 0;
        o.max_length_constant = SHORT;
        o.length_penalty = penalties[seed % 3];
        set_source(&f, text);
        assert_int_equal(f.source_count, text.size + 1);
        best expected = {.score = -INFINITY};
        int32_t ids[SHORT];
        enumerate(&f, allowed, o.length_penalty, ids, 0, 0, &expected);
        for (int wide = 0; wide < 2; wide++) {
            o.beam = wide ? PREFIXES + 7 : 1;
            mh_translations *found = translate(context, t, &o, &text, 1);
            const mh_translation *r = mh_translations_at(found, 0, 0);
            if (wide) {
                assert_int_equal(r->count, expected.count);
                assert_memory_equal(r->ids, expected.ids, r->count * sizeof *r->ids);
                assert_true(fabs(r->score - expected.score) < 1e-4);
            } else {
                missed += r->score < expected.score - 1e-4;
            }
            mh_translations_free(found);
        }
        lengths |= (size_t)1 << expected.count;
        mh_translator_free(t);
    }
    assert_true(missed > 0);                     // so that a beam that stays narrow would show
    assert_true((lengths & (lengths - 1)) != 0); // not always as long, or as short, as possible
    mh_context_free(context);
}

// ---- stopping -----------------------------------------------------------------------------------

enum { BEAM = 2, LONGEST = 40 };
static const mh_search_rules rules = {.end = 2};

// Advances the beam's one likely hypothesis by a token at `step`; </s> costs `end` there. The other
// token is so unlikely that it never matters.
static void advance_by(mh_beam *beam, double step, double end)
{
    int32_t ids[] = {10, 11, 10, 11};
    double log_probabilities[] = {step, -50, -50, -50}, ends[] = {end, -60};
    const mh_candidates candidates = {ids, log_probabilities, ends};
    size_t parents[BEAM];
    mh_beam_advance(beam, &candidates, parents);
}

// Two poor hypotheses are finished while the likely one still needs a token and </s>.
static void stops_after_the_likely_one(void **state)
{
    (void)state;
    mh_context *context = test_context(test_level(0), 1);
    mh_beam beam;
    assert_true(mh_beam_create(context, BEAM, 1, LONGEST, 1, &rules, &beam));
    advance_by(&beam, -0.1, -2.5);
    advance_by(&beam, -0.1, -2.5);
    assert_int_equal(beam.finished, BEAM);
    assert_true(beam.live > 0); // -0.2 after two tokens, the best of the finished -1.3 per token
    advance_by(&beam, -0.1, -4);
    assert_true(beam.live > 0);
    advance_by(&beam, -9, -0.1);
    assert_int_equal(beam.live, 0);
    assert_int_equal(beam.best[0].count, 3);
    assert_true(fabs(beam.best[0].score - -0.4 / 4) < 1e-12);
    mh_beam_free(context, &beam);
    mh_context_free(context);
}

// With as many finished as the beam is wide, a live one that is behind is not waited for, although
// it could win by LONGEST tokens that cost nothing.
static void stops_when_all_are_behind(void **state)
{
    (void)state;
    mh_context *context = test_context(test_level(0), 1);
    mh_beam beam;
    assert_true(mh_beam_create(context, BEAM, 1, LONGEST, 1, &rules, &beam));
    advance_by(&beam, -0.5, -0.4);
    advance_by(&beam, -2.5, -0.3);
    assert_int_equal(beam.finished, BEAM);
    assert_int_equal(beam.live, 0);
    assert_int_equal(beam.best[0].count, 0);
    mh_beam_free(context, &beam);
    mh_context_free(context);
}

// ---- attention ----------------------------------------------------------------------------------

static void attention_is_that_of_a_forward(void **state)
{
    (void)state;
    mh_context *context = test_context(test_level(0), 1);
    mh_translator *t = make_translator(context, 5);
    mh_translate_options o = mh_translate_options_default();
    o.attention = true;
    forward f = {.context = context, .t = t};
    set_source(&f, some_texts[0]);
    const size_t S = f.source_count - 1;
    for (o.alignment_layer = -1; o.alignment_layer < FIXTURE_LAYERS; o.alignment_layer++) {
        mh_translations *all = translate(context, t, &o, some_texts, 2);
        const mh_translation *r = mh_translations_at(all, 0, 0);
        assert_true(r->count > 0);
        score_next_tokens(&f, r->ids, r->count - 1);
        for (size_t n = 0; n < r->count; n++) {
            double expected[FIXTURE_MOST], sum = 0, total = 0;
            for (size_t s = 0; s < S; s++) {
                expected[s] = 0;
                for (int layer = 0; layer < FIXTURE_LAYERS; layer++)
                    for (size_t h = 0; h < FIXTURE_HEADS; h++)
                        if (o.alignment_layer < 0 || layer == o.alignment_layer)
                            expected[s] +=
                                (double)f.weights[layer][(h * r->count + n) * (S + 1) + s];
                sum += expected[s];
            }
            for (size_t s = 0; s < S; s++) {
                const double found = (double)r->attention[n * S + s];
                assert_true(fabs(found - expected[s] / sum) < 1e-5);
                total += found;
            }
            assert_true(fabs(total - 1) < 1e-5);
        }
        mh_translations_free(all);
    }
    mh_translator_free(t);
    mh_context_free(context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(greedy_is_argmax),
        cmocka_unit_test(wide_beam_finds_the_best),
        cmocka_unit_test(stops_after_the_likely_one),
        cmocka_unit_test(stops_when_all_are_behind),
        cmocka_unit_test(attention_is_that_of_a_forward),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
