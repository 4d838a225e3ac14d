// SPDX-License-Identifier: MIT
// The tasks of a matrix product; gemm_internal.h draws them.
#include "base/fpenv.h"
#include "ops/gemm/gemm_internal.h"
#include "ops/row_io.h"
#include <string.h>

// Part of what a product prefetches: the memory of its results.
static mh_gemm_prefetch target_of(const mh_gemm_job *job, const mh_gemm_part *p)
{
    const mh_tensor *t = &job->target;
    const size_t size = mh_dtype_size(t->dtype);
    if (!mh_runs_along(t, 1))
        return (mh_gemm_prefetch){0};
    return (mh_gemm_prefetch){.target = mh_gemm_row(t, p, 0),
                              .rows = p->rows,
                              .bytes = p->columns * size,
                              .stride = t->stride[0] * (ptrdiff_t)size};
}

// What to prefetch of panels that are read once, which lie back to back; NULL: leave it to the CPU.
// Found by measurement: f32 rows are prefetched for one row of A where a register tile is as wide
// as a panel, and for several where it is narrower and returns for the other columns later. There
// bf16 rows are prefetched further ahead, too.
static const char *find_ahead(const mh_gemm_job *job, mh_b_operand panel)
{
    enum { BF16_WIDE = 1024, BF16_NARROW = 16384, F32 = 4096 };
    const bool narrow = !mh_gemm_wide(job), one = job->a.shape[0] == 1;
    if (panel.type == MH_ROW_BF16)
        return panel.data + (narrow ? BF16_NARROW : BF16_WIDE);
    return one != narrow ? panel.data + F32 : NULL;
}

// One step of a task: a kc block for a block of rows.
typedef struct kc_block {
    size_t k, depth;
    bool first, last;
    mh_a_operand block; // of A, packed if need be
} kc_block;

// Row block i of a part: x = or += A B. After the last kc block the epilogue runs while the sums
// are in L1; if that is the first kc block too, the next row block reuses their memory.
static void gemm_driver_gemm_row_block(const mh_gemm_job *job, const kc_block *s,
                                       const mh_gemm_part *p, size_t i, mh_b_operand panel)
{
    const mh_gemm *gemm = job->gemm;
    const bool epilogue = s->last && !job->transposed;
    const size_t row = i * gemm->rows;
    const bool direct = job->plain && p->columns % job->kernels->lanes == 0;
    mh_gemm_part block = *p;
    block.row += row;
    block.rows = mh_smaller(p->rows - row, gemm->rows);
    block.x += epilogue && s->first ? 0 : row * p->ldx;
    if (direct) {
        block.x = mh_gemm_row(&job->target, &block, 0);
        block.ldx = (size_t)job->target.stride[0];
    }
    mh_gemm_prefetch prefetch = epilogue ? target_of(job, &block) : (mh_gemm_prefetch){0};
    const size_t offset = i * s->depth * gemm->prefetch_bytes;
    prefetch.next = offset < mh_panel_bytes(gemm, s->depth) ? panel.next + offset : NULL;
    const mh_a_operand a = mh_a_from_row(gemm, s->block, row);
    const mh_gemm_args args = {.m = block.rows,
                               .n = mh_round_up(p->columns, job->kernels->lanes),
                               .k = s->depth,
                               .a = a.data,
                               .lda = a.stride,
                               .b = panel.data,
                               .ldb = (ptrdiff_t)panel.columns,
                               .c = block.x,
                               .ldc = (ptrdiff_t)block.ldx,
                               .accumulate = !s->first,
                               .b_type = panel.type,
                               .prefetch = mh_gemm_streams(job) ? NULL : &prefetch};
    if (mh_gemm_streams(job))
        job->kernels->matrix.gemm_stream(&args, find_ahead(job, panel));
    else
        gemm->gemm(&args);
    if (epilogue && !direct)
        mh_gemm_epilogue(job, &block);
}

