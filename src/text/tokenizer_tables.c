// SPDX-License-Identifier: MIT
// Tokens and merges of a tokenizer, and the two hash tables that index them: open addressing,
// linear probing, at most half full. Results never depend on the order of a table. The hash is
// seeded per tokenizer, because a file whose tokens all collide would take minutes to read.
#include "text/tokenizer_models.h"

#include "base/argument_check.h"
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
        for (size_t i = 0; i < MH_ROLE_COUNT; i++)
            t->roles[i] = -1;
        t->parts.unk = -1;
        memset(t->byte_ids, 0xFF, sizeof t->byte_ids);
    }
    return t;
}

static void release_list(const mh_allocator *allocator, const mh_component_list *list)
{
    mh_release(allocator, list->items, list->capacity * sizeof *list->items);
}

static void release_trie(const mh_allocator *allocator, const mh_trie *trie)
{
    mh_release(allocator, trie->nodes, trie->capacity * sizeof *trie->nodes);
}

static void release_parts(const mh_allocator *allocator, const mh_components *p)
{
    release_list(allocator, &p->normalizers);
    release_list(allocator, &p->pre_tokenizers);
    release_list(allocator, &p->decoders);
    release_trie(allocator, &p->trie);
    release_trie(allocator, &p->added.raw);
    release_trie(allocator, &p->added.normal);
    mh_release(allocator, p->added.items, p->added.capacity * sizeof *p->added.items);
    mh_release(allocator, p->scores, p->score_capacity * sizeof *p->scores);
    mh_release(allocator, p->piece_ids, p->piece_capacity * sizeof *p->piece_ids);
    mh_release(allocator, p->charsmap.units, p->charsmap.capacity * sizeof *p->charsmap.units);
    mh_release(allocator, p->single_text.items,
               p->single_text.capacity * sizeof *p->single_text.items);
    mh_release(allocator, p->pair.items, p->pair.capacity * sizeof *p->pair.items);
}

void mh_tokenizer_free(mh_tokenizer *t)
{
    if (!t)
        return;
    const mh_allocator allocator = t->allocator;
    mh_release(&allocator, t->tokens, t->capacity * sizeof *t->tokens);
    mh_release(&allocator, t->merges, t->merge_capacity * sizeof *t->merges);
    mh_release(&allocator, t->by_bytes, t->by_bytes_size * sizeof *t->by_bytes);
    mh_release(&allocator, t->by_name, t->by_name_size * sizeof *t->by_name);
    mh_release(&allocator, t->by_pair, t->by_pair_size * sizeof *t->by_pair);
    mh_release(&allocator, t->bytes.data, t->bytes.capacity);
    release_parts(&allocator, &t->parts);
    mh_release(&allocator, t, sizeof *t);
}

// ---- tokens -------------------------------------------------------------------------------------

// The slot that holds the token of these bytes, or the free one where it would be.
static size_t find_slot(const mh_tokenizer *t, const char *bytes, size_t size)
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
    uint32_t found = t->by_bytes[find_slot(t, bytes, size)];
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
            slots[find_slot(t, mh_token_bytes(t, id), t->tokens[id].size)] = (uint32_t)id + 1;
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
        t->by_bytes[find_slot(t, bytes, size)] = (uint32_t)t->count + 1;
        t->by_bytes_used++;
        if (size == 1)
            t->byte_ids[(unsigned char)bytes[0]] = (uint32_t)t->count;
    }
    t->tokens[t->count++] = (mh_token_entry){.begin = begin,
                                             .name = begin,
                                             .size = (uint32_t)size,
                                             .name_size = (uint32_t)size,
                                             .kind = (uint8_t)kind};
    return true;
}

bool mh_tokenizer_keep(mh_context *context, mh_tokenizer *t, const char *bytes, size_t size,
                       mh_span *span)
{
    *span = (mh_span){t->bytes.size, size};
    return mh_buffer_append(context, &t->bytes, bytes, size);
}

bool mh_tokenizer_place(mh_context *context, mh_tokenizer *t, size_t id, mh_text name, mh_text key)
{
    mh_span name_span, key_span;
    size_t before = t->count;
    if (!mh_grow(context, &t->tokens, &t->capacity, id + 1, sizeof *t->tokens))
        return false;
    if (id >= t->count) {
        memset(t->tokens + before, 0, (id + 1 - before) * sizeof *t->tokens);
        t->count = id + 1;
    }
    bool same = key.size == name.size && memcmp(key.bytes, name.bytes, key.size) == 0;
    if (!mh_tokenizer_keep(context, t, name.bytes, name.size, &name_span))
        return false;
    key_span = name_span;
    if (!same && !mh_tokenizer_keep(context, t, key.bytes, key.size, &key_span))
        return false;
    t->tokens[id] = (mh_token_entry){.begin = key_span.begin,
                                     .name = name_span.begin,
                                     .size = (uint32_t)key_span.size,
                                     .name_size = (uint32_t)name_span.size,
                                     .kind = MH_TOKEN_TEXT};
    return true;
}

// ---- names --------------------------------------------------------------------------------------

static size_t find_name_slot(const mh_tokenizer *t, const char *name, size_t size)
{
    size_t mask = t->by_name_size - 1, slot = (size_t)mh_hash_bytes(t->seed, name, size) & mask;
    for (; t->by_name[slot] != 0; slot = (slot + 1) & mask) {
        mh_text other = mh_token_name(t, t->by_name[slot] - 1);
        if (other.size == size && memcmp(other.bytes, name, size) == 0)
            break;
    }
    return slot;
}

size_t mh_tokenizer_find_name(const mh_tokenizer *t, const char *name, size_t size)
{
    if (t->by_name_size == 0 || size == 0)
        return SIZE_MAX;
    uint32_t found = t->by_name[find_name_slot(t, name, size)];
    return found ? found - 1 : SIZE_MAX;
}

