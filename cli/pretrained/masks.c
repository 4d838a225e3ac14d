// SPDX-License-Identifier: MIT
// Masks and their candidates; see masks.h.
#include "pretrained/masks.h"

#include <multihead/layers.h>
#include <stdlib.h>
#include <string.h>

const char *mask_find(const mh_model *model, mask_token *token)
{
    const mh_tokenizer *tokenizer = mh_model_tokenizer(model);
    token->id = mh_tokenizer_role(tokenizer, MH_ROLE_MASK);
    if (!(mh_model_describe(model)->abilities & MH_CAN_FILL))
        return "this model has no masked language model head";
    if (token->id < 0 || !mh_tokenizer_name(tokenizer, token->id, &token->name) ||
        token->name.size == 0)
        return "the tokenizer has no mask token";
    return NULL;
}

// ---- texts --------------------------------------------------------------------------------------

// The length of the mask at the beginning of a text, 0 if there is none.
static size_t mask_length(const mask_token *token, mh_text rest)
{
    static const char *const others[] = {"[MASK]", "<mask>"};
    if (rest.size >= token->name.size &&
        memcmp(rest.bytes, token->name.bytes, token->name.size) == 0)
        return token->name.size;
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

char *mask_name_all(const mask_token *token, mh_text text, size_t *size)
{
    char *named = malloc(text.size * (token->name.size + 1) + 1); // at most one mask for each byte
    *size = 0;
    for (size_t i = 0; named && i < text.size;) {
        const size_t length = mask_length(token, (mh_text){text.bytes + i, text.size - i});
        const mh_text part = length ? token->name : (mh_text){text.bytes + i, 1};
        memcpy(named + *size, part.bytes, part.size);
        *size += part.size;
        i += length ? length : 1;
    }
    return named;
}

size_t mask_count(const mask_token *token, const mh_model_input *input)
{
    size_t masks = 0;
    for (size_t i = 0; i < (size_t)input->starts[1]; i++)
        masks += input->ids[i] == token->id;
    return masks;
}

mh_text token_shown(const mh_tokenizer *tokenizer, int32_t id)
{
    mh_text name = {"", 0}, text = {"", 0};
    mh_tokenizer_name(tokenizer, id, &name);
    const bool found = mh_tokenizer_token(tokenizer, id, &text, NULL) && text.size > 0;
    // Half a character, of a byte-level token, cannot be shown.
    return found && mh_utf8_valid(text.bytes, text.size) == text.size ? text : name;
}

// ---- candidates ---------------------------------------------------------------------------------

// Moves the rows of masks to the front.
static void gather_masks(const mask_token *token, const mh_model_input *input, float *hidden,
                         size_t D)
{
    size_t masks = 0;
    for (size_t i = 0; i < (size_t)input->starts[1]; i++)
        if (input->ids[i] == token->id)
            memmove(hidden + masks++ * D, hidden + i * D, D * sizeof *hidden);
}

static mh_status rank_candidates(mh_context *context, const mh_model *model, float *hidden,
                                 float *logits, filled *out)
{
    const mh_model_info *info = mh_model_describe(model);
    const mh_tensor rows = mh_tensor_2d(hidden, MH_F32, out->masks, info->d_model);
    mh_tensor scores = mh_tensor_2d(logits, MH_F32, out->masks, info->vocabulary);
    mh_tensor ids = mh_tensor_2d(out->ids, MH_I32, out->masks, out->top);
    mh_tensor logps = mh_tensor_2d(out->logps, MH_F64, out->masks, out->top);
    const mh_status status = mh_model_logits(context, model, &rows, &scores);
    return status ? status : mh_log_softmax_topk(context, NULL, &scores, &ids, &logps);
}

mh_status mask_fill(mh_context *context, const mh_model *model, const mask_token *token,
                    const mh_model_input *input, size_t top, filled *out)
{
    const mh_model_info *info = mh_model_describe(model);
    const size_t rows = (size_t)input->starts[1], D = info->d_model, V = info->vocabulary;
    *out = (filled){.masks = mask_count(token, input), .top = top < V ? top : V};
    float *hidden = calloc(rows * D, sizeof *hidden);
    float *logits = calloc(out->masks * V, sizeof *logits);
    out->ids = calloc(out->masks * out->top, sizeof *out->ids);
    out->logps = calloc(out->masks * out->top, sizeof *out->logps);
    mh_status status = MH_ERROR_MEMORY;
    if (hidden && logits && out->ids && out->logps) {
        mh_tensor all = mh_tensor_2d(hidden, MH_F32, rows, D);
        status = mh_model_hidden(context, model, input, &all);
        gather_masks(token, input, hidden, D);
        if (!status)
            status = rank_candidates(context, model, hidden, logits, out);
    }
    free(hidden);
    free(logits);
    return status;
}

void filled_free(filled *f)
{
    free(f->ids);
    free(f->logps);
    *f = (filled){0};
}
