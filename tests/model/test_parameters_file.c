// SPDX-License-Identifier: MIT
// Parameters from and to files: round trips to the bit, other dtypes, other people's names and
// orders, and refusals, which name what is wrong and leave the parameters as they are.
#include "file_support.h"
#include "support.h"
#include <multihead/io.h>
#include <multihead/model.h>
#include <unistd.h>

enum { D = 6, H = 2, E = 3 };

static char directory[] = "/tmp/mh_test_parameters_XXXXXX";
static char path[64], other_path[64];
static mh_context *context;

static int setup(void **state)
{
    (void)state;
    const mh_context_options options = mh_context_options_default();
    if (mkdtemp(directory) == NULL || mh_context_create(&options, &context, NULL, 0) != MH_OK)
        return -1;
    snprintf(path, sizeof path, "%s/p.safetensors", directory);
    snprintf(other_path, sizeof other_path, "%s/q.safetensors", directory);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    mh_context_free(context);
    unlink(path);
    unlink(other_path);
    return rmdir(directory);
}

static mh_mha *make_mha(size_t kv_heads, mh_qkv_order qkv)
{
    mh_mha_config config = mh_mha_config_default();
    config.embed_dim = D;
    config.num_heads = H;
    config.kv_heads = kv_heads;
    config.qkv = qkv;
    mh_mha *mha;
    test_ok(context, mh_mha_create(context, &config, &mha));
    return mha;
}

// ---- a file that is put together ----------------------------------------------------------------

enum { MOST = 16 };

// f32 tensors whose element i of tensor n is 100 n + i.
typedef struct made_file {
    mh_named_tensor tensors[MOST];
    float numbers[MOST][3 * D * D];
    size_t count;
} made_file;

static mh_tensor *add(made_file *file, const char *name, size_t rows, size_t columns)
{
    const size_t n = file->count++;
    for (size_t i = 0; i < 3 * D * D; i++)
        file->numbers[n][i] = (float)(100 * n + i);
    file->tensors[n].name = name;
    file->tensors[n].tensor = columns ? mh_tensor_2d(file->numbers[n], MH_F32, rows, columns)
                                      : mh_tensor_1d(file->numbers[n], MH_F32, rows);
    return &file->tensors[n].tensor;
}

static void add_usual(made_file *file)
{
    add(file, "in_proj_weight", 3 * D, D);
    add(file, "in_proj_bias", 3 * D, 0);
    add(file, "out_proj.weight", D, D);
    add(file, "out_proj.bias", D, 0);
}

static mh_status load(const made_file *file, const mh_parameters *parameters,
                      const mh_parameters_options *options)
{
    test_ok(context, mh_safetensors_write(context, path, file->tensors, file->count, NULL, 0));
    return mh_parameters_load(context, parameters, path, options);
}

static const float *values_of(const mh_parameters *parameters, const char *name)
{
    const mh_parameter *p = mh_parameters_find(parameters, name);
    assert_non_null(p);
    return parameters->values + p->offset;
}

// ---- several in one file ------------------------------------------------------------------------

