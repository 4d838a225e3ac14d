// SPDX-License-Identifier: MIT
// Planning of an attention call, its workspace, and what forward, weights and backward share:
// loading a key tile, Q K^T of a tile, and the map from there to scores.
#include "ops/attention_job.h"
#include "base/checked.h"
#include "base/sizes.h"
#include "ops/rows.h"
#include <math.h>
#include <string.h>

// Keys are packed once per block, so blocks are large: with 2048 rows, packing is about 1 % of the
// work.
static size_t choose_block_rows(const mh_attention_problem *p, size_t strip, size_t rows)
{
    enum { MOST_ROWS = 2048, LEAST_ROWS = 48, MOST_FLOATS = 512 * 1024 };
    size_t fitting = mh_larger(MOST_FLOATS / (p->E + p->Ev), LEAST_ROWS);
    size_t wanted = mh_smaller(mh_smaller(fitting, MOST_ROWS), mh_larger(rows, 1));
    return mh_round_up(wanted, strip);
}

static size_t count_tasks(const mh_attention_problem *p, size_t rows, size_t block_rows)
{
    return p->B * p->G * ((rows + block_rows - 1) / block_rows);
}

// Below 1e6 FMAs (about 20 us) waking threads does not pay off. The overhead of a row is counted as
// 2000 FMAs.
static bool worth_threads(const mh_attention_problem *p)
{
    const double rows = (double)p->B * (double)p->H * (double)p->T;
    return rows * ((double)p->S * (double)(p->E + p->Ev) + 2000) > 1e6;
}

// On the short-sequence path a head is little work: a task takes several.
static void plan_short(mh_attention_job *job, size_t threads)
{
    const mh_attention_problem *p = job->problem;
    const size_t all = p->B * p->G;
    job->share = mh_larger(all / (8 * threads), 1);
    job->tasks = (all + job->share - 1) / job->share;
    job->workers = job->tasks > 1 ? threads : 1;
    job->query_rows = MH_SHORT_ROWS;
}

void mh_attention_job_plan(const mh_context *context, const mh_attention_problem *problem,
                           mh_attention_job *job)
{
    const mh_attention_problem *p = problem;
    const mh_kernels *kernels = context->kernels;
    size_t rows = p->heads_per_group * p->T;
    size_t threads = worth_threads(p) ? context->threads : 1;

    *job = (mh_attention_job){.problem = p, .kernels = kernels};
    job->gemm = p->bf16 ? &kernels->bf16 : &kernels->f32;
    job->strip = job->gemm->rows;
    job->value_width = p->cache ? p->value_stride : mh_round_up(p->Ev, kernels->lanes);
    job->query_rows = job->gemm->softmax_tile ? job->strip : kernels->query_strip;
    job->group_rows = job->gemm->softmax_tile ? mh_round_up(24, job->strip) : kernels->query_group;
    job->split_tiles = mh_smaller((p->S + MH_KEY_TILE - 1) / MH_KEY_TILE, MH_SPLIT_TILES);
    job->block_rows = choose_block_rows(p, job->strip, rows);
    while (threads > 1 && job->block_rows > mh_round_up(48, job->strip) &&
           count_tasks(p, rows, job->block_rows) < 4 * threads)
        job->block_rows = mh_round_up(job->block_rows / 2, job->strip);
    job->blocks = (rows + job->block_rows - 1) / job->block_rows;
    job->tasks = count_tasks(p, rows, job->block_rows);
    // Few queries, many keys: split-KV, one task per KV split, merged afterwards.
    job->chunks = (p->S + MH_KV_SPLIT - 1) / MH_KV_SPLIT;
    job->split =
        threads > 1 && job->tasks < 4 * threads && job->chunks > 1 && rows <= 2 * job->group_rows;
    job->workers = job->tasks > 1 || job->split ? threads : 1; // any thread may take a task
    job->keep_scale = (float)(1 / (1 - (double)p->options.dropout));
    job->modified = p->options.softcap > 0 || p->options.alibi || p->additive;
    job->short_path = mh_attention_is_short(p);
    if (job->short_path)
        plan_short(job, threads);
}

