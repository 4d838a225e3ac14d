// SPDX-License-Identifier: MIT
// Tokenizers of directories, of SentencePiece's files and of arrays; options of encoding; batches;
// and files that are refused.

#include "parser_support.h"
#include "text_support.h"

#include <sys/stat.h>

static int set_up(void **state)
{
    (void)state;
    return parser_place("unused", NULL);
}

// ---- files --------------------------------------------------------------------------------------

static void write_file(const char *name, const char *bytes, size_t size)
{
    char to[200];
    snprintf(to, sizeof to, "%s/%s", directory, name);
    FILE *file = fopen(to, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, size, file), size);
    fclose(file);
}

static void remove_file(const char *name)
{
    char to[200];
    snprintf(to, sizeof to, "%s/%s", directory, name);
    assert_int_equal(remove(to), 0);
}

static mh_tokenizer *load_directory(void)
{
    mh_tokenizer *t;
    test_ok(context, mh_tokenizer_load_directory(context, directory, &t));
    return t;
}

static void check_ids(const mh_tokenizer *t, const char *text, size_t count, const int32_t *ids)
{
    mh_encoding e = {0};
    test_ok(context,
            mh_tokenizer_encode_text(context, t, NULL, (mh_text){text, strlen(text)}, NULL, &e));
    assert_int_equal(e.count, count);
    for (size_t i = 0; i < count; i++)
        assert_int_equal(e.ids[i], ids[i]);
    mh_encoding_free(context, &e);
}

#define CHECK_IDS(t, text, ...)                                                                    \
    check_ids(t, text, sizeof((int32_t[]){__VA_ARGS__}) / sizeof(int32_t), (int32_t[]){__VA_ARGS__})

static const char vocab[] = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nun\n##able\n##s\nthe\nThe\n";

static void test_vocab_txt(void **state)
{
    (void)state;
    static const char config[] =
        "{\"do_lower_case\": false, \"mask_token\": {\"content\": \"the\"}}";
    write_file("vocab.txt", vocab, sizeof vocab - 1);
    mh_tokenizer *t = load_directory();
    CHECK_IDS(t, "The unables, [MASK]", 2, 8, 5, 6, 7, 1, 4, 3);
    assert_int_equal(mh_tokenizer_role(t, MH_ROLE_MASK), 4);
    assert_int_equal(mh_tokenizer_role(t, MH_ROLE_CLS), 2);
    assert_int_equal(mh_tokenizer_pad(t), 0);
    assert_int_equal(mh_tokenizer_bos(t), -1);
    assert_int_equal(mh_tokenizer_id(t, "##able", 6), 6);
    assert_int_equal(mh_tokenizer_id(t, "able", 4), -1);
    assert_int_equal(mh_tokenizer_size(t), 10);
    mh_tokenizer_free(t);
    write_file("tokenizer_config.json", config, sizeof config - 1);
    t = load_directory();
    CHECK_IDS(t, "The the", 2, 9, 8, 3);
    assert_int_equal(mh_tokenizer_role(t, MH_ROLE_MASK), 8);
    mh_tokenizer_free(t);
    remove_file("tokenizer_config.json");
    remove_file("vocab.txt");
}

static void test_merges(void **state)
{
    (void)state;
    static const char tokens[] = "{\"a\": 0, \"b\": 1, \"\xC4\xA0\": 2, \"ab\": 3, \"\xC4\xA0"
                                 "ab\": 4, \"<|endoftext|>\": 5}";
    static const char merges[] = "#version: 0.2\na b\n\xC4\xA0 ab\n";
    mh_text name, bytes;
    write_file("vocab.json", tokens, sizeof tokens - 1);
    write_file("merges.txt", merges, sizeof merges - 1);
    mh_tokenizer *t = load_directory();
    CHECK_IDS(t, "ab ab b<|endoftext|>a", 3, 4, 2, 1, 5, 0);
    assert_true(mh_tokenizer_name(t, 4, &name) && mh_tokenizer_token(t, 4, &bytes, NULL));
    assert_int_equal(name.size, 4);
    assert_int_equal(bytes.size, 3);
    assert_int_equal(mh_tokenizer_eos(t), 5);
    mh_tokenizer_free(t);
    static const char config[] =
        "{\"added_tokens_decoder\": {\"7\": {\"content\": \"<x>\", \"lstrip\": "
        "true, \"special\": true}}, \"pad_token\": \"<x>\"}";
    static const char broken[] = "{\"added_tokens_decoder\": {\"-7\": {\"content\": \"<x>\"}}}";
    write_file("tokenizer_config.json", config, sizeof config - 1);
    t = load_directory();
    CHECK_IDS(t, "ab <x>a", 3, 7, 0);
    assert_int_equal(mh_tokenizer_pad(t), 7);
    assert_int_equal(mh_tokenizer_size(t), 8);
    assert_false(mh_tokenizer_name(t, 6, &name));
    mh_tokenizer_free(t);
    write_file("tokenizer_config.json", broken, sizeof broken - 1);
    test_refused(context, mh_tokenizer_load_directory(context, directory, &t), MH_ERROR_FORMAT,
                 "added_tokens_decoder: \"-7\"");
    remove_file("tokenizer_config.json");
    remove_file("merges.txt");
    remove_file("vocab.json");
}

