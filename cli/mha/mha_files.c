// SPDX-License-Identifier: MIT
// The files of `multihead mha -m`: a .safetensors file, or a directory in Hugging Face's layout:
//
//     DIRECTORY/  config.json                     the number of heads
//                 model.safetensors               the parameters, or
//                 model.safetensors.index.json    which file has which of them
//                 model-00001-of-00002.safetensors ...
#include "messages.h"
#include "mha.h"
#include "whole_file.h"

#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { CONFIG_LIMIT = 1 << 20, INDEX_LIMIT = 1 << 25 };

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

// ---- the parameters ---------------------------------------------------------------------------

// A file of another format, found in place of model.safetensors.
static int refuse_directory(const char *directory)
{
    static const char *const pickles[] = {"pytorch_model.bin", "pytorch_model.bin.index.json",
                                          "model.pt", "model.pth", NULL};
    for (const char *const *name = pickles; *name; name++) {
        char *path = join_path(directory, *name);
        const bool found = path && mha_is_file(path);
        free(path);
        if (found) {
            complain("--model %s: has no model.safetensors, only %s, a Python pickle, which is "
                     "not read because it may execute code; to convert it in Python: "
                     "safetensors.torch.save_file(torch.load(\"pytorch_model.bin\", "
                     "weights_only=True), \"model.safetensors\")",
                     directory, *name);
            return EXIT_INPUT;
        }
    }
    complain("--model %s: the directory has no model.safetensors", directory);
    return EXIT_INPUT;
}

// The file that has the parameters with the prefix; the first one if there are none.
static int choose_shard(const mha *m, json_t *map, const char *index, const char **shard)
{
    const char *name, *prefix = m->prefix ? m->prefix : "";
    json_t *value;
    *shard = NULL;
    json_object_foreach(map, name, value)
    {
        const char *file = json_string_value(value);
        if (!file || !*file || *file == '.' || strchr(file, '/')) {
            complain("--model: %s: weight_map, \"%.200s\": expected the name of a file next to it",
                     index, name);
            return EXIT_INPUT;
        }
        if (!*prefix || strncmp(name, prefix, strlen(prefix)) != 0)
            continue;
        if (*shard && strcmp(*shard, file) != 0) {
            complain("--model: %s: the parameters with --prefix %s are in %.200s and %.200s, "
                     "expected one file",
                     index, prefix, *shard, file);
            return EXIT_INPUT;
        }
        *shard = file;
    }
    if (!*shard)
        *shard = json_string_value(json_object_iter_value(json_object_iter(map)));
    return EXIT_DONE;
}

static int find_shard(mha *m, const char *index)
{
    int code;
    const char *shard = NULL;
    json_t *root = read_json(index, INDEX_LIMIT, &code);
    if (!root)
        return code;
    json_t *map = json_object_get(root, "weight_map");
    if (json_object_size(map) == 0) {
        complain("--model: %s: expected an object \"weight_map\" with names", index);
        code = EXIT_INPUT;
    }
    if (code == EXIT_DONE)
        code = choose_shard(m, map, index, &shard);
    if (code == EXIT_DONE)
        m->model_file = join_path(m->model, shard);
    json_decref(root);
    return code == EXIT_DONE && !m->model_file ? EXIT_MEMORY : code;
}

static int find_in_directory(mha *m)
{
    char *file = join_path(m->model, "model.safetensors");
    char *index = join_path(m->model, "model.safetensors.index.json");
    int code = file && index ? EXIT_DONE : EXIT_MEMORY;
    if (code == EXIT_DONE && mha_is_file(file)) {
        m->model_file = file;
        file = NULL;
    } else if (code == EXIT_DONE) {
        code = mha_is_file(index) ? find_shard(m, index) : refuse_directory(m->model);
    }
    free(file);
    free(index);
    return code;
}

// ---- the number of heads ----------------------------------------------------------------------

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

// config.json next to the file of the parameters.
static char *config_path(const char *file)
{
    const char *slash = strrchr(file, '/');
    char *directory = strndup(slash ? file : ".", slash ? (size_t)(slash - file) + 1 : 1);
    char *path = directory ? join_path(directory, "config.json") : NULL;
    free(directory);
    return path;
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

int mha_find_files(mha *m)
{
    int code = EXIT_DONE;
    if (is_directory(m->model)) {
        code = find_in_directory(m);
    } else {
        m->model_file = strdup(m->model);
        if (!m->model_file) {
            complain("--model: out of memory");
            code = EXIT_MEMORY;
        }
    }
    if (code != EXIT_DONE || m->config.num_heads)
        return code;
    if (access(m->model_file, F_OK) != 0) { // reported before a missing --heads
        complain("--model: %s: cannot be opened: %s", m->model_file, strerror(errno));
        return EXIT_INPUT;
    }
    return find_heads(m);
}
