// SPDX-License-Identifier: MIT
// The data of a page; see page_data.h.
#include "view/page_data.h"

#include <jansson.h>
#include <string.h>

#include "base/overflow.h"
#include "view/deflater.h"
#include "view/token_text.h"
#include "view/trace.h"

enum {
    WEIGHTS_OF_16_BITS = 4 << 20, // more are stored in 8
    TAPS_OF_32_BITS = 1 << 20,    // more are stored in f16
    STREAM_MOST = 1 << 20,        // values of residual streams; more are left out
};

typedef struct job {
    mh_context *context;
    const mh_trace *trace;
    const mh_page_sink *sink;
    mh_appender *to;
    int bits;
    mh_dtype tap_dtype;
    bool streams;  // in f16, which is enough for a picture
    size_t chunk;  // index of the next one
    float *values; // of one head, or one layer of a tap
    size_t value_count;
    unsigned char *packed; // as stored
    size_t packed_size;
    mh_deflater deflater;
} job;

// ---- sizes --------------------------------------------------------------------------------------

static size_t tap_layers(int tap, const mh_tensor *t)
{
    return tap == MH_TRACE_MASK ? 1 : t->shape[0];
}

static size_t total_weights(const mh_trace *trace)
{
    size_t total = 0;
    for (int kind = 0; kind < MH_TRACE_KINDS; kind++)
        if (mh_trace_has(trace, kind) &&
            !mh_add_sizes(total, mh_tensor_count(&trace->groups[kind].weights), &total))
            return SIZE_MAX;
    return total;
}

// The total of the taps from `first` to `last`, and the largest chunk.
static size_t total_taps(const mh_trace *trace, int first, int last, size_t *largest)
{
    size_t total = 0;
    for (int kind = 0; kind < MH_TRACE_KINDS; kind++)
        for (int tap = first; tap <= last; tap++) {
            const mh_tensor *t = mh_trace_tensor_const(&trace->groups[kind], tap);
            size_t count = t->data ? mh_tensor_count(t) : 0;
            if (count != 0 && count / tap_layers(tap, t) > *largest)
                *largest = count / tap_layers(tap, t);
            if (!mh_add_sizes(total, count, &total))
                return SIZE_MAX;
        }
    return total;
}

static size_t picture_bytes(const mh_trace_picture *p)
{
    return p->pixels ? p->height * p->width * 3 : 0;
}

static mh_status page_reserve(job *j)
{
    size_t largest = 0, bytes;
    const size_t taps = total_taps(j->trace, MH_TRACE_Q, MH_TRACE_MASK, &largest);
    j->tap_dtype = taps <= TAPS_OF_32_BITS ? MH_F32 : MH_F16;
    j->streams = total_taps(j->trace, MH_TRACE_X, MH_TRACE_HIDDEN, &largest) <= STREAM_MOST;
    for (int kind = 0; kind < MH_TRACE_KINDS; kind++) {
        const mh_tensor *w = &j->trace->groups[kind].weights;
        // a head's maxima take as much as one more column
        if (w->data != NULL && w->shape[2] * (w->shape[3] + 1) > largest)
            largest = w->shape[2] * (w->shape[3] + 1);
    }
    if (!mh_multiply_sizes(largest, sizeof(float), &bytes))
        return mh_fail(j->context, MH_ERROR_ARGUMENT, "page: a head of %zu weights", largest);
    if (bytes < picture_bytes(&j->trace->picture))
        bytes = picture_bytes(&j->trace->picture);
    mh_status status = mh_deflater_open(&j->deflater, j->context, bytes);
    if (status != MH_OK)
        return status;
    j->values = mh_alloc(j->context, bytes);
    j->value_count = largest;
    j->packed = mh_alloc(j->context, bytes);
    j->packed_size = bytes;
    return j->values && j->packed ? MH_OK : MH_ERROR_MEMORY;
}

