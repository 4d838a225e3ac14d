// SPDX-License-Identifier: MIT
// See grad_fixture.h.
#include "grad_fixture.h"
#include "ref/ref_tensor.h"

#include <math.h>

// ---- comparing one gradient with the reference ------------------------------------------------

static void judge(grad_verdict *v, const char *what, const mh_tensor *t,
                  const ref_gradient *expected)
{
    size_t index[MH_MAX_RANK] = {0}, n = 0;
    if (!t || !ref_count(t))
        return;
    do {
        double found = ref_get(t, index), value = expected->value[n];
        bool overflows = t->dtype == MH_F16 && fabs(value) > 65000; // whether it does is a detail
        double ratio = overflows ? 0 : test_error_ratio(found, value, expected->error[n], t->dtype);
        if (ratio > v->worst)
            *v = (grad_verdict){ratio, what, n, found, value};
        n++;
    } while (ref_next(t, index));
}

grad_verdict grad_judge(const mh_attention_gradients *g, const ref_attention_grad *ref)
{
    grad_verdict v = {0};
    judge(&v, "dq", g->dq, &ref->dq);
    judge(&v, "dk", g->dk, &ref->dk);
    judge(&v, "dv", g->dv, &ref->dv);
    judge(&v, "dsinks", g->dsinks, &ref->dsinks);
    for (size_t m = 0; g->dmasks && m < ref->mask_count; m++)
        judge(&v, "dmasks", g->dmasks[m], &ref->dmasks[m]);
    return v;
}

// ---- one head ---------------------------------------------------------------------------------

void grad_fill(grad_fixture *f, uint64_t seed)
{
    test_rng rng = {seed};
    test_fill_normal(&rng, &f->q.view, 1);
    test_fill_normal(&rng, &f->k.view, 1);
    test_fill_normal(&rng, &f->v.view, 1);
    test_fill_normal(&rng, &f->dout.view, 1);
}

grad_fixture grad_setup(mh_context *context, mh_dtype dtype, size_t T, size_t S, size_t width)
{
    grad_fixture f = {.context = context, .options = mh_attention_options_default()};
    f.gradients = mh_attention_gradients_default();
    const size_t queries[4] = {1, 1, T, width}, keys[4] = {1, 1, S, width};
    test_tensor *query_shaped[] = {&f.q, &f.out, &f.dout, &f.dq};
    test_tensor *key_shaped[] = {&f.k, &f.v, &f.dk, &f.dv};
    for (size_t i = 0; i < 4; i++) {
        *query_shaped[i] = test_tensor_dense(dtype, 4, queries);
        *key_shaped[i] = test_tensor_dense(dtype, 4, keys);
    }
    f.lse = test_tensor_dense(MH_F32, 3, queries);
    grad_fill(&f, 7 + T + width);
    return f;
}

void grad_teardown(grad_fixture *f)
{
    test_tensor *all[] = {&f->q, &f->k, &f->v, &f->out, &f->lse, &f->dout, &f->dq, &f->dk, &f->dv};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        test_tensor_free(all[i]);
}

mh_status grad_backward(grad_fixture *f)
{
    return mh_attention_backward(f->context, &f->options, &f->q.view, &f->k.view, &f->v.view,
                                 &f->out.view, &f->dout.view, &f->gradients);
}

void grad_connect(grad_fixture *f)
{
    f->options.lse = &f->lse.view;
    f->gradients.dq = &f->dq.view;
    f->gradients.dk = &f->dk.view;
    f->gradients.dv = &f->dv.view;
}

void grad_run(grad_fixture *f)
{
    grad_connect(f);
    test_ok(f->context, mh_attention_forward(f->context, &f->options, &f->q.view, &f->k.view,
                                             &f->v.view, &f->out.view));
    test_ok(f->context, grad_backward(f));
    assert_true(test_guards_intact(&f->dq) && test_guards_intact(&f->dk) &&
                test_guards_intact(&f->dv));
}

ref_attention_grad grad_reference(const grad_fixture *f)
{
    ref_attention_grad ref;
    ref_attention_backward(&f->options, &f->q.view, &f->k.view, &f->v.view, f->out.view.dtype,
                           &f->dout.view, &ref);
    return ref;
}

void grad_agrees(grad_fixture *f)
{
    grad_run(f);
    ref_attention_grad ref = grad_reference(f);
    grad_verdict v = grad_judge(&f->gradients, &ref);
    if (v.worst > 1)
        fail_msg("%s %s: %s[%zu]: found %.9g, expected %.9g, %.3g x the bound",
                 mh_context_isa(f->context), mh_dtype_name(f->q.view.dtype), v.what, v.element,
                 v.found, v.expected, v.worst);
    ref_attention_grad_free(&ref);
}
