// SPDX-License-Identifier: MIT
// y_j = exp(x_j - lse) with lse = log sum_l exp(x_l), or its logarithm x_j - lse. A slice of only
// -inf has nothing to share out: 0 everywhere (log: -inf). NaN and +inf make the slice NaN
// where the formula does.
#include "ref/ref_softmax.h"

#include "ref/ref_tensor.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>

static const double unit = 0x1p-24;

static double log_sum_exp(size_t n, size_t step, const double *x)
{
    double max = -INFINITY, sum = 0;
    for (size_t j = 0; j < n; j++) {
        if (isnan(x[j * step]))
            return NAN;
        max = fmax(max, x[j * step]);
    }
    if (isinf(max))
        return max;
    for (size_t j = 0; j < n; j++)
        sum += exp(x[j * step] - max);
    return max + log(sum);
}

static void slice(size_t n, size_t step, const double *x, bool logarithm, double *y, double *error)
{
    double lse = log_sum_exp(n, step, x);
    double sum_error = unit * (2 + 4 * sqrt((double)n / 3));
    for (size_t j = 0; j < n; j++) {
        double difference = lse == -INFINITY ? -INFINITY : x[j * step] - lse;
        double p = exp(difference);
        y[j * step] = logarithm ? difference : p;
        error[j * step] = logarithm ? unit * (fabs(lse) + fabs(difference)) + sum_error
                                    : p * (unit * (fabs(x[j * step]) + fabs(lse)) + sum_error) +
                                          2 * (double)FLT_MIN;
        if (isinf(difference))
            error[j * step] = 0;
    }
}

void ref_softmax(const mh_tensor *x, int axis, bool logarithm, double *y, double *error)
{
    double *values = ref_load(x);
    size_t n = x->shape[axis], outer = 1, inner = 1;
    for (int d = 0; d < axis; d++)
        outer *= x->shape[d];
    for (int d = axis + 1; d < x->rank; d++)
        inner *= x->shape[d];
    for (size_t o = 0; o < outer; o++)
        for (size_t i = 0; i < inner; i++) {
            size_t first = o * n * inner + i;
            slice(n, inner, values + first, logarithm, y + first, error + first);
        }
    free(values);
}

static bool is_listed(const int32_t *ids, size_t count, size_t id)
{
    for (size_t i = 0; i < count; i++)
        if (ids[i] == (int32_t)id)
            return true;
    return false;
}

void ref_topk(size_t V, const double *x, const bool *excluded, size_t K, int32_t *ids)
{
    for (size_t k = 0; k < K; k++) {
        double largest = -INFINITY;
        ids[k] = -1;
        for (size_t v = 0; v < V; v++)
            if (x[v] > largest && !excluded[v] && !is_listed(ids, k, v)) {
                largest = x[v];
                ids[k] = (int32_t)v;
            }
    }
}
