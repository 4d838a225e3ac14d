// SPDX-License-Identifier: MIT
// The module of `multihead encoder` and `multihead decoder`: its sizes come from options, or from
// the names and shapes in a file, which may be a layer, a stack, or a whole nn.Transformer:
//
//     self_attn.in_proj_weight                    a layer
//     layers.0.self_attn.in_proj_weight           a stack; N layers.N. are its layers
//     encoder.layers.0.self_attn.in_proj_weight   a whole Transformer
#include "messages.h"
#include "model_path.h"
#include "stack.h"
#include "whole_file.h"

#include <jansson.h>
#include <multihead/io.h>
#include <multihead/model.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { CONFIG_LIMIT = 1 << 20, MOST_LAYERS = 4096 };

// ---- names in the file --------------------------------------------------------------------------

static bool stack_find(const mh_tensor_file *file, const char *prefix, const char *name,
                       mh_tensor *tensor)
{
    char full[512];
    size_t i;
    const int size = snprintf(full, sizeof full, "%s%s", prefix, name);
    return size > 0 && (size_t)size < sizeof full && mh_tensor_file_index(file, full, &i) &&
           mh_tensor_file_describe(file, i, tensor);
}

static bool has_layer(const mh_tensor_file *file, const char *prefix, size_t layer)
{
    char name[64];
    mh_tensor ignored;
    snprintf(name, sizeof name, "layers.%zu.self_attn.in_proj_weight", layer);
    return stack_find(file, prefix, name, &ignored);
}

// Sets the prefix of the module's names, and s->layers: 0 for a layer by itself.
static bool find_layers(stack *s, const mh_tensor_file *file, char prefix[128])
{
    const char *const given = s->prefix ? s->prefix : "";
    const char *const tried[] = {given, s->decoder ? "decoder." : "encoder.", NULL};
    mh_tensor ignored;
    for (const char *const *t = tried; *t && (t == tried || !s->prefix); t++) {
        snprintf(prefix, 128, "%s", *t);
        if (stack_find(file, prefix, "self_attn.in_proj_weight", &ignored))
            return true;
        while (s->layers < MOST_LAYERS && has_layer(file, prefix, s->layers))
            s->layers++;
        if (s->layers > 0)
            return true;
    }
    return false;
}

static int refuse_names(const stack *s, const mh_tensor_file *file)
{
    const char *name = mh_tensor_file_name(file, 0);
    complain("--model %s: no layers%s%s by the names of nn.Transformer%s: expected "
             "self_attn.in_proj_weight or layers.0.self_attn.in_proj_weight, found %s%s",
             s->model, s->prefix ? " with --prefix " : "", s->prefix ? s->prefix : "",
             s->decoder ? "Decoder" : "Encoder", name && *name ? name : "no such tensors",
             name && mh_tensor_file_name(file, 1) ? " ..." : "");
    return EXIT_INPUT;
}

// The other command, if the layers are of the other kind.
static int check_kind(const stack *s, const mh_tensor_file *file, const char *first)
{
    mh_tensor ignored;
    if (stack_find(file, first, "multihead_attn.in_proj_weight", &ignored) == s->decoder)
        return EXIT_DONE;
    complain(s->decoder ? "--model %s: these are layers of an encoder, without multihead_attn: "
                          "see multihead encoder"
                        : "--model %s: these are layers of a decoder, with multihead_attn: see "
                          "multihead decoder",
             s->model);
    return EXIT_INPUT;
}

// Of the layers' products, biases and norms aside.
static double count_weights(const stack *s)
{
    const double D = (double)s->config.d_model;
    return (s->layers ? (double)s->layers : 1) * D * (4 * D + 2 * (double)s->ffn);
}

