// SPDX-License-Identifier: MIT
// Linear layers, forward and backward, as matrix products: a transposed operand is a view.
//
//     y = x W^T + b          dx = dy W          dW = dy^T x          db = column sums of dy
#include "base/compiler.h"
#include "base/fpenv.h"
#include "base/sized_struct.h"
#include "ops/gemm/gemm_internal.h"
#include "ops/overlap.h"
#include "ops/row_io.h"
#include "ops/tensor_check.h"
#include <string.h>

static mh_status linear_check_options(mh_context *context, const mh_linear_options *options,
                                      mh_linear_options *own)
{
    *own = mh_linear_options_default();
    MH_TRY(MH_READ_STRUCT(context, mh_linear_options, options, own));
    if ((own->precision < MH_PRECISION_AUTO || own->precision > MH_PRECISION_WEIGHTS))
        return mh_fail(context, MH_ERROR_ARGUMENT, "precision: found %d, expected 0 to 3",
                       (int)own->precision);
    return MH_OK;
}

static mh_status check_vector(mh_context *context, const char *name, const mh_tensor *t, size_t n)
{
    MH_TRY(mh_check_f32(context, name, t, 1));
    if ((t->shape[0] != n || (t->stride[0] != 1 && n > 1)))
        return mh_fail(context, MH_ERROR_ARGUMENT,
                       "%s: found %zu elements with stride %td, expected %zu contiguous ones", name,
                       t->shape[0], t->stride[0], n);
    return MH_OK;
}

static mh_status linear_check_shape(mh_context *context, const char *name, const mh_tensor *t,
                                    size_t rows, size_t columns)
{
    char text[128];
    MH_TRY(mh_check_float(context, name, t, 2));
    if ((t->shape[0] != rows || t->shape[1] != columns))
        return mh_fail(context, MH_ERROR_ARGUMENT, "%s: found %s, expected (%zu, %zu)", name,
                       mh_tensor_describe(t, text, sizeof text), rows, columns);
    return MH_OK;
}

// x (M, K); W, given by its sizes, (N, K); y (M, N).
static mh_status check_operands(mh_context *context, const mh_tensor *x, size_t N, size_t K,
                                const char *y_name, const mh_tensor *y)
{
    char text[128];
    MH_TRY(mh_check_float(context, "x", x, 2));
    if (x->shape[1] != K)
        return mh_fail(context, MH_ERROR_ARGUMENT,
                       "x: found %s, expected (M, %zu) for weight (%zu, %zu)",
                       mh_tensor_describe(x, text, sizeof text), K, N, K);
    return linear_check_shape(context, y_name, y, x->shape[0], N);
}

// ---- forward ------------------------------------------------------------------------------------

static const mh_gemm *choose_gemm(const mh_context *context, mh_precision precision,
                                  const mh_tensor *x, const mh_tensor *weight)
{
    bool bf16 = precision == MH_PRECISION_BF16;
    if (precision == MH_PRECISION_WEIGHTS)
        bf16 = weight->dtype == MH_BF16;
    if (precision == MH_PRECISION_AUTO)
        bf16 = weight->dtype == MH_BF16 && x && x->dtype == MH_BF16; // x is checked later
    return bf16 ? &context->kernels->bf16 : &context->kernels->f32;
}

mh_dtype mh_operand_dtype(const mh_context *context, mh_precision precision)
{
    return precision == MH_PRECISION_BF16 && context->kernels->native_bf16 ? MH_BF16 : MH_F32;
}

static mh_status check_packed(mh_context *context, const mh_linear_options *options,
                              const mh_tensor *weight)
{
    const mh_packed_matrix *packed = options->packed;
    if (weight)
        return mh_fail(context, MH_ERROR_ARGUMENT,
                       "weight: expected NULL together with options.packed");
    if (packed->isa != context->isa)
        return mh_fail(context, MH_ERROR_ARGUMENT,
                       "packed: found a matrix packed at level %s, expected this context's, %s",
                       packed->isa, context->isa);
    if (packed->bf16 && options->precision == MH_PRECISION_F32)
        return mh_fail(context, MH_ERROR_ARGUMENT,
                       "packed: found a matrix packed for bf16, expected one for f32");
    return MH_OK;
}

// The B operand, W^T, and the GEMM for it.
static mh_status set_weight(mh_context *context, const mh_tensor *x, const mh_tensor *weight,
                            mh_gemm_job *job)
{
    job->packed = job->options.packed;
    MH_TRY(job->packed ? check_packed(context, &job->options, weight)
                       : mh_check_float(context, "weight", weight, 2));
    if (job->packed) {
        job->gemm = job->packed->bf16 ? &context->kernels->bf16 : &context->kernels->f32;
        return MH_OK;
    }
    job->gemm = choose_gemm(context, job->options.precision, x, weight);
    job->b = mh_tensor_swap(*weight, 0, 1);
    return MH_OK;
}

// The epilogue; y is (M, N).
static mh_status set_epilogue(mh_context *context, size_t M, size_t N, mh_gemm_job *job)
{
    const mh_linear_options *o = &job->options;
    mh_status status = o->bias ? check_vector(context, "bias", o->bias, N) : MH_OK;
    if (!status && o->activation)
        status = mh_check_activation(context, *o->activation);
    if (!status && o->preactivation)
        status = mh_check_f32(context, "preactivation", o->preactivation, 2);
    if (!status && o->preactivation)
        status = linear_check_shape(context, "preactivation", o->preactivation, M, N);
    if (!status && o->residual)
        status = linear_check_shape(context, "residual", o->residual, M, N);
    if (!status && job->relu_output)
        status = linear_check_shape(context, "relu_output", job->relu_output, M, N);
    if (!status && o->dropout)
        status = mh_check_dropout(context, o->dropout, &job->dropout);
    if (!status && o->activation)
        job->activate = mh_activation_kernel(context->kernels, *o->activation);
    job->relu = !status && o->activation && *o->activation == MH_RELU;
    return status;
}

