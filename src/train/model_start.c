// SPDX-License-Identifier: MIT
// See model_start.h.
#include "train/model_start.h"

#include "base/compiler.h"
#include "base/size_math.h"
#include "model/json_file.h"
#include "model/token_rules.h"
#include "support/buffer.h"
#include "text/tokenizer.h"
#include "train/model_task.h"
#include <stdlib.h>

// ---- which models -------------------------------------------------------------------------------

static const char *const lm_types[] = {"gpt2",  "llama",  "mistral",     "qwen2",
                                       "qwen3", "gemma2", "gemma3_text", "gpt_neox"};

// Classifiers, and what they are in transformers.
static const struct {
    const char *type, *architecture;
} encoders[] = {
    {"bert", "BertForSequenceClassification"},
    {"distilbert", "DistilBertForSequenceClassification"},
    {"roberta", "RobertaForSequenceClassification"},
    {"xlm-roberta", "XLMRobertaForSequenceClassification"},
};

bool mh_model_start_is_lm(const char *type)
{
    bool found = false;
    for (size_t i = 0; type && i < sizeof lm_types / sizeof *lm_types; i++)
        found |= strcmp(type, lm_types[i]) == 0;
    return found;
}

const char *mh_model_start_classifier(const char *type)
{
    for (size_t i = 0; type && i < sizeof encoders / sizeof *encoders; i++)
        if (strcmp(type, encoders[i].type) == 0)
            return encoders[i].architecture;
    return NULL;
}

mh_status mh_model_start_refuse(mh_task_kind task, const mh_source *source, const json_t *root)
{
    static const char *const expected[] = {
        [MH_TASK_TRANSLATION] = "a translation starts from a translator that this program has made",
        [MH_TASK_LM] = "a language model starts from one of type gpt2, llama, mistral, qwen2, "
                       "qwen3, gemma2, gemma3_text or gpt_neox",
        [MH_TASK_CLASSIFICATION] = "a classifier starts from a model of type bert, distilbert, "
                                   "roberta or xlm-roberta"};
    const char *type = json_string_value(json_object_get(root, "model_type"));
    const bool translator = json_is_string(json_object_get(root, "format"));
    const char *task_of_it = translator                        ? "translation"
                             : mh_model_start_is_lm(type)      ? "lm"
                             : mh_model_start_classifier(type) ? "classification"
                                                               : NULL;
    const char *what = translator                    ? "a translator"
                       : !type                       ? ""
                       : strcmp(type, "marian") == 0 ? "marian (OPUS-MT)"
                                                     : type;
    return mh_source_fail(source, MH_ERROR_UNSUPPORTED, "%s; this %s%.40s%s%s", expected[task],
                          type || translator ? "is " : "has no model_type", what,
                          task_of_it ? ", for --task " : "", task_of_it ? task_of_it : "");
}

mh_status mh_model_start_check(mh_run *run)
{
    const char *directory = mh_run_origin(run);
    const size_t size = strlen(directory);
    const bool gguf = size > 5 && strcmp(directory + size - 5, ".gguf") == 0;
    char path[MH_PATH_BYTES];
    MH_TRY(mh_path_join(run->context, directory, "config.json", path));
    if (!gguf && mh_file_exists(path))
        return MH_OK;
    return mh_fail(run->context, gguf ? MH_ERROR_UNSUPPORTED : MH_ERROR_FILE,
                   "%.700s: training starts from a directory with config.json and weights in f32, "
                   "f16 or bf16%s",
                   directory, gguf ? ", not from a GGUF file" : "");
}

// ---- config.json --------------------------------------------------------------------------------

mh_status mh_model_start_set(mh_run *run, json_t *root, const char *name, json_t *value)
{
    if (value && json_object_set_new(root, name, value) == 0)
        return MH_OK;
    return mh_fail(run->context, MH_ERROR_MEMORY, "out of memory for config.json");
}

mh_status mh_model_start_set_dtype(mh_run *run, json_t *root)
{
    const bool bf16 = run->options->weights == MH_BF16;
    json_object_del(root, "dtype");
    return mh_model_start_set(run, root, "torch_dtype", json_string(bf16 ? "bfloat16" : "float32"));
}

