// SPDX-License-Identifier: MIT
// The softmax kernels against the formula in double: scores, one step, merging, weights, rows.
// Bounds are about twice the errors measured when the kernels were written.
#include "kernels/check.h"
#include <float.h>
#include <math.h>
#include <string.h>

static const double eps = FLT_EPSILON;

// ---- score_row ----------------------------------------------------------------------------------

static double score(const mh_score_map *map, size_t j, double x)
{
    double y = map->scale * x;
    if (map->cap > 0)
        y = map->cap * tanh(y / map->cap);
    if (map->bias)
        y += map->bias[j];
    y -= map->slope * fabs((double)map->distance - (double)j);
    return map->live >> j & 1 ? y : -INFINITY;
}

check_result check_score_row(const check_run *run)
{
    check_result result = {.ok = true};
    for (unsigned options = 0; options < 16; options++) {
        for (size_t n = 1; n <= MH_KEY_TILE; n++) {
            float *x = check_floats(MH_KEY_TILE), *bias = check_floats(MH_KEY_TILE);
            float before[MH_KEY_TILE];
            check_fill(MH_KEY_TILE, 5, x);
            check_fill(MH_KEY_TILE, 5, bias);
            x[n / 2] = options & 8 ? NAN : x[n / 2]; // a masked NaN must not propagate
            memcpy(before, x, sizeof before);
            mh_score_map map = {.scale = 0.7f,
                                .cap = options & 1 ? 3.0f : 0,
                                .bias = options & 2 ? bias : NULL,
                                .slope = options & 4 ? 0.25f : 0,
                                .distance = 17,
                                .live = UINT64_C(0x5DEECE66D5DEECE6) << (n % 7)};
            run->kernels->attention.score_row(&map, n, x);
            for (size_t j = 0; j < n; j++)
                result.error = check_worse(
                    result.error, check_error(x[j], score(&map, j, before[j]), 4 * eps * 20));
            check_release();
        }
    }
    return result;
}

// ---- softmax_step and softmax_merge -------------------------------------------------------------

enum { WIDTH = 32, STEPS = 5 };

// The online softmax state of one row.
typedef struct row_state {
    float max, sum[MH_MAX_LANES], acc[WIDTH];
} row_state;

static row_state empty_state(void)
{
    row_state state = {.max = -INFINITY};
    return state;
}

// A row of scores of one of several kinds: ordinary, some masked, all masked, huge, NaN.
static void make_scores(int habit, size_t n, float *s)
{
    for (size_t j = 0; j < MH_KEY_TILE; j++) {
        s[j] = j < n ? 10 * check_random() : NAN; // must not be used
        if (habit == 2 || (habit == 1 && check_random() < 0.3f))
            s[j] = -INFINITY;
        if (habit == 3)
            s[j] *= 1e30f;
    }
    if (habit == 4)
        s[n / 2] = NAN;
}

// One step of one row: exponentials, sum and acc, with the rescaling of the latter two, must agree
// with the formula.
static double step_error(const mh_kernels *kernels, size_t n, float scale, row_state *state)
{
    float *s = check_floats(MH_KEY_TILE);
    int habit = (int)(n % 5);
    make_scores(habit, n, s);
    double before[MH_KEY_TILE], old_max = state->max, max = old_max, sum = 0, worst = 0;
    float old_acc = state->acc[WIDTH - 1];
    for (size_t j = 0; j < MH_MAX_LANES; j++)
        sum += state->sum[j];
    for (size_t j = 0; j < n; j++) {
        before[j] = (double)(scale * s[j]);
        max = before[j] > max ? before[j] : max;
    }
    if (max <= old_max + 8)
        max = old_max;
    kernels->attention.softmax_step(&(mh_softmax_step){.m = 1,
                                                       .n = n,
                                                       .scale = scale,
                                                       .s = s,
                                                       .width = WIDTH,
                                                       .max = &state->max,
                                                       .sum = state->sum,
                                                       .acc = state->acc,
                                                       .ldacc = WIDTH});
    if (habit == 4) { // NaN in, NaN out: nothing else is specified
        double total = kernels->attention.sum_lanes(state->sum);
        *state = empty_state();
        return isnan(total) ? 0 : INFINITY;
    }
    worst = check_worse(worst, check_error(state->max, max, 1e-30));
    double base = max == -INFINITY ? 0 : max, shrink = exp(old_max - base);
    sum *= old_max == -INFINITY ? 0 : shrink;
    for (size_t j = 0; j < n; j++) {
        double p = exp(before[j] - base);
        double bound = eps * p * (1.5 + fabs(before[j] - base)) + 0x1p-125;
        worst = check_worse(worst, check_error(s[j], p, isfinite(bound) ? bound : 0x1p-125));
        sum += p;
    }
    worst = check_worse(
        worst, check_error(kernels->attention.sum_lanes(state->sum), sum, 8 * eps * sum + 1e-30));
    double acc = old_max == max || old_max == -INFINITY ? old_acc : old_acc * shrink;
    return check_worse(worst, check_error(state->acc[WIDTH - 1], acc, 8 * eps * fabs(acc) + 1e-30));
}

