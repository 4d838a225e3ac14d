// SPDX-License-Identifier: MIT
// Translators: their files come back as they were, what does not fit together is refused, and the
// loss's gradients are its slopes.
#include "support.h"
#include "train_support.h"

#include "model/config_file.h"
#include "model/translator_loss.h"

#include <math.h>
#include <sys/stat.h>
#include <unistd.h>

static train_place place;

static int set_up(void **state)
{
    (void)state;
    return train_place_create(&place) ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    train_place_remove(&place);
    return 0;
}

static mh_translator *make(mh_context *context, mh_precision precision)
{
    const mh_text texts[] = {{"un deux trois", 13}, {"one two three", 13}};
    mh_tokenizer_options t = mh_tokenizer_options_default();
    mh_translator_config c = mh_translator_config_default();
    mh_tokenizer *tokenizer;
    mh_translator *translator;
    t.merges = 4;
    t.min_frequency = 1;
    c.d_model = 16;
    c.nhead = 2;
    c.num_encoder_layers = 2;
    c.num_decoder_layers = 1;
    c.dim_feedforward = 24;
    c.max_length = 12;
    c.activation = MH_GELU; // smooth, so that slopes exist everywhere
    test_ok(context, mh_tokenizer_train(context, &t, texts, 2, &tokenizer));
    test_ok(context, mh_translator_create(context, &c, precision, tokenizer, &translator));
    mh_parameters_init(mh_translator_parameters(translator), 3);
    return translator;
}

// ---- the loss -----------------------------------------------------------------------------------

static const int32_t source[] = {5, 6, 7, 2, 8, 2}, source_positions[] = {0, 1, 2, 3, 0, 1};
static const int32_t given[] = {1, 9, 10, 1, 5}, wanted[] = {9, 10, 2, 5, 2};
static const int32_t target_positions[] = {0, 1, 2, 0, 1};
static const int64_t source_starts[] = {0, 4, 6}, target_starts[] = {0, 3, 5};
static const mh_pair_batch batch = {2,      source,           source_positions, given,
                                    wanted, target_positions, source_starts,    target_starts};

static double loss_of(mh_context *context, const mh_translator *t, mh_loss_memory *memory,
                      float *gradients)
{
    const mh_loss_options options = {.label_smoothing = 0.1f,
                                     .gradients = gradients,
                                     .gradient_scale = 1,
                                     .training = true,
                                     .seed = 5,
                                     .step = 7};
    double loss;
    test_ok(context, mh_translator_loss(context, t, &options, &batch, memory, &loss));
    return loss;
}

// Along random directions of each parameter, the slope of the loss is that of its gradients.
static void test_gradients(void **state)
{
    (void)state;
    mh_context *context = test_context("scalar", 1);
    mh_translator *t = make(context, MH_PRECISION_F32);
    const mh_parameters *p = mh_translator_parameters(t);
    mh_loss_memory *memory;
    float *gradients = calloc(2 * p->floats, sizeof *gradients), *kept = gradients + p->floats;
    test_rng rng = {test_seed()};
    double worst = 0;
    assert_non_null(gradients);
    test_ok(context, mh_loss_memory_create(context, &memory));
    const double loss = loss_of(context, t, memory, gradients);
    assert_true(loss == loss_of(context, t, memory, NULL));
    memcpy(kept, p->values, p->floats * sizeof *kept);
    for (size_t i = 0; i < p->count; i++) {
        const mh_parameter *parameter = &p->list[i];
        const float epsilon = 4e-3f;
        double slope = 0, losses[2];
        float *values = p->values + parameter->offset;
        for (int side = 0; side < 2; side++) {
            test_rng same = {rng.state};
            slope = 0;
            for (size_t n = 0; n < parameter->count; n++) {
                const float d = test_chance(&same, 0.5) ? epsilon : -epsilon;
                values[n] = kept[parameter->offset + n] + (side ? d : -d);
                slope += (double)d * (double)gradients[parameter->offset + n];
            }
            losses[side] = loss_of(context, t, memory, NULL);
        }
        memcpy(values, kept + parameter->offset, parameter->count * sizeof *values);
        test_random(&rng);
        const double found = (losses[1] - losses[0]) / 2, bound = 2e-2 * fabs(slope) + 4e-5;
        worst = fmax(worst, fabs(found - slope) / bound);
        if (fabs(found - slope) > bound)
            fail_msg("%s: slope %g, gradients say %g", parameter->name, found, slope);
    }
    print_message("loss %.4f, largest difference %.2f of the bound\n", loss, worst);
    free(gradients);
    mh_loss_memory_free(memory);
    mh_translator_free(t);
    mh_context_free(context);
}

