// SPDX-License-Identifier: MIT
// The tokenizer: the ids and the vocabulary of the tokenizers package (goldens/make_tokenizer.py),
// any text comes back, no text makes a special token, and broken files are refused in words.

#include "parser_support.h"
#include "text_support.h"

#include <jansson.h>

static blob corpus_file;
static mh_text *corpus;
static size_t corpus_count;

static int set_up(void **state)
{
    (void)state;
    corpus = read_lines(MH_GOLDENS "/tokenizer_corpus.txt", &corpus_file, &corpus_count);
    return parser_place("tokenizer.json", NULL) != 0 || corpus_count == 0;
}

static int tear_down(void **state)
{
    free(corpus);
    blob_free(&corpus_file);
    return parser_tear_down(state);
}

static mh_tokenizer *train(size_t merges)
{
    mh_tokenizer *t;
    mh_tokenizer_options options = mh_tokenizer_options_default();
    options.merges = merges;
    test_ok(context, mh_tokenizer_train(context, &options, corpus, corpus_count, &t));
    return t;
}

static mh_tokenizer *load_golden(void)
{
    mh_tokenizer *t;
    test_ok(context, mh_tokenizer_load(context, MH_GOLDENS "/tokenizer.json", &t));
    return t;
}

static blob saved_bytes(const mh_tokenizer *t)
{
    test_ok(context, mh_tokenizer_save(context, t, path));
    return blob_read(path);
}

static void check_same_blob(blob a, blob b)
{
    assert_int_equal(a.size, b.size);
    assert_memory_equal(a.bytes, b.bytes, a.size);
    blob_free(&a);
    blob_free(&b);
}

// ---- as the tokenizers package ------------------------------------------------------------------

static void test_golden_ids(void **state)
{
    (void)state;
    mh_tokenizer *t = load_golden();
    mh_tokens tokens = {0};
    json_t *cases = json_load_file(MH_GOLDENS "/tokenizer_cases.json", JSON_ALLOW_NUL, NULL), *one;
    size_t i, k;
    assert_true(json_array_size(cases) > 20);
    json_array_foreach(cases, i, one)
    {
        const json_t *text = json_object_get(one, "text"), *ids = json_object_get(one, "ids");
        test_ok(context, mh_tokenizer_encode(context, t, json_string_value(text),
                                             json_string_length(text), &tokens));
        assert_int_equal(tokens.count, json_array_size(ids));
        for (k = 0; k < tokens.count; k++)
            assert_int_equal(tokens.ids[k], json_integer_value(json_array_get(ids, k)));
    }
    json_decref(cases);
    mh_tokens_free(context, &tokens);
    mh_tokenizer_free(t);
}

static void test_golden_training(void **state)
{
    (void)state;
    mh_tokenizer *theirs = load_golden(), *ours = train(300);
    assert_int_equal(mh_tokenizer_pad(ours), 0);
    assert_int_equal(mh_tokenizer_bos(ours), 1);
    assert_int_equal(mh_tokenizer_eos(ours), 2);
    check_same_blob(saved_bytes(ours), saved_bytes(theirs));
    mh_tokenizer_free(ours);
    mh_tokenizer_free(theirs);
}

// ---- training -----------------------------------------------------------------------------------

static void test_training(void **state)
{
    (void)state;
    mh_tokenizer *t = train(100), *again;
    mh_tokenizer_options options = mh_tokenizer_options_default();
    assert_int_equal(mh_tokenizer_size(t), 3 + 256 + 100);

    // the order of the texts does not matter
    mh_text *backwards = malloc(corpus_count * sizeof *backwards);
    assert_non_null(backwards);
    for (size_t i = 0; i < corpus_count; i++)
        backwards[i] = corpus[corpus_count - 1 - i];
    options.merges = 100;
    test_ok(context, mh_tokenizer_train(context, &options, backwards, corpus_count, &again));
    check_same_blob(saved_bytes(t), saved_bytes(again));
    mh_tokenizer_free(again);
    mh_tokenizer_free(t);
    free(backwards);

    // ties go to the smaller ids: "ab" before "cd"
    const mh_text ties[] = {TEXT("cd ab"), TEXT("cd ab")};
    mh_text token;
    options.merges = 1;
    test_ok(context, mh_tokenizer_train(context, &options, ties, 2, &t));
    assert_true(mh_tokenizer_token(t, 259, &token, NULL));
    assert_int_equal(token.size, 2);
    assert_memory_equal(token.bytes, "ab", 2);
    mh_tokenizer_free(t);

    // what is seen less often is not merged
    options.merges = 100;
    options.min_frequency = 3;
    test_ok(context, mh_tokenizer_train(context, &options, ties, 2, &t));
    assert_int_equal(mh_tokenizer_size(t), 259);
    mh_tokenizer_free(t);

    // nothing to learn from
    test_ok(context, mh_tokenizer_train(context, NULL, NULL, 0, &t));
    assert_int_equal(mh_tokenizer_size(t), 259);
    mh_tokenizer_free(t);
}

