// SPDX-License-Identifier: MIT
#include "kernels/kernels.h"
#include "kernels/levels.h"
#include "kernels/neon/simd_neon.h"
#ifndef __ARM_NEON
#error kernels_neon.c is compiled without its instruction-set flags
#endif

#define MH_NAME(f) f##_neon
enum { MR = 6, NV = 4 }; // 24 sums, 4 vectors of B and a broadcast: 29 of 32 registers
enum { QUERY_ROWS = 6, ROW_GROUP = 24 };
enum { PANEL = 16 };
enum { OUTPUT_ROWS = 12 };
#include "kernels/generic/table.inc"

void mh_kernels_fill_neon(mh_kernels *table) { fill_neon(table); }
