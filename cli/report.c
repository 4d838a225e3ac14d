// SPDX-License-Identifier: MIT
// Facts as text or JSON; see report.h. Six kinds of values and one level: calling a
// JSON library would take more code.
#include "report.h"

#include <inttypes.h>
#include <math.h>
#include <multihead/text.h>
#include <string.h>

report report_begin(FILE *to, bool json, int label_width)
{
    if (json)
        putc('{', to);
    return (report){.to = to, .json = json, .label_width = label_width, .first = true};
}

void report_end(report *r)
{
    if (r->json)
        fputs("}\n", r->to);
}

void put_json_string(FILE *to, const char *text, size_t length)
{
    size_t valid = mh_utf8_valid(text, length);
    putc('"', to);
    for (size_t i = 0; i < length; i++) {
        unsigned char c = (unsigned char)text[i];
        if (i == valid) {
            fputs("\\ufffd", to);
            valid = i + 1 + mh_utf8_valid(text + i + 1, length - i - 1);
        } else if (c == '"' || c == '\\') {
            fprintf(to, "\\%c", c);
        } else if (c < 0x20) {
            fprintf(to, "\\u%04x", c);
        } else {
            putc(c, to);
        }
    }
    putc('"', to);
}

static void begin_fact(report *r, const char *key, const char *label)
{
    if (r->json)
        fprintf(r->to, "%s\"%s\": ", r->first ? "" : ", ", key);
    else
        fprintf(r->to, "%-*s", r->label_width, label);
    r->first = false;
}

static void end_fact(report *r, const char *unit)
{
    if (!r->json)
        fprintf(r->to, "%s%s\n", *unit ? " " : "", unit);
}

// Control characters, for instance in a model's labels, must not reach the terminal.
static void put_plain(FILE *to, const char *text)
{
    for (; *text; text++)
        putc((unsigned char)*text < 0x20 || *text == 0x7f ? '?' : *text, to);
}

void report_text(report *r, const char *key, const char *label, const char *value)
{
    begin_fact(r, key, label);
    if (r->json)
        put_json_string(r->to, value, strlen(value));
    else
        put_plain(r->to, value);
    end_fact(r, "");
}

void report_count(report *r, const char *key, const char *label, uint64_t value, const char *unit)
{
    begin_fact(r, key, label);
    fprintf(r->to, "%" PRIu64, value);
    end_fact(r, unit);
}

void report_number(report *r, const char *key, const char *label, double value, int decimals,
                   const char *unit)
{
    begin_fact(r, key, label);
    if (r->json && !isfinite(value))
        fputs("null", r->to); // JSON has no NaN or infinity
    else
        fprintf(r->to, "%.*f", decimals, value);
    end_fact(r, unit);
}

void report_flag(report *r, const char *key, const char *label, bool value)
{
    begin_fact(r, key, label);
    fputs(r->json ? (value ? "true" : "false") : (value ? "yes" : "no"), r->to);
    end_fact(r, "");
}

void report_reasons(report *r, const char *key, const char *label, const char *reasons)
{
    if (r->json) {
        report_text(r, key, label, reasons);
        return;
    }
    begin_fact(r, key, label);
    for (const char *end; (end = strstr(reasons, "; ")) != NULL; reasons = end + 2)
        fprintf(r->to, "%.*s;\n%*s", (int)(end - reasons), reasons, r->label_width, "");
    fprintf(r->to, "%s\n", reasons);
}

void report_words(report *r, const char *key, const char *label, const char *words)
{
    begin_fact(r, key, label);
    if (!r->json) {
        fputs(words, r->to);
        end_fact(r, "");
        return;
    }
    putc('[', r->to);
    for (const char *word = words + strspn(words, " "), *next; *word; word = next) {
        size_t length = strcspn(word, " ");
        next = word + length + strspn(word + length, " ");
        put_json_string(r->to, word, length);
        fputs(*next ? ", " : "", r->to);
    }
    putc(']', r->to);
}
