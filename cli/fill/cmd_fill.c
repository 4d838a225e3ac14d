// SPDX-License-Identifier: MIT
// `multihead fill`: the likeliest tokens for the masks of a text.
#include "messages.h"
#include "pretrained/text_arguments.h"
#include "report.h"

#include <math.h>
#include <multihead/layers.h>
#include <stdlib.h>

enum { KEY_TOP = 0x100, DEFAULT_TOP = 5 };

typedef struct fill {
    text_arguments arguments;
    size_t top;
    mh_text mask; // the model's own name of it
    int32_t mask_id;
    char *text; // the current one with the model's own masks
    size_t text_size;
} fill;

// What came out for one text.
typedef struct filled {
    size_t masks, top;
    int32_t *ids;  // (masks, top)
    double *logps; // (masks, top)
} filled;

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

// ---- masks --------------------------------------------------------------------------------------

// The length of the mask at the beginning of a text, 0 if there is none.
static size_t mask_length(const fill *f, mh_text rest)
{
    static const char *const others[] = {"[MASK]", "<mask>"};
    if (rest.size >= f->mask.size && memcmp(rest.bytes, f->mask.bytes, f->mask.size) == 0)
        return f->mask.size;
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        const size_t length = strlen(others[i]);
        if (rest.size >= length && memcmp(rest.bytes, others[i], length) == 0)
            return length;
    }
    size_t line = 0; // three or more: people do not count them
    while (line < rest.size && rest.bytes[line] == '_')
        line++;
    return line >= 3 ? line : 0;
}

// The text with all masks as the model names them, in f->text.
static bool set_masks(fill *f, mh_text text)
{
    f->text_size = 0;
    free(f->text);
    f->text = malloc(text.size * (f->mask.size + 1) + 1); // at most one mask for each byte
    if (!f->text)
        return false;
    for (size_t i = 0; i < text.size;) {
        const size_t length = mask_length(f, (mh_text){text.bytes + i, text.size - i});
        const mh_text part = length ? f->mask : (mh_text){text.bytes + i, 1};
        memcpy(f->text + f->text_size, part.bytes, part.size);
        f->text_size += part.size;
        i += length ? length : 1;
    }
    return true;
}

static int find_mask_token(fill *f)
{
    const text_arguments *a = &f->arguments;
    const mh_model_info *info = mh_model_describe(a->model);
    const mh_tokenizer *tokenizer = mh_model_tokenizer(a->model);
    f->mask_id = mh_tokenizer_role(tokenizer, MH_ROLE_MASK);
    if (!(info->abilities & MH_CAN_FILL))
        complain("%s: this model (%s%s%s) has no masked language model head", a->directory,
                 info->family, *info->architecture ? ", " : "", info->architecture);
    else if (f->mask_id < 0 || !mh_tokenizer_name(tokenizer, f->mask_id, &f->mask) ||
             f->mask.size == 0)
        complain("%s: the tokenizer has no mask token", a->directory);
    else
        return EXIT_DONE;
    return EXIT_INPUT;
}

// ---- one text -----------------------------------------------------------------------------------

// Moves the rows of masks to the front; returns how many there are.
static size_t gather_masks(const fill *f, const mh_model_input *input, float *hidden, size_t D)
{
    size_t masks = 0;
    for (size_t i = 0; i < (size_t)input->starts[1]; i++)
        if (input->ids[i] == f->mask_id)
            memmove(hidden + masks++ * D, hidden + i * D, D * sizeof *hidden);
    return masks;
}

static mh_status rank_candidates(const fill *f, float *hidden, size_t D, float *logits, filled *out)
{
    mh_context *context = f->arguments.context;
    const size_t V = mh_model_describe(f->arguments.model)->vocabulary;
    const mh_tensor rows = mh_tensor_2d(hidden, MH_F32, out->masks, D);
    mh_tensor scores = mh_tensor_2d(logits, MH_F32, out->masks, V);
    mh_tensor ids = mh_tensor_2d(out->ids, MH_I32, out->masks, out->top);
    mh_tensor logps = mh_tensor_2d(out->logps, MH_F64, out->masks, out->top);
    mh_status status = mh_model_logits(context, f->arguments.model, &rows, &scores);
    return status ? status : mh_log_softmax_topk(context, NULL, &scores, &ids, &logps);
}