// Its tensor, or one without data if it is not in the page.
static const mh_tensor *page_tap(const job *j, const mh_trace_group *g, int tap)
{
    static const mh_tensor none;
    return tap < MH_TRACE_X || j->streams ? mh_trace_tensor_const(g, tap) : &none;
}

static mh_dtype page_tap_dtype(const job *j, int tap)
{
    return tap < MH_TRACE_X ? j->tap_dtype : MH_F16;
}

// ---- the description ----------------------------------------------------------------------------

// Takes ownership of the value; false if out of memory.
static bool page_set(json_t *object, const char *key, json_t *value)
{
    return json_object_set_new(object, key, value) == 0;
}

static json_t *shape_list(const mh_tensor *t)
{
    json_t *list = json_array();
    for (int d = 0; list != NULL && d < t->rank; d++)
        if (json_array_append_new(list, json_integer((json_int_t)t->shape[d])) != 0) {
            json_decref(list);
            list = NULL;
        }
    return list;
}

// Which token list labels this side: "source", "target", "given", or null.
static json_t *side_name(const mh_trace *trace, mh_trace_tokens tokens)
{
    if (tokens.count == 0)
        return json_null();
    return json_string(tokens.text == trace->source.text  ? "source"
                       : tokens.text == trace->given.text ? "given"
                                                          : "target");
}

static bool describe_side(mh_context *context, json_t *root, const char *name,
                          mh_trace_tokens tokens)
{
    json_t *side = json_object();
    bool done = side != NULL && page_set(side, "tokens", mh_json_tokens(context, tokens));
    if (done && tokens.count != 0 && tokens.word_start != NULL)
        done = page_set(side, "words", mh_json_starts(context, tokens));
    if (!done) {
        json_decref(side);
        return false;
    }
    return page_set(root, name, side);
}

static json_t *describe_taps(const job *j, const mh_trace_group *g, size_t *chunk)
{
    json_t *taps = json_object();
    for (int tap = 0; taps != NULL && tap < MH_TRACE_TENSORS; tap++) {
        const mh_tensor *t = page_tap(j, g, tap);
        if (t->data == NULL)
            continue;
        json_t *entry = json_object(); // setting a member of no object fails, and frees the member
        bool done = page_set(entry, "type", json_string(mh_dtype_name(page_tap_dtype(j, tap)))) &&
                    page_set(entry, "shape", shape_list(t)) &&
                    page_set(entry, "first", json_integer((json_int_t)*chunk)) &&
                    json_object_set(taps, mh_trace_tensor_names[tap], entry) == 0;
        json_decref(entry);
        *chunk += tap_layers(tap, t);
        if (!done) {
            json_decref(taps);
            taps = NULL;
        }
    }
    return taps;
}

static bool describe_group(const job *j, json_t *groups, mh_trace_kind kind, size_t *chunk)
{
    const mh_trace_group *g = &j->trace->groups[kind];
    json_t *group = json_object();
    bool done = group != NULL && page_set(group, "kind", json_string(mh_trace_kind_name(kind))) &&
                page_set(group, "shape", shape_list(&g->weights)) &&
                page_set(group, "queries", side_name(j->trace, mh_trace_queries(j->trace, kind))) &&
                page_set(group, "keys", side_name(j->trace, mh_trace_keys(j->trace, kind))) &&
                page_set(group, "first", json_integer((json_int_t)*chunk)) &&
                page_set(group, "scale", g->scale > 0 ? json_real(g->scale) : json_null());
    if (done && g->sequences)
        done = page_set(group, "sequences", json_true());
    if (done && g->stream && g->stream->order)
        done = page_set(group, "norm", mh_json_text(j->context, g->stream->order));
    *chunk += g->weights.shape[0] * g->weights.shape[1];
    done = done && page_set(group, "taps", describe_taps(j, g, chunk));
    if (!done) {
        json_decref(group);
        return false;
    }
    return json_array_append_new(groups, group) == 0;
}

