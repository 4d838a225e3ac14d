// SPDX-License-Identifier: MIT
// Corpus chrF and chrF++, equal to sacreBLEU's to the last digit: of several references, the one
// with the best segment score counts; n-gram orders that either side lacks are skipped.
#include "support/buffer.h"
#include "text/ngrams.h"
#include "text/score_text.h"
#include "text/utf8.h"

enum { CHARACTER_ORDER = 6, WORD_ORDER_MAX = 2, ORDERS_MAX = CHARACTER_ORDER + WORD_ORDER_MAX };

typedef struct counts { // for each order: n-grams of both sides, and those in common
    uint64_t hypothesis[ORDERS_MAX], reference[ORDERS_MAX], match[ORDERS_MAX];
} counts;

typedef struct chrf {
    mh_context *context;
    size_t word_order;
    bool lowercase;
    mh_ngrams characters, words, word_grams;
    mh_symbols symbols;
    mh_buffer text;
} chrf;

static bool chrf_is_punctuation(char c)
{
    return (c >= '!' && c <= '/') || (c >= ':' && c <= '@') || (c >= '[' && c <= '`') ||
           (c >= '{' && c <= '~');
}

// Splits one punctuation mark off the end of a word, or else off its beginning.
static bool add_split_word(chrf *c, mh_text word)
{
    size_t first, length;
    mh_utf8_decode(word.bytes, &first);
    if (first == word.size)
        return mh_symbols_add_word(&c->words, word.bytes, word.size, &c->symbols);
    length = chrf_is_punctuation(word.bytes[word.size - 1]) ? word.size - 1
             : chrf_is_punctuation(word.bytes[0])           ? 1
                                                            : word.size;
    return mh_symbols_add_word(&c->words, word.bytes, length, &c->symbols) &&
           (length == word.size ||
            mh_symbols_add_word(&c->words, word.bytes + length, word.size - length, &c->symbols));
}

static bool chrf_count_words(chrf *c, bool is_hypothesis)
{
    mh_text word;
    c->symbols.count = 0;
    for (size_t at = 0; mh_next_word(c->text.data, c->text.size, &at, &word);)
        if (!add_split_word(c, word))
            return false;
    return mh_ngrams_count(&c->word_grams, c->symbols.items, c->symbols.count,
                           (uint32_t)c->word_order, is_hypothesis);
}

static bool chrf_count_characters(chrf *c, bool is_hypothesis)
{
    c->symbols.count = 0;
    for (size_t at = 0, length; at < c->text.size; at += length) {
        uint32_t point = mh_utf8_decode(c->text.data + at, &length);
        if (!mh_is_space(point) && !mh_symbols_add(c->context, &c->symbols, point))
            return false;
    }
    return mh_ngrams_count(&c->characters, c->symbols.items, c->symbols.count, CHARACTER_ORDER,
                           is_hypothesis);
}

static bool count_text(chrf *c, mh_text text, bool is_hypothesis)
{
    c->text.size = 0;
    if (!(c->lowercase ? mh_text_lowercase(c->context, text.bytes, text.size, &c->text)
                       : mh_buffer_append(c->context, &c->text, text.bytes, text.size)))
        return false;
    return chrf_count_characters(c, is_hypothesis) &&
           (c->word_order == 0 || chrf_count_words(c, is_hypothesis));
}

// Sums the n-grams of a tree, and resets those of the reference.
static void take_counts(mh_ngrams *g, counts *s, size_t first_order)
{
    for (size_t i = 1; i < g->count; i++) {
        mh_ngram *n = &g->nodes[i];
        size_t order = first_order + n->order - 1;
        s->hypothesis[order] += n->hypothesis;
        s->reference[order] += n->reference;
        s->match[order] += n->hypothesis < n->reference ? n->hypothesis : n->reference;
        n->reference = 0;
    }
}

static double f_score(const counts *s, size_t orders)
{
    double precision = 0, recall = 0;
    const double factor = 4; // the square of beta = 2
    size_t effective = 0;
    for (size_t i = 0; i < orders; i++) {
        if (s->hypothesis[i] == 0 || s->reference[i] == 0)
            continue;
        precision += (double)s->match[i] / (double)s->hypothesis[i];
        recall += (double)s->match[i] / (double)s->reference[i];
        effective++;
    }
    if (effective > 0) {
        precision /= (double)effective;
        recall /= (double)effective;
    }
    if (precision + recall == 0)
        return 0;
    double score = (1 + factor) * precision * recall;
    score /= factor * precision + recall;
    return 100 * score;
}

static bool chrf_add_segment(chrf *c, mh_text hypothesis, const mh_text *references, size_t step,
                             size_t reference_count, counts *sums)
{
    const size_t orders = CHARACTER_ORDER + c->word_order;
    counts best = {0};
    double best_score = -1;
    if (!mh_ngrams_reset(&c->characters) || !mh_ngrams_reset(&c->words) ||
        !mh_ngrams_reset(&c->word_grams) || !count_text(c, hypothesis, true))
        return false;
    for (size_t r = 0; r < reference_count; r++) {
        counts s = {0};
        if (!count_text(c, references[r * step], false))
            return false;
        take_counts(&c->characters, &s, 0);
        take_counts(&c->word_grams, &s, CHARACTER_ORDER);
        for (size_t i = 0; i < orders; i++) // skip orders that a reference lacks
            s.hypothesis[i] = s.reference[i] > 0 ? s.hypothesis[i] : 0;
        double score = f_score(&s, orders);
        if (score > best_score) {
            best_score = score;
            best = s;
        }
    }
    for (size_t i = 0; i < orders; i++) {
        sums->hypothesis[i] += best.hypothesis[i];
        sums->reference[i] += best.reference[i];
        sums->match[i] += best.match[i];
    }
    return true;
}

mh_status mh_chrf(mh_context *context, const mh_text *hypotheses, const mh_text *references,
                  size_t count, size_t reference_count, size_t word_order, bool lowercase,
                  double *score)
{
    mh_status status =
        mh_score_check(context, hypotheses, references, count, reference_count, score);
    if (status != MH_OK)
        return status;
    if (word_order > WORD_ORDER_MAX)
        return mh_fail(context, MH_ERROR_ARGUMENT, "score: word order %zu, expected 0 to %d",
                       word_order, WORD_ORDER_MAX);
    chrf c = {.context = context,
              .word_order = word_order,
              .lowercase = lowercase,
              .characters = {.context = context},
              .words = {.context = context},
              .word_grams = {.context = context}};
    counts sums = {0};
    for (size_t i = 0; i < count && status == MH_OK; i++)
        if (!chrf_add_segment(&c, hypotheses[i], references + i, count, reference_count, &sums))
            status = MH_ERROR_MEMORY;
    if (status == MH_OK)
        *score = f_score(&sums, CHARACTER_ORDER + word_order);
    mh_ngrams_free(&c.characters);
    mh_ngrams_free(&c.words);
    mh_ngrams_free(&c.word_grams);
    mh_shrink(context, &c.symbols.items, &c.symbols.capacity, sizeof *c.symbols.items);
    mh_buffer_free(context, &c.text);
    return status;
}
