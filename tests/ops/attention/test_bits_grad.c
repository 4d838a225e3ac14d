// SPDX-License-Identifier: MIT
// The promise of equal bits for mh_attention_backward, by memcmp: threads, a batch, padding,
// packing, repetition, which gradients are asked for, the caller's floating-point environment,
// memory and loop, the layout - none of it changes a bit of dq, dk and dv, and what does not
// change the sum over the batch changes none of dmasks and dsinks.
//
// Every check runs at every instruction-set level, in f32, bf16 and f16, and for two shapes: few
// heads with several KV splits of 512 keys, so that there is no other way to occupy all threads
// than to share out one head's queries and keys; and many heads.
#include "ref/ref_tensor.h"
#include "support.h"

#include <fenv.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

enum { GRADIENTS = 5, OF_SEQUENCES = 3, MAX_BATCH = 3 }; // dq, dk, dv, then dmasks and dsinks

static const char *const names[GRADIENTS] = {"dq", "dk", "dv", "dmasks", "dsinks"};

typedef struct shape {
    size_t B, H, G, T, S, E, Ev;
} shape;

static const shape shapes[] = {{1, 2, 1, 40, 1700, 24, 17}, {3, 6, 3, 21, 560, 16, 20}};

typedef struct problem {
    mh_context *context;
    mh_dtype dtype;
    shape s;
    mh_attention_options options;
    test_tensor q, k, v, dout; // (B, H, T, E), (B, G, S, E), (B, G, S, Ev), (B, H, T, Ev)
    test_tensor bias;          // (H, 1, S)
    mh_mask mask;
    float sinks[8];
} problem;

// In place, as options point into it: causal, an additive mask, sinks, softcap and dropout.
static void setup(problem *p, mh_context *context, mh_dtype dtype, const shape *s)
{
    test_rng rng = {31};
    *p = (problem){.context = context, .dtype = dtype, .s = *s};
    p->options = mh_attention_options_default();
    p->q = test_tensor_dense(dtype, 4, (size_t[]){s->B, s->H, s->T, s->E});
    p->k = test_tensor_dense(dtype, 4, (size_t[]){s->B, s->G, s->S, s->E});
    p->v = test_tensor_dense(dtype, 4, (size_t[]){s->B, s->G, s->S, s->Ev});
    p->dout = test_tensor_dense(dtype, 4, (size_t[]){s->B, s->H, s->T, s->Ev});
    p->bias = test_tensor_dense(MH_F32, 3, (size_t[]){s->H, 1, s->S});
    test_fill_normal(&rng, &p->q.view, 2);
    test_fill_normal(&rng, &p->k.view, 1);
    test_fill_normal(&rng, &p->v.view, 1);
    test_fill_normal(&rng, &p->dout.view, 1);
    test_fill_normal(&rng, &p->bias.view, 1);
    for (size_t h = 0; h < s->H; h++)
        p->sinks[h] = (float)test_normal(&rng);
    p->mask = mh_mask_make(MH_MASK_ADD, p->bias.view);
    p->options.masks = &p->mask;
    p->options.mask_count = 1;
    p->options.sinks = p->sinks;
    p->options.causal = MH_CAUSAL_BOTTOM_RIGHT;
    p->options.softcap = 20;
    p->options.dropout = 0.1f;
    p->options.dropout_seed = 3;
}

static void teardown(problem *p)
{
    test_tensor *all[] = {&p->q, &p->k, &p->v, &p->dout, &p->bias};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        test_tensor_free(all[i]);
}

// ---- running and comparing ----------------------------------------------------------------------

typedef struct inputs {
    mh_tensor q, k, v, dout;
} inputs;

static inputs all_of(const problem *p)
{
    return (inputs){p->q.view, p->k.view, p->v.view, p->dout.view};
}

// Gradients in the order of `names`; those that were not wanted have no bytes.
typedef struct gradients {
    test_tensor t[GRADIENTS];
} gradients;

