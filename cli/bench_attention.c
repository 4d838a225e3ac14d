// SPDX-License-Identifier: MIT
// multihead bench attention: forward and backward over the shapes of bench/shapes/attention.txt.
// The work counted is that of live query-key pairs only, as the library's own plan says.
#include "arrays.h"
#include "bench.h"
#include "bench_shapes.h"
#include "messages.h"
#include "progress.h"

#include <multihead/attention.h>
#include <string.h>

enum { MOST_CASES = 64 };

// ---- the list of cases --------------------------------------------------------------------

static bool read_case(const char *line, bench_case *c)
{
    char mask[16];
    int fields = sscanf(line, "%31s %zu %zu %zu %zu %zu %zu %15s", c->name, &c->B, &c->H, &c->G,
                        &c->T, &c->S, &c->E, mask);
    c->causal = fields == 8 && strcmp(mask, "causal") == 0;
    return fields == 8 && c->name[0] != '#';
}

static size_t list_cases(const bench *b, bench_case *cases)
{
    size_t count = 0;
    for (size_t i = 0; i < b->shape_count; i++)
        cases[count++] = b->shapes[i];
    if (count)
        return count;
    const char *line = attention_shapes;
    for (; *line && count < MOST_CASES; line += strcspn(line, "\n") + 1) {
        bool listed = read_case(line, &cases[count]);
        if (listed && (!b->filter || strstr(cases[count].name, b->filter)))
            count++;
    }
    return count;
}

static int no_such_case(const bench *b)
{
    bench_case c;
    char names[1024] = "";
    for (const char *line = attention_shapes; *line; line += strcspn(line, "\n") + 1) {
        size_t used = strlen(names);
        if (read_case(line, &c))
            snprintf(names + used, sizeof names - used, " %s", c.name);
    }
    complain("--case: found '%s', expected a part of one of:%s", b->filter, names);
    return EXIT_USAGE;
}

// ---- one case -----------------------------------------------------------------------------

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

// Numbers of [-1, 1) from a multiplicative generator: any will do, as long as they are not
// all the same.
static float next_number(uint32_t *state)
{
    *state = *state * 1664525u + 1013904223u;
    return (float)(*state >> 8) / 8388608.0f - 1.0f;
}

// Converts row by row, so that no second copy of everything is needed.
static mh_status fill(mh_context *context, const mh_tensor *t, uint32_t seed)
{
    enum { ROW = 256 };
    float row[ROW];
    size_t count = mh_tensor_count(t), width = mh_dtype_size(t->dtype);
    for (size_t at = 0; at < count; at += ROW) {
        size_t n = count - at < ROW ? count - at : ROW;
        for (size_t i = 0; i < n; i++)
            row[i] = next_number(&seed);
        mh_tensor from = mh_tensor_1d(row, MH_F32, n);
        mh_tensor to = mh_tensor_1d((char *)t->data + at * width, t->dtype, n);
        mh_status status = mh_tensor_copy(context, &from, &to);
        if (status != MH_OK)
            return status;
    }
    return MH_OK;
}

static int set_up(const bench *b, const bench_case *c, attention_case *a)
{
    const size_t query[4] = {c->B, c->H, c->T, c->E}, key[4] = {c->B, c->G, c->S, c->E};
    const size_t *const shapes[TENSORS] = {[Q] = query,    [K] = key,    [V] = key,  [OUT] = query,
                                           [DOUT] = query, [DQ] = query, [DK] = key, [DV] = key};
    const int tensors = b->pass == PASS_FORWARD ? OUT + 1 : TENSORS;
    a->context = b->context;
    a->options = mh_attention_options_default();
    if (c->causal)
        a->options.causal = MH_CAUSAL_BOTTOM_RIGHT;
    for (int i = 0; i < tensors; i++) {
        int code = array_allocate(b->context, c->name, b->dtype, 4, shapes[i], &a->tensors[i],
                                  &a->sizes[i]);
        if (code != EXIT_DONE)
            return code;
        mh_status status = fill(b->context, &a->tensors[i], (uint32_t)i + 1);
        if (status != MH_OK)
            return complain_status(b->context, status, c->name);
    }
    return array_allocate(b->context, c->name, MH_F32, 3, query, &a->lse, &a->lse_size);
}

static int measure(const bench *b, const bench_case *c, bench_pass pass, attention_case *a)
{
    mh_attention_plan plan;
    const bool backward = pass == PASS_BACKWARD;
    a->options.lse = backward ? &a->lse : NULL;
    mh_status status = mh_attention_explain(b->context, &a->options, &a->tensors[Q], &a->tensors[K],
                                            &a->tensors[V], &a->tensors[OUT], &plan);
    if (status == MH_OK && backward)
        status = forward_once(a); // whose out and lse backward reads
    bench_result result = {.of = c,
                           .pass = backward ? "backward" : "forward",
                           .flops = plan.flops * (backward ? 2.5 : 1)};
    for (int i = 0; i < (backward ? TENSORS : OUT + 1); i++)
        result.bytes += (double)a->sizes[i];
    if (status == MH_OK)
        status = bench_measure(b, backward ? backward_once : forward_once, a, &result);
    progress_clear();
    if (status != MH_OK)
        return complain_status(b->context, status, c->name);
    bench_print_result(b, &result);
    return EXIT_DONE;
}

static int run_case(const bench *b, const bench_case *c)
{
    attention_case a;
    memset(&a, 0, sizeof a);
    int code = set_up(b, c, &a);
    if (code == EXIT_DONE && b->pass != PASS_BACKWARD)
        code = measure(b, c, PASS_FORWARD, &a);
    if (code == EXIT_DONE && b->pass != PASS_FORWARD)
        code = measure(b, c, PASS_BACKWARD, &a);
    for (int i = 0; i < TENSORS; i++)
        mh_free(b->context, a.tensors[i].data, a.sizes[i]);
    mh_free(b->context, a.lse.data, a.lse_size);
    return code;
}

static int run_attention(bench *b)
{
    bench_case cases[MOST_CASES];
    size_t count = list_cases(b, cases);
    if (count == 0)
        return no_such_case(b);
    int code = EXIT_DONE;
    bench_print_heading(b);
    for (size_t i = 0; i < count && code == EXIT_DONE; i++) {
        progress_show(i, count, cases[i].name);
        code = run_case(b, &cases[i]);
    }
    progress_clear();
    return code;
}

const suite attention_suite = {
    .name = "attention",
    .summary = "forward and backward over shapes of well-known models",
    .run = run_attention,
};
