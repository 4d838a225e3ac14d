// SPDX-License-Identifier: MIT
// Packing, blocking and threading of the matrix product; matmul_job.h draws it.
#include "ops/matmul_job.h"
#include "base/fpenv.h"
#include "ops/rows.h"
#include <string.h>

// ---- operands --------------------------------------------------------------------------------

static bool runs_along(const mh_tensor *t, int d) { return t->stride[d] == 1; }

// Rows first .. of A over k .. k + depth. In place if they are f32; turned if it is A's columns
// that lie along memory, as in a transposed view; otherwise read element by element.
static mh_left load_block(const mh_matmul_job *job, size_t first, size_t rows, size_t k,
                          size_t depth, const mh_matmul_scratch *scratch)
{
    const mh_tensor *a = &job->a;
    const void *from = mh_element(a, 2, (size_t[]){first, k});
    ptrdiff_t stride = (ptrdiff_t)mh_round_up(depth, job->kernels->lanes);
    const float *block = scratch->rows;
    if (a->dtype == MH_F32 && runs_along(a, 1)) {
        block = from;
        stride = a->stride[0];
    } else if (a->dtype == MH_F32 && runs_along(a, 0)) {
        job->kernels->transpose(depth, rows, from, a->stride[1], scratch->rows, (size_t)stride);
    } else {
        for (size_t i = 0; i < rows; i++)
            mh_row_read(job->kernels, a->dtype, mh_element(a, 2, (size_t[]){first + i, k}),
                        a->stride[1], depth, scratch->rows + (ptrdiff_t)i * stride);
    }
    return mh_left_pack(job->product, rows, depth, block, stride, scratch->left);
}

// B's columns lie along memory (a transposed weight): read them as rows and turn them.
static void turn_columns(const mh_matmul_job *job, size_t column, size_t columns, size_t k,
                         size_t depth, float *staging, float *to)
{
    const mh_tensor turned = mh_tensor_swap(job->b, 0, 1);
    ptrdiff_t stride;
    const float *rows =
        mh_rows_as_f32(job->kernels, &turned, 0, mh_element(&turned, 2, (size_t[]){column, k}),
                       columns, depth, staging, &stride);
    job->kernels->transpose(columns, depth, rows, stride, to, MH_PANEL);
}

// Rows k .. k + depth of a panel of B.
static void pack_stretch(const mh_matmul_job *job, size_t panel, size_t k, size_t depth,
                         const mh_matmul_scratch *scratch, void *to)
{
    const mh_tensor *b = &job->b;
    const mh_product *product = job->product;
    const size_t column = panel * MH_PANEL, columns = mh_smaller(b->shape[1] - column, MH_PANEL);
    const void *from = mh_element(b, 2, (size_t[]){k, column});
    if (product->pack_right && b->dtype == MH_F32 && runs_along(b, 1) && b->stride[0] > 0) {
        if (columns < MH_PANEL)
            memset(to, 0, mh_panel_bytes(product, depth));
        product->pack_right(depth, columns, from, (size_t)b->stride[0], to, MH_PANEL);
        return;
    }
    float *rows = mh_right_source(product, to, scratch->turned);
    if (columns < MH_PANEL)
        memset(rows, 0, depth * MH_PANEL * sizeof *rows);
    if (runs_along(b, 0) && !runs_along(b, 1))
        turn_columns(job, column, columns, k, depth, scratch->staging, rows);
    else
        for (size_t i = 0; i < depth; i++)
            mh_row_read(job->kernels, b->dtype, mh_element(b, 2, (size_t[]){k + i, column}),
                        b->stride[1], columns, rows + i * MH_PANEL);
    mh_right_pack(product, depth, MH_PANEL, rows, MH_PANEL, to);
}

