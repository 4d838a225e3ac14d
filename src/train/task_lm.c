// SPDX-License-Identifier: MIT
// Language models of the families `gpt2` and `llama`: the next token of text.
//
// Logits are computed, and their gradients consumed, one block of rows at a time.
#include "base/compiler.h"
#include "base/philox.h"
#include "base/size_math.h"
#include "support/buffer.h"
#include "text/tokenizer.h"
#include "train/documents.h"
#include "train/model_start.h"
#include "train/model_task.h"
#include "train/run_ranks.h"
#include <inttypes.h>
#include <math.h>

enum {
    LM_ROWS = 512, // of a block of logits; affects the bits, as gradients are summed by block
    SAMPLE_TOKENS = 48,
    SAMPLE_STREAM = 0x746f6b73, // of random numbers, apart from shuffles
};

// ---- data and model -----------------------------------------------------------------------------

static mh_status learn_tokenizer(mh_run *run, const mh_documents *d, size_t count)
{
    mh_tokenizer_options options = mh_tokenizer_options_default();
    options.merges = run->options->merges;
    return mh_tokenizer_train(run->context, &options, d->list, count, &run->tokenizer);
}

static mh_status lm_find_tokenizer(mh_run *run, const mh_documents *d, size_t count)
{
    if (run->tokenizer) // of the model to start from
        return MH_OK;
    MH_TRY(run->resumed || run->options->tokenizer ? mh_run_load_tokenizer(run, &run->tokenizer)
                                                   : learn_tokenizer(run, d, count));
    run->eos = mh_tokenizer_eos(run->tokenizer);
    run->bos = -1;
    return MH_OK;
}

static mh_status read_examples(mh_run *run, const mh_documents *d, size_t first, size_t end,
                               mh_dataset *examples, uint64_t *bytes)
{
    return mh_documents_examples(run->context, d, first, end, run->tokenizer, run->bos, run->eos,
                                 run->options->model->max_length, examples, bytes);
}

static mh_status read_valid_file(mh_run *run)
{
    mh_documents d;
    const mh_train_options *o = run->options;
    const mh_documents_files files = {.path = o->valid, .bad_line = o->bad_line, .user = o->user};
    mh_status status = mh_documents_read(run->context, &files, &d);
    if (!status)
        status = read_examples(run, &d, 0, d.count, &run->valid.examples, &run->valid_text_bytes);
    run->valid.examples.left_out += d.bad;
    mh_documents_free(run->context, &d);
    return status;
}

// The part that is held out: 1 %, but about ten sequences, unless that is more than a tenth.
static double lm_held_out(const mh_run *run, const mh_documents *d)
{
    enum { SEQUENCES = 10, TOKEN_BYTES = 4 };
    const double wanted = (double)(SEQUENCES * TOKEN_BYTES * run->options->model->max_length);
    return mh_run_held_out(run, fmax(0.01, fmin(0.1, wanted / (double)d->text.size)));
}

static mh_status read_text(mh_run *run, mh_documents *d)
{
    uint64_t bytes;
    size_t held_out;
    const double part = run->options->valid ? 0 : lm_held_out(run, d);
    MH_TRY(mh_documents_hold_out(run->context, d, part, &held_out));
    const size_t trained = d->count - held_out;
    MH_TRY(lm_find_tokenizer(run, d, trained));
    MH_TRY(read_examples(run, d, 0, trained, &run->examples, &bytes));
    if (run->options->valid)
        return read_valid_file(run);
    return held_out ? read_examples(run, d, trained, d->count, &run->valid.examples,
                                    &run->valid_text_bytes)
                    : MH_OK;
}

