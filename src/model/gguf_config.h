// SPDX-License-Identifier: MIT
// A GGUF file as a model: what Hugging Face has in several files is metadata and tensors here.
//
//     gguf_config.c      metadata -> an object with the keys of config.json, which the families
//     read gguf_names.c       names of tensors, the same for all architectures -> parameters
//     gguf_tokenizer.c   tokenizer.ggml.* -> a tokenizer
#ifndef MH_MODEL_GGUF_CONFIG_H
#define MH_MODEL_GGUF_CONFIG_H

#include <multihead/pretrained.h>

#include "families/family.h"
#include "io/gguf.h"
#include "model/token_rules.h"
#include "support/directory.h"
#include "support/json_load.h"

// The GGUF file that `path` names: itself if it ends in .gguf, or the only one of a directory
// without config.json. *found is false if there is none; several are MH_ERROR_FILE.
mh_status mh_gguf_locate(mh_context *context, const char *path, char file[MH_PATH_BYTES],
                         bool *found);

// The object that config.json would have; release it with json_decref. Errors: MH_ERROR_FORMAT,
// MH_ERROR_UNSUPPORTED (an architecture or a setting that is not supported, by name),
// MH_ERROR_MEMORY.
mh_status mh_gguf_config(mh_context *context, const char *path, const mh_tensor_file *file,
                         json_t **config);

// Puts the rules for GGUF's names of tensors in the place of a family's own. *permuted: rows of q
// and k are in the order of interleaved pairs.
void mh_gguf_names(const mh_tensor_file *file, mh_family *family, bool *permuted);

// How an encoder's token vectors become one, if the file says so.
void mh_gguf_pooling(const mh_tensor_file *file, mh_pooling *pooling);

// The file's tokenizer; NULL if it has none. Errors: MH_ERROR_FORMAT, MH_ERROR_UNSUPPORTED,
// MH_ERROR_MEMORY.
mh_status mh_gguf_tokenizer(mh_context *context, const char *path, const mh_tensor_file *file,
                            mh_tokenizer **tokenizer);

// Adds the tokens that end a text besides the tokenizer's: those of an end of turn or message that
// the file names, and, as many files have only one, those of this name in the formats of chats.
// Errors: MH_ERROR_FORMAT, MH_ERROR_MEMORY.
mh_status mh_gguf_ends(mh_context *context, const char *path, const mh_tensor_file *file,
                       const mh_tokenizer *tokenizer, mh_token_list *ends);

// A model's architecture, such as "llama"; MH_ERROR_UNSUPPORTED with a list of those that are
// known. For mh_gguf_names and messages.
typedef struct mh_gguf_architecture {
    const char *name, *model_type;
    bool permuted;               // see mh_gguf_names
    const mh_tensor_rule *rules; // names of tensors
} mh_gguf_architecture;
const mh_gguf_architecture *mh_gguf_architecture_of(const mh_tensor_file *file);

extern const mh_tensor_rule mh_gguf_gated_rules[], mh_gguf_fused_rules[], mh_gguf_bert_rules[];

#endif
