// SPDX-License-Identifier: MIT
// Attention as a tutorial shows it: every step is a separate call on materialised scores, and shows
// the values of one query. What mh_attention_forward computes, which never materialises them, must
// agree. The same with other scales shows why scores are divided by sqrt(E).
#include "attend.h"
#include "masked_queries.h"
#include "messages.h"
#include "steps/steps.h"

#include <math.h>
#include <multihead/ops.h>
#include <multihead/optimiser.h>
#include <stdlib.h>
#include <string.h>

typedef struct attend_steps {
    attend *a;
    const mh_tensor *q, *k, *v;  // (B, H, T, E), (B, G, S, E), (B, G, S, Ev)
    mh_tensor raw, weights, out; // (B, H, T, S) twice: q k^T; scores, then weights. (B, H, T, Ev)
    size_t raw_size, weights_size, out_size;
    size_t token; // whose values are shown
    step_table table;
} attend_steps;

static double scale_of(const attend_steps *t)
{
    const double given = (double)t->a->options.scale;
    return isnan(given) ? 1 / sqrt((double)t->q->shape[3]) : given;
}

// ---- the steps ----------------------------------------------------------------------------------

// A step, and the row of one query in the first head of the first sequence; of keys and values, all
// of which contribute, the row of the same number, or else the last one.
static void show_attend_step(attend_steps *t, const char *step, const char *name,
                             const mh_tensor *tensor, const char *formula)
{
    steps_line(&t->table, step, name, tensor, (double)NAN, formula);
    if (t->a->json || mh_tensor_count(tensor) == 0)
        return;
    const size_t last = tensor->shape[2] - 1, shown = t->token < last ? t->token : last;
    const float *row = (const float *)tensor->data + (ptrdiff_t)shown * tensor->stride[2];
    printf("%*s", t->table.step_width, "");
    steps_row(false, row, tensor->stride[3], tensor->shape[3]);
    printf("\n");
}

static int take_scores(attend_steps *t)
{
    const size_t scores[4] = {t->q->shape[0], t->q->shape[1], t->q->shape[2], t->k->shape[2]};
    const size_t out[4] = {t->q->shape[0], t->q->shape[1], t->q->shape[2], t->v->shape[3]};
    mh_context *context = t->a->context;
    int code = array_allocate(context, "--trace", MH_F32, 4, scores, &t->raw, &t->raw_size);
    if (code == EXIT_DONE)
        code = array_allocate(context, "--trace", MH_F32, 4, scores, &t->weights, &t->weights_size);
    if (code == EXIT_DONE)
        code = array_allocate(context, "--trace", MH_F32, 4, out, &t->out, &t->out_size);
    return code;
}

// weights = scale * raw
static mh_status scale_scores(attend_steps *t, double scale)
{
    const size_t count = mh_tensor_count(&t->raw);
    if (count == 0)
        return MH_OK;
    memcpy(t->weights.data, t->raw.data, count * sizeof(float));
    return mh_scale_gradients(t->a->context, scale, count,
                              t->weights.data); // product with a scalar
}

static bool is_masked(const attend *a)
{
    const mh_attention_options *o = &a->options;
    return o->mask_count || o->causal != MH_CAUSAL_NONE || o->window_left >= 0 ||
           o->window_right >= 0 || o->key_lengths;
}

static mh_status show_scores(attend_steps *t)
{
    mh_context *context = t->a->context;
    char formula[96];
    mh_status status = steps_scores(context, t->q, t->k, &t->raw);
    if (status != MH_OK)
        return status;
    show_attend_step(t, "scores", "scores", &t->raw, "q k^T: how well query and keys match");
    status = scale_scores(t, scale_of(t));
    if (status != MH_OK)
        return status;
    if (isnan((double)t->a->options.scale))
        snprintf(formula, sizeof formula, "scores / sqrt(E) = %.4g scores", scale_of(t));
    else
        snprintf(formula, sizeof formula, "scores x %.4g (--scale)", scale_of(t));
    show_attend_step(t, "scale", "scores", &t->weights, formula);
    if (!is_masked(t->a))
        return MH_OK;
    status = mask_scores_of(context, &t->a->options, &t->weights);
    if (status == MH_OK)
        show_attend_step(t, "mask", "scores", &t->weights, "-inf where a key is masked");
    return status;
}

