// SPDX-License-Identifier: MIT
// Encoding of one text, of a pair, and of many at once.
#include "base/argument_check.h"
#include "base/sized_struct.h"
#include "text/tokenizer_scratch.h"

void mh_encoding_free(mh_context *context, mh_encoding *e)
{
    if (!e)
        return;
    const size_t n = e->capacity;
    mh_free(context, e->ids, n * sizeof *e->ids);
    mh_free(context, e->words, n * sizeof *e->words);
    mh_free(context, e->begins, n * sizeof *e->begins);
    mh_free(context, e->ends, n * sizeof *e->ends);
    mh_free(context, e->types, n);
    mh_free(context, e->special, n);
    mh_free(context, e->sequences, n);
    mh_encode_scratch_free(context, e->scratch);
    memset(e, 0, sizeof *e);
}

static mh_status tokenizer_encode_text_encode(mh_context *context, const mh_tokenizer *t,
                                              const mh_encode_options *options, mh_text text,
                                              const mh_text *pair, mh_encode_scratch *scratch,
                                              mh_encoding *encoding)
{
    if ((!text.bytes && text.size > 0) || (pair && !pair->bytes && pair->size > 0))
        return mh_fail(context, MH_ERROR_ARGUMENT, "text: found NULL");
    mh_status status = mh_encode_sequence(context, t, options, text, 0, scratch);
    if (status == MH_OK && pair)
        status = mh_encode_sequence(context, t, options, *pair, 1, scratch);
    if (status == MH_OK)
        status = mh_post_process(context, t, options, pair ? 2 : 1, scratch, encoding);
    if (status != MH_OK)
        encoding->count = 0;
    return status;
}

mh_status mh_tokenizer_encode_text(mh_context *context, const mh_tokenizer *tokenizer,
                                   const mh_encode_options *options, mh_text text,
                                   const mh_text *pair, mh_encoding *encoding)
{
    if (MH_NEED(context, {"tokenizer", tokenizer}, {"encoding", encoding}))
        return MH_ERROR_ARGUMENT;
    mh_encode_options own = mh_encode_options_default();
    encoding->count = 0;
    mh_status status = MH_READ_STRUCT(context, mh_encode_options, options, &own);
    if (status == MH_OK && !encoding->scratch &&
        !(encoding->scratch = mh_encode_scratch_create(context)))
        status = MH_ERROR_MEMORY;
    return status == MH_OK ? tokenizer_encode_text_encode(context, tokenizer, &own, text, pair,
                                                          encoding->scratch, encoding)
                           : status;
}

// ---- many texts ---------------------------------------------------------------------------------

typedef struct worker {
    mh_context *context;
    mh_encode_scratch *scratch;
    mh_status status; // of the text that failed
    size_t failed;    // its number
} worker;

typedef struct batch {
    const mh_tokenizer *t;
    const mh_encode_options *options;
    const mh_text *texts, *pairs;
    mh_encoding *encodings;
    size_t count;
    worker *workers;
} batch;

enum { CHUNK = 16 }; // texts per iteration

static void encode_chunk(void *arg, size_t index, size_t number)
{
    const batch *b = arg;
    worker *w = &b->workers[number];
    size_t end = index * CHUNK + CHUNK < b->count ? index * CHUNK + CHUNK : b->count;
    for (size_t i = index * CHUNK; i < end; i++) {
        if (!w->scratch)
            w->scratch = mh_encode_scratch_create(w->context);
        b->encodings[i].count = 0;
        mh_status status =
            w->scratch ? tokenizer_encode_text_encode(w->context, b->t, b->options, b->texts[i],
                                                      b->pairs ? &b->pairs[i] : NULL, w->scratch,
                                                      &b->encodings[i])
                       : MH_ERROR_MEMORY;
        if (status != MH_OK && (w->status == MH_OK || i < w->failed)) {
            w->status = status;
            w->failed = i;
        }
    }
}

// The first failed text of all, with its message.
static mh_status first_failure(mh_context *context, const worker *workers, size_t count)
{
    const worker *first = NULL;
    for (size_t i = 0; i < count; i++)
        if (workers[i].status != MH_OK && (!first || workers[i].failed < first->failed))
            first = &workers[i];
    if (!first)
        return MH_OK;
    return mh_fail(context, first->status, "text %zu: %.900s", first->failed,
                   mh_error_message(first->context));
}

mh_status mh_tokenizer_encode_batch(mh_context *context, const mh_tokenizer *tokenizer,
                                    const mh_encode_options *options, const mh_text *texts,
                                    const mh_text *pairs, size_t count, mh_encoding *encodings)
{
    if (MH_NEED(context, {"tokenizer", tokenizer}, {"texts", mh_array(texts, count)},
                {"encodings", mh_array(encodings, count)}))
        return MH_ERROR_ARGUMENT;
    mh_encode_options own = mh_encode_options_default();
    batch b = {tokenizer, &own, texts, pairs, encodings, count, NULL};
    mh_status status = MH_READ_STRUCT(context, mh_encode_options, options, &own);
    if (status != MH_OK)
        return status;
    size_t threads = mh_context_threads(context), bytes;
    if (!mh_multiply_sizes(threads, sizeof *b.workers, &bytes) ||
        !(b.workers = mh_alloc(context, bytes)))
        return MH_ERROR_MEMORY;
    memset(b.workers, 0, bytes);
    for (size_t i = 0; i < threads && status == MH_OK; i++)
        status = mh_context_create_serial(context, &b.workers[i].context);
    if (status == MH_OK) {
        mh_parallel_for(context, count / CHUNK + (count % CHUNK != 0), encode_chunk, &b);
        status = first_failure(context, b.workers, threads);
    }
    for (size_t i = 0; i < threads; i++) {
        if (b.workers[i].scratch)
            mh_encode_scratch_free(b.workers[i].context, b.workers[i].scratch);
        mh_context_free(b.workers[i].context);
    }
    mh_free(context, b.workers, bytes);
    return status;
}
