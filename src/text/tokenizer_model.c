// SPDX-License-Identifier: MIT
// What the models share: their output, and the tables that are built when a vocabulary is complete.
#include "base/argument_check.h"
#include "text/tokenizer_models.h"

#include <math.h>
#include <stdio.h>

void mh_model_output_free(mh_context *context, mh_model_output *out)
{
    mh_shrink(context, &out->tokens, &out->capacity, sizeof *out->tokens);
    mh_shrink(context, &out->scratch, &out->scratch_capacity, 1);
    out->count = 0;
}

bool mh_model_add(mh_context *context, mh_model_output *out, int32_t id, size_t begin, size_t end)
{
    if (out->count == out->capacity &&
        !mh_grow(context, &out->tokens, &out->capacity, out->count + 1, sizeof *out->tokens))
        return false;
    out->tokens[out->count++] = (mh_model_token){id, (uint32_t)begin, (uint32_t)end};
    return true;
}

static void find_fallback(mh_tokenizer *t)
{
    for (unsigned byte = 0; byte < 256; byte++) {
        char name[8];
        int size = snprintf(name, sizeof name, "<0x%02X>", byte);
        size_t id = mh_tokenizer_find_name(t, name, (size_t)size);
        t->parts.fallback[byte] = id == SIZE_MAX ? -1 : (int32_t)id;
    }
}

// ---- tries --------------------------------------------------------------------------------------

static mh_status build_trie(mh_context *context, mh_tokenizer *t)
{
    mh_trie_key *keys = NULL;
    size_t capacity = 0, count = 0;
    if (!mh_grow(context, &keys, &capacity, t->count + 1, sizeof *keys))
        return MH_ERROR_MEMORY;
    for (size_t id = 0; id < t->count; id++)
        if (t->tokens[id].size > 0)
            keys[count++] = (mh_trie_key){mh_token_bytes(t, id), t->tokens[id].size, (uint32_t)id};
    bool built = mh_trie_build(context, &t->parts.trie, keys, count);
    mh_shrink(context, &keys, &capacity, sizeof *keys);
    return built ? MH_OK : MH_ERROR_MEMORY;
}

static void find_continuing(mh_tokenizer *t)
{
    const mh_text prefix = mh_span_text(t, t->parts.prefix);
    uint32_t node = 0;
    for (size_t i = 0; i < prefix.size; i++) {
        node = mh_trie_child(&t->parts.trie, node, (unsigned char)prefix.bytes[i]);
        if (node == MH_NO_NODE)
            break;
    }
    t->parts.continuing = node;
}

static void find_unknown_score(mh_tokenizer *t, size_t pieces)
{
    double least = INFINITY;
    for (size_t i = 0; i < pieces; i++)
        if (t->tokens[i].size > 0 && t->parts.scores[i] < least)
            least = t->parts.scores[i];
    t->parts.unk_score = (isfinite(least) ? least : 0) - 10;
}

mh_status mh_model_index(mh_context *context, mh_tokenizer *t)
{
    find_fallback(t);
    switch (t->parts.model) {
    case MH_MODEL_BPE:
        return mh_tokenizer_finish(context, t);
    case MH_MODEL_UNIGRAM:
        if (t->parts.trie.nodes) // of pieces that are not the tokens
            return MH_OK;
        find_unknown_score(t,
                           t->count < t->parts.score_capacity ? t->count : t->parts.score_capacity);
        return build_trie(context, t);
    case MH_MODEL_WORDPIECE: {
        mh_status status = build_trie(context, t);
        if (status == MH_OK)
            find_continuing(t);
        return status;
    }
    case MH_MODEL_WORDLEVEL:
        break;
    }
    return MH_OK;
}