static void test_tiktoken(void **state)
{
    (void)state;
    static const char ranks[] =
        "YQ== 0\nYg== 1\nYw== 2\nYWI= 3\nYmM= 4\nYWJj 5\n"; // a b c ab bc abc
    write_file("x.tiktoken", ranks, sizeof ranks - 1);
    mh_tokenizer *t = load_directory();
    CHECK_IDS(t, "abcabbc<|endoftext|>", 5, 3, 4, 6);
    CHECK_IDS(t, "abc", 5);
    mh_tokenizer_free(t);
    remove_file("x.tiktoken");
}

static void test_no_files(void **state)
{
    (void)state;
    mh_tokenizer *t;
    test_refused(context, mh_tokenizer_load_directory(context, directory, &t), MH_ERROR_FILE,
                 "no tokenizer: expected tokenizer.json");
    assert_null(t);
    write_file("vocab.txt", "a\n\xFF\n", 4);
    test_refused(context, mh_tokenizer_load_directory(context, directory, &t), MH_ERROR_FORMAT,
                 "[UNK]");
    remove_file("vocab.txt");
    write_file("tokenizer.json", "{}", 2);
    test_refused(context, mh_tokenizer_load_directory(context, directory, &t), MH_ERROR_FORMAT,
                 "tokenizer.json: model: found null, expected an object");
    remove_file("tokenizer.json");
}

// source.spm cuts the text, vocab.json numbers the pieces.
static void test_marian(void **state)
{
    (void)state;
    static const char tokens[] =
        "{\"</s>\": 0, \"<unk>\": 1, \">>fra<<\": 2, \"\xE2\x96\x81the\": 3, \"<pad>\": 4}";
    blob spm = blob_read(MH_GOLDENS "/tokenizer.spm");
    write_file("source.spm", (const char *)spm.bytes, spm.size);
    write_file("target.spm", (const char *)spm.bytes, spm.size);
    write_file("vocab.json", tokens, sizeof tokens - 1);
    mh_tokenizer *t = load_directory();
    mh_encoding e = {0};
    test_ok(context, mh_tokenizer_encode_text(context, t, NULL, TEXT(">>fra<< the the"), NULL, &e));
    assert_int_equal(e.ids[0], 2);
    assert_int_equal(e.ids[e.count - 1], 0);
    assert_int_equal(mh_tokenizer_pad(t), 4);
    mh_encoding_free(context, &e);
    mh_tokenizer_free(t);
    blob_free(&spm);
    remove_file("source.spm");
    remove_file("target.spm");
    remove_file("vocab.json");
}

// ---- arrays -------------------------------------------------------------------------------------

