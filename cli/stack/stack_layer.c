// SPDX-License-Identifier: MIT
// One layer step by step, every step a call on materialised tensors:
//
//     post-norm   x = LayerNorm(x + attention(x))      x = LayerNorm(x + feed_forward(x))
//     pre-norm    x = x + attention(LayerNorm(x))      x = x + feed_forward(LayerNorm(x))
//
// A decoder has cross-attention to the memory in between. What the fused pass computed for the
// layer's attention and as its output must agree.
#include "messages.h"
#include "stack_trace.h"

#include <math.h>
#include <multihead/ops.h>
#include <multihead/optimiser.h>

// Self-attention, or a decoder's cross-attention, in words.
typedef struct attention_words {
    const char *module; // of the parameters
    const char *x, *source, *weights, *out;
    bool cross;
} attention_words;

static const attention_words self_words = {"self_attn",      "x",  "x", "attention",
                                           "self-attention", false};
static const attention_words cross_words = {"multihead_attn",  "x", "memory", "cross",
                                            "cross-attention", true};

typedef struct heads {
    mh_tensor q, k, v;   // (B, H, T, E), (B, H, S, E) twice
    mh_tensor attention; // (B, H, T, S)
    mh_tensor merged;    // rows (T B, D)
    mh_tensor out;       // rows (T B, D)
} heads;

// ---- projections --------------------------------------------------------------------------------

// y = x W^T + b in new memory.
static int apply_linear(stack_steps *t, const char *what, const mh_tensor *x,
                        const mh_tensor *weight, const mh_tensor *bias, mh_tensor *y)
{
    int code = stack_take(t, what, 2, (size_t[]){x->shape[0], weight->shape[0]}, y);
    if (code != EXIT_DONE)
        return code;
    mh_linear_options options = mh_linear_options_default();
    options.bias = bias->data ? bias : NULL;
    return stack_check(t, mh_linear(t->s->context, &options, x, weight, y), what);
}

static mh_tensor module_parameter(const stack_steps *t, const char *module, const char *name)
{
    char full[64];
    snprintf(full, sizeof full, "%s.%s", module, name);
    return stack_parameter(t->s, t->layer, full);
}

static mh_tensor split_heads(const stack *s, const mh_tensor *rows, size_t length)
{
    return mh_tensor_swap(mh_tensor_split(stack_by_batch(s, rows, length), 2, s->config.nhead), 1,
                          2);
}

// Third `which` of the rows of in_proj_weight and in_proj_bias.
static int project(stack_steps *t, const attention_words *w, int which, const mh_tensor *x,
                   size_t length, mh_tensor *result)
{
    const size_t D = t->s->config.d_model;
    mh_tensor weight = module_parameter(t, w->module, "in_proj_weight"),
              bias = module_parameter(t, w->module, "in_proj_bias"), y;
    weight = mh_tensor_slice(weight, 0, (size_t)which * D, D);
    if (bias.data)
        bias = mh_tensor_slice(bias, 0, (size_t)which * D, D);
    int code = apply_linear(t, "projection", x, &weight, &bias, &y);
    if (code == EXIT_DONE)
        *result = split_heads(t->s, &y, length);
    return code;
}

static int project_all(stack_steps *t, const attention_words *w, const mh_tensor *x,
                       const mh_tensor *source, heads *h)
{
    const size_t T = t->s->T, S = w->cross ? t->s->S : T;
    double start = steps_now();
    int code = project(t, w, 0, x, T, &h->q);
    if (code == EXIT_DONE && w->cross)
        stack_show_step(t, w->out, "q", &h->q, steps_now() - start,
                        "x Wq^T + bq, H heads: of the target");
    if (w->cross)
        start = steps_now();
    if (code == EXIT_DONE)
        code = project(t, w, 1, source, S, &h->k);
    if (code == EXIT_DONE)
        code = project(t, w, 2, source, S, &h->v);
    if (code == EXIT_DONE)
        stack_show_step(t, w->out, w->cross ? "k, v" : "q, k, v", &h->k, steps_now() - start,
                        w->cross ? "memory Wk^T + bk, memory Wv^T + bv"
                                 : "x Wq^T + bq and so on, in H heads");
    return code;
}