// Two modules and a moment of one of them, each found again by its prefix.
static void parts_round_trip(void **state)
{
    (void)state;
    mh_mha *one = make_mha(H, MH_QKV_STACKED), *two = make_mha(H, MH_QKV_STACKED);
    const mh_parameters *p = mh_mha_parameters(one), *q = mh_mha_parameters(two);
    const size_t bytes = p->floats * sizeof(float);
    float *moment = malloc(bytes), *before = malloc(2 * bytes);
    assert_true(moment && before && q->floats == p->floats);
    mh_parameters m = *p;
    m.values = moment;
    mh_parameters_init(p, 1);
    mh_parameters_init(q, 2);
    mh_parameters_init(&m, 3);
    memcpy(before, q->values, bytes);
    memcpy(before + p->floats, moment, bytes);
    const mh_parameters_part parts[] = {{"a.", p}, {"b.", q}, {"m.a.", &m}};
    const mh_metadata step = {"step", "1500"};
    test_ok(context, mh_parameters_save_parts(context, parts, 3, &step, 1, path));

    mh_tensor_file *file;
    test_ok(context, mh_tensor_file_open(context, path, &file));
    assert_int_equal(mh_tensor_file_count(file), 2 * p->count + q->count);
    assert_string_equal(mh_tensor_file_metadata(file, "step"), "1500");
    assert_string_equal(mh_tensor_file_metadata(file, "format"), "pt");
    mh_tensor_file_free(file);

    mh_parameters_options o = mh_parameters_options_default();
    memset(q->values, 0xFF, bytes);
    memset(moment, 0xFF, bytes);
    o.prefix = "b.";
    test_ok(context, mh_parameters_load(context, q, path, &o));
    o.prefix = "m.a.";
    test_ok(context, mh_parameters_load(context, &m, path, &o));
    assert_memory_equal(q->values, before, bytes);
    assert_memory_equal(moment, before + p->floats, bytes);
    free(moment);
    free(before);
    mh_mha_free(one);
    mh_mha_free(two);
}

static void parts_refused(void **state)
{
    (void)state;
    char prefix[300];
    memset(prefix, 'p', sizeof prefix);
    prefix[257] = 0;
    mh_mha *mha = make_mha(H, MH_QKV_STACKED);
    const mh_parameters *p = mh_mha_parameters(mha);
    mh_parameters_part parts[] = {{"a.", p}, {"a.", p}};
    const mh_metadata format = {"format", "np"};
    test_refused(context, mh_parameters_save_parts(context, parts, 2, NULL, 0, path),
                 MH_ERROR_ARGUMENT, "two tensors are called \"a.in_proj_weight\"");
    parts[1].prefix = prefix;
    test_refused(context, mh_parameters_save_parts(context, parts, 2, NULL, 0, path),
                 MH_ERROR_ARGUMENT, "parts[1].prefix: found 257 bytes, expected at most 256");
    parts[1].parameters = NULL;
    test_refused(context, mh_parameters_save_parts(context, parts, 2, NULL, 0, path),
                 MH_ERROR_ARGUMENT, "parts[1]: parameters is NULL");
    test_refused(context, mh_parameters_save_parts(context, parts, 1, NULL, 1, path),
                 MH_ERROR_ARGUMENT, "metadata is NULL");
    test_refused(context, mh_parameters_save_parts(context, parts, 1, &format, SIZE_MAX, path),
                 MH_ERROR_ARGUMENT, "metadata: found");
    // the longest prefix, and a format of the caller's own, are fine
    prefix[256] = 0;
    parts[0].prefix = prefix;
    mh_tensor_file *file;
    test_ok(context, mh_parameters_save_parts(context, parts, 1, &format, 1, path));
    test_ok(context, mh_tensor_file_open(context, path, &file));
    assert_string_equal(mh_tensor_file_metadata(file, "format"), "np");
    mh_tensor_file_free(file);
    mh_mha_free(mha);
}

// ---- round trips --------------------------------------------------------------------------------

static void check_round_trip(const mh_parameters *parameters)
{
    const size_t bytes = parameters->floats * sizeof(float);
    mh_parameters_init(parameters, 7);
    parameters->values[0] = -0.0f;
    parameters->values[1] = 1e-45f;
    parameters->values[2] = (float)NAN;
    float *before = malloc(bytes);
    assert_non_null(before);
    memcpy(before, parameters->values, bytes);
    test_ok(context, mh_parameters_save(context, parameters, path));
    memset(parameters->values, 0xFF, bytes);
    test_ok(context, mh_parameters_load(context, parameters, path, NULL));
    assert_memory_equal(parameters->values, before, bytes);

    test_ok(context, mh_parameters_save(context, parameters, other_path));
    blob first = blob_read(path), second = blob_read(other_path);
    assert_int_equal(first.size, second.size);
    assert_memory_equal(first.bytes, second.bytes, first.size);
    blob_free(&first);
    blob_free(&second);
    free(before);
}

