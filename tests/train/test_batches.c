// SPDX-License-Identifier: MIT
// Examples and batches: ids as the tokenizer gives them, pairs that are too long told; and plans of
// an epoch in which every example is there once, no batch is too large, lengths are alike, and
// everything is decided by seed and epoch.
#include "support.h"

#include "text_support.h"
#include "train/batches.h"

#include <time.h>

static mh_context *context;
static scarce memory;
static mh_tokenizer *tokenizer;

static int set_up(void **state)
{
    (void)state;
    mh_context_options options = scarce_options(&memory);
    return mh_context_create(&options, &context, NULL, 0) != MH_OK ||
           mh_tokenizer_load(context, MH_GOLDENS "/tokenizer.json", &tokenizer) != MH_OK;
}

static int tear_down(void **state)
{
    (void)state;
    mh_tokenizer_free(tokenizer);
    mh_context_free(context);
    return memory.live != 0;
}

static mh_corpus corpus_of(const char *tsv)
{
    mh_corpus corpus;
    mh_corpus_files files = {.sources = "pairs.tsv"};
    test_ok(context, mh_corpus_parse(context, &files, tsv, strlen(tsv), &corpus));
    return corpus;
}

// ---- examples -----------------------------------------------------------------------------------

static void check_side(mh_ids side, mh_text text)
{
    mh_tokens tokens = {0};
    test_ok(context, mh_tokenizer_encode(context, tokenizer, text.bytes, text.size, &tokens));
    assert_int_equal(side.count, tokens.count + 1);
    assert_memory_equal(side.ids, tokens.ids, tokens.count * sizeof *tokens.ids);
    assert_int_equal(side.ids[tokens.count], mh_tokenizer_eos(tokenizer));
    mh_tokens_free(context, &tokens);
}

typedef struct told {
    size_t count, line;
    char file[64], why[128];
} told;

static void tell(void *user, const char *file, size_t line, const char *why)
{
    told *t = user;
    t->count++;
    t->line = line;
    snprintf(t->file, sizeof t->file, "%s", file);
    snprintf(t->why, sizeof t->why, "%s", why);
}

static void test_ids(void **state)
{
    (void)state;
    mh_corpus corpus = corpus_of("Où vas-tu ?\tWhere are you going?\nOui.\tYes.\nNon.\tNo.\n");
    mh_dataset examples;
    test_ok(context, mh_dataset_create(context, &corpus, tokenizer, 100, NULL, NULL, &examples));
    assert_int_equal(examples.count, 3);
    assert_int_equal(examples.left_out, 0);
    for (size_t i = 0; i < 3; i++) {
        check_side(mh_dataset_source(&examples, i), corpus.sources[i]);
        check_side(mh_dataset_target(&examples, i), corpus.targets[i]);
    }
    mh_dataset_free(context, &examples);
    mh_corpus_free(context, &corpus);
}

static void test_too_long(void **state)
{
    (void)state;
    mh_corpus corpus =
        corpus_of("a\tb\nbad line\nzzzzzzzzzz zzzzzzzz\tb\nc\tqqqqqqqqqqqqqqq\nd\te\n");
    mh_dataset examples;
    told t = {0};
    test_ok(context, mh_dataset_create(context, &corpus, tokenizer, 4, tell, &t, &examples));
    assert_int_equal(examples.count, 2);
    assert_int_equal(examples.left_out, 2);
    check_side(mh_dataset_source(&examples, 1), TEXT("d"));
    check_side(mh_dataset_target(&examples, 1), TEXT("e"));
    assert_int_equal(t.count, 2);
    assert_int_equal(t.line, 4);
    assert_string_equal(t.file, "pairs.tsv");
    assert_non_null(strstr(t.why, "expected at most 4"));
    mh_dataset_free(context, &examples);

    // exactly as long as allowed: one token and </s>
    test_ok(context, mh_dataset_create(context, &corpus, tokenizer, 2, NULL, NULL, &examples));
    assert_int_equal(examples.count, 2);
    mh_dataset_free(context, &examples);
    test_refused(context, mh_dataset_create(context, &corpus, tokenizer, 1, NULL, NULL, &examples),
                 MH_ERROR_FORMAT, "pairs.tsv: all 4 sentence pairs");
    assert_null(examples.ids);
    mh_corpus_free(context, &corpus);
}

// ---- batches ------------------------------------------------------------------------------------

// Examples of given lengths; only lengths matter to a plan.
static mh_dataset examples_of(size_t count, size_t (*length)(test_rng *rng, size_t side))
{
    test_rng rng = {test_seed()};
    size_t *starts = mh_alloc(context, (2 * count + 1) * sizeof *starts);
    assert_non_null(starts);
    starts[0] = 0;
    for (size_t side = 0; side < 2 * count; side++)
        starts[side + 1] = starts[side] + length(&rng, side);
    return (mh_dataset){.count = count, .starts = starts, .starts_capacity = 2 * count + 1};
}

