// SPDX-License-Identifier: MIT
// The helpers for tests of modules; see nn_support.h.
#include "nn_support.h"

#include "ref/ref_tensor.h"

#include <math.h>

mh_mha_config nn_mha_config(size_t embed_dim, size_t num_heads)
{
    mh_mha_config c = mh_mha_config_default();
    c.embed_dim = embed_dim;
    c.num_heads = num_heads;
    return c;
}

mh_transformer_config nn_transformer_config(mh_transformer_kind kind, size_t d_model, size_t nhead,
                                            size_t dim_feedforward, size_t layers)
{
    mh_transformer_config c = mh_transformer_config_default();
    c.kind = kind;
    c.d_model = d_model;
    c.nhead = nhead;
    c.dim_feedforward = dim_feedforward;
    c.num_encoder_layers = c.num_decoder_layers = layers;
    return c;
}

mh_mha *nn_mha(mh_context *context, const mh_mha_config *config, uint64_t seed)
{
    mh_mha *mha;
    test_ok(context, mh_mha_create(context, config, &mha));
    nn_randomise(mh_mha_parameters(mha), seed);
    return mha;
}

mh_transformer *nn_transformer(mh_context *context, const mh_transformer_config *config,
                               uint64_t seed)
{
    mh_transformer *t;
    test_ok(context, mh_transformer_create(context, config, &t));
    nn_randomise(mh_transformer_parameters(t), seed);
    return t;
}

float *nn_floats(uint64_t seed, size_t n)
{
    test_rng rng = {seed};
    float *x = ref_alloc(n, sizeof *x);
    for (size_t i = 0; i < n; i++)
        x[i] = (float)test_normal(&rng);
    return x;
}

void nn_randomise(const mh_parameters *parameters, uint64_t seed)
{
    test_rng rng = {seed};
    mh_parameters_init(parameters, seed);
    for (size_t i = 0; i < parameters->count; i++) {
        const mh_parameter *p = &parameters->list[i];
        for (size_t n = 0; n < p->count && p->rank == 1; n++)
            parameters->values[p->offset + n] += (float)(0.3 * test_normal(&rng));
    }
}

test_tensor nn_tensor(test_rng *rng, mh_dtype dtype, bool batch_first, bool unbatched, size_t B,
                      size_t T, size_t D, bool plain)
{
    const size_t shape[3] = {batch_first ? B : T, batch_first ? T : B, D}, alone[2] = {T, D};
    const int rank = unbatched ? 2 : 3;
    const size_t *s = unbatched ? alone : shape;
    test_tensor t =
        plain ? test_tensor_dense(dtype, rank, s) : test_tensor_random(rng, dtype, rank, s, false);
    test_fill_normal(rng, &t.view, 1);
    return t;
}

mh_tensor nn_batch_view(const mh_tensor *t, bool batch_first)
{
    mh_tensor view = *t;
    if (t->rank == 2) {
        view = mh_tensor_3d(t->data, t->dtype, 1, t->shape[0], t->shape[1]);
        view.stride[1] = t->stride[0];
        view.stride[2] = t->stride[1];
        return view;
    }
    return batch_first ? view : mh_tensor_swap(view, 0, 1);
}

double *nn_load(const mh_tensor *t, bool batch_first)
{
    const mh_tensor view = nn_batch_view(t, batch_first);
    return ref_load(&view);
}

double nn_distance(const mh_tensor *t, bool batch_first, const double *expected)
{
    const mh_tensor view = nn_batch_view(t, batch_first);
    double *found = ref_load(&view), worst = 0, largest = 0;
    for (size_t i = 0; i < ref_count(&view); i++) {
        const double error = fabs(found[i] - expected[i]) - test_rounding(t->dtype, expected[i]);
        worst = isnan(error)
                    ? INFINITY
                    : fmax(worst, t->dtype == MH_F32 ? fabs(found[i] - expected[i]) : error);
        largest = fmax(largest, fabs(expected[i]));
    }
    free(found);
    return worst / (largest + 0.1);
}

double nn_distance_floats(size_t n, const float *found, const double *expected)
{
    const mh_tensor t = mh_tensor_3d((float *)found, MH_F32, 1, 1, n);
    return nn_distance(&t, true, expected);
}

void nn_same_bits(const char *what, size_t n, const float *a, const float *b)
{
    for (size_t i = 0; i < n; i++)
        if (memcmp(&a[i], &b[i], sizeof *a) != 0)
            fail_msg("%s: number %zu of %zu differs: %.9g and %.9g", what, i, n, (double)a[i],
                     (double)b[i]);
}
