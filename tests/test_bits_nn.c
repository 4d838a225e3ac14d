// SPDX-License-Identifier: MIT
// The promise of equal bits for modules, by memcmp at every instruction-set level: 1 to 8 threads
// for forward, backward and a training step; a sequence alone, padded in a batch (with whatever in
// the padding) or packed; batch first or time first; with and without taps; two threads that share
// a module. Token by token: test_bits_decoding.
//
// The sizes cross tiles of 64 keys, and 64 rows of a norm's sums.
#include "nn_support.h"
#include "ref/ref_tensor.h"

#include <math.h>
#include <pthread.h>

enum { B = 3, S = 75, T = 41, D = 48, H = 3, F = 70, V = 29, LAYERS = 2 };

static mh_transformer_config config_of(mh_transformer_kind kind, bool norm_first, bool batch_first)
{
    mh_transformer_config c = mh_transformer_config_default();
    c.kind = kind;
    c.d_model = D;
    c.nhead = H;
    c.dim_feedforward = F;
    c.num_encoder_layers = c.num_decoder_layers = LAYERS;
    c.activation = MH_GELU;
    c.norm_first = norm_first;
    c.batch_first = batch_first;
    return c;
}

static mh_transformer *make(mh_context *context, const mh_transformer_config *config)
{
    mh_transformer *t;
    test_ok(context, mh_transformer_create(context, config, &t));
    nn_randomise(mh_transformer_parameters(t), 5);
    return t;
}

static float *normal_floats(uint64_t seed, size_t n)
{
    test_rng rng = {seed};
    float *x = ref_alloc(n, sizeof *x);
    for (size_t i = 0; i < n; i++)
        x[i] = (float)test_normal(&rng);
    return x;
}

static void at_every_level(void (*check)(const char *level))
{
    for (size_t level = 0; test_level(level); level++) {
        print_message("%s\n", test_level(level));
        check(test_level(level));
    }
}

// ---- threads ------------------------------------------------------------------------------------

// Everything that two training steps leave behind.
typedef struct trained {
    float *output, *gradients, *dsrc, *dtgt, *values;
    size_t floats;
    double loss, norm;
} trained;

static void trained_free(trained *t)
{
    float *all[] = {t->output, t->gradients, t->dsrc, t->dtgt, t->values};
    for (size_t i = 0; i < 5; i++)
        free(all[i]);
}

