// SPDX-License-Identifier: MIT
// Corpus BLEU, equal to sacreBLEU's to the last digit: the counts are integers, and the few
// operations on them are done in its order, with the C library's exp and log, as in Python.
#include "base/sized_struct.h"
#include "support/buffer.h"
#include "text/ngrams.h"
#include "text/score_text.h"
#include "text/utf8.h"

#include <math.h>

typedef struct bleu {
    mh_context *context;
    bool lowercase;
    mh_ngrams words, grams;
    mh_symbols symbols;
    mh_buffer text, spare;
    uint64_t correct[MH_BLEU_ORDER], total[MH_BLEU_ORDER], hypothesis_length, reference_length;
} bleu;

static mh_text trim_trailing_whitespace(mh_text text)
{
    for (size_t at = text.size, length; at > 0; text.size = at) {
        do
            at--;
        while (((unsigned char)text.bytes[at] & 0xC0) == 0x80);
        if (!mh_is_space(mh_utf8_decode(text.bytes + at, &length)))
            break;
    }
    return text;
}

// The words of a text, into b->symbols.
static bool take_words(bleu *b, mh_text text)
{
    mh_text word;
    text = trim_trailing_whitespace(text);
    b->text.size = b->symbols.count = 0;
    if (!(b->lowercase ? mh_text_lowercase(b->context, text.bytes, text.size, &b->text)
                       : mh_buffer_append(b->context, &b->text, text.bytes, text.size)) ||
        !mh_tokenize_13a(b->context, &b->text, &b->spare))
        return false;
    for (size_t at = 0; mh_next_word(b->text.data, b->text.size, &at, &word);)
        if (!mh_symbols_add_word(&b->words, word.bytes, word.size, &b->symbols))
            return false;
    return true;
}

static void keep_most(mh_ngrams *g)
{
    for (size_t i = 1; i < g->count; i++) {
        mh_ngram *n = &g->nodes[i];
        n->most = n->reference > n->most ? n->reference : n->most;
        n->reference = 0;
    }
}

// The reference length closest to the hypothesis's; of two, the shorter.
static size_t nearer(size_t length, size_t a, size_t b)
{
    size_t distance_a = a > length ? a - length : length - a;
    size_t distance_b = b > length ? b - length : length - b;
    if (distance_a != distance_b)
        return distance_a < distance_b ? a : b;
    return a < b ? a : b;
}

static bool bleu_add_segment(bleu *b, mh_text hypothesis, const mh_text *references, size_t step,
                             size_t reference_count)
{
    if (!mh_ngrams_reset(&b->words) || !mh_ngrams_reset(&b->grams) || !take_words(b, hypothesis) ||
        !mh_ngrams_count(&b->grams, b->symbols.items, b->symbols.count, MH_BLEU_ORDER, true))
        return false;
    size_t length = b->symbols.count, nearest = 0;
    for (size_t r = 0; r < reference_count; r++) {
        if (!take_words(b, references[r * step]) ||
            !mh_ngrams_count(&b->grams, b->symbols.items, b->symbols.count, MH_BLEU_ORDER, false))
            return false;
        keep_most(&b->grams);
        nearest = r == 0 ? b->symbols.count : nearer(length, nearest, b->symbols.count);
    }
    for (size_t i = 1; i < b->grams.count; i++) {
        const mh_ngram *n = &b->grams.nodes[i];
        b->total[n->order - 1] += n->hypothesis;
        b->correct[n->order - 1] += n->hypothesis < n->most ? n->hypothesis : n->most;
    }
    b->hypothesis_length += length;
    b->reference_length += nearest;
    return true;
}

static double floored_log(double x) { return x == 0 ? -9999999999.0 : log(x); }

static void bleu_compute(const bleu *b, mh_bleu_score *score)
{
    double hypothesis = (double)b->hypothesis_length, reference = (double)b->reference_length;
    double smoothing = 1, sum = 0;
    bool any = false;
    *score = mh_bleu_score_default();
    score->brevity_penalty = 1;
    score->hypothesis_length = b->hypothesis_length;
    score->reference_length = b->reference_length;
    if (b->hypothesis_length < b->reference_length)
        score->brevity_penalty = b->hypothesis_length ? exp(1 - reference / hypothesis) : 0;
    for (int n = 0; n < MH_BLEU_ORDER; n++)
        any = any || b->correct[n] > 0;
    if (!any)
        return;
    for (int n = 0; n < MH_BLEU_ORDER && b->total[n] > 0; n++) {
        if (b->correct[n] == 0)
            score->precisions[n] = 100.0 / ((smoothing *= 2) * (double)b->total[n]);
        else
            score->precisions[n] = 100.0 * (double)b->correct[n] / (double)b->total[n];
    }
    for (int n = 0; n < MH_BLEU_ORDER; n++)
        sum += floored_log(score->precisions[n]);
    score->score = score->brevity_penalty * exp(sum / MH_BLEU_ORDER);
}

mh_status mh_bleu(mh_context *context, const mh_text *hypotheses, const mh_text *references,
                  size_t count, size_t reference_count, bool lowercase, mh_bleu_score *score)
{
    mh_status status =
        mh_score_check(context, hypotheses, references, count, reference_count, score);
    if (status == MH_OK)
        status = MH_CHECK_OUTPUT(context, mh_bleu_score, score);
    if (status != MH_OK)
        return status;
    bleu b = {.context = context,
              .lowercase = lowercase,
              .words = {.context = context},
              .grams = {.context = context}};
    for (size_t i = 0; i < count && status == MH_OK; i++)
        if (!bleu_add_segment(&b, hypotheses[i], references + i, count, reference_count))
            status = MH_ERROR_MEMORY;
    mh_bleu_score own;
    if (status == MH_OK) {
        bleu_compute(&b, &own);
        mh_write_struct(&own, sizeof own, score);
    }
    mh_ngrams_free(&b.words);
    mh_ngrams_free(&b.grams);
    mh_shrink(context, &b.symbols.items, &b.symbols.capacity, sizeof *b.symbols.items);
    mh_buffer_free(context, &b.text);
    mh_buffer_free(context, &b.spare);
    return status;
}
