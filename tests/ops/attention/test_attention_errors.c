// SPDX-License-Identifier: MIT
// Calls that make no sense are refused: with the right status, with a message that names the
// argument, and with every output left as it was. Each check spoils one thing in a call that is
// otherwise right.
#include "ref/ref_tensor.h"
#include "support.h"

enum { B = 2, H = 4, G = 2, T = 5, S = 7, E = 8, Ev = 6 };

typedef struct call {
    mh_attention_options options;
    test_tensor q, k, v, out, lse, weights;
    mh_tensor mask_data, query_ids, key_ids;
    mh_mask mask;
    int64_t numbers[8];
    size_t chosen[3];
    uint8_t flags[B * H * T * S];
    int32_t ids[B * S];
} call;

static void setup(call *c)
{
    memset(c, 0, sizeof *c);
    c->options = mh_attention_options_default();
    c->q = test_tensor_dense(MH_F32, 4, (size_t[]){B, H, T, E});
    c->k = test_tensor_dense(MH_F32, 4, (size_t[]){B, G, S, E});
    c->v = test_tensor_dense(MH_F32, 4, (size_t[]){B, G, S, Ev});
    c->out = test_tensor_dense(MH_F32, 4, (size_t[]){B, H, T, Ev});
    c->lse = test_tensor_dense(MH_F32, 3, (size_t[]){B, H, T});
    c->weights = test_tensor_dense(MH_F32, 4, (size_t[]){B, H, T, S});
    test_fill_constant(&c->q.view, 0.5);
    test_fill_constant(&c->k.view, 0.5);
    test_fill_constant(&c->v.view, 0.5);
    c->options.lse = &c->lse.view;
    c->options.weights = &c->weights.view;
}

static void teardown(call *c)
{
    test_tensor *all[] = {&c->q, &c->k, &c->v, &c->out, &c->lse, &c->weights};
    for (size_t i = 0; i < 6; i++)
        test_tensor_free(all[i]);
}

static mh_status forward(mh_context *context, call *c)
{
    return mh_attention_forward(context, &c->options, &c->q.view, &c->k.view, &c->v.view,
                                &c->out.view);
}

static void expect(mh_context *context, call *c, mh_status status, const char *word)
{
    test_refused(context, forward(context, c), status, word);
    if (!test_untouched(&c->out) || !test_untouched(&c->lse) || !test_untouched(&c->weights))
        fail_msg("refused because of %s, but an output was written", word);
    // The two questions about a call refuse what the call itself refuses.
    size_t bytes = 0;
    mh_attention_plan plan = mh_attention_plan_default();
    assert_int_equal(mh_attention_workspace(context, &c->options, &c->q.view, &c->k.view,
                                            &c->v.view, &c->out.view, &bytes),
                     status);
    assert_int_equal(mh_attention_explain(context, &c->options, &c->q.view, &c->k.view, &c->v.view,
                                          &c->out.view, &plan),
                     status);
}

// ---- tensors ------------------------------------------------------------------------------------

static test_tensor *tensor_named(call *c, const char *name)
{
    const struct {
        const char *name;
        test_tensor *tensor;
    } all[] = {{"q", &c->q},     {"k", &c->k},     {"v", &c->v},
               {"out", &c->out}, {"lse", &c->lse}, {"weights", &c->weights}};
    for (size_t i = 0; i < 6; i++)
        if (strcmp(all[i].name, name) == 0)
            return all[i].tensor;
    return NULL;
}

static void shapes(void **state)
{
    static const struct {
        const char *name;
        int dimension;
        size_t size; // smaller than the right one, so that a careless call stays in the memory
        const char *word;
    } wrong[] = {
        {"q", 0, 1, "k"},
        {"q", 1, 3, "heads"},
        {"q", 2, 4, "out"},
        {"q", 3, 7, "k"},
        {"q", 3, 0, "k"},
        {"k", 0, 1, "k"},
        {"k", 1, 1, "v"},
        {"k", 2, 6, "v"},
        {"k", 3, 7, "k"},
        {"v", 0, 1, "v"},
        {"v", 1, 1, "v"},
        {"v", 2, 6, "v"},
        {"v", 3, 5, "out"},
        {"out", 0, 1, "out"},
        {"out", 1, 2, "out"},
        {"out", 2, 4, "out"},
        {"out", 3, 5, "out"},
        {"lse", 0, 1, "lse"},
        {"lse", 1, 3, "lse"},
        {"lse", 2, 4, "lse"},
        {"weights", 0, 1, "weights"},
        {"weights", 1, 1, "weights"},
        {"weights", 2, 4, "weights"},
        {"weights", 3, 6, "weights"},
    };
    mh_context *context = *state;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        call c;
        setup(&c);
        tensor_named(&c, wrong[i].name)->view.shape[wrong[i].dimension] = wrong[i].size;
        if (strcmp(wrong[i].word, "heads") == 0) // three query heads, two key heads
            c.out.view.shape[1] = c.lse.view.shape[1] = c.weights.view.shape[1] = wrong[i].size;
        expect(context, &c, MH_ERROR_ARGUMENT, wrong[i].word);
        teardown(&c);
    }
}

