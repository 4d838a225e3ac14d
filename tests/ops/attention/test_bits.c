// SPDX-License-Identifier: MIT
// The promise of equal bits, by memcmp: whatever surrounds a query row - other threads, a batch,
// padding, packing, the rows before and after it, further outputs, the caller's floating-point
// environment, the layout in memory - its result is the same to the last bit.
//
// Every check runs at every instruction-set level and in f32, bf16 and f16, with more keys than
// two chunks of 512.
#include "ref/ref_tensor.h"
#include "support.h"

#include <fenv.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

enum { B = 3, H = 4, G = 2, T = 37, S = 1100, E = 24, Ev = 17 };

typedef struct problem {
    mh_context *context;
    mh_dtype dtype;
    mh_attention_options options;
    test_tensor q, k, v; // (B, H, T, E), (B, G, S, E), (B, G, S, Ev)
} problem;

static problem setup_width(mh_context *context, mh_dtype dtype, size_t width)
{
    test_rng rng = {11};
    problem p = {.context = context, .dtype = dtype, .options = mh_attention_options_default()};
    p.q = test_tensor_dense(dtype, 4, (size_t[]){B, H, T, width});
    p.k = test_tensor_dense(dtype, 4, (size_t[]){B, G, S, width});
    p.v = test_tensor_dense(dtype, 4, (size_t[]){B, G, S, Ev});
    test_fill_normal(&rng, &p.q.view, 2);
    test_fill_normal(&rng, &p.k.view, 1);
    test_fill_normal(&rng, &p.v.view, 1);
    p.options.causal = MH_CAUSAL_BOTTOM_RIGHT;
    return p;
}

static problem setup(mh_context *context, mh_dtype dtype) { return setup_width(context, dtype, E); }

static void teardown(problem *p)
{
    test_tensor_free(&p->q);
    test_tensor_free(&p->k);
    test_tensor_free(&p->v);
}

// A new dense tensor with the result for these inputs; the caller frees it.
static test_tensor attend(const problem *p, mh_tensor q, mh_tensor k, mh_tensor v)
{
    test_tensor out =
        test_tensor_dense(p->dtype, 4, (size_t[]){q.shape[0], q.shape[1], q.shape[2], v.shape[3]});
    test_ok(p->context, mh_attention_forward(p->context, &p->options, &q, &k, &v, &out.view));
    assert_true(test_guards_intact(&out));
    return out;
}

static test_tensor attend_all(const problem *p)
{
    return attend(p, p->q.view, p->k.view, p->v.view);
}

// Bits of two views of equal shape; NaNs are compared as bits, too.
static void same_bits(const char *what, const problem *p, const mh_tensor *a, const mh_tensor *b)
{
    size_t index[MH_MAX_RANK];
    if (!test_same_bits(a, b, index))
        fail_msg("%s, %s %s: bits differ at (%zu, %zu, %zu, %zu): %.9g, %.9g", what,
                 mh_context_isa(p->context), mh_dtype_name(p->dtype), index[0], index[1], index[2],
                 index[3], ref_get(a, index), ref_get(b, index));
}

static void same_and_free(const char *what, const problem *p, const mh_tensor *expected,
                          test_tensor found)
{
    same_bits(what, p, expected, &found.view);
    test_tensor_free(&found);
}

typedef void (*check)(mh_context *context, mh_dtype dtype);

// ---- threads ------------------------------------------------------------------------------------

// Runs the turns backwards and on ever other workers, as no pool would.
static void backwards(void *user, size_t threads, size_t count, mh_task_fn task, void *arg)
{
    ++*(size_t *)user;
    for (size_t i = count; i-- > 0;)
        task(arg, i, i % threads);
}

// With `large` there is enough to do for the library to call the loop at all.
static void callers_loop(problem *p, const mh_tensor *expected, bool large)
{
    size_t calls = 0;
    mh_context_options options = mh_context_options_default();
    options.isa = mh_context_isa(p->context);
    options.threads = 5;
    options.parallel_for = backwards;
    options.parallel_for_user = &calls;
    mh_context *usual = p->context;
    test_ok(usual, mh_context_create(&options, &p->context, NULL, 0));
    same_and_free("the caller's parallel_for", p, expected, attend_all(p));
    assert_true(calls > 0 || !large);
    mh_context_free(p->context);
    p->context = usual;
}

