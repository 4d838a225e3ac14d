// SPDX-License-Identifier: MIT
#include "kernels/avx512/simd_avx512.h"
#include "kernels/kernels.h"
#include "kernels/levels.h"
#if !defined(__AVX512F__) || !defined(__AVX512BW__) || !defined(__AVX512DQ__) ||                   \
    !defined(__AVX512VL__)
#error kernels_avx512.c is compiled without its instruction-set flags
#endif

#define MH_NAME(f) f##_avx512
enum { MR = 6, NV = 4 }; // 24 sums, 4 vectors of B and a broadcast: 29 of 32 registers
#include "kernels/generic/fill.inc"

void mh_kernels_fill_avx512(mh_kernels *table) { fill_avx512(table); }