static void ranks_and_dtypes(void **state)
{
    static const char *const names[] = {"q", "k", "v", "out", "lse", "weights"};
    static const int ranks[] = {-1, 0, 2, 5, 9};
    static const mh_dtype dtypes[] = {MH_F64, MH_I32, MH_BOOL, (mh_dtype)99};
    mh_context *context = *state;
    for (size_t i = 0; i < 6; i++) {
        for (size_t r = 0; r < sizeof ranks / sizeof *ranks; r++) {
            call c;
            setup(&c);
            tensor_named(&c, names[i])->view.rank = ranks[r];
            expect(context, &c, MH_ERROR_ARGUMENT, names[i]);
            teardown(&c);
        }
        for (size_t d = 0; d < sizeof dtypes / sizeof *dtypes; d++) {
            call c;
            setup(&c);
            tensor_named(&c, names[i])->view.dtype = dtypes[d];
            mh_status status = forward(context, &c);
            tensor_named(&c, names[i])->view.dtype = MH_F32;
            test_refused(context, status, MH_ERROR_UNSUPPORTED, names[i]);
            assert_true(test_untouched(&c.out));
            teardown(&c);
        }
    }
}

static void missing_data(void **state)
{
    static const char *const names[] = {"q", "k", "v", "out"};
    mh_context *context = *state;
    for (size_t i = 0; i < 4; i++) {
        call c;
        setup(&c);
        tensor_named(&c, names[i])->view.data = NULL;
        expect(context, &c, MH_ERROR_ARGUMENT, names[i]);
        teardown(&c);
    }
    call c;
    setup(&c);
    test_refused(context,
                 mh_attention_forward(context, NULL, NULL, &c.k.view, &c.v.view, &c.out.view),
                 MH_ERROR_ARGUMENT, "q");
    test_refused(context,
                 mh_attention_forward(context, NULL, &c.q.view, &c.k.view, &c.v.view, NULL),
                 MH_ERROR_ARGUMENT, "out");
    teardown(&c);
}

// ---- options ------------------------------------------------------------------------------------

typedef struct spoiled {
    const char *word;
    void (*spoil)(call *c);
} spoiled;

static void struct_size_zero(call *c) { c->options.struct_size = 0; }
static void struct_size_large(call *c) { c->options.struct_size += 1; }
static void scale_infinite(call *c) { c->options.scale = -INFINITY; }
static void softcap_negative(call *c) { c->options.softcap = -1; }
static void softcap_nan(call *c) { c->options.softcap = NAN; }
static void softcap_infinite(call *c) { c->options.softcap = INFINITY; }
static void causal_unaligned(call *c) { c->options.causal = MH_CAUSAL; } // T 5, S 7
static void causal_unknown(call *c) { c->options.causal = (mh_causal)17; }
static void left_negative(call *c) { c->options.window_left = -2; }
static void right_negative(call *c) { c->options.window_right = INT64_MIN; }
static void empty_row_unknown(call *c) { c->options.empty_row = (mh_empty_row)9; }
static void precision_unknown(call *c) { c->options.precision = (mh_precision)9; }
static void masks_missing(call *c) { c->options.mask_count = 1; }

static void set_key_lengths(call *c, int64_t first, int64_t second)
{
    c->numbers[0] = first;
    c->numbers[1] = second;
    c->options.key_lengths = c->numbers;
}
static void length_negative(call *c) { set_key_lengths(c, 3, -1); }
static void length_large(call *c) { set_key_lengths(c, S + 1, 3); }