// Whether all numbers of a JSON text that has been written are those of `root`.
static bool reads_back(const char *text, const json_t *root)
{
    json_t *again = json_loads(text, JSON_ALLOW_NUL, NULL);
    const bool equal = again && json_equal(again, root);
    json_decref(again);
    return equal;
}

// With the fewest digits of which all numbers are what they were: 1e-06, not 9.9999999999999995e-7.
static char *dump_shortest(const json_t *root)
{
    enum { DIGITS = 15, DIGITS_MOST = 17 };
    for (size_t digits = DIGITS;; digits++) {
        char *text =
            json_dumps(root, JSON_INDENT(2) | JSON_PRESERVE_ORDER | JSON_REAL_PRECISION(digits));
        if (!text || digits == DIGITS_MOST || reads_back(text, root))
            return text;
        free(text);
    }
}

mh_status mh_model_start_dump(mh_run *run, const json_t *root, mh_buffer *to)
{
    char *text = dump_shortest(root);
    const bool kept = text && mh_buffer_append(run->context, to, text, strlen(text)) &&
                      mh_buffer_append(run->context, to, "\n", 1);
    free(text);
    return kept ? MH_OK : mh_fail(run->context, MH_ERROR_MEMORY, "out of memory for a JSON file");
}

static mh_status edit_config(mh_run *run, const mh_json_file *file, mh_config_edit_fn edit)
{
    if (!run->resumed)
        MH_TRY(edit(run, &file->source, file->root));
    return mh_model_start_dump(run, file->root, &run->config);
}

mh_status mh_model_start_config(mh_run *run, mh_config_edit_fn edit)
{
    char path[MH_PATH_BYTES];
    mh_json_file file;
    if (run->sizes->dropout < 0) // that of our own models alone is known
        run->sizes->dropout = 0;
    MH_TRY(mh_json_file_open(run->context, mh_run_origin(run), "config.json", path, &file));
    const mh_status status =
        json_is_object(file.root)
            ? edit_config(run, &file, edit)
            : mh_source_fail(&file.source, MH_ERROR_FORMAT, "expected an object");
    mh_json_file_close(&file);
    return status;
}

mh_status mh_model_start_sizes(mh_run *run, size_t usual)
{
    const mh_model_info *info = mh_model_describe(run->model);
    const size_t longest = mh_model_longest(&run->model->description);
    mh_translator_config *own = run->sizes;
    MH_TRY(mh_run_check_size(run, "d_model", own->d_model, info->d_model));
    MH_TRY(mh_run_check_size(run, "nhead", own->nhead, info->heads));
    MH_TRY(mh_run_check_size(run, "layers", own->num_encoder_layers, info->layers));
    MH_TRY(mh_run_check_size(run, "dim_feedforward", own->dim_feedforward, info->dim_feedforward));
    if (own->max_length > longest)
        return mh_fail(run->context, MH_ERROR_ARGUMENT,
                       "max_length: found %zu, expected at most %zu, which the model in %.300s has",
                       own->max_length, longest, mh_run_origin(run));
    own->d_model = info->d_model;
    own->nhead = info->heads;
    own->num_encoder_layers = own->num_decoder_layers = info->layers;
    own->dim_feedforward = info->dim_feedforward;
    own->max_length = own->max_length ? own->max_length : mh_smaller(usual, longest);
    return MH_OK;
}

// ---- tokenizer ----------------------------------------------------------------------------------

static mh_status find_end(mh_run *run)
{
    mh_token_rules rules = mh_token_rules_none();
    MH_TRY(mh_token_rules_load(run->context, mh_run_origin(run), run->tokenizer,
                               run->model->description.vocabulary, &rules));
    const mh_allocator allocator = mh_context_allocator(run->context);
    run->eos = rules.eos.count ? rules.eos.ids[0] : mh_tokenizer_eos(run->tokenizer);
    mh_token_rules_free(&allocator, &rules);
    return MH_OK;
}

// What `generate` puts before a text, too.
static mh_status find_begin(mh_run *run)
{
    const mh_text text = {"", 0};
    mh_encoding encoding = {0};
    MH_TRY(mh_tokenizer_encode_text(run->context, run->tokenizer, NULL, text, NULL, &encoding));
    const bool begins = encoding.count && encoding.special[0];
    run->bos = begins && encoding.ids[0] != run->eos ? encoding.ids[0] : -1;
    mh_encoding_free(run->context, &encoding);
    return MH_OK;
}

