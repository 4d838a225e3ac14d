// SPDX-License-Identifier: MIT
// The machine's own limits, measured: what every figure of the benchmark is a percentage of.
#include "base/clock.h"
#include "base/context.h"
#include "kernels/kernels.h"
#include <multihead/ops.h>

typedef struct measurement {
    const mh_kernels *kernels;
    size_t iterations; // of the multiply-add loop
    const float *data; // (workers, floats)
    size_t floats;     // per worker
    double operations; // of one worker
} measurement;

static void multiply_add(void *arg, size_t index, size_t worker)
{
    measurement *m = arg;
    (void)worker;
    float sink;
    double operations = m->kernels->fma_peak(m->iterations, &sink);
    if (index == 0)
        m->operations = operations;
}

static void read_memory(void *arg, size_t index, size_t worker)
{
    const measurement *m = arg;
    (void)worker;
    m->kernels->read_sum(m->floats, m->data + index * m->floats);
}

// The shortest time of one round, all workers at once, over about `seconds`.
static double best_time(mh_context *context, mh_task_fn task, measurement *m, double seconds)
{
    double start = mh_clock_seconds(), best = 1e30;
    do {
        double begin = mh_clock_seconds();
        mh_parallel_for(context, context->threads, task, m);
        double time = mh_clock_seconds() - begin;
        best = time < best ? time : best;
    } while (mh_clock_seconds() - start < seconds);
    return best;
}

mh_status mh_measure_limits(mh_context *context, double seconds, size_t footprint,
                            mh_limits *limits)
{
    measurement m = {.kernels = context->kernels, .iterations = 20000};
    *limits = (mh_limits){.footprint = footprint};
    double share = footprint ? seconds / 2 : seconds;
    double time = best_time(context, multiply_add, &m, share);
    limits->fma_gflops = 1e-9 * m.operations * (double)context->threads / time;

    m.floats = footprint / sizeof(float) / context->threads;
    if (m.floats == 0)
        return MH_OK;
    size_t count = m.floats * context->threads;
    float *data = mh_alloc(context, count * sizeof *data);
    if (!data)
        return MH_ERROR_MEMORY;
    for (size_t i = 0; i < count; i++)
        data[i] = 1;
    m.data = data;
    time = best_time(context, read_memory, &m, share);
    limits->read_gbps = 1e-9 * (double)(count * sizeof *data) / time;
    mh_free(context, data, count * sizeof *data);
    return MH_OK;
}
