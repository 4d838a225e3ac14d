// SPDX-License-Identifier: MIT
// multihead/base.h: the foundation: status codes, the context, memory, logging and parallel loops.
//
// Thread safety: parameters and models are immutable once loaded and may be shared by any number of
// threads; a context belongs to one thread at a time; two contexts never interfere.
//
// No call uses more than 64 KiB of stack in the calling thread, callbacks excluded.
//
// Structs that can grow begin with `struct_size`, which their inline _default() function sets to
// the size that the program was compiled with; later versions append fields at the end. One rule
// holds for all of them, and lets a program run with an older or a newer library:
//
//   - a shorter struct than the library's: the missing fields have their defaults;
//   - a longer one: accepted if the fields that the library does not know are all 0, otherwise
//     MH_ERROR_ARGUMENT names the struct;
//   - no valid size at all, as in a struct that was not initialised: MH_ERROR_ARGUMENT names the
//     _default() function to call;
//   - an array of such structs: all elements have the same struct_size, the array's stride;
//   - an output that the caller allocates: the library writes that many bytes at most;
//   - a struct that the library allocates has no struct_size, and is only reached by a const
//     pointer: later versions append fields to it too.
//
// Structs without struct_size that the caller fills in (mh_tensor, mh_text and other small values)
// never change.
//
// Stability: every header says whether it is "stable" or "experimental". Between versions with the
// same major number a stable header keeps source and binary compatibility: functions, enum values
// and the layout of structs stay, new ones may be added. An experimental header may change in any
// version; the change log says how. So may a declaration of a stable header whose comment begins
// with "Experimental". Version 0 promises neither yet. This header is stable.
#ifndef MULTIHEAD_BASE_H
#define MULTIHEAD_BASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define MH_VERSION_MAJOR  0
#define MH_VERSION_MINOR  1
#define MH_VERSION_PATCH  0
#define MH_VERSION_STRING "0.1.0"

// The same as one number, to compare: #if MH_VERSION_NUMBER >= 200 is "0.2.0 or later".
#define MH_VERSION_NUMBER (MH_VERSION_MAJOR * 10000 + MH_VERSION_MINOR * 100 + MH_VERSION_PATCH)

#if defined(__GNUC__)
#define MH_API                 __attribute__((visibility("default")))
#define MH_MUST_CHECK          __attribute__((warn_unused_result))
#define MH_PRINTF(text, first) __attribute__((format(printf, text, first)))
#else
#define MH_API
#define MH_MUST_CHECK
#define MH_PRINTF(text, first)
#endif

