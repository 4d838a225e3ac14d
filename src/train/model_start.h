// SPDX-License-Identifier: MIT
// A run that starts from a published model, options->init: its config.json with what the run
// changes, its tokenizer's files, and its weights.
#ifndef MH_TRAIN_MODEL_START_H
#define MH_TRAIN_MODEL_START_H

#include "train/run_internal.h"
#include <jansson.h>

// Whether a language model may start from this model_type; what a classifier that does is in
// transformers, or NULL. NULL is no type.
bool mh_model_start_is_lm(const char *type);
const char *mh_model_start_classifier(const char *type);

// The error for a model that this task does not start from; names the task that does.
mh_status mh_model_start_refuse(mh_task_kind task, const mh_source *source, const json_t *root);

// Whether there is a config.json to start from. Errors: MH_ERROR_FILE, MH_ERROR_UNSUPPORTED (GGUF).
mh_status mh_model_start_check(mh_run *run);

// Changes the members of config.json. Error: MH_ERROR_UNSUPPORTED, for a model of another kind.
typedef mh_status (*mh_config_edit_fn)(mh_run *run, const mh_source *source, json_t *root);

// run->config of the model that the run starts from, edited; of a resumed run, the directory's.
mh_status mh_model_start_config(mh_run *run, mh_config_edit_fn edit);

// Appends the text of a JSON file.
mh_status mh_model_start_dump(mh_run *run, const json_t *root, mh_buffer *to);

// Sets a member, and the type of the weights. Error: MH_ERROR_MEMORY.
mh_status mh_model_start_set(mh_run *run, json_t *root, const char *name, json_t *value);
mh_status mh_model_start_set_dtype(mh_run *run, json_t *root);

// run->tokenizer, the token that ends a text in run->eos and the one that the tokenizer puts before
// a text in run->bos, each -1 if there is none, after run->model is created. A text that begins
// with the token that ends texts has no bos.
mh_status mh_model_start_tokenizer(mh_run *run);

// Copies the files of tokenizer and generation to the run's directory.
mh_status mh_model_start_files(mh_run *run);

// Replaces the initial parameters of run->model by the model's of the same names and shapes.
mh_status mh_model_start_weights(mh_run *run);

// run->sizes, which are checked, of run->model. An input has at most max_length tokens, `usual` of
// them if the options do not say.
mh_status mh_model_start_sizes(mh_run *run, size_t usual);

#endif
