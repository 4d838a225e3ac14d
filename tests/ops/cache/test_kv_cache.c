// SPDX-License-Identifier: MIT
// The key/value cache: prefilling at once, in pieces and token by token give the bits of
// mh_attention_forward; beams share, windows forget, failures change nothing.
#include "support.h"
#include <math.h>

// Three blocks of keys, and values of three panels, the last of which is not full.
enum { B = 2, H = 4, G = 2, E = 20, EV = 40, LENGTH = 1200 };

typedef struct fixture {
    mh_context *context;
    mh_dtype dtype;
    test_tensor q, k, v, expected, out;
    mh_attention_options options;
} fixture;

static fixture setup_shape(const char *level, size_t threads, mh_dtype dtype, size_t width,
                           size_t length)
{
    test_rng rng = {7};
    fixture f = {.context = test_context(level, threads), .dtype = dtype};
    f.q = test_tensor_dense(dtype, 4, (size_t[]){B, H, length, width});
    f.k = test_tensor_dense(dtype, 4, (size_t[]){B, G, length, width});
    f.v = test_tensor_dense(dtype, 4, (size_t[]){B, G, length, EV});
    f.expected = test_tensor_dense(MH_F32, 4, (size_t[]){B, H, length, EV});
    f.out = test_tensor_dense(MH_F32, 4, (size_t[]){B, H, length, EV});
    test_fill_normal(&rng, &f.q.view, 1);
    test_fill_normal(&rng, &f.k.view, 1);
    test_fill_normal(&rng, &f.v.view, 1);
    f.options = mh_attention_options_default();
    f.options.causal = MH_CAUSAL_BOTTOM_RIGHT;
    test_ok(f.context, mh_attention_forward(f.context, &f.options, &f.q.view, &f.k.view, &f.v.view,
                                            &f.expected.view));
    return f;
}

static fixture setup(const char *level, size_t threads, mh_dtype dtype)
{
    return setup_shape(level, threads, dtype, E, LENGTH);
}

static void teardown(fixture *f)
{
    test_tensor *all[] = {&f->q, &f->k, &f->v, &f->expected, &f->out};
    for (int i = 0; i < 5; i++)
        test_tensor_free(all[i]);
    mh_context_free(f->context);
}

static mh_kv_cache *make_cache(const fixture *f, int64_t window)
{
    mh_kv_cache_options options = mh_kv_cache_options_default();
    options.sequences = B, options.heads = G, options.value_width = EV;
    options.key_width = f->k.view.shape[3];
    options.dtype = f->dtype;
    options.window = window;
    mh_kv_cache *cache;
    test_ok(f->context, mh_kv_cache_create(f->context, &options, &cache));
    return cache;
}

static mh_tensor tokens(const mh_tensor *t, size_t begin, size_t count)
{
    return mh_tensor_slice(*t, 2, begin, count);
}

// Appends tokens begin .. begin + count and lets their queries attend.
static void go_on(fixture *f, mh_kv_cache *cache, size_t begin, size_t count)
{
    mh_tensor q = tokens(&f->q.view, begin, count), k = tokens(&f->k.view, begin, count);
    mh_tensor v = tokens(&f->v.view, begin, count), out = tokens(&f->out.view, begin, count);
    test_ok(f->context, mh_kv_cache_append(f->context, cache, NULL, &k, &v));
    test_ok(f->context, mh_attention_cached(f->context, &f->options, &q, cache, &out));
}

static void same_bits(const fixture *f)
{
    assert_memory_equal(f->out.view.data, f->expected.view.data,
                        mh_tensor_count(&f->out.view) * sizeof(float));
}

// All tokens, `size` at a time.
static void piece_by_piece(fixture *f, size_t size)
{
    const size_t length = f->q.view.shape[2];
    mh_kv_cache *cache = make_cache(f, -1);
    test_paint(&f->out);
    for (size_t begin = 0; begin < length; begin += size)
        go_on(f, cache, begin, length - begin < size ? length - begin : size);
    same_bits(f);
    assert_int_equal(mh_kv_cache_length(cache, 1), length);
    mh_kv_cache_free(cache);
}

static const mh_dtype dtypes[] = {MH_F32, MH_BF16, MH_F16};

