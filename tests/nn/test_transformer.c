// SPDX-License-Identifier: MIT
// mh_mha and mh_transformer against the double reference, at every instruction-set level: outputs,
// weights, the gradients of inputs and of every parameter, for random modules and calls: heads,
// odd lengths, T != S, norm orders, activations, masks, causal, dropout, disabled heads, layouts,
// dtypes; with recompute the same bits, and one tape for all shapes.
//
// An error is judged relative to the largest number of its tensor; the bounds are about twice what
// is seen, which the tests print.
#include "base/philox.h"
#include "nn_support.h"
#include "ref/ref_tensor.h"
#include "ref/ref_transformer.h"

#include <inttypes.h>
#include <math.h>

enum { CASES = 60 };

typedef struct worst {
    double output, weights, inputs, parameters;
    double sum; // of all distances, and their number: the mean says more about bf16 than the worst
    size_t count;
} worst;

static const double bf16_mean = 0.01;

static const worst f32_bounds = {2e-6, 2e-6, 6e-6, 2e-5, 0, 0};
static const worst bf16_bounds = {0.06, 0.06, 0.4, 0.4, 0, 0};

static void print_worst(const char *what, const worst *w)
{
    print_message("%-12s output %.2g, weights %.2g, inputs' gradients %.2g, parameters' %.2g, "
                  "mean %.2g\n",
                  what, w->output, w->weights, w->inputs, w->parameters, w->sum / (double)w->count);
}

static void judge(uint64_t seed, const char *what, double distance, double bound, worst *w,
                  double *worst_one)
{
    *worst_one = fmax(*worst_one, distance);
    w->sum += distance;
    w->count++;
    if (!(distance <= bound))
        fail_msg("MH_TEST_SEED=%" PRIu64 " MH_TEST_CASES=1: %s is off by %.3g, expected %.3g", seed,
                 what, distance, bound);
}

// A copy of the parameters in double, and their names' gradients.
static ref_parameters wide_parameters(const mh_parameters *list)
{
    double *values = ref_alloc(list->floats, sizeof *values);
    for (size_t i = 0; i < list->floats; i++)
        values[i] = (double)list->values[i];
    return (ref_parameters){list, values, ref_alloc(list->floats, sizeof(double)), ""};
}

static void judge_parameters(uint64_t seed, const ref_parameters *p, const float *found,
                             double bound, worst *w)
{
    for (size_t i = 0; i < p->list->count; i++) {
        const mh_parameter *one = &p->list->list[i];
        judge(seed, one->name,
              nn_distance_floats(one->count, found + one->offset, p->gradients + one->offset),
              bound, w, &w->parameters);
    }
}

// A random mask, or none: bool, or numbers with -inf among them; every now and then all of a row.
static bool make_mask(test_rng *rng, int rank, const size_t *shape, test_tensor *mask)
{
    *mask = (test_tensor){0};
    if (test_chance(rng, 0.6))
        return false;
    const bool numbers = test_chance(rng, 0.5);
    const double rate = test_chance(rng, 0.2) ? 0.9 : 0.25;
    size_t index[MH_MAX_RANK] = {0};
    *mask = test_tensor_random(rng, numbers ? test_float_dtype(rng) : MH_BOOL, rank, shape, false);
    do {
        const bool dead = test_chance(rng, rate);
        ref_set(&mask->view, index, !numbers ? dead : dead ? -INFINITY : test_normal(rng));
    } while (ref_next(&mask->view, index));
    return true;
}

// ---- multi-head attention -----------------------------------------------------------------------

typedef struct mha_case {
    mh_mha_config config;
    size_t B, T, S, extra;
    bool unbatched;
    int first[3]; // for each input the one that it is the same as
    test_tensor inputs[3], dinputs[3], output, weights, doutput, padding, mask;
    mh_mha_options options;
} mha_case;

