// SPDX-License-Identifier: MIT
// Conversions to and from 16 bits, bitwise identical to the scalar functions of half.h; predicates;
// and the peak kernels, which must do the work that they count.
#include "base/half.h"
#include "kernels/check.h"
#include <math.h>
#include <string.h>

typedef struct format {
    void (*widen)(size_t n, const uint16_t *x, float *y);
    void (*narrow)(size_t n, const float *x, uint16_t *y);
    float (*widen_one)(uint16_t x);
    uint16_t (*narrow_one)(float x);
} format;

// Widens all 65536 bit patterns, and narrows floats of every exponent.
static bool format_agrees(const format *f)
{
    enum { BATCH = 997 };
    uint16_t *halves = check_u16(BATCH);
    float *floats = check_floats(BATCH);
    bool same = true;
    for (uint32_t first = 0; first < 65536; first += BATCH) {
        size_t n = 65536 - first < BATCH ? 65536 - first : BATCH;
        for (size_t i = 0; i < n; i++)
            halves[i] = (uint16_t)(first + i);
        f->widen(n, halves, floats);
        for (size_t i = 0; i < n; i++)
            same &= mh_float_to_bits(floats[i]) == mh_float_to_bits(f->widen_one(halves[i]));
    }
    for (uint64_t first = 0; first < UINT64_C(1) << 32; first += BATCH * UINT64_C(7919)) {
        for (uint32_t i = 0; i < BATCH; i++)
            floats[i] = mh_bits_to_float((uint32_t)first + i * 7919u);
        f->narrow(BATCH, floats, halves);
        for (size_t i = 0; i < BATCH; i++)
            same &= halves[i] == f->narrow_one(floats[i]);
    }
    check_release();
    return same;
}

// Every 16-bit pattern, at varying positions of a row.
static bool tells_finite(const check_run *run, uint16_t exponent, float (*widen)(uint16_t))
{
    enum { N = 67 };
    bool ok = true;
    for (uint32_t bits = 0; bits <= UINT16_MAX; bits++) {
        uint16_t x[N] = {0};
        x[bits % N] = (uint16_t)bits;
        ok &= run->kernels->elementwise.all_finite_16bit(N, exponent, x) ==
              (isfinite(widen((uint16_t)bits)) != 0);
    }
    return ok;
}

check_result check_bf16(const check_run *run)
{
    format f = {run->kernels->elementwise.widen_bf16, run->kernels->elementwise.narrow_bf16,
                mh_bf16_to_float, mh_float_to_bf16};
    return (check_result){.ok = format_agrees(&f) &&
                                tells_finite(run, MH_BF16_EXPONENT, mh_bf16_to_float)};
}

check_result check_f16(const check_run *run)
{
    format f = {run->kernels->elementwise.widen_f16, run->kernels->elementwise.narrow_f16,
                mh_f16_to_float, mh_float_to_f16};
    return (check_result){.ok = format_agrees(&f) &&
                                tells_finite(run, MH_F16_EXPONENT, mh_f16_to_float)};
}

check_result check_predicates(const check_run *run)
{
    check_result result = {.ok = true};
    const float odd[] = {NAN, INFINITY, -INFINITY};
    for (size_t n = 1; n <= 64; n++) {
        float *x = check_floats(n);
        uint8_t *flags = check_bytes(n);
        uint64_t nonzero = 0;
        check_fill(n, 1e38f, x);
        for (size_t j = 0; j < n; j++) {
            flags[j] = (uint8_t)(check_random() < 0 ? 0 : 1 + (j * 37) % 255);
            nonzero |= (uint64_t)(flags[j] != 0) << j;
        }
        const uint64_t all = n == 64 ? ~UINT64_C(0) : (UINT64_C(1) << n) - 1;
        result.ok &= run->kernels->elementwise.nonzero_bits(n, flags) == nonzero;
        result.ok &= run->kernels->elementwise.unequal_bits(n, x, -INFINITY) == all;
        for (size_t at = 0; at < n; at++) {
            float kept = x[at];
            x[at] = odd[at % 3];
            uint64_t expected = x[at] == -INFINITY ? all & ~(UINT64_C(1) << at) : all;
            result.ok &= run->kernels->elementwise.unequal_bits(n, x, -INFINITY) == expected;
            x[at] = kept;
        }
        check_release();
    }
    return result;
}

typedef struct peak {
    const mh_kernels *kernels;
    double operations;
} peak;

static void multiply_add(void *arg)
{
    peak *p = arg;
    float sink;
    p->operations = p->kernels->peak.fma(1000, &sink);
}

check_result check_limits(const check_run *run)
{
    check_result result = {.ok = true, .unit = "GFLOP/s"};
    float sink = NAN;
    result.ok = run->kernels->peak.bf16(10, &sink) > 0 && isfinite(sink);
    for (size_t n = 1; n <= 1000; n += 37) {
        float *x = check_floats(n);
        for (size_t j = 0; j < n; j++)
            x[j] = (float)(j % 7);
        double sum = 0;
        for (size_t j = 0; j < n; j++)
            sum += (double)x[j];
        result.ok &= run->kernels->rowwise.sum(n, x) == (float)sum; // small integers: exact
        for (size_t streams = 1; streams <= 8; streams *= 2)
            result.ok &= run->kernels->peak.read(n, x, streams, streams % 4 * 1024) == (float)sum;
        check_release();
    }
    if (run->bench) {
        peak p = {run->kernels, 0};
        double rate = check_rate(multiply_add, &p);
        result.rate = 1e-9 * p.operations * rate;
    }
    return result;
}
