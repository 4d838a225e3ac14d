// SPDX-License-Identifier: MIT
// Training of other tasks: gradients are those of central differences, a run that is stopped goes
// on to the same bytes with any number of threads, the model is one that others read, and damaged
// data are refused.
#include "support.h"
#include "task_support.h"
#include "train/documents.h"

#include "model/model_internal.h"
#include "support/directory.h"
#include "support/file.h"

#include <locale.h>
#include <math.h>
#include <multihead/train.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

enum { SIDE = TASK_SIDE, PICTURES = TASK_PICTURES_COUNT };

static char root[64];

static char *path_of(const char *name, char path[128])
{
    snprintf(path, 128, "%s/%s", root, name);
    return path;
}

static void write_bytes(const char *name, const void *bytes, size_t size)
{
    char path[128];
    FILE *file = fopen(path_of(name, path), "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, size, file), size);
    assert_int_equal(fclose(file), 0);
}

static bool write_pictures(const char *images, const char *labels, unsigned seed)
{
    char paths[2][128];
    return task_write_pictures(path_of(images, paths[0]), path_of(labels, paths[1]), seed);
}

static int set_up(void **state)
{
    (void)state;
    char path[128];
    snprintf(root, sizeof root, "/tmp/test_tasks.XXXXXX");
    if (!mkdtemp(root))
        return -1;
    return write_pictures("train-images-idx3-ubyte", "train-labels-idx1-ubyte", 1) &&
                   write_pictures("t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte", 2) &&
                   task_write_text(path_of("text.txt", path))
               ? 0
               : -1;
}

static int tear_down(void **state)
{
    (void)state;
    char command[128];
    snprintf(command, sizeof command, "rm -rf '%s'", root);
    return system(command);
}

// ---- gradients ----------------------------------------------------------------------------------

typedef struct checked {
    mh_context *context;
    mh_model *model;
    mh_model_input input;
    int32_t targets[8];
    size_t rows; // of hidden states
    bool text;
    float dropout;
    mh_tape *tape;
} checked;

// The mean loss, and its gradients unless `gradients` is NULL.
static double loss_of(const checked *c, const mh_model_gradients *gradients)
{
    static float hidden_values[4096], logits_values[4096], dhidden_values[4096];
    const mh_description *d = &c->model->description;
    const size_t D = d->block.d_model, n = c->text ? c->rows : c->input.sequences;
    mh_tensor hidden = mh_tensor_2d(hidden_values, MH_F32, c->rows, D);
    mh_tensor dhidden = mh_tensor_2d(dhidden_values, MH_F32, c->rows, D);
    mh_tensor logits = mh_tensor_2d(logits_values, MH_F32, n, c->text ? d->vocabulary : d->labels);
    const mh_tensor targets = mh_tensor_1d((int32_t *)c->targets, MH_I32, n);
    const mh_cross_entropy_options o = mh_cross_entropy_options_default();
    mh_model_input input = c->input;
    double loss;
    input.tape = gradients ? c->tape : NULL;
    test_ok(c->context, mh_model_hidden(c->context, c->model, &input, &hidden));
    test_ok(c->context, c->text
                            ? mh_model_logits(c->context, c->model, &hidden, &logits)
                            : mh_model_classify(c->context, c->model, &input, &hidden, &logits));
    test_ok(c->context, mh_cross_entropy(c->context, &o, &logits, &targets, &loss, NULL, &logits));
    if (!gradients)
        return loss;
    memset(dhidden_values, 0, sizeof dhidden_values);
    test_ok(c->context, c->text ? mh_model_logits_backward(c->context, c->model, &hidden, &logits,
                                                           &dhidden, gradients)
                                : mh_model_classify_backward(c->context, c->model, &input, &hidden,
                                                             &logits, &dhidden, gradients));
    test_ok(c->context,
            mh_model_hidden_backward(c->context, c->model, &input, &dhidden, gradients));
    return loss;
}

// The slope of the loss along a random direction of +-1, by the gradients g and by differences.
static void compare_slope(const checked *c, float *values, const float *saved, size_t count,
                          const float *g, test_rng *rng, double *slope, double *found)
{
    const float step = 5e-4F;
    double losses[2];
    for (int side = 0; side < 2; side++) {
        test_rng same = *rng;
        *slope = 0;
        for (size_t k = 0; k < count; k++) {
            const float d = test_chance(&same, 0.5) ? step : -step;
            values[k] = saved[k] + (side ? d : -d);
            *slope += (double)d * (double)g[k];
        }
        losses[side] = loss_of(c, NULL);
    }
    test_random(rng);
    memcpy(values, saved, count * sizeof *saved);
    *slope /= (double)step;
    *found = (losses[1] - losses[0]) / (2 * (double)step);
}

// Along random directions of each parameter, the slope of the loss is that of its gradients.
static void compare_gradients(const checked *c, const mh_parameters *list, const float *gradients)
{
    enum { DIRECTIONS = 4 };
    test_rng rng = {test_seed()};
    for (size_t i = 0; i < list->count; i++) {
        const mh_parameter *p = &list->list[i];
        const float *g = gradients + p->offset;
        float saved[2048];
        double square = 0;
        for (size_t k = 0; k < p->count; k++)
            square += (double)g[k] * (double)g[k];
        const double norm = sqrt(square);
        if (strstr(p->name, "in_proj_bias") == NULL && norm < 1e-7)
            fail_msg("%s has no gradient", p->name);
        assert_true(p->count <= sizeof saved / sizeof *saved);
        memcpy(saved, list->values + p->offset, p->count * sizeof *saved);
        for (int n = 0; n < DIRECTIONS; n++) {
            double slope, found;
            compare_slope(c, list->values + p->offset, saved, p->count, g, &rng, &slope, &found);
            if (fabs(found - slope) > 1e-2 * norm + 1e-4) // twice the largest difference
                fail_msg("%s: differences %g, gradients %g", p->name, found, slope);
        }
    }
}

static void check_gradients(checked *c, const char *config)
{
    c->context = test_context(NULL, 1);
    test_ok(c->context, mh_model_create(c->context, config, strlen(config), MH_PRECISION_F32,
                                        c->dropout, &c->model));
    test_ok(c->context, mh_tape_create(c->context, &c->tape));
    const mh_parameters *ends = mh_model_parameters(c->model);
    const mh_parameters *blocks = mh_transformer_parameters(mh_model_transformer(c->model));
    mh_parameters_init(ends, 3);
    mh_parameters_init(blocks, 4);
    for (size_t i = 0; i < ends->floats; i++)
        ends->values[i] *= 10; // gradients that float differences can show
    mh_model_gradients g = mh_model_gradients_default();
    g.blocks = calloc(blocks->floats, sizeof(float));
    g.ends = calloc(ends->floats, sizeof(float));
    assert_non_null(g.blocks);
    assert_non_null(g.ends);
    loss_of(c, &g);
    compare_gradients(c, ends, g.ends);
    compare_gradients(c, blocks, g.blocks);
    free(g.blocks);
    free(g.ends);
    mh_tape_free(c->tape);
    mh_model_free(c->model);
    mh_context_free(c->context);
}

static void test_picture_gradients(void **state)
{
    (void)state;
    static const char config[] =
        "{\"model_type\": \"vit\", \"architectures\": [\"ViTForImageClassification\"], "
        "\"image_size\": 4, \"patch_size\": 2, \"num_channels\": 2, \"hidden_size\": 8, "
        "\"num_hidden_layers\": 2, \"num_attention_heads\": 2, \"intermediate_size\": 12, "
        "\"num_labels\": 3}";
    static const int64_t starts[] = {0, 5, 10, 15};
    float pixels[3 * 32];
    mh_tensor views[3];
    for (int i = 0; i < 96; i++)
        pixels[i] = (float)((i * 37 + i * i * 11) % 101) / 50 - 1;
    for (int i = 0; i < 3; i++)
        views[i] = mh_tensor_3d(pixels + 32 * i, MH_F32, 2, 4, 4);
    checked c = {.targets = {2, 0, 1}, .rows = 15};
    c.input = mh_model_input_default();
    c.input.sequences = 3;
    c.input.starts = starts;
    c.input.pixels = views;
    check_gradients(&c, config);
    c.input.training = true;
    c.dropout = 0.25F;
    check_gradients(&c, config);
}

// Grouped heads, and a head of its own.
#define WIDE                                                                                       \
    "\"hidden_size\": 8, \"num_hidden_layers\": 2, \"num_attention_heads\": 2, "                   \
    "\"num_key_value_heads\": 1, \"intermediate_size\": 12, \"vocab_size\": 11, "                  \
    "\"max_position_embeddings\": 6, \"tie_word_embeddings\": false"

static void check_text_gradients(float dropout)
{
    static const char *const configs[] = {
        "{\"model_type\": \"gpt2\", \"n_embd\": 8, \"n_layer\": 2, \"n_head\": 2, \"n_positions\": "
        "6, "
        "\"vocab_size\": 11, \"tie_word_embeddings\": true}",
        "{\"model_type\": \"llama\", \"hidden_size\": 8, \"num_hidden_layers\": 2, "
        "\"num_attention_heads\": 2, \"intermediate_size\": 12, \"vocab_size\": 11, "
        "\"max_position_embeddings\": 6, \"tie_word_embeddings\": true}",
        "{\"model_type\": \"mistral\", \"sliding_window\": 3, " WIDE "}",
        "{\"model_type\": \"qwen2\", " WIDE "}",
        "{\"model_type\": \"qwen3\", \"head_dim\": 4, " WIDE "}",
        "{\"model_type\": \"gemma2\", \"head_dim\": 4, \"query_pre_attn_scalar\": 4, "
        "\"sliding_window\": 3, \"attn_logit_softcapping\": 2.0, \"final_logit_softcapping\": 3.0, "
        "\"hidden_activation\": \"gelu_pytorch_tanh\", " WIDE "}",
        "{\"model_type\": \"gemma3_text\", \"head_dim\": 4, \"query_pre_attn_scalar\": 4, "
        "\"sliding_window\": 3, \"hidden_activation\": \"gelu_pytorch_tanh\", " WIDE "}",
        "{\"model_type\": \"gpt_neox\", \"hidden_size\": 8, \"num_hidden_layers\": 2, "
        "\"num_attention_heads\": 2, \"intermediate_size\": 12, \"vocab_size\": 11, "
        "\"rotary_pct\": 0.5, \"max_position_embeddings\": 6, \"tie_word_embeddings\": false}"};
    static const int64_t starts[] = {0, 5, 8};
    static const int32_t ids[] = {2, 7, 1, 4, 4, 2, 9, 10};
    for (size_t i = 0; i < sizeof configs / sizeof *configs; i++) {
        checked c = {
            .targets = {7, 1, 4, 4, 2, 9, 10, 2}, .rows = 8, .text = true, .dropout = dropout};
        c.input = mh_model_input_default();
        c.input.sequences = 2;
        c.input.starts = starts;
        c.input.ids = ids;
        c.input.training = dropout > 0;
        c.input.seed = 7;
        c.input.step = 3;
        check_gradients(&c, configs[i]);
    }
}

static void test_text_gradients(void **state)
{
    (void)state;
    check_text_gradients(0);
}

static void test_dropout_gradients(void **state)
{
    (void)state;
    check_text_gradients(0.25F);
}

// ---- runs ---------------------------------------------------------------------------------------

typedef struct watched {
    uint64_t stop_at;
    double first_loss, loss, accuracy, bits;
    bool sample;
    size_t held_out;
    size_t bad; // files that were reported
    char why[400];
    mh_train_result result;
} watched;

static bool watch(void *user, const mh_train_event *e)
{
    watched *w = user;
    w->held_out = e->held_out;
    if (e->kind == MH_TRAIN_UPDATED && e->update == 1)
        w->first_loss = e->loss;
    if (e->kind == MH_TRAIN_VALIDATED) {
        w->loss = e->valid_loss;
        w->accuracy = e->accuracy;
        w->bits = e->bits_per_byte;
        w->sample |= e->sample != NULL; // an early one may be empty
    }
    return !(e->kind == MH_TRAIN_UPDATED && e->update == w->stop_at);
}

static void keep_bad(void *user, const char *file, size_t line, const char *why)
{
    watched *w = user;
    w->bad++;
    snprintf(w->why, sizeof w->why, "%s:%zu: %s", file, line, why);
}

static mh_train_options images_options(mh_translator_config *model)
{
    static char data[128], valid[128];
    mh_train_options o = task_pictures_options(model);
    o.data = path_of("train-images-idx3-ubyte", data);
    o.valid = path_of("t10k-images-idx3-ubyte", valid);
    return o;
}

static mh_train_options text_options(mh_translator_config *model, mh_lm_arch arch)
{
    static char data[128];
    mh_train_options o = task_text_options(model, arch);
    o.data = path_of("text.txt", data);
    return o;
}

static void keep_warning(void *user, mh_log_level level, const char *message)
{
    if (level == MH_LOG_WARNING)
        snprintf(user, 200, "%s", message);
}

// Keeps the last warning.
static mh_context *warned_context(char warning[200])
{
    mh_context_options options = mh_context_options_default();
    mh_context *context;
    options.log = keep_warning;
    options.log_user = warning;
    assert_int_equal(mh_context_create(&options, &context, NULL, 0), MH_OK);
    return context;
}

static void run_in(const char *directory, mh_train_options *o, size_t threads, watched *w)
{
    mh_context *context = test_context(NULL, threads);
    mh_train_result result = mh_train_result_default();
    char path[128];
    o->directory = path_of(directory, path);
    o->event = watch;
    o->bad_line = keep_bad;
    o->user = w;
    test_ok(context, mh_train(context, o, &result));
    assert_true(result.stopped == (w->stop_at > 0));
    w->result = result;
    mh_context_free(context);
}

static void same_file(const char *a, const char *b, const char *name)
{
    char paths[2][128], directory[128];
    mh_mapping files[2];
    mh_context *context = test_context(NULL, 1);
    const char *const directories[] = {a, b};
    for (int i = 0; i < 2; i++) {
        snprintf(paths[i], sizeof paths[i], "%.90s/%s", path_of(directories[i], directory), name);
        test_ok(context, mh_file_map(context, paths[i], &files[i]));
    }
    assert_int_equal(files[0].size, files[1].size);
    assert_memory_equal(files[0].data, files[1].data, files[0].size);
    mh_file_unmap(&files[0]);
    mh_file_unmap(&files[1]);
    mh_context_free(context);
}

// A run with one thread, and one with two that is stopped twice, give the same bytes.
static void check_resumed(mh_train_options *o, const char *whole, const char *cut, uint64_t last)
{
    watched w = {0};
    run_in(whole, o, 1, &w);
    for (uint64_t stop = 2; stop <= last; stop += last - 2) {
        watched stopped = {.stop_at = stop};
        run_in(cut, o, 2, &stopped);
    }
    watched rest = {0};
    run_in(cut, o, 2, &rest);
    same_file(whole, cut, "model.safetensors");
    same_file(whole, cut, "checkpoint.safetensors");
    same_file(whole, cut, "config.json");
}

static void test_images_resume(void **state)
{
    (void)state;
    mh_translator_config model;
    mh_train_options o = images_options(&model);
    o.flip = true;
    o.after = (mh_duration){3, MH_EPOCHS};
    check_resumed(&o, "images", "images-cut", 7);
}

static void test_text_resumes(void **state)
{
    (void)state;
    mh_translator_config model;
    mh_train_options o = text_options(&model, MH_LM_GPT2);
    model.dropout = 0.2F;
    check_resumed(&o, "text", "text-cut", 23);
}

// Fine-tuning starts where the other run has ended, also from half precision, and needs its model
// no more.
static void test_text_starts_from_a_model(void **state)
{
    (void)state;
    static const char *const names[] = {"start-gpt2", "start-llama"};
    for (int arch = MH_LM_GPT2; arch <= MH_LM_LLAMA; arch++) {
        mh_translator_config model;
        mh_train_options o = text_options(&model, (mh_lm_arch)arch);
        char init[128], path[128], cut[32];
        watched first = {0}, tuned = {0}, rest = {0}, stopped = {.stop_at = 6};
        o.weights = arch ? MH_BF16 : MH_F32;
        run_in(names[arch], &o, 1, &first);
        o.init = path_of(names[arch], init);
        o.model = NULL;
        o.learning_rate = 1e-3;
        o.after.count = 10;
        snprintf(path, sizeof path, "tuned-%d", arch);
        run_in(path, &o, 2, &tuned);
        assert_true(tuned.first_loss < first.loss + 0.1);
        assert_true(tuned.first_loss < 0.7 * first.first_loss);
        snprintf(cut, sizeof cut, "tuned-cut-%d", arch);
        run_in(cut, &o, 1, &stopped);
        run_in(cut, &o, 1, &rest);
        same_file(path, cut, "model.safetensors");
        same_file(path, cut, "checkpoint.safetensors");
        same_file(path, cut, "config.json");
        same_file(names[arch], cut, "tokenizer.json");
    }
}

static void test_images_learn(void **state)
{
    (void)state;
    mh_translator_config model;
    mh_train_options o = images_options(&model);
    watched w = {0};
    char path[128];
    o.after = (mh_duration){60, MH_EPOCHS};
    run_in("learn", &o, 1, &w);
    assert_true(w.accuracy > 0.95);
    assert_true(w.loss < w.first_loss);
    assert_true(w.result.best_accuracy > 0.95 && w.result.best_accuracy <= 1);
    assert_true(isnan(w.result.best_bleu));
    mh_context *context = test_context(NULL, 1);
    mh_model *loaded;
    test_ok(context, mh_model_load(context, path_of("learn", path), NULL, &loaded));
    assert_int_equal(mh_model_describe(loaded)->labels, 3);
    assert_string_equal(mh_model_label(loaded, 0), "5");
    assert_string_equal(mh_model_label(loaded, 2), "7");
    unsigned char pixels[SIDE * SIDE];
    memset(pixels, 20, sizeof pixels);
    memset(pixels, 180, sizeof pixels / 2); // light above: the first label
    const mh_image image = {SIDE, SIDE, 1, pixels};
    float values[3];
    mh_tensor logits = mh_tensor_2d(values, MH_F32, 1, 3);
    test_ok(context, mh_model_classify_pictures(context, loaded, &image, 1, &logits));
    assert_true(values[0] > values[1] && values[0] > values[2]);
    mh_model_free(loaded);
    mh_context_free(context);
}

static void test_text_is_learnt(void **state)
{
    (void)state;
    for (int arch = MH_LM_GPT2; arch <= MH_LM_LLAMA; arch++) {
        mh_translator_config model;
        mh_train_options o = text_options(&model, (mh_lm_arch)arch);
        const char *name = arch ? "llama" : "gpt2";
        char path[128];
        watched w = {0};
        o.weights = arch ? MH_BF16 : MH_F32;
        run_in(name, &o, 1, &w);
        assert_true(w.loss < 0.6 * w.first_loss);
        assert_true(w.bits > 0 && w.bits < 3);
        assert_true(w.sample);
        assert_in_range(w.held_out, 5, 15); // of 3.6 KB
        assert_true(isnan(w.result.best_bleu) && isnan(w.result.best_accuracy));
        assert_true(w.result.best_loss > 0);
        mh_context *context = test_context(NULL, 1);
        mh_model *loaded;
        test_ok(context, mh_model_load(context, path_of(name, path), NULL, &loaded));
        assert_true(mh_model_describe(loaded)->abilities & MH_CAN_GENERATE);
        assert_int_equal(mh_tokenizer_size(mh_model_tokenizer(loaded)),
                         mh_model_describe(loaded)->vocabulary);
        mh_model_free(loaded);
        mh_context_free(context);
    }
}

// ---- text data ----------------------------------------------------------------------------------

typedef struct reported {
    size_t count, line;
} reported;

static void count_bad(void *user, const char *file, size_t line, const char *why)
{
    reported *r = user;
    assert_non_null(strstr(file, "bad.txt"));
    assert_non_null(strstr(why, "0xc3"));
    r->count++;
    r->line = line;
}

static void check_hold_out(mh_context *context, mh_documents *d, double part, size_t documents,
                           size_t held, size_t bytes)
{
    size_t count, found = 0;
    test_ok(context, mh_documents_hold_out(context, d, part, &count));
    assert_int_equal(count, held);
    assert_int_equal(d->count, documents);
    for (size_t i = 0; i < count; i++)
        found += d->list[d->count - 1 - i].size;
    assert_int_equal(found, bytes);
}

static void test_documents(void **state)
{
    (void)state;
    static const char bad[] = "\xEF\xBB\xBF\n\n one\ntwo\r\n \t\r\n\nthree\nf\303(our\n\nfive";
    char paths[2][128];
    char *line = malloc(100000);
    mh_context *context = test_context(NULL, 1);
    assert_non_null(line);
    for (int i = 0; i < 100000; i++)
        line[i] = (char)(i % 10 == 9 ? ' ' : 'a' + i % 7);
    write_bytes("bad.txt", bad, sizeof bad - 1);
    write_bytes("line.txt", line, 100000);
    const char *const more[] = {path_of("line.txt", paths[1])};
    reported r = {0, 0};
    mh_documents_files files = {path_of("bad.txt", paths[0]), more, 1, count_bad, &r};
    mh_documents d;
    test_ok(context, mh_documents_read(context, &files, &d));
    assert_int_equal(d.count, 3); // the files are apart
    assert_int_equal(d.bad, 1);
    assert_int_equal(r.count, 1);
    assert_int_equal(r.line, 8);
    assert_memory_equal(d.list[0].bytes, " one\ntwo", d.list[0].size);
    assert_memory_equal(d.list[1].bytes, "five", d.list[1].size);
    assert_int_equal(d.list[2].size, 100000);
    check_hold_out(context, &d, 0, 3, 0, 0);
    check_hold_out(context, &d, 0.01, 4, 1, 1001); // at a space
    check_hold_out(context, &d, 0.9, 4, 2, 100000);
    mh_documents_free(context, &d);
    const char *const standard[] = {"-"};
    files = (mh_documents_files){"-", standard, 1, NULL, NULL};
    test_refused(context, mh_documents_read(context, &files, &d), MH_ERROR_ARGUMENT, "twice");
    mh_documents_free(context, &d);
    mh_context_free(context);
    free(line);
}

// Examples of three tokens after the first: each document ends with </s>, and begins with <s> if
// texts of the model do.
static void test_packed_documents(void **state)
{
    (void)state;
    static const char text[] = "ab\n\nc\n\nde";
    static const char *const expected[2] = {"</s>ab</s></s>c</s>dde</s>",
                                            "<s>ab</s></s><s>c</s></s><s>dee</s>"};
    const mh_text texts[] = {{"a", 1}};
    char path[128];
    mh_context *context = test_context(NULL, 1);
    mh_tokenizer_options options = mh_tokenizer_options_default();
    mh_tokenizer *tokenizer;
    mh_documents d;
    options.merges = 0;
    test_ok(context, mh_tokenizer_train(context, &options, texts, 1, &tokenizer));
    write_bytes("packed.txt", text, sizeof text - 1);
    const mh_documents_files files = {.path = path_of("packed.txt", path)};
    test_ok(context, mh_documents_read(context, &files, &d));
    for (int begins = 0; begins < 2; begins++) {
        mh_dataset examples;
        mh_text token;
        uint64_t bytes;
        char found[128] = "";
        const int32_t bos = begins ? mh_tokenizer_bos(tokenizer) : -1;
        test_ok(context, mh_documents_examples(context, &d, 0, d.count, tokenizer, bos,
                                               mh_tokenizer_eos(tokenizer), 3, &examples, &bytes));
        assert_int_equal(bytes, 5);
        for (size_t i = 0; i < examples.starts[2 * examples.count]; i++) {
            assert_true(mh_tokenizer_token(tokenizer, examples.ids[i], &token, NULL));
            strncat(found, token.bytes, token.size);
        }
        assert_string_equal(found, expected[begins]);
        mh_dataset_free(context, &examples);
    }
    mh_documents_free(context, &d);
    mh_tokenizer_free(tokenizer);
    mh_context_free(context);
}

// ---- classification of texts --------------------------------------------------------------------

// Texts whose label a word tells; `names` are the labels.
static const char *write_texts(const char *name, const char *const names[3], int count)
{
    static char path[128];
    assert_true(task_write_labelled(path_of(name, path), names, count));
    return path;
}

static mh_train_options label_options(mh_translator_config *model, const char *data)
{
    mh_train_options o = task_labels_options(model);
    o.data = data;
    return o;
}

static mh_model *load_classifier(mh_context *context, const char *name)
{
    char path[128];
    mh_model *model;
    test_ok(context, mh_model_load(context, path_of(name, path), NULL, &model));
    assert_true(mh_model_describe(model)->abilities & MH_CAN_CLASSIFY);
    return model;
}

static const char *const colours[3] = {"10", "9", "warm \"one\""};

static void test_texts_are_classified(void **state)
{
    (void)state;
    mh_translator_config model;
    mh_train_options o = label_options(&model, write_texts("labels.tsv", colours, 240));
    watched w = {0};
    o.after.count = 12;
    run_in("labels", &o, 1, &w);
    assert_true(w.accuracy > 0.95); // of those that are held out
    mh_context *context = test_context(NULL, 1);
    mh_model *loaded = load_classifier(context, "labels");
    assert_string_equal(mh_model_label(loaded, 0), "9"); // numbers by value
    assert_string_equal(mh_model_label(loaded, 1), "10");
    assert_string_equal(mh_model_label(loaded, 2), "warm \"one\"");
    const mh_text text = {"the blue sky number 3", 21};
    mh_model_texts *texts;
    test_ok(context, mh_model_encode(context, loaded, true, &text, 1, &texts));
    const mh_model_input *input = mh_model_texts_input(texts);
    assert_int_equal(input->ids[0], 1); // <s>, and </s> at the end
    assert_int_equal(input->ids[input->starts[1] - 1], 2);
    float hidden_values[24 * 16], values[3];
    mh_tensor hidden = mh_tensor_2d(hidden_values, MH_F32, (size_t)input->starts[1], 16);
    mh_tensor logits = mh_tensor_2d(values, MH_F32, 1, 3);
    test_ok(context, mh_model_hidden(context, loaded, input, &hidden));
    test_ok(context, mh_model_classify(context, loaded, input, &hidden, &logits));
    assert_true(values[0] > values[1] && values[0] > values[2]);
    mh_model_texts_free(context, texts);
    mh_model_free(loaded);
    mh_context_free(context);
}

// ---- tokenizers that are given ------------------------------------------------------------------

// WordPiece, with these special tokens and post_processor.
static const char *write_word_tokenizer(const char *specials, const char *post)
{
    static char path[128];
    char text[2000];
    snprintf(text, sizeof text,
             "{\"added_tokens\": [%s], \"normalizer\": null, \"pre_tokenizer\": {\"type\": "
             "\"Whitespace\"}, \"post_processor\": %s, \"decoder\": null, \"model\": {\"type\": "
             "\"WordPiece\", \"unk_token\": \"[UNK]\", \"continuing_subword_prefix\": \"##\", "
             "\"max_input_chars_per_word\": 100, \"vocab\": {\"[UNK]\": 0, \"the\": 1, \"red\": 2, "
             "\"blue\": 3, \"green\": 4, \"[SEP]\": 5, \"[CLS]\": 6}}}",
             specials, post);
    write_bytes("words.json", text, strlen(text));
    return path_of("words.json", path);
}

#define SPECIAL(id, name)                                                                          \
    "{\"id\": " id ", \"content\": \"" name "\", \"single_word\": false, \"lstrip\": false, "      \
    "\"rstrip\": false, \"normalized\": false, \"special\": true}"

static void check_first_and_last(mh_context *context, const char *name, int32_t first, int32_t last)
{
    const mh_text text = {"the blue sky", 12};
    mh_model *model = load_classifier(context, name);
    mh_model_texts *texts;
    test_ok(context, mh_model_encode(context, model, true, &text, 1, &texts));
    const mh_model_input *input = mh_model_texts_input(texts);
    assert_int_equal(input->ids[0], first);
    assert_int_equal(input->ids[input->starts[1] - 1], last);
    mh_model_texts_free(context, texts);
    mh_model_free(model);
}

static bool file_has(const char *path, const char *text)
{
    mh_mapping mapping;
    mh_context *context = test_context(NULL, 1);
    char copy[2000] = "";
    test_ok(context, mh_file_map(context, path, &mapping));
    assert_true(mapping.size < sizeof copy);
    memcpy(copy, mapping.data, mapping.size);
    mh_file_unmap(&mapping);
    mh_context_free(context);
    return strstr(copy, text);
}

// A tokenizer without a template gets one of its own tokens, which the files name.
static void test_classifier_with_a_tokenizer(void **state)
{
    (void)state;
    mh_context *context = test_context(NULL, 1);
    mh_translator_config model;
    mh_train_options o = label_options(&model, write_texts("given.tsv", colours, 120));
    mh_tokenizer *learnt;
    watched w = {0};
    char path[128];
    const mh_text text = {"the red apple", 13};
    test_ok(context, mh_tokenizer_train(context, NULL, &text, 1, &learnt));
    test_ok(context, mh_tokenizer_save(context, learnt, path_of("plain.json", path)));
    mh_tokenizer_free(learnt);
    o.tokenizer = path;
    o.after = (mh_duration){2, MH_UPDATES};
    run_in("labels-plain", &o, 1, &w);
    check_first_and_last(context, "labels-plain", 1, 2);
    o.tokenizer = write_word_tokenizer(SPECIAL("5", "[SEP]") ", " SPECIAL("6", "[CLS]"), "null");
    run_in("labels-words", &o, 1, &w);
    check_first_and_last(context, "labels-words", 6, 5);
    assert_true(file_has(path_of("labels-words/config.json", path), "\"pad_token_id\": null"));
    path_of("labels-words/tokenizer_config.json", path);
    assert_true(file_has(path, "\"cls_token\": \"[CLS]\""));
    assert_true(file_has(path, "\"sep_token\": \"[SEP]\""));
    assert_false(file_has(path, "<s>"));
    assert_false(file_has(path, "pad_token"));
    mh_context_free(context);
}

// Nothing is written before all is known to be right.
static void test_classifier_refuses_a_tokenizer(void **state)
{
    (void)state;
    static const struct {
        const char *specials, *post, *message;
    } cases[] = {
        {SPECIAL("5", "[SEP]"), "null", "no special token that begins a text: expected [CLS]"},
        {SPECIAL("6", "[CLS]"), "null", "no special token that ends a text: expected [CLS]"},
        {SPECIAL("5", "[SEP]") ", " SPECIAL("6", "[CLS]"),
         "{\"type\": \"ByteLevel\", \"add_prefix_space\": true, \"trim_offsets\": false}",
         "post_processor puts no token before a text"},
    };
    mh_context *context = test_context(NULL, 1);
    char path[128];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        mh_translator_config model;
        mh_train_options o = label_options(&model, write_texts("given.tsv", colours, 120));
        mh_train_result result = mh_train_result_default();
        o.tokenizer = write_word_tokenizer(cases[i].specials, cases[i].post);
        o.directory = path_of("refused-tokenizer", path);
        test_refused(context, mh_train(context, &o, &result), MH_ERROR_UNSUPPORTED,
                     cases[i].message);
        o = label_options(&model, o.data);
        o.directory = path;
        o.patience = 3;
        o.held_out = 0;
        test_refused(context, mh_train(context, &o, &result), MH_ERROR_ARGUMENT, "patience");
        assert_int_not_equal(access(path, F_OK), 0);
    }
    mh_context_free(context);
}

