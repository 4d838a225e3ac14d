// SPDX-License-Identifier: MIT
// The lines of `multihead heads`, and the pass over each; see heads_parts.h.
#include "heads_parts.h"
#include "messages.h"
#include "pretrained/pictures.h"
#include "progress.h"

#include <stdlib.h>
#include <string.h>

// ---- lines --------------------------------------------------------------------------------------

// "SOURCE TAB TARGET", and what may follow another tab. False if there is no target.
static bool split_pair(mh_text line, mh_text *source, mh_text *target)
{
    const char *tab = memchr(line.bytes, '\t', line.size);
    *source = line;
    *target = (mh_text){NULL, 0};
    if (!tab)
        return false;
    source->size = (size_t)(tab - line.bytes);
    *target = (mh_text){tab + 1, line.size - source->size - 1};
    const char *end = memchr(target->bytes, '\t', target->size);
    if (end)
        target->size = (size_t)(end - target->bytes);
    return true;
}

static bool show_translated(void *user, size_t done, size_t total)
{
    (void)user;
    if (done > 0)
        progress_show(done, total, "translations");
    return true;
}

// The model's own translations where no target is given.
static int translate_missing(const text_arguments *a, head_texts *t)
{
    mh_text *missing = malloc(t->own * sizeof *missing);
    mh_translate_options options = mh_translate_options_default();
    options.progress = show_translated;
    if (!missing) {
        complain("out of memory for %zu texts", t->own);
        return EXIT_MEMORY;
    }
    for (size_t i = 0, n = 0; i < t->count; i++)
        if (!t->targets[i].bytes)
            missing[n++] = t->sources[i];
    mh_status status =
        mh_translate(a->context, t->translator, &options, missing, t->own, &t->translated);
    progress_clear();
    for (size_t i = 0, n = 0; i < t->count && !status; i++)
        if (!t->targets[i].bytes)
            t->targets[i] = mh_translations_at(t->translated, n++, 0)->text;
    free(missing);
    return status ? complain_status(a->context, status, NULL) : EXIT_DONE;
}

static int split_lines(const text_arguments *a, bool given_only, head_texts *t)
{
    for (size_t i = 0; i < t->count; i++) {
        if (split_pair(a->texts[i], &t->sources[i], &t->targets[i]))
            continue;
        if (given_only) {
            complain("text %zu: found no tab, expected a source and its translation: --ablate "
                     "measures the loss of given translations",
                     i + 1);
            return EXIT_INPUT;
        }
        t->own++;
    }
    return t->own ? translate_missing(a, t) : EXIT_DONE;
}

int head_texts_open(const text_arguments *a, bool given_only, head_texts *t)
{
    *t = (head_texts){.count = a->count};
    if (a->count == 0) {
        complain("found no texts, expected at least 1");
        return EXIT_INPUT;
    }
    if (!(mh_model_describe(a->model)->abilities & MH_CAN_TRANSLATE)) {
        t->sources = a->texts;
        return EXIT_DONE;
    }
    t->sources = calloc(a->count, sizeof *t->sources);
    t->targets = calloc(a->count, sizeof *t->targets);
    if (!t->sources || !t->targets) {
        complain("out of memory for %zu texts", a->count);
        return EXIT_MEMORY;
    }
    mh_status status = mh_translator_from_model(a->context, a->model, &t->translator);
    return status ? complain_status(a->context, status, NULL) : split_lines(a, given_only, t);
}

void head_texts_close(head_texts *t)
{
    if (t->targets)
        free(t->sources);
    free(t->targets);
    mh_translations_free(t->translated);
    mh_translator_free(t->translator);
}

// ---- a text through the model -------------------------------------------------------------------

