// SPDX-License-Identifier: MIT
// The options of `multihead embed`; see embed.h.
#include "embed/embed.h"

enum { KEY_POOLING = 0x100, KEY_NORMALIZE, KEY_NO_NORMALIZE, KEY_BATCH, KEY_OUT, KEY_SIMILARITY };

static const struct argp_option option_table[] = {
    {NULL, 0, NULL, 0, "Embeddings", 1},
    {"pooling", KEY_POOLING, "NAME", 0,
     "how a text's tokens become one vector: mean, cls (the first), last, max, or none: the "
     "tokens' own vectors, of one text. Default: as the model's 1_Pooling/config.json says, else "
     "mean, or last for a causal model",
     0},
    {"normalize", KEY_NORMALIZE, NULL, 0,
     "scale to length 1. Default: if the model's modules.json says so", 0},
    {"no-normalize", KEY_NO_NORMALIZE, NULL, 0, "do not scale", 0},
    {"batch", KEY_BATCH, "N", 0, "tokens that are computed together. Default: 4096", 0},
    {NULL, 0, NULL, 0, "What to print or write", 2},
    {"out", KEY_OUT, "FILE", 0, "write all vectors as .npy, (texts, width) of f32", 0},
    {"similarity", KEY_SIMILARITY, NULL, 0, "the cosine of every pair of texts", 0},
    {NULL, 0, NULL, 0, NULL, 0},
};

static const choice pooling_choices[] = {{"mean", MH_POOLING_MEAN}, {"cls|first", MH_POOLING_CLS},
                                         {"last", MH_POOLING_LAST}, {"max", MH_POOLING_MAX},
                                         {"none", POOLING_NONE},    {NULL, 0}};

static void embed_check_options(struct argp_state *state, const embed *e)
{
    if (e->pooling == POOLING_NONE && e->normalize == true)
        argp_error(state, "--normalize is for one vector per text: not with --pooling none");
    outputs_check_npy(state, &e->out, 1);
    outputs_check(state, &e->out, 1,
                  e->similarity   ? "--similarity"
                  : e->texts.json ? "--json"
                                  : NULL);
}

static error_t embed_parse_option(int key, char *argument, struct argp_state *state)
{
    embed *e = state->input;
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &e->texts;
        return 0;
    case ARGP_KEY_END:
        embed_check_options(state, e);
        return 0;
    case KEY_POOLING:
        e->pooling = parse_choice(state, "--pooling", argument, pooling_choices);
        return 0;
    case KEY_NORMALIZE:
        e->normalize = true;
        return 0;
    case KEY_NO_NORMALIZE:
        e->normalize = false;
        return 0;
    case KEY_BATCH:
        e->batch = (size_t)parse_integer(state, "--batch", argument, 1, 1 << 24);
        return 0;
    case KEY_OUT:
        e->out.path = output_path(argument);
        return 0;
    case KEY_SIMILARITY:
        e->similarity = true;
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp_child children[] = {{&text_argp, 0, NULL, 0}, {NULL, 0, NULL, 0}};

const struct argp embed_argp = {
    .options = option_table,
    .parser = embed_parse_option,
    .children = children,
    .args_doc = "-m MODEL [OPTION...] [TEXT|PICTURE...]",
    .doc =
        "Turns each text into one vector with a pretrained model, such as all-MiniLM-L6-v2, so "
        "that texts of similar meaning have similar vectors.\n"
        "\n"
        "Without --out, --similarity or --json, prints the vectors' width and first values, one "
        "line per text. A text's vector does not depend on the other texts.\n"
        "\n"
        "Arguments for a model that reads pictures are picture files; for CLIP those whose names "
        "end as picture files do (.png, .jpg, .jpeg, .ppm, .pgm, .pnm), and others are texts.\v"
        "Examples:\n"
        "  multihead embed -m all-MiniLM-L6-v2 \"A man is eating food.\"\n"
        "  multihead embed -m all-MiniLM-L6-v2 --input lines.txt --out vectors.npy\n"
        "  multihead embed -m all-MiniLM-L6-v2 --similarity \"a cat\" \"a dog\" \"a bill\"\n"
        "  multihead embed -m all-MiniLM-L6-v2 --json <lines.txt\n"
        "  multihead embed -m clip-vit-base-patch32 --similarity cat.png \"a cat\" \"a dog\"\n",
};
