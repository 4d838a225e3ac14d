// SPDX-License-Identifier: MIT
// What a model that does not translate makes of a text, and its attention: candidates for masks,
// labels, a continuation with the candidates for its first token, or an embedding, whose change
// shows what a head does where nothing else does.
#include "generate/generate_parts.h"
#include "pretrained/labels.h"
#include "server.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { CANDIDATES = 5, CONTINUATION_TOKENS = 12 };

static bool is_cancelled(job *j) { return atomic_load(&j->cancelled); }

// ---- predictions as JSON ------------------------------------------------------------------------

// {"name": ..., "candidates": []}; NULL if out of memory. `number` 0: the name has none.
static json_t *begin_prediction(const char *name, size_t number)
{
    char numbered[40];
    snprintf(numbered, sizeof numbered, number ? "%s %zu" : "%s", name, number);
    return json_pack("{s:s, s:[]}", "name", numbered, "candidates");
}

// Text that is not UTF-8, half a character, is shown as "?". False if out of memory.
static bool add_candidate(json_t *prediction, mh_text text, double probability)
{
    const bool valid = mh_utf8_valid(text.bytes, text.size) == text.size;
    return json_array_append_new(json_object_get(prediction, "candidates"),
                                 json_pack("{s:s%, s:f}", "text", valid ? text.bytes : "?",
                                           valid ? text.size : (size_t)1, "probability",
                                           probability)) == 0;
}

// Adds the prediction to the list, and takes it.
static mh_status end_prediction(json_t *predictions, json_t *prediction, bool complete)
{
    if (complete)
        return json_array_append_new(predictions, prediction) == 0 ? MH_OK : MH_ERROR_MEMORY;
    json_decref(prediction);
    return MH_ERROR_MEMORY;
}

// ---- of each kind of model ----------------------------------------------------------------------

static mh_status describe_masks(const served_model *s, const filled *f, json_t *predictions)
{
    const mh_tokenizer *tokenizer = mh_model_tokenizer(s->model);
    mh_status status = MH_OK;
    for (size_t m = 0; m < f->masks && !status; m++) {
        json_t *one = begin_prediction("mask", f->masks > 1 ? m + 1 : 0);
        const int32_t *ids = f->ids + m * f->top;
        bool added = one != NULL;
        for (size_t i = 0; i < f->top && ids[i] >= 0 && added; i++)
            added =
                add_candidate(one, token_shown(tokenizer, ids[i]), exp(f->logps[m * f->top + i]));
        status = end_prediction(predictions, one, added);
    }
    return status;
}

static mh_status predict_masks(const served_model *s, mh_context *context,
                               const mh_model_input *input, json_t *predictions)
{
    filled f;
    if (mask_count(&s->mask, input) == 0)
        return MH_OK;
    mh_status status = mask_fill(context, s->model, &s->mask, input, CANDIDATES, &f);
    if (!status)
        status = describe_masks(s, &f, predictions);
    filled_free(&f);
    return status;
}

// `rows`: of the input, tokens or patches.
static mh_status predict_labels(const served_model *s, mh_context *context,
                                const mh_model_input *input, size_t rows, json_t *predictions)
{
    label_list found;
    const mh_status status = labels_predict(context, s->model, input, rows, &found);
    if (status)
        return status;
    json_t *one = begin_prediction("label", 0);
    bool added = one != NULL;
    for (size_t i = 0; i < found.count && added; i++) {
        const char *label = found.labels[i].text;
        added = add_candidate(one, (mh_text){label, strlen(label)}, found.labels[i].probability);
    }
    return end_prediction(predictions, one, added);
}

