// SPDX-License-Identifier: MIT
// From the body of a request to the body of its answer.
#include "look/look.h"
#include "messages.h"
#include "server.h"
#include "translate/translate.h"

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

answer answer_status(mh_context *context, mh_status status)
{
    if (status == MH_ERROR_MEMORY)
        return answer_error(503, "out of memory");
    return answer_error(500, "%s", mh_error_message(context));
}

answer answer_trace(mh_context *context, json_t *head, const mh_trace *trace)
{
    mh_buffer data = {0};
    char *first = head ? json_dumps(head, JSON_COMPACT | JSON_REAL_PRECISION(9)) : NULL;
    json_decref(head);
    const mh_status status = mh_view_data(context, NULL, trace, &data);
    answer result = {.code = 200};
    const size_t size = first ? strlen(first) : 0; // "{...}" and "{...}" become "{...,...}"
    result.body = first && !status ? malloc(size + data.size + 1) : NULL;
    if (result.body) {
        memcpy(result.body, first, size);
        result.body[size - 1] = ',';
        memcpy(result.body + size, data.data + 1, data.size);
        result.size = size + data.size - 1;
    }
    mh_buffer_free(context, &data);
    free(first);
    return status ? answer_status(context, status) : result;
}

// ---- a request ----------------------------------------------------------------------------------

static void request_free(request *r)
{
    json_decref(r->json);
    free(r->disabled);
}

// A name of {"disabled_heads": ["cross.2.0", ...]}. The answer has code 0 if it is valid.
static answer read_translator_head(const served_model *served, const char *name, size_t i,
                                   bool *disabled)
{
    const mh_translator_config *config = mh_translator_configuration(served->translator);
    const heads_found found = heads_disable(name, config, disabled);
    if (found.problem == HEADS_NO_NAME)
        return answer_error(422,
                            "disabled_heads[%zu]: found '%.40s', expected enc.LAYER.HEAD, "
                            "dec.LAYER.HEAD or cross.LAYER.HEAD, from 0",
                            i, name);
    if (found.problem)
        return answer_error(422,
                            "disabled_heads[%zu]: found '%.40s', but the model has %zu layers of "
                            "%zu heads there",
                            i, name, found.layers, config->nhead);
    return (answer){0};
}

// The same of {"disabled_heads": ["2:0", ...]}.
static answer read_model_head(const served_model *served, const char *name, size_t i,
                              bool *disabled)
{
    const mh_model_info *info = mh_model_describe(served->model);
    if (!off_is_name(name))
        return answer_error(422,
                            "disabled_heads[%zu]: found '%.40s', expected LAYER:HEAD, from 0, or "
                            "LAYER for all heads of a layer",
                            i, name);
    if (!off_mark(name, info, disabled))
        return answer_error(422,
                            "disabled_heads[%zu]: found '%.40s', but the model has %zu %s of %zu "
                            "%s, from 0",
                            i, name, info->layers, plural(info->layers, "layer", "layers"),
                            info->heads, plural(info->heads, "head", "heads"));
    return (answer){0};
}

static size_t count_heads(const served_model *served)
{
    const mh_model_info *info = served->translator ? NULL : mh_model_describe(served->model);
    return info ? info->layers * info->heads
                : heads_count(mh_translator_configuration(served->translator));
}

static answer request_read_heads(const served_model *served, const json_t *list, request *r)
{
    const json_t *item;
    size_t i;
    if (!json_is_array(list))
        return answer_error(400, "disabled_heads: expected a list of strings");
    r->disabled = calloc(count_heads(served), sizeof *r->disabled);
    if (!r->disabled)
        return answer_error(503, "out of memory");
    json_array_foreach(list, i, item)
    {
        const char *name = json_string_value(item);
        if (!name)
            return answer_error(400, "disabled_heads[%zu]: expected a string", i);
        const answer refusal = (served->translator ? read_translator_head
                                                   : read_model_head)(served, name, i, r->disabled);
        if (refusal.code)
            return refusal;
    }
    return (answer){0};
}

// Reads {"text": "...", "disabled_heads": [...], "error_status": 200}, or "picture" and perhaps
// "name" in place of "text". The answer has code 0 if it is valid.
static answer request_read(const served_model *served, const char *body, size_t size, request *r)
{
    json_error_t error;
    const size_t valid = mh_utf8_valid(body, size);
    if (valid < size)
        return answer_error(400, "byte %zu (0x%02x) is not valid UTF-8", valid + 1,
                            (unsigned char)body[valid]);
    r->json = json_loadb(body, size, JSON_REJECT_DUPLICATES, &error);
    if (!r->json)
        return answer_error(400, "not JSON: %s (byte %d)", error.text, error.position);
    const char *member = served->pictures ? "picture" : "text";
    const json_t *string = json_object_get(r->json, member);
    const json_t *heads = json_object_get(r->json, "disabled_heads");
    if (!json_is_string(string))
        return answer_error(400, "expected an object {\"%s\": \"...\"}", member);
    *(served->pictures ? &r->picture : &r->text) =
        (mh_text){json_string_value(string), json_string_length(string)};
    r->name = json_string_value(json_object_get(r->json, "name"));
    r->error_200 = json_integer_value(json_object_get(r->json, "error_status")) == 200;
    return heads ? request_read_heads(served, heads, r) : (answer){0};
}

answer answer_job(const queue *q, mh_context *context, job *j)
{
    request r = {0};
    if (atomic_load(&j->cancelled))
        return (answer){0};
    answer result = request_read(q->served, j->body, j->size, &r);
    if (!result.code)
        result =
            (q->served->translator ? answer_translate : answer_look)(q->served, context, &r, j);
    if (result.code == 422 && r.error_200) // a browser would log 422 as an error of the page
        result.code = 200;
    request_free(&r);
    return result;
}
