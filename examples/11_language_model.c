// SPDX-License-Identifier: MIT
// Example 11: a decoder-only language model such as GPT: an encoder with causal attention. It
// memorises a verse, letter by letter, and recites it from its first words. In training all letters
// are processed at once and each predicts the next; in inference the prompt is prefilled at once,
// then letters are generated one by one with a KV cache.
//
// usage: 11_language_model [STEPS]       default: 300
#include <multihead/multihead.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char verse[] = "four little heads sat in a row, one looked back and one looked low, "
                            "one kept watch at the open door, and what the last saw, nobody saw.";

enum { B = 8, T = 64, D = 64, H = 4, V = 128, ROWS = B * T, LENGTH = sizeof verse - 1 };

static int32_t ids[ROWS], targets[ROWS];
static float x[ROWS * D], y[ROWS * D], dx[ROWS * D], dy[ROWS * D]; // (B, T, D)
static float positions[T * D], logits[ROWS * V];

static mh_context *context;

static void must(mh_status status)
{
    if (status == MH_OK)
        return;
    fprintf(stderr, "11_language_model: %s\n", mh_error_message(context));
    exit(EXIT_FAILURE);
}

// The first parameter is the embedding table of letters (V, D), which the module leaves to us.
static mh_tensor table(const mh_transformer *model, float *values)
{
    return mh_parameter_view(&mh_transformer_parameters(model)->list[0], values);
}

// rows (n, D) = letters + positions, from position `first` on in each of the n / length sequences.
static void embed(const mh_transformer *model, size_t n, size_t length, size_t first)
{
    const mh_tensor letters = table(model, mh_transformer_parameters(model)->values);
    const mh_tensor id = mh_tensor_2d(ids, MH_I32, n / length, length);
    mh_tensor rows = mh_tensor_3d(x, MH_F32, n / length, length, D);
    const mh_tensor place = mh_tensor_2d(positions + first * D, MH_F32, length, D);
    must(mh_embedding(context, &letters, &id, 1, &rows));
    must(mh_add(context, &rows, &place, &rows));
}

// logits (n, V): the scores of the next letter, with the tied embedding table.
static void read_out(const mh_transformer *model, size_t n)
{
    const mh_tensor letters = table(model, mh_transformer_parameters(model)->values);
    mh_tensor rows = mh_tensor_2d(y, MH_F32, n, D), out = mh_tensor_2d(logits, MH_F32, n, V);
    must(mh_linear(context, NULL, &rows, &letters, &out));
}

// Forward, loss, backward, for B excerpts of the verse.
static double step_once(const mh_transformer *model, const mh_transformer_options *options,
                        float *gradients)
{
    for (size_t b = 0; b < B; b++) {
        const size_t from = (options->step * B + b) * 37 % (LENGTH - T);
        for (size_t t = 0; t < T; t++) {
            ids[b * T + t] = verse[from + t];
            targets[b * T + t] = verse[from + t + 1];
        }
    }
    mh_tensor xt = mh_tensor_3d(x, MH_F32, B, T, D), yt = mh_tensor_3d(y, MH_F32, B, T, D);
    embed(model, ROWS, T, 0);
    must(mh_transformer_forward(context, model, options, &xt, NULL, &yt));
    read_out(model, ROWS);

    double loss;
    const mh_tensor target = mh_tensor_1d(targets, MH_I32, ROWS);
    mh_tensor out = mh_tensor_2d(logits, MH_F32, ROWS, V); // and its gradient
    must(mh_cross_entropy(context, NULL, &out, &target, &loss, NULL, &out));

    const mh_tensor letters = table(model, mh_transformer_parameters(model)->values);
    mh_tensor dletters = table(model, gradients), id = mh_tensor_1d(ids, MH_I32, ROWS);
    mh_tensor rows = mh_tensor_2d(y, MH_F32, ROWS, D), drows = mh_tensor_2d(dy, MH_F32, ROWS, D);
    must(mh_linear_backward(context, NULL, &rows, &letters, &out, &drows, &dletters, NULL));
    mh_tensor dyt = mh_tensor_3d(dy, MH_F32, B, T, D), dxt = mh_tensor_3d(dx, MH_F32, B, T, D);
    must(mh_transformer_backward(context, model, options, &xt, NULL, &dyt, gradients, &dxt, NULL));
    const mh_tensor dembedded = mh_tensor_2d(dx, MH_F32, ROWS, D);
    must(mh_embedding_backward(context, &id, 1, -1, &dembedded, &dletters));
    return loss;
}

