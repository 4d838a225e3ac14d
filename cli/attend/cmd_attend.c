// SPDX-License-Identifier: MIT
// multihead attend: scaled dot-product attention on arrays, from the shell.
//
//     read q, k, v and what goes with them  ->  compute everything  ->  write the outputs
//
// Nothing is written before all is computed, so a failure leaves the files unchanged. This file has
// the options and the control flow; attend_inputs.c reads and checks the inputs, attend_outputs.c
// writes.
#include "attend.h"
#include "messages.h"
#include "progress.h"
#include "report.h"

// ---- options ------------------------------------------------------------------------------------

enum {
    KEY_INPUT = 0x100, // + the index of an input
    KEY_OUTPUT = 0x200,
    KEY_CAUSAL = 0x300,
    KEY_WINDOW,
    KEY_SCALE,
    KEY_SOFTCAP,
    KEY_ALIBI,
    KEY_DROPOUT,
    KEY_SEED,
    KEY_DTYPE,
    KEY_EMPTY_ROW,
    KEY_EXPLAIN,
    KEY_RANDOM,
    KEY_TRACE,
    KEY_TOKEN,
    KEY_JSON,
};

static const struct argp_option option_table[] = {
    {NULL, 0, NULL, 0, "Inputs", 1},
    {"q", KEY_INPUT + INPUT_Q, "FILE", 0, "queries (B,H,T,E)", 0},
    ALIAS("query"),
    {"k", KEY_INPUT + INPUT_K, "FILE", 0, "keys (B,G,S,E), with H a multiple of G", 0},
    ALIAS("key"),
    {"v", KEY_INPUT + INPUT_V, "FILE", 0, "values (B,G,S,Ev)", 0},
    ALIAS("value"),
    {"random", KEY_RANDOM, "BxHxTxE", 0,
     "q, k and v drawn from N(0,1), in place of files: B sequences, H heads, T tokens, width E; or "
     "HxTxE, or TxE",
     0},
    {NULL, 0, NULL, 0, "Which keys a query sees", 2},
    {"mask", KEY_INPUT + INPUT_MASK, "FILE", 0,
     "broadcast as NumPy does to (B,H,T,S). Bool or integer: true or non-zero = may attend; "
     "float: added to the scores, -inf = may not attend",
     0},
    {"causal", KEY_CAUSAL, "ALIGNMENT", OPTION_ARG_OPTIONAL,
     "no key after the query. top-left: query i sees keys 0..i; bottom-right: the last query "
     "sees the last key; may be left out where T = S",
     0},
    ALIAS("is-causal"),
    {"window", KEY_WINDOW, "LEFT,RIGHT", 0,
     "only so many keys before and after the query's own position; -1 = unlimited", 0},
    {"kv-lengths", KEY_INPUT + INPUT_LENGTHS, "FILE", 0,
     "the number of keys of each sequence (B), integers; those after are padding", 0},
    {NULL, 0, NULL, 0, "Scores", 3},
    {"scale", KEY_SCALE, "X", 0, "multiply q.k by X; default: 1/sqrt(E)", 0},
    {"softcap", KEY_SOFTCAP, "X", 0, "then cap scores: X*tanh(score/X)", 0},
    {"alibi", KEY_ALIBI, NULL, 0, "add ALiBi's bias: nearer keys score higher", 0},
    {"sinks", KEY_INPUT + INPUT_SINKS, "FILE", 0,
     "one score per head (H) that only adds to the softmax's denominator", 0},
    {NULL, 0, NULL, 0, "Computing", 4},
    {"dropout", KEY_DROPOUT, "P", 0,
     "drop each weight with probability P and scale the others by 1/(1-P)", 0},
    ALIAS("dropout-p"),
    {"seed", KEY_SEED, "N", 0, "of --random, and of the weights that --dropout drops; default: 0",
     0},
    {"dtype", KEY_DTYPE, "TYPE", 0,
     "compute in f32, bf16 or f16: the inputs are converted first; default: f32", 0},
    {"empty-row", KEY_EMPTY_ROW, "WHAT", 0,
     "what a query that sees no key gets: zero or nan; default: zero", 0},
    {NULL, 0, NULL, 0, "Outputs, float32 .npy; default: the shapes of result and weights", 5},
    {"out", KEY_OUTPUT + OUTPUT_OUT, "FILE", 0, "the result (B,H,T,Ev); - is standard output", 0},
    {"weights", KEY_OUTPUT + OUTPUT_WEIGHTS, "FILE", 0, "the attention weights (B,H,T,S)", 0},
    {"lse", KEY_OUTPUT + OUTPUT_LSE, "FILE", 0, "the log of each softmax's sum (B,H,T)", 0},
    {"grad-out", KEY_INPUT + INPUT_GRAD_OUT, "FILE", 0,
     "input: the gradient of a loss with respect to the result; the gradients below follow "
     "from it",
     0},
    {"dq", KEY_OUTPUT + OUTPUT_DQ, "FILE", 0, "its gradient with respect to q", 0},
    {"dk", KEY_OUTPUT + OUTPUT_DK, "FILE", 0, "with respect to k", 0},
    {"dv", KEY_OUTPUT + OUTPUT_DV, "FILE", 0, "with respect to v", 0},
    {"dmask", KEY_OUTPUT + OUTPUT_DMASK, "FILE", 0,
     "with respect to a float mask, in the mask's shape", 0},
    {"dsinks", KEY_OUTPUT + OUTPUT_DSINKS, "FILE", 0, "with respect to the sinks (H)", 0},
    {"explain", KEY_EXPLAIN, NULL, 0,
     "print which kernels run, why, and their memory and work; without an output, nothing "
     "is computed",
     0},
    {"trace", KEY_TRACE, NULL, 0,
     "print every step with its shape and the values of one query: scores, scaling, mask, softmax, "
     "weighted sum; and what other scales would do",
     0},
    {"token", KEY_TOKEN, "N", 0,
     "the query whose values --trace shows, from 0; default: the last one, or with a mask a middle "
     "one",
     0},
    {"json", KEY_JSON, NULL, 0, "print the explanation, or the trace, as JSON", 0},
    {NULL, 0, NULL, 0, NULL, 0},
};

