// SPDX-License-Identifier: MIT
// The parts of `multihead generate`: options, what is printed, what heads attend to, and the prompt
// to type at.
#ifndef CLI_GENERATE_PARTS_H
#define CLI_GENERATE_PARTS_H

#include "look/look.h"
#include "outputs.h"
#include "pretrained/text_arguments.h"

#include <multihead/generate.h>
#include <multihead/view.h>

typedef struct generate {
    text_arguments arguments;
    mh_generate_options options; // as given; `given` says which were
    unsigned given;              // GIVEN_...
    mh_text *stops;
    size_t stop_count;
    bool echo, chat, model_defaults;
    const char *system, *template; // NULL: none, the model's own
    given_names off;
    bool *disabled;           // (layers, heads), or NULL
    mh_prompt_cache *history; // of a conversation, or NULL
    bool shows_attention;
    mh_view_options view;
    output page, trace;
} generate;

enum {
    GIVEN_TOKENS = 1,
    GIVEN_TEMPERATURE = 2,
    GIVEN_TOP_K = 4,
    GIVEN_TOP_P = 8,
    GIVEN_MIN_P = 16,
    GIVEN_PENALTY = 32,
    GIVEN_BEAM = 64,
};

extern const struct argp generate_argp; // its input is a generate

// Options that were not given, as the model's generation_config.json has them. Returns an exit
// code.
int use_model_defaults(generate *g);

// ---- printing -----------------------------------------------------------------------------------

// Prints texts in the order of their prompts while they are generated: the first that is not
// finished goes out as it comes, later ones wait. JSON objects are printed as soon as their text
// and all before it are finished.
typedef struct ordered_text {
    const generate *generate;
    size_t count, current, done;
    struct waiting_text *waiting; // (count)
    char *kept;                   // text of one prompt, for a conversation; NULL: not wanted
    size_t kept_size;
    bool keeps, failed, shows_progress;
} ordered_text;

// Returns an exit code after reporting lack of memory.
int ordered_text_open(const generate *g, size_t count, ordered_text *o);
mh_generate_action ordered_text_add(void *user, const mh_generated_token *token); // mh_generate_fn

// complain_texts(), which names the model if it is damaged: the texts are valid UTF-8 by then.
int complain_generation(const text_arguments *a, mh_status status);

// `made` is NULL if generation has failed.
int ordered_text_close(ordered_text *o, const mh_generations *made);

// ---- attention ----------------------------------------------------------------------------------

// Heatmaps, a page and a trace of one pass over prompt and generated tokens, as asked for. Returns
// an exit code.
int show_attention(const generate *g, mh_text prompt, const mh_generation *result);
bool attention_asked(const generate *g);

// Names of the tokens, each terminated, in one block to be freed; NULL if out of memory.
char **name_tokens(const mh_tokenizer *tokenizer, const int32_t *ids, size_t count);

// ---- conversations ------------------------------------------------------------------------------

// The prompt for a user's message alone, in *text, with the model's chat template, or as it is.
// Returns an exit code.
int make_prompt(const generate *g, mh_text message, mh_buffer *text);

// A note if that leaves the message out. Returns an exit code: a template that fails is reported.
int check_template(const generate *g);

// Reads prompts from the terminal until its end; with --chat they are a conversation.
int run_prompts(generate *g);

#endif
