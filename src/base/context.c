// SPDX-License-Identifier: MIT
// The services of a context: messages, memory, scratch and parallel loops. Contexts are created in
// ops/context_create.c, because that needs the kernels.
#include "base/context.h"

#include "base/fpenv.h"
#include "base/pool.h"
#include "base/size_math.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

// ---- messages -----------------------------------------------------------------------------------

mh_status mh_fail(mh_context *context, mh_status status, const char *format, ...)
{
    if (!context)
        return status;
    char text[sizeof context->error]; // not in place: an argument may be the old message
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    memcpy(context->error, length < 0 ? "" : text, length < 0 ? 1 : strlen(text) + 1);
    if (status == MH_ERROR_CANCELLED) // reported; the flag of a serial context's parent stays
        atomic_store(&context->cancelled, false);
    return status;
}

void mh_log(mh_context *context, mh_log_level level, const char *format, ...)
{
    if (!context || !context->log)
        return;
    char text[1024];
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    if (length >= 0)
        context->log(context->log_user, level, text);
}

const char *mh_error_message(const mh_context *context) { return context ? context->error : ""; }

size_t mh_context_threads(const mh_context *context) { return context->threads; }

const char *mh_context_isa(const mh_context *context) { return context->isa; }

mh_allocator mh_context_allocator(const mh_context *context) { return context->allocator; }

// ---- memory -------------------------------------------------------------------------------------

enum { ALIGNMENT = 64, HUGE_PAGE = 2 << 20 };

static void prefer_huge_pages(void *memory, size_t size)
{
#ifdef MADV_HUGEPAGE
    madvise(memory, size, MADV_HUGEPAGE); // a hint: failure does no harm
#else
    (void)memory, (void)size;
#endif
}

// The part of a block that is worth huge pages; the last one if it is at least three quarters full.
static size_t huge_part(size_t size)
{
    const size_t rest = size % HUGE_PAGE;
    return size - rest + (rest >= HUGE_PAGE / 4 * 3 ? HUGE_PAGE : 0);
}

// Large blocks use huge pages where the system grants them on request: packing walks down columns,
// a page per step, and in a virtual machine every TLB miss costs two page walks.
static void *libc_alloc(void *user, size_t size, size_t alignment)
{
    (void)user;
    void *memory;
    const size_t huge = size <= SIZE_MAX - HUGE_PAGE ? huge_part(size) : 0;
    if (posix_memalign(&memory, huge ? HUGE_PAGE : alignment, size > huge ? size : huge) != 0)
        return NULL;
    if (huge)
        prefer_huge_pages(memory, huge);
    return memory;
}

static void libc_release(void *user, void *memory, size_t size)
{
    (void)user;
    (void)size;
    free(memory);
}

mh_allocator mh_default_allocator(void)
{
    return (mh_allocator){libc_alloc, libc_release, NULL, .thread_safe = true};
}

// An allocator may return NULL for 0 bytes, which would look like a failure.
static size_t at_least_one(size_t size) { return size ? size : 1; }

static void *try_alloc(const mh_allocator *allocator, size_t size)
{
    return allocator->alloc(allocator->user, at_least_one(size), ALIGNMENT);
}

static void fail_to_alloc(mh_context *context, size_t size)
{
    mh_fail(context, MH_ERROR_MEMORY, "out of memory: %zu bytes could not be allocated", size);
}

void *mh_alloc(mh_context *context, size_t size)
{
    void *memory = try_alloc(&context->allocator, size);
    if (!memory)
        fail_to_alloc(context, size);
    return memory;
}

void *mh_alloc_grown(const mh_allocator *allocator, size_t before, size_t needed, size_t *size)
{
    *size = mh_grown_size(before, needed);
    void *memory = try_alloc(allocator, *size);
    if (!memory && *size > needed) {
        *size = needed;
        memory = try_alloc(allocator, needed);
    }
    return memory;
}

void mh_free(mh_context *context, void *memory, size_t size)
{
    if (!memory)
        return;
    const mh_allocator allocator = context->allocator; // the memory may be the context itself
    mh_release(&allocator, memory, size);
}

void mh_buffer_free(mh_context *context, mh_buffer *buffer)
{
    if (!buffer)
        return;
    mh_free(context, buffer->data, buffer->capacity);
    *buffer = (mh_buffer){0};
}

