// SPDX-License-Identifier: MIT
// Argument checks of the Transformer: sequences of rows, masks of matching shapes, taps of existing
// attentions.
#include "base/compiler.h"
#include "base/context.h"
#include "base/sized_struct.h"
#include "nn/flatten.h"
#include "nn/taps.h"
#include "nn/transformer_call.h"
#include "ops/tensor_check.h"
#include <multihead/ops.h>

static mh_status pack_batch(mh_context *context, const char *name, const mh_tensor *t,
                            size_t sequences, const int64_t *starts, mh_batch *batch)
{
    if (t->rank != 2 || !starts)
        return mh_fail(context, MH_ERROR_ARGUMENT,
                       "%s: expected (rows, D) and starts for a packed batch", name);
    for (size_t b = 0; b <= sequences; b++)
        if (starts[b] < (b ? starts[b - 1] : 0) || (b == 0 && starts[0] != 0) ||
            (b == sequences && (size_t)starts[b] != t->shape[0]))
            return mh_fail(context, MH_ERROR_ARGUMENT,
                           "%s_starts[%zu]: found %lld, expected 0, ... in order, up to %zu", name,
                           b, (long long)starts[b], t->shape[0]);
    *batch = (mh_batch){sequences, t->shape[0], 0, 0, starts};
    return MH_OK;
}

// Maps rows of x to sequences: by its shape, or in a packed batch by `starts`.
static mh_status find_batch(mh_context *context, const mh_transformer *t,
                            const mh_transformer_options *o, const char *name, const mh_tensor *x,
                            const int64_t *starts, mh_batch *batch)
{
    mh_status status =
        mh_batch_of(context, name, x, t->config.d_model, t->config.batch_first, batch);
    if (!status && o->sequences)
        status = pack_batch(context, name, x, o->sequences, starts, batch);
    return status;
}

// Checks all masks against the sequences of src and tgt (all 0 without one).
static mh_status transformer_check_check_masks(mh_context *context, const mh_transformer *t,
                                               const mh_transformer_options *o, const mh_batch *src,
                                               const mh_batch *tgt)
{
    const size_t H = t->config.nhead, B = src->sequences, S = src->length, T = tgt->length;
    const struct {
        const char *name;
        const mh_tensor *mask;
        bool padding;
        size_t rows, columns;
    } all[] = {
        {"src_mask", o->src_mask, false, S, S},
        {"tgt_mask", o->tgt_mask, false, T, T},
        {"memory_mask", o->memory_mask, false, T, S},
        {"src_key_padding_mask", o->src_key_padding_mask, true, 0, S},
        {"tgt_key_padding_mask", o->tgt_key_padding_mask, true, 0, T},
        {"memory_key_padding_mask", o->memory_key_padding_mask, true, 0, S},
    };
    mh_status status = MH_OK;
    for (size_t i = 0; i < sizeof all / sizeof *all && !status; i++) {
        if (all[i].mask && o->sequences)
            return mh_fail(context, MH_ERROR_ARGUMENT, "%s: not supported in a packed batch",
                           all[i].name);
        status = mh_mask_check(context, all[i].name, all[i].mask, all[i].padding, B, H, all[i].rows,
                               all[i].columns);
    }
    return status;
}

mh_status mh_taps_check(mh_context *context, const mh_transformer *t, bool encoder,
                        const mh_tap *taps, size_t count)
{
    if (count && !taps)
        return mh_fail(context, MH_ERROR_ARGUMENT, "taps: found NULL, expected %zu", count);
    for (size_t i = 0; i < count; i++) {
        mh_tap read;
        mh_status status = MH_READ_ELEMENT(context, mh_tap, taps, i, &read);
        if (status)
            return status;
        if (taps->struct_size < sizeof read) // of the first version
            return mh_fail(
                context, MH_ERROR_ARGUMENT,
                "mh_tap.struct_size: found %zu, expected %zu as mh_tap_default() sets it",
                taps->struct_size, sizeof read);
        const mh_tap *tap = mh_tap_at(taps, i);
        if (tap->kind < (encoder ? MH_TAP_ENCODER : MH_TAP_DECODER) || tap->kind > MH_TAP_CROSS)
            return mh_fail(context, MH_ERROR_ARGUMENT, "taps[%zu].kind: found %d, expected %s", i,
                           (int)tap->kind, encoder ? "an mh_tap_kind" : "one of the decoder's");
        const size_t layers = tap->kind == MH_TAP_ENCODER ? t->encoder.count : t->decoder.count;
        if (tap->layer >= layers)
            return mh_fail(context, MH_ERROR_ARGUMENT,
                           "taps[%zu].layer: found %zu, expected less than %zu", i, tap->layer,
                           layers);
        for (size_t j = 0; j < i; j++)
            if (mh_tap_at(taps, j)->kind == tap->kind && mh_tap_at(taps, j)->layer == tap->layer)
                return mh_fail(context, MH_ERROR_ARGUMENT,
                               "taps[%zu]: found the attention of taps[%zu], expected one tap for "
                               "each",
                               i, j);
    }
    return MH_OK;
}

