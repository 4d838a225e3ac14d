// SPDX-License-Identifier: MIT
// Which tokens may come next in a window's text. Its timestamps come in pairs, in order: segments
// are <|begin|> text <|end|><|begin|> text <|end|> ...
#include "base/compiler.h"
#include "model/sampling.h"
#include "speech/speech_internal.h"
#include <math.h>
#include <string.h>

// ---- what is not spoken -------------------------------------------------------------------------

// Brackets, music and speaker tags. Punctuation is spoken; hyphens and quotes are within words.
static const char *const symbols[] = {
    "\"",  "#",  "(",  ")",   "*",   "+",   "/",   ":",  ";",   "<",  "=",   ">",
    "@",   "[",  "\\", "]",   "^",   "_",   "`",   "{",  "|",   "}",  "~",   "「",
    "」",  "『", "』", "<<",  ">>",  "<<<", ">>>", "--", "---", "-(", "-[",  "('",
    "(\"", "((", "))", "(((", ")))", "[[",  "]]",  "{{", "}}",  "♪♪", "♪♪♪",
};
// Of these the first token is suppressed even if there are several.
static const char *const music[] = {"♩", "♪", "♫", "♬", "♭", "♮", "♯"};

// The tokens of a text without special ones: their number, and the first.
static mh_status first_token(const mh_speech *s, const char *text, size_t *count, int32_t *first)
{
    mh_encoding encoding = {0};
    mh_encode_options options = mh_encode_options_default();
    options.add_special_tokens = false;
    const mh_text bytes = {text, strlen(text)};
    const mh_status status =
        mh_tokenizer_encode_text(s->context, s->model->tokenizer, &options, bytes, NULL, &encoding);
    *count = encoding.count;
    *first = encoding.count ? encoding.ids[0] : 0;
    mh_encoding_free(s->context, &encoding);
    return status;
}

// Suppresses a symbol, alone and behind a space, if it is one token.
static mh_status suppress_symbol(mh_speech *s, const char *symbol, bool always)
{
    char text[16] = " ";
    size_t count;
    int32_t first;
    strncat(text, symbol, sizeof text - 2);
    for (size_t space = 0; space < 2; space++) {
        MH_TRY(first_token(s, text + 1 - space, &count, &first));
        if (count == 1 || (always && count > 0))
            s->suppressed[first] = true;
    }
    return MH_OK;
}

// What is not spoken: symbols and the beginnings of words that are none, from the vocabulary.
static mh_status suppress_symbols(mh_speech *s)
{
    static const char *const word_beginnings[] = {" -", " '"};
    size_t count;
    int32_t first;
    for (size_t i = 0; i < sizeof symbols / sizeof *symbols; i++)
        MH_TRY(suppress_symbol(s, symbols[i], false));
    for (size_t i = 0; i < sizeof music / sizeof *music; i++)
        MH_TRY(suppress_symbol(s, music[i], true));
    for (size_t i = 0; i < 2; i++) {
        MH_TRY(first_token(s, word_beginnings[i], &count, &first));
        s->suppressed[first] = true;
    }
    return MH_OK;
}

static mh_status find_not_first(mh_speech *s)
{
    size_t count;
    if (s->model->rules.suppressed_first.given) {
        s->not_first = s->model->rules.suppressed_first;
        return MH_OK;
    }
    s->own_not_first[1] = s->tokens.end;
    s->not_first = (mh_token_list){.ids = s->own_not_first, .count = 2};
    return first_token(s, " ", &count, &s->own_not_first[0]);
}

mh_status mh_speech_find_suppressed(mh_speech *s)
{
    const mh_speech_tokens *t = &s->tokens;
    const mh_token_list *given = &s->model->rules.suppressed;
    memset(s->suppressed, 0, s->vocabulary * sizeof *s->suppressed);
    for (int32_t id = t->start; id < t->time; id++) // no_times only with timestamps
        s->suppressed[id] = id < t->language || id >= t->translate;
    s->suppressed[t->no_times] = s->options.timestamps;
    for (size_t i = 0; i < given->count; i++)
        s->suppressed[given->ids[i]] = true;
    MH_TRY(given->given ? MH_OK : suppress_symbols(s));
    return find_not_first(s);
}

// ---- timestamps ---------------------------------------------------------------------------------

static void forbid(float *scores, size_t begin, size_t end)
{
    for (size_t i = begin; i < end; i++)
        scores[i] = -INFINITY;
}

// The earliest timestamp that may follow: none before the last; a segment is not empty.
static size_t earliest_time(const mh_speech *s, const int32_t *ids, size_t count, bool pair_open)
{
    for (size_t i = count; i-- > 0;)
        if (ids[i] >= s->tokens.time)
            return (size_t)ids[i] + !pair_open;
    return (size_t)s->tokens.time;
}

// If timestamps together are likelier than any text, one comes next.
static void prefer_times(const mh_speech *s, float *scores)
{
    const size_t time = (size_t)s->tokens.time;
    float best = -INFINITY;
    for (size_t i = 0; i < time; i++)
        best = scores[i] > best ? scores[i] : best;
    if (mh_log_sum_exp(scores + time, s->vocabulary - time) > (double)best)
        forbid(scores, 0, time);
}

static void filter_times(const mh_speech *s, const int32_t *ids, size_t count, float *scores)
{
    const size_t time = (size_t)s->tokens.time, V = s->vocabulary;
    const bool last = count >= 1 && ids[count - 1] >= s->tokens.time;
    const bool before = count < 2 || ids[count - 2] >= s->tokens.time;
    if (last && before)
        forbid(scores, time, V); // a pair is complete
    else if (last)
        forbid(scores, 0, (size_t)s->tokens.end); // the next segment begins, or the text ends
    forbid(scores, time, earliest_time(s, ids, count, last && !before));
    if (count == 0) {
        forbid(scores, 0, time);
        forbid(scores, time + MH_INITIAL_TIME_TOKENS + 1, V);
    }
    prefer_times(s, scores);
}

void mh_speech_filter(const mh_speech *s, const int32_t *ids, size_t count, float *scores)
{
    for (size_t i = 0; i < s->vocabulary; i++)
        if (s->suppressed[i])
            scores[i] = -INFINITY;
    for (size_t i = 0; i < s->not_first.count && count == 0; i++)
        scores[s->not_first.ids[i]] = -INFINITY;
    if (s->options.timestamps)
        filter_times(s, ids, count, scores);
}
