// SPDX-License-Identifier: MIT
// config.json of a published model: its family, and the family's keys to a description. Keys that
// no family names are ignored, as there are dozens that do not concern the computation.
#include "model/model_config.h"
#include "base/argument_check.h"
#include "base/compiler.h"
#include "model/config_file.h"
#include "model/json_file.h"
#include "model/model_internal.h"
#include "model/translator_internal.h"
#include "text/tokenizer_rules.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum {
    SIZE_VALUE_MAX = MH_MOST_TOKENS,
    LABELS_MAX = 1 << 16,
    PICTURE_MAX = 1 << 14,
    CHANNELS_MAX = 64
};

static mh_status need_object(const mh_json_file *file)
{
    if (json_is_object(file->root))
        return MH_OK;
    return mh_source_fail(&file->source, MH_ERROR_FORMAT, "found %s, expected an object",
                          mh_json_describe(file->root).text);
}

// ---- keys ---------------------------------------------------------------------------------------

mh_status mh_config_bad_value(const mh_source *source, const char *name, const json_t *value,
                              const char *expected)
{
    char number[40] = "nothing";
    if (json_is_integer(value))
        snprintf(number, sizeof number, "%" JSON_INTEGER_FORMAT, json_integer_value(value));
    else if (json_is_real(value))
        snprintf(number, sizeof number, "%g", json_real_value(value));
    return mh_source_fail(source, MH_ERROR_FORMAT, "\"%s\": found %s, expected %s", name,
                          !value || json_is_number(value) ? number : mh_json_describe(value).text,
                          expected);
}

static mh_status read_size(const mh_source *source, const mh_key *key, const json_t *value,
                           size_t *to)
{
    const json_int_t number = json_integer_value(value);
    const bool count = key->kind != MH_KEY_SIZE, none = count && json_is_null(value);
    if (!none && (!json_is_integer(value) || number < (count ? 0 : 1) || number > SIZE_VALUE_MAX))
        return mh_config_bad_value(source, key->name, value,
                                   count ? "an integer from 0 to 16777216"
                                         : "an integer from 1 to 16777216");
    *to = (size_t)number;
    return MH_OK;
}

static bool find_activation(const char *name, mh_activation *to)
{
    static const struct {
        const char *name;
        mh_activation kind;
    } names[] = {{"gelu", MH_GELU},
                 {"gelu_new", MH_GELU_TANH},
                 {"gelu_tanh", MH_GELU_TANH}, // mh_activation_name's
                 {"gelu_pytorch_tanh", MH_GELU_TANH},
                 // 0.5 x (1 + tanh(0.7978845608 x (1 + 0.044715 x^2))), which is the tanh form:
                 // that constant and sqrt(2 / pi) are the same float
                 {"gelu_fast", MH_GELU_TANH},
                 {"relu", MH_RELU},
                 {"silu", MH_SILU},
                 {"swish", MH_SILU},
                 {"tanh", MH_TANH}};
    for (size_t i = 0; name && i < sizeof names / sizeof *names; i++)
        if (strcmp(name, names[i].name) == 0) {
            *to = names[i].kind;
            return true;
        }
    return false;
}

static mh_status model_config_read_activation(const mh_source *source, const mh_key *key,
                                              const json_t *value, mh_activation *to)
{
    if (find_activation(json_string_value(value), to))
        return MH_OK;
    return mh_config_bad_value(source, key->name, value,
                               "gelu, gelu_new, gelu_pytorch_tanh, relu, silu or tanh");
}

static mh_status read_float(const mh_source *source, const mh_key *key, const json_t *value,
                            float *to)
{
    const double number = json_number_value(value); // 0 of null
    const bool inverse = key->kind == MH_KEY_INVERSE_ROOT;
    const bool none = json_is_null(value) && !inverse;
    if (!none && (!json_is_number(value) || !isfinite(number) || (inverse && number <= 0)))
        return mh_config_bad_value(source, key->name, value,
                                   inverse ? "a number above 0" : "a number");
    *to = (float)(inverse ? 1 / sqrt(number) : number);
    return MH_OK;
}

