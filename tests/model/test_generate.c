// SPDX-License-Identifier: MIT
// Text generation: greedy tokens are those of whole forward passes, and results do not depend on
// the batch, segments or threads; ends, limits, stop strings, callbacks, beam search.
#include "generate_support.h"
#include <math.h>

enum { PROMPTS = 7, MOST_TOKENS = 64 };

static causal_directory directory;

static int open_directory(void **state)
{
    (void)state;
    directory = causal_directory_make();
    return 0;
}

static int close_directory(void **state)
{
    (void)state;
    causal_directory_remove(&directory);
    return 0;
}

static const int64_t prompt_starts[PROMPTS + 1] = {0, 3, 4, 14, 14, 24, 26, 60};
static int32_t prompt_ids[60];

static mh_generations *generate(mh_context *context, const mh_model *model,
                                const mh_generate_options *options)
{
    mh_generations *g;
    for (int i = 0; i < 60; i++)
        prompt_ids[i] = (i * 37 + 11) % CAUSAL_END;
    test_ok(context, mh_generate(context, model, options, prompt_starts, prompt_ids, PROMPTS, &g));
    return g;
}

// One prompt of text.
static mh_generations *continue_text(mh_context *context, const mh_model *model,
                                     const mh_generate_options *options, const char *text)
{
    mh_generations *g;
    const mh_text prompt = {text, strlen(text)};
    test_ok(context, mh_generate_texts(context, model, options, &prompt, 1, &g));
    return g;
}

// ---- greedy -------------------------------------------------------------------------------------

static void expect_greedy(mh_context *context, const mh_model *model, const mh_generation *g)
{
    int32_t ids[CAUSAL_POSITIONS];
    double logprob;
    size_t count = g->prompt_count;
    memcpy(ids, g->prompt, count * sizeof *ids);
    for (size_t i = 0; i < g->count; i++) {
        assert_int_equal(g->ids[i], causal_next(context, model, ids, count, &logprob));
        assert_true(fabs(g->logprobs[i] - logprob) < 1e-12);
        ids[count++] = g->ids[i];
    }
    const bool ended = g->count && g->ids[g->count - 1] == CAUSAL_END;
    assert_int_equal(g->finish, ended ? MH_FINISH_STOP : MH_FINISH_LENGTH);
    assert_true(ended || count == CAUSAL_POSITIONS || g->count == 20);
}

static void check_greedy(const char *level)
{
    mh_context *context = test_context(level, 2);
    mh_model *model = causal_directory_load(context, &directory);
    mh_generate_options o = mh_generate_options_default();
    o.max_tokens = 20;
    mh_generations *g = generate(context, model, &o);
    for (size_t i = 0; i < PROMPTS; i++)
        expect_greedy(context, model, mh_generations_at(g, i));
    const mh_generation *empty = mh_generations_at(g, 3);
    assert_int_equal(empty->prompt_count, 1);
    assert_int_equal(empty->prompt[0], CAUSAL_END); // also the beginning-of-text token
    assert_null(mh_generations_at(g, PROMPTS));
    mh_generations_free(g);
    mh_model_free(model);
    mh_context_free(context);
}

static void greedy_tokens_are_those_of_whole_passes(void **state)
{
    (void)state;
    test_at_levels(check_greedy);
}

// Every causal family, on ids.
static void families_are_greedy_alike(void **state)
{
    static const char *const names[] = {"gpt2-untied", "llama",  "llama-scaled", "mistral", "qwen2",
                                        "qwen3",       "gemma2", "gemma3",       "gpt_neox"};
    mh_context *context = *state;
    for (size_t n = 0; n < sizeof names / sizeof *names; n++) {
        char path[512];
        mh_model *model;
        mh_generate_options o = mh_generate_options_default();
        o.max_tokens = 12;
        o.segment = 3;
        o.batch = 3;
        o.ignore_eos = true;
        snprintf(path, sizeof path, MH_GOLDENS "/models/%s", names[n]);
        test_ok(context, mh_model_load(context, path, NULL, &model));
        mh_generations *g = generate(context, model, &o);
        for (size_t i = 0; i < PROMPTS; i++) {
            const mh_generation *r = mh_generations_at(g, i);
            int32_t ids[CAUSAL_POSITIONS];
            double logprob;
            memcpy(ids, r->prompt, r->prompt_count * sizeof *ids);
            memcpy(ids + r->prompt_count, r->ids, r->count * sizeof *ids);
            assert_int_equal(r->count, r->prompt_count > 28 ? 40 - r->prompt_count : 12);
            for (size_t j = 0; j < r->count; j++) {
                assert_int_equal(causal_next(context, model, ids, r->prompt_count + j, &logprob),
                                 r->ids[j]);
                assert_true(fabs(r->logprobs[j] - logprob) < 1e-12);
            }
        }
        mh_generations_free(g);
        mh_model_free(model);
    }
}

