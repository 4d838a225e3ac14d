// SPDX-License-Identifier: MIT
// The options that `multihead encoder` and `multihead decoder` share, and their control flow:
//
//     make the module  ->  read or draw its inputs  ->  compute, with --trace step by step  ->
//     write
#include "messages.h"
#include "progress.h"
#include "stack.h"

#include <stdlib.h>

enum {
    KEY_MODEL = 'm',
    KEY_OUTPUT = STACK_KEY_OWN, // + the index of an output
    KEY_PREFIX = STACK_KEY_OWN + 0x100,
    KEY_NO_VERIFY,
    KEY_D_MODEL,
    KEY_NHEAD,
    KEY_LAYERS,
    KEY_FFN,
    KEY_ACTIVATION,
    KEY_NORM_FIRST,
    KEY_FINAL_NORM,
    KEY_RANDOM,
    KEY_SEED,
    KEY_BATCH_FIRST,
    KEY_TRACE,
    KEY_LAYER,
    KEY_VALUES,
    KEY_TOKEN,
    KEY_NO_TIMES,
    KEY_JSON,
};

static const struct argp_option option_table[] = {
    {NULL, 0, NULL, 0, "The layers", 11},
    {"model", KEY_MODEL, "FILE", 0,
     "their parameters: a .safetensors file or PyTorch checkpoint with the state_dict of the "
     "module in torch.nn, a layer or a stack; a directory with model.safetensors, or the name of "
     "an installed model. Sizes are inferred from it; --nhead is needed unless there is a "
     "config.json in the directory. Default: random, initialised as in PyTorch",
     0},
    {"prefix", KEY_PREFIX, "TEXT", 0,
     "prefix of their names in the file of a larger model, such as encoder. of nn.Transformer", 0},
    {"no-verify", KEY_NO_VERIFY, NULL, 0,
     "load the model even if its checksums do not match: it was changed after saving", 0},
    {"d-model", KEY_D_MODEL, "D", 0, "width of the model", 0},
    ALIAS("embed-dim"),
    ALIAS("hidden-size"),
    {"nhead", KEY_NHEAD, "H", 0, "number of heads; a divisor of D", 0},
    ALIAS("heads"),
    ALIAS("num-heads"),
    ALIAS("n-head"),
    ALIAS("num-attention-heads"),
    {"layers", KEY_LAYERS, "N", 0, "a stack of N layers; default: one layer by itself", 0},
    ALIAS("num-layers"),
    ALIAS("num-hidden-layers"),
    {"ffn", KEY_FFN, "F", 0, "width of the feed-forward network; default: 4 D", 0},
    ALIAS("dim-feedforward"),
    ALIAS("intermediate-size"),
    {"activation", KEY_ACTIVATION, "NAME", 0,
     "of the feed-forward network: relu, gelu, gelu_tanh or silu; default: config.json's, or relu",
     0},
    {"norm-first", KEY_NORM_FIRST, NULL, 0,
     "LayerNorm before each sublayer (pre-norm), not after the residual sum (post-norm)", 0},
    ALIAS("pre-norm"),
    {"final-norm", KEY_FINAL_NORM, NULL, 0, "LayerNorm after the last layer of a stack", 0},
    {NULL, 0, NULL, 0, "Inputs", 12},
    {"random", KEY_RANDOM, "BxT", 0,
     "B sequences of T tokens, drawn from N(0,1); default, unless a file is given: 1x5", 0},
    {"seed", KEY_SEED, "N", 0, "of random parameters and inputs; default: 0", 0},
    {"batch-first", KEY_BATCH_FIRST, NULL, 0, "arrays, --out too, are (B,T,D), not (T,B,D)", 0},
    {NULL, 0, NULL, 0, "Outputs; without any, the shape of the result is printed", 13},
    {"out", KEY_OUTPUT + OUTPUT_OUT, "FILE", 0,
     "the result, laid out as the input, float32 .npy; - is standard output", 0},
    {"weights", KEY_OUTPUT + OUTPUT_WEIGHTS, "FILE", 0,
     "the self-attention's weights in the last layer (B,H,T,T)", 0},
    {"trace", KEY_TRACE, NULL, 0,
     "print every step: what it does, the resulting shape, and the time it takes", 0},
    {"layer", KEY_LAYER, "N", 0,
     "the layer that --trace shows in full, from 0; the others get a line each. Default: 0", 0},
    {"values", KEY_VALUES, NULL, 0, "also print the values of one token after each step", 0},
    {"token", KEY_TOKEN, "N", 0,
     "that token, from 0; default: the last one, or with a causal mask a middle one", 0},
    {"no-times", KEY_NO_TIMES, NULL, 0, "omit times: two runs print the same", 0},
    {"json", KEY_JSON, NULL, 0, "print the trace as JSON", 0},
    {NULL, 0, NULL, 0, NULL, 0},
};

