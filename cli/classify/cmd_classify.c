// SPDX-License-Identifier: MIT
// `multihead classify`: the labels of texts or pictures by a classifier.
#include "classify/classify.h"
#include "messages.h"
#include "pretrained/labels.h"
#include "pretrained/pictures.h"
#include "report.h"

#include <math.h>
#include <stdlib.h>

enum { KEY_TOP = 0x100, KEY_PAIR, KEY_LABELS };

// ---- options ------------------------------------------------------------------------------------

static const struct argp_option option_table[] = {
    {NULL, 0, NULL, 0, "What to print", 1},
    {"top", KEY_TOP, "N", 0, "the N likeliest labels. Default: all", 0},
    {"labels", KEY_LABELS, "A,B,...", 0,
     "of a model that matches pictures with texts (CLIP): the labels to choose from", 0},
    {NULL, 0, NULL, 0, "Pairs of texts", 2},
    {"pair", KEY_PAIR, "TEXT", 0,
     "a second text, which the model reads together with each of the others: the hypothesis of "
     "natural language inference, for instance",
     0},
    {NULL, 0, NULL, 0, NULL, 0},
};

static error_t classify_parse_option(int key, char *argument, struct argp_state *state)
{
    classify *c = state->input;
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &c->arguments;
        return 0;
    case KEY_TOP:
        c->top = (size_t)parse_integer(state, "--top", argument, 1, INT32_MAX);
        return 0;
    case KEY_LABELS:
        c->given = argument;
        return 0;
    case KEY_PAIR:
        c->pair = argument;
        if (mh_utf8_valid(argument, strlen(argument)) < strlen(argument))
            argp_error(state, "--pair: the text is not valid UTF-8");
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp_child children[] = {{&text_argp, 0, NULL, 0}, {NULL, 0, NULL, 0}};

static const struct argp classify_argp = {
    .options = option_table,
    .parser = classify_parse_option,
    .children = children,
    .args_doc = "-m MODEL [TEXT|PICTURE...] [OPTION...]",
    .doc =
        "Classifies texts or picture files, by what the model reads: prints its labels with their "
        "probabilities, the likeliest first. The probability of a classifier with one label is the "
        "sigmoid of its logit. Pictures are PPM or PGM files, and with libmultihead-media PNG and "
        "JPEG; one that cannot be read is reported, and the others are classified.\v"
        "Examples:\n"
        "  multihead classify -m distilbert-base-uncased-finetuned-sst-2-english \"I like it.\"\n"
        "  multihead classify -m MODEL --top 1 --json <texts.txt\n"
        "  multihead classify -m vit-base-patch16-224 --top 5 cat.png dog.jpg\n"
        "  multihead classify -m clip-vit-base-patch32 --labels \"a cat,a dog\" picture.jpg\n"
        "  multihead classify -m nli-MODEL \"A man is eating.\" --pair \"Someone eats.\"\n",
};

// ---- one text -----------------------------------------------------------------------------------

mh_status rank_labels(const classify *c)
{
    return labels_rank(c->arguments.context, c->logits, c->labels, c->top, c->ids,
                       c->probabilities);
}

static mh_status classify_input(const classify *c, const mh_model_input *input)
{
    const text_arguments *a = &c->arguments;
    const size_t D = mh_model_describe(a->model)->d_model, rows = (size_t)input->starts[1];
    const size_t bytes = rows * D * sizeof(float);
    float *memory = mh_alloc(a->context, bytes);
    if (!memory)
        return MH_ERROR_MEMORY;
    mh_tensor hidden = mh_tensor_2d(memory, MH_F32, rows, D);
    mh_tensor logits = mh_tensor_2d(c->logits, MH_F32, 1, c->labels);
    mh_status status = mh_model_hidden(a->context, a->model, input, &hidden);
    if (!status)
        status = mh_model_classify(a->context, a->model, input, &hidden, &logits);
    mh_free(a->context, memory, bytes);
    return status ? status : rank_labels(c);
}

// ---- printing -----------------------------------------------------------------------------------

static const char *label_name(const classify *c, int32_t i)
{
    return c->names ? c->names[i] : mh_model_label(c->arguments.model, (size_t)i);
}

static void print_labels_json(const classify *c, mh_text text)
{
    printf("{\"input\": ");
    put_json_string(stdout, text.bytes, text.size);
    if (c->pair) {
        printf(", \"pair\": ");
        put_json_string(stdout, c->pair, strlen(c->pair));
    }
    printf(", \"labels\": [");
    for (size_t i = 0; i < c->top && c->ids[i] >= 0; i++) {
        const char *label = label_name(c, c->ids[i]);
        printf("%s{\"label\": ", i ? ", " : "");
        put_json_string(stdout, label ? label : "", label ? strlen(label) : 0);
        printf(", \"probability\": %.9g}", c->probabilities[i]);
    }
    printf("]}\n");
}

static void print_labels(const classify *c, mh_text text)
{
    fwrite(text.bytes, 1, text.size, stdout);
    putchar('\n');
    for (size_t i = 0; i < c->top && c->ids[i] >= 0; i++) {
        const char *label = label_name(c, c->ids[i]);
        printf("  %.4f  ", c->probabilities[i]);
        if (label)
            printf("%s\n", label);
        else
            printf("label %d\n", (int)c->ids[i]);
    }
}

int print_result(const classify *c, mh_text argument, mh_text name)
{
    for (size_t i = 0; i < c->labels; i++)
        if (!isfinite(c->logits[i])) {
            complain("%.*s: the logits are NaN or infinite, the model's weights or settings are "
                     "damaged",
                     (int)name.size, name.bytes);
            return EXIT_INPUT;
        }
    (c->arguments.json ? print_labels_json : print_labels)(c, argument);
    return EXIT_DONE;
}

// ---- control flow -------------------------------------------------------------------------------

static mh_status classify_one(classify *c, mh_text text)
{
    text_arguments *a = &c->arguments;
    mh_model_texts *encoded;
    mh_status status = mh_model_encode(a->context, a->model, a->truncate, &text, 1, &encoded);
    if (status)
        return status;
    a->truncated += mh_model_texts_encoding(encoded, 0)->truncated;
    status = classify_input(c, mh_model_texts_input(encoded));
    mh_model_texts_free(a->context, encoded);
    return status;
}

// The tokens of a pair, with token types.
static mh_status classify_encoding(const classify *c, const mh_encoding *encoding)
{
    mh_context *context = c->arguments.context;
    const int64_t starts[2] = {0, (int64_t)encoding->count};
    const size_t bytes = (encoding->count + 1) * sizeof(int32_t);
    int32_t *types = mh_alloc(context, bytes);
    if (!types)
        return MH_ERROR_MEMORY;
    for (size_t i = 0; i < encoding->count; i++)
        types[i] = encoding->types[i];
    mh_model_input input = mh_model_input_default();
    input.sequences = 1;
    input.starts = starts;
    input.ids = encoding->ids;
    input.types = types;
    mh_status status = classify_input(c, &input);
    mh_free(context, types, bytes);
    return status;
}

static mh_status classify_pair(classify *c, mh_text text)
{
    text_arguments *a = &c->arguments;
    const mh_text pair = {c->pair, strlen(c->pair)};
    mh_encode_options o = mh_encode_options_default();
    mh_encoding encoding = {0};
    o.max_length = a->truncate ? mh_model_describe(a->model)->max_length : 0;
    mh_status status = mh_tokenizer_encode_text(a->context, mh_model_tokenizer(a->model), &o, text,
                                                &pair, &encoding);
    a->truncated += encoding.truncated;
    if (!status)
        status = classify_encoding(c, &encoding);
    mh_encoding_free(a->context, &encoding);
    return status;
}

static int classify_text(classify *c, size_t number)
{
    const text_arguments *a = &c->arguments;
    const mh_status status = (c->pair ? classify_pair : classify_one)(c, a->texts[number - 1]);
    char name[40];
    if (status)
        return complain_text(a, status, number);
    const int size = snprintf(name, sizeof name, "text %zu", number);
    return print_result(c, a->texts[number - 1], (mh_text){name, (size_t)size});
}

// Labels of its own, or those that are given.
static int find_labels(classify *c)
{
    const text_arguments *a = &c->arguments;
    const mh_model_info *info = mh_model_describe(a->model);
    if (c->pair && info->image_size) {
        complain("--pair is for texts, and %s reads pictures", a->directory);
        return EXIT_USAGE;
    }
    if (c->given)
        return labels_prepare(c);
    if ((info->abilities & MH_CAN_MATCH) && !(info->abilities & MH_CAN_CLASSIFY)) {
        complain("%s has no labels of its own, expected --labels \"a cat,a dog\"", a->directory);
        return EXIT_USAGE;
    }
    if (!(info->abilities & MH_CAN_CLASSIFY)) {
        complain("%s: this model (%s%s%s) has no classifier", a->directory, info->family,
                 *info->architecture ? ", " : "", info->architecture);
        return EXIT_INPUT;
    }
    c->labels = info->labels;
    return EXIT_DONE;
}

static int prepare_labels(classify *c)
{
    const int code = find_labels(c);
    if (code != EXIT_DONE)
        return code;
    if (c->top == 0 || c->top > c->labels)
        c->top = c->labels;
    c->logits = calloc(c->labels, sizeof *c->logits);
    c->ids = calloc(c->labels, sizeof *c->ids);
    c->probabilities = calloc(c->labels, sizeof *c->probabilities);
    if (c->logits && c->ids && c->probabilities)
        return EXIT_DONE;
    complain("out of memory for %zu labels", c->labels);
    return EXIT_MEMORY;
}

static int run_classify(int argc, char **argv)
{
    classify c = {.arguments = text_arguments_default(&classify_command)};
    c.arguments.pictures = true;
    int code = parse_arguments(&classify_argp, argc, argv, &c);
    if (code == EXIT_DONE)
        code = text_arguments_open(&c.arguments);
    if (code == EXIT_DONE)
        code = prepare_labels(&c);
    if (code == EXIT_DONE)
        code = text_arguments_read(&c.arguments);
    if (code == EXIT_DONE && reads_pictures(&c.arguments))
        code = classify_pictures(&c);
    else
        for (size_t i = 0; i < c.arguments.count && code == EXIT_DONE; i++)
            code = classify_text(&c, i + 1);
    free(c.label_memory);
    free(c.names);
    free(c.label_embeddings);
    free(c.logits);
    free(c.ids);
    free(c.probabilities);
    text_arguments_close(&c.arguments);
    return code;
}

const command classify_command = {
    .name = "classify",
    .summary = "the labels of texts or pictures by a classifier",
    .argp = &classify_argp,
    .run = run_classify,
};
