// SPDX-License-Identifier: MIT
// multihead translate: sentences from the command line, a file or standard input, through a model.
#include "lines.h"
#include "messages.h"
#include "model_path.h"
#include "progress.h"
#include "ranks.h"
#include "translate.h"

#include <multihead/io.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BLOCK = 2048 }; // lines that are read, sorted by length and translated together

// ---- texts --------------------------------------------------------------------------------------

static bool show_progress(void *user, size_t done, size_t total)
{
    const translate *t = user;
    const size_t most = BLOCK * t->ranks.ranks, left = t->total - t->number;
    const size_t block = left < most ? left : most;
    if (t->total && done > 0) // 0: between the steps of a single batch
        progress_show(t->number + done * block / total, t->total, "lines");
    return true;
}

// What is wrong with the one text or its --target, which the library calls texts[0] and targets[0].
static int complain_target(const translate *t, mh_status status)
{
    static const char *const names[][2] = {{"texts[0]", "text 1"}, {"targets[0]", "--target"}};
    const char *message = mh_error_message(t->context);
    for (size_t i = 0; i < 2; i++) {
        const size_t size = strlen(names[i][0]);
        if (strncmp(message, names[i][0], size) == 0) {
            complain("%s%s", names[i][1], message + size);
            return EXIT_INPUT;
        }
    }
    return complain_status(t->context, status, NULL);
}

int translate_texts(translate *t, const mh_text *texts, size_t count)
{
    mh_translations *translations;
    const mh_text target = {t->target, t->target ? strlen(t->target) : 0};
    mh_status status = t->target ? mh_score_translations(t->context, t->translator, &t->options,
                                                         texts, &target, count, &translations)
                                 : mh_translate(t->context, t->translator, &t->options, texts,
                                                count, &translations);
    if (status)
        return t->target ? complain_target(t, status) : complain_status(t->context, status, NULL);
    progress_clear();
    t->printing.tokenizer = mh_translator_tokenizer(t->translator);
    int code = EXIT_DONE;
    for (size_t i = 0; i < count && code == EXIT_DONE; i++) {
        const size_t number = t->number + 1;
        t->number += t->step;
        code =
            t->target && !t->printing.json
                ? print_given(&t->printing, t->context, mh_translator_tokenizer(t->translator),
                              mh_translations_at(translations, i, 0))
                : print_translations(&t->printing, t->context, translations, i, number, texts[i]);
        if (code == EXIT_DONE && attention_wanted(&t->attention))
            code = attention_print(&t->attention, t->context, t->translator, t->disabled, texts[i],
                                   mh_translations_at(translations, i, 0), number, t->printing.to);
        if (t->ends)
            t->ends[i] = (uint64_t)ftell(t->printing.to);
    }
    mh_translations_free(translations);
    return code;
}

// True if there was a note.
static bool note_language(const translate *t, const mh_text *texts, size_t count)
{
    char which[32];
    const size_t i = is_quiet() ? count : languages_find_other(&t->languages, texts, count);
    const char *name = model_name(t->model_directory);
    snprintf(which, sizeof which, "text %zu", t->number + i + 1);
    char *line = i < count ? language_note(&t->languages, name, which, texts[i]) : NULL;
    if (line)
        note("%s", line);
    free(line);
    return i < count;
}

// Attention and given translations are rank 0's alone.
static int translate_block(translate *t, const mh_text *texts, size_t count)
{
    t->noted = t->noted || note_language(t, texts, count);
    const bool shared = t->ranks.ranks > 1 && !t->target && !attention_wanted(&t->attention);
    int code = shared ? translate_share(t, texts, count) : translate_texts(t, texts, count);
    if (code == EXIT_DONE && t->printing.to == stdout)
        code = flush_stdout(); // so that a waiting reader gets them; stops if it is gone
    return code;
}

static int translate_arguments(translate *t)
{
    for (size_t i = 0; i < t->text_count; i++) {
        const mh_text text = {t->texts[i], strlen(t->texts[i])};
        const size_t valid = mh_utf8_valid(text.bytes, text.size);
        if (valid < text.size) {
            complain("text %zu: byte %zu (0x%02x) is not valid UTF-8", i + 1, valid + 1,
                     (unsigned char)text.bytes[valid]);
            return EXIT_INPUT;
        }
    }
    int code = EXIT_DONE;
    for (size_t i = 0; i < t->text_count && code == EXIT_DONE; i++) {
        const mh_text text = {t->texts[i], strlen(t->texts[i])};
        code = translate_block(t, &text, 1);
    }
    return code;
}

static int translate_file(translate *t)
{
    lines l;
    int code = lines_read(t->input_path, &l);
    t->total = l.count;
    lines_clean(l.items, l.count, true);
    const size_t block = BLOCK * t->ranks.ranks;
    for (size_t first = 0; first < l.count && code == EXIT_DONE; first += block)
        code =
            translate_block(t, l.items + first, l.count - first < block ? l.count - first : block);
    progress_clear();
    lines_free(&l);
    return code;
}