static mh_mha_config random_config(test_rng *rng, bool large)
{
    mh_mha_config c = mh_mha_config_default();
    c.num_heads = test_between(rng, 1, 4);
    c.embed_dim = c.num_heads * (large ? 64 : test_between(rng, 1, 20));
    c.rope = test_chance(rng, 0.3) && c.embed_dim / c.num_heads % 2 == 0;
    c.rope_interleaved = test_chance(rng, 0.5);
    c.kv_heads = test_chance(rng, 0.3) && c.num_heads % 2 == 0 ? c.num_heads / 2 : 0;
    c.input_dim = test_chance(rng, 0.2) ? test_between(rng, 1, 30) : 0;
    c.kdim = test_chance(rng, 0.2) ? test_between(rng, 1, 30) : 0;
    c.vdim = test_chance(rng, 0.2) ? test_between(rng, 1, 30) : 0;
    c.dropout = test_chance(rng, 0.3) ? 0.3f : 0;
    c.bias = test_chance(rng, 0.7);
    c.add_bias_kv = test_chance(rng, 0.3);
    c.add_zero_attn = test_chance(rng, 0.3);
    c.batch_first = test_chance(rng, 0.5);
    if (!c.kdim && !c.vdim && !c.kv_heads && test_chance(rng, 0.3))
        c.qkv = MH_QKV_INTERLEAVED;
    c.alibi = !c.add_bias_kv && !c.add_zero_attn && test_chance(rng, 0.3);
    c.sinks = test_chance(rng, 0.2);
    return c;
}

static void choose_same(test_rng *rng, mha_case *c, const size_t widths[3])
{
    static const int patterns[5][3] = {{0, 1, 2}, {0, 0, 0}, {0, 1, 1}, {0, 0, 2}, {0, 1, 0}};
    const int *pattern = patterns[test_between(rng, 0, 4)];
    for (int i = 0; i < 3; i++) {
        const int j = pattern[i];
        c->first[i] = widths[i] == widths[j] && (i == 0 || j > 0 || c->T == c->S) ? j : i;
    }
}

static const mh_attention_options *top_left(void)
{
    static mh_attention_options options;
    options = mh_attention_options_default();
    options.causal = MH_CAUSAL_TOP_LEFT;
    return &options;
}

static mha_case mha_case_create(test_rng *rng, mh_precision precision, bool large)
{
    mha_case c = {.config = random_config(rng, large)};
    mh_mha_config *m = &c.config;
    m->precision = precision;
    c.B = test_between(rng, 1, 3);
    c.T = test_between(rng, 1, large ? 150 : 20);
    c.S = test_chance(rng, 0.5) ? c.T : test_between(rng, 1, large ? 600 : 30);
    c.extra = (size_t)m->add_bias_kv + (size_t)m->add_zero_attn;
    c.unbatched = c.B == 1 && test_chance(rng, 0.5);
    const size_t input = m->input_dim ? m->input_dim : m->embed_dim;
    const size_t widths[3] = {input, m->kdim ? m->kdim : input, m->vdim ? m->vdim : input};
    choose_same(rng, &c, widths);
    const bool f = m->batch_first, u = c.unbatched;
    for (int i = 0; i < 3; i++) {
        const size_t length = i ? c.S : c.T;
        if (c.first[i] < i)
            continue;
        c.inputs[i] = nn_tensor(rng, test_float_dtype(rng), f, u, c.B, length, widths[i],
                                test_chance(rng, 0.5));
        c.dinputs[i] = nn_tensor(rng, test_float_dtype(rng), f, u, c.B, length, widths[i],
                                 test_chance(rng, 0.5));
    }
    c.output = nn_tensor(rng, test_float_dtype(rng), f, u, c.B, c.T, m->embed_dim, false);
    c.doutput = nn_tensor(rng, test_float_dtype(rng), f, u, c.B, c.T, m->embed_dim, false);
    c.options = mh_mha_options_default();
    c.options.per_head_weights = test_chance(rng, 0.5);
    const size_t keys = c.S + c.extra, H = m->num_heads;
    const size_t each[4] = {c.B, H, c.T, keys}, mean[3] = {c.B, c.T, keys};
    const bool heads = c.options.per_head_weights;
    c.weights =
        test_tensor_random(rng, MH_F32, (heads ? 4 : 3) - u, (heads ? each : mean) + u, false);
    c.options.first = (int64_t)test_between(rng, 0, 9);
    c.options.training = m->dropout > 0;
    c.options.seed = test_random(rng);
    c.options.step = 3, c.options.stream = 5;
    if (test_chance(rng, 0.3))
        c.options.attention = top_left();
    return c;
}

static void mha_case_masks(test_rng *rng, mha_case *c)
{
    const size_t BH = c->B * c->config.num_heads;
    const bool own = test_chance(rng, 0.5);
    const size_t all[3] = {BH, c->T, c->S}, padding[2] = {c->B, c->S};
    if (make_mask(rng, 2 - c->unbatched, padding + c->unbatched, &c->padding))
        c->options.key_padding_mask = &c->padding.view;
    if (make_mask(rng, own ? 3 : 2, own ? all : all + 1, &c->mask))
        c->options.attn_mask = &c->mask.view;
}

