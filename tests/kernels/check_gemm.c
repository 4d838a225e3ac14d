// SPDX-License-Identifier: MIT
// GEMM and packing. The error bound is eps * sqrt(k) * sum |a||b|, as rounding errors accumulate
// like a random walk. Where operands are rounded to bf16, the reference is the product of the
// rounded ones.
#include "base/half.h"
#include "base/size_math.h"
#include "kernels/check.h"
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct operands {
    const mh_gemm *gemm;
    size_t m, n, k, lda, ldb, ldc;
    float *a, *b;              // (m, lda), (k, ldb)
    void *packed_a, *packed_b; // NULL: unpacked
    float *c;
} operands;

static bool rounds(const mh_gemm *gemm) { return gemm->a_size == 2; }

static void fill(const mh_gemm *gemm, size_t n, float *x)
{
    check_fill(n, 1, x);
    for (size_t i = 0; i < n && rounds(gemm); i++)
        x[i] = mh_bf16_to_float(mh_float_to_bf16(x[i]));
}

static void pack(operands *o)
{
    if (o->gemm->pack_a)
        o->gemm->pack_a(o->m, o->k, &(mh_pack_source){o->a, (ptrdiff_t)o->lda, MH_ROW_F32, false},
                        o->packed_a);
    if (o->gemm->pack_b)
        o->gemm->pack_b(o->k, o->n, &(mh_pack_source){o->b, (ptrdiff_t)o->ldb, MH_ROW_F32, false},
                        o->packed_b, o->n);
}

// A guard page follows the last element of each operand: reading its last row by stride faults.
static operands make_operands(const mh_gemm *gemm, size_t m, size_t n, size_t k)
{
    operands o = {gemm, m, n, k, k + 3, n + 5, n + 7, NULL, NULL, NULL, NULL, NULL};
    const size_t a_size = (m - 1) * o.lda + k, b_size = k ? (k - 1) * o.ldb + n : 0;
    const size_t c_size = (mh_round_up(m, gemm->micro_panel) - 1) * o.ldc + n;
    const size_t depth = mh_round_up(k, gemm->step);
    o.a = check_floats(a_size), o.b = check_floats(b_size), o.c = check_floats(c_size);
    fill(gemm, a_size, o.a);
    fill(gemm, b_size, o.b);
    check_fill(c_size, 1, o.c);
    if (gemm->pack_a)
        o.packed_a = check_bytes(mh_round_up(m, gemm->micro_panel) * depth * gemm->a_size);
    if (gemm->pack_b)
        o.packed_b = check_bytes(depth * n * gemm->b_size);
    pack(&o);
    return o;
}

static void run_gemm(const operands *o, bool accumulate)
{
    const mh_gemm *p = o->gemm;
    const void *a = p->pack_a ? o->packed_a : o->a, *b = p->pack_b ? o->packed_b : o->b;
    const size_t lda = p->pack_a ? mh_round_up(o->k, p->step) : o->lda;
    const size_t ldb = p->pack_b ? o->n : o->ldb;
    const mh_gemm_prefetch prefetch = {.next = (const char *)o->c,
                                       .target = (const char *)o->c,
                                       .rows = o->m,
                                       .bytes = o->n * sizeof *o->c,
                                       .stride = (ptrdiff_t)(o->ldc * sizeof *o->c)};
    p->gemm(&(mh_gemm_args){.m = o->m,
                            .n = o->n,
                            .k = o->k,
                            .a = a,
                            .lda = (ptrdiff_t)lda,
                            .b = b,
                            .ldb = (ptrdiff_t)ldb,
                            .c = o->c,
                            .ldc = (ptrdiff_t)o->ldc,
                            .accumulate = accumulate,
                            .prefetch = o->m % 2 ? NULL : &prefetch}); // the same sums
}

static void gemm_stream(void *arg) { run_gemm(arg, false); }

