// SPDX-License-Identifier: MIT
// The model and the texts of a command; see text_arguments.h.
#include "pretrained/text_arguments.h"
#include "messages.h"
#include "model_path.h"
#include "pretrained/pictures.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    KEY_INPUT = 0x800, // above the keys of every command's own table
    KEY_TEXTS_JSON,
    KEY_DTYPE,
    KEY_NO_TRUNCATE,
};

// The options are in three tables: of commands that truncate long texts, of those that do not, and
// of those whose result is of all texts together.
// clang-format off
#define MODEL_OPTIONS                                                                              \
    {NULL, 0, NULL, 0, "Model and texts", 80},                                                     \
    {"model", 'm', "MODEL", 0,                                                                     \
     "a directory as Hugging Face publishes it, with config.json, weights and a tokenizer, or one " \
     "of 'multihead train'; or a GGUF file; or the name of one in $MULTIHEAD_MODELS, ./models or " \
     "where models are installed; or ORG/NAME in Hugging Face's cache. Nothing is downloaded",     \
     0},                                                                                           \
    {"input", KEY_INPUT, "FILE", 0,                                                                \
     "the texts are the lines of a file; - is standard input, which is the default", 0}
#define TYPE_OPTIONS                                                                               \
    {"dtype", KEY_DTYPE, "NAME", 0,                                                                \
     "type of the weights, f32 or bf16, which takes half the memory and is the faster one where "  \
     "reading them is the limit. Default: f32; of generate: bf16, unless the file has f32", 0}
#define JSON_OPTION(doc) {"json", KEY_TEXTS_JSON, NULL, 0, doc, 0}, {NULL, 0, NULL, 0, NULL, 0}
// clang-format on

static const struct argp_option text_table[] = {
    MODEL_OPTIONS,
    {"no-truncate", KEY_NO_TRUNCATE, NULL, 0,
     "a text that is too long for the model is an error; default: its end is cut off", 0},
    TYPE_OPTIONS,
    JSON_OPTION("print one JSON object per text"),
};

static const struct argp_option whole_text_table[] = {
    MODEL_OPTIONS, TYPE_OPTIONS, JSON_OPTION("print one JSON object per text")};

static const struct argp_option text_file_table[] = {MODEL_OPTIONS, TYPE_OPTIONS,
                                                     JSON_OPTION("print one JSON object")};

static void add_text(struct argp_state *state, text_arguments *t, const char *text)
{
    if (!t->given_texts) // as many as there are words, at most
        t->given_texts = calloc((size_t)state->argc, sizeof *t->given_texts);
    if (!t->given_texts)
        refuse_memory();
    t->given_texts[t->count++] = (mh_text){text, strlen(text)};
}

static void check_text_arguments(struct argp_state *state, const text_arguments *t)
{
    if (!t->model_name && !t->no_model && !t->default_model)
        argp_error(state, "-m is missing, expected the directory or the name of a model");
    if (t->input_path && t->count > 0)
        argp_error(state, "--input: there are texts on the command line already");
}