static void gradients_free(gradients *g)
{
    for (size_t i = 0; i < GRADIENTS; i++)
        test_tensor_free(&g->t[i]);
}

static gradients gradients_create(const problem *p, const inputs *in, unsigned wanted)
{
    const mh_tensor sinks = mh_tensor_1d(NULL, MH_F32, p->s.H);
    const mh_tensor *like[GRADIENTS] = {&in->q, &in->k, &in->v, &p->mask.tensor, &sinks};
    gradients g = {0};
    for (size_t i = 0; i < GRADIENTS; i++)
        if (wanted >> i & 1)
            g.t[i] = test_tensor_dense(i < OF_SEQUENCES ? p->dtype : MH_F32, like[i]->rank,
                                       like[i]->shape);
    return g;
}

static mh_tensor *view_of(gradients *g, size_t i) { return g->t[i].bytes ? &g->t[i].view : NULL; }

// The struct that the library wants; *dmask is the one element of its array.
static mh_attention_gradients wanted_of(gradients *g, mh_tensor **dmask)
{
    mh_attention_gradients wanted = mh_attention_gradients_default();
    *dmask = view_of(g, 3);
    wanted.dq = view_of(g, 0);
    wanted.dk = view_of(g, 1);
    wanted.dv = view_of(g, 2);
    wanted.dmasks = dmask;
    wanted.dsinks = view_of(g, 4);
    return wanted;
}

// Only the call itself, with out of forward, for where it matters what happens around it.
static mh_status call(const problem *p, const mh_attention_options *options, const inputs *in,
                      const mh_tensor *out, gradients *g)
{
    mh_tensor *dmask;
    mh_attention_gradients wanted = wanted_of(g, &dmask);
    return mh_attention_backward(p->context, options, &in->q, &in->k, &in->v, out, &in->dout,
                                 &wanted);
}

typedef struct forward {
    test_tensor out, lse;
} forward;

static forward run_forward(const problem *p, const inputs *in)
{
    forward f = {test_tensor_dense(p->dtype, 4, in->dout.shape),
                 test_tensor_dense(MH_F32, 3, in->dout.shape)};
    mh_attention_options options = p->options;
    options.lse = &f.lse.view;
    options.workspace = NULL; // what is given is for backward
    test_ok(p->context,
            mh_attention_forward(p->context, &options, &in->q, &in->k, &in->v, &f.out.view));
    return f;
}

static void forward_free(forward *f)
{
    test_tensor_free(&f->out);
    test_tensor_free(&f->lse);
}

// Forward and backward; a new set of the wanted gradients, which the caller frees.
static gradients differentiate(const problem *p, inputs in, unsigned wanted)
{
    mh_attention_options options = p->options;
    forward f = run_forward(p, &in);
    gradients g = gradients_create(p, &in, wanted);
    options.lse = &f.lse.view;
    test_ok(p->context, call(p, &options, &in, &f.out.view, &g));
    for (size_t i = 0; i < GRADIENTS; i++)
        assert_true(!g.t[i].bytes || test_guards_intact(&g.t[i]));
    forward_free(&f);
    return g;
}

enum { ALL = (1 << GRADIENTS) - 1 };

static void same_bits(const char *what, const char *name, const problem *p, const mh_tensor *a,
                      const mh_tensor *b)
{
    size_t index[MH_MAX_RANK];
    if (!test_same_bits(a, b, index))
        fail_msg("%s, %s %s, H %zu: %s differs at (%zu, %zu, %zu, %zu): %.9g, %.9g", what,
                 mh_context_isa(p->context), mh_dtype_name(p->dtype), p->s.H, name, index[0],
                 index[1], index[2], index[3], ref_get(a, index), ref_get(b, index));
}

// Those of the found ones that are there.
static void same_and_free(const char *what, const problem *p, const gradients *expected,
                          gradients found)
{
    for (size_t i = 0; i < GRADIENTS; i++)
        if (found.t[i].bytes)
            same_bits(what, names[i], p, &expected->t[i].view, &found.t[i].view);
    gradients_free(&found);
}