static void test_classification_resumes(void **state)
{
    (void)state;
    mh_translator_config model;
    mh_train_options o = label_options(&model, write_texts("resumed.tsv", colours, 120));
    model.dropout = 0.2F;
    o.batch_tokens = MH_BATCH_TOKENS_AUTO; // kept by a longer run
    check_resumed(&o, "labels-whole", "labels-cut", 9);
    watched longer = {0};
    o.after.count *= 3;
    run_in("labels-cut", &o, 1, &longer);
}

// A classifier goes on with its own labels; for others it gets a new head, and keeps the rest.
static void test_classification_starts_from_a_model(void **state)
{
    (void)state;
    static const char *const others[3] = {"b", "a", "c"};
    mh_translator_config model;
    char init[128];
    watched first = {0}, same = {0}, other = {0};
    mh_train_options o = label_options(&model, write_texts("first.tsv", colours, 240));
    o.after.count = 12;
    run_in("labels-first", &o, 1, &first);
    o.init = path_of("labels-first", init);
    o.model = NULL;
    o.learning_rate = 1e-4;
    run_in("labels-same", &o, 2, &same);
    assert_true(same.first_loss < 0.1 * first.first_loss);
    o.data = write_texts("others.tsv", others, 240);
    run_in("labels-other", &o, 1, &other);
    assert_true(other.first_loss > 0.5 * first.first_loss);
    mh_context *context = test_context(NULL, 1);
    mh_model *loaded = load_classifier(context, "labels-other");
    assert_string_equal(mh_model_label(loaded, 0), "a");
    mh_model_free(loaded);
    mh_context_free(context);
    o.learning_rate = 1e-3;
    check_resumed(&o, "labels-tuned", "labels-tuned-cut", 9);
}