mh_attention_block mh_attention_block_at(const mh_attention_job *job, size_t task)
{
    const mh_attention_problem *p = job->problem;
    // Last block first: it has the most keys if the call is causal.
    const size_t head = task / job->blocks, block = job->blocks - 1 - task % job->blocks;
    mh_attention_block b = {.sequence = mh_attention_sequence(p, head / p->G),
                            .group = head % p->G,
                            .first = block * job->block_rows};
    const size_t rows = p->heads_per_group * b.sequence.T;
    b.count = b.first < rows ? mh_smaller(rows - b.first, job->block_rows) : 0;
    return b;
}

mh_interval mh_attention_number_rows(const mh_attention_job *job, const mh_sequence *sequence,
                                     size_t group, size_t first, size_t count, mh_query_row *rows)
{
    const mh_attention_problem *p = job->problem;
    size_t head = group * p->heads_per_group, query = first;
    if (first >= sequence->T) // a division costs as much as a short row
        head += first / sequence->T, query = first % sequence->T;
    size_t begin = SIZE_MAX, end = 0;
    for (size_t r = 0; r < count; r++) {
        mh_query_row *row = &rows[r];
        row->head = head;
        row->query = query;
        mh_attention_interval(p, sequence, query, &row->interval);
        if (row->interval.end > row->interval.begin) {
            begin = mh_smaller(begin, row->interval.begin);
            end = mh_larger(end, row->interval.end);
        }
        if (++query == sequence->T)
            head++, query = 0;
    }
    return (mh_interval){begin, end};
}

static mh_softmax_state layout_state(const mh_attention_job *job, size_t rows, mh_arena *arena)
{
    mh_softmax_state state;
    state.max = mh_arena_take(arena, rows, sizeof(float));
    state.sum = mh_arena_take(arena, rows * job->kernels->lanes, sizeof(float));
    state.acc = mh_arena_take(arena, rows * job->value_width, sizeof(float));
    return state;
}

static void layout_scratch(const mh_attention_job *job, mh_arena *arena,
                           mh_attention_scratch *scratch)
{
    const mh_attention_problem *p = job->problem;
    mh_attention_scratch s;
    const mh_gemm *gemm = job->gemm;
    memset(&s, 0, sizeof s);
    const size_t tiles = job->split_tiles;
    for (size_t i = 0; i < tiles; i++)
        s.keys[i] = mh_b_take(gemm, arena, p->E, MH_KEY_TILE);
    for (size_t i = 0; i < tiles; i++) // adjacent: together they are one operand
        s.values[i] = mh_b_take(gemm, arena, MH_KEY_TILE, job->value_width);
    s.keys_f32 = mh_arena_take(arena, p->E * MH_KEY_TILE, sizeof(float));
    s.values_f32 = mh_arena_take(arena, MH_KEY_TILE * job->value_width, sizeof(float));
    s.clean = mh_arena_take(arena, MH_KEY_TILE * job->value_width, sizeof(float));
    s.clean_b = mh_b_take_packed(gemm, arena, MH_KEY_TILE, job->value_width);
    s.sums = mh_arena_take(arena, gemm->group * job->value_width, sizeof(float));
    s.staging = mh_arena_take(arena, MH_KEY_TILE * mh_larger(p->E, p->Ev), sizeof(float));
    const size_t strip = mh_larger(job->strip, job->kernels->query_strip);
    s.scores = mh_arena_take(arena, 2 * strip * MH_KEY_TILE, sizeof(float));
    s.weights = mh_a_take(gemm, arena, job->strip, tiles * MH_KEY_TILE);
    s.bias = mh_arena_take(arena, (p->additive ? tiles : 1) * strip * MH_KEY_TILE, sizeof(float));
    s.staged = mh_arena_take(arena, job->block_rows * p->E, sizeof(float));
    s.packed_queries = mh_a_take(gemm, arena, job->block_rows, p->E);
    if (p->options.weights && p->options.weights_average)
        s.average = mh_arena_take(arena, job->block_rows * MH_KEY_TILE, sizeof(float));
    s.rows = mh_arena_take(arena, job->block_rows, sizeof *s.rows);
    s.seen = mh_arena_take(arena, job->block_rows, sizeof *s.seen);
    s.total = layout_state(job, job->block_rows, arena);
    s.partial = layout_state(job, job->group_rows, arena);
    if (scratch)
        *scratch = s;
}

