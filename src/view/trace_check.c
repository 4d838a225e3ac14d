// SPDX-License-Identifier: MIT
// Validates a trace: consistent shapes, as many tokens as rows and columns, valid weights. All
// views rely on it, none checks again.
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/argument_check.h"
#include "base/overflow.h"
#include "base/sized_struct.h"
#include "view/trace.h"

const char *const mh_trace_tensor_names[MH_TRACE_TENSORS] = {"q",    "k", "v",   "out",
                                                             "mask", "x", "sum", "hidden"};

const char *mh_trace_kind_name(mh_trace_kind kind)
{
    static const char *const names[] = {"encoder.self", "decoder.self", "cross", "attention"};
    return (size_t)kind < MH_TRACE_KINDS ? names[kind] : NULL;
}

// ---- tokens -------------------------------------------------------------------------------------

// The tokens for one side of a group. A generic square group with one list uses it twice.
static mh_trace_tokens side(const mh_trace *trace, mh_trace_kind kind, bool keys)
{
    const mh_tensor *w = &trace->groups[kind].weights;
    const mh_trace_tokens *source = &trace->source, *target = &trace->target;
    if (kind == MH_TRACE_ENCODER)
        return *source;
    if (kind == MH_TRACE_DECODER)
        return trace->given.count ? trace->given : *target;
    if (kind == MH_TRACE_ATTENTION && w->shape[2] == w->shape[3] &&
        (source->count == 0 || target->count == 0))
        return source->count ? *source : *target;
    return keys ? *source : *target;
}

mh_trace_tokens mh_trace_queries(const mh_trace *trace, mh_trace_kind kind)
{
    return side(trace, kind, false);
}

mh_trace_tokens mh_trace_keys(const mh_trace *trace, mh_trace_kind kind)
{
    return side(trace, kind, true);
}

// Also lists that no group uses: they are written and drawn as well.
static mh_status trace_check_texts(mh_context *context, const char *list,
                                   const mh_trace_tokens *tokens)
{
    if (tokens->count != 0 && tokens->text == NULL)
        return mh_fail(context, MH_ERROR_ARGUMENT, "%s: %zu tokens, but text is NULL", list,
                       tokens->count);
    for (size_t i = 0; i < tokens->count; i++)
        if (tokens->text[i] == NULL)
            return mh_fail(context, MH_ERROR_ARGUMENT, "%s: token %zu is NULL", list, i);
    return MH_OK;
}

static mh_status check_count(mh_context *context, const char *group, const char *what,
                             mh_trace_tokens tokens, size_t expected)
{
    if (tokens.count != 0 && tokens.count != expected)
        return mh_fail(context, MH_ERROR_ARGUMENT, "%s: %zu token%s for %zu %s", group,
                       tokens.count, tokens.count == 1 ? "" : "s", expected, what);
    return MH_OK;
}

// ---- shapes -------------------------------------------------------------------------------------

static bool trace_check_is_float(mh_dtype t)
{
    return t == MH_F32 || t == MH_F64 || t == MH_F16 || t == MH_BF16;
}

static mh_status trace_refuse(mh_context *context, const char *group, const char *tensor,
                              const mh_tensor *t, const char *expected)
{
    char shape[160];
    return mh_fail(context, MH_ERROR_ARGUMENT, "%s%s%s: found %s, expected %s", group,
                   *tensor ? "." : "", tensor, mh_tensor_describe(t, shape, sizeof shape),
                   expected);
}

mh_status mh_trace_check_rank(mh_context *context, mh_trace_kind kind, const mh_tensor *w)
{
    static const char *const sides[] = {"S, S", "T, T", "T, S", "T, S"};
    char expected[120];
    if (w->data == NULL || w->rank == 4)
        return MH_OK;
    snprintf(expected, sizeof expected, "4 dimensions, (layers, heads, %s)%s", sides[kind],
             w->rank == 5 ? ": of a batch, one sequence" : "");
    return trace_refuse(context, mh_trace_kind_name(kind), "", w, expected);
}