// Numbers by value, then other labels by their bytes, whatever the order of the texts.
static void test_labels_are_sorted(void **state)
{
    (void)state;
    static const char *const data[] = {"10\ta b\n9\tc d\n1a\te f\n", "1a\te f\n9\tc d\n10\ta b\n"};
    static const char *const names[] = {"labels-down", "labels-up"};
    for (size_t i = 0; i < 2; i++) {
        mh_translator_config model;
        watched w = {0};
        char path[128];
        write_bytes("mixed.tsv", data[i], strlen(data[i]));
        mh_train_options o = label_options(&model, path_of("mixed.tsv", path));
        o.after.count = 1;
        run_in(names[i], &o, 1, &w);
        mh_context *context = test_context(NULL, 1);
        mh_model *loaded = load_classifier(context, names[i]);
        assert_string_equal(mh_model_label(loaded, 0), "9");
        assert_string_equal(mh_model_label(loaded, 1), "10");
        assert_string_equal(mh_model_label(loaded, 2), "1a");
        mh_model_free(loaded);
        mh_context_free(context);
    }
}

// The part that is asked for, though it is more than what is held out by default.
static void test_part_is_held_out(void **state)
{
    (void)state;
    mh_translator_config model;
    watched w = {.stop_at = 1};
    mh_train_options o = label_options(&model, write_texts("many.tsv", colours, 8000));
    o.held_out = 0.75;
    run_in("labels-many", &o, 1, &w);
    assert_in_range(w.held_out, 5800, 6200);
}

