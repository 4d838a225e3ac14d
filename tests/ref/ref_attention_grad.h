// SPDX-License-Identifier: MIT
// What mh_attention_backward computes, naively and in double: the chain rule, one query-key pair
// at a time, on top of what ref_attention_forward has kept. test_gradcheck proves it by central
// differences of that forward.
//
// Gradients are dense, in C order, and in the shape of what they belong to; rows of packed
// sequences are where they are in q, k, v.
#ifndef MH_TESTS_REF_ATTENTION_GRAD_H
#define MH_TESTS_REF_ATTENTION_GRAD_H

#include <multihead/attention.h>

// One gradient, and how large an error rounding to f32 on the way may make, to first order.
typedef struct ref_gradient {
    size_t count;
    double *value, *error;
    double *squares; // of the partial sums of each value: its walk
    double *terms;   // squares of what was added, for the rounding of operands
} ref_gradient;

typedef struct ref_attention_grad {
    ref_gradient dq, dk, dv; // (B, H, T, E), (B, G, S, E), (B, G, S, Ev)
    size_t mask_count;
    ref_gradient *dmasks; // one a mask; count 0 unless it is MH_MASK_ADD
    ref_gradient dsinks;  // (H); count 0 without sinks
} ref_attention_grad;

// Takes what mh_attention_backward takes, valid arguments only; of `out` only the dtype that
// forward has rounded it to, which is where an error of the gradients begins. Fills `result`,
// which the caller frees with ref_attention_grad_free.
void ref_attention_backward(const mh_attention_options *options, const mh_tensor *q,
                            const mh_tensor *k, const mh_tensor *v, mh_dtype out_dtype,
                            const mh_tensor *dout, ref_attention_grad *result);
void ref_attention_grad_free(ref_attention_grad *result);

// The plain f32 loops for one head, forward and backward, all dense: q (T, E), k (S, E),
// v (S, Ev), dout (T, Ev) to dq, dk, dv. Only the yardstick for errors.
void ref_attention_backward_f32(size_t T, size_t S, size_t E, size_t Ev, float scale,
                                const float *q, const float *k, const float *v, const float *dout,
                                float *dq, float *dk, float *dv);

#endif
