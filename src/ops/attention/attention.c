// SPDX-License-Identifier: MIT
// Attention, forward: the loop nest drawn in attention_internal.h, from the public call
// down to a row group and a KV split, for which attention_fma.c and attention_mma.c are two paths.
#include "base/compiler.h"
#include "base/fpenv.h"
#include "base/size_math.h"
#include "ops/attention/attention_internal.h"
#include "ops/row_io.h"
#include <math.h>
#include <string.h>

static void leave_gemm(const mh_attention_job *job, mh_attention_scratch *scratch)
{
    if (scratch->packed)
        mh_gemm_leave(job->gemm);
}

// ---- one block of query rows against all its keys -----------------------------------------------

static void reset_softmax(const mh_attention_job *job, size_t rows, const mh_softmax_state *state)
{
    for (size_t r = 0; r < rows; r++)
        state->max[r] = -INFINITY;
    memset(state->sum, 0, rows * job->kernels->lanes * sizeof(float));
}

static void reset_state(const mh_attention_job *job, size_t rows, const mh_softmax_state *state)
{
    reset_softmax(job, rows, state);
    memset(state->acc, 0, rows * job->value_width * sizeof(float));
}

static void merge_row(const mh_attention_job *job, const mh_softmax_state *into, size_t row,
                      float max, const mh_softmax_state *from, size_t from_row)
{
    const size_t lanes = job->kernels->lanes, width = job->value_width;
    job->kernels->attention.softmax_merge(
        width, into->max + row, into->sum + row * lanes, into->acc + row * width, max,
        from->sum + from_row * lanes, from->acc + from_row * width);
}

// The tiles of one KV split, packed when a row block first needs them.
static size_t list_tiles(size_t group, mh_interval keys, const mh_attention_scratch *scratch,
                         mh_key_tile *tiles)
{
    size_t count = 0;
    for (size_t begin = keys.begin / MH_KEY_TILE * MH_KEY_TILE; begin < keys.end;
         begin += MH_KEY_TILE, count++)
        tiles[count] = (mh_key_tile){.group = group,
                                     .begin = begin,
                                     .count = mh_smaller(keys.end - begin, MH_KEY_TILE),
                                     .keys_memory = scratch->keys[count],
                                     .values_memory = scratch->values[count]};
    return count;
}

// `rows` rows from `begin` on against the tiles of one KV split; `state` is that of row `begin`.
static void attend_group(const mh_attention_job *job, const mh_sequence *sequence,
                         mh_key_tile *tiles, size_t tile_count, size_t begin, size_t rows,
                         const mh_softmax_state *state, mh_attention_scratch *scratch)
{
    const mh_row_block group = {sequence, begin, rows, *state};
    reset_softmax(job, rows, state);
    if (job->mma)
        mh_attend_mma(job, &group, tiles, tile_count, scratch);
    else
        mh_attend_fma(job, &group, tiles, tile_count, scratch);
}

// The intersection of a span of keys and a KV split.
static mh_interval split_keys(mh_interval span, size_t kv_split)
{
    const size_t begin = kv_split * MH_KV_SPLIT, end = begin + MH_KV_SPLIT;
    return (mh_interval){begin > span.begin ? begin : span.begin, end < span.end ? end : span.end};
}

