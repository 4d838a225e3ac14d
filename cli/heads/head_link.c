// SPDX-License-Identifier: MIT
// Which heads link one word to another, over all texts that have both; see heads_parts.h.
#include "heads_parts.h"
#include "messages.h"
#include "pretrained/pictures.h"
#include "progress.h"

#include <stdlib.h>
#include <string.h>

// What the encoder reads: of a model that translates, the line up to a tab.
static mh_text source_of(const text_arguments *a, mh_text line)
{
    const bool translates = mh_model_describe(a->model)->abilities & MH_CAN_TRANSLATE;
    const char *tab = translates ? memchr(line.bytes, '\t', line.size) : NULL;
    return tab ? (mh_text){line.bytes, (size_t)(tab - line.bytes)} : line;
}

static int add_linked_text(const text_arguments *a, const link_words *words, size_t i,
                           link_sums *sums)
{
    mh_model_trace *trace = NULL;
    const mh_status status =
        mh_model_trace_create(a->context, a->model, NULL, source_of(a, a->texts[i]), NULL, &trace);
    int code = status ? complain_text(a, status, i + 1) : EXIT_DONE;
    if (!status && !links_add(mh_model_trace_view(trace), words, sums)) {
        complain("out of memory for heads");
        code = EXIT_MEMORY;
    }
    mh_model_trace_free(trace);
    return code;
}

static void print_sums(const text_arguments *a, const link_words *words, const link_sums *sums)
{
    head_link links[LINKS_SHOWN];
    size_t count;
    links_rank(sums, links, &count);
    if (a->json) {
        printf("{\"texts\": %zu, \"with_both\": %zu, ", a->count, sums->texts);
        links_print_json(words, links, count);
        printf("}\n");
        return;
    }
    printf("%zu of %zu %s %s both words\n", sums->texts, a->count,
           plural(a->count, "text", "texts"), sums->texts == 1 ? "has" : "have");
    links_print(words, links, count);
}

int show_links(const text_arguments *a, const link_words *words)
{
    link_sums sums = {0};
    int code = EXIT_DONE;
    if (reads_pictures(a)) {
        complain("--link is for texts, and this model reads pictures");
        return EXIT_USAGE;
    }
    if (a->count == 0) {
        complain("found no texts, expected at least 1");
        return EXIT_INPUT;
    }
    for (size_t i = 0; i < a->count && code == EXIT_DONE; i++) {
        code = add_linked_text(a, words, i, &sums);
        progress_show(i + 1, a->count, "texts");
    }
    progress_clear();
    if (code == EXIT_DONE && sums.texts == 0) {
        complain("--link: found no text with both '%s' and '%s', expected at least 1", words->first,
                 words->second);
        code = EXIT_USAGE;
    }
    if (code == EXIT_DONE)
        print_sums(a, words, &sums);
    free(sums.heads);
    return code;
}