static void round_trips(void **state)
{
    (void)state;
    mh_mha *mha = make_mha(1, MH_QKV_STACKED);
    check_round_trip(mh_mha_parameters(mha));
    mh_mha_free(mha);
    for (int kind = MH_TRANSFORMER; kind <= MH_DECODER_LAYER; kind++) {
        mh_transformer_config config = mh_transformer_config_default();
        config.kind = (mh_transformer_kind)kind;
        config.d_model = 12;
        config.nhead = 3;
        config.dim_feedforward = 7;
        config.num_decoder_layers = 12;
        mh_transformer *transformer;
        test_ok(context, mh_transformer_create(context, &config, &transformer));
        check_round_trip(mh_transformer_parameters(transformer));
        mh_transformer_free(transformer);
    }
}

static void dtypes(void **state)
{
    (void)state;
    mh_mha *mha = make_mha(H, MH_QKV_STACKED);
    const mh_parameters *p = mh_mha_parameters(mha);
    made_file file = {0};
    add_usual(&file);
    uint16_t halves[2][D * D];
    const float values[] = {0, -1.5f, 0.25f, 65504, 1e-3f};
    const mh_dtype types[2] = {MH_BF16, MH_F16};
    for (int i = 0; i < 2; i++) {
        mh_tensor *t = &file.tensors[2].tensor;
        *t = mh_tensor_2d(file.numbers[2], MH_F32, D, D);
        for (size_t n = 0; n < D * D; n++)
            file.numbers[2][n] = values[n % 5];
        mh_tensor half = mh_tensor_2d(halves[i], types[i], D, D);
        test_ok(context, mh_tensor_copy(context, t, &half));
        test_ok(context, mh_tensor_copy(context, &half, t)); // what is left of them
        *t = half;
        test_ok(context, load(&file, p, NULL));
        assert_memory_equal(values_of(p, "out_proj.weight"), file.numbers[2],
                            D * D * sizeof(float));
    }
    mh_mha_free(mha);
}

// ---- other names and orders ---------------------------------------------------------------------

static void aliases(void **state)
{
    (void)state;
    static const char *const names[][4] = {
        {"W_q", "W_k", "W_v", "W_o"},
        {"q_linear", "k_linear", "v_linear", "out_linear"},
        {"q_proj", "k_proj", "v_proj", "o_proj"},
        {"q_proj", "k_proj", "v_proj", "out_proj"},
    };
    mh_mha *mha = make_mha(1, MH_QKV_STACKED); // rows of q, k, v: 6, 3, 3
    const mh_parameters *p = mh_mha_parameters(mha);
    for (size_t set = 0; set < 4; set++) {
        made_file file = {0};
        char texts[8][40];
        for (int i = 0; i < 4; i++) {
            const size_t rows = i == 1 || i == 2 ? E : D;
            snprintf(texts[2 * i], 40, "x.%s.weight", names[set][i]);
            snprintf(texts[2 * i + 1], 40, "x.%s.bias", names[set][i]);
            add(&file, texts[2 * i], rows, D);
            add(&file, texts[2 * i + 1], rows, 0);
        }
        add(&file, "y.other", D, D); // not under the prefix: nobody's business
        mh_parameters_options o = mh_parameters_options_default();
        o.prefix = "x.";
        test_ok(context, load(&file, p, &o));
        const float *in = values_of(p, "in_proj_weight"), *bias = values_of(p, "in_proj_bias");
        assert_memory_equal(in, file.numbers[0], D * D * sizeof(float));
        assert_memory_equal(in + D * D, file.numbers[2], E * D * sizeof(float));
        assert_memory_equal(in + D * D + E * D, file.numbers[4], E * D * sizeof(float));
        assert_memory_equal(bias, file.numbers[1], D * sizeof(float));
        assert_memory_equal(bias + D, file.numbers[3], E * sizeof(float));
        assert_memory_equal(bias + D + E, file.numbers[5], E * sizeof(float));
        assert_memory_equal(values_of(p, "out_proj.weight"), file.numbers[6],
                            D * D * sizeof(float));
        assert_memory_equal(values_of(p, "out_proj.bias"), file.numbers[7], D * sizeof(float));
    }
    mh_mha_free(mha);
}

