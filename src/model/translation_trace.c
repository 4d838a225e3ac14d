// SPDX-License-Identifier: MIT
// A trace of a translation: the source and the target are run through the model again, all tokens
// at once, with a tap on every attention. This is bitwise identical to the search.
//
//     source tokens, </s>  -> encoder -- encoder.self --+
//     <s>, target tokens   -> decoder -- decoder.self, cross
//
// Taps write directly into the tensors of the trace, each into its layer.
#include "base/argument_check.h"
#include "base/compiler.h"
#include "base/fpenv.h"
#include "base/size_math.h"
#include "model/candidates.h"
#include "model/trace_choices.h"
#include "model/translate_internal.h"
#include "model/translator_internal.h"
#include <stdio.h>

struct mh_translation_trace {
    mh_result_arena store; // everything below is in it
    mh_trace trace;
};

typedef struct pass {
    mh_context *context;
    const mh_translator *t;
    mh_result_arena *store;
    mh_trace *trace;
    size_t S, T;
    int32_t *source, *given; // (S), (T)
    mh_tap *taps;            // one for each attention
    size_t tap_count;
} pass;

// ---- tokens -------------------------------------------------------------------------------------

static mh_status name_tokens(pass *p, const int32_t *ids, size_t count, mh_trace_tokens *tokens)
{
    const char **text = mh_result_take(p->context, p->store, count, sizeof *text);
    bool *starts = mh_result_take(p->context, p->store, count, sizeof *starts);
    if (!text || !starts)
        return MH_ERROR_MEMORY;
    bool special = true; // a word begins after one
    for (size_t i = 0; i < count; i++) {
        bool is_special;
        text[i] = mh_trace_token_name(p->context, p->store, p->t->tokenizer, ids[i], &starts[i],
                                      &is_special);
        if (!text[i])
            return MH_ERROR_MEMORY;
        starts[i] = starts[i] || special;
        special = is_special;
    }
    *tokens = (mh_trace_tokens){.count = count, .text = text, .word_start = starts};
    return MH_OK;
}

static mh_status check_length(const pass *p, const char *name, size_t found, size_t most)
{
    return found <= most ? MH_OK
                         : mh_fail(p->context, MH_ERROR_ARGUMENT,
                                   "%s: found %zu tokens, expected at most %zu, the model's "
                                   "limit",
                                   name, found, most);
}

// The source's tokens with those of the template, and the title.
static mh_status keep_source(pass *p, const mh_tokens *tokens)
{
    const mh_source_template *c = &p->t->source;
    p->S = c->before_count + tokens->count + c->after_count;
    p->source = mh_result_take(p->context, p->store, p->S, sizeof *p->source);
    char *title = mh_result_take(p->context, p->store, tokens->text.size + 1, 1);
    if (!p->source || !title)
        return MH_ERROR_MEMORY;
    memcpy(p->source, c->before, c->before_count * sizeof *p->source);
    for (size_t i = 0; i < tokens->count; i++)
        p->source[c->before_count + i] = tokens->ids[i];
    memcpy(p->source + c->before_count + tokens->count, c->after,
           c->after_count * sizeof *p->source);
    if (tokens->text.size > 0)
        memcpy(title, tokens->text.data, tokens->text.size);
    title[tokens->text.size] = 0;
    p->trace->title = *title ? title : NULL;
    return name_tokens(p, p->source, p->S, &p->trace->source);
}

static mh_status take_source(pass *p, mh_text source)
{
    mh_tokens tokens = {0};
    mh_status status = mh_translator_encode(p->context, p->t, source, &tokens);
    if (!status)
        status = check_length(p, "source", tokens.count, mh_translator_source_limit(p->t));
    if (!status)
        status = keep_source(p, &tokens);
    mh_tokens_free(p->context, &tokens);
    return status;
}

static mh_status take_target(pass *p, const int32_t *ids, size_t count)
{
    const size_t V = p->t->vocabulary;
    mh_status status = check_length(p, "target", count, p->t->target_limit - 1);
    if (status)
        return status;
    for (size_t i = 0; i < count; i++)
        if (ids[i] < 0 || (size_t)ids[i] >= V)
            return mh_fail(p->context, MH_ERROR_ARGUMENT,
                           "target[%zu]: found %d, expected 0 to %zu", i, (int)ids[i], V - 1);
    p->T = count + 1;
    int32_t *all = mh_result_take(p->context, p->store, count + 2, sizeof *all); // <s> ... </s>
    if (!all)
        return MH_ERROR_MEMORY;
    all[0] = p->t->rules.start;
    for (size_t i = 0; i < count; i++)
        all[i + 1] = ids[i];
    all[count + 1] = p->t->rules.end;
    p->given = all;
    status = name_tokens(p, p->given, p->T, &p->trace->given);
    return status ? status : name_tokens(p, all + 1, p->T, &p->trace->target);
}