static mh_status trace_check_weights(mh_context *context, const char *group, const mh_tensor *w)
{
    size_t count, bytes;
    if (!trace_check_is_float(w->dtype) && w->dtype != MH_U8 && w->dtype != MH_U16)
        return trace_refuse(context, group, "", w, "f32, f64, f16, bf16, u8 or u16");
    for (int d = 0; d < 4; d++)
        if (w->shape[d] == 0)
            return trace_refuse(context, group, "", w, "no dimension of 0");
    if (!mh_multiply_all(4, w->shape, &count) || !mh_multiply_sizes(count, 8, &bytes))
        return trace_refuse(context, group, "", w, "a shape whose size fits in memory");
    if (!mh_strides_fit(w->rank, w->shape, w->stride, mh_dtype_size(w->dtype)))
        return trace_refuse(context, group, "", w, "strides that stay within what memory can hold");
    return MH_OK;
}

// A tap must have the dimensions in `shape`; 0 matches any size but 0.
static mh_status check_tap(mh_context *context, const char *group, const char *name,
                           const mh_tensor *t, int rank, const size_t *shape)
{
    char expected[160];
    size_t used = 0;
    bool fits = t->rank == rank;
    for (int d = 0; d < rank; d++) {
        if (shape[d] != 0)
            used += (size_t)snprintf(expected + used, sizeof expected - used, "%s%zu",
                                     d ? ", " : "(", shape[d]);
        else
            used +=
                (size_t)snprintf(expected + used, sizeof expected - used, "%sn", d ? ", " : "(");
        fits = fits && t->shape[d] != 0 && (shape[d] == 0 || t->shape[d] == shape[d]);
    }
    snprintf(expected + used, sizeof expected - used, ")");
    if (!fits)
        return trace_refuse(context, group, name, t, expected);
    bool mask = rank == 2;
    if (mask ? t->dtype != MH_BOOL && t->dtype != MH_U8 : !trace_check_is_float(t->dtype))
        return trace_refuse(context, group, name, t, mask ? "bool or u8" : "f32, f64, f16 or bf16");
    if (!mh_strides_fit(t->rank, t->shape, t->stride, mh_dtype_size(t->dtype)))
        return trace_refuse(context, group, name, t,
                            "strides that stay within what memory can hold");
    return MH_OK;
}

static mh_status check_taps(mh_context *context, const char *name, const mh_trace_group *g)
{
    const size_t *s = g->weights.shape;
    mh_status status = MH_OK;
    if ((g->q.data != NULL) != (g->k.data != NULL) || (g->q.data != NULL) != (g->v.data != NULL))
        return mh_fail(context, MH_ERROR_ARGUMENT, "%s: q, k and v must be given together", name);
    if (!isfinite(g->scale) || g->scale < 0)
        return mh_fail(context, MH_ERROR_ARGUMENT, "%s: scale %g, expected a positive number", name,
                       g->scale);
    if (g->q.data != NULL) {
        if (g->k.rank != 4 || g->k.shape[1] == 0 || s[1] % g->k.shape[1] != 0)
            return trace_refuse(context, name, "k", &g->k,
                                "rank 4 and a number of heads that divides that of the weights");
        status = check_tap(context, name, "q", &g->q, 4, (size_t[]){s[0], s[1], s[2], 0});
        if (status == MH_OK)
            status = check_tap(context, name, "k", &g->k, 4,
                               (size_t[]){s[0], g->k.shape[1], s[3], g->q.shape[3]});
        if (status == MH_OK)
            status =
                check_tap(context, name, "v", &g->v, 4, (size_t[]){s[0], g->k.shape[1], s[3], 0});
    }
    if (status == MH_OK && g->out.data != NULL)
        status = check_tap(context, name, "out", &g->out, 3, (size_t[]){s[0], s[2], 0});
    for (int tap = MH_TRACE_X; tap <= MH_TRACE_HIDDEN && status == MH_OK; tap++) {
        const mh_tensor *t = mh_trace_tensor_const(g, tap);
        if (t->data != NULL)
            status = check_tap(context, name, mh_trace_tensor_names[tap], t, 3,
                               (size_t[]){s[0], s[2], 0});
    }
    if (status == MH_OK && g->mask.data != NULL)
        status = check_tap(context, name, "mask", &g->mask, 2, (size_t[]){s[2], s[3]});
    return status;
}

// ---- values -------------------------------------------------------------------------------------

