// SPDX-License-Identifier: MIT
// GGUF files as models (tests/goldens/make_gguf_models.py): every architecture computes what
// transformers does with the same weights; settings and tokenizers that are not supported are
// refused by name; the tokens that end a text.
#include "gguf_support.h"
#include "pretrained_golden.h"

#include <math.h>
#include <multihead/generate.h>
#include <unistd.h>

static const char *const names[] = {"llama",  "llama-scaled", "mistral", "qwen2",    "qwen3",
                                    "gemma2", "gemma3",       "gpt2",    "gpt_neox", "bert-mlm"};

static void use_gguf(golden *g, bool trainable)
{
    char path[512];
    mh_model_options o = mh_model_options_default();
    o.trainable = trainable;
    snprintf(path, sizeof path, MH_GOLDENS "/gguf/%s.gguf", g->name);
    mh_model_free(g->model);
    g->model = NULL;
    test_ok(g->context, mh_model_load(g->context, path, &o, &g->model));
}

static void check_outputs(golden *g)
{
    const size_t V = mh_model_describe(g->model)->vocabulary;
    char name[32];
    float *out = calloc(g->rows * V, sizeof *out);
    mh_tensor hidden = mh_tensor_2d(g->hidden, MH_F32, g->rows, g->D);
    mh_tensor logits = mh_tensor_2d(out, MH_F32, g->rows, V);
    set_input(g);
    test_ok(g->context, mh_model_hidden(g->context, g->model, &g->input, &hidden));
    snprintf(name, sizeof name, "out.hidden.%zu", g->layers);
    expect_rows(g, name, g->hidden, g->D);
    if (mh_model_describe(g->model)->abilities & MH_CAN_GENERATE) { // BERT's head is not in GGUF
        test_ok(g->context, mh_model_logits(g->context, g->model, &hidden, &logits));
        expect_rows(g, "out.logits", out, V);
    }
    free(out);
}

static void test_architectures(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        for (int trainable = 0; trainable < 2; trainable++) {
            golden g = open_golden(names[i], false);
            const mh_model_info before = *mh_model_describe(g.model);
            use_gguf(&g, trainable);
            const mh_model_info *info = mh_model_describe(g.model);
            assert_string_equal(info->family, before.family);
            assert_int_equal(info->max_length, before.max_length);
            assert_int_equal(info->kv_heads, before.kv_heads);
            assert_int_equal(info->head_dim, before.head_dim);
            check_outputs(&g);
            close_golden(&g);
        }
}

// ---- WordPiece ----------------------------------------------------------------------------------

#define WORD "\xE2\x96\x81"

static void test_bert_vocabulary(void **state)
{
    (void)state;
    static const char *const tokens[] = {"[PAD]",  "[UNK]",    "[CLS]",    "[SEP]",
                                         "[MASK]", WORD "the", WORD "cat", "s"};
    static const int32_t types[] = {3, 3, 3, 3, 3, 1, 1, 1}, ids[] = {2, 5, 6, 7, 1, 3};
    mh_text list[8];
    mh_vocabulary v = mh_vocabulary_default();
    mh_tokenizer *tokenizer;
    mh_encoding encoding = {0};
    mh_context *c = test_context(NULL, 1);
    for (size_t i = 0; i < 8; i++)
        list[i] = (mh_text){tokens[i], strlen(tokens[i])};
    v.model = MH_VOCABULARY_BERT;
    v.tokens = list;
    v.types = types;
    v.count = 8;
    test_ok(c, mh_tokenizer_from_vocabulary(c, "x", &v, &tokenizer));
    test_ok(c, mh_tokenizer_encode_text(c, tokenizer, NULL, (mh_text){"The cats!", 9}, NULL,
                                        &encoding));
    assert_int_equal(encoding.count, 6);
    assert_memory_equal(encoding.ids, ids, sizeof ids);
    mh_encoding_free(c, &encoding);
    mh_tokenizer_free(tokenizer);
    mh_context_free(c);
}

// ---- refused ------------------------------------------------------------------------------------

static mh_context *context;
static char directory[64], path[96];

static void write_file(blob b)
{
    FILE *stream = fopen(path, "wb");
    assert_non_null(stream);
    assert_int_equal(fwrite(b.bytes, 1, b.size, stream), b.size);
    assert_int_equal(fclose(stream), 0);
    blob_free(&b);
}

static void refuse_model(blob b, mh_status status, const char *word)
{
    mh_model *model;
    write_file(b);
    test_refused(context, mh_model_load(context, path, NULL, &model), status, word);
    assert_null(model);
    test_refused(context, mh_model_load(context, directory, NULL, &model), status, word);
}

// Settings of a small llama, to which `more` are added; `tensors` follow.
static blob small_llama(uint64_t more, uint64_t tensors)
{
    blob b = gguf_begin(3, tensors, 6 + more);
    gguf_pair_string(&b, "general.architecture", "llama");
    gguf_pair_u32(&b, "llama.block_count", 1);
    gguf_pair_u32(&b, "llama.embedding_length", 8);
    gguf_pair_u32(&b, "llama.feed_forward_length", 8);
    gguf_pair_u32(&b, "llama.attention.head_count", 2);
    gguf_pair_u32(&b, "llama.context_length", 16);
    return b;
}