static void put_gpt2(mh_appender *to, const mh_translator_config *m, size_t vocabulary)
{
    const double dropout = (double)m->dropout;
    mh_append_string(to, "{\n  \"architectures\": [\"GPT2LMHeadModel\"],\n"
                         "  \"model_type\": \"gpt2\",\n"
                         "  \"activation_function\": \"gelu_new\",\n"
                         "  \"layer_norm_epsilon\": 1e-05,\n");
    mh_append_format(to,
                     "  \"attn_pdrop\": %.6g,\n  \"embd_pdrop\": %.6g,\n  \"resid_pdrop\": %.6g,\n",
                     dropout, dropout, dropout);
    mh_append_format(to, "  \"n_embd\": %zu,\n  \"n_layer\": %zu,\n  \"n_head\": %zu,\n",
                     m->d_model, m->num_encoder_layers, m->nhead);
    mh_append_format(to, "  \"n_inner\": %zu,\n  \"n_positions\": %zu,\n  \"vocab_size\": %zu,\n",
                     m->dim_feedforward, m->max_length, vocabulary);
}

static void put_llama(mh_appender *to, const mh_translator_config *m, size_t vocabulary)
{
    mh_append_string(to, "{\n  \"architectures\": [\"LlamaForCausalLM\"],\n"
                         "  \"model_type\": \"llama\",\n  \"hidden_act\": \"silu\",\n"
                         "  \"rms_norm_eps\": 1e-06,\n  \"rope_theta\": 10000.0,\n"
                         "  \"attention_bias\": false,\n  \"mlp_bias\": false,\n");
    mh_append_format(to, "  \"hidden_size\": %zu,\n  \"num_hidden_layers\": %zu,\n", m->d_model,
                     m->num_encoder_layers);
    mh_append_format(to, "  \"num_attention_heads\": %zu,\n  \"num_key_value_heads\": %zu,\n",
                     m->nhead, m->nhead);
    mh_append_format(to, "  \"intermediate_size\": %zu,\n  \"max_position_embeddings\": %zu,\n",
                     m->dim_feedforward, m->max_length);
    mh_append_format(to, "  \"attention_dropout\": %.6g,\n  \"vocab_size\": %zu,\n",
                     (double)m->dropout, vocabulary);
}

static mh_status lm_write_config(mh_run *run)
{
    const mh_train_options *o = run->options;
    const size_t vocabulary = mh_tokenizer_size(run->tokenizer);
    const int eos = (int)mh_tokenizer_eos(run->tokenizer);
    mh_appender to = {.context = run->context};
    (o->arch == MH_LM_LLAMA ? put_llama : put_gpt2)(&to, o->model, vocabulary);
    mh_append_format(&to,
                     "  \"tie_word_embeddings\": true,\n  \"bos_token_id\": %d,\n"
                     "  \"eos_token_id\": %d,\n  \"torch_dtype\": \"%s\"\n}\n",
                     eos, eos, o->weights == MH_BF16 ? "bfloat16" : "float32");
    return mh_append_finish(&to, MH_OK, &run->config);
}

static mh_status check_lm_sizes(mh_run *run)
{
    const mh_translator_config *m = run->options->model;
    MH_TRY(mh_model_task_check_heads(run));
    if (m->max_length < 2)
        return mh_fail(run->context, MH_ERROR_ARGUMENT,
                       "max_length: found %zu, expected a context of 2 tokens or more",
                       m->max_length);
    return MH_OK;
}

// A model to start from: what its family is saved as, and its tokenizer.
static mh_status edit_lm(mh_run *run, const mh_source *source, json_t *root)
{
    if (!mh_model_start_is_lm(json_string_value(json_object_get(root, "model_type"))))
        return mh_model_start_refuse(MH_TASK_LM, source, root);
    return mh_model_start_set_dtype(run, root);
}

static mh_status start_from_model(mh_run *run)
{
    enum { USUAL_CONTEXT = 256 };
    MH_TRY(mh_model_start_config(run, edit_lm));
    MH_TRY(mh_model_task_create(run));
    MH_TRY(mh_model_start_sizes(run, USUAL_CONTEXT));
    MH_TRY(mh_model_start_tokenizer(run));
    return run->eos >= 0
               ? MH_OK
               : mh_fail(run->context, MH_ERROR_UNSUPPORTED,
                         "%.700s: expected a token that ends a text: eos_token_id in config.json",
                         mh_run_origin(run));
}

static mh_status create_lm(mh_run *run)
{
    MH_TRY(lm_write_config(run));
    return mh_model_task_create(run);
}

