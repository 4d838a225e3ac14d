// SPDX-License-Identifier: MIT
// Attention in steps; see steps.h.
#include "steps.h"
#include "command.h"
#include "messages.h"

#include <math.h>
#include <multihead/nn.h>
#include <multihead/ops.h>
#include <time.h>

double steps_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

// The matrix of one sequence and head of a tensor (B, H, rows, columns).
static mh_tensor matrix_of(const mh_tensor *t, size_t b, size_t h)
{
    mh_tensor matrix = mh_tensor_2d(t->data, t->dtype, t->shape[2], t->shape[3]);
    matrix.data = (float *)t->data + (ptrdiff_t)b * t->stride[0] + (ptrdiff_t)h * t->stride[1];
    matrix.stride[0] = t->stride[2];
    matrix.stride[1] = t->stride[3];
    return matrix;
}

// c = a b for each sequence and head; b has as many heads as a or a divisor of them.
static mh_status multiply_heads(mh_context *context, const mh_tensor *a, const mh_tensor *b,
                                bool transposed, const mh_tensor *c)
{
    const size_t H = a->shape[1], G = b->shape[1];
    mh_status status = MH_OK;
    for (size_t i = 0; i < a->shape[0] && status == MH_OK; i++)
        for (size_t h = 0; h < H && status == MH_OK; h++) {
            const mh_tensor x = matrix_of(a, i, h);
            mh_tensor y = matrix_of(b, i, h / (H / G)), z = matrix_of(c, i, h);
            if (transposed)
                y = mh_tensor_swap(y, 0, 1);
            status = mh_matmul(context, &x, &y, &z);
        }
    return status;
}

mh_status steps_scores(mh_context *context, const mh_tensor *q, const mh_tensor *k,
                       const mh_tensor *scores)
{
    return multiply_heads(context, q, k, true, scores);
}

mh_status steps_weigh(mh_context *context, const mh_tensor *weights, const mh_tensor *v,
                      const mh_tensor *out)
{
    return multiply_heads(context, weights, v, false, out);
}

int steps_token(ptrdiff_t given, size_t queries, bool masked, size_t *token)
{
    *token = queries == 0 ? 0 : masked ? queries / 2 : queries - 1;
    if (given < 0)
        return EXIT_DONE;
    *token = (size_t)given;
    if (*token < queries)
        return EXIT_DONE;
    complain("--token: found %zu, but there %s %zu, from 0", *token, queries == 1 ? "is" : "are",
             queries);
    return EXIT_USAGE;
}

void steps_draw(const mh_tensor *t, uint64_t seed)
{
    const size_t count = mh_tensor_count(t);
    const mh_parameter numbers = {
        .rank = 1, .shape = {count}, .count = count, .init = MH_INIT_NORMAL, .init_scale = 1};
    const mh_parameters all = {.count = 1, .list = &numbers, .floats = count, .values = t->data};
    mh_parameters_init(&all, seed);
}

// ---- comparing ----------------------------------------------------------------------------------

// The tensor as one of four dimensions.
static mh_tensor four(const mh_tensor *t)
{
    mh_tensor wide = *t;
    wide.rank = 4;
    for (int d = 3; d >= 0; d--) {
        const int from = d - (4 - t->rank);
        wide.shape[d] = from < 0 ? 1 : t->shape[from];
        wide.stride[d] = from < 0 ? 0 : t->stride[from];
    }
    return wide;
}

static const float *row_at(const mh_tensor *t, size_t i, size_t j, size_t k)
{
    return (const float *)t->data + (ptrdiff_t)i * t->stride[0] + (ptrdiff_t)j * t->stride[1] +
           (ptrdiff_t)k * t->stride[2];
}

bool steps_agree(const mh_tensor *steps, const mh_tensor *fused, double *difference)
{
    const mh_tensor a = four(steps), b = four(fused);
    double largest = 0, apart = 0;
    for (size_t i = 0; i < a.shape[0]; i++)
        for (size_t j = 0; j < a.shape[1]; j++)
            for (size_t k = 0; k < a.shape[2]; k++) {
                const float *x = row_at(&a, i, j, k), *y = row_at(&b, i, j, k);
                for (size_t e = 0; e < a.shape[3]; e++) {
                    const double p = (double)x[(ptrdiff_t)e * a.stride[3]];
                    const double d = fabs(p - (double)y[(ptrdiff_t)e * b.stride[3]]);
                    if (!isfinite(p))
                        continue;
                    largest = fmax(largest, fabs(p));
                    apart = d > apart || isnan(d) ? d : apart;
                }
            }
    if (apart > *difference || isnan(apart))
        *difference = apart;
    return apart <= 1e-4 * fmax(largest, 1e-3);
}

int steps_complain(const char *of, double difference)
{
    complain("%s: the steps and the fused result differ by %g; this should not happen, please "
             "report it",
             of, difference);
    return EXIT_FAILED;
}