// The numbers of config.json have a decimal point.
static void test_locale(void **state)
{
    (void)state;
    test_comma_locale();
    mh_translator_config model;
    watched w = {0};
    mh_train_options o = label_options(&model, write_texts("comma.tsv", colours, 120));
    model.dropout = 0.25F;
    o.after.count = 1;
    run_in("labels-comma", &o, 1, &w);
    for (int arch = MH_LM_GPT2; arch <= MH_LM_LLAMA; arch++) {
        o = text_options(&model, (mh_lm_arch)arch);
        model.dropout = 0.25F;
        o.after.count = 1;
        run_in(arch == MH_LM_GPT2 ? "gpt2-comma" : "llama-comma", &o, 1, &w);
    }
    setlocale(LC_NUMERIC, "C");
    char path[128];
    assert_true(file_has(path_of("labels-comma/config.json", path), "_prob\": 0.25,"));
    assert_true(file_has(path_of("gpt2-comma/config.json", path), "attn_pdrop\": 0.25,"));
    assert_true(file_has(path_of("llama-comma/config.json", path), "_dropout\": 0.25,"));
}

// A run that is extended beyond its cosine, where the rate is 0, says so.
static void test_rate_of_zero_is_noted(void **state)
{
    (void)state;
    char warning[200] = "", path[128];
    mh_context *context = warned_context(warning);
    mh_translator_config model;
    mh_train_options o = text_options(&model, MH_LM_GPT2);
    mh_train_result result = mh_train_result_default();
    o.directory = path_of("extended", path);
    o.schedule = MH_SCHEDULE_COSINE;
    o.after = (mh_duration){3, MH_UPDATES};
    test_ok(context, mh_train(context, &o, &result));
    test_ok(context, mh_train(context, &o, &result));
    assert_string_equal(warning, "");
    o.after.count = 4;
    test_ok(context, mh_train(context, &o, &result));
    assert_non_null(strstr(warning, "the learning rate is 0 from update 3 on"));
    mh_context_free(context);
}

