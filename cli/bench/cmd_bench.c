// SPDX-License-Identifier: MIT
// multihead bench: benchmarks against this machine's measured peak.
//
// The peak is measured again with each case, because machines are shared and noisy: only ratios
// within a run are meaningful.
#include "bench.h"
#include "messages.h"

#include <string.h>

static const suite *const suites[] = {&attention_suite, &decode_suite, &matmul_suite, &model_suite};

enum { SUITES = sizeof suites / sizeof *suites };

enum {
    KEY_CASE = 0x100,
    KEY_SHAPE,
    KEY_DTYPE,
    KEY_PASS,
    KEY_QUICK,
    KEY_JSON,
    KEY_PRESET,
    KEY_BATCH,
    KEY_LENGTH,
    KEY_LAYERS,
};

static const struct argp_option option_table[] = {
    {NULL, 0, NULL, 0, "What to measure", 1},
    {"case", KEY_CASE, "NAME", 0, "only the cases whose name contains NAME", 0},
    {"shape", KEY_SHAPE, "SHAPE", 0,
     "this shape in place of the list; may be given several times: B,H,G,T,S,E or "
     "B,H,G,T,S,E,causal for attention and decode, M,K,N or M,K,N,packed for matmul",
     0},
    {"dtype", KEY_DTYPE, "TYPE", 0, "f32, bf16 or f16; default: f32 and bf16", 0},
    {"pass", KEY_PASS, "PASS", 0,
     "only this pass: forward (attention, matmul, model), backward (attention) or decode (decode, "
     "model)",
     0},
    {"quick", KEY_QUICK, NULL, 0, "about ten seconds: fewer repetitions, without the longest cases",
     0},
    {"json", KEY_JSON, NULL, 0, "print one JSON object per line", 0},
    {NULL, 0, NULL, 0, "Which model (bench model)", 2},
    {"preset", KEY_PRESET, "NAME", 0,
     "a well-known model, such as gpt2-small; multihead info --presets lists them", 0},
    {"batch", KEY_BATCH, "N", 0, "sequences; default: 1", 0},
    {"length", KEY_LENGTH, "T", 0,
     "tokens per sequence; default: 512, or 128 with --quick, at most the model's; all of an image "
     "or of 30 s of sound",
     0},
    {"layers", KEY_LAYERS, "N", 0,
     "the first N layers of each stack; default: all, or as many as fit in 60 % of the available "
     "memory",
     0},
    {NULL, 0, NULL, 0, NULL, 0},
};

static const choice pass_choices[] = {
    {"forward", PASS_FORWARD}, {"backward", PASS_BACKWARD}, {"decode", PASS_DECODE}, {NULL, 0}};

static void parse_suite(struct argp_state *state, const char *name, bench *b)
{
    char known[256] = "";
    if (b->suite)
        refuse_argument(state, name);
    for (size_t i = 0; i < SUITES; i++) {
        if (strcmp(suites[i]->name, name) == 0)
            b->suite = suites[i];
        size_t used = strlen(known);
        snprintf(known + used, sizeof known - used, " %s", suites[i]->name);
    }
    if (!b->suite)
        argp_error(state, "found '%s', expected one of these, or nothing for all but model:%s",
                   name, known);
}

// Checks that need the whole command line.
static void bench_check_options(struct argp_state *state, const bench *b)
{
    bench_check_shapes(state, b);
    bench_check_model(state, b);
    if (b->filter && b->shape_count)
        argp_error(state, "--case selects from the list of cases, which --shape replaces");
    if (b->suite && !(b->suite->passes & b->passes)) {
        const choice *p = pass_choices;
        while (p->value != b->passes)
            p++;
        argp_error(state, "--pass: found '%s', which %s does not have", p->name, b->suite->name);
    }
}

static error_t bench_parse_option(int key, char *argument, struct argp_state *state)
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
        bench_check_options(state, b);
        return 0;
    case KEY_CASE:
        b->filter = argument;
        return 0;
    case KEY_SHAPE:
        if (b->shape_count == MOST_SHAPES)
            argp_error(state, "--shape: more than %d shapes", MOST_SHAPES);
        b->shapes[b->shape_count++] = argument;
        return 0;
    case KEY_DTYPE:
        b->dtypes[0] = (mh_dtype)parse_choice(state, "--dtype", argument, dtype_choices);
        b->dtype_count = 1;
        return 0;
    case KEY_PASS:
        b->passes = parse_choice(state, "--pass", argument, pass_choices);
        return 0;
    case KEY_QUICK:
        b->quick = true;
        return 0;
    case KEY_JSON:
        b->json = true;
        return 0;
    case KEY_PRESET:
        b->preset = find_preset(state, argument);
        return 0;
    case KEY_BATCH:
        b->batch = (size_t)parse_integer(state, "--batch", argument, 1, MOST_TOKENS);
        return 0;
    case KEY_LENGTH:
        b->length = (size_t)parse_integer(state, "--length", argument, 1, MOST_TOKENS);
        return 0;
    case KEY_LAYERS:
        b->layers = (size_t)parse_integer(state, "--layers", argument, 1, MOST_TOKENS);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp_child children[] = {{&common_argp, 0, NULL, 0}, {NULL, 0, NULL, 0}};

