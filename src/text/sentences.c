// SPDX-License-Identifier: MIT
// Where the first sentence of a line ends, by simple rules that suit European languages and some
// others: marks such as . ! ?, then closing quotes, then whitespace, not followed by a lower-case
// letter. A full stop after one capital letter (A. Lincoln) or a common abbreviation (Mr. Bean)
// does not end a sentence. Such simple rules are sometimes wrong, but harmless: the segments
// concatenated are always the line.
#include "text/utf8.h"

#include <utf8proc.h>

// The length of the character at text[at] if it is one of `set`, which is UTF-8, else 0.
static size_t one_of(const char *text, size_t size, size_t at, const char *set)
{
    size_t length, other;
    if (at >= size)
        return 0;
    uint32_t c = mh_utf8_decode(text + at, &length);
    for (; *set; set += other)
        if (mh_utf8_decode(set, &other) == c)
            return length;
    return 0;
}

#define MARKS    ".!?\xE2\x80\xA6\xE2\x80\xBC\xE2\x81\x87\xE2\x81\x88\xE2\x81\x89" // … and !! ?? ?! !?
#define FULL_CJK "\xE3\x80\x82\xEF\xBC\x81\xEF\xBC\x9F" // need no whitespace after
#define CLOSERS  "\"')]}\xC2\xBB\xE2\x80\x9D\xE2\x80\x99\xE2\x80\xBA\xE3\x80\x8D"
#define COMMAS   ",;:\xEF\xBC\x8C\xE3\x80\x81\xEF\xBC\x9B"

static size_t sentence_whitespace(const char *text, size_t size, size_t at)
{
    size_t length;
    return at < size && mh_is_space(mh_utf8_decode(text + at, &length)) ? length : 0;
}

static size_t skip_whitespace(const char *text, size_t size, size_t at, size_t most)
{
    for (size_t length; (length = sentence_whitespace(text, size, at)) > 0 && at + length <= most;)
        at += length;
    return at;
}

// Whether the word before the full stop at `at` is an abbreviation, so that the sentence continues.
static bool is_abbreviation(const char *text, size_t at)
{
    static const char *const known[] = {"Mr", "Mrs", "Ms",  "Dr",   "Prof", "St",   "Jr", "Sr",
                                        "vs", "Mme", "MM",  "Mlle", "Me",   "cf",   "p",  "pp",
                                        "Nr", "Fig", "Gen", "Col",  "Lt",   "Capt", NULL};
    size_t begin = at;
    while (begin > 0 && at - begin <= 4 &&
           (((unsigned char)text[begin - 1] | 0x20) >= 'a' ||
            (unsigned char)text[begin - 1] >= 0x80) &&
           (unsigned char)text[begin - 1] >= 'A')
        begin--;
    size_t size = at - begin;
    if (size == 1 && text[begin] >= 'A' && text[begin] <= 'Z')
        return text[begin] != 'I'; // "So do I." ends
    for (size_t i = 0; known[i]; i++)
        if (strlen(known[i]) == size && memcmp(known[i], text + begin, size) == 0)
            return true;
    return false;
}

static bool small_letter(const char *text, size_t size, size_t at)
{
    size_t length;
    return at < size &&
           utf8proc_category((int32_t)mh_utf8_decode(text + at, &length)) == UTF8PROC_CATEGORY_LL;
}

// Quotes and brackets that close; a French one may follow a space.
static size_t skip_closers(const char *text, size_t size, size_t at)
{
    for (;;) {
        size_t length = one_of(text, size, at, CLOSERS),
               space = sentence_whitespace(text, size, at);
        if (length == 0 && space > 0)
            length = space * (one_of(text, size, at + space, "\xC2\xBB") > 0);
        if (length == 0)
            return at;
        at += length;
    }
}

// If a sentence ends with the marks from `at` to *marks_end: its end, without trailing whitespace;
// else 0.
static size_t end_at_marks(const char *text, size_t size, size_t at, size_t *marks_end)
{
    size_t length, end = at;
    bool ends_alone = false; // needs no whitespace after
    for (;; end += length) {
        if ((length = one_of(text, size, end, FULL_CJK)) > 0)
            ends_alone = true;
        else if ((length = one_of(text, size, end, MARKS)) == 0)
            break;
    }
    *marks_end = end;
    bool lone_stop = end == at + 1 && text[at] == '.';
    end = skip_closers(text, size, end);
    if (ends_alone)
        return end;
    if (end < size && sentence_whitespace(text, size, end) == 0)
        return 0; // 3.14, example.org
    size_t next = skip_whitespace(text, size, end, size < end + 64 ? size : end + 64);
    if (small_letter(text, size, next) || (lone_stop && is_abbreviation(text, at)))
        return 0;
    return end;
}

static size_t whole_characters(const char *text, size_t size, size_t most)
{
    if (most >= size)
        return size;
    while (most > 0 && ((unsigned char)text[most] & 0xC0) == 0x80)
        most--;
    return most;
}

// The best position to cut a sentence longer than `most`.
static size_t sentence_cut(const char *text, size_t size, size_t most)
{
    size_t after_comma = 0, after_whitespace = 0, length;
    for (size_t at = 0; at < most; at += length) {
        mh_utf8_decode(text + at, &length);
        size_t comma = one_of(text, size, at, COMMAS),
               space = sentence_whitespace(text, size, at + comma);
        if (space == 0)
            continue;
        size_t end = skip_whitespace(text, size, at + comma, most);
        if (end == at + comma)
            continue;
        after_whitespace = end;
        after_comma = comma > 0 ? end : after_comma;
        length = end - at;
    }
    if (after_comma > 0)
        return after_comma;
    return after_whitespace > 0 ? after_whitespace : whole_characters(text, size, most);
}

size_t mh_sentence_length(const char *text, size_t size, size_t most)
{
    enum { LOOKAHEAD = 64 }; // lookahead beyond `most`, which bounds the cost of a call
    if (!text || size == 0)
        return 0;
    most = most < 4 ? 4 : most;
    size_t seen = most < size ? whole_characters(text, size, most + LOOKAHEAD) : size;
    for (size_t at = 0, next; at < seen && at < most; at = next) {
        size_t length, end = 0;
        mh_utf8_decode(text + at, &length);
        next = at + length;
        if (one_of(text, seen, at, MARKS FULL_CJK) > 0)
            end = end_at_marks(text, seen, at, &next);
        if (end > most)
            break;
        if (end > 0)
            return skip_whitespace(text, seen, end, most);
    }
    return size <= most ? size : sentence_cut(text, seen, most);
}
