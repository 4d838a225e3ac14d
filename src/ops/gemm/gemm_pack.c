// SPDX-License-Identifier: MIT
// The operands of a matrix product, in the layout that its kernel reads.
#include "ops/gemm/gemm_internal.h"
#include "ops/row_io.h"
#include <string.h>

bool mh_gemm_packs_block(const mh_gemm_job *job)
{
    const mh_tensor *a = &job->a;
    if (!job->gemm->pack_a)
        return a->dtype == MH_F32 && mh_runs_along(a, 1);
    return (a->dtype == MH_F32 || a->dtype == MH_BF16) &&
           (mh_runs_along(a, 1) || mh_runs_along(a, 0));
}

static mh_a_operand gemm_pack_pack_block(const mh_gemm_job *job, const void *from, size_t rows,
                                         size_t depth, void *to)
{
    const mh_gemm *gemm = job->gemm;
    const mh_tensor *a = &job->a;
    const bool transposed = !mh_runs_along(a, 1);
    if (!gemm->pack_a)
        return (mh_a_operand){from, a->stride[0]};
    gemm->pack_a(rows, depth,
                 &(mh_pack_source){.data = from,
                                   .stride = a->stride[transposed],
                                   .type = mh_row_type_of(a->dtype),
                                   .transposed = transposed},
                 to);
    return (mh_a_operand){to, (ptrdiff_t)mh_round_up(depth, gemm->step)};
}

mh_a_operand mh_gemm_load_block(const mh_gemm_job *job, size_t first, size_t rows, size_t k,
                                size_t depth, const mh_gemm_scratch *scratch)
{
    const mh_tensor *a = &job->a;
    const void *from = mh_element(a, 2, (size_t[]){first, k});
    if (mh_gemm_packs_block(job))
        return gemm_pack_pack_block(job, from, rows, depth, scratch->packed_a);
    const size_t stride = mh_round_up(depth, job->kernels->lanes);
    if (a->dtype == MH_F32 && mh_runs_along(a, 0))
        job->kernels->matrix.transpose(depth, rows, from, a->stride[1], scratch->rows, stride);
    else
        for (size_t i = 0; i < rows; i++)
            mh_row_read(job->kernels, a->dtype, mh_element(a, 2, (size_t[]){first + i, k}),
                        a->stride[1], depth, scratch->rows + i * stride);
    return mh_a_pack(job->gemm, rows, depth, scratch->rows, (ptrdiff_t)stride, scratch->packed_a);
}

// B's columns are contiguous (a transposed weight): reads them as rows and transposes.
static void transpose_columns(const mh_gemm_job *job, size_t column, size_t columns, size_t k,
                              size_t depth, float *staging, float *to)
{
    const mh_tensor transposed = mh_tensor_swap(job->b, 0, 1);
    ptrdiff_t stride;
    const float *rows = mh_rows_as_f32(job->kernels, &transposed, 0,
                                       mh_element(&transposed, 2, (size_t[]){column, k}), columns,
                                       depth, staging, &stride);
    job->kernels->matrix.transpose(columns, depth, rows, stride, to, MH_PANEL);
}

// Packs a B operand directly if the rows of B, or its columns, are contiguous.
static bool pack_columns(const mh_gemm_job *job, const void *from, size_t columns, size_t depth,
                         void *to)
{
    const mh_gemm *gemm = job->gemm;
    const mh_tensor *b = &job->b;
    const bool rows = mh_runs_along(b, 1) && b->stride[0] > 0, transposed = mh_runs_along(b, 0);
    if (!gemm->pack_b || !(rows || transposed) || (b->dtype != MH_F32 && b->dtype != MH_BF16))
        return false;
    if (columns < MH_PANEL)
        memset(to, 0, mh_panel_bytes(gemm, depth));
    gemm->pack_b(depth, columns,
                 &(mh_pack_source){.data = from,
                                   .stride = b->stride[!rows],
                                   .type = mh_row_type_of(b->dtype),
                                   .transposed = !rows},
                 to, MH_PANEL);
    return true;
}

// Rows k .. k + depth of a panel of B.
static void pack_kc_block(const mh_gemm_job *job, size_t panel, size_t k, size_t depth,
                          const mh_gemm_scratch *scratch, void *to)
{
    const mh_tensor *b = &job->b;
    const mh_gemm *gemm = job->gemm;
    const size_t column = panel * MH_PANEL, columns = mh_smaller(b->shape[1] - column, MH_PANEL);
    const void *from = mh_element(b, 2, (size_t[]){k, column});
    if (pack_columns(job, from, columns, depth, to))
        return;
    float *rows = mh_b_source(gemm, to, scratch->transposed);
    if (columns < MH_PANEL)
        memset(rows, 0, depth * MH_PANEL * sizeof *rows);
    if (mh_runs_along(b, 0) && !mh_runs_along(b, 1))
        transpose_columns(job, column, columns, k, depth, scratch->staging, rows);
    else
        for (size_t i = 0; i < depth; i++)
            mh_row_read(job->kernels, b->dtype, mh_element(b, 2, (size_t[]){k + i, column}),
                        b->stride[1], columns, rows + i * MH_PANEL);
    mh_b_pack(gemm, depth, MH_PANEL, rows, MH_PANEL, to);
}

