// SPDX-License-Identifier: MIT
// Classification of texts by an encoder of BERT's family:
//
//     text -> tokens, special ones included -> encoder -> pooler of the first token -> logits
//
// Targets of the examples are labels. Durations count texts, batches their tokens.
#include "base/compiler.h"
#include "base/size_math.h"
#include "model/json_file.h"
#include "support/grow.h"
#include "support/json_text.h"
#include "text/tokenizer.h"
#include "train/classifier.h"
#include "train/classifier_tokenizer.h"
#include "train/held_out.h"
#include "train/model_start.h"
#include "train/run_ranks.h"
#include <inttypes.h>
#include <stdlib.h>

enum {
    MOST_LABELS = 1000,
    USUAL_LENGTH = 256, // tokens of a text
    LEAST_HELD_OUT = 10,
    MOST_HELD_OUT = 5000,
};

// ---- labels -------------------------------------------------------------------------------------

static bool is_number(const char *label, long *value)
{
    char *end;
    *value = strtol(label, &end, 10);
    return *label && !*end;
}

static int compare_labels(const void *a, const void *b)
{
    const char *const *left = a, *const *right = b;
    long l, r;
    const bool number = is_number(*left, &l), second = is_number(*right, &r);
    if (number != second)
        return number ? -1 : 1;
    return number && l != r ? (l < r ? -1 : 1) : strcmp(*left, *right);
}

// The labels of the data, numbers by value, then others by their bytes, whatever their order there.
static mh_status collect_labels(mh_run *run, const mh_corpus *corpus)
{
    size_t label;
    for (size_t i = 0; i < corpus->count; i++) {
        if (memchr(corpus->sources[i].bytes, 0, corpus->sources[i].size))
            return mh_fail(run->context, MH_ERROR_FORMAT, "%.300s:%zu: a label with a null byte",
                           corpus->name, corpus->lines[i]);
        if (!mh_labels_find(&run->labels, corpus->sources[i], &label))
            MH_TRY(mh_labels_add(run->context, &run->labels, corpus->sources[i]));
        if (run->labels.count > MOST_LABELS)
            return mh_fail(run->context, MH_ERROR_FORMAT,
                           "%.300s: more than %d labels: expected a label, a tab and a text on "
                           "each line; are the columns swapped?",
                           corpus->name, MOST_LABELS);
    }
    if (run->labels.count < 2)
        return mh_fail(run->context, MH_ERROR_FORMAT,
                       "%.300s: found one label, %.80s: expected two or more", corpus->name,
                       run->labels.names[0]);
    qsort(run->labels.names, run->labels.count, sizeof *run->labels.names, compare_labels);
    return MH_OK;
}

static int compare_texts(const void *a, const void *b)
{
    const mh_text *l = a, *r = b;
    const int order = memcmp(l->bytes, r->bytes, l->size < r->size ? l->size : r->size);
    return order ? order : (l->size > r->size) - (l->size < r->size);
}

// Warns of labels that are hardly meant: `sorted` has those of all lines.
static void warn_of_labels(mh_run *run, const mh_corpus *corpus, const mh_text *sorted)
{
    enum { LINES_LEAST = 8 };
    size_t labels = 0, single = 0;
    bool header = false;
    mh_text once = {"", 0};
    for (size_t i = 0, end; i < corpus->count; i = end) {
        for (end = i + 1; end < corpus->count && !compare_texts(&sorted[i], &sorted[end]); end++)
            continue;
        labels++;
        if (end > i + 1)
            continue;
        once = single++ ? once : sorted[i];
        header |= corpus->lines[0] == 1 && !compare_texts(&sorted[i], &corpus->sources[0]);
    }
    if (corpus->count < LINES_LEAST || !single)
        return;
    if (2 * labels > corpus->count)
        mh_log(run->context, MH_LOG_WARNING,
               "%.300s: %zu labels of %zu texts: are the columns swapped? Expected a label, a tab "
               "and a text on each line",
               corpus->name, labels, corpus->count);
    else if (header)
        mh_log(run->context, MH_LOG_WARNING,
               "%.300s:1: no other line has the label %.*s: is this a header? Then remove it",
               corpus->name, (int)mh_smaller(corpus->sources[0].size, 80),
               corpus->sources[0].bytes);
    else
        mh_log(run->context, MH_LOG_WARNING,
               "%.300s: %zu label%s once, too rarely to be learnt: %.*s%s", corpus->name, single,
               single == 1 ? " occurs" : "s occur", (int)mh_smaller(once.size, 80), once.bytes,
               single == 1 ? "" : ", ...");
}

