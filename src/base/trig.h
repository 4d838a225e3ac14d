// SPDX-License-Identifier: MIT
// Sines in double without libm, whose variants differ in the last bit from machine to machine.
// Angles are in turns, so that whole turns are dropped exactly.
#ifndef MH_BASE_TRIG_H
#define MH_BASE_TRIG_H

// sin and cos of x for |x| <= pi / 4, by their series.
static inline double mh_sin_series(double x)
{
    double sum = 0;
    for (int k = 16; k >= 2; k -= 2)
        sum = (1 + sum) * (-x * x / (k * (k + 1)));
    return x * (1 + sum);
}

static inline double mh_cos_series(double x)
{
    double sum = 0;
    for (int k = 17; k >= 1; k -= 2)
        sum = (1 + sum) * (-x * x / (k * (k + 1)));
    return 1 + sum;
}

// sin(2 pi turns), |turns| < 2^50.
static inline double mh_sin_turns(double turns)
{
    const double magic = 0x1.8p52, pi = 0x1.921fb54442d18p1;
    double t = turns - ((turns + magic) - magic); // -1/2 to 1/2
    if (t > 0.25)
        t = 0.5 - t;
    else if (t < -0.25)
        t = -0.5 - t;
    if (t > 0.125)
        return mh_cos_series(2 * pi * (0.25 - t));
    if (t < -0.125)
        return -mh_cos_series(2 * pi * (0.25 + t));
    return mh_sin_series(2 * pi * t);
}

static inline double mh_cos_turns(double turns) { return mh_sin_turns(turns + 0.25); }

#endif