typedef void (*check)(problem *p);

static void everywhere(check body)
{
    static const mh_dtype dtypes[] = {MH_F32, MH_BF16, MH_F16};
    for (size_t level = 0; test_level(level); level++) {
        mh_context *context = test_context(test_level(level), 2);
        const size_t dtype_count = level == 0 ? 1 : 3; // scalar code takes its time
        for (size_t d = 0; d < dtype_count; d++)
            for (size_t n = 0; n < sizeof shapes / sizeof *shapes; n++) {
                static problem p;
                setup(&p, context, dtypes[d], &shapes[n]);
                body(&p);
                teardown(&p);
            }
        mh_context_free(context);
    }
}

// ---- threads ------------------------------------------------------------------------------------

// Runs the turns backwards and on ever other workers, as no pool would.
static void backwards(void *user, size_t threads, size_t count, mh_task_fn task, void *arg)
{
    ++*(size_t *)user;
    for (size_t i = count; i-- > 0;)
        task(arg, i, i % threads);
}

static void callers_loop(problem *p, const gradients *expected)
{
    size_t calls = 0;
    mh_context_options options = mh_context_options_default();
    options.isa = mh_context_isa(p->context);
    options.threads = 5;
    options.parallel_for = backwards;
    options.parallel_for_user = &calls;
    mh_context *usual = p->context;
    test_ok(usual, mh_context_create(&options, &p->context, NULL, 0));
    same_and_free("the caller's parallel_for", p, expected, differentiate(p, all_of(p), ALL));
    assert_true(calls > 0);
    mh_context_free(p->context);
    p->context = usual;
}

static void threads(problem *p)
{
    mh_context *usual = p->context;
    gradients expected = differentiate(p, all_of(p), ALL);
    for (size_t n = 1; n <= 8; n++) {
        p->context = test_context(mh_context_isa(usual), n);
        same_and_free("threads", p, &expected, differentiate(p, all_of(p), ALL));
        mh_context_free(p->context);
    }
    p->context = usual;
    callers_loop(p, &expected);
    gradients_free(&expected);
}

// Four threads on however many cores: who computes what is different every time.
static void repetition(problem *p)
{
    if (p->dtype != MH_F32)
        return;
    mh_context *usual = p->context;
    p->context = test_context(mh_context_isa(usual), 4);
    gradients expected = differentiate(p, all_of(p), ALL);
    for (size_t n = 0; n < 50; n++)
        same_and_free("repetition", p, &expected, differentiate(p, all_of(p), ALL));
    gradients_free(&expected);
    mh_context_free(p->context);
    p->context = usual;
}

// ---- the batch ----------------------------------------------------------------------------------

static inputs cut(const problem *p, size_t b, size_t T, size_t S)
{
    inputs in = all_of(p);
    mh_tensor *all[] = {&in.q, &in.k, &in.v, &in.dout};
    for (size_t i = 0; i < 4; i++) {
        *all[i] = mh_tensor_slice(*all[i], 0, b, 1);
        *all[i] = mh_tensor_slice(*all[i], 2, 0, i == 1 || i == 2 ? S : T);
    }
    return in;
}

static void batch(problem *p)
{
    gradients whole = differentiate(p, all_of(p), ALL);
    for (size_t b = 0; b < p->s.B; b++) {
        p->options.dropout_sequence = b; // so that it drops the same weights
        gradients alone = differentiate(p, cut(p, b, p->s.T, p->s.S), ALL);
        for (size_t i = 0; i < OF_SEQUENCES; i++) {
            mh_tensor expected = mh_tensor_slice(whole.t[i].view, 0, b, 1);
            same_bits("alone", names[i], p, &expected, &alone.t[i].view);
        }
        gradients_free(&alone);
    }
    gradients_free(&whole);
}

// ---- padded, packed, alone ----------------------------------------------------------------------