// The same letter again and again: pairs overlap. And a word of a megabyte.
static void test_training_repeats(void **state)
{
    (void)state;
    const size_t size = 1000000;
    char *word = malloc(size);
    assert_non_null(word);
    memset(word, 'a', size);
    const mh_text texts[] = {{word, size}, TEXT("aaaaaaa"), TEXT("aa")};
    mh_tokenizer_options options = mh_tokenizer_options_default();
    mh_tokenizer *t;
    mh_tokens tokens = {0};
    options.merges = 12;
    test_ok(context, mh_tokenizer_train(context, &options, texts, 3, &t));
    test_ok(context, mh_tokenizer_encode(context, t, word, size, &tokens));
    assert_true(tokens.count <= size / 512);
    assert_int_equal(tokens.ends[tokens.count - 1], size);
    mh_tokens_free(context, &tokens);
    mh_tokenizer_free(t);
    free(word);
}

static void test_training_refused(void **state)
{
    (void)state;
    const mh_text texts[] = {TEXT("good"), TEXT("bad \xC3(")}, none = {NULL, 3};
    mh_tokenizer_options options = mh_tokenizer_options_default();
    mh_tokenizer *t;
    test_refused(context, mh_tokenizer_train(context, NULL, texts, 2, &t), MH_ERROR_FORMAT,
                 "text 1: byte 4 (0xc3) is not valid UTF-8");
    assert_null(t);
    test_refused(context, mh_tokenizer_train(context, NULL, &none, 1, &t), MH_ERROR_ARGUMENT,
                 "text 0 is NULL");
    options.merges = 1000000;
    test_refused(context, mh_tokenizer_train(context, &options, texts, 1, &t), MH_ERROR_ARGUMENT,
                 "1000000 merges, expected at most 999741");
    options.struct_size = 1;
    test_refused(context, mh_tokenizer_train(context, &options, texts, 1, &t), MH_ERROR_ARGUMENT,
                 "struct_size");
    test_refused(context, mh_tokenizer_train(context, NULL, NULL, 1, &t), MH_ERROR_ARGUMENT,
                 "NULL");
    assert_int_equal(mh_tokenizer_train(NULL, NULL, texts, 1, &t), MH_ERROR_ARGUMENT);
}

// ---- any text -----------------------------------------------------------------------------------

static void check_round_trip(const mh_tokenizer *t, const char *text, size_t size)
{
    static mh_tokens tokens;
    static mh_buffer normal, back;
    test_ok(context, mh_tokenizer_encode(context, t, text, size, &tokens));
    test_ok(context, mh_text_nfc(context, text, size, &normal));
    test_ok(context, mh_tokenizer_decode(context, t, tokens.ids, tokens.count, &back));
    assert_int_equal(back.size, normal.size);
    assert_int_equal(tokens.text.size, normal.size);
    if (normal.size > 0) {
        assert_memory_equal(back.data, normal.data, normal.size);
        assert_memory_equal(tokens.text.data, normal.data, normal.size);
        assert_int_equal(tokens.ends[tokens.count - 1], normal.size);
    }
    for (size_t i = 0; i < tokens.count; i++) { // each token is where it says it is
        mh_text token;
        mh_token_kind kind;
        size_t begin = i ? tokens.ends[i - 1] : 0;
        assert_true(mh_tokenizer_token(t, tokens.ids[i], &token, &kind));
        assert_int_equal(kind, MH_TOKEN_TEXT);
        assert_int_equal(tokens.ends[i] - begin, token.size);
        assert_memory_equal(tokens.text.data + begin, token.bytes, token.size);
    }
    mh_tokens_free(context, &tokens);
    mh_buffer_free(context, &normal);
    mh_buffer_free(context, &back);
}