static void threads(mh_context *context, mh_dtype dtype)
{
    problem p = setup(context, dtype);
    for (int decode = 0; decode < 2; decode++) {
        if (decode) // one query, one head pair: only the keys can be shared out
            p.q.view = mh_tensor_slice(mh_tensor_slice(p.q.view, 2, T - 1, 1), 0, 0, 1),
            p.k.view.shape[0] = p.v.view.shape[0] = 1;
        test_tensor expected = attend_all(&p);
        for (size_t n = 1; n <= 8; n++) {
            p.context = test_context(mh_context_isa(context), n);
            same_and_free("threads", &p, &expected.view, attend_all(&p));
            same_and_free("a second run", &p, &expected.view, attend_all(&p));
            mh_context_free(p.context);
        }
        p.context = context;
        callers_loop(&p, &expected.view, !decode);
        test_tensor_free(&expected);
    }
    teardown(&p);
}

// ---- the batch ----------------------------------------------------------------------------------

static void batch(mh_context *context, mh_dtype dtype)
{
    problem p = setup(context, dtype);
    test_tensor whole = attend_all(&p);
    for (size_t b = 0; b < B; b++) {
        mh_tensor expected = mh_tensor_slice(whole.view, 0, b, 1);
        same_and_free("alone", &p, &expected,
                      attend(&p, mh_tensor_slice(p.q.view, 0, b, 1),
                             mh_tensor_slice(p.k.view, 0, b, 1),
                             mh_tensor_slice(p.v.view, 0, b, 1)));
    }
    for (size_t h = 0; h < H; h++) { // a head alone, with its key/value head
        size_t g = h / (H / G);
        mh_tensor expected = mh_tensor_slice(whole.view, 1, h, 1);
        same_and_free("a head alone", &p, &expected,
                      attend(&p, mh_tensor_slice(p.q.view, 1, h, 1),
                             mh_tensor_slice(p.k.view, 1, g, 1),
                             mh_tensor_slice(p.v.view, 1, g, 1)));
    }
    test_tensor_free(&whole);
    teardown(&p);
}

// ---- padded, packed, alone ----------------------------------------------------------------------

static const size_t own_T[B] = {T, 5, 20}, own_S[B] = {S, 70, 600};

static void poison_rows(const mh_tensor *t, size_t batch_index, size_t first)
{
    for (size_t h = 0; h < t->shape[1]; h++)
        for (size_t row = first; row < t->shape[2]; row++)
            for (size_t e = 0; e < t->shape[3]; e++)
                ref_set(t, (size_t[]){batch_index, h, row, e}, NAN);
}

// Copies each sequence's own rows behind each other: (B, heads, rows, E) to (1, heads, sum, E).
static test_tensor pack(const problem *p, const mh_tensor *padded, const size_t *own,
                        int64_t *starts)
{
    starts[0] = 0;
    for (size_t b = 0; b < B; b++)
        starts[b + 1] = starts[b] + (int64_t)own[b];
    test_tensor packed = test_tensor_dense(
        p->dtype, 4, (size_t[]){1, padded->shape[1], (size_t)starts[B], padded->shape[3]});
    for (size_t b = 0; b < B; b++) {
        mh_tensor from = mh_tensor_slice(mh_tensor_slice(*padded, 0, b, 1), 2, 0, own[b]);
        mh_tensor to = mh_tensor_slice(packed.view, 2, (size_t)starts[b], own[b]);
        test_ok(p->context, mh_tensor_copy(p->context, &from, &to));
    }
    return packed;
}

static test_tensor attend_padded(problem *p)
{
    int64_t lengths[B];
    for (size_t b = 0; b < B; b++) {
        lengths[b] = (int64_t)own_S[b];
        poison_rows(&p->q.view, b, own_T[b]); // what padding holds must not matter
        poison_rows(&p->k.view, b, own_S[b]);
        poison_rows(&p->v.view, b, own_S[b]);
    }
    p->options.key_lengths = lengths;
    test_tensor out = attend_all(p);
    p->options.key_lengths = NULL;
    return out;
}

static test_tensor attend_packed(problem *p)
{
    int64_t query_starts[B + 1], key_starts[B + 1];
    test_tensor q = pack(p, &p->q.view, own_T, query_starts);
    test_tensor k = pack(p, &p->k.view, own_S, key_starts);
    test_tensor v = pack(p, &p->v.view, own_S, key_starts);
    p->options.sequences = B;
    p->options.query_starts = query_starts;
    p->options.key_starts = key_starts;
    test_tensor out = attend(p, q.view, k.view, v.view);
    p->options.sequences = 0;
    p->options.query_starts = p->options.key_starts = NULL;
    test_tensor_free(&q);
    test_tensor_free(&k);
    test_tensor_free(&v);
    return out;
}

