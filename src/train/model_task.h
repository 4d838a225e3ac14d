// SPDX-License-Identifier: MIT
// What tasks of published families have in common: a model that is created from the text of its
// config.json, its parameters in one array, and the validation of batches on all ranks.
//
//     run->own [ parameters of the blocks | of embeddings and heads ]     gradients are laid out so
#ifndef MH_TRAIN_MODEL_TASK_H
#define MH_TRAIN_MODEL_TASK_H

#include "support/buffer.h"
#include "train/run_internal.h"

// Creates run->model from run->config.
mh_status mh_model_task_create(mh_run *run);
mh_status mh_model_task_receive(mh_run *run, const char *bytes, size_t size);

// run->own, which is copied to both arrays of the model's parameters.
mh_status mh_model_task_parameters(mh_run *run, size_t *floats, float **values);

// The number of a classifier's labels.
size_t mh_model_task_labels(const mh_run *run);

// Initial parameters, or those of the model to start from with its tokenizer's files; config.json.
mh_status mh_model_task_begin(mh_run *run);

// Error: MH_ERROR_ARGUMENT, if the width is no multiple of the number of heads.
mh_status mh_model_task_check_heads(const mh_run *run);

// Copies the run's parameters to the model: before a forward pass or a save, whenever they may have
// changed.
void mh_model_task_put(mh_run *run);

mh_status mh_model_task_save(mh_run *run);
void mh_model_task_free(mh_run *run);
mh_status mh_model_task_write(mh_run *run, const char *name, const mh_buffer *text);

// Gradients of one grain, zeroed.
mh_model_gradients mh_model_task_gradients(const mh_run *run, const mh_loss_options *options);

// An input for training: its tape, and random numbers of dropout.
void mh_model_task_train(const mh_loss_options *options, mh_tape *tape, mh_model_input *input);

// The setting of dropout, which the first runs of these tasks did not have.
void mh_model_task_set_dropout(mh_run *run);

// Scratch memory, and a tape; NULL if there is no memory.
float *mh_model_task_floats(mh_run *run, size_t floats);
mh_tape *mh_model_task_tape(mh_run *run);

// The number of correct answers and the loss of a batch of the validation data, for
// mh_model_task_validate: doubles, which are summed one by one.
typedef struct mh_batch_score {
    double loss, correct;
} mh_batch_score;
typedef mh_status (*mh_batch_score_fn)(mh_run *run, const uint32_t *examples, size_t count,
                                       mh_batch_score *score);

// The sums over all batches, each of which one rank scores.
mh_status mh_model_task_validate(mh_run *run, mh_batch_score_fn score_batch, mh_validation_fn told,
                                 mh_batch_score *sum, bool *stopped);

#endif
