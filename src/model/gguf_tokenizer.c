// SPDX-License-Identifier: MIT
// The tokenizer of a GGUF file: arrays of tokens, types, scores and merges, and a few flags.
#include "model/gguf_config.h"

#include "base/argument_check.h"
#include "base/compiler.h"
#include "base/overflow.h"

#include <string.h>

typedef struct vocabulary_reader {
    mh_source source; // for messages
    const mh_tensor_file *file;
    mh_vocabulary vocabulary;
    mh_text *tokens, *merges; // to be freed
    float *scores;
    int32_t *types;
} vocabulary_reader;

// ---- arrays -------------------------------------------------------------------------------------

static mh_status wrong_array(const vocabulary_reader *r, const char *key,
                             const mh_gguf_value *value, const char *expected, size_t count)
{
    char text[64];
    const size_t size = mh_gguf_format(value, text, sizeof text);
    return mh_source_fail(
        &r->source, MH_ERROR_FORMAT, "metadata \"%s\": found %s, expected an array of %zu %s", key,
        mh_quote(text, size < sizeof text ? size : sizeof text).text, count, expected);
}

// An array of strings, which are borrowed from the file; *strings stays NULL if there is none.
static mh_status read_strings(const vocabulary_reader *r, const char *key, mh_text **strings,
                              size_t *count)
{
    mh_gguf_value value;
    size_t at = 0;
    if (!mh_gguf_find(r->file, key, &value))
        return MH_OK;
    if (value.type != MH_GGUF_ARRAY || value.of != MH_GGUF_STRING)
        return wrong_array(r, key, &value, "strings", value.count);
    *strings = mh_alloc(r->source.context, value.count * sizeof **strings);
    if (!*strings)
        return MH_ERROR_MEMORY;
    *count = value.count;
    for (size_t i = 0; i < value.count; i++)
        (*strings)[i] = mh_gguf_next_string(&value, &at);
    return MH_OK;
}

// An array of as many elements of 4 bytes as there are tokens; *elements stays NULL if there is
// none.
static mh_status read_elements(const vocabulary_reader *r, const char *key, mh_gguf_type type,
                               void **elements)
{
    mh_gguf_value value;
    const size_t count = r->vocabulary.count;
    if (!mh_gguf_find(r->file, key, &value))
        return MH_OK;
    const bool fits = value.type == MH_GGUF_ARRAY && value.count == count &&
                      (value.of == type || (type == MH_GGUF_I32 && value.of == MH_GGUF_U32));
    if (!fits)
        return wrong_array(r, key, &value, type == MH_GGUF_F32 ? "f32" : "i32", count);
    *elements = mh_alloc(r->source.context, value.size);
    if (!*elements)
        return MH_ERROR_MEMORY;
    memcpy(*elements, value.bytes, value.size);
    return MH_OK;
}

// ---- settings -----------------------------------------------------------------------------------

static mh_status read_flag(const vocabulary_reader *r, const char *key, bool *flag)
{
    mh_gguf_value value;
    if (!mh_gguf_find(r->file, key, &value))
        return MH_OK;
    if (value.type != MH_GGUF_BOOL)
        return mh_source_fail(&r->source, MH_ERROR_FORMAT,
                              "metadata \"%s\": found %s, expected a boolean", key,
                              mh_gguf_type_name(value.type));
    *flag = value.bytes[0];
    return MH_OK;
}

// *id stays as it is if there is no such key.
static mh_status read_id(const mh_source *source, const mh_tensor_file *file, const char *key,
                         size_t tokens, int32_t *id)
{
    mh_gguf_value value;
    int64_t number = 0;
    if (!mh_gguf_find(file, key, &value))
        return MH_OK;
    if (!mh_gguf_integer(&value, &number) || number < 0 || (uint64_t)number >= tokens)
        return mh_source_fail(source, MH_ERROR_FORMAT,
                              "metadata \"%s\": found %s (%lld), expected a token from 0 to %zu",
                              key, mh_gguf_type_name(value.type), (long long)number, tokens - 1);
    *id = (int32_t)number;
    return MH_OK;
}

static bool is_llama3(const char *pre)
{
    return pre && (strcmp(pre, "llama-bpe") == 0 || strcmp(pre, "llama3") == 0 ||
                   strcmp(pre, "llama-v3") == 0);
}

static mh_status read_model(vocabulary_reader *r, const char *name)
{
    static const struct {
        const char *name;
        mh_vocabulary_model model;
    } models[] = {{"gpt2", MH_VOCABULARY_BYTE_LEVEL},
                  {"llama", MH_VOCABULARY_LLAMA},
                  {"bert", MH_VOCABULARY_BERT}};
    for (size_t i = 0; i < sizeof models / sizeof *models; i++)
        if (strcmp(name, models[i].name) == 0) {
            r->vocabulary.model = models[i].model;
            return MH_OK;
        }
    return mh_source_fail(&r->source, MH_ERROR_UNSUPPORTED,
                          "metadata \"tokenizer.ggml.model\": found %s, which is not one of: gpt2, "
                          "llama, bert",
                          mh_quote_string(name).text);
}