// Padded queries have no place of their own at the bottom right, hence the other alignments. The
// last way has wide heads.
static void padding(mh_context *context, mh_dtype dtype)
{
    for (int way = 0; way < 4; way++) {
        problem p = setup_width(context, dtype, way == 3 ? 136 : E);
        p.options.causal = way == 0 ? MH_CAUSAL_NONE : MH_CAUSAL_OFFSET;
        p.options.offset = 40;
        if (way == 2)
            p.options.window_left = 33;
        test_tensor padded = attend_padded(&p), packed = attend_packed(&p);
        size_t start = 0;
        for (size_t b = 0; b < B; start += own_T[b++]) {
            mh_tensor from_padded =
                mh_tensor_slice(mh_tensor_slice(padded.view, 0, b, 1), 2, 0, own_T[b]);
            mh_tensor from_packed = mh_tensor_slice(packed.view, 2, start, own_T[b]);
            mh_tensor q = mh_tensor_slice(mh_tensor_slice(p.q.view, 0, b, 1), 2, 0, own_T[b]);
            mh_tensor k = mh_tensor_slice(mh_tensor_slice(p.k.view, 0, b, 1), 2, 0, own_S[b]);
            mh_tensor v = mh_tensor_slice(mh_tensor_slice(p.v.view, 0, b, 1), 2, 0, own_S[b]);
            test_tensor alone = attend(&p, q, k, v);
            same_bits("padded", &p, &alone.view, &from_padded);
            same_bits("packed", &p, &alone.view, &from_packed);
            test_tensor_free(&alone);
        }
        test_tensor_free(&padded);
        test_tensor_free(&packed);
        teardown(&p);
    }
}

// ---- rows ---------------------------------------------------------------------------------------

// Prefill, chunks of it, and decoding: `step` queries at a time, each seeing the keys it would
// see in the whole.
static void rows(mh_context *context, mh_dtype dtype)
{
    static const size_t steps[] = {1, 7, 16};
    problem p = setup(context, dtype);
    int64_t first = S - T;
    test_tensor whole = attend_all(&p);
    for (int s = 0; s < 3; s++)
        for (size_t i = 0; i < T; i += steps[s]) {
            size_t count = T - i < steps[s] ? T - i : steps[s];
            mh_tensor expected = mh_tensor_slice(whole.view, 2, i, count);
            mh_tensor q = mh_tensor_slice(p.q.view, 2, i, count);
            p.options.causal = MH_CAUSAL_OFFSET;
            p.options.offset = first + (int64_t)i;
            same_and_free("some rows", &p, &expected, attend(&p, q, p.k.view, p.v.view));
            // and with a cache that ends where these rows end
            size_t keys = (size_t)first + i + count;
            p.options.causal = MH_CAUSAL_BOTTOM_RIGHT;
            same_and_free("some rows, short cache", &p, &expected,
                          attend(&p, q, mh_tensor_slice(p.k.view, 2, 0, keys),
                                 mh_tensor_slice(p.v.view, 2, 0, keys)));
        }
    test_tensor_free(&whole);
    teardown(&p);
}

// A neighbour's NaN, and NaN in a key that only a neighbour sees, change nothing of mine.
static void neighbours(mh_context *context, mh_dtype dtype)
{
    problem p = setup(context, dtype);
    test_tensor clean = attend_all(&p);
    size_t mine = 20, edge = S - T + mine; // row 20 sees keys up to `edge`
    mh_tensor expected = mh_tensor_slice(clean.view, 2, 0, mine + 1);
    poison_rows(&p.q.view, 0, mine + 1);
    for (size_t b = 0; b < B; b++) {
        poison_rows(&p.k.view, b, edge + 1);
        poison_rows(&p.v.view, b, edge + 1);
    }
    test_tensor poisoned = attend_all(&p);
    mh_tensor found = mh_tensor_slice(poisoned.view, 2, 0, mine + 1);
    same_bits("NaN in the neighbourhood", &p, &expected, &found);
    test_tensor_free(&poisoned);
    test_tensor_free(&clean);
    teardown(&p);
}

