// SPDX-License-Identifier: MIT
// Translation; see task_translation.h. Its data, model and loss.
#include "train/task_translation.h"

#include "base/compiler.h"
#include "model/config_file.h"
#include "model/json_file.h"
#include "support/directory.h"
#include "text/tokenizer.h"
#include "train/demo_numbers.h"
#include "train/held_out.h"
#include "train/model_start.h"
#include "train/run_ranks.h"

#include <stdio.h>

enum { NUMBERS_TRAINING = 20000, NUMBERS_HELD_OUT = 1000 };

// ---- data ---------------------------------------------------------------------------------------

// Validation data, where none are given: 1 %, but hundreds of pairs where there are as many.
static mh_status hold_out(mh_run *run, mh_corpus *corpus)
{
    const mh_holding how = {.seed = run->options->seed,
                            .part = mh_run_held_out(run, 0.01),
                            .least = corpus->count < 5000 ? 50 : 500,
                            .most = mh_run_held_out_most(run, 2000)};
    MH_TRY(mh_hold_out(run->context, &how, corpus, &run->valid.corpus));
    run->event.held_out = run->valid.corpus.count;
    return MH_OK;
}

static mh_status read_files(mh_run *run, mh_corpus *corpus)
{
    const mh_train_options *o = run->options;
    mh_corpus_files files = {
        .sources = o->data, .targets = o->data_targets, .bad_line = o->bad_line, .user = o->user};
    MH_TRY(mh_corpus_read(run->context, &files, corpus));
    if (!o->valid)
        return hold_out(run, corpus);
    files.sources = o->valid;
    files.targets = o->valid_targets;
    return mh_corpus_read(run->context, &files, &run->valid.corpus);
}

static mh_status read_data(mh_run *run, mh_corpus *corpus)
{
    const mh_numbers_options numbers = {run->options->seed, NUMBERS_TRAINING, NUMBERS_HELD_OUT};
    return run->options->example
               ? mh_numbers_corpora(run->context, &numbers, corpus, &run->valid.corpus)
               : read_files(run, corpus);
}

// All sentences of both languages, to train the tokenizer.
static mh_status learn_tokenizer(mh_run *run, const mh_corpus *corpus, mh_tokenizer **tokenizer)
{
    const size_t bytes = 2 * corpus->count * sizeof(mh_text);
    mh_text *texts = mh_alloc(run->context, bytes);
    if (!texts)
        return MH_ERROR_MEMORY;
    memcpy(texts, corpus->sources, bytes / 2);
    memcpy(texts + corpus->count, corpus->targets, bytes / 2);
    mh_tokenizer_options options = mh_tokenizer_options_default();
    options.merges = run->options->merges;
    mh_status status =
        mh_tokenizer_train(run->context, &options, texts, 2 * corpus->count, tokenizer);
    mh_free(run->context, texts, bytes);
    return status;
}

static mh_status find_tokenizer(mh_run *run, const mh_corpus *corpus, mh_tokenizer **tokenizer)
{
    return run->resumed || run->options->tokenizer || run->options->init
               ? mh_run_load_tokenizer(run, tokenizer)
               : learn_tokenizer(run, corpus, tokenizer);
}

static mh_status make_examples(mh_run *run, const mh_corpus *corpus, const mh_tokenizer *tokenizer,
                               mh_dataset *examples)
{
    const mh_train_options *o = run->options;
    return mh_dataset_create(run->context, corpus, tokenizer, o->model->max_length, o->bad_line,
                             o->user, examples);
}

// The language of most texts whose language shows, if these are enough to tell; else "".
static void find_language(const mh_text *texts, size_t count, char code[4])
{
    enum { TEXTS_MOST = 2000, GUESSES_LEAST = 20, CODES = 32 };
    const char *names[CODES];
    size_t hits[CODES], codes = 0, guesses = 0, best = 0;
    *code = 0;
    for (size_t i = 0; i < count && i < TEXTS_MOST; i++) {
        const char *guess = mh_language_guess(texts[i].bytes, texts[i].size);
        size_t k = 0;
        while (k < codes && names[k] != guess)
            k++;
        if (!guess || k == CODES)
            continue;
        if (k == codes) {
            names[codes] = guess;
            hits[codes++] = 0;
        }
        best = ++hits[k] > hits[best] ? k : best;
        guesses++;
    }
    if (guesses >= GUESSES_LEAST && 10 * hits[best] > 9 * guesses)
        snprintf(code, 4, "%s", names[best]);
}

