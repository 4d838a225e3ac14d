// SPDX-License-Identifier: MIT
// Classes of characters as the tokenizers package has them: Unicode's general categories by
// utf8proc's tables, ASCII without a table.
#ifndef MH_TEXT_TOKENIZER_CLASSES_H
#define MH_TEXT_TOKENIZER_CLASSES_H

#include <stdbool.h>
#include <stdint.h>
#include <utf8proc.h>

#define MH_CATEGORY(name) (1u << UTF8PROC_CATEGORY_##name)

enum {
    MH_CATEGORIES_L =
        MH_CATEGORY(LU) | MH_CATEGORY(LL) | MH_CATEGORY(LT) | MH_CATEGORY(LM) | MH_CATEGORY(LO),
    MH_CATEGORIES_M = MH_CATEGORY(MN) | MH_CATEGORY(MC) | MH_CATEGORY(ME),
    MH_CATEGORIES_N = MH_CATEGORY(ND) | MH_CATEGORY(NL) | MH_CATEGORY(NO),
    MH_CATEGORIES_P = MH_CATEGORY(PC) | MH_CATEGORY(PD) | MH_CATEGORY(PS) | MH_CATEGORY(PE) |
                      MH_CATEGORY(PI) | MH_CATEGORY(PF) | MH_CATEGORY(PO),
};

static inline bool mh_has_category(uint32_t c, unsigned categories)
{
    return (1u << utf8proc_category((int32_t)c) & categories) != 0;
}

// White_Space: \s of regular expressions.
static inline bool mh_is_white(uint32_t c)
{
    if (c < 0x80)
        return c == ' ' || (c >= 0x09 && c <= 0x0D);
    return c == 0x85 || c == 0xA0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200A) || c == 0x2028 ||
           c == 0x2029 || c == 0x202F || c == 0x205F || c == 0x3000;
}

static inline bool mh_is_letter(uint32_t c)
{
    if (c < 0x80)
        return (c | 0x20) >= 'a' && (c | 0x20) <= 'z';
    return mh_has_category(c, MH_CATEGORIES_L);
}

static inline bool mh_is_number(uint32_t c)
{
    return c < 0x80 ? c >= '0' && c <= '9' : mh_has_category(c, MH_CATEGORIES_N);
}

// All of ASCII's, symbols included, and Unicode's category P.
static inline bool mh_is_punctuation(uint32_t c)
{
    if (c < 0x80)
        return c > ' ' && c < 0x7F && !mh_is_letter(c) && !mh_is_number(c);
    return mh_has_category(c, MH_CATEGORIES_P);
}

// \w: alphabetic, marks, decimal digits, connecting punctuation, joiners.
static inline bool mh_is_word_character(uint32_t c)
{
    if (c < 0x80)
        return mh_is_letter(c) || mh_is_number(c) || c == '_';
    if ((c >= 0x24B6 && c <= 0x24E9) || (c >= 0x1F130 && c <= 0x1F149) ||
        (c >= 0x1F150 && c <= 0x1F169) || (c >= 0x1F170 && c <= 0x1F189))
        return true; // letters in circles and squares, which are alphabetic symbols
    return c == 0x200C || c == 0x200D ||
           mh_has_category(c, MH_CATEGORIES_L | MH_CATEGORIES_M | MH_CATEGORY(ND) |
                                  MH_CATEGORY(NL) | MH_CATEGORY(PC));
}

#endif
