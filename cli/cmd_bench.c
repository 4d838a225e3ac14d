// SPDX-License-Identifier: MIT
// multihead bench: how fast it is here, beside what this machine could do at best.
//
// The machine's limit is measured again beside each case, because machines are shared and
// noisy: only the ratio within a run means something.
#include "bench.h"
#include "messages.h"

#include <string.h>

static const suite *const suites[] = {&attention_suite, NULL};

enum { KEY_CASE = 0x100, KEY_SHAPE, KEY_DTYPE, KEY_PASS, KEY_QUICK, KEY_JSON };

static const struct argp_option option_table[] = {
    {NULL, 0, NULL, 0, "What to measure", 1},
    {"case", KEY_CASE, "NAME", 0, "only the cases whose name contains NAME", 0},
    {"shape", KEY_SHAPE, "B,H,G,T,S,E[,causal]", 0,
     "this shape in place of the list; may be given several times", 0},
    {"dtype", KEY_DTYPE, "TYPE", 0, "f32, bf16 or f16; default: f32", 0},
    {"pass", KEY_PASS, "PASS", 0, "forward, backward or all; default: forward", 0},
    {"quick", KEY_QUICK, NULL, 0, "a tenth of the time, less exact", 0},
    {"json", KEY_JSON, NULL, 0, "print one JSON object a line", 0},
    {NULL, 0, NULL, 0, NULL, 0},
};

static const choice pass_choices[] = {
    {"forward", PASS_FORWARD}, {"backward", PASS_BACKWARD}, {"all", PASS_ALL}, {NULL, 0}};

// "1,16,16,2048,2048,64,causal"
static void parse_shape(struct argp_state *state, const char *text, bench *b)
{
    enum { FIELDS = 6, LARGEST = 1 << 24 };
    if (b->shape_count == MOST_SHAPES)
        argp_error(state, "--shape: more than %d shapes", MOST_SHAPES);
    char numbers[128];
    const char *mask = strstr(text, ",causal");
    bool causal = mask && strcmp(mask, ",causal") == 0;
    int length = causal ? (int)(mask - text) : (int)strlen(text);
    snprintf(numbers, sizeof numbers, "%.*s", length, text);
    int64_t n[FIELDS] = {0};
    parse_integers(state, "--shape", numbers, "B,H,G,T,S,E or B,H,G,T,S,E,causal", 1, LARGEST,
                   FIELDS, n);
    if (n[1] % n[2] != 0)
        argp_error(state, "--shape: found '%s', expected H to be a multiple of G", text);
    bench_case *c = &b->shapes[b->shape_count++];
    *c = (bench_case){"shape",      (size_t)n[0], (size_t)n[1], (size_t)n[2],
                      (size_t)n[3], (size_t)n[4], (size_t)n[5], causal};
}

static void parse_suite(struct argp_state *state, const char *name, bench *b)
{
    char known[256] = "";
    if (b->suite)
        refuse_argument(state, name);
    for (const suite *const *s = suites; *s; s++) {
        if (strcmp((*s)->name, name) == 0)
            b->suite = *s;
        size_t used = strlen(known);
        snprintf(known + used, sizeof known - used, " %s", (*s)->name);
    }
    if (!b->suite)
        argp_error(state, "found '%s', expected what to measure:%s", name, known);
}

static error_t parse_option(int key, char *argument, struct argp_state *state)
{
    bench *b = state->input;
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &b->common;
        return 0;
    case ARGP_KEY_ARG:
        parse_suite(state, argument, b);
        return 0;
    case ARGP_KEY_END:
        if (!b->suite)
            argp_error(state, "what to measure is missing: attention");
        return 0;
    case KEY_CASE:
        b->filter = argument;
        return 0;
    case KEY_SHAPE:
        parse_shape(state, argument, b);
        return 0;
    case KEY_DTYPE:
        b->dtype = (mh_dtype)parse_choice(state, "--dtype", argument, dtype_choices);
        return 0;
    case KEY_PASS:
        b->pass = (bench_pass)parse_choice(state, "--pass", argument, pass_choices);
        return 0;
    case KEY_QUICK:
        b->quick = true;
        return 0;
    case KEY_JSON:
        b->json = true;
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp_child children[] = {{&common_argp, 0, NULL, 0}, {NULL, 0, NULL, 0}};

static const struct argp bench_argp = {
    .options = option_table,
    .parser = parse_option,
    .children = children,
    .args_doc = "attention [OPTION...]",
    .doc = "Measures attention over shapes of well-known models, and beside each the machine's "
           "own limit, f32 multiply-adds from registers with the same threads.\n"
           "\n"
           "The work is that of query-key pairs that count: 4E floating-point operations a pair "
           "forward, 10E backward. ms is the best of many repetitions; GB/s is the size of the "
           "tensors over the time. "
           "In JSON, limit is in GFLOP/s.\v"
           "Examples:\n"
           "  multihead bench attention\n"
           "  multihead bench attention --case 64 --threads 1 --quick\n"
           "  multihead bench attention --case bert --pass backward\n"
           "  multihead bench attention --shape 1,32,8,4096,4096,128,causal --dtype bf16 --json\n",
};

static int run_bench(int argc, char **argv)
{
    bench b = {.common = {.command = &bench_command}, .dtype = MH_F32};
    int code = parse_arguments(&bench_argp, argc, argv, &b);
    if (code == EXIT_DONE)
        code = open_context(&b.common, &b.context);
    if (code == EXIT_DONE)
        code = b.suite->run(&b);
    mh_context_free(b.context);
    return code;
}

const command bench_command = {
    .name = "bench",
    .summary = "how fast it is here, beside what this machine could do at best",
    .argp = &bench_argp,
    .run = run_bench,
};