static double train(const mh_transformer *model, uint32_t steps)
{
    const mh_parameters *p = mh_transformer_parameters(model);
    float *memory = calloc(3 * p->floats, sizeof *memory); // gradients, AdamW's two moments
    if (!memory)
        exit(EXIT_FAILURE);
    mh_transformer_options options = mh_transformer_options_default();
    options.src_causal = true;
    options.overwrite_gradients = true;
    must(mh_tape_create(context, &options.tape));
    mh_adamw_options adamw = mh_adamw_options_default();
    adamw.learning_rate = 3e-3;
    double loss = 0;
    for (options.step = 1; options.step <= steps; options.step++) {
        loss = step_once(model, &options, memory);
        must(mh_adamw_step(context, &adamw, options.step, p->floats, memory, p->values,
                           memory + p->floats, memory + 2 * p->floats));
    }
    mh_tape_free(options.tape);
    free(memory);
    return loss;
}

// Greedy decoding: appends the likeliest letters to the first `prompt` of `text`, up to T in all.
static void recite(const mh_transformer *model, size_t prompt, char text[T + 1])
{
    mh_decoding *decoding;
    must(mh_decoding_create_causal(context, model, 1, &decoding));
    for (size_t done = 0, count = prompt; done + count <= T; done += count, count = 1) {
        for (size_t i = 0; i < count; i++)
            ids[i] = text[done + i];
        embed(model, count, count, done);
        const mh_tensor in = mh_tensor_3d(x, MH_F32, 1, count, D);
        mh_tensor out = mh_tensor_3d(y, MH_F32, 1, count, D);
        must(mh_decoding_step(context, decoding, NULL, 0, &in, &out));
        read_out(model, count);
        const float *last = logits + (count - 1) * V;
        size_t best = ' ';
        for (size_t v = ' '; v < V; v++)
            best = last[v] > last[best] ? v : best;
        if (done + count < T)
            text[done + count] = (char)best;
    }
    mh_decoding_free(decoding);
}

int main(int argc, char **argv)
{
    const unsigned long steps = argc > 1 ? strtoul(argv[1], NULL, 10) : 300;
    char error[256], text[T + 1] = "four little heads";
    if (steps == 0 || mh_context_create(NULL, &context, error, sizeof error) != MH_OK) {
        fprintf(stderr, "11_language_model: %s\n", steps ? error : "STEPS: expected a number");
        return EXIT_FAILURE;
    }
    mh_tensor places = mh_tensor_2d(positions, MH_F32, T, D);
    must(mh_positions_sinusoidal(context, 0, 1, &places));
    mh_transformer_config config = mh_transformer_config_default();
    config.kind = MH_ENCODER;
    config.d_model = D, config.nhead = H, config.dim_feedforward = 4 * D;
    config.num_encoder_layers = 2;
    config.dropout = 0;
    config.batch_first = config.norm_first = true;
    config.vocabulary = V;
    mh_transformer *model;
    must(mh_transformer_create(context, &config, &model));
    mh_parameters_init(mh_transformer_parameters(model), 1);

    const double loss = train(model, (uint32_t)steps);
    printf("  %lu steps, loss %.3f; \"%s\" goes on:\n", steps, loss, text);
    recite(model, strlen(text), text);
    printf("  %s\n", text);
    const bool right = memcmp(text, verse, T) == 0;
    mh_transformer_free(model);
    mh_context_free(context);
    return steps < 300 || right ? EXIT_SUCCESS : EXIT_FAILURE;
}
