// SPDX-License-Identifier: MIT
// What the parts of `multihead bench` share. A suite measures one kind of work over a list of
// cases: cmd_bench.c has the options and runs the suites, bench_<suite>.c does one of them each,
// bench_cases.c reads the lists, bench_timing.c has the clock, bench_lines.c what is printed.
#ifndef CLI_BENCH_H
#define CLI_BENCH_H

#include "arguments.h"
#include "presets/presets.h"

enum { MOST_SHAPES = 16, MOST_CASES = 32, MOST_TOKENS = 1 << 20 };

// An attention problem. A matrix product is (T, E) times (E, S), as of queries and keys, with one
// batch and head.
typedef struct bench_case {
    char name[32];
    size_t B, H, G, T, S, E;
    bool causal; // attention
    bool packed; // matrix product: b in the kernels' layout beforehand
} bench_case;

enum { PASS_FORWARD = 1, PASS_BACKWARD = 2, PASS_DECODE = 4, PASS_ALL = 7 };

typedef struct bench {
    common_options common;
    const struct suite *suite;       // NULL: all of them
    const char *filter;              // part of the cases' names; NULL: all
    const char *shapes[MOST_SHAPES]; // from --shape, in place of the list
    size_t shape_count;
    mh_dtype dtypes[2];
    size_t dtype_count;
    int passes;                 // of the enum above, or-ed
    const model_preset *preset; // of the model suite, and its options; 0: default
    size_t batch, length, layers;
    bool quick, json;
    mh_context *context;
    size_t done, total; // lines
} bench;

typedef struct suite {
    const char *name;
    const char *shapes;                   // the text of bench/shapes/<name>.txt
    size_t sizes;                         // how many sizes a shape has
    const char *form, *word;              // of --shape: "M,K,N", and what may follow
    const char *limit;                    // what the percentage is of, in words
    int passes;                           // that it has
    double (*flops)(const bench_case *c); // approximate; --quick skips long cases

    // NULL: the cases are those of `shapes`; else the cases, returning how many.
    size_t (*list)(const bench *b, bench_case *cases);

    // Measures one case and prints a line for each of b->passes; returns an exit code.
    int (*run)(bench *b, const bench_case *c, mh_dtype dtype);
} suite;

extern const suite attention_suite, decode_suite, matmul_suite, model_suite;

// ---- bench_cases.c ------------------------------------------------------------------------------

// The suite's cases: from --shape, or those of its list that --case and --quick leave. Returns
// how many. Invalid shapes end the program through argp_error.
void bench_check_shapes(struct argp_state *state, const bench *b);
size_t bench_list_cases(const bench *b, const suite *s, bench_case *cases);

// Appends " name" of each case in the suite's list to a text.
void bench_name_cases(const suite *s, char *text, size_t size);

// Memory for a tensor, filled with values of [-1, 1), or with zeros if seed is 0; free it with
// mh_free. Returns an exit code after reporting an error.
int bench_tensor(const bench *b, const bench_case *c, mh_dtype dtype, int rank, const size_t *shape,
                 uint32_t seed, mh_tensor *tensor, size_t *size);

// ---- bench_timing.c -----------------------------------------------------------------------------

typedef struct bench_result {
    const suite *suite;
    const bench_case *of;
    mh_dtype dtype;
    const char *pass;    // "forward", "backward", "decode"
    double flops, bytes; // of one run: the necessary work, the size of its tensors
    size_t footprint;    // not 0: reading that many bytes is the limit, not FMAs
    double seconds;      // one run, the best of several
    double limit;        // the machine's peak meanwhile: GFLOP/s, or GB/s if footprint is set
    size_t tokens;       // of a model: in one run
    size_t layers, decoder_layers; // of a model: that one run passes
} bench_result;

// Fills seconds and limit: each of several rounds measures the machine's peak briefly and then
// repeats the work for a while; the best of each counts. So both see the same load on a shared
// machine. Then prints the line. Returns an exit code.
int bench_measure(bench *b, mh_status (*work)(void *arg), void *arg, bench_result *result);

// ---- bench_model.c ------------------------------------------------------------------------------

// Checks the options of the model suite, and that others have none of them.
void bench_check_model(struct argp_state *state, const bench *b);

// ---- bench_lines.c ------------------------------------------------------------------------------

void bench_print_heading(const bench *b, const suite *s);
void bench_print_result(const bench *b, const bench_result *result);

#endif
