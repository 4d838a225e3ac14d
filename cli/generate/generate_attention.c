// SPDX-License-Identifier: MIT
// What the heads attend to in a prompt and its continuation.
#include "generate_parts.h"
#include "messages.h"
#include "model_path.h"
#include "terminal.h"
#include "view/view_files.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

bool attention_asked(const generate *g)
{
    return g->shows_attention || g->page.path || g->trace.path;
}

static int print_heatmaps(const generate *g, const mh_trace *trace)
{
    mh_context *context = g->arguments.context;
    mh_view_options options = g->view;
    mh_buffer text = {0};
    options.width = terminal_width(STDOUT_FILENO);
    options.colour = terminal_has_colours();
    mh_status status = mh_view_text(context, &options, trace, &text);
    if (status)
        return complain_status(context, status, NULL);
    fwrite(text.data, 1, text.size, stdout);
    putchar('\n');
    mh_buffer_free(context, &text);
    return EXIT_DONE;
}

static int show_trace(const generate *g, const mh_trace *trace)
{
    int code = view_files_save(g->arguments.context, &g->view, trace, &g->page, &g->trace);
    return code == EXIT_DONE && g->shows_attention ? print_heatmaps(g, trace) : code;
}

char **name_tokens(const mh_tokenizer *tokenizer, const int32_t *ids, size_t count)
{
    size_t bytes = count * sizeof(char *);
    mh_text name;
    for (size_t i = 0; i < count; i++)
        bytes += (mh_tokenizer_name(tokenizer, ids[i], &name) ? name.size : 0) + 1;
    char **names = calloc(bytes, 1);
    char *at = names ? (char *)(names + count) : NULL;
    for (size_t i = 0; i < count && names; i++) {
        names[i] = at;
        if (mh_tokenizer_name(tokenizer, ids[i], &name)) {
            memcpy(at, name.bytes, name.size);
            at += name.size;
        }
        at++;
    }
    return names;
}

static int show_named(const generate *g, mh_text prompt, mh_text continuation, const mh_trace *made,
                      const int32_t *ids, size_t count)
{
    mh_trace trace = *made;
    char **names = name_tokens(mh_model_tokenizer(g->arguments.model), ids, count);
    char *title = strndup(prompt.bytes, prompt.size);
    char *written = strndup(continuation.bytes, continuation.size);
    int code = EXIT_MEMORY;
    if (names && title && written) {
        trace.title = title;
        trace.continuation = written;
        trace.model = model_name(g->arguments.directory);
        trace.target = (mh_trace_tokens){.count = count, .text = (const char *const *)names};
        code = show_trace(g, &trace);
    } else {
        complain("out of memory for %zu tokens", count);
    }
    free(names);
    free(title);
    free(written);
    return code;
}

int show_attention(const generate *g, mh_text prompt, const mh_generation *r)
{
    const text_arguments *a = &g->arguments;
    const size_t count = r->prompt_count + r->count;
    int32_t *ids = calloc(count + 1, sizeof *ids);
    mh_model_trace *made = NULL;
    if (!ids) {
        complain("out of memory for %zu tokens", count);
        return EXIT_MEMORY;
    }
    memcpy(ids, r->prompt, r->prompt_count * sizeof *ids);
    if (r->count)
        memcpy(ids + r->prompt_count, r->ids, r->count * sizeof *ids);
    mh_status status = mh_model_trace_ids(a->context, a->model, g->disabled, ids, count, &made);
    int code = status ? complain_texts(a, status)
                      : show_named(g, prompt, r->text, mh_model_trace_view(made), ids, count);
    mh_model_trace_free(made);
    free(ids);
    return code;
}
