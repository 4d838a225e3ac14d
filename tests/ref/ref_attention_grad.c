// SPDX-License-Identifier: MIT
// The gradients of attention as the chain rule says, in double. With w_ij = factor_ij p_ij, the
// weights after dropout, and o_i = sum_j w_ij v_j:
//
//     D_i    = sum_e dout_ie o_ie                   = sum_j p_ij dp_ij
//     dp_ij  = factor_ij sum_e dout_ie v_je
//     ds_ij  = p_ij (dp_ij - D_i)                   also the bias's, summed over its broadcasts
//     dqk_ij = ds_ij (1 - tanh^2)                   if there is a softcap
//     dq_i   = scale sum_j dqk_ij k_j               dk_j = scale sum_i dqk_ij q_i
//     dv_j   = sum_i w_ij dout_i                    (dk, dv over all heads of the group)
//     dsink_h = - sum_i exp(sink_h - lse_i) D_i     over all sequences
//
// Only live pairs are looked at: dead keys and rows without live keys get 0, and pass nothing on.
//
// Errors are estimated as in ref_attention_error.c: a sum's roundings walk at random, everything
// else adds up the way of the formula. What backward recomputes has forward's errors; p is
// exp(s - lse), so that it has those of both; D has the rounding of `out` to its dtype.
#include "ref/ref_attention_grad.h"

#include "ref/ref_attention.h"
#include "ref/ref_tensor.h"

#include <stdlib.h>

static const double unit = 0x1p-24;
static const double underflow = 0x1p-120; // weights below may be flushed to 0

enum { WALK = 4 }; // as in ref_attention_error.c

typedef struct problem {
    const mh_attention_options *options;
    size_t H, G, E, Ev;
    size_t q_rows, k_rows;    // rows per head in memory
    double *q, *k, *v, *dout; // (B, H, q_rows, E), (B, G, k_rows, E), (B, G, k_rows, Ev), as out
    double scale;
    double rounding;            // of operands
    double out_unit, out_least; // rounding of `out`: relative, and of denormals
    ref_attention forward;
} problem;

// Where things are: sequence n, head h, query i.
typedef struct place {
    size_t n, h, i;
    size_t query;      // row of q and dout
    size_t key, width; // first row of k and v; keys
    size_t row;        // in the (N, H, T) results of forward
} place;

// ---- sums with their errors ---------------------------------------------------------------------

static ref_gradient gradient_create(size_t count)
{
    return (ref_gradient){count, ref_alloc(count, sizeof(double)), ref_alloc(count, sizeof(double)),
                          ref_alloc(count, sizeof(double)), ref_alloc(count, sizeof(double))};
}

static void gradient_free(ref_gradient *g)
{
    free(g->value);
    free(g->error);
    free(g->squares);
    free(g->terms);
}

static void add(ref_gradient *g, size_t index, double term, double error)
{
    g->value[index] += term;
    g->squares[index] += g->value[index] * g->value[index];
    g->terms[index] += term * term;
    g->error[index] += error;
}

static void finish(ref_gradient *g, double rounding)
{
    for (size_t n = 0; n < g->count; n++)
        g->error[n] += unit * (WALK * sqrt(g->squares[n]) + fabs(g->value[n])) +
                       4 * rounding * sqrt(g->terms[n]); // both operands may be rounded
}

// ---- one row ------------------------------------------------------------------------------------

typedef struct row {
    double D, D_error;
} row;

// D = sum_e dout_e o_e. The rounding of `out` to its dtype is about 0.4 of the largest one: taken
// ten times, of which five were seen.
static row row_gemm(const problem *p, const place *at)
{
    const double *dout = p->dout + at->query * p->Ev, *out = p->forward.out + at->row * p->Ev;
    const double *out_error = p->forward.out_error + at->row * p->Ev;
    double walk, squares = 0, D = ref_dot(p->Ev, dout, out, &walk);
    for (size_t e = 0; e < p->Ev; e++) {
        double rounding = p->out_unit * fabs(out[e]) + p->out_least;
        double error = dout[e] * (out_error[e] + 4 * rounding);
        squares += error * error;
    }
    double shared = p->forward.lse_error[at->row] * fabs(D);
    return (row){D, sqrt(squares) + shared + unit * (WALK * walk + fabs(D))};
}