// ---- parsing ------------------------------------------------------------------------------------

static size_t stack_parse_size(struct argp_state *state, const char *option, const char *text)
{
    return (size_t)parse_integer(state, option, text, 1, 1 << 20);
}

static error_t stack_parse_size_option(int key, char *argument, struct argp_state *state, stack *s)
{
    switch (key) {
    case KEY_D_MODEL:
        s->config.d_model = stack_parse_size(state, "--d-model", argument);
        return 0;
    case KEY_NHEAD:
        s->config.nhead = stack_parse_size(state, "--nhead", argument);
        return 0;
    case KEY_LAYERS:
        s->layers = (size_t)parse_integer(state, "--layers", argument, 1, 4096);
        return 0;
    case KEY_FFN:
        s->ffn = stack_parse_size(state, "--ffn", argument);
        return 0;
    case KEY_LAYER:
        s->shown_layer = (size_t)parse_integer(state, "--layer", argument, 0, 4095);
        return 0;
    case KEY_RANDOM:
        parse_sizes(state, "--random", argument, "BxT, B sequences of T tokens, such as 32x10", 2,
                    2, s->random);
        return 0;
    case KEY_SEED:
        s->seed = (uint64_t)parse_integer(state, "--seed", argument, 0, INT64_MAX);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static error_t stack_parse_setting(int key, char *argument, struct argp_state *state, stack *s)
{
    switch (key) {
    case KEY_MODEL:
        s->model = argument;
        return 0;
    case KEY_PREFIX:
        s->prefix = argument;
        return 0;
    case KEY_NO_VERIFY:
        s->no_verify = true;
        return 0;
    case KEY_ACTIVATION:
        s->activation_given = true;
        s->config.activation =
            (mh_activation)parse_choice(state, "--activation", argument, activation_choices);
        return 0;
    case KEY_NORM_FIRST:
        s->config.norm_first = true;
        return 0;
    case KEY_FINAL_NORM:
        s->config.final_norm = true;
        return 0;
    case KEY_BATCH_FIRST:
        s->config.batch_first = true;
        return 0;
    case KEY_TRACE:
        s->trace = true;
        return 0;
    case KEY_VALUES:
        s->values = true;
        return 0;
    case KEY_TOKEN:
        s->token = (ptrdiff_t)parse_integer(state, "--token", argument, 0, INT32_MAX);
        return 0;
    case KEY_NO_TIMES:
        s->no_times = true;
        return 0;
    case KEY_JSON:
        s->json = true;
        return 0;
    default:
        return stack_parse_size_option(key, argument, state, s);
    }
}

static void check_module_options(struct argp_state *state, const stack *s)
{
    const mh_transformer_config *c = &s->config;
    if (!s->model && (s->prefix || s->no_verify))
        argp_error(state, "%s is for --model, which is missing",
                   s->prefix ? "--prefix" : "--no-verify");
    if (s->model && (c->d_model || s->layers || s->ffn || c->final_norm))
        argp_error(state, "--d-model, --layers, --ffn and --final-norm cannot be combined with "
                          "--model, which has them");
    if (!s->model && !c->d_model)
        argp_error(state, "--d-model is missing (or --model)");
    if (!s->model && !c->nhead)
        argp_error(state, "--nhead is missing");
    if (c->d_model && c->d_model % c->nhead)
        argp_error(state, "--nhead: found %zu, expected a divisor of --d-model %zu", c->nhead,
                   c->d_model);
    if (c->final_norm && !s->layers)
        argp_error(state, "--final-norm is for --layers, which is missing");
    if (!s->model && s->shown_layer && s->shown_layer >= s->layers)
        argp_error(state, "--layer: found %zu, but there %s %zu, from 0", s->shown_layer,
                   s->layers > 1 ? "are" : "is", s->layers ? s->layers : 1);
}

static void check_stack_options(struct argp_state *state, stack *s)
{
    check_module_options(state, s);
    if (s->random[0] && s->inputs[INPUT_X].spec)
        argp_error(state, "--random replaces %s", s->inputs[INPUT_X].option);
    if (!s->random[0] && !s->inputs[INPUT_X].spec) {
        s->random[0] = 1;
        s->random[1] = 5;
    }
    if (s->causal && s->not_causal)
        argp_error(state, "--causal and --no-causal exclude each other");
    if ((s->values || s->json || s->no_times || s->shown_layer) && !s->trace)
        argp_error(state, "--values, --layer, --no-times and --json are for --trace, which is "
                          "missing");
    if (s->token >= 0 && !s->values)
        argp_error(state, "--token is for --values, which is missing");
    outputs_check_npy(state, s->outputs, OUTPUT_COUNT);
    outputs_check(state, s->outputs, OUTPUT_COUNT, s->trace ? "--trace" : NULL);
}

static error_t stack_parse_option(int key, char *argument, struct argp_state *state)
{
    stack *s = state->input;
    if (key == ARGP_KEY_INIT)
        state->child_inputs[0] = &s->common;
    else if (key == ARGP_KEY_ARG)
        return refuse_argument(state, argument);
    else if (key == ARGP_KEY_END)
        check_stack_options(state, s);
    else if (key >= KEY_OUTPUT && key < KEY_OUTPUT + OUTPUT_COUNT)
        s->outputs[key - KEY_OUTPUT].path = output_path(argument);
    else
        return stack_parse_setting(key, argument, state, s);
    return 0;
}

// "2x7" is a size for random memory; anything else is a file.
static bool is_size(const char *text) { return *text && text[strspn(text, "0123456789xX,")] == 0; }

error_t stack_parse_own(int key, char *argument, struct argp_state *state)
{
    stack *s = state->input;
    if (key == ARGP_KEY_INIT) {
        state->child_inputs[0] = s;
        return 0;
    }
    if (key == STACK_KEY_INPUT + INPUT_MEMORY && is_size(argument)) {
        parse_sizes(state, "--memory", argument, "a file, or BxS, B sequences of S rows", 2, 2,
                    s->random_memory);
        return 0;
    }
    if (key >= STACK_KEY_INPUT && key < STACK_KEY_INPUT + INPUT_COUNT)
        s->inputs[key - STACK_KEY_INPUT].spec = argument;
    else if (key == STACK_KEY_CAUSAL)
        s->causal = true;
    else if (key == STACK_KEY_NOT_CAUSAL)
        s->not_causal = true;
    else
        return ARGP_ERR_UNKNOWN;
    return 0;
}

static const struct argp_child children[] = {{&common_argp, 0, NULL, 0}, {NULL, 0, NULL, 0}};

const struct argp stack_argp = {
    .options = option_table, .parser = stack_parse_option, .children = children};

// ---- control flow -------------------------------------------------------------------------------

static int stack_compute(stack *s)
{
    mh_tensor *weights = &s->outputs[OUTPUT_WEIGHTS].tensor;
    if (s->trace)
        return stack_trace(s);
    mh_tap tap =
        mh_tap_make(s->decoder ? MH_TAP_DECODER : MH_TAP_ENCODER, s->layers ? s->layers - 1 : 0);
    mh_transformer_options options = stack_options(s);
    tap.weights = *weights;
    options.taps = &tap;
    options.tap_count = weights->data ? 1 : 0;
    progress_text("computing");
    mh_status status =
        mh_transformer_forward(s->context, s->module, &options, s->decoder ? &s->memory : &s->x,
                               s->decoder ? &s->x : NULL, &s->outputs[OUTPUT_OUT].tensor);
    progress_clear();
    if (status != MH_OK)
        return complain_status(s->context, status, NULL);
    if (!outputs_wanted(s->outputs, 0, OUTPUT_COUNT))
        stack_show_shapes(s);
    return EXIT_DONE;
}

static int stack_run_module(stack *s)
{
    int code = stack_make_module(s);
    if (code == EXIT_DONE)
        code = stack_read_inputs(s);
    if (code == EXIT_DONE)
        code = stack_allocate_outputs(s);
    if (code == EXIT_DONE)
        code = stack_compute(s);
    if (code != EXIT_DONE)
        return code;
    const mh_tensor tensors[OUTPUT_COUNT] = {s->outputs[OUTPUT_OUT].tensor,
                                             s->outputs[OUTPUT_WEIGHTS].tensor};
    return outputs_save(s->context, s->outputs, tensors, OUTPUT_COUNT);
}

int stack_run(const command *c, bool decoder, int argc, char **argv)
{
    stack s = {
        .common = {.command = c},
        .decoder = decoder,
        .token = -1,
        .config = mh_transformer_config_default(),
        .inputs = {[INPUT_X] = {.option = decoder ? "--tgt" : "--src"},
                   [INPUT_MEMORY] = {.option = "--memory"}},
        .outputs = {[OUTPUT_OUT] = {.option = "--out"}, [OUTPUT_WEIGHTS] = {.option = "--weights"}},
    };
    s.config.d_model = s.config.nhead = 0;
    s.config.final_norm = false;
    int code = parse_arguments(c->argp, argc, argv, &s);
    if (code == EXIT_DONE)
        code = open_context(&s.common, &s.context);
    if (code == EXIT_DONE)
        code = stack_run_module(&s);
    for (int i = 0; s.context && i < INPUT_COUNT; i++)
        array_close(s.context, &s.inputs[i]);
    if (s.context)
        outputs_free(s.context, s.outputs, OUTPUT_COUNT);
    mh_transformer_free(s.module);
    mh_context_free(s.context);
    return code;
}
