// SPDX-License-Identifier: MIT
// Decoding of many sequences that begin, end and branch at different times: whatever shares a step,
// each sequence has the bits of one forward pass over its tokens. Schedules are random: prompts at
// once, in segments or token by token, sequences that wait, join, leave and branch, on 1 to 8
// threads; models are the published families' blocks and random ones.
#include "block_case.h"
#include "nn_support.h"
#include "ref/ref_tensor.h"

#include <inttypes.h>
#include <math.h>

enum { CASES = 18, LIVE_MOST = 6, STORIES_MOST = 40, MEMORIES = 3, MEMORY_MOST = 20, LAYERS = 3 };

// ---- models -------------------------------------------------------------------------------------

static void llama(size_t i, mh_block_config *b)
{
    (void)i;
    b->norm = MH_NORM_RMS, b->order = MH_NORM_BEFORE, b->norm_bias = false;
    b->kv_heads = 2, b->rope = true;
    b->attention_bias = b->out_bias = b->feed_forward_bias = false;
    b->gated = true, b->activation = MH_SILU;
}

static void gpt2(size_t i, mh_block_config *b)
{
    (void)i;
    b->order = MH_NORM_BEFORE, b->activation = MH_GELU_TANH;
}

// Every second layer has a window, and another rotary base.
static void gemma(size_t i, mh_block_config *b)
{
    llama(i, b);
    b->order = MH_NORM_BOTH, b->activation = MH_GELU_TANH;
    b->kv_heads = 1, b->head_dim = 16, b->qk_norm = true;
    b->softcap = 20, b->scale = 0.2f;
    b->window = i % 2 ? -1 : 70;
    b->rope_base = i % 2 ? 1e6 : 1e4;
}

static void neox(size_t i, mh_block_config *b)
{
    gpt2(i, b);
    b->parallel = b->rope = true, b->rope_width = 4, b->activation = MH_GELU;
}

static void t5(size_t i, mh_block_config *b)
{
    llama(i, b);
    b->rope = false, b->kv_heads = 0, b->scale = 1, b->gated = false, b->activation = MH_RELU;
    if (i == 0)
        b->relative_buckets = 16, b->relative_distance = 60;
}

static void bloom(size_t i, mh_block_config *b)
{
    gpt2(i, b);
    b->alibi = true;
}

// Windows of a few tokens, with sinks.
static void oss(size_t i, mh_block_config *b)
{
    llama(i, b);
    b->sinks = true, b->window = i % 2 ? -1 : (int64_t)(5 + i), b->attention_bias = true;
}

typedef struct family {
    const char *name;
    void (*block)(size_t layer, mh_block_config *block);
} family;

static const family families[] = {{"llama", llama}, {"gpt2", gpt2},   {"gemma", gemma},
                                  {"neox", neox},   {"t5", t5},       {"bloom", bloom},
                                  {"oss", oss},     {"random", NULL}, {"random decoder", NULL}};
enum { FAMILIES = sizeof families / sizeof *families };

static void make_family(const family *f, block_case *c)
{
    *c = (block_case){.has = {true, false}, .D = 32, .H = 4, .sequences = 1};
    c->stacks[0] = mh_stack_config_default();
    c->stacks[0].layers = LAYERS;
    c->stacks[0].blocks = c->pointers[0];
    for (size_t i = 0; i < LAYERS; i++) {
        mh_block_config *b = &c->blocks[0][i];
        c->pointers[0][i] = b;
        *b = mh_block_config_default();
        b->d_model = c->D, b->num_heads = c->H, b->dim_feedforward = 48;
        f->block(i, b);
    }
}

// A random stack: an encoder's, or a decoder's.
static void make_random(test_rng *rng, bool decoder, block_case *c)
{
    do
        block_case_create(rng, false, c);
    while (decoder ? !c->has[1] || c->has[0] : c->has[1]);
}

// ---- sequences ----------------------------------------------------------------------------------

// The tokens of a sequence from its beginning to its end, and what a forward pass makes of them.
typedef struct story {
    size_t length, memory;
    float *x, *expected; // (length, D)
} story;