static mh_status show_all_steps(attend_steps *t)
{
    mh_context *context = t->a->context;
    show_attend_step(t, "input", "q", t->q, "queries: what each token looks for");
    show_attend_step(t, "input", "k", t->k, "keys: what each token is matched by");
    show_attend_step(t, "input", "v", t->v, "values: what each token contributes");
    mh_status status = show_scores(t);
    if (status == MH_OK)
        status = mh_softmax(context, &t->weights, -1, &t->weights);
    if (status != MH_OK)
        return status;
    show_attend_step(t, "softmax", "weights", &t->weights, "exp(score) / sum of exp: sum to 1");
    status = steps_weigh(context, &t->weights, t->v, &t->out);
    if (status == MH_OK)
        show_attend_step(t, "output", "out", &t->out, "weights v: a weighted mean of the values");
    return status;
}

// ---- scales -------------------------------------------------------------------------------------

typedef struct sharpness {
    double deviation;        // of the scores that are not masked
    double largest, entropy; // means over the rows with keys
} sharpness;

static double deviation_of(const mh_tensor *scores)
{
    const float *x = scores->data;
    const size_t count = mh_tensor_count(scores);
    double sum = 0, squares = 0, live = 0;
    for (size_t i = 0; i < count; i++)
        if (isfinite(x[i])) {
            live++;
            sum += (double)x[i];
            squares += (double)x[i] * (double)x[i];
        }
    return live > 0 ? sqrt(fmax(squares / live - sum / live * (sum / live), 0)) : 0;
}

static mh_status measure(attend_steps *t, double scale, sharpness *s)
{
    const size_t S = t->weights.shape[3], rows = S ? mh_tensor_count(&t->weights) / S : 0;
    const float *p = t->weights.data;
    size_t live = 0;
    mh_status status = scale_scores(t, scale);
    if (status == MH_OK)
        status = mask_scores_of(t->a->context, &t->a->options, &t->weights);
    *s = (sharpness){.deviation = deviation_of(&t->weights)};
    if (status == MH_OK)
        status = mh_softmax(t->a->context, &t->weights, -1, &t->weights);
    for (size_t i = 0; i < rows && status == MH_OK; i++, p += S) {
        double largest = 0, entropy = 0;
        for (size_t j = 0; j < S; j++) {
            largest = fmax(largest, (double)p[j]);
            entropy -= p[j] > 0 ? (double)p[j] * log((double)p[j]) : 0;
        }
        live += largest > 0;
        s->largest += largest;
        s->entropy += entropy;
    }
    s->largest /= live ? (double)live : 1;
    s->entropy /= live ? (double)live : 1;
    return status;
}

static void show_sharpness(const attend *a, const char *name, double scale, const sharpness *s,
                           bool first)
{
    if (a->json)
        printf("%s{\"scale\": %.6g, \"deviation\": %.6g, \"largest_weight\": %.6g, \"entropy\": "
               "%.6g}",
               first ? "" : ", ", scale, s->deviation, s->largest, s->entropy);
    else
        printf("  %-8.4g %-11s %14.2f %16.3f %9.2f\n", scale, name, s->deviation, s->largest,
               s->entropy);
}