static mh_status check_labels(mh_run *run, const mh_corpus *corpus)
{
    const size_t bytes = corpus->count * sizeof(mh_text);
    mh_text *sorted = run->resumed ? NULL : mh_alloc(run->context, bytes);
    if (!sorted)
        return run->resumed ? MH_OK : MH_ERROR_MEMORY;
    memcpy(sorted, corpus->sources, bytes);
    qsort(sorted, corpus->count, sizeof *sorted, compare_texts);
    warn_of_labels(run, corpus, sorted);
    mh_free(run->context, sorted, bytes);
    return MH_OK;
}

// ---- a new model --------------------------------------------------------------------------------

static mh_status write_config(mh_run *run)
{
    const mh_train_options *o = run->options;
    const mh_translator_config *m = o->model;
    const int pad = (int)mh_tokenizer_pad(run->tokenizer);
    mh_appender to = {.context = run->context};
    mh_append_string(&to, "{\n  \"architectures\": [\"BertForSequenceClassification\"],\n"
                          "  \"model_type\": \"bert\",\n  \"hidden_act\": \"gelu\",\n"
                          "  \"layer_norm_eps\": 1e-12,\n  \"type_vocab_size\": 2,\n"
                          "  \"problem_type\": \"single_label_classification\",\n");
    mh_append_format(&to, "  \"hidden_size\": %zu,\n  \"num_hidden_layers\": %zu,\n", m->d_model,
                     m->num_encoder_layers);
    mh_append_format(&to, "  \"num_attention_heads\": %zu,\n  \"intermediate_size\": %zu,\n",
                     m->nhead, m->dim_feedforward);
    mh_append_format(&to, "  \"max_position_embeddings\": %zu,\n  \"vocab_size\": %zu,\n",
                     m->max_length, mh_tokenizer_size(run->tokenizer));
    if (pad >= 0)
        mh_append_format(&to, "  \"pad_token_id\": %d,\n", pad);
    else
        mh_append_string(&to, "  \"pad_token_id\": null,\n");
    mh_append_format(&to, "  \"hidden_dropout_prob\": %.6g,\n", (double)m->dropout);
    mh_append_format(&to, "  \"attention_probs_dropout_prob\": %.6g,\n  \"id2label\": {",
                     (double)m->dropout);
    mh_labels_put(&to, &run->labels, false);
    mh_append_string(&to, "},\n  \"label2id\": {");
    mh_labels_put(&to, &run->labels, true);
    mh_append_format(&to, "},\n  \"torch_dtype\": \"%s\"\n}\n",
                     o->weights == MH_BF16 ? "bfloat16" : "float32");
    return mh_append_finish(&to, MH_OK, &run->config);
}

static mh_status create_new(mh_run *run, const mh_corpus *corpus)
{
    MH_TRY(collect_labels(run, corpus));
    MH_TRY(mh_classifier_tokenizer_create(run, corpus->targets, corpus->count));
    MH_TRY(write_config(run));
    return mh_model_task_create(run);
}

// ---- a model to start from ----------------------------------------------------------------------

// The labels that the model has, if it is a classifier with all labels of the data.
static mh_status keep_labels(mh_run *run, const json_t *root, bool *kept)
{
    const char *architecture =
        json_string_value(json_array_get(json_object_get(root, "architectures"), 0));
    const json_t *names = json_object_get(root, "id2label");
    const size_t count = json_object_size(names);
    size_t found = 0, label;
    mh_labels own = {0};
    mh_status status = MH_OK;
    *kept = false;
    if (!architecture || !strstr(architecture, "ForSequenceClassification"))
        return MH_OK;
    for (size_t i = 0; i < count && !status; i++) {
        char key[24];
        snprintf(key, sizeof key, "%zu", i);
        const char *name = json_string_value(json_object_get(names, key));
        if (name)
            status = mh_labels_add(run->context, &own, (mh_text){name, strlen(name)});
    }
    for (size_t i = 0; i < run->labels.count; i++)
        found += mh_labels_find(&own, (mh_text){run->labels.names[i], strlen(run->labels.names[i])},
                                &label);
    *kept = !status && own.count == count && found == run->labels.count;
    if (*kept) {
        const mh_labels data = run->labels;
        run->labels = own;
        own = data;
    }
    mh_labels_free(run->context, &own);
    return status;
}

