// SPDX-License-Identifier: MIT
// The pairs of a corpus; see train_pairs.h.
#include "text/train_pairs.h"

// ---- pairs and their occurrences ----------------------------------------------------------------

static size_t pair_find_slot(const mh_train_pairs *p, uint64_t key)
{
    size_t mask = p->slot_count - 1, slot = (size_t)mh_mix(key) & mask;
    while (p->slots[slot] != 0 && p->pairs[p->slots[slot] - 1].key != key)
        slot = (slot + 1) & mask;
    return slot;
}

static bool pair_widen(mh_context *context, mh_train_pairs *p)
{
    if (2 * (p->count + 1) <= p->slot_count)
        return true;
    size_t *slots = NULL, size = 0;
    if (!mh_grow(context, &slots, &size, 2 * p->slot_count + 1, sizeof *slots))
        return false;
    memset(slots, 0, size * sizeof *slots);
    mh_shrink(context, &p->slots, &p->slot_count, sizeof *p->slots);
    p->slots = slots;
    p->slot_count = size;
    for (size_t i = 0; i < p->count; i++)
        slots[pair_find_slot(p, p->pairs[i].key)] = i + 1;
    return true;
}

// The pair's index, SIZE_MAX if out of memory.
static size_t find_or_add(mh_context *context, mh_train_pairs *p, uint64_t key)
{
    if (!pair_widen(context, p))
        return SIZE_MAX;
    size_t slot = pair_find_slot(p, key);
    if (p->slots[slot] != 0)
        return p->slots[slot] - 1;
    if (!mh_grow(context, &p->pairs, &p->capacity, p->count + 1, sizeof *p->pairs))
        return SIZE_MAX;
    p->pairs[p->count] = (mh_train_pair){.key = key, .first = MH_NO_OCCURRENCE};
    p->slots[slot] = ++p->count;
    return p->count - 1;
}

// A word may be listed twice, which costs a scan, but is never missing.
static bool add_occurrence(mh_context *context, mh_train_pairs *p, mh_train_pair *pair,
                           uint32_t word)
{
    if (pair->first != MH_NO_OCCURRENCE && p->occurrences[pair->first].word == word)
        return true;
    size_t occurrence = p->unused;
    if (occurrence != MH_NO_OCCURRENCE) {
        p->unused = p->occurrences[occurrence].next;
    } else {
        if (p->occurrence_count == 0)
            p->occurrence_count = 1;
        if (!mh_grow(context, &p->occurrences, &p->occurrence_capacity, p->occurrence_count + 1,
                     sizeof *p->occurrences))
            return false;
        occurrence = p->occurrence_count++;
    }
    p->occurrences[occurrence] = (mh_train_occurrence){word, pair->first};
    pair->first = occurrence;
    return true;
}

bool mh_train_pairs_grow(mh_context *context, mh_train_pairs *p, uint64_t key, uint64_t count,
                         uint32_t word)
{
    size_t index = find_or_add(context, p, key);
    if (index == SIZE_MAX || !add_occurrence(context, p, &p->pairs[index], word))
        return false;
    p->pairs[index].count += count;
    if (p->pairs[index].grown)
        return true;
    if (!mh_grow(context, &p->touched, &p->touched_capacity, p->touched_count + 1,
                 sizeof *p->touched))
        return false;
    p->pairs[index].grown = true;
    p->touched[p->touched_count++] = index;
    return true;
}

void mh_train_pairs_lessen(mh_train_pairs *p, uint64_t key, uint64_t count)
{
    size_t slot = pair_find_slot(p, key);
    if (p->slots[slot] != 0)
        p->pairs[p->slots[slot] - 1].count -= count;
}

void mh_train_pairs_finish(mh_train_pairs *p, size_t index)
{
    mh_train_pair *pair = &p->pairs[index];
    while (pair->first != MH_NO_OCCURRENCE) {
        size_t occurrence = pair->first;
        pair->first = p->occurrences[occurrence].next;
        p->occurrences[occurrence].next = p->unused;
        p->unused = occurrence;
    }
    pair->count = 0;
    pair->finished = true;
}

// ---- heap ---------------------------------------------------------------------------------------

static bool comes_first(const mh_train_pairs *p, mh_train_entry a, mh_train_entry b)
{
    if (a.count != b.count)
        return a.count > b.count;
    return p->pairs[a.pair].key < p->pairs[b.pair].key;
}

// The caller has made room.
static void push(mh_train_pairs *p, mh_train_entry entry)
{
    size_t at = p->heap_count++;
    for (size_t up; at > 0; at = up) {
        up = (at - 1) / 2;
        if (!comes_first(p, entry, p->heap[up]))
            break;
        p->heap[at] = p->heap[up];
    }
    p->heap[at] = entry;
}

static mh_train_entry pop(mh_train_pairs *p)
{
    mh_train_entry first = p->heap[0], last = p->heap[--p->heap_count];
    size_t at = 0;
    for (size_t child; (child = 2 * at + 1) < p->heap_count; at = child) {
        if (child + 1 < p->heap_count && comes_first(p, p->heap[child + 1], p->heap[child]))
            child++;
        if (!comes_first(p, p->heap[child], last))
            break;
        p->heap[at] = p->heap[child];
    }
    p->heap[at] = last;
    return first;
}

bool mh_train_pairs_settle(mh_context *context, mh_train_pairs *p)
{
    if (!mh_grow(context, &p->heap, &p->heap_capacity, p->heap_count + p->touched_count,
                 sizeof *p->heap))
        return false;
    for (size_t i = 0; i < p->touched_count; i++) {
        mh_train_pair *pair = &p->pairs[p->touched[i]];
        pair->grown = false;
        if (pair->count > 0)
            push(p, (mh_train_entry){pair->count, p->touched[i]});
    }
    p->touched_count = 0;
    return true;
}

size_t mh_train_pairs_next(mh_train_pairs *p)
{
    while (p->heap_count > 0) {
        mh_train_entry top = pop(p);
        uint64_t count = p->pairs[top.pair].count;
        if (top.count == count)
            return top.pair;
        // An entry whose count is too low has a newer one in the heap, pushed when the count grew.
        if (top.count > count && count > 0)
            push(p, (mh_train_entry){count, top.pair});
    }
    return SIZE_MAX;
}

void mh_train_pairs_free(mh_context *context, mh_train_pairs *p)
{
    mh_shrink(context, &p->pairs, &p->capacity, sizeof *p->pairs);
    mh_shrink(context, &p->slots, &p->slot_count, sizeof *p->slots);
    mh_shrink(context, &p->occurrences, &p->occurrence_capacity, sizeof *p->occurrences);
    mh_shrink(context, &p->heap, &p->heap_capacity, sizeof *p->heap);
    mh_shrink(context, &p->touched, &p->touched_capacity, sizeof *p->touched);
}
