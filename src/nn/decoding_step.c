// SPDX-License-Identifier: MIT
// One decoding step: the next tokens go through all blocks, each of which appends their keys and
// values to its cache.
#include "base/compiler.h"
#include "base/context.h"
#include "base/size_math.h"
#include "nn/decoding.h"
#include "nn/flatten.h"
#include "nn/positions.h"
#include "nn/tape.h"
#include "nn/taps.h"
#include "ops/overlap.h"

enum { MOST_TOKENS = 1 << 30 }; // of a sequence

typedef struct step {
    mh_pass pass;
    mh_positions positions;
    mh_tensor x, output; // (rows, D)
    float *copy, *result;
    mh_arena block;    // memory of one block, used by all
    float *streams[2]; // (rows, D): a block's output is the next one's input
    float *mean, *rstd;
} step;

static void layout_step(const mh_decoding *d, const mh_tensor *tgt, const mh_tensor *output,
                        const size_t *lengths, mh_arena *arena, step *s)
{
    const mh_transformer *t = d->transformer;
    const mh_stack *stack = mh_decoding_stack(t);
    const size_t rows = mh_batch_rows(&s->pass.rows), D = t->config.d_model;
    s->copy = tgt->dtype == MH_F32 ? mh_rows_take(arena, tgt)
                                   : mh_arena_take(arena, rows * D, sizeof(float));
    s->result = mh_rows_take(arena, output);
    mh_positions_layout(t, stack, &s->pass, lengths, false, arena, &s->positions);
    size_t most = 0;
    for (size_t i = 0; i < stack->count; i++) {
        mh_arena one = {0};
        mh_block_saved ignored;
        mh_block_layout(&stack->blocks[i], &s->pass, false, &one, &ignored);
        most = mh_larger(most, one.used);
        arena->overflow |= one.overflow;
    }
    s->block = (mh_arena){.base = mh_arena_take(arena, most, 1), .size = most};
    s->streams[0] = mh_arena_take(arena, rows * D, sizeof(float));
    s->streams[1] = mh_arena_take(arena, rows * D, sizeof(float));
    s->mean = mh_arena_take(arena, rows, sizeof(float));
    s->rstd = mh_arena_take(arena, rows, sizeof(float));
}

static mh_status run_step(mh_context *context, const mh_decoding *d, const size_t *lengths, step *s)
{
    const mh_transformer *t = d->transformer;
    const mh_stack *stack = mh_decoding_stack(t);
    mh_tensor x = s->x;
    MH_TRY(mh_positions_fill(context, t, stack, lengths, &s->positions, &s->pass));
    for (size_t i = 0; i < stack->count; i++) {
        const mh_block *block = &stack->blocks[i];
        mh_arena arena = s->block;
        mh_block_saved saved;
        mh_block_layout(block, &s->pass, false, &arena, &saved);
        saved.out[block->count - 1] = s->streams[i % 2];
        MH_TRY(mh_block_forward(context, block, &s->pass, &x, &saved));
        x = mh_tensor_2d(s->streams[i % 2], MH_F32, x.shape[0], t->config.d_model);
    }
    if (stack->norm.weight == MH_NO_PARAMETER)
        return mh_tensor_copy(context, &x, &s->output);
    return mh_norm_layer_forward(context, &stack->norm, &s->pass, &x, &s->output, s->mean, s->rstd);
}

// After a failure: truncates the caches to the tokens before the step. If a cache cannot, the
// decoding is unusable.
static void forget_step(mh_context *context, mh_decoding *d, const size_t *lengths)
{
    for (size_t i = 0; i < mh_decoding_stack(d->transformer)->count; i++)
        for (size_t b = 0; b < d->sequences; b++)
            if (mh_kv_cache_length(d->caches[2 * i], b) > lengths[b] &&
                mh_kv_cache_truncate(context, d->caches[2 * i], b, lengths[b]))
                d->broken = true;
}

// ---- checks -------------------------------------------------------------------------------------

static mh_status check_tensors(mh_context *context, const mh_decoding *d, const mh_tap *taps,
                               size_t tap_count, const mh_tensor *tgt, const mh_tensor *output)
{
    const mh_transformer *t = d->transformer;
    MH_TRY(mh_taps_check(context, t, !t->decoder.count, taps, tap_count));
    MH_TRY(MH_CHECK_OVERLAP(context, 1, MH_OPERAND(output), MH_OPERAND_IN_PLACE(tgt)));
    return mh_taps_check_overlap(context, taps, tap_count, output, NULL, tgt);
}

// tgt and output (T, B, D), or batch first.
static mh_status check_batch(mh_context *context, const mh_decoding *d, const mh_tensor *tgt,
                             const mh_tensor *output, mh_batch *rows)
{
    const mh_transformer_config *c = &d->transformer->config;
    mh_batch out;
    MH_TRY(mh_batch_of(context, "tgt", tgt, c->d_model, c->batch_first, rows));
    MH_TRY(mh_batch_of(context, "output", output, c->d_model, c->batch_first, &out));
    if (rows->sequences == d->sequences && out.sequences == d->sequences &&
        out.length == rows->length)
        return MH_OK;
    return mh_fail(context, MH_ERROR_ARGUMENT,
                   "tgt, output: found %zu sequences of %zu and %zu of %zu, expected %zu of the "
                   "same length",
                   rows->sequences, rows->length, out.sequences, out.length, d->sequences);
}