static mh_status describe_model(pass *p)
{
    enum { ROOM = 160 };
    const mh_translator_config *c = &p->t->config;
    char *text = mh_result_take(p->context, p->store, ROOM, 1);
    if (!text)
        return MH_ERROR_MEMORY;
    snprintf(text, ROOM, "%zu wide, %zu head%s, %zu+%zu layers", c->d_model, c->nhead,
             c->nhead == 1 ? "" : "s", c->num_encoder_layers, c->num_decoder_layers);
    p->trace->model = text;
    return MH_OK;
}

// ---- tensors ------------------------------------------------------------------------------------

// A tensor of the trace, (L, ...), with memory from the store; false if there is none.
static bool take_tensor(pass *p, int rank, const size_t *shape, mh_tensor *t)
{
    size_t count = 1; // L, H, T, S, D are far below 2^20, and the store checks the last product
    for (int d = 1; d < rank; d++)
        count *= shape[d];
    float *data = mh_result_take(p->context, p->store, count, shape[0] * sizeof *data);
    if (data)
        *t = mh_tensor_view(data, MH_F32, rank, shape);
    return data != NULL;
}

static mh_tensor layer_of(const mh_tensor *t, size_t layer)
{
    return t->data ? mh_tensor_slice(*t, 0, layer, 1) : *t;
}

// One group of the trace and its taps, one per layer.
static mh_status take_group(pass *p, mh_trace_kind kind, mh_tap_kind tap, size_t L, size_t T,
                            size_t S)
{
    const size_t D = p->t->config.d_model, H = p->t->config.nhead, E = p->t->head_dim;
    mh_trace_group *g = &p->trace->groups[kind];
    if (!take_tensor(p, 4, (size_t[]){L, H, T, S}, &g->weights) ||
        !take_tensor(p, 3, (size_t[]){L, T, D}, &g->out))
        return MH_ERROR_MEMORY;
    if (p->t->plain_scores && (!take_tensor(p, 4, (size_t[]){L, H, T, E}, &g->q) ||
                               !take_tensor(p, 4, (size_t[]){L, H, S, E}, &g->k) ||
                               !take_tensor(p, 4, (size_t[]){L, H, S, E}, &g->v)))
        return MH_ERROR_MEMORY;
    mh_trace_stream *stream = mh_result_take(p->context, p->store, 1, sizeof *stream);
    if (!stream)
        return MH_ERROR_MEMORY;
    *stream = (mh_trace_stream){.order = p->t->order};
    if (!take_tensor(p, 3, (size_t[]){L, T, D}, &stream->x) ||
        !take_tensor(p, 3, (size_t[]){L, T, D}, &stream->sum) ||
        (kind != MH_TRACE_DECODER && !take_tensor(p, 3, (size_t[]){L, T, D}, &stream->hidden)))
        return MH_ERROR_MEMORY;
    g->stream = stream;
    for (size_t i = 0; i < L; i++)
        p->taps[p->tap_count++] = (mh_tap){.struct_size = sizeof(mh_tap),
                                           .kind = tap,
                                           .layer = i,
                                           .weights = layer_of(&g->weights, i),
                                           .q = layer_of(&g->q, i),
                                           .k = layer_of(&g->k, i),
                                           .v = layer_of(&g->v, i),
                                           .out = layer_of(&g->out, i),
                                           .x = layer_of(&stream->x, i),
                                           .sum = layer_of(&stream->sum, i)};
    return MH_OK;
}

static mh_status take_mask(pass *p, mh_tensor *mask)
{
    const size_t T = p->T;
    bool *sees = mh_result_take(p->context, p->store, T * T, sizeof *sees);
    if (!sees)
        return MH_ERROR_MEMORY;
    for (size_t i = 0; i < T; i++)
        for (size_t j = 0; j < T; j++)
            sees[i * T + j] = j <= i;
    *mask = mh_tensor_2d(sees, MH_BOOL, T, T);
    return MH_OK;
}

