// SPDX-License-Identifier: MIT
// `multihead fill`: the likeliest tokens for the masks of a text.
#include "messages.h"
#include "pretrained/masks.h"
#include "pretrained/text_arguments.h"
#include "report.h"

#include <math.h>
#include <stdlib.h>

enum { KEY_TOP = 0x100, DEFAULT_TOP = 5 };

typedef struct fill {
    text_arguments arguments;
    size_t top;
    mask_token mask;
} fill;

// ---- options ------------------------------------------------------------------------------------

static const struct argp_option option_table[] = {
    {NULL, 0, NULL, 0, "What to print", 1},
    {"top", KEY_TOP, "N", 0, "candidates for each mask. Default: 5", 0},
    {NULL, 0, NULL, 0, NULL, 0},
};

static error_t fill_parse_option(int key, char *argument, struct argp_state *state)
{
    fill *f = state->input;
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &f->arguments;
        return 0;
    case KEY_TOP:
        f->top = (size_t)parse_integer(state, "--top", argument, 1, INT32_MAX);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp_child children[] = {{&text_argp, 0, NULL, 0}, {NULL, 0, NULL, 0}};

static const struct argp fill_argp = {
    .options = option_table,
    .parser = fill_parse_option,
    .children = children,
    .args_doc = "-m MODEL [TEXT...] [OPTION...]",
    .doc = "Fills the masks of texts: prints the likeliest tokens of a masked language model, with "
           "their probabilities. A mask is the model's own mask token, [MASK], <mask> or ___.\v"
           "Examples:\n"
           "  multihead fill -m bert-base-uncased \"The cat [MASK] on the mat.\"\n"
           "  multihead fill -m roberta-base --top 10 \"Paris is the ___ of France.\"\n"
           "  multihead fill -m bert-base-uncased --json <texts.txt\n",
};

// ---- one text -----------------------------------------------------------------------------------

static int find_mask_token(fill *f)
{
    const text_arguments *a = &f->arguments;
    const mh_model_info *info = mh_model_describe(a->model);
    const char *problem = mask_find(a->model, &f->mask);
    if (!problem)
        return EXIT_DONE;
    if (info->abilities & MH_CAN_FILL)
        complain("%s: %s", a->directory, problem);
    else
        complain("%s: this model (%s%s%s) has no masked language model head", a->directory,
                 info->family, *info->architecture ? ", " : "", info->architecture);
    return EXIT_INPUT;
}

// ---- printing -----------------------------------------------------------------------------------

static void print_candidate_json(const mh_tokenizer *tokenizer, int32_t id, double probability)
{
    mh_text name = {"", 0};
    const mh_text text = token_shown(tokenizer, id);
    mh_tokenizer_name(tokenizer, id, &name);
    printf("{\"token\": ");
    put_json_string(stdout, name.bytes, name.size);
    printf(", \"id\": %d, \"probability\": %.9g, \"text\": ", (int)id, probability);
    put_json_string(stdout, text.bytes, text.size);
    putchar('}');
}

static void print_filled_json(const fill *f, mh_text text, const filled *out)
{
    const mh_tokenizer *tokenizer = mh_model_tokenizer(f->arguments.model);
    printf("{\"text\": ");
    put_json_string(stdout, text.bytes, text.size);
    printf(", \"masks\": [");
    for (size_t m = 0; m < out->masks; m++) {
        printf("%s{\"candidates\": [", m ? ", " : "");
        for (size_t i = 0; i < out->top && out->ids[m * out->top + i] >= 0; i++) {
            printf("%s", i ? ", " : "");
            print_candidate_json(tokenizer, out->ids[m * out->top + i],
                                 exp(out->logps[m * out->top + i]));
        }
        printf("]}");
    }
    printf("]}\n");
}

static void print_candidate(const mh_tokenizer *tokenizer, int32_t id, double probability)
{
    mh_text text = token_shown(tokenizer, id);
    while (text.size > 1 && text.bytes[0] == ' ')
        text = (mh_text){text.bytes + 1, text.size - 1};
    printf("  %.4f  ", probability);
    for (size_t i = 0; i < text.size; i++) // a token may be a control character
        putchar((unsigned char)text.bytes[i] < 0x20 || text.bytes[i] == 0x7f ? '?' : text.bytes[i]);
    putchar('\n');
}

static void print_filled(const fill *f, mh_text text, const filled *out)
{
    const mh_tokenizer *tokenizer = mh_model_tokenizer(f->arguments.model);
    fwrite(text.bytes, 1, text.size, stdout);
    putchar('\n');
    for (size_t m = 0; m < out->masks; m++) {
        if (out->masks > 1)
            printf(" mask %zu\n", m + 1);
        for (size_t i = 0; i < out->top && out->ids[m * out->top + i] >= 0; i++)
            print_candidate(tokenizer, out->ids[m * out->top + i],
                            exp(out->logps[m * out->top + i]));
    }
}

// ---- control flow -------------------------------------------------------------------------------

// Whether every mask has a token; logits that are NaN or infinite give none, or no probability.
static bool has_candidates(const filled *out)
{
    for (size_t m = 0; m < out->masks; m++)
        if (out->ids[m * out->top] < 0 || !isfinite(out->logps[m * out->top]))
            return false;
    return true;
}

static int fill_encoded(const fill *f, size_t number, const mh_model_texts *encoded)
{
    const text_arguments *a = &f->arguments;
    const mh_model_input *input = mh_model_texts_input(encoded);
    filled out;
    if (mask_count(&f->mask, input) == 0) {
        complain("text %zu: found no mask%s, expected %.*s or ___", number,
                 mh_model_texts_encoding(encoded, 0)->truncated ? " among the tokens that fit" : "",
                 (int)f->mask.name.size, f->mask.name.bytes);
        return EXIT_INPUT;
    }
    const mh_status status = mask_fill(a->context, a->model, &f->mask, input, f->top, &out);
    const bool good = !status && has_candidates(&out);
    if (good)
        (a->json ? print_filled_json : print_filled)(f, a->texts[number - 1], &out);
    filled_free(&out);
    if (status == MH_ERROR_MEMORY)
        complain("out of memory for the tokens of text %zu", number);
    else if (!status && !good)
        complain("text %zu: the logits are NaN or infinite, the model's weights are damaged",
                 number);
    return status == MH_ERROR_MEMORY ? EXIT_MEMORY
           : status                  ? complain_status(a->context, status, NULL)
           : good                    ? EXIT_DONE
                                     : EXIT_INPUT;
}

static int fill_text(fill *f, size_t number)
{
    const text_arguments *a = &f->arguments;
    mh_model_texts *encoded;
    mh_text text = {NULL, 0};
    char *named = mask_name_all(&f->mask, a->texts[number - 1], &text.size);
    if (!named) {
        complain("out of memory for text %zu", number);
        return EXIT_MEMORY;
    }
    text.bytes = named;
    mh_status status = mh_model_encode(a->context, a->model, a->truncate, &text, 1, &encoded);
    free(named);
    if (status)
        return complain_text(a, status, number);
    f->arguments.truncated += mh_model_texts_encoding(encoded, 0)->truncated;
    int code = fill_encoded(f, number, encoded);
    mh_model_texts_free(a->context, encoded);
    return code;
}

static int run_fill(int argc, char **argv)
{
    fill f = {.arguments = text_arguments_default(&fill_command), .top = DEFAULT_TOP};
    int code = parse_arguments(&fill_argp, argc, argv, &f);
    if (code == EXIT_DONE)
        code = text_arguments_open(&f.arguments);
    if (code == EXIT_DONE)
        code = find_mask_token(&f);
    if (code == EXIT_DONE)
        code = text_arguments_read(&f.arguments);
    for (size_t i = 0; i < f.arguments.count && code == EXIT_DONE; i++)
        code = fill_text(&f, i + 1);
    text_arguments_close(&f.arguments);
    return code;
}

const command fill_command = {
    .name = "fill",
    .summary = "fill the masks of texts with a masked language model",
    .argp = &fill_argp,
    .run = run_fill,
};
