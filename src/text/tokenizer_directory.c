// SPDX-License-Identifier: MIT
// The tokenizer of a model's directory, whatever its files: the first format of a list whose files
// are there, and then special tokens from the settings.
#include "base/argument_check.h"
#include "support/directory.h"
#include "support/file.h"
#include "support/find_file.h"
#include "text/tokenizer_files.h"
#include "text/tokenizer_json.h"
#include "text/tokenizer_sentencepiece.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>

#define CHECK(status, call)                                                                        \
    do {                                                                                           \
        if ((status) == MH_OK)                                                                     \
            (status) = (call);                                                                     \
    } while (0)

// ---- files --------------------------------------------------------------------------------------

typedef struct opened {
    char path[MH_PATH_BYTES];
    mh_mapping mapping;
    mh_source source;
} opened;

static mh_status tokenizer_directory_open_file(mh_context *context, const char *directory,
                                               const char *name, opened *o)
{
    mh_status status = mh_path_join(context, directory, name, o->path);
    o->mapping = (mh_mapping){NULL, 0};
    CHECK(status, mh_file_map(context, o->path, &o->mapping));
    o->source = (mh_source){context, o->path, o->mapping.data, o->mapping.size};
    return status;
}

// The JSON of a file that may be missing.
static mh_status load_settings(mh_context *context, const char *directory, const char *name,
                               opened *o, json_t **root)
{
    *root = NULL;
    if (!mh_has_file(directory, name))
        return MH_OK;
    mh_status status = tokenizer_directory_open_file(context, directory, name, o);
    CHECK(status, mh_tokenizer_json_tree(&o->source, root));
    mh_file_unmap(&o->mapping);
    return status;
}

// ---- settings -----------------------------------------------------------------------------------

bool mh_setting(const mh_tokenizer_settings *s, const char *name, bool otherwise)
{
    const json_t *value = json_object_get(s->tokenizer, name);
    return json_is_boolean(value) ? json_is_true(value) : otherwise;
}

static bool contains(const char *text, const char *word)
{
    const size_t length = strlen(word);
    for (; text && *text; text++) {
        size_t i = 0;
        while (i < length && text[i] && tolower((unsigned char)text[i]) == word[i])
            i++;
        if (i == length)
            return true;
    }
    return false;
}

bool mh_setting_is(const mh_tokenizer_settings *s, const char *word)
{
    return contains(json_string_value(json_object_get(s->tokenizer, "tokenizer_class")), word) ||
           contains(json_string_value(json_object_get(s->model, "model_type")), word);
}

// "[PAD]", or an object with that as its content.
static const char *name_of(const json_t *settings, const char *member)
{
    const json_t *value = json_object_get(settings, member);
    return json_string_value(json_is_object(value) ? json_object_get(value, "content") : value);
}

static void set_roles(mh_tokenizer *t, const mh_tokenizer_settings *s)
{
    static const char *const members[MH_ROLE_COUNT] = {
        "pad_token", "bos_token", "eos_token", "unk_token", "cls_token", "sep_token", "mask_token"};
    for (size_t role = 0; role < MH_ROLE_COUNT; role++) {
        const char *name = name_of(s->tokenizer, members[role]);
        if (!name)
            name = name_of(s->specials, members[role]);
        size_t id = name ? mh_tokenizer_find_name(t, name, strlen(name)) : SIZE_MAX;
        if (id != SIZE_MAX)
            t->roles[role] = (int32_t)id;
    }
}

// {"50256": {"content": "<|endoftext|>", "special": true, ...}, ...}
mh_status mh_read_added_settings(const mh_build *b, const mh_tokenizer_settings *s)
{
    json_t *list = json_object_get(s->tokenizer, "added_tokens_decoder"), *entry;
    const char *id;
    json_object_foreach(list, id, entry)
    {
        const char *content = json_string_value(json_object_get(entry, "content"));
        const mh_added_token settings = {
            .left = json_is_true(json_object_get(entry, "lstrip")),
            .right = json_is_true(json_object_get(entry, "rstrip")),
            .single_word = json_is_true(json_object_get(entry, "single_word")),
            .normalized = json_is_true(json_object_get(entry, "normalized")),
            .special = json_is_true(json_object_get(entry, "special"))};
        char *end;
        long number = strtol(id, &end, 10);
        if (!content || *end != '\0' || number < 0)
            return mh_source_fail(b->source, MH_ERROR_FORMAT,
                                  "tokenizer_config.json: added_tokens_decoder: %s: expected an id "
                                  "and an object with its content",
                                  mh_quote_string(id).text);
        mh_status status = mh_build_added(b, number, (mh_text){content, strlen(content)}, settings);
        if (status != MH_OK)
            return status;
    }
    return MH_OK;
}

