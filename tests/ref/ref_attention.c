// SPDX-License-Identifier: MIT
// Attention as the formula says, in double:
//
//     s_ij = scale * q_i . k_j                  default scale 1/sqrt(E)
//     s_ij = softcap * tanh(s_ij / softcap)     if there is a softcap
//     s_ij = s_ij + bias_ij                     additive masks and ALiBi
//     lse_i = log(sum over live j of exp(s_ij), plus exp(sink) if there are sinks)
//     p_ij = exp(s_ij - lse_i) for live j, 0 for the others
//     w_ij = p_ij times 0 or 1 / (1 - dropout)  if there is dropout
//     o_i  = sum over live j of w_ij v_j
//
// Dead keys are never multiplied with anything, so that their NaN cannot leak. NaN and inf of
// live keys go where IEEE arithmetic takes them: a row whose live scores are all -inf is NaN,
// because exp(-inf - -inf) is; only a row without live key is "empty".
#include "ref/ref_attention.h"

#include "base/philox.h"
#include "ref/ref_tensor.h"

#include <stdlib.h>

typedef struct problem {
    const mh_attention_options *options;
    size_t H, G, E, Ev;
    size_t q_rows, k_rows; // rows per head in memory
    double *q, *k, *v;     // (B, H, q_rows, E), (B, G, k_rows, E), (B, G, k_rows, Ev)
    double scale;
    double rounding; // of operands
} problem;

// ---- sequences ----------------------------------------------------------------------------------

size_t ref_sequence_count(const mh_attention_options *options, const mh_tensor *q)
{
    return options->sequences ? options->sequences : q->shape[0];
}

ref_sequence ref_sequence_get(const mh_attention_options *options, const mh_tensor *q,
                              const mh_tensor *k, size_t n)
{
    ref_sequence s = {.batch = n, .T = q->shape[2], .S = k->shape[2]};
    if (options->sequences) {
        s.batch = 0;
        s.query_start = (size_t)options->query_starts[n];
        s.key_start = (size_t)options->key_starts[n];
        s.T = (size_t)(options->query_starts[n + 1] - options->query_starts[n]);
        s.S = (size_t)(options->key_starts[n + 1] - options->key_starts[n]);
    }
    s.length = options->key_lengths ? options->key_lengths[n] : (int64_t)s.S;
    switch (options->causal) {
    case MH_CAUSAL:
    case MH_CAUSAL_TOP_LEFT:
        s.offset = 0;
        break;
    case MH_CAUSAL_BOTTOM_RIGHT:
        s.offset = s.length - (int64_t)s.T;
        break;
    case MH_CAUSAL_NONE:
    case MH_CAUSAL_OFFSET:
        s.offset = options->offset;
        break;
    }
    return s;
}

// ---- which keys a query sees --------------------------------------------------------------------

static bool masks_allow(const mh_attention_options *options, const size_t index[4])
{
    for (size_t m = 0; m < options->mask_count; m++) {
        double value = ref_get_broadcast(&options->masks[m].tensor, 4, index);
        switch (options->masks[m].kind) {
        case MH_MASK_KEEP:
            if (value == 0)
                return false;
            break;
        case MH_MASK_DROP:
            if (value != 0)
                return false;
            break;
        case MH_MASK_ADD:
            if (value == -INFINITY)
                return false;
            break;
        }
    }
    return true;
}

static bool is_live(const mh_attention_options *options, const ref_sequence *s, size_t n, size_t h,
                    size_t query, size_t key)
{
    int64_t i = (int64_t)query, j = (int64_t)key;
    int64_t position = i + s->offset;
    bool past = options->causal == MH_CAUSAL_NONE || j <= position;
    bool prefix = options->prefix_lengths && j < options->prefix_lengths[n];
    bool left = options->window_left < 0 || position - j <= options->window_left;
    bool right = options->window_right < 0 || j - position <= options->window_right;
    bool exists = j < s->length;
    bool document =
        !options->query_documents ||
        ref_get(options->query_documents, (size_t[]){s->batch, s->query_start + query}) ==
            ref_get(options->key_documents, (size_t[]){s->batch, s->key_start + key});
    return (past || prefix) && left && right && exists && document &&
           masks_allow(options, (size_t[]){n, h, query, key});
}