// What a model to start from does not have is named.
static void test_new_parameters_are_noted(void **state)
{
    (void)state;
    char warning[200] = "", path[128];
    mh_context *context = warned_context(warning);
    mh_translator_config model;
    mh_train_options o = label_options(&model, write_texts("noted.tsv", colours, 120));
    mh_train_result result = mh_train_result_default();
    static const char vocabulary[] = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nthe\nred\nblue\n";
    char init[128], command[400];
    snprintf(command, sizeof command, "cp -r '%s/models/bert-mlm' '%s'", MH_GOLDENS,
             path_of("no-pooler", init));
    assert_int_equal(system(command), 0);
    write_bytes("no-pooler/vocab.txt", vocabulary, sizeof vocabulary - 1);
    o.init = init;
    o.model = NULL;
    o.directory = path_of("labels-noted", path);
    o.after = (mh_duration){1, MH_UPDATES};
    test_ok(context, mh_train(context, &o, &result));
    assert_string_equal(warning, "newly initialised: pooler.weight, pooler.bias, "
                                 "classifier.weight, classifier.bias");
    mh_context_free(context);
}

static void refuse_texts(const char *text, const char *init, const char *message)
{
    mh_context *context = test_context(NULL, 1);
    mh_train_result result = mh_train_result_default();
    mh_translator_config model;
    char path[128], directory[128], from[128];
    write_bytes("refused.tsv", text, strlen(text));
    mh_train_options o = label_options(&model, path_of("refused.tsv", path));
    o.directory = path_of("refused-texts", directory);
    if (init) {
        o.init = path_of(init, from);
        o.model = NULL;
    }
    assert_int_not_equal(mh_train(context, &o, &result), MH_OK);
    if (!strstr(mh_error_message(context), message))
        fail_msg("found \"%s\", expected \"%s\"", mh_error_message(context), message);
    mh_context_free(context);
}

