// SPDX-License-Identifier: MIT
// Multi-head attention, encoder and decoder layers, stacks and the Transformer against PyTorch's:
// every case of goldens/modules.safetensors at every level. Outputs, weights, gradients of inputs
// and of every parameter by name; and the losses of ten steps of training.
#include "module_goldens.h"
#include <math.h>

// Numbers after a forward pass without tape, weights or taps: the same bits.
static void same_bits(const module_case *c, const module_rows *a, const module_rows *b)
{
    if (memcmp(a->given.data, b->given.data, mh_tensor_count(&a->given) * sizeof(float)))
        fail_msg("%s: '%s': other bits without weights and tape", mh_context_isa(c->context),
                 c->text);
}

// ---- attention ----------------------------------------------------------------------------------

static mh_mha *make_mha(const module_case *c)
{
    mh_mha_config config = mh_mha_config_default();
    config.embed_dim = module_size(c, "D", 8);
    config.num_heads = module_size(c, "H", 2);
    config.kv_heads = module_size(c, "G", 0);
    config.input_dim = module_size(c, "I", 0);
    config.kdim = module_size(c, "kdim", 0);
    config.vdim = module_size(c, "vdim", 0);
    config.bias = module_size(c, "bias", 1);
    config.add_bias_kv = module_size(c, "bias_kv", 0);
    config.add_zero_attn = module_size(c, "zero", 0);
    config.batch_first = module_size(c, "bf", 0);
    config.qkv = module_size(c, "interleaved", 0) ? MH_QKV_INTERLEAVED : MH_QKV_STACKED;
    config.rope = module_size(c, "rope", 0);
    config.rope_interleaved = module_size(c, "rope", 0) == 2;
    config.rope_base = module_option(c, "base", 10000);
    config.alibi = module_size(c, "alibi", 0);
    config.sinks = module_size(c, "sinks", 0);
    mh_mha *mha;
    test_ok(c->context, mh_mha_create(c->context, &config, &mha));
    module_parameters(mh_mha_parameters(mha));
    return mha;
}

static mh_mha_options mha_options(module_case *c, size_t T, size_t S)
{
    static const mh_causal causal[] = {MH_CAUSAL_NONE, MH_CAUSAL_TOP_LEFT, MH_CAUSAL_BOTTOM_RIGHT};
    const size_t batch = module_size(c, "B", 2), B = batch ? batch : 1;
    const size_t H = module_size(c, "H", 2), empty = module_size(c, "empty", 0);
    const int kind = (int)module_size(c, "mask", 0);
    mh_mha_options o = mh_mha_options_default();
    o.key_padding_mask = module_mask(c, "padding", (int)module_size(c, "padding", 0), batch ? 2 : 1,
                                     batch ? (size_t[]){B, S} : (size_t[]){S}, empty == 2);
    o.attn_mask = module_mask(c, "mask", kind, kind > 2 ? 3 : 2,
                              kind > 2 ? (size_t[]){B * H, T, S} : (size_t[]){T, S}, empty == 1);
    o.per_head_weights = module_size(c, "weights", 1) == 2;
    static mh_attention_options attention;
    attention = mh_attention_options_default();
    attention.causal = causal[module_size(c, "causal", 0)];
    o.attention = &attention;
    return o;
}

static mh_tensor weights_tensor(module_case *c, size_t T, size_t S)
{
    const size_t batch = module_size(c, "B", 2), H = module_size(c, "H", 2);
    const size_t columns = S + module_size(c, "bias_kv", 0) + module_size(c, "zero", 0);
    size_t shape[4];
    int rank = 0;
    if (batch)
        shape[rank++] = batch;
    if (module_size(c, "weights", 1) == 2)
        shape[rank++] = H;
    shape[rank++] = T;
    shape[rank++] = columns;
    float *data = module_memory(c, (batch ? batch : 1) * H * T * columns, sizeof *data);
    return mh_tensor_view(data, MH_F32, rank, shape);
}