static double gemm_error(const operands *o, const float *before, bool accumulate)
{
    double worst = 0;
    for (size_t i = 0; i < o->m; i++) {
        for (size_t j = 0; j < o->n; j++) {
            double sum = accumulate ? before[i * o->ldc + j] : 0, size = fabs(sum);
            for (size_t l = 0; l < o->k; l++) {
                double term = (double)o->a[i * o->lda + l] * o->b[l * o->ldb + j];
                sum += term;
                size += fabs(term);
            }
            double bound = FLT_EPSILON * (1 + sqrt((double)o->k) / 4) * size;
            worst = check_worse(worst, check_error(o->c[i * o->ldc + j], sum, bound));
        }
    }
    return worst;
}

// A row must not depend on the other rows: each alone gives the same bits.
static bool rows_alone_agree(const operands *o)
{
    bool same = true;
    operands alone = *o;
    alone.m = 1;
    alone.c = check_floats((o->gemm->micro_panel - 1) * o->ldc + o->n);
    memset(alone.c, 0, ((o->gemm->micro_panel - 1) * o->ldc + o->n) * sizeof(float));
    for (size_t i = 0; i < o->m; i++, alone.a += o->lda) {
        pack(&alone);
        run_gemm(&alone, false);
        same &= !memcmp(alone.c, o->c + i * o->ldc, o->n * sizeof(float));
    }
    pack((operands *)o);
    return same;
}

// gemm_tn on A transposed gives the same bits.
static bool transposed_agrees(const operands *o, const float *before)
{
    const size_t lda = o->m + 2, bytes = ((o->m - 1) * o->ldc + o->n) * sizeof(float);
    const size_t size = o->k ? (o->k - 1) * lda + o->m : 0;
    float *transposed = check_floats(size), *c = check_floats(bytes / sizeof(float));
    for (size_t l = 0; l < o->k; l++)
        for (size_t i = 0; i < o->m; i++)
            transposed[l * lda + i] = o->a[i * o->lda + l];
    bool same = true;
    for (int accumulate = 0; accumulate < 2; accumulate++) {
        memcpy(o->c, before, bytes);
        memcpy(c, before, bytes);
        run_gemm(o, accumulate);
        o->gemm->gemm_tn(&(mh_gemm_args){.m = o->m,
                                         .n = o->n,
                                         .k = o->k,
                                         .a = transposed,
                                         .lda = (ptrdiff_t)lda,
                                         .b = o->b,
                                         .ldb = (ptrdiff_t)o->ldb,
                                         .c = c,
                                         .ldc = (ptrdiff_t)o->ldc,
                                         .accumulate = accumulate});
        same &= !memcmp(o->c, c, bytes);
    }
    return same;
}

// Written column by column or row by row, a packed B has the same bits; and unpack_b reverses it.
static bool right_agrees(const operands *o)
{
    const size_t bytes = mh_round_up(o->k, o->gemm->step) * o->n * sizeof(uint16_t);
    uint16_t *numbers = malloc((o->k + o->n) * sizeof *numbers);
    uint8_t *columns = check_bytes(bytes), *rows = check_bytes(bytes);
    float *back = check_floats(o->k * o->n);
    memset(columns, 0, bytes);
    memset(rows, 0, bytes);
    for (size_t j = 0; j < o->n; j++) {
        for (size_t i = 0; i < o->k; i++)
            numbers[i] = mh_float_to_bf16(o->b[i * o->ldb + j]);
        o->gemm->set_b_column(o->k, numbers, j, columns, o->n);
    }
    for (size_t i = 0; i < o->k; i++) {
        for (size_t j = 0; j < o->n; j++)
            numbers[j] = mh_float_to_bf16(o->b[i * o->ldb + j]);
        o->gemm->set_b_row(o->n, numbers, i, rows, o->n);
    }
    o->gemm->unpack_b(o->k, o->n, o->packed_b, o->n, back, o->n);
    bool same = !memcmp(columns, o->packed_b, bytes) && !memcmp(rows, o->packed_b, bytes);
    for (size_t i = 0; i < o->k; i++)
        same &= !memcmp(back + i * o->n, o->b + i * o->ldb, o->n * sizeof *back);
    free(numbers);
    return same;
}