static mh_status check_outputs(mh_context *context, const mh_gemm_job *job, const mh_tensor *x,
                               const mh_tensor *weight, const mh_tensor *y)
{
    const mh_linear_options *o = &job->options;
    return MH_CHECK_OVERLAP(context, 2, MH_OPERAND(y),
                            {.name = "preactivation", .tensor = o->preactivation}, MH_OPERAND(x),
                            MH_OPERAND(weight), {.name = "bias", .tensor = o->bias},
                            {.name = "residual", .tensor = o->residual, .may_be = 1},
                            {.name = "relu_output", .tensor = job->relu_output});
}

mh_status mh_linear(mh_context *context, const mh_linear_options *options, const mh_tensor *x,
                    const mh_tensor *weight, mh_tensor *y)
{
    return mh_linear_masked(context, options, NULL, x, weight, y);
}

mh_status mh_linear_masked(mh_context *context, const mh_linear_options *options,
                           const mh_tensor *relu_output, const mh_tensor *x,
                           const mh_tensor *weight, mh_tensor *y)
{
    mh_gemm_job job = {.relu_output = relu_output};
    mh_status status = linear_check_options(context, options, &job.options);
    if (!status)
        status = set_weight(context, x, weight, &job);
    if (status)
        return status;
    const size_t N = job.packed ? job.packed->N : weight->shape[0];
    const size_t K = job.packed ? job.packed->K : weight->shape[1];
    status = check_operands(context, x, N, K, "y", y);
    if (!status)
        status = set_epilogue(context, x->shape[0], N, &job);
    if (!status)
        status = check_outputs(context, &job, x, weight, y);
    if (status)
        return status;
    job.kernels = context->kernels;
    job.a = *x, job.c = *y;
    return mh_gemm_run(context, &job);
}

// ---- backward -----------------------------------------------------------------------------------

typedef struct bias_job {
    const mh_kernels *kernels;
    mh_tensor dy;
    float *dbias;
    bool accumulate;
} bias_job;

// Sums of 64 columns, row by row.
static void sum_columns(void *arg, size_t index, size_t worker)
{
    const bias_job *job = arg;
    const size_t column = index * MH_PANEL;
    const size_t columns = mh_smaller(job->dy.shape[1] - column, MH_PANEL);
    float sums[MH_PANEL] = {0};
    (void)worker;
    mh_rows_reduce(job->kernels, &job->dy, 0, job->dy.shape[0], column, columns, sums);
    if (job->accumulate)
        job->kernels->elementwise.add_row(columns, job->dbias + column, sums);
    memcpy(job->dbias + column, sums, columns * sizeof *sums);
}

static mh_status check_backward(mh_context *context, const mh_tensor *x, const mh_tensor *weight,
                                const mh_tensor *dy, const mh_tensor *dx, const mh_tensor *dweight,
                                const mh_tensor *dbias)
{
    MH_TRY(mh_check_float(context, "weight", weight, 2));
    MH_TRY(check_operands(context, x, weight->shape[0], weight->shape[1], "dy", dy));
    if (dx)
        MH_TRY(linear_check_shape(context, "dx", dx, x->shape[0], x->shape[1]));
    if (dweight)
        MH_TRY(linear_check_shape(context, "dweight", dweight, weight->shape[0], weight->shape[1]));
    if (dweight)
        MH_TRY(mh_check_f32(context, "dweight", dweight, 2));
    if (dbias)
        MH_TRY(check_vector(context, "dbias", dbias, weight->shape[0]));
    return MH_CHECK_OVERLAP(context, 3, MH_OPERAND(dx), MH_OPERAND(dweight), MH_OPERAND(dbias),
                            MH_OPERAND(x), MH_OPERAND(weight), MH_OPERAND(dy));
}

mh_status mh_linear_backward(mh_context *context, const mh_linear_options *options,
                             const mh_tensor *x, const mh_tensor *weight, const mh_tensor *dy,
                             mh_tensor *dx, mh_tensor *dweight, mh_tensor *dbias)
{
    mh_linear_options own;
    mh_status status = linear_check_options(context, options, &own);
    if (!status)
        status = check_backward(context, x, weight, dy, dx, dweight, dbias);
    if (status)
        return status;
    mh_gemm_job job = {.kernels = context->kernels,
                       .gemm = choose_gemm(context, own.precision, x, weight)};
    if (dx) {
        job.a = *dy, job.b = *weight, job.c = *dx;
        status = mh_gemm_run(context, &job);
    }
    const bool together = dbias && dweight && dweight->shape[1] > 0;
    if (!status && dweight) {
        job.a = mh_tensor_swap(*dy, 0, 1), job.b = *x, job.c = *dweight;
        job.options.accumulate = own.accumulate;
        job.row_sums = together ? dbias->data : NULL;
        status = mh_gemm_run(context, &job);
    }
    if (!status && dbias && !together) {
        bias_job bias = {context->kernels, *dy, dbias->data, own.accumulate};
        mh_fpenv saved = mh_fpenv_enter();
        mh_parallel_for(context, mh_panels_of(dy->shape[1]), sum_columns, &bias);
        mh_fpenv_leave(saved);
    }
    return status;
}
