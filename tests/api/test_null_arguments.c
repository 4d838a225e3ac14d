// SPDX-License-Identifier: MIT
// NULL for one pointer argument at a time, all others valid: where something must be given, every
// function that can fail refuses it with a message that names the argument; where NULL is allowed,
// the call works. The list is checked against the headers: each function, with the names of its
// pointer parameters in order. Functions that cannot fail are listed apart.
#include "api_objects.h"
#include "generate_support.h"
#include "null_argument_calls.h"

#include <ctype.h>
#include <dirent.h>
#include <multihead/audio.h>
#include <multihead/heads.h>
#include <multihead/pretrained.h>
#include <multihead/sharded.h>
#include <sys/stat.h>
#include <unistd.h>

enum { W = API_WIDTH, N = API_TOKENS, E = W / API_HEADS, POINTERS_MOST = 12 };

// ---- valid arguments ----------------------------------------------------------------------------

static api_objects o;
static float data[24][W * W + N * W], big[1 << 14], other[1 << 14];
static int32_t ids[N];
static double number;
static size_t counter, parents[1], shape[2] = {N, W}, lengths[1] = {W};
static int64_t counts[1] = {1}, starts[2] = {0, N};
static bool heads_off[8];
static char bytes[1 << 14], paths[4][96], message[64];
static size_t npy_size, tokenizer_size, trace_size;
static char npy_bytes[1 << 14], tokenizer_bytes[1 << 16], trace_bytes[1 << 16];

static mh_tensor view;
static mh_attention_options attention;
static mh_attention_gradients gradients;
static mh_attention_plan plan;
static mh_communicator communicator;
static mh_sharding sharding;
static mh_sharded_plan sharded_plan;
static mh_kv_cache_options cache_options;
static mh_decoding_options decoding_options;
static mh_dropout_options dropout;
static mh_rope_options rope, tables;
static mh_cross_entropy_options entropy;
static mh_topk_options topk;
static mh_linear_options linear;
static mh_adamw_options adamw;
static mh_sgd_options sgd;
static mh_limits limits;
static mh_mha_config mha_config;
static mh_mha_options mha_options;
static mh_transformer_config transformer_config;
static mh_block_config blocks[2]; // of an encoder, and of a decoder
static const mh_block_config *const block_pointers[2] = {&blocks[0], &blocks[1]};
static mh_stack_config stacks[2];
static mh_transformer_options transformer_options;
static mh_parameters_options parameters_options;
static mh_tokenizer_options tokenizer_options;
static mh_translator_config translator_config, train_model;
static mh_translate_options translate_options;
static mh_translator_load_options load_options;
static mh_train_options train_options;
static mh_train_result train_result;
static mh_view_options view_options;
static mh_head_options head_options;
static mh_head_figures head_figures;
static mh_head_statistics *made_statistics, *counting, *adding;
static mh_context_options context_options;
static mh_parameters_part part;
static mh_metadata metadata = {"key", "value"};
static mh_named_tensor named;
static mh_text text = {"un deux", 7};
static mh_buffer buffer;
static mh_tokens tokens;
static mh_encoding encoding;
static mh_encode_options text_options;
static mh_text_stream streaming;
static mh_text vocabulary_tokens[1] = {{"a", 1}};
static mh_vocabulary vocabulary;
static const char spm_bytes[] = "\x0A\x03\x0A\x01"
                                "a"; // one piece
static char folder[96];
static mh_buffer page;
static mh_bleu_score bleu;
static mh_tap tap;
static const float *arrays[1];

static mh_context *made_context;
static mh_tensor_file *made_file, *tensor_file;
static mh_tensor tensor_read;
static double read_numbers[1 << 12];
static mh_kv_cache *made_cache;
static mh_tape *made_tape, *mha_tape;
static mh_mha *made_mha;
static mh_transformer *made_transformer;
static mh_decoding *made_decoding;
static mh_packed_matrix *made_packed;
static mh_packed_weights *made_packed_weights;
static mh_tokenizer *made_tokenizer;
static mh_translator *made_translator;
static mh_translations *made_translations;
static mh_translation_trace *made_trace;
static mh_trace_file *made_trace_file;
static mh_model *made_model;
static mh_model_texts *made_texts;
static mh_model_trace *made_model_trace;
static bool no_heads_off[256];

static causal_directory causal_files;
static mh_model *causal;
static mh_prompt_cache *made_prompt_cache;
static mh_generate_options generate_options;
static mh_generations *made_generations;
static mh_chat_message chat_message = {MH_CHAT_USER, {"un", 2}};

