// SPDX-License-Identifier: MIT
// WordPiece and WordLevel. WordPiece takes the longest token that the word begins with, then the
// longest that continues it ("##" in front), and so on; a word that this does not cover is
// unknown. Both kinds of tokens are in one trie: a search for those that continue begins behind
// "##".
#include "base/argument_check.h"
#include "text/tokenizer_models.h"

static bool is_longer(const char *text, size_t size, size_t characters)
{
    size_t count = 0;
    if (size <= characters)
        return false;
    for (size_t i = 0; i < size; i++)
        count += (text[i] & 0xC0) != 0x80;
    return count > characters;
}

static mh_status tokenizer_wordpiece_add_unknown(mh_context *context, const mh_tokenizer *t,
                                                 size_t begin, size_t end, mh_model_output *out)
{
    if (t->parts.unk < 0)
        return mh_fail(context, MH_ERROR_UNSUPPORTED,
                       "encode: bytes %zu to %zu are unknown, and there is no unknown token", begin,
                       end);
    return mh_model_add(context, out, t->parts.unk, begin, end) ? MH_OK : MH_ERROR_MEMORY;
}

mh_status mh_wordpiece_encode(mh_context *context, const mh_tokenizer *t, const char *text,
                              size_t size, size_t origin, mh_model_output *out)
{
    const mh_components *parts = &t->parts;
    size_t before = out->count;
    if (is_longer(text, size, parts->max_chars))
        return tokenizer_wordpiece_add_unknown(context, t, origin, origin + size, out);
    for (size_t at = 0, length; at < size; at += length) {
        uint32_t node = at == 0 ? 0 : parts->continuing, id = UINT32_MAX;
        if (at == 0 || parts->prefix.size == 0 || node != MH_NO_NODE)
            id = mh_trie_longest(&parts->trie, node, text + at, size - at, &length);
        if (id == UINT32_MAX) {
            out->count = before;
            return tokenizer_wordpiece_add_unknown(context, t, origin, origin + size, out);
        }
        if (!mh_model_add(context, out, (int32_t)id, origin + at, origin + at + length))
            return MH_ERROR_MEMORY;
    }
    return MH_OK;
}

mh_status mh_wordlevel_encode(mh_context *context, const mh_tokenizer *t, const char *text,
                              size_t size, size_t origin, mh_model_output *out)
{
    size_t id = mh_tokenizer_find(t, text, size);
    if (id == SIZE_MAX)
        return tokenizer_wordpiece_add_unknown(context, t, origin, origin + size, out);
    return mh_model_add(context, out, (int32_t)id, origin, origin + size) ? MH_OK : MH_ERROR_MEMORY;
}