static void separate_widths(void **state)
{
    (void)state;
    mh_mha_config config = mh_mha_config_default();
    config.embed_dim = D;
    config.num_heads = H;
    config.kdim = 4;
    config.bias = false;
    mh_mha *mha;
    test_ok(context, mh_mha_create(context, &config, &mha));
    made_file file = {0};
    add(&file, "W_q.weight", D, D);
    add(&file, "W_k.weight", D, 4);
    add(&file, "W_v.weight", D, D);
    add(&file, "W_o.weight", D, D);
    const mh_parameters *p = mh_mha_parameters(mha);
    test_ok(context, load(&file, p, NULL));
    assert_memory_equal(values_of(p, "k_proj_weight"), file.numbers[1], D * 4 * sizeof(float));
    assert_memory_equal(values_of(p, "v_proj_weight"), file.numbers[2], D * D * sizeof(float));
    mh_mha_free(mha);
}

// Row of q, k or v, head h, element e, of the same numbers in two orders.
static void check_rows(const float *stacked, const float *interleaved, size_t columns)
{
    for (size_t which = 0; which < 3; which++)
        for (size_t h = 0; h < H; h++)
            for (size_t e = 0; e < E; e++)
                assert_memory_equal(stacked + ((which * H + h) * E + e) * columns,
                                    interleaved + ((h * 3 + which) * E + e) * columns,
                                    columns * sizeof(float));
}

static void interleaved(void **state)
{
    (void)state;
    mh_mha *stacked = make_mha(H, MH_QKV_STACKED), *mixed = make_mha(H, MH_QKV_INTERLEAVED);
    const mh_parameters *s = mh_mha_parameters(stacked), *m = mh_mha_parameters(mixed);
    made_file file = {0};
    add(&file, "qkv_layer.weight", 3 * D, D);
    add(&file, "qkv_layer.bias", 3 * D, 0);
    add(&file, "linear_layer.weight", D, D);
    add(&file, "linear_layer.bias", D, 0);
    mh_parameters_options o = mh_parameters_options_default();
    test_refused(context, load(&file, s, &o), MH_ERROR_FORMAT, "options.num_heads");
    o.num_heads = 4;
    test_refused(context, load(&file, s, &o), MH_ERROR_FORMAT, "found 4 for 18 rows");
    o.num_heads = H;
    test_ok(context, load(&file, s, &o));
    check_rows(values_of(s, "in_proj_weight"), file.numbers[0], D);
    check_rows(values_of(s, "in_proj_bias"), file.numbers[1], 1);
    o.num_heads = 0;
    o.qkv = MH_QKV_INTERLEAVED;
    test_ok(context, load(&file, m, &o));
    assert_memory_equal(values_of(m, "in_proj_weight"), file.numbers[0], 3 * D * D * sizeof(float));

    file.count = 0;
    static const char *const names[] = {"W_q.weight", "W_k.weight", "W_v.weight",
                                        "W_q.bias",   "W_k.bias",   "W_v.bias"};
    for (size_t i = 0; i < 6; i++)
        add(&file, names[i], D, i < 3 ? D : 0);
    add(&file, "W_o.weight", D, D);
    add(&file, "W_o.bias", D, 0);
    test_refused(context, load(&file, m, &o), MH_ERROR_FORMAT, "options.num_heads");
    o.num_heads = H;
    test_ok(context, load(&file, m, &o));
    o.qkv = MH_QKV_STACKED;
    test_ok(context, load(&file, s, &o));
    check_rows(values_of(s, "in_proj_weight"), values_of(m, "in_proj_weight"), D);
    check_rows(values_of(s, "in_proj_bias"), values_of(m, "in_proj_bias"), 1);
    mh_mha_free(stacked);
    mh_mha_free(mixed);
}