// Pretrained models of tests/goldens, trainable: an encoder with a pooler and a tokenizer that
// make_pretrained() writes, a masked language model, a sequence classifier.
enum { PRETRAINED_WIDTH = 32, PRETRAINED_VOCABULARY = 99, PRETRAINED_LABELS = 3 };
static mh_model *encoder, *seq2seq, *filler, *classifier;

// One for inference that reads pictures, and a picture.
static mh_model *vision;
static unsigned char picture_pixels[12];
static mh_image picture = {2, 2, 3, picture_pixels}, made_image;
static mh_model_pictures *made_pictures;
static const char picture_path[] = MH_GOLDENS "/pictures/small.ppm",
                  picture_bytes[] = "P5 1 1 9\n1";

// Half a hundredth of a second of sound, and a file of it.
static const char sound_bytes[] =
    "RIFF\x28\0\0\0WAVEfmt \x10\0\0\0\1\0\1\0\x80\x3e\0\0\0\x7d\0\0\2\0\x10\0"
    "data\4\0\0\0\0\0\1\0";
static float sound_samples[320], sound_spectrum[80 * 2];
static mh_audio sound = {320, 16000, sound_samples}, made_audio;
static mh_tensor sound_features;
static char pretrained[96];
static mh_model_options model_options;
static mh_model_input model_input, classifier_input;
static mh_model_gradients model_gradients;
static mh_tape *model_tape;
static int64_t model_starts[2] = {0, N};
static float model_data[8][N * PRETRAINED_VOCABULARY];
static mh_tensor hidden[2], pooled[2], vocabulary_logits, label_logits;

static mh_tensor tensors[24]; // each in data[i]
enum { ROWS = 0, SQUARE = 8, VECTOR = 10, EACH = 14, HEADS = 17, IDS = 23 };

static void *rows(int i) { return &tensors[ROWS + i]; }     // (N, W), 8 of them
static void *square(int i) { return &tensors[SQUARE + i]; } // (W, W), 2
static void *vector(int i) { return &tensors[VECTOR + i]; } // (W), 4
static void *each(int i) { return &tensors[EACH + i]; }     // (N), 3
static void *heads(int i) { return &tensors[HEADS + i]; }   // (1, H, N, E), 6
static void *id(void) { return &tensors[IDS]; }             // (N) i32

static int32_t few_ids[N * 2];
static int32_t row_numbers[1];
static mh_tensor row_read;
static double few_values[N * 2];
static mh_tensor top_ids, top_values; // (N, 2)
static mh_tensor modules[12], lse;
static void *batch(int i) { return &modules[i]; }     // (1, N, W), 6
static void *first(int i) { return &modules[6 + i]; } // (N, 1, W), 6

static void *constant(const void *p) { return (void *)(uintptr_t)p; }

// ---- the calls ----------------------------------------------------------------------------------

#define NULL_OPTIONS &encode_options
static mh_transformer_options encode_options;
static mh_tensor weights_view;
static void *each_weights(void) { return &weights_view; }

static mh_tokenizer *new_tokenizer(void)
{
    mh_tokenizer *made = NULL;
    test_ok(o.context, mh_tokenizer_load(o.context, paths[3], &made));
    return made;
}

static void free_page(mh_context *c)
{
    if (c)
        mh_buffer_free(c, &page);
}

static void free_model_texts(mh_context *c)
{
    if (c)
        mh_model_texts_free(c, made_texts);
}

static void free_image(mh_context *c)
{
    if (c)
        mh_image_free(c, &made_image);
}

static void free_audio(mh_context *c)
{
    if (c)
        mh_audio_free(c, &made_audio);
}

// A file of sound_bytes.
static const char *sound_path(void)
{
    static char path[128];
    snprintf(path, sizeof path, "%s/sound.wav", o.directory);
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    fwrite(sound_bytes, 1, sizeof sound_bytes - 1, f);
    fclose(f);
    sound_features = mh_tensor_2d(sound_spectrum, MH_F32, 80, 2);
    return path;
}

static const char *log_path(void)
{
    static char path[128];
    snprintf(path, sizeof path, "%s/run/log.jsonl", o.directory);
    return path;
}

// Forgets what a call has made, so that it is not freed twice.
static void forget_results(void)
{
    made_context = NULL, made_file = NULL, made_cache = NULL, made_tape = NULL, made_mha = NULL;
    made_transformer = NULL, made_decoding = NULL, made_packed = NULL, made_tokenizer = NULL;
    made_packed_weights = NULL, made_pictures = NULL, made_image = (mh_image){0};
    made_audio = (mh_audio){0};
    made_model = NULL, made_texts = NULL, made_model_trace = NULL, made_generations = NULL;
    made_prompt_cache = NULL, made_statistics = NULL;
    made_translator = NULL, made_translations = NULL, made_trace = NULL, made_trace_file = NULL;
}

