// SPDX-License-Identifier: MIT
// The attention of a translation: heatmaps after it, a page, a trace.
#include "messages.h"
#include "model_path.h"
#include "terminal.h"
#include "translate/translate.h"

#include <stdlib.h>
#include <unistd.h>

bool attention_wanted(const attention *a) { return a->shows || a->page.path || a->trace.path; }

int attention_check(const attention *a, const mh_translator_config *config)
{
    const mh_view_options *o = &a->options;
    const size_t layers =
        o->kind == MH_TRACE_ENCODER ? config->num_encoder_layers : config->num_decoder_layers;
    if (o->layer >= (ptrdiff_t)layers)
        complain("--layer: found %td, but the model has %zu such %s, from 0", o->layer, layers,
                 plural(layers, "layer", "layers"));
    else if (o->head >= (ptrdiff_t)config->nhead)
        complain("--head: found %td, but the model has %zu %s, from 0", o->head, config->nhead,
                 plural(config->nhead, "head", "heads"));
    else
        return EXIT_DONE;
    return EXIT_USAGE;
}

static int attention_show(const attention *a, mh_context *context, const mh_trace *trace, FILE *to)
{
    mh_view_options options = a->options;
    mh_buffer text = {0};
    if (options.width == 0)
        options.width = terminal_width(STDOUT_FILENO);
    options.colour = to == stdout && terminal_has_colours();
    mh_status status = mh_view_text(context, &options, trace, &text);
    if (status)
        return complain_status(context, status, NULL);
    fwrite(text.data, 1, text.size, to);
    fputc('\n', to); // translations are lines: an empty one ends the heatmaps
    mh_buffer_free(context, &text);
    return EXIT_DONE;
}

int attention_print(const attention *a, mh_context *context, const mh_translator *translator,
                    const bool *disabled, mh_text source, const mh_translation *translation,
                    size_t number, FILE *to)
{
    mh_translation_trace *made;
    mh_status status = mh_translation_trace_create(context, translator, disabled, source,
                                                   translation->ids, translation->count, &made);
    if (status) {
        complain("text %zu: %s", number, mh_error_message(context));
        return status == MH_ERROR_MEMORY ? EXIT_MEMORY : EXIT_INPUT;
    }
    mh_trace trace = *mh_translation_trace_view(made);
    trace.model = model_name(a->model);
    int code = view_files_save(context, &a->options, &trace, &a->page, &a->trace);
    if (code == EXIT_DONE && a->shows)
        code = attention_show(a, context, &trace, to);
    mh_translation_trace_free(made);
    return code;
}
