// SPDX-License-Identifier: MIT
// Grains and tree sums: every sequence is in one grain, and the sum has the bits of the recursive
// definition however the grains are divided.
#include "support.h"

#include "train/gradient_tree.h"
#include "train/grains.h"

enum { FLOATS = 20011, MOST = 40 };

static float grain_value(size_t grain, size_t i)
{
    return (float)((grain * 7919 + i * 104729) % 100003) * 0x1p-10f / (float)(1 + grain % 5);
}

// The definition: the left part is the largest power of two below the count.
static float expected(size_t first, size_t count, size_t i)
{
    size_t left = 1;
    if (count == 1)
        return grain_value(first, i);
    while (2 * left < count)
        left *= 2;
    volatile float sum = expected(first, left, i);
    sum += expected(first + left, count - left, i);
    return sum;
}

static void add_leaf(mh_gradient_tree *tree, size_t grain)
{
    float *leaf = mh_gradient_tree_take(tree);
    assert_non_null(leaf);
    for (size_t i = 0; i < FLOATS; i++)
        leaf[i] = grain_value(grain, i);
    mh_gradient_tree_add(tree, (mh_tree_node){0, grain, leaf});
}

static void check_sum(mh_gradient_tree *tree, size_t count)
{
    mh_gradient_tree_sum(tree);
    assert_int_equal(tree->count, 1);
    for (size_t i = 0; i < FLOATS; i += 997)
        assert_true(tree->nodes[0].sum[i] == expected(0, count, i));
}

static void test_one_process(void **state)
{
    (void)state;
    mh_context *context = test_context(NULL, 2);
    mh_gradient_tree tree = {.context = context, .floats = FLOATS};
    for (size_t count = 1; count <= MOST; count++) {
        mh_gradient_tree_clear(&tree);
        for (size_t g = 0; g < count; g++)
            add_leaf(&tree, g);
        check_sum(&tree, count);
    }
    assert_true(tree.spares + tree.count <= 8); // the logarithm of 40, and one
    mh_gradient_tree_free(&tree);
    mh_context_free(context);
}

// Ranks sum their own grains; then all their nodes are added in order.
static void test_ranks(void **state)
{
    (void)state;
    mh_context *context = test_context(NULL, 1);
    for (size_t ranks = 1; ranks <= 9; ranks++)
        for (size_t count = 1; count <= MOST; count += 3) {
            mh_gradient_tree all = {.context = context, .floats = FLOATS};
            size_t cut[10];
            mh_tree_cut(count, ranks, cut);
            for (size_t r = 0; r < ranks; r++) {
                const bool even = count % 2 == 0; // or near subtrees, as in training
                const size_t first = even ? count * r / ranks : cut[r];
                const size_t end = even ? count * (r + 1) / ranks : cut[r + 1];
                mh_gradient_tree own = {.context = context, .floats = FLOATS};
                mh_tree_node nodes[MH_TREE_NODES_MOST];
                for (size_t g = first; g < end; g++)
                    add_leaf(&own, g);
                const size_t sent = mh_tree_nodes_of(first, end, count, nodes);
                for (size_t i = 0; i + 1 < sent; i++) {
                    assert_int_equal(own.nodes[i].level, nodes[i].level);
                    assert_int_equal(own.nodes[i].index, nodes[i].index);
                }
                mh_gradient_tree_fold(&own, sent);
                mh_gradient_tree_join(&own, 0, FLOATS);
                mh_gradient_tree_end(&own);
                assert_int_equal(own.count, sent);
                for (size_t i = 0; i < sent; i++) {
                    nodes[i].sum = own.nodes[i].sum;
                    mh_gradient_tree_add(&all, nodes[i]);
                }
                own.count = 0; // the arrays are the other tree's
                mh_gradient_tree_free(&own);
            }
            check_sum(&all, count);
            mh_gradient_tree_free(&all);
        }
    mh_context_free(context);
}

// Shares of grains that are even but for 1/16, with few nodes: one each if the grains are ranks
// times a power of two, or up to half of that power fewer; else 2.2 to 2.4 on average, where even
// shares have 3.4 to 4.1.
static void test_cut(void **state)
{
    static const struct {
        size_t ranks;
        double nodes;
    } averages[] = {{2, 2.15}, {3, 2.2}, {4, 2.25}, {8, 2.35}, {64, 2.45}};
    (void)state;
    for (size_t a = 0; a < sizeof averages / sizeof *averages; a++) {
        const size_t R = averages[a].ranks, most = 40;
        size_t first[65];
        double sum = 0;
        mh_tree_node nodes[MH_TREE_NODES_MOST];
        for (size_t G = R; G < most * R; G++) {
            const size_t even = (G + R - 1) / R;
            size_t sent = 0;
            mh_tree_cut(G, R, first);
            assert_int_equal(first[0], 0);
            assert_int_equal(first[R], G);
            for (size_t r = 0; r < R; r++) {
                assert_in_range(first[r + 1] - first[r], 0, even + even / 16);
                sent += mh_tree_nodes_of(first[r], first[r + 1], G, nodes);
            }
            if ((even & (even - 1)) == 0 && even * R - G <= even / 2)
                assert_int_equal(sent, R);
            sum += (double)sent / (double)R;
        }
        const double mean = sum / (double)(most * R - R);
        print_message("%zu ranks: %.2f nodes of each\n", R, mean);
        assert_true(mean < averages[a].nodes);
    }
}

// Every sequence of the batches is in one grain, in order; grains have equal numbers of them.
static void test_grains(void **state)
{
    (void)state;
    enum { PAIRS = 3000, LENGTH = 11, BUDGET = 9000 };
    mh_context *context = test_context(NULL, 1);
    mh_dataset data = {.count = PAIRS};
    data.starts = malloc((2 * PAIRS + 1) * sizeof *data.starts);
    data.ids = calloc(2 * PAIRS * LENGTH, sizeof *data.ids);
    for (size_t k = 0; k <= 2 * PAIRS; k++)
        data.starts[k] = k * LENGTH;
    const mh_batch_options options = {1, BUDGET};
    mh_batches plan = {0};
    mh_grains grains = {0};
    test_ok(context, mh_batches_plan(context, &data, &options, 0, &plan));
    test_ok(context, mh_grains_cut(context, &data, &plan, 0, plan.count, 2048, &grains));
    const uint32_t *next = plan.examples;
    for (size_t i = 0; i < grains.count; i++) {
        const size_t tokens = grains.list[i].count * 2 * LENGTH;
        assert_ptr_equal(grains.list[i].examples, next);
        next += grains.list[i].count;
        assert_in_range(tokens, 2048 * 2 / 3, 2048 * 3 / 2);
    }
    assert_ptr_equal(next, plan.examples + PAIRS);
    assert_int_equal(mh_grains_count(&data, &plan, 0, plan.count, 2048), grains.count);
    mh_grains_free(context, &grains);
    mh_batches_free(context, &plan);
    free(data.starts);
    free(data.ids);
    mh_context_free(context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_process),
        cmocka_unit_test(test_ranks),
        cmocka_unit_test(test_cut),
        cmocka_unit_test(test_grains),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
