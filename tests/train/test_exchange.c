// SPDX-License-Identifier: MIT
// Sums of gradients over ranks while they are computed: every rank finishes the gradients of its
// grains from the last parameters to the first, as backward does, and gets its slices of the sum,
// with the bits of one process; what is final has been sent before the rest is computed, and no
// more than the nodes of its grains. Ranks are threads.
#include "support.h"
#include "thread_ranks.h"

#include "base/size_math.h"
#include "train/run_ranks.h"

enum { FLOATS = 21 * MH_SEGMENT + 777, LAYERS = 7 };

typedef struct trial {
    size_t grains, layered, nodes_most; // of a rank
    bool fails;                         // rank 1's last grain, halfway
    const float *expected;              // (FLOATS)
} trial;

static float grain_value(size_t grain, size_t i)
{
    return (float)((grain * 7919 + i * 31337) % 100003) * 0x1p-10f / (float)(1 + grain % 5);
}

static void fill(float *gradients, size_t grain, size_t first, size_t end)
{
    for (size_t i = first; i < end; i++)
        gradients[i] = grain_value(grain, i);
}

// As add_grain() of run_update.c, with a task that computes `layered` floats in layers.
static mh_status add(mh_run *run, const trial *t, size_t grain, bool last)
{
    float *gradients = mh_run_reduce_scatter_take(run, grain);
    assert_non_null(gradients);
    for (size_t layer = LAYERS; layer-- > 1;) {
        const size_t first = run->layered * layer / LAYERS;
        fill(gradients, grain, first, run->layered * (layer + 1) / LAYERS);
        if (last && t->fails && run->ranks.rank == 1 && layer == LAYERS / 2)
            return MH_ERROR_MEMORY;
        if (last && run->ranks.ranks > 1)
            mh_run_reduce_scatter_ready(run, first);
    }
    fill(gradients, grain, 0, run->layered / LAYERS);
    fill(gradients, grain, run->layered, FLOATS);
    mh_run_reduce_scatter_add(run, grain);
    return MH_OK;
}

// Whole stripes of all layers but the first were sent before that was computed.
static void check_early(const mh_run *run)
{
    const size_t stripe = run->stripe * MH_SEGMENT, first = run->layered / LAYERS;
    const size_t end = run->layered == FLOATS ? run->stripes : run->layered / stripe;
    const size_t expected = end - mh_smaller(end, (first + stripe - 1) / stripe);
    assert_true(run->exchange.sent >= expected);
    assert_true(expected > 0 || run->ranks.ranks > 3);
    assert_true((run->bytes_early > 0) == (expected > 0));
}

// Of each node, what the other ranks own; all nodes but the last before the last grain.
static void check_bytes(const mh_run *run, size_t nodes_most, uint64_t before)
{
    size_t others = FLOATS;
    for (size_t s = 0; s < run->stripes; s++)
        others -= mh_run_slice(run, s, run->ranks.rank).count;
    assert_true(run->bytes_sent - before <= nodes_most * others * sizeof(float));
    assert_true(run->exchange.own_nodes <= nodes_most);
    assert_true(run->bytes_early >= (run->exchange.own_nodes - 1) * others * sizeof(float));
}

static void check_slices(const mh_run *run, const float *gradients, const float *expected)
{
    for (size_t s = 0; s < run->stripes; s++) {
        const mh_slice slice = mh_run_slice(run, s, run->ranks.rank);
        assert_memory_equal(gradients + mh_run_slice_offset(run, s), expected + slice.first,
                            slice.count * sizeof(float));
    }
}

