// SPDX-License-Identifier: MIT
// The reference gradients of tests/ref/ref_mha.c and ref_transformer.c, proven: central differences
// of the reference forward, all in double, within rtol 1e-6 and atol 1e-9, for linear layers,
// multi-head attention with every option, an encoder layer, a decoder layer, stacks, and a 2+2
// Transformer with its loss. What the library computes is compared with these references in
// test_transformer.
//
// Differences over +-h and +-2h, combined so that the error is of order h^4. Where one of the four
// points lies beyond a kink of ReLU, there is no derivative to compare with: it is left out and
// counted.
#include "ref/ref_layers.h"
#include "ref/ref_tensor.h"
#include "ref/ref_transformer.h"
#include "support.h"

#include <math.h>

static const double step = 0x1p-11;

enum { SAMPLES = 20 }; // elements of a tensor, evenly spread

// A function of some numbers; *signs tells on which side of all kinks it was.
typedef double (*function)(void *arg, uint64_t *signs);

typedef struct tally {
    size_t proven, kinks;
} tally;

static void prove(const char *what, function f, void *arg, size_t n, double *x,
                  const double *gradient, tally *t)
{
    static const double offsets[4] = {-2, -1, 1, 2};
    uint64_t first, signs;
    f(arg, &first);
    for (size_t i = 0; i < n; i += n / SAMPLES + 1) {
        const double middle = x[i];
        double value[4];
        bool kink = false;
        for (int k = 0; k < 4; k++) {
            x[i] = middle + offsets[k] * step;
            value[k] = f(arg, &signs);
            kink |= signs != first;
        }
        x[i] = middle;
        t->kinks += kink;
        t->proven += !kink;
        const double expected = (8 * (value[2] - value[1]) - (value[3] - value[0])) / (12 * step);
        if (!kink && !(fabs(gradient[i] - expected) <= 1e-9 + 1e-6 * fabs(expected)))
            fail_msg("%s, element %zu: found %.12g, expected %.12g", what, i, gradient[i],
                     expected);
    }
}

// Most derivatives must have been comparable.
static void enough(const tally *t)
{
    print_message("%zu derivatives proven, %zu at a kink\n", t->proven, t->kinks);
    assert_true(t->proven > 9 * t->kinks && t->proven > 0);
}

static double *random_numbers(test_rng *rng, size_t n, double magnitude)
{
    double *x = ref_alloc(n, sizeof *x);
    for (size_t i = 0; i < n; i++) // on the grid of the steps, as sinks are floats
        x[i] = round(magnitude * test_normal(rng) / step) * step;
    return x;
}

static double weighted(size_t n, const double *a, const double *b)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += a[i] * b[i];
    return sum;
}

// ---- multi-head attention -----------------------------------------------------------------------

enum { B = 2, T = 3, S = 4 };

typedef struct mha_case {
    ref_parameters parameters;
    ref_mha call;
    double *inputs[3], *dout;
} mha_case;

static double mha_loss(void *arg, uint64_t *signs)
{
    const mha_case *c = arg;
    const size_t n = B * T * c->call.config.embed_dim;
    double *out = ref_alloc(n, sizeof *out);
    ref_mha_forward(&c->parameters, &c->call, out, NULL);
    const double sum = weighted(n, out, c->dout);
    free(out);
    *signs = 0;
    return sum;
}

static size_t count_of(int input, size_t width) { return B * width * (input ? S : T); }