static size_t random_length(test_rng *rng, size_t side)
{
    (void)side;
    return test_between(rng, 2, 40);
}

static size_t sometimes_huge(test_rng *rng, size_t side)
{
    return side % 50 == 0 ? 1000 : test_between(rng, 1, 9);
}

// Pairs as tatoeba has them: a target about as long as its source.
static size_t like_sentences(test_rng *rng, size_t side)
{
    static size_t source;
    if (side % 2 == 0)
        return source = 3 + test_between(rng, 0, 6) + test_between(rng, 0, 6) +
                        (test_chance(rng, 0.05) ? test_between(rng, 0, 60) : 0);
    return source - 2 + test_between(rng, 0, 4);
}

static size_t tokens_of(const mh_dataset *e, size_t i)
{
    return e->starts[2 * i + 2] - e->starts[2 * i];
}

// Every example once; no batch of several beyond the budget; returns the longest of tokens over
// all padded places.
static double check_plan(const mh_dataset *e, const mh_batches *b, size_t budget)
{
    unsigned char *seen = calloc(e->count, 1);
    size_t tokens = 0, places = 0;
    assert_non_null(seen);
    assert_int_equal(b->starts[0], 0);
    assert_int_equal(b->starts[b->count], e->count);
    for (size_t k = 0; k < b->count; k++) {
        size_t begin = b->starts[k], end = b->starts[k + 1], used = 0, longest[2] = {0};
        assert_true(begin < end);
        for (size_t j = begin; j < end; j++) {
            size_t i = b->examples[j];
            assert_true(i < e->count && !seen[i]);
            seen[i] = 1;
            used += tokens_of(e, i);
            for (size_t side = 0; side < 2; side++) {
                size_t length = e->starts[2 * i + side + 1] - e->starts[2 * i + side];
                longest[side] = length > longest[side] ? length : longest[side];
            }
        }
        assert_true(used <= budget || end - begin == 1);
        tokens += used;
        places += (longest[0] + longest[1]) * (end - begin);
    }
    free(seen);
    return (double)tokens / (double)places;
}

static void test_plan(void **state)
{
    (void)state;
    static const size_t counts[] = {1, 2, 3, 100, 5000}, budgets[] = {1, 7, 80, 1000, SIZE_MAX};
    mh_batches batches = {0}; // used again and again
    for (size_t c = 0; c < 5; c++)
        for (size_t k = 0; k < 10; k++) {
            mh_dataset e = examples_of(counts[c], k % 2 ? random_length : sometimes_huge);
            mh_batch_options options = {3, budgets[k / 2]};
            test_ok(context, mh_batches_plan(context, &e, &options, 5, &batches));
            check_plan(&e, &batches, options.tokens);
            if (options.tokens == SIZE_MAX)
                assert_int_equal(batches.count, 1);
            if (options.tokens == 1)
                assert_int_equal(batches.count, counts[c]);
            mh_dataset_free(context, &e);
        }
    mh_batches_free(context, &batches);
}

static bool same_plan(const mh_batches *a, const mh_batches *b)
{
    size_t n = a->starts[a->count];
    return a->count == b->count && memcmp(a->starts, b->starts, (a->count + 1) * 4) == 0 &&
           memcmp(a->examples, b->examples, n * 4) == 0;
}

// Seed and epoch decide, and nothing that was planned before; the number of steps is always the
// same, and the examples of a batch are not.
static void test_what_decides(void **state)
{
    (void)state;
    mh_dataset e = examples_of(3000, random_length);
    mh_batches plans[4] = {0};
    static const uint64_t seeds[4] = {1, 1, 2, 1}, epochs[4] = {0, 1, 0, 0};
    for (size_t i = 0; i < 4; i++) {
        mh_batch_options options = {seeds[i], 500};
        if (i == 3)
            test_ok(context, mh_batches_plan(context, &e, &options, 9, &plans[i]));
        test_ok(context, mh_batches_plan(context, &e, &options, epochs[i], &plans[i]));
        assert_int_equal(plans[i].count, plans[0].count);
    }
    assert_false(same_plan(&plans[0], &plans[1]));
    assert_false(same_plan(&plans[0], &plans[2]));
    assert_false(same_plan(&plans[1], &plans[2]));
    assert_true(same_plan(&plans[0], &plans[3]));
    for (size_t i = 0; i < 4; i++)
        mh_batches_free(context, &plans[i]);
    mh_dataset_free(context, &e);
}

