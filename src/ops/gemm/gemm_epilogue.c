// SPDX-License-Identifier: MIT
// The epilogue of a matrix product, from sums to C: bias, activation, dropout and residual in one
// pass of a kernel. Contiguous f32 rows of C are written directly, other layouts row by row.
#include "ops/gemm/gemm_internal.h"
#include "ops/row_io.h"

// Writing row by row takes so long that a matrix engine would power down.
static void write_rows(const mh_gemm_job *job, const mh_tensor *to, const mh_gemm_part *p)
{
    enum { KEEP_WARM_ROWS = 8 };
    for (size_t i = 0; i < p->rows; i++) {
        mh_row_write(job->kernels, to->dtype, mh_gemm_row(to, p, i), to->stride[1], p->columns,
                     p->x + i * p->ldx);
        if (i % KEEP_WARM_ROWS == KEEP_WARM_ROWS - 1)
            mh_gemm_keep_warm(job->gemm);
    }
}

// x = map(x), unless map is the identity, and writes it to `to` (or NULL), directly if possible.
static void epilogue_rows(const mh_gemm_job *job, const mh_epilogue *map, const mh_gemm_part *p,
                          const mh_tensor *to)
{
    const bool direct = to && mh_gemm_plain(to);
    const bool changes = map->bias || map->relu || map->keep || map->residual;
    if (direct || changes)
        job->kernels->matrix.epilogue_rows(map, p->rows, p->columns, p->x, p->ldx,
                                           direct ? mh_gemm_row(to, p, 0) : p->x,
                                           direct ? to->stride[0] : (ptrdiff_t)p->ldx);
    if (to && !direct)
        write_rows(job, to, p);
}

// x += residual, and writes it to `to` (or NULL).
static void add_residual(const mh_gemm_job *job, mh_epilogue map, const mh_gemm_part *p,
                         const mh_tensor *residual, const mh_tensor *to)
{
    if (mh_gemm_plain(residual)) {
        map.residual = mh_gemm_row(residual, p, 0);
        map.ldr = residual->stride[0];
        epilogue_rows(job, &map, p, to);
        return;
    }
    for (size_t i = 0; i < p->rows; i++) {
        const mh_gemm_part row = {p->row + i, 1, p->column, p->columns, p->x + i * p->ldx, p->ldx};
        float staging[MH_PANEL];
        mh_row_read(job->kernels, residual->dtype, mh_gemm_row(residual, p, i), residual->stride[1],
                    p->columns, staging);
        mh_epilogue one = map;
        one.residual = staging;
        one.keep = map.keep ? map.keep + i : NULL;
        epilogue_rows(job, &one, &row, to);
    }
}

// The mask of row i: dropout's, or in backward where relu_output is not 0.
static uint64_t dropout_mask_of_row(const mh_gemm_job *job, const mh_gemm_part *p, size_t i)
{
    const mh_tensor *output = job->relu_output;
    if (!output)
        return mh_dropout_mask(job->kernels, &job->dropout,
                               (uint64_t)(p->row + i) * job->target.shape[1] + p->column,
                               p->columns);
    float row[MH_PANEL];
    mh_row_read(job->kernels, output->dtype, mh_gemm_row(output, p, i), output->stride[1],
                p->columns, row);
    return job->kernels->elementwise.unequal_bits(p->columns, row, 0);
}

void mh_gemm_epilogue(const mh_gemm_job *job, const mh_gemm_part *p)
{
    const mh_linear_options *o = &job->options;
    const mh_tensor *c = &job->target;
    uint64_t keep[MH_PANEL];
    mh_epilogue map = {.bias = o->bias ? (const float *)o->bias->data + p->column : NULL};
    if (o->preactivation || (job->activate && !job->relu)) {
        epilogue_rows(job, &map, p, NULL);
        map.bias = NULL;
        if (o->preactivation)
            write_rows(job, o->preactivation, p);
        for (size_t i = 0; i < p->rows && job->activate && !job->relu; i++)
            job->activate(p->columns, p->x + i * p->ldx, p->x + i * p->ldx);
    }
    map.relu = job->relu;
    if (job->relu_output || job->dropout.probability > 0) {
        for (size_t i = 0; i < p->rows; i++)
            keep[i] = dropout_mask_of_row(job, p, i);
        map.keep = keep;
        map.keep_scale = mh_keep_scale(&job->dropout);
    }
    if (o->residual)
        add_residual(job, map, p, o->residual, o->accumulate ? NULL : c);
    if (o->residual)
        map = (mh_epilogue){0};
    if (o->accumulate)
        add_residual(job, map, p, c, c);
    else if (!o->residual)
        epilogue_rows(job, &map, p, c);
}

void mh_gemm_epilogue_t(const mh_gemm_job *job, const mh_gemm_part *p, float *transposed_c)
{
    const size_t block = job->gemm->block;
    job->kernels->matrix.transpose(p->rows, p->columns, p->x, (ptrdiff_t)p->ldx, transposed_c,
                                   block);
    for (size_t i = 0; i < p->rows; i += MH_PANEL)
        mh_gemm_epilogue(job, &(mh_gemm_part){p->column, p->columns, p->row + i,
                                              mh_smaller(p->rows - i, MH_PANEL), transposed_c + i,
                                              block});
}
