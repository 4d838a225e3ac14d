// SPDX-License-Identifier: MIT
#include "kernels/avx2/simd_avx2.h"
#include "kernels/kernels.h"
#include "kernels/levels.h"
#if !defined(__AVX2__) || !defined(__FMA__) || !defined(__F16C__)
#error kernels_avx2.c is compiled without its instruction-set flags
#endif

#define MH_NAME(f) f##_avx2
enum { MR = 6, NV = 2 }; // 12 sums, 2 vectors of B and a broadcast: 15 of 16 registers
enum { QUERY_STRIP = 24, QUERY_GROUP = 96 }; // for caches of 32 KiB and 512 KiB: docs/kernels.md
#include "kernels/generic/fill.inc"

void mh_kernels_fill_avx2(mh_kernels *table) { fill_avx2(table); }