static void pieces(void **state)
{
    (void)state;
    static const size_t sizes[] = {LENGTH, 100, 512, 1};
    for (size_t l = 0; test_level(l); l++) {
        for (int d = 0; d < 3; d++) {
            fixture f = setup(test_level(l), 1 + (size_t)d, dtypes[d]);
            for (int s = 0; s < 4; s++)
                piece_by_piece(&f, sizes[s]);
            teardown(&f);
        }
    }
}

// In wide heads the scores of the first sixteen keys are sums of another kind.
static void pieces_of_wide_heads(void **state)
{
    (void)state;
    enum { SHORT = 130 };
    static const size_t sizes[] = {SHORT, 7, 1}, widths[] = {136, 512};
    for (size_t l = 0; test_level(l); l++) {
        for (int d = 0; d < 3; d++) {
            for (int w = 0; w < 2; w++) {
                fixture f = setup_shape(test_level(l), 1 + (size_t)d, dtypes[d], widths[w], SHORT);
                for (int s = 0; s < 3; s++)
                    piece_by_piece(&f, sizes[s]);
                teardown(&f);
            }
        }
    }
}

// One query over many keys, for any number of threads: blocks are shared out, bits are not.
static void threads_of_one_query(void **state)
{
    (void)state;
    for (size_t l = 0; test_level(l); l++) {
        for (size_t threads = 1; threads <= 8; threads++) {
            fixture f = setup(test_level(l), threads, MH_F32);
            mh_kv_cache *cache = make_cache(&f, -1);
            go_on(&f, cache, 0, LENGTH - 1);
            go_on(&f, cache, LENGTH - 1, 1);
            same_bits(&f);
            mh_kv_cache_free(cache);
            teardown(&f);
        }
    }
}

// Sequences of different lengths, and all weights of the last query.
static void ragged_at(const char *level, mh_dtype dtype)
{
    fixture f = setup(level, 2, dtype);
    mh_kv_cache *cache = make_cache(&f, -1);
    const int64_t counts[B] = {700, 33};
    test_ok(f.context, mh_kv_cache_append(f.context, cache, counts, &f.k.view, &f.v.view));
    mh_tensor q = tokens(&f.q.view, 0, 3), out = tokens(&f.out.view, 0, 3);
    mh_tensor expected = tokens(&f.expected.view, 0, 3);
    mh_tensor k = tokens(&f.k.view, 0, 700), v = tokens(&f.v.view, 0, 700);
    test_tensor w1 = test_tensor_dense(MH_F32, 4, (size_t[]){B, H, 3, 700});
    test_tensor w2 = test_tensor_dense(MH_F32, 4, (size_t[]){B, H, 3, 700});
    f.options.weights = &w1.view;
    test_ok(f.context, mh_attention_cached(f.context, &f.options, &q, cache, &out));
    f.options.weights = &w2.view;
    f.options.key_lengths = counts;
    test_ok(f.context, mh_attention_forward(f.context, &f.options, &q, &k, &v, &expected));
    for (size_t h = 0; h < B * H; h++)
        assert_memory_equal((float *)out.data + h * LENGTH * EV,
                            (float *)expected.data + h * LENGTH * EV, 3 * EV * sizeof(float));
    assert_memory_equal(w1.view.data, w2.view.data, mh_tensor_count(&w1.view) * sizeof(float));
    test_tensor_free(&w1);
    test_tensor_free(&w2);
    mh_kv_cache_free(cache);
    teardown(&f);
}