mh_status mh_trace_rows(mh_context *context, const mh_tensor *weights, size_t layer, size_t head,
                        size_t row, size_t count, float *to)
{
    mh_tensor from = mh_tensor_slice(*weights, 0, layer, 1);
    from = mh_tensor_slice(from, 1, head, 1);
    from = mh_tensor_slice(from, 2, row, count);
    mh_tensor out = mh_tensor_4d(to, MH_F32, 1, 1, count, weights->shape[3]);
    mh_status status = mh_tensor_copy(context, &from, &out);
    bool integer = weights->dtype == MH_U8 || weights->dtype == MH_U16;
    float step = weights->dtype == MH_U8 ? 255.0f : 65535.0f;
    for (size_t i = 0; status == MH_OK && integer && i < count * weights->shape[3]; i++)
        to[i] /= step;
    return status;
}

typedef struct odd_rows {
    const char *axis; // what `layer` counts
    size_t count;
    size_t layer, head, row; // of the first
    double sum;
} odd_rows;

// Far above the rounding error of a softmax in f16 or u8, far below a real mistake.
enum { SUM_PERCENT = 2 };

static mh_status check_row(mh_context *context, const char *name, const float *row, size_t keys,
                           size_t layer, size_t head, size_t query, odd_rows *odd)
{
    double sum = 0;
    for (size_t j = 0; j < keys; j++) {
        if (!isfinite(row[j]) || row[j] < 0)
            return mh_fail(context, MH_ERROR_ARGUMENT,
                           "%s: %s %zu, head %zu, query %zu, key %zu: found %g, expected a "
                           "weight, finite and not negative",
                           name, odd->axis, layer, head, query, j, (double)row[j]);
        sum += (double)row[j];
    }
    bool empty = sum == 0; // a query without live keys
    if (!empty && fabs(sum - 1) > SUM_PERCENT / 100.0) {
        if (odd->count == 0)
            *odd = (odd_rows){odd->axis, 0, layer, head, query, sum};
        odd->count++;
    }
    return MH_OK;
}

static mh_status check_values(mh_context *context, const char *name, const mh_trace_group *g,
                              bool warn)
{
    const mh_tensor *w = &g->weights;
    const size_t *s = w->shape;
    odd_rows odd = {.axis = mh_trace_axis(g)};
    mh_status status = MH_OK;
    float *row = mh_alloc(context, s[3] * sizeof *row);
    if (row == NULL)
        return MH_ERROR_MEMORY;
    for (size_t l = 0; l < s[0]; l++)
        for (size_t h = 0; h < s[1]; h++)
            for (size_t i = 0; i < s[2] && status == MH_OK; i++) {
                status = mh_trace_rows(context, w, l, h, i, 1, row);
                if (status == MH_OK)
                    status = check_row(context, name, row, s[3], l, h, i, &odd);
            }
    mh_free(context, row, s[3] * sizeof *row);
    if (status == MH_OK && warn && odd.count != 0)
        mh_log(context, MH_LOG_WARNING,
               "%s: %zu of %zu rows do not sum to 1; the first is %s %zu, head %zu, query %zu: "
               "%.4g",
               name, odd.count, s[0] * s[1] * s[2], odd.axis, odd.layer, odd.head, odd.row,
               odd.sum);
    return status;
}

static mh_status check_group(mh_context *context, const mh_trace *trace, mh_trace_kind kind,
                             bool warn)
{
    const mh_trace_group *g = &trace->groups[kind];
    const char *name = mh_trace_kind_name(kind);
    mh_status status = mh_trace_check_rank(context, kind, &g->weights);
    if (status == MH_OK)
        status = trace_check_weights(context, name, &g->weights);
    if (status == MH_OK)
        status = check_count(context, name, "queries", mh_trace_queries(trace, kind),
                             g->weights.shape[2]);
    if (status == MH_OK)
        status =
            check_count(context, name, "keys", mh_trace_keys(trace, kind), g->weights.shape[3]);
    if (status == MH_OK)
        status = check_taps(context, name, g);
    if (status == MH_OK)
        status = check_values(context, name, g, warn);
    return status;
}

// ---- choices and hypotheses ---------------------------------------------------------------------

