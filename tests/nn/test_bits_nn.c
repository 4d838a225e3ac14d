// SPDX-License-Identifier: MIT
// The promise of equal bits for modules, by memcmp at every instruction-set level: a sequence
// alone, padded in a batch (with whatever in the padding) or packed; batch first or time first;
// weights packed or not.
// Threads and training: test_bits_training; token by token: test_bits_decoding.
//
// The sizes cross tiles of 64 keys, and 64 rows of a norm's sums.
#include "nn_support.h"
#include "ref/ref_tensor.h"

#include <math.h>

enum { B = 3, S = 75, T = 41, D = 48, H = 3, F = 70, LAYERS = 2 };

static mh_transformer_config config_of(bool norm_first, bool batch_first)
{
    mh_transformer_config c = nn_transformer_config(MH_TRANSFORMER, D, H, F, LAYERS);
    c.activation = MH_GELU;
    c.norm_first = norm_first;
    c.batch_first = batch_first;
    return c;
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
    mh_tensor out = mh_tensor_view(output, MH_F32, tgt->rank, tgt->shape);
    mh_tensor ds = mh_tensor_view(dsrc, MH_F32, src->rank, src->shape);
    mh_tensor dt = mh_tensor_view(dtgt, MH_F32, tgt->rank, tgt->shape);
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
        mh_transformer_config config = config_of(n & 1, true);
        config.precision = n & 2 ? MH_PRECISION_BF16 : MH_PRECISION_F32;
        problem p = {context, nn_transformer(context, &config, 5), nn_floats(1, B * S * D),
                     nn_floats(2, B * T * D), nn_floats(3, B * T * D)};
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
    test_at_levels(company_at);
}

// ---- batch first --------------------------------------------------------------------------------

static void layout_at(const char *level)
{
    mh_context *context = test_context(level, 2);
    float *src = nn_floats(1, B * S * D), *tgt = nn_floats(2, B * T * D);
    float *dout = nn_floats(3, B * T * D);
    result r[2] = {result_create(), result_create()};
    for (int first = 0; first < 2; first++) {
        mh_transformer_config config = config_of(true, first);
        mh_transformer *module = nn_transformer(context, &config, 5);
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

// ---- packed weights -----------------------------------------------------------------------------

static void packed_at(const char *level)
{
    mh_context *context = test_context(level, 1);
    const mh_transformer_config config = config_of(true, true);
    mh_transformer *module = nn_transformer(context, &config, 7);
    mh_packed_weights *packed;
    float *x = nn_floats(8, B * S * D), *plain = ref_alloc(B * S * D, sizeof *plain),
          *found = ref_alloc(B * S * D, sizeof *found);
    mh_tensor src = mh_tensor_3d(x, MH_F32, B, S, D), memory = mh_tensor_3d(plain, MH_F32, B, S, D),
              same = mh_tensor_3d(found, MH_F32, B, S, D);
    test_ok(context, mh_transformer_encode(context, module, NULL, &src, &memory));
    test_ok(context, mh_packed_weights_create(context, module, true, &packed));
    test_ok(context, mh_transformer_encode_packed(context, module, packed, NULL, &src, &same));
    assert_memory_equal(plain, found, B * S * D * sizeof *found);
    for (int i = 0; i < 3; i++) { // by itself, not packed, packed before
        mh_decoding *d;
        mh_tensor tgt = mh_tensor_3d(x, MH_F32, B, 1, D),
                  out = mh_tensor_3d(i ? found : plain, MH_F32, B, 1, D);
        test_ok(context, i == 0 ? mh_decoding_create(context, module, &src, NULL, 1, &d)
                                : mh_decoding_create_packed(context, module, i == 2 ? packed : NULL,
                                                            &src, NULL, 1, &d));
        test_ok(context, mh_decoding_step(context, d, NULL, 0, &tgt, &out));
        assert_memory_equal(plain, i ? found : plain, B * D * sizeof *found);
        mh_decoding_free(d);
    }
    mh_packed_weights_free(packed);
    mh_transformer_free(module);
    mh_context_free(context);
    free(x);
    free(plain);
    free(found);
}

static void weights_packed_or_not(void **state)
{
    (void)state;
    test_at_levels(packed_at);
}

static void batch_first_or_time_first(void **state)
{
    (void)state;
    test_at_levels(layout_at);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(alone_padded_or_packed),
        cmocka_unit_test(batch_first_or_time_first),
        cmocka_unit_test(weights_packed_or_not),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
