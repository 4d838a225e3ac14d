// SPDX-License-Identifier: MIT
// Multi-head attention as a tutorial shows it: every step is a separate call on materialised
// tensors, and is timed. The module itself never materialises the (B, H, T, S) scores; it runs at
// the end in one call, and both must agree.
//
//     x -- project --> q k v -- split heads --> scores -> mask -> softmax -> weighted sum
//                                                                                |
//     out <-- output projection -- merge heads <---------------------------------+
#include "mha_trace.h"
#include "messages.h"

#include <math.h>
#include <multihead/ops.h>
#include <multihead/optimiser.h>

int trace_check(const trace *t, mh_status status, const char *step)
{
    return status == MH_OK ? EXIT_DONE : complain_status(t->m->context, status, step);
}

// ---- memory and views ---------------------------------------------------------------------------

int trace_take(trace *t, const char *what, int rank, const size_t *shape, mh_tensor *tensor)
{
    size_t size;
    int code = array_allocate(t->m->context, what, MH_F32, rank, shape, tensor, &size);
    if (code != EXIT_DONE)
        return code;
    t->buffers[t->buffer_count].data = memset(tensor->data, 0, size);
    t->buffers[t->buffer_count++].size = size;
    return EXIT_DONE;
}

static void trace_release(trace *t)
{
    while (t->buffer_count-- > 0)
        mh_free(t->m->context, t->buffers[t->buffer_count].data, t->buffers[t->buffer_count].size);
}

mh_tensor trace_by_batch(const mha *m, void *rows, size_t length, size_t width)
{
    if (m->config.batch_first)
        return mh_tensor_3d(rows, MH_F32, m->B, length, width);
    return mh_tensor_swap(mh_tensor_3d(rows, MH_F32, length, m->B, width), 0, 1);
}

mh_tensor trace_split(const mha *m, mh_tensor y, int which)
{
    const size_t H = m->config.num_heads, E = m->config.embed_dim / H;
    mh_tensor heads = mh_tensor_swap(mh_tensor_split(y, 2, which ? m->config.kv_heads : H), 1, 2);
    return m->config.qkv == MH_QKV_INTERLEAVED ? mh_tensor_slice(heads, 3, (size_t)which * E, E)
                                               : heads;
}

mh_tensor trace_parameter(const mha *m, const char *name)
{
    const mh_parameters *all = mh_mha_parameters(m->module);
    const mh_parameter *found = mh_parameters_find(all, name);
    return found ? mh_parameter_view(found, all->values) : (mh_tensor){.data = NULL};
}

int trace_project(trace *t, const char *what, const mh_tensor *x, const mh_tensor *weight,
                  const mh_tensor *bias, mh_tensor *y, double *seconds)
{
    int code = trace_take(t, what, 2, (size_t[]){x->shape[0], weight->shape[0]}, y);
    if (code != EXIT_DONE)
        return code;
    mh_linear_options options = mh_linear_options_default();
    options.precision = t->m->config.precision;
    options.bias = bias->data ? bias : NULL;
    const double start = steps_now();
    mh_status status = mh_linear(t->m->context, &options, x, weight, y);
    *seconds = steps_now() - start;
    return status == MH_OK ? EXIT_DONE : complain_status(t->m->context, status, what);
}

// ---- scores, mask, softmax, weighted sum --------------------------------------------------------

// A mask in additive form: 0, or -inf where a query may not see a key.
static int added(trace *t, const mh_tensor *mask, mh_tensor *numbers)
{
    if (mask->dtype == MH_F32) {
        *numbers = *mask;
        return EXIT_DONE;
    }
    int code = trace_take(t, "mask", mask->rank, mask->shape, numbers);
    const bool *drop = mask->data;
    float *x = numbers->data;
    const size_t count = code == EXIT_DONE ? mh_tensor_count(mask) : 0;
    for (size_t i = 0; i < count; i++)
        x[i] = drop[i] ? -INFINITY : 0;
    return code;
}

// Query i is at the position of key i + offset.
static ptrdiff_t offset_of(const mha *m)
{
    return m->causal == MH_CAUSAL_BOTTOM_RIGHT ? (ptrdiff_t)m->S - (ptrdiff_t)m->T : 0;
}