static void mha_case_free(mha_case *c)
{
    for (int i = 0; i < 3; i++) {
        test_tensor_free(&c->inputs[i]);
        test_tensor_free(&c->dinputs[i]);
    }
    test_tensor *rest[] = {&c->output, &c->weights, &c->doutput, &c->padding, &c->mask};
    for (size_t i = 0; i < 5; i++)
        test_tensor_free(rest[i]);
}

// The seed of the weights' dropout: philox of (step, stream) under the seed.
static uint64_t engine_seed(const mh_mha_options *o)
{
    const uint32_t counter[4] = {o->step, o->stream, 0, 0x5EED};
    const uint32_t key[2] = {(uint32_t)o->seed, (uint32_t)(o->seed >> 32)};
    uint32_t words[4];
    mh_philox(counter, key, words);
    return (uint64_t)words[1] << 32 | words[0];
}

static double average(const mha_case *c, const double *weights, size_t b, size_t t, size_t j)
{
    const size_t H = c->config.num_heads, keys = c->S + c->extra;
    double sum = 0;
    for (size_t h = 0; h < H; h++)
        sum += weights[((b * H + h) * c->T + t) * keys + j];
    return sum / (double)H;
}

static void judge_weights(const mha_case *c, uint64_t seed, const double *expected, double bound,
                          worst *w)
{
    const size_t H = c->config.num_heads, keys = c->S + c->extra;
    double *found = ref_load(&c->weights.view), distance = 0;
    size_t n = 0;
    if (c->options.per_head_weights)
        for (; n < c->B * H * c->T * keys; n++)
            distance = fmax(distance, fabs(found[n] - expected[n]));
    else
        for (size_t b = 0; b < c->B; b++)
            for (size_t t = 0; t < c->T; t++)
                for (size_t j = 0; j < keys; j++, n++)
                    distance = fmax(distance, fabs(found[n] - average(c, expected, b, t, j)));
    free(found);
    judge(seed, "weights", distance, bound, w, &w->weights);
}

static void check_mha(mh_context *context, mh_tape *tape, uint64_t seed, mh_precision precision,
                      bool large, worst *w)
{
    static const char *const names[3] = {"dquery", "dkey", "dvalue"};
    const worst *bounds = precision == MH_PRECISION_BF16 ? &bf16_bounds : &f32_bounds;
    test_rng rng = {seed};
    mha_case c = mha_case_create(&rng, precision, large);
    mha_case_masks(&rng, &c);
    c.options.tape = tape;
    mh_mha *mha;
    test_ok(context, mh_mha_create(context, &c.config, &mha));
    const mh_parameters *list = mh_mha_parameters(mha);
    nn_randomise(list, seed);
    ref_parameters wide = wide_parameters(list);
    float *gradients = ref_alloc(list->floats, sizeof *gradients);
    mh_tensor *in[3], *din[3];
    double *x[3], *dx[3];
    for (int i = 0; i < 3; i++) {
        in[i] = &c.inputs[c.first[i]].view;
        din[i] = c.first[i] < i ? NULL : &c.dinputs[i].view;
        x[i] = nn_load(in[i], c.config.batch_first);
        dx[i] = c.first[i] < i ? dx[c.first[i]] : ref_alloc(ref_count(in[i]), sizeof(double));
    }
    test_ok(context, mh_mha_forward(context, mha, &c.options, in[0], in[1], in[2], &c.output.view,
                                    &c.weights.view));
    test_ok(context, mh_mha_backward(context, mha, &c.options, in[0], in[1], in[2], &c.doutput.view,
                                     gradients, din[0], din[1], din[2]));

    const size_t D = c.config.embed_dim, H = c.config.num_heads;
    double *out = ref_alloc(c.B * c.T * D, sizeof *out);
    double *weights = ref_alloc(c.B * H * c.T * (c.S + c.extra), sizeof *weights);
    double *dout = nn_load(&c.doutput.view, c.config.batch_first);
    const ref_mha call = {c.config,
                          c.B,
                          c.T,
                          c.S,
                          x[0],
                          x[1],
                          x[2],
                          c.options.key_padding_mask,
                          c.options.attn_mask,
                          c.options.attention != NULL,
                          c.options.first,
                          c.options.training,
                          engine_seed(&c.options),
                          NULL};
    ref_mha_forward(&wide, &call, out, weights);
    ref_mha_backward(&wide, &call, dout, dx[0], dx[1], dx[2]);
    judge(seed, "output", nn_distance(&c.output.view, c.config.batch_first, out), bounds->output, w,
          &w->output);
    judge_weights(&c, seed, weights, bounds->weights, w);
    for (int i = 0; i < 3; i++)
        if (din[i])
            judge(seed, names[i], nn_distance(din[i], c.config.batch_first, dx[i]), bounds->inputs,
                  w, &w->inputs);
    judge_parameters(seed, &wide, gradients, bounds->parameters, w);
    assert_true(test_guards_intact(&c.output) && test_guards_intact(&c.weights));

    for (int i = 0; i < 3; i++) {
        free(x[i]);
        if (din[i])
            free(dx[i]);
    }
    free((double *)wide.values);
    free(wide.gradients);
    free(gradients);
    free(out);
    free(weights);
    free(dout);
    mh_mha_free(mha);
    mha_case_free(&c);
}

