// SPDX-License-Identifier: MIT
// The state of a context. ops/context_create.c creates and frees it; base and io use it for memory,
// messages and threads.
#ifndef MH_BASE_CONTEXT_H
#define MH_BASE_CONTEXT_H

#include <multihead/base.h>

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
    bool in_parallel; // a loop is running: nested loops are serial

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

// Rejects a call without a context, or without the argument of that name.
static inline mh_status mh_need(mh_context *context, const void *argument, const char *name)
{
    if (context && argument)
        return MH_OK;
    return mh_fail(context, MH_ERROR_ARGUMENT, "%s: found NULL", name);
}

// An array, which may be NULL if it has no elements.
static inline const void *mh_array(const void *array, size_t count) { return count ? array : ""; }

typedef struct mh_argument {
    const char *name;
    const void *value;
} mh_argument;

static inline mh_status mh_need_all(mh_context *context, size_t count, const mh_argument *arguments)
{
    mh_status status = context ? MH_OK : MH_ERROR_ARGUMENT;
    for (size_t i = 0; i < count && !status; i++)
        status = mh_need(context, arguments[i].value, arguments[i].name);
    return status;
}

// The same for several: MH_NEED(context, {"from", from}, {"to", to}).
#define MH_NEED(context, ...)                                                                      \
    mh_need_all(context, sizeof((mh_argument[]){__VA_ARGS__}) / sizeof(mh_argument),               \
                (mh_argument[]){__VA_ARGS__})

// Returns memory of mh_alloc() to the allocator it came from; NULL is fine. Objects keep a copy of
// their context's allocator for this, because the context may be freed before them.
static inline void mh_release(const mh_allocator *allocator, void *memory, size_t size)
{
    if (memory)
        allocator->release(allocator->user, memory, size ? size : 1); // the size of mh_alloc()
}

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