// ---- scores, softmax, weighted sum --------------------------------------------------------------

static bool is_masked(const stack_steps *t, const attention_words *w)
{
    return !w->cross && stack_is_causal(t->s);
}

static void mask_causal(mh_tensor *scores)
{
    const size_t T = scores->shape[2], S = scores->shape[3];
    const size_t matrices = scores->shape[0] * scores->shape[1];
    float *x = scores->data;
    for (size_t m = 0; m < matrices; m++)
        for (size_t i = 0; i < T; i++, x += S)
            for (size_t j = i + 1; j < S; j++)
                x[j] = -INFINITY;
}

// The shown token's row of each head of (B, H, T, n).
static void save_head_rows(stack_steps *t, const char *key, const char *label, const mh_tensor *m,
                           size_t i)
{
    const float *row = (const float *)m->data + (ptrdiff_t)i * m->stride[1] +
                       (ptrdiff_t)t->s->shown_token * m->stride[2];
    stack_save_row(t->s, key, label, (int)i, row, m->stride[3], m->shape[3]);
}

static int trace_scores(stack_steps *t, const attention_words *w, heads *h)
{
    const stack *s = t->s;
    const size_t E = s->config.d_model / s->config.nhead;
    mh_tensor *p = &h->attention;
    double start = steps_now();
    mh_status status = steps_scores(s->context, &h->q, &h->k, p);
    if (status == MH_OK) // a product with a scalar
        status = mh_scale_gradients(s->context, 1 / sqrt((double)E), mh_tensor_count(p), p->data);
    if (status != MH_OK)
        return stack_check(t, status, "scores");
    stack_show_step(t, "  scores", "scores", p, steps_now() - start,
                    w->cross ? "q k^T / sqrt(E): target with memory" : "q k^T / sqrt(E)");
    if (is_masked(t, w)) {
        start = steps_now();
        mask_causal(p);
        stack_show_step(t, "  mask", "scores", p, steps_now() - start,
                        "-inf where the key is after the query");
        for (size_t i = 0; stack_saves(t) && i < s->config.nhead; i++)
            save_head_rows(t, "scores", "scores", p, i);
    }
    start = steps_now();
    status = mh_softmax(s->context, p, -1, p);
    stack_show_step(t, "  softmax", w->weights, p, steps_now() - start,
                    "exp(score) / sum of exp: rows sum to 1");
    return stack_check(t, status, "softmax");
}

static void save_heads(stack_steps *t, const attention_words *w, const heads *h,
                       const mh_tensor *sums)
{
    const size_t H = stack_saves(t) ? t->s->config.nhead : 0;
    for (size_t i = 0; i < H; i++) {
        save_head_rows(t, w->cross ? "cross_weights" : "weights",
                       w->cross ? "to memory" : "attends", &h->attention, i);
        save_head_rows(t, "head_output", "output", sums, i);
    }
}

static int trace_heads(stack_steps *t, const attention_words *w, heads *h)
{
    const stack *s = t->s;
    const size_t H = s->config.nhead, S = w->cross ? s->S : s->T, D = s->config.d_model;
    int code = stack_take(t, "scores", 4, (size_t[]){s->B, H, s->T, S}, &h->attention);
    if (code == EXIT_DONE)
        code = stack_take(t, "values", 2, (size_t[]){s->B * s->T, D}, &h->merged);
    if (code == EXIT_DONE)
        code = trace_scores(t, w, h);
    if (code != EXIT_DONE)
        return code;
    // The heads' outputs are written next to each other in the merged rows: concatenating them is
    // a view.
    const mh_tensor sums = split_heads(s, &h->merged, s->T);
    const double start = steps_now();
    mh_status status = steps_weigh(s->context, &h->attention, &h->v, &sums);
    if (status != MH_OK)
        return stack_check(t, status, "weighted sum");
    stack_show_step(t, "  weighted sum", "values", &sums, steps_now() - start,
                    "weights v: means of values, per head");
    save_heads(t, w, h, &sums);
    return EXIT_DONE;
}