static int stack_read_sizes(stack *s, const mh_tensor_file *file, char prefix[128])
{
    char first[160];
    mh_tensor t;
    if (!find_layers(s, file, prefix))
        return refuse_names(s, file);
    snprintf(first, sizeof first, "%s%s", prefix, s->layers ? "layers.0." : "");
    int code = check_kind(s, file, first);
    if (code != EXIT_DONE)
        return code;
    if (!stack_find(file, first, "linear1.weight", &t) || t.rank != 2 || mh_tensor_count(&t) == 0) {
        complain("--model %s: %slinear1.weight: expected a matrix (F, D)", s->model, first);
        return EXIT_INPUT;
    }
    s->ffn = t.shape[0];
    s->config.d_model = t.shape[1];
    s->config.bias = stack_find(file, first, "linear1.bias", &t);
    s->config.final_norm = s->layers && stack_find(file, prefix, "norm.weight", &t);
    if (s->config.d_model % s->config.nhead) {
        complain("--nhead: found %zu, expected a divisor of %zu, the width in --model %s",
                 s->config.nhead, s->config.d_model, s->model);
        return EXIT_USAGE;
    }
    if (s->shown_layer && s->shown_layer >= s->layers) {
        complain("--layer: found %zu, but the model has %zu, from 0", s->shown_layer,
                 s->layers ? s->layers : 1);
        return EXIT_USAGE;
    }
    return array_check_elements(s->model, file, count_weights(s), s->config.d_model);
}

// ---- creating -----------------------------------------------------------------------------------

static int create_module(stack *s)
{
    mh_transformer_config *c = &s->config;
    c->kind = s->decoder ? (s->layers ? MH_DECODER : MH_DECODER_LAYER)
                         : (s->layers ? MH_ENCODER : MH_ENCODER_LAYER);
    c->num_encoder_layers = c->num_decoder_layers = s->layers ? s->layers : 1;
    c->dim_feedforward = s->ffn ? s->ffn : 4 * c->d_model;
    s->ffn = c->dim_feedforward;
    mh_status status = mh_transformer_create(s->context, c, &s->module);
    return status == MH_OK ? EXIT_DONE : complain_status(s->context, status, NULL);
}

static int load_module(stack *s, const char *path)
{
    char prefix[128] = "";
    mh_tensor_file *file;
    mh_status status = mh_tensor_file_open(s->context, path, &file);
    if (status != MH_OK)
        return complain_status(s->context, status, "--model");
    int code = stack_read_sizes(s, file, prefix);
    mh_tensor_file_free(file);
    if (code == EXIT_DONE)
        code = create_module(s);
    if (code != EXIT_DONE)
        return code;
    mh_parameters_options options = mh_parameters_options_default();
    options.prefix = prefix;
    options.verify = !s->no_verify;
    status = mh_parameters_load(s->context, mh_transformer_parameters(s->module), path, &options);
    return status == MH_OK ? EXIT_DONE : complain_status(s->context, status, "--model");
}

// ---- a directory --------------------------------------------------------------------------------

static int use_activation(stack *s, const char *path, const json_t *value)
{
    const char *name = json_string_value(value);
    if (s->activation_given || !value)
        return EXIT_DONE;
    for (const choice *c = activation_choices; name && c->name; c++)
        if (strcmp(name, c->name) == 0) {
            s->config.activation = (mh_activation)c->value;
            return EXIT_DONE;
        }
    complain("--model %s: activation: found %s%.40s%s, expected relu, gelu, gelu_tanh or silu; "
             "--activation overrides it",
             path, name ? "'" : "", name ? name : "no text", name ? "'" : "");
    return EXIT_INPUT;
}

// The number of heads, the activation and the order of norms, which no shape tells, from a
// config.json that has them by PyTorch's names. Those that are given as options stay.
static int use_config(stack *s, const char *path, const json_t *config)
{
    const json_int_t heads = json_integer_value(json_object_get(config, "nhead"));
    if (!s->config.nhead && heads > 0 && heads <= 1 << 20)
        s->config.nhead = (size_t)heads;
    if (json_is_true(json_object_get(config, "norm_first")))
        s->config.norm_first = true;
    return use_activation(s, path, json_object_get(config, "activation"));
}