static void run_mha(module_case *c)
{
    static const int firsts[5][3] = {{0, 1, 2}, {0, 1, 1}, {0, 0, 0}, {0, 0, 2}, {0, 1, 0}};
    static const char *const names[3] = {"query", "key", "value"};
    const size_t same = module_size(c, "same", 0), D = module_size(c, "D", 8);
    const size_t T = module_size(c, "T", 4), S = same >= 2 ? T : module_size(c, "S", 5);
    const size_t I = module_size(c, "I", D);
    const size_t widths[3] = {I, module_size(c, "kdim", I), module_size(c, "vdim", I)};
    mh_context *context = c->context;
    mh_mha *mha = make_mha(c);
    const mh_parameters *parameters = mh_mha_parameters(mha);
    float *gradients = module_memory(c, parameters->floats, sizeof *gradients);
    mh_mha_options o = mha_options(c, T, S);
    test_ok(context, mh_tape_create(context, &o.tape));
    module_rows x[3], dx[3];
    for (int i = 0; i < 3; i++) {
        x[i] = module_rows_make(c, i ? S : T, widths[i]);
        dx[i] = module_rows_make(c, i ? S : T, widths[i]);
        module_rows_fill(c, names[i], 2, &x[i]);
    }
    const int *first = firsts[same];
    mh_tensor *in[3], *din[3];
    for (int i = 0; i < 3; i++) {
        in[i] = &x[first[i]].given;
        din[i] = first[i] == i ? &dx[i].given : NULL;
    }
    module_rows output = module_rows_make(c, T, D), doutput = module_rows_make(c, T, D);
    module_rows again = module_rows_make(c, T, D);
    module_rows_fill(c, "doutput", 1, &doutput);
    mh_tensor weights = weights_tensor(c, T, S);
    const bool has_weights = module_size(c, "weights", 1);

    test_ok(context, mh_mha_forward(context, mha, &o, in[0], in[1], in[2], &output.given,
                                    has_weights ? &weights : NULL));
    test_ok(context, mh_mha_backward(context, mha, &o, in[0], in[1], in[2], &doutput.given,
                                     gradients, din[0], din[1], din[2]));
    module_compare(c, "output", &output.view);
    if (has_weights)
        module_compare(c, "weights", &weights);
    for (int i = 0; i < 3; i++)
        if (din[i])
            module_compare(c, names[i], &dx[i].view);
    module_compare_gradients(c, parameters, gradients);
    mh_tape_free(o.tape);
    o.tape = NULL;
    test_ok(context, mh_mha_forward(context, mha, &o, in[0], in[1], in[2], &again.given, NULL));
    same_bits(c, &output, &again);
    mh_mha_free(mha);
}

// ---- layers, stacks, the Transformer ------------------------------------------------------------

static mh_transformer *make_transformer(const module_case *c)
{
    static const char *const kinds[] = {"transformer", "encoder", "decoder", "encoder_layer",
                                        "decoder_layer"};
    mh_transformer_config config = mh_transformer_config_default();
    for (int i = 0; i < 5; i++)
        if (module_is(c, kinds[i]))
            config.kind = (mh_transformer_kind)i;
    config.d_model = module_size(c, "D", 8);
    config.nhead = module_size(c, "H", 2);
    config.num_encoder_layers = module_size(c, "L", 2);
    config.num_decoder_layers = module_size(c, "M", 2);
    config.dim_feedforward = module_size(c, "F", 12);
    config.dropout = 0;
    config.activation = module_size(c, "gelu", 0) ? MH_GELU : MH_RELU;
    config.layer_norm_eps = (float)module_option(c, "eps", 1e-5);
    config.batch_first = module_size(c, "bf", 0);
    config.norm_first = module_size(c, "norm_first", 0);
    config.bias = module_size(c, "bias", 1);
    config.final_norm = module_size(c, "final", 1);
    mh_transformer *transformer;
    test_ok(c->context, mh_transformer_create(c->context, &config, &transformer));
    module_parameters(mh_transformer_parameters(transformer));
    return transformer;
}

static bool has_encoder(const module_case *c)
{
    return !module_is(c, "decoder") && !module_is(c, "decoder_layer");
}

static bool has_decoder(const module_case *c)
{
    return !module_is(c, "encoder") && !module_is(c, "encoder_layer");
}

// A mask and a padding mask of src, tgt or memory.
static void set_masks(module_case *c, const char *name, size_t rows, size_t columns,
                      const mh_tensor **mask, const mh_tensor **padding)
{
    const size_t batch = module_size(c, "B", 2), B = batch ? batch : 1;
    const size_t H = module_size(c, "H", 2), empty = module_size(c, "empty", 0);
    char key[40];
    snprintf(key, sizeof key, "%s_mask", name);
    const int kind = (int)module_size(c, key, 0);
    *mask = module_mask(c, key, kind, kind > 2 ? 3 : 2,
                        kind > 2 ? (size_t[]){B * H, rows, columns} : (size_t[]){rows, columns},
                        empty == 1);
    snprintf(key, sizeof key, "%s_padding", name);
    *padding =
        module_mask(c, key, (int)module_size(c, key, 0), 2, (size_t[]){B, columns}, empty == 2);
}

