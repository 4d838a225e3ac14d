// SPDX-License-Identifier: MIT
// What mh_transformer and mh_decoding refuse, with a message that names it: configs, tensors,
// masks, taps, packed starts, tapes, steps; nothing is written then, and the next call works.
#include "nn_support.h"
#include "ref/ref_tensor.h"

#include <math.h>
#include <stddef.h>

enum { B = 2, S = 5, T = 4, D = 12, H = 3, F = 10 };

// ---- configs ------------------------------------------------------------------------------------

static void refuse_config(mh_context *context, const mh_transformer_config *config,
                          const char *word)
{
    mh_transformer *t = (mh_transformer *)context;
    test_refused(context, mh_transformer_create(context, config, &t), MH_ERROR_ARGUMENT, word);
    assert_null(t);
}

#define REFUSE_CONFIG(change, word)                                                                \
    do {                                                                                           \
        mh_transformer_config c = nn_transformer_config(MH_TRANSFORMER, D, H, F, 2);               \
        change;                                                                                    \
        refuse_config(*state, &c, word);                                                           \
    } while (0)

static void configs(void **state)
{
    refuse_config(*state, NULL, "config");
    REFUSE_CONFIG(c.struct_size = 1, "config");
    REFUSE_CONFIG(c.kind = (mh_transformer_kind)9, "kind: found 9");
    REFUSE_CONFIG(c.d_model = 0, "d_model: found 0");
    REFUSE_CONFIG(c.nhead = 5, "nhead: found 5, expected a divisor of d_model 12");
    REFUSE_CONFIG(c.nhead = 0, "nhead");
    REFUSE_CONFIG(c.dim_feedforward = 0, "dim_feedforward");
    REFUSE_CONFIG(c.dim_feedforward = SIZE_MAX, "dim_feedforward");
    REFUSE_CONFIG(c.num_encoder_layers = SIZE_MAX, "layers");
    REFUSE_CONFIG(c.num_decoder_layers = SIZE_MAX, "layers");
    REFUSE_CONFIG(c.activation = (mh_activation)9, "activation: found 9");
    REFUSE_CONFIG(c.layer_norm_eps = -1, "layer_norm_eps");
    REFUSE_CONFIG(c.layer_norm_eps = (float)NAN, "layer_norm_eps");
    REFUSE_CONFIG(c.dropout = 2, "dropout: found 2");
    REFUSE_CONFIG(c.precision = (mh_precision)77, "precision");
}

// ---- calls --------------------------------------------------------------------------------------

typedef struct call {
    mh_context *context;
    mh_transformer *module;
    test_tensor tensors[5];
    mh_tensor src, tgt, out, dsrc, dtgt;
    const mh_tensor *tgt_or_none;
    mh_transformer_options options;
    float *gradients;
    mh_tape *tape;
} call;

static void call_create(mh_context *context, mh_transformer_kind kind, call *c)
{
    const mh_transformer_config config = nn_transformer_config(kind, D, H, F, 2);
    const bool encoder = kind == MH_ENCODER || kind == MH_ENCODER_LAYER;
    test_rng rng = {1};
    *c = (call){.context = context, .options = mh_transformer_options_default()};
    c->module = nn_transformer(context, &config, 1);
    mh_tensor *views[5] = {&c->src, &c->tgt, &c->out, &c->dsrc, &c->dtgt};
    const size_t lengths[5] = {S, T, encoder ? S : T, S, T};
    for (size_t i = 0; i < 5; i++) {
        c->tensors[i] = nn_tensor(&rng, MH_F32, false, false, B, lengths[i], D, true);
        *views[i] = c->tensors[i].view;
    }
    c->tgt_or_none = encoder ? NULL : &c->tgt;
    c->gradients = ref_alloc(mh_transformer_parameters(c->module)->floats, sizeof(float));
    test_ok(context, mh_tape_create(context, &c->tape));
    c->options.tape = c->tape;
}

static void call_free(call *c)
{
    for (size_t i = 0; i < 5; i++)
        test_tensor_free(&c->tensors[i]);
    free(c->gradients);
    mh_tape_free(c->tape);
    mh_transformer_free(c->module);
}

static mh_status forward(call *c)
{
    return mh_transformer_forward(c->context, c->module, &c->options, &c->src, c->tgt_or_none,
                                  &c->out);
}

