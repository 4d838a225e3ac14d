// SPDX-License-Identifier: MIT
// UTF-8, normalisation, plain relatives of typographic characters, and sentences.
#include "parser_support.h"
#include "text_support.h"

#include "text/plain_text.h"

#include <utf8proc.h>

// ---- UTF-8 --------------------------------------------------------------------------------------

static const struct {
    const char *bytes;
    size_t size, valid;
    const char *repaired;
} utf8_cases[] = {
    {"", 0, 0, ""},
    {"plain ascii, more than eight bytes", 34, 34, "plain ascii, more than eight bytes"},
    {"\x7f\xC2\x80\xDF\xBF\xE0\xA0\x80\xEF\xBF\xBF\xF0\x90\x80\x80\xF4\x8F\xBF\xBF", 19, 19,
     "\x7f\xC2\x80\xDF\xBF\xE0\xA0\x80\xEF\xBF\xBF\xF0\x90\x80\x80\xF4\x8F\xBF\xBF"},
    {"ab\x80", 3, 2, "ab\xEF\xBF\xBD"},
    {"12345678\xFF", 9, 8, "12345678\xEF\xBF\xBD"},
    {"\xC0\x80", 2, 0, "\xEF\xBF\xBD\xEF\xBF\xBD"}, // overlong
    {"\xC1\xBF", 2, 0, "\xEF\xBF\xBD\xEF\xBF\xBD"},
    {"\xE0\x9F\xBF", 3, 0, "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD"},
    {"\xED\xA0\x80", 3, 0, "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD"}, // surrogate
    {"\xF0\x8F\xBF\xBF", 4, 0, "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD"},
    {"\xF4\x90\x80\x80", 4, 0, "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD"},
    {"\xF5\x80", 2, 0, "\xEF\xBF\xBD\xEF\xBF\xBD"},
    {"a\xE2\x82", 3, 1, "a\xEF\xBF\xBD"}, // cut off: one replacement
    {"a\xF0\x9F\x98", 4, 1, "a\xEF\xBF\xBD"},
    {"\xE2\x82z\xF0\x9F\x98\x80", 7, 0, "\xEF\xBF\xBDz\xF0\x9F\x98\x80"},
    {"\xC3\xC3\xA9", 3, 0, "\xEF\xBF\xBD\xC3\xA9"},
};

static void test_utf8(void **state)
{
    (void)state;
    mh_buffer out = {0};
    for (size_t i = 0; i < sizeof utf8_cases / sizeof *utf8_cases; i++) {
        blob b = blob_copy(utf8_cases[i].bytes, utf8_cases[i].size);
        const char *bytes = (const char *)b.bytes;
        assert_int_equal(mh_utf8_valid(bytes, b.size), utf8_cases[i].valid);
        test_ok(context, mh_utf8_repair(context, bytes, b.size, &out));
        assert_int_equal(out.size, strlen(utf8_cases[i].repaired));
        if (out.size > 0)
            assert_memory_equal(out.data, utf8_cases[i].repaired, out.size);
        assert_int_equal(mh_utf8_valid(out.data, out.size), out.size);
        blob_free(&b);
    }
    mh_buffer_free(context, &out);
}

// ---- normalisation ------------------------------------------------------------------------------

static void check_nfc(const char *text, size_t size, const char *expected, size_t expected_size)
{
    mh_buffer out = {0};
    test_ok(context, mh_text_nfc(context, text, size, &out));
    assert_int_equal(out.size, expected_size);
    if (expected_size > 0)
        assert_memory_equal(out.data, expected, expected_size);
    mh_buffer_free(context, &out);
}

#define NFC(text, expected) check_nfc(text, sizeof text - 1, expected, sizeof expected - 1)