static void test_damaged_labels(void **state)
{
    (void)state;
    mh_translator_config model;
    mh_train_options o = text_options(&model, MH_LM_GPT2);
    watched w = {0};
    o.after.count = 2;
    run_in("no-classifier", &o, 1, &w);
    refuse_texts("", NULL, "no text: 0 lines");
    refuse_texts("good,a film\nbad,a film\n", NULL, "2 of them bad");
    refuse_texts("good\ta film\ngood\tanother\n", NULL, "found one label, good");
    refuse_texts("good\ta film\nbad\tanother\n", "no-classifier", "this is gpt2, for --task lm");
    refuse_texts("good\ta film\nbad\tanother\n", "nowhere", "nowhere");
}

// ---- damaged data -------------------------------------------------------------------------------

static void refuse(const char *data, const char *message)
{
    mh_context *context = test_context(NULL, 1);
    mh_train_result result = mh_train_result_default();
    mh_translator_config model;
    mh_train_options o = images_options(&model);
    char path[128], directory[128];
    o.data = path_of(data, path);
    o.valid = NULL;
    o.directory = path_of("refused", directory);
    assert_int_not_equal(mh_train(context, &o, &result), MH_OK);
    if (!strstr(mh_error_message(context), message))
        fail_msg("found \"%s\", expected \"%s\"", mh_error_message(context), message);
    mh_context_free(context);
}

