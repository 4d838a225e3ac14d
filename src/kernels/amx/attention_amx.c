// SPDX-License-Identifier: MIT
// The softmax of the MMA path on AMX, see mh_softmax_tile. Its rows are interleaved with the tile
// products that compute the scores of the next keys:
//
//     AMX            q k0   q k1   q k2   q k3    ..
//     vector units          row    row    row     ..    of the previous scores
//
// A tile product blocks one of the two vector units while it runs, so only a part of the softmax is
// hidden; but softmax rows also space tile instructions, see space_issue.
#include "kernels/amx/tiles_amx.h"
#include <string.h>

static const float log2_e = 0x1.715476p+0f;

// Constants of a step, kept in registers for all its rows.
typedef struct constants {
    __m512 power[6];
    __m512 log2_e, factor; // factor = scale log2(e)
    __m512 near;           // a sum up to this has no weight of exp(8) = 2981 or more
} constants;

// Opaque to the compiler, which would otherwise reload x for each row instead of keeping it.
MH_ALWAYS_INLINE __m512 constant(float x)
{
    __m512 all = _mm512_set1_ps(x);
    __asm__("" : "+v"(all));
    return all;
}

MH_ALWAYS_INLINE constants load_constants(float scale)
{
    return (constants){{constant(1), constant(0x1.62e4bap-1f), constant(0x1.ebdb6ap-3f),
                        constant(0x1.c91c10p-5f), constant(0x1.277c1cp-7f),
                        constant(0x1.e96912p-10f)},
                       constant(log2_e),
                       constant(scale * log2_e),
                       constant(2900)};
}

// 2^z by degree 5, to 8.3e-8: for the sum, as the weights are rounded to 2^-8. The fraction is
// z - floor(z), as vscalefps itself rounds the exponent down. -inf gives 0, NaN stays NaN.
MH_ALWAYS_INLINE __m512 power_of_two(const constants *c, __m512 z)
{
    const __m512 f = _mm512_reduce_ps(z, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC);
    __m512 p = c->power[5];
    for (int i = 4; i >= 0; i--)
        p = _mm512_fmadd_ps(p, f, c->power[i]);
    return _mm512_scalef_ps(p, z);
}

// A row's first weights, stored in runs of 32.
static inline char *weights_of(const mh_softmax_tile *step, size_t row)
{
    return (char *)step->weights + row / SIDE * (step->columns / STEP) * TILE +
           row % SIDE * TILE_ROW;
}

static inline __m512 widened(__m256i half)
{
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(half), 16));
}