static void test_vocabulary(void **state)
{
    (void)state;
    const mh_text tokens[] = {TEXT("<unk>"),
                              TEXT("<s>"),
                              TEXT("</s>"),
                              TEXT("<0x41>"),
                              TEXT("\xE2\x96\x81"),
                              TEXT("a"),
                              TEXT("b"),
                              TEXT("ab"),
                              TEXT("\xE2\x96\x81"
                                   "ab")};
    const float scores[] = {0, 0, 0, 0, -4, -5, -6, -1, -2};
    const int32_t types[] = {2, 3, 3, 6, 1, 1, 1, 1, 1};
    mh_vocabulary v = mh_vocabulary_default();
    mh_tokenizer *t;
    v.model = MH_VOCABULARY_LLAMA;
    v.tokens = tokens;
    v.scores = scores;
    v.types = types;
    v.count = 9;
    v.add_bos = true;
    v.bos = 1, v.eos = 2, v.unknown = 0;
    test_ok(context, mh_tokenizer_from_vocabulary(context, "x.gguf", &v, &t));
    CHECK_IDS(t, "ab aAb", 1, 8, 4, 5, 3, 6);
    assert_int_equal(mh_tokenizer_eos(t), 2);
    mh_tokenizer_free(t);
    v.bos = 9;
    test_refused(context, mh_tokenizer_from_vocabulary(context, "x.gguf", &v, &t), MH_ERROR_FORMAT,
                 "x.gguf: bos: found 9, expected -1 to 8");
    v.scores = NULL, v.bos = 1;
    test_refused(context, mh_tokenizer_from_vocabulary(context, "x.gguf", &v, &t),
                 MH_ERROR_ARGUMENT, "scores");

    const mh_text bytes[] = {TEXT("a"), TEXT("b"), TEXT("ab"), TEXT("<|end|>"), TEXT("1")};
    const mh_text merges[] = {TEXT("a b")};
    const int32_t kinds[] = {1, 1, 1, 3, 1};
    v = mh_vocabulary_default();
    v.tokens = bytes;
    v.types = kinds;
    v.count = 5;
    v.merges = merges;
    v.merge_count = 1;
    v.pre_tokenizer = "smollm";
    test_ok(context, mh_tokenizer_from_vocabulary(context, "x.gguf", &v, &t));
    CHECK_IDS(t, "ab11<|end|>a", 2, 4, 4, 3, 0);
    mh_tokenizer_free(t);
    v.pre_tokenizer = "quipu";
    test_refused(context, mh_tokenizer_from_vocabulary(context, "x.gguf", &v, &t),
                 MH_ERROR_UNSUPPORTED,
                 "pre-tokenizer \"quipu\" is not known, expected one of: gpt-2, ");
}

// ---- options ------------------------------------------------------------------------------------

static void test_options(void **state)
{
    (void)state;
    mh_encoding e = {0};
    mh_encode_options options = mh_encode_options_default();
    const mh_text pair = TEXT("the the the");
    write_file("vocab.txt", vocab, sizeof vocab - 1);
    mh_tokenizer *t = load_directory();
    options.max_length = 7;
    test_ok(context,
            mh_tokenizer_encode_text(context, t, &options, TEXT("un un un un"), &pair, &e));
    assert_true(e.truncated);
    assert_int_equal(e.count, 7);
    assert_int_equal(e.types[6], 1);
    assert_int_equal(e.special[6], 1);
    assert_int_equal(e.sequences[5], 1);
    options.max_length = 2;
    test_refused(context, mh_tokenizer_encode_text(context, t, &options, TEXT("un"), &pair, &e),
                 MH_ERROR_ARGUMENT, "max_length: found 2, expected at least 3");
    options = mh_encode_options_default();
    options.add_special_tokens = options.special_from_text = false;
    test_ok(context, mh_tokenizer_encode_text(context, t, &options, TEXT("[MASK] un"), NULL, &e));
    assert_int_equal(e.count, 4);
    assert_false(e.truncated);
    test_refused(context, mh_tokenizer_encode_text(context, t, NULL, TEXT("a\xFF"), NULL, &e),
                 MH_ERROR_FORMAT, "byte 1 (0xff) is not valid UTF-8");
    options.struct_size = 3;
    test_refused(context, mh_tokenizer_encode_text(context, t, &options, pair, NULL, &e),
                 MH_ERROR_ARGUMENT, "struct_size");
    mh_tokens tokens = {0};
    test_refused(context, mh_tokenizer_encode(context, t, "a", 1, &tokens), MH_ERROR_UNSUPPORTED,
                 "mh_tokenizer_encode_text");
    test_refused(context, mh_tokenizer_save(context, t, path), MH_ERROR_UNSUPPORTED, "save");
    mh_encoding_free(context, &e);
    mh_tokenizer_free(t);
    remove_file("vocab.txt");
}

// On several threads the same as one by one, and the first broken text is named.
static void test_batch(void **state)
{
    (void)state;
    enum { COUNT = 100 };
    mh_text texts[COUNT];
    mh_encoding encodings[COUNT], one = {0};
    mh_context *threads;
    mh_context_options options = mh_context_options_default();
    options.threads = 4;
    test_ok(context, mh_context_create(&options, &threads, NULL, 0));
    write_file("vocab.txt", vocab, sizeof vocab - 1);
    mh_tokenizer *t = load_directory();
    memset(encodings, 0, sizeof encodings);
    for (size_t i = 0; i < COUNT; i++)
        texts[i] = (mh_text){"the unable uns [MASK] un the unables", i % 37};
    test_ok(threads, mh_tokenizer_encode_batch(threads, t, NULL, texts, NULL, COUNT, encodings));
    for (size_t i = 0; i < COUNT; i++) {
        test_ok(context, mh_tokenizer_encode_text(context, t, NULL, texts[i], NULL, &one));
        assert_int_equal(one.count, encodings[i].count);
        assert_memory_equal(one.ids, encodings[i].ids, one.count * sizeof *one.ids);
    }
    texts[61] = texts[70] = TEXT("\xC3");
    test_refused(threads,
                 mh_tokenizer_encode_batch(threads, t, NULL, texts, texts, COUNT, encodings),
                 MH_ERROR_FORMAT, "text 61: byte 0");
    assert_int_equal(encodings[61].count, 0);
    assert_true(encodings[62].count > 3);
    for (size_t i = 0; i < COUNT; i++)
        mh_encoding_free(threads, &encodings[i]);
    mh_encoding_free(context, &one);
    mh_tokenizer_free(t);
    mh_context_free(threads);
    remove_file("vocab.txt");
}

