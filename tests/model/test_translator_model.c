// SPDX-License-Identifier: MIT
// Our own translators as models: mh_model_load of their directory has the encoder's states and the
// translations of mh_translator_load, to the bit.
#include <multihead/pretrained.h>

#include "train_support.h"
#include "translate_support.h"

#include "model/translator_internal.h"

#include <math.h>
#include <stdlib.h>

#define SHIPPED MH_GOLDENS "/../../models/fr-en"

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

// The same directory, loaded both ways.
typedef struct both {
    mh_context *context;
    mh_translator *translator;
    mh_model *model;
} both;

static both open_both(const char *directory, const char *level)
{
    both b = {.context = test_context(level, 2)};
    test_ok(b.context, mh_translator_load(b.context, directory, MH_PRECISION_F32, &b.translator));
    test_ok(b.context, mh_model_load(b.context, directory, NULL, &b.model));
    return b;
}

static void close_both(both *b)
{
    mh_model_free(b->model);
    mh_translator_free(b->translator);
    mh_context_free(b->context);
}

// ---- states of the encoder ----------------------------------------------------------------------

// The ids that mh_translate's encoder reads: the text's and </s>.
static void same_ids(const both *b, mh_text text, const mh_encoding *e)
{
    mh_tokens tokens = {0};
    test_ok(b->context, mh_translator_encode(b->context, b->translator, text, &tokens));
    assert_int_equal(e->count, tokens.count + 1);
    assert_memory_equal(e->ids, tokens.ids, tokens.count * sizeof *tokens.ids);
    assert_int_equal(e->ids[tokens.count],
                     mh_tokenizer_eos(mh_translator_tokenizer(b->translator)));
    for (size_t i = 0; i < tokens.count; i++)
        assert_true(e->begins[i] <= e->ends[i] && e->ends[i] <= text.size);
    mh_tokens_free(b->context, &tokens);
}

static void same_states(const both *b, const mh_text *texts, size_t count)
{
    const size_t D = mh_model_describe(b->model)->d_model;
    mh_model_texts *encoded;
    test_ok(b->context, mh_model_encode(b->context, b->model, false, texts, count, &encoded));
    for (size_t i = 0; i < count; i++)
        same_ids(b, texts[i], mh_model_texts_encoding(encoded, i));
    const mh_model_input *input = mh_model_texts_input(encoded);
    const size_t rows = (size_t)input->starts[count];
    float *values = malloc(2 * rows * D * sizeof *values);
    mh_tensor hidden = mh_tensor_2d(values, MH_F32, rows, D);
    mh_tensor memory = mh_tensor_2d(values + rows * D, MH_F32, rows, D);
    const mh_source_batch batch = {count, input->starts, input->ids, NULL};
    mh_translator_weights weights;
    test_ok(b->context, mh_translator_weights_create(b->context, b->translator, &weights));
    test_ok(b->context, mh_model_hidden(b->context, b->model, input, &hidden));
    test_ok(b->context,
            b->translator->run->encode(b->context, b->translator, &weights, &batch, &memory));
    assert_memory_equal(hidden.data, memory.data, rows * D * sizeof *values);
    assert_true(fabsf(values[0]) > 0);
    mh_translator_weights_free(&weights);
    mh_model_texts_free(b->context, encoded);
    free(values);
}

// ---- translations -------------------------------------------------------------------------------

static void same_translations(const both *b, const mh_text *texts, size_t count)
{
    mh_translator *t;
    test_ok(b->context, mh_translator_from_model(b->context, b->model, &t));
    for (size_t beam = 1; beam <= 4; beam += 3) {
        mh_translate_options o = mh_translate_options_default();
        o.beam = beam;
        o.attention = true;
        mh_translations *x = translate(b->context, b->translator, &o, texts, count);
        mh_translations *y = translate(b->context, t, &o, texts, count);
        for (size_t i = 0; i < count; i++)
            same_translation(mh_translations_at(x, i, 0), mh_translations_at(y, i, 0));
        mh_translations_free(x);
        mh_translations_free(y);
    }
    mh_translator_free(t);
}