static const choice empty_row_choices[] = {
    {"zero", MH_EMPTY_ROW_ZERO}, {"nan", MH_EMPTY_ROW_NAN}, {NULL, 0}};

// The trace shows the steps of plain attention.
static void check_trace_options(struct argp_state *state, const attend *a)
{
    const mh_attention_options *o = &a->options;
    const char *other = a->dropout                          ? "--dropout"
                        : o->softcap > 0                    ? "--softcap"
                        : o->alibi                          ? "--alibi"
                        : a->inputs[INPUT_SINKS].spec       ? "--sinks"
                        : a->inputs[INPUT_GRAD_OUT].spec    ? "--grad-out"
                        : a->dtype != MH_F32                ? "--dtype"
                        : o->empty_row != MH_EMPTY_ROW_ZERO ? "--empty-row"
                        : a->explain                        ? "--explain"
                                                            : NULL;
    if (a->trace && other)
        argp_error(state, "--trace cannot be combined with %s", other);
    if (a->token >= 0 && !a->trace)
        argp_error(state, "--token is for --trace, which is missing");
}

static void attend_check_inputs(struct argp_state *state, const attend *a)
{
    for (int i = INPUT_Q; i <= INPUT_V; i++) {
        if (!a->inputs[i].spec && !a->random_rank)
            argp_error(state, "%s is missing%s", a->inputs[i].option,
                       i == INPUT_Q ? " (or --random)" : "");
        if (a->inputs[i].spec && a->random_rank)
            argp_error(state, "--random replaces --q, --k and --v");
    }
}

