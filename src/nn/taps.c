// SPDX-License-Identifier: MIT
// Checks and fills a tap's tensors except its weights, which the engine writes itself.
#include "nn/taps.h"
#include "base/compiler.h"
#include "nn/attention_layer_internal.h"
#include "ops/overlap.h"
#include "ops/tensor_check.h"

static mh_status taps_check_shape(mh_context *context, const char *name, const mh_tensor *t,
                                  const mh_tensor *like)
{
    char found[128], expected[128];
    if (!t->data)
        return MH_OK;
    MH_TRY(mh_check_float(context, name, t, like->rank));
    if (!mh_tensor_same_shape(t, like))
        return mh_fail(context, MH_ERROR_ARGUMENT, "%s: found %s, expected %s", name,
                       mh_tensor_describe(t, found, sizeof found),
                       mh_tensor_describe(like, expected, sizeof expected));
    return MH_OK;
}

static const mh_tensor *if_given(const mh_tensor *t) { return t->data ? t : NULL; }

static mh_status taps_check_overlap(mh_context *context, const mh_tap *tap)
{
    mh_status status =
        tap->weights.data ? mh_check_float(context, "weights", &tap->weights, 4) : MH_OK;
    if (status)
        return status;
    return MH_CHECK_OVERLAP(context, 8, {.name = "tap.weights", .tensor = if_given(&tap->weights)},
                            {.name = "tap.q", .tensor = if_given(&tap->q)},
                            {.name = "tap.k", .tensor = if_given(&tap->k)},
                            {.name = "tap.v", .tensor = if_given(&tap->v)},
                            {.name = "tap.out", .tensor = if_given(&tap->out)},
                            {.name = "tap.hidden", .tensor = if_given(&tap->hidden)},
                            {.name = "tap.x", .tensor = if_given(&tap->x)},
                            {.name = "tap.sum", .tensor = if_given(&tap->sum)});
}

// A view of an output's rows as (B, T, D); packed: (1, rows, D).
static mh_tensor by_sequence(const mh_batch *batch, const mh_tensor *rows)
{
    const size_t D = rows->shape[1];
    mh_tensor t = mh_heads_view(batch, rows->data, (size_t)rows->stride[0], 1, D, D);
    t.rank = 3;
    t.shape[1] = t.shape[2], t.stride[1] = t.stride[2];
    t.shape[2] = t.shape[3], t.stride[2] = t.stride[3];
    return t;
}

mh_status mh_tap_check(mh_context *context, const mh_attention_layer *layer,
                       const mh_attention_call *call, const mh_attention_saved *saved)
{
    const mh_tap *tap = call->tap;
    const size_t D = layer->config.embed_dim;
    const mh_tensor rows = mh_tensor_2d(NULL, MH_F32, mh_batch_rows(&call->queries), D);
    const mh_tensor out = by_sequence(&call->queries, &rows);
    if (call->cache && (tap->k.data || tap->v.data))
        return mh_fail(context, MH_ERROR_ARGUMENT,
                       "tap.%c: found a tensor, expected none where keys and values are cached",
                       tap->k.data ? 'k' : 'v');
    MH_TRY(taps_check_shape(context, "tap.q", &tap->q, &saved->q));
    MH_TRY(taps_check_shape(context, "tap.k", &tap->k, &saved->k));
    MH_TRY(taps_check_shape(context, "tap.v", &tap->v, &saved->v));
    MH_TRY(taps_check_shape(context, "tap.out", &tap->out, &out));
    return taps_check_overlap(context, tap);
}

mh_status mh_taps_check_overlap(mh_context *context, const mh_tap *taps, size_t count,
                                const mh_tensor *output, const mh_tensor *src, const mh_tensor *tgt)
{
    mh_status status = MH_OK;
    for (size_t i = 0; i < count && !status; i++) {
        const mh_operand tensors[] = {
            {.name = "tap.weights", .tensor = if_given(&mh_tap_at(taps, i)->weights)},
            {.name = "tap.q", .tensor = if_given(&mh_tap_at(taps, i)->q)},
            {.name = "tap.k", .tensor = if_given(&mh_tap_at(taps, i)->k)},
            {.name = "tap.v", .tensor = if_given(&mh_tap_at(taps, i)->v)},
            {.name = "tap.out", .tensor = if_given(&mh_tap_at(taps, i)->out)},
            {.name = "tap.hidden", .tensor = if_given(&mh_tap_at(taps, i)->hidden)},
            {.name = "tap.x", .tensor = if_given(&mh_tap_at(taps, i)->x)},
            {.name = "tap.sum", .tensor = if_given(&mh_tap_at(taps, i)->sum)}};
        for (size_t j = 0; j < sizeof tensors / sizeof *tensors && !status; j++) {
            if (tensors[j].tensor)
                status = mh_check_float(context, tensors[j].name, tensors[j].tensor, -1);
            if (!status)
                status = MH_CHECK_OVERLAP(context, 1, tensors[j], MH_OPERAND(output),
                                          MH_OPERAND(src), MH_OPERAND(tgt));
        }
    }
    return status;
}

mh_status mh_tap_heads(mh_context *context, const mh_attention_call *call,
                       const mh_attention_saved *saved)
{
    const mh_tensor *from[] = {&saved->q, &saved->k, &saved->v};
    mh_tensor to[] = {call->tap->q, call->tap->k, call->tap->v};
    mh_status status = MH_OK;
    for (int i = 0; i < 3 && !status; i++)
        if (to[i].data)
            status = mh_tensor_copy(context, from[i], &to[i]);
    return status;
}

mh_status mh_tap_out(mh_context *context, const mh_attention_call *call, const mh_tensor *rows)
{
    const mh_tensor from = by_sequence(&call->queries, rows);
    mh_tensor to = call->tap->out;
    return mh_tensor_copy(context, &from, &to);
}

mh_status mh_tap_rows(mh_context *context, const mh_pass *pass, const char *name,
                      const mh_tensor *rows, const mh_tensor *to)
{
    const mh_tensor from = by_sequence(&pass->rows, rows);
    mh_status status = taps_check_shape(context, name, to, &from);
    mh_tensor own = *to;
    return status || !to->data ? status : mh_tensor_copy(context, &from, &own);
}
