// SPDX-License-Identifier: MIT
// Example 1: what attention does, on a sentence.
//
// Each word asks a question (its query q), offers an answer to it (its key k) and has something
// to say (its value v). Attention compares every query with every key, converts each row of scores
// to weights that sum to 1, and gives each word the weighted mean of the values:
//
//     out = softmax(q k^T / sqrt(E)) v
//
// Several heads do this in parallel. The two here are made by hand: in head 0 words attend to the
// word they refer or belong to, in head 1 each attends to the word before it.
#include <multihead/multihead.h>
#include <stdio.h>
#include <stdlib.h>

enum { B = 1, H = 2, T = 6, E = 4 }; // batch, heads, words, width of a head

static const char *const words[T] = {"the", "cat", "slept", "because", "it", "purred"};

// Head 0: what a word is (key, value) and what it looks for (query), as
//                            a thing, an action, a stand-in, a filler
static const float is[T][E] = {{0, 0, 0, 1}, {1, 0, 0, 0}, {0, 1, 0, 0},
                               {0, 0, 0, 1}, {0, 0, 1, 0}, {0, 1, 0, 0}};
static const float wants[T][E] = {{6, 0, 0, 0}, {0, 4, 0, 0}, {6, 0, 2, 0},
                                  {0, 6, 0, 0}, {8, 0, 0, 0}, {4, 0, 6, 0}};

// Head 1: a position is encoded as a direction; the query points to the previous position.
static const float direction[T][2] = {{1, 0},  {0.5f, 0.866f},   {-0.5f, 0.866f},
                                      {-1, 0}, {-0.5f, -0.866f}, {0.5f, -0.866f}};

static float q[H][T][E], k[H][T][E], v[H][T][E]; // (B, H, T, E)
static float out[H][T][E];                       // (B, H, T, E)
static float weights[H][T][T];                   // (B, H, T, S), and S = T here

static void make_heads(void)
{
    for (int t = 0; t < T; t++) {
        const float *before = direction[t > 0 ? t - 1 : 0];
        for (int e = 0; e < E; e++) {
            q[0][t][e] = wants[t][e];
            k[0][t][e] = v[0][t][e] = v[1][t][e] = is[t][e];
        }
        for (int e = 0; e < 2; e++) {
            q[1][t][e] = 16 * before[e];
            k[1][t][e] = direction[t][e];
        }
    }
}

// The darker a cell, the more the word on the left attends to the word above.
static void print_head(int h, const char *title)
{
    static const char *const shades[] = {"       ·", "     ░░░", "     ▒▒▒", "     ▓▓▓",
                                         "     ███"};
    printf("\n  head %d: %s\n\n          ", h, title);
    for (int s = 0; s < T; s++)
        printf("%8s", words[s]);
    for (int t = 0; t < T; t++) {
        printf("\n  %8s", words[t]);
        for (int s = 0; s < T; s++)
            printf("%s", shades[(int)(weights[h][t][s] * 4.99f)]);
        printf("  ");
        for (int s = 0; s < T; s++)
            printf(" %.2f", (double)weights[h][t][s]);
    }
    printf("\n");
}

static int most_attended(int h, int t)
{
    int best = 0;
    for (int s = 1; s < T; s++)
        if (weights[h][t][s] > weights[h][t][best])
            best = s;
    return best;
}

static void check(bool holds, const char *claim)
{
    if (holds)
        return;
    fprintf(stderr, "01_attention: not so: %s\n", claim);
    exit(EXIT_FAILURE);
}

int main(void)
{
    make_heads();

    // A context holds the threads and the choice of kernels for this CPU.
    mh_context *context;
    char error[256];
    if (mh_context_create(NULL, &context, error, sizeof error) != MH_OK) {
        fprintf(stderr, "01_attention: %s\n", error);
        return EXIT_FAILURE;
    }

    // A tensor is a view of memory that you own.
    mh_tensor qt = mh_tensor_4d(q, MH_F32, B, H, T, E);
    mh_tensor kt = mh_tensor_4d(k, MH_F32, B, H, T, E);
    mh_tensor vt = mh_tensor_4d(v, MH_F32, B, H, T, E);
    mh_tensor ot = mh_tensor_4d(out, MH_F32, B, H, T, E);
    mh_tensor wt = mh_tensor_4d(weights, MH_F32, B, H, T, T);

    // Anything beyond the formula is an option; here, the weights as a second output.
    mh_attention_options options = mh_attention_options_default();
    options.weights = &wt;
    if (mh_attention_forward(context, &options, &qt, &kt, &vt, &ot) != MH_OK) {
        fprintf(stderr, "01_attention: %s\n", mh_error_message(context));
        return EXIT_FAILURE;
    }

    printf("  q, k, v (%d, %d, %d, %d): batch, heads, words, width\n", B, H, T, E);
    print_head(0, "what do I mean, whom do I belong to?");
    print_head(1, "who came before me?");
    printf("\n  what \"it\" heard in head 0: thing %.2f, action %.2f, stand-in %.2f, filler %.2f\n",
           (double)out[0][4][0], (double)out[0][4][1], (double)out[0][4][2], (double)out[0][4][3]);

    check(most_attended(0, 4) == 1, "'it' means 'cat'");
    check(out[0][4][0] > 0.8f, "'it' has become a thing");
    for (int t = 1; t < T; t++)
        check(most_attended(1, t) == t - 1, "head 1 looks one word back");
    mh_context_free(context);
    return EXIT_SUCCESS;
}
