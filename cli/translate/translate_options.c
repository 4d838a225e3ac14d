// SPDX-License-Identifier: MIT
// The options of `multihead translate`; see translate.h.
#include "model_path.h"
#include "translate.h"

enum {
    KEY_INPUT = 0x100,
    KEY_BEAM,
    KEY_N_BEST,
    KEY_PENALTY,
    KEY_FACTOR,
    KEY_BATCH,
    KEY_DTYPE,
    KEY_SCORES,
    KEY_ALIGNMENT,
    KEY_LAYER,
    KEY_JSON,
    KEY_DISABLE,
    KEY_SHOW,
    KEY_PAGE,
    KEY_TRACE_OUT,
    KEY_KIND,
    KEY_VIEW_LAYER,
    KEY_HEAD,
    KEY_WIDTH,
    KEY_NO_VERIFY,
    KEY_TARGET,
    KEY_TOP_LOGPROBS,
};

static const struct argp_option option_table[] = {
    {NULL, 0, NULL, 0, "Model and texts", 1},
    {"model", 'm', "MODEL", 0,
     "a directory with config.json, tokenizer.json and model.safetensors, or a published "
     "encoder-decoder's (Marian, Bart, T5) as Hugging Face has it; or the name of one in "
     "$MULTIHEAD_MODELS, ./models or where models are installed. Default: " DEFAULT_MODEL,
     0},
    {"no-verify", KEY_NO_VERIFY, NULL, 0,
     "load the model even if its checksums do not match: it was changed after saving", 0},
    {"input", KEY_INPUT, "FILE", 0, "translate the lines of a file; - is standard input", 0},
    {NULL, 0, NULL, 0, "Search", 2},
    {"beam", KEY_BEAM, "N", 0, "hypotheses per sentence; 1: greedy search. Default: 4", 0},
    ALIAS("num-beams"),
    {"length-penalty", KEY_PENALTY, "X", 0,
     "score = log-probability / tokens^X, 0 to 10; larger prefers longer ones. Default: 1", 0},
    {"max-length-factor", KEY_FACTOR, "X", 0,
     "at most X * source tokens + 20 tokens, up to the model's limit. Default: 2", 0},
    {"target", KEY_TARGET, "TEXT", 0,
     "do not search: score this translation of the one text. Prints the log-probability of each of "
     "its tokens and of all; with --json and for attention as of a translation that was found",
     0},
    {"top-logprobs", KEY_TOP_LOGPROBS, "N", 0,
     "with --target and --json: also the N likeliest tokens in place of each of its tokens", 0},
    {"disable-head", KEY_DISABLE, "HEAD", 0,
     "switch a head off: enc.2.3, dec.1.0 or cross.0.3, layer and head from 0; 0:3 is cross.0.3, "
     "enc.2 all heads of a layer; may be given several times",
     0},
    {NULL, 0, NULL, 0, "What to print", 3},
    {"output", 'o', "FILE", 0, "write to a file, atomically; - is standard output", 0},
    {"n-best", KEY_N_BEST, "N", 0,
     "the N best of each text, one per line, after the text's number and a tab; at most --beam, "
     "whose default grows to N. Default: 1",
     0},
    {"scores", KEY_SCORES, NULL, 0, "the score before each translation", 0},
    {"alignment", KEY_ALIGNMENT, "KIND", 0,
     "word alignment by cross-attention: hard, pairs SOURCE-TARGET after each translation, words "
     "from 0; soft, a line of weights for each of its words",
     0},
    {"alignment-layer", KEY_LAYER, "N", 0,
     "the decoder layer, from 0, whose heads are averaged. Default: all layers", 0},
    {"json", KEY_JSON, NULL, 0, "print one JSON object per text", 0},
    {NULL, 0, NULL, 0, "Attention, by one more pass over the given translation", 4},
    {"show-attention", KEY_SHOW, NULL, 0, "heatmaps of a layer's heads after each translation", 0},
    {"attention", KEY_PAGE, "FILE", 0,
     "write one HTML page with every view of every head; for one text", 0},
    {"page", 0, NULL, OPTION_ALIAS | OPTION_HIDDEN, NULL, 0}, // as look calls it
    {"trace-out", KEY_TRACE_OUT, "FILE", 0,
     "write a trace (docs/reference/trace-format.md) for 'multihead view'; for one text", 0},
    {"kind", KEY_KIND, "KIND", 0, "what is shown: encoder, decoder or cross. Default: cross", 0},
    {"layer", KEY_VIEW_LAYER, "N", 0,
     "from 0. Default: the last in heatmaps, an overview in the page", 0},
    {"head", KEY_HEAD, "N", 0, "from 0. Default: all", 0},
    {"width", KEY_WIDTH, "N", 0, "columns of heatmaps. Default: the terminal's, or 80", 0},
    {NULL, 0, NULL, 0, "Speed", 5},
    {"batch", KEY_BATCH, "N", 0, "sentences per batch. Default: 32", 0},
    {"dtype", KEY_DTYPE, "NAME", 0,
     "type of the operands of products, f32 or bf16. Default: bf16 at levels avx512bf16 and amx, "
     "else f32",
     0},
    {NULL, 0, NULL, 0, NULL, 0},
};

