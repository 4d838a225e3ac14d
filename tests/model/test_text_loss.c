// SPDX-License-Identifier: MIT
// The loss of texts: that of all kinds of models is the sum of what one position after the other
// gives by the definition, with heads on and off; texts together are the sum of each alone; what
// has no loss is refused.
#include "generate_support.h"

#include <math.h>
#include <multihead/heads.h>
#include <unistd.h>

enum { VOCABULARY = 99, ROWS = 64, WIDTH = 64, HEADS = 64, MASK = 4 };

static bool off[HEADS];

// -log p of `id` at row `row` of ids, with the first `heads` of `off`.
static double surprise(mh_context *context, const mh_model *model, const int32_t *ids, size_t count,
                       size_t row, int32_t id)
{
    static float hidden_data[ROWS * WIDTH], logits_data[VOCABULARY];
    const size_t D = mh_model_describe(model)->d_model;
    assert_true(D <= WIDTH && count <= ROWS);
    mh_model_input input = mh_model_input_default();
    input.sequences = 1;
    input.starts = (const int64_t[]){0, (int64_t)count};
    input.ids = ids;
    input.disabled_heads = off;
    mh_tensor hidden = mh_tensor_2d(hidden_data, MH_F32, count, D);
    mh_tensor logits = mh_tensor_2d(logits_data, MH_F32, 1, VOCABULARY);
    test_ok(context, mh_model_hidden(context, model, &input, &hidden));
    const mh_tensor one = mh_tensor_slice(hidden, 0, row, 1);
    test_ok(context, mh_model_logits(context, model, &one, &logits));
    double most = -INFINITY, sum = 0;
    for (size_t v = 0; v < VOCABULARY; v++)
        most = fmax(most, (double)logits_data[v]);
    for (size_t v = 0; v < VOCABULARY; v++)
        sum += exp((double)logits_data[v] - most);
    return most + log(sum) - (double)logits_data[id];
}

static void expect_loss(mh_context *context, const mh_model *model, const mh_text *texts,
                        size_t count, double loss, size_t tokens)
{
    double found;
    size_t found_tokens;
    test_ok(context,
            mh_model_text_loss(context, model, off, texts, NULL, count, &found, &found_tokens));
    assert_int_equal(found_tokens, tokens);
    if (!(fabs(found - loss) <= 1e-5 * loss))
        fail_msg("found %.9g, expected %.9g", found, loss);
}

// ---- causal -------------------------------------------------------------------------------------

static double causal_loss(mh_context *context, const mh_model *model, const char *text)
{
    int32_t ids[ROWS];
    const size_t count = strlen(text);
    double loss = 0;
    for (size_t i = 0; i < count; i++)
        ids[i] = text[i] == ' ' ? CAUSAL_SPACE : text[i] - '!';
    for (size_t i = 0; i + 1 < count; i++) // only what is before it
        loss += surprise(context, model, ids, i + 1, i, ids[i + 1]);
    return loss;
}

static void next_tokens(void **state)
{
    (void)state;
    mh_context *context = test_context(test_level(0), 2);
    const causal_directory d = causal_directory_make();
    mh_model *model = causal_directory_load(context, &d);
    const mh_text texts[] = {{"The cat sat.", 12}, {"x", 1}, {"", 0}, {"a b", 3}};
    assert_int_equal(mh_model_text_loss_kind(model), MH_LOSS_NEXT_TOKEN);
    double all_on = 0;
    for (int disabled = 0; disabled < 2; disabled++) {
        off[1] = off[6] = disabled;
        const double first = causal_loss(context, model, "The cat sat.");
        const double last = causal_loss(context, model, "a b");
        expect_loss(context, model, texts, 1, first, 11);
        expect_loss(context, model, texts, 4, first + last, 13);
        assert_true(first != all_on);
        all_on = first;
    }
    expect_loss(context, model, texts + 1, 2, 0, 0);
    memset(off, 0, sizeof off);
    mh_text long_text = {"0123456789012345678901234567890123456789+", 41};
    double loss;
    size_t tokens;
    test_refused(context,
                 mh_model_text_loss(context, model, NULL, &long_text, NULL, 1, &loss, &tokens),
                 MH_ERROR_ARGUMENT, "text 1: found 41 tokens");

    // More than a batch: the sum of each.
    mh_text many[120];
    double sum = 0;
    const double one = causal_loss(context, model, "The cat sat.");
    for (size_t i = 0; i < 120; i++, sum += one)
        many[i] = texts[0];
    expect_loss(context, model, many, 120, sum, 1320);
    mh_model_free(model);
    causal_directory_remove(&d);
    mh_context_free(context);
}

