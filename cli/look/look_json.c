// SPDX-License-Identifier: MIT
// The weights that heatmaps show, as JSON:
//
//     {"text": ..., "kind": "cross", "layer": 2, "queries": ["Le", ...], "keys": ["The", ...],
//      "heads": [{"head": 0, "weights": [[0.1, ...], ...]}, ...]}
#include "look.h"
#include "report.h"

#include <stdio.h>
#include <string.h>

static void put_tokens(const char *name, const mh_trace_tokens *tokens)
{
    printf(", \"%s\": [", name);
    for (size_t i = 0; i < tokens->count; i++) {
        fputs(i ? ", " : "", stdout);
        put_json_string(stdout, tokens->text[i], strlen(tokens->text[i]));
    }
    putchar(']');
}

static void put_weights(const mh_tensor *w, size_t layer, size_t head)
{
    const char *from = (const char *)w->data;
    for (size_t t = 0; t < w->shape[2]; t++) {
        fputs(t ? ", [" : "[", stdout);
        for (size_t s = 0; s < w->shape[3]; s++) {
            const ptrdiff_t at = (ptrdiff_t)layer * w->stride[0] + (ptrdiff_t)head * w->stride[1] +
                                 (ptrdiff_t)t * w->stride[2] + (ptrdiff_t)s * w->stride[3];
            printf("%s%.6g", s ? ", " : "", (double)((const float *)(const void *)from)[at]);
        }
        putchar(']');
    }
}

static mh_trace_kind shown_kind(const mh_trace *trace, const mh_view_options *shown)
{
    static const mh_trace_kind order[] = {MH_TRACE_CROSS, MH_TRACE_ENCODER, MH_TRACE_DECODER};
    if (shown->kind != MH_TRACE_ANY)
        return shown->kind;
    for (size_t i = 0; i < sizeof order / sizeof *order; i++)
        if (trace->groups[order[i]].weights.data)
            return order[i];
    return MH_TRACE_ATTENTION;
}

int print_weights_json(const mh_trace *trace, const mh_view_options *shown)
{
    const mh_trace_kind kind = shown_kind(trace, shown);
    const mh_tensor *w = &trace->groups[kind].weights;
    const mh_trace_tokens *keys = kind == MH_TRACE_DECODER ? &trace->target : &trace->source;
    const mh_trace_tokens *queries = kind == MH_TRACE_ENCODER ? &trace->source : &trace->target;
    if (kind == MH_TRACE_DECODER && trace->given.count)
        keys = queries = &trace->given;
    const size_t layer = shown->layer < 0 ? w->shape[0] - 1 : (size_t)shown->layer;
    const size_t first = shown->head < 0 ? 0 : (size_t)shown->head;
    const size_t end = shown->head < 0 ? w->shape[1] : first + 1;
    const char *title = trace->title ? trace->title : "";
    printf("{\"text\": ");
    put_json_string(stdout, title, strlen(title));
    printf(", \"kind\": \"%s\", \"layer\": %zu", mh_trace_kind_name(kind), layer);
    put_tokens("queries", queries);
    put_tokens("keys", keys);
    fputs(", \"heads\": [", stdout);
    for (size_t h = first; h < end; h++) {
        printf("%s{\"head\": %zu, \"weights\": [", h > first ? ", " : "", h);
        put_weights(w, layer, h);
        fputs("]}", stdout);
    }
    fputs("]}\n", stdout);
    return EXIT_DONE;
}