// ---- scores -------------------------------------------------------------------------------------

static double alibi_slope(const mh_attention_options *options, size_t h, size_t H)
{
    if (options->alibi_slopes)
        return (double)options->alibi_slopes[h];
    size_t power = 1; // the largest power of two <= H
    while (power * 2 <= H)
        power *= 2;
    if (h < power)
        return exp2(-8.0 * (double)(h + 1) / (double)power);
    return exp2(-8.0 * (double)(2 * (h - power) + 1) / (double)(2 * power));
}

// Everything that is added to the score of key j; *magnitude is the sum of absolute values.
static double bias(const problem *p, const ref_sequence *s, size_t n, size_t h, size_t i, size_t j,
                   double *magnitude)
{
    const mh_attention_options *options = p->options;
    double sum = 0;
    *magnitude = 0;
    for (size_t m = 0; m < options->mask_count; m++)
        if (options->masks[m].kind == MH_MASK_ADD) {
            double value = ref_get_broadcast(&options->masks[m].tensor, 4, (size_t[]){n, h, i, j});
            sum += value;
            *magnitude += fabs(value);
        }
    if (options->alibi) {
        double distance = fabs((double)((int64_t)i + s->offset - (int64_t)j));
        double value = -alibi_slope(options, h, p->H) * distance;
        sum += value;
        *magnitude += fabs(value);
    }
    return sum;
}

double ref_dot(size_t n, const double *a, const double *b, double *walk)
{
    double sum = 0, squares = 0;
    for (size_t e = 0; e < n; e++) {
        sum += a[e] * b[e];
        squares += sum * sum;
    }
    *walk = sqrt(squares);
    return sum;
}

static void score(const problem *p, const ref_sequence *s, size_t n, size_t h, size_t i, size_t j,
                  ref_row *row)
{
    size_t g = h / (p->H / p->G);
    const double *q = p->q + ((s->batch * p->H + h) * p->q_rows + s->query_start + i) * p->E;
    const double *k = p->k + ((s->batch * p->G + g) * p->k_rows + s->key_start + j) * p->E;
    double cap = (double)p->options->softcap;

    double scaled = p->scale * ref_dot(p->E, q, k, &row->dot_walk[j]);
    double capped = cap > 0 ? cap * tanh(scaled / cap) : scaled;
    double biased = capped + bias(p, s, n, h, i, j, &row->bias_magnitude[j]);

    row->live[j] = is_live(p->options, s, n, h, i, j);
    row->dot_walk[j] *= fabs(p->scale);
    row->stage[MH_WEIGHTS_SCALED][j] = scaled;
    row->stage[MH_WEIGHTS_CAPPED][j] = capped;
    row->stage[MH_WEIGHTS_BIASED][j] = row->live[j] ? biased : -INFINITY;
}

// ---- softmax ------------------------------------------------------------------------------------

// The largest live score or sink, NaN if one of them is, -inf if there is none.
static double largest(const ref_row *row, const double *s, const float *sink)
{
    double max = sink ? (double)*sink : -INFINITY;
    for (size_t j = 0; j < row->keys; j++)
        if (row->live[j] && !isnan(max))
            max = isnan(s[j]) ? s[j] : fmax(max, s[j]);
    return max;
}

// exp(s - lse) = exp(s - max) / sum exp(s - max): the largest is taken out of both, so that
// neither overflows nor, with scores like -1e30, loses the digits that matter.
static void softmax(const mh_attention_options *options, size_t h, ref_row *row)
{
    const float *sink = options->sinks ? &options->sinks[h] : NULL;
    const double *s = row->stage[MH_WEIGHTS_BIASED];
    double *p = row->stage[MH_WEIGHTS_SOFTMAX];
    double max = largest(row, s, sink), sum = sink ? exp((double)*sink - max) : 0;
    for (size_t j = 0; j < row->keys; j++)
        if (row->live[j])
            sum += exp(s[j] - max);
    for (size_t j = 0; j < row->keys; j++)
        p[j] = row->live[j] ? exp(s[j] - max) / sum : 0;
    row->lse = isinf(max) ? max : max + log(sum);
}

