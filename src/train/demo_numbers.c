// SPDX-License-Identifier: MIT
// Numbers in words; see demo_numbers.h. The rules of French that English lacks:
//
//     21 .. 61, 71    vingt et un, soixante et onze; but quatre-vingt-un, quatre-vingt-onze
//     70 .. 79        soixante and 10 .. 19;  90 .. 99  quatre-vingt and 10 .. 19
//     80, 200 ..      quatre-vingts, deux cents; no s before another number, nor before mille
//     1000            mille, not "un mille"; it has no plural
#include "train/demo_numbers.h"

typedef struct words {
    char *text; // (MH_NUMBER_TEXT)
    size_t size;
} words;

static void demo_numbers_put(words *w, const char *text)
{
    size_t size = strlen(text);
    memcpy(w->text + w->size, text, size + 1);
    w->size += size;
}

// ---- French -------------------------------------------------------------------------------------

static const char *const french_small[] = {
    "z\xC3\xA9ro", "un",     "deux",  "trois",    "quatre",   "cinq",    "six",
    "sept",        "huit",   "neuf",  "dix",      "onze",     "douze",   "treize",
    "quatorze",    "quinze", "seize", "dix-sept", "dix-huit", "dix-neuf"};
static const char *const french_tens[] = {
    "",          "",         "vingt",    "trente",       "quarante",
    "cinquante", "soixante", "soixante", "quatre-vingt", "quatre-vingt"};

// 1 .. 99; `last` if no other number word follows.
static void put_french_tens(words *w, uint32_t n, bool last)
{
    if (n < 20) {
        demo_numbers_put(w, french_small[n]);
        return;
    }
    uint32_t ten = n / 10, rest = ten == 7 || ten == 9 ? n % 20 : n % 10;
    demo_numbers_put(w, french_tens[ten]);
    if (rest == 0) {
        demo_numbers_put(w, ten == 8 && last ? "s" : "");
        return;
    }
    demo_numbers_put(w, rest % 10 == 1 && ten < 8 ? " et " : "-");
    demo_numbers_put(w, french_small[rest]);
}

// 1 .. 999
static void put_french_hundreds(words *w, uint32_t n, bool last)
{
    uint32_t hundreds = n / 100, rest = n % 100;
    if (hundreds > 1) {
        demo_numbers_put(w, french_small[hundreds]);
        demo_numbers_put(w, " ");
    }
    if (hundreds > 0)
        demo_numbers_put(w, hundreds > 1 && rest == 0 && last ? "cents" : "cent");
    if (hundreds > 0 && rest > 0)
        demo_numbers_put(w, " ");
    if (rest > 0)
        put_french_tens(w, rest, last);
}

static void put_french(words *w, uint32_t n)
{
    uint32_t thousands = n / 1000, rest = n % 1000;
    if (thousands > 1) {
        put_french_hundreds(w, thousands, false);
        demo_numbers_put(w, " ");
    }
    if (thousands > 0)
        demo_numbers_put(w, rest > 0 ? "mille " : "mille");
    if (rest > 0)
        put_french_hundreds(w, rest, true);
    if (n == 0)
        demo_numbers_put(w, french_small[0]);
}

// ---- English ------------------------------------------------------------------------------------

static const char *const english_small[] = {
    "zero",     "one",     "two",     "three",     "four",     "five",    "six",
    "seven",    "eight",   "nine",    "ten",       "eleven",   "twelve",  "thirteen",
    "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen"};
static const char *const english_tens[] = {"",      "",      "twenty",  "thirty", "forty",
                                           "fifty", "sixty", "seventy", "eighty", "ninety"};

// 1 .. 999
static void put_english_hundreds(words *w, uint32_t n)
{
    uint32_t hundreds = n / 100, rest = n % 100;
    if (hundreds > 0) {
        demo_numbers_put(w, english_small[hundreds]);
        demo_numbers_put(w, rest > 0 ? " hundred " : " hundred");
    }
    if (rest >= 20) {
        demo_numbers_put(w, english_tens[rest / 10]);
        demo_numbers_put(w, rest % 10 > 0 ? "-" : "");
        rest %= 10;
    }
    if (rest > 0)
        demo_numbers_put(w, english_small[rest]);
}

static void put_english(words *w, uint32_t n)
{
    uint32_t thousands = n / 1000, rest = n % 1000;
    if (thousands > 0) {
        put_english_hundreds(w, thousands);
        demo_numbers_put(w, rest > 0 ? " thousand " : " thousand");
    }
    if (rest > 0)
        put_english_hundreds(w, rest);
    if (n == 0)
        demo_numbers_put(w, english_small[0]);
}

void mh_numbers_pair(uint32_t n, char french[MH_NUMBER_TEXT], char english[MH_NUMBER_TEXT])
{
    words f = {french, 0}, e = {english, 0};
    n %= MH_NUMBERS; // guards the tables against invalid arguments
    put_french(&f, n);
    put_english(&e, n);
}