static int causal_numbers(trace *t, mh_tensor *numbers)
{
    mha *m = t->m;
    int code = trace_take(t, "mask", 2, (size_t[]){m->T, m->S}, numbers);
    if (code != EXIT_DONE)
        return code;
    const ptrdiff_t offset = offset_of(m);
    float *x = numbers->data;
    for (size_t i = 0; i < m->T; i++)
        for (size_t j = 0; j < m->S; j++)
            x[i * m->S + j] = (ptrdiff_t)j > (ptrdiff_t)i + offset ? -INFINITY : 0;
    return EXIT_DONE;
}

// All masks in additive form, broadcastable to (B, H, T, S); *count of them.
static int gather_masks(trace *t, mh_tensor masks[3], size_t *count)
{
    mha *m = t->m;
    int code = EXIT_DONE;
    *count = 0;
    if (m->options.key_padding_mask) {
        mh_tensor *mask = &masks[(*count)++];
        code = added(t, m->options.key_padding_mask, mask);
        *mask = mh_tensor_4d(mask->data, MH_F32, m->B, 1, 1, m->S);
    }
    if (m->options.attn_mask && code == EXIT_DONE) {
        mh_tensor *mask = &masks[(*count)++];
        code = added(t, m->options.attn_mask, mask);
        if (mask->rank == 3)
            *mask = mh_tensor_split(*mask, 0, m->B);
    }
    if (m->causal != MH_CAUSAL_NONE && code == EXIT_DONE)
        code = causal_numbers(t, &masks[(*count)++]);
    return code;
}

static int mask_scores(trace *t)
{
    mha *m = t->m;
    mh_tensor masks[3];
    size_t count;
    const double start = steps_now();
    int code = gather_masks(t, masks, &count);
    mh_tensor scores = mh_tensor_slice(t->attention, 3, 0, m->S);
    for (size_t i = 0; i < count && code == EXIT_DONE; i++)
        code = trace_check(t, mh_add(m->context, &scores, &masks[i], &scores), "mask");
    if (code == EXIT_DONE)
        show_step(m, "mask", "scores", &t->attention, count ? steps_now() - start : (double)NAN,
                  count ? "scores + M: M is -inf where a key is masked"
                        : "none: every query sees every key");
    if (code == EXIT_DONE && count)
        keep_scores(m, &t->attention);
    return code;
}

static int add_alibi(trace *t)
{
    mha *m = t->m;
    const size_t H = m->config.num_heads;
    mh_tensor bias;
    if (!m->config.alibi)
        return EXIT_DONE;
    const double start = steps_now();
    int code = trace_take(t, "alibi", 3, (size_t[]){H, m->T, m->S}, &bias);
    float *x = bias.data;
    for (size_t h = 0; h < H && code == EXIT_DONE; h++)
        for (size_t i = 0; i < m->T; i++)
            for (size_t j = 0; j < m->S; j++)
                *x++ = -mh_alibi_slope(h, H) *
                       fabsf((float)((ptrdiff_t)i + offset_of(m) - (ptrdiff_t)j));
    if (code == EXIT_DONE)
        code = trace_check(t, mh_add(m->context, &t->attention, &bias, &t->attention), "alibi");
    if (code == EXIT_DONE)
        show_step(m, "alibi", "scores", &t->attention, steps_now() - start,
                  "scores - m |i - j|: a penalty on distance, slope m per head");
    return code;
}

// A sink is one more score in each row, without a value.
static mh_status softmax(trace *t)
{
    mha *m = t->m;
    const size_t H = m->config.num_heads, S = m->S + m->extra;
    mh_tensor sinks = trace_parameter(m, "sinks"), wide;
    mh_status status = MH_OK;
    if (sinks.data) {
        mh_tensor column = mh_tensor_slice(t->rows, 3, S, 1);
        sinks = mh_tensor_4d(sinks.data, MH_F32, 1, H, 1, 1);
        status = mh_tensor_broadcast(m->context, &sinks, 4, column.shape, &wide);
        if (status == MH_OK)
            status = mh_tensor_copy(m->context, &wide, &column);
    }
    return status == MH_OK ? mh_softmax(m->context, &t->rows, -1, &t->rows) : status;
}

