// SPDX-License-Identifier: MIT
// config.json: one object with exactly the members of mh_translator_config, so that no two programs
// read different models from it; the languages may be missing. The config.json of other programs is
// parsed far enough to name its origin.
#include "model/config_file.h"
#include "support/file.h"
#include "support/json_load.h"
#include "support/plain_numbers.h"
#include "text/tokenizer_rules.h"
#include <limits.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FORMAT_NAME "multihead translator"
enum {
    FORMAT_VERSION = 1,
    NUMBER_MAX = 1 << 24,
    TEXT_MAX = 4096,    // of what is written
    FILE_MAX = 1 << 18, // of what is read: those of other programs may list a thousand labels
    NESTING_MAX = 16,
};

// The members that are sizes.
static const struct {
    const char *name;
    size_t offset;
} sizes[] = {
    {"d_model", offsetof(mh_translator_config, d_model)},
    {"nhead", offsetof(mh_translator_config, nhead)},
    {"num_encoder_layers", offsetof(mh_translator_config, num_encoder_layers)},
    {"num_decoder_layers", offsetof(mh_translator_config, num_decoder_layers)},
    {"dim_feedforward", offsetof(mh_translator_config, dim_feedforward)},
    {"max_length", offsetof(mh_translator_config, max_length)},
};
enum { SIZES = sizeof sizes / sizeof *sizes, MEMBERS = SIZES + 5 };

// Those that may be missing: codes of languages.
static const struct {
    const char *name;
    size_t offset;
} languages[] = {
    {"source_language", offsetof(mh_translator_config, source_language)},
    {"target_language", offsetof(mh_translator_config, target_language)},
};
enum { LANGUAGES = sizeof languages / sizeof *languages };

static size_t *size_of(mh_translator_config *config, size_t i)
{
    return (size_t *)((char *)config + sizes[i].offset);
}

// ---- reading ------------------------------------------------------------------------------------

static mh_quoted config_file_describe(const json_t *value)
{
    mh_quoted number = {"nothing"};
    if (json_is_integer(value))
        snprintf(number.text, sizeof number.text, "%" JSON_INTEGER_FORMAT,
                 json_integer_value(value));
    else if (json_is_real(value))
        snprintf(number.text, sizeof number.text, "%g", json_real_value(value));
    return !value || json_is_number(value) ? number : mh_json_describe(value);
}

static mh_status need(const mh_source *source, const json_t *root, const char *name,
                      const char *what)
{
    return mh_source_fail(source, MH_ERROR_FORMAT, "\"%s\": found %s, expected %s", name,
                          config_file_describe(json_object_get(root, name)).text, what);
}

static mh_status config_file_read_format(const mh_source *source, const json_t *root)
{
    const char *format = json_string_value(json_object_get(root, "format"));
    const json_t *type = json_object_get(root, "model_type");
    if (!format && json_is_string(type))
        return mh_source_fail(
            source, MH_ERROR_FORMAT,
            "belongs to a Hugging Face model of type %s; expected one that `multihead "
            "train` writes (format \"" FORMAT_NAME "\")",
            config_file_describe(type).text);
    if (!format || strcmp(format, FORMAT_NAME) != 0)
        return need(source, root, "format", "\"" FORMAT_NAME "\"");
    const json_t *version = json_object_get(root, "version");
    if (!json_is_integer(version))
        return need(source, root, "version", "a number");
    if (json_integer_value(version) != FORMAT_VERSION)
        return mh_source_fail(source, MH_ERROR_FORMAT, "found version %lld, expected %d",
                              (long long)json_integer_value(version), FORMAT_VERSION);
    return MH_OK;
}

static mh_status config_file_read_activation(const mh_source *source, const json_t *root,
                                             mh_activation *activation)
{
    const char *name = json_string_value(json_object_get(root, "activation"));
    for (int kind = MH_RELU; name && kind <= MH_SILU; kind++)
        if (!strcmp(name, mh_activation_name((mh_activation)kind))) {
            *activation = (mh_activation)kind;
            return MH_OK;
        }
    return need(source, root, "activation", "relu, gelu, gelu_tanh or silu");
}

// *found counts those that are there.
static mh_status read_languages(const mh_source *source, const json_t *root,
                                mh_translator_config *config, size_t *found)
{
    for (size_t i = 0; i < LANGUAGES; i++) {
        const json_t *value = json_object_get(root, languages[i].name);
        const char *code = json_string_value(value);
        if (!value)
            continue;
        if (!code || strlen(code) < 2 || strlen(code) > 3 ||
            code[strspn(code, "abcdefghijklmnopqrstuvwxyz")])
            return need(source, root, languages[i].name, "two or three letters, such as \"fr\"");
        strcpy((char *)config + languages[i].offset, code);
        ++*found;
    }
    return MH_OK;
}