static void add_sink(const problem *p, const place *at, const row *r, ref_gradient *dsinks)
{
    double lse = p->forward.lse[at->row], sink = (double)p->options->sinks[at->h];
    double share = exp(sink - lse);
    double relative =
        expm1(p->forward.lse_error[at->row] + unit * (2 + 2 * fabs(sink - lse))) + 2 * unit;
    add(dsinks, at->h, -share * r->D, share * (relative * fabs(r->D) + r->D_error));
}

// ---- one pair -----------------------------------------------------------------------------------

typedef struct pair {
    double w, w_error;     // after dropout
    double ds, ds_error;   // after softcap and bias
    double dqk, dqk_error; // before
} pair;

// The error of p = exp(s - lse)
static double weight_error(const problem *p, const place *at, size_t index)
{
    double weight = p->forward.weights[MH_WEIGHTS_SOFTMAX][index];
    double score_error = p->forward.weights_error[MH_WEIGHTS_BIASED][index];
    double s = p->forward.weights[MH_WEIGHTS_BIASED][index], lse = p->forward.lse[at->row];
    if (!(weight > 0))
        return underflow; // a live score of -inf
    return weight *
               expm1(score_error + p->forward.lse_error[at->row] + unit * (2 + 2 * fabs(s - lse))) +
           underflow;
}

static void through_softcap(const problem *p, size_t index, pair *x)
{
    double cap = (double)p->options->softcap, slope = 1, slope_error = 0;
    if (cap > 0) {
        double t = p->forward.weights[MH_WEIGHTS_CAPPED][index] / cap;
        double t_error = p->forward.weights_error[MH_WEIGHTS_CAPPED][index] / cap;
        slope = 1 - t * t;
        slope_error = 2 * fabs(t) * t_error + 2 * unit;
    }
    x->dqk = x->ds * slope;
    x->dqk_error = x->ds_error * slope + fabs(x->ds) * slope_error + unit * fabs(x->dqk);
}

static pair differentiate(const problem *p, const place *at, const row *r, size_t j)
{
    size_t index = at->row * p->forward.S + j;
    const double *dout = p->dout + at->query * p->Ev, *v = p->v + (at->key + j) * p->Ev;
    double weight = p->forward.weights[MH_WEIGHTS_SOFTMAX][index], walk;
    double factor = p->forward.factor[index], p_error = weight_error(p, at, index);
    double dp = factor * ref_dot(p->Ev, dout, v, &walk), terms = 0;
    for (size_t e = 0; e < p->Ev; e++)
        terms += dout[e] * dout[e] * v[e] * v[e];
    double dp_error = unit * (WALK * factor * walk + fabs(dp));
    dp_error += 2 * p->rounding * factor * sqrt(terms); // of dout

    pair x = {.w = factor * weight, .w_error = factor * (p_error + unit * weight)};
    x.ds = weight * (dp - r->D);
    x.ds_error = p_error * fabs(dp - r->D) + weight * (dp_error + r->D_error) + unit * fabs(x.ds);
    through_softcap(p, index, &x);
    return x;
}

// The element of a mask, in C order, that is added to this pair's score.
static size_t mask_element(const mh_tensor *mask, const size_t at[4])
{
    size_t element = 0;
    for (int d = 0; d < mask->rank; d++) {
        size_t index = mask->shape[d] == 1 ? 0 : at[4 - mask->rank + d];
        element = element * mask->shape[d] + index;
    }
    return element;
}

static void add_pair(const problem *p, const place *at, size_t j, const pair *x,
                     ref_attention_grad *result)
{
    size_t query = at->query, key = at->key + j;
    const double *q = p->q + query * p->E, *k = p->k + key * p->E, *dout = p->dout + query * p->Ev;
    double dqk = p->scale * x->dqk, error = fabs(p->scale) * x->dqk_error + unit * fabs(dqk);
    for (size_t e = 0; e < p->E; e++) {
        add(&result->dq, query * p->E + e, dqk * k[e], error * fabs(k[e]));
        add(&result->dk, key * p->E + e, dqk * q[e], error * fabs(q[e]));
    }
    for (size_t e = 0; e < p->Ev; e++)
        add(&result->dv, key * p->Ev + e, x->w * dout[e], x->w_error * fabs(dout[e]));
    for (size_t m = 0; m < result->mask_count; m++)
        if (result->dmasks[m].count)
            add(&result->dmasks[m],
                mask_element(&p->options->masks[m].tensor, (size_t[]){at->n, at->h, at->i, j}),
                x->ds, x->ds_error);
}

// ---- all of it ----------------------------------------------------------------------------------