typedef struct simulation {
    test_rng rng;
    mh_context *context;
    block_case c;
    mh_transformer *t;
    mh_decoding *d;
    mh_dtype dtype;  // of the caches
    float *memories; // (MEMORIES, MEMORY_MOST, D)
    int64_t memory_lengths[MEMORIES];
    size_t longest;
    story stories[STORIES_MOST];
    size_t story_count;
    size_t live[LIVE_MOST], at[LIVE_MOST], live_count; // stories, and the tokens of each so far
    double distance;                                   // largest, where caches are not f32
} simulation;

// With caches of f32 a forward pass; with others token by token, alone.
static void run_story(simulation *s, story *y)
{
    const size_t D = s->c.D;
    mh_tensor x = mh_tensor_3d(y->x, MH_F32, 1, y->length, D);
    mh_tensor out = mh_tensor_3d(y->expected, MH_F32, 1, y->length, D);
    mh_tensor memory = mh_tensor_3d(s->memories + y->memory * MEMORY_MOST * D, MH_F32, 1,
                                    (size_t)s->memory_lengths[y->memory], D);
    mh_transformer_options o = mh_transformer_options_default();
    o.src_causal = o.tgt_causal = true;
    o.disabled_heads = s->c.disables ? s->c.disabled : NULL;
    test_ok(s->context, mh_transformer_forward(s->context, s->t, &o, s->c.has[1] ? &memory : &x,
                                               s->c.has[1] ? &x : NULL, &out));
    if (s->dtype == MH_F32)
        return;
    double *wide = block_widen(y->length * D, y->expected);
    mh_decoding_options empty = mh_decoding_options_default();
    empty.cache_dtype = s->dtype;
    mh_decoding *d;
    test_ok(s->context, mh_decoding_create_empty(s->context, s->t, &empty, &d));
    mh_decoding_disable_heads(d, o.disabled_heads);
    for (size_t i = 0; i < y->length; i++) {
        const mh_tensor token = mh_tensor_slice(x, 1, i, 1);
        mh_tensor result = mh_tensor_slice(out, 1, i, 1);
        test_ok(s->context, mh_decoding_step(s->context, d, NULL, 0, &token, &result));
    }
    mh_decoding_free(d);
    s->distance = fmax(s->distance, nn_distance_floats(y->length * D, y->expected, wide));
    free(wide);
}

// A new story; its first tokens are those of another, which it branches from (or SIZE_MAX).
static size_t write_story(simulation *s, size_t from, size_t prefix, size_t memory)
{
    const size_t D = s->c.D, index = s->story_count++;
    story *y = &s->stories[index];
    assert_true(index < STORIES_MOST);
    y->length = prefix + test_between(&s->rng, 1, s->longest);
    y->memory = memory;
    y->x = nn_floats(test_random(&s->rng), y->length * D);
    y->expected = ref_alloc(y->length * D, sizeof(float));
    if (from != SIZE_MAX)
        memcpy(y->x, s->stories[from].x, prefix * D * sizeof(float));
    run_story(s, y);
    return index;
}

// ---- what happens -------------------------------------------------------------------------------

static void join(simulation *s)
{
    size_t count = test_between(&s->rng, 0, 3);
    if (s->c.has[1] || count > LIVE_MOST - s->live_count)
        return;
    test_ok(s->context, mh_decoding_extend(s->context, s->d, count));
    for (; count > 0 && s->story_count < STORIES_MOST - LIVE_MOST; count--) {
        s->live[s->live_count] = write_story(s, SIZE_MAX, 0, 0);
        s->at[s->live_count++] = 0;
    }
    if (count > 0) { // no more stories: these sequences leave again, without a token
        size_t parents[LIVE_MOST];
        for (size_t i = 0; i < s->live_count; i++)
            parents[i] = i;
        test_ok(s->context, mh_decoding_select(s->context, s->d, parents, s->live_count));
    }
}

