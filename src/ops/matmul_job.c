// SPDX-License-Identifier: MIT
// Packing, blocking and threading of the matrix product; matmul_job.h draws it.
#include "ops/matmul_job.h"
#include "base/compiler.h"
#include "base/fpenv.h"
#include "ops/rows.h"
#include <string.h>

// ---- operands --------------------------------------------------------------------------------

static bool runs_along(const mh_tensor *t, int d) { return t->stride[d] == 1; }

// Whether A's block can become a left operand, or is one, without being f32 rows first.
static bool packs_block(const mh_matmul_job *job)
{
    const mh_tensor *a = &job->a;
    if (!job->product->pack_left)
        return a->dtype == MH_F32 && runs_along(a, 1);
    return (a->dtype == MH_F32 || a->dtype == MH_BF16) && (runs_along(a, 1) || runs_along(a, 0));
}

static mh_left pack_block(const mh_matmul_job *job, const void *from, size_t rows, size_t depth,
                          void *to)
{
    const mh_product *product = job->product;
    const mh_tensor *a = &job->a;
    if (a->dtype == MH_F32 && runs_along(a, 1))
        return mh_left_pack(product, rows, depth, from, a->stride[0], to);
    if (a->dtype == MH_F32)
        product->pack_left_turned(rows, depth, from, a->stride[1], to);
    else if (runs_along(a, 1))
        product->pack_left_bf16(rows, depth, from, a->stride[0], to);
    else
        product->pack_left_turned_bf16(rows, depth, from, a->stride[1], to);
    return (mh_left){to, (ptrdiff_t)mh_round_up(depth, product->step)};
}