// Weights and scores where a sequence has far fewer keys than another, or none: beyond its length
// there is nothing, which is what keys of 0 would give.
static void short_beside_long_at(const char *level, mh_dtype dtype)
{
    static const mh_weights_stage stages[] = {MH_WEIGHTS_SOFTMAX, MH_WEIGHTS_SCALED};
    static const int64_t lengths[] = {33, 3, 0};
    fixture f = setup(level, 2, dtype);
    mh_tensor q = tokens(&f.q.view, 0, 2), out = tokens(&f.out.view, 0, 2);
    mh_tensor expected = tokens(&f.expected.view, 0, 2);
    test_tensor w1 = test_tensor_dense(MH_F32, 4, (size_t[]){B, H, 2, 130});
    test_tensor w2 = test_tensor_dense(MH_F32, 4, (size_t[]){B, H, 2, 130});
    for (size_t i = 0; i < 6; i++) {
        const int64_t counts[B] = {130, lengths[i / 2]};
        const size_t rest = 130 - (size_t)counts[1];
        mh_kv_cache *cache = make_cache(&f, -1);
        mh_tensor k = tokens(&f.k.view, 0, 130), v = tokens(&f.v.view, 0, 130);
        mh_tensor behind = mh_tensor_slice(tokens(&k, (size_t)counts[1], rest), 0, 1, 1);
        test_ok(f.context, mh_kv_cache_append(f.context, cache, counts, &k, &v));
        test_fill_constant(&behind, 0);
        f.options.weights_stage = stages[i % 2];
        f.options.weights = &w1.view;
        f.options.key_lengths = NULL;
        test_ok(f.context, mh_attention_cached(f.context, &f.options, &q, cache, &out));
        f.options.weights = &w2.view;
        f.options.key_lengths = counts;
        test_ok(f.context, mh_attention_forward(f.context, &f.options, &q, &k, &v, &expected));
        assert_memory_equal(w1.view.data, w2.view.data, mh_tensor_count(&w1.view) * sizeof(float));
        mh_kv_cache_free(cache);
    }
    test_tensor_free(&w1);
    test_tensor_free(&w2);
    teardown(&f);
}

// Both beams continue sequence 1, then each goes its own way.
static void beams_at(const char *level, mh_dtype dtype)
{
    fixture f = setup(level, 1, dtype);
    mh_kv_cache *cache = make_cache(&f, -1);
    go_on(&f, cache, 0, LENGTH - 2);
    size_t before = mh_kv_cache_bytes(cache);
    test_ok(f.context, mh_kv_cache_reorder(f.context, cache, (size_t[]){1, 1}));
    assert_true(mh_kv_cache_bytes(cache) < before); // shared, not copied
    go_on(&f, cache, LENGTH - 2, 2);

    // The same by hand: sequence 0 with the past of sequence 1.
    fixture g = setup(level, 1, dtype);
    mh_tensor from_k = mh_tensor_slice(tokens(&g.k.view, 0, LENGTH - 2), 0, 1, 1);
    mh_tensor from_v = mh_tensor_slice(tokens(&g.v.view, 0, LENGTH - 2), 0, 1, 1);
    mh_tensor to_k = mh_tensor_slice(tokens(&g.k.view, 0, LENGTH - 2), 0, 0, 1);
    mh_tensor to_v = mh_tensor_slice(tokens(&g.v.view, 0, LENGTH - 2), 0, 0, 1);
    test_ok(g.context, mh_tensor_copy(g.context, &from_k, &to_k));
    test_ok(g.context, mh_tensor_copy(g.context, &from_v, &to_v));
    mh_tensor q = tokens(&g.q.view, LENGTH - 2, 2), out = tokens(&g.expected.view, LENGTH - 2, 2);
    test_ok(g.context, mh_attention_forward(g.context, &g.options, &q, &g.k.view, &g.v.view, &out));
    for (size_t b = 0; b < B; b++)
        for (size_t h = 0; h < H; h++) {
            size_t at = ((b * H + h) * LENGTH + LENGTH - 2) * EV;
            assert_memory_equal((float *)f.out.view.data + at, (float *)g.expected.view.data + at,
                                2 * EV * sizeof(float));
        }
    mh_kv_cache_free(cache);
    teardown(&f);
    teardown(&g);
}

static void window_forgets_at(const char *level, mh_dtype dtype)
{
    enum { WINDOW = 100 };
    fixture f = setup(level, 1, dtype);
    f.options.window_left = WINDOW;
    test_ok(f.context, mh_attention_forward(f.context, &f.options, &f.q.view, &f.k.view, &f.v.view,
                                            &f.expected.view));
    mh_kv_cache *cache = make_cache(&f, WINDOW), *all = make_cache(&f, -1);
    for (size_t begin = 0; begin < LENGTH; begin += 40)
        go_on(&f, cache, begin, 40);
    same_bits(&f);
    test_ok(f.context, mh_kv_cache_append(f.context, all, NULL, &f.k.view, &f.v.view));
    assert_true(mh_kv_cache_bytes(cache) < mh_kv_cache_bytes(all));
    f.options.window_left = WINDOW + 1;
    mh_tensor q = tokens(&f.q.view, 0, 1), out = tokens(&f.out.view, 0, 1);
    test_refused(f.context, mh_attention_cached(f.context, &f.options, &q, cache, &out),
                 MH_ERROR_ARGUMENT, "window_left");
    test_refused(f.context, mh_kv_cache_truncate(f.context, cache, 0, 10), MH_ERROR_ARGUMENT,
                 "already been released");
    mh_kv_cache_free(cache);
    mh_kv_cache_free(all);
    teardown(&f);
}

