// SPDX-License-Identifier: MIT
// multihead mha: a whole multi-head attention module, from the shell.
//
//     make the module  ->  read or draw its inputs  ->  compute, with --trace step by step  ->
//     write
//
// This file has the options and the control flow; see mha.h for the others.
#include "messages.h"
#include "mha.h"
#include "progress.h"

#include <stdlib.h>
#include <string.h>

// ---- options ------------------------------------------------------------------------------------

enum {
    KEY_MODEL = 'm',
    KEY_INPUT = 0x100, // + the index of an input
    KEY_OUTPUT = 0x200,
    KEY_PRESET = 0x300,
    KEY_PRESETS,
    KEY_PREFIX,
    KEY_LAYER,
    KEY_STACK,
    KEY_NO_VERIFY,
    KEY_EMBED_DIM,
    KEY_HEADS,
    KEY_KV_HEADS,
    KEY_INPUT_DIM,
    KEY_KDIM,
    KEY_VDIM,
    KEY_QKV,
    KEY_ROPE,
    KEY_ROPE_BASE,
    KEY_ALIBI,
    KEY_RANDOM,
    KEY_SEED,
    KEY_BATCH_FIRST,
    KEY_CAUSAL,
    KEY_PER_HEAD,
    KEY_TRACE,
    KEY_VALUES,
    KEY_TOKEN,
    KEY_NO_TIMES,
    KEY_JSON,
};