typedef struct step_timing {
    const mh_kernels *kernels;
    float *s, *max, *sum, *acc;
} step_timing;

static void step(void *arg)
{
    step_timing *t = arg;
    t->kernels->attention.softmax_step(&(mh_softmax_step){.m = t->kernels->f32.rows,
                                                          .n = MH_KEY_TILE,
                                                          .scale = -0.5f,
                                                          .s = t->s,
                                                          .width = 64,
                                                          .max = t->max,
                                                          .sum = t->sum,
                                                          .acc = t->acc,
                                                          .ldacc = 64});
}

check_result check_softmax_step(const check_run *run)
{
    check_result result = {.ok = true, .unit = "Gelem/s"};
    for (size_t n = 1; n <= MH_KEY_TILE; n++) {
        row_state state = empty_state();
        for (int i = 0; i < STEPS; i++) {
            result.error = check_worse(result.error, step_error(run->kernels, n, 0.5f, &state));
            state.acc[WIDTH - 1] = check_random();
            check_release();
        }
    }
    if (run->bench) {
        size_t rows = run->kernels->f32.rows;
        step_timing t = {run->kernels, check_floats(rows * 64), check_floats(rows),
                         check_floats(rows * MH_MAX_LANES), check_floats(rows * 64)};
        check_fill(rows * 64, 1, t.s);
        check_fill(rows * 64, 1, t.acc);
        memset(t.sum, 0, rows * MH_MAX_LANES * sizeof(float));
        for (size_t i = 0; i < rows; i++)
            t.max[i] = 10;
        result.rate = 1e-9 * (double)(rows * 64) * check_rate(step, &t);
    }
    return result;
}

check_result check_softmax_merge(const check_run *run)
{
    check_result result = {.ok = true};
    static const float levels[] = {-INFINITY, -80, 0, 3.5f, 3.5f, 1e30f};
    for (int i = 0; i < 6; i++) {
        for (int j = 0; j < 6; j++) {
            row_state a = empty_state(), b = empty_state(), old;
            a.max = levels[i], b.max = levels[j];
            if (levels[i] != -INFINITY)
                check_fill(WIDTH, 1, a.acc), check_fill(run->kernels->lanes, 1, a.sum);
            if (levels[j] != -INFINITY)
                check_fill(WIDTH, 1, b.acc), check_fill(run->kernels->lanes, 1, b.sum);
            old = a;
            run->kernels->attention.softmax_merge(WIDTH, &a.max, a.sum, a.acc, b.max, b.sum, b.acc);
            double max = fmax(old.max, b.max), base = max == -INFINITY ? 0 : max;
            result.ok &= a.max == (float)max;
            double fa = exp(old.max - base), fb = exp(b.max - base);
            for (size_t k = 0; k < WIDTH; k++)
                result.error = check_worse(
                    result.error,
                    check_error(a.acc[k], old.acc[k] * fa + b.acc[k] * fb,
                                8 * eps * (fabs(old.acc[k] * fa) + fabs(b.acc[k] * fb)) + 1e-30));
            // Merging an empty state is exact: a KV split without live keys changes nothing.
            if (b.max == -INFINITY)
                result.ok &=
                    !memcmp(a.acc, old.acc, sizeof a.acc) && !memcmp(a.sum, old.sum, sizeof a.sum);
            if (old.max == -INFINITY)
                result.ok &= !memcmp(a.acc, b.acc, sizeof a.acc);
        }
    }
    return result;
}

