// SPDX-License-Identifier: MIT
// Facts with names, printed as aligned lines for people or as one JSON object for programs.
// Each call is one fact: `key` is its name in JSON, `label` its name on the line.
//
//     report r = report_begin(stdout, json, 12);
//     report_text(&r, "isa", "level", "avx512");          level       avx512
//     report_end(&r);                                     {"isa": "avx512"}
#ifndef CLI_REPORT_H
#define CLI_REPORT_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

typedef struct report {
    FILE *to;
    bool json;
    int label_width;
    bool first;
} report;

// Text as a JSON string, with its quotes. Bytes that are not UTF-8, which the name of a file may
// have, become U+FFFD.
void put_json_string(FILE *to, const char *text, size_t length);

report report_begin(FILE *to, bool json, int label_width);
void report_end(report *r);

void report_text(report *r, const char *key, const char *label, const char *value);
void report_count(report *r, const char *key, const char *label, uint64_t value, const char *unit);
void report_number(report *r, const char *key, const char *label, double value, int decimals,
                   const char *unit);
void report_flag(report *r, const char *key, const char *label, bool value);

// Reasons separated by "; ": one per line, or one string in JSON.
void report_reasons(report *r, const char *key, const char *label, const char *reasons);

// Words separated by spaces; an array of strings in JSON.
void report_words(report *r, const char *key, const char *label, const char *words);

#endif