// All KV splits of a span, in order. The first of all accumulates directly into scratch->total;
// later ones use scratch->partial, which is then merged. Merging a split in which a row has no live
// key is a no-op, so results do not depend on which rows share a block or which splits are skipped.
static void attend_span(const mh_attention_job *job, const mh_sequence *sequence, size_t group,
                        mh_interval span, size_t rows, mh_attention_scratch *scratch)
{
    if (span.begin >= span.end && !job->desc->resumed)
        reset_state(job, rows, &scratch->total);
    const size_t first_split = span.begin / MH_KV_SPLIT;
    const size_t direct = job->desc->resumed ? SIZE_MAX : first_split;
    for (size_t kv_split = first_split; kv_split * MH_KV_SPLIT < span.end; kv_split++) {
        mh_key_tile tiles[MH_SPLIT_TILES];
        size_t count = list_tiles(group, split_keys(span, kv_split), scratch, tiles);
        for (size_t begin = 0, group_rows; begin < rows; begin += group_rows) {
            const mh_softmax_state total = mh_state_rows(job, &scratch->total, begin);
            const mh_softmax_state *state = kv_split == direct ? &total : &scratch->partial;
            group_rows = mh_smaller(rows - begin, job->group_rows);
            attend_group(job, sequence, tiles, count, begin, group_rows, state, scratch);
            for (size_t r = 0; r < group_rows && kv_split != direct; r++)
                merge_row(job, &total, r, state->max[r], state, r);
        }
    }
}

// A sink is one more key whose value is 0: a separate state, merged last.
static void add_sinks(const mh_attention_job *job, size_t rows, mh_attention_scratch *scratch)
{
    reset_state(job, 1, &scratch->partial);
    scratch->partial.sum[0] = 1;
    for (size_t r = 0; r < rows; r++)
        merge_row(job, &scratch->total, r,
                  job->desc->options.sinks[mh_whole_head(job->desc, scratch->rows[r].head)],
                  &scratch->partial, 0);
}

static void write_output(const mh_attention_job *job, void *out, const float *acc, float sum,
                         mh_attention_scratch *scratch)
{
    const mh_tensor *t = &job->desc->out;
    const size_t Ev = job->desc->Ev;
    if (t->dtype == MH_F32 && (t->stride[3] == 1 || Ev == 1)) {
        job->kernels->elementwise.scale_row(Ev, acc, 1 / sum, out);
        return;
    }
    job->kernels->elementwise.scale_row(Ev, acc, 1 / sum, scratch->staging);
    mh_row_write(job->kernels, t->dtype, out, t->stride[3], Ev, scratch->staging);
}

static void finish_row(const mh_attention_job *job, const mh_sequence *sequence, size_t r,
                       float sum, float log_sum, mh_attention_scratch *scratch)
{
    const mh_attention_desc *p = job->desc;
    const mh_query_row *row = &scratch->rows[r];
    const size_t at[3] = {sequence->batch, row->head, sequence->query_begin + row->query};
    const float max = scratch->total.max[r];

    if (p->options.lse)
        *(float *)mh_element(p->options.lse, 3, at) = mh_attention_lse(max, sum, log_sum);

    // No live key: 0 (or NaN, if requested). Live keys whose scores are all -inf: NaN, as the
    // formula gives.
    bool empty = sum == 0 && !scratch->seen[r];
    if (sum == 0)
        sum = empty && p->options.empty_row == MH_EMPTY_ROW_ZERO ? 1 : NAN;
    write_output(job, (void *)mh_element(&p->out, 3, at), scratch->total.acc + r * job->value_width,
                 sum, scratch);
    if (job->stats)
        job->stats[(sequence->index * p->H + row->head) * p->T + row->query] =
            (mh_row_stats){max == -INFINITY ? 0 : max, sum, empty};
}

static void load_block(const mh_attention_job *job, size_t task, mh_attention_scratch *scratch,
                       mh_attention_block *b)
{
    *b = mh_attention_block_at(job, task);
    if (b->count == 0)
        return;
    b->span =
        mh_attention_number_rows(job, &b->sequence, b->group, b->first, b->count, scratch->rows);
    memset(scratch->seen, 0, b->count * sizeof *scratch->seen);
    scratch->count = b->count;
    scratch->packed = false;
    scratch->plain_queries = (mh_a_operand){NULL, 0};
}

