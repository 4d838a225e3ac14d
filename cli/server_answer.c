// SPDX-License-Identifier: MIT
// From the body of a request to the body of its answer: a text is translated, and a trace of that
// made, with one of a few contexts; who finds none free waits.
#include "messages.h"
#include "server.h"

#include <jansson.h>
#include <stdarg.h>
#include <stdlib.h>

// ---- contexts -------------------------------------------------------------------------------

int answerer_open(const common_options *options, size_t threads, answerer *a)
{
    common_options own = *options;
    const size_t count = threads < CONTEXTS_MOST ? threads : CONTEXTS_MOST;
    int code = EXIT_DONE;
    own.threads = threads / count;
    for (size_t i = 0; i < count && code == EXIT_DONE; i++) {
        code = open_context(&own, &a->contexts[i]);
        a->count += code == EXIT_DONE;
    }
    return code;
}

void answerer_close(answerer *a)
{
    for (size_t i = 0; i < a->count; i++)
        mh_context_free(a->contexts[i]);
    a->count = 0;
}

void answerer_stop(answerer *a)
{
    pthread_mutex_lock(&a->mutex);
    a->stopping = true;
    pthread_cond_broadcast(&a->free);
    pthread_mutex_unlock(&a->mutex);
}

// The number of a context that is ours until give_back(); a->count if we are stopping.
static size_t borrow(answerer *a)
{
    size_t i = 0;
    pthread_mutex_lock(&a->mutex);
    for (;;) {
        for (i = 0; i < a->count && a->busy[i];)
            i++;
        if (i < a->count || a->stopping)
            break;
        pthread_cond_wait(&a->free, &a->mutex);
    }
    if (a->stopping)
        i = a->count;
    if (i < a->count)
        a->busy[i] = true;
    pthread_mutex_unlock(&a->mutex);
    return i;
}

static void give_back(answerer *a, size_t i)
{
    pthread_mutex_lock(&a->mutex);
    a->busy[i] = false;
    pthread_cond_signal(&a->free);
    pthread_mutex_unlock(&a->mutex);
}

// ---- errors ---------------------------------------------------------------------------------

static answer answer_json(int code, json_t *json)
{
    answer result = {.code = code};
    result.body = json ? json_dumps(json, JSON_COMPACT) : NULL;
    result.size = result.body ? strlen(result.body) : 0;
    json_decref(json);
    return result;
}

answer answer_error(int code, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    char *message = NULL;
    if (vasprintf(&message, format, arguments) < 0)
        message = NULL;
    va_end(arguments);
    const answer result = answer_json(code, json_pack("{s:s}", "error", message ? message : ""));
    free(message);
    return result;
}

static answer answer_status(mh_context *context, mh_status status)
{
    const bool ours = status != MH_ERROR_MEMORY;
    return answer_error(ours ? 500 : 503, "%s", mh_error_message(context));
}

// ---- a text ---------------------------------------------------------------------------------

// A translation and its trace as the one object that the page expects.
static answer put_together(const mh_translation *t, const mh_bytes *data)
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

static answer answer_translation(const answerer *a, mh_context *context, mh_text text,
                                 const mh_translation *t)
{
    mh_translation_trace *trace = NULL;
    mh_bytes data = {0};
    mh_status status =
        mh_translation_trace_create(context, a->translator, NULL, text, t->ids, t->count, &trace);
    if (!status) {
        mh_trace named = *mh_translation_trace_view(trace);
        named.model = a->model;
        status = mh_view_data(context, NULL, &named, &data);
    }
    const answer result = status ? answer_status(context, status) : put_together(t, &data);
    mh_bytes_free(context, &data);
    mh_translation_trace_free(trace);
    return result;
}

// A text of more sentences than fit the model at once has no trace.
static mh_status count_tokens(const answerer *a, mh_context *context, mh_text text, size_t *count)
{
    mh_tokens tokens = {0};
    mh_status status = mh_tokenizer_encode(context, mh_translator_tokenizer(a->translator),
                                           text.bytes, text.size, &tokens);
    *count = tokens.count;
    mh_tokens_free(context, &tokens);
    return status;
}

static answer translate(const answerer *a, mh_context *context, mh_text text)
{
    const size_t most = mh_translator_configuration(a->translator)->max_length - 1;
    size_t count;
    mh_status status = count_tokens(a, context, text, &count);
    if (status)
        return answer_status(context, status);
    if (count > most)
        return answer_error(422,
                            "the text has %zu tokens, and the model takes %zu at once; try a "
                            "sentence at a time",
                            count, most);
    mh_translations *translations;
    status = mh_translate(context, a->translator, NULL, &text, 1, &translations);
    if (status)
        return answer_status(context, status);
    const answer result =
        answer_translation(a, context, text, mh_translations_at(translations, 0, 0));
    mh_translations_free(translations);
    return result;
}

// ---- a request ------------------------------------------------------------------------------

// The text in {"text": "..."}, or an answer that says what is wrong.
static json_t *read_text(const char *body, size_t size, mh_text *text, answer *wrong)
{
    json_error_t error;
    const size_t valid = mh_utf8_valid(body, size);
    if (valid < size) {
        *wrong = answer_error(400, "byte %zu (0x%02x) is not valid UTF-8", valid + 1,
                              (unsigned char)body[valid]);
        return NULL;
    }
    json_t *json = json_loadb(body, size, JSON_REJECT_DUPLICATES, &error);
    if (!json) {
        *wrong = answer_error(400, "not JSON: %s (byte %d)", error.text, error.position);
        return NULL;
    }
    const json_t *string = json_object_get(json, "text");
    if (!json_is_string(string)) {
        *wrong = answer_error(400, "expected an object {\"text\": \"...\"}");
        json_decref(json);
        return NULL;
    }
    *text = (mh_text){json_string_value(string), json_string_length(string)};
    return json;
}

answer answer_text(answerer *a, const char *body, size_t size)
{
    mh_text text;
    answer result = {0};
    json_t *json = read_text(body, size, &text, &result);
    if (!json)
        return result;
    const size_t i = borrow(a);
    if (i == a->count) {
        result = answer_error(503, "the server is stopping");
    } else {
        result = translate(a, a->contexts[i], text);
        give_back(a, i);
    }
    json_decref(json);
    return result;
}
