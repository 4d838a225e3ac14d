// SPDX-License-Identifier: MIT
// Layer norm and RMS norm with parameters.
#include "nn/norm_layer.h"
#include <stdio.h>

mh_norm_layer mh_norm_layer_declare(mh_parameter_list *list, const mh_block_config *config,
                                    const char *prefix, const char *name)
{
    char weight[32], bias[32];
    snprintf(weight, sizeof weight, "%s.weight", name);
    snprintf(bias, sizeof bias, "%s.bias", name);
    mh_norm_layer norm = {config->norm, config->norm_eps, MH_NO_PARAMETER, MH_NO_PARAMETER};
    norm.weight = mh_declare_vector(list, prefix, weight, config->d_model, MH_INIT_ONE, 0);
    if (config->norm == MH_NORM_LAYER && config->norm_bias)
        norm.bias = mh_declare_vector(list, prefix, bias, config->d_model, MH_INIT_ZERO, 0);
    return norm;
}

static mh_tensor vector(const float *values, ptrdiff_t offset, size_t n)
{
    return mh_tensor_1d(values ? (float *)values + offset : NULL, MH_F32, n);
}

mh_status mh_norm_layer_forward(mh_context *context, const mh_norm_layer *norm, const mh_pass *pass,
                                const mh_tensor *x, mh_tensor *y, float *mean, float *rstd)
{
    const size_t rows = x->shape[0], D = x->shape[1];
    const mh_tensor w = vector(pass->values, norm->weight, D);
    const mh_tensor b = vector(pass->values, norm->bias, D);
    mh_tensor means = vector(mean, 0, rows), rstds = vector(rstd, 0, rows);
    if (norm->kind == MH_NORM_RMS)
        return mh_rms_norm(context, x, &w, norm->eps, y, &rstds);
    return mh_layer_norm(context, x, &w, norm->bias == MH_NO_PARAMETER ? NULL : &b, norm->eps, y,
                         &means, &rstds);
}

mh_status mh_norm_layer_backward(mh_context *context, const mh_norm_layer *norm,
                                 const mh_pass *pass, const mh_tensor *x, const float *mean,
                                 const float *rstd, const mh_tensor *dy, mh_tensor *dx)
{
    const size_t rows = x->shape[0], D = x->shape[1];
    float *gradients = pass->gradients;
    const mh_tensor w = vector(pass->values, norm->weight, D);
    const mh_tensor means = vector(mean, 0, rows), rstds = vector(rstd, 0, rows);
    mh_tensor dw = vector(gradients, norm->weight, D), db = vector(gradients, norm->bias, D);
    mh_tensor *dweight = gradients ? &dw : NULL;
    if (norm->kind == MH_NORM_RMS)
        return mh_rms_norm_backward(context, x, &w, &rstds, dy, dx, dweight, !pass->overwrite);
    return mh_layer_norm_backward(context, x, &w, &means, &rstds, dy, dx, dweight,
                                  gradients && norm->bias != MH_NO_PARAMETER ? &db : NULL,
                                  !pass->overwrite);
}