static mh_status set_labels(mh_run *run, json_t *root)
{
    json_t *names = json_object(), *ids = json_object();
    for (size_t i = 0; i < run->labels.count; i++) {
        char key[24];
        snprintf(key, sizeof key, "%zu", i);
        json_object_set_new(names, key, json_string(run->labels.names[i]));
        json_object_set_new(ids, run->labels.names[i], json_integer((json_int_t)i));
    }
    json_object_del(root, "num_labels");
    const bool whole =
        json_object_size(names) == run->labels.count && json_object_size(ids) == run->labels.count;
    mh_status status = mh_model_start_set(run, root, "id2label", names);
    const mh_status second = mh_model_start_set(run, root, "label2id", ids);
    status = status ? status : second;
    return status || whole ? status
                           : mh_fail(run->context, MH_ERROR_MEMORY, "out of memory for labels");
}

static mh_status edit_classifier(mh_run *run, const mh_source *source, json_t *root)
{
    const char *architecture =
        mh_model_start_classifier(json_string_value(json_object_get(root, "model_type")));
    bool kept;
    if (!architecture)
        return mh_model_start_refuse(MH_TASK_CLASSIFICATION, source, root);
    MH_TRY(keep_labels(run, root, &kept));
    run->new_head = !kept;
    MH_TRY(set_labels(run, root));
    MH_TRY(mh_model_start_set(run, root, "architectures", json_pack("[s]", architecture)));
    MH_TRY(
        mh_model_start_set(run, root, "problem_type", json_string("single_label_classification")));
    return mh_model_start_set_dtype(run, root);
}

// Of a resumed run, the labels of its model.
static mh_status take_labels(mh_run *run)
{
    mh_labels_free(run->context, &run->labels);
    for (size_t i = 0; i < mh_model_describe(run->model)->labels; i++) {
        const char *name = mh_model_label(run->model, i);
        MH_TRY(mh_labels_add(run->context, &run->labels, (mh_text){name, strlen(name)}));
    }
    return MH_OK;
}

static mh_status start_from_model(mh_run *run, const mh_corpus *corpus)
{
    MH_TRY(collect_labels(run, corpus));
    MH_TRY(mh_model_start_config(run, edit_classifier));
    MH_TRY(mh_model_task_create(run));
    if (run->resumed)
        MH_TRY(take_labels(run));
    MH_TRY(mh_model_start_sizes(run, USUAL_LENGTH));
    return mh_model_start_tokenizer(run);
}

// ---- data ---------------------------------------------------------------------------------------

typedef struct reading {
    mh_run *run;
    mh_dataset *examples;
    mh_encoding encoding;
    size_t truncated, unknown;
} reading;

static mh_status add_text(reading *r, mh_text text, size_t label)
{
    mh_dataset *e = r->examples;
    mh_encode_options options = mh_encode_options_default();
    options.special_from_text = false;
    options.max_length = r->run->options->model->max_length;
    MH_TRY(mh_tokenizer_encode_text(r->run->context, r->run->tokenizer, &options, text, NULL,
                                    &r->encoding));
    const size_t used = e->starts[2 * e->count], count = r->encoding.count;
    if (!mh_grow(r->run->context, &e->ids, &e->ids_capacity, used + count + 1, sizeof *e->ids) ||
        !mh_grow(r->run->context, &e->starts, &e->starts_capacity, 2 * e->count + 3,
                 sizeof *e->starts))
        return MH_ERROR_MEMORY;
    r->truncated += r->encoding.truncated;
    if (count == 0) // of characters that a tokenizer leaves out
        return MH_OK;
    memcpy(e->ids + used, r->encoding.ids, count * sizeof *e->ids);
    e->ids[used + count] = (int32_t)label;
    e->starts[2 * e->count + 1] = used + count;
    e->starts[2 * e->count + 2] = used + count + 1;
    e->count++;
    return MH_OK;
}