static void check_shape(const mh_gemm *gemm, size_t m, size_t n, size_t k, check_result *result)
{
    operands o = make_operands(gemm, m, n, k);
    const size_t bytes = ((m - 1) * o.ldc + n) * sizeof(float);
    float *before = malloc(bytes);
    memcpy(before, o.c, bytes);
    run_gemm(&o, true);
    result->error = check_worse(result->error, gemm_error(&o, before, true));
    run_gemm(&o, false);
    result->error = check_worse(result->error, gemm_error(&o, before, false));
    result->ok &= rows_alone_agree(&o);
    if (gemm->set_b_column)
        result->ok &= right_agrees(&o);
    if (gemm->gemm_tn)
        result->ok &= transposed_agrees(&o, before);
    for (size_t i = 0; i + 1 < m; i++) // gaps between rows are untouched
        result->ok &= o.c[i * o.ldc + n] == before[i * o.ldc + n];
    free(before);
    check_release();
}

// inf and NaN propagate as in IEEE arithmetic, to the rows and columns that have them and nowhere
// else; also values that would become inf if they were rounded up.
static void check_odd_numbers(const mh_gemm *gemm, check_result *result)
{
    enum { M = 5, N = 32, K = 40 };
    static const float odd[] = {INFINITY, -INFINITY, NAN, FLT_MAX};
    for (size_t i = 0; i < sizeof odd / sizeof *odd; i++) {
        operands o = make_operands(gemm, M, N, K);
        run_gemm(&o, false);
        float plain[M * N];
        for (size_t r = 0; r < M; r++)
            memcpy(plain + r * N, o.c + r * o.ldc, N * sizeof(float));
        const float a = rounds(gemm) && odd[i] == FLT_MAX ? 0x1p127f : odd[i];
        for (size_t l = 0; l < K; l++)
            o.b[l * o.ldb + 7] = l == 11 ? 1.0f : 0.0f;
        o.a[2 * o.lda + 11] = a; // row 2: a * b; column 7: a
        pack(&o);
        run_gemm(&o, false);
        for (size_t r = 0; r < M; r++)
            for (size_t c = 0; c < N; c++) {
                const float found = o.c[r * o.ldc + c];
                if (r != 2 && c != 7)
                    result->ok &= found == plain[r * N + c];
                else if (r == 2 && c == 7)
                    result->ok &= isnan(a) ? isnan(found) : found == a;
                else if (r == 2 && isinf(a))
                    result->ok &= found == (o.b[11 * o.ldb + c] > 0 ? a : -a);
            }
        check_release();
    }
}

// Packing from the transpose and from bf16 gives the same layout, byte for byte.
static void check_layouts(const mh_gemm *gemm, size_t m, size_t n, size_t k, check_result *result)
{
    const operands o = make_operands(gemm, m, n, k);
    const size_t depth = mh_round_up(k, gemm->step);
    const size_t left = mh_round_up(m, gemm->micro_panel) * depth * gemm->a_size;
    const size_t right = depth * n * gemm->b_size;
    const size_t lda = m + 3, ldb = k + 5, last_a = (m - 1) * o.lda + k,
                 last_b = (k - 1) * o.ldb + n;
    float *transposed_a = check_floats((k - 1) * lda + m),
          *transposed_b = check_floats((n - 1) * ldb + k);
    uint16_t *narrow_a = check_u16(last_a), *narrow_b = check_u16(last_b);
    uint16_t *narrow_transposed = check_u16((k - 1) * lda + m);
    uint16_t *narrow_transposed_b = check_u16((n - 1) * ldb + k);
    uint8_t *to_a = check_bytes(left), *to_b = check_bytes(right);
    for (size_t l = 0; l < k; l++) {
        for (size_t i = 0; i < m; i++)
            transposed_a[l * lda + i] = o.a[i * o.lda + l];
        for (size_t j = 0; j < n; j++)
            transposed_b[j * ldb + l] = o.b[l * o.ldb + j];
    }
    for (size_t i = 0; i < last_a; i++)
        narrow_a[i] = mh_float_to_bf16(o.a[i]);
    for (size_t i = 0; i < last_b; i++)
        narrow_b[i] = mh_float_to_bf16(o.b[i]);
    for (size_t i = 0; i < (k - 1) * lda + m; i++)
        narrow_transposed[i] = mh_float_to_bf16(transposed_a[i]);
    for (size_t i = 0; i < (n - 1) * ldb + k; i++)
        narrow_transposed_b[i] = mh_float_to_bf16(transposed_b[i]);
    gemm->pack_a(m, k, &(mh_pack_source){transposed_a, (ptrdiff_t)lda, MH_ROW_F32, true}, to_a);
    gemm->pack_b(k, n, &(mh_pack_source){transposed_b, (ptrdiff_t)ldb, MH_ROW_F32, true}, to_b, n);
    result->ok &= !memcmp(to_a, o.packed_a, left) && !memcmp(to_b, o.packed_b, right);
    memset(to_a, 0xAA, left), memset(to_b, 0xAA, right);
    gemm->pack_a(m, k, &(mh_pack_source){narrow_a, (ptrdiff_t)o.lda, MH_ROW_BF16, false}, to_a);
    gemm->pack_b(k, n, &(mh_pack_source){narrow_b, (ptrdiff_t)o.ldb, MH_ROW_BF16, false}, to_b, n);
    result->ok &= !memcmp(to_a, o.packed_a, left) && !memcmp(to_b, o.packed_b, right);
    memset(to_a, 0xAA, left), memset(to_b, 0xAA, right);
    gemm->pack_a(m, k, &(mh_pack_source){narrow_transposed, (ptrdiff_t)lda, MH_ROW_BF16, true},
                 to_a);
    gemm->pack_b(k, n, &(mh_pack_source){narrow_transposed_b, (ptrdiff_t)ldb, MH_ROW_BF16, true},
                 to_b, n);
    result->ok &= !memcmp(to_a, o.packed_a, left) && !memcmp(to_b, o.packed_b, right);
    check_release();
}

