// SPDX-License-Identifier: MIT
// The Transformer:
//
//     memory = norm(block_N(... block_1(src)))                      the encoder
//     output = norm(block_N(... block_1(tgt, memory), memory))      the decoder
//
// A tape keeps the activations that each block saves, for transformer_grad.c. Without one, or with
// recompute, blocks share the memory for them, and only their outputs are kept.
#include "base/compiler.h"
#include "base/context.h"
#include "base/size_math.h"
#include "nn/tape.h"
#include "nn/taps.h"
#include "nn/transformer_call.h"
#include "ops/overlap.h"
#include <string.h>

// ---- memory -------------------------------------------------------------------------------------

// With `share` all blocks share the memory of their saved activations, except the outputs.
static void layout_blocks(mh_stack_run *run, bool keep, bool share, size_t D, mh_arena *arena)
{
    const mh_stack *stack = run->stack;
    const size_t rows = mh_batch_rows(&run->pass.rows);
    run->saved = mh_arena_take(arena, stack->count, sizeof *run->saved);
    size_t most = 0; // bytes of a block, as they may differ
    mh_block_saved ignored;
    for (size_t i = 0; i < stack->count && share; i++) {
        mh_arena one = {0};
        mh_block_layout(&stack->blocks[i], &run->pass, keep, &one, &ignored);
        most = mh_larger(most, one.used);
        arena->overflow |= one.overflow;
    }
    char *shared = share ? mh_arena_take(arena, most, 1) : NULL;
    for (size_t i = 0; i < stack->count; i++) {
        mh_block_saved *saved = run->saved ? &run->saved[i] : &ignored;
        mh_arena same = {.base = shared, .size = most};
        mh_block_layout(&stack->blocks[i], &run->pass, keep, share ? &same : arena, saved);
        if (share)
            saved->out[stack->blocks[i].count - 1] = mh_arena_take(arena, rows * D, sizeof(float));
    }
}

static void layout_backward(mh_stack_run *run, mh_arena *arena)
{
    size_t most = 0;
    for (size_t i = 0; i < run->stack->count; i++) {
        mh_arena one = {0};
        mh_block_scratch ignored;
        mh_block_layout_backward(&run->stack->blocks[i], &run->pass, &one, &ignored);
        most = mh_larger(most, one.used);
        arena->overflow |= one.overflow;
    }
    run->backward = (mh_arena){.base = mh_arena_take(arena, most, 1), .size = most};
}

static void layout_stack(const mh_transformer *t, mh_stack_run *run, const mh_tensor *input,
                         bool keep, bool share, mh_arena *arena)
{
    const size_t rows = mh_batch_rows(&run->pass.rows), D = t->config.d_model;
    run->copy = mh_is_plain(input) ? NULL : mh_arena_take(arena, rows * D, sizeof(float));
    mh_positions_layout(t, run->stack, &run->pass, NULL, keep, arena, &run->positions);
    run->pass.relative = run->stack->relative == MH_NO_PARAMETER ? NULL : &run->positions.relative;
    layout_blocks(run, keep, share, D, arena);
    run->mean = mh_arena_take(arena, rows, sizeof(float));
    run->rstd = mh_arena_take(arena, rows, sizeof(float));
    run->result = mh_arena_take(arena, rows * D, sizeof(float));
    if (!keep)
        return;
    run->dx = mh_arena_take(arena, rows * D, sizeof(float));
    layout_backward(run, arena);
}

static void transformer_layout(const mh_transformer *t, const mh_transformer_options *o,
                               const mh_tensor *src, const mh_tensor *tgt, mh_arena *arena,
                               mh_transformer_run *r)
{
    const bool keep = o->tape != NULL, share = !keep || o->recompute;
    const size_t D = t->config.d_model;
    r->recompute = o->recompute;
    mh_arena_take(arena, 1, sizeof *r);
    layout_stack(t, &r->encoder, src, keep, share, arena);
    if (!tgt)
        return;
    r->decoder.pass.memory =
        mh_tensor_2d(NULL, r->decoder.pass.operands, mh_batch_rows(&r->encoder.pass.rows), D);
    layout_stack(t, &r->decoder, tgt, keep, share, arena);
}

// ---- forward ------------------------------------------------------------------------------------

mh_tensor mh_stack_input(const mh_stack_run *run, size_t i, size_t D)
{
    if (i == 0)
        return run->x;
    const size_t last = run->stack->blocks[i - 1].count - 1;
    return mh_tensor_2d(run->saved[i - 1].out[last], MH_F32, run->x.shape[0], D);
}

// output (rows, D) = norm(block_N(... block_1(x)))
static mh_status stack_forward(mh_context *context, const mh_transformer *t, mh_stack_run *run,
                               mh_tensor *output)
{
    const mh_stack *stack = run->stack;
    const size_t D = t->config.d_model;
    MH_TRY(mh_positions_fill(context, t, stack, NULL, &run->positions, &run->pass));
    for (size_t i = 0; i < stack->count; i++) {
        const mh_tensor x = mh_stack_input(run, i, D);
        MH_TRY(mh_block_forward(context, &stack->blocks[i], &run->pass, &x, &run->saved[i]));
    }
    mh_tensor last = mh_stack_input(run, stack->count, D);
    if (stack->norm.weight == MH_NO_PARAMETER)
        return mh_tensor_copy(context, &last, output);
    return mh_norm_layer_forward(context, &stack->norm, &run->pass, &last, output, run->mean,
                                 run->rstd);
}