// T5's "gated-gelu" has meant the approximation by tanh since before there were names for both.
static mh_status read_feed_forward(const mh_source *source, const mh_key *key, const json_t *value,
                                   mh_block_config *to)
{
    static const char prefix[] = "gated-";
    const char *name = json_string_value(value);
    to->gated = name && strncmp(name, prefix, sizeof prefix - 1) == 0;
    if (to->gated && strcmp(name, "gated-gelu") == 0)
        name = "gated-gelu_new";
    if (find_activation(to->gated ? name + sizeof prefix - 1 : name, &to->activation))
        return MH_OK;
    return mh_config_bad_value(source, key->name, value, "relu, gated-gelu or another activation");
}

// CLIP's "quick_gelu" is x sigmoid(1.702 x): SiLU with a scale.
static mh_status read_scaled(const mh_source *source, const mh_key *key, const json_t *value,
                             mh_description *d)
{
    const char *name = json_string_value(value);
    const bool quick = name && strcmp(name, "quick_gelu") == 0;
    d->activation_scale = quick ? 1.702f : 1;
    if (find_activation(quick ? "silu" : name, &d->block.activation))
        return MH_OK;
    return mh_config_bad_value(source, key->name, value, "quick_gelu, gelu or another activation");
}

// A setting that only exists in one value here.
static mh_status check_is(const mh_source *source, const mh_key *key, const json_t *value)
{
    if (json_is_null(value) && strcmp(key->text, "false") == 0)
        return MH_OK;
    char *text = json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT);
    const bool same = text && strcmp(text, key->text) == 0;
    mh_status status = MH_OK;
    if (!text)
        status = mh_source_fail(source, MH_ERROR_MEMORY, "no memory for \"%s\"", key->name);
    else if (!same)
        status = mh_source_fail(source, MH_ERROR_UNSUPPORTED,
                                "\"%s\": found %s, and only %s is supported", key->name,
                                mh_quote_string(text).text, key->text);
    free(text);
    return status;
}

static mh_status read_key(const mh_source *source, const json_t *root, const mh_key *key,
                          mh_description *d)
{
    const json_t *value = json_object_get(root, key->name);
    void *to = (char *)d + key->offset;
    if (!value && !key->required)
        return MH_OK;
    switch (key->kind) {
    case MH_KEY_SIZE:
    case MH_KEY_COUNT:
        return read_size(source, key, value, to);
    case MH_KEY_TOKEN:
        return json_is_null(value) ? MH_OK : read_size(source, key, value, to);
    case MH_KEY_FLOAT:
    case MH_KEY_INVERSE_ROOT:
        return read_float(source, key, value, to);
    case MH_KEY_BOOL:
        if (!json_is_boolean(value))
            return mh_config_bad_value(source, key->name, value, "true or false");
        *(bool *)to = json_is_true(value);
        return MH_OK;
    case MH_KEY_ACTIVATION:
        return model_config_read_activation(source, key, value, to);
    case MH_KEY_FEED_FORWARD:
        return read_feed_forward(source, key, value, to);
    case MH_KEY_SCALED:
        return read_scaled(source, key, value, d);
    case MH_KEY_IS:
        return check_is(source, key, value);
    }
    return MH_OK;
}

// ---- labels -------------------------------------------------------------------------------------

// The label that id2label has for i, or one that Hugging Face would make up.
static const char *label_of(const json_t *names, size_t i, char made[32])
{
    char key[24];
    snprintf(key, sizeof key, "%zu", i);
    const char *name = json_string_value(json_object_get(names, key));
    snprintf(made, 32, "LABEL_%zu", i);
    return name ? name : made;
}

static mh_status read_labels(const mh_source *source, const json_t *root, mh_model *model)
{
    const json_t *names = json_object_get(root, "id2label");
    const json_t *number = json_object_get(root, "num_labels");
    const size_t count = json_is_object(names)     ? json_object_size(names)
                         : json_is_integer(number) ? (size_t)json_integer_value(number)
                                                   : 2;
    char made[32];
    if (count < 1 || count > LABELS_MAX)
        return mh_config_bad_value(source, "id2label", names, "1 to 65536 labels");
    size_t bytes = count * sizeof(char *);
    for (size_t i = 0; i < count; i++)
        bytes += strlen(label_of(names, i, made)) + 1;
    char **labels = mh_alloc(source->context, bytes);
    if (!labels)
        return MH_ERROR_MEMORY;
    char *at = (char *)(labels + count);
    for (size_t i = 0; i < count; i++) {
        const char *label = label_of(names, i, made);
        const size_t size = strlen(label) + 1;
        labels[i] = memcpy(at, label, size);
        at += size;
    }
    model->labels = labels;
    model->label_bytes = bytes;
    model->description.labels = count;
    return MH_OK;
}