static void in_out(void **state)
{
    (void)state;
    mh_mha *mha = make_mha(1, MH_QKV_STACKED);
    const mh_parameters *p = mh_mha_parameters(mha);
    made_file file = {0};
    add(&file, "in_proj_weight", D, 2 * D);
    add(&file, "in_proj_bias", 2 * D, 0);
    add(&file, "out_proj.weight", D, D);
    add(&file, "out_proj.bias", D, 0);
    mh_parameters_options o = mh_parameters_options_default();
    test_refused(context, load(&file, p, &o), MH_ERROR_FORMAT,
                 "\"in_proj_weight\": found f32 (6, 12), expected f32 (12, 6)");
    o.in_out = true;
    test_ok(context, load(&file, p, &o));
    const float *in = values_of(p, "in_proj_weight");
    for (size_t row = 0; row < 2 * D; row++)
        for (size_t column = 0; column < D; column++)
            assert_true(in[row * D + column] == file.numbers[0][column * 2 * D + row]);
    assert_memory_equal(values_of(p, "in_proj_bias"), file.numbers[1], 2 * D * sizeof(float));
    file.tensors[0].tensor = mh_tensor_2d(file.numbers[0], MH_F32, 2 * D, D);
    test_refused(context, load(&file, p, &o), MH_ERROR_FORMAT,
                 "found f32 (12, 6), expected f32 (6, 12)");
    mh_mha_free(mha);
}

// ---- refusals -----------------------------------------------------------------------------------

static void check_refused(const made_file *file, const mh_parameters_options *options,
                          const char *word)
{
    mh_mha *mha = make_mha(H, MH_QKV_STACKED);
    const mh_parameters *p = mh_mha_parameters(mha);
    memset(p->values, 0x55, p->floats * sizeof(float));
    test_refused(context, load(file, p, options), MH_ERROR_FORMAT, word);
    assert_non_null(strstr(mh_error_message(context), "p.safetensors: "));
    for (size_t i = 0; i < p->floats * sizeof(float); i++)
        assert_int_equal(((const unsigned char *)p->values)[i], 0x55);
    mh_mha_free(mha);
}

