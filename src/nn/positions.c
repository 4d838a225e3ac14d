// SPDX-License-Identifier: MIT
// Positions of a pass: rotary tables, and T5's relative position bias, in which the distance from
// query to key selects a bucket, and each bucket has a learned value per head.
#include "nn/positions.h"
#include "base/compiler.h"
#include "base/pow.h"
#include "base/size_math.h"
#include <multihead/layers.h>
#include <string.h>

// ---- sizes --------------------------------------------------------------------------------------

static bool same_lengths(const mh_pass *pass, const size_t *lengths)
{
    for (size_t b = 1; lengths && b < pass->rows.sequences; b++)
        if (lengths[b] != lengths[0])
            return false;
    return true;
}

// Whether rows need positions of their own, rather than 0, 1, ... in every sequence.
static bool own_positions(const mh_pass *pass, const size_t *lengths)
{
    return pass->rows.starts || !same_lengths(pass, lengths);
}

static size_t longest_of(const mh_batch *batch)
{
    size_t longest = batch->starts ? 0 : batch->length;
    for (size_t b = 0; batch->starts && b < batch->sequences; b++)
        longest = mh_larger(longest, (size_t)(batch->starts[b + 1] - batch->starts[b]));
    return longest;
}

// The keys of the longest sequence after the pass.
static size_t most_keys(const mh_batch *batch, const size_t *lengths)
{
    size_t most = 0;
    for (size_t b = 0; b < batch->sequences; b++) {
        const size_t rows =
            batch->starts ? (size_t)(batch->starts[b + 1] - batch->starts[b]) : batch->length;
        most = mh_larger(most, rows + (lengths ? lengths[b] : 0));
    }
    return most;
}

// A view (1 or B, H, T, S) of the memory, which is (1 or B, H, T + S - 1): along a diagonal the
// bias is the same.
static mh_tensor relative_view(const mh_stack *stack, const mh_pass *pass, const size_t *lengths)
{
    const size_t B = same_lengths(pass, lengths) ? 1 : pass->rows.sequences;
    const size_t H = stack->blocks[0].config.num_heads;
    const size_t T = longest_of(&pass->rows), S = most_keys(&pass->rows, lengths);
    mh_tensor view = mh_tensor_4d(NULL, MH_F32, B, H, T, S);
    view.stride[2] = -1;
    view.stride[1] = (ptrdiff_t)(T + S - 1);
    view.stride[0] = (ptrdiff_t)H * view.stride[1];
    return view;
}

void mh_positions_layout(const mh_transformer *t, const mh_stack *stack, const mh_pass *pass,
                         const size_t *lengths, bool keep, mh_arena *arena, mh_positions *p)
{
    const bool own = own_positions(pass, lengths);
    const size_t rows = own ? mh_batch_rows(&pass->rows) : pass->rows.length;
    *p = (mh_positions){.rows = own && t->rope_count ? mh_arena_take(arena, rows, sizeof *p->rows)
                                                     : NULL};
    for (size_t i = 0; i < t->rope_count; i++) {
        const size_t pairs = t->ropes[i]->config.rope_width / 2;
        float *cosine = mh_arena_take(arena, rows * pairs, sizeof(float));
        float *sine = mh_arena_take(arena, rows * pairs, sizeof(float));
        p->ropes[i].cosine = mh_tensor_2d(cosine, MH_F32, rows, pairs);
        p->ropes[i].sine = mh_tensor_2d(sine, MH_F32, rows, pairs);
    }
    if (stack->relative == MH_NO_PARAMETER || !stack->count)
        return;
    p->relative = relative_view(stack, pass, lengths);
    const size_t *n = p->relative.shape;
    if (n[2] == 0)
        return;
    p->diagonals = mh_arena_take(arena, n[0] * n[1] * (n[2] + n[3] - 1), sizeof(float));
    p->relative.data = p->diagonals ? p->diagonals + n[2] - 1 : NULL;
    if (keep)
        p->drelative = mh_arena_take(arena, mh_tensor_count(&p->relative), sizeof(float));
}

// ---- rotary tables ------------------------------------------------------------------------------

static void number_rows(const mh_batch *batch, const size_t *lengths, int32_t *rows)
{
    for (size_t b = 0; b < batch->sequences; b++) {
        const size_t first = lengths ? lengths[b] : 0;
        const size_t begin = batch->starts ? (size_t)batch->starts[b] : b * batch->length;
        const size_t count =
            batch->starts ? (size_t)(batch->starts[b + 1] - batch->starts[b]) : batch->length;
        for (size_t i = 0; i < count; i++)
            rows[begin + i] = (int32_t)(first + i);
    }
}

