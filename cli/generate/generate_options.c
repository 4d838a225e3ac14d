// SPDX-License-Identifier: MIT
// The options of `multihead generate`.
#include "generate_parts.h"
#include "messages.h"
#include "view/view_files.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    KEY_MAX_TOKENS = 'n',
    KEY_TEMPERATURE = 0x100,
    KEY_TOP_K,
    KEY_TOP_P,
    KEY_MIN_P,
    KEY_PENALTY,
    KEY_SEED,
    KEY_STOP,
    KEY_BEAM,
    KEY_BATCH,
    KEY_DEFAULTS,
    KEY_ECHO,
    KEY_TOP_LOGPROBS,
    KEY_CHAT,
    KEY_SYSTEM,
    KEY_TEMPLATE,
    KEY_OFF,
    KEY_SHOW,
    KEY_PAGE,
    KEY_TRACE_OUT,
    KEY_LAYER,
    KEY_HEAD,
    KEY_MAX_LENGTH,
    KEY_DO_SAMPLE,
    KEY_PROMPT = 'p',
};

static const struct argp_option option_table[] = {
    {NULL, 0, NULL, 0, "How tokens are chosen", 1},
    {"max-tokens", KEY_MAX_TOKENS, "N", 0, "generate at most N tokens. Default: 128", 0},
    ALIAS("max-new-tokens"),
    {"max-length", KEY_MAX_LENGTH, "N", OPTION_HIDDEN, "Hugging Face's: with the prompt's tokens",
     0},
    {"do-sample", KEY_DO_SAMPLE, NULL, OPTION_HIDDEN, "Hugging Face's: leads to --temperature", 0},
    {"prompt", KEY_PROMPT, "TEXT", OPTION_HIDDEN, "llama.cpp's: leads to TEXT by itself", 0},
    {"temperature", KEY_TEMPERATURE, "X", 0,
     "sample from softmax(logits / X). Default: 0, always the likeliest token", 0},
    ALIAS("temp"),
    {"top-k", KEY_TOP_K, "N", 0, "sample among the N likeliest tokens. Default: 0, all", 0},
    {"top-p", KEY_TOP_P, "X", 0,
     "sample among the fewest likeliest tokens whose probabilities reach X. Default: 1, all", 0},
    {"min-p", KEY_MIN_P, "X", 0,
     "sample among tokens with at least X times the highest probability. Default: 0, all", 0},
    {"repetition-penalty", KEY_PENALTY, "X", 0,
     "divide positive logits of tokens that have occurred by X, multiply negative ones. Default: 1",
     0},
    {"seed", KEY_SEED, "N", 0, "of the samples: the same seed gives the same text. Default: 0", 0},
    {"beam", KEY_BEAM, "N", 0, "beam search with N hypotheses. Default: 1, none", 0},
    ALIAS("num-beams"),
    {"stop", KEY_STOP, "TEXT", 0, "end before this text; may be given several times", 0},
    {"model-defaults", KEY_DEFAULTS, NULL, 0,
     "take sampling, beam and length from the model's generation_config.json where no option says "
     "otherwise; 'multihead info -m MODEL' shows them",
     0},
    {"batch", KEY_BATCH, "N", 0,
     "texts that are continued at a time; results do not depend on it. Default: 16", 0},
    {NULL, 0, NULL, 0, "Conversations", 2},
    {"chat", KEY_CHAT, NULL, 0,
     "a text is a message to the assistant, written with the model's chat template", 0},
    {"system", KEY_SYSTEM, "TEXT", 0, "system message. Default: the template's own, if any", 0},
    {"template", KEY_TEMPLATE, "NAME", 0,
     "chatml, llama3, gemma, mistral or zephyr, for a model without a template, or with one that "
     "is not known",
     0},
    {NULL, 0, NULL, 0, "What to print", 3},
    {"echo", KEY_ECHO, NULL, 0, "the prompt before its continuation", 0},
    {"top-logprobs", KEY_TOP_LOGPROBS, "N", 0,
     "with --json: the N likeliest tokens of each step, too", 0},
    {NULL, 0, NULL, 0, "Attention, in one pass over prompt and continuation", 4},
    {"show-attention", KEY_SHOW, NULL, 0, "heatmaps of a layer's heads after the texts", 0},
    {"attention", KEY_PAGE, "FILE", 0,
     "write one HTML page with every view of every head; for one text", 0},
    {"page", 0, NULL, OPTION_ALIAS | OPTION_HIDDEN, NULL, 0}, // as look calls it
    {"trace-out", KEY_TRACE_OUT, "FILE", 0, "write a trace, for 'multihead view'; for one text", 0},
    {"layer", KEY_LAYER, "N", 0, "from 0. Default: the last in heatmaps, an overview in the page",
     0},
    {"head", KEY_HEAD, "N", 0, "from 0. Default: all", 0},
    {"disable-head", KEY_OFF, "L:H", 0,
     "switch a head off, layer and head from 0; L is all heads of a layer; may be given several "
     "times",
     0},
    {NULL, 0, NULL, 0, NULL, 0},
};

