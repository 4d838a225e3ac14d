// SPDX-License-Identifier: MIT
// Metadata of a GGUF file as the keys of config.json; see gguf_config.h. What config.json says and
// GGUF leaves to the program that runs it (a tied head, biases, the size of the vocabulary) follows
// from the tensors.
#include "model/gguf_config.h"

#include "base/argument_check.h"
#include "base/compiler.h"
#include "support/file.h"
#include "support/find_file.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define PI 3.14159265358979323846

// ---- architectures ------------------------------------------------------------------------------

static const mh_gguf_architecture architectures[] = {
    {"llama", "llama", true, mh_gguf_gated_rules},
    {"qwen2", "qwen2", false, mh_gguf_gated_rules},
    {"qwen3", "qwen3", false, mh_gguf_gated_rules},
    {"gemma2", "gemma2", false, mh_gguf_gated_rules},
    {"gemma3", "gemma3_text", false, mh_gguf_gated_rules},
    {"gpt2", "gpt2", false, mh_gguf_fused_rules},
    {"gptneox", "gpt_neox", false, mh_gguf_fused_rules},
    {"bert", "bert", false, mh_gguf_bert_rules},
};

const mh_gguf_architecture *mh_gguf_architecture_of(const mh_tensor_file *file)
{
    const char *name = mh_tensor_file_metadata(file, "general.architecture");
    for (size_t i = 0; name && i < sizeof architectures / sizeof *architectures; i++)
        if (strcmp(name, architectures[i].name) == 0)
            return &architectures[i];
    return NULL;
}

// ---- the object ---------------------------------------------------------------------------------

typedef struct config_writer {
    mh_source source; // for messages
    const mh_tensor_file *file;
    const mh_gguf_architecture *architecture;
    json_t *root;
    bool failed; // out of memory
} config_writer;

static void put(config_writer *w, json_t *object, const char *key, json_t *value)
{
    w->failed |= json_object_set_new(object, key, value) != 0;
}

static void put_integer(config_writer *w, const char *key, int64_t number)
{
    put(w, w->root, key, json_integer(number));
}

// The value of "<architecture>.<name>"; `full` becomes that name.
static bool find_setting(const config_writer *w, const char *name, char full[128],
                         mh_gguf_value *value)
{
    snprintf(full, 128, "%s.%s", w->architecture->name, name);
    return mh_gguf_find(w->file, full, value);
}

static mh_status bad_setting(const config_writer *w, const char *full, const mh_gguf_value *value,
                             const char *expected)
{
    char text[64];
    const size_t size = mh_gguf_format(value, text, sizeof text);
    return mh_source_fail(&w->source, MH_ERROR_FORMAT,
                          "metadata \"%s\": found %s (%s), expected %s", full,
                          mh_gguf_type_name(value->type),
                          mh_quote(text, size < sizeof text ? size : sizeof text).text, expected);
}

// Some settings are arrays with a value for each layer, which are all the same here.
static mh_status one_value(const config_writer *w, const char *full, mh_gguf_value *value)
{
    if (value->type != MH_GGUF_ARRAY)
        return MH_OK;
    if (value->of == MH_GGUF_STRING || value->of == MH_GGUF_ARRAY || !value->count)
        return bad_setting(w, full, value, "a number, or one for each layer");
    const mh_gguf_value first = mh_gguf_element(value, 0);
    for (size_t i = 1; i < value->count; i++)
        if (memcmp(first.bytes, mh_gguf_element(value, i).bytes, first.size) != 0)
            return mh_source_fail(&w->source, MH_ERROR_UNSUPPORTED,
                                  "metadata \"%s\": differs between layers, which is not supported",
                                  full);
    *value = first;
    return MH_OK;
}

// A number or a boolean.
static json_t *as_json(const mh_gguf_value *value)
{
    int64_t integer;
    double number = 0;
    if (value->type == MH_GGUF_BOOL)
        return json_boolean(value->bytes[0]);
    if (mh_gguf_integer(value, &integer))
        return json_integer(integer);
    mh_gguf_number(value, &number);
    return json_real(number);
}

