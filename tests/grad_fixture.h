// SPDX-License-Identifier: MIT
// One head's forward and backward call for tests of gradients, and the comparison of gradients with
// the double reference.
#ifndef MH_TESTS_GRAD_FIXTURE_H
#define MH_TESTS_GRAD_FIXTURE_H

#include "ref/ref_attention_grad.h"
#include "support.h"

typedef struct grad_verdict {
    double worst; // largest error / bound
    const char *what;
    size_t element; // in C order
    double found, expected;
} grad_verdict;

// The worst of all gradients that are there.
grad_verdict grad_judge(const mh_attention_gradients *g, const ref_attention_grad *ref);

// A call for one head, dense; every gradient but dmasks and dsinks.
typedef struct grad_fixture {
    mh_context *context;
    mh_attention_options options;
    mh_attention_gradients gradients;
    test_tensor q, k, v, out, lse, dout, dq, dk, dv;
} grad_fixture;

grad_fixture grad_setup(mh_context *context, mh_dtype dtype, size_t T, size_t S, size_t width);
void grad_teardown(grad_fixture *f);
void grad_fill(grad_fixture *f, uint64_t seed); // other random inputs

// Points options and gradients to the fixture's own views: it is returned by value.
void grad_connect(grad_fixture *f);

mh_status grad_backward(grad_fixture *f);
void grad_run(grad_fixture *f); // forward and backward, both of which must succeed

ref_attention_grad grad_reference(const grad_fixture *f);
void grad_agrees(grad_fixture *f); // runs, and fails the test unless it agrees with the reference

#endif