// bf16 values: most are about 1, some denormal or so small that their products are, and a few huge,
// inf or NaN.
static void fill_odd_bf16(size_t n, uint32_t seed, uint16_t *x)
{
    for (size_t i = 0; i < n; i++) {
        const uint32_t bits = ((uint32_t)i + seed) * UINT32_C(2654435761) >> 8;
        const uint16_t signed_fraction = bits & 0x807F;
        x[i] = bits % 7 == 0     ? signed_fraction
               : bits % 11 == 0  ? signed_fraction | 0x2000
               : bits % 997 == 0 ? signed_fraction | 0x7F00
               : bits % 499 == 0 ? signed_fraction | 0x7F80
                                 : signed_fraction | 0x3F00;
    }
}

static bool same_or_nan(float x, float y)
{
    return isnan(x) ? isnan(y) : !memcmp(&x, &y, sizeof x);
}

// GEMV with b unpacked: bitwise identical to gemm with b packed, except for the bits of a NaN.
static void check_gemv_packed(const mh_gemm *gemm, size_t m, size_t n, size_t k,
                              check_result *result)
{
    const size_t lda = k + 3, ldb = n + 5, depth = mh_round_up(k, gemm->step);
    const size_t columns = mh_round_up(n, MH_MAX_LANES), rows = mh_round_up(m, gemm->micro_panel);
    uint16_t *a = check_u16((m - 1) * lda + k), *b = check_u16((k - 1) * ldb + n);
    uint8_t *packed_a = check_bytes(rows * depth * gemm->a_size);
    uint8_t *packed_b = check_bytes(depth * columns * gemm->b_size);
    float *expected = check_floats(rows * columns), *found = check_floats(m * n);
    fill_odd_bf16((m - 1) * lda + k, 1, a);
    fill_odd_bf16((k - 1) * ldb + n, 77, b);
    gemm->pack_a(m, k, &(mh_pack_source){a, (ptrdiff_t)lda, MH_ROW_BF16, false}, packed_a);
    gemm->pack_b(k, n, &(mh_pack_source){b, (ptrdiff_t)ldb, MH_ROW_BF16, false}, packed_b, columns);
    gemm->gemm(&(mh_gemm_args){.m = m,
                               .n = columns,
                               .k = k,
                               .a = packed_a,
                               .lda = (ptrdiff_t)depth,
                               .b = packed_b,
                               .ldb = (ptrdiff_t)columns,
                               .c = expected,
                               .ldc = (ptrdiff_t)columns});
    gemm->gemv(&(mh_gemm_args){.b_type = MH_ROW_BF16,
                               .m = m,
                               .n = n,
                               .k = k,
                               .a = packed_a,
                               .lda = (ptrdiff_t)depth,
                               .b = b,
                               .ldb = (ptrdiff_t)ldb,
                               .c = found,
                               .ldc = (ptrdiff_t)n});
    for (size_t i = 0; i < m; i++)
        for (size_t j = 0; j < n; j++)
            result->ok &= same_or_nan(found[i * n + j], expected[i * columns + j]);
    check_release();
}

