// SPDX-License-Identifier: MIT
// Splits numbers into training and held-out ones; see demo_numbers.h. The numbers of four, five and
// six digits are three stacks, each shuffled; corpora draw from them, so a number is in at most one
// corpus.
#include "train/demo_numbers.h"

#include "train/shuffle.h"

enum { CLASSES = 3 };
static const uint32_t class_begins[CLASSES + 1] = {1000, 10000, 100000, MH_NUMBERS};

typedef struct stacks {
    uint32_t *numbers;     // (MH_NUMBERS), number n at index n before shuffling
    size_t taken[CLASSES]; // of each class
    size_t turn;
} stacks;

static void shuffle_stacks(stacks *s, const mh_numbers_options *options)
{
    for (uint32_t n = 0; n < MH_NUMBERS; n++)
        s->numbers[n] = n;
    for (size_t c = 0; c < CLASSES; c++) {
        size_t size = class_begins[c + 1] - class_begins[c];
        size_t most = options->training + options->held_out;
        mh_shuffle(options->seed, c, s->numbers + class_begins[c], size, most < size ? most : size);
    }
}

// The next number, of the class whose turn it is or the next one that has any left.
static uint32_t demo_corpus_take(stacks *s)
{
    static const unsigned char classes[8] = {2, 1, 2, 0, 2, 1, 2, 2};
    size_t c = classes[s->turn++ % 8];
    while (s->taken[c] == class_begins[c + 1] - class_begins[c])
        c = (c + 1) % CLASSES;
    return s->numbers[class_begins[c] + s->taken[c]++];
}

static mh_status demo_corpus_add(mh_context *context, mh_corpus *corpus, uint32_t n)
{
    char french[MH_NUMBER_TEXT], english[MH_NUMBER_TEXT];
    mh_numbers_pair(n, french, english);
    return mh_corpus_add(context, corpus, (mh_text){french, strlen(french)},
                         (mh_text){english, strlen(english)}, n + 1);
}

// A corpus of the numbers below `all` and a given number of others.
static mh_status demo_corpus_make(mh_context *context, stacks *s, uint32_t all, size_t others,
                                  mh_corpus *corpus)
{
    mh_status status = mh_corpus_begin(context, "numbers", corpus);
    for (uint32_t n = 0; n < all && !status; n++)
        status = demo_corpus_add(context, corpus, n);
    for (size_t i = 0; i < others && !status; i++)
        status = demo_corpus_add(context, corpus, demo_corpus_take(s));
    return status ? status : mh_corpus_end(context, corpus);
}

static mh_status demo_corpus_check(mh_context *context, const mh_numbers_options *options)
{
    size_t training = options->training, held_out = options->held_out;
    if (training < MH_NUMBERS_ALL || held_out < 1 || training > MH_NUMBERS ||
        held_out > MH_NUMBERS - training)
        return mh_fail(context, MH_ERROR_ARGUMENT,
                       "numbers: found %zu training and %zu held-out pairs, expected at least %d "
                       "and 1, together at most %d",
                       training, held_out, MH_NUMBERS_ALL, MH_NUMBERS);
    return MH_OK;
}

mh_status mh_numbers_corpora(mh_context *context, const mh_numbers_options *options,
                             mh_corpus *training, mh_corpus *held_out)
{
    const size_t size = MH_NUMBERS * sizeof(uint32_t);
    stacks s = {0};
    *training = *held_out = (mh_corpus){0};
    mh_status status = demo_corpus_check(context, options);
    if (status)
        return status;
    s.numbers = mh_alloc(context, size);
    if (!s.numbers)
        return MH_ERROR_MEMORY;
    shuffle_stacks(&s, options);
    status = demo_corpus_make(context, &s, 0, options->held_out, held_out);
    if (!status)
        status = demo_corpus_make(context, &s, MH_NUMBERS_ALL, options->training - MH_NUMBERS_ALL,
                                  training);
    if (status) {
        mh_corpus_free(context, training);
        mh_corpus_free(context, held_out);
    }
    mh_free(context, s.numbers, size);
    return status;
}
