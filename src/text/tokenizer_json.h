// SPDX-License-Identifier: MIT
// Reads the tokenizer.json of a published model. The components are a closed list: others, and
// settings that are not known, are rejected by name.
#ifndef MH_TEXT_TOKENIZER_JSON_H
#define MH_TEXT_TOKENIZER_JSON_H

#include "support/json_load.h"
#include "text/tokenizer_build.h"

// The JSON of a file, with a limit to its size and nesting; release *root with json_decref.
mh_status mh_tokenizer_json_tree(const mh_source *source, json_t **root);

mh_status mh_tokenizer_json_read(const mh_source *source, json_t *root, mh_tokenizer **tokenizer);

// One component each, which messages call `where`; null is allowed and is none.
mh_status mh_json_normalizer(const mh_build *b, const char *where, json_t *value);
mh_status mh_json_pre_tokenizer(const mh_build *b, const char *where, json_t *value);
mh_status mh_json_decoder(const mh_build *b, const char *where, json_t *value);
mh_status mh_json_post_processor(const mh_build *b, const char *where, json_t *value);

// ---- members of an object -----------------------------------------------------------------------

// Rejects what is no object, and members that are not among `names`, separated by spaces.
mh_status mh_json_members(const mh_build *b, const char *where, json_t *object, const char *names);

// A member of this type. `needed` false: *value stays as it is if the member is missing or null.
mh_status mh_json_bool_member(const mh_build *b, const char *where, json_t *object,
                              const char *name, bool needed, bool *value);
mh_status mh_json_size_member(const mh_build *b, const char *where, json_t *object,
                              const char *name, bool needed, size_t *value);
mh_status mh_json_string_member(const mh_build *b, const char *where, json_t *object,
                                const char *name, bool needed, mh_text *value);
mh_status mh_json_keep_member(const mh_build *b, const char *where, json_t *object,
                              const char *name, bool needed, mh_span *value);

// {"String": ...} or {"Regex": ...}, the latter from the list of tokenizer_patterns.h.
mh_status mh_json_pattern(const mh_build *b, const char *where, json_t *object,
                          mh_component *component);

// The parts of a merge, "left right" or ["left", "right"], borrowed; false if it is neither.
bool mh_json_split_merge(const json_t *merge, mh_text *left, mh_text *right);

// The number of a name in a list that ends with NULL.
mh_status mh_json_choice(const mh_build *b, const char *where, json_t *object, const char *name,
                         const char *const *choices, uint8_t *value);

#endif