void mh_attention_job_layout(mh_attention_job *job, mh_arena *arena)
{
    const mh_attention_problem *p = job->problem;
    bool softmax = p->options.weights && p->options.weights_stage == MH_WEIGHTS_SOFTMAX;
    if (job->short_path) {
        job->short_scratch =
            mh_arena_take(arena, job->workers * sizeof(float), mh_attention_short_floats(job));
        return;
    }
    job->scratch = mh_arena_take(arena, job->workers, sizeof *job->scratch);
    for (size_t i = 0; i < job->workers; i++)
        layout_scratch(job, arena, job->scratch ? &job->scratch[i] : NULL);
    if (job->split) {
        const size_t parts = job->tasks * job->chunks * job->block_rows;
        job->parts = layout_state(job, parts, arena);
        job->parts_seen = mh_arena_take(arena, parts, sizeof(bool));
    }
    job->stats = softmax ? mh_arena_take(arena, p->B * p->H * p->T, sizeof *job->stats) : NULL;
}

void mh_attention_run(mh_context *context, size_t workers, size_t count, mh_task_fn task, void *arg)
{
    if (workers > 1) {
        mh_parallel_for(context, count, task, arg);
        return;
    }
    for (size_t i = 0; i < count; i++)
        task(arg, i, 0);
}

mh_status mh_attention_workspace_bytes(mh_context *context, const mh_arena *arena, size_t *bytes)
{
    if (!bytes)
        return mh_fail(context, MH_ERROR_ARGUMENT, "bytes: found NULL");
    // A caller's memory may have any alignment: reserve room to align it.
    if (arena->overflow || !mh_add_sizes(arena->used, MH_ARENA_ALIGNMENT, bytes))
        return mh_fail(context, MH_ERROR_MEMORY, "workspace: its size does not fit in memory");
    return MH_OK;
}

mh_status mh_attention_take_workspace(mh_context *context, const mh_attention_options *options,
                                      mh_arena *arena)
{
    size_t needed = 0;
    mh_status status = mh_attention_workspace_bytes(context, arena, &needed);
    if (status)
        return status;
    char *base = options->workspace;
    if (!base && !(base = mh_context_scratch(context, needed)))
        return MH_ERROR_MEMORY;
    if (options->workspace && options->workspace_size < needed)
        return mh_fail(context, MH_ERROR_ARGUMENT,
                       "workspace_size: found %zu, expected at least %zu", options->workspace_size,
                       needed);
    size_t skip = (size_t)(-(uintptr_t)base % MH_ARENA_ALIGNMENT);
    *arena = (mh_arena){.base = base + skip, .size = needed - skip};
    return MH_OK;
}

void mh_attention_sums(const mh_attention_job *job, size_t rows, const float *lanes, float *sums,
                       float *logs)
{
    for (size_t r = 0; r < rows; r++)
        sums[r] = job->kernels->sum_lanes(lanes + r * job->kernels->lanes);
    if (job->problem->options.lse)
        job->kernels->log(rows, sums, logs);
}

