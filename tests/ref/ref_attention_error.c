// SPDX-License-Identifier: MIT
// How far an f32 computation may be from the double reference, to first order, so that a
// tolerance follows the error instead of hiding it.
//
// A sum of n terms makes n rounding errors, each up to u = 2^-24 of the sum so far; they walk at
// random, so that together they come to about u sqrt(sum of squares of the partial sums), the
// `walk` of ref_attention.c. From there errors go the way of the formula:
//
//     d_j    scores: walk of the dot product, and u |s| for each step: scale, softcap, bias
//     p_j    p_j (d_j + sum_l p_l d_l + 2u |s_j - lse| + 2u for exp), and the error of the sum
//     o      sum_j |v_j| times p_j's, the walk of the sum over keys, the error of the other sum;
//            and, if weights are rounded to bf16, twice the root of the squares of r w_j v_j
//
// The factors are such that the largest error seen in thousands of random cases is about half of
// the estimate; test_attention prints the ratio.
#include "ref/ref_attention.h"

static const double unit = 0x1p-24;

// Exponentials below 2^-126 may be flushed to 0 relative to a running maximum, which may lag
// behind the true one by a factor of some thousands.
static const double underflow = 0x1p-114;

enum { WALK = 4 }; // standard deviations, and twice that for safety: a step's is about 0.4 u

static double score_error(const ref_row *row, const mh_attention_options *options, size_t j,
                          double *error[REF_STAGES])
{
    double scaled = row->stage[MH_WEIGHTS_SCALED][j], capped = row->stage[MH_WEIGHTS_CAPPED][j];
    double cap = (double)options->softcap;
    double e = unit * (WALK * row->dot_walk[j] + 2 * fabs(scaled));
    error[MH_WEIGHTS_SCALED][j] = e;
    if (cap > 0)
        e = e * (1 - (capped / cap) * (capped / cap)) + unit * 4 * fabs(capped);
    error[MH_WEIGHTS_CAPPED][j] = e;
    if (row->bias_magnitude[j] > 0)
        e += unit * (fabs(capped) + 3 * row->bias_magnitude[j]);
    error[MH_WEIGHTS_BIASED][j] = row->live[j] ? e : 0;
    return e;
}

// The relative error of the sum of the exponentials, if they are about equal: the partial sums
// are then 1/n, 2/n, ... of the whole, and the walk is sqrt(n/3) of it.
static double sum_error(const ref_row *row)
{
    double live = 1; // there may be a sink
    for (size_t j = 0; j < row->keys; j++)
        live += row->live[j];
    return unit * (2 + WALK * sqrt(live / 3));
}

void ref_attention_row_error(ref_row *row, const mh_attention_options *options,
                             double *error[REF_STAGES], double *lse_error)
{
    const double *p = row->stage[MH_WEIGHTS_SOFTMAX];
    double mean = 0, sum = sum_error(row);
    for (size_t j = 0; j < row->keys; j++) {
        double e = score_error(row, options, j, error);
        if (p[j] > 0) // a live score of -inf has no part in the sum
            mean += p[j] * e;
    }
    *lse_error = mean + sum + unit * fabs(row->lse);
    for (size_t j = 0; j < row->keys; j++) {
        double distance = fabs(row->stage[MH_WEIGHTS_BIASED][j] - row->lse);
        double e = error[MH_WEIGHTS_BIASED][j] + mean + unit * (2 + 2 * distance);
        row->own_error[j] = row->live[j] ? underflow : 0;
        if (p[j] > 0)
            row->own_error[j] += p[j] * expm1(e);
        error[MH_WEIGHTS_SOFTMAX][j] = row->own_error[j] + sum * p[j];
    }
}

double ref_operand_rounding(const mh_attention_options *options, const mh_tensor *q,
                            const mh_tensor *k, const mh_tensor *v)
{
    bool bf16 = q->dtype == MH_BF16 && k->dtype == MH_BF16 && v->dtype == MH_BF16;
    if (options->precision != MH_PRECISION_AUTO)
        bf16 = options->precision == MH_PRECISION_BF16;
    return bf16 ? 0x1p-8 : 0;
}

double ref_attention_out_error(const ref_row *row, double weighted_error, double walk, double o)
{
    return weighted_error + unit * WALK * walk + (sum_error(row) + unit) * fabs(o);
}