static void train_step(mh_context *context, mh_transformer *module, mh_tape *tape, uint32_t step,
                       float *m, float *v, trained *r)
{
    const mh_parameters *p = mh_transformer_parameters(module);
    float *src = normal_floats(step, B * S * D), *tgt = normal_floats(step + 50, B * T * D);
    float *table = normal_floats(9, V * D), *logits = ref_alloc(B * T * V, sizeof *logits);
    float *doutput = ref_alloc(B * T * D, sizeof *doutput);
    int64_t targets[B * T];
    for (int64_t i = 0; i < B * T; i++)
        targets[i] = i % 11 == 3 ? -100 : i * 7 % V;
    const mh_tensor src_view = mh_tensor_3d(src, MH_F32, S, B, D);
    const mh_tensor tgt_view = mh_tensor_3d(tgt, MH_F32, T, B, D);
    const mh_tensor output = mh_tensor_3d(r->output, MH_F32, T, B, D);
    const mh_tensor rows = mh_tensor_2d(r->output, MH_F32, B * T, D);
    const mh_tensor table_view = mh_tensor_2d(table, MH_F32, V, D);
    const mh_tensor logits_view = mh_tensor_2d(logits, MH_F32, B * T, V);
    const mh_tensor targets_view = mh_tensor_1d(targets, MH_I64, B * T);
    const mh_tensor drows = mh_tensor_2d(doutput, MH_F32, B * T, D);
    const mh_tensor dout = mh_tensor_3d(doutput, MH_F32, T, B, D);
    const mh_tensor dsrc = mh_tensor_3d(r->dsrc, MH_F32, S, B, D);
    const mh_tensor dtgt = mh_tensor_3d(r->dtgt, MH_F32, T, B, D);
    mh_transformer_options o = mh_transformer_options_default();
    o.tgt_causal = o.training = true;
    o.seed = 77;
    o.step = step;
    o.tape = tape;
    test_ok(context, mh_transformer_forward(context, module, &o, &src_view, &tgt_view, &output));
    test_ok(context, mh_linear(context, NULL, &rows, &table_view, &logits_view));
    test_ok(context, mh_cross_entropy(context, NULL, &logits_view, &targets_view, &r->loss, NULL,
                                      &logits_view));
    test_ok(context, mh_linear_backward(context, NULL, &rows, &table_view, &logits_view, &drows,
                                        NULL, NULL));
    memset(r->gradients, 0, p->floats * sizeof(float));
    test_ok(context, mh_transformer_backward(context, module, &o, &src_view, &tgt_view, &dout,
                                             r->gradients, &dsrc, &dtgt));
    test_ok(context, mh_gradient_norm(context, 1, &p->floats, (const float *const[]){r->gradients},
                                      &r->norm));
    mh_adamw_options a = mh_adamw_options_default();
    a.gradient_scale = mh_clip_factor(r->norm, 1);
    test_ok(context, mh_adamw_step(context, &a, step, p->floats, r->gradients, p->values, m, v));
    float *all[] = {src, tgt, table, logits, doutput};
    for (size_t i = 0; i < 5; i++)
        free(all[i]);
}

static trained train(mh_context *context, bool norm_first)
{
    mh_transformer_config config = config_of(MH_TRANSFORMER, norm_first, false);
    mh_transformer *module = make(context, &config);
    const mh_parameters *p = mh_transformer_parameters(module);
    trained r = {.floats = p->floats};
    r.output = ref_alloc(B * T * D, sizeof(float));
    r.dsrc = ref_alloc(B * S * D, sizeof(float));
    r.dtgt = ref_alloc(B * T * D, sizeof(float));
    r.gradients = ref_alloc(p->floats, sizeof(float));
    r.values = ref_alloc(p->floats, sizeof(float));
    float *m = ref_alloc(p->floats, sizeof *m), *v = ref_alloc(p->floats, sizeof *v);
    mh_tape *tape;
    test_ok(context, mh_tape_create(context, &tape));
    for (uint32_t step = 1; step <= 2; step++)
        train_step(context, module, tape, step, m, v, &r);
    memcpy(r.values, p->values, p->floats * sizeof(float));
    free(m);
    free(v);
    mh_tape_free(tape);
    mh_transformer_free(module);
    return r;
}

static void same_training(const trained *a, const trained *b)
{
    nn_same_bits("output", B * T * D, a->output, b->output);
    nn_same_bits("dsrc", B * S * D, a->dsrc, b->dsrc);
    nn_same_bits("dtgt", B * T * D, a->dtgt, b->dtgt);
    nn_same_bits("gradients", a->floats, a->gradients, b->gradients);
    nn_same_bits("parameters", a->floats, a->values, b->values);
    assert_memory_equal(&a->loss, &b->loss, sizeof a->loss);
    assert_memory_equal(&a->norm, &b->norm, sizeof a->norm);
    assert_true(isfinite(a->loss) && a->norm > 0);
}

static void threads_at(const char *level)
{
    for (int norm_first = 0; norm_first < 2; norm_first++) {
        trained first = {0};
        for (size_t threads = 1; threads <= 8; threads++) {
            mh_context *context = test_context(level, threads);
            trained r = train(context, norm_first);
            if (threads > 1)
                same_training(&first, &r);
            else
                first = r;
            if (threads > 1)
                trained_free(&r);
            mh_context_free(context);
        }
        trained_free(&first);
    }
}

