// SPDX-License-Identifier: MIT
// A trace of a pretrained model: one forward pass over a text with a tap on every layer. Taps write
// directly into the tensors of the trace, each into its layer.
//
// Tokens are shown as the bytes of the text that they cover: "playing" as "play" and "ing", not as
// the vocabulary's "##ing" or "Ġplay".
#include "base/argument_check.h"
#include "base/compiler.h"
#include "base/fpenv.h"
#include "base/overflow.h"
#include "model/model_internal.h"
#include "model/trace_choices.h"
#include <stdio.h>
#include <string.h>

typedef struct model_pass {
    mh_context *context;
    const mh_model *model;
    mh_model_trace *made;
    mh_result_arena *store;     // of it
    mh_trace *trace;            //
    const int32_t *ids, *types; // (T)
    const mh_tensor *pixels;    // in place of these
    size_t T;
} model_pass;

// ---- tokens -------------------------------------------------------------------------------------

static bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

static const char *keep_string(const model_pass *p, const char *bytes, size_t size)
{
    char *string = mh_result_take(p->context, p->store, size + 1, 1);
    if (!string)
        return NULL;
    if (size > 0)
        memcpy(string, bytes, size);
    string[size] = 0;
    return string;
}

// What token i covers, without whitespace around it if there is more; or the name of a token that
// covers nothing.
static mh_text token_span(const model_pass *p, const mh_encoding *e, const mh_text *texts, size_t i,
                          bool *word_start)
{
    const mh_text text = texts[e->sequences[i]];
    size_t begin = e->begins[i], end = e->ends[i];
    while (begin < end && is_blank(text.bytes[begin]))
        begin++;
    while (end > begin && is_blank(text.bytes[end - 1]))
        end--;
    *word_start = e->special[i] || begin == 0 || is_blank(text.bytes[begin - 1]);
    if (!e->special[i] && begin < end)
        return (mh_text){text.bytes + begin, end - begin};
    *word_start = true;
    if (!e->special[i] && e->begins[i] < e->ends[i])
        return (mh_text){text.bytes + e->begins[i], e->ends[i] - e->begins[i]};
    mh_text name = {"", 0};
    mh_tokenizer_name(p->model->tokenizer, e->ids[i], &name);
    return name;
}

static mh_status name_model_tokens(const model_pass *p, const mh_encoding *e, const mh_text *texts)
{
    const char **names = mh_result_take(p->context, p->store, e->count, sizeof *names);
    bool *starts = mh_result_take(p->context, p->store, e->count, sizeof *starts);
    if (!names || !starts)
        return MH_ERROR_MEMORY;
    for (size_t i = 0; i < e->count; i++) {
        const mh_text span = token_span(p, e, texts, i, &starts[i]);
        names[i] = keep_string(p, span.bytes, span.size);
        if (!names[i])
            return MH_ERROR_MEMORY;
        starts[i] = starts[i] || i == 0 || e->sequences[i] != e->sequences[i - 1];
    }
    *(p->model->description.causal ? &p->trace->target : &p->trace->source) =
        (mh_trace_tokens){.count = e->count, .text = names, .word_start = starts};
    return MH_OK;
}

static mh_status title_trace(const model_pass *p, mh_text text, const mh_text *pair)
{
    static const char between[] = " | ";
    const size_t gap = sizeof between - 1, more = pair ? gap + pair->size : 0;
    char *title = mh_result_take(p->context, p->store, text.size + more + 1, 1);
    if (!title)
        return MH_ERROR_MEMORY;
    if (text.size > 0)
        memcpy(title, text.bytes, text.size);
    if (pair) {
        memcpy(title + text.size, between, gap);
        if (pair->size > 0)
            memcpy(title + text.size + gap, pair->bytes, pair->size);
    }
    title[text.size + more] = 0;
    p->trace->title = *title ? title : NULL;
    return MH_OK;
}

