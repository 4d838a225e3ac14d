// SPDX-License-Identifier: MIT
// Updates of AdamW and SGD, gradient norm, clipping. Elements are independent, so chunks of them
// are split across threads; the norm has partial sums over blocks of 4096 elements, which are
// reduced in order.
#include "base/arena.h"
#include "base/compiler.h"
#include "base/context.h"
#include "base/fpenv.h"
#include "base/size_math.h"
#include "base/sized_struct.h"
#include "kernels/kernels.h"
#include "ops/overlap.h"
#include "ops/tensor_check.h"
#include <math.h>
#include <multihead/optimiser.h>

enum { CHUNK = 16 * 1024, BLOCK = 4096 };

typedef struct step_job {
    const mh_kernels *kernels;
    mh_adamw_map adamw;
    mh_sgd_map sgd;
    size_t n;
    const float *gradient;
    float *parameter, *m, *v; // SGD's velocity is m
    float factor;
} step_job;

static size_t chunk_length(const step_job *job, size_t index)
{
    return mh_smaller(CHUNK, job->n - index * CHUNK);
}

static size_t chunks(size_t n) { return n / CHUNK + (n % CHUNK > 0); }

static mh_status check_array(mh_context *context, const char *name, size_t n, const float *array)
{
    if (n > PTRDIFF_MAX / sizeof(float))
        return mh_fail(context, MH_ERROR_ARGUMENT, "n: found %zu, which no array can have", n);
    if (n > 0 && !array)
        return mh_fail(context, MH_ERROR_ARGUMENT, "%s: found NULL, expected %zu elements", name,
                       n);
    return MH_OK;
}

static mh_tensor as_tensor(size_t n, const float *array)
{
    return mh_tensor_1d((void *)(uintptr_t)array, MH_F32, n);
}

static mh_status check_number(mh_context *context, const char *name, double value, double below)
{
    if (value >= 0 && value < below)
        return MH_OK;
    return mh_fail(context, MH_ERROR_ARGUMENT, "%s: found %g, expected 0 to less than %g", name,
                   value, below);
}

// ---- AdamW --------------------------------------------------------------------------------------

// x^n by squaring: the same bits on every machine, unlike a library's pow.
static double power(double x, uint64_t n)
{
    double result = 1;
    for (; n > 0; n >>= 1, x *= x)
        if (n & 1)
            result *= x;
    return result;
}

static void adamw_chunk(void *arg, size_t index, size_t worker)
{
    const step_job *job = arg;
    const size_t at = index * CHUNK;
    (void)worker;
    job->kernels->optimiser.adamw(&job->adamw, chunk_length(job, index), job->gradient + at,
                                  job->parameter + at, job->m + at, job->v + at);
}

static mh_adamw_map adamw_map(const mh_adamw_options *o, uint64_t step)
{
    return (mh_adamw_map){
        .gradient_scale = (float)o->gradient_scale,
        .decay = (float)(1 - o->learning_rate * o->weight_decay),
        .beta1_rest = (float)(1 - o->beta1),
        .beta2 = (float)o->beta2,
        .beta2_rest = (float)(1 - o->beta2),
        .step = (float)(o->learning_rate / (1 - power(o->beta1, step))),
        .root = (float)(1 / sqrt(1 - power(o->beta2, step))),
        .epsilon = (float)o->epsilon,
    };
}

mh_status mh_adamw_step(mh_context *context, const mh_adamw_options *options, uint64_t step,
                        size_t n, const float *gradient, float *parameter, float *m, float *v)
{
    mh_adamw_options o = mh_adamw_options_default();
    mh_status status = MH_READ_STRUCT(context, mh_adamw_options, options, &o);
    if (!status)
        status = check_number(context, "beta1", o.beta1, 1);
    if (!status)
        status = check_number(context, "beta2", o.beta2, 1);
    if (!status)
        status = check_number(context, "epsilon", o.epsilon, INFINITY);
    if (!status && step == 0)
        status = mh_fail(context, MH_ERROR_ARGUMENT, "step: found 0, expected 1 or more");
    if (!status)
        status = check_array(context, "gradient", n, gradient);
    if (!status)
        status = check_array(context, "parameter", n, parameter);
    if (!status)
        status = check_array(context, "m", n, m);
    if (!status)
        status = check_array(context, "v", n, v);
    const mh_tensor arrays[] = {as_tensor(n, parameter), as_tensor(n, m), as_tensor(n, v),
                                as_tensor(n, gradient)};
    if (!status)
        status = MH_CHECK_OVERLAP(context, 3, {.name = "parameter", .tensor = &arrays[0]},
                                  {.name = "m", .tensor = &arrays[1]},
                                  {.name = "v", .tensor = &arrays[2]},
                                  {.name = "gradient", .tensor = &arrays[3]});
    if (status)
        return status;
    mh_fpenv saved = mh_fpenv_enter();
    step_job job = {.kernels = context->kernels,
                    .adamw = adamw_map(&o, step),
                    .n = n,
                    .gradient = gradient,
                    .parameter = parameter,
                    .m = m,
                    .v = v};
    mh_parallel_for(context, chunks(n), adamw_chunk, &job);
    mh_fpenv_leave(saved);
    return MH_OK;
}

// ---- SGD ----------------------------------------------------------------------------------------