static mh_status fill_ropes(mh_context *context, const mh_transformer *t, const size_t *lengths,
                            mh_positions *p, const mh_pass *pass)
{
    double frequencies[MH_MAX_HEAD_DIM / 2];
    if (p->rows)
        number_rows(&pass->rows, lengths, p->rows);
    for (size_t i = 0; i < t->rope_count; i++) {
        mh_rope_table *table = &p->ropes[i];
        const mh_tensor rows = mh_tensor_1d(p->rows, MH_I32, table->cosine.shape[0]);
        mh_rope_options o = mh_rope_options_default();
        o.width = t->ropes[i]->config.rope_width;
        o.amplitude = mh_rope_frequencies(t->ropes[i], frequencies);
        o.frequencies = frequencies;
        o.positions = p->rows ? &rows : NULL;
        o.first = p->rows || !lengths ? 0 : (int64_t)lengths[0];
        MH_TRY(mh_rope_tables(context, &o, &table->cosine, &table->sine));
        if (!p->rows || pass->rows.starts)
            continue;
        // (B, 1, T, pairs), for heads (B, H, T, E)
        const size_t pairs = o.width / 2, T = pass->rows.length;
        float *cosine = table->cosine.data, *sine = table->sine.data;
        table->cosine = mh_tensor_4d(cosine, MH_F32, pass->rows.sequences, 1, T, pairs);
        table->sine = mh_tensor_4d(sine, MH_F32, pass->rows.sequences, 1, T, pairs);
    }
    return MH_OK;
}

// ---- relative position bias ---------------------------------------------------------------------

// Half of the buckets are single distances, the others grow logarithmically up to
// relative_distance.
static size_t bucket_of(const mh_block_config *c, int64_t key_minus_query)
{
    size_t buckets = c->relative_buckets, first = 0;
    size_t distance = (size_t)(key_minus_query < 0 ? -key_minus_query : key_minus_query);
    if (c->relative_bidirectional) {
        buckets /= 2;
        first = key_minus_query > 0 ? buckets : 0;
    } else if (key_minus_query > 0) {
        distance = 0;
    }
    const size_t exact = buckets / 2;
    if (distance < exact || exact == 0)
        return first + mh_smaller(distance, buckets - 1);
    const double part = mh_natural_log((double)distance / (double)exact) /
                        mh_natural_log((double)c->relative_distance / (double)exact);
    // The guard makes exact powers, such as 2 exact, fall into the bucket they begin.
    const size_t bucket = exact + (size_t)(part * (double)(buckets - exact) + 1e-6);
    return first + mh_smaller(bucket, buckets - 1);
}

static void fill_relative(const mh_stack *stack, const mh_pass *pass, const size_t *lengths,
                          const mh_positions *p)
{
    const mh_block_config *c = &stack->blocks[0].config;
    const float *table = pass->values + stack->relative; // (buckets, H)
    const size_t *n = p->relative.shape, diagonals = n[2] + n[3] - 1;
    for (size_t b = 0; b < n[0]; b++) {
        const int64_t last = (lengths ? (int64_t)lengths[b] : 0) + (int64_t)n[2] - 1;
        for (size_t d = 0; d < diagonals; d++) {
            const float *bias = table + bucket_of(c, (int64_t)d - last) * n[1];
            for (size_t h = 0; h < n[1]; h++)
                p->diagonals[(b * n[1] + h) * diagonals + d] = bias[h];
        }
    }
}

void mh_positions_begin_backward(const mh_positions *p)
{
    if (p->drelative)
        memset(p->drelative, 0, mh_tensor_count(&p->relative) * sizeof(float));
}

void mh_positions_backward(const mh_stack *stack, const mh_pass *pass, const mh_positions *p)
{
    if (!p->drelative || !pass->gradients)
        return;
    const mh_block_config *c = &stack->blocks[0].config;
    float *gradients = pass->gradients + stack->relative;
    const size_t *n = p->relative.shape;
    const float *from = p->drelative;
    if (pass->overwrite)
        memset(gradients, 0, c->relative_buckets * n[1] * sizeof(float));
    for (size_t h = 0; h < n[1]; h++)
        for (size_t i = 0; i < n[2]; i++)
            for (size_t j = 0; j < n[3]; j++)
                gradients[bucket_of(c, (int64_t)j - (int64_t)i) * n[1] + h] += *from++;
}

mh_status mh_positions_fill(mh_context *context, const mh_transformer *t, const mh_stack *stack,
                            const size_t *lengths, mh_positions *p, mh_pass *pass)
{
    MH_TRY(fill_ropes(context, t, lengths, p, pass));
    if (t->rope_count)
        pass->ropes = p->ropes;
    if (!p->relative.data)
        return MH_OK;
    fill_relative(stack, pass, lengths, p);
    pass->relative = &p->relative;
    pass->drelative = p->drelative;
    return MH_OK;
}
