// SPDX-License-Identifier: MIT
// Traces of pretrained models: against the weights that taps give, names of tokens, pairs, causal
// models, what is refused, and memory that runs out.
#include "support.h"
#include <multihead/pretrained.h>
#include <unistd.h>

enum { T = 6, VOCABULARY = 99, PATH_BYTES = 512 };

static const int32_t some_ids[T] = {2, 5, 6, 10, 11, 3};

static mh_model *load_model(mh_context *context, const char *path)
{
    mh_model *model;
    test_ok(context, mh_model_load(context, path, NULL, &model));
    return model;
}

static mh_model *load_golden(mh_context *context, const char *name)
{
    char path[PATH_BYTES];
    snprintf(path, sizeof path, MH_GOLDENS "/models/%s", name);
    return load_model(context, path);
}

// ---- weights ------------------------------------------------------------------------------------

static void expect_tapped(mh_context *context, const mh_model *model, const mh_tensor *weights,
                          size_t layer)
{
    const mh_model_info *info = mh_model_describe(model);
    const size_t count = info->heads * T * T;
    float *expected = calloc(count, sizeof *expected), *rows = calloc(T * info->d_model, 4);
    mh_tap tap = mh_tap_make(MH_TAP_ENCODER, layer);
    tap.weights = mh_tensor_4d(expected, MH_F32, 1, info->heads, T, T);
    mh_model_input input = mh_model_input_default();
    input.sequences = 1;
    input.starts = (const int64_t[]){0, T};
    input.ids = some_ids;
    input.taps = &tap;
    input.tap_count = 1;
    mh_tensor hidden = mh_tensor_2d(rows, MH_F32, T, info->d_model);
    test_ok(context, mh_model_hidden(context, model, &input, &hidden));
    assert_memory_equal((const float *)weights->data + layer * count, expected,
                        count * sizeof *expected);
    free(expected);
    free(rows);
}

static void check_golden(const char *name, mh_trace_kind kind)
{
    mh_context *context = test_context(test_level(0), 1);
    mh_model *model = load_golden(context, name);
    const mh_model_info *info = mh_model_describe(model);
    mh_model_trace *made;
    test_ok(context, mh_model_trace_ids(context, model, NULL, some_ids, T, &made));
    const mh_trace *trace = mh_model_trace_view(made);
    const mh_trace_group *group = &trace->groups[kind];
    test_ok(context, mh_trace_check(context, trace));
    for (int k = 0; k < MH_TRACE_KINDS_MAX; k++)
        assert_int_equal(trace->groups[k].weights.data != NULL, k == (int)kind);
    assert_int_equal(group->weights.shape[0], info->layers);
    assert_int_equal(group->weights.shape[1], info->heads);
    assert_true(group->q.data && group->k.data && group->v.data && group->out.data);
    assert_int_equal(group->mask.data != NULL, info->causal);
    for (size_t layer = 0; layer < info->layers; layer++)
        expect_tapped(context, model, &group->weights, layer);
    mh_model_trace_free(made);
    mh_model_free(model);
    mh_context_free(context);
}

static void weights_are_the_taps(void **state)
{
    (void)state;
    check_golden("bert", MH_TRACE_ENCODER);
    check_golden("roberta-mlm", MH_TRACE_ENCODER);
    check_golden("distilbert-mlm", MH_TRACE_ENCODER);
    check_golden("gpt2", MH_TRACE_DECODER);
}

// A head that is off has weights, and changes those of the next layer.
static void heads_off(void **state)
{
    (void)state;
    mh_context *context = test_context(test_level(0), 1);
    mh_model *model = load_golden(context, "bert-mlm");
    const mh_model_info *info = mh_model_describe(model);
    const size_t layer = info->heads * T * T * sizeof(float);
    bool off[64] = {[1] = true};
    mh_model_trace *a, *b;
    assert_true(info->layers * info->heads <= 64 && info->layers == 2);
    test_ok(context, mh_model_trace_ids(context, model, NULL, some_ids, T, &a));
    test_ok(context, mh_model_trace_ids(context, model, off, some_ids, T, &b));
    const char *x = mh_model_trace_view(a)->groups[MH_TRACE_ENCODER].weights.data;
    const char *y = mh_model_trace_view(b)->groups[MH_TRACE_ENCODER].weights.data;
    assert_memory_equal(x, y, layer);
    assert_memory_not_equal(x + layer, y + layer, layer);
    mh_model_trace_free(a);
    mh_model_trace_free(b);
    mh_model_free(model);
    mh_context_free(context);
}

// ---- texts --------------------------------------------------------------------------------------

typedef struct text_model {
    char root[64];
    mh_context *context;
    mh_model *model;
} text_model;

static void link_golden(const text_model *t, const char *file)
{
    char from[PATH_BYTES], to[PATH_BYTES];
    snprintf(from, sizeof from, MH_GOLDENS "/models/bert-mlm/%s", file);
    snprintf(to, sizeof to, "%s/%s", t->root, file);
    assert_int_equal(symlink(from, to), 0);
}