// ---- directories --------------------------------------------------------------------------------

static void check_copy(mh_context *context, const mh_translator *t, mh_dtype dtype,
                       const char *name)
{
    char directory[96];
    mh_translator *copy;
    snprintf(directory, sizeof directory, "%s/%s", place.root, name);
    assert_int_equal(mkdir(directory, 0777), 0);
    test_ok(context, mh_translator_save(context, t, directory, dtype));
    test_ok(context, mh_translator_load(context, directory, MH_PRECISION_F32, &copy));
    const mh_parameters *a = mh_translator_parameters(t), *b = mh_translator_parameters(copy);
    assert_int_equal(a->floats, b->floats);
    for (size_t i = 0; i < a->floats; i++) {
        const double bound = dtype == MH_F32 ? 0 : test_rounding(MH_BF16, (double)a->values[i]);
        assert_true(fabs((double)a->values[i] - (double)b->values[i]) <= bound);
    }
    assert_memory_equal(mh_translator_configuration(t), mh_translator_configuration(copy),
                        sizeof(mh_translator_config));
    mh_translator_free(copy);
}

static void test_files(void **state)
{
    (void)state;
    mh_context *context = test_context(NULL, 1);
    mh_translator *t = make(context, MH_PRECISION_F32), *none;
    check_copy(context, t, MH_F32, "f32");
    check_copy(context, t, MH_BF16, "bf16");
    test_refused(context, mh_translator_save(context, t, place.root, MH_F16), MH_ERROR_ARGUMENT,
                 "f16");
    char settings[96]; // a refusal leaves nothing behind
    snprintf(settings, sizeof settings, "%s/config.json", place.root);
    assert_int_not_equal(access(settings, F_OK), 0);
    test_refused(context, mh_translator_load(context, "/nowhere", MH_PRECISION_F32, &none),
                 MH_ERROR_FILE, "/nowhere/config.json");
    mh_translator_free(t);
    mh_context_free(context);
}

// A tokenizer of another size does not fit the embedding.
static void test_parts_must_fit(void **state)
{
    (void)state;
    char directory[96], path[128];
    mh_context *context = test_context(NULL, 1);
    mh_translator *t = make(context, MH_PRECISION_F32), *none;
    const mh_text text = {"other words", 11};
    mh_tokenizer *tokenizer;
    snprintf(directory, sizeof directory, "%s/unfit", place.root);
    snprintf(path, sizeof path, "%s/tokenizer.json", directory);
    assert_int_equal(mkdir(directory, 0777), 0);
    test_ok(context, mh_translator_save(context, t, directory, MH_F32));
    test_ok(context, mh_tokenizer_train(context, NULL, &text, 1, &tokenizer));
    test_ok(context, mh_tokenizer_save(context, tokenizer, path));
    test_refused(context, mh_translator_load(context, directory, MH_PRECISION_F32, &none),
                 MH_ERROR_FORMAT, "embedding.weight");
    mh_tokenizer_free(tokenizer);
    mh_translator_free(t);
    mh_context_free(context);
}

typedef struct sizes {
    size_t d_model, nhead, layers, dim_feedforward, max_length;
    double dropout;
    const char *word; // of the message
} sizes;

static void write_config(const char *directory, const sizes *c)
{
    char path[128];
    snprintf(path, sizeof path, "%s/config.json", directory);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fprintf(file,
            "{\"format\": \"multihead translator\", \"version\": 1, \"d_model\": %zu, "
            "\"nhead\": %zu, \"num_encoder_layers\": %zu, \"num_decoder_layers\": 1, "
            "\"dim_feedforward\": %zu, \"max_length\": %zu, \"activation\": \"relu\", "
            "\"norm_first\": true, \"dropout\": %g}",
            c->d_model, c->nhead, c->layers, c->dim_feedforward, c->max_length, c->dropout);
    assert_int_equal(fclose(file), 0);
}

