// SPDX-License-Identifier: MIT
// What the heads attend to in a prompt and its continuation.
#include "generate_parts.h"
#include "messages.h"
#include "model_path.h"
#include "view/view_files.h"

#include <stdlib.h>
#include <string.h>

bool attention_asked(const generate *g)
{
    return g->shows_attention || g->page.path || g->trace.path;
}

static int show_trace(const generate *g, const mh_trace *trace)
{
    mh_context *context = g->arguments.context;
    int code = view_files_save(context, &g->view, trace, &g->page, &g->trace);
    if (code == EXIT_DONE && g->shows_attention)
        code = view_heatmaps_print(context, &g->view, trace, stdout);
    if (code == EXIT_DONE && g->shows_attention)
        putchar('\n');
    return code;
}

// A token as it is shown: bytes of text, U+2581 for a space before them; or a special token's name.
static mh_text shown_text(const mh_tokenizer *tokenizer, int32_t id, bool *space)
{
    mh_text text = {"", 0};
    mh_token_kind kind = MH_TOKEN_SPECIAL;
    mh_tokenizer_token(tokenizer, id, &text, &kind);
    *space = kind == MH_TOKEN_TEXT && text.size > 0 && text.bytes[0] == ' ';
    return *space ? (mh_text){text.bytes + 1, text.size - 1} : text;
}

char **name_tokens(const mh_tokenizer *tokenizer, const int32_t *ids, size_t count)
{
    static const char mark[] = "\xE2\x96\x81";
    size_t bytes = count * sizeof(char *);
    bool space;
    for (size_t i = 0; i < count; i++)
        bytes += shown_text(tokenizer, ids[i], &space).size + sizeof mark;
    char **names = calloc(bytes, 1);
    char *at = names ? (char *)(names + count) : NULL;
    for (size_t i = 0; i < count && names; i++) {
        const mh_text text = shown_text(tokenizer, ids[i], &space);
        names[i] = at;
        if (space) {
            memcpy(at, mark, sizeof mark - 1);
            at += sizeof mark - 1;
        }
        if (text.size)
            memcpy(at, text.bytes, text.size);
        at += text.size + 1;
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
