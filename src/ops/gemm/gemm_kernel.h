// SPDX-License-Identifier: MIT
// Operands of a matrix product (gemm_kernels.h) in the layout of its kernel: sizes, addresses and
// packing. A GEMM without packing functions reads f32 rows in place.
#ifndef MH_OPS_GEMM_KERNEL_H
#define MH_OPS_GEMM_KERNEL_H

#include "base/arena.h"
#include "base/size_math.h"
#include "kernels/kernels.h"

// An A operand: its address and row stride.
typedef struct mh_a_operand {
    const void *data;
    ptrdiff_t stride;
} mh_a_operand;

static inline void mh_gemm_enter(const mh_gemm *gemm)
{
    if (gemm->enter)
        gemm->enter();
}

static inline void mh_gemm_leave(const mh_gemm *gemm)
{
    if (gemm->leave)
        gemm->leave();
}

static inline void mh_gemm_keep_warm(const mh_gemm *gemm)
{
    if (gemm->keep_warm)
        gemm->keep_warm();
}

// Memory for a packed A operand; NULL, and no memory, where it needs no packing.
static inline void *mh_a_take(const mh_gemm *gemm, mh_arena *arena, size_t m, size_t k)
{
    if (!gemm->pack_a)
        return NULL;
    return mh_arena_take(arena, mh_round_up(m, gemm->micro_panel) * mh_round_up(k, gemm->step),
                         gemm->a_size);
}

// Memory for a B operand; and for a packed copy of one, NULL if it needs no packing.
static inline void *mh_b_take(const mh_gemm *gemm, mh_arena *arena, size_t k, size_t columns)
{
    return mh_arena_take(arena, mh_round_up(k, gemm->step) * columns, gemm->b_size);
}

static inline void *mh_b_take_packed(const mh_gemm *gemm, mh_arena *arena, size_t k, size_t columns)
{
    return gemm->pack_b ? mh_b_take(gemm, arena, k, columns) : NULL;
}

// a (m x k, row stride lda) as an A operand, packed into `buffer` if need be.
static inline mh_a_operand mh_a_pack(const mh_gemm *gemm, size_t m, size_t k, const float *a,
                                     ptrdiff_t lda, void *buffer)
{
    if (!gemm->pack_a)
        return (mh_a_operand){a, lda};
    gemm->pack_a(m, k, &(mh_pack_source){.data = a, .stride = lda}, buffer);
    return (mh_a_operand){buffer, (ptrdiff_t)mh_round_up(k, gemm->step)};
}

// Whether a product over the first k of `rows` packed rows of a B operand does not read the others;
// else k is rounded up, and they are multiplied by 0.
static inline bool mh_gemm_exact(const mh_gemm *gemm, size_t k, size_t rows)
{
    return k == rows || k % gemm->step == 0;
}

// The operand from `row` on, a multiple of gemm->micro_panel.
static inline mh_a_operand mh_a_from_row(const mh_gemm *gemm, mh_a_operand a, size_t row)
{
    const ptrdiff_t size = (ptrdiff_t)gemm->a_size;
    return (mh_a_operand){(const char *)a.data + (ptrdiff_t)row * a.stride * size, a.stride};
}

// The operand from column k on, a multiple of gemm->step.
static inline mh_a_operand mh_a_from_k(const mh_gemm *gemm, mh_a_operand a, size_t k)
{
    return (mh_a_operand){(const char *)a.data + k * gemm->micro_panel * gemm->a_size, a.stride};
}

// Where to write f32 rows that will be a B operand in `buffer`: there, or into `staging` if they
// are to be packed.
static inline float *mh_b_source(const mh_gemm *gemm, void *buffer, float *staging)
{
    return gemm->pack_b ? staging : buffer;
}

// b (k x n, rows of `columns`) as a B operand, packed into `buffer` if need be.
static inline const void *mh_b_pack(const mh_gemm *gemm, size_t k, size_t n, const float *b,
                                    size_t columns, void *buffer)
{
    if (!gemm->pack_b)
        return b;
    gemm->pack_b(k, n, &(mh_pack_source){.data = b, .stride = (ptrdiff_t)columns}, buffer, columns);
    return buffer;
}

#endif
