// SPDX-License-Identifier: MIT
// Creating and freeing a context. This is in ops, not in base, because it chooses the kernels.
//
// Everything is checked on a draft on the stack, which can already hold a message; then one
// block is allocated for the context and its kernel table, and last the threads are started.
// A level requested by name is used or rejected, never replaced by a lower one.
#include "base/context.h"
#include "base/env.h"
#include "base/pool.h"
#include "base/sized_struct.h"
#include "kernels/kernels.h"

#include <stdio.h>
#include <string.h>

typedef struct context_block {
    mh_context context; // first: the context's address is the block's
    mh_kernels kernels;
} context_block;

const char *const *mh_isa_levels(void) { return mh_isa_names; }

bool mh_context_native_bf16(const mh_context *context) { return context->kernels->native_bf16; }

bool mh_isa_supported(const char *level) { return level && mh_isa_available(level); }

static mh_status choose_memory(mh_context *draft, const mh_context_options *options)
{
    if (!options->allocator.alloc)
        draft->allocator = mh_default_allocator();
    else if (!options->allocator.release)
        return mh_fail(draft, MH_ERROR_ARGUMENT, "allocator: alloc is given, release is NULL");
    else
        draft->allocator = options->allocator;
    return MH_OK;
}

static mh_status choose_threads(mh_context *draft, const mh_context_options *options)
{
    if (options->threads > MH_MAX_THREADS)
        return mh_fail(draft, MH_ERROR_ARGUMENT, "threads: found %zu, expected at most %d",
                       options->threads, MH_MAX_THREADS);
    size_t usable = options->threads ? options->threads : mh_usable_cpus();
    draft->threads = usable < MH_MAX_THREADS ? usable : MH_MAX_THREADS;
    draft->parallel_for = options->parallel_for;
    draft->parallel_for_user = options->parallel_for_user;
    return MH_OK;
}

static void list_working_levels(char *text, size_t size)
{
    size_t used = 0;
    text[0] = '\0';
    for (size_t i = 0; mh_isa_names[i] && used < size; i++) {
        if (!mh_isa_available(mh_isa_names[i]))
            continue;
        int length = snprintf(text + used, size - used, "%s%s", used ? ", " : "", mh_isa_names[i]);
        used += length > 0 ? (size_t)length : 0;
    }
}

static bool is_known_level(const char *name)
{
    for (size_t i = 0; mh_isa_names[i]; i++)
        if (strcmp(name, mh_isa_names[i]) == 0)
            return true;
    return false;
}

static mh_status choose_isa(mh_context *draft, const char *option, mh_kernels *kernels)
{
    const char *name = option ? option : mh_env_isa();
    if (!name || mh_isa_available(name))
        draft->isa = mh_kernels_init(kernels, name);
    if (draft->isa && (!name || strcmp(name, draft->isa) == 0))
        return MH_OK;
    char working[256];
    list_working_levels(working, sizeof working);
    return mh_fail(draft, MH_ERROR_UNSUPPORTED, "%s: \"%.64s\" %s; these levels work: %s",
                   option ? "isa" : "$MH_ISA", name ? name : "",
                   name && is_known_level(name) ? "is a level this CPU or its system lacks"
                                                : "is not a level",
                   working);
}

// Allocates the context and starts its threads. The draft receives the message of a failure.
static mh_status context_create_build(mh_context *draft, const mh_kernels *kernels,
                                      mh_context **context)
{
    context_block *block = mh_alloc(draft, sizeof *block);
    if (!block)
        return MH_ERROR_MEMORY;
    block->context = *draft;
    block->context.cancel = &block->context.cancelled;
    block->kernels = *kernels;
    block->context.kernels = &block->kernels;
    bool own_pool = draft->threads > 1 && !draft->parallel_for;
    mh_status status =
        own_pool ? mh_pool_create(&block->context, draft->threads, &block->context.pool) : MH_OK;
    if (status) {
        memcpy(draft->error, block->context.error, sizeof draft->error);
        mh_context_free(&block->context);
        return status;
    }
    *context = &block->context;
    return MH_OK;
}

static mh_status create(mh_context *draft, const mh_context_options *given, mh_context **context)
{
    mh_context_options options = mh_context_options_default();
    mh_kernels kernels;
    mh_status status = MH_READ_STRUCT(draft, mh_context_options, given, &options);
    if (!status)
        status = choose_memory(draft, &options);
    if (!status)
        status = choose_threads(draft, &options);
    if (!status)
        status = choose_isa(draft, options.isa, &kernels);
    draft->log = options.log;
    draft->log_user = options.log_user;
    if (!status)
        status = context_create_build(draft, &kernels, context);
    return status;
}

mh_status mh_context_create(const mh_context_options *options, mh_context **context, char *error,
                            size_t error_size)
{
    mh_context draft = {.cancel = &draft.cancelled};
    mh_context *made = NULL;
    mh_status status = context ? create(&draft, options, &made)
                               : mh_fail(&draft, MH_ERROR_ARGUMENT, "context: found NULL");
    if (context)
        *context = made;
    if (error && error_size > 0)
        snprintf(error, error_size, "%s", draft.error);
    if (made)
        mh_log(made, MH_LOG_DEBUG, "context: %zu threads, level %s", made->threads, made->isa);
    return status;
}

mh_status mh_context_create_serial(mh_context *context, mh_context **serial)
{
    if (mh_need(context, serial, "serial"))
        return MH_ERROR_ARGUMENT;
    context_block *block = mh_alloc(context, sizeof *block);
    *serial = block ? &block->context : NULL;
    if (!block)
        return MH_ERROR_MEMORY;
    block->kernels = *context->kernels;
    block->context = (mh_context){.allocator = context->allocator,
                                  .threads = 1,
                                  .isa = context->isa,
                                  .kernels = &block->kernels,
                                  .cancel = context->cancel};
    return MH_OK;
}

void mh_context_free(mh_context *context)
{
    if (!context)
        return;
    mh_pool_free(context->pool);
    mh_context_free_scratch(context);
    mh_free(context, context, sizeof(context_block));
}
