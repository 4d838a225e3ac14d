// SPDX-License-Identifier: MIT
// Translates a text and traces its attention. The event loop may cancel it at any step of the
// search.
#include "messages.h"
#include "server.h"

#include <stdlib.h>

// ---- the answer ---------------------------------------------------------------------------------

// With a note if the text seems to be in another language than the model's.
static json_t *describe_translation(const served_model *served, mh_text source,
                                    const mh_translation *t)
{
    char *line = language_note(&served->languages, NULL, "the text", source);
    json_t *json =
        json_pack("{s:s%,s:f,s:f,s:s*}", "translation", t->text.bytes, t->text.size, "score",
                  t->score, "log_probability", t->log_probability, "note", line);
    free(line);
    return json;
}

// All hypotheses of the search; free() them.
static mh_trace_hypothesis *list_hypotheses(const mh_translations *translations, size_t *count)
{
    for (*count = 0; mh_translations_at(translations, 0, *count);)
        ++*count;
    mh_trace_hypothesis *list = calloc(*count + 1, sizeof *list);
    for (size_t i = 0; list && i < *count; i++) {
        const mh_translation *t = mh_translations_at(translations, 0, i);
        list[i] = (mh_trace_hypothesis){.text = t->text.bytes, .score = t->score};
    }
    return list;
}

static answer answer_translation(const served_model *served, mh_context *context, const request *r,
                                 const mh_translations *found)
{
    const mh_translation *t = mh_translations_at(found, 0, 0);
    mh_translation_trace *trace = NULL;
    size_t count;
    mh_trace_hypothesis *hypotheses = list_hypotheses(found, &count);
    if (!hypotheses)
        return answer_error(503, "out of memory");
    const mh_status status = mh_translation_trace_create(context, served->translator, r->disabled,
                                                         r->text, t->ids, t->count, &trace);
    answer result = {0};
    if (status) {
        result = answer_status(context, status);
    } else {
        mh_trace named = *mh_translation_trace_view(trace);
        named.model = served->name;
        named.hypotheses = hypotheses;
        named.hypothesis_count = count;
        result = answer_trace(context, describe_translation(served, r->text, t), &named);
    }
    mh_translation_trace_free(trace);
    free(hypotheses);
    return result;
}

// The error for an invalid text; code 0: it is valid. A text that is too long for the model at once
// has no trace.
static answer answer_refuse_text(const served_model *served, mh_context *context, mh_text text)
{
    const size_t most = mh_translator_configuration(served->translator)->max_length - 1;
    mh_tokens tokens = {0};
    const mh_status status = mh_translator_encode(context, served->translator, text, &tokens);
    const size_t count = tokens.count;
    mh_tokens_free(context, &tokens);
    if (status)
        return answer_status(context, status);
    if (count == 0)
        return answer_error(422, "the text is empty; type a sentence to translate");
    if (count > most)
        return answer_error(422,
                            "the text has %zu tokens, and the model takes at most %zu; try one "
                            "sentence at a time",
                            count, most);
    return (answer){0};
}

static bool is_wanted(void *user, size_t done, size_t total)
{
    (void)done;
    (void)total;
    return !atomic_load(&((job *)user)->cancelled);
}

answer answer_translate(const served_model *served, mh_context *context, const request *r, job *j)
{
    const answer refusal = answer_refuse_text(served, context, r->text);
    if (refusal.code)
        return refusal;
    mh_translate_options options = mh_translate_options_default();
    options.n_best = options.beam; // the page shows what else was found
    options.disabled_heads = r->disabled;
    options.progress = is_wanted;
    options.progress_user = j;
    mh_translations *translations;
    const mh_status status =
        mh_translate(context, served->translator, &options, &r->text, 1, &translations);
    if (status)
        return answer_status(context, status);
    answer result = {0}; // discarded if it was cancelled
    if (!atomic_load(&j->cancelled))
        result = mh_translations_at(translations, 0, 0)
                     ? answer_translation(served, context, r, translations)
                     : answer_error(500, "the model found no translation");
    mh_translations_free(translations);
    return result;
}
