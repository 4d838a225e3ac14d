// SPDX-License-Identifier: MIT
// `multihead heads`: what the heads of a model do, over many texts.
#include "heads_parts.h"
#include "messages.h"
#include "pretrained/pictures.h"
#include "terminal.h"
#include "view/view_files.h"

#include <stdlib.h>
#include <unistd.h>

enum {
    KEY_FAR = 0x100,
    KEY_LINK,
    KEY_ABLATE,
    KEY_ALONE,
    KEY_CURVE,
    KEY_BLEU,
    KEY_WIDTH,
    KEY_PAGE,
    KEY_SVG,
    KEY_COMPARE,
    KEY_STEPS,
    KEY_SEED,
};

typedef struct heads {
    text_arguments arguments;
    mh_head_options options;
    ablation_options ablation;
    link_words link; // first NULL: not wanted
    bool far_given;
    size_t width; // 0: the terminal's
    output files[FILE_COUNT];
    head_compare compare;
    const char *compare_only; // an option of --compare
} heads;

static const struct argp_option option_table[] = {
    {NULL, 0, NULL, 0, "Where attention goes", 1},
    {"far", KEY_FAR, "N", 0, "tokens, or patches, beyond which a key is far; default: 5", 0},
    {"link", KEY_LINK, "A,B", 0,
     "instead: the 5 heads that link two words most, over all texts that have both, by the mean "
     "attention of one word's tokens to the other's",
     0},
    {NULL, 0, NULL, 0, "What is lost without a head", 2},
    {"ablate", KEY_ABLATE, NULL, 0,
     "instead: the change of the loss when a head is off, for each, and all of a layer. The loss "
     "is that of the next token, of masked tokens or, for pairs, of the translation",
     0},
    {"alone", KEY_ALONE, NULL, 0, "the same, and with a head as the only one of its layer", 0},
    {"curve", KEY_CURVE, NULL, 0,
     "the same, and then more and more heads off, up to all, those first that cost least", 0},
    {"bleu", KEY_BLEU, NULL, 0, "the same, and BLEU of greedy translations", 0},
    {NULL, 0, NULL, 0, "Output", 3},
    {"width", KEY_WIDTH, "N", 0, "columns to use; default: the terminal's, or 80", 0},
    {"page", KEY_PAGE, "FILE", 0, "write an HTML page with tables as pictures", 0},
    {"svg", KEY_SVG, "FILE", 0, "write the picture alone", 0},
    {NULL, 0, NULL, 0, "One head against many, without a model", 4},
    {"compare", KEY_COMPARE, "H,H,...", 0,
     "train one attention layer of width 64 with each of these numbers of heads to name the "
     "4 tokens before each token, and print how often it is right",
     0},
    {"steps", KEY_STEPS, "N", 0, "of --compare; default: 200", 0},
    {"seed", KEY_SEED, "N", 0, "of --compare; default: 1", 0},
    {NULL, 0, NULL, 0, NULL, 0},
};

// ---- options ------------------------------------------------------------------------------------

// Two options that cannot be combined.
typedef struct exclusion {
    const char *option, *other; // NULL: not given
} exclusion;

static void check_combinations(struct argp_state *state, const heads *c)
{
    const text_arguments *a = &c->arguments;
    const char *const compare = c->compare.heads ? "--compare" : NULL;
    const char *const link = c->link.first ? "--link" : NULL;
    const char *const ablate = c->ablation.wanted ? "--ablate" : NULL;
    const char *const far = c->far_given ? "--far" : NULL, *width = c->width ? "--width" : NULL;
    const char *const page = c->files[FILE_PAGE].path ? "--page" : NULL;
    const char *const svg = c->files[FILE_SVG].path ? "--svg" : NULL;
    const char *const dtype = a->loading.precision != MH_PRECISION_F32 ? "--dtype" : NULL;
    const exclusion exclusions[] = {{link, compare},
                                    {link, ablate},
                                    {link, far},
                                    {link, width},
                                    {link, page},
                                    {link, svg},
                                    {compare, a->model_name ? "-m" : NULL},
                                    {compare, a->count ? "texts" : NULL},
                                    {compare, a->input_path ? "--input" : NULL},
                                    {compare, dtype},
                                    {compare, ablate},
                                    {compare, far},
                                    {compare, width},
                                    {compare, page},
                                    {compare, svg},
                                    {ablate, far}};
    for (size_t i = 0; i < sizeof exclusions / sizeof *exclusions; i++)
        if (exclusions[i].option && exclusions[i].other)
            argp_error(state, "%s cannot be combined with %s", exclusions[i].option,
                       exclusions[i].other);
    if (!compare && c->compare_only)
        argp_error(state, "%s is for --compare, which is missing", c->compare_only);
}