static double parse_in(struct argp_state *state, const char *option, const char *text, double low,
                       bool low_allowed, double high, const char *expected)
{
    const double x = parse_number(state, option, text);
    if (!(x > low || (low_allowed && x == low)) || !(x <= high))
        argp_error(state, "%s: found '%s', expected %s", option, text, expected);
    return x;
}

static void add_stop(struct argp_state *state, generate *g, const char *text)
{
    if (!*text)
        argp_error(state, "--stop: found an empty text");
    if (mh_utf8_valid(text, strlen(text)) < strlen(text))
        argp_error(state, "--stop: the text is not valid UTF-8");
    mh_text *stops = realloc(g->stops, (g->stop_count + 1) * sizeof *stops);
    if (!stops)
        refuse_memory();
    g->stops = stops;
    g->stops[g->stop_count++] = (mh_text){text, strlen(text)};
}

// ---- what does not go together ------------------------------------------------------------------

// An option that only samples need; NULL if there is none.
static const char *sampling_option(const generate *g)
{
    const struct {
        unsigned given;
        const char *option;
    } filters[] = {{g->options.top_k ? GIVEN_TOP_K : 0, "--top-k"},
                   {GIVEN_TOP_P, "--top-p"},
                   {GIVEN_MIN_P, "--min-p"}};
    for (size_t i = 0; i < sizeof filters / sizeof *filters; i++)
        if (g->given & filters[i].given)
            return filters[i].option;
    return NULL;
}

static void check_sampling_options(struct argp_state *state, const generate *g)
{
    const bool samples = g->options.temperature > 0 || g->model_defaults; // which are read later
    if (sampling_option(g) && !samples)
        argp_error(state, "%s is for sampling, expected --temperature above 0, too",
                   sampling_option(g));
    if (g->options.beam > 1 && g->options.temperature > 0)
        argp_error(state, "--beam and --temperature: expected one of them, beam search does not "
                          "sample");
}

static void check_chat_options(struct argp_state *state, const generate *g)
{
    static const char *const names[] = {"chatml", "llama3", "gemma", "mistral", "zephyr"};
    bool known = !g->template;
    for (size_t i = 0; i < sizeof names / sizeof *names && !known; i++)
        known = strcmp(names[i], g->template) == 0;
    if ((g->system || g->template) && !g->chat)
        argp_error(state, "%s is for --chat, which is missing",
                   g->system ? "--system" : "--template");
    if (!known)
        argp_error(state,
                   "--template: found '%s', expected chatml, llama3, gemma, mistral or zephyr",
                   g->template);
    if (g->system && mh_utf8_valid(g->system, strlen(g->system)) < strlen(g->system))
        argp_error(state, "--system: the text is not valid UTF-8");
}

static void check_output_options(struct argp_state *state, const generate *g)
{
    const text_arguments *a = &g->arguments;
    const output files[] = {g->page, g->trace};
    if (g->options.top_logprobs && !a->json)
        argp_error(state, "--top-logprobs is for --json, which is missing");
    if (g->echo && a->json)
        argp_error(state, "--echo cannot be combined with --json, which has the prompt");
    if (g->shows_attention && a->json)
        argp_error(state, "--show-attention cannot be combined with --json");
    if ((g->view.layer >= 0 || g->view.head >= 0) && !g->shows_attention && !g->page.path)
        argp_error(state, "--layer and --head are for --show-attention or --attention");
    if ((g->page.path || g->trace.path) && a->count != 1)
        argp_error(state, "%s: found %zu texts on the command line, expected one",
                   g->page.path ? "--attention" : "--trace-out", a->count);
    view_files_check(state, &g->page);
    outputs_check(state, files, 2, "the text");
}

// ---- the table's parser -------------------------------------------------------------------------