static mh_status lm_prepare(mh_run *run, size_t *bad_lines)
{
    mh_documents documents;
    *bad_lines = 0;
    if (run->options->init)
        MH_TRY(start_from_model(run));
    MH_TRY(check_lm_sizes(run));
    const mh_train_options *o = run->options;
    const mh_documents_files files = {o->data, o->more_data, o->more_data_count, o->bad_line,
                                      o->user};
    mh_status status = mh_documents_read(run->context, &files, &documents);
    if (!status)
        status = read_text(run, &documents);
    *bad_lines = documents.bad + run->valid.examples.left_out;
    mh_documents_free(run->context, &documents);
    MH_TRY(status);
    return run->model ? MH_OK : create_lm(run);
}

// A small JSON file beside the weights.
static mh_status write_text(mh_run *run, const char *name, mh_appender *to)
{
    mh_buffer text = {0};
    mh_status status = mh_append_finish(to, MH_OK, &text);
    if (!status)
        status = mh_model_task_write(run, name, &text);
    mh_buffer_free(run->context, &text);
    return status;
}

static mh_status lm_begin(mh_run *run)
{
    char path[MH_PATH_BYTES];
    const int eos = (int)mh_tokenizer_eos(run->tokenizer);
    mh_appender tokens = {.context = run->context}, generation = {.context = run->context};
    MH_TRY(mh_model_task_begin(run));
    if (run->options->init)
        return MH_OK;
    MH_TRY(mh_path_join(run->context, run->options->directory, "tokenizer.json", path));
    MH_TRY(mh_tokenizer_save(run->context, run->tokenizer, path));
    mh_append_format(&tokens,
                     "{\n  \"tokenizer_class\": \"PreTrainedTokenizerFast\",\n"
                     "  \"bos_token\": \"</s>\",\n  \"eos_token\": \"</s>\",\n"
                     "  \"pad_token\": \"<pad>\",\n  \"model_max_length\": %zu\n}\n",
                     run->options->model->max_length);
    MH_TRY(write_text(run, "tokenizer_config.json", &tokens));
    mh_append_format(&generation, "{\n  \"bos_token_id\": %d,\n  \"eos_token_id\": %d\n}\n", eos,
                     eos);
    return write_text(run, "generation_config.json", &generation);
}

static void lm_settings(mh_run *run)
{
    const mh_train_options *o = run->options;
    const mh_translator_config *m = o->model;
    mh_run_set(run, "task", "lm");
    if (!o->init)
        mh_run_set(run, "arch", "%s", o->arch == MH_LM_LLAMA ? "llama" : "gpt2");
    mh_run_set(run, "model", "%zu %zu %zu %zu", m->d_model, m->nhead, m->num_encoder_layers,
               m->dim_feedforward);
    mh_run_set(run, "context", "%zu", m->max_length);
    mh_model_task_set_dropout(run);
}

static size_t lm_vocabulary(const mh_run *run) { return mh_tokenizer_size(run->tokenizer); }

// ---- loss ---------------------------------------------------------------------------------------

typedef struct lm_batch {
    mh_model_input input;
    int32_t *ids, *wanted;
    mh_tensor hidden, dhidden; // (rows, D)
    float *logits;             // (LM_ROWS, V)
} lm_batch;

static mh_status lay_out_lm(mh_run *run, size_t sequences, size_t rows, lm_batch *b)
{
    const size_t D = run->model->description.block.d_model, V = run->model->description.vocabulary;
    float *next = mh_model_task_floats(run, 2 * rows * (D + 1) + mh_smaller(rows, LM_ROWS) * V);
    if (!next || !mh_grow(run->context, &run->sequences, &run->sequences_capacity, sequences + 1,
                          sizeof *run->sequences))
        return MH_ERROR_MEMORY;
    b->hidden = mh_tensor_2d(next, MH_F32, rows, D);
    b->dhidden = mh_tensor_2d(next + rows * D, MH_F32, rows, D);
    b->ids = (int32_t *)(next + 2 * rows * D);
    b->wanted = b->ids + rows;
    b->logits = next + 2 * rows * (D + 1);
    b->input = mh_model_input_default();
    b->input.sequences = sequences;
    b->input.starts = run->sequences;
    b->input.ids = b->ids;
    return MH_OK;
}