// The default scale, none, and the one that was used if it is neither.
static mh_status compare_scales(attend_steps *t)
{
    const double scales[3] = {1 / sqrt((double)t->q->shape[3]), 1, scale_of(t)};
    const char *const names[3] = {"1/sqrt(E)", "not scaled", "--scale"};
    const size_t S = t->weights.shape[3];
    mh_status status = MH_OK;
    if (t->a->json)
        printf("], \"scales\": [");
    else
        printf("\nWhy scores are scaled: means over all queries; entropy is at most ln S = "
               "%.2f.\n  %-20s %14s %16s %9s\n",
               S ? log((double)S) : 0, "scale", "std of scores", "largest weight", "entropy");
    for (int i = 0; i < 3 && status == MH_OK; i++) {
        sharpness s;
        bool seen = false;
        for (int j = 0; j < i; j++)
            seen |= fabs(scales[i] - scales[j]) < 1e-6 * fabs(scales[i]);
        if (seen)
            continue;
        status = measure(t, scales[i], &s);
        if (status == MH_OK)
            show_sharpness(t->a, names[i], scales[i], &s, i == 0);
    }
    return status;
}

// ---- all of it ----------------------------------------------------------------------------------

static void show_attend_begin(attend_steps *t)
{
    const size_t *q = t->q->shape, G = t->k->shape[1], S = t->k->shape[2];
    char grouped[48] = "";
    t->table = (step_table){.json = t->a->json,
                            .no_times = true,
                            .step_width = 9,
                            .tensor_width = 8,
                            .shape_width = 18,
                            .line_width = 90};
    if (t->a->json) {
        printf("{\"batch\": %zu, \"heads\": %zu, \"kv_heads\": %zu, \"queries\": %zu, \"keys\": "
               "%zu, \"head_dim\": %zu, \"scale\": %.6g, \"steps\": [",
               q[0], q[1], G, q[2], S, q[3], scale_of(t));
        return;
    }
    if (G != q[1])
        snprintf(grouped, sizeof grouped, " (G = %zu of k and v)", G);
    printf("Attention: softmax(q k^T / sqrt(E)) v\n"
           "B = %zu %s, H = %zu %s%s, T = %zu %s, S = %zu %s, E = %zu.\n",
           q[0], plural(q[0], "sequence", "sequences"), q[1], plural(q[1], "head", "heads"),
           grouped, q[2], plural(q[2], "query", "queries"), S, plural(S, "key", "keys"), q[3]);
    printf("Below each step, row %zu of head 0 of sequence 0 (rows count from 0).\n\n", t->token);
    steps_head(&t->table);
}

static int finish(attend_steps *t)
{
    attend *a = t->a;
    double difference = 0;
    mh_status status = mh_attention_forward(a->context, &a->options, t->q, t->k, t->v,
                                            &a->outputs[OUTPUT_OUT].tensor);
    if (status != MH_OK)
        return complain_status(a->context, status, NULL);
    const bool agree = steps_agree(&t->out, &a->outputs[OUTPUT_OUT].tensor, &difference);
    if (a->json)
        printf(isfinite(difference) ? "], \"largest_difference\": %.3g}\n"
                                    : "], \"largest_difference\": null}\n",
               difference);
    else
        printf("\nThe same in one call, mh_attention_forward, which never stores the "
               "scores:\nequal up to rounding.\n");
    return agree ? EXIT_DONE : steps_complain("out", difference);
}

int attend_trace(attend *a)
{
    attend_steps t = {.a = a,
                      .q = &a->inputs[INPUT_Q].tensor,
                      .k = &a->inputs[INPUT_K].tensor,
                      .v = &a->inputs[INPUT_V].tensor};
    t.raw.data = t.weights.data = t.out.data = NULL;
    int code = steps_token(a->token, t.q->shape[2], is_masked(a), &t.token);
    if (code == EXIT_DONE)
        code = take_scores(&t);
    if (code == EXIT_DONE) {
        show_attend_begin(&t);
        mh_status status = show_all_steps(&t);
        if (status == MH_OK)
            status = compare_scales(&t);
        code = status == MH_OK ? finish(&t) : complain_status(a->context, status, "--trace");
    }
    mh_free(a->context, t.raw.data, t.raw_size);
    mh_free(a->context, t.weights.data, t.weights_size);
    mh_free(a->context, t.out.data, t.out_size);
    return code;
}