static size_t own_T(const problem *p, size_t b) { return b == 0 ? p->s.T : b == 1 ? 5 : 20; }
static size_t own_S(const problem *p, size_t b) { return b == 0 ? p->s.S : b == 1 ? 70 : 530; }

static size_t own_rows(const problem *p, size_t b, bool of_keys)
{
    return of_keys ? own_S(p, b) : own_T(p, b);
}

static void fill_padding(const mh_tensor *t, size_t b, size_t first, double value)
{
    for (size_t h = 0; h < t->shape[1]; h++)
        for (size_t row = first; row < t->shape[2]; row++)
            for (size_t e = 0; e < t->shape[3]; e++)
                ref_set(t, (size_t[]){b, h, row, e}, value);
}

// Keys that do not exist may hold anything. Queries that should not count have no gradient to hand
// on, but are computed.
static gradients differentiate_padded(problem *p)
{
    int64_t lengths[MAX_BATCH];
    for (size_t b = 0; b < p->s.B; b++) {
        lengths[b] = (int64_t)own_S(p, b);
        fill_padding(&p->dout.view, b, own_T(p, b), 0);
        fill_padding(&p->k.view, b, own_S(p, b), NAN);
        fill_padding(&p->v.view, b, own_S(p, b), NAN);
    }
    p->options.key_lengths = lengths;
    gradients g = differentiate(p, all_of(p), ALL);
    p->options.key_lengths = NULL;
    return g;
}

// Copies each sequence's own rows behind each other.
static test_tensor pack(const problem *p, const mh_tensor *padded, bool of_keys, int64_t *starts)
{
    starts[0] = 0;
    for (size_t b = 0; b < p->s.B; b++)
        starts[b + 1] = starts[b] + (int64_t)own_rows(p, b, of_keys);
    test_tensor packed = test_tensor_dense(
        p->dtype, 4, (size_t[]){1, padded->shape[1], (size_t)starts[p->s.B], padded->shape[3]});
    for (size_t b = 0; b < p->s.B; b++) {
        size_t rows = own_rows(p, b, of_keys);
        mh_tensor from = mh_tensor_slice(mh_tensor_slice(*padded, 0, b, 1), 2, 0, rows);
        mh_tensor to = mh_tensor_slice(packed.view, 2, (size_t)starts[b], rows);
        test_ok(p->context, mh_tensor_copy(p->context, &from, &to));
    }
    return packed;
}

static gradients differentiate_packed(problem *p, int64_t *query_starts, int64_t *key_starts)
{
    test_tensor q = pack(p, &p->q.view, false, query_starts);
    test_tensor k = pack(p, &p->k.view, true, key_starts);
    test_tensor v = pack(p, &p->v.view, true, key_starts);
    test_tensor dout = pack(p, &p->dout.view, false, query_starts);
    p->options.sequences = p->s.B;
    p->options.query_starts = query_starts;
    p->options.key_starts = key_starts;
    gradients g = differentiate(p, (inputs){q.view, k.view, v.view, dout.view}, ALL);
    p->options.sequences = 0;
    p->options.query_starts = p->options.key_starts = NULL;
    test_tensor *all[] = {&q, &k, &v, &dout};
    for (size_t i = 0; i < 4; i++)
        test_tensor_free(all[i]);
    return g;
}

// A sequence by itself: no padding, its own number, its own part of the mask.
static gradients differentiate_alone(problem *p, size_t b)
{
    mh_tensor whole = p->mask.tensor;
    p->mask.tensor = mh_tensor_slice(whole, 2, 0, own_S(p, b));
    p->options.dropout_sequence = b;
    gradients g = differentiate(p, cut(p, b, own_T(p, b), own_S(p, b)), ALL);
    p->options.dropout_sequence = 0;
    p->mask.tensor = whole;
    return g;
}