#define TRY(name, parameters, values, call, cleanup)                                               \
    static mh_status try_##name(mh_context *c, int null)                                           \
    {                                                                                              \
        const void *given[] = values;                                                              \
        void *p[POINTERS_MOST];                                                                    \
        for (size_t i = 0; i < sizeof given / sizeof *given; i++)                                  \
            p[i] = (int)i == null ? NULL : constant(given[i]);                                     \
        forget_results();                                                                          \
        const mh_status status = call;                                                             \
        cleanup;                                                                                   \
        return status;                                                                             \
    }
CALLS(TRY)

typedef struct function {
    const char *name, *parameters;
    mh_status (*call)(mh_context *c, int null);
} function;

#define ENTRY(name, parameters, values, call, cleanup) {#name, parameters, try_##name},
static const function functions[] = {CALLS(ENTRY)};
enum { FUNCTIONS = sizeof functions / sizeof *functions };

// ---- arguments ----------------------------------------------------------------------------------

static void make_tensors(void)
{
    for (size_t i = 0; i < 24; i++) {
        for (size_t k = 0; k < sizeof data[i] / sizeof *data[i]; k++)
            data[i][k] = (float)(k % 7) / 8;
        tensors[i] = i < SQUARE   ? mh_tensor_2d(data[i], MH_F32, N, W)
                     : i < VECTOR ? mh_tensor_2d(data[i], MH_F32, W, W)
                     : i < EACH   ? mh_tensor_1d(data[i], MH_F32, W)
                     : i < HEADS  ? mh_tensor_1d(data[i], MH_F32, N)
                     : i < IDS    ? mh_tensor_4d(data[i], MH_F32, 1, API_HEADS, N, E)
                                  : mh_tensor_1d(ids, MH_I32, N);
    }
    for (size_t i = 0; i < 6; i++) {
        modules[i] = mh_tensor_3d(data[i], MH_F32, 1, N, W);
        modules[6 + i] = mh_tensor_3d(data[8 + i], MH_F32, N, 1, W);
    }
    modules[5] = mh_tensor_3d(data[20], MH_F32, N, 1, W); // the sixth of that shape: a gradient
    lse = mh_tensor_3d(other, MH_F32, 1, API_HEADS, N);
    weights_view = mh_tensor_3d(other + 64, MH_F32, 1, N, N);
    for (size_t i = 0; i < N; i++)
        ids[i] = (int32_t)(3 + i);
    for (size_t i = 0; i < N; i++)
        ((int32_t *)tensors[IDS].data)[i] = (int32_t)i;
    arrays[0] = data[0];
    top_ids = mh_tensor_2d(few_ids, MH_I32, N, 2);
    top_values = mh_tensor_2d(few_values, MH_F64, N, 2);
}

static void make_options(void)
{
    attention = mh_attention_options_default();
    attention.lse = &lse;
    gradients = mh_attention_gradients_default();
    plan = mh_attention_plan_default();
    communicator = mh_communicator_default();
    sharding = mh_sharding_default();
    sharding.queries = sharding.keys = N;
    sharded_plan = mh_sharded_plan_default();
    bleu = mh_bleu_score_default();
    train_result = mh_train_result_default();
    gradients.dq = heads(5);
    decoding_options = mh_decoding_options_default();
    cache_options = mh_kv_cache_options_default();
    cache_options.sequences = 1, cache_options.heads = API_HEADS, cache_options.key_width = E;
    dropout = mh_dropout_options_default();
    rope = tables = mh_rope_options_default();
    tables.width = 2 * W;
    entropy = mh_cross_entropy_options_default();
    topk = mh_topk_options_default();
    linear = mh_linear_options_default();
    adamw = mh_adamw_options_default();
    sgd = mh_sgd_options_default();
    sgd.momentum = 0.5;
    limits = mh_limits_default();
    mha_config = mh_mha_config_default();
    mha_config.embed_dim = W, mha_config.num_heads = API_HEADS;
    mha_options = mh_mha_options_default();
    transformer_config = mh_transformer_config_default();
    transformer_config.d_model = W, transformer_config.nhead = API_HEADS;
    transformer_config.dim_feedforward = W;
    transformer_config.num_encoder_layers = transformer_config.num_decoder_layers = 1;
    for (int i = 0; i < 2; i++) {
        blocks[i] = mh_block_config_default();
        blocks[i].d_model = blocks[i].dim_feedforward = W;
        blocks[i].num_heads = API_HEADS;
        blocks[i].cross_attention = i;
        stacks[i] = mh_stack_config_default();
        stacks[i].layers = 1;
        stacks[i].blocks = &block_pointers[i];
    }
    transformer_options = encode_options = mh_transformer_options_default();
    parameters_options = mh_parameters_options_default();
    tokenizer_options = mh_tokenizer_options_default();
    text_options = mh_encode_options_default();
    vocabulary = mh_vocabulary_default();
    vocabulary.tokens = vocabulary_tokens;
    vocabulary.count = 1;
    translator_config = mh_translator_config_default();
    translator_config.d_model = W, translator_config.nhead = API_HEADS;
    translator_config.dim_feedforward = W, translator_config.max_length = 16;
    translate_options = mh_translate_options_default();
    load_options = mh_translator_load_options_default();
    view_options = mh_view_options_default();
    head_options = mh_head_options_default();
    head_figures = mh_head_figures_default();
    context_options = mh_context_options_default();
    tap = (mh_tap){.struct_size = sizeof(mh_tap), .kind = MH_TAP_ENCODER};
    train_options = mh_train_options_default();
}

