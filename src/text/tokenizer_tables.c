// SPDX-License-Identifier: MIT
// Tokens and merges of a tokenizer, and the two hash tables that index them: open addressing,
// linear probing, at most half full. Results never depend on the order of a table. The hash is
// seeded per tokenizer, because a file whose tokens all collide would take minutes to read.
#include "support/buffer.h"
#include "text/tokenizer.h"

#include "base/release.h"
#include "support/entropy.h"

const char *const mh_special_names[MH_SPECIAL_COUNT] = {"<pad>", "<s>", "</s>"};

mh_tokenizer *mh_tokenizer_create(mh_context *context)
{
    mh_tokenizer *t = mh_alloc(context, sizeof *t);
    if (t) {
        memset(t, 0, sizeof *t);
        t->allocator = mh_context_allocator(context);
        t->seed = mh_entropy();
        t->pad = t->bos = t->eos = -1;
    }
    return t;
}

void mh_tokenizer_free(mh_tokenizer *t)
{
    if (!t)
        return;
    const mh_allocator allocator = t->allocator;
    mh_release(&allocator, t->tokens, t->capacity * sizeof *t->tokens);
    mh_release(&allocator, t->merges, t->merge_capacity * sizeof *t->merges);
    mh_release(&allocator, t->by_bytes, t->by_bytes_size * sizeof *t->by_bytes);
    mh_release(&allocator, t->by_pair, t->by_pair_size * sizeof *t->by_pair);
    mh_release(&allocator, t->bytes.data, t->bytes.capacity);
    mh_release(&allocator, t, sizeof *t);
}

// ---- tokens -------------------------------------------------------------------------------

// The slot that holds the token of these bytes, or the free one where it would be.
static size_t token_find_slot(const mh_tokenizer *t, const char *bytes, size_t size)
{
    size_t mask = t->by_bytes_size - 1, slot = (size_t)mh_hash_bytes(t->seed, bytes, size) & mask;
    for (; t->by_bytes[slot] != 0; slot = (slot + 1) & mask) {
        size_t id = t->by_bytes[slot] - 1;
        if (t->tokens[id].size == size && memcmp(mh_token_bytes(t, id), bytes, size) == 0)
            break;
    }
    return slot;
}

size_t mh_tokenizer_find(const mh_tokenizer *t, const char *bytes, size_t size)
{
    if (t->by_bytes_size == 0)
        return SIZE_MAX;
    uint32_t found = t->by_bytes[token_find_slot(t, bytes, size)];
    return found ? found - 1 : SIZE_MAX;
}

// Reserves room for one more, keeping the table at most half full.
static bool widen_by_bytes(mh_context *context, mh_tokenizer *t)
{
    if (2 * (t->by_bytes_used + 1) <= t->by_bytes_size)
        return true;
    uint32_t *slots = NULL;
    size_t size = 0;
    if (!mh_grow(context, &slots, &size, 2 * t->by_bytes_size + 1, sizeof *slots))
        return false;
    memset(slots, 0, size * sizeof *slots);
    mh_shrink(context, &t->by_bytes, &t->by_bytes_size, sizeof *t->by_bytes);
    t->by_bytes = slots;
    t->by_bytes_size = size;
    for (size_t id = 0; id < t->count; id++)
        if (t->tokens[id].kind == MH_TOKEN_TEXT)
            slots[token_find_slot(t, mh_token_bytes(t, id), t->tokens[id].size)] = (uint32_t)id + 1;
    return true;
}

bool mh_tokenizer_add(mh_context *context, mh_tokenizer *t, mh_token_kind kind, const char *bytes,
                      size_t size)
{
    size_t begin = t->bytes.size;
    if (!mh_grow(context, &t->tokens, &t->capacity, t->count + 1, sizeof *t->tokens) ||
        (kind == MH_TOKEN_TEXT && !widen_by_bytes(context, t)) ||
        !mh_buffer_append(context, &t->bytes, bytes, size))
        return false;
    if (kind == MH_TOKEN_TEXT) {
        t->by_bytes[token_find_slot(t, bytes, size)] = (uint32_t)t->count + 1;
        t->by_bytes_used++;
        if (size == 1)
            t->byte_ids[(unsigned char)bytes[0]] = (uint32_t)t->count;
    }
    t->tokens[t->count++] =
        (mh_token_entry){.begin = begin, .size = (uint32_t)size, .kind = (uint8_t)kind};
    return true;
}