// A window of 4 makes a prompt of 10^5 tokens cheap.
static void a_prompt_of_100000_tokens(void **state)
{
    enum { LONG = 100000 };
    mh_context *context = *state;
    const causal_directory copy = causal_directory_copy("mistral", 2 * LONG);
    mh_model *model = causal_directory_load(context, &copy);
    int32_t *ids = calloc(LONG + 3, sizeof *ids);
    mh_generate_options o = mh_generate_options_default();
    mh_generations *g;
    double logprob;
    for (int i = 0; i < LONG; i++)
        ids[i] = (i * 37 + i / 100) % 90 + 5;
    o.max_tokens = 3;
    o.ignore_eos = true;
    test_ok(context, mh_generate(context, model, &o, (const int64_t[]){0, LONG}, ids, 1, &g));
    const mh_generation *r = mh_generations_at(g, 0);
    assert_int_equal(r->count, 3);
    memcpy(ids + LONG, r->ids, 3 * sizeof *ids);
    for (size_t j = 0; j < 3; j++)
        assert_int_equal(causal_next(context, model, ids, LONG + j, &logprob), r->ids[j]);
    assert_true(fabs(r->logprobs[2] - logprob) < 1e-12);
    mh_generations_free(g);
    free(ids);
    mh_model_free(model);
    causal_directory_remove(&copy);
}

static void caches_of_bf16(void **state)
{
    mh_context *context = *state;
    mh_model *model = causal_directory_load(context, &directory);
    mh_generate_options o = mh_generate_options_default();
    o.max_tokens = 4;
    mh_generations *exact = generate(context, model, &o);
    o.cache_dtype = MH_BF16;
    mh_generations *rounded = generate(context, model, &o);
    const double x = mh_generations_at(exact, 2)->logprobs[0],
                 y = mh_generations_at(rounded, 2)->logprobs[0];
    assert_true(x != y && fabs(x - y) < 0.2);
    mh_generations_free(exact);
    mh_generations_free(rounded);
    o.cache_dtype = MH_I32;
    mh_status status = mh_generate(context, model, &o, prompt_starts, prompt_ids, PROMPTS, &exact);
    assert_true(status == MH_ERROR_UNSUPPORTED || status == MH_ERROR_ARGUMENT);
    assert_non_null(strstr(mh_error_message(context), "cache_dtype"));
    mh_model_free(model);
}

// ---- equal bits ---------------------------------------------------------------------------------

static void expect_same(const mh_generations *a, const mh_generations *b)
{
    for (size_t i = 0; i < PROMPTS; i++) {
        const mh_generation *x = mh_generations_at(a, i), *y = mh_generations_at(b, i);
        assert_int_equal(x->count, y->count);
        assert_int_equal(x->finish, y->finish);
        assert_memory_equal(x->ids, y->ids, x->count * sizeof *x->ids);
        assert_memory_equal(x->logprobs, y->logprobs, x->count * sizeof *x->logprobs);
        for (size_t j = 0; j < x->count * x->top_count; j++) {
            assert_int_equal(x->top[j].id, y->top[j].id);
            assert_memory_equal(&x->top[j].logprob, &y->top[j].logprob, sizeof(double));
        }
        assert_int_equal(x->text.size, y->text.size);
        assert_memory_equal(x->text.bytes, y->text.bytes, x->text.size);
    }
}

static void check_equal(const char *level, const mh_generate_options *options)
{
    static const size_t batches[] = {1, 2, 3, 100}, segments[] = {1, 3, 16, 512};
    mh_context *first = test_context(level, 1);
    mh_model *model = causal_directory_load(first, &directory);
    mh_generations *expected = generate(first, model, options);
    for (size_t i = 0; i < 4; i++)
        for (size_t threads = 1; threads <= 8; threads += i < 2 ? 7 : 3) {
            mh_context *context = test_context(level, threads);
            mh_generate_options o = *options;
            o.batch = batches[i];
            o.segment = segments[(i + threads) % 4];
            mh_generations *found = generate(context, model, &o);
            expect_same(expected, found);
            mh_generations_free(found);
            mh_context_free(context);
        }
    mh_generations_free(expected);
    mh_model_free(model);
    mh_context_free(first);
}