// Where a file does not say, a text begins with <s> in SentencePiece's vocabularies and Llama 3's.
static mh_status read_settings(vocabulary_reader *r)
{
    mh_vocabulary *v = &r->vocabulary;
    v->pre_tokenizer = mh_tensor_file_metadata(r->file, "tokenizer.ggml.pre");
    v->add_bos = v->model == MH_VOCABULARY_LLAMA || is_llama3(v->pre_tokenizer);
    MH_TRY(read_flag(r, "tokenizer.ggml.add_bos_token", &v->add_bos));
    MH_TRY(read_flag(r, "tokenizer.ggml.add_eos_token", &v->add_eos));
    MH_TRY(read_flag(r, "tokenizer.ggml.add_space_prefix", &v->add_space_prefix));
    MH_TRY(read_id(&r->source, r->file, "tokenizer.ggml.bos_token_id", v->count, &v->bos));
    MH_TRY(read_id(&r->source, r->file, "tokenizer.ggml.eos_token_id", v->count, &v->eos));
    MH_TRY(read_id(&r->source, r->file, "tokenizer.ggml.unknown_token_id", v->count, &v->unknown));
    return read_id(&r->source, r->file, "tokenizer.ggml.padding_token_id", v->count, &v->pad);
}

static mh_status read_vocabulary(vocabulary_reader *r, const char *model)
{
    mh_vocabulary *v = &r->vocabulary;
    void *scores = NULL, *types = NULL;
    MH_TRY(read_model(r, model));
    MH_TRY(read_strings(r, "tokenizer.ggml.tokens", &r->tokens, &v->count));
    if (!v->count)
        return mh_source_fail(&r->source, MH_ERROR_FORMAT,
                              "metadata \"tokenizer.ggml.tokens\" is missing or empty");
    MH_TRY(read_strings(r, "tokenizer.ggml.merges", &r->merges, &v->merge_count));
    mh_status status = read_elements(r, "tokenizer.ggml.scores", MH_GGUF_F32, &scores);
    r->scores = scores;
    if (!status)
        status = read_elements(r, "tokenizer.ggml.token_type", MH_GGUF_I32, &types);
    r->types = types;
    MH_TRY(status);
    v->tokens = r->tokens;
    v->merges = r->merges;
    v->scores = r->scores;
    v->types = r->types;
    return read_settings(r);
}

mh_status mh_gguf_tokenizer(mh_context *context, const char *path, const mh_tensor_file *file,
                            mh_tokenizer **tokenizer)
{
    const char *model = mh_tensor_file_metadata(file, "tokenizer.ggml.model");
    *tokenizer = NULL;
    if (!model || strcmp(model, "no_vocab") == 0 || strcmp(model, "none") == 0)
        return MH_OK;
    vocabulary_reader r = {.source = {.context = context, .name = path},
                           .file = file,
                           .vocabulary = mh_vocabulary_default()};
    mh_status status = read_vocabulary(&r, model);
    if (!status)
        status = mh_tokenizer_from_vocabulary(context, path, &r.vocabulary, tokenizer);
    const mh_vocabulary *v = &r.vocabulary;
    mh_free(context, r.tokens, v->count * sizeof *r.tokens);
    mh_free(context, r.merges, v->merge_count * sizeof *r.merges);
    mh_free(context, r.scores, v->count * sizeof *r.scores);
    mh_free(context, r.types, v->count * sizeof *r.types);
    return status;
}

mh_status mh_gguf_ends(mh_context *context, const char *path, const mh_tensor_file *file,
                       const mh_tokenizer *tokenizer, mh_token_list *ends)
{
    static const char *const keys[] = {"tokenizer.ggml.eot_token_id",
                                       "tokenizer.ggml.eom_token_id"};
    static const char *const names[] = {"<|eot_id|>", "<|eom_id|>",    "<|end_of_text|>",
                                        "<|im_end|>", "<|endoftext|>", "<end_of_turn>",
                                        "<|end|>"};
    const mh_source source = {.context = context, .name = path};
    for (size_t i = 0; i < sizeof keys / sizeof *keys && tokenizer; i++) {
        int32_t id = -1;
        MH_TRY(read_id(&source, file, keys[i], mh_tokenizer_size(tokenizer), &id));
        MH_TRY(mh_token_list_add(context, ends, id));
    }
    for (size_t i = 0; i < sizeof names / sizeof *names && tokenizer; i++)
        MH_TRY(mh_token_list_add(context, ends,
                                 mh_tokenizer_id(tokenizer, names[i], strlen(names[i]))));
    return MH_OK;
}