mh_status mh_model_start_tokenizer(mh_run *run)
{
    const char *directory = mh_run_origin(run);
    MH_TRY(mh_tokenizer_load_directory(run->context, directory, &run->tokenizer));
    const size_t tokens = mh_tokenizer_size(run->tokenizer);
    if (tokens > run->model->description.vocabulary)
        return mh_fail(run->context, MH_ERROR_FORMAT,
                       "%.700s: the tokenizer has %zu tokens, and the model %zu", directory, tokens,
                       run->model->description.vocabulary);
    MH_TRY(find_end(run));
    return find_begin(run);
}

static mh_status copy_file(mh_run *run, const char *name)
{
    char from[MH_PATH_BYTES], to[MH_PATH_BYTES];
    mh_mapping mapping;
    MH_TRY(mh_path_join(run->context, run->options->init, name, from));
    if (!mh_file_exists(from))
        return MH_OK;
    MH_TRY(mh_path_join(run->context, run->options->directory, name, to));
    MH_TRY(mh_file_map(run->context, from, &mapping));
    const mh_status status = mh_file_replace(run->context, to, mapping.data, mapping.size);
    mh_file_unmap(&mapping);
    return status;
}

mh_status mh_model_start_files(mh_run *run)
{
    static const char *const names[] = {"tokenizer.json",
                                        "tokenizer_config.json",
                                        "special_tokens_map.json",
                                        "added_tokens.json",
                                        "vocab.txt",
                                        "vocab.json",
                                        "merges.txt",
                                        "tokenizer.model",
                                        "spiece.model",
                                        "sentencepiece.bpe.model",
                                        "generation_config.json",
                                        "chat_template.jinja"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        MH_TRY(copy_file(run, names[i]));
    return MH_OK;
}

// ---- weights ------------------------------------------------------------------------------------

static const mh_parameter *find(const mh_parameters *list, const mh_parameter *wanted)
{
    for (size_t i = 0; i < list->count; i++)
        if (!strcmp(list->list[i].name, wanted->name))
            return list->list[i].count == wanted->count ? &list->list[i] : NULL;
    return NULL;
}

// Appends the names of those that the model to start from does not have: they stay random.
static void copy_parameters(const mh_run *run, const mh_parameters *from, const mh_parameters *to,
                            mh_appender *missing)
{
    for (size_t i = 0; i < to->count; i++) {
        const mh_parameter *p = &to->list[i], *found = find(from, p);
        const bool head = strncmp(p->name, "classifier.", strlen("classifier.")) == 0;
        if (found && !(head && run->new_head)) {
            memcpy(to->values + p->offset, from->values + found->offset, p->count * sizeof(float));
            continue;
        }
        mh_append_string(missing, missing->buffer.size ? ", " : "");
        mh_append_string(missing, p->name);
    }
}

static mh_status report_missing(mh_run *run, const mh_buffer *names)
{
    if (!names->size)
        return MH_OK;
    if (run->task->kind == MH_TASK_LM)
        return mh_fail(run->context, MH_ERROR_FORMAT, "%.700s: has no %.300s", run->options->init,
                       (const char *)names->data);
    mh_log(run->context, MH_LOG_WARNING, "newly initialised: %.900s", (const char *)names->data);
    return MH_OK;
}

mh_status mh_model_start_weights(mh_run *run)
{
    mh_model *from;
    mh_appender missing = {.context = run->context};
    mh_buffer names = {0};
    mh_model_options o = mh_model_options_default();
    o.trainable = true;
    MH_TRY(mh_model_load(run->context, run->options->init, &o, &from));
    copy_parameters(run, mh_transformer_parameters(mh_model_transformer(from)),
                    mh_transformer_parameters(mh_model_transformer(run->model)), &missing);
    copy_parameters(run, mh_model_parameters(from), mh_model_parameters(run->model), &missing);
    mh_model_free(from);
    mh_status status = mh_append_finish(&missing, MH_OK, &names);
    if (!status)
        status = report_missing(run, &names);
    mh_buffer_free(run->context, &names);
    return status;
}
