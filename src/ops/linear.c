// SPDX-License-Identifier: MIT
// Linear layers, forward and backward, as matrix products: a transposed operand is a view.
//
//     y = x W^T + b          dx = dy W          dW = dy^T x          db = column sums of dy
#include "base/fpenv.h"
#include "ops/matmul_job.h"
#include "ops/rows.h"
#include "ops/tensor_check.h"
#include <string.h>

static mh_status check_options(mh_context *context, const mh_linear_options *options,
                               mh_linear_options *own)
{
    *own = mh_linear_options_default();
    if (options && options->struct_size != sizeof *own)
        return mh_fail(context, MH_ERROR_ARGUMENT, "options.struct_size: found %zu, expected %zu",
                       options->struct_size, sizeof *own);
    if (options)
        *own = *options;
    return MH_OK;
}

static mh_status check_vector(mh_context *context, const char *name, const mh_tensor *t, size_t n)
{
    mh_status status = mh_check_f32(context, name, t, 1);
    if (!status && (t->shape[0] != n || (t->stride[0] != 1 && n > 1)))
        status = mh_fail(context, MH_ERROR_ARGUMENT,
                         "%s: found %zu numbers, %td apart, expected "
                         "%zu without gaps",
                         name, t->shape[0], t->stride[0], n);
    return status;
}

static mh_status check_shape(mh_context *context, const char *name, const mh_tensor *t, size_t rows,
                             size_t columns)
{
    char text[128];
    mh_status status = mh_check_float(context, name, t, 2);
    if (!status && (t->shape[0] != rows || t->shape[1] != columns))
        status = mh_fail(context, MH_ERROR_ARGUMENT, "%s: found %s, expected (%zu, %zu)", name,
                         mh_tensor_describe(t, text, sizeof text), rows, columns);
    return status;
}

static const mh_product *choose_product(const mh_context *context, const mh_linear_options *options,
                                        bool bf16)
{
    if (options->precision != MH_PRECISION_AUTO)
        bf16 = options->precision == MH_PRECISION_BF16;
    return bf16 ? &context->kernels->bf16 : &context->kernels->f32;
}

static mh_status check_packed(mh_context *context, const mh_packed_matrix *packed,
                              const mh_tensor *weight)
{
    if (weight)
        return mh_fail(context, MH_ERROR_ARGUMENT, "weight: expected NULL beside options.packed");
    if (packed->isa != context->isa)
        return mh_fail(context, MH_ERROR_ARGUMENT,
                       "packed: found a matrix packed at level %s, expected this context's, %s",
                       packed->isa, context->isa);
    return MH_OK;
}

mh_status mh_linear(mh_context *context, const mh_linear_options *options, const mh_tensor *x,
                    const mh_tensor *weight, const mh_tensor *y)
{
    mh_matmul_job job = {.kernels = context->kernels};
    mh_linear_options *own = &job.options;
    mh_status status = check_options(context, options, own);
    if (status)
        return status;
    const mh_packed_matrix *packed = own->packed;
    status = packed ? check_packed(context, packed, weight)
                    : mh_check_float(context, "weight", weight, 2);
    if (status)
        return status;
    const size_t K = packed ? packed->K : weight->shape[1],
                 N = packed ? packed->N : weight->shape[0];
    if (!packed)
        job.b = mh_tensor_swap(*weight, 0, 1);
    job.packed = packed;
    job.product = packed ? choose_product(context, &(mh_linear_options){0}, packed->bf16)
                         : choose_product(context, own, weight->dtype == MH_BF16);
    status = mh_matmul_check(context, x, K, N, y);
    if (!status && own->bias)
        status = check_vector(context, "bias", own->bias, N);
    if (!status && own->residual)
        status = check_shape(context, "residual", own->residual, y->shape[0], N);
    if (status)
        return status;
    job.a = *x, job.c = *y;
    return mh_matmul_run(context, &job);
}

// ---- backward ----------------------------------------------------------------------------------

typedef struct bias_job {
    const mh_kernels *kernels;
    mh_tensor dy;
    float *dbias;
    bool accumulate;
} bias_job;

// 64 columns, row after row.
static void sum_columns(void *arg, size_t index, size_t worker)
{
    const bias_job *job = arg;
    const size_t column = index * MH_PANEL;
    const size_t columns = mh_smaller(job->dy.shape[1] - column, MH_PANEL);
    float sums[MH_PANEL] = {0}, row[MH_PANEL];
    (void)worker;
    for (size_t i = 0; i < job->dy.shape[0]; i++) {
        const void *from = mh_element(&job->dy, 2, (size_t[]){i, column});
        const bool plain = job->dy.dtype == MH_F32 && job->dy.stride[1] == 1;
        if (!plain)
            mh_row_read(job->kernels, job->dy.dtype, from, job->dy.stride[1], columns, row);
        job->kernels->add_row(columns, plain ? from : row, sums);
    }
    if (job->accumulate)
        job->kernels->add_row(columns, job->dbias + column, sums);
    memcpy(job->dbias + column, sums, columns * sizeof *sums);
}

static mh_status check_backward(mh_context *context, const mh_tensor *x, const mh_tensor *weight,
                                const mh_tensor *dy, const mh_tensor *dx, const mh_tensor *dweight,
                                const mh_tensor *dbias)
{
    mh_status status = mh_check_float(context, "x", x, 2);
    if (!status)
        status = mh_check_float(context, "weight", weight, 2);
    if (!status)
        status = mh_matmul_check(context, x, weight->shape[1], weight->shape[0], dy);
    if (!status && dx)
        status = check_shape(context, "dx", dx, x->shape[0], x->shape[1]);
    if (!status && dweight)
        status = check_shape(context, "dweight", dweight, weight->shape[0], weight->shape[1]);
    if (!status && dweight)
        status = mh_check_f32(context, "dweight", dweight, 2);
    if (!status && dbias)
        status = check_vector(context, "dbias", dbias, weight->shape[0]);
    return status;
}

mh_status mh_linear_backward(mh_context *context, const mh_linear_options *options,
                             const mh_tensor *x, const mh_tensor *weight, const mh_tensor *dy,
                             const mh_tensor *dx, const mh_tensor *dweight, const mh_tensor *dbias)
{
    mh_linear_options own;
    mh_status status = check_options(context, options, &own);
    if (!status)
        status = check_backward(context, x, weight, dy, dx, dweight, dbias);
    if (status)
        return status;
    mh_matmul_job job = {.kernels = context->kernels,
                         .product = choose_product(context, &own, weight->dtype == MH_BF16)};
    if (dx) {
        job.a = *dy, job.b = *weight, job.c = *dx;
        status = mh_matmul_run(context, &job);
    }
    if (!status && dweight) {
        job.a = mh_tensor_swap(*dy, 0, 1), job.b = *x, job.c = *dweight;
        job.options.accumulate = own.accumulate;
        status = mh_matmul_run(context, &job);
    }
    if (!status && dbias) {
        bias_job bias = {context->kernels, *dy, dbias->data, own.accumulate};
        mh_fpenv saved = mh_fpenv_enter();
        mh_parallel_for(context, mh_panels_of(dy->shape[1]), sum_columns, &bias);
        mh_fpenv_leave(saved);
    }
    return status;
}