static mh_status add_translation(const text_arguments *a, const head_texts *t, size_t i,
                                 mh_head_statistics *s)
{
    mh_translations *scored;
    mh_translation_trace *trace = NULL;
    mh_status status = mh_score_translations(a->context, t->translator, NULL, &t->sources[i],
                                             &t->targets[i], 1, &scored);
    if (status)
        return status;
    const mh_translation *best = mh_translations_at(scored, 0, 0);
    status = mh_translation_trace_create(a->context, t->translator, NULL, t->sources[i], best->ids,
                                         best->count, &trace);
    if (!status)
        status = mh_head_statistics_add(a->context, s, mh_translation_trace_view(trace));
    mh_translation_trace_free(trace);
    mh_translations_free(scored);
    return status;
}

static mh_status add_text(const text_arguments *a, mh_text text, mh_head_statistics *s)
{
    const mh_model *tower = mh_model_text_tower(a->model);
    mh_model_trace *trace = NULL;
    mh_status status =
        mh_model_trace_create(a->context, tower ? tower : a->model, NULL, text, NULL, &trace);
    if (!status)
        status = mh_head_statistics_add(a->context, s, mh_model_trace_view(trace));
    mh_model_trace_free(trace);
    return status;
}

static int add_picture(const text_arguments *a, mh_text path, mh_head_statistics *s)
{
    mh_image image = {0};
    mh_model_trace *trace = NULL;
    int code = picture_read(a, path, &image);
    if (code != EXIT_DONE)
        return code;
    mh_status status = mh_model_trace_picture(a->context, a->model, NULL, NULL, &image, &trace);
    if (!status)
        status = mh_head_statistics_add(a->context, s, mh_model_trace_view(trace));
    code = status ? complain_texts(a, status) : EXIT_DONE;
    mh_model_trace_free(trace);
    mh_image_free(a->context, &image);
    return code;
}

static int complain_line(const text_arguments *a, mh_status status, size_t number)
{
    static const char *const names[] = {"texts[0]: ", "targets[0]: "};
    const char *message = mh_error_message(a->context);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strncmp(message, names[i], strlen(names[i])) == 0) {
            complain("text %zu: %s%s", number, i ? "the translation: " : "",
                     message + strlen(names[i]));
            return EXIT_INPUT;
        }
    return complain_text(a, status, number);
}

static int add_line(const text_arguments *a, const head_texts *t, size_t i, mh_head_statistics *s)
{
    if (!t->translator && is_picture(a, t->sources[i]))
        return add_picture(a, t->sources[i], s);
    const mh_status status =
        t->translator ? add_translation(a, t, i, s) : add_text(a, t->sources[i], s);
    return status ? complain_line(a, status, i + 1) : EXIT_DONE;
}

static mh_status count_words(const text_arguments *a, const head_texts *t, mh_head_statistics *s)
{
    mh_status status = MH_OK;
    for (size_t i = 0; i < t->count && !status; i++) {
        if (!t->translator && is_picture(a, t->sources[i]))
            continue;
        status = mh_head_statistics_count_words(a->context, s, t->sources[i]);
        if (!status && t->targets)
            status = mh_head_statistics_count_words(a->context, s, t->targets[i]);
    }
    return status;
}

int find_statistics(const text_arguments *a, const head_texts *t, const mh_head_options *options,
                    mh_head_statistics **s, size_t *refused)
{
    *refused = 0;
    mh_status status = mh_head_statistics_create(a->context, options, s);
    if (!status)
        status = count_words(a, t, *s);
    int code = status ? complain_status(a->context, status, NULL) : EXIT_DONE;
    for (size_t i = 0; i < t->count && code == EXIT_DONE; i++) {
        code = add_line(a, t, i, *s);
        if (code == EXIT_INPUT && t->count > 1) { // which has been said
            (*refused)++;
            code = EXIT_DONE;
        }
        progress_show(i + 1, t->count, reads_pictures(a) ? "pictures" : "texts");
    }
    progress_clear();
    return code == EXIT_DONE && *refused == t->count ? EXIT_INPUT : code;
}
