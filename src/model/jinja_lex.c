// SPDX-License-Identifier: MIT
// Text, tags and tokens of a template. Whitespace around tags is removed as jinja2 does with
// trim_blocks (a newline behind a block) and lstrip_blocks (blanks before a block that is the first
// of its line); minus and plus at a tag's ends ask for all of it, and for none.
#include "model/jinja_internal.h"
#include "text/utf8.h"
#include <stdarg.h>
#include <stdio.h>

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == '\f' || c == '\v';
}

static bool is_digit(char c) { return c >= '0' && c <= '9'; }

static bool is_word(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || is_digit(c) || c == '_';
}

static char jinja_byte(const mh_jinja_parser *p, size_t i)
{
    return i < p->source.size ? p->source.bytes[i] : 0;
}

mh_status mh_jinja_fail(mh_context *context, mh_text source, size_t at, const char *format, ...)
{
    char message[200];
    size_t line = 1;
    va_list list;
    va_start(list, format);
    vsnprintf(message, sizeof message, format, list);
    va_end(list);
    message[mh_utf8_valid(message, strlen(message))] = 0; // cut between characters
    for (size_t i = 0; i < at && i < source.size; i++)
        line += source.bytes[i] == '\n';
    return mh_fail(context, MH_ERROR_UNSUPPORTED, "chat template, line %zu: %s", line, message);
}

// ---- text between tags --------------------------------------------------------------------------

static size_t find_tag(const mh_jinja_parser *p, size_t from)
{
    for (size_t i = from; i + 1 < p->source.size; i++)
        if (p->source.bytes[i] == '{' && strchr("{%#", p->source.bytes[i + 1]))
            return i;
    return p->source.size;
}

static void skip_behind_tag(mh_jinja_parser *p)
{
    while (p->strips_behind && is_blank(jinja_byte(p, p->at)))
        p->at++;
    const bool trims = p->tag && p->tag != '{' && !p->strips_behind && !p->keeps_newline;
    if (trims && jinja_byte(p, p->at) == '\n')
        p->at++;
}

// The end of the text from `from` to the tag at `tag`, without what the tag removes.
static size_t end_of_text(const mh_jinja_parser *p, size_t from, size_t tag)
{
    const char *text = p->source.bytes;
    const char kind = jinja_byte(p, tag + 1), sign = jinja_byte(p, tag + 2);
    size_t end = tag;
    if (tag == p->source.size)
        return end;
    if (sign == '-') {
        while (end > from && is_blank(text[end - 1]))
            end--;
        return end;
    }
    if (kind == '{' || sign == '+')
        return end;
    while (end > from && is_blank(text[end - 1]) && text[end - 1] != '\n')
        end--;
    const bool line_starts = end == 0 || text[end - 1] == '\n';
    return line_starts ? end : tag;
}

mh_text mh_jinja_next_text(mh_jinja_parser *p)
{
    skip_behind_tag(p);
    const size_t from = p->at, tag = find_tag(p, from);
    p->at = tag;
    return (mh_text){p->source.bytes + from, end_of_text(p, from, tag) - from};
}

// ---- tags ---------------------------------------------------------------------------------------

static void leave_tag(mh_jinja_parser *p, size_t close)
{
    const char sign = close > 0 ? p->source.bytes[close - 1] : 0;
    p->strips_behind = sign == '-';
    p->keeps_newline = sign == '+' && p->tag != '{';
    p->at = close + 2;
}

static mh_status skip_comment(mh_jinja_parser *p)
{
    for (size_t i = p->at + 2; i + 1 < p->source.size; i++)
        if (p->source.bytes[i] == '#' && p->source.bytes[i + 1] == '}') {
            leave_tag(p, i);
            return MH_OK;
        }
    return mh_jinja_fail(p->context, p->source, p->at, "found a comment that does not end");
}

mh_status mh_jinja_enter_tag(mh_jinja_parser *p, char *tag)
{
    *tag = 0;
    if (p->at >= p->source.size)
        return MH_OK;
    p->tag = p->source.bytes[p->at + 1];
    if (p->tag == '#')
        return skip_comment(p);
    *tag = p->tag;
    p->brackets = 0;
    p->at += 2;
    if (jinja_byte(p, p->at) == '-' || jinja_byte(p, p->at) == '+')
        p->at++;
    return mh_jinja_advance(p);
}

// Whether the tag ends at p->at, with its sign.
static bool at_close(const mh_jinja_parser *p, size_t *close)
{
    const char c = jinja_byte(p, p->at);
    *close = p->at + (c == '-' || c == '+');
    return p->brackets == 0 && jinja_byte(p, *close) == (p->tag == '{' ? '}' : '%') &&
           jinja_byte(p, *close + 1) == '}';
}

// ---- tokens -------------------------------------------------------------------------------------

static int hex_digit(char c)
{
    return is_digit(c)              ? c - '0'
           : (c >= 'a' && c <= 'f') ? c - 'a' + 10
           : (c >= 'A' && c <= 'F') ? c - 'A' + 10
                                    : -1;
}

// \xHH, \uHHHH, \UHHHHHHHH at p->at, which is behind the letter.
static mh_status read_code_point(mh_jinja_parser *p, size_t digits, char **to)
{
    uint32_t code = 0;
    for (size_t i = 0; i < digits; i++) {
        const int digit = hex_digit(jinja_byte(p, p->at + i));
        if (digit < 0)
            return mh_jinja_fail(p->context, p->source, p->at, "found an escape without digits");
        code = code << 4 | (uint32_t)digit;
    }
    if (code > 0x10FFFF || (code >= 0xD800 && code < 0xE000) || code == 0)
        return mh_jinja_fail(p->context, p->source, p->at, "found an escape that is no character");
    *to += mh_utf8_encode(code, *to);
    p->at += digits;
    return MH_OK;
}