void mh_matmul_pack_panel(void *arg, size_t panel, size_t worker)
{
    const mh_matmul_job *job = arg;
    const size_t K = job->b.shape[0];
    char *to = job->right + panel * mh_panel_bytes(job->product, K);
    for (size_t k = 0; k < K; k += MH_MATMUL_DEPTH)
        pack_stretch(job, panel, k, mh_smaller(K - k, MH_MATMUL_DEPTH), &job->scratch[worker],
                     to + k * MH_PANEL * job->product->right_size);
}

// The stretch k .. k + depth of a panel: packed beforehand, or now.
static const void *find_panel(const mh_matmul_job *job, size_t panel, size_t k, size_t depth,
                              const mh_matmul_scratch *scratch)
{
    const char *packed = job->packed ? job->packed->panels : job->right;
    if (packed)
        return packed + panel * mh_panel_bytes(job->product, job->a.shape[1]) +
               k * MH_PANEL * job->product->right_size;
    pack_stretch(job, panel, k, depth, scratch, scratch->panel);
    return scratch->panel;
}

// ---- one task --------------------------------------------------------------------------------

// Part of a row of t, from `from` on, as f32: in place, or read into staging.
static const float *row_at(const mh_kernels *kernels, const mh_tensor *t, const void *from,
                           size_t columns, float *staging)
{
    if (t->dtype == MH_F32 && (runs_along(t, 1) || columns == 1))
        return from;
    mh_row_read(kernels, t->dtype, from, t->stride[1], columns, staging);
    return staging;
}

// Columns column .. of row `row` of C, from the sums.
static void finish_row(const mh_matmul_job *job, size_t row, size_t column, size_t columns,
                       float *sums)
{
    const mh_kernels *kernels = job->kernels;
    const mh_linear_options *o = &job->options;
    const size_t at[2] = {row, column};
    float staging[MH_MATMUL_ROWS];
    if (job->only_bias) {
        kernels->add_rows(columns, sums, (const float *)o->bias->data + column,
                          (float *)mh_element(&job->target, 2, at));
        return;
    }
    if (o->bias)
        kernels->add_row(columns, (const float *)o->bias->data + column, sums);
    if (o->preactivation)
        mh_row_write(kernels, MH_F32, (void *)mh_element(o->preactivation, 2, at),
                     o->preactivation->stride[1], columns, sums);
    if (job->activate)
        job->activate(columns, sums, sums);
    if (job->dropout.probability > 0)
        mh_drop_numbers(kernels, &job->dropout, (uint64_t)row * job->target.shape[1] + column,
                        columns, sums, sums);
    if (o->residual)
        kernels->add_row(
            columns, row_at(kernels, o->residual, mh_element(o->residual, 2, at), columns, staging),
            sums);
    const mh_tensor *c = &job->target;
    void *to = (void *)mh_element(c, 2, at);
    if (o->accumulate && c->dtype == MH_F32 && (runs_along(c, 1) || columns == 1)) {
        kernels->add_row(columns, sums, to);
        return;
    }
    if (o->accumulate)
        kernels->add_row(columns, row_at(kernels, c, to, columns, staging), sums);
    mh_row_write(kernels, c->dtype, to, c->stride[1], columns, sums);
}

// The sums of a panel: rows first .. and the panel's columns of what is computed, to C.
static void finish_panel(const mh_matmul_job *job, size_t first, size_t rows, size_t column,
                         size_t columns, float *sums, float *finished)
{
    if (job->turned) {
        job->kernels->transpose(rows, columns, sums, MH_PANEL, finished, MH_MATMUL_ROWS);
        for (size_t i = 0; i < columns; i++)
            finish_row(job, column + i, first, rows, finished + i * MH_MATMUL_ROWS);
        return;
    }
    for (size_t i = 0; i < rows; i++)
        finish_row(job, first + i, column, columns, sums + i * MH_PANEL);
}