// ---- merges -------------------------------------------------------------------------------

static size_t pair_slot(const mh_tokenizer *t, uint32_t left, uint32_t right)
{
    size_t mask = t->by_pair_size - 1;
    size_t slot = (size_t)mh_mix(t->seed ^ ((uint64_t)left << 32 | right)) & mask;
    for (; t->by_pair[slot] != 0; slot = (slot + 1) & mask) {
        const mh_merge *m = &t->merges[t->by_pair[slot] - 1];
        if (m->left == left && m->right == right)
            break;
    }
    return slot;
}

uint32_t mh_tokenizer_rank(const mh_tokenizer *t, uint32_t left, uint32_t right)
{
    return t->by_pair[pair_slot(t, left, right)] - 1; // 0 - 1 is UINT32_MAX
}

bool mh_tokenizer_add_merge(mh_context *context, mh_tokenizer *t, mh_merge merge)
{
    if (!mh_grow(context, &t->merges, &t->merge_capacity, t->merge_count + 1, sizeof *t->merges))
        return false;
    t->merges[t->merge_count++] = merge;
    return true;
}

static mh_status index_merges(mh_context *context, mh_tokenizer *t)
{
    size_t wanted = 2 * t->merge_count + 1;
    if (!mh_grow(context, &t->by_pair, &t->by_pair_size, wanted, sizeof *t->by_pair))
        return MH_ERROR_MEMORY;
    memset(t->by_pair, 0, t->by_pair_size * sizeof *t->by_pair);
    for (size_t rank = 0; rank < t->merge_count; rank++) {
        const mh_merge *m = &t->merges[rank];
        size_t slot = pair_slot(t, m->left, m->right);
        if (t->by_pair[slot] != 0)
            return mh_fail(context, MH_ERROR_FORMAT, "merge %zu is the same as merge %u", rank,
                           t->by_pair[slot] - 1);
        t->by_pair[slot] = (uint32_t)rank + 1;
    }
    return MH_OK;
}

// A token is whole if its bytes, as a word, encode to it alone. Not every token is: a file may
// have tokens that no merge makes, and merges may lead elsewhere.
static mh_status mark_whole(mh_context *context, mh_tokenizer *t)
{
    size_t longest = 1;
    for (size_t id = 0; id < t->count; id++)
        if (t->tokens[id].size > longest)
            longest = t->tokens[id].size;
    size_t scratch_size = mh_word_scratch(longest), ids_size = longest * sizeof(int32_t);
    int32_t *ids = mh_alloc(context, ids_size);
    void *scratch = mh_alloc(context, scratch_size);
    for (size_t id = 0; ids && scratch && id < t->count; id++)
        t->tokens[id].whole =
            t->tokens[id].kind == MH_TOKEN_TEXT &&
            mh_word_encode(t, mh_token_bytes(t, id), t->tokens[id].size, scratch, ids) == 1 &&
            (size_t)ids[0] == id;
    mh_status status = ids && scratch ? MH_OK : MH_ERROR_MEMORY;
    mh_free(context, ids, ids_size);
    mh_free(context, scratch, scratch_size);
    return status;
}

mh_status mh_tokenizer_finish(mh_context *context, mh_tokenizer *t)
{
    mh_status status = index_merges(context, t);
    return status == MH_OK ? mark_whole(context, t) : status;
}

// ---- public accessors -----------------------------------------------------------------------

size_t mh_tokenizer_size(const mh_tokenizer *t) { return t ? t->count : 0; }
int32_t mh_tokenizer_pad(const mh_tokenizer *t) { return t ? t->pad : -1; }
int32_t mh_tokenizer_bos(const mh_tokenizer *t) { return t ? t->bos : -1; }
int32_t mh_tokenizer_eos(const mh_tokenizer *t) { return t ? t->eos : -1; }

bool mh_tokenizer_token(const mh_tokenizer *t, int32_t id, mh_text *text, mh_token_kind *kind)
{
    if (!t || !text || id < 0 || (size_t)id >= t->count)
        return false;
    *text = (mh_text){mh_token_bytes(t, (size_t)id), t->tokens[id].size};
    if (kind)
        *kind = (mh_token_kind)t->tokens[id].kind;
    return true;
}