static mh_status backward(call *c)
{
    return mh_transformer_backward(c->context, c->module, &c->options, &c->src, c->tgt_or_none,
                                   &c->out, c->gradients, &c->dsrc,
                                   c->tgt_or_none ? &c->dtgt : NULL);
}

#define REFUSE(kind, change, status, word)                                                         \
    do {                                                                                           \
        call c, fine;                                                                              \
        call_create(*state, kind, &fine);                                                          \
        c = fine;                                                                                  \
        c.tgt_or_none = fine.tgt_or_none ? &c.tgt : NULL;                                          \
        test_paint(&c.tensors[2]);                                                                 \
        change;                                                                                    \
        test_refused(*state, forward(&c), status, word);                                           \
        assert_true(test_untouched(&c.tensors[2]));                                                \
        test_ok(*state, forward(&fine));                                                           \
        call_free(&fine);                                                                          \
    } while (0)

static void tensors(void **state)
{
    static bool bytes[2 * B * H * S * S];
    const mh_tensor narrow = mh_tensor_2d(bytes, MH_BOOL, B, S + 2);
    const mh_tensor deep = mh_tensor_3d(bytes, MH_BOOL, B * H + 1, T, S);
    const struct {
        const char *name;
        size_t offset;
    } masks[6] = {
        {"src_mask", offsetof(mh_transformer_options, src_mask)},
        {"tgt_mask", offsetof(mh_transformer_options, tgt_mask)},
        {"memory_mask", offsetof(mh_transformer_options, memory_mask)},
        {"src_key_padding_mask", offsetof(mh_transformer_options, src_key_padding_mask)},
        {"tgt_key_padding_mask", offsetof(mh_transformer_options, tgt_key_padding_mask)},
        {"memory_key_padding_mask", offsetof(mh_transformer_options, memory_key_padding_mask)}};
    for (size_t i = 0; i < 6; i++) {
        REFUSE(MH_TRANSFORMER,
               *(const mh_tensor **)((char *)&c.options + masks[i].offset) = &narrow,
               MH_ERROR_ARGUMENT, masks[i].name);
        REFUSE(MH_TRANSFORMER, *(const mh_tensor **)((char *)&c.options + masks[i].offset) = &deep,
               MH_ERROR_ARGUMENT, masks[i].name);
    }
    REFUSE(MH_TRANSFORMER, c.options.struct_size = 1, MH_ERROR_ARGUMENT, "struct_size");
    REFUSE(MH_TRANSFORMER, c.module = NULL, MH_ERROR_ARGUMENT, "transformer");
    REFUSE(MH_TRANSFORMER, c.tgt_or_none = NULL, MH_ERROR_ARGUMENT, "tgt: found NULL");
    REFUSE(MH_ENCODER, c.tgt_or_none = &c.tgt, MH_ERROR_ARGUMENT, "NULL for an encoder");
    REFUSE(MH_DECODER, c.src.shape[2] = D + 1, MH_ERROR_ARGUMENT, "src");
    REFUSE(MH_ENCODER_LAYER, c.src.rank = 1, MH_ERROR_ARGUMENT, "src");
    REFUSE(MH_ENCODER, c.src.dtype = MH_I64, MH_ERROR_UNSUPPORTED, "src: found dtype i64");
    REFUSE(MH_DECODER_LAYER, c.tgt.dtype = MH_U8, MH_ERROR_UNSUPPORTED, "tgt: found dtype u8");
    REFUSE(MH_TRANSFORMER, c.out.dtype = MH_F64, MH_ERROR_UNSUPPORTED, "output: found dtype f64");
    REFUSE(MH_TRANSFORMER, c.out.shape[0] = T - 1, MH_ERROR_ARGUMENT, "output");
    REFUSE(MH_TRANSFORMER, c.src.shape[1] = B - 1, MH_ERROR_ARGUMENT, "number of sequences");
    REFUSE(MH_TRANSFORMER, c.src.data = NULL, MH_ERROR_ARGUMENT, "src: data is NULL");
}