static size_t count_masks(const fill *f, const mh_model_input *input)
{
    size_t masks = 0;
    for (size_t i = 0; i < (size_t)input->starts[1]; i++)
        masks += input->ids[i] == f->mask_id;
    return masks;
}

static int fill_input(const fill *f, const mh_model_input *input, filled *out)
{
    mh_context *context = f->arguments.context;
    const mh_model_info *info = mh_model_describe(f->arguments.model);
    const size_t rows = (size_t)input->starts[1], D = info->d_model, V = info->vocabulary;
    out->top = f->top < V ? f->top : V;
    float *hidden = calloc(rows * D, sizeof *hidden);
    float *logits = calloc(out->masks * V, sizeof *logits);
    out->ids = calloc(out->masks * out->top, sizeof *out->ids);
    out->logps = calloc(out->masks * out->top, sizeof *out->logps);
    int code = EXIT_MEMORY;
    if (!hidden || !logits || !out->ids || !out->logps) {
        complain("out of memory for %zu tokens", rows);
    } else {
        mh_tensor all = mh_tensor_2d(hidden, MH_F32, rows, D);
        mh_status status = mh_model_hidden(context, f->arguments.model, input, &all);
        gather_masks(f, input, hidden, D);
        if (!status)
            status = rank_candidates(f, hidden, D, logits, out);
        code = status ? complain_status(context, status, NULL) : EXIT_DONE;
    }
    free(hidden);
    free(logits);
    return code;
}

// ---- printing -----------------------------------------------------------------------------------

static void print_candidate_json(const mh_tokenizer *tokenizer, int32_t id, double probability)
{
    mh_text name = {"", 0}, text = {"", 0};
    mh_tokenizer_name(tokenizer, id, &name);
    mh_tokenizer_token(tokenizer, id, &text, NULL);
    printf("{\"token\": ");
    put_json_string(stdout, name.bytes, name.size);
    printf(", \"id\": %d, \"probability\": %.9g, \"text\": ", (int)id, probability);
    // Half a character, of a byte-level token, cannot be written in JSON.
    const bool whole = mh_utf8_valid(text.bytes, text.size) == text.size;
    put_json_string(stdout, whole ? text.bytes : name.bytes, whole ? text.size : name.size);
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
    mh_text name = {"", 0}, text = {"", 0};
    mh_tokenizer_name(tokenizer, id, &name);
    if (!mh_tokenizer_token(tokenizer, id, &text, NULL) || text.size == 0 ||
        mh_utf8_valid(text.bytes, text.size) < text.size)
        text = name;
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

static int fill_encoded(const fill *f, size_t number, const mh_model_texts *encoded)
{
    const text_arguments *a = &f->arguments;
    const mh_model_input *input = mh_model_texts_input(encoded);
    filled out = {.masks = count_masks(f, input)};
    if (out.masks == 0) {
        complain("text %zu: found no mask%s, expected %.*s or ___", number,
                 mh_model_texts_encoding(encoded, 0)->truncated ? " among the tokens that fit" : "",
                 (int)f->mask.size, f->mask.bytes);
        return EXIT_INPUT;
    }
    int code = fill_input(f, input, &out);
    if (code == EXIT_DONE)
        (a->json ? print_filled_json : print_filled)(f, a->texts[number - 1], &out);
    free(out.ids);
    free(out.logps);
    return code;
}

static int fill_text(fill *f, size_t number)
{
    const text_arguments *a = &f->arguments;
    mh_model_texts *encoded;
    if (!set_masks(f, a->texts[number - 1])) {
        complain("out of memory for text %zu", number);
        return EXIT_MEMORY;
    }
    mh_status status = mh_model_encode(a->context, a->model, a->truncate,
                                       &(mh_text){f->text, f->text_size}, 1, &encoded);
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
    free(f.text);
    text_arguments_close(&f.arguments);
    return code;
}

const command fill_command = {
    .name = "fill",
    .summary = "fill the masks of texts with a masked language model",
    .argp = &fill_argp,
    .run = run_fill,
};