static float flushed(float x) { return fabsf(x) < FLT_MIN ? copysignf(0, x) : x; }

// Products in pairs (the step is two) have the order of numerics.md, bit for bit, with denormals as
// 0: the same on every CPU.
static void check_pairs(const mh_gemm *gemm, size_t k, check_result *result)
{
    enum { M = 9, N = 64 };
    operands o = make_operands(gemm, M, N, k);
    uint16_t *a = check_u16(M * k), *b = check_u16(k * N);
    fill_odd_bf16(M * k, 5, a);
    fill_odd_bf16(k * N, 99, b);
    gemm->pack_a(M, k, &(mh_pack_source){a, (ptrdiff_t)k, MH_ROW_BF16, false}, o.packed_a);
    gemm->pack_b(k, N, &(mh_pack_source){b, N, MH_ROW_BF16, false}, o.packed_b, N);
    run_gemm(&o, false);
    for (size_t i = 0; i < M; i++)
        for (size_t j = 0; j < N; j++) {
            float sum = 0;
            for (size_t l = 0; l < (k + 1) / 2 * 2; l++) {
                const size_t at = l % 2 ? l - 1 : l + 1; // of a pair, the second comes first
                const float x = at < k ? flushed(mh_bf16_to_float(a[i * k + at])) : 0;
                const float y = at < k ? flushed(mh_bf16_to_float(b[at * N + j])) : 0;
                sum = flushed(fmaf(x, y, sum));
            }
            result->ok &= same_or_nan(o.c[i * o.ldc + j], sum);
        }
    check_release();
}

static check_result check_gemm(const check_run *run, const mh_gemm *gemm)
{
    check_result result = {.ok = true, .unit = "GFLOP/s"};
    const size_t lanes = run->kernels->lanes;
    static const size_t depths[] = {0, 1, 2, 7, 31, 32, 33, 64, 129, 300};
    if (gemm->enter)
        gemm->enter();
    for (size_t m = 1; m <= gemm->rows; m += m < 8 ? 1 : 4)
        for (size_t d = 0; d < sizeof depths / sizeof *depths; d++)
            for (size_t vectors = 1; vectors <= 9; vectors += vectors < 5 ? 1 : 4)
                check_shape(gemm, m, vectors * lanes, depths[d], &result);
    for (size_t m = 1; m <= 48 && gemm->pack_a; m += 5)
        for (size_t d = 1; d < sizeof depths / sizeof *depths; d++)
            for (size_t n = lanes; n <= 5 * lanes; n += 2 * lanes)
                check_layouts(gemm, m, n, depths[d], &result);
    for (size_t m = 1; m <= MH_GEMV_ROWS && gemm->pack_a; m++)
        for (size_t d = 1; d < sizeof depths / sizeof *depths; d++)
            for (size_t n = 1; n <= 200; n += n < 66 ? 1 : 33)
                check_gemv_packed(gemm, m, n, depths[d], &result);
    for (size_t d = 1; d < sizeof depths / sizeof *depths && gemm->step == 2; d++)
        check_pairs(gemm, depths[d], &result);
    check_odd_numbers(gemm, &result);
    if (run->bench) {
        operands o = make_operands(gemm, gemm->rows, MH_KEY_TILE, 128);
        result.rate = 2e-9 * (double)(o.m * o.n * o.k) * check_rate(gemm_stream, &o);
    }
    if (gemm->leave)
        gemm->leave();
    return result;
}

check_result check_gemm_f32(const check_run *run) { return check_gemm(run, &run->kernels->f32); }

check_result check_gemm_bf16(const check_run *run) { return check_gemm(run, &run->kernels->bf16); }