mh_status mh_model_trace_describe(mh_context *context, const mh_model *model, mh_model_trace *trace)
{
    enum { ROOM = 200 };
    const mh_model_info *info = &model->info;
    const size_t layers = info->layers;
    char *text = mh_result_take(context, &trace->store, ROOM, 1);
    if (!text)
        return MH_ERROR_MEMORY;
    snprintf(text, ROOM, "%s, %zu wide, %zu head%s, %zu layer%s", info->family, info->d_model,
             info->heads, info->heads == 1 ? "" : "s", layers, layers == 1 ? "" : "s");
    trace->trace.model = text;
    return MH_OK;
}

// ---- tensors ------------------------------------------------------------------------------------

// A tensor of the trace, (L, ...), with memory from the store.
static mh_status take_trace_tensor(const model_pass *p, int rank, const size_t *shape, mh_tensor *t)
{
    size_t count;
    if (!mh_multiply_all((size_t)rank, shape, &count))
        return mh_fail(p->context, MH_ERROR_MEMORY, "out of memory for %zu tokens' attention",
                       p->T);
    float *data = mh_result_take(p->context, p->store, count, sizeof *data);
    if (!data)
        return MH_ERROR_MEMORY;
    *t = mh_tensor_view(data, MH_F32, rank, shape);
    return MH_OK;
}

// Whether layers differ in the keys that a query sees: sliding layers, in a text beyond their
// window.
static bool has_mixed_windows(const model_pass *p)
{
    const mh_model_info *info = &p->model->info;
    return info->window_layers && info->window_layers < info->layers && p->T > info->window;
}

// Which keys a query of a causal model sees, in its full layers if there are two kinds.
static mh_status take_causal_mask(const model_pass *p, mh_tensor *mask)
{
    const size_t T = p->T;
    const mh_model_info *info = &p->model->info;
    const size_t window = info->window_layers == info->layers ? info->window : T;
    size_t count;
    if (!mh_multiply_sizes(T, T, &count))
        return mh_fail(p->context, MH_ERROR_MEMORY, "out of memory for %zu tokens' mask", T);
    bool *sees = mh_result_take(p->context, p->store, count, sizeof *sees);
    if (!sees)
        return MH_ERROR_MEMORY;
    for (size_t i = 0; i < T; i++)
        for (size_t j = 0; j < T; j++)
            sees[i * T + j] = j <= i && i - j < window;
    *mask = mh_tensor_2d(sees, MH_BOOL, T, T);
    return MH_OK;
}

// Whether the weights are softmax(scale q k^T) under one mask: the views show the steps only then.
static bool has_plain_scores(const model_pass *p)
{
    const mh_block_config *b = &p->model->description.block;
    return !has_mixed_windows(p) && !(b->softcap > 0) && !b->sinks && !b->alibi &&
           b->relative_buckets == 0;
}

static mh_status take_model_group(const model_pass *p, mh_trace_group *g)
{
    const mh_model_info *info = &p->model->info;
    const mh_block_config *b = &p->model->description.block;
    const size_t L = info->layers, H = info->heads, G = info->kv_heads, T = p->T;
    const size_t E = info->head_dim, Ev = b->value_dim ? b->value_dim : E;
    MH_TRY(take_trace_tensor(p, 4, (size_t[]){L, H, T, T}, &g->weights));
    MH_TRY(take_trace_tensor(p, 3, (size_t[]){L, T, info->d_model}, &g->out));
    if (has_plain_scores(p)) {
        MH_TRY(take_trace_tensor(p, 4, (size_t[]){L, H, T, E}, &g->q));
        MH_TRY(take_trace_tensor(p, 4, (size_t[]){L, G, T, E}, &g->k));
        MH_TRY(take_trace_tensor(p, 4, (size_t[]){L, G, T, Ev}, &g->v));
        g->scale = b->scale > 0 ? (double)b->scale : 0;
    }
    mh_trace_stream *stream = mh_result_take(p->context, p->store, 1, sizeof *stream);
    if (!stream)
        return MH_ERROR_MEMORY;
    *stream = (mh_trace_stream){.order = mh_trace_order(b)};
    MH_TRY(take_trace_tensor(p, 3, (size_t[]){L, T, info->d_model}, &stream->x));
    MH_TRY(take_trace_tensor(p, 3, (size_t[]){L, T, info->d_model}, &stream->sum));
    MH_TRY(take_trace_tensor(p, 3, (size_t[]){L, T, info->d_model}, &stream->hidden));
    g->stream = stream;
    return p->model->description.causal ? take_causal_mask(p, &g->mask) : MH_OK;
}