static void check_equal_everything(const char *level)
{
    mh_generate_options o = mh_generate_options_default();
    o.max_tokens = 12;
    o.top_logprobs = 3;
    check_equal(level, &o);
    o.temperature = 1.5;
    o.seed = 17;
    o.top_p = 0.95;
    o.repetition_penalty = 1.2;
    check_equal(level, &o);
    o = mh_generate_options_default();
    o.max_tokens = 9;
    o.beam = 3;
    o.top_logprobs = 2;
    check_equal(level, &o);
    o.repetition_penalty = 1.3;
    o.beam = 2;
    check_equal(level, &o);
}

static void results_do_not_depend_on_batch_segments_and_threads(void **state)
{
    (void)state;
    test_at_levels(check_equal_everything);
}

static void seeds_differ(void **state)
{
    mh_context *context = *state;
    mh_model *model = causal_directory_load(context, &directory);
    mh_generate_options o = mh_generate_options_default();
    o.temperature = 3;
    o.seed = 1;
    mh_generations *a = generate(context, model, &o);
    o.seed = 2;
    mh_generations *b = generate(context, model, &o);
    const mh_generation *x = mh_generations_at(a, 0), *y = mh_generations_at(b, 0);
    assert_true(x->count != y->count || memcmp(x->ids, y->ids, x->count * sizeof *x->ids) != 0);
    mh_generations_free(a);
    mh_generations_free(b);
    mh_model_free(model);
}

// ---- limits -------------------------------------------------------------------------------------

static void length_is_limited(void **state)
{
    mh_context *context = *state;
    mh_model *model = causal_directory_load(context, &directory);
    mh_generate_options o = mh_generate_options_default();
    int32_t ids[CAUSAL_POSITIONS + 1] = {0};
    mh_generations *g;
    o.ignore_eos = true;
    for (size_t count = 1; count <= CAUSAL_POSITIONS; count += 13) {
        const int64_t starts[] = {0, (int64_t)count};
        test_ok(context, mh_generate(context, model, &o, starts, ids, 1, &g));
        assert_int_equal(mh_generations_at(g, 0)->count, CAUSAL_POSITIONS - count);
        assert_int_equal(mh_generations_at(g, 0)->finish, MH_FINISH_LENGTH);
        mh_generations_free(g);
    }
    o.max_length = 6;
    test_ok(context, mh_generate(context, model, &o, (const int64_t[]){0, 4}, ids, 1, &g));
    assert_int_equal(mh_generations_at(g, 0)->count, 2);
    mh_generations_free(g);
    test_refused(
        context,
        mh_generate(context, model, &o, (const int64_t[]){0, CAUSAL_POSITIONS + 1}, ids, 1, &g),
        MH_ERROR_ARGUMENT, "found 41 tokens, expected at most 40");
    assert_null(g);
    char *long_text = malloc(100001);
    memset(long_text, 'a', 100000);
    long_text[100000] = 0;
    const mh_text prompt = {long_text, 100000};
    test_refused(context, mh_generate_texts(context, model, NULL, &prompt, 1, &g),
                 MH_ERROR_ARGUMENT, "found 100000 tokens");
    free(long_text);
    mh_model_free(model);
}

// ---- text, stop strings, callbacks --------------------------------------------------------------

typedef struct heard {
    char text[4 * MOST_TOKENS];
    size_t size, calls, sequences, stop_at;
    mh_generate_action action;
    bool last;
    const mh_generation *result;
    int32_t ids[MOST_TOKENS];
} heard;

static mh_generate_action hear(void *user, const mh_generated_token *token)
{
    heard *h = user;
    assert_false(h->last && token->sequence == 0);
    assert_int_equal(mh_utf8_valid(token->text.bytes, token->text.size), token->text.size);
    if (token->sequence == 0) {
        assert_int_equal(token->position, h->calls);
        assert_true(h->size + token->text.size < sizeof h->text);
        memcpy(h->text + h->size, token->text.bytes, token->text.size);
        h->size += token->text.size;
        h->ids[h->calls] = token->token.id;
        h->last = token->last;
        h->result = token->result;
        assert_true(h->last == (h->result != NULL));
        assert_true(!h->result || h->result->count == token->position + 1);
        h->calls++;
    }
    assert_true(token->top_count == 0 || token->top[0].logprob >= token->token.logprob);
    return token->sequence == 0 && h->calls == h->stop_at ? h->action : MH_GENERATE_CONTINUE;
}