// The same into the output's rows, or into a dense buffer that is copied back.
static mh_status stack_forward_into(mh_context *context, const mh_transformer *t, mh_stack_run *run,
                                    mh_tensor *output)
{
    mh_tensor rows;
    float *memory = mh_rows_flat(output) ? NULL : run->result;
    MH_TRY(mh_rows_of(context, output, memory, false, &rows));
    MH_TRY(stack_forward(context, t, run, &rows));
    return mh_rows_return(context, memory, output);
}

static mh_status encoder_forward(mh_context *context, const mh_transformer *t,
                                 mh_transformer_run *r, const mh_tensor *src, mh_tensor *memory)
{
    MH_TRY(mh_rows_of(context, src, r->encoder.copy, true, &r->encoder.x));
    *memory = r->encoder.x;
    if (!mh_has_encoder(t))
        return MH_OK;
    *memory = mh_tensor_2d(r->encoder.result, r->encoder.pass.operands, r->encoder.x.shape[0],
                           t->config.d_model);
    return stack_forward(context, t, &r->encoder, memory);
}

static mh_status transformer_forward(mh_context *context, const mh_transformer *t,
                                     mh_transformer_run *r, const mh_tensor *src,
                                     const mh_tensor *tgt, mh_tensor *output)
{
    if (!tgt) {
        MH_TRY(mh_rows_of(context, src, r->encoder.copy, true, &r->encoder.x));
        return stack_forward_into(context, t, &r->encoder, output);
    }
    MH_TRY(encoder_forward(context, t, r, src, &r->decoder.pass.memory));
    MH_TRY(mh_rows_of(context, tgt, r->decoder.copy, true, &r->decoder.x));
    return stack_forward_into(context, t, &r->decoder, output);
}

// ---- calls --------------------------------------------------------------------------------------

static mh_status transformer_check_overlap(mh_context *context, const mh_transformer_options *o,
                                           const mh_tensor *src, const mh_tensor *tgt,
                                           const char *output_name, const mh_tensor *output)
{
    MH_TRY(MH_CHECK_OVERLAP(context, 1, {.name = output_name, .tensor = output}, MH_OPERAND(src),
                            MH_OPERAND(tgt), {.name = "src_mask", .tensor = o->src_mask},
                            {.name = "tgt_mask", .tensor = o->tgt_mask},
                            {.name = "memory_mask", .tensor = o->memory_mask}));
    return mh_taps_check_overlap(context, o->taps, o->tap_count, output, src, tgt);
}

// Options are checked; `decodes`: runs all of it, else the encoder alone.
static mh_status run_forward(mh_context *context, const mh_transformer *t,
                             const mh_packed_weights *packed, const mh_transformer_options *o,
                             bool decodes, const mh_tensor *src, const mh_tensor *tgt,
                             const char *output_name, mh_tensor *output)
{
    mh_transformer_run r;
    MH_TRY(mh_transformer_check_call(context, t, o, decodes, src, tgt, output_name, output, &r));
    MH_TRY(transformer_check_overlap(context, o, src, tgt, output_name, output));
    if (packed)
        r.encoder.pass.packed = packed;
    mh_arena arena = {0};
    transformer_layout(t, o, src, tgt, &arena, &r);
    MH_TRY(mh_tape_begin(context, o->tape, &arena));
    transformer_layout(t, o, src, tgt, &arena, &r);
    MH_TRY(transformer_forward(context, t, &r, src, tgt, output));
    if (o->tape) {
        memcpy(o->tape->memory, &r, sizeof r);
        o->tape->owner = t->identity;
    }
    return MH_OK;
}

mh_status mh_transformer_forward(mh_context *context, const mh_transformer *transformer,
                                 const mh_transformer_options *options, const mh_tensor *src,
                                 const mh_tensor *tgt, mh_tensor *output)
{
    mh_transformer_options own;
    MH_TRY(mh_transformer_check_options(context, transformer, options, &own));
    return run_forward(context, transformer, NULL, &own, mh_has_decoder(transformer), src, tgt,
                       "output", output);
}

mh_status mh_transformer_encode_packed(mh_context *context, const mh_transformer *transformer,
                                       const mh_packed_weights *packed,
                                       const mh_transformer_options *options, const mh_tensor *src,
                                       mh_tensor *memory)
{
    mh_transformer_options own;
    MH_TRY(mh_transformer_check_options(context, transformer, options, &own));
    MH_TRY(mh_check_packed_weights(context, transformer, packed));
    if (!mh_has_encoder(transformer))
        return mh_fail(context, MH_ERROR_ARGUMENT, "transformer: expected one with an encoder");
    if (own.tape)
        return mh_fail(context, MH_ERROR_ARGUMENT,
                       "tape: found one, expected NULL, as there is no backward pass from here");
    return run_forward(context, transformer, packed, &own, false, src, NULL, "memory", memory);
}

mh_status mh_transformer_encode(mh_context *context, const mh_transformer *transformer,
                                const mh_transformer_options *options, const mh_tensor *src,
                                mh_tensor *memory)
{
    return mh_transformer_encode_packed(context, transformer, NULL, options, src, memory);
}
