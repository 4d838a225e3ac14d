// SPDX-License-Identifier: MIT
// Rules for tokens, of generation_config.json: which end a text, and which may not or must come
// next; of Whisper also which heads follow the sound. Without that file, config.json has those of
// an encoder-decoder; and where it says nothing of the end, config.json does, and then the
// tokenizer.
#ifndef MH_MODEL_TOKEN_RULES_H
#define MH_MODEL_TOKEN_RULES_H

#include "support/source.h"
#include <jansson.h>
#include <multihead/generate.h>

typedef struct mh_token_list {
    int32_t *ids;
    size_t count, capacity;
    bool given; // by a file, even if it has none
} mh_token_list;

// Adds a token, unless it is -1 or there already. Error: MH_ERROR_MEMORY.
mh_status mh_token_list_add(mh_context *context, mh_token_list *list, int32_t id);

// A head of a decoder's cross-attention.
typedef struct mh_head_position {
    size_t layer, head;
} mh_head_position;

typedef struct mh_token_rules {
    mh_token_list eos, suppressed, suppressed_first;
    mh_token_list bad_words;                     // all of them, each behind its length
    int32_t bos, pad, decoder_start, forced_bos; // -1: none
    mh_token_list forced_eos;
    size_t min_length, min_new_tokens;
    bool renormalize; // probabilities are of the tokens that may come next; in beam search
    mh_generation_defaults defaults;
    mh_head_position *alignment_heads; // (alignment_count) of alignment_capacity
    size_t alignment_count, alignment_capacity;
} mh_token_rules;

// Rules without any token.
mh_token_rules mh_token_rules_none(void);

// Reads the rules of a directory for a vocabulary of V tokens; ids beyond it cannot be generated
// and are left out. `tokenizer` may be NULL. Errors: MH_ERROR_FILE, MH_ERROR_FORMAT (a value of
// another type, by its name), MH_ERROR_MEMORY.
mh_status mh_token_rules_load(mh_context *context, const char *directory,
                              const mh_tokenizer *tokenizer, size_t V, mh_token_rules *rules);

// The same for the text of generation_config.json.
mh_status mh_token_rules_parse(mh_context *context, const char *name, const char *text, size_t size,
                               size_t V, mh_token_rules *rules);

// What is missing, from the tokenizer; for models without these files.
mh_status mh_token_rules_complete(mh_context *context, const mh_tokenizer *tokenizer,
                                  mh_token_rules *rules);
void mh_token_rules_free(const mh_allocator *allocator, mh_token_rules *rules);

bool mh_token_rules_ends(const mh_token_rules *rules, int32_t id);

// A sequence and its limits.
typedef struct mh_rule_state {
    const int32_t *ids; // (count)
    size_t count;       // of prompt and generated tokens
    size_t prompt;      // of them the prompt's
    size_t most;        // of both
} mh_rule_state;

// Whether the next token is forced.
bool mh_token_rules_force(const mh_token_rules *rules, const mh_rule_state *state);

// Sets the scores (V) of tokens that must not come next to -infinity, and those of forced ones to
// 0, as the logarithm of a probability of 1.
void mh_token_rules_apply(const mh_token_rules *rules, const mh_rule_state *state, float *scores,
                          size_t V);

#endif