// ---- whole rows ---------------------------------------------------------------------------------

check_result check_softmax_weights(const check_run *run)
{
    check_result result = {.ok = true};
    for (size_t n = 1; n <= 200; n++) {
        float *x = check_floats(n), *y = check_floats(n);
        check_fill(n, 10, x);
        x[n / 3] = -INFINITY;
        run->kernels->attention.softmax_weights(n, x, 10.5f, 3.0f, y);
        for (size_t j = 0; j < n; j++) {
            double w = exp(x[j] - 10.5) / 3;
            result.error = check_worse(
                result.error, check_error(y[j], w, eps * w * (1.5 + fabs(x[j] - 10.5)) + 1e-40));
        }
        check_release();
    }
    return result;
}

typedef struct row_timing {
    const mh_kernels *kernels;
    size_t n;
    float *x, *y;
} row_timing;

static void softmax_row(void *arg)
{
    row_timing *t = arg;
    t->kernels->rowwise.softmax_row(t->n, t->x, t->y);
}

static double softmax_row_error(const mh_kernels *kernels, int habit, size_t n)
{
    float *x = check_floats(n), *y = check_floats(n);
    double max = -INFINITY, sum = 0, worst = 0;
    check_fill(n, 20, x);
    for (size_t j = 0; j < n; j++) {
        if (habit == 2 || (habit == 1 && check_random() < 0))
            x[j] = -INFINITY;
        if (habit == 3)
            x[j] *= 1e30f;
        max = x[j] > max ? x[j] : max;
    }
    if (habit == 4)
        x[n / 2] = NAN;
    mh_softmax_norm norm = kernels->rowwise.softmax_row(n, x, y),
                    alone = kernels->rowwise.softmax_row(n, x, NULL);
    if (memcmp(&norm, &alone, sizeof norm))
        worst = INFINITY;
    for (size_t j = 0; j < n; j++)
        sum += max == -INFINITY ? 0 : exp(x[j] - max);
    for (size_t j = 0; j < n; j++) {
        double w = habit == 4 ? NAN : sum > 0 ? exp(x[j] - max) / sum : 0;
        double bound = eps * w * (5 + fabs(x[j] - max)) + 1e-44; // x - max is rounded as well
        worst = check_worse(worst, check_error(y[j], w, bound));
    }
    if (habit != 4)
        worst =
            check_worse(worst, check_error(norm.log_sum, log(sum), 4 * eps * (1 + fabs(log(sum)))));
    check_release();
    return worst;
}

check_result check_softmax_row(const check_run *run)
{
    check_result result = {.ok = true, .unit = "Gelem/s"};
    for (int habit = 0; habit < 5; habit++)
        for (size_t n = 1; n <= 300; n += n < 70 ? 1 : 23)
            result.error = check_worse(result.error, softmax_row_error(run->kernels, habit, n));
    if (run->bench) {
        row_timing t = {run->kernels, 1000, check_floats(1000), check_floats(1000)};
        check_fill(1000, 5, t.x);
        result.rate = 1e-9 * 1000 * check_rate(softmax_row, &t);
    }
    return result;
}

check_result check_scale_row(const check_run *run)
{
    check_result result = {.ok = true};
    for (size_t n = 1; n <= 70; n++) {
        float *x = check_floats(n), *y = check_floats(n);
        check_fill(n, 1, x);
        x[0] = -0.0f;
        run->kernels->elementwise.scale_row(n, x, 3, y);
        result.ok &= !signbit(y[0]);
        for (size_t j = 0; j < n; j++)
            result.error = check_worse(result.error,
                                       check_error(y[j], x[j] * 3.0, 2 * eps * fabs(x[j] * 3.0)));
        check_release();
    }
    return result;
}