typedef struct setting {
    const char *name, *key; // of GGUF, of config.json
    bool required;
} setting;

static mh_status copy_setting(config_writer *w, const setting *s)
{
    char full[128];
    mh_gguf_value value = {0};
    if (!find_setting(w, s->name, full, &value)) {
        if (!s->required)
            return MH_OK;
        return mh_source_fail(&w->source, MH_ERROR_FORMAT, "metadata \"%s\" is missing", full);
    }
    MH_TRY(one_value(w, full, &value));
    double number = 0;
    if (value.type != MH_GGUF_BOOL && (!mh_gguf_number(&value, &number) || !isfinite(number)))
        return bad_setting(w, full, &value, "a number");
    if (s->required && !(number >= 1)) // sizes
        return bad_setting(w, full, &value, "an integer of at least 1");
    put(w, w->root, s->key, as_json(&value));
    return MH_OK;
}

static const setting usual_settings[] = {
    {"block_count", "num_hidden_layers", true},
    {"embedding_length", "hidden_size", true},
    {"feed_forward_length", "intermediate_size", true},
    {"attention.head_count", "num_attention_heads", true},
    {"attention.head_count_kv", "num_key_value_heads", false},
    {"attention.key_length", "head_dim", false},
    {"attention.layer_norm_rms_epsilon", "rms_norm_eps", false},
    {"attention.layer_norm_epsilon", "layer_norm_eps", false},
    {"attention.sliding_window", "sliding_window", false},
    {"context_length", "max_position_embeddings", true},
    {"rope.freq_base", "rope_theta", false},
    {"rope.freq_base_swa", "rope_local_base_freq", false},
    {"attn_logit_softcapping", "attn_logit_softcapping", false},
    {"final_logit_softcapping", "final_logit_softcapping", false},
    {"use_parallel_residual", "use_parallel_residual", false},
    {NULL, NULL, false},
};

static const setting gpt2_settings[] = {
    {"block_count", "n_layer", true},
    {"embedding_length", "n_embd", true},
    {"feed_forward_length", "n_inner", true},
    {"attention.head_count", "n_head", true},
    {"attention.layer_norm_epsilon", "layer_norm_epsilon", false},
    {"context_length", "n_positions", true},
    {NULL, NULL, false},
};

// ---- what follows from several ------------------------------------------------------------------

static int64_t integer_of(const config_writer *w, const char *key)
{
    return json_integer_value(json_object_get(w->root, key));
}

static bool has_tensor(const config_writer *w, const char *name)
{
    size_t i;
    return mh_tensor_file_index(w->file, name, &i);
}

static void put_rows(config_writer *w, const char *tensor, const char *key)
{
    size_t i;
    mh_tensor t;
    if (mh_tensor_file_index(w->file, tensor, &i) && mh_tensor_file_describe(w->file, i, &t) &&
        t.rank == 2 && t.shape[0] <= INT32_MAX)
        put_integer(w, key, (int64_t)t.shape[0]);
}

static void put_tensors(config_writer *w)
{
    put_rows(w, "token_embd.weight", "vocab_size");
    put_rows(w, "token_types.weight", "type_vocab_size");
    put(w, w->root, "tie_word_embeddings", json_boolean(!has_tensor(w, "output.weight")));
    if (strcmp(w->architecture->name, "llama") == 0) {
        put(w, w->root, "attention_bias", json_boolean(has_tensor(w, "blk.0.attn_q.bias")));
        put(w, w->root, "mlp_bias", json_boolean(has_tensor(w, "blk.0.ffn_up.bias")));
    }
}

