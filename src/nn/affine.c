// SPDX-License-Identifier: MIT
// Views of the parameters for mh_linear and its backward.
#include "nn/affine.h"
#include "base/compiler.h"
#include "ops/gemm/gemm_internal.h"

static mh_tensor weight_view(const float *values, const mh_affine *affine, size_t N, size_t K)
{
    return mh_tensor_2d((float *)values + affine->weight, MH_F32, N, K);
}

mh_status mh_affine_forward(mh_context *context, const mh_affine *affine, const mh_pass *pass,
                            const mh_linear_options *options, const mh_tensor *x, mh_tensor *y)
{
    const size_t N = y->shape[1];
    const mh_tensor bias = mh_tensor_1d((float *)pass->values + affine->bias, MH_F32, N);
    mh_linear_options o = options ? *options : mh_linear_options_default();
    o.precision = affine->precision;
    if (affine->bias != MH_NO_PARAMETER)
        o.bias = &bias;
    MH_TRY(mh_packed_weight(context, pass->packed, affine->slot, &o.packed));
    if (o.packed)
        return mh_linear(context, &o, x, NULL, y);
    const mh_tensor weight = weight_view(pass->values, affine, N, x->shape[1]);
    return mh_linear(context, &o, x, &weight, y);
}

mh_status mh_affine_backward(mh_context *context, const mh_affine *affine, const mh_pass *pass,
                             const mh_linear_options *options, const mh_tensor *relu_output,
                             const mh_tensor *x, const mh_tensor *dy, mh_tensor *dx)
{
    const size_t N = dy->shape[1], K = x->shape[1];
    const mh_tensor weight = weight_view(pass->values, affine, N, K);
    mh_linear_options o = options ? *options : mh_linear_options_default();
    o.precision = affine->precision;
    if (dx->data) { // dy W, as another linear layer
        const mh_tensor transposed = mh_tensor_swap(weight, 0, 1);
        MH_TRY(mh_linear_masked(context, &o, relu_output, dy, &transposed, dx));
    }
    if (!pass->gradients)
        return MH_OK;
    const bool biased = affine->bias != MH_NO_PARAMETER;
    mh_tensor dweight = weight_view(pass->gradients, affine, N, K);
    mh_tensor dbias = mh_tensor_1d(pass->gradients + affine->bias, MH_F32, N);
    o = mh_linear_options_default();
    o.precision = affine->precision;
    o.accumulate = !pass->overwrite;
    return mh_linear_backward(context, &o, x, &weight, dy, NULL, &dweight, biased ? &dbias : NULL);
}
