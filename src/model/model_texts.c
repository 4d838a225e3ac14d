// SPDX-License-Identifier: MIT
// Texts for a pretrained model: encoded by its tokenizer, and packed one after the other.
#include "base/argument_check.h"
#include "base/compiler.h"
#include "model/model_internal.h"
#include <stdio.h>
#include <string.h>

struct mh_model_texts {
    size_t count, rows;
    mh_encoding *encodings; // (count)
    int64_t *starts;        // (count + 1)
    int32_t *ids, *types;   // (rows)
    mh_model_input input;
};

void mh_model_texts_free(mh_context *context, mh_model_texts *t)
{
    if (!t)
        return;
    for (size_t i = 0; t->encodings && i < t->count; i++)
        mh_encoding_free(context, &t->encodings[i]);
    mh_free(context, t->encodings, t->count * sizeof *t->encodings);
    mh_free(context, t->starts, (t->count + 1) * sizeof *t->starts);
    mh_free(context, t->ids, t->rows * sizeof *t->ids);
    mh_free(context, t->types, t->rows * sizeof *t->types);
    mh_free(context, t, sizeof *t);
}

const mh_model_input *mh_model_texts_input(const mh_model_texts *texts) { return &texts->input; }

const mh_encoding *mh_model_texts_encoding(const mh_model_texts *texts, size_t i)
{
    return i < texts->count ? &texts->encodings[i] : NULL;
}

static mh_status encode_own_texts(mh_context *context, const mh_model *model,
                                  const mh_encode_options *options, const mh_text *texts,
                                  mh_model_texts *t)
{
    for (size_t i = 0; i < t->count; i++) {
        if (i > 0) { // its memory is that of all
            t->encodings[i].scratch = t->encodings[i - 1].scratch;
            t->encodings[i - 1].scratch = NULL;
        }
        mh_status status =
            mh_model_encode_text(context, model, options, texts[i], NULL, &t->encodings[i]);
        if (!status)
            continue;
        char message[512];
        snprintf(message, sizeof message, "%s", mh_error_message(context));
        return mh_fail(context, status, "text %zu: %s", i, message);
    }
    return MH_OK;
}

static mh_status encode_all(mh_context *context, const mh_model *model, bool truncate,
                            const mh_text *texts, mh_model_texts *t)
{
    const size_t most = model->info.max_length;
    mh_encode_options o = mh_encode_options_default();
    o.max_length = truncate ? most : 0;
    MH_TRY(model->family->own ? encode_own_texts(context, model, &o, texts, t)
                              : mh_tokenizer_encode_batch(context, model->tokenizer, &o, texts,
                                                          NULL, t->count, t->encodings));
    for (size_t i = 0; i < t->count; i++) {
        const size_t found = t->encodings[i].count;
        if (found > most)
            return mh_fail(context, MH_ERROR_ARGUMENT,
                           "text %zu: found %zu tokens, expected at most %zu", i + 1, found, most);
        t->starts[i + 1] = t->starts[i] + (int64_t)found;
    }
    t->rows = (size_t)t->starts[t->count];
    return MH_OK;
}

// Token types that the model has, one after the other.
static mh_status model_texts_pack_rows(mh_context *context, const mh_model *model,
                                       mh_model_texts *t)
{
    t->ids = mh_alloc(context, t->rows * sizeof *t->ids);
    t->types = t->ids ? mh_alloc(context, t->rows * sizeof *t->types) : NULL;
    if (!t->types)
        return MH_ERROR_MEMORY;
    size_t row = 0;
    for (size_t i = 0; i < t->count; i++)
        for (size_t j = 0; j < t->encodings[i].count; j++, row++) {
            t->ids[row] = t->encodings[i].ids[j];
            t->types[row] =
                t->encodings[i].types[j] < model->description.types ? t->encodings[i].types[j] : 0;
        }
    t->input = mh_model_input_default();
    t->input.sequences = t->count;
    t->input.starts = t->starts;
    t->input.ids = t->ids;
    t->input.types = t->types;
    return MH_OK;
}

static mh_status model_texts_encode(mh_context *context, const mh_model *model, bool truncate,
                                    const mh_text *texts, mh_model_texts *t)
{
    t->encodings = mh_alloc(context, t->count * sizeof *t->encodings);
    if (!t->encodings)
        return MH_ERROR_MEMORY;
    memset(t->encodings, 0, t->count * sizeof *t->encodings);
    t->starts = mh_alloc(context, (t->count + 1) * sizeof *t->starts);
    if (!t->starts)
        return MH_ERROR_MEMORY;
    t->starts[0] = 0;
    MH_TRY(encode_all(context, model, truncate, texts, t));
    return model_texts_pack_rows(context, model, t);
}