// tgt and output (rows, D), of which starts divides the rows.
static mh_status check_packed(mh_context *context, const mh_decoding *d, const int64_t *starts,
                              const mh_tensor *tgt, const mh_tensor *output, mh_batch *rows)
{
    const size_t D = d->transformer->config.d_model, B = d->sequences;
    mh_batch out;
    MH_TRY(mh_need(context, starts, "starts"));
    MH_TRY(mh_batch_of(context, "tgt", tgt, D, true, rows));
    MH_TRY(mh_batch_of(context, "output", output, D, true, &out));
    if (tgt->rank != 2 || output->rank != 2 || tgt->shape[0] != output->shape[0])
        return mh_fail(context, MH_ERROR_ARGUMENT,
                       "tgt, output: found ranks %d and %d with %zu and %zu rows, expected (rows, "
                       "%zu) of the same rows",
                       tgt->rank, output->rank, mh_batch_rows(rows), mh_batch_rows(&out), D);
    for (size_t b = 0; b < B; b++)
        if (starts[b + 1] < starts[b])
            return mh_fail(context, MH_ERROR_ARGUMENT,
                           "starts[%zu]: found %lld after %lld, expected no less", b + 1,
                           (long long)starts[b + 1], (long long)starts[b]);
    if (starts[0] != 0 || (uint64_t)starts[B] != tgt->shape[0])
        return mh_fail(context, MH_ERROR_ARGUMENT,
                       "starts: found %lld to %lld for %zu sequences, expected 0 to %zu, the rows "
                       "of tgt",
                       (long long)starts[0], (long long)starts[B], B, tgt->shape[0]);
    *rows = (mh_batch){B, tgt->shape[0], 0, 1, starts};
    return MH_OK;
}

// Positions are 32-bit numbers.
static mh_status check_lengths(mh_context *context, const mh_decoding *d, const mh_batch *rows)
{
    for (size_t b = 0; b < d->sequences; b++) {
        const size_t count =
            rows->starts ? (size_t)(rows->starts[b + 1] - rows->starts[b]) : rows->length;
        if (d->lengths[b] + count > MOST_TOKENS)
            return mh_fail(context, MH_ERROR_ARGUMENT,
                           "tgt: found %zu tokens after %zu of sequence %zu, expected at most %d "
                           "in all",
                           count, d->lengths[b], b, MOST_TOKENS);
    }
    return MH_OK;
}

// ---- calls --------------------------------------------------------------------------------------

static mh_pass step_pass(const mh_decoding *d, const mh_tap *taps, size_t tap_count,
                         const mh_batch *rows)
{
    const mh_transformer *t = d->transformer;
    const size_t H = t->config.nhead;
    mh_pass pass = {.values = t->parameters.values,
                    .packed = d->packed,
                    .operands = MH_F32,
                    .decoder = t->decoder.count > 0,
                    .rows = *rows,
                    .causal = true,
                    .caches = d->caches,
                    .taps = taps,
                    .tap_count = tap_count};
    if (d->disabled) {
        pass.disabled = d->disabled + (pass.decoder ? t->encoder.count * H : 0);
        pass.cross_disabled = pass.disabled + t->decoder.count * H;
    }
    return pass;
}

// All tensors are checked.
static mh_status decode_rows(mh_context *context, mh_decoding *d, const mh_tap *taps,
                             size_t tap_count, const mh_batch *rows, const mh_tensor *tgt,
                             mh_tensor *output)
{
    step s = {.pass = step_pass(d, taps, tap_count, rows)};
    for (size_t b = 0; b < d->sequences; b++)
        d->lengths[b] = mh_kv_cache_length(d->caches[0], b);
    MH_TRY(check_lengths(context, d, rows));
    mh_arena arena = {0};
    layout_step(d, tgt, output, d->lengths, &arena, &s);
    MH_TRY(mh_tape_begin(context, d->tape, &arena));
    layout_step(d, tgt, output, d->lengths, &arena, &s);
    MH_TRY(mh_rows_of(context, tgt, s.copy, true, &s.x));
    MH_TRY(mh_rows_of(context, output, s.result, false, &s.output));
    mh_status status = run_step(context, d, d->lengths, &s);
    if (status) {
        forget_step(context, d, d->lengths);
        return status;
    }
    return mh_rows_return(context, s.result, output);
}

mh_status mh_decoding_step(mh_context *context, mh_decoding *decoding, const mh_tap *taps,
                           size_t tap_count, const mh_tensor *tgt, mh_tensor *output)
{
    mh_batch rows;
    MH_TRY(mh_need(context, decoding, "decoding"));
    MH_TRY(mh_decoding_check_whole(context, decoding));
    MH_TRY(check_batch(context, decoding, tgt, output, &rows));
    MH_TRY(check_tensors(context, decoding, taps, tap_count, tgt, output));
    return decode_rows(context, decoding, taps, tap_count, &rows, tgt, output);
}

mh_status mh_decoding_step_packed(mh_context *context, mh_decoding *decoding, const int64_t *starts,
                                  const mh_tap *taps, size_t tap_count, const mh_tensor *tgt,
                                  mh_tensor *output)
{
    mh_batch rows;
    MH_TRY(mh_need(context, decoding, "decoding"));
    MH_TRY(mh_decoding_check_whole(context, decoding));
    MH_TRY(check_packed(context, decoding, starts, tgt, output, &rows));
    MH_TRY(check_tensors(context, decoding, taps, tap_count, tgt, output));
    if (rows.length == 0)
        return MH_OK;
    return decode_rows(context, decoding, taps, tap_count, &rows, tgt, output);
}
