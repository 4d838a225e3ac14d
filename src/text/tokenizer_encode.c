// SPDX-License-Identifier: MIT
// Text to ids and back. A word's symbols are a linked list; a heap holds every pair of neighbours
// that merges, lowest rank first, leftmost first among equals:
//
//     l o w e r      heap: (rank << 32 | position of the left one), some of them out of date
//      \ /           a pair is up to date if its two symbols still have that rank
//     lo w e r
//
// Each byte is merged away at most once and each merge adds at most two pairs, so that a word of
// a megabyte takes no longer than a megabyte of words. Words that are a token are looked up.
#include "base/argument_check.h"
#include "support/buffer.h"
#include "text/tokenizer.h"
#include "text/words.h"

enum { NONE = INT32_MAX };

typedef struct symbol {
    uint32_t id;
    int32_t before, after; // indices of the neighbours; NONE at an end
} symbol;

typedef struct heap {
    uint64_t *keys;
    size_t count;
} heap;

// ---- heap -----------------------------------------------------------------------------------

static void heap_push(heap *h, uint64_t key)
{
    size_t at = h->count++;
    while (at > 0 && h->keys[(at - 1) / 2] > key) {
        h->keys[at] = h->keys[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    h->keys[at] = key;
}

static uint64_t heap_pop(heap *h)
{
    uint64_t least = h->keys[0], last = h->keys[--h->count];
    size_t at = 0;
    for (size_t child; (child = 2 * at + 1) < h->count; at = child) {
        if (child + 1 < h->count && h->keys[child + 1] < h->keys[child])
            child++;
        if (h->keys[child] >= last)
            break;
        h->keys[at] = h->keys[child];
    }
    h->keys[at] = last;
    return least;
}

// ---- one word -------------------------------------------------------------------------------

// Symbols, then the heap: n - 1 pairs at first; of the two pairs that a merge adds, one replaces
// the merged pair.
size_t mh_word_scratch(size_t size) { return size * (sizeof(symbol) + 2 * sizeof(uint64_t)); }

static void push_pair(const mh_tokenizer *t, const symbol *s, int32_t left, heap *h)
{
    if (left == NONE || s[left].after == NONE)
        return;
    uint32_t rank = mh_tokenizer_rank(t, s[left].id, s[s[left].after].id);
    if (rank != UINT32_MAX)
        heap_push(h, (uint64_t)rank << 32 | (uint32_t)left);
}

static void encode_merge_pairs(const mh_tokenizer *t, symbol *s, heap *h)
{
    while (h->count > 0) {
        uint64_t key = heap_pop(h);
        uint32_t rank = (uint32_t)(key >> 32);
        int32_t left = (int32_t)(key & UINT32_MAX), right = s[left].after;
        const mh_merge *m = &t->merges[rank];
        if (right == NONE || s[left].id != m->left || s[right].id != m->right)
            continue; // out of date
        s[left].id = m->result;
        s[left].after = s[right].after;
        if (s[left].after != NONE)
            s[s[left].after].before = left;
        s[right] = (symbol){UINT32_MAX, NONE, NONE};
        push_pair(t, s, s[left].before, h);
        push_pair(t, s, left, h);
    }
}

size_t mh_word_encode(const mh_tokenizer *t, const char *word, size_t size, void *scratch,
                      int32_t *ids)
{
    heap h = {scratch, 0}; // the wider ones first, for their alignment
    symbol *s = (symbol *)(h.keys + 2 * size);
    for (size_t i = 0; i < size; i++)
        s[i] = (symbol){t->byte_ids[(unsigned char)word[i]], i > 0 ? (int32_t)i - 1 : NONE,
                        i + 1 < size ? (int32_t)i + 1 : NONE};
    for (size_t i = 0; i + 1 < size; i++)
        push_pair(t, s, (int32_t)i, &h);
    encode_merge_pairs(t, s, &h);
    size_t count = 0;
    for (int32_t at = 0; at != NONE; at = s[at].after)
        ids[count++] = (int32_t)s[at].id;
    return count;
}

// ---- a text -----------------------------------------------------------------------------------

// Reserves room for more ids: both arrays grow together.
static bool encode_reserve(mh_context *context, mh_tokens *tokens, size_t more)
{
    size_t ids_capacity = tokens->capacity, ends_capacity = tokens->capacity;
    if (tokens->count + more <= tokens->capacity)
        return true;
    if (!mh_grow(context, &tokens->ends, &ends_capacity, tokens->count + more,
                 sizeof *tokens->ends))
        return false;
    if (mh_grow(context, &tokens->ids, &ids_capacity, tokens->count + more, sizeof *tokens->ids)) {
        tokens->capacity = ids_capacity;
        return true;
    }
    // one has grown and the other has not: one capacity no longer describes both
    mh_shrink(context, &tokens->ends, &ends_capacity, sizeof *tokens->ends);
    mh_shrink(context, &tokens->ids, &ids_capacity, sizeof *tokens->ids);
    tokens->capacity = tokens->count = 0;
    return false;
}

static bool add_word(mh_context *context, const mh_tokenizer *t, const char *word, size_t size,
                     mh_tokens *tokens)
{
    size_t id = mh_tokenizer_find(t, word, size);
    if (id != SIZE_MAX && t->tokens[id].whole) {
        if (!encode_reserve(context, tokens, 1))
            return false;
        tokens->ids[tokens->count++] = (int32_t)id;
        return true;
    }
    char *scratch = tokens->scratch;
    bool room = encode_reserve(context, tokens, size) &&
                mh_grow(context, &scratch, &tokens->scratch_size, mh_word_scratch(size), 1);
    tokens->scratch = scratch;
    if (room)
        tokens->count +=
            mh_word_encode(t, word, size, tokens->scratch, tokens->ids + tokens->count);
    return room;
}

static void set_ends(const mh_tokenizer *t, mh_tokens *tokens)
{
    size_t end = 0;
    for (size_t i = 0; i < tokens->count; i++) {
        end += t->tokens[tokens->ids[i]].size;
        tokens->ends[i] = end;
    }
}

static bool add_words(mh_context *context, const mh_tokenizer *t, mh_tokens *tokens)
{
    const char *text = tokens->text.data;
    for (size_t left = tokens->text.size, size; left > 0; text += size, left -= size) {
        size = mh_word_length(text, left);
        if (!add_word(context, t, text, size, tokens))
            return false;
    }
    return true;
}

mh_status mh_tokenizer_encode(mh_context *context, const mh_tokenizer *t, const char *text,
                              size_t size, mh_tokens *tokens)
{
    if (MH_NEED(context, {"tokenizer", t}, {"tokens", tokens}, {"text", mh_array(text, size)}))
        return MH_ERROR_ARGUMENT;
    tokens->count = tokens->text.size = 0;
    mh_status status = mh_text_nfc(context, text, size, &tokens->text);
    if (status == MH_OK && tokens->text.size >= INT32_MAX)
        status = mh_fail(context, MH_ERROR_ARGUMENT,
                         "encode: a text of %zu bytes, expected less than %d", tokens->text.size,
                         INT32_MAX);
    if (status == MH_OK && !add_words(context, t, tokens))
        status = MH_ERROR_MEMORY;
    if (status != MH_OK)
        tokens->count = tokens->text.size = 0;
    set_ends(t, tokens);
    return status;
}

void mh_tokens_free(mh_context *context, mh_tokens *tokens)
{
    if (!tokens)
        return;
    size_t ids = tokens->capacity, ends = tokens->capacity;
    mh_shrink(context, &tokens->ids, &ids, sizeof *tokens->ids);
    mh_shrink(context, &tokens->ends, &ends, sizeof *tokens->ends);
    mh_buffer_free(context, &tokens->text);
    mh_free(context, tokens->scratch, tokens->scratch_size);
    memset(tokens, 0, sizeof *tokens);
}

mh_status mh_tokenizer_decode(mh_context *context, const mh_tokenizer *t, const int32_t *ids,
                              size_t count, mh_buffer *out)
{
    if (MH_NEED(context, {"tokenizer", t}, {"out", out}, {"ids", mh_array(ids, count)}))
        return MH_ERROR_ARGUMENT;
    out->size = 0;
    for (size_t i = 0; i < count; i++) {
        mh_text text;
        mh_token_kind kind;
        if (!mh_tokenizer_token(t, ids[i], &text, &kind)) {
            out->size = 0;
            return mh_fail(context, MH_ERROR_ARGUMENT,
                           "decode: id %d at position %zu, expected 0 to %zu", ids[i], i,
                           t->count - 1);
        }
        if (kind == MH_TOKEN_TEXT && !mh_buffer_append(context, out, text.bytes, text.size)) {
            out->size = 0;
            return MH_ERROR_MEMORY;
        }
    }
    return MH_OK;
}