static const choice alignment_choices[] = {
    {"hard", ALIGNMENT_HARD}, {"soft", ALIGNMENT_SOFT}, {NULL, 0}};
static const choice kind_choices[] = {{"encoder", MH_TRACE_ENCODER},
                                      {"decoder", MH_TRACE_DECODER},
                                      {"cross", MH_TRACE_CROSS},
                                      {NULL, 0}};

static void translate_check_options(struct argp_state *state, translate *t)
{
    mh_translate_options *o = &t->options;
    if (t->input_path && t->text_count > 0)
        argp_error(state, "--input: there are texts on the command line already");
    if (t->target && t->text_count != 1)
        argp_error(state, "--target: found %zu texts on the command line, expected one",
                   t->text_count);
    if (t->target && (t->beam_given || o->n_best > 1))
        argp_error(state, "--target: nothing is searched, --beam and --n-best do not apply");
    if (o->top_logprobs && !(t->target && t->printing.json))
        argp_error(state, "--top-logprobs is for --target with --json, %s is missing",
                   t->target ? "--json" : "--target");
    if (!t->beam_given && o->beam < o->n_best)
        o->beam = o->n_best;
    if (o->n_best > o->beam)
        argp_error(state, "--n-best: found %zu, expected at most the beam, %zu", o->n_best,
                   o->beam);
    if (o->alignment_layer >= 0 && t->printing.alignment == ALIGNMENT_NONE)
        argp_error(state, "--alignment-layer is for --alignment, which is missing");
    if (t->attention.shows && t->printing.json)
        argp_error(state, "--show-attention cannot be combined with --json");
    const mh_view_options *v = &t->attention.options;
    if ((v->kind != MH_TRACE_ANY || v->layer >= 0 || v->head >= 0) && !t->attention.shows &&
        !t->attention.page.path)
        argp_error(state, "--kind, --layer and --head are for --show-attention or --attention");
    if (v->width && !t->attention.shows)
        argp_error(state, "--width is for --show-attention, which is missing");
    if ((t->attention.page.path || t->attention.trace.path) && t->text_count != 1)
        argp_error(state, "%s: found %zu texts on the command line, expected one",
                   t->attention.page.path ? "--attention" : "--trace-out", t->text_count);
    const output files[] = {
        {.option = "-o", .path = t->output_path}, t->attention.page, t->attention.trace};
    view_files_check(state, &t->attention.page);
    outputs_check(state, files, 3, t->output_path ? NULL : "the translation");
    o->attention = t->printing.alignment != ALIGNMENT_NONE;
    t->printing.n_best = o->n_best;
}

static double parse_between(struct argp_state *state, const char *option, const char *text,
                            double low, double high)
{
    const double value = parse_number(state, option, text);
    if (value < low || value > high)
        argp_error(state, "%s: found '%s', expected %g to %g", option, text, low, high);
    return value;
}