static void training_with_any_threads(void **state)
{
    (void)state;
    at_every_level(threads_at);
}

// ---- alone, padded, packed ----------------------------------------------------------------------

static const size_t src_lengths[B] = {S, 20, 64}, tgt_lengths[B] = {T, 7, 33};

typedef struct problem {
    mh_context *context;
    mh_transformer *module; // batch first
    float *src, *tgt, *dout;
} problem;

// Results of a call, rows of all sequences one after the other without padding.
typedef struct result {
    float *output, *dsrc, *dtgt;
} result;

static result result_create(void)
{
    return (result){ref_alloc(B * T * D, sizeof(float)), ref_alloc(B * S * D, sizeof(float)),
                    ref_alloc(B * T * D, sizeof(float))};
}

static void result_free(result *r)
{
    free(r->output);
    free(r->dsrc);
    free(r->dtgt);
}

static size_t total(const size_t *lengths)
{
    size_t sum = 0;
    for (size_t b = 0; b < B; b++)
        sum += lengths[b];
    return sum;
}

// Forward and backward of views into r.
static void call(const problem *p, mh_transformer_options *o, const mh_tensor *src,
                 const mh_tensor *tgt, const mh_tensor *dout, float *output, float *dsrc,
                 float *dtgt)
{
    mh_tape *tape;
    test_ok(p->context, mh_tape_create(p->context, &tape));
    o->tape = tape;
    o->tgt_causal = true;
    const mh_tensor out = mh_tensor_view(output, MH_F32, tgt->rank, tgt->shape);
    const mh_tensor ds = mh_tensor_view(dsrc, MH_F32, src->rank, src->shape);
    const mh_tensor dt = mh_tensor_view(dtgt, MH_F32, tgt->rank, tgt->shape);
    test_ok(p->context, mh_transformer_forward(p->context, p->module, o, src, tgt, &out));
    test_ok(p->context,
            mh_transformer_backward(p->context, p->module, o, src, tgt, dout, NULL, &ds, &dt));
    mh_tape_free(tape);
}

static result run_alone(const problem *p)
{
    result r = result_create();
    for (size_t b = 0, s = 0, t = 0; b < B; s += src_lengths[b], t += tgt_lengths[b], b++) {
        mh_transformer_options o = mh_transformer_options_default();
        const mh_tensor src = mh_tensor_2d(p->src + b * S * D, MH_F32, src_lengths[b], D);
        const mh_tensor tgt = mh_tensor_2d(p->tgt + b * T * D, MH_F32, tgt_lengths[b], D);
        const mh_tensor dout = mh_tensor_2d(p->dout + b * T * D, MH_F32, tgt_lengths[b], D);
        call(p, &o, &src, &tgt, &dout, r.output + t * D, r.dsrc + s * D, r.dtgt + t * D);
    }
    return r;
}

static float *copy_rows(const float *padded, size_t length, const size_t *lengths)
{
    float *dense = ref_alloc(B * length * D, sizeof *dense);
    for (size_t b = 0, row = 0; b < B; row += lengths[b], b++)
        memcpy(dense + row * D, padded + b * length * D, lengths[b] * D * sizeof *dense);
    return dense;
}

static result run_packed(const problem *p)
{
    result r = result_create();
    int64_t src_starts[B + 1] = {0}, tgt_starts[B + 1] = {0};
    for (size_t b = 0; b < B; b++) {
        src_starts[b + 1] = src_starts[b] + (int64_t)src_lengths[b];
        tgt_starts[b + 1] = tgt_starts[b] + (int64_t)tgt_lengths[b];
    }
    float *src = copy_rows(p->src, S, src_lengths), *tgt = copy_rows(p->tgt, T, tgt_lengths);
    float *dout = copy_rows(p->dout, T, tgt_lengths);
    mh_transformer_options o = mh_transformer_options_default();
    o.sequences = B;
    o.src_starts = src_starts;
    o.tgt_starts = tgt_starts;
    const mh_tensor src_view = mh_tensor_2d(src, MH_F32, total(src_lengths), D);
    const mh_tensor tgt_view = mh_tensor_2d(tgt, MH_F32, total(tgt_lengths), D);
    const mh_tensor dout_view = mh_tensor_2d(dout, MH_F32, total(tgt_lengths), D);
    call(p, &o, &src_view, &tgt_view, &dout_view, r.output, r.dsrc, r.dtgt);
    free(src);
    free(tgt);
    free(dout);
    return r;
}

