// SPDX-License-Identifier: MIT
// Example 2: masks. All of them are fields of the options, all can be combined, and none of
// them is ever expanded in memory.
//
// All queries and keys are equal here, so each query spreads its attention evenly over its live
// keys; the little matrices show which ones those are.
#include <multihead/multihead.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { T = 6, S = 8, E = 4 }; // queries, keys, width of a head; one batch, one head

static float q[T][E], k[S][E], v[S][E], out[T][E], weights[T][S];

// Runs attention with these options and compares each query's live keys with a drawing: one row per
// query, '#' for a live key.
static void show(mh_context *context, const char *title, mh_attention_options options,
                 const char *const expected[T])
{
    mh_tensor qt = mh_tensor_4d(q, MH_F32, 1, 1, T, E);
    mh_tensor kt = mh_tensor_4d(k, MH_F32, 1, 1, S, E);
    mh_tensor vt = mh_tensor_4d(v, MH_F32, 1, 1, S, E);
    mh_tensor ot = mh_tensor_4d(out, MH_F32, 1, 1, T, E);
    mh_tensor wt = mh_tensor_4d(weights, MH_F32, 1, 1, T, S);
    options.weights = &wt;
    if (mh_attention_forward(context, &options, &qt, &kt, &vt, &ot) != MH_OK) {
        fprintf(stderr, "02_masks: %s: %s\n", title, mh_error_message(context));
        exit(EXIT_FAILURE);
    }
    printf("\n  %s\n", title);
    for (int t = 0; t < T; t++) {
        char seen[S + 1] = {0};
        printf("    ");
        for (int s = 0; s < S; s++) {
            seen[s] = weights[t][s] > 0 ? '#' : '.';
            printf("%s", weights[t][s] > 0 ? "██" : "· ");
        }
        printf("\n");
        if (strcmp(seen, expected[t]) != 0) {
            fprintf(stderr, "02_masks: %s: query %d sees %s, expected %s\n", title, t, seen,
                    expected[t]);
            exit(EXIT_FAILURE);
        }
    }
}

static const char *const all[T] = {"########", "########", "########",
                                   "########", "########", "########"};
static const char *const top_left[T] = {"#.......", "##......", "###.....",
                                        "####....", "#####...", "######.."};
static const char *const bottom_right[T] = {"###.....", "####....", "#####...",
                                            "######..", "#######.", "########"};
static const char *const window[T] = {".##.....", "..##....", "...##...",
                                      "....##..", ".....##.", "......##"};
static const char *const prefix[T] = {"####....", "####....", "####....",
                                      "####....", "#####...", "######.."};
static const char *const lengths[T] = {"#####...", "#####...", "#####...",
                                       "#####...", "#####...", "#####..."};
static const char *const documents[T] = {"###.....", "###.....", "###.....",
                                         "...#####", "...#####", "...#####"};
static const char *const kept[T] = {"#.#.#.#.", "#.#.#.#.", "#.#.#.#.",
                                    "#.#.#.#.", "#.#.#.#.", "#.#.#.#."};
static const char *const combined[T] = {"#.#.....", "#.#.....", "..#.#...",
                                        "..#.#...", "....#.#.", "....#.#."};

// Masks from the structure of the sequence: lengths, and several documents in one row.
static void show_sequences(mh_context *context)
{
    mh_attention_options options = mh_attention_options_default();
    const int64_t five = 5;
    options.key_lengths = &five;
    show(context, "five keys, the rest is padding", options, lengths);

    int32_t query_ids[T] = {7, 7, 7, 9, 9, 9}, key_ids[S] = {7, 7, 7, 9, 9, 9, 9, 9};
    mh_tensor queries = mh_tensor_2d(query_ids, MH_I32, 1, T);
    mh_tensor keys = mh_tensor_2d(key_ids, MH_I32, 1, S);
    options = mh_attention_options_default();
    options.query_documents = &queries;
    options.key_documents = &keys;
    show(context, "two documents in one sequence", options, documents);
}

// A mask tensor, broadcast as in NumPy, alone and combined with others.
static void show_own_mask(mh_context *context)
{
    uint8_t keep[S] = {1, 0, 1, 0, 1, 0, 1, 0};
    mh_mask every_other = mh_mask_make(MH_MASK_KEEP, mh_tensor_1d(keep, MH_BOOL, S));
    mh_attention_options options = mh_attention_options_default();
    options.masks = &every_other;
    options.mask_count = 1;
    show(context, "a mask of one row for all queries: keep", options, kept);

    options.causal = MH_CAUSAL_BOTTOM_RIGHT;
    options.window_left = 3;
    show(context, "all at once: that mask, causal, and three keys back", options, combined);
}

int main(void)
{
    mh_context *context;
    char error[256];
    if (mh_context_create(NULL, &context, error, sizeof error) != MH_OK) {
        fprintf(stderr, "02_masks: %s\n", error);
        return EXIT_FAILURE;
    }
    mh_attention_options options = mh_attention_options_default();
    show(context, "no mask", options, all);

    options.causal = MH_CAUSAL_TOP_LEFT;
    show(context, "causal, the first query sees the first key", options, top_left);

    const int64_t four = 4;
    options.prefix_lengths = &four;
    show(context, "the same, but a prefix of four keys is for everybody", options, prefix);

    options = mh_attention_options_default();
    options.causal = MH_CAUSAL_BOTTOM_RIGHT;
    show(context, "causal, the last query sees the last key", options, bottom_right);

    options.window_left = 1;
    show(context, "the same with a window: one key back", options, window);

    show_sequences(context);
    show_own_mask(context);
    mh_context_free(context);
    return EXIT_SUCCESS;
}