static void text_is_that_of_the_tokens(void **state)
{
    mh_context *context = *state;
    mh_model *model = causal_directory_load(context, &directory);
    mh_generate_options o = mh_generate_options_default();
    o.temperature = 50; // close to uniform
    o.ignore_eos = true;
    o.top_logprobs = 1;
    size_t broken = 0, characters = 0;
    for (o.seed = 0; o.seed < 1500; o.seed++) {
        heard h = {0};
        mh_buffer text = {0};
        o.on_token = hear;
        o.user = &h;
        mh_generations *g = continue_text(context, model, &o, "A");
        const mh_generation *r = mh_generations_at(g, 0);
        test_ok(context, mh_tokenizer_decode_text(context, mh_model_tokenizer(model), true, r->ids,
                                                  r->count, &text));
        assert_int_equal(r->text.size, text.size);
        assert_memory_equal(r->text.bytes, text.data, text.size);
        assert_int_equal(h.size, text.size);
        assert_memory_equal(h.text, text.data, text.size);
        assert_int_equal(h.calls, r->count);
        assert_ptr_equal(h.result, r);
        broken += strstr(r->text.bytes, "\xEF\xBF\xBD") != NULL;
        characters += strstr(r->text.bytes, "\303\251") != NULL;
        mh_buffer_free(context, &text);
        mh_generations_free(g);
    }
    assert_true(broken > 0 && characters > 0); // both kinds have been seen
    mh_model_free(model);
}

// Every part of what would be generated, as a stop string: the text ends before it.
static void stop_strings_end_the_text(void **state)
{
    mh_context *context = *state;
    mh_model *model = causal_directory_load(context, &directory);
    mh_generate_options o = mh_generate_options_default();
    o.temperature = 2;
    o.seed = 3;
    o.ignore_eos = true;
    mh_generations *whole = continue_text(context, model, &o, "A");
    const mh_text all = mh_generations_at(whole, 0)->text;
    assert_true(all.size > 20);
    for (size_t begin = 0; begin < all.size; begin += 3)
        for (size_t size = 1; size < 6 && begin + size <= all.size; size++) {
            const mh_text stops[] = {{all.bytes + begin, size}, {"~~~not there", 12}};
            if (mh_utf8_valid(stops[0].bytes, size) < size)
                continue;
            heard h = {0};
            o.stop = stops;
            o.stop_count = 2;
            o.on_token = hear;
            o.user = &h;
            mh_generations *g = continue_text(context, model, &o, "A");
            const mh_generation *r = mh_generations_at(g, 0);
            const char *first = memmem(all.bytes, all.size, stops[0].bytes, size);
            assert_int_equal(r->text.size, first - all.bytes);
            assert_memory_equal(r->text.bytes, all.bytes, r->text.size);
            assert_int_equal(r->finish, MH_FINISH_STOP);
            assert_int_equal(h.size, r->text.size);
            assert_memory_equal(h.text, all.bytes, h.size);
            mh_generations_free(g);
        }
    mh_generations_free(whole);
    mh_model_free(model);
}

static void callbacks_end_sequences(void **state)
{
    mh_context *context = *state;
    mh_model *model = causal_directory_load(context, &directory);
    mh_generate_options o = mh_generate_options_default();
    o.ignore_eos = true;
    o.max_tokens = 10;
    o.on_token = hear;
    o.batch = 2;
    for (int all = 0; all < 2; all++)
        for (o.beam = 1; o.beam < 3; o.beam++) {
            heard h = {.stop_at = 4, .action = all ? MH_GENERATE_STOP_ALL : MH_GENERATE_STOP};
            o.user = &h;
            mh_generations *g = generate(context, model, &o);
            assert_int_equal(mh_generations_at(g, 0)->count, 4);
            assert_int_equal(mh_generations_at(g, 0)->finish, MH_FINISH_STOPPED);
            assert_memory_equal(mh_generations_at(g, 0)->ids, h.ids, 4 * sizeof *h.ids);
            const mh_generation *last = mh_generations_at(g, PROMPTS - 1);
            assert_int_equal(last->count, all ? 0 : 6); // the prompt has 34 tokens
            assert_int_equal(last->finish, all ? MH_FINISH_STOPPED : MH_FINISH_LENGTH);
            mh_generations_free(g);
        }
    mh_model_free(model);
}