static const struct argp_option option_table[] = {
    {NULL, 0, NULL, 0, "The module", 1},
    {"model", KEY_MODEL, "FILE", 0,
     "its parameters: a .safetensors file or PyTorch checkpoint with PyTorch's names or those of "
     "tutorials (W_q, q_linear, qkv_layer ...), a directory with one in Hugging Face's layout, or "
     "the name of an installed model. Widths are inferred from shapes; --heads is needed unless "
     "there is a config.json next to the file. bias_k, bias_v and sinks are read if present. "
     "Default: random, initialised as in PyTorch",
     0},
    {"prefix", KEY_PREFIX, "TEXT", 0,
     "prefix of their names in the file of a larger model: encoder.layers.0.self_attn.", 0},
    {"layer", KEY_LAYER, "N", 0,
     "attention layer N, from 0, of a whole model: BERT, RoBERTa, DistilBERT, GPT-2, Llama and its "
     "kin, GPT-NeoX, T5, BART, Marian, Whisper, ViT, CLIP, timm's; with the model's rotary "
     "positions, scale, window and causal rule",
     0},
    {"stack", KEY_STACK, "NAME", 0,
     "which layer N, where a model has several: encoder, decoder, cross (attention of the decoder "
     "to the encoder), vision, text",
     0},
    {"no-verify", KEY_NO_VERIFY, NULL, 0,
     "load the model even if its checksums do not match: it was changed after saving", 0},
    {"preset", KEY_PRESET, "NAME", 0,
     "the sizes of one layer of a known model, such as bert-base, gpt2 or ViT-B/16", 0},
    {"presets", KEY_PRESETS, NULL, 0, "list the presets with their sizes and memory, and exit", 0},
    {"embed-dim", KEY_EMBED_DIM, "D", 0,
     "width of the model: of the output, and of all heads together", 0},
    ALIAS("d-model"),
    ALIAS("hidden-size"),
    {"heads", KEY_HEADS, "H", 0, "number of heads; a divisor of D", 0},
    ALIAS("num-heads"),
    ALIAS("nhead"),
    ALIAS("n-head"),
    ALIAS("num-attention-heads"),
    {"kv-heads", KEY_KV_HEADS, "G", 0,
     "key/value heads, each shared by H/G query heads (grouped-query attention); a divisor of H; "
     "default: H, or as many as --model has",
     0},
    ALIAS("num-kv-heads"),
    ALIAS("num-key-value-heads"),
    {"input-dim", KEY_INPUT_DIM, "N", 0, "width of the query; default: D", 0},
    {"kdim", KEY_KDIM, "N", 0, "width of the key; default: that of the query", 0},
    {"vdim", KEY_VDIM, "N", 0, "width of the value; default: that of the query", 0},
    {"qkv", KEY_QKV, "ORDER", 0,
     "rows of the projection: stacked (all q, all k, all v; PyTorch) or interleaved (q, k, v of "
     "each head; GPT-NeoX, tutorials); default: stacked",
     0},
    {"rope", KEY_ROPE, "PAIRS", 0,
     "rotary embedding: rotate pairs of elements of queries and keys by their position, half (i "
     "and i + E/2; Llama, GPT-NeoX) or interleaved (2i and 2i + 1; GPT-J)",
     0},
    {"rope-base", KEY_ROPE_BASE, "X", 0, "pair i is rotated by position / X^(2i/E); default: 10000",
     0},
    ALIAS("rope-theta"),
    {"alibi", KEY_ALIBI, NULL, 0, "add ALiBi's bias to the scores: nearer keys score higher", 0},
    {NULL, 0, NULL, 0, "Inputs", 2},
    {"query", KEY_INPUT + INPUT_QUERY, "FILE", 0,
     "(T,B,N), with --batch-first (B,T,N), or unbatched (T,N)", 0},
    ALIAS("q"),
    {"key", KEY_INPUT + INPUT_KEY, "FILE", 0, "the same with S for T; default: the query", 0},
    ALIAS("k"),
    {"value", KEY_INPUT + INPUT_VALUE, "FILE", 0, "as long as the key; default: the key", 0},
    ALIAS("v"),
    {"random", KEY_RANDOM, "BxT", 0,
     "B sequences of T tokens, drawn from N(0,1), in place of files; default with --preset: "
     "1x128",
     0},
    {"seed", KEY_SEED, "N", 0, "of random parameters and inputs; default: 0", 0},
    {"batch-first", KEY_BATCH_FIRST, NULL, 0, "arrays, --out too, are (B,T,...), not (T,B,...)", 0},
    {NULL, 0, NULL, 0, "Which keys a query sees", 3},
    {"key-padding-mask", KEY_INPUT + INPUT_PADDING, "FILE", 0,
     "(B,S), unbatched (S). As in nn.MultiheadAttention, bool: true = may NOT be attended to; "
     "float: added to the scores",
     0},
    {"attn-mask", KEY_INPUT + INPUT_MASK, "FILE", 0, "the same, (T,S) or (B*H,T,S)", 0},
    {"causal", KEY_CAUSAL, "ALIGNMENT", OPTION_ARG_OPTIONAL,
     "no key after the query. top-left: query i sees keys 0..i; bottom-right: the last query "
     "sees the last key; may be left out where T = S",
     0},
    ALIAS("is-causal"),
    {NULL, 0, NULL, 0, "Outputs; without any, the shapes of result and weights are printed", 4},
    {"out", KEY_OUTPUT + OUTPUT_OUT, "FILE", 0,
     "the result (T,B,D), laid out as the query, float32 .npy; - is standard output", 0},
    {"weights", KEY_OUTPUT + OUTPUT_WEIGHTS, "FILE", 0,
     "the attention weights, mean over the heads (B,T,S)", 0},
    {"per-head", KEY_PER_HEAD, NULL, 0, "weights of each head (B,H,T,S)", 0},
    {"trace", KEY_TRACE, NULL, 0,
     "print every step: what it does, the resulting shape, and the time it takes", 0},
    {"values", KEY_VALUES, NULL, 0,
     "also print the values of one token: weights and output of each head, their concatenation, "
     "and the result of the output projection",
     0},
    {"token", KEY_TOKEN, "N", 0,
     "the query whose values are shown, from 0; default: the last one, or with a mask a middle one",
     0},
    {"no-times", KEY_NO_TIMES, NULL, 0, "omit times: two runs print the same", 0},
    {"json", KEY_JSON, NULL, 0, "print the trace, or the presets, as JSON", 0},
    {NULL, 0, NULL, 0, NULL, 0},
};

static const choice qkv_choices[] = {
    {"stacked", MH_QKV_STACKED}, {"interleaved", MH_QKV_INTERLEAVED}, {NULL, 0}};
static const choice stack_choices[] = {{"encoder", 0}, {"decoder", 1}, {"cross", 2},
                                       {"vision", 3},  {"text", 4},    {NULL, 0}};
static const char *const stack_names[] = {"encoder", "decoder", "cross", "vision", "text"};
static const choice rope_choices[] = {{"half", false}, {"interleaved", true}, {NULL, 0}};

static size_t mha_parse_size(struct argp_state *state, const char *option, const char *text)
{
    return (size_t)parse_integer(state, option, text, 1, 1 << 20);
}

static double parse_rope_base(struct argp_state *state, const char *text)
{
    const double base = parse_number(state, "--rope-base", text);
    if (!(base >= 1))
        argp_error(state, "--rope-base: found '%s', expected a number >= 1", text);
    return base;
}

