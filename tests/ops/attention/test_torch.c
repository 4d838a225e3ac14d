// SPDX-License-Identifier: MIT
// Attention and its gradients against what PyTorch gave for the same inputs: the cases of
// goldens/attention.safetensors, which goldens/make_attention.py made. Every level.
#include "support.h"
#include <float.h>
#include <math.h>
#include <multihead/io.h>

enum { Q, K, V, DOUT, OUT, DQ, DK, DV, MASK, DMASK, TENSORS };
static const char *const names[TENSORS] = {"q",  "k",  "v",  "dout", "out",
                                           "dq", "dk", "dv", "mask", "dmask"};

typedef struct golden {
    mh_tensor tensors[TENSORS];
    bool has[TENSORS];
    char name[64];
    bool causal;
    const char *scale; // "" for the default
} golden;

static mh_tensor_file *open_goldens(mh_context *context)
{
    mh_tensor_file *file;
    test_ok(context, mh_tensor_file_open(context, MH_GOLDENS "/attention.safetensors", &file));
    return file;
}

static golden read_case(const mh_tensor_file *file, size_t index)
{
    golden g = {0};
    char key[32];
    for (int i = 0; i < TENSORS; i++) {
        snprintf(key, sizeof key, "%zu.%s", index, names[i]);
        g.has[i] = mh_tensor_file_find(file, key, &g.tensors[i]);
        assert_true(g.has[i] || i >= MASK);
    }
    snprintf(key, sizeof key, "%zu", index);
    snprintf(g.name, sizeof g.name, "%s", mh_tensor_file_metadata(file, key));
    snprintf(key, sizeof key, "%zu.causal", index);
    g.causal = strcmp(mh_tensor_file_metadata(file, key), "1") == 0;
    snprintf(key, sizeof key, "%zu.scale", index);
    g.scale = mh_tensor_file_metadata(file, key);
    return g;
}

// Errors are of the size of the largest result times the last bit, give or take a few.
static void near(const char *level, const golden *g, int which, const test_tensor *found)
{
    const float *expected = g->tensors[which].data, *got = found->view.data;
    size_t count = mh_tensor_count(&g->tensors[which]);
    double largest = 1e-3, worst = 0;
    for (size_t i = 0; i < count; i++) {
        largest = fmax(largest, fabs((double)expected[i]));
        worst = fmax(worst, fabs((double)got[i] - (double)expected[i]));
    }
    if (!(worst <= 12 * FLT_EPSILON * largest))
        fail_msg("%s: %s of '%s': error %.3g, expected at most %.3g", level, names[which], g->name,
                 worst, 12 * FLT_EPSILON * largest);
}

static void run_case(mh_context *context, const golden *g)
{
    const mh_tensor *t = g->tensors;
    test_tensor made[TENSORS] = {0};
    for (int i = OUT; i <= DMASK; i++)
        if (i != MASK && g->has[i])
            made[i] = test_tensor_dense(MH_F32, t[i].rank, t[i].shape);
    test_tensor lse = test_tensor_dense(MH_F32, 3, t[Q].shape);
    mh_mask mask = mh_mask_make(t[MASK].dtype == MH_BOOL ? MH_MASK_KEEP : MH_MASK_ADD, t[MASK]);
    mh_attention_options options = mh_attention_options_default();
    options.causal = g->causal ? MH_CAUSAL_TOP_LEFT : MH_CAUSAL_NONE;
    options.scale = *g->scale ? strtof(g->scale, NULL) : MH_SCALE_DEFAULT;
    options.lse = &lse.view;
    options.masks = g->has[MASK] ? &mask : NULL;
    options.mask_count = g->has[MASK];
    mh_tensor *dmask = g->has[DMASK] ? &made[DMASK].view : NULL;
    mh_attention_gradients gradients = mh_attention_gradients_default();
    gradients.dq = &made[DQ].view;
    gradients.dk = &made[DK].view;
    gradients.dv = &made[DV].view;
    gradients.dmasks = g->has[MASK] ? &dmask : NULL;

    test_ok(context, mh_attention_forward(context, &options, &t[Q], &t[K], &t[V], &made[OUT].view));
    test_ok(context, mh_attention_backward(context, &options, &t[Q], &t[K], &t[V], &made[OUT].view,
                                           &t[DOUT], &gradients));
    for (int i = OUT; i <= DMASK; i++) {
        if (i != MASK && g->has[i])
            near(mh_context_isa(context), g, i, &made[i]);
        test_tensor_free(&made[i]);
    }
    test_tensor_free(&lse);
}

static void attention(void **state)
{
    (void)state;
    for (size_t level = 0; test_level(level); level++) {
        mh_context *context = test_context(test_level(level), 2);
        mh_tensor_file *file = open_goldens(context);
        size_t cases = strtoul(mh_tensor_file_metadata(file, "cases"), NULL, 10);
        assert_int_equal(cases, 22);
        for (size_t i = 0; i < cases; i++) {
            golden g = read_case(file, i);
            run_case(context, &g);
        }
        mh_tensor_file_free(file);
        mh_context_free(context);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(attention)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