static void test_settings_refused(void **state)
{
    (void)state;
    blob b = gguf_begin(3, 0, 1);
    gguf_pair_string(&b, "general.architecture", "mamba");
    refuse_model(b, MH_ERROR_UNSUPPORTED, "found \"mamba\", which is not one of: llama, qwen2");
    refuse_model(gguf_begin(3, 0, 0), MH_ERROR_FORMAT, "\"general.architecture\" is missing");
    b = gguf_begin(3, 0, 1);
    gguf_pair_string(&b, "general.architecture", "llama");
    refuse_model(b, MH_ERROR_FORMAT, "metadata \"llama.block_count\" is missing");
    b = gguf_begin(3, 0, 2);
    gguf_pair_string(&b, "general.architecture", "llama");
    gguf_pair_u32(&b, "llama.block_count", 0);
    refuse_model(b, MH_ERROR_FORMAT,
                 "\"llama.block_count\": found a u32 (\"0\"), expected an integer");
    b = small_llama(1, 0);
    gguf_pair_u32(&b, "llama.expert_count", 8);
    refuse_model(b, MH_ERROR_UNSUPPORTED, "mixtures of experts");
    b = small_llama(1, 0);
    gguf_pair_u32(&b, "split.count", 3);
    refuse_model(b, MH_ERROR_UNSUPPORTED, "one of 3 parts");
    b = small_llama(1, 0);
    gguf_pair_string(&b, "llama.rope.scaling.type", "longrope");
    refuse_model(b, MH_ERROR_UNSUPPORTED, "found \"longrope\", and only none, linear and yarn");
    b = small_llama(1, 0);
    gguf_pair_u32(&b, "llama.rope.dimension_count", 5);
    refuse_model(b, MH_ERROR_FORMAT, "\"llama.rope.dimension_count\": found a u32");
    b = small_llama(1, 0);
    gguf_pair_u32(&b, "llama.attention.value_length", 3);
    refuse_model(b, MH_ERROR_UNSUPPORTED, "only 4, the width of keys");
    b = small_llama(1, 0);
    gguf_key(&b, "llama.attention.head_count_kv", GGUF_ARRAY);
    gguf_u32(&b, GGUF_U32);
    gguf_u64(&b, 2);
    gguf_u32(&b, 1);
    gguf_u32(&b, 2);
    refuse_model(b, MH_ERROR_UNSUPPORTED, "differs between layers");
    b = small_llama(0, 0);
    refuse_model(b, MH_ERROR_FORMAT, "vocab_size");
    b = small_llama(0, 1);
    gguf_tensor(&b, "rope_freqs.weight", 2, 0, TENSOR_F32, 0);
    gguf_data(&b, 32, 0);
    gguf_put(&b, (float[]){7, 1}, 8);
    refuse_model(b, MH_ERROR_UNSUPPORTED, "\"rope_freqs.weight\": value 0 is 7");
    b = small_llama(0, 1);
    gguf_tensor(&b, "token_embd.weight", 8, 4, TENSOR_F32, 0);
    gguf_data(&b, 32, 128);
    refuse_model(b, MH_ERROR_FORMAT, "\"blk.0.attn_q.weight\" is missing");
}

static void test_numbers_refused(void **state)
{
    (void)state;
    static const char *const settings[] = {"llama.rope.scaling.factor", "llama.rope.scale_linear",
                                           "llama.rope.scaling.original_context_length",
                                           "llama.rope.freq_base"};
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++) {
        blob b = small_llama(2, 0);
        gguf_pair_string(&b, "llama.rope.scaling.type", "linear");
        gguf_key(&b, settings[i], GGUF_F32);
        gguf_put(&b, &(float){INFINITY}, 4);
        refuse_model(b, MH_ERROR_FORMAT, settings[i]);
    }
    blob b = gguf_begin(3, 0, 7);
    gguf_pair_string(&b, "general.architecture", "gemma3");
    gguf_pair_u32(&b, "gemma3.block_count", 1);
    gguf_pair_u32(&b, "gemma3.embedding_length", 8);
    gguf_pair_u32(&b, "gemma3.feed_forward_length", 8);
    gguf_pair_u32(&b, "gemma3.attention.head_count", 2);
    gguf_pair_u32(&b, "gemma3.context_length", 16);
    gguf_key(&b, "gemma3.attention.scale", GGUF_F64);
    gguf_put(&b, &(double){1e-200}, 8);
    refuse_model(b, MH_ERROR_FORMAT, "\"gemma3.attention.scale\": found an f64");
}