// Few keys that all queries see take a way of their own; a mask that masks nothing brings them back
// to the general one. With values in place and not, and numbers that are none.
static void short_sequences(mh_context *context, mh_dtype dtype)
{
    enum { LONGEST = 17 };
    problem p = setup(context, dtype);
    test_tensor ones = test_tensor_dense(MH_BOOL, 1, (size_t[]){LONGEST});
    test_tensor lse[2];
    memset(ones.view.data, 1, LONGEST);
    for (size_t i = 0; i < 2; i++)
        lse[i] = test_tensor_dense(MH_F32, 3, (size_t[]){B, H, T});
    const size_t lengths[] = {1, 5, 10, 16, LONGEST};
    for (size_t n = 0; n < 3 * (sizeof lengths / sizeof *lengths); n++) {
        const size_t length = lengths[n / 3];
        const mh_tensor k = mh_tensor_slice(p.k.view, 2, 0, length);
        const mh_tensor v =
            mh_tensor_slice(mh_tensor_slice(p.v.view, 2, 0, length), 3, 0, n % 3 == 1 ? Ev : 16);
        if (n % 3 == 2) { // some rows are NaN, some sums inf
            ref_set(&p.q.view, (size_t[]){0, 1, 2, 3}, NAN);
            ref_set(&p.k.view, (size_t[]){1, 0, 0, 3}, INFINITY);
            ref_set(&p.v.view, (size_t[]){2, 1, 0, 4}, INFINITY);
        }
        const mh_mask mask = mh_mask_make(MH_MASK_KEEP, mh_tensor_slice(ones.view, 0, 0, length));
        p.options = mh_attention_options_default();
        p.options.lse = &lse[0].view;
        test_tensor found = attend(&p, p.q.view, k, v);
        p.options.lse = &lse[1].view;
        p.options.masks = &mask;
        p.options.mask_count = 1;
        test_tensor expected = attend(&p, p.q.view, k, v);
        same_bits("lse of short sequences", &p, &lse[0].view, &lse[1].view);
        same_and_free("short sequences", &p, &expected.view, found);
        test_tensor_free(&expected);
    }
    test_tensor_free(&lse[0]);
    test_tensor_free(&lse[1]);
    test_tensor_free(&ones);
    teardown(&p);
}

// The same with heads so wide that the first keys' scores are sums of another kind: by a mask that
// masks nothing, and as the beginning of a longer, padded sequence.
static void short_and_wide(mh_context *context, mh_dtype dtype)
{
    enum { LENGTH = 11, PADDED = 90 };
    static const size_t widths[] = {130, 300, 512};
    const int64_t lengths[B] = {LENGTH, LENGTH, LENGTH};
    problem p = {.context = context, .dtype = dtype};
    test_rng rng = {12};
    test_tensor ones = test_tensor_dense(MH_BOOL, 1, (size_t[]){LENGTH});
    memset(ones.view.data, 1, LENGTH);
    const mh_mask mask = mh_mask_make(MH_MASK_KEEP, ones.view);
    for (size_t n = 0; n < 3; n++) {
        p.q = test_tensor_dense(dtype, 4, (size_t[]){B, H, T, widths[n]});
        p.k = test_tensor_dense(dtype, 4, (size_t[]){B, G, PADDED, widths[n]});
        p.v = test_tensor_dense(dtype, 4, (size_t[]){B, G, PADDED, widths[n]});
        test_fill_normal(&rng, &p.q.view, 0.2);
        test_fill_normal(&rng, &p.k.view, 1);
        test_fill_normal(&rng, &p.v.view, 1);
        const mh_tensor k = mh_tensor_slice(p.k.view, 2, 0, LENGTH);
        const mh_tensor v = mh_tensor_slice(p.v.view, 2, 0, LENGTH);
        p.options = mh_attention_options_default();
        test_tensor expected = attend(&p, p.q.view, k, v);
        p.options.masks = &mask;
        p.options.mask_count = 1;
        same_and_free("short and wide", &p, &expected.view, attend(&p, p.q.view, k, v));
        p.options = mh_attention_options_default();
        p.options.key_lengths = lengths;
        same_and_free("short and wide, padded", &p, &expected.view, attend_all(&p));
        test_tensor_free(&expected);
        teardown(&p);
    }
    test_tensor_free(&ones);
}