static int agree(stack_steps *t, const char *what, const mh_tensor *steps, const mh_tensor *fused)
{
    char of[64];
    if (steps_agree(steps, fused, &t->difference))
        return EXIT_DONE;
    snprintf(of, sizeof of, "layer %zu, %s", t->layer, what);
    return steps_complain(of, t->difference);
}

static int check_attention(stack_steps *t, const attention_words *w, const heads *h,
                           const fused_attention *fused)
{
    const mh_tensor out = stack_by_batch(t->s, &h->out, t->s->T);
    const struct {
        const char *name;
        const mh_tensor *steps, *fused;
    } pairs[] = {{"q", &h->q, &fused->q},
                 {"k", &h->k, &fused->k},
                 {"v", &h->v, &fused->v},
                 {w->weights, &h->attention, &fused->weights},
                 {w->out, &out, &fused->out}};
    int code = EXIT_DONE;
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs && code == EXIT_DONE; i++)
        code = agree(t, pairs[i].name, pairs[i].steps, pairs[i].fused);
    return code;
}

static int attend_layer(stack_steps *t, const attention_words *w, const mh_tensor *x,
                        const fused_attention *fused, mh_tensor *result)
{
    heads h;
    const mh_tensor *memory = &t->s->inputs[INPUT_MEMORY].tensor;
    mh_tensor source = *x;
    if (w->cross)
        source = mh_tensor_2d(memory->data, MH_F32, t->s->B * t->s->S, t->s->config.d_model);
    int code = project_all(t, w, x, &source, &h);
    if (code == EXIT_DONE)
        code = trace_heads(t, w, &h);
    if (code != EXIT_DONE)
        return code;
    const mh_tensor weight = module_parameter(t, w->module, "out_proj.weight"),
                    bias = module_parameter(t, w->module, "out_proj.bias");
    const double start = steps_now();
    code = apply_linear(t, "output projection", &h.merged, &weight, &bias, &h.out);
    if (code != EXIT_DONE)
        return code;
    const mh_tensor shown = stack_by_batch(t->s, &h.out, t->s->T);
    stack_show_step(t, "  output", "a", &shown, steps_now() - start,
                    "concat(heads) Wo^T + bo: mixes heads");
    stack_save(t, w->cross ? "cross_concat" : "concat", "concatenated", &h.merged);
    stack_save(t, w->cross ? "cross_out" : "out", "after Wo: a", &h.out);
    *result = h.out;
    return check_attention(t, w, &h, fused);
}

// ---- the feed-forward network -------------------------------------------------------------------

static int feed_forward(stack_steps *t, const mh_tensor *x, mh_tensor *result)
{
    const stack *s = t->s;
    static const char *const formulas[] = {"relu(x W1^T + b1): F values", "gelu(x W1^T + b1)",
                                           "gelu_tanh(x W1^T + b1)", "silu(x W1^T + b1)"};
    const mh_tensor w1 = stack_parameter(s, t->layer, "linear1.weight"),
                    b1 = stack_parameter(s, t->layer, "linear1.bias"),
                    w2 = stack_parameter(s, t->layer, "linear2.weight"),
                    b2 = stack_parameter(s, t->layer, "linear2.bias");
    mh_tensor hidden;
    double start = steps_now();
    int code = apply_linear(t, "feed-forward", x, &w1, &b1, &hidden);
    if (code == EXIT_DONE)
        code = stack_check(t, mh_activate(s->context, s->config.activation, &hidden, &hidden),
                           "feed-forward");
    if (code != EXIT_DONE)
        return code;
    mh_tensor shown = stack_by_batch(s, &hidden, s->T);
    stack_show_step(t, "feed-forward", "hidden", &shown, steps_now() - start,
                    formulas[s->config.activation]);
    stack_save(t, "ffn_hidden", "hidden", &hidden);
    start = steps_now();
    code = apply_linear(t, "feed-forward", &hidden, &w2, &b2, result);
    if (code != EXIT_DONE)
        return code;
    shown = stack_by_batch(s, result, s->T);
    stack_show_step(t, "feed-forward", "f", &shown, steps_now() - start,
                    "hidden W2^T + b2: each token by itself");
    stack_save(t, "ffn", "feed-forward: f", result);
    return code;
}

