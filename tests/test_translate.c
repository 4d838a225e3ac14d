// SPDX-License-Identifier: MIT
// Translating: greedy search against the argmax of a whole forward pass, beam search against all
// translations that there are, equal bits in any company, texts that are cut, attention, heads that
// are switched off, options and texts that are refused, and memory that runs out.
#include "model/translator_inside.h"
#include "nn_support.h"
#include "text_support.h"
#include "translator_fixture.h"

#include <math.h>

static const mh_text some_texts[] = {
    {"le chat est beau", 16},
    {"the cat sleeps on a mat, on a mat.", 34},
    {"", 0},
    {"x", 1},
    {"  the weather \r", 15},
    {"d\xC3\xA9j\xC3\xA0 vu \xF0\x9F\x98\x80", 15},
    {"Il dort. Il fait beau. The cat is on the mat. Le tapis est sur le chat! Zzz zzz qqq? "
     "wwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwww",
     175},
    {"le chat est sur le tapis.", 25},
    {"\t \n", 3},
    {"aussi beau", 10},
};
enum { TEXTS = sizeof some_texts / sizeof *some_texts, LONG_TEXT = 6 };

static mh_translator *make(mh_context *context, uint64_t seed)
{
    mh_translator *t = fixture_translator(context, MH_PRECISION_F32, seed);
    if (!t)
        fail_msg("%s", mh_error_message(context));
    return t;
}

static mh_translations *translate(mh_context *context, const mh_translator *t,
                                  const mh_translate_options *o, const mh_text *texts, size_t count)
{
    mh_translations *result;
    test_ok(context, mh_translate(context, t, o, texts, count, &result));
    return result;
}

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
    const mh_tensor x = mh_tensor_2d(memory, MH_F32, count, FIXTURE_D);
    test_ok(f->context, mh_translator_embed(f->context, f->t, ids, positions, &x, scratch));
    return mh_tensor_3d(memory, MH_F32, count, 1, FIXTURE_D);
}