// A query that sees one key has weight 1 for it, whatever the order of sums.
static void one_key_of_a_wide_head(mh_context *context, mh_dtype dtype)
{
    enum { LENGTH = 5 };
    problem p = setup_width(context, dtype, 200);
    test_tensor weights = test_tensor_dense(MH_F32, 4, (size_t[]){B, H, LENGTH, LENGTH});
    p.options.causal = MH_CAUSAL_TOP_LEFT;
    p.options.weights = &weights.view;
    test_tensor out =
        attend(&p, mh_tensor_slice(p.q.view, 2, 0, LENGTH), mh_tensor_slice(p.k.view, 2, 0, LENGTH),
               mh_tensor_slice(p.v.view, 2, 0, LENGTH));
    // Where bf16 is native, weights are made on the matrix engine, outputs of so few keys are not.
    const bool on_tiles = dtype == MH_BF16 && mh_context_native_bf16(context);
    for (size_t b = 0; b < B; b++)
        for (size_t h = 0; h < H; h++)
            assert_true(on_tiles || ref_get(&weights.view, (size_t[]){b, h, 0, 0}) == 1);
    test_tensor_free(&out);
    test_tensor_free(&weights);
    teardown(&p);
}

// ---- further outputs, memory, layout ------------------------------------------------------------

static void further_outputs(mh_context *context, mh_dtype dtype)
{
    problem p = setup(context, dtype);
    float sinks[H] = {-1, 0, 1, 2};
    p.options.sinks = sinks;
    p.options.softcap = 5;
    test_tensor expected = attend_all(&p);
    test_tensor lse = test_tensor_dense(MH_F32, 3, (size_t[]){B, H, T});
    test_tensor weights = test_tensor_dense(MH_F32, 4, (size_t[]){B, H, T, S});
    p.options.lse = &lse.view;
    same_and_free("with lse", &p, &expected.view, attend_all(&p));
    p.options.weights = &weights.view;
    for (int stage = 0; stage <= MH_WEIGHTS_BIASED; stage++) {
        p.options.weights_stage = (mh_weights_stage)stage;
        same_and_free("with weights", &p, &expected.view, attend_all(&p));
    }
    p.options.lse = NULL;
    p.options.weights_average = true;
    weights.view.shape[1] = 1;
    same_and_free("with mean weights", &p, &expected.view, attend_all(&p));
    test_tensor_free(&lse);
    test_tensor_free(&weights);
    test_tensor_free(&expected);
    teardown(&p);
}

// lse and weights keep the promise themselves: threads, and one batch element alone.
static void bits_of_further_outputs(mh_context *context, mh_dtype dtype)
{
    problem p = setup(context, dtype);
    test_tensor lse[2], weights[2];
    for (size_t n = 0; n < 2; n++) {
        lse[n] = test_tensor_dense(MH_F32, 3, (size_t[]){B, H, T});
        weights[n] = test_tensor_dense(dtype, 4, (size_t[]){B, H, T, S});
        p.context = test_context(mh_context_isa(context), n ? 7 : 1);
        for (size_t b = 0; b < (n ? B : 1); b++) {
            size_t count = n ? 1 : B;
            mh_tensor l = mh_tensor_slice(lse[n].view, 0, b, count);
            mh_tensor w = mh_tensor_slice(weights[n].view, 0, b, count);
            p.options.lse = &l;
            p.options.weights = &w;
            test_tensor out = attend(&p, mh_tensor_slice(p.q.view, 0, b, count),
                                     mh_tensor_slice(p.k.view, 0, b, count),
                                     mh_tensor_slice(p.v.view, 0, b, count));
            test_tensor_free(&out);
        }
        mh_context_free(p.context);
        p.context = context;
    }
    same_bits("lse", &p, &lse[0].view, &lse[1].view);
    same_bits("weights", &p, &weights[0].view, &weights[1].view);
    for (size_t n = 0; n < 2; n++) {
        test_tensor_free(&lse[n]);
        test_tensor_free(&weights[n]);
    }
    teardown(&p);
}