// An escape of Python's strings, behind the backslash; unknown ones stay as they are.
static mh_status read_escape(mh_jinja_parser *p, char **to)
{
    static const char names[] = "ntr\\'\"abfv", values[] = "\n\t\r\\'\"\a\b\f\v";
    const char c = jinja_byte(p, p->at);
    const char *name = c ? strchr(names, c) : NULL;
    if (is_digit(c))
        return mh_jinja_fail(p->context, p->source, p->at, "found an octal escape");
    if (name)
        *(*to)++ = values[name - names];
    else if (c == 'x' || c == 'u' || c == 'U') {
        p->at++;
        return read_code_point(p, c == 'x' ? 2 : c == 'u' ? 4 : 8, to);
    } else if (c != '\n') {
        *(*to)++ = '\\';
        return MH_OK; // the character follows
    }
    p->at++;
    return MH_OK;
}

static mh_status read_string(mh_jinja_parser *p)
{
    const char quote = p->source.bytes[p->at++];
    size_t end = p->at;
    while (end < p->source.size && p->source.bytes[end] != quote)
        end += p->source.bytes[end] == '\\' ? 2 : 1;
    if (end >= p->source.size)
        return mh_jinja_fail(p->context, p->source, p->at, "found a string that does not end");
    char *text = mh_result_take(p->context, p->arena, end - p->at + 1, 1), *to = text;
    if (!text)
        return MH_ERROR_MEMORY;
    while (p->at < end) {
        const char c = p->source.bytes[p->at++];
        if (c == '\\')
            MH_TRY(read_escape(p, &to));
        else
            *to++ = c;
    }
    p->at = end + 1;
    p->token.kind = MH_TOKEN_STRING;
    p->token.text = (mh_text){text, (size_t)(to - text)};
    return MH_OK;
}

static mh_status read_integer(mh_jinja_parser *p)
{
    int64_t value = 0;
    for (; is_digit(jinja_byte(p, p->at)); p->at++) {
        if (value > 100000000000000)
            return mh_jinja_fail(p->context, p->source, p->at, "found a number of many digits");
        value = value * 10 + (p->source.bytes[p->at] - '0');
    }
    if (jinja_byte(p, p->at) == '.' && is_digit(jinja_byte(p, p->at + 1)))
        return mh_jinja_fail(p->context, p->source, p->at,
                             "found a number with a fraction, expected integers");
    p->token.kind = MH_TOKEN_INTEGER;
    p->token.integer = value;
    return MH_OK;
}

static mh_status read_operator(mh_jinja_parser *p)
{
    static const char *const two[] = {"==", "!=", "<=", ">=", "//", "**"};
    const char c = jinja_byte(p, p->at);
    size_t length = 1;
    for (size_t i = 0; i < sizeof two / sizeof *two; i++)
        if (c == two[i][0] && jinja_byte(p, p->at + 1) == two[i][1])
            length = 2;
    if (c == 0 || !strchr("=!<>/*+-%~|.,:()[]{}", c) || (c == '!' && length == 1))
        return mh_jinja_fail(p->context, p->source, p->at,
                             "found a byte of 0x%02x, which Jinja does not use",
                             (unsigned)(unsigned char)c);
    if (strchr("([{", c))
        p->brackets++;
    if (strchr(")]}", c) && p->brackets > 0)
        p->brackets--;
    p->token.kind = MH_TOKEN_OPERATOR;
    p->token.text = (mh_text){p->source.bytes + p->at, length};
    p->at += length;
    return MH_OK;
}

mh_status mh_jinja_advance(mh_jinja_parser *p)
{
    size_t close;
    while (is_blank(jinja_byte(p, p->at)))
        p->at++;
    p->token = (mh_jinja_token){.at = p->at, .text = {"", 0}};
    if (p->at >= p->source.size)
        return mh_jinja_fail(p->context, p->source, p->at, "found a tag that does not end");
    if (at_close(p, &close)) {
        leave_tag(p, close);
        return MH_OK;
    }
    const char c = p->source.bytes[p->at];
    if (c == '\'' || c == '"')
        return read_string(p);
    if (is_digit(c))
        return read_integer(p);
    if (!is_word(c))
        return read_operator(p);
    const size_t from = p->at;
    while (is_word(jinja_byte(p, p->at)))
        p->at++;
    p->token.kind = MH_TOKEN_NAME;
    p->token.text = (mh_text){p->source.bytes + from, p->at - from};
    return MH_OK;
}

bool mh_jinja_at(const mh_jinja_parser *p, const char *text)
{
    return (p->token.kind == MH_TOKEN_NAME || p->token.kind == MH_TOKEN_OPERATOR) &&
           mh_text_is(p->token.text, text);
}

mh_status mh_jinja_expected(mh_jinja_parser *p, const char *what)
{
    const mh_jinja_token *t = &p->token;
    if (t->kind == MH_TOKEN_END)
        return mh_jinja_fail(p->context, p->source, t->at, "found the tag's end, expected %s",
                             what);
    if (t->kind == MH_TOKEN_INTEGER)
        return mh_jinja_fail(p->context, p->source, t->at, "found %lld, expected %s",
                             (long long)t->integer, what);
    return mh_jinja_fail(p->context, p->source, t->at, "found \"%.*s\", expected %s",
                         (int)(t->text.size < 40 ? t->text.size : 40), t->text.bytes, what);
}

mh_status mh_jinja_expect(mh_jinja_parser *p, const char *text)
{
    return mh_jinja_at(p, text) ? mh_jinja_advance(p) : mh_jinja_expected(p, text);
}