// ---- masked -------------------------------------------------------------------------------------

// bert-mlm's directory with words 5 to 13.
static mh_model *load_masked(mh_context *context, char directory[64])
{
    char path[512];
    strcpy(directory, "/tmp/mh_masked_XXXXXX");
    assert_non_null(mkdtemp(directory));
    const char *const files[] = {"config.json", "model.safetensors"};
    for (size_t i = 0; i < 2; i++) {
        char golden[512];
        snprintf(path, sizeof path, "%s/%s", directory, files[i]);
        snprintf(golden, sizeof golden, MH_GOLDENS "/models/bert-mlm/%s", files[i]);
        assert_int_equal(symlink(golden, path), 0);
    }
    snprintf(path, sizeof path, "%s/vocab.txt", directory);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs("[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\nb\nc\nd\ne\nf\ng\nh\ni\n", file);
    assert_int_equal(fclose(file), 0);
    mh_model *model;
    test_ok(context, mh_model_load(context, directory, NULL, &model));
    return model;
}

static void masked_tokens(void **state)
{
    (void)state;
    char directory[64], path[128];
    mh_context *context = test_context(test_level(0), 2);
    mh_model *model = load_masked(context, directory);
    const mh_text text = {"a b c d e f g h i", 17};
    const int32_t ids[] = {2, 5, 6, 7, 8, 9, 10, 11, 12, 13, 3};
    enum { COUNT = sizeof ids / sizeof *ids };
    assert_int_equal(mh_model_text_loss_kind(model), MH_LOSS_MASKED);
    for (int disabled = 0; disabled < 2; disabled++) {
        off[2] = disabled;
        double loss = 0;
        for (size_t i = 1; i + 1 < COUNT; i++) { // with it, every 7th is masked: a and h, b and i
            int32_t masked[COUNT];
            memcpy(masked, ids, sizeof ids);
            for (size_t j = 1; j + 1 < COUNT; j++)
                if ((j - 1) % 7 == (i - 1) % 7)
                    masked[j] = MASK;
            loss += surprise(context, model, masked, COUNT, i, ids[i]);
        }
        expect_loss(context, model, &text, 1, loss, COUNT - 2);
    }
    memset(off, 0, sizeof off);
    mh_model_free(model);
    const char *const files[] = {"config.json", "model.safetensors", "vocab.txt"};
    for (size_t i = 0; i < 3; i++) {
        snprintf(path, sizeof path, "%s/%s", directory, files[i]);
        unlink(path);
    }
    rmdir(directory);
    mh_context_free(context);
}

// ---- others -------------------------------------------------------------------------------------

static void others(void **state)
{
    (void)state;
    mh_context *context = test_context(test_level(0), 1);
    const mh_text text = {"a", 1};
    double loss;
    size_t tokens;
    mh_model *model;
    test_ok(context, mh_model_load(context, MH_GOLDENS "/models/bert-classifier", NULL, &model));
    assert_int_equal(mh_model_text_loss_kind(model), MH_LOSS_NONE);
    test_refused(context, mh_model_text_loss(context, model, NULL, &text, NULL, 1, &loss, &tokens),
                 MH_ERROR_UNSUPPORTED, "no loss");
    mh_model_free(model);
    test_ok(context, mh_model_load(context, MH_GOLDENS "/models/bert-mlm", NULL, &model));
    test_refused(context, mh_model_text_loss(context, model, NULL, &text, NULL, 1, &loss, &tokens),
                 MH_ERROR_UNSUPPORTED, "no tokenizer");
    mh_model_free(model);
    mh_context_free(context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(next_tokens),
        cmocka_unit_test(masked_tokens),
        cmocka_unit_test(others),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