static int translate_stream(translate *t)
{
    line_stream s = {.descriptor = STDIN_FILENO,
                     .prompts = isatty(STDIN_FILENO) && isatty(STDERR_FILENO) && !is_quiet()};
    int code = stream_take(&s, BLOCK * t->ranks.ranks);
    while (code == EXIT_DONE && s.count > 0) {
        lines_clean(s.items, s.count, t->number == 0);
        size_t good = 0; // lines before an invalid one are translated
        while (good < s.count &&
               mh_utf8_valid(s.items[good].bytes, s.items[good].size) == s.items[good].size)
            good++;
        code = good ? translate_block(t, s.items, good) : EXIT_DONE;
        if (code == EXIT_DONE && good < s.count)
            code = check_line("standard input", t->number + 1, s.items[good]);
        if (code == EXIT_DONE)
            code = stream_take(&s, BLOCK * t->ranks.ranks);
    }
    stream_free(&s);
    return code;
}

// ---- all of it ----------------------------------------------------------------------------------

static int translate_open_model(translate *t)
{
    int code = model_path_find(t->model_name, &t->model_directory);
    if (code == EXIT_DONE)
        code = open_context(&t->common, &t->context);
    if (code != EXIT_DONE)
        return code;
    t->attention.model = t->model_directory;
    mh_status status =
        mh_translator_load_with(t->context, t->model_directory, &t->loading, &t->translator);
    if (status)
        return complain_input(t->context, status);
    t->languages = languages_of_model(t->translator, t->model_directory);
    const mh_translator_config *config = mh_translator_configuration(t->translator);
    if (t->options.alignment_layer >= (int)config->num_decoder_layers) {
        complain("--alignment-layer: found %d, but the model has %zu decoder %s",
                 t->options.alignment_layer, config->num_decoder_layers,
                 plural(config->num_decoder_layers, "layer", "layers"));
        return EXIT_USAGE;
    }
    code = attention_check(&t->attention, config);
    if (code != EXIT_DONE)
        return code;
    code = heads_find(&t->heads, config, &t->disabled);
    t->options.disabled_heads = t->disabled;
    t->options.progress = show_progress;
    t->options.progress_user = t;
    return code;
}

static int translate_all(translate *t)
{
    return t->text_count > 0 ? translate_arguments(t)
           : t->input_path   ? translate_file(t)
                             : translate_stream(t);
}

// Everything is in memory before the file is touched.
static int translate_to_file(translate *t)
{
    char *bytes = NULL;
    size_t size = 0;
    t->printing.to = open_memstream(&bytes, &size);
    if (!t->printing.to) {
        complain("out of memory for %s", t->output_path);
        return EXIT_MEMORY;
    }
    int code = translate_all(t);
    const bool failed = ferror(t->printing.to) != 0;
    if ((fclose(t->printing.to) != 0 || failed) && code == EXIT_DONE) {
        complain("out of memory for %s", t->output_path);
        code = EXIT_MEMORY;
    }
    if (code == EXIT_DONE) {
        begin_saving();
        mh_status status = mh_bytes_write(t->context, t->output_path, bytes, size);
        code = status ? complain_output(t->context, status, NULL) : EXIT_DONE;
        end_saving();
    }
    free(bytes);
    return code;
}

static int translate_own(translate *t)
{
    return t->output_path ? translate_to_file(t) : translate_all(t);
}

static int translate_with_ranks(translate *t)
{
    int code = translate_compare(t);
    if (code != EXIT_DONE)
        return code;
    if (t->ranks.rank > 0)
        return translate_follow(t);
    code = translate_own(t);
    translate_end(t, code);
    return code;
}

static int run_translate(int argc, char **argv)
{
    translate t = {.common = {.command = &translate_command},
                   .loading = mh_translator_load_options_default(),
                   .options = mh_translate_options_default(),
                   .printing = {.to = stdout},
                   .step = 1,
                   .attention = {.page = {.option = "--attention"},
                                 .trace = {.option = "--trace-out"},
                                 .options = mh_view_options_default()}};
    t.attention.options.width = 0; // the terminal's
    ranks_silence();
    int code = ranks_open(&t.ranks);
    if (code != EXIT_DONE)
        return code;
    code = parse_arguments(&translate_argp, argc, argv, &t);
    if (code == EXIT_DONE)
        code = translate_open_model(&t);
    code = ranks_agree(&t.ranks, code);
    if (code == EXIT_DONE && t.ranks.ranks > 1)
        code = translate_with_ranks(&t);
    else if (code == EXIT_DONE)
        code = translate_own(&t);
    ranks_close(&t.ranks);
    mh_translator_free(t.translator);
    mh_context_free(t.context);
    free(t.model_directory);
    free(t.disabled);
    free(t.heads.names);
    return code;
}

const command translate_command = {
    .name = "translate",
    .summary = "translate sentences with a trained model",
    .argp = &translate_argp,
    .run = run_translate,
};
