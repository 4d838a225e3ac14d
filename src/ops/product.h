// SPDX-License-Identifier: MIT
// Operands of a matrix product (kernels.h), in the form that the product wants: sizes, addresses
// and packing, where a product without a form of its own takes the f32 rows as they are.
#ifndef MH_OPS_PRODUCT_H
#define MH_OPS_PRODUCT_H

#include "base/arena.h"
#include "base/sizes.h"
#include "kernels/kernels.h"

// an A operand: where it is, and the length of its rows.
typedef struct mh_a_operand {
    const void *data;
    ptrdiff_t stride;
} mh_a_operand;

static inline void mh_product_enter(const mh_product *product)
{
    if (product->enter)
        product->enter();
}

static inline void mh_product_leave(const mh_product *product)
{
    if (product->leave)
        product->leave();
}

static inline void mh_gemm_keep_warm(const mh_product *product)
{
    if (product->keep_warm)
        product->keep_warm();
}

// Memory for a packed A operand; NULL, and no memory, where it needs no packing.
static inline void *mh_a_take(const mh_product *product, mh_arena *arena, size_t m, size_t k)
{
    if (!product->pack_a)
        return NULL;
    return mh_arena_take(arena, mh_round_up(m, product->group) * mh_round_up(k, product->step),
                         product->a_size);
}

// Memory for a B operand, and for one of which the f32 form stays elsewhere.
static inline void *mh_b_take(const mh_product *product, mh_arena *arena, size_t k, size_t columns)
{
    return mh_arena_take(arena, mh_round_up(k, product->step) * columns, product->b_size);
}

static inline void *mh_b_take_packed(const mh_product *product, mh_arena *arena, size_t k,
                                     size_t columns)
{
    return product->pack_b ? mh_b_take(product, arena, k, columns) : NULL;
}

// a (m x k, row stride lda) as an A operand, packed into `buffer` if need be.
static inline mh_a_operand mh_a_pack(const mh_product *product, size_t m, size_t k, const float *a,
                                     ptrdiff_t lda, void *buffer)
{
    if (!product->pack_a)
        return (mh_a_operand){a, lda};
    product->pack_a(m, k, a, lda, buffer);
    return (mh_a_operand){buffer, (ptrdiff_t)mh_round_up(k, product->step)};
}

// Whether a product over the first k of `rows` packed rows of a B operand leaves the others
// alone; else k is rounded up, and they are multiplied by 0.
static inline bool mh_product_exact(const mh_product *product, size_t k, size_t rows)
{
    return k == rows || k % product->step == 0;
}

// The operand from `row` on, a multiple of product->group.
static inline mh_a_operand mh_a_from_row(const mh_product *product, mh_a_operand a, size_t row)
{
    const ptrdiff_t size = (ptrdiff_t)product->a_size;
    return (mh_a_operand){(const char *)a.data + (ptrdiff_t)row * a.stride * size, a.stride};
}

// The operand from column k on, a multiple of product->step.
static inline mh_a_operand mh_a_from_k(const mh_product *product, mh_a_operand a, size_t k)
{
    return (mh_a_operand){(const char *)a.data + k * product->group * product->a_size, a.stride};
}

// Where to write f32 rows that shall become a B operand in `buffer`: there, or into `staging`
// if they are still to be packed.
static inline float *mh_b_source(const mh_product *product, void *buffer, float *staging)
{
    return product->pack_b ? staging : buffer;
}

// b (k x n, rows of `columns`) as a B operand, packed into `buffer` if need be.
static inline const void *mh_b_pack(const mh_product *product, size_t k, size_t n, const float *b,
                                    size_t columns, void *buffer)
{
    if (!product->pack_b)
        return b;
    product->pack_b(k, n, b, columns, buffer, columns);
    return buffer;
}

#endif
