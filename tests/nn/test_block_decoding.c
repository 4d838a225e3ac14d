// SPDX-License-Identifier: MIT
// Incremental decoding of general blocks: token by token, in chunks and with 1 to 4 threads, each
// step has the bits of one forward pass over all tokens, for random causal stacks with every
// setting of block.h.
#include "block_case.h"
#include "nn_support.h"
#include "ref/ref_tensor.h"

#include <inttypes.h>

enum { CASES = 100 };

// A causal, batched case of longer sequences.
static void create(test_rng *rng, block_case *c)
{
    block_case_create(rng, false, c);
    c->layout = BLOCK_BATCHED;
    c->sequences = test_between(rng, 1, 3);
    c->causal[block_case_output(c)] = true;
    for (int s = 0; s < 2; s++) {
        const size_t length = test_between(rng, 1, test_chance(rng, 0.1) ? 70 : 14);
        for (size_t b = 0; b < c->sequences; b++)
            c->starts[s][b + 1] = (int64_t)((b + 1) * length);
    }
}

// The memory of a decoder is src itself or the encoder's output.
static mh_decoding *start(mh_context *context, const mh_transformer *t, const block_case *c,
                          float *src, float *memory)
{
    mh_tensor x = block_case_view(c, 0, src), y = block_case_view(c, 0, memory);
    mh_transformer_options o = block_case_options(c);
    mh_decoding *d;
    if (!c->has[1]) {
        test_ok(context, mh_decoding_create_causal(context, t, c->sequences, &d));
    } else {
        if (c->has[0])
            test_ok(context, mh_transformer_encode(context, t, &o, &x, &y));
        test_ok(context, mh_decoding_create(context, t, c->has[0] ? &y : &x, NULL, 1, &d));
    }
    mh_decoding_disable_heads(d, c->disables ? c->disabled : NULL);
    return d;
}

// All tokens in chunks of 1 to `most`.
static void decode(mh_context *context, test_rng *rng, const mh_transformer *t, const block_case *c,
                   size_t most, float *src, float *x, float *out)
{
    const int stack = block_case_output(c);
    const size_t length = block_case_rows(c, stack) / c->sequences;
    const mh_tensor from = block_case_view(c, stack, x), to = block_case_view(c, stack, out);
    float *memory = ref_alloc(block_case_rows(c, 0) * c->D, sizeof *memory);
    mh_decoding *d = start(context, t, c, src, memory);
    for (size_t done = 0, n; done < length; done += n) {
        n = test_between(rng, 1, most);
        n = n < length - done ? n : length - done;
        mh_tensor a = mh_tensor_slice(from, 1, done, n), b = mh_tensor_slice(to, 1, done, n);
        test_ok(context, mh_decoding_step(context, d, NULL, 0, &a, &b));
    }
    mh_decoding_free(d);
    free(memory);
}

static void check_case(const char *level, uint64_t seed)
{
    test_rng rng = {seed};
    block_case c;
    create(&rng, &c);
    mh_context *context = test_context(level, 1);
    mh_transformer *t = block_case_module(context, &c, true);
    block_case_randomise(&c, mh_transformer_parameters(t), seed);
    const int stack = block_case_output(&c);
    const size_t n = block_case_rows(&c, stack) * c.D;
    float *src = nn_floats(seed + 1, block_case_rows(&c, 0) * c.D);
    float *tgt = nn_floats(seed + 2, block_case_rows(&c, 1) * c.D);
    float *expected = ref_alloc(n, sizeof *expected), *found = ref_alloc(n, sizeof *found);
    const mh_transformer_options o = block_case_options(&c);
    test_ok(context, block_case_forward(context, t, &c, &o, src, tgt, expected));
    for (size_t threads = 1; threads <= 4; threads++) {
        mh_context *other = test_context(level, threads);
        memset(found, 0xFF, n * sizeof *found);
        decode(other, &rng, t, &c, threads == 1 ? 1 : 4 * threads, src, stack ? tgt : src, found);
        mh_context_free(other);
        if (memcmp(found, expected, n * sizeof *found) == 0)
            continue;
        block_case_print(&c);
        print_message("MH_TEST_SEED=%" PRIu64 " MH_TEST_CASES=1, level %s, %zu threads\n", seed,
                      level, threads);
        nn_same_bits("a step's output", n, found, expected);
    }
    void *all[] = {src, tgt, expected, found};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        free(all[i]);
    mh_transformer_free(t);
    mh_context_free(context);
}

static void check_level(const char *level)
{
    for (size_t n = 0; n < test_cases(CASES); n++)
        check_case(level, test_seed() + n);
}

static void steps(void **state)
{
    (void)state;
    test_at_levels(check_level);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(steps)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