static void replace_scratch(mh_context *context, struct mh_scratch *scratch, void *memory,
                            size_t size)
{
    mh_free(context, scratch->memory, scratch->size);
    *scratch = (struct mh_scratch){memory, size};
}

static void *grow_scratch(mh_context *context, struct mh_scratch *scratch, size_t needed)
{
    if (scratch->memory && needed <= scratch->size)
        return scratch->memory;
    size_t size;
    void *memory = mh_alloc_grown(&context->allocator, scratch->size, needed, &size);
    if (memory)
        replace_scratch(context, scratch, memory, size);
    else
        fail_to_alloc(context, needed);
    return memory;
}

void *mh_context_scratch(mh_context *context, size_t size)
{
    return grow_scratch(context, &context->scratch, size);
}

void *mh_context_module_scratch(mh_context *context, size_t size)
{
    return grow_scratch(context, &context->module_scratch, size);
}

void mh_context_free_scratch(mh_context *context)
{
    replace_scratch(context, &context->scratch, NULL, 0);
    replace_scratch(context, &context->module_scratch, NULL, 0);
}

// ---- parallel loops -----------------------------------------------------------------------------

static void run_serial(size_t count, mh_task_fn task, void *arg)
{
    mh_fpenv saved = mh_fpenv_enter();
    for (size_t i = 0; i < count; i++)
        task(arg, i, 0);
    mh_fpenv_leave(saved);
}

typedef struct guarded_task {
    mh_task_fn task;
    void *arg;
} guarded_task;

// The caller's threads may have another floating-point environment.
static void run_guarded(void *arg, size_t index, size_t worker)
{
    const guarded_task *guarded = arg;
    mh_fpenv saved = mh_fpenv_enter();
    guarded->task(guarded->arg, index, worker);
    mh_fpenv_leave(saved);
}

void mh_context_set_poll(mh_context *context, void (*poll)(void *user), void *user)
{
    if (!context)
        return;
    context->poll = poll;
    context->poll_user = user;
}

typedef struct polled_task {
    const mh_context *context;
    mh_task_fn task;
    void *arg;
} polled_task;

// Worker 0 is the calling thread.
static void run_and_poll(void *arg, size_t index, size_t worker)
{
    const polled_task *polled = arg;
    polled->task(polled->arg, index, worker);
    if (worker == 0)
        polled->context->poll(polled->context->poll_user);
}

void mh_parallel_for(mh_context *context, size_t count, mh_task_fn task, void *arg)
{
    if (context->in_parallel || count == 0) { // iterations only read the flag: no race
        run_serial(count, task, arg);
        return;
    }
    polled_task polled = {context, task, arg};
    if (context->poll && !context->parallel_for) {
        task = run_and_poll;
        arg = &polled;
    }
    context->in_parallel = true;
    if (count == 1 || context->threads == 1) {
        run_serial(count, task, arg);
    } else if (context->parallel_for) {
        guarded_task guarded = {task, arg};
        context->parallel_for(context->parallel_for_user, context->threads, count, run_guarded,
                              &guarded);
    } else if (context->pool) {
        mh_pool_run(context->pool, count, task, arg);
    } else {
        run_serial(count, task, arg);
    }
    context->in_parallel = false;
}

// ---- cancellation -------------------------------------------------------------------------------

void mh_context_cancel(mh_context *context)
{
    if (context)
        atomic_store(context->cancel, true);
}

mh_status mh_check_cancelled(mh_context *context)
{
    return mh_is_cancelled(context) ? mh_fail(context, MH_ERROR_CANCELLED, "the call was cancelled")
                                    : MH_OK;
}

typedef struct cancellable_task {
    const mh_context *context;
    mh_task_fn task;
    void *arg;
} cancellable_task;

static void run_unless_cancelled(void *arg, size_t index, size_t worker)
{
    const cancellable_task *c = arg;
    if (!mh_is_cancelled(c->context))
        c->task(c->arg, index, worker);
}

void mh_parallel_for_or_cancel(mh_context *context, size_t count, mh_task_fn task, void *arg)
{
    cancellable_task c = {context, task, arg};
    mh_parallel_for(context, count, run_unless_cancelled, &c);
}