// Some panels, row block by row block. Each panel has its own sums where they are kept for the next
// kc block.
static void gemm_driver_gemm_panels(const mh_gemm_job *job, const kc_block *s,
                                    const mh_gemm_part *task, size_t begin, size_t end,
                                    const mh_gemm_scratch *scratch)
{
    mh_b_operand packed_b[MH_GEMM_AT_ONCE];
    mh_gemm_part parts[MH_GEMM_AT_ONCE];
    for (size_t panel = begin; panel < end; panel++) {
        mh_gemm_part *p = &parts[panel - begin];
        *p = *task;
        p->column = panel * MH_PANEL;
        p->columns = mh_smaller(job->c.shape[1] - p->column, MH_PANEL);
        p->x += s->first && s->last ? 0 : (p->column - task->column) * job->rows;
        packed_b[panel - begin] = mh_gemm_find_panel(job, panel, s->k, s->depth, scratch);
    }
    for (size_t i = 0; i * job->gemm->rows < task->rows; i++)
        for (size_t j = 0; j < end - begin; j++)
            gemm_driver_gemm_row_block(job, s, &parts[j], i, packed_b[j]);
    for (size_t j = 0; j < end - begin && s->last && job->transposed; j++)
        mh_gemm_epilogue_t(job, &parts[j], scratch->transposed_c);
}

// Adds the sums of rows of A over k .. k + depth, which has just been loaded into the cache; after
// the last kc block they are complete.
static void reduce_rows(const mh_gemm_job *job, size_t row, size_t rows, size_t k, size_t depth,
                        float *sums)
{
    const mh_tensor transposed = mh_tensor_swap(job->a, 0, 1);
    if (k == 0)
        memset(sums, 0, rows * sizeof *sums);
    mh_rows_reduce(job->kernels, &transposed, k, depth, row, rows, sums);
    if (k + depth < job->a.shape[1])
        return;
    if (job->options.accumulate)
        job->kernels->elementwise.add_row(rows, job->row_sums + row, sums);
    memcpy(job->row_sums + row, sums, rows * sizeof *sums);
}

static void gemm_block(void *arg, size_t index, size_t worker)
{
    const mh_gemm_job *job = arg;
    const mh_gemm_scratch *scratch = &job->scratch[worker];
    const size_t K = job->a.shape[1], row = index / job->column_blocks * job->rows;
    const size_t begin = index % job->column_blocks * job->panels;
    const size_t end = mh_smaller(begin + job->panels, mh_panels_of(job->c.shape[1]));
    const size_t at_once = mh_gemm_at_once(job);
    const mh_gemm_part task = {.row = row,
                               .rows = mh_smaller(job->c.shape[0] - row, job->rows),
                               .column = begin * MH_PANEL,
                               .x = scratch->sums,
                               .ldx = MH_PANEL};
    mh_gemm_enter(job->gemm);
    for (size_t k = 0; k < K || k == 0; k += MH_GEMM_DEPTH) {
        kc_block s = {.k = k, .depth = mh_smaller(K - k, MH_GEMM_DEPTH), .first = k == 0};
        s.last = k + s.depth == K;
        s.block = mh_gemm_load_block(job, row, task.rows, k, s.depth, scratch);
        if (job->row_sums && begin == 0)
            reduce_rows(job, row, task.rows, k, s.depth, scratch->row_sums);
        for (size_t panel = begin; panel < end; panel += at_once)
            gemm_driver_gemm_panels(job, &s, &task, panel, mh_smaller(panel + at_once, end),
                                    scratch);
    }
    mh_gemm_leave(job->gemm);
}

// Whether B is most likely not in a cache. Prefetching what is there costs up to a fifth.
static bool comes_from_memory(const mh_tensor *b)
{
    enum { CACHE_BYTES = 16 << 20 };
    return mh_tensor_count(b) >= CACHE_BYTES / mh_dtype_size(b->dtype);
}