static void test_nfc(void **state)
{
    (void)state;
    NFC("", "");
    NFC("a\0b", "a\0b");
    NFC("\xC3\xA9t\xC3\xA9", "\xC3\xA9t\xC3\xA9");
    NFC("e\xCC\x81te\xCC\x81", "\xC3\xA9t\xC3\xA9");
    NFC("xe\xCC\x81", "x\xC3\xA9");
    NFC("\xCC\x81", "\xCC\x81");
    NFC("e\xCC\x81\xCC\xA3", "\xE1\xBA\xB9\xCC\x81");            // reordered, then composed
    NFC("\xE2\x84\xAB", "\xC3\x85");                             // Angstrom
    NFC("\xE1\x84\x80\xE1\x85\xA1\xE1\x86\xA8", "\xEA\xB0\x81"); // Hangul
    NFC("\xEF\xAC\x81", "\xEF\xAC\x81");                         // no compatibility
    NFC("\xE0\xA5\x98", "\xE0\xA4\x95\xE0\xA4\xBC");             // never composed
}

// Against utf8proc's own function, which is slow and right.
static void test_nfc_random(void **state)
{
    (void)state;
    static const uint32_t pools[][2] = {{0x20, 0x7E},     {0xC0, 0x17F},     {0x300, 0x345},
                                        {0x1100, 0x11FF}, {0xAC00, 0xD7A3},  {0x900, 0x97F},
                                        {0x1E00, 0x1EFF}, {0xE000, 0x10FFFF}};
    test_rng rng = {test_seed()};
    for (size_t n = test_cases(20000); n > 0; n--) {
        unsigned char text[400], *expected;
        size_t size = 0;
        for (size_t left = test_between(&rng, 0, 90); left > 0; left--) {
            const uint32_t *pool = pools[test_between(&rng, 0, 7)];
            uint32_t c = (uint32_t)test_between(&rng, pool[0], pool[1]);
            size += (size_t)utf8proc_encode_char((int32_t)c, text + size);
        }
        utf8proc_ssize_t length = utf8proc_map(text, (utf8proc_ssize_t)size, &expected,
                                               UTF8PROC_STABLE | UTF8PROC_COMPOSE);
        assert_true(length >= 0);
        check_nfc((const char *)text, size, (const char *)expected, (size_t)length);
        free(expected);
    }
}

// A megabyte of marks in the wrong order: sorted by insertion this would take minutes.
static void test_nfc_many_marks(void **state)
{
    (void)state;
    const size_t pairs = 250000;
    char *text = malloc(1 + 4 * pairs), *expected = malloc(1 + 4 * pairs);
    assert_true(text && expected);
    text[0] = expected[0] = 'x';
    for (size_t i = 0; i < pairs; i++) {
        memcpy(text + 1 + 4 * i, "\xCC\x81\xCC\xA3", 4); // class 230, then 220
        memcpy(expected + 1 + 2 * i, "\xCC\xA3", 2);
        memcpy(expected + 1 + 2 * pairs + 2 * i, "\xCC\x81", 2);
    }
    mh_buffer out = {0};
    test_ok(context, mh_text_nfc(context, text, 1 + 4 * pairs, &out));
    // x with a dot below and with an acute do not exist as one character
    assert_int_equal(out.size, 1 + 4 * pairs);
    assert_memory_equal(out.data, expected, out.size);
    mh_buffer_free(context, &out);
    free(text);
    free(expected);
}

static void test_refused_text(void **state)
{
    (void)state;
    mh_buffer out = {0};
    test_refused(context, mh_text_nfc(context, "ab\xC3(", 4, &out), MH_ERROR_FORMAT,
                 "byte 2 (0xc3) is not valid UTF-8");
    test_refused(context, mh_text_nfc(context, NULL, 1, &out), MH_ERROR_ARGUMENT, "NULL");
    assert_int_equal(mh_text_nfc(NULL, "", 0, &out), MH_ERROR_ARGUMENT);
    assert_int_equal(mh_utf8_repair(NULL, "", 0, &out), MH_ERROR_ARGUMENT);
    test_refused(context, mh_utf8_repair(context, "", 0, NULL), MH_ERROR_ARGUMENT, "NULL");
}

static mh_status normalise_and_repair(void)
{
    mh_buffer out = {0}, fixed = {0};
    mh_status status = mh_text_nfc(context, "some text, e\xCC\x81\xCC\xA3 and so on", 25, &out);
    if (status == MH_OK)
        status = mh_utf8_repair(context, "\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF", 8, &fixed);
    mh_buffer_free(context, &fixed);
    if (status == MH_OK)
        status = mh_plain_text(context, UINT64_MAX, "some text", 9, &fixed);
    mh_buffer_free(context, &out);
    mh_buffer_free(context, &fixed);
    return status;
}