// ---- config.json --------------------------------------------------------------------------------

static void set_defaults(mh_description *d)
{
    *d = (mh_description){.block = mh_block_config_default(),
                          .windowed = true,
                          .rotary = {{.base = 10000, .part = 1}, {.base = 10000, .part = 1}},
                          .decoder = mh_block_config_default(),
                          .lm_scale = 1,
                          .frozen_token = SIZE_MAX,
                          .activation_scale = 1,
                          .pool_activation = MH_TANH,
                          .lm_activation = MH_GELU};
}

static mh_status read_family(const mh_source *source, const json_t *root, mh_model *model)
{
    const json_t *format = json_object_get(root, "format");
    const json_t *type = format ? format : json_object_get(root, "model_type");
    const json_t *architecture = json_array_get(json_object_get(root, "architectures"), 0);
    if (!json_is_string(type))
        return mh_config_bad_value(source, "model_type", type, "the name of a model family");
    model->family = mh_family_find(json_string_value(type));
    if (!model->family || model->family->own != (format != NULL))
        return mh_source_fail(source, MH_ERROR_UNSUPPORTED,
                              "\"model_type\": found %s, which is not one of: %s",
                              mh_quote_string(json_string_value(type)).text, mh_family_names());
    snprintf(model->architecture, sizeof model->architecture, "%s",
             json_is_string(architecture) ? json_string_value(architecture) : "");
    return MH_OK;
}

static mh_status check_description(const mh_source *source, const mh_description *d)
{
    const size_t most = d->layers > d->decoder_layers ? d->layers : d->decoder_layers;
    if (most > MH_MOST_LAYERS)
        return mh_source_fail(source, MH_ERROR_FORMAT, "found %zu layers, expected at most %d",
                              most, MH_MOST_LAYERS);
    if (d->block.d_model % d->block.num_heads && !d->block.head_dim)
        return mh_source_fail(source, MH_ERROR_FORMAT,
                              "found %zu heads for a width of %zu, expected a divisor",
                              d->block.num_heads, d->block.d_model);
    if (d->decoder_layers && d->decoder.num_heads != d->block.num_heads)
        return mh_source_fail(source, MH_ERROR_UNSUPPORTED,
                              "found %zu heads in the encoder and %zu in the decoder, and only as "
                              "many in both are supported",
                              d->block.num_heads, d->decoder.num_heads);
    const mh_vision *v = &d->vision;
    if (v->image && (v->patch > v->image || v->image > PICTURE_MAX || v->channels > CHANNELS_MAX))
        return mh_source_fail(source, MH_ERROR_FORMAT,
                              "found pictures of size %zu in patches of %zu with %zu channels, "
                              "expected patches within pictures of at most %d and at most %d "
                              "channels",
                              v->image, v->patch, v->channels, PICTURE_MAX, CHANNELS_MAX);
    if (d->positions && d->positions <= d->position_offset)
        return mh_source_fail(source, MH_ERROR_FORMAT,
                              "found %zu positions, expected more than %zu", d->positions,
                              d->position_offset);
    return MH_OK;
}

mh_status mh_config_read_description(const mh_source *source, const json_t *root, mh_model *model)
{
    mh_description *d = &model->description;
    set_defaults(d);
    if (!model->family)
        MH_TRY(read_family(source, root, model));
    const char *section = model->family->section;
    const json_t *keys = section ? json_object_get(root, section) : root;
    model->family->defaults(d);
    for (const mh_key *key = model->family->keys; key->name; key++)
        MH_TRY(read_key(source, keys, key, d));
    if (model->family->finish)
        model->family->finish(d);
    if (!d->block.dim_feedforward)
        d->block.dim_feedforward = 4 * d->block.d_model;
    d->embedding_scale = d->scale_embedding ? (float)sqrt((double)d->block.d_model) : 1;
    MH_TRY(check_description(source, d));
    MH_TRY(mh_config_read_layer_types(source, keys, d));
    if (d->block.rope)
        MH_TRY(mh_config_read_rotary(source, keys, d));
    return read_labels(source, root, model);
}