// ---- formats ------------------------------------------------------------------------------------

typedef struct job {
    mh_context *context;
    const char *directory;
    mh_tokenizer_settings settings;
    opened *first, *second;
} job;

// Each reads its files into an empty tokenizer.
static mh_status read_vocab_txt(const job *j, const char *name, mh_tokenizer *t)
{
    mh_status status = tokenizer_directory_open_file(j->context, j->directory, name, j->first);
    CHECK(status, mh_read_vocab_txt(&(mh_build){&j->first->source, t}, &j->settings));
    CHECK(status, mh_build_finish(&(mh_build){&j->first->source, t}));
    return status;
}

static mh_status read_marian_pair(const job *j, const char *vocabulary, const char *name,
                                  mh_tokenizer *t)
{
    mh_status status =
        tokenizer_directory_open_file(j->context, j->directory, vocabulary, j->first);
    CHECK(status, tokenizer_directory_open_file(j->context, j->directory, name, j->second));
    CHECK(status, mh_read_marian(&(mh_build){&j->first->source, t}, &j->second->source));
    CHECK(status, mh_build_finish(&(mh_build){&j->first->source, t}));
    return status;
}

static mh_status read_marian(const job *j, const char *name, mh_tokenizer *t)
{
    return read_marian_pair(j, "vocab.json", name, t);
}

static mh_status tokenizer_directory_read_merges(const job *j, const char *name, mh_tokenizer *t)
{
    mh_status status =
        tokenizer_directory_open_file(j->context, j->directory, "vocab.json", j->first);
    CHECK(status, tokenizer_directory_open_file(j->context, j->directory, name, j->second));
    CHECK(status, mh_read_vocab_merges(&(mh_build){&j->first->source, t}, &j->second->source,
                                       &j->settings));
    CHECK(status, mh_build_finish(&(mh_build){&j->first->source, t}));
    return status;
}

static mh_status read_tiktoken(const job *j, const char *name, mh_tokenizer *t)
{
    mh_status status = tokenizer_directory_open_file(j->context, j->directory, name, j->first);
    CHECK(status, mh_read_tiktoken(&(mh_build){&j->first->source, t}));
    CHECK(status, mh_build_finish(&(mh_build){&j->first->source, t}));
    return status;
}

// Families that number SentencePiece's pieces their own way.
static mh_status check_numbering(const job *j, const mh_source *source)
{
    static const char *const other[] = {"xlm-roberta", "xlmroberta", "camembert",
                                        "mbart",       "nllb",       "pegasus"};
    for (size_t i = 0; i < sizeof other / sizeof *other; i++)
        if (mh_setting_is(&j->settings, other[i]))
            return mh_source_fail(source, MH_ERROR_FORMAT,
                                  "the ids of %s are not those of this file: expected a "
                                  "tokenizer.json",
                                  other[i]);
    return MH_OK;
}

static int32_t piece_of(const mh_tokenizer *t, const mh_tokenizer_settings *s, const char *member,
                        const char *usual)
{
    const char *name = name_of(s->tokenizer, member);
    return mh_tokenizer_id(t, name ? name : usual, strlen(name ? name : usual));
}

static mh_status read_spm(const job *j, const char *name, mh_tokenizer *t)
{
    mh_sp_model model = {0};
    const mh_build b = {&j->first->source, t};
    mh_status status = tokenizer_directory_open_file(j->context, j->directory, name, j->first);
    CHECK(status, check_numbering(j, b.source));
    CHECK(status, mh_sp_read(b.source, &model));
    CHECK(status, mh_sp_build(&b, &model));
    mh_sp_free(j->context, &model);
    if (status != MH_OK)
        return status;
    bool t5 = mh_setting_is(&j->settings, "t5");
    bool with_bos = mh_setting(&j->settings, "add_bos_token", mh_setting_is(&j->settings, "llama"));
    bool with_eos = mh_setting(&j->settings, "add_eos_token", t5);
    int32_t bos = with_bos ? piece_of(t, &j->settings, "bos_token", "<s>") : -1;
    int32_t eos = with_eos ? piece_of(t, &j->settings, "eos_token", "</s>") : -1;
    CHECK(status, mh_build_templates(&b, bos, eos, t5 ? -1 : bos, !t5));
    CHECK(status, mh_build_finish(&b));
    return status;
}

static const struct format {
    const char *name, *ending, *with; // a file of this name, or with this ending; and this one
    mh_status (*read)(const job *j, const char *name, mh_tokenizer *t);
} formats[] = {
    {"vocab.txt", NULL, NULL, read_vocab_txt},
    {"source.spm", NULL, "vocab.json", read_marian},
    {"merges.txt", NULL, "vocab.json", tokenizer_directory_read_merges},
    {NULL, ".model", NULL, read_spm},
    {NULL, ".spm", NULL, read_spm},
    {NULL, ".tiktoken", NULL, read_tiktoken},
};