static mh_status add_texts(reading *r, const mh_corpus *corpus)
{
    const mh_train_options *o = r->run->options;
    size_t label;
    for (size_t i = 0; i < corpus->count; i++) {
        if (mh_labels_find(&r->run->labels, corpus->sources[i], &label)) {
            MH_TRY(add_text(r, corpus->targets[i], label));
            continue;
        }
        r->unknown++;
        if (o->bad_line)
            o->bad_line(o->user, corpus->name, corpus->lines[i],
                        "the training data do not have this label");
    }
    return MH_OK;
}

static mh_status make_examples(mh_run *run, const mh_corpus *corpus, mh_dataset *examples)
{
    reading r = {.run = run, .examples = examples};
    if (!mh_grow(run->context, &examples->starts, &examples->starts_capacity, 1,
                 sizeof *examples->starts))
        return MH_ERROR_MEMORY;
    examples->starts[0] = 0;
    mh_status status = add_texts(&r, corpus);
    mh_encoding_free(run->context, &r.encoding);
    examples->left_out = r.unknown;
    if (r.truncated)
        mh_log(run->context, MH_LOG_WARNING,
               "%.300s: %zu text%s longer than %zu tokens: the rest of %s is not read",
               corpus->name, r.truncated, r.truncated == 1 ? " is" : "s are",
               run->options->model->max_length, r.truncated == 1 ? "it" : "them");
    if (!status && examples->count == 0)
        status =
            mh_fail(run->context, MH_ERROR_FORMAT, "%.700s: no text with a label", corpus->name);
    return status;
}

static mh_status read_file(mh_run *run, const char *path, mh_corpus *corpus)
{
    const mh_train_options *o = run->options;
    const mh_corpus_files files = {
        .sources = path, .bad_line = o->bad_line, .user = o->user, .sides = {"label", "text"}};
    return mh_corpus_read(run->context, &files, corpus);
}

static mh_status read_valid(mh_run *run, mh_corpus *corpus, mh_corpus *valid)
{
    const mh_holding how = {.seed = run->options->seed,
                            .part = mh_run_held_out(run, 0.1),
                            .least = LEAST_HELD_OUT,
                            .most = mh_run_held_out_most(run, MOST_HELD_OUT),
                            .by_target = true};
    if (run->options->valid)
        return read_file(run, run->options->valid, valid);
    MH_TRY(mh_hold_out(run->context, &how, corpus, valid));
    run->event.held_out = valid->count;
    return MH_OK;
}

static mh_status use_corpora(mh_run *run, mh_corpus *corpus, mh_corpus *valid)
{
    MH_TRY(read_valid(run, corpus, valid));
    MH_TRY(run->options->init ? start_from_model(run, corpus) : create_new(run, corpus));
    MH_TRY(make_examples(run, corpus, &run->examples));
    return valid->count ? make_examples(run, valid, &run->valid.examples) : MH_OK;
}

static mh_status check_new_sizes(mh_run *run)
{
    const size_t most = run->options->model->max_length;
    if (run->options->init)
        return MH_OK;
    MH_TRY(mh_model_task_check_heads(run));
    return most >= 3 ? MH_OK
                     : mh_fail(run->context, MH_ERROR_ARGUMENT,
                               "max_length: found %zu, expected 3 tokens or more", most);
}

static mh_status classification_prepare(mh_run *run, size_t *bad_lines)
{
    mh_corpus corpus = {0}, valid = {0};
    MH_TRY(check_new_sizes(run));
    mh_status status = read_file(run, run->options->data, &corpus);
    if (!status)
        status = check_labels(run, &corpus);
    if (!status)
        status = use_corpora(run, &corpus, &valid);
    *bad_lines = corpus.bad_lines + valid.bad_lines + run->valid.examples.left_out;
    mh_corpus_free(run->context, &corpus);
    mh_corpus_free(run->context, &valid);
    return status;
}