static bool describe_start(const mh_view_options *options, mh_trace_kind kind, json_t *root)
{
    json_t *start = json_object();
    bool done = start != NULL && page_set(start, "kind", json_string(mh_trace_kind_name(kind)));
    if (done && options->layer >= 0)
        done = page_set(start, "layer", json_integer((json_int_t)options->layer));
    if (done && options->head >= 0)
        done = page_set(start, "head", json_integer((json_int_t)options->head));
    if (done)
        return page_set(root, "start", start);
    json_decref(start);
    return false;
}

static bool describe_picture(const mh_trace_picture *p, size_t chunk, json_t *root)
{
    json_t *picture = json_object();
    const bool done = page_set(picture, "height", json_integer((json_int_t)p->height)) &&
                      page_set(picture, "width", json_integer((json_int_t)p->width)) &&
                      page_set(picture, "rows", json_integer((json_int_t)p->rows)) &&
                      page_set(picture, "columns", json_integer((json_int_t)p->columns)) &&
                      page_set(picture, "chunk", json_integer((json_int_t)chunk));
    if (done)
        return page_set(root, "picture", picture);
    json_decref(picture);
    return false;
}

static json_t *page_describe(const job *j, const mh_view_options *options, mh_trace_kind start)
{
    const mh_trace *trace = j->trace;
    size_t chunk = 0;
    json_t *root = json_object(), *groups = json_array();
    bool done =
        root != NULL && groups != NULL &&
        page_set(root, "title",
                 mh_json_text(j->context, trace->title ? trace->title : "Attention")) &&
        page_set(root, "model", mh_json_text(j->context, trace->model ? trace->model : "")) &&
        page_set(root, "version", json_string(mh_version())) &&
        page_set(root, "bits", json_integer(j->bits)) && describe_start(options, start, root) &&
        describe_side(j->context, root, "source", trace->source) &&
        describe_side(j->context, root, "target", trace->target) &&
        (trace->given.count == 0 || !mh_trace_has(trace, MH_TRACE_DECODER) ||
         describe_side(j->context, root, "given", trace->given)) &&
        (trace->choices.count == 0 ||
         page_set(root, "choices", mh_page_choices(j->context, trace))) &&
        (trace->hypothesis_count == 0 ||
         page_set(root, "hypotheses", mh_page_hypotheses(j->context, trace))) &&
        (trace->label_count == 0 || page_set(root, "labels", mh_page_labels(j->context, trace))) &&
        (trace->continuation == NULL ||
         page_set(root, "continuation", mh_json_text(j->context, trace->continuation)));
    for (int kind = 0; done && kind < MH_TRACE_KINDS; kind++)
        if (mh_trace_has(trace, kind))
            done = describe_group(j, groups, (mh_trace_kind)kind, &chunk);
    done = done && json_object_set(root, "groups", groups) == 0;
    if (done && trace->picture.pixels != NULL)
        done = describe_picture(&trace->picture, chunk, root);
    json_decref(groups);
    if (done)
        return root;
    json_decref(root);
    return NULL;
}

static mh_status put_description(job *j, const mh_view_options *options, mh_trace_kind start)
{
    json_t *root = page_describe(j, options, start);
    mh_buffer text = {0};
    if (root == NULL)
        return mh_fail(j->context, MH_ERROR_MEMORY, "page: out of memory for its description");
    mh_status status = mh_json_print(j->context, root, &text);
    json_decref(root);
    if (status == MH_OK)
        j->sink->description(j->to, text.data);
    mh_buffer_free(j->context, &text);
    return status;
}

// ---- the chunks ---------------------------------------------------------------------------------

static mh_status put_chunk(job *j, size_t size)
{
    size_t packed = mh_deflate(&j->deflater, j->packed, size);
    if (packed == 0)
        return mh_fail(j->context, MH_ERROR_MEMORY, "page: compressing %zu bytes failed", size);
    j->sink->chunk(j->to, j->chunk++, j->deflater.out, packed);
    return MH_OK;
}

