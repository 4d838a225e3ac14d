// SPDX-License-Identifier: MIT
// A batch so large that the model runs it in several groups: hidden states are those of its
// sequences alone. The batch repeats one pattern of sequences, which groups split anywhere.
#include "support.h"
#include <multihead/pretrained.h>
#include <stdlib.h>
#include <string.h>

enum { LENGTHS = 20, COPIES = 700, PATTERN = LENGTHS * (LENGTHS - 1) / 2, D = 32 };

static mh_model *load(mh_context **context)
{
    mh_context_options o = mh_context_options_default();
    mh_model *model;
    o.threads = 1;
    assert_int_equal(mh_context_create(&o, context, NULL, 0), MH_OK);
    assert_int_equal(mh_model_load(*context, MH_GOLDENS "/models/bert", NULL, &model), MH_OK);
    assert_int_equal(mh_model_describe(model)->d_model, D);
    return model;
}

// Sequences of 0, 1, .. 19 tokens, over and over.
static void fill(size_t copies, int64_t *starts, int32_t *ids, int32_t *types)
{
    starts[0] = 0;
    for (size_t b = 0; b < copies * LENGTHS; b++)
        starts[b + 1] = starts[b] + (int64_t)(b % LENGTHS);
    for (size_t i = 0; i < copies * PATTERN; i++) {
        ids[i] = (int32_t)(1 + i % PATTERN % 97);
        types[i] = (int32_t)(i % PATTERN % 2);
    }
}

static void run(mh_context *context, const mh_model *model, size_t copies, float *hidden)
{
    int64_t *starts = calloc(copies * LENGTHS + 1, sizeof *starts);
    int32_t *ids = calloc(2 * copies * PATTERN, sizeof *ids), *types = ids + copies * PATTERN;
    assert_non_null(starts);
    assert_non_null(ids);
    fill(copies, starts, ids, types);
    mh_model_input input = mh_model_input_default();
    input.sequences = copies * LENGTHS;
    input.starts = starts;
    input.ids = ids;
    input.types = types;
    mh_tensor y = mh_tensor_2d(hidden, MH_F32, copies * PATTERN, D);
    assert_int_equal(mh_model_hidden(context, model, &input, &y), MH_OK);
    free(starts);
    free(ids);
}

static void groups_do_not_change_results(void **state)
{
    mh_context *context;
    mh_model *model = load(&context);
    float *one = calloc((size_t)PATTERN * D, sizeof *one);
    float *many = calloc((size_t)COPIES * PATTERN * D, sizeof *many);
    (void)state;
    assert_non_null(one);
    assert_non_null(many);
    run(context, model, 1, one);
    run(context, model, COPIES, many);
    for (size_t i = 0; i < COPIES; i++)
        assert_memory_equal(many + i * PATTERN * D, one, PATTERN * D * sizeof *one);
    free(one);
    free(many);
    mh_model_free(model);
    mh_context_free(context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(groups_do_not_change_results)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