static void refusals(void **state)
{
    (void)state;
    made_file file = {0};
    add_usual(&file);
    file.count = 3;
    check_refused(&file, NULL, "missing \"out_proj.bias\"");
    add(&file, "out_proj.bias", D + 1, 0);
    check_refused(&file, NULL, "\"out_proj.bias\": found f32 (7), expected f32 (6)");
    file.tensors[3].tensor = mh_tensor_2d(file.numbers[3], MH_F32, 1, D);
    check_refused(&file, NULL, "\"out_proj.bias\": found f32 (1, 6), expected f32 (6)");
    file.tensors[3].tensor = mh_tensor_1d(file.numbers[3], MH_I32, D);
    check_refused(&file, NULL, "\"out_proj.bias\": found i32 (6), expected f32, bf16 or f16");
    file.tensors[3].tensor = mh_tensor_1d(file.numbers[3], MH_F32, D);
    add(&file, "odd\x1b[31m", 1, 0);
    check_refused(&file, NULL, "surplus \"odd\\x1b[31m\"");
    file.tensors[2].name = "out_proj.weights";
    check_refused(&file, NULL,
                  "missing \"out_proj.weight\"; surplus \"out_proj.weights\"; surplus \"odd");
    char prefix[300];
    memset(prefix, 'p', sizeof prefix);
    prefix[299] = 0;
    mh_parameters_options o = mh_parameters_options_default();
    o.prefix = "model.";
    check_refused(&file, &o, "missing \"model.in_proj_weight\"");
    o.strict = false;
    check_refused(&file, &o, "has none of the 4 parameters");

    mh_mha *mha = make_mha(H, MH_QKV_STACKED);
    const mh_parameters *p = mh_mha_parameters(mha);
    o.prefix = prefix;
    test_refused(context, load(&file, p, &o), MH_ERROR_ARGUMENT, "found 299 bytes");
    o = mh_parameters_options_default();
    o.struct_size = 1;
    test_refused(context, load(&file, p, &o), MH_ERROR_ARGUMENT, "struct_size");
    o = mh_parameters_options_default();
    o.qkv = (mh_qkv_order)9;
    test_refused(context, load(&file, p, &o), MH_ERROR_ARGUMENT, "found 9");
    test_refused(context, mh_parameters_load(context, p, "/nowhere/x", NULL), MH_ERROR_FILE,
                 "/nowhere/x");
    test_refused(context, mh_parameters_save(context, p, "/nowhere/x"), MH_ERROR_FILE, "/nowhere/");
    test_refused(context, mh_parameters_load(context, NULL, path, NULL), MH_ERROR_ARGUMENT,
                 "parameters is NULL");
    test_refused(context, mh_parameters_save(context, p, NULL), MH_ERROR_ARGUMENT, "path is NULL");
    mh_mha_free(mha);
}

static void refused_aliases(void **state)
{
    (void)state;
    made_file file = {0};
    add(&file, "W_q.weight", D, D);
    add(&file, "W_v.weight", D, D);
    add(&file, "in_proj_bias", 3 * D, 0);
    add(&file, "W_o.weight", D, D);
    add(&file, "W_o.bias", D, 0);
    check_refused(&file, NULL, "missing \"W_k.weight\"");
    add(&file, "W_k.weight", D - 1, D);
    check_refused(&file, NULL, "expected q, k and v to make f32 (18, 6)");
    file.tensors[5].tensor = mh_tensor_2d(file.numbers[5], MH_F32, D, D - 1);
    check_refused(&file, NULL, "\"W_k.weight\": found f32 (6, 5)");
    file.tensors[5].tensor = mh_tensor_2d(file.numbers[5], MH_F32, 3 * D, D);
    check_refused(&file, NULL, "\"W_k.weight\": found f32 (18, 6)");
    file.tensors[5].tensor = mh_tensor_view(file.numbers[5], MH_F32, 0, NULL);
    check_refused(&file, NULL, "\"W_k.weight\": found f32 ()");
}

// All problems are counted, those that fit are named.
static void many_problems(void **state)
{
    (void)state;
    mh_transformer_config config = mh_transformer_config_default();
    config.d_model = 4;
    config.nhead = 1;
    config.dim_feedforward = 4;
    mh_transformer *transformer;
    test_ok(context, mh_transformer_create(context, &config, &transformer));
    made_file file = {0};
    add(&file, "x", 1, 0);
    test_refused(context, load(&file, mh_transformer_parameters(transformer), NULL),
                 MH_ERROR_FORMAT, "missing \"encoder.layers.0.self_attn.in_proj_weight\"; missing");
    assert_non_null(strstr(mh_error_message(context), "; and "));
    assert_non_null(strstr(mh_error_message(context), " more"));
    mh_transformer_free(transformer);
}