static mh_status read_members(const mh_source *source, const json_t *root,
                              mh_translator_config *config)
{
    if (!json_is_object(root))
        return mh_source_fail(source, MH_ERROR_FORMAT, "expected an object");
    mh_status status = config_file_read_format(source, root);
    for (size_t i = 0; i < SIZES && !status; i++) {
        const json_t *value = json_object_get(root, sizes[i].name);
        const json_int_t number = json_integer_value(value);
        if (!json_is_integer(value) || number < 1 || number > NUMBER_MAX)
            return need(source, root, sizes[i].name, "an integer from 1 to 16777216");
        *size_of(config, i) = (size_t)number;
    }
    const json_t *dropout = json_object_get(root, "dropout");
    const json_t *norm_first = json_object_get(root, "norm_first");
    if (!status && !json_is_number(dropout))
        status = need(source, root, "dropout", "a number");
    if (!status && !json_is_boolean(norm_first))
        status = need(source, root, "norm_first", "true or false");
    size_t members = MEMBERS;
    if (!status)
        status = read_languages(source, root, config, &members);
    if (!status && json_object_size(root) != members)
        status = mh_source_fail(source, MH_ERROR_FORMAT, "found %zu members, expected %zu",
                                json_object_size(root), members);
    config->dropout = (float)json_number_value(dropout);
    config->norm_first = json_is_true(norm_first);
    return status ? status : config_file_read_activation(source, root, &config->activation);
}

mh_status mh_config_parse(mh_context *context, const char *name, const void *bytes, size_t size,
                          mh_translator_config *config)
{
    const mh_source source = {context, name, bytes, size};
    mh_json_scan scan = {0};
    json_t *root = NULL;
    *config = mh_translator_config_default();
    if (size == 0 || size > FILE_MAX)
        return mh_source_fail(&source, MH_ERROR_FORMAT, "found %zu bytes, expected 1 to %d", size,
                              FILE_MAX);
    mh_status status = mh_json_scan_text(&source, "", bytes, size, NESTING_MAX, &scan);
    if (!status)
        status = mh_json_load(&source, "", bytes, size, &scan, &root);
    if (!status)
        status = read_members(&source, root, config);
    json_decref(root);
    return status;
}

mh_status mh_config_load(mh_context *context, const char *path, mh_translator_config *config)
{
    mh_mapping mapping;
    mh_status status = mh_file_map(context, path, &mapping);
    if (status)
        return status;
    status = mh_config_parse(context, path, mapping.data, mapping.size, config);
    mh_file_unmap(&mapping);
    return status;
}

// ---- writing ------------------------------------------------------------------------------------

// The fewest digits that round-trip: 0.1, not 0.100000001.
static const char *shortest(float number, char text[32])
{
    for (int digits = 1; digits <= 9; digits++) {
        snprintf(text, 32, "%.*g", digits, (double)number);
        if ((float)strtod(text, NULL) == number)
            break;
    }
    return text;
}

mh_status mh_config_save(mh_context *context, const char *path, const mh_translator_config *config)
{
    mh_translator_config own = *config;
    char text[TEXT_MAX], dropout[32];
    const mh_plain_numbers saved = mh_plain_numbers_enter();
    int size = snprintf(text, sizeof text, "{\n  \"format\": \"%s\",\n  \"version\": %d,\n",
                        FORMAT_NAME, FORMAT_VERSION);
    for (size_t i = 0; i < SIZES; i++)
        size += snprintf(text + size, sizeof text - (size_t)size, "  \"%s\": %zu,\n", sizes[i].name,
                         *size_of(&own, i));
    for (size_t i = 0; i < LANGUAGES; i++) {
        const char *code = (const char *)&own + languages[i].offset;
        if (*code)
            size += snprintf(text + size, sizeof text - (size_t)size, "  \"%s\": \"%.3s\",\n",
                             languages[i].name, code);
    }
    size += snprintf(text + size, sizeof text - (size_t)size,
                     "  \"activation\": \"%s\",\n  \"norm_first\": %s,\n  \"dropout\": %s\n}\n",
                     mh_activation_name(config->activation), config->norm_first ? "true" : "false",
                     shortest(config->dropout, dropout));
    mh_plain_numbers_leave(saved);
    return mh_file_replace(context, path, text, (size_t)size);
}