// ---- beam search --------------------------------------------------------------------------------

// As wide as the vocabulary, two tokens: nothing is missed, so that the best of all is found.
static void beam_search_finds_the_best(void **state)
{
    mh_context *context = *state;
    mh_model *model = causal_directory_load(context, &directory);
    mh_generate_options o = mh_generate_options_default();
    o.max_tokens = 2;
    o.beam = CAUSAL_VOCABULARY;
    o.ignore_eos = true; // all have two tokens
    mh_generations *g = generate(context, model, &o);
    for (size_t p = 0; p < 2; p++) {
        const mh_generation *r = mh_generations_at(g, p);
        int32_t ids[16];
        double best = -INFINITY, first[CAUSAL_VOCABULARY];
        memcpy(ids, r->prompt, r->prompt_count * sizeof *ids);
        mh_generate_options one = mh_generate_options_default();
        one.max_tokens = 1;
        one.top_logprobs = CAUSAL_VOCABULARY;
        mh_generations *next;
        const int64_t starts[] = {0, (int64_t)r->prompt_count};
        test_ok(context, mh_generate(context, model, &one, starts, ids, 1, &next));
        for (int i = 0; i < CAUSAL_VOCABULARY; i++)
            first[mh_generations_at(next, 0)->top[i].id] =
                mh_generations_at(next, 0)->top[i].logprob;
        mh_generations_free(next);
        for (int32_t i = 0; i < CAUSAL_VOCABULARY; i++) {
            double logprob;
            ids[r->prompt_count] = i;
            causal_next(context, model, ids, r->prompt_count + 1, &logprob);
            best = fmax(best, first[i] + logprob);
        }
        assert_int_equal(r->count, 2);
        assert_true(fabs(r->logprobs[0] + r->logprobs[1] - best) < 1e-9);
    }
    mh_generations_free(g);
    mh_model_free(model);
}

// The logarithms of the probabilities of all tokens behind these, multiplied by 1.5 for those among
// them: as transformers has it, whose beam search does not penalise logits.
static void penalised(mh_context *context, const mh_model *model, const int32_t *ids, size_t count,
                      double logprobs[CAUSAL_VOCABULARY])
{
    mh_generate_options o = mh_generate_options_default();
    const int64_t starts[] = {0, (int64_t)count};
    mh_generations *g;
    o.max_tokens = 1;
    o.top_logprobs = CAUSAL_VOCABULARY;
    test_ok(context, mh_generate(context, model, &o, starts, ids, 1, &g));
    for (size_t i = 0; i < CAUSAL_VOCABULARY; i++) {
        const mh_token_score t = mh_generations_at(g, 0)->top[i];
        bool repeated = false;
        for (size_t j = 0; j < count; j++)
            repeated = repeated || ids[j] == t.id;
        logprobs[t.id] = repeated ? 1.5 * t.logprob : t.logprob;
    }
    mh_generations_free(g);
}

static void beam_search_penalises_log_probabilities(void **state)
{
    mh_context *context = *state;
    mh_model *model = causal_directory_load(context, &directory);
    mh_generate_options o = mh_generate_options_default();
    o.max_tokens = 2;
    o.beam = CAUSAL_VOCABULARY; // nothing is missed
    o.ignore_eos = true;
    o.repetition_penalty = 1.5;
    mh_generations *g = generate(context, model, &o);
    for (size_t p = 0; p < 2; p++) {
        const mh_generation *r = mh_generations_at(g, p);
        double first[CAUSAL_VOCABULARY], second[CAUSAL_VOCABULARY], best = -INFINITY;
        int32_t ids[16], found[2] = {-1, -1};
        memcpy(ids, r->prompt, r->prompt_count * sizeof *ids);
        penalised(context, model, ids, r->prompt_count, first);
        for (int32_t i = 0; i < CAUSAL_VOCABULARY; i++) {
            ids[r->prompt_count] = i;
            penalised(context, model, ids, r->prompt_count + 1, second);
            for (int32_t j = 0; j < CAUSAL_VOCABULARY; j++)
                if (first[i] + second[j] > best) {
                    best = first[i] + second[j];
                    found[0] = i;
                    found[1] = j;
                }
        }
        assert_int_equal(r->count, 2);
        assert_memory_equal(r->ids, found, sizeof found);
    }
    mh_generations_free(g);
    mh_model_free(model);
}