static void attend_check_options(struct argp_state *state, attend *a)
{
    const bool gradients = outputs_wanted(a->outputs, OUTPUT_DQ, OUTPUT_COUNT);
    attend_check_inputs(state, a);
    check_trace_options(state, a);
    a->shapes = !outputs_wanted(a->outputs, OUTPUT_OUT, OUTPUT_COUNT) && !a->explain && !a->trace;
    if (a->json && !a->explain && !a->trace)
        argp_error(state, "--json is for --explain or --trace; neither is given");
    if (a->seed && !a->dropout && !a->random_rank)
        argp_error(state, "--seed is for --random or --dropout; neither is given");
    if (gradients && !a->inputs[INPUT_GRAD_OUT].spec)
        argp_error(state,
                   "--dq, --dk, --dv, --dmask and --dsinks need --grad-out, which is missing");
    if (!gradients && a->inputs[INPUT_GRAD_OUT].spec)
        argp_error(state, "--grad-out is for --dq, --dk, --dv, --dmask or --dsinks; none is given");
    if (a->outputs[OUTPUT_DMASK].path && !a->inputs[INPUT_MASK].spec)
        argp_error(state, "--dmask is for --mask, which is missing");
    if (a->outputs[OUTPUT_DSINKS].path && !a->inputs[INPUT_SINKS].spec)
        argp_error(state, "--dsinks is for --sinks, which is missing");
    outputs_check_npy(state, a->outputs, OUTPUT_COUNT);
    outputs_check(state, a->outputs, OUTPUT_COUNT,
                  a->explain ? "--explain"
                  : a->trace ? "--trace"
                             : NULL);
}

static void parse_window(struct argp_state *state, const char *text, mh_attention_options *options)
{
    int64_t window[2];
    parse_integers(state, "--window", text, "LEFT,RIGHT", -1, INT32_MAX, 2, window);
    options->window_left = window[0];
    options->window_right = window[1];
}

static float parse_softcap(struct argp_state *state, const char *text)
{
    const double number = parse_number(state, "--softcap", text);
    const float softcap = (float)number;
    if (!(softcap >= 0))
        argp_error(state, "--softcap: found '%s', expected a number >= 0", text);
    if (softcap == 0 && number > 0)
        argp_error(state, "--softcap: found '%s', which rounds to 0 in f32, and 0 means none",
                   text);
    return softcap;
}

static float parse_dropout(struct argp_state *state, const char *text)
{
    float dropout = (float)parse_number(state, "--dropout", text);
    if (!(dropout >= 0 && dropout < 1))
        argp_error(state, "--dropout: found '%s', expected 0 or more, below 1", text);
    return dropout;
}

