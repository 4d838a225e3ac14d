// SPDX-License-Identifier: MIT
// Results must not depend on the caller's floating-point environment, such as flush-to-zero or
// another rounding mode. Every task runs between mh_fpenv_enter() and mh_fpenv_leave().
#ifndef MH_BASE_FPENV_H
#define MH_BASE_FPENV_H

#include <stdint.h>

typedef uint64_t mh_fpenv;

#if defined(__x86_64__)
enum { MH_MXCSR_DEFAULT = 0x1F80 }; // round to nearest, denormals kept, exceptions masked

static inline mh_fpenv mh_fpenv_enter(void)
{
    uint32_t saved, plain = MH_MXCSR_DEFAULT;
    __asm__ volatile("stmxcsr %0" : "=m"(saved));
    __asm__ volatile("ldmxcsr %0" : : "m"(plain) : "memory");
    return saved;
}
static inline void mh_fpenv_leave(mh_fpenv saved)
{
    uint32_t value = (uint32_t)saved;
    __asm__ volatile("ldmxcsr %0" : : "m"(value) : "memory");
}
#elif defined(__aarch64__)
static inline mh_fpenv mh_fpenv_enter(void)
{
    uint64_t saved, plain = 0;
    __asm__ volatile("mrs %0, fpcr" : "=r"(saved));
    __asm__ volatile("msr fpcr, %0" : : "r"(plain) : "memory");
    return saved;
}
static inline void mh_fpenv_leave(mh_fpenv saved)
{
    __asm__ volatile("msr fpcr, %0" : : "r"(saved) : "memory");
}
#else
static inline mh_fpenv mh_fpenv_enter(void) { return 0; }
static inline void mh_fpenv_leave(mh_fpenv saved) { (void)saved; }
#endif

#endif
