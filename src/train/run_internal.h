// SPDX-License-Identifier: MIT
// A training run, and what a task adds to it.
#ifndef MH_TRAIN_RUN_INTERNAL_H
#define MH_TRAIN_RUN_INTERNAL_H

#include "model/model_internal.h"
#include "model/translator_internal.h"
#include "support/directory.h"
#include "support/grow.h"
#include "train/checkpoint.h"
#include "train/gradient_tree.h"
#include "train/grains.h"
#include "train/run_labels.h"
#include "train/run_log.h"
#include "train/validate.h"
#include <multihead/communicator.h>

// Parameters whose gradient norm is measured together, and that one rank updates; changes the bits
// of training.
enum { MH_SEGMENT = 131072 };

typedef struct mh_run mh_run;

// Is called with the fraction of a validation that is done; false stops it.
typedef bool (*mh_validation_fn)(void *user, double part);

// What a task adds to a run. Examples are rows of ids (dataset.h): of the leader's data, and sent
// to the other ranks.
typedef struct mh_task {
    mh_task_kind kind;
    const char *name;
    size_t grain;        // tokens of a grain, about; changes the bits of training
    size_t batch_tokens; // MH_BATCH_TOKENS_AUTO of many data

    // The leader: reads the data and creates the model.
    mh_status (*prepare)(mh_run *run, size_t *bad_lines);
    // The leader: initial parameters, and the files beside the weights.
    mh_status (*begin)(mh_run *run);
    // The other ranks create the model from this file of the leader's.
    const char *model_file;
    mh_status (*receive)(mh_run *run, const char *bytes, size_t size);
    // All ranks: the parameters, `floats` of them at *values. Sets run->layered.
    mh_status (*parameters)(mh_run *run, size_t *floats, float **values);
    size_t (*vocabulary)(const mh_run *run); // of the leader: tokens or labels
    // All ranks: data besides the examples; NULL: there are none.
    mh_status (*share)(mh_run *run);
    // The settings of model and data.
    void (*settings)(mh_run *run);
    // The loss of a grain, and its gradients. Errors: MH_ERROR_MEMORY.
    mh_status (*loss)(mh_run *run, const mh_grain *grain, const mh_loss_options *options,
                      double *loss);
    // Scores the current model; only the leader has the score. *stopped: `told` returned false, and
    // there is no score.
    mh_status (*validate)(mh_run *run, mh_validation_fn told, mh_validation_score *score,
                          bool *stopped);
    mh_status (*save)(mh_run *run); // the weights
    void (*free)(mh_run *run);
} mh_task;

extern const mh_task mh_task_translation, mh_task_images, mh_task_lm, mh_task_classification;

// Pictures of one size, with values (count, height, width, channels); examples' targets are labels.
typedef struct mh_pictures {
    size_t count, side, channels;
    unsigned char *pixels;
    size_t capacity;
} mh_pictures;

// Gradients, or parameters, on their way between ranks.
typedef struct mh_exchange {
    mh_transfer *transfers; // (count), not known to be done
    size_t count, capacity, tested;
    double next_poll;
    mh_status status;    // of what was done while layers were computed
    mh_tree_node *nodes; // (node_count): of all ranks, for the own slices
    size_t node_count, nodes_capacity;
    size_t own_nodes, sent_nodes; // of this rank, but for the last one sent as a whole
    size_t sent;                  // stripes of the last one
    size_t unjoined;              // gradients of layers from this float on are final in the tree
} mh_exchange;

struct mh_run {
    const mh_task *task;
    mh_context *context;
    const mh_train_options *options;
    mh_translator_config *sizes; // options->model, which those of options->init replace
    mh_directory directory;
    bool resumed, stopped, moved;

    mh_dataset examples;
    mh_validation valid;
    mh_batches plan; // of epoch `planned`
    uint64_t planned;
    mh_batch_rows rows;
    size_t batch_tokens; // of options, or as the data suggest

    mh_precision precision;
    mh_translator *translator;
    mh_run_arrays arrays; // its parameters and their moments
    float *aside;         // (floats): saved parameters
    mh_grains grains;     // of the current update
    double *losses;       // of each
    size_t losses_capacity;
    mh_gradient_tree gradients; // of this rank's grains