static void multiply_panel(const mh_matmul_job *job, size_t rows, size_t columns, size_t depth,
                           mh_left block, const void *panel, float *sums, bool accumulate)
{
    const mh_product *product = job->product;
    const size_t width = mh_round_up(columns, job->kernels->lanes);
    for (size_t k = 0; k < depth || k == 0; k += product->depth) {
        const size_t part = mh_smaller(depth - k, product->depth);
        const mh_left left = mh_left_from_k(product, block, k);
        const char *right = (const char *)panel + k * MH_PANEL * product->right_size;
        for (size_t i = 0; i < rows; i += product->rows) {
            const mh_left strip = mh_left_from(product, left, i);
            product->multiply(mh_smaller(rows - i, product->rows), width, part, strip.data,
                              strip.stride, right, MH_PANEL, sums + i * MH_PANEL, MH_PANEL,
                              accumulate || k > 0);
        }
    }
}

static void multiply_block(void *arg, size_t index, size_t worker)
{
    const mh_matmul_job *job = arg;
    const mh_matmul_scratch *scratch = &job->scratch[worker];
    const size_t K = job->a.shape[1], N = job->c.shape[1];
    const size_t first = index / job->groups * job->rows;
    const size_t rows = mh_smaller(job->c.shape[0] - first, job->rows);
    const size_t begin = index % job->groups * job->panels;
    const size_t end = mh_smaller(begin + job->panels, mh_panels_of(N));

    mh_product_enter(job->product);
    for (size_t k = 0; k < K || k == 0; k += MH_MATMUL_DEPTH) {
        const size_t depth = mh_smaller(K - k, MH_MATMUL_DEPTH);
        const mh_left block = load_block(job, first, rows, k, depth, scratch);
        for (size_t panel = begin; panel < end; panel++) {
            const size_t column = panel * MH_PANEL, columns = mh_smaller(N - column, MH_PANEL);
            float *sums = scratch->sums + (panel - begin) * MH_MATMUL_ROWS * MH_PANEL;
            multiply_panel(job, rows, columns, depth, block,
                           find_panel(job, panel, k, depth, scratch), sums, k > 0);
            if (k + depth == K)
                finish_panel(job, first, rows, column, columns, sums, scratch->finished);
        }
    }
    mh_product_leave(job->product);
}

// Whether a bias is all that comes between the sums and C: then it is added on the way.
static bool has_only_bias(const mh_matmul_job *job)
{
    const mh_linear_options *o = &job->options;
    return o->bias && !o->preactivation && !job->activate && job->dropout.probability <= 0 &&
           !o->residual && !o->accumulate && job->target.dtype == MH_F32 &&
           runs_along(&job->target, 1);
}

// ---- planning ----------------------------------------------------------------------------------

// Below this many multiply-adds waking threads costs more than it gives.
static bool worth_threads(const mh_matmul_job *job)
{
    return (double)job->c.shape[0] * (double)job->c.shape[1] * (double)job->a.shape[1] > 1e6;
}

static void count_tasks(mh_matmul_job *job)
{
    const size_t panels = mh_panels_of(job->c.shape[1]);
    job->blocks = (job->c.shape[0] + job->rows - 1) / job->rows;
    job->groups = (panels + job->panels - 1) / job->panels;
}

// As many tasks as keep all threads busy. Smaller blocks of A's rows come first, as long as there
// are several: B is packed beforehand then. Smaller groups of panels pack each block once more.
// Blocks that need no packing are cut evenly, so that threads finish together, and by whole lines
// of the cache, as C may be turned.
static void plan(const mh_context *context, mh_matmul_job *job)
{
    const size_t enough = 4 * context->threads, least = job->product->rows;
    job->workers = worth_threads(job) ? context->threads : 1;
    job->rows = MH_MATMUL_ROWS;
    job->panels = mh_smaller(mh_panels_of(job->c.shape[1]), MH_MATMUL_PANELS);
    count_tasks(job);
    if (job->workers == 1)
        return;
    if (!job->product->pack_left && job->blocks > 1 && job->blocks * job->groups < enough) {
        const size_t blocks = (enough + job->groups - 1) / job->groups;
        job->rows = mh_round_up((job->c.shape[0] + blocks - 1) / blocks, MH_MAX_LANES);
        count_tasks(job);
    }
    for (; job->product->pack_left && job->blocks > 1 && job->rows > least &&
           job->blocks * job->groups < enough;
         count_tasks(job))
        job->rows = mh_round_up(job->rows / 2, least);
    for (; job->panels > 1 && job->blocks * job->groups < enough; count_tasks(job))
        job->panels = (job->panels + 1) / 2;
}

