// SPDX-License-Identifier: MIT
// From the body of a request to the body of its answer: translates a text and traces its attention.
// The event loop may cancel it at any step of the search.
#include "messages.h"
#include "server.h"
#include "translate/translate.h"

#include <jansson.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

// ---- errors -------------------------------------------------------------------------------------

static answer answer_json(int code, json_t *json)
{
    answer result = {.code = code};
    result.body = json ? json_dumps(json, JSON_COMPACT) : NULL;
    result.size = result.body ? strlen(result.body) : 0;
    json_decref(json);
    return result;
}

// JSON is UTF-8; request headers, which messages quote, need not be.
static void make_valid(char *text)
{
    const size_t size = strlen(text);
    for (size_t at = 0; (at += mh_utf8_valid(text + at, size - at)) < size;)
        text[at] = '?';
}

answer answer_error(int code, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    char *message = NULL;
    if (vasprintf(&message, format, arguments) < 0)
        message = NULL;
    va_end(arguments);
    if (message)
        make_valid(message);
    const answer result = answer_json(code, json_pack("{s:s}", "error", message ? message : ""));
    free(message);
    return result;
}

static answer answer_status(mh_context *context, mh_status status)
{
    const bool ours = status != MH_ERROR_MEMORY;
    return answer_error(ours ? 500 : 503, "%s", mh_error_message(context));
}

// ---- a text -------------------------------------------------------------------------------------

typedef struct request {
    json_t *json; // owns the text
    mh_text text;
    bool *disabled; // heads; NULL: none
} request;

// A translation and its trace as the one object that the page expects.
static answer put_together(const mh_translation *t, const mh_buffer *data)
{
    json_t *json = json_pack("{s:s%,s:f,s:f}", "translation", t->text.bytes, t->text.size, "score",
                             t->score, "log_probability", t->log_probability);
    char *head = json ? json_dumps(json, JSON_COMPACT) : NULL;
    json_decref(json);
    answer result = {.code = 200};
    const size_t size = head ? strlen(head) : 0; // "{...}" and "{...}" become "{...,...}"
    result.body = head ? malloc(size + data->size + 1) : NULL;
    if (result.body) {
        memcpy(result.body, head, size);
        result.body[size - 1] = ',';
        memcpy(result.body + size, data->data + 1, data->size);
        result.size = size + data->size - 1;
    }
    free(head);
    return result;
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

static answer answer_translation(const queue *q, mh_context *context, const request *r,
                                 const mh_translations *found)
{
    const mh_translation *t = mh_translations_at(found, 0, 0);
    mh_translation_trace *trace = NULL;
    mh_buffer data = {0};
    size_t count;
    mh_trace_hypothesis *hypotheses = list_hypotheses(found, &count);
    if (!hypotheses)
        return answer_error(503, "out of memory");
    mh_status status = mh_translation_trace_create(context, q->translator, r->disabled, r->text,
                                                   t->ids, t->count, &trace);
    if (!status) {
        mh_trace named = *mh_translation_trace_view(trace);
        named.model = q->model;
        named.hypotheses = hypotheses;
        named.hypothesis_count = count;
        status = mh_view_data(context, NULL, &named, &data);
    }
    const answer result = status ? answer_status(context, status) : put_together(t, &data);
    mh_buffer_free(context, &data);
    mh_translation_trace_free(trace);
    free(hypotheses);
    return result;
}

// The error for an invalid text; code 0: it is valid. A text that is too long for the model at once
// has no trace.
static answer answer_refuse_text(const queue *q, mh_context *context, mh_text text)
{
    const size_t most = mh_translator_configuration(q->translator)->max_length - 1;
    mh_tokens tokens = {0};
    const mh_status status = mh_translator_encode(context, q->translator, text, &tokens);
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

static answer answer_translate(const queue *q, mh_context *context, const request *r, job *j)
{
    const answer refusal = answer_refuse_text(q, context, r->text);
    if (refusal.code)
        return refusal;
    mh_translate_options options = mh_translate_options_default();
    options.n_best = options.beam; // the page shows what else was found
    options.disabled_heads = r->disabled;
    options.progress = is_wanted;
    options.progress_user = j;
    mh_translations *translations;
    const mh_status status =
        mh_translate(context, q->translator, &options, &r->text, 1, &translations);
    if (status)
        return answer_status(context, status);
    answer result = {0}; // discarded if it was cancelled
    if (!atomic_load(&j->cancelled))
        result = mh_translations_at(translations, 0, 0)
                     ? answer_translation(q, context, r, translations)
                     : answer_error(500, "the model found no translation");
    mh_translations_free(translations);
    return result;
}

// ---- a request ----------------------------------------------------------------------------------

static void request_free(request *r)
{
    json_decref(r->json);
    free(r->disabled);
}

// Members of {"disabled_heads": ["cross.2.0", ...]}. The answer has code 0 if they are valid.
static answer request_read_heads(const queue *q, const json_t *list, request *r)
{
    const mh_translator_config *config = mh_translator_configuration(q->translator);
    const json_t *item;
    size_t i;
    if (!json_is_array(list))
        return answer_error(400, "disabled_heads: expected a list of strings");
    r->disabled = calloc(heads_count(config), sizeof *r->disabled);
    if (!r->disabled)
        return answer_error(503, "out of memory");
    json_array_foreach(list, i, item)
    {
        const char *name = json_string_value(item);
        if (!name)
            return answer_error(400, "disabled_heads[%zu]: expected a string", i);
        const heads_found found = heads_disable(name, config, r->disabled);
        if (found.problem == HEADS_NO_NAME)
            return answer_error(422,
                                "disabled_heads[%zu]: found '%.40s', expected enc.LAYER.HEAD, "
                                "dec.LAYER.HEAD or cross.LAYER.HEAD, from 0",
                                i, name);
        if (found.problem)
            return answer_error(422,
                                "disabled_heads[%zu]: found '%.40s', but the model has %zu layers "
                                "of %zu heads there",
                                i, name, found.layers, config->nhead);
    }
    return (answer){0};
}

// Reads {"text": "...", "disabled_heads": [...]}. The answer has code 0 if it is valid.
static answer request_read(const queue *q, const char *body, size_t size, request *r)
{
    json_error_t error;
    const size_t valid = mh_utf8_valid(body, size);
    if (valid < size)
        return answer_error(400, "byte %zu (0x%02x) is not valid UTF-8", valid + 1,
                            (unsigned char)body[valid]);
    r->json = json_loadb(body, size, JSON_REJECT_DUPLICATES, &error);
    if (!r->json)
        return answer_error(400, "not JSON: %s (byte %d)", error.text, error.position);
    const json_t *string = json_object_get(r->json, "text");
    const json_t *heads = json_object_get(r->json, "disabled_heads");
    if (!json_is_string(string))
        return answer_error(400, "expected an object {\"text\": \"...\"}");
    r->text = (mh_text){json_string_value(string), json_string_length(string)};
    return heads ? request_read_heads(q, heads, r) : (answer){0};
}

answer answer_job(const queue *q, mh_context *context, job *j)
{
    request r = {0};
    if (atomic_load(&j->cancelled))
        return (answer){0};
    answer result = request_read(q, j->body, j->size, &r);
    if (!result.code)
        result = answer_translate(q, context, &r, j);
    request_free(&r);
    return result;
}
