// SPDX-License-Identifier: MIT
#include "kernels/kernels.h"
#include "kernels/levels.h"
#include "kernels/scalar/simd_scalar.h"

#define MH_NAME(f) f##_scalar
enum { MR = 4, NV = 4 };
enum { QUERY_ROWS = 4, ROW_GROUP = 24 };
enum { PANEL = 16 };
enum { OUTPUT_ROWS = 2 };
#include "kernels/generic/table.inc"

void mh_kernels_fill_scalar(mh_kernels *table) { fill_scalar(table); }
