// SPDX-License-Identifier: MIT
// Words of a window's segments and their times. A word is what stands between spaces, or, in
// languages that have none, a character; punctuation belongs to the word beside it.
//
// Times of a few words are known to be wrong: the first after a pause, and the last of a sentence,
// which absorb silence. They are shortened by the rules of OpenAI's program.
#include "base/compiler.h"
#include "base/size_math.h"
#include "speech/speech_internal.h"
#include "support/buffer.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct word {
    size_t begin, end; // of the window's text; equal: merged into another
    size_t tokens;
    size_t first; // token
    double from, to, probability;
} word;

typedef struct word_list {
    const mh_speech *s;
    mh_buffer text; // of all segments
    int32_t *ids;   // (count): beginning, <|notimestamps|>, text, end
    size_t texts;   // tokens of text
    word *words;    // (texts)
    size_t count;
    double *times;         // (texts + 1)
    double *probabilities; // (texts)
    double typical;        // duration of a word
} word_list;

// ---- words --------------------------------------------------------------------------------------

static mh_text text_of(const word_list *l, const word *w)
{
    return (mh_text){l->text.data + w->begin, w->end - w->begin};
}

static mh_text trimmed(mh_text t)
{
    while (t.size > 0 && t.bytes[0] == ' ')
        t.bytes++, t.size--;
    while (t.size > 0 && t.bytes[t.size - 1] == ' ')
        t.size--;
    return t;
}

// Whether `set` contains the text as it is.
static bool is_in(mh_text t, const char *set)
{
    const size_t size = strlen(set);
    for (size_t i = 0; i + t.size <= size; i++)
        if (memcmp(set + i, t.bytes, t.size) == 0)
            return true;
    return false;
}

static bool begins_word(const word_list *l, const word *w)
{
    static const char punctuation[] = "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~";
    const mh_text t = text_of(l, w);
    return mh_speech_unspaced(l->s->language) || l->count == 0 || t.bytes[0] == ' ' ||
           is_in(trimmed(t), punctuation);
}

// Tokens to characters, and those to words. A character may be several tokens.
static mh_status split_words(word_list *l)
{
    word w = {0};
    const int32_t *ids = l->ids + l->s->begin_count + 1;
    for (size_t i = 0; i < l->texts; i++) {
        mh_text token;
        if (!mh_tokenizer_token(l->s->model->tokenizer, ids[i], &token, NULL) || !token.size)
            continue;
        if (!mh_buffer_append(l->s->context, &l->text, token.bytes, token.size))
            return MH_ERROR_MEMORY;
        w.end = l->text.size;
        w.tokens++;
        const mh_text t = text_of(l, &w);
        const size_t valid = mh_utf8_valid(t.bytes, t.size);
        if (valid < t.size && t.size - valid < 4 && i + 1 < l->texts)
            continue;
        if (begins_word(l, &w)) {
            l->words[l->count++] = w;
        } else {
            l->words[l->count - 1].end = w.end;
            l->words[l->count - 1].tokens += w.tokens;
        }
        w = (word){.begin = w.end, .end = w.end, .first = i + 1};
    }
    return MH_OK;
}

static void set_times(word_list *l)
{
    for (size_t i = 0; i < l->count; i++) {
        word *w = &l->words[i];
        w->from = l->times[w->first];
        w->to = l->times[w->first + w->tokens];
        for (size_t k = 0; k < w->tokens; k++)
            w->probability += l->probabilities[w->first + k] / (double)w->tokens;
    }
}

// ---- rules --------------------------------------------------------------------------------------

