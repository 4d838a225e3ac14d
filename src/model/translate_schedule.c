// SPDX-License-Identifier: MIT
// Batches of segments, either sequentially with all threads in each product, or concurrently:
//
//     thread 0:  batch 0        batch 3  ...       a thread takes the next batch when it is free,
//     thread 1:  batch 1  batch 2        ...       and never waits for another
//
// A step multiplies few rows: splitting it across threads costs more in waiting than it saves (two
// threads were hardly faster than one). So batches run concurrently if there is one per thread.
// Several threads then allocate, so this is done only if the allocator is thread-safe.
#include "base/size_math.h"
#include "model/translate_internal.h"
#include "model/translator_internal.h"
#include <stdlib.h>

enum { BATCHES_OF_PROGRESS = 4 }; // per thread, between progress reports

// Per-thread state.
typedef struct worker {
    mh_context *context; // of one thread
    mh_result_arena store;
    mh_status status;
    size_t batch; // the one that failed
} worker;

typedef struct schedule_job {
    const mh_translator *t;
    const mh_translate_options *options;
    mh_translate_options batch_options; // the same, with progress only for a single batch
    mh_translator_weights weights;
    mh_segment **order;
    size_t count;   // segments
    size_t batches; //
    size_t first;   // batch of this round
    worker *workers;
} schedule_job;

// The longest first: if memory runs out, it does so early.
static int translate_schedule_compare(const void *a, const void *b)
{
    const mh_segment *x = *(mh_segment *const *)a, *y = *(mh_segment *const *)b;
    if (x->count != y->count)
        return x->count > y->count ? -1 : 1;
    return x < y ? -1 : x > y;
}

static mh_status translate(mh_context *context, const schedule_job *job, size_t batch,
                           mh_result_arena *store, bool *stopped)
{
    const size_t size = job->options->batch, first = batch * size;
    return mh_translate_batch(context, job->t, &job->weights, &job->batch_options,
                              job->order + first, mh_smaller(size, job->count - first), store,
                              stopped);
}

static bool translate_schedule_tell(const schedule_job *job, size_t batches)
{
    const mh_translate_options *o = job->options;
    return !o->progress ||
           o->progress(o->progress_user, mh_smaller(batches * o->batch, job->count), job->count);
}

static mh_status one_by_one(mh_context *context, const schedule_job *job, mh_result_arena *store)
{
    mh_status status = MH_OK;
    bool stopped = false;
    for (size_t i = 0; i < job->batches && !stopped && !status; i++) {
        status = translate(context, job, i, store, &stopped);
        stopped = stopped || (!status && !translate_schedule_tell(job, i + 1));
    }
    return status;
}

// ---- concurrent batches -------------------------------------------------------------------------

static void take_batch(void *arg, size_t index, size_t number)
{
    const schedule_job *job = arg;
    worker *w = &job->workers[number];
    if (w->status)
        return;
    w->batch = job->first + index;
    bool stopped; // never: with several batches progress is reported between them
    w->status = translate(w->context, job, w->batch, &w->store, &stopped);
}

// Copies the error of the first failed batch to `context`.
static mh_status find_failure(mh_context *context, const schedule_job *job)
{
    const worker *found = NULL;
    for (size_t i = 0; i < mh_context_threads(context); i++)
        if (job->workers[i].status && (!found || job->workers[i].batch < found->batch))
            found = &job->workers[i];
    return found ? mh_fail(context, found->status, "%s", mh_error_message(found->context)) : MH_OK;
}

static mh_status create_workers(mh_context *context, size_t threads, worker *workers)
{
    mh_status status = MH_OK;
    for (size_t i = 0; i < threads; i++)
        workers[i] = (worker){.store.allocator = mh_context_allocator(context)};
    for (size_t i = 0; i < threads && !status; i++)
        status = mh_context_create_serial(context, &workers[i].context);
    return status;
}

// What they have allocated becomes the store's.
static void free_workers(size_t threads, worker *workers, mh_result_arena *store)
{
    for (size_t i = 0; i < threads; i++) {
        mh_result_join(store, &workers[i].store);
        mh_context_free(workers[i].context);
    }
}

static mh_status run_rounds(mh_context *context, schedule_job *job)
{
    const size_t threads = mh_context_threads(context);
    const size_t most = job->options->progress ? BATCHES_OF_PROGRESS * threads : job->batches;
    mh_status status = MH_OK;
    bool going_on = true;
    for (job->first = 0; job->first < job->batches && going_on && !status; job->first += most) {
        const size_t count = mh_smaller(most, job->batches - job->first);
        mh_parallel_for(context, count, take_batch, job);
        status = find_failure(context, job);
        going_on = !status && translate_schedule_tell(job, job->first + count);
    }
    return status;
}

static mh_status side_by_side(mh_context *context, schedule_job *job, mh_result_arena *store)
{
    const size_t threads = mh_context_threads(context);
    job->workers = mh_alloc(context, threads * sizeof *job->workers);
    if (!job->workers)
        return MH_ERROR_MEMORY;
    mh_status status = create_workers(context, threads, job->workers);
    if (!status)
        status = run_rounds(context, job);
    free_workers(threads, job->workers, store);
    mh_free(context, job->workers, threads * sizeof *job->workers);
    return status;
}

mh_status mh_translate_schedule(mh_context *context, const mh_translator *translator,
                                const mh_translate_options *options, const mh_segment_list *list,
                                mh_segment **order, mh_result_arena *store)
{
    schedule_job job = {.t = translator,
                        .options = options,
                        .batch_options = *options,
                        .order = order,
                        .count = list->count,
                        .batches = (list->count + options->batch - 1) / options->batch};
    if (job.batches > 1)
        job.batch_options.progress = NULL;
    for (size_t i = 0; i < list->count; i++)
        order[i] = &list->items[i];
    qsort(order, list->count, sizeof *order, translate_schedule_compare);
    const size_t threads = mh_context_threads(context);
    const bool concurrent =
        threads > 1 && job.batches >= threads && mh_context_allocator(context).thread_safe;
    mh_status status = mh_translator_weights_create(context, translator, &job.weights);
    if (!status)
        status = concurrent ? side_by_side(context, &job, store) : one_by_one(context, &job, store);
    mh_translator_weights_free(&job.weights);
    return status;
}
