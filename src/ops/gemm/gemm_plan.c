// SPDX-License-Identifier: MIT
// How a matrix product is split into tasks, and their workspace.
#include "ops/gemm/gemm_internal.h"

// Below 1e6 FMAs (about 20 us), waking threads costs more than it gains. Few rows wait for B, whose
// elements are counted as so many FMAs each: one token of a small model is products of one row with
// matrices of 0.2 to 2 MB.
static bool gemm_plan_worth_threads(const mh_gemm_job *job)
{
    enum { READ = 4 };
    const double elements = (double)job->c.shape[1] * (double)job->a.shape[1];
    return ((double)job->c.shape[0] + READ) * elements > 1e6;
}

// The size of parts of at most `most`, as even as possible.
static size_t even_part(size_t total, size_t most)
{
    const size_t parts = (total + most - 1) / most;
    return (total + parts - 1) / parts;
}

static void gemm_plan_count_tasks(mh_gemm_job *job)
{
    const size_t panels = mh_panels_of(job->c.shape[1]);
    job->blocks = (job->c.shape[0] + job->rows - 1) / job->rows;
    job->column_blocks = (panels + job->panels - 1) / job->panels;
}

// Whether to halve packed blocks: to keep all threads busy, unless they are much shorter than the
// panels are wide; and beyond that, if they are not, so that threads of different speed finish
// together.
static bool should_halve(const mh_gemm_job *job, size_t threads)
{
    const size_t tasks = job->blocks * job->column_blocks, width = job->panels * MH_PANEL;
    if (job->rows <= job->gemm->rows || tasks >= 8 * threads)
        return false;
    return width <= (tasks < 2 * threads ? 8 : 2) * job->rows;
}

// Where the A operand is packed, blocks are halved first: with narrower column blocks, each block
// is packed more often.
static void cut_packed(mh_gemm_job *job, size_t threads)
{
    for (; should_halve(job, threads); gemm_plan_count_tasks(job))
        job->rows = mh_round_up(job->rows / 2, job->gemm->rows);
    for (; job->panels > 1 && job->blocks * job->column_blocks < 2 * threads;
         gemm_plan_count_tasks(job))
        job->panels = (job->panels + 1) / 2;
}

// Column blocks of at least `least` panels, small enough for `tasks` tasks.
static void cut_panels(mh_gemm_job *job, size_t tasks, size_t least)
{
    const size_t column_blocks = (tasks + job->blocks - 1) / job->blocks;
    const size_t even = (mh_panels_of(job->c.shape[1]) + column_blocks - 1) / column_blocks;
    job->panels = mh_smaller(job->panels, mh_larger(even, least));
    gemm_plan_count_tasks(job);
}

// Blocks small enough for `tasks` tasks, of whole row blocks and whole cache lines, as C may be
// transposed. A single block is not split: then each panel is packed by the task that uses it.
static void cut_blocks(mh_gemm_job *job, size_t tasks, size_t least)
{
    enum { EVEN = 48 };
    const size_t blocks = (tasks + job->column_blocks - 1) / job->column_blocks;
    const size_t even = mh_round_up((job->c.shape[0] + blocks - 1) / blocks, EVEN);
    if (job->blocks > 1)
        job->rows = mh_smaller(job->rows, mh_larger(even, least));
    gemm_plan_count_tasks(job);
}

// Rows of A in place may be read by several column blocks. Column blocks of few panels, and blocks
// of few rows, gain less from prefetched panels, so they are the last resort. Rows that need
// transposing are transposed once per column block.
static void cut_rows(mh_gemm_job *job, size_t threads)
{
    enum { FEW_PANELS = 4, TRANSPOSED_PANELS = 12, FEW_ROWS = 96 };
    const bool in_place = mh_gemm_packs_block(job);
    const size_t many = 12 * threads;
    cut_panels(job, many, in_place ? FEW_PANELS : TRANSPOSED_PANELS);
    cut_blocks(job, many, FEW_ROWS);
    cut_panels(job, in_place ? many : 4 * threads, 1);
}

