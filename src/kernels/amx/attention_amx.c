// SPDX-License-Identifier: MIT
// The softmax of attention between two products on AMX tiles, see mh_weight_step. To issue the next
// products between its rows gains nothing: a product keeps one of the two vector units from other
// work as long as it lasts.
#include "kernels/amx/tiles_amx.h"

// 2^z by degree 5, to 1.6e-7: for the sum, as the weights are rounded to 2^-9. -inf gives 0, NaN
// stays NaN.
MH_ALWAYS_INLINE __m512 power_of_two(__m512 z)
{
    __m512 f = _mm512_reduce_ps(z, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    __m512 n = _mm512_sub_ps(z, f);
    __m512 p = _mm512_set1_ps(0x1.5c08e6p-10f);
    p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(0x1.3d0c52p-7f));
    p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(0x1.c6b6e4p-5f));
    p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(0x1.ebf918p-3f));
    p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(0x1.62e428p-1f));
    p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(1.0f));
    return _mm512_scalef_ps(p, n);
}

static const float log2_e = 0x1.715476p+0f;

// A row's first weights, 32 of which lie together.
static inline char *weights_of(const mh_weight_step *step, size_t row)
{
    return (char *)step->weights + row / SIDE * (step->columns / STEP) * TILE +
           row % SIDE * TILE_ROW;
}

static inline __m512 widened(__m256i half)
{
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(half), 16));
}

// A row's largest score has grown, and what was summed up before shrinks: in its first tile, and
// hardly ever after.
static __attribute__((noinline)) void grow_max(const mh_weight_step *step, size_t row, float grown)
{
    const float before = step->max[row];
    step->max[row] = grown;
    if (before == -__builtin_inff())
        return;
    const __m512 shrink = power_of_two(_mm512_set1_ps((before - grown) * log2_e));
    float *sum = step->sum + row * SIDE;
    _mm512_storeu_ps(sum, _mm512_mul_ps(_mm512_loadu_ps(sum), shrink));
    char *weights = weights_of(step, row);
    for (size_t i = 0; i < step->before; i += STEP) {
        weights -= TILE;
        const __m512i both = _mm512_loadu_si512(weights);
        __m512 low = _mm512_mul_ps(widened(_mm512_castsi512_si256(both)), shrink);
        __m512 high = _mm512_mul_ps(widened(_mm512_extracti64x4_epi64(both, 1)), shrink);
        _mm512_storeu_si512(weights, (__m512i)_mm512_cvtne2ps_pbh(high, low));
    }
}

// The step of one row; live are the keys that the tile has, a constant for whole tiles.
MH_ALWAYS_INLINE void soften_row(const mh_weight_step *step, size_t row, uint64_t live,
                                 const uint64_t *keep)
{
    const __m512 minus_inf = _mm512_set1_ps(-__builtin_inff()), scale = _mm512_set1_ps(step->scale);
    const float *scores = step->scores + row * MH_KEY_TILE;
    float *sum = step->sum + row * SIDE;
    __m512 t[4];
    for (int j = 0; j < 4; j++)
        t[j] = _mm512_mask_loadu_ps(minus_inf, (__mmask16)(live >> j * SIDE), scores + j * SIDE);
    __m512 top = _mm512_max_ps(_mm512_max_ps(t[0], t[1]), _mm512_max_ps(t[2], t[3]));
    __m512 max = _mm512_set1_ps(step->max[row]);
    top = _mm512_mul_ps(top, scale);
    if (_mm512_cmp_ps_mask(top, _mm512_add_ps(max, _mm512_set1_ps(8)), _CMP_GT_OQ)) {
        grow_max(step, row, _mm512_reduce_max_ps(top));
        max = _mm512_set1_ps(step->max[row]);
    }

    // Without a live key yet, 0 takes the place of -inf, so that -inf - max is no NaN.
    max = _mm512_maskz_mov_ps(_mm512_cmp_ps_mask(max, minus_inf, _CMP_NEQ_UQ), max);
    for (int j = 0; j < 4; j++)
        t[j] =
            power_of_two(_mm512_mul_ps(_mm512_fmsub_ps(t[j], scale, max), _mm512_set1_ps(log2_e)));
    const __m512 total = _mm512_add_ps(_mm512_add_ps(t[0], t[1]), _mm512_add_ps(t[2], t[3]));
    _mm512_storeu_ps(sum, _mm512_add_ps(_mm512_loadu_ps(sum), total));
    for (int j = 0; j < 4 && keep; j++)
        t[j] = _mm512_maskz_mul_ps((__mmask16)(keep[row] >> j * SIDE), t[j],
                                   _mm512_set1_ps(step->keep_scale));
    char *weights = weights_of(step, row);
    _mm512_storeu_si512(weights, (__m512i)_mm512_cvtne2ps_pbh(t[1], t[0]));
    _mm512_storeu_si512(weights + TILE, (__m512i)_mm512_cvtne2ps_pbh(t[3], t[2]));
}

void mh_soften_amx(const mh_weight_step *step)
{
    const uint64_t all = ~UINT64_C(0);
    for (size_t row = 0; row < step->m; row++) {
        if (step->n == MH_KEY_TILE && !step->keep)
            soften_row(step, row, all, NULL);
        else
            soften_row(step, row, all >> (MH_KEY_TILE - step->n), step->keep);
    }
}