// Adds "embedding", of length 1.
static mh_status predict_embedding(const served_model *s, mh_context *context,
                                   const mh_model_input *input, json_t *head)
{
    const mh_model_info *info = mh_model_describe(s->model);
    float *values = calloc(info->embedding_dim, sizeof *values);
    json_t *list = json_array();
    mh_status status = values && list ? MH_OK : MH_ERROR_MEMORY;
    if (!status) {
        mh_tensor embedding = mh_tensor_2d(values, MH_F32, 1, info->embedding_dim);
        status = mh_model_embed(context, s->model, info->pooling, true, input, &embedding);
    }
    for (size_t i = 0; i < info->embedding_dim && !status; i++)
        if (json_array_append_new(list, json_real((double)values[i])) != 0)
            status = MH_ERROR_MEMORY;
    if (json_object_set_new(head, "embedding", list) != 0 && !status)
        status = MH_ERROR_MEMORY;
    free(values);
    return status;
}

json_t *predict(const served_model *s, mh_context *context, const mh_model_input *input,
                size_t rows, mh_status *status)
{
    json_t *head = json_pack("{s:[]}", "predictions");
    json_t *predictions = json_object_get(head, "predictions");
    *status = head ? MH_OK : MH_ERROR_MEMORY;
    if (head && s->task == TASK_FILL)
        *status = predict_masks(s, context, input, predictions);
    else if (head && s->task == TASK_CLASSIFY)
        *status = predict_labels(s, context, input, rows, predictions);
    if (!*status && json_array_size(predictions) == 0)
        *status = predict_embedding(s, context, input, head);
    if (!*status)
        return head;
    json_decref(head);
    return NULL;
}

// ---- an encoder's answer ------------------------------------------------------------------------

answer answer_named(const served_model *s, mh_context *context, json_t *head,
                    const mh_model_trace *made)
{
    mh_trace named = *mh_model_trace_view(made);
    named.model = s->name;
    return answer_trace(context, head, &named);
}

static answer answer_encoder(const served_model *s, mh_context *context, const request *r,
                             mh_text text, const mh_model_input *encoded)
{
    mh_model_input input = *encoded;
    mh_model_trace *trace = NULL;
    mh_status status;
    input.disabled_heads = r->disabled;
    json_t *head = predict(s, context, &input, (size_t)input.starts[1], &status);
    if (!status)
        status = mh_model_trace_create(context, s->model, r->disabled, text, NULL, &trace);
    if (status) {
        json_decref(head);
        return answer_status(context, status);
    }
    const answer result = answer_named(s, context, head, trace);
    mh_model_trace_free(trace);
    return result;
}

// ---- a causal model's answer --------------------------------------------------------------------

// NULL if out of memory.
static json_t *describe_generation(const served_model *s, const mh_generation *g)
{
    const mh_tokenizer *tokenizer = mh_model_tokenizer(s->model);
    const bool valid = mh_utf8_valid(g->text.bytes, g->text.size) == g->text.size;
    json_t *next = begin_prediction("next token", 0);
    bool added = next != NULL;
    for (size_t i = 0; i < g->top_count && g->count > 0 && g->top[i].id >= 0 && added; i++)
        added = add_candidate(next, token_shown(tokenizer, g->top[i].id), exp(g->top[i].logprob));
    if (added)
        return json_pack("{s:s%, s:[o]}", "continuation", valid ? g->text.bytes : "",
                         valid ? g->text.size : (size_t)0, "predictions", next);
    json_decref(next);
    return NULL;
}

// Prompt and continuation through the model once more, for the trace.
static answer answer_generation(const served_model *s, mh_context *context, const request *r,
                                const mh_generation *g)
{
    const size_t most = mh_model_describe(s->model)->max_length;
    const size_t all = g->prompt_count + g->count, count = all < most ? all : most;
    int32_t *ids = calloc(all + 1, sizeof *ids);
    char **names = NULL, *title = strndup(r->text.bytes, r->text.size);
    mh_model_trace *trace = NULL;
    answer result = answer_error(503, "out of memory");
    if (ids && title) {
        memcpy(ids, g->prompt, g->prompt_count * sizeof *ids);
        memcpy(ids + g->prompt_count, g->ids, g->count * sizeof *ids);
        names = name_tokens(mh_model_tokenizer(s->model), ids, count);
    }
    const mh_status status =
        names ? mh_model_trace_ids(context, s->model, r->disabled, ids, count, &trace) : MH_OK;
    if (names) {
        free(result.body);
        result = status ? answer_status(context, status) : (answer){0};
    }
    if (trace) {
        mh_trace named = *mh_model_trace_view(trace);
        named.model = s->name;
        named.title = title;
        named.target = (mh_trace_tokens){.count = count, .text = (const char *const *)names};
        result = answer_trace(context, describe_generation(s, g), &named);
    }
    mh_model_trace_free(trace);
    free(title);
    free(names);
    free(ids);
    return result;
}

