// SPDX-License-Identifier: MIT
// Published patterns as code. The alternatives of a pattern are tried in its order; each is greedy,
// and where a regular expression would backtrack the code says so. \s, \p{L} and \p{N} never
// overlap, and every character is in one of them or in the rest, so that most of these patterns
// match at every position.
#include "text/tokenizer_patterns.h"

#include "text/tokenizer_classes.h"
#include "text/utf8.h"
#include "text/words.h"

#define SHORT_FORMS  "'s|'t|'re|'ve|'m|'ll|'d"
#define LAST_SPACES  "|\\s+(?!\\S)|\\s+"
#define UPPER_CASE   "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]"
#define LOWER_CASE   "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]"
#define O200K_PREFIX "[^\\r\\n\\p{L}\\p{N}]?"

static const struct {
    const char *text;
    mh_pattern pattern;
} published[] = {
    {MH_WORD_PATTERN, MH_PATTERN_OWN},
    {SHORT_FORMS "| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+" LAST_SPACES, MH_PATTERN_GPT2},
    {"(?i:" SHORT_FORMS ")|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}"
     "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+" LAST_SPACES,
     MH_PATTERN_LLAMA3},
    {"(?i:" SHORT_FORMS ")|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}"
     "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+" LAST_SPACES,
     MH_PATTERN_QWEN2},
    {O200K_PREFIX UPPER_CASE "*" LOWER_CASE "+(?i:" SHORT_FORMS ")?|" //
     O200K_PREFIX UPPER_CASE "+" LOWER_CASE "*(?i:" SHORT_FORMS ")?|\\p{N}{1,3}"
                             "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|\\s*[\\r\\n]+" LAST_SPACES,
     MH_PATTERN_O200K},
    {SHORT_FORMS "|[\\p{L}]+|[\\p{N}]|[^\\s\\p{L}\\p{N}]+", MH_PATTERN_CLIP},
    {"\\s+", MH_PATTERN_WHITE},
    {" {2,}", MH_PATTERN_SPACES},
    {"[0-9]", MH_PATTERN_DIGITS},
    {"[0-9][0-9][0-9]", MH_PATTERN_DIGIT_TRIPLES},
    {"[\\r\\n]", MH_PATTERN_NEWLINES},
};

mh_pattern mh_pattern_of(const char *text, size_t size)
{
    for (size_t i = 0; i < sizeof published / sizeof *published; i++)
        if (strlen(published[i].text) == size && memcmp(published[i].text, text, size) == 0)
            return published[i].pattern;
    return MH_PATTERN_COUNT;
}

// ---- classes ------------------------------------------------------------------------------------

typedef enum class { NOTHING, WHITE, LETTER, NUMBER, OTHER } class; // NOTHING: the text's end

typedef struct scan {
    const char *text;
    size_t size;
} scan;

static class class_at(scan s, size_t at, size_t *length)
{
    if (at >= s.size)
        return NOTHING;
    uint32_t c = mh_utf8_decode(s.text + at, length);
    return mh_is_white(c) ? WHITE : mh_is_letter(c) ? LETTER : mh_is_number(c) ? NUMBER : OTHER;
}

static size_t tokenizer_patterns_skip(scan s, size_t at, class wanted, size_t most)
{
    for (size_t length; most > 0 && class_at(s, at, &length) == wanted; most--)
        at += length;
    return at;
}

static bool is_newline(scan s, size_t at)
{
    return at < s.size && (s.text[at] == '\r' || s.text[at] == '\n');
}

// ---- parts that several patterns have -----------------------------------------------------------

// The letter at `at` in lower case, 0 if it is none of those in SHORT_FORMS.
static char short_form_letter(scan s, size_t at, bool any_case, size_t *length)
{
    *length = 1;
    if (at >= s.size)
        return '\0';
    char c = s.text[at];
    if (any_case && c >= 'A' && c <= 'Z')
        c |= 0x20;
    if (any_case && s.size - at >= 2 && memcmp(s.text + at, "\xC5\xBF", 2) == 0) {
        *length = 2; // the long s, whose upper case is S
        return 's';
    }
    return c;
}