// The order of an epoch is part of a training run's results: it must not change unnoticed. The
// numbers come from a second implementation.
static size_t by_number(test_rng *rng, size_t side)
{
    (void)rng;
    return 1 + side * 7 % 5;
}

static void test_golden_plan(void **state)
{
    (void)state;
    static const uint32_t examples[] = {6, 9, 8, 11, 1, 3, 7, 2, 10, 5, 0, 4},
                          starts[] = {0, 1, 3, 5, 8, 12};
    mh_dataset e = examples_of(12, by_number);
    mh_batches batches = {0};
    mh_batch_options options = {42, 20};
    test_ok(context, mh_batches_plan(context, &e, &options, 3, &batches));
    assert_int_equal(batches.count + 1, sizeof starts / sizeof *starts);
    assert_memory_equal(batches.starts, starts, sizeof starts);
    assert_memory_equal(batches.examples, examples, sizeof examples);
    mh_batches_free(context, &batches);
    mh_dataset_free(context, &e);
}

static void test_large(void **state)
{
    (void)state;
    mh_dataset e = examples_of(161312, like_sentences);
    mh_batches batches = {0};
    mh_batch_options options = {1, 4096};
    double best = 1e9;
    for (uint64_t epoch = 0; epoch < 3; epoch++) {
        struct timespec begin, end;
        clock_gettime(CLOCK_MONOTONIC, &begin);
        test_ok(context, mh_batches_plan(context, &e, &options, epoch, &batches));
        clock_gettime(CLOCK_MONOTONIC, &end);
        double seconds =
            (double)(end.tv_sec - begin.tv_sec) + 1e-9 * (double)(end.tv_nsec - begin.tv_nsec);
        best = seconds < best ? seconds : best;
    }
    double filled = check_plan(&e, &batches, options.tokens);
    print_message("%zu batches in %.1f ms, %.1f %% of padded places used\n", batches.count,
                  best * 1e3, filled * 100);
    assert_true(filled > 0.97);
    assert_true(best < 1); // on a busy machine with sanitizers; usually some 10 ms
    // sorted by length they are not: neighbours would be nearly the same
    size_t rises = 0;
    for (size_t b = 0; b + 1 < batches.count; b++)
        rises += tokens_of(&e, batches.examples[batches.starts[b]]) <
                 tokens_of(&e, batches.examples[batches.starts[b + 1]]);
    assert_true(rises > batches.count / 3 && rises < batches.count * 2 / 3);
    mh_batches_free(context, &batches);
    mh_dataset_free(context, &e);
}

static void test_plan_refused(void **state)
{
    (void)state;
    mh_dataset none = {0}, one = examples_of(1, random_length);
    mh_batches batches = {0};
    mh_batch_options options = {1, 100}, nothing = {1, 0};
    test_refused(context, mh_batches_plan(context, &none, &options, 0, &batches), MH_ERROR_ARGUMENT,
                 "found 0 examples");
    test_refused(context, mh_batches_plan(context, &one, &nothing, 0, &batches), MH_ERROR_ARGUMENT,
                 "0 tokens");
    mh_dataset_free(context, &one);
}

// ---- memory -------------------------------------------------------------------------------------

static mh_status tokenise_and_plan(const mh_corpus *corpus)
{
    mh_dataset examples;
    mh_batches batches = {0};
    mh_batch_options options = {1, 30};
    mh_status status = mh_dataset_create(context, corpus, tokenizer, 50, NULL, NULL, &examples);
    if (!status)
        status = mh_batches_plan(context, &examples, &options, 0, &batches);
    mh_batches_free(context, &batches);
    mh_dataset_free(context, &examples);
    return status;
}

static void test_no_memory(void **state)
{
    (void)state;
    char tsv[4000] = "";
    for (size_t i = 0; i < 100; i++)
        snprintf(tsv + strlen(tsv), 40, "%zu chats noirs\t%zu black cats\n", i, i);
    mh_corpus corpus = corpus_of(tsv);
    for (int always = 0; always < 2; always++) {
        mh_status status = MH_ERROR_MEMORY;
        size_t before = memory.live, n;
        memory.always = always;
        for (n = 1; status; n++) {
            memory.calls = 0;
            memory.fail_at = n;
            status = tokenise_and_plan(&corpus);
            assert_true(status == MH_OK || status == MH_ERROR_MEMORY);
            assert_int_equal(memory.live, before);
            assert_true(n < 1000);
        }
        memory.fail_at = 0;
        assert_true(n > 10);
    }
    memory.always = false;
    mh_corpus_free(context, &corpus);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ids),          cmocka_unit_test(test_too_long),
        cmocka_unit_test(test_plan),         cmocka_unit_test(test_what_decides),
        cmocka_unit_test(test_golden_plan),  cmocka_unit_test(test_large),
        cmocka_unit_test(test_plan_refused), cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