// Drops finished sequences, now and then others; some branch, perhaps in another order.
static void choose(simulation *s)
{
    size_t parents[LIVE_MOST], live[LIVE_MOST], at[LIVE_MOST], count = 0;
    const bool shuffle = test_chance(&s->rng, 0.3);
    for (size_t i = 0; i < s->live_count; i++) {
        const bool done = s->at[i] == s->stories[s->live[i]].length;
        if (done || test_chance(&s->rng, 0.05))
            continue;
        parents[count] = i, live[count] = s->live[i], at[count++] = s->at[i];
    }
    for (size_t i = s->live_count; i-- > 0 && count < LIVE_MOST;)
        if (test_chance(&s->rng, 0.15) && s->story_count < STORIES_MOST - LIVE_MOST) {
            parents[count] = i, at[count] = s->at[i];
            live[count++] = write_story(s, s->live[i], s->at[i], s->stories[s->live[i]].memory);
        }
    for (size_t i = 1; i < count && shuffle; i++) {
        const size_t j = test_between(&s->rng, 0, i), p = parents[i], l = live[i], a = at[i];
        parents[i] = parents[j], live[i] = live[j], at[i] = at[j];
        parents[j] = p, live[j] = l, at[j] = a;
    }
    test_ok(s->context, mh_decoding_select(s->context, s->d, parents, count));
    memcpy(s->live, live, count * sizeof *live);
    memcpy(s->at, at, count * sizeof *at);
    s->live_count = count;
}

// The tokens that a sequence gets: one, all that are left, some, or none.
static size_t next_tokens(simulation *s, size_t i)
{
    const size_t left = s->stories[s->live[i]].length - s->at[i];
    const size_t kind = test_between(&s->rng, 0, 9);
    if (left == 0 || kind == 0)
        return 0;
    return kind == 1 ? left : kind < 5 ? test_between(&s->rng, 1, left) : 1;
}

static void compare(simulation *s, const int64_t *starts, const float *out)
{
    const size_t D = s->c.D;
    for (size_t i = 0; i < s->live_count; i++) {
        const size_t count = (size_t)(starts[i + 1] - starts[i]);
        const story *y = &s->stories[s->live[i]];
        const float *expected = y->expected + s->at[i] * D;
        if (memcmp(out + (size_t)starts[i] * D, expected, count * D * sizeof *out) != 0) {
            print_message("sequence %zu of %zu, tokens %zu to %zu\n", i, s->live_count, s->at[i],
                          s->at[i] + count);
            nn_same_bits("a step's output", count * D, out + (size_t)starts[i] * D, expected);
        }
        s->at[i] += count;
        assert_int_equal(mh_decoding_length(s->d, i), s->at[i]);
    }
}

static void take_step(simulation *s)
{
    const size_t D = s->c.D, B = s->live_count;
    const bool alike = B > 0 && test_chance(&s->rng, 0.2); // a batch: the same number for all
    int64_t starts[LIVE_MOST + 1] = {0};
    size_t least = SIZE_MAX;
    for (size_t i = 0; i < B; i++)
        if (s->stories[s->live[i]].length - s->at[i] < least)
            least = s->stories[s->live[i]].length - s->at[i];
    for (size_t i = 0; i < B; i++)
        starts[i + 1] = starts[i] + (int64_t)(alike ? least : next_tokens(s, i));
    const size_t rows = (size_t)starts[B];
    float *x = ref_alloc((rows + 1) * D, sizeof *x), *out = ref_alloc((rows + 1) * D, sizeof *out);
    for (size_t i = 0; i < B; i++)
        memcpy(x + (size_t)starts[i] * D, s->stories[s->live[i]].x + s->at[i] * D,
               (size_t)(starts[i + 1] - starts[i]) * D * sizeof *x);
    mh_tensor from = mh_tensor_2d(x, MH_F32, rows, D), to = mh_tensor_2d(out, MH_F32, rows, D);
    if (alike && test_chance(&s->rng, 0.5)) {
        from = mh_tensor_3d(x, MH_F32, B, least, D), to = mh_tensor_3d(out, MH_F32, B, least, D);
        test_ok(s->context, mh_decoding_step(s->context, s->d, NULL, 0, &from, &to));
    } else {
        const bool in_place = test_chance(&s->rng, 0.2);
        test_ok(s->context, mh_decoding_step_packed(s->context, s->d, starts, NULL, 0, &from,
                                                    in_place ? &from : &to));
        if (in_place)
            memcpy(out, x, rows * D * sizeof *x);
    }
    compare(s, starts, out);
    free(x);
    free(out);
}

// ---- whole simulations --------------------------------------------------------------------------