// A beam is not worse than greedy search by its own measure, and 1 is greedy search.
static void beam_search_is_not_worse(void **state)
{
    mh_context *context = *state;
    mh_model *model = causal_directory_load(context, &directory);
    mh_generate_options o = mh_generate_options_default();
    o.max_tokens = 6;
    o.ignore_eos = true;
    mh_generations *greedy = generate(context, model, &o);
    o.beam = 8;
    mh_generations *beam = generate(context, model, &o);
    for (size_t i = 0; i < PROMPTS; i++) {
        const mh_generation *x = mh_generations_at(greedy, i), *y = mh_generations_at(beam, i);
        double a = 0, b = 0;
        assert_int_equal(x->count, y->count);
        for (size_t j = 0; j < x->count; j++) {
            a += x->logprobs[j];
            b += y->logprobs[j];
        }
        assert_true(b >= a);
    }
    mh_generations_free(greedy);
    mh_generations_free(beam);
    mh_model_free(model);
}

// A forced token is certain: it does not change which hypothesis is the best.
static void forced_ends_are_free(void **state)
{
    mh_context *context = *state;
    const causal_directory copy = causal_directory_make();
    mh_generate_options o = mh_generate_options_default();
    causal_directory_write(&copy, "generation_config.json",
                           "{\"eos_token_id\": 98, \"forced_eos_token_id\": 98}");
    mh_model *model = causal_directory_load(context, &copy);
    o.max_tokens = 2;
    mh_generations *greedy = generate(context, model, &o);
    o.beam = 8;
    o.length_penalty = 0;
    mh_generations *beam = generate(context, model, &o);
    for (size_t i = 0; i < PROMPTS; i++) {
        const mh_generation *x = mh_generations_at(greedy, i), *y = mh_generations_at(beam, i);
        assert_int_equal(y->count, x->count);
        assert_memory_equal(y->ids, x->ids, x->count * sizeof *x->ids);
        assert_int_equal(y->ids[y->count - 1], CAUSAL_END);
    }
    mh_generations_free(greedy);
    mh_generations_free(beam);
    mh_model_free(model);
    causal_directory_remove(&copy);
}

// ---- what is refused, memory --------------------------------------------------------------------

static void refuse(mh_context *context, const mh_model *model, const mh_generate_options *o,
                   const char *word)
{
    mh_generations *g = (mh_generations *)model;
    test_refused(context, mh_generate(context, model, o, prompt_starts, prompt_ids, 1, &g),
                 MH_ERROR_ARGUMENT, word);
    assert_null(g);
}

static void options_are_checked(void **state)
{
    mh_context *context = *state;
    mh_model *model = causal_directory_load(context, &directory);
    const mh_generate_options usual = mh_generate_options_default();
    mh_generate_options o = usual;
#define REFUSE(set, word)                                                                          \
    do {                                                                                           \
        o = usual;                                                                                 \
        o.set;                                                                                     \
        refuse(context, model, &o, word);                                                          \
    } while (0)
    REFUSE(max_tokens = 0, "max_tokens");
    REFUSE(temperature = -1, "temperature");
    REFUSE(temperature = NAN, "temperature");
    REFUSE(temperature = INFINITY, "temperature");
    REFUSE(top_p = 0, "top_p");
    REFUSE(top_p = 1.1, "top_p");
    REFUSE(min_p = -0.1, "min_p");
    REFUSE(min_p = 2, "min_p");
    REFUSE(repetition_penalty = 0, "repetition_penalty");
    REFUSE(length_penalty = -1, "length_penalty");
    REFUSE(beam = 0, "beam");
    REFUSE(beam = 5000, "beam");
    REFUSE(batch = 0, "batch");
    REFUSE(segment = 0, "segment");
    REFUSE(top_logprobs = 5000, "top_logprobs");
    REFUSE(struct_size = 3, "struct_size");
    REFUSE(stop_count = 1, "stop");
#undef REFUSE
    o = usual;
    o.beam = 2;
    o.temperature = 1;
    refuse(context, model, &o, "does not sample");
    const mh_text empty = {"", 0}, bad = {"\xFF", 1};
    o = usual;
    o.stop = &empty;
    o.stop_count = 1;
    refuse(context, model, &o, "empty string");
    o.stop = &bad;
    refuse(context, model, &o, "UTF-8");
    mh_generations *g;
    const int32_t beyond[] = {CAUSAL_VOCABULARY}, below[] = {-1};
    const int64_t one[] = {0, 1}, wrong[] = {1, 2};
    test_refused(context, mh_generate(context, model, NULL, one, beyond, 1, &g), MH_ERROR_ARGUMENT,
                 "id 99");
    test_refused(context, mh_generate(context, model, NULL, one, below, 1, &g), MH_ERROR_ARGUMENT,
                 "id -1");
    test_refused(context, mh_generate(context, model, NULL, wrong, prompt_ids, 1, &g),
                 MH_ERROR_ARGUMENT, "starts[0]");
    test_ok(context, mh_generate(context, model, NULL, NULL, NULL, 0, &g));
    mh_generations_free(g);
    mh_model_free(model);
}