// ---- Transformers -------------------------------------------------------------------------------

typedef struct transformer_case {
    mh_transformer_config config;
    size_t B, S, T;
    bool decoder;
    test_tensor src, tgt, output, doutput, dsrc, dtgt, masks[6];
    bool disabled[8 * 4];
    mh_transformer_options options;
} transformer_case;

static mh_transformer_config random_transformer(test_rng *rng, bool large)
{
    mh_transformer_config c = mh_transformer_config_default();
    c.kind = (mh_transformer_kind)test_between(rng, 0, 4);
    c.nhead = test_between(rng, 1, 4);
    // Norms of two or three numbers leave nothing but their signs, and gradients of rounding
    // errors.
    c.d_model = c.nhead * (large ? 32 : test_between(rng, 6 / c.nhead, 12));
    c.num_encoder_layers = test_between(rng, 1, 2);
    c.num_decoder_layers = test_between(rng, 1, 2);
    c.dim_feedforward = large ? 300 : test_between(rng, 1, 50);
    c.dropout = 0.2f;
    c.activation = (mh_activation)test_between(rng, 0, 3);
    c.batch_first = test_chance(rng, 0.5);
    c.norm_first = test_chance(rng, 0.5);
    c.bias = test_chance(rng, 0.8);
    c.final_norm = test_chance(rng, 0.7);
    return c;
}

static void random_masks(test_rng *rng, transformer_case *c, bool unbatched)
{
    mh_transformer_options *o = &c->options;
    const mh_tensor **to[6] = {&o->src_mask,
                               &o->tgt_mask,
                               &o->memory_mask,
                               &o->src_key_padding_mask,
                               &o->tgt_key_padding_mask,
                               &o->memory_key_padding_mask};
    const size_t BH = c->B * c->config.nhead;
    const size_t shapes[6][3] = {{BH, c->S, c->S}, {BH, c->T, c->T}, {BH, c->T, c->S},
                                 {c->B, c->S},     {c->B, c->T},     {c->B, c->S}};
    for (int i = 0; i < 6; i++) {
        const bool less = i < 3 ? test_chance(rng, 0.5) : unbatched;
        if (make_mask(rng, (i < 3 ? 3 : 2) - less, shapes[i] + less, &c->masks[i]))
            *to[i] = &c->masks[i].view;
    }
}

static void transformer_case_create(test_rng *rng, mh_precision precision, bool large,
                                    transformer_case *c)
{
    *c = (transformer_case){.config = random_transformer(rng, large)};
    mh_transformer_config *m = &c->config;
    m->precision = precision;
    if (precision == MH_PRECISION_BF16 && m->activation == MH_RELU)
        m->activation = MH_GELU; // roundings would cross its kink
    c->decoder = m->kind != MH_ENCODER && m->kind != MH_ENCODER_LAYER;
    c->B = test_between(rng, 1, 3);
    c->S = test_between(rng, 1, large ? 90 : 20);
    c->T = c->decoder ? test_between(rng, 1, large ? 70 : 15) : 0;
    const bool f = m->batch_first, u = c->B == 1 && test_chance(rng, 0.5);
    const size_t length = c->decoder ? c->T : c->S;
    test_tensor *all[] = {&c->src, &c->dsrc, &c->tgt, &c->dtgt, &c->output, &c->doutput};
    const size_t lengths[] = {c->S, c->S, c->T, c->T, length, length};
    for (size_t i = 0; i < 6; i++)
        *all[i] = nn_tensor(rng, test_float_dtype(rng), f, u, c->B, lengths[i], m->d_model,
                            test_chance(rng, 0.5));
    c->options = mh_transformer_options_default();
    c->options.src_causal = test_chance(rng, 0.2);
    c->options.tgt_causal = test_chance(rng, 0.5);
    random_masks(rng, c, u);
    c->options.training = test_chance(rng, 0.3);
    c->options.seed = test_random(rng);
    c->options.step = 7;
    for (size_t i = 0; i < sizeof c->disabled; i++)
        c->disabled[i] = test_chance(rng, 0.3);
    c->options.disabled_heads = test_chance(rng, 0.3) ? c->disabled : NULL;
}