// Packed blocks take at most a quarter of an L2 of 2 MiB.
static size_t largest_block(const mh_gemm_job *job)
{
    enum { BLOCK_BYTES = 512 * 1024 };
    const mh_gemm *gemm = job->gemm;
    const size_t depth = mh_larger(1, mh_smaller(job->a.shape[1], MH_GEMM_DEPTH));
    const size_t row_blocks = BLOCK_BYTES / (depth * gemm->a_size * gemm->rows);
    return gemm->pack_a ? mh_smaller(gemm->block, row_blocks * gemm->rows) : gemm->block;
}

// Tasks of a GEMV: wide enough to read B's rows in long runs, narrow enough for sums to stay in L1.
static size_t gemv_panels(const mh_gemm_job *job)
{
    enum { FEWEST = 8, MOST = 64 };
    const size_t share = job->workers > 1 ? job->panels / (2 * job->workers) : MOST;
    return mh_smaller(job->panels, mh_smaller(MOST, mh_larger(FEWEST, share)));
}

void mh_gemm_plan(const mh_context *context, mh_gemm_job *job)
{
    job->workers = gemm_plan_worth_threads(job) ? context->threads : 1;
    job->rows = mh_smaller(largest_block(job), mh_round_up(job->c.shape[0], job->gemm->rows));
    job->panels = mh_panels_of(job->c.shape[1]);
    if (job->gemv)
        job->panels = gemv_panels(job);
    else if (job->a.shape[1] > MH_GEMM_DEPTH)
        job->panels = even_part(job->panels, MH_GEMM_PANELS);
    gemm_plan_count_tasks(job);
    if (job->gemv)
        return;
    if (job->workers > 1 && job->gemm->pack_a)
        cut_packed(job, context->threads);
    else if (job->workers > 1)
        cut_rows(job, context->threads);
}

static void gemm_plan_layout_scratch(const mh_gemm_job *job, mh_arena *arena, mh_gemm_scratch *to)
{
    const mh_gemm *gemm = job->gemm;
    const size_t depth = mh_smaller(job->a.shape[1], MH_GEMM_DEPTH);
    const size_t width = mh_round_up(depth, job->kernels->lanes);
    const size_t rows = mh_round_up(mh_smaller(job->c.shape[0], job->rows), gemm->rows);
    const size_t panels = job->gemv || job->a.shape[1] > MH_GEMM_DEPTH ? job->panels : 1;
    mh_gemm_scratch s;
    s.rows = mh_gemm_packs_block(job) ? NULL : mh_arena_take(arena, rows * width, sizeof(float));
    s.packed_a = mh_a_take(gemm, arena, rows, depth);
    s.transposed = mh_arena_take(arena, depth * MH_PANEL, sizeof(float));
    s.staging = mh_arena_take(arena, depth * MH_PANEL, sizeof(float));
    s.panel = mh_b_take(gemm, arena, depth, MH_PANEL);
    s.sums =
        mh_arena_take(arena, panels * mh_round_up(job->rows, gemm->rows) * MH_PANEL, sizeof(float));
    s.transposed_c =
        mh_arena_take(arena, job->transposed ? gemm->block * MH_PANEL : 0, sizeof(float));
    s.row_sums = mh_arena_take(arena, job->row_sums ? job->rows : 0, sizeof(float));
    if (to)
        *to = s;
}

void mh_gemm_layout(mh_gemm_job *job, mh_arena *arena)
{
    job->scratch = mh_arena_take(arena, job->workers, sizeof *job->scratch);
    for (size_t i = 0; i < job->workers; i++)
        gemm_plan_layout_scratch(job, arena, job->scratch ? &job->scratch[i] : NULL);
    job->packed_b = NULL;
    if (!job->packed && job->blocks > 1) // with one block each panel is used once
        job->packed_b = mh_arena_take(arena, mh_panels_of(job->c.shape[1]),
                                      mh_panel_bytes(job->gemm, job->a.shape[1]));
}