static void test_damaged_idx(void **state)
{
    (void)state;
    const unsigned char bomb[] = {0, 0, 8, 3, 255, 255, 255, 255, 0, 0, 255, 255, 0, 0, 255, 255};
    const unsigned char many[] = {0, 0, 8, 3, 255, 255, 255, 255, 0, 0, 0, 4, 0, 0, 0, 4};
    const unsigned char labels[] = {0, 0, 8, 1, 255, 255, 255, 255, 1, 2};
    const unsigned char floats[] = {0, 0, 13, 3, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 1};
    const unsigned char empty[] = {0, 0, 8, 3, 0, 0, 0, 0, 0, 0, 0, 4, 0, 0, 0, 4};
    const unsigned char tall[] = {0, 0, 8, 3, 255, 255, 255, 255, 0, 0, 255, 255, 0, 0, 0, 1};
    const unsigned char two[] = {0, 0, 8, 1, 0, 0, 0, 2, 1, 1};
    unsigned char same[16 + 2 * 16] = {0, 0, 8, 3, 0, 0, 0, 2, 0, 0, 0, 4, 0, 0, 0, 4};
    write_bytes("bomb-images-idx3-ubyte", bomb, sizeof bomb);
    write_bytes("bomb-labels-idx1-ubyte", labels, sizeof labels);
    refuse("bomb-images-idx3-ubyte", "expected at most");
    write_bytes("bomb-images-idx3-ubyte", many, sizeof many);
    refuse("bomb-images-idx3-ubyte", "cut off");
    write_bytes("bomb-images-idx3-ubyte", floats, sizeof floats);
    refuse("bomb-images-idx3-ubyte", "found bytes 0 0 13 3");
    write_bytes("bomb-images-idx3-ubyte", tall, sizeof tall);
    refuse("bomb-images-idx3-ubyte", "pictures of 65535 rows, expected at most 4096");
    write_bytes("bomb-images-idx3-ubyte", empty, sizeof empty);
    refuse("bomb-images-idx3-ubyte", "size 0: found 0");
    write_bytes("bomb-images-idx3-ubyte", same, sizeof same);
    refuse("bomb-images-idx3-ubyte", "expected as many");
    write_bytes("bomb-labels-idx1-ubyte", two, sizeof two);
    refuse("bomb-images-idx3-ubyte", "found one label, 1");
    write_bytes("pictures", same, sizeof same);
    refuse("pictures", "expected a name with images and idx3");
    refuse("text.txt", "expected 0 0 8 3, an idx file");
    refuse("missing", "missing: cannot be opened");
    refuse("missing-images-idx3-ubyte", "missing-images-idx3-ubyte");
    char path[128];
    assert_int_equal(mkfifo(path_of("pipe-images-idx3-ubyte", path), 0600), 0); // without a writer
    refuse("pipe-images-idx3-ubyte", "pipe-images-idx3-ubyte: is a pipe, expected a regular file");
    write_bytes("half-images-idx3-ubyte", same, sizeof same);
    assert_int_equal(symlink("/dev/zero", path_of("half-labels-idx1-ubyte", path)), 0);
    refuse("half-images-idx3-ubyte", "half-labels-idx1-ubyte: is a device, expected a regular");
}

static void test_damaged_directories(void **state)
{
    (void)state;
    static const char picture[] = "P2\n2 2\n255\n0 255 255 0\n";
    char path[128];
    assert_int_equal(mkdir(path_of("tree", path), 0700), 0);
    refuse("tree", "no pictures");
    assert_int_equal(mkdir(path_of("tree/cat", path), 0700), 0);
    write_bytes("tree/cat/1.pgm", picture, sizeof picture - 1);
    refuse("tree", "found one label, cat");
    assert_int_equal(mkdir(path_of("tree/dog", path), 0700), 0);
    write_bytes("tree/dog/1.pgm", picture, sizeof picture - 1);
    write_bytes("tree/dog/notes.txt", "not a picture", 13);
    mh_translator_config model;
    mh_train_options o = images_options(&model);
    o.data = path_of("tree", path);
    o.valid = NULL;
    o.image_size = 4;
    o.patch_size = 2;
    o.after = (mh_duration){1, MH_UPDATES};
    watched w = {0};
    run_in("trained-tree", &o, 1, &w);
    assert_int_equal(w.bad, 1);
    assert_non_null(strstr(w.why, "notes.txt:0: found an unknown kind of file"));
    assert_int_equal(mkfifo(path_of("tree/dog/pipe.pgm", path), 0600), 0);
    refuse("tree", "tree/dog/pipe.pgm: is a pipe, expected a regular file");
}

// Colours are kept whichever picture comes first: a gray one is like a coloured one of its pixels.
static void test_gray_among_colours(void **state)
{
    (void)state;
    static const char gray[] = "P2\n2 2\n255\n0 90 255 7\n";
    static const char same[] = "P3\n2 2\n255\n0 0 0 90 90 90 255 255 255 7 7 7\n";
    static const char red[] = "P3\n2 2\n255\n200 0 0 9 9 9 255 0 0 0 0 0\n";
    static const char *const trees[] = {"mixed", "coloured"};
    for (int i = 0; i < 2; i++) {
        char path[128], name[64];
        const char *tree = trees[i];
        assert_int_equal(mkdir(path_of(tree, path), 0700), 0);
        for (const char *label = "ab"; *label; label++) {
            snprintf(name, sizeof name, "%s/%c", tree, *label);
            assert_int_equal(mkdir(path_of(name, path), 0700), 0);
        }
        snprintf(name, sizeof name, "%s/a/1.ppm", tree);
        write_bytes(name, i ? same : gray, strlen(i ? same : gray));
        snprintf(name, sizeof name, "%s/b/1.ppm", tree);
        write_bytes(name, red, strlen(red));
        mh_translator_config model;
        mh_train_options o = images_options(&model);
        o.data = path_of(tree, path);
        o.valid = NULL;
        o.image_size = 4;
        o.patch_size = 2;
        o.after = (mh_duration){2, MH_UPDATES};
        watched w = {0};
        run_in(i ? "trained-coloured" : "trained-mixed", &o, 1, &w);
    }
    same_file("trained-mixed", "trained-coloured", "config.json");
    same_file("trained-mixed", "trained-coloured", "model.safetensors");
}