static void fill_padding(float *x, size_t length, const size_t *lengths, float value)
{
    for (size_t b = 0; b < B; b++)
        for (size_t i = lengths[b] * D; i < length * D; i++)
            x[b * length * D + i] = value;
}

// In the padding `junk` goes in, and no gradient comes back.
static result run_padded(const problem *p, float junk)
{
    result r = result_create(), wide = result_create();
    bool src_padding[B * S], tgt_padding[B * T];
    for (size_t i = 0; i < B * S; i++)
        src_padding[i] = i % S >= src_lengths[i / S];
    for (size_t i = 0; i < B * T; i++)
        tgt_padding[i] = i % T >= tgt_lengths[i / T];
    const mh_tensor src_mask = mh_tensor_2d(src_padding, MH_BOOL, B, S);
    const mh_tensor tgt_mask = mh_tensor_2d(tgt_padding, MH_BOOL, B, T);
    mh_transformer_options o = mh_transformer_options_default();
    o.src_key_padding_mask = o.memory_key_padding_mask = &src_mask;
    o.tgt_key_padding_mask = &tgt_mask;
    fill_padding(p->src, S, src_lengths, junk);
    fill_padding(p->tgt, T, tgt_lengths, junk);
    fill_padding(p->dout, T, tgt_lengths, 0);
    const mh_tensor src = mh_tensor_3d(p->src, MH_F32, B, S, D);
    const mh_tensor tgt = mh_tensor_3d(p->tgt, MH_F32, B, T, D);
    const mh_tensor dout = mh_tensor_3d(p->dout, MH_F32, B, T, D);
    call(p, &o, &src, &tgt, &dout, wide.output, wide.dsrc, wide.dtgt);
    result_free(&r);
    r = (result){copy_rows(wide.output, T, tgt_lengths), copy_rows(wide.dsrc, S, src_lengths),
                 copy_rows(wide.dtgt, T, tgt_lengths)};
    result_free(&wide);
    return r;
}

static void same_result(const char *how, const result *a, const result *b, bool gradients)
{
    char what[64];
    snprintf(what, sizeof what, "output, %s", how);
    nn_same_bits(what, total(tgt_lengths) * D, a->output, b->output);
    snprintf(what, sizeof what, "dsrc, %s", how);
    nn_same_bits(what, gradients ? total(src_lengths) * D : 0, a->dsrc, b->dsrc);
    snprintf(what, sizeof what, "dtgt, %s", how);
    nn_same_bits(what, gradients ? total(tgt_lengths) * D : 0, a->dtgt, b->dtgt);
}

static void company_at(const char *level)
{
    mh_context *context = test_context(level, 2);
    for (int n = 0; n < 4; n++) {
        mh_transformer_config config = config_of(MH_TRANSFORMER, n & 1, true);
        config.precision = n & 2 ? MH_PRECISION_BF16 : MH_PRECISION_F32;
        problem p = {context, make(context, &config), normal_floats(1, B * S * D),
                     normal_floats(2, B * T * D), normal_floats(3, B * T * D)};
        result alone = run_alone(&p), packed = run_packed(&p), padded = run_padded(&p, 3);
        result nan = run_padded(&p, NAN); // leaks only backwards, from queries to keys
        same_result("packed", &alone, &packed, true);
        same_result("padded", &alone, &padded, true);
        same_result("padded with NaN", &alone, &nan, false);
        result *all[] = {&alone, &packed, &padded, &nan};
        for (size_t i = 0; i < 4; i++)
            result_free(all[i]);
        free(p.src);
        free(p.tgt);
        free(p.dout);
        mh_transformer_free(p.module);
    }
    mh_context_free(context);
}