static void packed_batches(void **state)
{
    static const int64_t good[3] = {0, 2, 8}, late[3] = {1, 2, 8}, transposed[3] = {0, 9, 8},
                         beyond[3] = {0, 2, 11}, negative[3] = {0, -2, 8};
    static bool bytes[S * S];
    const mh_tensor mask = mh_tensor_2d(bytes, MH_BOOL, S, S);
    // (rows, D) of src and tgt: 10 and 8 rows
#define PACK                                                                                       \
    c.src = mh_tensor_2d(c.src.data, MH_F32, B * S, D);                                            \
    c.tgt = mh_tensor_2d(c.tgt.data, MH_F32, B * T, D);                                            \
    c.out = mh_tensor_2d(c.out.data, MH_F32, B * T, D);                                            \
    c.options.sequences = 2;                                                                       \
    c.options.tgt_starts = good;                                                                   \
    c.options.src_starts = (const int64_t[]){0, 4, 10}
    REFUSE(MH_TRANSFORMER, PACK; c.options.tgt_starts = late, MH_ERROR_ARGUMENT, "tgt_starts[0]");
    REFUSE(MH_TRANSFORMER, PACK;
           c.options.tgt_starts = transposed, MH_ERROR_ARGUMENT, "tgt_starts[2]");
    REFUSE(MH_TRANSFORMER, PACK; c.options.tgt_starts = beyond, MH_ERROR_ARGUMENT, "tgt_starts[2]");
    REFUSE(MH_TRANSFORMER, PACK;
           c.options.tgt_starts = negative, MH_ERROR_ARGUMENT, "tgt_starts[1]: found -2");
    REFUSE(MH_TRANSFORMER, PACK; c.options.src_starts = good, MH_ERROR_ARGUMENT, "src_starts[2]");
    REFUSE(MH_TRANSFORMER, PACK; c.options.src_starts = NULL, MH_ERROR_ARGUMENT, "src");
    REFUSE(MH_TRANSFORMER, PACK; c.options.src_mask = &mask, MH_ERROR_ARGUMENT,
                                 "src_mask: not supported in a packed batch");
    REFUSE(MH_TRANSFORMER, c.options.sequences = 2, MH_ERROR_ARGUMENT, "src");
#undef PACK
}

static void taps(void **state)
{
    static float numbers[B * H * S * S];
    mh_tap tap = {.struct_size = sizeof(mh_tap),
                  .weights = mh_tensor_4d(numbers, MH_F32, B, H, S, S)},
           two[2];
#define TAP(spoil) spoil, c.options.taps = &tap, c.options.tap_count = 1
    REFUSE(MH_TRANSFORMER, TAP(tap.layer = 2), MH_ERROR_ARGUMENT, "taps[0].layer: found 2");
    tap.layer = 0;
    REFUSE(MH_TRANSFORMER, TAP(tap.kind = (mh_tap_kind)5), MH_ERROR_ARGUMENT, "taps[0].kind");
    REFUSE(MH_ENCODER, TAP(tap.kind = MH_TAP_CROSS), MH_ERROR_ARGUMENT, "taps[0].layer");
    REFUSE(MH_DECODER, TAP(tap.kind = MH_TAP_ENCODER), MH_ERROR_ARGUMENT, "taps[0].layer");
    REFUSE(MH_TRANSFORMER, TAP(tap.weights.shape[3] = S - 1), MH_ERROR_ARGUMENT, "weights");
#undef TAP
    tap.weights.shape[3] = S;
    two[0] = two[1] = tap;
    REFUSE(MH_TRANSFORMER, (c.options.taps = two, c.options.tap_count = 2), MH_ERROR_ARGUMENT,
           "taps[1]");
    REFUSE(MH_TRANSFORMER, c.options.tap_count = 2, MH_ERROR_ARGUMENT, "taps");
}

