// SPDX-License-Identifier: MIT
// Example 13: see what the heads of a pretrained model attend to. Runs one text through the model,
// prints the last layer's heads as heatmaps, and writes an HTML page with every layer.
//
// usage: 13_look_at_heads [MODEL TEXT [PAGE.html]]
//
// Without arguments it runs a tiny model of this project's tests, which has no tokenizer, on ids.
#include <multihead/pretrained.h>
#include <stdio.h>
#include <stdlib.h>

static mh_context *context;

static void must(mh_status status)
{
    if (status == MH_OK)
        return;
    fprintf(stderr, "13_look_at_heads: %s\n", mh_error_message(context));
    exit(EXIT_FAILURE);
}

// The trace of a text, or of ids if there is none.
static mh_model_trace *trace_of(const mh_model *model, const char *text)
{
    static const int32_t ids[] = {2, 17, 42, 8, 3};
    mh_model_trace *trace;
    if (text)
        must(mh_model_trace_create(context, model, NULL, (mh_text){text, strlen(text)}, NULL,
                                   &trace));
    else
        must(mh_model_trace_ids(context, model, NULL, ids, sizeof ids / sizeof *ids, &trace));
    return trace;
}

int main(int argc, char **argv)
{
    if (argc == 2) {
        fprintf(stderr, "usage: 13_look_at_heads [MODEL TEXT [PAGE.html]]\n");
        return EXIT_FAILURE;
    }
    if (mh_context_create(NULL, &context, NULL, 0) != MH_OK)
        return EXIT_FAILURE;
    mh_model *model;
    must(mh_model_load(context, argc > 1 ? argv[1] : "tests/goldens/models/bert", NULL, &model));
    mh_model_trace *trace = trace_of(model, argc > 2 ? argv[2] : NULL);

    mh_buffer text;
    must(mh_view_text(context, NULL, mh_model_trace_view(trace), &text));
    fputs(text.data, stdout);
    mh_buffer_free(context, &text);
    if (argc > 3)
        must(mh_view_page_write(context, NULL, mh_model_trace_view(trace), argv[3]));

    mh_model_trace_free(trace);
    mh_model_free(model);
    mh_context_free(context);
    return EXIT_SUCCESS;
}