static size_t read_bytes(const char *path, char *to, size_t size)
{
    FILE *stream = fopen(path, "rb");
    assert_non_null(stream);
    const size_t count = fread(to, 1, size, stream);
    fclose(stream);
    return count;
}

// Files that some calls read, and a training run of one update.
static void make_files(mh_context *context)
{
    static char run[96], sentences[96];
    static const char *const names[] = {"x.npy", "written", "mha.safetensors", "tokenizer.json"};
    for (size_t i = 0; i < 4; i++)
        snprintf(paths[i], sizeof paths[i], "%s/%s", o.directory, names[i]);
    snprintf(folder, sizeof folder, "%.*s", (int)(strrchr(paths[3], '/') - paths[3]), paths[3]);
    npy_size = read_bytes(paths[0], npy_bytes, sizeof npy_bytes);
    test_ok(context, mh_tensor_file_open(context, paths[0], &tensor_file));
    assert_true(mh_tensor_file_describe(tensor_file, 0, &tensor_read));
    tensor_read.data = read_numbers;
    row_read = mh_tensor_slice(tensor_read, 0, 0, 1);
    assert_true(mh_tensor_count(&tensor_read) <= sizeof read_numbers / sizeof *read_numbers);
    tokenizer_size = read_bytes(paths[3], tokenizer_bytes, sizeof tokenizer_bytes);
    trace_size = read_bytes(api_path(&o, "trace.safetensors"), trace_bytes, sizeof trace_bytes);
    test_ok(context, mh_parameters_save(context, mh_mha_parameters(o.mha), paths[2]));
    named = (mh_named_tensor){"x", *(mh_tensor *)rows(0)};
    part = (mh_parameters_part){"", mh_mha_parameters(o.mha)};
    snprintf(run, sizeof run, "%s/run", o.directory);
    snprintf(sentences, sizeof sentences, "%s/data.tsv", o.directory);
    FILE *stream = fopen(sentences, "w");
    assert_non_null(stream);
    fputs("un deux\tone two\ntrois\tthree\n", stream);
    fclose(stream);
    train_options.data = train_options.valid = sentences;
    train_options.directory = run;
    train_options.merges = 2;
    train_model = translator_config;
    train_model.num_encoder_layers = train_model.num_decoder_layers = 1;
    train_options.model = &train_model;
    train_options.after = (mh_duration){1, MH_UPDATES};
    test_ok(context, mh_train(context, &train_options, &train_result));
}

// ---- pretrained models --------------------------------------------------------------------------

static const char *pretrained_file(const char *name)
{
    static char path[160];
    snprintf(path, sizeof path, "%s/%s", pretrained, name);
    return path;
}

// The encoder's files, and a vocabulary.
static void make_pretrained_files(void)
{
    snprintf(pretrained, sizeof pretrained, "%s/pretrained", o.directory);
    assert_int_equal(mkdir(pretrained, 0777), 0);
    assert_int_equal(symlink(MH_GOLDENS "/models/bert/config.json", pretrained_file("config.json")),
                     0);
    assert_int_equal(
        symlink(MH_GOLDENS "/models/bert/model.safetensors", pretrained_file("model.safetensors")),
        0);
    FILE *stream = fopen(pretrained_file("vocab.txt"), "w");
    assert_non_null(stream);
    fputs("[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nun\ndeux\n", stream);
    fclose(stream);
}