static void not_strict(void **state)
{
    (void)state;
    mh_mha *mha = make_mha(H, MH_QKV_STACKED);
    const mh_parameters *p = mh_mha_parameters(mha);
    made_file file = {0};
    add_usual(&file);
    add(&file, "surplus", D, D);
    file.tensors[1].name = "renamed";
    mh_parameters_init(p, 1);
    ((float *)(uintptr_t)values_of(p, "in_proj_bias"))[4] = 44;
    mh_parameters_options o = mh_parameters_options_default();
    o.strict = false;
    test_ok(context, load(&file, p, &o));
    assert_true(values_of(p, "in_proj_bias")[4] == 44);
    assert_memory_equal(values_of(p, "out_proj.weight"), file.numbers[2], D * D * sizeof(float));
    mh_mha_free(mha);
}

// Many parameters and far more tensors, in a time that is not their product: or this never ends.
static void many_tensors(void **state)
{
    (void)state;
    enum { LAYERS = 800, SURPLUS = 100000, NAME = 16 };
    mh_transformer_config config = mh_transformer_config_default();
    config.kind = MH_ENCODER;
    config.d_model = config.nhead = config.dim_feedforward = 1;
    config.num_encoder_layers = LAYERS;
    mh_transformer *transformer;
    test_ok(context, mh_transformer_create(context, &config, &transformer));
    const mh_parameters *p = mh_transformer_parameters(transformer);
    const size_t count = p->count + SURPLUS;
    mh_named_tensor *tensors = malloc(count * sizeof *tensors);
    char(*names)[NAME] = malloc(SURPLUS * sizeof *names);
    assert_true(tensors && names);
    for (size_t i = 0; i < p->count; i++)
        tensors[i] = (mh_named_tensor){p->list[i].name, mh_parameter_view(&p->list[i], p->values)};
    for (size_t i = 0; i < SURPLUS; i++) {
        snprintf(names[i], NAME, "surplus%zu", i);
        tensors[p->count + i] = (mh_named_tensor){names[i], mh_tensor_1d(p->values, MH_F32, 0)};
    }
    mh_parameters_init(p, 3);
    const float first = p->values[0];
    test_ok(context, mh_safetensors_write(context, path, tensors, count, NULL, 0));
    mh_parameters_init(p, 4);
    mh_parameters_options o = mh_parameters_options_default();
    o.strict = false;
    test_ok(context, mh_parameters_load(context, p, path, &o));
    assert_true(p->values[0] == first);
    free(names);
    free(tensors);
    mh_transformer_free(transformer);
}

// Every allocation fails once.
static void memory(void **state)
{
    (void)state;
    mh_mha *mha = make_mha(H, MH_QKV_STACKED);
    const mh_parameters *p = mh_mha_parameters(mha);
    test_ok(context, mh_parameters_save(context, p, path));
    for (size_t save = 0; save < 2; save++) {
        mh_status status = MH_ERROR_MEMORY;
        for (size_t fail_at = 1; status != MH_OK && fail_at < 100; fail_at++) {
            scarce s = {0};
            const mh_context_options options = scarce_options(&s);
            mh_context *poor;
            assert_int_equal(mh_context_create(&options, &poor, NULL, 0), MH_OK);
            s.fail_at = s.calls + fail_at;
            status = save ? mh_parameters_save(poor, p, other_path)
                          : mh_parameters_load(poor, p, path, NULL);
            assert_true(status == MH_OK || status == MH_ERROR_MEMORY);
            mh_context_free(poor);
            assert_int_equal(s.live, 0);
        }
        assert_int_equal(status, MH_OK);
    }
    mh_mha_free(mha);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(round_trips),      cmocka_unit_test(dtypes),
        cmocka_unit_test(aliases),          cmocka_unit_test(separate_widths),
        cmocka_unit_test(interleaved),      cmocka_unit_test(in_out),
        cmocka_unit_test(refusals),         cmocka_unit_test(refused_aliases),
        cmocka_unit_test(many_problems),    cmocka_unit_test(not_strict),
        cmocka_unit_test(memory),           cmocka_unit_test(many_tensors),
        cmocka_unit_test(parts_round_trip), cmocka_unit_test(parts_refused),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
