// SPDX-License-Identifier: MIT
// Axes and their labels; see chart_axis.h.
#include "view/chart_axis.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { DECIMALS_MAX = 9 };

// ---- axes ---------------------------------------------------------------------------------------

// The least of 1, 2, 5 times a power of ten that is not below `raw`; the slack is for values that
// are round except for their last bits.
static double round_step(double raw)
{
    static const double factors[] = {1, 2, 5};
    double power = pow(10, floor(log10(raw)));
    for (size_t i = 0; i < sizeof factors / sizeof *factors; i++)
        if (raw <= factors[i] * power * (1 + 1e-9))
            return factors[i] * power;
    return 10 * power;
}

// Moves the ends far enough apart that a double can represent the ticks.
static void axis_spread(double *low, double *high)
{
    double least = fmax(1e-6, 1e-6 * fmax(fabs(*low), fabs(*high)));
    if (*high - *low >= least)
        return;
    double middle = *low + (*high - *low) / 2;
    *low = middle - least / 2;
    *high = middle + least / 2;
}

static void set_ticks(mh_axis *axis)
{
    axis->first = ceil(axis->low / axis->step - 1e-6);
    axis->ticks = 1 + (int)(floor(axis->high / axis->step + 1e-6) - axis->first);
    double decimals = ceil(-log10(axis->step) - 1e-6);
    axis->decimals = (int)fmin(fmax(decimals, 0), DECIMALS_MAX);
}

mh_axis mh_axis_make(double low, double high, int most, double step_least)
{
    axis_spread(&low, &high);
    mh_axis axis = {.low = low, .high = high};
    axis.step = fmax(round_step((high - low) / most), step_least);
    set_ticks(&axis);
    return axis;
}

mh_axis mh_axis_make_round(double low, double high, int most)
{
    mh_axis axis = mh_axis_make(low, high, most, 0);
    axis.low = axis.step * floor(axis.low / axis.step + 1e-6);
    axis.high = axis.step * ceil(axis.high / axis.step - 1e-6);
    set_ticks(&axis);
    return axis;
}

double mh_axis_tick(const mh_axis *axis, int i)
{
    return (axis->first + i) * axis->step + 0.0; // no -0
}

double mh_axis_coordinate(const mh_axis *axis, double value)
{
    return axis->from + (axis->to - axis->from) * ((value - axis->low) / (axis->high - axis->low));
}

// ---- numbers ------------------------------------------------------------------------------------

// Replaces the locale's decimal separator by a point.
static void append_with_point(mh_appender *to, const char *text)
{
    static const char plain[] = "0123456789+-e";
    while (*text) {
        size_t length = strspn(text, plain);
        mh_append(to, text, length);
        text += length;
        if (*text)
            mh_append_string(to, ".");
        text += strcspn(text, plain);
    }
}

void mh_append_number(mh_appender *to, double value, int decimals)
{
    char text[64];
    if (fabs(value) >= 1e9)
        snprintf(text, sizeof text, "%.4g", value);
    else
        snprintf(text, sizeof text, "%.*f", decimals, value);
    append_with_point(to, text);
}

void mh_append_count(mh_appender *to, double value)
{
    char digits[64];
    int length = snprintf(digits, sizeof digits, "%.0f", fmin(fabs(value), 1e18));
    for (int i = 0; i < length; i++) {
        if (i > 0 && (length - i) % 3 == 0)
            mh_append_string(to, ",");
        mh_append(to, digits + i, 1);
    }
}