static void prove_mha(mh_context *context, const mh_mha_config *config, bool masks, uint64_t seed,
                      tally *t)
{
    static const char *const names[3] = {"dquery", "dkey", "dvalue"};
    test_rng rng = {seed};
    mh_mha *mha;
    test_ok(context, mh_mha_create(context, config, &mha));
    const mh_parameters *list = mh_mha_parameters(mha);
    const size_t widths[3] = {config->input_dim ? config->input_dim : config->embed_dim,
                              config->kdim ? config->kdim : config->embed_dim,
                              config->vdim ? config->vdim : config->embed_dim};
    mha_case c = {.call = {.config = *config, .B = B, .T = T, .S = S, .first = 5}};
    double *values = random_numbers(&rng, list->floats, 0.5), *gradients[3];
    double *dvalues = ref_alloc(list->floats, sizeof *dvalues);
    c.parameters = (ref_parameters){list, values, dvalues, ""};
    for (int i = 0; i < 3; i++) {
        const size_t n = count_of(i, widths[i]);
        c.inputs[i] = random_numbers(&rng, n, 1);
        gradients[i] = ref_alloc(n, sizeof(double));
    }
    c.call.query = c.inputs[0], c.call.key = c.inputs[1], c.call.value = c.inputs[2];
    c.call.training = config->dropout > 0;
    c.dout = random_numbers(&rng, B * T * config->embed_dim, 1);
    uint8_t padding[B * S] = {0, 1, 0, 0, 1, 1, 1, 1}; // the second sequence has no live key
    double mask[T * S] = {0, -1, 0.5, 0, 0, 0, 0, -INFINITY};
    const mh_tensor padding_view = mh_tensor_2d(padding, MH_BOOL, B, S);
    const mh_tensor mask_view = mh_tensor_2d(mask, MH_F64, T, S);
    c.call.key_padding_mask = masks ? &padding_view : NULL;
    c.call.attn_mask = masks ? &mask_view : NULL;

    ref_mha_backward(&c.parameters, &c.call, c.dout, gradients[0], gradients[1], gradients[2]);
    for (int i = 0; i < 3; i++)
        prove(names[i], mha_loss, &c, count_of(i, widths[i]), c.inputs[i], gradients[i], t);
    for (size_t i = 0; i < list->count; i++)
        prove(list->list[i].name, mha_loss, &c, list->list[i].count, values + list->list[i].offset,
              dvalues + list->list[i].offset, t);
    for (int i = 0; i < 3; i++) {
        free(c.inputs[i]);
        free(gradients[i]);
    }
    free(c.dout);
    free(values);
    free(dvalues);
    mh_mha_free(mha);
}

static void multi_head_attention(void **state)
{
    (void)state;
    mh_context *context = test_context(NULL, 1);
    tally t = {0};
    for (int n = 0; n < 16; n++) {
        mh_mha_config config = mh_mha_config_default();
        config.embed_dim = 8;
        config.num_heads = 2;
        config.bias = n % 3 != 2;
        config.kv_heads = n % 4 == 1;
        config.kdim = n % 4 == 2 ? 3 : 0;
        config.vdim = n % 4 == 2 ? 5 : 0;
        config.input_dim = n % 8 == 2 ? 6 : 0;
        config.add_bias_kv = n & 4;
        config.add_zero_attn = n & 8;
        config.rope = n % 5 == 3;
        config.rope_interleaved = n % 2;
        config.alibi = n % 5 == 4;
        config.sinks = n % 5 == 2;
        config.qkv = n % 4 == 3 ? MH_QKV_INTERLEAVED : MH_QKV_STACKED;
        config.dropout = n % 7 == 1 ? 0.3f : 0;
        prove_mha(context, &config, n % 2, test_seed() + (uint64_t)n, &t);
    }
    enough(&t);
    mh_context_free(context);
}

// ---- Transformers -------------------------------------------------------------------------------

enum { D = 6, V = 5 };

typedef struct transformer_case {
    ref_transformer t;
    double *src, *tgt, *dout;
    size_t outputs;      // numbers of the output
    const double *table; // (V, D): logits = output table^T, with loss; else NULL
    int64_t *targets;    // (rows)
} transformer_case;

static double loss_of(transformer_case *c, double *doutput)
{
    double *out = ref_alloc(c->outputs, sizeof *out), loss = 0;
    ref_transformer_forward(&c->t, c->src, c->tgt, out);
    if (!c->table) {
        loss = weighted(c->outputs, out, c->dout);
        if (doutput)
            memcpy(doutput, c->dout, c->outputs * sizeof *doutput);
    } else {
        const size_t rows = c->outputs / D;
        double *logits = ref_alloc(rows * V, sizeof *logits);
        double *dlogits = ref_alloc(rows * V, sizeof *dlogits);
        mh_cross_entropy_options options = mh_cross_entropy_options_default();
        options.label_smoothing = 0.1f;
        for (size_t r = 0; r < rows * V; r++)
            logits[r] = weighted(D, out + r / V * D, c->table + r % V * D);
        ref_cross_entropy(&options, rows, V, logits, c->targets, &loss, dlogits);
        for (size_t r = 0; doutput && r < rows * V; r++)
            for (size_t d = 0; d < D; d++)
                doutput[r / V * D + d] += dlogits[r] * c->table[r % V * D + d];
        free(logits);
        free(dlogits);
    }
    free(out);
    return loss;
}

static double transformer_loss(void *arg, uint64_t *signs)
{
    transformer_case *c = arg;
    const double loss = loss_of(c, NULL);
    *signs = c->t.config->activation == MH_RELU ? c->t.signs : 0;
    return loss;
}

