// SPDX-License-Identifier: MIT
// The matrix product. B is packed into panels of 64 columns; a task multiplies a block of rows
// of A with one panel after the other and sums in a small buffer that then goes to C:
//
//         K                 64  64  64                    C block (rows x 64)
//     [ A block ]    x    [ P0 | P1 | P2 ]  in K steps of KC:   += A[:, kc] P[kc, :]
//
// Threads share out blocks and panels, never K: each element is the sum of chains of KC
// multiply-adds in the order of k, whatever M, N and the number of threads. A panel's KC x 64
// numbers stay in the second-level cache while the rows of a block pass by.
#include "base/arena.h"
#include "base/context.h"
#include "kernels/kernels.h"
#include "ops/rows.h"
#include "ops/tensor_check.h"
#include <multihead/ops.h>
#include <string.h>

enum { ROWS_PER_TASK = 96, PANELS_PER_TASK = 4, KC = 1024 };

struct mh_packed_matrix {
    mh_allocator allocator;
    size_t bytes; // of this allocation
    size_t K, N;
    float *panels; // (ceil(N / 64), K, 64), the last one filled up with 0
};

static size_t panels_of(size_t columns) { return (columns + MH_PANEL - 1) / MH_PANEL; }

// ---- packing -----------------------------------------------------------------------------

typedef struct pack_job {
    const mh_kernels *kernels;
    mh_tensor b; // (K, N)
    float *panels;
    float *staging; // (workers, 64, K) for operands that need converting, or NULL
} pack_job;

// B's columns lie along memory (a transposed weight): read them as rows and turn them.
static void pack_columns(const pack_job *job, size_t first, size_t columns, float *panel,
                         float *staging)
{
    const mh_tensor *b = &job->b;
    const size_t K = b->shape[0];
    const mh_tensor turned = mh_tensor_swap(*b, 0, 1);
    ptrdiff_t stride;
    const float *source = mh_rows_as_f32(job->kernels, &turned, 0, mh_element(&turned, 1, &first),
                                         columns, K, staging, &stride);
    job->kernels->transpose(columns, K, source, stride, panel, MH_PANEL);
}

static void pack_panel(void *arg, size_t index, size_t worker)
{
    const pack_job *job = arg;
    const mh_tensor *b = &job->b;
    const size_t K = b->shape[0], first = index * MH_PANEL, left = b->shape[1] - first;
    const size_t columns = left < MH_PANEL ? left : MH_PANEL;
    float *panel = job->panels + index * K * MH_PANEL;
    if (columns < MH_PANEL)
        memset(panel, 0, K * MH_PANEL * sizeof *panel);
    if (job->staging) {
        pack_columns(job, first, columns, panel, job->staging + worker * MH_PANEL * K);
        return;
    }
    for (size_t k = 0; k < K; k++)
        mh_row_read(job->kernels, b->dtype, mh_element(b, 2, (size_t[]){k, first}), b->stride[1],
                    columns, panel + k * MH_PANEL);
}

// ---- multiplying -----------------------------------------------------------------------------

typedef struct matmul_job {
    const mh_kernels *kernels;
    mh_tensor a, c;      // (M, K), (M, N)
    const float *panels; // of B
    size_t groups;       // of panels
    float *rows;         // (workers, ROWS_PER_TASK, K): A converted, or NULL if it need not be
    float *sums;         // (workers, ROWS_PER_TASK, 64)
} matmul_job;

// The block's rows of A as contiguous f32: in place if they are, converted otherwise.
static const float *load_block(const matmul_job *job, size_t first, size_t rows, size_t worker,
                               ptrdiff_t *stride)
{
    float *staging = job->rows ? job->rows + worker * ROWS_PER_TASK * job->a.shape[1] : NULL;
    return mh_rows_as_f32(job->kernels, &job->a, 0, mh_element(&job->a, 1, &first), rows,
                          job->a.shape[1], staging, stride);
}

