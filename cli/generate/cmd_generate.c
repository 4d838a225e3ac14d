// SPDX-License-Identifier: MIT
// `multihead generate`: continues texts with a causal language model.
#include "generate_parts.h"
#include "messages.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// ---- checks -------------------------------------------------------------------------------------

static int check_generator(generate *g)
{
    const mh_model_info *info = mh_model_describe(g->arguments.model);
    if (!(info->abilities & MH_CAN_GENERATE)) {
        const char *other = info->abilities & MH_CAN_TRANSLATE    ? "translate"
                            : info->abilities & MH_CAN_TRANSCRIBE ? "transcribe"
                            : info->abilities & MH_CAN_FILL       ? "fill"
                            : info->abilities & MH_CAN_CLASSIFY   ? "classify"
                                                                  : "embed";
        complain("%s: this model (%s%s%s) is no causal language model; multihead %s runs it",
                 g->arguments.directory, info->family, *info->architecture ? ", " : "",
                 info->architecture, other);
        return EXIT_INPUT;
    }
    int code = check_index("--layer", g->view.layer, info->layers, "layer", "layers");
    if (code == EXIT_DONE)
        code = check_index("--head", g->view.head, info->heads, "head", "heads");
    if (code == EXIT_DONE)
        code = off_find(&g->off, info, &g->disabled);
    g->options.disabled_heads = g->disabled;
    if (code == EXIT_DONE && g->model_defaults)
        code = use_model_defaults(g);
    return code;
}

// ---- all texts ----------------------------------------------------------------------------------

static int show_results(const generate *g, const mh_generations *made)
{
    const text_arguments *a = &g->arguments;
    int code = EXIT_DONE;
    for (size_t i = 0; i < a->count && code == EXIT_DONE && attention_asked(g); i++)
        code = show_attention(g, a->texts[i], mh_generations_at(made, i));
    return code;
}

static int generate_all(const generate *g, const mh_text *prompts)
{
    const text_arguments *a = &g->arguments;
    mh_generate_options o = g->options;
    ordered_text printed;
    mh_generations *made = NULL;
    int code = ordered_text_open(g, a->count, &printed);
    if (code != EXIT_DONE)
        return code;
    o.on_token = ordered_text_add;
    o.user = &printed;
    o.add_special_tokens = !g->chat;
    mh_status status = mh_generate_texts(a->context, a->model, &o, prompts, a->count, &made);
    if (status)
        code = complain_generation(a, status);
    const int closed = ordered_text_close(&printed, made);
    if (code == EXIT_DONE)
        code = closed;
    if (code == EXIT_DONE)
        code = show_results(g, made);
    mh_generations_free(made);
    return code;
}

// The texts as messages to an assistant.
static int generate_chats(const generate *g)
{
    const text_arguments *a = &g->arguments;
    mh_buffer *texts = calloc(a->count + 1, sizeof *texts);
    mh_text *prompts = calloc(a->count + 1, sizeof *prompts);
    int code = EXIT_DONE;
    if (!texts || !prompts) {
        complain("out of memory for %zu texts", a->count);
        code = EXIT_MEMORY;
    }
    for (size_t i = 0; i < a->count && code == EXIT_DONE; i++) {
        code = make_prompt(g, a->texts[i], &texts[i]);
        prompts[i] = (mh_text){texts[i].data, texts[i].size};
    }
    if (code == EXIT_DONE)
        code = generate_all(g, prompts);
    for (size_t i = 0; i < a->count && texts; i++)
        mh_buffer_free(a->context, &texts[i]);
    free(texts);
    free(prompts);
    return code;
}

static int generate_texts(generate *g)
{
    text_arguments *a = &g->arguments;
    const char *path = a->input_path ? a->input_path : "-";
    if (a->count == 0 && strcmp(path, "-") == 0 && isatty(STDIN_FILENO)) {
        if (!a->json && !attention_asked(g) && !g->echo)
            return run_prompts(g);
        complain("found no text, expected one on the command line or --input for %s",
                 a->json   ? "--json"
                 : g->echo ? "--echo"
                           : "attention");
        return EXIT_USAGE;
    }
    int code = text_arguments_read(a);
    if (code != EXIT_DONE)
        return code;
    return g->chat ? generate_chats(g) : generate_all(g, a->texts);
}

static int run_generate(int argc, char **argv)
{
    generate g = {.arguments = text_arguments_default(&generate_command),
                  .options = mh_generate_options_default(),
                  .view = mh_view_options_default(),
                  .page = {.option = "--attention"},
                  .trace = {.option = "--trace-out"}};
    g.view.width = 0; // the terminal's
    g.arguments.loading.precision = MH_PRECISION_AUTO;
    g.arguments.default_model = "en-lm";
    int code = parse_arguments(&generate_argp, argc, argv, &g);
    g.options.stop = g.stops;
    g.options.stop_count = g.stop_count;
    if (code == EXIT_DONE)
        code = text_arguments_open(&g.arguments);
    if (code == EXIT_DONE)
        code = check_generator(&g);
    if (code == EXIT_DONE && g.chat)
        code = check_template(&g);
    if (code == EXIT_DONE)
        code = outputs_writable((output[]){g.page, g.trace}, 2);
    if (code == EXIT_DONE)
        code = generate_texts(&g);
    free(g.stops);
    free(g.disabled);
    free(g.off.names);
    text_arguments_close(&g.arguments);
    return code;
}

const command generate_command = {
    .name = "generate",
    .summary = "continue texts with a causal language model",
    .argp = &generate_argp,
    .run = run_generate,
};
