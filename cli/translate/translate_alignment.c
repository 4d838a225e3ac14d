// SPDX-License-Identifier: MIT
// Attention between tokens as attention between words; see translate.h. Weights are summed over the
// tokens of a source word and averaged over those of a target word.
#include "translate.h"

#include <stdlib.h>

static bool alignment_is_whitespace(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

// The word of each token, SIZE_MAX for whitespace; returns the number of words.
static size_t find_words(mh_text text, const size_t *ends, size_t count, size_t *words)
{
    size_t number = 0, offset = 0;
    bool inside = false; // within a word
    for (size_t i = 0; i < count; i++) {
        words[i] = SIZE_MAX;
        for (; offset < ends[i]; offset++) {
            const bool whitespace = alignment_is_whitespace(text.bytes[offset]);
            number += !whitespace && !inside;
            inside = !whitespace;
            if (inside && words[i] == SIZE_MAX)
                words[i] = number - 1;
        }
        if (words[i] == SIZE_MAX && inside)
            words[i] = number - 1; // a token without characters belongs to the current word
    }
    return number;
}

static void alignment_normalise(alignment *a)
{
    for (size_t t = 0; t < a->target_words; t++) {
        double *row = a->weights + t * a->source_words, sum = 0;
        for (size_t s = 0; s < a->source_words; s++)
            sum += row[s];
        for (size_t s = 0; s < a->source_words && sum > 0; s++)
            row[s] /= sum;
    }
}

bool alignment_create(const mh_translation *r, alignment *a)
{
    const size_t T = r->count, S = r->source->count;
    const mh_text source = {r->source->text.data, r->source->text.size};
    *a = (alignment){0};
    size_t *words = calloc(T + S + 1, sizeof *words), *target = words, *other = words + T;
    if (!words)
        return false;
    a->target_words = find_words(r->text, r->ends, T, target);
    a->source_words = find_words(source, r->source->ends, S, other);
    a->weights = calloc(a->target_words * a->source_words + 1, sizeof *a->weights);
    for (size_t t = 0; t < T && a->weights && r->attention; t++)
        for (size_t s = 0; s < S; s++)
            if (target[t] != SIZE_MAX && other[s] != SIZE_MAX)
                a->weights[target[t] * a->source_words + other[s]] +=
                    (double)r->attention[t * S + s];
    free(words);
    if (a->weights)
        alignment_normalise(a);
    return a->weights != NULL;
}

void alignment_free(alignment *a)
{
    free(a->weights);
    *a = (alignment){0};
}

size_t alignment_best(const alignment *a, size_t target_word)
{
    const double *row = a->weights + target_word * a->source_words;
    size_t best = 0;
    for (size_t s = 1; s < a->source_words; s++)
        if (row[s] > row[best])
            best = s;
    return best;
}