// Which languages a new model translates; they are in its config.json.
static void find_languages(mh_run *run, const mh_corpus *corpus)
{
    char source[4], target[4];
    find_language(corpus->sources, corpus->count, source);
    find_language(corpus->targets, corpus->count, target);
    if (*source)
        memcpy(run->sizes->source_language, source, sizeof source);
    if (*target)
        memcpy(run->sizes->target_language, target, sizeof target);
}

static mh_status prepare_data(mh_run *run, mh_corpus *corpus, mh_tokenizer **tokenizer)
{
    mh_status status = read_data(run, corpus);
    if (!status)
        status = find_tokenizer(run, corpus, tokenizer);
    if (!status)
        find_languages(run, corpus);
    if (!status)
        status = make_examples(run, corpus, *tokenizer, &run->examples);
    if (status || !run->valid.corpus.count)
        return status;
    return make_examples(run, &run->valid.corpus, *tokenizer, &run->valid.examples);
}

// ---- sharing ------------------------------------------------------------------------------------

static size_t source_bytes(const mh_corpus *corpus)
{
    size_t bytes = 0;
    for (size_t i = 0; i < corpus->count; i++)
        bytes += corpus->sources[i].size + sizeof(uint64_t);
    return bytes;
}

// The sources of the validation data, as sizes and bytes; followers need no targets.
static void pack_sources(const mh_corpus *corpus, char *to)
{
    for (size_t i = 0; i < corpus->count; i++) {
        const uint64_t size = corpus->sources[i].size;
        memcpy(to, &size, sizeof size);
        memcpy(to + sizeof size, corpus->sources[i].bytes, size);
        to += sizeof size + size;
    }
}

static mh_status unpack_sources(mh_run *run, const char *from, size_t count)
{
    mh_corpus *corpus = &run->valid.corpus;
    MH_TRY(mh_corpus_begin(run->context, "validation", corpus));
    for (size_t i = 0; i < count; i++) {
        uint64_t size;
        memcpy(&size, from, sizeof size);
        MH_TRY(mh_corpus_add(run->context, corpus, (mh_text){from + sizeof size, size},
                             (mh_text){"", 0}, i + 1));
        from += sizeof size + size;
    }
    return mh_corpus_end(run->context, corpus);
}

static mh_status translation_share(mh_run *run)
{
    mh_corpus *corpus = &run->valid.corpus;
    uint64_t sizes[2] = {corpus->count, source_bytes(corpus)};
    MH_TRY(mh_run_broadcast(run, sizes, sizeof sizes));
    if (sizes[0] == 0)
        return MH_OK;
    char *bytes = mh_alloc(run->context, sizes[1]);
    if (bytes && mh_run_leads(run))
        pack_sources(corpus, bytes);
    mh_status status = mh_run_agree_memory(run, bytes);
    if (!status)
        status = mh_run_broadcast(run, bytes, sizes[1]);
    if (!status)
        status =
            mh_run_agree(run, mh_run_leads(run) ? MH_OK : unpack_sources(run, bytes, sizes[0]));
    mh_free(run->context, bytes, sizes[1]);
    return status;
}

static mh_status translation_create(mh_run *run, mh_tokenizer *tokenizer)
{
    return mh_translator_create(run->context, run->options->model, run->precision, tokenizer,
                                &run->translator);
}

static mh_status translation_receive(mh_run *run, const char *bytes, size_t size)
{
    mh_tokenizer *tokenizer;
    MH_TRY(mh_tokenizer_parse(run->context, "tokenizer.json", bytes, size, &tokenizer));
    return translation_create(run, tokenizer);
}

// ---- a model to start from ----------------------------------------------------------------------

static mh_status check_sizes(mh_run *run, const mh_translator_config *found)
{
    const mh_translator_config *given = run->options->model;
    MH_TRY(mh_run_check_size(run, "d_model", given->d_model, found->d_model));
    MH_TRY(mh_run_check_size(run, "nhead", given->nhead, found->nhead));
    MH_TRY(mh_run_check_size(run, "num_encoder_layers", given->num_encoder_layers,
                             found->num_encoder_layers));
    MH_TRY(mh_run_check_size(run, "num_decoder_layers", given->num_decoder_layers,
                             found->num_decoder_layers));
    MH_TRY(
        mh_run_check_size(run, "dim_feedforward", given->dim_feedforward, found->dim_feedforward));
    return mh_run_check_size(run, "max_length", given->max_length, found->max_length);
}

static mh_status refuse_published(mh_run *run)
{
    char path[MH_PATH_BYTES];
    mh_json_file file;
    MH_TRY(mh_json_file_open(run->context, mh_run_origin(run), "config.json", path, &file));
    const mh_status status =
        json_is_string(json_object_get(file.root, "format"))
            ? MH_OK
            : mh_model_start_refuse(MH_TASK_TRANSLATION, &file.source, file.root);
    mh_json_file_close(&file);
    return status;
}

