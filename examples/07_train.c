// SPDX-License-Identifier: MIT
// Example 7: train a tiny model, and see why attention has several heads. Each token must predict
// the tokens 1, 2, 3 and 4 positions before it (in a ring), from one attention layer:
//
//     tokens -> embedding + positions -> multi-head attention -> linear -> 4 answers
//
// A head's result is one weighted mean of the values. One head, however wide, has to attend to four
// positions with one set of weights, and the sum does not reveal which part came from where; four
// heads attend to one position each. The total width of the heads, the parameters and the work are
// the same in every run.
//
// usage: 07_train [STEPS]       default: 400
#include <multihead/multihead.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { B = 16, T = 16, V = 16, D = 64, ANSWERS = 4, ROWS = B * T };

// The parameters besides the attention's own.
enum { TOKENS, POSITIONS, READ, READ_BIAS, OWN };
static mh_parameter own_list[OWN] = {
    {.name = "tokens", .rank = 2, .shape = {V, D}, .init = MH_INIT_NORMAL, .init_scale = 1},
    {.name = "positions", .rank = 2, .shape = {T, D}, .init = MH_INIT_NORMAL, .init_scale = 1},
    {.name = "read.weight",
     .rank = 2,
     .shape = {ANSWERS * V, D},
     .init = MH_INIT_UNIFORM,
     .init_scale = 0.125f}, // 1 / sqrt(D), as in nn.Linear
    {.name = "read.bias", .rank = 1, .shape = {ANSWERS * V}},
};

static int64_t ids[ROWS], places[ROWS], targets[ROWS * ANSWERS];
static float x[ROWS * D], place[ROWS * D], y[ROWS * D], dx[ROWS * D], dy[ROWS * D]; // (B, T, D)
static float logits[ROWS * ANSWERS * V]; // (B T, ANSWERS V), and their gradients

static mh_context *context;

static void must(mh_status status)
{
    if (status == MH_OK)
        return;
    fprintf(stderr, "07_train: %s\n", mh_error_message(context));
    exit(EXIT_FAILURE);
}

// Parameters with gradients and AdamW's two moments, each as many floats.
typedef struct learned {
    mh_parameters parameters;
    float *gradients, *m, *v;
} learned;

static learned learn(const mh_parameters *parameters)
{
    learned l = {.parameters = *parameters};
    const size_t n = parameters->floats;
    l.gradients = calloc(3 * n, sizeof(float));
    if (!l.gradients)
        exit(EXIT_FAILURE);
    l.m = l.gradients + n;
    l.v = l.m + n;
    return l;
}

static void update(learned *l, uint64_t step)
{
    mh_adamw_options options = mh_adamw_options_default();
    options.learning_rate = 3e-3;
    options.weight_decay = 0;
    const size_t n = l->parameters.floats;
    must(mh_adamw_step(context, &options, step, n, l->gradients, l->parameters.values, l->m, l->v));
    memset(l->gradients, 0, n * sizeof(float));
}

static mh_tensor own(const learned *l, int which, bool gradient)
{
    return mh_parameter_view(&own_list[which], gradient ? l->gradients : l->parameters.values);
}

// Random tokens, and for each the four before it.
static void make_batch(uint64_t *state)
{
    for (size_t i = 0; i < ROWS; i++) {
        *state = *state * 6364136223846793005u + 1442695040888963407u;
        ids[i] = (int64_t)(*state >> 33) % V;
        places[i] = (int64_t)(i % T);
    }
    for (size_t i = 0; i < ROWS; i++)
        for (size_t a = 0; a < ANSWERS; a++)
            targets[i * ANSWERS + a] = ids[i / T * T + (i % T + T - 1 - a) % T];
}

// The fraction of right answers.
static double count_correct(void)
{
    size_t right = 0;
    for (size_t i = 0; i < ROWS * ANSWERS; i++) {
        size_t best = 0;
        for (size_t v = 1; v < V; v++)
            if (logits[i * V + v] > logits[i * V + best])
                best = v;
        right += best == (size_t)targets[i];
    }
    return (double)right / (ROWS * ANSWERS);
}