static error_t parse_size_option(int key, char *argument, struct argp_state *state, mha *m)
{
    mh_mha_config *c = &m->config;
    switch (key) {
    case KEY_NO_VERIFY:
        m->no_verify = true;
        return 0;
    case KEY_EMBED_DIM:
        c->embed_dim = mha_parse_size(state, "--embed-dim", argument);
        return 0;
    case KEY_HEADS:
        c->num_heads = mha_parse_size(state, "--heads", argument);
        m->heads_given = true;
        return 0;
    case KEY_KV_HEADS:
        c->kv_heads = mha_parse_size(state, "--kv-heads", argument);
        return 0;
    case KEY_INPUT_DIM:
        c->input_dim = mha_parse_size(state, "--input-dim", argument);
        return 0;
    case KEY_KDIM:
        c->kdim = mha_parse_size(state, "--kdim", argument);
        return 0;
    case KEY_VDIM:
        c->vdim = mha_parse_size(state, "--vdim", argument);
        return 0;
    case KEY_RANDOM:
        parse_sizes(state, "--random", argument, "BxT, B sequences of T tokens, such as 32x10", 2,
                    2, m->random);
        return 0;
    case KEY_SEED:
        m->seeded = true;
        m->seed = (uint64_t)parse_integer(state, "--seed", argument, 0, INT64_MAX);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static error_t mha_parse_setting(int key, char *argument, struct argp_state *state, mha *m)
{
    switch (key) {
    case KEY_MODEL:
        m->model = argument;
        return 0;
    case KEY_PREFIX:
        m->prefix = argument;
        return 0;
    case KEY_LAYER:
        m->whole_model = true;
        m->layer = (size_t)parse_integer(state, "--layer", argument, 0, 1 << 20);
        return 0;
    case KEY_STACK:
        m->stack = stack_names[parse_choice(state, "--stack", argument, stack_choices)];
        return 0;
    case KEY_PRESET:
        m->preset = find_layer_preset(state, argument);
        return 0;
    case KEY_PRESETS:
        m->list_presets = true;
        return 0;
    case KEY_QKV:
        m->config.qkv = (mh_qkv_order)parse_choice(state, "--qkv", argument, qkv_choices);
        return 0;
    case KEY_ROPE:
        m->config.rope = true;
        m->config.rope_interleaved = parse_choice(state, "--rope", argument, rope_choices);
        return 0;
    case KEY_ROPE_BASE:
        m->rope_base = true;
        m->config.rope_base = parse_rope_base(state, argument);
        return 0;
    case KEY_ALIBI:
        m->config.alibi = true;
        return 0;
    case KEY_BATCH_FIRST:
        m->config.batch_first = true;
        return 0;
    case KEY_CAUSAL:
        m->causal = parse_causal(state, argument);
        return 0;
    case KEY_PER_HEAD:
        m->per_head = true;
        return 0;
    case KEY_TRACE:
        m->trace = true;
        return 0;
    case KEY_VALUES:
        m->values = true;
        return 0;
    case KEY_TOKEN:
        m->token = (ptrdiff_t)parse_integer(state, "--token", argument, 0, INT32_MAX);
        return 0;
    case KEY_NO_TIMES:
        m->no_times = true;
        return 0;
    case KEY_JSON:
        m->json = true;
        return 0;
    default:
        return parse_size_option(key, argument, state, m);
    }
}

static error_t mha_parse_option(int key, char *argument, struct argp_state *state)
{
    mha *m = state->input;
    if (key == ARGP_KEY_INIT)
        state->child_inputs[0] = &m->common;
    else if (key == ARGP_KEY_ARG)
        return refuse_argument(state, argument);
    else if (key == ARGP_KEY_END)
        mha_check_options(state, m);
    else if (key >= KEY_INPUT && key < KEY_INPUT + INPUT_COUNT)
        m->inputs[key - KEY_INPUT].spec = argument;
    else if (key >= KEY_OUTPUT && key < KEY_OUTPUT + OUTPUT_COUNT)
        m->outputs[key - KEY_OUTPUT].path = output_path(argument);
    else
        return mha_parse_setting(key, argument, state, m);
    return 0;
}

static const struct argp_child children[] = {{&common_argp, 0, NULL, 0}, {NULL, 0, NULL, 0}};

static const struct argp mha_argp = {
    .options = option_table,
    .parser = mha_parse_option,
    .children = children,
    .args_doc = "(-m FILE | --embed-dim D --heads H | --preset NAME) "
                "(--query FILE | --random BxT) [OPTION...]",
    .doc =
        "Multi-head attention with its projections, as torch.nn.MultiheadAttention computes it: "
        "out = concat(head_1 ... head_H) Wo^T + bo, each head the attention of its own part of "
        "the projected query, key and value. --trace shows every step with its shape.\n"
        "\n"
        "A FILE of an input is a .npy file, FILE.npz:NAME or FILE.safetensors:NAME; - is standard "
        "input. Elements are float32, float16, bfloat16 or float64; computation is in float32. "
        "Letters: B batch, T queries, S keys, D model width, H heads, G key/value heads, E = D/H "
        "head width, N input width.\v"
        "Examples:\n"
        "  multihead mha --embed-dim 512 --heads 8 --random 32x10 --trace\n"
        "  multihead mha --input-dim 1024 --embed-dim 512 --heads 8 --qkv interleaved \\\n"
        "      --random 30x5 --trace --values\n"
        "  multihead mha -m attn.safetensors --heads 8 --query q.npy --key k.npy --value v.npy \\\n"
        "      --out o.npy --weights w.npy\n"
        "  multihead mha --embed-dim 512 --heads 8 --kv-heads 2 --rope half --causal \\\n"
        "      --random 2x16 --trace\n"
        "  multihead mha -m bert-base-uncased --layer 3 --random 1x8 --trace\n"
        "  multihead mha -m whisper-tiny --layer 0 --stack cross --query x.npy --key memory.npy\n"
        "  multihead mha --presets\n"
        "  multihead mha --preset gpt3 --trace\n",
};

// ---- control flow -------------------------------------------------------------------------------

static int mha_compute(mha *m)
{
    output *out = &m->outputs[OUTPUT_OUT], *weights = &m->outputs[OUTPUT_WEIGHTS];
    if (m->trace)
        return mha_trace(m);
    progress_text("computing");
    mh_status status =
        mh_mha_forward(m->context, m->module, &m->options, &m->query, &m->key, &m->value,
                       &out->tensor, weights->tensor.data ? &weights->tensor : NULL);
    progress_clear();
    if (status != MH_OK)
        return complain_status(m->context, status, NULL);
    if (m->shapes)
        show_shapes(m);
    return EXIT_DONE;
}

static int mha_run_module(mha *m)
{
    int code = mha_make_module(m);
    if (code == EXIT_DONE)
        code = mha_read_inputs(m);
    if (code == EXIT_DONE)
        code = mha_allocate_outputs(m);
    if (code == EXIT_DONE)
        code = mha_compute(m);
    if (code != EXIT_DONE)
        return code;
    const mh_tensor tensors[OUTPUT_COUNT] = {m->outputs[OUTPUT_OUT].tensor,
                                             m->outputs[OUTPUT_WEIGHTS].tensor};
    return outputs_save(m->context, m->outputs, tensors, OUTPUT_COUNT);
}

static int run_mha(int argc, char **argv)
{
    mha m = {
        .common = {.command = &mha_command},
        .token = -1,
        .config = mh_mha_config_default(),
        .options = mh_mha_options_default(),
        .attention = mh_attention_options_default(),
        .inputs = {[INPUT_QUERY] = {.option = "--query"},
                   [INPUT_KEY] = {.option = "--key"},
                   [INPUT_VALUE] = {.option = "--value"},
                   [INPUT_PADDING] = {.option = "--key-padding-mask"},
                   [INPUT_MASK] = {.option = "--attn-mask"}},
        .outputs = {[OUTPUT_OUT] = {.option = "--out"}, [OUTPUT_WEIGHTS] = {.option = "--weights"}},
    };
    int code = parse_arguments(&mha_argp, argc, argv, &m);
    if (code == EXIT_DONE && m.list_presets) {
        print_presets(m.json);
        return EXIT_DONE;
    }
    if (code == EXIT_DONE)
        code = open_context(&m.common, &m.context);
    if (code == EXIT_DONE)
        code = mha_run_module(&m);
    for (int i = 0; m.context && i < INPUT_COUNT; i++)
        array_close(m.context, &m.inputs[i]);
    if (m.context)
        outputs_free(m.context, m.outputs, OUTPUT_COUNT);
    mh_mha_free(m.module);
    free(m.bias_table);
    free(m.model_file);
    free(m.model_directory);
    mh_context_free(m.context);
    return code;
}

const command mha_command = {
    .name = "mha",
    .summary = "multi-head attention with its projections, optionally step by step",
    .argp = &mha_argp,
    .run = run_mha,
};