// An option that is a setting, not a file.
static error_t attend_parse_setting(int key, char *argument, struct argp_state *state, attend *a)
{
    mh_attention_options *o = &a->options;
    switch (key) {
    case KEY_CAUSAL:
        o->causal = parse_causal(state, argument);
        return 0;
    case KEY_WINDOW:
        parse_window(state, argument, o);
        return 0;
    case KEY_SCALE:
        o->scale = (float)parse_number(state, "--scale", argument);
        return 0;
    case KEY_SOFTCAP:
        o->softcap = parse_softcap(state, argument);
        return 0;
    case KEY_ALIBI:
        o->alibi = true;
        return 0;
    case KEY_DROPOUT:
        a->dropout = true;
        o->dropout = parse_dropout(state, argument);
        return 0;
    case KEY_SEED:
        a->seed = true;
        o->dropout_seed = (uint64_t)parse_integer(state, "--seed", argument, 0, INT64_MAX);
        return 0;
    case KEY_DTYPE:
        a->dtype = (mh_dtype)parse_choice(state, "--dtype", argument, dtype_choices);
        return 0;
    case KEY_EMPTY_ROW:
        o->empty_row =
            (mh_empty_row)parse_choice(state, "--empty-row", argument, empty_row_choices);
        return 0;
    case KEY_RANDOM:
        a->random_rank = parse_sizes(state, "--random", argument,
                                     "BxHxTxE, HxTxE or TxE, such as 1x8x10x64", 2, 4, a->random);
        return 0;
    case KEY_EXPLAIN:
        a->explain = true;
        return 0;
    case KEY_TRACE:
        a->trace = true;
        return 0;
    case KEY_TOKEN:
        a->token = (ptrdiff_t)parse_integer(state, "--token", argument, 0, INT32_MAX);
        return 0;
    case KEY_JSON:
        a->json = true;
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static error_t attend_parse_option(int key, char *argument, struct argp_state *state)
{
    attend *a = state->input;
    if (key == ARGP_KEY_INIT)
        state->child_inputs[0] = &a->common;
    else if (key == ARGP_KEY_ARG)
        return refuse_argument(state, argument);
    else if (key == ARGP_KEY_END)
        attend_check_options(state, a);
    else if (key >= KEY_INPUT && key < KEY_INPUT + INPUT_COUNT)
        a->inputs[key - KEY_INPUT].spec = argument;
    else if (key >= KEY_OUTPUT && key < KEY_OUTPUT + OUTPUT_COUNT)
        a->outputs[key - KEY_OUTPUT].path = output_path(argument);
    else
        return attend_parse_setting(key, argument, state, a);
    return 0;
}

static const struct argp_child children[] = {{&common_argp, 0, NULL, 0}, {NULL, 0, NULL, 0}};

static const struct argp attend_argp = {
    .options = option_table,
    .parser = attend_parse_option,
    .children = children,
    .args_doc = "(--q FILE --k FILE --v FILE | --random BxHxTxE) [OPTION...]",
    .doc = "Scaled dot-product attention: out = softmax(scale * q k^T) v for each batch and head.\n"
           "\n"
           "A FILE to read is a .npy file, FILE.npz:NAME or FILE.safetensors:NAME; - is standard "
           "input. Arrays are float32, float16, or (safetensors) bfloat16; float64 is converted. "
           "Shapes use B batch, H query heads, G key/value heads, T queries, S keys, E and Ev "
           "widths. Leading dimensions may be left out: (H,T,E) or (T,E); outputs then have as "
           "many dimensions as q.\v"
           "Examples:\n"
           "  multihead attend --random 1x2x5x8 --trace\n"
           "  multihead attend --random 1x8x128x512 --scale 1 --trace\n"
           "  multihead attend --q q.npy --k k.npy --v v.npy --out o.npy\n"
           "  multihead attend --q a.npz:q --k a.npz:k --v a.npz:v --out o.npy\n"
           "  multihead attend --q m.safetensors:q --k m.safetensors:k --v m.safetensors:v \\\n"
           "      --causal bottom-right --window=128,0 --out o.npy --weights w.npy\n"
           "  multihead attend --q q.npy --k k.npy --v v.npy --causal --explain\n"
           "  multihead attend --q q.npy --k k.npy --v v.npy --dropout 0.1 --seed 7 \\\n"
           "      --grad-out do.npy --dq dq.npy --dk dk.npy --dv dv.npy\n",
};

// ---- computing ----------------------------------------------------------------------------------

// The plan, which also checks all arguments.
static int find_plan(attend *a, mh_attention_plan *plan)
{
    *plan = mh_attention_plan_default();
    const mh_status status = mh_attention_explain(
        a->context, &a->options, &a->inputs[INPUT_Q].tensor, &a->inputs[INPUT_K].tensor,
        &a->inputs[INPUT_V].tensor, &a->outputs[OUTPUT_OUT].tensor, plan);
    return status ? complain_status(a->context, status, NULL) : EXIT_DONE;
}

// Nothing is computed.
static int show_shapes(attend *a)
{
    mh_attention_plan plan;
    const int code = find_plan(a, &plan);
    if (code == EXIT_DONE)
        attend_show_shapes(a);
    return code;
}

static int explain(attend *a)
{
    mh_attention_plan plan;
    const int code = find_plan(a, &plan);
    if (code != EXIT_DONE)
        return code;
    report r = report_begin(stdout, a->json, 14);
    report_text(&r, "isa", "level", plan.isa);
    report_count(&r, "threads", "threads", plan.threads, "");
    report_count(&r, "tasks", "tasks", plan.tasks, "(independent)");
    report_count(&r, "query_rows", "query tile", plan.query_rows, "rows");
    report_count(&r, "key_tile", "key tile", plan.key_tile, "keys");
    report_count(&r, "key_chunk", "KV split", plan.kv_split, "keys (reduced before a merge)");
    report_count(&r, "block_rows", "block", plan.block_rows, "rows (share one packed key tile)");
    report_count(&r, "tiles", "tiles", plan.tiles, "(query tiles x key tiles)");
    report_count(&r, "dead_tiles", "  dead", plan.dead_tiles, "(skipped, fully masked)");
    report_count(&r, "edge_tiles", "  edge", plan.edge_tiles, "(masked element by element)");
    report_count(&r, "live_pairs", "live pairs", plan.live_pairs, "(unmasked query-key pairs)");
    report_number(&r, "flops", "work", plan.flops, 0, "floating-point operations");
    report_count(&r, "workspace", "workspace", plan.workspace, "bytes");
    report_reasons(&r, "why", "why", plan.why);
    report_end(&r);
    return EXIT_DONE;
}

static mh_status attend_run_backward(attend *a)
{
    mh_attention_gradients gradients = mh_attention_gradients_default();
    mh_tensor *dmask = &a->outputs[OUTPUT_DMASK].tensor;
    if (a->outputs[OUTPUT_DQ].path)
        gradients.dq = &a->outputs[OUTPUT_DQ].tensor;
    if (a->outputs[OUTPUT_DK].path)
        gradients.dk = &a->outputs[OUTPUT_DK].tensor;
    if (a->outputs[OUTPUT_DV].path)
        gradients.dv = &a->outputs[OUTPUT_DV].tensor;
    if (a->outputs[OUTPUT_DMASK].path)
        gradients.dmasks = &dmask;
    if (a->outputs[OUTPUT_DSINKS].path)
        gradients.dsinks = &a->outputs[OUTPUT_DSINKS].tensor;
    return mh_attention_backward(a->context, &a->options, &a->inputs[INPUT_Q].tensor,
                                 &a->inputs[INPUT_K].tensor, &a->inputs[INPUT_V].tensor,
                                 &a->outputs[OUTPUT_OUT].tensor, &a->inputs[INPUT_GRAD_OUT].tensor,
                                 &gradients);
}

static int attend_at_once(attend *a)
{
    progress_text("attending");
    mh_status status = mh_attention_forward(a->context, &a->options, &a->inputs[INPUT_Q].tensor,
                                            &a->inputs[INPUT_K].tensor, &a->inputs[INPUT_V].tensor,
                                            &a->outputs[OUTPUT_OUT].tensor);
    if (status == MH_OK && a->inputs[INPUT_GRAD_OUT].spec) {
        progress_text("computing gradients");
        status = attend_run_backward(a);
    }
    progress_clear();
    if (status != MH_OK)
        return complain_status(a->context, status, NULL);
    return EXIT_DONE;
}

static int attend_files(attend *a)
{
    int code = attend_read_inputs(a);
    if (code == EXIT_DONE)
        code = attend_allocate_outputs(a);
    if (code == EXIT_DONE && a->explain)
        code = explain(a);
    if (code == EXIT_DONE && a->trace)
        code = attend_trace(a);
    else if (code == EXIT_DONE && a->shapes)
        code = show_shapes(a);
    else if (code == EXIT_DONE && outputs_wanted(a->outputs, 0, OUTPUT_COUNT))
        code = attend_at_once(a);
    return code == EXIT_DONE ? attend_save_outputs(a) : code;
}

static int run_attend(int argc, char **argv)
{
    attend a = {
        .common = {.command = &attend_command},
        .inputs = {[INPUT_Q] = {.option = "--q"},
                   [INPUT_K] = {.option = "--k"},
                   [INPUT_V] = {.option = "--v"},
                   [INPUT_MASK] = {.option = "--mask"},
                   [INPUT_LENGTHS] = {.option = "--kv-lengths"},
                   [INPUT_SINKS] = {.option = "--sinks"},
                   [INPUT_GRAD_OUT] = {.option = "--grad-out"}},
        .outputs = {[OUTPUT_OUT] = {.option = "--out"},
                    [OUTPUT_WEIGHTS] = {.option = "--weights"},
                    [OUTPUT_LSE] = {.option = "--lse"},
                    [OUTPUT_DQ] = {.option = "--dq"},
                    [OUTPUT_DK] = {.option = "--dk"},
                    [OUTPUT_DV] = {.option = "--dv"},
                    [OUTPUT_DMASK] = {.option = "--dmask"},
                    [OUTPUT_DSINKS] = {.option = "--dsinks"}},
        .options = mh_attention_options_default(),
        .dtype = MH_F32,
        .token = -1,
    };
    int code = parse_arguments(&attend_argp, argc, argv, &a);
    if (code == EXIT_DONE)
        code = open_context(&a.common, &a.context);
    if (code == EXIT_DONE)
        code = attend_files(&a);
    for (int i = 0; a.context && i < INPUT_COUNT; i++)
        array_close(a.context, &a.inputs[i]);
    if (a.context)
        outputs_free(a.context, a.outputs, OUTPUT_COUNT);
    mh_context_free(a.context);
    return code;
}

const command attend_command = {
    .name = "attend",
    .summary = "scaled dot-product attention on arrays, optionally step by step",
    .argp = &attend_argp,
    .run = run_attend,
};