// ---- the pass -----------------------------------------------------------------------------------

static mh_tensor layer_of(const mh_tensor *t, size_t layer)
{
    return t->data ? mh_tensor_slice(*t, 0, layer, 1) : *t;
}

static mh_status model_choice_logits(mh_context *context, const void *model, const mh_tensor *y,
                                     mh_tensor *logits)
{
    return mh_model_logits(context, model, y, logits);
}

// What a language model expects after each token.
static mh_status take_model_choices(const model_pass *p, const mh_tensor *hidden)
{
    const mh_model_info *info = &p->model->info;
    if (!(info->abilities & MH_CAN_GENERATE) || !p->model->tokenizer)
        return MH_OK;
    int32_t *next = mh_result_take(p->context, p->store, p->T, sizeof *next);
    if (!next)
        return MH_ERROR_MEMORY;
    for (size_t i = 0; i < p->T; i++)
        next[i] = i + 1 < p->T ? p->ids[i + 1] : -1;
    const mh_choice_source source = {.logits = model_choice_logits,
                                     .model = p->model,
                                     .tokenizer = p->model->tokenizer,
                                     .vocabulary = info->vocabulary};
    return mh_trace_choices_fill(p->context, p->store, &source, hidden, next, &p->trace->choices);
}

static mh_status run_tapped(const model_pass *p, const bool *disabled, const mh_trace_group *g)
{
    const size_t L = p->model->info.layers;
    mh_tap *taps = mh_result_take(p->context, p->store, L, sizeof *taps);
    mh_tensor hidden;
    if (!taps)
        return MH_ERROR_MEMORY;
    for (size_t i = 0; i < L; i++) {
        taps[i] = mh_tap_make(MH_TAP_ENCODER, i);
        taps[i].weights = layer_of(&g->weights, i);
        taps[i].q = layer_of(&g->q, i);
        taps[i].k = layer_of(&g->k, i);
        taps[i].v = layer_of(&g->v, i);
        taps[i].out = layer_of(&g->out, i);
        taps[i].x = layer_of(&g->stream->x, i);
        taps[i].sum = layer_of(&g->stream->sum, i);
        taps[i].hidden = layer_of(&g->stream->hidden, i);
    }
    MH_TRY(take_trace_tensor(p, 2, (size_t[]){p->T, p->model->info.d_model}, &hidden));
    mh_model_input input = mh_model_input_default();
    input.sequences = 1;
    input.starts = (const int64_t[]){0, (int64_t)p->T};
    input.ids = p->ids;
    input.types = p->types;
    input.pixels = p->pixels;
    input.taps = taps;
    input.tap_count = L;
    input.disabled_heads = disabled;
    MH_TRY(mh_model_hidden(p->context, p->model, &input, &hidden));
    return take_model_choices(p, &hidden);
}

static mh_status trace_ids(const model_pass *p, const bool *disabled)
{
    const mh_model_info *info = &p->model->info;
    const mh_trace_kind kind = info->causal ? MH_TRACE_DECODER : MH_TRACE_ENCODER;
    if (p->T == 0 || (!p->pixels && p->T > info->max_length))
        return mh_fail(p->context, MH_ERROR_ARGUMENT, "found %zu tokens, expected 1 to %zu", p->T,
                       info->max_length);
    MH_TRY(mh_model_trace_describe(p->context, p->model, p->made));
    MH_TRY(take_model_group(p, &p->trace->groups[kind]));
    return run_tapped(p, disabled, &p->trace->groups[kind]);
}