static int compare_doubles(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

// The median duration, at most 0.7 s; l->times is used as scratch.
static void find_typical(word_list *l)
{
    size_t n = 0;
    for (size_t i = 0; i < l->count; i++)
        if (l->words[i].to != l->words[i].from)
            l->times[n++] = l->words[i].to - l->words[i].from;
    qsort(l->times, n, sizeof *l->times, compare_doubles);
    const double median = n == 0 ? 0 : (l->times[(n - 1) / 2] + l->times[n / 2]) / 2;
    l->typical = median < 0.7 ? median : 0.7;
}

// Words at the ends of sentences are at most twice as long as is typical.
static void shorten_sentence_ends(word_list *l)
{
    static const char marks[] = ".。!！?？";
    const double most = 2 * l->typical;
    for (size_t i = 1; i < l->count && most > 0; i++) {
        word *w = &l->words[i];
        if (w->to - w->from <= most)
            continue;
        if (is_in(text_of(l, w), marks))
            w->to = w->from + most;
        else if (is_in(text_of(l, w - 1), marks))
            w->from = w->to - most;
    }
}

// Opening punctuation goes to the word after it, other punctuation to the word before.
static void merge_punctuation(word_list *l)
{
    static const char opening[] = "\"'“¿([{-", closing[] = "\"'.。,，!！?？:：”)]}、";
    for (size_t i = l->count; i-- > 1;) { // i: the word before j
        size_t j = i;
        while (j < l->count && l->words[j].begin == l->words[j].end)
            j++;
        word *w = &l->words[i - 1], *next = j < l->count ? &l->words[j] : NULL;
        const mh_text t = text_of(l, w);
        if (!next || t.size == 0 || t.bytes[0] != ' ' || !is_in(trimmed(t), opening))
            continue;
        next->begin = w->begin;
        next->tokens += w->tokens;
        *w = (word){.begin = w->begin, .end = w->begin};
    }
    word *last = NULL;
    for (size_t i = 0; i < l->count; i++) {
        word *w = &l->words[i];
        const mh_text t = text_of(l, w);
        if (last && last->end > last->begin && l->text.data[last->end - 1] != ' ' && t.size > 0 &&
            is_in(t, closing)) {
            last->end = w->end;
            last->tokens += w->tokens;
            *w = (word){.begin = w->begin, .end = w->begin};
        } else {
            last = t.size ? w : last;
        }
    }
}

// ---- segments -----------------------------------------------------------------------------------

static double hundredths(double x) { return floor(x * 100 + 0.5) / 100; }

// The first words after a pause are at most twice as long as is typical.
static void shorten_first_words(const word_list *l, mh_speech_word *w, size_t count, double last)
{
    const double most = 2 * l->typical;
    const bool first = w[0].end - w[0].begin > most;
    const bool both = count > 1 && w[1].end - w[0].begin > 2 * most;
    if (w[0].end - last <= 4 * l->typical || !(first || both))
        return;
    if (count > 1 && w[1].end - w[1].begin > most)
        w[0].end = w[1].begin = fmax(w[1].end / 2, w[1].end - most);
    w[0].begin = fmax(0, w[0].end - most);
}

// A segment lasts as long as its words, unless the first or the last is much longer than it.
static void fit_segment(const word_list *l, mh_speech_segment *g, mh_speech_word *w, size_t count)
{
    mh_speech_word *end = &w[count - 1];
    if (g->begin < w[0].end && g->begin - 0.5 > w[0].begin)
        w[0].begin = fmax(0, fmin(w[0].end - l->typical, g->begin));
    else
        g->begin = w[0].begin;
    if (g->end > end->begin && g->end + 0.5 < end->end)
        end->end = fmax(end->begin + l->typical, g->end);
    else
        g->end = end->end;
}

// The words of a segment of `texts` tokens, from word *next on.
static mh_status take_words(const word_list *l, mh_result_arena *store, mh_speech_segment *g,
                            size_t texts, double offset, size_t *next, double *last)
{
    mh_speech_word *words = mh_result_take(l->s->context, store, l->count, sizeof *words);
    size_t count = 0;
    if (!words)
        return MH_ERROR_MEMORY;
    for (size_t taken = 0; *next < l->count && taken < texts; (*next)++) {
        const word *w = &l->words[*next];
        const mh_text t = text_of(l, w);
        taken += w->tokens;
        if (t.size == 0)
            continue;
        const char *bytes = mh_result_copy(l->s->context, store, t.bytes, t.size, 1);
        if (!bytes)
            return MH_ERROR_MEMORY;
        words[count++] = (mh_speech_word){hundredths(offset + w->from),
                                          hundredths(offset + w->to),
                                          w->probability,
                                          {bytes, t.size}};
    }
    g->words = words;
    g->word_count = count;
    if (count == 0)
        return MH_OK;
    shorten_first_words(l, words, count, *last);
    fit_segment(l, g, words, count);
    *last = g->end;
    return MH_OK;
}

static size_t count_texts(const mh_speech *s, const mh_speech_segment *g)
{
    size_t texts = 0;
    for (size_t i = 0; i < g->count; i++)
        texts += g->ids[i] < s->tokens.end;
    return texts;
}

static void gather_ids(word_list *l, const mh_speech_segment *segments, size_t count)
{
    const mh_speech *s = l->s;
    size_t n = s->begin_count;
    memcpy(l->ids, s->begin, n * sizeof *l->ids);
    l->ids[n++] = s->tokens.no_times;
    for (size_t i = 0; i < count; i++)
        for (size_t k = 0; k < segments[i].count; k++)
            if (segments[i].ids[k] < s->tokens.end)
                l->ids[n++] = segments[i].ids[k];
    l->ids[n] = s->tokens.end;
}

static mh_status find_words(word_list *l, mh_result_arena *store, mh_speech_segment *segments,
                            size_t count, size_t frames, double offset, double last)
{
    const mh_speech *s = l->s;
    gather_ids(l, segments, count);
    MH_TRY(mh_speech_align(s, l->ids, l->texts + s->begin_count + 2, frames, l->times,
                           l->probabilities));
    MH_TRY(split_words(l));
    set_times(l);
    find_typical(l);
    shorten_sentence_ends(l);
    merge_punctuation(l);
    size_t next = 0;
    for (size_t i = 0; i < count; i++)
        MH_TRY(
            take_words(l, store, &segments[i], count_texts(s, &segments[i]), offset, &next, &last));
    return MH_OK;
}

mh_status mh_speech_find_words(const mh_speech *s, mh_result_arena *store,
                               mh_speech_segment *segments, size_t count, size_t frames,
                               double offset, double last)
{
    word_list l = {.s = s};
    for (size_t i = 0; i < count; i++)
        l.texts += count_texts(s, &segments[i]);
    if (l.texts == 0 || frames < 2)
        return MH_OK;
    const size_t ids = l.texts + s->begin_count + 2;
    l.ids = mh_alloc(s->context, ids * sizeof *l.ids);
    l.words = mh_alloc(s->context, l.texts * sizeof *l.words);
    l.times = mh_alloc(s->context, (l.texts + 1) * sizeof *l.times);
    l.probabilities = mh_alloc(s->context, l.texts * sizeof *l.probabilities);
    mh_status status = MH_ERROR_MEMORY;
    if (l.ids && l.words && l.times && l.probabilities)
        status = find_words(&l, store, segments, count, frames, offset, last);
    mh_free(s->context, l.ids, ids * sizeof *l.ids);
    mh_free(s->context, l.words, l.texts * sizeof *l.words);
    mh_free(s->context, l.times, (l.texts + 1) * sizeof *l.times);
    mh_free(s->context, l.probabilities, l.texts * sizeof *l.probabilities);
    mh_buffer_free(s->context, &l.text);
    return status;
}