// The end of 's, 't, 're, 've, 'm, 'll or 'd at `at`; `at` if there is none.
static size_t short_form(scan s, size_t at, bool any_case)
{
    size_t first_length, second_length;
    if (at >= s.size || s.text[at] != '\'')
        return at;
    char first = short_form_letter(s, at + 1, any_case, &first_length);
    size_t end = at + 1 + first_length;
    if (first == 's' || first == 't' || first == 'm' || first == 'd')
        return end;
    char second = short_form_letter(s, end, any_case, &second_length);
    if (((first == 'r' || first == 'v') && second == 'e') || (first == 'l' && second == 'l'))
        return end + second_length;
    return at;
}

// \s+(?!\S)|\s+: if something follows, the last of several is left for it.
static size_t last_spaces(scan s, size_t at)
{
    size_t length = 1, end = at, last = at;
    while (class_at(s, end, &length) == WHITE) {
        last = end;
        end += length;
    }
    return end < s.size && last > at ? last : end;
}

// \s*[\r\n]+: up to the last newline of the whitespace; `at` if it has none.
static size_t newlines(scan s, size_t at)
{
    size_t length = 1, end = at;
    for (size_t next = at; class_at(s, next, &length) == WHITE; next += length)
        if (is_newline(s, next))
            end = next + 1;
    return end;
}

// ` ?[^\s\p{L}\p{N}]+[\r\n]*`, the last with `more` besides; `at` if that does not match.
static size_t others(scan s, size_t at, bool then_newlines, char more)
{
    size_t length, begin = at + (s.text[at] == ' ');
    if (class_at(s, begin, &length) != OTHER)
        return at;
    size_t end = tokenizer_patterns_skip(s, begin, OTHER, SIZE_MAX);
    while (then_newlines && (is_newline(s, end) || (more && end < s.size && s.text[end] == more)))
        end++;
    return end;
}

// [^\r\n\p{L}\p{N}]?: the position behind it.
static size_t optional_prefix(scan s, size_t at)
{
    size_t length;
    class c = class_at(s, at, &length);
    return (c == WHITE || c == OTHER) && !is_newline(s, at) ? at + length : at;
}

// ---- patterns -----------------------------------------------------------------------------------

static size_t gpt2(scan s, size_t at)
{
    size_t length, end = short_form(s, at, false), begin = at + (s.text[at] == ' ');
    if (end > at)
        return end;
    switch (class_at(s, begin, &length)) {
    case LETTER:
        return tokenizer_patterns_skip(s, begin, LETTER, SIZE_MAX);
    case NUMBER:
        return tokenizer_patterns_skip(s, begin, NUMBER, SIZE_MAX);
    case OTHER:
        return tokenizer_patterns_skip(s, begin, OTHER, SIZE_MAX);
    default:
        return last_spaces(s, at);
    }
}

// What follows the letters in llama3 and o200k.
static size_t rest(scan s, size_t at, size_t digits, char more)
{
    size_t length, end;
    if (class_at(s, at, &length) == NUMBER)
        return tokenizer_patterns_skip(s, at, NUMBER, digits);
    if ((end = others(s, at, true, more)) > at || (end = newlines(s, at)) > at)
        return end;
    return last_spaces(s, at);
}

static size_t llama3(scan s, size_t at, size_t digits)
{
    size_t length, end = short_form(s, at, true);
    if (end > at)
        return end;
    size_t begin = optional_prefix(s, at);
    if (class_at(s, begin, &length) == LETTER)
        return tokenizer_patterns_skip(s, begin, LETTER, SIZE_MAX);
    return rest(s, at, digits, '\0');
}

// UPPER_CASE, LOWER_CASE: both contain letters without case, and marks.
enum {
    UPPER = MH_CATEGORY(LU) | MH_CATEGORY(LT) | MH_CATEGORY(LM) | MH_CATEGORY(LO) | MH_CATEGORIES_M,
    LOWER = MH_CATEGORY(LL) | MH_CATEGORY(LM) | MH_CATEGORY(LO) | MH_CATEGORIES_M,
};

static bool has_case(scan s, size_t at, unsigned categories, size_t *length)
{
    return at < s.size && mh_has_category(mh_utf8_decode(s.text + at, length), categories);
}

// UPPER*LOWER+, where UPPER* gives back as little as LOWER+ needs: at most up to the last
// character that is both. `at` if that does not match.
static size_t cased_word(scan s, size_t at)
{
    size_t length, end = at, both = at;
    for (; has_case(s, end, UPPER, &length); end += length)
        if (has_case(s, end, LOWER, &length))
            both = end + length;
    if (!has_case(s, end, LOWER, &length))
        return both;
    while (has_case(s, end, LOWER, &length))
        end += length;
    return end;
}