static void backward_row(const problem *p, const place *at, ref_attention_grad *result)
{
    const bool *live = p->forward.live + at->row * p->forward.S;
    bool any = false;
    for (size_t j = 0; j < at->width; j++)
        any |= live[j];
    if (!any)
        return;
    row r = row_gemm(p, at);
    if (p->options->sinks)
        add_sink(p, at, &r, &result->dsinks);
    for (size_t j = 0; j < at->width; j++)
        if (live[j]) {
            pair x = differentiate(p, at, &r, j);
            add_pair(p, at, j, &x, result);
        }
}

static place place_of(const problem *p, const ref_sequence *s, size_t n, size_t h, size_t i)
{
    size_t g = h / (p->H / p->G);
    place at = {.n = n, .h = h, .i = i, .width = s->S};
    at.query = (s->batch * p->H + h) * p->q_rows + s->query_start + i;
    at.key = (s->batch * p->G + g) * p->k_rows + s->key_start;
    at.row = (n * p->H + h) * p->forward.T + i;
    return at;
}

static void result_create(const mh_attention_options *options, const mh_tensor *q,
                          const mh_tensor *k, const mh_tensor *v, ref_attention_grad *result)
{
    result->dq = gradient_create(ref_count(q));
    result->dk = gradient_create(ref_count(k));
    result->dv = gradient_create(ref_count(v));
    result->dsinks = gradient_create(options->sinks ? q->shape[1] : 0);
    result->mask_count = options->mask_count;
    result->dmasks = ref_alloc(options->mask_count, sizeof *result->dmasks);
    for (size_t m = 0; m < options->mask_count; m++) {
        const mh_mask *mask = &options->masks[m];
        result->dmasks[m] =
            gradient_create(mask->kind == MH_MASK_ADD ? ref_count(&mask->tensor) : 0);
    }
}

static problem problem_create(const mh_attention_options *options, const mh_tensor *q,
                              const mh_tensor *k, const mh_tensor *v, mh_dtype out_dtype,
                              const mh_tensor *dout)
{
    problem p = {.options = options};
    p.H = q->shape[1], p.G = k->shape[1], p.E = q->shape[3], p.Ev = v->shape[3];
    p.q_rows = q->shape[2], p.k_rows = k->shape[2];
    p.q = ref_load(q), p.k = ref_load(k), p.v = ref_load(v), p.dout = ref_load(dout);
    p.rounding = ref_operand_rounding(options, q, k, v);
    p.scale = isnan(options->scale) ? 1 / sqrt((double)p.E) : (double)options->scale;
    p.out_unit = out_dtype == MH_BF16 ? 0x1p-8 : out_dtype == MH_F16 ? 0x1p-11 : unit;
    p.out_least = out_dtype == MH_F16 ? 0x1p-25 : 0x1p-134;
    ref_attention_forward(options, q, k, v, true, &p.forward);
    return p;
}

void ref_attention_backward(const mh_attention_options *options, const mh_tensor *q,
                            const mh_tensor *k, const mh_tensor *v, mh_dtype out_dtype,
                            const mh_tensor *dout, ref_attention_grad *result)
{
    problem p = problem_create(options, q, k, v, out_dtype, dout);
    result_create(options, q, k, v, result);
    for (size_t n = 0; n < p.forward.N; n++) {
        ref_sequence s = ref_sequence_get(options, q, k, n);
        for (size_t h = 0; h < p.H; h++)
            for (size_t i = 0; i < s.T; i++) {
                place at = place_of(&p, &s, n, h, i);
                backward_row(&p, &at, result);
            }
    }
    ref_gradient *all[] = {&result->dq, &result->dk, &result->dv, &result->dsinks};
    for (size_t i = 0; i < 4; i++)
        finish(all[i], p.rounding);
    for (size_t m = 0; m < result->mask_count; m++)
        finish(&result->dmasks[m], 0);
    ref_attention_free(&p.forward);
    double *loaded[] = {p.q, p.k, p.v, p.dout};
    for (size_t i = 0; i < 4; i++)
        free(loaded[i]);
}

void ref_attention_grad_free(ref_attention_grad *result)
{
    ref_gradient *all[] = {&result->dq, &result->dk, &result->dv, &result->dsinks};
    for (size_t i = 0; i < 4; i++)
        gradient_free(all[i]);
    for (size_t m = 0; m < result->mask_count; m++)
        gradient_free(&result->dmasks[m]);
    free(result->dmasks);
}