static mh_generate_action go_on_if_wanted(void *user, const mh_generated_token *token)
{
    (void)token;
    return is_cancelled(user) ? MH_GENERATE_STOP_ALL : MH_GENERATE_CONTINUE;
}

static answer answer_continuation(const served_model *s, mh_context *context, const request *r,
                                  job *j)
{
    mh_generate_options options = mh_generate_options_default();
    mh_generations *made;
    options.max_tokens = CONTINUATION_TOKENS;
    options.top_logprobs = CANDIDATES;
    options.disabled_heads = r->disabled;
    options.on_token = go_on_if_wanted;
    options.user = j;
    const mh_status status = mh_generate_texts(context, s->model, &options, &r->text, 1, &made);
    if (status)
        return answer_status(context, status);
    answer result = {0}; // discarded if it was cancelled
    if (!is_cancelled(j))
        result = answer_generation(s, context, r, mh_generations_at(made, 0));
    mh_generations_free(made);
    return result;
}

// ---- a text -------------------------------------------------------------------------------------

static bool is_blank(mh_text text)
{
    for (size_t i = 0; i < text.size; i++)
        if (!strchr(" \t\r\n", text.bytes[i]))
            return false;
    return true;
}

// The error for an invalid text, of which there may be no encoding; code 0: it is valid.
static answer refuse_text(mh_context *context, const request *r, mh_status status,
                          const mh_model_texts *encoded)
{
    static const char first[] = "text 1: "; // of the call's one text
    const char *message = mh_error_message(context);
    if (status == MH_ERROR_ARGUMENT)
        return answer_error(
            422, "%s",
            strncmp(message, first, sizeof first - 1) == 0 ? message + sizeof first - 1 : message);
    if (status)
        return answer_status(context, status);
    const size_t count = (size_t)mh_model_texts_input(encoded)->starts[1];
    if (count == 0 || is_blank(r->text))
        return answer_error(422, "the text is empty; type a sentence");
    if (count > TOKENS_MAX)
        return answer_error(422,
                            "the text has %zu tokens, and at most %d are shown; try a shorter "
                            "one",
                            count, TOKENS_MAX);
    return (answer){0};
}

static answer answer_plain_text(const served_model *s, mh_context *context, const request *r,
                                mh_text text, job *j)
{
    mh_model_texts *encoded = NULL;
    const mh_status status = mh_model_encode(context, s->model, false, &text, 1, &encoded);
    answer result = refuse_text(context, r, status, encoded);
    if (!result.code && !is_cancelled(j))
        result = s->task == TASK_CONTINUE
                     ? answer_continuation(s, context, r, j)
                     : answer_encoder(s, context, r, text, mh_model_texts_input(encoded));
    mh_model_texts_free(context, encoded);
    return result;
}

answer answer_look(const served_model *s, mh_context *context, const request *r, job *j)
{
    if (s->pictures)
        return answer_picture(s, context, r, j);
    if (s->task != TASK_FILL)
        return answer_plain_text(s, context, r, r->text, j);
    mh_text text = {NULL, 0};
    char *named = mask_name_all(&s->mask, r->text, &text.size);
    text.bytes = named;
    const answer result =
        named ? answer_plain_text(s, context, r, text, j) : answer_error(503, "out of memory");
    free(named);
    return result;
}
