// SPDX-License-Identifier: MIT
// An axis of a chart: where a value is drawn, and ticks at round numbers, 1, 2 or 5 times a power
// of ten apart.
#ifndef MH_VIEW_CHART_AXIS_H
#define MH_VIEW_CHART_AXIS_H

#include "support/buffer.h"

typedef struct mh_axis {
    double low, high; // values at the ends, low < high
    double from, to;  // where the ends are drawn
    double step;      // between ticks
    double first;     // the first tick is first * step
    int ticks;        // number of ticks
    int decimals;     // of a tick's label
} mh_axis;

// Ticks at most `most` steps apart from end to end (and none nearer than `step_least`). The ends
// may be equal; they are then moved apart.
mh_axis mh_axis_make(double low, double high, int most, double step_least);

// The same with the ends moved outwards to ticks.
mh_axis mh_axis_make_round(double low, double high, int most);

double mh_axis_tick(const mh_axis *axis, int i);
double mh_axis_coordinate(const mh_axis *axis, double value);

// A number with a decimal point, independent of the locale; "%.4g" if it is 1e9 or beyond.
void mh_append_number(mh_appender *to, double value, int decimals);

// A whole number with commas between thousands: 29,320.
void mh_append_count(mh_appender *to, double value);

#endif