static void backwards(void **state)
{
    call c, other;
    call_create(*state, MH_TRANSFORMER, &c);
    call_create(*state, MH_TRANSFORMER, &other);
    c.tgt_or_none = &c.tgt;
    other.tgt_or_none = &other.tgt;
    test_refused(*state, backward(&c), MH_ERROR_ARGUMENT, "tape");
    test_ok(*state, forward(&c));
    other.options.tape = c.tape;
    test_refused(*state, backward(&other), MH_ERROR_ARGUMENT, "tape");
    c.options.tape = NULL;
    test_refused(*state, backward(&c), MH_ERROR_ARGUMENT, "tape");
    c.options.tape = c.tape;
    const call fine = c;
    c.src.shape[0] = c.dsrc.shape[0] = S - 1;
    test_refused(*state, backward(&c), MH_ERROR_ARGUMENT, "src: expected the shape");
    c = fine;
    c.tgt.shape[0] = c.dtgt.shape[0] = c.out.shape[0] = T - 1;
    c.tgt_or_none = &c.tgt;
    test_refused(*state, backward(&c), MH_ERROR_ARGUMENT, "tgt: expected the shape");
    c = fine;
    c.tgt_or_none = &c.tgt;
    c.dsrc.shape[0] = S - 1;
    test_refused(*state, backward(&c), MH_ERROR_ARGUMENT, "dsrc");
    c = fine;
    c.tgt_or_none = &c.tgt;
    c.dtgt.dtype = MH_I32;
    test_refused(*state, backward(&c), MH_ERROR_UNSUPPORTED, "dtgt");
    c = fine;
    c.tgt_or_none = &c.tgt;
    c.options.recompute = true; // the tape knows better
    test_ok(*state, backward(&c));
    call_free(&c);
    call_free(&other);
}

// ---- decoding -----------------------------------------------------------------------------------

static void decodings(void **state)
{
    call c, encoder;
    call_create(*state, MH_DECODER, &c);
    call_create(*state, MH_ENCODER, &encoder);
    mh_decoding *d = (mh_decoding *)&c;
    static const int64_t lengths[3][B] = {{S, S}, {S + 1, 1}, {0, -1}};
    const mh_tensor bad = mh_tensor_2d(c.src.data, MH_I32, S, D);
#define CREATE(module, memory, lengths, copies)                                                    \
    mh_decoding_create(*state, module, memory, lengths, copies, &d)
    test_refused(*state, CREATE(encoder.module, &c.src, NULL, 1), MH_ERROR_ARGUMENT, "transformer");
    assert_null(d);
    test_refused(*state, mh_decoding_create_causal(*state, c.module, 1, &d), MH_ERROR_ARGUMENT,
                 "expected an encoder with layers");
    test_refused(*state, mh_decoding_create_causal(*state, encoder.module, 0, &d),
                 MH_ERROR_ARGUMENT, "sequences: found 0");
    assert_true(mh_decoding_create_causal(*state, encoder.module, SIZE_MAX / 8, &d) != MH_OK);
    assert_null(d);
    test_ok(*state, mh_decoding_create_causal(*state, encoder.module, B, &d));
    mh_tap cross = {.struct_size = sizeof(mh_tap), .kind = MH_TAP_CROSS};
    test_refused(*state, mh_decoding_step(*state, d, &cross, 1, &c.tgt, &c.out), MH_ERROR_ARGUMENT,
                 "taps[0].layer");
    mh_decoding_free(d);
    test_refused(*state, CREATE(c.module, NULL, NULL, 1), MH_ERROR_ARGUMENT, "memory");
    test_refused(*state, CREATE(c.module, &bad, NULL, 1), MH_ERROR_UNSUPPORTED, "memory");
    test_refused(*state, CREATE(c.module, &c.src, NULL, 0), MH_ERROR_ARGUMENT, "copies: found 0");
    test_refused(*state, CREATE(c.module, &c.src, NULL, SIZE_MAX), MH_ERROR_ARGUMENT, "copies");
    test_refused(*state, CREATE(c.module, &c.src, lengths[1], 1), MH_ERROR_ARGUMENT,
                 "lengths[0]: found 6, expected 0 to 5");
    test_refused(*state, CREATE(c.module, &c.src, lengths[2], 1), MH_ERROR_ARGUMENT, "lengths[1]");
    mh_packed_weights *packed;
    test_ok(*state, mh_packed_weights_create(*state, encoder.module, true, &packed));
    test_refused(*state, mh_decoding_create_packed(*state, c.module, packed, &c.src, NULL, 1, &d),
                 MH_ERROR_ARGUMENT, "packed: found weights of another Transformer");
    assert_null(d);
    mh_packed_weights_free(packed);
    test_ok(*state, CREATE(c.module, &c.src, lengths[0], 1));
#undef CREATE
    mh_tensor tgt = c.tgt, out = c.out;
    test_paint(&c.tensors[2]);
    tgt.shape[1] = out.shape[1] = B - 1;
    test_refused(*state, mh_decoding_step(*state, d, NULL, 0, &tgt, &out), MH_ERROR_ARGUMENT,
                 "tgt, output: found 1 sequences");
    tgt = c.tgt, out = c.out;
    out.shape[0] = T - 1;
    test_refused(*state, mh_decoding_step(*state, d, NULL, 0, &tgt, &out), MH_ERROR_ARGUMENT,
                 "tgt");
    out = c.out;
    tgt.dtype = MH_I32;
    test_refused(*state, mh_decoding_step(*state, d, NULL, 0, &tgt, &out), MH_ERROR_UNSUPPORTED,
                 "tgt");
    tgt = c.tgt;
    static float numbers[B * H * T * S];
    mh_tap tap = {.struct_size = sizeof(mh_tap),
                  .kind = MH_TAP_DECODER,
                  .weights = mh_tensor_4d(numbers, MH_F32, B, H, T, T)};
    tap.layer = 2;
    test_refused(*state, mh_decoding_step(*state, d, &tap, 1, &tgt, &out), MH_ERROR_ARGUMENT,
                 "taps[0].layer");
    tap.layer = 0;
    tap.kind = MH_TAP_ENCODER;
    test_refused(*state, mh_decoding_step(*state, d, &tap, 1, &tgt, &out), MH_ERROR_ARGUMENT,
                 "taps[0].kind");
    tap.kind = MH_TAP_CROSS;
    tap.layer = 1;
    tap.weights.shape[3] = S + 1; // noticed in the second layer, when the first has gone on
    test_refused(*state, mh_decoding_step(*state, d, &tap, 1, &tgt, &out), MH_ERROR_ARGUMENT,
                 "weights");
    assert_true(test_untouched(&c.tensors[2]));
    test_refused(*state, mh_decoding_reorder(*state, d, NULL), MH_ERROR_ARGUMENT, "parents");
    test_refused(*state, mh_decoding_reorder(*state, d, (const size_t[]){0, B}), MH_ERROR_ARGUMENT,
                 "parents[1]: found 2");
    test_refused(*state, mh_decoding_select(*state, d, (const size_t[]){0}, SIZE_MAX),
                 MH_ERROR_ARGUMENT, "count: found");
    // After all of this it is where it was.
    test_ok(*state, mh_decoding_step(*state, d, NULL, 0, &tgt, &out));
    float *found = ref_alloc(T * B * D, sizeof *found);
    memcpy(found, out.data, T * B * D * sizeof *found);
    c.tgt_or_none = &c.tgt;
    c.options.tgt_causal = true;
    test_ok(*state, forward(&c));
    nn_same_bits("after refusals", T * B * D, found, out.data);
    free(found);
    mh_decoding_free(d);
    call_free(&c);
    call_free(&encoder);
}

