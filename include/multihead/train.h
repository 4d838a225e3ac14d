// SPDX-License-Identifier: MIT
// multihead/train.h: from sentence pairs to a translator.
//
//     mh_train_options options = mh_train_options_default();
//     options.data = "train.tsv";
//     options.valid = "dev.tsv";
//     options.folder = "run";
//     mh_train(context, &options, &result);      again: resumes where it was stopped
//
// A run is a folder, and itself a model that mh_translator_load() reads:
//
//     config.json tokenizer.json model.safetensors   the model: the best so far
//     README.md                                      how it was made, and how good it is
//     log.jsonl                                      one JSON object a line
//     checkpoint.safetensors, snapshot-N.safetensors what going on needs
//
// Going on gives the bits of never having stopped, with any number of threads. Part of
// libmultihead-model.
#ifndef MULTIHEAD_TRAIN_H
#define MULTIHEAD_TRAIN_H

#include <multihead/translator.h>

#ifdef __cplusplus
extern "C" {
#endif

// ---- how long -----------------------------------------------------------------------------------

typedef enum mh_unit { MH_EPOCHS, MH_UPDATES, MH_TOKENS } mh_unit; // tokens are target tokens

typedef struct mh_duration {
    uint64_t count; // 0: never
    mh_unit unit;
} mh_duration;

// "20e", "500u", "50Ku", "1.5Mt": epochs, updates, tokens; K is 1,000, M is 1,000,000. False, and
// *duration untouched, for anything else. Any thread.
MH_API bool mh_duration_parse(const char *text, mh_duration *duration);

// ---- what is told meanwhile ---------------------------------------------------------------------

typedef enum mh_train_event_kind {
    MH_TRAIN_BEGINS,    // all is read; updates begin, or go on
    MH_TRAIN_UPDATED,   // after every update
    MH_TRAIN_VALIDATES, // translating the validation data: `part` of it is done
    MH_TRAIN_VALIDATED, // the figures of the validation are new
    MH_TRAIN_SAVED,     // a checkpoint is written
} mh_train_event_kind;

typedef struct mh_train_event {
    mh_train_event_kind kind;
    uint64_t update, epoch, tokens; // so far; epochs that are complete
    uint64_t updates, warmup;       // of the whole run, about, and of its warm-up
    double epoch_part, part;        // 0 .. 1, of this epoch, of the run
    double seconds;                 // since this call began updating
    uint64_t tokens_now;            // trained on in these seconds

    double loss;          // a token, with label smoothing, of the last 100 updates
    double learning_rate; //
    double gradient_norm; // before clipping

    double valid_loss;        // a token, without smoothing
    double bleu, chrf, exact; // exact: the part of sentences that are right to the letter, 0 .. 1
    bool best;                // by BLEU; of equal ones, and of all below 1, by valid_loss

    size_t pairs, valid_pairs, parameters, vocabulary, left_out;
    const char *precision; // "f32" or "bf16"
} mh_train_event;

// Returns false to stop: the run is saved, and mh_train() returns with `stopped`.
typedef bool (*mh_train_event_fn)(void *user, const mh_train_event *event);

// A line of the data that cannot be used.
typedef void (*mh_train_bad_line_fn)(void *user, const char *file, size_t line, const char *why);

// ---- training -----------------------------------------------------------------------------------

// `warmup`: 1000 updates, but at most a tenth of the run that `after` asks for when it begins. The
// run keeps its warm-up when `after` grows later.
#define MH_WARMUP_AUTO UINT64_MAX

typedef struct mh_train_options {
    size_t struct_size; // sizeof(mh_train_options)

    // Text: plain or gzip, "-" is standard input.
    const char *data;          // source TAB target a line
    const char *data_targets;  // NULL; else `data` has only sources, and this the targets
    const char *valid;         // NULL: none; the same for validation
    const char *valid_targets; // NULL
    const char *example;       // NULL; "numbers": built-in data instead of files
    const char *attribution;   // NULL; where the data is from, for the model's README
    const char *command;       // NULL; how the run was started, for the same

    const char *folder;    // no default; is made if it is not there
    const char *tokenizer; // NULL: learnt from the data; else a tokenizer.json
    size_t merges;         // 8000: of a tokenizer that is learnt

    mh_translator_config model; // its defaults; max_length leaves longer sentences out
    mh_precision precision;     // MH_PRECISION_AUTO: bf16 at level amx, else f32
    mh_dtype weights;           // MH_F32; MH_BF16: model.safetensors is half as large

    uint64_t seed;           // 1
    size_t batch_tokens;     // 4096: of source and target
    size_t accumulate;       // 1: batches of an update
    double learning_rate;    // 1e-3: the highest
    uint64_t warmup;         // MH_WARMUP_AUTO: updates to get there; then it falls as 1 / sqrt
    double beta1, beta2;     // 0.9, 0.98
    double epsilon;          // 1e-9
    double weight_decay;     // 0
    double clip;             // 1: the norm of gradients is at most this; 0: not clipped
    double label_smoothing;  // 0.1
    mh_duration after;       // 20e: from the start of the run, however often it is stopped
    mh_duration save_every;  // 500u
    mh_duration valid_every; // 1e
    size_t patience;         // 0; stops after so many validations without a better BLEU
    size_t average;          // 1: the model is the mean of the last so many saved ones

    mh_train_event_fn event;       // NULL
    mh_train_bad_line_fn bad_line; // NULL
    void *user;                    // for both
} mh_train_options;

static inline mh_train_options mh_train_options_default(void)
{
    mh_train_options options;
    memset(&options, 0, sizeof options);
    options.struct_size = sizeof options;
    options.merges = 8000;
    options.model = mh_translator_config_default();
    options.seed = options.accumulate = options.average = 1;
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
    return options;
}

typedef struct mh_train_result {
    bool resumed;   // there was a checkpoint
    bool finished;  // it was already complete: nothing was touched
    bool stopped;   // by the event function
    bool impatient; // ended by `patience`
    uint64_t update, epoch, tokens;
    uint64_t warmup;      // updates; a run that ends before has hardly learnt
    double best_bleu;     // of the model in the folder; NaN without validation
    uint64_t best_update; //
} mh_train_result;

// Trains, or resumes, the run in options->folder. What decides the bits must be as it was
// when the run began: all but threads, `after`, `patience` and the texts for people. One process
// at a time works in a folder.
// Errors: MH_ERROR_ARGUMENT; MH_ERROR_FILE; MH_ERROR_FORMAT (data, or a run of other options, which
// are named); MH_ERROR_MEMORY; MH_ERROR_DIVERGED: the loss is not finite, the last checkpoint
// stands. After an error the folder is as it was at the last save.
MH_API mh_status mh_train(mh_context *context, const mh_train_options *options,
                          mh_train_result *result);

#ifdef __cplusplus
}
#endif
#endif