static void multiply_panel(const matmul_job *job, size_t rows, const float *block, ptrdiff_t stride,
                           size_t panel, size_t columns, float *sums)
{
    const mh_kernels *kernels = job->kernels;
    const size_t K = job->a.shape[1], strip = kernels->gemm_rows;
    const size_t width = (columns + kernels->lanes - 1) / kernels->lanes * kernels->lanes;
    const float *b = job->panels + panel * K * MH_PANEL;
    for (size_t k = 0; k < K || k == 0; k += KC) {
        size_t depth = K - k < KC ? K - k : KC;
        for (size_t i = 0; i < rows; i += strip)
            kernels->gemm(rows - i < strip ? rows - i : strip, width, depth,
                          block + (ptrdiff_t)i * stride + k, stride, b + k * MH_PANEL, MH_PANEL,
                          sums + i * MH_PANEL, MH_PANEL, k > 0);
    }
}

static void multiply_block(void *arg, size_t index, size_t worker)
{
    const matmul_job *job = arg;
    const size_t N = job->c.shape[1], first = index / job->groups * ROWS_PER_TASK;
    const size_t left = job->c.shape[0] - first, rows = left < ROWS_PER_TASK ? left : ROWS_PER_TASK;
    float *sums = job->sums + worker * ROWS_PER_TASK * MH_PANEL;
    ptrdiff_t stride;
    const float *block = load_block(job, first, rows, worker, &stride);

    size_t panel = index % job->groups * PANELS_PER_TASK, end = panel + PANELS_PER_TASK;
    for (; panel < end && panel < panels_of(N); panel++) {
        size_t column = panel * MH_PANEL, columns = N - column < MH_PANEL ? N - column : MH_PANEL;
        multiply_panel(job, rows, block, stride, panel, columns, sums);
        for (size_t i = 0; i < rows; i++)
            mh_row_write(job->kernels, job->c.dtype,
                         (void *)mh_element(&job->c, 2, (size_t[]){first + i, column}),
                         job->c.stride[1], columns, sums + i * MH_PANEL);
    }
}

// ---- the calls ---------------------------------------------------------------------------------

static mh_status check_product(mh_context *context, const mh_tensor *a, size_t K, size_t N,
                               const mh_tensor *c)
{
    char text_a[128], text_c[128];
    mh_status status = mh_check_float(context, "a", a, 2);
    if (!status)
        status = mh_check_float(context, "c", c, 2);
    if (!status && (a->shape[1] != K || c->shape[0] != a->shape[0] || c->shape[1] != N))
        status = mh_fail(context, MH_ERROR_ARGUMENT,
                         "shapes: found a %s, b (%zu, %zu), c %s, expected (M, K), (K, N), (M, N)",
                         mh_tensor_describe(a, text_a, sizeof text_a), K, N,
                         mh_tensor_describe(c, text_c, sizeof text_c));
    return status;
}

static bool needs_turning(const mh_tensor *b) { return b->stride[0] == 1 && b->stride[1] != 1; }

static bool needs_converting(const mh_tensor *a) { return a->dtype != MH_F32 || a->stride[1] != 1; }

// All the memory of a product; see arena.h. `panels` only if B is not packed already.
static void layout(mh_arena *arena, size_t workers, const mh_tensor *b, bool panels, pack_job *pack,
                   matmul_job *job)
{
    const size_t K = job->a.shape[1], N = job->c.shape[1];
    if (panels) {
        pack->panels = mh_arena_take(arena, panels_of(N) * MH_PANEL, K * sizeof(float));
        pack->staging =
            needs_turning(b) ? mh_arena_take(arena, workers * MH_PANEL, K * sizeof(float)) : NULL;
    }
    job->rows = needs_converting(&job->a)
                    ? mh_arena_take(arena, workers * ROWS_PER_TASK, K * sizeof(float))
                    : NULL;
    job->sums = mh_arena_take(arena, workers * ROWS_PER_TASK, MH_PANEL * sizeof(float));
}