static const struct argp bench_argp = {
    .options = option_table,
    .parser = bench_parse_option,
    .children = children,
    .args_doc = "[attention|decode|matmul|model] [OPTION...]",
    .doc = "Measures attention, decoding from a cache and matrix products over shapes of "
           "well-known models, each compared with the machine's peak on the same threads. By "
           "default these three are measured, which takes about a minute.\n"
           "\n"
           "The work of attention counts unmasked query-key pairs only: 4E floating-point "
           "operations per pair forward, 10E backward. Its limit is the FMA peak from registers, "
           "for bf16 the peak of bf16 instructions. Decoding reads the cached keys and values; "
           "its limit is the bandwidth of reading as much memory, as for a product with one row. "
           "ms is the best of several repetitions; GB/s is the size of the tensors over the "
           "time.\n"
           "\n"
           "bench model measures the blocks of a whole model with random weights, without "
           "embeddings and output layer: forward, all tokens of the batch at once (causal in "
           "decoder-only models, the encoder of encoder-decoders), and decode, one more token per "
           "sequence from a KV cache of --length tokens, or from a source of as many. The limit of "
           "decoding is the bandwidth of reading weights and cache.\n"
           "\n"
           "In JSON, percent is relative to limit, in GFLOP/s, or in GB/s where the limit is "
           "memory bandwidth. A product is (T, E) times (E, S).\v"
           "Examples:\n"
           "  multihead bench\n"
           "  multihead bench --quick --threads 1\n"
           "  multihead bench attention --case bert --pass backward\n"
           "  multihead bench attention --shape 1,32,8,4096,4096,128,causal --dtype bf16 --json\n"
           "  multihead bench matmul --shape 1,4096,11008,packed\n"
           "  multihead bench model --preset gpt2-small --dtype bf16\n"
           "  multihead bench model --preset gpt3 --layers 1 --batch 4\n",
};

static int nothing_to_do(const bench *b)
{
    char names[1024] = "";
    for (size_t i = 0; i < SUITES; i++)
        if ((!b->suite || b->suite == suites[i]) && suites[i]->passes & b->passes)
            bench_name_cases(suites[i], names, sizeof names);
    if (b->filter)
        complain("--case: found '%s', expected a part of one of%s:%s", b->filter,
                 b->quick ? " (--quick skips the longest)" : "", names);
    return EXIT_USAGE;
}

static size_t count_passes(int passes)
{
    return (passes & 1) + (passes >> 1 & 1) + (size_t)(passes >> 2 & 1);
}

static int run_suite(bench *b, const suite *s, const bench_case *cases, size_t count)
{
    if (count)
        bench_print_heading(b, s);
    for (size_t i = 0; i < count * b->dtype_count; i++) {
        int code = s->run(b, &cases[i / b->dtype_count], b->dtypes[i % b->dtype_count]);
        if (code != EXIT_DONE)
            return code;
    }
    return EXIT_DONE;
}

static int run_suites(bench *b)
{
    bench_case cases[SUITES][MOST_CASES];
    size_t counts[SUITES] = {0};
    for (size_t i = 0; i < SUITES; i++) {
        if (b->suite && b->suite != suites[i])
            continue;
        counts[i] = bench_list_cases(b, suites[i], cases[i]);
        b->total += counts[i] * b->dtype_count * count_passes(suites[i]->passes & b->passes);
    }
    if (b->total == 0)
        return nothing_to_do(b);
    int code = EXIT_DONE;
    for (size_t i = 0; i < SUITES && code == EXIT_DONE; i++)
        code = run_suite(b, suites[i], cases[i], counts[i]);
    return code;
}

static int run_bench(int argc, char **argv)
{
    bench b = {.common = {.command = &bench_command},
               .dtypes = {MH_F32, MH_BF16},
               .dtype_count = 2,
               .passes = PASS_ALL};
    int code = parse_arguments(&bench_argp, argc, argv, &b);
    if (code == EXIT_DONE)
        code = open_context(&b.common, &b.context);
    if (code == EXIT_DONE)
        code = run_suites(&b);
    mh_context_free(b.context);
    return code;
}

const command bench_command = {
    .name = "bench",
    .summary = "benchmark against this machine's measured peak",
    .argp = &bench_argp,
    .run = run_bench,
};