static mh_status classification_begin(mh_run *run)
{
    MH_TRY(mh_model_task_begin(run));
    return run->options->init ? MH_OK : mh_classifier_tokenizer_save(run);
}

static void classification_settings(mh_run *run)
{
    const mh_translator_config *m = run->options->model;
    uint64_t labels = 0;
    for (size_t i = 0; i < mh_model_describe(run->model)->labels; i++) {
        const char *name = mh_model_label(run->model, i);
        labels = mh_mix(labels ^ mh_hash_bytes(i, name, strlen(name)));
    }
    mh_run_set(run, "task", "classification");
    mh_run_set(run, "labels", "%016" PRIx64, labels);
    run->settings.list[run->settings.count - 1].checksum = true;
    mh_run_set(run, "model", "%zu %zu %zu %zu", m->d_model, m->nhead, m->num_encoder_layers,
               m->dim_feedforward);
    mh_run_set(run, "max_length", "%zu", m->max_length);
    mh_model_task_set_dropout(run);
}

// ---- loss ---------------------------------------------------------------------------------------

static mh_status fill_texts(mh_run *run, const mh_dataset *e, const uint32_t *examples,
                            size_t count, mh_classifier_batch *b)
{
    const size_t D = run->model->description.block.d_model, L = run->model->description.labels;
    size_t rows = 0;
    for (size_t i = 0; i < count; i++)
        rows += mh_dataset_source(e, examples[i]).count;
    float *next = mh_model_task_floats(run, rows * (2 * D + 1) + count * (L + 1));
    if (!next || !mh_grow(run->context, &run->sequences, &run->sequences_capacity, count + 1,
                          sizeof *run->sequences))
        return MH_ERROR_MEMORY;
    b->hidden = mh_tensor_2d(next, MH_F32, rows, D);
    b->dhidden = mh_tensor_2d(next + rows * D, MH_F32, rows, D);
    b->logits = mh_tensor_2d(next + 2 * rows * D, MH_F32, count, L);
    b->labels = (int32_t *)(next + 2 * rows * D + count * L);
    int32_t *ids = b->labels + count;
    b->input = mh_model_input_default();
    b->input.sequences = count;
    b->input.starts = run->sequences;
    b->input.ids = ids;
    run->sequences[0] = 0;
    for (size_t i = 0; i < count; i++) {
        const mh_ids text = mh_dataset_source(e, examples[i]);
        memcpy(ids + run->sequences[i], text.ids, text.count * sizeof *ids);
        run->sequences[i + 1] = run->sequences[i] + (int64_t)text.count;
        b->labels[i] = mh_dataset_target(e, examples[i]).ids[0];
    }
    return MH_OK;
}

static mh_status classification_loss(mh_run *run, const mh_grain *grain,
                                     const mh_loss_options *options, double *loss)
{
    mh_classifier_batch b;
    MH_TRY(fill_texts(run, &run->examples, grain->examples, grain->count, &b));
    return mh_classifier_loss(run, &b, options, loss);
}

static mh_status score_texts(mh_run *run, const uint32_t *examples, size_t count,
                             mh_batch_score *score)
{
    mh_classifier_batch b;
    MH_TRY(fill_texts(run, &run->valid.examples, examples, count, &b));
    return mh_classifier_score(run, &b, score);
}

static mh_status classification_validate(mh_run *run, mh_validation_fn told,
                                         mh_validation_score *score, bool *stopped)
{
    return mh_classifier_validate(run, score_texts, told, score, stopped);
}

const mh_task mh_task_classification = {
    .kind = MH_TASK_CLASSIFICATION,
    .name = "classification",
    .grain = 2048,
    .batch_tokens = 1024,
    .prepare = classification_prepare,
    .begin = classification_begin,
    .model_file = "config.json",
    .receive = mh_model_task_receive,
    .parameters = mh_model_task_parameters,
    .vocabulary = mh_model_task_labels,
    .settings = classification_settings,
    .loss = classification_loss,
    .validate = classification_validate,
    .save = mh_model_task_save,
    .free = mh_model_task_free,
};
