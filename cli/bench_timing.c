// SPDX-License-Identifier: MIT
// The clock of `multihead bench` and the lines it prints; see bench.h.
#include "bench.h"
#include "progress.h"
#include "report.h"

#include <multihead/ops.h>
#include <time.h>

// How long things take, in seconds. A repetition is long against the clock's resolution and
// short against the neighbours' bursts of work, so that the best of them is undisturbed.
typedef struct effort {
    int rounds;
    double limit, work, repetition;
} effort;

static const effort full_effort = {5, 0.05, 0.4, 0.02};
static const effort quick_effort = {2, 0.02, 0.05, 0.005};

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static mh_status repeat(mh_status (*work)(void *), void *arg, long count, double *seconds)
{
    double start = now();
    for (long i = 0; i < count; i++) {
        mh_status status = work(arg);
        if (status != MH_OK)
            return status;
    }
    *seconds = (now() - start) / (double)count;
    return MH_OK;
}

static mh_status measure_round(const bench *b, const effort *e, mh_status (*work)(void *),
                               void *arg, bench_result *result)
{
    mh_limits limits;
    mh_status status = mh_measure_limits(b->context, e->limit, 0, &limits);
    if (status == MH_OK && limits.fma_gflops > result->limit_gflops)
        result->limit_gflops = limits.fma_gflops;
    double end = now() + e->work;
    do {
        long count = 1 + (long)(e->repetition / (result->seconds + 1e-9));
        double seconds = 0;
        if (status == MH_OK)
            status = repeat(work, arg, count, &seconds);
        if (status == MH_OK && seconds < result->seconds)
            result->seconds = seconds;
    } while (status == MH_OK && now() < end);
    return status;
}

mh_status bench_measure(const bench *b, mh_status (*work)(void *arg), void *arg,
                        bench_result *result)
{
    const effort *e = b->quick ? &quick_effort : &full_effort;
    result->limit_gflops = 0;
    double start = now();
    mh_status status = repeat(work, arg, 1, &result->seconds); // warms up caches and threads
    for (int round = 0; round < e->rounds && status == MH_OK; round++) {
        bool enough = round >= 1 && now() - start > 2 * e->rounds * (e->work + e->limit);
        if (enough) // one run alone is longer than a round
            break;
        status = measure_round(b, e, work, arg, result);
    }
    return status;
}

void bench_print_heading(const bench *b)
{
    if (b->json)
        return;
    printf("%s kernels, %zu thread%s; %% is of the f32 multiply-adds that this machine did "
           "meanwhile\n",
           mh_context_isa(b->context), mh_context_threads(b->context),
           mh_context_threads(b->context) == 1 ? "" : "s");
    printf("%-14s %3s %3s %3s %6s %6s %4s %-7s %-5s %-8s %7s %10s %9s %8s %6s\n", "case", "B", "H",
           "G", "T", "S", "E", "mask", "dtype", "pass", "threads", "ms", "GFLOP/s", "GB/s", "%");
    fflush(stdout);
}

static void print_json(const bench *b, const bench_result *r, double gflops, double gbps)
{
    const bench_case *c = r->of;
    report out = report_begin(stdout, true, 0);
    report_text(&out, "case", "", c->name);
    report_count(&out, "B", "", c->B, "");
    report_count(&out, "H", "", c->H, "");
    report_count(&out, "G", "", c->G, "");
    report_count(&out, "T", "", c->T, "");
    report_count(&out, "S", "", c->S, "");
    report_count(&out, "E", "", c->E, "");
    report_flag(&out, "causal", "", c->causal);
    report_text(&out, "dtype", "", mh_dtype_name(b->dtype));
    report_text(&out, "pass", "", r->pass);
    report_count(&out, "threads", "", mh_context_threads(b->context), "");
    report_number(&out, "ms", "", r->seconds * 1e3, 6, "");
    report_number(&out, "gflops", "", gflops, 3, "");
    report_number(&out, "gbps", "", gbps, 3, "");
    report_number(&out, "limit", "", r->limit_gflops, 3, "");
    report_number(&out, "percent", "", 100 * gflops / r->limit_gflops, 2, "");
    report_text(&out, "isa", "", mh_context_isa(b->context));
    report_end(&out);
}

void bench_print_result(const bench *b, const bench_result *r)
{
    const bench_case *c = r->of;
    double gflops = r->flops / r->seconds * 1e-9, gbps = r->bytes / r->seconds * 1e-9;
    progress_clear();
    if (b->json)
        print_json(b, r, gflops, gbps);
    else
        printf("%-14s %3zu %3zu %3zu %6zu %6zu %4zu %-7s %-5s %-8s %7zu %10.3f %9.1f %8.1f %6.1f\n",
               c->name, c->B, c->H, c->G, c->T, c->S, c->E, c->causal ? "causal" : "full",
               mh_dtype_name(b->dtype), r->pass, mh_context_threads(b->context), r->seconds * 1e3,
               gflops, gbps, 100 * gflops / r->limit_gflops);
    fflush(stdout); // so that a reader sees each line when it is there
}
