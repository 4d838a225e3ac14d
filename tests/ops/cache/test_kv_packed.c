// SPDX-License-Identifier: MIT
// The key/value cache with packed rows: sequences that join, leave and get different numbers of
// tokens have the bits of mh_attention_forward.
#include "support.h"

enum { B = 2, H = 4, G = 2, E = 20, EV = 40, LENGTH = 1200 };

static const mh_dtype dtypes[] = {MH_F32, MH_BF16, MH_F16};

typedef struct fixture {
    mh_context *context;
    test_tensor q, k, v, expected;
    mh_attention_options options;
} fixture;

static fixture setup(const char *level, size_t threads, mh_dtype dtype, size_t length)
{
    test_rng rng = {7};
    fixture f = {.context = test_context(level, threads)};
    f.q = test_tensor_dense(dtype, 4, (size_t[]){B, H, length, E});
    f.k = test_tensor_dense(dtype, 4, (size_t[]){B, G, length, E});
    f.v = test_tensor_dense(dtype, 4, (size_t[]){B, G, length, EV});
    f.expected = test_tensor_dense(MH_F32, 4, (size_t[]){B, H, length, EV});
    test_fill_normal(&rng, &f.q.view, 1);
    test_fill_normal(&rng, &f.k.view, 1);
    test_fill_normal(&rng, &f.v.view, 1);
    f.options = mh_attention_options_default();
    f.options.causal = MH_CAUSAL_BOTTOM_RIGHT;
    test_ok(f.context, mh_attention_forward(f.context, &f.options, &f.q.view, &f.k.view, &f.v.view,
                                            &f.expected.view));
    return f;
}

static void teardown(fixture *f)
{
    test_tensor *all[] = {&f->q, &f->k, &f->v, &f->expected};
    for (int i = 0; i < 4; i++)
        test_tensor_free(all[i]);
    mh_context_free(f->context);
}

static mh_kv_cache *make_cache(const fixture *f, mh_dtype dtype, size_t sequences)
{
    mh_kv_cache_options o = mh_kv_cache_options_default();
    o.sequences = sequences, o.heads = G, o.key_width = E, o.value_width = EV, o.dtype = dtype;
    mh_kv_cache *cache;
    test_ok(f->context, mh_kv_cache_create(f->context, &o, &cache));
    return cache;
}

// The rows of both sequences, packed one after the other, (1, heads, rows, width).
static test_tensor pack_rows(const mh_tensor *t, const int64_t *lengths, const int64_t *counts)
{
    const size_t rows = (size_t)(counts[0] + counts[1]);
    test_tensor packed =
        test_tensor_dense(t->dtype, 4, (size_t[]){1, t->shape[1], rows, t->shape[3]});
    const size_t size = t->shape[3] * mh_dtype_size(t->dtype);
    for (size_t b = 0, r = 0; b < B; b++)
        for (size_t i = 0; i < (size_t)counts[b]; i++, r++)
            for (size_t h = 0; h < t->shape[1]; h++)
                memcpy((char *)packed.view.data + (h * rows + r) * size,
                       (const char *)t->data +
                           ((b * t->shape[1] + h) * t->shape[2] + (size_t)lengths[b] + i) * size,
                       size);
    return packed;
}

// Appends `counts` tokens to the sequences, and compares the rows of out with those of one call.
static void packed_step(fixture *f, mh_kv_cache *cache, int64_t lengths[B], const int64_t counts[B])
{
    const int64_t starts[B + 1] = {0, counts[0], counts[0] + counts[1]};
    test_tensor q = pack_rows(&f->q.view, lengths, counts);
    test_tensor k = pack_rows(&f->k.view, lengths, counts);
    test_tensor v = pack_rows(&f->v.view, lengths, counts);
    test_tensor expected = pack_rows(&f->expected.view, lengths, counts);
    test_tensor out = test_tensor_dense(MH_F32, 4, expected.view.shape);
    mh_attention_options o = f->options;
    o.sequences = B;
    o.query_starts = starts;
    test_ok(f->context, mh_kv_cache_append_packed(f->context, cache, starts, &k.view, &v.view));
    test_ok(f->context, mh_attention_cached(f->context, &o, &q.view, cache, &out.view));
    assert_memory_equal(out.view.data, expected.view.data,
                        mh_tensor_count(&out.view) * sizeof(float));
    test_tensor *all[] = {&q, &k, &v, &expected, &out};
    for (int i = 0; i < 5; i++)
        test_tensor_free(all[i]);
    for (size_t b = 0; b < B; b++) {
        lengths[b] += counts[b];
        assert_int_equal(mh_kv_cache_length(cache, b), lengths[b]);
    }
}

