// SPDX-License-Identifier: MIT
// One head against many: `multihead heads --compare`. Each token must tell the tokens 1, 2, 3 and 4
// positions before it (in a ring), from one attention layer:
//
//     tokens -> embedding + positions -> multi-head attention -> linear -> 4 answers
//
// A head's result is one weighted mean of the values. One head, however wide, has to attend to four
// positions with one set of weights; four heads attend to one position each. The total width of the
// heads, the parameters and the work are the same in every run. examples/07_train.c is the same
// with comments on the library.
#include "heads_parts.h"
#include "messages.h"
#include "progress.h"

#include <multihead/multihead.h>
#include <stdlib.h>
#include <string.h>

enum { B = 16, T = 16, V = 16, D = 64, ANSWERS = 4, ROWS = B * T, RUNS_MOST = 16, LAST = 20 };

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

// Parameters with gradients and AdamW's two moments, each as many floats.
typedef struct learned {
    mh_parameters parameters;
    float *gradients, *m, *v;
} learned;

// A model and a batch.
typedef struct comparison {
    mh_context *context;
    mh_mha *mha;
    mh_mha_options options;
    learned attention, rest;
    float *own; // values of `rest`
    uint64_t state;
    int64_t ids[ROWS], positions[ROWS], targets[ROWS * ANSWERS];
    float x[ROWS * D], position[ROWS * D], y[ROWS * D], dx[ROWS * D], dy[ROWS * D]; // (B, T, D)
    float logits[ROWS * ANSWERS * V]; // (B T, ANSWERS V), and their gradients
} comparison;

// ---- the list of heads --------------------------------------------------------------------------

// The numbers of "1,2,4,8"; how many, 0 for a list that is not one.
static size_t read_runs(const char *text, size_t runs[RUNS_MOST])
{
    size_t count = 0;
    for (const char *at = text;; at++) {
        const size_t digits = strspn(at, "0123456789");
        const unsigned long heads = digits > 0 && digits < 4 ? strtoul(at, NULL, 10) : 0;
        if (heads == 0 || D % heads != 0 || count == RUNS_MOST)
            return 0;
        runs[count++] = heads;
        at += digits;
        if (!*at)
            return count;
        if (*at != ',')
            return 0;
    }
}

void compare_check(struct argp_state *state, const head_compare *c)
{
    size_t runs[RUNS_MOST];
    if (read_runs(c->heads, runs) == 0)
        argp_error(state,
                   "--compare: found '%s', expected up to %d numbers of heads that divide %d, such "
                   "as 1,2,4,8",
                   c->heads, RUNS_MOST, D);
}

// ---- a step -------------------------------------------------------------------------------------

#define TRY(call)                                                                                  \
    do {                                                                                           \
        const mh_status status_ = (call);                                                          \
        if (status_)                                                                               \
            return status_;                                                                        \
    } while (0)

static mh_tensor own_view(const comparison *c, int which, bool gradient)
{
    return mh_parameter_view(&own_list[which],
                             gradient ? c->rest.gradients : c->rest.parameters.values);
}

// Random tokens, and for each the four before it.
static void make_batch(comparison *c)
{
    for (size_t i = 0; i < ROWS; i++) {
        c->state = c->state * 6364136223846793005u + 1442695040888963407u;
        c->ids[i] = (int64_t)(c->state >> 33) % V;
        c->positions[i] = (int64_t)(i % T);
    }
    for (size_t i = 0; i < ROWS; i++)
        for (size_t a = 0; a < ANSWERS; a++)
            c->targets[i * ANSWERS + a] = c->ids[i / T * T + (i % T + T - 1 - a) % T];
}

static double part_correct(const comparison *c)
{
    size_t right = 0;
    for (size_t i = 0; i < ROWS * ANSWERS; i++) {
        size_t best = 0;
        for (size_t v = 1; v < V; v++)
            if (c->logits[i * V + v] > c->logits[i * V + best])
                best = v;
        right += best == (size_t)c->targets[i];
    }
    return (double)right / (ROWS * ANSWERS);
}