static mh_status trace_encoding(model_pass *p, const bool *disabled, const mh_encoding *e,
                                mh_text text, const mh_text *pair)
{
    int32_t *types = mh_result_take(p->context, p->store, e->count + 1, sizeof *types);
    if (!types)
        return MH_ERROR_MEMORY;
    for (size_t i = 0; i < e->count; i++)
        types[i] = e->types[i] < p->model->description.types ? e->types[i] : 0;
    p->ids = e->ids;
    p->types = types;
    p->T = e->count;
    MH_TRY(title_trace(p, text, pair));
    MH_TRY(name_model_tokens(p, e, (const mh_text[]){text, pair ? *pair : (mh_text){"", 0}}));
    return trace_ids(p, disabled);
}

static mh_status trace_text(model_pass *p, const bool *disabled, mh_text text, const mh_text *pair)
{
    mh_encoding encoding = {0};
    mh_status status = mh_model_encode_text(p->context, p->model, NULL, text, pair, &encoding);
    if (!status)
        status = trace_encoding(p, disabled, &encoding, text, pair);
    mh_encoding_free(p->context, &encoding);
    return status;
}

// ---- the interface ------------------------------------------------------------------------------

mh_status mh_model_trace_new(mh_context *context, mh_model_trace **trace)
{
    *trace = mh_alloc(context, sizeof **trace);
    if (!*trace)
        return MH_ERROR_MEMORY;
    **trace = (mh_model_trace){.store.allocator = mh_context_allocator(context),
                               .trace = mh_trace_default()};
    return MH_OK;
}

static mh_status begin_trace(mh_context *context, const mh_model *model, model_pass *p,
                             mh_model_trace **made)
{
    MH_TRY(mh_model_trace_new(context, made));
    *p = (model_pass){.context = context,
                      .model = model,
                      .made = *made,
                      .store = &(*made)->store,
                      .trace = &(*made)->trace};
    return MH_OK;
}

static mh_status end_trace(mh_status status, mh_model_trace *made, mh_model_trace **trace)
{
    if (status)
        mh_model_trace_free(made);
    else
        *trace = made;
    return status;
}

mh_status mh_model_trace_create(mh_context *context, const mh_model *model,
                                const bool *disabled_heads, mh_text text, const mh_text *pair,
                                mh_model_trace **trace)
{
    model_pass p;
    mh_model_trace *made;
    MH_TRY(MH_NEED(context, {"trace", trace}));
    *trace = NULL;
    MH_TRY(MH_NEED(context, {"model", model}, {"text.bytes", mh_array(text.bytes, text.size)}));
    if (pair)
        MH_TRY(MH_NEED(context, {"pair->bytes", mh_array(pair->bytes, pair->size)}));
    MH_TRY(mh_model_need_tokenizer(context, model));
    MH_TRY(begin_trace(context, model, &p, &made));
    mh_fpenv saved = mh_fpenv_enter();
    mh_status status = trace_text(&p, disabled_heads, text, pair);
    mh_fpenv_leave(saved);
    return end_trace(status, made, trace);
}

mh_status mh_model_trace_ids(mh_context *context, const mh_model *model, const bool *disabled_heads,
                             const int32_t *ids, size_t count, mh_model_trace **trace)
{
    model_pass p;
    mh_model_trace *made;
    MH_TRY(MH_NEED(context, {"trace", trace}));
    *trace = NULL;
    MH_TRY(MH_NEED(context, {"model", model}, {"ids", mh_array(ids, count)}));
    MH_TRY(begin_trace(context, model, &p, &made));
    p.ids = ids;
    p.T = count;
    mh_fpenv saved = mh_fpenv_enter();
    mh_status status = trace_ids(&p, disabled_heads);
    mh_fpenv_leave(saved);
    return end_trace(status, made, trace);
}

// A side of a picture whose longer one becomes the largest, a pixel for each patch at least.
static size_t reduced_side(size_t side, size_t longer, size_t patches)
{
    const size_t reduced = side * MH_TRACE_PICTURE_SIDE_MAX / longer;
    return reduced > patches ? reduced : patches;
}

