// SPDX-License-Identifier: MIT
// Views of the parameters for mh_linear and its backward.
#include "nn/affine.h"

static mh_tensor view(const float *values, ptrdiff_t offset, size_t rows, size_t columns)
{
    return mh_tensor_2d((float *)values + offset, MH_F32, rows, columns);
}

mh_status mh_affine_forward(mh_context *context, const mh_affine *affine, const float *parameters,
                            const mh_linear_options *options, const mh_tensor *x, mh_tensor *y)
{
    const size_t N = y->shape[1];
    const mh_tensor weight = view(parameters, affine->weight, N, x->shape[1]);
    mh_linear_options o = options ? *options : mh_linear_options_default();
    mh_tensor bias;
    o.precision = affine->precision;
    if (affine->bias != MH_NO_PARAMETER) {
        bias = mh_tensor_1d((float *)parameters + affine->bias, MH_F32, N);
        o.bias = &bias;
    }
    return mh_linear(context, &o, x, o.packed ? NULL : &weight, y);
}

mh_status mh_affine_backward(mh_context *context, const mh_affine *affine, const float *parameters,
                             const mh_linear_options *options, const mh_tensor *x,
                             const mh_tensor *dy, float *gradients, bool fresh, mh_tensor *dx)
{
    const size_t N = dy->shape[1], K = x->shape[1];
    const mh_tensor weight = view(parameters, affine->weight, N, K);
    mh_linear_options o = options ? *options : mh_linear_options_default();
    o.precision = affine->precision;
    mh_status status = MH_OK;
    if (dx->data) { // dy W, as another linear layer
        const mh_tensor transposed = mh_tensor_swap(weight, 0, 1);
        status = mh_linear(context, &o, dy, &transposed, dx);
    }
    if (status || !gradients)
        return status;
    mh_tensor dweight = view(gradients, affine->weight, N, K);
    mh_tensor dbias;
    if (affine->bias != MH_NO_PARAMETER)
        dbias = mh_tensor_1d(gradients + affine->bias, MH_F32, N);
    o = mh_linear_options_default();
    o.precision = affine->precision;
    o.accumulate = !fresh;
    return mh_linear_backward(context, &o, x, &weight, dy, NULL, &dweight,
                              affine->bias == MH_NO_PARAMETER ? NULL : &dbias);
}
