// SPDX-License-Identifier: MIT
// Numbers in words against a table written by hand, and the corpora made of them: the sizes asked
// for, no number in both, every word to be learnt, the same for the same seed.
#include "support.h"

#include "text_support.h"
#include "train/demo_numbers.h"

static mh_context *context;
static scarce memory;

static int set_up(void **state)
{
    (void)state;
    mh_context_options options = scarce_options(&memory);
    return mh_context_create(&options, &context, NULL, 0) != MH_OK;
}

static int tear_down(void **state)
{
    (void)state;
    mh_context_free(context);
    return memory.live != 0;
}

static const struct {
    uint32_t n;
    const char *french, *english;
} table[] = {
    {0, "zéro", "zero"},
    {1, "un", "one"},
    {2, "deux", "two"},
    {7, "sept", "seven"},
    {10, "dix", "ten"},
    {11, "onze", "eleven"},
    {12, "douze", "twelve"},
    {13, "treize", "thirteen"},
    {14, "quatorze", "fourteen"},
    {15, "quinze", "fifteen"},
    {16, "seize", "sixteen"},
    {17, "dix-sept", "seventeen"},
    {18, "dix-huit", "eighteen"},
    {19, "dix-neuf", "nineteen"},
    {20, "vingt", "twenty"},
    {21, "vingt et un", "twenty-one"},
    {22, "vingt-deux", "twenty-two"},
    {30, "trente", "thirty"},
    {31, "trente et un", "thirty-one"},
    {40, "quarante", "forty"},
    {48, "quarante-huit", "forty-eight"},
    {51, "cinquante et un", "fifty-one"},
    {59, "cinquante-neuf", "fifty-nine"},
    {60, "soixante", "sixty"},
    {61, "soixante et un", "sixty-one"},
    {69, "soixante-neuf", "sixty-nine"},
    {70, "soixante-dix", "seventy"},
    {71, "soixante et onze", "seventy-one"},
    {72, "soixante-douze", "seventy-two"},
    {77, "soixante-dix-sept", "seventy-seven"},
    {79, "soixante-dix-neuf", "seventy-nine"},
    {80, "quatre-vingts", "eighty"},
    {81, "quatre-vingt-un", "eighty-one"},
    {88, "quatre-vingt-huit", "eighty-eight"},
    {90, "quatre-vingt-dix", "ninety"},
    {91, "quatre-vingt-onze", "ninety-one"},
    {92, "quatre-vingt-douze", "ninety-two"},
    {97, "quatre-vingt-dix-sept", "ninety-seven"},
    {99, "quatre-vingt-dix-neuf", "ninety-nine"},
    {100, "cent", "one hundred"},
    {101, "cent un", "one hundred one"},
    {111, "cent onze", "one hundred eleven"},
    {121, "cent vingt et un", "one hundred twenty-one"},
    {180, "cent quatre-vingts", "one hundred eighty"},
    {200, "deux cents", "two hundred"},
    {201, "deux cent un", "two hundred one"},
    {280, "deux cent quatre-vingts", "two hundred eighty"},
    {371, "trois cent soixante et onze", "three hundred seventy-one"},
    {900, "neuf cents", "nine hundred"},
    {999, "neuf cent quatre-vingt-dix-neuf", "nine hundred ninety-nine"},
    {1000, "mille", "one thousand"},
    {1001, "mille un", "one thousand one"},
    {1100, "mille cent", "one thousand one hundred"},
    {1980, "mille neuf cent quatre-vingts", "one thousand nine hundred eighty"},
    {2000, "deux mille", "two thousand"},
    {2200, "deux mille deux cents", "two thousand two hundred"},
    {10000, "dix mille", "ten thousand"},
    {21000, "vingt et un mille", "twenty-one thousand"},
    {71021, "soixante et onze mille vingt et un", "seventy-one thousand twenty-one"},
    {80000, "quatre-vingt mille", "eighty thousand"},
    {80080, "quatre-vingt mille quatre-vingts", "eighty thousand eighty"},
    {81200, "quatre-vingt-un mille deux cents", "eighty-one thousand two hundred"},
    {100000, "cent mille", "one hundred thousand"},
    {101000, "cent un mille", "one hundred one thousand"},
    {180000, "cent quatre-vingt mille", "one hundred eighty thousand"},
    {200000, "deux cent mille", "two hundred thousand"},
    {200200, "deux cent mille deux cents", "two hundred thousand two hundred"},
    {271080, "deux cent soixante et onze mille quatre-vingts",
     "two hundred seventy-one thousand eighty"},
    {300001, "trois cent mille un", "three hundred thousand one"},
    {999999, "neuf cent quatre-vingt-dix-neuf mille neuf cent quatre-vingt-dix-neuf",
     "nine hundred ninety-nine thousand nine hundred ninety-nine"},
};

static void test_words(void **state)
{
    (void)state;
    char french[MH_NUMBER_TEXT], english[MH_NUMBER_TEXT];
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        mh_numbers_pair(table[i].n, french, english);
        assert_string_equal(french, table[i].french);
        assert_string_equal(english, table[i].english);
    }
}

