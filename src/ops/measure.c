// SPDX-License-Identifier: MIT
// The machine's measured limits, which every figure of the benchmark is a percentage of.
#include "base/clock.h"
#include "base/context.h"
#include "base/sized_struct.h"
#include "kernels/kernels.h"
#include <multihead/ops.h>

typedef double (*peak_fn)(size_t iterations, float *sink);

typedef struct measurement {
    const mh_kernels *kernels;
    peak_fn peak;
    size_t iterations; // of its loop
    const float *data; // (workers, floats)
    size_t floats;     // per worker
    size_t round;
    double operations; // of one worker
} measurement;

static void multiply_add(void *arg, size_t index, size_t worker)
{
    measurement *m = arg;
    (void)worker;
    float sink;
    double operations = m->peak(m->iterations, &sink);
    if (index == 0)
        m->operations = operations;
}

// Ways to read memory. One sequential stream is left to the CPU's prefetchers, which stop at the
// end of a page; on one Zen 4 core the others read up to a quarter more.
static const struct read_way {
    size_t streams, ahead;
} read_ways[] = {{1, 0}, {1, 4096}, {2, 4096}, {4, 4096}, {8, 4096}, {1, 1024}};
enum { READ_WAYS = sizeof read_ways / sizeof *read_ways };

static void read_memory(void *arg, size_t index, size_t worker)
{
    const measurement *m = arg;
    const struct read_way *way = &read_ways[m->round % READ_WAYS];
    (void)worker;
    m->kernels->peak.read(m->floats, m->data + index * m->floats, way->streams, way->ahead);
}

enum { ROUNDS = 2 * READ_WAYS }; // at least: the first ones warm up caches and page tables

// The minimum time of one round of all workers, over about `seconds`.
static double best_time(mh_context *context, mh_task_fn task, measurement *m, double seconds)
{
    double start = mh_clock_seconds(), best = 1e30;
    for (m->round = 0; m->round < ROUNDS || mh_clock_seconds() - start < seconds; m->round++) {
        double begin = mh_clock_seconds();
        mh_parallel_for(context, context->threads, task, m);
        double time = mh_clock_seconds() - begin;
        best = time < best ? time : best;
    }
    return best;
}

static double peak_gflops(mh_context *context, peak_fn peak, double seconds)
{
    measurement m = {.peak = peak, .iterations = 20000};
    double time = best_time(context, multiply_add, &m, seconds);
    return 1e-9 * m.operations * (double)context->threads / time;
}

static mh_status read_gbps(mh_context *context, size_t footprint, double seconds, double *gbps)
{
    measurement m = {.kernels = context->kernels,
                     .floats = footprint / sizeof(float) / context->threads};
    size_t count = m.floats * context->threads;
    if (count == 0)
        return MH_OK;
    float *data = mh_alloc(context, count * sizeof *data);
    if (!data)
        return MH_ERROR_MEMORY;
    for (size_t i = 0; i < count; i++)
        data[i] = 1;
    m.data = data;
    *gbps = 1e-9 * (double)(count * sizeof *data) / best_time(context, read_memory, &m, seconds);
    mh_free(context, data, count * sizeof *data);
    return MH_OK;
}

mh_status mh_measure_limits(mh_context *context, double seconds, size_t footprint,
                            mh_limits *limits)
{
    mh_limits found = mh_limits_default();
    if (mh_need(context, limits, "limits"))
        return MH_ERROR_ARGUMENT;
    mh_status status = MH_CHECK_OUTPUT(context, mh_limits, limits);
    if (status)
        return status;
    const mh_kernels *kernels = context->kernels;
    const bool one_unit = kernels->peak.bf16 == kernels->peak.fma;
    const double share = seconds / (1 + !one_unit + (footprint > 0));
    status = read_gbps(context, footprint, share, &found.read_gbps);
    if (status != MH_OK)
        return status;
    found.footprint = footprint;
    found.fma_gflops = peak_gflops(context, kernels->peak.fma, share);
    found.bf16_gflops =
        one_unit ? found.fma_gflops : peak_gflops(context, kernels->peak.bf16, share);
    mh_write_struct(&found, sizeof found, limits);
    return MH_OK;
}
