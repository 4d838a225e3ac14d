// SPDX-License-Identifier: MIT
// Tree sums; see gradient_tree.h. Nodes are a stack, like the digits of a binary counter: after
// grain 6 there are 0-3, 4-5 and 6, and memory is for the logarithm of the number of grains.
#include "train/gradient_tree.h"

#include "base/compiler.h"
#include "base/size_math.h"

enum { CHUNK = 16 * 1024 };

void mh_gradient_tree_give(mh_gradient_tree *t, float *array)
{
    if (t->spares < MH_TREE_NODES_MOST)
        t->spare[t->spares++] = array;
    else
        mh_free(t->context, array, t->floats * sizeof(float));
}

void mh_gradient_tree_clear(mh_gradient_tree *t)
{
    mh_gradient_tree_end(t);
    while (t->count > 0)
        mh_gradient_tree_give(t, t->nodes[--t->count].sum);
}

void mh_gradient_tree_free(mh_gradient_tree *t)
{
    mh_gradient_tree_clear(t);
    while (t->spares > 0)
        mh_free(t->context, t->spare[--t->spares], t->floats * sizeof(float));
}

float *mh_gradient_tree_take(mh_gradient_tree *t)
{
    return t->spares ? t->spare[--t->spares] : mh_alloc(t->context, t->floats * sizeof(float));
}

static bool are_siblings(const mh_tree_node *left, const mh_tree_node *right)
{
    return left->level == right->level && left->index % 2 == 0;
}

// The last two nodes become their parent; their arrays are added up later.
static void merge_last(mh_gradient_tree *t)
{
    mh_tree_node *left = &t->nodes[t->count - 2];
    t->count--;
    t->joining++;
    left->level++;
    left->index /= 2;
}

void mh_gradient_tree_begin(mh_gradient_tree *t, mh_tree_node node)
{
    t->nodes[t->count++] = node;
    while (t->count > 1 && are_siblings(&t->nodes[t->count - 2], &t->nodes[t->count - 1]))
        merge_last(t);
}

typedef struct joining {
    const mh_tree_node *nodes; // (count + 1): the last one is added to the one before, and so on
    size_t count, first, end;
} joining;

static void join_chunk(void *arg, size_t index, size_t worker)
{
    const joining *job = arg;
    const size_t first = job->first + index * CHUNK, n = mh_smaller(CHUNK, job->end - first);
    (void)worker;
    for (size_t k = job->count; k-- > 0;) {
        float *sum = job->nodes[k].sum + first;
        const float *addend = job->nodes[k + 1].sum + first;
        for (size_t i = 0; i < n; i++)
            sum[i] += addend[i];
    }
}

void mh_gradient_tree_join(mh_gradient_tree *t, size_t first, size_t end)
{
    const size_t n = end - first;
    if (t->joining == 0)
        return;
    joining job = {&t->nodes[t->count - 1], t->joining, first, end};
    mh_parallel_for(t->context, n / CHUNK + (n % CHUNK > 0), join_chunk, &job);
}

void mh_gradient_tree_end(mh_gradient_tree *t)
{
    for (; t->joining > 0; t->joining--)
        mh_gradient_tree_give(t, t->nodes[t->count + t->joining - 1].sum);
}

void mh_gradient_tree_add(mh_gradient_tree *t, mh_tree_node node)
{
    mh_gradient_tree_begin(t, node);
    mh_gradient_tree_join(t, 0, t->floats);
    mh_gradient_tree_end(t);
}

void mh_gradient_tree_fold(mh_gradient_tree *t, size_t count)
{
    while (t->count > count)
        merge_last(t);
}

void mh_gradient_tree_sum(mh_gradient_tree *t)
{
    mh_gradient_tree_fold(t, 1);
    mh_gradient_tree_join(t, 0, t->floats);
    mh_gradient_tree_end(t);
}

// ---- shares -------------------------------------------------------------------------------------

// Without its parent, which would have grains beyond the last.
static bool is_root(const mh_tree_node *node, size_t grains)
{
    return (node->index / 2 + 1) << (node->level + 1) > grains;
}

size_t mh_tree_nodes_of(size_t first, size_t end, size_t grains,
                        mh_tree_node nodes[MH_TREE_NODES_MOST])
{
    size_t count = 0;
    while (first < end) {
        unsigned level = 0;
        while (first % ((size_t)2 << level) == 0 && ((size_t)2 << level) <= end - first)
            level++;
        nodes[count++] = (mh_tree_node){level, first >> level, NULL};
        if (end == grains && is_root(&nodes[count - 1], grains))
            break; // and so are all after it
        first += (size_t)1 << level;
    }
    return count;
}

static size_t distance(size_t a, size_t b) { return a > b ? a - b : b - a; }

// The multiple of the largest power of two in [low, high]; of several the nearest to `even`.
static size_t roundest(size_t low, size_t high, size_t even)
{
    size_t best = low;
    for (size_t i = low + 1; i <= high && best > 0; i++) { // 0 is a multiple of all
        const size_t power = i & -i, most = best & -best;
        if (power > most || (power == most && distance(i, even) < distance(best, even)))
            best = i;
    }
    return best;
}

// Borders near those of even shares, so that no rank has more than `most` grains.
static void cut_within(size_t grains, size_t ranks, size_t most, size_t *first)
{
    const size_t each = grains / ranks, rest = grains % ranks, near = most / 2;
    first[0] = 0;
    for (size_t r = 1; r < ranks; r++) {
        const size_t even = each * r + rest * r / ranks, up = rest * r % ranks > 0;
        const size_t after = (ranks - r) * most; // which the ranks from r on can take
        size_t low = mh_larger(first[r - 1], even - mh_smaller(near, even));
        low = mh_larger(low, grains - mh_smaller(after, grains));
        const size_t high = mh_smaller(first[r - 1] + most, even + up + near);
        first[r] = roundest(low, mh_smaller(high, grains), even);
    }
    first[ranks] = grains;
}

static size_t count_nodes(size_t grains, size_t ranks, const size_t *first)
{
    mh_tree_node nodes[MH_TREE_NODES_MOST];
    size_t count = 0;
    for (size_t r = 0; r < ranks; r++)
        count += mh_tree_nodes_of(first[r], first[r + 1], grains, nodes);
    return count;
}

void mh_tree_cut(size_t grains, size_t ranks, size_t *first)
{
    const size_t even = grains / ranks + (grains % ranks > 0);
    size_t best = even, fewest = SIZE_MAX;
    for (size_t most = even; most <= even + even / 16 && fewest > 2 * ranks; most++) {
        cut_within(grains, ranks, most, first);
        const size_t count = count_nodes(grains, ranks, first);
        best = count < fewest ? most : best;
        fewest = mh_smaller(count, fewest);
    }
    cut_within(grains, ranks, best, first);
}