static void test_no_memory(void **state)
{
    (void)state;
    test_out_of_memory(&memory, 1, normalise_and_repair);
}

// ---- sentences ----------------------------------------------------------------------------------

// `expected` has a | behind each piece.
static void check_plain(uint64_t foreign, mh_text text, mh_text expected)
{
    mh_buffer out = {0};
    test_ok(context, mh_plain_text(context, foreign, text.bytes, text.size, &out));
    assert_int_equal(out.size, expected.size);
    assert_memory_equal(out.data, expected.bytes, expected.size);
    mh_buffer_free(context, &out);
}

static uint64_t foreign_to(const char *data, size_t size)
{
    mh_tokenizer *tokenizer;
    const mh_text texts[2] = {{data, size}, {data, size}}; // twice: seldom pairs are not merged
    test_ok(context, mh_tokenizer_train(context, NULL, texts, 2, &tokenizer));
    const uint64_t foreign = mh_plain_foreign(tokenizer);
    mh_tokenizer_free(tokenizer);
    return foreign;
}

static void test_plain_text(void **state)
{
    (void)state;
    static const struct {
        mh_text text, plain;
    } cases[] = {
        {TEXT(""), TEXT("")},
        {TEXT("plain, \"and\" it's left - alone... "),
         TEXT("plain, \"and\" it's left - alone... ")},
        {TEXT(u8"d\u00E9j\u00E0 \U0001F600 \u4E2D"), TEXT(u8"d\u00E9j\u00E0 \U0001F600 \u4E2D")},
        {TEXT(u8"L\u2019homme\u00A0?"), TEXT("L'homme ?")},
        {TEXT("a\tb\nc\rd\ve\ff"), TEXT("a b c d e f")},
        {TEXT(u8"\u00AB\u00A0Oui\u202F\u00BB"), TEXT("\" Oui \"")},
        {TEXT(u8"\u201Ca\u201D \u2018b\u2019 \u201Ec\u201F"), TEXT("\"a\" 'b' \"c\"")},
        {TEXT(u8"1\u2013 2\u2014 \u22123\u2026"), TEXT("1- 2- -3...")},
        {TEXT(u8"\uFEFFof\uFB01ce co\u00ADop\u200B"), TEXT("office coop")},
        {TEXT(u8" a\t\tb  \u2003\u3000 c\v\f\nd \u00A0"), TEXT(" a b c d ")},
    };
    const uint64_t all = foreign_to("nothing of that kind", 20);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        check_plain(all, cases[i].text, cases[i].plain);
        check_plain(all, cases[i].plain, cases[i].plain); // once is enough
    }
    check_plain(0, TEXT(u8"L\u2019homme\u00A0?"), TEXT(u8"L\u2019homme\u00A0?"));

    // What a model has learnt stays, and only that.
    const mh_text data = TEXT(u8"l\u2019ami l\u2019homme\u00A0? non\u00A0?");
    check_plain(foreign_to(data.bytes, data.size), TEXT(u8"l\u2019\u2018a\u00A0\u202F?\u2026"),
                TEXT(u8"l\u2019'a\u00A0 ?..."));
    mh_buffer out = {0};
    test_refused(context, mh_plain_text(context, all, "a\xE2\x80", 3, &out), MH_ERROR_FORMAT,
                 "byte 1 (0xe2) is not valid UTF-8");
    mh_buffer_free(context, &out);
}

static void check_sentences(const char *text, size_t most, const char *expected)
{
    char found[512] = "";
    size_t size = strlen(text), used = 0;
    for (size_t at = 0, length; at < size; at += length) {
        length = mh_sentence_length(text + at, size - at, most);
        assert_true(length > 0 && length <= size - at && length <= most);
        memcpy(found + used, text + at, length);
        used += length;
        found[used++] = '|';
    }
    found[used] = '\0';
    assert_string_equal(found, expected);
}