static mh_status page_put_head(job *j, const mh_tensor *w, size_t layer, size_t head)
{
    size_t rows = w->shape[2], columns = w->shape[3], count = rows * columns;
    const float steps = j->bits == 8 ? 255.0f : 65535.0f;
    unsigned char *high = j->packed + rows * sizeof(float), *low = high + count;
    mh_status status = mh_trace_rows(j->context, w, layer, head, 0, rows, j->values);
    if (status != MH_OK)
        return status;
    for (size_t i = 0; i < rows; i++) {
        const float *row = j->values + i * columns;
        float most = 0;
        for (size_t k = 0; k < columns; k++)
            most = row[k] > most ? row[k] : most;
        memcpy(j->packed + i * sizeof most, &most, sizeof most);
        for (size_t k = 0; k < columns; k++) {
            unsigned step = most > 0 ? (unsigned)(row[k] / most * steps + 0.5f) : 0;
            if (j->bits == 8) {
                high[i * columns + k] = (unsigned char)step;
            } else {
                high[i * columns + k] = (unsigned char)(step >> 8);
                low[i * columns + k] = (unsigned char)step;
            }
        }
    }
    return put_chunk(j, rows * sizeof(float) + count * (size_t)(j->bits / 8));
}

static mh_status put_tap(job *j, int tap, const mh_tensor *t)
{
    size_t layers = tap_layers(tap, t), count = mh_tensor_count(t) / layers;
    const mh_dtype dtype = page_tap_dtype(j, tap);
    mh_status status = MH_OK;
    for (size_t l = 0; l < layers && status == MH_OK; l++) {
        mh_tensor from = tap == MH_TRACE_MASK ? *t : mh_tensor_slice(*t, 0, l, 1);
        mh_tensor to = mh_tensor_view(j->packed, dtype, from.rank, from.shape);
        status = mh_tensor_copy(j->context, &from, &to);
        if (status == MH_OK)
            status = put_chunk(j, count * mh_dtype_size(dtype));
    }
    return status;
}

static mh_status page_put_group(job *j, const mh_trace_group *g)
{
    const mh_tensor *w = &g->weights;
    mh_status status = MH_OK;
    for (size_t l = 0; l < w->shape[0]; l++)
        for (size_t h = 0; h < w->shape[1] && status == MH_OK; h++)
            status = page_put_head(j, w, l, h);
    for (int tap = 0; tap < MH_TRACE_TENSORS && status == MH_OK; tap++)
        if (page_tap(j, g, tap)->data != NULL)
            status = put_tap(j, tap, page_tap(j, g, tap));
    return status;
}

static mh_status page_put_picture(job *j, const mh_trace_picture *p)
{
    const size_t bytes = picture_bytes(p);
    memcpy(j->packed, p->pixels, bytes);
    return put_chunk(j, bytes);
}

mh_status mh_page_data(const mh_view_options *options, const mh_trace *trace,
                       const mh_page_sink *sink, mh_appender *to)
{
    job j = {.context = to->context, .trace = trace, .sink = sink, .to = to};
    mh_trace_kind start;
    if (options->bits != 0 && options->bits != 8 && options->bits != 16)
        return mh_fail(j.context, MH_ERROR_ARGUMENT, "bits: found %d, expected 0, 8 or 16",
                       options->bits);
    j.bits = options->bits ? options->bits : total_weights(trace) <= WEIGHTS_OF_16_BITS ? 16 : 8;
    mh_status status = mh_view_choose(j.context, options, trace, &start);
    if (status == MH_OK)
        status = page_reserve(&j);
    if (status == MH_OK)
        status = put_description(&j, options, start);
    for (int kind = 0; kind < MH_TRACE_KINDS && status == MH_OK && !to->failed; kind++)
        if (mh_trace_has(trace, kind))
            status = page_put_group(&j, &trace->groups[kind]);
    if (status == MH_OK && trace->picture.pixels != NULL && !to->failed)
        status = page_put_picture(&j, &trace->picture);
    mh_free(j.context, j.values, j.value_count * sizeof *j.values);
    mh_free(j.context, j.packed, j.packed_size);
    mh_deflater_close(&j.deflater);
    return status;
}
