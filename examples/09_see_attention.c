// SPDX-License-Identifier: MIT
// Example 9: see what the heads attend to. Runs attention with two heads over a sentence, prints
// their weights as heatmaps, and writes an HTML page that shows every step.
//
// usage: 09_see_attention [PAGE.html]
#include <multihead/multihead.h>
#include <multihead/view.h>
#include <stdio.h>
#include <stdlib.h>

enum { H = 2, T = 4, E = 4 }; // heads, words, width

static const char *const words[T] = {"the", "cat,", "it", "purred"};

// Head 0 resolves references, head 1 attends to the previous word. Features of a word in head 0: a
// thing, an action, a stand-in, a filler; in head 1: its position.
static float q[H][T][E] = {{{6, 0, 0, 0}, {0, 4, 0, 0}, {8, 0, 0, 0}, {4, 0, 6, 0}},
                           {{9, 0, 0, 0}, {9, 0, 0, 0}, {0, 9, 0, 0}, {0, 0, 9, 0}}};
static float k[H][T][E] = {{{0, 0, 0, 1}, {1, 0, 0, 0}, {0, 0, 1, 0}, {0, 1, 0, 0}},
                           {{1, 0, 0, 0}, {0, 1, 0, 0}, {0, 0, 1, 0}, {0, 0, 0, 1}}};
static float v[H][T][E] = {{{0, 0, 0, 1}, {1, 0, 0, 0}, {0, 0, 1, 0}, {0, 1, 0, 0}},
                           {{1, 0, 0, 0}, {0, 1, 0, 0}, {0, 0, 1, 0}, {0, 0, 0, 1}}};
static float out[H][T][E], weights[H][T][T];

static mh_context *context;

static void must(mh_status status)
{
    if (status == MH_OK)
        return;
    fprintf(stderr, "09_see_attention: %s\n", mh_error_message(context));
    exit(EXIT_FAILURE);
}

int main(int argc, char **argv)
{
    if (mh_context_create(NULL, &context, NULL, 0) != MH_OK)
        return EXIT_FAILURE;
    mh_trace trace = mh_trace_default();
    mh_trace_group *group = &trace.groups[MH_TRACE_ATTENTION];
    trace.title = "The cat, it purred";
    trace.source = (mh_trace_tokens){.count = T, .text = words};
    group->q = mh_tensor_4d(q, MH_F32, 1, H, T, E);
    group->k = mh_tensor_4d(k, MH_F32, 1, H, T, E);
    group->v = mh_tensor_4d(v, MH_F32, 1, H, T, E);
    group->weights = mh_tensor_4d(weights, MH_F32, 1, H, T, T);

    // One layer, so that (layers, H, T, T) of the trace is (batch, H, T, T) of attention.
    mh_tensor result = mh_tensor_4d(out, MH_F32, 1, H, T, E);
    mh_attention_options options = mh_attention_options_default();
    options.weights = &group->weights;
    must(mh_attention_forward(context, &options, &group->q, &group->k, &group->v, &result));

    mh_buffer text;
    must(mh_view_text(context, NULL, &trace, &text));
    fputs(text.data, stdout);
    mh_buffer_free(context, &text);
    if (argc > 1)
        must(mh_view_page_write(context, NULL, &trace, argv[1]));
    mh_context_free(context);
    return weights[0][2][1] > 0.9f ? EXIT_SUCCESS : EXIT_FAILURE; // "it" is the cat
}