// A published model of a family: its layers are not those of torch.nn, whatever its config.json
// says.
static int refuse_family(const stack *s, const json_t *config)
{
    const char *family = json_string_value(json_object_get(config, "model_type"));
    if (!family || s->config.nhead)
        return EXIT_DONE;
    complain("--model %s: its layers are those of a '%.40s' model, and this command runs those of "
             "nn.Transformer%s; 'multihead mha -m %s --layer 0 --random 1x8 --trace' shows the "
             "attention of a layer, 'multihead look' what the heads attend to",
             s->model, family, s->decoder ? "Decoder" : "Encoder", s->model);
    return EXIT_INPUT;
}

static int parse_config(stack *s, const char *path, const char *text, size_t size)
{
    json_error_t error;
    json_t *config = json_loadb(text, size, JSON_REJECT_DUPLICATES, &error);
    int code = EXIT_INPUT;
    if (!config)
        complain("--model %s:%d: is not valid JSON: %s", path, error.line, error.text);
    else if ((code = refuse_family(s, config)) == EXIT_DONE)
        code = use_config(s, path, config);
    json_decref(config);
    return code;
}

static int read_directory_config(stack *s, const char *directory)
{
    char *path = join_path(directory, "config.json"), *text = NULL;
    size_t size;
    if (!path)
        return EXIT_MEMORY;
    int code = EXIT_DONE;
    if (access(path, F_OK) == 0)
        code = whole_file_read("--model", path, CONFIG_LIMIT, &text, &size);
    if (code == EXIT_DONE && text)
        code = parse_config(s, path, text, size);
    free(text);
    free(path);
    return code;
}

static int load_directory(stack *s, const char *directory)
{
    char *path = join_path(directory, "model.safetensors");
    int code = path ? read_directory_config(s, directory) : EXIT_MEMORY;
    if (code == EXIT_DONE && !s->config.nhead) {
        complain("--nhead is missing: it cannot be inferred from widths, and %s/config.json does "
                 "not have it",
                 directory);
        code = EXIT_USAGE;
    }
    if (code == EXIT_DONE)
        code = load_module(s, path);
    free(path);
    return code;
}

static bool stack_is_directory(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

// A name that is no file is that of an installed model.
static int load_model(stack *s)
{
    char *found = NULL;
    int code = EXIT_DONE;
    const bool named = access(s->model, F_OK) != 0 && !strchr(s->model, '.');
    if (named)
        code = model_path_find(s->model, &found);
    const char *path = found ? found : s->model;
    if (code == EXIT_DONE && stack_is_directory(path)) {
        code = load_directory(s, path);
    } else if (code == EXIT_DONE && !s->config.nhead) {
        complain("--nhead is missing: it cannot be inferred from widths");
        code = EXIT_USAGE;
    } else if (code == EXIT_DONE) {
        code = load_module(s, path);
    }
    free(found);
    return code;
}

int stack_make_module(stack *s)
{
    if (s->model)
        return load_model(s);
    int code = create_module(s);
    if (code == EXIT_DONE)
        mh_parameters_init(mh_transformer_parameters(s->module), s->seed);
    return code;
}

// ---- parameters ---------------------------------------------------------------------------------

mh_tensor stack_last_parameter(const stack *s, const char *name)
{
    const mh_parameters *all = mh_transformer_parameters(s->module);
    const mh_parameter *found = mh_parameters_find(all, name);
    return found ? mh_parameter_view(found, all->values) : (mh_tensor){.data = NULL};
}

mh_tensor stack_parameter(const stack *s, size_t layer, const char *name)
{
    char full[128];
    if (!s->layers)
        return stack_last_parameter(s, name);
    snprintf(full, sizeof full, "layers.%zu.%s", layer, name);
    return stack_last_parameter(s, full);
}