// An option that has no effect is refused.
static void test_options_of_other_tasks(void **state)
{
    (void)state;
    mh_context *context = test_context(NULL, 1);
    const mh_train_options usual = mh_train_options_default();
    mh_train_options o[9];
    const char *const messages[] = {"label_names: expected none, it is for pictures",
                                    "image_size: expected none, it is for",
                                    "flip: expected none, it is for pictures",
                                    "patch_size: expected none",
                                    "tokenizer: expected none, it is for text",
                                    "held_out: expected none, it is for text",
                                    "arch: expected none, it is for language models",
                                    "held_out: expected none with valid",
                                    "data_targets: expected none, it is for translation"};
    for (size_t i = 0; i < 9; i++)
        o[i] = usual;
    o[0].label_names = "a,b";
    o[1].image_size = 8;
    o[2].flip = true;
    o[3].patch_size = 2;
    o[4].tokenizer = "tokenizer.json";
    o[5].held_out = 0.1;
    o[6].arch = MH_LM_LLAMA;
    o[7].held_out = 0.1;
    o[7].valid = "dev.tsv";
    o[8].data_targets = "text.en";
    o[0].task = o[1].task = MH_TASK_CLASSIFICATION;
    o[2].task = o[8].task = MH_TASK_LM;
    o[4].task = o[5].task = MH_TASK_IMAGES;
    for (size_t i = 0; i < 9; i++) {
        mh_train_result result = mh_train_result_default();
        char path[128];
        o[i].data = "text.txt";
        o[i].directory = path_of("refused-options", path);
        test_refused(context, mh_train(context, &o[i], &result), MH_ERROR_ARGUMENT, messages[i]);
    }
    mh_context_free(context);
}

// Text may come from a pipe, but not from a device that never ends.
static void test_devices(void **state)
{
    (void)state;
    static const mh_task_kind kinds[] = {MH_TASK_TRANSLATION, MH_TASK_LM, MH_TASK_CLASSIFICATION};
    char path[128];
    mh_context *context = test_context(NULL, 1);
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        mh_train_options o = mh_train_options_default();
        mh_train_result result = mh_train_result_default();
        o.task = kinds[i];
        o.data = "/dev/zero";
        o.directory = path_of("refused-device", path);
        test_refused(context, mh_train(context, &o, &result), MH_ERROR_FILE,
                     "/dev/zero: is a device, expected a file, a pipe or a terminal");
    }
    mh_context_free(context);
}

static void check_surplus_names(mh_train_options o)
{
    char warning[200] = "", path[128];
    mh_context *context = warned_context(warning);
    mh_train_result result = mh_train_result_default();
    o.label_names = "a,b,c,d,e,f,g,h,i,j";
    o.directory = path_of("surplus", path);
    test_ok(context, mh_train(context, &o, &result));
    assert_string_equal(warning,
                        "label_names: 10 names, but the largest label is 7: the last 2 are "
                        "not used");
    mh_context_free(context);
}

// What a label is called does not change weights.
static void test_label_names(void **state)
{
    (void)state;
    char path[128];
    mh_translator_config model;
    mh_train_options o = images_options(&model);
    o.after = (mh_duration){2, MH_UPDATES};
    watched w = {0};
    run_in("numbers", &o, 1, &w);
    o.label_names = "a,b,c,d,e,T-shirt/top,\"quoted\",Bag";
    run_in("names", &o, 1, &w);
    same_file("numbers", "names", "model.safetensors");
    mh_context *context = test_context(NULL, 1);
    mh_model *loaded;
    test_ok(context, mh_model_load(context, path_of("names", path), NULL, &loaded));
    assert_string_equal(mh_model_label(loaded, 0), "T-shirt/top");
    assert_string_equal(mh_model_label(loaded, 1), "\"quoted\"");
    assert_string_equal(mh_model_label(loaded, 2), "Bag");
    mh_model_free(loaded);
    static const struct {
        const char *names, *message;
    } wrong[] = {{"a,b,c,d,e,f,g", "label_names: found no name of label 7"},
                 {"a,b,c,d,e,,g,h", "label_names: found no name of label 5"},
                 {"", "label_names: found no name of label 5"},
                 {"a,b,c,d,e,f,g,f", "label_names: found f twice: expected different names"},
                 {"a,b,c,d,e,f,g,\xFF", "label_names: found invalid UTF-8"}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        mh_train_result result = mh_train_result_default();
        o.label_names = wrong[i].names;
        o.directory = path_of("refused", path);
        test_refused(context, mh_train(context, &o, &result), MH_ERROR_ARGUMENT, wrong[i].message);
    }
    mh_context_free(context);
    check_surplus_names(o);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_picture_gradients),
        cmocka_unit_test(test_text_gradients),
        cmocka_unit_test(test_dropout_gradients),
        cmocka_unit_test(test_text_starts_from_a_model),
        cmocka_unit_test(test_images_resume),
        cmocka_unit_test(test_text_resumes),
        cmocka_unit_test(test_images_learn),
        cmocka_unit_test(test_text_is_learnt),
        cmocka_unit_test(test_documents),
        cmocka_unit_test(test_packed_documents),
        cmocka_unit_test(test_texts_are_classified),
        cmocka_unit_test(test_classifier_with_a_tokenizer),
        cmocka_unit_test(test_classifier_refuses_a_tokenizer),
        cmocka_unit_test(test_classification_resumes),
        cmocka_unit_test(test_classification_starts_from_a_model),
        cmocka_unit_test(test_labels_are_sorted),
        cmocka_unit_test(test_part_is_held_out),
        cmocka_unit_test(test_locale),
        cmocka_unit_test(test_rate_of_zero_is_noted),
        cmocka_unit_test(test_new_parameters_are_noted),
        cmocka_unit_test(test_damaged_labels),
        cmocka_unit_test(test_damaged_idx),
        cmocka_unit_test(test_damaged_directories),
        cmocka_unit_test(test_gray_among_colours),
        cmocka_unit_test(test_options_of_other_tasks),
        cmocka_unit_test(test_devices),
        cmocka_unit_test(test_label_names),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
