// SPDX-License-Identifier: MIT
// One object of every kind; see api_objects.h.
#include "api_objects.h"

#include "nn_support.h"

#include <sys/stat.h>
#include <unistd.h>

enum { D = API_WIDTH, H = API_HEADS, T = API_TOKENS };

static float x[T * D], y[T * D], weights[D * D];

// ---- engine and modules -------------------------------------------------------------------

static void make_packed(mh_context *context, api_objects *o)
{
    const mh_tensor b = mh_tensor_2d(weights, MH_F32, D, D);
    test_ok(context, mh_matrix_pack(context, MH_PRECISION_F32, &b, &o->packed));
}

static void make_cache(mh_context *context, api_objects *o)
{
    const mh_tensor kv = mh_tensor_4d(x, MH_F32, 1, H, T, D / H);
    mh_kv_cache_options options = mh_kv_cache_options_default();
    options.sequences = 1;
    options.heads = H;
    options.key_width = D / H;
    test_ok(context, mh_kv_cache_create(context, &options, &o->cache));
    test_ok(context, mh_kv_cache_append(context, o->cache, NULL, &kv, &kv));
}

static void make_mha(mh_context *context, api_objects *o)
{
    const mh_mha_config config = nn_mha_config(D, H);
    o->mha = nn_mha(context, &config, 1);
}

static void make_transformer(mh_context *context, api_objects *o)
{
    mh_transformer_config config = nn_transformer_config(MH_TRANSFORMER, D, H, 2 * D, 1);
    config.batch_first = true;
    o->transformer = nn_transformer(context, &config, 1);
}

static void make_language_model(mh_context *context, api_objects *o)
{
    mh_transformer_config config = nn_transformer_config(MH_ENCODER, D, H, 2 * D, 1);
    config.batch_first = true;
    o->language_model = nn_transformer(context, &config, 1);
}

static void make_tape(mh_context *context, api_objects *o)
{
    const mh_tensor in = mh_tensor_3d(x, MH_F32, 1, T, D), out = mh_tensor_3d(y, MH_F32, 1, T, D);
    mh_transformer_options options = mh_transformer_options_default();
    test_ok(context, mh_tape_create(context, &o->tape));
    options.tape = o->tape;
    test_ok(context, mh_transformer_forward(context, o->transformer, &options, &in, &in, &out));
}

static void make_decoding(mh_context *context, api_objects *o)
{
    const mh_tensor in = mh_tensor_3d(x, MH_F32, 1, T, D), out = mh_tensor_3d(y, MH_F32, 1, T, D);
    test_ok(context, mh_decoding_create(context, o->transformer, &in, NULL, 1, &o->decoding));
    test_ok(context, mh_decoding_step(context, o->decoding, NULL, 0, &in, &out));
}

static void make_causal_decoding(mh_context *context, api_objects *o)
{
    test_ok(context, mh_decoding_create_causal(context, o->language_model, 1, &o->causal_decoding));
}

// ---- files, text, models ------------------------------------------------------------------

static void make_npy(mh_context *context, api_objects *o)
{
    test_ok(context, mh_tensor_file_open(context, api_path(o, "x.npy"), &o->npy));
}

static void make_safetensors(mh_context *context, api_objects *o)
{
    static _Alignas(8) unsigned char bytes[4096];
    FILE *stream = fopen(api_path(o, "x.safetensors"), "rb");
    assert_non_null(stream);
    const size_t size = fread(bytes + 1, 1, sizeof bytes - 1, stream);
    fclose(stream);
    test_ok(context, mh_tensor_file_parse(context, "x", bytes + 1, size, &o->safetensors));
}

static void train_tokenizer(mh_context *context, mh_tokenizer **tokenizer)
{
    const mh_text texts[] = {{"un deux trois", 13}, {"one two three", 13}};
    mh_tokenizer_options options = mh_tokenizer_options_default();
    options.merges = 4;
    options.min_frequency = 1;
    test_ok(context, mh_tokenizer_train(context, &options, texts, 2, tokenizer));
}

static void make_tokenizer(mh_context *context, api_objects *o)
{
    train_tokenizer(context, &o->tokenizer);
}

static void load_tokenizer(mh_context *context, api_objects *o)
{
    test_ok(context,
            mh_tokenizer_load(context, api_path(o, "tokenizer.json"), &o->loaded_tokenizer));
}

static void make_translator(mh_context *context, api_objects *o)
{
    mh_translator_config config = mh_translator_config_default();
    mh_tokenizer *tokenizer;
    train_tokenizer(context, &tokenizer);
    config.d_model = D;
    config.nhead = H;
    config.num_encoder_layers = config.num_decoder_layers = 1;
    config.dim_feedforward = 2 * D;
    config.max_length = 16;
    test_ok(context,
            mh_translator_create(context, &config, MH_PRECISION_F32, tokenizer, &o->translator));
    mh_parameters_init(mh_translator_parameters(o->translator), 3);
}

static void load_translator(mh_context *context, api_objects *o)
{
    test_ok(context, mh_translator_load(context, api_path(o, "model"), MH_PRECISION_F32,
                                        &o->loaded_translator));
}