static void test_sentences(void **state)
{
    (void)state;
    check_sentences("", 100, "");
    check_sentences("No end", 100, "No end|");
    check_sentences("One. Two! Three?", 100, "One. |Two! |Three?|");
    check_sentences("One.  Two", 100, "One.  |Two|");
    check_sentences("Pi is 3.14 or so. See example.org now. A", 100,
                    "Pi is 3.14 or so. |See example.org now. |A|");
    check_sentences("Mr. Bean met A. Lincoln. So did I. Yes.", 100,
                    "Mr. Bean met A. Lincoln. |So did I. |Yes.|");
    check_sentences("etc. and so on... right? \"No!\" he said. \"No.\" She left.", 100,
                    "etc. and so on... right? |\"No!\" he said. |\"No.\" |She left.|");
    check_sentences("\xC2\xAB Viens ! \xC2\xBB Il part. \xC3\x89t\xC3\xA9.", 100,
                    "\xC2\xAB Viens ! \xC2\xBB |Il part. |\xC3\x89t\xC3\xA9.|");
    check_sentences("\xE4\xBD\xA0\xE5\xA5\xBD\xE3\x80\x82\xE5\x86\x8D\xE8\xA7\x81\xE3\x80\x82", 100,
                    "\xE4\xBD\xA0\xE5\xA5\xBD\xE3\x80\x82|\xE5\x86\x8D\xE8\xA7\x81\xE3\x80\x82|");
    check_sentences("first part, second part, third", 20, "first part, |second part, third|");
    check_sentences("first part, second part, third", 17, "first part, |second part, |third|");
    check_sentences("no comma in this one", 10, "no comma |in this |one|");
    check_sentences("abcdefghij", 4, "abcd|efgh|ij|");
    check_sentences("\xC3\xA9\xC3\xA9\xC3\xA9", 5, "\xC3\xA9\xC3\xA9|\xC3\xA9|");
    check_sentences("One.      Two.", 7, "One.   |   Two.|");
    assert_int_equal(mh_sentence_length("ab. c", 5, 0), 4);
    assert_int_equal(mh_sentence_length(NULL, 0, 10), 0);
}

// However strange the text, the pieces are whole characters, and a megabyte takes no minutes.
static void test_sentences_random(void **state)
{
    (void)state;
    static const char *const parts[] = {".",
                                        "!",
                                        "?",
                                        " ",
                                        "a",
                                        "Z",
                                        "\xC2\xBB",
                                        "\xC3\xA9",
                                        "\xE2\x80\xA6",
                                        ",",
                                        "Mr",
                                        "\"",
                                        "  ",
                                        "\xE3\x80\x82",
                                        "word"};
    test_rng rng = {test_seed()};
    for (size_t n = test_cases(3000); n > 0; n--) {
        char text[512] = "";
        size_t pieces = test_between(&rng, 0, 100), most = test_between(&rng, 4, 60);
        for (; pieces > 0; pieces--)
            strcat(text, parts[test_between(&rng, 0, sizeof parts / sizeof *parts - 1)]);
        size_t size = strlen(text);
        for (size_t at = 0, length; at < size; at += length) {
            length = mh_sentence_length(text + at, size - at, most);
            assert_true(length > 0 && length <= most && length <= size - at);
            assert_int_equal(mh_utf8_valid(text + at, length), length);
        }
    }
    const size_t size = 1000000;
    char *long_text = malloc(size);
    assert_non_null(long_text);
    memset(long_text, '.', size);
    for (size_t at = 0; at < size;)
        at += mh_sentence_length(long_text + at, size - at, 1000);
    memset(long_text, ' ', size);
    for (size_t at = 0; at < size;)
        at += mh_sentence_length(long_text + at, size - at, 1000);
    free(long_text);
}

// ---- languages ----------------------------------------------------------------------------------