static void own_workspace(mh_context *context, mh_dtype dtype)
{
    enum { MARK = 0x5C, MARGIN = 64 };
    problem p = setup(context, dtype);
    test_tensor expected = attend_all(&p);
    size_t bytes = 0;
    test_ok(context, mh_attention_workspace(context, &p.options, &p.q.view, &p.k.view, &p.v.view,
                                            &expected.view, &bytes));
    unsigned char *memory = ref_alloc(bytes + 2 * MARGIN, 1);
    for (size_t shift = 0; shift < 3; shift++) { // any alignment will do
        memset(memory, MARK, bytes + 2 * MARGIN);
        p.options.workspace = memory + MARGIN / 2 + shift;
        p.options.workspace_size = bytes;
        same_and_free("own workspace", &p, &expected.view, attend_all(&p));
        for (size_t i = 0; i < MARGIN / 2; i++) {
            assert_int_equal(memory[i], MARK);
            assert_int_equal(memory[MARGIN / 2 + shift + bytes + i], MARK);
        }
    }
    free(memory);
    test_tensor_free(&expected);
    teardown(&p);
}

// The same numbers in (B, T, H, E), and in layouts that nobody would choose.
static void layouts(mh_context *context, mh_dtype dtype)
{
    problem p = setup(context, dtype);
    test_rng rng = {5};
    test_tensor expected = attend_all(&p);
    for (int turn = 0; turn < 6; turn++) {
        const mh_tensor *from[3] = {&p.q.view, &p.k.view, &p.v.view};
        test_tensor to[4];
        for (int i = 0; i < 4; i++) {
            const size_t *s = i < 3 ? from[i]->shape : expected.view.shape;
            if (turn == 0) {
                to[i] = test_tensor_dense(dtype, 4, (size_t[]){s[0], s[2], s[1], s[3]});
                to[i].view = mh_tensor_swap(to[i].view, 1, 2);
            } else {
                to[i] = test_tensor_random(&rng, dtype, 4, s, false);
            }
            if (i < 3)
                test_ok(context, mh_tensor_copy(context, from[i], &to[i].view));
        }
        test_ok(context, mh_attention_forward(context, &p.options, &to[0].view, &to[1].view,
                                              &to[2].view, &to[3].view));
        same_bits("layout", &p, &expected.view, &to[3].view);
        for (int i = 0; i < 4; i++)
            test_tensor_free(&to[i]);
    }
    test_tensor_free(&expected);
    teardown(&p);
}

// ---- the caller's floating-point environment ----------------------------------------------------

static void flush_denormals(void)
{
#if defined(__x86_64__)
    _mm_setcsr(_mm_getcsr() | 0x8040); // FTZ and DAZ
#endif
}

// Small numbers, so that flushing would show.
static void environment(mh_context *context, mh_dtype dtype)
{
    static const int modes[] = {FE_TONEAREST, FE_DOWNWARD, FE_UPWARD, FE_TOWARDZERO};
    test_rng rng = {17};
    problem p = setup(context, dtype);
    test_fill_normal(&rng, &p.v.view, dtype == MH_F16 ? 0x1p-22 : 0x1p-128);
    test_tensor expected = attend_all(&p);
    fenv_t usual;
    fegetenv(&usual);
    for (int n = 0; n < 4; n++) {
        flush_denormals();
        fesetround(modes[n]);
        test_tensor found = test_tensor_dense(dtype, 4, expected.view.shape);
        mh_status status =
            mh_attention_forward(context, &p.options, &p.q.view, &p.k.view, &p.v.view, &found.view);
        int mode = fegetround(); // and the caller gets its environment back
        fesetenv(&usual);
        test_ok(context, status);
        assert_int_equal(mode, modes[n]);
        same_and_free("another rounding mode, no denormals", &p, &expected.view, found);
    }
    test_tensor_free(&expected);
    teardown(&p);
}

// ---- the list -----------------------------------------------------------------------------------

// cmocka hands a test its initial state: the check to run everywhere.
static void run_check(void **state) { test_everywhere(2, *(check *)*state); }

int main(void)
{
    static struct {
        const char *name;
        check body;
    } checks[] = {
        {"threads", threads},
        {"batch", batch},
        {"padding", padding},
        {"rows", rows},
        {"neighbours", neighbours},
        {"short_sequences", short_sequences},
        {"short_and_wide", short_and_wide},
        {"one_key_of_a_wide_head", one_key_of_a_wide_head},
        {"further_outputs", further_outputs},
        {"bits_of_further_outputs", bits_of_further_outputs},
        {"own_workspace", own_workspace},
        {"layouts", layouts},
        {"environment", environment},
    };
    enum { COUNT = sizeof checks / sizeof *checks };
    struct CMUnitTest tests[COUNT];
    for (size_t i = 0; i < COUNT; i++)
        tests[i] = (struct CMUnitTest){checks[i].name, run_check, NULL, NULL, &checks[i].body};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