static mh_status take_groups(pass *p)
{
    const size_t L = p->t->config.num_encoder_layers, M = p->t->config.num_decoder_layers;
    p->taps = mh_result_take(p->context, p->store, L + 2 * M, sizeof *p->taps);
    if (!p->taps)
        return MH_ERROR_MEMORY;
    MH_TRY(take_group(p, MH_TRACE_ENCODER, MH_TAP_ENCODER, L, p->S, p->S));
    MH_TRY(take_group(p, MH_TRACE_DECODER, MH_TAP_DECODER, M, p->T, p->T));
    MH_TRY(take_group(p, MH_TRACE_CROSS, MH_TAP_CROSS, M, p->T, p->S));
    for (size_t i = 0; i < p->tap_count;
         i++) { // a decoder layer's output comes after cross-attention
        mh_tap *tap = &p->taps[i];
        const mh_trace_kind kind = tap->kind == MH_TAP_ENCODER ? MH_TRACE_ENCODER : MH_TRACE_CROSS;
        if (tap->kind != MH_TAP_CROSS)
            tap->hidden = layer_of(&p->trace->groups[kind].stream->hidden, tap->layer);
    }
    return take_mask(p, &p->trace->groups[MH_TRACE_DECODER].mask);
}

// ---- choices ------------------------------------------------------------------------------------

static mh_status choice_logits(mh_context *context, const void *model, const mh_tensor *y,
                               mh_tensor *logits)
{
    const mh_translator *t = model;
    MH_TRY(t->run->logits(context, t, NULL, y, logits));
    mh_candidates_exclude(&t->rules, logits);
    return MH_OK;
}

// From the decoder's output (T, D).
static mh_status take_choices(pass *p, const mh_tensor *output)
{
    const mh_choice_source source = {.logits = choice_logits,
                                     .model = p->t,
                                     .tokenizer = p->t->target_tokenizer,
                                     .vocabulary = p->t->vocabulary};
    return mh_trace_choices_fill(p->context, p->store, &source, output, p->given + 1,
                                 &p->trace->choices);
}

// ---- the pass -----------------------------------------------------------------------------------

static mh_status translation_trace_fill(pass *p, const bool *disabled, mh_text source,
                                        const int32_t *target, size_t count)
{
    MH_TRY(take_source(p, source));
    MH_TRY(take_target(p, target, count));
    MH_TRY(describe_model(p));
    MH_TRY(take_groups(p));
    const size_t D = p->t->config.d_model;
    float *output = mh_result_take(p->context, p->store, p->T, D * sizeof *output);
    if (!output)
        return MH_ERROR_MEMORY;
    const mh_tensor rows = mh_tensor_2d(output, MH_F32, p->T, D);
    const mh_tapped_pass tapped = {.source = p->source,
                                   .target = p->given,
                                   .S = p->S,
                                   .T = p->T,
                                   .taps = p->taps,
                                   .tap_count = p->tap_count,
                                   .disabled_heads = disabled,
                                   .output = output};
    MH_TRY(p->t->run->tap(p->context, p->t, &tapped));
    return take_choices(p, &rows);
}

mh_status mh_translation_trace_create(mh_context *context, const mh_translator *translator,
                                      const bool *disabled_heads, mh_text source,
                                      const int32_t *target, size_t count,
                                      mh_translation_trace **trace)
{
    if (mh_need(context, trace, "trace"))
        return MH_ERROR_ARGUMENT;
    *trace = NULL;
    if (MH_NEED(context, {"translator", translator},
                {"source.bytes", mh_array(source.bytes, source.size)},
                {"target", mh_array(target, count)}))
        return MH_ERROR_ARGUMENT;
    mh_translation_trace *made = mh_alloc(context, sizeof *made);
    if (!made)
        return MH_ERROR_MEMORY;
    *made = (mh_translation_trace){.store.allocator = mh_context_allocator(context),
                                   .trace = mh_trace_default()};
    pass p = {.context = context, .t = translator, .store = &made->store, .trace = &made->trace};
    mh_fpenv saved = mh_fpenv_enter();
    mh_status status = translation_trace_fill(&p, disabled_heads, source, target, count);
    mh_fpenv_leave(saved);
    if (status) {
        mh_translation_trace_free(made);
        return status;
    }
    *trace = made;
    return MH_OK;
}

void mh_translation_trace_free(mh_translation_trace *trace)
{
    if (!trace)
        return;
    const mh_allocator allocator = trace->store.allocator;
    mh_result_free(&trace->store);
    allocator.release(allocator.user, trace, sizeof *trace);
}

const mh_trace *mh_translation_trace_view(const mh_translation_trace *trace)
{
    return &trace->trace;
}