static void encoding(void **state)
{
    call whole, decoder;
    call_create(*state, MH_TRANSFORMER, &whole);
    call_create(*state, MH_DECODER, &decoder);
    mh_tensor memory = mh_tensor_3d(whole.dsrc.data, MH_F32, S, B, D);
    mh_transformer_options o = mh_transformer_options_default();
    test_ok(*state, mh_transformer_encode(*state, whole.module, &o, &whole.src, &memory));
    test_refused(*state, mh_transformer_encode(*state, decoder.module, &o, &whole.src, &memory),
                 MH_ERROR_ARGUMENT, "encoder");
    test_refused(*state, mh_transformer_encode(*state, whole.module, &o, &whole.src, &whole.out),
                 MH_ERROR_ARGUMENT, "memory: found");
    o.tape = whole.tape;
    test_refused(*state, mh_transformer_encode(*state, whole.module, &o, &whole.src, &memory),
                 MH_ERROR_ARGUMENT, "tape");
    call_free(&whole);
    call_free(&decoder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(configs),  cmocka_unit_test(tensors),   cmocka_unit_test(packed_batches),
        cmocka_unit_test(taps),     cmocka_unit_test(backwards), cmocka_unit_test(decodings),
        cmocka_unit_test(encoding),
    };
    return cmocka_run_group_tests(tests, test_open_context, test_close_context);
}