static const int64_t *make_starts(module_case *c, size_t length, size_t a, size_t b)
{
    const size_t sequences = module_size(c, "sequences", 0);
    int64_t *starts = module_memory(c, sequences + 1, sizeof *starts);
    for (size_t i = 0; i < sequences; i++)
        starts[i + 1] = starts[i] + 1 + (int64_t)((a * i + b) % length);
    return starts;
}

enum { MOST_ATTENTIONS = 16 };

// S and T become all rows of a packed batch.
static mh_transformer_options transformer_options(module_case *c, size_t *S, size_t *T)
{
    const size_t H = module_size(c, "H", 2);
    mh_transformer_options o = mh_transformer_options_default();
    if (has_encoder(c))
        set_masks(c, "src", *S, *S, &o.src_mask, &o.src_key_padding_mask);
    if (has_decoder(c)) {
        set_masks(c, "tgt", *T, *T, &o.tgt_mask, &o.tgt_key_padding_mask);
        set_masks(c, "memory", *T, *S, &o.memory_mask, &o.memory_key_padding_mask);
    }
    o.src_causal = module_size(c, "src_causal", 0);
    o.tgt_causal = module_size(c, "tgt_causal", 0);
    o.recompute = module_size(c, "recompute", 0);
    o.sequences = module_size(c, "sequences", 0);
    if (module_size(c, "disabled", 0)) {
        bool *disabled = module_memory(c, MOST_ATTENTIONS * H, sizeof *disabled);
        for (size_t a = 0; a < MOST_ATTENTIONS; a++)
            disabled[a * H + a % H] = true;
        o.disabled_heads = disabled;
    }
    if (o.sequences) {
        o.src_starts = make_starts(c, *S, 3, 2);
        o.tgt_starts = make_starts(c, *T, 2, 1);
        *S = (size_t)o.src_starts[o.sequences];
        *T = (size_t)o.tgt_starts[o.sequences];
    }
    return o;
}

static size_t layers_of(const module_case *c, const char *key)
{
    return strstr(c->text, "_layer") ? 1 : module_size(c, key, 2);
}

// Weights of every attention, in the order in which they run.
static size_t set_taps(module_case *c, size_t S, size_t T, mh_tap taps[MOST_ATTENTIONS])
{
    const size_t batch = module_size(c, "B", 2), B = batch ? batch : 1, H = module_size(c, "H", 2);
    size_t count = 0;
    if (!module_size(c, "taps", 0))
        return 0;
    for (size_t i = 0; has_encoder(c) && i < layers_of(c, "L"); i++)
        taps[count++] = (mh_tap){.struct_size = sizeof(mh_tap), .kind = MH_TAP_ENCODER, .layer = i};
    for (size_t i = 0; has_decoder(c) && i < layers_of(c, "M"); i++) {
        taps[count++] = (mh_tap){.struct_size = sizeof(mh_tap), .kind = MH_TAP_DECODER, .layer = i};
        taps[count++] = (mh_tap){.struct_size = sizeof(mh_tap), .kind = MH_TAP_CROSS, .layer = i};
    }
    for (size_t i = 0; i < count; i++) {
        const size_t rows = taps[i].kind == MH_TAP_ENCODER ? S : T;
        const size_t columns = taps[i].kind == MH_TAP_DECODER ? T : S;
        taps[i].weights = mh_tensor_4d(module_memory(c, B * H * rows * columns, sizeof(float)),
                                       MH_F32, B, H, rows, columns);
    }
    return count;
}

