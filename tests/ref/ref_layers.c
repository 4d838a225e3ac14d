// SPDX-License-Identifier: MIT
// The formulas of layers.h, one after the other; see ref_layers.h.
#include "ref/ref_layers.h"

#include "ref/ref_tensor.h"

#include <float.h>
#include <math.h>

static const double pi = 3.14159265358979323846, eps = FLT_EPSILON;

// ---- activations --------------------------------------------------------------------------------

static double sigmoid(double x) { return x < 0 ? exp(x) / (1 + exp(x)) : 1 / (1 + exp(-x)); }

static double twice_u(double x) { return 2 * sqrt(2 / pi) * (x + 0.044715 * x * x * x); }

static double slope_of_twice_u(double x) { return 2 * sqrt(2 / pi) * (1 + 3 * 0.044715 * x * x); }

double ref_activation(mh_activation kind, double x)
{
    if (isinf(x))
        return x > 0 ? x : 0;
    switch (kind) {
    case MH_RELU:
        return x < 0 ? 0 : x;
    case MH_GELU:
        return x * 0.5 * erfc(-x / sqrt(2));
    case MH_GELU_TANH:
        return x * sigmoid(twice_u(x));
    default:
        return x * sigmoid(x);
    }
}

double ref_activation_slope(mh_activation kind, double x)
{
    if (isnan(x))
        return kind == MH_RELU ? 1 : x; // ReLU only lets through or not
    if (fabs(x) > 1000)
        return x > 0;
    double s;
    switch (kind) {
    case MH_RELU:
        return x > 0;
    case MH_GELU:
        return 0.5 * erfc(-x / sqrt(2)) + x * exp(-x * x / 2) / sqrt(2 * pi);
    case MH_GELU_TANH:
        s = sigmoid(twice_u(x));
        return s + x * s * (1 - s) * slope_of_twice_u(x);
    default:
        s = sigmoid(x);
        return s + x * s * (1 - s);
    }
}

// 6 or 3 ulp; the tanh form rounds its argument, which costs as much as that is large.
double ref_activation_error(mh_activation kind, double x)
{
    double y = fabs(ref_activation(kind, x));
    double denormal = fmin(fabs(x), 128) * 0x1p-149 + 0x1p-149;
    if (kind == MH_RELU)
        return 0x1p-149;
    if (kind == MH_GELU_TANH)
        return eps * y * (4 + 1.5 * fmin(fabs(twice_u(x)), 200)) + denormal;
    return (kind == MH_GELU ? 3.5 : 1.8) * eps * y + denormal;
}

double ref_activation_slope_error(mh_activation kind, double x)
{
    double small = fmin(1, exp(-fabs(x)) * (20 + fmin(fabs(x), 200)));
    return kind == MH_RELU ? 0x1p-149 : 4 * eps * (x > 0 ? 1 + small : small) + 0x1p-140;
}

// ---- norms --------------------------------------------------------------------------------------

void ref_norm(bool rms, size_t n, const double *x, const double *weight, const double *bias,
              double epsilon, double *y, double *mean, double *rstd)
{
    double sum = 0, squares = 0;
    for (size_t i = 0; i < n; i++)
        sum += x[i];
    *mean = rms ? 0 : sum / (double)n;
    for (size_t i = 0; i < n; i++)
        squares += (x[i] - *mean) * (x[i] - *mean);
    *rstd = 1 / sqrt(squares / (double)n + epsilon);
    for (size_t i = 0; i < n; i++)
        y[i] = (x[i] - *mean) * *rstd * (weight ? weight[i] : 1) + (bias ? bias[i] : 0);
}

void ref_norm_backward(bool rms, size_t n, const double *x, const double *weight, double epsilon,
                       const double *dy, double *dx, double *dweight, double *dbias)
{
    double mean, rstd, sum = 0, product = 0;
    ref_norm(rms, n, x, NULL, NULL, epsilon, dx, &mean, &rstd); // dx = h for now
    for (size_t i = 0; i < n; i++) {
        double g = dy[i] * (weight ? weight[i] : 1);
        sum += rms ? 0 : g;
        product += g * dx[i];
        dweight[i] += dy[i] * dx[i];
        if (dbias)
            dbias[i] += dy[i];
    }
    for (size_t i = 0; i < n; i++) {
        double g = dy[i] * (weight ? weight[i] : 1);
        dx[i] = rstd * (g - sum / (double)n - dx[i] * product / (double)n);
    }
}

// ---- positions ----------------------------------------------------------------------------------

void ref_rope(bool interleaved, size_t n, size_t width, double position, double base,
              const double *x, double *y)
{
    for (size_t i = 0; i < n; i++)
        y[i] = x[i];
    for (size_t i = 0; i < width / 2; i++) {
        double angle = position * pow(base, -2.0 * (double)i / (double)width);
        size_t first = interleaved ? 2 * i : i, second = interleaved ? 2 * i + 1 : i + width / 2;
        double a = x[first], b = x[second];
        y[first] = a * cos(angle) - b * sin(angle);
        y[second] = b * cos(angle) + a * sin(angle);
    }
}

double ref_sinusoid(size_t D, size_t column, double position)
{
    double angle = position * pow(10000, -2.0 * (double)(column / 2) / (double)D);
    return column % 2 ? cos(angle) : sin(angle);
}

// ---- loss ---------------------------------------------------------------------------------------

static double log_sum_exp(size_t V, const double *x)
{
    double max = -INFINITY, sum = 0;
    for (size_t v = 0; v < V; v++)
        max = fmax(max, x[v]);
    for (size_t v = 0; v < V; v++)
        sum += exp(x[v] - max);
    return max + log(sum);
}

static double class_weight(const mh_cross_entropy_options *options, size_t v)
{
    const mh_tensor *w = options->weight;
    return w ? (double)((const float *)w->data)[(ptrdiff_t)v * w->stride[0]] : 1;
}

size_t ref_cross_entropy(const mh_cross_entropy_options *options, size_t N, size_t V,
                         const double *logits, const int64_t *targets, double *loss,
                         double *dlogits)
{
    const double smoothing = (double)options->label_smoothing;
    size_t count = 0;
    double total = 0, divisor = 0;
    for (size_t n = 0; n < N; n++)
        if (targets[n] != options->ignore_index) {
            count++;
            divisor += class_weight(options, (size_t)targets[n]);
        }
    if (options->reduction != MH_REDUCTION_MEAN)
        divisor = 1;
    for (size_t n = 0; n < N; n++) {
        const double *x = logits + n * V;
        const bool counts = targets[n] != options->ignore_index;
        const double lse = log_sum_exp(V, x);
        double all = 0; // of q, by which the whole softmax counts
        for (size_t v = 0; v < V; v++)
            all += class_weight(options, v) *
                   ((1 - smoothing) * ((int64_t)v == targets[n]) + smoothing / (double)V);
        for (size_t v = 0; v < V; v++) {
            double q = class_weight(options, v) *
                       ((1 - smoothing) * ((int64_t)v == targets[n]) + smoothing / (double)V);
            total += counts && q > 0 ? -q * (x[v] - lse) : 0;
            if (dlogits)
                dlogits[n * V + v] =
                    counts ? (double)options->gradient_scale * (all * exp(x[v] - lse) - q) / divisor
                           : 0;
        }
    }
    *loss = total / divisor;
    return count;
}