// One step: forward, loss, backward. *right: before the step.
static double step_once(const mh_mha *mha, const mh_mha_options *options, learned *attention,
                        learned *rest, double *right)
{
    const mh_tensor id = mh_tensor_1d(ids, MH_I64, ROWS), at = mh_tensor_1d(places, MH_I64, ROWS);
    mh_tensor rows = mh_tensor_2d(x, MH_F32, ROWS, D);
    mh_tensor where = mh_tensor_2d(place, MH_F32, ROWS, D);
    const mh_tensor tokens = own(rest, TOKENS, false), positions = own(rest, POSITIONS, false);
    must(mh_embedding(context, &tokens, &id, 1, &rows));
    must(mh_embedding(context, &positions, &at, 1, &where));
    must(mh_add(context, &rows, &where, &rows));

    mh_tensor xt = mh_tensor_3d(x, MH_F32, B, T, D), yt = mh_tensor_3d(y, MH_F32, B, T, D);
    must(mh_mha_forward(context, mha, options, &xt, &xt, &xt, &yt, NULL));

    const mh_tensor found = mh_tensor_2d(y, MH_F32, ROWS, D);
    const mh_tensor read = own(rest, READ, false), bias = own(rest, READ_BIAS, false);
    mh_tensor answers = mh_tensor_2d(logits, MH_F32, ROWS, ANSWERS * V);
    mh_linear_options linear = mh_linear_options_default();
    linear.bias = &bias;
    must(mh_linear(context, &linear, &found, &read, &answers));
    *right = count_correct();

    double loss;
    mh_tensor each = mh_tensor_2d(logits, MH_F32, ROWS * ANSWERS, V);
    const mh_tensor target = mh_tensor_1d(targets, MH_I64, ROWS * ANSWERS);
    must(mh_cross_entropy(context, NULL, &each, &target, &loss, NULL, &each));

    mh_tensor dfound = mh_tensor_2d(dy, MH_F32, ROWS, D);
    mh_tensor dread = own(rest, READ, true), dbias = own(rest, READ_BIAS, true);
    must(mh_linear_backward(context, NULL, &found, &read, &answers, &dfound, &dread, &dbias));
    const mh_tensor dyt = mh_tensor_3d(dy, MH_F32, B, T, D);
    mh_tensor dxt = mh_tensor_3d(dx, MH_F32, B, T, D);
    must(mh_mha_backward(context, mha, options, &xt, &xt, &xt, &dyt, attention->gradients, &dxt,
                         NULL, NULL));
    const mh_tensor drows = mh_tensor_2d(dx, MH_F32, ROWS, D);
    mh_tensor dtokens = own(rest, TOKENS, true), dpositions = own(rest, POSITIONS, true);
    must(mh_embedding_backward(context, &id, 1, -1, &drows, &dtokens));
    must(mh_embedding_backward(context, &at, 1, -1, &drows, &dpositions));
    return loss;
}

// Trains a model with that many heads; the mean over the last 20 batches of loss and right answers.
static double train(size_t heads, uint64_t steps, double *right)
{
    mh_mha_config config = mh_mha_config_default();
    config.embed_dim = D;
    config.num_heads = heads;
    config.batch_first = true;
    mh_mha *mha;
    must(mh_mha_create(context, &config, &mha));
    mh_parameters_init(mh_mha_parameters(mha), 1);
    const size_t floats = mh_parameters_lay_out(own_list, OWN);
    const mh_parameters own_parameters = {OWN, own_list, floats, malloc(floats * sizeof(float))};
    if (!own_parameters.values)
        exit(EXIT_FAILURE);
    mh_parameters_init(&own_parameters, 2);
    learned attention = learn(mh_mha_parameters(mha)), rest = learn(&own_parameters);
    mh_mha_options options = mh_mha_options_default();
    must(mh_tape_create(context, &options.tape));

    uint64_t state = 1, last = steps < 20 ? steps : 20;
    double loss = 0;
    *right = 0;
    for (uint64_t step = 1; step <= steps; step++) {
        double now_right;
        make_batch(&state);
        const double now = step_once(mha, &options, &attention, &rest, &now_right);
        update(&attention, step);
        update(&rest, step);
        loss += step > steps - last ? now / (double)last : 0;
        *right += step > steps - last ? now_right / (double)last : 0;
    }
    mh_tape_free(options.tape);
    free(attention.gradients);
    free(rest.gradients);
    free(own_parameters.values);
    mh_mha_free(mha);
    return loss;
}

int main(int argc, char **argv)
{
    const uint64_t steps = argc > 1 ? strtoull(argv[1], NULL, 10) : 400;
    char error[256];
    if (steps == 0 || mh_context_create(NULL, &context, error, sizeof error) != MH_OK) {
        fprintf(stderr, "07_train: %s\n", steps ? error : "STEPS: expected a number");
        return EXIT_FAILURE;
    }
    printf("  which tokens stand 1, 2, 3 and 4 places before? %d wide, %llu steps; by chance %.1f "
           "%%\n",
           D, (unsigned long long)steps, 100.0 / V);
    double right[9] = {0};
    for (size_t heads = 1; heads <= 8; heads *= 2) {
        const double loss = train(heads, steps, &right[heads]);
        printf("  %zu head%s of width %2zu: loss %.3f, %5.1f %% right\n", heads,
               heads == 1 ? " " : "s", D / heads, loss, 100 * right[heads]);
    }
    mh_context_free(context);
    return steps < 400 || right[8] > right[1] + 0.2 ? EXIT_SUCCESS : EXIT_FAILURE;
}
