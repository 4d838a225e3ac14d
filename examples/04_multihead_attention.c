// SPDX-License-Identifier: MIT
// Example 4: the multi-head attention module, the equivalent of nn.MultiheadAttention. It projects
// query, key and value, runs attention per head, and projects the concatenated heads:
//
//     out = concat(head_1 ... head_H) Wo^T + bo        x (T, B, D) -> out (T, B, D)
//
// Heads are free: eight of width 64 have as many parameters as one of width 512. What they add is
// weights: each head has its own pattern (07_train.c shows what that is good for).
#include <multihead/multihead.h>
#include <stdio.h>
#include <stdlib.h>

static mh_context *context;

static void must(mh_status status)
{
    if (status == MH_OK)
        return;
    fprintf(stderr, "04_multihead_attention: %s\n", mh_error_message(context));
    exit(EXIT_FAILURE);
}

// A module with parameters initialised as in PyTorch.
static mh_mha *make(mh_mha_config config)
{
    mh_mha *mha;
    must(mh_mha_create(context, &config, &mha));
    mh_parameters_init(mh_mha_parameters(mha), 42);
    return mha;
}

// Input data, and room for results.
static float *numbers(size_t count)
{
    float *x = malloc(count * sizeof *x);
    if (!x)
        exit(EXIT_FAILURE);
    for (size_t i = 0; i < count; i++)
        x[i] = (float)(i * 2654435761u % 2001) / 1000 - 1;
    return x;
}

static void print(const char *name, const mh_tensor *t)
{
    char text[128];
    printf("    %-8s %s\n", name, mh_tensor_describe(t, text, sizeof text));
}

// Rows of weights must sum to 1.
static void check_weights(const mh_tensor *weights)
{
    const size_t keys = weights->shape[weights->rank - 1], rows = mh_tensor_count(weights) / keys;
    const float *w = weights->data;
    for (size_t row = 0; row < rows; row++) {
        float sum = 0;
        for (size_t s = 0; s < keys; s++)
            sum += w[row * keys + s];
        if (sum < 0.9999f || sum > 1.0001f)
            exit(EXIT_FAILURE);
    }
}

// Self-attention over 10 tokens of 32 sequences, with one head or eight: (10, 32, 512).
static void self_attention(size_t heads)
{
    enum { T = 10, B = 32, D = 512 };
    mh_mha_config config = mh_mha_config_default();
    config.embed_dim = D;
    config.num_heads = heads;
    mh_mha *mha = make(config);
    float *x = numbers(T * B * D), *y = numbers(T * B * D), *w = numbers(B * T * T);
    mh_tensor query = mh_tensor_3d(x, MH_F32, T, B, D), out = mh_tensor_3d(y, MH_F32, T, B, D);
    mh_tensor weights = mh_tensor_3d(w, MH_F32, B, T, T); // the mean over the heads
    must(mh_mha_forward(context, mha, NULL, &query, &query, &query, &out, &weights));
    printf("  %zu head%s of width %zu, %zu parameters\n", heads, heads == 1 ? "" : "s", D / heads,
           mh_mha_parameters(mha)->floats);
    print("x", &query);
    print("out", &out);
    print("weights", &weights);
    check_weights(&weights);
    free(x), free(y), free(w);
    mh_mha_free(mha);
}

// Batch first, and the weights of every head: (2, 10, 512) gives (2, 8, 10, 10).
static void weights_of_each_head(void)
{
    enum { B = 2, T = 10, D = 512, H = 8 };
    mh_mha_config config = mh_mha_config_default();
    config.embed_dim = D;
    config.num_heads = H;
    config.batch_first = true;
    mh_mha *mha = make(config);
    float *x = numbers(B * T * D), *y = numbers(B * T * D), *w = numbers(B * H * T * T);
    mh_tensor query = mh_tensor_3d(x, MH_F32, B, T, D), out = mh_tensor_3d(y, MH_F32, B, T, D);
    mh_tensor weights = mh_tensor_4d(w, MH_F32, B, H, T, T);
    mh_mha_options options = mh_mha_options_default();
    options.per_head_weights = true;
    mh_attention_options attention = mh_attention_options_default();
    attention.causal = MH_CAUSAL; // no mask tensor needed
    options.attention = &attention;
    must(mh_mha_forward(context, mha, &options, &query, &query, &query, &out, &weights));
    printf("  batch first, causal, weights of each head\n");
    print("x", &query);
    print("out", &out);
    print("weights", &weights);
    check_weights(&weights);
    if (w[1] != 0) // the first query of the first head sees the first key only
        exit(EXIT_FAILURE);
    free(x), free(y), free(w);
    mh_mha_free(mha);
}

// An input that is wider than the model, q, k and v interleaved by head: (30, 5, 1024) -> 512.
static void wider_input(void)
{
    enum { B = 30, T = 5, N = 1024, D = 512 };
    mh_mha_config config = mh_mha_config_default();
    config.input_dim = N;
    config.embed_dim = D;
    config.num_heads = 8;
    config.batch_first = true;
    config.qkv = MH_QKV_INTERLEAVED;
    mh_mha *mha = make(config);
    float *x = numbers(B * T * N), *y = numbers(B * T * D);
    mh_tensor query = mh_tensor_3d(x, MH_F32, B, T, N), out = mh_tensor_3d(y, MH_F32, B, T, D);
    must(mh_mha_forward(context, mha, NULL, &query, &query, &query, &out, NULL));
    printf("  input of width %d, model of width %d\n", N, D);
    print("x", &query);
    print("out", &out);
    free(x), free(y);
    mh_mha_free(mha);
}

int main(void)
{
    char error[256];
    if (mh_context_create(NULL, &context, error, sizeof error) != MH_OK) {
        fprintf(stderr, "04_multihead_attention: %s\n", error);
        return EXIT_FAILURE;
    }
    self_attention(1);
    self_attention(8);
    weights_of_each_head();
    wider_input();
    printf("  every step of it: multihead mha --embed-dim 512 --heads 8 --random 32x10 --trace\n");
    mh_context_free(context);
    return EXIT_SUCCESS;
}