static void alone_padded_or_packed(void **state)
{
    (void)state;
    at_every_level(company_at);
}

// ---- batch first --------------------------------------------------------------------------------

static void layout_at(const char *level)
{
    mh_context *context = test_context(level, 2);
    float *src = normal_floats(1, B * S * D), *tgt = normal_floats(2, B * T * D);
    float *dout = normal_floats(3, B * T * D);
    result r[2] = {result_create(), result_create()};
    for (int first = 0; first < 2; first++) {
        mh_transformer_config config = config_of(MH_TRANSFORMER, true, first);
        mh_transformer *module = make(context, &config);
        mh_tape *tape;
        test_ok(context, mh_tape_create(context, &tape));
        mh_transformer_options o = mh_transformer_options_default();
        o.tape = tape;
        o.tgt_causal = true;
        mh_tensor t[6] = {mh_tensor_3d(src, MH_F32, B, S, D),
                          mh_tensor_3d(tgt, MH_F32, B, T, D),
                          mh_tensor_3d(dout, MH_F32, B, T, D),
                          mh_tensor_3d(r[first].output, MH_F32, B, T, D),
                          mh_tensor_3d(r[first].dsrc, MH_F32, B, S, D),
                          mh_tensor_3d(r[first].dtgt, MH_F32, B, T, D)};
        for (int i = 0; i < 6 && !first; i++)
            t[i] = mh_tensor_swap(t[i], 0, 1);
        test_ok(context, mh_transformer_forward(context, module, &o, &t[0], &t[1], &t[3]));
        test_ok(context, mh_transformer_backward(context, module, &o, &t[0], &t[1], &t[2], NULL,
                                                 &t[4], &t[5]));
        mh_tape_free(tape);
        mh_transformer_free(module);
    }
    nn_same_bits("output, time first", B * T * D, r[0].output, r[1].output);
    nn_same_bits("dsrc, time first", B * S * D, r[0].dsrc, r[1].dsrc);
    nn_same_bits("dtgt, time first", B * T * D, r[0].dtgt, r[1].dtgt);
    result_free(&r[0]);
    result_free(&r[1]);
    free(src);
    free(tgt);
    free(dout);
    mh_context_free(context);
}

static void batch_first_or_time_first(void **state)
{
    (void)state;
    at_every_level(layout_at);
}

// ---- taps ---------------------------------------------------------------------------------------

// The weights of the first layer's self-attention, from a module of its own.
static float *weights_of_mha(mh_context *context, const mh_transformer *module,
                             const mh_tensor *src, float *output)
{
    mh_mha_config config = mh_mha_config_default();
    config.embed_dim = D;
    config.num_heads = H;
    config.batch_first = true;
    mh_mha *mha;
    test_ok(context, mh_mha_create(context, &config, &mha));
    const mh_parameters *to = mh_mha_parameters(mha), *from = mh_transformer_parameters(module);
    for (size_t i = 0; i < to->count; i++) {
        char name[96];
        snprintf(name, sizeof name, "encoder.layers.0.self_attn.%s", to->list[i].name);
        const mh_parameter *p = mh_parameters_find(from, name);
        assert_non_null(p);
        assert_int_equal(p->count, to->list[i].count);
        memcpy(to->values + to->list[i].offset, from->values + p->offset, p->count * sizeof(float));
    }
    float *weights = ref_alloc(B * H * S * S, sizeof *weights);
    const mh_tensor view = mh_tensor_4d(weights, MH_F32, B, H, S, S);
    const mh_tensor out = mh_tensor_3d(output, MH_F32, B, S, D);
    mh_mha_options o = mh_mha_options_default();
    o.per_head_weights = true;
    test_ok(context, mh_mha_forward(context, mha, &o, src, src, src, &out, &view));
    mh_mha_free(mha);
    return weights;
}

