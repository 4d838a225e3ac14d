// SPDX-License-Identifier: MIT
// Byte-pair encoding. A word's symbols are a linked list; a heap holds every pair of neighbours
// that merges, lowest rank first, leftmost first among equals:
//
//     l o w e r      heap: (rank << 32 | position of the left one), some of them out of date
//      \ /           a pair is up to date if its two symbols still have that rank
//     lo w e r
//
// Each symbol is merged away at most once and each merge adds at most two pairs, so that a word of
// a megabyte takes no longer than a megabyte of words. Words that are a token are looked up.
#include "base/argument_check.h"
#include "text/tokenizer_models.h"
#include "text/utf8.h"

enum { NONE = INT32_MAX, AFFIX_MAX = 64 };

typedef struct symbol {
    uint32_t id, size;     // size: bytes of the word
    int32_t before, after; // indices of the neighbours; NONE at an end
} symbol;

typedef struct word {
    const mh_tokenizer *t;
    uint64_t *keys; // the heap
    size_t key_count;
    symbol *symbols;
    size_t count;
} word;

// ---- heap ---------------------------------------------------------------------------------------

static void heap_push(word *w, uint64_t key)
{
    size_t at = w->key_count++;
    while (at > 0 && w->keys[(at - 1) / 2] > key) {
        w->keys[at] = w->keys[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    w->keys[at] = key;
}

static uint64_t heap_pop(word *w)
{
    uint64_t least = w->keys[0], last = w->keys[--w->key_count];
    size_t at = 0;
    for (size_t child; (child = 2 * at + 1) < w->key_count; at = child) {
        if (child + 1 < w->key_count && w->keys[child + 1] < w->keys[child])
            child++;
        if (w->keys[child] >= last)
            break;
        w->keys[at] = w->keys[child];
    }
    w->keys[at] = last;
    return least;
}

// ---- merging ------------------------------------------------------------------------------------

// Symbols, then the heap: n - 1 pairs at first; of the two pairs that a merge adds, one replaces
// the merged pair.
size_t mh_word_scratch(size_t size) { return size * (sizeof(symbol) + 2 * sizeof(uint64_t)); }

static word word_in(const mh_tokenizer *t, void *scratch, size_t size)
{
    uint64_t *keys = scratch; // the wider ones first, for their alignment
    return (word){t, keys, 0, (symbol *)(keys + 2 * size), 0};
}

static void add_symbol(word *w, size_t id, size_t size)
{
    int32_t at = (int32_t)w->count++;
    w->symbols[at] = (symbol){(uint32_t)id, (uint32_t)size, at > 0 ? at - 1 : NONE, NONE};
    if (at > 0)
        w->symbols[at - 1].after = at;
}

static void push_pair(word *w, int32_t left)
{
    const symbol *s = w->symbols;
    if (left == NONE || s[left].after == NONE)
        return;
    const mh_merge *m = mh_tokenizer_merge(w->t, s[left].id, s[s[left].after].id);
    if (m)
        heap_push(w, (uint64_t)m->rank << 32 | (uint32_t)left);
}

static void merge_pairs(word *w)
{
    symbol *s = w->symbols;
    for (size_t i = 0; i + 1 < w->count; i++)
        push_pair(w, (int32_t)i);
    while (w->key_count > 0) {
        uint64_t key = heap_pop(w);
        int32_t left = (int32_t)(key & UINT32_MAX), right = s[left].after;
        const mh_merge *m =
            right == NONE ? NULL : mh_tokenizer_merge(w->t, s[left].id, s[right].id);
        if (!m || m->rank != (uint32_t)(key >> 32))
            continue; // out of date
        s[left].id = m->result;
        s[left].size += s[right].size;
        s[left].after = s[right].after;
        if (s[left].after != NONE)
            s[s[left].after].before = left;
        s[right] = (symbol){UINT32_MAX, 0, NONE, NONE};
        push_pair(w, s[left].before);
        push_pair(w, left);
    }
}

size_t mh_word_encode(const mh_tokenizer *t, const char *text, size_t size, void *scratch,
                      int32_t *ids)
{
    word w = word_in(t, scratch, size);
    for (size_t i = 0; i < size; i++)
        add_symbol(&w, t->byte_ids[(unsigned char)text[i]], 1);
    merge_pairs(&w);
    size_t count = 0;
    for (int32_t at = size > 0 ? 0 : NONE; at != NONE; at = w.symbols[at].after)
        ids[count++] = (int32_t)w.symbols[at].id;
    return count;
}

// ---- the first symbols: characters, or bytes ----------------------------------------------------

// The token of a character in its place: with the prefix unless it is first, with the suffix if it
// is last.
static size_t find_character(const mh_tokenizer *t, const char *text, size_t size, bool first,
                             bool last)
{
    char bytes[2 * AFFIX_MAX + 4];
    mh_text prefix = mh_span_text(t, t->parts.prefix), suffix = mh_span_text(t, t->parts.suffix);
    prefix.size = first ? 0 : prefix.size;
    suffix.size = last ? suffix.size : 0;
    if (prefix.size + suffix.size == 0 && size == 1) {
        uint32_t id = t->byte_ids[(unsigned char)text[0]];
        return id == UINT32_MAX ? SIZE_MAX : id;
    }
    if (prefix.size + suffix.size == 0)
        return mh_tokenizer_find(t, text, size);
    memcpy(bytes, prefix.bytes, prefix.size);
    memcpy(bytes + prefix.size, text, size);
    memcpy(bytes + prefix.size + size, suffix.bytes, suffix.size);
    return mh_tokenizer_find(t, bytes, prefix.size + size + suffix.size);
}

bool mh_fallback_ids(const mh_tokenizer *t, const char *text, size_t size, int32_t *ids)
{
    for (size_t i = 0; i < size; i++)
        if ((ids[i] = t->parts.fallback[(unsigned char)text[i]]) < 0)
            return false;
    return true;
}

// Characters without a token: their bytes, or the unknown token, or nothing. Unknown ones are
// written late, because the next one may be fused with them; a fallback does not end them.
typedef struct unknown {
    bool pending;
    size_t size;
} unknown;

static void flush_unknown(word *w, unknown *u)
{
    if (u->pending)
        add_symbol(w, (size_t)w->t->parts.unk, u->size);
    u->pending = false;
}

static void tokenizer_bpe_add_unknown(word *w, const char *text, size_t size, unknown *u)
{
    int32_t ids[4];
    const mh_components *parts = &w->t->parts;
    if (parts->byte_fallback && mh_fallback_ids(w->t, text, size, ids)) {
        for (size_t i = 0; i < size; i++)
            add_symbol(w, (size_t)ids[i], 1);
        return;
    }
    if (parts->unk < 0)
        return;
    if (u->pending && parts->fuse_unk) {
        u->size += size;
        return;
    }
    flush_unknown(w, u);
    *u = (unknown){true, size};
}

static void add_characters(word *w, const char *text, size_t size)
{
    unknown u = {false, 0};
    for (size_t at = 0, length; at < size; at += length) {
        if (w->t->parts.byte_level)
            length = 1;
        else
            mh_utf8_decode(text + at, &length);
        size_t id = find_character(w->t, text + at, length, at == 0, at + length == size);
        if (id == SIZE_MAX) {
            tokenizer_bpe_add_unknown(w, text + at, length, &u);
            continue;
        }
        flush_unknown(w, &u);
        add_symbol(w, id, length);
    }
    flush_unknown(w, &u);
}

// ---- a piece ------------------------------------------------------------------------------------

mh_status mh_bpe_encode(mh_context *context, const mh_tokenizer *t, const char *text, size_t size,
                        size_t origin, mh_model_output *out)
{
    const mh_components *parts = &t->parts;
    size_t id = mh_tokenizer_find(t, text, size);
    if (id != SIZE_MAX && (parts->ignore_merges || t->tokens[id].whole))
        return mh_model_add(context, out, (int32_t)id, origin, origin + size) ? MH_OK
                                                                              : MH_ERROR_MEMORY;
    if (!mh_grow(context, &out->scratch, &out->scratch_capacity, mh_word_scratch(size), 1))
        return MH_ERROR_MEMORY;
    word w = word_in(t, out->scratch, size);
    add_characters(&w, text, size);
    merge_pairs(&w);
    for (int32_t at = w.count > 0 ? 0 : NONE; at != NONE; at = w.symbols[at].after) {
        const symbol *s = &w.symbols[at];
        if (!mh_model_add(context, out, (int32_t)s->id, origin, origin + s->size))
            return MH_ERROR_MEMORY;
        origin += s->size;
    }
    return MH_OK;
}