// A translator of ours: what mh_translator_load refuses is refused here, too.
static mh_status check_own(const mh_json_file *file)
{
    mh_context *context = file->source.context;
    mh_translator_config config, own;
    char message[256];
    MH_TRY(mh_config_load(context, file->source.name, &config));
    mh_status status = mh_translator_check_config(context, &config, &own);
    if (status != MH_ERROR_ARGUMENT)
        return status;
    snprintf(message, sizeof message, "%s", mh_error_message(context));
    return mh_source_fail(&file->source, MH_ERROR_FORMAT, "%s", message);
}

mh_status mh_model_read_config(mh_context *context, const char *directory, mh_model *model)
{
    char path[MH_PATH_BYTES];
    mh_json_file file;
    MH_TRY(mh_json_file_open(context, directory, "config.json", path, &file));
    mh_status status = need_object(&file);
    if (!status && json_object_get(file.root, "format"))
        status = check_own(&file);
    if (!status)
        status = mh_config_read_description(&file.source, file.root, model);
    mh_json_file_close(&file);
    return status;
}

// ---- sentence-transformers' files, and the tokenizer's limit ------------------------------------

static void read_pooling(const json_t *root, mh_model_info *info)
{
    static const struct {
        const char *key;
        mh_pooling pooling;
    } modes[] = {{"pooling_mode_cls_token", MH_POOLING_CLS},
                 {"pooling_mode_lasttoken", MH_POOLING_LAST},
                 {"pooling_mode_max_tokens", MH_POOLING_MAX},
                 {"pooling_mode_mean_tokens", MH_POOLING_MEAN}};
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++)
        if (json_is_true(json_object_get(root, modes[i].key)))
            info->pooling = modes[i].pooling;
}

// modules.json of sentence-transformers: a list of {"type":
// "sentence_transformers.models.Pooling"}. Its newer versions write other packages' names before
// the last dot.
static bool has_normalize_module(const json_t *modules)
{
    static const char name[] = ".Normalize";
    for (size_t i = 0; i < json_array_size(modules); i++) {
        const char *type = json_string_value(json_object_get(json_array_get(modules, i), "type"));
        const char *dot = type ? strrchr(type, '.') : NULL;
        if (dot && strcmp(dot, name) == 0)
            return true;
    }
    return false;
}

static void limit_length(const json_t *value, size_t *length)
{
    const json_int_t number = json_integer_value(value);
    if (json_is_integer(value) && number > 0 && (size_t)number < *length)
        *length = (size_t)number;
}

mh_status mh_model_read_settings(mh_context *context, const char *directory, mh_model *model)
{
    const mh_description *d = &model->description;
    mh_model_info *info = &model->info;
    char path[MH_PATH_BYTES];
    mh_json_file file;
    info->max_length = mh_model_longest(d);
    info->pooling = d->causal         ? MH_POOLING_LAST
                    : d->vision.image ? MH_POOLING_CLS
                                      : MH_POOLING_MEAN;
    if (model->gguf)
        return MH_OK;
    MH_TRY(mh_json_file_open_optional(context, directory, "1_Pooling/config.json", path, &file));
    if (file.root)
        read_pooling(file.root, info);
    mh_json_file_close(&file);
    MH_TRY(mh_json_file_open_optional(context, directory, "modules.json", path, &file));
    info->normalize = has_normalize_module(file.root);
    mh_json_file_close(&file);
    MH_TRY(
        mh_json_file_open_optional(context, directory, "sentence_bert_config.json", path, &file));
    const bool limited = file.root && json_object_get(file.root, "max_seq_length");
    if (limited)
        limit_length(json_object_get(file.root, "max_seq_length"), &info->max_length);
    mh_json_file_close(&file);
    MH_TRY(mh_json_file_open_optional(context, directory, "tokenizer_config.json", path, &file));
    if (file.root && !limited)
        limit_length(json_object_get(file.root, "model_max_length"), &info->max_length);
    mh_json_file_close(&file);
    return MH_OK;
}