static void transformer_case_free(transformer_case *c)
{
    test_tensor *all[] = {&c->src, &c->dsrc, &c->tgt, &c->dtgt, &c->output, &c->doutput};
    for (size_t i = 0; i < 6; i++) {
        test_tensor_free(all[i]);
        test_tensor_free(&c->masks[i]);
    }
}

static void run_transformer(mh_context *context, const mh_transformer *module, transformer_case *c,
                            float *gradients)
{
    const mh_tensor *tgt = c->decoder ? &c->tgt.view : NULL;
    test_ok(context, mh_transformer_forward(context, module, &c->options, &c->src.view, tgt,
                                            &c->output.view));
    test_ok(context, mh_transformer_backward(context, module, &c->options, &c->src.view, tgt,
                                             &c->doutput.view, gradients, &c->dsrc.view,
                                             c->decoder ? &c->dtgt.view : NULL));
}

// What backward said to be final, at that time.
typedef struct ready_record {
    const float *gradients;
    float *final;
    size_t first, calls;
} ready_record;

static void record_ready(void *user, size_t first)
{
    ready_record *r = user;
    assert_true(first < r->first);
    memcpy(r->final + first, r->gradients + first, (r->first - first) * sizeof(float));
    r->first = first;
    r->calls++;
}

// Every layer was told, down to the first; nothing changed after it was said to be final.
static void check_ready(const mh_transformer *module, const transformer_case *c,
                        const ready_record *r)
{
    const mh_parameters *p = mh_transformer_parameters(module);
    const bool single = c->config.kind == MH_ENCODER_LAYER || c->config.kind == MH_DECODER_LAYER;
    size_t layers = single;
    if (c->config.kind == MH_TRANSFORMER || c->config.kind == MH_ENCODER)
        layers += c->config.num_encoder_layers;
    if (c->config.kind == MH_TRANSFORMER || c->config.kind == MH_DECODER)
        layers += c->config.num_decoder_layers;
    assert_int_equal(r->calls, layers);
    assert_int_equal(r->first, c->config.vocabulary ? p->list[0].count : 0);
    nn_same_bits("gradients that are said to be final", p->floats - r->first,
                 r->gradients + r->first, r->final + r->first);
}

// With a fresh tape that keeps less, and gradients written over anything instead of added to 0,
// everything once more: the same bytes.
static void check_recompute(mh_context *context, const mh_transformer *module, transformer_case *c,
                            size_t floats, const float *gradients)
{
    test_tensor *all[] = {&c->output, &c->dsrc, &c->dtgt};
    unsigned char *before[3];
    float *again = ref_alloc(floats, sizeof *again);
    for (size_t i = 0; i < floats; i++)
        again[i] = NAN;
    for (int i = 0; i < 3; i++) {
        before[i] = ref_alloc(all[i]->size, 1);
        memcpy(before[i], all[i]->bytes, all[i]->size);
    }
    mh_tape *tape, *kept = c->options.tape;
    test_ok(context, mh_tape_create(context, &tape));
    c->options.tape = tape;
    ready_record record = {again, ref_alloc(floats, sizeof(float)), floats, 0};
    c->options.recompute = c->options.overwrite_gradients = true;
    c->options.gradients_ready = record_ready;
    c->options.gradients_ready_user = &record;
    run_transformer(context, module, c, again);
    check_ready(module, c, &record);
    free(record.final);
    c->options.recompute = c->options.overwrite_gradients = false;
    c->options.gradients_ready = NULL;
    c->options.tape = kept;
    mh_tape_free(tape);
    nn_same_bits("a gradient with recompute and fresh gradients", floats, gradients, again);
    for (int i = 0; i < 3; i++) {
        assert_memory_equal(before[i], all[i]->bytes, all[i]->size);
        free(before[i]);
    }
    free(again);
}

