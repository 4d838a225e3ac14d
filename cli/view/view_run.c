// SPDX-License-Identifier: MIT
// The curve of a training run; see view_run.h. The text comes first: it is shown even if the
// directory is not writable.
#include "view_run.h"
#include "messages.h"
#include "outputs.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

void view_run_check(struct argp_state *state, const view *v)
{
    const struct {
        const char *option;
        bool given;
    } others[] = {
        {"--axes", v->axes != AXES_NONE},
        {"--sequence", v->sequence >= 0},
        {"--tokens", v->tokens.path},
        {"--key-tokens", v->key_tokens.path},
        {"--title", v->title},
        {"--kind", v->options.kind != MH_TRACE_ANY},
        {"--layer", v->options.layer >= 0},
        {"--head", v->options.head >= 0},
        {"--bits", v->options.bits != 0},
        {"--color", v->colour != COLOUR_AUTO},
        {"--trace-out", v->files[FILE_TRACE].path},
    };
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (others[i].given)
            argp_error(state, "%s: a training run has no attention to show", others[i].option);
}

static int print_curve(const view *v, const char *log)
{
    mh_buffer text;
    mh_status status = mh_view_curve_text(v->context, log, v->options.width, &text);
    if (status != MH_OK)
        return complain_status(v->context, status, NULL);
    fwrite(text.data, 1, text.size, stdout);
    mh_buffer_free(v->context, &text);
    return EXIT_DONE;
}

static int write_curve(const view *v, const char *log, const char *path)
{
    begin_saving();
    mh_status status = mh_view_curve_write(v->context, log, path);
    end_saving();
    if (status != MH_OK)
        return complain_output(v->context, status, NULL);
    if (strcmp(path, STDOUT_PATH) != 0)
        printf("\n%s\n", path);
    return EXIT_DONE;
}

static bool is_page(const char *path)
{
    const size_t length = strlen(path);
    return length > 5 && strcmp(path + length - 5, ".html") == 0;
}

// Weights without --weights, and the page made of them, are likely mistakes.
static int check_directory(const char *directory)
{
    struct stat status;
    const bool exists = stat(directory, &status) == 0;
    if (exists && S_ISDIR(status.st_mode))
        return EXIT_DONE;
    if (exists && is_page(directory))
        complain("%s is a page: open it in a browser", directory);
    else if (exists)
        complain(
            "%s: is a file, expected the directory of a run, or --weights or --trace before it",
            directory);
    else if (is_page(directory))
        complain("%s: no such page; -o %s writes one of --weights or --trace", directory,
                 directory);
    else
        return EXIT_DONE; // opening its log reports it
    return EXIT_INPUT;
}

int view_run(view *v)
{
    int code = check_directory(v->run_directory);
    if (code != EXIT_DONE)
        return code;
    char *log = join_path(v->run_directory, "log.jsonl");
    char *default_path = join_path(v->run_directory, "loss.svg");
    code = log && default_path ? EXIT_DONE : EXIT_MEMORY;
    const char *path = v->files[FILE_PAGE].path ? v->files[FILE_PAGE].path : default_path;
    if (code == EXIT_DONE && strcmp(path, STDOUT_PATH) != 0)
        code = print_curve(v, log);
    if (code == EXIT_DONE)
        code = write_curve(v, log, path);
    free(log);
    free(default_path);
    return code;
}
