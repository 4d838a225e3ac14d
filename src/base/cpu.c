// SPDX-License-Identifier: MIT
// CPU features by CPUID, and by XGETBV whether the operating system saves the registers: a
// feature counts only if both report it. By feature, never by model number.
//
// AMX is special: Linux grants the 8 KiB of tile state only to a process that has requested it
// (arch_prctl ARCH_REQ_XCOMP_PERM); otherwise the first tile instruction raises SIGILL. The
// request is made once, holds for all threads, and is inherited by fork().
#include "base/cpu.h"

#include <multihead/base.h>

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

static mh_cpu cpu;
static char features[256];
static pthread_once_t once = PTHREAD_ONCE_INIT;

// The names of mh_cpu_features() and the flags they stand for.
static const struct {
    const char *name;
    size_t offset;
} feature_list[] = {
    {"avx2", offsetof(mh_cpu, avx2)},
    {"fma", offsetof(mh_cpu, fma)},
    {"f16c", offsetof(mh_cpu, f16c)},
    {"avx512f", offsetof(mh_cpu, avx512f)},
    {"avx512bw", offsetof(mh_cpu, avx512bw)},
    {"avx512dq", offsetof(mh_cpu, avx512dq)},
    {"avx512vl", offsetof(mh_cpu, avx512vl)},
    {"avx512bf16", offsetof(mh_cpu, avx512bf16)},
    {"amx_tile", offsetof(mh_cpu, amx_tile)},
    {"amx_bf16", offsetof(mh_cpu, amx_bf16)},
    {"amx_permitted", offsetof(mh_cpu, amx_permitted)},
    {"neon", offsetof(mh_cpu, neon)},
};

#if defined(__x86_64__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>

// XCR0: which register files the operating system saves.
enum {
    STATE_YMM = 0x6,      // SSE, AVX
    STATE_ZMM = 0xE6,     // ... opmask, upper halves of zmm0-15, zmm16-31
    STATE_TILE = 0x60000, // TILECFG, TILEDATA
};

static uint64_t read_xcr0(void)
{
    uint32_t low, high;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return (uint64_t)high << 32 | low;
}

static bool has_bit(uint32_t word, int bit) { return word >> bit & 1; }

static bool request_tiles(void)
{
#if defined(__linux__)
    enum { ARCH_REQ_XCOMP_PERM = 0x1023, XFEATURE_XTILEDATA = 18 };
    return syscall(SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA) == 0;
#else
    return false;
#endif
}

static void detect_cpu(void)
{
    uint32_t a, b, c, d;
    if (!__get_cpuid(1, &a, &b, &c, &d) || !has_bit(c, 27)) // OSXSAVE
        return;
    uint64_t xcr0 = read_xcr0();
    bool ymm = (xcr0 & STATE_YMM) == STATE_YMM && has_bit(c, 28); // AVX
    bool zmm = ymm && (xcr0 & STATE_ZMM) == STATE_ZMM;
    bool tile = zmm && (xcr0 & STATE_TILE) == STATE_TILE;
    cpu.fma = ymm && has_bit(c, 12);
    cpu.f16c = ymm && has_bit(c, 29);

    if (!__get_cpuid_count(7, 0, &a, &b, &c, &d))
        return;
    uint32_t last_subleaf = a;
    cpu.avx2 = ymm && has_bit(b, 5);
    cpu.avx512f = zmm && has_bit(b, 16);
    cpu.avx512dq = cpu.avx512f && has_bit(b, 17);
    cpu.avx512bw = cpu.avx512f && has_bit(b, 30);
    cpu.avx512vl = cpu.avx512f && has_bit(b, 31);
    cpu.amx_bf16 = tile && has_bit(d, 22);
    cpu.amx_tile = tile && has_bit(d, 24);
    if (last_subleaf >= 1 && __get_cpuid_count(7, 1, &a, &b, &c, &d))
        cpu.avx512bf16 = cpu.avx512f && has_bit(a, 5);
    cpu.amx_permitted = cpu.amx_tile && request_tiles();
}
#else
static void detect_cpu(void)
{
#if defined(__aarch64__)
    cpu.neon = true; // part of the architecture
#endif
}
#endif

static void detect(void)
{
    detect_cpu();
    for (size_t i = 0; i < sizeof feature_list / sizeof *feature_list; i++) {
        if (!*(const bool *)((const char *)&cpu + feature_list[i].offset))
            continue;
        if (*features)
            strcat(features, " ");
        strcat(features, feature_list[i].name);
    }
}

const mh_cpu *mh_cpu_get(void)
{
    pthread_once(&once, detect);
    return &cpu;
}

const char *mh_cpu_features(void)
{
    pthread_once(&once, detect);
    return features;
}
