// SPDX-License-Identifier: MIT
// Factors that are folded into the weights of the blocks, which have no place for them:
//
//     x + s f(x), a scale per branch    rows of out_proj and linear2 are multiplied by s
//     f(a x) / a, quick GELU            linear1 is multiplied by a, linear2's matrix by 1 / a
#include "base/compiler.h"
#include "model/model_internal.h"
#include <stdio.h>
#include <string.h>

// Whether the name is "...stem.weight" or "...stem.bias"; `begin` is then the size of what is
// before the stem.
static bool is_of(const char *name, const char *stem, size_t *begin)
{
    const char *at = strstr(name, stem);
    if (!at || at[strlen(stem)] != '.')
        return false;
    *begin = (size_t)(at - name);
    return true;
}

bool mh_weights_are_scaled(const mh_weight_source *source, const char *name)
{
    size_t begin;
    const bool out = is_of(name, "self_attn.out_proj", &begin);
    const bool first = is_of(name, "linear1", &begin), second = is_of(name, "linear2", &begin);
    return (source->layer_scale && (out || second)) ||
           (source->activation_scale != 1 && (first || second));
}

static void scale_rows(const mh_tensor *t, const float *factors, float factor)
{
    const size_t columns = t->rank == 2 ? t->shape[1] : 1;
    float *values = t->data;
    for (size_t i = 0; i < t->shape[0]; i++)
        for (size_t j = 0; j < columns; j++)
            values[i * columns + j] *= factors ? factors[i] : factor;
}

static mh_status scale_branch(const mh_weight_source *source, const char *name, size_t begin,
                              const char *scale, const mh_tensor *t)
{
    const size_t rows = t->shape[0];
    char parameter[512];
    float *factors = mh_alloc(source->context, rows * sizeof *factors);
    if (!factors)
        return MH_ERROR_MEMORY;
    mh_tensor vector = mh_tensor_1d(factors, MH_F32, rows);
    snprintf(parameter, sizeof parameter, "%.*s%s", (int)begin, name, scale);
    mh_status status = mh_weights_copy(source, parameter, &vector);
    if (!status)
        scale_rows(t, factors, 1);
    mh_free(source->context, factors, rows * sizeof *factors);
    return status;
}

mh_status mh_weights_scale(const mh_weight_source *source, const char *name, const mh_tensor *t)
{
    size_t begin;
    if (is_of(name, "linear1", &begin))
        scale_rows(t, NULL, source->activation_scale);
    else if (is_of(name, "linear2", &begin) && t->rank == 2)
        scale_rows(t, NULL, 1 / source->activation_scale);
    if (!source->layer_scale)
        return MH_OK;
    if (is_of(name, "self_attn.out_proj", &begin))
        return scale_branch(source, name, begin, "scale1", t);
    return is_of(name, "linear2", &begin) ? scale_branch(source, name, begin, "scale2", t) : MH_OK;
}
