// SPDX-License-Identifier: MIT
// Builds a trie level by level from sorted keys; see tokenizer_trie.h. A node stands for the keys
// [begin, end) that have its path as their prefix; its children split that range by the next byte.
#include "text/tokenizer_trie.h"

#include "base/argument_check.h"
#include "support/buffer.h"
#include "support/grow.h"

#include <stdlib.h>

typedef struct range { // of the keys below a node
    size_t begin, end;
} range;

static int tokenizer_trie_compare_keys(const void *a, const void *b)
{
    const mh_trie_key *x = a, *y = b;
    size_t least = x->size < y->size ? x->size : y->size;
    int order = least > 0 ? memcmp(x->bytes, y->bytes, least) : 0;
    if (order != 0)
        return order;
    if (x->size != y->size)
        return x->size < y->size ? -1 : 1;
    return x->value < y->value ? -1 : x->value > y->value;
}

// Adds the children of `node`, whose path has `depth` bytes.
static bool add_children(mh_context *context, mh_trie *trie, const mh_trie_key *keys, size_t depth,
                         uint32_t node, range **ranges, size_t *range_capacity)
{
    range r = (*ranges)[node];
    while (r.begin < r.end && keys[r.begin].size == depth) // the key that ends here; the last wins
        trie->nodes[node].value = keys[r.begin++].value;
    trie->nodes[node].first = (uint32_t)trie->count;
    while (r.begin < r.end) {
        unsigned char byte = (unsigned char)keys[r.begin].bytes[depth];
        size_t end = r.begin;
        while (end < r.end && (unsigned char)keys[end].bytes[depth] == byte)
            end++;
        if (!mh_grow(context, &trie->nodes, &trie->capacity, trie->count + 1,
                     sizeof *trie->nodes) ||
            !mh_grow(context, ranges, range_capacity, trie->count + 1, sizeof **ranges))
            return false;
        trie->nodes[trie->count] = (mh_trie_node){.value = UINT32_MAX, .byte = byte};
        (*ranges)[trie->count] = (range){r.begin, end};
        if (node == 0)
            trie->root[byte] = (uint32_t)trie->count;
        trie->count++;
        trie->nodes[node].count++;
        r.begin = end;
    }
    return true;
}

static bool add_levels(mh_context *context, mh_trie *trie, const mh_trie_key *keys, range **ranges,
                       size_t *capacity)
{
    size_t begin = 0;
    for (size_t depth = 0; begin < trie->count; depth++) {
        size_t end = trie->count; // nodes of this depth: [begin, end)
        for (; begin < end; begin++)
            if (!add_children(context, trie, keys, depth, (uint32_t)begin, ranges, capacity))
                return false;
    }
    return true;
}

bool mh_trie_build(mh_context *context, mh_trie *trie, mh_trie_key *keys, size_t count)
{
    range *ranges = NULL;
    size_t capacity = 0;
    if (count > 1)
        qsort(keys, count, sizeof *keys, tokenizer_trie_compare_keys);
    bool built = mh_grow(context, &trie->nodes, &trie->capacity, 1, sizeof *trie->nodes) &&
                 mh_grow(context, &ranges, &capacity, 1, sizeof *ranges);
    if (built) {
        trie->nodes[0] = (mh_trie_node){.value = UINT32_MAX};
        trie->count = 1;
        ranges[0] = (range){0, count};
        built = add_levels(context, trie, keys, &ranges, &capacity);
    }
    if (built)
        trie->nodes[0].value = UINT32_MAX;
    else
        mh_shrink(context, &trie->nodes, &trie->capacity, sizeof *trie->nodes);
    mh_shrink(context, &ranges, &capacity, sizeof *ranges);
    return built;
}

uint32_t mh_trie_longest(const mh_trie *trie, uint32_t node, const char *text, size_t size,
                         size_t *length)
{
    uint32_t found = UINT32_MAX;
    for (size_t at = 0; at < size; at++) {
        node = mh_trie_child(trie, node, (unsigned char)text[at]);
        if (node == MH_NO_NODE)
            break;
        if (trie->nodes[node].value != UINT32_MAX) {
            found = trie->nodes[node].value;
            *length = at + 1;
        }
    }
    return found;
}