static mh_status forward(comparison *c)
{
    const mh_tensor id = mh_tensor_1d(c->ids, MH_I64, ROWS);
    const mh_tensor at = mh_tensor_1d(c->positions, MH_I64, ROWS);
    mh_tensor rows = mh_tensor_2d(c->x, MH_F32, ROWS, D);
    mh_tensor where = mh_tensor_2d(c->position, MH_F32, ROWS, D);
    const mh_tensor tokens = own_view(c, TOKENS, false);
    const mh_tensor positions = own_view(c, POSITIONS, false);
    TRY(mh_embedding(c->context, &tokens, &id, 1, &rows));
    TRY(mh_embedding(c->context, &positions, &at, 1, &where));
    TRY(mh_add(c->context, &rows, &where, &rows));

    mh_tensor x = mh_tensor_3d(c->x, MH_F32, B, T, D), y = mh_tensor_3d(c->y, MH_F32, B, T, D);
    TRY(mh_mha_forward(c->context, c->mha, &c->options, &x, &x, &x, &y, NULL));

    const mh_tensor found = mh_tensor_2d(c->y, MH_F32, ROWS, D);
    const mh_tensor read = own_view(c, READ, false), bias = own_view(c, READ_BIAS, false);
    mh_tensor answers = mh_tensor_2d(c->logits, MH_F32, ROWS, ANSWERS * V);
    mh_linear_options linear = mh_linear_options_default();
    linear.bias = &bias;
    return mh_linear(c->context, &linear, &found, &read, &answers);
}

// From the logits, which their gradients replace.
static mh_status backward(comparison *c, double *loss)
{
    mh_tensor each = mh_tensor_2d(c->logits, MH_F32, ROWS * ANSWERS, V);
    const mh_tensor target = mh_tensor_1d(c->targets, MH_I64, ROWS * ANSWERS);
    TRY(mh_cross_entropy(c->context, NULL, &each, &target, loss, NULL, &each));

    const mh_tensor answers = mh_tensor_2d(c->logits, MH_F32, ROWS, ANSWERS * V);
    const mh_tensor found = mh_tensor_2d(c->y, MH_F32, ROWS, D), read = own_view(c, READ, false);
    mh_tensor dfound = mh_tensor_2d(c->dy, MH_F32, ROWS, D);
    mh_tensor dread = own_view(c, READ, true), dbias = own_view(c, READ_BIAS, true);
    TRY(mh_linear_backward(c->context, NULL, &found, &read, &answers, &dfound, &dread, &dbias));

    const mh_tensor x = mh_tensor_3d(c->x, MH_F32, B, T, D);
    const mh_tensor dy = mh_tensor_3d(c->dy, MH_F32, B, T, D);
    mh_tensor dx = mh_tensor_3d(c->dx, MH_F32, B, T, D);
    TRY(mh_mha_backward(c->context, c->mha, &c->options, &x, &x, &x, &dy, c->attention.gradients,
                        &dx, NULL, NULL));
    const mh_tensor id = mh_tensor_1d(c->ids, MH_I64, ROWS);
    const mh_tensor at = mh_tensor_1d(c->positions, MH_I64, ROWS);
    const mh_tensor drows = mh_tensor_2d(c->dx, MH_F32, ROWS, D);
    mh_tensor dtokens = own_view(c, TOKENS, true), dpositions = own_view(c, POSITIONS, true);
    TRY(mh_embedding_backward(c->context, &id, 1, -1, &drows, &dtokens));
    return mh_embedding_backward(c->context, &at, 1, -1, &drows, &dpositions);
}

static mh_status update(comparison *c, learned *l, uint64_t step)
{
    mh_adamw_options options = mh_adamw_options_default();
    options.learning_rate = 3e-3;
    options.weight_decay = 0;
    const size_t n = l->parameters.floats;
    TRY(mh_adamw_step(c->context, &options, step, n, l->gradients, l->parameters.values, l->m,
                      l->v));
    memset(l->gradients, 0, n * sizeof *l->gradients);
    return MH_OK;
}

// ---- a run --------------------------------------------------------------------------------------

static bool learn(learned *l, const mh_parameters *parameters)
{
    const size_t n = parameters->floats;
    *l = (learned){.parameters = *parameters, .gradients = calloc(3 * n, sizeof(float))};
    l->m = l->gradients ? l->gradients + n : NULL;
    l->v = l->gradients ? l->gradients + 2 * n : NULL;
    return l->gradients;
}

