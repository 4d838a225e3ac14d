// SPDX-License-Identifier: MIT
// The masks of a text, and what a masked language model expects in their place.
#ifndef CLI_MASKS_H
#define CLI_MASKS_H

#include <multihead/pretrained.h>

// The model's mask token.
typedef struct mask_token {
    mh_text name; // "[MASK]"
    int32_t id;
} mask_token;

// What keeps a model from filling masks, or NULL, and then *token is its mask.
const char *mask_find(const mh_model *model, mask_token *token);

// The text with all masks ("[MASK]", "<mask>", "___", the model's own) named as the model does;
// free() it. NULL if out of memory.
char *mask_name_all(const mask_token *token, mh_text text, size_t *size);

size_t mask_count(const mask_token *token, const mh_model_input *input);

// The likeliest tokens for each mask.
typedef struct filled {
    size_t masks, top;
    int32_t *ids;  // (masks, top), best first; -1 beyond the vocabulary
    double *logps; // (masks, top)
} filled;

// Fills the masks of an input of one sequence, which has some. filled_free() in any case.
mh_status mask_fill(mh_context *context, const mh_model *model, const mask_token *token,
                    const mh_model_input *input, size_t top, filled *out);
void filled_free(filled *f);

// The text of a token; its name, if the text is not valid UTF-8 by itself.
mh_text token_shown(const mh_tokenizer *tokenizer, int32_t id);

#endif