static void test_random_texts(void **state)
{
    (void)state;
    static const uint32_t pools[][2] = {{0, 0x7F},        {'a', 'z'},        {' ', ' '},
                                        {0xA0, 0x17F},    {0x300, 0x345},    {0x2000, 0x206F},
                                        {0x2581, 0x2581}, {0xE000, 0x10FFFF}};
    mh_tokenizer *t = load_golden();
    test_rng rng = {test_seed()};
    for (size_t n = test_cases(5000); n > 0; n--) {
        char text[400];
        size_t size = 0;
        for (size_t left = test_between(&rng, 0, 90); left > 0; left--) {
            const uint32_t *pool = pools[test_between(&rng, 0, 7)];
            uint32_t c = (uint32_t)test_between(&rng, pool[0], pool[1]);
            size_t length = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
            for (size_t i = length - 1; i > 0; i--, c >>= 6)
                text[size + i] = (char)(0x80 | (c & 0x3F));
            text[size] = (char)((length > 1 ? 0xF00 >> length & 0xFF : 0) | c);
            size += length;
        }
        check_round_trip(t, text, size);
    }
    mh_tokenizer_free(t);
}

// Long words and long everything: in a time that is not quadratic, or this never ends.
static void test_long_texts(void **state)
{
    (void)state;
    static const char *const parts[] = {"a",  "le chat ", "'",         " ",
                                        "\n", "\xC3\xA9", "e\xCC\x81", "!"};
    const size_t size = 1 << 20;
    mh_tokenizer *t = load_golden();
    char *text = malloc(size + 16);
    assert_non_null(text);
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        size_t length = strlen(parts[i]), used = 0;
        for (; used < size; used += length)
            memcpy(text + used, parts[i], length);
        check_round_trip(t, text, used);
    }
    free(text);
    mh_tokenizer_free(t);
}

// "</s>" in a text is four characters, even if the corpus is full of it.
static void test_no_injection(void **state)
{
    (void)state;
    const mh_text texts[] = {TEXT("</s></s> <s><s> <pad></s><s>"), TEXT("</s>"), TEXT("<pad>")};
    const char *text = "</s><s><pad> </s>";
    mh_tokenizer_options options = mh_tokenizer_options_default();
    mh_tokenizer *t, *loaded;
    mh_tokens tokens = {0};
    options.min_frequency = 1;
    test_ok(context, mh_tokenizer_train(context, &options, texts, 3, &t));
    test_ok(context, mh_tokenizer_encode(context, t, text, strlen(text), &tokens));
    for (size_t i = 0; i < tokens.count; i++)
        assert_true(tokens.ids[i] > 2);
    check_round_trip(t, text, strlen(text));
    test_ok(context, mh_tokenizer_save(context, t, path));
    test_ok(context, mh_tokenizer_load(context, path, &loaded));
    check_round_trip(loaded, text, strlen(text));
    check_same_blob(saved_bytes(t), saved_bytes(loaded));
    mh_tokens_free(context, &tokens);
    mh_tokenizer_free(t);
    mh_tokenizer_free(loaded);
}

static void test_encode_refused(void **state)
{
    (void)state;
    mh_tokenizer *t = load_golden();
    mh_tokens tokens = {0};
    mh_buffer out = {0};
    mh_text token;
    const int32_t bad[] = {5, 417}, negative[] = {-1}, special[] = {0, 1, 2};
    test_ok(context, mh_tokenizer_encode(context, t, "abc", 3, &tokens));
    test_refused(context, mh_tokenizer_encode(context, t, "abc\xED\xA0\x80", 6, &tokens),
                 MH_ERROR_FORMAT, "byte 3 (0xed) is not valid UTF-8");
    assert_int_equal(tokens.count, 0);
    test_refused(context, mh_tokenizer_encode(context, NULL, "", 0, &tokens), MH_ERROR_ARGUMENT,
                 "NULL");
    test_refused(context, mh_tokenizer_decode(context, t, bad, 2, &out), MH_ERROR_ARGUMENT,
                 "id 417 at position 1, expected 0 to 416");
    test_refused(context, mh_tokenizer_decode(context, t, negative, 1, &out), MH_ERROR_ARGUMENT,
                 "id -1");
    test_ok(context, mh_tokenizer_decode(context, t, special, 3, &out));
    assert_int_equal(out.size, 0);
    assert_false(mh_tokenizer_token(t, 417, &token, NULL));
    assert_false(mh_tokenizer_token(t, -1, &token, NULL));
    assert_int_equal(mh_tokenizer_size(NULL), 0);
    assert_int_equal(mh_tokenizer_encode(NULL, t, "", 0, &tokens), MH_ERROR_ARGUMENT);
    mh_buffer_free(context, &out);
    mh_tokens_free(context, &tokens);
    mh_tokenizer_free(t);
    mh_tokenizer_free(NULL);
}

