// SPDX-License-Identifier: MIT
// The attention of a translation: heatmaps after it, a page, a trace.
#include "messages.h"
#include "model_path.h"
#include "translate.h"
#include "view/view_files.h"

bool attention_wanted(const attention *a) { return a->shows || a->page.path || a->trace.path; }

int attention_check(const attention *a, const mh_translator_config *config)
{
    const mh_view_options *o = &a->options;
    const size_t layers =
        o->kind == MH_TRACE_ENCODER ? config->num_encoder_layers : config->num_decoder_layers;
    const int code = check_index("--layer", o->layer, layers, "such layer", "such layers");
    return code == EXIT_DONE ? check_index("--head", o->head, config->nhead, "head", "heads")
                             : code;
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
        code = view_heatmaps_print(context, &a->options, &trace, to);
    if (code == EXIT_DONE && a->shows)
        fputc('\n', to); // translations are lines: an empty one ends the heatmaps
    mh_translation_trace_free(made);
    return code;
}