static void run_transformer(module_case *c)
{
    const size_t D = module_size(c, "D", 8);
    size_t S = module_size(c, "S", 5), T = module_size(c, "T", 4);
    mh_context *context = c->context;
    mh_transformer *transformer = make_transformer(c);
    const mh_parameters *parameters = mh_transformer_parameters(transformer);
    float *gradients = module_memory(c, parameters->floats, sizeof *gradients);
    mh_transformer_options o = transformer_options(c, &S, &T);
    mh_tap taps[MOST_ATTENTIONS];
    o.taps = taps;
    o.tap_count = set_taps(c, S, T, taps);
    test_ok(context, mh_tape_create(context, &o.tape));
    const bool decodes = has_decoder(c);
    const size_t length = decodes ? T : S;
    module_rows src = module_rows_make(c, S, D), dsrc = module_rows_make(c, S, D);
    module_rows tgt = module_rows_make(c, T, D), dtgt = module_rows_make(c, T, D);
    module_rows output = module_rows_make(c, length, D), again = module_rows_make(c, length, D);
    module_rows doutput = module_rows_make(c, length, D);
    module_rows_fill(c, "src", 2, &src);
    module_rows_fill(c, "tgt", 2, &tgt);
    module_rows_fill(c, "doutput", 1, &doutput);
    const mh_tensor *given_tgt = decodes ? &tgt.given : NULL;

    test_ok(context,
            mh_transformer_forward(context, transformer, &o, &src.given, given_tgt, &output.given));
    test_ok(context,
            mh_transformer_backward(context, transformer, &o, &src.given, given_tgt, &doutput.given,
                                    gradients, &dsrc.given, decodes ? &dtgt.given : NULL));
    module_compare(c, "output", &output.view);
    for (size_t i = 0; i < o.tap_count; i++)
        module_compare(c, "weights", &taps[i].weights);
    module_compare(c, "src", &dsrc.view);
    if (decodes)
        module_compare(c, "tgt", &dtgt.view);
    module_compare_gradients(c, parameters, gradients);
    mh_tape_free(o.tape);
    o.tape = NULL;
    o.tap_count = 0;
    test_ok(context,
            mh_transformer_forward(context, transformer, &o, &src.given, given_tgt, &again.given));
    same_bits(c, &output, &again);
    mh_transformer_free(transformer);
}

// ---- training -----------------------------------------------------------------------------------

// One step's loss, and its gradients in `gradients`.
static double loss_of(module_case *c, const mh_transformer *transformer,
                      const mh_transformer_options *o, const module_rows *src,
                      const module_rows *tgt, module_rows *output, const mh_tensor *targets,
                      float *gradients)
{
    const size_t D = module_size(c, "D", 8), rows = targets->shape[0];
    mh_tensor logits = mh_tensor_2d(output->given.data, MH_F32, rows, D);
    double loss;
    memset(gradients, 0, mh_transformer_parameters(transformer)->floats * sizeof *gradients);
    test_ok(c->context, mh_transformer_forward(c->context, transformer, o, &src->given, &tgt->given,
                                               &output->given));
    test_ok(c->context, mh_cross_entropy(c->context, NULL, &logits, targets, &loss, NULL, &logits));
    test_ok(c->context,
            mh_transformer_backward(c->context, transformer, o, &src->given, &tgt->given,
                                    &output->given, gradients, NULL, NULL));
    return loss;
}

static void train(mh_context *context, const mh_tensor_file *file, bool adam)
{
    const char *key = adam ? "train.adam" : "train.sgd";
    mh_tensor losses;
    assert_true(mh_tensor_file_find(file, key, &losses));
    module_case c = {.context = context, .text = mh_tensor_file_metadata(file, key)};
    const size_t D = module_size(&c, "D", 0), B = module_size(&c, "B", 0);
    size_t S = module_size(&c, "S", 0), T = module_size(&c, "T", 0);
    mh_transformer *transformer = make_transformer(&c);
    const mh_parameters *p = mh_transformer_parameters(transformer);
    float *gradients = module_memory(&c, p->floats, sizeof *gradients);
    float *m = module_memory(&c, p->floats, sizeof *m),
          *v = module_memory(&c, p->floats, sizeof *v);
    int64_t *classes = module_memory(&c, B * T, sizeof *classes);
    const mh_tensor targets = mh_tensor_1d(classes, MH_I64, B * T);
    for (size_t i = 0; i < B * T; i++)
        classes[i] = (int64_t)(module_bits("targets", i) % D);
    mh_transformer_options o = transformer_options(&c, &S, &T);
    o.src_key_padding_mask = o.memory_key_padding_mask =
        module_mask(&c, "src_padding", 1, 2, (size_t[]){B, S}, false);
    o.training = true;
    test_ok(context, mh_tape_create(context, &o.tape));
    module_rows src = module_rows_make(&c, S, D), tgt = module_rows_make(&c, T, D);
    module_rows output = module_rows_make(&c, T, D);
    module_rows_fill(&c, "src", 2, &src);
    module_rows_fill(&c, "tgt", 2, &tgt);
    mh_sgd_options sgd = mh_sgd_options_default();
    sgd.learning_rate = 0.05;
    sgd.momentum = 0.9;
    mh_adamw_options adamw = mh_adamw_options_default();
    adamw.weight_decay = 0;
    for (size_t step = 0; step < losses.shape[0]; step++) {
        const double expected = ((const double *)losses.data)[step];
        const double loss = loss_of(&c, transformer, &o, &src, &tgt, &output, &targets, gradients);
        if (getenv("MH_TEST_MEASURE"))
            printf("%s %s step %zu: %.3g\n", mh_context_isa(context), key, step,
                   fabs(loss - expected) / expected);
        if (!(fabs(loss - expected) <= (adam ? 1e-4 : 1e-5) * expected))
            fail_msg("%s: %s, step %zu: loss %.9g, expected %.9g", mh_context_isa(context), key,
                     step, loss, expected);
        test_ok(context, adam ? mh_adamw_step(context, &adamw, step + 1, p->floats, gradients,
                                              p->values, m, v)
                              : mh_sgd_step(context, &sgd, p->floats, gradients, p->values, m));
    }
    mh_tape_free(o.tape);
    mh_transformer_free(transformer);
    module_case_close(&c);
}

