// SPDX-License-Identifier: MIT
// Decoding with pretrained models: token by token through mh_decoding_step, hidden states have the
// bits of one forward pass, and the likeliest tokens are those that transformers finds in float64.
#include "pretrained_golden.h"

// x (length, D): the embeddings of one sequence.
static void embed(const golden *g, const int32_t *ids, size_t length, float *x)
{
    const int64_t starts[2] = {0, (int64_t)length};
    int32_t indices[2 * MOST_ROWS];
    float scratch[MOST_ROWS * 64];
    mh_model_input input = mh_model_input_default();
    input.sequences = 1;
    input.starts = starts;
    input.ids = ids;
    assert_true(g->D <= 64);
    const mh_model_tokens tokens = mh_model_source_tokens(&input);
    mh_tensor t = mh_tensor_2d(x, MH_F32, length, g->D);
    assert_int_equal(mh_model_embed_tokens(g->context, g->model, &tokens, scratch, indices, &t),
                     MH_OK);
}

static mh_decoding *start(const golden *g)
{
    mh_decoding *decoding;
    if (mh_decoding_create_causal(g->context, mh_model_transformer(g->model), 1, &decoding))
        fail_msg("%s: %s", g->name, mh_error_message(g->context));
    return decoding;
}

// The hidden state (D) of one more token.
static void step(const golden *g, mh_decoding *decoding, const float *x, float *y)
{
    const mh_tensor in = mh_tensor_3d((float *)x, MH_F32, 1, 1, g->D);
    mh_tensor out = mh_tensor_3d(y, MH_F32, 1, 1, g->D);
    if (mh_decoding_step(g->context, decoding, NULL, 0, &in, &out))
        fail_msg("%s: %s", g->name, mh_error_message(g->context));
}

static int32_t likeliest(const golden *g, const float *hidden)
{
    const size_t V = mh_model_describe(g->model)->vocabulary;
    float *logits = calloc(V, sizeof *logits);
    const mh_tensor h = mh_tensor_2d((float *)hidden, MH_F32, 1, g->D);
    mh_tensor y = mh_tensor_2d(logits, MH_F32, 1, V);
    assert_int_equal(mh_model_logits(g->context, g->model, &h, &y), MH_OK);
    int32_t best = 0;
    for (size_t i = 1; i < V; i++)
        best = logits[i] > logits[best] ? (int32_t)i : best;
    free(logits);
    return best;
}

static void check_sequence(golden *g, size_t b)
{
    const mh_tensor expected = expected_tensor(g, "greedy.ids");
    const int64_t *greedy = (const int64_t *)expected.data + b * expected.shape[1];
    const size_t prompt = g->length[b], all = prompt + expected.shape[1];
    int32_t ids[MOST_ROWS];
    float x[MOST_ROWS * 64], hidden[MOST_ROWS * 64], whole[MOST_ROWS * 64];
    const int64_t starts[2] = {0, (int64_t)all};
    mh_decoding *decoding = start(g);
    assert_true(all <= MOST_ROWS);
    memcpy(ids, g->ids + g->starts[b], prompt * sizeof *ids);
    for (size_t i = 0; i < all; i++) {
        if (i >= prompt) {
            ids[i] = likeliest(g, hidden + (i - 1) * g->D);
            if (ids[i] != greedy[i - prompt])
                fail_msg("%s: sequence %zu, token %zu: found %d, expected %d", g->name, b, i,
                         (int)ids[i], (int)greedy[i - prompt]);
        }
        embed(g, ids, i + 1, x);
        step(g, decoding, x + i * g->D, hidden + i * g->D);
    }
    mh_decoding_free(decoding);
    mh_model_input input = mh_model_input_default();
    input.sequences = 1;
    input.starts = starts;
    input.ids = ids;
    mh_tensor y = mh_tensor_2d(whole, MH_F32, all, g->D);
    assert_int_equal(mh_model_hidden(g->context, g->model, &input, &y), MH_OK);
    assert_memory_equal(hidden, whole, all * g->D * sizeof *hidden);
}

static void tokens_equal_forward_and_transformers(void **state)
{
    (void)state;
    static const char *const models[] = {
        "gpt2",     "gpt2-untied",  "llama",         "llama-scaled", "mistral",
        "qwen2",    "qwen2-yarn",   "qwen3",         "gemma2",       "gemma3",
        "gpt_neox", "llama-linear", "llama-dynamic",
    };
    for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
        golden g = open_golden(models[i], false);
        for (size_t b = 0; b < g.B; b++)
            check_sequence(&g, b);
        close_golden(&g);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(tokens_equal_forward_and_transformers)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
