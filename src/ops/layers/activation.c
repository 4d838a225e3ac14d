// SPDX-License-Identifier: MIT
// Activations, SwiGLU and the residual sum: elementwise operations.
#include "base/context.h"
#include "ops/layers/layers_internal.h"
#include "ops/overlap.h"
#include "ops/tensor_check.h"
#include <string.h>

static const char *const names[] = {"relu", "gelu", "gelu_tanh", "silu", "tanh"};

static bool is_activation(mh_activation kind) { return kind >= MH_RELU && kind <= MH_TANH; }

const char *mh_activation_name(mh_activation kind)
{
    return is_activation(kind) ? names[kind] : "?";
}

mh_status mh_check_activation(mh_context *context, mh_activation kind)
{
    if (!context)
        return MH_ERROR_ARGUMENT;
    if (!is_activation(kind))
        return mh_fail(context, MH_ERROR_ARGUMENT, "activation: found %d, expected 0 to 4",
                       (int)kind);
    return MH_OK;
}

mh_activation_fn mh_activation_kernel(const mh_kernels *kernels, mh_activation kind)
{
    const mh_activation_fn functions[] = {
        [MH_RELU] = kernels->activation.relu,           [MH_GELU] = kernels->activation.gelu,
        [MH_GELU_TANH] = kernels->activation.gelu_tanh, [MH_SILU] = kernels->activation.silu,
        [MH_TANH] = kernels->elementwise.tanh,
    };
    return functions[kind];
}

// ---- one input ----------------------------------------------------------------------------------

static void forward_part(const mh_kernels *kernels, const void *arg, size_t first, size_t n,
                         float *const *t)
{
    (void)first;
    mh_activation_kernel(kernels, *(const mh_activation *)arg)(n, t[0], t[1]);
}

mh_status mh_activate(mh_context *context, mh_activation kind, const mh_tensor *x, mh_tensor *y)
{
    mh_status status = mh_check_activation(context, kind);
    if (!status)
        status = mh_check_float(context, "x", x, -1);
    if (!status)
        status = mh_check_like(context, "y", y, "x", x);
    if (!status)
        status = MH_CHECK_OVERLAP(context, 1, MH_OPERAND(y), MH_OPERAND_IN_PLACE(x));
    if (!status)
        mh_elementwise(context, forward_part, &kind, 1, 1, (const mh_tensor *[]){x, y});
    return status;
}

// dx = dy (1 - tanh(x)^2)
static void tanh_grad(const mh_kernels *kernels, size_t n, const float *x, const float *dy,
                      float *dx)
{
    float y[MH_ELEMENTWISE_PART];
    kernels->elementwise.tanh(n, x, y);
    for (size_t i = 0; i < n; i++)
        dx[i] = dy[i] * (1 - y[i] * y[i]);
}

static void backward_part(const mh_kernels *kernels, const void *arg, size_t first, size_t n,
                          float *const *t)
{
    (void)first;
    switch (*(const mh_activation *)arg) {
    case MH_RELU:
        kernels->activation.relu_grad(n, t[0], t[1], t[2]);
        break;
    case MH_GELU:
        kernels->activation.gelu_grad(n, t[0], t[1], t[2]);
        break;
    case MH_GELU_TANH:
        kernels->activation.gelu_tanh_grad(n, t[0], t[1], t[2]);
        break;
    case MH_SILU:
        kernels->activation.silu_grad(n, t[0], t[1], t[2]);
        break;
    case MH_TANH:
        tanh_grad(kernels, n, t[0], t[1], t[2]);
        break;
    }
}

mh_status mh_activate_backward(mh_context *context, mh_activation kind, const mh_tensor *x,
                               const mh_tensor *dy, mh_tensor *dx)
{
    mh_status status = mh_check_activation(context, kind);
    if (!status)
        status = mh_check_float(context, "x", x, -1);
    if (!status)
        status = mh_check_like(context, "dy", dy, "x", x);
    if (!status)
        status = mh_check_like(context, "dx", dx, "x", x);
    if (!status)
        status = MH_CHECK_OVERLAP(context, 1, MH_OPERAND(dx), MH_OPERAND_IN_PLACE(x),
                                  MH_OPERAND_IN_PLACE(dy));
    if (!status)
        mh_elementwise(context, backward_part, &kind, 2, 1, (const mh_tensor *[]){x, dy, dx});
    return status;
}

// ---- two inputs ---------------------------------------------------------------------------------

// y = f(gate) up, in the order of mh_glu's operands.
static void glu_part(const mh_kernels *kernels, const void *arg, size_t first, size_t n,
                     float *const *t)
{
    const mh_activation kind = *(const mh_activation *)arg;
    float activated[MH_ELEMENTWISE_PART];
    (void)first;
    if (kind == MH_SILU) {
        kernels->activation.swiglu(n, t[0], t[1], t[2]);
        return;
    }
    mh_activation_kernel(kernels, kind)(n, t[0], activated);
    for (size_t i = 0; i < n; i++)
        t[2][i] = activated[i] * t[1][i];
}