static int trace_attend(trace *t)
{
    mha *m = t->m;
    const size_t H = m->config.num_heads, E = m->config.embed_dim / H;
    const size_t keys = m->S + m->extra;
    int code =
        trace_take(t, "scores", 4, (size_t[]){m->B, H, m->T, keys + m->config.sinks}, &t->rows);
    if (code == EXIT_DONE)
        code = trace_take(t, "values", 2, (size_t[]){m->B * m->T, H * E}, &t->merged);
    if (code != EXIT_DONE)
        return code;
    t->attention = mh_tensor_slice(t->rows, 3, 0, keys);
    // The heads' outputs are written next to each other in the merged tensor: merging is a view.
    t->heads = trace_split(m, trace_by_batch(m, t->merged.data, m->T, H * E), 0);

    double start = steps_now();
    mh_status status = steps_scores(m->context, &t->q, &t->k, &t->attention);
    if (status == MH_OK) // a product with a scalar
        status = mh_scale_gradients(m->context, 1 / sqrt((double)E), mh_tensor_count(&t->rows),
                                    t->rows.data);
    if (status != MH_OK)
        return trace_check(t, status, "scores");
    show_step(m, "scores", "scores", &t->attention, steps_now() - start,
              "q k^T / sqrt(E): how well each query matches each key");
    code = add_alibi(t);
    if (code == EXIT_DONE)
        code = mask_scores(t);
    if (code != EXIT_DONE)
        return code;

    start = steps_now();
    status = softmax(t);
    if (status != MH_OK)
        return trace_check(t, status, "softmax");
    show_step(m, "softmax", "attention", &t->attention, steps_now() - start,
              m->config.sinks
                  ? "exp(score) / (sum of exp + exp(sink)): each row sums to less than 1"
                  : "exp(score) / sum of exp: each row sums to 1");

    start = steps_now();
    status = steps_weigh(m->context, &t->attention, &t->v, &t->heads);
    if (status != MH_OK)
        return trace_check(t, status, "weighted sum");
    show_step(m, "weighted sum", "values", &t->heads, steps_now() - start,
              "attention v: mean of the values, weighted by attention");
    return EXIT_DONE;
}

// ---- merge, output projection, and all at once --------------------------------------------------

static int trace_merge(trace *t)
{
    mha *m = t->m;
    const size_t D = m->config.embed_dim;
    const mh_tensor weight = trace_parameter(m, "out_proj.weight"),
                    bias = trace_parameter(m, "out_proj.bias");
    double seconds = 0;
    mh_tensor shown = trace_by_batch(m, t->merged.data, m->T, D);
    show_step(m, "merge heads", "concat", &shown, -1, "(B,T,H E): the heads concatenated, D = H E");
    int code = trace_project(t, "out", &t->merged, &weight, &bias, &t->out, &seconds);
    if (code != EXIT_DONE)
        return code;
    shown = trace_by_batch(m, t->out.data, m->T, D);
    show_step(m, "output projection", "out", &shown, seconds,
              "concat Wo^T + bo: mixes the outputs of the heads");
    return EXIT_DONE;
}

static int trace_run_module(trace *t)
{
    mha *m = t->m;
    output *out = &m->outputs[OUTPUT_OUT], *weights = &m->outputs[OUTPUT_WEIGHTS];
    const double start = steps_now();
    mh_status status =
        mh_mha_forward(m->context, m->module, &m->options, &m->query, &m->key, &m->value,
                       &out->tensor, weights->path ? &weights->tensor : NULL);
    const double seconds = steps_now() - start;
    if (status != MH_OK)
        return complain_status(m->context, status, NULL);
    double difference = 0;
    const size_t rows = m->T * m->B;
    const mh_tensor fused = mh_tensor_2d(out->tensor.data, MH_F32, rows, m->config.embed_dim);
    const bool agree = steps_agree(&t->out, &fused, &difference);
    show_module(m, seconds, difference);
    return agree ? EXIT_DONE : steps_complain("out", difference);
}

int mha_trace(mha *m)
{
    trace t = {.m = m};
    const bool masked =
        m->options.key_padding_mask || m->options.attn_mask || m->causal != MH_CAUSAL_NONE;
    int code = steps_token(m->token, m->T, masked, &m->shown);
    if (code != EXIT_DONE)
        return code;
    show_begin(m);
    code = trace_make_heads(&t);
    if (code == EXIT_DONE)
        code = trace_attend(&t);
    if (code == EXIT_DONE)
        code = trace_merge(&t);
    show_steps_end(m);
    if (code == EXIT_DONE && m->values) {
        const size_t D = m->config.embed_dim;
        const mh_tensor x = trace_by_batch(m, m->query.data, m->T, m->config.input_dim);
        const mh_tensor merged = trace_by_batch(m, t.merged.data, m->T, D);
        const mh_tensor out = trace_by_batch(m, t.out.data, m->T, D);
        show_values(m, &x, &t.attention, &t.heads, &merged, &out);
    }
    if (code == EXIT_DONE)
        code = trace_run_module(&t);
    trace_release(&t);
    return code;
}