// Rows first .. of A over k .. k + depth. Without packing, in place if they are f32, turned if it
// is A's columns that lie along memory, as in a transposed view; otherwise read one by one.
static mh_left load_block(const mh_matmul_job *job, size_t first, size_t rows, size_t k,
                          size_t depth, const mh_matmul_scratch *scratch)
{
    const mh_tensor *a = &job->a;
    const void *from = mh_element(a, 2, (size_t[]){first, k});
    if (packs_block(job))
        return pack_block(job, from, rows, depth, scratch->left);
    const size_t stride = mh_round_up(depth, job->kernels->lanes);
    if (a->dtype == MH_F32 && runs_along(a, 0))
        job->kernels->transpose(depth, rows, from, a->stride[1], scratch->rows, stride);
    else
        for (size_t i = 0; i < rows; i++)
            mh_row_read(job->kernels, a->dtype, mh_element(a, 2, (size_t[]){first + i, k}),
                        a->stride[1], depth, scratch->rows + i * stride);
    return mh_left_pack(job->product, rows, depth, scratch->rows, (ptrdiff_t)stride, scratch->left);
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

// A right operand straight from where the rows of B, or its columns, lie along memory.
static bool pack_columns(const mh_matmul_job *job, const void *from, size_t columns, size_t depth,
                         void *to)
{
    const mh_product *product = job->product;
    const mh_tensor *b = &job->b;
    const bool rows = runs_along(b, 1) && b->stride[0] > 0, turned = runs_along(b, 0);
    if (!product->pack_right ||
        !(b->dtype == MH_F32 ? rows || turned : b->dtype == MH_BF16 && rows))
        return false;
    if (columns < MH_PANEL)
        memset(to, 0, mh_panel_bytes(product, depth));
    if (b->dtype == MH_BF16)
        product->pack_right_bf16(depth, columns, from, b->stride[0], to, MH_PANEL);
    else if (rows)
        product->pack_right(depth, columns, from, (size_t)b->stride[0], to, MH_PANEL);
    else
        product->pack_right_turned(depth, columns, from, b->stride[1], to, MH_PANEL);
    return true;
}

// Rows k .. k + depth of a panel of B.
static void pack_stretch(const mh_matmul_job *job, size_t panel, size_t k, size_t depth,
                         const mh_matmul_scratch *scratch, void *to)
{
    const mh_tensor *b = &job->b;
    const mh_product *product = job->product;
    const size_t column = panel * MH_PANEL, columns = mh_smaller(b->shape[1] - column, MH_PANEL);
    const void *from = mh_element(b, 2, (size_t[]){k, column});
    if (pack_columns(job, from, columns, depth, to))
        return;
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

// Rows of f32 that are multiplied by few others are taken where they are, as to pack them would be
// more work than the product; whole panels only, as a product reads whole vectors.
static bool takes_rows(const mh_matmul_job *job, size_t column)
{
    enum { FEW_ROWS = 6 };
    const mh_tensor *b = &job->b;
    return !job->product->pack_right && job->a.shape[0] <= FEW_ROWS && b->dtype == MH_F32 &&
           runs_along(b, 1) && b->stride[0] > 0 && b->shape[1] - column >= MH_PANEL;
}

// Panels that pass by a strip of A together: several, if strips are packed and so short that they
// stay in the first-level cache, and panels are packed, which then stay in the second-level one for
// the next strip.
static size_t panels_at_once(const mh_matmul_job *job)
{
    enum { STRIP_BYTES = 32 * 1024 };
    const mh_product *product = job->product;
    const bool packed = product->pack_left && (job->packed || job->right);
    const size_t depth = mh_smaller(job->a.shape[1], MH_MATMUL_DEPTH);
    return packed && product->rows * depth * product->left_size <= STRIP_BYTES ? MH_MATMUL_AT_ONCE
                                                                               : 1;
}

// A panel of B, or a stretch of one.
typedef struct right_operand {
    const char *data;
    size_t columns;
    const char *next; // what its strips bring into the cache part by part: the panel that takes its
                      // place; or data
} right_operand;

// The stretch k .. k + depth of a panel: packed beforehand, as it stands, or packed now.
static right_operand find_panel(const mh_matmul_job *job, size_t panel, size_t k, size_t depth,
                                const mh_matmul_scratch *scratch)
{
    const char *packed = job->packed ? job->packed->panels : job->right;
    const size_t column = panel * MH_PANEL;
    if (packed) {
        const size_t bytes = mh_panel_bytes(job->product, job->a.shape[1]);
        const size_t further = panels_at_once(job);
        packed += panel * bytes + k * MH_PANEL * job->product->right_size;
        const bool more = column + further * MH_PANEL < job->c.shape[1];
        return (right_operand){packed, MH_PANEL, packed + (more ? further * bytes : 0)};
    }
    if (takes_rows(job, column)) {
        const char *rows = mh_element(&job->b, 2, (size_t[]){k, column});
        return (right_operand){rows, (size_t)job->b.stride[0], rows};
    }
    pack_stretch(job, panel, k, depth, scratch, scratch->panel);
    return (right_operand){scratch->panel, MH_PANEL, scratch->panel};
}

// ---- one task --------------------------------------------------------------------------------

// A part of what a product sends for: where its results will go.
static mh_ahead target_of(const mh_matmul_job *job, const mh_matmul_part *p)
{
    const mh_tensor *t = &job->target;
    const size_t size = mh_dtype_size(t->dtype);
    if (!runs_along(t, 1))
        return (mh_ahead){0};
    return (mh_ahead){.target = mh_matmul_row(t, p, 0),
                      .rows = p->rows,
                      .bytes = p->columns * size,
                      .stride = t->stride[0] * (ptrdiff_t)size};
}

// What a task does at a time: a stretch of k for a block of rows.
typedef struct stretch {
    size_t k, depth;
    bool first, last;
    mh_left block; // of A, packed if need be
} stretch;

// Strip i of a part: x = or += A B. After the last stretch it is finished while it is in the
// first-level cache; the next one may take its place if that is the first stretch, too.
static void multiply_strip(const mh_matmul_job *job, const stretch *s, const mh_matmul_part *p,
                           size_t i, right_operand panel)
{
    const mh_product *product = job->product;
    const bool finish = s->last && !job->turned;
    const size_t row = i * product->rows;
    const bool straight = job->plain && p->columns % job->kernels->lanes == 0;
    mh_matmul_part strip = *p;
    strip.row += row;
    strip.rows = mh_smaller(p->rows - row, product->rows);
    strip.x += finish && s->first ? 0 : row * p->ldx;
    if (straight) {
        strip.x = mh_matmul_row(&job->target, &strip, 0);
        strip.ldx = (size_t)job->target.stride[0];
    }
    mh_ahead ahead = finish ? target_of(job, &strip) : (mh_ahead){0};
    ahead.next = panel.next + i * s->depth * MH_AHEAD;
    const mh_left left = mh_left_from(product, s->block, row);
    product->multiply_ahead(strip.rows, mh_round_up(p->columns, job->kernels->lanes), s->depth,
                            left.data, left.stride, panel.data, panel.columns, strip.x, strip.ldx,
                            !s->first, &ahead);
    if (finish && !straight)
        mh_matmul_finish(job, &strip);
}

// Some panels, strip by strip. Each panel has sums of its own where they have to wait for the next
// stretch.
static void multiply_panels(const mh_matmul_job *job, const stretch *s, const mh_matmul_part *task,
                            size_t begin, size_t end, const mh_matmul_scratch *scratch)
{
    right_operand right[MH_MATMUL_AT_ONCE];
    mh_matmul_part parts[MH_MATMUL_AT_ONCE];
    for (size_t panel = begin; panel < end; panel++) {
        mh_matmul_part *p = &parts[panel - begin];
        *p = *task;
        p->column = panel * MH_PANEL;
        p->columns = mh_smaller(job->c.shape[1] - p->column, MH_PANEL);
        p->x += s->first && s->last ? 0 : (p->column - task->column) * job->rows;
        right[panel - begin] = find_panel(job, panel, s->k, s->depth, scratch);
    }
    for (size_t i = 0; i * job->product->rows < task->rows; i++)
        for (size_t j = 0; j < end - begin; j++)
            multiply_strip(job, s, &parts[j], i, right[j]);
    for (size_t j = 0; j < end - begin && s->last && job->turned; j++)
        mh_matmul_finish_turned(job, &parts[j], scratch->finished);
}

// The sums of rows of A over k .. k + depth, which has just come into the cache, to the ones
// before; after the last stretch they are what is wanted.
static void add_up_rows(const mh_matmul_job *job, size_t row, size_t rows, size_t k, size_t depth,
                        float *sums)
{
    const mh_tensor turned = mh_tensor_swap(job->a, 0, 1);
    if (k == 0)
        memset(sums, 0, rows * sizeof *sums);
    mh_rows_add_up(job->kernels, &turned, k, depth, row, rows, sums);
    if (k + depth < job->a.shape[1])
        return;
    if (job->options.accumulate)
        job->kernels->add_row(rows, job->row_sums + row, sums);
    memcpy(job->row_sums + row, sums, rows * sizeof *sums);
}

static void multiply_block(void *arg, size_t index, size_t worker)
{
    const mh_matmul_job *job = arg;
    const mh_matmul_scratch *scratch = &job->scratch[worker];
    const size_t K = job->a.shape[1], row = index / job->groups * job->rows;
    const size_t begin = index % job->groups * job->panels;
    const size_t end = mh_smaller(begin + job->panels, mh_panels_of(job->c.shape[1]));
    const size_t at_once = panels_at_once(job);
    const mh_matmul_part task = {.row = row,
                                 .rows = mh_smaller(job->c.shape[0] - row, job->rows),
                                 .column = begin * MH_PANEL,
                                 .x = scratch->sums,
                                 .ldx = MH_PANEL};
    mh_product_enter(job->product);
    for (size_t k = 0; k < K || k == 0; k += MH_MATMUL_DEPTH) {
        stretch s = {.k = k, .depth = mh_smaller(K - k, MH_MATMUL_DEPTH), .first = k == 0};
        s.last = k + s.depth == K;
        s.block = load_block(job, row, task.rows, k, s.depth, scratch);
        if (job->row_sums && begin == 0)
            add_up_rows(job, row, task.rows, k, s.depth, scratch->row_sums);
        for (size_t panel = begin; panel < end; panel += at_once)
            multiply_panels(job, &s, &task, panel, mh_smaller(panel + at_once, end), scratch);
    }
    mh_product_leave(job->product);
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

// Whether to halve blocks that are packed: to keep all threads busy, unless they are much shorter
// than B is wide; and further if they are not, so that threads of different speed finish together.
static bool halves(const mh_matmul_job *job, size_t threads)
{
    const size_t tasks = job->blocks * job->groups, width = job->panels * MH_PANEL;
    if (job->rows <= job->product->rows || tasks >= 8 * threads)
        return false;
    return width <= (tasks < 2 * threads ? 8 : 2) * job->rows;
}

// Where the left operand is packed, smaller blocks come first: smaller groups of panels pack each
// block once more.
static void cut_packed(mh_matmul_job *job, size_t threads)
{
    for (; halves(job, threads); count_tasks(job))
        job->rows = mh_round_up(job->rows / 2, job->product->rows);
    for (; job->panels > 1 && job->blocks * job->groups < 2 * threads; count_tasks(job))
        job->panels = (job->panels + 1) / 2;
}

// Groups of at least so many panels, small enough for as many tasks as there should be.
static void cut_panels(mh_matmul_job *job, size_t tasks, size_t least)
{
    const size_t groups = (tasks + job->blocks - 1) / job->blocks;
    const size_t even = (mh_panels_of(job->c.shape[1]) + groups - 1) / groups;
    job->panels = mh_smaller(job->panels, mh_larger(even, least));
    count_tasks(job);
}

// Blocks that are small enough, of whole strips and whole lines of the cache, as C may be turned.
// One block stays one: each panel is packed by the task that uses it then.
static void cut_blocks(mh_matmul_job *job, size_t tasks, size_t least)
{
    enum { EVEN = 48 };
    const size_t blocks = (tasks + job->groups - 1) / job->groups;
    const size_t even = mh_round_up((job->c.shape[0] + blocks - 1) / blocks, EVEN);
    if (job->blocks > 1)
        job->rows = mh_smaller(job->rows, mh_larger(even, least));
    count_tasks(job);
}

// Rows of A that are taken where they are may be taken by several groups of panels. Groups of few
// panels, and blocks of few rows, gain less from panels that were brought into the cache ahead, so
// that they come last. Rows that are turned first are turned for each group.
static void cut_rows(mh_matmul_job *job, size_t threads)
{
    enum { FEW_PANELS = 4, TURNED_PANELS = 12, FEW_ROWS = 96 };
    const bool in_place = packs_block(job);
    const size_t many = 12 * threads;
    cut_panels(job, many, in_place ? FEW_PANELS : TURNED_PANELS);
    cut_blocks(job, many, FEW_ROWS);
    cut_panels(job, in_place ? many : 4 * threads, 1);
}

// As many tasks as keep all threads busy, and let threads of different speed finish together.
static void plan(const mh_context *context, mh_matmul_job *job)
{
    job->workers = worth_threads(job) ? context->threads : 1;
    job->rows = mh_smaller(job->product->block, mh_round_up(job->c.shape[0], job->product->rows));
    job->panels = mh_panels_of(job->c.shape[1]);
    if (job->a.shape[1] > MH_MATMUL_DEPTH)
        job->panels = mh_smaller(job->panels, MH_MATMUL_PANELS);
    count_tasks(job);
    if (job->workers > 1 && job->product->pack_left)
        cut_packed(job, context->threads);
    else if (job->workers > 1)
        cut_rows(job, context->threads);
}

static void layout_scratch(const mh_matmul_job *job, mh_arena *arena, mh_matmul_scratch *to)
{
    const mh_product *product = job->product;
    const size_t depth = mh_smaller(job->a.shape[1], MH_MATMUL_DEPTH);
    const size_t width = mh_round_up(depth, job->kernels->lanes);
    const size_t rows = mh_round_up(mh_smaller(job->c.shape[0], job->rows), product->rows);
    const size_t panels = job->a.shape[1] > MH_MATMUL_DEPTH ? job->panels : 1;
    mh_matmul_scratch s;
    s.rows = packs_block(job) ? NULL : mh_arena_take(arena, rows * width, sizeof(float));
    s.left = mh_left_take(product, arena, rows, depth);
    s.turned = mh_arena_take(arena, depth * MH_PANEL, sizeof(float));
    s.staging = mh_arena_take(arena, depth * MH_PANEL, sizeof(float));
    s.panel = mh_right_take(product, arena, depth, MH_PANEL);
    s.sums = mh_arena_take(arena, panels * mh_round_up(job->rows, product->rows) * MH_PANEL,
                           sizeof(float));
    s.finished = mh_arena_take(arena, job->turned ? product->block * MH_PANEL : 0, sizeof(float));
    s.row_sums = mh_arena_take(arena, job->row_sums ? job->rows : 0, sizeof(float));
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
    return !job->packed && !job->row_sums && !job->product->pack_left && job->b.dtype == MH_F32 &&
           runs_along(&job->b, 0) && !runs_along(&job->b, 1) && job->c.shape[0] >= MH_MAX_LANES &&
           job->c.shape[0] < job->c.shape[1];
}

// Whether C is the sums of one stretch and nothing else, so that they may be made where it is.
static bool is_plain(const mh_matmul_job *job)
{
    const mh_linear_options *o = &job->options;
    return !job->turned && !job->product->pack_left && job->a.shape[1] <= MH_MATMUL_DEPTH &&
           mh_matmul_plain(&job->c) && job->c.stride[0] > 0 && !o->bias && !job->activate &&
           !o->preactivation && !o->relu_output && !o->residual && !o->accumulate &&
           job->dropout.probability <= 0;
}

mh_status mh_matmul_run(mh_context *context, mh_matmul_job *job)
{
    if (job->c.shape[0] == 0 || job->c.shape[1] == 0)
        return MH_OK;
    job->target = job->c;
    job->turned = better_turned(job);
    if (job->turned) {
        const mh_tensor a = job->a;
        job->a = mh_tensor_swap(job->b, 0, 1);
        job->b = mh_tensor_swap(a, 0, 1);
        job->c = mh_tensor_swap(job->c, 0, 1);
    }
    job->plain = is_plain(job);
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
