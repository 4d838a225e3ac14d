// SPDX-License-Identifier: MIT
// See model_task.h.
#include "train/model_task.h"

#include "base/compiler.h"
#include "support/buffer.h"
#include "support/file.h"
#include "train/model_start.h"
#include "train/run_ranks.h"
#include "train/valid_batches.h"

static const mh_parameters *blocks_of(const mh_run *run)
{
    return mh_transformer_parameters(mh_model_transformer(run->model));
}

mh_status mh_model_task_create(mh_run *run)
{
    return mh_model_create(run->context, (const char *)run->config.data, run->config.size,
                           run->precision, run->options->model->dropout, &run->model);
}

mh_status mh_model_task_receive(mh_run *run, const char *bytes, size_t size)
{
    if (!mh_buffer_append(run->context, &run->config, bytes, size))
        return MH_ERROR_MEMORY;
    return mh_model_task_create(run);
}

mh_status mh_model_task_write(mh_run *run, const char *name, const mh_buffer *text)
{
    char path[MH_PATH_BYTES];
    MH_TRY(mh_path_join(run->context, run->options->directory, name, path));
    return mh_file_replace(run->context, path, text->data, text->size);
}

mh_status mh_model_task_begin(mh_run *run)
{
    const mh_parameters *blocks = blocks_of(run), *ends = mh_model_parameters(run->model);
    mh_parameters_init(blocks, run->options->seed);
    mh_parameters_init(ends, run->options->seed + 1);
    if (run->options->init) {
        MH_TRY(mh_model_start_weights(run));
        MH_TRY(mh_model_start_files(run));
    }
    memcpy(run->own, blocks->values, blocks->floats * sizeof(float));
    memcpy(run->own + blocks->floats, ends->values, ends->floats * sizeof(float));
    return mh_model_task_write(run, "config.json", &run->config);
}

mh_status mh_model_task_parameters(mh_run *run, size_t *floats, float **values)
{
    run->layered = blocks_of(run)->floats;
    *floats = run->layered + mh_model_parameters(run->model)->floats;
    run->own = mh_alloc(run->context, *floats * sizeof *run->own);
    run->floats = run->own ? *floats : 0;
    *values = run->own;
    return run->own ? MH_OK : MH_ERROR_MEMORY;
}

size_t mh_model_task_labels(const mh_run *run) { return mh_model_describe(run->model)->labels; }

mh_status mh_model_task_check_heads(const mh_run *run)
{
    const mh_translator_config *m = run->options->model;
    if (m->nhead && m->d_model % m->nhead == 0)
        return MH_OK;
    return mh_fail(run->context, MH_ERROR_ARGUMENT,
                   "d_model: found %zu, expected a multiple of the %zu heads", m->d_model,
                   m->nhead);
}

void mh_model_task_put(mh_run *run)
{
    const mh_parameters *blocks = blocks_of(run), *ends = mh_model_parameters(run->model);
    memcpy(blocks->values, run->own, blocks->floats * sizeof(float));
    memcpy(ends->values, run->own + blocks->floats, ends->floats * sizeof(float));
}

mh_status mh_model_task_save(mh_run *run)
{
    mh_model_task_put(run);
    return mh_model_save_weights(run->context, run->model, run->options->directory,
                                 run->options->weights);
}

mh_model_gradients mh_model_task_gradients(const mh_run *run, const mh_loss_options *options)
{
    mh_model_gradients g = mh_model_gradients_default();
    memset(options->gradients, 0, run->floats * sizeof *options->gradients);
    g.blocks = options->gradients;
    g.ends = options->gradients + blocks_of(run)->floats;
    g.ready = options->ready;
    g.ready_user = options->ready_user;
    return g;
}

float *mh_model_task_floats(mh_run *run, size_t floats)
{
    return mh_grow(run->context, &run->scratch, &run->scratch_capacity, floats,
                   sizeof *run->scratch)
               ? run->scratch
               : NULL;
}

void mh_model_task_set_dropout(mh_run *run)
{
    mh_run_set(run, "dropout", "%.9g", (double)run->options->model->dropout);
    mh_setting *s = &run->settings.list[run->settings.count - 1];
    s->single = true;
    s->absent = "0";
}

void mh_model_task_train(const mh_loss_options *options, mh_tape *tape, mh_model_input *input)
{
    input->tape = tape;
    input->training = options->training;
    input->seed = options->seed;
    input->step = options->step;
}

mh_tape *mh_model_task_tape(mh_run *run)
{
    if (!run->tape && mh_tape_create(run->context, &run->tape))
        return NULL;
    return run->tape;
}

void mh_model_task_free(mh_run *run)
{
    mh_context *context = run->context;
    mh_model_free(run->model);
    mh_tape_free(run->tape);
    mh_free(context, run->own, run->floats * sizeof *run->own);
    mh_buffer_free(context, &run->config);
    mh_buffer_free(context, &run->sample);
    mh_buffer_free(context, &run->tokenizer_json);
    mh_shrink(context, &run->scratch, &run->scratch_capacity, sizeof *run->scratch);
    mh_shrink(context, &run->sequences, &run->sequences_capacity, sizeof *run->sequences);
    mh_shrink(context, &run->views, &run->views_capacity, sizeof *run->views);
    mh_shrink(context, &run->pictures.pixels, &run->pictures.capacity, 1);
    mh_shrink(context, &run->valid_pictures.pixels, &run->valid_pictures.capacity, 1);
    mh_labels_free(run->context, &run->labels);
    mh_tokenizer_free(run->tokenizer);
}

// ---- validation ---------------------------------------------------------------------------------

static mh_status score_own(mh_run *run, mh_batch_score_fn score_batch, mh_validation_fn told,
                           mh_batch_score *scores, bool *stopped)
{
    const mh_batches *plan = &run->valid.batches;
    const size_t begin = mh_valid_batches_first(run, run->ranks.rank);
    const size_t end = mh_valid_batches_first(run, run->ranks.rank + 1);
    for (size_t b = begin; b < end && !*stopped; b++) {
        MH_TRY(score_batch(run, plan->examples + plan->starts[b],
                           plan->starts[b + 1] - plan->starts[b], &scores[b]));
        *stopped = !told(run, (double)(b + 1 - begin) / (double)(end - begin));
    }
    return MH_OK;
}

mh_status mh_model_task_validate(mh_run *run, mh_batch_score_fn score_batch, mh_validation_fn told,
                                 mh_batch_score *sum, bool *stopped)
{
    const size_t bytes = run->valid.batches.count * sizeof(mh_batch_score);
    mh_batch_score *scores = mh_alloc(run->context, bytes);
    double sums[2] = {0};
    mh_status status = scores ? MH_OK : MH_ERROR_MEMORY;
    mh_model_task_put(run);
    if (!status) {
        memset(scores, 0, bytes);
        status = score_own(run, score_batch, told, scores, stopped);
    }
    status = mh_run_agree(run, status);
    if (!status)
        status = mh_valid_batches_sum(run, (double *)scores, 2, sums);
    *sum = (mh_batch_score){.loss = sums[0], .correct = sums[1]};
    mh_free(run->context, scores, bytes);
    return status;
}