static void sgd_chunk(void *arg, size_t index, size_t worker)
{
    const step_job *job = arg;
    const size_t at = index * CHUNK;
    (void)worker;
    job->kernels->optimiser.sgd(&job->sgd, chunk_length(job, index), job->gradient + at,
                                job->parameter + at, job->m ? job->m + at : NULL);
}

mh_status mh_sgd_step(mh_context *context, const mh_sgd_options *options, size_t n,
                      const float *gradient, float *parameter, float *velocity)
{
    mh_sgd_options o = mh_sgd_options_default();
    mh_status status = MH_READ_STRUCT(context, mh_sgd_options, options, &o);
    if (!status)
        status = check_number(context, "momentum", o.momentum, INFINITY);
    if (!status && o.nesterov && o.momentum == 0)
        status = mh_fail(context, MH_ERROR_ARGUMENT,
                         "nesterov: found true without momentum, expected both");
    if (!status)
        status = check_array(context, "gradient", n, gradient);
    if (!status)
        status = check_array(context, "parameter", n, parameter);
    if (!status && o.momentum > 0)
        status = check_array(context, "velocity", n, velocity);
    const mh_tensor arrays[] = {as_tensor(n, parameter), as_tensor(n, velocity),
                                as_tensor(n, gradient)};
    if (!status)
        status =
            MH_CHECK_OVERLAP(context, 2, {.name = "parameter", .tensor = &arrays[0]},
                             {.name = "velocity", .tensor = o.momentum > 0 ? &arrays[1] : NULL},
                             {.name = "gradient", .tensor = &arrays[2]});
    if (status)
        return status;
    mh_fpenv saved = mh_fpenv_enter();
    step_job job = {.kernels = context->kernels,
                    .sgd = {.gradient_scale = (float)o.gradient_scale,
                            .rate = (float)o.learning_rate,
                            .weight_decay = (float)o.weight_decay,
                            .momentum = (float)o.momentum,
                            .nesterov = o.nesterov},
                    .n = n,
                    .gradient = gradient,
                    .parameter = parameter,
                    .m = o.momentum > 0 ? velocity : NULL};
    mh_parallel_for(context, chunks(n), sgd_chunk, &job);
    mh_fpenv_leave(saved);
    return MH_OK;
}

// ---- gradients ----------------------------------------------------------------------------------

typedef struct norm_job {
    const mh_kernels *kernels;
    size_t n;
    const float *gradient;
    double *sums; // (blocks)
} norm_job;

static void square_block(void *arg, size_t index, size_t worker)
{
    const norm_job *job = arg;
    (void)worker;
    job->sums[index] = job->kernels->optimiser.sum_squares(
        mh_smaller(BLOCK, job->n - index * BLOCK), job->gradient + index * BLOCK);
}

// Adds the squares of one array to *sum.
static mh_status add_squares(mh_context *context, size_t n, const float *gradient, double *sum)
{
    norm_job job = {.kernels = context->kernels, .n = n, .gradient = gradient};
    const size_t blocks = n / BLOCK + (n % BLOCK > 0);
    mh_status status = check_array(context, "gradients", n, gradient);
    if (status || n == 0)
        return status;
    job.sums = mh_context_scratch(context, blocks * sizeof *job.sums);
    if (!job.sums)
        return MH_ERROR_MEMORY;
    mh_parallel_for(context, blocks, square_block, &job);
    for (size_t i = 0; i < blocks; i++)
        *sum += job.sums[i];
    return MH_OK;
}

mh_status mh_gradient_norm(mh_context *context, size_t arrays, const size_t *n,
                           const float *const *gradients, double *norm)
{
    double sum = 0;
    if (!context)
        return MH_ERROR_ARGUMENT;
    if (!norm || (arrays > 0 && (!n || !gradients)))
        return mh_fail(context, MH_ERROR_ARGUMENT, "%s: found NULL",
                       !norm ? "norm"
                       : !n  ? "n"
                             : "gradients");
    mh_fpenv saved = mh_fpenv_enter();
    mh_status status = MH_OK;
    for (size_t i = 0; i < arrays && !status; i++)
        status = add_squares(context, n[i], gradients[i], &sum);
    if (!status)
        *norm = sqrt(sum);
    mh_fpenv_leave(saved);
    return status;
}

double mh_clip_factor(double norm, double max_norm)
{
    mh_fpenv saved = mh_fpenv_enter();
    volatile double factor = norm; // volatile: stays between fpenv_enter and fpenv_leave
    factor = max_norm / (factor + 1e-6);
    mh_fpenv_leave(saved);
    return factor > 1 ? 1 : factor;
}

static void scale_chunk(void *arg, size_t index, size_t worker)
{
    const step_job *job = arg;
    float *at = job->parameter + index * CHUNK;
    (void)worker;
    job->kernels->elementwise.scale_row(chunk_length(job, index), at, job->factor, at);
}

mh_status mh_scale_gradients(mh_context *context, double factor, size_t n, float *gradient)
{
    MH_TRY(context ? check_array(context, "gradient", n, gradient) : MH_ERROR_ARGUMENT);
    mh_fpenv saved = mh_fpenv_enter();
    step_job job = {
        .kernels = context->kernels, .n = n, .parameter = gradient, .factor = (float)factor};
    mh_parallel_for(context, chunks(n), scale_chunk, &job);
    mh_fpenv_leave(saved);
    return MH_OK;
}
