// SPDX-License-Identifier: MIT
// The clock of `multihead bench`; see bench.h.
#include "bench.h"
#include "messages.h"
#include "progress.h"

#include <multihead/ops.h>
#include <time.h>

// Durations in seconds. A repetition is long compared with the clock's resolution and short
// compared with bursts of other load, so that the best one is undisturbed. All suites then take
// about a minute, or ten seconds.
typedef struct effort {
    int rounds;
    double limit, work, repetition;
    double longest; // a run that takes longer is not repeated
} effort;

static const effort full_effort = {3, 0.03, 0.1, 0.01, 1.0};
static const effort quick_effort = {2, 0.01, 0.02, 0.002, 0.1};

static double bench_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static mh_status repeat(mh_status (*work)(void *), void *arg, long count, double *seconds)
{
    double start = bench_now();
    for (long i = 0; i < count; i++) {
        mh_status status = work(arg);
        if (status != MH_OK)
            return status;
    }
    *seconds = (bench_now() - start) / (double)count;
    return MH_OK;
}

// Memory is read for as long as the work will take, and half of that time is measured: a large
// cache fills up slowly.
static mh_status measure_limit(const bench *b, const effort *e, bench_result *result)
{
    mh_limits limits = mh_limits_default();
    double seconds = result->footprint ? 2 * e->work : e->limit;
    mh_status status = mh_measure_limits(b->context, seconds, result->footprint, &limits);
    double limit = result->footprint          ? limits.read_gbps
                   : result->dtype == MH_BF16 ? limits.bf16_gflops
                                              : limits.fma_gflops;
    if (status == MH_OK && limit > result->limit)
        result->limit = limit;
    return status;
}

static mh_status measure_work(const effort *e, mh_status (*work)(void *), void *arg,
                              bench_result *result)
{
    mh_status status = MH_OK;
    double end = bench_now() + e->work;
    do {
        long count = 1 + (long)(e->repetition / (result->seconds + 1e-9));
        double seconds = 0;
        status = repeat(work, arg, count, &seconds);
        if (status == MH_OK && seconds < result->seconds)
            result->seconds = seconds;
    } while (status == MH_OK && bench_now() < end);
    return status;
}

static mh_status measure_rounds(const bench *b, mh_status (*work)(void *), void *arg,
                                bench_result *result)
{
    const effort *e = b->quick ? &quick_effort : &full_effort;
    const double start = bench_now(), enough = 2 * e->rounds * (e->work + e->limit);
    mh_status status = measure_limit(b, e, result); // before and after even the longest work
    if (status == MH_OK)
        status = repeat(work, arg, 1, &result->seconds); // warms up caches and threads
    for (int round = 0; round < e->rounds && status == MH_OK; round++) {
        if (round > 0 && bench_now() - start > enough)
            break; // one run alone is longer than a round
        status = measure_limit(b, e, result);
        if (status == MH_OK && result->seconds <= e->longest)
            status = measure_work(e, work, arg, result);
    }
    return status;
}

int bench_measure(bench *b, mh_status (*work)(void *arg), void *arg, bench_result *result)
{
    progress_show(b->done, b->total, result->of->name);
    mh_status status = measure_rounds(b, work, arg, result);
    progress_clear();
    if (status != MH_OK)
        return complain_status(b->context, status, result->of->name);
    b->done++;
    bench_print_result(b, result);
    return EXIT_DONE;
}