static mh_status open_run(comparison *c, size_t heads, uint64_t seed)
{
    mh_mha_config config = mh_mha_config_default();
    config.embed_dim = D;
    config.num_heads = heads;
    config.batch_first = true;
    TRY(mh_mha_create(c->context, &config, &c->mha));
    mh_parameters_init(mh_mha_parameters(c->mha), seed);
    const size_t floats = mh_parameters_lay_out(own_list, OWN);
    c->own = malloc(floats * sizeof *c->own);
    const mh_parameters own = {OWN, own_list, floats, c->own};
    if (!c->own || !learn(&c->attention, mh_mha_parameters(c->mha)) || !learn(&c->rest, &own))
        return MH_ERROR_MEMORY;
    mh_parameters_init(&own, seed + 1);
    c->options = mh_mha_options_default();
    c->state = seed;
    return mh_tape_create(c->context, &c->options.tape);
}

static void close_run(comparison *c)
{
    mh_tape_free(c->options.tape);
    free(c->attention.gradients);
    free(c->rest.gradients);
    free(c->own);
    mh_mha_free(c->mha);
}

// Means over the last batches of the loss and of the part that is right.
typedef struct outcome {
    double loss, right;
} outcome;

static mh_status run(comparison *c, uint64_t steps, outcome *found)
{
    const uint64_t last = steps < LAST ? steps : LAST;
    for (uint64_t step = 1; step <= steps; step++) {
        double loss;
        make_batch(c);
        TRY(forward(c));
        const double right = part_correct(c);
        TRY(backward(c, &loss));
        TRY(update(c, &c->attention, step));
        TRY(update(c, &c->rest, step));
        found->loss += step > steps - last ? loss / (double)last : 0;
        found->right += step > steps - last ? right / (double)last : 0;
    }
    return MH_OK;
}

static int compare_run(mh_context *context, const head_compare *options, size_t heads,
                       outcome *found)
{
    comparison *c = calloc(1, sizeof *c);
    if (!c) {
        complain("out of memory for a batch");
        return EXIT_MEMORY;
    }
    c->context = context;
    mh_status status = open_run(c, heads, options->seed);
    if (!status)
        status = run(c, options->steps, found);
    close_run(c);
    free(c);
    return status ? complain_status(context, status, NULL) : EXIT_DONE;
}

// ---- all of them --------------------------------------------------------------------------------

static void print_run(const head_compare *c, size_t heads, const outcome *found, bool first)
{
    static const char block[] = "\xE2\x96\x88";
    enum { BAR = 30 };
    if (c->json) {
        printf("%s{\"heads\": %zu, \"width\": %zu, \"loss\": %.9g, \"correct\": %.9g}",
               first ? "" : ", ", heads, D / heads, found->loss, found->right);
        return;
    }
    printf("%5zu %6zu %7.3f %6.1f %%  ", heads, D / heads, found->loss, 100 * found->right);
    for (int i = 0; i < (int)(found->right * BAR + 0.5); i++)
        fputs(block, stdout);
    putchar('\n');
}

int compare_heads(const common_options *common, const head_compare *c)
{
    size_t runs[RUNS_MOST];
    const size_t count = read_runs(c->heads, runs);
    mh_context *context = NULL;
    int code = open_context(common, &context);
    if (code == EXIT_DONE && c->json)
        printf("{\"steps\": %llu, \"seed\": %llu, \"chance\": %.9g, \"runs\": [",
               (unsigned long long)c->steps, (unsigned long long)c->seed, 1.0 / V);
    else if (code == EXIT_DONE)
        printf("Which 4 tokens came before? One attention layer, %llu steps of training; by chance "
               "%.1f %%.\nheads  width    loss  correct\n",
               (unsigned long long)c->steps, 100.0 / V);
    for (size_t i = 0; i < count && code == EXIT_DONE; i++) {
        outcome found = {0};
        progress_show(i, count, "runs");
        code = compare_run(context, c, runs[i], &found);
        progress_clear();
        if (code == EXIT_DONE)
            print_run(c, runs[i], &found, i == 0);
    }
    if (code == EXIT_DONE && c->json)
        printf("]}\n");
    mh_context_free(context);
    return code;
}