// Padded queries have no place of their own at the bottom right, hence the other alignments.
static void pad_and_pack(problem *p)
{
    for (int way = 0; way < 2; way++) {
        int64_t starts[2][MAX_BATCH + 1];
        p->options.causal = way == 0 ? MH_CAUSAL_NONE : MH_CAUSAL_OFFSET;
        p->options.offset = 60;
        gradients padded = differentiate_padded(p);
        gradients packed = differentiate_packed(p, starts[0], starts[1]);
        for (size_t b = 0; b < p->s.B; b++) {
            gradients alone = differentiate_alone(p, b);
            for (size_t i = 0; i < OF_SEQUENCES; i++) {
                size_t rows = own_rows(p, b, i > 0), start = (size_t)starts[i > 0][b];
                mh_tensor of_padded =
                    mh_tensor_slice(mh_tensor_slice(padded.t[i].view, 0, b, 1), 2, 0, rows);
                mh_tensor of_packed = mh_tensor_slice(packed.t[i].view, 2, start, rows);
                same_bits("packed", names[i], p, &alone.t[i].view, &of_packed);
                same_bits("padded", names[i], p, &alone.t[i].view, &of_padded);
            }
            gradients_free(&alone);
        }
        gradients_free(&padded);
        gradients_free(&packed);
    }
}

static void padding(problem *p)
{
    static problem wide;
    shape s = p->s;
    s.E = 136;
    setup(&wide, p->context, p->dtype, &s);
    pad_and_pack(p);
    pad_and_pack(&wide);
    teardown(&wide);
}

// Few keys that all queries see take a way of their own; a mask that masks nothing brings them back
// to the general one. In narrow heads and in wide ones.
static void short_sequences(problem *p)
{
    const size_t widths[] = {p->s.E, 140};
    for (size_t n = 0; n < 2; n++) {
        static problem few;
        const shape s = {2, 4, 2, 75, 11, widths[n], p->s.Ev};
        setup(&few, p->context, p->dtype, &s);
        few.options = mh_attention_options_default();
        const unsigned wanted = (1 << OF_SEQUENCES) - 1;
        gradients expected = differentiate(&few, all_of(&few), wanted);
        test_tensor ones = test_tensor_dense(MH_BOOL, 1, (size_t[]){s.S});
        memset(ones.view.data, 1, s.S);
        const mh_mask mask = mh_mask_make(MH_MASK_KEEP, ones.view);
        few.options.masks = &mask;
        few.options.mask_count = 1;
        same_and_free("short", &few, &expected, differentiate(&few, all_of(&few), wanted));
        test_tensor_free(&ones);
        gradients_free(&expected);
        teardown(&few);
    }
}

// ---- what is asked for, memory, layout ----------------------------------------------------------

// Each gradient alone, and all but each.
static void subsets(problem *p)
{
    gradients expected = differentiate(p, all_of(p), ALL);
    for (unsigned i = 0; i < GRADIENTS; i++) {
        same_and_free("alone", p, &expected, differentiate(p, all_of(p), 1u << i));
        same_and_free("left out", p, &expected, differentiate(p, all_of(p), ALL & ~(1u << i)));
    }
    gradients_free(&expected);
}

static void own_workspace(problem *p)
{
    enum { MARK = 0x5C, MARGIN = 64 };
    inputs in = all_of(p);
    forward f = run_forward(p, &in);
    gradients expected = differentiate(p, in, ALL);
    mh_tensor *dmask;
    mh_attention_gradients wanted = wanted_of(&expected, &dmask);
    size_t bytes = 0;
    p->options.lse = &f.lse.view;
    test_ok(p->context,
            mh_attention_backward_workspace(p->context, &p->options, &in.q, &in.k, &in.v,
                                            &f.out.view, &in.dout, &wanted, &bytes));
    unsigned char *memory = ref_alloc(bytes + 2 * MARGIN, 1);
    for (size_t shift = 0; shift < 3; shift++) { // any alignment will do
        memset(memory, MARK, bytes + 2 * MARGIN);
        p->options.workspace = memory + MARGIN / 2 + shift;
        p->options.workspace_size = bytes;
        same_and_free("own workspace", p, &expected, differentiate(p, in, ALL));
        for (size_t i = 0; i < MARGIN / 2; i++) {
            assert_int_equal(memory[i], MARK);
            assert_int_equal(memory[MARGIN / 2 + shift + bytes + i], MARK);
        }
    }
    free(memory);
    forward_free(&f);
    gradients_free(&expected);
}