static bool widen_by_name(mh_context *context, mh_tokenizer *t, size_t wanted)
{
    uint32_t *slots = NULL;
    size_t size = 0;
    if (!mh_grow(context, &slots, &size, wanted, sizeof *slots))
        return false;
    memset(slots, 0, size * sizeof *slots);
    mh_shrink(context, &t->by_name, &t->by_name_size, sizeof *t->by_name);
    t->by_name = slots;
    t->by_name_size = size;
    t->by_name_used = 0;
    for (size_t id = 0; id < t->count; id++) { // of equal names the last one
        mh_text name = mh_token_name(t, id);
        if (name.size == 0)
            continue;
        slots[find_name_slot(t, name.bytes, name.size)] = (uint32_t)id + 1;
        t->by_name_used++;
    }
    return true;
}

bool mh_tokenizer_index_name(mh_context *context, mh_tokenizer *t, size_t id)
{
    if (2 * (t->by_name_used + 1) > t->by_name_size)
        return widen_by_name(context, t, 4 * t->count + 1);
    mh_text name = mh_token_name(t, id);
    t->by_name[find_name_slot(t, name.bytes, name.size)] = (uint32_t)id + 1;
    t->by_name_used++;
    return true;
}

bool mh_tokenizer_index_keys(mh_context *context, mh_tokenizer *t)
{
    if (!widen_by_name(context, t, 2 * t->count + 1) ||
        !mh_grow(context, &t->by_bytes, &t->by_bytes_size, 2 * t->count + 1, sizeof *t->by_bytes))
        return false;
    memset(t->by_bytes, 0, t->by_bytes_size * sizeof *t->by_bytes);
    for (size_t id = 0; id < t->count; id++) {
        const char *key = mh_token_bytes(t, id);
        uint32_t size = t->tokens[id].size;
        if (size > 0) // of equal keys the last one
            t->by_bytes[find_slot(t, key, size)] = (uint32_t)id + 1;
        if (size == 1)
            t->byte_ids[(unsigned char)key[0]] = (uint32_t)id;
    }
    return true;
}

// ---- merges -------------------------------------------------------------------------------------

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

const mh_merge *mh_tokenizer_merge(const mh_tokenizer *t, uint32_t left, uint32_t right)
{
    uint32_t found = t->by_pair[pair_slot(t, left, right)];
    return found ? &t->merges[found - 1] : NULL;
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

// Ours: the rank of a merge is its place.
static void rank_merges(mh_tokenizer *t)
{
    for (size_t i = 0; i < t->merge_count; i++)
        t->merges[i].rank = (uint32_t)i;
}

// A token is whole if its bytes, as a word, encode to it alone. Not every token is: a file may
// have tokens that no merge makes, and merges may lead elsewhere.
static mh_status mark_whole(mh_context *context, mh_tokenizer *t)
{
    mh_model_output out = {0};
    mh_status status = MH_OK;
    for (size_t id = 0; status == MH_OK && id < t->count; id++) {
        out.count = 0;
        t->tokens[id].whole = false;
        if (t->tokens[id].size == 0 ||
            mh_tokenizer_find(t, mh_token_bytes(t, id), t->tokens[id].size) != id)
            continue;
        status = mh_bpe_encode(context, t, mh_token_bytes(t, id), t->tokens[id].size, 0, &out);
        t->tokens[id].whole = out.count == 1 && (size_t)out.tokens[0].id == id;
    }
    mh_model_output_free(context, &out);
    return status;
}

mh_status mh_tokenizer_finish(mh_context *context, mh_tokenizer *t)
{
    if (t->own)
        rank_merges(t);
    mh_status status = index_merges(context, t);
    return status == MH_OK ? mark_whole(context, t) : status;
}

// ---- public accessors ---------------------------------------------------------------------------

size_t mh_tokenizer_size(const mh_tokenizer *t) { return t ? t->count : 0; }
int32_t mh_tokenizer_pad(const mh_tokenizer *t) { return mh_tokenizer_role(t, MH_ROLE_PAD); }
int32_t mh_tokenizer_bos(const mh_tokenizer *t) { return mh_tokenizer_role(t, MH_ROLE_BOS); }
int32_t mh_tokenizer_eos(const mh_tokenizer *t) { return mh_tokenizer_role(t, MH_ROLE_EOS); }

int32_t mh_tokenizer_role(const mh_tokenizer *t, mh_token_role role)
{
    return t && (unsigned)role < MH_ROLE_COUNT ? t->roles[role] : -1;
}

bool mh_tokenizer_name(const mh_tokenizer *t, int32_t id, mh_text *name)
{
    if (!t || !name || id < 0 || (size_t)id >= t->count || t->tokens[id].name_size == 0)
        return false;
    *name = mh_token_name(t, (size_t)id);
    return true;
}

int32_t mh_tokenizer_id(const mh_tokenizer *t, const char *name, size_t size)
{
    size_t id = t && name ? mh_tokenizer_find_name(t, name, size) : SIZE_MAX;
    return id == SIZE_MAX ? -1 : (int32_t)id;
}

bool mh_tokenizer_token(const mh_tokenizer *t, int32_t id, mh_text *text, mh_token_kind *kind)
{
    if (!t || !text || id < 0 || (size_t)id >= t->count || t->tokens[id].name_size == 0)
        return false;
    bool key = t->tokens[id].kind == MH_TOKEN_TEXT && t->tokens[id].size > 0;
    *text = key ? (mh_text){mh_token_bytes(t, (size_t)id), t->tokens[id].size}
                : mh_token_name(t, (size_t)id);
    if (kind)
        *kind = (mh_token_kind)t->tokens[id].kind;
    return true;
}
