// SPDX-License-Identifier: MIT
// The files of `multihead mha -m`: a file of tensors, or a directory in Hugging Face's layout:
//
//     DIRECTORY/  config.json                     the number of heads
//                 model.safetensors               the parameters, or
//                 model.safetensors.index.json    which file has which of them, or
//                 pytorch_model.bin ...           the same as PyTorch checkpoints
#include "layer.h"
#include "messages.h"
#include "model_path.h"
#include "whole_file.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { CONFIG_LIMIT = 1 << 20 };

static bool is_directory(const char *path)
{
    struct stat s;
    return stat(path, &s) == 0 && S_ISDIR(s.st_mode);
}

static bool mha_is_file(const char *path)
{
    struct stat s;
    return stat(path, &s) == 0 && S_ISREG(s.st_mode);
}

// The object in a JSON file, NULL with *code after reporting an error.
static json_t *read_json(const char *path, size_t limit, int *code)
{
    char *text = NULL;
    size_t size;
    json_error_t error;
    json_t *root = NULL;
    *code = whole_file_read("--model", path, limit, &text, &size);
    if (*code == EXIT_DONE) {
        root = json_loadb(text, size, JSON_REJECT_DUPLICATES, &error);
        if (!root)
            complain("--model: %s: line %d: %s", path, error.line, error.text);
        else if (!json_is_object(root))
            complain("--model: %s: expected a JSON object", path);
        if (!json_is_object(root)) {
            json_decref(root);
            root = NULL;
            *code = EXIT_INPUT;
        }
    }
    free(text);
    return root;
}

// ---- the parameters -----------------------------------------------------------------------------

static int find_in_directory(mha *m)
{
    static const char *const names[] = {"model.safetensors",
                                        "model.safetensors.index.json",
                                        "pytorch_model.bin",
                                        "pytorch_model.bin.index.json",
                                        "model.pt",
                                        "model.pth",
                                        NULL};
    for (const char *const *name = names; *name; name++) {
        char *path = join_path(m->model, *name);
        if (!path)
            return EXIT_MEMORY;
        if (mha_is_file(path)) {
            m->model_file = path;
            return EXIT_DONE;
        }
        free(path);
    }
    complain("--model %s: the directory has neither model.safetensors nor pytorch_model.bin",
             m->model);
    return EXIT_INPUT;
}

// ---- the number of heads ------------------------------------------------------------------------

// A size in the config under the first of these names that it has; *size stays if it has none.
static int mha_read_size(json_t *config, const char *const *names, const char *path, size_t *size)
{
    for (const char *const *name = names; *name; name++) {
        json_t *value = json_object_get(config, *name);
        if (!value || json_is_null(value))
            continue;
        const json_int_t number = json_integer_value(value);
        if (number < 1 || number > 1 << 20) {
            complain("--model: %s: %s: expected an integer from 1 to %d", path, *name, 1 << 20);
            return EXIT_INPUT;
        }
        *size = (size_t)number;
        return EXIT_DONE;
    }
    return EXIT_DONE;
}

// Models of several parts have a nested config for each.
static json_t *mha_part_of(json_t *config, const char *prefix)
{
    json_t *part =
        json_object_get(config, strstr(prefix, "vision") ? "vision_config" : "text_config");
    return json_is_object(part) ? part : config;
}

static int read_heads(mha *m, const char *path)
{
    static const char *const kv_names[] = {"num_key_value_heads", "num_kv_heads", "n_kv_heads",
                                           NULL};
    const char *prefix = m->prefix ? m->prefix : "";
    const char *const names[] = {"num_attention_heads",
                                 "n_head",
                                 "num_heads",
                                 "n_heads",
                                 "nhead",
                                 strstr(prefix, "decoder") ? "decoder_attention_heads"
                                                           : "encoder_attention_heads",
                                 NULL};
    int code;
    json_t *root = read_json(path, CONFIG_LIMIT, &code);
    if (!root)
        return code;
    json_t *config = mha_part_of(root, prefix);
    code = mha_read_size(config, names, path, &m->config.num_heads);
    if (code == EXIT_DONE && !m->config.kv_heads)
        code = mha_read_size(config, kv_names, path, &m->config.kv_heads);
    if (code == EXIT_DONE && !m->config.num_heads) {
        complain("--heads is missing, and %s does not have it (num_attention_heads, n_head or the "
                 "like)",
                 path);
        code = EXIT_USAGE;
    }
    json_decref(root);
    return code;
}

// Its path next to the file of the parameters.
static char *config_path(const char *file)
{
    const char *slash = strrchr(file, '/');
    char *directory = strndup(slash ? file : ".", slash ? (size_t)(slash - file) + 1 : 1);
    char *path = directory ? join_path(directory, "config.json") : NULL;
    free(directory);
    return path;
}

json_t *mha_read_config(const mha *m, int *code)
{
    char *path = config_path(m->model_file);
    json_t *root = NULL;
    *code = path ? EXIT_DONE : EXIT_MEMORY;
    if (path && mha_is_file(path))
        root = read_json(path, CONFIG_LIMIT, code);
    free(path);
    return root;
}

static int find_heads(mha *m)
{
    char *path = config_path(m->model_file);
    int code = path ? EXIT_DONE : EXIT_MEMORY;
    if (path && mha_is_file(path)) {
        code = read_heads(m, path);
    } else if (path) {
        complain("--heads is missing: it cannot be inferred from widths, and there is no %s", path);
        code = EXIT_USAGE;
    }
    free(path);
    return code;
}

static bool is_file_name(const char *path)
{
    static const char *const ends[] = {".safetensors", ".bin", ".pt", ".pth", ".gguf", ".json"};
    const char *end = strrchr(path, '.');
    for (size_t i = 0; end && i < sizeof ends / sizeof *ends; i++)
        if (strcmp(end, ends[i]) == 0)
            return true;
    return false;
}

// A name that is no file is that of an installed model.
static int find_by_name(mha *m)
{
    const char *name = m->model;
    if (access(name, F_OK) == 0 || is_file_name(name))
        return EXIT_DONE;
    const int code = model_path_find(name, &m->model_directory);
    if (code == EXIT_DONE)
        m->model = m->model_directory;
    return code;
}

int mha_find_files(mha *m)
{
    int code = find_by_name(m);
    if (code != EXIT_DONE)
        return code;
    if (is_directory(m->model)) {
        code = find_in_directory(m);
    } else {
        m->model_file = strdup(m->model);
        if (!m->model_file) {
            complain("--model: out of memory");
            code = EXIT_MEMORY;
        }
    }
    if (code != EXIT_DONE || m->config.num_heads || m->whole_model)
        return code;
    if (access(m->model_file, F_OK) != 0) { // reported before a missing --heads
        complain("--model: %s: cannot be opened: %s", m->model_file, strerror(errno));
        return EXIT_INPUT;
    }
    return find_heads(m);
}
