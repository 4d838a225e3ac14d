// SPDX-License-Identifier: MIT
// all-MiniLM-L6-v2 as it is published, against what transformers computes for it in float64
// (tests/goldens/make_minilm.py): token ids and embeddings of 21 texts. The model's directory is
// $MH_MINILM (tools/fetch_models.py minilm prints it); without it nothing is tested.
#include "support.h"

#include <jansson.h>
#include <math.h>
#include <multihead/io.h>
#include <multihead/pretrained.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_TEXTS = 64, WIDTH = 384 };

typedef struct minilm {
    mh_context *context;
    mh_model *model;
    mh_tensor_file *expected;
    json_t *json; // owns the texts
    mh_text texts[MOST_TEXTS];
    size_t count;
} minilm;

static mh_tensor find_expected(const minilm *m, const char *name)
{
    mh_tensor t;
    if (!mh_tensor_file_find(m->expected, name, &t))
        fail_msg("no tensor %s", name);
    return t;
}

static void open_minilm(minilm *m)
{
    *m = (minilm){.context = test_context(NULL, 0)};
    test_ok(m->context, mh_model_load(m->context, getenv("MH_MINILM"), NULL, &m->model));
    test_ok(m->context, mh_tensor_file_open(m->context, MH_GOLDENS "/minilm_expected.safetensors",
                                            &m->expected));
    m->json = json_loads(mh_tensor_file_metadata(m->expected, "texts"), 0, NULL);
    m->count = json_array_size(m->json);
    assert_in_range(m->count, 1, MOST_TEXTS);
    for (size_t i = 0; i < m->count; i++) {
        const json_t *text = json_array_get(m->json, i);
        m->texts[i] = (mh_text){json_string_value(text), json_string_length(text)};
    }
}

static void close_minilm(minilm *m)
{
    json_decref(m->json);
    mh_tensor_file_free(m->expected);
    mh_model_free(m->model);
    mh_context_free(m->context);
}

static void test_description(void **state)
{
    minilm m;
    (void)state;
    open_minilm(&m);
    const mh_model_info *info = mh_model_describe(m.model);
    assert_string_equal(info->family, "bert");
    assert_int_equal(info->layers, 6);
    assert_int_equal(info->d_model, WIDTH);
    assert_int_equal(info->max_length, 256);
    assert_int_equal(info->pooling, MH_POOLING_MEAN);
    assert_true(info->normalize);
    close_minilm(&m);
}

static void test_ids(void **state)
{
    minilm m;
    mh_model_texts *encoded;
    (void)state;
    open_minilm(&m);
    const int64_t *ids = find_expected(&m, "ids").data,
                  *lengths = find_expected(&m, "lengths").data;
    test_ok(m.context, mh_model_encode(m.context, m.model, true, m.texts, m.count, &encoded));
    for (size_t i = 0; i < m.count; i++) {
        const mh_encoding *encoding = mh_model_texts_encoding(encoded, i);
        assert_int_equal(encoding->count, lengths[i]);
        for (size_t t = 0; t < encoding->count; t++)
            assert_int_equal(encoding->ids[t], *ids++);
    }
    mh_model_texts_free(m.context, encoded);
    close_minilm(&m);
}

// Whatever the batch.
static void expect_embeddings(const minilm *m, size_t batch_tokens)
{
    static float found[MOST_TEXTS * WIDTH];
    const mh_tensor golden = find_expected(m, "embeddings");
    mh_tensor embeddings = mh_tensor_2d(found, MH_F32, m->count, WIDTH);
    assert_int_equal(golden.dtype, MH_F32);
    assert_int_equal(golden.shape[1], WIDTH);
    const float *expected = golden.data;
    test_ok(m->context,
            mh_model_embed_texts(m->context, m->model, MH_POOLING_MEAN, true, true, batch_tokens,
                                 m->texts, m->count, NULL, NULL, &embeddings));
    for (size_t i = 0; i < m->count * WIDTH; i++)
        if (!(fabs((double)found[i] - (double)expected[i]) <= 1e-6))
            fail_msg("text %zu, value %zu: found %.9g, expected %.9g", i / WIDTH, i % WIDTH,
                     (double)found[i], (double)expected[i]);
}

static void test_embeddings(void **state)
{
    minilm m;
    (void)state;
    open_minilm(&m);
    expect_embeddings(&m, 0);
    expect_embeddings(&m, 1);
    close_minilm(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_description),
        cmocka_unit_test(test_ids),
        cmocka_unit_test(test_embeddings),
    };
    if (!getenv("MH_MINILM")) {
        printf("test_minilm: skipped, MH_MINILM does not name the directory of all-MiniLM-L6-v2\n");
        return 0;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