static void check_transformer(mh_context *context, mh_tape *tape, uint64_t seed,
                              mh_precision precision, bool large, worst *w)
{
    const worst *bounds = precision == MH_PRECISION_BF16 ? &bf16_bounds : &f32_bounds;
    test_rng rng = {seed};
    transformer_case c;
    transformer_case_create(&rng, precision, large, &c);
    c.options.tape = tape;
    mh_transformer *module;
    test_ok(context, mh_transformer_create(context, &c.config, &module));
    const mh_parameters *list = mh_transformer_parameters(module);
    nn_randomise(list, seed);
    float *gradients = ref_alloc(list->floats, sizeof *gradients);
    run_transformer(context, module, &c, gradients);
    check_recompute(context, module, &c, list->floats, gradients);

    const bool f = c.config.batch_first;
    ref_transformer ref = {&c.config, &c.options, wide_parameters(list), c.B, c.S, c.T, 0, 0};
    double *src = nn_load(&c.src.view, f), *tgt = nn_load(&c.tgt.view, f);
    double *dout = nn_load(&c.doutput.view, f);
    double *out = ref_alloc(ref_count(&c.output.view), sizeof *out);
    double *dsrc = ref_alloc(ref_count(&c.src.view), sizeof *dsrc);
    double *dtgt = ref_alloc(ref_count(&c.tgt.view), sizeof *dtgt);
    ref_transformer_forward(&ref, src, c.decoder ? tgt : NULL, out);
    const bool kink = c.config.activation == MH_RELU && ref.nearest < 1e-5;
    judge(seed, "output", nn_distance(&c.output.view, f, out), bounds->output, w, &w->output);
    if (!kink) {
        ref_transformer_backward(&ref, src, c.decoder ? tgt : NULL, dout, dsrc, dtgt);
        judge(seed, "dsrc", nn_distance(&c.dsrc.view, f, dsrc), bounds->inputs, w, &w->inputs);
        if (c.decoder)
            judge(seed, "dtgt", nn_distance(&c.dtgt.view, f, dtgt), bounds->inputs, w, &w->inputs);
        judge_parameters(seed, &ref.parameters, gradients, bounds->parameters, w);
    }
    assert_true(test_guards_intact(&c.output) && test_guards_intact(&c.dsrc));

    double *all[] = {
        src, tgt, dout, out, dsrc, dtgt, (double *)ref.parameters.values, ref.parameters.gradients};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        free(all[i]);
    free(gradients);
    mh_transformer_free(module);
    transformer_case_free(&c);
}

// ---- all of it ----------------------------------------------------------------------------------

typedef void (*checker)(mh_context *context, mh_tape *tape, uint64_t seed, mh_precision precision,
                        bool large, worst *w);

static void everywhere(const char *what, checker check, mh_precision precision)
{
    for (size_t level = 0; test_level(level); level++) {
        mh_context *context = test_context(test_level(level), 2);
        mh_tape *tape;
        worst w = {0};
        char name[64];
        test_ok(context, mh_tape_create(context, &tape));
        for (size_t n = 0; n < test_cases(CASES); n++)
            check(context, tape, test_seed() + n, precision, n % 20 == 19, &w);
        snprintf(name, sizeof name, "%s, %s", what, test_level(level));
        print_worst(name, &w);
        assert_true(precision == MH_PRECISION_F32 || w.sum <= bf16_mean * (double)w.count);
        mh_tape_free(tape);
        mh_context_free(context);
    }
}

static void multi_head_attention(void **state)
{
    (void)state;
    everywhere("f32", check_mha, MH_PRECISION_F32);
}

static void multi_head_attention_bf16(void **state)
{
    (void)state;
    everywhere("bf16", check_mha, MH_PRECISION_BF16);
}

static void transformers(void **state)
{
    (void)state;
    everywhere("f32", check_transformer, MH_PRECISION_F32);
}

static void transformers_bf16(void **state)
{
    (void)state;
    everywhere("bf16", check_transformer, MH_PRECISION_BF16);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(multi_head_attention),
        cmocka_unit_test(multi_head_attention_bf16),
        cmocka_unit_test(transformers),
        cmocka_unit_test(transformers_bf16),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