// What is read, and what is expected: the same ids, one token later.
static mh_status fill_lm(mh_run *run, const mh_dataset *e, const uint32_t *examples, size_t count,
                         lm_batch *b)
{
    size_t rows = mh_target_tokens(e, examples, count);
    MH_TRY(lay_out_lm(run, count, rows, b));
    rows = 0;
    for (size_t i = 0; i < count; i++) {
        const mh_ids source = mh_dataset_source(e, examples[i]);
        const size_t length = mh_dataset_target(e, examples[i]).count;
        run->sequences[i] = (int64_t)rows;
        memcpy(b->ids + rows, source.ids, length * sizeof *b->ids);
        memcpy(b->wanted + rows, source.ids + 1, length * sizeof *b->ids);
        rows += length;
    }
    run->sequences[count] = (int64_t)rows;
    return MH_OK;
}

// The sum of the losses of all rows; with gradients, dhidden too.
static mh_status lm_cross_entropy(mh_run *run, const lm_batch *b, const mh_cross_entropy_options *o,
                                  const mh_model_gradients *gradients, double *loss)
{
    const size_t rows = b->hidden.shape[0], V = run->model->description.vocabulary;
    *loss = 0;
    for (size_t first = 0; first < rows; first += LM_ROWS) {
        double part;
        const size_t n = mh_smaller(LM_ROWS, rows - first);
        const mh_tensor hidden = mh_tensor_slice(b->hidden, 0, first, n);
        const mh_tensor wanted = mh_tensor_1d(b->wanted + first, MH_I32, n);
        mh_tensor dhidden = mh_tensor_slice(b->dhidden, 0, first, n);
        mh_tensor logits = mh_tensor_2d(b->logits, MH_F32, n, V);
        MH_TRY(mh_model_logits(run->context, run->model, &hidden, &logits));
        MH_TRY(mh_cross_entropy(run->context, o, &logits, &wanted, &part, NULL,
                                gradients ? &logits : NULL));
        *loss += part;
        if (gradients)
            MH_TRY(mh_model_logits_backward(run->context, run->model, &hidden, &logits, &dhidden,
                                            gradients));
    }
    return MH_OK;
}

static mh_status lm_loss(mh_run *run, const mh_grain *grain, const mh_loss_options *options,
                         double *loss)
{
    lm_batch b;
    mh_tape *tape = mh_model_task_tape(run);
    if (!tape)
        return MH_ERROR_MEMORY;
    MH_TRY(fill_lm(run, &run->examples, grain->examples, grain->count, &b));
    mh_model_task_put(run);
    mh_model_task_train(options, tape, &b.input);
    MH_TRY(mh_model_hidden(run->context, run->model, &b.input, &b.hidden));
    mh_cross_entropy_options o = mh_cross_entropy_options_default();
    o.label_smoothing = options->label_smoothing;
    o.reduction = MH_REDUCTION_SUM;
    o.gradient_scale = options->gradient_scale;
    const mh_model_gradients g = mh_model_task_gradients(run, options);
    memset(b.dhidden.data, 0, mh_tensor_count(&b.dhidden) * sizeof(float));
    MH_TRY(lm_cross_entropy(run, &b, &o, &g, loss));
    return mh_model_hidden_backward(run->context, run->model, &b.input, &b.dhidden, &g);
}

// ---- validation ---------------------------------------------------------------------------------

static mh_status score_text(mh_run *run, const uint32_t *examples, size_t count,
                            mh_batch_score *score)
{
    lm_batch b;
    mh_cross_entropy_options o = mh_cross_entropy_options_default();
    o.reduction = MH_REDUCTION_SUM;
    MH_TRY(fill_lm(run, &run->valid.examples, examples, count, &b));
    MH_TRY(mh_model_hidden(run->context, run->model, &b.input, &b.hidden));
    return lm_cross_entropy(run, &b, &o, NULL, &score->loss);
}

