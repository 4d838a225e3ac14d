// SPDX-License-Identifier: MIT
// The pattern of words.h as code. Each alternative is greedy and no other could match where one
// did, so there is no backtracking except for the last of several spaces.
#include "text/words.h"

#include "text/utf8.h"

typedef enum class { WHITESPACE, DIGIT, LETTER, OTHER } class;

static class word_class_of(uint32_t c)
{
    if (c < 0x80) {
        if (c == ' ' || c == '\t' || c == '\r' || c == '\n')
            return WHITESPACE;
        if (c >= '0' && c <= '9')
            return DIGIT;
        return (c | 0x20) >= 'a' && (c | 0x20) <= 'z' ? LETTER : OTHER;
    }
    bool other = c < 0xC0 || (c >= 0x2000 && c < 0x2070) || (c >= 0x3000 && c < 0x3040);
    return other ? OTHER : LETTER;
}

// The end of the run of characters of a class, at most `most` of them.
static size_t words_skip(const char *text, size_t size, size_t at, class wanted, size_t most)
{
    for (size_t length; at < size && most > 0; at += length, most--)
        if (word_class_of(mh_utf8_decode(text + at, &length)) != wanted)
            break;
    return at;
}

static bool is_letter(const char *text, size_t size, size_t at)
{
    size_t length;
    return at < size && word_class_of(mh_utf8_decode(text + at, &length)) == LETTER;
}

static size_t letters(const char *text, size_t size, size_t at)
{
    for (;;) {
        at = words_skip(text, size, at, LETTER, SIZE_MAX);
        size_t after = at;
        if (at < size && text[at] == '\'')
            after = at + 1;
        else if (size - at >= 3 && memcmp(text + at, "\xE2\x80\x99", 3) == 0)
            after = at + 3;
        if (after == at || !is_letter(text, size, after))
            return at;
        at = after;
    }
}

static size_t word_whitespace(const char *text, size_t size)
{
    size_t end = words_skip(text, size, 0, WHITESPACE, SIZE_MAX);
    return end < size && end > 1 ? end - 1 : end; // the last one belongs to the next word
}

size_t mh_word_length(const char *text, size_t size)
{
    size_t length, at = text[0] == ' ' && size > 1;
    switch (word_class_of(mh_utf8_decode(text + at, &length))) {
    case LETTER:
        return letters(text, size, at);
    case DIGIT:
        return words_skip(text, size, at, DIGIT, 3);
    case OTHER:
        return words_skip(text, size, at, OTHER, SIZE_MAX);
    default:
        return word_whitespace(text, size);
    }
}
