// SPDX-License-Identifier: MIT
// The softmax of attention between two products on AMX tiles, see mh_weight_step. To issue the next
// products between its rows gains nothing: a product keeps one of the two vector units from other
// work as long as it lasts.
#include "kernels/amx/tiles_amx.h"
#include <math.h>

// 2^z by degree 5, to 8.3e-8: for the sum, as the weights are rounded to 2^-8. The fraction is
// counted from below, as vscalefps rounds its exponent down by itself. -inf gives 0, NaN stays NaN.
MH_ALWAYS_INLINE __m512 power_of_two(__m512 z)
{
    const __m512 f = _mm512_reduce_ps(z, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC);
    __m512 p = _mm512_set1_ps(0x1.e96912p-10f);
    p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(0x1.277c1cp-7f));
    p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(0x1.c91c10p-5f));
    p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(0x1.ebdb6ap-3f));
    p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(0x1.62e4bap-1f));
    p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(1.0f));
    return _mm512_scalef_ps(p, z);
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

// t = exp(scale t - max), by one multiply-add before the power of two. Of a large max the product
// with log2_e is off by too much, and without a live key yet it is -inf, which 0 stands for, so
// that -inf - max is no NaN: then max is subtracted first.
MH_ALWAYS_INLINE void exponentiate(__m512 t[4], float scale, float max)
{
    __m512 factor = _mm512_set1_ps(scale * log2_e), base = _mm512_set1_ps(max * log2_e);
    if (__builtin_expect(!(fabsf(max) < 0x1p10f), 0)) {
        const float subtracted = max == -__builtin_inff() ? 0 : max;
        for (int j = 0; j < 4; j++)
            t[j] = _mm512_sub_ps(_mm512_mul_ps(t[j], _mm512_set1_ps(scale)),
                                 _mm512_set1_ps(subtracted));
        factor = _mm512_set1_ps(log2_e), base = _mm512_setzero_ps();
    }
    for (int j = 0; j < 4; j++)
        t[j] = power_of_two(_mm512_fmsub_ps(t[j], factor, base));
}

// The step of one row; live are the keys that the tile has, a constant for whole tiles.
MH_ALWAYS_INLINE void soften_row(const mh_weight_step *step, size_t row, uint64_t live,
                                 const uint64_t *keep)
{
    const __m512 minus_inf = _mm512_set1_ps(-__builtin_inff());
    const float *scores = step->scores + row * MH_KEY_TILE;
    float *sum = step->sum + row * SIDE;
    __m512 t[4];
    for (int j = 0; j < 4; j++)
        t[j] = _mm512_mask_loadu_ps(minus_inf, (__mmask16)(live >> j * SIDE), scores + j * SIDE);
    __m512 top = _mm512_max_ps(_mm512_max_ps(t[0], t[1]), _mm512_max_ps(t[2], t[3]));
    top = _mm512_mul_ps(top, _mm512_set1_ps(step->scale));
    if (_mm512_cmp_ps_mask(top, _mm512_set1_ps(step->max[row] + 8), _CMP_GT_OQ))
        grow_max(step, row, _mm512_reduce_max_ps(top));

    exponentiate(t, step->scale, step->max[row]);
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
