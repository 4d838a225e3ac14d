// SPDX-License-Identifier: MIT
// Powers in double without libm, whose variants differ in the last bit from machine to machine:
// base^x = exp(x log base). They are needed a few dozen times per call, so that series are fast
// enough.
#ifndef MH_BASE_POW_H
#define MH_BASE_POW_H

static const double mh_ln2_high = 0x1.62e42fee00000p-1, mh_ln2_low = 0x1.a39ef35793c76p-33;

// log x = e ln 2 + 2 atanh(s), s = (m - 1) / (m + 1), for x = m 2^e >= 1, m in [sqrt(1/2),
// sqrt(2)): s^2 < 0.03, so that 12 terms are enough.
static inline double mh_log_above_1(double x)
{
    int e = 0;
    for (; x > 0x1.6a09e667f3bcdp0 && e < 1100; e++)
        x *= 0.5;
    double s = (x - 1) / (x + 1), z = s * s, sum = 0;
    for (int k = 23; k >= 1; k -= 2)
        sum = sum * z + 1.0 / k;
    return e * mh_ln2_high + (2 * s * sum + e * mh_ln2_low);
}

// log x for any x > 0.
static inline double mh_natural_log(double x)
{
    return x >= 1 ? mh_log_above_1(x) : -mh_log_above_1(1 / x);
}

// e^x for -745 < x <= 0: x = n ln 2 + r, 14 terms of the series for |r| <= 0.35.
static inline double mh_exp_below_0(double x)
{
    const double magic = 0x1.8p52;
    double n = (x * 0x1.71547652b82fep0 + magic) - magic;
    double r = (x - n * mh_ln2_high) - n * mh_ln2_low, sum = 1;
    for (int k = 14; k >= 1; k--)
        sum = 1 + sum * r / k;
    for (; n < 0; n++)
        sum *= 0.5;
    return sum;
}

#endif