// ---- files that are refused ---------------------------------------------------------------------

#define MODEL "\"model\":{\"type\":\"WordLevel\",\"vocab\":{\"a\":0,\"b\":1},\"unk_token\":\"a\"}"
#define GROWS                                                                                      \
    "{\"type\":\"Replace\",\"pattern\":{\"String\":\"a\"},\"content\":\"aaaaaaaaaaaaaaaa\"}"
#define GROWS_4 GROWS "," GROWS "," GROWS "," GROWS

static void test_refused_json(void **state)
{
    (void)state;
    static const struct {
        const char *file, *word;
    } cases[] = {
        {"{" MODEL ",\"x\":1}", "\"x\" is not known"},
        {"{\"model\":{\"type\":\"Char\"}}", "model.type: \"Char\" is not known"},
        {"{" MODEL ",\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"X\"}]}}",
         "normalizer[0].type: \"X\" is not known"},
        {"{" MODEL ",\"normalizer\":{\"type\":\"NFC\",\"y\":1}}", "normalizer.\"y\" is not known"},
        {"{" MODEL ",\"normalizer\":{\"type\":\"Replace\",\"pattern\":{\"Regex\":\"(a*)*\"},"
         "\"content\":\"\"}}",
         "\"(a*)*\" is not among the patterns that we have"},
        {"{" MODEL ",\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[" GROWS_4 "]}}",
         "normalizer: makes texts up to 65536 times as long, expected at most 4096 times"},
        {"{" MODEL ",\"decoder\":{\"type\":\"Sequence\",\"decoders\":[" GROWS_4 "]}}",
         "decoder: makes texts up to 65536 times as long, expected at most 4096 times"},
        {"{" MODEL ",\"normalizer\":{\"type\":\"Precompiled\",\"precompiled_charsmap\":\"a\"}}",
         "base64 of 1 characters"},
        {"{" MODEL ",\"normalizer\":{\"type\":\"Precompiled\",\"precompiled_charsmap\":"
         "\"/////w==\"}}",
         "a charsmap of 4 bytes"},
        {"{" MODEL ",\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":["
         "{\"type\":\"ByteLevel\",\"add_prefix_space\":false},{\"type\":\"Whitespace\"}]}}",
         "ByteLevel is number 1 of 2, expected to be the last"},
        {"{" MODEL ",\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"String\":\"a\"},"
         "\"behavior\":\"Gone\",\"invert\":false}}",
         "behavior: \"Gone\" is not known"},
        {"{" MODEL ",\"decoder\":{\"type\":\"Strip\",\"content\":\"\",\"start\":1,\"stop\":0}}",
         "decoder.content"},
        {"{" MODEL ",\"decoder\":{\"type\":\"Strip\",\"content\":\"a\",\"start\":-1,\"stop\":0}}",
         "decoder.start: found an integer, expected an integer, 0 or more"},
        {"{" MODEL ",\"post_processor\":{\"type\":\"BertProcessing\",\"sep\":[\"x\",9],\"cls\":"
         "[\"x\",0]}}",
         "post_processor.sep: found an integer, expected the id of a token, less than 2"},
        {"{" MODEL ",\"post_processor\":{\"type\":\"TemplateProcessing\",\"single\":[{\"Sequence\":"
         "{\"id\":\"B\",\"type_id\":0}}],\"pair\":[],\"special_tokens\":{}}}",
         "found \"B\", expected A"},
        {"{" MODEL ",\"added_tokens\":[{\"id\":0,\"content\":\"b\"}]}", "has id 0, but 1 in the"},
        {"{" MODEL ",\"added_tokens\":[{\"id\":900000,\"content\":\"z\"}]}", "has id 900000"},
        {"{" MODEL ",\"added_tokens\":[{\"id\":1,\"content\":\"z\"}]}", "has id 1 of token \"b\""},
        {"{\"model\":{\"type\":\"WordLevel\",\"vocab\":{\"a\":99999999}}}", "has id 99999999"},
        {"{\"model\":{\"type\":\"WordLevel\",\"vocab\":{\"a\":-1}}}", "has id -1"},
        {"{\"model\":{\"type\":\"WordLevel\",\"vocab\":{\"a\":1,\"b\":1}}}", "the same id 1"},
        {"{\"model\":{\"type\":\"Unigram\",\"vocab\":[[\"a\",\"b\"]]}}", "model.vocab[0]"},
        {"{\"model\":{\"type\":\"Unigram\",\"unk_id\":3,\"vocab\":[[\"a\",0]]}}", "model.unk_id"},
        {"{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[\"a b\"]}}",
         "merge 0: \"b\" is not in the vocabulary"},
        {"{\"model\":{\"type\":\"BPE\",\"dropout\":0.5,\"vocab\":{},\"merges\":[]}}", "dropout"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        mh_tokenizer *t;
        size_t before = memory.live;
        mh_status status =
            mh_tokenizer_parse(context, "some.json", cases[i].file, strlen(cases[i].file), &t);
        test_refused(context, status, MH_ERROR_FORMAT, cases[i].word);
        test_refused(context, status, MH_ERROR_FORMAT, "some.json: ");
        assert_null(t);
        assert_int_equal(memory.live, before);
    }
}

// A SentencePiece model cut at every byte, and with each of its bits flipped: refused or fine.
static void test_broken_spm(void **state)
{
    (void)state;
    blob file = blob_read(MH_GOLDENS "/tokenizer.spm");
    mh_encoding e = {0};
    for (size_t i = 0; i < 9 * file.size; i++) {
        mh_tokenizer *t;
        size_t size = i < file.size ? i : file.size;
        unsigned char bit = i < file.size ? 0 : (unsigned char)(1 << (i / file.size - 1));
        file.bytes[i % file.size] ^= bit;
        mh_status status = mh_tokenizer_parse_spm(context, "a.spm", file.bytes, size, &t);
        file.bytes[i % file.size] ^= bit;
        if (status == MH_OK)
            (void)!mh_tokenizer_encode_text(context, t, NULL, TEXT("The cats  \xE4\xBD\xA0"), NULL,
                                            &e);
        else
            test_refused(context, status, MH_ERROR_FORMAT, "a.spm: ");
        mh_tokenizer_free(t);
    }
    mh_encoding_free(context, &e);
    blob_free(&file);
}

// ---- memory -------------------------------------------------------------------------------------

static mh_status load_and_encode(void)
{
    mh_tokenizer *t;
    mh_encoding e = {0};
    mh_buffer text = {0};
    mh_text_stream stream = {0};
    const mh_text pair = TEXT("unables \xC3\xA9\xCC\x81 [MASK]");
    mh_status status = mh_tokenizer_load_directory(context, directory, &t);
    if (status == MH_OK)
        status = mh_tokenizer_encode_text(context, t, NULL, TEXT("The un\xC3\xA9 the"), &pair, &e);
    if (status == MH_OK)
        status = mh_tokenizer_decode_text(context, t, true, e.ids, e.count, &text);
    if (status == MH_OK)
        status = mh_text_stream_next(context, t, true, 8, &stream, &text);
    mh_text_stream_free(context, &stream);
    mh_buffer_free(context, &text);
    mh_encoding_free(context, &e);
    mh_tokenizer_free(t);
    return status;
}

static mh_status load_spm(void)
{
    blob file = blob_read(MH_GOLDENS "/tokenizer.spm");
    mh_tokenizer *t;
    mh_status status = mh_tokenizer_parse_spm(context, "a.spm", file.bytes, file.size, &t);
    mh_tokenizer_free(t);
    blob_free(&file);
    return status;
}

static void test_no_memory(void **state)
{
    (void)state;
    write_file("vocab.txt", vocab, sizeof vocab - 1);
    test_out_of_memory(&memory, 1, load_and_encode);
    remove_file("vocab.txt");
    test_out_of_memory(&memory, 1, load_spm);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_vocab_txt),    cmocka_unit_test(test_merges),
        cmocka_unit_test(test_tiktoken),     cmocka_unit_test(test_no_files),
        cmocka_unit_test(test_marian),       cmocka_unit_test(test_vocabulary),
        cmocka_unit_test(test_options),      cmocka_unit_test(test_batch),
        cmocka_unit_test(test_refused_json), cmocka_unit_test(test_broken_spm),
        cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests(tests, set_up, parser_tear_down);
}