// ---- cases --------------------------------------------------------------------------------------

static mh_translator *make(mh_context *context, bool norm_first, mh_activation activation)
{
    mh_translator *fixture = make_translator(context, 5), *made;
    mh_tokenizer *tokenizer;
    char path[160];
    snprintf(path, sizeof path, "%s/tokenizer.json", place.root);
    test_ok(context, mh_tokenizer_save(context, mh_translator_tokenizer(fixture), path));
    test_ok(context, mh_tokenizer_load(context, path, &tokenizer));
    mh_translator_config c = *mh_translator_configuration(fixture);
    c.norm_first = norm_first;
    c.activation = activation;
    c.num_decoder_layers = 1;
    test_ok(context, mh_translator_create(context, &c, MH_PRECISION_F32, tokenizer, &made));
    mh_parameters_init(mh_translator_parameters(made), 7);
    mh_translator_free(fixture);
    return made;
}

static void every_kind_of_block(void **state)
{
    (void)state;
    const mh_activation activations[] = {MH_RELU, MH_GELU, MH_GELU_TANH, MH_SILU};
    for (size_t i = 0; i < 8; i++) {
        mh_context *context = test_context(test_level(0), 1);
        mh_translator *t = make(context, i % 2, activations[i / 2]);
        test_ok(context, mh_translator_save(context, t, place.root, i % 4 < 2 ? MH_F32 : MH_BF16));
        mh_translator_free(t);
        mh_context_free(context);
        both b = open_both(place.root, test_level(0));
        same_states(&b, some_texts, LONG_TEXT);
        same_translations(&b, some_texts, TEXTS);
        close_both(&b);
    }
}

// Typographic characters, blanks, and what looks like a special token.
#define LITERAL(text)                                                                              \
    {                                                                                              \
        text, sizeof text - 1                                                                      \
    }
static const mh_text french[] = {
    LITERAL("Le chat dort."),
    LITERAL("L\xE2\x80\x99homme  a dit\xC2\xA0: \xC2\xABOui\xC2\xBB\xE2\x80\xA6 "),
    LITERAL("  Il fait beau </s> et chaud\t"),
    LITERAL("e\xCC\x81t\xC3\xA9"),
};
enum { FRENCH = sizeof french / sizeof *french };

static void shipped_model(void **state)
{
    (void)state;
    for (size_t i = 0; test_level(i); i++) {
        both b = open_both(SHIPPED, test_level(i));
        const mh_model_info *info = mh_model_describe(b.model);
        assert_string_equal(info->family, "multihead translator");
        assert_int_equal(info->abilities, MH_CAN_EMBED | MH_CAN_TRANSLATE);
        assert_int_equal(info->decoder_layers, 3);
        assert_int_equal(info->vocabulary, mh_tokenizer_size(mh_model_tokenizer(b.model)));
        same_states(&b, french, FRENCH);
        same_translations(&b, french, FRENCH);
        close_both(&b);
    }
}

// Offsets are those of the text that was given, although the model reads "L'homme a dit".
static void offsets(void **state)
{
    (void)state;
    both b = open_both(SHIPPED, test_level(0));
    mh_model_texts *encoded;
    test_ok(b.context, mh_model_encode(b.context, b.model, false, &french[1], 1, &encoded));
    const mh_encoding *e = mh_model_texts_encoding(encoded, 0);
    size_t at = 0, dit = 0;
    for (size_t i = 0; i + 1 < e->count; i++) {
        assert_int_equal(e->begins[i], at);
        at = e->ends[i];
        dit += e->ends[i] == strlen("L\xE2\x80\x99homme  a dit");
    }
    assert_int_equal(at, french[1].size - 1); // without the last blank
    assert_int_equal(dit, 1);
    mh_model_texts_free(b.context, encoded);

    // the trace's tokens are parts of that text, too
    mh_model_trace *trace;
    test_ok(b.context, mh_model_trace_create(b.context, b.model, NULL, french[1], NULL, &trace));
    const mh_trace *view = mh_model_trace_view(trace);
    assert_non_null(strstr(view->source.text[0], "\xE2\x80\x99"));
    mh_model_trace_free(trace);
    assert_int_equal(mh_model_trace_create(b.context, b.model, NULL, french[0], &french[2], &trace),
                     MH_ERROR_UNSUPPORTED);
    close_both(&b);
}

