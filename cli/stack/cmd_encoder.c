// SPDX-License-Identifier: MIT
// multihead encoder: a Transformer encoder, layer by layer; see stack.h.
#include "stack.h"

static const struct argp_option option_table[] = {
    {NULL, 0, NULL, 0, "The source", 1},
    {"src", STACK_KEY_INPUT + INPUT_X, "FILE", 0,
     "(T,B,D), with --batch-first (B,T,D), or unbatched (T,D)", 0},
    ALIAS("input"),
    {"causal", STACK_KEY_CAUSAL, NULL, 0,
     "each token sees only itself and those before it, as in GPT", 0},
    ALIAS("is-causal"),
    {NULL, 0, NULL, 0, NULL, 0},
};

static const struct argp_child children[] = {{&stack_argp, 0, NULL, 0}, {NULL, 0, NULL, 0}};

static const struct argp encoder_argp = {
    .options = option_table,
    .parser = stack_parse_own,
    .children = children,
    .args_doc = "(--d-model D --nhead H [--layers N] | -m FILE --nhead H) [OPTION...]",
    .doc =
        "A Transformer encoder, as torch.nn.TransformerEncoderLayer and TransformerEncoder compute "
        "it: in each layer self-attention, then a feed-forward network, each with a residual sum "
        "and a LayerNorm. --trace shows every step with its shape, --values with its numbers.\n"
        "\n"
        "A FILE of an input is a .npy file, FILE.npz:NAME or FILE.safetensors:NAME; - is standard "
        "input. Letters: B batch, T tokens, D width, H heads, E = D/H, F feed-forward width.\v"
        "Examples:\n"
        "  multihead encoder --d-model 4 --nhead 2 --random 1x3 --trace --values\n"
        "  multihead encoder --d-model 512 --nhead 8 --layers 6 --random 32x10 --trace\n"
        "  multihead encoder --d-model 64 --nhead 4 --layers 2 --norm-first --final-norm --causal\n"
        "  multihead encoder -m layer.safetensors --nhead 8 --src x.npy --out y.npy\n"
        "  multihead encoder -m models/fr-en --prefix encoder. --nhead 4 --random 1x5 --trace\n",
};

static int run_encoder(int argc, char **argv)
{
    return stack_run(&encoder_command, false, argc, argv);
}

const command encoder_command = {
    .name = "encoder",
    .summary = "a Transformer encoder on random or given inputs, step by step",
    .argp = &encoder_argp,
    .run = run_encoder,
};