static bool parse_choosing(int key, char *argument, struct argp_state *state, generate *g)
{
    mh_generate_options *o = &g->options;
    switch (key) {
    case KEY_MAX_TOKENS:
        o->max_tokens = (size_t)parse_integer(state, "--max-tokens", argument, 1, INT32_MAX);
        g->given |= GIVEN_TOKENS;
        return true;
    case KEY_TEMPERATURE:
        o->temperature = parse_in(state, "--temperature", argument, 0, true, 1e6, "0 to 1000000");
        g->given |= GIVEN_TEMPERATURE;
        return true;
    case KEY_TOP_K:
        o->top_k = (size_t)parse_integer(state, "--top-k", argument, 0, INT32_MAX);
        g->given |= GIVEN_TOP_K;
        return true;
    case KEY_TOP_P:
        o->top_p = parse_in(state, "--top-p", argument, 0, false, 1, "more than 0, up to 1");
        g->given |= GIVEN_TOP_P;
        return true;
    case KEY_MIN_P:
        o->min_p = parse_in(state, "--min-p", argument, 0, true, 1, "0 to 1");
        g->given |= GIVEN_MIN_P;
        return true;
    case KEY_PENALTY:
        o->repetition_penalty = parse_in(state, "--repetition-penalty", argument, 0, false, 1e6,
                                         "more than 0, up to 1000000");
        g->given |= GIVEN_PENALTY;
        return true;
    case KEY_BEAM:
        o->beam = (size_t)parse_integer(state, "--beam", argument, 1, 1024);
        g->given |= GIVEN_BEAM;
        return true;
    case KEY_SEED:
        o->seed = (uint64_t)parse_integer(state, "--seed", argument, 0, INT64_MAX);
        return true;
    case KEY_BATCH:
        o->batch = (size_t)parse_integer(state, "--batch", argument, 1, 65536);
        return true;
    case KEY_STOP:
        add_stop(state, g, argument);
        return true;
    case KEY_DEFAULTS:
        g->model_defaults = true;
        return true;
    case KEY_MAX_LENGTH:
        o->max_length = (size_t)parse_integer(state, "--max-length", argument, 1, INT32_MAX);
        if (!(g->given & GIVEN_TOKENS))
            o->max_tokens = INT32_MAX;
        g->given |= GIVEN_TOKENS;
        return true;
    case KEY_DO_SAMPLE:
        argp_error(state, "--do-sample: expected --temperature X, which samples if X is above 0");
        return true;
    case KEY_PROMPT:
        argp_error(state,
                   "--prompt: expected the text by itself, multihead generate -m MODEL TEXT");
        return true;
    default:
        return false;
    }
}

