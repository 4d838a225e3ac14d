// SPDX-License-Identifier: MIT
// multihead/train.h: train translators, language models and classifiers of texts or pictures.
//
//     mh_train_options options = mh_train_options_default();
//     options.data = "train.tsv";
//     options.valid = "dev.tsv";
//     options.directory = "run";
//     mh_train(context, &options, &result);      call it again to resume
//
// A run is a directory, and also a model that mh_translator_load(), or mh_model_load() for other
// tasks, reads:
//
//     config.json tokenizer.json model.safetensors   the model: the best so far
//     README.md                                      how it was made, and how good it is
//     log.jsonl                                      one JSON object per line
//     checkpoint.safetensors, snapshot-N.safetensors state for resuming
//
// A resumed run is bitwise identical to an uninterrupted one, with any number of threads. Part of
// libmultihead-model.
//
// Stability: experimental (base.h).
#ifndef MULTIHEAD_TRAIN_H
#define MULTIHEAD_TRAIN_H

#include <multihead/communicator.h>
#include <multihead/translator.h>

#ifdef __cplusplus
extern "C" {
#endif

// ---- tasks --------------------------------------------------------------------------------------

// What is learnt. Examples, and what the durations, batches and losses count as tokens:
typedef enum mh_task_kind {
    MH_TASK_TRANSLATION = 0,    // sentence pairs; target tokens
    MH_TASK_IMAGES = 1,         // pictures with a label each, by a ViT; pictures
    MH_TASK_LM = 2,             // text, by a decoder-only language model; tokens
    MH_TASK_CLASSIFICATION = 3, // texts with a label each, by an encoder like BERT; texts
} mh_task_kind;

typedef enum mh_lm_arch { MH_LM_GPT2 = 0, MH_LM_LLAMA = 1 } mh_lm_arch;

// ---- duration -----------------------------------------------------------------------------------

typedef enum mh_unit {
    MH_EPOCHS = 0,
    MH_UPDATES = 1,
    MH_TOKENS = 2
} mh_unit; // tokens are target tokens

typedef struct mh_duration {
    uint64_t count; // 0: never
    mh_unit unit;
} mh_duration;

// "20e", "500u", "50Ku", "1.5Mt": epochs, updates, tokens; K is 1,000, M is 1,000,000. False, and
// *duration untouched, for anything else. Any thread.
MH_API bool mh_duration_parse(const char *text, mh_duration *duration);

// ---- progress events ----------------------------------------------------------------------------

typedef enum mh_train_event_kind {
    MH_TRAIN_BEGINS = 0,    // data and model are loaded; updates begin, or resume
    MH_TRAIN_UPDATED = 1,   // after every update
    MH_TRAIN_VALIDATES = 2, // translating the validation data: `part` of it is done
    MH_TRAIN_VALIDATED = 3, // the validation results are new
    MH_TRAIN_SAVED = 4,     // a checkpoint has been written
} mh_train_event_kind;

typedef struct mh_train_event {
    mh_train_event_kind kind;
    uint64_t update, epoch, tokens; // so far; complete epochs
    uint64_t updates, warmup;       // of the whole run (approximate), and of its warm-up
    double epoch_part, part;        // 0 .. 1: fraction of this epoch, of the run
    double seconds;                 // since this call began updating
    uint64_t tokens_now;            // tokens trained on in these seconds

    double loss;          // per token, with label smoothing, over the last 100 updates
    double learning_rate; //
    double gradient_norm; // before clipping

    double valid_loss;        // per token, without smoothing
    double bleu, chrf, exact; // exact: fraction of exact matches, 0 .. 1
    bool best;                // by BLEU or accuracy; ties, and BLEU below 1, by valid_loss

    size_t pairs, valid_pairs, parameters, vocabulary, left_out;
    const char *precision; // "f32" or "bf16"

    mh_task_kind task;
    double accuracy;        // of classifiers, 0 .. 1
    double bits_per_byte;   // of text
    const char *sample;     // text that the model continued, valid during the call; NULL: none
    size_t held_out;        // of the training data, for validation; part of valid_pairs
    uint64_t epoch_tokens;  // of the training data
    bool starts_from_model; // mh_train_options.init
    size_t grains;          // of an update, about: further ranks have nothing to compute
} mh_train_event;

// Returns false to stop: the run is saved, and mh_train() returns with `stopped`.
typedef bool (*mh_train_event_fn)(void *user, const mh_train_event *event);

// Reports a line of the data that is skipped, and why; line 0: a whole file, such as a picture.
typedef void (*mh_train_bad_line_fn)(void *user, const char *file, size_t line, const char *why);

// ---- training -----------------------------------------------------------------------------------

// `warmup`: 1000 updates, but at most a tenth of the run length that `after` sets when the run
// begins. The run keeps its warm-up if `after` is extended later.
#define MH_WARMUP_AUTO UINT64_MAX

// `batch_tokens`: what suits the task, 4096 of translation, 8192 of a language model, 1024 of
// classification, 128 pictures; but of few data less, so that the run that `after` requests when it
// begins has 200 updates, and a batch at least 4 examples. The run keeps it.
#define MH_BATCH_TOKENS_AUTO SIZE_MAX

// How the learning rate decays after the warm-up.
typedef enum mh_schedule {
    MH_SCHEDULE_INVERSE_SQRT = 0, // as 1 / sqrt(update)
    MH_SCHEDULE_COSINE = 1, // along half a cosine to min_learning_rate, which is reached at the
                            // run length that `after` sets when the run begins, and kept
} mh_schedule;

typedef struct mh_train_options {
    size_t struct_size; // sizeof(mh_train_options)

    // Text: plain or gzip, "-" is standard input.
    const char *data;          // source TAB target per line
    const char *data_targets;  // NULL; else a file of targets, and `data` has only sources
    const char *valid;         // NULL: see held_out; the same for validation
    const char *valid_targets; // NULL
    const char *example;       // NULL; "numbers": built-in data instead of files
    const char *attribution;   // NULL; source of the data, for the model's README
    const char *command;       // NULL; command line of the run, for the README

    const char *directory; // no default; the run's directory, created if missing
    const char *tokenizer; // NULL: trained on the data; else a tokenizer.json
    size_t merges;         // 8000: of a tokenizer that is trained

    const mh_translator_config *model; // NULL: the defaults; sentences longer than max_length are
                                       // skipped
    mh_precision precision;            // MH_PRECISION_NATIVE: bf16 where it is native, else f32
    mh_dtype weights;                  // MH_F32; MH_BF16: model.safetensors is half as large

    uint64_t seed;             // 1
    size_t batch_tokens;       // 4096: per batch, source and target; MH_BATCH_TOKENS_AUTO
    size_t accumulation_steps; // 1: batches per update
    double learning_rate;      // 1e-3: the peak
    uint64_t warmup;           // MH_WARMUP_AUTO: updates to the peak
    double beta1, beta2;       // 0.9, 0.98
    double epsilon;            // 1e-9
    double weight_decay;       // 0
    double clip;               // 1: maximum gradient norm; 0: no clipping
    double label_smoothing;    // 0.1
    mh_duration after;         // 20e: total length of the run, interruptions included
    mh_duration save_every;    // 500u
    mh_duration valid_every;   // 1e
    size_t patience; // 0: off; else stops after this many validations without a better BLEU
    size_t average;  // 1: the model is the mean of this many last snapshots

    mh_train_event_fn event;       // NULL
    mh_train_bad_line_fn bad_line; // NULL
    void *user;                    // for both

    const mh_communicator *communicator; // NULL: one process

    mh_schedule schedule;     // MH_SCHEDULE_INVERSE_SQRT: after the warm-up
    double min_learning_rate; // 0: where the cosine ends

    // Other tasks. `data` and `valid` are then
    //   - classification: lines of label TAB text;
    //   - pictures: a directory with one directory of pictures for every label, or an idx file of
    //     images (MNIST's form, plain or gzip), beside which the file of labels is found by its
    //     name;
    //   - language models: text whose documents are separated by empty lines.
    // `model` gives d_model, nhead, dim_feedforward, num_encoder_layers, the layers, and dropout.
    // `label_smoothing` is for all.
    mh_task_kind task;   // MH_TASK_TRANSLATION
    mh_lm_arch arch;     // MH_LM_GPT2; for language models, whose context is model->max_length
    size_t image_size;   // 0: an idx file's, or 32; height and width that pictures are resized to
    size_t patch_size;   // 4: height and width of a patch, which divides image_size
    size_t crop_padding; // 0: off; else pictures are padded by so many pixels and cropped at random
    bool flip;           // false; true: half of the pictures, at random, are mirrored

    // NULL; else the directory of a model that the run starts from: a translator of ours; for a
    // language model one of pretrained.h that generates; for classification a BERT, DistilBERT or
    // RoBERTa. Weights, tokenizer and sizes are its own, and the optimiser's state is new; a run
    // that is resumed does not read it. `model` is NULL, or its sizes are 0, or as in that model
    // (max_length of a language model: at most that); its dropout is less than 0, which is that of
    // a model of ours, else 0, or a new one.
    const char *init;

    // The part of the training data that is held out if `valid` is NULL, 0 .. 1; less than 0: 0.1
    // for classification; for text 0.01, but about ten sequences unless these are more than 0.1, at
    // its end; for translation 0.01, but hundreds of pairs; none of pictures and of fewer than some
    // 100 lines. Lines are chosen by their hash.
    double held_out; // -1

    const char *label_names; // NULL: an idx file's labels are numbers; "T-shirt,Trouser,...": names
                             // of 0, 1, ..., separated by commas

    const char *const *more_data; // NULL; further files of a language model's text, after `data`
    size_t more_data_count;       // 0
} mh_train_options;

static inline mh_train_options mh_train_options_default(void)
{
    mh_train_options options;
    memset(&options, 0, sizeof options);
    options.struct_size = sizeof options;
    options.merges = 8000;
    options.precision = MH_PRECISION_NATIVE;
    options.seed = options.accumulation_steps = options.average = 1;
    options.batch_tokens = 4096;
    options.learning_rate = 1e-3;
    options.warmup = MH_WARMUP_AUTO;
    options.beta1 = 0.9;
    options.beta2 = 0.98;
    options.epsilon = 1e-9;
    options.clip = 1;
    options.label_smoothing = 0.1;
    options.after.count = 20;
    options.after.unit = MH_EPOCHS;
    options.save_every.count = 500;
    options.save_every.unit = MH_UPDATES;
    options.valid_every.count = 1;
    options.valid_every.unit = MH_EPOCHS;
    options.patch_size = 4;
    options.held_out = -1;
    return options;
}

typedef struct mh_train_result {
    size_t struct_size; // sizeof(mh_train_result)
    bool resumed;       // continued from a checkpoint
    bool finished;      // the run was already complete: nothing was changed
    bool stopped;       // by the event function
    bool impatient;     // ended by `patience`
    uint64_t update, epoch, tokens;
    uint64_t warmup;      // updates; a run that ends before them has hardly learnt
    double best_bleu;     // of the saved translator; NaN for other tasks, and without validation
    double best_loss;     // of the saved model; NaN without validation
    uint64_t best_update; //
    uint64_t bytes_sent;  // by this rank in updates of this call: gradients and parameters
    bool agreed;          // after an error, with a communicator: all ranks have returned it
    uint64_t bytes_early; // of bytes_sent, while gradients of other layers were computed
    double baseline; // what knows frequencies in the training data alone: a language model's loss,
                     // a classifier's accuracy, 0 .. 1; NaN of translations and without validation
    double best_accuracy; // of the saved classifier, 0 .. 1; NaN for other tasks
} mh_train_result;

static inline mh_train_result mh_train_result_default(void)
{
    mh_train_result result;
    memset(&result, 0, sizeof result);
    result.struct_size = sizeof result;
    return result;
}

// Trains, or resumes, the run in options->directory. An option that is for another task is an error
// unless it has its default. Every option that affects the result must be as it was when the run
// began: all but threads, `after`, `patience` and the README's texts. A directory is used by one
// process at a time.
// Errors: MH_ERROR_ARGUMENT; MH_ERROR_FILE; MH_ERROR_FORMAT (data, or a run with other options,
// which are named); MH_ERROR_MEMORY; MH_ERROR_DIVERGED: the loss is not finite, the last checkpoint
// is kept. After an error the directory is as it was at the last save.
//
// With a communicator all ranks call this with equal options, and share the work; the bits are
// those of one process. Rank 0 alone reads and writes files; the others have the events
// MH_TRAIN_BEGINS and MH_TRAIN_UPDATED, and any of them may stop the run, with `stopped` on all.
// If one rank fails, all return its error, with its message; if a message fails, the others may
// wait for ever, and the caller should end them (mh_mpi_abort): `agreed` says which it is.
MH_API MH_MUST_CHECK mh_status mh_train(mh_context *context, const mh_train_options *options,
                                        mh_train_result *result);

#ifdef __cplusplus
}
#endif
#endif