// Widths of heads: one for all is what is supported.
static mh_status put_head_width(config_writer *w)
{
    char full[128];
    mh_gguf_value value;
    int64_t width = integer_of(w, "head_dim"), other;
    const int64_t heads = integer_of(w, "num_attention_heads");
    if (!width && heads > 0)
        put_integer(w, "head_dim", width = integer_of(w, "hidden_size") / heads);
    if (find_setting(w, "attention.value_length", full, &value) &&
        (!mh_gguf_integer(&value, &other) || other != width))
        return mh_source_fail(&w->source, MH_ERROR_UNSUPPORTED,
                              "metadata \"%s\": only %lld, the width of keys, is supported", full,
                              (long long)width);
    if (!find_setting(w, "rope.dimension_count", full, &value))
        return MH_OK;
    if (!mh_gguf_integer(&value, &other) || other < 1 || other > width)
        return bad_setting(w, full, &value, "an integer up to the width of a head");
    // half a value more than the part, so that its product with the width rounds down to it
    if (other < width)
        put(w, w->root, "partial_rotary_factor", json_real(((double)other + 0.5) / (double)width));
    return MH_OK;
}

// Gemma: 1 / scale^2 where the file has a scale; else the width of a head, or that of all heads in
// the largest model of both generations, which files do not tell.
static mh_status put_scale(config_writer *w)
{
    char full[128];
    mh_gguf_value value;
    double scale = 0;
    const int64_t layers = integer_of(w, "num_hidden_layers");
    const bool gemma2 = strcmp(w->architecture->name, "gemma2") == 0;
    const bool gemma3 = strcmp(w->architecture->name, "gemma3") == 0;
    if (!gemma2 && !gemma3)
        return MH_OK;
    if (find_setting(w, "attention.scale", full, &value)) {
        if (!mh_gguf_number(&value, &scale) || !(scale > 0) || !isfinite(1 / (scale * scale)))
            return bad_setting(w, full, &value, "a number above 0");
        put(w, w->root, "query_pre_attn_scalar", json_real(1 / (scale * scale)));
        return MH_OK;
    }
    const bool largest = layers == (gemma2 ? 46 : 62);
    const int64_t heads = integer_of(w, "num_attention_heads");
    put_integer(w, "query_pre_attn_scalar",
                largest && heads > 0 ? integer_of(w, "hidden_size") / heads
                                     : integer_of(w, "head_dim"));
    return MH_OK;
}

// One number for all layers, or true for each that is sliding.
static mh_status put_pattern(config_writer *w)
{
    char full[128];
    mh_gguf_value value;
    int64_t every;
    if (!find_setting(w, "attention.sliding_window_pattern", full, &value))
        return MH_OK;
    if (mh_gguf_integer(&value, &every)) {
        put_integer(w, "sliding_window_pattern", every);
        return MH_OK;
    }
    if (value.type != MH_GGUF_ARRAY || value.of != MH_GGUF_BOOL)
        return bad_setting(w, full, &value, "an integer or a boolean for each layer");
    json_t *types = json_array();
    for (size_t i = 0; i < value.count; i++)
        w->failed |= json_array_append_new(
            types, json_string(value.bytes[i] ? "sliding_attention" : "full_attention"));
    put(w, w->root, "layer_types", types);
    return MH_OK;
}

// ---- rotary scaling -----------------------------------------------------------------------------

// *number stays as it is if there is no such setting.
static mh_status read_setting(const config_writer *w, const char *name, double *number)
{
    char full[128];
    mh_gguf_value value;
    if (!find_setting(w, name, full, &value))
        return MH_OK;
    if (!mh_gguf_number(&value, number) || !isfinite(*number))
        return bad_setting(w, full, &value, "a number");
    return MH_OK;
}

static void put_scaling(config_writer *w, const char *type, double factor, double original)
{
    json_t *scaling = json_object();
    put(w, scaling, "rope_type", json_string(type));
    put(w, scaling, "factor", json_real(factor));
    if (original > 0)
        put(w, scaling, "original_max_position_embeddings", json_real(original));
    if (strcmp(type, "llama3") == 0) {
        put(w, scaling, "low_freq_factor", json_real(1));
        put(w, scaling, "high_freq_factor", json_real(4));
    }
    put(w, w->root, "rope_scaling", scaling);
}