static mh_status multiply(mh_context *context, const mh_tensor *a, const mh_tensor *b,
                          const mh_packed_matrix *packed, const mh_tensor *c)
{
    if (c->shape[0] == 0 || c->shape[1] == 0)
        return MH_OK;
    pack_job pack = {.kernels = context->kernels};
    matmul_job job = {.kernels = context->kernels, .a = *a, .c = *c};
    mh_arena size = {0};
    layout(&size, context->threads, b, !packed, &pack, &job);
    void *memory = size.overflow ? NULL : mh_context_scratch(context, size.used);
    if (!memory)
        return mh_fail(context, MH_ERROR_MEMORY, "matmul: no memory for the packed operands");
    mh_arena arena = {.base = memory, .size = size.used};
    layout(&arena, context->threads, b, !packed, &pack, &job);

    job.panels = packed ? packed->panels : pack.panels;
    if (!packed) {
        pack.b = *b;
        mh_parallel_for(context, panels_of(c->shape[1]), pack_panel, &pack);
    }
    job.groups = (panels_of(c->shape[1]) + PANELS_PER_TASK - 1) / PANELS_PER_TASK;
    size_t blocks = (c->shape[0] + ROWS_PER_TASK - 1) / ROWS_PER_TASK;
    mh_parallel_for(context, blocks * job.groups, multiply_block, &job);
    return MH_OK;
}

mh_status mh_matmul(mh_context *context, const mh_tensor *a, const mh_tensor *b, const mh_tensor *c)
{
    mh_status status = mh_check_float(context, "b", b, 2);
    if (!status)
        status = check_product(context, a, b->shape[0], b->shape[1], c);
    return status ? status : multiply(context, a, b, NULL, c);
}

mh_status mh_matmul_packed(mh_context *context, const mh_tensor *a, const mh_packed_matrix *b,
                           const mh_tensor *c)
{
    if (!b)
        return mh_fail(context, MH_ERROR_ARGUMENT, "b: found NULL, expected a packed matrix");
    mh_status status = check_product(context, a, b->K, b->N, c);
    return status ? status : multiply(context, a, NULL, b, c);
}

mh_status mh_matrix_pack(mh_context *context, const mh_tensor *b, mh_packed_matrix **packed)
{
    if (!packed)
        return mh_fail(context, MH_ERROR_ARGUMENT, "packed: found NULL");
    *packed = NULL;
    mh_status status = mh_check_float(context, "b", b, 2);
    if (status)
        return status;
    const size_t K = b->shape[0], N = b->shape[1];
    mh_arena size = {0};
    mh_arena_take(&size, 1, sizeof(mh_packed_matrix));
    mh_arena_take(&size, panels_of(N) * MH_PANEL, K * sizeof(float));
    mh_arena staging_size = {0};
    if (needs_turning(b))
        mh_arena_take(&staging_size, context->threads * MH_PANEL, K * sizeof(float));
    if (size.overflow || staging_size.overflow)
        return mh_fail(context, MH_ERROR_MEMORY, "b: its packed size does not fit in memory");
    pack_job job = {.kernels = context->kernels, .b = *b};
    if (staging_size.used && !(job.staging = mh_context_scratch(context, staging_size.used)))
        return MH_ERROR_MEMORY;
    void *memory = mh_alloc(context, size.used);
    if (!memory)
        return MH_ERROR_MEMORY;

    mh_arena arena = {.base = memory, .size = size.used};
    mh_packed_matrix *matrix = mh_arena_take(&arena, 1, sizeof *matrix);
    *matrix = (mh_packed_matrix){context->allocator, size.used, K, N, NULL};
    matrix->panels = mh_arena_take(&arena, panels_of(N) * MH_PANEL, K * sizeof(float));
    job.panels = matrix->panels;
    mh_parallel_for(context, panels_of(N), pack_panel, &job);
    *packed = matrix;
    return MH_OK;
}

void mh_packed_matrix_free(mh_packed_matrix *packed)
{
    if (packed)
        packed->allocator.release(packed->allocator.user, packed, packed->bytes);
}