static mh_status tokenizer_directory_read_format(const job *j, mh_tokenizer **tokenizer)
{
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++) {
        const struct format *f = &formats[i];
        char found[MH_NAME_BYTES];
        const char *name = f->name ? f->name : found;
        if (!(f->name ? mh_has_file(j->directory, f->name)
                      : mh_find_ending(j->directory, f->ending, found)) ||
            (f->with && !mh_has_file(j->directory, f->with)))
            continue;
        mh_tokenizer *t = mh_tokenizer_create(j->context);
        mh_status status = t ? f->read(j, name, t) : MH_ERROR_MEMORY;
        if (status == MH_OK)
            *tokenizer = t;
        else
            mh_tokenizer_free(t);
        return status;
    }
    return mh_fail(
        j->context, MH_ERROR_FILE,
        "%.700s: no tokenizer: expected tokenizer.json, vocab.txt, source.spm, vocab.json "
        "and merges.txt, *.model, *.spm or *.tiktoken",
        j->directory);
}

static mh_status tokenizer_directory_load(const job *j, mh_tokenizer **tokenizer)
{
    if (!mh_has_file(j->directory, "tokenizer.json"))
        return tokenizer_directory_read_format(j, tokenizer);
    mh_status status =
        tokenizer_directory_open_file(j->context, j->directory, "tokenizer.json", j->first);
    CHECK(status, mh_tokenizer_parse(j->context, j->first->path, j->first->mapping.data,
                                     j->first->mapping.size, tokenizer));
    return status;
}

// Loads the settings, then a tokenizer by `load`, and gives its special tokens their roles.
static mh_status tokenizer_directory_run(mh_context *context, const char *path,
                                         mh_status (*load)(const job *j, mh_tokenizer **tokenizer),
                                         mh_tokenizer **tokenizer)
{
    opened *files = mh_alloc(context, 2 * sizeof *files);
    if (!files)
        return MH_ERROR_MEMORY;
    memset(files, 0, 2 * sizeof *files);
    job j = {.context = context, .directory = path, .first = &files[0], .second = &files[1]};
    mh_tokenizer_settings *s = &j.settings;
    mh_status status = load_settings(context, path, "tokenizer_config.json", files, &s->tokenizer);
    CHECK(status, load_settings(context, path, "special_tokens_map.json", files, &s->specials));
    CHECK(status, load_settings(context, path, "config.json", files, &s->model));
    CHECK(status, load(&j, tokenizer));
    if (status == MH_OK && !(*tokenizer)->own) {
        set_roles(*tokenizer, s);
        mh_build_roles(*tokenizer);
    }
    mh_file_unmap(&files[0].mapping);
    mh_file_unmap(&files[1].mapping);
    mh_free(context, files, 2 * sizeof *files);
    json_decref(s->tokenizer);
    json_decref(s->specials);
    json_decref(s->model);
    return status;
}

mh_status mh_tokenizer_load_directory(mh_context *context, const char *path,
                                      mh_tokenizer **tokenizer)
{
    if (tokenizer)
        *tokenizer = NULL;
    if (MH_NEED(context, {"path", path}, {"tokenizer", tokenizer}))
        return MH_ERROR_ARGUMENT;
    return tokenizer_directory_run(context, path, tokenizer_directory_load, tokenizer);
}

// ---- Marian's targets ---------------------------------------------------------------------------

static mh_status load_marian_target(const job *j, mh_tokenizer **tokenizer)
{
    const bool separate = mh_has_file(j->directory, "target_vocab.json");
    mh_tokenizer *t = mh_tokenizer_create(j->context);
    mh_status status = t ? MH_OK : MH_ERROR_MEMORY;
    CHECK(status,
          read_marian_pair(j, separate ? "target_vocab.json" : "vocab.json", "target.spm", t));
    if (status == MH_OK)
        *tokenizer = t;
    else
        mh_tokenizer_free(t);
    return status;
}

mh_status mh_tokenizer_load_target(mh_context *context, const char *directory,
                                   mh_tokenizer **tokenizer)
{
    *tokenizer = NULL;
    if (mh_has_file(directory, "tokenizer.json") || mh_has_file(directory, "vocab.txt") ||
        !mh_has_file(directory, "target.spm") || !mh_has_file(directory, "vocab.json"))
        return MH_OK;
    return tokenizer_directory_run(context, directory, load_marian_target, tokenizer);
}