// GEMV with B in place: all columns of a task at a time, so that B's rows are read in long runs.
static void gemv(void *arg, size_t index, size_t worker)
{
    const mh_gemm_job *job = arg;
    const mh_gemm_scratch *scratch = &job->scratch[worker];
    const size_t M = job->a.shape[0], K = job->a.shape[1], column = index * job->panels * MH_PANEL;
    const size_t columns = mh_smaller(job->c.shape[1] - column, job->panels * MH_PANEL);
    mh_gemm_enter(job->gemm);
    for (size_t k = 0; k < K || k == 0; k += MH_GEMM_DEPTH) {
        const size_t depth = mh_smaller(K - k, MH_GEMM_DEPTH);
        const mh_a_operand a = mh_gemm_load_block(job, 0, M, k, depth, scratch);
        job->gemm->gemv(&(mh_gemm_args){.b_type = mh_row_type_of(job->b.dtype),
                                        .m = M,
                                        .n = columns,
                                        .k = depth,
                                        .a = a.data,
                                        .lda = a.stride,
                                        .b = mh_element(&job->b, 2, (size_t[]){k, column}),
                                        .ldb = job->b.stride[0],
                                        .c = scratch->sums,
                                        .ldc = (ptrdiff_t)columns,
                                        .accumulate = k > 0,
                                        .from_memory = comes_from_memory(&job->b)});
    }
    for (size_t j = 0; j < columns; j += MH_PANEL)
        mh_gemm_epilogue(job, &(mh_gemm_part){0, M, column + j, mh_smaller(columns - j, MH_PANEL),
                                              scratch->sums + j, columns});
    mh_gemm_leave(job->gemm);
}

static void gemm_driver_run(mh_context *context, mh_gemm_job *job, size_t count, mh_task_fn task)
{
    if (job->workers > 1)
        mh_parallel_for_or_cancel(context, count, task, job);
    for (size_t i = 0; i < count && job->workers == 1 && !mh_is_cancelled(context); i++)
        task(job, i, 0);
}

// Whether to compute C^T: B would have to be transposed, is larger than A, and as the A operand
// needs no packing.
static bool better_transposed(const mh_gemm_job *job)
{
    return !job->packed && !job->row_sums && !job->gemm->pack_a && job->b.dtype == MH_F32 &&
           mh_runs_along(&job->b, 0) && !mh_runs_along(&job->b, 1) &&
           job->c.shape[0] >= MH_MAX_LANES && job->c.shape[0] < job->c.shape[1];
}

// Whether A has few rows and B can be read in place: packing it would take longer than the product.
static bool is_gemv(const mh_gemm_job *job)
{
    return !job->packed && !job->row_sums && job->a.shape[0] <= job->gemm->gemv_rows &&
           mh_runs_along(&job->b, 1) && (!job->gemm->pack_a || job->b.dtype == MH_BF16);
}

// Whether C is the sums of one kc block without an epilogue, so that they may be computed in place.
static bool gemm_driver_is_plain(const mh_gemm_job *job)
{
    const mh_linear_options *o = &job->options;
    return !job->transposed && !job->gemm->pack_a && job->a.shape[1] <= MH_GEMM_DEPTH &&
           mh_gemm_plain(&job->c) && job->c.stride[0] > 0 && !o->bias && !job->activate &&
           !o->preactivation && !job->relu_output && !o->residual && !o->accumulate &&
           job->dropout.probability <= 0;
}

mh_status mh_gemm_run(mh_context *context, mh_gemm_job *job)
{
    if (job->c.shape[0] == 0 || job->c.shape[1] == 0)
        return MH_OK;
    job->target = job->c;
    job->transposed = better_transposed(job);
    if (job->transposed) {
        const mh_tensor a = job->a;
        job->a = mh_tensor_swap(job->b, 0, 1);
        job->b = mh_tensor_swap(a, 0, 1);
        job->c = mh_tensor_swap(job->c, 0, 1);
    }
    job->gemv = is_gemv(job);
    job->plain = gemm_driver_is_plain(job);
    mh_gemm_plan(context, job);
    mh_arena size = {0};
    mh_gemm_layout(job, &size);
    void *memory = size.overflow ? NULL : mh_context_scratch(context, size.used);
    if (!memory)
        return mh_fail(context, MH_ERROR_MEMORY, "matmul: out of memory for the packed operands");
    mh_arena arena = {.base = memory, .size = size.used};
    mh_gemm_layout(job, &arena);
    mh_fpenv saved = mh_fpenv_enter();
    if (job->packed_b)
        gemm_driver_run(context, job, mh_panels_of(job->c.shape[1]), mh_gemm_pack_panel);
    gemm_driver_run(context, job, job->blocks * job->column_blocks, job->gemv ? gemv : gemm_block);
    mh_fpenv_leave(saved);
    return mh_check_cancelled(context);
}