// Raises a row's max and rescales the sum and the weights so far. Rare.
static __attribute__((noinline)) void grow_max(const mh_softmax_tile *step, size_t row, float grown)
{
    const float before = step->max[row];
    step->max[row] = grown;
    if (before == -__builtin_inff())
        return;
    const constants c = load_constants(1);
    const __m512 shrink = power_of_two(&c, _mm512_set1_ps((before - grown) * log2_e));
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

// Whether |max| < 1024, in integer instructions, as the vector units are the bottleneck.
static inline bool is_moderate(const float *max)
{
    uint32_t bits;
    memcpy(&bits, max, sizeof bits);
    return (bits & 0x7FFFFFFF) < 0x44800000;
}

// t = exp(scale t - max), with base = max log2(e): one FMA before the power of two.
MH_ALWAYS_INLINE void exponentiate(const constants *c, __m512 base, __m512 t[4])
{
    for (int j = 0; j < 4; j++)
        t[j] = power_of_two(c, _mm512_fmsub_ps(t[j], c->factor, base));
}

// The same for any max. For a large max, max * log2_e is too inaccurate; and as long as there is no
// live key, max is -inf, which 0 replaces, so that -inf - max is not NaN. In both cases max is
// subtracted first.
MH_ALWAYS_INLINE void exponentiate_any(float scale, float max, __m512 t[4])
{
    constants c = load_constants(scale);
    __m512 base = _mm512_set1_ps(max * log2_e);
    if (!is_moderate(&max)) {
        const float subtracted = max == -__builtin_inff() ? 0 : max;
        for (int j = 0; j < 4; j++)
            t[j] = _mm512_sub_ps(_mm512_mul_ps(t[j], _mm512_set1_ps(scale)),
                                 _mm512_set1_ps(subtracted));
        c.factor = c.log2_e, base = _mm512_setzero_ps();
    }
    exponentiate(&c, base, t);
}

// One bit per key of the step.
static inline uint64_t keys_of(const mh_softmax_tile *step)
{
    return ~UINT64_C(0) >> (MH_KEY_TILE - step->n);
}

MH_ALWAYS_INLINE void load_scores(const mh_softmax_tile *step, size_t row, uint64_t live,
                                  __m512 t[4])
{
    const float *scores = step->scores + row * MH_KEY_TILE;
    const __m512 minus_inf = _mm512_set1_ps(-__builtin_inff());
    for (int j = 0; j < 4; j++)
        t[j] = _mm512_mask_loadu_ps(minus_inf, (__mmask16)(live >> j * SIDE), scores + j * SIDE);
}

MH_ALWAYS_INLINE __m512 reduce(const __m512 t[4])
{
    return _mm512_add_ps(_mm512_add_ps(t[0], t[1]), _mm512_add_ps(t[2], t[3]));
}

// Adds weights t to the row's sum and writes them to the A operand.
MH_ALWAYS_INLINE void write_row(const mh_softmax_tile *step, size_t row, const uint64_t *keep,
                                __m512 t[4], __m512 total)
{
    float *sum = step->sum + row * SIDE;
    _mm512_storeu_ps(sum, _mm512_add_ps(_mm512_loadu_ps(sum), total));
    for (int j = 0; j < 4 && keep; j++)
        t[j] = _mm512_maskz_mul_ps((__mmask16)(keep[row] >> j * SIDE), t[j],
                                   _mm512_set1_ps(step->keep_scale));
    char *weights = weights_of(step, row);
    _mm512_storeu_si512(weights, (__m512i)_mm512_cvtne2ps_pbh(t[1], t[0]));
    _mm512_storeu_si512(weights + TILE, (__m512i)_mm512_cvtne2ps_pbh(t[3], t[2]));
}

// The largest score of each lane, scaled.
MH_ALWAYS_INLINE __m512 find_top(const mh_softmax_tile *step, const __m512 t[4])
{
    const __m512 top = _mm512_max_ps(_mm512_max_ps(t[0], t[1]), _mm512_max_ps(t[2], t[3]));
    return _mm512_mul_ps(top, _mm512_set1_ps(step->scale));
}

// Initialises max of rows without a live key so far, if it is moderate. Rows mostly start at the
// same tile; for others max grows later.
static void start_max(const mh_softmax_tile *step)
{
    if (step->max[0] != -__builtin_inff())
        return;
    for (size_t row = 0; row < step->m; row++) {
        __m512 t[4];
        load_scores(step, row, keys_of(step), t);
        const float top = _mm512_reduce_max_ps(find_top(step, t));
        if (step->max[row] == -__builtin_inff() && is_moderate(&top))
            step->max[row] = top;
    }
}

// Fast path of one row: max is moderate and need not grow. Otherwise returns false and changes
// nothing. The largest score is not computed, as one far above max shows in the sums. live: the
// keys of the tile, a constant for whole tiles.
MH_ALWAYS_INLINE bool softmax_tile_row(const mh_softmax_tile *step, const constants *c, size_t row,
                                       uint64_t live, const uint64_t *keep)
{
    const float *max = step->max + row;
    if (!is_moderate(max))
        return false;
    __m512 t[4];
    load_scores(step, row, live, t);
    exponentiate(c, _mm512_mul_ps(_mm512_set1_ps(*max), c->log2_e), t);
    const __m512 total = reduce(t);
    if (_mm512_cmp_ps_mask(total, c->near, _CMP_NLE_UQ))
        return false;
    write_row(step, row, keep, t, total);
    return true;
}

// The slow path, for any row.
static __attribute__((noinline)) void softmax_tile_exact(const mh_softmax_tile *step, size_t row)
{
    __m512 t[4];
    load_scores(step, row, keys_of(step), t);
    const __m512 top = find_top(step, t);
    if (_mm512_cmp_ps_mask(top, _mm512_set1_ps(step->max[row] + 8), _CMP_GT_OQ))
        grow_max(step, row, _mm512_reduce_max_ps(top));
    exponentiate_any(step->scale, step->max[row], t);
    write_row(step, row, step->keep, t, reduce(t));
}

// Progress of a step, row by row. Rows of the slow path come last, so that the loop over the others
// has no function call.
typedef struct with_softmax {
    const mh_softmax_tile *step;
    constants constants;
    size_t row;       // the next one
    uint64_t careful; // one bit per previous row that is left for the slow path
} with_softmax;

MH_ALWAYS_INLINE with_softmax start(const mh_softmax_tile *step)
{
    MH_CONTRACT(step->m <= ROWS && step->n >= 1 && step->n <= MH_KEY_TILE && step->scale > 0);
    MH_CONTRACT(step->columns % STEP == 0 && step->before % STEP == 0);
    start_max(step);
    return (with_softmax){step, load_constants(step->scale), 0, 0};
}

// Whether the step has a whole tile of keys and no dropout.
static inline bool is_plain(const mh_softmax_tile *step)
{
    return step->n == MH_KEY_TILE && !step->keep;
}

// The next row of a plain step, if there is one.
MH_ALWAYS_INLINE void softmax_tile_next(with_softmax *s)
{
    if (s->row == s->step->m) {
        space_issue();
        return;
    }
    const size_t row = s->row++;
    if (!softmax_tile_row(s->step, &s->constants, row, ~UINT64_C(0), NULL))
        s->careful |= UINT64_C(1) << row;
}

// All remaining rows.
MH_ALWAYS_INLINE void finish(with_softmax *s)
{
    const mh_softmax_tile *step = s->step;
    while (s->row < step->m && is_plain(step))
        softmax_tile_next(s);
    for (; s->row < step->m; s->row++)
        if (!softmax_tile_row(step, &s->constants, s->row, keys_of(step), step->keep))
            s->careful |= UINT64_C(1) << s->row;
    for (; s->careful; s->careful &= s->careful - 1)
        softmax_tile_exact(step, (size_t)__builtin_ctzll(s->careful));
}

void mh_softmax_tile_amx(const mh_softmax_tile *step)
{
    with_softmax s = start(step);
    finish(&s);
}

// A step of k with its loads, for two micro-panels and two blocks, with a softmax row after each
// product.
MH_ALWAYS_INLINE void gemm_softmax(const operands *o, with_softmax *s)
{
    STREAM_TILE(6, o->b);
    LOAD_TILE(4, o->a);
    _tile_dpbf16ps(0, 4, 6);
    softmax_tile_next(s);
    LOAD_TILE(5, o->a + o->micro_panel);
    _tile_dpbf16ps(2, 5, 6);
    softmax_tile_next(s);
    STREAM_TILE(7, o->b + TILE);
    _tile_dpbf16ps(3, 5, 7);
    softmax_tile_next(s);
    _tile_dpbf16ps(1, 4, 7);
    softmax_tile_next(s);
}

bool mh_gemm_softmax_amx(const mh_gemm_args *args, const mh_softmax_tile *step)
{
    const mh_gemm_args x = *args;
    check_operands(args);
    MH_CONTRACT(!x.accumulate);
    if (x.m <= SIDE || x.n % (2 * SIDE) || !is_plain(step))
        return false;
    operands block = operands_of(&x);
    with_softmax s = start(step);
    for (size_t column = 0; column < x.n; column += 2 * SIDE, block.b += 2 * TILE) {
        operands o = block;
        clear_sums();
        for (size_t i = 0; i < x.k; i += STEP, o.a += TILE, o.b += o.right_step)
            gemm_softmax(&o, &s);
        store_sums(2, 2, x.c + column, (size_t)x.ldc);
    }
    finish(&s);
    return true;
}
