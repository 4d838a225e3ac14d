// SPDX-License-Identifier: MIT
// The few compiler extensions we use, in one place.
#ifndef MH_BASE_COMPILER_H
#define MH_BASE_COMPILER_H

#include <assert.h>

#define MH_ALWAYS_INLINE static inline __attribute__((always_inline))
#define MH_PRAGMA(text)  _Pragma(#text)

// Returns from the calling function with the status of `call` if that is not MH_OK.
#define MH_TRY(call)                                                                               \
    do {                                                                                           \
        const mh_status mh_try_status = (call);                                                    \
        if (mh_try_status)                                                                         \
            return mh_try_status;                                                                  \
    } while (0)

// Unrolls the following loop; disabled where compiling that would take too long (CMakeLists.txt).
#ifdef MH_NO_UNROLLING
#define MH_UNROLL(times)
#else
#define MH_UNROLL(times) MH_PRAGMA(GCC unroll times)
#endif

// A precondition from a kernel's contract. Debug builds and those with sanitizers check it; with
// NDEBUG it is nothing. Callers in ops guarantee it, whatever the arguments of the API.
#define MH_CONTRACT(condition) assert(condition)

// Prefetches a cache line that will be written soon.
#define MH_PREFETCH_WRITE(address) __builtin_prefetch((address), 1)

// Prefetches into L2 a cache line that will be read in some thousand cycles. Any address is
// allowed, even an unmapped one.
#define MH_PREFETCH_FAR(address) __builtin_prefetch((address), 0, 2)

// Tells the CPU that this is a spin loop.
#if defined(__x86_64__)
#define MH_PAUSE() __asm__ volatile("pause")
#elif defined(__aarch64__)
#define MH_PAUSE() __asm__ volatile("isb")
#else
#define MH_PAUSE() ((void)0)
#endif

#endif
