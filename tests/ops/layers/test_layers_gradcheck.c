// SPDX-License-Identifier: MIT
// The reference gradients of tests/ref/ref_layers.c, proven: central differences of the reference
// forward, all in double, within rtol 1e-6 and atol 1e-9. What the library computes is compared
// with these references in test_norm, test_activation, test_rope and test_cross_entropy.
#include "ref/ref_layers.h"
#include "ref/ref_tensor.h"
#include "support.h"

#include <math.h>

static const double step = 0x1p-10;

// A function of some numbers, and a gradient to be proven.
typedef double (*function)(const void *arg);

// Differences over +-h and +-2h, combined so that the error is of order h^4.
static double slope(function f, const void *arg, double *x)
{
    const double middle = *x;
    double value[5];
    for (int i = -2; i <= 2; i++) {
        *x = middle + i * step;
        value[i + 2] = f(arg);
    }
    *x = middle;
    return (8 * (value[3] - value[1]) - (value[4] - value[0])) / (12 * step);
}

static void prove(const char *what, function f, const void *arg, size_t n, double *x,
                  const double *gradient)
{
    for (size_t i = 0; i < n; i++) {
        double expected = slope(f, arg, &x[i]);
        if (!(fabs(gradient[i] - expected) <= 1e-9 + 1e-6 * fabs(expected)))
            fail_msg("%s, element %zu: found %.12g, expected %.12g", what, i, gradient[i],
                     expected);
    }
}

// ---- activations --------------------------------------------------------------------------------

static void activations(void **state)
{
    (void)state;
    for (mh_activation kind = MH_RELU; kind <= MH_SILU; kind++)
        for (double x = -8; x < 8; x += 0.0371) {
            if (kind == MH_RELU && fabs(x) < 4 * step) // the kink
                continue;
            double value[5];
            for (int i = -2; i <= 2; i++)
                value[i + 2] = ref_activation(kind, x + i * step);
            double expected = (8 * (value[3] - value[1]) - (value[4] - value[0])) / (12 * step);
            double found = ref_activation_slope(kind, x);
            if (!(fabs(found - expected) <= 1e-9 + 1e-6 * fabs(expected)))
                fail_msg("%s at %g: found %.12g, expected %.12g", mh_activation_name(kind), x,
                         found, expected);
        }
}

// ---- norms --------------------------------------------------------------------------------------

enum { WIDTH = 9 };

typedef struct norm_case {
    bool rms, weighted;
    double x[WIDTH], weight[WIDTH], bias[WIDTH], dy[WIDTH];
} norm_case;

static double norm_loss(const void *arg)
{
    const norm_case *c = arg;
    double y[WIDTH], mean, rstd, sum = 0;
    ref_norm(c->rms, WIDTH, c->x, c->weighted ? c->weight : NULL, c->bias, 1e-3, y, &mean, &rstd);
    for (size_t i = 0; i < WIDTH; i++)
        sum += y[i] * c->dy[i];
    return sum;
}

static void norms(void **state)
{
    (void)state;
    test_rng rng = {test_seed()};
    for (int n = 0; n < 200; n++) {
        norm_case c = {.rms = n % 2, .weighted = n % 3};
        double dx[WIDTH], dweight[WIDTH] = {0}, dbias[WIDTH] = {0};
        for (size_t i = 0; i < WIDTH; i++) {
            c.x[i] = 2 * test_normal(&rng) + 1;
            c.weight[i] = test_normal(&rng);
            c.bias[i] = test_normal(&rng);
            c.dy[i] = test_normal(&rng);
        }
        ref_norm_backward(c.rms, WIDTH, c.x, c.weighted ? c.weight : NULL, 1e-3, c.dy, dx, dweight,
                          dbias);
        prove("dx", norm_loss, &c, WIDTH, c.x, dx);
        prove("dbias", norm_loss, &c, WIDTH, c.bias, dbias);
        if (c.weighted)
            prove("dweight", norm_loss, &c, WIDTH, c.weight, dweight);
    }
}

// ---- rotation -----------------------------------------------------------------------------------

typedef struct rope_case {
    bool interleaved;
    double position, x[WIDTH], dy[WIDTH];
} rope_case;

static double rope_loss(const void *arg)
{
    const rope_case *c = arg;
    double y[WIDTH], sum = 0;
    ref_rope(c->interleaved, WIDTH, 6, c->position, 100, c->x, y);
    for (size_t i = 0; i < WIDTH; i++)
        sum += y[i] * c->dy[i];
    return sum;
}

// The inverse rotation is the gradient.
static void rotations(void **state)
{
    (void)state;
    test_rng rng = {test_seed()};
    for (int n = 0; n < 50; n++) {
        rope_case c = {.interleaved = n % 2, .position = n};
        double dx[WIDTH];
        for (size_t i = 0; i < WIDTH; i++) {
            c.x[i] = test_normal(&rng);
            c.dy[i] = test_normal(&rng);
        }
        ref_rope(c.interleaved, WIDTH, 6, -c.position, 100, c.dy, dx);
        prove("rope", rope_loss, &c, WIDTH, c.x, dx);
    }
}

// ---- cross-entropy ------------------------------------------------------------------------------

enum { N = 4, V = 5 };

typedef struct entropy_case {
    mh_cross_entropy_options options;
    double logits[N * V];
    int64_t targets[N];
} entropy_case;

static double entropy_loss(const void *arg)
{
    const entropy_case *c = arg;
    double loss;
    ref_cross_entropy(&c->options, N, V, c->logits, c->targets, &loss, NULL);
    return loss;
}

static void cross_entropies(void **state)
{
    (void)state;
    test_rng rng = {test_seed()};
    for (int n = 0; n < 100; n++) {
        entropy_case c = {.options = mh_cross_entropy_options_default()};
        double dlogits[N * V];
        c.options.label_smoothing = n % 2 ? 0.1f : 0;
        float weight[V];
        mh_tensor weights = mh_tensor_1d(weight, MH_F32, V);
        for (size_t v = 0; v < V; v++)
            weight[v] = (float)test_uniform(&rng, 0.1, 2);
        c.options.weight = n % 5 < 2 ? &weights : NULL;
        c.options.reduction = n % 3 ? MH_REDUCTION_MEAN : MH_REDUCTION_SUM;
        for (size_t i = 0; i < N * V; i++)
            c.logits[i] = 2 * test_normal(&rng);
        for (size_t i = 0; i < N; i++)
            c.targets[i] =
                i > 0 && test_chance(&rng, 0.3) ? -100 : (int64_t)test_between(&rng, 0, V - 1);
        double loss;
        ref_cross_entropy(&c.options, N, V, c.logits, c.targets, &loss, dlogits);
        prove("cross-entropy", entropy_loss, &c, N * V, c.logits, dlogits);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(activations),
        cmocka_unit_test(norms),
        cmocka_unit_test(rotations),
        cmocka_unit_test(cross_entropies),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
