// SPDX-License-Identifier: MIT
// multihead view: what heads attend to, as heatmaps in the terminal or as one HTML page; or
// the curve of a training run (view_run.c).
#include "messages.h"
#include "terminal.h"
#include "view_inputs.h"
#include "view_run.h"

#include <unistd.h>

enum {
    KEY_WEIGHTS = 0x100,
    KEY_AXES,
    KEY_SEQUENCE,
    KEY_TOKENS,
    KEY_KEY_TOKENS,
    KEY_TRACE,
    KEY_TITLE,
    KEY_KIND,
    KEY_LAYER,
    KEY_HEAD,
    KEY_TRACE_OUT,
    KEY_TEXT,
    KEY_COLOUR,
    KEY_WIDTH,
    KEY_BITS,
};

static const struct argp_option option_table[] = {
    {NULL, 0, NULL, 0, "What to show", 1},
    {"weights", KEY_WEIGHTS, "FILE", 0,
     "attention weights (T,S), (heads,T,S), (batch,heads,T,S) as 'multihead mha --per-head "
     "--weights' writes, or (layers,batch,heads,T,S). FILE.npy, FILE.npz:NAME or "
     "FILE.safetensors:NAME; - is standard input",
     0},
    {"axes", KEY_AXES, "NAMES", 0,
     "what the first of 4 dimensions are: batch,heads or layers,heads; default: batch,heads", 0},
    {"tokens", KEY_TOKENS, "FILE", 0,
     "names of the queries, and of the keys if there are as many: one token per line, or one line "
     "of them separated by spaces. If there is no such file, the words of the argument itself",
     0},
    {"key-tokens", KEY_KEY_TOKENS, "FILE", 0, "names of the keys, in the same way", 0},
    {"trace", KEY_TRACE, "FILE", 0,
     "a trace (docs/reference/trace-format.md) in place of the above", 0},
    {"title", KEY_TITLE, "TEXT", 0, "title of the page", 0},
    {NULL, 0, NULL, 0, "Which part", 2},
    {"kind", KEY_KIND, "KIND", 0,
     "encoder, decoder, cross or attention; default: the first of cross, encoder, decoder, "
     "attention that is present",
     0},
    {"sequence", KEY_SEQUENCE, "N", 0,
     "of a batch, from 0; default: the first in text, an overview in a page", 0},
    {"layer", KEY_LAYER, "N", 0, "from 0; default: the last in text, an overview in a page", 0},
    {"head", KEY_HEAD, "N", 0, "from 0; default: all", 0},
    {NULL, 0, NULL, 0, "Page", 3},
    {"output", 'o', "FILE", 0,
     "write one self-contained HTML page; for a RUN, the curve as an SVG image (default: "
     "RUN/loss.svg); - is standard output",
     0},
    {"bits", KEY_BITS, "N", 0,
     "bits per weight in the page, 8 or 16; default: 16 up to 4 million weights, 8 beyond", 0},
    {"trace-out", KEY_TRACE_OUT, "FILE", 0, "write a trace of what is shown", 0},
    {NULL, 0, NULL, 0, "Text", 4},
    {"text", KEY_TEXT, NULL, 0, "print heatmaps, also when a file is written; default without one",
     0},
    {"color", KEY_COLOUR, "WHEN", 0,
     "24-bit colours in place of shaded blocks: always, never or auto (if the terminal supports "
     "them and $NO_COLOR is not set); default: auto",
     0},
    {"width", KEY_WIDTH, "N", 0, "columns to use; default: the terminal's, or 80", 0},
    {NULL, 0, NULL, 0, NULL, 0},
};

static const choice kind_choices[] = {{"encoder", MH_TRACE_ENCODER},
                                      {"decoder", MH_TRACE_DECODER},
                                      {"cross", MH_TRACE_CROSS},
                                      {"attention", MH_TRACE_ATTENTION},
                                      {NULL, 0}};
static const choice axes_choices[] = {
    {"batch,heads", AXES_BATCH}, {"layers,heads", AXES_LAYERS}, {NULL, 0}};
static const choice colour_choices[] = {
    {"auto", COLOUR_AUTO}, {"always", COLOUR_ALWAYS}, {"never", COLOUR_NEVER}, {NULL, 0}};
static const choice bits_choices[] = {{"8", 8}, {"16", 16}, {NULL, 0}};

// Options for a page or for text need one.
static void check_shown(struct argp_state *state, const view *v)
{
    const bool page = v->files[FILE_PAGE].path, trace = v->files[FILE_TRACE].path;
    const bool text = v->text || !(page || trace);
    view_files_check(state, &v->files[FILE_PAGE]);
    if (v->options.bits && !page)
        argp_error(state, "--bits is for a page, and -o is missing");
    if (v->title && !page && !trace)
        argp_error(state, "--title is for a page or a trace, and -o and --trace-out are missing");
    if ((v->options.width || v->colour != COLOUR_AUTO) && !text)
        argp_error(state, "%s is for text, and --text is missing",
                   v->options.width ? "--width" : "--color");
}

static void check_sense(struct argp_state *state, const view *v)
{
    if (!!v->weights.spec + !!v->trace_path + !!v->run_directory != 1)
        argp_error(state, "expected --weights, --trace or the directory of a run");
    if (v->run_directory)
        view_run_check(state, v);
    else
        check_shown(state, v);
    outputs_check(state, v->files, FILE_COUNT, v->text && !v->run_directory ? "--text" : NULL);
    if (v->trace_path && v->axes != AXES_NONE)
        argp_error(state, "--axes is for --weights");
    if (v->trace_path && (v->tokens.path || v->key_tokens.path))
        argp_error(state, "%s: a trace has its own tokens",
                   v->tokens.path ? "--tokens" : "--key-tokens");
}