static mh_status check_probability(mh_context *context, const char *name, size_t i, float found)
{
    if (found >= 0 && found <= 1.001f) // false for NaN
        return MH_OK;
    return mh_fail(context, MH_ERROR_ARGUMENT, "%s[%zu]: found %g, expected a probability", name, i,
                   (double)found);
}

static mh_status check_choices(mh_context *context, const mh_trace *trace)
{
    const mh_trace_choices *c = &trace->choices;
    const size_t T = trace->target.count;
    size_t count;
    mh_status status = MH_OK;
    if (c->count == 0)
        return MH_OK;
    if (!c->text || !c->probability || !c->chosen)
        return mh_fail(context, MH_ERROR_ARGUMENT,
                       "choices: found NULL, expected text, probability and chosen");
    if (T == 0)
        return mh_fail(context, MH_ERROR_ARGUMENT, "choices: found no target tokens");
    if (!mh_multiply_sizes(T, c->count, &count))
        return mh_fail(context, MH_ERROR_ARGUMENT, "choices: found %zu for each token", c->count);
    for (size_t i = 0; i < count && status == MH_OK; i++)
        status = !c->text[i]
                     ? mh_fail(context, MH_ERROR_ARGUMENT, "choices.text[%zu]: is NULL", i)
                     : check_probability(context, "choices.probability", i, c->probability[i]);
    for (size_t i = 0; i < T && status == MH_OK; i++)
        status = check_probability(context, "choices.chosen", i, c->chosen[i]);
    return status;
}

static mh_status check_hypotheses(mh_context *context, const mh_trace *trace)
{
    if (trace->hypothesis_count > 0 && !trace->hypotheses)
        return mh_fail(context, MH_ERROR_ARGUMENT, "hypotheses: found NULL, expected %zu",
                       trace->hypothesis_count);
    for (size_t i = 0; i < trace->hypothesis_count; i++)
        if (!trace->hypotheses[i].text || !isfinite(trace->hypotheses[i].score))
            return mh_fail(context, MH_ERROR_ARGUMENT,
                           "hypotheses[%zu]: expected a text and a finite score", i);
    return MH_OK;
}

static mh_status check_labels(mh_context *context, const mh_trace *trace)
{
    if (trace->label_count > 0 && !trace->labels)
        return mh_fail(context, MH_ERROR_ARGUMENT, "labels: found NULL, expected %zu",
                       trace->label_count);
    for (size_t i = 0; i < trace->label_count; i++)
        if (!trace->labels[i].text || !isfinite(trace->labels[i].probability))
            return mh_fail(context, MH_ERROR_ARGUMENT,
                           "labels[%zu]: expected a text and a finite probability", i);
    return MH_OK;
}

// ---- the picture --------------------------------------------------------------------------------

mh_status mh_trace_check_picture(mh_context *context, const mh_trace *trace)
{
    const mh_trace_picture *p = &trace->picture;
    const mh_tensor *w = &trace->groups[MH_TRACE_ENCODER].weights;
    if (p->pixels == NULL)
        return MH_OK;
    if (p->height - 1 >= MH_TRACE_PICTURE_SIDE_MAX || p->width - 1 >= MH_TRACE_PICTURE_SIDE_MAX)
        return mh_fail(context, MH_ERROR_ARGUMENT,
                       "picture: found %zu x %zu pixels, expected 1 to %d each", p->width,
                       p->height, MH_TRACE_PICTURE_SIDE_MAX);
    if (p->rows - 1 >= p->height || p->columns - 1 >= p->width)
        return mh_fail(context, MH_ERROR_ARGUMENT,
                       "picture: found %zu x %zu patches, rows by columns, expected 1 x 1 to "
                       "%zu x %zu, a pixel each",
                       p->rows, p->columns, p->height, p->width);
    if (w->data == NULL || trace->groups[MH_TRACE_ENCODER].sequences)
        return mh_fail(context, MH_ERROR_ARGUMENT, "picture: expected layers of %s beside it",
                       mh_trace_kind_name(MH_TRACE_ENCODER));
    if (w->shape[2] != w->shape[3] || p->rows * p->columns > w->shape[2])
        return mh_fail(context, MH_ERROR_ARGUMENT,
                       "picture: found %zu x %zu patches, and %zu queries and %zu keys of %s, "
                       "expected a query and a key for each patch",
                       p->rows, p->columns, w->shape[2], w->shape[3],
                       mh_trace_kind_name(MH_TRACE_ENCODER));
    return MH_OK;
}

