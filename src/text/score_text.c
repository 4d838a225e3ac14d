// SPDX-License-Identifier: MIT
// The tokenisation of mteval-v13a, as in sacreBLEU: four replacements in sequence, each from left
// to right and never within its own output. All patterns are ASCII, and a byte of a multi-byte
// character is "not a digit" just as the whole character, so it works on bytes.
#include "text/score_text.h"
#include "support/buffer.h"

#include "base/argument_check.h"
#include "text/utf8.h"

bool mh_next_word(const char *text, size_t size, size_t *at, mh_text *word)
{
    size_t length, begin;
    if (*at >= size)
        return false;
    while (*at < size && mh_is_space(mh_utf8_decode(text + *at, &length)))
        *at += length;
    begin = *at;
    while (*at < size && !mh_is_space(mh_utf8_decode(text + *at, &length)))
        *at += length;
    *word = (mh_text){text + begin, *at - begin};
    return word->size > 0;
}

// In place: `to` is not longer than `from`.
static void replace_all(mh_buffer *text, const char *from, const char *to)
{
    size_t from_size = strlen(from), to_size = strlen(to), kept = 0;
    for (size_t i = 0; i < text->size;) {
        if (text->size - i >= from_size && memcmp(text->data + i, from, from_size) == 0) {
            memcpy(text->data + kept, to, to_size);
            kept += to_size;
            i += from_size;
        } else {
            text->data[kept++] = text->data[i++];
        }
    }
    text->size = kept;
}

static bool score_is_digit(char c) { return c >= '0' && c <= '9'; }
static bool is_stop(char c) { return c == '.' || c == ','; }

static bool stands_alone(char c) // [\{-\~\[-\` -\&\(-\+\:-\@\/]
{
    return (c >= '{' && c <= '~') || (c >= '[' && c <= '`') || (c >= ' ' && c <= '&') ||
           (c >= '(' && c <= '+') || (c >= ':' && c <= '@') || c == '/';
}

// Each rule matches two characters and returns their replacement; "" leaves the first unchanged. In
// the replacement, 1 and 2 stand for the two.
static const char *rule_alone(char a, char b)
{
    (void)b;
    return stands_alone(a) ? " 1 " : "";
}

static const char *rule_stop_after(char a, char b)
{
    return !score_is_digit(a) && is_stop(b) ? "1 2 " : "";
}
static const char *rule_stop_before(char a, char b)
{
    return is_stop(a) && !score_is_digit(b) ? " 1 2" : "";
}
static const char *rule_dash(char a, char b) { return score_is_digit(a) && b == '-' ? "1 2 " : ""; }

static bool apply(mh_context *context, const char *(*rule)(char, char), bool needs_two,
                  mh_buffer *text, mh_buffer *out)
{
    out->size = 0;
    if (!mh_grow(context, &out->data, &out->capacity, 3 * text->size + 1, 1))
        return false;
    for (size_t i = 0; i < text->size; i++) {
        char a = text->data[i], b = i + 1 < text->size ? text->data[i + 1] : '\0';
        const char *form = needs_two && i + 1 == text->size ? "" : rule(a, b);
        if (!*form)
            out->data[out->size++] = a;
        for (; *form; form++) {
            i += *form == '2';
            out->data[out->size++] = *form == '1' ? a : *form == '2' ? b : ' ';
        }
    }
    mh_buffer swap = *text;
    *text = *out;
    *out = swap;
    return true;
}

bool mh_tokenize_13a(mh_context *context, mh_buffer *text, mh_buffer *spare)
{
    replace_all(text, "<skipped>", "");
    replace_all(text, "-\n", "");
    replace_all(text, "\n", " ");
    replace_all(text, "&quot;", "\"");
    replace_all(text, "&amp;", "&");
    replace_all(text, "&lt;", "<");
    replace_all(text, "&gt;", ">");
    // Spaces at both ends, so that the rules match there.
    spare->size = 0;
    if (!mh_buffer_append(context, spare, " ", 1) ||
        !mh_buffer_append(context, spare, text->data, text->size) ||
        !mh_buffer_append(context, spare, " ", 1))
        return false;
    mh_buffer swap = *text;
    *text = *spare;
    *spare = swap;
    return apply(context, rule_alone, false, text, spare) &&
           apply(context, rule_stop_after, true, text, spare) &&
           apply(context, rule_stop_before, true, text, spare) &&
           apply(context, rule_dash, true, text, spare);
}

static mh_status score_check_texts(mh_context *context, const char *what, const mh_text *texts,
                                   size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (!texts[i].bytes && texts[i].size > 0)
            return mh_fail(context, MH_ERROR_ARGUMENT, "score: %s %zu is NULL", what, i);
        size_t valid = mh_utf8_valid(texts[i].bytes, texts[i].size);
        if (valid < texts[i].size)
            return mh_fail(context, MH_ERROR_FORMAT,
                           "score: %s %zu: byte %zu (0x%02x) is not valid UTF-8", what, i, valid,
                           (unsigned char)texts[i].bytes[valid]);
    }
    return MH_OK;
}

mh_status mh_score_check(mh_context *context, const mh_text *hypotheses, const mh_text *references,
                         size_t count, size_t reference_count, const void *score)
{
    size_t total;
    if (MH_NEED(context, {"score", score}, {"hypotheses", mh_array(hypotheses, count)},
                {"references", mh_array(references, count)}))
        return MH_ERROR_ARGUMENT;
    if (reference_count == 0 || !mh_multiply_sizes(count, reference_count, &total))
        return mh_fail(context, MH_ERROR_ARGUMENT, "score: %zu references, expected at least 1",
                       reference_count);
    mh_status status = score_check_texts(context, "hypothesis", hypotheses, count);
    return status == MH_OK ? score_check_texts(context, "reference", references, total) : status;
}