// Llama 3's divisor of a frequency, with the numbers that all of its models have.
static double llama3_divisor(double frequency, double factor, double original)
{
    const double wavelength = 2 * PI / frequency, low = 1, high = 4;
    if (wavelength < original / high)
        return 1;
    if (wavelength > original / low)
        return factor;
    const double smooth = (original / wavelength - low) / (high - low);
    return 1 / ((1 - smooth) / factor + smooth);
}

// Files have Llama 3's scaling as a tensor of divisors. The rule that gives them is found again,
// and anything else refused.
static mh_status put_divisors(config_writer *w, const float *divisors, size_t count)
{
    double original = 8192, base = 10000, factor = 1;
    MH_TRY(read_setting(w, "rope.scaling.original_context_length", &original));
    MH_TRY(read_setting(w, "rope.freq_base", &base));
    for (size_t i = 0; i < count; i++)
        factor = fmax(factor, (double)divisors[i]);
    for (size_t i = 0; i < count; i++) {
        const double frequency = pow(base, -(double)i / (double)count);
        const double expected = llama3_divisor(frequency, factor, original);
        if (!(fabs((double)divisors[i] - expected) <= 1e-3 * expected))
            return mh_source_fail(&w->source, MH_ERROR_UNSUPPORTED,
                                  "tensor \"rope_freqs.weight\": value %zu is %g, and only those "
                                  "of Llama 3's rule (%g) are supported",
                                  i, (double)divisors[i], expected);
    }
    if (factor > 1)
        put_scaling(w, "llama3", factor, original);
    return MH_OK;
}

static mh_status read_divisors(config_writer *w)
{
    enum { MOST = 1024 };
    float divisors[MOST];
    size_t i;
    mh_tensor t;
    if (!mh_tensor_file_index(w->file, "rope_freqs.weight", &i))
        return MH_OK;
    mh_tensor_file_describe(w->file, i, &t);
    if (t.rank != 1 || t.shape[0] > MOST)
        return mh_source_fail(&w->source, MH_ERROR_FORMAT,
                              "tensor \"rope_freqs.weight\": expected up to %d values", MOST);
    mh_tensor to = mh_tensor_1d(divisors, MH_F32, t.shape[0]);
    MH_TRY(mh_tensor_file_read(w->source.context, w->file, i, &to));
    return put_divisors(w, divisors, t.shape[0]);
}

static mh_status put_rotary_scaling(config_writer *w)
{
    char full[128], text[32] = "none";
    mh_gguf_value value;
    double factor = 1, original = 0;
    MH_TRY(read_setting(w, "rope.scale_linear", &factor));
    MH_TRY(read_setting(w, "rope.scaling.factor", &factor));
    MH_TRY(read_setting(w, "rope.scaling.original_context_length", &original));
    if (find_setting(w, "rope.scaling.type", full, &value))
        text[mh_gguf_format(&value, text, sizeof text - 1) % sizeof text] = '\0';
    else if (factor > 1) // before there was a type
        snprintf(text, sizeof text, "linear");
    if (strcmp(text, "linear") == 0 || strcmp(text, "yarn") == 0) {
        put_scaling(w, text, factor, original);
        return MH_OK;
    }
    if (strcmp(text, "none") == 0)
        return read_divisors(w);
    return mh_source_fail(&w->source, MH_ERROR_UNSUPPORTED,
                          "metadata \"%s\": found %s, and only none, linear and yarn are supported",
                          full, mh_quote_string(text).text);
}

// ---- all of it ----------------------------------------------------------------------------------

// What is there and not supported.
static mh_status check_settings(const config_writer *w)
{
    char full[128];
    mh_gguf_value value;
    int64_t number = 0;
    if (find_setting(w, "expert_count", full, &value) && mh_gguf_integer(&value, &number) && number)
        return mh_source_fail(&w->source, MH_ERROR_UNSUPPORTED,
                              "metadata \"%s\": found %lld, and mixtures of experts are not "
                              "supported",
                              full, (long long)number);
    if (mh_gguf_find(w->file, "split.count", &value) && mh_gguf_integer(&value, &number) &&
        number > 1)
        return mh_source_fail(&w->source, MH_ERROR_UNSUPPORTED,
                              "is one of %lld parts of a model, which is not supported: merge them "
                              "with llama-gguf-split --merge",
                              (long long)number);
    return MH_OK;
}