// All of them fit, and no two are the same: hashes of all million, sorted.
static int compare_hashes(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

static uint64_t hash_of(const char *text)
{
    uint64_t hash = UINT64_C(0xCBF29CE484222325);
    for (; *text; text++)
        hash = (hash ^ (unsigned char)*text) * UINT64_C(0x100000001B3);
    return hash;
}

static void test_all_differ(void **state)
{
    (void)state;
    uint64_t *hashes = malloc(2 * MH_NUMBERS * sizeof *hashes);
    size_t longest = 0;
    assert_non_null(hashes);
    for (uint32_t n = 0; n < MH_NUMBERS; n++) {
        char french[MH_NUMBER_TEXT], english[MH_NUMBER_TEXT];
        mh_numbers_pair(n, french, english);
        longest = strlen(french) > longest ? strlen(french) : longest;
        hashes[n] = hash_of(french);
        hashes[MH_NUMBERS + n] = hash_of(english);
        assert_null(strstr(french, "  "));
        assert_true(french[strlen(french) - 1] != ' ' && english[strlen(english) - 1] != ' ');
    }
    assert_true(longest > 70 && longest < MH_NUMBER_TEXT);
    for (int side = 0; side < 2; side++) {
        uint64_t *one = hashes + side * MH_NUMBERS;
        qsort(one, MH_NUMBERS, sizeof *one, compare_hashes);
        for (size_t i = 1; i < MH_NUMBERS; i++)
            assert_true(one[i - 1] != one[i]);
    }
    free(hashes);
}

// ---- the corpora --------------------------------------------------------------------------------

// Marks a corpus's numbers; none may be marked already. Returns how many are below `limit`.
static size_t mark(const mh_corpus *corpus, unsigned char *seen, size_t limit)
{
    size_t below = 0;
    for (size_t i = 0; i < corpus->count; i++) {
        char french[MH_NUMBER_TEXT], english[MH_NUMBER_TEXT];
        size_t n = corpus->lines[i] - 1;
        assert_true(n < MH_NUMBERS && !seen[n]);
        seen[n] = 1;
        below += n < limit;
        mh_numbers_pair((uint32_t)n, french, english);
        assert_int_equal(corpus->sources[i].size, strlen(french));
        assert_memory_equal(corpus->sources[i].bytes, french, strlen(french));
        assert_int_equal(corpus->targets[i].size, strlen(english));
        assert_memory_equal(corpus->targets[i].bytes, english, strlen(english));
    }
    return below;
}

static void check_corpora(size_t training_size, size_t held_out_size, size_t least_four_digits)
{
    mh_numbers_options options = {7, training_size, held_out_size};
    mh_corpus training, held_out;
    unsigned char *seen = calloc(MH_NUMBERS, 1);
    assert_non_null(seen);
    test_ok(context, mh_numbers_corpora(context, &options, &training, &held_out));
    assert_int_equal(training.count, training_size);
    assert_int_equal(held_out.count, held_out_size);
    assert_int_equal(mark(&held_out, seen, MH_NUMBERS_ALL), 0);
    assert_int_equal(mark(&training, seen, MH_NUMBERS_ALL), MH_NUMBERS_ALL);
    size_t four_digits = 0;
    for (size_t n = 1000; n < 10000; n++)
        four_digits += seen[n];
    assert_true(four_digits >= least_four_digits);
    mh_corpus_free(context, &training);
    mh_corpus_free(context, &held_out);
    free(seen);
}

static void test_corpora(void **state)
{
    (void)state;
    check_corpora(1000, 1, 0);
    check_corpora(20000, 1000, (19000 + 1000) / 8);
    check_corpora(990000, 10000, 9000); // every number there is
}

static void test_seeds(void **state)
{
    (void)state;
    mh_corpus training[3], held_out[3];
    static const uint64_t seeds[3] = {1, 1, 2};
    for (size_t i = 0; i < 3; i++) {
        mh_numbers_options options = {seeds[i], 3000, 100};
        test_ok(context, mh_numbers_corpora(context, &options, &training[i], &held_out[i]));
    }
    assert_memory_equal(training[0].lines, training[1].lines, 3000 * sizeof(size_t));
    assert_memory_equal(held_out[0].lines, held_out[1].lines, 100 * sizeof(size_t));
    assert_memory_not_equal(held_out[0].lines, held_out[2].lines, 100 * sizeof(size_t));
    for (size_t i = 0; i < 3; i++) {
        mh_corpus_free(context, &training[i]);
        mh_corpus_free(context, &held_out[i]);
    }
}

static void test_sizes_refused(void **state)
{
    (void)state;
    static const size_t sizes[][2] = {
        {999, 10}, {1000, 0}, {1000, 999001}, {1000001, 1}, {SIZE_MAX, SIZE_MAX}, {1000, SIZE_MAX}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        mh_numbers_options options = {1, sizes[i][0], sizes[i][1]};
        mh_corpus training, held_out;
        test_refused(context, mh_numbers_corpora(context, &options, &training, &held_out),
                     MH_ERROR_ARGUMENT, "expected at least 1000");
        assert_int_equal(training.count + held_out.count, 0);
    }
}

static void test_no_memory(void **state)
{
    (void)state;
    mh_numbers_options options = {1, 2000, 100};
    mh_corpus training, held_out;
    mh_status status = MH_ERROR_MEMORY;
    size_t before = memory.live, n;
    for (n = 1; status; n++) {
        memory.calls = 0;
        memory.fail_at = n;
        status = mh_numbers_corpora(context, &options, &training, &held_out);
        assert_true(status == MH_OK || (status == MH_ERROR_MEMORY && memory.live == before));
        assert_true(n < 1000);
    }
    memory.fail_at = 0;
    assert_true(n > 10);
    mh_corpus_free(context, &training);
    mh_corpus_free(context, &held_out);
    assert_int_equal(memory.live, before);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_words),         cmocka_unit_test(test_all_differ),
        cmocka_unit_test(test_corpora),       cmocka_unit_test(test_seeds),
        cmocka_unit_test(test_sizes_refused), cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