static void make_pretrained(mh_context *context)
{
    make_pretrained_files();
    causal_files = causal_directory_make();
    causal_directory_write(
        &causal_files, "chat_template.jinja",
        "{% for message in messages %}{{'<|im_start|>' + message['role'] + '\\n' "
        "+ message['content'] + '<|im_end|>' + '\\n'}}{% endfor %}{% if "
        "add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}");
    causal = causal_directory_load(context, &causal_files);
    generate_options = mh_generate_options_default();
    generate_options.max_tokens = 2;
    model_options = mh_model_options_default();
    model_options.trainable = true;
    test_ok(context, mh_model_load(context, pretrained, &model_options, &encoder));
    test_ok(context,
            mh_model_load(context, MH_GOLDENS "/translations/marian", &model_options, &seq2seq));
    test_ok(context,
            mh_model_load(context, MH_GOLDENS "/models/bert-mlm", &model_options, &filler));
    test_ok(context, mh_model_load(context, MH_GOLDENS "/models/bert-classifier", &model_options,
                                   &classifier));
    test_ok(context, mh_model_load(context, MH_GOLDENS "/models/vit", NULL, &vision));
    test_ok(context, mh_tape_create(context, &model_tape));
    test_ok(context, mh_head_statistics_create(context, NULL, &counting));
    test_ok(context, mh_head_statistics_create(context, NULL, &adding));
    model_gradients = mh_model_gradients_default();
    model_input = mh_model_input_default();
    model_input.sequences = 1;
    model_input.starts = model_starts;
    model_input.ids = ids;
    classifier_input = model_input;
    model_input.tape = model_tape;
    for (int i = 0; i < 2; i++) {
        hidden[i] = mh_tensor_2d(model_data[i], MH_F32, N, PRETRAINED_WIDTH);
        pooled[i] = mh_tensor_2d(model_data[2 + i], MH_F32, 1, PRETRAINED_WIDTH);
    }
    vocabulary_logits = mh_tensor_2d(model_data[4], MH_F32, N, PRETRAINED_VOCABULARY);
    label_logits = mh_tensor_2d(model_data[5], MH_F32, 1, PRETRAINED_LABELS);
}

static void free_pretrained(void)
{
    mh_model_free(encoder);
    mh_model_free(seq2seq);
    mh_model_free(filler);
    mh_head_statistics_free(counting);
    mh_head_statistics_free(adding);
    mh_model_free(classifier);
    mh_model_free(vision);
    mh_tape_free(model_tape);
    mh_model_free(causal);
    causal_directory_remove(&causal_files);
    remove(pretrained_file("config.json"));
    remove(pretrained_file("model.safetensors"));
    remove(pretrained_file("vocab.txt"));
    remove(pretrained);
}

