// SPDX-License-Identifier: MIT
// The normal form of a chat template. Two templates with the same normal form write the same text:
//
//     {% for m in messages %}\n  {{- "<" + m["role"] }}{% endfor %}      as published
//     {%for m in messages%}<{{m.role}}{%endfor%}                         normal
//
// Whitespace around tags is removed as Jinja does with trim_blocks and lstrip_blocks, which Hugging
// Face sets; comments are gone; strings have single quotes; x["y"] is x.y; an output that joins
// strings is a sequence of texts and outputs; the message of raise_exception() is left out.
#include "base/compiler.h"
#include "model/chat_template.h"
#include "support/buffer.h"
#include <string.h>

typedef struct normaliser {
    mh_appender to;
    const char *text;
    size_t size;
    size_t at;
    char before;        // kind of the tag before: 0, '{', '%' or '#'
    bool strips_behind; // it ends with a minus
    bool line_starts;   // what comes now is at the beginning of a line
    bool unknown;       // no syntax that we know
} normaliser;

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == '\f' || c == '\v';
}

static bool is_word(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

// ---- text between tags --------------------------------------------------------------------------

static size_t find_tag(const normaliser *n)
{
    for (size_t i = n->at; i + 1 < n->size; i++)
        if (n->text[i] == '{' && strchr("{%#", n->text[i + 1]))
            return i;
    return n->size;
}

// What the tag before removes: all whitespace, or a newline behind a block.
static void skip_behind_tag(normaliser *n)
{
    const size_t from = n->at;
    while (n->strips_behind && n->at < n->size && is_blank(n->text[n->at]))
        n->at++;
    if (n->before && n->before != '{' && !n->strips_behind && n->at < n->size &&
        n->text[n->at] == '\n')
        n->at++;
    n->line_starts = from == 0 || (n->at > from && n->text[n->at - 1] == '\n');
}

// The end of the text before the tag at `tag`, whose own rule removes whitespace.
static size_t end_of_text(const normaliser *n, size_t tag)
{
    size_t end = tag;
    if (tag == n->size)
        return end;
    const char kind = n->text[tag + 1], sign = tag + 2 < n->size ? n->text[tag + 2] : 0;
    if (sign == '-') {
        while (end > n->at && is_blank(n->text[end - 1]))
            end--;
        return end;
    }
    if (kind == '{' || sign == '+')
        return end;
    size_t line = end;
    while (line > n->at && is_blank(n->text[line - 1]) && n->text[line - 1] != '\n')
        line--;
    return (line > n->at && n->text[line - 1] == '\n') || (line == n->at && n->line_starts) ? line
                                                                                            : end;
}

// Text that looks like a tag would be taken for one.
static void put_text(normaliser *n, const char *bytes, size_t size)
{
    for (size_t i = 0; i + 1 < size; i++)
        n->unknown = n->unknown || (bytes[i] == '{' && strchr("{%#", bytes[i + 1]));
    n->unknown = n->unknown || (size && bytes[size - 1] == '{');
    mh_append(&n->to, bytes, size);
}

// ---- expressions --------------------------------------------------------------------------------

// A string literal at text[i]: decoded into `out`, which is as long as the text. Returns the
// position behind it, 0 if it does not end.
static size_t read_string(const char *text, size_t size, size_t i, char *out, size_t *length)
{
    const char quote = text[i++];
    *length = 0;
    for (; i < size && text[i] != quote; i++) {
        char c = text[i];
        if (c == '\\' && i + 1 < size) {
            static const char names[] = "ntr\\'\"", values[] = "\n\t\r\\'\"";
            const char *name = strchr(names, text[++i]);
            if (!name || !*name)
                return 0;
            c = values[name - names];
        }
        out[(*length)++] = c;
    }
    return i < size ? i + 1 : 0;
}

static void put_quoted(mh_appender *to, const char *bytes, size_t size)
{
    mh_append(to, "'", 1);
    for (size_t i = 0; i < size; i++) {
        if (bytes[i] == '\'' || bytes[i] == '\\')
            mh_append(to, "\\", 1);
        mh_append(to, bytes + i, 1);
    }
    mh_append(to, "'", 1);
}

// x['y'] is x.y: whether the string is such an index, whose bracket is already written.
static bool is_member(const normaliser *n, const char *text, size_t size, size_t behind,
                      const char *name, size_t length)
{
    const mh_buffer *out = &n->to.buffer;
    while (behind < size && is_blank(text[behind]))
        behind++;
    if (out->size < 2 || out->data[out->size - 1] != '[' || behind == size || text[behind] != ']')
        return false;
    const char owner = out->data[out->size - 2];
    bool word = length > 0 && (is_word(owner) || owner == ']' || owner == ')');
    for (size_t i = 0; i < length; i++)
        word = word && is_word(name[i]);
    return word;
}

// The inside of a tag, or a part of it, without whitespace that means nothing.
static void put_expression(normaliser *n, const char *text, size_t size, char *scratch)
{
    const size_t from = n->to.buffer.size;
    for (size_t i = 0; i < size && !n->unknown && !n->to.failed;) {
        mh_buffer *out = &n->to.buffer;
        size_t length;
        if (text[i] == '\'' || text[i] == '"') {
            i = read_string(text, size, i, scratch, &length);
            n->unknown = i == 0;
            if (i && is_member(n, text, size, i, scratch, length)) {
                out->data[out->size - 1] = '.';
                mh_append(&n->to, scratch, length);
                while (text[i] != ']')
                    i++;
                i++;
            } else if (i) {
                put_quoted(&n->to, scratch, length);
            }
            continue;
        }
        if (is_blank(text[i])) {
            while (i < size && is_blank(text[i]))
                i++;
            if (out->size > from && i < size && is_word(out->data[out->size - 1]) &&
                (is_word(text[i]) || text[i] == '\'' || text[i] == '"'))
                mh_append(&n->to, " ", 1);
            continue;
        }
        mh_append(&n->to, text + i++, 1);
    }
}

// ---- outputs ------------------------------------------------------------------------------------

// The end of the operand at text[i] of a sum of strings.
static size_t operand_end(const char *text, size_t size, size_t i)
{
    int depth = 0;
    for (; i < size; i++) {
        const char c = text[i];
        if (c == '\'' || c == '"') {
            for (i++; i < size && text[i] != c; i++)
                i += text[i] == '\\';
        } else if (strchr("([{", c)) {
            depth++;
        } else if (strchr(")]}", c)) {
            depth--;
        } else if (c == '+' && depth == 0) {
            return i;
        }
    }
    return size;
}

// Whether an output is a sum without operators that bind less: names, strings, members and filters.
static bool is_plain_sum(const char *text, size_t size)
{
    int depth = 0;
    for (size_t i = 0; i < size; i++) {
        const char c = text[i];
        if (c == '\'' || c == '"') {
            for (i++; i < size && text[i] != c; i++)
                i += text[i] == '\\';
        } else if (strchr("([{", c)) {
            depth++;
        } else if (strchr(")]}", c)) {
            depth--;
        } else if (depth == 0 && !is_word(c) && !is_blank(c) && !strchr("+.|", c)) {
            return false;
        } else if (depth == 0 && is_blank(c)) { // two words: an operator such as `if`
            size_t next = i;
            while (next < size && is_blank(text[next]))
                next++;
            if (i > 0 && next < size && is_word(text[i - 1]) && is_word(text[next]))
                return false;
        }
    }
    return depth == 0;
}

static void put_operand(normaliser *n, const char *text, size_t size, char *scratch)
{
    while (size > 0 && is_blank(text[0])) {
        text++;
        size--;
    }
    while (size > 0 && is_blank(text[size - 1]))
        size--;
    size_t length;
    if (size > 1 && (text[0] == '\'' || text[0] == '"') &&
        read_string(text, size, 0, scratch, &length) == size) {
        put_text(n, scratch, length);
        return;
    }
    static const char raise[] = "raise_exception(";
    mh_append(&n->to, "{{", 2);
    if (size > sizeof raise && memcmp(text, raise, sizeof raise - 1) == 0 && text[size - 1] == ')')
        mh_append_string(&n->to, "raise_exception()");
    else
        put_expression(n, text, size, scratch);
    mh_append(&n->to, "}}", 2);
}

static void put_output(normaliser *n, const char *text, size_t size, char *scratch)
{
    if (!is_plain_sum(text, size)) {
        put_operand(n, text, size, scratch);
        return;
    }
    for (size_t i = 0; i < size;) {
        const size_t end = operand_end(text, size, i);
        put_operand(n, text + i, end - i, scratch);
        i = end + 1;
    }
}

// ---- tags ---------------------------------------------------------------------------------------

// The end of the inside of the tag at n->at; n->size if it is not closed.
static size_t tag_end(const normaliser *n, char kind)
{
    const char close = kind == '{' ? '}' : kind;
    for (size_t i = n->at + 2; i + 1 < n->size; i++) {
        const char c = n->text[i];
        if (kind != '#' && (c == '\'' || c == '"'))
            for (i++; i < n->size && n->text[i] != c; i++)
                i += n->text[i] == '\\';
        else if (c == close && n->text[i + 1] == '}')
            return i;
    }
    return n->size;
}

static void put_tag(normaliser *n, char *scratch)
{
    const char kind = n->text[n->at + 1];
    const size_t end = tag_end(n, kind);
    if (end == n->size) {
        n->unknown = true;
        return;
    }
    size_t from = n->at + 2, to = end;
    if (from < to && (n->text[from] == '-' || n->text[from] == '+'))
        from++;
    n->strips_behind = to > from && n->text[to - 1] == '-';
    n->unknown = n->unknown || (to > from && n->text[to - 1] == '+' && kind != '{');
    to -= n->strips_behind;
    if (kind == '{') {
        put_output(n, n->text + from, to - from, scratch);
    } else if (kind == '%') {
        mh_append(&n->to, "{%", 2);
        put_expression(n, n->text + from, to - from, scratch);
        mh_append(&n->to, "%}", 2);
    }
    n->before = kind;
    n->at = end + 2;
}

mh_status mh_chat_normalise(mh_context *context, const char *text, size_t size, mh_buffer *normal)
{
    if (size > 0 && text[size - 1] == '\n') // Jinja drops one
        size--;
    normaliser n = {.to = {.context = context}, .text = text, .size = size};
    char *scratch = mh_alloc(context, size);
    n.to.failed = !scratch;
    while (!n.to.failed && !n.unknown && n.at < n.size) {
        skip_behind_tag(&n);
        const size_t tag = find_tag(&n), end = end_of_text(&n, tag);
        put_text(&n, n.text + n.at, end - n.at);
        n.at = tag;
        if (tag < n.size)
            put_tag(&n, scratch);
    }
    mh_free(context, scratch, size);
    mh_status status = MH_OK;
    if (n.unknown)
        status = mh_fail(context, MH_ERROR_UNSUPPORTED,
                         "chat template: found what is not understood at byte %zu", n.at);
    return mh_append_finish(&n.to, status, normal);
}