// ---- all of them --------------------------------------------------------------------------------

static mh_tensor_file *open_goldens(mh_context *context)
{
    mh_tensor_file *file;
    test_ok(context, mh_tensor_file_open(context, MH_GOLDENS "/modules.safetensors", &file));
    return file;
}

static void modules(void **state)
{
    (void)state;
    size_t level = 0, cases = 0;
    double worst = 0;
    for (; test_level(level); level++) {
        mh_context *context = test_context(test_level(level), 2);
        mh_tensor_file *file = open_goldens(context);
        cases = strtoul(mh_tensor_file_metadata(file, "cases"), NULL, 10);
        assert_true(cases >= 200);
        for (size_t i = 0; i < cases; i++) {
            char key[24];
            snprintf(key, sizeof key, "%zu", i);
            module_case c = module_case_open(context, file, key);
            (module_is(&c, "mha") ? run_mha : run_transformer)(&c);
            worst = fmax(worst, c.largest_error);
            module_case_close(&c);
        }
        mh_tensor_file_free(file);
        mh_context_free(context);
    }
    printf("%zu configurations at %zu levels, largest error %.2f of the tolerance\n", cases, level,
           worst);
}

static void training(void **state)
{
    (void)state;
    for (size_t level = 0; test_level(level); level++) {
        mh_context *context = test_context(test_level(level), 2);
        mh_tensor_file *file = open_goldens(context);
        train(context, file, false);
        train(context, file, true);
        mh_tensor_file_free(file);
        mh_context_free(context);
    }
}

// What would have to be guessed is refused: rules that do not know of the further keys, and two
// places for one gradient.
static void refusals(void **state)
{
    (void)state;
    mh_context *context = test_context(NULL, 1);
    module_case c = {.context = context, .text = "mha bias_kv=1 same=2 S=4"};
    mh_mha *mha = make_mha(&c);
    mh_mha_options o = mha_options(&c, 4, 4);
    test_ok(context, mh_tape_create(context, &o.tape));
    module_rows x = module_rows_make(&c, 4, 8), y = module_rows_make(&c, 4, 8);
    mh_tensor *in = &x.given, *out = &y.given;
    test_ok(context, mh_mha_forward(context, mha, &o, in, in, in, out, NULL));
    test_refused(context, mh_mha_backward(context, mha, &o, in, in, in, in, NULL, out, NULL, out),
                 MH_ERROR_ARGUMENT, "dvalue: found a tensor, expected NULL");
    mh_attention_options attention = mh_attention_options_default();
    attention.key_lengths = (const int64_t[]){4, 4};
    o.attention = &attention;
    test_refused(context, mh_mha_forward(context, mha, &o, in, in, in, out, NULL),
                 MH_ERROR_UNSUPPORTED, "add_bias_kv");
    mh_tape_free(o.tape);
    mh_mha_free(mha);
    module_case_close(&c);
    mh_context_free(context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(modules), cmocka_unit_test(training),
                                       cmocka_unit_test(refusals)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