static void run_rank(const mh_communicator *communicator, void *user)
{
    const trial *t = user;
    mh_context *context = test_context(NULL, 1);
    mh_run run = {.context = context, .ranks = *communicator, .layered = t->layered};
    run.arrays = (mh_run_arrays){.floats = FLOATS, .parameters = malloc(FLOATS * sizeof(float))};
    run.gradients = (mh_gradient_tree){.context = context, .floats = FLOATS};
    run.grains.count = t->grains;
    test_ok(context, mh_run_tables_create(&run));
    test_ok(context, mh_run_divide(&run));
    for (int round = 0; round < (t->fails ? 1 : 2); round++) {
        const float *gradients;
        const uint64_t before = run.bytes_sent;
        mh_status status = MH_OK;
        test_ok(context, mh_run_reduce_scatter_prepare(&run));
        test_ok(context, mh_run_reduce_scatter_begin(&run));
        const size_t end = mh_run_first_grain(&run, run.ranks.rank + 1);
        for (size_t i = mh_run_first_grain(&run, run.ranks.rank); i < end && !status; i++)
            status = add(&run, t, i, i + 1 == end);
        if (!status && run.ranks.ranks > 1 && end > mh_run_first_grain(&run, run.ranks.rank))
            check_early(&run);
        test_ok(context, mh_run_reduce_scatter_exchange(&run, status));
        if (t->fails) {
            assert_int_equal(mh_run_agree(&run, status), MH_ERROR_MEMORY);
            break;
        }
        if (end > mh_run_first_grain(&run, run.ranks.rank))
            check_bytes(&run, t->nodes_most, before);
        mh_run_reduce_scatter_end(&run, &gradients);
        check_slices(&run, gradients, t->expected);
        // the sum goes to all, in the place of parameters
        for (size_t s = 0; s < run.stripes; s++) {
            const mh_slice slice = mh_run_slice(&run, s, run.ranks.rank);
            memcpy(run.arrays.parameters + slice.first, gradients + mh_run_slice_offset(&run, s),
                   slice.count * sizeof(float));
        }
        test_ok(context, mh_run_all_gather(&run, run.arrays.parameters));
        assert_memory_equal(run.arrays.parameters, t->expected, FLOATS * sizeof(float));
    }
    mh_run_exchange_free(&run);
    mh_gradient_tree_free(&run.gradients);
    mh_gradient_tree_free(&run.slice);
    mh_run_tables_free(&run);
    free(run.arrays.parameters);
    mh_context_free(context);
}

static float *sum_of(mh_context *context, size_t grains)
{
    mh_gradient_tree tree = {.context = context, .floats = FLOATS};
    float *sum = malloc(FLOATS * sizeof *sum);
    for (size_t g = 0; g < grains; g++) {
        float *gradients = mh_gradient_tree_take(&tree);
        assert_non_null(gradients);
        fill(gradients, g, 0, FLOATS);
        mh_gradient_tree_add(&tree, (mh_tree_node){0, g, gradients});
    }
    mh_gradient_tree_sum(&tree);
    memcpy(sum, tree.nodes[0].sum, FLOATS * sizeof *sum);
    mh_gradient_tree_free(&tree);
    return sum;
}

static void test_sums(void **state)
{
    static const size_t ranks[] = {1, 2, 3, 5, 8};
    static const size_t grains[] = {1, 2, 6, 11, 15};
    static const size_t nodes[5][5] = {[0] = {1, 1, 1, 1, 1},
                                       [1] = {1, 1, 1, 1, 1},
                                       [2] = {1, 2, 1, 1, 1},
                                       [3] = {1, 2, 1, 1, 1},
                                       [4] = {1, 1, 3, 2, 1}};
    (void)state;
    mh_context *context = test_context(NULL, 1);
    for (size_t g = 0; g < sizeof grains / sizeof *grains; g++) {
        float *expected = sum_of(context, grains[g]);
        for (size_t r = 0; r < sizeof ranks / sizeof *ranks; r++) {
            trial t = {grains[g], r % 2 ? FLOATS : FLOATS - 4 * MH_SEGMENT - 5, nodes[g][r], false,
                       expected};
            thread_ranks_run(ranks[r], run_rank, &t, NULL);
        }
        free(expected);
    }
    mh_context_free(context);
}

// Ranks that wait for the messages of one that fails do not wait for ever, and all know.
static void test_failure(void **state)
{
    (void)state;
    for (size_t ranks = 2; ranks <= 4; ranks++) {
        trial t = {7, FLOATS, 0, true, NULL};
        thread_ranks_run(ranks, run_rank, &t, NULL);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sums),
        cmocka_unit_test(test_failure),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
