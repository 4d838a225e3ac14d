// SPDX-License-Identifier: MIT
// Example 5: a stack of encoder layers, the equivalent of nn.TransformerEncoder, over two sentences
// of different lengths. Shorter ones are padded, with a mask (true = padding); or all are packed
// back to back, without padding. Both are bitwise identical for the real tokens.
#include <multihead/multihead.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { B = 2, S = 7, D = 64, H = 4, LAYERS = 3, F = 256 };

static const int64_t starts[B + 1] = {0, 7, 11}; // sentences of 7 and 4 tokens
static float packed[11 * D], packed_out[11 * D]; // (rows, D)
static float src[B * S * D], out[B * S * D];     // (B, S, D)
static bool padding[B * S];                      // (B, S)
static float weights[B * H * S * S];             // (B, H, S, S), of the last layer

static mh_context *context;

static void must(mh_status status)
{
    if (status == MH_OK)
        return;
    fprintf(stderr, "05_encoder: %s\n", mh_error_message(context));
    exit(EXIT_FAILURE);
}

static void make_sentences(void)
{
    for (size_t i = 0; i < 11 * D; i++)
        packed[i] = (float)(i * 2654435761u % 2001) / 1000 - 1;
    for (size_t b = 0; b < B; b++)
        for (size_t s = 0; s < S; s++) {
            const size_t row = (size_t)starts[b] + s;
            padding[b * S + s] = row >= (size_t)starts[b + 1];
            if (!padding[b * S + s])
                memcpy(&src[(b * S + s) * D], &packed[row * D], D * sizeof(float));
        }
}

int main(void)
{
    char error[256];
    if (mh_context_create(NULL, &context, error, sizeof error) != MH_OK) {
        fprintf(stderr, "05_encoder: %s\n", error);
        return EXIT_FAILURE;
    }
    make_sentences();

    mh_transformer_config config = mh_transformer_config_default();
    config.kind = MH_ENCODER;
    config.d_model = D;
    config.nhead = H;
    config.num_encoder_layers = LAYERS;
    config.dim_feedforward = F;
    config.batch_first = true;
    mh_transformer *encoder;
    must(mh_transformer_create(context, &config, &encoder));
    const mh_parameters *parameters = mh_transformer_parameters(encoder);
    mh_parameters_init(parameters, 1);
    printf("  %d layers, %zu parameters in %zu tensors, PyTorch's names: %s ...\n", LAYERS,
           parameters->floats, parameters->count, parameters->list[0].name);

    // Padded, with a tap on the last layer's heads.
    mh_tensor x = mh_tensor_3d(src, MH_F32, B, S, D), y = mh_tensor_3d(out, MH_F32, B, S, D);
    mh_tensor mask = mh_tensor_2d(padding, MH_BOOL, B, S);
    mh_tap tap = {.struct_size = sizeof(mh_tap),
                  .kind = MH_TAP_ENCODER,
                  .layer = LAYERS - 1,
                  .weights = mh_tensor_4d(weights, MH_F32, B, H, S, S)};
    mh_transformer_options options = mh_transformer_options_default();
    options.src_key_padding_mask = &mask;
    options.taps = &tap;
    options.tap_count = 1;
    must(mh_transformer_forward(context, encoder, &options, &x, NULL, &y));

    // Packed: eleven rows instead of fourteen.
    mh_tensor px = mh_tensor_2d(packed, MH_F32, 11, D);
    mh_tensor py = mh_tensor_2d(packed_out, MH_F32, 11, D);
    options = mh_transformer_options_default();
    options.sequences = B;
    options.src_starts = starts;
    must(mh_transformer_forward(context, encoder, &options, &px, NULL, &py));

    const bool first = memcmp(out, packed_out, 7 * D * sizeof(float)) == 0;
    const bool second = memcmp(&out[S * D], &packed_out[7 * D], 4 * D * sizeof(float)) == 0;
    printf("  padded and packed give %s bits\n", first && second ? "the same" : "DIFFERENT");
    printf("  head 0 of the last layer, the second sentence's first token:");
    for (size_t s = 0; s < S; s++)
        printf(" %.2f", (double)weights[H * S * S + s]);
    printf(" (its padding gets 0)\n");
    mh_transformer_free(encoder);
    mh_context_free(context);
    return first && second && weights[H * S * S + 4] == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
