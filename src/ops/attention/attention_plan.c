// SPDX-License-Identifier: MIT
// Planning of an attention call: tasks, workers and the layout of their scratch memory.
#include "base/compiler.h"
#include "base/overflow.h"
#include "base/size_math.h"
#include "ops/attention/attention_internal.h"
#include <math.h>
#include <string.h>

// Keys are packed once per block, so blocks are large: with 2048 rows, packing is about 1 % of the
// work.
static size_t choose_block_rows(const mh_attention_desc *p, size_t mr, size_t rows)
{
    enum { MOST_ROWS = 2048, LEAST_ROWS = 48, MOST_FLOATS = 512 * 1024 };
    size_t fitting = mh_larger(MOST_FLOATS / (p->E + p->Ev), LEAST_ROWS);
    size_t wanted = mh_smaller(mh_smaller(fitting, MOST_ROWS), mh_larger(rows, 1));
    return mh_round_up(wanted, mr);
}

static size_t attention_plan_count_tasks(const mh_attention_desc *p, size_t rows, size_t block_rows)
{
    return p->B * p->G * ((rows + block_rows - 1) / block_rows);
}

// Below 1e6 FMAs (about 20 us) waking threads does not pay off. The overhead of a row is counted as
// 2000 FMAs.
static bool attention_plan_worth_threads(const mh_attention_desc *p)
{
    const double rows = (double)p->B * (double)p->H * (double)p->T;
    return rows * ((double)p->S * (double)(p->E + p->Ev) + 2000) > 1e6;
}

// On the short-sequence path a head is little work: a task takes several.
static void plan_short(mh_attention_job *job, size_t threads)
{
    const mh_attention_desc *p = job->desc;
    const size_t all = p->B * p->G;
    job->share = mh_larger(all / (8 * threads), 1);
    job->tasks = (all + job->share - 1) / job->share;
    job->workers = job->tasks > 1 ? threads : 1;
    job->query_rows = MH_SHORT_ROWS;
}

void mh_attention_job_plan(const mh_context *context, const mh_attention_desc *desc,
                           mh_attention_job *job)
{
    const mh_attention_desc *p = desc;
    const mh_kernels *kernels = context->kernels;
    size_t rows = p->heads_per_group * p->T;
    size_t threads = attention_plan_worth_threads(p) ? context->threads : 1;

    *job = (mh_attention_job){.desc = p, .kernels = kernels};
    job->gemm = p->bf16 ? &kernels->bf16 : &kernels->f32;
    job->mr = job->gemm->rows;
    job->value_width = p->cache ? p->value_stride : mh_round_up(p->Ev, kernels->lanes);
    job->mma = p->bf16 && kernels->attention.softmax_tile;
    job->query_rows = job->mma ? job->mr : kernels->attention.query_rows;
    job->group_rows = job->mma ? mh_round_up(24, job->mr) : kernels->attention.row_group;
    job->split_tiles = mh_smaller((p->S + MH_KEY_TILE - 1) / MH_KEY_TILE, MH_SPLIT_TILES);
    job->block_rows = choose_block_rows(p, job->mr, rows);
    while (threads > 1 && job->block_rows > mh_round_up(48, job->mr) &&
           attention_plan_count_tasks(p, rows, job->block_rows) < 4 * threads)
        job->block_rows = mh_round_up(job->block_rows / 2, job->mr);
    job->blocks = (rows + job->block_rows - 1) / job->block_rows;
    job->tasks = attention_plan_count_tasks(p, rows, job->block_rows);
    // Few queries, many keys: split-KV, one task per KV split, merged afterwards.
    job->kv_splits = (p->S + MH_KV_SPLIT - 1) / MH_KV_SPLIT;
    job->split_kv = !p->resumed && threads > 1 && job->tasks < 4 * threads && job->kv_splits > 1 &&
                    rows <= 2 * job->group_rows;
    job->workers = job->tasks > 1 || job->split_kv ? threads : 1; // any thread may take a task
    job->keep_scale = (float)(1 / (1 - (double)p->options.dropout));
    job->modified = p->options.softcap > 0 || p->options.alibi || p->additive;
    job->short_path = mh_attention_is_short(p);
    if (job->short_path)
        plan_short(job, threads);
}

mh_attention_block mh_attention_block_at(const mh_attention_job *job, size_t task)
{
    const mh_attention_desc *p = job->desc;
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
    const mh_attention_desc *p = job->desc;
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

static void attention_plan_layout_scratch(const mh_attention_job *job, mh_arena *arena,
                                          mh_attention_scratch *scratch)
{
    const mh_attention_desc *p = job->desc;
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
    s.sums = mh_arena_take(arena, gemm->micro_panel * job->value_width, sizeof(float));
    s.staging = mh_arena_take(arena, MH_KEY_TILE * mh_larger(p->E, p->Ev), sizeof(float));
    const size_t mr = mh_larger(job->mr, job->kernels->attention.query_rows);
    s.scores = mh_arena_take(arena, 2 * mr * MH_KEY_TILE, sizeof(float));
    s.weights = mh_a_take(gemm, arena, job->mr, tiles * MH_KEY_TILE);
    s.bias = mh_arena_take(arena, (p->additive ? tiles : 1) * mr * MH_KEY_TILE, sizeof(float));
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
    const mh_attention_desc *p = job->desc;
    bool softmax = p->options.weights && p->options.weights_stage == MH_WEIGHTS_SOFTMAX;
    if (job->short_path) {
        job->short_scratch =
            mh_arena_take(arena, job->workers * sizeof(float), mh_attention_short_floats(job));
        return;
    }
    job->scratch = mh_arena_take(arena, job->workers, sizeof *job->scratch);
    for (size_t i = 0; i < job->workers; i++)
        attention_plan_layout_scratch(job, arena, job->scratch ? &job->scratch[i] : NULL);
    if (p->resumed) {
        job->totals = layout_state(job, job->tasks * job->block_rows, arena);
        job->totals_seen = mh_arena_take(arena, job->tasks * job->block_rows, sizeof(bool));
    }
    if (job->split_kv) {
        const size_t parts = job->tasks * job->kv_splits * job->block_rows;
        job->parts = layout_state(job, parts, arena);
        job->parts_seen = mh_arena_take(arena, parts, sizeof(bool));
    }
    job->stats = softmax ? mh_arena_take(arena, p->B * p->H * p->T, sizeof *job->stats) : NULL;
}

void mh_attention_run(mh_context *context, size_t workers, size_t count, mh_task_fn task, void *arg)
{
    if (workers > 1) {
        mh_parallel_for_or_cancel(context, count, task, arg);
        return;
    }
    for (size_t i = 0; i < count && !mh_is_cancelled(context); i++)
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
    MH_TRY(mh_attention_workspace_bytes(context, arena, &needed));
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