static float *tap_memory(size_t count)
{
    float *memory = ref_alloc(count, sizeof *memory);
    for (size_t i = 0; i < count; i++)
        memory[i] = NAN;
    return memory;
}

static void add_further_taps(mh_tap *tap, size_t Q, size_t K)
{
    tap->q = mh_tensor_4d(tap_memory(B * Q * D), MH_F32, B, H, Q, D / H);
    tap->k = mh_tensor_4d(tap_memory(B * K * D), MH_F32, B, H, K, D / H);
    tap->v = mh_tensor_4d(tap_memory(B * K * D), MH_F32, B, H, K, D / H);
    tap->out = mh_tensor_3d(tap_memory(B * Q * D), MH_F32, B, Q, D);
}

static const float *parameter(const mh_transformer *module, const char *layer, size_t i,
                              const char *name)
{
    char full[128];
    snprintf(full, sizeof full, "%s%zu.%s", layer, i, name);
    const mh_parameters *all = mh_transformer_parameters(module);
    const mh_parameter *p = mh_parameters_find(all, full);
    assert_non_null(p);
    return all->values + p->offset;
}

// One query of a tap by hand, in double: softmax(q k / sqrt(E)) gives its weights, and the output
// projection of the weighted values its output.
static void check_query(const mh_tap *tap, const float *matrix, const float *bias, size_t b,
                        size_t t)
{
    enum { E = D / H };
    const size_t Q = tap->q.shape[2], K = tap->k.shape[2];
    const size_t seen = tap->kind == MH_TAP_DECODER ? t + 1 : K;
    const float *q = tap->q.data, *k = tap->k.data, *v = tap->v.data, *w = tap->weights.data;
    double heads[D] = {0};
    for (size_t h = 0; h < H; h++) {
        double weight[S + T], sum = 0;
        for (size_t s = 0; s < seen; s++) {
            double score = 0;
            for (size_t e = 0; e < E; e++)
                score += (double)q[((b * H + h) * Q + t) * E + e] *
                         (double)k[((b * H + h) * K + s) * E + e];
            sum += weight[s] = exp(score / sqrt(E));
        }
        for (size_t s = 0; s < seen; s++) {
            if (tap->weights.shape[1] == H)
                assert_true(fabs(weight[s] / sum - (double)w[((b * H + h) * Q + t) * K + s]) <
                            1e-5);
            for (size_t e = 0; e < E; e++)
                heads[h * E + e] += weight[s] / sum * (double)v[((b * H + h) * K + s) * E + e];
        }
    }
    for (size_t d = 0; d < D; d++) {
        double sum = (double)bias[d];
        for (size_t e = 0; e < D; e++)
            sum += heads[e] * (double)matrix[d * D + e];
        assert_true(fabs(sum - (double)((const float *)tap->out.data)[(b * Q + t) * D + d]) < 1e-4);
    }
}

static void check_further_taps(const mh_transformer *module, const mh_tap *tap)
{
    const char *layer = tap->kind == MH_TAP_ENCODER ? "encoder.layers." : "decoder.layers.";
    const bool cross = tap->kind == MH_TAP_CROSS;
    const float *matrix =
        parameter(module, layer, tap->layer,
                  cross ? "multihead_attn.out_proj.weight" : "self_attn.out_proj.weight");
    const float *bias =
        parameter(module, layer, tap->layer,
                  cross ? "multihead_attn.out_proj.bias" : "self_attn.out_proj.bias");
    for (size_t b = 0; b < B; b++)
        for (size_t t = 0; t < tap->q.shape[2]; t++)
            check_query(tap, matrix, bias, b, t);
    void *all[] = {tap->q.data, tap->k.data, tap->v.data, tap->out.data};
    for (size_t i = 0; i < 4; i++)
        free(all[i]);
}