    mh_communicator ranks;
    bool agreed;            // that the run ends, by all ranks
    size_t *first_grains;   // (ranks + 1)
    size_t *starts;         // (ranks + 1), scratch
    int32_t *statuses;      // (ranks), scratch
    size_t stripe;          // segments of a stripe of parameters (run_gradients.c)
    size_t stripes;         // their number
    double *norms;          // of all segments of parameters, by rank
    size_t segments;        // its capacity
    size_t layered;         // gradients before this float become final layer by layer
    mh_gradient_tree slice; // of all ranks' grains, for the own slices
    mh_exchange exchange;
    uint64_t bytes_sent, bytes_early; // in updates; and while layers were computed
    mh_loss_memory *memory;

    uint64_t warmup, updates; // of the run, `updates` approximately
    uint64_t decay;           // the update at which a cosine ends; 0 for other schedules
    mh_settings settings;
    mh_progress progress;
    mh_run_log log;
    mh_train_event event;
    double begun;    // time when updates began
    double baseline; // mh_train_result

    // of tasks other than translation (model_task.h)
    mh_model *model;
    float *own;    // (floats): arrays.parameters, which are copied to the model
    size_t floats; //
    mh_buffer config;
    mh_tape *tape;
    float *scratch;
    size_t scratch_capacity;
    int64_t *sequences;
    size_t sequences_capacity;
    mh_tensor *views;
    size_t views_capacity;
    mh_pictures pictures, valid_pictures;
    mh_labels labels; // of classifiers
    bool new_head;    // a classifier's, which the model to start from does not have
    mh_tokenizer *tokenizer;
    int32_t bos, eos;         // of a language model; texts begin with bos unless it is -1
    mh_buffer tokenizer_json; // of a new classifier
    uint64_t valid_text_bytes;
    mh_buffer sample;
};

static inline bool mh_run_validates(const mh_run *run) { return run->valid.examples.count > 0; }

// The batches of the epoch that progress is at.
mh_status mh_run_plan_epoch(mh_run *run);

// Validates the leader's parameters, by the task.
mh_status mh_run_validate(mh_run *run, mh_validation_fn told, mh_validation_score *score,
                          bool *stopped);

// One update; its losses are in run->progress and run->event. Errors: MH_ERROR_DIVERGED,
// MH_ERROR_MEMORY.
mh_status mh_run_update(mh_run *run);

// Adds a setting.
MH_PRINTF(3, 4) void mh_run_set(mh_run *run, const char *name, const char *format, ...);

// The tokenizer of the run: the directory's if it is resumed, else that of options->init, else
// options->tokenizer.
mh_status mh_run_load_tokenizer(mh_run *run, mh_tokenizer **tokenizer);

// Where the model is that the run starts from, or that it has begun with; with options->init.
static inline const char *mh_run_origin(const mh_run *run)
{
    return run->resumed ? run->options->directory : run->options->init;
}

// The part of the data that is held out for validation, `usual` unless the options say.
static inline double mh_run_held_out(const mh_run *run, double usual)
{
    return run->options->held_out < 0 ? usual : run->options->held_out;
}

// The most lines of them, unless the options say which part.
static inline size_t mh_run_held_out_most(const mh_run *run, size_t usual)
{
    return run->options->held_out < 0 ? usual : SIZE_MAX;
}

// Checks a size of options->model, which is 0, or must be the model's of options->init.
mh_status mh_run_check_size(mh_run *run, const char *name, size_t given, size_t found);

// Text of the options that determine the result, after data, precision and warm-up are known.
void mh_run_collect_settings(mh_run *run);

// Memory for the model's parameters, moments and gradients, after the model is created.
mh_status mh_run_allocate(mh_run *run);

// Everything up to the first update: opens the directory, reads the data, creates or loads the
// model.
mh_status mh_run_prepare(mh_run *run);
void mh_run_free(mh_run *run);

// Whether the directory is still at its path, checked before anything is written there by name.
// Sets run->moved if not.
mh_status mh_run_check_directory(mh_run *run);

#endif
