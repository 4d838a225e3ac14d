// SPDX-License-Identifier: MIT
// A translator that waits for its turn: it reads a model and sentences once, and translates all of
// them for every line on standard input. So compare_translating.py lets others translate in
// between.
//
//     translate_turns MODEL INPUT f32|bf16 THREADS
//
//     ready amx 500             level, sentences
//     5 32 out.txt              beam and batch; where the ids of translations go, or -
//     1.234567                  seconds, from texts to texts
//
// INPUT has a sentence a line; what follows a tab is not read.
#include "base/clock.h"
#include <multihead/multihead.h>
#include <multihead/translator.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_SENTENCES = 100000 };

typedef struct program {
    mh_context *context;
    mh_translator *translator;
    mh_text texts[MOST_SENTENCES];
    size_t count;
} program;

// ---- what is read once --------------------------------------------------------------------------

static bool read_sentences(program *p, const char *path)
{
    FILE *file = fopen(path, "r");
    char *line = NULL;
    size_t size = 0;
    if (!file)
        return false;
    while (p->count < MOST_SENTENCES && getline(&line, &size, file) > 0) {
        line[strcspn(line, "\t\r\n")] = 0;
        char *copy = strdup(line);
        if (copy)
            p->texts[p->count++] = (mh_text){copy, strlen(copy)};
    }
    free(line);
    fclose(file);
    return p->count > 0;
}

static bool prepare(program *p, char **argv)
{
    char error[256];
    const bool bf16 = !strcmp(argv[3], "bf16");
    const mh_precision precision = bf16 ? MH_PRECISION_BF16 : MH_PRECISION_F32;
    mh_context_options options = mh_context_options_default();
    options.threads = strtoul(argv[4], NULL, 10);
    if (!bf16 && strcmp(argv[3], "f32")) {
        fprintf(stderr, "translate_turns: found '%s', expected f32 or bf16\n", argv[3]);
    } else if (mh_context_create(&options, &p->context, error, sizeof error)) {
        fprintf(stderr, "translate_turns: %s\n", error);
    } else if (mh_translator_load(p->context, argv[1], precision, &p->translator)) {
        fprintf(stderr, "translate_turns: %s\n", mh_error_message(p->context));
    } else if (!read_sentences(p, argv[2])) {
        fprintf(stderr, "translate_turns: no sentences in %s\n", argv[2]);
    } else {
        return true;
    }
    return false;
}

// ---- turns --------------------------------------------------------------------------------------

static bool write_ids(const program *p, const mh_translations *translations, const char *path)
{
    FILE *file = fopen(path, "w");
    if (!file)
        return false;
    for (size_t i = 0; i < p->count; i++) {
        const mh_translation *t = mh_translations_at(translations, i, 0);
        for (size_t k = 0; k < t->count; k++)
            fprintf(file, "%s%d", k ? " " : "", (int)t->ids[k]);
        fputc('\n', file);
    }
    return fclose(file) == 0;
}

static bool take_turn(program *p, const mh_translate_options *options, const char *path)
{
    mh_translations *translations;
    const double begun = mh_clock_seconds();
    if (mh_translate(p->context, p->translator, options, p->texts, p->count, &translations)) {
        fprintf(stderr, "translate_turns: %s\n", mh_error_message(p->context));
        return false;
    }
    const double seconds = mh_clock_seconds() - begun;
    const bool written = !strcmp(path, "-") || write_ids(p, translations, path);
    mh_translations_free(translations);
    if (!written)
        fprintf(stderr, "translate_turns: cannot write %s\n", path);
    printf("%.6f\n", seconds);
    fflush(stdout);
    return written;
}

int main(int argc, char **argv)
{
    static program p;
    if (argc != 5) {
        fputs("usage: translate_turns MODEL INPUT f32|bf16 THREADS\n", stderr);
        return 2;
    }
    bool going_on = prepare(&p, argv);
    const bool prepared = going_on;
    if (prepared)
        printf("ready %s %zu\n", mh_context_isa(p.context), p.count);
    fflush(stdout);
    char line[4096], path[4096];
    mh_translate_options options = mh_translate_options_default();
    while (going_on && fgets(line, sizeof line, stdin))
        going_on = sscanf(line, "%zu %zu %4095s", &options.beam, &options.batch, path) == 3 &&
                   take_turn(&p, &options, path);
    for (size_t i = 0; i < p.count; i++)
        free((char *)p.texts[i].bytes);
    mh_translator_free(p.translator);
    mh_context_free(p.context);
    return !going_on;
}