// What does not fit is refused by name, and nothing else is.
static void refuse_taps(mh_context *context, const mh_transformer *module, mh_tap good,
                        const mh_tensor *src, const mh_tensor *tgt, const mh_tensor *out)
{
    static const char *const names[] = {"tap.q", "tap.k", "tap.v", "tap.out"};
    mh_tap tap = good;
    mh_tensor *tensors[] = {&tap.q, &tap.k, &tap.v, &tap.out};
    mh_transformer_options o = mh_transformer_options_default();
    o.taps = &tap;
    o.tap_count = 1;
    for (size_t i = 0; i < 4; i++) {
        tap = good;
        tensors[i]->shape[1]--;
        assert_int_equal(mh_transformer_forward(context, module, &o, src, tgt, out),
                         MH_ERROR_ARGUMENT);
        assert_non_null(strstr(mh_error_message(context), names[i]));
        tap = good;
        tensors[i]->dtype = MH_I32;
        assert_int_equal(mh_transformer_forward(context, module, &o, src, tgt, out),
                         MH_ERROR_UNSUPPORTED);
        assert_non_null(strstr(mh_error_message(context), names[i]));
    }
    tap = (mh_tap){.kind = good.kind, .layer = good.layer, .v = good.v}; // nothing but v
    test_ok(context, mh_transformer_forward(context, module, &o, src, tgt, out));
}

static void taps_at(const char *level)
{
    mh_context *context = test_context(level, 2);
    mh_transformer_config config = config_of(MH_TRANSFORMER, false, true);
    mh_transformer *module = make(context, &config);
    float *src = normal_floats(1, B * S * D), *tgt = normal_floats(2, B * T * D);
    float *plain = ref_alloc(B * T * D, sizeof *plain), *tapped = ref_alloc(B * T * D, sizeof *src);
    float *output = ref_alloc(B * S * D, sizeof *output);
    const mh_tensor src_view = mh_tensor_3d(src, MH_F32, B, S, D);
    const mh_tensor tgt_view = mh_tensor_3d(tgt, MH_F32, B, T, D);
    const mh_tensor plain_view = mh_tensor_3d(plain, MH_F32, B, T, D);
    const mh_tensor tapped_view = mh_tensor_3d(tapped, MH_F32, B, T, D);
    const size_t Q[3] = {S, T, T}, K[3] = {S, T, S}, last[1] = {H - 1};
    mh_tap taps[3 * LAYERS];
    for (size_t i = 0; i < 3 * LAYERS; i++) {
        const size_t kind = i / LAYERS, heads = i == 1 ? 1 : H;
        taps[i] = (mh_tap){.kind = (mh_tap_kind)kind, .layer = i % LAYERS};
        if (heads == 1)
            taps[i].heads = last, taps[i].head_count = 1;
        float *memory = ref_alloc(B * heads * Q[kind] * K[kind], sizeof *memory);
        taps[i].weights = mh_tensor_4d(memory, MH_F32, B, heads, Q[kind], K[kind]);
        add_further_taps(&taps[i], Q[kind], K[kind]);
    }
    mh_transformer_options o = mh_transformer_options_default();
    o.tgt_causal = true;
    test_ok(context,
            mh_transformer_forward(context, module, &o, &src_view, &tgt_view, &plain_view));
    o.taps = taps;
    o.tap_count = 3 * LAYERS;
    test_ok(context,
            mh_transformer_forward(context, module, &o, &src_view, &tgt_view, &tapped_view));
    nn_same_bits("output with taps", B * T * D, plain, tapped);
    float *weights = weights_of_mha(context, module, &src_view, output);
    nn_same_bits("tap", B * H * S * S, taps[0].weights.data, weights);
    nn_same_bits("tap of the output", B * S * D, taps[0].out.data, output);
    refuse_taps(context, module, taps[2 * LAYERS], &src_view, &tgt_view, &plain_view);
    for (size_t i = 0; i < 3 * LAYERS; i++) { // rows of weights add up to 1
        const size_t keys = taps[i].weights.shape[3];
        const float *w = taps[i].weights.data;
        for (size_t row = 0; row < ref_count(&taps[i].weights) / keys; row++) {
            double sum = 0;
            for (size_t j = 0; j < keys; j++)
                sum += (double)w[row * keys + j];
            assert_true(fabs(sum - 1) < 1e-5);
        }
        check_further_taps(module, &taps[i]);
        free(taps[i].weights.data);
    }
    float *all[] = {src, tgt, plain, tapped, output, weights};
    for (size_t i = 0; i < 6; i++)
        free(all[i]);
    mh_transformer_free(module);
    mh_context_free(context);
}