// What a window has forgotten is refused, whoever asks for it: more queries than were appended
// last, scores of all keys, or going on from before.
static void forgotten_is_refused_at(const char *level, mh_dtype dtype)
{
    enum { WINDOW = 64, SEEN = 300 };
    fixture f = setup(level, 1, dtype);
    f.options.window_left = WINDOW;
    test_ok(f.context, mh_attention_forward(f.context, &f.options, &f.q.view, &f.k.view, &f.v.view,
                                            &f.expected.view));
    mh_kv_cache *cache = make_cache(&f, WINDOW);
    for (size_t begin = 0; begin < SEEN; begin++)
        go_on(&f, cache, begin, 1); // keys 0 .. 191 are gone then
    mh_tensor q = tokens(&f.q.view, 200, 100), out = tokens(&f.out.view, 200, 100);
    test_refused(f.context, mh_attention_cached(f.context, &f.options, &q, cache, &out),
                 MH_ERROR_ARGUMENT, "released those before 192");
    test_tensor scores = test_tensor_dense(MH_F32, 4, (size_t[]){B, H, 1, SEEN});
    f.options.weights = &scores.view;
    f.options.weights_stage = MH_WEIGHTS_SCALED;
    q = tokens(&f.q.view, SEEN - 1, 1), out = tokens(&f.out.view, SEEN - 1, 1);
    test_refused(f.context, mh_attention_cached(f.context, &f.options, &q, cache, &out),
                 MH_ERROR_ARGUMENT, "weights_stage");
    f.options.weights = NULL;
    test_tensor_free(&scores);
    for (size_t b = 0; b < B; b++) {
        test_refused(f.context, mh_kv_cache_truncate(f.context, cache, b, 128), MH_ERROR_ARGUMENT,
                     "key 64 of sequence");
        test_refused(f.context, mh_kv_cache_truncate(f.context, cache, b, 200), MH_ERROR_ARGUMENT,
                     "key 136 of sequence");
        test_ok(f.context, mh_kv_cache_truncate(f.context, cache, b, 192 + WINDOW));
    }
    memcpy(f.out.view.data, f.expected.view.data, mh_tensor_count(&f.out.view) * sizeof(float));
    go_on(&f, cache, 192 + WINDOW, 30);
    same_bits(&f);
    for (size_t b = 0; b < B; b++)
        test_ok(f.context, mh_kv_cache_truncate(f.context, cache, b, 0));
    go_on(&f, cache, 0, 20);
    same_bits(&f);
    mh_kv_cache_free(cache);
    teardown(&f);
}

static void truncation_at(const char *level, mh_dtype dtype)
{
    fixture f = setup(level, 1, dtype);
    mh_kv_cache *cache = make_cache(&f, -1);
    test_refused(f.context, mh_kv_cache_append(f.context, cache, NULL, &f.v.view, &f.v.view),
                 MH_ERROR_ARGUMENT, "k: found");
    go_on(&f, cache, 0, LENGTH);
    for (size_t b = 0; b < B; b++)
        test_ok(f.context, mh_kv_cache_truncate(f.context, cache, b, 600));
    go_on(&f, cache, 600, LENGTH - 600);
    same_bits(&f);
    test_refused(f.context, mh_kv_cache_truncate(f.context, cache, 0, LENGTH + 1),
                 MH_ERROR_ARGUMENT, "truncate");
    test_refused(f.context, mh_kv_cache_select(f.context, cache, (size_t[]){0}, SIZE_MAX),
                 MH_ERROR_ARGUMENT, "count: found");
    test_refused(f.context, mh_kv_cache_reorder(f.context, cache, (size_t[]){0, B}),
                 MH_ERROR_ARGUMENT, "parents");
    mh_kv_cache_free(cache);
    teardown(&f);
}