static error_t parse_search(int key, char *argument, struct argp_state *state, translate *t)
{
    mh_translate_options *o = &t->options;
    switch (key) {
    case KEY_BEAM:
        o->beam = (size_t)parse_integer(state, "--beam", argument, 1, 1024);
        t->beam_given = true;
        return 0;
    case KEY_N_BEST:
        o->n_best = (size_t)parse_integer(state, "--n-best", argument, 1, 1024);
        return 0;
    case KEY_PENALTY:
        o->length_penalty = parse_between(state, "--length-penalty", argument, 0, 10);
        return 0;
    case KEY_FACTOR:
        o->max_length_factor = parse_between(state, "--max-length-factor", argument, 0, 1e6);
        return 0;
    case KEY_BATCH:
        o->batch = (size_t)parse_integer(state, "--batch", argument, 1, 65536);
        return 0;
    case KEY_LAYER:
        o->alignment_layer = (int)parse_integer(state, "--alignment-layer", argument, 0, INT32_MAX);
        return 0;
    case KEY_DISABLE:
        heads_add(state, &t->heads, argument);
        return 0;
    case KEY_TARGET:
        t->target = argument;
        return 0;
    case KEY_TOP_LOGPROBS:
        o->top_logprobs = (size_t)parse_integer(state, "--top-logprobs", argument, 1, 1024);
        return 0;
    case KEY_NO_VERIFY:
        t->loading.verify = false;
        return 0;
    case KEY_DTYPE:
        t->loading.precision =
            (mh_precision)parse_choice(state, "--dtype", argument, precision_choices);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static error_t parse_attention(int key, char *argument, struct argp_state *state, translate *t)
{
    attention *a = &t->attention;
    switch (key) {
    case KEY_SHOW:
        a->shows = true;
        return 0;
    case KEY_PAGE:
        a->page.path = output_path(argument);
        return 0;
    case KEY_TRACE_OUT:
        a->trace.path = output_path(argument);
        return 0;
    case KEY_KIND:
        a->options.kind = (mh_trace_kind)parse_choice(state, "--kind", argument, kind_choices);
        return 0;
    case KEY_VIEW_LAYER:
        a->options.layer = (ptrdiff_t)parse_integer(state, "--layer", argument, 0, INT32_MAX);
        return 0;
    case KEY_HEAD:
        a->options.head = (ptrdiff_t)parse_integer(state, "--head", argument, 0, INT32_MAX);
        return 0;
    case KEY_WIDTH:
        a->options.width = (size_t)parse_integer(state, "--width", argument, 20, 10000);
        return 0;
    default:
        return parse_search(key, argument, state, t);
    }
}

static error_t translate_parse_option(int key, char *argument, struct argp_state *state)
{
    translate *t = state->input;
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &t->common;
        return 0;
    case ARGP_KEY_ARGS:
        t->texts = state->argv + state->next;
        t->text_count = (size_t)(state->argc - state->next);
        return 0;
    case ARGP_KEY_END:
        translate_check_options(state, t);
        return 0;
    case 'm':
        t->model_name = argument;
        return 0;
    case 'o':
        t->output_path = output_path(argument);
        return 0;
    case KEY_INPUT:
        t->input_path = argument;
        return 0;
    case KEY_SCORES:
        t->printing.scores = true;
        return 0;
    case KEY_ALIGNMENT:
        t->printing.alignment = parse_choice(state, "--alignment", argument, alignment_choices);
        return 0;
    case KEY_JSON:
        t->printing.json = true;
        return 0;
    default:
        return parse_attention(key, argument, state, t);
    }
}

static const struct argp_child children[] = {{&common_argp, 0, NULL, 0}, {NULL, 0, NULL, 0}};

const struct argp translate_argp = {
    .options = option_table,
    .parser = translate_parse_option,
    .args_doc = "[-m MODEL] [OPTION...] [TEXT...]",
    .doc = "Translates sentences by beam search: each TEXT, or by default each line of --input or "
           "of standard input, as it arrives. A text too long for the model is translated sentence "
           "by sentence. The translation of a text depends only on the text, the model, the search "
           "options, --dtype and --isa: not on threads, batch size or the other texts.\v"
           "Examples:\n"
           "  multihead translate \"Il fait beau.\"\n"
           "  multihead translate -m fr-en --input fr.txt -o en.txt\n"
           "  multihead translate -m run --n-best 3 --scores < fr.txt\n"
           "  multihead translate -m opus-mt-fr-en \"Où est la gare ?\"\n"
           "  multihead translate --target \"The weather is fine.\" \"Il fait beau.\"\n"
           "  multihead translate --show-attention \"Il fait beau.\"\n"
           "  multihead translate --attention page.html \"Il fait beau.\"\n"
           "  mpirun -n 4 multihead translate --input fr.txt -o en.txt",
    .children = children,
};