static error_t parse_showing(int key, char *argument, struct argp_state *state, generate *g)
{
    switch (key) {
    case KEY_CHAT:
        g->chat = true;
        return 0;
    case KEY_SYSTEM:
        g->system = argument;
        return 0;
    case KEY_TEMPLATE:
        g->template = argument;
        return 0;
    case KEY_ECHO:
        g->echo = true;
        return 0;
    case KEY_TOP_LOGPROBS:
        g->options.top_logprobs = (size_t)parse_integer(state, "--top-logprobs", argument, 1, 1024);
        return 0;
    case KEY_OFF:
        off_add(state, &g->off, argument);
        return 0;
    case KEY_SHOW:
        g->shows_attention = true;
        return 0;
    case KEY_PAGE:
        g->page.path = output_path(argument);
        return 0;
    case KEY_TRACE_OUT:
        g->trace.path = output_path(argument);
        return 0;
    case KEY_LAYER:
        g->view.layer = (ptrdiff_t)parse_integer(state, "--layer", argument, 0, INT32_MAX);
        return 0;
    case KEY_HEAD:
        g->view.head = (ptrdiff_t)parse_integer(state, "--head", argument, 0, INT32_MAX);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static error_t generate_parse_option(int key, char *argument, struct argp_state *state)
{
    generate *g = state->input;
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &g->arguments;
        return 0;
    case ARGP_KEY_END:
        check_sampling_options(state, g);
        check_chat_options(state, g);
        check_output_options(state, g);
        return 0;
    default:
        return parse_choosing(key, argument, state, g) ? 0 : parse_showing(key, argument, state, g);
    }
}

static const struct argp_child children[] = {{&whole_text_argp, 0, NULL, 0}, {NULL, 0, NULL, 0}};

const struct argp generate_argp = {
    .options = option_table,
    .parser = generate_parse_option,
    .children = children,
    .args_doc = "[-m MODEL] [TEXT...] [OPTION...]",
    .doc = "Continues texts with a causal language model. The continuation appears as it is "
           "generated, and ends with the model's end-of-text token, before a --stop text, or after "
           "--max-tokens. Without texts, on a terminal, there is a prompt to type at; with --chat "
           "that is a conversation. Without -m the model is en-lm, a small one of English.\v"
           "Examples:\n"
           "  multihead generate \"Once upon a time\"\n"
           "  multihead generate -m SmolLM2-135M \"Gravity is\"\n"
           "  multihead generate -m SmolLM2-135M -n 40 --temperature 0.8 --top-p 0.95 --seed 7 "
           "\"Once upon a time\"\n"
           "  multihead generate -m SmolLM2-135M-Instruct --chat \"What is the capital of "
           "France?\"\n"
           "  multihead generate -m gpt2 --json --top-logprobs 3 <prompts.txt\n",
};

// ---- the model's own ----------------------------------------------------------------------------

// The ranges of the options.
static int check_defaults(const generate *g, const mh_generation_defaults *d)
{
    const struct {
        const char *name;
        double found, low, high;
        const char *expected;
    } checks[] = {{"temperature", d->temperature, 0, 1e6, "0 to 1000000"},
                  {"top_p", d->top_p, 0, 1, "0 to 1"},
                  {"min_p", d->min_p, 0, 1, "0 to 1"},
                  {"repetition_penalty", d->repetition_penalty, 0, 1e6, "0 to 1000000"},
                  {"num_beams", (double)d->beam, 0, 1024, "1 to 1024"}};
    for (size_t i = 0; i < sizeof checks / sizeof *checks; i++)
        if (!(checks[i].found >= checks[i].low && checks[i].found <= checks[i].high)) {
            complain("%s/generation_config.json: \"%s\": found %g, expected %s",
                     g->arguments.directory, checks[i].name, checks[i].found, checks[i].expected);
            return EXIT_INPUT;
        }
    return EXIT_DONE;
}

static void set_default(const generate *g, unsigned given, double found, double *to)
{
    if (!(g->given & given) && found > 0)
        *to = found;
}

// Beam search does not sample: what an option chooses wins over a default of the other.
static int choose_search(generate *g, const mh_generation_defaults *d)
{
    mh_generate_options *o = &g->options;
    const bool searches = o->beam > 1, samples = o->temperature > 0;
    if (!searches && !samples && d->sample && d->beam > 1 &&
        !(g->given & (GIVEN_TEMPERATURE | GIVEN_BEAM))) {
        complain("%s/generation_config.json: found \"do_sample\" and \"num_beams\": %zu, and beam "
                 "search does not sample: expected --beam 1 or --temperature 0, too",
                 g->arguments.directory, d->beam);
        return EXIT_INPUT;
    }
    if (d->sample && !searches && !(g->given & GIVEN_TEMPERATURE))
        o->temperature = d->temperature > 0 ? d->temperature : 1;
    if (d->beam && !samples && !(g->given & GIVEN_BEAM) && o->temperature == 0)
        o->beam = d->beam;
    return EXIT_DONE;
}

int use_model_defaults(generate *g)
{
    enum { USUAL_TOP_K = 50 }; // of transformers, where the file has none
    const mh_generation_defaults *d = mh_model_generation_defaults(g->arguments.model);
    mh_generate_options *o = &g->options;
    int code = check_defaults(g, d);
    if (code == EXIT_DONE)
        code = choose_search(g, d);
    if (code != EXIT_DONE)
        return code;
    if (o->temperature == 0 && sampling_option(g)) {
        complain("%s is for sampling, which the model's defaults do not ask for: expected "
                 "--temperature above 0, too",
                 sampling_option(g));
        return EXIT_USAGE;
    }
    if (o->temperature > 0 && !(g->given & GIVEN_TOP_K))
        o->top_k = d->top_k ? d->top_k : USUAL_TOP_K;
    set_default(g, GIVEN_TOP_P, d->top_p, &o->top_p);
    set_default(g, GIVEN_MIN_P, d->min_p, &o->min_p);
    set_default(g, GIVEN_PENALTY, d->repetition_penalty, &o->repetition_penalty);
    set_default(g, 0, d->length_penalty, &o->length_penalty);
    if (g->given & GIVEN_TOKENS)
        return EXIT_DONE;
    if (d->max_new_tokens) {
        o->max_tokens = d->max_new_tokens < INT32_MAX ? d->max_new_tokens : INT32_MAX;
    } else if (d->max_length) {
        o->max_tokens = INT32_MAX;
        o->max_length = d->max_length;
    }
    return EXIT_DONE;
}
