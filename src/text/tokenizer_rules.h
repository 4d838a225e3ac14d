// SPDX-License-Identifier: MIT
// The closed list of what a tokenizer.json may contain besides tokens and merges: every object is
// checked member by member, and an unsupported component or setting is rejected by name.
#ifndef MH_TEXT_TOKENIZER_RULES_H
#define MH_TEXT_TOKENIZER_RULES_H

#include "support/json_load.h"

// The whole file except added_tokens' entries, the vocabulary and the merges.
mh_status mh_tokenizer_check_rules(const mh_source *source, json_t *root);

// The settings of one entry of added_tokens, which messages call `where`.
mh_status mh_tokenizer_check_added(const mh_source *source, const char *where, json_t *entry);

// A value as a message names it: null, true, a list, or the string in quotes.
mh_quoted mh_json_describe(const json_t *value);

#endif