// (B, T, H, E) in memory, or a layout that nobody would choose.
static test_tensor other_layout(test_rng *rng, const mh_tensor *like, bool random)
{
    const size_t *s = like->shape;
    if (random || like->rank < 4)
        return test_tensor_random(rng, like->dtype, like->rank, s, false);
    test_tensor t = test_tensor_dense(like->dtype, 4, (size_t[]){s[0], s[2], s[1], s[3]});
    t.view = mh_tensor_swap(t.view, 1, 2);
    return t;
}

static void check_layout(problem *p, test_rng *rng, bool random, const gradients *expected)
{
    inputs in = all_of(p);
    mh_tensor *all[] = {&in.q, &in.k, &in.v, &in.dout};
    test_tensor copies[4];
    gradients found;
    for (size_t i = 0; i < 4; i++) {
        copies[i] = other_layout(rng, all[i], random);
        test_ok(p->context, mh_tensor_copy(p->context, all[i], &copies[i].view));
        *all[i] = copies[i].view;
    }
    for (size_t i = 0; i < GRADIENTS; i++)
        found.t[i] = other_layout(rng, &expected->t[i].view, random);
    forward f = run_forward(p, &in);
    p->options.lse = &f.lse.view;
    test_ok(p->context, call(p, &p->options, &in, &f.out.view, &found));
    same_and_free("layout", p, expected, found);
    p->options.lse = NULL;
    forward_free(&f);
    for (size_t i = 0; i < 4; i++)
        test_tensor_free(&copies[i]);
}

static void layouts(problem *p)
{
    test_rng rng = {5};
    gradients expected = differentiate(p, all_of(p), ALL);
    for (int turn = 0; turn < 4; turn++)
        check_layout(p, &rng, turn > 0, &expected);
    gradients_free(&expected);
}

// ---- the caller's floating-point environment ----------------------------------------------------

static void flush_denormals(void)
{
#if defined(__x86_64__)
    _mm_setcsr(_mm_getcsr() | 0x8040); // FTZ and DAZ
#endif
}

// A small dout, so that flushing would show.
static void environment(problem *p)
{
    static const int modes[] = {FE_TONEAREST, FE_DOWNWARD, FE_UPWARD, FE_TOWARDZERO};
    test_rng rng = {17};
    test_fill_normal(&rng, &p->dout.view, p->dtype == MH_F16 ? 0x1p-22 : 0x1p-128);
    inputs in = all_of(p);
    forward f = run_forward(p, &in);
    gradients expected = differentiate(p, in, ALL);
    p->options.lse = &f.lse.view;
    fenv_t usual;
    fegetenv(&usual);
    for (int n = 0; n < 4; n++) {
        gradients found = gradients_create(p, &in, ALL);
        flush_denormals();
        fesetround(modes[n]);
        mh_status status = call(p, &p->options, &in, &f.out.view, &found);
        int mode = fegetround(); // and the caller gets its environment back
        fesetenv(&usual);
        test_ok(p->context, status);
        assert_int_equal(mode, modes[n]);
        same_and_free("another rounding mode, no denormals", p, &expected, found);
    }
    forward_free(&f);
    gradients_free(&expected);
}

// ---- the list -----------------------------------------------------------------------------------

// cmocka hands a test its initial state: the check to run everywhere.
static void run_check(void **state) { everywhere(*(check *)*state); }

int main(void)
{
    static struct {
        const char *name;
        check body;
    } checks[] = {
        {"threads", threads},
        {"repetition", repetition},
        {"batch", batch},
        {"padding", padding},
        {"short_sequences", short_sequences},
        {"subsets", subsets},
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