// ---- dropout ------------------------------------------------------------------------------------

// 16 random bits, number j % 8 of the block that stands at (sequence, head, query, j / 8); all of
// it counts modulo 2^32.
static uint16_t dropout_bits(const mh_attention_options *options, size_t n, size_t h, size_t i,
                             size_t j)
{
    uint64_t seed = options->dropout_seed, sequence = options->dropout_sequence + n;
    const uint32_t counter[4] = {(uint32_t)(j / 8), (uint32_t)i, (uint32_t)h, (uint32_t)sequence};
    const uint32_t key[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)};
    uint32_t words[4];
    mh_philox(counter, key, words);
    return (uint16_t)(words[j % 8 / 2] >> 16 * (j % 2));
}

double ref_dropout_factor(const mh_attention_options *options, size_t n, size_t h, size_t i,
                          size_t j)
{
    double dropout = (double)options->dropout;
    if (dropout == 0)
        return 1;
    uint16_t threshold = (uint16_t)floor(dropout * 0x1p16);
    bool dropped = dropout_bits(options, n, h, i, j) < threshold;
    return dropped ? 0 : (double)(float)(1 / (1 - dropout));
}

// ---- one row, all rows --------------------------------------------------------------------------

static ref_row row_create(size_t keys, size_t E)
{
    ref_row row = {.keys = keys, .E = E};
    row.live = ref_alloc(keys, sizeof(bool));
    for (int stage = 0; stage < REF_STAGES; stage++)
        row.stage[stage] = ref_alloc(keys, sizeof(double));
    row.bias_magnitude = ref_alloc(keys, sizeof(double));
    row.dot_walk = ref_alloc(keys, sizeof(double));
    row.factor = ref_alloc(keys, sizeof(double));
    row.own_error = ref_alloc(keys, sizeof(double));
    return row;
}

static void row_free(ref_row *row)
{
    free(row->live);
    for (int stage = 0; stage < REF_STAGES; stage++)
        free(row->stage[stage]);
    free(row->bias_magnitude);
    free(row->dot_walk);
    free(row->factor);
    free(row->own_error);
}

// o = sum_j w_j v_j over live keys
static void weighted_sum(const problem *p, const ref_sequence *s, size_t h, const ref_row *row,
                         double *out, double *out_error)
{
    size_t g = h / (p->H / p->G);
    const double *v = p->v + ((s->batch * p->G + g) * p->k_rows + s->key_start) * p->Ev;
    for (size_t e = 0; e < p->Ev; e++) {
        double o = 0, weighted_error = 0, squares = 0, terms = 0;
        for (size_t j = 0; j < row->keys; j++)
            if (row->live[j]) {
                double term = row->factor[j] * row->stage[MH_WEIGHTS_SOFTMAX][j] * v[j * p->Ev + e];
                o += term;
                squares += o * o;
                terms += term * term;
                weighted_error += row->factor[j] * row->own_error[j] * fabs(v[j * p->Ev + e]);
            }
        out[e] = o;
        out_error[e] = ref_attention_out_error(row, weighted_error, sqrt(squares), o) +
                       2 * p->rounding * sqrt(terms);
    }
}

// Everything about the row's keys, from element `index` of the (N, H, T, S) results on.
static void keep_row(const ref_row *row, double *error[REF_STAGES], size_t index,
                     ref_attention *result)
{
    for (size_t j = 0; j < row->keys; j++) {
        for (int stage = 0; stage < REF_STAGES; stage++) {
            result->weights[stage][index + j] = row->stage[stage][j];
            result->weights_error[stage][index + j] = error[stage][j];
        }
        result->factor[index + j] = row->factor[j];
        result->live[index + j] = row->live[j];
    }
}