static mh_status write_config(config_writer *w)
{
    const char *type = w->architecture->model_type;
    const bool gpt2 = strcmp(type, "gpt2") == 0;
    MH_TRY(check_settings(w));
    for (const setting *s = gpt2 ? gpt2_settings : usual_settings; s->name; s++)
        MH_TRY(copy_setting(w, s));
    if (strcmp(type, "llama") == 0 && json_object_get(w->root, "sliding_window"))
        type = "mistral";
    put(w, w->root, "model_type", json_string(type));
    put_tensors(w);
    if (gpt2 || strcmp(type, "bert") == 0)
        return MH_OK;
    MH_TRY(put_head_width(w));
    MH_TRY(put_scale(w));
    MH_TRY(put_pattern(w));
    return put_rotary_scaling(w);
}

static mh_status refuse_architecture(const config_writer *w)
{
    const char *name = mh_tensor_file_metadata(w->file, "general.architecture");
    char known[256] = "";
    for (size_t i = 0; i < sizeof architectures / sizeof *architectures; i++) {
        const size_t used = strlen(known);
        snprintf(known + used, sizeof known - used, "%s%s", i ? ", " : "", architectures[i].name);
    }
    if (!name)
        return mh_source_fail(&w->source, MH_ERROR_FORMAT,
                              "metadata \"general.architecture\" is missing");
    return mh_source_fail(&w->source, MH_ERROR_UNSUPPORTED,
                          "metadata \"general.architecture\": found %s, which is not one of: %s",
                          mh_quote_string(name).text, known);
}

mh_status mh_gguf_config(mh_context *context, const char *path, const mh_tensor_file *file,
                         json_t **config)
{
    config_writer w = {.source = {.context = context, .name = path}, .file = file};
    *config = NULL;
    w.architecture = mh_gguf_architecture_of(file);
    if (!w.architecture)
        return refuse_architecture(&w);
    w.root = json_object();
    mh_status status = write_config(&w);
    if (!status && (w.failed || !w.root))
        status = mh_source_fail(&w.source, MH_ERROR_MEMORY, "no memory for its settings");
    if (status)
        json_decref(w.root);
    else
        *config = w.root;
    return status;
}

void mh_gguf_pooling(const mh_tensor_file *file, mh_pooling *pooling)
{
    static const mh_pooling poolings[] = {MH_POOLING_MEAN, MH_POOLING_CLS, MH_POOLING_LAST};
    mh_gguf_value value;
    int64_t number;
    const config_writer w = {.file = file, .architecture = mh_gguf_architecture_of(file)};
    char full[128];
    if (find_setting(&w, "pooling_type", full, &value) && mh_gguf_integer(&value, &number) &&
        number >= 1 && number <= 3)
        *pooling = poolings[number - 1];
}

// ---- the file -----------------------------------------------------------------------------------

static bool ends_in_gguf(const char *path)
{
    static const char ending[] = ".gguf";
    const size_t size = strlen(path);
    return size >= sizeof ending && strcmp(path + size - (sizeof ending - 1), ending) == 0;
}

mh_status mh_gguf_locate(mh_context *context, const char *path, char file[MH_PATH_BYTES],
                         bool *found)
{
    char name[MH_NAME_BYTES];
    *found = ends_in_gguf(path);
    if (*found) {
        const int size = snprintf(file, MH_PATH_BYTES, "%s", path);
        return size < MH_PATH_BYTES ? MH_OK
                                    : mh_fail(context, MH_ERROR_FILE, "path of %d bytes", size);
    }
    if (mh_has_file(path, "config.json"))
        return MH_OK;
    const size_t count = mh_count_ending(path, ".gguf", name);
    *found = count == 1;
    if (count > 1)
        return mh_fail(context, MH_ERROR_FILE,
                       "%.700s: has %zu .gguf files, expected one; name the file, for example %s",
                       path, count, name);
    return *found ? mh_path_join(context, path, name, file) : MH_OK;
}
