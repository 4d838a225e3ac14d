// SPDX-License-Identifier: MIT
// Whether all ranks translate with the same model and options: what decides about the output, as a
// hash. Of published models the weights are packed for a level when they are loaded, so that the
// bytes of the files are compared, of those files that a model is loaded from.
#include "outputs.h"
#include "translate.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *const settings[] = {
    "config.json", "generation_config.json",  "tokenizer.json", "tokenizer_config.json",
    "merges.txt",  "special_tokens_map.json", "source.spm",     "target.spm",
    "vocab.json",  "target_vocab.json",       "spiece.model",   "sentencepiece.bpe.model",
    "vocab.txt",   "tokenizer.model",
};

// The first that is there has the weights, or names the files that have.
static const char *const weights[] = {
    "model.safetensors",
    "model.safetensors.index.json",
    "pytorch_model.bin",
    "pytorch_model.bin.index.json",
};

#define COUNT(array) (sizeof(array) / sizeof *(array))

// Continues *hash with a file's name and bytes. False if there is no such file.
static bool hash_file(const char *directory, const char *name, uint64_t *hash)
{
    enum { SIZE = 1 << 16 };
    char *path = join_path(directory, name);
    char *bytes = malloc(SIZE);
    FILE *file = path && bytes ? fopen(path, "rbe") : NULL;
    const bool found = file != NULL;
    if (found)
        *hash = ranks_hash(*hash, name, strlen(name));
    for (size_t n; file && (n = fread(bytes, 1, SIZE, file)) > 0;)
        *hash = ranks_hash(*hash, bytes, n);
    if (file)
        fclose(file);
    free(bytes);
    free(path);
    return found;
}

static bool has_ending(const char *name, const char *ending)
{
    const size_t size = strlen(name), length = strlen(ending);
    return size > length && strcmp(name + size - length, ending) == 0;
}

// Files in the order in which a directory has them: their hashes are added up.
static uint64_t hash_shards(const char *directory, const char *index)
{
    const char *ending = has_ending(index, ".bin.index.json") ? ".bin" : ".safetensors";
    uint64_t sum = 0;
    DIR *entries = opendir(directory);
    for (struct dirent *entry; entries && (entry = readdir(entries));) {
        uint64_t hash = 0;
        if (has_ending(entry->d_name, ending) && hash_file(directory, entry->d_name, &hash))
            sum += hash;
    }
    if (entries)
        closedir(entries);
    return sum;
}

static uint64_t hash_model(const char *directory)
{
    uint64_t hash = 0;
    size_t w = 0;
    for (size_t i = 0; i < COUNT(settings); i++)
        hash_file(directory, settings[i], &hash);
    while (w < COUNT(weights) && !hash_file(directory, weights[w], &hash))
        w++;
    if (w < COUNT(weights) && has_ending(weights[w], ".index.json")) {
        const uint64_t shards = hash_shards(directory, weights[w]);
        hash = ranks_hash(hash, &shards, sizeof shards);
    }
    return hash;
}

static uint64_t hash_options(const translate *t)
{
    const mh_translate_options *o = &t->options;
    const mh_translator_config *config = mh_translator_configuration(t->translator);
    const double numbers[] = {(double)t->loading.precision,
                              (double)o->beam,
                              (double)o->n_best,
                              o->length_penalty,
                              o->max_length_factor,
                              (double)o->alignment_layer,
                              (double)o->top_logprobs,
                              t->printing.alignment,
                              t->printing.json,
                              t->printing.scores,
                              t->target != NULL,
                              attention_wanted(&t->attention)};
    uint64_t hash = ranks_hash(0, numbers, sizeof numbers);
    if (t->disabled)
        hash = ranks_hash(hash, t->disabled, heads_count(config) * sizeof *t->disabled);
    return hash;
}

int translate_compare(const translate *t)
{
    int code = ranks_compare_levels(&t->ranks, t->context);
    if (code == EXIT_DONE)
        code = ranks_compare(&t->ranks, hash_model(t->model_directory), "another model");
    if (code == EXIT_DONE)
        code = ranks_compare(&t->ranks, hash_options(t), "other options");
    return code;
}