void mh_gemm_pack_panel(void *arg, size_t panel, size_t worker)
{
    const mh_gemm_job *job = arg;
    const size_t K = job->b.shape[0];
    char *to = job->packed_b + panel * mh_panel_bytes(job->gemm, K);
    for (size_t k = 0; k < K; k += MH_GEMM_DEPTH)
        pack_kc_block(job, panel, k, mh_smaller(K - k, MH_GEMM_DEPTH), &job->scratch[worker],
                      to + k * MH_PANEL * job->gemm->b_size);
}

// Values come from bf16, so nothing is rounded.
void mh_gemm_pack_panel_bf16(void *arg, size_t panel, size_t worker)
{
    const mh_gemm_job *job = arg;
    const mh_gemm_scratch *scratch = &job->scratch[worker];
    const size_t K = job->b.shape[0];
    uint16_t *to = (uint16_t *)(void *)(job->packed_b +
                                        panel * mh_packed_panel_bytes(job->gemm, MH_ROW_BF16, K));
    for (size_t k = 0; k < K; k += MH_GEMM_DEPTH) {
        const size_t depth = mh_smaller(K - k, MH_GEMM_DEPTH);
        pack_kc_block(job, panel, k, depth, scratch, scratch->transposed);
        job->kernels->elementwise.narrow_bf16(depth * MH_PANEL, scratch->transposed,
                                              to + k * MH_PANEL);
    }
}

// With few rows of A, f32 rows of B are read in place, as packing them would be more work than the
// product; whole panels only, as a product reads whole vectors.
static bool takes_rows(const mh_gemm_job *job, size_t column)
{
    enum { FEW_ROWS = 6 };
    const mh_tensor *b = &job->b;
    return !job->gemm->pack_b && job->a.shape[0] <= FEW_ROWS && b->dtype == MH_F32 &&
           mh_runs_along(b, 1) && b->stride[0] > 0 && b->shape[1] - column >= MH_PANEL;
}

size_t mh_gemm_at_once(const mh_gemm_job *job)
{
    enum { ROW_BLOCK_BYTES = 32 * 1024 };
    const mh_gemm *gemm = job->gemm;
    const bool packed = gemm->pack_a && (job->packed || job->packed_b);
    const size_t depth = mh_smaller(job->a.shape[1], MH_GEMM_DEPTH);
    return packed && gemm->rows * depth * gemm->a_size <= ROW_BLOCK_BYTES ? MH_GEMM_AT_ONCE : 1;
}

// A kc block of a prepacked panel of bf16 rows: as it is for few rows of A, else widened once.
static mh_b_operand find_bf16_panel(const mh_gemm_job *job, size_t panel, size_t k, size_t depth,
                                    const mh_gemm_scratch *scratch)
{
    const size_t bytes = mh_packed_panel_bytes(job->gemm, MH_ROW_BF16, job->a.shape[1]);
    const char *rows = job->packed->panels + panel * bytes + k * MH_PANEL * sizeof(uint16_t);
    if (mh_gemm_streams(job))
        return (mh_b_operand){rows, MH_ROW_BF16, MH_PANEL, rows};
    job->kernels->elementwise.widen_bf16(depth * MH_PANEL, (const uint16_t *)(const void *)rows,
                                         scratch->panel);
    const bool more = (panel + 1) * MH_PANEL < job->c.shape[1];
    return (mh_b_operand){scratch->panel, MH_ROW_F32, MH_PANEL, rows + (more ? bytes : 0)};
}

mh_b_operand mh_gemm_find_panel(const mh_gemm_job *job, size_t panel, size_t k, size_t depth,
                                const mh_gemm_scratch *scratch)
{
    const char *packed = job->packed ? job->packed->panels : job->packed_b;
    const size_t column = panel * MH_PANEL;
    if (job->packed && job->packed->type == MH_ROW_BF16)
        return find_bf16_panel(job, panel, k, depth, scratch);
    if (packed) {
        const size_t bytes = mh_panel_bytes(job->gemm, job->a.shape[1]);
        const size_t further = mh_gemm_at_once(job);
        packed += panel * bytes + k * MH_PANEL * job->gemm->b_size;
        const bool more = column + further * MH_PANEL < job->c.shape[1];
        return (mh_b_operand){packed, MH_ROW_F32, MH_PANEL, packed + (more ? further * bytes : 0)};
    }
    if (takes_rows(job, column)) {
        const char *rows = mh_element(&job->b, 2, (size_t[]){k, column});
        return (mh_b_operand){rows, MH_ROW_F32, (size_t)job->b.stride[0], rows};
    }
    pack_kc_block(job, panel, k, depth, scratch, scratch->panel);
    return (mh_b_operand){scratch->panel, MH_ROW_F32, MH_PANEL, scratch->panel};
}
