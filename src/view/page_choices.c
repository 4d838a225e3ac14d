// SPDX-License-Identifier: MIT
// The parts of a page's description that say what a decoder chose from; see page_data.h.
#include "view/page_data.h"

#include <math.h>

#include "view/token_text.h"

static json_t *list_texts(mh_context *context, const char *const *text, size_t count)
{
    json_t *list = json_array();
    for (size_t i = 0; list != NULL && i < count; i++)
        if (json_array_append_new(list, mh_json_text(context, text[i])) != 0) {
            json_decref(list);
            list = NULL;
        }
    return list;
}

// In millionths, which are shorter than decimal fractions; only what is 0, or not there, becomes 0.
static json_int_t millionths(float probability)
{
    const long rounded = lround((double)probability * 1e6);
    return probability > 0 && rounded == 0 ? 1 : rounded;
}

static json_t *list_probabilities(const float *probability, size_t count)
{
    json_t *list = json_array();
    for (size_t i = 0; list != NULL && i < count; i++)
        if (json_array_append_new(list, json_integer(millionths(probability[i]))) != 0) {
            json_decref(list);
            list = NULL;
        }
    return list;
}

json_t *mh_page_choices(mh_context *context, const mh_trace *trace)
{
    const mh_trace_choices *c = &trace->choices;
    const size_t T = trace->target.count;
    json_t *choices = json_object();
    if (json_object_set_new(choices, "count", json_integer((json_int_t)c->count)) == 0 &&
        json_object_set_new(choices, "tokens", list_texts(context, c->text, T * c->count)) == 0 &&
        json_object_set_new(choices, "probabilities",
                            list_probabilities(c->probability, T * c->count)) == 0 &&
        json_object_set_new(choices, "chosen", list_probabilities(c->chosen, T)) == 0)
        return choices;
    json_decref(choices);
    return NULL;
}

// Appends {"text": text, name: value}; NULL, and no list any more, if out of memory.
static json_t *append_valued(mh_context *context, json_t *list, const char *text, const char *name,
                             double value)
{
    json_t *one = json_object();
    const bool done = json_object_set_new(one, "text", mh_json_text(context, text)) == 0 &&
                      json_object_set_new(one, name, json_real(value)) == 0;
    if (json_array_append(list, done ? one : NULL) != 0) {
        json_decref(list);
        list = NULL;
    }
    json_decref(one);
    return list;
}

json_t *mh_page_hypotheses(mh_context *context, const mh_trace *trace)
{
    json_t *list = json_array();
    for (size_t i = 0; list != NULL && i < trace->hypothesis_count; i++)
        list = append_valued(context, list, trace->hypotheses[i].text, "score",
                             trace->hypotheses[i].score);
    return list;
}

json_t *mh_page_labels(mh_context *context, const mh_trace *trace)
{
    json_t *list = json_array();
    for (size_t i = 0; list != NULL && i < trace->label_count; i++)
        list = append_valued(context, list, trace->labels[i].text, "probability",
                             trace->labels[i].probability);
    return list;
}
