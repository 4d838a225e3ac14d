// SPDX-License-Identifier: MIT
// A trained nn.Transformer as PyTorch saved it: ruaccent-predictor, which copies a Russian text
// letter by letter and marks the stressed vowels. Its checkpoint loads under PyTorch's names, and
// greedy decoding gives what the package gives. The model's directory is $MH_RUACCENT
// (tools/fetch_models.py ruaccent prints it); without it nothing is tested.
#include "support.h"

#include <jansson.h>
#include <multihead/model.h>

enum { D = 256, LENGTH = 256, PAD = 0, START = 1, END = 2, UNKNOWN = 3 };

typedef struct ruaccent {
    mh_context *context;
    mh_transformer *transformer;
    mh_tensor_file *file;
    mh_tensor embedding, positions; // (V, D), (LENGTH, D)
    mh_tensor weight, bias;         // (V, D), (V)
    json_t *vocabulary;
} ruaccent;

static const char *ruaccent_path(const char *name)
{
    static char path[1024];
    snprintf(path, sizeof path, "%s/%s", getenv("MH_RUACCENT"), name);
    return path;
}

static mh_tensor find_tensor(const ruaccent *m, const char *name)
{
    mh_tensor t;
    if (!mh_tensor_file_find(m->file, name, &t))
        fail_msg("no tensor %s", name);
    return t;
}

static void load_transformer(ruaccent *m)
{
    mh_transformer_config config = mh_transformer_config_default();
    mh_parameters_options options = mh_parameters_options_default();
    config.d_model = D;
    config.nhead = 8;
    config.num_encoder_layers = config.num_decoder_layers = 4;
    config.dim_feedforward = 1024;
    config.batch_first = true;
    options.prefix = "transformer.";
    test_ok(m->context, mh_transformer_create(m->context, &config, &m->transformer));
    test_ok(m->context, mh_parameters_load(m->context, mh_transformer_parameters(m->transformer),
                                           ruaccent_path("acc_model.pt"), &options));
}

static ruaccent open_ruaccent(size_t threads)
{
    ruaccent m = {.context = test_context(NULL, threads)};
    json_error_t error;
    load_transformer(&m);
    test_ok(m.context, mh_tensor_file_open(m.context, ruaccent_path("acc_model.pt"), &m.file));
    m.embedding = find_tensor(&m, "embed.char_embed.weight");
    const mh_tensor positions = find_tensor(&m, "embed.pos_encoding"); // (1, LENGTH, D)
    assert_int_equal(mh_tensor_count(&positions), LENGTH * D);
    m.positions = mh_tensor_2d(positions.data, MH_F32, LENGTH, D);
    m.weight = find_tensor(&m, "output_proj.weight");
    m.bias = find_tensor(&m, "output_proj.bias");
    m.vocabulary = json_load_file(ruaccent_path("vocab.json"), 0, &error);
    if (!m.vocabulary)
        fail_msg("vocab.json: %s", error.text);
    assert_int_equal(json_object_size(m.vocabulary), m.embedding.shape[0]);
    return m;
}

static void close_ruaccent(ruaccent *m)
{
    json_decref(m->vocabulary);
    mh_tensor_file_free(m->file);
    mh_transformer_free(m->transformer);
    mh_context_free(m->context);
}

// ---- characters ---------------------------------------------------------------------------------

static size_t character_bytes(const char *s)
{
    const unsigned char first = (unsigned char)*s;
    return first < 0x80 ? 1 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
}

// The package pads every text to LENGTH, and attends to the padding.
static void encode_characters(const ruaccent *m, const char *text, int32_t ids[LENGTH])
{
    char character[8];
    size_t count = 0;
    ids[count++] = START;
    for (size_t bytes; *text; text += bytes) {
        bytes = character_bytes(text);
        snprintf(character, sizeof character, "%.*s", (int)bytes, text);
        const json_t *id = json_object_get(m->vocabulary, character);
        ids[count++] = id ? (int32_t)json_integer_value(id) : UNKNOWN;
    }
    ids[count++] = END;
    while (count < LENGTH)
        ids[count++] = PAD;
}