static void taps_change_nothing(void **state)
{
    (void)state;
    at_every_level(taps_at);
}

// ---- two threads, one module --------------------------------------------------------------------

typedef struct user {
    const mh_transformer *module;
    const float *src;
    float *output, *dsrc, *gradients;
    bool fine;
} user;

static void *use(void *arg)
{
    user *u = arg;
    mh_context_options options = mh_context_options_default();
    options.threads = 2;
    mh_context *context;
    mh_tape *tape = NULL;
    if (mh_context_create(&options, &context, NULL, 0))
        return NULL;
    u->fine = !mh_tape_create(context, &tape);
    mh_transformer_options o = mh_transformer_options_default();
    o.tape = tape;
    const size_t floats = mh_transformer_parameters(u->module)->floats;
    const mh_tensor src = mh_tensor_3d((float *)u->src, MH_F32, S, B, D);
    const mh_tensor out = mh_tensor_3d(u->output, MH_F32, S, B, D);
    const mh_tensor dsrc = mh_tensor_3d(u->dsrc, MH_F32, S, B, D);
    for (int n = 0; n < 10 && u->fine; n++) {
        memset(u->gradients, 0, floats * sizeof(float));
        u->fine = !mh_transformer_forward(context, u->module, &o, &src, NULL, &out) &&
                  !mh_transformer_backward(context, u->module, &o, &src, NULL, &src, u->gradients,
                                           &dsrc, NULL);
    }
    mh_tape_free(tape);
    mh_context_free(context);
    return NULL;
}

static void two_threads_share_a_module(void **state)
{
    (void)state;
    mh_context *context = test_context(NULL, 1);
    mh_transformer_config config = config_of(MH_ENCODER, false, false);
    mh_transformer *module = make(context, &config);
    const size_t floats = mh_transformer_parameters(module)->floats;
    float *src = normal_floats(1, B * S * D);
    user users[3];
    pthread_t threads[2];
    for (int i = 0; i < 3; i++)
        users[i] = (user){module,
                          src,
                          ref_alloc(B * S * D, sizeof(float)),
                          ref_alloc(B * S * D, sizeof(float)),
                          ref_alloc(floats, sizeof(float)),
                          false};
    use(&users[2]);
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, use, &users[i]), 0);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    for (int i = 0; i < 3; i++) {
        assert_true(users[i].fine);
        nn_same_bits("output", B * S * D, users[i].output, users[2].output);
        nn_same_bits("dsrc", B * S * D, users[i].dsrc, users[2].dsrc);
        nn_same_bits("gradients", floats, users[i].gradients, users[2].gradients);
    }
    for (int i = 0; i < 3; i++) {
        free(users[i].output);
        free(users[i].dsrc);
        free(users[i].gradients);
    }
    free(src);
    mh_transformer_free(module);
    mh_context_free(context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(training_with_any_threads),  cmocka_unit_test(alone_padded_or_packed),
        cmocka_unit_test(batch_first_or_time_first),  cmocka_unit_test(taps_change_nothing),
        cmocka_unit_test(two_threads_share_a_module),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