// A token by its probability at temperature 0.8; `random` is uniform.
static int32_t sample_token(const float *logits, size_t V, uint32_t random)
{
    const double rate = 1 / 0.8;
    double most = (double)logits[0], sum = 0;
    for (size_t v = 1; v < V; v++)
        most = fmax(most, (double)logits[v]);
    for (size_t v = 0; v < V; v++)
        sum += exp(rate * ((double)logits[v] - most));
    double left = sum * ((double)random / 4294967296.0);
    for (size_t v = 0; v < V; v++) {
        left -= exp(rate * ((double)logits[v] - most));
        if (left < 0)
            return (int32_t)v;
    }
    return (int32_t)V - 1;
}

static mh_status decode_sample(mh_run *run, const int32_t *ids, size_t count)
{
    mh_buffer text = {0};
    mh_status status =
        mh_tokenizer_decode_text(run->context, run->tokenizer, true, ids, count, &text);
    if (!status)
        status = mh_utf8_repair(run->context, text.data, text.size, &run->sample);
    mh_buffer_free(run->context, &text);
    return status;
}

// Text that the model makes up, in run->sample: a short one, so that nothing is cached.
static mh_status make_sample(mh_run *run)
{
    const uint64_t seed = run->options->seed;
    const uint32_t key[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)};
    const size_t V = run->model->description.vocabulary;
    const size_t named = mh_smaller(V, mh_tokenizer_size(run->tokenizer)); // V may be padded
    const size_t most = mh_smaller(SAMPLE_TOKENS, run->options->model->max_length);
    int32_t ids[SAMPLE_TOKENS + 1] = {run->bos < 0 ? run->eos : run->bos};
    size_t n = 1;
    for (; n < most; n++) {
        lm_batch b;
        uint32_t random[4];
        const uint32_t counter[4] = {(uint32_t)n, (uint32_t)run->progress.update, 0, SAMPLE_STREAM};
        MH_TRY(lay_out_lm(run, 1, n, &b));
        memcpy(b.ids, ids, n * sizeof *ids);
        run->sequences[0] = 0;
        run->sequences[1] = (int64_t)n;
        MH_TRY(mh_model_hidden(run->context, run->model, &b.input, &b.hidden));
        const mh_tensor last = mh_tensor_slice(b.hidden, 0, n - 1, 1);
        mh_tensor logits = mh_tensor_2d(b.logits, MH_F32, 1, V);
        MH_TRY(mh_model_logits(run->context, run->model, &last, &logits));
        mh_philox(counter, key, random);
        ids[n] = sample_token(b.logits, named, random[0]);
        if (ids[n] == run->eos)
            break;
    }
    return decode_sample(run, ids + 1, n - 1);
}

static mh_status lm_validate(mh_run *run, mh_validation_fn told, mh_validation_score *score,
                             bool *stopped)
{
    const double ln2 = 0.69314718055994530942;
    const mh_batches *plan = &run->valid.batches;
    mh_batch_score sum;
    MH_TRY(mh_model_task_validate(run, score_text, told, &sum, stopped));
    if (*stopped || !mh_run_leads(run))
        return MH_OK;
    score->loss = sum.loss / (double)mh_target_tokens(&run->valid.examples, plan->examples,
                                                      plan->starts[plan->count]);
    score->bits_per_byte = sum.loss / ln2 / (double)run->valid_text_bytes;
    return make_sample(run);
}

const mh_task mh_task_lm = {
    .kind = MH_TASK_LM,
    .name = "lm",
    .grain = 2048,
    .batch_tokens = 8192,
    .prepare = lm_prepare,
    .begin = lm_begin,
    .model_file = "config.json",
    .receive = mh_model_task_receive,
    .parameters = mh_model_task_parameters,
    .vocabulary = lm_vocabulary,
    .settings = lm_settings,
    .loss = lm_loss,
    .validate = lm_validate,
    .save = mh_model_task_save,
    .free = mh_model_task_free,
};
