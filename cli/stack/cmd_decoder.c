// SPDX-License-Identifier: MIT
// multihead decoder: a Transformer decoder with cross-attention, layer by layer; see stack.h.
#include "stack.h"

static const struct argp_option option_table[] = {
    {NULL, 0, NULL, 0, "Target and memory", 1},
    {"tgt", STACK_KEY_INPUT + INPUT_X, "FILE", 0,
     "(T,B,D), with --batch-first (B,T,D), or unbatched (T,D)", 0},
    ALIAS("input"),
    {"memory", STACK_KEY_INPUT + INPUT_MEMORY, "FILE|BxS", 0,
     "the encoder's output, which cross-attention reads: the same with S for T; or B sequences of "
     "S rows, drawn from N(0,1). Default: as long as the target",
     0},
    {"no-causal", STACK_KEY_NOT_CAUSAL, NULL, 0,
     "self-attention without its causal mask: each token sees those after it, too", 0},
    {"causal", STACK_KEY_CAUSAL, NULL, OPTION_HIDDEN, "the default", 0},
    {NULL, 0, NULL, 0, NULL, 0},
};

static const struct argp_child children[] = {{&stack_argp, 0, NULL, 0}, {NULL, 0, NULL, 0}};

static const struct argp decoder_argp = {
    .options = option_table,
    .parser = stack_parse_own,
    .children = children,
    .args_doc = "(--d-model D --nhead H [--layers N] | -m FILE --nhead H) [OPTION...]",
    .doc =
        "A Transformer decoder, as torch.nn.TransformerDecoderLayer and TransformerDecoder compute "
        "it: in each layer causal self-attention, cross-attention to the memory (the encoder's "
        "output), then a feed-forward network, each with a residual sum and a LayerNorm. --trace "
        "shows every step with its shape, --values with its numbers.\n"
        "\n"
        "A FILE of an input is a .npy file, FILE.npz:NAME or FILE.safetensors:NAME; - is standard "
        "input. Letters: B batch, T tokens, S rows of the memory, D width, H heads, E = D/H, F "
        "feed-forward width.\v"
        "Examples:\n"
        "  multihead decoder --d-model 4 --nhead 2 --random 1x3 --memory 1x5 --trace --values\n"
        "  multihead decoder --d-model 512 --nhead 8 --layers 6 --random 32x10 --trace\n"
        "  multihead decoder -m layer.safetensors --nhead 8 --tgt y.npy --memory m.npy --out "
        "o.npy\n"
        "  multihead decoder -m models/fr-en --prefix decoder. --nhead 4 --random 1x5 --trace\n",
};

static int run_decoder(int argc, char **argv)
{
    return stack_run(&decoder_command, true, argc, argv);
}

const command decoder_command = {
    .name = "decoder",
    .summary = "a Transformer decoder with cross-attention, step by step",
    .argp = &decoder_argp,
    .run = run_decoder,
};
