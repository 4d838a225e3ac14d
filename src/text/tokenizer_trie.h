// SPDX-License-Identifier: MIT
// A trie of byte strings, built once and then read-only: every prefix of a text that is a key is
// found in one pass. Nodes are in breadth-first order, so that the children of one are neighbours,
// sorted by their byte:
//
//     node      root | a  b  t | b  h | e        first = place of the first child, count = children
//     children  1..3   4  -  5   -  6   -
//
// The root, which every search begins at, has a table of 256 children instead.
#ifndef MH_TEXT_TOKENIZER_TRIE_H
#define MH_TEXT_TOKENIZER_TRIE_H

#include <multihead/base.h>

enum { MH_NO_NODE = 0 }; // the root is nobody's child

typedef struct mh_trie_node {
    uint32_t first;
    uint32_t value; // of the key that ends here; UINT32_MAX: none does
    uint16_t count;
    uint8_t byte; // that leads here
} mh_trie_node;

typedef struct mh_trie {
    mh_trie_node *nodes; // NULL: no key
    size_t count, capacity;
    uint32_t root[256]; // MH_NO_NODE: no child
} mh_trie;

typedef struct mh_trie_key {
    const char *bytes;
    size_t size;
    uint32_t value;
} mh_trie_key;

// Sorts the keys and builds the trie; of equal keys the one of the largest value counts, empty ones
// do not. False with a message if out of memory; the trie is then empty.
bool mh_trie_build(mh_context *context, mh_trie *trie, mh_trie_key *keys, size_t count);

// The child of a node, MH_NO_NODE if there is none.
static inline uint32_t mh_trie_child(const mh_trie *trie, uint32_t node, unsigned char byte)
{
    if (node == 0)
        return trie->root[byte];
    const mh_trie_node *n = &trie->nodes[node];
    uint32_t low = n->first, high = n->first + n->count;
    while (high - low > 8) {
        uint32_t middle = low + (high - low) / 2;
        if (trie->nodes[middle].byte <= byte)
            low = middle;
        else
            high = middle;
    }
    for (; low < high; low++)
        if (trie->nodes[low].byte == byte)
            return low;
    return MH_NO_NODE;
}

// The longest key that the text begins with, from this node on; its length in *length. UINT32_MAX
// if none.
uint32_t mh_trie_longest(const mh_trie *trie, uint32_t node, const char *text, size_t size,
                         size_t *length);

#endif