static void prefix_negative(call *c)
{
    c->numbers[0] = -1;
    c->options.prefix_lengths = c->numbers;
}

static void set_mask(call *c, mh_mask_kind kind, mh_dtype dtype, int rank, const size_t *shape)
{
    c->mask = mh_mask_make(kind, mh_tensor_view(c->flags, dtype, rank, shape));
    c->options.masks = &c->mask;
    c->options.mask_count = 1;
}
static void mask_keys(call *c) { set_mask(c, MH_MASK_KEEP, MH_BOOL, 1, (size_t[]){S - 1}); }
static void mask_rows(call *c) { set_mask(c, MH_MASK_DROP, MH_U8, 2, (size_t[]){T - 1, S}); }
static void mask_batch(call *c) { set_mask(c, MH_MASK_DROP, MH_U8, 4, (size_t[]){B + 1, 1, 1, S}); }
static void mask_zero(call *c) { set_mask(c, MH_MASK_KEEP, MH_BOOL, 2, (size_t[]){0, S}); }
static void mask_rank(call *c) { set_mask(c, MH_MASK_KEEP, MH_BOOL, 5, (size_t[]){1, 1, 1, 1, S}); }
static void mask_bad_rank(call *c)
{
    mask_rows(c);
    c->mask.tensor.rank = -1;
}
static void mask_no_data(call *c)
{
    set_mask(c, MH_MASK_KEEP, MH_BOOL, 1, (size_t[]){S});
    c->mask.tensor.data = NULL;
}
static void mask_kind(call *c) { set_mask(c, (mh_mask_kind)5, MH_BOOL, 1, (size_t[]){S}); }

static void set_documents(call *c, size_t queries, size_t keys)
{
    c->query_ids = mh_tensor_2d(c->ids, MH_I32, B, queries);
    c->key_ids = mh_tensor_2d(c->ids, MH_I32, B, keys);
    c->options.query_documents = &c->query_ids;
    c->options.key_documents = &c->key_ids;
}
static void documents_queries(call *c) { set_documents(c, T - 1, S); }
static void documents_keys(call *c) { set_documents(c, T, S - 1); }
static void documents_one(call *c)
{
    set_documents(c, T, S);
    c->options.key_documents = NULL;
}
static void documents_no_data(call *c)
{
    set_documents(c, T, S);
    c->query_ids.data = NULL;
}

// One batch element as two packed sequences; lse and weights left out.
static void set_packed(call *c, int64_t middle, int64_t end)
{
    c->q.view.shape[0] = c->k.view.shape[0] = c->v.view.shape[0] = c->out.view.shape[0] = 1;
    c->options.lse = NULL;
    c->options.weights = NULL;
    c->numbers[1] = middle;
    c->numbers[2] = end;
    c->numbers[4] = 4;
    c->numbers[5] = S;
    c->options.sequences = 2;
    c->options.query_starts = c->numbers;
    c->options.key_starts = c->numbers + 3;
}
static void starts_backwards(call *c) { set_packed(c, 4, 3); }
static void starts_beyond(call *c) { set_packed(c, 3, T + 1); }
static void starts_negative(call *c) { set_packed(c, -1, T); }
static void key_starts_beyond(call *c)
{
    set_packed(c, 3, T);
    c->numbers[5] = S + 1;
}
static void starts_missing(call *c)
{
    set_packed(c, 3, T);
    c->options.key_starts = NULL;
}
static void packed_batch(call *c)
{
    set_packed(c, 3, T);
    c->q.view.shape[0] = c->k.view.shape[0] = c->v.view.shape[0] = c->out.view.shape[0] = B;
}
static void packed_causal(call *c) // 3 queries, 4 keys
{
    set_packed(c, 3, T);
    c->options.causal = MH_CAUSAL;
}
static void packed_length(call *c) // the first sequence has 4 keys, though S is 7
{
    set_packed(c, 3, T);
    c->numbers[6] = 5;
    c->options.key_lengths = c->numbers + 6;
}

static void head_out_of_range(call *c)
{
    c->chosen[0] = 1;
    c->chosen[1] = H;
    c->options.weights_heads = c->chosen;
    c->options.weights_head_count = 2;
    c->weights.view.shape[1] = 2;
}
static void row_out_of_range(call *c)
{
    c->chosen[0] = T;
    c->options.weights_rows = c->chosen;
    c->options.weights_row_count = 1;
    c->weights.view.shape[2] = 1;
}
static void stage_unknown(call *c) { c->options.weights_stage = (mh_weights_stage)8; }
static void average_shape(call *c) { c->options.weights_average = true; } // weights has H heads