mh_status mh_model_need_tokenizer(mh_context *context, const mh_model *model)
{
    return model->tokenizer
               ? MH_OK
               : mh_fail(context, MH_ERROR_UNSUPPORTED,
                         "this model has no tokenizer, expected one of tokenizer.json, vocab.txt, "
                         "vocab.json with merges.txt, tokenizer.model, spiece.model or "
                         "source.spm");
}

mh_status mh_model_encode(mh_context *context, const mh_model *model, bool truncate,
                          const mh_text *texts, size_t count, mh_model_texts **encoded)
{
    MH_TRY(MH_NEED(context, {"model", model}, {"texts", mh_array(texts, count)},
                   {"encoded", encoded}));
    *encoded = NULL;
    if (model->description.sound.mels)
        return mh_fail(context, MH_ERROR_UNSUPPORTED,
                       "this model (%s) reads sound, not texts: mh_transcribe", model->info.family);
    MH_TRY(mh_model_need_tokenizer(context, model));
    mh_model_texts *t = mh_alloc(context, sizeof *t);
    if (!t)
        return MH_ERROR_MEMORY;
    *t = (mh_model_texts){.count = count};
    mh_status status = model_texts_encode(context, model, truncate, texts, t);
    if (status)
        mh_model_texts_free(context, t);
    else
        *encoded = t;
    return status;
}

// ---- embeddings of many texts -------------------------------------------------------------------

enum { BATCH_TOKENS = 4096 };

// The texts from `first` on that fit into a batch, at least one.
static size_t count_batch(const mh_model_texts *all, size_t first, size_t tokens)
{
    size_t count = 1;
    while (first + count < all->count &&
           (size_t)(all->starts[first + count + 1] - all->starts[first]) <= tokens)
        count++;
    return count;
}

static mh_status embed_batch(mh_context *context, const mh_model *model, mh_pooling pooling,
                             bool normalize, const mh_model_texts *all, size_t first, size_t count,
                             int64_t *starts, const mh_tensor *embeddings)
{
    const int64_t begin = all->starts[first];
    mh_model_input input = all->input;
    for (size_t i = 0; i <= count; i++)
        starts[i] = all->starts[first + i] - begin;
    input.sequences = count;
    input.starts = starts;
    input.ids = all->ids + begin;
    input.types = all->types + begin;
    mh_tensor part = mh_tensor_slice(*embeddings, 0, first, count);
    return mh_model_embed(context, model, pooling, normalize, &input, &part);
}

static void remark_truncated(mh_context *context, const mh_model *model, const mh_model_texts *all)
{
    size_t truncated = 0;
    for (size_t i = 0; i < all->count; i++)
        truncated += all->encodings[i].truncated;
    if (truncated)
        mh_log(context, MH_LOG_INFO, "%zu of %zu texts cut after %zu tokens, the longest input",
               truncated, all->count, model->info.max_length);
}

mh_status mh_model_embed_texts(mh_context *context, const mh_model *model, mh_pooling pooling,
                               bool normalize, bool truncate, size_t batch_tokens,
                               const mh_text *texts, size_t count, mh_model_progress_fn progress,
                               void *user, mh_tensor *embeddings)
{
    mh_model_texts *all;
    MH_TRY(MH_NEED(context, {"model", model}, {"embeddings", embeddings}));
    if (embeddings->rank != 2 || embeddings->shape[0] != count)
        return mh_fail(context, MH_ERROR_ARGUMENT, "embeddings: expected (%zu, %zu)", count,
                       model->info.embedding_dim);
    MH_TRY(mh_model_encode(context, model, truncate, texts, count, &all));
    remark_truncated(context, model, all);
    int64_t *starts = mh_alloc(context, (count + 1) * sizeof *starts);
    mh_status status = starts ? MH_OK : MH_ERROR_MEMORY;
    for (size_t first = 0, n; first < count && !status; first += n) {
        n = count_batch(all, first, batch_tokens ? batch_tokens : BATCH_TOKENS);
        status = embed_batch(context, model, pooling, normalize, all, first, n, starts, embeddings);
        if (!status && progress)
            progress(user, first + n, count);
    }
    mh_free(context, starts, (count + 1) * sizeof *starts);
    mh_model_texts_free(context, all);
    return status;
}