// ---- what is refused ----------------------------------------------------------------------------

static void write_config(const char *text)
{
    char path[160];
    snprintf(path, sizeof path, "%s/config.json", place.root);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    assert_int_equal(fclose(file), 0);
}

#define SIZES                                                                                      \
    "\"d_model\": 32, \"nhead\": 4, \"num_encoder_layers\": 2, \"num_decoder_layers\": 1, "        \
    "\"dim_feedforward\": 48, \"activation\": \"relu\", \"norm_first\": true, \"dropout\": 0, "

static void refused(void **state)
{
    (void)state;
    static const struct {
        const char *config, *message;
        mh_status status;
    } cases[] = {
        {"{\"format\": \"another\"}", "expected \"multihead translator\"", MH_ERROR_FORMAT},
        {"{\"format\": \"multihead translator\", \"version\": 2}", "version 2", MH_ERROR_FORMAT},
        {"{\"model_type\": \"multihead translator\"}", "is not one of", MH_ERROR_UNSUPPORTED},
        {"{\"format\": \"multihead translator\", \"version\": 1, " SIZES "\"max_length\": 70000}",
         "config.json: max_length: found 70000", MH_ERROR_FORMAT},
        {"{\"format\": \"multihead translator\", \"version\": 1, " SIZES
         "\"max_length\": 40, \"surplus\": 1}",
         "found 12 members", MH_ERROR_FORMAT},
    };
    mh_context *context = test_context(test_level(0), 1);
    mh_translator *t = make(context, true, MH_RELU);
    mh_model *model;
    test_ok(context, mh_translator_save(context, t, place.root, MH_F32));
    mh_translator_free(t);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        write_config(cases[i].config);
        assert_int_equal(mh_model_load(context, place.root, NULL, &model), cases[i].status);
        if (!strstr(mh_error_message(context), cases[i].message))
            fail_msg("found '%s', expected '%s'", mh_error_message(context), cases[i].message);
    }
    // and with sizes that fit, it is a model, but not without its tokenizer
    write_config("{\"format\": \"multihead translator\", \"version\": 1, " SIZES
                 "\"max_length\": 40}");
    test_ok(context, mh_model_load(context, place.root, NULL, &model));
    mh_model_free(model);
    char path[160];
    snprintf(path, sizeof path, "%s/tokenizer.json", place.root);
    assert_int_equal(remove(path), 0);
    assert_int_equal(mh_model_load(context, place.root, NULL, &model), MH_ERROR_FILE);
    mh_context_free(context);
}

// A changed bit in the last tensor's data.
static void changed_weights(void **state)
{
    (void)state;
    mh_context *context = test_context(test_level(0), 1);
    mh_translator *t = make(context, true, MH_RELU);
    mh_model *model;
    test_ok(context, mh_translator_save(context, t, place.root, MH_F32));
    mh_translator_free(t);
    char path[160];
    snprintf(path, sizeof path, "%s/model.safetensors", place.root);
    FILE *file = fopen(path, "r+b");
    assert_non_null(file);
    assert_int_equal(fseek(file, -1, SEEK_END), 0);
    const int last = fgetc(file);
    assert_int_equal(fseek(file, -1, SEEK_END), 0);
    fputc(last ^ 1, file);
    assert_int_equal(fclose(file), 0);
    assert_int_equal(mh_model_load(context, place.root, NULL, &model), MH_ERROR_FORMAT);
    assert_non_null(strstr(mh_error_message(context), "was changed after saving"));
    mh_context_free(context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_kind_of_block),
        cmocka_unit_test(shipped_model),
        cmocka_unit_test(offsets),
        cmocka_unit_test(refused),
        cmocka_unit_test(changed_weights),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