void mh_attention_load_queries(const mh_attention_job *job, const mh_sequence *sequence,
                               size_t head, size_t query, size_t count, float *to)
{
    const mh_tensor *q = &job->problem->q;
    const size_t at[3] = {sequence->batch, head, sequence->query_begin + query};
    mh_rows_read(job->kernels, q, 2, mh_element(q, 3, at), count, job->problem->E, to);
}

void mh_attention_load_keys(const mh_attention_job *job, const mh_sequence *sequence, size_t group,
                            size_t tile, size_t count, float *to, mh_attention_scratch *scratch)
{
    const mh_attention_problem *p = job->problem;
    const size_t at[3] = {sequence->batch, group, sequence->key_begin + tile};
    ptrdiff_t stride;
    const float *rows = mh_rows_as_f32(job->kernels, &p->k, 2, mh_element(&p->k, 3, at), count,
                                       p->E, scratch->staging, &stride);
    job->kernels->transpose(count, p->E, rows, stride, to, MH_KEY_TILE);
}

size_t mh_attention_gemm_interleaved(const mh_attention_job *job, size_t begin, size_t m, size_t n,
                                     mh_a_operand queries, const mh_panels *keys, float *scores)
{
    const mh_gemm *gemm = &job->kernels->f32;
    if (!mh_attention_is_interleaved(job->problem, begin))
        return 0;
    const mh_panel_part part = mh_panel_from(keys, 0, mh_smaller(n, MH_SHORT_KEYS), sizeof(float));
    for (size_t r = 0; r < m; r += gemm->rows) {
        const mh_a_operand rows = mh_a_from_row(gemm, queries, r);
        job->kernels->gemm_interleaved(mh_smaller(m - r, gemm->rows), part.columns, job->problem->E,
                                       rows.data, rows.stride, part.data, part.stride,
                                       scores + r * MH_KEY_TILE, MH_KEY_TILE);
    }
    return part.columns;
}

void mh_attention_gemm_keys(const mh_attention_job *job, size_t begin, size_t m, size_t n,
                            mh_a_operand queries, const mh_panels *keys, float *scores)
{
    const mh_gemm *gemm = job->gemm;
    mh_panel_part part;
    size_t j = 0;
    if (!gemm->pack_b)
        j = mh_attention_gemm_interleaved(job, begin, m, n, queries, keys, scores);
    for (; j < n; j += part.columns) {
        part = mh_panel_from(keys, j, n, sizeof(float));
        gemm->gemm(m, part.columns, job->problem->E, queries.data, queries.stride, part.data,
                   part.stride, scores + j, MH_KEY_TILE, false);
    }
}

mh_score_map mh_attention_score_map(const mh_attention_job *job, const mh_sequence *sequence,
                                    const mh_query_row *row, size_t tile, uint64_t live,
                                    const float *bias)
{
    const mh_attention_problem *p = job->problem;
    const mh_attention_options *o = &p->options;
    mh_score_map map = {
        .scale = p->scale, .cap = o->softcap, .bias = p->additive ? bias : NULL, .live = live};
    if (o->alibi) {
        map.slope = o->alibi_slopes ? o->alibi_slopes[row->head] : mh_alibi_slope(row->head, p->H);
        map.distance = (float)((int64_t)row->query + sequence->offset - (int64_t)tile);
    }
    return map;
}

uint64_t mh_attention_keep(const mh_attention_job *job, const mh_sequence *sequence,
                           const mh_query_row *row, size_t tile)
{
    const mh_attention_options *o = &job->problem->options;
    const uint32_t key[2] = {(uint32_t)o->dropout_seed, (uint32_t)(o->dropout_seed >> 32)};
    const uint32_t counter[4] = {(uint32_t)(tile / 8), (uint32_t)row->query, (uint32_t)row->head,
                                 (uint32_t)(o->dropout_sequence + sequence->index)};
    return job->kernels->dropout_mask((uint16_t)(o->dropout * 0x1p16f), key, counter);
}