// ---- numbers that are none ----------------------------------------------------------------------

static float *value_at(const fixture *f, size_t b, size_t token)
{
    return (float *)f->out.view.data + (b * H * LENGTH + token) * EV;
}

static void set_number(const mh_tensor *t, size_t b, size_t g, size_t token, float value)
{
    const size_t at = ((b * G + g) * LENGTH + token) * t->shape[3];
    if (t->dtype == MH_F32)
        ((float *)t->data)[at] = value;
    else
        ((uint16_t *)t->data)[at] = isnan(value) ? 0x7FC0 : 0x7F80; // bf16
}

// Queries before them do not notice, whatever the order in which tokens come.
static void odd_numbers_at(const char *level, mh_dtype dtype)
{
    static const size_t sizes[] = {LENGTH, 100, 1};
    fixture f = setup(level, 1, dtype);
    set_number(&f.v.view, 0, 0, 40, NAN);
    set_number(&f.v.view, 0, 1, 130, INFINITY);
    set_number(&f.k.view, 1, 1, 70, NAN);
    test_ok(f.context, mh_attention_forward(f.context, &f.options, &f.q.view, &f.k.view, &f.v.view,
                                            &f.expected.view));
    for (int s = 0; s < 3; s++) {
        mh_kv_cache *cache = make_cache(&f, -1);
        test_paint(&f.out);
        for (size_t begin = 0; begin < LENGTH; begin += sizes[s])
            go_on(&f, cache, begin, LENGTH - begin < sizes[s] ? LENGTH - begin : sizes[s]);
        const float *out = f.out.view.data, *expected = f.expected.view.data;
        for (size_t i = 0; i < mh_tensor_count(&f.out.view); i++)
            assert_true(!memcmp(&out[i], &expected[i], sizeof *out) ||
                        (isnan(out[i]) && isnan(expected[i])));
        assert_true(isfinite(*value_at(&f, 0, 39)) && isnan(*value_at(&f, 0, 40)));
        mh_kv_cache_free(cache);
    }
    teardown(&f);
}

// A NaN that was taken back is gone, though it is still behind the last token.
static void odd_numbers_taken_back_at(const char *level, mh_dtype dtype)
{
    fixture f = setup(level, 1, dtype), odd = setup(level, 1, dtype);
    for (size_t token = 45; token < 60; token++)
        set_number(&odd.v.view, 0, 0, token, NAN);
    mh_kv_cache *cache = make_cache(&f, -1);
    go_on(&odd, cache, 0, 60);
    for (size_t b = 0; b < B; b++)
        test_ok(f.context, mh_kv_cache_truncate(f.context, cache, b, 40));
    memcpy(f.out.view.data, f.expected.view.data, mh_tensor_count(&f.out.view) * sizeof(float));
    for (size_t token = 40; token < 80; token++)
        go_on(&f, cache, token, 1);
    same_bits(&f);
    mh_kv_cache_free(cache);
    teardown(&f);
    teardown(&odd);
}

// ---- all of that for all levels and dtypes ------------------------------------------------------

static void at_all(void (*test)(const char *level, mh_dtype dtype))
{
    for (size_t l = 0; test_level(l); l++) {
        test(test_level(l), MH_F32);
        test(test_level(l), MH_BF16);
    }
}

static void ragged(void **state) { (void)state, at_all(ragged_at); }
static void short_beside_long(void **state) { (void)state, at_all(short_beside_long_at); }
static void beams(void **state) { (void)state, at_all(beams_at); }
static void window_forgets(void **state) { (void)state, at_all(window_forgets_at); }
static void forgotten_is_refused(void **state) { (void)state, at_all(forgotten_is_refused_at); }
static void truncation(void **state) { (void)state, at_all(truncation_at); }
static void odd_numbers(void **state) { (void)state, at_all(odd_numbers_at); }
static void odd_numbers_taken_back(void **state) { (void)state, at_all(odd_numbers_taken_back_at); }