static void test_no_file(void **state)
{
    (void)state;
    mh_model *model;
    char other[112];
    unlink(path);
    test_refused(context, mh_model_load(context, path, NULL, &model), MH_ERROR_FILE, "m.gguf");
    write_file(small_llama(0, 0));
    snprintf(other, sizeof other, "%s/n.gguf", directory);
    FILE *stream = fopen(other, "wb");
    fclose(stream);
    test_refused(context, mh_model_load(context, directory, NULL, &model), MH_ERROR_FILE,
                 "has 2 .gguf files, expected one; name the file, for example m.gguf");
    unlink(other);
}

// ---- the end of a text --------------------------------------------------------------------------

// A whole llama of four tokens, whose weights are 0, so that the likeliest token is the first.
static void write_llama(const char *first, const char *key, uint32_t id)
{
    static const char *const matrices[] = {"attn_q",   "attn_k", "attn_v",  "attn_output",
                                           "ffn_gate", "ffn_up", "ffn_down"};
    const char *const tokens[] = {first, "a", "b", "<eos>"};
    uint64_t offset = 0;
    char name[64];
    blob b = small_llama(5 + (key != NULL), 11);
    gguf_pair_string(&b, "tokenizer.ggml.model", "gpt2");
    gguf_pair_string(&b, "tokenizer.ggml.pre", "gpt-2");
    gguf_pair_u32(&b, "tokenizer.ggml.eos_token_id", 3);
    gguf_key(&b, "tokenizer.ggml.tokens", GGUF_ARRAY);
    gguf_u32(&b, GGUF_STRING);
    gguf_u64(&b, 4);
    for (size_t i = 0; i < 4; i++)
        gguf_string(&b, tokens[i]);
    gguf_key(&b, "tokenizer.ggml.token_type", GGUF_ARRAY);
    gguf_u32(&b, GGUF_I32);
    gguf_u64(&b, 4);
    gguf_put(&b, (int32_t[]){3, 1, 1, 3}, 16);
    if (key)
        gguf_pair_u32(&b, key, id);
    gguf_tensor(&b, "token_embd.weight", 8, 4, TENSOR_F32, offset);
    offset += 128;
    for (size_t i = 0; i < sizeof matrices / sizeof *matrices; i++, offset += 256) {
        snprintf(name, sizeof name, "blk.0.%s.weight", matrices[i]);
        gguf_tensor(&b, name, 8, 8, TENSOR_F32, offset);
    }
    gguf_tensor(&b, "blk.0.attn_norm.weight", 8, 0, TENSOR_F32, offset);
    gguf_tensor(&b, "blk.0.ffn_norm.weight", 8, 0, TENSOR_F32, offset + 32);
    gguf_tensor(&b, "output_norm.weight", 8, 0, TENSOR_F32, offset + 64);
    gguf_data(&b, 32, 0);
    for (size_t i = 0; i < offset + 96; i++)
        gguf_put(&b, "", 1);
    write_file(b);
}

static void expect_generated(size_t count, mh_finish finish)
{
    mh_model *model;
    mh_generations *g;
    mh_generate_options o = mh_generate_options_default();
    const int64_t starts[] = {0, 1};
    const int32_t prompt = 1;
    o.max_tokens = 4;
    test_ok(context, mh_model_load(context, path, NULL, &model));
    test_ok(context, mh_generate(context, model, &o, starts, &prompt, 1, &g));
    assert_int_equal(mh_generations_at(g, 0)->count, count);
    assert_int_equal(mh_generations_at(g, 0)->finish, finish);
    mh_generations_free(g);
    mh_model_free(model);
}

// eos_token_id is often the end of a document, and the end of a turn is another token.
static void test_ends_of_turns(void **state)
{
    (void)state;
    mh_model *model;
    write_llama("<other>", NULL, 0);
    expect_generated(4, MH_FINISH_LENGTH);
    write_llama("<end_of_turn>", NULL, 0);
    expect_generated(1, MH_FINISH_STOP);
    write_llama("<other>", "tokenizer.ggml.eot_token_id", 0);
    expect_generated(1, MH_FINISH_STOP);
    write_llama("<other>", "tokenizer.ggml.eom_token_id", 2);
    expect_generated(4, MH_FINISH_LENGTH);
    write_llama("<other>", "tokenizer.ggml.eot_token_id", 4);
    test_refused(context, mh_model_load(context, path, NULL, &model), MH_ERROR_FORMAT,
                 "\"tokenizer.ggml.eot_token_id\": found a u32 (4), expected a token from 0 to 3");
}

static int set_up(void **state)
{
    (void)state;
    context = test_context(NULL, 1);
    strcpy(directory, "/tmp/mh_test_XXXXXX");
    if (!mkdtemp(directory))
        return -1;
    snprintf(path, sizeof path, "%s/m.gguf", directory);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    mh_context_free(context);
    unlink(path);
    return rmdir(directory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_architectures),    cmocka_unit_test(test_bert_vocabulary),
        cmocka_unit_test(test_settings_refused), cmocka_unit_test(test_numbers_refused),
        cmocka_unit_test(test_no_file),          cmocka_unit_test(test_ends_of_turns),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