static void test_language_guess(void **state)
{
    (void)state;
    static const struct {
        const char *text, *code; // NULL: no answer
    } cases[] = {
        {"The bank approved the loan yesterday.", "en"},
        {"THE CAT THAT I SAW YESTERDAY RAN AWAY.", "en"},
        {"I don\xE2\x80\x99t know what it is.", "en"},
        {"O\xC3\xB9 est la gare ?", "fr"},
        {"L\xE2\x80\x99\x65\x61u n'est pas chaude.", "fr"},
        {"Tu es immoral.", NULL}, // or Spanish,
        {"Ich habe keine Zeit.", "de"},
        {"\xC2\xBF\x44\xC3\xB3nde est\xC3\xA1 la estaci\xC3\xB3n?", "es"},
        {"Dove sono i miei libri?", "it"},
        {"Eu n\xC3\xA3o sei onde ele est\xC3\xA1.", "pt"},
        {"Ik weet niet waar het is.", "nl"},
        {"Tom", NULL},
        {"", NULL},
        {"42 + 17 = 59", NULL},
        {"\xD0\xBF\xD1\x80\xD0\xB8\xD0\xB2\xD0\xB5\xD1\x82", NULL},
        {"the \xFF is the", NULL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *found = mh_language_guess(cases[i].text, strlen(cases[i].text));
        if (!found || !cases[i].code)
            assert_true(found == cases[i].code);
        else
            assert_string_equal(found, cases[i].code);
    }
    assert_null(mh_language_guess(NULL, 0));
    assert_string_equal(mh_language_name("fr"), "French");
    assert_null(mh_language_name("xx"));
    assert_null(mh_language_name(NULL));
}

// One function word is enough if the text has none of the language that is expected.
static void test_language_other(void **state)
{
    (void)state;
    static const struct {
        const char *text, *expected, *likely, *other; // other NULL: as expected, or unknown
    } cases[] = {
        {"The cat sleeps.", "fr", "en", "en"},
        {"Close the window!", "fr", NULL, "en"},
        {"Hello world", "fr", "en", "en"},
        {"Le chat dort.", "en", "fr", "fr"},
        {"Le chat dort.", "en", NULL, NULL}, // or Italian, or Spanish
        {"Merci beaucoup", "en", "fr", "fr"},
        {"Il pleut.", "en", "fr", "fr"},
        {"Les enfants jouent.", "en", "fr", "fr"},
        {"Ich bin es.", "en", "fr", "de"},
        {"Le chat dort.", "fr", "en", NULL},
        {"On the table.", "en", "fr", NULL},
        {"Tom on the sofa.", "fr", "en", "en"}, // two words against one
        {"Tu es immoral.", "fr", "en", NULL},
        {"Tom", "fr", "en", NULL},
        {"Mary loves Las Vegas.", "en", "fr", NULL}, // a name
        {"Tom visite Los Angeles.", "fr", "en", NULL},
        {"Come back.", "en", "fr", NULL}, // an Italian word, too
        {"Il rentra chez lui.", "fr", "en", NULL},
        {"Tom se lava les mains.", "fr", "en", NULL},
        {"There's no such thing as a free lunch.", "en", "fr", NULL},
        {"Le Chat Dort.", "en", "fr", "fr"},
        {"LE CHAT EST LA", "en", "fr", "fr"},
        {"The cat sleeps.", "xx", "en", NULL},
        {"The cat sleeps.", NULL, "en", NULL},
        {"the \xFF is the", "fr", "en", NULL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *found = mh_language_other(cases[i].text, strlen(cases[i].text),
                                              cases[i].expected, cases[i].likely);
        if (!found || !cases[i].other)
            assert_true(found == cases[i].other);
        else
            assert_string_equal(found, cases[i].other);
    }
    assert_null(mh_language_other(NULL, 0, "fr", "en"));
}

static void test_script(void **state)
{
    (void)state;
    static const struct {
        const char *text, *script;
    } cases[] = {
        {"O\xC3\xB9 est la gare ?", "Latin"},
        {"\xD0\xBF\xD1\x80\xD0\xB8\xD0\xB2\xD0\xB5\xD1\x82, Tom", "Cyrillic"},
        {"\xE7\x8C\xAB\xE3\x81\x8C\xE7\x9C\xA0\xE3\x82\x8B", "Japanese"}, // two of four are Han
        {"\xE7\x8C\xAB\xE5\x9C\xA8\xE7\x9D\xA1", "Chinese"},
        {"\xEA\xB3\xA0\xEC\x96\x91\xEC\x9D\xB4", "Korean"},
        {"\xD9\x82\xD8\xB7\xD8\xA9", "Arabic"},
        {"42 + 17 = 59", NULL},
        {"\xF0\x9F\x98\x80", NULL},
        {"", NULL},
        {"the \xFF", NULL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *found = mh_text_script(cases[i].text, strlen(cases[i].text));
        if (!found || !cases[i].script)
            assert_true(found == cases[i].script);
        else
            assert_string_equal(found, cases[i].script);
    }
    assert_null(mh_text_script(NULL, 0));
}

// How many texts of one side of real pairs are taken for the language of the other side.
static double part_of_others(FILE *pairs, int side, const char *expected, const char *likely)
{
    char line[4096];
    size_t texts = 0, others = 0;
    rewind(pairs);
    while (fgets(line, sizeof line, pairs)) {
        char *tab = strchr(line, '\t');
        assert_non_null(tab);
        const char *text = side ? tab + 1 : line;
        const size_t size = side ? strcspn(text, "\t\n") : (size_t)(tab - line);
        const char *found = mh_language_other(text, size, expected, likely);
        texts++;
        others += found != NULL;
    }
    return (double)others / (double)texts;
}

static void test_language_of_pairs(void **state)
{
    (void)state;
    const char *data = getenv("MH_TEST_DATA");
    char name[1024];
    if (!data) {
        print_message("MH_TEST_DATA is not set: no sentence pairs to read\n");
        skip();
    }
    snprintf(name, sizeof name, "%s/tatoeba-fra-eng/train.tsv", data);
    FILE *pairs = fopen(name, "re");
    assert_non_null(pairs);
    const double french = part_of_others(pairs, 0, "en", "fr");
    const double english = part_of_others(pairs, 1, "fr", "en");
    const double wrong_french = part_of_others(pairs, 0, "fr", "en");
    const double wrong_english = part_of_others(pairs, 1, "en", "fr");
    fclose(pairs);
    print_message("noticed: French %.2f %%, English %.2f %%; false: French %.2f %%, "
                  "English %.2f %%\n",
                  100 * french, 100 * english, 100 * wrong_french, 100 * wrong_english);
    assert_true(french > 0.90 && english > 0.85);
    assert_true(wrong_french < 0.003 && wrong_english < 0.003);
}

// Words of any length, and of any characters.
static void test_language_guess_random(void **state)
{
    (void)state;
    static const char *const parts[] = {"the", "\xF0\x9F\x98\x80", "'", "\xE2\x80\x99",
                                        " ",   "\xC3\x89",         "ea"};
    test_rng rng = {test_seed()};
    for (size_t n = test_cases(3000); n > 0; n--) {
        char text[512] = "";
        for (size_t pieces = test_between(&rng, 0, 100); pieces > 0; pieces--)
            strcat(text, parts[test_between(&rng, 0, sizeof parts / sizeof *parts - 1)]);
        const char *found = mh_language_guess(text, strlen(text));
        assert_true(!found || mh_language_name(found));
        found = mh_language_other(text, strlen(text), "fr", "en");
        assert_true(!found || mh_language_name(found));
        mh_text_script(text, strlen(text));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_utf8),
        cmocka_unit_test(test_nfc),
        cmocka_unit_test(test_nfc_random),
        cmocka_unit_test(test_nfc_many_marks),
        cmocka_unit_test(test_refused_text),
        cmocka_unit_test(test_no_memory),
        cmocka_unit_test(test_sentences),
        cmocka_unit_test(test_sentences_random),
        cmocka_unit_test(test_plain_text),
        cmocka_unit_test(test_language_guess),
        cmocka_unit_test(test_language_guess_random),
        cmocka_unit_test(test_language_other),
        cmocka_unit_test(test_script),
        cmocka_unit_test(test_language_of_pairs),
    };
    return cmocka_run_group_tests(tests, parser_set_up, parser_tear_down);
}
