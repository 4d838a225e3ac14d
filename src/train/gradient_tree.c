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

void mh_gradient_tree_sum(mh_gradient_tree *t)
{
    while (t->count > 1)
        merge_last(t);
    mh_gradient_tree_join(t, 0, t->floats);
    mh_gradient_tree_end(t);
}

size_t mh_tree_nodes_of(size_t first, size_t end, mh_tree_node nodes[MH_TREE_NODES_MOST])
{
    size_t count = 0;
    while (first < end) {
        unsigned level = 0;
        while (first % ((size_t)2 << level) == 0 && ((size_t)2 << level) <= end - first)
            level++;
        nodes[count++] = (mh_tree_node){level, first >> level, NULL};
        first += (size_t)1 << level;
    }
    return count;
}