static void check_heads(struct argp_state *state, heads *c)
{
    check_combinations(state, c);
    c->compare.json = c->arguments.json;
    if (c->compare.heads) {
        compare_check(state, &c->compare);
        return;
    }
    if (!c->arguments.model_name)
        argp_error(state, "-m is missing, expected the directory or the name of a model");
    view_files_check(state, &c->files[FILE_PAGE]);
    outputs_check(state, c->files, FILE_COUNT, NULL);
}

static error_t heads_parse_option(int key, char *argument, struct argp_state *state)
{
    heads *c = state->input;
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &c->arguments;
        return 0;
    case ARGP_KEY_END:
        check_heads(state, c);
        return 0;
    case KEY_FAR:
        c->far_given = true;
        c->options.far = (size_t)parse_integer(state, "--far", argument, 1, 1000000);
        return 0;
    case KEY_LINK:
        link_words_parse(state, &c->link, argument);
        return 0;
    case KEY_ALONE:
    case KEY_CURVE:
    case KEY_BLEU:
    case KEY_ABLATE:
        c->ablation.wanted = true;
        c->ablation.alone = c->ablation.alone || key == KEY_ALONE;
        c->ablation.curve = c->ablation.curve || key == KEY_CURVE;
        c->ablation.bleu = c->ablation.bleu || key == KEY_BLEU;
        return 0;
    case KEY_WIDTH:
        c->width = (size_t)parse_integer(state, "--width", argument, 40, 10000);
        return 0;
    case KEY_PAGE:
        c->files[FILE_PAGE].path = output_path(argument);
        return 0;
    case KEY_SVG:
        c->files[FILE_SVG].path = output_path(argument);
        return 0;
    case KEY_COMPARE:
        c->compare.heads = argument;
        return 0;
    case KEY_STEPS:
        c->compare_only = "--steps";
        c->compare.steps = (uint64_t)parse_integer(state, "--steps", argument, 1, 1000000);
        return 0;
    case KEY_SEED:
        c->compare_only = "--seed";
        c->compare.seed = (uint64_t)parse_integer(state, "--seed", argument, 0, INT64_MAX);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp_child children[] = {{&text_file_argp, 0, NULL, 0}, {NULL, 0, NULL, 0}};

static const struct argp heads_argp = {
    .options = option_table,
    .parser = heads_parse_option,
    .children = children,
    .args_doc = "-m MODEL --input FILE [OPTION...]",
    .doc = "Shows what the heads of a model do, over many texts: how much of a head's attention "
           "goes to the previous token, to the next, to special tokens, punctuation, equal words, "
           "rare words and so on, compared with a head of equal weights; in translators relative "
           "to the aligned token; in pictures to neighbours, rows and columns, and how far. Or, "
           "with --link, which heads link one word to another; or, with --ablate, what the model "
           "loses without each head.\v"
           "A line for a model that translates is a source, a tab and its translation; without a "
           "tab the model's own translation is used. Texts for a model that reads pictures are "
           "picture files.\n"
           "\n"
           "A figure is the mean over the queries that have such a key. * marks those far above a "
           "uniform head's, which has equal weights on all keys of a query: (mean - uniform) / "
           "(100 - uniform) is 30 % or more, over 10 or more queries. A head is named after the "
           "mark that counts most: times the part of all queries that have such a key. Without a "
           "mark it is broad if its entropy is 85 % or more of the largest, else mixed.\n"
           "\n"
           "Examples:\n"
           "  multihead heads -m models/fr-en --input pairs.tsv\n"
           "  multihead heads -m all-MiniLM-L6-v2 --input lines.txt --page heads.html\n"
           "  multihead heads -m bert-base-uncased --input lines.txt --link doctor,she\n"
           "  multihead heads -m gpt2 --input lines.txt --ablate\n"
           "  multihead heads -m models/fr-en --input pairs.tsv --curve --bleu --svg off.svg\n"
           "  multihead heads -m vit-base-patch16-224 *.png\n"
           "  multihead heads --compare 1,2,4,8\n",
};

// ---- control flow -------------------------------------------------------------------------------

static head_output output_of(const heads *c, const head_texts *t)
{
    return (head_output){.arguments = &c->arguments,
                         .width = c->width ? c->width : terminal_width(STDOUT_FILENO),
                         .colours = terminal_has_colours(),
                         .far = c->options.far,
                         .texts = t->count,
                         .own = t->own};
}

static int show_statistics(const heads *c, const head_texts *t)
{
    const text_arguments *a = &c->arguments;
    mh_head_statistics *s = NULL;
    size_t refused;
    head_output o = output_of(c, t);
    int code = find_statistics(a, t, &c->options, &s, &refused);
    o.texts -= refused;
    if (code == EXIT_DONE)
        code = save_pictures(&o, s, NULL, c->files);
    if (code == EXIT_DONE && a->json)
        print_statistics_json(&o, a->context, s);
    else if (code == EXIT_DONE && !outputs_wanted(c->files, 0, FILE_COUNT))
        print_statistics(&o, a->context, s);
    mh_head_statistics_free(s);
    return code == EXIT_DONE && refused ? EXIT_INPUT : code;
}

static int show_ablation(const heads *c, const head_texts *t)
{
    ablation found;
    const head_output o = output_of(c, t);
    int code = find_ablation(&c->arguments, t, &c->ablation, &found);
    if (code == EXIT_DONE)
        code = save_pictures(&o, NULL, &found, c->files);
    if (code == EXIT_DONE && c->arguments.json)
        print_ablation_json(&found);
    else if (code == EXIT_DONE && !outputs_wanted(c->files, 0, FILE_COUNT))
        print_ablation(&o, &found);
    ablation_free(&found);
    return code;
}

static int show_heads(heads *c)
{
    head_texts t;
    int code = head_texts_open(&c->arguments, c->ablation.wanted, &t);
    if (code == EXIT_DONE)
        code = c->ablation.wanted ? show_ablation(c, &t) : show_statistics(c, &t);
    head_texts_close(&t);
    return code;
}

static int run_heads(int argc, char **argv)
{
    heads c = {.arguments = text_arguments_default(&heads_command),
               .options = mh_head_options_default(),
               .files = {[FILE_PAGE] = {.option = "--page"}, [FILE_SVG] = {.option = "--svg"}},
               .compare = {.steps = 200, .seed = 1}};
    c.arguments.pictures = c.arguments.no_model = true;
    int code = parse_arguments(&heads_argp, argc, argv, &c);
    if (code == EXIT_DONE && c.compare.heads)
        return compare_heads(&c.arguments.common, &c.compare);
    if (code == EXIT_DONE)
        code = text_arguments_open(&c.arguments);
    if (code == EXIT_DONE)
        code = text_arguments_read(&c.arguments);
    if (code == EXIT_DONE)
        code = c.link.first ? show_links(&c.arguments, &c.link) : show_heads(&c);
    link_words_free(&c.link);
    text_arguments_close(&c.arguments);
    return code;
}

const command heads_command = {
    .name = "heads",
    .summary = "show what the heads of a model do, and what it loses without them",
    .argp = &heads_argp,
    .run = run_heads,
};