// ---- files that are refused ---------------------------------------------------------------------

// A good file with the first `from` replaced by `to`.
static blob replaced(const char *from, const char *to)
{
    mh_tokenizer *t = train(3);
    blob good = saved_bytes(t);
    mh_tokenizer_free(t);
    const unsigned char *place = memmem(good.bytes, good.size, from, strlen(from));
    if (!place)
        fail_msg("the file has no %s", from);
    size_t before = (size_t)(place - good.bytes), after = before + strlen(from);
    blob b = blob_join(good.bytes, before, to, strlen(to), good.size - after);
    memcpy(b.bytes + before + strlen(to), good.bytes + after, good.size - after);
    blob_free(&good);
    return b;
}

static void check_refused(blob b, const char *word)
{
    mh_tokenizer *t;
    size_t before = memory.live;
    mh_status status = mh_tokenizer_parse(context, "some/tokenizer.json", b.bytes, b.size, &t);
    test_refused(context, status, MH_ERROR_FORMAT, word);
    test_refused(context, status, MH_ERROR_FORMAT, "some/tokenizer.json: ");
    assert_null(t);
    assert_int_equal(memory.live, before);
    blob_free(&b);
}

static void test_files_refused(void **state)
{
    (void)state;
    static const struct {
        const char *from, *to, *word;
    } cases[] = {
        // components that we do not have
        {"\"NFC\"", "\"NFKC\"", "normalizer.type: found \"NFKC\", expected \"NFC\""},
        {"{\"type\": \"NFC\"}", "null", "normalizer: found null, expected an object"},
        {"\"Sequence\"", "\"Metaspace\"", "pre_tokenizer.type: found \"Metaspace\", expected"},
        {"\"Split\"", "\"Digits\"", "pretokenizers[0].type: found \"Digits\", expected \"Split\""},
        {"| ?[0-9]{1,3}", "(a*)*b", "is not among the patterns that we have"},
        {"\"Isolated\"", "\"Removed\"", "behavior: found \"Removed\", expected \"Isolated\""},
        {"\"invert\": false", "\"invert\": true", "invert: found true, expected false"},
        {"\"use_regex\": false", "\"use_regex\": true", "use_regex: found true, expected false"},
        {"\"post_processor\": null", "\"post_processor\": {\"type\":\"BertProcessing\"}",
         "post_processor.sep: found null"},
        {"\"BPE\"", "\"Unigram\"", "model.type: found \"Unigram\", expected \"BPE\""},
        {"\"dropout\": null", "\"dropout\": 0.1", "model.dropout: found a fraction, expected null"},
        {"\"byte_fallback\": false", "\"byte_fallback\": true", "byte_fallback: found true"},
        {"\"unk_token\": null", "\"unk_token\": \"null\"",
         "unk_token: found \"null\", expected null"},
        {"\"truncation\": null", "\"truncation\": {}", "truncation: found an object"},
        {"\"1.0\"", "\"2.0\"", "version: found \"2.0\", expected \"1.0\""},
        {"\"version\"", "\"vision\"", "\"vision\" is unknown"},
        {"\"fuse_unk\"", "\"fuse\": 1, \"fuse_unk\"", "model.\"fuse\" is unknown"},
        {"\"lstrip\": false", "\"lstrip\": true", "added_tokens[0].lstrip: found true"},
        {"\"special\": true", "\"special\": false", "special: found false, expected true"},
        {"\"content\": \"<s>\"", "\"content\": 7", "content: found an integer, expected a string"},
        // ids
        {"\"!\": 3", "\"!\": 4", "have the same id 4"},
        {"\"!\": 3", "\"!\": -3", "has id -3"},
        {"\"!\": 3", "\"!\": 4294967299", "has id 4294967299"},
        {"\"!\": 3", "\"!\": 263", "no token has id 3"},
        {"\"!\": 3", "\"!\": 3.0", "is a fraction, expected an integer"},
        {"\"!\": 3", "\"!\": \"3\"", "is \"3\", expected an integer"},
        {"{\"id\": 1,", "{\"id\": 2,", "added_tokens[1].id is not that of \"<s>\""},
        {"\"content\": \"</s>\"", "\"content\": \"<end>\"", "have the same id 2"},
        {"\"!\": 3,", "\"\xE2\x82\xAC\": 3,", "U+20AC is not in the byte-level alphabet"},
        {"\"!\": 3,", "\"!!\": 3,", "no token for byte 0x21"},
        {"\"!\": 3,", "\"\": 3,", "of 0 bytes, expected 1 to 4096"},
        {"\"!\": 3,", "\"\\\"\": 3,", "duplicate"},
        // merges
        {"\"merges\": [", "\"merges\": [7,", "merge 0: found an integer"},
        {"\"merges\": [", "\"merges\": [\"a\",", "merge 0: found \"a\", expected two tokens"},
        {"\"merges\": [", "\"merges\": [\"a b c\",", "merge 0: found \"a b c\""},
        {"\"merges\": [", "\"merges\": [[\"a\",\"b\",\"c\"],", "merge 0: found a list"},
        {"\"merges\": [", "\"merges\": [[\"a\",1],", "merge 0: found a list"},
        {"\"merges\": [", "\"merges\": [\"a <s>\",", "merge 0: \"<s>\" is not a token of text"},
        {"\"merges\": [", "\"merges\": [\"< s\",\"<s >\",",
         "merge 0: \"<s\" is not a token of text"},
        {"\"merges\": [", "\"merges\": [\" a\",", "merge 0: \"\" is not a token of text"},
        {"\"merges\": [", "\"merges\": {", "not valid JSON"},
        {"\"vocab\": {", "\"vocab\": 1, \"x\": {", "\"x\" is unknown"},
        // JSON
        {"{", "", "not valid JSON"},
        {"null", "[[[[[[[[[", "nesting deeper than 8 levels"},
        {"<pad>", "\\u0000", "u0000"},
        {"<pad>", "\xff", "not valid JSON"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        check_refused(replaced(cases[i].from, cases[i].to), cases[i].word);
    check_refused(blob_copy("", 0), "is empty, expected JSON");
    check_refused(blob_copy("[]", 2), "some/tokenizer.json: found a list, expected an object");
    check_refused(blob_copy("{}", 2), "expected an object");
}

// The file without all its lines of tokens and merges.
static void test_no_tokens(void **state)
{
    (void)state;
    mh_tokenizer *t = train(3);
    blob b = saved_bytes(t);
    mh_tokenizer_free(t);
    size_t kept = 0;
    for (size_t at = 0, length; at < b.size; at += length) {
        const char *line = (const char *)b.bytes + at;
        const char *end = memchr(line, '\n', b.size - at);
        length = end ? (size_t)(end - line) + 1 : b.size - at;
        if (strncmp(line, "    {\"id\"", 9) == 0 || strncmp(line, "      \"", 7) == 0)
            continue;
        memmove(b.bytes + kept, line, length);
        kept += length;
    }
    b.size = kept;
    check_refused(b, "no token for byte 0x00");
}

// A special token's name cannot be reached by merges, even if the file says so.
static void test_file_injection(void **state)
{
    (void)state;
    blob first = replaced("\"merges\": [", "\"merges\": [\"< s\", \"<s >\",");
    const unsigned char *place = memmem(first.bytes, first.size, "\"~\"", 3);
    assert_non_null(place);
    // "<s" takes the next free id, so that only the result "<s>" is in question
    size_t before = (size_t)(place - first.bytes);
    const char *add = "\"<s\": 262, ";
    blob b = blob_join(first.bytes, before, add, strlen(add), first.size - before);
    memcpy(b.bytes + before + strlen(add), place, first.size - before);
    blob_free(&first);
    check_refused(b, "merge 1: \"<s>\" is not a token of text");
}

static void test_same_merge_twice(void **state)
{
    (void)state;
    mh_tokenizer *t = train(1);
    blob good = saved_bytes(t);
    mh_tokenizer_free(t);
    const char *list = memmem(good.bytes, good.size, "\"merges\": [", 11);
    assert_non_null(list);
    const char *merge = memchr(list + 11, '"', 20), *end = memchr(merge + 1, '"', 20);
    char twice[64];
    snprintf(twice, sizeof twice, "\"merges\": [%.*s,", (int)(end + 1 - merge), merge);
    size_t before = (size_t)((const unsigned char *)list - good.bytes);
    size_t rest = good.size - before - 11;
    blob b = blob_join(good.bytes, before, twice, strlen(twice), rest);
    memcpy(b.bytes + before + strlen(twice), list + 11, rest);
    blob_free(&good);
    check_refused(b, "merge 1 is the same as merge 0");
}

static void test_cut_and_flipped(void **state)
{
    (void)state;
    mh_tokenizer *t = train(5);
    blob b = saved_bytes(t);
    mh_tokenizer_free(t);
    for (size_t size = 0; size + 2 < b.size; size += 1 + size / 50) {
        blob cut = blob_copy(b.bytes, size);
        assert_int_equal(mh_tokenizer_parse(context, "x", cut.bytes, size, &t), MH_ERROR_FORMAT);
        blob_free(&cut);
    }
    test_rng rng = {test_seed()};
    for (size_t n = test_cases(3000); n > 0; n--) {
        size_t bit = test_between(&rng, 0, 8 * b.size - 1);
        b.bytes[bit / 8] ^= (unsigned char)(1 << bit % 8);
        if (mh_tokenizer_parse(context, "x", b.bytes, b.size, &t) == MH_OK)
            check_round_trip(t, "a text, with numbers: 123.", 26);
        mh_tokenizer_free(t);
        b.bytes[bit / 8] ^= (unsigned char)(1 << bit % 8);
    }
    blob_free(&b);
    test_refused(context, mh_tokenizer_load(context, "/nowhere/x", &t), MH_ERROR_FILE,
                 "/nowhere/x");
    test_refused(context, mh_tokenizer_load(context, directory, &t), MH_ERROR_FILE, "a directory");
    test_refused(context, mh_tokenizer_load(context, NULL, &t), MH_ERROR_ARGUMENT, "NULL");
    test_refused(context, mh_tokenizer_parse(context, "x", NULL, 1, &t), MH_ERROR_ARGUMENT, "NULL");
    test_refused(context, mh_tokenizer_save(context, NULL, path), MH_ERROR_ARGUMENT, "NULL");
}

// ---- no memory ----------------------------------------------------------------------------------

static mh_status train_and_use(void)
{
    mh_tokenizer *t = NULL;
    mh_tokens tokens = {0};
    mh_buffer out = {0};
    mh_tokenizer_options options = mh_tokenizer_options_default();
    options.merges = 40;
    mh_status status = mh_tokenizer_train(context, &options, corpus, 12, &t);
    if (status == MH_OK)
        status = mh_tokenizer_encode(context, t, "Un texte plus long, e\xCC\x81", 23, &tokens);
    if (status == MH_OK)
        status = mh_tokenizer_decode(context, t, tokens.ids, tokens.count, &out);
    if (status == MH_OK)
        status = mh_tokenizer_save(context, t, path);
    mh_tokens_free(context, &tokens);
    mh_buffer_free(context, &out);
    mh_tokenizer_free(t);
    return status;
}

static mh_status load_golden_file(void)
{
    mh_tokenizer *t;
    mh_status status = mh_tokenizer_load(context, path, &t);
    mh_tokenizer_free(t);
    return status;
}

static void test_no_memory(void **state)
{
    (void)state;
    test_out_of_memory(&memory, 1, train_and_use);
    mh_tokenizer *t = train(40);
    test_ok(context, mh_tokenizer_save(context, t, path));
    mh_tokenizer_free(t);
    test_out_of_memory(&memory, 1, load_golden_file);
    test_out_of_memory(&json_memory, 7, load_golden_file);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_golden_ids),       cmocka_unit_test(test_golden_training),
        cmocka_unit_test(test_training),         cmocka_unit_test(test_training_repeats),
        cmocka_unit_test(test_training_refused), cmocka_unit_test(test_random_texts),
        cmocka_unit_test(test_long_texts),       cmocka_unit_test(test_no_injection),
        cmocka_unit_test(test_encode_refused),   cmocka_unit_test(test_files_refused),
        cmocka_unit_test(test_no_tokens),        cmocka_unit_test(test_file_injection),
        cmocka_unit_test(test_same_merge_twice), cmocka_unit_test(test_cut_and_flipped),
        cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