static void layout_scratch(const mh_matmul_job *job, mh_arena *arena, mh_matmul_scratch *to)
{
    const mh_product *product = job->product;
    const size_t depth = mh_smaller(job->a.shape[1], MH_MATMUL_DEPTH);
    const size_t width = mh_round_up(depth, job->kernels->lanes);
    const size_t rows = mh_round_up(mh_smaller(job->c.shape[0], MH_MATMUL_ROWS), product->rows);
    mh_matmul_scratch s;
    s.rows = mh_arena_take(arena, rows * width, sizeof(float));
    s.left = mh_left_take(product, arena, rows, depth);
    s.turned = mh_arena_take(arena, depth * MH_PANEL, sizeof(float));
    s.staging = mh_arena_take(arena, depth * MH_PANEL, sizeof(float));
    s.panel = mh_right_take(product, arena, depth, MH_PANEL);
    s.sums = mh_arena_take(arena, job->panels * MH_MATMUL_ROWS * MH_PANEL, sizeof(float));
    s.finished = mh_arena_take(arena, MH_MATMUL_ROWS * MH_PANEL, sizeof(float));
    if (to)
        *to = s;
}

static void layout(mh_matmul_job *job, mh_arena *arena)
{
    job->scratch = mh_arena_take(arena, job->workers, sizeof *job->scratch);
    for (size_t i = 0; i < job->workers; i++)
        layout_scratch(job, arena, job->scratch ? &job->scratch[i] : NULL);
    job->right = NULL;
    if (!job->packed && job->blocks > 1) // with one block each panel is used once
        job->right = mh_arena_take(arena, mh_panels_of(job->c.shape[1]),
                                   mh_panel_bytes(job->product, job->a.shape[1]));
}

static void run(mh_context *context, mh_matmul_job *job, size_t count, mh_task_fn task)
{
    if (job->workers > 1)
        mh_parallel_for(context, count, task, job);
    for (size_t i = 0; i < count && job->workers == 1; i++)
        task(job, i, 0);
}

// Whether to compute C^T: B would be turned and is larger than A, and needs no packing as it
// stands.
static bool better_turned(const mh_matmul_job *job)
{
    return !job->packed && !job->product->pack_left && job->b.dtype == MH_F32 &&
           runs_along(&job->b, 0) && !runs_along(&job->b, 1) && job->c.shape[0] >= MH_MAX_LANES &&
           job->c.shape[0] < job->c.shape[1];
}

mh_status mh_matmul_run(mh_context *context, mh_matmul_job *job)
{
    if (job->c.shape[0] == 0 || job->c.shape[1] == 0)
        return MH_OK;
    job->target = job->c;
    job->only_bias = has_only_bias(job);
    job->turned = better_turned(job);
    if (job->turned) {
        const mh_tensor a = job->a;
        job->a = mh_tensor_swap(job->b, 0, 1);
        job->b = mh_tensor_swap(a, 0, 1);
        job->c = mh_tensor_swap(job->c, 0, 1);
    }
    plan(context, job);
    mh_arena size = {0};
    layout(job, &size);
    void *memory = size.overflow ? NULL : mh_context_scratch(context, size.used);
    if (!memory)
        return mh_fail(context, MH_ERROR_MEMORY, "matmul: no memory for the packed operands");
    mh_arena arena = {.base = memory, .size = size.used};
    layout(job, &arena);
    mh_fpenv saved = mh_fpenv_enter();
    if (job->right)
        run(context, job, mh_panels_of(job->c.shape[1]), mh_matmul_pack_panel);
    run(context, job, job->blocks * job->groups, multiply_block);
    mh_fpenv_leave(saved);
    return MH_OK;
}
