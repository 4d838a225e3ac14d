// SPDX-License-Identifier: MIT
// The sum of gradients over grains, as a binary tree that depends on their number alone:
//
//     grain    0   1   2   3   4   5   6
//     level 1  0 + 1   2 + 3   4 + 5   6       neighbours, as far as there are pairs
//     level 2    0-1 + 2-3     4-5 + 6
//     sum            0-3   +   4-6
//
// Node i of level k is the sum of grains i 2^k to (i + 1) 2^k - 1. Whoever has some grains adds
// siblings as soon as both are there, and keeps the others: at most two per level, one if the first
// grain is 0. These nodes, of all processes and in order, determine the sum, to the bit.
#ifndef MH_TRAIN_GRADIENT_TREE_H
#define MH_TRAIN_GRADIENT_TREE_H

#include <multihead/base.h>

enum { MH_TREE_NODES_MOST = 128 };

typedef struct mh_tree_node {
    unsigned level;
    size_t index;
    float *sum; // (floats); NULL in a list of nodes without their sums
} mh_tree_node;

// All zeros but for `context` and `floats` is empty.
typedef struct mh_gradient_tree {
    mh_context *context;
    size_t floats;
    size_t count;
    mh_tree_node nodes[MH_TREE_NODES_MOST]; // (count), in order, none a sibling of the next
    size_t joining; // nodes after those, which are parts of the last one; their arrays are added up
    float *spare[MH_TREE_NODES_MOST]; // (spares): arrays to be used again
    size_t spares;
} mh_gradient_tree;

// Removes all nodes; their arrays are used again.
void mh_gradient_tree_clear(mh_gradient_tree *tree);
void mh_gradient_tree_free(mh_gradient_tree *tree);

// An array of `floats` with any contents, for mh_gradient_tree_add() or to be given back; NULL with
// a message if out of memory.
float *mh_gradient_tree_take(mh_gradient_tree *tree);
void mh_gradient_tree_give(mh_gradient_tree *tree, float *array);

// Adds a node after all others, and takes its array.
void mh_gradient_tree_add(mh_gradient_tree *tree, mh_tree_node node);

// The same in parts, for an array that is filled in parts: the nodes of the tree change at once,
// and elements of their sums are final when they have been joined. All are joined, each once,
// before mh_gradient_tree_end().
void mh_gradient_tree_begin(mh_gradient_tree *tree, mh_tree_node node);
void mh_gradient_tree_join(mh_gradient_tree *tree, size_t first, size_t end);
void mh_gradient_tree_end(mh_gradient_tree *tree);

// Sums all nodes: afterwards there is one, the tree's sum if grain 0 and the last one are in it.
void mh_gradient_tree_sum(mh_gradient_tree *tree);

// Merges the last nodes until `count` are left, after mh_gradient_tree_begin() of the last grain:
// what mh_gradient_tree_sum() does is right for nodes that are last of all.
void mh_gradient_tree_fold(mh_gradient_tree *tree, size_t count);

// The nodes that grains first to end - 1 of `grains` add up to; returns their number. Sums are
// NULL. Nodes that are added up from the right at the end of all, as 12-13 and 14 of 15 grains, are
// one.
size_t mh_tree_nodes_of(size_t first, size_t end, size_t grains,
                        mh_tree_node nodes[MH_TREE_NODES_MOST]);

// Cuts grains among ranks: rank r gets grains first[r] to first[r + 1] - 1. What a rank sends is
// its nodes, so that it should have few: borders are multiples of large powers of two, where that
// lets no rank have more than 1/16 more grains than even shares have.
//
//     15 grains, 2 ranks    0-7 | 8-11 12-13 14     1 node each; 0-6 has 3
void mh_tree_cut(size_t grains, size_t ranks, size_t *first);

#endif