static void attend(const problem *p, const ref_sequence *s, size_t n, size_t h, size_t i,
                   ref_row *row, double *error[REF_STAGES], ref_attention *result)
{
    size_t index = (n * p->H + h) * result->T + i, live = 0;
    row->keys = s->S;
    for (size_t j = 0; j < s->S; j++) {
        score(p, s, n, h, i, j, row);
        row->factor[j] = ref_dropout_factor(p->options, n, h, i, j);
        live += row->live[j];
    }
    softmax(p->options, h, row);
    ref_attention_row_error(row, p->options, error, &result->lse_error[index]);

    double *out = result->out + index * p->Ev;
    weighted_sum(p, s, h, row, out, result->out_error + index * p->Ev);
    bool empty = live == 0 && !p->options->sinks;
    if (empty && p->options->empty_row == MH_EMPTY_ROW_NAN) {
        for (size_t e = 0; e < p->Ev; e++)
            out[e] = NAN;
        for (size_t j = 0; j < s->S; j++)
            row->stage[MH_WEIGHTS_SOFTMAX][j] = NAN;
    }
    result->lse[index] = row->lse;
    result->live_pairs += live;
    if (result->weights[0])
        keep_row(row, error, index * result->S, result);
}

static void result_create(const mh_attention_options *options, const mh_tensor *q,
                          const mh_tensor *k, size_t Ev, bool want_weights, ref_attention *result)
{
    *result = (ref_attention){.N = ref_sequence_count(options, q), .H = q->shape[1], .Ev = Ev};
    for (size_t n = 0; n < result->N; n++) {
        ref_sequence s = ref_sequence_get(options, q, k, n);
        result->T = s.T > result->T ? s.T : result->T;
        result->S = s.S > result->S ? s.S : result->S;
    }
    size_t rows = result->N * result->H * result->T;
    result->out = ref_alloc(rows * Ev, sizeof(double));
    result->out_error = ref_alloc(rows * Ev, sizeof(double));
    result->lse = ref_alloc(rows, sizeof(double));
    result->lse_error = ref_alloc(rows, sizeof(double));
    size_t count = want_weights ? rows * result->S : 0;
    result->factor = ref_alloc(count, sizeof(double));
    result->live = ref_alloc(count, sizeof(bool));
    for (int stage = 0; want_weights && stage < REF_STAGES; stage++) {
        result->weights[stage] = ref_alloc(count, sizeof(double));
        result->weights_error[stage] = ref_alloc(count, sizeof(double));
        // Pairs beyond a shorter packed sequence's own rows and keys count as masked.
        for (size_t w = 0; stage == MH_WEIGHTS_BIASED && w < count; w++)
            result->weights[stage][w] = -INFINITY;
    }
}

void ref_attention_forward(const mh_attention_options *options, const mh_tensor *q,
                           const mh_tensor *k, const mh_tensor *v, bool want_weights,
                           ref_attention *result)
{
    problem p = {options,     q->shape[1], k->shape[1], q->shape[3],
                 v->shape[3], q->shape[2], k->shape[2], ref_load(q),
                 ref_load(k), ref_load(v), 0,           ref_operand_rounding(options, q, k, v)};
    p.scale = isnan(options->scale) ? 1 / sqrt((double)p.E) : (double)options->scale;
    result_create(options, q, k, p.Ev, want_weights, result);
    ref_row row = row_create(result->S, p.E);
    double *error[REF_STAGES];
    for (int stage = 0; stage < REF_STAGES; stage++)
        error[stage] = ref_alloc(result->S, sizeof(double));

    for (size_t n = 0; n < result->N; n++) {
        ref_sequence s = ref_sequence_get(options, q, k, n);
        for (size_t h = 0; h < p.H; h++)
            for (size_t i = 0; i < s.T; i++)
                attend(&p, &s, n, h, i, &row, error, result);
    }

    for (int stage = 0; stage < REF_STAGES; stage++)
        free(error[stage]);
    row_free(&row);
    free(p.q);
    free(p.k);
    free(p.v);
}

void ref_attention_free(ref_attention *result)
{
    free(result->out);
    free(result->lse);
    free(result->out_error);
    free(result->lse_error);
    free(result->factor);
    free(result->live);
    for (int stage = 0; stage < REF_STAGES; stage++) {
        free(result->weights[stage]);
        free(result->weights_error[stage]);
    }
}