static error_t parse_text_argument(int key, char *argument, struct argp_state *state)
{
    text_arguments *t = state->input;
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &t->common;
        return 0;
    case ARGP_KEY_ARG:
        add_text(state, t, argument);
        return 0;
    case ARGP_KEY_END:
        check_text_arguments(state, t);
        return 0;
    case 'm':
        t->model_name = argument;
        return 0;
    case KEY_INPUT:
        t->input_path = argument;
        return 0;
    case KEY_TEXTS_JSON:
        t->json = true;
        return 0;
    case KEY_NO_TRUNCATE:
        t->truncate = false;
        return 0;
    case KEY_DTYPE:
        t->loading.precision =
            (mh_precision)parse_choice(state, "--dtype", argument, precision_choices);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp_child text_children[] = {{&common_argp, 0, NULL, 0}, {NULL, 0, NULL, 0}};

const struct argp text_argp = {
    .options = text_table,
    .parser = parse_text_argument,
    .children = text_children,
};

const struct argp whole_text_argp = {
    .options = whole_text_table,
    .parser = parse_text_argument,
    .children = text_children,
};

const struct argp text_file_argp = {
    .options = text_file_table,
    .parser = parse_text_argument,
    .children = text_children,
};

text_arguments text_arguments_default(const command *c)
{
    return (text_arguments){
        .common = {.command = c}, .loading = mh_model_options_default(), .truncate = true};
}

// ---- the model ----------------------------------------------------------------------------------

int open_model(const common_options *common, const char *name, const mh_model_options *options,
               char **directory, mh_context **context, mh_model **model)
{
    common_options verbose = *common;
    verbose.remarks = true;
    int code = model_path_find(name, directory);
    if (code == EXIT_DONE)
        code = open_context(&verbose, context);
    if (code != EXIT_DONE)
        return code;
    mh_status status = mh_model_load(*context, *directory, options, model);
    return status ? complain_input(*context, status) : EXIT_DONE;
}

int text_arguments_open(text_arguments *t)
{
    if (!t->model_name && t->default_model) {
        t->model_name = t->default_model;
        note("using the model %s; -m chooses another one", t->model_name);
    }
    int code =
        open_model(&t->common, t->model_name, &t->loading, &t->directory, &t->context, &t->model);
    const mh_model *text = code == EXIT_DONE ? mh_model_text_tower(t->model) : NULL;
    if (code == EXIT_DONE && !t->sounds &&
        (mh_model_describe(t->model)->abilities & MH_CAN_TRANSCRIBE)) {
        complain("%s: this model (%s) reads sound; 'multihead transcribe' and 'multihead look' "
                 "take sound files",
                 t->directory, mh_model_describe(t->model)->family);
        return EXIT_INPUT;
    }
    if (code == EXIT_DONE && !t->pictures && mh_model_describe(t->model)->image_size) {
        complain("%s: this model (%s) reads pictures; 'multihead classify', 'embed', 'look' and "
                 "'heads' take picture files",
                 t->directory, mh_model_describe(t->model)->family);
        return EXIT_INPUT;
    }
    if (code == EXIT_DONE && mh_model_describe(t->model)->image_size && !text)
        return EXIT_DONE;
    if (code == EXIT_DONE && !mh_model_tokenizer(text ? text : t->model)) {
        complain("%s: has no tokenizer, expected " TOKENIZER_FILES, t->directory);
        code = EXIT_INPUT;
    }
    return code;
}

// ---- texts --------------------------------------------------------------------------------------

// The name of a file may be any bytes.
static bool is_file(const text_arguments *t, mh_text argument)
{
    const bool hears = mh_model_describe(t->model)->abilities & MH_CAN_TRANSCRIBE;
    return (t->sounds && hears) || (t->pictures && is_picture(t, argument));
}

static int check_given_texts(const text_arguments *t)
{
    for (size_t i = 0; i < t->count; i++) {
        const mh_text text = t->given_texts[i];
        const size_t valid = mh_utf8_valid(text.bytes, text.size);
        if (valid < text.size && !is_file(t, text)) {
            complain("text %zu: byte %zu (0x%02x) is not valid UTF-8", i + 1, valid + 1,
                     (unsigned char)text.bytes[valid]);
            return EXIT_INPUT;
        }
    }
    return EXIT_DONE;
}

const char *text_arguments_kind(const text_arguments *t)
{
    const mh_model_info *info = mh_model_describe(t->model);
    if (t->sounds && (info->abilities & MH_CAN_TRANSCRIBE))
        return "sound files";
    if (!t->pictures || !info->image_size)
        return "texts";
    return mh_model_text_tower(t->model) ? "pictures or texts" : "pictures";
}

// Files are given by their names.
static void note_standard_input(const text_arguments *t)
{
    const char *kind = text_arguments_kind(t);
    const bool texts = strcmp(kind, "texts") == 0;
    note("%s%s are read from standard input, one per line; Ctrl-D ends them",
         texts ? "" : "names of ", kind);
}

int text_arguments_read(text_arguments *t)
{
    if (t->count > 0) {
        t->texts = t->given_texts;
        return check_given_texts(t);
    }
    const char *path = t->input_path ? t->input_path : "-";
    if (strcmp(path, "-") == 0 && isatty(STDIN_FILENO))
        note_standard_input(t);
    int code = lines_read(path, &t->lines);
    lines_clean(t->lines.items, t->lines.count, true);
    t->texts = t->lines.items;
    t->count = t->lines.count;
    return code;
}

int complain_texts(const text_arguments *t, mh_status status)
{
    const int code = complain_status(t->context, status, NULL);
    return status == MH_ERROR_ARGUMENT ? EXIT_INPUT : code;
}

int complain_text(const text_arguments *t, mh_status status, size_t number)
{
    static const char first[] = "text 1: "; // of the call's one text
    const char *message = mh_error_message(t->context);
    if (strncmp(message, first, sizeof first - 1) == 0)
        message += sizeof first - 1;
    complain("text %zu: %s", number, message);
    return status == MH_ERROR_MEMORY ? EXIT_MEMORY : EXIT_INPUT;
}

void text_arguments_close(text_arguments *t)
{
    if (t->truncated)
        note("%zu of %zu texts cut after %zu tokens, the longest input", t->truncated, t->count,
             mh_model_describe(t->model)->max_length);
    lines_free(&t->lines);
    free(t->given_texts);
    mh_model_free(t->model);
    mh_context_free(t->context);
    free(t->directory);
}