static void prove_transformer(mh_context *context, const mh_transformer_config *config,
                              const mh_transformer_options *options, bool loss, uint64_t seed,
                              tally *t)
{
    test_rng rng = {seed};
    const bool decoder = config->kind != MH_ENCODER && config->kind != MH_ENCODER_LAYER;
    mh_transformer *module;
    test_ok(context, mh_transformer_create(context, config, &module));
    const mh_parameters *list = mh_transformer_parameters(module);
    double *values = random_numbers(&rng, list->floats, 0.5);
    double *gradients = ref_alloc(list->floats, sizeof *gradients);
    double *dsrc = ref_alloc(B * S * D, sizeof *dsrc), *dtgt = ref_alloc(B * T * D, sizeof *dtgt);
    double *table = random_numbers(&rng, V * D, 1);
    int64_t targets[B * S] = {0, 3, -100, 4, 1, 2, 2, 0};
    transformer_case c = {.t = {config, options, {list, values, gradients, ""}, B, S, T, 0, 0},
                          .outputs = B * (decoder ? T : S) * D,
                          .table = loss ? table : NULL,
                          .targets = targets};
    c.src = random_numbers(&rng, B * S * D, 1);
    c.tgt = decoder ? random_numbers(&rng, B * T * D, 1) : NULL;
    c.dout = random_numbers(&rng, c.outputs, 1);
    double *doutput = ref_alloc(c.outputs, sizeof *doutput);
    loss_of(&c, doutput);
    ref_transformer_backward(&c.t, c.src, c.tgt, doutput, dsrc, dtgt);
    prove("dsrc", transformer_loss, &c, B * S * D, c.src, dsrc, t);
    if (decoder)
        prove("dtgt", transformer_loss, &c, B * T * D, c.tgt, dtgt, t);
    for (size_t i = 0; i < list->count; i++)
        prove(list->list[i].name, transformer_loss, &c, list->list[i].count,
              values + list->list[i].offset, gradients + list->list[i].offset, t);
    double *all[] = {values, gradients, dsrc, dtgt, table, c.src, c.tgt, c.dout, doutput};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        free(all[i]);
    mh_transformer_free(module);
}

static mh_transformer_config small(mh_transformer_kind kind)
{
    mh_transformer_config config = mh_transformer_config_default();
    config.kind = kind;
    config.d_model = D;
    config.nhead = 2;
    config.num_encoder_layers = config.num_decoder_layers = 2;
    config.dim_feedforward = 7;
    config.layer_norm_eps = 1e-3f;
    return config;
}

static uint8_t padding[B * S] = {0, 0, 0, 1, 0, 0, 1, 1};
static const bool disabled[6 * 2] = {[3] = true, [6] = true, [9] = true};

static void prove_kind(mh_transformer_kind kind, bool loss)
{
    mh_context *context = test_context(NULL, 1);
    const mh_tensor view = mh_tensor_2d(padding, MH_BOOL, B, S);
    tally t = {0};
    for (int n = 0; n < 8; n++) {
        mh_transformer_config config = small(kind);
        config.activation = (mh_activation)(n % 4);
        config.norm_first = n & 1;
        config.bias = n != 5;
        config.final_norm = n != 4;
        config.batch_first = n & 2;
        mh_transformer_options options = mh_transformer_options_default();
        options.tgt_causal = true;
        options.src_causal = n == 3;
        options.src_key_padding_mask = options.memory_key_padding_mask = n & 2 ? &view : NULL;
        options.training = n >= 6;
        options.seed = 11;
        options.step = 4;
        options.disabled_heads = n == 2 || n == 7 ? disabled : NULL;
        prove_transformer(context, &config, &options, loss, test_seed() + (uint64_t)n, &t);
    }
    enough(&t);
    mh_context_free(context);
}

static void encoder_layer(void **state)
{
    (void)state;
    prove_kind(MH_ENCODER_LAYER, false);
}

static void decoder_layer(void **state)
{
    (void)state;
    prove_kind(MH_DECODER_LAYER, false);
}

static void stacks(void **state)
{
    (void)state;
    prove_kind(MH_ENCODER, false);
    prove_kind(MH_DECODER, false);
}

static void transformer_with_loss(void **state)
{
    (void)state;
    prove_kind(MH_TRANSFORMER, true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(multi_head_attention),  cmocka_unit_test(encoder_layer),
        cmocka_unit_test(decoder_layer),         cmocka_unit_test(stacks),
        cmocka_unit_test(transformer_with_loss),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