static void finish_block(const mh_attention_job *job, const mh_attention_block *block,
                         mh_attention_scratch *scratch)
{
    if (job->desc->options.sinks)
        add_sinks(job, block->count, scratch);
    enum { ROWS = 64 };
    float sums[ROWS], logs[ROWS] = {0};
    for (size_t first = 0; first < block->count; first += ROWS) {
        const size_t rows = mh_smaller(block->count - first, ROWS);
        mh_attention_sums(job, rows, scratch->total.sum + first * job->kernels->lanes, sums, logs);
        for (size_t r = 0; r < rows; r++)
            finish_row(job, &block->sequence, first + r, sums[r], logs[r], scratch);
    }
}

static void attend_block(void *arg, size_t task, size_t worker)
{
    const mh_attention_job *job = arg;
    mh_attention_scratch *scratch = &job->scratch[worker];
    mh_attention_block block;
    load_block(job, task, scratch, &block);
    if (block.count == 0)
        return;
    attend_span(job, &block.sequence, block.group, block.span, block.count, scratch);
    leave_gemm(job, scratch);
    finish_block(job, &block, scratch);
    mh_attention_poll(job, worker);
}

// ---- few rows against many keys: split-KV -------------------------------------------------------

// KV split index % kv_splits of a task's rows, with a separate state.
static void attend_part(void *arg, size_t index, size_t worker)
{
    const mh_attention_job *job = arg;
    mh_attention_scratch *scratch = &job->scratch[worker];
    const size_t task = index / job->kv_splits, kv_split = index % job->kv_splits;
    mh_attention_block block;
    load_block(job, task, scratch, &block);
    const mh_softmax_state part = mh_state_rows(job, &job->parts, index * job->block_rows);
    const mh_interval keys = split_keys(block.span, kv_split);
    mh_key_tile tiles[MH_SPLIT_TILES];
    size_t count = 0;
    if (keys.begin < keys.end)
        count = list_tiles(block.group, keys, scratch, tiles);
    attend_group(job, &block.sequence, tiles, count, 0, block.count, &part, scratch);
    leave_gemm(job, scratch);
    memcpy(job->parts_seen + index * job->block_rows, scratch->seen, block.count * sizeof(bool));
}

// Merges the KV splits of a task in order.
static void merge_parts(void *arg, size_t task, size_t worker)
{
    const mh_attention_job *job = arg;
    mh_attention_scratch *scratch = &job->scratch[worker];
    mh_attention_block block;
    load_block(job, task, scratch, &block);
    reset_state(job, block.count, &scratch->total);
    for (size_t kv_split = 0; kv_split < job->kv_splits; kv_split++) {
        const size_t first = (task * job->kv_splits + kv_split) * job->block_rows;
        const mh_softmax_state part = mh_state_rows(job, &job->parts, first);
        for (size_t r = 0; r < block.count; r++) {
            merge_row(job, &scratch->total, r, part.max[r], &part, r);
            scratch->seen[r] |= job->parts_seen[first + r];
        }
    }
    finish_block(job, &block, scratch);
}

// ---- keys that arrive in pieces -----------------------------------------------------------------

// The rows of a task, continued with the keys of a piece.
static void attend_piece(void *arg, size_t task, size_t worker)
{
    const mh_attention_job *job = arg;
    const size_t first = task * job->block_rows;
    mh_attention_scratch scratch = job->scratch[worker];
    mh_attention_block block;
    scratch.total = mh_state_rows(job, &job->totals, first);
    load_block(job, task, &scratch, &block);
    const mh_interval span = {mh_larger(block.span.begin, job->piece.begin),
                              mh_smaller(block.span.end, job->piece.end)};
    if (block.count > 0 && span.begin < span.end) {
        attend_span(job, &block.sequence, block.group, span, block.count, &scratch);
        leave_gemm(job, &scratch);
        for (size_t r = 0; r < block.count; r++)
            job->totals_seen[first + r] |= scratch.seen[r];
    }
    mh_attention_poll(job, worker);
}