static const char *character_of(const ruaccent *m, int32_t id)
{
    const char *name;
    json_t *value;
    json_object_foreach(m->vocabulary, name,
                        value) if (json_integer_value(value) == id) return name;
    fail_msg("no character %d", (int)id);
    return "";
}

// ---- the model ----------------------------------------------------------------------------------

// x (count, D) = sqrt(D) embedding[ids] + positions from `first` on.
static void embed_characters(const ruaccent *m, int32_t *ids, size_t first, mh_tensor *x)
{
    const size_t count = x->shape[0];
    const mh_tensor indices = mh_tensor_1d(ids, MH_I32, count);
    const mh_tensor positions = mh_tensor_slice(m->positions, 0, first, count);
    test_ok(m->context, mh_embedding(m->context, &m->embedding, &indices, 16, x));
    test_ok(m->context, mh_add(m->context, x, &positions, x));
}

static mh_decoding *encode_text(const ruaccent *m, const char *text)
{
    static float memory[LENGTH * D], source[LENGTH * D];
    int32_t ids[LENGTH];
    mh_decoding *decoding;
    mh_tensor rows = mh_tensor_2d(source, MH_F32, LENGTH, D);
    mh_tensor x = mh_tensor_3d(source, MH_F32, 1, LENGTH, D);
    mh_tensor y = mh_tensor_3d(memory, MH_F32, 1, LENGTH, D);
    encode_characters(m, text, ids);
    embed_characters(m, ids, 0, &rows);
    test_ok(m->context, mh_transformer_encode(m->context, m->transformer, NULL, &x, &y));
    test_ok(m->context, mh_decoding_create(m->context, m->transformer, &y, NULL, 1, &decoding));
    return decoding;
}

static int32_t next_character(const ruaccent *m, mh_decoding *decoding, size_t position, int32_t id)
{
    float row[D], logits[1024];
    const size_t V = m->weight.shape[0];
    assert_in_range(V, 4, 1024);
    mh_tensor x = mh_tensor_2d(row, MH_F32, 1, D), t = mh_tensor_3d(row, MH_F32, 1, 1, D);
    mh_tensor y = mh_tensor_2d(logits, MH_F32, 1, V);
    mh_linear_options o = mh_linear_options_default();
    o.bias = &m->bias;
    embed_characters(m, &id, position, &x);
    test_ok(m->context, mh_decoding_step(m->context, decoding, NULL, 0, &t, &t));
    test_ok(m->context, mh_linear(m->context, &o, &x, &m->weight, &y));
    size_t best = 0;
    for (size_t v = 1; v < V; v++)
        best = logits[v] > logits[best] ? v : best;
    return (int32_t)best;
}

static void accentuate(const ruaccent *m, const char *text, char *out, size_t capacity)
{
    mh_decoding *decoding = encode_text(m, text);
    int32_t id = START;
    *out = 0;
    for (size_t i = 0; i < LENGTH; i++) {
        id = next_character(m, decoding, i, id);
        if (id == END)
            break;
        const size_t used = strlen(out);
        snprintf(out + used, capacity - used, "%s", character_of(m, id));
    }
    mh_decoding_free(decoding);
}

static void equal_texts(void **state)
{
    static const char *const texts[][2] = {
        {"В лесу родилась ёлочка", "В лесу' родила'сь ёлочка"},
        {"Мама мыла раму.", "Ма'ма мы'ла ра'му."},
        {"Привет, мир!", "Приве'т, мир!"},
        {"Я помню чудное мгновенье: передо мной явилась ты",
         "Я по'мню чудно'е мгнове'нье: пе'редо мной яви'лась ты"},
    };
    char found[2048];
    (void)state;
    for (size_t threads = 1; threads <= 2; threads++) {
        ruaccent m = open_ruaccent(threads);
        for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
            accentuate(&m, texts[i][0], found, sizeof found);
            assert_string_equal(found, texts[i][1]);
        }
        close_ruaccent(&m);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equal_texts),
    };
    if (!getenv("MH_RUACCENT")) {
        printf("test_ruaccent: skipped, MH_RUACCENT does not name the directory of "
               "ruaccent-predictor\n");
        return 0;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
