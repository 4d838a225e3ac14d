// SPDX-License-Identifier: MIT
// Readers of vocabularies that are not a tokenizer.json. Each fills a tokenizer whose components
// are those that Hugging Face's converters give to such files.
#ifndef MH_TEXT_TOKENIZER_FILES_H
#define MH_TEXT_TOKENIZER_FILES_H

#include "support/json_load.h"
#include "text/tokenizer_build.h"

// Settings of a model's directory: tokenizer_config.json, special_tokens_map.json, config.json.
// Each may be NULL.
typedef struct mh_tokenizer_settings {
    json_t *tokenizer, *specials, *model;
} mh_tokenizer_settings;

// A setting of tokenizer_config.json, `otherwise` if it has none.
bool mh_setting(const mh_tokenizer_settings *s, const char *name, bool otherwise);

// Whether tokenizer_class or model_type has this word in it: "CLIP", "roberta".
bool mh_setting_is(const mh_tokenizer_settings *s, const char *word);

// The added tokens of tokenizer_config.json (added_tokens_decoder), after mh_build_vocabulary.
mh_status mh_read_added_settings(const mh_build *b, const mh_tokenizer_settings *s);

// vocab.txt: one token per line, in order of their ids.
mh_status mh_read_vocab_txt(const mh_build *b, const mh_tokenizer_settings *s);

// The components of BERT's tokenizer, after mh_build_vocabulary.
mh_status mh_build_bert(const mh_build *b, const mh_tokenizer_settings *s);

// vocab.json and merges.txt.
mh_status mh_read_vocab_merges(const mh_build *b, const mh_source *merges,
                               const mh_tokenizer_settings *s);

// Lines of a token in base64 and its rank.
mh_status mh_read_tiktoken(const mh_build *b);

// source.spm, with the ids of vocab.json.
mh_status mh_read_marian(const mh_build *b, const mh_source *spm);

// A byte-level component list: GPT-2's pattern or another one, and the decoder.
mh_status mh_build_byte_level(const mh_build *b, int pattern, bool prefix_space);

#endif