// A cache that one level has filled, read by another.
static void another_level(void **state)
{
    (void)state;
    for (size_t l = 0; test_level(l); l++)
        for (size_t m = 0; test_level(m); m++) {
            fixture f = setup(test_level(l), 1, MH_BF16), g = setup(test_level(m), 1, MH_BF16);
            mh_kv_cache *cache = make_cache(&f, -1);
            go_on(&f, cache, 0, 500);
            go_on(&g, cache, 500, LENGTH - 500);
            for (size_t h = 0; h < B * H; h++) {
                const size_t at = (h * LENGTH + 500) * EV;
                assert_memory_equal((float *)g.out.view.data + at,
                                    (float *)g.expected.view.data + at,
                                    (LENGTH - 500) * EV * sizeof(float));
            }
            mh_kv_cache_free(cache);
            teardown(&f);
            teardown(&g);
        }
}

// Its memory is its own: what another context, with another allocator, changes is still that.
static void another_allocator(void **state)
{
    (void)state;
    test_memory mine = {0}, others = {0};
    mh_context_options options = mh_context_options_default();
    mh_context *context = NULL, *other = NULL;
    options.threads = 1;
    options.allocator = test_allocator(&mine);
    assert_int_equal(mh_context_create(&options, &context, NULL, 0), MH_OK);
    options.allocator = test_allocator(&others);
    assert_int_equal(mh_context_create(&options, &other, NULL, 0), MH_OK);
    mh_kv_cache_options o = mh_kv_cache_options_default();
    o.sequences = o.heads = o.key_width = 1;
    mh_kv_cache *cache;
    test_ok(context, mh_kv_cache_create(context, &o, &cache));
    const size_t live = others.live;
    test_ok(other, mh_kv_cache_select(other, cache, (size_t[]){0, 0}, 2));
    assert_int_equal(others.live, live);
    mh_context_free(other);
    mh_kv_cache_free(cache);
    mh_context_free(context);
    assert_int_equal(mine.live, 0);
    assert_int_equal(others.live, 0);
}

// ---- failing memory -----------------------------------------------------------------------------

// Makes a cache, fills it in two steps, reorders it; the first error ends it.
static mh_status use_cache(mh_context *context, const fixture *f)
{
    mh_kv_cache_options options = mh_kv_cache_options_default();
    options.sequences = B, options.heads = G, options.key_width = E, options.value_width = EV;
    mh_kv_cache *cache = NULL;
    mh_status status = mh_kv_cache_create(context, &options, &cache);
    for (int i = 0; i < 2 && !status; i++) {
        const size_t length = mh_kv_cache_length(cache, 0), bytes = mh_kv_cache_bytes(cache);
        status = mh_kv_cache_append(context, cache, NULL, &f->k.view, &f->v.view);
        if (status) { // nothing has changed, and the next try works
            assert_int_equal(mh_kv_cache_length(cache, 0), length);
            assert_int_equal(mh_kv_cache_bytes(cache), bytes);
        }
    }
    if (!status)
        status = mh_kv_cache_reorder(context, cache, (size_t[]){1, 0});
    if (!status)
        status = mh_kv_cache_append(context, cache, NULL, &f->k.view, &f->v.view);
    mh_kv_cache_free(cache);
    return status;
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    fixture f = setup(test_level(0), 1, MH_F32);
    bool failed = true;
    for (size_t n = 1; failed; n++) {
        test_memory c = {.fail_at = n};
        mh_context_options options = mh_context_options_default();
        options.threads = 1;
        options.allocator = test_allocator(&c);
        mh_context *context = NULL;
        mh_status status = mh_context_create(&options, &context, NULL, 0);
        if (!status)
            status = use_cache(context, &f);
        failed = c.calls >= n;
        assert_int_equal(status, failed ? MH_ERROR_MEMORY : MH_OK);
        mh_context_free(context);
        assert_int_equal(c.live, 0);
    }
    teardown(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pieces),
        cmocka_unit_test(pieces_of_wide_heads),
        cmocka_unit_test(threads_of_one_query),
        cmocka_unit_test(ragged),
        cmocka_unit_test(short_beside_long),
        cmocka_unit_test(beams),
        cmocka_unit_test(window_forgets),
        cmocka_unit_test(truncation),
        cmocka_unit_test(odd_numbers),
        cmocka_unit_test(odd_numbers_taken_back),
        cmocka_unit_test(another_level),
        cmocka_unit_test(every_allocation_may_fail),
        cmocka_unit_test(another_allocator),
        cmocka_unit_test(forgotten_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
