// SPDX-License-Identifier: MIT
// multihead bench attention: forward and backward over the shapes of bench/shapes/attention.txt.
// Only live query-key pairs count as work, as the library's own plan reports them.
#include "bench.h"
#include "bench_shapes.h"
#include "messages.h"

#include <multihead/attention.h>
#include <string.h>

enum { Q, K, V, OUT, DOUT, DQ, DK, DV, TENSORS };

typedef struct attention_case {
    mh_context *context;
    mh_attention_options options;
    mh_tensor tensors[TENSORS], lse;
    size_t sizes[TENSORS], lse_size;
} attention_case;

static mh_status forward_once(void *arg)
{
    attention_case *a = arg;
    return mh_attention_forward(a->context, &a->options, &a->tensors[Q], &a->tensors[K],
                                &a->tensors[V], &a->tensors[OUT]);
}

static mh_status backward_once(void *arg)
{
    attention_case *a = arg;
    mh_attention_gradients gradients = mh_attention_gradients_default();
    gradients.dq = &a->tensors[DQ];
    gradients.dk = &a->tensors[DK];
    gradients.dv = &a->tensors[DV];
    return mh_attention_backward(a->context, &a->options, &a->tensors[Q], &a->tensors[K],
                                 &a->tensors[V], &a->tensors[OUT], &a->tensors[DOUT], &gradients);
}

static int attention_set_up(const bench *b, const bench_case *c, mh_dtype dtype, attention_case *a)
{
    const size_t query[4] = {c->B, c->H, c->T, c->E}, key[4] = {c->B, c->G, c->S, c->E};
    const size_t *const shapes[TENSORS] = {[Q] = query,    [K] = key,    [V] = key,  [OUT] = query,
                                           [DOUT] = query, [DQ] = query, [DK] = key, [DV] = key};
    const uint32_t seeds[TENSORS] = {[Q] = 1, [K] = 2, [V] = 3, [DOUT] = 4};
    const int tensors = b->passes & PASS_BACKWARD ? TENSORS : OUT + 1;
    a->context = b->context;
    a->options = mh_attention_options_default();
    if (c->causal)
        a->options.causal = MH_CAUSAL_BOTTOM_RIGHT;
    int code = EXIT_DONE;
    for (int i = 0; i < tensors && code == EXIT_DONE; i++)
        code = bench_tensor(b, c, dtype, 4, shapes[i], seeds[i], &a->tensors[i], &a->sizes[i]);
    if (code == EXIT_DONE)
        code = bench_tensor(b, c, MH_F32, 3, query, 0, &a->lse, &a->lse_size);
    return code;
}

static int measure(bench *b, const bench_case *c, int pass, attention_case *a)
{
    mh_attention_plan plan = mh_attention_plan_default();
    const bool backward = pass == PASS_BACKWARD;
    a->options.lse = backward ? &a->lse : NULL;
    mh_status status = mh_attention_explain(b->context, &a->options, &a->tensors[Q], &a->tensors[K],
                                            &a->tensors[V], &a->tensors[OUT], &plan);
    if (status == MH_OK && backward)
        status = forward_once(a); // whose out and lse backward reads
    if (status != MH_OK)
        return complain_status(b->context, status, c->name);
    bench_result result = {.suite = &attention_suite,
                           .of = c,
                           .dtype = a->tensors[Q].dtype,
                           .pass = backward ? "backward" : "forward",
                           .flops = plan.flops * (backward ? 2.5 : 1)};
    for (int i = 0; i < (backward ? TENSORS : OUT + 1); i++)
        result.bytes += (double)a->sizes[i];
    return bench_measure(b, backward ? backward_once : forward_once, a, &result);
}

static int attention_run_case(bench *b, const bench_case *c, mh_dtype dtype)
{
    attention_case a;
    memset(&a, 0, sizeof a);
    int code = attention_set_up(b, c, dtype, &a);
    if (code == EXIT_DONE && b->passes & PASS_FORWARD)
        code = measure(b, c, PASS_FORWARD, &a);
    if (code == EXIT_DONE && b->passes & PASS_BACKWARD)
        code = measure(b, c, PASS_BACKWARD, &a);
    for (int i = 0; i < TENSORS; i++)
        mh_free(b->context, a.tensors[i].data, a.sizes[i]);
    mh_free(b->context, a.lse.data, a.lse_size);
    return code;
}

static double attention_flops(const bench_case *c)
{
    return (c->causal ? 2 : 4) * (double)(c->B * c->H) * (double)(c->T * c->S) * (double)c->E;
}

const suite attention_suite = {
    .name = "attention",
    .shapes = attention_shapes,
    .sizes = 6,
    .form = "B,H,G,T,S,E",
    .word = "causal",
    .limit = "FMA peak measured meanwhile",
    .passes = PASS_FORWARD | PASS_BACKWARD,
    .flops = attention_flops,
    .run = attention_run_case,
};
