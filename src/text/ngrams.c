// SPDX-License-Identifier: MIT
// The tree of ngrams.h: a hash table from (parent, symbol) to nodes.
#include "text/ngrams.h"

#include "text/utf8.h"

static size_t ngram_find_slot(const mh_ngrams *g, uint64_t key)
{
    size_t mask = g->slot_count - 1, slot = (size_t)mh_mix(key) & mask;
    while (g->slots[slot] != 0 && g->nodes[g->slots[slot]].key != key)
        slot = (slot + 1) & mask;
    return slot;
}

bool mh_ngrams_reset(mh_ngrams *g)
{
    // A few nodes are removed one by one; clearing a table that one long text has grown would cost
    // every later text. Removal in reverse order keeps probe chains intact.
    if (g->slots && g->count > g->slot_count / 16)
        memset(g->slots, 0, g->slot_count * sizeof *g->slots);
    else
        for (size_t i = g->count; i > 1; i--)
            g->slots[ngram_find_slot(g, g->nodes[i - 1].key)] = 0;
    g->count = 0;
    if (!mh_grow(g->context, &g->nodes, &g->capacity, 1, sizeof *g->nodes))
        return false;
    g->nodes[g->count++] = (mh_ngram){.key = UINT64_MAX};
    return true;
}

void mh_ngrams_free(mh_ngrams *g)
{
    mh_shrink(g->context, &g->nodes, &g->capacity, sizeof *g->nodes);
    mh_shrink(g->context, &g->slots, &g->slot_count, sizeof *g->slots);
    g->count = 0;
}

static bool ngram_widen(mh_ngrams *g)
{
    if (2 * (g->count + 1) <= g->slot_count)
        return true;
    uint32_t *slots = NULL;
    size_t size = 0;
    if (!mh_grow(g->context, &slots, &size, 2 * g->slot_count + 1, sizeof *slots))
        return false;
    memset(slots, 0, size * sizeof *slots);
    mh_shrink(g->context, &g->slots, &g->slot_count, sizeof *g->slots);
    g->slots = slots;
    g->slot_count = size;
    for (size_t i = 1; i < g->count; i++)
        slots[ngram_find_slot(g, g->nodes[i].key)] = (uint32_t)i;
    return true;
}

// The node of `parent` followed by `symbol`; 0 if out of memory.
static uint32_t child(mh_ngrams *g, uint32_t parent, uint32_t symbol)
{
    uint64_t key = (uint64_t)parent << 32 | symbol;
    if (!ngram_widen(g))
        return 0;
    size_t slot = ngram_find_slot(g, key);
    if (g->slots[slot] != 0)
        return g->slots[slot];
    if (g->count >= UINT32_MAX ||
        !mh_grow(g->context, &g->nodes, &g->capacity, g->count + 1, sizeof *g->nodes)) {
        mh_fail(g->context, MH_ERROR_MEMORY, "out of memory: %zu n-grams", g->count);
        return 0;
    }
    g->nodes[g->count] = (mh_ngram){.key = key, .order = g->nodes[parent].order + 1};
    g->slots[slot] = (uint32_t)g->count;
    return (uint32_t)g->count++;
}

bool mh_ngrams_count(mh_ngrams *g, const uint32_t *symbols, size_t count, uint32_t order,
                     bool is_hypothesis)
{
    for (size_t i = 0; i < count; i++) {
        uint32_t node = 0;
        for (size_t n = 0; n < order && i + n < count; n++) {
            node = child(g, node, symbols[i + n]);
            if (node == 0)
                return false;
            g->nodes[node].hypothesis += is_hypothesis;
            g->nodes[node].reference += !is_hypothesis;
        }
    }
    return true;
}

bool mh_symbols_add(mh_context *context, mh_symbols *s, uint32_t symbol)
{
    if (!mh_grow(context, &s->items, &s->capacity, s->count + 1, sizeof *s->items))
        return false;
    s->items[s->count++] = symbol;
    return true;
}

bool mh_symbols_add_word(mh_ngrams *words, const char *bytes, size_t size, mh_symbols *s)
{
    uint32_t node = 0;
    for (size_t at = 0, length; at < size; at += length) {
        node = child(words, node, mh_utf8_decode(bytes + at, &length));
        if (node == 0)
            return false;
    }
    return mh_symbols_add(words->context, s, node);
}