static size_t upper_word(scan s, size_t at) // UPPER+LOWER*, after cased_word did not match
{
    for (size_t length; has_case(s, at, UPPER, &length);)
        at += length;
    return at;
}

static size_t o200k(scan s, size_t at)
{
    size_t prefix = optional_prefix(s, at), end = at;
    const size_t begins[2] = {prefix, at}; // greedy: with the prefix first
    for (size_t i = 0; i < 2 && end == at; i++)
        if (cased_word(s, begins[i]) > begins[i])
            end = cased_word(s, begins[i]);
    for (size_t i = 0; i < 2 && end == at; i++)
        if (upper_word(s, begins[i]) > begins[i])
            end = upper_word(s, begins[i]);
    return end > at ? short_form(s, end, true) : rest(s, at, 3, '/');
}

static size_t clip(scan s, size_t at) // not at whitespace
{
    size_t length, end = short_form(s, at, false);
    if (end > at)
        return end;
    class c = class_at(s, at, &length);
    return tokenizer_patterns_skip(s, at, c, c == NUMBER ? 1 : SIZE_MAX);
}

// ---- searching ----------------------------------------------------------------------------------

static bool find_literal(mh_text literal, scan s, size_t from, size_t *begin, size_t *end)
{
    if (literal.size == 0)
        return false;
    while (s.size - from >= literal.size) {
        const char *place =
            memchr(s.text + from, literal.bytes[0], s.size - from - literal.size + 1);
        if (!place)
            return false;
        *begin = (size_t)(place - s.text);
        *end = *begin + literal.size;
        if (memcmp(place, literal.bytes, literal.size) == 0)
            return true;
        from = *begin + 1;
    }
    return false;
}

// A run of at least `least` and at most `most` bytes between two.
static bool find_run(scan s, size_t from, const char *bytes, size_t least, size_t most,
                     size_t *begin, size_t *end)
{
    for (size_t at = from; at < s.size; at = at == *end ? at + 1 : *end) {
        *begin = *end = at;
        while (*end < s.size && *end - at < most && s.text[*end] && strchr(bytes, s.text[*end]))
            ++*end;
        if (*end - at >= least)
            return true;
    }
    return false;
}

static bool find_white(scan s, size_t from, size_t *begin, size_t *end)
{
    size_t length;
    for (*begin = from; *begin < s.size; *begin += length)
        if (class_at(s, *begin, &length) == WHITE) {
            *end = tokenizer_patterns_skip(s, *begin, WHITE, SIZE_MAX);
            return true;
        }
    return false;
}

bool mh_pattern_find(mh_pattern pattern, mh_text literal, const char *text, size_t size,
                     size_t from, size_t *begin, size_t *end)
{
    static const char digits[] = "0123456789";
    const scan s = {text, size};
    if (from >= size)
        return false;
    *begin = from;
    switch (pattern) {
    case MH_PATTERN_LITERAL:
        return find_literal(literal, s, from, begin, end);
    case MH_PATTERN_OWN:
        *end = from + mh_word_length(text + from, size - from);
        return true;
    case MH_PATTERN_GPT2:
        *end = gpt2(s, from);
        return true;
    case MH_PATTERN_LLAMA3:
        *end = llama3(s, from, 3);
        return true;
    case MH_PATTERN_QWEN2:
        *end = llama3(s, from, 1);
        return true;
    case MH_PATTERN_O200K:
        *end = o200k(s, from);
        return true;
    case MH_PATTERN_CLIP:
        *begin = tokenizer_patterns_skip(s, from, WHITE, SIZE_MAX);
        *end = *begin < size ? clip(s, *begin) : size;
        return *begin < size;
    case MH_PATTERN_WHITE:
        return find_white(s, from, begin, end);
    case MH_PATTERN_SPACES:
        return find_run(s, from, " ", 2, SIZE_MAX, begin, end);
    case MH_PATTERN_DIGITS:
        return find_run(s, from, digits, 1, 1, begin, end);
    case MH_PATTERN_DIGIT_TRIPLES:
        return find_run(s, from, digits, 3, 3, begin, end);
    case MH_PATTERN_NEWLINES:
        return find_run(s, from, "\r\n", 1, 1, begin, end);
    case MH_PATTERN_COUNT:
        break;
    }
    return false;
}
