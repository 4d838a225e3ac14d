// SPDX-License-Identifier: MIT
// Added tokens: texts that become a token wherever they stand, whatever the model would make of
// them. They are looked for from left to right, the longest first.
#include "base/context.h"
#include "text/tokenizer_classes.h"
#include "text/tokenizer_patterns.h"
#include "text/tokenizer_pieces.h"

static bool word_before(const char *text, size_t at)
{
    size_t length;
    if (at == 0)
        return false;
    do
        at--;
    while (at > 0 && (text[at] & 0xC0) == 0x80);
    return mh_is_word_character(mh_utf8_decode(text + at, &length));
}

static bool word_after(const char *text, size_t size, size_t at)
{
    size_t length;
    return at < size && mh_is_word_character(mh_utf8_decode(text + at, &length));
}

static size_t skip_white(const char *text, size_t size, size_t at)
{
    for (size_t length; at < size; at += length)
        if (!mh_is_white(mh_utf8_decode(text + at, &length)))
            break;
    return at;
}

// A match as it is taken: false if it does not count, else with the whitespace that belongs to it.
static bool accept(const mh_added_token *token, bool special, const char *text, size_t size,
                   size_t free, size_t *begin, size_t *end)
{
    if ((token->special && !special) ||
        (token->single_word && (word_before(text, *begin) || word_after(text, size, *end))))
        return false;
    if (token->left) {
        size_t white = mh_white_begin(text, *begin);
        *begin = white > free ? white : free;
    }
    if (token->right)
        *end = skip_white(text, size, *end);
    return true;
}

bool mh_added_split(mh_context *context, const mh_tokenizer *t, bool normalized, bool special,
                    const char *all, size_t from, size_t size, mh_piece_list *pieces)
{
    const mh_added_list *added = &t->parts.added;
    const mh_trie *trie = normalized ? &added->normal : &added->raw;
    const char *text = all + from;
    size_t free = 0; // where the last piece ended
    for (size_t at = 0; trie->nodes && at < size;) {
        size_t length, begin = at, end;
        uint32_t found = UINT32_MAX;
        if (trie->root[(unsigned char)text[at]] != MH_NO_NODE)
            found = mh_trie_longest(trie, 0, text + at, size - at, &length);
        if (found == UINT32_MAX) {
            at++;
            continue;
        }
        at = end = at + length; // a match that does not count hides what is within it
        const mh_added_token *token = &added->items[found];
        if (!accept(token, special, text, size, free, &begin, &end))
            continue; // whitespace that a token took may be another token as well, as in tokenizers
        if ((begin > free && !mh_piece_add(context, pieces, from + free, begin - free, -1)) ||
            !mh_piece_add(context, pieces, from + begin, end - begin, token->id))
            return false;
        free = end;
    }
    return free == size || mh_piece_add(context, pieces, from + free, size - free, -1);
}

// ---- tries
// ----------------------------------------------------------------------------------------

static bool build(mh_context *context, mh_tokenizer *t, bool normalized, mh_trie *trie)
{
    const mh_added_list *added = &t->parts.added;
    mh_trie_key *keys = NULL;
    size_t capacity = 0, count = 0;
    if (!mh_grow(context, &keys, &capacity, added->count, sizeof *keys))
        return false;
    for (size_t i = 0; i < added->count; i++) {
        const mh_added_token *token = &added->items[i];
        mh_text text = mh_kept(t, normalized ? token->normal : token->content);
        if (token->normalized == normalized && text.size > 0)
            keys[count++] = (mh_trie_key){text.bytes, text.size, (uint32_t)i};
    }
    bool built = count == 0 || mh_trie_build(context, trie, keys, count);
    mh_shrink(context, &keys, &capacity, sizeof *keys);
    return built;
}

static bool normalize_content(mh_context *context, mh_tokenizer *t, mh_added_token *token)
{
    mh_aligned text = {.plain = true}, spare = {.plain = true};
    mh_form_scratch scratch = {0};
    mh_text content = mh_kept(t, token->content);
    bool done = mh_text_append(context, &text.text, content.bytes, content.size) &&
                mh_normalize(context, t, true, &scratch, &text, &spare) &&
                mh_tokenizer_keep(context, t, text.text.bytes, text.text.size, &token->normal);
    mh_aligned_free(context, &text);
    mh_aligned_free(context, &spare);
    mh_form_scratch_free(context, &scratch);
    return done;
}

mh_status mh_added_index(mh_context *context, mh_tokenizer *t)
{
    mh_added_list *added = &t->parts.added;
    for (size_t i = 0; i < added->count; i++) {
        mh_added_token *token = &added->items[i];
        token->normal = token->content;
        if (token->normalized && !token->verbatim && t->parts.normalizers.count > 0 &&
            !normalize_content(context, t, token))
            return MH_ERROR_MEMORY;
    }
    return build(context, t, false, &added->raw) && build(context, t, true, &added->normal)
               ? MH_OK
               : MH_ERROR_MEMORY;
}