static error_t view_parse_option(int key, char *argument, struct argp_state *state)
{
    view *v = state->input;
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &v->common;
        return 0;
    case ARGP_KEY_ARG:
        if (v->run_directory)
            return refuse_argument(state, argument);
        v->run_directory = argument;
        return 0;
    case ARGP_KEY_END:
        check_sense(state, v);
        return 0;
    case KEY_WEIGHTS:
        v->weights.spec = argument;
        return 0;
    case KEY_AXES:
        v->axes = parse_choice(state, "--axes", argument, axes_choices);
        return 0;
    case KEY_SEQUENCE:
        v->sequence = (ptrdiff_t)parse_integer(state, "--sequence", argument, 0, INT32_MAX);
        return 0;
    case KEY_TOKENS:
        v->tokens.path = argument;
        return 0;
    case KEY_KEY_TOKENS:
        v->key_tokens.path = argument;
        return 0;
    case KEY_TRACE:
        v->trace_path = argument;
        return 0;
    case KEY_TITLE:
        v->title = argument;
        return 0;
    case KEY_KIND:
        v->options.kind = (mh_trace_kind)parse_choice(state, "--kind", argument, kind_choices);
        return 0;
    case KEY_LAYER:
        v->options.layer = (ptrdiff_t)parse_integer(state, "--layer", argument, 0, INT32_MAX);
        return 0;
    case KEY_HEAD:
        v->options.head = (ptrdiff_t)parse_integer(state, "--head", argument, 0, INT32_MAX);
        return 0;
    case 'o':
        v->files[FILE_PAGE].path = output_path(argument);
        return 0;
    case KEY_BITS:
        v->options.bits = parse_choice(state, "--bits", argument, bits_choices);
        return 0;
    case KEY_TRACE_OUT:
        v->files[FILE_TRACE].path = output_path(argument);
        return 0;
    case KEY_TEXT:
        v->text = true;
        return 0;
    case KEY_COLOUR:
        v->colour = parse_choice(state, "--color", argument, colour_choices);
        return 0;
    case KEY_WIDTH:
        v->options.width = (size_t)parse_integer(state, "--width", argument, 20, 10000);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp_child children[] = {{&common_argp, 0, NULL, 0}, {NULL, 0, NULL, 0}};

static const struct argp view_argp = {
    .options = option_table,
    .parser = view_parse_option,
    .children = children,
    .args_doc = "(--weights FILE | --trace FILE | RUN) [-o FILE] [OPTION...]",
    .doc = "Shows what attention heads attend to: heatmaps in the terminal, or one HTML page with "
           "an overview, heatmaps, lines, alignment, the steps of the computation and what each "
           "head does. The page is self-contained and makes no network requests.\n\n"
           "Given RUN, the directory of a training run, it plots losses and BLEU: as text in the "
           "terminal, and as an SVG image. The run may still be in progress.\v"
           "Examples:\n"
           "  multihead view --weights w.npy --tokens \"The cat sat\"\n"
           "  multihead view --weights w.npy --tokens tokens.txt -o page.html\n"
           "  multihead view --trace t.safetensors --kind cross --layer 5 --head 0\n"
           "  multihead attend --q q.npy --k k.npy --v v.npy --weights w.npy &&\n"
           "      multihead view --weights w.npy -o page.html\n"
           "  multihead view run/\n",
};

// ---- the terminal -------------------------------------------------------------------------------

static int view_print_text(view *v)
{
    mh_buffer text = {0};
    v->options.colour =
        v->colour == COLOUR_ALWAYS || (v->colour == COLOUR_AUTO && terminal_has_colours());
    mh_status status = mh_view_text(v->context, &v->options, &v->trace, &text);
    if (status != MH_OK)
        return complain_status(v->context, status, NULL);
    fwrite(text.data, 1, text.size, stdout);
    mh_buffer_free(v->context, &text);
    return EXIT_DONE;
}

// ---- control flow -------------------------------------------------------------------------------

static int view_attention(view *v)
{
    int code = view_read_inputs(v);
    const bool files = outputs_wanted(v->files, 0, FILE_COUNT);
    if (code == EXIT_DONE && files)
        code = view_files_save(v->context, &v->options, &v->trace, &v->files[FILE_PAGE],
                               &v->files[FILE_TRACE]);
    if (code == EXIT_DONE && (v->text || !files))
        code = view_print_text(v);
    return code;
}

static int run_view(int argc, char **argv)
{
    view v = {.common = {.command = &view_command},
              .weights = {.option = "--weights"},
              .sequence = -1,
              .tokens = {.option = "--tokens"},
              .key_tokens = {.option = "--key-tokens"},
              .files = {[FILE_PAGE] = {.option = "-o"}, [FILE_TRACE] = {.option = "--trace-out"}},
              .options = mh_view_options_default()};
    v.options.width = 0; // the terminal's
    int code = parse_arguments(&view_argp, argc, argv, &v);
    if (v.options.width == 0)
        v.options.width = terminal_width(STDOUT_FILENO);
    if (code == EXIT_DONE)
        code = open_context(&v.common, &v.context);
    if (code == EXIT_DONE)
        code = v.run_directory ? view_run(&v) : view_attention(&v);
    view_close_inputs(&v);
    mh_context_free(v.context);
    return code;
}

const command view_command = {
    .name = "view",
    .summary = "show what heads attend to, or the curve of a training run",
    .argp = &view_argp,
    .run = run_view,
};