static void look_ahead(forward *f, const int32_t *ids, size_t count)
{
    static float source[FIXTURE_MOST * FIXTURE_D], target[FIXTURE_MOST * FIXTURE_D],
        out[FIXTURE_MOST * FIXTURE_D];
    int32_t given[FIXTURE_MOST] = {mh_tokenizer_bos(f->t->tokenizer)};
    memcpy(given + 1, ids, count * sizeof *ids);
    const mh_tensor src = embed(f, f->source, f->source_count, source);
    const mh_tensor tgt = embed(f, given, count + 1, target);
    const mh_tensor output = mh_tensor_3d(out, MH_F32, count + 1, 1, FIXTURE_D);
    mh_tap taps[FIXTURE_LAYERS];
    for (size_t i = 0; i < FIXTURE_LAYERS; i++)
        taps[i] = (mh_tap){.kind = MH_TAP_CROSS,
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
    const mh_tensor logits = mh_tensor_2d(f->logits, MH_F32, 1, V);
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
        look_ahead(f, ids, count);
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
        mh_translator *t = make(context, seed);
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
    look_ahead(f, ids, count);
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
        mh_translator *t = make(context, seed);
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

static void ranks_are_sorted(void **state)
{
    (void)state;
    mh_context *context = test_context(test_level(0), 1);
    mh_translator *t = make(context, 3);
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

static void same_translation(const mh_translation *a, const mh_translation *b)
{
    assert_int_equal(a->count, b->count);
    assert_memory_equal(a->ids, b->ids, a->count * sizeof *a->ids);
    assert_memory_equal(&a->score, &b->score, sizeof a->score);
    assert_memory_equal(&a->log_probability, &b->log_probability, sizeof a->score);
    assert_string_equal(a->text.bytes, b->text.bytes);
    assert_int_equal(!a->attention, !b->attention);
    if (a->attention)
        assert_memory_equal(a->attention, b->attention,
                            a->count * a->source->count * sizeof *a->attention);
}

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
    mh_translator *t = make(context, 3);
    mh_translate_options o = mh_translate_options_default();
    o.attention = true;
    static const mh_text sentences[] = {{"Il dort.", 8}, {"Il fait beau.", 13}};
    mh_translations *all = translate(context, t, &o, some_texts, TEXTS);
    mh_translations *parts = translate(context, t, &o, sentences, 2);
    const mh_translation *whole = mh_translations_at(all, LONG_TEXT, 0);
    assert_true(whole->source->count >= FIXTURE_MOST);
    assert_int_equal(whole->source->text.size, some_texts[LONG_TEXT].size);
    assert_memory_equal(whole->source->text.bytes, some_texts[LONG_TEXT].bytes,
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

static void attention_is_that_of_a_forward(void **state)
{
    (void)state;
    mh_context *context = test_context(test_level(0), 1);
    mh_translator *t = make(context, 5);
    mh_translate_options o = mh_translate_options_default();
    o.attention = true;
    forward f = {.context = context, .t = t};
    set_source(&f, some_texts[0]);
    const size_t S = f.source_count - 1;
    for (o.alignment_layer = -1; o.alignment_layer < FIXTURE_LAYERS; o.alignment_layer++) {
        mh_translations *all = translate(context, t, &o, some_texts, 2);
        const mh_translation *r = mh_translations_at(all, 0, 0);
        assert_true(r->count > 0);
        look_ahead(&f, r->ids, r->count - 1);
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

// ---- what is refused ----------------------------------------------------------------------------

static void nonsense_is_refused(void **state)
{
    (void)state;
    mh_context *context = test_context(test_level(0), 1);
    mh_translator *t = make(context, 3);
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
    const mh_parameters *p = mh_translator_parameters(t);
    p->values[mh_parameters_find(p, "decoder.norm.weight")->offset] = NAN;
    test_refused(context, mh_translate(context, t, NULL, some_texts, 1, &r), MH_ERROR_FORMAT,
                 "no numbers");
    mh_translator_free(t);
    mh_context_free(context);
}

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
    mh_translator *t = make(context, 3);
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

// With a batch for each thread, batches go side by side: they stop, and fail, as one by one.
static void batches_side_by_side(void **state)
{
    (void)state;
    mh_context *context = test_context(test_level(0), 3);
    mh_translator *t = make(context, 3);
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

    const mh_parameters *p = mh_translator_parameters(t);
    p->values[mh_parameters_find(p, "decoder.norm.weight")->offset] = NAN;
    o.progress = NULL;
    test_refused(context, mh_translate(context, t, &o, texts, 100, &some), MH_ERROR_FORMAT,
                 "no numbers");
    assert_null(some);
    mh_translator_free(t);
    mh_context_free(context);
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    mh_context *maker = test_context(test_level(0), 1);
    mh_translator *t = make(maker, 3);
    mh_translate_options o = mh_translate_options_default();
    o.attention = true;
    o.beam = o.n_best = 2;
    o.max_length_factor = 0;
    o.max_length_constant = 3;
    mh_translations *expected = translate(maker, t, &o, some_texts + 5, 2);
    bool failed = true;
    size_t refused = 0;
    for (size_t n = 1; failed; n++) {
        test_memory c = {.fail_at = n};
        mh_context_options options = mh_context_options_default();
        options.threads = 1;
        options.isa = test_level(0);
        options.allocator = test_allocator(&c);
        mh_context *context = NULL;
        mh_translations *r = NULL;
        mh_status status = mh_context_create(&options, &context, NULL, 0);
        if (!status)
            status = mh_translate(context, t, &o, some_texts + 5, 2, &r);
        failed = c.calls >= n;
        refused += status != MH_OK;
        assert_int_equal(status, failed && !r ? MH_ERROR_MEMORY : MH_OK);
        if (r) // a context that gets no larger scratch is content with a smaller one
            same_translation(mh_translations_at(r, 1, 1), mh_translations_at(expected, 1, 1));
        mh_translations_free(r);
        mh_context_free(context);
        assert_int_equal(c.live, 0);
    }
    assert_true(refused > 100);
    mh_translations_free(expected);
    mh_translator_free(t);
    mh_context_free(maker);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(greedy_is_argmax),
        cmocka_unit_test(wide_beam_finds_the_best),
        cmocka_unit_test(ranks_are_sorted),
        cmocka_unit_test(company_changes_nothing),
        cmocka_unit_test(texts_are_cut_and_joined),
        cmocka_unit_test(attention_is_that_of_a_forward),
        cmocka_unit_test(nonsense_is_refused),
        cmocka_unit_test(progress_may_stop),
        cmocka_unit_test(batches_side_by_side),
        cmocka_unit_test(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