static void other_models_are_refused(void **state)
{
    mh_context *context = *state;
    mh_model *model;
    mh_generations *g;
    test_ok(context, mh_model_load(context, MH_GOLDENS "/models/bert-mlm", NULL, &model));
    test_refused(context, mh_generate(context, model, NULL, prompt_starts, prompt_ids, 1, &g),
                 MH_ERROR_UNSUPPORTED, "no causal language model");
    mh_model_free(model);
    test_ok(context, mh_model_load(context, MH_GOLDENS "/models/gpt2", NULL, &model));
    const mh_text text = {"A", 1};
    test_refused(context, mh_generate_texts(context, model, NULL, &text, 1, &g),
                 MH_ERROR_UNSUPPORTED, "tokenizer");
    test_ok(context, mh_generate(context, model, NULL, prompt_starts, prompt_ids, 1, &g));
    assert_int_equal(mh_generations_at(g, 0)->text.size, 0);
    mh_generations_free(g);
    mh_model_free(model);
}

// A special token without a row of the embedding is text like any other; another token is an error.
static void tokens_without_rows(void **state)
{
    mh_context *context = *state;
    const causal_directory copy = causal_directory_make();
    mh_generate_options o = mh_generate_options_default();
    mh_model *model;
    o.max_tokens = 4;
    model = causal_directory_load(context, &copy);
    mh_generations *expected = continue_text(context, model, &o, "A<picture>B<|endoftext|>");
    mh_model_free(model);
    causal_directory_write(&copy, "tokenizer_config.json",
                           "{\"pad_token\": \"<picture>\", \"added_tokens_decoder\": {"
                           "\"98\": {\"content\": \"<|endoftext|>\", \"special\": true}, "
                           "\"99\": {\"content\": \"<picture>\", \"special\": true}}}");
    model = causal_directory_load(context, &copy);
    const mh_tokenizer *tokenizer = mh_model_tokenizer(model);
    assert_int_equal(mh_tokenizer_size(tokenizer), CAUSAL_VOCABULARY);
    assert_int_equal(mh_tokenizer_pad(tokenizer), -1);
    assert_int_equal(mh_tokenizer_id(tokenizer, "<picture>", 9), -1);
    assert_int_equal(mh_tokenizer_id(tokenizer, "<|endoftext|>", 13), CAUSAL_END);
    mh_generations *found = continue_text(context, model, &o, "A<picture>B<|endoftext|>");
    const mh_generation *x = mh_generations_at(expected, 0), *y = mh_generations_at(found, 0);
    assert_int_equal(x->prompt_count, 12);
    assert_int_equal(y->prompt_count, 12);
    assert_memory_equal(x->prompt, y->prompt, 12 * sizeof *x->prompt);
    assert_string_equal(x->text.bytes, y->text.bytes);
    mh_generations_free(expected);
    mh_generations_free(found);
    mh_model_free(model);
    causal_directory_write(&copy, "tokenizer_config.json",
                           "{\"added_tokens_decoder\": {\"99\": {\"content\": \"<picture>\"}}}");
    test_refused(context, mh_model_load(context, copy.path, NULL, &model), MH_ERROR_FORMAT,
                 "the tokenizer has 100 tokens, expected at most 99");
    causal_directory_remove(&copy);
}

