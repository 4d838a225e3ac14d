// SPDX-License-Identifier: MIT
// The state of a context. ops/context_create.c creates and frees it; base and io use it for memory,
// messages and threads.
#ifndef MH_BASE_CONTEXT_H
#define MH_BASE_CONTEXT_H

#include "base/argument_check.h"
#include "base/release.h"
#include <multihead/base.h>
#include <stdatomic.h>

struct mh_kernels;
struct mh_pool;

struct mh_context {
    mh_allocator allocator;
    mh_log_fn log;
    void *log_user;

    size_t threads;
    struct mh_pool *pool;            // NULL: one thread, or the caller's parallel_for
    mh_parallel_for_fn parallel_for; // NULL: our pool
    void *parallel_for_user;
    bool in_parallel;         // a loop is running: nested loops are serial
    void (*poll)(void *user); // NULL, or called by the calling thread between tasks
    void *poll_user;

    atomic_bool cancelled; // set by mh_context_cancel until a call has reported it
    atomic_bool *cancel;   // that, or of the context a serial one was made from

    const char *isa;
    const struct mh_kernels *kernels; // filled for `isa`

    // Each grows to the largest size requested and is kept: the system would have to clear memory
    // that is allocated for every call.
    struct mh_scratch {
        void *memory;
        size_t size;
    } scratch, module_scratch;

    char error[1024];
};

// Whether the call in this context is to be stopped; and the same as a status, with a message.
static inline bool mh_is_cancelled(const mh_context *context)
{
    return atomic_load_explicit(context->cancel, memory_order_relaxed);
}
mh_status mh_check_cancelled(mh_context *context);

// mh_parallel_for whose remaining iterations are skipped once the call is cancelled; the operation
// then ends with mh_check_cancelled().
void mh_parallel_for_or_cancel(mh_context *context, size_t count, mh_task_fn task, void *arg);

// Memory that replaces `before` bytes and is kept: mh_grown_size(), or `needed` bytes if there is
// no memory for more; *size receives which. NULL, without a message, if there is not even that.
void *mh_alloc_grown(const mh_allocator *allocator, size_t before, size_t needed, size_t *size);

// At least `size` bytes of scratch, aligned to 64, valid until the next call. NULL with a
// message if there is no memory; the old scratch is then still valid.
void *mh_context_scratch(mh_context *context, size_t size);

// The same for a module, valid while its operations use their own scratch.
void *mh_context_module_scratch(mh_context *context, size_t size);

// Frees both.
void mh_context_free_scratch(mh_context *context);

// The C library's allocator, for callers that pass none.
mh_allocator mh_default_allocator(void);

#endif