static void finish_pieces(void *arg, size_t task, size_t worker)
{
    const mh_attention_job *job = arg;
    const size_t first = task * job->block_rows;
    mh_attention_scratch scratch = job->scratch[worker];
    mh_attention_block block;
    scratch.total = mh_state_rows(job, &job->totals, first);
    load_block(job, task, &scratch, &block);
    memcpy(scratch.seen, job->totals_seen + first, block.count * sizeof(bool));
    finish_block(job, &block, &scratch);
}

void mh_attention_begin(const mh_attention_job *job)
{
    const size_t rows = job->tasks * job->block_rows;
    reset_state(job, rows, &job->totals);
    memset(job->totals_seen, 0, rows * sizeof(bool));
}

void mh_attention_resume(mh_context *context, const mh_attention_job *job)
{
    mh_attention_run(context, job->workers, job->tasks, attend_piece, (void *)job);
}

void mh_attention_finish(mh_context *context, const mh_attention_job *job)
{
    mh_attention_run(context, job->workers, job->tasks, finish_pieces, (void *)job);
}

// ---- the calls ----------------------------------------------------------------------------------

void mh_attention_forward_measure(const mh_context *context, const mh_attention_desc *desc,
                                  mh_arena *arena)
{
    mh_attention_job job;
    mh_attention_job_plan(context, desc, &job);
    mh_attention_job_layout(&job, arena);
}

mh_status mh_attention_forward_desc(mh_context *context, const mh_attention_desc *desc)
{
    mh_attention_job job;
    mh_arena arena = {0};
    mh_attention_job_plan(context, desc, &job);
    mh_attention_job_layout(&job, &arena);
    MH_TRY(mh_attention_take_workspace(context, &desc->options, &arena));
    mh_attention_job_layout(&job, &arena);
    if (job.split_kv) {
        mh_parallel_for_or_cancel(context, job.tasks * job.kv_splits, attend_part, &job);
        mh_parallel_for_or_cancel(context, job.tasks, merge_parts, &job);
    } else {
        mh_attention_run(context, job.workers, job.tasks,
                         job.short_path ? mh_attention_short : attend_block, &job);
    }
    if (desc->options.weights)
        mh_attention_write_weights(context, &job);
    return mh_check_cancelled(context);
}

mh_status mh_attention_forward(mh_context *context, const mh_attention_options *options,
                               const mh_tensor *q, const mh_tensor *k, const mh_tensor *v,
                               mh_tensor *out)
{
    mh_attention_desc desc;
    mh_fpenv saved = mh_fpenv_enter();
    mh_status status = mh_attention_check(context, options, q, k, v, out, &desc);
    if (!status)
        status = mh_attention_check_outputs(context, &desc);
    if (!status)
        status = mh_attention_forward_desc(context, &desc);
    mh_fpenv_leave(saved);
    return status;
}

mh_status mh_attention_cached(mh_context *context, const mh_attention_options *options,
                              const mh_tensor *q, const mh_kv_cache *cache, mh_tensor *out)
{
    mh_attention_desc desc;
    mh_fpenv saved = mh_fpenv_enter();
    mh_status status = mh_attention_check_cached(context, options, q, cache, out, &desc);
    if (!status)
        status = mh_attention_check_outputs(context, &desc);
    if (!status)
        status = mh_attention_forward_desc(context, &desc);
    mh_fpenv_leave(saved);
    return status;
}

mh_status mh_attention_workspace(mh_context *context, const mh_attention_options *options,
                                 const mh_tensor *q, const mh_tensor *k, const mh_tensor *v,
                                 const mh_tensor *out, size_t *bytes)
{
    mh_attention_desc desc;
    mh_arena arena = {0};
    MH_TRY(mh_attention_check(context, options, q, k, v, out, &desc));
    mh_attention_forward_measure(context, &desc, &arena);
    return mh_attention_workspace_bytes(context, &arena, bytes);
}