// Sequences of a cache that begins empty, at different lengths.
static void packed_at(const char *level, mh_dtype dtype, size_t threads)
{
    static const int64_t counts[][B] = {{700, 0}, {1, 3}, {1, 1}, {0, 130}, {300, 1}, {1, 600}};
    fixture f = setup(level, threads, dtype, LENGTH);
    mh_kv_cache *cache = make_cache(&f, dtype, 0);
    int64_t lengths[B] = {0};
    for (size_t b = 0; b < B; b++)
        test_ok(f.context, mh_kv_cache_extend(f.context, cache, 1));
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
        packed_step(&f, cache, lengths, counts[i]);
    const size_t held = mh_kv_cache_bytes(cache);
    test_ok(f.context, mh_kv_cache_select(f.context, cache, (size_t[]){1}, 1)); // and back again
    assert_true(mh_kv_cache_bytes(cache) < held);
    assert_int_equal(mh_kv_cache_length(cache, 0), lengths[1]);
    test_ok(f.context, mh_kv_cache_extend(f.context, cache, 1));
    test_ok(f.context, mh_kv_cache_reorder(f.context, cache, (size_t[]){1, 0}));
    lengths[0] = 0;
    packed_step(&f, cache, lengths, (int64_t[]){70, 2});
    test_ok(f.context, mh_kv_cache_select(f.context, cache, NULL, 0));
    assert_int_equal(mh_kv_cache_bytes(cache), 0);
    mh_kv_cache_free(cache);
    teardown(&f);
}

static void packed(void **state)
{
    (void)state;
    for (size_t l = 0; test_level(l); l++)
        for (int d = 0; d < 3; d++)
            packed_at(test_level(l), dtypes[d], 1 + 2 * (size_t)d);
}

static void packed_is_refused(void **state)
{
    (void)state;
    fixture f = setup(test_level(0), 1, MH_F32, 8);
    mh_kv_cache *cache = make_cache(&f, MH_F32, B);
    const mh_tensor k = mh_tensor_4d(f.k.view.data, MH_F32, 1, G, 8, E);
    const mh_tensor v = mh_tensor_4d(f.v.view.data, MH_F32, 1, G, 8, EV);
    const mh_tensor q = mh_tensor_4d(f.q.view.data, MH_F32, 1, H, 8, E);
    mh_tensor out = mh_tensor_4d(f.expected.view.data, MH_F32, 1, H, 8, EV);
    int64_t starts[B + 1] = {0, 3, 9};
    mh_attention_options o = f.options;
    test_refused(f.context, mh_kv_cache_append_packed(f.context, cache, starts, &k, &v),
                 MH_ERROR_ARGUMENT, "starts[2]: found 9 after 3");
    starts[2] = 2;
    test_refused(f.context, mh_kv_cache_append_packed(f.context, cache, starts, &k, &v),
                 MH_ERROR_ARGUMENT, "starts[2]: found 2 after 3");
    starts[2] = 8;
    test_refused(f.context,
                 mh_kv_cache_append_packed(f.context, cache, starts, &f.k.view, &f.v.view),
                 MH_ERROR_ARGUMENT, "k: found");
    test_ok(f.context, mh_kv_cache_append_packed(f.context, cache, starts, &k, &v));
    o.sequences = B + 1, o.query_starts = starts;
    test_refused(f.context, mh_attention_cached(f.context, &o, &q, cache, &out), MH_ERROR_ARGUMENT,
                 "sequences: found 3, expected 2");
    o.sequences = B, o.key_starts = starts;
    test_refused(f.context, mh_attention_cached(f.context, &o, &q, cache, &out), MH_ERROR_ARGUMENT,
                 "key_starts");
    o.key_starts = NULL, o.query_starts = NULL;
    test_refused(f.context, mh_attention_cached(f.context, &o, &q, cache, &out), MH_ERROR_ARGUMENT,
                 "query_starts: found NULL");
    int32_t ids[8] = {0};
    const mh_tensor documents = mh_tensor_2d(ids, MH_I32, 1, 8);
    o.query_starts = starts, o.query_documents = o.key_documents = &documents;
    test_refused(f.context, mh_attention_cached(f.context, &o, &q, cache, &out), MH_ERROR_ARGUMENT,
                 "documents: found them");
    o.query_documents = o.key_documents = NULL;
    test_ok(f.context, mh_attention_cached(f.context, &o, &q, cache, &out));
    test_refused(f.context, mh_kv_cache_extend(f.context, cache, SIZE_MAX), MH_ERROR_ARGUMENT,
                 "count: found");
    mh_kv_cache_free(cache);
    teardown(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(packed),
                                       cmocka_unit_test(packed_is_refused)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
