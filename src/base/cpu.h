// SPDX-License-Identifier: MIT
// What this CPU and its operating system support. Detected once; thread-safe.
#ifndef MH_BASE_CPU_H
#define MH_BASE_CPU_H

#include <stdbool.h>

typedef struct mh_cpu {
    bool avx2, fma, f16c;
    bool avx512f, avx512bw, avx512dq, avx512vl, avx512bf16;
    bool amx_tile, amx_bf16; // the instructions exist
    bool amx_permitted;      // and the kernel permits this process to use them (requested once)
    bool neon;
} mh_cpu;

const mh_cpu *mh_cpu_get(void);

#endif