// ---- residual sums and norms --------------------------------------------------------------------

int stack_norm(stack_steps *t, const mh_tensor *x, const mh_tensor *weight, const mh_tensor *bias,
               mh_tensor *y)
{
    int code = stack_take(t, "norm", 2, x->shape, y);
    if (code != EXIT_DONE)
        return code;
    return stack_check(t,
                       mh_layer_norm(t->s->context, x, weight, bias->data ? bias : NULL,
                                     t->s->config.layer_norm_eps, y, NULL, NULL),
                       "norm");
}

static int sublayer_norm(stack_steps *t, int i, const mh_tensor *x, mh_tensor *y)
{
    char name[16];
    snprintf(name, sizeof name, "norm%d", i);
    const mh_tensor weight = module_parameter(t, name, "weight"),
                    bias = module_parameter(t, name, "bias");
    return stack_norm(t, x, &weight, &bias, y);
}

// Pre-norm: what sublayer i reads.
static int norm_before(stack_steps *t, int i, mh_tensor *in)
{
    *in = t->x;
    if (!t->s->config.norm_first)
        return EXIT_DONE;
    const double start = steps_now();
    int code = sublayer_norm(t, i, &t->x, in);
    if (code != EXIT_DONE)
        return code;
    const mh_tensor shown = stack_by_batch(t->s, in, t->s->T);
    stack_show_step(t, "norm", "n", &shown, steps_now() - start,
                    "LayerNorm(x) = w (x - mean) / std + b");
    stack_save(t, "norm", "LayerNorm: n", in);
    return EXIT_DONE;
}

// x = x + result; post-norm: and its LayerNorm.
static int add_and_norm(stack_steps *t, int i, const char *letter, const mh_tensor *result)
{
    const bool after = !t->s->config.norm_first;
    char formula[64];
    mh_tensor sum, next;
    const double start = steps_now();
    int code = stack_take(t, "residual sum", 2, t->x.shape, &sum);
    if (code == EXIT_DONE)
        code = stack_check(t, mh_add(t->s->context, &t->x, result, &sum), "residual sum");
    next = sum;
    if (code == EXIT_DONE && after)
        code = sublayer_norm(t, i, &sum, &next);
    if (code != EXIT_DONE)
        return code;
    snprintf(formula, sizeof formula, after ? "LayerNorm(x + %s)" : "x + %s", letter);
    const mh_tensor shown = stack_by_batch(t->s, &next, t->s->T);
    stack_show_step(t, after ? "Add & Norm" : "Add", "x", &shown, steps_now() - start, formula);
    stack_save(t, "sum", *letter == 'a' ? "x + a" : "x + f", &sum);
    if (after)
        stack_save(t, "norm", "LayerNorm: x", &next);
    t->x = next;
    return EXIT_DONE;
}

static int attention_sublayer(stack_steps *t, int i, const attention_words *w,
                              const fused_attention *fused)
{
    mh_tensor in, a;
    int code = norm_before(t, i, &in);
    if (code == EXIT_DONE)
        code = attend_layer(t, w, &in, fused, &a);
    return code == EXIT_DONE ? add_and_norm(t, i, "a", &a) : code;
}

int stack_trace_layer(stack_steps *t, const fused_attention *fused)
{
    const bool decoder = t->s->decoder;
    mh_tensor in, f;
    stack_save(t, "input", "x", &t->x);
    int code = attention_sublayer(t, 1, &self_words, &fused[0]);
    if (code == EXIT_DONE && decoder)
        code = attention_sublayer(t, 2, &cross_words, &fused[1]);
    if (code == EXIT_DONE)
        code = norm_before(t, decoder ? 3 : 2, &in);
    if (code == EXIT_DONE)
        code = feed_forward(t, &in, &f);
    if (code == EXIT_DONE)
        code = add_and_norm(t, decoder ? 3 : 2, "f", &f);
    if (code != EXIT_DONE)
        return code;
    const mh_tensor out = stack_by_batch(t->s, &t->x, t->s->T);
    return agree(t, "output", &out, &fused[0].hidden);
}