// The names of a picture's rows.
static mh_status name_patches(const model_pass *p)
{
    const mh_vision *v = &p->model->description.vision;
    const size_t columns = p->pixels->shape[2] / v->patch;
    const char **names = mh_result_take(p->context, p->store, p->T, sizeof *names);
    bool *starts = mh_result_take(p->context, p->store, p->T, sizeof *starts);
    if (!names || !starts)
        return MH_ERROR_MEMORY;
    for (size_t i = 0; i < p->T; i++) {
        const size_t patch = i - (i < v->first ? i : v->first);
        char name[48];
        snprintf(name, sizeof name, "%zu,%zu", patch / columns, patch % columns);
        if (i < v->first)
            snprintf(name, sizeof name, "%s", i == 0 ? "[CLS]" : "[DIST]");
        names[i] = keep_string(p, name, strlen(name));
        starts[i] = true;
        if (!names[i])
            return MH_ERROR_MEMORY;
    }
    p->trace->source = (mh_trace_tokens){.count = p->T, .text = names, .word_start = starts};
    return MH_OK;
}

// The part of the picture that is in patches, made smaller if it is too large for a trace.
static mh_status keep_picture(const model_pass *p)
{
    const mh_vision *v = &p->model->description.vision;
    mh_trace_picture *picture = &p->trace->picture;
    const size_t rows = p->pixels->shape[1] / v->patch, columns = p->pixels->shape[2] / v->patch;
    const size_t height = rows * v->patch, width = columns * v->patch;
    const size_t most = height > width ? height : width;
    mh_image shown = {0};
    if (rows > MH_TRACE_PICTURE_SIDE_MAX || columns > MH_TRACE_PICTURE_SIDE_MAX)
        return MH_OK; // a trace of so many patches is refused for its size
    unsigned char *pixels = mh_result_take(p->context, p->store, height * width * 3, 1);
    if (!pixels)
        return MH_ERROR_MEMORY;
    mh_picture_restore(&p->model->pictures, p->pixels, height, width, pixels);
    *picture = (mh_trace_picture){pixels, height, width, rows, columns};
    if (most <= MH_TRACE_PICTURE_SIDE_MAX)
        return MH_OK;
    const mh_image whole = {width, height, 3, pixels};
    picture->width = reduced_side(width, most, columns);
    picture->height = reduced_side(height, most, rows);
    MH_TRY(mh_image_resize(p->context, &whole, MH_RESAMPLE_BOX, picture->width, picture->height,
                           &shown));
    memcpy(pixels, shown.pixels, picture->height * picture->width * 3);
    mh_image_free(p->context, &shown);
    return MH_OK;
}

static mh_status trace_input(model_pass *p, const bool *disabled, const char *name,
                             const mh_model_input *input)
{
    const mh_text title = {name, name ? strlen(name) : 0};
    p->pixels = input->pixels;
    p->T = mh_model_rows(input);
    MH_TRY(title_trace(p, title, NULL));
    MH_TRY(name_patches(p));
    MH_TRY(keep_picture(p));
    return trace_ids(p, disabled);
}

mh_status mh_model_trace_picture(mh_context *context, const mh_model *model,
                                 const bool *disabled_heads, const char *name,
                                 const mh_image *image, mh_model_trace **trace)
{
    model_pass p;
    mh_model_trace *made;
    mh_model_pictures *encoded;
    MH_TRY(MH_NEED(context, {"trace", trace}));
    *trace = NULL;
    MH_TRY(MH_NEED(context, {"model", model}, {"image", image}));
    MH_TRY(mh_model_encode_pictures(context, model, image, 1, &encoded));
    mh_status status = begin_trace(context, model, &p, &made);
    if (!status) {
        mh_fpenv saved = mh_fpenv_enter();
        status = trace_input(&p, disabled_heads, name, mh_model_pictures_input(encoded));
        mh_fpenv_leave(saved);
        status = end_trace(status, made, trace);
    }
    mh_model_pictures_free(encoded);
    return status;
}

void mh_model_trace_free(mh_model_trace *trace)
{
    if (!trace)
        return;
    const mh_allocator allocator = trace->store.allocator;
    mh_result_free(&trace->store);
    allocator.release(allocator.user, trace, sizeof *trace);
}

const mh_trace *mh_model_trace_view(const mh_model_trace *trace) { return &trace->trace; }