mh_status mh_glu(mh_context *context, mh_activation kind, const mh_tensor *gate,
                 const mh_tensor *up, mh_tensor *y)
{
    mh_status status = mh_check_activation(context, kind);
    if (!status)
        status = mh_check_float(context, "gate", gate, -1);
    if (!status)
        status = mh_check_like(context, "up", up, "gate", gate);
    if (!status)
        status = mh_check_like(context, "y", y, "gate", gate);
    if (!status)
        status = MH_CHECK_OVERLAP(context, 1, MH_OPERAND(y), MH_OPERAND_IN_PLACE(gate),
                                  MH_OPERAND_IN_PLACE(up));
    if (!status)
        mh_elementwise(context, glu_part, &kind, 2, 1, (const mh_tensor *[]){gate, up, y});
    return status;
}

mh_status mh_swiglu(mh_context *context, const mh_tensor *gate, const mh_tensor *up, mh_tensor *y)
{
    return mh_glu(context, MH_SILU, gate, up, y);
}

// dup = dy f(gate), dgate = (dy up) f'(gate); outputs may be the inputs.
static void glu_grad_part(const mh_kernels *kernels, const void *arg, size_t first, size_t n,
                          float *const *t)
{
    const mh_activation kind = *(const mh_activation *)arg;
    float activated[MH_ELEMENTWISE_PART], product[MH_ELEMENTWISE_PART];
    if (kind == MH_SILU) {
        kernels->activation.swiglu_grad(n, t[0], t[1], t[2], t[3], t[4]);
        return;
    }
    mh_activation_kernel(kernels, kind)(n, t[0], activated);
    for (size_t i = 0; i < n; i++) {
        product[i] = t[2][i] * t[1][i];
        activated[i] = t[2][i] * activated[i];
    }
    backward_part(kernels, arg, first, n, (float *[]){t[0], product, product});
    memcpy(t[3], product, n * sizeof *product);
    memcpy(t[4], activated, n * sizeof *activated);
}

mh_status mh_glu_backward(mh_context *context, mh_activation kind, const mh_tensor *gate,
                          const mh_tensor *up, const mh_tensor *dy, mh_tensor *dgate,
                          mh_tensor *dup)
{
    const mh_tensor *operands[5] = {gate, up, dy, dgate, dup};
    static const char *const operand_names[5] = {"gate", "up", "dy", "dgate", "dup"};
    mh_status status = mh_check_activation(context, kind);
    if (!status)
        status = mh_check_float(context, "gate", gate, -1);
    for (int i = 1; i < 5 && !status; i++)
        status = mh_check_like(context, operand_names[i], operands[i], "gate", gate);
    if (!status)
        status = MH_CHECK_OVERLAP(context, 2, MH_OPERAND(dgate), MH_OPERAND(dup),
                                  {.name = "gate", .tensor = gate, .may_be = 3},
                                  {.name = "up", .tensor = up, .may_be = 3}, MH_OPERAND(dy));
    if (!status)
        mh_elementwise(context, glu_grad_part, &kind, 3, 2, operands);
    return status;
}

mh_status mh_swiglu_backward(mh_context *context, const mh_tensor *gate, const mh_tensor *up,
                             const mh_tensor *dy, mh_tensor *dgate, mh_tensor *dup)
{
    return mh_glu_backward(context, MH_SILU, gate, up, dy, dgate, dup);
}

static void activation_add_part(const mh_kernels *kernels, const void *arg, size_t first, size_t n,
                                float *const *t)
{
    (void)arg, (void)first;
    kernels->elementwise.add_rows(n, t[0], t[1], t[2]);
}

mh_status mh_add(mh_context *context, const mh_tensor *a, const mh_tensor *b, mh_tensor *y)
{
    mh_tensor wide_a, wide_b;
    mh_status status = mh_check_float(context, "a", a, -1);
    if (!status)
        status = mh_check_float(context, "b", b, -1);
    if (!status)
        status = mh_check_float(context, "y", y, -1);
    if (!status)
        status = mh_tensor_broadcast(context, a, y->rank, y->shape, &wide_a);
    if (!status)
        status = mh_tensor_broadcast(context, b, y->rank, y->shape, &wide_b);
    if (!status)
        status = MH_CHECK_OVERLAP(context, 1, MH_OPERAND(y),
                                  {.name = "a", .tensor = &wide_a, .may_be = 1},
                                  {.name = "b", .tensor = &wide_b, .may_be = 1});
    if (!status)
        mh_elementwise(context, activation_add_part, NULL, 2, 1,
                       (const mh_tensor *[]){&wide_a, &wide_b, y});
    return status;
}
