// SPDX-License-Identifier: MIT
// Linear layers and multi-head attention as modules, naively and in double, forward and backward:
// the formula of the paper over ref_attention. Inputs are dense and batch first. Proven by central
// differences in test_transformer_gradcheck.
#ifndef MH_TESTS_REF_MHA_H
#define MH_TESTS_REF_MHA_H

#include <multihead/nn.h>

// A module's parameters in double, found by name; gradients are added to.
typedef struct ref_parameters {
    const mh_parameters *list; // names and places; its values are not read
    const double *values;      // (floats)
    double *gradients;         // (floats)
    const char *prefix;        // of names: "layers.0."
} ref_parameters;

// The first element of the parameter prefix + name in `numbers`, NULL if there is no such one.
double *ref_parameter(const ref_parameters *p, const double *numbers, const char *name);

// y (rows, N) = x (rows, K) W^T + b; bias may be absent. The backward adds to dx unless NULL.
void ref_linear(const ref_parameters *p, const char *weight, const char *bias, size_t rows,
                size_t K, size_t N, const double *x, double *y);
void ref_linear_backward(const ref_parameters *p, const char *weight, const char *bias, size_t rows,
                         size_t K, size_t N, const double *x, const double *dy, double *dx);

typedef struct ref_mha {
    mh_mha_config config; // as the module was made with
    size_t B, T, S;
    const double *query, *key, *value; // (B, T, input_dim), (B, S, kdim), (B, S, vdim)
    const mh_tensor *key_padding_mask; // as in mh_mha_options
    const mh_tensor *attn_mask;
    bool causal; // query i sees keys 0..i
    int64_t first;
    bool training;
    uint64_t seed;        // of the engine's dropout
    const bool *disabled; // (H) heads whose result is 0, or NULL
} ref_mha;

// out (B, T, D); weights (B, H, T, S') after dropout, or NULL.
void ref_mha_forward(const ref_parameters *p, const ref_mha *call, double *out, double *weights);

// Adds to dquery, dkey, dvalue, each shaped as what it belongs to, and to the gradients.
void ref_mha_backward(const ref_parameters *p, const ref_mha *call, const double *dout,
                      double *dquery, double *dkey, double *dvalue);

#endif