mh_status mh_transformer_check_options(mh_context *context, const mh_transformer *t,
                                       const mh_transformer_options *options,
                                       mh_transformer_options *own)
{
    *own = mh_transformer_options_default();
    if (!context || !t)
        return mh_fail(context, MH_ERROR_ARGUMENT, "transformer: found NULL, expected a module");
    return MH_READ_STRUCT(context, mh_transformer_options, options, own);
}

// Disabled heads (attentions, H): the encoder's layers, the decoder's, and the decoder's again for
// cross-attention.
static void set_disabled(const mh_transformer *t, const bool *disabled, mh_transformer_run *r)
{
    const size_t H = t->config.nhead;
    if (!disabled)
        return;
    r->encoder.pass.disabled = disabled;
    r->decoder.pass.disabled = disabled + t->encoder.count * H;
    r->decoder.pass.cross_disabled = disabled + (t->encoder.count + t->decoder.count) * H;
}

static void set_passes(const mh_transformer *t, const mh_transformer_options *o,
                       mh_transformer_run *r)
{
    mh_pass *e = &r->encoder.pass, *d = &r->decoder.pass;
    const mh_pass common = {.values = t->parameters.values,
                            .packed = t->packed,
                            .overwrite = o->overwrite_gradients,
                            .operands = e->operands,
                            .training = o->training,
                            .seed = o->seed,
                            .step = o->step,
                            .taps = o->taps,
                            .tap_count = o->tap_count};
    const mh_batch src = e->rows, tgt = d->rows;
    *e = *d = common;
    e->rows = d->memory_rows = src;
    e->mask = o->src_mask;
    e->padding = o->src_key_padding_mask;
    e->causal = o->src_causal;
    d->decoder = true;
    d->rows = tgt;
    d->mask = o->tgt_mask;
    d->padding = o->tgt_key_padding_mask;
    d->memory_mask = o->memory_mask;
    d->memory_padding = o->memory_key_padding_mask;
    d->causal = o->tgt_causal;
    set_disabled(t, o->disabled_heads, r);
    r->encoder.stack = &t->encoder;
    r->decoder.stack = &t->decoder;
}

// src, tgt (or NULL) and the output have matching shapes.
static mh_status check_shapes(mh_context *context, const mh_tensor *src, const mh_tensor *tgt,
                              const char *output_name, const mh_tensor *output,
                              const mh_transformer_run *r)
{
    char found[128], expected[128];
    const mh_tensor *like = tgt ? tgt : src;
    MH_TRY(mh_check_float(context, output_name, output, -1));
    if (output->rank != like->rank || !mh_tensor_same_shape(output, like))
        return mh_fail(context, MH_ERROR_ARGUMENT, "%s: found %s, expected %s", output_name,
                       mh_tensor_describe(output, found, sizeof found),
                       mh_tensor_describe(like, expected, sizeof expected));
    if (tgt && (tgt->rank != src->rank ||
                r->encoder.pass.rows.sequences != r->decoder.pass.rows.sequences))
        return mh_fail(context, MH_ERROR_ARGUMENT,
                       "src, tgt: found %s and %s, expected the same number of sequences",
                       mh_tensor_describe(src, found, sizeof found),
                       mh_tensor_describe(tgt, expected, sizeof expected));
    return MH_OK;
}

mh_status mh_transformer_check_call(mh_context *context, const mh_transformer *t,
                                    const mh_transformer_options *o, bool decodes,
                                    const mh_tensor *src, const mh_tensor *tgt,
                                    const char *output_name, const mh_tensor *output,
                                    mh_transformer_run *r)
{
    *r = (mh_transformer_run){0};
    r->encoder.pass.operands = r->decoder.pass.operands =
        mh_operand_dtype(context, t->config.precision);
    if (decodes != (tgt != NULL))
        return mh_fail(context, MH_ERROR_ARGUMENT, "tgt: found %s, expected %s",
                       tgt ? "a tensor" : "NULL", tgt ? "NULL for an encoder" : "a tensor");
    if (t->packed && o->tape)
        return mh_fail(context, MH_ERROR_ARGUMENT,
                       "tape: found one, expected NULL: this Transformer is for inference");
    MH_TRY(find_batch(context, t, o, "src", src, o->src_starts, &r->encoder.pass.rows));
    if (tgt)
        MH_TRY(find_batch(context, t, o, "tgt", tgt, o->tgt_starts, &r->decoder.pass.rows));
    MH_TRY(check_shapes(context, src, tgt, output_name, output, r));
    MH_TRY(
        transformer_check_check_masks(context, t, o, &r->encoder.pass.rows, &r->decoder.pass.rows));
    MH_TRY(mh_taps_check(context, t, true, o->taps, o->tap_count));
    set_passes(t, o, r);
    return MH_OK;
}