// And a row without a token has no text.
static void rows_without_tokens(void **state)
{
    mh_context *context = *state;
    const causal_directory copy = causal_directory_make();
    mh_generate_options o = mh_generate_options_default();
    size_t unnamed = 0;
    causal_directory_write(&copy, "vocab.json", "{\"A\": 0, \"B\": 1, \"C\": 2}");
    mh_model *model = causal_directory_load(context, &copy);
    o.temperature = 50; // close to uniform
    o.ignore_eos = true;
    for (o.seed = 0; o.seed < 20; o.seed++) {
        mh_generations *g = generate(context, model, &o); // prompts have such ids, too
        for (size_t i = 0; i < PROMPTS; i++) {
            const mh_generation *r = mh_generations_at(g, i);
            char expected[MOST_TOKENS] = "";
            size_t size = 0;
            for (size_t j = 0; j < r->count; j++)
                if (r->ids[j] < 3)
                    expected[size++] = "ABC"[r->ids[j]];
                else
                    unnamed++;
            assert_string_equal(r->text.bytes, expected);
        }
        mh_generations_free(g);
    }
    assert_true(unnamed > 100);
    mh_model_free(model);
    causal_directory_remove(&copy);
}

static mh_status generate_something(mh_context *context, void *user)
{
    mh_generate_options o = mh_generate_options_default();
    o.temperature = 1;
    o.max_tokens = 5;
    o.batch = 2;
    o.top_logprobs = 2;
    const mh_text texts[] = {{"A b", 3}, {"c", 1}, {"defg", 4}}, stop = {"xyz", 3};
    o.stop = &stop;
    o.stop_count = 1;
    mh_generations *g;
    mh_status status = mh_generate_texts(context, user, &o, texts, 3, &g);
    mh_generations_free(g);
    if (status)
        return status;
    o.temperature = 0;
    o.beam = 2;
    status = mh_generate_texts(context, user, &o, texts, 1, &g);
    mh_generations_free(g);
    return status;
}

static void memory_that_runs_out(void **state)
{
    mh_context *context = *state;
    mh_model *model = causal_directory_load(context, &directory);
    assert_true(test_failing_allocations(NULL, 1, generate_something, model) > 50);
    assert_true(test_failing_allocations(NULL, 2, generate_something, model) > 50);
    mh_model_free(model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(greedy_tokens_are_those_of_whole_passes),
        cmocka_unit_test_setup_teardown(families_are_greedy_alike, test_open_context,
                                        test_close_context),
        cmocka_unit_test_setup_teardown(a_prompt_of_100000_tokens, test_open_context,
                                        test_close_context),
        cmocka_unit_test_setup_teardown(caches_of_bf16, test_open_context, test_close_context),
        cmocka_unit_test(results_do_not_depend_on_batch_segments_and_threads),
        cmocka_unit_test_setup_teardown(seeds_differ, test_open_context, test_close_context),
        cmocka_unit_test_setup_teardown(length_is_limited, test_open_context, test_close_context),
        cmocka_unit_test_setup_teardown(text_is_that_of_the_tokens, test_open_context,
                                        test_close_context),
        cmocka_unit_test_setup_teardown(stop_strings_end_the_text, test_open_context,
                                        test_close_context),
        cmocka_unit_test_setup_teardown(callbacks_end_sequences, test_open_context,
                                        test_close_context),
        cmocka_unit_test_setup_teardown(beam_search_finds_the_best, test_open_context,
                                        test_close_context),
        cmocka_unit_test_setup_teardown(beam_search_penalises_log_probabilities, test_open_context,
                                        test_close_context),
        cmocka_unit_test_setup_teardown(beam_search_is_not_worse, test_open_context,
                                        test_close_context),
        cmocka_unit_test_setup_teardown(forced_ends_are_free, test_open_context,
                                        test_close_context),
        cmocka_unit_test_setup_teardown(options_are_checked, test_open_context, test_close_context),
        cmocka_unit_test_setup_teardown(other_models_are_refused, test_open_context,
                                        test_close_context),
        cmocka_unit_test_setup_teardown(tokens_without_rows, test_open_context, test_close_context),
        cmocka_unit_test_setup_teardown(rows_without_tokens, test_open_context, test_close_context),
        cmocka_unit_test_setup_teardown(memory_that_runs_out, test_open_context,
                                        test_close_context),
    };
    return cmocka_run_group_tests(tests, open_directory, close_directory);
}