mh_status mh_trace_read(mh_context *context, const mh_trace *given, bool warn, mh_trace *trace)
{
    bool any = false;
    *trace = mh_trace_default();
    mh_status status = mh_need(context, given, "trace");
    if (status == MH_OK)
        status = MH_READ_STRUCT(context, mh_trace, given, trace);
    if (status == MH_OK)
        status = trace_check_texts(context, "source", &trace->source);
    if (status == MH_OK)
        status = trace_check_texts(context, "target", &trace->target);
    if (status == MH_OK)
        status = trace_check_texts(context, "given", &trace->given);
    if (status == MH_OK)
        status = check_choices(context, trace);
    if (status == MH_OK)
        status = check_hypotheses(context, trace);
    if (status == MH_OK)
        status = check_labels(context, trace);
    for (int kind = 0; kind < MH_TRACE_KINDS && status == MH_OK; kind++) {
        const mh_trace_group *g = &trace->groups[kind];
        if (g->weights.data != NULL) {
            any = true;
            status = check_group(context, trace, (mh_trace_kind)kind, warn);
        } else if (g->q.data != NULL || g->k.data != NULL || g->v.data != NULL ||
                   g->out.data != NULL || g->mask.data != NULL) {
            return mh_fail(context, MH_ERROR_ARGUMENT, "%s: tensors without weights",
                           mh_trace_kind_name((mh_trace_kind)kind));
        }
    }
    if (status == MH_OK && !any)
        return mh_fail(context, MH_ERROR_ARGUMENT,
                       "trace: no weights, expected at least one of encoder.self, decoder.self, "
                       "cross and attention");
    return status == MH_OK ? mh_trace_check_picture(context, trace) : status;
}

mh_status mh_trace_check(mh_context *context, const mh_trace *trace)
{
    mh_trace own;
    return mh_trace_read(context, trace, true, &own);
}

mh_status mh_view_choose(mh_context *context, const mh_view_options *options, const mh_trace *trace,
                         mh_trace_kind *kind)
{
    static const mh_trace_kind order[] = {MH_TRACE_CROSS, MH_TRACE_ENCODER, MH_TRACE_DECODER,
                                          MH_TRACE_ATTENTION};
    *kind = options->kind;
    if (options->kind < MH_TRACE_ANY || (int)options->kind >= MH_TRACE_KINDS)
        return mh_fail(context, MH_ERROR_ARGUMENT, "kind: found %d, expected -1 to %d",
                       (int)options->kind, MH_TRACE_KINDS - 1);
    for (size_t i = 0; *kind == MH_TRACE_ANY && i < sizeof order / sizeof *order; i++)
        if (mh_trace_has(trace, (int)order[i]))
            *kind = order[i];
    if (!mh_trace_has(trace, (int)*kind)) { // but another: mh_trace_read came first
        char found[80] = "";
        for (int k = 0; k < MH_TRACE_KINDS; k++)
            if (mh_trace_has(trace, k))
                snprintf(found + strlen(found), sizeof found - strlen(found), "%s%s",
                         *found ? ", " : "", mh_trace_kind_name((mh_trace_kind)k));
        return mh_fail(context, MH_ERROR_ARGUMENT, "kind: the trace has no '%s', only %s",
                       mh_trace_kind_name(*kind), found);
    }
    const size_t *shape = trace->groups[*kind].weights.shape;
    if (options->layer < -1 || options->layer >= (ptrdiff_t)shape[0])
        return mh_fail(context, MH_ERROR_ARGUMENT, "%s: found %td, expected 0 to %zu",
                       mh_trace_axis(&trace->groups[*kind]), options->layer, shape[0] - 1);
    if (options->head < -1 || options->head >= (ptrdiff_t)shape[1])
        return mh_fail(context, MH_ERROR_ARGUMENT, "head: found %td, expected 0 to %zu",
                       options->head, shape[1] - 1);
    return MH_OK;
}