static void make_translations(mh_context *context, api_objects *o)
{
    const mh_text text = {"un deux", 7};
    test_ok(context, mh_translate(context, o->translator, NULL, &text, 1, &o->translations));
}

static void make_trace(mh_context *context, api_objects *o)
{
    const mh_text text = {"un deux", 7};
    const int32_t target[] = {5, 6};
    test_ok(context,
            mh_translation_trace_create(context, o->translator, NULL, text, target, 2, &o->trace));
}

static void make_trace_file(mh_context *context, api_objects *o)
{
    test_ok(context, mh_trace_file_open(context, api_path(o, "trace.safetensors"), &o->trace_file));
}

// ---- the list -----------------------------------------------------------------------------

#define FREE(field, function)                                                                      \
    static void free_##field(api_objects *o)                                                       \
    {                                                                                              \
        function(o->field);                                                                        \
        o->field = NULL;                                                                           \
    }
FREE(packed, mh_packed_matrix_free)
FREE(cache, mh_kv_cache_free)
FREE(mha, mh_mha_free)
FREE(transformer, mh_transformer_free)
FREE(language_model, mh_transformer_free)
FREE(tape, mh_tape_free)
FREE(decoding, mh_decoding_free)
FREE(causal_decoding, mh_decoding_free)
FREE(npy, mh_tensor_file_free)
FREE(safetensors, mh_tensor_file_free)
FREE(tokenizer, mh_tokenizer_free)
FREE(loaded_tokenizer, mh_tokenizer_free)
FREE(translator, mh_translator_free)
FREE(loaded_translator, mh_translator_free)
FREE(translations, mh_translations_free)
FREE(trace, mh_translation_trace_free)
FREE(trace_file, mh_trace_file_free)

const api_object_kind api_object_kinds[] = {
    {"packed matrix", make_packed, free_packed},
    {"KV cache", make_cache, free_cache},
    {"mha", make_mha, free_mha},
    {"transformer", make_transformer, free_transformer},
    {"language model", make_language_model, free_language_model},
    {"tape", make_tape, free_tape},
    {"decoding", make_decoding, free_decoding},
    {"causal decoding", make_causal_decoding, free_causal_decoding},
    {"mapped tensor file", make_npy, free_npy},
    {"parsed tensor file", make_safetensors, free_safetensors},
    {"trained tokenizer", make_tokenizer, free_tokenizer},
    {"loaded tokenizer", load_tokenizer, free_loaded_tokenizer},
    {"translator", make_translator, free_translator},
    {"loaded translator", load_translator, free_loaded_translator},
    {"translations", make_translations, free_translations},
    {"translation trace", make_trace, free_trace},
    {"trace file", make_trace_file, free_trace_file},
};
const size_t api_object_kind_count = sizeof api_object_kinds / sizeof *api_object_kinds;

void api_objects_make(mh_context *context, api_objects *o)
{
    o->context = context;
    for (size_t i = 0; i < api_object_kind_count; i++)
        api_object_kinds[i].make(context, o);
}

void api_objects_free(api_objects *o)
{
    for (size_t i = 0; i < api_object_kind_count; i++)
        api_object_kinds[i].free(o);
}

// ---- files --------------------------------------------------------------------------------

const char *api_path(const api_objects *o, const char *name)
{
    static char path[128];
    snprintf(path, sizeof path, "%s/%s", o->folder, name);
    return path;
}

void api_files_make(mh_context *context, api_objects *o)
{
    const mh_tensor view = mh_tensor_2d(x, MH_F32, T, D);
    const mh_named_tensor named = {"x", view};
    test_rng rng = {test_seed()};
    for (size_t i = 0; i < D * D; i++)
        weights[i] = (float)test_normal(&rng);
    for (size_t i = 0; i < T * D; i++)
        x[i] = (float)test_normal(&rng);
    snprintf(o->folder, sizeof o->folder, "/tmp/multihead-objects-XXXXXX");
    assert_non_null(mkdtemp(o->folder));
    assert_int_equal(mkdir(api_path(o, "model"), 0777), 0);
    make_translator(context, o);
    make_trace(context, o);
    test_ok(context, mh_npy_write(context, api_path(o, "x.npy"), &view));
    test_ok(context,
            mh_safetensors_write(context, api_path(o, "x.safetensors"), &named, 1, NULL, 0));
    test_ok(context, mh_translator_save(context, o->translator, api_path(o, "model"), MH_F32));
    test_ok(context, mh_tokenizer_save(context, mh_translator_tokenizer(o->translator),
                                       api_path(o, "tokenizer.json")));
    test_ok(context, mh_trace_write(context, api_path(o, "trace.safetensors"),
                                    mh_translation_trace_view(o->trace)));
    free_trace(o);
    free_translator(o);
}

void api_files_free(api_objects *o)
{
    static const char *const files[] = {"x.npy",
                                        "x.safetensors",
                                        "tokenizer.json",
                                        "trace.safetensors",
                                        "model/config.json",
                                        "model/tokenizer.json",
                                        "model/model.safetensors"};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        unlink(api_path(o, files[i]));
    rmdir(api_path(o, "model"));
    rmdir(o->folder);
}
