// SPDX-License-Identifier: MIT
// What the parts of `multihead bench` share. A suite measures one kind of work over a list of
// cases; cmd_bench.c has the options and the table of suites, bench_<suite>.c one suite each,
// bench_timing.c the clock and the lines that come out.
#ifndef CLI_BENCH_H
#define CLI_BENCH_H

#include "arguments.h"

enum { MOST_SHAPES = 16 };

// An attention problem; also the columns of bench/shapes/*.txt.
typedef struct bench_case {
    char name[32];
    size_t B, H, G, T, S, E;
    bool causal;
} bench_case;

typedef enum bench_pass { PASS_FORWARD, PASS_BACKWARD, PASS_ALL } bench_pass;

typedef struct bench {
    common_options common;
    const struct suite *suite;
    const char *filter; // part of the cases' names; NULL: all
    mh_dtype dtype;
    bench_pass pass;
    bool quick, json;
    bench_case shapes[MOST_SHAPES]; // from --shape, in place of the list
    size_t shape_count;
    mh_context *context;
} bench;

typedef struct suite {
    const char *name, *summary;
    int (*run)(bench *b); // returns an exit code
} suite;

extern const suite attention_suite;

// ---- bench_timing.c ---------------------------------------------------------------------

typedef struct bench_result {
    const bench_case *of;
    const char *pass;    // "forward", "backward"
    double seconds;      // one run, the best of several
    double flops, bytes; // of one run: the work that must be done, the memory it is about
    double limit_gflops; // what the machine could do at the same time
} bench_result;

// Fills seconds and limit_gflops: in each of several rounds, the machine's limit is measured
// for a moment and then the work is repeated for a while; the best of each counts. So both
// meet the same neighbours on a machine that is shared.
mh_status bench_measure(const bench *b, mh_status (*work)(void *arg), void *arg,
                        bench_result *result);

void bench_print_heading(const bench *b);
void bench_print_result(const bench *b, const bench_result *result);

#endif