#ifdef __cplusplus
extern "C" {
#endif

// ---- status -------------------------------------------------------------------------------------

// Every function that can fail returns one of these, and compilers warn where the result is ignored
// (MH_MUST_CHECK); mh_error_message() has the details. NULL for a required argument is
// MH_ERROR_ARGUMENT; accessors that return no status require valid arguments.
typedef enum mh_status {
    MH_OK = 0,
    MH_ERROR_ARGUMENT = 1,    // an invalid value, shape, stride or combination
    MH_ERROR_UNSUPPORTED = 2, // valid, but not available: a dtype, a level this CPU lacks
    MH_ERROR_MEMORY = 3,      // an allocation failed
    MH_ERROR_THREAD = 4,      // a thread could not be started
    MH_ERROR_FILE = 5,        // the operating system could not open, read or write a file
    MH_ERROR_FORMAT = 6,      // the file was read, but its contents are invalid
    MH_ERROR_DIVERGED = 7,    // the training loss became NaN or infinite
    MH_ERROR_CANCELLED = 8,   // mh_context_cancel stopped the call
} mh_status;

// A short constant name such as "out of memory". Any thread.
MH_API const char *mh_status_name(mh_status status);

// The version of the library at run time, as opposed to MH_VERSION_STRING of this header.
MH_API const char *mh_version(void);
MH_API int mh_version_number(void); // as MH_VERSION_NUMBER

// ---- caller-supplied hooks ----------------------------------------------------------------------

// A memory allocator. `alloc` returns NULL on failure and otherwise at least `size` bytes aligned
// to `alignment` (a power of two); `release` receives that same size. Both are called only from
// threads that use the context, or that use or free an object made with it: an allocator shared by
// threads in this way must be thread-safe. They and `user` must stay valid until the context and
// all such objects are freed.
typedef struct mh_allocator {
    void *(*alloc)(void *user, size_t size, size_t alignment);
    void (*release)(void *user, void *memory, size_t size);
    void *user;
    bool thread_safe; // several threads may call both at once, as they may the C library's; if not,
                      // work that allocates in each of its threads is done by one thread
} mh_allocator;

typedef enum mh_log_level { MH_LOG_DEBUG = 0, MH_LOG_INFO = 1, MH_LOG_WARNING = 2 } mh_log_level;

// Receives one line without a newline. The library itself never prints.
typedef void (*mh_log_fn)(void *user, mh_log_level level, const char *message);

// One iteration of a parallel loop. `worker` is smaller than the number of threads, and no two
// iterations that run concurrently share one, so it can select a scratch area.
typedef void (*mh_task_fn)(void *arg, size_t index, size_t worker);

// A caller-supplied mh_parallel_for: runs task(arg, i, worker) for i in 0..count-1 in any order on
// at most `threads` workers, and returns when all have finished.
typedef void (*mh_parallel_for_fn)(void *user, size_t threads, size_t count, mh_task_fn task,
                                   void *arg);

// ---- context ------------------------------------------------------------------------------------

// All state that would otherwise be global: threads, instruction-set level, allocator, log
// callback, scratch memory and the text of the last error. After fork() both processes may keep
// using their copy: the child's starts its own threads.
//
// Lifetime of every object created with a context (modules, caches, tapes, packed matrices, open
// files, tokenizers, translators, translations, traces): it keeps a copy of the context's
// allocator, never the context itself. Object and context may be freed in either order, and the
// object may be used with any other context; a packed matrix, with one of the same level.
typedef struct mh_context mh_context;

enum { MH_MAX_THREADS = 4096 }; // of a context

typedef struct mh_context_options {
    size_t struct_size;              // sizeof(mh_context_options)
    size_t threads;                  // 0: all CPUs available to this process; 1: starts no threads
    const char *isa;                 // NULL: $MH_ISA, or else the best level this CPU has
    mh_allocator allocator;          // .alloc NULL: the C library's
    mh_log_fn log;                   // NULL: silence
    void *log_user;                  // NULL
    mh_parallel_for_fn parallel_for; // NULL: the built-in pool; otherwise no threads are started
    void *parallel_for_user;         // NULL
} mh_context_options;

// Inline, so that struct_size is that of the struct the caller was compiled with.
static inline mh_context_options mh_context_options_default(void)
{
    mh_context_options options;
    memset(&options, 0, sizeof options);
    options.struct_size = sizeof options;
    return options;
}

// Creates a context; `options` may be NULL for the defaults. On failure *context is NULL and
// `error`, if it is not NULL, receives the reason (at most error_size bytes, terminated).
MH_API MH_MUST_CHECK mh_status mh_context_create(const mh_context_options *options,
                                                 mh_context **context, char *error,
                                                 size_t error_size);

// Stops the threads and frees everything the context owns. NULL is allowed.
MH_API void mh_context_free(mh_context *context);

// Details of the last failed call: what, where, found and expected. Never NULL, "" if nothing has
// failed yet; valid until the next failure in this context.
MH_API const char *mh_error_message(const mh_context *context);

// Stops the call that runs in a context, from any thread or a signal handler: matrix products and
// attention check between their tasks, so that a call returns MH_ERROR_CANCELLED within
// milliseconds as a rule, with outputs whose contents are unspecified. What a call keeps, such as a
// KV cache or a decoding, is as after any other error; parameters are not touched, as optimiser
// steps run to their end. Calls in serial contexts made from this one stop, too. If no such call is
// running, the next one is stopped. One cancellation stops one call.
MH_API void mh_context_cancel(mh_context *context);

MH_API size_t mh_context_threads(const mh_context *context);
MH_API const char *mh_context_isa(const mh_context *context);
MH_API mh_allocator mh_context_allocator(const mh_context *context); // the C library's by default

// Whether the context's level multiplies bf16 natively (AVX512_BF16, AMX). If so, bf16 operands are
// much faster than f32, and denormal ones count as 0; else bf16 operands are widened to f32, which
// saves memory only.
MH_API bool mh_context_native_bf16(const mh_context *context);

// The levels built into this library, slowest first, NULL-terminated.
MH_API const char *const *mh_isa_levels(void);

// Whether this CPU and operating system can run a level.
MH_API bool mh_isa_supported(const char *level);

// The CPU features detected, as one line: "avx2 fma f16c avx512f ...".
MH_API const char *mh_cpu_features(void);

// ---- services for code built on the library -----------------------------------------------------

// Records a printf-style message and returns `status`, so that a function can write
//     return mh_fail(context, MH_ERROR_ARGUMENT, "rank: found %d, expected 4", rank);
MH_API mh_status mh_fail(mh_context *context, mh_status status, const char *format, ...)
    MH_PRINTF(3, 4);

MH_API void mh_log(mh_context *context, mh_log_level level, const char *format, ...)
    MH_PRINTF(3, 4);

// Memory from the context's allocator, aligned to 64 bytes, not initialised. On failure returns
// NULL and sets the error message. Pass the same size to mh_free; freeing NULL is allowed.
MH_API void *mh_alloc(mh_context *context, size_t size);
MH_API void mh_free(mh_context *context, void *memory, size_t size);

// Bytes or text that the library returns, in memory of a context. All zeros is empty; a function
// that fills a buffer reuses its memory. Free it with that context, or with one that has the same
// allocator.
typedef struct mh_buffer {
    char *data; // (size), and a terminating 0 if size is not 0
    size_t size, capacity;
} mh_buffer;

MH_API void mh_buffer_free(mh_context *context,
                           mh_buffer *buffer); // all zeros and NULL are allowed

// Equivalent to the serial loop
//     for (size_t i = 0; i < count; i++) task(arg, i, 0);
// but on the context's threads: iterations run in any order, each exactly once, with the
// default floating-point environment, and the call returns when all have finished.
// Called from within an iteration, it is that serial loop.
MH_API void mh_parallel_for(mh_context *context, size_t count, mh_task_fn task, void *arg);

// Experimental: from now on, until `poll` is set again or to NULL, calls of the library call
// poll(user) between the tasks of their parallel loops, on the thread of their caller, some
// thousand times per second: messages that advance only when they are asked for, such as MPI's, are
// sent and received during computation. `poll` must return within microseconds, must not use the
// context, and has no effect on results. A context with its own parallel_for does not call it.
MH_API void mh_context_set_poll(mh_context *context, void (*poll)(void *user), void *user);

// A new context of one thread with the level and the allocator of `context` and no log, for one
// worker of a parallel loop whose iterations call the library themselves. The caller frees it with
// mh_context_free() before `context`, whose cancellation stops its calls, too. It is created and
// freed outside of the loop; used in the loop, it allocates
// concurrently with others, so that the allocator must be thread_safe. On failure *serial is NULL;
// errors: MH_ERROR_ARGUMENT, MH_ERROR_MEMORY, with the message in `context`.
MH_API MH_MUST_CHECK mh_status mh_context_create_serial(mh_context *context, mh_context **serial);

#ifdef __cplusplus
}
#endif
#endif
