// SPDX-License-Identifier: MIT
// Example 6: the whole Transformer, the equivalent of nn.Transformer: an encoder reads the source,
// a decoder writes the target and attends to both. In training all target tokens are processed at
// once, with a causal mask; in inference they are generated one by one, with a KV cache. Both are
// bitwise identical.
#include <multihead/multihead.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { S = 9, T = 6, B = 2, D = 64, H = 4, F = 256 };

static float src[S * B * D], memory[S * B * D]; // (S, B, D)
static float tgt[T * B * D], out[T * B * D];    // (T, B, D)
static float step_out[B * D];                   // (1, B, D)
static float cross[B * H * S];                  // (B, H, 1, S): cross-attention weights

static mh_context *context;

static void must(mh_status status)
{
    if (status == MH_OK)
        return;
    fprintf(stderr, "06_encoder_decoder: %s\n", mh_error_message(context));
    exit(EXIT_FAILURE);
}

static mh_transformer *make(void)
{
    mh_transformer_config config = mh_transformer_config_default();
    config.d_model = D;
    config.nhead = H;
    config.num_encoder_layers = config.num_decoder_layers = 2;
    config.dim_feedforward = F;
    mh_transformer *transformer;
    must(mh_transformer_create(context, &config, &transformer));
    mh_parameters_init(mh_transformer_parameters(transformer), 3);
    return transformer;
}

// The encoder once, then the decoder token by token; returns how many tokens are bitwise identical
// to `out`.
static int decode(const mh_transformer *whole)
{
    mh_decoding *decoding;
    mh_tensor s = mh_tensor_3d(src, MH_F32, S, B, D), m = mh_tensor_3d(memory, MH_F32, S, B, D);
    must(mh_transformer_encode(context, whole, NULL, &s, &m));
    must(mh_decoding_create(context, whole, &m, NULL, 1, &decoding));
    const mh_tap tap = {.struct_size = sizeof(mh_tap),
                        .kind = MH_TAP_CROSS,
                        .layer = 1,
                        .weights = mh_tensor_4d(cross, MH_F32, B, H, 1, S)};
    int same = 0;
    for (size_t t = 0; t < T; t++) {
        mh_tensor token = mh_tensor_3d(&tgt[t * B * D], MH_F32, 1, B, D);
        mh_tensor y = mh_tensor_3d(step_out, MH_F32, 1, B, D);
        must(mh_decoding_step(context, decoding, &tap, 1, &token, &y));
        same += memcmp(step_out, &out[t * B * D], sizeof step_out) == 0;
    }
    mh_decoding_free(decoding);
    return same;
}

int main(void)
{
    char error[256];
    if (mh_context_create(NULL, &context, error, sizeof error) != MH_OK) {
        fprintf(stderr, "06_encoder_decoder: %s\n", error);
        return EXIT_FAILURE;
    }
    for (size_t i = 0; i < S * B * D; i++)
        src[i] = (float)(i * 2654435761u % 2001) / 1000 - 1;
    for (size_t i = 0; i < T * B * D; i++)
        tgt[i] = (float)(i * 2246822519u % 2001) / 1000 - 1;

    mh_transformer *whole = make();
    mh_tensor s = mh_tensor_3d(src, MH_F32, S, B, D);
    mh_tensor t = mh_tensor_3d(tgt, MH_F32, T, B, D), y = mh_tensor_3d(out, MH_F32, T, B, D);
    mh_transformer_options options = mh_transformer_options_default();
    options.tgt_causal = true;
    must(mh_transformer_forward(context, whole, &options, &s, &t, &y));
    printf("  source (%d, %d, %d), target (%d, %d, %d): all target tokens at once\n", S, B, D, T, B,
           D);

    const int same = decode(whole);
    printf("  one by one: %d of %d steps have the same bits\n", same, (int)T);
    printf("  where head 0 looks in the source for the last token:");
    for (size_t i = 0; i < S; i++)
        printf(" %.2f", (double)cross[i]);
    printf("\n");
    mh_transformer_free(whole);
    mh_context_free(context);
    return same == T ? EXIT_SUCCESS : EXIT_FAILURE;
}