// What is wrong in a config is the file's fault, and it gets no more memory than its weights
// justify.
static void test_configs_must_fit(void **state)
{
    (void)state;
    static const sizes bad[] = {
        {8, 2, 1, 8, 9, 1, "config.json: dropout: found 1"},
        {8, 3, 1, 8, 9, 0, "config.json: nhead: found 3"},
        {8, 2, 1, 8, 1, 0, "config.json: max_length: found 1"},
        {1 << 20, 2, 1, 8, 9, 0, "model.safetensors: found "},
        {8, 2, 1 << 24, 1 << 24, 9, 0, "model.safetensors: found "},
    };
    char directory[96];
    mh_context *context = test_context(NULL, 1);
    mh_translator *t = make(context, MH_PRECISION_F32), *none;
    snprintf(directory, sizeof directory, "%s/config", place.root);
    assert_int_equal(mkdir(directory, 0777), 0);
    test_ok(context, mh_translator_save(context, t, directory, MH_F32));
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        write_config(directory, &bad[i]);
        test_refused(context, mh_translator_load(context, directory, MH_PRECISION_F32, &none),
                     MH_ERROR_FORMAT, bad[i].word);
    }
    mh_translator_free(t);
    mh_context_free(context);
}

static void test_configs(void **state)
{
    (void)state;
#define HEAD "{\"format\": \"multihead translator\", \"version\": 1, "
#define SIZES                                                                                      \
    "\"d_model\": 8, \"nhead\": 2, \"num_encoder_layers\": 1, "                                    \
    "\"num_decoder_layers\": 1, \"dim_feedforward\": 8, \"max_length\": 9, "
#define REST "\"activation\": \"relu\", \"norm_first\": true, \"dropout\": 0.1"
    static const struct {
        const char *text, *word;
    } bad[] = {
        {"", "0 bytes"},
        {"[]", "object"},
        {"{", "JSON"},
        {"{\"format\": \"gguf\"}", "\"format\": found \"gguf\""},
        {"{\"format\": \"multihead translator\", \"version\": 2}", "version 2"},
        {"{\"format\": \"multihead translator\", \"version\": \"1\"}", "version"},
        {HEAD REST "}", "\"d_model\": found nothing, expected an integer"},
        {HEAD "\"d_model\": -8}", "\"d_model\": found -8, expected an integer from 1"},
        {HEAD "\"d_model\": 1e3}", "\"d_model\": found 1000"},
        {HEAD "\"d_model\": 99999999999}", "d_model"},
        {HEAD "\"d_model\": {\"a\": []}}", "\"d_model\": found an object, expected an integer"},
        {"[[[[[[[[[[[[[[[[[", "nesting deeper than 16 levels"},
        {"{\"architectures\": [\"BertModel\"], \"model_type\": \"bert\"}",
         "belongs to a Hugging Face model of type \"bert\"; expected one that `multihead train` "
         "writes"},
        {"{\"model_type\": 5}", "\"format\": found nothing"},
        {HEAD SIZES "\"activation\": \"tanh\", \"norm_first\": true, \"dropout\": 0}",
         "activation"},
        {HEAD SIZES "\"activation\": \"relu\", \"norm_first\": 1, \"dropout\": 0}",
         "\"norm_first\": found 1, expected true or false"},
        {HEAD SIZES REST ", \"more\": 1}", "members"},
        {HEAD SIZES REST ", \"source_language\": \"french\"}",
         "\"source_language\": found \"french\", expected two or three letters"},
        {HEAD SIZES REST ", \"target_language\": 7}", "\"target_language\": found 7"},
    };
    mh_context *context = test_context(NULL, 1);
    mh_translator_config c;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        mh_status status =
            mh_config_parse(context, "config.json", bad[i].text, strlen(bad[i].text), &c);
        test_refused(context, status, MH_ERROR_FORMAT, bad[i].word);
        test_refused(context, status, MH_ERROR_FORMAT, "config.json: ");
    }
    static const char good[] = HEAD SIZES REST "}";
    test_ok(context, mh_config_parse(context, "config.json", good, sizeof good - 1, &c));
    assert_int_equal(c.max_length, 9);
    assert_string_equal(c.source_language, "");
    static const char named[] = HEAD SIZES REST ", \"source_language\": \"fr\"}";
    test_ok(context, mh_config_parse(context, "config.json", named, sizeof named - 1, &c));
    assert_string_equal(c.source_language, "fr");
    assert_string_equal(c.target_language, "");
    mh_context_free(context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gradients),      cmocka_unit_test(test_files),
        cmocka_unit_test(test_parts_must_fit), cmocka_unit_test(test_configs_must_fit),
        cmocka_unit_test(test_configs),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
