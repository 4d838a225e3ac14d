// SPDX-License-Identifier: MIT
// The levels of this build, which of them this CPU supports, and the table filled up to one of
// them. Decided by CPU features, never by model number.
#include "base/cpu.h"
#include "kernels/kernels.h"
#include "kernels/levels.h"
#include <string.h>

static bool always(const mh_cpu *cpu)
{
    (void)cpu;
    return true;
}
#if defined(__x86_64__)
static bool has_avx2(const mh_cpu *cpu) { return cpu->avx2 && cpu->fma && cpu->f16c; }
static bool has_avx512(const mh_cpu *cpu)
{
    return has_avx2(cpu) && cpu->avx512f && cpu->avx512bw && cpu->avx512dq && cpu->avx512vl;
}
static bool has_avx512bf16(const mh_cpu *cpu) { return has_avx512(cpu) && cpu->avx512bf16; }
static bool has_amx(const mh_cpu *cpu)
{
    return has_avx512bf16(cpu) && cpu->amx_tile && cpu->amx_bf16 && cpu->amx_permitted;
}
#endif

// Slowest first: a later level starts from the table of the one before it.
static const struct {
    bool (*supported)(const mh_cpu *cpu);
    void (*fill)(mh_kernels *table);
} levels[] = {
    {always, mh_kernels_fill_scalar},
#if defined(__x86_64__)
    {has_avx2, mh_kernels_fill_avx2},
    {has_avx512, mh_kernels_fill_avx512},
    {has_avx512bf16, mh_kernels_fill_avx512bf16},
    {has_amx, mh_kernels_fill_amx},
#elif defined(__aarch64__)
    {always, mh_kernels_fill_neon},
#endif
};

const char *const mh_isa_names[] = {
    "scalar",
#if defined(__x86_64__)
    "avx2",   "avx512", "avx512bf16", "amx",
#elif defined(__aarch64__)
    "neon",
#endif
    NULL,
};
_Static_assert(sizeof mh_isa_names / sizeof *mh_isa_names == sizeof levels / sizeof *levels + 1,
               "every level has a name");

const char *mh_isa_choose(const mh_cpu *cpu, const char *max_isa)
{
    const char *best = NULL;
    for (int i = 0; mh_isa_names[i]; i++) {
        if (levels[i].supported(cpu))
            best = mh_isa_names[i];
        if (max_isa && !strcmp(max_isa, mh_isa_names[i]))
            return best;
    }
    return max_isa ? NULL : best;
}

const char *mh_kernels_init(mh_kernels *table, const char *max_isa)
{
    const char *best = mh_isa_choose(mh_cpu_get(), max_isa);
    for (int i = 0; best && (i == 0 || mh_isa_names[i - 1] != best); i++)
        if (levels[i].supported(mh_cpu_get()))
            levels[i].fill(table);
    return best;
}

bool mh_isa_available(const char *name)
{
    for (int i = 0; mh_isa_names[i]; i++)
        if (!strcmp(name, mh_isa_names[i]))
            return levels[i].supported(mh_cpu_get());
    return false;
}