static void remove_files(void)
{
    static const char *const names[] = {"written",
                                        "mha.safetensors",
                                        "data.tsv",
                                        "run/config.json",
                                        "run/tokenizer.json",
                                        "run/model.safetensors",
                                        "run/README.md",
                                        "run/log.jsonl",
                                        "run/checkpoint.safetensors",
                                        "run/loss.svg",
                                        "run/snapshot-0.safetensors",
                                        "run/snapshot-1.safetensors"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        remove(api_path(&o, names[i]));
    remove(api_path(&o, "run"));
}

static int set_up(void **state)
{
    mh_context *context = test_context(NULL, 1);
    *state = context;
    make_tensors();
    make_options();
    api_files_make(context, &o);
    api_objects_make(context, &o);
    make_files(context);
    make_pretrained(context);
    transformer_options.tape = o.tape;
    test_ok(context, mh_tape_create(context, &mha_tape));
    mha_options.tape = mha_tape;
    return 0;
}

static int tear_down(void **state)
{
    mh_context *context = *state;
    mh_buffer_free(context, &buffer);
    mh_tokens_free(context, &tokens);
    mh_encoding_free(context, &encoding);
    mh_text_stream_free(context, &streaming);
    mh_tensor_file_free(tensor_file);
    mh_tape_free(mha_tape);
    free_pretrained();
    api_objects_free(&o);
    mh_context_free(context);
    remove_files();
    api_files_free(&o);
    return 0;
}

// ---- one NULL at a time -------------------------------------------------------------------------

typedef struct parameter {
    char name[32];
    bool optional;
} parameter;

static size_t split_parameters(const char *list, parameter *to)
{
    size_t count = 0, length;
    for (; *list; list += strspn(list, " ")) {
        length = strcspn(list, " ");
        assert_true(count < POINTERS_MOST && length < sizeof to->name);
        parameter *p = &to[count++];
        p->optional = list[length - 1] == '?';
        snprintf(p->name, sizeof p->name, "%.*s", (int)(length - p->optional), list);
        list += length;
    }
    return count;
}

// Whether a message has this word, not as a part of another.
static bool names_argument(const char *found, const char *word)
{
    const size_t length = strlen(word);
    for (const char *at = found; (at = strstr(at, word)) != NULL; at++) {
        const bool begins = at == found || !(isalnum((unsigned char)at[-1]) || at[-1] == '_');
        if (begins && !(isalnum((unsigned char)at[length]) || at[length] == '_'))
            return true;
    }
    return false;
}

// Functions that need a forward's tape, or whose options hold what they need, name that.
static const char *needed_instead(const char *function_name, const char *name)
{
    const bool options = strcmp(name, "options") == 0;
    if (options && (strncmp(function_name, "mh_attention_backward", 21) == 0 ||
                    strcmp(function_name, "mh_sharded_attention_backward") == 0))
        return "lse";
    if (options && (strcmp(function_name, "mh_mha_backward") == 0 ||
                    strcmp(function_name, "mh_transformer_backward") == 0))
        return "tape";
    if (options && strcmp(function_name, "mh_rope_tables") == 0)
        return "width";
    return name;
}

static void one_null_at_a_time(void **state)
{
    mh_context *context = *state;
    for (size_t i = 0; i < FUNCTIONS; i++) {
        const function *f = &functions[i];
        parameter parameters[POINTERS_MOST];
        const size_t count = split_parameters(f->parameters, parameters);
        mh_status status = f->call(context, -1);
        if (status != MH_OK)
            fail_msg("%s with all arguments: %s", f->name, mh_error_message(context));
        for (size_t k = 0; k < count; k++) {
            const parameter *p = &parameters[k];
            mh_fail(context, MH_OK, "nothing yet");
            status = f->call(context, (int)k);
            const bool named_it =
                names_argument(mh_error_message(context), needed_instead(f->name, p->name));
            if (p->optional ? status != MH_OK : status != MH_ERROR_ARGUMENT || !named_it)
                fail_msg("%s without %s: found status %d, \"%s\"", f->name, p->name, (int)status,
                         mh_error_message(context));
            test_ok(context, f->call(context, -1)); // nothing is broken
        }
    }
}

static void without_context(void **state)
{
    (void)state;
    for (size_t i = 0; i < FUNCTIONS; i++)
        if (functions[i].call(NULL, -1) != MH_ERROR_ARGUMENT)
            fail_msg("%s without a context", functions[i].name);
}

static void contexts(void **state)
{
    (void)state;
    assert_int_equal(mh_context_create(&context_options, NULL, message, sizeof message),
                     MH_ERROR_ARGUMENT);
    assert_true(names_argument(message, "context"));
    assert_int_equal(mh_context_create(NULL, &made_context, NULL, 0), MH_OK);
    mh_context_free(made_context);
    assert_int_equal(mh_fail(NULL, MH_ERROR_FILE, "x"), MH_ERROR_FILE);
}

// ---- functions that cannot fail -----------------------------------------------------------------

// NULL is fine, or they ask about what exists; those of contexts are tested above.
static const char *const others[] = {"mh_context_create",
                                     "mh_fail",
                                     "mh_alibi_slope",
                                     "mh_shard_length",
                                     "mh_shard_position",
                                     "mh_status_name",
                                     "mh_version",
                                     "mh_version_number",
                                     "mh_context_free",
                                     "mh_error_message",
                                     "mh_context_threads",
                                     "mh_context_isa",
                                     "mh_context_allocator",
                                     "mh_context_native_bf16",
                                     "mh_context_cancel",
                                     "mh_context_set_poll",
                                     "mh_isa_levels",
                                     "mh_isa_supported",
                                     "mh_cpu_features",
                                     "mh_log",
                                     "mh_alloc",
                                     "mh_free",
                                     "mh_parallel_for",
                                     "mh_tensor_file_free",
                                     "mh_tensor_file_count",
                                     "mh_tensor_file_name",
                                     "mh_tensor_file_index",
                                     "mh_tensor_file_describe",
                                     "mh_tensor_file_at",
                                     "mh_tensor_file_find",
                                     "mh_tensor_file_stored",
                                     "mh_tensor_file_metadata",
                                     "mh_tensor_file_metadata_at",
                                     "mh_kv_cache_free",
                                     "mh_kv_cache_length",
                                     "mh_kv_cache_bytes",
                                     "mh_activation_name",
                                     "mh_parameters_lay_out",
                                     "mh_parameters_init",
                                     "mh_parameters_find",
                                     "mh_parameter_view",
                                     "mh_tape_free",
                                     "mh_tape_bytes",
                                     "mh_mha_free",
                                     "mh_mha_parameters",
                                     "mh_transformer_free",
                                     "mh_transformer_parameters",
                                     "mh_transformer_bytes",
                                     "mh_transformer_bytes_bf16",
                                     "mh_decoding_free",
                                     "mh_decoding_disable_heads",
                                     "mh_decoding_sequences",
                                     "mh_decoding_length",
                                     "mh_decoding_bytes",
                                     "mh_packed_matrix_free",
                                     "mh_packed_matrix_bytes",
                                     "mh_packed_matrix_bytes_bf16",
                                     "mh_packed_weights_free",
                                     "mh_operand_dtype",
                                     "mh_clip_factor",
                                     "mh_transfers_wait",
                                     "mh_communicator_broadcast",
                                     "mh_communicator_gather",
                                     "mh_dtype_name",
                                     "mh_dtype_size",
                                     "mh_tensor_view",
                                     "mh_tensor_1d",
                                     "mh_tensor_2d",
                                     "mh_tensor_3d",
                                     "mh_tensor_4d",
                                     "mh_tensor_swap",
                                     "mh_tensor_slice",
                                     "mh_tensor_split",
                                     "mh_tensor_count",
                                     "mh_tensor_is_contiguous",
                                     "mh_tensor_same_shape",
                                     "mh_tensor_describe",
                                     "mh_utf8_valid",
                                     "mh_sentence_length",
                                     "mh_language_guess",
                                     "mh_language_other",
                                     "mh_text_script",
                                     "mh_language_name",
                                     "mh_tokenizer_free",
                                     "mh_tokenizer_size",
                                     "mh_tokenizer_pad",
                                     "mh_tokenizer_bos",
                                     "mh_tokenizer_eos",
                                     "mh_tokenizer_token",
                                     "mh_tokenizer_role",
                                     "mh_tokenizer_name",
                                     "mh_tokenizer_id",
                                     "mh_encoding_free",
                                     "mh_text_stream_free",
                                     "mh_tokens_free",
                                     "mh_model_free",
                                     "mh_image_free",
                                     "mh_audio_free",
                                     "mh_transcribe",       // tests/speech/test_speech.c
                                     "mh_transcribe_trace", // tests/speech/test_transcribe.c
                                     "mh_transcription_free",
                                     "mh_transcription_count",
                                     "mh_transcription_segment",
                                     "mh_transcription_language",
                                     "mh_media_found",
                                     "mh_model_text_tower",
                                     "mh_model_text_loss_kind",
                                     "mh_head_pattern_name",
                                     "mh_head_name",
                                     "mh_head_statistics_free",
                                     "mh_head_statistics_rare",
                                     "mh_head_statistics_size",
                                     "mh_model_pictures_free",
                                     "mh_model_pictures_input",
                                     "mh_model_describe",
                                     "mh_model_label",
                                     "mh_model_tokenizer",
                                     "mh_model_transformer",
                                     "mh_model_texts_free",
                                     "mh_model_texts_input",
                                     "mh_model_trace_free",
                                     "mh_model_trace_view",
                                     "mh_model_texts_encoding",
                                     "mh_model_parameters",
                                     "mh_model_generation_defaults",
                                     "mh_model_chat_template",
                                     "mh_generations_at",
                                     "mh_generations_free",
                                     "mh_prompt_cache_free",
                                     "mh_prompt_cache_length",
                                     "mh_prompt_cache_reused",
                                     "mh_duration_parse",
                                     "mh_translator_free",
                                     "mh_translator_model",
                                     "mh_translator_configuration",
                                     "mh_translator_tokenizer",
                                     "mh_translator_parameters",
                                     "mh_translations_free",
                                     "mh_translations_at",
                                     "mh_translation_trace_free",
                                     "mh_translation_trace_view",
                                     "mh_trace_kind_name",
                                     "mh_trace_file_trace",
                                     "mh_trace_file_free",
                                     "mh_buffer_free"};

static void freeing_null(void **state)
{
    mh_context *context = *state;
    mh_context_free(NULL);
    mh_free(context, NULL, 1);
    mh_tensor_file_free(NULL);
    mh_kv_cache_free(NULL);
    mh_tape_free(NULL);
    mh_mha_free(NULL);
    mh_transformer_free(NULL);
    mh_decoding_free(NULL);
    mh_packed_matrix_free(NULL);
    mh_packed_weights_free(NULL);
    mh_buffer_free(context, NULL);
    mh_tokenizer_free(NULL);
    mh_model_free(NULL);
    mh_model_texts_free(context, NULL);
    mh_model_trace_free(NULL);
    mh_generations_free(NULL);
    mh_prompt_cache_free(NULL);
    assert_int_equal(mh_packed_matrix_bytes(NULL), 0);
    mh_tokens_free(context, NULL);
    mh_translator_free(NULL);
    mh_translations_free(NULL);
    mh_translation_trace_free(NULL);
    mh_trace_file_free(NULL);
    assert_string_equal(mh_error_message(NULL), "");
    test_refused(context, mh_trace_file_parse(context, NULL, npy_bytes, npy_size, &made_trace_file),
                 MH_ERROR_FORMAT, "(memory)");
}

// ---- the headers --------------------------------------------------------------------------------

static bool is_word(char c) { return isalnum((unsigned char)c) || c == '_'; }

// The names of pointer parameters but the context's, as the list has them, without "?".
static void read_pointers(const char *at, const char *end, char *to, size_t size)
{
    size_t used = 0;
    to[0] = '\0';
    while (at < end) {
        const char *stop = at;
        while (stop < end && *stop != ',')
            stop++;
        const char *last = stop;
        while (last > at && !is_word(last[-1]))
            last--;
        const char *begin = last;
        while (begin > at && is_word(begin[-1]))
            begin--;
        const bool pointer = memchr(at, '*', (size_t)(stop - at)) != NULL;
        if (pointer && strncmp(begin, "context", 7) != 0)
            used += (size_t)snprintf(to + used, size - used, "%s%.*s", used ? " " : "",
                                     (int)(last - begin), begin);
        at = stop + 1;
    }
}

static const function *find_function(const char *name)
{
    for (size_t i = 0; i < FUNCTIONS; i++)
        if (strcmp(functions[i].name, name) == 0)
            return &functions[i];
    return NULL;
}

static bool is_other(const char *name)
{
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (strcmp(others[i], name) == 0)
            return true;
    return false;
}

// A declaration from behind MH_API to its semicolon.
static void check_declaration(const char *at)
{
    char name[64], pointers[256], listed[256];
    const char *open = strchr(at, '('), *close = strchr(at, ';');
    assert_true(open && close && open < close);
    const char *begin = open;
    while (is_word(begin[-1]))
        begin--;
    snprintf(name, sizeof name, "%.*s", (int)(open - begin), begin);
    const function *f = find_function(name);
    if (!f && !is_other(name))
        fail_msg("%s is in a header, but not in the list of this test", name);
    if (!f)
        return;
    while (*close != ')')
        close--;
    read_pointers(open + 1, close, pointers, sizeof pointers);
    size_t used = 0;
    for (const char *c = f->parameters; *c; c++)
        if (*c != '?')
            listed[used++] = *c;
    listed[used] = '\0';
    if (strcmp(pointers, listed) != 0)
        fail_msg("%s: found \"%s\" in the list, expected \"%s\" as in its header", name, listed,
                 pointers);
}

static void every_function_is_listed(void **state)
{
    (void)state;
    size_t found = 0;
    DIR *directory = opendir(MH_HEADERS);
    assert_non_null(directory);
    for (const struct dirent *entry; (entry = readdir(directory)) != NULL;) {
        static char path[512], header[1 << 17];
        const size_t length = strlen(entry->d_name);
        if (length < 2 || strcmp(entry->d_name + length - 2, ".h") != 0)
            continue;
        if (!strcmp(entry->d_name, "mpi.h")) // libmultihead-mpi, which may not be built
            continue;
        snprintf(path, sizeof path, "%s/%s", MH_HEADERS, entry->d_name);
        header[read_bytes(path, header, sizeof header - 1)] = '\0';
        for (const char *at = header; (at = strstr(at, "\nMH_API ")) != NULL; at++, found++)
            check_declaration(at + strlen("\nMH_API "));
    }
    closedir(directory);
    assert_int_equal(found, FUNCTIONS + sizeof others / sizeof *others);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_function_is_listed),
        cmocka_unit_test_setup_teardown(one_null_at_a_time, set_up, tear_down),
        cmocka_unit_test_setup_teardown(without_context, set_up, tear_down),
        cmocka_unit_test(contexts),
        cmocka_unit_test_setup_teardown(freeing_null, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
