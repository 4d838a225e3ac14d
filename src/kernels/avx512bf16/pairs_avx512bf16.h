// SPDX-License-Identifier: MIT
// Operands of VDPBF16PS, which takes bf16 in pairs of successive k: a pair of A is broadcast and
// multiplied by a row of B.
//
//     A operand: rows                        B operand: rows of pairs
//     row 0   k0 k1 | k2 k3 | ..             k 0, 1   c0: k0 k1 | c1: k0 k1 | ..
//     row 1   k0 k1 | k2 k3 | ..             k 2, 3   c0: k2 k3 | c1: k2 k3 | ..
//     ...                                    ...
//
// Both are padded with 0 to an even k. Panels of B are read in the order of memory; in
// AMX's layout, with blocks of 16 columns, one row reads a matrix at half the speed.
#ifndef MH_PAIRS_AVX512BF16_H
#define MH_PAIRS_AVX512BF16_H

#include "base/compiler.h"
#include "kernels/kernels.h"
#include <immintrin.h>
#if !defined(__AVX512BF16__) || !defined(__AVX512BW__) || !defined(__AVX512DQ__) ||                \
    !defined(__AVX512VL__)
#error the directory avx512bf16 is compiled without its instruction-set flags
#endif

// Columns of a vector, k of a step; bytes of 16 x 32 elements, and of a row of them.
enum { SIDE = 16, STEP = 32, TILE = 1024, TILE_ROW = 64 };

// Sets the functions that pack operands.
void mh_packing_avx512bf16(mh_gemm *gemm);

// See gemv_avx512bf16.c: mh_gemm.gemv.
void mh_gemv_avx512bf16(const mh_gemm_args *args);

// See softmax_avx512bf16.c: mh_attention_kernels.softmax_tile.
void mh_softmax_tile_avx512bf16(const mh_softmax_tile *step);

#endif