// The sizes of the model that the run starts from.
static mh_status take_sizes(mh_run *run)
{
    char path[MH_PATH_BYTES];
    mh_translator_config found = mh_translator_config_default();
    if (!run->options->init)
        return MH_OK;
    MH_TRY(refuse_published(run));
    MH_TRY(mh_path_join(run->context, mh_run_origin(run), "config.json", path));
    MH_TRY(mh_config_load(run->context, path, &found));
    MH_TRY(check_sizes(run, &found));
    if (run->sizes->dropout >= 0)
        found.dropout = run->sizes->dropout;
    *run->sizes = found;
    return MH_OK;
}

static mh_status take_weights(mh_run *run)
{
    const mh_parameters *own = mh_translator_parameters(run->translator);
    mh_translator *from;
    MH_TRY(mh_translator_load(run->context, run->options->init, MH_PRECISION_F32, &from));
    const mh_parameters *parameters = mh_translator_parameters(from);
    const bool same = parameters->floats == own->floats;
    if (same)
        memcpy(own->values, parameters->values, own->floats * sizeof(float));
    mh_translator_free(from);
    return same ? MH_OK
                : mh_fail(run->context, MH_ERROR_FORMAT, "%.700s: changed while it was read",
                          run->options->init);
}

// ---- the task -----------------------------------------------------------------------------------

static mh_status translation_prepare(mh_run *run, size_t *bad_lines)
{
    mh_corpus corpus = {0};
    mh_tokenizer *tokenizer = NULL;
    MH_TRY(take_sizes(run));
    const mh_status status = prepare_data(run, &corpus, &tokenizer);
    *bad_lines = corpus.bad_lines;
    mh_corpus_free(run->context, &corpus);
    if (!status)
        return translation_create(run, tokenizer);
    mh_tokenizer_free(tokenizer);
    return status;
}

static mh_status translation_begin(mh_run *run)
{
    const mh_train_options *o = run->options;
    if (o->init)
        MH_TRY(take_weights(run));
    else
        mh_parameters_init(mh_translator_parameters(run->translator), o->seed);
    return mh_translator_save_settings(run->context, run->translator, o->directory);
}

static void translation_settings(mh_run *run)
{
    const mh_translator_config *m = run->options->model;
    mh_run_set(run, "model", "%zu %zu %zu+%zu %zu", m->d_model, m->nhead, m->num_encoder_layers,
               m->num_decoder_layers, m->dim_feedforward);
    mh_run_set(run, "model_kind", "%s %s %zu", mh_activation_name(m->activation),
               m->norm_first ? "norm-first" : "norm-last", m->max_length);
    mh_run_set(run, "dropout", "%.9g", (double)m->dropout);
    run->settings.list[run->settings.count - 1].single = true;
}

static mh_status translation_parameters(mh_run *run, size_t *floats, float **values)
{
    const mh_parameters *parameters = mh_translator_parameters(run->translator);
    *floats = run->layered = parameters->floats;
    *values = parameters->values;
    return MH_OK;
}

static size_t translation_vocabulary(const mh_run *run)
{
    return mh_tokenizer_size(mh_translator_tokenizer(run->translator));
}

static mh_status translation_loss(mh_run *run, const mh_grain *grain,
                                  const mh_loss_options *options, double *loss)
{
    mh_pair_batch batch;
    MH_TRY(mh_batch_rows_fill(run->context, &run->examples, grain->examples, grain->count,
                              mh_tokenizer_bos(mh_translator_tokenizer(run->translator)),
                              &run->rows, &batch));
    return mh_translator_loss(run->context, run->translator, options, &batch, run->memory, loss);
}

static mh_status translation_save(mh_run *run)
{
    return mh_translator_save_weights(run->context, run->translator, run->options->directory,
                                      run->options->weights);
}

static void translation_free(mh_run *run) { mh_translator_free(run->translator); }

const mh_task mh_task_translation = {
    .kind = MH_TASK_TRANSLATION,
    .name = "translation",
    .grain = 2048,
    .batch_tokens = 4096,
    .prepare = translation_prepare,
    .begin = translation_begin,
    .model_file = "tokenizer.json",
    .receive = translation_receive,
    .parameters = translation_parameters,
    .vocabulary = translation_vocabulary,
    .share = translation_share,
    .settings = translation_settings,
    .loss = translation_loss,
    .validate = mh_translation_validate,
    .save = translation_save,
    .free = translation_free,
};