static void options(void **state)
{
    static const spoiled all[] = {
        {"struct_size", struct_size_zero},
        {"struct_size", struct_size_large},
        {"scale", scale_infinite},
        {"softcap", softcap_negative},
        {"softcap", softcap_nan},
        {"softcap", softcap_infinite},
        {"causal", causal_unaligned},
        {"causal", causal_unknown},
        {"window_left", left_negative},
        {"window_right", right_negative},
        {"empty_row", empty_row_unknown},
        {"precision", precision_unknown},
        {"masks", masks_missing},
        {"key_lengths", length_negative},
        {"key_lengths", length_large},
        {"prefix_lengths", prefix_negative},
        {"masks", mask_keys},
        {"masks", mask_rows},
        {"masks", mask_batch},
        {"masks", mask_zero},
        {"masks", mask_rank},
        {"masks", mask_bad_rank},
        {"masks", mask_no_data},
        {"masks", mask_kind},
        {"query_documents", documents_queries},
        {"key_documents", documents_keys},
        {"key_documents", documents_one},
        {"query_documents", documents_no_data},
        {"query_starts", starts_backwards},
        {"query_starts", starts_beyond},
        {"query_starts", starts_negative},
        {"key_starts", key_starts_beyond},
        {"key_starts", starts_missing},
        {"q", packed_batch},
        {"causal", packed_causal},
        {"key_lengths", packed_length},
        {"weights_heads", head_out_of_range},
        {"weights_rows", row_out_of_range},
        {"weights_stage", stage_unknown},
        {"weights", average_shape},
    };
    mh_context *context = *state;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        call c;
        setup(&c);
        all[i].spoil(&c);
        expect(context, &c, MH_ERROR_ARGUMENT, all[i].word);
        teardown(&c);
    }
}

static void mask_dtypes(void **state)
{
    static const struct {
        mh_mask_kind kind;
        mh_dtype dtype;
    } wrong[] = {{MH_MASK_KEEP, MH_F32}, {MH_MASK_KEEP, MH_I32}, {MH_MASK_DROP, MH_F16},
                 {MH_MASK_ADD, MH_BOOL}, {MH_MASK_ADD, MH_U8},   {MH_MASK_ADD, MH_F64}};
    mh_context *context = *state;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        call c;
        setup(&c);
        set_mask(&c, wrong[i].kind, wrong[i].dtype, 1, (size_t[]){S});
        expect(context, &c, MH_ERROR_UNSUPPORTED, "masks");
        teardown(&c);
    }
    call c;
    setup(&c);
    set_documents(&c, T, S);
    c.key_ids.dtype = MH_F32;
    expect(context, &c, MH_ERROR_UNSUPPORTED, "key_documents");
    teardown(&c);
}

static void workspace(void **state)
{
    mh_context *context = *state;
    call c;
    setup(&c);
    size_t needed = 0;
    unsigned char small[1];
    test_ok(context, mh_attention_workspace(context, &c.options, &c.q.view, &c.k.view, &c.v.view,
                                            &c.out.view, &needed));
    assert_true(needed > sizeof small);
    c.options.workspace = small;
    c.options.workspace_size = sizeof small;
    test_refused(context, forward(context, &c), MH_ERROR_ARGUMENT, "workspace");
    assert_true(test_untouched(&c.out));
    teardown(&c);
}

// After all those refusals the same context still works.
static void still_works(void **state)
{
    mh_context *context = *state;
    call c;
    setup(&c);
    test_ok(context, forward(context, &c));
    assert_true(ref_get(&c.out.view, (size_t[]){1, 3, 4, 5}) == 0.5);
    set_packed(&c, 3, T);
    test_ok(context, forward(context, &c));
    teardown(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shapes),       cmocka_unit_test(ranks_and_dtypes),
        cmocka_unit_test(missing_data), cmocka_unit_test(options),
        cmocka_unit_test(mask_dtypes),  cmocka_unit_test(workspace),
        cmocka_unit_test(still_works),
    };
    return cmocka_run_group_tests(tests, test_open_context, test_close_context);
}