// The model with a vocabulary of its own, in a directory that exists only while it is loaded.
static text_model open_text_model(void)
{
    static const char *const names[] = {"config.json", "model.safetensors", "vocab.txt"};
    text_model t = {.root = "/tmp/mh_model_trace.XXXXXX"};
    char path[PATH_BYTES];
    assert_non_null(mkdtemp(t.root));
    link_golden(&t, names[0]);
    link_golden(&t, names[1]);
    snprintf(path, sizeof path, "%s/vocab.txt", t.root);
    FILE *to = fopen(path, "w");
    assert_non_null(to);
    fputs("[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nthe\ncat\nsat\non\nmat\nplay\n##ing\n.\n", to);
    for (int i = 13; i < VOCABULARY; i++)
        fprintf(to, "word%d\n", i);
    fclose(to);
    t.context = test_context(test_level(0), 1);
    t.model = load_model(t.context, t.root);
    for (size_t i = 0; i < 3; i++) {
        snprintf(path, sizeof path, "%s/%s", t.root, names[i]);
        unlink(path);
    }
    rmdir(t.root);
    return t;
}

static void close_text_model(text_model *t)
{
    mh_model_free(t->model);
    mh_context_free(t->context);
}

static mh_text text_of(const char *string) { return (mh_text){string, strlen(string)}; }

static void expect_tokens(const mh_trace_tokens *found, size_t count, const char *const *names,
                          const char *starts)
{
    assert_int_equal(found->count, count);
    for (size_t i = 0; i < count; i++) {
        assert_string_equal(found->text[i], names[i]);
        assert_int_equal(found->word_start[i], starts[i] == '1');
    }
}

static void tokens_are_parts_of_the_text(void **state)
{
    (void)state;
    text_model t = open_text_model();
    mh_model_trace *made;
    const char *const names[] = {"[CLS]", "The",   "Play", "ing",  "mat",
                                 ".",     "[SEP]", "Cat",  "[SEP]"};
    test_ok(t.context, mh_model_trace_create(t.context, t.model, NULL, text_of("The Playing mat."),
                                             NULL, &made));
    const mh_trace *trace = mh_model_trace_view(made);
    test_ok(t.context, mh_trace_check(t.context, trace));
    assert_string_equal(trace->title, "The Playing mat.");
    assert_string_equal(trace->model, "bert, 32 wide, 4 heads, 2 layers");
    expect_tokens(&trace->source, 7, names, "1110101");
    mh_model_trace_free(made);

    const mh_text pair = text_of("Cat");
    test_ok(t.context, mh_model_trace_create(t.context, t.model, NULL, text_of("The Playing mat."),
                                             &pair, &made));
    trace = mh_model_trace_view(made);
    assert_string_equal(trace->title, "The Playing mat. | Cat");
    expect_tokens(&trace->source, 9, names, "111010111");
    mh_model_trace_free(made);
    close_text_model(&t);
}

static void bad_texts(void **state)
{
    (void)state;
    text_model t = open_text_model();
    mh_model_trace *made;
    char many[200];
    memset(many, '.', sizeof many);
    test_refused(t.context,
                 mh_model_trace_create(t.context, t.model, NULL, (mh_text){many, 200}, NULL, &made),
                 MH_ERROR_ARGUMENT, "found 202 tokens, expected 1 to 40");
    assert_null(made);
    test_refused(t.context,
                 mh_model_trace_create(t.context, t.model, NULL, text_of("a\xFF"), NULL, &made),
                 MH_ERROR_FORMAT, "UTF-8");
    test_refused(t.context, mh_model_trace_create(t.context, NULL, NULL, text_of("a"), NULL, &made),
                 MH_ERROR_ARGUMENT, "NULL");
    test_refused(t.context, mh_model_trace_ids(t.context, t.model, NULL, some_ids, 0, &made),
                 MH_ERROR_ARGUMENT, "found 0 tokens");
    test_refused(t.context,
                 mh_model_trace_ids(t.context, t.model, NULL, (int32_t[]){2, 99}, 2, &made),
                 MH_ERROR_ARGUMENT, "99");
    mh_model *silent = load_golden(t.context, "bert");
    test_refused(t.context,
                 mh_model_trace_create(t.context, silent, NULL, text_of("a"), NULL, &made),
                 MH_ERROR_UNSUPPORTED, "has no tokenizer");
    mh_model_free(silent);
    close_text_model(&t);
}

static mh_status trace_a_text(mh_context *context, void *model)
{
    mh_model_trace *trace;
    const mh_status status =
        mh_model_trace_create(context, model, NULL, text_of("the cat sat"), NULL, &trace);
    mh_model_trace_free(trace);
    return status;
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    text_model t = open_text_model();
    assert_true(test_failing_allocations(test_level(0), 1, trace_a_text, t.model) > 10);
    close_text_model(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(weights_are_the_taps),         cmocka_unit_test(heads_off),
        cmocka_unit_test(tokens_are_parts_of_the_text), cmocka_unit_test(bad_texts),
        cmocka_unit_test(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