static void begin(simulation *s)
{
    const size_t D = s->c.D;
    mh_decoding_options o = mh_decoding_options_default();
    o.sequences = 0;
    o.cache_dtype = s->dtype;
    s->memories = nn_floats(test_random(&s->rng), MEMORIES * MEMORY_MOST * D);
    for (size_t i = 0; i < MEMORIES; i++)
        s->memory_lengths[i] = (int64_t)test_between(&s->rng, 1, MEMORY_MOST);
    if (s->c.has[1]) {
        const mh_tensor memory = mh_tensor_3d(s->memories, MH_F32, MEMORIES, MEMORY_MOST, D);
        test_ok(s->context,
                mh_decoding_create(s->context, s->t, &memory, s->memory_lengths, 2, &s->d));
        for (size_t i = 0; i < 2 * MEMORIES; i++)
            s->live[s->live_count++] = write_story(s, SIZE_MAX, 0, i / 2);
    } else {
        test_ok(s->context, mh_decoding_create_empty(s->context, s->t, &o, &s->d));
    }
    mh_decoding_disable_heads(s->d, s->c.disables ? s->c.disabled : NULL);
}

static void simulate(simulation *s)
{
    begin(s);
    for (size_t rounds = 0; rounds < 40; rounds++) {
        join(s);
        take_step(s);
        if (test_chance(&s->rng, 0.4))
            choose(s);
        assert_int_equal(mh_decoding_sequences(s->d), s->live_count);
    }
    test_ok(s->context, mh_decoding_select(s->context, s->d, NULL, 0));
    assert_int_equal(mh_decoding_sequences(s->d), 0);
    mh_decoding_free(s->d);
    for (size_t i = 0; i < s->story_count; i++) {
        free(s->stories[i].x);
        free(s->stories[i].expected);
    }
    free(s->memories);
}

// Prints how to repeat it.
static double check_case(const char *level, mh_dtype dtype, size_t number)
{
    const uint64_t seed = test_seed() + number;
    const size_t which = seed % (dtype == MH_F32 ? FAMILIES : FAMILIES - 2);
    simulation *s = ref_alloc(1, sizeof *s);
    *s = (simulation){.rng = {seed}, .dtype = dtype};
    const size_t threads = test_between(&s->rng, 1, 8);
    s->longest = test_chance(&s->rng, 0.05) ? 600 : test_chance(&s->rng, 0.3) ? 150 : 20;
    s->context = test_context(level, threads);
    if (families[which].block)
        make_family(&families[which], &s->c);
    else
        make_random(&s->rng, which == FAMILIES - 1, &s->c);
    const mh_precision precision = test_chance(&s->rng, 0.3) ? MH_PRECISION_BF16 : MH_PRECISION_F32;
    for (size_t i = 0; i < BLOCK_LAYERS_MOST; i++)
        s->c.blocks[0][i].precision = s->c.blocks[1][i].precision = precision;
    print_message("MH_TEST_SEED=%" PRIu64 " MH_TEST_CASES=1: %s, cache %s, precision %d, %zu "
                  "threads, up to %zu tokens\n",
                  seed, families[which].name, mh_dtype_name(dtype), (int)precision, threads,
                  s->longest);
    s->t = block_case_module(s->context, &s->c, true);
    block_case_randomise(&s->c, mh_transformer_parameters(s->t), seed);
    simulate(s);
    mh_transformer_free(s->t);
    mh_context_free(s->context);
    const double distance = s->distance;
    free(s);
    return distance;
}

static void check_f32(const char *level)
{
    for (size_t n = 0; n < test_cases(CASES); n++)
        check_case(level, MH_F32, n);
}

// A forward pass has no rounded cache: what all schedules agree on is near it.
static void check_narrow(const char *level)
{
    double worst[2] = {0};
    for (size_t n = 0; n < test_cases(CASES / 2); n++)
        for (int i = 0; i < 2; i++)
            worst[i] = fmax(worst[i], check_case(level, i ? MH_F16 : MH_BF16, n));
    print_message("%s: caches of bf16 and f16 make up to %.3g and %.3g\n", level, worst[0],
                  worst[1]);
    assert_true(worst[0] > 0 && worst[0] < 0.05);
    assert_true(worst[1] > 0 && worst[1] < 0.005);
}

static void schedules(void **state)
{
    (void)state;
    test_at_levels(check_f32);
}

static void narrow_caches(void **state)
{
    (void)state;
    test_at_levels(check_narrow);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(schedules),
                                       cmocka_unit_test(narrow_caches)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
